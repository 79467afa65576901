//! Unusual streams of all versions that the format allows. No known producer writes most of them.

use super::{
    EVENT, EventType, LABEL_LIST, METADATA, REMOVE_THREAD, Row, SEQUENCE_POINT, STACK, Stream,
    THREAD, event_block, fields_of, plain_event_block, string, utf16z,
    v5::{self, Objects, code, event_type, fields, simple_type, tag, tagged_fields},
    varuint,
};

/// All these streams, by name.
pub fn all() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut add = |name: String, bytes: Vec<u8>| all.push((name, bytes));
    blocks(&mut add);
    rows(&mut add);
    points(&mut add);
    definitions(&mut add);
    traces(&mut add);
    objects(&mut add);
    all
}

type Add<'a> = &'a mut dyn FnMut(String, Vec<u8>);

/// A stream with threads 5 and 6, and the event types 1 (a number) and 2 (no fields).
fn start() -> Stream {
    let mut stream = Stream::new();
    stream.thread(5).thread(6);
    stream.metadata(&EventType::new(1, "Test", 1, "E1").field("n", &[6])).simple_metadata(2);
    stream
}

fn row(sequence: u32, time: u64) -> Row {
    Row::new(5, sequence, 1000 + time).payload(&[sequence as u8])
}

fn other(sequence: u32, time: u64) -> Row {
    Row::new(6, sequence, 1000 + time).metadata(2)
}

/// A block of rows given as bytes. The first row states everything: thread 5, type 2, tick 1010.
fn raw_rows(rows: &[&[u8]]) -> Vec<u8> {
    let mut body = block_head(20, 1, 1010, 1010);
    body.extend([0x87, 2, 0, 5, 1, 5, 0xF2, 7, 0]);
    rows.iter().for_each(|row| body.extend(*row));
    body
}

fn block_head(size: u16, flags: u16, first: u64, last: u64) -> Vec<u8> {
    let mut head = size.to_le_bytes().to_vec();
    head.extend(flags.to_le_bytes());
    head.extend(first.to_le_bytes());
    head.extend(last.to_le_bytes());
    head.resize(size.into(), 0xA5);
    head
}

fn with_head(head: &[u8], block: &[u8]) -> Vec<u8> {
    [head, &block[20..]].concat()
}

fn blocks(add: Add<'_>) {
    for size in [20, 21, 24, 100, 4000] {
        let body = with_head(&block_head(size, 1, 1010, 1010), &event_block(&[row(1, 10)]));
        add(format!("header-{size}"), start().block(EVENT, &body).events(&[row(2, 11)]).end());
    }
    for flags in [1, 3, 0x8001, 0xFFFF] {
        let body = with_head(&block_head(20, flags, 1010, 1010), &event_block(&[row(1, 10)]));
        add(format!("flags-{flags:x}"), start().block(EVENT, &body).end());
    }
    for flags in [0, 2, 0xFFFE] {
        let plain = plain_event_block(&[row(1, 10), row(2, 10).sorted(), other(1, 12).sorted()]);
        let body = with_head(&block_head(20, flags, 1010, 1012), &plain);
        add(format!("plain-{flags:x}"), start().block(EVENT, &body).events(&[row(3, 13)]).end());
    }
    for kind in [9, 10, 99, 127, 128, 200, 255] {
        let mut stream = start();
        stream.block(kind, &[1, 2, 3]).events(&[row(1, 10)]).block(kind, &[]).events(&[row(2, 11)]);
        add(format!("kind-{kind}"), stream.end());
    }
    let empty: [(u8, &[u8]); 7] = [
        (METADATA, &[0, 0]),
        (METADATA, &[3, 0, 9, 9, 9]),
        (THREAD, &[]),
        (REMOVE_THREAD, &[]),
        (STACK, &[1, 0, 0, 0, 0, 0, 0, 0]),
        (LABEL_LIST, &[1, 0, 0, 0, 0, 0, 0, 0]),
        (77, &[]),
    ];
    for (i, (kind, body)) in empty.iter().enumerate() {
        let mut stream = start();
        stream.block(*kind, body).events(&[row(1, 10)]).block(*kind, body).events(&[row(2, 11)]);
        add(format!("empty-{i}"), stream.end());
    }
    let one = start().events(&[row(1, 10)]).clone();
    let whole = one.end();
    add("tail".into(), [&whole[..], &[1, 2, 3]].concat());
    add("twice".into(), [&whole[..], &whole].concat());
    add("end-with-size".into(), [&one.bytes[..], &[3, 0, 0, 0, 1, 2, 3]].concat());
    add("times-that-lie".into(), {
        let body = with_head(&block_head(20, 1, 77, 3), &event_block(&[row(1, 10)]));
        start().block(EVENT, &body).end()
    });
    add("large-payload".into(), {
        let payload = vec![7; 65_535];
        start().events(&[row(1, 10).payload(&payload), row(2, 11)]).end()
    });
    add("many-blocks".into(), {
        let mut stream = start();
        for i in 1..300 {
            stream.events(&[row(i, i.into())]);
        }
        stream.end()
    });
}

fn rows(add: Add<'_>) {
    // Every combination of flags on the second row. Each part is either stated anew or not.
    for flags in 0..=255_u8 {
        if flags % 5 != 0 && flags & 32 == 0 {
            continue; // a fifth of the combinations is enough
        }
        let mut second = vec![flags];
        let part =
            |bit: u8, bytes: &[u8]| if flags & bit != 0 { bytes.to_vec() } else { Vec::new() };
        second.extend(part(1, &[1]));
        second.extend(part(2, &[3, 5, 7]));
        second.extend(part(4, &[6]));
        second.extend(part(8, &[1]));
        second.push(9);
        second.extend(part(16, &[1]));
        second.extend(part(128, &[1]));
        second.extend(part(128, &[42]));
        let mut stream = start();
        stream.stacks(1, &[&[0x1234]]).label_lists(1, &[&[vec![9, 3]]]);
        stream.block(EVENT, &raw_rows(&[&second, &[&second[..1], &second[1..]].concat()]));
        add(format!("row-{flags:02x}"), stream.end());
    }
    // Numbers with more bytes than they need.
    let rows: [(&str, &[u8]); 5] = [
        ("two", &[0, 0x81, 0]),
        ("ten", &[0, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0]),
        ("id", &[1, 0x82, 0x80, 0x80, 0x80, 0, 1]),
        ("size", &[0x80, 1, 0x80, 0x80, 0x80, 0x80, 0]),
        ("thread", &[4, 0x86, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 1]),
    ];
    for (name, bytes) in rows {
        add(format!("long-number-{name}"), start().block(EVENT, &raw_rows(&[bytes])).end());
    }
    for processor in [0, 1, 255, 256, 300, u32::MAX] {
        let rows = [Row { processor, ..row(1, 10) }, row(2, 11), Row { processor, ..row(3, 12) }];
        add(format!("processor-{processor}"), start().events(&rows).end());
    }
    for time in [0, 1, 1000, 1 << 31, 1 << 32, 1 << 40, 1 << 53] {
        let at = |sequence, time| Row { time, ..row(sequence, 0) };
        add(format!("time-{time}"), start().events(&[at(1, time), at(2, time + 1)]).end());
    }
    // The sorted bit in every combination over six rows.
    for marks in 0..64_u32 {
        if marks % 3 == 1 {
            continue;
        }
        let mark = |row: Row, i: u32| if marks >> i & 1 == 1 { row.sorted() } else { row };
        let mut stream = start();
        stream.events(&[mark(row(1, 10), 0), mark(row(2, 10), 1), mark(row(3, 12), 2)]);
        stream
            .events(&[mark(other(1, 12), 3), mark(other(2, 13), 4)])
            .events(&[mark(row(4, 14), 5)]);
        add(format!("marks-{marks:02x}"), stream.end());
    }
    add("threads-in-a-block".into(), {
        let rows = [row(1, 10), other(1, 11).sorted(), row(2, 12).sorted(), row(3, 13)];
        start().events(&rows).events(&[other(2, 14).sorted(), row(4, 14).sorted()]).end()
    });
    add("about-others".into(), {
        let about = |row: Row, thread| Row { thread, ..row };
        let mut stream = start();
        stream.events(&[about(row(1, 10), 6), row(2, 11), about(row(3, 12), 6)]);
        stream.events(&[about(other(1, 11), 5), about(other(2, 12).sorted(), 5)]);
        stream.end()
    });
    add("wrap".into(), {
        let mut stream = start();
        let mut time = 0;
        for sequence in [1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFE, u32::MAX, 0, 1, 5] {
            time += 1;
            stream.events(&[row(sequence, time)]);
        }
        stream.sequence_point(2000, 0, &[(5, 5)]).end()
    });
    add("wrap-in-a-block".into(), {
        let rows = [1, 0x7FFF_FFFF, 0xFFFF_FFFE, u32::MAX, 0, 1].map(|sequence| row(sequence, 10));
        start().events(&rows).end()
    });
    add("payloads".into(), {
        let rows = [0, 1, 2, 3, 300].map(|size| Row::new(5, 1, 1010).payload(&vec![1; size]));
        let rows = rows.into_iter().zip(1..).map(|(row, sequence)| Row { sequence, ..row });
        start().events(&rows.collect::<Vec<_>>()).end()
    });
}

fn points(add: Add<'_>) {
    for flags in 0..8 {
        let mut stream = start();
        stream.stacks(1, &[&[1]]).label_lists(1, &[&[vec![9, 1]]]);
        let with = |row: Row| Row { stack: 1, labels: 1, ..row };
        stream.events(&[with(row(1, 10))]).sequence_point(1020, flags, &[(5, 1), (6, 0)]);
        if flags & 1 != 0 {
            stream.thread(6).thread(5);
        }
        if flags & 2 != 0 {
            // For an event id of a provider the reference keeps the fields that it saw first.
            stream.metadata(&EventType::new(1, "Test", 1, "E1").field("n", &[6]));
        }
        stream.stacks(1, &[&[2]]).label_lists(1, &[&[vec![9, 2]]]);
        let next = if flags & 1 != 0 { 1 } else { 2 };
        stream.events(&[with(row(next, 30))]).sequence_point(1040, 0, &[]);
        add(format!("point-{flags}"), stream.end());
    }
    add("points-alone".into(), {
        let mut stream = start();
        stream.sequence_point(5, 0, &[]).sequence_point(6, 0, &[(5, 0), (6, 0), (5, 0)]);
        stream.sequence_point(6, 0, &[]).end()
    });
    add("point-with-tail".into(), {
        let mut body = 1020_u64.to_le_bytes().to_vec();
        body.extend([0, 0, 0, 0, 1, 0, 0, 0, 5, 1, 0xEE, 0xEE]);
        start().events(&[row(1, 10)]).block(SEQUENCE_POINT, &body).events(&[row(2, 30)]).end()
    });
    for (name, first, given, next) in [
        ("above", 1, 9, 10),
        ("below", 5, 2, 6),
        ("zero", 5, 0, 6),
        ("far-above", 1, 0x7FFF_0000, 0x7FFF_0001),
    ] {
        let mut stream = start();
        stream.events(&[row(first, 10)]).sequence_point(1020, 0, &[(5, given)]);
        add(format!("point-{name}"), stream.events(&[row(next, 30)]).end());
    }
    for last in [2, 9, 1] {
        let mut stream = start();
        stream.events(&[row(1, 10), row(2, 11)]).remove_thread(5, last).events(&[other(1, 12)]);
        add(format!("removed-{last}"), stream.sequence_point(1020, 1, &[]).end());
    }
    add("removed-before-delivery".into(), {
        let mut stream = start();
        stream.events(&[other(1, 20)]).events(&[row(1, 10), Row { thread: 6, ..row(2, 11) }]);
        stream.remove_thread(5, 2).remove_thread(6, 1).end()
    });
    add("threads-again".into(), {
        let mut stream = start();
        for round in 0..4_u64 {
            let at = 100 * round;
            stream.events(&[row(1, at + 10), row(2, at + 11)]).events(&[other(1, at + 5)]);
            stream.remove_thread(5, 2).sequence_point(1000 + at + 50, 1, &[]).thread(6).thread(5);
        }
        stream.end()
    });
}

fn definitions(add: Add<'_>) {
    let one = |name: &str, event: EventType, payload: &[u8]| {
        let row = Row::new(5, 1, 1010).payload(payload);
        (name.to_owned(), Stream::new().thread(5).metadata(&event).events(&[row]).end())
    };
    let event = |event_id| EventType::new(1, "Test", event_id, "Odd").field("n", &[6]);
    for id in [1, 255, 256, 65_534] {
        let (name, bytes) = one(&format!("event-id-{id}"), event(id), &[1]);
        add(name, bytes);
    }
    for id in [1_u32, 127, 128, 0x7FFF_FFFF] {
        let event = EventType { id: id.into(), ..event(1) };
        let row = row(1, 10).metadata(id);
        let bytes = Stream::new().thread(5).metadata(&event).events(&[row]).end();
        add(format!("metadata-id-{id}"), bytes);
    }
    let optional: [(&str, &[u8]); 8] = [
        ("level-200", &[8, 200]),
        ("version-255", &[9, 255]),
        ("opcode-0", &[1, 0]),
        ("opcode-255", &[1, 255]),
        ("keywords", &[3, 255, 255, 255, 255, 255, 255, 255, 255]),
        ("guid", &[7, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]),
        ("twice", &[8, 1, 8, 5, 9, 1, 9, 2, 1, 3, 1, 4]),
        ("key-values", &[6, 1, b'k', 1, b'v', 6, 1, b'k', 1, b'w', 6, 0, 0]),
    ];
    for (name, bytes) in optional {
        let (name, bytes) = one(&format!("optional-{name}"), event(1).optional(bytes), &[1]);
        add(name, bytes);
    }
    // Bytes after the known parts, in rows and in fields.
    add("tails".into(), {
        let mut row_bytes = EventType::new(1, "Test", 1, "Tails").row();
        let count = row_bytes.len() - 4;
        row_bytes.truncate(count);
        let mut field = Vec::new();
        string(&mut field, "n");
        field.extend([6, 0xEE, 0xEE, 0xEE]);
        row_bytes.extend([1, 0, field.len() as u8, 0]);
        row_bytes.extend(field);
        row_bytes.extend([0, 0, 0xDD, 0xDD]);
        let mut body = vec![2, 0, 0xCC, 0xCC];
        body.extend((row_bytes.len() as u16).to_le_bytes());
        body.extend(row_bytes);
        Stream::new().thread(5).block(METADATA, &body).events(&[row(1, 10)]).end()
    });
    let object = |members: &[(&str, Vec<u8>)]| [&[1][..], &fields_of(members)].concat();
    let deep = object(&[("x", object(&[("y", object(&[("z", vec![6])]))])), ("w", vec![6])]);
    let types: [(&str, Vec<u8>, &[u8]); 8] = [
        ("no-object", object(&[]), &[]),
        ("deep", deep, &[1, 2]),
        ("array-of-none", vec![19, 6], &[0, 0]),
        ("fixed-array", vec![22, 9, 2, 0], &[1, 0, 0, 0, 2, 0, 0, 0]),
        ("short", vec![9], &[1, 2]),
        ("nothing", vec![9], &[]),
        ("more", vec![6], &[1, 2, 3, 4]),
        ("varuint", vec![21], &[0x81, 0x80, 0]),
    ];
    for (name, ty, payload) in types {
        let event = EventType::new(1, "Test", 1, "Odd").field("f", &ty);
        let (name, bytes) = one(&format!("type-{name}"), event, payload);
        add(name, bytes);
    }
    let thread = |info: &[u8]| {
        let mut body = vec![info.len() as u8 + 1, 0, 5];
        body.extend(info);
        let mut stream = Stream::new();
        stream.block(THREAD, &body).simple_metadata(2).events(&[Row::new(5, 1, 1010).metadata(2)]);
        stream.end()
    };
    let infos: [(&str, &[u8]); 6] = [
        ("bare", &[]),
        ("names", &[1, 1, b'a', 1, 1, b'b', 1, 0]),
        ("ids-twice", &[3, 1, 3, 2, 2, 1, 2, 2]),
        ("large-ids", &[3, 0xFF, 0xFF, 0xFF, 0xFF, 7, 2, 0xFF, 0xFF, 0xFF, 0xFF, 7]),
        ("key-values", &[4, 1, b'k', 1, b'v', 4, 1, b'k', 1, b'w', 4, 0, 0]),
        ("no-unicode", &[1, 2, 0xFF, 0xFE]),
    ];
    for (name, info) in infos {
        add(format!("thread-{name}"), thread(info));
    }
    for index in [0, 1, 1 << 31, 1 << 32, i64::MAX as u64, u64::MAX] {
        let mut stream = Stream::new();
        let mut info = Vec::new();
        varuint(&mut info, index);
        info.extend([3, 77]);
        stream.thread_row(&info).simple_metadata(2);
        let row = Row::new(index, 1, 1010).metadata(2);
        add(format!("index-{index}"), stream.events(&[row]).sequence_point(1020, 0, &[]).end());
    }
    let stacks: [(&str, u32, &[&[u8]]); 5] = [
        ("zero", 0, &[&[1; 8], &[2; 8]]),
        ("none", 1, &[&[]]),
        ("uneven", 1, &[&[1; 7], &[2; 9]]),
        ("high", 0x7FFF_FFF0, &[&[1; 8]]),
        ("deep", 1, &[&[3; 800]]),
    ];
    for (name, first, list) in stacks {
        let mut body = first.to_le_bytes().to_vec();
        body.extend((list.len() as u32).to_le_bytes());
        for stack in list {
            body.extend((stack.len() as u32).to_le_bytes());
            body.extend(*stack);
        }
        let row = Row { stack: first, ..row(1, 10) };
        add(format!("stacks-{name}"), start().block(STACK, &body).events(&[row]).end());
    }
    let guid = |kind: u8| [&[kind][..], &[kind; 16]].concat();
    let number = |kind: u8, value: u64| [&[kind][..], &value.to_le_bytes()].concat();
    let text = [5, 1, b'k', 2, 0xC3, 0xA9].to_vec();
    let lists: [(&str, Vec<Vec<u8>>); 6] = [
        ("ids", vec![guid(1), guid(2), guid(3), number(4, u64::MAX >> 1)]),
        ("overrides", vec![vec![7, 9], number(8, 0xF0), vec![9, 5], vec![10, 3]]),
        ("twice", vec![vec![9, 1], vec![9, 2], guid(1), [&[1][..], &[9; 16]].concat()]),
        ("texts", vec![text.clone(), text, vec![5, 0, 0]]),
        ("numbers", vec![vec![6, 1, b'n', 0], vec![6, 1, b'm', 1], vec![6, 1, b'o', 0x81, 0]]),
        ("zeros", vec![[&[1][..], &[0; 16]].concat(), vec![9, 0], number(8, 0), vec![7, 0]]),
    ];
    for (name, list) in lists {
        let mut stream = start();
        stream.label_lists(7, &[&list, &list]);
        stream.events(&[row(1, 10).labels(7), row(2, 11).labels(8), row(3, 12)]);
        add(format!("labels-{name}"), stream.end());
    }
    add("metadata-late".into(), {
        let mut stream = start();
        stream.events(&[row(1, 20)]).simple_metadata(3).events(&[other(1, 10).metadata(3)]).end()
    });
}

fn traces(add: Add<'_>) {
    let keys: [(&str, &[(&str, &str)]); 6] = [
        ("none", &[]),
        ("twice", &[("ProcessId", "1"), ("ProcessId", "2")]),
        ("no-number", &[("ProcessId", "x"), ("HardwareThreadCount", "")]),
        ("negative", &[("ProcessId", "-5"), ("HardwareThreadCount", "-1")]),
        ("large", &[("ProcessId", "99999999999"), ("HardwareThreadCount", "70000")]),
        ("others", &[("", ""), ("é", "\n"), ("ExpectedCPUSamplingRate", "7")]),
    ];
    for (name, keys) in keys {
        let mut stream = Stream::with_keys(keys);
        stream.thread(5).simple_metadata(2).events(&[Row::new(5, 1, 1010).metadata(2)]);
        add(format!("keys-{name}"), stream.end());
    }
    let mut patched = |name: &str, at: usize, bytes: &[u8]| {
        let mut whole = start().events(&[row(1, 10), row(2, 1_000_000)]).end();
        whole[at..at + bytes.len()].copy_from_slice(bytes);
        add(format!("trace-{name}"), whole);
    };
    patched("minor", 16, &[7, 0, 0, 0]);
    patched("frequency-1", 48, &1_u64.to_le_bytes());
    patched("frequency-3", 48, &3_u64.to_le_bytes());
    patched("frequency-giga", 48, &1_000_000_000_u64.to_le_bytes());
    patched("late-start", 40, &5000_u64.to_le_bytes());
    patched("year-1999", 24, &1999_u16.to_le_bytes());
    patched("weekday", 28, &[6, 0]);
    patched("pointer-4", 56, &[4, 0, 0, 0]);
    patched("pointer-16", 56, &[16, 0, 0, 0]);
    patched("pointer-0", 56, &[0, 0, 0, 0]);
}

/// Streams of versions 4 and 5.
fn objects(add: Add<'_>) {
    let start = || {
        let mut stream = Objects::new();
        stream.metadata(&[simple_type(1)]);
        stream
    };
    let row = |sequence, time| Row::new(5, sequence, 1000 + time);
    for size in [21, 24, 300] {
        let block = v5::event_block(&[row(1, 10)]);
        let body = with_head(&block_head(size, 1, 1010, 1010), &block);
        add(format!("v4-header-{size}"), start().object(v5::EVENTS, &body).end());
    }
    for (padding, counted) in [(false, false), (true, false), (true, true)] {
        let rows = [1, 2, 3, 4, 5].map(|i| row(i, i.into()).payload(&vec![i as u8; i as usize]));
        if !padding {
            // The reference does not skip padding.
            add("v4-plain".into(), start().plain_events(&rows, padding, counted).end());
        }
    }
    add("v4-activities".into(), {
        let mut stream = start();
        let with = |row: Row, a: u8, b: u8| Row { activity: [a; 16], related: [b; 16], ..row };
        stream.events(&[with(row(1, 10), 1, 0), with(row(2, 11), 1, 2), row(3, 12)]);
        stream.events(&[with(row(4, 13), 0, 3)]).end()
    });
    for (name, numbers) in [
        ("from-1", vec![1, 2, 3]),
        ("from-7", vec![7, 8, 12]),
        ("again", vec![1, 2, 9, 1, 2, 1]),
        ("wrap", vec![0x7FFF_FFFF, 0xFFFF_FFFE, u32::MAX, 0, 1, 2]),
        ("back", vec![5, 4, 9]),
    ] {
        let mut stream = start();
        for (i, number) in numbers.into_iter().enumerate() {
            stream.events(&[row(number, i as u64)]);
        }
        add(format!("v4-numbers-{name}"), stream.sequence_point(2000, &[(5, 3), (9, 4)]).end());
    }
    for id in [0, 1, 1 << 31, (1 << 31) - 1, 1 << 40] {
        let row = Row::new(id, 1, 1010);
        add(
            format!("v4-thread-{id}"),
            start().events(&[row]).sequence_point(2000, &[(id, 1)]).end(),
        );
    }
    add("v4-threads-in-a-block".into(), {
        let rows = [row(1, 10), Row::new(6, 1, 1011).sorted(), row(2, 12).sorted()];
        start().events(&rows).end()
    });
    add("v4-points".into(), {
        let mut stream = start();
        stream.sequence_point(5, &[]).sequence_point(6, &[(5, 0), (5, 0)]).events(&[row(1, 10)]);
        stream.sequence_point(1011, &[(5, 1), (77, 0)]).events(&[row(2, 12)]).end()
    });
    add("v4-tail".into(), [&start().events(&[row(1, 10)]).end()[..], &[1, 2, 3]].concat());
    let described: [(&str, Vec<u8>, &[u8]); 5] = [
        ("none", Vec::new(), &[]),
        ("v1", fields(&[("a", code(&[6])), ("b", code(&[18]))]), &[1, b'x', 0, 0, 0]),
        ("object", fields(&[("o", [code(&[1]), fields(&[("x", code(&[6]))])].concat())]), &[9]),
        (
            "v2",
            [&[0; 4][..], &tag(2, &tagged_fields(&[("l", code(&[19, 6]))]))].concat(),
            &[2, 0, 7, 8],
        ),
        ("tags", [&[0; 4][..], &tag(200, b"?"), &tag(1, &[9]), &tag(3, &[])].concat(), &[]),
    ];
    for (name, description, payload) in described {
        let mut stream = Objects::new();
        stream.metadata(&[event_type(1, 1, "Odd", &description)]);
        add(format!("v5-type-{name}"), stream.events(&[row(1, 10).payload(payload)]).end());
    }
    add("v5-short-payload".into(), {
        let mut stream = Objects::new();
        stream.metadata(&[event_type(
            1,
            1,
            "E",
            &fields(&[("a", code(&[9])), ("b", code(&[18]))]),
        )]);
        let payloads = [vec![], vec![1, 0, 0, 0], [&[1, 0, 0, 0][..], &utf16z("x")].concat()];
        for (payload, i) in payloads.iter().zip(1..) {
            stream.events(&[row(i, i.into()).payload(payload)]);
        }
        stream.end()
    });
}
