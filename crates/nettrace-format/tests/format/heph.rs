//! Heph packets, byte for byte, and their limits.

use nettrace_format::{
    FormatError,
    heph::{self, EventHeader, EventPacket, Value},
};

/// The example of an event packet in the format's document: 91 bytes.
const EVENT: [u8; 91] = [
    0xC1,
    0xFC,
    0x1F,
    0xB7, // magic
    0x00,
    0x00,
    0x00,
    0x5B, // size: 91
    0x00,
    0x00,
    0x00,
    0x00, // stream
    0x00,
    0x00,
    0x00,
    0x00, // counter
    0x00,
    0x00,
    0x00,
    0x00,
    0x00,
    0x00,
    0x00,
    0x01, // substream
    0x00,
    0x00,
    0x00,
    0x00,
    0x00,
    0x00,
    0x00,
    0x64, // start: 100
    0x00,
    0x00,
    0x00,
    0x00,
    0x00,
    0x00,
    0x00,
    0xC8, // end: 200
    0x00,
    0x08,
    b'M',
    b'y',
    b' ',
    b'e',
    b'v',
    b'e',
    b'n',
    b't', // description
    0x00,
    0x04,
    b'T',
    b'e',
    b's',
    b't',        // name
    0b0000_0001, // unsigned integer
    0x00,
    0x00,
    0x00,
    0x00,
    0x00,
    0x00,
    0x00,
    0x7B, // 123
    0x00,
    0x05,
    b'T',
    b'e',
    b's',
    b't',
    b'2',        // name
    0b1000_0011, // array of floating point numbers
    0x00,
    0x02, // length
    0x40,
    0x5E,
    0xDD,
    0x2F,
    0x1A,
    0x9F,
    0xBE,
    0x77, // 123.456
    0x40,
    0x88,
    0xA8,
    0x00,
    0x00,
    0x00,
    0x00,
    0x00, // 789.0
];

/// The example of a metadata packet in the format's document: 23 bytes.
const EPOCH: [u8; 23] = [
    0x75, 0xD1, 0x1D, 0x4D, // magic
    0x00, 0x00, 0x00, 0x17, // size: 23
    0x00, 0x05, b'e', b'p', b'o', b'c', b'h', // name
    0x16, 0x58, 0x45, 0xE9, 0x12, 0x14, 0xEC, 0x90, // 1610113734118010000
];

#[test]
fn the_documents_examples() {
    let mut out = Vec::new();
    let header = EventHeader { stream: 0, counter: 0, substream: 1, start: 100, end: 200 };
    let mut packet = EventPacket::begin(&header, "My event", &mut out).unwrap();
    packet.attribute("Test", Value::U64(123)).unwrap();
    packet.attribute("Test2", Value::F64Array(&[123.456, 789.0])).unwrap();
    packet.finish().unwrap();
    assert_eq!(out, EVENT);

    out.clear();
    heph::epoch(1_610_113_734_118_010_000, &mut out);
    assert_eq!(out, EPOCH);
}

#[test]
fn every_type_of_attribute() {
    let check = |value: Value<'_>, expected: &[u8]| {
        let mut out = vec![0xAA];
        let mut packet = EventPacket::begin(&EventHeader::default(), "", &mut out).unwrap();
        packet.attribute("n", value).unwrap();
        packet.finish().unwrap();
        assert_eq!(out[..5], [0xAA, 0xC1, 0xFC, 0x1F, 0xB7]);
        assert_eq!(out[5..9], (45 + expected.len() as u32).to_be_bytes());
        assert_eq!(out[9..43], [0; 34]);
        assert_eq!(out[43..46], [0, 1, b'n']);
        assert_eq!(out[46..], *expected, "{value:?}");
    };
    check(Value::U64(0x0102_0304_0506_0708), &[1, 1, 2, 3, 4, 5, 6, 7, 8]);
    check(Value::I64(-2), &[2, 255, 255, 255, 255, 255, 255, 255, 254]);
    check(Value::F64(-1.5), &[3, 0xBF, 0xF8, 0, 0, 0, 0, 0, 0]);
    check(Value::Str("é"), &[4, 0, 2, 0xC3, 0xA9]);
    check(Value::Str(""), &[4, 0, 0]);
    check(Value::U64Array(&[]), &[0x81, 0, 0]);
    check(Value::U64Array(&[1]), &[0x81, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
    check(Value::I64Array(&[-1]), &[0x82, 0, 1, 255, 255, 255, 255, 255, 255, 255, 255]);
    check(Value::StrArray(&["a", "", "bc"]), &[0x84, 0, 3, 0, 1, 97, 0, 0, 0, 2, 98, 99]);
}

#[test]
fn what_is_too_long_has_an_error_of_its_own() {
    let longest = "x".repeat(65_535);
    let longer = "x".repeat(65_536);
    let mut out = vec![7];
    heph::option(&longest, &[1; 70_000], &mut out).unwrap();
    assert_eq!(out.len(), 1 + 10 + 65_535 + 70_000);
    assert_eq!(out[5..9], 135_545_u32.to_be_bytes());
    out.truncate(1);
    let error = heph::option(&longer, &[], &mut out).unwrap_err();
    assert_eq!(error, FormatError::HephOptionNameTooLong { size: 65_536 });
    assert_eq!(out, [7]);

    let header = EventHeader::default();
    EventPacket::begin(&header, &longest, &mut out).unwrap().finish().unwrap();
    assert_eq!(out.len(), 1 + 42 + 65_535);
    out.truncate(1);
    let error = EventPacket::begin(&header, &longer, &mut out).unwrap_err();
    assert_eq!(error, FormatError::HephDescriptionTooLong { size: 65_536 });
    assert_eq!(out, [7]);

    let mut packet = EventPacket::begin(&header, "", &mut out).unwrap();
    let error = packet.attribute(&longer, Value::U64(1)).unwrap_err();
    assert_eq!(error, FormatError::HephAttributeNameTooLong { size: 65_536 });
    let error = packet.attribute("a", Value::Str(&longer)).unwrap_err();
    assert_eq!(error, FormatError::HephStringTooLong { size: 65_536 });
    let error = packet.attribute("a", Value::StrArray(&["", &longer])).unwrap_err();
    assert_eq!(error, FormatError::HephStringTooLong { size: 65_536 });
    for value in [
        Value::U64Array(&[0; 65_536]),
        Value::I64Array(&[0; 65_536]),
        Value::F64Array(&[0.0; 65_536]),
        Value::StrArray(&[""; 65_536]),
    ] {
        let error = packet.attribute("a", value).unwrap_err();
        assert_eq!(error, FormatError::HephArrayTooLong { len: 65_536 });
    }
    // The failed calls left the packet unchanged.
    packet.attribute(&longest, Value::U64Array(&[0; 65_535])).unwrap();
    packet.finish().unwrap();
    assert_eq!(out.len(), 1 + 42 + 2 + 65_535 + 3 + 8 * 65_535);
    assert_eq!(out[5..9], (out.len() as u32 - 1).to_be_bytes());
}

#[test]
fn a_packet_that_is_not_finished_is_not_there() {
    let mut out = vec![1, 2];
    let mut packet = EventPacket::begin(&EventHeader::default(), "gone", &mut out).unwrap();
    packet.attribute("a", Value::U64(1)).unwrap();
    drop(packet);
    assert_eq!(out, [1, 2]);
}
