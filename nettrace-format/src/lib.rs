//! The bytes of the NetTrace family of trace formats, and nothing else: no clock, no thread, no
//! I/O.
//!
//! * [`v6`] writes the blocks of a `.nettrace` file of version 6, one function or type for each
//!   block. Everything appends to a `Vec<u8>`; nothing looks back further than its own block.
//! * [`payload`] turns the values of an event into payload bytes, by way of the
//!   [`PayloadEncoder`](trace_event::PayloadEncoder) that `#[derive(TraceEvent)]` drives.
//! * [`content`] holds what blocks are made from, whatever the version of the format.
//!
//! Every length that the format bounds is checked: what does not fit is split where the format
//! allows it and is a [`FormatError`] (for a payload: a [`Refusal`](payload::Refusal)) where it
//! does not. Nothing is cut short in silence, and a function that fails leaves its output as it
//! was.
//!
//! Sources of format facts: the NetTrace specification (version 6), and, where the pages here say
//! "the reference reader", the behaviour of Microsoft's TraceEvent library as the tests of this
//! crate observe it: 4.0.0, and 3.1.23 as in `dotnet-trace` 10.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod content;
mod error;
pub mod heph;
pub mod payload;
mod primitive;
mod stream;
pub mod v5;
pub mod v6;

pub use crate::{
    error::FormatError,
    stream::{Format, LeftOut, Row, Stream},
    v6::types,
};
