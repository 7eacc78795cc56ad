//! A fence around decoders that panic on damaged files.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// True while this thread runs a decoder whose panics become [`crate::Error::Malformed`]. A program's panic hook
/// should stay silent then: the error that follows says what is wrong.
pub fn is_decoding() -> bool {
    DECODING.get()
}

/// Runs `decode` and returns its result; a panic becomes a sentence about the file.
///
/// The Parquet reader checks most of what it reads and asserts the rest, so that a flipped bit in a page can panic.
/// Whatever `decode` was working on must not be used again after an error.
pub(super) fn guarded<R>(decode: impl FnOnce() -> R) -> Result<R, String> {
    let before = DECODING.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(decode));
    DECODING.set(before);
    // the panic's text names indices of the decoder, which say nothing about the file
    outcome.map_err(|_| "the file is damaged".to_string())
}
