//! Checks the files for Chrome and for the Firefox Profiler by the documented formats: each key
//! that an object must or may have, the type of each value, and what refers to what.
//!
//! Chrome: the document "Trace Event Format", and V8's profiles as Chrome's developer tools read
//! them. Firefox: the profiler's types of a processed profile, version 55.

use std::collections::{BTreeMap, BTreeSet};

use nettrace_reader::Reader;
use nettrace_views::viewers::{Options, View, write};
use serde_json::Value as Json;

use crate::sources::{sources, two_threads, universal};

/// What a value must be.
type Check = fn(&Json) -> bool;

const TEXT: Check = Json::is_string;
const NUMBER: Check = Json::is_number;
const BOOL: Check = Json::is_boolean;
const OBJECT: Check = Json::is_object;
const LIST: Check = Json::is_array;
const COUNT: Check = Json::is_u64;
const ID: Check = |it| it.as_u64().is_some_and(|id| id <= i32::MAX as u64);
const TIME_OR_NULL: Check = |it| it.is_null() || it.is_number();
const TEXTS: Check = |it| it.as_array().is_some_and(|list| list.iter().all(Json::is_string));

/// Checks an object: it has all of some keys, and others only if they are known.
fn check(object: &Json, must: &[(&str, Check)], may: &[(&str, Check)]) {
    let members = object.as_object().unwrap_or_else(|| panic!("no object: {object}"));
    for (key, _) in must {
        assert!(members.contains_key(*key), "{key} is missing in {object}");
    }
    for (key, value) in members {
        let known = must.iter().chain(may).find(|(known, _)| known == key);
        let (_, is_right) = known.unwrap_or_else(|| panic!("{key} is unknown in {object}"));
        assert!(is_right(value), "{key} is {value} in {object}");
    }
}

fn convert(view: View, source: &[u8]) -> Option<Json> {
    let mut events = Reader::new(source).ok()?.sorted();
    let mut out = Vec::new();
    write(view, &mut events, &mut out, &Options::default()).unwrap();
    Some(serde_json::from_slice(&out).unwrap())
}

fn all_sources() -> impl Iterator<Item = (String, Vec<u8>)> {
    let own = [("universal".to_owned(), universal()), ("two threads".to_owned(), two_threads())];
    // A trace of 5 MB takes most of the time and has nothing that others do not have.
    sources().into_iter().chain(own).filter(|(_, source)| source.len() < 2 << 20)
}

/// A time in microseconds as nanoseconds.
fn nanos(micros: &Json) -> i64 {
    (micros.as_f64().unwrap() * 1000.0).round() as i64
}

/// What one phase has beside `ph`, `pid`, `tid`, `ts`, `name` and `cat`.
fn check_phase(event: &Json) {
    let common =
        [("ph", TEXT), ("pid", ID), ("tid", ID), ("ts", NUMBER), ("name", TEXT), ("cat", TEXT)];
    let with = |more: &[(&'static str, Check)]| [&common[..], more].concat();
    let args: (&str, Check) = ("args", OBJECT);
    match event["ph"].as_str().unwrap() {
        "X" => {
            let duration: Check = |it| it.as_f64().is_some_and(|micros| micros >= 0.0);
            check(event, &with(&[("dur", duration)]), &[args]);
        }
        "B" => check(event, &with(&[]), &[args]),
        "b" | "e" | "s" => check(event, &with(&[("id", TEXT)]), &[args]),
        "f" => check(event, &with(&[("id", TEXT), ("bp", |it| it == "e")]), &[args]),
        "i" => {
            let scope: Check = |it| ["g", "p", "t"].iter().any(|scope| it == scope);
            check(event, &with(&[("s", scope)]), &[args]);
        }
        "C" => {
            let numbers: Check = |it| {
                it.as_object().is_some_and(|it| !it.is_empty() && it.values().all(Json::is_number))
            };
            check(event, &with(&[("args", numbers)]), &[]);
        }
        "M" => {
            check(event, &with(&[args]), &[]);
            assert!(["process_name", "thread_name"].iter().any(|it| event["name"] == **it));
            check(&event["args"], &[("name", TEXT)], &[]);
        }
        "P" => {
            check(event, &with(&[("id", TEXT), args]), &[]);
            check(&event["args"], &[("data", OBJECT)], &[]);
            check_profile(event);
        }
        other => panic!("an undocumented phase: {other}"),
    }
}

/// The two events of a profile.
fn check_profile(event: &Json) {
    let data = &event["args"]["data"];
    if event["name"] == "Profile" {
        return check(data, &[("startTime", NUMBER)], &[]);
    }
    assert_eq!(event["name"], "ProfileChunk");
    check(data, &[("cpuProfile", OBJECT), ("timeDeltas", LIST)], &[]);
    check(&data["cpuProfile"], &[("nodes", LIST), ("samples", LIST)], &[]);
    for node in data["cpuProfile"]["nodes"].as_array().unwrap() {
        check(node, &[("id", COUNT), ("callFrame", OBJECT)], &[("parent", COUNT)]);
        let frame = &node["callFrame"];
        check(frame, &[("functionName", TEXT), ("scriptId", COUNT)], &[("url", TEXT)]);
    }
}

/// The phases of a file, and how many events each has.
fn check_chrome(name: &str, file: &Json) -> BTreeMap<String, usize> {
    let unit: Check = |it| it == "ms" || it == "ns";
    check(file, &[("traceEvents", LIST)], &[("displayTimeUnit", unit), ("otherData", OBJECT)]);
    let mut phases = BTreeMap::new();
    let mut slices = BTreeMap::<_, Vec<(i64, i64)>>::new();
    let mut open = BTreeMap::<String, i64>::new();
    let mut flows = BTreeMap::<String, [Option<i64>; 2]>::new();
    let mut is_far = false;
    for event in file["traceEvents"].as_array().unwrap() {
        check_phase(event);
        let at = nanos(&event["ts"]);
        // Numbers of JSON are read as `f64`, which has 53 bits.
        is_far |= at.unsigned_abs() > 1 << 43;
        let phase = event["ph"].as_str().unwrap();
        *phases.entry(phase.to_owned()).or_default() += 1;
        let id = || event["id"].as_str().unwrap().to_owned();
        match phase {
            "X" => {
                let thread = (event["pid"].as_u64(), event["tid"].as_u64());
                slices.entry(thread).or_default().push((at, nanos(&event["dur"])));
            }
            "b" => assert!(open.insert(id(), at).is_none(), "{name}: begins twice: {event}"),
            "e" => {
                let begin = open.remove(&id()).unwrap_or_else(|| panic!("{name}: {event}"));
                assert!(begin <= at, "{name}: ends before it begins: {event}");
            }
            "s" | "f" => {
                let side = &mut flows.entry(id()).or_default()[usize::from(phase == "f")];
                assert!(side.replace(at).is_none(), "{name}: twice: {event}");
            }
            _ => {}
        }
    }
    for (id, [start, end]) in flows {
        let (Some(start), Some(end)) = (start, end) else { panic!("{name}: flow {id}") };
        assert!(start <= end, "{name}: flow {id}");
    }
    // Slices of a thread are within each other or apart.
    for (thread, mut slices) in slices.into_iter().filter(|_| !is_far) {
        slices.sort_by_key(|(at, duration)| (*at, -duration));
        let mut around: Vec<i64> = Vec::new();
        for (at, duration) in slices {
            around.retain(|end| *end > at);
            let is_inside = around.last().is_none_or(|end| at + duration <= *end);
            assert!(is_inside, "{name}: slices of {thread:?} overlap at {at}");
            around.push(at + duration);
        }
    }
    phases
}

#[test]
fn chrome() {
    let mut phases = BTreeMap::<String, usize>::new();
    for (name, source) in all_sources() {
        let Some(file) = convert(View::Chrome, &source) else { continue };
        for (phase, count) in check_chrome(&name, &file) {
            *phases.entry(phase).or_default() += count;
        }
    }
    let found: BTreeSet<_> = phases.keys().map(String::as_str).collect();
    assert!(found.is_superset(&["M", "P", "X", "f", "i", "s"].into()), "{phases:?}");
}

/// A column of a table: what each value must be, and the length of the table it refers to.
enum Column {
    Is(Check),
    /// An index, `null` or -1.
    To(usize),
}

/// Checks a table: an object of columns of the same length.
fn table(of: &Json, columns: &[(&str, Column)], others: &[(&str, Check)]) -> usize {
    let length = of["length"].as_u64().unwrap_or_else(|| panic!("no table: {of}")) as usize;
    let names: Vec<_> = columns.iter().map(|(name, _)| (*name, LIST)).collect();
    check(of, &[&names[..], &[("length", COUNT)], others].concat(), &[]);
    for (name, column) in columns {
        let values = of[*name].as_array().unwrap();
        assert_eq!(values.len(), length, "{name}");
        for value in values {
            let is_right = match column {
                Column::Is(check) => check(value),
                Column::To(rows) => match value.as_u64() {
                    Some(row) => row < *rows as u64,
                    None => value.is_null() || *value == -1,
                },
            };
            assert!(is_right, "{name} is {value}");
        }
    }
    length
}

fn check_thread(thread: &Json, categories: usize) -> usize {
    use Column::{Is, To};

    let process_type: Check = |it| it == "default";
    let must = [
        ("processType", process_type),
        ("processName", TEXT),
        ("processStartupTime", NUMBER),
        ("processShutdownTime", TIME_OR_NULL),
        ("registerTime", NUMBER),
        ("unregisterTime", TIME_OR_NULL),
        ("pausedRanges", LIST),
        ("name", TEXT),
        ("isMainThread", BOOL),
        ("pid", TEXT),
        ("tid", |it| it.is_string() || it.is_number()),
        ("samples", OBJECT),
        ("markers", OBJECT),
        ("stackTable", OBJECT),
        ("frameTable", OBJECT),
        ("funcTable", OBJECT),
        ("resourceTable", OBJECT),
        ("nativeSymbols", OBJECT),
        ("stringArray", TEXTS),
    ];
    check(thread, &must, &[("showMarkersInTimeline", BOOL)]);
    let texts = thread["stringArray"].as_array().unwrap().len();
    let rows = |name: &str| thread[name]["length"].as_u64().unwrap() as usize;
    let resources = [("lib", To(0)), ("name", To(texts)), ("host", To(texts)), ("type", Is(COUNT))];
    table(&thread["resourceTable"], &resources, &[]);
    let symbols =
        [("address", Is(NUMBER)), ("functionSize", Is(TIME_OR_NULL)), ("libIndex", To(0))];
    let symbols = symbols.into_iter().chain([("name", To(texts))]).collect::<Vec<_>>();
    table(&thread["nativeSymbols"], &symbols, &[]);
    let functions = [
        ("name", To(texts)),
        ("isJS", Is(BOOL)),
        ("relevantForJS", Is(BOOL)),
        ("resource", To(rows("resourceTable"))),
        ("fileName", To(texts)),
        ("lineNumber", Is(TIME_OR_NULL)),
        ("columnNumber", Is(TIME_OR_NULL)),
    ];
    table(&thread["funcTable"], &functions, &[]);
    let frames = [
        ("address", Is(NUMBER)),
        ("inlineDepth", Is(COUNT)),
        ("category", To(categories)),
        ("subcategory", To(1)),
        ("func", To(rows("funcTable"))),
        ("nativeSymbol", To(rows("nativeSymbols"))),
        ("innerWindowID", Is(TIME_OR_NULL)),
        ("line", Is(TIME_OR_NULL)),
        ("column", Is(TIME_OR_NULL)),
    ];
    table(&thread["frameTable"], &frames, &[]);
    let stacks = [("prefix", To(rows("stackTable"))), ("frame", To(rows("frameTable")))];
    table(&thread["stackTable"], &stacks, &[]);
    // A stack comes after the one that it continues.
    for (row, prefix) in thread["stackTable"]["prefix"].as_array().unwrap().iter().enumerate() {
        assert!(prefix.as_u64().is_none_or(|prefix| prefix < row as u64), "{prefix} of {row}");
    }
    let samples = [
        ("stack", To(rows("stackTable"))),
        ("timeDeltas", Is(NUMBER)),
        ("weight", Is(TIME_OR_NULL)),
        ("threadCPUDelta", Is(TIME_OR_NULL)),
    ];
    let weight: Check = |it| it == "samples";
    table(&thread["samples"], &samples, &[("weightType", weight)]);
    // An instant, an interval, its start, its end.
    let phase: Check = |it| it.as_u64().is_some_and(|phase| phase < 4);
    let data: Check = |it| it["type"].is_string();
    let markers = [
        ("name", To(texts)),
        ("startTime", Is(TIME_OR_NULL)),
        ("endTime", Is(TIME_OR_NULL)),
        ("phase", Is(phase)),
        ("category", To(categories)),
        ("data", Is(data)),
    ];
    table(&thread["markers"], &markers, &[])
}

fn check_firefox(file: &Json) -> usize {
    let root = [
        ("meta", OBJECT),
        ("libs", LIST),
        ("threads", LIST),
        ("pages", LIST),
        ("profilerOverhead", LIST),
    ];
    check(file, &root, &[("counters", LIST)]);
    let meta = &file["meta"];
    let must = [
        ("interval", NUMBER),
        ("startTime", NUMBER),
        ("processType", COUNT),
        ("product", TEXT),
        ("debug", BOOL),
        ("version", COUNT),
        ("preprocessedProfileVersion", |it| *it == 55),
        ("categories", LIST),
        ("markerSchema", LIST),
        ("extensions", OBJECT),
        ("sampleUnits", OBJECT),
    ];
    let may = [
        ("symbolicated", BOOL),
        ("pausedRanges", LIST),
        ("usesOnlyOneStackType", BOOL),
        ("sourceCodeIsNotOnSearchfox", BOOL),
        ("initialVisibleThreads", LIST),
        ("initialSelectedThreads", LIST),
    ];
    check(meta, &must, &may);
    let categories = meta["categories"].as_array().unwrap();
    for category in categories {
        check(category, &[("name", TEXT), ("color", TEXT), ("subcategories", TEXTS)], &[]);
    }
    let units = [("time", TEXT), ("eventDelay", TEXT), ("threadCPUDelta", TEXT)];
    check(&meta["sampleUnits"], &units, &[]);
    for schema in meta["markerSchema"].as_array().unwrap() {
        let may = [("chartLabel", TEXT), ("tooltipLabel", TEXT), ("tableLabel", TEXT)];
        check(schema, &[("name", TEXT), ("display", TEXTS), ("fields", LIST)], &may);
        for field in schema["fields"].as_array().unwrap() {
            let must = [("key", TEXT), ("format", TEXT)];
            check(field, &must, &[("label", TEXT), ("searchable", BOOL)]);
        }
    }
    let threads = file["threads"].as_array().unwrap();
    for counter in file["counters"].as_array().into_iter().flatten() {
        let must = [
            ("name", TEXT),
            ("category", TEXT),
            ("description", TEXT),
            ("pid", TEXT),
            ("mainThreadIndex", |it: &Json| it.is_u64()),
            ("samples", OBJECT),
        ];
        check(counter, &must, &[("color", TEXT)]);
        assert!((counter["mainThreadIndex"].as_u64().unwrap() as usize) < threads.len());
        let columns = ["count", "number", "timeDeltas"].map(|name| (name, Column::Is(NUMBER)));
        table(&counter["samples"], &columns, &[]);
    }
    threads.iter().map(|thread| check_thread(thread, categories.len())).sum()
}

#[test]
fn firefox() {
    let markers: usize = all_sources()
        .filter_map(|(_, source)| convert(View::Firefox, &source))
        .map(|file| check_firefox(&file))
        .sum();
    assert!(markers > 100, "{markers}");
}

#[test]
#[should_panic(expected = "dur is -1")]
fn a_wrong_type_is_found() {
    let event = r#"{"ph":"X","pid":1,"tid":1,"ts":0,"dur":-1,"name":"a","cat":"b"}"#;
    check_phase(&event.parse().unwrap());
}
