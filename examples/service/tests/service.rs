//! Runs the service, and compares the tree of spans in its trace with the one that it knows.

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::{Command, Stdio},
};

use nettrace_reader::Label;
use nettrace_writer::trace_context::{ActivityId, SpanId};
use serde_json::Value;

use crate::support::{counters, counts};

/// A run that has ended.
struct Run {
    process: u32,
    /// The last line of its output.
    numbers: Value,
}

impl Run {
    fn number(&self, key: &str) -> u64 {
        self.numbers[key].as_u64().unwrap_or_else(|| panic!("no {key}: {}", self.numbers))
    }
}

fn run(arguments: &[&str], out: &Path) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_service"));
    command.args(arguments).arg("--out").arg(out).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let process = child.id();
    let output = child.wait_with_output().unwrap();
    let [text, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{text}{errors}");
    assert_eq!(errors, "");
    let numbers = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    Run { process, numbers }
}

/// A span: the path of its activity, and its parent's.
type Edge = (String, Option<String>);

/// The spans that the program knows, by what they are.
fn known(file: &Path, process: u32) -> (BTreeSet<Edge>, BTreeMap<String, u64>) {
    let (mut edges, mut names) = (BTreeSet::new(), BTreeMap::new());
    for line in fs::read_to_string(file).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let path = |key: &str| {
            let span: SpanId = line[key].as_str()?.parse().unwrap();
            Some(ActivityId::from_span_id(span, process).path().unwrap().to_string())
        };
        assert!(edges.insert((path("span").unwrap(), path("parent"))), "twice: {line}");
        *names.entry(line["name"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    (edges, names)
}

#[test]
fn the_trace_has_the_tree_that_the_program_knows() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, known_spans) = (folder.path().join("a.nettrace"), folder.path().join("known.json"));
    // The reference takes a span without a parent for a child of whatever has last begun on its
    // thread and goes on. So all requests have a parent here.
    let known_file = known_spans.to_str().unwrap();
    // Counters only at the end.
    let load = ["--load", "2000", "--counters", "1000"];
    let run = run(&[&load[..], &["--one-trace", "--known", known_file]].concat(), &trace);
    assert_eq!(run.number("dropped"), 0);
    let (edges, names) = known(&known_spans, run.process);
    assert_eq!(run.number("spans"), edges.len() as u64);

    // Every function and every way to end.
    let all = [run.number("requests"), run.number("ok"), run.number("broken")];
    assert_eq!(all[0], 2_000);
    assert_eq!(run.number("cancelled"), 20);
    assert_eq!(run.number("failed"), 40);
    assert_eq!(all[1] + all[2], 1_940);
    assert_eq!(
        (names["ClientRequest"], names["depth"], names["depth_of_futures"]),
        (2_000, 800, 800)
    );

    // In the trace, by its names: a Start and a Stop for each of the program's spans.
    let events = counts(&trace);
    for (name, count) in &names {
        for end in ["Start", "Stop"] {
            assert_eq!(events.get(&format!("{name}{end}")), Some(count), "{name}{end}");
        }
    }
    let others: u64 = ["Bought", "Line", "counters"].iter().map(|name| events[*name]).sum();
    assert_eq!(events.values().sum::<u64>(), 2 * edges.len() as u64 + others);
    assert_eq!(run.number("events"), 2 * edges.len() as u64 + others);

    // The counters of the service are in its own trace, up to the end.
    let counters = counters(&trace);
    let sum = |name: &str| {
        let values = counters.iter().filter(|((instrument, _), _)| instrument == name);
        values.map(|(_, value)| *value).sum::<f64>()
    };
    assert_eq!(sum("requests"), 2_000.0, "{counters:?}");
    assert_eq!(sum("requests.in_progress"), 0.0, "{counters:?}");
    assert!(sum("last_order") > 0.0, "{counters:?}");
    assert!(sum("process.cpu.time") > 0.0 || cfg!(not(unix)), "{counters:?}");

    // By their ids: the same tree.
    if let Some(activities) = testkit::activities::of(&trace) {
        let computed = activities.complete_tree();
        let (missing, more): (Vec<_>, Vec<_>) =
            (edges.difference(&computed).collect(), computed.difference(&edges).collect());
        assert!(missing.is_empty() && more.is_empty(), "{missing:#?}\n{more:#?}");
    }
}

/// The spans of a trace, from the labels of their Starts.
fn spans(trace: &Path) -> BTreeSet<Edge> {
    let mut reader = nettrace_reader::Reader::new(fs::File::open(trace).unwrap()).unwrap();
    let mut spans = BTreeSet::new();
    while let Some(event) = reader.next_event().unwrap() {
        if !event.metadata().name.ends_with("Start") {
            continue;
        }
        let path = |id: &[u8; 16]| ActivityId::from_bytes(*id).path().unwrap().to_string();
        let (mut own, mut parent) = (None, None);
        for label in &*event.labels() {
            match label {
                Label::ActivityId(id) => own = Some(path(id)),
                Label::RelatedActivityId(id) => parent = Some(path(id)),
                _ => {}
            }
        }
        assert!(spans.insert((own.expect("an id"), parent)), "twice: {event:?}");
    }
    spans
}

#[test]
fn what_is_sampled_out_is_counted_and_the_rest_are_whole_trees() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    // How often counters are written depends on the time that a run takes.
    let load = ["--load", "2000", "--counters", "0"];
    let everything = run(&load, &path("all"));
    let total = |run: &Run| {
        let [spans, events] =
            ["sampled_out_spans", "sampled_out_events"].map(|key| run.number(key));
        run.number("events") + events + 2 * spans
    };
    assert_eq!(total(&everything), everything.number("events"));
    for (ratio, possible) in [("0", 0..=0), ("0.25", 300..=700), ("1", 2_000..=2_000)] {
        let (trace, known_spans) = (path(&format!("{ratio}.nettrace")), path(ratio));
        let known_file = known_spans.to_str().unwrap();
        let run = run(&[&load[..], &["--sample", ratio, "--known", known_file]].concat(), &trace);
        assert_eq!(
            (total(&run), run.number("dropped")),
            (total(&everything), 0),
            "{}",
            run.numbers
        );
        assert_eq!(run.number("spans"), everything.number("spans"));
        let (edges, names) = known(&known_spans, run.process);
        let recorded = run.number("spans") - run.number("sampled_out_spans");
        assert_eq!(recorded, edges.len() as u64);
        assert_eq!(spans(&trace), edges);
        let requests = names.get("ClientRequest").copied().unwrap_or_default();
        assert!(possible.contains(&requests), "{requests} with a ratio of {ratio}");
        counts(&trace);
    }
}

#[test]
fn it_ends_after_the_time_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    for (tracing, has_events) in [("none", false), ("fmt", true), ("nettrace", true)] {
        let out = folder.path().join(tracing);
        let run = run(&["--seconds", "1", "--tracing", tracing], &out);
        assert!(run.number("requests") > 0 && run.number("spans") > run.number("requests"));
        assert_eq!(run.number("events") > 0, has_events, "{}", run.numbers);
        assert_eq!(out.exists(), has_events);
        let seconds = run.numbers["seconds"].as_f64().unwrap();
        assert!(seconds >= 1.0, "{seconds}");
    }
}

#[test]
fn a_black_box_has_the_requests_before_one_that_was_slow() {
    let folder = tempfile::tempdir().unwrap();
    let dumps = folder.path().join("dumps");
    let mut command = Command::new(env!("CARGO_BIN_EXE_service"));
    command.args(["--load", "2000", "--black-box"]).arg(&dumps);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let files: Vec<_> = fs::read_dir(&dumps).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "all that are slow within a minute have one dump: {files:?}");
    assert!(files[0].to_str().unwrap().contains("-slow-1.nettrace"), "{files:?}");
    let bytes = fs::read(&files[0]).unwrap();
    let mut reader = nettrace_reader::Reader::new(&bytes[..]).unwrap();
    reader.read_to_end().unwrap();
    assert!(reader.totals().events > 1_000 && reader.totals().lost == 0, "{:?}", reader.totals());
    assert_eq!(reader.trace().value("nettrace.trigger"), Some("slow"));
    assert_eq!(reader.trace().value("route"), Some("/slow/{millis}"));
    let written: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(written.len(), 1, "nothing but the dumps");
}
