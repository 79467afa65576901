//! Runs `nettrace report`, and compares each number of the page with `info` and `tree`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use nettrace_writer::{Session, TraceSpan, sink::MemorySink, traced};
use serde_json::{Value, json};
use testkit::{
    reference::dotnet_traces,
    streams::{EventType, Row, Stream},
};

use crate::{
    program::{nettrace, stderr, stdout, strict_json},
    spans::{
        self, PAY_START, PAY_STOP, Place, RESUME, SOLD, START, SUSPEND, event, labels, place,
        single, stop, stream,
    },
};

/// The data of the page of a trace, and the exit code.
fn report(trace: &[u8], args: &[&str]) -> (Value, Option<i32>) {
    let output = nettrace(&[&["report", "-", "-o", "-"], args].concat(), trace);
    let page = stdout(&output);
    assert!(page.starts_with("<!doctype html>"), "{}", stderr(&output));
    (data(page), output.status.code())
}

/// The data of a page.
pub(crate) fn data(page: &str) -> Value {
    let begin = "<script type=\"application/json\" id=\"data\">";
    let (_, rest) = page.split_once(begin).expect("the page has data");
    let (data, _) = rest.split_once("</script>").expect("the data ends");
    strict_json(data)
}

fn lines(args: &[&str], trace: &[u8]) -> Vec<Value> {
    stdout(&nettrace(args, trace)).lines().map(strict_json).collect()
}

/// Compares everything in a page that `info` and `tree` show too.
fn compare(name: &str, trace: &[u8]) -> Value {
    let (page, code) = report(trace, &["--slow", "1000"]);
    let info = &lines(&["info", "--json", "-"], trace)[0];
    assert_eq!(code, Some(i32::from(!info["damage"].is_null())), "{name}");
    for key in [
        "bytes",
        "events",
        "lost",
        "step_backs",
        "payload_bytes",
        "undefined_stacks",
        "spans",
        "spans_without_end",
        "spans_without_start",
        "uncounted_spans",
        "damage",
        "start",
    ] {
        assert_eq!(page[key], info[key], "{name}: {key}");
    }
    let format = format!("NetTrace {}.{}", info["major_version"], info["minor_version"]);
    assert_eq!(page["format"], json!(format), "{name}");
    for (ours, theirs) in [("first", "first_event"), ("last", "last_event")] {
        for key in ["time", "since_start_ns"] {
            assert_eq!(page[ours][key], info[theirs][key], "{name}: {ours} {key}");
        }
    }
    for (ours, theirs) in array(&page["types"]).iter().zip(array(&info["types"])) {
        assert_eq!(ours, theirs, "{name}");
    }
    let shown = array(&page["types"]).len() as u64 + number(&page["other_types"]["rows"]);
    assert_eq!(shown, array(&info["types"]).len() as u64, "{name}: types");
    for (ours, theirs) in array(&page["threads"]).iter().zip(array(&info["threads"])) {
        for key in ["name", "process", "id", "index", "events", "lost"] {
            assert_eq!(ours[key], theirs[key], "{name}: {key} of a thread");
        }
    }
    let shown = array(&page["threads"]).len() as u64 + number(&page["other_threads"]["rows"]);
    assert_eq!(shown, array(&info["threads"]).len() as u64, "{name}: threads");
    compare_rates(name, &page, info);
    compare_spans(name, &page, &lines(&["tree", "--json", "-"], trace));
    page
}

/// The intervals of `info` are wider by a power of two.
fn compare_rates(name: &str, page: &Value, info: &Value) {
    let (ours, theirs) = (&page["rate"], &info["rate"]);
    if theirs.is_null() {
        assert!(ours.is_null(), "{name}");
        return;
    }
    let mut sums = Vec::new();
    for provider in array(&ours["providers"]) {
        let counts = array(&provider["counts"]);
        sums.resize(counts.len(), 0);
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += number(count));
        let types = array(&info["types"]).iter().filter(|ty| ty["provider"] == provider["name"]);
        let events: u64 = types.map(|ty| number(&ty["events"])).sum();
        assert_eq!(number(&provider["events"]), events, "{name}: {}", provider["name"]);
    }
    let first = ours["first_ns"].as_i64().unwrap() as f64;
    let length = ours["interval_ns"].as_f64().unwrap();
    let Some(wide) = theirs["interval_seconds"].as_f64().map(|seconds| seconds * 1e9) else {
        return;
    };
    let wide_first = {
        let ticks = theirs["first_ticks"].as_i64().unwrap() - info["start_ticks"].as_i64().unwrap();
        ticks as f64 / info["ticks_per_second"].as_f64().unwrap() * 1e9
    };
    let mut merged = vec![0; array(&theirs["events"]).len()];
    for (index, sum) in sums.iter().enumerate() {
        let middle = first + (index as f64 + 0.5) * length;
        merged[((middle - wide_first) / wide) as usize] += sum;
    }
    assert_eq!(json!(merged), theirs["events"], "{name}");
    // What a thread did adds up as well.
    for thread in array(&page["threads"]) {
        if let Some(counts) = thread["counts"].as_array() {
            let events: u64 = counts.iter().map(number).sum();
            assert!(events >= number(&thread["events"]), "{name}: {thread}");
        }
    }
}

fn compare_spans(name: &str, page: &Value, trees: &[Value]) {
    // Spans of which only events are there have neither name nor duration.
    let is_known = |span: &&Value| span["state"] != "unknown";
    let spans = trees.iter().flat_map(|tree| array(&tree["spans"])).filter(is_known);
    let mut named: BTreeMap<(String, String), (Vec<u64>, i64, u64)> = BTreeMap::new();
    let mut own = 0;
    for span in spans {
        let key = (text(&span["provider"]), text(&span["name"]));
        let (durations, owns, open) = named.entry(key).or_default();
        durations.extend(span["duration_ns"].as_i64().map(|nanos| nanos.max(0) as u64));
        *owns += span["self_ns"].as_i64().unwrap_or(0);
        *open += u64::from(span["state"] == "without_end");
        own += span["self_ns"].as_i64().unwrap_or(0);
    }
    named.retain(|_, (durations, _, open)| durations.len() as u64 + *open > 0);
    assert_eq!(array(&page["latencies"]).len(), named.len().min(200), "{name}");
    for latency in array(&page["latencies"]) {
        let key = (text(&latency["provider"]), text(&latency["name"]));
        let (durations, own, open) = named.get_mut(&key).unwrap_or_else(|| panic!("{key:?}"));
        durations.sort_unstable();
        let rank = |percent: usize| match durations.len() {
            0 => 0,
            count => durations[(count * percent).div_ceil(100).max(1) - 1],
        };
        let bars: u64 = array(&latency["bars"]).iter().map(|bar| number(&bar[2])).sum();
        let ours = json!([
            latency["count"],
            latency["open"],
            latency["p50_ns"],
            latency["p90_ns"],
            latency["p99_ns"],
            latency["max_ns"],
            latency["own_ns"],
            latency["total_ns"],
            bars,
        ]);
        let theirs = json!([
            durations.len(),
            open,
            rank(50),
            rank(90),
            rank(99),
            rank(100),
            *own as f64,
            durations.iter().sum::<u64>() as f64,
            durations.len(),
        ]);
        assert_eq!(ours, theirs, "{name}: {key:?}");
        assert_eq!(latency["is_exact"], true);
    }
    let total = page["flame"]["total"].as_i64().unwrap_or(0);
    assert_eq!(total, own, "{name}: own times");
    // The slowest trees, and those that are cut.
    let (slowest, cut): (Vec<_>, Vec<_>) =
        trees.iter().partition(|tree| tree["spans"][0]["duration_ns"].is_i64());
    let cut: Vec<_> = cut.into_iter().filter(|tree| is_known(&&tree["spans"][0])).collect();
    assert_eq!(number(&page["cut_trees"]), cut.len() as u64, "{name}");
    compare_trees(name, &page["slowest"], &slowest);
    compare_trees(name, &page["cut"], &cut);
}

fn compare_trees(name: &str, ours: &Value, theirs: &[&Value]) {
    assert_eq!(array(ours).len(), theirs.len().min(1000), "{name}");
    for (ours, theirs) in array(ours).iter().zip(theirs) {
        assert_eq!(ours["trace"], theirs["trace"], "{name}");
        let theirs = array(&theirs["spans"]);
        assert_eq!(
            array(&ours["spans"]).len() as u64 + number(&ours["left_out"]),
            theirs.len() as u64,
            "{name}"
        );
        let keys = ["depth", "duration_ns", "at_least_ns", "state", "outcome", "thread"];
        if ours["left_out"] != 0 {
            assert_eq!(ours["spans"][0]["duration_ns"], theirs[0]["duration_ns"], "{name}");
            continue;
        }
        for (ours, theirs) in array(&ours["spans"]).iter().zip(theirs) {
            for key in keys {
                assert_eq!(ours[key], theirs[key], "{name}: {key} of {ours}");
            }
            assert_eq!(ours["own_ns"], theirs["self_ns"], "{name}: {ours}");
            assert_eq!(ours["start_ns"], theirs["since_start_ns"], "{name}: {ours}");
            let events = array(&ours["events"]).len() as u64 + number(&ours["left_out"]);
            assert_eq!(events, array(&theirs["events"]).len() as u64, "{name}: {ours}");
        }
    }
}

fn array(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("no array: {value}"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

/// A trace with one span of each kind.
fn samples() -> Vec<u8> {
    stream(vec![
        event(100, START, place(0xAB, 1, 0)),
        event(110, PAY_START, Place { has_region: true, ..place(0xAB, 2, 1) }),
        event(120, SOLD, place(0xAB, 2, 1)),
        event(130, SOLD, place(0xAB, 1, 0)),
        single(150, place(0xAB, 3, 2), 20, "ok"),
        event(160, PAY_STOP, place(0xAB, 2, 1)),
        stop(200, place(0xAB, 1, 0), 100, "err"),
        // The caller's span is elsewhere; the child lasts longer than its parent, and the second
        // child begins after it.
        event(300, START, place(0xCD, 11, 10)),
        event(310, PAY_START, place(0xCD, 12, 11)),
        stop(320, place(0xCD, 11, 10), 20, "ok"),
        event(330, PAY_START, place(0xCD, 13, 11)),
        event(340, PAY_STOP, place(0xCD, 12, 11)),
        event(345, PAY_STOP, place(0xCD, 13, 11)),
        // Spans of one event that contain others.
        single(360, place(0x11, 32, 31), 5, "ok"),
        single(370, place(0x11, 33, 31), 25, "ok"),
        single(380, place(0x11, 31, 0), 40, "ok"),
        // The end is missing, then the start.
        event(390, START, place(0xEF, 21, 0)),
        stop(450, place(0xEF, 22, 0), 7, "cancelled"),
        spans::Event { place: None, ..event(500, SOLD, place(0, 0, 0)) },
    ])
    .end()
}

#[test]
fn numbers_are_those_of_info_and_tree() {
    let page = compare("samples", &samples());
    let cut = array(&page["cut"]);
    let texts: Vec<_> = array(&cut[0]["spans"])
        .iter()
        .map(|span| (text(&span["name"]), text(&span["start"]), span["events"].clone()))
        .collect();
    // The span without an end is not among the slowest.
    assert_eq!(texts, [("checkout".into(), "cart=7".into(), json!([]))]);
    let spans = array(&page["slowest"][0]["spans"]);
    assert_eq!(spans[1]["start"], r#"cents=7 {region="north"}"#);
    assert_eq!(spans[1]["events"], json!([[120_000, "I Shop/Sold count=7"]]));
    // Spans of one event are below the one that came after them.
    let names: Vec<_> = array(&page["flame"]["names"]).iter().map(text).collect();
    let path = |mut at: usize| {
        let mut path = Vec::new();
        while at > 0 {
            let node = &page["flame"]["nodes"][at];
            path.insert(0, &*names[number(&node[0]) as usize]);
            at = number(&node[1]) as usize;
        }
        path.join("/")
    };
    let mut paths: Vec<_> = (1..array(&page["flame"]["nodes"]).len()).map(path).collect();
    paths.sort();
    let expected =
        ["checkout", "checkout/pay", "checkout/pay/pack", "pack", "pack/pack"].map(str::to_owned);
    assert_eq!(paths, expected);
}

#[test]
fn random_spans_have_the_numbers_of_tree() {
    for seed in 1..12_u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let (mut events, mut open, mut ended) = (Vec::new(), Vec::<(u64, u64)>::new(), Vec::new());
        let mut id = 0;
        for step in 1..400 {
            let at = step * 10;
            // The parent is under way, has ended, is elsewhere, or there is none.
            let parent = match random(6) {
                0 => 0,
                1 if !ended.is_empty() => ended[random(ended.len() as u64) as usize],
                2 => 5_000 + random(3),
                _ => open.last().map_or(0, |(id, _)| *id),
            };
            match random(8) {
                0..=2 => {
                    id += 1;
                    events.push(event(at, START, place(7, id, parent)));
                    open.push((id, parent));
                }
                3..=5 if !open.is_empty() => {
                    let (id, parent) = open.remove(random(open.len() as u64) as usize);
                    events.push(stop(at, place(7, id, parent), 10, "ok"));
                    ended.push(id);
                }
                6 => {
                    id += 1;
                    let parent = open.last().map_or(0, |(id, _)| *id);
                    events.push(single(at, place(7, id, parent), random(60), "err"));
                }
                _ => {
                    if let Some((id, parent)) = open.last() {
                        events.push(event(at, SOLD, place(7, *id, *parent)));
                    }
                }
            }
        }
        compare(&format!("seed {seed}"), &stream(events).end());
    }
}

#[test]
fn traces_of_dotnet() {
    for path in dotnet_traces() {
        let name = path.file_name().unwrap().to_string_lossy();
        let page = compare(&name, &fs::read(&path).unwrap());
        compare_samples(&name, &page, &path);
    }
}

/// The stacks of samples are those of the target `folded`.
fn compare_samples(name: &str, page: &Value, path: &std::path::Path) {
    let path = path.to_str().unwrap();
    let output = nettrace(&["convert", path, "-", "--to", "folded", "--by", "cpu"], b"");
    let mut own = BTreeMap::<_, u64>::new();
    for line in stdout(&output).lines() {
        let (stack, weight) = line.rsplit_once(' ').unwrap();
        let leaf = stack.rsplit(';').next().unwrap().to_owned();
        *own.entry(leaf).or_default() += weight.parse::<u64>().unwrap();
    }
    let samples = &page["samples"];
    if samples.is_null() {
        assert_eq!(own.values().sum::<u64>(), 0, "{name}");
        return;
    }
    // `folded` may state the time that samples stand for.
    let interval = own.values().sum::<u64>() / number(&samples["total"]);
    assert!(interval > 0, "{name}");
    for row in array(&samples["top"]).iter().filter(|row| row[1] != 0) {
        let frame = text(&samples["names"][number(&row[0]) as usize]);
        // `folded` cannot have semicolons in names.
        let theirs = own.get(&frame).or_else(|| own.get(&frame.replace(';', ":")));
        assert_eq!(theirs, Some(&(number(&row[1]) * interval)), "{name}: {frame}");
    }
}

#[test]
fn a_trace_that_is_cut_says_so() {
    let trace = samples();
    for cut in [trace.len() - 1, trace.len() - 40, trace.len() / 2] {
        let page = compare(&format!("cut at {cut}"), &trace[..cut]);
        assert!(page["damage"].is_string());
    }
}

/// Text of a trace stays text.
#[test]
fn hostile_names() {
    let long = "x".repeat(65_000);
    let names =
        ["</script><script>alert(1)</script>", "<!--", "\"'&\0\u{2028}\u{2029}\u{202E}", "", &long];
    let mut trace = Stream::new();
    trace.thread(5);
    let mut rows = Vec::new();
    for (index, name) in (1..).zip(names) {
        trace.metadata(
            &EventType::new(index, name, index, &name[..name.len().min(40)])
                .optional(&[8, 4, 1, 0]),
        );
        rows.push(Row::new(5, index as u32, 1000 + index * 10).metadata(index as u32));
    }
    trace.events(&rows);
    let trace = trace.end();
    let output = nettrace(&["report", "-", "-o", "-", "--title", names[0]], &trace);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let page = stdout(&output);
    assert!(!page.contains("alert(1)</script>") && !page.contains('\0'));
    let data = data(page);
    assert_eq!(data["title"], names[0]);
    let mut shown: Vec<_> = array(&data["types"]).iter().map(|ty| text(&ty["provider"])).collect();
    let visible = [names[0], names[1], "\"'&\\u{0}\\u{2028}\\u{2029}\\u{202e}", ""];
    shown.sort_by_key(|name| visible.iter().position(|it| it == name));
    assert!(shown[0].ends_with('…') && shown[0].chars().count() == 301, "{}", shown[0]);
    assert_eq!(shown[1..], visible);
}

#[test]
fn files_are_complete_or_absent() {
    let folder = tempfile::tempdir().unwrap();
    let (file, page) = (folder.path().join("shop.nettrace"), folder.path().join("shop.html"));
    fs::write(&file, samples()).unwrap();
    let args = ["report", file.to_str().unwrap(), "-o", page.to_str().unwrap()];
    let output = nettrace(&args, b"");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).starts_with("# events=19 lost=0 bytes="), "{}", stderr(&output));
    assert_eq!(data(&fs::read_to_string(&page).unwrap())["title"], "shop.nettrace");
    let again = nettrace(&args, b"");
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("--force"), "{}", stderr(&again));
    assert_eq!(nettrace(&[&args[..], &["--force"]].concat(), b"").status.code(), Some(0));
}

/// The page of a Heph trace has the numbers of `info`, and the spans of the trace before.
#[test]
fn heph_traces() {
    let trace = samples();
    let (before, _) = report(&trace, &["--slow", "1000"]);
    let heph = nettrace(&["convert", "-", "-", "--to", "heph"], &trace).stdout;
    let (page, code) = report(&heph, &["--slow", "1000"]);
    assert_eq!(code, Some(0));
    let info = &lines(&["info", "--json", "-"], &heph)[0];
    for key in ["format", "bytes", "events", "lost", "spans", "damage"] {
        assert_eq!(page[key], info[key], "{key}");
    }
    for key in ["spans_without_end", "spans_without_start", "latencies", "flame"] {
        assert_eq!(page[key], before[key], "{key}");
    }
    compare_spans("heph", &page, &lines(&["tree", "--json", "-"], &heph));
    // What was read of a damaged one is shown, and the page says so.
    let (page, code) = report(&heph[..heph.len() - 1], &[]);
    assert_eq!(code, Some(1));
    let damage = text(&page["damage"]);
    assert!(damage.contains("ends"), "{damage}");
    let events = heph.len() as u64 - number(&page["bytes"]);
    assert!((1..1000).contains(&events), "{}", page["bytes"]);
}

#[traced(
    provider = "Report-Shop",
    key_values = [("nettrace.dimension", "route")],
    fields = [route, status]
)]
fn answer(route: &str, status: u16) {
    render(status);
}

#[traced(provider = "Report-Shop", mode = single, fields = [status])]
fn render(status: u16) {
    let _ = status;
}

/// Spans of one name are told apart by their dimension: the one that the type marks, or the one
/// that is asked for.
#[test]
fn spans_are_told_apart_by_a_dimension() {
    let memory = MemorySink::new();
    let session = Session::builder().sink(memory.clone()).provider("Report-Shop").start().unwrap();
    for number in 0..100 {
        let route = ["/cart", "/orders", ""][number % 3];
        answer(route, 200 + number as u16 % 2);
    }
    // More than are distinguished.
    for number in 0..100 {
        answer(&format!("/item/{number}"), 404);
    }
    session.finish().unwrap();
    let trace = memory.bytes();
    let names = |args: &[&str]| -> BTreeMap<String, u64> {
        let (page, code) = report(&trace, args);
        assert_eq!(code, Some(0));
        let all = array(&page["latencies"]).iter();
        all.map(|row| (text(&row["name"]), number(&row["count"]))).collect()
    };
    let by_route = names(&[]);
    assert_eq!(by_route["answer /cart"], 34);
    assert_eq!(by_route["answer /orders"], 33);
    assert_eq!((by_route["answer"], by_route["render"]), (33, 200));
    // Two of 64 are named above, and one is the rest.
    assert_eq!((by_route["answer /item/0"], by_route["answer (other)"]), (1, 38));
    assert_eq!(by_route.len(), 1 + 64 + 1 + 1);
    let by_status = names(&["--by", "status"]);
    let expected = [
        ("answer 200", 50),
        ("answer 201", 50),
        ("answer 404", 100),
        ("render 200", 50),
        ("render 201", 50),
        ("render 404", 100),
    ];
    assert_eq!(by_status, expected.map(|(name, count)| (name.to_owned(), count)).into());
    // The stacks of spans have the same names.
    for (args, expected) in [(&[][..], &by_route), (&["--dimension", "status"], &by_status)] {
        let arguments = [&["convert", "-", "-", "--to", "folded", "--by", "spans"], args].concat();
        let output = nettrace(&arguments, &trace);
        let stacks = String::from_utf8(output.stdout).unwrap();
        let paths = stacks.lines().map(|line| line.rsplit_once(' ').unwrap().0);
        let frames = paths.flat_map(|path| path.split(';'));
        let names: BTreeSet<_> =
            frames.map(|frame| frame.strip_prefix("Report-Shop!").unwrap()).collect();
        assert_eq!(names, expected.keys().map(|name| &**name).collect(), "{stacks}");
    }
    let output = nettrace(&["convert", "-", "-", "--to", "perfetto", "--dimension", "x"], &trace);
    assert_eq!(output.status.code(), Some(2));
    // A field of the end alone, and types without the field.
    let by_outcome = names(&["--by", "outcome"]);
    assert_eq!(by_outcome, [("answer ok".to_owned(), 200), ("render ok".to_owned(), 200)].into());
    // Types without the field have the one that they mark.
    assert_eq!(names(&["--by", "no_such_field"]), by_route);
    for (args, says) in [
        (&["report", "-", "--text", "--by", "no_such_field"][..], "named no_such_field\n"),
        (&["report", "-", "--text", "--by", "sttaus"], "named sttaus (is `status` meant?)\n"),
        (&["convert", "-", "-", "--to", "folded", "--dimension", "rout"], "(is `route` meant?)\n"),
        (&["report", "-", "--text", "--by", "outcome"], ""),
    ] {
        let output = nettrace(args, &trace);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        let said = stderr(&output);
        assert_eq!(said.contains("no effect: no event has a field "), !says.is_empty(), "{said}");
        assert!(said.contains(says), "{said}");
    }
}

#[derive(TraceSpan)]
#[trace_event(
    provider = "Report-Ask",
    name = "ask",
    key_values = [("nettrace.dimension", "route")],
    later = [status: u16]
)]
struct Ask {
    route: &'static str,
}

/// Without a value that was asked for, the end of a span has no other one.
#[test]
fn an_end_without_the_value_that_was_asked_for() {
    let memory = MemorySink::new();
    let session = Session::builder().sink(memory.clone()).provider("Report-Ask").start().unwrap();
    for status in [Some(200), None] {
        let mut span = Ask { route: "/cart" }.enter();
        status.into_iter().for_each(|status| span.record_status(status));
    }
    session.finish().unwrap();
    let (page, _) = report(&memory.bytes(), &["--by", "status"]);
    let names: BTreeSet<_> =
        array(&page["latencies"]).iter().map(|row| text(&row["name"])).collect();
    assert_eq!(names, ["ask", "ask 200"].map(str::to_owned).into());
}

/// A type with events for its polls says how long each was.
#[test]
fn the_longest_poll() {
    let span = |id: u64| place(0xAB, id, 0);
    let mut events = vec![event(100, START, span(1)), event(105, START, span(2))];
    for (at, ty, id) in [(110, RESUME, 1), (112, SUSPEND, 1), (120, RESUME, 2), (150, SUSPEND, 2)] {
        events.push(event(at, ty, span(id)));
    }
    events.push(event(160, RESUME, span(1)));
    events.extend([stop(170, span(1), 70, "ok"), stop(180, span(2), 75, "ok")]);
    let trace = stream(events).end();
    let (page, _) = report(&trace, &[]);
    let row = &page["latencies"][0];
    let polls = ["longest_poll_ns", "busy_ns", "polls"].map(|key| number(&row[key]));
    assert_eq!((text(&row["name"]), polls), ("checkout".to_owned(), [30_000, 32_000, 2]));
    let output = nettrace(&["report", "-", "--text"], &trace);
    let text = stdout(&output);
    let head = text.lines().find(|line| line.starts_with("Span ")).unwrap();
    let row = text.lines().find(|line| line.starts_with("Shop/checkout ")).unwrap();
    assert!(head.contains("  longest poll") && row.contains("  30.000µs"), "{text}");
    // Without such events there is no column for them.
    let trace = stream(vec![event(100, START, span(1)), stop(170, span(1), 70, "ok")]).end();
    let output = nettrace(&["report", "-", "--text"], &trace);
    assert!(!stdout(&output).contains("longest poll"), "{}", stdout(&output));
}

/// Fields that become known after a span began have events of their own, as with `tracing`.
#[test]
fn spans_are_told_apart_by_what_is_recorded_later() {
    let ty = |id: u64, name: &str, opcode| {
        EventType::new(id, "Shop", id, name).optional(&[8, 4, 1, opcode])
    };
    let record = ty(2, "askRecord", 0).field("http.status_code", &[8]);
    let inside = ty(4, "Sold", 0).field("http.status_code", &[8]).field("cart", &[8]);
    let other = ty(5, "payRecord", 0).field("http.status_code", &[8]);
    let mut stream = Stream::new();
    stream.thread(5).metadata(&ty(1, "askStart", 1)).metadata(&record);
    stream.metadata(&ty(3, "askStop", 2)).metadata(&inside).metadata(&other);
    let recorded: [&[(u64, u32)]; 4] = [&[(2, 200)], &[(2, 200), (2, 404)], &[], &[(4, 7), (5, 8)]];
    let labels: Vec<_> = (1..=4).map(|id| labels(place(0xAB, id, 0))).collect();
    stream.label_lists(1, &labels.iter().map(|list| &**list).collect::<Vec<_>>());
    let mut rows: Vec<(u64, u32, Vec<u8>)> = Vec::new();
    for (number, recorded) in (1..).zip(recorded) {
        rows.push((1, number, Vec::new()));
        rows.extend(recorded.iter().map(|(ty, status)| {
            (*ty, number, [status.to_le_bytes(), 0_u32.to_le_bytes()].concat())
        }));
        rows.push((3, number, Vec::new()));
    }
    let rows = (1..).zip(&rows).map(|(number, (ty, labels, payload))| {
        let row = Row::new(5, number, 1000 + u64::from(number)).metadata(*ty as u32);
        row.labels(*labels).payload(payload)
    });
    let trace = stream.events(&rows.collect::<Vec<_>>()).end();
    let by = |field: &str| {
        let (page, code) = report(&trace, &["--by", field]);
        assert_eq!(code, Some(0));
        let all = array(&page["latencies"]).iter();
        all.map(|row| (text(&row["name"]), number(&row["count"]))).collect::<BTreeMap<_, _>>()
    };
    let expected = [("ask", 2), ("ask 200", 1), ("ask 404", 1)];
    let expected = expected.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(by("http.status_code"), expected.into());
    // A field that no event tells of its span.
    assert_eq!(by("cart"), [("ask".to_owned(), 4)].into());
    for (args, says) in [
        (&["report", "-", "--text", "--by", "http.status_code"][..], ""),
        (&["report", "-", "--text", "--by", "cart"], "start, end or record of a span has a field"),
        (
            &["convert", "-", "-", "--to", "folded", "--dimension", "http.status_code"],
            "no effect: no start of a span has a field named http.status_code\n",
        ),
    ] {
        let said = stderr(&nettrace(args, &trace)).to_owned();
        assert_eq!(said.contains("no effect"), !says.is_empty(), "{said}");
        assert!(said.contains(says), "{said}");
    }
}

/// A request that was cancelled, or whose handler panicked, had no response with a status.
#[test]
fn zeros_of_a_request_without_a_response() {
    let ty = |id: u64, name: &str, opcode| {
        EventType::new(id, "Shop", id, name).optional(&[8, 4, 1, opcode])
    };
    let ends = [("ok", 200), ("err", 0), ("cancelled", 0), ("panicked", 0), ("cancelled", 404)];
    let mut stream = Stream::new();
    let end = ty(2, "askStop", 2).field("duration", &[12]).field("outcome", &[19, 4]);
    let end = end.field("status", &[8]).field("polls", &[8]).field("busy", &[12]);
    stream.thread(5).metadata(&ty(1, "askStart", 1)).metadata(&end);
    let labels: Vec<_> = (1..=ends.len() as u64).map(|id| labels(place(0xAB, id, 0))).collect();
    stream.label_lists(1, &labels.iter().map(|list| &**list).collect::<Vec<_>>());
    let payloads = ends.map(|(outcome, status)| {
        let mut payload = 50_000_u64.to_le_bytes().to_vec();
        payload.extend((outcome.len() as u16).to_le_bytes());
        payload.extend(outcome.encode_utf16().flat_map(u16::to_le_bytes));
        payload.extend([status, 0].iter().flat_map(|number: &u32| number.to_le_bytes()));
        payload.extend([0; 8]);
        payload
    });
    let mut rows = Vec::new();
    for (number, payload) in (1..).zip(&payloads) {
        let row = |place: u32| Row::new(5, 2 * number + place, 1000 + u64::from(100 * number));
        rows.push(row(0).metadata(1).labels(number));
        rows.push(row(1).metadata(2).labels(number).payload(payload));
    }
    let trace = stream.events(&rows).end();
    let (page, _) = report(&trace, &["--by", "status"]);
    let names =
        array(&page["latencies"]).iter().map(|row| (text(&row["name"]), number(&row["count"])));
    let expected = [("ask", 2), ("ask 0", 1), ("ask 200", 1), ("ask 404", 1)];
    let expected = expected.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(names.collect::<BTreeMap<_, _>>(), expected.into());
    let said = |args: &[&str]| -> Vec<String> {
        let output = nettrace(&[&["tree", "-"], args].concat(), &trace);
        let lines = stdout(&output).lines().filter(|line| line.contains("Shop/ask"));
        lines.map(|line| line.split_once(']').unwrap().1.to_owned()).collect()
    };
    let short = [" -> status=200", " -> status=0", "", "", " -> status=404"];
    assert_eq!(said(&[]), short);
    let full = [200, 0, 0, 0, 404].map(|it| format!(" -> status={it} polls=0 busy=0"));
    assert_eq!(said(&["--full"]), full);
}
