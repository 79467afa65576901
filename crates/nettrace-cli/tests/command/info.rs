//! `nettrace info --json` and `verify --json`. The tests count every number again in another way.

use std::collections::BTreeMap;

use nettrace_reader::{Item, Options};
use serde_json::{Value, json};
use testkit::{
    effort::left_out,
    reference::dotnet_traces,
    streams::{self, EventType, Row, Stream, random, samples, v5_random, v5_samples},
};

use crate::{
    program::{nettrace, stderr, stdout, strict_json},
    spans,
};

fn object(args: &[&str], trace: &[u8], code: i32) -> Value {
    let output = nettrace(&[args, &["--json", "-"]].concat(), trace);
    assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().count(), 1, "{}", stdout(&output));
    strict_json(stdout(&output).trim_end())
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// The number of blocks of each kind in a stream of version 6, and where the stream ends. Uses only
/// the block headers.
fn blocks_by_kind(trace: &[u8]) -> (BTreeMap<u8, u64>, u64) {
    let mut kinds = BTreeMap::new();
    let mut at = 20;
    loop {
        let header = u32::from_le_bytes(trace[at..at + 4].try_into().unwrap());
        *kinds.entry((header >> 24) as u8).or_default() += 1;
        at += 4 + (header & 0xFF_FFFF) as usize;
        if header >> 24 == 0 {
            return (kinds, at as u64);
        }
    }
}

/// The threads of a trace with their events and losses, sorted: (index, events, lost). For versions
/// 4 and 5 it assumes that no thread id is reused.
fn threads(trace: &[u8]) -> Vec<(u64, u64, u64)> {
    #[derive(Default)]
    struct Count {
        events: u64,
        lost: u64,
        last: u32,
    }
    let mut reader = Options::default().open(trace).unwrap();
    let mut live = BTreeMap::<u64, Count>::new();
    let mut all = Vec::new();
    let upto = |count: &mut Count, number: u32, events: u32| {
        count.lost += u64::from(number.wrapping_sub(count.last).wrapping_sub(events));
        count.last = number;
        count.events += u64::from(events);
    };
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Threads(new) => {
                live.extend(new.into_iter().map(|thread| (thread.index, Count::default())));
            }
            Item::Event(event) => {
                let header = event.header;
                live.entry(header.thread).or_default();
                let count = live.entry(header.capture_thread).or_default();
                upto(count, header.sequence_number, 1);
            }
            Item::SequencePoint(point) => {
                for (index, number) in point.threads {
                    upto(live.entry(index).or_default(), number, 0);
                }
                if point.flush_threads {
                    let gone = std::mem::take(&mut live).into_iter();
                    all.extend(gone.map(|(index, it)| (index, it.events, it.lost)));
                }
            }
            Item::RemovedThreads(gone) => {
                for (index, number) in gone {
                    let mut count = live.remove(&index).unwrap();
                    upto(&mut count, number, 0);
                    all.push((index, count.events, count.lost));
                }
            }
            _ => {}
        }
    }
    all.extend(live.into_iter().map(|(index, it)| (index, it.events, it.lost)));
    all.sort_unstable();
    all
}

/// Checks everything that is derived from events against the lines of `dump --json`.
fn check_events(name: &str, info: &Value, trace: &[u8]) {
    let output = nettrace(&["dump", "--json", "-"], trace);
    let events: Vec<Value> = stdout(&output).lines().map(strict_json).collect();
    assert_eq!(number(&info["events"]), events.len() as u64, "{name}");
    let bytes =
        |events: &[&Value]| -> u64 { events.iter().map(|it| number(&it["payload_bytes"])).sum() };
    assert_eq!(number(&info["payload_bytes"]), bytes(&events.iter().collect::<Vec<_>>()), "{name}");

    let mut by_ticks: Vec<&Value> = events.iter().collect();
    by_ticks.sort_by_key(|event| number(&event["ticks"]));
    for (key, event) in [("first_event", by_ticks.first()), ("last_event", by_ticks.last())] {
        let expected = event.map(|event| {
            json!({
                "time": event["time"], "since_start_ns": event["since_start_ns"],
                "ticks": event["ticks"],
            })
        });
        assert_eq!(info[key], expected.unwrap_or(Value::Null), "{name} {key}");
    }

    let mut types = BTreeMap::<_, Vec<&Value>>::new();
    for event in &events {
        let key = ["provider", "id", "name"].map(|key| event[key].to_string());
        types.entry(key).or_default().push(event);
    }
    let listed = info["types"].as_array().unwrap();
    assert_eq!(listed.len(), types.len(), "{name}");
    for it in listed {
        let key = ["provider", "id", "name"].map(|key| it[key].to_string());
        assert_eq!(number(&it["events"]), types[&key].len() as u64, "{name} {it}");
        assert_eq!(number(&it["payload_bytes"]), bytes(&types[&key]), "{name} {it}");
    }
    let sizes: Vec<_> = listed.iter().map(|it| number(&it["payload_bytes"])).collect();
    assert!(sizes.is_sorted_by(|a, b| a >= b), "{name} {sizes:?}");

    if events.is_empty() {
        assert_eq!(info["rate"], Value::Null, "{name}");
        return;
    }
    let rate = &info["rate"];
    let (first, interval) = (number(&rate["first_ticks"]), number(&rate["interval_ticks"]));
    let counts: Vec<u64> = rate["events"].as_array().unwrap().iter().map(number).collect();
    let mut expected = vec![0; counts.len()];
    for event in &events {
        expected[((number(&event["ticks"]) - first) / interval) as usize] += 1;
    }
    assert_eq!(counts, expected, "{name}");
    assert!((1..=64).contains(&counts.len()) && counts[0] > 0 && counts[counts.len() - 1] > 0);
    let per_second = number(&info["ticks_per_second"]) as f64;
    assert_eq!(rate["interval_seconds"].as_f64().unwrap(), interval as f64 / per_second);
}

fn check_threads(name: &str, info: &Value, trace: &[u8]) {
    let listed = info["threads"].as_array().unwrap();
    let mut shown: Vec<_> = listed
        .iter()
        .map(|it| (number(&it["index"]), number(&it["events"]), number(&it["lost"])))
        .collect();
    shown.sort_unstable();
    let expected = threads(trace);
    assert_eq!(shown, expected, "{name}");
    let lost: u64 = expected.iter().map(|(_, _, lost)| lost).sum();
    assert_eq!(number(&info["lost"]), lost, "{name}");
    let order: Vec<_> = listed
        .iter()
        .map(|it| (it["lost"] == 0, std::cmp::Reverse(number(&it["events"]))))
        .collect();
    assert!(order.is_sorted(), "{name} {order:?}");
}

/// Checks the numbers that are not derived from events.
fn check_rest(name: &str, info: &Value, trace: &[u8]) {
    assert_eq!(info["damage"], Value::Null, "{name}");
    if info["major_version"] == 6 {
        let (kinds, end) = blocks_by_kind(trace);
        assert_eq!(number(&info["bytes"]), end, "{name}");
        assert_eq!(number(&info["blocks"]), kinds.values().sum::<u64>(), "{name}");
        let points = kinds.get(&streams::SEQUENCE_POINT).copied().unwrap_or(0);
        assert_eq!(number(&info["sequence_points"]), points, "{name}");
        let unknown = kinds.range(streams::LABEL_LIST + 1..).map(|(_, count)| count).sum::<u64>();
        assert_eq!(number(&info["unknown_blocks"]), unknown, "{name}");
    } else {
        assert_eq!(number(&info["bytes"]), trace.len() as u64, "{name}");
    }
}

#[test]
fn streams_of_chance() {
    for seed in 0..12 {
        let made = random::make(seed, 10 + seed * 8);
        let info = object(&["info"], &made.bytes, 0);
        let name = format!("seed {seed}");
        assert_eq!(number(&info["events"]), made.rows.len() as u64, "{name}");
        assert_eq!(number(&info["lost"]), made.lost, "{name}");
        check_events(&name, &info, &made.bytes);
        check_threads(&name, &info, &made.bytes);
        assert_eq!(info["step_backs"], 0, "{name}");
        check_rest(&name, &info, &made.bytes);
        let verified = object(&["verify"], &made.bytes, 0);
        for key in ["events", "lost", "blocks", "sequence_points", "bytes"] {
            assert_eq!(verified[key], info[key], "{name} {key}");
        }
        assert_eq!((&verified["sound"], &verified["violations"]), (&json!(true), &json!([])));
        let made = v5_random::make(seed, 10 + seed * 8);
        let info = object(&["info"], &made.bytes, 0);
        check_events(&format!("v5 {name}"), &info, &made.bytes);
        check_rest(&format!("v5 {name}"), &info, &made.bytes);
    }
}

#[test]
fn samples_by_hand() {
    if left_out() {
        return;
    }
    for (name, trace) in samples::all().into_iter().chain(v5_samples::all()) {
        let info = object(&["info"], &trace, 0);
        check_events(name, &info, &trace);
        check_rest(name, &info, &trace);
    }
}

#[test]
fn real_traces_of_dotnet() {
    if left_out() {
        return;
    }
    for path in dotnet_traces() {
        let trace = std::fs::read(&path).unwrap();
        let name = path.display().to_string();
        let info = object(&["info"], &trace, 0);
        check_events(&name, &info, &trace);
        assert_eq!(number(&info["bytes"]), trace.len() as u64, "{name}");
        assert!(number(&info["major_version"]) < 6 && info["minor_version"] == 0, "{name}");
    }
}

/// Checks every key by hand.
#[test]
fn every_key() {
    let mut stream = Stream::with_keys(&[("ProcessId", "77"), ("k", "1"), ("k", "2")]);
    stream.thread(5).thread(6);
    stream
        .metadata(&EventType::new(1, "Test", 9, "Small"))
        .metadata(&EventType::new(2, "Test", 8, "").field("n", &[6]));
    let mut undefined = Row::new(5, 4, 1100);
    undefined.stack = 9;
    stream.events(&[Row::new(5, 1, 1010), undefined]);
    stream.events(&[Row::new(6, 2, 1020).metadata(2).payload(&[1])]);
    stream.block(77, b"new").sequence_point(1200, 0, &[(5, 4), (6, 2)]);
    let trace = stream.end();
    let mut info = object(&["info"], &trace, 0);
    // Where intervals begin is not specified. Other tests count their contents.
    let rate = info["rate"].take();
    assert_eq!(rate["events"].as_array().unwrap().iter().map(number).sum::<u64>(), 3);
    let thread = |index, events, lost| {
        json!({
            "index": index, "process": 77, "id": index + 1000, "name": format!("worker {index}"),
            "events": events, "lost": lost, "step_backs": 0,
        })
    };
    let expected = json!({
        "format": "NetTrace", "major_version": 6, "minor_version": 0,
        "start": "2026-03-04T05:06:07.0890000Z", "start_ticks": 1000,
        "ticks_per_second": 1_000_000, "pointer_bytes": 8,
        "key_values": { "ProcessId": "77", "k": "1", "k#2": "2" },
        "first_event": {
            "time": "2026-03-04T05:06:07.089010000Z", "since_start_ns": 10_000, "ticks": 1010,
        },
        "last_event": {
            "time": "2026-03-04T05:06:07.089100000Z", "since_start_ns": 100_000, "ticks": 1100,
        },
        "events": 3, "lost": 3, "step_backs": 0, "payload_bytes": 1, "bytes": trace.len(),
        "blocks": 10, "sequence_points": 1, "unknown_blocks": 1, "undefined_stacks": 1,
        "damaged_types": 0, "deep_types": 0,
        "spans": 0, "spans_without_end": 0, "spans_without_start": 0, "uncounted_spans": 0,
        "rate": null,
        "types": [
            { "provider": "Test", "name": "EventID(8)", "id": 8, "events": 1, "payload_bytes": 1 },
            { "provider": "Test", "name": "Small", "id": 9, "events": 2, "payload_bytes": 0 },
        ],
        "threads": [thread(5, 2, 2), thread(6, 1, 1)],
        "damage": null,
    });
    assert_eq!(info, expected);
    let text = nettrace(&["info", "-"], &trace);
    for line in [
        "           1              1  100.0%  Test/EventID(8) (id 8)",
        "           2              0    0.0%  Test/Small (id 9)",
        "           2              2  process 77 tid 1005 \"worker 5\"",
        "last event       0.000100000 s after the start, 2026-03-04T05:06:07.089100000Z",
    ] {
        assert!(stdout(&text).lines().any(|it| it == line), "{line}\n{}", stdout(&text));
    }
}

/// In the order of the stream, which is not that of time.
#[test]
fn spans_are_counted() {
    let place = |span| spans::place(1, span, 0);
    let mut stream = spans::stream(vec![
        spans::stop(50, place(1), 40, "ok"),
        spans::event(60, spans::START, place(2)),
        spans::stop(70, place(3), 5, "ok"),
        spans::single(80, place(4), 5, "ok"),
        spans::event(90, spans::SOLD, place(5)),
    ]);
    // The first span began on another thread.
    stream.thread(6);
    let start = Row::new(6, 1, 1010).metadata(spans::START).payload(&[1, 0, 0, 0]).labels(1);
    let trace = stream.events(&[start]).end();
    let info = object(&["info"], &trace, 0);
    let counts = ["spans", "spans_without_end", "spans_without_start", "uncounted_spans"];
    assert_eq!(counts.map(|key| number(&info[key])), [4, 1, 1, 0]);
    let text = nettrace(&["info", "-"], &trace);
    let line = "spans               4 (1 without an end, 1 without a start)";
    assert!(stdout(&text).lines().any(|it| it == line), "{}", stdout(&text));
    // `tree` counts the same.
    let tree = nettrace(&["tree", "-"], &trace);
    let said = " spans=4 without_end=1 without_start=1 unknown=1 ";
    assert!(stderr(&tree).contains(said), "{}", stderr(&tree));
}

#[test]
fn damage() {
    let whole = samples::order();
    let cut = &whole[..whole.len() - 4];
    let info = object(&["info"], cut, 1);
    assert_eq!(info["events"], object(&["info"], &whole, 0)["events"]);
    let damage = info["damage"].as_str().unwrap();
    assert!(damage.contains("ends without its end-of-stream block"), "{damage}");
    let verified = object(&["verify"], cut, 1);
    assert_eq!((&verified["sound"], &verified["violations_count"]), (&json!(false), &json!(1)));
    let violation = &verified["violations"][0];
    assert_eq!(violation["rule"], "readable");
    assert_eq!(violation["offset"], cut.len() as u64);
    assert!(violation["detail"].as_str().unwrap().contains("end-of-stream"), "{violation}");
    // All violations are counted, including those that are not listed.
    let none = object(&["verify", "--most", "0"], cut, 1);
    assert_eq!((&none["violations"], &none["violations_count"]), (&json!([]), &json!(1)));
}

/// The bars agree with the numbers.
#[test]
fn the_plot() {
    let mut stream = Stream::new();
    stream.thread(5).simple_metadata(1);
    let times = [1000, 1001, 1001, 1001, 1003];
    let rows: Vec<_> = (1..).zip(times).map(|(i, time)| Row::new(5, i, time)).collect();
    let output = nettrace(&["info", "-"], &stream.events(&rows).end());
    let expected = "events over time |▃█ ▃|\n                 each column 0.000001000 s; at most 3 \
        events in one, 3000000 a second\n";
    assert!(stdout(&output).contains(expected), "{}", stdout(&output));
}
