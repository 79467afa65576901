//! Changes sound streams of all versions in a few places, and compares them with what `verify`
//! says.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nettrace_fuzz::{Way, changes, check_verify};

fuzz_target!(|input: &[u8]| {
    let Some((way, orders)) = Way::split(input) else { return };
    if let Some(bytes) = changes::make(orders, way.is_old()) {
        check_verify(way, &bytes);
    }
});
