//! The whole path: one thread emits at full speed, the flusher writes, and every event is counted.

use std::{
    fs::{self, File},
    hint::black_box,
    io::{self, Write},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use benches::{
    events::{PROVIDER, TWO_PAYLOAD, Two},
    floor::Floor,
    machine,
    options::Options,
    report::{Report, median},
};
use nettrace_writer::{
    Emit, Keep, Level, OnFull, Session, SessionBuilder, Stats, Triggers,
    sink::{FileSink, MemorySink},
};
use tempfile::TempDir;
use testkit::reference;

/// Events between two looks at the clock.
const BATCH: u64 = 1_000;
/// Bytes of one write in the loop that only writes.
const PIECE: usize = 256 << 10;
/// About how many bytes one of these events takes in a file. This is accurate enough to stop in
/// time.
const ROW: u64 = TWO_PAYLOAD + 3;

fn main() {
    let options = Options::from_env();
    let mut report = Report::default();
    if options.wants("dev_null") {
        dev_null(&options, &mut report);
    }
    if options.wants("file_tmpfs") {
        file_tmpfs(&options, &mut report);
    }
    if options.wants("header_bytes") {
        header_bytes(&options, &mut report);
    }
    if options.wants("flight_recorder") {
        flight_recorder(&options, &mut report);
    }
    if options.wants("persistent") {
        persistent(&options, &mut report);
    }
    report.finish();
}

/// How long one thread emits at full speed.
fn seconds(options: &Options) -> Duration {
    options.amount(Duration::from_secs(5), Duration::from_millis(20))
}

/// Records into a device that takes everything. Compares with the floor, measured before and after,
/// and with another recorder.
fn dev_null(options: &Options, report: &mut Report) {
    let span = seconds(options);
    let before = floor_rate(span / 5);
    let run = record(Session::builder().file("/dev/null"), span, u64::MAX);
    let after = floor_rate(span / 5);
    let floor = f64::midpoint(before, after);

    report.figure("dev_null_events_per_second", run.events_per_second());
    report.figure("dev_null_floor_per_second_before", before);
    report.figure("dev_null_floor_per_second_after", after);
    report.figure("dev_null_bytes_per_event", run.stats.bytes as f64 / run.stats.written as f64);
    report.ratio("dev_null_of_floor", run.events_per_second() / floor);
    let share = run.stats.dropped() as f64 / run.stats.attempted as f64;
    report.ratio("dev_null_dropped_percent", 100.0 * share);

    match eventpipe_rate(options) {
        Ok(rate) => {
            report.figure("eventpipe_events_per_second", rate);
            report.ratio("dev_null_over_eventpipe", run.events_per_second() / rate);
        }
        Err(why) => report.skip("dev_null_over_eventpipe", &why),
    }
}

/// Emits as fast as one thread can into a flight recorder, beside a session whose sink takes
/// everything. Both wait instead of dropping. Then 64 MiB are dumped into a file in memory.
fn flight_recorder(options: &Options, report: &mut Report) {
    const KEPT: usize = 64 << 20;
    let keep = Keep::last(Duration::from_secs(3_600)).within(KEPT);
    let span = seconds(options) / 5;
    let rate = |builder: SessionBuilder| {
        record(builder.on_full(OnFull::Block), span, u64::MAX).events_per_second()
    };
    let dumps = tempfile::tempdir().expect("a folder");
    // Conditions that no event meets: one asks for the type alone, one for a value of each event.
    let triggers = || Triggers::new(dumps.path(), "never");
    let by_level = triggers().on_level(Level::Critical);
    let by_value = triggers().on_number(PROVIDER, "Two", "b", i64::MAX..);
    let (mut kept, mut written) = (Vec::new(), Vec::new());
    let (mut leveled, mut valued) = (Vec::new(), Vec::new());
    for _ in 0..options.amount(5, 1) {
        let recorder = || Session::builder().flight_recorder(keep);
        kept.push(rate(recorder()));
        leveled.push(rate(recorder().triggers(by_level.clone())));
        valued.push(rate(recorder().triggers(by_value.clone())));
        written.push(rate(Session::builder().file("/dev/null")));
    }
    let written = median(written);
    report.figure("flight_recorder_events_per_second", kept.clone());
    report.ratio("flight_recorder_of_dev_null", median(kept) / written);
    report.ratio("flight_recorder_with_level_of_dev_null", median(leveled) / written);
    report.ratio("flight_recorder_with_value_of_dev_null", median(valued) / written);

    let Some(folder) = machine::tmpfs().and_then(|_| folder().ok()) else {
        return report.skip("flight_recorder_dump", "the system has no folder for files in memory");
    };
    let millis = dumps_of(Session::builder().flight_recorder(keep), KEPT, &folder, options);
    report.figure("flight_recorder_dump_64_mib_ms", millis);
}

/// How many milliseconds it takes to dump what a flight recorder keeps into a file in memory.
fn dumps_of(builder: SessionBuilder, kept: usize, folder: &TempDir, options: &Options) -> Vec<f64> {
    let session = builder.provider(PROVIDER).on_full(OnFull::Block);
    let session = session.start().expect("a flight recorder starts");
    for number in 0..options.amount(2 * kept as u64 / ROW, 10_000) {
        Two { a: number, b: number }.emit();
    }
    session.flush().expect("memory takes everything");
    let mut millis = Vec::new();
    for number in 0..options.amount(5, 1) {
        let file = FileSink::new(folder.path().join(format!("{number}.nettrace")));
        let start = Instant::now();
        let dump = session.dump(file).expect("memory is free");
        millis.push(start.elapsed().as_secs_f64() * 1e3 * kept as f64 / dump.bytes as f64);
    }
    millis
}

/// The same sessions with and without a recorder file in memory, in turns. All of them wait instead
/// of dropping.
fn persistent(options: &Options, report: &mut Report) {
    const KEPT: usize = 64 << 20;
    let Some(folder) = machine::tmpfs().and_then(|_| folder().ok()) else {
        return report.skip("persistent", "the system has no folder for files in memory");
    };
    let keep = Keep::last(Duration::from_secs(3_600)).within(KEPT);
    let span = seconds(options) / 5;
    let rate = |builder: SessionBuilder| {
        record(builder.on_full(OnFull::Block), span, u64::MAX).events_per_second()
    };
    let file = folder.path().join("bench.recorder");
    let [mut plain, mut kept, mut ring, mut kept_ring] = [const { Vec::new() }; 4];
    for _ in 0..options.amount(9, 1) {
        let recorder = || Session::builder().flight_recorder(keep);
        plain.push(rate(Session::builder().file("/dev/null")));
        kept.push(rate(Session::builder().file("/dev/null").persistent(&file)));
        ring.push(rate(recorder()));
        kept_ring.push(rate(recorder().persistent(&file)));
    }
    report.ratio("persistent_over_plain", median(kept) / median(plain));
    report.ratio("persistent_recorder_over_plain", median(kept_ring) / median(ring));
    let builder = Session::builder().flight_recorder(keep).persistent(&file);
    report.figure("persistent_dump_64_mib_ms", dumps_of(builder, KEPT, &folder, options));
}

/// How many events a second the floor records.
fn floor_rate(span: Duration) -> f64 {
    let mut floor = Floor::new();
    let (start, mut number) = (Instant::now(), 0);
    while start.elapsed() < span {
        for _ in 0..BATCH {
            floor.record(black_box(number), number);
            number += 1;
        }
    }
    black_box(&mut floor);
    number as f64 / start.elapsed().as_secs_f64()
}

/// How many events a second .NET's EventPipe records: the same event, into a file in memory.
fn eventpipe_rate(options: &Options) -> Result<f64, String> {
    let tool = reference::find("eventpipe-bench")?;
    let folder = folder().map_err(|error| error.to_string())?;
    // The recorder takes whole seconds, so at least one.
    let seconds = options.amount("5", "1");
    let output = Command::new(tool)
        .args(["two", "1", seconds, "256"])
        .arg(folder.path().join("eventpipe.nettrace"))
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let result: serde_json::Value = serde_json::from_str(text.trim())
        .map_err(|error| format!("eventpipe-bench printed {text:?}: {error}"))?;
    let rate = result["events_per_second"].as_f64().filter(|rate| *rate > 0.0);
    rate.ok_or_else(|| format!("eventpipe-bench printed {text:?}"))
}

/// Records into new files in memory, and waits instead of dropping. Compares with a loop that only
/// writes as many bytes.
///
/// The cost is that of finding free pages. Pages that the machine hands out for the first time cost
/// several times as much. So a larger file comes first and is not counted; then the measured runs
/// take turns. No file can be filled faster than a thread can emit. The second ratio is therefore
/// to the lower of the two rates.
fn file_tmpfs(options: &Options, report: &mut Report) {
    let name = "file_tmpfs";
    let (Some(_), Some(available)) = (machine::tmpfs(), machine::available()) else {
        return report.skip(name, "the system has no folder for files in memory");
    };
    let bytes: u64 = options.amount(1 << 30, 4 << 20);
    if available < 4 * bytes {
        return report.skip(name, &format!("less than {} bytes of memory are free", 4 * bytes));
    }
    let folder = folder().expect("a folder in memory can be made");
    let path = folder.path().join("trace.nettrace");
    let bare = |bytes| {
        let rate = bare_rate(&path, bytes).expect("memory was free");
        fs::remove_file(&path).expect("the file is there");
        rate
    };
    bare(2 * bytes);
    let (mut rates, mut bares, mut floors) = (Vec::new(), Vec::new(), Vec::new());
    let mut row = 0.0;
    for _ in 0..options.amount(5, 1) {
        let builder = Session::builder().file(&path).on_full(OnFull::Block);
        let run = record(builder, Duration::MAX, bytes / ROW);
        let length = fs::metadata(&path).expect("the trace is there").len();
        fs::remove_file(&path).expect("the trace is there");
        assert_eq!(run.stats.dropped(), 0, "a session that waits has dropped events");
        row = length as f64 / run.stats.written as f64;
        rates.push(length as f64 / run.seconds);
        bares.push(bare(length));
        floors.push(floor_rate(seconds(options) / 50) * row);
    }

    report.figure("file_tmpfs_bytes", bytes);
    report.figure("file_tmpfs_bytes_per_event", row);
    report.figure("file_tmpfs_bytes_per_second", rates.clone());
    report.figure("file_tmpfs_bare_bytes_per_second", bares.clone());
    report.figure("file_tmpfs_floor_bytes_per_second", floors.clone());
    let (ours, bare, floor) = (median(rates), median(bares), median(floors));
    report.ratio(name, ours / bare);
    report.ratio("file_tmpfs_of_possible", ours / bare.min(floor));
}

/// Bytes a second of writes into a new file.
fn bare_rate(path: &Path, bytes: u64) -> io::Result<f64> {
    let piece = vec![1; PIECE];
    let start = Instant::now();
    let mut file = File::create_new(path)?;
    let mut left = bytes;
    while left > 0 {
        let len = left.min(PIECE as u64);
        file.write_all(&piece[..len as usize])?;
        left -= len;
    }
    drop(file);
    Ok(bytes as f64 / start.elapsed().as_secs_f64())
}

/// What the format adds to the payloads of events of one type, 1 µs apart. All bytes of the file
/// count.
fn header_bytes(options: &Options, report: &mut Report) {
    let events = options.amount(500_000, 2_000);
    let memory = MemorySink::new();
    let session = Session::builder().sink(memory.clone()).provider(PROVIDER).start();
    let session = session.expect("memory takes a trace");
    let start = Instant::now();
    for number in 0..events {
        let due = Duration::from_micros(number);
        while start.elapsed() < due {}
        Two { a: number, b: number }.emit();
    }
    let apart = start.elapsed().as_secs_f64() * 1e6 / events as f64;
    let stats = session.finish().expect("memory takes everything");
    check(&stats, events);

    let headers = memory.len() as u64 - stats.written * TWO_PAYLOAD;
    report.figure("header_bytes_events", stats.written);
    report.figure("header_bytes_microseconds_apart", apart);
    report.ratio("header_bytes_per_event", headers as f64 / stats.written as f64);
}

/// The result of one thread's events.
struct Run {
    stats: Stats,
    /// From the first event until the last one is written.
    seconds: f64,
}

impl Run {
    /// Only events that were written count.
    fn events_per_second(&self) -> f64 {
        self.stats.written as f64 / self.seconds
    }
}

/// Emits at full speed for `span`, but at most `most` events.
fn record(builder: SessionBuilder, span: Duration, most: u64) -> Run {
    let session = builder.provider(PROVIDER).start().expect("the sink takes a trace");
    let (start, mut number) = (Instant::now(), 0);
    while number < most && start.elapsed() < span {
        for _ in 0..BATCH {
            Two { a: black_box(number), b: number }.emit();
            number += 1;
        }
    }
    let stats = session.finish().expect("the sink takes everything");
    let seconds = start.elapsed().as_secs_f64();
    check(&stats, number);
    Run { stats, seconds }
}

/// Checks that no event is missing. Otherwise a rate would mean nothing.
fn check(stats: &Stats, emitted: u64) {
    assert_eq!(stats.attempted, emitted, "the session counted something else than the loop");
    assert_eq!(stats.attempted, stats.written + stats.dropped(), "events are unaccounted for");
}

/// A new folder in memory, or where temporary files go if the system has no such folder.
fn folder() -> io::Result<TempDir> {
    let builder = tempfile::Builder::new();
    match machine::tmpfs() {
        Some(tmpfs) => builder.tempdir_in(tmpfs),
        None => builder.tempdir(),
    }
}
