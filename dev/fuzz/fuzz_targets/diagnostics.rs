//! Reads any bytes as messages of the diagnostics protocol.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| nettrace_diagnostics::__fuzzing::check(input));
