//! Any bytes at all, and any bytes behind a sound stream header and Trace block.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nettrace_fuzz::{check, support::Stream};

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    let mut stream = Stream::new().bytes;
    stream.extend(bytes);
    check(&stream);
});
