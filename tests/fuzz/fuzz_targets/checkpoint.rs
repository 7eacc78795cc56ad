//! Checkpoint entries: safetensors with a digest per array.
#![no_main]

use kstore::checkpoint::Stored;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = Stored::parse(bytes).and_then(|mut entry| entry.verify());
});
