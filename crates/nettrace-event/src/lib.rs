//! Events for libraries. A struct that derives [`TraceEvent`] is an event; [`emit`](Emit::emit)
//! records it, if the application wants that.
//!
//! ```
//! # #[cfg(feature = "derive")] {
//! use nettrace_event::{Emit, TraceEvent};
//!
//! /// A connection of the pool was given out.
//! #[derive(TraceEvent)]
//! #[trace_event(provider = "Contoso-Pool")]
//! struct Acquired<'a> {
//!     host: &'a str,
//!     waited_micros: u64,
//! }
//!
//! Acquired { host: "db-1", waited_micros: 180 }.emit();
//! # }
//! ```
//!
//! This crate is small and has neither sessions nor files, starts no thread and makes no system
//! call. An application that wants the events depends on `nettrace-writer` and starts a session:
//!
//! - **Without a session**, or without `nettrace-writer`, each event costs one load and one branch.
//!   The first event of a type also puts the type into a list.
//! - **With a session**, the events of libraries are recorded as those of the application are, at
//!   the same price. It does not matter whether a type's first event comes before the session or
//!   after. An event before the session is not recorded, and not counted.
//! - **Tracepoints**: with its feature `user_events`, `nettrace-writer` also writes the events as
//!   Linux tracepoints, from the first session on, or from the first call of a function in
//!   `nettrace_writer::tracepoints`.
//!
//! An application derives and emits through `nettrace-writer`, which re-exports what it needs of
//! this crate. The types and traits are the same.
//!
//! Spans and contexts of a library are in `nettrace-span`.
//!
//! Ids of traces and spans, and the headers of W3C Trace Context, are in [`trace_context`].
//!
//! A backend implements [`PayloadEncoder`] and [`registry::Backend`].
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
//! | [`Cut<T, MOST>`](Cut) | that of `str` | at most `MOST` UTF-16 units of a text, then `…` |
//! | [`Secret<T>`], `Secret<T, Hashed>`, `Secret<T, Length>` | `Str`, `U64` | `***`, a keyed hash, or a length: see [`secret`] |
//! | `&T`, `&mut T`, `Box<T>`, `Rc<T>`, `Arc<T>`, `Cow<T>` | that of `T` | as `T` |
//!
//! Paths and system strings allocate memory only if they are not valid Unicode.
//!
//! # Features
//!
//! * `derive`: the derives [`TraceEvent`](trait@TraceEvent) and [`TraceField`](trait@TraceField). A
//!   library that implements these traits by hand does not compile `syn`.
//! * `std` (default): `SystemTime`, `HashMap`, paths and system strings as fields
//! * `alloc` (part of `std`): the types that allocate
//! * `uuid`: `uuid::Uuid`
//! * `schema`: schemas as text, and what differs between them: the module `lock`. For tools.
//! * `schema_lock`: with `schema_lock!`. The derives tell it of their types. For tests.
//! * `any_encoder`: events can be encoded by an encoder behind a pointer. For backends.
//!
//! Without `std` the crate does not use the standard library.
#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod any_event;
pub mod calendar;
pub mod check;
/// For the code of derives. Not part of the public interface.
#[doc(hidden)]
pub mod doc_comment;
mod emit;
mod encode;
pub mod encoding;
mod event;
/// For the examples in the documentation. Not part of the public interface.
#[doc(hidden)]
pub mod example;
mod field;
pub mod guid;
pub mod hex;
pub mod keys;
pub mod label;
#[cfg(feature = "schema")]
pub mod lock;
mod outcome;
pub mod payload;
mod recorder;
pub mod registry;
pub mod role;
mod schema;
pub mod secret;
pub mod trace_context;

#[cfg(feature = "derive")]
#[doc(inline)]
pub use nettrace_macros::{LibraryEvent as TraceEvent, LibraryField as TraceField};

#[cfg(feature = "any_encoder")]
pub use crate::encode::AnyEncoder;
#[cfg(feature = "alloc")]
pub use crate::field::Cut;
pub use crate::{
    any_event::{AnyEvent, encode_in_line},
    emit::{Accompany, Emit, Unmade, emit_dyn, emit_lazy},
    encode::PayloadEncoder,
    event::{
        EventType, KERNEL_BIT, LOST_BIT, Made, NOT_REGISTERED, PAYLOADS_VARY, SESSION_BITS,
        TraceEvent, compact_head, compact_like_head, delta_shift,
    },
    field::{FieldAs, LocatedField, Pairs, TextField, TraceField},
    label::Label,
    outcome::Outcome,
    recorder::{Recorder, is_replaced, is_wanted},
    schema::{
        ArrayLayout, EventSchema, FieldFormat, FieldRole, FieldSchema, FieldType, Level, Place,
        ProviderSchema, Storage, StrEncoding, derived_id,
    },
    secret::Secret,
};

/// The traits without the derives of the same names: for a crate that has derives of its own.
pub mod traits {
    pub use crate::{event::TraceEvent, field::TraceField};
}

/// For the code of derives, in editions in which the path `::core` is one of the crate.
#[doc(hidden)]
pub use ::core as __core;

/// The items that derived code names, under the path that it expects.
#[doc(hidden)]
pub mod __private {
    pub use crate::*;
}

/// For the code of derives: lists event types, with what the doc comments of their fields say.
#[cfg(feature = "schema_lock")]
#[doc(hidden)]
#[macro_export]
macro_rules! __declare_types {
    ($($ty:ident [$($meaning:expr),*])*) => {
        $(const _: () = {
            #[$crate::lock::declared::linkme::distributed_slice(
                $crate::lock::declared::DECLARED
            )]
            #[linkme(crate = $crate::lock::declared::linkme)]
            static __DECLARED: $crate::lock::declared::Declared =
                $crate::lock::declared::Declared {
                    ty: &$ty,
                    package: match ::core::option_env!("CARGO_PKG_NAME") {
                        ::core::option::Option::Some(package) => package,
                        ::core::option::Option::None => "",
                    },
                    meanings: &[$($meaning),*],
                };
        };)*
    };
}

/// For the code of derives.
#[cfg(not(feature = "schema_lock"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __declare_types {
    ($($any:tt)*) => {};
}

/// The README, so that the tests compile its example.
#[cfg(all(doctest, feature = "derive"))]
#[doc = include_str!("../README.md")]
#[doc(hidden)]
pub mod readme {}
