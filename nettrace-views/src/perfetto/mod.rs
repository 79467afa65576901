//! The target Perfetto: a stream of `TracePacket`, in the terms of `protos/perfetto/trace`.
//!
//! All packets are of one sequence. Names, frames and callstacks are written once, in packets of
//! their own before the first packet that refers to them. Packets are not in the order of time,
//! which Perfetto does not ask for.

mod counters;
mod names;
mod numbers;
mod samples;
mod threads;
mod tracks;
mod types;

use std::{
    io::{self, Write},
    rc::Rc,
};

use nettrace_reader::{Event, Label, Stack, Thread, Totals, Trace};

use crate::{
    LeftOut, Options, Target,
    clock::{self, Clock},
    ids::{Ids, Role},
    perfetto::{
        counters::Counters,
        names::{Kind, Names},
        numbers::{clock as clocks, event as fields, packet},
        samples::{Callstacks, Sample},
        threads::{Known, Threads},
        tracks::Tracks,
        types::{EventType, Types},
    },
    proto::{self, close, open},
    spans::{Begin, Draw, End, Place, Spans},
    values,
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

/// Bytes that are collected before they are written.
const BATCH: usize = 1 << 20;

/// The name of an event that shows a loss.
const LOST: &str = "lost events";

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

/// Writes a trace of Perfetto.
#[derive(Debug)]
pub(crate) struct Perfetto<W> {
    sink: W,
    out: Vec<u8>,
    version: u32,
    clock: Clock,
    process: Option<u64>,
    epoch: u64,
    names: Names,
    types: Types,
    pen: Pen,
    threads: Threads,
    spans: Spans,
    callstacks: Callstacks,
    counters: Counters,
    labels: Labels,
    stack: CachedStack,
    /// The annotations of the event that is being written.
    details: Vec<u8>,
    keys: Keys,
    latest: i64,
    lost: u64,
    counts: Counts,
}

/// What draws slices.
#[derive(Debug)]
struct Pen {
    tracks: Tracks,
    /// The track of each thread, by its number.
    threads: Vec<u64>,
}

/// The labels of the last event, and what they say. Most events have those of the event before.
#[derive(Debug, Default)]
struct Labels {
    labels: Vec<Label>,
    ids: Ids,
    level: Option<u8>,
    /// For slices.
    all: Vec<u8>,
    /// For events inside.
    some: Vec<u8>,
}

/// The stack of the last event that had one, as an annotation.
#[derive(Debug, Default)]
struct CachedStack {
    addresses: Vec<u8>,
    of_event: Vec<u8>,
    of_end: Vec<u8>,
}

/// The keys of annotations that do not come from fields.
#[derive(Debug, Default)]
struct Keys {
    span: Vec<u8>,
    trace: Vec<u8>,
    parent: Vec<u8>,
    level: Vec<u8>,
    stack: Vec<u8>,
    end_stack: Vec<u8>,
    lost: Vec<u8>,
    /// Type, category and name of an event that shows a loss.
    loss: Vec<u8>,
}

impl Draw for Pen {
    fn own_track(&mut self, span: &Begin, out: &mut Vec<u8>) -> Place {
        Place::Own(self.tracks.span(span.process, &span.name.text, out))
    }

    fn begin(&mut self, place: Place, span: &Begin, flows: &[u64], out: &mut Vec<u8>) {
        let packet = begin_packet(out, span.at);
        let body = open(out, packet::TRACK_EVENT);
        proto::uint(out, fields::TYPE, fields::BEGIN);
        proto::uint(out, fields::TRACK, self.track(place));
        out.extend_from_slice(&span.name.bytes);
        if span.parent.is_some() {
            proto::fixed64(out, fields::LAST_FLOW, span.key.flow());
        }
        for flow in flows {
            proto::fixed64(out, fields::FLOW, *flow);
        }
        out.extend_from_slice(&span.details);
        close(out, body);
        close(out, packet);
    }

    fn end(&mut self, place: Place, at: i64, details: &[u8], out: &mut Vec<u8>) {
        let packet = begin_packet(out, at);
        let body = open(out, packet::TRACK_EVENT);
        proto::uint(out, fields::TYPE, fields::END);
        proto::uint(out, fields::TRACK, self.track(place));
        out.extend_from_slice(details);
        close(out, body);
        close(out, packet);
    }

    fn instant(&mut self, span: &Begin, out: &mut Vec<u8>) {
        let track = self.tracks.process(span.process, out);
        let packet = begin_packet(out, span.at);
        let body = open(out, packet::TRACK_EVENT);
        proto::uint(out, fields::TYPE, fields::INSTANT);
        proto::uint(out, fields::TRACK, track);
        out.extend_from_slice(&span.name.event);
        out.extend_from_slice(&span.details);
        close(out, body);
        close(out, packet);
    }
}

impl Pen {
    fn track(&self, place: Place) -> u64 {
        match place {
            Place::Thread(number) => self.threads.get(number).copied().unwrap_or(0),
            Place::Own(uuid) => uuid,
        }
    }
}

/// Begins a packet at a time.
#[inline]
fn begin_packet(out: &mut Vec<u8>, at: i64) -> proto::Opened {
    let opened = open(out, packet::PACKET);
    proto::uint(out, packet::TIMESTAMP, timestamp(at));
    proto::uint(out, packet::SEQUENCE, SEQUENCE_ID);
    opened
}

impl<W: Write> Perfetto<W> {
    /// Begins the result of a NetTrace trace of a major version.
    pub(crate) fn new(sink: W, trace: &Trace, version: u32, options: &Options) -> Self {
        let mut out = Vec::with_capacity(BATCH + (1 << 16));
        write_clock(&mut out, clock::unix_nanos(&trace.sync_time));
        let mut names = Names::default();
        let mut key = |name| names.refer(Kind::Annotation, name, &mut out);
        let mut keys = Keys {
            span: key("SpanId"),
            trace: key("TraceId"),
            parent: key("ParentId"),
            level: key("level"),
            stack: key("stack"),
            end_stack: key("end_stack"),
            lost: key("lost"),
            loss: Vec::new(),
        };
        proto::uint(&mut keys.loss, fields::TYPE, fields::INSTANT);
        for (kind, name) in [(Kind::Category, "nettrace"), (Kind::Event, LOST)] {
            let bytes = names.refer(kind, name, &mut out);
            keys.loss.extend_from_slice(&bytes);
        }
        let process = trace.value("ProcessId").and_then(|id| id.parse().ok());
        let mut pen = Pen { tracks: Tracks::new(), threads: Vec::new() };
        let track = pen.tracks.process(process, &mut out);
        write_facts(trace, track, &mut names, &mut out);
        Self {
            sink,
            out,
            version,
            clock: Clock::of(trace),
            process,
            epoch: 0,
            names,
            types: Types::default(),
            pen,
            threads: Threads::default(),
            spans: Spans::new(options.spans_limit),
            callstacks: Callstacks::default(),
            counters: Counters::default(),
            labels: Labels::default(),
            stack: CachedStack::default(),
            details: Vec::new(),
            keys,
            latest: 0,
            lost: 0,
            counts: Counts::default(),
        }
    }

    fn write_out(&mut self) -> io::Result<()> {
        self.sink.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// A sequence point has passed: ids may stand for something else.
    #[cold]
    fn begin_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.types.clear();
        self.threads.begin_epoch(epoch, &mut self.spans, &mut self.out);
    }

    /// The number of a thread.
    fn thread(&mut self, thread: &Thread) -> usize {
        if let Some(number) = self.threads.find(thread, self.epoch) {
            return number;
        }
        let process = thread.process_id.or(self.process);
        let track = self.pen.tracks.thread(process, thread, &mut self.out);
        let old = self.threads.numbers.get(&thread.index).copied();
        if let Some(old) = old {
            // Another thread has got the index.
            self.threads.remove(thread.index, old, &mut self.spans, &mut self.out);
        }
        let number = self.threads.add(thread, process, self.epoch);
        if self.pen.threads.len() <= number {
            self.pen.threads.resize(number + 1, 0);
        }
        self.pen.threads[number] = track;
        number
    }

    fn read(&mut self, event: &Event<'_>) {
        let header = event.header;
        let exact = self.clock.since_start(header.timestamp);
        let at = bounded(exact);
        self.latest = self.latest.max(at);
        self.counts.times += u64::from(at != exact);
        if event.epoch() != self.epoch {
            self.begin_epoch(event.epoch());
        }
        let capture = event.capture_thread();
        if capture.lost != 0 {
            let number = self.thread(&capture.thread);
            self.show_loss(number, capture.lost, at);
        }
        let thread = self.thread(event.thread());
        self.read_labels(event);
        let ty = self.types.of(event, self.version, &mut self.names, &mut self.out);
        let role = match self.labels.ids.opcode {
            Some(code) if header.label_list != 0 => {
                Role::of(event.metadata(), Some(code), self.version)
            }
            _ => ty.role,
        };
        if ty.is_sample && self.sample(event, thread, at) {
            return;
        }
        self.read_details(event, role, &ty);
        if let Some(counter) = ty.counter {
            let process = self.threads.known[thread].process;
            let track = self.counters.of(counter, event, process, &mut self.pen.tracks);
            if let Some(track) = track {
                track.write(at, &mut self.out);
            }
        }
        if role == Role::Inside || !self.span(event, role, thread, at, &ty) {
            self.instant(thread, at, &ty);
        }
    }

    /// Writes what the event says of a span. Returns `false` if it is an event like any other.
    fn span(
        &mut self,
        event: &Event<'_>,
        role: Role,
        thread: usize,
        at: i64,
        ty: &Rc<EventType>,
    ) -> bool {
        let ids = self.labels.ids;
        let Some(key) = ids.span else { return false };
        let Self { spans, pen, out, .. } = self;
        let is_edge = matches!(role, Role::Start | Role::Stop | Role::Single);
        if is_edge && !spans.is_of_span(key, &ty.span) {
            return false;
        }
        let begin = |at, details| Begin {
            key,
            alias: ids.alias,
            parent: ids.related.filter(|parent| *parent != key),
            thread,
            at,
            process: self.threads.known[thread].process,
            name: Rc::clone(&ty.span),
            details,
        };
        let with_labels = |details: &[u8]| [details, &self.labels.all].concat();
        let end = End { key, thread, at, is_polled: ty.polls.is_some(), details: &self.details };
        match role {
            Role::Start => {
                spans.start(begin(at, with_labels(&self.details)), pen, out);
                true
            }
            Role::Stop if spans.stop(&end, pen, out) => true,
            Role::Stop | Role::Single => {
                let Some(duration) = ty.duration_of(event) else { return false };
                let begin = begin(bounded(at.saturating_sub(duration)), with_labels(&[]));
                spans.whole(begin, &end, pen, out);
                true
            }
            Role::Resume => {
                spans.resume(begin(at, with_labels(&self.details)), out);
                true
            }
            Role::Suspend => spans.suspend(&end, pen, out),
            Role::Inside => false,
        }
    }

    fn instant(&mut self, thread: usize, at: i64, ty: &EventType) {
        let out = self.spans.at(thread, at, &mut self.out);
        let packet = begin_packet(out, at);
        let body = open(out, packet::TRACK_EVENT);
        out.extend_from_slice(&ty.instant);
        proto::uint(out, fields::TRACK, self.pen.threads[thread]);
        out.extend_from_slice(&self.details);
        out.extend_from_slice(&self.labels.some);
        close(out, body);
        close(out, packet);
    }

    /// Writes a sample. Returns `false` if the event has no stack or no ids, or has fields.
    fn sample(&mut self, event: &Event<'_>, thread: usize, at: i64) -> bool {
        let Known { process, thread, .. } = &self.threads.known[thread];
        let Some((process, thread)) = process.zip(thread.os_thread_id) else { return false };
        let Some(stack) = event.stack() else { return false };
        let callstack = self.callstacks.refer(stack, &mut self.out);
        let processor = Some(event.header.processor).filter(|number| *number != u32::MAX);
        let timestamp = timestamp(at);
        Sample { timestamp, process, thread, processor, callstack }.write(&mut self.out);
        // The number in .NET's samples says what kind of code the thread was in.
        let metadata = event.metadata();
        metadata.fields.is_empty() || metadata.is_from_table
    }

    fn show_loss(&mut self, number: usize, lost: u64, at: i64) {
        let known = &mut self.threads.known[number];
        if lost > known.lost {
            let more = lost - known.lost;
            known.lost = lost;
            self.lost += more;
            let track = self.pen.threads[number];
            let out = self.spans.at(number, at, &mut self.out);
            write_loss(&self.keys, track, at, more, out);
        }
    }

    /// Reads the labels of an event into [`Labels`].
    fn read_labels(&mut self, event: &Event<'_>) {
        let header = event.header;
        let has_ids = header.activity_id != [0; 16] || header.related_activity_id != [0; 16];
        if header.label_list == 0 && !has_ids {
            self.labels.labels.clear();
            self.labels.read(&self.keys);
            return;
        }
        let labels = event.labels();
        if *self.labels.labels != *labels {
            labels.as_ref().clone_into(&mut self.labels.labels);
            self.labels.read(&self.keys);
        }
    }

    /// Writes the fields of an event, its level and its stack as annotations.
    fn read_details(&mut self, event: &Event<'_>, role: Role, ty: &EventType) {
        let out = &mut self.details;
        out.clear();
        let mut values = event.fields();
        for key in &ty.keys {
            // A field that an older version of the type did not have.
            if values.is_exhausted() {
                break;
            }
            match values.next() {
                Some(Ok((_, value))) => values::field(out, key, &value),
                Some(Err(_)) => {
                    self.counts.payloads += 1;
                    break;
                }
                None => break,
            }
        }
        if ty.keys.is_empty() && !event.payload.is_empty() {
            self.counts.undescribed += 1;
        }
        match self.labels.level {
            None => out.extend_from_slice(&ty.level),
            Some(level) => out.extend_from_slice(&types::level(level, &self.keys.level)),
        }
        if event.header.stack_id != 0 {
            if let Some(stack) = event.stack() {
                if stack.bytes() != self.stack.addresses {
                    self.stack.read(stack, &self.keys);
                }
                let is_end = matches!(role, Role::Stop | Role::Suspend);
                let Self { stack: CachedStack { of_event, of_end, .. }, .. } = self;
                self.details.extend_from_slice(if is_end { of_end } else { of_event });
            }
        }
    }
}

impl<W: Write> Target for Perfetto<W> {
    #[inline]
    fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.read(event);
        if self.out.len() < BATCH { Ok(()) } else { self.write_out() }
    }

    fn finish(mut self: Box<Self>, totals: &Totals) -> io::Result<LeftOut> {
        let this = &mut *self;
        this.spans.finish(&mut this.pen, &mut this.out);
        if totals.lost > this.lost {
            let track = this.pen.tracks.process(this.process, &mut this.out);
            write_loss(&this.keys, track, this.latest, totals.lost - this.lost, &mut this.out);
        }
        this.write_out()?;
        this.sink.flush()?;
        let mut left_out = LeftOut::default();
        let Counts { payloads, undescribed, times } = this.counts;
        for (count, what) in [
            (
                this.spans.given_up,
                "spans that are events without duration, as too many were under way",
            ),
            (this.spans.flows_left_out, "connections from spans to their children"),
            (payloads, "events' fields that cannot be decoded"),
            (undescribed, "payloads whose fields the trace does not describe"),
            (times, "times far from the start of the trace"),
        ] {
            left_out.add(count, what);
        }
        Ok(left_out)
    }
}

/// What could not be expressed.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Events some of whose fields cannot be decoded.
    payloads: u64,
    /// Events with a payload whose fields the trace does not describe.
    undescribed: u64,
    /// Events whose time is not between [`START`] and [`LATEST`].
    times: u64,
}

impl CachedStack {
    fn read(&mut self, stack: Stack<'_>, keys: &Keys) {
        stack.bytes().clone_into(&mut self.addresses);
        for (out, key) in [(&mut self.of_event, &keys.stack), (&mut self.of_end, &keys.end_stack)] {
            out.clear();
            values::addresses(out, key, stack.addresses());
        }
    }
}

impl Labels {
    fn read(&mut self, keys: &Keys) {
        let Self { labels, ids, level, all, some } = self;
        all.clear();
        some.clear();
        (*ids, *level) = (Ids::default(), None);
        if !labels.is_empty() {
            *ids = Ids::of(labels);
            let has_span = labels.iter().any(|label| matches!(label, Label::SpanId(_)));
            labels.iter().for_each(|label| keys.label(label, has_span, all, some, level));
        }
    }
}

impl Keys {
    /// Writes a label: to `all` for slices, to `some` for events inside.
    fn label(
        &self,
        label: &Label,
        has_span: bool,
        all: &mut Vec<u8>,
        some: &mut Vec<u8>,
        level: &mut Option<u8>,
    ) {
        use nettrace_context::ActivityId;
        let span = |id: &[u8; 16]| ActivityId::from_bytes_le(*id).span_id();
        let mut both = |write: &dyn Fn(&mut Vec<u8>)| {
            write(all);
            write(some);
        };
        match label {
            Label::Level(value) => *level = Some(*value),
            Label::TraceId(id) => values::text_field(all, &self.trace, &values::hex(id)),
            Label::SpanId(id) => both(&|out| {
                values::text_field(out, &self.span, &format!("{id:016x}"));
            }),
            Label::RelatedActivityId(id) => match span(id) {
                Some(parent) => values::text_field(all, &self.parent, &parent.to_string()),
                None => values::label(all, label),
            },
            Label::ActivityId(id) if span(id).is_some() => {
                if let Some(id) = span(id).filter(|_| !has_span) {
                    both(&|out| values::text_field(out, &self.span, &id.to_string()));
                }
            }
            label => both(&|out| values::label(out, label)),
        }
    }
}

fn write_loss(keys: &Keys, track: u64, at: i64, lost: u64, out: &mut Vec<u8>) {
    let packet = begin_packet(out, at);
    let body = open(out, packet::TRACK_EVENT);
    out.extend_from_slice(&keys.loss);
    proto::uint(out, fields::TRACK, track);
    values::number_field(out, &keys.lost, lost);
    close(out, body);
    close(out, packet);
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
    proto::uint(&mut head, fields::TYPE, fields::INSTANT);
    for (kind, name) in [(Kind::Category, "nettrace"), (Kind::Event, "trace")] {
        head.extend_from_slice(&names.refer(kind, name, out));
    }
    let packet = begin_packet(out, 0);
    let body = open(out, packet::TRACK_EVENT);
    out.extend_from_slice(&head);
    proto::uint(out, fields::TRACK, track);
    for (key, value) in &trace.key_values {
        values::text_field(out, &values::plain_key(key), value);
    }
    close(out, body);
    close(out, packet);
}
