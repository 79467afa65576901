//! The contents of a trace according to the project's reader and the reference reader, and whether
//! it agrees with the session's counts.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

pub(crate) mod held;
pub(crate) mod modes;

use nettrace_event::{
    EventSchema, EventType, FieldSchema, Level, PayloadEncoder, Place, ProviderSchema, TraceEvent,
};
use nettrace_reader::{Dialect, Label, Options, Rule, SortedReader, ThreadTotals, verify_with};
use nettrace_writer::{Session, SessionBuilder, Stats, sink::MemorySink};
use testkit::{process::skipped_in_emulator, reference::judged_of_many};

/// An event as the reader returns it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) provider: String,
    pub(crate) name: String,
    pub(crate) number: u32,
    pub(crate) capture_thread: u64,
    pub(crate) thread_name: Option<String>,
    pub(crate) os_thread: Option<u64>,
    pub(crate) about: u64,
    pub(crate) about_name: Option<String>,
    pub(crate) timestamp: u64,
    pub(crate) stack: Vec<u64>,
    pub(crate) labels: Vec<Label>,
    pub(crate) level: u8,
    pub(crate) keywords: u64,
    pub(crate) payload: Vec<u8>,
}

impl Seen {
    /// The first eight bytes of the payload as a number.
    pub(crate) fn value(&self) -> u64 {
        u64::from_le_bytes(self.payload[..8].try_into().expect("eight bytes of payload"))
    }
}

/// A session into memory that records one provider.
pub(crate) fn memory(provider: &str) -> (MemorySink, SessionBuilder) {
    let sink = MemorySink::new();
    (sink.clone(), Session::builder().sink(sink).provider(provider))
}

/// All events in the order of time.
pub(crate) fn read(bytes: &[u8]) -> Vec<Seen> {
    read_sorted(&mut Options::default().open(bytes).expect("a trace").sorted())
}

/// The same.
pub(crate) fn read_sorted(reader: &mut SortedReader<&[u8]>) -> Vec<Seen> {
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().expect("a whole trace") {
        events.push(Seen {
            provider: event.metadata().provider.clone(),
            name: event.metadata().name.clone(),
            number: event.header.sequence_number,
            capture_thread: event.header.capture_thread,
            thread_name: event.capture_thread().thread.name.clone(),
            os_thread: event.capture_thread().thread.os_thread_id,
            about: event.header.thread,
            about_name: event.thread().name.clone(),
            timestamp: event.header.timestamp,
            stack: event.stack().map_or(Vec::new(), |stack| stack.addresses().collect()),
            labels: event.labels().to_vec(),
            level: event.level(),
            keywords: event.keywords(),
            payload: event.payload.to_vec(),
        });
    }
    events
}

/// What a trace says of its threads, including those that ended.
pub(crate) fn threads(bytes: &[u8]) -> Vec<ThreadTotals> {
    let mut reader = Options::default().keep_thread_totals(true).open(bytes).expect("a trace");
    while reader.next_event().expect("a whole trace").is_some() {}
    let gone = reader.finished_threads().to_vec();
    reader.live_threads().cloned().chain(gone).collect()
}

/// How many events a trace has and how many it has lost. It must keep every promise of a writer,
/// and the reference reader must agree, which reads [some](judged_of_many).
#[track_caller]
pub(crate) fn sound(bytes: &[u8], forgiven: &[Rule]) -> (u64, u64) {
    let options = Options::default().dialect(Dialect::Reference);
    let report = verify_with(bytes, options, 100).expect("memory can be read");
    let broken: Vec<_> =
        report.violations.iter().filter(|broken| !forgiven.contains(&broken.rule)).collect();
    assert!(broken.is_empty(), "{} violations, such as {broken:?}", report.count);
    if let Some(verdict) = judged_of_many(bytes) {
        verdict.assert_holds(report.events, report.lost);
    }
    (report.events, report.lost)
}

/// Checks a finished session against its trace: every attempt is in the trace, or the numbers show
/// that it is missing.
#[track_caller]
pub(crate) fn check(bytes: &[u8], stats: &Stats) {
    check_but(bytes, stats, &[]);
}

/// Like [`check`], but some rules may be broken, because there are events that lie.
#[track_caller]
pub(crate) fn check_but(bytes: &[u8], stats: &Stats, forgiven: &[Rule]) {
    assert_eq!(stats.attempted, stats.written + stats.dropped(), "{stats:?}");
    let (events, lost) = sound(bytes, forgiven);
    assert_eq!((events, lost), (stats.written, stats.drops.total()), "{stats:?}");
}

/// A schema for events that are written by hand.
pub(crate) const fn schema(
    provider: &'static str,
    name: &'static str,
    id: u16,
    fields: &'static [FieldSchema],
) -> EventSchema {
    EventSchema {
        provider: ProviderSchema { name: provider, guid: None, group: None },
        name,
        id,
        place: Place::UNKNOWN,
        id_is_explicit: true,
        version: 0,
        level: Level::Informational,
        keywords: 0,
        opcode: None,
        tag: 0,
        message: None,
        description: None,
        key_values: &[],
        fields,
    }
}

/// An event by hand. It calls a function for its bytes whenever it is encoded.
pub(crate) struct Hostile<'a> {
    pub(crate) ty: &'static EventType,
    pub(crate) bytes: &'a dyn Fn() -> Vec<u8>,
}

impl TraceEvent for Hostile<'_> {
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    fn event_type(&self) -> &'static EventType {
        self.ty
    }

    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.u8_elements(&(self.bytes)());
    }
}

/// The resident memory of this process in bytes, or 0 in an emulator, which has an unknown share of
/// it.
#[cfg(target_os = "linux")]
pub(crate) fn resident() -> u64 {
    if skipped_in_emulator("a bound on resident memory, of which it has its share") {
        return 0;
    }
    let status = std::fs::read_to_string("/proc/self/statm").expect("procfs");
    let pages: u64 = status.split_whitespace().nth(1).expect("resident").parse().expect("number");
    pages * 4096
}

/// An event of a type that is made while the program runs.
pub(crate) struct Numbered {
    pub(crate) ty: &'static EventType,
    pub(crate) number: u64,
}

impl TraceEvent for Numbered {
    fn event_types() -> &'static [&'static EventType] {
        &[]
    }

    fn event_type(&self) -> &'static EventType {
        self.ty
    }

    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.u64(self.number);
    }
}

pub(crate) fn leaked<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}
