//! Entries of a checkpoint: safetensors with a digest for each array.
#![no_main]

use kstore::checkpoint::Stored;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = Stored::parse(bytes).and_then(|mut entry| entry.verify());
});
