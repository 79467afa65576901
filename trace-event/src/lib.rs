//! What an event is, before any format: its schema, its values, and the word that says who listens.
//!
//! An application does not name this crate: it derives [`TraceEvent`] through the writer's crate,
//! which re-exports everything here. A backend implements [`PayloadEncoder`].
//!
//! # Types
//!
//! What a field can be, and what becomes of it in a NetTrace file of version 6. A field may choose
//! another spelling with `encoding = …`; the choices are in [`encoding`].
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
//! | `AtomicU8` … `AtomicI64`, `AtomicUsize`, `AtomicIsize` | that of the number | as the number, by one relaxed load |
//! | `char` | `Char` | text of one character |
//! | `str`, `String` | `Str` | counted UTF-16: 2 bytes, then 2 or 4 for each character |
//! | `Path`, `PathBuf`, `OsStr`, `OsString` | `Str` | as text; what is not Unicode becomes U+FFFD (and only then memory is allocated) |
//! | `[T]`, `Vec<T>` | `Array`, counted | 2 bytes of count, then the elements |
//! | `[T; N]` | `Array`, fixed | the elements alone (with a count where N is 0) |
//! | tuples of 1 to 12 | `Object` | the parts in order; named `0`, `1`, … |
//! | a struct that derives [`TraceField`](trait@TraceField) | `Object` | its fields in order |
//! | an enum that derives [`TraceField`](trait@TraceField) | `Str`, or an integer | the variant's name, or its number |
//! | `Option<T>` | `Option` | array of no or one element |
//! | `SystemTime` | `UnixNanos` | `Int64`, nanoseconds since 1970-01-01 UTC, saturating |
//! | `Duration` | `DurationNanos` | `UInt64`, nanoseconds, saturating |
//! | `IpAddr`, `Ipv4Addr`, `Ipv6Addr` | `IpAddr` | text |
//! | `SocketAddr`, `SocketAddrV4`, `SocketAddrV6` | `SocketAddr` | text |
//! | `uuid::Uuid` (feature `uuid`) | `Guid` | `Guid`, 16 bytes |
//! | `&T`, `&mut T`, `Box<T>`, `Rc<T>`, `Arc<T>`, `Cow<T>` | that of `T` | as `T` |
//!
//! # Features
//!
//! `std` (default): `SystemTime`, paths and system strings as fields; `alloc` (in `std`): the types
//! that allocate; `uuid`: `uuid::Uuid`. The crate is `no_std` without them.
#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod check;
mod encode;
pub mod encoding;
mod event;
mod field;
pub mod registry;
mod schema;

pub use crate::{
    encode::PayloadEncoder,
    event::{EventType, KERNEL_BIT, NOT_REGISTERED, SESSION_BITS, TraceEvent},
    field::{FieldAs, LocatedField, TraceField},
    schema::{
        ArrayLayout, EventSchema, FieldFormat, FieldRole, FieldSchema, FieldType, Level,
        ProviderSchema, StrEncoding, derived_id,
    },
};

/// What derived code names: everything above, under the path that it expects of a writer's crate,
/// so that `crate = trace_event` works for a crate that has no writer.
#[doc(hidden)]
pub mod __private {
    pub use crate::*;
}
