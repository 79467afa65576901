//! What is recorded.

use nettrace_writer::TraceEvent;

/// The provider that the benchmarks' sessions listen to.
pub const PROVIDER: &str = "Bench";

/// The payload of [`Two`], in bytes.
pub const TWO_PAYLOAD: u64 = 16;

/// 8 bytes.
#[derive(Debug, TraceEvent)]
#[trace_event(provider = "Bench", id = 1)]
pub struct One {
    /// A number.
    pub a: u64,
}

/// 16 bytes: the usual event of the benchmarks.
#[derive(Debug, TraceEvent)]
#[trace_event(provider = "Bench", id = 2)]
pub struct Two {
    /// A number.
    pub a: u64,
    /// Another.
    pub b: u64,
}

/// 20 bytes.
#[derive(Debug, TraceEvent)]
#[trace_event(provider = "Bench", id = 3)]
pub struct Three {
    /// A number.
    pub a: u64,
    /// Another.
    pub b: u64,
    /// A shorter one.
    pub c: u32,
}

/// A text.
#[derive(Debug, TraceEvent)]
#[trace_event(provider = "Bench", id = 4)]
pub struct Text<'a> {
    /// The text.
    pub text: &'a str,
}

/// [`Two`] of a provider that no session listens to.
#[derive(Debug, TraceEvent)]
#[trace_event(provider = "Bench-Disabled", id = 1)]
pub struct Disabled {
    /// A number.
    pub a: u64,
    /// Another.
    pub b: u64,
}
