//! Streams that are cut, have flipped bits, or lie. The reader returns the readable events, then an
//! error with its offset and kind.

use nettrace_event::guid::swapped;
use nettrace_reader::{
    BlockKind, Error, ErrorKind, Label, Options, Reader, Rule, Table, Value, verify,
};
use testkit::streams::{
    EventType, METADATA, Row, Stream, THREAD, fields_of, random, samples,
    v5::{self, Objects},
    v5_random, v5_samples, varuint,
};

/// The number of events that were read, and how reading ended.
fn read(bytes: &[u8]) -> (u64, Result<(), Error>) {
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (0, Err(error)),
    };
    let end = loop {
        match reader.next_event() {
            Ok(Some(event)) => event.fields().for_each(drop),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    (reader.totals().events, end)
}

fn error(bytes: &[u8]) -> Error {
    read(bytes).1.unwrap_err()
}

#[test]
fn wrong_streams_are_refused_by_name() {
    let says = |bytes: &[u8]| error(bytes).to_string();
    assert!(says(b"no trace at all, but text").contains("no NetTrace stream"));
    assert!(says(b"\x14\0\0\0!FastSerialization.1").contains("NetPerf"));
    assert!(says(b"Nettrace\x14\0\0\0!FastSerialization.2").contains("no header"));
    let mut bytes = Stream::new().end();
    bytes[12] = 7;
    assert!(matches!(error(&bytes).kind(), ErrorKind::TooNew { major: 7 }));
    bytes[12] = 5;
    assert!(matches!(error(&bytes).kind(), ErrorKind::UnsupportedVersion(_)));
    bytes[12] = 6;
    bytes[16] = 200; // the minor version does not matter
    assert!(read(&bytes).1.is_ok());
    assert!(matches!(error(b"").kind(), ErrorKind::NoEndOfStream));
}

#[test]
fn every_cut_is_found_where_it_is() {
    let all = samples::all().into_iter().chain(v5_samples::all());
    for (name, bytes) in all.filter(|(_, bytes)| bytes.len() < 3000) {
        let whole = read(&bytes);
        assert!(whole.1.is_ok(), "{name}");
        // After the end of stream nothing is missing if bytes are cut.
        let end = match name.starts_with('v') {
            true => bytes.len(),
            false => bytes.len() - bytes.iter().rev().take_while(|byte| **byte != 0).count(),
        };
        let mut last = 0;
        for cut in 0..end {
            let (events, result) = read(&bytes[..cut]);
            let error = result.expect_err(name);
            assert!(error.offset() <= cut as u64, "{name} {cut}: {error}");
            assert!(
                matches!(error.kind(), ErrorKind::NoEndOfStream | ErrorKind::Truncated { .. }),
                "{name} {cut}: {error}"
            );
            assert!(events >= last, "{name} {cut}");
            last = events;
        }
        assert_eq!(last, whole.0, "{name}");
    }
}

#[test]
fn flipped_bytes_never_panic() {
    let all = samples::all().into_iter().filter(|(_, bytes)| bytes.len() < 700);
    for (_, bytes) in all.chain(v5_samples::all()) {
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xFF] {
                let mut bytes = bytes.clone();
                bytes[at] ^= flip;
                let _ = read(&bytes);
                let mut sorted = match Reader::new(&*bytes) {
                    Ok(reader) => reader.sorted(),
                    Err(_) => continue,
                };
                while let Ok(Some(_)) = sorted.next_event() {}
                nettrace_reader::verify(&*bytes).unwrap();
            }
        }
    }
}

/// Both orders deliver the same events before they fail in the same way.
#[test]
fn damaged_streams_give_the_same_events_in_both_orders() {
    for seed in 0..300 {
        let mut bytes = match seed % 2 {
            0 => random::make(seed, 12).bytes,
            _ => v5_random::make(seed, 12).bytes,
        };
        let at = 110 + (seed as usize * 7919) % (bytes.len() - 110);
        bytes[at] ^= 1 << (seed % 8);
        let (events, end) = read(&bytes);
        let mut sorted = Reader::new(&*bytes).unwrap().sorted();
        let mut count = 0;
        let sorted_end = loop {
            match sorted.next_event() {
                Ok(Some(_)) => count += 1,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        assert_eq!(count, events, "{seed}");
        assert_eq!(
            sorted_end.map_err(|error| error.to_string()),
            end.map_err(|error| error.to_string()),
            "{seed}"
        );
    }
}

#[test]
fn references_have_to_be_defined() {
    let check = |stream: &Stream, table, id| {
        let error = error(&stream.end());
        let ErrorKind::Undefined { table: found, id: missing } = error.kind() else {
            panic!("{error}")
        };
        assert_eq!((*found, *missing), (table, id));
        // The offset of the row, which is the first of the last block.
        assert_eq!(error.offset() as usize, stream.bytes.len() - 7);
    };
    let row = Row::new(5, 1, 60);
    let mut stream = Stream::new();
    stream.thread(5).events(std::slice::from_ref(&row));
    check(&stream, Table::Metadata, 1);
    let mut stream = Stream::new();
    stream.simple_metadata(1).events(std::slice::from_ref(&row));
    check(&stream, Table::Thread, 5);
    let mut stream = Stream::new();
    stream.simple_metadata(1).thread(5).remove_thread(5, 0).events(std::slice::from_ref(&row));
    check(&stream, Table::Thread, 5);

    let mut stream = Stream::new();
    stream.thread(5).simple_metadata(1).events(&[row.clone().labels(3)]);
    let kind = error(&stream.end());
    assert!(
        matches!(kind.kind(), ErrorKind::Undefined { table: Table::LabelList, id: 3 }),
        "{kind}"
    );
    // A missing stack is only counted.
    let mut stream = Stream::new();
    stream.thread(5).simple_metadata(1);
    stream.events(&[Row { stack: 9, ..row.clone() }, Row { stack: 9, ..Row::new(5, 2, 61) }]);
    let bytes = stream.end();
    let mut reader = Reader::new(&*bytes).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        assert!(event.stack().is_none());
    }
    assert_eq!(reader.totals().undefined_stacks, 2);
}

#[test]
fn definitions_are_made_once() {
    let check = |stream: &Stream, table| {
        let error = error(&stream.end());
        assert!(
            matches!(error.kind(), ErrorKind::Duplicate { table: found, .. } if *found == table),
            "{error}"
        );
    };
    check(Stream::new().thread(5).thread(5), Table::Thread);
    check(Stream::new().simple_metadata(1).simple_metadata(1), Table::Metadata);
    check(Stream::new().stacks(1, &[&[1]]).stacks(1, &[&[1]]), Table::Stack);
}

#[test]
fn blocks_that_lie_are_named() {
    let check = |kind: u8, body: &[u8], named| {
        let error = error(&Stream::new().block(kind, body).end());
        assert!(
            matches!(error.kind(), ErrorKind::Malformed { block, .. } if *block == named),
            "{error}"
        );
        assert!(error.offset() >= 99);
    };
    check(1, &[], BlockKind::Trace);
    check(2, &[20, 0, 1, 0], BlockKind::Event);
    check(METADATA, &[9, 0, 1], BlockKind::Metadata);
    check(4, &[0; 11], BlockKind::SequencePoint);
    check(5, &[1, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0], BlockKind::Stack);
    check(THREAD, &[2, 0, 5, 1], BlockKind::Thread);
    check(7, &[0x80], BlockKind::RemoveThread);
    check(8, &[0; 8], BlockKind::LabelList);
    let error = error(&Stream::bare().block(2, &[0; 30]).end());
    assert!(matches!(error.kind(), ErrorKind::NoTraceBlock));
}

#[test]
fn definitions_are_bounded() {
    let mut stream = Stream::new();
    for index in 0..10_000 {
        stream.thread(index);
    }
    let bytes = stream.end();
    let open = |limit| {
        let mut reader = Options::default().definitions_limit(limit).open(&*bytes).unwrap();
        reader.next_event().map(|event| event.is_some())
    };
    assert!(!open(64 << 20).unwrap());
    assert!(matches!(open(100_000).unwrap_err().kind(), ErrorKind::LimitExceeded { .. }));
}

/// A burst of spans between two sequence points defines a list of ids for each span.
#[test]
fn lists_of_ids_are_small() {
    const LISTS: usize = 100_000;
    let list = |i: usize| {
        let id = |kind| [&[kind], &(i as u128).to_le_bytes()[..]].concat();
        [id(3), [&[4], &(i as u64).to_le_bytes()[..]].concat(), id(1)]
    };
    let mut stream = Stream::new();
    stream.thread(5).simple_metadata(1);
    for first in (0..LISTS).step_by(1000) {
        let lists: Vec<_> = (first..first + 1000).map(list).collect();
        let lists: Vec<_> = lists.iter().map(|list| &list[..]).collect();
        stream.label_lists(1 + first as u32, &lists);
    }
    stream.events(&[Row { labels: LISTS as u32, ..Row::new(5, 1, 60) }]);
    let bytes = stream.end();
    let open = |limit| Options::default().definitions_limit(limit).open(&*bytes).unwrap();
    let mut reader = open(52 * LISTS);
    let event = reader.next_event().unwrap().unwrap();
    let last = (LISTS - 1) as u128;
    let [trace, span, activity] = &*event.labels() else { panic!("{:?}", event.labels()) };
    assert_eq!(*trace, Label::TraceId(last.to_le_bytes()));
    assert_eq!(*span, Label::SpanId(last as u64));
    assert_eq!(*activity, Label::ActivityId(swapped(&last.to_le_bytes())));
    let error = open(43 * LISTS).next_event().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LimitExceeded { .. }), "{error}");
}

/// A few bytes of metadata and payload that would decode to billions of values.
#[test]
fn payloads_that_explode_are_refused() {
    let empty_object = [1, 0, 0];
    let mut ty = Vec::new();
    ty.extend([22, 22, 22]);
    ty.extend(empty_object);
    ty.extend([0xFF; 6]);
    let many_located: Vec<u8> = (0..4000).flat_map(|_| [0, 0, 0xFF, 0xFF]).collect();
    let mut located = EventType::new(2, "Test", 2, "Located");
    for _ in 0..4000 {
        located = located.field("x", &[25, 22, 6, 1, 0]);
    }
    let mut payload = many_located;
    payload.resize(65_535, 0);
    let bytes = Stream::new()
        .thread(5)
        .metadata(&EventType::new(1, "Test", 1, "Nested").field("x", &ty))
        .metadata(&located)
        .events(&[Row::new(5, 1, 60), Row::new(5, 2, 61).metadata(2).payload(&payload)])
        .end();
    let mut reader = Reader::new(&*bytes).unwrap();
    for _ in 0..2 {
        let event = reader.next_event().unwrap().unwrap();
        let error = event.fields().find_map(Result::err).unwrap();
        assert!(matches!(error.kind(), ErrorKind::Payload { .. }), "{error}");
    }
}

/// An array of elements of no bytes costs no more than its payload has bytes. What follows it is
/// decoded.
#[test]
fn elements_of_no_bytes_are_counted() {
    let empty_object: &[u8] = &[1, 0, 0];
    let no_numbers: &[u8] = &[22, 6, 0, 0];
    let pair = fields_of(&[("x", empty_object.to_vec()), ("y", no_numbers.to_vec())]);
    for element in [empty_object, no_numbers, &[&[1][..], &pair].concat()] {
        let list = [&[19], element].concat();
        let fixed = [&[22], element, &[0xFF, 0xFF]].concat();
        let event = EventType::new(1, "Test", 1, "E").field("list", &list);
        let event = event.field("fixed", &fixed).field("few", &list).field("last", &[6]);
        let rows = [Row::new(5, 1, 60).payload(&[0xFF, 0xFF, 16, 0, 7])];
        let bytes = Stream::new().thread(5).metadata(&event).events(&rows).end();
        let mut reader = Reader::new(&*bytes).unwrap();
        let event = reader.next_event().unwrap().unwrap();
        let values: Vec<_> = event.fields().map(|field| field.unwrap().1).collect();
        let [Value::Array(list), Value::Array(fixed), Value::Array(few), last] = &*values else {
            panic!("{values:?}")
        };
        assert_eq!((list.len(), &list[16]), (17, &Value::More(65_519)));
        assert_eq!((list, few.len()), (fixed, 16));
        assert_eq!(*last, Value::U8(7));
    }
    // Elements with a byte, and four thousand fields without one.
    let fields: Vec<_> = (0..4_000).map(|_| ("x", empty_object.to_vec())).collect();
    let object = [&[1][..], &fields_of(&[&[("n", vec![6])], &*fields].concat())].concat();
    let event = EventType::new(1, "Test", 1, "E").field("f", &[&[19], &*object].concat());
    let payload = [&2_000_u16.to_le_bytes()[..], &[0; 2_000]].concat();
    let rows = [Row::new(5, 1, 60).payload(&payload)];
    let bytes = Stream::new().thread(5).metadata(&event).events(&rows).end();
    let mut reader = Reader::new(&*bytes).unwrap();
    let event = reader.next_event().unwrap().unwrap();
    let error = event.fields().find_map(Result::err).unwrap();
    assert!(error.to_string().contains("far more values"), "{error}");
    // Fields that are in no array are as many as the type says.
    let fields: Vec<_> = (0..9_000).map(|_| ("x", vec![1, 0, 0])).collect();
    let event = fields.iter().fold(EventType::new(1, "T", 1, "E"), |ty, (_, f)| ty.field("", f));
    let rows = [Row::new(5, 1, 60)];
    let bytes = Stream::new().thread(5).metadata(&event).events(&rows).end();
    let mut reader = Reader::new(&*bytes).unwrap();
    assert_eq!(reader.next_event().unwrap().unwrap().fields().filter(Result::is_ok).count(), 9_000);
}

/// If the description of an event type is damaged, those after it are read, and the type is known
/// as far as it is readable.
#[test]
fn damaged_descriptions_of_types() {
    let long = |fields: Vec<u8>| [&[2, 1, b'P', 2, 1, b'D'][..], &fields, &[2, 0, 1, 9]].concat();
    let field = |ty: &[u8]| fields_of(&[("a", vec![6]), ("b", ty.to_vec()), ("c", vec![6])]);
    let mut cut_field = field(&[6]);
    cut_field[7] = 99;
    let rows = [
        (long(field(&[24, 18])), &["a", "b", "c"][..], Some(9)),
        (long(fields_of(&[("a", vec![6]), ("b", vec![])])), &["a", "b"], Some(9)),
        (long(cut_field), &["a", ""], None),
        (vec![2, 1, b'P', 2, 9, b'D'], &[""], None),
        (vec![2], &[""], None),
    ];
    let block = |row: &[u8]| {
        let (first, last) = (EventType::new(1, "P", 1, "First"), EventType::new(3, "P", 3, "Last"));
        let mut body = vec![0, 0];
        for row in [&*first.row(), row, &*last.field("n", &[6]).row()] {
            body.extend((row.len() as u16).to_le_bytes());
            body.extend(row);
        }
        body
    };
    for (row, names, opcode) in rows {
        let events = [
            Row::new(5, 1, 1060),
            Row::new(5, 2, 1061).metadata(2).payload(&[7, 8]),
            Row::new(5, 3, 1062).metadata(3).payload(&[7]),
        ];
        let mut stream = Stream::new();
        let bytes = stream.thread(5).block(METADATA, &block(&row)).events(&events).end();
        let mut reader = Reader::new(&*bytes).unwrap();
        assert!(!reader.next_event().unwrap().unwrap().metadata().is_damaged);
        let event = reader.next_event().unwrap().unwrap();
        let metadata = event.metadata();
        assert!(metadata.is_damaged);
        assert_eq!(metadata.opcode, opcode);
        assert!(metadata.fields.iter().map(|it| &*it.name).eq(names.iter().copied()));
        let mut fields = event.fields();
        if names.len() > 1 {
            assert_eq!(fields.next().unwrap().unwrap(), ("a", Value::U8(7)));
        }
        assert!(matches!(fields.next().unwrap().unwrap().1, Value::Bytes([.., 8])));
        assert!(fields.next().unwrap().unwrap_err().to_string().contains("is damaged"));
        assert!(fields.next().is_none());
        let event = reader.next_event().unwrap().unwrap();
        assert_eq!(event.fields().next().unwrap().unwrap(), ("n", Value::U8(7)));
        check_damaged_type(&bytes, reader);
    }
    // Not even the id is readable. Events of other types are read.
    for row in [&[][..], &[0xFF]] {
        let mut stream = Stream::new();
        stream.thread(5).block(METADATA, &block(row));
        let bytes = stream.events(&[Row::new(5, 1, 1060).metadata(3).payload(&[7])]).end();
        let mut reader = Reader::new(&*bytes).unwrap();
        assert_eq!(reader.next_event().unwrap().unwrap().metadata().name, "Last");
        check_damaged_type(&bytes, reader);
    }
}

/// The end of the stream tells of the damage. A check names it, and nothing else.
fn check_damaged_type(bytes: &[u8], mut reader: Reader<&[u8]>) {
    let error = reader.next_event().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::DamagedTypes { count: 1, .. }), "{error}");
    assert!(reader.next_event().unwrap().is_none());
    assert_eq!(reader.totals().damaged_types, 1);
    let mut sorted = Reader::new(bytes).unwrap().sorted();
    let mut count = 0;
    let end = loop {
        match sorted.next_event() {
            Ok(Some(_)) => count += 1,
            Ok(None) => panic!("no error"),
            Err(error) => break error,
        }
    };
    assert_eq!((end.offset(), count), (error.offset(), reader.totals().events));
    let report = verify(bytes).unwrap();
    assert_eq!(report.events, reader.totals().events);
    let found: Vec<_> = report.violations.iter().map(|it| (it.rule, it.offset)).collect();
    assert_eq!(found, [(Rule::Readable, error.offset())]);
}

/// The same in versions 4 and 5.
#[test]
fn damaged_descriptions_of_types_in_versions_4_and_5() {
    let with = |ty: &[u32]| [("a", v5::code(&[6])), ("b", v5::code(ty)), ("c", v5::code(&[6]))];
    let old = v5::event_type(2, 2, "D", &v5::fields(&with(&[6])));
    let cut = old[..old.len() - 6].to_vec();
    let tag = |fields: &[u8]| [&[0; 4][..], &v5::tag(2, fields), &v5::tag(1, &[9])].concat();
    let tagged = v5::tagged_fields(&with(&[6]));
    let short = v5::event_type(2, 2, "D", &tag(&tagged[..tagged.len() - 2]));
    for (row, names, opcode) in [
        (cut, &["a", "b", ""][..], None),
        (short, &["a", "b", ""], Some(9)),
        (old[..20].to_vec(), &[""], None),
    ] {
        let last = v5::event_type(3, 3, "Last", &v5::fields(&[("n", v5::code(&[6]))]));
        let mut stream = Objects::new();
        stream.metadata(&[v5::simple_type(1), row, last]);
        let events = [
            Row::new(5, 1, 1060),
            Row::new(5, 2, 1061).metadata(2).payload(&[7, 8, 9]),
            Row::new(5, 3, 1062).metadata(3).payload(&[7]),
        ];
        let bytes = stream.events(&events).end();
        let mut reader = Reader::new(&*bytes).unwrap();
        reader.next_event().unwrap().unwrap();
        let event = reader.next_event().unwrap().unwrap();
        let metadata = event.metadata();
        assert!(metadata.is_damaged);
        assert_eq!(metadata.opcode, opcode);
        assert!(metadata.fields.iter().map(|it| &*it.name).eq(names.iter().copied()));
        assert_eq!(event.fields().filter(Result::is_err).count(), 1);
        let event = reader.next_event().unwrap().unwrap();
        assert_eq!(event.fields().next().unwrap().unwrap(), ("n", Value::U8(7)));
        check_damaged_type(&bytes, reader);
    }
}

#[test]
fn short_payloads_say_where() {
    let event = EventType::new(1, "Test", 1, "E").field("a", &[6]).field("b", &[12]);
    let mut stream = Stream::new();
    stream.thread(5).metadata(&event).events(&[Row::new(5, 1, 60).payload(&[1, 2])]);
    let bytes = stream.end();
    let mut reader = Reader::new(&*bytes).unwrap();
    let event = reader.next_event().unwrap().unwrap();
    let mut fields = event.fields();
    assert!(fields.next().unwrap().is_ok());
    let error = fields.next().unwrap().unwrap_err();
    assert_eq!(error.offset() as usize, stream.bytes.len() - 1);
    assert!(fields.next().is_none());
}

/// If a block header promises 16 MiB, only the existing bytes cost memory.
#[test]
fn an_endless_stream_of_nonsense_ends() {
    let mut bytes = Stream::new().bytes;
    for kind in 9..60_u8 {
        bytes.extend([0, 0, 0, kind]);
    }
    bytes.extend([0xFF, 0xFF, 0xFF, 2, 1, 2, 3]);
    let error = error(&bytes);
    assert!(matches!(error.kind(), ErrorKind::Truncated { missing } if *missing == 0xFF_FFFC));
    assert_eq!(error.offset() as usize, bytes.len() - 7);
    let mut body = Vec::new();
    varuint(&mut body, u64::MAX);
    body.push(0);
    assert!(read(&Stream::new().block(7, &body).end()).1.is_err());
}
