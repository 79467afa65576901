//! The numbers of each thread that are held back.
//!
//! If the process is killed, they are in no file. A recorder file has the counts, so that they are
//! told as lost then.

use std::{collections::BTreeMap, mem};

use nettrace_format::v6::ThreadSequence;

use crate::tail::trees::in_map;

/// The last numbers of threads in the session's stream, and how many are new.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    last: BTreeMap<u64, u32>,
    new: Vec<(u64, u64)>,
    /// A thread whose rows follow each other, and its last number.
    run: Option<(u64, u32)>,
}

impl Numbers {
    /// Takes over the number of a row.
    pub(super) fn row(&mut self, thread: u64, number: u32) {
        if self.run.is_none_or(|(of, _)| of != thread) {
            self.end_run();
        }
        self.run = Some((thread, number));
    }

    /// Takes over numbers that are told without a row.
    pub(super) fn told(&mut self, threads: &[ThreadSequence]) {
        self.end_run();
        threads.iter().for_each(|of| self.reach(of.thread, of.sequence));
    }

    /// As [`told`](Self::told). The threads end.
    pub(super) fn removed(&mut self, threads: &[ThreadSequence]) {
        self.told(threads);
        threads.iter().for_each(|of| _ = self.last.remove(&of.thread));
    }

    /// How many numbers of each thread are new since the last call.
    pub(super) fn take(&mut self) -> Vec<(u64, u64)> {
        self.end_run();
        mem::take(&mut self.new)
    }

    pub(super) fn bytes(&self) -> usize {
        self.last.len() * in_map(size_of::<(u64, u32)>())
    }

    fn end_run(&mut self) {
        if let Some((thread, number)) = self.run.take() {
            self.reach(thread, number);
        }
    }

    fn reach(&mut self, thread: u64, number: u32) {
        let last = self.last.entry(thread).or_default();
        // A lower one says nothing new.
        let new = number.wrapping_sub(*last);
        if new > 0 && new <= i32::MAX as u32 {
            *last = number;
            self.new.push((thread, new.into()));
        }
    }
}

/// How many numbers are not decided upon.
#[derive(Debug, Default)]
pub(super) struct Undecided {
    of: BTreeMap<u64, u64>,
    all: u64,
}

impl Undecided {
    pub(super) fn add(&mut self, numbers: &[(u64, u64)]) {
        for (thread, count) in numbers {
            *self.of.entry(*thread).or_default() += count;
            self.all += count;
        }
    }

    pub(super) fn subtract(&mut self, numbers: &[(u64, u64)]) {
        for (thread, count) in numbers {
            self.all = self.all.saturating_sub(*count);
            if let Some(of) = self.of.get_mut(thread) {
                *of = of.saturating_sub(*count);
                if *of == 0 {
                    self.of.remove(thread);
                }
            }
        }
    }

    /// Those of a thread, or of all.
    pub(super) fn of(&self, thread: Option<u64>) -> u64 {
        thread.map_or(self.all, |thread| self.of.get(&thread).copied().unwrap_or(0))
    }

    pub(super) fn bytes(&self) -> usize {
        self.of.len() * in_map(size_of::<(u64, u64)>())
    }
}
