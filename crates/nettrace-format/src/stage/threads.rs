//! The threads of a stream of version 6, and by which ids the output names them.

use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};

use super::{output::Output, tables::Table};
use crate::{
    content::{RowHeader, ThreadInfo, ThreadSequence},
    error::FormatError,
    format::Format,
    thread_ids::ThreadIds,
    trace::Thread,
};

/// So many threads that no stream defines are remembered, so that their ids stay the same.
const MOST_UNDEFINED: usize = 1 << 16;

/// The threads of a stream.
#[derive(Debug)]
pub(super) struct Threads {
    /// Whether rows name threads by other ids than the input.
    renames: bool,
    ids: ThreadIds,
    known: BTreeMap<u64, KnownThread>,
    /// Whether any of them has a name as a subject.
    names_subjects: bool,
    pub(super) counts: Counts,
    /// Threads whose last rows were refused, so that their numbers do not show in a later row.
    behind: BTreeMap<u64, Behind>,
    /// Changes since the last [`settle`](Self::settle). Nothing is logged before the first mark.
    log: Vec<Change>,
    is_logging: bool,
}

#[derive(Debug, Default)]
struct KnownThread {
    thread: Thread,
    /// Its id in the output. Only threads that record have one.
    id: Option<u64>,
    state: ThreadState,
}

/// What the output's stream knows of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadState {
    /// Whether the input's stream defines it.
    is_defined: bool,
    is_introduced: bool,
    /// Whether it has a name as a subject.
    is_named: bool,
}

/// How many threads are defined, and how many of these the output has introduced.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) defined: usize,
    pub(super) introduced: usize,
}

/// The last number of a thread, and how many rows up to there no row shows as a gap.
#[derive(Clone, Copy, Debug, Default)]
struct Behind {
    last: u32,
    rows: u64,
}

#[derive(Debug)]
enum Change {
    /// The output knew this of a thread.
    Thread(u64, ThreadState),
    /// A thread was removed.
    Removed(u64, Box<KnownThread>),
    /// A thread was that far behind.
    Behind(u64, Option<Behind>),
    /// A sequence point ended these stacks and label lists.
    Tables(Box<[Table; 2]>),
}

impl Threads {
    pub(super) fn new(format: Format, renames: bool) -> Self {
        Self {
            renames,
            ids: ThreadIds::new(format),
            known: BTreeMap::new(),
            names_subjects: false,
            counts: Counts::default(),
            behind: BTreeMap::new(),
            log: Vec::new(),
            is_logging: false,
        }
    }

    /// Begins a stream, which defines everything again. Returns how many refused rows the stream
    /// before does not tell.
    pub(super) fn begin(&mut self) -> u64 {
        if !self.renames {
            self.known.clear();
        } else if self.known.len() > MOST_UNDEFINED {
            self.known.retain(|_, thread| thread.state.is_defined);
        }
        self.known.values_mut().for_each(|thread| thread.state = ThreadState::default());
        self.counts = Counts::default();
        self.log.clear();
        core::mem::take(&mut self.behind).values().map(|behind| behind.rows).sum()
    }

    pub(super) fn define(
        &mut self,
        thread: Thread,
        output: &mut Output,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let index = thread.index;
        let before = self.known.get(&index).map(|known| known.state).unwrap_or_default();
        self.log(Change::Thread(index, before));
        self.counts.defined += usize::from(!before.is_defined);
        self.counts.introduced -= usize::from(before.is_introduced);
        let known = self.known.entry(index).or_default();
        known.thread = thread;
        known.state = ThreadState { is_defined: true, ..ThreadState::default() };
        if self.renames { Ok(()) } else { self.introduce(index, index, output, out) }
    }

    fn introduce(
        &mut self,
        index: u64,
        id: u64,
        output: &mut Output,
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let Some(KnownThread { thread, state, .. }) = self.known.get_mut(&index) else {
            return Err(FormatError::MalformedBlock);
        };
        let before = core::mem::replace(state, ThreadState { is_introduced: true, ..*state });
        let pairs = thread.key_values.iter();
        let key_values: Vec<_> = pairs.map(|(key, value)| (&**key, &**value)).collect();
        let info = ThreadInfo {
            index: id,
            name: thread.name.as_deref(),
            process_id: thread.process_id,
            os_thread_id: thread.os_thread_id,
            key_values: &key_values,
        };
        output.thread(&info, out)?;
        self.counts.introduced += 1;
        self.log(Change::Thread(index, before));
        Ok(())
    }

    /// The id of a thread that records.
    pub(super) fn recorder(
        &mut self,
        index: u64,
        output: &mut Output,
        out: &mut Vec<u8>,
    ) -> Result<u64, FormatError> {
        if !self.renames {
            return Ok(index);
        }
        let known = self.known.get_mut(&index).ok_or(FormatError::MalformedBlock)?;
        let os_id = known.thread.os_thread_id.unwrap_or(0);
        let ids = &mut self.ids;
        let id = *known.id.get_or_insert_with(|| ids.recorder(os_id));
        if !known.state.is_introduced {
            self.introduce(index, id, output, out)?;
        }
        Ok(id)
    }

    /// The id by which a row of the recorder `id` names the thread that it is about.
    pub(super) fn subject(
        &mut self,
        header: &RowHeader,
        id: u64,
        output: &mut Output,
        out: &mut Vec<u8>,
    ) -> Result<u64, FormatError> {
        if !self.renames {
            return Ok(header.thread);
        }
        let index = header.thread;
        let known = self.known.get_mut(&index).ok_or(FormatError::MalformedBlock)?;
        let os_id = known.thread.os_thread_id.unwrap_or(0);
        if index == header.capture_thread {
            return Ok(self.ids.os_subject(os_id).unwrap_or(id));
        }
        if !self.ids.names_by_os_id(os_id) {
            return self.recorder(index, output, out);
        }
        if !known.state.is_named {
            let before = core::mem::replace(&mut known.state.is_named, true);
            self.names_subjects = true;
            output.subject(os_id, known.thread.name.as_deref());
            let state = ThreadState { is_named: before, ..known.state };
            self.log(Change::Thread(index, state));
        }
        Ok(os_id)
    }

    /// The ids and last numbers of threads, without those of which there is nothing to tell.
    pub(super) fn numbers(
        &mut self,
        threads: &[ThreadSequence],
        output: &mut Output,
        out: &mut Vec<u8>,
    ) -> Result<Vec<ThreadSequence>, FormatError> {
        let mut named = Vec::with_capacity(threads.len());
        for &ThreadSequence { thread: index, sequence } in threads {
            let is_known = self.known.get(&index).is_some_and(|it| it.state.is_introduced);
            if is_known || sequence > 0 || !self.renames {
                let thread = self.recorder(index, output, out)?;
                named.push(ThreadSequence { thread, sequence });
            }
            self.catch_up(index);
        }
        Ok(named)
    }

    pub(super) fn remove(&mut self, index: u64) {
        if let Some(known) = self.known.remove(&index) {
            self.counts.defined -= usize::from(known.state.is_defined);
            self.counts.introduced -= usize::from(known.state.is_introduced);
            self.log(Change::Removed(index, Box::new(known)));
        }
    }

    /// Notes that a row was refused.
    pub(super) fn refuse(&mut self, header: &RowHeader) {
        let before = self.behind.get(&header.capture_thread).copied();
        let rows = before.unwrap_or_default().rows + 1;
        self.behind.insert(header.capture_thread, Behind { last: header.sequence, rows });
        self.log(Change::Behind(header.capture_thread, before));
    }

    /// Notes that the output shows all numbers of a thread so far.
    #[inline]
    pub(super) fn catch_up(&mut self, index: u64) {
        if !self.behind.is_empty() {
            if let Some(before) = self.behind.remove(&index) {
                self.log(Change::Behind(index, Some(before)));
            }
        }
    }

    /// The threads whose last rows were refused, with their last numbers.
    pub(super) fn behind(&self) -> Vec<ThreadSequence> {
        let behind = self.behind.iter();
        behind.map(|(&thread, it)| ThreadSequence { thread, sequence: it.last }).collect()
    }

    /// Notes what a sequence point ends: names of subjects, too.
    pub(super) fn end_tables(&mut self, tables: [Table; 2]) {
        // Without names, a point costs no more for the threads that it does not mention.
        if core::mem::take(&mut self.names_subjects) {
            self.known.values_mut().for_each(|known| known.state.is_named = false);
        }
        self.log(Change::Tables(Box::new(tables)));
    }

    /// A position in the log.
    pub(super) fn mark(&mut self) -> usize {
        self.is_logging = true;
        self.log.len()
    }

    /// Undoes the last change after a mark. Returns tables that apply again.
    pub(super) fn undo(&mut self, mark: usize) -> Option<Option<[Table; 2]>> {
        if self.log.len() <= mark {
            return None;
        }
        match self.log.pop()? {
            Change::Thread(index, state) => {
                if let Some(known) = self.known.get_mut(&index) {
                    // A sequence point may have ended the name, so it is noted again.
                    known.state = ThreadState { is_named: false, ..state };
                }
            }
            Change::Removed(index, mut known) => {
                known.state.is_named = false;
                self.known.insert(index, *known);
            }
            Change::Behind(index, Some(behind)) => _ = self.behind.insert(index, behind),
            Change::Behind(index, None) => _ = self.behind.remove(&index),
            Change::Tables(tables) => return Some(Some(*tables)),
        }
        Some(None)
    }

    /// Drops the log. A thread whose definition was taken back may have ended since, which nothing
    /// tells. So too many of them are forgotten.
    pub(super) fn settle(&mut self) {
        self.log.clear();
        if self.known.len() > self.counts.defined + MOST_UNDEFINED {
            self.known.retain(|_, thread| thread.state.is_defined);
        }
    }

    fn log(&mut self, change: Change) {
        if self.is_logging {
            self.log.push(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::Source;

    #[test]
    fn threads_whose_definition_never_arrives_are_bounded() {
        let (mut threads, mut out) = (Threads::new(Format::V5, true), Vec::new());
        let mut output = Output::new(Format::V5, Source::Recording);
        let mut define = |threads: &mut Threads, index| {
            let thread = Thread { index, os_thread_id: Some(7), ..Thread::default() };
            threads.define(thread, &mut output, &mut out).expect("version 5 takes any thread");
            threads.recorder(index, &mut output, &mut out).expect("it is defined")
        };
        let mark = threads.mark();
        let counts = threads.counts;
        let known = define(&mut threads, 0);
        threads.settle();
        for index in 1..3 * MOST_UNDEFINED as u64 {
            let before = threads.counts;
            define(&mut threads, index);
            while threads.undo(mark).is_some() {}
            threads.counts = before;
            threads.settle();
            assert!(threads.known.len() <= MOST_UNDEFINED + 1);
        }
        assert_eq!((counts.defined, threads.counts.defined), (0, 1));
        assert_eq!(define(&mut threads, 0), known, "what is defined keeps its id");
    }
}
