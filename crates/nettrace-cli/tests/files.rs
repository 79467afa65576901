//! Several files as one trace: a service that rotates its files, read beside one that does not.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests need real threads")]

#[path = "files_support/costs.rs"]
mod costs;
#[path = "files_support/dumps.rs"]
mod dumps;
mod program;
#[path = "files_support/whole.rs"]
mod whole;

use std::{
    collections::BTreeSet,
    fs,
    future::Future,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    pin::Pin,
    process::Output,
    sync::{Mutex, mpsc},
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use nettrace_event::trace_context::TraceContext;
use nettrace_reader::WallTime;
use nettrace_writer::{Emit, Session, TraceEvent, sink::FileSink, sink::RotationOptions, traced};
use program::{nettrace, stderr, stdout, strict_json};
use serde_json::Value;
use testkit::{
    process,
    reference::{Trace, ask, judged_of_many},
    streams::{samples, v5_samples},
};

#[derive(TraceEvent)]
#[trace_event(provider = "Files-Shop")]
struct Sold {
    request: u64,
    text: &'static str,
}

/// A request: it begins on one thread and ends on another.
#[traced(provider = "Files-Shop", fields = [id])]
async fn request(id: u64) {
    look_up(id);
    Handover(false).await;
    pay(id);
}

#[traced(provider = "Files-Shop", fields = [id])]
fn look_up(id: u64) {
    Sold { request: id, text: "some text that fills the files" }.emit();
}

#[traced(provider = "Files-Shop", mode = single, fields = [id])]
fn pay(id: u64) -> u64 {
    id
}

/// Is ready when it is polled again.
struct Handover(bool);

impl Future for Handover {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match std::mem::replace(&mut self.0, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

type Begun = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Answers requests on four threads, each of which is ended by another one.
fn serve(requests: u64) {
    let (begun, to_end) = mpsc::sync_channel::<Begun>(64);
    let to_end = Mutex::new(to_end);
    thread::scope(|scope| {
        for first in 0..2 {
            let begun = begun.clone();
            scope.spawn(move || {
                for id in (first..requests).step_by(2) {
                    let mut request: Begun = Box::pin(request(id));
                    let poll = request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    assert!(poll.is_pending());
                    begun.send(request).unwrap();
                }
            });
        }
        drop(begun);
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = to_end.lock().unwrap().recv();
                    let Ok(mut request) = next else { break };
                    let poll = request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    assert!(poll.is_ready());
                }
            });
        }
    });
}

/// What a service has written: a folder of rotated files, and one file with the same events.
struct Written {
    _directory: tempfile::TempDir,
    folder: PathBuf,
    one: PathBuf,
    files: Vec<PathBuf>,
}

fn write(requests: u64, file_size: u64) -> Written {
    // Otherwise sessions record what other tests do.
    let _alone = process::one_at_a_time();
    let directory = tempfile::tempdir().unwrap();
    let (folder, one) = (directory.path().join("traces"), directory.path().join("one.nettrace"));
    fs::create_dir(&folder).unwrap();
    let files = RotationOptions::new(&folder, "shop").file_size(file_size).build().unwrap();
    let session = || {
        let builder = Session::builder().provider("Files-Shop").budget(64 << 20);
        builder.flush_interval(Duration::from_millis(20))
    };
    let rotated = session().sink(files).start().unwrap();
    let whole = session().sink(FileSink::new(&one)).start().unwrap();
    serve(requests);
    let lost = [rotated, whole].map(|session| {
        let stats = session.finish().unwrap();
        stats.dropped()
    });
    assert_eq!(lost, [0, 0], "there was room");
    let mut files: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    Written { _directory: directory, folder, one, files }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a command that must succeed.
#[track_caller]
fn run(args: &[&str]) -> Output {
    let output = nettrace(args, b"");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{args:?}: {}{}",
        stderr(&output),
        stdout(&output).lines().next().unwrap_or_default()
    );
    output
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    strict_json(stdout(&run(args)).trim_end())
}

#[test]
fn rotated_files_are_one_trace() {
    const REQUESTS: u64 = 14_000;
    let Written { folder, one, files, .. } = &write(REQUESTS, 1 << 20);
    assert!(files.len() > 3, "{files:?}");
    let (folder, one) = (text(folder), text(one));

    // A pattern that no shell has replaced.
    let pattern = format!("{folder}/*.nettrace");
    let count = |files: &str| json(&["info", "--json", files])["events"].clone();
    assert_eq!(count(&pattern), count(folder));
    let output = nettrace(&["info", &format!("{folder}/*.other")], &[]);
    let said = stderr(&output);
    assert!(!output.status.success() && said.contains("nothing matches it"), "{said}");

    let (ours, whole) = (json(&["info", "--json", folder]), json(&["info", "--json", one]));
    for key in [
        "events",
        "lost",
        "step_backs",
        "payload_bytes",
        "spans",
        "spans_without_end",
        "spans_without_start",
        "uncounted_spans",
        "types",
        "damage",
        "undefined_stacks",
    ] {
        assert_eq!(ours[key], whole[key], "{key}");
    }
    assert_eq!((&ours["spans"], &ours["lost"]), (&Value::from(3 * REQUESTS), &Value::from(0)));
    assert_eq!([&ours["spans_without_end"], &ours["spans_without_start"]], [0, 0]);
    let threads = |info: &Value| {
        let threads = info["threads"].as_array().unwrap().iter();
        let mut all: Vec<_> = threads
            .map(|it| (it["id"].as_u64(), it["events"].as_u64(), it["lost"].as_u64()))
            .collect();
        all.sort();
        all
    };
    assert_eq!(threads(&ours), threads(&whole));

    // The program's own account: a tree for each request.
    let output = run(&["tree", "--json", folder]);
    let mut seen = vec![false; REQUESTS as usize];
    for tree in stdout(&output).lines().map(strict_json) {
        let spans = tree["spans"].as_array().unwrap();
        let names: Vec<_> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
        let states: Vec<_> = spans.iter().map(|span| span["state"].as_str().unwrap()).collect();
        assert_eq!(names, ["request", "look_up", "pay"], "{tree}");
        assert_eq!(states, ["ended", "ended", "single"], "{tree}");
        assert_eq!(spans[1]["events"].as_array().unwrap().len(), 1, "{tree}");
        let id = spans[0]["start"]["fields"]["id"].as_u64().unwrap();
        assert!(!std::mem::replace(&mut seen[id as usize], true), "{id} twice");
    }
    assert!(seen.iter().all(|it| *it));
    assert!(
        stderr(&output).contains(" without_end=0 without_start=0 unknown=0 "),
        "{}",
        stderr(&output)
    );
}

/// The numbers of a summary line.
fn number(output: &Output, name: &str) -> u64 {
    let line = stderr(output).lines().rev().find(|line| line.starts_with("# "));
    let line = line.unwrap_or_else(|| panic!("no summary: {}", stderr(output)));
    let value = line.split(' ').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("no {name}: {line}")).parse().unwrap()
}

#[test]
fn merged_files_are_one_file() {
    const REQUESTS: u64 = 1_500;
    let Written { folder, files, .. } = &write(REQUESTS, 100 << 10);
    let merged = folder.with_file_name("merged.nettrace");
    let (folder, merged) = (text(folder), text(&merged));
    let output = run(&["merge", folder, "-o", merged]);
    assert_eq!(number(&output, "files"), files.len() as u64);
    assert_eq!(number(&output, "recordings"), 1);
    assert_eq!(number(&output, "events"), 6 * REQUESTS);
    assert_eq!(number(&output, "lost"), 0);
    run(&["verify", "--strict", merged]);
    if let Some(verdict) = ask(&["summary"], Trace::File(Path::new(merged))) {
        verdict.assert_holds(6 * REQUESTS, 0);
    }
    // Every other command sees the same in the one file as in the folder.
    for args in [
        &["dump"][..],
        &["dump", "--json"],
        &["headers"],
        &["tree"],
        &["tree", "--json", "--slow", "20"],
        &["convert", "--to", "chrome"],
        &["convert", "--to", "folded", "--by", "spans"],
        &["convert", "--to", "csv"],
        &["convert", "--to", "jsonl"],
    ] {
        let of = |what| {
            let out = if args[0] == "convert" { &["-"][..] } else { &[] };
            // Threads have other indices, and the trace has other key-values.
            let output = run(&[args, &[what], out].concat());
            let text = String::from_utf8_lossy(&output.stdout);
            let lines = text
                .lines()
                .filter(|line| {
                    let keys = ["nettrace.recording", "nettrace.merged", "nettrace.contains"];
                    !keys.iter().any(|key| line.contains(key))
                })
                .map(|line| match line.split_once("thread_index") {
                    Some((before, after)) => {
                        format!("{before}{}\n", &after[after.find(",").unwrap()..])
                    }
                    None => format!("{line}\n"),
                });
            lines.collect::<String>()
        };
        let (ours, theirs) = (of(folder), of(merged));
        let differs = ours.lines().zip(theirs.lines()).find(|(a, b)| a != b);
        assert!(ours == theirs, "{args:?}: {differs:#?}");
    }
    for to in ["v6", "v5", "heph", "parquet"] {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join(to);
        let output = run(&["convert", folder, text(&out), "--to", to]);
        assert_eq!(number(&output, "events"), 6 * REQUESTS, "{to}");
    }
}

/// Requests of the client of [`one_request_of_three`].
const CALLS: u64 = 150;

#[traced(provider = "Files-Client", fields = [id])]
fn call(id: u64, next: &mut Next) {
    next.ask(id);
}

#[traced(provider = "Files-Gate", fields = [id])]
fn pass_on(id: u64, next: &mut Next) {
    next.ask(id);
}

#[traced(provider = "Files-Back", fields = [id])]
fn answer(id: u64) {
    Sold { request: id, text: "in the back" }.emit();
}

/// The connection to the service behind.
struct Next(BufReader<TcpStream>);

impl Next {
    fn connect(folder: &Path, role: &str) -> Self {
        let port = loop {
            match fs::read_to_string(folder.join(role)).map(|text| text.trim_end().parse::<u16>()) {
                Ok(Ok(port)) => break port,
                _ => thread::sleep(Duration::from_millis(5)),
            }
        };
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    fn ask(&mut self, id: u64) {
        let context = nettrace_writer::Context::current().trace_context().unwrap();
        let line = format!("{} {id}\n", context.to_traceparent());
        self.0.get_mut().write_all(line.as_bytes()).unwrap();
        self.0.read_line(&mut String::new()).unwrap();
    }
}

/// Answers the requests of one connection, each within the span of its caller.
fn listen(folder: &Path, role: &str, mut handle: impl FnMut(u64)) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    fs::write(folder.join(role), format!("{}\n", listener.local_addr().unwrap().port())).unwrap();
    let stream = listener.accept().unwrap().0;
    stream.set_nodelay(true).unwrap();
    let mut connection = BufReader::new(stream);
    let mut line = String::new();
    while connection.read_line(&mut line).unwrap() > 0 {
        let (caller, id) = line.trim_end().split_once(' ').unwrap();
        let caller = TraceContext::from_traceparent(caller).unwrap();
        let scope = nettrace_writer::Context::from(caller).enter();
        handle(id.parse().unwrap());
        drop(scope);
        connection.get_mut().write_all(b"ok\n").unwrap();
        line.clear();
    }
}

/// What the processes of [`one_request_of_three`] run.
#[test]
fn one_of_three() {
    let Some(argument) = process::is_rerun() else { return };
    let (role, folder) = argument.split_once(' ').unwrap();
    let folder = Path::new(folder);
    let file = folder.join("traces").join(format!("{role}.nettrace"));
    let session = Session::builder().provider("Files-*").file(file).start().unwrap();
    match role {
        "back" => listen(folder, role, answer),
        "gate" => {
            let mut next = Next::connect(folder, "back");
            listen(folder, role, |id| pass_on(id, &mut next));
        }
        _ => {
            let mut next = Next::connect(folder, "gate");
            (0..CALLS).for_each(|id| call(id, &mut next));
        }
    }
    session.finish().unwrap();
}

/// Sets the clock of a trace ahead.
fn set_ahead(trace: &Path, millis: i64) {
    let mut bytes = fs::read(trace).unwrap();
    // Behind the header of the stream and that of the block are eight words.
    let words = &mut bytes[24..40];
    let word = |at: usize| i16::from_le_bytes([words[2 * at], words[2 * at + 1]]);
    let time = WallTime {
        year: word(0),
        month: word(1),
        day_of_week: word(2),
        day: word(3),
        hour: word(4),
        minute: word(5),
        second: word(6),
        millisecond: word(7),
    };
    let units = time.to_file_time().unwrap().checked_add_signed(millis * 10_000).unwrap();
    let time = WallTime::from_file_time(units).unwrap();
    let parts = [time.year, time.month, time.day_of_week, time.day];
    let parts = parts.into_iter().chain([time.hour, time.minute, time.second, time.millisecond]);
    words.chunks_exact_mut(2).zip(parts).for_each(|(word, part)| {
        word.copy_from_slice(&part.to_le_bytes());
    });
    fs::write(trace, bytes).unwrap();
}

#[test]
fn one_request_of_three() {
    let directory = tempfile::tempdir().unwrap();
    let traces = directory.path().join("traces");
    fs::create_dir(&traces).unwrap();
    thread::scope(|scope| {
        for role in ["back", "gate", "client"] {
            let argument = format!("{role} {}", directory.path().display());
            scope.spawn(move || {
                let output = process::rerun("one_of_three", &argument);
                assert!(output.status.success(), "{role}: {}", stderr(&output));
            });
        }
    });
    set_ahead(&traces.join("gate.nettrace"), 50);
    set_ahead(&traces.join("back.nettrace"), -50);
    let folder = text(&traces);

    // One tree for each request, whatever the clocks say.
    let trees = |args: &[&str]| {
        let output = run(&[&["tree", "--json", folder], args].concat());
        let trees: Vec<_> = stdout(&output).lines().map(strict_json).collect();
        assert_eq!(trees.len() as u64, CALLS, "{args:?}");
        for tree in &trees {
            let spans = tree["spans"].as_array().unwrap();
            let place =
                |span: &Value| (span["name"].as_str().unwrap().to_owned(), span["depth"].as_u64());
            let places: Vec<_> = spans.iter().map(place).collect();
            let expected = [("call", 0), ("pass_on", 1), ("answer", 2)];
            assert_eq!(places, expected.map(|(name, depth)| (name.to_owned(), Some(depth))));
        }
        (trees, stderr(&output).to_owned())
    };
    let outside = |tree: &Value, at: usize, side: &str| tree["spans"][at][side].as_i64();
    let (skewed, said) = trees(&[]);
    // The gate's clock is 50 ms ahead of the client's, and the back's 100 ms behind the gate's. A
    // request that the scheduler holds up can hide that.
    let count = |at, side, least| {
        let tells = |tree: &&Value| outside(tree, at, side).is_some_and(|nanos| nanos > least);
        skewed.iter().filter(tells).count() as u64
    };
    assert!(count(1, "after_parent_ns", 10_000_000) > CALLS / 2, "{said}");
    assert!(count(2, "before_parent_ns", 10_000_000) > CALLS / 2, "{said}");
    assert!(said.contains(" spans begin before their parent of another process"), "{said}");
    assert!(said.contains("--align-clocks"), "{said}");

    let (aligned, said) = trees(&["--align-clocks"]);
    for tree in &aligned {
        for (at, side) in [1, 2].into_iter().zip(["before_parent_ns", "after_parent_ns"]) {
            assert_eq!(outside(tree, at, side), None, "{tree}");
        }
    }
    assert_eq!(said.matches("clock of ").count(), 2, "{said}");

    // The one file has the same trees, and three processes.
    let merged = directory.path().join("merged.nettrace");
    let merged = text(&merged);
    let output = run(&["merge", folder, "--align-clocks", "-o", merged]);
    assert_eq!((number(&output, "files"), number(&output, "recordings")), (3, 3));
    run(&["verify", "--strict", merged]);
    if let Some(verdict) = ask(&["summary"], Trace::File(Path::new(merged))) {
        verdict.assert_holds(7 * CALLS, 0);
    }
    let of_one = stdout(&run(&["tree", "--json", merged])).to_owned();
    let of_all = stdout(&run(&["tree", "--json", "--align-clocks", folder])).to_owned();
    let without_index = |text: &str| {
        let mut parts = text.split("\"thread_index\":").map(str::to_owned).collect::<Vec<_>>();
        parts.iter_mut().skip(1).for_each(|part| _ = part.drain(..part.find(',').unwrap()));
        parts.concat()
    };
    assert_eq!(without_index(&of_one), without_index(&of_all));
    let info = json(&["info", "--json", merged]);
    let processes: BTreeSet<_> =
        info["threads"].as_array().unwrap().iter().map(|it| it["process"].as_u64()).collect();
    assert_eq!(processes.len(), 3, "{processes:?}");
}

#[test]
fn a_missing_file_is_told() {
    const REQUESTS: u64 = 1_500;
    let Written { folder, files, .. } = &write(REQUESTS, 100 << 10);
    assert!(files.len() > 5, "{files:?}");
    fs::remove_file(&files[2]).unwrap();
    let folder_text = text(folder);
    let said = format!("1 file is missing between {} and {}", text(&files[1]), text(&files[3]));

    let output = run(&["tree", "--json", "--slow", "3", folder_text]);
    assert!(stderr(&output).contains(&said), "{}", stderr(&output));
    let [cut, without_end, without_start] =
        ["cut_trees", "without_end", "without_start"].map(|name| number(&output, name));
    assert!(without_end + without_start > 0, "{}", stderr(&output));
    // Those that are cut come behind the slowest ones.
    let durations: Vec<_> = stdout(&output)
        .lines()
        .map(|tree| strict_json(tree)["spans"][0]["duration_ns"].as_u64())
        .collect();
    assert_eq!(durations.len() as u64, 3 + cut.min(3));
    assert!(durations[..3].iter().all(Option::is_some), "{durations:?}");
    assert!(durations[3..].iter().all(Option::is_none), "{durations:?}");
    for args in [&["info", folder_text][..], &["dump", folder_text], &["verify", folder_text]] {
        let output = run(args);
        assert!(stderr(&output).contains(&said), "{args:?}: {}", stderr(&output));
    }
    // The page has it among its data, which are JSON.
    for args in [&["report", folder_text, "--text"][..], &["report", folder_text, "-o", "-"]] {
        let output = run(args);
        assert!(stdout(&output).contains(&said), "{args:?}");
    }
    let (count, last) = (files.len() - 1, files.len());
    let info = stdout(&run(&["info", folder_text])).to_owned();
    let numbers = format!(": 1 to 2, 4 to {last}; those in between are missing\n");
    assert!(info.contains(&format!("{count} of the recording ")) && info.contains(&numbers));
    assert!(!info.contains("nettrace.file"), "{info}");
    let recordings = &json(&["info", "--json", folder_text])["recordings"];
    assert_eq!(recordings[0]["numbers"], serde_json::json!([[1, 2], [4, last]]));
    assert_eq!((recordings.as_array().unwrap().len(), &recordings[0]["files"]), (1, &count.into()));
    // The files in any order, some twice, and a copy.
    let copy = folder.with_file_name("copy.nettrace");
    fs::copy(&files[4], &copy).unwrap();
    let names: Vec<_> =
        files.iter().filter(|file| file.exists()).rev().map(|it| text(it)).collect();
    let listed = run(&[&["info", "--json"], &names[..], &names[..2], &[text(&copy)]].concat());
    assert!(stderr(&listed).contains(" is a copy of "), "{}", stderr(&listed));
    assert_eq!(stdout(&listed), stdout(&run(&["info", "--json", folder_text])));

    let merged = folder.with_file_name("merged.nettrace");
    let merged = text(&merged);
    let output = run(&["merge", folder_text, "-o", merged]);
    assert!(stderr(&output).contains(&said), "{}", stderr(&output));
    let info = json(&["info", "--json", merged]);
    let missing = info["key_values"]["nettrace.missing"].as_str().unwrap();
    assert!(missing.starts_with(&said), "{missing}");
}

#[test]
fn what_is_damaged_is_named() {
    let Written { folder, one, files, .. } = &write(1_500, 100 << 10);
    let (folder, one, broken) = (text(folder), text(one), &files[2]);
    let whole = fs::read(broken).unwrap();
    // A copy that is not complete. Everything else is read.
    fs::write(broken, &whole[..whole.len() / 2]).unwrap();
    let events = |info: &Output| strict_json(stdout(info).trim_end())["events"].as_u64().unwrap();
    let all = events(&run(&["info", "--json", one]));
    let output = nettrace(&["info", "--json", folder], b"");
    assert_eq!(output.status.code(), Some(1));
    let said = format!("{}: the file ends early", text(broken));
    assert!(stderr(&output).contains(&said), "{}", stderr(&output));
    assert!((all / 2..all).contains(&events(&output)), "{} of {all}", events(&output));
    let output = nettrace(&["report", folder, "--text"], b"");
    assert!(stdout(&output).contains(&said), "{}", stdout(&output));
    let output = nettrace(&["verify", folder], b"");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("1 of "), "{}", stderr(&output));
    // A block that is damaged.
    let mut bytes = whole.clone();
    let at = bytes.len() / 2;
    bytes[at..at + 2000].fill(0xFF);
    fs::write(broken, &bytes).unwrap();
    let output = nettrace(&["info", "--json", folder], b"");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(text(broken)), "{}", stderr(&output));
    // Something else.
    fs::write(broken, b"PK\x03\x04 and so on").unwrap();
    run(&["info", folder]);
    let output = nettrace(&["info", text(broken), one], b"");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("a ZIP archive"), "{}", stderr(&output));
}

/// A folder can stand for the other trace of a flame graph, and the result can have any name.
#[cfg(unix)]
#[test]
fn a_folder_to_compare_with_and_a_name_that_is_no_text() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, process::Command};

    let Written { folder, one, .. } = &write(300, 20 << 10);
    let out = one.with_file_name(OsStr::from_bytes(b"of\xff.svg"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_nettrace"));
    command.arg("convert").args([one, &out]).args(["--by", "spans", "--diff", text(folder)]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(fs::read(&out).unwrap().starts_with(b"<?xml"));
    let csv = one.with_file_name(OsStr::from_bytes(b"of\xff.csv"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_nettrace"));
    let output = command.arg("convert").args([one, &csv]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

/// What cannot be read does not stop the commands on its folder, and is named.
#[test]
fn a_folder_with_files_that_cannot_be_read() {
    let Written { folder, .. } = &write(300, 20 << 10);
    let at = text(folder);
    let whole = run(&["dump", at]);
    let events = number(&run(&["merge", at, "-o", "-"]), "events");
    // A trace whose header was never written.
    let begun = folder.join("begun.nettrace");
    fs::write(&begun, "Nettrace").unwrap();
    let cut = nettrace(&["dump", at], b"");
    let said = stderr(&cut);
    assert_eq!((cut.status.code(), cut.stdout == whole.stdout), (Some(1), true), "{said}");
    assert!(said.contains("begun.nettrace: ") && said.contains("it is left out"), "{said}");
    assert!(said.contains("1 of the files could not be read"), "{said}");
    let merged = nettrace(&["merge", at, "-o", "-"], b"");
    assert_eq!((merged.status.code(), number(&merged, "events")), (Some(1), events));
    assert_eq!(nettrace(&["verify", at], b"").status.code(), Some(1));
    // Named itself, it is an error.
    let named = nettrace(&["dump", at, text(&begun)], b"");
    assert!(named.status.code() != Some(0) && named.stdout.is_empty(), "{}", stderr(&named));
    fs::remove_file(&begun).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let other = folder.join("other.txt");
        fs::write(&other, "Nettrace").unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o000)).unwrap();
        if fs::File::open(&other).is_ok() {
            println!("skipped: this user may read everything");
            return;
        }
        let output = run(&["dump", at]);
        assert!(output.stdout == whole.stdout && stderr(&output).contains("other.txt: "));
    }
}

/// Streams by hand: odd ids, losses, threads that come and go, stacks, labels, all versions.
#[test]
fn merged_streams_have_all_events_and_losses() {
    let directory = tempfile::tempdir().unwrap();
    let merged = directory.path().join("merged.nettrace");
    let all: Vec<_> = samples::all().into_iter().chain(v5_samples::all()).collect();
    let mut merges = 0;
    for pair in all.windows(2) {
        let paths = [0, 1].map(|at| directory.path().join(format!("{at}.nettrace")));
        let mut sums = (0, 0);
        let mut is_sound = true;
        for (path, (_, bytes)) in paths.iter().zip(pair) {
            fs::write(path, bytes).unwrap();
            let output = nettrace(&["info", "--json", text(path)], b"");
            is_sound &= output.status.success();
            if is_sound {
                let info = strict_json(stdout(&output).trim_end());
                is_sound &= info["step_backs"] == 0;
                sums.0 += info["events"].as_u64().unwrap();
                sums.1 += info["lost"].as_u64().unwrap();
            }
        }
        if !is_sound {
            continue;
        }
        let names = (pair[0].0, pair[1].0);
        let args = ["merge", text(&paths[0]), text(&paths[1]), "--force", "-o", text(&merged)];
        let output = nettrace(&args, b"");
        assert_eq!(output.status.code(), Some(0), "{names:?}: {}", stderr(&output));
        let found = (number(&output, "events"), number(&output, "lost"));
        assert_eq!(found, sums, "{names:?}");
        let info = json(&["info", "--json", text(&merged)]);
        let found = (info["events"].as_u64().unwrap(), info["lost"].as_u64().unwrap());
        assert_eq!(found, sums, "{names:?}");
        run(&["verify", text(&merged)]);
        if let Some(verdict) = judged_of_many(&fs::read(&merged).unwrap()) {
            // It counts in 32 bits.
            verdict.assert_holds(sums.0, sums.1 % (1 << 32));
        }
        merges += 1;
    }
    assert!(merges > 5, "{merges}");
}
