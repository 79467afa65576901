//! One emission and four sessions, each of another format. Each trace has everything that was
//! recorded, as far as its format can express it. What is missing is counted.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod formats_support;

use std::{
    fs, thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nettrace_reader::{Label as Read, heph};
use nettrace_writer::{
    Clock, Emit, Error, Format, Label, OnFull, Origin, Session, ThreadRef, TraceEvent,
    enter_labels,
    sink::{MemorySink, RotationOptions},
    traced,
};
use proptest::{collection::vec, option, prelude::*};
use testkit::process::{alone, one_at_a_time};

use crate::formats_support::{Seen, Threads, Told, read};

const FORMATS: [Format; 4] = [Format::V6, Format::V5, Format::V4, Format::Heph];

#[derive(Clone, Debug, Default, TraceEvent)]
#[trace_event(provider = "Formats", opcode = 3)]
struct Numbers {
    small: u8,
    negative: i16,
    #[trace_event(encoding = varint)]
    variable: u64,
    #[trace_event(encoding = varint)]
    zigzag: i32,
    single: f32,
    double: f64,
    #[trace_event(encoding = bool8)]
    yes: bool,
    wide: bool,
}

#[derive(Clone, Debug, TraceEvent)]
#[trace_event(provider = "Formats", level = Warning, keywords = 5)]
struct Lists {
    text: String,
    #[trace_event(encoding = utf8)]
    utf8: String,
    #[trace_event(encoding = rel_loc)]
    behind: String,
    numbers: Vec<i32>,
    pair: [u16; 2],
    maybe: Option<u32>,
}

#[derive(Clone, Debug, TraceEvent)]
#[trace_event(provider = "Formats")]
struct Span {
    id: u64,
    #[trace_event(start)]
    began: SystemTime,
    #[trace_event(end)]
    took: Duration,
    #[trace_event(description)]
    what: String,
}

/// A step of a thread.
#[derive(Clone, Debug)]
enum Step {
    Emit(Box<(Shape, Accompanied)>),
    /// Drops this many events.
    Lose(u8),
    Flush,
}

#[derive(Clone, Debug)]
enum Shape {
    Numbers(Numbers),
    Lists(Lists),
    /// A span: its identity, its start in nanoseconds since the test began, its length in
    /// nanoseconds, its description.
    Span(u64, u32, u64, String),
}

/// What accompanies an event.
#[derive(Clone, Debug)]
struct Accompanied {
    activity: Option<[u8; 16]>,
    span: Option<u64>,
    text: Option<String>,
    number: Option<i64>,
    stack: Vec<u64>,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,8}", "\\PC{0,12}"]
}

fn shape() -> impl Strategy<Value = Shape> {
    let numbers = any::<(u8, i16, u64, i32, f32, f64, bool, bool)>().prop_map(
        |(small, negative, variable, zigzag, single, double, yes, wide)| {
            Shape::Numbers(Numbers { small, negative, variable, zigzag, single, double, yes, wide })
        },
    );
    let lists =
        (text(), text(), text(), vec(any::<i32>(), 0..5), any::<[u16; 2]>(), any::<Option<u32>>())
            .prop_map(|(text, utf8, behind, numbers, pair, maybe)| {
                Shape::Lists(Lists { text, utf8, behind, numbers, pair, maybe })
            });
    let span = (any::<u64>(), any::<u32>(), any::<u64>(), text())
        .prop_map(|(id, after, took, what)| Shape::Span(id, after, took >> 8, what));
    prop_oneof![numbers, lists, span]
}

fn step() -> impl Strategy<Value = Step> {
    let activity = any::<[u8; 16]>().prop_filter("it is one", |id| *id != [0; 16]);
    let accompanied = (
        option::weighted(0.3, activity),
        option::weighted(0.2, any::<u64>()),
        option::weighted(0.2, text()),
        option::weighted(0.2, any::<i64>()),
        // As large as a pointer.
        prop_oneof![4 => Just(Vec::new()), 1 => vec(1..usize::MAX as u64, 1..5)],
    )
        .prop_map(|(activity, span, text, number, stack)| Accompanied {
            activity,
            span,
            text,
            number,
            stack,
        });
    prop_oneof![
        12 => (shape(), accompanied).prop_map(|event| Step::Emit(Box::new(event))),
        1 => (1_u8..5).prop_map(Step::Lose),
        1 => Just(Step::Flush),
    ]
}

impl Accompanied {
    fn emit(&self, event: impl TraceEvent) {
        let mut labels = Vec::new();
        labels.extend(self.activity.map(Label::ActivityId));
        labels.extend(self.span.map(Label::SpanId));
        labels.extend(self.text.as_deref().map(|text| Label::Str("text", text)));
        labels.extend(self.number.map(|number| Label::Int("number", number)));
        let _scope = (!labels.is_empty()).then(|| enter_labels(&labels).unwrap());
        let origin = Origin::new();
        let stack = !self.stack.is_empty();
        let origin = if stack { origin.stack(&self.stack) } else { origin };
        event.emit_with(&origin);
    }

    /// The labels that a format can express.
    fn labels(&self, format: Format) -> Vec<Read> {
        let mut labels = Vec::new();
        labels.extend(self.activity.map(Read::ActivityId));
        if matches!(format, Format::V6 | Format::Heph) {
            labels.extend(self.span.map(Read::SpanId));
            labels.extend(self.text.clone().map(|text| Read::Str("text".into(), text)));
            labels.extend(self.number.map(|number| Read::Int("number".into(), number)));
        }
        labels
    }

    /// How many labels a format cannot express.
    fn labels_left_out(&self, format: Format) -> u64 {
        (self.labels(Format::V6).len() - self.labels(format).len()) as u64
    }
}

/// The event as a trace of a format should have it.
fn expected(event: &(Shape, Accompanied), number: u32, start: u64, format: Format) -> Seen {
    let (shape, with) = event;
    let float = |value: f64| Told::Float(value.to_bits());
    let list = |values: Vec<Told>| match format {
        Format::V4 => {
            let shown: Vec<_> = values.iter().map(shown).collect();
            Told::Text(format!("[{}]", shown.join(", ")))
        }
        _ => Told::List(values),
    };
    let mut span = None;
    let (name, fields) = match shape {
        Shape::Numbers(Numbers {
            small,
            negative,
            variable,
            zigzag,
            single,
            double,
            yes,
            wide,
        }) => (
            "Numbers",
            vec![
                ("small", Told::Unsigned((*small).into())),
                ("negative", Told::Signed((*negative).into())),
                ("variable", Told::Unsigned(*variable)),
                ("zigzag", Told::Signed((*zigzag).into())),
                ("single", float((*single).into())),
                ("double", float(*double)),
                ("yes", Told::Unsigned((*yes).into())),
                ("wide", Told::Unsigned((*wide).into())),
            ],
        ),
        Shape::Lists(Lists { text, utf8, behind, numbers, pair, maybe }) => {
            let maybe: Vec<_> = maybe.iter().map(|value| Told::Unsigned((*value).into())).collect();
            let mut fields = vec![
                ("text", Told::Text(text.clone())),
                ("utf8", Told::Text(utf8.clone())),
                ("behind", Told::Text(behind.clone())),
                ("numbers", list(numbers.iter().map(|n| Told::Signed((*n).into())).collect())),
                ("pair", list(pair.iter().map(|n| Told::Unsigned((*n).into())).collect())),
            ];
            match format {
                // The value, or nothing.
                Format::Heph => fields.extend(maybe.into_iter().map(|value| ("maybe", value))),
                _ => fields.push(("maybe", list(maybe))),
            }
            ("Lists", fields)
        }
        Shape::Span(id, after, took, what) if format == Format::Heph => {
            span = Some((start + u64::from(*after), *took, what.clone()));
            ("Span", vec![("id", Told::Unsigned(*id))])
        }
        Shape::Span(id, after, took, what) => (
            "Span",
            vec![
                ("id", Told::Unsigned(*id)),
                ("began", Told::Signed((start + u64::from(*after)) as i64)),
                ("took", Told::Unsigned(*took)),
                ("what", Told::Text(what.clone())),
            ],
        ),
    };
    Seen {
        name: name.to_owned(),
        number,
        fields: fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        labels: with.labels(format),
        stack: with.stack.clone(),
        span,
    }
}

fn shown(value: &Told) -> String {
    match value {
        Told::Unsigned(value) => value.to_string(),
        Told::Signed(value) => value.to_string(),
        other => panic!("{other:?} is in no list"),
    }
}

/// The result of a run.
struct Ran {
    /// When the run began, in nanoseconds since 1970.
    start: u64,
    /// The threads' ids in the operating system.
    threads: Vec<u64>,
    /// The trace in each format, and how many events are missing in it.
    traces: [(Format, Vec<u8>, u64); 4],
}

/// Runs the threads' steps.
fn run(threads: &[Vec<Step>]) -> Ran {
    let sessions = FORMATS.map(|format| {
        let sink = MemorySink::new();
        let builder = Session::builder().sink(sink.clone()).provider("Formats").format(format);
        let builder = builder.register::<Numbers>().register::<Lists>().register::<Span>();
        (format, sink, builder.budget(1 << 20).prefault(0).start().unwrap())
    });
    let start = SystemTime::now();
    let ids = thread::scope(|scope| {
        let sessions = &sessions;
        let work = |(at, steps): (usize, &Vec<Step>)| {
            let steps = steps.clone();
            let work = move || {
                let mut emitted = false;
                for step in &steps {
                    match step {
                        Step::Emit(event) => {
                            emitted = true;
                            let (shape, with) = &**event;
                            match shape {
                                Shape::Numbers(numbers) => with.emit(numbers.clone()),
                                Shape::Lists(lists) => with.emit(lists.clone()),
                                Shape::Span(id, after, took, what) => with.emit(Span {
                                    id: *id,
                                    began: start + Duration::from_nanos((*after).into()),
                                    took: Duration::from_nanos(*took),
                                    what: what.clone(),
                                }),
                            }
                        }
                        // A thread that has emitted nothing has no buffer in which to count drops.
                        Step::Lose(count) if emitted => sessions.iter().for_each(|session| {
                            session.2.pretend_dropped((*count).into());
                        }),
                        Step::Lose(_) => {}
                        Step::Flush => sessions.iter().for_each(|session| {
                            session.2.flush().unwrap();
                        }),
                    }
                }
                ThreadRef::current().os_id()
            };
            thread::Builder::new().name(format!("worker {at}")).spawn_scoped(scope, work).unwrap()
        };
        let workers: Vec<_> = threads.iter().enumerate().map(work).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let start = start.duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let traces = sessions.map(|(format, sink, session)| {
        let stats = session.finish().unwrap();
        assert_eq!(stats.attempted, stats.written + stats.dropped(), "{format:?} {stats:?}");
        assert_eq!(stats.not_in_format, 0, "{format:?} {stats:?}");
        let emitted = threads.iter().flatten().filter_map(|step| match step {
            Step::Emit(event) => Some(&event.1),
            _ => None,
        });
        let left_out: u64 = emitted.clone().map(|with| with.labels_left_out(format)).sum();
        assert_eq!(stats.left_out.labels, left_out, "{format:?}");
        assert_eq!(stats.written, emitted.count() as u64, "{format:?}");
        (format, sink.bytes(), stats.dropped())
    });
    Ran { start, threads: ids, traces }
}

proptest! {
    #[test]
    fn whatever_is_recorded_comes_back_in_every_format(
        threads in vec(vec(step(), 0..25), 1..4),
    ) {
        let _alone = one_at_a_time();
        let ran = run(&threads);
        for (format, bytes, dropped) in ran.traces {
            let (seen, lost) = read(format, &bytes);
            prop_assert_eq!(lost, dropped, "{:?}", format);
            let mut wanted = Threads::new();
            for (steps, &id) in threads.iter().zip(&ran.threads) {
                let mut number = 0;
                let mut events = Vec::new();
                for step in steps {
                    match step {
                        Step::Emit(event) => {
                            number += 1;
                            events.push(expected(event, number, ran.start, format));
                        }
                        Step::Lose(count) if number > 0 => number += u32::from(*count),
                        _ => {}
                    }
                }
                if !events.is_empty() {
                    wanted.push((id, events));
                }
            }
            let mut seen = seen;
            seen.sort_by_key(|(id, _)| *id);
            wanted.sort_by_key(|(id, _)| *id);
            prop_assert_eq!(seen, wanted, "{:?}", format);
        }
    }
}

#[test]
fn a_type_that_a_format_has_no_words_for_is_refused_at_the_start() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Formats-Refused")]
    struct Refused {
        #[trace_event(start)]
        began: bool,
    }
    let _alone = one_at_a_time();
    for format in FORMATS {
        let sink = MemorySink::new();
        let builder = Session::builder().sink(sink).provider("Formats-Refused").format(format);
        let started = builder.register::<Refused>().start();
        match format {
            Format::Heph => {
                let error = started.map(drop).unwrap_err();
                assert!(matches!(error, Error::Format(_)), "{error:?}");
                assert!(error.to_string().contains("began"), "{error}");
            }
            _ => _ = started.unwrap().finish().unwrap(),
        }
        Refused { began: true }.emit();
    }
}

#[test]
fn a_heph_trace_has_the_time_of_day_with_either_clock() {
    let _alone = one_at_a_time();
    let nanos = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    for clock in [Clock::Auto, Clock::Monotonic] {
        let sink = MemorySink::new();
        let builder = Session::builder().sink(sink.clone()).provider("Formats").clock(clock);
        let session = builder.format(Format::Heph).start().unwrap();
        let mut moments = Vec::new();
        for id in 0..3 {
            thread::sleep(Duration::from_millis(20));
            let before = nanos();
            let (began, what) = (SystemTime::now(), String::new());
            Span { id, began, took: Duration::ZERO, what }.emit();
            let numbers = Numbers { variable: id, ..Numbers::default() };
            numbers.emit();
            moments.push((before, nanos()));
        }
        session.finish().unwrap();
        let bytes = sink.bytes();
        let mut reader = heph::Reader::new(&*bytes);
        // The session's clock and the system's need not agree exactly, because the system's may be
        // set meanwhile.
        let slack = 5_000_000;
        for (before, after) in moments {
            for name in ["", "Numbers"] {
                let event = reader.next_event().unwrap().unwrap();
                assert_eq!((event.description, event.end), (name, event.start));
                let start = event.start;
                let at = reader.epoch().unwrap() + start;
                assert!((before - slack..after + slack).contains(&at), "{before} {at} {after}");
            }
        }
    }
}

/// An event that fits all formats but Heph, whose strings would have 65,535 bytes of UTF-8.
#[test]
fn what_a_format_cannot_hold_is_counted_and_a_gap() {
    let _alone = one_at_a_time();
    let sink = MemorySink::new();
    let session =
        Session::builder().sink(sink.clone()).provider("Formats").format(Format::Heph).start();
    let session = session.unwrap();
    let lists = Lists {
        text: "short".into(),
        utf8: String::new(),
        behind: String::new(),
        numbers: Vec::new(),
        pair: [1, 2],
        maybe: None,
    };
    let long = Lists { text: "€".repeat(30_000), ..lists.clone() };
    long.clone().emit();
    lists.emit();
    long.emit();
    let stats = session.finish().unwrap();
    assert_eq!((stats.attempted, stats.written, stats.not_in_format), (3, 1, 2));
    assert_eq!(stats.left_out.events, 2);
    assert_eq!(stats.dropped(), 2);
    let (threads, lost) = read(Format::Heph, &sink.bytes());
    assert_eq!((threads[0].1.len(), lost), (1, 2));
    assert_eq!(threads[0].1[0].number, 2);
}

/// Holds also while a file is open and padding follows its last block.
#[test]
fn each_file_of_a_rotation_is_complete_in_itself() {
    let _alone = one_at_a_time();
    for format in FORMATS {
        let directory = tempfile::tempdir().unwrap();
        let options = RotationOptions::new(directory.path(), "part").extension("trace");
        let sink = options.file_size(48 << 10).total_size(200 << 10).build().unwrap();
        let builder = Session::builder().sink(sink).provider("Formats").format(format);
        let session = builder.budget(1 << 20).prefault(0).chunk_size(4_096).start().unwrap();
        let mut dropped = 0;
        for id in 0..6_000_u64 {
            let (began, what) = (SystemTime::now(), "what it is".to_owned());
            Span { id, began, took: Duration::from_nanos(id), what }.emit();
            if id % 50 == 49 {
                if id % 500 == 499 {
                    session.pretend_dropped(3);
                    dropped += 3;
                }
                session.flush().unwrap();
                let files = fs::read_dir(directory.path()).unwrap();
                let sizes = files.map(|file| file.unwrap().metadata().unwrap().len());
                assert!(sizes.sum::<u64>() <= 200 << 10, "{format:?}");
            }
        }
        let open = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().path());
        let mut open: Vec<_> = open.map(|path| fs::read(path).unwrap()).collect();
        let stats = session.finish().unwrap();
        assert_eq!((stats.written, stats.dropped()), (6_000, dropped), "{format:?}");
        let mut numbers = Vec::new();
        let closed = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().path());
        let closed: Vec<_> = closed.map(|path| fs::read(path).unwrap()).collect();
        assert!(closed.len() >= 3, "{format:?}: {} files", closed.len());
        for (bytes, is_closed) in open
            .drain(..)
            .map(|bytes| (bytes, false))
            .chain(closed.into_iter().map(|bytes| (bytes, true)))
        {
            assert!(bytes.len() <= 64 << 10, "{format:?}: {} bytes", bytes.len());
            let (threads, _) = read(format, &bytes);
            if is_closed {
                let events = threads.into_iter().flat_map(|(_, events)| events);
                numbers.extend(events.map(|event| event.fields[0].1.clone()).map(|id| match id {
                    Told::Unsigned(id) => id,
                    other => panic!("{other:?}"),
                }));
            }
        }
        numbers.sort_unstable();
        // The oldest files were deleted.
        assert_eq!(numbers, (6_000 - numbers.len() as u64..6_000).collect::<Vec<_>>());
    }
}

#[test]
fn labels_that_stay_in_force_are_left_out_of_each_event() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Formats-Labels")]
    struct Plain {
        number: u64,
    }
    let _alone = one_at_a_time();
    for format in FORMATS {
        let sink = MemorySink::new();
        let builder = Session::builder().sink(sink).provider("Formats-Labels").format(format);
        let session = builder.start().unwrap();
        let scope = enter_labels(&[Label::ActivityId([7; 16]), Label::Str("key", "value")]);
        for round in 0..3 {
            (0..1_000).for_each(|number| Plain { number: round * 1_000 + number }.emit());
            // Pause, so that there are runs of rows without a note of their labels.
            session.flush().unwrap();
        }
        drop(scope);
        let stats = session.finish().unwrap();
        assert_eq!(stats.written, 3_000, "{format:?}");
        let left_out = if matches!(format, Format::V5 | Format::V4) { 3_000 } else { 0 };
        assert_eq!(stats.left_out.labels, left_out, "{format:?}");
    }
}

/// Versions 4 and 5 tell losses by the numbers of threads that have events. If a file has no event,
/// the losses must wait for the next file.
#[test]
fn what_is_lost_while_a_file_has_no_event_is_told_in_the_next() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Formats-Owed")]
    struct Plain {
        number: u64,
    }
    let _alone = one_at_a_time();
    for format in FORMATS {
        let directory = tempfile::tempdir().unwrap();
        let options = RotationOptions::new(directory.path(), "part").file_age(Duration::ZERO);
        let sink = options.build().unwrap();
        let builder = Session::builder().sink(sink).provider("Formats-Owed").format(format);
        let session = builder.flush_interval(Duration::from_secs(3_600)).start().unwrap();
        for number in 0..3 {
            Plain { number }.emit();
            session.flush().unwrap();
            session.pretend_dropped(5);
            session.flush().unwrap();
            session.flush().unwrap();
        }
        Plain { number: 3 }.emit();
        let stats = session.finish().unwrap();
        assert_eq!((stats.written, stats.dropped()), (4, 15), "{format:?}");
        let files = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().path());
        let lost = files.map(|path| count_lost(format, &fs::read(path).unwrap()));
        assert_eq!(lost.sum::<u64>(), 15, "{format:?}");
    }
}

fn count_lost(format: Format, bytes: &[u8]) -> u64 {
    if format == Format::Heph {
        let mut reader = heph::Reader::new(bytes);
        while reader.next_event().unwrap().is_some() {}
        return reader.totals().lost;
    }
    let mut reader = nettrace_reader::Reader::new(bytes).unwrap();
    reader.read_to_end().unwrap();
    reader.totals().lost
}

/// A trace says how many processors the machine has, however few of them the process may use, and
/// is as good when that changes.
#[cfg(target_os = "linux")]
#[test]
fn the_machines_processors_are_counted() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    if !alone("the_machines_processors_are_counted") {
        return;
    }
    let all = sched_getaffinity(None).unwrap();
    let only = |processor| {
        let mut one = CpuSet::new();
        one.set(processor);
        // All threads, and the first, which the kernel's files of the process describe.
        for task in fs::read_dir("/proc/self/task").unwrap() {
            let id = task.unwrap().file_name().to_str().unwrap().parse().unwrap();
            // Fails if the thread has ended meanwhile.
            let _ = sched_setaffinity(rustix::process::Pid::from_raw(id), &one);
        }
        assert_eq!(sched_getaffinity(None).unwrap(), one);
    };
    let usable: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&processor| all.is_set(processor)).collect();
    let numbers = Numbers::default();
    for format in [Format::V6, Format::V5, Format::V4] {
        only(usable[0]);
        let memory = MemorySink::new();
        let builder = Session::builder().sink(memory.clone()).provider("Formats");
        let session = builder.format(format).start().unwrap();
        for turn in 0..1_000 {
            if turn % 100 == 0 {
                only(usable[turn / 100 % usable.len()]);
            }
            thread::scope(|scope| {
                scope.spawn(|| (&numbers).emit());
                (&numbers).emit();
            });
        }
        let stats = session.finish().unwrap();
        assert_eq!((stats.attempted, stats.written), (2_000, 2_000), "{stats:?}");
        let bytes = memory.bytes();
        let report = nettrace_reader::verify(&bytes[..]).unwrap();
        assert!(report.is_sound() && report.events == 2_000, "{format:?}: {report:?}");
        let reader = nettrace_reader::Reader::new(&bytes[..]).unwrap();
        let count: usize = reader.trace().value("HardwareThreadCount").unwrap().parse().unwrap();
        assert!(count >= usable.len(), "{format:?}: {count} of {}", usable.len());
    }
}

/// Between sequence points there can be more label lists than are remembered for rows of other
/// formats. So a sequence point comes before those that rows still have are forgotten.
#[test]
fn a_long_span_keeps_its_activity_whatever_others_have() {
    #[derive(TraceEvent)]
    #[trace_event(provider = "Formats-Long")]
    struct Plain {
        number: u64,
    }
    #[traced(provider = "Formats-Long")]
    fn long(others: impl FnOnce()) {
        Plain { number: 1 }.emit();
        others();
        Plain { number: 2 }.emit();
    }
    let _alone = one_at_a_time();
    let text = "x".repeat(2_000);
    for format in [Format::V5, Format::V4] {
        let sink = MemorySink::new();
        let builder = Session::builder().sink(sink.clone()).provider("Formats-Long").format(format);
        let builder = builder.sequence_points(u64::MAX, Duration::from_secs(3_600));
        let builder = builder.budget(4 << 20).on_full(OnFull::Block);
        let session = builder.start().unwrap();
        long(|| {
            let others = || {
                for number in 0..20_000 {
                    let labels = [Label::Int("n", number), Label::Str("x", &text)];
                    let _scope = enter_labels(&labels).unwrap();
                    Plain { number: 3 }.emit();
                }
            };
            thread::scope(|scope| _ = scope.spawn(others));
        });
        let stats = session.finish().unwrap();
        assert_eq!((stats.written, stats.dropped()), (20_004, 0), "{format}");
        let bytes = sink.bytes();
        let mut reader = nettrace_reader::Reader::new(&bytes[..]).unwrap();
        let mut activities = Vec::new();
        while let Some(event) = reader.next_event().unwrap() {
            let labels = event.labels();
            let is_activity = |label: &&Read| matches!(label, Read::ActivityId(_));
            activities.extend(labels.iter().find(is_activity).cloned());
        }
        assert_eq!(activities.len(), 4, "{format}");
        assert!(activities.iter().all(|activity| *activity == activities[0]), "{format}");
    }
}
