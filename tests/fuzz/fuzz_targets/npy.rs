//! `.npy`: the header alone, and whole files.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = kstore::source::npy::parse_header(bytes);
    fuzz::read_all(&fuzz::file("npy", bytes), &kstore::TextOptions::default());
});
