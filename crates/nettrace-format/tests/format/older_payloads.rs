//! Converts payloads from the types of version 6 to those of versions 4 and 5.

use nettrace_event::{
    ArrayLayout as Layout, FieldType as Type, PayloadEncoder as _, StrEncoding as Text,
};
use nettrace_format::{
    payload::{MAX_PAYLOAD, NetTraceEncoder, Refusal, VecBuffer},
    v5::{self, Version},
};

use crate::support::{bytes, encode, field, schema};

const BOTH: [Version; 2] = [Version::V4, Version::V5];

type Encoder = NetTraceEncoder<VecBuffer>;

/// Maps the payload of one field.
fn mapped(
    version: Version,
    ty: Type,
    values: impl FnOnce(&mut Encoder),
) -> Result<Vec<u8>, Refusal> {
    let schema = schema(1, "E", vec![field("f", ty)].leak());
    let payload = encode(values).unwrap();
    let mut out = vec![0xEE];
    let result = v5::map_payload(version, &schema, &payload, &mut out);
    assert_eq!(out.remove(0), 0xEE);
    if result.is_err() {
        assert!(out.is_empty());
    }
    result.map(|_| out)
}

#[test]
fn payloads() {
    #[track_caller]
    fn case(ty: Type, v4: &str, v5: &str, values: impl Fn(&mut Encoder)) {
        assert_eq!(mapped(Version::V4, ty, &values).unwrap(), bytes(v4), "V4 {ty:?}");
        assert_eq!(mapped(Version::V5, ty, &values).unwrap(), bytes(v5), "V5 {ty:?}");
    }
    const STR: Type = Type::Str(Text::Utf16);
    const UNITS: Type = Type::Array(&Type::Utf16Unit, Layout::Counted);
    const PAIR: Type = Type::Object(&[field("a", Type::I16), field("b", STR)]);
    const OPTION: Type = Type::Option(&Type::U8);
    case(Type::Bool8, "01000000", "01000000", |e| e.bool8(true));
    case(Type::VarUInt, "ffffffffffffffff", "ffffffffffffffff", |e| e.var_uint(u64::MAX));
    case(Type::VarInt, "feffffffffffffff", "feffffffffffffff", |e| e.var_int(-2));
    case(STR, "'aé'", "0200 6100 e900", |e| e.str("aé", Text::Utf16));
    case(Type::Str(Text::Utf16Nul), "'aé'", "'aé'", |e| e.str("aé", Text::Utf16Nul));
    case(Type::Str(Text::Utf8), "'é🎈\u{FFFD}'", "0400 e900 3cd8 88df fdff", |e| {
        e.str("é🎈\0", Text::Utf8);
    });
    case(Type::Array(&Type::I8, Layout::Counted), "'[-1, 2]'", "0200 ff 02", |e| {
        e.begin_array(2, Layout::Counted);
        e.i8(-1);
        e.i8(2);
    });
    case(Type::Array(&Type::I8, Layout::Fixed(1)), "'[5]'", "0100 05", |e| e.i8(5));
    case(
        Type::Array(&Type::F64, Layout::Fixed(4)),
        "'[1.0, NaN, -inf, 1e300]'",
        "0400 000000000000f03f 000000000000f87f 000000000000f0ff 9c7500883ce4377e",
        |e| {
            [1.0, f64::NAN, f64::NEG_INFINITY, 1e300].into_iter().for_each(|v| e.f64(v));
        },
    );
    case(
        Type::Array(&STR, Layout::Counted),
        r#"'["a\"\\", ""]'"#,
        "0200 0300 6100 2200 5c00 0000",
        |e| {
            e.begin_array(2, Layout::Counted);
            e.str("a\"\\", Text::Utf16);
            e.str("", Text::Utf16);
        },
    );
    case(
        Type::Array(&PAIR, Layout::Fixed(2)),
        "'[{a: 1, b: \"x\"}, {a: 2, b: \"\"}]'",
        "0200 0100 0100 7800 0200 0000",
        |e| {
            e.i16(1);
            e.str("x", Text::Utf16);
            e.i16(2);
            e.str("", Text::Utf16);
        },
    );
    case(PAIR, "0100 'x'", "0100 0100 7800", |e| {
        e.i16(1);
        e.str("x", Text::Utf16);
    });
    case(Type::Array(&OPTION, Layout::Fixed(2)), "'[[5], []]'", "0200 0100 05 0000", |e| {
        e.begin_option(true, &Type::U8);
        e.u8(5);
        e.begin_option(false, &Type::U8);
    });
    case(OPTION, "'[]'", "0000", |e| {
        e.begin_option(false, &Type::U8);
    });
    case(UNITS, "'A\"'", "0200 4100 2200", |e| {
        e.begin_array(2, Layout::Counted);
        e.utf16_unit(0x41);
        e.utf16_unit(0x22);
    });
    case(Type::Option(&UNITS), "'[\"A\\\"\"]'", "0100 0200 4100 2200", |e| {
        e.begin_option(true, &UNITS);
        e.begin_array(2, Layout::Counted);
        e.utf16_unit(0x41);
        e.utf16_unit(0x22);
    });
    case(Type::Option(&Type::Utf16Unit), "'[\"\u{FFFD}\"]'", "0100 0000", |e| {
        e.begin_option(true, &Type::Utf16Unit);
        e.utf16_unit(0);
    });
    case(
        Type::Array(&Type::DateTime, Layout::Fixed(1)),
        "'[1970-01-01T00:00:00.0010000Z]'",
        "0100 10a73ed5deb19d01",
        |e| e.date_time(1),
    );
    case(
        Type::Array(&Type::I128, Layout::Fixed(1)),
        "'[-1]'",
        "0100 ffffffffffffffffffffffffffffffff",
        |e| e.i128(-1),
    );
    case(
        Type::Array(&Type::Bool8, Layout::Fixed(2)),
        "'[true, false]'",
        "0200 01000000 00000000",
        |e| {
            e.bool8(true);
            e.bool8(false);
        },
    );
    case(
        Type::Array(&Type::Guid, Layout::Fixed(1)),
        "'[01010101-0101-0101-0101-010101010101]'",
        "0100 01010101010101010101010101010101",
        |e| e.guid(&[1; 16]),
    );
    for ty in [Type::Str(Text::Utf8RelLoc), Type::Str(Text::Utf16DataLoc)] {
        let Type::Str(encoding) = ty else { unreachable!() };
        let ty_ref: &'static Type = Box::leak(Box::new(ty));
        case(ty, "'é'", "0100 e900", |e| {
            let mark = e.begin_location(ty_ref);
            e.begin_location_data(mark, ty_ref);
            e.location_str("é", encoding);
            e.end_location_data(mark, ty_ref);
        });
    }
    const SHORTS: Type = Type::Array(&Type::U16, Layout::DataLoc);
    case(SHORTS, "'[1, 65535]'", "0200 0100 ffff", |e| {
        let mark = e.begin_location(&SHORTS);
        e.begin_location_data(mark, &SHORTS);
        e.u16(1);
        e.u16(u16::MAX);
        e.end_location_data(mark, &SHORTS);
    });
}

/// Exactly the payloads that need no mapping come out unchanged.
#[test]
fn what_needs_mapping() {
    const STR: Type = Type::Str(Text::Utf16);
    let needs = |ty: Type| {
        let schema = schema(1, "E", vec![field("f", ty)].leak());
        BOTH.map(|version| v5::needs_mapping(version, &schema))
    };
    for ty in
        [Type::U8, Type::Bool, Type::Guid, Type::I128, Type::Str(Text::Utf16Nul), Type::Object(&[])]
    {
        assert_eq!(needs(ty), [false, false], "{ty:?}");
    }
    for ty in
        [STR, Type::Char, Type::IpAddr, Type::Option(&STR), Type::Array(&Type::U8, Layout::Counted)]
    {
        assert_eq!(needs(ty), [true, false], "{ty:?}");
        assert_eq!(needs(Type::Object(vec![field("o", ty)].leak())), [true, false], "{ty:?}");
    }
    for ty in
        [Type::Bool8, Type::VarInt, Type::Str(Text::Utf8), Type::Array(&Type::U8, Layout::Fixed(2))]
    {
        assert_eq!(needs(ty), [true, true], "{ty:?}");
        assert_eq!(needs(Type::Option(Box::leak(Box::new(ty)))), [true, true], "{ty:?}");
    }
}

#[test]
fn refusals() {
    const BYTES: Type = Type::Array(&Type::U8, Layout::Counted);
    let list = |len: usize| {
        move |e: &mut Encoder| {
            e.begin_array(len, Layout::Counted);
            e.u8_elements(&vec![1; len]);
        }
    };
    // Brackets and the end, and "1, " for all but the last: 3 * len - 2 + 3 units.
    let fitting = (MAX_PAYLOAD / 2 - 1) / 3;
    assert!(mapped(Version::V4, BYTES, list(fitting)).is_ok());
    let too_large = Err(Refusal::PayloadTooLarge);
    assert_eq!(mapped(Version::V4, BYTES, list(fitting + 1)), too_large);
    assert!(mapped(Version::V5, BYTES, list(32_767)).is_ok());
    let narrow = |len: usize| move |e: &mut Encoder| e.str(&"x".repeat(len), Text::Utf8);
    for version in BOTH {
        assert!(mapped(version, Type::Str(Text::Utf8), narrow(32_717)).is_ok());
        assert_eq!(mapped(version, Type::Str(Text::Utf8), narrow(32_718)), too_large);
        assert_eq!(mapped(version, Type::VarUInt, |e| e.u8(0x80)), Err(Refusal::Malformed));
    }
    const FIXED: Type = Type::Array(&Type::U8, Layout::Fixed(32_768));
    let values = |e: &mut Encoder| e.u8_elements(&[1; 32_768]);
    assert_eq!(mapped(Version::V5, FIXED, values), Err(Refusal::TooManyElements));
}
