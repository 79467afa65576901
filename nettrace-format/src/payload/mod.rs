//! Encodes values as payload bytes.
//!
//! [`NetTraceEncoder`] writes the values of one event into a [`Buffer`], in the layout that
//! [`types`](crate::types) describes. [`walk`] reads the values of a payload back, to convert it to
//! another format.

mod buffer;
mod encoder;
mod text;
pub mod walk;

pub use crate::payload::{
    buffer::{Buffer, Refusal, TextBounds, VecBuffer},
    encoder::NetTraceEncoder,
    text::put_utf16,
};

/// The most bytes that an event's payload can have.
///
/// The format's own limit is 65,535. But PerfView and `dotnet-trace` first convert a trace to their
/// own format. With a payload larger than this, the conversion fails with "Read past end of stream"
/// and they open no part of the file (the reference reader's `TraceLog`, 3.1.23 and 4.0.0 alike).
pub const MAX_PAYLOAD: usize = 65_436;

/// The most elements that a counted array can have (for text: code units), and the most bytes that
/// a `RelLoc` or `DataLoc` can point at.
///
/// The reference reader 3.1.23 reads these 16-bit numbers as signed, and shows nothing or an
/// exception in place of a value that exceeds this. 4.0.0 reads them as unsigned.
pub const MAX_ELEMENTS: usize = 32_767;
