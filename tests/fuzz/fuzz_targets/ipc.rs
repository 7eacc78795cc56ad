//! Arrow IPC files: the footer through the Arrow project's reader, the batches through ours.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    fuzz::read_all(&fuzz::file("arrow", bytes), &kstore::TextOptions::default());
});
