//! Decodes payloads into typed values.

use std::{borrow::Cow, fmt, slice};

use nettrace_format::{Cursor, Damage, Field, Metadata, Type, WallTime};

use crate::error::{Error, ErrorKind, Read, Result};

/// One value of a payload. Text and bytes are borrowed from the payload where possible.
///
/// ```
/// use nettrace_reader::Value;
///
/// /// A value as an unsigned number, whatever its width.
/// fn unsigned(value: &Value<'_>) -> Option<u64> {
///     Some(match value {
///         Value::U8(value) => (*value).into(),
///         Value::U16(value) => (*value).into(),
///         Value::U32(value) => (*value).into(),
///         Value::U64(value) => *value,
///         _ => return None,
///     })
/// }
///
/// assert_eq!(unsigned(&Value::U16(399)), Some(399));
/// assert_eq!(unsigned(&Value::Text("399".into())), None);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "most names say it all")]
pub enum Value<'a> {
    Bool(bool),
    /// A single UTF-16 code unit.
    Utf16CodeUnit(u16),
    /// A single UTF-8 code unit.
    Utf8CodeUnit(u8),
    I8(i8),
    U8(u8),
    I16(i16),
    U16(u16),
    I32(i32),
    U32(u32),
    /// An Int64 or a VarInt.
    I64(i64),
    /// A UInt64 or a VarUInt.
    U64(u64),
    F32(f32),
    F64(f64),
    /// A time in eight 16-bit parts.
    DateTime(WallTime),
    /// A time in 100 ns units since 1601-01-01 UTC; see [`WallTime::from_file_time`].
    FileTime(u64),
    /// A GUID in the byte order of the format: the first three groups are little endian.
    Guid([u8; 16]),
    /// A string, or an array of code units. Invalid Unicode becomes U+FFFD.
    Text(Cow<'a, str>),
    /// A decimal number of .NET.
    Decimal(Decimal),
    /// An array of [`Type::UInt8`]; for a [`Type::Unknown`] or [`Type::Rest`] the rest of the
    /// payload, and for a field of [`Options::runtime_events`](crate::Options::runtime_events) that
    /// does not fit.
    Bytes(&'a [u8]),
    /// Any other array.
    Array(Vec<Value<'a>>),
    /// So many more elements, all like the one before. It is the last of an array that has more
    /// than 16 elements of no bytes, such as objects without fields.
    More(usize),
    /// The names and values of an object's fields.
    Object(Vec<(&'a str, Value<'a>)>),
}

/// A decimal number of .NET: 96 bits, a scale and a sign.
///
/// ```
/// use nettrace_reader::Decimal;
///
/// let price = Decimal { digits: 1250, scale: 2, is_negative: true };
/// assert_eq!(price.to_string(), "-12.50");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decimal {
    /// Its digits.
    pub digits: u128,
    /// The number of digits after the decimal point. .NET has up to 28.
    pub scale: u8,
    /// Whether the number is negative, or minus zero.
    pub is_negative: bool,
}

/// Shows all digits, including zeros at the end: `-1.50`.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = usize::from(self.scale);
        let digits = format!("{:0>width$}", self.digits, width = scale + 1);
        let (whole, behind) = digits.split_at(digits.len() - scale);
        let sign = if self.is_negative { "-" } else { "" };
        let point = if scale > 0 { "." } else { "" };
        write!(f, "{sign}{whole}{point}{behind}")
    }
}

/// The fields of one payload, in order: an iterator over names and values.
///
/// A field with a RelLoc or DataLoc whose data does not fit is an error in its place, and the
/// fields behind it follow. Any other error is the last item, because it is not known where the
/// next field begins. Such an error also follows a value whose type is [unknown](Type::Unknown),
/// [too deep](Type::Deep) or [damaged](Type::Damaged).
///
/// A Boolean that is the last field may have one byte instead of four, as profilers of .NET write
/// it.
///
/// ```
/// use nettrace_reader::Value;
///
/// # let file = nettrace_reader::example();
/// # let mut reader = nettrace_reader::Reader::new(&file[..])?;
/// let event = reader.next_event()?.unwrap();
/// let mut fields = event.fields();
/// for field in fields.by_ref() {
///     let (name, value) = field?;
///     assert_eq!((name, value), ("cents", Value::U32(1_250)));
/// }
/// // The fields take the whole payload.
/// assert_eq!(fields.used(), event.payload.len());
/// assert!(fields.is_exhausted());
/// # Ok::<(), nettrace_reader::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    fields: slice::Iter<'a, Field>,
    decoder: Decoder<'a>,
    base: u64,
    /// Whether the payload ended before a field of the table.
    has_ended: bool,
}

impl<'a> Fields<'a> {
    /// The fields of `payload`, which begins at stream offset `base`.
    pub(crate) fn new(metadata: &'a Metadata, payload: &'a [u8], base: u64) -> Self {
        let Metadata { fields, is_from_table, .. } = metadata;
        let with_dates = |date| {
            let decoder = Decoder {
                payload,
                cursor: Cursor::new(payload, 0),
                object: is_from_table.then_some((&**fields, 0)),
                located: 0,
                budget: payload.len().saturating_mul(8).saturating_add(SPARE_VALUES),
                is_repeated: false,
                date,
                is_lost: false,
                lost: None,
                misplaced: None,
                has_short_boolean: false,
            };
            Self { fields: fields.iter(), decoder, base, has_ended: false }
        };
        if fields.iter().any(|field| field.ty.has_dates())
            && !with_dates(8).fits()
            && with_dates(16).fits()
        {
            return with_dates(16);
        }
        with_dates(8)
    }

    /// Whether the remaining fields can be decoded and take the whole payload.
    fn fits(mut self) -> bool {
        self.by_ref().all(|field| field.is_ok()) && self.used() == self.decoder.payload.len()
    }

    /// How many bytes of the payload the fields so far take, including the data of RelLoc and
    /// DataLoc.
    #[must_use]
    pub fn used(&self) -> usize {
        self.decoder.cursor.position().max(self.decoder.located)
    }

    /// Whether the last field is a Boolean of one byte.
    pub(crate) fn has_short_boolean(&self) -> bool {
        self.decoder.has_short_boolean
    }

    /// Whether a value had no known end.
    pub(crate) fn is_lost(&self) -> bool {
        self.decoder.is_lost
    }

    /// A value of a field that the stream does not describe. What does not fit is bytes.
    #[inline(never)]
    fn value_of_table(&mut self, field: &'a Field) -> Value<'a> {
        self.has_ended |= self.is_exhausted_before(Some(field));
        let is_text = matches!(field.ty, Type::Utf16String | Type::Utf8String);
        if is_text && self.is_left_out() {
            return Value::Text(Cow::Borrowed(""));
        }
        let start = self.decoder.cursor;
        self.decoder.value(&field.ty).unwrap_or_else(|_| {
            self.decoder.cursor = start;
            self.decoder.rest()
        })
    }

    /// Whether the text before the remaining fields was left out. The runtime writes nothing for a
    /// text that it does not have, not even a zero. This shows if the remaining fields have fixed
    /// sizes: they then take all of the payload.
    fn is_left_out(&self) -> bool {
        let mut fields = self.fields.as_slice().iter().filter(|field| field.ty != Type::Rest);
        let size = fields.try_fold(0, |sum: u32, field| sum.checked_add(field.ty.fixed_size()?));
        size.is_some_and(|size| size > 0 && size as usize == self.decoder.cursor.remaining())
    }

    /// Whether the payload ends before the next field. Such a field is absent, because an older
    /// version of the event type wrote the event.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.decoder.lost.is_none() && self.is_exhausted_before(self.fields.as_slice().first())
    }

    /// An array without elements is at the end of a payload, and is there.
    fn is_exhausted_before(&self, field: Option<&Field>) -> bool {
        let is_array = |field: &Field| matches!(field.ty, Type::CountedArray(..));
        self.decoder.cursor.is_empty() && (self.has_ended || !field.is_some_and(is_array))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(&'a str, Value<'a>)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Some(field) = self.fields.as_slice().first() else { return self.end() };
        if self.decoder.object.is_none() {
            if let Some(value) = self.decoder.number(&field.ty) {
                self.fields.next();
                return Some(Ok((&field.name, value)));
            }
        }
        self.next_other()
    }
}

impl<'a> Fields<'a> {
    /// The next field, whatever it is.
    #[inline(never)]
    fn next_other(&mut self) -> Option<Result<(&'a str, Value<'a>)>> {
        if self.decoder.is_lost {
            return self.end();
        }
        let field = self.fields.next()?;
        if self.decoder.object.is_some() {
            return Some(Ok((&field.name, self.value_of_table(field))));
        }
        if field.ty == Type::Boolean && self.fields.as_slice().is_empty() {
            if let Some(value) = self.decoder.short_boolean() {
                return Some(Ok((&field.name, value)));
            }
        }
        let value = self.decoder.value(&field.ty);
        Some(match (value, self.decoder.misplaced.take()) {
            (Ok(value), None) => Ok((&field.name, value)),
            (Ok(_), Some(damage)) => Err(self.error(damage)),
            (Err(damage), _) => {
                self.fields = [].iter();
                Err(self.error(damage))
            }
        })
    }

    #[cold]
    fn error(&self, damage: Damage) -> Error {
        Error::new(self.base + damage.offset, ErrorKind::Payload { what: damage.what })
    }

    /// Ends the fields. Says once why the last value was not decoded, if it was not.
    #[cold]
    fn end(&mut self) -> Option<Result<(&'a str, Value<'a>)>> {
        self.fields = [].iter();
        let damage = self.decoder.lost.take()?;
        Some(Err(self.error(damage)))
    }
}

/// How many elements, and fields of elements, a payload may have beyond those that its size
/// explains. Otherwise elements of no bytes, and overlapping RelLoc or DataLoc, could produce
/// billions of values from a few bytes. Fields that are not in an array are not counted: their
/// number is that of the event type.
const SPARE_VALUES: usize = 1 << 10;

/// How many elements of no bytes an array has before [`Value::More`].
const MOST_EMPTY: usize = 16;

#[derive(Clone, Debug)]
struct Decoder<'a> {
    payload: &'a [u8],
    cursor: Cursor<'a>,
    /// The fields of the object that is being decoded, and where it starts. Around all objects,
    /// those of the payload if they come from the table.
    object: Option<(&'a [Field], usize)>,
    /// The end of the last located data.
    located: usize,
    /// How many more values in arrays may be decoded, including code units of located text.
    budget: usize,
    /// Whether the value is part of an array.
    is_repeated: bool,
    /// The size of a date.
    date: u32,
    /// Whether there was a value whose end is unknown, so that the fields after it cannot be found.
    is_lost: bool,
    /// Why, unless the type says that the value is the last one. The caller must still be told.
    lost: Option<Damage>,
    /// Why located data within the field does not fit. The field's own bytes do.
    misplaced: Option<Damage>,
    has_short_boolean: bool,
}

impl<'a> Decoder<'a> {
    /// A value of one of the types that most fields have, if all of it is there. Like
    /// [`value`](Self::value), but compiled into the code of the caller.
    #[inline]
    fn number(&mut self, ty: &Type) -> Option<Value<'a>> {
        if self.is_lost {
            return None;
        }
        let cursor = &mut self.cursor;
        Some(match ty {
            Type::UInt64 => Value::U64(u64::from_le_bytes(cursor.take()?)),
            Type::Int64 => Value::I64(i64::from_le_bytes(cursor.take()?)),
            Type::UInt32 => Value::U32(u32::from_le_bytes(cursor.take()?)),
            Type::Int32 => Value::I32(i32::from_le_bytes(cursor.take()?)),
            Type::Double => Value::F64(f64::from_le_bytes(cursor.take()?)),
            _ => return None,
        })
    }

    fn value(&mut self, ty: &'a Type) -> Read<Value<'a>> {
        if self.is_repeated {
            self.spend(1)?;
        }
        let cursor = &mut self.cursor;
        Ok(match ty {
            Type::Boolean => Value::Bool(cursor.u32()? != 0),
            Type::Boolean8 => Value::Bool(cursor.u8()? != 0),
            Type::Utf16CodeUnit => Value::Utf16CodeUnit(cursor.u16()?),
            Type::Utf8CodeUnit => Value::Utf8CodeUnit(cursor.u8()?),
            Type::Int8 => Value::I8(cursor.u8()? as i8),
            Type::UInt8 => Value::U8(cursor.u8()?),
            Type::Int16 => Value::I16(cursor.i16()?),
            Type::UInt16 => Value::U16(cursor.u16()?),
            Type::Int32 => Value::I32(cursor.u32()? as i32),
            Type::UInt32 => Value::U32(cursor.u32()?),
            Type::Int64 => Value::I64(cursor.i64()?),
            Type::UInt64 => Value::U64(cursor.u64()?),
            Type::Single => Value::F32(f32::from_bits(cursor.u32()?)),
            Type::Double => Value::F64(f64::from_bits(cursor.u64()?)),
            Type::VarInt => Value::I64(cursor.varint64()?),
            Type::VarUInt => Value::U64(cursor.varuint64()?),
            Type::Guid => Value::Guid(cursor.array()?),
            Type::DateTime if self.date == 8 => Value::FileTime(cursor.u64()?),
            Type::DateTime => Value::DateTime(wall_time(cursor)?),
            Type::Utf16String => self.terminated_text()?,
            Type::Decimal => Value::Decimal(decimal(cursor)?),
            Type::Utf8String => self.terminated_utf8()?,
            Type::Rest => self.rest(),
            Type::Unknown(_) | Type::Deep | Type::Damaged => {
                self.lost = Some(cursor.damage(match ty {
                    Type::Deep => "types that are nested more than 48 levels deep are not followed",
                    Type::Damaged => "the description of the field's type is damaged",
                    _ => "the field is of an unknown type",
                }));
                self.rest()
            }
            Type::CountedArray(element, field) => {
                let count = self.count((*field).into())?;
                self.elements(element, count)?
            }
            Type::Object(fields) => {
                let around = self.object.replace((fields, self.cursor.position()));
                let mut values = Vec::with_capacity(fields.len());
                for field in fields {
                    if self.is_repeated {
                        // The name is shown again for each element.
                        self.spend(field.name.len() / 64)?;
                    }
                    values.push((&*field.name, self.value(&field.ty)?));
                    if self.is_lost {
                        break;
                    }
                }
                self.object = around;
                Value::Object(values)
            }
            Type::Array(element) => {
                let count = cursor.u16()?;
                self.elements(element, count.into())?
            }
            Type::FixedArray(element, count) => self.elements(element, (*count).into())?,
            Type::RelLoc(element) => {
                let (size, position) = location(cursor)?;
                let start = cursor.position() + position;
                self.located(element, start, size)
            }
            Type::DataLoc(element) => {
                let (size, position) = location(cursor)?;
                self.located(element, position, size)
            }
        })
    }

    /// A Boolean of one byte at the end of the payload.
    fn short_boolean(&mut self) -> Option<Value<'a>> {
        self.has_short_boolean = self.cursor.remaining() == 1;
        let byte = if self.has_short_boolean { self.cursor.u8().ok()? } else { return None };
        Some(Value::Bool(byte != 0))
    }

    /// The rest of the payload. No field after it can be found.
    fn rest(&mut self) -> Value<'a> {
        self.is_lost = true;
        let rest = self.cursor.remaining();
        Value::Bytes(self.cursor.bytes(rest).unwrap_or_default())
    }

    /// The value of a field of the current object, which is decoded again. It is a number of
    /// elements that are not empty.
    fn count(&mut self, field: usize) -> Read<usize> {
        let (fields, start) = self.object.unwrap_or_default();
        let back = self.cursor;
        self.cursor = Cursor::new(self.payload, 0);
        self.cursor.bytes(start)?;
        let mut value = Value::U8(0);
        for field in fields.iter().take(field + 1) {
            value = self.value(&field.ty)?;
        }
        self.cursor = back;
        let count = match value {
            Value::U8(count) => count.into(),
            Value::U16(count) => count.into(),
            Value::U32(count) => count as usize,
            _ => 0,
        };
        match count <= back.remaining() {
            true => Ok(count),
            false => Err(back.damage("it ends inside a field")),
        }
    }

    fn elements(&mut self, element: &'a Type, count: usize) -> Read<Value<'a>> {
        Ok(match element {
            Type::UInt8 => Value::Bytes(self.cursor.bytes(count)?),
            Type::Utf8CodeUnit => Value::Text(String::from_utf8_lossy(self.cursor.bytes(count)?)),
            Type::Utf16CodeUnit => Value::Text(utf16(self.cursor.bytes(count * 2)?).into()),
            _ => {
                let is_empty = count > MOST_EMPTY && element.is_of_no_bytes();
                let decoded = if is_empty { MOST_EMPTY } else { count };
                let mut values = Vec::new();
                let around = std::mem::replace(&mut self.is_repeated, true);
                for _ in 0..decoded {
                    values.push(self.value(element)?);
                    if self.is_lost {
                        break;
                    }
                }
                self.is_repeated = around;
                if is_empty {
                    values.push(Value::More(count - decoded));
                }
                Value::Array(values)
            }
        })
    }

    /// Decodes `size` bytes of elements at `start` of the payload. The cursor does not move, so
    /// the field behind can be found even if they do not fit.
    fn located(&mut self, element: &'a Type, start: usize, size: usize) -> Value<'a> {
        let (cursor, object, is_repeated) = (self.cursor, self.object, self.is_repeated);
        let value = self.elements_at(element, start, size);
        (self.cursor, self.object, self.is_repeated) = (cursor, object, is_repeated);
        value.unwrap_or_else(|damage| {
            self.misplaced.get_or_insert(damage);
            Value::Bytes(&[])
        })
    }

    fn elements_at(&mut self, element: &'a Type, start: usize, size: usize) -> Read<Value<'a>> {
        let Some(end) = start.checked_add(size).filter(|end| *end <= self.payload.len()) else {
            return Err(self.cursor.damage("a RelLoc or DataLoc points beyond the payload"));
        };
        self.spend(size)?;
        // Elements without content have size 0.
        let each = element.size_with_dates(self.date).unwrap_or(0) as usize;
        if size % each.max(1) != 0 || size > 0 && each == 0 {
            return Err(self
                .cursor
                .damage("the size of located data is no multiple of its elements'"));
        }
        self.cursor = Cursor::new(&self.payload[..end], 0);
        self.cursor.bytes(start)?;
        self.located = self.located.max(end);
        self.elements(element, size / each.max(1))
    }

    fn terminated_text(&mut self) -> Read<Value<'a>> {
        let rest =
            &self.payload[self.cursor.position()..self.cursor.position() + self.cursor.remaining()];
        let Some(units) = rest.chunks_exact(2).position(|unit| unit == [0, 0]) else {
            return Err(self.cursor.damage("a string has no end"));
        };
        let text = utf16(self.cursor.bytes(units * 2)?);
        self.cursor.bytes(2)?;
        Ok(Value::Text(text.into()))
    }

    fn terminated_utf8(&mut self) -> Read<Value<'a>> {
        let mut rest = self.cursor;
        let bytes = rest.bytes(rest.remaining())?;
        let Some(end) = bytes.iter().position(|byte| *byte == 0) else {
            return Err(self.cursor.damage("a string has no end"));
        };
        self.cursor.bytes(end + 1)?;
        Ok(Value::Text(String::from_utf8_lossy(&bytes[..end])))
    }

    fn spend(&mut self, values: usize) -> Read<()> {
        let damage = self.cursor.damage("it holds far more values than its size explains");
        self.budget = self.budget.checked_sub(values).ok_or(damage)?;
        Ok(())
    }
}

/// The size in bytes and the position of located data.
fn location(cursor: &mut Cursor<'_>) -> Read<(usize, usize)> {
    let word = cursor.u32()?;
    Ok(((word >> 16) as usize, (word & 0xFFFF) as usize))
}

/// The encoding: 32 bits of sign and scale, the upper 32 bits of the digits, the lower 64.
fn decimal(cursor: &mut Cursor<'_>) -> Read<Decimal> {
    let flags = cursor.u32()?;
    let high = cursor.u32()?;
    let digits = u128::from(high) << 64 | u128::from(cursor.u64()?);
    Ok(Decimal { digits, scale: (flags >> 16) as u8, is_negative: flags >> 31 != 0 })
}

fn wall_time(cursor: &mut Cursor<'_>) -> Read<WallTime> {
    Ok(WallTime {
        year: cursor.i16()?,
        month: cursor.i16()?,
        day_of_week: cursor.i16()?,
        day: cursor.i16()?,
        hour: cursor.i16()?,
        minute: cursor.i16()?,
        second: cursor.i16()?,
        millisecond: cursor.i16()?,
    })
}

fn utf16(bytes: &[u8]) -> String {
    // Most texts are ASCII. Without branches, the processor takes many units at once.
    let units = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    if units.clone().fold(0, |all, unit| all | unit) < 0x80 {
        let text = units.map(|unit| unit as u8).collect();
        return String::from_utf8(text).unwrap_or_default();
    }
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}
