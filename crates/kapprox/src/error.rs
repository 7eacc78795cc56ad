//! What can go wrong between rows and features.

/// Result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error about kernels, landmarks or maps.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Data, disk or memory.
    #[error(transparent)]
    Store(#[from] kstore::Error),
    /// A kernel expression that cannot be understood.
    #[error("{message}\n  {text}\n  {caret:>width$}", caret = "^", width = at + 1)]
    Spec {
        /// The expression.
        text: String,
        /// Character the error points at, from 0.
        at: usize,
        /// What was expected, what was got, and what would be right.
        message: String,
    },
    /// The kernel matrix of the landmarks has no usable pivot.
    #[error("no landmark is left: {why}")]
    NoLandmarks {
        /// Why, and what to do.
        why: String,
    },
    /// Random features were asked of a kernel that has none of the kind.
    #[error("the kernel has no such random features: {why}; {remedy}")]
    NoSpectrum {
        /// What is missing.
        why: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A scheme that looks at targets was given rows without.
    #[error("the landmark scheme {scheme} looks at the targets and the rows have none; choose another scheme")]
    NoTargets {
        /// Its name.
        scheme: &'static str,
    },
    /// A number that is not finite where the mathematics says it must be.
    #[error("{what} is not finite; {remedy}")]
    NotFinite {
        /// The quantity.
        what: String,
        /// What to do.
        remedy: String,
    },
}
