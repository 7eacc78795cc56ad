//! The errors of the command: its own, and those of the libraries.

/// Result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error as the user reads it: one sentence after `error: `.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum Error {
    /// An error about data, disk or memory.
    #[error("{}", flags(&.0.to_string()))]
    Store(#[from] kstore::Error),
    /// An error about kernels, landmarks or maps.
    #[error("{}", flags(&.0.to_string()))]
    Approx(#[from] kapprox::Error),
    /// An error about options, solving or model files.
    #[error("{}", flags(&.0.to_string()))]
    Solve(#[from] ksolve::Error),
    /// Two options, or an option and the data, that cannot go together.
    #[error("{option}{}{given}: {why}; {remedy}", if given.is_empty() { "" } else { " " })]
    Option { option: &'static str, given: String, why: String, remedy: String },
    /// An option that the solver needs and that was not given.
    #[error("{solver} needs {option}: {why}")]
    Missing { option: &'static str, solver: String, why: &'static str },
    /// The run was asked to stop, and can go on later.
    #[error("stopped; what is done is kept in {checkpoint}: the same command continues from there", checkpoint = checkpoint.display())]
    Stopped { checkpoint: std::path::PathBuf },
    /// A report that cannot be written as JSON.
    #[error("the report cannot be written as JSON ({0}); this is a bug in kmill, please report it")]
    Json(#[from] serde_json::Error),
    /// The reader of standard output has closed it; this is no failure.
    #[error("standard output was closed")]
    BrokenPipe,
}

impl Error {
    /// True where the reader of standard output has closed it: no failure.
    pub(crate) fn is_closed_output(&self) -> bool {
        let closed = |error: &kstore::Error| {
            matches!(error, kstore::Error::Io { path, source, .. }
                if path.as_os_str() == kstore::sink::STDOUT && source.kind() == std::io::ErrorKind::BrokenPipe)
        };
        matches!(self, Self::BrokenPipe) || self.stored().is_some_and(closed)
    }

    /// The error of tables, files and passes that this one hands on.
    pub(crate) fn stored(&self) -> Option<&kstore::Error> {
        match self {
            Self::Store(error) | Self::Approx(kapprox::Error::Store(error)) => Some(error),
            Self::Solve(error) => error.stored(),
            _ => None,
        }
    }

    /// True where the run ended because the user interrupted it.
    pub(crate) fn is_interruption(&self) -> bool {
        match self {
            Self::Solve(error) => error.is_interrupted(),
            _ => matches!(self.stored(), Some(kstore::Error::Interrupted)),
        }
    }

    /// True where the command line lacks an option, which is wrong usage; other errors are failures of the run.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Solve(ksolve::Error::Missing { .. }))
    }

    /// Makes an [`Error::Option`].
    pub fn option(option: &'static str, given: impl ToString, why: impl ToString, remedy: impl ToString) -> Self {
        Self::Option { option, given: given.to_string(), why: why.to_string(), remedy: remedy.to_string() }
    }
}

/// The text with an option in the place of every parameter in backquotes: the libraries write `rank`, people type --rank.
/// Every text of a library that people read goes through this function once; other backquotes stay.
pub(crate) fn flags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('`') {
        out.push_str(before);
        rest = match after.split_once('`') {
            Some((name, behind)) if is_name(name) => {
                out += &format!("--{}", name.replace('_', "-"));
                behind
            }
            _ => {
                out.push('`');
                after
            }
        };
    }
    out.push_str(rest);
    out
}

/// True for letters and underscores, at least one: the name of a parameter.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_become_options() {
        assert_eq!(flags("raise `lambda`, or set `class_weight`"), "raise --lambda, or set --class-weight");
        assert_eq!(flags("a `b c` d"), "a `b c` d");
        assert_eq!(flags("5` of `rank` and ``"), "5` of --rank and ``");
        let error = Error::from(ksolve::Error::option("class_weight", "heavy", "see `loss`"));
        assert_eq!(error.to_string(), "--class-weight heavy: see --loss");
        let error = Error::from(ksolve::Error::option("std", "", "leave it out"));
        assert_eq!(error.to_string(), "--std: leave it out");
        let plan = kstore::Plan::new("x", 1).term("y", 2, "lower `rank`");
        let refused = Error::from(plan.check().unwrap_err()).to_string();
        assert!(refused.ends_with("lower --rank or raise --memory to 1MiB"), "{refused}");
    }
}
