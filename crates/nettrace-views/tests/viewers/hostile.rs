//! Converts a trace whose names and values contain everything that formats have rules for: quotes,
//! control characters, what ends an element or a script, 64 KiB of text, lone surrogates, ids at
//! their limits. The readers of each target accept the result, and find the names.

use std::{collections::BTreeSet, fs, io::Read};

use flate2::read::GzDecoder;
use nettrace_reader::Reader;
use nettrace_views::{
    model::is_hidden,
    viewers::{By, Options, View, write},
};
use serde_json::Value as Json;
use testkit::{
    agreed::Agreed,
    perfetto::{Field, Trace, ask, message},
    streams::hostile::{long_text, names, trace},
};

fn convert(view: View, options: &Options) -> Vec<u8> {
    let source = trace();
    let mut events = Reader::new(&source[..]).unwrap().sorted();
    let mut out = Vec::new();
    let written = write(view, &mut events, &mut out, options).unwrap();
    written.end.unwrap();
    assert_eq!(events.totals().events, 8 * names().len() as u64);
    assert_eq!(events.totals().lost, 0);
    out
}

/// All texts of a JSON document, also keys.
fn texts(json: &Json, all: &mut BTreeSet<String>) {
    match json {
        Json::String(text) => drop(all.insert(text.clone())),
        Json::Array(values) => values.iter().for_each(|value| texts(value, all)),
        Json::Object(members) => members.iter().for_each(|(key, value)| {
            all.insert(key.clone());
            texts(value, all);
        }),
        _ => {}
    }
}

#[test]
fn judge_perfetto_and_chrome() {
    let agreed = Agreed::open("tests/viewers/perfetto.agreed");
    let folder = tempfile::tempdir().unwrap();
    let bytes = convert(View::Perfetto, &Options::default());
    let trace = Trace::read(&bytes);
    for name in names() {
        assert!(trace.slices.iter().any(|it| it.name == name && it.category == name), "{name:?}");
    }
    let queries = [
        "SELECT COUNT(*), SUM(dur > 0) FROM slice WHERE category != 'nettrace'",
        "SELECT DISTINCT name FROM slice WHERE dur > 0",
        "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0",
        "SELECT (SELECT COUNT(*) FROM perf_sample), \
         (SELECT COUNT(*) FROM cpu_profile_stack_sample)",
    ];
    // Of each name there are a span, an event of a counter and five others. Samples are events in
    // Perfetto's format, whose ids have 32 bits.
    for (view, events, samples) in [(View::Perfetto, 56, [0, 0]), (View::Chrome, 49, [0, 7])] {
        let file = folder.path().join(view.name()).with_extension(view.endings()[0]);
        let bytes = convert(view, &Options::default());
        fs::write(&file, &bytes).unwrap();
        agreed.or_ask(&[&bytes, queries.concat().as_bytes()], || {
            let Some(answers) = ask(&file, &queries) else { return false };
            assert_eq!(answers[0], [[events, 7].map(Json::from)], "{view}");
            // Perfetto shows what is before a NUL, and the escapes of control characters in JSON.
            let found: BTreeSet<_> =
                answers[1].iter().filter_map(|row| row[0].as_str()).map(str::to_owned).collect();
            let shown = |name: String| match view {
                View::Perfetto => name.split('\0').next().unwrap_or_default().to_owned(),
                _ => name.chars().map(escaped).collect(),
            };
            assert_eq!(found, names().into_iter().map(shown).collect(), "{view}");
            assert!(answers[2].is_empty(), "{view}: {:?}", answers[2]);
            assert_eq!(answers[3], [samples.map(Json::from)], "{view}");
            true
        });
    }
}

/// A hidden character that JSON has no letter for, as our JSON states it.
fn escaped(c: char) -> String {
    match c {
        '\n' | '\r' | '\t' => c.to_string(),
        c if is_hidden(c) => {
            c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
        }
        c => c.to_string(),
    }
}

#[test]
fn json() {
    for view in [View::Chrome, View::Speedscope, View::Firefox] {
        let json: Json = serde_json::from_slice(&convert(view, &Options::default())).unwrap();
        let mut found = BTreeSet::new();
        texts(&json, &mut found);
        for name in names() {
            assert!(found.contains(&name), "{view}: {name:?}");
        }
        // Firefox's markers have one text with all fields. speedscope has no fields.
        let has_long = found.iter().any(|text| text.contains(&long_text()));
        assert_eq!(has_long, view != View::Speedscope, "{view}");
    }
}

#[test]
fn pprof() {
    let mut profile = Vec::new();
    let bytes = convert(View::Pprof, &Options::default());
    GzDecoder::new(&bytes[..]).read_to_end(&mut profile).unwrap();
    let texts: BTreeSet<_> = message(&profile)
        .into_iter()
        .filter_map(|(number, field)| match field {
            Field::Bytes(text) if number == 6 => Some(std::str::from_utf8(text).unwrap()),
            _ => None,
        })
        .collect();
    for name in names() {
        assert!(texts.contains(&*format!("{name}!{name}")), "{name:?}");
    }
}

#[test]
fn pictures_and_stacks() {
    for by in [By::Cpu, By::Spans] {
        let options = Options::default().by(by);
        let svg = String::from_utf8(convert(View::FlameGraph, &options)).unwrap();
        let parsed = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let picture = roxmltree::Document::parse_with_options(&svg, parsed).unwrap();
        let titles = picture.descendants().filter(|node| node.has_tag_name("title")).count();
        assert!(titles > names().len(), "{titles}");
        let folded = String::from_utf8(convert(View::Folded, &options)).unwrap();
        // One line for each stack.
        assert_eq!(folded.lines().count(), names().len(), "{folded:?}");
    }
}
