//! Converts traces for the Firefox Profiler, and compares markers, samples and counters with the
//! result for Perfetto, by the rules of the processed profile.

use std::collections::BTreeMap;

use nettrace_views::viewers::View;
use serde_json::Value as Json;
use testkit::{
    effort::left_out,
    perfetto::Trace,
    streams::{EventType, Row, Stream, utf16z},
};

use crate::{
    convert,
    sources::{UNIVERSAL, hostile_text, sources, universal},
};

/// A column of a table.
fn column<'j>(table: &'j Json, name: &str) -> &'j [Json] {
    let column = table[name].as_array().unwrap_or_else(|| panic!("{name}: {table}"));
    assert_eq!(Some(column.len() as u64), table["length"].as_u64(), "{name}");
    column
}

/// A profile: markers as start, end (`None` for a time alone), name and category; stacks of
/// samples.
#[derive(Debug, Default)]
struct Profile {
    markers: Vec<(i64, Option<i64>, String, String)>,
    fields: Vec<String>,
    samples: BTreeMap<Vec<String>, usize>,
    counters: usize,
}

fn read(bytes: &[u8]) -> Profile {
    let file: Json = serde_json::from_slice(bytes).unwrap();
    let nanos = |millis: &Json| (millis.as_f64().unwrap() * 1e6).round() as i64;
    let categories = file["meta"]["categories"].as_array().unwrap();
    let place = |at: &Json| at.as_u64().unwrap() as usize;
    let mut profile = Profile::default();
    for thread in file["threads"].as_array().unwrap() {
        let texts = thread["stringArray"].as_array().unwrap();
        let text = |at: &Json| texts[place(at)].as_str().unwrap().to_owned();
        let markers = &thread["markers"];
        let times = column(markers, "startTime").iter().zip(column(markers, "endTime"));
        for (at, (start, end)) in times.enumerate() {
            let end = match column(markers, "phase")[at].as_u64().unwrap() {
                0 => None,
                1 => Some(nanos(end)),
                // An interval that has not ended.
                2 => Some(i64::MAX),
                other => panic!("phase {other}"),
            };
            let category = &categories[place(&column(markers, "category")[at])]["name"];
            let name = text(&column(markers, "name")[at]);
            let category = category.as_str().unwrap().to_owned();
            profile.markers.push((nanos(start), end, name, category));
            let data = &column(markers, "data")[at];
            assert_eq!(data["type"], "nettrace");
            profile.fields.push(data["fields"].as_str().unwrap().to_owned());
        }
        let (stacks, frames) = (&thread["stackTable"], &thread["frameTable"]);
        for stack in column(&thread["samples"], "stack") {
            let mut names = Vec::new();
            let mut at = Some(stack);
            while let Some(stack) = at.filter(|at| !at.is_null()) {
                let frame = &column(stacks, "frame")[place(stack)];
                let function = &column(frames, "func")[place(frame)];
                names.insert(0, text(&column(&thread["funcTable"], "name")[place(function)]));
                at = Some(&column(stacks, "prefix")[place(stack)]);
            }
            *profile.samples.entry(names).or_default() += 1;
        }
    }
    for counter in file["counters"].as_array().into_iter().flatten() {
        profile.counters += counter["samples"]["length"].as_u64().unwrap() as usize;
    }
    profile
}

#[test]
fn markers_are_the_slices_of_perfetto() {
    if left_out() {
        return;
    }
    let mut found = 0;
    for (name, source) in sources() {
        let Some(bytes) = convert(View::Firefox, &source) else { continue };
        let mut profile = read(&bytes);
        let trace = Trace::read(&convert(View::Perfetto, &source).unwrap());
        // A profile has no times before its start, and none that `f64` does not have exactly.
        let is_far = |at: i64| !(0..1 << 40).contains(&at);
        if trace.slices.iter().any(|slice| is_far(slice.start)) {
            continue;
        }
        let own = |slice: &&testkit::perfetto::Slice| {
            (&*slice.name, &*slice.category) != ("trace", "nettrace")
        };
        let mut expected: Vec<_> = trace
            .slices
            .iter()
            .filter(own)
            .map(|slice| {
                let end = (!slice.is_instant).then(|| slice.end.unwrap_or(i64::MAX));
                (slice.start, end, slice.name.clone(), slice.category.clone())
            })
            .collect();
        expected.sort();
        profile.markers.sort();
        found += expected.len();
        assert_eq!(profile.markers, expected, "{name}");
        let finite = trace.counters.iter().filter(|(.., value)| value.is_finite()).count();
        assert_eq!(profile.counters, finite, "{name}");
    }
    assert!(found > 100, "{found}");
}

#[test]
fn samples_have_the_names_of_their_frames() {
    let profile = read(&convert(View::Firefox, &universal()).unwrap());
    let expected: BTreeMap<Vec<String>, usize> = UNIVERSAL
        .iter()
        .map(|(stack, count)| (stack.iter().map(|&name| name.to_owned()).collect(), *count))
        .collect();
    assert_eq!(profile.samples, expected);
}

#[test]
fn texts_are_whatever_they_are() {
    let text = hostile_text();
    let mut stream = Stream::new();
    stream.thread(5);
    stream.metadata(&EventType::new(1, &text, 1, &text).field(&text, &[18]));
    stream.events(&[Row::new(5, 1, 2000).payload(&utf16z(&text))]);
    let profile = read(&convert(View::Firefox, &stream.end()).unwrap());
    assert_eq!(profile.markers, [(1_000_000, None, text.clone(), text.clone())]);
    let fields: Json = serde_json::from_str(&format!("{{{}}}", profile.fields[0])).unwrap();
    assert_eq!(fields[&text], text.as_str());
}
