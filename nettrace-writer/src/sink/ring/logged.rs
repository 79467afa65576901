//! A ring whose parts are in the log of a recorder file.

use std::{sync::Arc, time::Duration};

use nettrace_format::v6::read;

use super::{Kept, Part, State, Store, Stretch, log::Kind};
use crate::sync::{Mutex, thread};

/// How often it is looked whether a dump has copied the oldest part, which takes microseconds if
/// the dump's thread has a processor.
const LOOKS: u32 = 1_000;
const BETWEEN_LOOKS: Duration = Duration::from_micros(100);

impl State {
    /// Adds blocks, in parts of a size that the log has room for. `rows` says how many events there
    /// are before each block, and in all.
    pub(super) fn add_to_log(
        &mut self,
        bytes: &[u8],
        ends: &[u64],
        rows: &[u64],
    ) -> Result<(), read::Malformed> {
        let most = self.log.as_ref().map_or(0, |log| log.most()) as u64;
        let mut first = 0;
        while first < ends.len() {
            let start = first.checked_sub(1).map_or(0, |before| ends[before]);
            let fit = ends[first..].partition_point(|end| end - start <= most).max(1);
            let (last, events) = (first + fit, rows[first + fit] - rows[first]);
            let part = &bytes[start as usize..ends[last - 1] as usize];
            if self.stretches.is_empty() {
                self.begin()?;
            }
            let Some(kept) = self.keep(part, Kind::Blocks { events })? else {
                self.give_up_batch(rows[rows.len() - 1] - rows[first]);
                break;
            };
            read::blocks(part).try_for_each(|block| self.alive.note(&block?))?;
            let ends = ends[first..last].iter().map(|end| end - start).collect();
            self.add(Part::new(Store::Log(kept), ends, events))?;
            first = last;
        }
        Ok(())
    }

    /// Keeps bytes in the log. Gives up what must be for that: the oldest stretches, or of a
    /// stretch alone the oldest events. `None`: there is no room all the same, so the ring is
    /// broken.
    fn keep(&mut self, bytes: &[u8], kind: Kind) -> Result<Option<Kept>, read::Malformed> {
        let mut looks = 0;
        while !self.is_broken {
            let Some(log) = &mut self.log else { break };
            if let Some(kept) = log.put(bytes, kind) {
                return Ok(Some(kept));
            }
            if log.is_read() && looks < LOOKS {
                looks += 1;
                thread::sleep(BETWEEN_LOOKS);
            } else if self.stretches.len() > 1 {
                self.give_up_oldest()?;
            } else if !self.strip_oldest()? {
                self.break_off();
            }
        }
        Ok(None)
    }

    /// Gives up the oldest events of the only stretch, but not what later ones may refer to.
    /// Returns `false` if there are none.
    pub(super) fn strip_oldest(&mut self) -> Result<bool, read::Malformed> {
        let (Some(log), [stretch]) = (&mut self.log, self.stretches.make_contiguous()) else {
            return Ok(false);
        };
        let Some(order) = log.oldest().filter(|_| stretch.parts.iter().any(|it| it.events > 0))
        else {
            return Ok(false);
        };
        if let Some(threads) = stretch.defines.as_ref().filter(|kept| kept.order() == order) {
            let moved = log.put(threads, Kind::Moved { order, has_threads: true });
            let Some(moved) = moved else { return Ok(false) };
            stretch.defines = Some(Arc::new(moved));
            log.give_up_oldest();
            return Ok(true);
        }
        let Some(part) = stretch.parts.iter_mut().find(|part| part.order() == Some(order)) else {
            return Ok(false);
        };
        let mut new = part.without_events()?;
        let Some(moved) = log.put(&new.bytes(), Kind::Moved { order, has_threads: false }) else {
            return Ok(false);
        };
        new.bytes = Mutex::new(Arc::new(Store::Log(moved)));
        self.bytes -= part.size() - new.size();
        self.given_up += part.events;
        let old = std::mem::replace(part, Arc::new(new));
        leave_to_readers(&old);
        log.give_up_oldest();
        Ok(true)
    }

    /// Keeps in the log, for a stretch that begins, which threads live.
    pub(super) fn put_threads(&mut self) -> Result<Option<Arc<Kept>>, read::Malformed> {
        if self.log.is_none() {
            return Ok(None);
        }
        let mut blocks = Vec::new();
        self.alive.write(&mut blocks)?;
        Ok(self.keep(&blocks, Kind::Threads)?.map(Arc::new))
    }

    /// Gives up a stretch in the log: all that comes before the next one.
    pub(super) fn give_up_in_log(&mut self, stretch: &Stretch) {
        let Some(log) = &mut self.log else { return };
        match self.stretches.front().and_then(|next| next.defines.as_deref()) {
            Some(next) => log.give_up_before(next),
            None => log.clear(),
        }
        stretch.parts.iter().for_each(leave_to_readers);
    }

    /// Gives up everything. Nothing more is kept until another stream begins.
    fn break_off(&mut self) {
        self.is_broken = true;
        if let Some(log) = &mut self.log {
            log.clear();
        }
        for stretch in std::mem::take(&mut self.stretches) {
            for part in &stretch.parts {
                leave_to_readers(part);
                self.bytes -= part.size();
                self.given_up += part.events;
            }
        }
    }

    /// Counts events as given up that were never kept.
    pub(super) fn give_up_batch(&mut self, events: u64) {
        self.given_up += events;
        if let Some(log) = &mut self.log {
            log.count(events);
        }
    }
}

impl Part {
    /// If it is in the log: the number that it had first.
    fn order(&self) -> Option<u64> {
        match &*self.bytes() {
            Store::Memory(_) => None,
            Store::Log(kept) => Some(kept.order()),
        }
    }
}

/// Moves a part that is given up into memory, if a dump still has it.
fn leave_to_readers(part: &Arc<Part>) {
    if Arc::strong_count(part) > 1 {
        let bytes = part.bytes().to_vec();
        *part.bytes.lock() = Arc::new(Store::Memory(bytes));
    }
}
