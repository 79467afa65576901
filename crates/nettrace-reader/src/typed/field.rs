//! The types of fields that can be read.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    fmt,
    hash::{BuildHasher, Hash},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    num::NonZero,
    rc::Rc,
    sync::Arc,
    time::{Duration, SystemTime},
};

use nettrace_event::{
    calendar::FILE_TIME_OF_1970,
    guid::{self, GuidText},
};

use crate::{
    typed::Values,
    value::{Decimal, Value},
};

/// A field that is read as a value of this type. `#[derive(ReadField)]` implements it for nested
/// structs, and for enums without fields, by name or by number.
///
/// | Rust type | value |
/// |---|---|
/// | integers, `NonZero` | any integer that fits |
/// | `f64`, `f32` | a floating-point number; `f32` from a `Single` alone |
/// | `bool`, `String`, `char` | the same |
/// | `Box<str>`, `Arc<str>`, `Cow<'_, str>` | text |
/// | `Duration`, `SystemTime` | nanoseconds; a time also as a `DateTime` of eight bytes |
/// | `IpAddr` and the like | text |
/// | [`Guid`], [`Decimal`] | the same |
/// | `Vec<T>`, `[T; N]` | an array |
/// | `Option<T>` | an array of zero or one element; `None` if the event lacks the field. An empty list that was recorded before the field became optional is `None`, too |
/// | tuples, maps | what `TraceField` makes of them |
/// | `Box<T>`, `Rc<T>`, `Arc<T>` | as `T` |
///
/// ```
/// use nettrace_reader::{ReadField, Value};
///
/// assert_eq!(u64::read_field(Value::U16(7)), Some(7));
/// assert_eq!(u16::read_field(Value::U64(70_000)), None);
/// assert_eq!(Option::<u8>::absent(), Some(None));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from a trace",
    label = "not a type of a field that is read",
    note = "fields are owned: `String` instead of `&str`, `Vec<T>` instead of `&[T]`; derive \
            `ReadField` for a struct or enum of your own"
)]
pub trait ReadField: Sized {
    /// Whether its values are arrays, as those of lists, options and maps are. Version 6 has no
    /// arrays of arrays, so such a value within another is the one field of an object.
    const IS_ARRAY: bool = false;

    /// Whether its values are code units of UTF-16. An array of these is a text for readers.
    const IS_UNIT: bool = false;

    /// The value as this type, if it is one.
    fn read_field(value: Value<'_>) -> Option<Self>;

    /// What a field is that the event does not have.
    #[must_use]
    fn absent() -> Option<Self> {
        None
    }
}

/// A GUID, by its bytes in the order of RFC 4122.
///
/// ```
/// let guid = nettrace_reader::Guid([0x0a, 0x1b, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
/// assert_eq!(guid.to_string(), "0a1b0203-0405-0607-0809-0a0b0c0d0e0f");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub [u8; 16]);

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        GuidText(&self.0).fmt(f)
    }
}

impl ReadField for Guid {
    fn read_field(value: Value<'_>) -> Option<Self> {
        if let Value::Guid(bytes) = value { Some(Self(guid::swapped(&bytes))) } else { None }
    }
}

impl ReadField for Decimal {
    fn read_field(value: Value<'_>) -> Option<Self> {
        if let Value::Decimal(value) = value { Some(value) } else { None }
    }
}

/// Any integer.
fn integer(value: &Value<'_>) -> Option<i128> {
    Some(match value {
        Value::I8(value) => (*value).into(),
        Value::U8(value) | Value::Utf8CodeUnit(value) => (*value).into(),
        Value::I16(value) => (*value).into(),
        Value::U16(value) | Value::Utf16CodeUnit(value) => (*value).into(),
        Value::I32(value) => (*value).into(),
        Value::U32(value) => (*value).into(),
        Value::I64(value) => (*value).into(),
        Value::U64(value) => (*value).into(),
        _ => return None,
    })
}

macro_rules! integers {
    ($($ty:ident $is_unit:literal;)+) => {$(
        impl ReadField for $ty {
            const IS_UNIT: bool = $is_unit;

            fn read_field(value: Value<'_>) -> Option<Self> {
                integer(&value)?.try_into().ok()
            }
        }

        impl ReadField for NonZero<$ty> {
            fn read_field(value: Value<'_>) -> Option<Self> {
                Self::new(<$ty>::read_field(value)?)
            }
        }
    )+};
}

integers! {
    u8 false; u16 true; u32 false; u64 false; usize false;
    i8 false; i16 false; i32 false; i64 false; isize false;
}

/// The parts of an integer of 128 bits.
fn halves<T: ReadField>(value: Value<'_>) -> Option<(u64, T)> {
    let mut values = Values::of_object(value)?;
    Some((values.take("low").ok()?, values.take("high").ok()?))
}

impl ReadField for u128 {
    fn read_field(value: Value<'_>) -> Option<Self> {
        if let Some(small) = integer(&value) {
            return small.try_into().ok();
        }
        let (low, high) = halves::<u64>(value)?;
        Some(Self::from(high) << 64 | Self::from(low))
    }
}

impl ReadField for i128 {
    fn read_field(value: Value<'_>) -> Option<Self> {
        if let Some(small) = integer(&value) {
            return Some(small);
        }
        let (low, high) = halves::<i64>(value)?;
        Some(Self::from(high) << 64 | Self::from(low))
    }
}

impl ReadField for f64 {
    fn read_field(value: Value<'_>) -> Option<Self> {
        match value {
            Value::F64(value) => Some(value),
            Value::F32(value) => Some(value.into()),
            _ => None,
        }
    }
}

impl ReadField for f32 {
    fn read_field(value: Value<'_>) -> Option<Self> {
        if let Value::F32(value) = value { Some(value) } else { None }
    }
}

impl ReadField for bool {
    fn read_field(value: Value<'_>) -> Option<Self> {
        if let Value::Bool(value) = value { Some(value) } else { None }
    }
}

impl ReadField for String {
    fn read_field(value: Value<'_>) -> Option<Self> {
        if let Value::Text(text) = value { Some(text.into_owned()) } else { None }
    }
}

macro_rules! from_string {
    ($($ty:ty)+) => {$(
        impl ReadField for $ty {
            fn read_field(value: Value<'_>) -> Option<Self> {
                String::read_field(value).map(Into::into)
            }
        }
    )+};
}

from_string! { Box<str> Rc<str> Arc<str> Cow<'_, str> }

macro_rules! parsed {
    ($($ty:ty)+) => {$(
        impl ReadField for $ty {
            fn read_field(value: Value<'_>) -> Option<Self> {
                if let Value::Text(text) = value { text.parse().ok() } else { None }
            }
        }
    )+};
}

parsed! { IpAddr Ipv4Addr Ipv6Addr SocketAddr SocketAddrV4 SocketAddrV6 }

impl ReadField for char {
    const IS_UNIT: bool = true;

    fn read_field(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Text(text) => text.parse().ok(),
            Value::Utf16CodeUnit(unit) => Self::from_u32(unit.into()),
            _ => None,
        }
    }
}

impl ReadField for Duration {
    fn read_field(value: Value<'_>) -> Option<Self> {
        u64::read_field(value).map(Self::from_nanos)
    }
}

impl ReadField for SystemTime {
    fn read_field(value: Value<'_>) -> Option<Self> {
        if let Value::FileTime(ticks) = value {
            let since = Duration::from_secs(ticks / 10_000_000)
                + Duration::from_nanos(ticks % 10_000_000 * 100);
            let epoch = Self::UNIX_EPOCH
                .checked_sub(Duration::from_secs(FILE_TIME_OF_1970 / 10_000_000))?;
            return epoch.checked_add(since);
        }
        let nanos = i64::read_field(value)?;
        let since = Duration::from_nanos(nanos.unsigned_abs());
        match nanos {
            0.. => Self::UNIX_EPOCH.checked_add(since),
            _ => Self::UNIX_EPOCH.checked_sub(since),
        }
    }
}

/// The elements of an array. That of code units is a text.
fn elements<T: ReadField>(value: Value<'_>) -> Option<Vec<Value<'_>>> {
    Some(match value {
        Value::Array(values) => values,
        Value::Bytes(bytes) => bytes.iter().copied().map(Value::U8).collect(),
        Value::Text(text) if T::IS_UNIT => text.encode_utf16().map(Value::Utf16CodeUnit).collect(),
        _ => return None,
    })
}

/// An element. One that is an array is the field `name` of an object.
fn element<T: ReadField>(value: Value<'_>, name: &str) -> Option<T> {
    match value {
        Value::Object(mut fields)
            if T::IS_ARRAY && matches!(fields[..], [(own, _)] if own == name) =>
        {
            T::read_field(fields.pop()?.1)
        }
        value => T::read_field(value),
    }
}

impl<T: ReadField> ReadField for Vec<T> {
    const IS_ARRAY: bool = true;

    fn read_field(value: Value<'_>) -> Option<Self> {
        elements::<T>(value)?.into_iter().map(|value| element(value, "items")).collect()
    }
}

impl<T: ReadField, const N: usize> ReadField for [T; N] {
    const IS_ARRAY: bool = true;

    fn read_field(value: Value<'_>) -> Option<Self> {
        Vec::read_field(value)?.try_into().ok()
    }
}

impl<T: ReadField> ReadField for Option<T> {
    const IS_ARRAY: bool = true;

    fn read_field(value: Value<'_>) -> Option<Self> {
        if let Value::Text(_) = value {
            // Otherwise it is an option of a code unit.
            if let Some(value) = T::read_field(value.clone()) {
                return Some(Some(value));
            }
        }
        let mut values = elements::<T>(value.clone()).map(Vec::into_iter);
        match values.as_mut().map(|values| (values.next(), values.next())) {
            Some((None, _)) => return Some(None),
            Some((Some(value), None)) => {
                if let Some(value) = element(value, "value") {
                    return Some(Some(value));
                }
            }
            _ => {}
        }
        // An event that was recorded before the field became optional.
        T::read_field(value).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

macro_rules! pointers {
    ($($pointer:ident)+) => {$(
        impl<T: ReadField> ReadField for $pointer<T> {
            const IS_ARRAY: bool = T::IS_ARRAY;

            fn read_field(value: Value<'_>) -> Option<Self> {
                T::read_field(value).map(Self::new)
            }

            fn absent() -> Option<Self> {
                T::absent().map(Self::new)
            }
        }
    )+};
}

pointers! { Box Rc Arc }

/// The entries of a map.
fn entries<K: ReadField, V: ReadField, M: FromIterator<(K, V)>>(value: Value<'_>) -> Option<M> {
    let entry = |value| {
        let mut values = Values::of_object(value)?;
        Some((values.take("Key").ok()?, values.take("Value").ok()?))
    };
    elements::<K>(value)?.into_iter().map(entry).collect()
}

impl<K: ReadField + Ord, V: ReadField> ReadField for BTreeMap<K, V> {
    const IS_ARRAY: bool = true;

    fn read_field(value: Value<'_>) -> Option<Self> {
        entries(value)
    }
}

impl<K, V, S> ReadField for HashMap<K, V, S>
where
    K: ReadField + Eq + Hash,
    V: ReadField,
    S: BuildHasher + Default,
{
    const IS_ARRAY: bool = true;

    fn read_field(value: Value<'_>) -> Option<Self> {
        entries(value)
    }
}

macro_rules! tuples {
    ($($($ty:ident)+;)+) => {$(
        impl<$($ty: ReadField),+> ReadField for ($($ty,)+) {
            fn read_field(value: Value<'_>) -> Option<Self> {
                let Value::Object(fields) = value else { return None };
                let mut values = fields.into_iter();
                let tuple = ($($ty::read_field(values.next()?.1)?,)+);
                values.next().is_none().then_some(tuple)
            }
        }
    )+};
}

tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
    A B C D E F G H I;
    A B C D E F G H I J;
    A B C D E F G H I J K;
    A B C D E F G H I J K L;
}
