//! Sparse rows in Arrow columns: lists of an index and a value, and maps from an index to a value.
//!
//! The number of columns and the maximum number of entries of a row follow from the entries alone.
//! Opening a file therefore reads such a column once, unless the metadata state both numbers, as in
//! files that kmill writes. Every row is checked against both numbers when it is read.

use super::Positions;
use super::data_type::{element, kind};
use super::load_error::LoadError;
use super::plain::{self, items};
use crate::arrow::array::{Array, AsArray, StructArray};
use crate::arrow::datatypes::{DataType, Fields};
use crate::schema::Kind;
use crate::sparse::{SparseColumn, SparseShape};

/// Key of the metadata with the shapes of sparse rows, by column name, as JSON.
pub(crate) const SPARSE: &str = "kmill.sparse";

/// Bytes of an entry while it is read: in the file, in Arrow, and in a growing column.
pub(super) const ENTRY_BYTES: usize = 48;

/// Returns the index and value fields of the entries if a column of this type holds sparse rows.
pub(super) fn fields(data_type: &DataType) -> Option<&Fields> {
    let (DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _)) = data_type else { return None };
    let DataType::Struct(fields) = item.data_type() else { return None };
    let [index, value] = &fields[..] else { return None };
    let is_index = matches!(kind(index.data_type()), Kind::Int { .. }) && element(index.data_type()).is_some();
    let is_value = kind(value.data_type()).is_feature() && element(value.data_type()).is_some();
    (is_index && is_value).then_some(fields)
}

/// Returns the entries of all rows, and the offset of the first entry of each row, followed by the
/// end of the last row.
fn parts(array: &dyn Array) -> Option<(&StructArray, Vec<usize>)> {
    let (entries, starts) = items(array)?;
    Some((entries.as_struct_opt()?, starts))
}

fn unread(array: &dyn Array) -> LoadError {
    format!("a column of {} instead of sparse rows", kind(array.data_type())).into()
}

/// Enlarges the shape for the rows of an array. Errors in the rows are reported when they are read.
pub(super) fn measure(array: &dyn Array, shape: &mut SparseShape) -> Result<(), LoadError> {
    let (entries, starts) = parts(array).ok_or_else(|| unread(array))?;
    let indices = entries.columns().first().and_then(|indices| plain::view(indices)).ok_or_else(|| unread(array))?;
    let largest = (starts[0]..starts[array.len()]).filter_map(|at| indices.integer(at)).max();
    let width = largest.map_or(0, |largest| usize::try_from(largest + 1).unwrap_or(0));
    let longest = starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    *shape = shape.both(SparseShape { width, longest });
    // if there are more entries than columns, some are duplicates
    shape.longest = shape.longest.min(shape.width);
    Ok(())
}

/// Reads the rows of an array. Unordered entries are sorted; a missing value is NaN.
pub(super) fn load(array: &dyn Array, shape: SparseShape) -> Result<SparseColumn, LoadError> {
    let (entries, starts) = parts(array).ok_or_else(|| unread(array))?;
    let [indices, values] = entries.columns() else { return Err(unread(array)) };
    let (Some(indices), Some(values)) = (plain::view(indices), plain::view(values)) else { return Err(unread(array)) };
    let (mut column, mut own) = (SparseColumn::new(shape), Vec::new());
    for (row, ends) in starts.windows(2).enumerate() {
        let wrong = |value: String| LoadError::Entry { row, value };
        if array.is_null(row) {
            return Err(wrong("missing".to_string()));
        }
        if entries.null_count() > 0 && (ends[0]..ends[1]).any(|at| entries.is_null(at)) {
            return Err(wrong("a row with a missing entry".to_string()));
        }
        own.resize(ends[1] - ends[0], 0.0);
        values.load(Positions::From(ends[0]), &mut own);
        column.push(|at| indices.index(at), &own, ends[0], true).map_err(wrong)?;
    }
    Ok(column)
}
