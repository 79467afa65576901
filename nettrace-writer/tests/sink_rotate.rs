//! Sequences of files: each file is complete, their numbers grow, and they are bounded together.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests need real threads")]

mod sink_support;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::thread;
use std::time::Duration;

use nettrace_writer::sink::{RotatingFiles, RotationOptions, Sink};
use sink_support::{Blocks, STREAM_END, complete, header, write};

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn total(directory: &Path) -> u64 {
    let size = |name: &String| fs::metadata(directory.join(name)).unwrap().len();
    names(directory).iter().map(size).sum()
}

/// Does what a flusher does: asks, restarts, writes. Returns whether it restarted.
fn flush(sink: &mut RotatingFiles, blocks: &[Vec<u8>]) -> bool {
    let restarts = sink.wants_restart() || blocks.concat().len() as u64 > sink.room();
    if restarts {
        sink.start(&header(), STREAM_END).unwrap();
    }
    write(sink, blocks).unwrap();
    restarts
}

#[test]
fn by_size_within_a_total() {
    let directory = tempfile::tempdir().unwrap();
    let mut sink = RotationOptions::new(directory.path(), "service")
        .file_size(10_000)
        .total_size(35_000)
        .build()
        .unwrap();
    sink.start(&header(), STREAM_END).unwrap();
    for round in 0..400 {
        flush(&mut sink, &Blocks::new().batch(1 + round % 3, 50 + round as u64));
        let used = fs::metadata(sink.current_path().unwrap()).unwrap().len();
        assert_eq!(sink.room(), 10_000 - used);
        assert!(total(directory.path()) <= 35_000);
        for name in names(directory.path()) {
            assert!(complete(&directory.path().join(name)).len() <= 10_000);
        }
    }
    assert!(sink.current_path().unwrap().ends_with(names(directory.path()).last().unwrap()));
    sink.finish().unwrap();
    let names = names(directory.path());
    let numbers: Vec<u64> = names
        .iter()
        .map(|name| name.strip_prefix("service-").unwrap().strip_suffix(".nettrace").unwrap())
        .map(|digits| digits.parse().unwrap())
        .collect();
    assert!(numbers.len() >= 3, "{names:?}");
    assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{names:?}");
    assert!(numbers[0] > 20, "{names:?}");
    assert!(total(directory.path()) > 20_000, "deleted more than it had to");
}

#[test]
fn by_age_and_number() {
    let directory = tempfile::tempdir().unwrap();
    let age = Duration::from_millis(40);
    let mut sink = RotationOptions::new(directory.path(), "service")
        .file_age(age)
        .total_files(2)
        .extension("trace")
        .build()
        .unwrap();
    sink.start(&header(), STREAM_END).unwrap();
    thread::sleep(age);
    assert!(!sink.wants_restart(), "a file without a batch is never left");
    for _ in 0..3 {
        flush(&mut sink, &Blocks::new().batch(1, 1));
        thread::sleep(age);
        assert!(sink.wants_restart());
        assert!(names(directory.path()).len() <= 2);
    }
    sink.finish().unwrap();
    assert_eq!(names(directory.path()), ["service-00000002.trace", "service-00000003.trace"]);
}

#[test]
fn a_large_flush_gets_a_file_to_itself() {
    let directory = tempfile::tempdir().unwrap();
    let mut sink = RotationOptions::new(directory.path(), "s").file_size(1_000).build().unwrap();
    sink.start(&header(), STREAM_END).unwrap();
    for rows in [10, 3_000, 10] {
        flush(&mut sink, &Blocks::new().batch(1, rows));
    }
    sink.finish().unwrap();
    let lengths: Vec<bool> = names(directory.path())
        .iter()
        .map(|name| complete(&directory.path().join(name)).len() > 1_000)
        .collect();
    assert_eq!(lengths, [false, true, false]);
}

const EARLIER: [&str; 2] = ["service-00000003.nettrace", "service-00000007.nettrace"];
const STRANGERS: [&str; 5] = [
    "service-3.nettrace",
    "service-00000004.nettrace.gz",
    "service-0000000x.nettrace",
    "service-000000005.nettrace",
    "other-00000001.nettrace",
];

/// Rotates through a directory with files of earlier runs and of others. Returns the names
/// afterwards.
fn among_others(adopt: bool) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    for name in EARLIER.iter().chain(&STRANGERS) {
        fs::write(directory.path().join(name), [7; 600]).unwrap();
    }
    fs::create_dir(directory.path().join("service-00000005.nettrace")).unwrap();
    let mut sink = RotationOptions::new(directory.path(), "service")
        .file_size(1_000)
        .total_size(2_000)
        .adopt_existing(adopt)
        .build()
        .unwrap();
    sink.start(&header(), STREAM_END).unwrap();
    assert!(sink.current_path().unwrap().ends_with("service-00000008.nettrace"));
    for _ in 0..10 {
        flush(&mut sink, &Blocks::new().batch(1, 200));
    }
    sink.finish().unwrap();
    names(directory.path())
}

#[test]
fn files_of_others_stay() {
    let left = among_others(false);
    for name in EARLIER.iter().chain(&STRANGERS) {
        assert!(left.contains(&(*name).to_owned()), "{name} is gone: {left:?}");
    }
}

#[test]
fn files_of_earlier_runs_are_adopted_on_request() {
    let left = among_others(true);
    for name in EARLIER {
        assert!(!left.contains(&name.to_owned()), "{left:?}");
    }
    for name in STRANGERS.into_iter().chain(["service-00000005.nettrace"]) {
        assert!(left.contains(&name.to_owned()), "{name} is gone: {left:?}");
    }
}

/// A file that is being written has an owner, who is not done with it.
#[cfg(unix)]
#[test]
fn files_that_others_write_are_not_adopted() {
    let directory = tempfile::tempdir().unwrap();
    let options = RotationOptions::new(directory.path(), "service").file_size(1_000);
    let mut others = options.clone().build().unwrap();
    others.start(&header(), STREAM_END).unwrap();
    let others_file = others.current_path().unwrap().to_owned();
    let mut sink = options.total_files(1).adopt_existing(true).build().unwrap();
    for _ in 0..3 {
        sink.start(&header(), STREAM_END).unwrap();
        flush(&mut sink, &Blocks::new().batch(1, 200));
        flush(&mut others, &Blocks::new().batch(1, 10));
        assert_eq!(others.current_path(), Some(&*others_file));
        complete(&others_file);
        assert_eq!(names(directory.path()).len(), 2);
    }
    sink.finish().unwrap();
    others.finish().unwrap();
    let mut sink = RotationOptions::new(directory.path(), "service").file_size(1_000);
    sink = sink.total_files(1).adopt_existing(true);
    sink.build().unwrap().start(&header(), STREAM_END).unwrap();
    assert_eq!(names(directory.path()).len(), 1, "all are done");
}

/// As when a child inherits the variables of its parent: the closed files of a process that runs
/// are its own.
#[cfg(unix)]
#[test]
fn closed_files_of_others_are_not_adopted() {
    let directory = tempfile::tempdir().unwrap();
    let options = RotationOptions::new(directory.path(), "service").file_size(1_000);
    let adopting = options.clone().total_files(3).adopt_existing(true);
    let write = |sink: &mut RotatingFiles| {
        sink.start(&header(), STREAM_END).unwrap();
        flush(sink, &Blocks::new().batch(1, 200));
    };
    let mut parent = adopting.clone().build().unwrap();
    (0..5).for_each(|_| write(&mut parent));
    let own = names(directory.path());
    assert_eq!(own.len(), 3);
    for _ in 0..4 {
        let mut child = adopting.clone().build().unwrap();
        (0..5).for_each(|_| write(&mut child));
        let left = names(directory.path());
        assert!(own.iter().all(|name| left.contains(name)), "{own:?}, {left:?}");
        assert_eq!(left.len(), 6, "children that have ended leave their files to the next one");
    }
    // Also if it has no file open, for lack of descriptors for instance.
    parent.start(&header(), nettrace_writer::sink::StreamEnd::new(&[0; 100])).unwrap_err();
    assert_eq!(parent.current_path(), None);
    let mut child = adopting.clone().build().unwrap();
    (0..5).for_each(|_| write(&mut child));
    let left = names(directory.path());
    assert!(own[1..].iter().all(|name| left.contains(name)), "{own:?}, {left:?}");
    drop((parent, child));
    let mut next = adopting.build().unwrap();
    write(&mut next);
    assert_eq!(names(directory.path()).len(), 3);
}

/// Somebody has used up the numbers.
#[test]
fn there_is_a_number_behind_the_largest() {
    for taken in [u64::MAX, u64::MAX - 1] {
        let directory = tempfile::tempdir().unwrap();
        let files = [1, 2, 4, taken];
        let path = |number: u64| directory.path().join(format!("service-{number:08}.nettrace"));
        files.iter().for_each(|number| fs::write(path(*number), "x").unwrap());
        let options = RotationOptions::new(directory.path(), "service").file_size(1_000);
        let mut sink = options.build().unwrap();
        for _ in 0..5 {
            sink.start(&header(), STREAM_END).unwrap();
            flush(&mut sink, &Blocks::new().batch(1, 200));
        }
        assert_eq!(names(directory.path()).len(), files.len() + 5);
        assert!(files.iter().all(|number| fs::read(path(*number)).unwrap() == b"x"));
    }
}

/// A pipe that somebody has put where the next file goes.
#[cfg(unix)]
#[test]
fn a_pipe_is_a_name_that_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("service-00000002.nettrace");
    let options = RotationOptions::new(directory.path(), "service").file_size(1_000);
    let mut sink = options.build().unwrap();
    for name in ["service-00000001.nettrace", "service-00000003.nettrace"] {
        sink.start(&header(), STREAM_END).unwrap();
        assert!(sink.current_path().unwrap().ends_with(name));
        flush(&mut sink, &Blocks::new().batch(1, 200));
        let _ = rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into());
    }
}

#[test]
fn two_sinks_share_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let options = RotationOptions::new(directory.path(), "s").file_size(500).total_files(3);
    let mut sinks = [options.clone().build().unwrap(), options.build().unwrap()];
    for sink in &mut sinks {
        sink.start(&header(), STREAM_END).unwrap();
    }
    for _ in 0..20 {
        for sink in &mut sinks {
            flush(sink, &Blocks::new().batch(1, 100));
        }
    }
    let names = names(directory.path());
    assert_eq!(names.len(), 6, "{names:?}");
    for name in names {
        complete(&directory.path().join(name));
    }
}

#[test]
fn a_file_that_took_the_place_of_ours_is_not_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let mut sink =
        RotationOptions::new(directory.path(), "s").file_size(500).total_files(2).build().unwrap();
    sink.start(&header(), STREAM_END).unwrap();
    let first = sink.current_path().unwrap().to_owned();
    flush(&mut sink, &Blocks::new().batch(1, 100));
    flush(&mut sink, &Blocks::new().batch(1, 100));
    let precious = directory.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    fs::rename(&precious, &first).unwrap();
    let second = sink.current_path().unwrap().to_owned();
    for _ in 0..5 {
        flush(&mut sink, &Blocks::new().batch(1, 100));
    }
    assert_eq!(fs::read(&first).unwrap(), b"precious");
    assert!(!second.exists());
}

#[test]
fn bounds_that_cannot_hold_are_refused() {
    let options = || RotationOptions::new("traces", "service");
    for bad in [
        options().file_size(0),
        options().file_size(10).total_files(0),
        options().file_size(10).total_size(9),
        options().total_size(10),
        options().total_files(3),
        RotationOptions::new("traces", "a/b").file_size(10),
        RotationOptions::new("traces", "").file_size(10),
        options().extension("").file_size(10),
    ] {
        assert_eq!(bad.build().unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    let mut sink = options().file_size(10).build().unwrap();
    let error = sink.start(&header(), STREAM_END).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("traces"), "{error}");
    assert_eq!(sink.start(&header(), STREAM_END).unwrap_err().kind(), ErrorKind::NotFound);
}
