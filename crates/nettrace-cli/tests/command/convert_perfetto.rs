//! Converts traces for Perfetto, and compares the spans with those that `nettrace tree` shows, and
//! with what Perfetto itself finds in the result.

#![expect(clippy::disallowed_methods, reason = "Perfetto starts several times at once")]

use std::{
    collections::BTreeMap,
    env, fs, future,
    pin::{Pin, pin},
    task::{Context, Waker},
    thread,
};

use nettrace_writer::{FutureExt, Session, TraceSpan, sink::MemorySink};
use serde_json::{Value, json};
use testkit::{
    agreed::Agreed,
    effort::left_out,
    perfetto::{self, Slice, Trace, Track},
    reference::dotnet_traces,
    streams::{EventType, Row, Stream, random::Random, utf16z},
};

use crate::{
    program::{nettrace, stderr, stdout, strict_json},
    spans::{
        PAY_START, PAY_STOP, RESUME, SOLD, START, SUSPEND, event, place, samples, stop, stream,
    },
};

fn convert(trace: &[u8]) -> (Trace, String) {
    let output = nettrace(&["convert", "-", "-", "--to", "perfetto"], trace);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    (Trace::read(&output.stdout), stderr(&output).to_owned())
}

/// The spans that `tree --json` shows, by their ids.
fn tree_of(trace: &[u8]) -> BTreeMap<String, Value> {
    let output = nettrace(&["tree", "--json", "-"], trace);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut spans = BTreeMap::new();
    for line in stdout(&output).lines() {
        for span in strict_json(line)["spans"].as_array().unwrap() {
            let id = span["span"].as_str().or(span["activity"].as_str()).unwrap();
            assert!(spans.insert(id.to_owned(), span.clone()).is_none(), "{id}");
        }
    }
    spans
}

/// The id of a slice's span.
fn id(slice: &Slice) -> &str {
    slice.text("SpanId").or_else(|| slice.text("ActivityId")).expect("an id")
}

/// Compares the slices that are no polls with the spans of `tree`: times, names, parents. A parent
/// is the slice around, or there is a flow from it. Returns how many slices there are on threads,
/// and how many on tracks of their own.
fn compare(source: &[u8]) -> (usize, usize) {
    let (trace, _) = convert(source);
    let spans = tree_of(source);
    let is_poll = |slice: &Slice| {
        // A poll is drawn on the thread, inside of its span or beside its track.
        let others = trace.spans().filter(|(_, other)| id(other) == id(slice));
        others.map(|(_, other)| other.start).min() != Some(slice.start)
    };
    let mut found = BTreeMap::new();
    for (place, slice) in trace.spans().filter(|(_, slice)| !is_poll(slice)) {
        found.insert(id(slice).to_owned(), (place, slice));
    }
    let (mut on_threads, mut on_their_own) = (0, 0);
    for (id, span) in &spans {
        let Some((place, slice)) = found.remove(id) else {
            // Nothing says when it began.
            let state = span["state"].as_str().unwrap();
            assert!(matches!(state, "unknown" | "without_start"), "{span}");
            assert!(span["duration_ns"].is_null(), "{span}");
            continue;
        };
        assert_eq!(json!(slice.name), span["name"], "{span}");
        assert_eq!(json!(slice.category), span["provider"], "{span}");
        assert_eq!(json!(slice.start), span["since_start_ns"], "{span}");
        let duration = slice.end.map(|end| end - slice.start);
        assert_eq!(json!(duration), span["duration_ns"], "{span}");
        let outcome = slice.text("outcome");
        assert_eq!(json!(outcome), span["outcome"], "{span}");
        let track = &trace.tracks[&slice.track];
        let is_on_thread = track.tid.is_some();
        *(if is_on_thread { &mut on_threads } else { &mut on_their_own }) += 1;
        if !is_on_thread {
            let (lane, process) = lane_of(slice, &trace);
            assert!(lane.starts_with("request lane "), "{span}: {lane}");
            assert_eq!((process.parent, process.tid), (None, None), "{span}");
        }
        let around = slice.parent.map(|place| &trace.slices[place]);
        let parent = span["parent"].as_str();
        if let Some(around) = around {
            assert_eq!(Some(self::id(around)), parent, "{span}");
        } else if let Some((_, parent)) = parent.and_then(|id| parent_of(id, &trace)) {
            // The parent is elsewhere, and was under way.
            let is_late = parent.end.is_some_and(|end| end < slice.start);
            if parent.start < slice.start && !is_late && parent.end != Some(slice.start) {
                let [flow] = slice.last_flows[..] else { panic!("{slice:?}") };
                let is_single = span["state"] == "single" || span["state"] == "without_start";
                assert!(parent.flows.contains(&flow) || is_single, "{span}\n{parent:?}");
            }
        }
        let _ = place;
    }
    assert!(found.is_empty(), "{found:?}");
    (on_threads, on_their_own)
}

/// The name of the lane that a slice is in, and the track of its process.
fn lane_of<'t>(slice: &Slice, trace: &'t Trace) -> (&'t str, &'t Track) {
    let above = |track: &Track| &trace.tracks[&track.parent.expect("a track around")];
    let mut lane = &trace.tracks[&slice.track];
    if lane.name.starts_with("in parallel ") {
        lane = above(lane);
    }
    let group = above(lane);
    assert_eq!(group.name, "requests");
    (&lane.name, above(group))
}

fn parent_of<'t>(wanted: &str, trace: &'t Trace) -> Option<(usize, &'t Slice)> {
    trace.spans().find(|(_, slice)| id(slice) == wanted)
}

/// Values of a counter.
fn counters() -> Vec<u8> {
    let ty = EventType::new(1, "System.Runtime", 1, "EventCounters").field("Mean", &[14]);
    let values = [1.5_f64, 2.5, 2.25]
        .map(|value| [&value.to_le_bytes()[..], &utf16z("cpu-usage"), &utf16z("%")].concat());
    let rows: Vec<_> = (1_u32..)
        .zip(&values)
        .map(|(number, value)| Row::new(5, number, 1000 + u64::from(number)).payload(value))
        .collect();
    let mut stream = Stream::new();
    let ty = ty.field("Name", &[18]).field("DisplayUnits", &[18]);
    stream.thread(5).metadata(&ty).events(&rows).end()
}

#[test]
fn spans_of_each_kind() {
    // The child that outlives its parent is not a slice of the thread, and the span that has not
    // ended is not either once another root begins.
    assert_eq!(compare(&samples()), (5, 2));
    let (trace, summary) = convert(&samples());
    assert!(summary.contains("# events=17 lost=0 left_out=4 bytes="), "{summary}");
    assert_eq!(trace.unix_nanos, Some(1_772_600_767_089_000_000));
    let slices: Vec<_> = trace.spans().map(|(_, it)| (&*it.name, it.start, it.end)).collect();
    let nanos = |micros: i64| micros * 1000;
    let expected = [
        ("checkout", 100, Some(200)),
        ("pay", 110, Some(160)),
        ("pack", 130, Some(150)),
        ("checkout", 170, Some(180)),
        ("checkout", 300, Some(320)),
        ("pay", 310, Some(340)),
        ("checkout", 400, None),
        ("checkout", 443, Some(450)),
    ];
    let expected = expected.map(|(name, start, end)| (name, nanos(start), end.map(nanos)));
    assert_eq!(slices, expected);
    let sold: Vec<_> = trace.instants().filter(|it| it.name == "Sold").collect();
    assert_eq!(sold.len(), 4);
    // What an event says: its field, its span, and the labels of the application.
    let texts = ["SpanId", "region", "TraceId"].map(|name| sold[0].text(name));
    assert_eq!(texts, [Some("0000000000000002"), Some("north"), None]);
    assert_eq!(sold[0].annotation("count"), Some(&perfetto::Value::Uint(7)));
    assert_eq!((sold[3].text("SpanId"), sold[3].category.as_str()), (None, "Shop"));
    // The slice around an event on its thread is the span that it is inside of.
    let around = sold[0].parent.map(|place| trace.slices[place].name.as_str());
    assert_eq!(around, Some("pay"));
}

#[test]
fn older_versions_have_the_same_spans() {
    for versions in ["v5", "v4", "v4 v6"] {
        let mut trace = samples();
        for to in versions.split(' ') {
            trace = nettrace(&["convert", "-", "-", "--to", to], &trace).stdout;
        }
        let (on_threads, on_their_own) = compare(&trace);
        assert_eq!((on_threads, on_their_own), (5, 2), "{versions}");
    }
}

#[derive(TraceSpan)]
#[trace_event(provider = "Shop", name = "pack")]
struct Pack {
    number: u32,
}

/// `derive(TraceSpan)` is for futures too, so each end states how often the span was polled.
#[test]
fn spans_of_futures_and_of_threads_have_one_type() {
    let memory = MemorySink::new();
    let session = Session::builder().sink(memory.clone()).provider("Shop").start().unwrap();
    let poll = |future: Pin<&mut dyn Future<Output = ()>>| {
        future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    };
    let pending = |number| future::pending().in_span(Pack { number }.start());
    {
        let _outer = Pack { number: 0 }.enter();
        let _inner = Pack { number: 1 }.enter();
    }
    assert!(poll(pin!(future::ready(()).in_span(Pack { number: 2 }.start()))));
    // Both are dropped while they wait.
    assert!(!poll(pin!(pending(3))));
    {
        let mut often = pin!(pending(4));
        assert!(!poll(often.as_mut()) && !poll(often.as_mut()));
    }
    session.finish().unwrap();
    let source = memory.bytes();
    assert_eq!(compare(&source), (3, 2));
    let (trace, _) = convert(&source);
    for (_, slice) in trace.spans() {
        let Some(perfetto::Value::Uint(number)) = slice.annotation("number") else { panic!() };
        assert_eq!(trace.tracks[&slice.track].tid.is_some(), *number < 3, "{slice:?}");
    }
}

/// Futures that one thread polls in turns: their spans overlap, their polls do not.
#[test]
fn overlapping_spans_of_one_thread() {
    let (one, two) = (place(1, 1, 0), place(2, 2, 0));
    let child = place(1, 3, 1);
    let trace = stream(vec![
        event(100, START, one),
        event(100, RESUME, one),
        event(110, SUSPEND, one),
        event(120, START, two),
        event(120, RESUME, two),
        event(130, SUSPEND, two),
        event(140, RESUME, one),
        event(140, PAY_START, child),
        event(150, PAY_STOP, child),
        event(160, SUSPEND, one),
        stop(160, one, 60, "ok"),
        event(170, RESUME, two),
        event(180, SUSPEND, two),
        stop(180, two, 60, "ok"),
    ])
    .end();
    let (trace, _) = convert(&trace);
    let on_threads = |slice: &&Slice| trace.tracks[&slice.track].tid.is_some();
    let all: Vec<_> = trace.spans().map(|(_, slice)| slice).collect();
    let drawn = |slices: Vec<&Slice>| -> Vec<_> {
        slices.iter().map(|it| (it.name.clone(), it.start / 1000, it.end.unwrap() / 1000)).collect()
    };
    let (threads, own): (Vec<_>, Vec<_>) = all.iter().copied().partition(on_threads);
    let named = |name: &str, start, end| (name.to_owned(), start, end);
    let polls = [
        named("checkout", 100, 110),
        named("checkout", 120, 130),
        named("checkout", 140, 160),
        named("pay", 140, 150),
        named("checkout", 170, 180),
    ];
    assert_eq!(drawn(threads.clone()), polls);
    assert_eq!(drawn(own.clone()), [named("checkout", 100, 160), named("checkout", 120, 180)]);
    // The child is inside of the poll, and a flow leads to it from the span.
    assert_eq!(threads[3].parent.map(|place| trace.slices[place].start), Some(140_000));
    assert!(own[0].flows.contains(&threads[3].last_flows[0]), "{own:?}");
}

/// Events of the same time: a slice that begins with the one around it is inside.
#[test]
fn spans_that_begin_at_the_same_time() {
    let mut events = Vec::new();
    for span in 1..=5 {
        events.push(event(100, START, place(1, span, span - 1)));
    }
    events.push(event(100, SOLD, place(1, 5, 4)));
    for span in (1..=5).rev() {
        events.push(stop(100 + 10 * (5 - span), place(1, span, span - 1), 10, "ok"));
    }
    let source = stream(events).end();
    assert_eq!(compare(&source), (5, 0));
    let (trace, _) = convert(&source);
    let spans: Vec<_> = trace.spans().collect();
    for pair in spans.windows(2) {
        assert_eq!(pair[1].1.parent, Some(pair[0].0));
    }
    let sold = trace.instants().find(|slice| slice.name == "Sold").unwrap();
    assert_eq!(sold.parent, Some(spans[4].0));
}

/// Requests with spans at the same time.
fn requests(count: u64) -> Vec<u8> {
    let mut events = Vec::new();
    for request in 0..count {
        // Four requests overlap. Each lasts 40 µs, and one of its spans outlasts it.
        let (at, id) = (100 + request * 10, 1 + request * 10);
        let of = |span: u64, parent: u64| {
            let trace = (request % 250 + 1) as u8;
            place(trace, id + span, if parent == 0 { 0 } else { id + parent - 1 })
        };
        let [root, left, right, inner, late] = [of(0, 0), of(1, 1), of(2, 1), of(3, 2), of(4, 1)];
        events.extend([
            event(at, START, root),
            event(at + 1, PAY_START, left),
            event(at + 2, PAY_START, right),
            event(at + 3, PAY_START, inner),
            event(at + 4, PAY_START, late),
            event(at + 35, PAY_STOP, inner),
            event(at + 36, PAY_STOP, left),
            event(at + 37, PAY_STOP, right),
            stop(at + 39, root, 39, "ok"),
            event(at + 42, PAY_STOP, late),
        ]);
    }
    stream(events).end()
}

/// The spans of a request are below each other in its lane, and those that run at the same time
/// beside each other. Requests that follow each other have one lane.
#[test]
fn requests_have_lanes() {
    const REQUESTS: u64 = 3000;
    let (trace, _) = convert(&requests(REQUESTS));
    let slices: BTreeMap<_, _> =
        trace.spans().map(|(place, slice)| (id(slice).to_owned(), (place, slice))).collect();
    // The last ones are interrupted by no other, so some of their spans are slices of the thread.
    for request in 0..REQUESTS - 4 {
        let slice = |span| {
            let (place, slice) = slices[&format!("{:016x}", 1 + request * 10 + span)];
            (place, slice, lane_of(slice, &trace).0)
        };
        let [root, left, right, inner, late] = [0, 1, 2, 3, 4].map(slice);
        assert_eq!(left.1.parent, Some(root.0), "{request}");
        assert_eq!(inner.1.parent, Some(left.0), "{request}");
        for beside in [right, late] {
            assert_eq!((beside.1.parent, beside.2), (None, root.2), "{request}");
        }
    }
    let lanes = trace.tracks.values().filter(|track| track.name.starts_with("request lane"));
    // The last span of a request ends when the fifth has begun.
    assert_eq!(lanes.count(), 5);
    assert!(trace.tracks.len() < 25, "{}", trace.tracks.len());
}

#[test]
fn random_programs() {
    let (mut on_threads, mut on_their_own) = (0, 0);
    for seed in 1..=60 {
        let mut random = Random::new(seed);
        let mut events = Vec::new();
        // A thread that calls and returns, and now and then begins a span that ends elsewhere.
        let (mut stack, mut others) = (Vec::<u64>::new(), Vec::<(u64, u64)>::new());
        let coarse = 1 + random.below(3);
        let (mut at, mut next) = (100, 0);
        for _ in 0..200 {
            at += random.below(coarse + 1);
            let around = stack.last().copied().unwrap_or(0);
            match random.below(10) {
                0..=3 => {
                    next += 1;
                    events.push(event(at, START, place(1, next, around)));
                    stack.push(next);
                }
                4..=6 => {
                    if let Some(span) = stack.pop() {
                        let parent = stack.last().copied().unwrap_or(0);
                        events.push(stop(at, place(1, span, parent), 1, "ok"));
                    }
                }
                7 => {
                    next += 1;
                    events.push(event(at, PAY_START, place(1, next, around)));
                    others.push((next, around));
                }
                8 if !others.is_empty() => {
                    let which = random.below(others.len() as u64) as usize;
                    let (span, parent) = others.swap_remove(which);
                    events.push(event(at, PAY_STOP, place(1, span, parent)));
                }
                _ => events.push(event(at, SOLD, place(1, around.max(1), 0))),
            }
        }
        let (threads, own) = compare(&stream(events).end());
        (on_threads, on_their_own) = (on_threads + threads, on_their_own + own);
    }
    assert!(on_threads > 1000 && on_their_own > 500, "{on_threads} {on_their_own}");
}

/// The same number of spans, with the same times, as in what the reference reader computes.
#[test]
fn activities_of_dotnet() {
    if left_out() {
        return;
    }
    let mut found = 0;
    for path in dotnet_traces() {
        let (on_threads, on_their_own) = compare(&fs::read(&path).unwrap());
        found += on_threads + on_their_own;
    }
    assert!(found == 0 || found >= 180, "{found}");
}

/// Perfetto itself finds the same slices, with the same parents, flows and arguments.
#[test]
fn judge_perfetto_finds_the_same() {
    if left_out() {
        return;
    }
    let agreed = Agreed::open("tests/command/reference/perfetto.agreed");
    let folder = tempfile::tempdir().unwrap();
    let sources = [("samples", samples()), ("counters", counters()), ("requests", requests(30))];
    let mut sources = Vec::from(sources.map(|(name, source)| (name.to_owned(), source)));
    for path in dotnet_traces() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        sources.push((name, fs::read(&path).unwrap()));
    }
    let compare = |name: &str, source: &[u8]| {
        let path = folder.path().join(format!("{name}.pftrace"));
        let output = nettrace(&["convert", "-", path.to_str().unwrap()], source);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let bytes = fs::read(&path).unwrap();
        let trace = Trace::read(&bytes);
        let queries = [
            "select count(*), sum(case when dur > 0 then dur else 0 end), sum(dur = -1) from slice",
            "select count(*) from flow",
            "select count(*), count(distinct callsite_id) from perf_sample",
            "select count(*) from slice join args using (arg_set_id) where key like 'debug.%'",
            "select name, value from stats where value != 0 and severity != 'info'",
            "select s.ts, s.dur, s.name, s.category, p.name from slice s left join slice p \
             on s.parent_id = p.id and p.dur != 0 order by s.ts, s.dur desc, s.name limit 900",
            // Perfetto counts samples in tracks of its own.
            "select count(*), count(distinct track_id), sum(value) from counter \
             where track_id not in (select id from perf_counter_track)",
        ];
        agreed.or_ask(&[&bytes, queries.concat().as_bytes()], || {
            let Some(answers) = perfetto::ask(&path, &queries) else { return false };
            perfetto::screens(&path);
            compare_answers(name, &trace, &answers);
            true
        });
    };
    // Each takes seconds to start Perfetto, and mostly waits.
    thread::scope(|scope| {
        for some in sources.chunks(sources.len().div_ceil(3)) {
            scope.spawn(|| some.iter().for_each(|(name, source)| compare(name, source)));
        }
    });
}

/// Compares what Perfetto has found with what we read of the same file.
fn compare_answers(name: &str, trace: &Trace, answers: &[Vec<Vec<Value>>]) {
    let duration = |slice: &Slice| slice.end.map_or(0, |end| end - slice.start);
    let slices = &trace.slices;
    let numbers = [
        slices.len() as i64,
        slices.iter().map(duration).sum(),
        slices.iter().filter(|slice| slice.end.is_none()).count() as i64,
    ];
    assert_eq!(answers[0], [numbers.map(|number| json!(number)).to_vec()], "{name}");
    let sources: Vec<_> = slices.iter().flat_map(|slice| &slice.flows).collect();
    let flows = slices.iter().flat_map(|slice| &slice.last_flows);
    let flows = flows.filter(|flow| sources.contains(flow)).count();
    assert_eq!(answers[1], [[json!(flows)]], "{name}");
    let stacks = trace.samples.iter().map(|sample| &sample.stack);
    let distinct: std::collections::BTreeSet<_> = stacks.collect();
    let samples = [json!(trace.samples.len()), json!(distinct.len())];
    assert_eq!(answers[2], [samples], "{name}");
    let arguments: usize = slices.iter().map(arguments).sum();
    assert_eq!(answers[3], [[json!(arguments)]], "{name}");
    assert!(answers[4].is_empty(), "{name}: Perfetto found mistakes: {:?}", answers[4]);
    let mut rows: Vec<_> = slices
        .iter()
        .map(|slice| {
            // To Perfetto, an event is inside of another one of the same time.
            let around = slice.parent.map(|place| &trace.slices[place]);
            let around = around.filter(|around| duration(around) != 0).map(|around| &*around.name);
            let start = slice.start + (1 << 34);
            (start, slice.end.map_or(-1, |end| end - slice.start), slice, around)
        })
        .collect();
    rows.sort_by_key(|(start, duration, slice, _)| (*start, -duration, &*slice.name));
    for (row, (start, duration, slice, around)) in answers[5].iter().zip(&rows) {
        let wanted = json!([start, duration, slice.name, slice.category, around]);
        assert_eq!(json!(row), wanted, "{name}");
    }
    let tracks: std::collections::BTreeSet<_> =
        trace.counters.iter().map(|(track, ..)| track).collect();
    let sum: f64 = trace.counters.iter().map(|(.., value)| value).sum();
    let sum = if trace.counters.is_empty() { Value::Null } else { json!(sum) };
    let counters = [json!(trace.counters.len()), json!(tracks.len()), sum];
    assert_eq!(answers[6], [counters], "{name}");
}

/// How many arguments Perfetto makes of the annotations of a slice. It keeps one of each name.
fn arguments(slice: &Slice) -> usize {
    let mut names = std::collections::BTreeSet::new();
    slice.annotations.iter().for_each(|(name, value)| leaves(name, value, &mut names));
    names.len()
}

fn leaves(name: &str, value: &perfetto::Value, names: &mut std::collections::BTreeSet<String>) {
    match value {
        perfetto::Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                leaves(&format!("{name}[{index}]"), value, names);
            }
        }
        perfetto::Value::Dict(members) => {
            for (member, value) in members {
                leaves(&format!("{name}.{member}"), value, names);
            }
        }
        perfetto::Value::Nothing => {}
        _ => drop(names.insert(name.to_owned())),
    }
}

/// A trace says how its program is called, and so do the tracks of its process. In a merged trace
/// each recording has a process.
#[test]
fn processes_are_called_by_their_programs() {
    let memory = MemorySink::new();
    let session = Session::builder().sink(memory.clone()).start().unwrap();
    session.finish().unwrap();
    let trace = memory.bytes();
    let program = env::current_exe().unwrap();
    let program = program.file_name().unwrap().to_str().unwrap();
    let names = |trace: &[u8]| -> Vec<(u64, String)> {
        let output = nettrace(&["convert", "-", "-", "--to", "chrome"], trace);
        let json: Value = serde_json::from_str(stdout(&output)).unwrap();
        let all = json["traceEvents"].as_array().unwrap().iter();
        let all = all.filter(|it| it["name"] == "process_name");
        let name = |it: &Value| it["args"]["name"].as_str().unwrap().to_owned();
        // The last name of a process counts.
        let names: BTreeMap<_, _> = all.map(|it| (it["pid"].as_u64().unwrap(), name(it))).collect();
        names.into_iter().collect()
    };
    let pid = u64::from(std::process::id());
    assert_eq!(names(&trace), [(pid, format!("{program} ({pid})"))]);
    let (perfetto, _) = convert(&trace);
    let own = perfetto.tracks.values().filter(|track| track.pid == Some(pid));
    assert!(own.clone().any(|track| track.name == program), "{:?}", perfetto.tracks);

    let merged = Stream::with_keys(&[
        ("1/ProcessId", "7"),
        ("2/ProcessId", "8"),
        ("x/ProcessId", "9"),
        ("1/process.executable.name", "shop"),
        ("2/process.executable.name", "mail"),
    ]);
    let merged = merged.end();
    assert_eq!(names(&merged)[..2], [(7, "shop (7)".to_owned()), (8, "mail (8)".to_owned())]);
}
