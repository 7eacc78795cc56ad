//! The columns of the table of cells: one list for JSON, CSV, Parquet and the HTML page.

use crate::output::Column::{self, Integer, Number, Text};
use crate::table::{MISSING_VALUE, format_count, optional_number};
use ksolve::curve::CurveCell;
use serde::{Serialize, Serializer};
use serde_json::json;

/// Columns of the table of cells, with the names and order of the JSON fields.
pub static COLUMNS: [(&str, Column<CurveCell>); 21] = [
    ("method", Text(|cell| Some(&cell.method))),
    ("rank", Integer(|cell| cell.rank as u64)),
    ("repeat", Integer(|cell| cell.repeat)),
    ("features", Integer(|cell| cell.features as u64)),
    ("seconds", Number(|cell| Some(cell.seconds))),
    ("kernel_evaluations", Integer(|cell| cell.kernel_evaluations)),
    ("passes", Integer(|cell| cell.passes)),
    ("bytes_read", Integer(|cell| cell.bytes_read)),
    ("planned_bytes", Integer(|cell| cell.planned_bytes as u64)),
    ("trace_error", Number(|cell| cell.trace_error)),
    ("trace_rounding", Number(|cell| Some(cell.trace_rounding))),
    ("frobenius_error", Number(|cell| Some(cell.frobenius.value))),
    ("frobenius_low", Number(|cell| Some(cell.frobenius.low))),
    ("frobenius_high", Number(|cell| cell.frobenius.high)),
    ("frobenius_evidence", Text(|cell| Some(&cell.frobenius.evidence))),
    ("spectral_error", Number(|cell| cell.spectral.as_ref().map(|spectral| spectral.value))),
    ("spectral_low", Number(|cell| cell.spectral.as_ref().map(|spectral| spectral.low))),
    ("spectral_high", Number(|cell| cell.spectral.as_ref().and_then(|spectral| spectral.high))),
    ("spectral_evidence", Text(|cell| cell.spectral.as_ref().map(|spectral| &*spectral.evidence))),
    ("test_error", Number(|cell| cell.test_error)),
    ("effective_dimension", Number(|cell| cell.effective_dimension)),
];

pub(super) fn cell_texts(cell: &CurveCell) -> Vec<String> {
    let value = |(_, column): &(&str, Column<CurveCell>)| match column {
        Text(getter) => getter(cell).unwrap_or(MISSING_VALUE).to_string(),
        Integer(getter) => format_count(getter(cell)),
        Number(getter) => optional_number(getter(cell)),
    };
    COLUMNS.iter().map(value).collect()
}

/// Serialises cells as flat objects with the names of the columns.
pub(super) fn as_objects<S: Serializer>(cells: &[CurveCell], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(cells.iter().map(CellObject))
}

struct CellObject<'a>(&'a CurveCell);

impl Serialize for CellObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = |column: &Column<CurveCell>| match column {
            Text(getter) => json!(getter(self.0)),
            Integer(getter) => json!(getter(self.0)),
            Number(getter) => json!(getter(self.0)),
        };
        serializer.collect_map(COLUMNS.iter().map(|(name, column)| (name, value(column))))
    }
}
