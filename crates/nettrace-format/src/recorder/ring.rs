//! The contents of a flight recorder: the last part of its stream.

use alloc::{collections::BTreeSet, vec::Vec};

use super::{
    Recorder,
    bytes::Bytes,
    layout::{part, ring, superblock},
    seen::Seen,
};
use crate::v6::{BlockKind, read};

/// The kinds of block that a session writes after the first.
const KINDS: [BlockKind; 7] = [
    BlockKind::Event,
    BlockKind::Metadata,
    BlockKind::SequencePoint,
    BlockKind::Stack,
    BlockKind::Thread,
    BlockKind::RemoveThread,
    BlockKind::LabelList,
];

/// What a flight recorder has kept.
#[derive(Debug, Default)]
pub(super) struct Ring {
    /// The blocks, but for those that describe types.
    pub(super) blocks: Vec<u8>,
    pub(super) events: u64,
    /// How many events were given up before.
    pub(super) given_up: u64,
    /// What the stream says of threads up to its end.
    pub(super) seen: Seen,
    /// The threads that the stream has defined and not removed.
    pub(super) threads: BTreeSet<u64>,
    /// The last ids of label lists and stacks.
    pub(super) labels: u32,
    pub(super) stacks: u32,
    /// Whether the parts end before the last one.
    pub(super) is_damaged: bool,
}

impl Recorder<'_> {
    /// Whether the session is a flight recorder.
    #[must_use]
    pub fn is_flight_recorder(&self) -> bool {
        self.file.word(superblock::RING_SIZE) > 0
    }

    /// What a flight recorder has kept; `None` if the session is none.
    pub(super) fn ring(&self) -> Option<Ring> {
        let (at, size) =
            (self.file.place(superblock::RING_AT), self.file.place(superblock::RING_SIZE));
        let area = Bytes(self.file.part(at, size));
        if size == 0 || area.0.is_empty() {
            return None;
        }
        let mut found = Ring { seen: Seen::new(self.streams()), ..Ring::default() };
        let (parts, is_damaged) = parts(area);
        let (_, types) = self.types();
        found.is_damaged = is_damaged;
        for (number, part) in parts.iter().enumerate() {
            if part.has_threads && number > 0 {
                continue; // the parts before say it
            }
            if !found.add(part.blocks, &types) {
                found.is_damaged = true;
                break;
            }
        }
        // One store gives up a part or adds one, so this is right between any two of them. What a
        // part that is damaged had counts as given up.
        found.given_up = match parts.iter().map(|part| part.events).max() {
            Some(events) => events.saturating_sub(found.events),
            None => area.word(ring::GIVEN_UP),
        };
        Some(found)
    }
}

/// A part of the ring.
#[derive(Clone, Copy, Debug)]
struct Part<'a> {
    order: u64,
    has_threads: bool,
    /// How many events had come with it.
    events: u64,
    blocks: &'a [u8],
}

/// The parts in their order, and whether some cannot be read.
fn parts(area: Bytes<'_>) -> (Vec<Part<'_>>, bool) {
    let size = area.0.len();
    let (head, next) = (area.place(ring::HEAD), area.word(ring::NEXT));
    let (mut at, mut found, mut before, mut expected) = (head, Vec::new(), 0, None);
    while at != 0 && expected != Some(next) {
        if at.saturating_add(part::SIZE) > size || area.word(at + part::NUMBER) == 0 {
            if at == ring::PARTS {
                break;
            }
            at = ring::PARTS;
            continue;
        }
        let (number, len) = (area.word(at + part::NUMBER), area.place(at + part::LEN));
        let blocks = area.part(at + part::SIZE, len);
        let is_next = expected.is_none_or(|expected| expected == number);
        let events = area.word(at + part::EVENTS);
        if number >= next || !is_next || blocks.len() != len || events < before {
            break;
        }
        let (order, has_threads) =
            (area.word(at + part::ORDER), area.word(at + part::DEFINES) == 1);
        found.push(Part { order, has_threads, events, blocks });
        (before, expected) = (events, Some(number + 1));
        at += (part::SIZE + len).next_multiple_of(part::ALIGNMENT);
    }
    // A part that was just moving is there twice, and the first is whole. This sort is stable.
    found.sort_by_key(|part| part.order);
    found.dedup_by_key(|part| part.order);
    (found, head != 0 && expected != Some(next))
}

impl Ring {
    /// Adds a part. Returns `false` if its bytes are not what a session writes.
    fn add(&mut self, blocks: &[u8], types: &BTreeSet<u32>) -> bool {
        for block in read::blocks(blocks) {
            let Ok(block) = block else { return false };
            let is_added = self.note(&block, types);
            if is_added.is_none() {
                return false;
            }
            if !block.is(BlockKind::Metadata) {
                self.blocks.extend_from_slice(block.whole);
            }
        }
        true
    }

    fn note(&mut self, block: &read::Block<'_>, types: &BTreeSet<u32>) -> Option<()> {
        if !KINDS.iter().any(|kind| block.is(*kind)) {
            return None; // among others, an end of stream
        }
        if block.is(BlockKind::Event) {
            let mut rows = read::Rows::new(block.body).ok()?;
            let mut events = 0;
            while let Some((row, _)) = rows.next_row().ok()? {
                let thread = row.capture_thread;
                if !types.contains(&row.metadata_id) || !self.threads.contains(&thread) {
                    return None;
                }
                events += 1;
            }
            self.events += events;
        } else if block.is(BlockKind::Thread) {
            for (index, _) in read::thread_rows(block.body).ok()? {
                self.threads.insert(index);
            }
        } else if block.is(BlockKind::RemoveThread) {
            for of in read::thread_sequences(block.body).ok()? {
                self.threads.remove(&of.thread);
            }
        } else if block.is(BlockKind::LabelList) || block.is(BlockKind::Stack) {
            let last =
                read::word32(block.body, 0).ok()?.checked_add(read::word32(block.body, 4).ok()?)?;
            let of = if block.is(BlockKind::Stack) { &mut self.stacks } else { &mut self.labels };
            *of = last.saturating_sub(1).max(*of);
        }
        self.seen.add(block).ok()
    }
}
