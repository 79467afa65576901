//! Reads handmade streams in their own order: definitions, headers, values, losses.

use nettrace_reader::{Dialect, Label, Options, Reader, Value};
use testkit::streams::{EventType, Row, Stream, samples};

#[test]
fn the_trace_block() {
    let bytes = samples::text();
    let reader = Reader::new(&*bytes).unwrap();
    let trace = reader.trace();
    assert_eq!(trace.sync_time.to_string(), "2026-03-04T05:06:07.0890000Z");
    assert_eq!((trace.sync_ticks, trace.ticks_per_second), (1000, 1_000_000));
    assert_eq!(trace.pointer_size, 8);
    assert_eq!(trace.value("ключ"), Some("значение"));
}

#[test]
fn scalars() {
    let bytes = samples::scalars();
    let mut reader = Reader::new(&*bytes).unwrap();
    reader.next_event().unwrap().unwrap();
    let event = reader.next_event().unwrap().unwrap();
    let fields: Vec<_> = event.fields().map(Result::unwrap).collect();
    let expected = [
        ("bool", Value::Bool(true)),
        ("char", Value::Utf16CodeUnit(0x43A)),
        ("i8", Value::I8(1)),
        ("u8", Value::U8(1)),
        ("i16", Value::I16(0x0101)),
        ("u16", Value::U16(0x0101)),
        ("i32", Value::I32(0x0303_0101)),
        ("u32", Value::U32(0x0303_0101)),
        ("i64", Value::I64(0x0707_0505_0303_0101)),
        ("u64", Value::U64(0x0707_0505_0303_0101)),
        ("f32", Value::F32(f32::from_bits(0x0303_0101))),
        ("f64", Value::F64(f64::from_bits(0x0707_0505_0303_0101))),
        ("guid", Value::Guid(std::array::from_fn(|i| i as u8 + 1))),
        ("bool8", Value::Bool(true)),
        ("i8 again", Value::I8(1)),
        ("u8", Value::U8(1)),
        ("last", Value::U8(1)),
        ("varint", Value::I64(-(1 << 30))),
        ("varuint", Value::U64(1 << 56)),
        ("text", Value::Text("текст \"💡\" é\\\n\u{7f}\u{85}\u{2028}<&'+/".into())),
    ];
    assert_eq!(fields, expected);
}

#[test]
fn arrays_and_objects() {
    let bytes = samples::arrays();
    let mut reader = Reader::new(&*bytes).unwrap();
    let event = reader.next_event().unwrap().unwrap();
    let mut fields = event.fields();
    let values: Vec<_> = fields.by_ref().map(|field| field.unwrap().1).collect();
    let point = |x, y: &'static str| {
        Value::Object(vec![("x", Value::I32(x)), ("y", Value::Text(y.into()))])
    };
    let pair = |a, b| Value::Object(vec![("a", Value::U8(a)), ("b", Value::U16(b))]);
    let expected = [
        point(-1, "one"),
        Value::Array(vec![Value::I32(5), Value::I32(-1)]),
        Value::Bytes(&[1, 2, 255]),
        Value::Array(vec![Value::Text("a".into()), Value::Text("".into())]),
        Value::Array(vec![point(7, "x"), point(8, "ÿ")]),
        Value::Text("кz".into()),
        Value::Text("utf8".into()),
        Value::Array(vec![Value::U16(1), Value::U16(2), Value::U16(3)]),
        Value::Text("hi".into()),
        Value::Array(vec![Value::I64(0), Value::I64(-1), Value::I64(64)]),
        Value::Array(vec![Value::Bool(true), Value::Bool(false)]),
        Value::Array(vec![Value::F64(1.5)]),
        Value::Array(vec![Value::Guid(std::array::from_fn(|i| i as u8 + 1))]),
        Value::Array(vec![Value::I32(1), Value::I32(-2)]),
        Value::Array(vec![Value::U16(9), Value::U16(10)]),
        Value::Text("rel".into()),
        Value::Array(vec![pair(1, 2), pair(3, 4)]),
        Value::U32(0xDEAD_BEEF),
    ];
    assert_eq!(values, expected);
    assert_eq!(fields.used(), event.payload.len());
}

/// An object without fields has a fixed size, so it may be an element. A payload error concerns one
/// event only.
#[test]
fn located_elements_of_size_0() {
    let empty_object = [1, 0, 0];
    let rel_loc = [&[24_u8][..], &empty_object].concat();
    let data_loc = [&[25_u8][..], &empty_object].concat();
    let event = EventType::new(1, "P", 1, "E");
    let event = event.field("r", &rel_loc).field("d", &data_loc).field("last", &[6]);
    let rows = [
        Row::new(1, 1, 10).payload(&[0, 0, 0, 0, 0, 0, 0, 0, 7]),
        Row::new(1, 2, 11).payload(&[0, 0, 1, 0, 0, 0, 0, 0, 7]),
    ];
    let bytes = Stream::at(1).thread(1).metadata(&event).events(&rows).end();
    let mut reader = Reader::new(&*bytes).unwrap();
    let values: Vec<_> =
        reader.next_event().unwrap().unwrap().fields().map(|field| field.unwrap().1).collect();
    assert_eq!(values, [Value::Array(vec![]), Value::Array(vec![]), Value::U8(7)]);
    assert!(reader.next_event().unwrap().unwrap().fields().any(|field| field.is_err()));
    assert!(reader.next_event().unwrap().is_none());
}

#[test]
fn date_times_of_sixteen_bytes() {
    let event =
        testkit::streams::EventType::new(1, "Test", 1, "Time").field("t", &[16]).field("n", &[6]);
    let payload: Vec<u8> = [2026_i16, 11, 6, 21, 9, 39, 11, 5]
        .iter()
        .flat_map(|part| part.to_le_bytes())
        .chain([7])
        .collect();
    let bytes = Stream::new()
        .thread(5)
        .metadata(&event)
        .events(&[Row::new(5, 1, 1000).payload(&payload)])
        .end();
    let mut reader = Reader::new(&*bytes).unwrap();
    let event = reader.next_event().unwrap().unwrap();
    let values: Vec<_> = event.fields().map(|field| field.unwrap().1).collect();
    let Value::DateTime(time) = &values[0] else { panic!("{values:?}") };
    assert_eq!(time.to_string(), "2026-11-21T09:39:11.0050000Z");
    assert_eq!(values[1], Value::U8(7));
}

#[test]
fn labels_override_the_event_type() {
    let bytes = samples::labels();
    let mut reader = Reader::new(&*bytes).unwrap();
    let mut shown = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        shown.push((event.opcode(), event.level(), event.version(), event.keywords()));
        if shown.len() == 1 {
            assert_eq!(event.labels().len(), 10);
            assert_eq!(event.labels()[4], Label::Str("user".into(), "zoë".into()));
            assert_eq!(event.labels()[5], Label::Int("attempt".into(), -3));
        }
    }
    let overridden = (1, 2, 6, 0xF000_0000_0000_0001);
    let plain = (11, 5, 2, 0);
    let expected = [overridden, plain, (11, 3, 2, 0), (0, 5, 2, 0), plain, overridden];
    assert_eq!(shown, expected);
}

#[test]
fn threads_and_their_information() {
    let bytes = samples::threads();
    let mut reader = Reader::new(&*bytes).unwrap();
    let mut threads = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let thread = event.thread();
        threads.push((thread.index, thread.process_id, thread.os_thread_id));
        if thread.index == 6 {
            assert_eq!(thread.name.as_deref(), Some("nämed"));
            assert_eq!(thread.key_values, [("role".to_owned(), "worker".to_owned())]);
        }
    }
    let bare = (5, None, None);
    let full = (6, Some(4_000_000_000), Some(5_000_000_000));
    let tid = (8, None, Some(808));
    assert_eq!(threads, [bare, bare, bare, bare, bare, full, tid, full, tid]);
}

#[test]
fn flushed_definitions_are_made_anew() {
    let bytes = samples::flushes();
    let mut reader = Reader::new(&*bytes).unwrap();
    let mut seen = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let stack = event.stack().map(|stack| stack.addresses().collect::<Vec<_>>());
        seen.push((event.metadata().name.clone(), event.level(), stack));
    }
    let first = Some(vec![0x1234, 0xFFFF_8000_0000_0001]);
    let expected = [
        ("E1".to_owned(), 3, first),
        ("E1".to_owned(), 1, Some(vec![0x42])),
        ("E1".to_owned(), 0, None),
        ("Anew".to_owned(), 0, None),
    ];
    assert_eq!(seen, expected);
    let totals = reader.totals();
    assert_eq!((totals.unknown_blocks, totals.sequence_points, totals.lost), (2, 3, 0));
    // The reader stays at the end.
    assert!(reader.next_event().unwrap().is_none());
}

#[test]
fn losses_by_thread() {
    let bytes = samples::losses();
    let mut reader = Options::default().keep_thread_totals(true).open(&*bytes).unwrap();
    while reader.next_event().unwrap().is_some() {}
    let lost = |index| {
        let mut threads = reader.live_threads().chain(reader.finished_threads());
        threads.find(|totals| totals.thread.index == index).map(|totals| totals.lost)
    };
    let five = 2 + 9 + 6 + (0x7000_0000 - 22) + (0x6FFF_FFFF - 1) + 0x1FFF_FFFF + 2;
    assert_eq!(lost(5), Some(five));
    assert_eq!(lost(6), Some(100 + 10));
    assert_eq!(lost(7), Some(0));
    assert_eq!(reader.totals().lost, five + 110);
    assert_eq!(reader.totals().step_backs, 0);
}

#[test]
fn uncompressed_rows() {
    let bytes = samples::plain();
    let mut reader = Reader::new(&*bytes).unwrap();
    let mut headers = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let header = event.header;
        headers.push((header.timestamp, header.thread, header.processor, header.is_sorted));
    }
    let expected = [(1010, 5, 2, true), (1020, 6, 2, false), (1030, 5, u32::MAX, false)];
    assert_eq!(headers, expected);
}

#[test]
fn numbers_wrap_without_loss() {
    let bytes = Stream::new()
        .thread(5)
        .simple_metadata(1)
        .sequence_point(1001, 0, &[(5, 0x7FFF_FFFF)])
        .sequence_point(1002, 0, &[(5, 0xFFFF_FFFD)])
        .events(
            &(0..6).map(|i| Row::new(5, 0xFFFF_FFFE_u32.wrapping_add(i), 1010)).collect::<Vec<_>>(),
        )
        .sequence_point(1100, 0, &[(5, 3)])
        .end();
    let mut reader = Reader::new(&*bytes).unwrap();
    while reader.next_event().unwrap().is_some() {}
    assert_eq!(reader.totals().lost, 0xFFFF_FFFD);
    assert_eq!(reader.totals().step_backs, 0);
}

/// A sequence point states a lower bound for a thread, and a removal states its last number. The
/// reference reader takes both for the last number.
#[test]
fn a_sequence_point_behind_the_events_is_no_loss() {
    let mut stream = Stream::new();
    stream.thread(5).simple_metadata(1);
    stream.events(&[Row::new(5, 1, 1010), Row::new(5, 2, 1011), Row::new(5, 3, 1012)]);
    stream.sequence_point(1020, 0, &[(5, 1)]).events(&[Row::new(5, 4, 1030)]);
    stream.sequence_point(1040, 0, &[(5, 0)]).events(&[Row::new(5, 6, 1050)]);
    let bytes = stream.remove_thread(5, 8).end();
    let lost = |dialect| {
        let mut reader = Options::default().dialect(dialect).open(&*bytes).unwrap();
        reader.read_to_end().unwrap();
        (reader.totals().lost, reader.totals().step_backs)
    };
    assert_eq!(lost(Dialect::Specification), (3, 0));
    // Two steps back, then the gaps from 1 to 4, from 0 to 6 and from 6 to 8.
    assert_eq!(lost(Dialect::Reference), (2 * 0x7FFF_FFFF + 2 + 5 + 2, 2));
}
