//! The constant description of an event type, which a derive writes.
//!
//! The schema states the fields' types and the encodings that the author chose. Each backend
//! decides how many bytes they take. A backend converts a schema to metadata once, at registration.

mod derived;
mod level;

use core::fmt;

pub use self::{derived::derived_id, level::Level};

/// The provider of an event type: the namespace of its name and id.
///
/// ```
/// use nettrace_event::ProviderSchema;
///
/// let shop = ProviderSchema { name: "Contoso-Shop", guid: None, group: Some("shop") };
/// assert!(nettrace_event::check::is_provider_name(shop.name, shop.group));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderSchema {
    /// The name, for example `Contoso-Checkout`. Never empty, no NUL.
    pub name: &'static str,
    /// The provider's GUID in the byte order of RFC 4122 (that of `Uuid::as_bytes`). If absent,
    /// readers derive a GUID from the name.
    pub guid: Option<[u8; 16]>,
    /// The provider group of EventHeader tracepoints. NetTrace has no groups.
    pub group: Option<&'static str>,
}

/// Where something is in the source code.
///
/// Code that a macro of the user makes has the place where the macro is used.
///
/// ```
/// use nettrace_event::Place;
///
/// let place = Place { module: "shop::cart", file: "src/cart.rs", line: 7, column: 8 };
/// assert_eq!(place.to_string(), "src/cart.rs:7:8");
/// assert_eq!(Place::UNKNOWN.to_string(), "an unknown place");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The path of the module, as `module_path!()` has it.
    pub module: &'static str,
    /// The file, as `file!()` has it.
    pub file: &'static str,
    /// The line, from 1; 0 if it is not known.
    pub line: u32,
    /// The column, from 1; 0 if it is not known.
    pub column: u32,
}

impl Place {
    /// An unknown place in the source code.
    pub const UNKNOWN: Self = Self { module: "", file: "", line: 0, column: 0 };
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { file: "", module: "", .. } => f.write_str("an unknown place"),
            Self { file: "", module, .. } => f.write_str(module),
            Self { file, line: 0, .. } => f.write_str(file),
            Self { file, line, column: 0, .. } => write!(f, "{file}:{line}"),
            Self { file, line, column, .. } => write!(f, "{file}:{line}:{column}"),
        }
    }
}

/// The constant description of one event type.
///
/// ```
/// use nettrace_event::{
///     EventSchema, FieldSchema, FieldType, Level, Place, ProviderSchema, derived_id,
/// };
///
/// const SALE: EventSchema = EventSchema {
///     provider: ProviderSchema { name: "Contoso-Shop", guid: None, group: None },
///     name: "Sale",
///     place: Place::UNKNOWN,
///     id: derived_id("Sale"),
///     id_is_explicit: false,
///     version: 0,
///     level: Level::Informational,
///     keywords: 0,
///     opcode: None,
///     tag: 0,
///     message: Some("sold for {cents} cents"),
///     description: None,
///     key_values: &[],
///     fields: &[FieldSchema::new("cents", FieldType::U32)],
/// };
///
/// // Another event with the same fields.
/// const REFUND: EventSchema = EventSchema { name: "Refund", id: derived_id("Refund"), ..SALE };
/// assert_eq!(REFUND.fields, SALE.fields);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSchema {
    /// The provider.
    pub provider: ProviderSchema,
    /// The event's name. Types of one provider may share it.
    pub name: &'static str,
    /// Where the type is. It tells types apart that are equal otherwise, unless they were given one
    /// id.
    pub place: Place,
    /// The id that the type wants, 1 to 65,534. The derive fills it in: the given id, or
    /// [`derived_id`](crate::derived_id) of the name. Registration assigns the id that the type
    /// has, which is unique within its provider: [`EventType::id`](crate::EventType::id).
    pub id: u16,
    /// Whether the author gave [`id`](Self::id). Otherwise it is the first choice of many.
    pub id_is_explicit: bool,
    /// Version of the event's layout.
    pub version: u8,
    /// The level: severity of the event.
    pub level: Level,
    /// The keywords: a bit set of the groups that the event belongs to. With 0, no keyword filter
    /// excludes it.
    pub keywords: u64,
    /// The opcode: the event's part in an activity (0 info, 1 start, 2 stop, ...). With `None`, the
    /// reader derives 1 and 2 from names that end in `Start` and `Stop`.
    pub opcode: Option<u8>,
    /// A user-defined 16-bit tag (EventHeader only).
    pub tag: u16,
    /// The message template, with `{field}` for values.
    pub message: Option<&'static str>,
    /// A description of the event for people.
    pub description: Option<&'static str>,
    /// Further key-value pairs about the type. EventHeader stores them as attributes of the event's
    /// name.
    pub key_values: &'static [(&'static str, &'static str)],
    /// The fields of the payload, in order.
    pub fields: &'static [FieldSchema],
}

/// One field of an event or of a nested object.
///
/// ```
/// use nettrace_event::{FieldFormat, FieldSchema, FieldType};
///
/// let field = FieldSchema::new("flags", FieldType::U32);
/// let field = FieldSchema { format: FieldFormat::Hex, ..field };
/// assert_eq!(field.name, "flags");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldSchema {
    /// The name shown to people.
    pub name: &'static str,
    /// The type of the value, with its encoding.
    pub ty: FieldType,
    /// The format in which a decoder should show the value (EventHeader only; NetTrace has no
    /// formats).
    pub format: FieldFormat,
    /// A user-defined 16-bit tag (EventHeader only).
    pub tag: u16,
    /// The field's role in its event.
    pub role: FieldRole,
    /// Whether the value is a [`Secret`](crate::Secret), of which only a part is recorded.
    pub is_secret: bool,
    /// Further key-value pairs about the field (EventHeader only, as attributes of the field's
    /// name).
    pub key_values: &'static [(&'static str, &'static str)],
}

impl FieldSchema {
    /// An ordinary field: no format, no tag, no role, no key-value pairs.
    ///
    /// ```
    /// use nettrace_event::{FieldFormat, FieldRole, FieldSchema, FieldType};
    ///
    /// let field = FieldSchema::new("cents", FieldType::U32);
    /// assert_eq!((field.format, field.role), (FieldFormat::Default, FieldRole::Value));
    /// ```
    #[must_use]
    pub const fn new(name: &'static str, ty: FieldType) -> Self {
        Self {
            name,
            ty,
            format: FieldFormat::Default,
            tag: 0,
            role: FieldRole::Value,
            is_secret: false,
            key_values: &[],
        }
    }
}

/// The role of a field that some formats store outside the payload: Heph traces have a start, an
/// end and a description for each event. NetTrace and EventHeader store such fields like any other.
///
/// ```
/// use nettrace_event::{FieldRole, FieldSchema, FieldType};
///
/// const FIELDS: [FieldSchema; 2] = [
///     FieldSchema { role: FieldRole::Start, ..FieldSchema::new("begin", FieldType::UnixNanos) },
///     FieldSchema::new("cents", FieldType::U32),
/// ];
/// let start = FIELDS.iter().find(|field| field.role == FieldRole::Start);
/// assert_eq!(start.unwrap().name, "begin");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldRole {
    /// An ordinary field.
    Value,
    /// The start of the span.
    Start,
    /// The end of the span.
    End,
    /// The description of the span.
    Description,
}

/// The format in which a decoder shows a value, in EventHeader's terms.
///
/// ```
/// use nettrace_event::{FieldFormat, FieldType, check};
///
/// assert!(check::format_fits(FieldFormat::Hex, &FieldType::U64));
/// assert!(!check::format_fits(FieldFormat::Hex, &FieldType::F64));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum FieldFormat {
    /// As the type suggests.
    Default,
    /// An integer as a signed integer, whatever its type.
    Signed,
    /// An integer as an unsigned integer.
    Unsigned,
    Hex,
    /// An integer as a boolean: 0 is false.
    Boolean,
    Errno,
    Pid,
    /// Seconds since 1970-01-01 UTC.
    Time,
    /// A network port, which EventHeader stores big endian.
    Port,
    IpAddress,
    /// 16 bytes in the order of RFC 4122.
    Uuid,
    /// Bytes as Latin-1 text.
    Latin1,
    /// Bytes as UTF-8, numbers of 16 bits as UTF-16, numbers of 32 bits and characters as UTF-32.
    Utf,
    /// The same, unless a byte order mark at the start states another encoding.
    UtfBom,
    Xml,
    Json,
    HexBytes,
}

/// The type of a field, with its encoding. The comments name the NetTrace V6 type; a backend
/// without that encoding uses the nearest one it has.
///
/// ```
/// use nettrace_event::{ArrayLayout, FieldType, StrEncoding, TraceField};
///
/// const TEXT: FieldType = FieldType::Str(StrEncoding::Utf16);
/// assert_eq!(<&str as TraceField>::TYPE, TEXT);
/// assert_eq!(<Option<&str> as TraceField>::TYPE, FieldType::Option(&TEXT));
/// assert_eq!(<[&str; 3] as TraceField>::TYPE, FieldType::Array(&TEXT, ArrayLayout::Fixed(3)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// `bool` as NetTrace `Boolean`: 4 bytes.
    Bool,
    /// `bool` as NetTrace `Boolean8`: 1 byte. Only readers since 3.1.28 know it.
    Bool8,
    /// `u8` as `Byte`.
    U8,
    /// `u16` as `UInt16`.
    U16,
    /// `u32` as `UInt32`.
    U32,
    /// `u64` (and `usize`, whatever the machine) as `UInt64`.
    U64,
    /// `u128` as an object of two `UInt64`, `low` and `high`.
    U128,
    /// `i8` as `SByte`.
    I8,
    /// `i16` as `Int16`.
    I16,
    /// `i32` as `Int32`.
    I32,
    /// `i64` (and `isize`) as `Int64`.
    I64,
    /// `i128` as an object of a `UInt64` `low` and an `Int64` `high`.
    I128,
    /// `f32` as `Single`.
    F32,
    /// `f64` as `Double`.
    F64,
    /// An unsigned integer as `VarUInt`: 1 to 10 bytes.
    VarUInt,
    /// A signed integer as `VarInt`: 1 to 10 bytes, zig-zag.
    VarInt,
    /// A `char` as the text of one character (EventHeader: a UTF-32 value).
    Char,
    /// A `char` as one UTF-16 code unit, `UTF16CodeUnit`; U+FFFD if it needs two.
    Utf16Unit,
    /// Text.
    Str(StrEncoding),
    /// A GUID of 16 bytes, given in the byte order of RFC 4122.
    Guid,
    /// `SystemTime` as `Int64`: nanoseconds since 1970-01-01 UTC, saturating.
    UnixNanos,
    /// `SystemTime` as `DateTime`: 8 bytes, units of 100 ns since 1601-01-01 UTC, with a resolution
    /// of a millisecond. Readers take it so; the specification has 16 bytes, in eight parts.
    DateTime,
    /// `Duration` as `UInt64`: nanoseconds, saturating (584 years).
    DurationNanos,
    /// `IpAddr`, as text (EventHeader: 4 or 16 bytes with the address format).
    IpAddr,
    /// `SocketAddr`, as text.
    SocketAddr,
    /// A sequence of values of one type.
    Array(&'static FieldType, ArrayLayout),
    /// An object: its fields in order, without padding.
    Object(&'static [FieldSchema]),
    /// A value that may be absent: an `Array` of zero or one element.
    Option(&'static FieldType),
}

/// The storage of a value in NetTrace: its bytes, whatever they mean.
///
/// The formats of the NetTrace family write and read values by this type alone. A new [`FieldType`]
/// therefore only needs an arm in [`FieldType::storage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "integers and floating-point numbers are named by their Rust types")]
pub enum Storage<T = &'static FieldType, F = &'static [FieldSchema]> {
    /// 4 bytes, 0 or 1.
    Bool,
    /// 1 byte, 0 or 1.
    Bool8,
    U8,
    U16,
    U32,
    U64,
    U128,
    I8,
    I16,
    I32,
    I64,
    I128,
    F32,
    F64,
    /// An unsigned LEB128 number of 64 bits.
    VarUInt,
    /// A signed number of 64 bits, zig-zag and then LEB128.
    VarInt,
    /// One UTF-16 code unit.
    Utf16Unit,
    /// 16 bytes of a GUID.
    Guid,
    /// 8 bytes: units of 100 ns since 1601-01-01 UTC.
    DateTime,
    /// Text.
    Text(StrEncoding),
    /// Elements.
    Array(T, ArrayLayout),
    /// A `u16` that is 0 or 1, then that many values.
    Option(T),
    /// Fields, one after the other.
    Object(F),
}

impl FieldType {
    /// The storage of a value of this type in NetTrace.
    ///
    /// ```
    /// use nettrace_event::{FieldType, Storage, StrEncoding};
    ///
    /// // An address is stored as text.
    /// assert_eq!(FieldType::IpAddr.storage(), Storage::Text(StrEncoding::Utf16));
    /// assert_eq!(FieldType::DurationNanos.storage(), Storage::U64);
    /// ```
    #[must_use]
    pub const fn storage(&self) -> Storage {
        match *self {
            Self::Bool => Storage::Bool,
            Self::Bool8 => Storage::Bool8,
            Self::U8 => Storage::U8,
            Self::U16 => Storage::U16,
            Self::U32 => Storage::U32,
            Self::U64 | Self::DurationNanos => Storage::U64,
            Self::U128 => Storage::U128,
            Self::I8 => Storage::I8,
            Self::I16 => Storage::I16,
            Self::I32 => Storage::I32,
            Self::I64 | Self::UnixNanos => Storage::I64,
            Self::I128 => Storage::I128,
            Self::F32 => Storage::F32,
            Self::F64 => Storage::F64,
            Self::VarUInt => Storage::VarUInt,
            Self::VarInt => Storage::VarInt,
            Self::Utf16Unit => Storage::Utf16Unit,
            Self::Guid => Storage::Guid,
            Self::DateTime => Storage::DateTime,
            Self::Char | Self::IpAddr | Self::SocketAddr => Storage::Text(StrEncoding::Utf16),
            Self::Str(encoding) => Storage::Text(encoding),
            Self::Array(element, layout) => Storage::Array(element, layout),
            Self::Option(inner) => Storage::Option(inner),
            Self::Object(fields) => Storage::Object(fields),
        }
    }

    /// The name that a schema in text has for it. Those of types with others inside are made of
    /// their parts.
    #[cfg(feature = "schema_lock")]
    pub(crate) const fn name(&self) -> &'static str {
        match *self {
            Self::Bool => "bool",
            Self::Bool8 => "bool8",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::U128 => "u128",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::I128 => "i128",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::VarUInt => "var_uint",
            Self::VarInt => "var_int",
            Self::Char => "char",
            Self::Utf16Unit => "utf16_unit",
            Self::Str(StrEncoding::Utf16) => "text",
            Self::Str(StrEncoding::Utf16Nul) => "utf16_nul text",
            Self::Str(StrEncoding::Utf8) => "utf8 text",
            Self::Str(StrEncoding::Utf16RelLoc) => "utf16_rel_loc text",
            Self::Str(StrEncoding::Utf16DataLoc) => "utf16_data_loc text",
            Self::Str(StrEncoding::Utf8RelLoc) => "utf8_rel_loc text",
            Self::Str(StrEncoding::Utf8DataLoc) => "utf8_data_loc text",
            Self::Guid => "guid",
            Self::UnixNanos => "unix_nanos",
            Self::DateTime => "date_time",
            Self::DurationNanos => "duration_nanos",
            Self::IpAddr => "ip_addr",
            Self::SocketAddr => "socket_addr",
            Self::Array(..) | Self::Object(_) | Self::Option(_) => "",
        }
    }

    /// The size in bytes of every value in NetTrace; `None` if it varies.
    ///
    /// ```
    /// use nettrace_event::{ArrayLayout, FieldType};
    ///
    /// assert_eq!(FieldType::Array(&FieldType::U16, ArrayLayout::Fixed(3)).fixed_size(), Some(6));
    /// assert_eq!(FieldType::VarUInt.fixed_size(), None);
    /// ```
    #[must_use]
    pub const fn fixed_size(&self) -> Option<usize> {
        Some(match self.storage() {
            Storage::Bool8 | Storage::U8 | Storage::I8 => 1,
            Storage::U16 | Storage::I16 | Storage::Utf16Unit => 2,
            Storage::Bool | Storage::U32 | Storage::I32 | Storage::F32 => 4,
            Storage::U64 | Storage::I64 | Storage::F64 | Storage::DateTime => 8,
            Storage::U128 | Storage::I128 | Storage::Guid => 16,
            Storage::Array(element, ArrayLayout::Fixed(count)) => match element.fixed_size() {
                Some(size) => size.saturating_mul(count as usize),
                None => return None,
            },
            Storage::Object(fields) => {
                let (mut sum, mut at) = (0_usize, 0);
                while at < fields.len() {
                    match fields[at].ty.fixed_size() {
                        Some(size) => sum = sum.saturating_add(size),
                        None => return None,
                    }
                    at += 1;
                }
                sum
            }
            Storage::VarUInt
            | Storage::VarInt
            | Storage::Text(_)
            | Storage::Option(_)
            | Storage::Array(..) => return None,
        })
    }

    /// Whether every value has the same size in NetTrace. The elements of a `RelLoc` or `DataLoc`
    /// must have it.
    ///
    /// ```
    /// use nettrace_event::FieldType;
    ///
    /// assert!(FieldType::Guid.is_fixed_size());
    /// assert!(!FieldType::Char.is_fixed_size());
    /// ```
    #[must_use]
    pub const fn is_fixed_size(&self) -> bool {
        self.fixed_size().is_some()
    }
}

/// The storage of a text.
///
/// ```
/// use nettrace_event::{FieldType, StrEncoding, TraceField, encoding::Utf8};
///
/// assert_eq!(<str as TraceField>::TYPE, FieldType::Str(StrEncoding::Utf16));
/// assert_eq!(<str as TraceField<Utf8>>::TYPE, FieldType::Str(StrEncoding::Utf8));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrEncoding {
    /// The default: a u16 count and that many UTF-16 code units (`Array` of `UTF16CodeUnit`), at
    /// most 32,767. Every reader shows it correctly. A NUL inside becomes U+FFFD, because readers
    /// show text only up to its first NUL.
    Utf16,
    /// UTF-16 up to a NUL (`NullTerminatedUTF16String`). A NUL inside becomes U+FFFD: it would end
    /// the text, and readers would read the rest of it as the next fields.
    Utf16Nul,
    /// u16 count and that many UTF-8 bytes (`Array` of `UTF8CodeUnit`): half the size, but the
    /// reference reader shows it as Latin-1.
    Utf8,
    /// UTF-16 after the fields of the event, found through a `RelLoc`.
    Utf16RelLoc,
    /// UTF-16 after the fields of the event, found through a `DataLoc`.
    Utf16DataLoc,
    /// UTF-8 after the fields of the event, found through a `RelLoc`.
    Utf8RelLoc,
    /// UTF-8 after the fields of the event, found through a `DataLoc`.
    Utf8DataLoc,
}

/// The storage of a sequence.
///
/// ```
/// use nettrace_event::{ArrayLayout, FieldType};
///
/// // Three numbers take six bytes. With a count before them the size varies.
/// assert_eq!(FieldType::Array(&FieldType::U16, ArrayLayout::Fixed(3)).fixed_size(), Some(6));
/// assert_eq!(FieldType::Array(&FieldType::U16, ArrayLayout::Counted).fixed_size(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayLayout {
    /// u16 count, then the elements; at most 32,767.
    Counted,
    /// The given number of elements (never 0), without a count.
    Fixed(u16),
    /// After the fields of the event, found through a `RelLoc`; only elements of fixed size.
    RelLoc,
    /// After the fields of the event, found through a `DataLoc`; only elements of fixed size.
    DataLoc,
}
