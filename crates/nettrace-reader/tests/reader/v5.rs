//! Versions 4 and 5: handmade streams, the reasons to refuse a stream, and what `verify` finds.

use nettrace_reader::{
    Dialect, ErrorKind, Label, Options, Reader, Rule, Value, verify, verify_with,
};
use testkit::streams::{
    Row, Stream, utf16z,
    v5::{EVENTS, METADATA, Objects, POINT, STACKS, event_block, event_type, fields, simple_type},
    v5::{code, object, tag, tagged_fields},
    v5_random, v5_samples,
};

/// Reads to the end. Panics if the stream is damaged.
fn events<T>(bytes: &[u8], mut show: impl FnMut(&nettrace_reader::Event<'_>) -> T) -> Vec<T> {
    let mut reader = Reader::new(bytes).unwrap();
    let mut out = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        out.push(show(&event));
    }
    out
}

fn error(bytes: &[u8]) -> nettrace_reader::Error {
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return error,
    };
    loop {
        match reader.next_event() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the stream is sound"),
            Err(error) => return error,
        }
    }
}

fn start() -> Objects {
    let mut stream = Objects::new();
    stream.metadata(&[simple_type(1)]);
    stream
}

#[test]
fn the_trace_object() {
    let bytes = v5_samples::scalars();
    let mut reader = Reader::new(&*bytes).unwrap();
    let trace = reader.trace();
    assert_eq!(trace.sync_time.to_string(), "2026-03-04T05:06:07.0890000Z");
    assert_eq!(
        (trace.sync_ticks, trace.ticks_per_second, trace.pointer_size),
        (1000, 1_000_000, 8)
    );
    assert_eq!(trace.value("ProcessId"), Some("77"));
    assert_eq!(trace.value("HardwareThreadCount"), Some("4"));
    assert_eq!((reader.major_version(), reader.minor_version()), (4, 0));
    while reader.next_event().unwrap().is_some() {}
    assert_eq!(reader.major_version(), 4);
    assert_eq!(reader.offset(), bytes.len() as u64);
    let totals = reader.totals();
    assert_eq!((totals.events, totals.blocks, totals.sequence_points), (4, 5, 1));

    let bytes = v5_samples::arrays();
    let mut reader = Reader::new(&*bytes).unwrap().sorted();
    while reader.next_event().unwrap().is_some() {}
    assert_eq!(reader.major_version(), 5);
}

#[test]
fn values() {
    let bytes = v5_samples::scalars();
    let mut reader = Reader::new(&*bytes).unwrap();
    let event = reader.next_event().unwrap().unwrap();
    let metadata = event.metadata();
    assert_eq!((&*metadata.provider, &*metadata.name, metadata.event_id), ("Test", "Scalars", 1));
    assert_eq!((event.level(), event.version(), event.keywords(), event.opcode()), (4, 2, 16, 0));
    let values: Vec<_> = event.fields().map(|field| field.unwrap().1).collect();
    let text = |text: &'static str| Value::Text(text.into());
    let point = Value::Object(vec![("x", Value::I32(7)), ("y", text("y"))]);
    let expected = [
        Value::Bool(true),
        Value::Utf16CodeUnit(0x43A),
        Value::I8(-1),
        Value::U8(254),
        Value::I16(-32_768),
        Value::U16(65_535),
        Value::I32(-2),
        Value::U32(4_000_000_000),
        Value::I64(i64::MIN),
        Value::U64(u64::MAX),
        Value::F32(1.5),
        Value::F64(-0.1),
        Value::FileTime(134_165_223_610_050_000),
        Value::Guid(std::array::from_fn(|i| i as u8 + 1)),
        text("héllo \"мир\""),
        Value::Object(vec![("point", point), ("b", Value::U8(8))]),
        Value::U8(9),
    ];
    assert_eq!(values, expected);
    let thread = event.thread();
    assert_eq!((thread.index, thread.os_thread_id, thread.process_id), (5, Some(5), Some(77)));
    // Without a description of fields, nothing of the payload is shown.
    let event = reader.next_event().unwrap().unwrap();
    assert_eq!((event.payload, event.fields().count()), (&[1, 2, 3][..], 0));
}

#[test]
fn arrays_and_tags() {
    let bytes = v5_samples::arrays();
    let mut reader = Reader::new(&*bytes).unwrap();
    let event = reader.next_event().unwrap().unwrap();
    let values: Vec<_> = event.fields().map(|field| field.unwrap().1).collect();
    let text = |text: &'static str| Value::Text(text.into());
    let pair = |a, b| Value::Object(vec![("a", Value::U8(a)), ("b", text(b))]);
    let list = Value::Array(vec![Value::U16(1), Value::U16(2)]);
    let expected = [
        Value::Array(vec![Value::I32(5), Value::I32(-1)]),
        Value::Bytes(&[1, 2, 255]),
        text("кz"),
        Value::Array(vec![pair(7, "x"), pair(8, "ÿ")]),
        Value::Object(vec![("list", list), ("c", Value::I8(-2))]),
        Value::Array(vec![Value::Guid(std::array::from_fn(|i| i as u8 + 1))]),
        Value::Array(vec![]),
        text("end"),
    ];
    assert_eq!(values, expected);

    let shown =
        events(&v5_samples::tags(), |event| (event.metadata().opcode, event.fields().count()));
    assert_eq!(shown, [(Some(0), 0), (Some(2), 0), (Some(24), 1), (None, 0), (Some(5), 0)]);
}

#[test]
fn activity_ids_are_labels() {
    // A label has a GUID in the order of its text.
    let a = [4, 3, 2, 1, 6, 5, 8, 7, 9, 10, 11, 12, 13, 14, 15, 16];
    let b = [0xEE; 16];
    let both = vec![Label::ActivityId(a), Label::RelatedActivityId(b)];
    let expected = vec![
        both[..1].to_vec(),
        both.clone(),
        both.clone(),
        both[1..].to_vec(),
        vec![],
        vec![],
        vec![],
        vec![Label::ActivityId(b)],
    ];
    let bytes = v5_samples::activities();
    let labels = events(&bytes, |event| event.labels().into_owned());
    assert_eq!(labels, expected);
    // The sorted reader decodes the rows once more.
    let mut sorted = Reader::new(&*bytes).unwrap().sorted();
    let mut again = Vec::new();
    while let Some(event) = sorted.next_event().unwrap() {
        again.push(event.labels().into_owned());
    }
    assert_eq!(again, expected);
}

/// Rows with padding, as the specification has it, and without, as the reference reader expects it.
/// With padding, the size of a row may or may not include it.
#[test]
fn uncompressed_rows() {
    let mut rows = v5_samples::plain_rows();
    for sizes in [[4, 4, 4], [0, 1, 2], [3, 5, 0], [1, 180, 257]] {
        for (row, size) in rows.iter_mut().zip(sizes) {
            row.payload = vec![7; size];
        }
        for (padding, counted) in [(false, false), (true, false), (true, true)] {
            let mut stream = start();
            stream.plain_events(&rows, padding, counted).events(&[Row::new(5, 4, 1040)]);
            let shown = events(&stream.end(), |event| {
                (event.header.timestamp, event.header.is_sorted, event.payload.to_vec())
            });
            let mut expected: Vec<_> =
                rows.iter().map(|row| (row.time, row.sorted, row.payload.clone())).collect();
            expected.push((1040, false, vec![]));
            assert_eq!(shown, expected, "{sizes:?} {padding} {counted}");
            // The same through the queues of the sorted reader, and through `verify`.
            let bytes = stream.end();
            let mut sorted = Reader::new(&*bytes).unwrap().sorted();
            let mut count = 0;
            while let Some(event) = sorted.next_event().unwrap() {
                assert_eq!(event.payload, expected[count].2);
                count += 1;
            }
            assert_eq!(count, 4);
            let rules: Vec<_> = verify(&*bytes).unwrap().violations;
            // The stack of the second row is not defined here.
            assert!(rules.len() == 1 && rules[0].rule == Rule::Reference, "{rules:?}");
        }
    }
}

#[test]
fn times_before_that_of_the_trace() {
    // The trace begins at tick 1000.
    for version in [4, 5] {
        let mut stream = Objects::with_version(version);
        stream.metadata(&[simple_type(1)]).events(&[Row::new(5, 1, 999), Row::new(5, 2, 1000)]);
        let violations = verify(&*stream.end()).unwrap().violations;
        let rules: Vec<_> = violations.iter().map(|violation| violation.rule).collect();
        assert_eq!(rules, [Rule::SyncTime], "{violations:?}");
    }
}

#[test]
fn uncompressed_metadata() {
    let types = |tags: &[u8]| event_type(1, 1, "Odd", &[&[0; 4], tags].concat());
    for (padding, size) in [(false, 2), (true, 1), (true, 2), (true, 3), (true, 4)] {
        let other = types(&tag(9, &vec![0; size]));
        let mut stream = Objects::new();
        stream.plain_metadata(&[other, simple_type(2), simple_type(3)], padding);
        stream.events(&[Row::new(5, 1, 1010).metadata(3)]);
        assert_eq!(events(&stream.end(), |event| event.metadata().name.clone()), ["E3"]);
        assert!(verify(&*stream.end()).unwrap().is_sound());
    }
}

/// Reads to the end. Returns the losses, how often numbers went back, and (id, events, lost) of
/// each thread.
fn counts(bytes: &[u8], dialect: Dialect) -> (u64, u64, Vec<(u64, u64, u64)>) {
    let options = Options::default().keep_thread_totals(true).dialect(dialect);
    let mut reader = options.clone().open(bytes).unwrap();
    while reader.next_event().unwrap().is_some() {}
    let mut threads: Vec<_> = reader
        .live_threads()
        .map(|totals| (totals.thread.index, totals.events, totals.lost))
        .collect();
    threads.sort_unstable();
    let totals = reader.totals().clone();
    assert_eq!(verify_with(bytes, options, 9).unwrap().lost, totals.lost);
    (totals.lost, totals.step_backs, threads)
}

#[test]
fn losses() {
    let bytes = v5_samples::losses();
    let threads = vec![(5, 3, 16), (6, 1, 119), (7, 1, 34), (8, 1, 2), (9, 1, 49)];
    assert_eq!(counts(&bytes, Dialect::Specification), (v5_samples::LOST, 0, threads));
    let threads = vec![(5, 3, 16), (6, 1, 20), (7, 1, 4), (8, 1, 0), (9, 1, 0)];
    let lost = v5_samples::LOST_BY_REFERENCE;
    assert_eq!(counts(&bytes, Dialect::Reference), (lost, 0, threads));
}

/// The system has reused the id of a thread that ended.
#[test]
fn numbers_that_begin_again_at_1_are_another_thread() {
    let mut stream = start();
    stream.events(&[Row::new(5, 1, 1010), Row::new(5, 2, 1011), Row::new(5, 9, 1012)]);
    stream.events(&[Row::new(5, 1, 1020), Row::new(5, 2, 1021)]);
    stream.events(&[Row::new(5, 1, 1030)]);
    let bytes = stream.sequence_point(1040, &[(5, 1)]).end();
    assert_eq!(counts(&bytes, Dialect::Specification), (6, 0, vec![(5, 6, 6)]));
    let lost = 6 + 2 * 0x7FFF_FFFF;
    assert_eq!(counts(&bytes, Dialect::Reference), (lost, 2, vec![(5, 6, lost)]));
    check(&bytes, &[]);
}

/// A sequence point states a lower bound.
#[test]
fn a_sequence_point_behind_the_events_is_no_loss() {
    let mut stream = start();
    stream.events(&[Row::new(5, 1, 1010), Row::new(5, 2, 1011), Row::new(5, 3, 1012)]);
    stream.sequence_point(1020, &[(5, 2)]).events(&[Row::new(5, 4, 1030)]);
    let bytes = stream.sequence_point(1040, &[(5, 0)]).end();
    assert_eq!(counts(&bytes, Dialect::Specification), (0, 0, vec![(5, 4, 0)]));
    let lost = 0x7FFF_FFFF + 1 + 0x7FFF_FFFF;
    assert_eq!(counts(&bytes, Dialect::Reference), (lost, 2, vec![(5, 4, lost)]));
    check(&bytes, &[]);
}

#[test]
fn threads_that_end_are_forgotten_where_there_are_many() {
    let mut stream = start();
    for round in 0..8_u64 {
        for thread in 0..1500 {
            let id = 10 + round * 1500 + thread;
            stream.events(&[Row::new(id, 1, 1000 + round * 10)]);
        }
        // Only thread 7 is left.
        stream.sequence_point(1001 + round * 10, &[(7, 0)]);
    }
    let bytes = stream.end();
    let mut reader = Options::default().keep_thread_totals(true).open(&*bytes).unwrap();
    while reader.next_event().unwrap().is_some() {}
    let (live, gone) = (reader.live_threads().count(), reader.finished_threads().len());
    assert!(live < 6000, "{live}");
    assert_eq!(live + gone, 8 * 1500 + 1);
    assert!(verify(&*bytes).unwrap().is_sound());
}

#[test]
fn what_nobody_knows_is_skipped_where_the_format_allows_it() {
    let mut stream = start();
    // A byte, a 16-bit, a 32-bit and a 64-bit number, a text and a blob, each after its tag.
    let mut tagged = vec![8, 1, 9, 1, 2, 10, 1, 2, 3, 4, 11, 1, 2, 3, 4, 5, 6, 7, 8];
    tagged.extend(b"\x0d\x03\0\0\0abc\x0e\x00\x00\x02\x00");
    tagged.extend(vec![6; 0x2_0000]);
    stream.start("Surprise", 9, 9).bytes.extend(&tagged);
    stream.bytes.push(6);
    stream.start("Empty", 1, 0).bytes.push(6);
    // Known objects may have tagged values after the known part, and newer versions.
    stream.start(EVENTS, 3, 2).body(&event_block(&[Row::new(5, 1, 1010)]), &tagged);
    let bytes = stream.end();
    let mut reader = Reader::new(&*bytes).unwrap();
    while reader.next_event().unwrap().is_some() {}
    assert_eq!((reader.totals().events, reader.totals().unknown_blocks), (1, 2));
    assert!(verify(&*bytes).unwrap().is_sound());

    let mut stream = start();
    let at = stream.bytes.len() as u64;
    stream.object("Surprise", &[1, 2, 3, 4]);
    let error = error(&stream.end());
    assert_eq!(error.offset(), at);
    assert!(matches!(error.kind(), ErrorKind::UnknownObject { name } if name == "Surprise"));
    assert!(error.to_string().contains("\"Surprise\""));
}

#[test]
fn other_versions_are_refused_by_name() {
    let says = |bytes: &[u8]| error(bytes).to_string();
    let mut stream = Objects::with_version(3);
    assert!(says(&stream.end()).contains("NetTrace version 3"), "{}", says(&stream.end()));
    // Without the magic.
    let bytes = stream.end()[8..].to_vec();
    assert!(says(&bytes).contains("a NetTrace version 3 (NetPerf) stream"), "{}", says(&bytes));
    assert!(says(&bytes[..30]).contains("NetTrace version 3 or older"));
    let netperf = Objects::with_version(2).end()[8..].to_vec();
    assert!(says(&netperf).contains("NetTrace version 2"));
    assert!(says(&Objects::with_version(6).end()).contains("other versions"));
    assert!(verify(&*Objects::with_version(5).end()).unwrap().is_sound());
    stream = start();
    let at = stream.bytes.len() as u64;
    stream.start(EVENTS, 3, 3).body(&event_block(&[Row::new(5, 1, 1010)]), &[]);
    let error = error(&stream.end());
    assert_eq!(error.offset(), at);
    assert!(matches!(error.kind(), ErrorKind::UnsupportedVersion(_)));
}

#[test]
fn damage_has_an_offset_and_a_kind() {
    // The offset counts from the start of the damaged object, or from its body if a name is given.
    let check = |name: &str, offset: usize, expected: &str, damage: &dyn Fn(&mut Objects)| {
        let mut stream = start();
        let at = match (stream.bytes.len(), name) {
            (object, "") => object,
            (object, name) => (object + 20 + name.len()).next_multiple_of(4),
        };
        damage(&mut stream);
        let error = error(&stream.end());
        let kind = format!("{:?}", error.kind());
        assert!(kind.starts_with(expected), "{kind}");
        assert_eq!(error.offset(), (at + offset) as u64, "{kind}");
    };
    let event = event_block(&[Row::new(5, 1, 1010)]);
    // Sizes: beyond the limit, negative, too large for the stream, too small for the content.
    let sized = |stream: &mut Objects, size: u32| {
        let at = stream.bytes.len() + 16 + EVENTS.len();
        stream.object(EVENTS, &event);
        stream.bytes[at..at + 4].copy_from_slice(&size.to_le_bytes());
    };
    check("", 0, "LimitExceeded", &|stream| sized(stream, i32::MAX as u32));
    check("", 0, "Framing", &|stream| sized(stream, 1 << 31));
    check("", 0, "Truncated", &|stream| sized(stream, 60_000_000));
    let cut = event.len() as u32 - 1;
    check(EVENTS, 20, "Malformed { block: Event", &|stream| sized(stream, cut));
    check("", 0, "Framing", &|stream| stream.bytes.push(7));
    check("", 0, "Truncated", &|stream| stream.bytes.extend([5, 5]));
    check("", 0, "Framing", &|stream| stream.bytes.extend([5; 40]));
    check(EVENTS, 20, "Malformed { block: Event", &|stream| {
        stream.events(&[]);
    });
    check(METADATA, 30, "DamagedTypes { count: 1", &|stream| {
        stream.metadata(&[vec![9]]);
    });
    check(METADATA, 20, "Duplicate { table: Metadata, id: 1", &|stream| {
        stream.metadata(&[simple_type(1)]);
    });
    check(EVENTS, 20, "Undefined { table: Metadata, id: 9", &|stream| {
        stream.events(&[Row::new(5, 1, 1010).metadata(9)]);
    });
    check(POINT, 8, "Malformed { block: SequencePoint", &|stream| {
        stream.object(POINT, &[0; 11]);
    });
    let lying = [[0; 8].as_slice(), &[255, 255, 255, 127], &[0; 12]].concat();
    check(POINT, 24, "Malformed { block: SequencePoint", &|stream| {
        stream.object(POINT, &lying);
    });
    check("", 0, "Malformed { block: Trace", &|stream| {
        stream.start("Trace", 4, 4).bytes.extend([0; 48]);
        stream.bytes.push(6);
    });
}

/// False descriptions of fields cost no more than their length, and never cause a panic.
#[test]
fn fields_that_lie() {
    // A description that is nested too deep is followed to its end, which here does not come.
    let mut deep = 1_u32.to_le_bytes().to_vec();
    deep.extend(code(&[1, 1]).repeat(100_000));
    check(&start().metadata(&[event_type(2, 2, "Deep", &deep)]).end(), &[Rule::Readable]);
    let blobs = [
        event_type(2, 2, "Many", &u32::MAX.to_le_bytes()),
        event_type(
            2,
            2,
            "Arrays",
            &[
                &[0; 4][..],
                &tag(
                    2,
                    &[
                        1_u32.to_le_bytes().as_slice(),
                        &[8, 0, 1, 0],
                        &utf16z(""),
                        &code(&[19]).repeat(9),
                    ]
                    .concat(),
                ),
            ]
            .concat(),
        ),
        event_type(2, 2, "Small", &[&[0; 4][..], &tag(2, &[1, 0, 0, 0, 3, 0, 0, 0])].concat()),
        event_type(2, 2, "Tag", &[0, 0, 0, 0, 255, 255, 255, 255, 1]),
        event_type(2, 2, "Tag", &[0, 0, 0, 0, 0, 0, 0, 0, 1]),
    ];
    for blob in blobs {
        let error = error(&start().metadata(std::slice::from_ref(&blob)).end());
        assert!(matches!(error.kind(), ErrorKind::DamagedTypes { count: 1, .. }), "{error}");
    }
    // A field of an unknown type takes the rest of the payload, and an error follows.
    let odd = fields(&[("a", code(&[9])), ("b", code(&[2])), ("c", code(&[9]))]);
    let object = object(&tagged_fields(&[("x", code(&[77]))]));
    let tagged = [&[0; 4][..], &tag(2, &tagged_fields(&[("o", object)]))].concat();
    for (fields, known) in [(odd, 3), (tagged, 2)] {
        let mut stream = Objects::new();
        stream
            .metadata(&[event_type(1, 1, "Odd", &fields)])
            .events(&[Row::new(5, 1, 1010).payload(&[1, 0, 0, 0, 9])]);
        assert_eq!(events(&stream.end(), |event| event.fields().count()), [known]);
        assert!(verify(&*stream.end()).unwrap().is_sound());
    }
}

#[test]
fn a_limit_for_blocks() {
    let bytes = start().events(&[Row::new(5, 1, 1010).payload(&[0; 5000])]).end();
    let mut reader = Options::default().block_limit(4096).open(&*bytes).unwrap();
    let error = reader.next_event().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LimitExceeded { limit: 4096, .. }), "{error}");
    assert!(reader.next_event().unwrap().is_none());
    let bytes = Stream::new().block(99, &[0; 5000]).end();
    let mut reader = Options::default().block_limit(4096).open(&*bytes).unwrap();
    assert!(reader.next_event().is_err());
}

#[track_caller]
fn check(bytes: &[u8], rules: &[Rule]) {
    let report = verify(bytes).unwrap();
    let found: Vec<_> = report.violations.iter().map(|violation| violation.rule).collect();
    assert_eq!(found, rules, "{:#?}", report.violations);
    assert_eq!(report.bytes, bytes.len() as u64);
}

#[test]
fn sound_streams_have_no_violation() {
    for (name, bytes) in v5_samples::all() {
        let report = verify(&*bytes).unwrap();
        assert!(report.is_sound(), "{name}: {:?}", report.violations);
        assert_eq!(report.bytes, bytes.len() as u64, "{name}");
    }
}

/// Reads random streams in both orders, and verifies them.
#[test]
fn streams_of_chance() {
    for seed in 0..60 {
        let made = v5_random::make(seed, 20);
        let rows: Vec<_> =
            made.rows.iter().map(|row| (row.capture, row.sequence, row.time)).collect();
        let read = events(&made.bytes, |event| {
            let header = event.header;
            (header.capture_thread, header.sequence_number, header.timestamp)
        });
        assert_eq!(read, rows, "{seed}");
        let report = verify(&*made.bytes).unwrap();
        assert!(report.is_sound(), "{seed}: {:?}", report.violations);
        assert_eq!(report.lost, made.lost, "{seed}");
        let mut sorted = Reader::new(&*made.bytes).unwrap().sorted();
        let (mut last, mut seen) = (0, Vec::new());
        while let Some(event) = sorted.next_event().unwrap() {
            let header = event.header;
            assert!(header.timestamp >= last, "{seed}");
            last = header.timestamp;
            event.fields().for_each(|field| drop(field.unwrap()));
            seen.push((header.capture_thread, header.sequence_number, header.timestamp));
            let found = made.rows.iter().find(|row| {
                (row.capture, row.sequence) == (header.capture_thread, header.sequence_number)
            });
            let row = found.unwrap();
            assert_eq!(event.payload, row.payload);
            assert_eq!(
                (header.activity_id, header.related_activity_id),
                (row.activity, row.related)
            );
            assert_eq!(event.thread().index, row.thread);
        }
        assert_eq!(sorted.totals().lost, made.lost, "{seed}");
        let mut rows = rows;
        rows.sort_unstable();
        seen.sort_unstable();
        assert_eq!(seen, rows, "{seed}");
    }
}

#[test]
fn promises() {
    let row = |sequence, time| Row::new(5, sequence, time);
    let one = || start().events(&[row(1, 1010)]).clone();
    // Padding that is not zero, before the body of the metadata block.
    let bytes = start().end();
    let padding = bytes.windows(4).position(|four| four == [0, 0, 20, 0]).unwrap();
    let mut broken = bytes.clone();
    broken[padding + 1] = 9;
    assert_ne!(broken, bytes);
    check(&broken, &[Rule::Framing]);
    // Sizes that cover more than the content.
    check(&start().object(POINT, &[[9; 8].as_slice(), &[0; 5]].concat()).end(), &[Rule::Framing]);
    check(&start().object(STACKS, &[1, 0, 0, 0, 0, 0, 0, 0, 7]).end(), &[Rule::Framing]);
    // References.
    check(&start().events(&[row(1, 1010).metadata(2)]).end(), &[Rule::Reference]);
    check(&start().events(&[Row { stack: 1, ..row(1, 1010) }]).end(), &[Rule::Reference]);
    let mut stream = start();
    let with_stack = Row { stack: 1, ..row(1, 1010) };
    stream.stacks(1, &[&[7]]).sequence_point(1005, &[(5, 0)]).events(&[with_stack]);
    check(&stream.end(), &[Rule::Reference]);
    check(&start().metadata(&[simple_type(1)]).end(), &[Rule::Duplicate]);
    check(&start().stacks(1, &[&[1], &[2]]).stacks(2, &[&[1]]).end(), &[Rule::Duplicate]);
    // Order.
    check(&one().events(&[row(2, 1009)]).end(), &[Rule::ThreadOrder]);
    check(&one().events(&[Row::new(6, 1, 1009)]).end(), &[]);
    check(
        &start().events(&[row(1, 1010).sorted()]).events(&[Row::new(6, 1, 1009)]).end(),
        &[Rule::IsSorted],
    );
    check(&one().sequence_point(1009, &[(5, 1)]).end(), &[Rule::BetweenPoints]);
    check(&one().sequence_point(1011, &[]).sequence_point(1011, &[]).end(), &[Rule::PointOrder]);
    let mut times = event_block(&[row(1, 1010), row(2, 1012)]);
    times[4] ^= 1;
    check(&start().object(EVENTS, &times).end(), &[Rule::BlockTimes]);
    // The thread may change within a block only at sorted events.
    check(&start().events(&[row(1, 1010), Row::new(6, 1, 1011).sorted()]).end(), &[]);
    check(&start().events(&[row(1, 1010), Row::new(6, 1, 1011)]).end(), &[Rule::OneThread]);
    // Sequence numbers. A new thread may have an old id, and begins at 1.
    check(&start().events(&[row(9, 1010), row(8, 1011)]).end(), &[Rule::SequenceNumbers]);
    check(&start().events(&[row(9, 1010), row(1, 1011)]).end(), &[]);
    check(&start().events(&[row(9, 1010), row(1 << 20, 1011)]).end(), &[]);
    // An event id may stand for several types with the same name and fields.
    let types = |other: Vec<u8>| start().metadata(&[other]).end();
    check(&types(event_type(2, 1, "E1", &[0; 4])), &[]);
    check(&types(event_type(2, 1, "E1", &fields(&[("n", code(&[9]))]))), &[Rule::EventIds]);
    check(&types(event_type(2, 1, "Other", &[0; 4])), &[Rule::EventIds]);
    // Payloads of types with described fields.
    let mut stream = Objects::new();
    stream.metadata(&[event_type(1, 1, "E", &fields(&[("n", code(&[9]))]))]);
    check(&stream.clone().events(&[row(1, 1010).payload(&[0; 4])]).end(), &[]);
    check(&stream.events(&[row(1, 1010).payload(&[0; 5])]).end(), &[Rule::PayloadFields]);
    check(&start().events(&[row(1, 1010).payload(&[0; 5])]).end(), &[]);
    check(&start().events(&[row(1, 1010).payload(&vec![0; 65_536])]).end(), &[Rule::PayloadSize]);
    // The damage of one block does not hide violations after it.
    check(
        &start().object(METADATA, &[1]).events(&[row(2, 1010), row(3, 1009)]).end(),
        &[Rule::Readable, Rule::ThreadOrder],
    );
    let bytes = one().end();
    let cut = &bytes[..bytes.len() - 1];
    let report = verify(cut).unwrap();
    assert_eq!(report.violations[0].rule, Rule::Readable);
    assert!(report.violations[0].detail.contains("end-of-stream"));
}
