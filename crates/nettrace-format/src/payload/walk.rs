//! Reads the values of a payload back.
//!
//! [`walk`] reads a payload that [`NetTraceEncoder`](super::NetTraceEncoder) wrote, by the fields
//! of its schema, and passes each value to a [`Visitor`]. Threads record payloads in one form,
//! whatever the session's format is; the other formats are converted from it this way.
//!
//! A walk allocates nothing. It accepts any bytes: bytes that do not match the schema are a
//! [`Mismatch`].
//!
//! ```
//! use nettrace_event::{ArrayLayout, FieldSchema, FieldType};
//! use nettrace_format::payload::walk::{Mismatch, Value, Visitor, walk};
//!
//! /// Shows a payload as text.
//! #[derive(Default)]
//! struct Shown(String);
//!
//! impl Visitor for Shown {
//!     type Error = Mismatch;
//!
//!     fn value(&mut self, value: Value<'_>) -> Result<(), Mismatch> {
//!         self.0 += &format!("{value:?} ");
//!         Ok(())
//!     }
//!     fn begin_field(&mut self, field: &FieldSchema) -> Result<(), Mismatch> {
//!         self.0 += &format!("{}: ", field.name);
//!         Ok(())
//!     }
//!     fn end_field(&mut self, _: &FieldSchema) -> Result<(), Mismatch> {
//!         self.0 += "; ";
//!         Ok(())
//!     }
//!     fn begin_array(&mut self, _: &FieldType, len: usize) -> Result<(), Mismatch> {
//!         self.0 += &format!("{len} of [ ");
//!         Ok(())
//!     }
//!     fn end_array(&mut self) -> Result<(), Mismatch> {
//!         self.0 += "]";
//!         Ok(())
//!     }
//!     fn begin_option(&mut self, _: &FieldType, present: bool) -> Result<(), Mismatch> {
//!         self.0 += if present { "some " } else { "none" };
//!         Ok(())
//!     }
//! }
//!
//! let fields = [
//!     FieldSchema::new("sizes", FieldType::Array(&FieldType::U8, ArrayLayout::Counted)),
//!     FieldSchema::new("port", FieldType::Option(&FieldType::U16)),
//! ];
//! let mut shown = Shown::default();
//! walk(&fields, &[2, 0, 3, 5, 0, 0], &mut shown)?;
//! assert_eq!(shown.0, "sizes: 2 of [ U8(3) U8(5) ]; port: none; ");
//! # Ok::<(), Mismatch>(())
//! ```

use core::fmt;

use nettrace_event::{ArrayLayout, FieldSchema, Storage, StrEncoding, guid};

use crate::{
    described::FieldDescription,
    primitive::{self, MAX_VARUINT64},
};

/// Receives what [`walk`] finds, in the order of the schema. Only [`value`](Self::value) must be
/// implemented; the other methods do nothing by default.
///
/// Calls are nested as in the schema: between `begin_field` and `end_field` comes one value, array,
/// option or object.
///
/// ```
/// use nettrace_event::{FieldSchema, FieldType};
/// use nettrace_format::payload::walk::{Mismatch, Value, Visitor, walk};
///
/// /// Writes the fields that are texts as `name=text`.
/// #[derive(Default)]
/// struct Texts {
///     field: &'static str,
///     all: String,
/// }
///
/// impl Visitor for Texts {
///     type Error = Mismatch;
///
///     fn begin_field(&mut self, field: &FieldSchema) -> Result<(), Mismatch> {
///         self.field = field.name;
///         Ok(())
///     }
///
///     fn value(&mut self, value: Value<'_>) -> Result<(), Mismatch> {
///         if let Value::Text(text) = value {
///             self.all += &format!("{}={text}", self.field);
///         }
///         Ok(())
///     }
/// }
///
/// let fields =
///     [FieldSchema::new("size", FieldType::U8), FieldSchema::new("key", FieldType::Char)];
/// let mut texts = Texts::default();
/// walk(&fields, &[5, 1, 0, b'x', 0], &mut texts)?;
/// assert_eq!(texts.all, "key=x");
/// # Ok::<(), Mismatch>(())
/// ```
pub trait Visitor<F: FieldDescription = FieldSchema> {
    /// The visitor's error, which ends the walk.
    type Error: From<Mismatch>;

    /// A value that contains no others.
    ///
    /// # Errors
    /// Any error of the visitor. It ends the walk. The same holds for all methods.
    fn value(&mut self, value: Value<'_>) -> Result<(), Self::Error>;

    /// The start of a field of the event or of an object; its value follows.
    ///
    /// # Errors
    /// Those of [`value`](Self::value).
    fn begin_field(&mut self, _field: &F) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The end of that field.
    ///
    /// # Errors
    /// Those of [`value`](Self::value).
    fn end_field(&mut self, _field: &F) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The start of an array of `len` elements, at most 65,535; they follow. The elements of a
    /// `RelLoc` or `DataLoc` array come at the place of their field.
    ///
    /// # Errors
    /// Those of [`value`](Self::value).
    fn begin_array(&mut self, _element: &F::Type, _len: usize) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The end of that array.
    ///
    /// # Errors
    /// Those of [`value`](Self::value).
    fn end_array(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The start of an option of type `ty`; its value follows if `present`.
    ///
    /// # Errors
    /// Those of [`value`](Self::value).
    fn begin_option(&mut self, _ty: &F::Type, _present: bool) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The end of that option.
    ///
    /// # Errors
    /// Those of [`value`](Self::value).
    fn end_option(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The start of an object; its fields follow.
    ///
    /// # Errors
    /// Those of [`value`](Self::value).
    fn begin_object(&mut self, _fields: &[F]) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The end of that object.
    ///
    /// # Errors
    /// Those of [`value`](Self::value).
    fn end_object(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// A value that contains no others.
///
/// [`walk`] has an example.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "most names say it all")]
pub enum Value<'a> {
    /// `Bool` and `Bool8`.
    Bool(bool),
    U8(u8),
    U16(u16),
    U32(u32),
    /// `U64` and `VarUInt`; `DurationNanos` is stored as one.
    U64(u64),
    U128(u128),
    I8(i8),
    I16(i16),
    I32(i32),
    /// `I64` and `VarInt`; `UnixNanos` is stored as one.
    I64(i64),
    I128(i128),
    F32(f32),
    F64(f64),
    /// One UTF-16 code unit on its own.
    Utf16Unit(u16),
    /// `Str` in every encoding, `Char`, `IpAddr`, `SocketAddr`.
    Text(Text<'a>),
    /// In the byte order of RFC 4122.
    Guid([u8; 16]),
    /// `DateTime`: units of 100 ns since 1601-01-01 UTC.
    FileTime(i64),
}

#[cfg(any(feature = "v5", feature = "heph"))]
impl Value<'_> {
    /// Writes the digits of a number, a truth or a GUID, which are the same in every format.
    /// `None`: it is a text, a part of one, or a time.
    pub(crate) fn write_plain(self, to: &mut impl fmt::Write) -> Option<fmt::Result> {
        Some(match self {
            Self::Bool(v) => write!(to, "{v}"),
            Self::U8(v) => write!(to, "{v}"),
            Self::U16(v) => write!(to, "{v}"),
            Self::U32(v) => write!(to, "{v}"),
            Self::U64(v) => write!(to, "{v}"),
            Self::U128(v) => write!(to, "{v}"),
            Self::I8(v) => write!(to, "{v}"),
            Self::I16(v) => write!(to, "{v}"),
            Self::I32(v) => write!(to, "{v}"),
            Self::I64(v) => write!(to, "{v}"),
            Self::I128(v) => write!(to, "{v}"),
            // The shortest form that reads back as the same number, with an exponent if large or
            // small.
            Self::F32(v) => write!(to, "{v:?}"),
            Self::F64(v) => write!(to, "{v:?}"),
            Self::Guid(v) => write!(to, "{}", guid::GuidText(&v)),
            Self::Utf16Unit(_) | Self::Text(_) | Self::FileTime(_) => return None,
        })
    }
}

/// The bytes of a text, without count and terminator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// UTF-16, little endian; an even number of bytes.
    Utf16(&'a [u8]),
    /// UTF-8.
    Utf8(&'a [u8]),
}

impl<'a> Text<'a> {
    /// The characters of the text. Invalid Unicode becomes U+FFFD.
    ///
    /// ```
    /// use nettrace_format::payload::walk::Text;
    ///
    /// // UTF-16 whose second unit is half of a pair.
    /// let text = Text::Utf16(&[b'a', 0, 0x00, 0xD8]);
    /// assert!(text.chars().eq(['a', '\u{FFFD}']));
    /// assert_eq!(Text::Utf8("für".as_bytes()).to_string(), "für");
    /// ```
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

/// A payload does not match its schema.
///
/// ```
/// use nettrace_event::{FieldSchema, FieldType};
/// use nettrace_format::payload::walk::{Mismatch, Value, Visitor, walk};
///
/// struct Check;
///
/// impl Visitor for Check {
///     type Error = Mismatch;
///
///     fn value(&mut self, _: Value<'_>) -> Result<(), Mismatch> {
///         Ok(())
///     }
/// }
///
/// // The second field is missing.
/// let fields = [FieldSchema::new("a", FieldType::U8), FieldSchema::new("b", FieldType::U32)];
/// assert_eq!(walk(&fields, &[1], &mut Check), Err(Mismatch { offset: 1 }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "at byte {offset} the payload does not match the event's fields; walk it with the schema that \
     it was encoded with"
)]
pub struct Mismatch {
    /// The offset in bytes from the payload's start at which the mismatch was found.
    pub offset: usize,
}

/// Passes the values of `payload`, whose fields are `fields`, to `visitor`. Returns how many bytes
/// they take, with the data of locations. Ignores bytes after these.
///
/// ```
/// use nettrace_event::{FieldSchema, FieldType};
/// use nettrace_format::payload::walk::{Mismatch, Value, Visitor, walk};
///
/// /// Adds up numbers.
/// #[derive(Default)]
/// struct Sum(u64);
///
/// impl Visitor for Sum {
///     type Error = Mismatch;
///
///     fn value(&mut self, value: Value<'_>) -> Result<(), Mismatch> {
///         if let Value::U32(number) = value {
///             self.0 += u64::from(number);
///         }
///         Ok(())
///     }
/// }
///
/// let fields = [FieldSchema::new("net", FieldType::U32), FieldSchema::new("tax", FieldType::U32)];
/// let mut sum = Sum::default();
/// walk(&fields, &[5, 0, 0, 0, 1, 0, 0, 0], &mut sum)?;
/// assert_eq!(sum.0, 6);
/// # Ok::<(), Mismatch>(())
/// ```
///
/// # Errors
/// [`Mismatch`] if the payload ends early, a location points outside the payload, the data of
/// locations overlaps, or its size is not a multiple of the element size; and any error of the
/// visitor.
pub fn walk<F: FieldDescription, V: Visitor<F>>(
    fields: &[F],
    payload: &[u8],
    visitor: &mut V,
) -> Result<usize, V::Error> {
    let end = payload.len();
    let budget = payload.len().saturating_mul(8).saturating_add(SPARE);
    let mut walker =
        Walker { payload, end, at: 0, located: 0, furthest: 0, budget, is_repeated: false };
    fields.iter().try_for_each(|field| walker.field(field, visitor))?;
    Ok(walker.at.max(walker.furthest))
}

/// How many elements, and fields of elements, a payload may have beyond eight for each of its
/// bytes. Without a limit, a few bytes with elements of size 0 (objects without fields) could keep
/// a walk busy for a long time. A long name counts as several, because a visitor may write it each
/// time.
const SPARE: usize = 1 << 10;

struct Walker<'a> {
    payload: &'a [u8],
    /// The end of the bytes being read: the end of the payload or of a location's data.
    end: usize,
    at: usize,
    /// The total size of the data that locations pointed at so far: at most the payload's size.
    located: usize,
    /// The end of the data of the location that points furthest.
    furthest: usize,
    /// How many more values in arrays are accepted.
    budget: usize,
    /// Whether the value is part of an array.
    is_repeated: bool,
}

impl<'a> Walker<'a> {
    fn field<F: FieldDescription, V: Visitor<F>>(
        &mut self,
        field: &F,
        visitor: &mut V,
    ) -> Result<(), V::Error> {
        if self.is_repeated {
            self.spend(field.name().len() / 64)?;
        }
        visitor.begin_field(field)?;
        self.ty::<F, V>(field.ty(), visitor)?;
        visitor.end_field(field)
    }

    fn spend(&mut self, values: usize) -> Result<(), Mismatch> {
        self.budget = self.budget.checked_sub(values).ok_or_else(|| self.mismatch())?;
        Ok(())
    }

    fn ty<F: FieldDescription, V: Visitor<F>>(
        &mut self,
        ty: &F::Type,
        visitor: &mut V,
    ) -> Result<(), V::Error> {
        if self.is_repeated {
            self.spend(1)?;
        }
        let value = match F::storage(ty) {
            Storage::Bool => Value::Bool(u32::from_le_bytes(self.array()?) != 0),
            Storage::Bool8 => Value::Bool(self.array::<1>()? != [0]),
            Storage::U8 => Value::U8(u8::from_le_bytes(self.array()?)),
            Storage::U16 => Value::U16(u16::from_le_bytes(self.array()?)),
            Storage::U32 => Value::U32(u32::from_le_bytes(self.array()?)),
            Storage::U64 => Value::U64(u64::from_le_bytes(self.array()?)),
            Storage::U128 => Value::U128(u128::from_le_bytes(self.array()?)),
            Storage::I8 => Value::I8(i8::from_le_bytes(self.array()?)),
            Storage::I16 => Value::I16(i16::from_le_bytes(self.array()?)),
            Storage::I32 => Value::I32(i32::from_le_bytes(self.array()?)),
            Storage::I64 => Value::I64(i64::from_le_bytes(self.array()?)),
            Storage::I128 => Value::I128(i128::from_le_bytes(self.array()?)),
            Storage::F32 => Value::F32(f32::from_le_bytes(self.array()?)),
            Storage::F64 => Value::F64(f64::from_le_bytes(self.array()?)),
            Storage::VarUInt => Value::U64(self.varuint()?),
            Storage::VarInt => {
                let coded = self.varuint()?;
                Value::I64((coded >> 1) as i64 ^ -((coded & 1) as i64))
            }
            Storage::Utf16Unit => Value::Utf16Unit(u16::from_le_bytes(self.array()?)),
            // `guid` converts in both directions, because it only reverses bytes.
            Storage::Guid => Value::Guid(guid::swapped(&self.array()?)),
            Storage::DateTime => Value::FileTime(i64::from_le_bytes(self.array()?)),
            Storage::Text(encoding) => self.text(encoding)?,
            Storage::Array(element, layout) => {
                return self.sequence::<F, V>(element, layout, visitor);
            }
            Storage::Option(item) => return self.option::<F, V>(item, visitor),
            Storage::Object(fields) => {
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

    fn sequence<F: FieldDescription, V: Visitor<F>>(
        &mut self,
        element: &F::Type,
        layout: ArrayLayout,
        visitor: &mut V,
    ) -> Result<(), V::Error> {
        let relative = match layout {
            ArrayLayout::Counted => {
                let count = u16::from_le_bytes(self.array()?);
                return self.elements::<F, V>(element, count.into(), visitor);
            }
            ArrayLayout::Fixed(count) => {
                return self.elements::<F, V>(element, count.into(), visitor);
            }
            ArrayLayout::RelLoc => true,
            ArrayLayout::DataLoc => false,
        };
        let (start, end) = self.location(relative)?;
        // The elements of a location have a fixed size, so the size of its data gives their number.
        let len = match F::fixed_size(element) {
            Some(size @ 1..) if (end - start) % size == 0 => (end - start) / size,
            _ => return Err(self.mismatch().into()),
        };
        let back = (self.at, self.end);
        (self.at, self.end) = (start, end);
        self.elements::<F, V>(element, len, visitor)?;
        (self.at, self.end) = back;
        Ok(())
    }

    fn elements<F: FieldDescription, V: Visitor<F>>(
        &mut self,
        element: &F::Type,
        len: usize,
        visitor: &mut V,
    ) -> Result<(), V::Error> {
        visitor.begin_array(element, len)?;
        let around = core::mem::replace(&mut self.is_repeated, true);
        for _ in 0..len {
            self.ty::<F, V>(element, visitor)?;
        }
        self.is_repeated = around;
        visitor.end_array()
    }

    fn option<F: FieldDescription, V: Visitor<F>>(
        &mut self,
        item: &F::Type,
        visitor: &mut V,
    ) -> Result<(), V::Error> {
        let present = match u16::from_le_bytes(self.array()?) {
            0 => false,
            1 => true,
            _ => return Err(self.mismatch().into()),
        };
        visitor.begin_option(item, present)?;
        if present {
            self.ty::<F, V>(item, visitor)?;
        }
        visitor.end_option()
    }

    /// Reads a location and returns the start and end of its data.
    fn location(&mut self, relative: bool) -> Result<(usize, usize), Mismatch> {
        let word = u32::from_le_bytes(self.array()?);
        let origin = if relative { self.at } else { 0 };
        let start = origin + (word & 0xffff) as usize;
        let size = (word >> 16) as usize;
        self.located += size;
        if start + size > self.payload.len() || self.located > self.payload.len() {
            return Err(self.mismatch());
        }
        self.furthest = self.furthest.max(start + size);
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
