//! Tables that kmill writes: features and targets, in one Parquet file or two `.npy` files.

use crate::Result;
use kstore::Real;
use kstore::sink::{self, Output, OutputColumn, OutputKind, Sink};
use std::path::{Path, PathBuf};

/// Element types that have a column type on disk.
pub trait Element: Real {
    /// The column type.
    const KIND: OutputKind;
    /// The values as a sink takes them.
    fn output(values: &[Self]) -> Output<'_>;
}

impl Element for f32 {
    const KIND: OutputKind = OutputKind::F32;
    fn output(values: &[Self]) -> Output<'_> {
        Output::F32(values)
    }
}

impl Element for f64 {
    const KIND: OutputKind = OutputKind::F64;
    fn output(values: &[Self]) -> Output<'_> {
        Output::F64(values)
    }
}

/// Where the target of an `.npy` table goes: `table.npy` has `table.y.npy` beside it.
pub fn target_file(path: &Path) -> Option<PathBuf> {
    let npy = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"));
    npy.then(|| path.with_extension("y.npy"))
}

/// Rows per batch, so that about a million numbers are held whatever the width.
pub fn batch_rows(columns: usize) -> usize {
    ((1 << 20) / columns.max(1)).clamp(64, 8192)
}

/// A table being written; dropped before [`TableWriter::finish`], it leaves nothing.
pub struct TableWriter {
    table: Box<dyn Sink>,
    /// The second file of an `.npy` table with targets.
    target: Option<Box<dyn Sink>>,
    files: Vec<PathBuf>,
    integers: Vec<bool>,
    /// Columns of the batch, reused: targets as they are written.
    whole: Vec<Vec<i64>>,
    real: Vec<Vec<f64>>,
}

impl std::fmt::Debug for TableWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableWriter").field("files", &self.files).finish_non_exhaustive()
    }
}

impl TableWriter {
    /// Starts a table of features in `T` and targets in float64, or int64 where `integers` says so.
    ///
    /// # Errors
    /// A path that cannot be written, or an extension that is not known.
    pub fn create<T: Element>(path: &Path, features: &[String], targets: &[(String, bool)]) -> Result<Self> {
        let kind = |integer: bool| if integer { OutputKind::I64 } else { OutputKind::F64 };
        let mut columns: Vec<_> = features.iter().map(|name| OutputColumn::new(name, T::KIND)).collect();
        let others: Vec<_> = targets.iter().map(|(name, integer)| OutputColumn::new(name, kind(*integer))).collect();
        let mut files = vec![path.to_path_buf()];
        let target = match target_file(path) {
            Some(beside) if !others.is_empty() => {
                files.push(beside.clone());
                Some(sink::create(&beside, &others)?)
            }
            _ => {
                columns.extend(others);
                None
            }
        };
        let table = sink::create(path, &columns)?;
        let t = targets.len();
        let integers = targets.iter().map(|(_, integer)| *integer).collect();
        Ok(Self { table, target, files, integers, whole: vec![Vec::new(); t], real: vec![Vec::new(); t] })
    }

    /// Appends rows: feature columns, and targets row-major.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write<T: Element>(&mut self, features: &[Vec<T>], targets: &[f64]) -> Result<()> {
        let t = self.integers.len();
        for (j, integer) in self.integers.iter().enumerate() {
            let values = targets.iter().skip(j).step_by(t);
            self.whole[j].clear();
            self.real[j].clear();
            match integer {
                true => self.whole[j].extend(values.map(|value| *value as i64)),
                false => self.real[j].extend(values),
            }
        }
        let others = self.integers.iter().enumerate().map(|(j, integer)| match integer {
            true => Output::I64(&self.whole[j]),
            false => Output::F64(&self.real[j]),
        });
        let mut batch: Vec<Output<'_>> = features.iter().map(|column| T::output(column)).collect();
        match &mut self.target {
            Some(target) => target.write(&others.collect::<Vec<_>>())?,
            None => batch.extend(others),
        }
        Ok(self.table.write(&batch)?)
    }

    /// Bytes the sinks hold between batches.
    pub fn footprint(&self) -> usize {
        self.table.footprint() + self.target.as_ref().map_or(0, |target| target.footprint())
    }

    /// Puts the files in their place, and tells which they are.
    ///
    /// # Errors
    /// Those of the file system; then nothing appears.
    pub fn finish(mut self) -> Result<Vec<PathBuf>> {
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

/// `a.npy (targets in a.y.npy)`, for the line at the end.
pub fn named(files: &[PathBuf]) -> String {
    match files {
        [table, target] => format!("{} (target in {})", table.display(), target.display()),
        files => files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", "),
    }
}
