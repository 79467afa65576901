//! The sequence numbers of threads in versions 4 and 5, where no block defines or removes a thread.
//!
//! Readers count a thread's losses from the first number that they see of it. So:
//!
//! * The first row of a thread has the number 1. If events before it were lost, they become a gap
//!   after it, which the thread's next row or the next sequence point shows.
//! * A sequence point names a thread only if the stream has a row of it. What other threads lost is
//!   *owed*: the thread that wrote last tells it, by a jump of its own numbers. The sum of losses
//!   is then right, although the thread is not.
//! * A thread that has ended is named by the next sequence point, and forgotten.

use alloc::{collections::BTreeMap, vec::Vec};
use core::mem;

use crate::v6::ThreadSequence;

/// The most threads that have ended and wait for the next sequence point. With one more, the oldest
/// half is forgotten, and their losses are owed. A point can be late if a thread is stuck. The
/// reference reader remembers 4,999 threads.
const MOST_GONE: usize = 4_096;

/// With so many threads that have ended, a sequence point should come soon.
const MANY_GONE: usize = 1_000;

/// The numbers of one stream.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    threads: BTreeMap<u64, Thread>,
    /// How many of `threads` have rows.
    with_rows: usize,
    /// Threads that have ended and that the next sequence point must name, the first ended first.
    gone: Vec<Gone>,
    state: State,
    /// Changes since the last [`settle`](Self::settle), and the marks among them. Nothing is logged
    /// before the first mark.
    log: Vec<Change>,
    marks: Vec<Mark>,
    /// The mark before the rows that no block contains yet.
    open: Option<Mark>,
}

/// The part of the state that a mark copies.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// How many lost events no thread has told yet.
    owed: u64,
    /// The thread that wrote last, with the number that the last sequence point gave for it.
    latest: Option<ThreadSequence>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// What is added to the numbers of the caller.
    shift: u32,
    has_rows: bool,
    /// The number that the stream shows, in the last row or a sequence point.
    shown: u32,
    /// The number of the last event. It exceeds `shown` after a first row, which must have the
    /// number 1.
    last: u32,
}

/// A thread that has ended.
#[derive(Clone, Copy, Debug)]
struct Gone {
    last: ThreadSequence,
    /// How many lost events before `last` the stream does not show yet.
    owes: u32,
}

#[derive(Debug)]
enum Change {
    /// A thread had this state before.
    Thread(u64, Option<Thread>),
    /// A thread joined `gone`.
    Gone,
    /// These left the front of `gone`.
    Forgotten(Vec<Gone>),
    /// A sequence point named these.
    Point(Vec<Gone>),
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    log: usize,
    with_rows: usize,
    state: State,
}

impl Numbers {
    /// A new stream begins, which shows nothing yet. What is owed stays owed.
    pub(crate) fn begin(&mut self) {
        let gone = mem::take(&mut self.gone);
        let gone = gone.iter().map(|gone| gone.owes);
        let live = self.threads.values().map(Thread::owes);
        let owed = self.state.owed + gone.chain(live).map(u64::from).sum::<u64>();
        *self = Self { state: State { owed, latest: None }, ..Self::default() };
    }

    /// The number of a thread's next row, and how many lost events before the row no reader notices
    /// yet.
    pub(crate) fn of_row(&self, thread: u64, sequence: u32) -> (u32, u32) {
        let known = self.threads.get(&thread).copied().unwrap_or_default();
        let number = sequence.wrapping_add(known.shift);
        if known.has_rows { (number, 0) } else { (1, number.wrapping_sub(1)) }
    }

    /// Notes a row that was written with the numbers of [`of_row`](Self::of_row).
    pub(crate) fn wrote(&mut self, thread: u64, (number, hidden): (u32, u32)) {
        self.open = self.open.or_else(|| Some(self.here()));
        let known = self.change(thread);
        let is_first = !mem::replace(&mut known.has_rows, true);
        (known.shown, known.last) = (number, number.wrapping_add(hidden));
        self.with_rows += usize::from(is_first);
        let sequence = self.state.latest.map_or(0, |latest| latest.sequence);
        self.state.latest = Some(ThreadSequence { thread, sequence });
    }

    /// Notes rows whose numbers follow the last row of the thread without a gap.
    pub(crate) fn wrote_more(&mut self, thread: u64, rows: u32) {
        let known = self.change(thread);
        known.shown = known.shown.wrapping_add(rows);
        known.last = known.shown;
    }

    /// Notes that the rows so far are in a block.
    pub(crate) fn end_block(&mut self) {
        self.open = None;
    }

    /// Removes threads that have ended, each with its last number.
    pub(crate) fn remove(&mut self, threads: &[ThreadSequence]) {
        for end in threads {
            let number = self.last_number(end);
            self.note(end.thread);
            let known = self.threads.remove(&end.thread).unwrap_or_default();
            if !known.has_rows {
                self.state.owed += u64::from(number);
                continue;
            }
            if self.gone.len() == MOST_GONE {
                self.forget_gone();
            }
            self.with_rows -= 1;
            let last = ThreadSequence { thread: end.thread, sequence: number };
            self.gone.push(Gone { last, owes: number.wrapping_sub(known.shown) });
            self.log(Change::Gone);
        }
    }

    /// Notes the last numbers of threads that have ended and whose ids other threads may get, who
    /// continue the numbers.
    pub(crate) fn release(&mut self, threads: &[ThreadSequence]) {
        for end in threads {
            self.reach(end);
        }
    }

    /// The entries of a sequence point that is told the last numbers of `threads`.
    pub(crate) fn point(&mut self, threads: &[ThreadSequence]) -> Vec<ThreadSequence> {
        for thread in threads {
            self.reach(thread);
        }
        if let Some(latest) = self.state.latest {
            if self.threads.get(&latest.thread).is_some_and(|thread| thread.has_rows) {
                let owed = mem::take(&mut self.state.owed) as u32;
                let thread = self.change(latest.thread);
                thread.shift = thread.shift.wrapping_add(owed);
                thread.last = thread.last.wrapping_add(owed);
            }
        }
        let gone = mem::take(&mut self.gone);
        let mut entries: Vec<_> = gone.iter().map(|gone| gone.last).collect();
        self.log(Change::Point(gone));
        // Those that the caller names, then those that have something to tell.
        for named in threads {
            self.tell(named.thread, &mut entries);
        }
        let untold = self.threads.iter().filter(|(_, thread)| thread.is_untold());
        let untold: Vec<_> = untold.map(|(index, _)| *index).collect();
        for thread in untold {
            self.tell(thread, &mut entries);
        }
        self.tell_owed(&mut entries);
        entries
    }

    /// Whether a sequence point would tell losses.
    pub(crate) fn has_untold_losses(&self) -> bool {
        self.gone.iter().any(|gone| gone.owes > 0)
            || self.state.owed > 0 && self.state.latest.is_some()
            || self.threads.values().any(Thread::is_untold)
    }

    /// How many lost events no thread has told yet.
    pub(crate) fn owed(&self) -> u64 {
        self.state.owed
    }

    /// The most threads that a sequence point names. One of them may have ended before the last
    /// point, and tells what is owed.
    pub(crate) fn most_named(&self) -> usize {
        self.with_rows + self.gone.len() + 1
    }

    /// Whether a sequence point should come soon.
    pub(crate) fn wants_point(&self) -> bool {
        self.gone.len() >= MANY_GONE
    }

    /// See [`Stage::mark`](crate::Stage::mark). A block that defines a stack can end while rows
    /// wait for their own block. These rows come after the mark.
    pub(crate) fn mark(&mut self) -> usize {
        let mark = self.open.unwrap_or_else(|| self.here());
        self.marks.push(mark);
        self.marks.len() - 1
    }

    fn here(&self) -> Mark {
        Mark { log: self.log.len(), with_rows: self.with_rows, state: self.state }
    }

    /// See [`Stage::rewind`](crate::Stage::rewind).
    pub(crate) fn rewind(&mut self, mark: usize) {
        let Some(&before) = self.marks.get(mark) else { return };
        while self.log.len() > before.log {
            match self.log.pop() {
                Some(Change::Thread(index, Some(thread))) => {
                    self.threads.insert(index, thread);
                }
                Some(Change::Thread(index, None)) => {
                    self.threads.remove(&index);
                }
                Some(Change::Gone) => {
                    self.gone.pop();
                }
                Some(Change::Forgotten(old)) => {
                    self.gone.splice(..0, old);
                }
                Some(Change::Point(gone)) => self.gone = gone,
                None => {}
            }
        }
        self.marks.truncate(mark + 1);
        (self.with_rows, self.state) = (before.with_rows, before.state);
        self.open = None;
    }

    /// See [`Stage::settle`](crate::Stage::settle).
    pub(crate) fn settle(&mut self) {
        self.log.clear();
        self.marks.clear();
    }

    /// A thread's last number in the stream. If the caller's number is lower than one that the
    /// thread has reached, it is a lower bound.
    fn last_number(&self, given: &ThreadSequence) -> u32 {
        let known = self.threads.get(&given.thread).copied().unwrap_or_default();
        let number = given.sequence.wrapping_add(known.shift);
        let is_behind = known.last.wrapping_sub(number) <= i32::MAX as u32;
        if is_behind { known.last } else { number }
    }

    /// Notes a thread's last number, or owes its losses if the stream has no row of it.
    fn reach(&mut self, given: &ThreadSequence) {
        let number = self.last_number(given);
        let known = self.change(given.thread);
        if known.has_rows {
            known.last = number;
        } else {
            known.shift = known.shift.wrapping_sub(number);
            self.state.owed += u64::from(number);
        }
    }

    /// Adds a thread's entry to a sequence point, if the stream has a row of it.
    fn tell(&mut self, thread: u64, entries: &mut Vec<ThreadSequence>) {
        let known = self.change(thread);
        if !known.has_rows {
            return;
        }
        known.shown = known.last;
        let entry = ThreadSequence { thread, sequence: known.last };
        entries.push(entry);
        if let Some(latest) = self.state.latest.as_mut().filter(|last| last.thread == thread) {
            *latest = entry;
        }
    }

    /// Makes the thread that wrote last tell what is still owed, although that thread has ended.
    fn tell_owed(&mut self, entries: &mut Vec<ThreadSequence>) {
        let Some(latest) = &mut self.state.latest else { return };
        let owed = mem::take(&mut self.state.owed) as u32;
        let entry = entries.iter_mut().find(|entry| entry.thread == latest.thread);
        if let Some(entry) = entry {
            entry.sequence = entry.sequence.wrapping_add(owed);
            *latest = *entry;
        } else if owed > 0 {
            latest.sequence = latest.sequence.wrapping_add(owed);
            entries.push(*latest);
        }
    }

    /// Forgets the half of `gone` that ended first. Their rows show all their numbers but those of
    /// the events that they owe.
    fn forget_gone(&mut self) {
        let old: Vec<_> = self.gone.drain(..MOST_GONE / 2).collect();
        for gone in &old {
            self.state.owed += u64::from(gone.owes);
            if let Some(latest) = &mut self.state.latest {
                if latest.thread == gone.last.thread {
                    // It may be the one that tells what is owed.
                    latest.sequence = gone.last.sequence.wrapping_sub(gone.owes);
                }
            }
        }
        self.log(Change::Forgotten(old));
    }

    /// The state of a thread, for a change.
    fn change(&mut self, thread: u64) -> &mut Thread {
        self.note(thread);
        self.threads.entry(thread).or_default()
    }

    /// Logs the state of a thread that is about to change.
    fn note(&mut self, thread: u64) {
        let marked = self.marks.last().map_or(0, |mark| mark.log);
        let last = self.log.get(marked..).and_then(<[_]>::last);
        // Only the first change since the mark matters, and a block's rows belong to one thread.
        if !matches!(last, Some(Change::Thread(index, _)) if *index == thread) {
            let before = self.threads.get(&thread).copied();
            self.log(Change::Thread(thread, before));
        }
    }

    fn log(&mut self, change: Change) {
        if !self.marks.is_empty() {
            self.log.push(change);
        }
    }
}

impl Thread {
    /// Whether the stream does not show the thread's last number yet.
    fn is_untold(&self) -> bool {
        self.owes() > 0
    }

    /// How many of its lost events the stream does not show yet.
    fn owes(&self) -> u32 {
        if self.has_rows { self.last.wrapping_sub(self.shown) } else { 0 }
    }
}
