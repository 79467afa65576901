//! The target Firefox Profiler: its processed profile, JSON, by the crate
//! `fxprof-processed-profile`.
//!
//! Spans and events are markers with one text of all fields: the fields that a marker has are those
//! of its type, and the two ends of a span have fields of two types.

use std::{collections::HashMap, io::Write, time::Duration};

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CounterHandle, CpuDelta, Frame, FrameFlags, FrameInfo,
    MarkerFieldFlags, MarkerFieldFormat, MarkerTiming, ProcessHandle, Profile, ReferenceTimestamp,
    SamplingInterval, StaticSchemaMarker, StaticSchemaMarkerField, StringHandle, ThreadHandle,
    Timestamp,
};
use nettrace_reader::{Thread, Trace};

use crate::{
    LeftOut,
    model::{self, process_of, unix_nanos},
    viewers::{
        Options,
        json::{self, Members},
        profile::interval,
        spans::{Begin, Draw, Flows, Place},
        stacks::{Frames, Sampled, Samples},
        timeline::{CounterValue, Form, Moment, Relieve, Timeline},
    },
};

/// The latest time in nanoseconds. As milliseconds it is a number that `f64` has with nanoseconds.
const LATEST: i64 = 1 << 53;

/// How many categories there are at most. Further providers are `Other`.
const CATEGORIES: usize = 200;

/// About what a marker takes beside its text, in bytes.
const MARKER_BYTES: usize = 128;

const COLORS: [CategoryColor; 8] = [
    CategoryColor::Blue,
    CategoryColor::Green,
    CategoryColor::Orange,
    CategoryColor::Purple,
    CategoryColor::Yellow,
    CategoryColor::LightBlue,
    CategoryColor::Brown,
    CategoryColor::Magenta,
];

/// Begins a profile.
pub(crate) fn begin<W: Write>(
    sink: W,
    trace: &Trace,
    version: u32,
    options: &Options,
) -> Timeline<Firefox, W> {
    let process = process_of(trace);
    let start = unix_nanos(&trace.sync_time).unwrap_or(0);
    let start = ReferenceTimestamp::from_duration_since_unix_epoch(Duration::from_nanos(start));
    let interval = SamplingInterval::from_nanos(interval(trace).unwrap_or(1_000_000));
    let mut profile = Profile::new("nettrace", start, interval);
    profile.set_symbolicated(true);
    let form = Firefox {
        profile,
        process,
        processes: HashMap::new(),
        threads: HashMap::new(),
        numbers: Vec::new(),
        names: HashMap::new(),
        kinds: Vec::new(),
        categories: HashMap::new(),
        counters: HashMap::new(),
        bytes: 0,
        limit: options.samples_limit,
        beyond: 0,
        flows_left_out: 0,
        counters_left_out: 0,
        failure: None,
    };
    Timeline::new(sink, form, Vec::new(), trace, version, options)
}

/// The form of the Firefox Profiler.
#[derive(Debug)]
pub(crate) struct Firefox {
    profile: Profile,
    process: Option<u64>,
    processes: HashMap<Option<u64>, ProcessHandle>,
    threads: HashMap<Sampled, ThreadHandle>,
    /// The thread of each number.
    numbers: Vec<ThreadHandle>,
    /// The places in `kinds`, by provider and name.
    names: HashMap<(String, String), u32>,
    kinds: Vec<(StringHandle, CategoryHandle)>,
    categories: HashMap<String, CategoryHandle>,
    /// Counters with their last values.
    counters: HashMap<(Option<u64>, String), (CounterHandle, f64)>,
    bytes: usize,
    limit: usize,
    beyond: u64,
    flows_left_out: u64,
    counters_left_out: u64,
    failure: Option<serde_json::Error>,
}

/// A marker with one text.
#[derive(Clone, Copy, Debug)]
struct Text {
    name: StringHandle,
    category: CategoryHandle,
    fields: StringHandle,
}

impl StaticSchemaMarker for Text {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "nettrace";

    const CHART_LABEL: Option<&'static str> = Some("{marker.name}");
    const TOOLTIP_LABEL: Option<&'static str> = Some("{marker.name}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.data.fields}");

    const FIELDS: &'static [StaticSchemaMarkerField] = &[StaticSchemaMarkerField {
        key: "fields",
        label: "Fields",
        // Who shares a profile can leave such texts out, which may have paths. And the profile does
        // not keep them for each thread as well: with ids of spans, hardly any come again.
        format: MarkerFieldFormat::SanitizedString,
        flags: MarkerFieldFlags::SEARCHABLE,
    }];

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, _: u32) -> StringHandle {
        self.fields
    }

    fn number_field_value(&self, _: u32) -> f64 {
        0.0
    }
}

/// A time as the profile has it.
fn time(at: i64) -> Timestamp {
    Timestamp::from_nanos_since_reference(at.clamp(0, LATEST) as u64)
}

/// An id in 32 bits. The profile makes ids unique.
fn small(id: Option<u64>) -> u32 {
    id.and_then(|id| id.try_into().ok()).unwrap_or(0)
}

impl Firefox {
    fn process(&mut self, process: Option<u64>) -> ProcessHandle {
        *self.processes.entry(process).or_insert_with(|| {
            let name = process.map_or("process".to_owned(), |id| format!("process {id}"));
            self.profile.add_process(&name, small(process), time(0))
        })
    }

    fn sampled(&mut self, thread: &Sampled) -> ThreadHandle {
        if let Some(handle) = self.threads.get(thread) {
            return *handle;
        }
        let process = self.process(thread.process);
        let is_main = thread.process.is_some() && thread.process == thread.id;
        let handle = self.profile.add_thread(process, small(thread.id), time(0), is_main);
        self.profile.set_thread_name(handle, &thread.title());
        self.profile.set_thread_show_markers_in_timeline(handle, true);
        self.threads.insert(thread.clone(), handle);
        handle
    }

    fn marker(&mut self, thread: usize, timing: MarkerTiming, kind: &[u8], details: &[&[u8]]) {
        let mut object = Vec::new();
        json::write_members(&mut object, details);
        // Without the braces.
        let text = String::from_utf8_lossy(&object[1..object.len() - 1]).into_owned();
        self.bytes += MARKER_BYTES + text.len();
        if self.bytes > self.limit {
            self.beyond += 1;
            return;
        }
        let number = kind.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let Some((name, category)) = self.kinds.get(number as usize).copied() else { return };
        let Some(thread) = self.numbers.get(thread).copied() else { return };
        let fields = self.profile.intern_string(&text);
        self.profile.add_marker(thread, timing, Text { name, category, fields });
    }
}

impl Draw for Firefox {
    fn own_track(&mut self, _: &Begin, _: Option<i64>, _: &mut Vec<u8>) -> Place {
        Place::Own(0)
    }

    fn begin(
        &mut self,
        _: Place,
        span: &Begin,
        flows: Flows<'_>,
        end: Option<(i64, &[u8])>,
        _: &mut Vec<u8>,
    ) {
        let (timing, details) = match end {
            Some((end, details)) => (MarkerTiming::Interval(time(span.at), time(end)), details),
            None => (MarkerTiming::IntervalStart(time(span.at)), &[][..]),
        };
        self.flows_left_out += flows.elsewhere.len() as u64;
        self.marker(span.thread, timing, &span.name.bytes, &[&span.details, details]);
    }

    fn end(&mut self, _: Place, _: i64, _: &[u8], _: &mut Vec<u8>) {}

    fn instant(&mut self, span: &Begin, _: &mut Vec<u8>) {
        let timing = MarkerTiming::Instant(time(span.at));
        self.marker(span.thread, timing, &span.name.event, &[&span.details]);
    }
}

impl Form for Firefox {
    type Details = Members;

    fn has_samples_of(_: Option<u64>, _: Option<u64>) -> bool {
        true
    }

    fn bounded(at: i64) -> i64 {
        at.clamp(0, LATEST)
    }

    fn key(&mut self, name: &str, _: &mut Vec<u8>) -> Vec<u8> {
        json::quoted(name)
    }

    fn name(&mut self, provider: &str, name: &str, _: &mut Vec<u8>) -> Vec<u8> {
        let key = (provider.to_owned(), name.to_owned());
        if let Some(number) = self.names.get(&key) {
            return number.to_le_bytes().to_vec();
        }
        let many = self.categories.len();
        let category = match self.categories.get(provider) {
            Some(category) => *category,
            None if many < CATEGORIES => {
                let color = COLORS[many % COLORS.len()];
                let category = self.profile.add_category(provider, color);
                self.categories.insert(provider.to_owned(), category);
                category
            }
            None => CategoryHandle::OTHER,
        };
        let number = self.kinds.len() as u32;
        self.kinds.push((self.profile.intern_string(name), category));
        self.names.insert(key, number);
        number.to_le_bytes().to_vec()
    }

    fn thread(&mut self, number: usize, process: Option<u64>, thread: &Thread, _: &mut Vec<u8>) {
        let handle = self.sampled(&Sampled::of(thread, process));
        if self.numbers.len() <= number {
            self.numbers.resize(number + 1, handle);
        }
        self.numbers[number] = handle;
    }

    fn moment(&mut self, moment: &Moment<'_>, _: &mut Vec<u8>) {
        let timing = MarkerTiming::Instant(time(moment.at));
        self.flows_left_out += u64::from(moment.flow.is_some());
        self.marker(moment.thread, timing, moment.name, &moment.details);
    }

    fn lost(&mut self, thread: Option<usize>, at: i64, count: u64, out: &mut Vec<u8>) {
        use crate::viewers::values::Details;
        let kind = self.name("nettrace", "lost events", out);
        let mut details = Vec::new();
        Members::unsigned(&mut details, b"\"lost\"", count);
        let number = thread.unwrap_or_else(|| {
            // The last one is of the process.
            let process = Sampled {
                process: self.process,
                id: None,
                index: u64::MAX,
                name: Some("process".to_owned()),
            };
            let handle = self.sampled(&process);
            self.numbers.push(handle);
            self.numbers.len() - 1
        });
        self.marker(number, MarkerTiming::Instant(time(at)), &kind, &[&details]);
    }

    fn counter(&mut self, process: Option<u64>, value: &CounterValue, at: i64, _: &mut Vec<u8>) {
        if !value.value.is_finite() {
            self.counters_left_out += 1;
            return;
        }
        let handle = self.process(process);
        let profile = &mut self.profile;
        let key = (process, value.name.clone());
        let (counter, last) = self.counters.entry(key).or_insert_with(|| {
            (profile.add_counter(handle, &value.name, "nettrace", &value.unit), 0.0)
        });
        // A profile has the differences.
        profile.add_counter_sample(*counter, time(at), value.value - *last, 0);
        *last = value.value;
        self.bytes += MARKER_BYTES;
    }

    fn process_name(&mut self, process: Option<u64>, name: &str, _: &mut Vec<u8>) {
        let handle = self.process(process);
        self.profile.set_process_name(handle, name);
    }

    fn samples(&mut self, samples: &Samples, _: &mut Vec<u8>) {
        let mut frames = Frames::default();
        let stacks = samples.stacks.iter();
        let stacks: Vec<_> = stacks.map(|stack| frames.of(stack, &samples.symbols)).collect();
        let names: Vec<_> =
            frames.names.iter().map(|frame| self.profile.intern_string(&frame.name)).collect();
        let mut known = HashMap::new();
        for sample in &samples.taken {
            let thread = self.sampled(&samples.threads[sample.thread as usize]);
            let stack = *known.entry((sample.thread, sample.stack)).or_insert_with(|| {
                let frames = stacks[sample.stack as usize].iter().map(|frame| FrameInfo {
                    frame: Frame::Label(names[*frame as usize]),
                    category_pair: CategoryHandle::OTHER.into(),
                    flags: FrameFlags::empty(),
                });
                self.profile.intern_stack_frames(thread, frames)
            });
            self.profile.add_sample(thread, time(sample.at), stack, CpuDelta::ZERO, 1);
        }
    }

    fn takes_samples_early(&self) -> bool {
        false
    }

    fn close(&mut self, out: &mut Vec<u8>, _: Relieve<'_>) {
        self.failure = model::to_json(&mut *out, &self.profile).err();
        out.push(b'\n');
    }

    fn left_out(&self, left_out: &mut LeftOut) {
        left_out.miss(self.beyond, "spans and events beyond the limit on memory");
        left_out.add(self.flows_left_out, "connections from spans to their children");
        left_out.add(self.counters_left_out, "values of counters that are no numbers");
        left_out.miss(u64::from(self.failure.is_some()), "everything: it is no JSON");
    }
}
