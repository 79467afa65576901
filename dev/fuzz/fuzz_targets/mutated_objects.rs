//! Changes sound streams of versions 4 and 5 in a few places, and reads them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nettrace_fuzz::{Way, changes, check};

fuzz_target!(|input: &[u8]| {
    let Some((way, orders)) = Way::split(input) else { return };
    if let Some(bytes) = changes::make(orders, true) {
        check(way, &bytes);
    }
});
