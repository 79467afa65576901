//! Names for the spellings that a field can choose: the `encoding = …` of the derive macros.
//!
//! Each is an empty type that selects an implementation of [`TraceField`](crate::TraceField) (or,
//! for the two locations, of [`LocatedField`](crate::LocatedField)). A choice reaches through
//! references, smart pointers, `Option`, slices, `Vec` and arrays: `encoding = utf8` on a
//! `Vec<Option<String>>` is about the strings in it.
//!
//! | `encoding =` | marker | fits | stored as |
//! |---|---|---|---|
//! | (none) | [`Natural`] | everything | see the [crate](crate#types) |
//! | `utf16` | [`Utf16`] | text | [`StrEncoding::Utf16`](crate::StrEncoding::Utf16), the default of text |
//! | `utf16_nul` | [`Utf16Nul`] | text | [`StrEncoding::Utf16Nul`](crate::StrEncoding::Utf16Nul) |
//! | `utf8` | [`Utf8`] | text | [`StrEncoding::Utf8`](crate::StrEncoding::Utf8) |
//! | `varint` | [`VarInt`] | integers up to 64 bits | [`FieldType::VarUInt`](crate::FieldType::VarUInt), [`FieldType::VarInt`](crate::FieldType::VarInt) |
//! | `bool8` | [`Bool8`] | `bool` | [`FieldType::Bool8`](crate::FieldType::Bool8) |
//! | `utf16_unit` | [`Utf16Unit`] | `char`, `u16` | [`FieldType::Utf16Unit`](crate::FieldType::Utf16Unit) |
//! | `date_time` | [`DateTime`] | `SystemTime` | [`FieldType::DateTime`](crate::FieldType::DateTime) |
//! | `guid` | [`Guid`] | `[u8; 16]` (RFC 4122 order), `u128` | [`FieldType::Guid`](crate::FieldType::Guid) |
//! | `name` | [`Name`] | enums that derive `TraceField` | the variant's name as text, the default of enums |
//! | `number` | [`Number`] | enums that derive `TraceField` | the discriminant, an integer of its `repr` |
//! | `rel_loc` | [`RelLoc`] | text, sequences of fixed-size elements | behind the fields; [`ArrayLayout::RelLoc`](crate::ArrayLayout::RelLoc), [`StrEncoding::Utf16RelLoc`](crate::StrEncoding::Utf16RelLoc) |
//! | `data_loc` | [`DataLoc`] | the same | behind the fields, by its absolute position |
//! | `utf8_rel_loc` | [`Utf8RelLoc`] | text | [`StrEncoding::Utf8RelLoc`](crate::StrEncoding::Utf8RelLoc) |
//! | `utf8_data_loc` | [`Utf8DataLoc`] | text | [`StrEncoding::Utf8DataLoc`](crate::StrEncoding::Utf8DataLoc) |
//!
//! The locations are for the fields of an event itself; a field of a nested object has no place of
//! its own behind the event's fields.

/// What a type is stored as when its field says nothing.
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

/// `encoding = rel_loc`: behind the fields, found by a distance.
#[derive(Debug)]
pub enum RelLoc {}

/// `encoding = data_loc`: behind the fields, found by a position.
#[derive(Debug)]
pub enum DataLoc {}

/// `encoding = utf8_rel_loc`: UTF-8 behind the fields, found by a distance.
#[derive(Debug)]
pub enum Utf8RelLoc {}

/// `encoding = utf8_data_loc`: UTF-8 behind the fields, found by a position.
#[derive(Debug)]
pub enum Utf8DataLoc {}
