//! Every value of `decode.rs` once more: written to the kernel, recorded by `perf`, read from its
//! file. What was recorded must be what was encoded, and decode to the values that went in.
//!
//! Run by `cargo xtask vm`; elsewhere the tests of `decode.rs` run again as they are.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test that waits")]

#[path = "decode.rs"]
mod decode;
mod machine;

use eventheader_writer::{Context, Emit, TraceEvent, encoded};

use machine::{Recording, inside, registered};

/// The event's bytes, after the way through the kernel.
pub(crate) fn delivered<T: TraceEvent>(event: &T, context: &Context<'_>) -> Vec<u8> {
    let bytes = encoded(event, context).expect("the event can be described");
    if !inside() {
        return bytes;
    }
    let name = registered::<T>();
    let recording = Recording::start(&[&name]);
    event.emit_with(context);
    let samples = recording.finish();
    let [sample] = &samples[..] else { panic!("one event became {samples:?}") };
    assert_eq!(sample.tracepoint, name);
    assert_eq!(sample.pid, std::process::id());
    assert!(sample.is(&bytes), "written: {bytes:02x?}\nrecorded: {:02x?}", sample.bytes);
    sample.bytes[..bytes.len()].to_vec()
}
