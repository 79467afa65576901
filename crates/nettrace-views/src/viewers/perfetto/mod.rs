//! The target Perfetto: a stream of `TracePacket`, in the terms of `protos/perfetto/trace`.
//!
//! All packets are of one sequence. Names, frames and callstacks are written once, in packets of
//! their own before the first packet that refers to them. Packets are not in the order of time,
//! which Perfetto does not ask for. Samples come last, or when many have been collected, because
//! the names of their frames may be at the end of the source.

mod annotations;
mod names;
mod numbers;
mod requests;
mod samples;
mod tracks;

use std::{collections::HashMap, io::Write};

use nettrace_reader::{Thread, Trace};

use self::{
    annotations::Annotations,
    names::{Kind, Names},
    numbers::{clock as clocks, event as fields, packet},
    requests::Requests,
    samples::Callstacks,
    tracks::Tracks,
};
use crate::{
    LeftOut,
    model::{process_of, unix_nanos},
    viewers::{
        Options,
        proto::{self, Short, close, open},
        spans::{Begin, Draw, Flows, Place},
        stacks::{Sampled, Samples},
        timeline::{CounterValue, Form, Moment, Relieve, Timeline},
        values::Details,
    },
};

/// The number of the only sequence.
const SEQUENCE_ID: u64 = 1;

/// The flag of the first packet of a sequence.
const STATE_CLEARED: u64 = 1;

/// The timestamp of the start of the trace, in nanoseconds: about 17 s. A span can have begun
/// before the trace, and Perfetto has no negative times.
const START: i64 = 1 << 34;

/// The latest timestamp.
const LATEST: i64 = 1 << 62;

/// The name of an event that shows a loss.
const LOST: &str = "lost events";

/// How many counters are remembered. A track may be described again.
const COUNTERS: usize = 1 << 14;

/// A time that the result can express, in nanoseconds since the start of the trace.
#[inline]
fn bounded(at: i64) -> i64 {
    at.clamp(-START, LATEST - START)
}

/// Converts nanoseconds since the start of the trace.
#[inline]
fn timestamp(at: i64) -> u64 {
    (bounded(at) + START) as u64
}

/// Begins a trace of Perfetto.
pub(crate) fn begin<W: Write>(
    sink: W,
    trace: &Trace,
    version: u32,
    options: &Options,
) -> Timeline<Perfetto, W> {
    let mut out = Vec::new();
    let form = Perfetto::new(trace, &mut out);
    Timeline::new(sink, form, out, trace, version, options)
}

/// The form of Perfetto.
#[derive(Debug)]
pub(crate) struct Perfetto {
    process: Option<u64>,
    names: Names,
    tracks: Tracks,
    requests: Requests,
    /// The track of each thread by its number, and its name as an annotation.
    threads: Vec<(u64, Vec<u8>)>,
    counters: HashMap<(Option<u64>, String), u64>,
    callstacks: Callstacks,
    /// The flows of the slice that is being written.
    flows: Vec<u8>,
    /// Category and name of an event that shows a loss.
    loss: Vec<u8>,
    lost: Vec<u8>,
    /// The key of the annotation with the thread on which an asynchronous span began.
    thread: Vec<u8>,
}

impl Perfetto {
    fn new(trace: &Trace, out: &mut Vec<u8>) -> Self {
        write_clock(out, unix_nanos(&trace.sync_time));
        let mut names = Names::default();
        let lost = names.refer(Kind::Annotation, "lost", out);
        let thread = names.refer(Kind::Annotation, "Thread", out);
        let mut loss = Vec::new();
        for (kind, name) in [(Kind::Category, "nettrace"), (Kind::Event, LOST)] {
            let bytes = names.refer(kind, name, out);
            loss.extend_from_slice(&bytes);
        }
        let process = process_of(trace);
        let mut tracks = Tracks::new();
        let track = tracks.process(process, out);
        write_facts(trace, track, &mut names, out);
        Self {
            process,
            names,
            tracks,
            requests: Requests::default(),
            threads: Vec::new(),
            counters: HashMap::new(),
            callstacks: Callstacks::default(),
            flows: Vec::new(),
            loss,
            lost,
            thread,
        }
    }

    fn track(&self, place: Place) -> u64 {
        match place {
            Place::Thread(number) => self.threads.get(number).map_or(0, |(track, _)| *track),
            Place::Own(uuid) => uuid,
        }
    }
}

/// Writes a packet with an event of a type on a track. `parts` is the rest of the event.
#[inline]
fn event(out: &mut Vec<u8>, at: i64, ty: u64, track: u64, parts: [&[u8]; 4]) {
    let (mut body, mut head, mut packet) = (Short::new(), Short::new(), Short::new());
    body.uint(fields::TYPE, ty);
    body.uint(fields::TRACK, track);
    let size = body.bytes().len() + parts.iter().map(|part| part.len()).sum::<usize>();
    head.uint(packet::TIMESTAMP, timestamp(at));
    head.uint(packet::SEQUENCE, SEQUENCE_ID);
    head.begin(packet::TRACK_EVENT, size);
    packet.begin(packet::PACKET, head.bytes().len() + size);
    for part in [packet.bytes(), head.bytes(), body.bytes()] {
        out.extend_from_slice(part);
    }
    for part in parts {
        if !part.is_empty() {
            out.extend_from_slice(part);
        }
    }
}

impl Draw for Perfetto {
    fn opened(&mut self, span: &Begin) {
        self.requests.opened(span);
    }

    fn closed(&mut self, span: &Begin) {
        self.requests.closed(span);
    }

    fn own_track(&mut self, span: &Begin, end: Option<i64>, out: &mut Vec<u8>) -> Place {
        Place::Own(self.requests.track(span, end, &mut self.tracks, out))
    }

    fn begin(
        &mut self,
        place: Place,
        span: &Begin,
        flows: Flows<'_>,
        _: Option<(i64, &[u8])>,
        out: &mut Vec<u8>,
    ) {
        let ids = &mut self.flows;
        ids.clear();
        if span.parent.is_some() {
            proto::fixed64(ids, fields::LAST_FLOW, span.flow());
        }
        for flow in flows.elsewhere {
            proto::fixed64(ids, fields::FLOW, *flow);
        }
        let thread = match place {
            Place::Thread(_) => &[],
            Place::Own(_) => self.threads.get(span.thread).map_or(&[][..], |(_, name)| name),
        };
        let parts = [&*span.name.bytes, &self.flows, &span.details, thread];
        event(out, span.at, fields::BEGIN, self.track(place), parts);
    }

    fn end(&mut self, place: Place, at: i64, details: &[u8], out: &mut Vec<u8>) {
        event(out, at, fields::END, self.track(place), [details, &[], &[], &[]]);
    }

    fn instant(&mut self, span: &Begin, out: &mut Vec<u8>) {
        let track = self.tracks.process(span.process, out);
        let parts = [&*span.name.event, &span.details, &[], &[]];
        event(out, span.at, fields::INSTANT, track, parts);
    }
}

impl Form for Perfetto {
    type Details = Annotations;

    fn has_samples_of(process: Option<u64>, thread: Option<u64>) -> bool {
        let is_small = |id: Option<u64>| id.is_some_and(|id| id <= tracks::MAX_ID);
        is_small(process) && is_small(thread)
    }

    #[inline]
    fn bounded(at: i64) -> i64 {
        bounded(at)
    }

    fn key(&mut self, name: &str, out: &mut Vec<u8>) -> Vec<u8> {
        self.names.refer(Kind::Annotation, name, out)
    }

    fn name(&mut self, provider: &str, name: &str, out: &mut Vec<u8>) -> Vec<u8> {
        let category = self.names.refer(Kind::Category, provider, out);
        [category, self.names.refer(Kind::Event, name, out)].concat()
    }

    fn thread(&mut self, number: usize, process: Option<u64>, thread: &Thread, out: &mut Vec<u8>) {
        let track = self.tracks.thread(process, thread, out);
        let mut name = Vec::new();
        Annotations::text(&mut name, &self.thread, &Sampled::of(thread, process).title());
        if self.threads.len() <= number {
            self.threads.resize(number + 1, (0, Vec::new()));
        }
        self.threads[number] = (track, name);
    }

    #[inline]
    fn moment(&mut self, moment: &Moment<'_>, out: &mut Vec<u8>) {
        let track = self.threads[moment.thread].0;
        let mut link = Short::new();
        if let Some(flow) = moment.flow {
            link.fixed64(fields::LAST_FLOW, flow);
        }
        let [own, labels] = moment.details;
        event(out, moment.at, fields::INSTANT, track, [moment.name, link.bytes(), own, labels]);
    }

    fn lost(&mut self, thread: Option<usize>, at: i64, count: u64, out: &mut Vec<u8>) {
        let track = match thread {
            Some(number) => self.threads[number].0,
            None => self.tracks.process(self.process, out),
        };
        let mut details = Vec::new();
        Annotations::unsigned(&mut details, &self.lost, count);
        event(out, at, fields::INSTANT, track, [&self.loss, &details, &[], &[]]);
    }

    fn counter(&mut self, process: Option<u64>, value: &CounterValue, at: i64, out: &mut Vec<u8>) {
        if self.counters.len() >= COUNTERS {
            self.counters.clear();
        }
        let key = (process, value.name.clone());
        let track = *self
            .counters
            .entry(key)
            .or_insert_with(|| self.tracks.counter(process, &value.name, &value.unit, out));
        let mut number = Short::new();
        number.fixed64(fields::DOUBLE_COUNTER, value.value.to_bits());
        event(out, at, fields::COUNTER, track, [number.bytes(), &[], &[], &[]]);
    }

    fn process_name(&mut self, process: Option<u64>, name: &str, out: &mut Vec<u8>) {
        self.tracks.process_name(process, name, out);
    }

    fn samples(&mut self, samples: &Samples, out: &mut Vec<u8>) {
        self.callstacks.write(samples, out);
    }

    fn close(&mut self, _: &mut Vec<u8>, _: Relieve<'_>) {}

    fn left_out(&self, _: &mut LeftOut) {}
}

/// Writes the first packet: how the timestamps relate to the time of day.
fn write_clock(out: &mut Vec<u8>, unix_nanos: Option<u64>) {
    let opened = open(out, packet::PACKET);
    proto::uint(out, packet::SEQUENCE, SEQUENCE_ID);
    proto::uint(out, packet::FLAGS, STATE_CLEARED);
    let snapshot = open(out, packet::CLOCK_SNAPSHOT);
    let start = Some((clocks::BOOTTIME, timestamp(0)));
    let wall = unix_nanos.map(|nanos| (clocks::REALTIME, nanos));
    for (id, time) in start.into_iter().chain(wall) {
        let body = open(out, clocks::CLOCKS);
        proto::uint(out, clocks::ID, id);
        proto::uint(out, clocks::TIMESTAMP, time);
        close(out, body);
    }
    proto::uint(out, clocks::PRIMARY, clocks::BOOTTIME);
    close(out, snapshot);
    close(out, opened);
}

/// Writes the facts about the trace as an event of the process.
fn write_facts(trace: &Trace, track: u64, names: &mut Names, out: &mut Vec<u8>) {
    let mut head = Vec::new();
    for (kind, name) in [(Kind::Category, "nettrace"), (Kind::Event, "trace")] {
        head.extend_from_slice(&names.refer(kind, name, out));
    }
    let mut facts = Vec::new();
    for (key, value) in &trace.key_values {
        Annotations::text(&mut facts, &Annotations::plain_key(key), value);
    }
    event(out, 0, fields::INSTANT, track, [&head, &facts, &[], &[]]);
}
