//! What is known of an event before it happens: the constant part that a derive writes.
//!
//! The schema says what a field *is* and which spelling its author chose; how many bytes that takes
//! is each backend's business. A backend turns a schema into its metadata once, at registration.

/// Severity of an event. The numbers are those of the NetTrace and EventHeader formats, where a
/// session that asks for a level gets that level and every lower number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// Always recorded, whatever level a session asks for.
    LogAlways = 0,
    /// The process or a request cannot go on.
    Critical = 1,
    /// Something failed.
    Error = 2,
    /// Something looks wrong.
    Warning = 3,
    /// The normal course of things; the default.
    Informational = 4,
    /// Detail for a diagnosis.
    Verbose = 5,
}

/// The provider that an event type belongs to: the namespace of its name and id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderSchema {
    /// The name, for example `Contoso-Checkout`. Never empty, no NUL.
    pub name: &'static str,
    /// The provider's GUID in the byte order of RFC 4122 (as `Uuid::as_bytes` has it). Readers
    /// derive one from the name where it is absent.
    pub guid: Option<[u8; 16]>,
    /// The provider group of EventHeader tracepoints; NetTrace has no such thing.
    pub group: Option<&'static str>,
}

/// Everything constant about one event type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSchema {
    /// The provider.
    pub provider: ProviderSchema,
    /// The event's name.
    pub name: &'static str,
    /// The event's number, unique within its provider, 1 to 65,534. The derive fills it in: the
    /// given one, else [`derived_id`] of the name.
    pub id: u16,
    /// Whether [`id`](Self::id) was written by the author rather than derived from the name.
    pub id_is_explicit: bool,
    /// Version of the event's layout.
    pub version: u8,
    /// Severity.
    pub level: Level,
    /// Bit set of the groups that the event belongs to; 0 means that no keyword filter excludes it.
    pub keywords: u64,
    /// What the event says of an activity (0 info, 1 start, 2 stop, ...). `None` leaves the choice
    /// to the reader, which derives 1 and 2 from names that end in `Start` and `Stop`.
    pub opcode: Option<u8>,
    /// A user-defined 16-bit tag (EventHeader only).
    pub tag: u16,
    /// Message template, with `{field}` for values.
    pub message: Option<&'static str>,
    /// What the event means, for a person.
    pub description: Option<&'static str>,
    /// Further key-value pairs about the type.
    pub key_values: &'static [(&'static str, &'static str)],
    /// The payload, in order.
    pub fields: &'static [FieldSchema],
}

/// One field of an event or of an object within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldSchema {
    /// The name shown to people.
    pub name: &'static str,
    /// What the value is and how it is spelled.
    pub ty: FieldType,
    /// How a decoder should present it (EventHeader only; NetTrace has no formats).
    pub format: FieldFormat,
    /// A user-defined 16-bit tag (EventHeader only).
    pub tag: u16,
    /// Whether the field is one of an event's distinguished parts.
    pub role: FieldRole,
}

impl FieldSchema {
    /// An ordinary field: no format, no tag, no role.
    #[must_use]
    pub const fn new(name: &'static str, ty: FieldType) -> Self {
        Self { name, ty, format: FieldFormat::Default, tag: 0, role: FieldRole::Value }
    }
}

/// A part that some formats keep outside the payload: Heph traces have a start, an end and a
/// description for each event. NetTrace and EventHeader record such fields like any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldRole {
    /// An ordinary field.
    Value,
    /// When the span began.
    Start,
    /// When the span ended.
    End,
    /// The text that describes the span.
    Description,
}

/// Presentation of a value, as EventHeader knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum FieldFormat {
    /// As the type suggests.
    Default,
    /// An integer as a signed one, whatever its type.
    Signed,
    /// An integer as an unsigned one.
    Unsigned,
    Hex,
    /// An integer as a truth value: 0 is false.
    Boolean,
    Errno,
    Pid,
    /// Seconds since 1970.
    Time,
    /// A network port; stored big endian by EventHeader.
    Port,
    IpAddress,
    /// 16 bytes in the order of RFC 4122.
    Uuid,
    /// Bytes as text of Latin-1.
    Latin1,
    /// Bytes as UTF-8, numbers of 16 bits as UTF-16, numbers of 32 bits and characters as UTF-32.
    Utf,
    /// The same, where a byte order mark at the beginning says otherwise.
    UtfBom,
    Xml,
    Json,
    HexBytes,
}

/// What a field holds, and the spelling chosen for it. The comments name the NetTrace V6 type; a
/// backend that lacks a spelling uses the nearest it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// `bool` as NetTrace `Boolean`: 4 bytes.
    Bool,
    /// `bool` as NetTrace `Boolean8`: 1 byte, which only readers since 3.1.28 know.
    Bool8,
    /// `u8` as `Byte`.
    U8,
    /// `u16` as `UInt16`.
    U16,
    /// `u32` as `UInt32`.
    U32,
    /// `u64` (and `usize`, whatever the machine) as `UInt64`.
    U64,
    /// `u128` as an object of two `UInt64`: `low`, `high`.
    U128,
    /// `i8` as `SByte`.
    I8,
    /// `i16` as `Int16`.
    I16,
    /// `i32` as `Int32`.
    I32,
    /// `i64` (and `isize`) as `Int64`.
    I64,
    /// `i128` as an object of `UInt64` `low` and `Int64` `high`.
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
    /// A `char` as one UTF-16 code unit, `UTF16CodeUnit`; U+FFFD where one does not suffice.
    Utf16Unit,
    /// Text.
    Str(StrEncoding),
    /// A GUID, 16 bytes; given in the byte order of RFC 4122.
    Guid,
    /// `SystemTime` as `Int64`: nanoseconds since 1970-01-01 UTC, saturating.
    UnixNanos,
    /// `SystemTime` as `DateTime` (16 bytes, millisecond resolution).
    DateTime,
    /// `Duration` as `UInt64`: nanoseconds, saturating (584 years).
    DurationNanos,
    /// `IpAddr`, as text (EventHeader: 4 or 16 bytes with the address format).
    IpAddr,
    /// `SocketAddr`, as text.
    SocketAddr,
    /// A sequence of values of one type.
    Array(&'static FieldType, ArrayLayout),
    /// Fields of their own, in order, without padding.
    Object(&'static [FieldSchema]),
    /// A value that may be absent: an `Array` of zero or one element.
    Option(&'static FieldType),
}

impl FieldType {
    /// Whether every value takes the same number of bytes in NetTrace: what the elements behind a
    /// `RelLoc` or `DataLoc` must do.
    #[must_use]
    pub const fn is_fixed_size(&self) -> bool {
        match self {
            Self::VarUInt
            | Self::VarInt
            | Self::Char
            | Self::Str(_)
            | Self::IpAddr
            | Self::SocketAddr
            | Self::Option(_)
            | Self::Array(_, ArrayLayout::Counted | ArrayLayout::RelLoc | ArrayLayout::DataLoc) => {
                false
            }
            Self::Array(element, ArrayLayout::Fixed(_)) => element.is_fixed_size(),
            Self::Object(fields) => {
                let mut at = 0;
                while at < fields.len() {
                    if !fields[at].ty.is_fixed_size() {
                        return false;
                    }
                    at += 1;
                }
                true
            }
            _ => true,
        }
    }
}

/// How text is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrEncoding {
    /// The default: u16 count and that many UTF-16 code units (`Array` of `UTF16CodeUnit`). Every
    /// reader shows it right, a NUL inside included. At most 32,767 units.
    Utf16,
    /// UTF-16 up to a NUL (`NullTerminatedUTF16String`); a NUL inside becomes U+FFFD.
    Utf16Nul,
    /// u16 count and that many UTF-8 bytes (`Array` of `UTF8CodeUnit`): half the size, but the
    /// reference reader shows it as Latin-1.
    Utf8,
    /// UTF-16 behind the fields of the event, found through a `RelLoc`.
    Utf16RelLoc,
    /// UTF-16 behind the fields of the event, found through a `DataLoc`.
    Utf16DataLoc,
    /// UTF-8 behind the fields of the event, found through a `RelLoc`.
    Utf8RelLoc,
    /// UTF-8 behind the fields of the event, found through a `DataLoc`.
    Utf8DataLoc,
}

/// How a sequence is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayLayout {
    /// u16 count, then the elements; at most 32,767.
    Counted,
    /// That many elements (never 0) and no count.
    Fixed(u16),
    /// Behind the fields of the event, found through a `RelLoc`; elements of fixed size only.
    RelLoc,
    /// Behind the fields of the event, found through a `DataLoc`; elements of fixed size only.
    DataLoc,
}

/// The id of an event whose author gave none: a hash (FNV-1a, 32 bits, folded) of its name into
/// 8,192 to 65,534.
///
/// It depends on nothing but the name, so it is the same in every build and on every machine. Two
/// names of a provider may collide; registration then says so, and one of them needs an explicit
/// id.
#[must_use]
pub const fn derived_id(name: &str) -> u16 {
    let bytes = name.as_bytes();
    let mut hash: u32 = 0x811c_9dc5;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    const FIRST: u32 = 8_192;
    const COUNT: u32 = 65_535 - FIRST;
    (FIRST + (hash ^ (hash >> 16)) % COUNT) as u16
}
