//! The file sink on real files: names, permissions, and the content while the file grows.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests need real threads")]

mod sink_support;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use nettrace_writer::sink::{FileOptions, FileSink, Sink};
use sink_support::{Blocks, END, STREAM_END, complete, header, judged, threads, visible, write};

fn started(path: &Path) -> FileSink {
    let mut sink = FileSink::new(path);
    sink.start(&header(), STREAM_END).unwrap();
    sink
}

#[test]
fn is_complete_after_every_batch() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.nettrace");
    let mut sink = FileSink::new(&path);
    assert!(!path.exists(), "nothing is opened before the start");
    sink.start(&header(), STREAM_END).unwrap();
    let mut expected = header();
    assert_eq!(complete(&path), expected);
    let mut blocks = Blocks::new();
    for round in 0..40 {
        let batch = blocks.batch(round % 7, 1 + 50 * round as u64);
        write(&mut sink, &batch).unwrap();
        expected.extend(batch.concat());
        assert_eq!(complete(&path), expected);
    }
    judged(&path);
    sink.finish().unwrap();
    assert_eq!(complete(&path), expected);
    judged(&path);
    let error = write(&mut sink, &blocks.batch(1, 1)).unwrap_err();
    assert_eq!((error.kept, error.source.kind()), (0, ErrorKind::InvalidInput));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "a hidden file is left");
}

#[test]
fn an_existing_file_stays_unless_overwriting_is_allowed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.nettrace");
    fs::write(&path, "precious").unwrap();
    let error = FileSink::new(&path).start(&header(), STREAM_END).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("trace.nettrace"), "{error}");
    assert!(error.to_string().contains("overwrite(true)"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"precious");

    let mut sink = FileOptions::new(&path).overwrite(true).build();
    sink.start(&header(), STREAM_END).unwrap();
    let batch = Blocks::new().batch(3, 10);
    write(&mut sink, &batch).unwrap();
    assert_eq!(complete(&path), [header(), batch.concat()].concat());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "a hidden file is left");
}

#[test]
fn the_file_of_the_run_before_is_kept_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.nettrace");
    let previous = directory.path().join("trace.previous.nettrace");
    let keeping = |path: &Path| FileOptions::new(path).keep_previous().build();
    let batches: Vec<_> = (1..4).map(|number| Blocks::new().batch(number, 10)).collect();
    for (run, batch) in batches.iter().enumerate() {
        let mut sink = keeping(&path);
        sink.start(&header(), STREAM_END).unwrap();
        assert_eq!(complete(&path), header(), "each run begins a file of its own");
        write(&mut sink, batch).unwrap();
        // Nobody takes the file that is being written.
        let busy = keeping(&path).start(&header(), STREAM_END).unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::ResourceBusy, "{busy}");
        if let Some(before) = run.checked_sub(1) {
            assert_eq!(complete(&previous), [header(), batches[before].concat()].concat());
        }
        sink.finish().unwrap();
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    // Whoever writes the other name keeps it, too.
    let mut other = FileOptions::new(&previous).overwrite(true).build();
    other.start(&header(), STREAM_END).unwrap();
    let busy = keeping(&path).start(&header(), STREAM_END).unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::ResourceBusy, "{busy}");
    assert_eq!(complete(&path), [header(), batches[2].concat()].concat());
}

#[test]
fn paths_without_a_place_for_a_file_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let start = |path: &Path| {
        let overwriting =
            FileOptions::new(path).overwrite(true).build().start(&header(), STREAM_END);
        let plain = FileSink::new(path).start(&header(), STREAM_END);
        (overwriting.unwrap_err().kind(), plain.unwrap_err().kind())
    };
    let folder = directory.path().join("folder");
    fs::create_dir(&folder).unwrap();
    assert_eq!(start(&folder), (ErrorKind::IsADirectory, ErrorKind::IsADirectory));
    let nowhere = directory.path().join("absent").join("trace");
    assert_eq!(start(&nowhere), (ErrorKind::NotFound, ErrorKind::NotFound));
    assert_eq!(start(Path::new("..")), (ErrorKind::InvalidInput, ErrorKind::InvalidInput));
    assert_eq!(start(Path::new("")), (ErrorKind::InvalidInput, ErrorKind::InvalidInput));
    let slash = directory.path().join("absent").join("");
    assert_eq!(start(&slash), (ErrorKind::InvalidInput, ErrorKind::InvalidInput));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no file was created");
}

#[test]
fn a_batch_of_many_mebibytes_in_hundreds_of_pieces() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.nettrace");
    let mut sink = started(&path);
    let batch = Blocks::new().batch(700, 5_000);
    let expected = [header(), batch.concat()].concat();
    assert!(expected.len() > 10 << 20);
    write(&mut sink, &batch).unwrap();
    assert!(complete(&path) == expected);
}

/// A kill in the middle of the switch can leave this, if the switched bytes lie on two pages.
#[test]
fn a_switch_that_is_half_done_is_still_an_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.nettrace");
    let before = Blocks::new().batch(1, 3).concat();
    let block = threads(100, 30_000);
    assert!(block[..3].iter().all(|byte| *byte != 0), "each byte of the length shows");
    for half in 0..=4 {
        let switched = [&block[..half], &END[half..], &block[4..], END].concat();
        let content = [header(), before.clone(), switched].concat();
        let expected =
            if half == 4 { content.len() - END.len() } else { header().len() + before.len() };
        assert_eq!(visible(&content).len(), expected);
        fs::write(&path, content).unwrap();
        judged(&path);
    }
}

#[cfg(unix)]
mod unix {
    use std::io::Read;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::process::Command;
    use std::thread;
    use std::time::Duration;

    use rustix::fs::{Mode, OFlags};

    use super::*;

    #[test]
    fn mode_and_descriptor() {
        let directory = tempfile::tempdir().unwrap();
        for overwrite in [false, true] {
            let path = directory.path().join("trace.nettrace");
            let mut sink = FileOptions::new(&path).overwrite(overwrite).build();
            sink.start(&header(), STREAM_END).unwrap();
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o600);
            // A program that is executed now must not have a descriptor of the file. The search is
            // by inode number, because the system does not tell the name of a file that began
            // without one.
            if Path::new("/proc/self/fd").exists() {
                let inode = fs::metadata(&path).unwrap().ino().to_string();
                let listing = Command::new("ls").args(["-Li", "/proc/self/fd"]).output().unwrap();
                let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
                let inodes = listing.lines().filter_map(|line| line.split_whitespace().next());
                let inodes: Vec<&str> = inodes.collect();
                assert!(inodes.len() >= 3, "{listing}");
                assert!(!inodes.contains(&inode.as_str()), "{inode} in {listing}");
            }
            sink.finish().unwrap();
        }
    }

    #[test]
    fn links_are_refused_and_their_targets_untouched() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        let link = directory.path().join("link");
        symlink(&target, &link).unwrap();
        for exists in [false, true] {
            if exists {
                fs::write(&target, "precious").unwrap();
            }
            for overwrite in [false, true] {
                let mut sink = FileOptions::new(&link).overwrite(overwrite).build();
                let error = sink.start(&header(), STREAM_END).unwrap_err();
                assert!(error.to_string().contains("symbolic link"), "{error}");
                assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
                assert_eq!(fs::read(&target).ok(), exists.then(|| b"precious".to_vec()));
            }
        }
        let device = directory.path().join("device");
        symlink("/dev/null", &device).unwrap();
        FileSink::new(&device).start(&header(), STREAM_END).unwrap_err();
    }

    #[test]
    fn overwriting_leaves_other_names_of_the_old_file_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace.nettrace");
        let other = directory.path().join("other");
        fs::write(&path, "precious").unwrap();
        fs::hard_link(&path, &other).unwrap();
        FileOptions::new(&path).overwrite(true).build().start(&header(), STREAM_END).unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"precious");
        assert_eq!(complete(&path), header());
    }

    #[test]
    fn a_device_is_a_stream() {
        let mut sink = started(Path::new("/dev/null"));
        for _ in 0..3 {
            write(&mut sink, &Blocks::new().batch(3, 1_000)).unwrap();
        }
        sink.finish().unwrap();
        assert_eq!(fs::metadata("/dev/null").unwrap().rdev(), 0x103, "still the device");
        if Path::new("/dev/full").exists() {
            let error = FileSink::new("/dev/full").start(&header(), STREAM_END).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StorageFull);
        }
    }

    #[test]
    fn a_named_pipe_gets_the_bytes_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());

        let patience = Duration::from_millis(30);
        let mut lonely = FileOptions::new(&path).reader_timeout(patience).build();
        let error = lonely.start(&header(), STREAM_END).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);

        let reading = path.clone();
        let reader = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50)); // the sink is waiting by now
            let mut pipe = fs::File::open(reading).unwrap();
            let mut seen = Vec::new();
            let mut buffer = [0; 10_007];
            loop {
                match pipe.read(&mut buffer).unwrap() {
                    0 => return seen,
                    count => seen.extend_from_slice(&buffer[..count]),
                }
                thread::sleep(Duration::from_micros(200)); // slower than the writer
            }
        });
        let mut sink = started(&path);
        let mut expected = header();
        let mut blocks = Blocks::new();
        for _ in 0..4 {
            let batch = blocks.batch(20, 4_000);
            write(&mut sink, &batch).unwrap();
            expected.extend(batch.concat());
        }
        sink.finish().unwrap();
        drop(sink);
        expected.extend(END);
        assert!(reader.join().unwrap() == expected);
    }

    #[test]
    fn a_named_pipe_whose_reader_leaves() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let reading = path.clone();
        let reader = thread::spawn(move || {
            let mut buffer = vec![0; header().len()];
            fs::File::open(reading).unwrap().read_exact(&mut buffer).unwrap();
        });
        let mut sink = started(&path);
        reader.join().unwrap();
        // A child that another test has just forked may still hold the reading end. While anybody
        // does, the pipe can be opened for writing without waiting.
        let nonblocking = OFlags::WRONLY | OFlags::NONBLOCK;
        while rustix::fs::open(&path, nonblocking, Mode::empty()).is_ok() {
            thread::sleep(Duration::from_millis(1));
        }
        let error = write(&mut sink, &Blocks::new().batch(5, 100)).unwrap_err();
        assert_eq!((error.kept, error.source.kind()), (0, ErrorKind::BrokenPipe));
        assert!(error.source.to_string().contains("pipe"), "{}", error.source);
        let again = write(&mut sink, &Blocks::new().batch(5, 100)).unwrap_err();
        assert_eq!((again.kept, again.source.kind()), (0, ErrorKind::BrokenPipe));
        assert_eq!(sink.finish().unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    /// In a folder for all, anybody can make a pipe where the name of a trace leads.
    #[test]
    fn a_pipe_of_another_user_gets_nothing() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can make a pipe of another user");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o666.into()).unwrap();
        let (user, group) = (rustix::fs::Uid::from_raw(65_534), rustix::fs::Gid::from_raw(65_534));
        rustix::fs::chown(&path, Some(user), Some(group)).unwrap();
        let _reader = fs::File::options().read(true).write(true).open(&path).unwrap();
        let mut sink = FileSink::new(&path);
        let error = sink.start(&header(), STREAM_END).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("of another user"), "{error}");
    }

    #[test]
    fn a_socket_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let error = FileSink::new(&path).start(&header(), STREAM_END).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
