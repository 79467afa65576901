//! Any bytes at all, and any bytes behind a sound stream header and Trace block; where the first of
//! them is odd, as that of an object is, behind those of version 4.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nettrace_fuzz::{
    check,
    support::{Stream, v5::Objects},
};

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    let mut stream = match bytes.first() {
        Some(first) if first % 2 == 1 => Objects::new().bytes,
        _ => Stream::new().bytes,
    };
    stream.extend(bytes);
    check(&stream);
});
