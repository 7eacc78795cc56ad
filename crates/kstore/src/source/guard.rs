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

/// What `decode` returns; a panic becomes its message.
///
/// The Parquet reader checks most of what it reads and asserts the rest, so that a flipped bit in a page can panic.
/// Whatever `decode` was working on must not be used again after an error.
pub(super) fn guarded<R>(decode: impl FnOnce() -> R) -> Result<R, String> {
    DECODING.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(decode));
    DECODING.set(false);
    outcome.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        format!("the file is damaged ({text})")
    })
}
