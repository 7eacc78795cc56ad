//! Sparse rows in Arrow columns. A row is a list of pairs of an index and a value, or a map from
//! index to value.
//!
//! The number of columns and the maximum number of entries of a row can only be computed from all
//! entries. When a file is opened, such a column is therefore read once, unless the metadata of the
//! file state both numbers, as in files that kmill writes. When a row is read, it is checked
//! against both numbers.

use super::RowIndices;
use super::arrow_values::{self, list_items};
use super::data_type::{column_kind, element_type};
use super::load_error::LoadError;
use crate::arrow::array::{Array, AsArray, StructArray};
use crate::arrow::datatypes::{DataType, Fields};
use crate::schema::Kind;
use crate::sparse::{SparseColumn, SparseShape};

/// Bytes of an entry while it is read: its bytes in the file, in Arrow, and in a growing column.
pub(super) const LOADED_ENTRY_BYTES: usize = 48;

/// Returns the field of the indices and the field of the values, if a column of this type holds
/// sparse rows.
pub(super) fn entry_fields(data_type: &DataType) -> Option<&Fields> {
    let (DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _)) = data_type else { return None };
    let DataType::Struct(fields) = item.data_type() else { return None };
    let [index, value] = &fields[..] else { return None };
    let is_index =
        matches!(column_kind(index.data_type()), Kind::Int { .. }) && element_type(index.data_type()).is_some();
    let is_value = column_kind(value.data_type()).is_direct_feature() && element_type(value.data_type()).is_some();
    (is_index && is_value).then_some(fields)
}

/// Returns the entries of all rows, and the offsets of the rows: of the first entry of each row,
/// then of the end of the last row.
fn entries_and_starts(array: &dyn Array) -> Option<(&StructArray, Vec<usize>)> {
    let (entries, starts) = list_items(array)?;
    Some((entries.as_struct_opt()?, starts))
}

fn not_sparse_error(array: &dyn Array) -> LoadError {
    format!("a column of {} instead of sparse rows", column_kind(array.data_type())).into()
}

/// Enlarges the shape to include the rows of an array. Errors in the rows are not reported here,
/// but when the rows are read.
pub(super) fn extend_shape(array: &dyn Array, shape: &mut SparseShape) -> Result<(), LoadError> {
    let (entries, starts) = entries_and_starts(array).ok_or_else(|| not_sparse_error(array))?;
    let indices = entries
        .columns()
        .first()
        .and_then(|indices| arrow_values::array_view(indices))
        .ok_or_else(|| not_sparse_error(array))?;
    let max_index = (starts[0]..starts[array.len()]).filter_map(|entry| indices.integer(entry)).max();
    let width = max_index.map_or(0, |largest| usize::try_from(largest + 1).unwrap_or(0));
    let longest = starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    *shape = shape.union(SparseShape { column_count: width, max_row_entries: longest });
    // a row with more entries than columns has duplicates, which are an error when the row is read
    shape.max_row_entries = shape.max_row_entries.min(shape.column_count);
    Ok(())
}

/// Reads the rows of an array. Unordered entries are sorted; a missing value is NaN.
pub(super) fn load_sparse(array: &dyn Array, shape: SparseShape) -> Result<SparseColumn, LoadError> {
    let (entries, starts) = entries_and_starts(array).ok_or_else(|| not_sparse_error(array))?;
    let [indices, values] = entries.columns() else { return Err(not_sparse_error(array)) };
    let (Some(indices), Some(values)) = (arrow_values::array_view(indices), arrow_values::array_view(values)) else {
        return Err(not_sparse_error(array));
    };
    let (mut column, mut row_values) = (SparseColumn::new(shape), Vec::new());
    for (row, bounds) in starts.windows(2).enumerate() {
        let row_error = |value: String| LoadError::SparseRow { row, value };
        if array.is_null(row) {
            return Err(row_error("missing".to_string()));
        }
        if entries.null_count() > 0 && (bounds[0]..bounds[1]).any(|entry| entries.is_null(entry)) {
            return Err(row_error("a row with a missing entry".to_string()));
        }
        row_values.resize(bounds[1] - bounds[0], 0.0);
        values.load(RowIndices::StartingAt(bounds[0]), &mut row_values);
        column.push_row(|entry| indices.non_null_integer(entry), &row_values, bounds[0], true).map_err(row_error)?;
    }
    Ok(column)
}
