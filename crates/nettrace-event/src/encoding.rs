//! Markers for the encodings that a field can choose with `encoding = …` in the derive macros.
//!
//! Each marker is an empty type that selects an implementation of [`TraceField`](crate::TraceField)
//! (for the locations of [`LocatedField`](crate::LocatedField); for `display`, `debug`, `error` and
//! `as_ref` of [`TextField`](crate::TextField)). Apart from the last four, the choice applies
//! through references, smart pointers, `Option`, slices, `Vec` and arrays: `encoding = utf8` on a
//! `Vec<Option<String>>` sets the encoding of its strings.
//!
//! | `encoding =` | marker | for | stored as |
//! |---|---|---|---|
//! | (none) | [`Natural`] | every type | see the [crate](crate#types) |
//! | `utf16` | [`Utf16`] | text | [`Str(Utf16)`], the default of text |
//! | `utf16_nul` | [`Utf16Nul`] | text | [`Str(Utf16Nul)`] |
//! | `utf8` | [`Utf8`] | text | [`Str(Utf8)`] |
//! | `varint` | [`VarInt`] | integers up to 64 bits | [`VarUInt`] or [`VarInt`][VarIntType] |
//! | `bool8` | [`Bool8`] | `bool` | [`Bool8`][Bool8Type] |
//! | `utf16_unit` | [`Utf16Unit`] | `char`, `u16` | [`Utf16Unit`][UnitType] |
//! | `date_time` | [`DateTime`] | `SystemTime` | [`DateTime`][DateTimeType] |
//! | `guid` | [`Guid`] | `[u8; 16]` (RFC 4122 order), `u128` | [`Guid`][GuidType] |
//! | `name` | [`Name`] | enums that derive `TraceField` | the variant's name as text (default) |
//! | `number` | [`Number`] | enums that derive `TraceField` | the discriminant, as its `repr` |
//! | `display` | [`Display`] | what implements `Display` | [`Str(Utf16)`] |
//! | `debug` | [`Debug`](enum@Debug) | what implements `Debug` | [`Str(Utf16)`] |
//! | `error` | [`Error`] | what implements `Error` | [`Str(Utf16)`]: the error, then its sources, `a: b: c` |
//! | `as_ref` | [`AsRef`] | what implements `AsRef<str>` | [`Str(Utf16)`] |
//! | `rel_loc` | [`RelLoc`] | text, sequences of fixed-size elements | a relative location |
//! | `data_loc` | [`DataLoc`] | text, sequences of fixed-size elements | an absolute location |
//! | `utf8_rel_loc` | [`Utf8RelLoc`] | text | [`Str(Utf8RelLoc)`] |
//! | `utf8_data_loc` | [`Utf8DataLoc`] | text | [`Str(Utf8DataLoc)`] |
//!
//! ```
//! use nettrace_event::{
//!     ArrayLayout, FieldType, LocatedField, StrEncoding, TraceField,
//!     encoding::{Bool8, DataLoc, Guid, Utf8, Utf16Nul, Utf16Unit, VarInt},
//! };
//!
//! assert_eq!(<str as TraceField<Utf8>>::TYPE, FieldType::Str(StrEncoding::Utf8));
//! assert_eq!(<str as TraceField<Utf16Nul>>::TYPE, FieldType::Str(StrEncoding::Utf16Nul));
//! assert_eq!(<Option<u16> as TraceField<VarInt>>::TYPE, FieldType::Option(&FieldType::VarUInt));
//! assert_eq!(<bool as TraceField<Bool8>>::TYPE, FieldType::Bool8);
//! assert_eq!(<char as TraceField<Utf16Unit>>::TYPE, FieldType::Utf16Unit);
//! assert_eq!(<u128 as TraceField<Guid>>::TYPE, FieldType::Guid);
//! let located = FieldType::Array(&FieldType::U8, ArrayLayout::DataLoc);
//! assert_eq!(<[u8] as LocatedField<DataLoc>>::TYPE, located);
//! ```
//!
//! A location stands in the field's place and points at the field's data, which comes after all
//! fields of the event: [`ArrayLayout::RelLoc`](crate::ArrayLayout::RelLoc) and
//! [`ArrayLayout::DataLoc`](crate::ArrayLayout::DataLoc), for text
//! [`StrEncoding::Utf16RelLoc`](crate::StrEncoding::Utf16RelLoc) and
//! [`StrEncoding::Utf16DataLoc`](crate::StrEncoding::Utf16DataLoc). Only the fields of an event
//! itself can have a location, not those of a nested object.
//!
//! [`Str(Utf16)`]: crate::StrEncoding::Utf16
//! [`Str(Utf16Nul)`]: crate::StrEncoding::Utf16Nul
//! [`Str(Utf8)`]: crate::StrEncoding::Utf8
//! [`Str(Utf8RelLoc)`]: crate::StrEncoding::Utf8RelLoc
//! [`Str(Utf8DataLoc)`]: crate::StrEncoding::Utf8DataLoc
//! [`VarUInt`]: crate::FieldType::VarUInt
//! [VarIntType]: crate::FieldType::VarInt
//! [Bool8Type]: crate::FieldType::Bool8
//! [UnitType]: crate::FieldType::Utf16Unit
//! [DateTimeType]: crate::FieldType::DateTime
//! [GuidType]: crate::FieldType::Guid

/// The encoding of a field that chooses none.
#[derive(Debug)]
pub enum Natural {}

/// `encoding = utf16`: text as counted UTF-16.
#[derive(Debug)]
pub enum Utf16 {}

/// `encoding = utf16_nul`: text as UTF-16 up to a NUL.
#[derive(Debug)]
pub enum Utf16Nul {}

/// `encoding = utf8`: text as counted UTF-8.
#[derive(Debug)]
pub enum Utf8 {}

/// `encoding = varint`: integers in as few bytes as they need.
#[derive(Debug)]
pub enum VarInt {}

/// `encoding = bool8`: booleans of one byte.
#[derive(Debug)]
pub enum Bool8 {}

/// `encoding = utf16_unit`: one UTF-16 code unit.
#[derive(Debug)]
pub enum Utf16Unit {}

/// `encoding = date_time`: a calendar time of millisecond resolution.
#[derive(Debug)]
pub enum DateTime {}

/// `encoding = guid`: 16 bytes as a GUID.
#[derive(Debug)]
pub enum Guid {}

/// `encoding = name`: an enum's variant as text.
#[derive(Debug)]
pub enum Name {}

/// `encoding = number`: an enum's discriminant.
#[derive(Debug)]
pub enum Number {}

/// `encoding = display`: a value's text by `Display`.
#[derive(Debug)]
pub enum Display {}

/// `encoding = debug`: a value's text by `Debug`.
#[derive(Debug)]
pub enum Debug {}

/// `encoding = error`: an error's text and those of its sources, separated by `: `.
#[derive(Debug)]
pub enum Error {}

/// `encoding = as_ref`: the text that a value holds.
#[derive(Debug)]
pub enum AsRef {}

/// `encoding = rel_loc`: data after the fields, with a location relative to the field.
#[derive(Debug)]
pub enum RelLoc {}

/// `encoding = data_loc`: data after the fields, with a location relative to the payload's start.
#[derive(Debug)]
pub enum DataLoc {}

/// `encoding = utf8_rel_loc`: as `rel_loc`, with text as UTF-8.
#[derive(Debug)]
pub enum Utf8RelLoc {}

/// `encoding = utf8_data_loc`: as `data_loc`, with text as UTF-8.
#[derive(Debug)]
pub enum Utf8DataLoc {}
