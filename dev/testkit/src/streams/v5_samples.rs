//! Sound streams of versions 4 and 5 that the reference reader reads too.

use super::{
    Row, utf16z,
    v5::{Objects, code, event_type, fields, object, simple_type, tag, tagged_fields},
};

/// All these streams, by name.
pub fn all() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("v4-empty", Objects::new().end()),
        ("v4-scalars", scalars()),
        ("v4-activities", activities()),
        ("v4-plain", plain()),
        ("v4-order", order()),
        ("v4-losses", losses()),
        ("v4-stacks", stacks()),
        ("v5-tags", tags()),
        ("v5-arrays", arrays()),
    ]
}

/// Every type of version 4 and an object in an object. Also event types without a description of
/// their fields, without a name, and with neither name nor id.
pub fn scalars() -> Vec<u8> {
    let scalar = |number: u32| code(&[number]);
    let point = object(&fields(&[("x", scalar(9)), ("y", scalar(18))]));
    let outer = object(&fields(&[("point", point), ("b", scalar(6))]));
    let all = fields(&[
        ("bool", scalar(3)),
        ("char", scalar(4)),
        ("i8", scalar(5)),
        ("u8", scalar(6)),
        ("i16", scalar(7)),
        ("u16", scalar(8)),
        ("i32", scalar(9)),
        ("u32", scalar(10)),
        ("i64", scalar(11)),
        ("u64", scalar(12)),
        ("f32", scalar(13)),
        ("f64", scalar(14)),
        ("time", scalar(16)),
        ("guid", scalar(17)),
        ("text", scalar(18)),
        ("outer", outer),
        ("last", scalar(6)),
    ]);
    let mut payload = vec![1, 0, 0, 0, 0x3A, 4, 0xFF, 0xFE, 0, 0x80, 0xFF, 0xFF];
    payload.extend((-2_i32).to_le_bytes());
    payload.extend(4_000_000_000_u32.to_le_bytes());
    payload.extend(i64::MIN.to_le_bytes());
    payload.extend(u64::MAX.to_le_bytes());
    payload.extend(1.5_f32.to_le_bytes());
    payload.extend((-0.1_f64).to_le_bytes());
    payload.extend(134_165_223_610_050_000_u64.to_le_bytes());
    payload.extend(1..=16);
    payload.extend(utf16z("héllo \"мир\""));
    payload.extend(7_i32.to_le_bytes());
    payload.extend(utf16z("y"));
    payload.extend([8, 9]);
    Objects::new()
        .metadata(&[
            event_type(1, 1, "Scalars", &all),
            event_type(2, 2, "Undescribed", &[]),
            event_type(3, 3, "", &[0; 4]),
            event_type(4, 0, "", &[0; 4]),
        ])
        .events(&[
            Row::new(5, 1, 1010).payload(&payload),
            Row::new(5, 2, 1020).metadata(2).payload(&[1, 2, 3]),
            Row::new(5, 3, 1030).metadata(3).payload(&[4]),
            Row::new(5, 4, 1040).metadata(4),
        ])
        .sequence_point(1050, &[(5, 4)])
        .end()
}

const A: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
const B: [u8; 16] = [0xEE; 16];

/// Activity ids that appear, stay the same and disappear. Events about another thread, with and
/// without a processor.
pub fn activities() -> Vec<u8> {
    let row = |sequence, time| Row::new(5, sequence, time);
    Objects::new()
        .metadata(&[event_type(1, 1, "WorkStart", &[0; 4]), simple_type(2)])
        .events(&[
            Row { activity: A, ..row(1, 1010) },
            Row { activity: A, related: B, ..row(2, 1020) },
            Row { activity: A, related: B, ..row(3, 1030) },
            Row { related: B, ..row(4, 1040) },
            row(5, 1050),
            Row { thread: 9, processor: 3, ..row(6, 1060) },
            Row { processor: u32::MAX, ..row(7, 1070) },
            Row { activity: B, ..row(8, 1080).metadata(2) },
        ])
        .end()
}

/// Uncompressed blocks. The reference reader does not skip padding, so there is none.
pub fn plain() -> Vec<u8> {
    let mut stream = Objects::new();
    stream.plain_metadata(&[event_type(1, 1, "E", &fields(&[("n", code(&[9]))]))], false);
    stream.stacks(1, &[&[0x10, 0x20]]);
    stream.plain_events(&plain_rows(), false, false);
    stream.end()
}

/// The rows of [`plain`]. Their payloads have four bytes.
pub fn plain_rows() -> Vec<Row> {
    let row = |sequence, time: u64| Row::new(5, sequence, time).payload(&[time as u8, 0, 0, 0]);
    vec![
        Row { activity: A, ..row(1, 1010).sorted() },
        Row { related: B, stack: 1, ..row(2, 1020) },
        Row { thread: 6, ..row(3, 1030) },
    ]
}

/// Several threads in one block, which only sorted events introduce, with sequence points between.
pub fn order() -> Vec<u8> {
    let mut stream = Objects::new();
    stream.metadata(&[simple_type(1), simple_type(2)]);
    stream.events(&[
        Row::new(5, 1, 1010).sorted(),
        Row::new(5, 2, 1030),
        Row::new(6, 1, 1020).sorted(),
        Row::new(6, 2, 1040),
        Row::new(6, 3, 1040).metadata(2),
    ]);
    stream.events(&[Row::new(7, 1, 1035)]);
    stream.events(&[Row::new(5, 3, 1033)]);
    stream.events(&[Row::new(6, 4, 1045)]);
    stream.events(&[Row::new(7, 2, 1036).sorted(), Row::new(7, 3, 1060)]);
    stream.sequence_point(1070, &[(5, 3), (6, 4), (7, 3)]);
    stream.events(&[Row::new(8, 1, 1080)]).events(&[Row::new(5, 4, 1080)]);
    stream.events(&[Row::new(7, 4, 1075)]);
    stream.end()
}

/// Sequence numbers with gaps: within a block, between blocks, and before a sequence point. Also
/// threads that first appear in the middle of the trace, in a sequence point, or as the thread that
/// an event is about.
pub fn losses() -> Vec<u8> {
    let mut stream = Objects::new();
    stream.metadata(&[simple_type(1)]);
    stream.events(&[Row::new(5, 1, 1010), Row::new(5, 4, 1011)]);
    stream.events(&[Row::new(5, 14, 1012)]);
    stream.events(&[Row { thread: 9, ..Row::new(6, 100, 1013) }]);
    stream.sequence_point(1020, &[(5, 19), (6, 120), (7, 30), (8, 0)]);
    stream.events(&[Row::new(7, 35, 1030)]);
    // After number 0 the reference counts no losses.
    stream.events(&[Row::new(8, 3, 1040)]);
    stream.events(&[Row::new(9, 50, 1050)]);
    stream.end()
}

/// The losses in [`losses`]: every number from 1 on that no event has.
pub const LOST: u64 = 2 + 9 + 5 + 99 + 20 + 30 + 4 + 2 + 49;

/// The same losses as the reference counts them.
pub const LOST_BY_REFERENCE: u64 = 2 + 9 + 5 + 20 + 4;

/// Stacks, one of them without frames. They are defined anew after a sequence point.
pub fn stacks() -> Vec<u8> {
    let mut stream = Objects::new();
    stream.metadata(&[simple_type(1)]);
    stream.stacks(1, &[&[], &[0x1234, 0xFFFF_8000_0000_0001]]);
    stream.events(&[
        Row { stack: 1, ..Row::new(5, 1, 1010) },
        Row { stack: 2, ..Row::new(5, 2, 1020) },
        Row::new(5, 3, 1030),
    ]);
    stream.sequence_point(1040, &[(5, 3)]);
    stream.stacks(1, &[&[0x42]]);
    stream.events(&[Row { stack: 1, ..Row::new(5, 4, 1050) }]);
    stream.end()
}

/// Opcodes, unknown tags, and a tag for fields without any fields.
pub fn tags() -> Vec<u8> {
    let n = fields(&[("n", code(&[9]))]);
    let with = |fields: &[u8], tags: &[Vec<u8>]| [fields, &tags.concat()].concat();
    let none = tagged_fields(&[]);
    let mut stream = Objects::new();
    stream.metadata(&[
        event_type(1, 1, "WorkStart", &with(&[0; 4], &[tag(1, &[0])])),
        event_type(2, 2, "WorkStart", &with(&[0; 4], &[tag(1, &[2])])),
        event_type(3, 3, "Work", &with(&n, &[tag(9, b"future"), tag(1, &[24])])),
        event_type(4, 4, "WorkStop", &[0; 4]),
        event_type(5, 5, "Odd", &with(&[0; 4], &[tag(2, &none), tag(1, &[5])])),
    ]);
    let rows: Vec<_> = (1..=5)
        .map(|i| {
            let payload = if i == 3 { &[7, 0, 0, 0][..] } else { &[] };
            Row::new(5, i, 1000 + u64::from(i)).metadata(i).payload(payload)
        })
        .collect();
    stream.events(&rows);
    stream.end()
}

/// The types that version 5 adds: arrays of numbers, characters and objects, alone and in objects.
pub fn arrays() -> Vec<u8> {
    let pair = object(&tagged_fields(&[("a", code(&[6])), ("b", code(&[18]))]));
    let nested = object(&tagged_fields(&[("list", code(&[19, 8])), ("c", code(&[5]))]));
    let described = tagged_fields(&[
        ("ints", code(&[19, 9])),
        ("bytes", code(&[19, 6])),
        ("text", code(&[19, 4])),
        ("pairs", [code(&[19]), pair].concat()),
        ("nested", nested),
        ("guids", code(&[19, 17])),
        ("none", code(&[19, 14])),
        ("last", code(&[18])),
    ]);
    let mut payload = vec![2, 0, 5, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];
    payload.extend([3, 0, 1, 2, 255]);
    payload.extend([2, 0, 0x3A, 4, b'z', 0]);
    payload.extend([2, 0, 7]);
    payload.extend(utf16z("x"));
    payload.push(8);
    payload.extend(utf16z("ÿ"));
    payload.extend([2, 0, 1, 0, 2, 0, 0xFE]);
    payload.extend([1, 0]);
    payload.extend(A);
    payload.extend([0, 0]);
    payload.extend(utf16z("end"));
    let fields = [&[0; 4][..], &tag(2, &described)].concat();
    Objects::new()
        .metadata(&[event_type(1, 1, "Arrays", &fields)])
        .events(&[Row::new(5, 1, 1010).payload(&payload).sorted()])
        .end()
}
