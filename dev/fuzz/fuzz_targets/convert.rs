//! Changes sound streams of all versions in a few places, and converts them to another format.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nettrace_fuzz::{Way, changes, check_convert};

fuzz_target!(|input: &[u8]| {
    let Some((way, orders)) = Way::split(input) else { return };
    if let Some(bytes) = changes::make(orders, way.is_old()) {
        check_convert(way, &bytes);
    }
});
