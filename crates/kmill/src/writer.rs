//! Tables that kmill writes: features and targets in one file, or in two `.npy` files.

use crate::Result;
use kreport::table::join_with_commas;
use kstore::sink::{self, OutputColumn, OutputValues, Sink};
use std::path::{Path, PathBuf};

/// Returns true for a format that stores a single matrix without column names, such as `.npy`.
pub(crate) fn is_matrix(path: &Path) -> bool {
    kstore::source::format_by_extension(path).is_some_and(kstore::source::Format::is_matrix)
}

/// Returns true for a format whose rows begin with a label, such as svmlight.
pub(crate) fn is_labelled(path: &Path) -> bool {
    kstore::source::format_by_extension(path).is_some_and(kstore::source::Format::is_labelled)
}

/// Returns the path of the target of an `.npy` table: `table.y.npy` for `table.npy`.
pub(crate) fn target_file(path: &Path) -> Option<PathBuf> {
    let format = kstore::source::format_by_extension(path).filter(|format| format.is_matrix())?;
    Some(path.with_extension(format!("{}.{}", kstore::source::TARGET_COLUMN, format.extensions[0])))
}

/// Returns the number of rows of a batch: about a million values, and 64 to 8,192 rows.
pub(crate) fn batch_rows(columns: usize) -> usize {
    ((1 << 20) / columns.max(1)).clamp(64, 8192)
}

/// A table being written. If the writer is dropped before [`TableWriter::finish`], no file appears.
pub(crate) struct TableWriter {
    table_sink: Box<dyn Sink>,
    /// Second file of an `.npy` table with targets.
    target_sink: Option<Box<dyn Sink>>,
    files: Vec<PathBuf>,
}

impl TableWriter {
    /// Starts a table. Without features, an `.npy` file contains the targets. Fails for a
    /// path that cannot be written, an unknown extension, or a type that the format does not
    /// support.
    pub(crate) fn create(path: &Path, features: &[OutputColumn], targets: &[OutputColumn]) -> Result<Self> {
        let mut files = vec![path.to_path_buf()];
        let (table_sink, target_sink) = match target_file(path) {
            Some(target_path) if !targets.is_empty() && !features.is_empty() => {
                files.push(target_path.clone());
                let target = sink::create(&target_path, targets)?;
                (sink::create(path, features)?, Some(target))
            }
            _ => (sink::create(path, &[features, targets].concat())?, None),
        };
        Ok(Self { table_sink, target_sink, files })
    }

    pub(crate) fn write(&mut self, features: &[OutputValues<'_>], targets: &[OutputValues<'_>]) -> Result<()> {
        match &mut self.target_sink {
            Some(target) => {
                target.write(targets)?;
                self.table_sink.write(features)?;
            }
            None => self.table_sink.write(&[features, targets].concat())?,
        }
        Ok(())
    }

    /// Returns the bytes of memory that the writer uses between batches.
    pub(crate) fn footprint(&self) -> usize {
        self.table_sink.memory_bytes() + self.target_sink.as_ref().map_or(0, |target| target.memory_bytes())
    }

    /// Completes the files, renames each to its final name, and returns the paths. If the disk is
    /// full, fails before any file appears.
    pub(crate) fn finish(mut self) -> Result<Vec<PathBuf>> {
        if let Some(target) = &mut self.target_sink {
            // write all data to disk first: a full disk then fails before either file appears
            target.sync()?;
            self.table_sink.sync()?;
        }
        // rename the target first, because a table without its target would look complete
        if let Some(target) = self.target_sink {
            target.finish()?;
        }
        self.table_sink.finish()?;
        Ok(self.files)
    }
}

#[derive(Debug, serde::Serialize)]
pub(crate) struct WrittenFiles<'a> {
    pub(crate) rows: u64,
    #[serde(serialize_with = "kstore::display::lossy_paths")]
    pub(crate) files: &'a [PathBuf],
}

/// Formats the names of the files for the last line of the output: `a.npy (target in a.y.npy)`.
pub(crate) fn file_names(files: &[PathBuf]) -> String {
    match files {
        [table, target] => format!("{} (target in {})", table.display(), target.display()),
        files => join_with_commas(files.iter().map(|file| file.display())),
    }
}
