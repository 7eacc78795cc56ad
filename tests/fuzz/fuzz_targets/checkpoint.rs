//! Checkpoint entries: safetensors with a digest per array.
#![no_main]

use kstore::checkpoint::StoredArrays;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = StoredArrays::parse(bytes).and_then(|mut entry| entry.verify());
});
