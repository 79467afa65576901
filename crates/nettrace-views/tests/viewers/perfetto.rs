//! Converts handmade and .NET traces for Perfetto, and compares every event with the source.

use nettrace_reader::{Event, Options as Reading, Reader, Value as Source};
use nettrace_views::{
    LeftOut,
    viewers::{Options, View, write},
};
use testkit::{
    effort::left_out,
    perfetto::{Slice, Trace, Value},
    reference::dotnet_traces,
    streams::{EventType, Row, Stream, fields_of, random::Random},
};

use crate::sources::{sources, universal};

/// Converts a trace. Returns the result, what was left out, and whether the source was whole.
fn convert(source: &[u8]) -> Option<(Trace, LeftOut, bool)> {
    let mut events = Reader::new(source).ok()?.sorted();
    let mut out = Vec::new();
    let written = write(View::Perfetto, &mut events, &mut out, &Options::default()).unwrap();
    Some((Trace::read(&out), written.left_out, written.end.is_ok()))
}

/// What an annotation must be for a value of the source.
fn expected(value: &Source<'_>) -> Value {
    let text = |text: String| Value::Text(text);
    match value {
        Source::Bool(value) => Value::Bool(*value),
        Source::I8(value) => Value::Int((*value).into()),
        Source::I16(value) => Value::Int((*value).into()),
        Source::I32(value) => Value::Int((*value).into()),
        Source::I64(value) => Value::Int(*value),
        Source::U8(value) => Value::Uint((*value).into()),
        Source::U16(value) => Value::Uint((*value).into()),
        Source::U32(value) => Value::Uint((*value).into()),
        Source::U64(value) => Value::Uint(*value),
        Source::F32(value) => Value::Double((*value).into()),
        Source::F64(value) => Value::Double(*value),
        Source::Text(value) => text(value.clone().into_owned()),
        Source::DateTime(time) => text(time.to_string()),
        Source::Decimal(number) => text(number.to_string()),
        Source::Utf16CodeUnit(unit) => match char::from_u32((*unit).into()) {
            Some(c) => text(c.into()),
            None => Value::Uint((*unit).into()),
        },
        Source::Utf8CodeUnit(unit) if unit.is_ascii() => text(char::from(*unit).into()),
        Source::Utf8CodeUnit(unit) => Value::Uint((*unit).into()),
        Source::FileTime(units) => match nettrace_reader::WallTime::from_file_time(*units) {
            Some(time) => {
                let seconds = time.to_string()[..20].to_owned();
                text(format!("{seconds}{:07}Z", units % 10_000_000))
            }
            None => text(units.to_string()),
        },
        Source::Guid(id) => {
            let turned = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15].map(|at| id[at]);
            let digits: String = turned.iter().map(|byte| format!("{byte:02x}")).collect();
            let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| digits[part].to_owned());
            text(parts.join("-"))
        }
        Source::Bytes(bytes) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            text(format!("0x{digits}"))
        }
        Source::Array(values) if values.is_empty() => Value::Nothing,
        Source::Array(values) => Value::Array(values.iter().map(expected).collect()),
        Source::Object(fields) if fields.is_empty() => Value::Nothing,
        Source::Object(fields) => {
            let members = fields.iter().map(|(name, value)| ((*name).to_owned(), expected(value)));
            Value::Dict(members.collect())
        }
        other => panic!("{other:?}"),
    }
}

fn is_same(one: &Value, other: &Value) -> bool {
    // No number is equal to itself if it is not one.
    format!("{one:?}") == format!("{other:?}")
}

/// Checks that the annotations of a slice begin with the fields of an event.
fn check_fields(slice: &Slice, event: &Event<'_>, name: &str) {
    let stated =
        event.metadata().key_values.iter().any(|(key, _)| key.starts_with("nettrace.type"));
    if stated {
        return;
    }
    let mut annotations = slice.annotations.iter();
    let mut fields = event.fields();
    while !fields.is_exhausted() {
        let Some(Ok((field, value))) = fields.next() else { break };
        let (key, found) = annotations.next().unwrap_or_else(|| panic!("{name}: no {field}"));
        assert_eq!(key, field, "{name}");
        assert!(is_same(found, &expected(&value)), "{name}: {field}: {found:?} {value:?}");
    }
}

/// Every event is in the result: as an instant, as a sample, or as a begin or end of a slice. An
/// instant has the time, the name, the provider, the thread and the fields of the event.
#[test]
fn every_event_is_in_the_result() {
    let (mut instants, mut traces) = (0, 0);
    for (name, bytes) in sources() {
        let Some((trace, _, is_whole)) = convert(&bytes) else { continue };
        traces += 1;
        let mut events = Reader::new(&bytes[..]).unwrap().sorted();
        let per_second = events.trace().ticks_per_second;
        let own = |slice: &&Slice| slice.category != "nettrace";
        let mut left: std::collections::HashMap<_, std::collections::VecDeque<&Slice>> =
            std::collections::HashMap::new();
        for slice in trace.instants().filter(own) {
            left.entry((slice.start, slice.name.clone())).or_default().push_back(slice);
        }
        let (mut others, mut samples) = (0, 0);
        let mut read = 0;
        while let Ok(Some(event)) = events.next_event() {
            read += 1;
            let ticks = i128::from(event.header.timestamp) - i128::from(event.trace().sync_ticks);
            let nanos = ticks * 1_000_000_000;
            let at = if per_second == 0 { 0 } else { nanos.div_euclid(per_second.into()) };
            let at = at.clamp(-(1 << 34), (1 << 62) - (1 << 34)) as i64;
            let metadata = event.metadata();
            let event_name = match &*metadata.name {
                "" => format!("EventID({})", metadata.event_id),
                name => name.to_owned(),
            };
            if let Some(slice) = left.get_mut(&(at, event_name)).and_then(|it| it.pop_front()) {
                assert_eq!(slice.category, metadata.provider, "{name}");
                check_fields(slice, &event, &name);
                let track = &trace.tracks[&slice.track];
                if let (Some(tid), Some(id)) = (track.tid, event.thread().os_thread_id) {
                    assert_eq!(tid, id, "{name}");
                }
                instants += 1;
            } else if metadata.provider == "Microsoft-DotNETCore-SampleProfiler" {
                samples += 1;
            } else {
                others += 1;
            }
        }
        let remaining: usize = left.values().map(std::collections::VecDeque::len).sum();
        assert_eq!(remaining, 0, "{name}: instants that no event explains");
        assert_eq!(samples, trace.samples.len(), "{name}");
        let edges: usize =
            trace.spans().map(|(_, slice)| 1 + usize::from(slice.end.is_some())).sum();
        // A slice may come from one event.
        assert!(others <= edges, "{name}: {others} events are missing");
        let lost: u64 =
            trace.slices.iter().filter(|slice| slice.name == "lost events").map(lost).sum();
        assert_eq!(lost, events.totals().lost, "{name}");
        assert_eq!(read, events.totals().events, "{name}");
        assert!(is_whole || events.next_event().is_ok(), "{name}");
    }
    assert!(traces > 60 && instants > 1000, "{traces} {instants}");
}

fn lost(slice: &Slice) -> u64 {
    match slice.annotation("lost") {
        Some(Value::Uint(number)) => *number,
        other => panic!("{other:?}"),
    }
}

/// The samples of a trace have the callstacks of the source.
#[test]
fn samples_have_their_stacks() {
    if left_out() {
        return;
    }
    for path in dotnet_traces() {
        let bytes = std::fs::read(path).unwrap();
        let (trace, ..) = convert(&bytes).unwrap();
        let mut samples = trace.samples.iter();
        let mut events = Reader::new(&bytes[..]).unwrap().sorted();
        while let Some(event) = events.next_event().unwrap() {
            if event.metadata().provider == "Microsoft-DotNETCore-SampleProfiler" {
                let sample = samples.next().unwrap();
                let mut stack: Vec<_> = event.stack().unwrap().addresses().collect();
                if event.payload == [1, 0, 0, 0] {
                    // The thread was in native code, or waited.
                    stack.insert(0, 0);
                }
                stack.reverse();
                assert_eq!(sample.stack, stack);
                assert_eq!(Some(sample.tid), event.thread().os_thread_id);
            }
        }
        assert_eq!(samples.next(), None);
    }
}

/// A trace with counters of both kinds, as .NET publishes them.
#[test]
fn counters_of_dotnet() {
    let text = |name| (name, vec![18]);
    let fields = fields_of(&[
        text("Name"),
        text("DisplayName"),
        ("Mean", vec![14]),
        ("Count", vec![9]),
        text("DisplayUnits"),
    ]);
    let mut object = vec![1];
    object.extend(fields);
    let counters =
        EventType::new(1, "System.Runtime", 1, "EventCounters").field("Payload", &object);
    let mut meter = EventType::new(2, "System.Diagnostics.Metrics", 4, "CounterRateValuePublished");
    for name in ["sessionId", "meterName", "meterVersion", "instrumentName", "unit", "tags", "rate"]
    {
        meter = meter.field(name, &[18]);
    }
    let utf16 = testkit::streams::utf16z;
    let value = |mean: f64| {
        let mut payload = [utf16("cpu-usage"), utf16("CPU Usage")].concat();
        payload.extend(mean.to_le_bytes());
        payload.extend(1_i32.to_le_bytes());
        payload.extend(utf16("%"));
        payload
    };
    let published = |rate: &str| {
        ["s", "Demo.Shop", "", "orders", "{order}", "shop=1", rate].map(utf16).concat()
    };
    let mut stream = Stream::new();
    stream.thread(5).metadata(&counters).metadata(&meter);
    stream.events(&[
        Row::new(5, 1, 1010).payload(&value(12.5)),
        Row::new(5, 2, 1020).metadata(2).payload(&published("3")),
        Row::new(5, 3, 1030).payload(&value(50.0)),
        Row::new(5, 4, 1040).metadata(2).payload(&published("")),
    ]);
    let (trace, left_out, _) = convert(&stream.end()).unwrap();
    assert_eq!(left_out.total(), 0);
    let found: Vec<_> = trace
        .counters
        .iter()
        .map(|(track, at, value)| {
            let track = &trace.tracks[track];
            (&*track.name, track.counter.as_deref().unwrap(), *at, *value)
        })
        .collect();
    let expected = [
        ("System.Runtime/cpu-usage", "%", 10_000, 12.5),
        ("Demo.Shop/orders{shop=1}", "{order}", 20_000, 3.0),
        ("System.Runtime/cpu-usage", "%", 30_000, 50.0),
    ];
    assert_eq!(found, expected);
    // The events are there, too.
    assert_eq!(trace.instants().filter(|slice| slice.category != "nettrace").count(), 4);
}

/// What the type states of options and times.
#[test]
fn options_and_times_of_rust() {
    let ty = EventType::new(1, "Shop", 1, "Sold")
        .field("at", &[11])
        .field("some", &[19, 8])
        .field("none", &[19, 8])
        .optional_text(6, &["nettrace.type.at", "SystemTime"])
        .optional_text(6, &["nettrace.type.some", "Option<_>"])
        .optional_text(6, &["nettrace.type.none", "Option<_>"]);
    let mut payload = 1_700_000_000_123_456_789_i64.to_le_bytes().to_vec();
    payload.extend([1, 0, 7, 0, 0, 0]);
    payload.extend([0, 0]);
    let mut stream = Stream::new();
    stream.thread(5).metadata(&ty).events(&[Row::new(5, 1, 1010).payload(&payload)]);
    let (trace, ..) = convert(&stream.end()).unwrap();
    let sold = trace.instants().find(|slice| slice.name == "Sold").unwrap();
    let text = |text: &str| Value::Text(text.to_owned());
    let expected = [
        ("at".to_owned(), text("2023-11-14T22:13:20.123456789Z")),
        ("some".to_owned(), Value::Uint(7)),
    ];
    assert_eq!(sold.annotations, expected);
}

/// With little memory for spans, the oldest become events, and nothing is missing.
#[test]
fn spans_beyond_the_limit() {
    let start = EventType::new(1, "Shop", 1, "WorkStart").optional(&[1, 1]).field("n", &[8]);
    let stop = EventType::new(2, "Shop", 2, "WorkStop").optional(&[1, 2]).field("duration", &[12]);
    let mut stream = Stream::new();
    stream.thread(5).metadata(&start).metadata(&stop);
    let lists: Vec<Vec<Vec<u8>>> =
        (1..=1000_u64).map(|id| vec![[&[4][..], &id.to_le_bytes()].concat()]).collect();
    let lists: Vec<&[Vec<u8>]> = lists.iter().map(|list| &**list).collect();
    stream.label_lists(1, &lists);
    let starts = (1..=1000_u32)
        .map(|id| Row::new(5, id, 1000 + u64::from(id)).labels(id).payload(&id.to_le_bytes()));
    let stops = (1..=1000_u32).map(|id| {
        let duration = 1_000_000_u64;
        let row = Row::new(5, 1000 + id, 2000 + u64::from(id)).metadata(2).labels(id);
        row.payload(&duration.to_le_bytes())
    });
    let rows: Vec<_> = starts.chain(stops).collect();
    stream.events(&rows);
    let bytes = stream.end();
    let mut events = Reading::default().open(&bytes[..]).unwrap().sorted();
    let mut out = Vec::new();
    let options = Options::default().spans_limit(100_000);
    let written = write(View::Perfetto, &mut events, &mut out, &options).unwrap();
    let trace = Trace::read(&out);
    let given_up = written.left_out.total();
    assert!((700..900).contains(&given_up), "{given_up}");
    let events = trace.instants().filter(|slice| slice.category == "Shop").count() as u64;
    assert_eq!(events, given_up);
    // Their ends say how long they took.
    assert_eq!(trace.spans().count(), 1000);
    assert!(
        trace.spans().all(|(_, slice)| slice.end.is_some_and(|end| end - slice.start == 1_000_000))
    );
}

/// Names that are odd, or long, or contain anything.
#[test]
fn odd_names() {
    let long = "x".repeat(20_000);
    for odd in ["", "a\0b", "\"quoted\" \n\t", "\u{10FFFF}é", "a.b[0].c", &long] {
        let ty = EventType::new(1, odd, 1, odd).field(odd, &[8]);
        let mut stream = Stream::new();
        stream.thread(5).metadata(&ty).events(&[Row::new(5, 1, 1010).payload(&[7, 0, 0, 0])]);
        let (trace, left_out, is_whole) = convert(&stream.end()).unwrap();
        assert!(is_whole && left_out.total() == 0);
        let slice = trace.instants().last().unwrap();
        assert_eq!((&*slice.category, slice.start), (odd, 10_000));
        let name = if odd.is_empty() { "EventID(1)" } else { odd };
        assert_eq!(slice.name, name);
        assert_eq!(slice.annotations, [(odd.to_owned(), Value::Uint(7))]);
    }
}

/// Times in any order, ids that are used again, ends without starts: the result is sound.
#[test]
fn spans_of_damaged_traces() {
    let (mut slices, mut events) = (0, 0);
    for seed in 1..=200 {
        let mut random = Random::new(seed);
        let ty = |id: u64, name: &str, opcode| {
            EventType::new(id, "Shop", id, name).optional(&[1, opcode]).field("duration", &[12])
        };
        let types = [ty(1, "WorkStart", 1), ty(2, "WorkStop", 2), ty(3, "WorkResume", 7)];
        let mut stream = Stream::new();
        stream.thread(5).thread(6);
        for ty in &types {
            stream.metadata(ty);
        }
        stream.metadata(&ty(4, "WorkSuspend", 8));
        let single = ty(5, "Work", 0).optional_text(6, &["nettrace.span", "single"]);
        stream.metadata(&single);
        let label = |kind: u8, id: u64| [&[kind][..], &id.to_le_bytes()].concat();
        let path = |id: u64| [&[2][..], &[id as u8; 16]].concat();
        let lists: Vec<_> = (1..=6).map(|id| vec![label(4, id), path(id / 2)]).collect();
        let lists: Vec<&[Vec<u8>]> = lists.iter().map(|list| &**list).collect();
        stream.label_lists(1, &lists);
        let far = if seed % 3 == 0 { u64::MAX / 2 } else { 20 };
        let (mut rows, mut numbers) = (Vec::new(), [0; 2]);
        for _ in 0..60 {
            let thread = random.below(2);
            numbers[thread as usize] += 1;
            let time = 1000 + random.below(far);
            let duration = if random.chance(20) { u64::MAX } else { random.below(9000) };
            let row = Row::new(5 + thread, numbers[thread as usize], time);
            let row = row.metadata(1 + random.below(5) as u32).labels(1 + random.below(6) as u32);
            rows.push(row.payload(&duration.to_le_bytes()));
        }
        if seed % 2 == 0 {
            rows.sort_by_key(|row| row.time);
        }
        stream.events(&rows);
        let (trace, ..) = convert(&stream.end()).unwrap();
        slices += trace.spans().count();
        events += trace.instants().count();
    }
    assert!(slices > 2000 && events > 1000, "{slices} {events}");
}

/// A sample that stands for one is no event as well, though it has a field that says so.
#[test]
fn samples_are_written_once() {
    let (trace, _, is_whole) = convert(&universal()).unwrap();
    assert!(is_whole);
    assert_eq!(trace.samples.len(), 6);
    assert_eq!(trace.instants().filter(|event| event.name == "cpu").count(), 0);
}
