//! What the command reports: the errors of the crates below, and its own.

/// Result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error as the user reads it: one sentence after `error: `.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Data, disk or memory.
    #[error(transparent)]
    Store(#[from] kstore::Error),
    /// Kernels, landmarks or maps.
    #[error(transparent)]
    Approx(#[from] kapprox::Error),
    /// Options, solving or model files.
    #[error(transparent)]
    Solve(#[from] ksolve::Error),
    /// Two options, or an option and the data, that cannot go together.
    #[error("{option} {given}: {why}; {remedy}")]
    Option {
        /// The option, such as "--lambda".
        option: &'static str,
        /// What was given.
        given: String,
        /// Why it cannot be.
        why: String,
        /// What would do.
        remedy: String,
    },
    /// An option that the solver cannot do without.
    #[error("{solver} needs {option}: {why}")]
    Missing {
        /// The option.
        option: &'static str,
        /// The solver.
        solver: String,
        /// What it is for, and how it is given.
        why: &'static str,
    },
    /// A result that is no number, and therefore was not written.
    #[error("row {row} (counted from 0) of {path}: {what} is {value}; the row lies too far from those of the fit for this kernel: leave it out (--where), or fit with a kernel that does not grow without bound", path = path.display())]
    NotFinite {
        /// The file.
        path: std::path::PathBuf,
        /// Row within that file.
        row: u64,
        /// What was computed.
        what: &'static str,
        /// Infinite, or NaN.
        value: f64,
    },
    /// A score over many rows that overflows.
    #[error(
        "the {what} of {rows} rows is {value}: the squares of such errors do not fit a number; leave rows with extreme predictions or targets out (--where)"
    )]
    Overflow {
        /// The score.
        what: &'static str,
        /// Rows that it is of.
        rows: u64,
        /// Infinite, or NaN.
        value: f64,
    },
    /// The run was asked to stop, and can go on later.
    #[error("stopped; what is done is kept in {checkpoint}: continue with the same command and --resume", checkpoint = checkpoint.display())]
    Stopped {
        /// The folder, or the file.
        checkpoint: std::path::PathBuf,
    },
    /// Standard output cannot be written to.
    #[error("cannot write to standard output: {0}")]
    Stdout(std::io::Error),
    /// Whoever reads standard output has closed it: no failure.
    #[error("standard output was closed")]
    BrokenPipe,
}

impl Error {
    /// True where the run ended because it was asked to.
    pub fn is_interruption(&self) -> bool {
        let store = match self {
            Self::Store(error)
            | Self::Approx(kapprox::Error::Store(error))
            | Self::Solve(ksolve::Error::Store(error) | ksolve::Error::Approx(kapprox::Error::Store(error))) => error,
            _ => return false,
        };
        matches!(store, kstore::Error::Interrupted)
    }

    /// An [`Error::Option`].
    pub fn option(option: &'static str, given: impl ToString, why: impl ToString, remedy: impl ToString) -> Self {
        Self::Option { option, given: given.to_string(), why: why.to_string(), remedy: remedy.to_string() }
    }
}
