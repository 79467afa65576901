//! The model's flusher. It makes the calls of the real one in their order, and checks each row and
//! each sequence point.

use super::{GAP, LABELS, Model, ROW};
use crate::{
    protocol::{
        memory::Memory,
        record::{Asked, Correction, Mark, Record, Sealed, Waiting},
    },
    sync::thread,
};

/// A row as the flusher found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::loom_tests) struct Row {
    pub(in crate::loom_tests) id: u8,
    pub(in crate::loom_tests) ts: u64,
    pub(in crate::loom_tests) number: u64,
    /// As [`number`](Self::number), but without the gap directly before the row, which the row
    /// tells of.
    start: u64,
    /// How many numbers were given out when the next row of the chunk, or the chunk's end, was
    /// reached.
    end_number: u64,
}

/// What the flusher knows of one thread.
#[derive(Debug, Default)]
pub(in crate::loom_tests) struct Source {
    /// The rows that are in the trace.
    pub(in crate::loom_tests) written: Vec<Row>,
    /// The rows that stay for the next round.
    pub(in crate::loom_tests) kept: Vec<Row>,
    /// The version of the labels that were found last.
    pub(in crate::loom_tests) labels: u64,
    /// The last number that the trace accounts for.
    pub(in crate::loom_tests) told: u64,
    /// How often the chunk that was asked for had been sealed, so that the owner was asked again.
    pub(in crate::loom_tests) moved_on: usize,
    /// How often the owner was sealing a chunk during a visit.
    pub(in crate::loom_tests) sealing: usize,
    /// How many chunks were seized rather than sealed.
    pub(in crate::loom_tests) seized: usize,
    /// The time of the last sequence point.
    point: u64,
    /// Whether the owner has ended and all its rows are in hand.
    pub(in crate::loom_tests) ended: bool,
    asked: Option<Asked>,
    waiting: Option<Waiting>,
    settled: Option<u64>,
    mark: Option<Mark>,
}

/// The flusher's side.
#[derive(Debug)]
pub(in crate::loom_tests) struct Flusher<'a> {
    model: &'a Model,
    records: Vec<&'a Record>,
    pub(in crate::loom_tests) sources: Vec<Source>,
    times: Times,
    /// How many rounds asked nobody.
    pub(in crate::loom_tests) still: usize,
    is_closing: bool,
    /// How often the flusher could not know whether an owner was writing.
    pub(in crate::loom_tests) unproved: usize,
    /// Whether the last round collected everything.
    complete: bool,
}

/// The times of the trace, as in `flusher::timeline`. If the clock went back, it has jumped.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    offset: u64,
    epoch: u32,
    /// The first time of the epoch.
    begun: u64,
    /// The last reading of the clock, and the last `T`.
    clock: u64,
    last: u64,
    /// The time of the latest row.
    latest: u64,
    /// Whether a row was of the future.
    is_over: bool,
}

impl Times {
    fn begin_round(&mut self, model: &Model) -> u64 {
        let clock = model.now();
        if clock < self.clock || std::mem::take(&mut self.is_over) {
            self.begun = self.last.max(self.latest) + 1 + model.asleep;
            self.begun = self.begun.max(clock + self.offset);
            self.offset = self.begun - clock;
            self.epoch = model.floor.begin_epoch(clock, self.offset);
        }
        self.clock = clock;
        self.last = model.floor.raise(clock) + self.offset;
        self.last
    }

    /// How to correct the times of a chunk's rows. `earliest` is the time of the row before.
    fn check(&mut self, model: &Model, sealed: &Sealed, earliest: u64) -> Option<Correction> {
        let is_current = sealed.epoch == self.epoch;
        let latest = match (is_current, model.jumps) {
            (false, _) => self.begun - 1,
            (true, true) => self.last.max(model.now() + self.offset),
            // No row is of the future. To read the clock would multiply the executions.
            (true, false) => u64::MAX,
        };
        let shift = self.offset.wrapping_sub(sealed.offset);
        let correction = Correction { latest, shift, earliest };
        let [first, last] = [sealed.base_ts, sealed.last_ts].map(|ts| ts + sealed.offset);
        self.is_over |= is_current && correction.is_late(last, 0);
        let is_needed = correction.is_needed(first, last, 0);
        // The floor keeps rows in order while clocks are only behind. Corrections are for jumps.
        assert!(model.jumps || !is_needed, "a thread wrote below the floor: {sealed:?}");
        is_needed.then_some(correction)
    }
}

impl<'a> Flusher<'a> {
    pub(in crate::loom_tests) fn new(model: &'a Model, records: &[&'a Record]) -> Self {
        let sources = records.iter().map(|_| Source::default()).collect();
        let (records, times) = (records.to_vec(), Times::default());
        let (is_closing, still, unproved, complete) = (false, 0, 0, true);
        Self { model, records, sources, times, is_closing, still, unproved, complete }
    }

    /// Closes the session: the rounds that follow are the last.
    pub(in crate::loom_tests) fn close(&mut self) {
        self.is_closing = true;
        self.records.iter().for_each(|record| record.close());
    }

    /// Does a round without patience. What cannot be had at once stays, and no order is claimed.
    pub(in crate::loom_tests) fn impatient_round(&mut self) -> usize {
        self.times.begin_round(self.model);
        let all: Vec<_> = (0..self.sources.len()).collect();
        self.ask(&all);
        let mut busy = 0;
        for at in all {
            let (source, record) = (&mut self.sources[at], self.records[at]);
            if source.waiting.expect("asked before").is_over(record) {
                self.visit(at, false);
            } else {
                busy += 1;
                let mut collected = Vec::new();
                record.take_sealed(&self.model.pool, &mut collected);
                source.take(self.model, &mut self.times, &collected);
            }
        }
        self.sources.iter_mut().for_each(Source::write_all);
        busy
    }

    /// Collects once, and ends with a sequence point. No later row may break what an earlier point
    /// promised.
    pub(in crate::loom_tests) fn round(&mut self) {
        self.complete = true;
        let ts = self.collect();
        for source in &mut self.sources {
            if self.complete {
                source.write(ts);
            } else {
                source.write_all();
            }
        }
    }

    fn collect(&mut self) -> u64 {
        let ts = self.times.begin_round(self.model);
        if self.nobody_emitted() {
            self.still += 1;
            return ts;
        }
        let all: Vec<_> = (0..self.sources.len()).collect();
        self.ask(&all);
        let mut moved_on = Vec::new();
        for at in all {
            if !self.visit(at, false) {
                moved_on.push(at);
            }
        }
        if !moved_on.is_empty() {
            self.ask(&moved_on);
            for at in moved_on {
                self.sources[at].moved_on += 1;
                self.visit(at, true);
            }
        }
        ts
    }

    fn nobody_emitted(&self) -> bool {
        let mut all = self.sources.iter().zip(&self.records);
        !self.is_closing
            && all.all(|(source, record)| {
                source.kept.is_empty() && source.mark.is_some_and(|mark| mark == record.mark())
            })
            && self.model.pool.is_unused()
    }

    fn ask(&mut self, whom: &[usize]) {
        for &at in whom {
            (self.sources[at].settled, self.sources[at].mark) = (None, None);
            self.sources[at].asked = Some(self.records[at].ask());
        }
        self.model.barrier.heavy();
        for &at in whom {
            self.sources[at].waiting = Some(self.records[at].wait());
        }
    }

    /// Collects from one record, or what is left of it after it was asked again (`rest`). Returns
    /// `false` if not everything is in hand, which never happens for the rest.
    fn visit(&mut self, at: usize, rest: bool) -> bool {
        let collect = if rest { Record::collect_rest } else { Record::collect };
        let (source, record) = (&mut self.sources[at], self.records[at]);
        let asked = source.asked.expect("asked before");
        let waiting = source.waiting.as_ref().expect("asked before");
        if asked.needs_barrier() {
            let mut collected = Vec::new();
            record.take_sealed(&self.model.pool, &mut collected);
            source.take(self.model, &mut self.times, &collected);
            self.unproved += 1;
            self.complete = false;
            return true;
        }
        while !waiting.is_over(record) {
            thread::yield_now();
        }
        let mut collected = Vec::new();
        let mut all = collect(record, &self.model.pool, asked, &mut collected);
        while !all && rest {
            source.sealing += 1;
            thread::yield_now();
            all = collect(record, &self.model.pool, asked, &mut collected);
        }
        source.seized +=
            collected.iter().filter(|sealed| all && sealed.chunk == asked.chunk).count();
        source.take(self.model, &mut self.times, &collected);
        if all {
            let left = self.is_closing && record.is_left_waiting();
            source.settled = Some(asked.settled(rest) + u64::from(left));
            source.ended = asked.exited;
            source.mark = asked.mark(rest);
        }
        all
    }
}

impl Source {
    /// Keeps the rows of chunks, and gives the chunks back.
    fn take(&mut self, model: &Model, times: &mut Times, collected: &[Sealed]) {
        for sealed in collected {
            self.keep(model, times, sealed);
            model.pool.give(sealed.chunk);
        }
    }

    fn keep(&mut self, model: &Model, times: &mut Times, sealed: &Sealed) {
        assert!(!self.ended, "{sealed:?} of a thread that has ended");
        let place = model.pool.place(sealed.chunk);
        let bytes = Memory::bytes(place, sealed.len as usize);
        let (mut number, mut start, mut rows) = (sealed.first_number, sealed.first_number, 0);
        let before = self.kept.last().or(self.written.last());
        let earliest = before.map_or(0, |before| before.ts).max(self.point);
        let mut correction = times.check(model, sealed, earliest);
        for (at, row) in bytes.chunks_exact(ROW).enumerate() {
            let row = model.cell(sealed.chunk, at * ROW).with(|_| [row[0], row[1]]);
            if row[0] == GAP {
                number += u64::from(row[1]);
                continue;
            }
            if row[0] == LABELS {
                self.labels += 1;
                assert_eq!(u64::from(row[1]), self.labels, "labels are lost");
                assert!(sealed.escapes as usize > at * ROW && rows > 0, "nobody finds them");
                continue;
            }
            let ts = u64::from(row[1]) + sealed.offset;
            // A row that needs no correction must have the right time already.
            let ts = correction.as_mut().map_or(ts, |correction| correction.apply(ts));
            times.latest = times.latest.max(ts);
            assert!(ts >= self.point, "time {ts} behind the sequence point at {}", self.point);
            if let Some(before) = self.kept.last().or(self.written.last()) {
                assert!(before.id < row[0] && before.ts <= ts && before.number < number);
            }
            self.kept.push(Row { id: row[0], ts, number, start, end_number: number });
            (number, start, rows) = (number + 1, number + 1, rows + 1);
        }
        assert_eq!(rows, sealed.rows, "a chunk says how many rows it has: {sealed:?}");
        assert!(number <= sealed.end_number + 1, "{number} rows in {sealed:?}");
        if let Some(last) = self.kept.last_mut().filter(|_| rows > 0) {
            let is_corrected = correction.is_some();
            assert!(is_corrected || last.ts <= sealed.last_ts + sealed.offset);
            assert!(sealed.base_ts <= sealed.last_ts);
            last.end_number = sealed.end_number;
        }
    }

    /// Writes the rows older than `ts`, and a sequence point.
    fn write(&mut self, ts: u64) {
        let cut = self.kept.iter().position(|row| row.ts >= ts).unwrap_or(self.kept.len());
        self.write_until(cut);
        // Whether a later row is older than the point is checked when the row comes.
        self.point = ts;
    }

    /// Writes everything, without a sequence point.
    fn write_all(&mut self) {
        self.write_until(self.kept.len());
    }

    fn write_until(&mut self, cut: usize) {
        for row in self.kept.drain(..cut) {
            // Every earlier sequence point accounts for the numbers up to `told`, and for no
            // others.
            assert!(row.number > self.told, "{row:?} behind a point that told {}", self.told);
            self.told = row.end_number;
            self.written.push(row);
        }
        self.told = match (self.kept.first(), self.settled) {
            (Some(next), _) => next.start - 1,
            (None, Some(settled)) => settled.max(self.told),
            (None, None) => self.told,
        };
    }
}

/// What must be true after the last round.
impl Flusher<'_> {
    /// Checks that the only thread has these rows, and that its numbers add up.
    pub(in crate::loom_tests) fn check_rows(&self, ids: &[u8]) {
        let [source] = &self.sources[..] else { panic!("one thread") };
        assert_eq!(source.written.iter().map(|row| row.id).collect::<Vec<_>>(), ids);
        self.check_counts();
    }

    /// Checks that everything attempted was written or dropped, and that the trace says so.
    pub(in crate::loom_tests) fn check_counts(&self) {
        for (source, record) in self.sources.iter().zip(&self.records) {
            let (attempted, drops) = record.counts();
            assert!(source.kept.is_empty());
            assert_eq!(attempted, source.written.len() as u64 + drops.total());
            assert_eq!(attempted, source.told, "the last sequence point tells all numbers");
        }
    }

    /// How many epochs began because the clock jumped.
    pub(in crate::loom_tests) fn epochs(&self) -> usize {
        self.times.epoch as usize
    }

    /// How many rows are in hand or written.
    pub(in crate::loom_tests) fn rows(&self) -> usize {
        self.sources.iter().map(|source| source.written.len() + source.kept.len()).sum()
    }
}
