//! Errors about kernels, landmarks and maps.

use kpass::display;

/// Result of a fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error about kernels, landmarks or maps.
///
/// Rows, inputs and characters (`at`) are counted from 0.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum Error {
    /// An error of the data, the disk or the memory.
    #[error(transparent)]
    Store(#[from] kpass::Error),
    /// A kernel expression that cannot be parsed.
    #[error("{message}\n{}", mark_position(text, *position))]
    Kernel { text: String, position: usize, message: String },
    /// A kernel that does not support sparse rows.
    #[error(
        "the kernel {kernel} does not support sparse rows; use one of {known}, on all columns and with a single length scale"
    )]
    SparseUnsupported { kernel: String, known: String },
    /// A landmark scheme with an unknown name.
    #[error("unknown landmark scheme {name:?}; choose one of {known}")]
    UnknownScheme { name: String, known: String },
    /// A matrix or table with an unexpected shape.
    #[error("{what}: expected {expected}, got {got}")]
    Shape { what: &'static str, expected: usize, got: usize },
    /// The kernel matrix of the landmarks has no usable pivot.
    #[error("no landmark is left: {why}")]
    NoLandmarks { why: String },
    /// Numbers that do not form a metric.
    #[error("invalid metric: {why}")]
    InvalidMetric { why: String },
    /// A kernel without random features of the requested kind.
    #[error("the kernel does not support these random features: {why}; {remedy}")]
    NoRandomFeatures { why: String, remedy: &'static str },
    /// A map with more features than the supported maximum.
    #[error("the map {map} would have more than {max_count} features; lower `rank` or the parameters of the map")]
    TooManyFeatures { map: String, max_count: usize },
    /// A scheme that needs targets, on rows without targets.
    #[error("the landmark scheme {scheme} needs targets, but the rows have no targets; choose another scheme")]
    NoTargets { scheme: &'static str },
    /// A kernel expression with an unknown kernel name.
    #[error("{message}\n{}", mark_position(text, *position))]
    UnknownKernel { name: String, text: String, position: usize, message: String },
    /// A value outside the domain of a kernel.
    #[error(
        "the kernel {kernel} needs inputs that are {domain}, but row {row}, input {feature_index} is {}; use `scale` none if the stored values are valid, or choose another kernel",
        display::format_number(*value)
    )]
    Domain { kernel: &'static str, domain: String, row: u64, feature_index: usize, value: f64 },
    /// A kernel whose parameters do not match its number of inputs.
    #[error("the kernel {kernel} uses {feature_count} inputs, {why}")]
    InputCount { kernel: &'static str, feature_count: usize, why: String },
    /// A kernel restricted to columns that are not among the inputs.
    #[error("the kernel {kernel} is restricted to {name:?}, but the data has no such input column{hint}")]
    NoSuchFeature { kernel: &'static str, name: String, hint: String },
    /// A kernel restricted to a range of columns whose ends are in the wrong order.
    #[error(
        "the kernel {kernel} is restricted to {first}..{last}, but {last} comes before {first}; write {last}..{first}"
    )]
    ReversedRange { kernel: &'static str, first: String, last: String },
    /// A kernel with negative eigenvalues where a positive definite kernel is required.
    #[error("the kernel {kernel} is not positive definite, but {what} requires it; choose another kernel")]
    NotPositiveDefinite { kernel: String, what: &'static str },
    /// A matrix with negative eigenvalues where a positive semi-definite matrix is required.
    #[error(
        "the matrix is not positive semi-definite at row {row} (counted from 0): {why}; correct the entries, or add a small number to the diagonal"
    )]
    Indefinite { row: u64, why: String },
    /// More rows than the maximum of a measure over all pairs of rows.
    #[error(
        "{what} over all pairs of rows supports at most {max_count} rows, got {row_count}; sample the rows, or use the bounds"
    )]
    TooManyRows { what: &'static str, row_count: u64, max_count: u64 },
    /// A number that is not finite where a finite number is required.
    #[error("{what} is not finite; {remedy}")]
    NotFinite { what: String, remedy: String },
}

/// Number of characters shown on either side of the marked character.
const CONTEXT_CHARACTERS: usize = 30;

/// Returns the expression, or the relevant part of a long expression, with a mark under character
/// `at`.
fn mark_position(text: &str, at: usize) -> String {
    let characters: Vec<char> = text.chars().collect();
    let at = at.min(characters.len());
    let (start, end) = match characters.len() <= 3 * CONTEXT_CHARACTERS {
        true => (0, characters.len()),
        false => (at.saturating_sub(CONTEXT_CHARACTERS), characters.len().min(at + CONTEXT_CHARACTERS)),
    };
    let escaped =
        |range: std::ops::Range<usize>| display::escape_line(&String::from_iter(&characters[range])).into_owned();
    let (text_before, text_after) = (escaped(start..at), escaped(at..end));
    let left_ellipsis = if start > 0 { "…" } else { "" };
    let right_ellipsis = if end < characters.len() { "…" } else { "" };
    let width = (left_ellipsis.len().min(1) + text_before.chars().count()) + 1;
    format!("  {left_ellipsis}{text_before}{text_after}{right_ellipsis}\n  {:>width$}", "^")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_under_its_character() {
        assert_eq!(mark_position("linear(", 7), "  linear(\n         ^");
        assert_eq!(mark_position("a\u{7}b", 2), "  a\\u{7}b\n        ^");
        let long = format!("{}!{}", "9".repeat(300), "0".repeat(300));
        let excerpt = mark_position(&long, 300);
        let (text, mark) = excerpt.split_once('\n').unwrap();
        assert_eq!(text.chars().nth(mark.chars().count() - 1), Some('!'), "{excerpt}");
        assert!(text.chars().count() < 70);
    }
}
