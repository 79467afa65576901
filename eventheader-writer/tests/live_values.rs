//! Every value of `decode.rs` again: written to the kernel, recorded by `perf`, and read from its
//! file. The recorded bytes must be the encoded ones, and decode to the original values.
//!
//! Run by `cargo xtask vm`. Elsewhere the tests of `decode.rs` run again unchanged.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test that waits")]

#[path = "decode.rs"]
mod decode;
mod machine;

use eventheader_writer::{Context, Emit, TraceEvent, encoded};

use machine::{Recording, inside, registered};

/// The event's bytes as the kernel delivered them.
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
