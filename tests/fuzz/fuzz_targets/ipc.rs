//! Arrow IPC files: the Arrow project's reader parses the footer, ours the batches.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    fuzz::read_all(&fuzz::file("arrow", bytes), &kstore::TextOptions::default());
});
