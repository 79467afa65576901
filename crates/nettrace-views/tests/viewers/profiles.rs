//! Converts traces for speedscope, for pprof and to flame graphs, and compares them with each other
//! and with what is known of the source.

use std::collections::BTreeMap;

use flate2::read::GzDecoder;
use nettrace_event::trace_context::{ActivityId, SpanId};
use nettrace_reader::Reader;
use nettrace_views::{
    LeftOut, LeftOutKind,
    viewers::{By, Folded, Options, View, write},
};
use serde_json::Value as Json;
use testkit::{
    effort::left_out,
    perfetto::{Field, Trace, message},
    reference::dotnet_traces,
    streams::{EventType, Row, Stream},
};

use crate::sources::{UNIVERSAL, hostile_text, sources, two_threads, universal};

fn convert_with(view: View, source: &[u8], options: &Options) -> Option<(Vec<u8>, LeftOut)> {
    let mut events = Reader::new(source).ok()?.sorted();
    let mut out = Vec::new();
    let written = write(view, &mut events, &mut out, options).unwrap();
    Some((out, written.left_out))
}

fn convert(view: View, source: &[u8]) -> Option<Vec<u8>> {
    convert_with(view, source, &Options::default()).map(|(out, _)| out)
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Name of a profile; start, end and depth of each frame, with its name.
type Evented = (String, Vec<(i64, i64, usize, String)>);

/// A file of speedscope: the profiles, with stacks by their names.
#[derive(Debug, Default)]
struct Profiles {
    evented: Vec<Evented>,
    /// How much each stack has.
    sampled: BTreeMap<Vec<String>, u64>,
    samples: usize,
}

/// Reads a file of speedscope by the rules of its format: what is opened is closed, the last one
/// first, and times do not go back.
fn speedscope(bytes: &[u8]) -> Profiles {
    let file: Json = serde_json::from_slice(bytes).unwrap();
    assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
    let frames = file["shared"]["frames"].as_array().unwrap();
    let names: Vec<_> = frames.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect();
    let mut profiles = Profiles::default();
    for profile in file["profiles"].as_array().unwrap() {
        let (start, end) = (&profile["startValue"], &profile["endValue"]);
        let (start, end) = (start.as_i64().unwrap(), end.as_i64().unwrap());
        assert!(start <= end);
        if profile["type"] == "sampled" {
            let (samples, weights) = (&profile["samples"], &profile["weights"]);
            let (samples, weights) = (samples.as_array().unwrap(), weights.as_array().unwrap());
            assert_eq!(samples.len(), weights.len());
            profiles.samples += samples.len();
            let mut sum = 0;
            for (sample, weight) in samples.iter().zip(weights) {
                let frames = sample.as_array().unwrap().iter();
                let stack = frames.map(|at| names[at.as_u64().unwrap() as usize].clone());
                let weight = weight.as_u64().unwrap();
                sum += weight;
                *profiles.sampled.entry(stack.collect()).or_default() += weight;
            }
            assert_eq!(sum, end as u64);
            continue;
        }
        let (mut open, mut spans) = (Vec::new(), Vec::new());
        let mut last = start;
        for event in profile["events"].as_array().unwrap() {
            let at = event["at"].as_i64().unwrap();
            assert!((last..=end).contains(&at), "{event}");
            last = at;
            let frame = event["frame"].as_u64().unwrap() as usize;
            if event["type"] == "O" {
                open.push((frame, at));
                continue;
            }
            assert_eq!(event["type"], "C");
            let (opened, begun) = open.pop().unwrap();
            assert_eq!(opened, frame);
            spans.push((begun, at, open.len(), names[frame].clone()));
        }
        assert!(open.is_empty());
        profiles.evented.push((profile["name"].as_str().unwrap().to_owned(), spans));
    }
    profiles
}

/// A profile of pprof: the four values of each stack.
fn pprof(bytes: &[u8]) -> BTreeMap<Vec<String>, [u64; 4]> {
    let mut whole = Vec::new();
    std::io::Read::read_to_end(&mut GzDecoder::new(bytes), &mut whole).unwrap();
    let fields = message(&whole);
    let texts: Vec<_> = fields
        .iter()
        .filter_map(|field| match field {
            (6, Field::Bytes(bytes)) => Some(std::str::from_utf8(bytes).unwrap()),
            _ => None,
        })
        .collect();
    assert_eq!(texts[0], "");
    let number = |fields: &[(u64, Field<'_>)], wanted| {
        fields.iter().find_map(|(number, field)| match field {
            Field::Number(value) if *number == wanted => Some(*value),
            _ => None,
        })
    };
    let (mut functions, mut locations, mut files) =
        (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let (mut types, mut stacks) = (Vec::new(), BTreeMap::new());
    for (field, value) in &fields {
        let Field::Bytes(body) = value else { continue };
        if *field == 6 {
            continue;
        }
        let body = message(body);
        match field {
            1 => {
                let type_and_unit = [1, 2].map(|at| texts[number(&body, at).unwrap() as usize]);
                types.push(type_and_unit.join("/"));
            }
            2 => {
                let packed = |wanted| {
                    let found = body.iter().find(|(number, _)| *number == wanted);
                    let Some((_, Field::Bytes(bytes))) = found else { panic!("{body:?}") };
                    numbers(bytes)
                };
                let names: Vec<String> =
                    packed(1).iter().rev().map(|id| locations[id]).map(str::to_owned).collect();
                let values: [u64; 4] = packed(2).try_into().unwrap();
                let before = stacks.insert(names, values);
                // A sample and a span may be of the same stack.
                assert!(before.is_none_or(|before: [u64; 4]| before[0] * values[0] == 0));
            }
            3 => drop(files.insert(number(&body, 1).unwrap(), number(&body, 5).unwrap())),
            4 => {
                let id = number(&body, 1).unwrap();
                let Some((_, Field::Bytes(line))) = body.iter().find(|(field, _)| *field == 4)
                else {
                    panic!("{body:?}")
                };
                let function = number(&message(line), 1).unwrap();
                assert!(locations.insert(id, functions[&function]).is_none());
                if let Some(file) = number(&body, 2) {
                    assert!(files.contains_key(&file));
                }
            }
            5 => {
                let name = texts[number(&body, 2).unwrap() as usize];
                assert!(functions.insert(number(&body, 1).unwrap(), name).is_none());
            }
            11 => {}
            other => panic!("an unexpected field: {other}"),
        }
    }
    let expected = ["samples/count", "cpu/nanoseconds", "spans/count", "span_time/nanoseconds"];
    assert_eq!(types, expected);
    stacks
}

/// The numbers of a packed field.
fn numbers(bytes: &[u8]) -> Vec<u64> {
    let (mut all, mut value, mut shift) = (Vec::new(), 0_u64, 0);
    for byte in bytes {
        value |= u64::from(byte & 0x7F) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            all.push(value);
            (value, shift) = (0, 0);
        }
    }
    all
}

/// The lines of a text of stacks.
fn folded(text: &str) -> BTreeMap<Vec<String>, u64> {
    let mut stacks = BTreeMap::new();
    for line in text.lines() {
        let (stack, number) = line.rsplit_once(' ').unwrap();
        let stack = stack.split(';').map(str::to_owned).collect();
        *stacks.entry(stack).or_default() += number.parse::<u64>().unwrap();
    }
    stacks
}

fn names(stack: &[&str]) -> Vec<String> {
    stack.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn samples_with_their_names() {
    let source = universal();
    // Each stands for 2 ms.
    let nanos = |count: usize| 2_000_000 * count as u64;
    let expected: BTreeMap<_, _> =
        UNIVERSAL.iter().map(|(stack, count)| (names(stack), nanos(*count))).collect();
    let profiles = speedscope(&convert(View::Speedscope, &source).unwrap());
    assert_eq!((&profiles.sampled, profiles.samples), (&expected, 6));
    let found = pprof(&convert(View::Pprof, &source).unwrap());
    for (stack, nanos) in &expected {
        assert_eq!(found[stack], [nanos / 2_000_000, *nanos, 0, 0]);
    }
    assert_eq!(found.len(), 3);
    // A semicolon would begin another frame.
    let in_text: BTreeMap<_, _> = expected
        .iter()
        .map(|(stack, nanos)| (stack.iter().map(|name| name.replace(';', "_")).collect(), *nanos))
        .collect();
    assert_eq!(folded(&text(convert(View::Folded, &source).unwrap())), in_text);
    let svg = text(convert(View::FlameGraph, &source).unwrap());
    assert!(svg.contains("shop.so!work") && svg.contains("8,000,000 ns"), "{svg}");
    assert!(svg.contains("main&lt;&quot;&amp;\\&gt;_x"), "{svg}");
}

/// Spans: times in profiles of threads; in trees without what is inside.
#[test]
fn spans_by_their_parents() {
    let source = two_threads();
    let profiles = speedscope(&convert(View::Speedscope, &source).unwrap());
    let shapes: Vec<_> = profiles.evented.iter().map(|(_, spans)| spans.clone()).collect();
    let one = vec![(100_000, 200_000, 0, "outer".to_owned())];
    let two = vec![(120_000, 150_000, 0, "inner".to_owned())];
    assert_eq!(shapes, [one, two]);
    let found = pprof(&convert(View::Pprof, &source).unwrap());
    let outer = names(&["Shop!outer"]);
    let inner = names(&["Shop!outer", "Shop!inner"]);
    assert_eq!(found[&outer], [0, 0, 1, 70_000]);
    assert_eq!(found[&inner], [0, 0, 1, 30_000]);
    let (bytes, left_out) =
        convert_with(View::Folded, &source, &Options::default().by(By::Spans)).unwrap();
    assert_eq!(text(bytes), "Shop!outer 70000\nShop!outer;Shop!inner 30000\n");
    let left_out: Vec<_> = left_out.lines().collect();
    let moments = (1, "events that are neither spans nor samples", LeftOutKind::NoPlace);
    assert_eq!(left_out, [moments]);
}

/// A recursion of 20,000 spans. Stacks have 1,024 levels at most: each of the first 1,023 spans has
/// its own, and all others are in the last one. The time is proportional to the spans.
#[test]
fn spans_that_are_very_deep() {
    const SPANS: u64 = 20_000;
    let label = |span: u64| vec![[&[4][..], &span.to_le_bytes()].concat()];
    let activity =
        |span: u64| ActivityId::from_span_id(SpanId::from_u64(span).unwrap(), 77).to_bytes_le();
    let mut stream = Stream::new();
    stream.thread(5);
    for (id, name, opcode) in [(1, "deepStart", 1), (2, "deepStop", 2)] {
        stream.metadata(&EventType::new(id, "Shop", id, name).optional(&[8, 4, 1, opcode]));
    }
    for span in 1..=SPANS {
        let mut labels = label(span);
        if span > 1 {
            labels.push([&[2][..], &activity(span - 1)].concat());
        }
        stream.label_lists(span as u32, &[&labels]);
        let row = Row::new(5, span as u32, 1000 + span).metadata(1).labels(span as u32);
        stream.events(&[row]);
    }
    for span in (1..=SPANS).rev() {
        let number = (2 * SPANS + 1 - span) as u32;
        let row = Row::new(5, number, 1000 + u64::from(number)).metadata(2).labels(span as u32);
        stream.events(&[row]);
    }
    let source = stream.end();
    let options = Options::default().by(By::Spans);
    let (folded, left_out) = convert_with(View::Folded, &source, &options).unwrap();
    let folded = text(folded);
    let lines: Vec<_> = folded.lines().map(|line| line.rsplit_once(' ').unwrap()).collect();
    let levels = |line: &(&str, &str)| line.0.split(';').count();
    assert!(lines.iter().map(levels).eq(1..=1024));
    let took: Vec<u64> = lines.iter().map(|line| line.1.parse().unwrap()).collect();
    assert!(took[..1023].iter().all(|nanos| *nanos == 2_000), "{took:?}");
    assert_eq!(took.iter().sum::<u64>(), (2 * SPANS - 1) * 1_000);
    let what = "stacks of spans, as there are too many levels";
    let cut = (SPANS - 1024, what, LeftOutKind::Missing);
    assert_eq!(left_out.lines().collect::<Vec<_>>(), [cut]);
    let (svg, _) = convert_with(View::FlameGraph, &source, &options).unwrap();
    assert!(text(svg).contains("Shop!deep"));
    let (bytes, left_out) = convert_with(View::Pprof, &source, &Options::default()).unwrap();
    let spans: u64 = pprof(&bytes).values().map(|values| values[2]).sum();
    assert_eq!((spans, left_out.lines().last()), (SPANS, Some(cut)));
}

#[test]
fn comparisons_have_the_colours_of_change() {
    let now = two_threads();
    let before = Folded::read("Shop!outer 70000\nShop!outer;Shop!inner 90000\nShop!gone 5\n");
    let same = Folded::read(&text(convert(View::Folded, &now).unwrap()));
    let options = Options::default();
    let svg = |before| {
        let options = options.clone().compared_with(before);
        text(convert_with(View::FlameGraph, &now, &options).unwrap().0)
    };
    // 60,000 of 100,000 less than before.
    assert!(svg(before).contains("; -60.00%)"), "the share of the change");
    let same = svg(same);
    assert!(same.contains("; 0.00%)") && !same.contains("; -60.00%)"), "{same}");
}

/// All traces: what the targets say is the same, and speedscope has the times of Perfetto.
#[test]
fn targets_agree() {
    if left_out() {
        return;
    }
    let (mut spans, mut samples) = (0, 0);
    for (name, source) in sources() {
        let Some(bytes) = convert(View::Speedscope, &source) else { continue };
        let profiles = speedscope(&bytes);
        let trace = Trace::read(&convert(View::Perfetto, &source).unwrap());
        let is_far = |at: i64| at.unsigned_abs() > 1 << 53;
        if trace.slices.iter().any(|slice| is_far(slice.start)) {
            continue;
        }
        let mut found: Vec<_> = profiles
            .evented
            .iter()
            .flat_map(|(_, spans)| spans)
            .map(|(start, end, _, name)| (*start, *end, name.clone()))
            .collect();
        let mut expected: Vec<_> = trace
            .spans()
            .filter_map(|(_, slice)| Some((slice.start, slice.end?, slice.name.clone())))
            .collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{name}");
        spans += found.len();
        samples += profiles.samples;
        let by_stack = pprof(&convert(View::Pprof, &source).unwrap());
        let count: u64 = by_stack.values().map(|values| values[0]).sum();
        assert_eq!(count, profiles.samples as u64, "{name}");
        let (folded_text, _) =
            convert_with(View::Folded, &source, &Options::default().by(By::Spans)).unwrap();
        let total: u64 = folded(&text(folded_text)).values().sum();
        let nanos: u64 = by_stack.values().map(|values| values[3]).sum();
        assert_eq!(total, nanos, "{name}");
        for by in [By::Cpu, By::Spans] {
            let options = Options::default().by(by);
            let (svg, _) = convert_with(View::FlameGraph, &source, &options).unwrap();
            assert!(text(svg).contains("<svg"), "{name}");
        }
    }
    if dotnet_traces().is_empty() {
        println!("skipped: the spans and samples of .NET, as there are no traces of it");
        return;
    }
    assert!(spans > 100 && samples > 1, "{spans} {samples}");
}

#[test]
fn texts_are_whatever_they_are() {
    let name = hostile_text();
    let mut stream = Stream::new();
    stream.thread(5);
    let ty = EventType::new(1, &name, 1, &name).optional_text(6, &["nettrace.span", "single"]);
    let ty = ty.field("started", &[11]).field("duration", &[12]).field("outcome", &[19, 4]);
    stream.metadata(&ty);
    stream.label_lists(1, &[&[[&[4][..], &7_u64.to_le_bytes()].concat()]]);
    let payload = [&[0; 8][..], &1000_u64.to_le_bytes(), &[0, 0]].concat();
    stream.events(&[Row::new(5, 1, 2000).payload(&payload).labels(1)]);
    let source = stream.end();
    let profiles = speedscope(&convert(View::Speedscope, &source).unwrap());
    assert_eq!(profiles.evented[0].1, [(999_000, 1_000_000, 0, name.clone())]);
    let stacks = pprof(&convert(View::Pprof, &source).unwrap());
    assert_eq!(stacks[&vec![format!("{name}!{name}")]], [0, 0, 1, 1000]);
    let svg = text(convert(View::FlameGraph, &source).unwrap());
    assert!(svg.trim_end().ends_with("</svg>"));
    let is_allowed = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    assert!(svg.chars().all(is_allowed), "a character that XML does not have");
}

/// Counts what is written, and how much at once.
#[derive(Default)]
struct Pieces {
    largest: usize,
    total: Vec<u8>,
}

impl std::io::Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.largest = self.largest.max(bytes.len());
        self.total.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A file of speedscope is written in pieces: it can be much larger than what it is made of.
#[test]
fn many_samples_are_written_in_pieces() {
    const SAMPLES: u32 = 50_000;
    let mut stream = Stream::new();
    stream.thread(5).metadata(&EventType::new(1, "Universal.Events", 1, "cpu"));
    let stack: Vec<u64> = (0..40).map(|frame| 0x1000 + frame).collect();
    stream.stacks(1, &[&stack]);
    let rows: Vec<_> = (0..SAMPLES)
        .map(|number| Row {
            stack: 1,
            ..Row::new(5, number + 1, 1000 + u64::from(number)).metadata(1)
        })
        .collect();
    stream.events(&rows);
    let source = stream.end();
    let mut events = Reader::new(&source[..]).unwrap().sorted();
    let mut out = Pieces::default();
    write(View::Speedscope, &mut events, &mut out, &Options::default()).unwrap().end.unwrap();
    assert_eq!(speedscope(&out.total).samples, SAMPLES as usize);
    assert!(out.total.len() > 5 << 20, "{}", out.total.len());
    assert!(out.largest < 2 << 20, "{}", out.largest);
}
