//! Errors of the decoder as errors of this crate.

use crate::Error;
use parquet::errors::ParquetError;
use std::io;
use std::path::Path;

/// The error of a file that contradicts itself.
pub(super) fn damaged(path: &Path, detail: &str) -> Error {
    Error::Malformed { path: path.to_path_buf(), format: "Parquet", detail: without_origin(detail).to_string() }
}

/// The decoder's message, without the names of the layers it came through.
fn without_origin(mut detail: &str) -> &str {
    const LAYERS: [&str; 6] =
        ["Parquet argument error: ", "Parquet error: ", "External: ", "Arrow: ", "EOF: ", "NYI: "];
    while let Some(rest) = LAYERS.iter().find_map(|layer| detail.strip_prefix(layer)) {
        detail = rest;
    }
    detail
}

/// The error of this crate for one of the decoder: an error of the operating system, or damage.
pub(super) fn malformed(path: &Path, error: ParquetError) -> Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => Error::io("read", path)(*source),
            Err(source) => damaged(path, &source.to_string()),
        },
        ParquetError::General(detail) | ParquetError::EOF(detail) => damaged(path, &detail),
        other => damaged(path, &other.to_string()),
    }
}
