//! The state of the checks for each thread.

use std::collections::HashMap;

use nettrace_format::Thread;

/// The live threads: their last timestamps, and the OS ids in use.
///
/// The reference reader keeps a removed thread in its table until a sequence point. Then it removes
/// the thread whose index equals the OS id of the removed one. So the index and the OS id of a
/// removed thread stay in use until all threads are flushed.
#[derive(Debug, Default)]
pub(super) struct LiveThreads {
    /// By index.
    threads: HashMap<u64, Live>,
    /// By OS id: how many threads have it, including removed ones.
    os_ids: HashMap<u64, u32>,
    /// By index: the OS ids of removed threads.
    removed: HashMap<u64, Option<u64>>,
}

#[derive(Clone, Copy, Debug)]
struct Live {
    os_id: Option<u64>,
    last_timestamp: u64,
}

/// What is wrong with the index of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clash {
    /// A number is the index of one thread and the OS id of another.
    Id(u64),
    /// A removed thread had the same index.
    Reused,
}

/// The number of removed threads to remember. With one more, all are forgotten, to bound the
/// memory.
const MOST_REMOVED: usize = 1 << 16;

impl LiveThreads {
    /// Adds a thread. Returns the clash of its index, if there is one.
    pub(super) fn add(&mut self, thread: &Thread) -> Option<Clash> {
        let index_taken = self.os_ids.contains_key(&thread.index).then_some(thread.index);
        let os_id_taken = thread.os_thread_id.filter(|id| self.threads.contains_key(id));
        let is_reused = self.removed.contains_key(&thread.index);
        self.threads.insert(thread.index, Live { os_id: thread.os_thread_id, last_timestamp: 0 });
        if let Some(id) = thread.os_thread_id {
            *self.os_ids.entry(id).or_default() += 1;
        }
        if is_reused {
            return Some(Clash::Reused);
        }
        index_taken.or(os_id_taken).map(Clash::Id)
    }

    /// Adds a thread of versions 4 and 5, which do not define threads, if it is new.
    #[inline]
    pub(super) fn see(&mut self, thread: &Thread) {
        self.threads.entry(thread.index).or_insert(Live { os_id: None, last_timestamp: 0 });
    }

    pub(super) fn remove(&mut self, index: u64) {
        if let Some(live) = self.threads.remove(&index) {
            self.removed.insert(index, live.os_id);
        }
        if self.removed.len() > MOST_REMOVED {
            self.forget_removed(|_, _| true);
        }
    }

    /// Forgets an old thread of versions 4 and 5, which do not state that a thread has ended.
    pub(super) fn forget(&mut self, index: u64) {
        self.threads.remove(&index);
    }

    /// Notes a sequence point, which makes the indices of removed threads available again if they
    /// equal the threads' OS ids.
    pub(super) fn pass_point(&mut self) {
        self.forget_removed(|index, os_id| os_id == Some(index));
    }

    fn forget_removed(&mut self, which: impl Fn(u64, Option<u64>) -> bool) {
        let Self { removed, os_ids, .. } = self;
        removed.retain(|index, os_id| {
            let stays = !which(*index, *os_id);
            if let Some(count) = os_id.filter(|_| !stays).and_then(|id| os_ids.get_mut(&id)) {
                *count -= 1;
            }
            stays
        });
        os_ids.retain(|_, count| *count > 0);
    }

    pub(super) fn clear(&mut self) {
        self.threads.clear();
        self.os_ids.clear();
        self.removed.clear();
    }

    /// The timestamp of the thread's last event, for a change.
    pub(super) fn last_timestamp(&mut self, index: u64) -> Option<&mut u64> {
        self.threads.get_mut(&index).map(|live| &mut live.last_timestamp)
    }
}

#[cfg(test)]
mod tests {
    use super::{Clash, LiveThreads};
    use nettrace_format::Thread;

    fn thread(index: u64, id: u64) -> Thread {
        Thread { index, os_thread_id: Some(id), ..Thread::default() }
    }

    #[test]
    fn an_index_may_not_be_the_id_of_another() {
        let mut live = LiveThreads::default();
        assert_eq!(live.add(&thread(1, 1)), None);
        assert_eq!(live.add(&thread(2, 70)), None);
        assert_eq!(live.add(&thread(3, 70)), None);
        assert_eq!(live.add(&thread(4, 2)), Some(Clash::Id(2)));
        assert_eq!(live.add(&thread(70, 5)), Some(Clash::Id(70)));
        live.clear();
        assert_eq!(live.add(&thread(5, 70)), None);
    }

    #[test]
    fn a_removed_thread_keeps_its_index_and_its_id() {
        let mut live = LiveThreads::default();
        assert_eq!(live.add(&thread(1, 50)), None);
        assert_eq!(live.add(&thread(6, 6)), None);
        live.remove(1);
        live.remove(6);
        live.pass_point();
        assert_eq!(live.add(&thread(50, 7)), Some(Clash::Id(50)));
        assert_eq!(live.add(&thread(1, 51)), Some(Clash::Reused));
        // Even the reference reader has forgotten this one.
        assert_eq!(live.add(&thread(6, 8)), None);
        live.clear();
        assert_eq!(live.add(&thread(1, 50)), None);
    }

    #[test]
    fn not_all_removed_threads_are_remembered() {
        let mut live = LiveThreads::default();
        for index in 0..200_000 {
            assert_eq!(live.add(&thread(index, index + 1_000_000)), None);
            live.remove(index);
            assert!(live.removed.len() <= super::MOST_REMOVED && live.os_ids.len() <= 1 << 17);
        }
    }
}
