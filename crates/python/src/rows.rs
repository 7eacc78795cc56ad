//! Tables of numpy and scipy arrays with further columns. Dense arrays are not copied.

use crate::foreign::BorrowedArray;
use kstore::arrow::array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, StringViewArray};
use kstore::schema::{Column, Kind, Schema};
use kstore::source::{ColumnView, Element, FileCursor, FileMetadata, StridedColumn, TableFile, Values};
use kstore::sparse::{SparseRows, SparseShape};
use kstore::{Error, Result};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Number of rows of a chunk. Chosen: in most tables, a chunk takes a few hundred kilobytes.
const CHUNK_ROWS: u64 = 8192;

/// Number of values of a chunk of sparse rows in dense form: 4 MiB.
const DENSE_CHUNK_VALUES: usize = 1 << 19;

/// The features of all rows.
#[derive(Debug)]
pub(crate) enum Features {
    /// An n x d array in C order.
    Dense(BorrowedArray<u8>, Element),
    /// Sparse rows that are read as dense rows.
    SparseAsDense(Arc<CompressedRows>),
    /// Sparse rows that stay sparse.
    Sparse(Arc<CompressedRows>),
}

/// Compressed sparse rows in scipy's layout: row i has the entries `starts[i]..starts[i + 1]`, with
/// ascending column indices.
#[derive(Debug)]
pub(crate) struct CompressedRows {
    starts: Vec<usize>,
    indices: BorrowedArray<u32>,
    values: BorrowedArray<f64>,
    shape: SparseShape,
}

impl CompressedRows {
    /// Returns the rows; `None` if column indices exceed `width` or are out of order, or if the
    /// rows are not contiguous.
    pub(crate) fn new(
        starts: &[i64],
        indices: BorrowedArray<u32>,
        values: BorrowedArray<f64>,
        width: usize,
    ) -> Option<Self> {
        let starts: Vec<usize> = starts.iter().map(|start| usize::try_from(*start).ok()).collect::<Option<_>>()?;
        let entry_count = indices.as_slice().len();
        let is_ordered = starts.first() == Some(&0) && starts.is_sorted() && starts.last() == Some(&entry_count);
        if !is_ordered || entry_count != values.as_slice().len() {
            return None;
        }
        let rows = || starts.windows(2).map(|ends| &indices.as_slice()[ends[0]..ends[1]]);
        let is_valid_row =
            |row: &[u32]| row.is_sorted_by(|a, b| a < b) && row.last().is_none_or(|index| (*index as usize) < width);
        let longest = rows().map(<[u32]>::len).max().unwrap_or_default();
        rows().all(is_valid_row).then(|| Self {
            shape: SparseShape { column_count: width, max_row_entries: longest },
            starts,
            indices,
            values,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the rows starting at `first_row`.
    fn rows_from(&self, first_row: usize) -> SparseRows<'_> {
        SparseRows {
            starts: &self.starts[first_row..],
            indices: self.indices.as_slice(),
            values: self.values.as_slice(),
        }
    }

    /// Returns the number of columns, and the number of entries of the longest row.
    pub(crate) fn shape(&self) -> SparseShape {
        self.shape
    }

    /// Returns the variance of all values, zeros included, with row weights.
    pub(crate) fn variance(&self, weight: impl Fn(usize) -> f64) -> f64 {
        let weight = &weight;
        let entries = || {
            let row = |i: usize| &self.values.as_slice()[self.starts[i]..self.starts[i + 1]];
            (0..self.len()).flat_map(move |i| row(i).iter().map(move |value| (weight(i), *value)))
        };
        let total_weight =
            ((0..self.len()).map(weight).sum::<f64>() * self.shape.column_count as f64).max(f64::MIN_POSITIVE);
        let mean = entries().map(|(weight, value)| weight * value).sum::<f64>() / total_weight;
        // Σ w (v − mean)² over the entries, plus mean² times the total weight of the zeros
        let squared_deviation_sum: f64 = entries().map(|(weight, value)| weight * (value - mean).powi(2)).sum();
        (squared_deviation_sum + (total_weight - entries().map(|(weight, _)| weight).sum::<f64>()) * mean.powi(2))
            / total_weight
    }

    /// Returns the number of rows of a chunk with `d` columns.
    fn chunk_rows(d: usize) -> u64 {
        ((DENSE_CHUNK_VALUES / d.max(1)) as u64).clamp(1, CHUNK_ROWS)
    }

    /// Writes rows into `dense`, column by column.
    fn fill(&self, rows: Range<usize>, d: usize, dense: &mut Vec<f64>) {
        dense.clear();
        dense.resize(rows.len() * d, 0.0);
        let sparse_rows = self.rows_from(rows.start);
        for i in 0..rows.len() {
            let (indices, values) = sparse_rows.row(i);
            indices.iter().zip(values).for_each(|(index, value)| dense[*index as usize * rows.len() + i] = *value);
        }
    }
}

/// Features, and further columns: targets, labels, weights.
#[derive(Debug)]
pub(crate) struct ArrayRows {
    schema: Schema,
    x: Features,
    /// Number of feature columns.
    d: usize,
    row_count: u64,
    extra_columns: Vec<ArrayRef>,
}

impl ArrayRows {
    /// Returns a table with a column per name; the further columns have `rows` values each.
    pub(crate) fn new(x: Features, names: Vec<String>, row_count: u64, extra_columns: Vec<(String, ArrayRef)>) -> Self {
        let d = names.len();
        let feature_kind = match &x {
            Features::Dense(_, element) => Kind::Float { bits: 8 * element.bytes_per_value() as u8 },
            Features::SparseAsDense(_) => Kind::Float { bits: 64 },
            Features::Sparse(rows) => Kind::Sparse(rows.shape),
        };
        let features = names.into_iter().map(|name| Column { name, kind: feature_kind.clone() });
        let kind = |array: &ArrayRef| match array.data_type() {
            kstore::arrow::datatypes::DataType::Boolean => Kind::Bool,
            kstore::arrow::datatypes::DataType::Int64 => Kind::Int { bits: 64, signed: true },
            kstore::arrow::datatypes::DataType::Utf8View => Kind::Text,
            _ => Kind::Float { bits: 64 },
        };
        let extra_fields = extra_columns.iter().map(|(name, array)| Column { name: name.clone(), kind: kind(array) });
        let schema = Schema { columns: features.chain(extra_fields).collect(), ..Schema::default() };
        Self { schema, x, d, row_count, extra_columns: extra_columns.into_iter().map(|(_, array)| array).collect() }
    }
}

impl TableFile for ArrayRows {
    fn metadata(&self) -> FileMetadata<'_> {
        let x_bytes = match &self.x {
            Features::Dense(x, _) => x.as_slice().len(),
            Features::SparseAsDense(x) | Features::Sparse(x) => 12 * x.values.as_slice().len() + 8 * x.starts.len(),
        };
        let bytes =
            x_bytes as u64 + self.extra_columns.iter().map(|array| array.get_array_memory_size() as u64).sum::<u64>();
        FileMetadata {
            format: "memory",
            schema: &self.schema,
            row_count: self.row_count,
            file_bytes: bytes,
            bytes_scanned: 0,
        }
    }

    fn has_column_names(&self) -> bool {
        false
    }

    /// Returns 0 for arrays, which the caller owns; for sparse rows read as dense rows, the bytes
    /// of a chunk.
    fn cursor_bytes(&self, _: &[usize]) -> usize {
        match &self.x {
            Features::Dense(..) | Features::Sparse(_) => 0,
            Features::SparseAsDense(_) => CompressedRows::chunk_rows(self.d) as usize * self.d * 8,
        }
    }

    fn open<'a>(&'a self, columns: &[usize], rows: Range<u64>, _: &Arc<AtomicU64>) -> Result<Box<dyn FileCursor + 'a>> {
        Ok(Box::new(Cursor {
            table: self,
            columns: columns.to_vec(),
            remaining_rows: rows,
            first_row: 0,
            dense: Vec::new(),
            extra_chunk: Vec::new(),
        }))
    }
}

struct Cursor<'a> {
    table: &'a ArrayRows,
    columns: Vec<usize>,
    remaining_rows: Range<u64>,
    /// First row of the current chunk.
    first_row: usize,
    /// Features of the current chunk, column by column, if sparse rows are read as dense rows.
    dense: Vec<f64>,
    /// Further columns of the current chunk; slices, not copies.
    extra_chunk: Vec<ArrayRef>,
}

impl Cursor<'_> {
    /// Advances by at most `max_rows` rows, and returns their number.
    fn advance_rows(&mut self, max_rows: u64) -> usize {
        let rows = (self.remaining_rows.end - self.remaining_rows.start).min(max_rows) as usize;
        self.first_row = self.remaining_rows.start as usize;
        self.remaining_rows.start += rows as u64;
        self.extra_chunk = self.table.extra_columns.iter().map(|array| array.slice(self.first_row, rows)).collect();
        rows
    }
}

impl FileCursor for Cursor<'_> {
    fn advance(&mut self) -> Result<usize> {
        let Features::SparseAsDense(x) = &self.table.x else { return Ok(self.advance_rows(CHUNK_ROWS)) };
        let rows = self.advance_rows(CompressedRows::chunk_rows(self.table.d));
        x.fill(self.first_row..self.first_row + rows, self.table.d, &mut self.dense);
        Ok(rows)
    }

    fn advance_into(&mut self, element: Element, columns: usize, x: &mut [u8]) -> Result<Option<usize>> {
        let (table, stride) = (self.table, self.table.d * element.bytes_per_value());
        let Features::Dense(bytes, stored_element) = &table.x else { return Ok(None) };
        let is_ordered = self.columns.iter().take(columns).enumerate().all(|(i, column)| i == *column);
        if element != *stored_element || columns != table.d || !is_ordered {
            return Ok(None);
        }
        let rows = self.advance_rows((x.len() / stride) as u64);
        x[..rows * stride].copy_from_slice(&bytes.as_slice()[self.first_row * stride..][..rows * stride]);
        Ok(Some(rows))
    }

    fn view(&self, index: usize) -> Result<ColumnView<'_>> {
        let (table, column) = (self.table, self.columns[index]);
        let values = match column.checked_sub(table.d) {
            None => Some(match &table.x {
                Features::Dense(x, element) => {
                    let (size, stride) = (element.bytes_per_value(), table.d * element.bytes_per_value());
                    let bytes = &x.as_slice()[self.first_row * stride..];
                    Values::Strided(StridedColumn { bytes, element: *element, offset: column * size, stride })
                }
                Features::SparseAsDense(_) => {
                    let rows = self.dense.len() / table.d;
                    Values::from_slice(&self.dense[column * rows..][..rows])
                }
                Features::Sparse(x) => Values::Sparse(x.rows_from(self.first_row)),
            }),
            Some(chunk_index) => column_values(self.extra_chunk[chunk_index].as_ref()),
        };
        let values = values.ok_or_else(|| Error::Malformed {
            path: "memory".into(),
            format: "arrays",
            detail: format!("column {column} has an unsupported type"),
        })?;
        Ok(ColumnView { values, nulls: None })
    }
}

/// Returns the values of a further column.
fn column_values(array: &dyn Array) -> Option<Values<'_>> {
    let any = array.as_any();
    let numbers = any.downcast_ref::<Float64Array>().map(|array| Values::from_slice(&array.values()[..]));
    let integers = || any.downcast_ref::<Int64Array>().map(|array| Values::from_slice(&array.values()[..]));
    let booleans = || any.downcast_ref::<BooleanArray>().map(Values::Bool);
    let texts = || any.downcast_ref::<StringViewArray>().map(Values::Text);
    numbers.or_else(integers).or_else(booleans).or_else(texts)
}
