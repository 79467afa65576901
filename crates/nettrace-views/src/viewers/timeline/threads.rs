//! The threads that the source has defined.

use foldhash::HashMap;
use nettrace_reader::Thread;

use crate::viewers::spans::Spans;

/// How many threads are remembered before those are forgotten that record nothing.
const MANY: usize = 4096;

/// The threads whose events have come.
#[derive(Debug, Default)]
pub(super) struct Threads {
    /// Their numbers, by their indices.
    pub(super) numbers: HashMap<u64, usize>,
    pub(super) known: Vec<Known>,
    free: Vec<usize>,
    last: usize,
    /// The number of the definition of the last thread, as the source counts them. 0 if there is
    /// none.
    last_definition: u64,
    /// From this number on, threads are forgotten.
    many: usize,
}

/// A thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) process: Option<u64>,
    pub(super) thread: Thread,
    /// The losses that were drawn.
    pub(super) lost: u64,
    /// When it recorded its last event.
    epoch: u64,
}

impl Threads {
    /// The number of the thread of an event, if it is that of the event before.
    #[inline]
    pub(super) fn is_last(&self, definition: u64) -> Option<usize> {
        (self.last_definition == definition).then_some(self.last)
    }

    /// Notes the definition of the thread that was found or added last.
    pub(super) fn defined_by(&mut self, definition: u64) {
        self.last_definition = definition;
    }

    /// The number of a thread, if it is the one that is known by its index.
    pub(super) fn find(&mut self, thread: &Thread, epoch: u64) -> Option<usize> {
        self.last_definition = 0;
        if let Some(known) = self.known.get(self.last) {
            if known.thread == *thread {
                return Some(self.last);
            }
        }
        let number = *self.numbers.get(&thread.index)?;
        let known = &mut self.known[number];
        if known.thread != *thread {
            return None;
        }
        known.epoch = epoch;
        self.last = number;
        Some(number)
    }

    pub(super) fn add(&mut self, thread: &Thread, process: Option<u64>, epoch: u64) -> usize {
        let known = Known { process, thread: thread.clone(), lost: 0, epoch };
        let number = self.free.pop().unwrap_or(self.known.len());
        if number == self.known.len() {
            self.known.push(known);
        } else {
            self.known[number] = known;
        }
        self.numbers.insert(thread.index, number);
        self.last = number;
        number
    }

    pub(super) fn remove(
        &mut self,
        index: u64,
        number: usize,
        spans: &mut Spans,
        out: &mut Vec<u8>,
    ) {
        self.numbers.remove(&index);
        self.known[number] = Known::default();
        (self.last, self.last_definition) = (usize::MAX, 0);
        spans.end_thread(number, out);
        self.free.push(number);
    }

    /// Forgets threads that recorded nothing lately, if there are many. If one of them records
    /// again, its track is described again.
    pub(super) fn begin_epoch(&mut self, epoch: u64, spans: &mut Spans, out: &mut Vec<u8>) {
        (self.last, self.last_definition) = (usize::MAX, 0);
        if self.numbers.len() < self.many.max(MANY) {
            return;
        }
        let is_idle = |(_, number): &(u64, usize)| {
            let known = &self.known[*number];
            known.epoch + 2 < epoch && known.lost == 0
        };
        let all = self.numbers.iter().map(|(index, number)| (*index, *number));
        let idle: Vec<_> = all.filter(is_idle).collect();
        for (index, number) in idle {
            self.remove(index, number, spans, out);
        }
        self.many = 2 * self.numbers.len();
    }
}
