//! The storage of fields in a tracepoint: encoding, format, and the form of an absent value.
//!
#![doc = include_str!("../docs/shapes.md")]

use nettrace_event::{
    ArrayLayout, FieldFormat, FieldSchema, FieldType, Storage, StrEncoding, check,
};

use crate::layout::{encoding, format};

/// The storage of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A fixed number of bytes.
    Fixed { encoding: u8, format: u8, size: u16 },
    /// A varying number of bytes, with a length or a terminator.
    Delimited { encoding: u8, format: u8 },
    /// A struct with these fields.
    Struct(&'static [FieldSchema]),
    /// An array of elements.
    Array(&'static FieldType, ArrayLayout),
    /// A value that may be absent.
    Option(&'static FieldType),
}

/// The two fields of a socket address.
pub(crate) const SOCKET_ADDRESS: &[FieldSchema] = &[
    FieldSchema::new("address", FieldType::IpAddr),
    FieldSchema { format: FieldFormat::Port, ..FieldSchema::new("port", FieldType::U16) },
];

/// The storage of a value of this type in this format.
pub(crate) const fn of(ty: &'static FieldType, wanted: FieldFormat) -> Shape {
    use {FieldFormat as F, FieldType as T, encoding::*, format::*};
    match *ty {
        T::DurationNanos => scalar(VALUE64, UNSIGNED, 8),
        T::Char => scalar(VALUE32, UTF, 4),
        T::IpAddr => Shape::Delimited { encoding: BINARY_LENGTH16_CHAR8, format: IP_ADDRESS },
        T::SocketAddr => Shape::Struct(SOCKET_ADDRESS),
        T::Array(T::U8, ArrayLayout::Fixed(4)) if matches!(wanted, F::IpAddress) => {
            scalar(VALUE32, IP_ADDRESS, 4)
        }
        T::Array(T::U8, ArrayLayout::Fixed(16)) if matches!(wanted, F::IpAddress) => {
            Shape::Delimited { encoding: BINARY_LENGTH16_CHAR8, format: IP_ADDRESS }
        }
        T::Array(T::U8, ArrayLayout::Fixed(16)) if matches!(wanted, F::Uuid) => {
            scalar(VALUE128, UUID, 16)
        }
        T::Array(element, _) if check::is_one_value(element, wanted) => one_value(element, wanted),
        T::Array(element, ArrayLayout::Fixed(_)) if is_struct(element, wanted) => {
            Shape::Array(element, ArrayLayout::Counted)
        }
        T::Option(inner) => match nullable(inner, wanted) {
            Some(shape) => shape,
            None => Shape::Option(inner),
        },
        _ => stored(ty.storage(), wanted),
    }
}

/// The form of a value that is stored as in NetTrace.
const fn stored(storage: Storage, wanted: FieldFormat) -> Shape {
    use {Storage as S, encoding::*, format::*};
    match storage {
        S::Bool | S::Bool8 => scalar(VALUE8, BOOLEAN, 1),
        S::U8 => scalar(VALUE8, integer(wanted, UNSIGNED), 1),
        S::U16 => scalar(VALUE16, integer(wanted, UNSIGNED), 2),
        S::U32 => scalar(VALUE32, integer(wanted, UNSIGNED), 4),
        S::U64 | S::VarUInt => scalar(VALUE64, integer(wanted, UNSIGNED), 8),
        S::I8 => scalar(VALUE8, integer(wanted, SIGNED), 1),
        S::I16 => scalar(VALUE16, integer(wanted, SIGNED), 2),
        S::I32 => scalar(VALUE32, integer(wanted, SIGNED), 4),
        S::I64 | S::VarInt => scalar(VALUE64, integer(wanted, SIGNED), 8),
        S::DateTime => scalar(VALUE64, TIME, 8),
        S::U128 | S::I128 => scalar(VALUE128, HEX_BYTES, 16),
        S::F32 => scalar(VALUE32, FLOAT, 4),
        S::F64 => scalar(VALUE64, FLOAT, 8),
        S::Utf16Unit => scalar(VALUE16, UTF, 2),
        S::Guid => scalar(VALUE128, UUID, 16),
        S::Text(StrEncoding::Utf16Nul) => {
            Shape::Delimited { encoding: Z_STRING_CHAR16, format: text(wanted) }
        }
        S::Text(_) => Shape::Delimited { encoding: STRING_LENGTH16_CHAR8, format: text(wanted) },
        S::Array(element, layout) => Shape::Array(element, layout),
        S::Option(inner) => Shape::Option(inner),
        S::Object(fields) => Shape::Struct(fields),
    }
}

/// Whether the number of an array's elements is in the payload.
pub(crate) const fn counts_elements(
    element: &'static FieldType,
    layout: ArrayLayout,
    wanted: FieldFormat,
) -> bool {
    let ArrayLayout::Fixed(count) = layout else { return true };
    match (element, wanted) {
        (FieldType::U8, FieldFormat::IpAddress) => count == 16,
        _ => check::is_one_value(element, wanted) || is_struct(element, wanted),
    }
}

/// The first bytes of an option in the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// A length in bytes: 0, or this one.
    Size(u16),
    /// A count: 0 or 1.
    Count,
    /// A length of 0 for an absent value; nothing for a value, which has its own length.
    Own,
}

/// The first bytes of an option of this type.
pub(crate) const fn option_start(inner: &'static FieldType, wanted: FieldFormat) -> Start {
    if !check::has_null(inner, wanted) {
        return Start::Count;
    }
    match (of(inner, wanted), inner) {
        (Shape::Fixed { .. }, FieldType::Char | FieldType::Utf16Unit) => Start::Count,
        (Shape::Fixed { size, .. }, _) => Start::Size(size),
        _ => Start::Own,
    }
}

/// Size in bytes of every value of a type; 0 if it varies.
pub(crate) const fn fixed_size(ty: &'static FieldType, wanted: FieldFormat) -> usize {
    if let FieldType::Array(element, layout @ ArrayLayout::Fixed(count)) = *ty {
        let says = if counts_elements(element, layout, wanted) { 2 } else { 0 };
        let element = fixed_size(element, wanted);
        return if element == 0 { 0 } else { element.saturating_mul(count as usize) + says };
    }
    match of(ty, wanted) {
        Shape::Fixed { size, .. } => size as usize,
        Shape::Struct(fields) => {
            let (mut sum, mut at) = (0_usize, 0);
            while at < fields.len() {
                let size = fixed_size(&fields[at].ty, fields[at].format);
                if size == 0 {
                    return 0;
                }
                sum = sum.saturating_add(size);
                at += 1;
            }
            sum
        }
        Shape::Delimited { .. } | Shape::Array(..) | Shape::Option(_) => 0,
    }
}

/// Whether a field has a location, and so comes after the fields without one.
pub(crate) const fn is_located(ty: &FieldType) -> bool {
    matches!(
        ty,
        FieldType::Str(
            StrEncoding::Utf16RelLoc
                | StrEncoding::Utf16DataLoc
                | StrEncoding::Utf8RelLoc
                | StrEncoding::Utf8DataLoc
        ) | FieldType::Array(_, ArrayLayout::RelLoc | ArrayLayout::DataLoc)
    )
}

/// Whether an element is a struct: its own, or one around an array.
const fn is_struct(element: &'static FieldType, wanted: FieldFormat) -> bool {
    matches!(of(element, wanted), Shape::Struct(_) | Shape::Array(..) | Shape::Option(_))
}

const fn scalar(encoding: u8, format: u8, size: u16) -> Shape {
    Shape::Fixed { encoding, format, size }
}

/// The shape of an option that is stored as a single value, which can be null.
const fn nullable(inner: &'static FieldType, wanted: FieldFormat) -> Option<Shape> {
    if !check::has_null(inner, wanted) {
        return None;
    }
    let (encoding, format) = match (of(inner, wanted), inner) {
        (Shape::Fixed { format, .. }, FieldType::Char) => {
            (encoding::STRING_LENGTH16_CHAR32, format)
        }
        (Shape::Fixed { format, .. }, FieldType::Utf16Unit) => {
            (encoding::STRING_LENGTH16_CHAR16, format)
        }
        (Shape::Fixed { format, .. } | Shape::Delimited { format, .. }, _) => {
            (encoding::BINARY_LENGTH16_CHAR8, format)
        }
        _ => return None,
    };
    Some(Shape::Delimited { encoding, format })
}

/// The shape of a sequence that is text or bytes.
const fn one_value(element: &'static FieldType, wanted: FieldFormat) -> Shape {
    let encoding = match (element, wanted) {
        (_, FieldFormat::HexBytes) => encoding::BINARY_LENGTH16_CHAR8,
        (FieldType::U8, _) => encoding::STRING_LENGTH16_CHAR8,
        (FieldType::U16 | FieldType::Utf16Unit, _) => encoding::STRING_LENGTH16_CHAR16,
        _ => encoding::STRING_LENGTH16_CHAR32,
    };
    let format = match wanted {
        FieldFormat::HexBytes => format::HEX_BYTES,
        FieldFormat::Latin1 => format::LATIN1,
        FieldFormat::UtfBom => format::UTF_BOM,
        _ => text(wanted),
    };
    Shape::Delimited { encoding, format }
}

const fn integer(wanted: FieldFormat, natural: u8) -> u8 {
    match wanted {
        FieldFormat::Signed => format::SIGNED,
        FieldFormat::Unsigned => format::UNSIGNED,
        FieldFormat::Boolean => format::BOOLEAN,
        FieldFormat::Hex => format::HEX,
        FieldFormat::Errno => format::ERRNO,
        FieldFormat::Pid => format::PID,
        FieldFormat::Time => format::TIME,
        FieldFormat::Port => format::PORT,
        FieldFormat::IpAddress => format::IP_ADDRESS,
        FieldFormat::HexBytes => format::HEX_BYTES,
        _ => natural,
    }
}

const fn text(wanted: FieldFormat) -> u8 {
    match wanted {
        FieldFormat::Xml => format::XML,
        FieldFormat::Json => format::JSON,
        _ => format::UTF,
    }
}
