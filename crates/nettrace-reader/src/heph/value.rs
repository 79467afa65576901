//! Attributes and their values.

use crate::{
    error::Result,
    heph::bytes::{Bytes, Read, damaged},
};

/// The bit in an attribute's type that marks an array. The other bits are the type of the elements.
const ARRAY: u8 = 0x80;

/// The value of an attribute, or one element of an array.
///
/// ```
/// use nettrace_reader::heph::Value;
///
/// /// An attribute as a number, whatever type it has.
/// fn number(value: &Value<'_>) -> Option<f64> {
///     match value {
///         Value::U64(value) => Some(*value as f64),
///         Value::I64(value) => Some(*value as f64),
///         Value::F64(value) => Some(*value),
///         _ => None,
///     }
/// }
///
/// assert_eq!(number(&Value::I64(-2)), Some(-2.0));
/// assert_eq!(number(&Value::Text("-2")), None);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs)] // the names say it
pub enum Value<'a> {
    U64(u64),
    I64(i64),
    F64(f64),
    Text(&'a str),
    Array(Array<'a>),
}

/// The type of a value that is not an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)] // the names say it
pub enum Kind {
    U64,
    I64,
    F64,
    Text,
}

impl Kind {
    fn of(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::U64),
            2 => Some(Self::I64),
            3 => Some(Self::F64),
            4 => Some(Self::Text),
            _ => None,
        }
    }

    fn read<'a>(self, bytes: &mut Bytes<'a>) -> Read<Value<'a>> {
        Ok(match self {
            Self::U64 => Value::U64(bytes.u64()?),
            Self::I64 => Value::I64(bytes.u64()? as i64),
            Self::F64 => Value::F64(f64::from_bits(bytes.u64()?)),
            Self::Text => Value::Text(bytes.string()?),
        })
    }
}

/// An array: values of one type, none of which is an array.
///
/// ```
/// use nettrace_reader::heph::{Kind, Reader, Value};
///
/// # let file = nettrace_reader::heph_example();
/// # let mut reader = Reader::new(&file[..]);
/// let event = reader.next_event()?.unwrap();
/// let (name, value) = event.attributes().nth(1).unwrap()?;
/// let Value::Array(items) = value else { panic!("{name} is no array") };
/// assert_eq!((items.kind(), items.len(), items.is_empty()), (Kind::Text, 2, false));
/// assert!(items.iter().eq([Value::Text("tea"), Value::Text("cup")]));
/// # Ok::<(), nettrace_reader::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Array<'a> {
    kind: Kind,
    len: u16,
    /// The bytes of the elements, which are known to be valid.
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// The type of its elements.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The number of elements: at most 65,535.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.into()
    }

    /// Whether it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its elements, in order.
    #[must_use]
    pub fn iter(&self) -> Elements<'a> {
        Elements { kind: self.kind, left: self.len, bytes: Bytes::new(self.bytes, 0) }
    }

    fn read(kind: Kind, bytes: &mut Bytes<'a>) -> Read<Self> {
        let len = bytes.u16()?;
        let all = bytes.rest();
        if kind == Kind::Text {
            for _ in 0..len {
                bytes.string()?;
            }
        } else {
            bytes.take(8 * usize::from(len))?;
        }
        Ok(Self { kind, len, bytes: &all[..all.len() - bytes.rest().len()] })
    }
}

impl PartialEq for Array<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.iter().eq(other.iter())
    }
}

impl<'a> IntoIterator for &Array<'a> {
    type Item = Value<'a>;
    type IntoIter = Elements<'a>;

    fn into_iter(self) -> Elements<'a> {
        self.iter()
    }
}

/// The elements of an array.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    kind: Kind,
    left: u16,
    bytes: Bytes<'a>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        // They were checked before.
        self.kind.read(&mut self.bytes).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left.into(), Some(self.left.into()))
    }
}

impl ExactSizeIterator for Elements<'_> {}

/// The attributes of an event: an iterator over names and values. It ends after an error.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    bytes: Bytes<'a>,
}

impl<'a> Attributes<'a> {
    pub(super) fn new(bytes: Bytes<'a>) -> Self {
        Self { bytes }
    }

    fn read(&mut self) -> Read<(&'a str, Value<'a>)> {
        let name = self.bytes.string()?;
        let unknown = self.bytes.damage("an attribute has a type that the format does not know");
        let code = self.bytes.u8()?;
        let kind = Kind::of(code & !ARRAY).ok_or(unknown)?;
        let value = if code & ARRAY == 0 {
            kind.read(&mut self.bytes)?
        } else {
            Value::Array(Array::read(kind, &mut self.bytes)?)
        };
        Ok((name, value))
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<(&'a str, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.rest().is_empty() {
            return None;
        }
        let result = self.read();
        if result.is_err() {
            self.bytes = Bytes::new(&[], self.bytes.offset());
        }
        Some(result.map_err(damaged))
    }
}
