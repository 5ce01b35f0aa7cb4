//! Drives `targets::trace` with libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rlscaler_fuzz::targets::trace(data));
