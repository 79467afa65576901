//! Compares every structure with the specification, byte for byte.

use nettrace_event::{
    ArrayLayout as Layout, EventSchema, FieldSchema, FieldType as Type, Level, PayloadEncoder as _,
    Place, ProviderSchema, StrEncoding as Text,
};
use nettrace_format::{
    FormatError,
    content::{Label, RowHeader, SystemTimeParts, ThreadInfo, TraceInfo},
    payload::{NetTraceEncoder, Refusal, VecBuffer},
    types,
    v6::{self, BlockKind, RowEncoder, SequencePointFlags, ThreadSequence},
};

use crate::support::{encode, field, raw_block, schema};

/// Compares what `write` appends with the bytes given in hexadecimal, text in quotes; white space
/// is ignored. Also checks that the earlier content of the output is unchanged.
#[track_caller]
fn check(expected: &str, write: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = vec![0xEE];
    for (index, part) in expected.split('"').enumerate() {
        if index % 2 == 1 {
            bytes.extend_from_slice(part.as_bytes());
            continue;
        }
        let digits: Vec<u32> = part.chars().filter_map(|c| c.to_digit(16)).collect();
        bytes.extend(digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8));
    }
    let mut out = vec![0xEE];
    write(&mut out);
    assert_eq!(out, bytes, "wrote {out:02x?}");
}

#[track_caller]
fn check_payload(expected: &str, values: impl FnOnce(&mut NetTraceEncoder<VecBuffer>)) {
    check(expected, |out| out.extend(encode(values).unwrap()));
}

const GUID: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const GUID_BYTES: &str = "03020100 0504 0706 08090a0b0c0d0e0f";

#[test]
fn stream_header() {
    check("\"Nettrace\" 00000000 06000000 00000000", v6::stream_header);
}

#[test]
fn trace_block() {
    let info = TraceInfo {
        sync_utc: SystemTimeParts::from_unix_millis(1_709_210_096_789),
        sync_ticks: 0x0102,
        ticks_per_second: 1_000,
        pointer_size: 8,
        key_values: &[("ProcessId", "1"), ("ä", "")],
    };
    check(
        "38000001
         e807 0200 0400 1d00 0c00 2200 3800 1503
         0201000000000000 e803000000000000 08000000
         02000000 09 \"ProcessId\" 01 \"1\" 02 c3a4 00",
        |out| v6::trace_block(&info, out).unwrap(),
    );
}

#[test]
fn event_block() {
    let header = v6::event_block_header(1, 0x0102, true, 0x10).unwrap();
    check("24000002 1400 0100 0100000000000000 0201000000000000", |out| out.extend(header));
    let header = v6::event_block_header(0, 0, false, 1).unwrap();
    check("15000002 1400 0000 0000000000000000 0000000000000000", |out| out.extend(header));
}

const FIRST: RowHeader = RowHeader {
    metadata_id: 300,
    sequence: 1,
    capture_thread: 200,
    processor: 3,
    thread: 200,
    stack: 0,
    timestamp: 1_000,
    labels: 0,
    sorted: true,
    payload_len: 16,
};

#[test]
fn compressed_rows() {
    let mut encoder = RowEncoder::new();
    check("c7 ac02 00 c801 03 c801 e807 10", |out| encoder.full_row(&FIRST, out));
    let second = RowHeader { sequence: 2, timestamp: 1_005, sorted: false, ..FIRST };
    check("00 05", |out| encoder.row(&second, out));
    let third = RowHeader { sequence: 5, stack: 7, labels: 8, payload_len: 0, ..second };
    check("9a 02 c801 03 07 00 08 00", |out| encoder.row(&third, out));
    let fourth = RowHeader { sequence: 6, thread: 1, metadata_id: 1, ..third };
    check("05 01 01 00", |out| encoder.row(&fourth, out));
    // The sequence number wraps and the processor changes.
    let mut encoder = RowEncoder::new();
    check("46 feffffff0f 00 00 01 e807", |out| {
        let row = RowHeader {
            sequence: u32::MAX,
            thread: 1,
            timestamp: 1_000,
            sorted: true,
            ..RowHeader::default()
        };
        encoder.row(&row, out);
    });
    let wrapped = RowHeader { thread: 1, timestamp: 1_000, ..RowHeader::default() };
    check("00 00", |out| encoder.row(&wrapped, out));
    let moved = RowHeader { processor: 1, sequence: 1, ..wrapped };
    check("02 00 00 01 00", |out| encoder.row(&moved, out));
    // A full row contains unchanged values, too.
    let full = RowHeader { sequence: 2, ..moved };
    check("83 00 00 00 01 00 00", |out| encoder.full_row(&full, out));
}

#[test]
fn uncompressed_row() {
    let row = RowHeader { stack: 7, labels: 8, ..FIRST };
    check(
        "32000000 2c010000 01000000 c800000000000000 c800000000000000 03000000
         07000000 e803000000000000 08000000 02000000 aabb",
        |out| v6::uncompressed_row(&row, &[0xAA, 0xBB], out).unwrap(),
    );
    let row = RowHeader { sorted: false, ..row };
    check(
        "30000000 2c010080 01000000 c800000000000000 c800000000000000 03000000
         07000000 e803000000000000 08000000 00000000",
        |out| v6::uncompressed_row(&row, &[], out).unwrap(),
    );
}

#[test]
fn metadata_block() {
    const FULL: EventSchema = EventSchema {
        provider: ProviderSchema { name: "Prov", guid: Some(GUID), group: Some("g") },
        version: 2,
        level: Level::Error,
        keywords: 0x0102,
        opcode: Some(9),
        message: Some("m"),
        description: Some("dd"),
        key_values: &[("k", "v"), ("", "")],
        ..schema(300, "Ev", &[field("a", Type::U32)])
    };
    let row = format!(
        "4300 05 04 \"Prov\" ac02 02 \"Ev\"
         0100 0300 01 \"a\" 0a
         2f00 01 09 03 0201000000000000 04 01 \"m\" 05 02 \"dd\" 06 01 \"k\" 01 \"v\" 06 00 00
         07 {GUID_BYTES} 08 02 09 02"
    );
    check(&row, |out| v6::metadata_row(5, &FULL, out).unwrap());
    let plain = EventSchema { opcode: None, ..schema(1, "E", &[]) };
    let plain_row = "1800 01 0b \"Test-Format\" 01 01 \"E\" 0000 0400 08 04 09 00";
    check(plain_row, |out| v6::metadata_row(1, &plain, out).unwrap());
    // The place of the type, but for what the author says of it.
    let place = Place { module: "m", file: "f.rs", line: 7, column: 9 };
    let placed = EventSchema { place, key_values: &[("file", "own")], ..plain };
    let placed_row = "3400 01 0b \"Test-Format\" 01 01 \"E\" 0000 2000
         06 04 \"file\" 03 \"own\" 06 06 \"module\" 01 \"m\" 06 04 \"line\" 01 \"7\" 08 04 09 00";
    check(placed_row, |out| v6::metadata_row(1, &placed, out).unwrap());

    let mut rows = Vec::new();
    v6::metadata_row(5, &FULL, &mut rows).unwrap();
    v6::metadata_row(1, &plain, &mut rows).unwrap();
    check(&format!("61000003 0000 {row} {plain_row}"), |out| {
        v6::metadata_block(&rows, out).unwrap();
    });
    check("", |out| v6::metadata_block(&[], out).unwrap());
}

#[test]
fn thread_blocks() {
    let thread = ThreadInfo {
        index: 300,
        name: Some("main"),
        process_id: Some(200),
        os_thread_id: Some(1),
        key_values: &[("k", "v")],
    };
    let row = "1200 ac02 01 04 \"main\" 02 c801 03 01 04 01 \"k\" 01 \"v\"";
    check(row, |out| v6::thread_row(&thread, out).unwrap());
    let bare = ThreadInfo { index: 1, ..ThreadInfo::default() };
    check("0100 01", |out| v6::thread_row(&bare, out).unwrap());
    let mut rows = Vec::new();
    v6::thread_row(&thread, &mut rows).unwrap();
    v6::thread_row(&bare, &mut rows).unwrap();
    check(&format!("17000006 {row} 0100 01"), |out| v6::thread_block(&rows, out).unwrap());
    check("", |out| v6::thread_block(&[], out).unwrap());

    let entries = [
        ThreadSequence { thread: 300, sequence: 5 },
        ThreadSequence { thread: 1, sequence: u32::MAX },
    ];
    check("09000007 ac02 05 01 ffffffff0f", |out| {
        v6::remove_thread_block(&entries, out).unwrap();
    });
    check("", |out| v6::remove_thread_block(&[], out).unwrap());
    let all = SequencePointFlags { flush_threads: true, flush_metadata: true };
    check("19000004 0201000000000000 03000000 02000000 ac02 05 01 ffffffff0f", |out| {
        v6::sequence_point(0x0102, all, &entries, out).unwrap()
    });
    for (flush_threads, flush_metadata, bits) in
        [(false, false, "00"), (true, false, "01"), (false, true, "02")]
    {
        let flags = SequencePointFlags { flush_threads, flush_metadata };
        check(&format!("10000004 0000000000000000 {bits}000000 00000000"), |out| {
            v6::sequence_point(0, flags, &[], out).unwrap();
        });
    }
}

#[test]
fn stack_block() {
    check(
        "20000005 05000000 02000000 10000000 0201000000000000 ffffffffffffffff 00000000",
        |out| v6::stack_block(5, &[&[0x0102, u64::MAX], &[]], 8, out).unwrap(),
    );
    check("10000005 01000000 01000000 04000000 ffffffff", |out| {
        v6::stack_block(1, &[&[0xFFFF_FFFF]], 4, out).unwrap();
    });
}

#[test]
fn label_list_block() {
    let all = [
        Label::ActivityId(GUID),
        Label::RelatedActivityId(GUID),
        Label::TraceId(GUID),
        Label::SpanId(0x0102),
        Label::Str("k", "v"),
        Label::Int("n", -2),
        Label::OpCode(1),
        Label::Keywords(0x0102),
        Label::Level(5),
        Label::Version(7),
    ];
    let lists: [&[Label<'_>]; 3] = [&all, &[Label::SpanId(1)], &[Label::Int("", 150)]];
    check(
        &format!(
            "69000008 02000000 03000000
             01 {GUID_BYTES} 02 {GUID_BYTES} 03 000102030405060708090a0b0c0d0e0f
             04 0201000000000000 05 01 \"k\" 01 \"v\" 06 01 \"n\" 03
             07 01 08 0201000000000000 09 05 8a 07
             84 0100000000000000
             86 00 ac02"
        ),
        |out| v6::label_list_block(2, &lists, out).unwrap(),
    );
}

#[test]
fn end_of_stream_and_raw_blocks() {
    check("00000000", |out| out.extend(v6::END_OF_STREAM));
    check("03000005 010203", |out| out.extend(raw_block(BlockKind::Stack, &[1, 2, 3])));
    // A body that fails leaves the output unchanged.
    check("", |out| {
        let error = v6::block(BlockKind::Stack, out, |out| {
            out.push(1);
            Err(FormatError::EmptyEventBlock)
        });
        assert_eq!(error, Err(FormatError::EmptyEventBlock));
    });
}

#[test]
fn types() {
    let type_of = |ty: Type, expected: &str| {
        let size = expected.chars().filter(char::is_ascii_hexdigit).count() / 2 + 2;
        let fields: &[FieldSchema] = &[field("a", ty)];
        check(&format!("0100 {size:02x}00 01 \"a\" {expected}"), |out| {
            types::field_descriptions(fields, out).unwrap();
        });
    };
    const STR: Type = Type::Str(Text::Utf16);
    const BYTES: Type = Type::Array(&Type::U8, Layout::Counted);
    let low_high = |high: &str| format!("01 0200 0500 03 6c6f77 0c 0600 04 68696768 {high}");
    type_of(Type::Bool, "03");
    type_of(Type::Bool8, "1a");
    type_of(Type::Utf16Unit, "04");
    type_of(Type::I8, "05");
    type_of(Type::U8, "06");
    type_of(Type::I16, "07");
    type_of(Type::U16, "08");
    type_of(Type::I32, "09");
    type_of(Type::U32, "0a");
    type_of(Type::I64, "0b");
    type_of(Type::UnixNanos, "0b");
    type_of(Type::U64, "0c");
    type_of(Type::DurationNanos, "0c");
    type_of(Type::F32, "0d");
    type_of(Type::F64, "0e");
    type_of(Type::DateTime, "10");
    type_of(Type::Guid, "11");
    type_of(Type::Str(Text::Utf16Nul), "12");
    type_of(STR, "1304");
    type_of(Type::Char, "1304");
    type_of(Type::IpAddr, "1304");
    type_of(Type::SocketAddr, "1304");
    type_of(Type::VarInt, "14");
    type_of(Type::VarUInt, "15");
    type_of(Type::Array(&Type::U16, Layout::Fixed(0x0102)), "16 08 0201");
    type_of(Type::Str(Text::Utf8), "1317");
    type_of(Type::Str(Text::Utf16RelLoc), "1804");
    type_of(Type::Str(Text::Utf16DataLoc), "1904");
    type_of(Type::Str(Text::Utf8RelLoc), "1817");
    type_of(Type::Str(Text::Utf8DataLoc), "1917");
    type_of(Type::Array(&Type::U16, Layout::RelLoc), "18 08");
    type_of(Type::Array(&Type::U16, Layout::DataLoc), "19 08");
    type_of(BYTES, "13 06");
    type_of(Type::U128, &low_high("0c"));
    type_of(Type::I128, &low_high("0b"));
    type_of(Type::Option(&Type::U8), "13 06");
    type_of(Type::Option(&STR), "13 1304");
    type_of(Type::Option(&BYTES), "13 01 0100 0800 05 76616c7565 1306");
    type_of(Type::Array(&BYTES, Layout::Counted), "13 01 0100 0800 05 6974656d73 1306");
    type_of(
        Type::Array(&Type::Array(&Type::U8, Layout::Fixed(3)), Layout::Fixed(2)),
        "16 01 0100 0a00 05 6974656d73 16 06 0300 0200",
    );
    const OBJECT: Type = Type::Object(&[field("b", BYTES)]);
    type_of(OBJECT, "01 0100 0400 01 62 1306");
}

#[test]
fn payloads() {
    check_payload("01000000 00000000 01 00", |e| {
        e.bool(true);
        e.bool(false);
        e.bool8(true);
        e.bool8(false);
    });
    check_payload("01 0102 01020304 0102030405060708", |e| {
        e.u8(1);
        e.u16(0x0201);
        e.u32(0x0403_0201);
        e.u64(0x0807_0605_0403_0201);
    });
    check_payload("ff feff fdffffff fcffffffffffffff", |e| {
        e.i8(-1);
        e.i16(-2);
        e.i32(-3);
        e.i64(-4);
    });
    check_payload("0200000000000000 0100000000000000 ffffffffffffffffffffffffffffffff", |e| {
        e.u128(1 << 64 | 2);
        e.i128(-1);
    });
    check_payload("0000c03f 000000000000f83f", |e| {
        e.f32(1.5);
        e.f64(1.5);
    });
    check_payload("7f 8001 ffffffffffffffffff01 01 ffffffffffffffffff01", |e| {
        e.var_uint(127);
        e.var_uint(128);
        e.var_uint(u64::MAX);
        e.var_int(-1);
        e.var_int(i64::MIN);
    });
    check_payload(GUID_BYTES, |e| e.guid(&GUID));
    check_payload("0100 6100 0200 3cd8 88df 0100 fdff e900", |e| {
        e.char('a');
        e.char('🎈');
        e.char('\0');
        e.utf16_unit(0xE9);
    });
    check_payload("0000 0300 6100 fdff 6200 6100 fdff 6200 0000 0400 6100c3a9", |e| {
        e.str("", Text::Utf16);
        e.str("a\0b", Text::Utf16);
        e.str("a\0b", Text::Utf16Nul);
        e.str("a\0é", Text::Utf8);
    });
    check_payload("ffffffffffffffff 0100000000000000 00803ed5deb19d01", |e| {
        e.unix_nanos(-1);
        e.duration_nanos(1);
        e.date_time(0);
    });
    check_payload("0300 3a00 3a00 3100", |e| {
        e.ip_addr(&[0_u16, 0, 0, 0, 0, 0, 0, 1].into());
    });
    check_payload("0200 0102 0102 0100 05 0000", |e| {
        e.begin_array(2, Layout::Counted);
        e.u8_elements(&[1, 2]);
        e.begin_array(2, Layout::Fixed(2));
        e.u8_elements(&[1, 2]);
        e.begin_option(true, &Type::U8);
        e.u8(5);
        e.begin_option(false, &Type::U8);
    });
}

/// Positions in locations: RelLoc counts from the end of its own 4 bytes, DataLoc from the
/// payload's start, wherever the payload is in a buffer.
#[test]
fn locations() {
    const REL: Type = Type::Str(Text::Utf8RelLoc);
    const DATA: Type = Type::Array(&Type::U16, Layout::DataLoc);
    let mut buffer = VecBuffer::new();
    buffer.bytes.extend([9; 5]);
    let mut e = NetTraceEncoder::new(buffer);
    e.u8(1);
    let first = e.begin_location(&REL);
    let second = e.begin_location(&DATA);
    e.begin_location_data(first, &REL);
    e.location_str("abc", Text::Utf8RelLoc);
    e.end_location_data(first, &REL);
    e.begin_location_data(second, &DATA);
    e.u16(0x0201);
    e.end_location_data(second, &DATA);
    let bytes = e.finish().into_payload().unwrap();
    check("0909090909 01 0400 0300 0c00 0200 \"abc\" 0102", |out| out.extend(bytes));
}

#[test]
fn refusals() {
    #[track_caller]
    fn refused(expected: Option<Refusal>, values: impl FnOnce(&mut NetTraceEncoder<VecBuffer>)) {
        assert_eq!(encode(values).err(), expected);
    }
    const REL: Type = Type::Array(&Type::U8, Layout::RelLoc);
    let bytes = |len: usize| move |e: &mut NetTraceEncoder<VecBuffer>| e.u8_elements(&vec![0; len]);
    refused(None, bytes(65_436));
    refused(Some(Refusal::PayloadTooLarge), bytes(65_437));
    let many = Some(Refusal::TooManyElements);
    for (len, expected) in [(32_767, None), (32_768, many), (65_536 + 1, many)] {
        refused(expected, |e| {
            e.begin_array(len, Layout::Counted);
        });
        refused(expected, |e| e.str(&"x".repeat(len), Text::Utf8));
        refused(expected, |e| {
            let mark = e.begin_location(&REL);
            e.begin_location_data(mark, &REL);
            e.u8_elements(&vec![0; len]);
            e.end_location_data(mark, &REL);
        });
    }
    for text in [Text::Utf16, Text::Utf16Nul] {
        refused(None, |e| e.str(&"x".repeat(32_716), text));
        refused(Some(Refusal::PayloadTooLarge), |e| e.str(&"é".repeat(32_767), text));
        refused(many, |e| e.str(&"é".repeat(32_768), text));
        refused(many, |e| e.str(&"🎈".repeat(16_384), text));
    }
    let wrong = Some(Refusal::WrongElementCount);
    refused(wrong, |e| {
        e.begin_array(2, Layout::Fixed(3));
    });
    // The data is too far from its location.
    refused(Some(Refusal::PayloadTooLarge), |e| {
        let mark = e.begin_location(&REL);
        e.u8_elements(&vec![0; 65_436]);
        e.begin_location_data(mark, &REL);
        e.u8(1);
        e.end_location_data(mark, &REL);
    });
    // Only the first reason is kept.
    refused(wrong, |e| {
        e.begin_array(2, Layout::Fixed(3));
        e.begin_array(32_768, Layout::Counted);
    });
}
