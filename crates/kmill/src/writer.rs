//! Tables that kmill writes: features and targets in one file, or in two `.npy` files.

use crate::{Result, table::joined};
use kstore::sink::{self, Output, OutputColumn, Sink};
use std::path::{Path, PathBuf};

/// True for a format that holds one matrix of one type and no names, as `.npy` does.
pub(crate) fn is_npy(path: &Path) -> bool {
    kstore::source::by_extension(path).is_some_and(kstore::source::Format::is_matrix)
}

/// True for a format whose rows begin with a label, as those of svmlight do.
pub(crate) fn is_labelled(path: &Path) -> bool {
    kstore::source::by_extension(path).is_some_and(kstore::source::Format::is_labelled)
}

/// The path of the target of an `.npy` table: `table.npy` has `table.y.npy` beside it.
pub(crate) fn target_file(path: &Path) -> Option<PathBuf> {
    let format = kstore::source::by_extension(path).filter(|format| format.is_matrix())?;
    Some(path.with_extension(format!("{}.{}", kstore::source::TARGET, format.extensions[0])))
}

/// Number of rows of a batch, chosen so that a batch holds about a million numbers.
pub(crate) fn batch_rows(columns: usize) -> usize {
    ((1 << 20) / columns.max(1)).clamp(64, 8192)
}

/// A table being written; dropped before [`TableWriter::finish`], it leaves nothing.
pub(crate) struct TableWriter {
    table: Box<dyn Sink>,
    /// The second file of an `.npy` table with targets.
    target: Option<Box<dyn Sink>>,
    files: Vec<PathBuf>,
}

impl TableWriter {
    /// Starts a table. An `.npy` table without features holds its targets alone.
    /// Errors: a path that cannot be written, an extension that is not known, a type that the format does not have.
    pub(crate) fn create(path: &Path, features: &[OutputColumn], targets: &[OutputColumn]) -> Result<Self> {
        let mut files = vec![path.to_path_buf()];
        let (table, target) = match target_file(path) {
            Some(beside) if !targets.is_empty() && !features.is_empty() => {
                files.push(beside.clone());
                let target = sink::create(&beside, targets)?;
                (sink::create(path, features)?, Some(target))
            }
            _ => (sink::create(path, &[features, targets].concat())?, None),
        };
        Ok(Self { table, target, files })
    }

    pub(crate) fn write(&mut self, features: &[Output<'_>], targets: &[Output<'_>]) -> Result<()> {
        match &mut self.target {
            Some(target) => {
                target.write(targets)?;
                self.table.write(features)?;
            }
            None => self.table.write(&[features, targets].concat())?,
        }
        Ok(())
    }

    /// Bytes of memory that the writer holds between batches.
    pub(crate) fn footprint(&self) -> usize {
        self.table.footprint() + self.target.as_ref().map_or(0, |target| target.footprint())
    }

    /// Completes the files, gives them their names, and returns their paths.
    /// Errors: those of the file system; then nothing appears.
    pub(crate) fn finish(mut self) -> Result<Vec<PathBuf>> {
        if let Some(target) = &mut self.target {
            // a disk that fills up here leaves neither file
            target.settle()?;
            self.table.settle()?;
        }
        // the target first: a table without its target would look complete
        if let Some(target) = self.target {
            target.finish()?;
        }
        self.table.finish()?;
        Ok(self.files)
    }
}

#[derive(Debug, serde::Serialize)]
pub(crate) struct Written<'a> {
    pub(crate) rows: u64,
    #[serde(serialize_with = "kstore::shown::lossy_paths")]
    pub(crate) files: &'a [PathBuf],
}

/// The names of the files for the last line of the output: `a.npy (targets in a.y.npy)`.
pub(crate) fn named(files: &[PathBuf]) -> String {
    match files {
        [table, target] => format!("{} (target in {})", table.display(), target.display()),
        files => joined(files.iter().map(|file| file.display())),
    }
}
