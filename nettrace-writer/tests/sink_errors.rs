//! Sinks that fail and recover: in every format the trace goes on, complete and exact.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod errors_support;
mod trace_support;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use nettrace_event::{EventType, FieldSchema, FieldType};
use nettrace_reader::{Dialect, Label as Read, Options, verify_with};
use nettrace_writer::{
    Emit, Error, Format, Label, LabelScope, Origin, Session, ThreadRef, TraceEvent, enter_labels,
};
use proptest::{collection::vec, prelude::*};
use testkit::{effort::all_or, process::one_at_a_time, reference::judged_of_many};

use crate::{
    errors_support::{Answer, Faulty, Seen, read},
    trace_support::{Hostile, schema},
};

const FORMATS: [Format; 4] = [Format::V6, Format::V5, Format::V4, Format::Heph];

#[derive(TraceEvent)]
#[trace_event(provider = "Errors")]
struct Work<'a> {
    id: u64,
    text: &'a str,
}

/// How many threads live as long as the session.
const WORKERS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    /// An event by a worker, with a flag for a related thread, and a stack.
    Emit(usize, bool, Vec<u64>),
    /// Many events by a worker.
    Burst(usize, u16),
    /// An event of a type that nobody has seen before.
    NewType(usize),
    /// A thread that emits this many events and ends.
    Short(u8),
    /// A worker enters a scope of labels, or leaves one.
    Enter(usize, u8),
    Leave(usize),
    /// This many events of a worker are dropped.
    Lose(usize, u8),
    Faults(Vec<Answer>),
    Flush,
    Pause,
}

fn step() -> impl Strategy<Value = Step> {
    let worker = || 0..WORKERS;
    let stack = || prop_oneof![2 => Just(Vec::new()), 1 => vec(1_u64..6, 1..3)];
    let answer = prop_oneof![
        1 => Just(Answer::Takes),
        3 => any::<(u8, u8)>().prop_map(|(error, kept)| Answer::Fails(error, kept)),
        1 => any::<u8>().prop_map(|error| Answer::Fails(error, 0)),
    ];
    prop_oneof![
        16 => (worker(), any::<bool>(), stack())
            .prop_map(|(who, about, stack)| Step::Emit(who, about, stack)),
        1 => (worker(), 20_u16..3_000).prop_map(|(who, count)| Step::Burst(who, count)),
        1 => worker().prop_map(Step::NewType),
        3 => (0_u8..4).prop_map(Step::Short),
        3 => (worker(), 0_u8..4).prop_map(|(who, label)| Step::Enter(who, label)),
        2 => worker().prop_map(Step::Leave),
        2 => (worker(), 1_u8..5).prop_map(|(who, count)| Step::Lose(who, count)),
        4 => vec(answer, 1..4).prop_map(Step::Faults),
        6 => Just(Step::Flush),
        1 => Just(Step::Pause),
    ]
}

/// An event as it was emitted.
#[derive(Clone, Debug)]
struct Emitted {
    name: String,
    text: Option<String>,
    /// The name of the thread that emitted it.
    thread: String,
    /// The number that the thread gave it.
    number: u64,
    is_about_another: bool,
    labels: Vec<u8>,
    stack: Vec<u64>,
}

type Order = Box<dyn FnOnce(&mut Vec<LabelScope>) + Send>;

/// A thread that executes steps.
struct Worker {
    name: String,
    inbox: mpsc::Sender<Order>,
    done: mpsc::Receiver<()>,
    attempted: u64,
    labels: Vec<u8>,
}

impl Worker {
    fn start(at: usize) -> Self {
        let (inbox, orders) = mpsc::channel::<Order>();
        let (report, done) = mpsc::channel();
        let name = format!("worker {at}");
        let work = move || {
            let mut scopes = Vec::new();
            for order in orders {
                order(&mut scopes);
                report.send(()).unwrap();
            }
            // From the innermost scope outwards.
            while scopes.pop().is_some() {}
        };
        thread::Builder::new().name(name.clone()).spawn(work).unwrap();
        Self { name, inbox, done, attempted: 0, labels: Vec::new() }
    }

    fn order(&self, order: impl FnOnce(&mut Vec<LabelScope>) + Send + 'static) {
        self.inbox.send(Box::new(order)).unwrap();
        self.done.recv().unwrap();
    }
}

fn enter(label: u8) -> LabelScope {
    match label {
        0 => enter_labels(&[Label::ActivityId([7; 16])]),
        1 => enter_labels(&[Label::ActivityId([8; 16]), Label::Str("key", "one")]),
        2 => enter_labels(&[Label::Str("key", "two")]),
        _ => enter_labels(&[Label::Str("other", "three")]),
    }
    .unwrap()
}

/// The labels that a format can express. Of two with the same meaning the last one counts.
fn labels(entered: &[u8], format: Format) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let has_words = matches!(format, Format::V6 | Format::Heph);
    for label in entered {
        let activity = |id: u8| ("activity".to_owned(), format!("{:?}", [id; 16]));
        let text = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let said = match label {
            0 => [Some(activity(7)), None],
            1 => [Some(activity(8)), has_words.then(|| text("key", "one"))],
            2 => [None, has_words.then(|| text("key", "two"))],
            _ => [None, has_words.then(|| text("other", "three"))],
        };
        labels.extend(said.into_iter().flatten());
    }
    labels
}

fn labels_of(seen: &Seen) -> BTreeMap<String, String> {
    let labels = seen.labels.iter().map(|label| match label {
        Read::ActivityId(id) => ("activity".to_owned(), format!("{id:?}")),
        Read::Str(key, value) => (key.clone(), value.clone()),
        other => panic!("nobody has entered {other:?}"),
    });
    labels.collect()
}

/// Everything that was done.
struct Run {
    sessions: Vec<(Format, Faulty, Arc<Session>)>,
    workers: Vec<Worker>,
    /// A thread that never emits.
    other: ThreadRef,
    emitted: HashMap<u64, Emitted>,
    shorts: usize,
    lost: u64,
}

impl Run {
    fn start(interval: Duration, point_bytes: u64, room: Option<u64>) -> Self {
        let sessions = FORMATS.map(|format| {
            let sink = Faulty::default();
            sink.plan().room = room;
            let builder = Session::builder().sink(sink.clone()).provider("Errors").format(format);
            let builder = builder.budget(1 << 20).chunk_size(4_096).prefault(0);
            let builder = builder.flush_interval(interval);
            let builder = builder.sequence_points(point_bytes, Duration::from_secs(3_600));
            (format, sink, Arc::new(builder.start().unwrap()))
        });
        let other = thread::Builder::new().name("the other".into()).spawn(ThreadRef::current);
        Self {
            sessions: sessions.into(),
            workers: (0..WORKERS).map(Worker::start).collect(),
            other: other.unwrap().join().unwrap(),
            emitted: HashMap::new(),
            shorts: 0,
            lost: 0,
        }
    }

    /// Notes an event that a worker is about to emit. Returns its id.
    fn note(&mut self, who: usize, name: &str, text: Option<String>) -> (u64, &mut Emitted) {
        let worker = &mut self.workers[who];
        worker.attempted += 1;
        let id = self.emitted.len() as u64 + 1;
        let emitted = Emitted {
            name: name.to_owned(),
            text,
            thread: worker.name.clone(),
            number: worker.attempted,
            is_about_another: false,
            labels: worker.labels.clone(),
            stack: Vec::new(),
        };
        (id, self.emitted.entry(id).or_insert(emitted))
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Emit(who, about, stack) => {
                let text = format!("an event of {who}");
                let (id, emitted) = self.note(*who, "Work", Some(text.clone()));
                emitted.is_about_another = *about;
                emitted.stack.clone_from(stack);
                let (stack, other) = (stack.clone(), about.then(|| self.other.clone()));
                self.workers[*who].order(move |_| {
                    let origin = Origin::new().stack(&stack);
                    let origin = match &other {
                        Some(other) => origin.thread(other),
                        None => origin,
                    };
                    Work { id, text: &text }.emit_with(&origin);
                });
            }
            Step::Burst(who, count) => {
                let text = "of a burst".repeat(3);
                let notes = (0..*count).map(|_| self.note(*who, "Work", Some(text.clone())).0);
                let ids: Vec<_> = notes.collect();
                self.workers[*who].order(move |_| {
                    ids.iter().for_each(|&id| Work { id, text: &text }.emit());
                });
            }
            Step::NewType(who) => {
                static FIELDS: &[FieldSchema] = &[FieldSchema::new("id", FieldType::U64)];
                static NEXT: AtomicU16 = AtomicU16::new(100);
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                let name: &'static str = Box::leak(format!("New{number}").into_boxed_str());
                let schema = Box::leak(Box::new(schema("Errors", name, number, FIELDS)));
                let ty: &'static EventType = Box::leak(Box::new(EventType::new(schema)));
                let (id, _) = self.note(*who, name, None);
                self.workers[*who].order(move |_| {
                    Hostile { ty, bytes: &|| id.to_le_bytes().to_vec() }.emit();
                });
            }
            Step::Short(count) => {
                self.shorts += 1;
                let name = format!("short {}", self.shorts);
                let mut ids = Vec::new();
                for number in 1..=u64::from(*count) {
                    let id = self.emitted.len() as u64 + 1;
                    let emitted = Emitted {
                        name: "Work".into(),
                        text: Some("short".into()),
                        thread: name.clone(),
                        number,
                        is_about_another: false,
                        labels: Vec::new(),
                        stack: Vec::new(),
                    };
                    self.emitted.insert(id, emitted);
                    ids.push(id);
                }
                let work = move || ids.iter().for_each(|&id| Work { id, text: "short" }.emit());
                thread::Builder::new().name(name).spawn(work).unwrap().join().unwrap();
            }
            Step::Enter(who, label) => {
                self.workers[*who].labels.push(*label);
                let label = *label;
                self.workers[*who].order(move |scopes| scopes.push(enter(label)));
            }
            Step::Leave(who) => {
                self.workers[*who].labels.pop();
                self.workers[*who].order(|scopes| drop(scopes.pop()));
            }
            // A thread that has emitted nothing has no buffer in which to count drops.
            Step::Lose(who, count) if self.workers[*who].attempted > 0 => {
                self.workers[*who].attempted += u64::from(*count);
                self.lost += u64::from(*count);
                for (.., session) in &self.sessions {
                    let (session, count) = (Arc::clone(session), u64::from(*count));
                    self.workers[*who].order(move |_| session.pretend_dropped(count));
                }
            }
            Step::Lose(..) => {}
            Step::Faults(answers) => {
                for (_, sink, _) in &self.sessions {
                    sink.plan().answers.extend(answers);
                }
            }
            Step::Flush => self.flush(),
            Step::Pause => thread::sleep(Duration::from_millis(5)),
        }
    }

    /// Flushes every session. The result must say whether the sink fails, and the sink must have a
    /// complete trace with correct events.
    fn flush(&self) {
        for (format, sink, session) in &self.sessions {
            let before = sink.plan().failures;
            let flushed = session.flush();
            let (failures, streams) = {
                let plan = sink.plan();
                (plan.failures, plan.streams())
            };
            match flushed {
                Ok(()) => {}
                Err(Error::Sink(_)) => assert!(failures > before, "{format:?}: it did not fail"),
                Err(error) => panic!("{format:?}: {error:?}"),
            }
            self.check(*format, &streams);
        }
    }

    /// Checks that events are as they were emitted, that each comes once, and that a thread's
    /// events are in order. Returns the events and how many are missing.
    fn check(&self, format: Format, streams: &[Vec<u8>]) -> (Vec<Seen>, u64) {
        let (mut events, mut lost) = (Vec::new(), 0);
        for (at, stream) in streams.iter().enumerate() {
            let (seen, missing) = read(format, stream);
            events.extend(seen.into_iter().map(|seen| Seen { stream: at, ..seen }));
            lost += missing;
        }
        let mut threads: HashMap<_, &str> = HashMap::new();
        let mut last_ids: HashMap<&str, u64> = HashMap::new();
        let named = matches!(format, Format::V6 | Format::Heph);
        // Numbers begin again in each stream.
        let numbered = named && streams.len() == 1;
        for seen in &events {
            let emitted = self.emitted.get(&seen.id).unwrap_or_else(|| panic!("{seen:?}"));
            let context = || format!("{format:?}: {seen:?} for {emitted:?}");
            assert_eq!((&seen.name, &seen.text), (&emitted.name, &emitted.text), "{}", context());
            assert_eq!(labels_of(seen), labels(&emitted.labels, format), "{}", context());
            assert_eq!(seen.stack, emitted.stack, "{}", context());
            let thread = threads.entry((seen.stream, seen.thread)).or_insert(&emitted.thread);
            assert_eq!(*thread, emitted.thread, "{}", context());
            let last = last_ids.entry(&emitted.thread).or_default();
            assert!(*last < seen.id, "{}", context());
            *last = seen.id;
            let about = match format {
                Format::V6 | Format::Heph => Ok("the other".to_owned()),
                _ => Err(self.other.os_id()),
            };
            assert_eq!(seen.about, emitted.is_about_another.then_some(about), "{}", context());
            if numbered {
                assert_eq!(u64::from(seen.number), emitted.number, "{}", context());
            }
            if named {
                assert_eq!(seen.thread_name.as_deref(), Some(&*emitted.thread), "{}", context());
            }
        }
        (events, lost)
    }

    /// Ends the sessions. `recovered` says that their sinks take everything now.
    fn finish(mut self, recovered: bool, asks_judge: bool) {
        for (format, sink, session) in std::mem::take(&mut self.sessions) {
            sink.plan().answers.clear();
            sink.plan().always = !recovered;
            let session = Arc::into_inner(session).unwrap();
            let (stats, result) = session.finish_with_stats();
            let plan = sink.plan();
            let streams = plan.streams();
            let (events, lost) = self.check(format, &streams);
            let last_has_events = events.iter().any(|seen| seen.stream + 1 == streams.len());
            assert_eq!(stats.attempted, self.emitted.len() as u64 + self.lost, "{format:?}");
            assert_eq!(stats.attempted, stats.written + stats.dropped(), "{format:?} {stats:?}");
            assert_eq!(stats.written, events.len() as u64, "{format:?} {stats:?}");
            assert_eq!(stats.not_in_format, 0, "{format:?} {stats:?}");
            assert_eq!(stats.sink_errors, plan.failures, "{format:?}");
            let last = stats.last_sink_error.map(|error| (error.kind, error.code));
            assert_eq!(last, plan.last, "{format:?}");
            // Versions 4 and 5 tell losses by the numbers of events, so there must be an event.
            let cannot_tell = !last_has_events && matches!(format, Format::V5 | Format::V4);
            match result {
                Ok(()) if cannot_tell && stats.sink_errors == 0 => {
                    assert!(lost <= stats.dropped(), "{format:?} {lost} {stats:?}");
                }
                Ok(()) => assert_eq!(lost, stats.dropped(), "{format:?} {stats:?}"),
                Err(Error::Sink(_)) if !recovered => {
                    assert!(lost <= stats.dropped(), "{format:?} {lost} {stats:?}");
                }
                Err(Error::Sink(_)) if cannot_tell => {
                    assert!(lost < stats.dropped(), "{format:?} {lost} {stats:?}");
                }
                Err(error) => panic!("{format:?}: {error:?} {stats:?}"),
            }
            if asks_judge && format != Format::Heph {
                judge_agrees(format, &streams[0]);
            }
        }
    }
}

#[track_caller]
fn judge_agrees(format: Format, bytes: &[u8]) {
    let (events, lost) = read(format, bytes);
    if let Some(verdict) = judged_of_many(bytes) {
        verdict.assert_holds(events.len() as u64, lost);
    }
}

/// In versions 4 and 5 a block with the stack of a thread's second row comes before the block with
/// both rows. If the sink keeps only the former, the stream has no row of the thread, and another
/// thread must tell what is lost.
#[test]
fn a_stack_reaches_the_sink_without_its_row() {
    let _alone = one_at_a_time();
    for format in [Format::V5, Format::V4] {
        for kept in 0..6 {
            let sink = Faulty::default();
            let builder = Session::builder().sink(sink.clone()).provider("Errors").format(format);
            let session = builder.flush_interval(Duration::from_secs(3_600)).start().unwrap();
            Work { id: 1, text: "kept" }.emit();
            session.flush().unwrap();
            let emit = || {
                Work { id: 2, text: "without a stack" }.emit();
                Work { id: 3, text: "with a stack" }.emit_with(&Origin::new().stack(&[7]));
            };
            thread::spawn(emit).join().unwrap();
            sink.plan().answers.push_back(Answer::Fails(0, kept));
            assert!(session.flush().is_err());
            let (stats, result) = session.finish_with_stats();
            result.unwrap();
            assert_eq!(stats.attempted, 3);
            let streams = sink.plan().streams();
            let (events, lost) = read(format, &streams[0]);
            assert_eq!((events.len() as u64, lost), (stats.written, stats.dropped()));
            let options = Options::default().dialect(Dialect::Reference);
            assert_eq!(verify_with(&*streams[0], options, 5).unwrap().lost, lost, "{kept} blocks");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(all_or(48, 12))
    })]

    /// However often a sink fails, and whatever it keeps of what it is given, it has a complete
    /// trace at any time, and every event in it is correct. In the end the numbers show that every
    /// other event is missing.
    #[test]
    fn a_trace_goes_on_after_errors(
        steps in vec(step(), 1..90),
        interval in prop_oneof![Just(Duration::from_millis(1)), Just(Duration::from_secs(3_600))],
        point_bytes in prop_oneof![Just(2_000_u64), Just(1 << 24)],
        room in prop_oneof![2 => Just(None), 1 => (2_000_u64..30_000).prop_map(Some)],
        (recovers, asks_judge) in (prop::bool::weighted(0.8), prop::bool::weighted(0.25)),
    ) {
        let _alone = one_at_a_time();
        let mut run = Run::start(interval, point_bytes, room);
        steps.iter().for_each(|step| run.step(step));
        run.finish(recovers, asks_judge);
    }
}
