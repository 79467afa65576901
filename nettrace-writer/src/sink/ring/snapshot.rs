//! Dumps: what a ring has kept at a moment, written to a sink.

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    sync::Arc,
    time::{Duration, SystemTime},
};

use nettrace_event::keys;
use nettrace_format::{
    LeftOut,
    v6::{self, read},
};

use super::{Part, Ring, State, Store, Stretch, definitions::Definitions, malformed};
use crate::sink::{Batch, Sink, StreamEnd, stream::not_started};

/// What a dump of a [flight recorder](crate::SessionBuilder::flight_recorder) contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dump {
    /// How many events the dump has.
    pub events: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// How many events the recorder had given up before, because they were too old or there was no
    /// room. Readers see them as lost.
    pub given_up: u64,
    /// How many events the recorder had kept that the dump leaves out, because only a part of the
    /// [`Past`] was asked for. Readers see them as lost, too.
    pub left_out: u64,
    /// What the dump leaves out because the session's [format](crate::Format) cannot store it.
    pub not_in_format: LeftOut,
    /// Every event that was recorded from here on is in the dump, or counted as lost. With
    /// [`Past::After`] it may be in the dump before.
    pub begins: SystemTime,
    /// The dump has every event that was recorded before.
    pub ends: SystemTime,
    /// The number of the first part that the dump does not have.
    pub(super) next: u64,
}

/// How much of what a [flight recorder](crate::SessionBuilder::flight_recorder) has kept is wanted.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Past {
    /// All that is there.
    All,
    /// At least the last so much time, if that is there. Up to an eighth of what
    /// [`Keep::last`](crate::Keep::last) says comes with it.
    Last(Duration),
    /// What another dump of the session does not have. So two dumps have no event in common.
    After(Dump),
}

/// What a ring has kept at a moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    header: Vec<u8>,
    end: StreamEnd,
    definitions: Definitions,
    stretches: VecDeque<Stretch>,
    given_up: u64,
    left_out: u64,
    next: u64,
}

impl Ring {
    /// What is there now. The session goes on. What it gives up stays in memory as long as this.
    pub(crate) fn snapshot(&self, past: Past) -> io::Result<Snapshot> {
        let snapshot = self.state.lock().snapshot()?;
        snapshot.cut(past).map_err(malformed)
    }
}

impl State {
    pub(super) fn snapshot(&self) -> io::Result<Snapshot> {
        let Some(end) = self.end else { return Err(not_started()) };
        Ok(Snapshot {
            header: self.header.clone(),
            end,
            definitions: self.definitions.clone(),
            stretches: self.stretches.iter().map(Stretch::without_threads).collect(),
            given_up: self.given_up,
            left_out: 0,
            next: self.next_part,
        })
    }
}

impl Snapshot {
    /// Leaves out what is not asked for. Stretches need types and threads from before; the rest of
    /// a stretch may need its stacks and label lists, too.
    pub(super) fn cut(mut self, past: Past) -> Result<Self, read::Malformed> {
        let first = match past {
            Past::All => return Ok(self),
            Past::Last(time) => {
                let mut wanted = self.stretches.iter().rev();
                let first = wanted.find(|stretch| stretch.age.elapsed() >= time);
                first.map_or(0, |stretch| stretch.first)
            }
            Past::After(dump) => dump.next,
        };
        while self.stretches.get(1).is_some_and(|second| second.first <= first) {
            for part in self.stretches.pop_front().into_iter().flat_map(|stretch| stretch.parts) {
                self.definitions.take_over(&part.bytes())?;
                self.left_out += part.events;
            }
        }
        let parts = self.stretches.front_mut().into_iter().flat_map(|stretch| &mut stretch.parts);
        for part in parts.filter(|part| part.number < first && part.events > 0) {
            self.left_out += part.events;
            *part = Arc::new(part.without_events()?);
        }
        if let (Past::After(dump), Some(stretch)) = (past, self.stretches.front_mut()) {
            stretch.begins = stretch.begins.max(dump.ends);
        }
        Ok(self)
    }

    /// Begins a stream in `sink`, with more key-values. `ends` is when the dump was asked for.
    pub(super) fn begin<'a>(
        &self,
        sink: &mut dyn Sink,
        key_values: &[(&'a str, &'a str)],
        ends: SystemTime,
    ) -> io::Result<Dump> {
        let (given_up, left_out) = (self.given_up.to_string(), self.left_out.to_string());
        let counts = [(keys::GIVEN_UP, &*given_up), (keys::LEFT_OUT, &*left_out)];
        let counts = counts.into_iter().take(1 + usize::from(self.left_out > 0));
        let header = with_key_values(self.header.clone(), counts.chain(key_values.iter().copied()));
        let header = header.map_err(malformed)?;
        sink.start(&header, self.end)?;
        Ok(Dump {
            events: 0,
            bytes: (header.len() + self.end.bytes().len()) as u64,
            given_up: self.given_up,
            left_out: self.left_out,
            not_in_format: LeftOut::default(),
            begins: self.stretches.front().map_or(ends, |first| first.begins),
            ends,
            next: self.next,
        })
    }

    /// Writes the blocks.
    pub(super) fn write_blocks(&self, to: &mut Output<'_>) -> io::Result<()> {
        to.write(&self.definitions.part().map_err(malformed)?)?;
        self.stretches.iter().flat_map(|stretch| &stretch.parts).try_for_each(|part| to.write(part))
    }

    /// Writes all of it to `sink`, with more key-values. `ends` is when it was asked for.
    pub(crate) fn write(
        self,
        sink: &mut dyn Sink,
        key_values: &[(&str, &str)],
        ends: SystemTime,
    ) -> io::Result<Dump> {
        sink.name_when_whole();
        let mut dump = self.begin(sink, key_values, ends)?;
        self.write_blocks(&mut Output { sink, dump: &mut dump, copy: Vec::new() })?;
        sink.finish()?;
        Ok(dump)
    }
}

/// Where a dump goes, and what it has so far.
pub(super) struct Output<'a> {
    pub(super) sink: &'a mut dyn Sink,
    pub(super) dump: &'a mut Dump,
    pub(super) copy: Vec<u8>,
}

impl Output<'_> {
    pub(super) fn write(&mut self, part: &Part) -> io::Result<()> {
        let mut bytes = Some(part.bytes());
        if let Some(Store::Log(kept)) = bytes.as_deref() {
            // A sink can take its time, and the log goes on only when nobody reads it.
            self.copy.clear();
            self.copy.extend_from_slice(kept);
            bytes = None;
        }
        let bytes = bytes.as_deref().map_or(&*self.copy, |bytes| &**bytes);
        let pieces = [IoSlice::new(bytes)];
        self.sink.write(&Batch::new(&pieces, &part.ends)).map_err(|error| error.source)?;
        self.dump.events += part.events;
        self.dump.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// A header with more key-values.
fn with_key_values<'a>(
    mut header: Vec<u8>,
    key_values: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<u8>, read::Malformed> {
    let mut start = Vec::new();
    v6::stream_header(&mut start);
    let block = header.split_off(start.len());
    let body = read::blocks(&block).next().ok_or(read::Malformed)??.body;
    v6::more_key_values(body, key_values, &mut header)?;
    Ok(header)
}
