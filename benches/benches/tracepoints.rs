//! The cost of an event that goes to a tracepoint, beside a bare `writev` of the same bytes to the
//! same descriptor.
//!
//! Few kernels have user_events, so the program writes to plain descriptors. `/dev/null` does as
//! little as any descriptor can. A file in memory copies the bytes, as the kernel's trace buffer
//! does.
//!
//! With a kernel that has user_events, and as root, the program also measures real tracepoints
//! while tracefs listens: `dev/vm/run PROGRAM --bench`. The processor there is
//! emulated. It copies and computes many times slower than it enters the kernel, so those figures
//! only give an impression.

use std::{
    fs::{self, File, OpenOptions},
    hint::black_box,
    io::{IoSlice, Seek, Write},
    os::fd::BorrowedFd,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use benches::{
    events::Work,
    machine,
    options::Options,
    report::{Report, median},
};
use eventheader_writer::{
    Context, Emit, TraceEvent, counters, encoded, redirect, register, status,
};

/// Events in a round. After each round a file is rewound.
const EVENTS: u64 = 1_000;

fn main() -> ExitCode {
    let options = Options::from_env();
    let mut report = Report::default();
    let mut good = true;
    // This comes first, because a redirected tracepoint is not registered with the kernel.
    if options.wants("tracepoint_kernel") {
        good &= kernel(&options, &mut report);
    }
    if options.wants("tracepoint_dev_null") {
        let file = OpenOptions::new().write(true).open("/dev/null");
        good &= plain("tracepoint_dev_null", file.expect("it is there"), &options, &mut report);
    }
    if options.wants("tracepoint_memory") {
        match machine::tmpfs() {
            Some(folder) => {
                let file = tempfile::tempfile_in(folder).expect("a file in memory");
                good &= plain("tracepoint_memory", file, &options, &mut report);
            }
            None => report.skip("tracepoint_memory", "no folder whose files are memory"),
        }
    }
    report.finish();
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes into a file of our own.
fn plain(name: &str, file: File, options: &Options, report: &mut Report) -> bool {
    let copy = file.try_clone().expect("one more descriptor");
    let registered = register(&[Work::event_types()]).expect("the type can be described");
    assert_eq!(registered.tracepoints.len(), 1);
    match redirect(copy) {
        Ok(()) => compare(name, file, options, report),
        Err(error) => {
            report.skip(name, &error.to_string());
            true
        }
    }
}

/// Writes through the kernel.
fn kernel(options: &Options, report: &mut Report) -> bool {
    let name = "tracepoint_kernel";
    let status = register(&[Work::event_types()]).expect("the type can be described");
    let switch =
        format!("/sys/kernel/tracing/events/user_events/{}/enable", status.tracepoints[0].name);
    let Some(file) = descriptor() else {
        report.skip(name, &status.availability.explanation());
        return true;
    };
    if let Err(error) = fs::write(&switch, "1") {
        report.skip(name, &format!("{switch}: {error}"));
        return true;
    }
    while !is_enabled() {
        thread::sleep(Duration::from_millis(1));
    }
    let good = compare(name, file, options, report);
    good && fs::write(&switch, "0").is_ok()
}

fn is_enabled() -> bool {
    status().tracepoints.iter().any(|point| point.enabled)
}

/// A copy of the descriptor that the crate writes to. The index of a tracepoint is valid only for
/// the descriptor that registered it.
#[allow(unsafe_code, reason = "a descriptor by its number")]
fn descriptor() -> Option<File> {
    let mut entries = fs::read_dir("/proc/self/fd").ok()?.flatten();
    let found = entries.find(|entry| {
        fs::read_link(entry.path()).is_ok_and(|path| path.ends_with("user_events_data"))
    })?;
    let number = found.file_name().to_str()?.parse().ok()?;
    // SAFETY: the crate never closes it.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    borrowed.try_clone_to_owned().ok().map(File::from)
}

/// Compares events of five numbers and a text with plain writes of their bytes: in one piece, and
/// in the three pieces that need no copy (index of the tracepoint, constant part, payload).
///
/// All loops take turns, so that a change of the machine's speed affects all of them alike. `write`
/// is there because the crate calls it too; unlike `writev`, it has no list of pieces to process.
/// Returns `false` if not every event was written.
fn compare(name: &str, mut file: File, options: &Options, report: &mut Report) -> bool {
    let (rounds, events) = options.amount((801, EVENTS), (3, 10));
    let index = status().tracepoints[0].write_index.expect("it is registered").to_ne_bytes();
    let bytes = encoded(&Work::new(black_box(1)), &Context::new()).expect("it fits");
    let (constant, payload) = bytes.split_at(bytes.len() - Work::PAYLOAD);
    let whole = [&index[..], &bytes].concat();
    let one = [IoSlice::new(&whole)];
    let three = [&index, constant, payload].map(IoSlice::new);

    let before = counters();
    let (mut floor, mut ratios) = (Vec::new(), Vec::new());
    let (mut writes, mut pieces) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let bare = nanoseconds(&mut file, events, |mut file, _| {
            let written = file.write_vectored(black_box(&one));
            assert!(written.is_ok_and(|written| written == whole.len()));
        });
        let ours = nanoseconds(&mut file, events, |_, number| Work::new(number).emit());
        let bare_write = nanoseconds(&mut file, events, |mut file, _| {
            let written = file.write(black_box(&whole));
            assert!(written.is_ok_and(|written| written == whole.len()));
        });
        let bare_pieces = nanoseconds(&mut file, events, |mut file, _| {
            let written = file.write_vectored(black_box(&three));
            assert!(written.is_ok_and(|written| written == whole.len()));
        });
        floor.push(bare);
        ratios.push(ours / bare);
        writes.push(bare_write / bare);
        pieces.push(bare_pieces / bare);
    }
    report.figure(&format!("{name}_floor_ns"), median(floor));
    report.ratio(name, median(ratios));
    report.ratio(&format!("{name}/bare_write"), median(writes));
    report.ratio(&format!("{name}/three_pieces"), median(pieces));
    let written = counters().written - before.written;
    if written != rounds * events {
        println!("{name}: {written} of {} events were written", rounds * events);
    }
    written == rounds * events
}

/// The time that one turn of a loop takes, in nanoseconds.
#[inline(always)]
fn nanoseconds(file: &mut File, turns: u64, work: impl Fn(&File, u64)) -> f64 {
    // A descriptor that cannot be rewound does not need it.
    let _ = file.rewind();
    let start = Instant::now();
    for number in 0..turns {
        work(file, black_box(number));
    }
    start.elapsed().as_secs_f64() * 1e9 / turns as f64
}
