#![no_main]

#[allow(dead_code, reason = "each target runs one of the entries")]
#[path = "../../tests/booblik_fuzz/entries.rs"]
mod entries;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entries::requests(data));
