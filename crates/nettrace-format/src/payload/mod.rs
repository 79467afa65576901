//! Encodes values as payload bytes, and reads them back.
//!
//! [`NetTraceEncoder`] writes the values of one event into a [`Buffer`], in the layout that
//! [`types`](crate::types) describes. [`walk`] reads the values of a payload back, to convert it to
//! another format.

pub mod rewrite;
pub mod walk;

pub use nettrace_event::payload::{
    Buffer, MAX_ELEMENTS, MAX_PAYLOAD, NetTraceEncoder, Refusal, TextBounds, VecBuffer, put_utf16,
};

use self::walk::Mismatch;

impl From<Mismatch> for Refusal {
    fn from(_: Mismatch) -> Self {
        Self::Malformed
    }
}
