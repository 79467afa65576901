//! Runs the commands that read whole traces with filters: what passes, with all of its trace.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use serde_json::Value;
use tempfile::{TempDir, tempdir};
use testkit::reference::{dotnet_traces, judged};

use crate::{
    program::{nettrace, stderr, stdout, strict_json},
    spans::{self, Event, PAY_START, PAY_STOP, Place, SOLD, START, event, onto, place, stop},
};

/// A file in a folder of its own.
struct TraceFile {
    folder: TempDir,
    path: PathBuf,
}

impl TraceFile {
    fn new(bytes: &[u8]) -> Self {
        let folder = tempdir().unwrap();
        let path = folder.path().join("shop.nettrace");
        fs::write(&path, bytes).unwrap();
        Self { folder, path }
    }

    /// Runs a command on the file, with these arguments behind its name.
    fn run(&self, command: &str, args: &[&str]) -> Output {
        nettrace(&[&[command, self.path.to_str().unwrap()], args].concat(), b"")
    }

    /// The events that pass, as one file.
    #[track_caller]
    fn merged(&self, filter: &[&str]) -> (Vec<u8>, String) {
        let out = self.folder.path().join("out.nettrace");
        let output =
            self.run("merge", &[&["-o", out.to_str().unwrap(), "--force"], filter].concat());
        assert_eq!(output.status.code(), Some(0), "{filter:?}: {}", stderr(&output));
        (fs::read(out).unwrap(), stderr(&output).to_owned())
    }
}

fn lines(command: &[&str], trace: &[u8]) -> Vec<Value> {
    let output = nettrace(command, trace);
    assert_eq!(output.status.code(), Some(0), "{command:?}: {}", stderr(&output));
    stdout(&output).lines().map(strict_json).collect()
}

fn info(trace: &[u8]) -> Value {
    lines(&["info", "--json", "-"], trace).remove(0)
}

/// Requests, each with a query that ends after it, and two events that belong to none. The thread
/// has lost five events at the end.
fn requests() -> Vec<u8> {
    let mut events = Vec::new();
    for (trace, at, length) in [(1, 100, 900), (2, 150, 50), (3, 300, 40)] {
        let root = place(trace, u64::from(trace) * 10, 0);
        let query = place(trace, u64::from(trace) * 10 + 1, root.span);
        events.extend([
            event(at, START, root),
            event(at + 1, PAY_START, query),
            event(at + 2, SOLD, query),
            stop(at + length, root, length, if trace == 3 { "err" } else { "ok" }),
            event(at + length + 1, PAY_STOP, query),
        ]);
    }
    events.extend([160, 400].map(|at| Event { place: None, ..event(at, SOLD, place(0, 0, 0)) }));
    let mut bytes = spans::stream(events);
    bytes.sequence_point(3000, 0, &[(5, 22)]);
    bytes.end()
}

/// The trace of each tree, its spans, and the events inside.
fn trees(trace: &[u8]) -> Vec<Value> {
    let mut all = lines(&["tree", "--json", "-"], trace);
    all.sort_by_key(|tree| tree["spans"][0]["span"].to_string());
    all.iter_mut().for_each(without_index);
    all
}

/// Threads have other indexes in an excerpt.
fn without_index(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("thread_index");
            members.values_mut().for_each(without_index);
        }
        Value::Array(values) => values.iter_mut().for_each(without_index),
        _ => {}
    }
}

/// Where two values differ first.
fn difference(path: &str, one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            a.iter().find_map(|(key, value)| difference(&format!("{path}.{key}"), value, &b[key]))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).find_map(|(a, b)| difference(&format!("{path}[]"), a, b))
        }
        _ => (one != other).then(|| format!("{path}: {one} is not {other}")),
    }
}

#[track_caller]
fn assert_equal(found: &[Value], expected: &[Value], what: &str) {
    let both = [found, expected].map(|it| Value::Array(it.to_vec()));
    if let Some(difference) = difference("", &both[0], &both[1]) {
        panic!("{difference:.400}\n{what}");
    }
}

#[test]
fn what_passes_keeps_all_of_its_trace() {
    let file = TraceFile::new(&requests());
    let whole = trees(&fs::read(&file.path).unwrap());
    assert_eq!(whole.len(), 3);
    for (filter, wanted, loose) in [
        (&["--where", "duration>500us"][..], &[0][..], 0),
        (&["--where", "outcome=err"], &[2], 0),
        (&["--where", "outcome=ok", "--where", "duration<100us"], &[1], 0),
        (&["--where", "span=pay", "--from", "0.00015", "--to", "0.00021"], &[1], 0),
        (&["--event", "Sold"], &[0, 1, 2], 2),
        (&["--event", "Sold", "--from", "0.00035"], &[], 1),
        (&["--grep", "err"], &[2], 0),
        (&["--provider", "none"], &[], 0),
    ] {
        let (bytes, said) = file.merged(filter);
        let expected: Vec<_> = wanted.iter().map(|at| whole[*at].clone()).collect();
        assert_equal(&trees(&bytes), &expected, &format!("{filter:?}: {said}"));
        let found = info(&bytes);
        let count = wanted.len() as u64 * 5 + loose;
        assert_eq!((&found["events"], &found["lost"]), (&count.into(), &5.into()), "{filter:?}");
        match count {
            0 => assert!(said.contains("no event was shown: of 17 events, none is of"), "{said}"),
            count => {
                let words = format!("with all of its trace: {count} of 17 events");
                assert!(said.contains(&words), "{said}");
            }
        }
        let verified = nettrace(&["verify", "-"], &bytes);
        assert_eq!(verified.status.code(), Some(0), "{}", stdout(&verified));
        if let Some(verdict) = judged(&bytes) {
            verdict.assert_holds(count, 5);
        }
    }
}

/// A filter leaves out nothing that the reference reader could take for lost, in any format.
#[test]
fn what_is_left_out_is_not_lost() {
    let mut events: Vec<_> = (1..=40)
        .flat_map(|at| {
            let root = place(1 + at as u8 % 9, at, 0);
            [event(at * 20, START, root), stop(at * 20 + at, root, at, "ok")]
        })
        .collect();
    events.push(Event { place: None, ..event(5000, SOLD, place(0, 0, 0)) });
    let file = TraceFile::new(&spans::stream(events).end());
    for to in ["v6", "v5", "v4"] {
        let out = file.folder.path().join("out");
        let out = out.to_str().unwrap();
        let output =
            file.run("convert", &[out, "--to", to, "--force", "--where", "duration>=36us"]);
        assert_eq!(output.status.code(), Some(0), "{to}: {}", stderr(&output));
        // The longest five spans are of five traces, which have all of their spans.
        let bytes = fs::read(out).unwrap();
        let found = info(&bytes);
        assert_eq!((&found["events"], &found["lost"]), (&48.into(), &0.into()), "{to}");
        assert!(stderr(&output).contains("# events=48 lost=0 "), "{}", stderr(&output));
        if let Some(verdict) = judged(&bytes) {
            verdict.assert_holds(48, 0);
        }
    }
}

/// Events that were lost stay lost, at their places: neither more nor fewer.
#[test]
fn what_was_lost_stays_lost() {
    for path in dotnet_traces() {
        let lost = |bytes: &[u8]| info(bytes)["lost"].clone();
        let whole = fs::read(&path).unwrap();
        let file = TraceFile::new(&whole);
        let (bytes, said) = file.merged(&["--provider", "Microsoft-Windows-DotNETRuntime*"]);
        assert_eq!(lost(&bytes), lost(&whole), "{}: {said}", path.display());
        let shown = |bytes: &[u8]| {
            let args = ["dump", "-", "--provider", "Microsoft-Windows-DotNETRuntime*"];
            // Events at one time can change places.
            let mut lines: Vec<_> =
                stdout(&nettrace(&args, bytes)).lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert!(shown(&bytes) == shown(&whole), "{}", path.display());
        if let Some(verdict) = judged(&bytes) {
            let [events, lost] = ["events", "lost"].map(|key| info(&bytes)[key].as_u64().unwrap());
            verdict.assert_holds(events, lost);
        }
    }
}

/// Versions 4 and 5 have no trace ids: what a span is of is told by the spans around it.
#[test]
fn traces_without_ids_of_traces_are_kept_whole() {
    let file = TraceFile::new(&requests());
    for to in ["v5", "v4"] {
        let out = file.folder.path().join("older.nettrace");
        let out = out.to_str().unwrap();
        file.run("convert", &[out, "--to", to, "--force"]);
        let older = TraceFile::new(&fs::read(out).unwrap());
        let whole = trees(&fs::read(out).unwrap());
        let (bytes, said) = older.merged(&["--where", "duration>500us"]);
        assert_equal(&trees(&bytes), &whole[..1], &said);
        let (bytes, said) = older.merged(&["--where", "outcome=err", "--where", "duration=40us"]);
        assert_equal(&trees(&bytes), &whole[2..], &said);
        let (bytes, _) = older.merged(&["--event", "Sold", "--to", "0.0002"]);
        assert_eq!(info(&bytes)["events"], 11, "{to}: two traces, and an event of none");
    }
}

/// Whatever `tree` finds, the other commands have its trace.
#[test]
fn all_commands_find_the_same() {
    let mut inner: Vec<Event> = Vec::new();
    for at in 1..200_u64 {
        let (trace, length) = (1 + (at % 90) as u8, 1 + at * 7 % 50);
        let here = Place { has_region: at % 11 == 0, ..place(trace, at, at / 3) };
        inner.push(event(at * 10, START, here));
        if at % 13 != 0 {
            let outcome = ["ok", "err", "cancelled"][at as usize % 3];
            inner.push(stop(at * 10 + length, here, length, outcome));
        }
        if at % 5 == 0 {
            inner.push(event(at * 10 + 1, SOLD, here));
        }
    }
    let bytes = onto(testkit::streams::Stream::new(), inner).end();
    let file = TraceFile::new(&bytes);
    for filter in [
        &["--where", "duration>45us"][..],
        &["--where", "duration>1ms"],
        &["--where", "outcome=err", "--where", "duration<5us"],
        &["--where", "outcome!=ok", "--where", "region=north"],
        &["--where", "region=north", "--event", "Sold"],
        &["--where", "cart=7", "--where", "span=checkout", "--to", "0.0011"],
        &["--grep", "cancelled"],
        &["--thread", "#5", "--level", "info", "--from", "0.0015"],
    ] {
        let all = lines(&[&["tree", "--json", "-"], filter].concat(), &bytes);
        let ids = |trees: &[Value]| {
            trees.iter().map(|tree| tree["trace"].to_string()).collect::<BTreeSet<_>>()
        };
        let found = ids(&all);
        assert!(!found.is_empty(), "{filter:?}");
        let (merged, _) = file.merged(filter);
        assert_eq!(ids(&trees(&merged)), found, "{filter:?}");
        // What is written with `--to` in the place of `--until` is a target.
        let filter: Vec<_> =
            filter.iter().map(|arg| if *arg == "--to" { "--until" } else { arg }).collect();
        let output = file.run("convert", &[&["-", "--to", "jsonl"], &*filter].concat());
        let written: BTreeSet<_> = stdout(&output)
            .lines()
            .map(|line| strict_json(line)["labels"]["TraceId"].to_string())
            .collect();
        assert_eq!(written, found, "{filter:?}: {}", stderr(&output));
    }
}

#[test]
fn reports_are_of_what_passes() {
    let file = TraceFile::new(&requests());
    let only = "only what passes --where duration>500us, with all of its trace: 5 of 17 events, 1 \
        trace";
    let text = file.run("report", &["--text", "--where", "duration>500us"]);
    assert!(stdout(&text).contains("5 events, 5 lost, 2 spans"), "{}", stdout(&text));
    assert!(stdout(&text).contains(only) && stderr(&text).contains(only), "{}", stdout(&text));
    let page = file.run("report", &["-o", "-", "--where", "duration>500us"]);
    assert!(stdout(&page).contains("only what passes"), "the page says so");
    // One that failed, and what is beside it.
    let failed = file.run("errors", &["--json", "--where", "duration<45us"]);
    let groups: Vec<_> = stdout(&failed).lines().map(strict_json).collect();
    assert_eq!((groups.len(), &groups[0]["count"]), (1, &1.into()), "{}", stdout(&failed));
    let none = file.run("errors", &["--json", "--where", "duration>45us"]);
    assert_eq!(stdout(&none), "", "{}", stderr(&none));
    let path = file.path.to_str().unwrap();
    let compared = file.run("diff", &[path, "--json", "--where", "duration>500us"]);
    let compared = strict_json(stdout(&compared).trim_end()).to_string();
    assert!(compared.contains("\"spans\":1") || compared.contains("\"count\":1"), "{compared}");
    // The level chooses among the groups; it leaves out no trace.
    let severe = file.run("errors", &["--level", "critical"]);
    assert!(
        stderr(&severe).contains("of 17 events, none has level Critical"),
        "{}",
        stderr(&severe)
    );
}

#[test]
fn an_excerpt_does_not_stand_for_its_trace() {
    let file = TraceFile::new(&requests());
    let out = file.folder.path().join("excerpt.nettrace");
    let output = file.run("convert", &[out.to_str().unwrap(), "--to", "v6", "--where", "cart=7"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let folder = file.folder.path().to_str().unwrap();
    let both = nettrace(&["info", "--json", folder], b"");
    assert_eq!(strict_json(stdout(&both).trim_end())["events"], 17);
    let said = "excerpt.nettrace is an excerpt of files that are read; it is left out";
    assert!(stderr(&both).contains(said), "{}", stderr(&both));
    fs::remove_file(&file.path).unwrap();
    let alone = nettrace(&["info", folder], b"");
    assert!(stdout(&alone).contains("nettrace.filter"), "{}", stdout(&alone));
    assert!(!stdout(&alone).contains("nettrace.excerpt"), "{}", stdout(&alone));
    // An excerpt of an excerpt has both filters.
    let again = nettrace(&["merge", folder, "-o", "-", "--where", "outcome=err"], b"");
    let dumped = info(&again.stdout);
    assert_eq!(dumped["events"], 5, "{}", stderr(&again));
    let filters = dumped["key_values"].to_string();
    assert!(filters.contains("cart=7") && filters.contains("outcome=err"), "{filters}");
}

#[test]
fn filters_of_whole_traces_need_a_file() {
    let trace = requests();
    for command in [
        &["report", "-", "--text"][..],
        &["errors", "-"],
        &["convert", "-", "-", "--to", "v6"],
        &["merge", "-", "-o", "-"],
        &["diff", "-", "-"],
    ] {
        let output = nettrace(&[command, &["--grep", "x"]].concat(), &trace);
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""), "{command:?}");
        assert!(stderr(&output).contains("filters need files here"), "{}", stderr(&output));
    }
    // And a condition must be one.
    let file = TraceFile::new(&trace);
    for command in ["report", "errors", "convert", "merge", "diff", "tree"] {
        let out = ["convert", "diff"].contains(&command).then_some("x");
        let args: Vec<_> = out.into_iter().chain(["--where", "duration>5 weeks"]).collect();
        let output = file.run(command, &args);
        assert_eq!(output.status.code(), Some(2), "{command}");
        let said = "character 12: `weeks` is no unit of time";
        assert!(stderr(&output).contains(said), "{command}: {}", stderr(&output));
    }
}

/// What can be read of a damaged trace is kept, and the damage is told.
#[test]
fn an_excerpt_of_a_damaged_trace_has_what_was_readable() {
    let many = (1..=2_000).flat_map(|at| {
        let here = place(1, at, 0);
        [event(at * 10, START, here), stop(at * 10 + 5, here, 5, "ok")]
    });
    let mut bytes = spans::stream(many.collect()).end();
    bytes.truncate(bytes.len() - 40);
    let file = TraceFile::new(&bytes);
    let plain = file.run("info", &["--json"]);
    let events = strict_json(stdout(&plain).trim_end())["events"].as_u64().unwrap();
    assert_eq!(events, 2_000, "one block of two");
    let output = file.run("merge", &["-o", "-", "--event", "*"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(info(&output.stdout)["events"], events, "{}", stderr(&output));
    let said = stderr(&output);
    assert_eq!(said.matches(": the stream ends in the middle of a block").count(), 1, "{said}");
    assert!(said.contains("could not be read to the end; what was readable was used"), "{said}");
}

/// Below a span that lasts as long as the program, each tree that has ended is kept or left out by
/// itself. Of the span itself there is its start, and what passes in it.
#[test]
fn a_span_that_never_ends_is_a_frame() {
    let router = place(1, 1, 0);
    let mut events = vec![event(0, START, router), event(5_000, SOLD, router)];
    for at in 1..=20 {
        let (request, query) = (place(1, 10 * at, 1), place(1, 10 * at + 1, 10 * at));
        let (from, length) = (at * 100, 10 + at);
        events.extend([
            event(from, START, request),
            event(from + 1, PAY_START, query),
            event(from + 2, SOLD, query),
            event(from + 3, PAY_STOP, query),
            stop(from + length, request, length, "ok"),
        ]);
    }
    let file = TraceFile::new(&spans::stream(events).end());
    for (filter, count) in [
        // The requests with 29 and 30 µs, and the start of the router.
        (&["--where", "duration>28us", "--where", "duration<1ms"][..], 11),
        (&["--where", "span=pay", "--to", "0.00015"], 1 + 5),
        (&["--event", "Sold", "--from", "0.005"], 2),
        (&["--event", "Sold", "--from", "0.002"], 2 + 5),
        (&["--where", "cart=7"], 1 + 20 * 5),
        (&["--where", "cart=8"], 0),
    ] {
        let (bytes, said) = file.merged(filter);
        assert_eq!(info(&bytes)["events"], count, "{filter:?}: {said}");
        assert_eq!(info(&bytes)["lost"], 0);
        if count > 0 {
            let found = trees(&bytes);
            assert!(found.iter().any(|tree| tree.to_string().contains("without_end")), "{said}");
        }
    }
}

/// The files of several traces are read as one, with a filter, too.
#[test]
fn several_traces_are_filtered_together() {
    let file = TraceFile::new(&requests());
    let other = file.folder.path().join("other.nettrace");
    let others = spans::samples();
    fs::write(&other, &others).unwrap();
    let folder: &Path = file.folder.path();
    let folder = folder.to_str().unwrap();
    let output = nettrace(&["merge", folder, "-o", "-", "--where", "outcome=err"], b"");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let found: BTreeSet<_> =
        trees(&output.stdout).iter().map(|tree| tree["trace"].to_string()).collect();
    let expected = [3_u8, 0xAB].map(|byte| format!("\"{}\"", format!("{byte:02x}").repeat(16)));
    assert_eq!(found, BTreeSet::from(expected), "{}", stderr(&output));
}

/// An event that version 6 cannot hold is told, also where what is read is made of several files.
#[test]
fn events_that_are_too_large_are_told() {
    let here = place(1, 10, 0);
    let large = Event { payload: vec![7; 1 << 16], ..event(110, SOLD, here) };
    let events = vec![event(100, START, here), large, stop(120, here, 20, "ok")];
    let file = TraceFile::new(&spans::stream(events).end());
    let out = file.folder.path().join("out");
    let out = out.to_str().unwrap();
    let path = file.path.to_str().unwrap();
    let said = "left out: 1 events that are too large";
    for args in [
        &["merge", path, "-o", out, "--force", "--grep", "ok"][..],
        &["convert", path, out, "--to", "v6", "--force", "--grep", "ok"],
        &["report", path, "--text", "--grep", "ok"],
    ] {
        let output = nettrace(args, b"");
        assert_eq!(output.status.code(), Some(3), "{args:?}: {}", stderr(&output));
        assert_eq!(stderr(&output).matches(said).count(), 1, "{args:?}: {}", stderr(&output));
    }
    fs::remove_file(out).unwrap();
    fs::write(file.folder.path().join("other.nettrace"), spans::samples()).unwrap();
    let folder = file.folder.path().to_str().unwrap();
    for args in [
        &["merge", folder, "-o", out, "--force"][..],
        &["report", folder, "--text"],
        &["report", folder, "--text", "--event", "*"],
    ] {
        let output = nettrace(args, b"");
        assert_eq!(output.status.code(), Some(3), "{args:?}: {}", stderr(&output));
        assert_eq!(stderr(&output).matches(said).count(), 1, "{args:?}: {}", stderr(&output));
    }
}

/// Once a trace passes, what waits for the end of its outermost span is no trace of its own.
#[test]
fn traces_are_counted_once() {
    let (root, query, unknown) = (place(1, 10, 0), place(1, 11, 10), place(1, 99, 0));
    let events = vec![
        event(100, START, root),
        event(110, PAY_START, query),
        event(120, PAY_STOP, query),
        event(130, SOLD, unknown),
        stop(140, root, 40, "ok"),
    ];
    let (_, said) = TraceFile::new(&spans::stream(events).end()).merged(&["--event", "*"]);
    assert!(said.contains("5 of 5 events, 1 trace"), "{said}");
    assert!(!said.contains("1 traces") && !said.contains("2 traces"), "{said}");
}
