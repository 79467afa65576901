//! The contents of a flight recorder, in a recorder file: parts one after another, in a circle.
//!
//! `nettrace_format::recorder::layout` says what a part is. A part is written behind the others,
//! before [`NEXT`](ring::NEXT) says that it is there. The oldest is given up by moving
//! [`HEAD`](ring::HEAD), before its bytes can be those of another. So a process that is killed
//! leaves whole parts, which follow one another.
//!
//! Each part tells how many events had come by then. So one store adds a part and counts its
//! events, and one store gives up parts: what is missing of the newest count is what was given up.
//! A word of its own would be behind the parts, or before them, between two stores.
//!
//! Invariant R1: a [`Kept`] is a part of the log that no entry overlaps as long as the `Kept`
//! lives, and nobody writes its bytes. Bytes are written by [`Log::put`], into a part that is free.
#![allow(unsafe_code, reason = "R1")]

use std::{collections::VecDeque, fmt, ops::Deref, sync::Arc};

use nettrace_format::recorder::layout::{part, ring};

use crate::{
    protocol::memory::mapping::Mapping,
    sync::{AtomicBool, Ordering, compiler_fence},
};

/// A flight recorder's part of a recorder file.
#[derive(Debug)]
pub(crate) struct Log {
    area: Arc<Area>,
    /// Where the parts end.
    len: usize,
    /// The oldest part first.
    entries: VecDeque<Entry>,
    /// Where the next part goes, unless it has no room there.
    tail: usize,
    next: u64,
    /// How many events have come, those that no part has had among them.
    events: u64,
}

/// The bytes of a log. The last who has them gives them back.
struct Area {
    mapping: Mapping,
    give_back: Box<dyn Fn() + Send + Sync>,
}

impl Deref for Area {
    type Target = Mapping;

    fn deref(&self) -> &Mapping {
        &self.mapping
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        (self.give_back)();
    }
}

impl fmt::Debug for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mapping.fmt(f)
    }
}

/// A part whose bytes cannot be another's.
#[derive(Debug)]
struct Entry {
    number: u64,
    order: u64,
    at: usize,
    is_given_up: bool,
    /// Whether the part's `Kept` is gone.
    is_gone: Arc<AtomicBool>,
}

/// The bytes of a part.
#[derive(Debug)]
pub(crate) struct Kept {
    area: Arc<Area>,
    at: usize,
    len: usize,
    order: u64,
    is_gone: Arc<AtomicBool>,
}

/// What is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Blocks with so many events.
    Blocks { events: u64 },
    /// What the parts before say of threads.
    Threads,
    /// A part that has this [order](Kept::order), and takes the place of that one.
    Moved { order: u64, has_threads: bool },
}

impl Kept {
    /// The number that the part had first.
    pub(crate) fn order(&self) -> u64 {
        self.order
    }
}

impl Log {
    /// An empty log in `len` bytes of a file that is zeroed. `give_back` is called when nobody has
    /// them any more.
    pub(crate) fn new(
        mapping: Mapping,
        len: usize,
        give_back: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let log = Self {
            area: Arc::new(Area { mapping, give_back: Box::new(give_back) }),
            len,
            entries: VecDeque::new(),
            tail: ring::PARTS,
            next: 1,
            events: 0,
        };
        log.set(ring::NEXT, log.next);
        log
    }

    fn set(&self, at: usize, value: u64) {
        // What this says of the parts is true of them.
        compiler_fence(Ordering::Release);
        self.area.word(at).store(value, Ordering::Relaxed);
        compiler_fence(Ordering::Release);
    }

    /// Counts events that no part has, when there is none. As long as a chunk has them, they are
    /// recovered all the same, and so counted too often rather than not at all.
    pub(crate) fn count(&mut self, events: u64) {
        self.events += events;
        self.move_head();
    }

    /// The largest part that should be put. As much stays free, so that a part can move.
    pub(crate) fn most(&self) -> usize {
        self.len / 16
    }

    /// Keeps bytes. `None`: there is no room.
    pub(crate) fn put(&mut self, bytes: &[u8], kind: Kind) -> Option<Kept> {
        let size = (part::SIZE + bytes.len()).next_multiple_of(part::ALIGNMENT);
        let number = self.next;
        let (order, has_threads, spare) = match kind {
            Kind::Blocks { .. } => (number, false, self.most()),
            Kind::Threads => (number, true, self.most()),
            Kind::Moved { order, has_threads } => (order, has_threads, 0),
        };
        let at = self.place(size, spare)?;
        if let Kind::Blocks { events } = kind {
            self.events += events;
        }
        for (word, value) in [
            (part::NUMBER, number),
            (part::LEN, bytes.len() as u64),
            (part::ORDER, order),
            (part::DEFINES, has_threads.into()),
            (part::EVENTS, self.events),
        ] {
            self.area.word(at + word).store(value, Ordering::Relaxed);
        }
        self.area.write(at + part::SIZE, bytes);
        self.next += 1;
        self.set(ring::NEXT, self.next);
        let is_gone = Arc::new(AtomicBool::new(false));
        let entry = Entry { number, order, at, is_given_up: false, is_gone: Arc::clone(&is_gone) };
        if self.entries.iter().all(|entry| entry.is_given_up) {
            self.set(ring::HEAD, at as u64);
        }
        self.entries.push_back(entry);
        self.tail = at + size;
        let area = Arc::clone(&self.area);
        Some(Kept { area, at: at + part::SIZE, len: bytes.len(), order, is_gone })
    }

    /// A place for a part of `size` bytes, behind which `spare` are free. Takes a part out of use
    /// if it was given up and nobody reads it.
    fn place(&mut self, size: usize, spare: usize) -> Option<usize> {
        while self.entries.front().is_some_and(|entry| {
            // Acquire pairs with the release in the drop of `Kept`.
            entry.is_given_up && entry.is_gone.load(Ordering::Acquire)
        }) {
            self.entries.pop_front();
        }
        let Some(front) = self.entries.front().map(|entry| entry.at) else {
            return (ring::PARTS + size <= self.len).then_some(ring::PARTS);
        };
        if self.tail <= front {
            // The parts go on at the begin. One byte less than all, so that the tail is not the
            // front.
            return (front - self.tail > size + spare).then_some(self.tail);
        }
        let at_begin = front - ring::PARTS;
        if self.len - self.tail >= size && self.len - self.tail - size + at_begin > spare {
            return Some(self.tail);
        }
        if at_begin <= size + spare {
            return None;
        }
        if self.len - self.tail >= part::SIZE {
            self.area.word(self.tail + part::NUMBER).store(0, Ordering::Relaxed);
        }
        Some(ring::PARTS)
    }

    /// Whether the oldest bytes only wait for somebody who reads them.
    pub(crate) fn is_read(&self) -> bool {
        self.entries
            .front()
            .is_some_and(|entry| entry.is_given_up && !entry.is_gone.load(Ordering::Acquire))
    }

    /// The order of the oldest part.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.entries.iter().find(|entry| !entry.is_given_up).map(|entry| entry.order)
    }

    /// Gives up the oldest part.
    pub(crate) fn give_up_oldest(&mut self) {
        if let Some(oldest) = self.entries.iter_mut().find(|entry| !entry.is_given_up) {
            oldest.is_given_up = true;
        }
        self.move_head();
    }

    /// Gives up all parts before one that has not moved, by one store.
    pub(crate) fn give_up_before(&mut self, first: &Kept) {
        let before = self.entries.iter_mut().take_while(|entry| entry.number < first.order);
        before.for_each(|entry| entry.is_given_up = true);
        self.move_head();
    }

    /// Gives up all parts.
    pub(crate) fn clear(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.is_given_up = true);
        self.move_head();
    }

    /// Says where the oldest part is.
    fn move_head(&self) {
        let head = self.entries.iter().find(|entry| !entry.is_given_up).map_or(0, |entry| entry.at);
        if head == 0 {
            // It counts as soon as there is no part.
            self.set(ring::GIVEN_UP, self.events);
        }
        self.set(ring::HEAD, head as u64);
    }
}

impl Deref for Kept {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let place = self.area.place(self.at, self.len);
        // SAFETY: R1: the bytes were written, and stay as they are as long as this.
        unsafe { std::slice::from_raw_parts(place.as_ptr(), self.len) }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // Release pairs with the acquire in `place`: this has read its bytes.
        self.is_gone.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::{Kept, Kind, Log, Mapping, part, ring};

    /// Which parts whoever reads the file finds: their orders and first bytes. And how many events
    /// had come with the newest.
    fn found(log: &Log) -> (Vec<(u64, u8)>, u64) {
        let word = |at: usize| log.area.word(at).load(super::Ordering::Relaxed);
        let (mut at, next) = (word(ring::HEAD) as usize, word(ring::NEXT));
        let (mut all, mut events, mut expected) = (Vec::new(), word(ring::GIVEN_UP), 0);
        while at != 0 {
            if at + part::SIZE > log.len || word(at) == 0 {
                at = ring::PARTS;
            }
            let number = word(at);
            all.push((word(at + part::ORDER), word(at + part::SIZE) as u8));
            assert!(number < next && [0, number].contains(&expected), "{all:?}");
            (events, expected) = (word(at + part::EVENTS), number + 1);
            let size = part::SIZE + word(at + part::LEN) as usize;
            at = if number + 1 == next { 0 } else { at + size.next_multiple_of(part::ALIGNMENT) };
        }
        (all, events)
    }

    #[test]
    fn parts_follow_one_another_whatever_their_sizes() {
        const LEN: usize = 64 << 10;
        let file = tempfile::tempfile().unwrap();
        file.set_len(LEN as u64).unwrap();
        let mapping = Mapping::new(file.as_raw_fd(), 0, LEN).unwrap();
        let mut log = Log::new(mapping, LEN, || ());
        // Some are read for longer than they are kept.
        let (mut kept, mut read): (Vec<Kept>, Vec<Kept>) = (Vec::new(), Vec::new());
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut refused, mut come) = (0, 0);
        for round in 0..20_000_u64 {
            let bytes = vec![round as u8; 8 + random(3_000) as usize];
            match log.put(&bytes, Kind::Blocks { events: 1 }) {
                Some(part) => {
                    kept.push(part);
                    come += 1;
                }
                None => refused += 1,
            }
            while kept.len() > 3 + random(12) as usize {
                if random(4) == 0 {
                    // The oldest moves, and is shorter then.
                    let (order, moved) = (kept[0].order, kept[0][..8].to_vec());
                    let moved = log.put(&moved, Kind::Moved { order, has_threads: false });
                    let moved = moved.expect("there is room to move");
                    assert_eq!(log.oldest(), Some(order));
                    log.give_up_oldest();
                    kept.remove(0);
                    kept.push(moved);
                } else {
                    log.give_up_oldest();
                    let oldest = kept.remove(0);
                    if random(3) == 0 {
                        read.push(oldest);
                    }
                }
            }
            if random(4) == 0 {
                read.clear();
            }
            if random(500) == 0 {
                (kept, _) = (Vec::new(), log.clear());
                log.count(3);
                come += 3;
            }
            for part in kept.iter().chain(&read) {
                assert!(part.iter().all(|byte| *byte == part[0]), "part {}", part.order);
            }
            let expected: Vec<_> = kept.iter().map(|part| (part.order, part[0])).collect();
            assert_eq!(found(&log), (expected, come), "round {round}");
        }
        assert!(refused < 10_000, "{refused}");
    }
}
