//! Drives `targets::model` with libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rlscaler_fuzz::targets::model(data));
