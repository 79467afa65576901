//! Damages recorder files, and recovers what is left.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| nettrace_fuzz::check_recorder(input));
