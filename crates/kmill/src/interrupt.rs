//! Ctrl-C and SIGTERM: the first ends the run in order, the second at once.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Signals received so far.
static SIGNALS: AtomicUsize = AtomicUsize::new(0);

/// True once the run was asked to stop. Passes look here through their observer, other loops by themselves.
pub fn requested() -> bool {
    SIGNALS.load(Ordering::Relaxed) > 0
}

/// Fails once the run was asked to stop; for loops that are no passes.
///
/// # Errors
/// [`kstore::Error::Interrupted`].
pub fn check() -> Result<(), kstore::Error> {
    if requested() { Err(kstore::Error::Interrupted) } else { Ok(()) }
}

/// Listens for the signals, on a thread of its own: nothing here runs inside a signal handler.
pub(crate) fn install() {
    // cannot fail but by a second call; without a handler the signal ends the process as usual
    let _ = ctrlc::set_handler(|| {
        if SIGNALS.fetch_add(1, Ordering::Relaxed) > 0 {
            kstore::remove_temporaries();
            std::process::exit(1);
        }
    });
}
