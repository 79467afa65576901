//! Event types: names, fields and what else metadata says of all events of one type.

/// What metadata says about the events of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The number by which rows refer to it.
    pub id: u32,
    /// The namespace of the event.
    pub provider: String,
    /// A number that is unique in the provider, or 0.
    pub event_id: u32,
    /// The name; may be empty.
    pub name: String,
    /// The fields of the payload, in their order.
    pub fields: Vec<Field>,
    /// What the event marks: 1 is a start, 2 a stop. `None` where the metadata does not say.
    pub opcode: Option<u8>,
    /// The set of groups that the event belongs to.
    pub keywords: u64,
    /// 1 critical, 2 error, 3 warning, 4 informational, 5 verbose; 0 always.
    pub level: u8,
    /// The version of this event's fields.
    pub version: u8,
    /// A text with places for the fields.
    pub message_template: Option<String>,
    /// A text for people.
    pub description: Option<String>,
    /// The provider's GUID, in the byte order of the format.
    pub provider_guid: Option<[u8; 16]>,
    /// Whatever else the writer had to say about it.
    pub key_values: Vec<(String, String)>,
    /// Whether it has the tags that set version 5 apart from version 4. False in version 6.
    pub has_tags: bool,
}

/// One field of a payload or of an object in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// How it is encoded.
    pub ty: Type,
}

/// How a value is encoded. The numbers of the type codes and their sizes: NetTrace V6, "Type
/// format".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Type {
    /// 1: fields, one behind the other.
    Object(Vec<Field>),
    /// 3: four bytes.
    Boolean,
    /// 4: two bytes, one UTF-16 code unit.
    Utf16CodeUnit,
    /// 5: one byte.
    Int8,
    /// 6: one byte.
    UInt8,
    /// 7: two bytes.
    Int16,
    /// 8: two bytes.
    UInt16,
    /// 9: four bytes.
    Int32,
    /// 10: four bytes.
    UInt32,
    /// 11: eight bytes.
    Int64,
    /// 12: eight bytes.
    UInt64,
    /// 13: four bytes.
    Single,
    /// 14: eight bytes.
    Double,
    /// 16: eight bytes, 100 ns units since 1601, as every reader and writer in use has it; or
    /// sixteen bytes, a [`WallTime`](crate::WallTime), as the format's text has it. Which one, each
    /// payload's size shows.
    DateTime,
    /// 17: sixteen bytes.
    Guid,
    /// 18: UTF-16 code units up to a zero.
    Utf16String,
    /// 19: a two-byte count, then the elements.
    Array(Box<Type>),
    /// 20: one to ten bytes, zig-zag.
    VarInt,
    /// 21: one to ten bytes.
    VarUInt,
    /// 22: as many elements as the metadata says.
    FixedArray(Box<Type>, u16),
    /// 23: one byte, one UTF-8 code unit.
    Utf8CodeUnit,
    /// 24: four bytes: where the elements are, counted from behind this field, and their size in
    /// bytes.
    RelLoc(Box<Type>),
    /// 25: four bytes: where the elements are, counted from the start of the payload, and their
    /// size in bytes.
    DataLoc(Box<Type>),
    /// 26: one byte. Not in the format's text; the reference reader takes it since its version
    /// 3.1.28.
    Boolean8,
}

impl Type {
    /// The size in bytes of every value of this type, if all have the same. `None` too where it is
    /// beyond `u32`. A date takes eight.
    pub fn fixed_size(&self) -> Option<u32> {
        self.size_with_dates(8)
    }

    /// Whether dates are in it, whose size has to be found out.
    pub(crate) fn has_dates(&self) -> bool {
        match self {
            Self::DateTime => true,
            Self::Object(fields) => fields.iter().any(|field| field.ty.has_dates()),
            Self::Array(element)
            | Self::FixedArray(element, _)
            | Self::RelLoc(element)
            | Self::DataLoc(element) => element.has_dates(),
            _ => false,
        }
    }

    /// [`fixed_size`](Self::fixed_size) where a date takes so many bytes.
    pub(crate) fn size_with_dates(&self, date: u32) -> Option<u32> {
        Some(match self {
            Self::Object(fields) => fields
                .iter()
                .try_fold(0_u32, |sum, field| sum.checked_add(field.ty.size_with_dates(date)?))?,
            Self::FixedArray(element, count) => {
                element.size_with_dates(date)?.checked_mul((*count).into())?
            }
            Self::Int8 | Self::UInt8 | Self::Utf8CodeUnit | Self::Boolean8 => 1,
            Self::Int16 | Self::UInt16 | Self::Utf16CodeUnit => 2,
            Self::Boolean | Self::Int32 | Self::UInt32 | Self::Single => 4,
            Self::RelLoc(_) | Self::DataLoc(_) => 4,
            Self::Int64 | Self::UInt64 | Self::Double => 8,
            Self::DateTime => date,
            Self::Guid => 16,
            Self::Utf16String | Self::Array(_) | Self::VarInt | Self::VarUInt => return None,
        })
    }
}
