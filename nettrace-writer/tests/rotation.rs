//! Rotation, from sessions to files: while nothing happens, while a thread is stuck, and under
//! load. A watcher looks at the directory all the time.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests need real threads")]

mod rotation_support;
mod trace_support;

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nettrace_event::{EventSchema, EventType, FieldSchema, FieldType};
use nettrace_writer::{
    Emit, Format, Label, OnFull, Session, SessionBuilder, TraceEvent, enter_labels,
    sink::{FileSink, RotationOptions},
};
use testkit::{
    effort::{all_or, left_out},
    process::{is_rerun, one_at_a_time, rerun},
};

use crate::{
    rotation_support::{Found, Watcher, file_sizes, inspect},
    trace_support::{Hostile, schema},
};

const FORMATS: [Format; 4] = [Format::V6, Format::Heph, Format::V5, Format::V4];

/// Those that a test writes.
fn formats() -> impl Iterator<Item = Format> {
    FORMATS.into_iter().take(all_or(4, 2))
}

#[derive(TraceEvent)]
#[trace_event(provider = "Rotation")]
struct Work {
    value: u64,
    text: &'static str,
}

#[derive(TraceEvent)]
#[trace_event(provider = "Rotation-Idle")]
struct Never {
    value: u64,
}

fn work(values: std::ops::Range<u64>) {
    values.for_each(|value| Work { value, text: "some text that fills the files" }.emit());
}

fn session(format: Format, options: RotationOptions) -> SessionBuilder {
    let builder = Session::builder().sink(options.build().unwrap()).provider("Rotation");
    // A machine that is busy takes its time to write the rest.
    let builder = builder.finish_timeout(Duration::from_secs(300));
    builder.format(format).flush_interval(Duration::from_millis(5))
}

#[test]
fn a_session_without_events_begins_no_files() {
    let _alone = one_at_a_time();
    let age = Duration::from_millis(100);
    let runs: Vec<_> = FORMATS
        .into_iter()
        .map(|format| {
            let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let options = |directory: &tempfile::TempDir| {
                RotationOptions::new(directory.path(), "part").file_age(age).total_files(5)
            };
            let busy = session(format, options(&directory)).sequence_points(1, age).start();
            let idle = Session::builder().sink(options(&other).build().unwrap());
            let idle = idle.provider("Rotation-Idle").format(format).start();
            (format, directory, other, busy.unwrap(), idle.unwrap())
        })
        .collect();
    // So that each session knows the type, which each file defines again.
    (0..0).for_each(|value| Never { value }.emit());
    let (leaves, all_have_emitted) = (AtomicBool::new(false), Barrier::new(4));
    thread::scope(|scope| {
        for part in 1..4 {
            let (leaves, all_have_emitted) = (&leaves, &all_have_emitted);
            scope.spawn(move || {
                work(part * 250..(part + 1) * 250);
                all_have_emitted.wait();
                while !leaves.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(1));
                }
            });
        }
        work(0..250);
        all_have_emitted.wait();
        thread::sleep(2 * age);
        runs.iter().for_each(|(.., busy, _)| busy.flush().unwrap());
        let before: Vec<_> = runs.iter().map(|(_, path, ..)| file_sizes(path.path())).collect();
        thread::sleep(3 * age);
        // Threads that end are not events, and neither are losses.
        leaves.store(true, Ordering::SeqCst);
        thread::sleep(3 * age);
        for _ in 0..6 {
            runs.iter().for_each(|(.., busy, _)| busy.pretend_dropped(2));
            thread::sleep(age);
        }
        for ((format, path, other, ..), before) in runs.iter().zip(before) {
            let after = file_sizes(path.path());
            assert_eq!(after.len(), before.len(), "{format:?}: {before:?}, then {after:?}");
            assert_eq!(file_sizes(other.path()).len(), 1, "{format:?}");
        }
    });
    for (format, directory, other, busy, idle) in runs {
        let stats = busy.finish().unwrap();
        assert_eq!((stats.written, stats.dropped()), (1_000, 12), "{format:?} {stats:?}");
        let found = inspect(format, directory.path(), &stats);
        assert_eq!((found.events, found.lost), (1_000, 12), "{format:?}");
        let stats = idle.finish().unwrap();
        assert_eq!(inspect(format, other.path(), &stats), Found::empty(stats.bytes));
    }
}

static STUCK_FIELDS: [FieldSchema; 1] = [FieldSchema::new("value", FieldType::U64)];
static STUCK_SCHEMA: EventSchema = schema("Rotation", "Stuck", 999, &STUCK_FIELDS);
static STUCK: EventType = EventType::new(&STUCK_SCHEMA);

#[test]
fn a_thread_that_is_stuck_in_an_event_does_not_end_the_rotation() {
    if left_out() {
        return;
    }
    const FILE: u64 = 256 << 10;
    const EVENTS: u64 = 30_000;
    let _alone = one_at_a_time();
    for (format, total) in formats().flat_map(|format| [(format, 4), (format, 1 << 20)]) {
        let directory = tempfile::tempdir().unwrap();
        let options = RotationOptions::new(directory.path(), "part").file_size(FILE);
        let session = session(format, options.total_size(total * FILE)).start().unwrap();
        let watcher = Watcher::start(directory.path());
        let (is_stuck, let_go) = (AtomicBool::new(false), AtomicBool::new(false));
        let bytes = || {
            is_stuck.store(true, Ordering::SeqCst);
            while !let_go.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            u64::MAX.to_le_bytes().to_vec()
        };
        let files = thread::scope(|scope| {
            scope.spawn(|| {
                work(EVENTS..EVENTS + 10);
                Hostile { ty: &STUCK, bytes: &bytes }.emit();
            });
            while !is_stuck.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            for part in 0..30 {
                work(part * EVENTS / 30..(part + 1) * EVENTS / 30);
                thread::sleep(Duration::from_millis(3));
            }
            // The flusher has written by now what it had in hand while the thread was stuck, in
            // files of the right size.
            let patience = Instant::now() + Duration::from_secs(240);
            while session.stats().written < EVENTS && Instant::now() < patience {
                thread::sleep(Duration::from_millis(5));
            }
            let files = file_sizes(directory.path());
            let_go.store(true, Ordering::SeqCst);
            files
        });
        assert!(files.len() >= 4, "{format:?}: {files:?}");
        let stats = session.finish().unwrap();
        let seen = watcher.stop();
        assert!(seen.largest <= FILE, "{format:?}: a file of {} bytes", seen.largest);
        assert!(seen.total <= total * FILE, "{format:?}: {} bytes", seen.total);
        assert_eq!((stats.written, stats.dropped()), (EVENTS + 11, 0), "{format:?} {stats:?}");
        let found = inspect(format, directory.path(), &stats);
        assert_eq!(found.lost, 0, "{format:?}");
        let from = found.values.iter().position(|value| *value >= EVENTS).unwrap() as u64;
        if total > 4 {
            assert_eq!(from, EVENTS, "{format:?}");
        }
        // Those of the stuck thread come last, because they are in the chunk that it was writing.
        let expected = (EVENTS - from..EVENTS + 10).chain([u64::MAX]).collect::<Vec<_>>();
        let differs =
            found.values.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!((differs, found.values.len()), (None, expected.len()), "{format:?}");
    }
}

/// Emits from `threads` threads, in bursts.
fn burst(threads: u64, each: u64) {
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for part in 0..5 {
                    let first = thread * each + part * each / 5;
                    work(first..thread * each + (part + 1) * each / 5);
                    thread::sleep(Duration::from_millis(2));
                }
            });
        }
    });
}

#[test]
fn bounds_hold_at_every_instant() {
    const FILE: u64 = 512 << 10;
    let _alone = one_at_a_time();
    for format in formats() {
        let directory = tempfile::tempdir().unwrap();
        let options = RotationOptions::new(directory.path(), "part").file_size(FILE);
        let options = options.total_size(3 * FILE).total_files(4);
        let session = session(format, options).start().unwrap();
        let watcher = Watcher::start(directory.path());
        burst(64, 500);
        let stats = session.finish().unwrap();
        let seen = watcher.stop();
        assert!(seen.largest <= FILE, "{format:?}: a file of {} bytes", seen.largest);
        assert!(seen.total <= 3 * FILE, "{format:?}: {} bytes", seen.total);
        assert!(seen.files <= 4, "{format:?}: {} files", seen.files);
        assert_eq!(stats.attempted, 32_000);
        inspect(format, directory.path(), &stats);
    }
}

#[test]
fn files_are_as_large_as_they_should_be() {
    const FILE: u64 = 512 << 10;
    const CHUNK: usize = 16 << 10;
    let _alone = one_at_a_time();
    for format in formats() {
        let directory = tempfile::tempdir().unwrap();
        let options = RotationOptions::new(directory.path(), "part").file_size(FILE);
        // There is so little memory that some events are lost.
        let session = session(format, options).chunk_size(CHUNK).budget(6 << 20).prefault(0);
        let session = session.start().unwrap();
        let watcher = Watcher::start(directory.path());
        burst(300, 150);
        let stats = session.finish().unwrap();
        let seen = watcher.stop();
        assert!(seen.largest <= FILE, "{format:?}: a file of {} bytes", seen.largest);
        assert_eq!(stats.attempted, 45_000);
        assert_eq!(stats.attempted, stats.written + stats.dropped(), "{format:?} {stats:?}");
        let found = inspect(format, directory.path(), &stats);
        assert_eq!((found.events, found.lost), (stats.written, stats.dropped()), "{format:?}");
        assert_eq!(found.bytes, stats.bytes, "{format:?}");
        let mut sizes = file_sizes(directory.path());
        sizes.pop();
        assert!(sizes.len() >= 2, "{format:?}: {sizes:?}");
        // A block of Heph events is several times as long as the rows in memory.
        let block = if format == Format::Heph { 8 * CHUNK } else { CHUNK + CHUNK / 4 };
        let least = (FILE * 9 / 10).min(FILE - block as u64);
        assert!(sizes.iter().all(|size| *size >= least), "{format:?}: {sizes:?}");
    }
}

/// [`inspect`] checks the time of each event.
#[test]
fn files_begin_before_their_events() {
    let _alone = one_at_a_time();
    for format in formats() {
        let directory = tempfile::tempdir().unwrap();
        let age = Duration::from_millis(20);
        let options = RotationOptions::new(directory.path(), "part").file_age(age);
        let session = session(format, options).start().unwrap();
        let (ends, values) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !ends.load(Ordering::SeqCst) {
                        let first = values.fetch_add(20, Ordering::SeqCst);
                        work(first..first + 20);
                        thread::sleep(Duration::from_micros(100));
                    }
                });
            }
            let patience = Instant::now() + Duration::from_secs(240);
            while file_sizes(directory.path()).len() < 6 && Instant::now() < patience {
                thread::sleep(age);
            }
            ends.store(true, Ordering::SeqCst);
        });
        let stats = session.finish().unwrap();
        let found = inspect(format, directory.path(), &stats);
        assert_eq!((found.events, found.lost), (values.into_inner(), 0), "{format:?}");
        assert!(file_sizes(directory.path()).len() >= 4, "{format:?}");
    }
}

/// A block that is larger than a file may be is divided. An event that is gets a file to itself.
#[test]
fn a_block_that_is_larger_than_a_file_is_divided() {
    const FILE: u64 = 12 << 10;
    let _alone = one_at_a_time();
    for format in formats() {
        let directory = tempfile::tempdir().unwrap();
        let options = RotationOptions::new(directory.path(), "part").file_size(FILE);
        let session = session(format, options).chunk_size(64 << 10).start().unwrap();
        let watcher = Watcher::start(directory.path());
        work(0..3_000);
        session.pretend_dropped(7);
        let stats = session.finish().unwrap();
        let seen = watcher.stop();
        assert!(seen.largest <= FILE, "{format:?}: a file of {} bytes", seen.largest);
        assert_eq!((stats.written, stats.dropped()), (3_000, 7), "{format:?}");
        let found = inspect(format, directory.path(), &stats);
        assert_eq!((found.events, found.lost, found.bytes), (3_000, 7, stats.bytes), "{format:?}");
        assert!(found.values.iter().copied().eq(0..3_000), "{format:?}");
    }
}

#[derive(TraceEvent)]
#[trace_event(provider = "Rotation")]
struct Long {
    value: u64,
    text: String,
}

/// Holds also for blocks that are made again in another file.
#[test]
fn what_a_format_leaves_out_is_counted_once() {
    let _alone = one_at_a_time();
    for format in formats() {
        let directory = tempfile::tempdir().unwrap();
        let options = RotationOptions::new(directory.path(), "part").file_size(80 << 10);
        // Chunks that hold the long events with the others.
        let session = session(format, options).chunk_size(256 << 10).on_full(OnFull::Block);
        let session = session.start().unwrap();
        let scope = enter_labels(&[Label::Str("key", "value")]);
        for part in 0..8_u64 {
            work(part * 500..(part + 1) * 500);
            // This fits in UTF-16, but not in the UTF-8 of a Heph packet.
            Long { value: 10_000 + part, text: "€".repeat(30_000) }.emit();
        }
        drop(scope);
        let stats = session.finish().unwrap();
        let is_heph = format == Format::Heph;
        let refused = if is_heph { 8 } else { 0 };
        let told = (stats.written, stats.not_in_format);
        assert_eq!(told, (4_008 - refused, refused), "{format:?} {stats:?}");
        assert_eq!(stats.left_out.events, refused, "{format:?}");
        let is_old = matches!(format, Format::V5 | Format::V4);
        assert_eq!(stats.left_out.labels, if is_old { 4_008 } else { 0 }, "{format:?}");
        let found = inspect(format, directory.path(), &stats);
        assert_eq!((found.events, found.lost), (4_008 - refused, refused), "{format:?}");
        let files = file_sizes(directory.path()).len() as u64;
        assert!(files >= 5, "{format:?}: {files} files");
    }
}

#[test]
fn a_relative_path_is_resolved_when_the_sink_is_made() {
    const TEST: &str = "a_relative_path_is_resolved_when_the_sink_is_made";
    let directory = tempfile::tempdir().unwrap();
    let Some(start) = is_rerun() else {
        let output = rerun(TEST, directory.path().to_str().unwrap());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}{errors}");
        return;
    };
    std::env::set_current_dir(&start).unwrap();
    std::fs::create_dir("traces").unwrap();
    let options = RotationOptions::new("traces", "part").file_size(12 << 10).total_files(3);
    let rotated = session(Format::V6, options).start().unwrap();
    let single = FileSink::new("single.nettrace");
    std::env::set_current_dir(directory.path()).unwrap();
    let single = Session::builder().sink(single).provider("Rotation").start().unwrap();
    work(0..3_000);
    assert_eq!(rotated.finish().unwrap().written, 3_000);
    assert_eq!(single.finish().unwrap().written, 3_000);
    assert!(file_sizes(directory.path()).is_empty());
    assert_eq!(file_sizes(&std::path::Path::new(&start).join("traces")).len(), 3);
    assert_eq!(file_sizes(start.as_ref()).len(), 2, "the folder and the single trace");
}

/// The padding of an open Heph file is cut off when the file ends, so it does not count any more.
#[test]
fn closed_files_count_as_long_as_they_are() {
    let _alone = one_at_a_time();
    for format in formats() {
        let directory = tempfile::tempdir().unwrap();
        let options = RotationOptions::new(directory.path(), "small").extension("trace");
        let options = options.file_size(8 << 10).file_age(Duration::from_millis(1));
        let sink = options.total_size(24 << 10).build().unwrap();
        let session = Session::builder().sink(sink).provider("Rotation").format(format);
        let session = session.flush_interval(Duration::from_secs(10)).start().unwrap();
        for value in 0..12 {
            work(value..value + 1);
            session.flush().unwrap();
            thread::sleep(Duration::from_millis(3));
        }
        let stats = session.finish().unwrap();
        let found = inspect(format, directory.path(), &stats);
        assert!(found.bytes < 16 << 10, "{format:?}: there was room for all");
        assert_eq!(found.events, 12, "{format:?}: files were deleted that no bound required");
        assert!(file_sizes(directory.path()).len() >= 12, "{format:?}");
    }
}
