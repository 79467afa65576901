//! Sound streams of version 6, changed in a few places.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nettrace_fuzz::changes;

fuzz_target!(|orders: &[u8]| changes::run(orders, false));
