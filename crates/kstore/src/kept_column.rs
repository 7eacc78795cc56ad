//! Appends values of a chunk to a kept column, which is copied to the output.

use crate::KeptColumn;
use crate::sparse::ENTRY_BYTES;
use crate::text_limit::text_bytes;
use crate::view::{ColumnView, RowIndices, Values};
use kpass::KeptValues;

/// Appends `count` rows of a view. If a value is an integer that the column cannot hold, returns
/// its row in the chunk and the value as text.
pub(crate) fn append_rows(
    column: &mut KeptColumn,
    view: &ColumnView<'_>,
    row_indices: RowIndices<'_>,
    count: usize,
) -> Result<(), (usize, String)> {
    let len_before = column.len();
    let (values, validity) = column.parts_mut();
    let rows = (0..count).map(|i| row_indices.get(i));
    match values {
        KeptValues::F64(values) => {
            values.resize(len_before + count, f64::NAN);
            view.load(row_indices, &mut values[len_before..]);
        }
        KeptValues::F32(values) => {
            let mut values_f64 = vec![f64::NAN; count];
            view.load(row_indices, &mut values_f64);
            values.extend(values_f64.iter().map(|value| *value as f32));
        }
        KeptValues::I64(values) => append_integers(values, view, rows.clone(), "int64")?,
        KeptValues::U64(values) => append_integers(values, view, rows.clone(), "uint64")?,
        KeptValues::Bool(values) => {
            values.extend(rows.clone().map(|row| !view.is_null(row) && view.integer(row).is_some_and(|v| v != 0)));
        }
        KeptValues::Text(values) | KeptValues::Binary(values) => {
            values.reserve(rows.clone().map(|row| text_bytes(view, row)).sum());
            let bytes = |row| view.bytes(row).filter(|_| !view.is_null(row)).unwrap_or_default();
            rows.clone().for_each(|row| values.push(bytes(row)));
        }
        KeptValues::Sparse(values) => {
            values.reserve(rows.clone().map(|row| text_bytes(view, row) / ENTRY_BYTES).sum());
            if let Values::Sparse(sparse_rows) = &view.values {
                values.extend(sparse_rows, rows.clone());
            }
        }
    }
    if validity.is_some() || rows.clone().any(|row| view.is_null(row)) {
        let validity = validity.get_or_insert_with(|| vec![true; len_before]);
        validity.extend(rows.map(|row| !view.is_null(row)));
    }
    Ok(())
}

/// Appends the integers of some rows of a view, with 0 for missing values.
fn append_integers<V: TryFrom<i128>>(
    values: &mut Vec<V>,
    view: &ColumnView<'_>,
    rows: impl Iterator<Item = usize>,
    kind: &str,
) -> Result<(), (usize, String)> {
    for row in rows {
        let integer = if view.is_null(row) { 0 } else { view.integer(row).unwrap_or(0) };
        values
            .push(V::try_from(integer).map_err(|_| (row, format!("{integer}, which is out of the range of {kind}")))?);
    }
    Ok(())
}
