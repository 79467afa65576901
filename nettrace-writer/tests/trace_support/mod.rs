//! What a trace says, read by our own reader and by the reference reader, and whether it agrees with the session's counts.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of threads")]

pub(crate) mod held;

use std::{
    collections::BTreeMap,
    io::Write as _,
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use nettrace_reader::{Label, Options, Rule, ThreadTotals, verify};
use nettrace_writer::{Session, SessionBuilder, Stats, sink::MemorySink};
use trace_event::{
    EventSchema, EventType, FieldSchema, Level, PayloadEncoder, ProviderSchema, TraceEvent,
};

/// An event as the reader delivers it.
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
    let mut reader = Options::default().open(bytes).expect("a trace").sorted();
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

/// What a trace says of its threads, the gone ones included.
pub(crate) fn threads(bytes: &[u8]) -> Vec<ThreadTotals> {
    let mut reader = Options::default().keep_thread_totals(true).open(bytes).expect("a trace");
    while reader.next_event().expect("a whole trace").is_some() {}
    let gone = reader.finished_threads().to_vec();
    reader.live_threads().cloned().chain(gone).collect()
}

/// Events and losses of a trace, which has to keep every promise of a writer, in the reference reader's eyes as well.
pub(crate) fn sound(bytes: &[u8], forgiven: &[Rule]) -> (u64, u64) {
    let report = verify(bytes).expect("memory can be read");
    let broken: Vec<_> =
        report.violations.iter().filter(|broken| !forgiven.contains(&broken.rule)).collect();
    assert!(broken.is_empty(), "{} violations, such as {broken:?}", report.count);
    if let Some(judged) = judge(bytes) {
        assert_eq!(judged["events"], report.events.to_string(), "the reference reader: {judged:?}");
        assert_eq!(judged["lost"], report.lost.to_string(), "the reference reader: {judged:?}");
        assert_eq!(judged["unsorted"], "0", "the reference reader: {judged:?}");
    }
    (report.events, report.lost)
}

/// Checks a finished session against its trace: every attempt is in it, or is missing by the numbers.
pub(crate) fn check(bytes: &[u8], stats: &Stats) {
    check_but(bytes, stats, &[]);
}

/// Like [`check`], but some rules may be broken, by events that lie.
pub(crate) fn check_but(bytes: &[u8], stats: &Stats, forgiven: &[Rule]) {
    assert_eq!(stats.attempted, stats.written + stats.dropped(), "{stats:?}");
    let (events, lost) = sound(bytes, forgiven);
    assert_eq!((events, lost), (stats.written, stats.dropped.total()), "{stats:?}");
}

/// The last line of the reference reader, where there is one.
pub(crate) fn judge(bytes: &[u8]) -> Option<BTreeMap<String, String>> {
    let judge = std::env::var_os("NETTRACE_JUDGE").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/judge/judge"),
        PathBuf::from,
    );
    if !judge.exists() {
        println!("skipped: no judge at {}", judge.display());
        return None;
    }
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("room for a trace");
    let output = Command::new(judge).arg("summary").arg(file.path()).output().expect("a judge");
    let text = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the reference reader: {complaint}\n{text}");
    let last = text.lines().last().unwrap_or_default().trim_start_matches("# ");
    let pairs = last.split_whitespace().filter_map(|pair| pair.split_once('='));
    Some(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
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

/// An event by hand: asks for its bytes whenever it is encoded.
pub(crate) struct Hostile<'a> {
    pub(crate) ty: &'static EventType,
    pub(crate) bytes: &'a dyn Fn() -> Vec<u8>,
}

impl TraceEvent for Hostile<'_> {
    const TYPES: &'static [&'static EventType] = &[];

    fn event_type(&self) -> &'static EventType {
        self.ty
    }

    fn encode<E: PayloadEncoder>(&self, encoder: &mut E) {
        encoder.u8_elements(&(self.bytes)());
    }
}

/// Runs one test of this program again, in a process of its own, which [`is_rerun`] knows; kills it after a while.
pub(crate) fn rerun(test: &str, argument: &str, patience: Duration) -> Output {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env("NETTRACE_RERUN", argument)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program starts");
    let deadline = Instant::now() + patience;
    while child.try_wait().expect("a child").is_none() {
        if Instant::now() > deadline {
            child.kill().expect("a child");
            let output = child.wait_with_output().expect("a child");
            panic!("{test} hung: {}", String::from_utf8_lossy(&output.stderr));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("a child")
}

/// The argument of [`rerun`], in the process that it started.
pub(crate) fn is_rerun() -> Option<String> {
    std::env::var("NETTRACE_RERUN").ok()
}

/// Resident memory of this process in bytes.
#[cfg(target_os = "linux")]
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("procfs");
    let pages: u64 = status.split_whitespace().nth(1).expect("resident").parse().expect("number");
    pages * 4096
}
