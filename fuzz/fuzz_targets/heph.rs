//! Heph traces: any bytes at all, and sound packets changed in a few places.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nettrace_fuzz::heph;

fuzz_target!(|bytes: &[u8]| {
    heph::check(bytes);
    heph::check(&heph::mutated(bytes));
});
