//! Ctrl-C and SIGTERM: the first signal ends the run gracefully, the second one immediately.

use crate::progress;
use kreport::table::joined;
use kstore::{CancelToken, shown};
use std::sync::LazyLock;

/// Cancellation token that the first signal sets.
static ASKED: LazyLock<CancelToken> = LazyLock::new(CancelToken::new);

pub(crate) fn token() -> CancelToken {
    ASKED.clone()
}

/// Returns true after an interruption. Passes check this through their observer, other loops
/// directly.
pub(crate) fn requested() -> bool {
    ASKED.is_cancelled()
}

/// Returns an error after an interruption, for loops outside of passes.
pub(crate) fn check() -> Result<(), kstore::Error> {
    if requested() { Err(kstore::Error::Interrupted) } else { Ok(()) }
}

/// Installs the signal handler, which runs on its own thread and not in signal context.
pub(crate) fn install() {
    kstore::watch_outputs();
    // fails only when called twice; without a handler, the signal ends the process as usual
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

/// Lists the outputs that have been written; `None` if there are none.
pub(crate) fn written() -> Option<String> {
    let written = kstore::written_outputs();
    (!written.is_empty()).then(|| joined(written.iter().map(|path| shown::path(path))))
}

/// Describes what an interrupted run has written.
pub(crate) fn told() -> String {
    written().map_or(kstore::Error::Interrupted.to_string(), |files| format!("interrupted: only {files} was written"))
}
