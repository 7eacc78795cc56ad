//! Tables of several files whose columns differ. Each file is read with the columns of all files,
//! which are matched by name.
//!
//! | in one file | in another | in the table |
//! |---|---|---|
//! | integers | integers of another width | the wider type |
//! | integers or floats | floats | float64 |
//! | dates, times | the same in another unit | the finer unit |
//! | text | numbers, booleans, dates, times | text: unchanged from CSV, or as written to CSV |
//! | no value at all | anything | the type in the other file |
//! | no such column | anything | the type in the other file; missing in the first |
//! | anything | a type that cannot be combined with it | a column that cannot be read |

use super::{ColumnView, RowIndices, TableFile, format_by_extension, missing_values};
use crate::arrow::array::{ArrayRef, Float64Array, Int64Array, StringViewArray, UInt64Array};
use crate::arrow::datatypes::DataType;
use crate::schema::{Column, Kind, Schema};
use crate::{Error, Result, dates};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// A column of the union: the first file that has values in it, and the number of files that have
/// the column.
struct MergedColumn<'a> {
    column: Column,
    first_path_with_values: Option<&'a Path>,
    file_count: usize,
}

/// Returns the union of the columns of several files, and a remark on the files that differ.
/// Returns `None` if the columns of all files are the same.
///
/// A file without rows does not count, unless all files have no rows.
///
/// # Errors
/// [`Error::SchemaMismatch`] if columns are matched by position and the files differ in the number
/// of columns. Columns are matched by position in formats without column names (matrices,
/// svmlight), and in all formats if `by_position` is true.
pub(crate) fn union_schema(
    files: &[(&Path, &Arc<dyn TableFile>)],
    by_position: bool,
) -> Result<(Schema, Option<String>)> {
    let has_rows = files.iter().any(|(_, file)| file.metadata().row_count > 0);
    let files: Vec<_> = files.iter().filter(|(_, file)| !has_rows || file.metadata().row_count > 0).collect();
    let (mut columns, mut index_by_key, mut row_id_columns) =
        (Vec::<MergedColumn<'_>>::new(), HashMap::new(), Vec::new());
    let (mut notes, mut label_column) = (Vec::new(), None);
    for (path, file) in &files {
        let schema = file.metadata().schema;
        let has_positional_columns =
            format_by_extension(path).is_some_and(|format| format.is_matrix() || format.is_labelled());
        let (count, expected) = (schema.columns.len(), columns.len());
        if count != expected && expected > 0 && (by_position || has_positional_columns || !file.has_column_names()) {
            let difference = format!(
                "it has {count} columns instead of {expected}, and they are matched by position; give both files the same number (`width` in svmlight files)"
            );
            let (first, second) = (files[0].0.to_path_buf(), path.to_path_buf());
            return Err(Error::SchemaMismatch { first, second, difference });
        }
        for (index, (key, column)) in columns_by_key(schema).enumerate() {
            let union_index = *index_by_key.entry(key).or_insert(columns.len());
            if union_index == columns.len() {
                columns.push(MergedColumn { column: column.clone(), first_path_with_values: None, file_count: 0 });
            }
            let MergedColumn { column: Column { name, kind }, first_path_with_values: first_path, file_count } =
                &mut columns[union_index];
            *file_count += 1;
            if schema.row_id_columns.contains(&index) && !row_id_columns.contains(&union_index) {
                row_id_columns.push(union_index);
            }
            if schema.label_column == Some(index) {
                label_column = Some(union_index);
            }
            if file.is_all_missing(index) {
                continue;
            }
            let Some(first_path) = first_path else {
                (*kind, *first_path) = (column.kind.clone(), Some(*path));
                continue;
            };
            let common_kind = common_kind(kind, &column.kind);
            if common_kind.as_ref().is_none_or(|common| *common == Kind::Text && *kind != column.kind) {
                let what = format!("{kind} in {} and {} in {}", first_path.display(), column.kind, path.display());
                let how = if common_kind.is_some() { "is read as text" } else { "cannot be read" };
                notes.push(format!("column {name} {how}: it holds {what}"));
                *kind = common_kind.unwrap_or(Kind::Other(what));
            } else if let Some(wider_kind) = common_kind {
                *kind = wider_kind;
            }
        }
    }
    for MergedColumn { column: Column { name, kind }, file_count, .. } in &mut columns {
        let (total_files, files_without_column) = (files.len(), files.len() - *file_count);
        match kind {
            _ if files_without_column == 0 => continue,
            // a sparse row cannot be missing, so the column cannot be read
            Kind::Sparse(_) => *kind = Kind::Other("sparse rows in some files and nothing in others".to_string()),
            _ => {}
        }
        notes.push(format!(
            "files without column {name}: {files_without_column} of {total_files}; it is missing in their rows"
        ));
    }
    let other_note_count = notes.len().saturating_sub(1);
    let note = notes.into_iter().next().map(|first| match other_note_count {
        0 => first,
        more => format!("{first}; other columns that differ between the files: {more}"),
    });
    Ok((
        Schema { columns: columns.into_iter().map(|merged| merged.column).collect(), row_id_columns, label_column },
        note,
    ))
}

/// Returns the names of the text columns of the union that hold numbers, booleans or dates in at
/// least one file.
pub(crate) fn mixed_text_columns<'s>(files: &[(&Path, &Arc<dyn TableFile>)], union: &'s Schema) -> Vec<&'s str> {
    let is_numeric_in_any_file = |name: &str| {
        let is_numeric_in = |file: &Arc<dyn TableFile>| {
            let Schema { columns, .. } = file.metadata().schema;
            columns
                .iter()
                .enumerate()
                .any(|(index, column)| column.name == name && column.kind.is_numeric() && !file.is_all_missing(index))
        };
        files.iter().any(|(_, file)| is_numeric_in(file))
    };
    let texts = union.columns.iter().filter(|column| column.kind == Kind::Text);
    texts.map(|column| column.name.as_str()).filter(|name| is_numeric_in_any_file(name)).collect()
}

/// Returns the columns of a schema. The key of a column is its name and the number of earlier
/// columns with the same name.
pub(super) fn columns_by_key(schema: &Schema) -> impl Iterator<Item = ((&str, usize), &Column)> {
    let mut name_counts = HashMap::<&str, usize>::new();
    schema.columns.iter().map(move |column| {
        let name_count = name_counts.entry(&column.name).or_default();
        *name_count += 1;
        ((column.name.as_str(), *name_count - 1), column)
    })
}

/// Returns the kind that represents the values of both kinds; `None` if no kind does.
fn common_kind(a: &Kind, b: &Kind) -> Option<Kind> {
    Some(match (a, b) {
        _ if a == b => a.clone(),
        // an unsupported type stays unsupported
        (Kind::Other(_), _) => a.clone(),
        (Kind::Sparse(a), Kind::Sparse(b)) => Kind::Sparse(a.union(*b)),
        (Kind::Float { .. }, Kind::Float { .. } | Kind::Int { .. }) | (Kind::Int { .. }, Kind::Float { .. }) => {
            Kind::Float { bits: 64 }
        }
        (Kind::Int { bits: a, signed }, Kind::Int { bits: b, signed: other }) if signed == other => {
            Kind::Int { bits: *a.max(b), signed: *signed }
        }
        (Kind::Int { signed: false, bits }, Kind::Int { .. })
        | (Kind::Int { .. }, Kind::Int { signed: false, bits })
            if *bits < 64 =>
        {
            Kind::Int { bits: 64, signed: true }
        }
        (Kind::Time(a), Kind::Time(b)) if differs_only_in_time_unit(a, b) => {
            Kind::Time(if dates::units_per_day(a) < dates::units_per_day(b) { b.clone() } else { a.clone() })
        }
        (Kind::Text, other) | (other, Kind::Text) if other.is_numeric() => Kind::Text,
        _ => return None,
    })
}

/// Returns whether two types differ at most in the unit of time.
fn differs_only_in_time_unit(a: &DataType, b: &DataType) -> bool {
    use DataType::{Date32, Date64, Duration, Time32, Time64, Timestamp};
    match (a, b) {
        (Timestamp(_, zone), Timestamp(_, other)) => zone == other,
        (Date32, Timestamp(_, zone)) | (Timestamp(_, zone), Date32) => zone.is_none(),
        (Date32 | Date64, Date32 | Date64) | (Duration(_), Duration(_)) => true,
        (Time32(_) | Time64(_), Time32(_) | Time64(_)) => true,
        _ => false,
    }
}

/// Returns whether values of both kinds are read the same way.
pub(super) fn is_read_alike(file_kind: &Kind, table_kind: &Kind) -> bool {
    file_kind == table_kind || matches!((file_kind, table_kind), (Kind::Sparse(_), Kind::Sparse(_)))
}

/// Converts the rows of a column to a wider kind. If the column has no values in this file, it can
/// be converted to any kind. The error is the first row whose value does not fit.
pub(super) fn convert_column(
    view: &ColumnView<'_>,
    row_count: usize,
    from: &Kind,
    to: &Kind,
) -> Result<ArrayRef, usize> {
    let nulls = view.nulls.map(|nulls| nulls.slice(0, row_count));
    let factor = match (from, to) {
        (Kind::Float { .. } | Kind::Int { .. }, Kind::Float { .. }) => {
            let mut numbers = vec![0.0; row_count];
            view.load(RowIndices::StartingAt(0), &mut numbers);
            return Ok(Arc::new(Float64Array::new(numbers.into(), nulls)));
        }
        (from, Kind::Text) if from.is_numeric() => {
            return Ok(Arc::new((0..row_count).map(|row| csv_text(view, row, from)).collect::<StringViewArray>()));
        }
        (Kind::Int { .. }, Kind::Int { .. }) => 1,
        (Kind::Time(from), Kind::Time(to)) => i128::from(dates::units_per_day(to) / dates::units_per_day(from)),
        _ => {
            let first_present = (0..row_count).find(|row| !view.is_null(*row));
            return first_present.map_or_else(|| Ok(missing_values(row_count, to)), Err);
        }
    };
    let scaled_integer = |row: usize| if view.is_null(row) { Some(0) } else { view.integer(row)?.checked_mul(factor) };
    if let Kind::Int { signed: false, .. } = to {
        let value = |row: usize| scaled_integer(row).and_then(|whole| u64::try_from(whole).ok()).ok_or(row);
        let values = (0..row_count).map(value).collect::<Result<Vec<u64>, usize>>()?;
        return Ok(Arc::new(UInt64Array::new(values.into(), nulls)));
    }
    let value = |row: usize| scaled_integer(row).and_then(|whole| i64::try_from(whole).ok()).ok_or(row);
    let values = (0..row_count).map(value).collect::<Result<Vec<i64>, usize>>()?;
    Ok(Arc::new(Int64Array::new(values.into(), nulls)))
}

/// Returns the value of a row as it is written to CSV; `None` for a missing value and for NaN.
fn csv_text(view: &ColumnView<'_>, row: usize, kind: &Kind) -> Option<String> {
    let is_present = !view.is_null(row);
    match (kind, view.integer(row).filter(|_| is_present)) {
        (Kind::Time(time_type), Some(integer)) => Some(dates::format_stored(i64::try_from(integer).ok()?, time_type)),
        (Kind::Bool, Some(integer)) => Some((integer != 0).to_string()),
        (_, Some(integer)) => Some(integer.to_string()),
        (_, None) => Some(view.number(row)).filter(|number| is_present && !number.is_nan()).map(|n| format!("{n:?}")),
    }
}
