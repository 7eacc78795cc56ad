//! The output files of a search: its model and its tables, by their extensions.

use super::report::{Row, TuneReport};
use crate::{Error, Result, output};
use ksolve::job::Fit;
use kstore::sink::{self, Output, OutputColumn, OutputKind};
use kstore::{KeptColumn, Strings};
use std::path::{Path, PathBuf};

/// The kinds of output files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Model,
    Json,
    Table,
}

/// The paths of the output files, each with its kind.
#[derive(Debug)]
pub(super) struct Outputs(Vec<(PathBuf, Kind)>);

impl Outputs {
    /// Checks before the work that every file can be written after it.
    ///
    /// # Errors
    /// Folders that are not there, two outputs of one name, two models.
    pub(super) fn new(paths: &[PathBuf]) -> Result<Self> {
        let outputs = output::kinds(paths, kind)?;
        if let Some((path, _)) = outputs.iter().filter(|(_, kind)| *kind == Kind::Model).nth(1) {
            let why = "one model was named already, and this names no table either";
            let remedy = "end it with .csv, .tsv, .parquet, .arrow or .json";
            return Err(Error::option("-o", path.display(), why, remedy));
        }
        Ok(Self(outputs))
    }

    /// The path of the model; `None` where no model was asked for.
    pub(super) fn model(&self) -> Option<&Path> {
        self.0.iter().find(|(_, kind)| *kind == Kind::Model).map(|(path, _)| path.as_path())
    }

    /// Refuses an output that is an input.
    ///
    /// # Errors
    /// [`Error::Option`].
    pub(super) fn spare(&self, table: &kstore::Table, fit: &Fit) -> Result<()> {
        let inputs = || output::inputs(table).chain(fit.files());
        self.0.iter().try_for_each(|(path, _)| output::spare(path, inputs()))
    }

    /// Writes the tables; the model is written by the fit.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn write(&self, report: &TuneReport) -> Result<()> {
        for (path, kind) in &self.0 {
            match kind {
                Kind::Model => {}
                Kind::Json => output::json_file(path, report)?,
                Kind::Table => table(path, &report.rows)?,
            }
        }
        Ok(())
    }
}

fn kind(path: &Path) -> Result<Kind> {
    match output::extension(path).as_deref() {
        Some("json") => Ok(Kind::Json),
        _ if output::is_table(path) => Ok(Kind::Table),
        _ if output::is_model(path) => Ok(Kind::Model),
        _ => {
            let why = "its extension names neither a model nor a table";
            let remedy = "end it with .safetensors for the model, or with .csv, .tsv, .parquet, .arrow or .json";
            Err(Error::option("-o", path.display(), why, remedy))
        }
    }
}

/// Writes the rows as a table, whose columns are named and ordered as the fields of the JSON.
fn table(path: &Path, rows: &[Row]) -> Result<()> {
    let whole = |of: &dyn Fn(&Row) -> u64| -> Vec<i64> {
        rows.iter().map(|row| i64::try_from(of(row)).unwrap_or(i64::MAX)).collect()
    };
    let number = |of: &dyn Fn(&Row) -> Option<f64>| KeptColumn::optional(&rows.iter().map(of).collect::<Vec<_>>());
    let kernels: Strings = rows.iter().map(|row| &row.kernel).collect();
    let metrics: Strings = rows.iter().map(|row| &row.metric).collect();
    let (rung, of, rank) = (whole(&|row| row.rung as u64), whole(&|row| row.rows), whole(&|row| row.rank as u64));
    let (lambda, cv_mse) = (number(&|row| row.lambda), number(&|row| row.cv_mse));
    let (gcv, alignment) = (number(&|row| row.gcv), number(&|row| row.alignment));
    let (best, kept) = (whole(&|row| row.best.into()), whole(&|row| row.kept.into()));
    let columns = [
        ("rung", Output::I64(&rung)),
        ("rows", Output::I64(&of)),
        ("kernel", Output::Text(&kernels)),
        ("metric", Output::Text(&metrics)),
        ("rank", Output::I64(&rank)),
        ("lambda", Output::Kept(&lambda)),
        ("cv_mse", Output::Kept(&cv_mse)),
        ("gcv", Output::Kept(&gcv)),
        ("alignment", Output::Kept(&alignment)),
        ("best", Output::I64(&best)),
        ("kept", Output::I64(&kept)),
    ];
    let kinds = columns.iter().map(|(name, column)| match column {
        Output::Text(_) => OutputColumn::new(*name, OutputKind::Text),
        Output::I64(_) => OutputColumn::new(*name, OutputKind::I64),
        _ => OutputColumn::new(*name, OutputKind::F64).nullable(),
    });
    let mut sink = sink::create(path, &kinds.collect::<Vec<_>>())?;
    sink.write(&columns.map(|(_, column)| column))?;
    Ok(sink.finish()?)
}
