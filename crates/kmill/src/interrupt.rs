//! Ctrl-C and SIGTERM: the first signal ends the run gracefully, the second one immediately.

use crate::terminal;
use kreport::table::join_with_commas;
use kstore::{CancelToken, display};
use std::sync::LazyLock;

/// Exit code after a signal: 128 plus the number of SIGINT, as shells report it.
pub(crate) const EXIT_CODE: u8 = 130;

/// Cancellation token, which the first signal sets.
static CANCEL_TOKEN: LazyLock<CancelToken> = LazyLock::new(CancelToken::new);

pub(crate) fn cancel_token() -> CancelToken {
    CANCEL_TOKEN.clone()
}

/// Returns true after the first signal. Passes check this through their observer, other loops
/// directly.
pub(crate) fn is_requested() -> bool {
    CANCEL_TOKEN.is_cancelled()
}

/// Returns an error after the first signal, for loops outside of passes.
pub(crate) fn fail_if_requested() -> Result<(), kstore::Error> {
    if is_requested() { Err(kstore::Error::Interrupted) } else { Ok(()) }
}

/// Installs the signal handler. It runs on its own thread, not in signal context.
pub(crate) fn install() {
    kstore::watch_outputs();
    // an error is harmless: without the handler, a signal ends the process immediately
    let _ = ctrlc::set_handler(|| {
        kstore::stop_outputs();
        if is_requested() {
            kstore::remove_temporaries();
            terminal::print_line(&format!("error: {}", interruption_message()));
            std::process::exit(i32::from(EXIT_CODE));
        }
        CANCEL_TOKEN.cancel();
    });
}

/// Lists the output files that have been written. Returns `None` if there are none.
pub(crate) fn written_files() -> Option<String> {
    let paths = kstore::committed_outputs();
    (!paths.is_empty()).then(|| join_with_commas(paths.iter().map(|path| display::escape_path(path))))
}

/// Describes what an interrupted run has written.
pub(crate) fn interruption_message() -> String {
    written_files()
        .map_or(kstore::Error::Interrupted.to_string(), |files| format!("interrupted: only {files} was written"))
}
