//! Takes back what a trace has said if it did not reach the sink.
//!
//! A sink that fails may keep a part of a batch. A block that does not fit into a stream is not
//! written at all. Readers do not know what such blocks define. So a trace keeps a log of what
//! changes with each block, and goes back to the [mark](Mark) after the last block that reached the
//! sink. Then types, threads, stacks and label lists are defined again when rows need them again.
//! An id that a reader may know is not used for anything else. Numbers count from what the stream
//! shows.
//!
//! What is known of the session is not taken back: which numbers were given out
//! ([`TraceThread::told`]), and which labels are in force.
//!
//! A change belongs to the block that ends next. A change that has no bytes may be taken back
//! although all blocks have reached the sink. It is then made again, which costs nothing.

use std::collections::HashMap;

use nettrace_format::StageMark;

use crate::flusher::{
    ids::Interned,
    trace::{Trace, TraceThread},
};

/// A position between two blocks of a stream.
#[derive(Clone, Copy, Debug)]
pub(in crate::flusher) struct Mark {
    /// `None`: the trace has no stage.
    stage: Option<StageMark>,
    declared: usize,
    /// The lengths of the trace's log and of its list of marks.
    changes: usize,
    marks: usize,
    /// The last ids that are defined.
    stack: u32,
    label_list: u32,
}

/// What the stream has said of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Said {
    /// The number that this stream counts from: earlier streams show the numbers up to it.
    pub(super) base: u64,
    /// The last number that any stream shows, by a row or by a block that tells numbers.
    pub(super) shown: u64,
    pub(super) declared: bool,
}

/// A change of the trace, with what is needed to undo it.
#[derive(Debug)]
pub(super) enum Change {
    /// A type was defined.
    Type(usize),
    /// The stream says more of the thread with this index. `Said` is what it said before.
    Thread(u64, Said),
    /// A related thread was introduced: rows are about it, but it recorded none.
    Related(u64),
    /// A sequence point was written, which made readers forget these stacks and label lists.
    Point(Box<[Interned; 2]>),
    /// Related threads were removed.
    RelatedGone(Vec<(u64, u64)>),
}

impl Trace {
    /// A mark at the present position of the stream.
    pub(in crate::flusher) fn mark(&mut self) -> Mark {
        Mark {
            stage: self.stage.as_mut().map(|stage| stage.mark()),
            declared: self.declared,
            changes: self.changes.len(),
            marks: self.marks.len(),
            stack: self.stacks.defined(),
            label_list: self.label_lists.defined(),
        }
    }

    /// Notes that a block ends.
    pub(super) fn mark_block(&mut self) {
        let mark = self.mark();
        self.marks.push(Mark { marks: mark.marks + 1, ..mark });
    }

    /// Notes what the stream has said of a thread, before it says more.
    pub(super) fn note(&mut self, thread: &TraceThread) {
        self.changes.push(Change::Thread(thread.index, thread.said));
    }

    /// Notes that everything so far has reached the sink and will not be taken back.
    pub(in crate::flusher) fn settle(&mut self) {
        self.changes.clear();
        self.marks.clear();
        if let Some(stage) = &mut self.stage {
            stage.settle();
        }
        self.settled = Some(self.mark());
    }

    /// Goes back to the end of the last block that reached the sink: of the blocks since
    /// [`settle`](Self::settle) the sink has kept `blocks`. Returns how many sequence points were
    /// taken back.
    pub(in crate::flusher) fn keep_blocks<'a>(
        &mut self,
        blocks: usize,
        threads: impl Iterator<Item = &'a mut TraceThread>,
    ) -> u64 {
        let last = blocks.checked_sub(1).and_then(|last| self.marks.get(last).copied());
        let points = last.or(self.settled).map_or(0, |mark| self.rewind(&mark, threads));
        self.settle();
        points
    }

    /// Goes back to a mark. Returns how many sequence points were taken back.
    pub(in crate::flusher) fn rewind<'a>(
        &mut self,
        mark: &Mark,
        threads: impl Iterator<Item = &'a mut TraceThread>,
    ) -> u64 {
        let mut threads: HashMap<_, _> = threads.map(|thread| (thread.index, thread)).collect();
        let mut points = 0;
        while self.changes.len() > mark.changes {
            match self.changes.pop() {
                Some(Change::Type(index)) => {
                    self.defined[index] = false;
                    self.known_types = 0;
                }
                Some(Change::Thread(index, said)) => {
                    if let Some(thread) = threads.get_mut(&index) {
                        thread.said = said;
                    }
                }
                Some(Change::Related(number)) => _ = self.related.remove(&number),
                Some(Change::Point(before)) => {
                    [self.stacks, self.label_lists] = *before;
                    points += 1;
                }
                Some(Change::RelatedGone(related)) => self.related.extend(related),
                None => {}
            }
        }
        self.marks.truncate(mark.marks);
        if let (Some(stage), Some(mark)) = (&mut self.stage, &mark.stage) {
            stage.rewind(mark);
        }
        self.declared = mark.declared;
        self.stacks.back_to(mark.stack);
        self.label_lists.back_to(mark.label_list);
        points
    }
}
