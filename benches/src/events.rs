//! The events that the benchmarks record.

use std::hint::black_box;

use nettrace_writer::TraceEvent;

/// The provider that the benchmarks' sessions listen to.
pub const PROVIDER: &str = "Bench";

/// The payload of [`Two`], in bytes.
pub const TWO_PAYLOAD: u64 = 16;

/// An event of 8 bytes.
#[derive(Debug, TraceEvent)]
#[trace_event(provider = "Bench", id = 1)]
pub struct One {
    /// A number.
    pub a: u64,
}

/// An event of 16 bytes: the usual one in the benchmarks.
#[derive(Debug, TraceEvent)]
#[trace_event(provider = "Bench", id = 2)]
pub struct Two {
    /// A number.
    pub a: u64,
    /// Another.
    pub b: u64,
}

/// An event of 20 bytes.
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

/// The event that tracepoints are measured with: five numbers and a text.
#[derive(Debug, TraceEvent)]
#[trace_event(provider = "Bench_Tracepoints", keywords = 0x1)]
pub struct Work<'a> {
    /// A number.
    pub a: u64,
    /// Another.
    pub b: u64,
    /// A shorter one.
    pub c: u32,
    /// One with a sign.
    pub d: i32,
    /// One with a fraction.
    pub e: f64,
    /// The text.
    pub text: &'a str,
}

impl Work<'static> {
    /// The size of the payload in a tracepoint, in bytes. Two bytes state the length of the text.
    pub const PAYLOAD: usize = 8 + 8 + 4 + 4 + 8 + 2 + 16;

    /// An event whose numbers are all computed from `number`. The text is constant.
    #[inline(always)]
    #[must_use]
    pub fn new(number: u64) -> Self {
        let text = black_box("sixteen letters.");
        Self { a: number, b: number ^ 0xFF, c: number as u32, d: -7, e: number as f64, text }
    }
}

/// An event with a text.
#[derive(Debug, TraceEvent)]
#[trace_event(provider = "Bench", id = 4)]
pub struct Text<'a> {
    /// The text.
    pub text: &'a str,
}

/// Like [`Two`], but of a provider that no session listens to.
#[derive(Debug, TraceEvent)]
#[trace_event(provider = "Bench-Disabled", id = 1)]
pub struct Disabled {
    /// A number.
    pub a: u64,
    /// Another.
    pub b: u64,
}
