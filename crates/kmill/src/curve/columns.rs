//! The columns of the table of cells, one list for JSON, CSV and Parquet.

use ksolve::curve::CurveCell;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// The function that reads the value of a column from a cell, by the type of the value.
#[derive(Clone, Copy)]
pub(super) enum Column {
    Text(fn(&CurveCell) -> Option<&str>),
    Whole(fn(&CurveCell) -> u64),
    Number(fn(&CurveCell) -> Option<f64>),
}

/// The names of the columns and how each is read, in the order of the output.
pub(super) const COLUMNS: [(&str, Column); 20] = [
    ("method", Column::Text(|cell| Some(&cell.method))),
    ("rank", Column::Whole(|cell| cell.rank as u64)),
    ("repeat", Column::Whole(|cell| cell.repeat)),
    ("features", Column::Whole(|cell| cell.features as u64)),
    ("seconds", Column::Number(|cell| Some(cell.seconds))),
    ("kernel_evaluations", Column::Whole(|cell| cell.kernel_evaluations)),
    ("passes", Column::Whole(|cell| cell.passes)),
    ("bytes_read", Column::Whole(|cell| cell.bytes_read)),
    ("planned_bytes", Column::Whole(|cell| cell.planned_bytes as u64)),
    ("trace_error", Column::Number(|cell| cell.trace_error)),
    ("trace_rounding", Column::Number(|cell| Some(cell.trace_rounding))),
    ("frobenius_error", Column::Number(|cell| Some(cell.frobenius.value))),
    ("frobenius_low", Column::Number(|cell| Some(cell.frobenius.low))),
    ("frobenius_high", Column::Number(|cell| cell.frobenius.high)),
    ("frobenius_evidence", Column::Text(|cell| Some(&cell.frobenius.evidence))),
    ("spectral_error", Column::Number(|cell| cell.spectral.as_ref().map(|spectral| spectral.value))),
    ("spectral_low", Column::Number(|cell| cell.spectral.as_ref().map(|spectral| spectral.low))),
    ("spectral_high", Column::Number(|cell| cell.spectral.as_ref().and_then(|spectral| spectral.high))),
    ("spectral_evidence", Column::Text(|cell| cell.spectral.as_ref().map(|spectral| &*spectral.evidence))),
    ("test_error", Column::Number(|cell| cell.test_error)),
];

/// Serialises cells as flat objects with the names of the columns.
pub(super) fn as_objects<S: Serializer>(cells: &[CurveCell], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(cells.iter().map(Object))
}

struct Object<'a>(&'a CurveCell);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(COLUMNS.len()))?;
        for (name, column) in COLUMNS {
            match column {
                Column::Text(of) => map.serialize_entry(name, &of(self.0))?,
                Column::Whole(of) => map.serialize_entry(name, &of(self.0))?,
                Column::Number(of) => map.serialize_entry(name, &of(self.0))?,
            }
        }
        map.end()
    }
}
