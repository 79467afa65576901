//! Converts a trace whose names and values contain everything that formats have rules for: quotes,
//! control characters, what ends an element or a script, 64 KiB of text, lone surrogates, ids at
//! their limits. The readers of each target accept the result, and find the names.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    io::Read,
};

use flate2::read::GzDecoder;
use nettrace_reader::Reader;
use nettrace_views::{By, Options, View, write};
use serde_json::Value as Json;
use testkit::{
    perfetto::{Field, Trace, ask, message},
    streams::{EventType, Row, Stream, string, utf16z, varuint},
};

/// Hostile names.
fn names() -> Vec<String> {
    vec![
        "\"quotes\" 'and' \\ \r\n\t</script><!-- ]]> &amp; ;|`$(x) {}[]%n#2".to_owned(),
        "a\u{1}\u{1b}[31m\u{7f}\u{85}\u{2028}\u{202E}\u{FEFF}\u{FFFE}\u{FFFF}\u{10FFFF}é"
            .to_owned(),
        "before\0behind".to_owned(),
        "long ".repeat(1_800),
    ]
}

/// Each name as that of a provider, a span, an event, a field, a thread, a function, a file, a
/// counter and a unit; values with all of them.
fn hostile() -> Vec<u8> {
    let names = names();
    let facts: Vec<_> = names.iter().map(|name| (&**name, &**name)).collect();
    let mut stream =
        Stream::with_keys(&[&facts[..], &[("ProcessId", "18446744073709551615")]].concat());
    let mut rows = Vec::new();
    let mut row = |thread: u64, at: u64, ty: u32, payload: &[u8]| {
        rows.push(Row::new(thread, 0, at).metadata(ty).payload(payload));
        rows.len() - 1
    };
    let mut labelled = Vec::new();
    for (number, name) in (0_u32..).zip(&names) {
        let thread = u64::MAX - u64::from(number);
        let mut of_thread = Vec::new();
        varuint(&mut of_thread, thread);
        of_thread.push(1);
        string(&mut of_thread, name);
        for kind in [2, 3] {
            of_thread.push(kind);
            varuint(&mut of_thread, thread);
        }
        of_thread.push(4);
        string(&mut of_thread, name);
        string(&mut of_thread, name);
        stream.thread_row(&of_thread);
        let (first, id) = (u64::from(number) * 4 + 1, u64::from(u32::MAX - number));
        let span = EventType::new(first, name, id, name);
        let span = span.optional_text(6, &["nettrace.span", "single"]);
        let span = span.field("started", &[11]).field("duration", &[12]).field("outcome", &[18]);
        stream.metadata(&span);
        // The name itself as the name of a field, twice.
        let event = EventType::new(first + 1, name, id, name).field(name, &[18]).field(name, &[14]);
        stream.metadata(&event);
        let counter =
            EventType::new(first + 2, "System.Diagnostics.Metrics", 1, "GaugeValuePublished");
        let counter = ["meterName", "instrumentName", "unit", "tags", "lastValue"]
            .into_iter()
            .fold(counter, |ty, field| ty.field(field, &[18]));
        stream.metadata(&counter);
        let at = 10_000 * (u64::from(number) + 1);
        let stop = [&[0; 8][..], &5_000_u64.to_le_bytes(), &utf16z(name)].concat();
        labelled.push(row(thread, at + 5_000, first as u32, &stop));
        // Text of 64 KiB, and a surrogate alone.
        let surrogate = [0xD800_u16.to_le_bytes(), [0; 2]].concat();
        let text = [&utf16z(name)[..], &f64::NAN.to_bits().to_le_bytes()].concat();
        row(thread, at + 6_000, first as u32 + 1, &text);
        row(thread, at + 7_000, first as u32 + 1, &[&surrogate[..], &[0xFF; 8]].concat());
        let long = [&utf16z(&long_text())[..], &[0; 8]].concat();
        row(thread, at + 8_000, first as u32 + 1, &long);
        let texts = [name, name, name, name, "1.5"].map(utf16z).concat();
        row(thread, at + 9_000, first as u32 + 2, &texts);
    }
    let (sample, mapping, symbol) = (100, 101, 102);
    stream.metadata(&EventType::new(sample.into(), "Universal.Events", 1, "cpu"));
    stream.metadata(&EventType::new(mapping.into(), "Universal.System", 3, "ProcessMapping"));
    stream.metadata(&EventType::new(symbol.into(), "Universal.System", 4, "ProcessSymbol"));
    let text = |text: &str| [&(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat();
    let mut samples = Vec::new();
    for (number, name) in (0_u64..).zip(&names) {
        let numbers = |numbers: &[u64]| {
            let mut out = Vec::new();
            numbers.iter().for_each(|number| varuint(&mut out, *number));
            out
        };
        let (thread, start) = (u64::MAX - number, (number + 1) << 20);
        let file = [numbers(&[number, start, start + 0x1000, 0]), text(name), vec![0]].concat();
        row(thread, 90_000, mapping, &file);
        let function = [numbers(&[number, number, start, start + 0xFF]), text(name)].concat();
        row(thread, 90_001, symbol, &function);
        samples.push((row(thread, 91_000, sample, &[]), vec![start + 1, u64::MAX, 0]));
    }
    let stacks: Vec<&[u64]> = samples.iter().map(|(_, stack)| &**stack).collect();
    stream.stacks(u32::MAX - 8, &stacks);
    for (number, (place, _)) in (0..).zip(&samples) {
        rows[*place].stack = u32::MAX - 8 + number;
    }
    let ids: Vec<_> = (0..names.len() as u64)
        .map(|number| {
            let span = [&[4][..], &(u64::MAX - number).to_le_bytes()].concat();
            let trace = [&[3][..], &[0xFF; 16]].concat();
            let mut text = vec![5];
            string(&mut text, &names[number as usize]);
            string(&mut text, &names[number as usize]);
            vec![trace, span, text]
        })
        .collect();
    let ids: Vec<&[Vec<u8>]> = ids.iter().map(|list| &**list).collect();
    stream.label_lists(1, &ids);
    for (number, place) in (1..).zip(&labelled) {
        rows[*place].labels = number;
    }
    let mut sequence = HashMap::new();
    for row in &mut rows {
        let last = sequence.entry(row.thread).or_insert(0);
        *last += 1;
        row.sequence = *last;
    }
    stream.events(&rows).end()
}

/// More than 64 KiB in any encoding.
fn long_text() -> String {
    "é".repeat(70_000)
}

fn convert(view: View, options: &Options) -> Vec<u8> {
    let source = hostile();
    let mut events = Reader::new(&source[..]).unwrap().sorted();
    let mut out = Vec::new();
    let written = write(view, &mut events, &mut out, options).unwrap();
    written.end.unwrap();
    assert_eq!(events.totals().events, 4 * 8);
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
fn perfetto_and_chrome() {
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
    for (view, events, samples) in [(View::Perfetto, 32, [0, 0]), (View::Chrome, 28, [0, 4])] {
        let file = folder.path().join(view.name()).with_extension(view.endings()[0]);
        fs::write(&file, convert(view, &Options::default())).unwrap();
        let Some(answers) = ask(&file, &queries) else { return };
        assert_eq!(answers[0], [[events, 4].map(Json::from)], "{view}");
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
    }
}

/// A control character that JSON has no letter for, as JSON states it.
fn escaped(c: char) -> String {
    match c {
        '\n' | '\r' | '\t' => c.to_string(),
        '\0'..' ' | '\u{7f}' => format!("\\u{:04x}", u32::from(c)),
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
        assert!(titles > 4, "{titles}");
        let folded = String::from_utf8(convert(View::Folded, &options)).unwrap();
        // One line for each stack.
        assert_eq!(folded.lines().count(), 4, "{folded:?}");
    }
}
