//! The target pprof: `profile.proto`, compressed by gzip.
//!
//! One profile has the samples of the processor and the spans, with four values each: how many
//! samples and how long they stand for, how many spans and how long they took without their
//! children.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use flate2::{Compression, write::GzEncoder};
use nettrace_reader::Trace;

use crate::{
    LeftOut,
    model::unix_nanos,
    viewers::{
        Options,
        profile::{Profile, Profiler, interval},
        proto::{self, Opened, close, open},
        spans::{Begin, Place},
        stacks::Samples,
        timeline::{Relieve, Timeline},
        tree::{CUT_SAMPLES, CUT_SPANS, Counted, SampleTree, SpanTree},
    },
};

/// The numbers of fields of `Profile`.
mod profile {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const MAPPING: u32 = 3;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const FUNCTION: u32 = 5;
    pub(super) const STRINGS: u32 = 6;
    pub(super) const TIME_NANOS: u32 = 9;
    pub(super) const DURATION_NANOS: u32 = 10;
    pub(super) const PERIOD_TYPE: u32 = 11;
    pub(super) const PERIOD: u32 = 12;
    pub(super) const DEFAULT_TYPE: u32 = 14;
}

/// The types of values and their units. The last two are there if the trace has context switches.
const TYPES: [(&str, &str); 6] = [
    ("samples", "count"),
    ("cpu", "nanoseconds"),
    ("spans", "count"),
    ("span_time", "nanoseconds"),
    ("waits", "count"),
    ("wait_time", "nanoseconds"),
];

/// The time between samples if the trace states none: that of .NET's sampler, in nanoseconds.
const DEFAULT_INTERVAL: u64 = 1_000_000;

/// Begins a profile.
pub(crate) fn begin<W: Write>(
    sink: W,
    trace: &Trace,
    version: u32,
    options: &Options,
) -> Timeline<Profiler<Pprof>, Gzip<W>> {
    let profile = Pprof {
        samples: SampleTree::default(),
        waits: SampleTree::default(),
        spans: SpanTree::default(),
        interval: interval(trace).unwrap_or(DEFAULT_INTERVAL),
        start: unix_nanos(&trace.sync_time),
        latest: 0,
    };
    let sink = Gzip(Some(GzEncoder::new(sink, Compression::default())));
    Timeline::new(sink, Profiler::new(profile), Vec::new(), trace, version, options)
}

/// Compresses. `flush` ends the result.
#[derive(Debug)]
pub(crate) struct Gzip<W: Write>(Option<GzEncoder<W>>);

impl<W: Write> Write for Gzip<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Some(encoder) => encoder.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.take() {
            Some(encoder) => encoder.finish()?.flush(),
            None => Ok(()),
        }
    }
}

/// What a profile has.
#[derive(Debug)]
pub(crate) struct Pprof {
    samples: SampleTree,
    waits: SampleTree,
    spans: SpanTree,
    interval: u64,
    /// In nanoseconds since 1970.
    start: Option<u64>,
    latest: i64,
}

/// The table of texts.
#[derive(Debug, Default)]
struct Texts(HashMap<String, u64>);

impl Texts {
    fn number(&mut self, text: &str, out: &mut Vec<u8>) -> u64 {
        if let Some(number) = self.0.get(text) {
            return *number;
        }
        let number = self.0.len() as u64;
        proto::bytes(out, profile::STRINGS, text.as_bytes());
        self.0.insert(text.to_owned(), number);
        number
    }
}

fn value_type(out: &mut Vec<u8>, field: u32, (what, unit): (u64, u64)) {
    let body = open(out, field);
    proto::uint(out, 1, what);
    proto::uint(out, 2, unit);
    close(out, body);
}

impl Profile for Pprof {
    const TAKES_SAMPLES_EARLY: bool = true;

    fn span(&mut self, _: Place, span: &Begin, end: i64) {
        self.latest = self.latest.max(end);
        self.spans.add(span, end);
    }

    fn samples(&mut self, samples: &Samples) {
        let last = samples.taken.iter().map(|sample| sample.at).max();
        self.latest = self.latest.max(last.unwrap_or(0));
        self.samples.add(samples, Counted::Running(self.interval));
        self.waits.add(samples, Counted::Waiting);
    }

    fn write(&mut self, out: &mut Vec<u8>, _: Relieve<'_>) {
        let mut texts = Texts::default();
        // The first text is empty.
        texts.number("", out);
        let has_waits = self.waits.root.total().count > 0;
        let types = &TYPES[..if has_waits { 6 } else { 4 }];
        let types: Vec<_> = types
            .iter()
            .map(|(what, unit)| (texts.number(what, out), texts.number(unit, out)))
            .collect();
        for of in &types {
            value_type(out, profile::SAMPLE_TYPE, *of);
        }
        let of_samples = self.samples.frames.names.iter();
        let frames: Vec<_> = of_samples.chain(&self.waits.frames.names).collect();
        // Files, with numbers from 1.
        let mut files = HashMap::new();
        for frame in &frames {
            let Some(module) = &frame.place.module else { continue };
            let number = files.len() as u64 + 1;
            if files.contains_key(module) {
                continue;
            }
            files.insert(module.clone(), number);
            let text = texts.number(module, out);
            let body = open(out, profile::MAPPING);
            proto::uint(out, 1, number);
            proto::uint(out, 5, text);
            proto::uint(out, 7, 1);
            close(out, body);
        }
        let mut last = 0;
        let mut location = |out: &mut Vec<u8>, name: &str, file: u64, address: u64| {
            last += 1;
            let text = texts.number(name, out);
            let function = open(out, profile::FUNCTION);
            proto::uint(out, 1, last);
            proto::uint(out, 2, text);
            proto::uint(out, 3, text);
            close(out, function);
            let location = open(out, profile::LOCATION);
            proto::uint(out, 1, last);
            if file != 0 {
                proto::uint(out, 2, file);
            }
            if address != 0 {
                proto::uint(out, 3, address);
            }
            let line = open(out, 4);
            proto::uint(out, 1, last);
            close(out, line);
            close(out, location);
        };
        for frame in &frames {
            let file = frame.place.module.as_ref().map_or(0, |module| files[module]);
            location(out, &frame.name, file, frame.address);
        }
        for name in &self.spans.texts {
            location(out, name, 0, 0);
        }
        let of_spans = frames.len() as u64;
        let sample = |out: &mut Vec<u8>, stack: &[u32], first: u64, values: [u64; 6]| {
            let values = &values[..types.len()];
            let packed = |out: &mut Vec<u8>, field, numbers: &mut dyn Iterator<Item = u64>| {
                let body: Opened = open(out, field);
                numbers.for_each(|number| proto::varint(out, number));
                close(out, body);
            };
            let body = open(out, profile::SAMPLE);
            // The innermost frame comes first here.
            packed(out, 1, &mut stack.iter().rev().map(|frame| first + u64::from(*frame)));
            packed(out, 2, &mut values.iter().map(|value| (*value).min(i64::MAX as u64)));
            close(out, body);
        };
        let mut stack = Vec::new();
        self.samples.root.each(&mut stack, &mut |stack, own| {
            sample(out, stack, 1, [own.count, own.nanos, 0, 0, 0, 0]);
        });
        let of_waits = self.samples.frames.names.len() as u64;
        self.waits.root.each(&mut stack, &mut |stack, own| {
            sample(out, stack, of_waits + 1, [0, 0, 0, 0, own.count, own.nanos]);
        });
        let mut has_spans = false;
        self.spans.complete();
        self.spans.root.each(&mut stack, &mut |stack, own| {
            has_spans = true;
            sample(out, stack, of_spans + 1, [0, 0, own.count, own.nanos, 0, 0]);
        });
        if let Some(start) = self.start {
            proto::uint(out, profile::TIME_NANOS, start.min(i64::MAX as u64));
        }
        proto::uint(out, profile::DURATION_NANOS, self.latest.max(0) as u64);
        value_type(out, profile::PERIOD_TYPE, types[1]);
        proto::uint(out, profile::PERIOD, self.interval.min(i64::MAX as u64));
        let has_samples = self.samples.root.total().count > 0;
        let default = match (has_samples, has_spans, has_waits) {
            (false, true, _) => types[3],
            (false, false, true) => types[5],
            _ => types[1],
        };
        proto::uint(out, profile::DEFAULT_TYPE, default.0);
    }

    fn left_out(&self, left_out: &mut LeftOut) {
        left_out.miss(self.samples.cut + self.waits.cut, CUT_SAMPLES);
        left_out.miss(self.spans.cut, CUT_SPANS);
    }
}
