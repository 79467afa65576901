//! Event types as a stream describes them: names, fields and the other properties that all events
//! of a type share.

use alloc::{boxed::Box, string::String, vec::Vec};

use nettrace_event::role::Role;

/// An event type, as the metadata of a stream describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The id by which rows refer to it.
    pub id: u32,
    /// The provider's name.
    pub provider: String,
    /// The event id, unique within the provider, or 0.
    pub event_id: u32,
    /// The event's name. It may be empty.
    pub name: String,
    /// The fields of the payload, in order. The texts of the provider `Universal.System` are arrays
    /// of code units, also if the stream declares them as single ones, as the tracer one-collect
    /// does.
    pub fields: Vec<Field>,
    /// The opcode: 1 is a start, 2 a stop. `None` if the metadata has none; the name may then
    /// [imply](Self::implied_opcode) one.
    pub opcode: Option<u8>,
    /// The keywords: a bit set of the groups that the event belongs to.
    pub keywords: u64,
    /// The level: 0 always, 1 critical, 2 error, 3 warning, 4 informational, 5 verbose.
    pub level: u8,
    /// The version of the event's fields.
    pub version: u8,
    /// The message template: text with `{field}` for values.
    pub message_template: Option<String>,
    /// A description for people.
    pub description: Option<String>,
    /// The provider's GUID, in the byte order of the format.
    pub provider_guid: Option<[u8; 16]>,
    /// Further key-values of the writer.
    pub key_values: Vec<(String, String)>,
    /// Whether it has the tags that distinguish version 5 from version 4. `false` in version 6.
    pub has_tags: bool,
    /// Whether it has an optional part of an unknown kind. That part and those after it are
    /// skipped.
    pub has_unknown_parts: bool,
    /// Whether its description is damaged. It is then known up to the damage, and only the fields
    /// before the damage are decoded.
    pub is_damaged: bool,
    /// Whether its fields, and its name unless the stream has one, come from a table of the events
    /// of the .NET runtime, as `nettrace-reader` has one.
    pub is_from_table: bool,
}

impl Metadata {
    /// The last value of `key`.
    ///
    /// ```
    /// use nettrace_format::Metadata;
    ///
    /// let mut request = Metadata::default();
    /// request.key_values = vec![("team".into(), "shop".into()), ("team".into(), "till".into())];
    /// assert_eq!(request.value("team"), Some("till"));
    /// assert_eq!(request.value("unknown"), None);
    /// ```
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        self.key_values.iter().rev().find(|(name, _)| name == key).map(|(_, value)| &**value)
    }

    /// The first field of this name: where its value is in every payload, in bytes, and its type.
    /// `None` if there is none, or values before it vary in size. A date counts eight bytes.
    ///
    /// ```
    /// use nettrace_format::{Field, Metadata, Type};
    ///
    /// let fields = vec![
    ///     Field::new("cents", Type::UInt32),
    ///     Field::new("customer", Type::Utf16String),
    ///     Field::new("till", Type::UInt8),
    /// ];
    /// let sale = Metadata { fields, ..Metadata::default() };
    /// assert_eq!(sale.find("customer"), Some((4, &Type::Utf16String)));
    /// assert_eq!(sale.find("till"), None);
    /// ```
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(usize, &Type)> {
        let mut at = 0;
        for field in &self.fields {
            if field.name == name {
                return Some((at, &field.ty));
            }
            at += field.ty.fixed_size()? as usize;
        }
        None
    }

    /// The opcode that readers take from the name of a type that states none: 1 if the name ends
    /// with `Start`, 2 if it ends with `Stop`, in capital or small letters. Types of version 4
    /// never state one.
    ///
    /// ```
    /// use nettrace_format::Metadata;
    ///
    /// let mut request = Metadata::default();
    /// request.name = "RequestStart".into();
    /// assert_eq!(request.implied_opcode(), Some(1));
    /// request.opcode = Some(0);
    /// assert_eq!(request.implied_opcode(), None);
    /// ```
    #[must_use]
    pub fn implied_opcode(&self) -> Option<u8> {
        Role::of_name(&self.name).filter(|_| self.opcode.is_none()).map(Role::opcode)
    }

    /// Whether it has fields that are nested too deep.
    #[must_use]
    pub fn is_deep(&self) -> bool {
        self.fields.iter().any(|field| field.ty.endless() == Some(&Type::Deep))
    }
}

/// One field of a payload or of an object in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

impl Field {
    /// A field of this name and type.
    ///
    /// ```
    /// use nettrace_format::{Field, Type};
    ///
    /// assert_eq!(Field::new("x", Type::Double).name, "x");
    /// ```
    #[must_use]
    pub fn new(name: &str, ty: Type) -> Self {
        Self { name: name.into(), ty }
    }

    /// Stands for the fields from the damage on, in a description that is damaged.
    #[must_use]
    pub fn damaged() -> Self {
        Self { name: String::new(), ty: Type::Damaged }
    }
}

/// The type of a value. The type codes (the number at the start of each line) and the sizes are
/// those of NetTrace V6, "Type format".
///
/// ```
/// use nettrace_format::{Field, Type};
///
/// /// The names of all fields, also of those in objects.
/// fn names(fields: &[Field], into: &mut Vec<String>) {
///     for field in fields {
///         into.push(field.name.clone());
///         if let Type::Object(inner) = &field.ty {
///             names(inner, into);
///         }
///     }
/// }
///
/// let x = Field::new("x", Type::Double);
/// let point = Field::new("point", Type::Object(vec![x]));
/// let mut all = Vec::new();
/// names(&[point], &mut all);
/// assert_eq!(all, ["point", "x"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// 1: fields, one after the other.
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
    /// 15: sixteen bytes, a decimal number as .NET stores it in memory; see
    /// `nettrace_reader::Decimal`. The specification does not mention it, but it is one of .NET's
    /// type codes, to which versions 4 and 5 refer.
    Decimal,
    /// 16: eight bytes, in units of 100 ns since 1601, in all readers and writers in use; sixteen
    /// bytes, a time in eight parts, in the specification. The size of a payload shows
    /// which one it has.
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
    /// 22: as many elements as the metadata states.
    FixedArray(Box<Type>, u16),
    /// 23: one byte, one UTF-8 code unit.
    Utf8CodeUnit,
    /// 24: four bytes: the position of the elements, counted from the end of this field, and their
    /// size in bytes.
    RelLoc(Box<Type>),
    /// 25: four bytes: the position of the elements, counted from the start of the payload, and
    /// their size in bytes.
    DataLoc(Box<Type>),
    /// 26: one byte. The specification does not mention it. The reference reader supports it since
    /// version 3.1.28.
    Boolean8,
    /// UTF-8 code units up to a zero. No format has it; it is the type of some fields of the .NET
    /// runtime's events, which a reader knows from a table.
    Utf8String,
    /// As many elements as the field with this index, in the same object, says. No format has it,
    /// see [`Utf8String`](Self::Utf8String).
    CountedArray(Box<Type>, u16),
    /// The bytes after the last field that is known; absent if there are none. No format has it,
    /// see [`Utf8String`](Self::Utf8String).
    Rest,
    /// An unknown type code. The end of such a value is unknown, so it takes the rest of the
    /// payload, and nothing after it can be read.
    Unknown(u32),
    /// A type that is nested more than 48 levels deep, or an array of it. A value is as for
    /// [`Unknown`](Self::Unknown).
    Deep,
    /// A type whose description is [damaged](Metadata::is_damaged). A value is as for
    /// [`Unknown`](Self::Unknown).
    Damaged,
}

/// The types without others inside, by their codes.
const PLAIN: [(u8, Type); 20] = [
    (3, Type::Boolean),
    (4, Type::Utf16CodeUnit),
    (5, Type::Int8),
    (6, Type::UInt8),
    (7, Type::Int16),
    (8, Type::UInt16),
    (9, Type::Int32),
    (10, Type::UInt32),
    (11, Type::Int64),
    (12, Type::UInt64),
    (13, Type::Single),
    (14, Type::Double),
    (15, Type::Decimal),
    (16, Type::DateTime),
    (17, Type::Guid),
    (18, Type::Utf16String),
    (20, Type::VarInt),
    (21, Type::VarUInt),
    (23, Type::Utf8CodeUnit),
    (26, Type::Boolean8),
];

impl Type {
    /// The type without others inside that has this code.
    ///
    /// ```
    /// use nettrace_format::Type;
    ///
    /// assert_eq!(Type::from_plain_code(11), Some(Type::Int64));
    /// // An array: what it holds follows the code.
    /// assert_eq!(Type::from_plain_code(19), None);
    /// ```
    #[must_use]
    pub fn from_plain_code(code: u32) -> Option<Self> {
        PLAIN.into_iter().find(|(known, _)| u32::from(*known) == code).map(|(_, ty)| ty)
    }

    /// The code of a type without others inside. `None` if it has others inside, or version 6 does
    /// not have it.
    pub(crate) fn plain_code(&self) -> Option<u8> {
        let code = PLAIN.iter().find(|(_, known)| known == self).map(|(code, _)| *code);
        code.filter(|_| *self != Self::Decimal)
    }

    /// Whether version 6 describes it: everything in it has a type code that the specification
    /// mentions, or that readers know all the same.
    ///
    /// ```
    /// use nettrace_format::Type;
    ///
    /// assert!(Type::Array(Box::new(Type::Int16)).is_of_v6());
    /// assert!(!Type::Array(Box::new(Type::Decimal)).is_of_v6());
    /// ```
    #[must_use]
    pub fn is_of_v6(&self) -> bool {
        match self {
            Self::CountedArray(..) => false,
            Self::Object(fields) => fields.iter().all(|field| field.ty.is_of_v6()),
            _ => match self.element() {
                Some(element) => element.is_of_v6(),
                None => self.plain_code().is_some(),
            },
        }
    }

    /// The size of a value in bytes, if all values of this type have the same size. A date counts
    /// eight bytes. Returns `None` for sizes beyond `u32`.
    ///
    /// ```
    /// use nettrace_format::Type;
    ///
    /// assert_eq!(Type::FixedArray(Box::new(Type::Int16), 3).fixed_size(), Some(6));
    /// assert_eq!(Type::Array(Box::new(Type::Int16)).fixed_size(), None);
    /// ```
    #[must_use]
    pub fn fixed_size(&self) -> Option<u32> {
        self.size_with_dates(8)
    }

    /// What an array holds, in whichever way the array is stored. `None` if this is no array.
    ///
    /// ```
    /// use nettrace_format::Type;
    ///
    /// assert_eq!(Type::FixedArray(Box::new(Type::Int16), 3).element(), Some(&Type::Int16));
    /// assert_eq!(Type::Utf16String.element(), None);
    /// ```
    #[must_use]
    #[inline]
    pub fn element(&self) -> Option<&Self> {
        match self {
            Self::Array(element)
            | Self::FixedArray(element, _)
            | Self::CountedArray(element, _)
            | Self::RelLoc(element)
            | Self::DataLoc(element) => Some(element),
            _ => None,
        }
    }

    /// The first unknown type code in this type. Nothing after a value with an unknown type can be
    /// decoded.
    ///
    /// ```
    /// use nettrace_format::Type;
    ///
    /// assert_eq!(Type::Array(Box::new(Type::Unknown(99))).unknown_code(), Some(99));
    /// assert_eq!(Type::Array(Box::new(Type::Guid)).unknown_code(), None);
    /// ```
    #[must_use]
    pub fn unknown_code(&self) -> Option<u32> {
        match self.endless() {
            Some(Self::Unknown(code)) => Some(*code),
            _ => None,
        }
    }

    /// The first type in this one whose values have an unknown end.
    #[must_use]
    pub fn endless(&self) -> Option<&Self> {
        match self {
            Self::Unknown(_) | Self::Deep | Self::Damaged => Some(self),
            Self::Object(fields) => fields.iter().find_map(|field| field.ty.endless()),
            _ => self.element()?.endless(),
        }
    }

    /// Whether its values have no bytes.
    #[must_use]
    pub fn is_of_no_bytes(&self) -> bool {
        match self {
            Self::Object(fields) => fields.iter().all(|field| field.ty.is_of_no_bytes()),
            Self::FixedArray(element, count) => *count == 0 || element.is_of_no_bytes(),
            _ => false,
        }
    }

    /// Whether it contains dates, whose size must be found out.
    #[must_use]
    #[inline]
    pub fn has_dates(&self) -> bool {
        match self {
            Self::DateTime => true,
            Self::Object(_) => self.has_dates_inside(),
            _ => self.element().is_some() && self.has_dates_inside(),
        }
    }

    fn has_dates_inside(&self) -> bool {
        match self {
            Self::Object(fields) => fields.iter().any(|field| field.ty.has_dates()),
            _ => self.element().is_some_and(Self::has_dates),
        }
    }

    /// Like [`fixed_size`](Self::fixed_size), with `date` as the size of a date.
    #[must_use]
    pub fn size_with_dates(&self, date: u32) -> Option<u32> {
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
            Self::Guid | Self::Decimal => 16,
            Self::Utf16String
            | Self::Utf8String
            | Self::Array(_)
            | Self::CountedArray(..)
            | Self::Rest
            | Self::VarInt
            | Self::VarUInt
            | Self::Unknown(_)
            | Self::Deep
            | Self::Damaged => {
                return None;
            }
        })
    }
}
