//! Ctrl-C and SIGTERM: the first ends the run in order, the second at once.

use crate::{progress, table::joined};
use kstore::{CancelToken, shown};
use std::sync::LazyLock;

/// Asks to stop from the first signal on.
static ASKED: LazyLock<CancelToken> = LazyLock::new(CancelToken::new);

pub(crate) fn token() -> CancelToken {
    ASKED.clone()
}

/// True once the run was asked to stop. Passes look here through their observer, other loops by themselves.
pub(crate) fn requested() -> bool {
    ASKED.is_cancelled()
}

/// Fails once the run was asked to stop; for loops that are no passes.
pub(crate) fn check() -> Result<(), kstore::Error> {
    if requested() { Err(kstore::Error::Interrupted) } else { Ok(()) }
}

/// Listens for the signals, on a thread of its own: nothing here runs inside a signal handler.
pub(crate) fn install() {
    kstore::watch_outputs();
    // cannot fail but by a second call; without a handler the signal ends the process as usual
    let _ = ctrlc::set_handler(|| {
        kstore::stop_outputs();
        if requested() {
            kstore::remove_temporaries();
            progress::say(&format!("error: {}", told()));
            std::process::exit(1);
        }
        ASKED.cancel();
    });
}

/// The outputs that have been written, in words; `None` if there are none.
pub(crate) fn written() -> Option<String> {
    let written = kstore::written_outputs();
    (!written.is_empty()).then(|| joined(written.iter().map(|path| shown::path(path))))
}

/// What an interrupted run has left, in words.
pub(crate) fn told() -> String {
    written().map_or(kstore::Error::Interrupted.to_string(), |files| format!("interrupted: only {files} was written"))
}
