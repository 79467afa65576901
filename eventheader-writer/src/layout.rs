//! The numbers of the EventHeader format, for authors of decoders.
//!
//! An event in a tracepoint has the writer's byte order and no padding. It consists of:
//!
//! 1. the [`Header`], 8 bytes;
//! 2. if [`flag::EXTENSION`] is set, extensions: an [`ExtensionHeader`] and its bytes each, up to
//!    and including the first whose kind lacks [`extension::CHAIN`];
//! 3. the payload.
//!
//! The extension [`extension::METADATA`] holds `name[;key=value]…` and a NUL for the event. Then
//! follow, for each field: `name[;key=value]…`, a NUL, an [`encoding`], a [`mod@format`] if
//! [`encoding::HAS_FORMAT`] is set, a `u16` tag if [`format::HAS_TAG`] is set, and a `u16` count if
//! [`encoding::CONSTANT_ARRAY`] is set. A `;` within an attribute's value is doubled.
//!
//! A decoder begins like this:
//!
//! ```
//! use eventheader_writer::{
//!     Context, encoded,
//!     layout::{ExtensionHeader, Header, extension, flag},
//! };
//! # use eventheader_writer::TraceEvent;
//! # #[derive(TraceEvent)]
//! # #[trace_event(provider = "Docs", level = Warning)]
//! # struct Slow { micros: u64 }
//!
//! let event = encoded(&Slow { micros: 180 }, &Context::new())?;
//! let (header, rest) = event.split_first_chunk().expect("at least 8 bytes");
//! let header = Header::from_bytes(*header);
//! assert_eq!(header.level, 3);
//! assert_ne!(header.flags & flag::EXTENSION, 0);
//!
//! let (first, rest) = rest.split_first_chunk().expect("at least 4 more");
//! let first = ExtensionHeader::from_bytes(*first);
//! assert_eq!(first.kind, extension::METADATA);
//! let (metadata, payload) = rest.split_at(first.size.into());
//! assert!(metadata.starts_with(b"Slow\0micros\0"));
//! assert_eq!(payload, 180_u64.to_ne_bytes());
//! # Ok::<(), eventheader_writer::Error>(())
//! ```
//!
//! The numbers are those of the EventHeader specification (`eventheader.h` of Microsoft's
//! LinuxTracepoints).

/// The first 8 bytes of an event.
///
/// ```
/// use eventheader_writer::layout::{Header, flag};
///
/// let bytes = [0x07, 1, 2, 0, 0, 0, 1, 4];
/// let header = Header::from_bytes(bytes);
/// assert_ne!(header.flags & flag::EXTENSION, 0);
/// assert_eq!((header.version, header.opcode, header.level), (1, 1, 4));
/// assert_eq!(header.to_bytes(), bytes);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Bits of [`flag`].
    pub flags: u8,
    /// Version of the event's layout; 0 if the event has no id.
    pub version: u8,
    /// The event's id; 0 for none.
    pub id: u16,
    /// A number whose meaning the provider defines; 0 for none.
    pub tag: u16,
    /// The opcode: the event's part in an activity. 0 none, 1 start, 2 end.
    pub opcode: u8,
    /// The level, 1 to 255: see [`Level`](crate::Level).
    pub level: u8,
}

impl Header {
    /// The size of a header in bytes.
    pub const SIZE: usize = 8;

    /// Reads a header in this machine's byte order. [`flag::LITTLE_ENDIAN`] in the first byte
    /// states the event's byte order.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::SIZE]) -> Self {
        let [flags, version, id0, id1, tag0, tag1, opcode, level] = bytes;
        let (id, tag) = (u16::from_ne_bytes([id0, id1]), u16::from_ne_bytes([tag0, tag1]));
        Self { flags, version, id, tag, opcode, level }
    }

    /// The bytes of a header, in this machine's byte order.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; Self::SIZE] {
        let (id, tag) = (self.id.to_ne_bytes(), self.tag.to_ne_bytes());
        [self.flags, self.version, id[0], id[1], tag[0], tag[1], self.opcode, self.level]
    }
}

/// The first 4 bytes of an extension.
///
/// ```
/// use eventheader_writer::layout::{ExtensionHeader, extension};
///
/// let header = ExtensionHeader { size: 16, kind: extension::ACTIVITY_ID };
/// assert_eq!(ExtensionHeader::from_bytes(header.to_bytes()), header);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtensionHeader {
    /// Size in bytes of what follows this header.
    pub size: u16,
    /// One of the kinds in [`extension`], possibly with [`extension::CHAIN`].
    pub kind: u16,
}

impl ExtensionHeader {
    /// The size of an extension's header in bytes.
    pub const SIZE: usize = 4;

    /// Reads the header of an extension in this machine's byte order.
    #[must_use]
    pub const fn from_bytes([size0, size1, kind0, kind1]: [u8; Self::SIZE]) -> Self {
        let (size, kind) = ([size0, size1], [kind0, kind1]);
        Self { size: u16::from_ne_bytes(size), kind: u16::from_ne_bytes(kind) }
    }

    /// The bytes of the header of an extension, in this machine's byte order.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; Self::SIZE] {
        let (size, kind) = (self.size.to_ne_bytes(), self.kind.to_ne_bytes());
        [size[0], size[1], kind[0], kind[1]]
    }
}

/// Bits of [`Header::flags`].
pub mod flag {
    /// The writer's pointers have 64 bits.
    pub const POINTER64: u8 = 1;
    /// The event is in little-endian order.
    pub const LITTLE_ENDIAN: u8 = 2;
    /// Extensions follow the header.
    pub const EXTENSION: u8 = 4;
}

/// Kinds of extensions: [`ExtensionHeader::kind`].
pub mod extension {
    /// Names and types of the event and its fields.
    pub const METADATA: u16 = 1;
    /// The activity's id, 16 bytes, optionally followed by the related activity's id, 16 bytes.
    pub const ACTIVITY_ID: u16 = 2;
    /// This bit is set if another extension follows.
    pub const CHAIN: u16 = 0x8000;
}

/// Encodings of a field's value: the low five bits are one of these numbers, the others are flags.
pub mod encoding {
    /// A struct. Its members are the next fields, as many as the format byte states (1 to 127).
    pub const STRUCT: u8 = 1;
    /// 1 byte.
    pub const VALUE8: u8 = 2;
    /// 2 bytes.
    pub const VALUE16: u8 = 3;
    /// 4 bytes.
    pub const VALUE32: u8 = 4;
    /// 8 bytes.
    pub const VALUE64: u8 = 5;
    /// 16 bytes.
    pub const VALUE128: u8 = 6;
    /// Units of 8 bits up to a NUL.
    pub const Z_STRING_CHAR8: u8 = 7;
    /// Units of 16 bits up to a NUL.
    pub const Z_STRING_CHAR16: u8 = 8;
    /// Units of 32 bits up to a NUL.
    pub const Z_STRING_CHAR32: u8 = 9;
    /// A `u16` count, then that many units of 8 bits.
    pub const STRING_LENGTH16_CHAR8: u8 = 10;
    /// A `u16` count, then that many units of 16 bits.
    pub const STRING_LENGTH16_CHAR16: u8 = 11;
    /// A `u16` count, then that many units of 32 bits.
    pub const STRING_LENGTH16_CHAR32: u8 = 12;
    /// A `u16` count, then that many bytes. With a format of fixed size, a count of 0 is an absent
    /// value.
    pub const BINARY_LENGTH16_CHAR8: u8 = 13;
    /// Flag: an array whose number of elements is in the metadata.
    pub const CONSTANT_ARRAY: u8 = 0x20;
    /// Flag: an array whose number of elements is a `u16` in the payload.
    pub const VARIABLE_ARRAY: u8 = 0x40;
    /// Flag: a byte of [`format`](super::format) follows the encoding.
    pub const HAS_FORMAT: u8 = 0x80;
}

/// Formats in which a decoder should present a value.
pub mod format {
    /// The encoding's default.
    pub const DEFAULT: u8 = 0;
    /// An unsigned integer.
    pub const UNSIGNED: u8 = 1;
    /// A signed integer.
    pub const SIGNED: u8 = 2;
    /// An integer in hexadecimal.
    pub const HEX: u8 = 3;
    /// An error number of the operating system.
    pub const ERRNO: u8 = 4;
    /// A process or thread id.
    pub const PID: u8 = 5;
    /// Seconds since 1970-01-01 UTC, signed.
    pub const TIME: u8 = 6;
    /// A boolean; 0 is false.
    pub const BOOLEAN: u8 = 7;
    /// A floating-point number.
    pub const FLOAT: u8 = 8;
    /// Bytes in hexadecimal.
    pub const HEX_BYTES: u8 = 9;
    /// Latin-1 text.
    pub const LATIN1: u8 = 10;
    /// Text in the UTF of the encoding's unit size.
    pub const UTF: u8 = 11;
    /// The same, unless a byte order mark states another encoding.
    pub const UTF_BOM: u8 = 12;
    /// XML text.
    pub const XML: u8 = 13;
    /// JSON text.
    pub const JSON: u8 = 14;
    /// A UUID in the byte order of RFC 4122.
    pub const UUID: u8 = 15;
    /// A TCP or UDP port, big endian.
    pub const PORT: u8 = 16;
    /// An IP address of 4 or 16 bytes, big endian.
    pub const IP_ADDRESS: u8 = 17;
    /// Flag: a `u16` tag follows the format.
    pub const HAS_TAG: u8 = 0x80;
}
