//! The values of an event's fields, as its payload has them.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    time::{Duration, SystemTime},
};

use nettrace_event::{
    ArrayLayout, FieldSchema, FieldType, Storage, StrEncoding,
    payload::primitive::{self, MAX_VARUINT64},
};

/// The value of a field.
///
/// An integer has no size: a `u16` and a `u64` of the same number are equal. A `char`, an address
/// and an enum that is recorded by its name are text. A value that is an `Option` is [`None`], or
/// what is in it.
///
/// [`None`]: Self::None
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A `bool`.
    Bool(bool),
    /// An integer that is not negative.
    UInt(u128),
    /// A negative integer.
    Int(i128),
    /// An `f32`.
    F32(f32),
    /// An `f64`.
    F64(f64),
    /// Text.
    Text(String),
    /// A GUID, in the byte order of RFC 4122.
    Guid([u8; 16]),
    /// A `SystemTime`.
    Time(SystemTime),
    /// A `Duration`, or an `Elapsed`.
    Duration(Duration),
    /// A sequence.
    List(Vec<Value>),
    /// A struct, a tuple, or an entry of a map.
    Object(Vec<(&'static str, Value)>),
    /// An `Option` without a value.
    None,
}

impl Value {
    pub(super) fn integer(value: i128) -> Self {
        value.try_into().map_or(Self::Int(value), Self::UInt)
    }

    /// The value without what differs from run to run: times, durations and GUIDs.
    pub(super) fn stable(&self) -> Self {
        match self {
            Self::Guid(_) | Self::Time(_) | Self::Duration(_) => Self::Text("…".into()),
            Self::List(values) => Self::List(values.iter().map(Self::stable).collect()),
            Self::Object(fields) => {
                Self::Object(fields.iter().map(|(name, value)| (*name, value.stable())).collect())
            }
            _ => self.clone(),
        }
    }
}

/// As Rust has it, with text in quotes.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::UInt(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::F32(value) => write!(f, "{value:?}"),
            Self::F64(value) => write!(f, "{value:?}"),
            Self::Text(value) => write!(f, "{value:?}"),
            Self::Guid(bytes) => {
                let hex = format!("{:032x}", u128::from_be_bytes(*bytes));
                let (a, b, c, d, e) =
                    (&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
                write!(f, "{a}-{b}-{c}-{d}-{e}")
            }
            Self::Time(value) => match value.duration_since(SystemTime::UNIX_EPOCH) {
                Ok(after) => write!(f, "1970 + {after:?}"),
                Err(error) => write!(f, "1970 - {:?}", error.duration()),
            },
            Self::Duration(value) => write!(f, "{value:?}"),
            Self::List(values) => f.debug_list().entries(values).finish(),
            Self::Object(fields) => write_fields(f, fields.iter().map(|(name, it)| (*name, it))),
            Self::None => f.write_str("None"),
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes `{ a: 1, b: "x" }`.
pub(super) fn write_fields<'n, 'v>(
    f: &mut impl fmt::Write,
    fields: impl Iterator<Item = (&'n str, &'v Value)>,
) -> fmt::Result {
    let mut separator = "{ ";
    for (name, value) in fields {
        write!(f, "{separator}{name}: {value}")?;
        separator = ", ";
    }
    f.write_str(if separator == "{ " { "{}" } else { " }" })
}

/// What a [`Value`] can be turned into: see [`Event::get`](super::Event::get).
pub trait FromValue: Sized {
    /// The value as this type. `None` if it is of another kind, or does not fit.
    fn from_value(value: &Value) -> Option<Self>;
}

macro_rules! from_value {
    ($($pattern:pat => $value:expr, $($ty:ty),+;)*) => {$($(
        impl FromValue for $ty {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    $pattern => $value,
                    _ => None,
                }
            }
        }
    )+)*};
}

macro_rules! integers {
    ($($ty:ty),*) => {$(
        impl FromValue for $ty {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::UInt(value) => (*value).try_into().ok(),
                    Value::Int(value) => (*value).try_into().ok(),
                    _ => None,
                }
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

from_value! {
    Value::Bool(value) => Some(*value), bool;
    Value::Text(value) => Some(value.clone()), String;
    Value::Text(value) => value.parse().ok(), char, IpAddr, SocketAddr;
    Value::F32(value) => Some(*value), f32;
    Value::Time(value) => Some(*value), SystemTime;
    Value::Duration(value) => Some(*value), Duration;
}

impl FromValue for f64 {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            // The number that it is written as, so that a literal is equal to it.
            Value::F32(value) => value.to_string().parse().ok(),
            Value::F64(value) => Some(*value),
            _ => None,
        }
    }
}

impl FromValue for Value {
    fn from_value(value: &Value) -> Option<Self> {
        Some(value.clone())
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::None => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

impl<T: FromValue> FromValue for Vec<T> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::List(values) => values.iter().map(T::from_value).collect(),
            _ => None,
        }
    }
}

/// The values of a payload. `None` if it is not one of these fields.
pub(super) fn decode(
    fields: &'static [FieldSchema],
    payload: &[u8],
) -> Option<Vec<(&'static str, Value)>> {
    Payload { bytes: payload, at: 0 }.object(fields)
}

/// Reads a payload, as [`NetTraceEncoder`](nettrace_event::payload::NetTraceEncoder) writes it.
struct Payload<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Payload<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = *self.bytes.get(self.at..)?.first_chunk()?;
        self.at += N;
        Some(bytes)
    }

    fn count(&mut self) -> Option<usize> {
        self.take().map(u16::from_le_bytes).map(usize::from)
    }

    fn object(&mut self, fields: &'static [FieldSchema]) -> Option<Vec<(&'static str, Value)>> {
        fields.iter().map(|field| Some((field.name, self.value(&field.ty)?))).collect()
    }

    fn value(&mut self, ty: &'static FieldType) -> Option<Value> {
        let (unsigned, signed) = (Value::UInt, Value::integer);
        Some(match ty.storage() {
            Storage::Bool => Value::Bool(u32::from_le_bytes(self.take()?) != 0),
            Storage::Bool8 => Value::Bool(self.take::<1>()? != [0]),
            Storage::U8 => unsigned(u8::from_le_bytes(self.take()?).into()),
            Storage::U16 => unsigned(u16::from_le_bytes(self.take()?).into()),
            Storage::U32 => unsigned(u32::from_le_bytes(self.take()?).into()),
            Storage::U64 => {
                let value = u64::from_le_bytes(self.take()?);
                match ty {
                    FieldType::DurationNanos => Value::Duration(Duration::from_nanos(value)),
                    _ => unsigned(value.into()),
                }
            }
            Storage::U128 => unsigned(u128::from_le_bytes(self.take()?)),
            Storage::I8 => signed(i8::from_le_bytes(self.take()?).into()),
            Storage::I16 => signed(i16::from_le_bytes(self.take()?).into()),
            Storage::I32 => signed(i32::from_le_bytes(self.take()?).into()),
            Storage::I64 => {
                let value = i64::from_le_bytes(self.take()?);
                match ty {
                    FieldType::UnixNanos => Value::Time(time(value.into())?),
                    _ => signed(value.into()),
                }
            }
            Storage::I128 => signed(i128::from_le_bytes(self.take()?)),
            Storage::F32 => Value::F32(f32::from_le_bytes(self.take()?)),
            Storage::F64 => Value::F64(f64::from_le_bytes(self.take()?)),
            Storage::VarUInt => unsigned(self.var_uint()?.into()),
            Storage::VarInt => {
                let value = self.var_uint()?;
                signed(((value >> 1) as i64 ^ -((value & 1) as i64)).into())
            }
            Storage::Utf16Unit => text_of_utf16(&self.take::<2>()?),
            // The conversion is its own reverse.
            Storage::Guid => Value::Guid(primitive::guid(&self.take()?)),
            Storage::DateTime => {
                let units = i64::from_le_bytes(self.take()?);
                Value::Time(time((i128::from(units) - 116_444_736_000_000_000) * 100)?)
            }
            Storage::Text(encoding) => self.text(encoding)?,
            Storage::Array(element, layout) => Value::List(self.array(element, layout)?),
            Storage::Option(inner) => match self.count()? {
                0 => Value::None,
                _ => self.value(inner)?,
            },
            Storage::Object(fields) => Value::Object(self.object(fields)?),
        })
    }

    fn var_uint(&mut self) -> Option<u64> {
        primitive::read_varuint(self.bytes, &mut self.at, MAX_VARUINT64)
    }

    fn text(&mut self, encoding: StrEncoding) -> Option<Value> {
        Some(match encoding {
            StrEncoding::Utf16 => {
                let count = self.count()?;
                text_of_utf16(self.next(2 * count)?)
            }
            StrEncoding::Utf16Nul => {
                let rest = self.bytes.get(self.at..)?;
                let count = rest.chunks_exact(2).position(|unit| unit == [0, 0])?;
                let text = text_of_utf16(self.next(2 * count)?);
                self.at += 2;
                text
            }
            StrEncoding::Utf8 => {
                let count = self.count()?;
                text_of_utf8(self.next(count)?)
            }
            StrEncoding::Utf16RelLoc => text_of_utf16(self.located(true)?),
            StrEncoding::Utf16DataLoc => text_of_utf16(self.located(false)?),
            StrEncoding::Utf8RelLoc => text_of_utf8(self.located(true)?),
            StrEncoding::Utf8DataLoc => text_of_utf8(self.located(false)?),
        })
    }

    fn array(&mut self, element: &'static FieldType, layout: ArrayLayout) -> Option<Vec<Value>> {
        let count = match layout {
            ArrayLayout::Counted => self.count()?,
            ArrayLayout::Fixed(count) => count.into(),
            ArrayLayout::RelLoc | ArrayLayout::DataLoc => {
                let bytes = self.located(layout == ArrayLayout::RelLoc)?;
                let count = bytes.len().checked_div(element.fixed_size()?)?;
                let mut data = Payload { bytes, at: 0 };
                return (0..count).map(|_| data.value(element)).collect();
            }
        };
        (0..count).map(|_| self.value(element)).collect()
    }

    fn next(&mut self, len: usize) -> Option<&[u8]> {
        let bytes = self.bytes.get(self.at..self.at + len)?;
        self.at += len;
        Some(bytes)
    }

    /// The data that a location is of: behind it, or from the payload's begin on.
    fn located(&mut self, is_relative: bool) -> Option<&[u8]> {
        let location = u32::from_le_bytes(self.take()?);
        let (len, position) = ((location >> 16) as usize, (location & 0xffff) as usize);
        let start = position + if is_relative { self.at } else { 0 };
        self.bytes.get(start..start + len)
    }
}

fn text_of_utf16(bytes: &[u8]) -> Value {
    let units: Vec<_> =
        bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
    Value::Text(String::from_utf16_lossy(&units))
}

fn text_of_utf8(bytes: &[u8]) -> Value {
    Value::Text(String::from_utf8_lossy(bytes).into_owned())
}

/// A time in nanoseconds since 1970.
fn time(nanos: i128) -> Option<SystemTime> {
    let distance = nanos.unsigned_abs();
    let seconds = (distance / 1_000_000_000).try_into().ok()?;
    let distance = Duration::new(seconds, (distance % 1_000_000_000) as u32);
    if nanos < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(distance)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(distance)
    }
}
