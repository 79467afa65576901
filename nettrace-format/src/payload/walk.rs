//! The way back: the values of a payload, told one by one.
//!
//! [`walk`] goes through a payload that [`NetTraceEncoder`](super::NetTraceEncoder) wrote, by the
//! fields of its schema, and tells a [`Visitor`] what it finds. It is how other formats are made
//! from recorded events: threads record one form, whatever the session's format is.
//!
//! Nothing is allocated. Any bytes are walked: what does not fit the schema is a [`Mismatch`].

use core::fmt;

use trace_event::{ArrayLayout, FieldSchema, FieldType, StrEncoding};

use crate::primitive::{self, MAX_VARUINT64};

/// Takes what [`walk`] finds, in the order of the schema. All methods but
/// [`value`](Self::value) do nothing unless they are written.
///
/// Calls are nested as the schema is: between `begin_field` and `end_field` is one value, or one
/// array, option or object.
pub trait Visitor {
    /// Why a visitor wants no more.
    type Error: From<Mismatch>;

    /// A value that holds no others.
    ///
    /// # Errors
    /// As the visitor has them; the walk ends there, as with all methods.
    fn value(&mut self, value: Value<'_>) -> Result<(), Self::Error>;

    /// A field of the event or of an object; its value follows.
    ///
    /// # Errors
    /// As with [`value`](Self::value).
    fn begin_field(&mut self, _field: &FieldSchema) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The end of that field.
    ///
    /// # Errors
    /// As with [`value`](Self::value).
    fn end_field(&mut self, _field: &FieldSchema) -> Result<(), Self::Error> {
        Ok(())
    }

    /// An array of `len` elements, at most 65,535; they follow. Located arrays come where their
    /// field stands.
    ///
    /// # Errors
    /// As with [`value`](Self::value).
    fn begin_array(&mut self, _element: &FieldType, _len: usize) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The end of that array.
    ///
    /// # Errors
    /// As with [`value`](Self::value).
    fn end_array(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// A value of the named type that may be absent; it follows if `present`.
    ///
    /// # Errors
    /// As with [`value`](Self::value).
    fn begin_option(&mut self, _ty: &FieldType, _present: bool) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The end of that option.
    ///
    /// # Errors
    /// As with [`value`](Self::value).
    fn end_option(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// An object; its fields follow.
    ///
    /// # Errors
    /// As with [`value`](Self::value).
    fn begin_object(&mut self, _fields: &[FieldSchema]) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The end of that object.
    ///
    /// # Errors
    /// As with [`value`](Self::value).
    fn end_object(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// A value that holds no others.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "most names say it all")]
pub enum Value<'a> {
    /// `Bool` and `Bool8`.
    Bool(bool),
    U8(u8),
    U16(u16),
    U32(u32),
    /// `U64` and `VarUInt`.
    U64(u64),
    U128(u128),
    I8(i8),
    I16(i16),
    I32(i32),
    /// `I64` and `VarInt`.
    I64(i64),
    I128(i128),
    F32(f32),
    F64(f64),
    /// One UTF-16 code unit on its own.
    Utf16Unit(u16),
    /// `Str` in all its spellings, `Char`, `IpAddr`, `SocketAddr`.
    Text(Text<'a>),
    /// In the byte order of RFC 4122.
    Guid([u8; 16]),
    /// Nanoseconds since 1970-01-01 UTC.
    UnixNanos(i64),
    /// `DateTime`: 100 ns units since 1601-01-01 UTC.
    FileTime(i64),
    /// Nanoseconds.
    DurationNanos(u64),
}

/// The bytes of a text, without count or terminator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// UTF-16, little endian; an even number of bytes.
    Utf16(&'a [u8]),
    /// UTF-8.
    Utf8(&'a [u8]),
}

impl<'a> Text<'a> {
    /// The characters; what is no Unicode becomes U+FFFD.
    pub fn chars(self) -> impl Iterator<Item = char> + 'a {
        let (wide, narrow) = match self {
            Self::Utf16(bytes) => (bytes, &[][..]),
            Self::Utf8(bytes) => (&[][..], bytes),
        };
        let units = wide.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
        let wide = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
        wide.chain(narrow.utf8_chunks().flat_map(|chunk| {
            let bad = (!chunk.invalid().is_empty()).then_some(char::REPLACEMENT_CHARACTER);
            chunk.valid().chars().chain(bad)
        }))
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.chars().try_for_each(|c| fmt::Write::write_char(f, c))
    }
}

/// A payload that is not what its schema says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Bytes from the payload's start to where it was noticed.
    pub offset: usize,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "at byte {} the payload is not what the event's fields say; walk it by the schema that \
             it was encoded with",
            self.offset
        )
    }
}

impl core::error::Error for Mismatch {}

/// Tells `visitor` the values of `payload`, whose fields are `fields`. Bytes behind the last field
/// that no location points at are ignored.
///
/// # Errors
/// [`Mismatch`] where the payload ends early, a location points outside of it, or located data
/// overlaps or is no multiple of its elements; and whatever the visitor returns.
pub fn walk<V: Visitor>(
    fields: &[FieldSchema],
    payload: &[u8],
    visitor: &mut V,
) -> Result<(), V::Error> {
    let mut walker = Walker { payload, end: payload.len(), at: 0, located: 0, spare: SPARE };
    fields.iter().try_for_each(|field| walker.field(field, visitor))
}

/// How many values without a size of their own a payload may have (objects without fields, arrays of
/// none), as elements and as fields: so that few bytes cannot keep a walk busy for long.
const SPARE: usize = 1 << 16;

struct Walker<'a> {
    payload: &'a [u8],
    /// Where the bytes end that are being read: the payload's end, or that of located data.
    end: usize,
    at: usize,
    /// Bytes that locations have pointed at: never more than there are.
    located: usize,
    spare: usize,
}

impl<'a> Walker<'a> {
    fn field<V: Visitor>(&mut self, field: &FieldSchema, visitor: &mut V) -> Result<(), V::Error> {
        visitor.begin_field(field)?;
        self.sized(&field.ty, visitor)?;
        visitor.end_field(field)
    }

    /// A value, which is one of a few if it has no size.
    fn sized<V: Visitor>(&mut self, ty: &FieldType, visitor: &mut V) -> Result<(), V::Error> {
        let before = self.at;
        self.ty(ty, visitor)?;
        if self.at == before {
            self.spare = self.spare.checked_sub(1).ok_or_else(|| self.mismatch())?;
        }
        Ok(())
    }

    fn ty<V: Visitor>(&mut self, ty: &FieldType, visitor: &mut V) -> Result<(), V::Error> {
        let value = match *ty {
            FieldType::Bool => Value::Bool(u32::from_le_bytes(self.array()?) != 0),
            FieldType::Bool8 => Value::Bool(self.array::<1>()? != [0]),
            FieldType::U8 => Value::U8(u8::from_le_bytes(self.array()?)),
            FieldType::U16 => Value::U16(u16::from_le_bytes(self.array()?)),
            FieldType::U32 => Value::U32(u32::from_le_bytes(self.array()?)),
            FieldType::U64 => Value::U64(u64::from_le_bytes(self.array()?)),
            FieldType::U128 => Value::U128(u128::from_le_bytes(self.array()?)),
            FieldType::I8 => Value::I8(i8::from_le_bytes(self.array()?)),
            FieldType::I16 => Value::I16(i16::from_le_bytes(self.array()?)),
            FieldType::I32 => Value::I32(i32::from_le_bytes(self.array()?)),
            FieldType::I64 => Value::I64(i64::from_le_bytes(self.array()?)),
            FieldType::I128 => Value::I128(i128::from_le_bytes(self.array()?)),
            FieldType::F32 => Value::F32(f32::from_le_bytes(self.array()?)),
            FieldType::F64 => Value::F64(f64::from_le_bytes(self.array()?)),
            FieldType::VarUInt => Value::U64(self.varuint()?),
            FieldType::VarInt => {
                let coded = self.varuint()?;
                Value::I64((coded >> 1) as i64 ^ -((coded & 1) as i64))
            }
            FieldType::Utf16Unit => Value::Utf16Unit(u16::from_le_bytes(self.array()?)),
            // The three numbers are little endian; turning them around twice changes nothing.
            FieldType::Guid => Value::Guid(primitive::guid(&self.array()?)),
            FieldType::UnixNanos => Value::UnixNanos(i64::from_le_bytes(self.array()?)),
            FieldType::DateTime => Value::FileTime(i64::from_le_bytes(self.array()?)),
            FieldType::DurationNanos => Value::DurationNanos(u64::from_le_bytes(self.array()?)),
            FieldType::Char | FieldType::IpAddr | FieldType::SocketAddr => {
                self.counted_text(false)?
            }
            FieldType::Str(encoding) => self.text(encoding)?,
            FieldType::Array(element, layout) => return self.sequence(element, layout, visitor),
            FieldType::Option(item) => return self.option(item, visitor),
            FieldType::Object(fields) => {
                visitor.begin_object(fields)?;
                fields.iter().try_for_each(|field| self.field(field, visitor))?;
                return visitor.end_object();
            }
        };
        visitor.value(value)
    }

    fn text(&mut self, encoding: StrEncoding) -> Result<Value<'a>, Mismatch> {
        let (narrow, relative) = match encoding {
            StrEncoding::Utf16 => return self.counted_text(false),
            StrEncoding::Utf8 => return self.counted_text(true),
            StrEncoding::Utf16Nul => {
                let rest = &self.payload[self.at..self.end];
                let units = rest.chunks_exact(2).position(|unit| unit == [0, 0]);
                let text = self.bytes(2 * units.ok_or_else(|| self.mismatch())?)?;
                self.at += 2;
                return Ok(Value::Text(Text::Utf16(text)));
            }
            StrEncoding::Utf16RelLoc => (false, true),
            StrEncoding::Utf16DataLoc => (false, false),
            StrEncoding::Utf8RelLoc => (true, true),
            StrEncoding::Utf8DataLoc => (true, false),
        };
        let (start, end) = self.location(relative)?;
        let bytes = &self.payload[start..end];
        if narrow {
            return Ok(Value::Text(Text::Utf8(bytes)));
        }
        if bytes.len() % 2 != 0 {
            return Err(self.mismatch());
        }
        Ok(Value::Text(Text::Utf16(bytes)))
    }

    fn counted_text(&mut self, narrow: bool) -> Result<Value<'a>, Mismatch> {
        let count = usize::from(u16::from_le_bytes(self.array()?));
        Ok(Value::Text(if narrow {
            Text::Utf8(self.bytes(count)?)
        } else {
            Text::Utf16(self.bytes(2 * count)?)
        }))
    }

    fn sequence<V: Visitor>(
        &mut self,
        element: &FieldType,
        layout: ArrayLayout,
        visitor: &mut V,
    ) -> Result<(), V::Error> {
        let relative = match layout {
            ArrayLayout::Counted => {
                let count = u16::from_le_bytes(self.array()?);
                return self.elements(element, count.into(), visitor);
            }
            ArrayLayout::Fixed(count) => return self.elements(element, count.into(), visitor),
            ArrayLayout::RelLoc => true,
            ArrayLayout::DataLoc => false,
        };
        let (start, end) = self.location(relative)?;
        // Elements of located arrays are of one size, so that their number is known beforehand.
        let len = match fixed_size(element) {
            Some(size @ 1..) if (end - start) % size == 0 => (end - start) / size,
            _ => return Err(self.mismatch().into()),
        };
        let back = (self.at, self.end);
        (self.at, self.end) = (start, end);
        self.elements(element, len, visitor)?;
        (self.at, self.end) = back;
        Ok(())
    }

    fn elements<V: Visitor>(
        &mut self,
        element: &FieldType,
        len: usize,
        visitor: &mut V,
    ) -> Result<(), V::Error> {
        visitor.begin_array(element, len)?;
        for _ in 0..len {
            self.sized(element, visitor)?;
        }
        visitor.end_array()
    }

    fn option<V: Visitor>(&mut self, item: &FieldType, visitor: &mut V) -> Result<(), V::Error> {
        let present = match u16::from_le_bytes(self.array()?) {
            0 => false,
            1 => true,
            _ => return Err(self.mismatch().into()),
        };
        visitor.begin_option(item, present)?;
        if present {
            self.ty(item, visitor)?;
        }
        visitor.end_option()
    }

    /// Where located data begins and ends.
    fn location(&mut self, relative: bool) -> Result<(usize, usize), Mismatch> {
        let word = u32::from_le_bytes(self.array()?);
        let origin = if relative { self.at } else { 0 };
        let start = origin + (word & 0xffff) as usize;
        let size = (word >> 16) as usize;
        self.located += size;
        if start + size > self.payload.len() || self.located > self.payload.len() {
            return Err(self.mismatch());
        }
        Ok((start, start + size))
    }

    fn varuint(&mut self) -> Result<u64, Mismatch> {
        let mut at = self.at;
        let value = primitive::read_varuint(&self.payload[..self.end], &mut at, MAX_VARUINT64);
        let value = value.ok_or_else(|| self.mismatch())?;
        self.at = at;
        Ok(value)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Mismatch> {
        let rest = &self.payload[self.at..self.end];
        let bytes = *rest.first_chunk().ok_or_else(|| self.mismatch())?;
        self.at += N;
        Ok(bytes)
    }

    fn bytes(&mut self, len: usize) -> Result<&'a [u8], Mismatch> {
        let rest = &self.payload[self.at..self.end];
        let bytes = rest.get(..len).ok_or_else(|| self.mismatch())?;
        self.at += len;
        Ok(bytes)
    }

    fn mismatch(&self) -> Mismatch {
        Mismatch { offset: self.at }
    }
}

/// Bytes of every value of the type, or `None` where they vary.
fn fixed_size(of: &FieldType) -> Option<usize> {
    crate::v6::types::fixed_size(of)
}
