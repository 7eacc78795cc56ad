//! The errors of this crate: options, solving and model files.

use std::path::PathBuf;

/// Result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error about options, solving or model files.
///
/// The message names the problem, the expected value and the remedy. Rows are counted from 0.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum Error {
    /// An error about data, disk or memory.
    #[error(transparent)]
    Store(#[from] kstore::Error),
    /// An error about kernels and feature maps.
    #[error(transparent)]
    Approx(#[from] kapprox::Error),
    /// A model whose kernel comes from a crate that has not registered it.
    #[error(
        "the model {path} uses the kernel {kernel:?}, which is not registered; register it with kapprox::kernel::register before loading the model (the kmill command has only the kernels that its help lists)",
        path = path.display()
    )]
    UnknownKernel { path: PathBuf, kernel: String },
    /// An option whose value cannot be parsed or is invalid.
    #[error("`{option}`{}{given}: {expected}", if given.is_empty() { "" } else { " " })]
    Option { option: &'static str, given: String, expected: String },
    /// A missing parameter that a solver needs.
    #[error("{solver} needs `{option}`: {why}")]
    MissingOption { option: &'static str, solver: String, why: String },
    /// An interrupted run that can be resumed.
    #[error("stopped; the completed work is saved in {checkpoint}; run the same command again to continue", checkpoint = checkpoint.display())]
    Stopped { checkpoint: PathBuf },
    /// A prepared job, or statistics of its shards, that are inconsistent.
    #[error("{path}: {why}", path = path.display())]
    Statistics { path: PathBuf, why: String },
    /// An infinite or NaN result, which was not written.
    #[error("row {row} (counted from 0) of {path}: {what} is {value}; expected a finite number: the row is too far from the training rows for this kernel; exclude it with `where`, or fit with a bounded kernel", path = path.display())]
    NotFinitePrediction { path: PathBuf, row: u64, what: &'static str, value: f64 },
    /// A row of a matrix of distances with an entry that is not a distance.
    #[doc(hidden)]
    #[error("row {row} (counted from 0) of {path}: a distance is negative or too large; correct it, or exclude the row with `where`", path = path.display())]
    InvalidDistance { path: PathBuf, row: u64 },
    /// A score over many rows that overflows.
    #[error(
        "the {what} of {rows} rows is {value}: the squared errors overflow; exclude rows with extreme predictions or targets with `where`"
    )]
    ScoreOverflow { what: &'static str, rows: u64, value: f64 },
    /// Folds without training rows or without validation rows.
    #[error("`folds` {folds} does not suit these rows: {why}")]
    UnsuitableFolds { folds: String, why: String },
    /// A row whose label in the fold column did not exist when the folds were made.
    #[error(
        "row {row} has a new label in the fold column: the file changed while it was read; run again when no other process writes to it"
    )]
    UnknownGroup { row: u64 },
    /// A row whose class is not in the list of classes.
    #[error(
        "row {row} has a class that the training rows do not have: the file changed while it was read; run again when no other process writes to it"
    )]
    UnknownClass { row: u64 },
    /// Too few rows to learn from.
    #[error("{rows} training row{plural} left; learning needs at least 2: check `rows`, `where` and `missing`", plural = if *rows == 1 { " is" } else { "s are" })]
    TooFewRows { rows: u64 },
    /// Too few rows for a statistic.
    #[error("{what} needs at least {needed} rows, and {rows} {are} left; check `rows`, `where` and `missing`", are = if *rows == 1 { "is" } else { "are" })]
    TooFewRowsFor { what: &'static str, needed: u64, rows: u64 },
    /// A column whose squared values overflow.
    #[error("column {column:?} has values up to {largest:e}, whose squares overflow; convert it to a larger unit")]
    ColumnTooLarge { column: String, largest: f64 },
    /// Fewer than two classes.
    #[error("the target has {classes} class{plural}; classification needs at least 2 (is it the right column, or a regression?)", plural = if *classes == 1 { "" } else { "es" })]
    TooFewClasses { classes: usize },
    /// Features that are not a projection of the kernel.
    #[error(
        "the features of rank {rank} exceed the kernel by {overshoot:.1e} of its trace, more than their error of {trace_error:.1e}: rounding dominates, because the landmarks are too close to each other or too far from the rows; use `landmarks` rpcholesky or a lower `rank`"
    )]
    Overshoot { rank: usize, overshoot: f64, trace_error: f64 },
    /// The regularised normal equations are not positive definite.
    #[error("the ridge system at rank {rank} and lambda {lambda:e} is not positive definite in {precision}; raise `lambda`{or_f64}", or_f64 = if *precision == "f32" { " or use `precision` f64" } else { "" })]
    Indefinite { rank: usize, lambda: f64, precision: &'static str },
    /// An iterative solver that stopped far from the solution.
    #[error(
        "conjugate gradient did not converge: its best relative residual after {iterations} iterations is {residual:.1e}; {remedy}"
    )]
    NotConverged { residual: f64, iterations: usize, remedy: &'static str },
    /// A grid of ranks and lambdas without a single cell that could be computed.
    #[error("no cell of the rank x lambda surface could be computed in {precision}; raise `lambda`{or_f64}", or_f64 = if *precision == "f32" { " or use `precision` f64" } else { "" })]
    NoCell { precision: &'static str },
    /// Components of features that do not vary.
    #[error(
        "the features do not vary over the rows, so they have no components; check the columns, or choose another kernel"
    )]
    NoVariance,
    /// Variances or distances requested from a model that was fitted without them.
    #[error("the model stores neither variances nor distances; fit ridge with `std` or kpca with `novelty`")]
    NoQuadratic,
    /// Components requested from a model that was fitted without them.
    #[error("the model has no components in addition to its predictions; fit a supervised model with `components`")]
    NoComponents,
    /// Pre-images requested from a model without pre-images.
    #[error("the model has no pre-images: {why}")]
    NoPreImages { why: &'static str },
    /// A weight that is negative or NaN.
    #[error(
        "row {row} (counted from 0) has the weight {}; expected 0 or more: clean the column, or omit `weights`",
        kstore::display::format_number(*weight)
    )]
    InvalidWeight { row: u64, weight: f64 },
    /// Weights that are all 0.
    #[error("the weights of the training rows sum to 0; expected a positive sum: check the column of `weights`")]
    ZeroWeights,
    /// Weights that are all 0 or less, some of them negative.
    #[error(
        "no weight of the training rows is positive, and the smallest is {least}; expected 0 or more: check the column of `weights`"
    )]
    NegativeWeights { least: f64 },
    /// Fewer distinct points than clusters.
    #[error("{asked} clusters exceed the {distinct} distinct points in a sample of the rows; lower `clusters`")]
    TooFewPoints { asked: usize, distinct: usize },
    /// A class without rows.
    #[error("class {class} (counted from 0, in the order of the labels) has no rows")]
    EmptyClass { class: usize },
    /// A model whose feature map cannot be rebuilt.
    #[error("the map {map} of the model cannot be rebuilt: {why}; fit the model again")]
    MapNotRebuilt { map: String, why: &'static str },
    /// A rank larger than the number of features.
    #[error("rank {rank} exceeds the {features} features of the map; lower the rank")]
    InvalidRank { rank: usize, features: usize },
    /// Two shapes that do not agree.
    #[error("{what}: expected {expected}, got {got}")]
    Shape { what: &'static str, expected: usize, got: usize },
    /// A file that is not a safetensors file.
    #[error("{path} is not a kmill model; expected a file written by kmill fit", path = path.display())]
    NotSafetensors { path: PathBuf },
    /// A safetensors file that kmill did not write.
    #[error("{path} is a safetensors file that kmill did not write (its metadata has no entry \"kmill\"); expected a file written by kmill fit", path = path.display())]
    NotKmill { path: PathBuf },
    /// A model that cannot be written as an ONNX file.
    #[error("the model cannot be written as ONNX: {why}")]
    OnnxUnsupported { why: String },
    /// A model in a newer format than this version reads.
    #[error("{path} has model format {found}, but this kmill reads formats up to {known}; use kmill {needs} or newer", path = path.display())]
    NewerFormat { path: PathBuf, found: u64, known: u64, needs: String },
    /// A model file that ends early.
    #[error("{path} is truncated: expected {expected} bytes, got {got}; copy the file again or fit the model again", path = path.display())]
    Truncated { path: PathBuf, expected: u64, got: u64 },
    /// A model file whose parts contradict each other.
    #[error("{path} is damaged: {detail}; fit the model again", path = path.display())]
    Damaged { path: PathBuf, detail: String },
    /// A value that is not finite, in a row in memory.
    #[error(
        "row {row} (counted from 0): {what} is {value}; expected a finite number: clean the row, or scale the features"
    )]
    NotFiniteRow { row: u64, what: String, value: f64 },
    /// A model with numbers that are not finite, which was not written.
    #[error("{what} is not finite; {remedy}")]
    NotFinite { what: &'static str, remedy: &'static str },
}

impl Error {
    /// Adds the bytes that other work occupies to the budget that the message names: see
    /// [`kstore::Error::with_reserved`].
    #[must_use]
    #[doc(hidden)]
    pub fn with_reserved(self, reserved_bytes: usize) -> Self {
        match self {
            Self::Store(error) => Self::Store(error.with_reserved(reserved_bytes)),
            Self::Approx(kapprox::Error::Store(error)) => Self::Store(error.with_reserved(reserved_bytes)),
            other => other,
        }
    }

    /// Returns true if the run ended because the caller interrupted it.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::Stopped { .. }) || matches!(self.as_store_error(), Some(kstore::Error::Interrupted))
    }

    /// Returns the underlying error about tables, files or passes; `None` for other errors.
    #[doc(hidden)]
    pub fn as_store_error(&self) -> Option<&kstore::Error> {
        match self {
            Self::Store(error) | Self::Approx(kapprox::Error::Store(error)) => Some(error),
            _ => None,
        }
    }

    /// Checks that a dimension has the expected size.
    ///
    /// # Errors
    /// [`Error::Shape`] unless `got` equals `expected`.
    #[doc(hidden)]
    pub fn check_dimension(what: &'static str, expected: usize, got: usize) -> Result<()> {
        if expected == got { Ok(()) } else { Err(Self::Shape { what, expected, got }) }
    }

    /// Returns an [`Error::MissingOption`] for a parameter, the solver that needs it, and the
    /// reason.
    pub fn missing(option: &'static str, solver: &str, why: impl Into<String>) -> Self {
        Self::MissingOption { option, solver: solver.to_string(), why: why.into() }
    }

    /// Returns an [`Error::Option`] for a parameter, its value, and the expected value.
    pub fn option(option: &'static str, value: impl ToString, expected: impl Into<String>) -> Self {
        Self::Option { option, given: value.to_string(), expected: expected.into() }
    }
}

/// Implements `Display` and `FromStr` of an enum from one list of words. `$name` is the parameter
/// that errors name.
#[doc(hidden)]
#[macro_export]
macro_rules! enum_of_words {
    ($type:ty, $name:literal, $($word:literal => $variant:ident),+ $(,)?) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self {
                    $(Self::$variant => $word,)+
                })
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::Error;

            fn from_str(text: &str) -> $crate::Result<Self> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::Error::option($name, format!("{text:?}"), concat!("expected one of" $(, " ", $word)+))),
                }
            }
        }
    };
}
