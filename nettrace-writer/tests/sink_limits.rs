//! The file sink on a full disk, at the file size limit, and after a kill.

#![cfg(unix)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests need real threads")]

mod sink_support;

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nettrace_writer::sink::{FileSink, Sink};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sink_support::{
    Blocks, STREAM_END, child, child_path, complete, header, judged, visible, write,
};
use testkit::small_disk::SmallDisk;

/// Fills a disk or a limit with batches. Checks what the error kept, and that the file goes on when
/// there is room again.
fn fill(path: &Path, kind: ErrorKind, make_room: impl FnOnce()) {
    let mut sink = FileSink::new(path);
    sink.start(&header(), STREAM_END).unwrap();
    let mut expected = header();
    let mut blocks = Blocks::new();
    let error = loop {
        let batch = blocks.batch(9, 90);
        match write(&mut sink, &batch) {
            Ok(()) => expected.extend(batch.concat()),
            Err(error) => {
                let bytes = batch.concat();
                assert!(error.kept < bytes.len() as u64);
                expected.extend(&bytes[..error.kept as usize]);
                break error;
            }
        }
        assert_eq!(complete(path), expected);
    };
    assert_eq!(error.source.kind(), kind, "{}", error.source);
    assert!(error.source.to_string().contains(path.to_str().unwrap()), "{}", error.source);
    assert_eq!(complete(path), expected, "`kept` is not what the file has");
    let large = blocks.batch(1, 4_000);
    let again = write(&mut sink, &large).unwrap_err();
    assert_eq!((again.kept, again.source.kind()), (0, kind));
    assert_eq!(complete(path), expected);
    make_room();
    write(&mut sink, &large).unwrap();
    expected.extend(large.concat());
    assert_eq!(complete(path), expected);
    sink.finish().unwrap();
    assert_eq!(complete(path), expected);
}

#[test]
fn a_full_disk_keeps_what_fits() {
    let Some(disk) = SmallDisk::mount(64) else { return };
    let path = disk.path().join("full.nettrace");
    fill(&path, ErrorKind::StorageFull, || {
        let length = fs::metadata(&path).unwrap().len();
        assert!(length > 60_000, "{length} of 65,536 bytes are used only");
        disk.resize(128);
    });
    judged(&path);
    let ballast = fs::write(disk.path().join("ballast"), [1; 128 << 10]);
    assert_eq!(ballast.unwrap_err().kind(), ErrorKind::StorageFull);
    // Not a byte is left: a second trace cannot begin, and leaves no name.
    let second = disk.path().join("second.nettrace");
    let error = FileSink::new(&second).start(&header(), STREAM_END).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert!(!second.exists());
}

#[test]
#[ignore = "run by `the_file_size_limit_is_an_error_and_no_signal` in a process of its own"]
fn limited() {
    let Some(path) = child_path() else { return };
    let limit = |current| {
        let maximum = getrlimit(Resource::Fsize).maximum;
        let limit = Rlimit { current: Some(current), maximum };
        setrlimit(Resource::Fsize, limit).unwrap();
    };
    limit(50_000);
    fill(&path, ErrorKind::FileTooLarge, || {
        let length = fs::metadata(&path).unwrap().len();
        assert!((49_000..=50_000).contains(&length), "{length} bytes");
        limit(100_000);
    });
}

/// Without a thread there is no session, and no file of it. An old one stays.
#[test]
#[cfg(target_os = "linux")]
fn without_a_thread_no_file_is_made() {
    if !testkit::process::alone("without_a_thread_no_file_is_made") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let [old, new] = ["old", "new"].map(|name| directory.path().join(name));
    fs::write(&old, "old").unwrap();
    let start = |path: &Path| {
        let sessions = nettrace_writer::Session::builder().file(path).overwrite(true);
        sessions.chunk_size(4 << 10).budget(256 << 10).start()
    };
    let before = getrlimit(Resource::As);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let kib: u64 = size.trim().trim_end_matches(" kB").parse().unwrap();
    // The stack of a thread takes more, and no thread has ended that would have left one.
    let room = (kib << 10) + (1 << 20);
    setrlimit(Resource::As, Rlimit { current: Some(room), maximum: before.maximum }).unwrap();
    let failed = [&old, &new].map(|path| start(path).unwrap_err());
    setrlimit(Resource::As, before).unwrap();
    for error in failed {
        assert!(matches!(error, nettrace_writer::Error::Thread(_)), "{error}");
    }
    assert_eq!(fs::read(&old).unwrap(), b"old");
    assert!(!new.exists());
}

#[test]
fn the_file_size_limit_is_an_error_and_no_signal() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.nettrace");
    let output = child("limited", &path).output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    // The exit status would show a signal.
    assert!(output.status.success(), "{:?}: {text}", output.status);
    assert!(text.contains("1 passed"), "{text}");
    judged(&path);
}

#[test]
#[ignore = "run by `a_killed_process_leaves_a_complete_file` in a process of its own"]
fn endless() {
    let Some(path) = child_path() else { return };
    let mut sink = FileSink::new(path);
    println!("\nstarting");
    sink.start(&header(), STREAM_END).unwrap();
    let mut blocks = Blocks::new();
    for round in 0.. {
        write(&mut sink, &blocks.batch(1 + round % 5, 1 + (round as u64 * 37) % 900)).unwrap();
    }
}

#[test]
fn a_killed_process_leaves_a_complete_file() {
    let directory = tempfile::tempdir().unwrap();
    let starting = |path: &Path| {
        let mut process = child("endless", path).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        while line != "starting\n" {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the child ended");
        }
        (process, output)
    };

    // How long the file takes to appear here. A busy machine or an emulator is slow.
    let path = directory.path().join("first.nettrace");
    let (mut process, _output) = starting(&path);
    let start = Instant::now();
    while !path.exists() && start.elapsed() < Duration::from_secs(240) {
        std::thread::sleep(Duration::from_micros(20));
    }
    let pace = start.elapsed().clamp(Duration::from_micros(1_300), Duration::from_millis(10));
    process.kill().unwrap();
    process.wait().unwrap();
    fs::remove_file(&path).unwrap();

    let mut grown = 0;
    for round in 0..60_u32 {
        let path = directory.path().join(format!("{round}.nettrace"));
        let (mut process, mut output) = starting(&path);
        // The first processes are killed about when the file appears, the others when it has a
        // batch or two.
        let patience = Instant::now() + Duration::from_secs(240);
        let is_due = || match round {
            0..20 => true,
            20..40 => path.exists(),
            _ => fs::metadata(&path).is_ok_and(|file| file.len() > (header().len() + 4) as u64),
        };
        while !is_due() && Instant::now() < patience {
            std::thread::sleep(Duration::from_micros(20));
        }
        std::thread::sleep(pace * (round % 20).pow(2) / 100);
        process.kill().unwrap();
        process.wait().unwrap();
        let _ = output.read_to_end(&mut Vec::new());
        let Ok(content) = fs::read(&path) else {
            assert!(round < 20, "no file after {round}");
            continue;
        };
        grown += usize::from(visible(&content).len() > header().len());
        if round % 6 == 0 {
            judged(&path);
        }
        fs::remove_file(&path).unwrap();
    }
    assert!(grown >= 20, "only {grown} files had a batch");
    let left: Vec<PathBuf> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}
