//! The remains if the disk is full, the reader goes away, or the reader is slow: a trace that
//! opens, exact counts, and an error that says what happened.
#![cfg(unix)]

mod support;

use std::{
    fs,
    io::{Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use crate::support::{
    DIRSCAN, Ran, STREAM, STRESS, assert_holds, directory, judged_from, number, ran, read, run,
};

const FORMATS: [&str; 4] = ["v6", "v5", "v4", "heph"];

/// A file system of `bytes` bytes in memory. It is unmounted on drop.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    /// Returns `None` and prints a line if mounting is not allowed.
    fn mount(bytes: u32) -> Option<Self> {
        let directory = directory();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
            .arg(directory.path())
            .output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(directory));
        }
        println!("skipped: may not mount a tmpfs here");
        None
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_ends_the_trace_at_a_whole_block() {
    let Some(disk) = Tmpfs::mount(1 << 20) else { return };
    let trace = disk.0.path().join("stress.nettrace");
    for format in FORMATS {
        // Several times what the disk holds, however slow the machine is.
        let much = ["--at-least", "300000", "--seconds", "0.1"];
        let args = [&much, &["--threads", "3", "--format", format][..]].concat();
        let ran = run(STRESS, &args, &trace).balanced();
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.contains("No space left"), "{}", ran.stderr);
        assert!(ran.number("written") > 0, "{format}");
        assert!(ran.number("lost_in_sink") > 0, "{format}");
        assert_written(&trace, &ran);
        fs::remove_file(&trace).unwrap();
    }
}

#[test]
fn a_full_disk_keeps_no_program_from_its_work() {
    let Some(disk) = Tmpfs::mount(64 << 10) else { return };
    let files = directory();
    for number in 0..1_000 {
        fs::write(files.path().join(format!("{number:0100}")), b"content").unwrap();
    }
    let trace = disk.0.path().join("dirscan.nettrace");
    let ran = run(DIRSCAN, &[files.path().to_str().unwrap()], &trace).balanced();
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("No space left"), "{}", ran.stderr);
    assert_eq!((ran.number("files"), ran.number("directories")), (1_000, 1), "all was scanned");
    assert_written(&trace, &ran);
}

#[test]
fn a_file_size_limit_is_met_without_a_signal() {
    let directory = directory();
    let trace = directory.path().join("limited.nettrace");
    // `ulimit` counts in units of 512 bytes.
    let script = "ulimit -f 600; \
        exec \"$0\" --seconds 0.1 --at-least 100000 --format \"$1\" --out \"$2\"";
    for format in FORMATS {
        let mut command = Command::new("sh");
        command.args(["-c", script, STRESS, format]).arg(&trace);
        let ran = ran(command.output().unwrap()).balanced();
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains("too large"), "{}", ran.stderr);
        assert!(fs::metadata(&trace).unwrap().len() <= 600 * 512);
        assert_written(&trace, &ran);
        fs::remove_file(&trace).unwrap();
    }
}

/// Asserts that the trace opens, and has exactly the events that the program counted as written.
fn assert_written(trace: &Path, ran: &Ran) {
    // Events that are lost after the last whole block leave no gap that a reader could see.
    let lost = read(trace).lost;
    assert!(lost <= ran.number("dropped"), "{lost} {}", ran.numbers);
    assert_holds(trace, ran.number("written"), lost);
}

#[test]
fn a_pipe_takes_the_whole_trace() {
    let mut piped = stream(&["--seconds", "0.3"]);
    let report = nettrace_reader::verify(piped.stdout.take().unwrap()).unwrap();
    assert!(report.is_sound(), "{:#?}", report.violations);
    assert_streamed(piped, report.events, report.lost);

    if testkit::reference::judge().is_none() {
        return;
    }
    let mut piped = stream(&["--seconds", "0.3"]);
    let verdict = judged_from("events", piped.stdout.take().unwrap().into()).unwrap();
    assert_streamed(piped, verdict.events, verdict.lost);
}

/// Asserts that the program succeeded, and that the reader found what was written.
fn assert_streamed(stream: Child, events: u64, lost: u64) {
    let ran = streamed(stream);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(events > 0);
    assert_eq!((events, lost), (ran.number("written"), 0), "{}", ran.numbers);
}

#[test]
fn a_reader_that_goes_away_is_an_error_and_the_end() {
    // Far longer than the test lasts. The program must notice that the reader is gone.
    let mut stream = stream(&["--seconds", "60", "--rate", "50000"]);
    let mut first = [0; 1_000];
    stream.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert!(first.starts_with(b"Nettrace"));
    let ran = streamed(stream);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("Broken pipe"), "{}", ran.stderr);
    assert!(ran.number("lost_in_sink") > 0);
}

#[test]
fn a_slow_reader_costs_events_that_are_counted() {
    // More than the budget and what the reader takes meanwhile, however the two are scheduled.
    let much = ["--seconds", "0.3", "--at-least", "200000", "--rate", "0"];
    let mut stream = stream(&[&much, &["--budget", "1048576"][..]].concat());
    let mut pipe = stream.stdout.take().unwrap();
    let directory = directory();
    let trace = directory.path().join("slow.nettrace");
    let mut file = fs::File::create(&trace).unwrap();
    let mut buffer = vec![0; 16 << 10];
    loop {
        let count = pipe.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        file.write_all(&buffer[..count]).unwrap();
        thread::sleep(Duration::from_millis(5));
    }
    let ran = streamed(stream);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.number("dropped") > 0, "{}", ran.numbers);
    assert_eq!(ran.number("lost_in_sink"), 0);
    assert_holds(&trace, ran.number("written"), ran.number("dropped"));
}

/// Starts the program with pipes for its trace and its numbers.
fn stream(args: &[&str]) -> Child {
    let mut command = Command::new(STREAM);
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for the program. Its numbers are the last line on standard error.
fn streamed(stream: Child) -> Ran {
    let mut ran = ran(stream.wait_with_output().unwrap());
    let line = ran.stderr.lines().last().unwrap_or_default();
    ran.numbers = serde_json::from_str(line).unwrap_or_else(|_| panic!("{}", ran.stderr));
    let attempted = number(&ran.numbers, "attempted");
    assert_eq!(attempted, ran.number("written") + ran.number("dropped"), "{}", ran.numbers);
    ran
}
