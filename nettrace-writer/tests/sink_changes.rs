//! Messages to an application about a sink that fails, and warnings of a session.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

mod trace_support;

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use nettrace_writer::{
    Emit, Error, Level, ProviderFilter, Session, SessionBuilder, SinkChange, TraceEvent, Warning,
    sink::{Batch, MemorySink, Sink, StreamEnd, WriteError},
};

use crate::trace_support::{check, read};

#[derive(TraceEvent)]
#[trace_event(provider = "Changes-Work", level = Warning, keywords = 0x1)]
struct Work {
    id: u64,
}

/// What a [`Moody`] sink does.
const TAKES: u8 = 0;
const IS_FULL: u8 = 1;
const IS_CLOSED: u8 = 2;
const PANICS: u8 = 3;

/// A sink into memory that does what it is told.
#[derive(Clone)]
struct Moody {
    memory: MemorySink,
    mood: Arc<AtomicU8>,
}

impl Moody {
    fn new() -> Self {
        Self { memory: MemorySink::new(), mood: Arc::new(AtomicU8::new(TAKES)) }
    }

    fn set(&self, mood: u8) {
        self.mood.store(mood, Ordering::SeqCst);
    }
}

impl Sink for Moody {
    fn start(&mut self, header: &[u8], end: StreamEnd) -> io::Result<()> {
        self.memory.start(header, end)
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<(), WriteError> {
        match self.mood.load(Ordering::SeqCst) {
            IS_FULL => Err(io::Error::new(io::ErrorKind::StorageFull, "it is full").into()),
            IS_CLOSED => Err(io::Error::new(io::ErrorKind::BrokenPipe, "it is closed").into()),
            PANICS => panic!("this sink panics"),
            _ => self.memory.write(batch),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.memory.finish()
    }
}

type Told = Arc<Mutex<Vec<String>>>;

/// A session into such a sink, and what its application is told.
fn session(sink: &Moody) -> (SessionBuilder, Told) {
    let told = Told::default();
    let builder = Session::builder().sink(sink.clone()).provider("Changes-*").prefault(0);
    let builder = builder.flush_interval(Duration::from_millis(5)).on_sink_change({
        let told = Arc::clone(&told);
        move |change| {
            let name = std::thread::current().name().map(str::to_owned);
            assert_eq!(name.as_deref(), Some("nettrace-flusher"));
            told.lock().unwrap().push(match change {
                SinkChange::Failing { error } => format!("failing: {error}"),
                SinkChange::Recovered { lost, .. } => format!("recovered: {lost}"),
                SinkChange::Failed { error } => format!("failed: {error}"),
                other => panic!("{other:?}"),
            });
        }
    });
    (builder, told)
}

fn emit(ids: std::ops::Range<u64>) {
    ids.for_each(|id| Work { id }.emit());
}

/// One session at a time: all hear all.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> impl Drop {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
fn an_application_is_told_when_its_sink_fails_and_recovers() {
    let _alone = alone();
    let sink = Moody::new();
    let (builder, told) = session(&sink);
    let session = builder.start().unwrap();
    emit(0..10);
    session.flush().unwrap();
    assert_eq!(*told.lock().unwrap(), [""; 0]);
    sink.set(IS_FULL);
    emit(10..30);
    session.flush().unwrap_err();
    emit(30..40);
    session.flush().unwrap_err();
    assert_eq!(told.lock().unwrap().len(), 1, "once, however often it fails");
    let warnings = session.warnings();
    let [Warning::SinkFails { message, is_final: false }] = warnings.as_slice() else {
        panic!("{warnings:?}")
    };
    assert!(message.contains("it is full"), "{message}");
    sink.set(TAKES);
    session.flush().unwrap();
    assert_eq!(session.warnings(), []);
    sink.set(IS_FULL);
    emit(40..45);
    session.flush().unwrap_err();
    sink.set(TAKES);
    session.flush().unwrap();
    emit(45..50);
    let stats = session.finish().unwrap();
    check_lost(&sink, &stats, 35);
    let told = told.lock().unwrap();
    let [first, second, third, fourth] = told.as_slice() else { panic!("{told:?}") };
    assert!(first.starts_with("failing: ") && first.contains("it is full"), "{first}");
    assert_eq!(second, "recovered: 30");
    assert!(third.starts_with("failing: "), "{third}");
    assert_eq!(fourth, "recovered: 5");
}

fn check_lost(sink: &Moody, stats: &nettrace_writer::Stats, lost: u64) {
    assert_eq!(stats.lost_in_sink, lost, "{stats:?}");
    assert_eq!(stats.attempted, stats.written + stats.dropped());
    assert_eq!(read(&sink.memory.bytes()).len() as u64, stats.written);
}

#[test]
fn an_application_is_told_of_the_end() {
    let _alone = alone();
    for (mood, expected) in [(IS_CLOSED, "it is closed"), (PANICS, "panicked")] {
        let sink = Moody::new();
        let (builder, told) = session(&sink);
        let session = builder.start().unwrap();
        sink.set(mood);
        emit(0..10);
        session.flush().unwrap_err();
        session.finish().unwrap_err();
        let told = told.lock().unwrap();
        let [only] = told.as_slice() else { panic!("{told:?}") };
        assert!(only.starts_with("failed: ") && only.contains(expected), "{only}");
    }
    // It still fails when the session ends, which nobody asks about.
    let sink = Moody::new();
    let (builder, told) = session(&sink);
    let session = builder.start().unwrap();
    sink.set(IS_FULL);
    emit(0..10);
    drop(session);
    let told = told.lock().unwrap();
    assert!(told.last().is_some_and(|told| told.starts_with("failed: ")), "{told:?}");
}

#[test]
fn a_callback_may_emit_and_panic() {
    let _alone = alone();
    let sink = Moody::new();
    let builder = Session::builder().sink(sink.clone()).provider("Changes-*").prefault(0);
    let calls = Arc::new(AtomicU8::new(0));
    let builder = builder.on_sink_change({
        let calls = Arc::clone(&calls);
        move |_| {
            emit(1_000..1_100);
            assert_eq!(calls.fetch_add(1, Ordering::SeqCst), 0, "a callback that panics");
        }
    });
    let session = builder.start().unwrap();
    sink.set(IS_FULL);
    emit(0..10);
    session.flush().unwrap_err();
    sink.set(TAKES);
    session.flush().unwrap();
    assert_eq!(session.warnings(), [Warning::CallbackPanicked]);
    sink.set(IS_FULL);
    emit(10..20);
    session.flush().unwrap_err();
    sink.set(TAKES);
    session.flush().unwrap();
    emit(20..30);
    let stats = session.finish().unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 2, "the second call panicked, and was the last");
    // The callback's own events are like all others: lost while the sink fails, else written.
    assert_eq!((stats.attempted, stats.written + stats.dropped()), (230, 230), "{stats:?}");
    assert!(stats.lost_in_sink >= 20, "{stats:?}");
    assert_eq!(read(&sink.memory.bytes()).len() as u64, stats.written);
}

#[test]
fn a_filter_that_selects_nothing_is_a_warning() {
    let _alone = alone();
    let memory = MemorySink::new();
    let filters = [
        ProviderFilter::new("changes-work"),
        ProviderFilter::new("Changes-Work").level(Level::Error),
        ProviderFilter::new("Changes-*").keywords(0x2),
        ProviderFilter::new("Changes-Wrok"),
    ];
    let builder = Session::builder().sink(memory.clone()).register::<Work>();
    let session = builder.providers(filters.clone()).start().unwrap();
    let warnings = session.warnings();
    let [first, second, Warning::UnknownProvider { filter, known }] = warnings.as_slice() else {
        panic!("{warnings:?}")
    };
    assert_eq!(*first, Warning::NothingPasses { filter: filters[1].clone() });
    assert_eq!(*second, Warning::NothingPasses { filter: filters[2].clone() });
    assert_eq!((filter, known.as_slice()), (&filters[3], &["Changes-Work"][..]));
    session.set_providers(["changes-*"]).unwrap();
    assert_eq!(session.warnings(), []);
    emit(0..3);
    let stats = session.finish().unwrap();
    check(&memory.bytes(), &stats);
    assert_eq!(stats.written, 3);
}

#[test]
fn a_session_that_died_says_so_when_its_filters_change() {
    let _alone = alone();
    let sink = Moody::new();
    let (builder, _) = session(&sink);
    let session = builder.start().unwrap();
    sink.set(PANICS);
    emit(0..10);
    session.flush().unwrap_err();
    let error = session.set_providers(["*"]).unwrap_err();
    assert!(matches!(error, Error::FlusherDied), "{error}");
    drop(session.finish_with_stats());
}
