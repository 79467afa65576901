//! Versions 4 and 5, byte for byte.

use nettrace_event::{
    ArrayLayout as Layout, EventSchema, FieldSchema, FieldType as Type, Level, ProviderSchema,
    StrEncoding as Text,
};
use nettrace_format::{
    content::RowHeader,
    v5::{self, Row, RowEncoder, Stream, Version},
};

use crate::support::{bytes, field, older_info, schema, stream_at};

const BOTH: [Version; 2] = [Version::V4, Version::V5];

#[track_caller]
fn check(expected: &str, write: impl FnOnce(&mut Vec<u8>)) {
    let mut out = vec![0xEE];
    write(&mut out);
    assert_eq!(out[1..], bytes(expected), "wrote {:02x?}", &out[1..]);
    assert_eq!(out[0], 0xEE);
}

#[test]
fn trace_object() {
    for version in BOTH {
        let mut stream = Stream::new(version);
        check(
            "\"Nettrace\" 14000000 \"!FastSerialization.1\"
             05 05 01 04000000 04000000 05000000 \"Trace\" 06
             e807 0200 0400 1d00 0c00 2200 3800 1503
             0201000000000000 e803000000000000 08000000 92100000 02000000 00010000 06",
            |out| stream.begin(&older_info(), 4_242, 2, out).unwrap(),
        );
        assert_eq!(stream.position(), 102);
        // Another stream begins with the same bytes.
        stream.begin(&older_info(), 1, 1, &mut vec![0; 7]).unwrap();
        assert_eq!(stream.position(), 102);
    }
    check("01", |out| out.extend(Stream::END_OF_STREAM));
}

/// A block's content begins at a multiple of 4 of the stream, not of the output.
#[test]
fn padding() {
    let type_object = "05 05 01 02000000 02000000 07000000 \"SPBlock\" 06";
    for (position, padding) in [(400, "00"), (401, ""), (402, "000000"), (403, "0000")] {
        let mut stream = stream_at(Version::V4, position);
        check(&format!("{type_object} 0c000000 {padding} 0200000000000000 00000000 06"), |out| {
            stream.sequence_point(2, &[], out).unwrap()
        });
        let written = bytes(type_object).len() + 4 + padding.len() / 2 + 12 + 1;
        assert_eq!(stream.position(), position + written as u64);
    }
}

#[test]
fn event_block() {
    let mut stream = stream_at(Version::V5, 400);
    let mut tail = [0];
    check(
        "05 05 01 02000000 02000000 0a000000 \"EventBlock\" 06 25000000 0000
         1400 0100 0100000000000000 0201000000000000",
        |out| tail = stream.event_block(1, 0x0102, 17, out).unwrap(),
    );
    assert_eq!(tail, [6]);
    assert_eq!(stream.position(), 400 + 30 + 2 + 20 + 17 + 1);
}

#[test]
fn sequence_point() {
    let mut stream = stream_at(Version::V5, 403);
    check(
        "05 05 01 02000000 02000000 07000000 \"SPBlock\" 06 24000000 0000
         0201000000000000 02000000 0700000000000000 05000000 0000000001000000 ffffffff 06",
        |out| stream.sequence_point(0x0102, &[(7, 5), (1 << 32, u32::MAX)], out).unwrap(),
    );
}

#[test]
fn stack_block() {
    let mut stream = stream_at(Version::V5, 400);
    check(
        "05 05 01 02000000 02000000 0a000000 \"StackBlock\" 06 20000000 0000
         05000000 02000000 10000000 0201000000000000 ffffffffffffffff 00000000 06",
        |out| stream.stack_block(5, &[&[0x0102, u64::MAX], &[]], 8, out).unwrap(),
    );
    let position = stream.position();
    check("", |out| stream.stack_block(1, &[], 8, out).unwrap());
    assert_eq!(stream.position(), position);
}

const FULL: EventSchema = EventSchema {
    provider: ProviderSchema { name: "Prov", guid: Some([1; 16]), group: Some("g") },
    version: 2,
    level: Level::Error,
    keywords: 0x0102,
    opcode: Some(9),
    message: Some("m"),
    description: Some("d"),
    key_values: &[("k", "v")],
    ..schema(300, "E\0v", &[field("a", Type::U32), field("é", Type::VarInt)])
};

const ARRAYS: EventSchema = schema(
    1,
    "A",
    &[field("n", Type::U8), field("l", Type::Array(&Type::Str(Text::Utf16), Layout::Counted))],
);

#[test]
fn metadata_block() {
    let type_object = "05 05 01 02000000 02000000 0d000000 \"MetadataBlock\" 06";
    let header = "1400 0100 0000000000000000 0000000000000000";
    let full = "05000000 'Prov' 2c010000 'E\u{FFFD}v' 0201000000000000 02000000 02000000
                02000000 0a000000 'a' 0b000000 'é'";
    let arrays = "06000000 'Test-Format' 01000000 'A' 0000000000000000 00000000 04000000";
    let types = [(5, &FULL), (6, &ARRAYS)];

    let row = |text: &str| format!("80 00 {:02x} {text}", bytes(text).len());
    let block = |rows: &str| {
        let size = bytes(rows).len() as u32 + 20;
        format!("{type_object} {:08x} 000000 {header} {rows} 06", size.swap_bytes())
    };
    let v4 = format!("{arrays} 02000000 06000000 'n' 12000000 'l'");
    let mut stream = stream_at(Version::V4, 400);
    check(&block(&format!("{} {}", row(full), row(&v4))), |out| {
        stream.metadata(&types, out).unwrap();
    });

    // The opcode's tag: size of its payload, kind, payload. With an array, a tag with the fields
    // follows.
    let v5_full = format!("{full} 01000000 01 09");
    let v5 = format!(
        "{arrays} 00000000 01000000 01 00
         24000000 02 02000000 0c000000 'n' 06000000 14000000 'l' 13000000 13000000 04000000"
    );
    let mut stream = stream_at(Version::V5, 400);
    check(&block(&format!("{} {}", row(&v5_full), row(&v5))), |out| {
        stream.metadata(&types, out).unwrap()
    });
    check("", |out| stream.metadata(&[], out).unwrap());
}

/// Every type in both layouts: that of the list of both versions, and that of version 5's tag.
#[test]
fn types() {
    #[track_caller]
    fn type_of(ty: Type, v4: &str, v5: &str) {
        let fields: &[FieldSchema] =
            vec![field("a", ty), field("z", Type::Array(&Type::U8, Layout::Counted))].leak();
        let schema: &EventSchema =
            Box::leak(Box::new(EventSchema { opcode: None, ..schema(1, "E", fields) }));
        for (version, expected) in [
            (Version::V4, format!("02000000 {v4} 'a' 12000000 'z'")),
            (Version::V5, {
                let size = 4 + 4 + bytes(v5).len();
                let tag =
                    format!("02000000 {size:02x}000000 'a' {v5} 10000000 'z' 13000000 06000000");
                format!("00000000 {:02x}000000 02 {tag}", bytes(&tag).len())
            }),
        ] {
            let mut out = Vec::new();
            let mut stream = Stream::new(version);
            stream.metadata(&[(1, schema)], &mut out).unwrap();
            let expected = bytes(&expected);
            let found = &out[out.len() - 1 - expected.len()..out.len() - 1];
            assert_eq!(found, expected, "{version:?} {ty:?}: wrote {found:02x?}");
        }
    }
    fn same(ty: Type, code: &str) {
        let code = format!("{code}000000");
        type_of(ty, &code, &code);
    }
    const STR: Type = Type::Str(Text::Utf16);
    const BYTES: Type = Type::Array(&Type::U8, Layout::Counted);
    const OBJECT: Type = Type::Object(&[field("b", Type::U16), field("c", STR)]);
    for (ty, code) in [
        (Type::Bool, "03"),
        (Type::Bool8, "03"),
        (Type::Utf16Unit, "04"),
        (Type::I8, "05"),
        (Type::U8, "06"),
        (Type::I16, "07"),
        (Type::U16, "08"),
        (Type::I32, "09"),
        (Type::U32, "0a"),
        (Type::I64, "0b"),
        (Type::VarInt, "0b"),
        (Type::UnixNanos, "0b"),
        (Type::U64, "0c"),
        (Type::VarUInt, "0c"),
        (Type::DurationNanos, "0c"),
        (Type::F32, "0d"),
        (Type::F64, "0e"),
        (Type::DateTime, "10"),
        (Type::Guid, "11"),
        (Type::Str(Text::Utf16Nul), "12"),
    ] {
        same(ty, code);
    }
    for ty in [
        STR,
        Type::Char,
        Type::IpAddr,
        Type::SocketAddr,
        Type::Str(Text::Utf8),
        Type::Str(Text::Utf16RelLoc),
        Type::Str(Text::Utf16DataLoc),
        Type::Str(Text::Utf8RelLoc),
        Type::Str(Text::Utf8DataLoc),
    ] {
        type_of(ty, "12000000", "13000000 04000000");
    }
    for layout in [Layout::Counted, Layout::Fixed(3), Layout::RelLoc, Layout::DataLoc] {
        type_of(Type::Array(&Type::U16, layout), "12000000", "13000000 08000000");
    }
    type_of(Type::Option(&STR), "12000000", "13000000 13000000 04000000");
    type_of(
        Type::Option(&BYTES),
        "12000000",
        "13000000 01000000 01000000 18000000 'value' 13000000 06000000",
    );
    type_of(
        Type::Array(&BYTES, Layout::Counted),
        "12000000",
        "13000000 01000000 01000000 18000000 'items' 13000000 06000000",
    );
    type_of(
        OBJECT,
        "01000000 02000000 08000000 'b' 12000000 'c'",
        "01000000 02000000 0c000000 'b' 08000000 10000000 'c' 13000000 04000000",
    );
    for (ty, high) in [(Type::U128, "0c"), (Type::I128, "0b")] {
        type_of(
            ty,
            &format!("01000000 02000000 0c000000 'low' {high}000000 'high'"),
            &format!("01000000 02000000 10000000 'low' 0c000000 12000000 'high' {high}000000"),
        );
    }
}

/// Without an array, no field is in a tag.
#[test]
fn types_without_arrays() {
    const FIELDS: &[FieldSchema] = &[
        field("o", Type::Object(&[field("b", Type::U128)])),
        field("s", Type::Str(Text::Utf16Nul)),
    ];
    const SCHEMA: EventSchema = EventSchema { opcode: None, ..schema(1, "E", FIELDS) };
    let written = BOTH.map(|version| {
        let mut out = Vec::new();
        Stream::new(version).metadata(&[(1, &SCHEMA)], &mut out).unwrap();
        out
    });
    assert_eq!(written[0], written[1]);
    assert_eq!(BOTH.map(|version| v5::needs_mapping(version, &SCHEMA)), [false; 2]);
}

#[test]
fn compressed_rows() {
    const GUID: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    let guid = "03020100 0504 0706 08090a0b0c0d0e0f";
    let none = "00000000 0000 0000 0000000000000000";
    let first = Row {
        metadata_id: 300,
        sequence: 1,
        capture_thread: 200,
        processor: 3,
        thread: 200,
        timestamp: 1_000,
        sorted: true,
        payload_len: 16,
        ..Row::default()
    };
    let mut encoder = RowEncoder::new();
    check("c7 ac02 00 c801 03 c801 e807 10", |out| encoder.full_row(&first, out));
    let second = Row { sequence: 2, timestamp: 1_005, sorted: false, ..first };
    check("00 05", |out| encoder.row(&second, out));
    let third = Row { sequence: 5, stack: 7, activity: Some(GUID), payload_len: 0, ..second };
    check(&format!("9a 02 c801 03 07 00 {guid} 00"), |out| encoder.row(&third, out));
    let fourth = Row { sequence: 6, related: Some(GUID), thread: 1, metadata_id: 1, ..third };
    check(&format!("25 01 01 00 {guid}"), |out| encoder.row(&fourth, out));
    let fifth = Row { sequence: 7, activity: None, ..fourth };
    check(&format!("10 00 {none}"), |out| encoder.row(&fifth, out));
    // No activity is written like an activity of zeros.
    let sixth = Row { sequence: 8, activity: Some([0; 16]), related: None, ..fifth };
    check(&format!("20 00 {none}"), |out| encoder.row(&sixth, out));
    let full = Row { sequence: 9, ..sixth };
    check("83 01 00 c801 03 00 00", |out| encoder.full_row(&full, out));
    // The sequence number wraps; all values have their largest size.
    let widest = Row {
        metadata_id: u32::MAX,
        sequence: 5,
        capture_thread: u64::MAX,
        processor: u32::MAX,
        thread: u64::MAX,
        stack: u32::MAX,
        timestamp: 999,
        activity: Some(GUID),
        related: Some(GUID),
        sorted: true,
        payload_len: 1,
    };
    let (word, long) = ("ffffffff0f", "ffffffffffffffffff01");
    check(
        &format!(
            "ff {word} fbffffff0f {long} {word} {long} {word} faffffffffffffffff01 {guid} {guid} 01"
        ),
        |out| encoder.row(&widest, out),
    );
    let header = RowHeader {
        metadata_id: 1,
        sequence: 2,
        capture_thread: 3,
        processor: 4,
        thread: 5,
        stack: 6,
        timestamp: 7,
        labels: 8,
        sorted: true,
        payload_len: 9,
    };
    let same = Row {
        metadata_id: 1,
        sequence: 2,
        capture_thread: 3,
        processor: 4,
        thread: 5,
        stack: 6,
        timestamp: 7,
        activity: None,
        related: None,
        sorted: true,
        payload_len: 9,
    };
    assert_eq!(Row::from(header), same);
}
