//! `nettrace recover`, and `info` of a recorder file: processes that die in the middle, one that
//! lives, and files that are damaged.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests need real threads")]

mod damage;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Barrier,
    thread,
    time::Duration,
};

use nettrace_reader::{ReadEvent, Reader, verify};
use nettrace_writer::{
    Emit, Label, Session, SessionBuilder, TraceEvent, enter_labels,
    sink::{FileSink, RotationOptions, StreamSink},
    tail::Tail,
};
use serde_json::Value;
use testkit::process;

use crate::{
    escapes::assert_printable,
    program::{nettrace, stderr, stdout, strict_json},
};

const WORKERS: u64 = 3;
const BEFORE: u64 = 400;
const AFTER: u64 = 250;

#[derive(Debug, PartialEq, TraceEvent, ReadEvent)]
#[trace_event(provider = "Recover-Steps")]
struct Step {
    worker: u64,
    number: u64,
    text: String,
}

/// A type that no trace file describes yet when the process dies.
#[derive(Debug, PartialEq, TraceEvent, ReadEvent)]
#[trace_event(provider = "Recover-Steps")]
struct Late {
    worker: u64,
}

fn builder() -> SessionBuilder {
    let builder = Session::builder().provider("Recover-Steps").budget(4 << 20);
    // What is not flushed on command stays in memory.
    builder.flush_interval(Duration::from_secs(3600))
}

/// What the rerun of this program does: it records into the folder that it is told, and dies.
#[test]
fn child() {
    let Some(argument) = process::is_rerun() else { return };
    let (sink, folder) = argument.split_once(' ').unwrap();
    let folder = Path::new(folder);
    let trace = folder.join("steps.nettrace");
    if sink == "exec" {
        become_recover(folder);
    }
    let builder = match sink {
        "file" => builder().sink(FileSink::new(trace)),
        "rotated" => {
            let options = RotationOptions::new(folder, "steps").file_size(20 << 10);
            builder().sink(options.build().unwrap())
        }
        "tail" | "held" => {
            let options = RotationOptions::new(folder, "steps").file_size(20 << 10);
            let window = if sink == "tail" { Duration::ZERO } else { Duration::from_secs(3600) };
            builder().sink(Tail::new(options.build().unwrap()).window(window))
        }
        _ => {
            fs::create_dir(folder.join("taken")).unwrap();
            let taken = File::create(folder.join("taken/steps.nettrace")).unwrap();
            builder().sink(StreamSink::new(taken))
        }
    };
    let session = builder.persistent(folder.join("steps.recorder")).start().unwrap();
    let steps = |worker, from: u64, to: u64| {
        let name = format!("w{worker}");
        let _labels = enter_labels(&[Label::Str("of", &name)]).unwrap();
        for number in from..=to {
            Step { worker, number, text: "some text".repeat(1 + number as usize % 3) }.emit();
        }
    };
    let (steps, barrier) = (&steps, &Barrier::new(WORKERS as usize + 1));
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let work = move || {
                for part in 0..4 {
                    steps(worker, part * BEFORE / 4 + 1, (part + 1) * BEFORE / 4);
                    barrier.wait();
                    barrier.wait();
                }
                steps(worker, BEFORE + 1, BEFORE + AFTER);
                Late { worker }.emit();
                barrier.wait();
                barrier.wait();
            };
            let named = thread::Builder::new().name(format!("worker {worker}"));
            named.spawn_scoped(scope, work).unwrap();
        }
        for _ in 0..4 {
            barrier.wait();
            session.flush().unwrap();
            barrier.wait();
        }
        // A thread that begins and ends after the last flush.
        scope.spawn(|| steps(WORKERS, 1, BEFORE + AFTER)).join().unwrap();
        barrier.wait();
        std::process::abort();
    });
}

/// A folder in which a process has died.
struct Died {
    folder: tempfile::TempDir,
    recorder: PathBuf,
    traces: Vec<PathBuf>,
}

impl Died {
    fn with(sink: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let argument = format!("{sink} {}", folder.path().to_str().unwrap());
        let output = process::rerun("recover::child", &argument);
        assert_eq!(output.status.code(), None, "it dies by a signal: {}", stderr(&output));
        let recorder = folder.path().join("steps.recorder");
        let entries = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let is_trace = |path: &PathBuf| path.extension().is_some_and(|it| it == "nettrace");
        let mut traces: Vec<_> = entries.filter(is_trace).collect();
        traces.sort();
        Self { folder, recorder, traces }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `recover` with more arguments. Returns what it says as well.
    fn recover(&self, out: &str, more: &[&str]) -> (Output, PathBuf) {
        let out = self.path(out);
        let args = ["recover", text(&self.recorder), "-o", text(&out)];
        (nettrace(&[&args, more].concat(), b""), out)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The value of a key in the summary.
fn summed(output: &Output, key: &str) -> u64 {
    let line = stderr(output).lines().find(|line| line.starts_with("# files=")).unwrap();
    let mut words = line.split(' ').filter_map(|word| word.split_once('='));
    words.find(|(other, _)| *other == key).unwrap().1.parse().unwrap()
}

/// Checks that a trace has every event of the process once, in the order of each thread.
fn has_all(trace: &[u8]) {
    let report = verify(trace).unwrap();
    assert!(report.is_sound(), "{:?}", report.violations);
    assert_eq!(report.lost, 0, "{report:?}");
    let mut reader = Reader::new(trace).unwrap().sorted();
    let (mut steps, mut late) = (BTreeMap::<u64, Vec<u64>>::new(), Vec::new());
    while let Some(event) = reader.next_event().unwrap() {
        if let Some(step) = Step::read(&event) {
            let step = step.unwrap();
            assert_eq!(step.text, "some text".repeat(1 + step.number as usize % 3));
            let labels = format!("{:?}", event.labels());
            assert!(labels.contains(&format!("w{}", step.worker)), "{labels}");
            if step.worker < WORKERS {
                let name = format!("worker {}", step.worker);
                assert_eq!(event.thread().name, Some(name));
            }
            steps.entry(step.worker).or_default().push(step.number);
        } else {
            late.push(Late::read(&event).unwrap().unwrap().worker);
        }
    }
    let numbers: Vec<_> = (1..=BEFORE + AFTER).collect();
    assert_eq!(steps, (0..=WORKERS).map(|worker| (worker, numbers.clone())).collect());
    late.sort_unstable();
    assert_eq!(late, (0..WORKERS).collect::<Vec<_>>());
}

/// How many events the process had recorded after the last flush.
const UNWRITTEN: u64 = WORKERS * (AFTER + 1) + BEFORE + AFTER;

#[test]
fn a_process_that_dies_leaves_every_event() {
    for sink in ["file", "rotated", "tail"] {
        let died = Died::with(sink);
        assert!(sink == "file" || died.traces.len() > 2, "{:?}", died.traces);
        let before: Vec<_> = died.traces.iter().map(|path| fs::read(path).unwrap()).collect();
        let recorder = fs::read(&died.recorder).unwrap();

        let (output, out) = died.recover("all", &[]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        has_all(&fs::read(&out).unwrap());
        assert_eq!(summed(&output, "files"), died.traces.len() as u64);
        assert_eq!((summed(&output, "recovered"), summed(&output, "lost")), (UNWRITTEN, 0));
        assert_eq!(summed(&output, "bytes"), fs::metadata(&out).unwrap().len());

        // It has what the session's files have, so these are not read beside it.
        let folder = text(died.folder.path());
        let merged_out = died.path("merged");
        let merged = nettrace(&["merge", folder, "-o", text(&merged_out)], b"");
        assert_eq!(merged.status.code(), Some(0), "{}", stderr(&merged));
        has_all(&fs::read(&merged_out).unwrap());
        fs::remove_file(&merged_out).unwrap();

        let piped = nettrace(&["recover", text(&died.recorder), "-o", "-"], b"");
        assert_eq!(piped.stdout, fs::read(&out).unwrap());

        // The rest is read together with the others, which it does not change.
        let (output, rest) = died.recover("rest.nettrace", &["--rest"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!((summed(&output, "events"), summed(&output, "lost")), (UNWRITTEN, 0));
        assert!(verify(&*fs::read(&rest).unwrap()).unwrap().is_sound());
        // The result that is there has nothing that these have not.
        let merged = nettrace(&["merge", folder, "--force", "-o", text(&out)], b"");
        assert_eq!(merged.status.code(), Some(0), "{}", stderr(&merged));
        has_all(&fs::read(&out).unwrap());
        // What was recovered before is no file of the session.
        let (output, out) = died.recover("again", &[]);
        assert_eq!(summed(&output, "files"), died.traces.len() as u64);
        has_all(&fs::read(&out).unwrap());

        let after: Vec<_> = died.traces.iter().map(|path| fs::read(path).unwrap()).collect();
        assert!(before == after && recorder == fs::read(&died.recorder).unwrap());
    }
}

#[test]
fn what_a_tail_decision_held_back_counts_as_lost() {
    let died = Died::with("held");
    let (output, out) = died.recover("all", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("tail decision held back"), "{}", stderr(&output));
    let counts = ["files", "recovered", "lost"].map(|key| summed(&output, key));
    assert_eq!(counts, [1, UNWRITTEN, WORKERS * BEFORE]);
    let report = verify(&*fs::read(&out).unwrap()).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!((report.events, report.lost), (UNWRITTEN, WORKERS * BEFORE));
}

#[test]
fn a_sink_that_is_no_file_can_have_the_last_events_too() {
    let died = Died::with("stream");
    let (output, out) = died.recover("rest", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("wrote no file"), "{}", stderr(&output));
    let report = verify(&*fs::read(&out).unwrap()).unwrap();
    assert_eq!((report.events, report.lost, report.is_sound()), (UNWRITTEN, 0, true));
    // What the sink has written is of the same recording, if somebody has it. It lacks its end.
    let (output, out) = died.recover("all", &["--traces", text(&died.path("taken"))]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    has_all(&fs::read(&out).unwrap());
}

#[test]
fn info_shows_what_is_in_the_file() {
    let died = Died::with("file");
    let output = nettrace(&["info", text(&died.recorder)], b"");
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let said = stdout(&output);
    assert!(said.contains("which has ended"), "{said}");
    assert!(said.contains(&format!("to recover       {UNWRITTEN} events")), "{said}");
    assert!(said.contains("\"worker 1\""), "{said}");

    let output = nettrace(&["info", "--json", text(&died.recorder)], b"");
    let info = strict_json(stdout(&output).trim_end());
    let of_worker = BEFORE + AFTER + 1;
    assert_eq!(info["attempted"], WORKERS * of_worker + BEFORE + AFTER);
    assert_eq!((&info["process_runs"], &info["streams"]), (&Value::Bool(false), &Value::from(1)));
    assert_eq!(info["trace_file"], text(&died.traces[0]));
    assert_eq!(info["recoverable"]["events"], UNWRITTEN);
    let threads = info["threads"].as_array().unwrap();
    let worker = threads.iter().find(|thread| thread["name"] == "worker 2").unwrap();
    assert_eq!(worker["attempted"], of_worker);

    for command in ["dump", "verify", "tree", "headers"] {
        let output = nettrace(&[command, text(&died.recorder)], b"");
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("a recorder file"), "{}", stderr(&output));
        assert!(stderr(&output).contains("`nettrace recover`"), "{}", stderr(&output));
    }
}

/// The bytes of a file can come from somebody else.
#[test]
fn names_cannot_steer_a_terminal() {
    let died = Died::with("file");
    let mut bytes = fs::read(&died.recorder).unwrap();
    let (mut replaced, path) = (0, text(&died.traces[0]).as_bytes());
    for name in [&b"worker 1"[..], path] {
        let evil: Vec<u8> = b"\x1b[2J\x07\n/e".iter().copied().cycle().take(name.len()).collect();
        let mut at = 0;
        while let Some(found) = bytes[at..].windows(name.len()).position(|it| it == name) {
            at += found;
            bytes[at..at + name.len()].copy_from_slice(&evil);
            replaced += 1;
        }
    }
    assert!(replaced >= 2, "{replaced}");
    fs::write(&died.recorder, bytes).unwrap();
    let elsewhere = died.path("elsewhere");
    fs::rename(&died.traces[0], elsewhere).unwrap();
    for args in [&["info"][..], &["info", "--json"], &["dump"]] {
        let output = nettrace(&[args, &[text(&died.recorder)]].concat(), b"");
        assert_printable(&output, "", &format!("{args:?}"));
    }
    let (output, _) = died.recover("out", &["--rest"]);
    assert_printable(&output, "", "recover");
}

#[test]
fn a_process_that_lives_is_left_alone() {
    let _alone = process::one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let (recorder, out) = (folder.path().join("own.recorder"), folder.path().join("out"));
    let trace = folder.path().join("own.nettrace");
    let session = builder().sink(FileSink::new(trace)).persistent(&recorder).start().unwrap();
    Late { worker: 0 }.emit();
    // A copy has no lock.
    let copy = folder.path().join("copy");
    fs::copy(&recorder, &copy).unwrap();
    for recorder in [&recorder, &copy] {
        let output = nettrace(&["recover", text(recorder), "-o", text(&out)], b"");
        assert_eq!(output.status.code(), Some(2));
        let said = format!("process {} still runs", std::process::id());
        assert!(stderr(&output).contains(&said), "{}", stderr(&output));
        let output = nettrace(&["info", text(recorder)], b"");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains("which runs"), "{}", stdout(&output));
        assert!(!stdout(&output).contains("to recover"), "{}", stdout(&output));
    }
    // Nobody replaces it.
    let old = folder.path().join("old.nettrace");
    fs::write(&old, nettrace_reader::example()).unwrap();
    let args = ["convert", text(&old), text(&recorder), "--to", "v6", "--force"];
    let output = nettrace(&args, b"");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("a process is writing it"), "{}", stderr(&output));
    let error = builder().file(&recorder).overwrite(true).start().unwrap_err();
    assert!(error.to_string().contains("another session of this process is writing it"), "{error}");
    let output = nettrace(&["info", text(&recorder)], b"");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // The file of the process before has another name by now.
    let previous = folder.path().join("own.recorder.previous");
    fs::copy(&recorder, &previous).unwrap();
    let output = nettrace(&["recover", text(&recorder), "-o", text(&out)], b"");
    assert!(stderr(&output).contains(text(&previous)), "{}", stderr(&output));
    session.finish().unwrap();
    assert!(!recorder.exists() && !out.exists());
}

/// This process becomes the command, which recovers what it has recorded.
fn become_recover(folder: &Path) {
    use std::os::unix::process::CommandExt as _;

    let (recorder, trace) = (folder.join("steps.recorder"), folder.join("steps.nettrace"));
    let session = builder().sink(FileSink::new(trace)).persistent(&recorder).start().unwrap();
    Late { worker: 0 }.emit();
    session.flush().unwrap();
    Late { worker: 1 }.emit();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nettrace"));
    command.arg("recover").arg(recorder).arg("-o").arg(folder.join("out"));
    panic!("{}", command.exec());
}

#[test]
fn a_process_that_is_another_program_by_now_has_left_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let output = process::rerun("recover::child", &format!("exec {}", text(folder.path())));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = verify(&*fs::read(folder.path().join("out")).unwrap()).unwrap();
    assert_eq!((report.events, report.lost, report.is_sound()), (2, 0, true));
}

#[test]
fn trace_files_can_be_elsewhere() {
    let died = Died::with("rotated");
    let elsewhere = died.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for path in &died.traces {
        fs::rename(path, elsewhere.join(path.file_name().unwrap())).unwrap();
    }
    let (output, out) = died.recover("rest", &[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("no trace file of this recording is in"));
    let report = verify(&*fs::read(&out).unwrap()).unwrap();
    assert_eq!((report.events, report.is_sound()), (UNWRITTEN, true));

    let (output, out) = died.recover("all", &["--traces", text(&elsewhere)]);
    assert_eq!((output.status.code(), summed(&output, "lost")), (Some(0), 0));
    has_all(&fs::read(&out).unwrap());

    // Beside the recorder file they are found by themselves.
    let recorder = elsewhere.join("steps.recorder");
    fs::rename(&died.recorder, &recorder).unwrap();
    let output = nettrace(&["recover", text(&recorder), "-o", text(&died.path("beside"))], b"");
    assert_eq!((output.status.code(), summed(&output, "lost")), (Some(0), 0));
    has_all(&fs::read(died.path("beside")).unwrap());

    let (output, _) = died.recover("none", &["--traces", text(&died.path("nowhere"))]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_trace_file_that_is_damaged_is_used_up_to_there() {
    let died = Died::with("file");
    let whole = fs::read(&died.traces[0]).unwrap();
    let all = WORKERS * (BEFORE + AFTER + 1) + BEFORE + AFTER;
    let middle = whole.len() / 2;
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xFF;
        bytes
    };
    let block = {
        let (mut at, mut middle) = (20, 20);
        while at < whole.len() / 2 {
            middle = at;
            let size = u32::from_le_bytes([whole[at], whole[at + 1], whole[at + 2], 0]);
            at += 4 + size as usize;
        }
        middle
    };
    // Cut, the size of a block, the size of its header.
    for damaged in [whole[..middle].to_vec(), flipped(block + 1), flipped(block + 5)] {
        fs::write(&died.traces[0], damaged).unwrap();
        let (output, out) = died.recover("all", &["--force"]);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains(text(&died.traces[0])), "{}", stderr(&output));
        let report = verify(&*fs::read(&out).unwrap()).unwrap();
        assert!(report.is_sound(), "{:?}", report.violations);
        assert!(report.events >= UNWRITTEN, "{}", report.events);
        assert_eq!(report.events + report.lost, all);
        let (output, out) = died.recover("rest", &["--force", "--rest"]);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(verify(&*fs::read(&out).unwrap()).unwrap().is_sound());
    }
}

#[test]
fn what_exists_is_kept() {
    let died = Died::with("file");
    fs::write(died.path("out"), b"precious").unwrap();
    let (output, out) = died.recover("out", &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--force replaces it"), "{}", stderr(&output));
    assert_eq!(fs::read(&out).unwrap(), b"precious");
    let (output, out) = died.recover("out", &["--force"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    has_all(&fs::read(&out).unwrap());

    let (output, _) = died.recover("steps.recorder", &["--force"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("it is the recorder file"), "{}", stderr(&output));
    let (output, _) = died.recover("steps.nettrace", &["--force", "--rest"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("it is a trace file"), "{}", stderr(&output));
    // The whole trace can replace the part.
    let (output, out) = died.recover("steps.nettrace", &["--force"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    has_all(&fs::read(&out).unwrap());

    for (path, code, said) in [
        (text(&died.traces[0]), 2, "this is a trace, which every command reads"),
        (text(died.folder.path()), 2, "cannot open"),
        ("/dev/null", 2, "a recorder file is an ordinary file"),
        ("/nowhere", 2, "cannot open"),
        (file!(), 1, "this is no recorder file"),
    ] {
        let path =
            if path == file!() { concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml") } else { path };
        let output = nettrace(&["recover", path, "-o", text(&died.path("new"))], b"");
        assert_eq!(output.status.code(), Some(code), "{path}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{path}: {}", stderr(&output));
    }
    assert!(!died.path("new").exists());
}
