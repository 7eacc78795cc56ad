//! What a prepared job says of itself: enough to make its fit and its selection again, on any machine.

use crate::job::{Candidates, Fit, fitted};
use crate::solver::Options;
use crate::train::LandmarkSource;
use crate::{Error, FoldSpec, Result};
use kstore::schema::{Column, Kind, Schema};
use kstore::{Condition, Encoding, Missing, Selected, Selection, Table};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// A fit, its columns and its rows, as text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct JobCard {
    pub(super) version: String,
    /// States of another instruction set would have other bits.
    pub(super) instruction_set: String,
    solver: String,
    options: Options,
    scaling: String,
    kernel: String,
    map: String,
    landmarks: Option<String>,
    candidates: Option<String>,
    rank: Option<usize>,
    seed: u64,
    precision: String,
    notes: serde_json::Map<String, serde_json::Value>,
    /// The columns of the features, and how they become them.
    encoding: Arc<Encoding>,
    targets: Vec<String>,
    rows: Range<u64>,
    filter: Option<String>,
    missing: String,
    /// Names and kinds of the columns.
    columns: Vec<(String, String)>,
    /// Stored rows of the table that it was prepared on.
    pub(super) stored: u64,
    /// Why no row may come behind these; `None` where some may.
    pub(super) closed: Option<String>,
}

impl JobCard {
    pub(super) fn new(fit: &Fit, selection: &Selection, selected: &Selected, folds: &FoldSpec) -> Self {
        let column = |column: &Column| {
            let kind = match &column.kind {
                // read as the integers that store them
                Kind::Time(_) => Kind::Int { bits: 64, signed: true },
                kind => kind.clone(),
            };
            (column.name.clone(), kind.to_string())
        };
        Self {
            version: env!("CARGO_PKG_VERSION").to_string(),
            instruction_set: kapprox::instruction_set(),
            solver: fit.family.name.to_string(),
            options: fit.given.clone(),
            scaling: fit.scaling.to_string(),
            kernel: fit.kernel.to_string(),
            map: fit.map.to_string(),
            landmarks: fit.landmarks.as_ref().map(ToString::to_string),
            candidates: fit.candidates.as_ref().map(ToString::to_string),
            rank: fit.rank,
            seed: fit.seed,
            precision: fit.precision.to_string(),
            notes: fit.notes.clone(),
            encoding: selected.same_features().encoding.unwrap_or_default(),
            targets: fitted::target_names(selected),
            rows: selected.range(),
            filter: selection.filter.as_ref().map(ToString::to_string),
            missing: selection.missing.name().to_string(),
            columns: selected.table().schema().columns.iter().map(column).collect(),
            stored: selected.table().stored_rows(),
            closed: closed(selected, folds),
        }
    }

    /// The fit.
    pub(super) fn fit(&self) -> Result<Fit> {
        let candidates = self.candidates.as_deref().map(|text| match text {
            "all" => Ok(Candidates::All),
            number => number.parse().map(Candidates::Rows).map_err(|_| Error::option("candidates", number, "a number")),
        });
        Ok(Fit {
            candidates: candidates.transpose()?,
            landmarks: self.landmarks.clone().map(LandmarkSource::Scheme),
            rank: self.rank,
            notes: self.notes.clone(),
            ..Fit::solver(&self.solver)?
                .options(self.options.clone())
                .scaling(self.scaling.parse()?)
                .kernel(self.kernel.parse()?)
                .map(self.map.parse()?)
                .seed(self.seed)
                .precision(self.precision.parse()?)
        })
    }

    /// The rows and columns of the fit in a table that has the prepared rows, or more.
    pub(super) fn select(&self, table: &Table) -> Result<Selected> {
        let selection = Selection {
            targets: self.targets.clone(),
            rows: Some(self.rows.start..if self.closed.is_none() { table.stored_rows() } else { self.rows.end }),
            filter: self.filter.as_deref().map(Condition::parse).transpose()?,
            missing: Missing::named(&self.missing).unwrap_or_default(),
            encoding: Some(self.encoding.clone()),
            ..Selection::default()
        };
        Ok(table.select(&self.fit()?.selection(selection)?)?)
    }

    /// The columns, for a table without rows.
    pub(super) fn schema(&self) -> Schema {
        let column = |(name, kind): &(String, String)| Column { name: name.clone(), kind: kind_of(kind) };
        Schema { columns: self.columns.iter().map(column).collect(), ..Schema::default() }
    }
}

/// Why no row may come behind those of a selection.
fn closed(selected: &Selected, folds: &FoldSpec) -> Option<String> {
    let Range { start, end } = selected.range();
    match folds {
        _ if end < selected.table().stored_rows() => {
            Some(format!("it takes rows {start}..{end} of its table: prepare it with `rows` {start}.."))
        }
        FoldSpec::Blocks(_) => {
            let why = "its folds are blocks of the prepared rows, whose edges more rows would move";
            Some(format!("{why}: prepare it with `folds` by number or by a column"))
        }
        _ => None,
    }
}

/// The kind that is written so.
fn kind_of(text: &str) -> Kind {
    let bits = |prefix: &str| text.strip_prefix(prefix).and_then(|bits| bits.parse::<u8>().ok());
    match (bits("float"), bits("int"), bits("uint"), text) {
        (Some(bits), ..) => Kind::Float { bits },
        (_, Some(bits), ..) => Kind::Int { bits, signed: true },
        (_, _, Some(bits), _) => Kind::Int { bits, signed: false },
        (.., "bool") => Kind::Bool,
        (.., "text") => Kind::Text,
        (.., "binary") => Kind::Binary,
        _ => Kind::Other(text.to_string()),
    }
}
