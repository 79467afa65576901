//! Describes events independently of any format: their schema, their values, and the word that
//! records who listens.
//!
//! An application does not name this crate: it derives [`TraceEvent`] through the writer's crate,
//! which re-exports everything here. A backend implements [`PayloadEncoder`].
//!
//! ```
//! use nettrace_event::{ArrayLayout, FieldType, TraceField};
//!
//! // How the schema of an event describes fields of these Rust types.
//! assert_eq!(<usize as TraceField>::TYPE, FieldType::U64);
//! assert_eq!(
//!     <[bool] as TraceField>::TYPE,
//!     FieldType::Array(&FieldType::Bool, ArrayLayout::Counted)
//! );
//! ```
//!
//! # Types
//!
//! The types of fields, and how a NetTrace file of version 6 stores them. A field can choose
//! another encoding with `encoding = …`; the choices are in [`encoding`].
//!
//! | Rust type | [`FieldType`] | NetTrace type and size |
//! |---|---|---|
//! | `bool`, `AtomicBool` | `Bool` | `Boolean`, 4 bytes |
//! | `u8`, `u16`, `u32`, `u64` | `U8` … `U64` | `Byte`, `UInt16`, `UInt32`, `UInt64` |
//! | `i8`, `i16`, `i32`, `i64` | `I8` … `I64` | `SByte`, `Int16`, `Int32`, `Int64` |
//! | `usize`, `isize` | `U64`, `I64` | `UInt64`, `Int64`, on every machine |
//! | `u128`, `i128` | `U128`, `I128` | object of `low` and `high`, 16 bytes |
//! | `f32`, `f64` | `F32`, `F64` | `Single`, `Double` |
//! | `NonZero<…>`, `Wrapping<T>`, `Saturating<T>` | that of the number | as the number |
//! | `AtomicU8` … `AtomicI64` | that of the number | as the number, by one relaxed load |
//! | `AtomicUsize`, `AtomicIsize` | that of the number | as the number, by one relaxed load |
//! | `char` | `Char` | text of one character |
//! | `str`, `String` | `Str` | counted UTF-16: 2 bytes, then 2 or 4 for each character |
//! | `Path`, `PathBuf`, `OsStr`, `OsString` | `Str` | as `str`; invalid Unicode becomes U+FFFD |
//! | `[T]`, `Vec<T>` | `Array`, counted | 2 bytes of count, then the elements |
//! | `[T; N]` | `Array`, fixed | the elements alone (with a count if N is 0) |
//! | tuples of 1 to 12 | `Object` | the parts in order, named `0`, `1`, … |
//! | `BTreeMap<K, V>`, `HashMap<K, V>`, `Pairs<K, V>` | `Array`, counted, of `Object` | the entries, with the fields `Key` and `Value`; those of a `HashMap` in the order of its keys |
//! | a struct that derives [`TraceField`](trait@TraceField) | `Object` | its fields in order |
//! | an enum that derives it | `Str`, or an integer | the variant's name, or its number |
//! | `Option<T>` | `Option` | array of zero or one element |
//! | `SystemTime` | `UnixNanos` | `Int64`, nanoseconds since 1970-01-01 UTC, saturating |
//! | `Duration` | `DurationNanos` | `UInt64`, nanoseconds, saturating |
//! | `IpAddr`, `Ipv4Addr`, `Ipv6Addr` | `IpAddr` | text |
//! | `SocketAddr`, `SocketAddrV4`, `SocketAddrV6` | `SocketAddr` | text |
//! | `uuid::Uuid` (feature `uuid`) | `Guid` | `Guid`, 16 bytes |
//! | `&T`, `&mut T`, `Box<T>`, `Rc<T>`, `Arc<T>`, `Cow<T>` | that of `T` | as `T` |
//!
//! Paths and system strings allocate memory only if they are not valid Unicode.
//!
//! # Features
//!
//! * `std` (default): `SystemTime`, `HashMap`, paths and system strings as fields
//! * `alloc` (part of `std`): the types that allocate
//! * `uuid`: `uuid::Uuid`
//!
//! Without `std` the crate does not use the standard library.
#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod check;
mod encode;
pub mod encoding;
mod event;
/// For the examples in the documentation. Not part of the public interface.
#[doc(hidden)]
pub mod example;
mod field;
pub mod registry;
mod schema;

pub use crate::{
    encode::PayloadEncoder,
    event::{
        EventType, KERNEL_BIT, LOST_BIT, Made, NOT_REGISTERED, PAYLOADS_VARY, SESSION_BITS,
        TraceEvent, compact_head,
    },
    field::{FieldAs, LocatedField, Pairs, TextField, TraceField},
    schema::{
        ArrayLayout, EventSchema, FieldFormat, FieldRole, FieldSchema, FieldType, Level, Place,
        ProviderSchema, Storage, StrEncoding, derived_id,
    },
};

/// The items that derived code names, under the path that it expects in a writer's crate. This
/// makes `crate = nettrace_event` work for a crate without a writer.
#[doc(hidden)]
pub mod __private {
    pub use crate::*;
}
