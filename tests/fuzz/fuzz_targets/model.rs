//! Model files: safetensors and the JSON inside.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = ksolve::AnyModel::load(&fuzz::file("safetensors", bytes));
});
