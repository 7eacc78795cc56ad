//! Paths as text for JSON: bytes that are no UTF-8 become the replacement character. Such a path is shown, never opened.
//!
//! ```
//! #[derive(serde::Serialize)]
//! struct Report {
//!     #[serde(serialize_with = "kstore::lossy::path")]
//!     model: std::path::PathBuf,
//! }
//! ```

use serde::Serializer;
use std::path::{Path, PathBuf};

/// Serialises a path as text, whatever its bytes.
///
/// # Errors
/// The errors of the serialiser.
pub fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// Serialises a list of paths as texts, whatever their bytes.
///
/// # Errors
/// The errors of the serialiser.
pub fn paths<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}
