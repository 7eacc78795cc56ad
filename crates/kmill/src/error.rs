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
    #[error("{}", in_flags(.0))]
    Solve(#[from] ksolve::Error),
    /// Two options, or an option and the data, that cannot go together.
    #[error("{option}{}{given}: {why}; {remedy}", if given.is_empty() { "" } else { " " })]
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
    /// A report that JSON cannot say.
    #[error("the report cannot be written as JSON ({0}); this is a bug in kmill, please report it")]
    Json(#[from] serde_json::Error),
    /// Whoever reads standard output has closed it: no failure.
    #[error("standard output was closed")]
    BrokenPipe,
}

impl Error {
    /// True where the run ended because it was asked to.
    pub fn is_interruption(&self) -> bool {
        match self {
            Self::Solve(error) => error.is_interrupted(),
            Self::Store(error) | Self::Approx(kapprox::Error::Store(error)) => {
                matches!(error, kstore::Error::Interrupted)
            }
            _ => false,
        }
    }

    /// An [`Error::Option`].
    pub fn option(option: &'static str, given: impl ToString, why: impl ToString, remedy: impl ToString) -> Self {
        Self::Option { option, given: given.to_string(), why: why.to_string(), remedy: remedy.to_string() }
    }
}

/// The library's sentence, in which parameters are named, with options in their place.
fn in_flags(error: &ksolve::Error) -> String {
    match error {
        ksolve::Error::Option { option, given, expected } if !option.starts_with('-') => {
            let space = if given.is_empty() { "" } else { " " };
            flags(&format!("{}{space}{given}: {expected}", option_of(option)))
        }
        error => flags(&error.to_string()),
    }
}

/// `--class-weight` for the parameter `class_weight`.
fn option_of(parameter: &str) -> String {
    format!("--{}", parameter.replace('_', "-"))
}

/// The text with an option in the place of every parameter in backquotes: the libraries write `rank`, people type --rank.
pub(crate) fn flags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (i, part) in text.split('`').enumerate() {
        let name =
            i % 2 == 1 && !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        match name {
            true => out.push_str(&option_of(part)),
            false if i % 2 == 1 => out.extend(["`", part, "`"]),
            false => out.push_str(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_become_options() {
        assert_eq!(flags("raise `lambda`, or set `class_weight`"), "raise --lambda, or set --class-weight");
        assert_eq!(flags("a `b c` d"), "a `b c` d");
        let error = Error::from(ksolve::Error::option("class_weight", "heavy", "see `loss`"));
        assert_eq!(error.to_string(), "--class-weight heavy: see --loss");
    }
}
