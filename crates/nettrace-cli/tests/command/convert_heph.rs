//! Converts Heph traces: those that this project writes say the same as the traces that they come
//! from, and those of others are shown as far as their format goes.

use std::{collections::BTreeMap, fs};

use testkit::{perfetto::Trace, streams::samples};

use crate::{
    program::{nettrace, stderr, stdout},
    spans::{PAY_START, PAY_STOP, SOLD, START, event, place, single, stop, stream},
};

/// Every target, by its name.
const TARGETS: [&str; 11] = [
    "v4",
    "v5",
    "v6",
    "heph",
    "perfetto",
    "chrome",
    "speedscope",
    "firefox",
    "pprof",
    "flamegraph",
    "folded",
];

fn convert(trace: &[u8], to: &str) -> Vec<u8> {
    let output = nettrace(&["convert", "-", "-", "--to", to], trace);
    assert_eq!(output.status.code(), Some(0), "{to}: {}", stderr(&output));
    output.stdout
}

fn source() -> Vec<u8> {
    stream(vec![
        event(100, START, place(0xAB, 1, 0)),
        event(110, PAY_START, place(0xAB, 2, 1)),
        event(120, SOLD, place(0xAB, 2, 1)),
        single(150, place(0xAB, 3, 2), 20, "ok"),
        event(160, PAY_STOP, place(0xAB, 2, 1)),
        stop(200, place(0xAB, 1, 0), 100, "err"),
        event(300, PAY_START, place(0xCD, 12, 11)),
        event(350, PAY_STOP, place(0xCD, 12, 11)),
    ])
    .end()
}

/// Start, end, name, category, and the name of the slice around.
type Shape = (i64, Option<i64>, String, String, Option<String>);

/// The spans of a trace of Perfetto.
fn slices(trace: &Trace) -> Vec<Shape> {
    let around = |slice: &testkit::perfetto::Slice| {
        slice.parent.map(|place| trace.slices[place].name.clone())
    };
    let spans = trace
        .spans()
        .map(|(_, it)| (it.start, it.end, it.name.clone(), it.category.clone(), around(it)));
    spans.collect()
}

#[test]
fn spans_are_those_of_the_original() {
    let original = Trace::read(&convert(&source(), "perfetto"));
    let heph = convert(&source(), "heph");
    let found = Trace::read(&convert(&heph, "perfetto"));
    assert_eq!(slices(&found), slices(&original));
    assert_eq!(original.spans().count(), 4);
    assert_eq!(found.unix_nanos, original.unix_nanos);
    let sold = |trace: &Trace| {
        let sold = trace.instants().find(|slice| slice.name == "Sold").unwrap().clone();
        let text = |name: &str| sold.text(name).map(str::to_owned);
        (sold.start, sold.category.clone(), text("SpanId"), sold.annotation("count").is_some())
    };
    assert_eq!(sold(&found), sold(&original));
    // The trees of stacks have the same times.
    assert_eq!(convert(&heph, "folded"), convert(&source(), "folded"));
}

/// A trace as other programs write it: nothing but descriptions, times and attributes.
#[test]
fn traces_of_others() {
    let mut trace = Vec::new();
    let option = |name: &str, value: &[u8]| {
        let size = 10 + name.len() + value.len();
        let parts = [&0x75D1_1D4D_u32.to_be_bytes()[..], &(size as u32).to_be_bytes()];
        let name_len = (name.len() as u16).to_be_bytes();
        [&parts.concat()[..], &name_len, name.as_bytes(), value].concat()
    };
    trace.extend(option("epoch", &1_700_000_000_123_456_789_u64.to_be_bytes()));
    let mut packet = |counter: u32, start: u64, end: u64, what: &str| {
        let text = [&(what.len() as u16).to_be_bytes()[..], what.as_bytes()].concat();
        let size = 8 + 4 + 4 + 8 + 8 + 8 + text.len();
        trace.extend(0xC1FC_1FB7_u32.to_be_bytes());
        trace.extend((size as u32).to_be_bytes());
        trace.extend(7_u32.to_be_bytes());
        trace.extend(counter.to_be_bytes());
        trace.extend([0; 8]);
        trace.extend(start.to_be_bytes());
        trace.extend(end.to_be_bytes());
        trace.extend(text);
    };
    packet(1, 2_000, 5_000, "inner");
    packet(2, 1_000, 9_000, "outer");
    // Two are lost.
    packet(5, 9_500, 9_500, "instant");
    let found = Trace::read(&convert(&trace, "perfetto"));
    let shapes: Vec<_> = found
        .spans()
        .map(|(_, it)| (it.start, it.end, it.name.clone(), it.parent.is_some()))
        .collect();
    let rest = 456_789;
    let expected = [
        (1_000 + rest, Some(9_000 + rest), "outer".to_owned(), false),
        (2_000 + rest, Some(5_000 + rest), "inner".to_owned(), true),
    ];
    assert_eq!(shapes, expected);
    let lost: Vec<_> = found.instants().filter(|it| it.name == "lost events").collect();
    assert_eq!(lost[0].annotation("lost"), Some(&testkit::perfetto::Value::Uint(2)));
    assert_eq!(found.unix_nanos, Some(1_700_000_000_123_000_000));
    // A trace that is cut off is converted as far as it goes.
    let cut = &trace[..trace.len() - 3];
    let output = nettrace(&["convert", "-", "-", "--to", "perfetto"], cut);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(Trace::read(&output.stdout).spans().count(), 2);
}

/// Any trace has the same number of events, by type, in Heph and back; and every target takes it.
#[test]
fn all_samples_to_all_targets() {
    for (name, bytes) in samples::all() {
        let output = nettrace(&["convert", "-", "-", "--to", "heph"], &bytes);
        if output.status.code() != Some(0) {
            continue;
        }
        let heph = output.stdout;
        let back = convert(&heph, "v6");
        let count = |trace: &[u8]| {
            let output = nettrace(&["info", "--json", "-"], trace);
            let info: serde_json::Value = serde_json::from_str(stdout(&output)).unwrap();
            (info["events"].clone(), info["lost"].clone())
        };
        assert_eq!(count(&back), count(&heph), "{name}");
        let verified = nettrace(&["verify", "-"], &back);
        assert_eq!(verified.status.code(), Some(0), "{name}: {}", stdout(&verified));
    }
    let heph = convert(&source(), "heph");
    let dir = tempfile::tempdir().unwrap();
    let mut sizes = BTreeMap::new();
    for to in TARGETS {
        let out = dir.path().join(to);
        let output = nettrace(&["convert", "-", out.to_str().unwrap(), "--to", to], &heph);
        assert_eq!(output.status.code(), Some(0), "{to}: {}", stderr(&output));
        sizes.insert(to, fs::metadata(&out).unwrap().len());
    }
    assert!(sizes.values().all(|size| *size > 0), "{sizes:?}");
}
