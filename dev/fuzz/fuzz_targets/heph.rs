//! Reads Heph traces: any bytes, or sound packets changed in a few places.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nettrace_fuzz::heph;

fuzz_target!(|input: &[u8]| {
    match input.split_first() {
        Some((way, bytes)) if way & 4 == 0 => heph::check(*way, bytes),
        Some((way, orders)) => heph::check(*way, &heph::mutated(orders)),
        None => {}
    }
});
