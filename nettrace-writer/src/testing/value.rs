//! The values of an event's fields, as its payload has them.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    time::{Duration, SystemTime},
};

use nettrace_event::{FieldSchema, FieldType, calendar::unix_nanos_of_file_time, guid::GuidText};
use nettrace_format::payload::walk::{self, Mismatch, Visitor};

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
            Self::Guid(bytes) => GuidText(bytes).fmt(f),
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

/// A type that a [`Value`] can be turned into: see [`Event::get`](super::Event::get).
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
    let mut collector = Collector::default();
    collector.open.push(Open::Fields(Vec::new()));
    walk::walk(fields, payload, &mut collector).ok()?;
    match collector.open.pop() {
        Some(Open::Fields(fields)) => Some(fields),
        _ => None,
    }
}

/// Collects the values that a walk passes.
#[derive(Default)]
struct Collector {
    /// Unfinished values, the outermost first. Values go into the last.
    open: Vec<Open>,
    nanos: Nanos,
}

/// The time that the integers of a field stand for.
#[derive(Clone, Copy, Default)]
enum Nanos {
    #[default]
    Numbers,
    Durations,
    Times,
}

/// Something whose values are still to come.
enum Open {
    Fields(Vec<(&'static str, Value)>),
    List(Vec<Value>),
    Option(Option<Value>),
}

impl Collector {
    fn expect(&mut self, ty: &FieldType) {
        self.nanos = match ty {
            FieldType::DurationNanos => Nanos::Durations,
            FieldType::UnixNanos => Nanos::Times,
            _ => Nanos::Numbers,
        };
    }

    fn put(&mut self, value: Value) -> Result<(), Undecoded> {
        match self.open.last_mut().ok_or(Undecoded)? {
            Open::Fields(fields) => fields.last_mut().ok_or(Undecoded)?.1 = value,
            Open::List(values) => values.push(value),
            Open::Option(inner) => *inner = Some(value),
        }
        Ok(())
    }

    /// Puts what was opened last into what is around it.
    fn close(&mut self) -> Result<(), Undecoded> {
        let value = match self.open.pop().ok_or(Undecoded)? {
            Open::Fields(fields) => Value::Object(fields),
            Open::List(values) => Value::List(values),
            Open::Option(inner) => inner.unwrap_or(Value::None),
        };
        self.put(value)
    }
}

impl Visitor for Collector {
    type Error = Undecoded;

    fn value(&mut self, value: walk::Value<'_>) -> Result<(), Undecoded> {
        use walk::Value as Walked;
        let value = match (value, self.nanos) {
            (Walked::U64(nanos), Nanos::Durations) => Value::Duration(Duration::from_nanos(nanos)),
            (Walked::I64(nanos), Nanos::Times) => Value::Time(time(nanos.into()).ok_or(Undecoded)?),
            (Walked::Bool(value), _) => Value::Bool(value),
            (Walked::U8(value), _) => Value::UInt(value.into()),
            (Walked::U16(value), _) => Value::UInt(value.into()),
            (Walked::U32(value), _) => Value::UInt(value.into()),
            (Walked::U64(value), _) => Value::UInt(value.into()),
            (Walked::U128(value), _) => Value::UInt(value),
            (Walked::I8(value), _) => Value::integer(value.into()),
            (Walked::I16(value), _) => Value::integer(value.into()),
            (Walked::I32(value), _) => Value::integer(value.into()),
            (Walked::I64(value), _) => Value::integer(value.into()),
            (Walked::I128(value), _) => Value::integer(value),
            (Walked::F32(value), _) => Value::F32(value),
            (Walked::F64(value), _) => Value::F64(value),
            (Walked::Utf16Unit(unit), _) => Value::Text(String::from_utf16_lossy(&[unit])),
            (Walked::Text(text), _) => Value::Text(text.to_string()),
            (Walked::Guid(bytes), _) => Value::Guid(bytes),
            (Walked::FileTime(units), _) => {
                let nanos = unix_nanos_of_file_time(units.into());
                Value::Time(time(nanos).ok_or(Undecoded)?)
            }
        };
        self.put(value)
    }

    fn begin_field(&mut self, field: &FieldSchema) -> Result<(), Undecoded> {
        self.expect(&field.ty);
        match self.open.last_mut() {
            Some(Open::Fields(fields)) => fields.push((field.name, Value::None)),
            _ => return Err(Undecoded),
        }
        Ok(())
    }

    fn begin_array(&mut self, element: &FieldType, _: usize) -> Result<(), Undecoded> {
        self.expect(element);
        self.open.push(Open::List(Vec::new()));
        Ok(())
    }

    fn end_array(&mut self) -> Result<(), Undecoded> {
        self.close()
    }

    fn begin_option(&mut self, ty: &FieldType, _: bool) -> Result<(), Undecoded> {
        self.expect(ty);
        self.open.push(Open::Option(None));
        Ok(())
    }

    fn end_option(&mut self) -> Result<(), Undecoded> {
        self.close()
    }

    fn begin_object(&mut self, _: &[FieldSchema]) -> Result<(), Undecoded> {
        self.open.push(Open::Fields(Vec::new()));
        Ok(())
    }

    fn end_object(&mut self) -> Result<(), Undecoded> {
        self.close()
    }
}

/// The payload is not one of these fields, or a time is beyond what `SystemTime` has.
struct Undecoded;

impl From<Mismatch> for Undecoded {
    fn from(_: Mismatch) -> Self {
        Self
    }
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
