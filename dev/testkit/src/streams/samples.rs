//! Handmade streams, each with a purpose. All are sound, so `verify` reports nothing.

use super::{EventType, Row, Stream, fields_of, string, utf16z, varint, varuint};

/// All samples by name.
pub fn all() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("empty", Stream::new().end()),
        ("scalars", scalars()),
        ("arrays", arrays()),
        ("labels", labels()),
        ("names", names()),
        ("overrides", overrides()),
        ("durations", durations()),
        ("dates", dates()),
        ("messages", messages()),
        ("order", order()),
        ("ties", ties()),
        ("losses", losses()),
        ("flushes", flushes()),
        ("plain", plain()),
        ("floats", floats()),
        ("text", text()),
        ("threads", threads()),
        ("times", times()),
    ]
}

/// All types of fixed size and the variable-length numbers, with their extreme values.
pub fn scalars() -> Vec<u8> {
    let codes: [(&str, u8, usize); 17] = [
        ("bool", 3, 4),
        ("char", 4, 2),
        ("i8", 5, 1),
        ("u8", 6, 1),
        ("i16", 7, 2),
        ("u16", 8, 2),
        ("i32", 9, 4),
        ("u32", 10, 4),
        ("i64", 11, 8),
        ("u64", 12, 8),
        ("f32", 13, 4),
        ("f64", 14, 8),
        ("guid", 17, 16),
        ("bool8", 26, 1),
        ("i8 again", 5, 1),
        ("u8", 6, 1), // a name twice
        ("last", 6, 1),
    ];
    let mut event = EventType::new(1, "Test-Types", 1, "Scalars");
    for (name, code, _) in codes {
        event = event.field(name, &[code]);
    }
    event = event.field("varint", &[20]).field("varuint", &[21]).field("text", &[18]);
    let payload = |byte: u8| {
        let mut out = Vec::new();
        for (name, code, size) in codes {
            match (name, code) {
                ("bool" | "bool8", _) => {
                    out.push(byte & 1);
                    out.extend(vec![0; size - 1]);
                }
                ("char", _) => out.extend(if byte == 0 { *b"A\0" } else { [0x3A, 0x04] }),
                ("guid", _) => out.extend((byte..byte + 16).collect::<Vec<_>>()),
                _ => out.extend((0..size).map(|i| byte.wrapping_mul(i as u8 | 1))),
            }
        }
        varint(&mut out, -i64::from(byte) << 30);
        varuint(&mut out, u64::from(byte) << 56);
        out.extend(utf16z(if byte == 0 {
            ""
        } else {
            "текст \"\u{1F4A1}\" é\\\n\u{7f}\u{85}\u{2028}<&'+/"
        }));
        out
    };
    let rows: Vec<_> = [0, 1, 0x7F, 0x80, 0xC3]
        .iter()
        .zip(1..)
        .map(|(byte, i)| Row::new(5, i, 1000 + u64::from(i) * 77).payload(&payload(*byte)))
        .collect();
    Stream::new().thread(5).metadata(&event).events(&rows).end()
}

/// Objects and all kinds of arrays.
pub fn arrays() -> Vec<u8> {
    let point = [vec![1], fields_of(&[("x", vec![9]), ("y", vec![18])])].concat();
    let pair = [vec![1], fields_of(&[("a", vec![6]), ("b", vec![8])])].concat();
    let event = EventType::new(1, "Test-Types", 2, "Arrays")
        .field("object", &point)
        .field("i32s", &[19, 9])
        .field("bytes", &[19, 6])
        .field("strings", &[19, 18])
        .field("objects", &[vec![19], point].concat())
        .field("utf16", &[19, 4])
        .field("utf8", &[19, 23])
        .field("fixed", &[22, 8, 3, 0])
        .field("fixed utf16", &[22, 4, 2, 0])
        .field("varints", &[19, 20])
        .field("bools", &[19, 3])
        .field("f64s", &[19, 14])
        .field("guids", &[19, 17])
        .field("rel", &[24, 9])
        .field("data", &[25, 8])
        .field("rel text", &[24, 4])
        .field("pairs", &[vec![25], pair].concat())
        .field("tail", &[10]);
    let mut payload = Vec::new();
    let point = |out: &mut Vec<u8>, x: i32, y| {
        out.extend(x.to_le_bytes());
        out.extend(utf16z(y));
    };
    point(&mut payload, -1, "one");
    payload.extend([2, 0, 5, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
    payload.extend([3, 0, 1, 2, 0xFF]);
    payload.extend([2, 0]);
    payload.extend(utf16z("a"));
    payload.extend(utf16z(""));
    payload.extend([2, 0]);
    point(&mut payload, 7, "x");
    point(&mut payload, 8, "ÿ");
    payload.extend([2, 0, 0x3A, 4, b'z', 0]);
    payload.extend([4, 0, b'u', b't', b'f', b'8']);
    payload.extend([1, 0, 2, 0, 3, 0]);
    payload.extend([b'h', 0, b'i', 0]);
    payload.extend([3, 0, 0, 1, 0x80, 1]);
    payload.extend([2, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    payload.extend([1, 0]);
    payload.extend(1.5_f64.to_le_bytes());
    payload.extend([1, 0]);
    payload.extend(1..=16);
    // Four locations of four bytes each precede the tail and the data.
    let data = payload.len() + 20;
    let relative = |at: usize, field: usize| (at - (payload.len() + 4 * field + 4)) as u16;
    let locations = [
        (relative(data, 0), 8_u16),
        (data as u16 + 8, 4),
        (relative(data + 12, 2), 6),
        (data as u16 + 18, 6),
    ];
    for (position, size) in locations {
        payload.extend(position.to_le_bytes());
        payload.extend(size.to_le_bytes());
    }
    payload.extend(0xDEAD_BEEF_u32.to_le_bytes());
    payload.extend([1, 0, 0, 0, 0xFE, 0xFF, 0xFF, 0xFF]);
    payload.extend([9, 0, 10, 0]);
    payload.extend([b'r', 0, b'e', 0, b'l', 0]);
    payload.extend([1, 2, 0, 3, 4, 0]);
    let empty = EventType::new(2, "Test-Types", 3, "EmptyArrays")
        .field("i32s", &[19, 9])
        .field("bytes", &[19, 6])
        .field("utf16", &[19, 4])
        .field("rel", &[24, 4])
        .field("n", &[6]);
    Stream::new()
        .thread(5)
        .metadata(&event)
        .metadata(&empty)
        .events(&[
            Row::new(5, 1, 2000).payload(&payload),
            Row::new(5, 2, 2001).metadata(2).payload(&[0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 8]),
        ])
        .end()
}

/// Every kind of label, and the effects of labels that override.
pub fn labels() -> Vec<u8> {
    let text = |kind, key: &str, value: &str| {
        let mut label = vec![kind];
        string(&mut label, key);
        string(&mut label, value);
        label
    };
    let number = |key: &str, value| {
        let mut label = vec![6];
        string(&mut label, key);
        varint(&mut label, value);
        label
    };
    let guid = |kind: u8, first: u8| [vec![kind], (first..first + 16).collect()].concat();
    let span = [vec![4], 0x8123_4567_89AB_CDEF_u64.to_le_bytes().to_vec()].concat();
    let keywords = [vec![8], 0xF000_0000_0000_0001_u64.to_le_bytes().to_vec()].concat();
    let everything = [
        guid(1, 1),
        guid(2, 0x21),
        guid(3, 0x41),
        span,
        text(5, "user", "zoë"),
        number("attempt", -3),
        vec![7, 1],
        keywords,
        vec![9, 2],
        vec![10, 6],
    ];
    let twice = [text(5, "k", "1"), text(5, "k", "2"), vec![9, 1], vec![9, 3]];
    let event = EventType::new(1, "Test", 1, "Labelled").optional(&[8, 5, 9, 2, 1, 11]);
    let row =
        |sequence: u32, labels| Row::new(5, sequence, 1000 + u64::from(sequence)).labels(labels);
    Stream::new()
        .thread(5)
        .metadata(&event)
        .label_lists(1, &[&everything, &twice, &[vec![7, 0]], &[guid(1, 9)]])
        .events(&[row(1, 1), row(2, 0), row(3, 2), row(4, 3), row(5, 4), row(6, 1)])
        .end()
}

/// Names and opcodes, which readers combine.
pub fn names() -> Vec<u8> {
    let mut stream = Stream::new();
    stream.thread(5);
    let mut rows = Vec::new();
    let names = ["Plain", "WorkStart", "WorkSTOP", "Start", "Stop", ""];
    let opcodes = [
        None,
        Some(0),
        Some(1),
        Some(2),
        Some(3),
        Some(6),
        Some(9),
        Some(10),
        Some(24),
        Some(240),
        Some(255),
    ];
    let mut id = 0;
    for name in names {
        for opcode in opcodes {
            id += 1;
            let mut event = EventType::new(id, "Test-Names", id, name);
            if let Some(opcode) = opcode {
                event = event.optional(&[1, opcode]);
            }
            stream.metadata(&event);
            rows.push(Row::new(5, id as u32, 1000 + id).metadata(id as u32));
        }
    }
    id += 1;
    stream.metadata(&EventType::new(id, "", 1, "NoProvider"));
    rows.push(Row::new(5, id as u32, 1000 + id).metadata(id as u32));
    id += 1;
    let guid = [vec![7], (1..=16).collect()].concat();
    stream.metadata(&EventType::new(id, "Guid", 70_000 & 0xFFFF, "Given").optional(&guid));
    rows.push(Row::new(5, id as u32, 1000 + id).metadata(id as u32));
    stream.events(&rows).end()
}

/// Opcodes from labels, which override those of event types.
pub fn overrides() -> Vec<u8> {
    let opcodes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 24, 240, 255];
    let lists: Vec<[Vec<u8>; 1]> = opcodes.iter().map(|opcode| [vec![7, *opcode]]).collect();
    let lists: Vec<&[Vec<u8>]> = lists.iter().map(|list| &list[..]).collect();
    let types = [("A", None), ("B", Some(9)), ("WorkStart", None), ("", None), ("C", Some(11))];
    let mut stream = Stream::new();
    stream.thread(5).label_lists(1, &lists);
    let mut rows = Vec::new();
    for (i, (name, opcode)) in types.iter().enumerate() {
        let id = i as u32 + 1;
        let mut event = EventType::new(id.into(), "Test-Overrides", id.into(), name);
        if let Some(opcode) = opcode {
            event = event.optional(&[1, *opcode]);
        }
        stream.metadata(&event);
        for labels in 0..=lists.len() as u32 {
            let sequence = rows.len() as u32 + 1;
            rows.push(Row::new(5, sequence, 2000).metadata(id).labels(labels));
        }
    }
    stream.events(&rows).end()
}

/// Dates of eight bytes, alone and in an array.
pub fn dates() -> Vec<u8> {
    let event = EventType::new(1, "Test", 1, "Dates").field("t", &[16]).field("all", &[19, 16]);
    let mut payload = 133_536_044_967_891_234_u64.to_le_bytes().to_vec();
    payload.extend([2, 0]);
    payload.extend(1_u64.to_le_bytes());
    payload.extend(2_650_467_743_999_999_999_u64.to_le_bytes());
    Stream::new().thread(5).metadata(&event).events(&[Row::new(5, 1, 1000).payload(&payload)]).end()
}

/// A stream with a thread and a type. Its tick is a nanosecond, and it begins at that date at tick
/// 5,000.
fn in_nanoseconds(date: [u16; 8]) -> Stream {
    let mut body = Vec::new();
    for part in date {
        body.extend(part.to_le_bytes());
    }
    body.extend(5_000_u64.to_le_bytes());
    body.extend(1_000_000_000_u64.to_le_bytes());
    body.extend(8_u32.to_le_bytes());
    body.extend(0_u32.to_le_bytes());
    let mut stream = Stream::bare();
    stream.block(super::TRACE, &body).thread(5).simple_metadata(1);
    stream
}

/// The last event is not at a multiple of 100 ns.
pub fn durations() -> Vec<u8> {
    let mut stream = in_nanoseconds([2026, 2, 6, 28, 0, 0, 0, 0]);
    stream.events(&[Row::new(5, 1, 36_299)]).end()
}

/// Message templates and the rest of the optional metadata.
pub fn messages() -> Vec<u8> {
    let event = |id, template: &str| {
        EventType::new(id, "Test", id, &format!("Message{id}"))
            .optional_text(4, &[template])
            .optional_text(5, &["what it is for"])
            .optional_text(6, &["key", "value"])
            .optional(&[3, 1, 0, 0, 0, 0, 0, 0, 0x80])
            .field("n", &[9])
            .field("text", &[18])
            .field("f", &[14])
    };
    let payload = [&[42, 0, 0, 0][..], &utf16z("hällo"), &0.1_f64.to_le_bytes()].concat();
    Stream::new()
        .thread(5)
        .metadata(&event(1, "n is {n}, text is {text}, f is {f:x}"))
        .metadata(&event(2, "n is %1, text is %2 %3 %4"))
        .metadata(&event(3, "nothing"))
        .metadata(&event(4, ""))
        .events(
            &(1..5).map(|i| Row::new(5, i, 1000).metadata(i).payload(&payload)).collect::<Vec<_>>(),
        )
        .end()
}

/// Three threads whose events are out of order. Sorted events, a sequence point and the end release
/// them.
pub fn order() -> Vec<u8> {
    let mut stream = Stream::new();
    for thread in [5, 6, 7] {
        stream.thread(thread);
    }
    stream
        .simple_metadata(1)
        .events(&[Row::new(5, 1, 1010).sorted(), Row::new(5, 2, 1040), Row::new(5, 3, 1090)])
        .events(&[Row::new(6, 1, 1020), Row::new(6, 2, 1035), Row::new(6, 3, 1095)])
        .events(&[Row::new(7, 1, 1015), Row::new(7, 2, 1037)])
        .events(&[Row::new(7, 3, 1085).sorted(), Row::new(7, 4, 1086), Row::new(7, 5, 1120)])
        .events(&[Row::new(6, 4, 1100), Row::new(6, 5, 1101)])
        .sequence_point(1200, 0, &[(5, 3), (6, 5), (7, 5)])
        .events(&[Row::new(6, 6, 1300), Row::new(6, 7, 1310)])
        .events(&[Row::new(5, 4, 1290), Row::new(5, 5, 1305)])
        .end()
}

/// Equal timestamps on many threads. Threads run out of events and come back.
pub fn ties() -> Vec<u8> {
    let mut stream = Stream::new();
    let threads = [9, 3, 12, 5, 31, 7, 8, 22, 16];
    let mut sequences = [0_u32; 32];
    for thread in threads {
        stream.thread(thread);
    }
    stream.simple_metadata(1);
    let mut random = 12345_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % below
    };
    let mut time = 1000;
    for round in 0..60 {
        for (i, thread) in threads.iter().enumerate() {
            let mut at = time;
            let mut rows = Vec::new();
            for event in 0..next(5) {
                let sequence = &mut sequences[*thread as usize];
                *sequence += 1;
                let row = Row::new(*thread, *sequence, at);
                rows.push(if i == 0 && event == 0 { row.sorted() } else { row });
                at = (at + next(3)).min(time + 4);
            }
            if !rows.is_empty() {
                stream.events(&rows);
            }
        }
        time += 3 + next(3);
        if round % 20 == 19 {
            time += 10;
            stream.sequence_point(time - 1, 0, &[]);
        } else {
            time += 2;
        }
    }
    stream.end()
}

/// Gaps between events, at a sequence point and at a removal, also where numbers wrap.
pub fn losses() -> Vec<u8> {
    Stream::new()
        .thread(5)
        .thread(6)
        .thread(7)
        .simple_metadata(1)
        .events(&[Row::new(5, 3, 1010), Row::new(5, 4, 1011), Row::new(5, 14, 1012)])
        .sequence_point(1100, 0, &[(5, 20), (6, 100), (7, 0)])
        .events(&[Row::new(5, 21, 1110), Row::new(5, 0x7000_0000, 1111)])
        .events(&[Row::new(6, 101, 1112)])
        .remove_thread(6, 111)
        .events(&[Row::new(5, 0xDFFF_FFFF, 1113), Row::new(5, 0xFFFF_FFFF, 1114)])
        .events(&[Row::new(5, 0, 1115), Row::new(5, 1, 1116), Row::new(5, 4, 1117)])
        .remove_thread(7, 0)
        .end()
}

/// Definitions that are flushed and made again, unknown blocks, and bytes after the end.
pub fn flushes() -> Vec<u8> {
    let mut stream = Stream::new();
    stream
        .thread(5)
        .simple_metadata(1)
        .stacks(1, &[&[0x1234, 0xFFFF_8000_0000_0001], &[]])
        .label_lists(1, &[&[vec![9, 3]]])
        .events(&[Row { stack: 1, ..Row::new(5, 1, 1010) }.labels(1)])
        .block(99, &[1, 2, 3])
        .sequence_point(1020, 0, &[(5, 1)])
        .stacks(1, &[&[0x42]])
        .label_lists(1, &[&[vec![9, 1]]])
        .events(&[Row { stack: 1, ..Row::new(5, 2, 1030) }.labels(1), Row::new(5, 3, 1031)])
        .sequence_point(1040, 3, &[(5, 3)])
        .thread(5)
        .metadata(&EventType::new(1, "Other", 4, "Anew").field("n", &[6]))
        .events(&[Row::new(5, 1, 1050).payload(&[7])])
        .sequence_point(1060, 2, &[(5, 1)])
        .block(200, &[]);
    let mut bytes = stream.end();
    bytes.extend(b"what is behind the end does not matter");
    bytes
}

/// Uncompressed rows.
pub fn plain() -> Vec<u8> {
    let rows = [
        Row::new(5, 1, 1010).sorted(),
        Row { thread: 6, ..Row::new(5, 2, 1020) },
        Row { processor: u32::MAX, ..Row::new(5, 3, 1030) },
    ];
    Stream::new()
        .thread(5)
        .thread(6)
        .simple_metadata(1)
        .block(super::EVENT, &super::plain_event_block(&rows))
        .end()
}

/// Numbers whose text form is hard to get right.
pub fn floats() -> Vec<u8> {
    let doubles = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        0.1,
        1e15,
        1e16,
        1e17,
        123_456_789_012_345_680.0,
        1.5e300,
        5e-324,
        f64::MAX,
        f64::MIN_POSITIVE,
        1e-4,
        1e-5,
        1.234e-5,
        0.000_123,
        9_007_199_254_740_993.0,
        1e21,
        1e22,
        1e23,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        100.0,
        1e14,
        999_999_999_999_999.9,
        1e7,
        1e8,
        123_456_789.0,
        1e9,
        1_234_567_890.0,
    ];
    let event = EventType::new(1, "Test", 1, "Floats").field("d", &[14]).field("s", &[13]);
    let rows: Vec<_> = doubles
        .iter()
        .zip(1..)
        .map(|(double, i)| {
            let payload = [double.to_le_bytes().to_vec(), (*double as f32).to_le_bytes().to_vec()];
            Row::new(5, i, 1000 + u64::from(i)).payload(&payload.concat())
        })
        .collect();
    Stream::new().thread(5).metadata(&event).events(&rows).end()
}

/// Text of all kinds: every character below U+0100, and invalid text.
pub fn text() -> Vec<u8> {
    let event = EventType::new(1, "Tést \"x\"", 1, "Tëxt").field("tèxt", &[18]).field("n", &[6]);
    let all: String = (1..0x100_u32).filter_map(char::from_u32).collect();
    let broken = [[0x41, 0xD8], [0x42, 0x00], [0x00, 0xDC], [0, 0]].concat();
    let wide = "\u{FFFD}\u{FEFF}\u{E000}\u{FFFE}\u{FFFF}\u{10FFFF}\u{2029}\u{200B}\u{AD}\u{0300}";
    let rows = [
        [utf16z(&all), vec![1]].concat(),
        [broken, vec![2]].concat(),
        [utf16z(wide), vec![3]].concat(),
    ];
    let rows: Vec<_> =
        rows.iter().zip(1..).map(|(payload, i)| Row::new(5, i, 1000).payload(payload)).collect();
    Stream::with_keys(&[("ProcessId", "12"), ("ключ", "значение")])
        .thread(5)
        .metadata(&event)
        .events(&rows)
        .end()
}

/// Threads with little and much information, events about other threads, and processors.
pub fn threads() -> Vec<u8> {
    let mut full = vec![6];
    full.push(1);
    string(&mut full, "nämed");
    full.push(2);
    varuint(&mut full, 4_000_000_000);
    full.push(3);
    varuint(&mut full, 5_000_000_000);
    full.push(4);
    string(&mut full, "role");
    string(&mut full, "worker");
    let mut tid_only = vec![8, 3];
    varuint(&mut tid_only, 808);
    let processor = |row: Row, processor| Row { processor, ..row };
    Stream::with_keys(&[])
        .thread_row(&[5])
        .thread_row(&full)
        .thread_row(&tid_only)
        .simple_metadata(1)
        .simple_metadata(2)
        .events(&[
            processor(Row::new(5, 1, 1001), u32::MAX),
            processor(Row::new(5, 2, 1002), 3),
            processor(Row::new(5, 3, 1003), u32::MAX),
            processor(Row::new(5, 4, 1004), u32::MAX).metadata(2),
            processor(Row::new(5, 5, 1005), 257).metadata(2),
            Row { thread: 6, ..processor(Row::new(5, 6, 1006), 9) },
            Row { thread: 8, ..processor(Row::new(5, 7, 1007), 9) },
        ])
        .events(&[Row::new(6, 1, 1008)])
        .events(&[Row::new(8, 1, 1009)])
        .end()
}

/// Times halfway between two decimals of a millisecond, and a time before the start.
pub fn times() -> Vec<u8> {
    let mut stream = in_nanoseconds([2026, 12, 0, 31, 23, 59, 59, 999]);
    let times = [
        5_000,
        5_049,
        5_050,
        5_051,
        5_150,
        5_250,
        36_250,
        98_750,
        411_250,
        1_005_050,
        1_036_250,
        3_000_000_000_005_050,
        9_000_000_000_000_000_000,
    ];
    let rows: Vec<_> = times.iter().zip(1..).map(|(time, i)| Row::new(5, i, *time)).collect();
    stream.events(&rows).end()
}

/// An event that is older than the start of the trace. No writer should do that.
pub fn early() -> Vec<u8> {
    let mut stream = Stream::at(1_000_000);
    stream
        .thread(5)
        .simple_metadata(1)
        .events(&[Row::new(5, 1, 1), Row::new(5, 2, 1_000_000)])
        .end()
}
