//! Reads any bytes, alone or after a sound beginning of version 6 or 4.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nettrace_fuzz::{Way, check};

fuzz_target!(|input: &[u8]| {
    if let Some((way, bytes)) = Way::split(input) {
        check(way, &[way.beginning(), bytes].concat());
    }
});
