//! The output files of a curve: pages, figures, tables and JSON, by their extensions.

use super::cells::CellsFile;
use super::columns::{COLUMNS, Column};
use super::figure::Figure;
use super::html;
use super::report::CurveReport;
use crate::{Error, Result, drawing, output};
use ksolve::curve::CurveCell;
use kstore::sink::{self, Output, OutputColumn, OutputKind};
use kstore::{KeptColumn, Strings};
use std::path::{Path, PathBuf};

/// The kinds of output files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Page,
    Figure,
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
    /// Names that say no kind, folders that are not there, two outputs of one name.
    pub(super) fn new(paths: &[PathBuf]) -> Result<Self> {
        let outputs = Self(output::kinds(paths, kind)?);
        if let Some(cells) = outputs.first().map(CellsFile::path)
            && paths.iter().any(|path| output::is_same(path, &cells))
        {
            let why = "finished cells are kept there, and it goes at the end";
            return Err(Error::option("-o", cells.display(), why, "give it another name"));
        }
        Ok(outputs)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first output; the file of cells is written beside it.
    pub(super) fn first(&self) -> Option<&Path> {
        self.0.first().map(|(path, _)| path.as_path())
    }

    /// Refuses an output that is an input.
    ///
    /// # Errors
    /// [`Error::Option`].
    pub(super) fn spare(&self, table: &kstore::Table) -> Result<()> {
        self.0.iter().try_for_each(|(path, _)| output::spare(path, output::inputs(table)))
    }

    /// Writes every output.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn write(&self, report: &CurveReport) -> Result<()> {
        for (path, kind) in &self.0 {
            match kind {
                Kind::Page => html::page(report).write(path)?,
                Kind::Figure => drawing::write(&Figure::new(report), path)?,
                Kind::Json => output::json_file(path, report)?,
                Kind::Table => table(path, &report.rows)?,
            }
        }
        Ok(())
    }
}

fn kind(path: &Path) -> Result<Kind> {
    match output::extension(path).as_deref() {
        Some("html" | "htm") => Ok(Kind::Page),
        Some("svg" | "png") => Ok(Kind::Figure),
        Some("json") => Ok(Kind::Json),
        _ if output::is_table(path) => Ok(Kind::Table),
        _ => {
            let why = "its extension names no kind of report";
            Err(Error::option(
                "-o",
                path.display(),
                why,
                "end it with .html, .svg, .png, .json, .csv, .tsv, .parquet or .arrow",
            ))
        }
    }
}

/// The values of a column, by their type.
enum Values {
    Text(Strings),
    Whole(Vec<i64>),
    Number(KeptColumn),
}

impl Values {
    fn new(column: Column, cells: &[CurveCell]) -> Self {
        let cells = cells.iter();
        match column {
            Column::Text(of) => Self::Text(cells.map(|cell| of(cell).unwrap_or_default()).collect()),
            Column::Whole(of) => Self::Whole(cells.map(|cell| i64::try_from(of(cell)).unwrap_or(i64::MAX)).collect()),
            Column::Number(of) => Self::Number(KeptColumn::optional(&cells.map(of).collect::<Vec<_>>())),
        }
    }
}

fn table(path: &Path, cells: &[CurveCell]) -> Result<()> {
    let kind = |(name, column)| match column {
        Column::Text(_) => OutputColumn::new(name, OutputKind::Text),
        Column::Whole(_) => OutputColumn::new(name, OutputKind::I64),
        Column::Number(_) => OutputColumn::new(name, OutputKind::F64).nullable(),
    };
    let columns = COLUMNS.map(|(_, column)| Values::new(column, cells));
    let values: Vec<Output<'_>> = columns
        .iter()
        .map(|values| match values {
            Values::Text(values) => Output::Text(values),
            Values::Whole(values) => Output::I64(values),
            Values::Number(values) => Output::Kept(values),
        })
        .collect();
    let mut sink = sink::create(path, &COLUMNS.map(kind))?;
    sink.write(&values)?;
    Ok(sink.finish()?)
}
