//! Encodes values as the payload of an event: the bytes that threads record, in the layout of
//! NetTrace.
//!
//! [`NetTraceEncoder`] writes the values of one event into a [`Buffer`].

mod buffer;
mod encoder;
pub mod primitive;
mod slice;
mod text;
#[cfg(any(target_feature = "sse2", all(target_feature = "neon", target_endian = "little")))]
mod widen;

#[cfg(feature = "alloc")]
pub use self::buffer::VecBuffer;
pub use self::{
    buffer::{Buffer, Refusal, TextBounds, put_utf16},
    encoder::NetTraceEncoder,
    slice::{Encoded, SliceBuffer},
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
