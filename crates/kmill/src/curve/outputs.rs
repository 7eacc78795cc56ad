//! Where a curve goes: a page, a table, or JSON, by the names of the files.

use super::html;
use super::report::{CurveReport, Row};
use crate::{Error, Result, output};
use kstore::sink::{self, Output, OutputColumn, OutputKind};
use kstore::{AtomicFile, KeptColumn};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Kinds of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Page,
    Json,
    Table,
}

/// The files that were asked for.
#[derive(Debug)]
pub(super) struct Outputs(Vec<(PathBuf, Kind)>);

impl Outputs {
    /// Checks before the work that every file can be written after it.
    ///
    /// # Errors
    /// Names that say no kind, folders that are not there, two outputs of one name.
    pub(super) fn new(paths: &[PathBuf]) -> Result<Self> {
        let mut outputs: Vec<(PathBuf, Kind)> = Vec::new();
        for path in paths {
            output::check(path)?;
            if outputs.iter().any(|(known, _)| known == path) {
                return Err(Error::option("-o", path.display(), "it was named twice", "leave one out"));
            }
            outputs.push((path.clone(), kind(path)?));
        }
        Ok(Self(outputs))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one that the file of cells stands beside.
    pub(super) fn first(&self) -> Option<&Path> {
        self.0.first().map(|(path, _)| path.as_path())
    }

    /// Refuses an output that is an input.
    ///
    /// # Errors
    /// [`Error::Option`].
    pub(super) fn spare(&self, table: &kstore::Table) -> Result<()> {
        self.0.iter().try_for_each(|(path, _)| output::spare(path, table, None))
    }

    /// Writes every output.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn write(&self, report: &CurveReport) -> Result<()> {
        for (path, kind) in &self.0 {
            match kind {
                Kind::Page => html::page(report).write(path)?,
                Kind::Json => {
                    let json = serde_json::to_string(report).map_err(|error| Error::Stdout(error.into()))?;
                    text(path, &format!("{json}\n"))?;
                }
                Kind::Table => table(path, &report.rows)?,
            }
        }
        Ok(())
    }
}

fn kind(path: &Path) -> Result<Kind> {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    match extension.as_deref() {
        Some("html" | "htm") => Ok(Kind::Page),
        Some("json") => Ok(Kind::Json),
        Some("parquet" | "pq" | "arrow" | "ipc" | "feather" | "csv" | "tsv") => Ok(Kind::Table),
        _ => {
            let why = "its extension names no kind of report";
            Err(Error::option("-o", path.display(), why, "end it with .html, .json, .csv, .tsv, .parquet or .arrow"))
        }
    }
}

fn text(path: &Path, text: &str) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(text.as_bytes()).map_err(kstore::Error::io("write", path))?;
    Ok(file.commit()?)
}

/// A column of the table: its name, and its values.
enum Column {
    Text(Vec<Arc<str>>),
    Whole(Vec<i64>),
    Number(KeptColumn),
}

fn table(path: &Path, rows: &[Row]) -> Result<()> {
    let named = columns(rows);
    let kinds: Vec<OutputColumn> = named
        .iter()
        .map(|(name, column)| match column {
            Column::Text(_) => OutputColumn::new(*name, OutputKind::Text),
            Column::Whole(_) => OutputColumn::new(*name, OutputKind::I64),
            Column::Number(_) => OutputColumn::new(*name, OutputKind::F64).nullable(),
        })
        .collect();
    let values: Vec<Output<'_>> = named
        .iter()
        .map(|(_, column)| match column {
            Column::Text(values) => Output::Text(values),
            Column::Whole(values) => Output::I64(values),
            Column::Number(values) => Output::Kept(values),
        })
        .collect();
    let mut sink = sink::create(path, &kinds)?;
    sink.write(&values)?;
    Ok(sink.finish()?)
}

/// The columns, named and ordered as the fields of the JSON.
fn columns(rows: &[Row]) -> Vec<(&'static str, Column)> {
    let words = |of: &dyn Fn(&Row) -> &str| Column::Text(rows.iter().map(|row| Arc::from(of(row))).collect());
    let whole = |of: &dyn Fn(&Row) -> u64| {
        Column::Whole(rows.iter().map(|row| i64::try_from(of(row)).unwrap_or(i64::MAX)).collect())
    };
    let number = |of: &dyn Fn(&Row) -> Option<f64>| {
        Column::Number(KeptColumn::optional(&rows.iter().map(of).collect::<Vec<_>>()))
    };
    vec![
        ("method", words(&|row| &row.method)),
        ("rank", whole(&|row| row.rank as u64)),
        ("repeat", whole(&|row| row.repeat)),
        ("features", whole(&|row| row.features as u64)),
        ("seconds", number(&|row| Some(row.seconds))),
        ("kernel_evaluations", whole(&|row| row.kernel_evaluations)),
        ("passes", whole(&|row| row.passes)),
        ("bytes_read", whole(&|row| row.bytes_read)),
        ("planned_bytes", whole(&|row| row.planned_bytes as u64)),
        ("trace_error", number(&|row| row.trace_error)),
        ("trace_rounding", number(&|row| Some(row.trace_rounding))),
        ("frobenius_error", number(&|row| Some(row.frobenius_error))),
        ("frobenius_low", number(&|row| Some(row.frobenius_low))),
        ("frobenius_high", number(&|row| row.frobenius_high)),
        ("frobenius_evidence", words(&|row| &row.frobenius_evidence)),
        ("spectral_error", number(&|row| row.spectral_error)),
        ("spectral_low", number(&|row| row.spectral_low)),
        ("spectral_high", number(&|row| row.spectral_high)),
        ("spectral_evidence", words(&|row| row.spectral_evidence.as_deref().unwrap_or(""))),
        ("test_error", number(&|row| row.test_error)),
    ]
}
