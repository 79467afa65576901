//! Changes sound streams of version 6 in a few places, and reads them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nettrace_fuzz::{Way, changes, check};

fuzz_target!(|input: &[u8]| {
    let Some((way, orders)) = Way::split(input) else { return };
    if let Some(bytes) = changes::make(orders, false) {
        check(way, &bytes);
    }
});
