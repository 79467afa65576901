//! Spans as the macros record them: those of one event, which the command shows in every format,
//! and those of functions that share a name.

mod convert_support;
mod program;

use convert_support::convert;
use nettrace_reader::heph;
use nettrace_writer::{Emit, Format, Session, TraceEvent, TraceSpan, sink::MemorySink, traced};
use program::{nettrace, stdout, strict_json};
use serde_json::{Value, json};

#[derive(TraceEvent)]
#[trace_event(provider = "Shop")]
struct Note {
    number: u32,
}

#[traced(provider = "Shop")]
fn order() {
    pay(42);
}

#[traced(provider = "Shop", mode = single, fields = [cents])]
fn pay(cents: u32) {
    Note { number: cents }.emit();
    let mut span = Pack { name: "tea" }.enter();
    Note { number: 1 }.emit();
    span.record_weight(7);
}

#[derive(TraceEvent)]
#[trace_event(provider = "Search", name = "found", message = "{query}: {hits} hits")]
struct Found<'a> {
    query: &'a str,
    hits: u32,
    peer: Option<&'a str>,
    detail: &'a str,
    ids: &'a [u8],
}

#[derive(TraceEvent)]
#[trace_event(provider = "Search", name = "found")]
struct NotFound<'a> {
    query: &'a str,
}

#[traced(provider = "Search", fields = [peer])]
fn search(peer: Option<&str>, query: &str) {
    Found { query: "tea", hits: 0, peer, detail: "", ids: &[] }.emit();
    NotFound { query }.emit();
    Found { query, hits: 3, peer: Some("10.0.0.1"), detail: "warm", ids: &[7] }.emit();
}

#[derive(TraceSpan)]
#[trace_event(provider = "Shop", name = "pack", mode = single, later = [weight: u8])]
struct Pack<'a> {
    name: &'a str,
}

fn printed(args: &[&str], trace: &[u8]) -> Vec<Value> {
    let output = nettrace(args, trace);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
    stdout(&output).lines().map(strict_json).collect()
}

/// The one tree of a trace of any format.
fn check(trace: &[u8], which: &str) {
    let info = printed(&["info", "--json", "-"], trace);
    let keys = ["spans", "spans_without_end", "spans_without_start"];
    assert_eq!(keys.map(|key| &info[0][key]), [&json!(3), &json!(0), &json!(0)], "{which}");

    let trees = printed(&["tree", "--json", "-"], trace);
    let spans = trees[0]["spans"].as_array().unwrap();
    let field = |name: &str| spans.iter().map(|span| span[name].clone()).collect::<Vec<_>>();
    assert_eq!(field("name"), ["order", "pay", "pack"]);
    assert_eq!(field("state"), ["ended", "single", "single"]);
    assert_eq!(field("depth"), [0, 1, 2]);
    assert_eq!(field("outcome"), ["ok", "ok", "ok"]);
    assert_eq!([&spans[1]["parent"], &spans[2]["parent"]], [&spans[0]["span"], &spans[1]["span"]]);
    let pay = json!({ "cents": 42 });
    assert_eq!((&spans[1]["start"], &spans[1]["stop"]["fields"]), (&Value::Null, &pay));
    let pack = &spans[2]["stop"]["fields"];
    assert_eq!((&pack["name"], &pack["polls"]), (&json!("tea"), &json!(0)));
    let inside = |at: usize| spans[at]["events"].as_array().unwrap().len();
    assert_eq!([inside(0), inside(1), inside(2)], [0, 1, 1]);
    let number = |span: &Value, name: &str| span[name].as_i64().unwrap();
    for (outer, inner) in [(&spans[0], &spans[1]), (&spans[1], &spans[2])] {
        let (start, end) = (
            number(inner, "since_start_ns"),
            number(inner, "since_start_ns") + number(inner, "duration_ns"),
        );
        // Durations are measured by another clock than times where there is no counter.
        assert!(start + 1_000_000 >= number(outer, "since_start_ns"), "{outer} {inner}");
        let outer_end = number(outer, "since_start_ns") + number(outer, "duration_ns");
        assert!(end <= outer_end + 1_000_000, "{outer} {inner}");
    }
}

/// Checks the packets of a Heph trace.
fn check_heph(trace: &[u8]) {
    let mut reader = heph::Reader::new(trace);
    let mut spans = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let id = |wanted: &str| {
            let found = event.attributes().map(Result::unwrap).find(|(name, _)| *name == wanted);
            found.map(|(_, value)| format!("{value:?}"))
        };
        if event.start != event.end {
            spans.push((event.description.to_owned(), id("@span"), id("@parent")));
        }
    }
    let names: Vec<_> = spans.iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["pack", "pay", "order"]);
    assert_eq!([&spans[0].2, &spans[1].2], [&spans[1].1, &spans[2].1]);
}

#[test]
fn the_command_shows_them_in_every_format() {
    let formats = [Format::V6, Format::V5, Format::V4, Format::Heph];
    let sessions = formats.map(|format| {
        let sink = MemorySink::new();
        let builder = Session::builder().sink(sink.clone()).provider("Shop").format(format);
        (format, sink, builder.start().unwrap())
    });
    order();
    for (format, sink, session) in sessions {
        assert_eq!(session.finish().unwrap().written, 6);
        let bytes = sink.bytes();
        if format == Format::Heph {
            check_heph(&bytes);
        }
        check(&bytes, &format!("{format:?}"));
        check(&convert(&bytes, "v4").0, &format!("{format:?} as V4"));
        // Version 4 has no opcodes, so `order` is only known by its name there.
        check(&convert(&bytes, "v6").0, &format!("{format:?} as V6"));
        check(&convert(&bytes, "v5").0, &format!("{format:?} as V5"));
        check_heph(&convert(&bytes, "heph").0);
    }
}

mod cart {
    #[nettrace_writer::traced(provider = "Namesakes", fields = [x])]
    pub(crate) fn get(x: u64) {
        let _ = x;
        super::stock::get();
    }
}

mod stock {
    #[nettrace_writer::traced(provider = "Namesakes", ret)]
    pub(crate) fn get() -> u8 {
        7
    }
}

/// The data of the page that `report` writes.
fn page(trace: &[u8]) -> Value {
    let output = nettrace(&["report", "-", "-o", "-"], trace);
    let (_, rest) = stdout(&output).split_once("id=\"data\">").expect("the page has data");
    strict_json(rest.split_once("</script>").expect("the data ends").0)
}

#[test]
fn functions_of_one_name_are_told_apart() {
    let record = |format| {
        let memory = MemorySink::new();
        let session = Session::builder().sink(memory.clone()).format(format);
        let session = session.provider("Namesakes").start().unwrap();
        cart::get(5);
        stock::get();
        let stats = session.finish().unwrap();
        assert_eq!((stats.attempted, stats.written), (6, 6));
        memory.bytes()
    };
    let trace = record(Format::V6);
    let is_of = |text: &str, module: &str| {
        text.contains(&format!("(single_spans::{module}, ")) && text.contains("single_spans.rs:")
    };

    // `dump` knows that there are two from the first event of the second type on.
    let dumped = stdout(&nettrace(&["dump", "-"], &trace)).to_owned();
    let lines: Vec<_> = dumped.lines().collect();
    let modules = lines.iter().map(|line| (is_of(line, "cart"), is_of(line, "stock")));
    let [none, cart, stock] = [(false, false), (true, false), (false, true)];
    let expected = [none, stock, none, cart, stock, stock];
    assert_eq!(modules.collect::<Vec<_>>(), expected, "{dumped}");
    let places = printed(&["dump", "--json", "-"], &trace);
    assert!(is_of(&format!("({}", places[4]["place"].as_str().unwrap()), "stock"), "{places:?}");

    let tree = stdout(&nettrace(&["tree", "-"], &trace)).to_owned();
    let spans: Vec<_> = tree.lines().filter(|line| line.contains("Namesakes/get ")).collect();
    let modules: Vec<_> =
        spans.iter().map(|line| (is_of(line, "cart"), is_of(line, "stock"))).collect();
    assert_eq!(modules, [cart, stock, stock], "{tree}");
    assert!(!tree.contains("no end") && !tree.contains("no start"), "{tree}");
    let trees = printed(&["tree", "--json", "-"], &trace);
    let place = trees[0]["spans"][1]["place"].as_str().unwrap();
    assert!(place.starts_with("single_spans::stock, "), "{place}");

    let info = printed(&["info", "--json", "-"], &trace);
    let page = page(&trace);
    assert_eq!(page["types"], info[0]["types"]);
    let types = info[0]["types"].as_array().unwrap();
    assert_eq!(types.len(), 4);
    assert!(types.iter().all(|ty| ty["place"].is_string()), "{types:?}");
    let info = stdout(&nettrace(&["info", "-"], &trace)).to_owned();
    assert!(info.contains("; single_spans::cart, "), "{info}");
    let latencies = page["latencies"].as_array().unwrap();
    let mut names: Vec<_> = latencies.iter().map(|row| row["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert!(names[0].starts_with("get (single_spans::cart, "), "{names:?}");
    assert!(names[1].starts_with("get (single_spans::stock, "), "{names:?}");
    assert_eq!(names.len(), 2);

    // Without places, the ids are distinct, and the spans are whole.
    for format in [Format::V5, Format::V4, Format::Heph] {
        let info = printed(&["info", "--json", "-"], &record(format));
        let keys = ["spans", "spans_without_end", "spans_without_start"];
        assert_eq!(keys.map(|key| &info[0][key]), [&json!(3), &json!(0), &json!(0)], "{format}");
    }
}

/// `tree` leaves out what says nothing, and the rest of long texts, unless it is asked for. `dump`
/// has everything. Both tell events of one name apart.
#[test]
fn lines_for_people_are_short() {
    let memory = MemorySink::new();
    let session = Session::builder().sink(memory.clone()).provider("Search").start().unwrap();
    let long = "é".repeat(600);
    search(None, &long);
    assert_eq!(session.finish().unwrap().written, 5);
    let trace = memory.bytes();
    let lines = |args: &[&str]| -> Vec<String> {
        let text = stdout(&nettrace(args, &trace)).to_owned();
        let of_events = text.lines().filter(|line| line.contains("Search/"));
        of_events.map(|line| line.split_once("Search/").unwrap().1.to_owned()).collect()
    };
    let place = |number: usize, line: &str| {
        assert!(line.starts_with("found (single_spans, "), "{number}: {line}");
        line.split_once(')').unwrap().1.to_owned()
    };
    let tree = lines(&["tree", "-"]);
    assert!(!tree[0].contains("peer"), "{}", tree[0]);
    assert_eq!(tree[1], "found: tea: 0 hits");
    assert_eq!(place(2, &tree[2]), format!(" query=\"{}… (102 more)", "é".repeat(499)));
    let message =
        format!(": {}… (108 more) peer=\"10.0.0.1\" detail=\"warm\" ids=0x07", "é".repeat(500));
    assert_eq!(place(3, &tree[3]), message);

    let full = lines(&["tree", "--full", "-"]);
    assert!(full[0].contains("] peer=none"), "{}", full[0]);
    assert_eq!(full[1], "found: tea: 0 hits peer=none detail=\"\" ids=0x");
    let of_dump = |line: &str| line.split(" {").next().unwrap().to_owned();
    let dump = lines(&["dump", "-"]);
    assert!(dump[1].ends_with(": tea: 0 hits peer=none detail=\"\" ids=0x"), "{}", dump[1]);
    for (number, line) in [(2, format!(" query=\"{long}\"")), (3, format!(": {long}: 3 hits"))] {
        assert!(place(number, &full[number]).starts_with(&line), "{}", full[number]);
        assert!(of_dump(&dump[number]).contains(&line), "{}", dump[number]);
    }
}
