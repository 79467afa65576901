//! Converts traces for Chrome, and compares every event with the result for Perfetto.

use std::collections::BTreeMap;

use nettrace_views::viewers::View;
use serde_json::Value as Json;
use testkit::{
    effort::left_out,
    perfetto::{Slice, Trace},
    streams::{EventType, Row, Stream, utf16z},
};

use crate::{
    convert,
    sources::{UNIVERSAL, hostile_text, sources, two_threads, universal},
};

/// The events of a result, by their phase.
fn events(bytes: &[u8]) -> BTreeMap<String, Vec<Json>> {
    let whole: Json = serde_json::from_slice(bytes).unwrap();
    let mut events = BTreeMap::<_, Vec<_>>::new();
    for event in whole["traceEvents"].as_array().unwrap() {
        for key in ["pid", "tid"] {
            assert!(event[key].as_u64().is_some_and(|id| id <= i32::MAX as u64), "{event}");
        }
        assert!(event["ts"].is_number() && event["name"].is_string(), "{event}");
        // speedscope's page looks for samples only if the first event has a category.
        assert!(event["cat"].is_string(), "{event}");
        events.entry(event["ph"].as_str().unwrap().to_owned()).or_default().push(event.clone());
    }
    events
}

/// Microseconds as nanoseconds. Numbers of JSON are read as `f64`, which has 53 bits.
fn nanos(micros: &Json) -> i64 {
    (micros.as_f64().unwrap() * 1000.0).round() as i64
}

/// What is compared of a slice or event: start, duration, name and category. Times beyond 2^53
/// picoseconds are not exact as `f64`.
type Shape = (i64, Option<i64>, String, String);

fn shape(event: &Json, duration: Option<i64>) -> Shape {
    let text = |key: &str| event[key].as_str().unwrap().to_owned();
    (nanos(&event["ts"]), duration, text("name"), text("cat"))
}

#[test]
fn every_event_is_as_in_perfetto() {
    if left_out() {
        return;
    }
    let (mut instants, mut slices, mut asynchronous) = (0, 0, 0);
    for (name, source) in sources() {
        let Some(bytes) = convert(View::Chrome, &source) else { continue };
        let trace = Trace::read(&convert(View::Perfetto, &source).unwrap());
        let events = events(&bytes);
        let of = |phase: &str| events.get(phase).map_or(&[][..], |events| events);
        let is_far = |at: i64| at.unsigned_abs() > 1 << 43;
        if trace.slices.iter().any(|slice| is_far(slice.start)) {
            continue;
        }
        let wanted = |slice: &Slice, duration| {
            (slice.start, duration, slice.name.clone(), slice.category.replace(',', ";"))
        };
        let mut expected: Vec<_> = trace
            .instants()
            .filter(|slice| (&*slice.name, &*slice.category) != ("trace", "nettrace"))
            .map(|slice| wanted(slice, None))
            .collect();
        let mut found: Vec<_> = of("i").iter().map(|event| shape(event, None)).collect();
        expected.sort();
        found.sort();
        instants += found.len();
        assert_eq!(found, expected, "{name}");
        let on_threads =
            |slice: &&Slice| trace.tracks[&slice.track].tid.is_some() && slice.end.is_some();
        let ended: Vec<_> = trace.spans().map(|(_, slice)| slice).collect();
        let of_slice = |slice: &Slice| wanted(slice, slice.end.map(|end| end - slice.start));
        if trace.tracks.values().any(|track| track.tid.is_some()) {
            let mut expected: Vec<_> =
                ended.iter().copied().filter(on_threads).map(of_slice).collect();
            let complete = |event: &Json| shape(event, Some(nanos(&event["dur"])));
            let mut found: Vec<_> = of("X").iter().map(complete).collect();
            expected.sort();
            found.sort();
            slices += found.len();
            assert_eq!(found, expected, "{name}");
        }
        // An asynchronous span has two events with the same id.
        let ends = of("e").iter().map(|event| (event["id"].as_str().unwrap(), event));
        let ends: BTreeMap<_, _> = ends.collect();
        for begin in of("b") {
            let end = ends.get(begin["id"].as_str().unwrap());
            let duration = end.map(|end| nanos(&end["ts"]) - nanos(&begin["ts"]));
            let shape = shape(begin, duration);
            assert!(ended.iter().any(|slice| of_slice(slice) == shape), "{name}: {shape:?}");
            asynchronous += 1;
        }
        assert_eq!(of("X").len() + of("b").len() + of("B").len(), ended.len(), "{name}");
        let finite = trace.counters.iter().filter(|(.., value)| value.is_finite()).count();
        assert_eq!(of("C").len(), finite, "{name}");
        assert_eq!(of("s").len(), of("f").len(), "{name}");
    }
    assert!(instants > 1000, "{instants} {slices} {asynchronous}");
}

/// The stacks of all samples, outermost first, with how many there are of each.
fn stacks(bytes: &[u8]) -> BTreeMap<Vec<String>, usize> {
    let mut stacks = BTreeMap::new();
    let mut nodes = BTreeMap::<(String, u64), (Option<u64>, String)>::new();
    for event in events(bytes).remove("P").unwrap_or_default() {
        let id = event["id"].as_str().unwrap().to_owned();
        let data = &event["args"]["data"];
        if event["name"] == "Profile" {
            assert!(data["startTime"].is_number());
            continue;
        }
        assert_eq!(event["name"], "ProfileChunk");
        for node in data["cpuProfile"]["nodes"].as_array().unwrap() {
            let name = node["callFrame"]["functionName"].as_str().unwrap().to_owned();
            let key = (id.clone(), node["id"].as_u64().unwrap());
            let parent = node.get("parent").map(|parent| parent.as_u64().unwrap());
            assert!(nodes.insert(key, (parent, name)).is_none(), "a node is defined twice");
        }
        let samples = data["cpuProfile"]["samples"].as_array().unwrap();
        assert_eq!(samples.len(), data["timeDeltas"].as_array().unwrap().len());
        for sample in samples {
            let mut stack = Vec::new();
            let mut at = sample.as_u64().unwrap();
            while let (Some(parent), name) = &nodes[&(id.clone(), at)] {
                stack.insert(0, name.clone());
                at = *parent;
            }
            *stacks.entry(stack).or_default() += 1;
        }
    }
    stacks
}

#[test]
fn samples_have_the_names_of_their_frames() {
    let bytes = convert(View::Chrome, &universal()).unwrap();
    let expected: BTreeMap<Vec<String>, usize> = UNIVERSAL
        .iter()
        .map(|(stack, count)| (stack.iter().map(|&name| name.to_owned()).collect(), *count))
        .collect();
    assert_eq!(stacks(&bytes), expected);
    let trace = Trace::read(&convert(View::Perfetto, &universal()).unwrap());
    // Perfetto has the file and the function apart.
    let mut names: Vec<_> = trace.samples.iter().map(|sample| sample.names.join(" ")).collect();
    names.sort();
    let main = "main<\"&\\>;x";
    let (work, other) = (format!("{main} work"), format!("{main} 0x3000"));
    assert_eq!(names, [&*other, &work, &work, &work, &work, "shop.so+0x600"]);
}

#[test]
fn texts_are_whatever_they_are() {
    let text = hostile_text();
    let mut stream = Stream::new();
    stream.thread(5);
    let ty = EventType::new(1, &text[..300], 1, &text).field(&text, &[18]).field("x", &[18]);
    stream.metadata(&ty.field("x", &[11]));
    let payload = [utf16z(&text), utf16z(&text), u64::MAX.to_le_bytes().to_vec()].concat();
    stream.events(&[Row::new(5, 1, 2000).payload(&payload)]);
    let bytes = convert(View::Chrome, &stream.end()).unwrap();
    let event = &events(&bytes)["i"][0];
    assert_eq!(event["name"], text.as_str());
    let args = event["args"].as_object().unwrap();
    assert_eq!((&args[&text], &args["x"]), (&Json::from(&*text), &Json::from(&*text)));
    // The second field of that name. JavaScript has no such number.
    assert_eq!(args["x#2"], "-1".parse::<Json>().unwrap());
}

/// A span with a child on another thread, and a link from an event.
#[test]
fn flows_join_slices() {
    let bytes = convert(View::Chrome, &two_threads()).unwrap();
    let events = events(&bytes);
    let (start, end) = (&events["s"][0], &events["f"][0]);
    assert_eq!((start["id"].as_str(), end["bp"].as_str()), (end["id"].as_str(), Some("e")));
    assert_eq!((nanos(&start["ts"]), nanos(&end["ts"])), (100_000, 120_000));
    assert_ne!(start["tid"], end["tid"]);
    assert_eq!((events["s"].len(), events["f"].len(), events["X"].len()), (1, 1, 2));
    // In Perfetto, the event that names the parent as related has a flow as well.
    let trace = Trace::read(&convert(View::Perfetto, &two_threads()).unwrap());
    let linked = trace.instants().find(|slice| slice.name == "Linked").unwrap();
    let parent = trace.spans().find(|(_, slice)| slice.name == "outer").unwrap().1;
    assert_eq!(parent.flows.len(), 2, "{parent:?}");
    assert!(parent.flows.contains(&linked.last_flows[0]), "{linked:?}");
}
