//! Unusual streams. The reader reads as much as possible.

use nettrace_reader::{Dialect, Options, Reader, Rule, Type, Value, heph, verify, verify_with};
use testkit::streams::{
    EventType, Row, Stream, fields_of, unusual, utf16z,
    v5::{self, Objects},
    varuint,
};

fn row(sequence: u32, time: u64) -> Row {
    Row::new(5, sequence, time)
}

/// All ways of reading agree on any content. None panics or fails. If bytes are missing at the end,
/// the events before them are delivered.
#[test]
fn odd_streams_are_read() {
    for (name, bytes) in unusual::all() {
        let count = |bytes: &[u8]| {
            let mut reader = match Reader::new(bytes) {
                Ok(reader) => reader,
                Err(_) => return (0, false),
            };
            let end = reader.read_to_end();
            (reader.totals().events, end.is_ok())
        };
        let (events, is_whole) = count(&bytes);
        assert!(is_whole, "{name}");
        let mut sorted = Reader::new(&*bytes).unwrap().sorted();
        let mut delivered = 0;
        while let Some(event) = sorted.next_event().unwrap() {
            delivered += 1;
            let _ = (event.labels().len(), event.stack().map(|stack| stack.addresses().count()));
            event.fields().for_each(drop);
        }
        assert_eq!(delivered, events, "{name}");
        let mut items = Reader::new(&*bytes).unwrap();
        while items.next_item().unwrap().is_some() {}
        assert_eq!(items.totals().events, events, "{name}");
        let report = verify(&*bytes).unwrap();
        assert!(report.events <= events, "{name}");
        assert!(
            report.violations.iter().all(|it| it.rule != Rule::Readable || name == "stacks-uneven"),
            "{name}: {:?}",
            report.violations
        );
        // Cuts short streams at every position.
        let mut last = 0;
        for len in (0..bytes.len()).take_while(|_| bytes.len() < 600) {
            let (events, _) = count(&bytes[..len]);
            assert!(events >= last, "{name} {len}");
            last = events;
            verify(&bytes[..len]).unwrap();
        }
    }
}

/// The fields of each event, as far as they can be decoded, and then `!` and why not the others.
fn values(bytes: &[u8]) -> Vec<Vec<(String, String)>> {
    let mut reader = Reader::new(bytes).unwrap();
    let mut out = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        let fields = event.fields().map(|field| {
            let Ok((name, value)) = field else {
                return ("!".to_owned(), field.unwrap_err().kind().to_string());
            };
            let value = match value {
                Value::Decimal(number) => number.to_string(),
                other => format!("{other:?}"),
            };
            (name.to_owned(), value)
        });
        out.push(fields.collect());
    }
    out
}

fn violations(dialect: Dialect, bytes: &[u8]) -> Vec<Rule> {
    let report = verify_with(bytes, Options::default().dialect(dialect), 100).unwrap();
    report.violations.iter().map(|violation| violation.rule).collect()
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Parts of threads and event types that newer writers add are skipped if their size is known.
#[test]
fn unknown_parts_are_skipped() {
    let mut thread = Vec::new();
    varuint(&mut thread, 5);
    thread.extend([2, 77, 99, 1, 2, 3]);
    let event = EventType::new(1, "P", 1, "E").field("n", &[6]);
    let bytes = Stream::at(1)
        .thread_row(&thread)
        .metadata(&event.optional(&[8, 3, 77, 1, 2, 3]))
        .simple_metadata(2)
        .events(&[row(1, 10).payload(&[7]), row(2, 11).metadata(2)])
        .end();
    let mut reader = Reader::new(&*bytes).unwrap();
    let event = reader.next_event().unwrap().unwrap();
    assert_eq!((event.level(), event.thread().process_id), (3, Some(77)));
    assert!(event.metadata().has_unknown_parts && event.thread().has_unknown_parts);
    assert_eq!(event.fields().next().unwrap().unwrap(), ("n", Value::U8(7)));
    assert_eq!(reader.next_event().unwrap().unwrap().metadata().name, "E2");
    assert!(reader.next_event().unwrap().is_none());
    assert_eq!(reader.totals().unknown_parts, 2);
    assert_eq!(violations(Dialect::Specification, &bytes), []);
    assert_eq!(violations(Dialect::Reference, &bytes), [Rule::Readable; 2]);
}

/// What an event says after a value of an unknown type, and after one of a type that is too deep.
const UNKNOWN: (&str, &str) =
    ("!", "a payload does not have the fields of its event type: the field is of an unknown type");
const DEEP: (&str, &str) = (
    "!",
    "a payload does not have the fields of its event type: types that are nested more than 48 \
     levels deep are not followed",
);

/// If a field's type is unknown, the end of its value is unknown too. The rest of the payload is
/// shown as bytes, and an error follows. Fields before it are decoded.
#[test]
fn unknown_types_leave_the_payload() {
    let with = |code: &[u8]| {
        let event = EventType::new(1, "P", 1, "E").field("a", &[9]).field("b", code);
        let event = event.field("c", &[9]);
        let payload = [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0];
        Stream::at(1).thread(5).metadata(&event).events(&[row(1, 10).payload(&payload)]).end()
    };
    let in_object = [&[1_u8][..], &fields_of(&[("x", vec![6]), ("y", vec![99]), ("z", vec![6])])];
    for (code, shown) in [
        (vec![99], "Bytes([2, 0, 0, 0, 3, 0, 0, 0])"),
        (vec![19, 99], "Bytes([2, 0, 0, 0, 3, 0, 0, 0])"),
        (vec![22, 99, 2, 0], "Bytes([2, 0, 0, 0, 3, 0, 0, 0])"),
        (vec![24, 99], "Bytes([2, 0, 0, 0, 3, 0, 0, 0])"),
        (in_object.concat(), r#"Object([("x", U8(2)), ("y", Bytes([0, 0, 0, 3, 0, 0, 0]))])"#),
    ] {
        let bytes = with(&code);
        let shown = [("a", "I32(1)"), ("b", shown), UNKNOWN];
        assert_eq!(values(&bytes), [pairs(&shown)], "{code:?}");
        assert_eq!(violations(Dialect::Specification, &bytes), [Rule::Readable], "{code:?}");
    }
}

/// Nesting is limited. Deeper fields are not decoded, which the event, the totals and a check say.
#[test]
fn deep_types_leave_the_payload() {
    for depth in [48_usize, 49, 50, 60, 200, 1000] {
        let mut object = vec![9_u8];
        let mut arrays = vec![6_u8];
        for _ in 0..depth {
            object = [&[1][..], &fields_of(&[("x", object)])].concat();
            arrays.insert(0, 19);
        }
        for (ty, payload) in [
            (object, [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0].to_vec()),
            (arrays, [&[1, 0, 0, 0][..], &[1, 0].repeat(depth), &[7, 3, 0, 0, 0]].concat()),
        ] {
            let event = EventType::new(1, "P", 1, "E").field("a", &[9]).field("b", &ty);
            let event = event.field("c", &[9]);
            let mut stream = Stream::at(1);
            stream.thread(5).metadata(&event).simple_metadata(2);
            stream.events(&[row(1, 10).payload(&payload), row(2, 11).metadata(2)]);
            let bytes = stream.end();
            let values = values(&bytes);
            let names: Vec<_> = values[0].iter().map(|(name, _)| &**name).collect();
            let is_known = depth < 50;
            assert_eq!(names, ["a", "b", if is_known { "c" } else { "!" }], "{depth}");
            assert_eq!(values.len(), 2);
            let found = violations(Dialect::Specification, &bytes);
            assert_eq!(found, &[Rule::Nesting][usize::from(is_known)..], "{depth}");
            let mut reader = Reader::new(&*bytes).unwrap();
            reader.read_to_end().unwrap();
            assert_eq!(reader.totals().deep_types, u64::from(!is_known));
        }
    }
}

/// Versions 4 and 5 do the same. There a name follows its type, so the end of a deep type must be
/// found: what stands behind it keeps its names.
#[test]
fn deep_types_of_versions_4_and_5() {
    let payload = [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0];
    for depth in [49_usize, 50, 3_000, 100_000] {
        // Each object has a field before the deep one and one behind it.
        let empty = v5::object(&v5::fields(&[]));
        let before = [&v5::code(&[1, 3])[..], &empty, &utf16z("x")].concat();
        let behind = [&utf16z("deep")[..], &empty, &utf16z("y")].concat();
        let deep = [before.repeat(depth), v5::code(&[9]), behind.repeat(depth)].concat();
        let arrays = [&v5::code(&[19]).repeat(depth)[..], &v5::code(&[9])].concat();
        let with = |ty: Vec<u8>| [("a", v5::code(&[9])), ("b", ty), ("c", v5::code(&[9]))];
        let tagged = |ty| {
            let fields = v5::tagged_fields(&with(ty));
            [&[0; 4][..], &v5::tag(2, &fields), &v5::tag(1, &[7])].concat()
        };
        for fields in [v5::fields(&with(deep)), tagged(arrays)] {
            let mut stream = Objects::new();
            stream.metadata(&[v5::event_type(1, 1, "E", &fields), v5::simple_type(2)]);
            stream.events(&[row(1, 1010).payload(&payload), row(2, 1011).metadata(2)]);
            let bytes = stream.end();
            let mut reader = Reader::new(&*bytes).unwrap();
            reader.read_to_end().unwrap();
            let names: Vec<_> = reader.metadata()[0].fields.iter().map(|it| &*it.name).collect();
            assert_eq!(names, ["a", "b", "c"], "{depth}");
            if depth >= 50 {
                let values = values(&bytes);
                let names: Vec<_> = values[0].iter().map(|(name, _)| &**name).collect();
                assert_eq!((names, &values[0][2]), (vec!["a", "b", "!"], &pairs(&[DEEP])[0]));
                assert_eq!(reader.totals().deep_types, 1);
                assert_eq!(violations(Dialect::Specification, &bytes), [Rule::Nesting]);
            }
        }
    }
}

/// Type code 15 is .NET's decimal number. In versions 4 and 5 another unknown type hides the fields
/// after it only if fields have no sizes.
#[test]
fn types_of_net_in_versions_4_and_5() {
    let code = |number: u32| number.to_le_bytes().to_vec();
    let mut decimal = vec![0, 0, 2, 0x80]; // two digits after the decimal point; negative
    decimal.extend([0, 0, 0, 0]);
    decimal.extend(12_345_u64.to_le_bytes());
    let payload = [&[1, 0, 0, 0][..], &decimal, &[3, 0, 0, 0]].concat();
    let read = |metadata: Vec<u8>| {
        let mut stream = Objects::new();
        stream.metadata(&[metadata, v5::simple_type(2)]);
        stream.events(&[row(1, 1010).payload(&payload), row(2, 1011).metadata(2)]);
        let bytes = stream.end();
        assert!(verify(&*bytes).unwrap().is_sound());
        let mut values = values(&bytes);
        assert_eq!(values.len(), 2);
        values.remove(0)
    };
    let with = |number: u32| [("a", code(9)), ("b", code(number)), ("c", code(9))];
    let all = pairs(&[("a", "I32(1)"), ("b", "-123.45"), ("c", "I32(3)")]);
    let rest = format!("Bytes({:?})", &payload[4..]);
    assert_eq!(read(v5::event_type(1, 1, "E", &v5::fields(&with(15)))), all);
    let old = read(v5::event_type(1, 1, "E", &v5::fields(&with(99))));
    assert_eq!(old, pairs(&[("a", "I32(1)"), ("", &*rest), UNKNOWN]));
    let tagged = |number| {
        let fields = v5::tagged_fields(&with(number));
        v5::event_type(1, 1, "E", &[&[0; 4][..], &v5::tag(2, &fields)].concat())
    };
    assert_eq!(read(tagged(15)), all);
    assert_eq!(read(tagged(99)), pairs(&[("a", "I32(1)"), ("b", &*rest), UNKNOWN]));
}

/// The events of a trace are read whatever size of pointers it states.
#[test]
fn pointers_of_any_size() {
    for size in [0_u32, 1, 2, 3, 4, 8, 16, 255, u32::MAX] {
        let mut stream = Stream::at(1);
        // After the stream header, the block header, times and frequency.
        stream.bytes[56..60].copy_from_slice(&size.to_le_bytes());
        stream.thread(5).simple_metadata(1).stacks(1, &[&[0x11, 0x22]]);
        let bytes = stream.events(&[Row { stack: 1, ..row(1, 10) }]).end();
        let mut reader = Reader::new(&*bytes).unwrap();
        assert_eq!(reader.trace().pointer_size, size);
        let stack = reader.next_event().unwrap().unwrap().stack().unwrap();
        assert_eq!(stack.bytes().len(), 16);
        let addresses: Vec<_> = stack.addresses().collect();
        match size {
            4 => assert_eq!(addresses, [0x11, 0, 0x22, 0]),
            8 => assert_eq!(addresses, [0x11, 0x22]),
            16 => assert_eq!(addresses, [0x11]),
            1 => assert_eq!(addresses.len(), 16),
            0 | 255 | u32::MAX => assert!(addresses.is_empty()),
            _ => {}
        }
        let broken = violations(Dialect::Specification, &bytes);
        assert_eq!(broken.contains(&Rule::Trace), !matches!(size, 4 | 8), "{size}");
    }
}

/// Legal streams have no violations.
#[test]
fn legal_streams_are_sound() {
    let start = || {
        let mut stream = Stream::at(1);
        stream.thread(5).thread(6).simple_metadata(1);
        stream
    };
    // Event id 0 means no id. The reference reader takes all these types for one.
    let nameless = |id| EventType::new(id, "P", 0, &format!("E{id}")).field("n", &[5 + id as u8]);
    let bytes = Stream::at(1).metadata(&nameless(1)).metadata(&nameless(2)).end();
    assert_eq!(violations(Dialect::Specification, &bytes), []);
    assert_eq!(violations(Dialect::Reference, &bytes), [Rule::EventIds]);
    // The thread changes at sorted events.
    let other = |sequence, time| Row::new(6, sequence, time);
    let bytes =
        start().events(&[row(1, 10), other(1, 11).sorted(), row(2, 12).sorted(), row(3, 13)]).end();
    assert_eq!(violations(Dialect::Reference, &bytes), []);
    let bytes = start().events(&[row(1, 10), other(1, 11).sorted(), row(2, 12)]).end();
    assert_eq!(violations(Dialect::Specification, &bytes), [Rule::OneThread]);
    // A stack may have id 0, and events can refer to it.
    let bytes = start().stacks(0, &[&[7], &[8]]).events(&[row(1, 10)]).end();
    assert_eq!(violations(Dialect::Reference, &bytes), []);
}

/// The index of a removed thread must not be used again at once, because the reference reader still
/// has it and refuses the trace.
#[test]
fn indices_of_removed_threads() {
    use Rule::{Duplicate, ThreadIds};
    let check = |stream: &Stream, rules: &[Rule]| {
        assert_eq!(violations(Dialect::Specification, &stream.end()), rules);
    };
    let mut stream = Stream::at(1);
    stream.thread(5);
    check(stream.clone().thread(5), &[Duplicate]);
    stream.remove_thread(5, 0);
    check(stream.clone().thread(5), &[ThreadIds]);
    check(stream.clone().sequence_point(9, 0, &[]).thread(5), &[ThreadIds]);
    check(stream.clone().sequence_point(9, 1, &[]).thread(5), &[]);
    // 1005 was its OS id.
    check(stream.clone().thread(1005), &[ThreadIds]);
    check(stream.sequence_point(9, 1, &[]).thread(1005), &[]);
}

/// A writer of Heph traces need not number its events. Then all of them have number 0.
#[test]
fn heph_streams_without_numbers() {
    let event = |counter: u32| {
        let mut packet = [0xC1, 0xFC, 0x1F, 0xB7, 0, 0, 0, 42, 0, 0, 0, 1].to_vec();
        packet.extend(counter.to_be_bytes());
        packet.extend([0; 26]);
        packet
    };
    let check = |counters: &[u32], step_backs: u64, broken: u64| {
        let bytes: Vec<u8> = counters.iter().flat_map(|counter| event(*counter)).collect();
        let mut reader = heph::Reader::new(&*bytes);
        while reader.next_event().unwrap().is_some() {}
        assert_eq!(reader.totals().step_backs, step_backs, "{counters:?}");
        assert_eq!(reader.totals().lost, 0, "{counters:?}");
        let report = heph::verify(&*bytes, heph::Options::default(), 9).unwrap();
        assert_eq!(report.count, broken, "{counters:?} {:?}", report.violations);
    };
    check(&[0, 0, 0, 0], 0, 0);
    check(&[0, 1, 2], 0, 0);
    // These are numbered.
    check(&[0, 0, 1], 1, 1);
    check(&[0, 1, 0], 1, 1);
    check(&[3, 3], 1, 1);
}

#[test]
fn unknown_codes_are_told() {
    let list = Type::Array(Box::new(Type::UInt8));
    assert_eq!(list.unknown_code(), None);
    assert_eq!(Type::Array(Box::new(Type::Unknown(77))).unknown_code(), Some(77));
}
