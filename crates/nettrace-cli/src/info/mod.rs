//! `nettrace info`: what was traced, when, by which process, how many events there are and how many
//! were lost.
//!
//! The trace is read once, in the order of the stream, into an [`Info`], which is then shown as
//! text or JSON. `docs/json.md` documents the keys of the JSON.

mod rate;
mod text;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    io::Write,
};

use nettrace_reader::{Reader, ThreadTotals};
use nettrace_views::{
    model::{Clock, SpanCounts},
    text::Names,
};
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    duplicate_type_names::DuplicateTypeNames,
    failure::Failure,
    files::{RecordingFiles, SourceFiles},
    heph::{HephEnd, Original},
    read_options::ReadOptions,
    source::Source,
    spelling,
};

use self::rate::{Rate, Rates};
pub(crate) use self::text::MOST_ROWS;

/// Options of `info`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct InfoOptions {
    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// Show all threads, not only the twenty with the most events and those with losses. --json
    /// always shows all
    #[arg(long)]
    pub(crate) threads: bool,
}

/// Everything that `info` shows.
#[derive(Debug, Serialize)]
struct Info {
    format: &'static str,
    major_version: u32,
    minor_version: u32,
    /// The start of the trace, in UTC.
    start: String,
    start_ticks: u64,
    ticks_per_second: u64,
    pointer_bytes: u32,
    /// The recordings of several files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    recordings: Vec<RecordingFiles>,
    key_values: KeyValues,
    first_event: Option<EventTime>,
    last_event: Option<EventTime>,
    events: u64,
    lost: u64,
    /// Of a dump: how many of these its flight recorder had before the first event, at most.
    #[serde(skip)]
    events_before: Option<u64>,
    step_backs: u64,
    payload_bytes: u64,
    bytes: u64,
    blocks: u64,
    sequence_points: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    padding_bytes: Option<u64>,
    unknown_blocks: u64,
    undefined_stacks: u64,
    damaged_types: u64,
    deep_types: u64,
    spans: u64,
    spans_without_end: u64,
    spans_without_start: u64,
    uncounted_spans: u64,
    rate: Option<Rate>,
    types: Vec<TypeInfo>,
    threads: Vec<ThreadInfo>,
    /// Why the trace could not be read to its end.
    damage: Option<String>,
}

/// The time of an event.
#[derive(Debug, Serialize)]
struct EventTime {
    time: Option<String>,
    since_start_ns: Option<i128>,
    ticks: u64,
}

/// The counts of one event type.
#[derive(Debug, Serialize)]
struct TypeInfo {
    provider: String,
    name: String,
    id: u32,
    /// Its place in the source code, if that tells it from another type with its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    events: u64,
    payload_bytes: u64,
}

/// The counts of one thread.
#[derive(Debug, Serialize)]
struct ThreadInfo {
    index: u64,
    process: Option<u64>,
    id: Option<u64>,
    name: Option<String>,
    events: u64,
    lost: u64,
    step_backs: u64,
}

/// Keys and values in the order of the trace.
#[derive(Debug)]
struct KeyValues(Vec<(String, String)>);

impl Serialize for KeyValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        let mut names = Names::default();
        for (key, value) in &self.0 {
            map.serialize_entry(&*names.unique(key), value)?;
        }
        map.end()
    }
}

pub(crate) fn run(
    (source, original): (Source, Original),
    limits: ReadOptions,
    about: SourceFiles<'_>,
    options: InfoOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let reader_options = limits.options().keep_thread_totals(true).keep_type_totals(true);
    let mut reader = reader_options.open(source)?;
    let (mut rates, mut spans) = (Rates::default(), SpanCounts::default());
    let version = reader.major_version();
    let end = loop {
        match reader.next_event() {
            Ok(Some(event)) => {
                rates.count(event.header.timestamp);
                spans.count(&event, version);
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let mut info = Info::of(&reader, about.recordings.to_vec(), &rates, &spans);
    let mut end = end;
    if let Some(heph) = original.end()? {
        info.was_made_of(&heph);
        end = heph.failure.map_or(end, Err);
    }
    info.damage = end.as_ref().err().map(ToString::to_string);
    if options.json {
        write_json(&info, out)?;
    } else {
        text::write(&info, options.threads, out)?;
    }
    Ok(end?)
}

/// One JSON object in one line.
pub(crate) fn write_json(object: &impl Serialize, out: &mut impl Write) -> Result<(), Failure> {
    spelling::to_json(&mut *out, object)?;
    Ok(out.write_all(b"\n")?)
}

impl Info {
    fn of(
        reader: &Reader<Source>,
        recordings: Vec<RecordingFiles>,
        rates: &Rates,
        spans: &SpanCounts,
    ) -> Self {
        let (trace, totals) = (reader.trace(), reader.totals());
        let clock = Clock::of(trace);
        let moment = |ticks| {
            let instant = clock.at(ticks);
            let time = instant.time.map(|time| time.to_string());
            EventTime { time, since_start_ns: instant.since_start, ticks }
        };
        let span = reader.time_span();
        let [first_event, last_event] =
            [span.map(|(first, _)| first), span.map(|(_, last)| last)].map(|it| it.map(moment));
        Self {
            format: "NetTrace",
            major_version: reader.major_version(),
            minor_version: reader.minor_version(),
            start: trace.sync_time.to_string(),
            start_ticks: trace.sync_ticks,
            ticks_per_second: trace.ticks_per_second,
            pointer_bytes: trace.pointer_size,
            recordings,
            key_values: KeyValues(trace.key_values.clone()),
            first_event,
            last_event,
            events: totals.events,
            lost: totals.lost,
            events_before: trace.events_before().map(|before| before.min(totals.lost)),
            step_backs: totals.step_backs,
            payload_bytes: totals.payload_bytes,
            bytes: reader.offset(),
            blocks: totals.blocks,
            sequence_points: totals.sequence_points,
            padding_bytes: None,
            unknown_blocks: totals.unknown_blocks,
            undefined_stacks: totals.undefined_stacks,
            damaged_types: totals.damaged_types,
            deep_types: totals.deep_types,
            spans: spans.count,
            spans_without_end: spans.without_end(),
            spans_without_start: spans.without_start(),
            uncounted_spans: spans.uncounted,
            rate: rates.finish(trace.ticks_per_second),
            types: types(reader),
            threads: threads(reader),
            damage: None,
        }
    }

    /// States what the trace was in Heph's format. Blocks are packets.
    fn was_made_of(&mut self, heph: &HephEnd) {
        self.format = "Heph 0.1.0";
        (self.major_version, self.minor_version) = (0, 1);
        self.bytes = heph.bytes;
        self.step_backs = heph.totals.step_backs;
        self.blocks = heph.totals.packets;
        self.sequence_points = 0;
        self.unknown_blocks = heph.totals.unknown_options;
        self.padding_bytes = Some(heph.totals.padding);
    }
}

/// The types that have events, by provider, event id and name: those with the most payload bytes
/// first.
fn types(reader: &Reader<Source>) -> Vec<TypeInfo> {
    let mut by_name = BTreeMap::<_, (u64, u64)>::new();
    let mut namesakes = DuplicateTypeNames::default();
    for totals in reader.type_totals().filter(|totals| totals.events > 0) {
        namesakes.place(&totals.metadata);
    }
    let mut places = HashMap::new();
    for totals in reader.type_totals().filter(|totals| totals.events > 0) {
        let name = spelling::event_name(&totals.metadata).into_owned();
        let place = namesakes.place(&totals.metadata).map(str::to_owned);
        let key = (totals.metadata.provider, totals.metadata.event_id, name);
        places.insert(key.clone(), place);
        let (events, bytes) = by_name.entry(key).or_default();
        *events += totals.events;
        *bytes += totals.payload_bytes;
    }
    let mut types: Vec<_> = by_name
        .into_iter()
        .map(|(key, (events, payload_bytes))| {
            let place = places.remove(&key).flatten();
            let (provider, id, name) = key;
            TypeInfo { provider, name, id, place, events, payload_bytes }
        })
        .collect();
    types.sort_by_key(|it| (Reverse(it.payload_bytes), Reverse(it.events)));
    types
}

/// All threads: those with losses first, then those with the most events.
fn threads(reader: &Reader<Source>) -> Vec<ThreadInfo> {
    let threads = reader.live_threads().chain(reader.finished_threads());
    let mut threads: Vec<_> = threads
        .map(|ThreadTotals { thread, events, lost, step_backs, .. }| ThreadInfo {
            index: thread.index,
            process: thread.process_id,
            id: thread.os_thread_id,
            name: thread.name.clone(),
            events: *events,
            lost: *lost,
            step_backs: *step_backs,
        })
        .collect();
    threads.sort_by_key(|it| (it.lost == 0, Reverse(it.events), it.index));
    threads
}
