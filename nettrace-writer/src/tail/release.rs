//! Blocks that are decided upon: which of their rows are written.

use std::time::Instant;

use nettrace_event::role::Role;
use nettrace_format::v6::{BlockKind, RowHeader};

use crate::{
    sink::{Sink, StreamEnd},
    tail::{
        blocks::{
            Malformed, Rows, blocks, lists, point, stacks, thread_rows, thread_sequences, type_rows,
        },
        counts::TailCounts,
        header::Header,
        outgoing::{Outgoing, To},
        queue::{Queue, count_rows},
        roles::{Asked, Roles},
        trees::Trees,
    },
};

/// The session's stream, up to where it is decided upon.
#[derive(Debug)]
pub(super) struct Release {
    roles: Roles,
    out: Outgoing,
    /// The latest time so far.
    latest: u64,
    /// Nothing that comes is older.
    horizon: u64,
}

/// What a batch is decided with, and where it goes.
#[derive(Debug)]
pub(super) struct With<'a, S> {
    pub(super) trees: &'a mut Trees,
    pub(super) counts: &'a mut TailCounts,
    pub(super) asked: &'a [Asked],
    pub(super) queue: &'a mut Queue,
    pub(super) sink: &'a mut S,
    pub(super) now: Instant,
}

impl Release {
    pub(super) fn new(header: Header, end: StreamEnd) -> Self {
        let begins = header.begins();
        let roles = Roles::new(header.ticks_per_second());
        Self { roles, out: Outgoing::new(header, end), latest: begins, horizon: begins }
    }

    /// The session has begun a stream.
    pub(super) fn goes_on(&mut self, header: Header, end: StreamEnd) {
        self.roles = Roles::new(header.ticks_per_second());
        self.not_before(header.begins());
        self.out.goes_on(header, end);
    }

    fn not_before(&mut self, horizon: u64) {
        self.horizon = self.horizon.max(horizon);
        self.latest = self.latest.max(horizon);
    }

    /// How many streams there were.
    pub(super) fn streams(&self) -> u32 {
        self.out.stream()
    }

    /// The sink cannot go on with the stream that it has.
    pub(super) fn breaks(&mut self) {
        self.out.breaks();
    }

    /// Takes over the numbers of a batch that comes into no stream. Returns how many events it has.
    pub(super) fn give_up(&mut self, bytes: &[u8]) -> Result<u64, Malformed> {
        for block in blocks(bytes) {
            let block = block?;
            if block.is(BlockKind::Event) {
                let mut rows = Rows::new(block.body)?;
                while let Some((header, _)) = rows.next_row()? {
                    self.out.leave_out(&header)?;
                }
            } else if block.is(BlockKind::Thread) {
                for (index, row) in thread_rows(block.body)? {
                    self.out.define_thread(index, row);
                }
            } else if block.is(BlockKind::SequencePoint) {
                self.out.give_up(&point(block.body)?.threads)?;
            } else if block.is(BlockKind::RemoveThread) {
                self.out.give_up(&thread_sequences(block.body)?)?;
            }
        }
        Ok(count_rows(bytes))
    }

    /// How many lost rows no stream shows.
    pub(super) fn owed(&self) -> u64 {
        self.out.owed()
    }

    /// How many bytes of memory this takes.
    pub(super) fn bytes(&self) -> usize {
        self.out.bytes()
    }

    /// Decides about the rows of a batch.
    pub(super) fn batch<S: Sink>(
        &mut self,
        bytes: &[u8],
        with: &mut With<'_, S>,
    ) -> Result<(), Malformed> {
        self.out.begin(&mut self.to(with));
        for block in blocks(bytes) {
            let block = block?;
            if block.is(BlockKind::Event) {
                let mut rows = Rows::new(block.body)?;
                while let Some((header, payload)) = rows.next_row()? {
                    self.row(header, payload, with)?;
                }
                self.out.end_block()?;
            } else if block.is(BlockKind::LabelList) {
                let (first, rows) = lists(block.body)?;
                self.out.lists.add(first, &rows)?;
            } else if block.is(BlockKind::Stack) {
                let (first, rows) = stacks(block.body)?;
                self.out.stacks.add(first, &rows)?;
            } else if block.is(BlockKind::Metadata) {
                self.roles.define(block.body, with.asked)?;
                for (id, row) in type_rows(block.body)? {
                    self.out.define_type(id.try_into().map_err(|_| Malformed)?, row);
                }
            } else if block.is(BlockKind::Thread) {
                for (index, row) in thread_rows(block.body)? {
                    self.out.define_thread(index, row);
                }
            } else if block.is(BlockKind::SequencePoint) {
                let point = point(block.body)?;
                self.not_before(point.timestamp);
                let mut to = self.to(with);
                self.out.point(&point, &mut to)?;
            } else if block.is(BlockKind::RemoveThread) {
                let threads = thread_sequences(block.body)?;
                let mut to = self.to(with);
                self.out.remove(&threads, &mut to)?;
            } else {
                return Err(Malformed);
            }
        }
        let mut to = self.to(with);
        self.out.hand_over(&mut to)
    }

    /// Ends the stream.
    pub(super) fn finish<S: Sink>(&mut self, with: &mut With<'_, S>) -> Result<(), Malformed> {
        let mut to = self.to(with);
        self.out.finish(&mut to)
    }

    fn to<'a, S>(&self, with: &'a mut With<'_, S>) -> To<'a, S> {
        To {
            queue: with.queue,
            sink: with.sink,
            counts: with.counts,
            latest: self.latest,
            horizon: self.horizon,
        }
    }

    fn row<S: Sink>(
        &mut self,
        header: RowHeader,
        payload: &[u8],
        with: &mut With<'_, S>,
    ) -> Result<(), Malformed> {
        self.latest = self.latest.max(header.timestamp);
        if header.sorted {
            self.not_before(header.timestamp);
        }
        if self.is_kept(&header, with) {
            let mut to = self.to(with);
            self.out.row(header, payload, &mut to)
        } else {
            with.counts.left_out_events += 1;
            self.out.leave_out(&header)
        }
    }

    fn is_kept<S>(&mut self, header: &RowHeader, with: &mut With<'_, S>) -> bool {
        let Some(span) = self.out.lists.get(header.labels).and_then(|(list, _)| list.span) else {
            return true; // without a trace
        };
        with.trees.decided(&span.trace, with.now);
        let is_kept = with.trees.keeps(&span.trace, header.timestamp, self.horizon);
        let asking = self.roles.get(header.metadata_id).filter(|meaning| meaning.asks.is_some());
        if asking.is_some_and(|meaning| matches!(meaning.role, Role::Start | Role::Single)) {
            let counts = &mut with.counts;
            if is_kept {
                counts.kept_spans += 1;
                counts.undecided_spans += u64::from(with.trees.is_open(&span));
            } else {
                counts.left_out_spans += 1;
            }
        }
        is_kept
    }
}
