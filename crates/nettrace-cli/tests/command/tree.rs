//! Runs `nettrace tree` on traces of spans, and compares it with models and with the reference.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use nettrace_format::heph::{EventHeader, EventPacket, epoch};
use serde_json::{Value, json};
use testkit::{
    activities,
    effort::{all_or, left_out},
    reference::dotnet_traces,
    streams::{EventType, Row, Stream},
};

use crate::{
    program::{nettrace, stderr, stdout, strict_json},
    spans::{self, PAY_START, PAY_STOP, SOLD, START, event, place, samples, stop, stream},
};

/// The objects that `tree --json` prints.
pub(crate) fn trees(args: &[&str], trace: &[u8]) -> Vec<Value> {
    let output = nettrace(&[&["tree", "--json", "-"], args].concat(), trace);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    stdout(&output).lines().map(strict_json).collect()
}

/// A root may name a span that it follows from. That span has another trace, so it is not looked
/// for among the parents.
#[test]
fn a_span_of_another_trace_is_no_parent() {
    let trace = stream(vec![
        event(100, START, place(0xAB, 1, 0)),
        event(110, PAY_START, place(0xCD, 2, 1)),
        event(120, SOLD, place(0xCD, 2, 1)),
        event(130, PAY_STOP, place(0xCD, 2, 1)),
        stop(200, place(0xAB, 1, 0), 100, "ok"),
    ])
    .end();
    let trees = trees(&[], &trace);
    assert_eq!(trees.len(), 2, "{trees:?}");
    assert_eq!(trees[1]["spans"][0]["events"].as_array().map(Vec::len), Some(1), "{trees:?}");
    // It is the span from which the other one follows.
    let followed = [&trees[1]["follows_from"], &trees[1]["follows_from_trace"]];
    assert_eq!(followed, [&json!(format!("{:016x}", 1)), &json!("ab".repeat(16))]);
    assert_eq!(trees[1]["remote_parent"], Value::Null);
    let text = nettrace(&["tree", "-"], &trace);
    let said = format!("follows from {:016x} of trace {}\n", 1, "ab".repeat(16));
    assert!(stdout(&text).contains(&said), "{}", stdout(&text));
}

const TEXT: &str = "\
2026-03-04T05:06:07.089100000Z   0.000100000 s, trace abababababababababababababababab
   100.000µs     50.000µs  err       Shop/checkout [0000000000000001] cart=7
    50.000µs     30.000µs  -           Shop/pay [0000000000000002] cents=7 {region=\"north\"}
   +20.000µs                             · I Shop/Sold count=7 {region=\"north\"}
    20.000µs     20.000µs  ok            Shop/pack [0000000000000003] (single)
   +30.000µs                           · I Shop/Sold count=7
   +70.000µs                           · I Shop/checkoutResume
   +80.000µs                           · I Shop/checkoutSuspend

2026-03-04T05:06:07.089300000Z   0.000300000 s, trace cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd, \
within or after 000000000000000a, which is not in the trace, 40.000µs in all, 30.000µs of it in \
Shop/pay [000000000000000c]
    20.000µs     10.000µs  ok        Shop/checkout [000000000000000b] cart=7
    30.000µs     30.000µs  -           Shop/pay [000000000000000c] cents=7

2026-03-04T05:06:07.089443000Z   0.000443000 s, trace efefefefefefefefefefefefefefefef
     7.000µs      7.000µs  cancelled Shop/checkout [0000000000000016] (no start)

2 trees are cut: the start or the end of the root is not in the trace

2026-03-04T05:06:07.089400000Z   0.000400000 s, trace efefefefefefefefefefefefefefefef
  >100.000µs            -  no end    Shop/checkout [0000000000000015] cart=7

2026-03-04T05:06:07.089460000Z   0.000460000 s, trace efefefefefefefefefefefefefefefef
           -            -  -         (neither start nor end) [0000000000000017]
        +0ns                           · I Shop/Sold count=7

";

#[test]
fn text() {
    let output = nettrace(&["tree", "-"], &samples());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), TEXT);
    let said = "# events=17 lost=0 outside=1 spans=7 without_end=1 without_start=1 unknown=1 \
        trees=5 cut_trees=2 shown=5 left_out_spans=0 left_out_events=0 left_out_fields=0\n";
    assert_eq!(stderr(&output), said);
}

#[test]
fn json_objects() {
    let trees = trees(&[], &samples());
    let roots: Vec<_> = trees.iter().map(|tree| &tree["spans"][0]["span"]).collect();
    let id = |number: u64| format!("{number:016x}");
    assert_eq!(json!(roots), json!([id(1), id(11), id(22), id(21), id(23)]));
    let first = &trees[0];
    assert_eq!((&first["trace"], &first["remote_parent"]), (&json!("ab".repeat(16)), &Value::Null));
    assert_eq!(first["spans"].as_array().unwrap().len(), 3);
    let mut pay = first["spans"][1].clone();
    let inside = pay["events"].take();
    let expected = json!({
        "depth": 1, "provider": "Shop", "name": "pay", "span": id(2), "parent": id(1),
        "state": "ended", "outcome": null, "time": "2026-03-04T05:06:07.089110000Z",
        "since_start_ns": 110_000, "duration_ns": 50_000, "at_least_ns": null, "self_ns": 30_000,
        "process": 77, "thread": 1005,
        "start": { "fields": { "cents": 7 }, "labels": { "region": "north" } },
        "stop": { "fields": {}, "labels": { "region": "north" } },
        "events": null, "left_out_events": 0,
    });
    assert_eq!(pay, expected);
    // An event inside is as `dump` shows it.
    let dump = nettrace(&["dump", "-", "--json", "--where", "region=north"], &samples());
    let dumped: Vec<_> = stdout(&dump).lines().map(strict_json).collect();
    assert_eq!(inside, json!([dumped[1]]));
    let pack = &first["spans"][2];
    assert_eq!((&pack["state"], &pack["outcome"]), (&json!("single"), &json!("ok")));
    assert_eq!((&pack["since_start_ns"], &pack["duration_ns"]), (&json!(130_000), &json!(20_000)));
    assert_eq!((&pack["start"], &pack["stop"]), (&Value::Null, &json!({ "fields": {} })));
    let open = &trees[3]["spans"][0];
    assert_eq!(
        [&open["state"], &open["duration_ns"], &open["at_least_ns"], &open["self_ns"]],
        [&json!("without_end"), &Value::Null, &json!(100_000), &Value::Null]
    );
    assert_eq!(trees[1]["remote_parent"], json!(id(10)));
    assert_eq!(trees[2]["spans"][0]["state"], json!("without_start"));
    assert_eq!(trees[2]["spans"][0]["outcome"], json!("cancelled"));
    let unknown = &trees[4]["spans"][0];
    assert_eq!((&unknown["state"], &unknown["name"]), (&json!("unknown"), &Value::Null));
}

#[test]
fn one_trace_and_the_slowest() {
    let spans = |args: &[&str]| -> Vec<u64> {
        let trees = trees(args, &samples());
        let roots = trees.iter().map(|tree| tree["spans"][0]["span"].as_str().unwrap().to_owned());
        roots.map(|id| u64::from_str_radix(&id, 16).unwrap()).collect()
    };
    assert_eq!(spans(&["--trace", &"ef".repeat(16)]), [22, 21, 23]);
    assert_eq!(spans(&["--trace", &"EF".repeat(16), "--slow", "1"]), [22, 21]);
    // Those that are cut have a place of their own, whatever is unknown of them.
    assert_eq!(spans(&["--slow", "2"]), [1, 11, 21, 23]);
    assert!(spans(&["--slow", "0"]).is_empty());
    for (args, says) in [
        (["--trace", &"12".repeat(16)], "of 17 events, none is of trace 12121212"),
        (["--trace", &"12".repeat(16)], "16 belong to spans of others"),
    ] {
        let output = nettrace(&[&["tree", "-"], &args[..]].concat(), &samples());
        assert_eq!((output.status.code(), stdout(&output)), (Some(0), ""));
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
    let output = nettrace(&["tree", "-"], &stream(vec![]).end());
    assert!(stderr(&output).contains("no span was shown: of 0 events"), "{}", stderr(&output));
    for wrong in ["ef", "00000000000000000000000000000000"] {
        let output = nettrace(&["tree", "-", "--trace", wrong], &samples());
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("the 32 hexadecimal digits of a trace id"), "{wrong}");
    }
    let heph = b"\x75\xD1\x1D\x4D\0\0\0\x17\0\x05epoch\x16\x58\x45\xE9\x12\x14\xEC\x90";
    let output = nettrace(&["tree", "-"], heph);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), ""), "{}", stderr(&output));
    assert!(stderr(&output).contains("no span was shown: of 0 events"), "{}", stderr(&output));
}

/// An event that takes time is a span, whoever wrote the Heph trace.
#[test]
fn spans_of_other_heph_traces() {
    let trace = nettrace_reader::heph_example();
    let found = trees(&[], &trace);
    assert_eq!(found.len(), 1);
    let span = &found[0]["spans"][0];
    let keys = ["provider", "name", "state", "outcome", "duration_ns", "at_least_ns", "time"];
    let time = "2026-01-01T00:00:00.000001000Z";
    let expected = json!(["heph", "sale", "single", null, 3000, null, time]);
    assert_eq!(json!(keys.map(|key| &span[key])), expected);
    assert_eq!(span["stop"]["fields"], json!({ "cents": 1250, "items": ["tea", "cup"] }));
    // A trace that ends early is shown as far as it can be read.
    let output = nettrace(&["tree", "-"], &trace[..trace.len() - 1]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("heph/sale"), "{}", stdout(&output));
}

/// A packet of another program: stream, substream, start, end, description.
type Packet = (u32, u64, u64, u64, &'static str);

fn heph(packets: &[Packet]) -> Vec<u8> {
    let mut trace = Vec::new();
    epoch(1_700_000_000_000_000_000, &mut trace);
    for ((stream, substream, start, end, description), counter) in packets.iter().zip(1..) {
        let (stream, substream, start, end) = (*stream, *substream, *start, *end);
        let header = EventHeader { stream, counter, substream, start, end };
        EventPacket::begin(&header, description, &mut trace).unwrap().finish().unwrap();
    }
    trace
}

/// On one substream, what contains another in time is its parent. Packets come in any order.
#[test]
fn spans_of_others_nest_by_time_on_one_substream() {
    let packets = [
        (7, 1, 20, 30, "inner"),
        (7, 2, 25, 28, "of another flow"),
        (8, 1, 22, 24, "of another thread"),
        (7, 1, 31, 31, "instant"),
        (7, 1, 10, 40, "outer"),
        (7, 1, 10, 40, "outermost"),
        // Overlaps, but contains nothing of it.
        (7, 1, 35, 50, "late"),
        (7, 1, 60, 60, "alone"),
    ];
    // So many that those inside have been read long before the end.
    let steps = all_or(40_000, 5_000);
    let mut many: Vec<Packet> = (0..steps).map(|at| (9, 3, at + 1, at + 2, "step")).collect();
    many.push((9, 3, 1, 50_000, "main"));
    let trace = heph(&[&packets[..], &many].concat());
    for trace in [&trace, &nettrace(&["convert", "-", "-", "--to", "v6"], &trace).stdout] {
        let output = nettrace(&["tree", "--json", "-"], trace);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let found: Vec<Value> = stdout(&output).lines().map(strict_json).collect();
        let shape = |tree: &Value| {
            let spans = tree["spans"].as_array().unwrap().iter().take(4);
            let name = |span: &Value| format!("{} {}", span["depth"], span["name"]);
            (
                tree["spans"].as_array().unwrap().len(),
                spans.map(name).collect::<Vec<_>>().join(", "),
            )
        };
        let shapes: Vec<_> = found.iter().map(shape).collect();
        let expected = [
            (steps as usize + 1, r#"0 "main", 1 "step", 1 "step", 1 "step""#),
            (3, r#"0 "outermost", 1 "outer", 2 "inner""#),
            (1, r#"0 "late""#),
            (1, r#"0 "of another flow""#),
            (1, r#"0 "of another thread""#),
        ];
        assert_eq!(shapes, expected.map(|(count, names)| (count, names.to_owned())));
        let inside = found[1]["spans"][1]["events"].as_array().unwrap();
        assert_eq!((inside.len(), &inside[0]["name"]), (1, &json!("instant")));
        let said = stderr(&output);
        assert!(said.contains(&format!(" outside=1 spans={} ", steps + 7)), "{said}");
    }
}

/// A damaged trace is shown as far as it can be read.
#[test]
fn a_trace_that_ends_early() {
    let whole = samples();
    let output = nettrace(&["tree", "-"], &whole[..whole.len() - 4]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), TEXT));
}

/// Versions 4 and 5 have activity ids only, and no key-values of types. Version 4 has no opcodes:
/// what is made of it takes them from the names.
#[test]
fn other_formats_have_the_same_trees() {
    let ours = trees(&[], &samples());
    let all =
        ["v5", "v4", "heph", "v5 v6", "v4 v6", "v4 v5 v6", "heph v6", "heph v5", "v4 heph v4"];
    for versions in all {
        let (mut trace, version) = (samples(), versions);
        for to in versions.split(' ') {
            let converted = nettrace(&["convert", "-", "-", "--to", to], &trace);
            assert_eq!(converted.status.code(), Some(0), "{}", stderr(&converted));
            trace = converted.stdout;
        }
        let theirs = trees(&[], &trace);
        assert_eq!(theirs.len(), ours.len(), "{version}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let has_traces = !versions.contains(['4', '5']);
            assert_eq!(&theirs["trace"], if has_traces { &ours["trace"] } else { &Value::Null });
            assert_eq!(theirs["remote_parent"], ours["remote_parent"]);
            let spans = [ours, theirs].map(|tree| tree["spans"].as_array().unwrap());
            assert_eq!(spans[0].len(), spans[1].len(), "{version}");
            for (ours, theirs) in spans[0].iter().zip(spans[1]) {
                let same = "depth provider name span parent state outcome since_start_ns \
                    duration_ns at_least_ns self_ns left_out_events";
                for key in same.split(' ') {
                    assert_eq!(ours[key], theirs[key], "{version} {key}: {theirs}");
                }
                let counts = [ours, theirs].map(|span| span["events"].as_array().unwrap().len());
                assert_eq!(counts[0], counts[1], "{version}: {theirs}");
            }
        }
        // A filter finds an event by its span id all the same.
        let filter = ["dump", "-", "--json", "--where", "SpanId=0000000000000002"];
        let output = nettrace(&filter, &trace);
        assert_eq!(stdout(&output).lines().count(), 3, "{version}: {}", stderr(&output));
        if version.ends_with(['4', '5']) {
            let output = nettrace(&["tree", "-", "--trace", &"ef".repeat(16)], &trace);
            assert!(stderr(&output).contains("have no trace ids"), "{}", stderr(&output));
        }
    }
}

/// An event of opcode Start or Stop that has the id of a span around it is one inside of it.
#[test]
fn a_pair_without_ids_of_its_own_is_inside() {
    let at = place(1, 1, 0);
    let trace = stream(vec![
        event(10, START, at),
        event(20, PAY_START, at),
        event(30, PAY_STOP, at),
        stop(50, at, 40, "ok"),
        event(60, PAY_STOP, at),
    ])
    .end();
    let trees = trees(&[], &trace);
    let spans = trees[0]["spans"].as_array().unwrap();
    assert_eq!((trees.len(), spans.len()), (1, 1));
    assert_eq!(spans[0]["duration_ns"], json!(40_000));
    assert_eq!(spans[0]["events"].as_array().unwrap().len(), 3);
    let output = nettrace(&["info", "-", "--json"], &trace);
    let info = strict_json(stdout(&output).trim_end());
    assert_eq!(info["spans_without_end"], json!(0));
}

/// A parent can be named by its activity id, though its own key is the span id.
#[test]
fn span_ids_beside_paths_of_dotnet() {
    let label = |kind: u8, value: &[u8]| [&[kind][..], value].concat();
    let path = |number: u8| {
        let sum = (0x11 | u32::from(number) << 8).wrapping_add(0x599D_99AD) ^ 77;
        [&[0x11, number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &sum.to_le_bytes()].concat()
    };
    let span = |id: u64| label(4, &id.to_le_bytes());
    let lists: [&[Vec<u8>]; 2] = [
        &[label(1, &path(0x20)), span(1)],
        &[label(1, &path(0x21)), label(2, &path(0x20)), span(2)],
    ];
    let start = EventType::new(1, "Shop", 1, "WorkStart").optional(&[1, 1]);
    let mut stream = Stream::new();
    stream.thread(5).metadata(&start).label_lists(1, &lists);
    stream.events(&[Row::new(5, 1, 1010).labels(1), Row::new(5, 2, 1020).labels(2)]);
    let trees = trees(&[], &stream.end());
    let child = &trees[0]["spans"][1];
    assert_eq!((trees.len(), &child["span"]), (1, &json!("0000000000000002")));
    assert_eq!((&child["depth"], &child["trace"]), (&json!(1), &Value::Null));
}

/// Whoever reads the output may have enough.
#[test]
fn a_closed_pipe_is_no_error() {
    let deep = (1..=5000).map(|at| event(at, START, place(1, at, at - 1))).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deep.nettrace");
    fs::write(&file, stream(deep).end()).unwrap();
    for args in [&["tree"][..], &["tree", "--json"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nettrace"))
            .args(args)
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn spans_within_each_other_and_deep_ones() {
    let cycle = vec![
        event(10, START, place(1, 1, 3)),
        event(20, START, place(1, 2, 1)),
        event(30, START, place(1, 3, 2)),
        event(40, START, place(1, 4, 3)),
        event(50, START, place(1, 5, 5)),
    ];
    let found = trees(&[], &stream(cycle).end());
    let sizes: Vec<_> = found.iter().map(|it| it["spans"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [4, 1]);
    let deep = (1..=20_000).map(|at| event(at, START, place(1, at, at - 1))).collect();
    let deep = stream(deep).end();
    let found = trees(&[], &deep);
    let last = found[0]["spans"].as_array().unwrap().last().unwrap();
    assert_eq!((found.len(), &last["depth"]), (1, &json!(19_999)));
    let output = nettrace(&["tree", "-", "--lines", "all"], &deep);
    let text = stdout(&output);
    assert!(text.contains("(level 19999) Shop/checkout"));
    assert!(text.lines().all(|line| line.len() < 400));
}

/// What has no room is counted, and the slowest root keeps its details.
#[test]
fn the_limit_on_memory() {
    let none = nettrace(&["tree", "-", "--tree-limit", "0"], &samples());
    assert_eq!((none.status.code(), stdout(&none)), (Some(0), ""));
    let counts = "spans=0 without_end=0 without_start=0 unknown=0 trees=0 cut_trees=0 shown=0 \
        left_out_spans=6 left_out_events=10 left_out_fields=0";
    assert!(stderr(&none).contains(counts), "{}", stderr(&none));
    assert!(stderr(&none).contains("--tree-limit raises the limit"), "{}", stderr(&none));

    // 1000 trees of three spans, and 8 events in each: several times a MiB. Root 500 is the
    // slowest.
    let mut events = Vec::new();
    for root in 1..=1000 {
        let (at, own) = (root * 100, place(1, root, 0));
        let duration = if root == 500 { 90 } else { 20 };
        events.push(event(at, START, own));
        events.extend((1..9).map(|index| event(at + index, SOLD, own)));
        for child in [1, 2] {
            let place = place(1, root + child * 10_000, root);
            events.extend([event(at + 9, START, place), stop(at + 12, place, 3, "ok")]);
        }
        events.push(stop(at + duration, own, duration, "ok"));
    }
    let trace = stream(events).end();
    let run = |args: &[&str]| {
        let output =
            nettrace(&[&["tree", "--json", "-", "--tree-limit", "1"], args].concat(), &trace);
        let trees: Vec<_> = stdout(&output).lines().map(strict_json).collect();
        (trees, stderr(&output).to_owned())
    };
    let (slowest, said) = run(&["--slow", "1"]);
    let root = &slowest[0]["spans"][0];
    assert_eq!((&root["duration_ns"], &root["left_out_events"]), (&json!(90_000), &json!(0)));
    assert_eq!(root["events"].as_array().unwrap().len(), 8);
    let counts = "spans=3000 without_end=0 without_start=0 unknown=0 trees=1000 cut_trees=0 \
        shown=1 left_out_spans=0 left_out_events=0 left_out_fields=0";
    assert!(said.contains(counts), "{said}");
    let (all, said) = run(&[]);
    let spans = all.iter().flat_map(|tree| tree["spans"].as_array().unwrap());
    let [shown, left_out] = [
        spans.clone().map(|span| span["events"].as_array().unwrap().len() as u64).sum::<u64>(),
        spans.clone().map(|span| span["left_out_events"].as_u64().unwrap()).sum(),
    ];
    let count = |key: &str| -> u64 {
        let (_, rest) = said.split_once(&format!(" {key}=")).unwrap();
        rest.split_whitespace().next().unwrap().parse().unwrap()
    };
    assert_eq!(spans.count() as u64 + count("left_out_spans"), 3000, "{said}");
    assert!(left_out > 0 && count("left_out_spans") > 0, "{said}");
    // The stops of spans that were left out are among the events that were.
    let stops = count("left_out_spans");
    assert_eq!(shown + count("left_out_events") - stops, 8000, "{said}");
}

/// Compares the trees of a trace with the reference's. Returns the number of spans.
fn compare(trace: &Path) -> Option<usize> {
    let mut theirs = activities::of(trace)?.stopped;
    theirs.sort_by(|one, other| one.name.cmp(&other.name));
    let trees = trees(&[], &fs::read(trace).unwrap());
    let spans = trees.iter().flat_map(|tree| tree["spans"].as_array().unwrap());
    let name = |span: &Value| {
        // The path of a span of ours is made of the halves of its id.
        let path = span["path"].as_str().map(str::to_owned).or_else(|| {
            let id = u64::from_str_radix(span["span"].as_str()?, 16).ok()?;
            Some(format!("/#{}/{}/{}/", spans::PROCESS, id >> 32, id as u32))
        });
        format!("{}({})", span["name"].as_str().unwrap(), path.unwrap())
    };
    let ids = |span: &Value, key: &str| span[key].as_str().map(str::to_owned);
    let names: BTreeMap<_, _> = spans
        .clone()
        .map(|span| (ids(span, "span").or(ids(span, "activity")).unwrap(), name(span)))
        .collect();
    let millis = |value: &Value| value.as_f64().unwrap() / 1e6;
    let mut ours: Vec<_> = spans
        .filter(|span| span["state"] == "ended")
        .map(|span| {
            let parent = ids(span, "parent").and_then(|parent| names.get(&parent).cloned());
            let times = (millis(&span["since_start_ns"]), millis(&span["duration_ns"]));
            (name(span), parent, times.0, times.1)
        })
        .collect();
    ours.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(ours.len(), theirs.len(), "{}", trace.display());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!((&ours.0, &ours.1), (&theirs.name, &theirs.parent));
        for (ours, theirs) in [(ours.2, theirs.start_ms), (ours.3, theirs.duration_ms)] {
            assert!((ours - theirs).abs() < 1e-5, "{ours} {theirs}");
        }
    }
    Some(ours.len())
}

#[test]
fn activities_of_dotnet_are_those_of_the_reference() {
    if left_out() {
        return;
    }
    let mut found = Vec::new();
    for trace in dotnet_traces() {
        let Some(count) = compare(&trace) else { return };
        found.push(count);
    }
    assert!(found.is_empty() || found.iter().sum::<usize>() >= 195, "{found:?}");
}

/// The reference sees the same spans in a trace of ours.
#[test]
fn spans_are_those_of_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("spans.nettrace");
    let mut events = Vec::new();
    let id = |number: u64| number * 0x0123_4567_89AB_CDEF;
    for number in 1..200 {
        let parent = if number % 7 == 1 { 0 } else { id(number - 1) };
        let at = place(9, id(number), parent);
        // A tree ends before the next one begins. Otherwise the reference takes the span that its
        // thread is in for the parent of a root.
        let base = (number - 1) / 7 * 1000;
        events.push(event(base + number, START, at));
        events.push(stop(base + 700 - number, at, 0, "ok"));
    }
    fs::write(&file, stream(events).end()).unwrap();
    if let Some(count) = compare(&file) {
        assert_eq!(count, 199);
    }
}

/// A span that two threads had entered at once was busy for longer than it took.
#[test]
fn busy_on_several_threads_is_explained() {
    let ty = |id: u64, name: &str, opcode| {
        EventType::new(id, "Shop", id, name).optional(&[8, 4, 1, opcode])
    };
    let end = ty(2, "askStop", 2).field("duration", &[12]).field("busy", &[12]);
    let mut stream = Stream::new();
    stream.thread(5).metadata(&ty(1, "askStart", 1)).metadata(&end);
    let labels: Vec<_> = (1..=2).map(|id| spans::labels(place(0xAB, id, 0))).collect();
    stream.label_lists(1, &labels.iter().map(|list| &**list).collect::<Vec<_>>());
    let payloads = [50_u64, 51].map(|busy| [50_u64.to_le_bytes(), busy.to_le_bytes()].concat());
    let mut rows = Vec::new();
    for (number, payload) in (1..).zip(&payloads) {
        let row =
            |place: u32| Row::new(5, 2 * number + place, 1000 + u64::from(2 * number + place));
        rows.push(row(0).metadata(1).labels(number));
        rows.push(row(1).metadata(2).labels(number).payload(payload));
    }
    let trace = stream.events(&rows).end();
    let output = nettrace(&["tree", "-"], &trace);
    let spans: Vec<_> = stdout(&output).lines().filter(|line| line.contains("Shop/ask")).collect();
    assert!(spans[0].ends_with("busy=50"), "{spans:?}");
    assert!(spans[1].ends_with("busy=51 (busy on several threads at once)"), "{spans:?}");
}
