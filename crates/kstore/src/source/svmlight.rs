//! The text format of SVM-light and LIBSVM, one row per line: `label index:value index:value … #
//! comment`.
//!
//! Rows become dense: d columns `x0` … `x{d-1}` of float64, with zeros for the features that a row
//! does not name, and a column `y` with the label. d is the largest index in the file, or
//! [`TextOptions::width`]. Related files need this option, because a test set may lack the last
//! features of its training set. With [`TextOptions::sparse`], or if d exceeds 100,000, rows stay
//! sparse: the table has one column `x` of [sparse rows](crate::sparse), and `y`. Indices start at
//! 1, or at 0 with [`TextOptions::zero_based`]. They ascend without duplicates. `qid:n` groups rows
//! for ranking. If every row has it, it becomes a column `qid`; if some rows lack it, it is
//! ignored. Empty lines and comment lines are not rows.
//!
//! Format: T. Joachims, SVM-light (svmlight.joachims.org); C.-C. Chang and C.-J. Lin, "LIBSVM: a
//! library for support vector machines", ACM Transactions on Intelligent Systems and Technology 2:3
//! (2011), 27.

use super::text::{
    LineScanner, RowError, TEXT_CHUNK_BYTES, TEXT_CHUNK_ROWS, TextChunk, TextFormat, TextOptions, TextTable,
    parse_number, quote_field, requested_slots,
};
use super::{ColumnView, Element, Format, QUERY_COLUMN, StridedColumn, TableFile, Values};
use crate::rows::grow;
use crate::schema::{Column, Kind};
use crate::sparse::{MAX_COLUMNS, SparseColumn, SparseShape};
use crate::writer::svmlight as sink;
use crate::{Error, Result};
use memchr::memchr;
use std::{path::Path, sync::Arc};

/// Maximum bytes of dense rows that are decoded at once. In a wide table, this limit makes chunks
/// shorter.
const MAX_DENSE_CHUNK_BYTES: usize = 1 << 20;
const VALUE_BYTES: usize = size_of::<f64>();

pub(super) const FORMAT: Format =
    Format::new(&["svm", "svmlight", "libsvm"], open).text().labelled().writable(sink::supports, sink::create);

/// Reads an open file once, to find its rows and its largest index; the path is for messages.
fn open(path: &Path, file: std::fs::File, options: &TextOptions) -> Result<Arc<dyn TableFile>> {
    let zero_based = options.zero_based;
    let mut table = TextTable::new(path, file, Svmlight { zero_based, first_without_group: None, sparse_shape: None })?;
    let max_columns = options.width.unwrap_or(MAX_COLUMNS);
    if max_columns > MAX_COLUMNS {
        let expected = format!("at most {MAX_COLUMNS}");
        return Err(Error::Syntax { what: "`width`", text: max_columns.to_string(), expected });
    }
    let (mut shape, mut first_without_group, mut has_groups) = (SparseShape::default(), None, false);
    let (_, start) = table.first_block()?;
    table.index_rows(start, |row, line| {
        let mut entry_count = 0;
        let line = parse_row(line, zero_based, |column, _| {
            let column_index = usize::try_from(column).ok().filter(|index| *index < max_columns);
            let width = 1 + column_index.ok_or_else(|| too_wide_error(max_columns, column))?;
            entry_count += 1;
            shape = shape.union(SparseShape { column_count: width, max_row_entries: entry_count });
            Ok(())
        });
        // the label is parsed now, so that a file of another format is an error at once instead of
        // in a later pass
        let line = line?;
        match line.group {
            Some(_) => (_, has_groups) = (line.parse_group()?, true),
            None => _ = first_without_group.get_or_insert(row),
        }
        parse_float(line.label)?;
        Ok(true)
    })?;
    table.format.first_without_group = first_without_group.filter(|_| has_groups);
    let role_names =
        [Some(QUERY_COLUMN).filter(|_| has_groups && first_without_group.is_none()), Some(super::TARGET_COLUMN)]
            .into_iter()
            .flatten();
    let role_columns = role_names.map(|name| (name.to_string(), Kind::Float { bits: 64 }));
    shape.column_count = options.width.unwrap_or(shape.column_count);
    table.format.sparse_shape = Some(shape).filter(|shape| options.keeps_sparse(*shape));
    let features: Vec<_> = match table.format.sparse_shape {
        Some(shape) => vec![("x".to_string(), Kind::Sparse(shape))],
        None => (0..shape.column_count).map(|i| (format!("x{i}"), Kind::Float { bits: 64 })).collect(),
    };
    Ok(Arc::new(table.with_columns(features.into_iter().chain(role_columns)).with_label()))
}

/// The texts of a row's label and group.
#[derive(Debug, Default)]
struct LabelAndGroup<'a> {
    label: &'a [u8],
    group: Option<&'a [u8]>,
}

impl LabelAndGroup<'_> {
    /// Returns the group of the row. The file must have a group in every row.
    fn parse_group(&self) -> Result<f64, RowError> {
        let group = self.group.unwrap_or_default();
        let group_error =
            || RowError::new("qid: and an integer of at most 53 bits", quote_field(group), "correct the line");
        parse_number::<i64>(group)
            .filter(|query| query.unsigned_abs() <= 1 << 53)
            .map(|query| query as f64)
            .ok_or_else(group_error)
    }
}

/// Parses a line. Calls `visitor` with each index, counted from 0, and its value; the indices
/// ascend.
fn parse_row<'a>(
    line: &'a [u8],
    zero_based: bool,
    mut visitor: impl FnMut(u64, &'a [u8]) -> Result<(), RowError>,
) -> Result<LabelAndGroup<'a>, RowError> {
    let line = &line[..memchr(b'#', line).unwrap_or(line.len())];
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let mut label_and_group = LabelAndGroup { label: words.next().unwrap_or_default(), group: None };
    let mut last_index = None;
    for word in words {
        let (index, value) = word.split_at(memchr(b':', word).unwrap_or(word.len()));
        if index == QUERY_COLUMN.as_bytes() {
            if label_and_group.group.is_some() {
                return Err(RowError::new("one qid per row", quote_field(word), "correct the line"));
            }
            label_and_group.group = value.get(1..);
            continue;
        }
        let entry_error = || RowError::new("index:value", quote_field(word), "correct the line");
        let index = parse_index(index).ok_or_else(entry_error)?;
        let value = value.get(1..).filter(|value| !value.is_empty()).ok_or_else(entry_error)?;
        let Some(column) = index.checked_sub(u64::from(!zero_based)) else {
            let remedy = "if indices start at 0, set `zero_based`";
            return Err(RowError::new("indices from 1 on", "0", remedy));
        };
        if let Some(last) = last_index.filter(|last| *last >= index) {
            let found = format!("{index} after {last}");
            return Err(RowError::new("ascending indices", found, "sort the line's entries and remove duplicates"));
        }
        last_index = Some(index);
        visitor(column, value)?;
    }
    Ok(label_and_group)
}

fn parse_index(digits: &[u8]) -> Option<u64> {
    // the first character must be a digit, because the parser would also accept a plus sign
    digits.first()?.is_ascii_digit().then(|| parse_number(digits))?
}

fn parse_float(text: &[u8]) -> Result<f64, RowError> {
    parse_number(text).ok_or_else(|| RowError::new("a number", quote_field(text), "correct the line"))
}

fn too_wide_error(max_columns: usize, column: u64) -> RowError {
    let found = format!("feature {} of the row", column.saturating_add(1));
    let remedy = "raise `width`, or omit it to use the largest index of the file";
    RowError::new(format!("at most {max_columns} features"), found, remedy)
}

#[derive(Debug)]
struct Svmlight {
    zero_based: bool,
    /// The first row without a group, which is an error if other rows have a group.
    first_without_group: Option<u64>,
    /// Shape of the rows if they stay sparse.
    sparse_shape: Option<SparseShape>,
}

fn max_dense_rows(columns: usize) -> usize {
    (MAX_DENSE_CHUNK_BYTES / (VALUE_BYTES * columns.max(1))).clamp(1, TEXT_CHUNK_ROWS)
}

/// Minimum bytes of an entry in a line.
const MIN_ENTRY_BYTES: usize = b"1:1 ".len();

impl TextFormat for Svmlight {
    const NAME: &'static str = "svmlight";
    const ROW_REMEDY: &'static str = "check that each line contains one row";
    type Scanner = LineScanner;
    type Chunk<'a> = SvmlightChunk;

    fn scanner(&self) -> LineScanner {
        LineScanner::new(Some(b'#'))
    }

    fn note(&self, _: &[Column]) -> Option<String> {
        self.first_without_group
            .map(|row| format!("column {QUERY_COLUMN} is ignored: row {row} has none, and others have"))
    }

    fn chunk(&self, columns: &[Column], requested: &[usize]) -> SvmlightChunk {
        let has_groups = columns.iter().rev().nth(1).is_some_and(|column| column.name == QUERY_COLUMN);
        let feature_count = columns.len() - 1 - usize::from(has_groups);
        let features: Vec<usize> = requested.iter().copied().filter(|column| *column < feature_count).collect();
        let features = match self.sparse_shape {
            Some(shape) => Features::Sparse(SparseColumn::new(shape)),
            None => Features::Dense {
                width: features.len(),
                slots: requested_slots(feature_count, &features),
                rows: Vec::new(),
            },
        };
        let role_values =
            (feature_count..columns.len()).map(|column| requested.contains(&column).then(Vec::new)).collect();
        SvmlightChunk {
            zero_based: self.zero_based,
            feature_count,
            requested_count: requested.len(),
            features,
            role_values,
        }
    }

    fn chunk_bytes(&self, columns: &[&Column], longest_row: usize) -> usize {
        if self.sparse_shape.is_none() {
            return max_dense_rows(columns.len()) * columns.len() * VALUE_BYTES;
        }
        let max_entry_count = (TEXT_CHUNK_BYTES + longest_row) / MIN_ENTRY_BYTES;
        // a growing vector may have twice the capacity it needs, and is copied while it is
        // reallocated
        3 * (max_entry_count * (size_of::<u32>() + VALUE_BYTES)
            + TEXT_CHUNK_ROWS * (size_of::<usize>() + 2 * VALUE_BYTES))
    }
}

struct SvmlightChunk {
    zero_based: bool,
    /// Number of feature columns, which come before the group and the label.
    feature_count: usize,
    requested_count: usize,
    features: Features,
    /// The values of the columns that are not features: the groups, if the file has them, and the
    /// labels. An entry is `None` if the column is not requested.
    role_values: Vec<Option<Vec<f64>>>,
}

enum Features {
    /// Dense rows of `width` numbers. `slots` has the position in a row of each column of the file.
    Dense {
        width: usize,
        slots: Vec<Option<usize>>,
        rows: Vec<f64>,
    },
    Sparse(SparseColumn),
}

impl TextChunk for SvmlightChunk {
    fn begin_chunk(&mut self, mut max_rows: usize) -> usize {
        match &mut self.features {
            Features::Sparse(rows) => rows.clear(),
            Features::Dense { width, rows, .. } => {
                max_rows = max_rows.min(max_dense_rows(self.requested_count));
                rows.clear();
                rows.reserve_exact(max_rows * *width);
            }
        }
        for values in self.role_values.iter_mut().flatten() {
            values.clear();
            values.reserve_exact(max_rows);
        }
        max_rows
    }

    fn push_row(&mut self, _row: u64, line: &[u8]) -> Result<(), RowError> {
        // the largest index is already known, because opening has read all rows
        let line = match &mut self.features {
            Features::Sparse(rows) => {
                let width = rows.shape().column_count;
                let line = parse_row(line, self.zero_based, |column, value| {
                    let column_index = u32::try_from(column).ok().filter(|index| (*index as usize) < width);
                    rows.push_entry(column_index.ok_or_else(|| too_wide_error(width, column))?, parse_float(value)?);
                    Ok(())
                })?;
                rows.end_row();
                line
            }
            Features::Dense { width, slots, rows } => {
                let row = grow(rows, *width);
                parse_row(line, self.zero_based, |column, value| {
                    let slot = usize::try_from(column).ok().and_then(|index| slots.get(index));
                    if let Some(slot) = slot.ok_or_else(|| too_wide_error(slots.len(), column))? {
                        row[*slot] = parse_float(value)?;
                    }
                    Ok(())
                })?
            }
        };
        if let [.., Some(labels)] = &mut self.role_values[..] {
            labels.push(parse_float(line.label)?);
        }
        if let [Some(groups), _] = &mut self.role_values[..] {
            groups.push(line.parse_group()?);
        }
        Ok(())
    }

    fn view(&self, column: usize) -> Option<ColumnView<'_>> {
        let values = match (column.checked_sub(self.feature_count), &self.features) {
            (Some(role_index), _) => Values::from_slice(self.role_values.get(role_index)?.as_ref()?),
            (None, Features::Sparse(rows)) => Values::Sparse(rows.rows()),
            (None, Features::Dense { width, slots, rows }) => {
                let (offset, stride) = (slots[column]? * VALUE_BYTES, width * VALUE_BYTES);
                Values::Strided(StridedColumn {
                    bytes: bytemuck::cast_slice(rows),
                    element: Element::F64,
                    offset,
                    stride,
                })
            }
        };
        Some(ColumnView { values, nulls: None })
    }
}
