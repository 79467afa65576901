//! How values become payload bytes.
//!
//! [`NetTraceEncoder`] writes the values of one event into a [`Buffer`]; what it writes is what
//! [`types`](crate::types) says of the schema. [`FixedSize`] tells beforehand how many bytes that
//! will be, for events whose values are all of fixed size. [`walk`] tells the values of a payload
//! again, for other formats.

mod buffer;
mod encoder;
mod size;
mod text;
pub mod walk;

pub use crate::payload::{
    buffer::{Buffer, Refusal, VecBuffer},
    encoder::NetTraceEncoder,
    size::FixedSize,
};

/// The most bytes that an event's payload can have.
///
/// The format's own bound is 65,535. But PerfView and `dotnet-trace` first turn a trace into their
/// own format, and of an event with more than this they say "Read past end of stream" and open
/// nothing of the file at all (the reference reader's `TraceLog`, 3.1.23 and 4.0.0 alike).
pub const MAX_PAYLOAD: usize = 65_436;

/// The most elements (of text: code units) that a counted array can have, and the most bytes that a
/// `RelLoc` or `DataLoc` can point at: the reference reader takes these 16-bit numbers as signed.
/// (4.0.0 no longer does; 3.1.23 shows nothing or an exception in place of the value.)
pub const MAX_ELEMENTS: usize = 32_767;
