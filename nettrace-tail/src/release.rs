//! Blocks that are written, without the rows that are left out.

use std::time::Instant;

use nettrace_format::v6::{self, BlockKind, RowEncoder, RowHeader, ThreadSequence};
use nettrace_reader::__shared::Map;

use crate::{
    blocks::{Block, Malformed, Rows, SpanOf, blocks, lists, point, thread_sequences},
    counts::{TailCounts, Told},
    roles::{Asked, Kind, Roles},
    trees::Trees,
};

/// The stream that is being written.
#[derive(Debug)]
pub(crate) struct Release {
    roles: Roles,
    /// The label lists since the last sequence point that have a trace, and whether the stream has
    /// them. Rows of a list that is left out are left out.
    lists: Map<u32, (SpanOf, bool)>,
    /// How many rows of each thread are left out.
    left_out: Map<u64, u32>,
    /// The latest time in the stream, or the time of its beginning.
    latest: u64,
    told: Told,
    rows: Vec<u8>,
}

impl Release {
    pub(crate) fn new(roles: Roles, mut told: Told) -> Self {
        told.restart();
        let latest = roles.begins();
        Self {
            roles,
            lists: Map::default(),
            left_out: Map::default(),
            latest,
            told,
            rows: Vec::new(),
        }
    }

    /// Ends the stream.
    pub(crate) fn finish(
        mut self,
        counts: &TailCounts,
        out: &mut Vec<u8>,
    ) -> Result<Told, Malformed> {
        self.told.tell(counts, self.latest, out)?;
        Ok(self.told)
    }

    /// Ends the stream where it broke off.
    pub(crate) fn abandon(self) -> Told {
        self.told
    }

    /// Appends the blocks of a batch. `first` is the time of its oldest row.
    pub(crate) fn batch(
        &mut self,
        bytes: &[u8],
        first: u64,
        with: &mut With<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        for block in blocks(bytes) {
            let block = block?;
            if block.is(BlockKind::Event) {
                self.events(&block, with, out)?;
            } else if block.is(BlockKind::LabelList) {
                self.label_lists(&block, first, with, out)?;
            } else if block.is(BlockKind::SequencePoint) {
                self.sequence_point(&block, with, out)?;
            } else if block.is(BlockKind::RemoveThread) {
                let threads = self.numbers(thread_sequences(block.body)?);
                self.left_out.retain(|index, _| threads.iter().all(|gone| gone.thread != *index));
                v6::remove_thread_block(&threads, out)?;
            } else {
                if block.is(BlockKind::Metadata) {
                    self.roles.define(block.whole, with.asked)?;
                }
                out.extend_from_slice(block.whole);
            }
        }
        Ok(())
    }

    fn label_lists(
        &mut self,
        block: &Block<'_>,
        first: u64,
        with: &mut With<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let mut runs: Vec<(u32, u32, Vec<u8>)> = Vec::new();
        lists(block.body, |list| {
            let is_kept = list.span.is_none_or(|span| with.trees.keeps_some(&span.trace, first));
            if let Some(span) = list.span {
                self.lists.insert(list.id, (span, is_kept));
                with.trees.decided(&span.trace, with.now);
            }
            match runs.last_mut() {
                Some((first, count, rows)) if is_kept && *first + *count == list.id => {
                    *count += 1;
                    rows.extend_from_slice(list.bytes);
                }
                _ if is_kept => runs.push((list.id, 1, list.bytes.to_vec())),
                _ => {}
            }
        })?;
        for (first, count, rows) in runs {
            v6::label_rows_block(first, count, &rows, out)?;
        }
        Ok(())
    }

    fn sequence_point(
        &mut self,
        block: &Block<'_>,
        with: &With<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let point = point(block.body)?;
        self.told.tell(with.counts, self.latest, out)?;
        let mut threads = self.numbers(point.threads);
        threads.extend(self.told.thread());
        v6::sequence_point(point.timestamp, point.flags, &threads, out)?;
        self.latest = self.latest.max(point.timestamp);
        self.lists.clear();
        if point.flags.flush_threads || point.flags.flush_metadata {
            self.told.flush();
        }
        Ok(())
    }

    /// The numbers of threads, less the rows that are left out.
    fn numbers(&self, mut threads: Vec<ThreadSequence>) -> Vec<ThreadSequence> {
        for of in &mut threads {
            let left_out = self.left_out.get(&of.thread).copied().unwrap_or(0);
            of.sequence = of.sequence.wrapping_sub(left_out);
        }
        threads
    }

    fn events(
        &mut self,
        block: &Block<'_>,
        with: &mut With<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let mut encoded = Encoded { rows: std::mem::take(&mut self.rows), ..Encoded::default() };
        encoded.rows.clear();
        let mut rows = Rows::new(block.body)?;
        let mut is_changed = false;
        // The thread of the rows, and how many of it are left out.
        let mut thread = None;
        while let Some((mut header, payload)) = rows.next()? {
            self.latest = self.latest.max(header.timestamp);
            let is_kept = self.is_kept(&header, with);
            let (index, left_out) = match &mut thread {
                Some((index, left_out)) if *index == header.capture_thread => (index, left_out),
                other => {
                    if let Some((index, left_out)) = other.take() {
                        self.left_out.insert(index, left_out);
                        encoded.end(out)?;
                        is_changed = true;
                    }
                    let left_out = self.left_out.get(&header.capture_thread).copied();
                    let (index, left_out) =
                        other.insert((header.capture_thread, left_out.unwrap_or(0)));
                    (index, left_out)
                }
            };
            debug_assert_eq!(*index, header.capture_thread);
            is_changed |= !is_kept || *left_out != 0;
            if is_kept {
                header.sequence = header.sequence.wrapping_sub(*left_out);
                encoded.row(&header, payload);
            } else {
                *left_out = left_out.wrapping_add(1);
                with.counts.left_out_events += 1;
            }
        }
        if let Some((index, left_out @ 1..)) = thread {
            self.left_out.insert(index, left_out);
        }
        if is_changed {
            encoded.end(out)?;
        } else {
            out.extend_from_slice(block.whole);
        }
        self.rows = encoded.rows;
        Ok(())
    }

    fn is_kept(&self, header: &RowHeader, with: &mut With<'_>) -> bool {
        if header.labels == 0 {
            return true;
        }
        let Some(&(span, is_defined)) = self.lists.get(&header.labels) else {
            return true; // without a trace
        };
        with.trees.decided(&span.trace, with.now);
        let is_kept = with.trees.keeps(&span.trace, header.timestamp, is_defined);
        let role = self.roles.get(header.metadata_id).filter(|role| role.asks.is_some());
        if role.is_some_and(|role| matches!(role.kind, Kind::Start | Kind::Single(_))) {
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

/// What a batch is written with.
#[derive(Debug)]
pub(crate) struct With<'a> {
    pub(crate) trees: &'a mut Trees,
    pub(crate) counts: &'a mut TailCounts,
    pub(crate) asked: &'a [Asked],
    pub(crate) now: Instant,
}

/// The rows of a block that is being written.
#[derive(Debug, Default)]
struct Encoded {
    rows: Vec<u8>,
    encoder: RowEncoder,
    times: Option<(u64, u64)>,
}

impl Encoded {
    fn row(&mut self, header: &RowHeader, payload: &[u8]) {
        let at = header.timestamp;
        match &mut self.times {
            Some((first, last)) => {
                (*first, *last) = ((*first).min(at), (*last).max(at));
                self.encoder.row(header, &mut self.rows);
            }
            none => {
                *none = Some((at, at));
                self.encoder = RowEncoder::new();
                self.encoder.full_row(header, &mut self.rows);
            }
        }
        self.rows.extend_from_slice(payload);
    }

    /// Ends the block, if it has rows.
    fn end(&mut self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        if let Some((first, last)) = self.times.take() {
            out.extend(v6::event_block_header(first, last, true, self.rows.len())?);
            out.extend_from_slice(&self.rows);
            self.rows.clear();
        }
        Ok(())
    }
}
