//! The target speedscope: its own file format, JSON.
//!
//! Each thread has a profile of its spans (with the times of begins and ends) and one of its
//! samples. Asynchronous spans overlap, so they are in profiles of their own, as many as are
//! needed: a span is inside of another one only if that is its parent.

use std::{collections::HashMap, io::Write};

use nettrace_reader::Trace;

use crate::{
    LeftOut,
    model::Key,
    viewers::{
        Options,
        json::{self, show, string},
        profile::{Profile, Profiler, interval},
        spans::{Begin, Place},
        stacks::{Frames, Sampled, Samples},
        timeline::{Relieve, Timeline},
    },
};

/// How many profiles of asynchronous spans there are at most.
const LANES: usize = 256;

/// Begins a file.
pub(crate) fn begin<W: Write>(
    sink: W,
    trace: &Trace,
    version: u32,
    options: &Options,
) -> Timeline<Profiler<Speedscope>, W> {
    let profile = Speedscope {
        interval: interval(trace),
        limit: options.samples_limit,
        ..Speedscope::default()
    };
    Timeline::new(sink, Profiler::new(profile), Vec::new(), trace, version, options)
}

/// A span that has ended.
#[derive(Clone, Copy, Debug)]
struct Slice {
    start: i64,
    end: i64,
    /// The place of its name.
    name: u32,
    /// In the order in which they ended.
    number: u32,
}

/// An asynchronous span that has ended.
#[derive(Clone, Copy, Debug)]
struct Own {
    slice: Slice,
    key: Key,
    parent: Option<Key>,
}

/// A profile, with its name.
enum Shown {
    Spans((String, Vec<Slice>)),
    Samples(Weighed),
}

/// The samples of a thread, or the times in which it waited.
#[derive(Debug)]
struct Weighed {
    title: String,
    /// That of the weights.
    unit: &'static str,
    /// The places of the stacks, with their weights.
    taken: Vec<(u32, u64)>,
}

/// What has been collected.
#[derive(Debug, Default)]
pub(crate) struct Speedscope {
    names: HashMap<Vec<u8>, u32>,
    frames: Frames,
    threads: Vec<Sampled>,
    /// The place of each thread by its number.
    places: Vec<usize>,
    /// The slices of each thread.
    slices: Vec<Vec<Slice>>,
    own: Vec<Own>,
    /// The frames of each stack.
    stacks: Vec<Vec<u32>>,
    /// The samples of each thread, and the times in which it waited.
    samples: Vec<Weighed>,
    interval: Option<u64>,
    count: u32,
    bytes: usize,
    limit: usize,
    beyond: u64,
    lanes_left_out: u64,
}

impl Speedscope {
    fn slice(&mut self, span: &Begin, end: i64) -> Slice {
        let bytes = &span.name.bytes;
        let name = match self.names.get(bytes) {
            Some(number) => *number,
            None => {
                let number = self.frames.plain(&span.name.text);
                self.names.insert(bytes.clone(), number);
                number
            }
        };
        self.count = self.count.saturating_add(1);
        Slice { start: span.at, end: end.max(span.at), name, number: self.count }
    }

    /// Writes a profile of samples.
    fn sampled(&self, out: &mut Vec<u8>, of: &Weighed, relieve: Relieve<'_>) {
        let Weighed { title, unit, taken } = of;
        let total = taken.iter().fold(0_u64, |sum, (_, weight)| sum.saturating_add(*weight));
        head(out, "sampled", title, unit, (0, total.min(i64::MAX as u64) as i64));
        out.extend_from_slice(b",\"samples\":");
        json::list(out, taken.iter(), |out, (stack, _)| {
            json::list(out, self.stacks[*stack as usize].iter(), show);
            relieve(out);
        });
        out.extend_from_slice(b",\"weights\":");
        json::list(out, taken.iter(), |out, (_, weight)| {
            show(out, weight);
            relieve(out);
        });
        out.push(b'}');
    }

    /// The profiles of asynchronous spans: slices that are nested.
    fn asynchronous(&mut self) -> Vec<Vec<Slice>> {
        let mut own = std::mem::take(&mut self.own);
        own.sort_unstable_by_key(|it| {
            (it.slice.start, -it.slice.end, std::cmp::Reverse(it.slice.number))
        });
        let mut lanes: Vec<(Vec<Own>, Vec<Slice>)> = Vec::new();
        for span in own {
            let takes = |(open, _): &mut (Vec<Own>, Vec<Slice>)| {
                while open.last().is_some_and(|top| top.slice.end <= span.slice.start) {
                    open.pop();
                }
                open.last().is_none_or(|top| {
                    Some(top.key) == span.parent && top.slice.end >= span.slice.end
                })
            };
            match lanes.iter_mut().position(takes) {
                Some(place) => {
                    let (open, slices) = &mut lanes[place];
                    open.push(span);
                    slices.push(span.slice);
                }
                None if lanes.len() < LANES => lanes.push((vec![span], vec![span.slice])),
                None => self.lanes_left_out += 1,
            }
        }
        lanes.into_iter().map(|(_, slices)| slices).collect()
    }
}

/// Writes a profile of slices that are nested.
fn evented(out: &mut Vec<u8>, name: &str, slices: &mut [Slice], relieve: Relieve<'_>) {
    // The outer one of two with the same times ended later.
    slices.sort_unstable_by_key(|it| (it.start, -it.end, std::cmp::Reverse(it.number)));
    let first = slices.first().map_or(0, |slice| slice.start);
    let last = slices.iter().map(|slice| slice.end).max().unwrap_or(0);
    head(out, "evented", name, "nanoseconds", (first, last));
    out.extend_from_slice(b",\"events\":[");
    let mut open: Vec<Slice> = Vec::new();
    let mut is_first = true;
    let mut event = |out: &mut Vec<u8>, ty: char, frame: u32, at: i64| {
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        show(out, format_args!("{{\"type\":\"{ty}\",\"frame\":{frame},\"at\":{at}}}"));
    };
    for slice in &*slices {
        // Of two that touch, the first one ends before the second begins.
        while let Some(top) = open.last().filter(|top| {
            top.end <= slice.start && (top.start, top.end) != (slice.start, slice.end)
        }) {
            event(out, 'C', top.name, top.end);
            open.pop();
        }
        let end = open.last().map_or(slice.end, |top| top.end.min(slice.end));
        event(out, 'O', slice.name, slice.start);
        open.push(Slice { end, ..*slice });
        relieve(out);
    }
    while let Some(top) = open.pop() {
        event(out, 'C', top.name, top.end);
    }
    out.extend_from_slice(b"]}");
}

/// Begins a profile.
fn head(out: &mut Vec<u8>, ty: &str, name: &str, unit: &str, (start, end): (i64, i64)) {
    show(out, format_args!("{{\"type\":\"{ty}\",\"name\":"));
    string(out, name);
    show(out, format_args!(",\"unit\":\"{unit}\",\"startValue\":{start},\"endValue\":{end}"));
}

impl Profile for Speedscope {
    const TAKES_SAMPLES_EARLY: bool = false;

    fn thread(&mut self, number: usize, thread: Sampled) {
        if self.places.len() <= number {
            self.places.resize(number + 1, 0);
        }
        // A thread can come again, with another number.
        let known = self.threads.iter().rposition(|known| *known == thread);
        self.places[number] = known.unwrap_or_else(|| {
            self.threads.push(thread);
            self.slices.push(Vec::new());
            self.threads.len() - 1
        });
    }

    fn span(&mut self, place: Place, span: &Begin, end: i64) {
        self.bytes += match place {
            Place::Thread(_) => size_of::<Slice>(),
            Place::Own(_) => size_of::<Own>(),
        };
        if self.bytes > self.limit {
            self.beyond += 1;
            return;
        }
        let slice = self.slice(span, end);
        match place {
            Place::Thread(number) => {
                if let Some(place) = self.places.get(number) {
                    self.slices[*place].push(slice);
                }
            }
            Place::Own(_) => self.own.push(Own { slice, key: span.key, parent: span.parent }),
        }
    }

    fn samples(&mut self, samples: &Samples) {
        let stacks = samples.stacks.iter();
        self.stacks = stacks.map(|stack| self.frames.of(stack, &samples.symbols)).collect();
        let (unit, weight) = match self.interval {
            Some(interval) => ("nanoseconds", interval),
            None => ("none", 1),
        };
        let of_threads = || vec![Vec::new(); samples.threads.len()];
        let (mut taken, mut waits) = (of_threads(), of_threads());
        for sample in &samples.taken {
            taken[sample.thread as usize].push((sample.stack, weight));
        }
        for wait in &samples.waits {
            waits[wait.thread as usize].push((wait.stack, wait.nanos));
        }
        for ((thread, taken), waits) in samples.threads.iter().zip(taken).zip(waits) {
            let title = match samples.symbols.process_name(thread.process) {
                Some(process) => format!("{process}, {}", thread.title()),
                None => thread.title(),
            };
            let profiles = [(taken, "samples", unit), (waits, "waiting", "nanoseconds")];
            for (taken, what, unit) in profiles.into_iter().filter(|(it, ..)| !it.is_empty()) {
                let title = format!("{title}, {what}");
                self.samples.push(Weighed { title, unit, taken });
            }
        }
    }

    fn write(&mut self, out: &mut Vec<u8>, relieve: Relieve<'_>) {
        let schema = "https://www.speedscope.app/file-format-schema.json";
        show(out, format_args!("{{\"$schema\":\"{schema}\",\"exporter\":\"nettrace\""));
        out.extend_from_slice(b",\"shared\":{\"frames\":");
        json::list(out, self.frames.names.iter(), |out, frame| {
            out.extend_from_slice(b"{\"name\":");
            string(out, &frame.name);
            out.push(b'}');
            relieve(out);
        });
        // Spans are shown first.
        out.extend_from_slice(b"},\"profiles\":");
        let titles = std::mem::take(&mut self.threads).into_iter().map(|thread| thread.title());
        let of_threads = titles.zip(std::mem::take(&mut self.slices));
        let lanes = self.asynchronous().into_iter().zip(1..);
        let lanes = lanes.map(|(slices, lane)| (format!("asynchronous spans, {lane}"), slices));
        let spans = of_threads.chain(lanes).filter(|(_, slices)| !slices.is_empty());
        let profiles = spans.map(Shown::Spans);
        let samples = std::mem::take(&mut self.samples).into_iter().map(Shown::Samples);
        json::list(out, profiles.chain(samples), |out, profile| match profile {
            Shown::Spans((name, mut slices)) => evented(out, &name, &mut slices, relieve),
            Shown::Samples(of) => self.sampled(out, &of, relieve),
        });
        out.extend_from_slice(b"}\n");
    }

    fn left_out(&self, left_out: &mut LeftOut) {
        left_out.miss(self.beyond, "spans beyond the limit on memory");
        left_out.miss(self.lanes_left_out, "asynchronous spans, as too many overlap");
    }
}
