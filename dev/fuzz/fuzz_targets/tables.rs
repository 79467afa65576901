//! Changes sound streams of all versions in a few places, and writes their events as tables and as
//! lines.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nettrace_fuzz::{Way, changes, check_tables};

fuzz_target!(|input: &[u8]| {
    let Some((way, orders)) = Way::split(input) else { return };
    if let Some(bytes) = changes::make(orders, way.is_old()) {
        check_tables(way, &bytes);
    }
});
