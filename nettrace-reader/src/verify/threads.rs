//! What the checks know of each live thread beyond its definition.

use std::collections::HashMap;

use crate::trace::Thread;

/// The live threads: their last timestamps, and which ids of the operating system are taken.
#[derive(Debug, Default)]
pub(super) struct LiveThreads {
    /// By index.
    threads: HashMap<u64, Live>,
    /// How many live threads have an id of the operating system.
    os_ids: HashMap<u64, u32>,
}

#[derive(Clone, Copy, Debug)]
struct Live {
    os_id: Option<u64>,
    last_timestamp: u64,
}

impl LiveThreads {
    /// Adds a thread. Returns the id that it shares, as index on one side and as id of the operating
    /// system on the other, with another live thread.
    pub(super) fn add(&mut self, thread: &Thread) -> Option<u64> {
        let index_taken = self.os_ids.contains_key(&thread.index).then_some(thread.index);
        let os_id_taken = thread.os_thread_id.filter(|id| self.threads.contains_key(id));
        self.threads.insert(thread.index, Live { os_id: thread.os_thread_id, last_timestamp: 0 });
        if let Some(id) = thread.os_thread_id {
            *self.os_ids.entry(id).or_default() += 1;
        }
        index_taken.or(os_id_taken)
    }

    /// Adds a thread that nothing announced, if it is not there: versions 4 and 5 have no other.
    #[inline]
    pub(super) fn see(&mut self, thread: &Thread) {
        self.threads.entry(thread.index).or_insert(Live { os_id: None, last_timestamp: 0 });
    }

    pub(super) fn remove(&mut self, index: u64) {
        let Some(Live { os_id: Some(id), .. }) = self.threads.remove(&index) else { return };
        if let Some(count) = self.os_ids.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                self.os_ids.remove(&id);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.threads.clear();
        self.os_ids.clear();
    }

    /// The timestamp of the thread's last event, which takes what it is set to.
    pub(super) fn last_timestamp(&mut self, index: u64) -> Option<&mut u64> {
        self.threads.get_mut(&index).map(|live| &mut live.last_timestamp)
    }
}

#[cfg(test)]
mod tests {
    use super::LiveThreads;
    use crate::trace::Thread;

    #[test]
    fn an_index_may_not_be_the_id_of_another() {
        let thread = |index, id| Thread { index, os_thread_id: Some(id), ..Thread::default() };
        let mut live = LiveThreads::default();
        assert_eq!(live.add(&thread(1, 1)), None);
        assert_eq!(live.add(&thread(2, 70)), None);
        assert_eq!(live.add(&thread(3, 70)), None);
        assert_eq!(live.add(&thread(4, 2)), Some(2));
        assert_eq!(live.add(&thread(70, 5)), Some(70));
        live.remove(70);
        live.remove(2);
        assert_eq!(live.add(&thread(70, 5)), Some(70));
        live.remove(70);
        live.remove(3);
        assert_eq!(live.add(&thread(70, 5)), None);
        live.clear();
        assert_eq!(live.add(&thread(5, 70)), None);
    }
}
