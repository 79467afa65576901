//! The speed of reading a trace, beside the reference reader's `summary` of the same file. The
//! start-up time of the reference reader is subtracted. A ratio is its time divided by ours: how
//! many times as fast we are.

use std::{
    fs::{self, File},
    hint::black_box,
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use benches::{
    events::{PROVIDER, Two},
    machine,
    options::Options,
    report::Report,
};
use nettrace_reader::{ReadAhead, Reader, Source, verify};
use nettrace_writer::{Emit, OnFull, Session};
use tempfile::TempDir;
use testkit::reference;

/// About how many bytes one event takes in the file.
const ROW: u64 = 19;

/// A way to read a trace. Returns the number of events.
type Way = fn(File) -> nettrace_reader::Result<u64>;

const WAYS: [(&str, Way); 7] = [
    ("count", |file| count(Reader::new(file)?)),
    ("count_ahead", |file| count(Reader::new(ReadAhead::new(file))?)),
    ("events", |file| events(Reader::new(file)?)),
    ("events_ahead", |file| events(Reader::new(ReadAhead::new(file))?)),
    ("sorted", |file| sorted(Reader::new(file)?)),
    ("sorted_ahead", |file| sorted(Reader::new(ReadAhead::new(file))?)),
    ("verify", |file| verify(file).map(|report| report.events)),
];

fn main() {
    let options = Options::from_env();
    let mut report = Report::default();
    if options.wants("reader") {
        reader(&options, &mut report);
    }
    report.finish();
}

fn reader(options: &Options, report: &mut Report) {
    let number: u64 = options.amount(50_000_000, 20_000);
    // The trace lies in memory. On a disk the benchmark would measure the disk.
    let folder = match machine::tmpfs() {
        Some(tmpfs) if machine::available() > Some(3 * number * ROW) => {
            tempfile::Builder::new().tempdir_in(tmpfs)
        }
        _ if options.measure => {
            return report.skip("reader", "there is no folder in memory, or too little of it");
        }
        _ => TempDir::new(),
    };
    let folder = folder.expect("a folder can be made");
    let tiny = write(&folder, "tiny", 1);
    let trace = write(&folder, "trace", number);
    report.figure("reader_file_events", number);
    report.figure("reader_file_bytes", fs::metadata(&trace).expect("it is there").len());

    let judge = reference::find("judge");
    if let Err(why) = &judge {
        report.skip("reader: the ratios", why);
    }
    let mut best = [f64::MAX; WAYS.len()];
    let (mut theirs, mut start) = (f64::MAX, f64::MAX);
    // The ways take turns, because other programs load the machine to varying degrees.
    for _ in 0..options.amount(3, 1) {
        for ((name, way), best) in WAYS.iter().zip(&mut best) {
            let begin = Instant::now();
            let seen = way(File::open(&trace).expect("it is there")).expect("it is sound");
            *best = best.min(begin.elapsed().as_secs_f64());
            assert_eq!(seen, number, "{name}");
        }
        if let Ok(judge) = &judge {
            start = start.min(summary(judge, &tiny).expect("the reference reader runs"));
            theirs = theirs.min(summary(judge, &trace).expect("the reference reader runs"));
        }
    }
    for ((name, _), seconds) in WAYS.iter().zip(best) {
        report.figure(&format!("reader_{name}_per_second"), number as f64 / seconds);
    }
    if let Some(bytes) = machine::resident() {
        report.figure("reader_resident_bytes", bytes);
    }
    // The time for a few thousand events is lost in the start-up time.
    if judge.is_err() || !options.measure {
        return;
    }
    let theirs = theirs - start;
    report.figure("reader_reference_start_seconds", start);
    report.figure("reader_reference_per_second", number as f64 / theirs);
    for ((name, _), seconds) in WAYS.iter().zip(best) {
        report.ratio(&format!("reader_{name}"), theirs / seconds);
    }
}

/// Only counts: `Reader::read_to_end`.
fn count<S: Source>(mut reader: Reader<S>) -> nettrace_reader::Result<u64> {
    reader.read_to_end()?;
    Ok(reader.totals().events)
}

/// Visits every event, in the order of the file.
fn events<S: Source>(mut reader: Reader<S>) -> nettrace_reader::Result<u64> {
    let mut seen = 0;
    while let Some(event) = reader.next_event()? {
        black_box((event.header.timestamp, event.payload));
        seen += 1;
    }
    Ok(seen)
}

/// Visits every event in the order of time, as the reference reader does.
fn sorted<S: Source>(reader: Reader<S>) -> nettrace_reader::Result<u64> {
    let mut reader = reader.sorted();
    let mut seen = 0;
    while let Some(event) = reader.next_event()? {
        black_box((event.header.timestamp, event.payload));
        seen += 1;
    }
    Ok(seen)
}

/// Writes a trace with `number` events of one thread.
fn write(folder: &TempDir, name: &str, number: u64) -> PathBuf {
    let path = folder.path().join(name).with_extension("nettrace");
    let session = Session::builder().file(&path).on_full(OnFull::Block).provider(PROVIDER);
    let session = session.start().expect("the file can be made");
    for number in 0..number {
        Two { a: black_box(number), b: number }.emit();
    }
    let stats = session.finish().expect("the file takes everything");
    assert_eq!(stats.written, number);
    path
}

/// How long the reference reader takes for its summary, in seconds.
fn summary(judge: &Path, trace: &Path) -> io::Result<f64> {
    let start = Instant::now();
    let mut command = Command::new(judge);
    command.arg("summary").arg(trace).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status()?;
    assert!(status.success(), "the reference reader refuses {}", trace.display());
    Ok(start.elapsed().as_secs_f64())
}
