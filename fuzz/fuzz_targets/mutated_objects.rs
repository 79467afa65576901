//! Sound streams of versions 4 and 5, changed in a few places.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nettrace_fuzz::changes;

fuzz_target!(|orders: &[u8]| changes::run(orders, true));
