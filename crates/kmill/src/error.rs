//! The error type of kmill, which includes the errors of the libraries.

/// The result of a fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error as shown to the user: one sentence after `error: `.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum Error {
    /// An error about data, disk or memory.
    #[error("{}", with_option_names(&.0.to_string()))]
    Store(#[from] kstore::Error),
    /// An error about kernels, landmarks or maps.
    #[error("{}", with_option_names(&.0.to_string()))]
    Approx(#[from] kapprox::Error),
    /// An error about options, solving or model files.
    #[error("{}", with_option_names(&.0.to_string()))]
    Solve(#[from] ksolve::Error),
    /// Two incompatible options, or an option that is incompatible with the data.
    #[error("{option}{}{value}: {why}; {remedy}", if value.is_empty() { "" } else { " " })]
    Option { option: &'static str, value: String, why: String, remedy: String },
    /// A missing option that the solver requires.
    #[error("{solver} needs {option}: {why}")]
    Missing { option: &'static str, solver: String, why: &'static str },
    /// An interrupted run that can be resumed.
    #[error("stopped; the completed work is saved in {checkpoint}; run the same command again to continue", checkpoint = checkpoint.display())]
    Stopped { checkpoint: std::path::PathBuf },
    /// A report that cannot be written as JSON.
    #[error("the report cannot be written as JSON ({0}); this is a bug in kmill, please report it")]
    Json(#[from] serde_json::Error),
    /// The reader of standard output has closed it, which is not a failure.
    #[error("standard output was closed")]
    BrokenPipe,
}

impl Error {
    /// Returns true if the reader of standard output has closed it. This is not a failure.
    pub(crate) fn is_closed_output(&self) -> bool {
        let is_closed_pipe = |error: &kstore::Error| {
            matches!(error, kstore::Error::Io { path, source, .. }
                if path.as_os_str() == kstore::sink::STDOUT && source.kind() == std::io::ErrorKind::BrokenPipe)
        };
        matches!(self, Self::BrokenPipe) || self.as_store_error().is_some_and(is_closed_pipe)
    }

    /// Returns the underlying error of tables, files or passes; `None` for other errors.
    pub(crate) fn as_store_error(&self) -> Option<&kstore::Error> {
        match self {
            Self::Store(error) | Self::Approx(kapprox::Error::Store(error)) => Some(error),
            Self::Solve(error) => error.as_store_error(),
            _ => None,
        }
    }

    /// Returns true if the user interrupted the run.
    pub(crate) fn is_interruption(&self) -> bool {
        match self {
            Self::Solve(error) => error.is_interrupted(),
            _ => matches!(self.as_store_error(), Some(kstore::Error::Interrupted)),
        }
    }

    /// Returns true if the command line lacks a required option: a usage error. Other errors are
    /// failures of the run.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Solve(ksolve::Error::MissingOption { .. }))
    }

    /// Returns an [`Error::Option`].
    pub fn option(option: &'static str, value: impl ToString, why: impl ToString, remedy: impl ToString) -> Self {
        Self::Option { option, value: value.to_string(), why: why.to_string(), remedy: remedy.to_string() }
    }
}

/// Replaces every parameter name in backquotes by its option: the libraries write `rank`, users
/// type --rank. Keeps backquotes around other texts. Every text of a library that is shown to users
/// must pass through this function exactly once.
pub(crate) fn with_option_names(text: &str) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('`') {
        replaced.push_str(before);
        rest = match after.split_once('`') {
            Some((name, remaining)) if is_name(name) => {
                replaced += &format!("--{}", name.replace('_', "-"));
                remaining
            }
            _ => {
                replaced.push('`');
                after
            }
        };
    }
    replaced.push_str(rest);
    replaced
}

/// Returns true for a nonempty text of letters and underscores: the name of a parameter.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_become_options() {
        assert_eq!(with_option_names("raise `lambda`, or set `class_weight`"), "raise --lambda, or set --class-weight");
        assert_eq!(with_option_names("a `b c` d"), "a `b c` d");
        assert_eq!(with_option_names("5` of `rank` and ``"), "5` of --rank and ``");
        let error = Error::from(ksolve::Error::option("class_weight", "heavy", "see `loss`"));
        assert_eq!(error.to_string(), "--class-weight heavy: see --loss");
        let error = Error::from(ksolve::Error::option("std", "", "leave it out"));
        assert_eq!(error.to_string(), "--std: leave it out");
        let plan = kstore::MemoryPlan::new("x", 1).term("y", 2, "lower `rank`");
        let refused = Error::from(plan.check().unwrap_err()).to_string();
        assert!(refused.ends_with("lower --rank or raise --memory to 1MiB"), "{refused}");
    }
}
