//! perfetto-recorder: a scope with two arguments. A scope reads the clock twice.

use perfetto_recorder::{
    EVENTS_PER_ARG, EVENTS_PER_SPAN, ThreadTraceData, TraceBuilder, current_thread_reserve, scope,
};

use crate::harness::{Peer, numbers};

/// Records into the thread's vector, which has room for a pass.
pub(crate) struct Perfetto {
    /// How many packets a trace without any scope has.
    empty: u64,
}

impl Perfetto {
    /// Turns recording on.
    pub(crate) fn new() -> Self {
        perfetto_recorder::start().expect("the feature `enable` is on");
        Self { empty: packets() }
    }
}

impl Peer for Perfetto {
    fn name(&self) -> &'static str {
        "perfetto_recorder"
    }

    fn what(&self) -> &'static str {
        "scope with two arguments, two clock reads"
    }

    fn prepare(&mut self, events: u64) {
        current_thread_reserve(events as usize * (EVENTS_PER_SPAN + 2 * EVENTS_PER_ARG));
    }

    fn pass(&mut self, first: u64, events: u64) {
        for index in first..first + events {
            let (a, b) = numbers(index);
            scope!("work", a = a, b = b);
        }
    }

    fn collect(&mut self) -> u64 {
        // Each scope makes one packet for its begin and one for its end.
        (packets() - self.empty) / 2
    }
}

/// Takes what the thread has recorded. Returns how many packets that makes.
fn packets() -> u64 {
    let mut trace = TraceBuilder::new().expect("recording has been turned on");
    trace.process_thread_data(&ThreadTraceData::take_current_thread());
    let bytes = trace.encode_to_vec();

    // A trace is a protobuf message with one repeated field: number 1, of bytes.
    let mut rest = bytes.as_slice();
    let mut count = 0;
    while let [0x0a, tail @ ..] = rest {
        let mut length = 0;
        let mut digits = 0;
        for &byte in tail {
            length |= usize::from(byte & 0x7f) << (7 * digits);
            digits += 1;
            if byte < 0x80 {
                break;
            }
        }
        rest = &tail[digits + length..];
        count += 1;
    }
    count
}
