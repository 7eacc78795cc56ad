//! Errors in an Arrow column, and a guard for decoders that panic on damaged files.

use crate::Error;
use crate::arrow::error::ArrowError;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// A reason why a column cannot be loaded, without the path of the file.
#[derive(Debug)]
pub(super) enum LoadError {
    /// A list whose length differs from the length of the other lists. `row` is its row in the
    /// chunk.
    ListLength {
        row: usize,
        expected: usize,
        got: usize,
    },
    /// A sparse row with invalid content. `row` is its row in the chunk.
    SparseRow {
        row: usize,
        value: String,
    },
    Damaged(String),
    Io(std::io::Error),
}

impl LoadError {
    pub(super) fn into_error(self, path: &Path, format: &'static str) -> Error {
        self.into_column_error(path, format, 0, "")
    }

    /// Returns the error for a column of a file, in a chunk whose first row is `first_row`.
    pub(super) fn into_column_error(self, path: &Path, format: &'static str, first_row: u64, name: &str) -> Error {
        match self {
            Self::ListLength { row, expected, got } => Error::ListLength {
                path: path.to_path_buf(),
                row: first_row + row as u64,
                column: name.to_string(),
                expected,
                got,
                remedy: "lists become columns only if all have the same length; correct the data, or exclude the column \
                         with `features`",
            },
            Self::SparseRow { row, value } => Error::BadValue {
                path: path.to_path_buf(),
                row: first_row + row as u64,
                line: None,
                column: name.to_string(),
                value,
                remedy: "write each index once, starting at 0, and an empty list for a row without entries; if the file was \
                         changed after kmill wrote it, remove its metadata \"kmill.sparse\"",
            },
            Self::Damaged(detail) => Error::malformed(path, format, detail),
            Self::Io(source) => Error::io("read", path)(source),
        }
    }
}

impl From<ArrowError> for LoadError {
    fn from(error: ArrowError) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl From<String> for LoadError {
    fn from(detail: String) -> Self {
        Self::Damaged(detail)
    }
}

impl From<std::io::Error> for LoadError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

thread_local! {
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread is running a decoder whose panics become
/// [`crate::Error::Malformed`]. A panic hook should print nothing in this case, because the error
/// says what is wrong.
pub fn is_decoding() -> bool {
    DECODING.get()
}

/// Runs `decode` and returns its result; a panic becomes an error message about the file.
///
/// The Parquet reader checks some parts of its input only by assertions, so a flipped bit in a page
/// can cause a panic. After an error, the data that `decode` modified must not be used again.
pub(super) fn catch_panic<R>(decode: impl FnOnce() -> R) -> Result<R, String> {
    let was_decoding = DECODING.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(decode));
    DECODING.set(was_decoding);
    // the panic message names indices in the decoder, which say nothing about the file
    outcome.map_err(|_| "the file is damaged".to_string())
}
