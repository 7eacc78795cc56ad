//! Arrow record batches in memory, as a table.

use super::column::{self, Layout, LoadedColumns};
use super::data_type::{column_kind, element_type};
use super::{BoxedCursor, ColumnView, Element, FileCursor, FileMetadata, TARGET_COLUMN, TableFile, sparse_entries};
use crate::arrow::array::{
    Array, ArrayRef, Float32Array, Float64Array, LargeListArray, RecordBatch, StructArray, UInt32Array,
};
use crate::arrow::buffer::OffsetBuffer;
use crate::arrow::datatypes::{DataType, Field};
use crate::sparse::{self, SparseShape};
use crate::{Error, Float, Result};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::{ops::Range, path::Path};

/// Name of the format.
pub(crate) const RECORD_BATCHES: &str = "record batches";

/// Name of a table in messages, instead of a path.
pub(crate) const TABLE_IN_MEMORY: &str = "the table in memory";

/// What malformed batches cannot be read as.
const TABLE: &str = "a table";

/// Maximum number of rows of a chunk. With this many rows, conversions and data per row take a few
/// hundred kilobytes.
const BATCH_CHUNK_ROWS: u64 = 8192;

#[derive(Debug)]
pub(crate) struct BatchTable {
    layout: Layout,
    batches: Vec<RecordBatch>,
    batch_starts: Vec<u64>,
    memory_bytes: u64,
}

impl BatchTable {
    pub(crate) fn new(batches: Vec<RecordBatch>) -> Result<Self> {
        Self::with_sparse_shape(batches, None)
    }

    /// Returns the table of these batches. Columns of sparse rows have the shape `known_shape`, or
    /// else the smallest shape with room for their rows.
    fn with_sparse_shape(batches: Vec<RecordBatch>, known_shape: Option<SparseShape>) -> Result<Self> {
        let batches: Vec<RecordBatch> = batches.into_iter().filter(|batch| batch.num_rows() > 0).collect();
        let Some(first_batch) = batches.first() else {
            return Err(Error::Empty {
                what: TABLE_IN_MEMORY.to_string(),
                why: "no rows; give at least one".to_string(),
            });
        };
        if let Some(other) = batches.iter().find(|batch| batch.schema().fields() != first_batch.schema().fields()) {
            let (first, other) = (first_batch.schema(), other.schema());
            let differing_fields = first.fields().iter().zip(other.fields()).find(|(one, two)| one != two);
            let describe = |field: &Field| format!("{:?} of {}", field.name(), column_kind(field.data_type()));
            let how = match differing_fields {
                Some((one, two)) => format!("column {} is column {} in another batch", describe(one), describe(two)),
                None => format!("one batch has {} columns and another {}", first.fields().len(), other.fields().len()),
            };
            return Err(malformed_error(format!("their columns differ: {how}")));
        }
        let list_length_of = |root: usize| Ok::<_, Error>(column::list_length(first_batch.column(root).as_ref(), 0));
        let measure_shape = |root: usize| {
            if let Some(shape) = known_shape {
                return Ok(shape);
            }
            let mut shape = SparseShape::default();
            for batch in &batches {
                sparse_entries::extend_shape(batch.column(root), &mut shape)
                    .map_err(|error| error.into_error(Path::new(TABLE_IN_MEMORY), TABLE))?;
            }
            Ok::<_, Error>(shape)
        };
        let layout = Layout::new(first_batch.schema().fields(), list_length_of)?;
        let layout = layout.with_sparse_shapes(first_batch.schema().fields(), None, measure_shape)?;
        let mut batch_starts = vec![0];
        for batch in &batches {
            batch_starts.push(batch_starts[batch_starts.len() - 1] + batch.num_rows() as u64);
        }
        let memory_bytes = batches.iter().map(|batch| batch.get_array_memory_size() as u64).sum();
        Ok(Self { layout, batches, batch_starts, memory_bytes })
    }

    /// Copies `x` (n x d, row-major) to the columns `x0`, `x1`, …, and `y` (n x t, row-major, t may
    /// be 0) to the columns `y0`, `y1`, …, or to the column `y` if t = 1.
    pub(crate) fn from_rows<T: Float>(x: &[T], d: usize, y: &[f64]) -> Result<Self> {
        if d == 0 || x.is_empty() || !x.len().is_multiple_of(d) {
            return Err(length_error(format!("{} values are not a multiple of {d} features", x.len())));
        }
        let features = (0..d).map(|j| (format!("x{j}"), column_array(x, j, d)));
        Self::from_columns(features, x.len() / d, y, None)
    }

    /// Copies the sparse rows `x` to the column `x`, and `y` as in [`Self::from_rows`]. The layout
    /// of `x` is that of blocks ([`crate::sparse`]), with `shape.values_per_row()` values per row.
    pub(crate) fn from_sparse_rows<T: Float>(x: &[T], shape: SparseShape, y: &[f64]) -> Result<Self> {
        let row_len = shape.values_per_row();
        if x.is_empty() || !x.len().is_multiple_of(row_len) {
            return Err(length_error(format!("{} values are not a multiple of {row_len}", x.len())));
        }
        let rows = || x.chunks_exact(row_len).map(sparse::entries);
        let indices = UInt32Array::from_iter_values(rows().flat_map(|(i, _)| i).map(|index| index.to_f64() as u32));
        let values = Float64Array::from_iter_values(rows().flat_map(|(_, values)| values).map(|value| value.to_f64()));
        let entries = StructArray::from(vec![
            (Arc::new(Field::new("index", DataType::UInt32, false)), Arc::new(indices) as ArrayRef),
            (Arc::new(Field::new("value", DataType::Float64, false)), Arc::new(values) as ArrayRef),
        ]);
        let item = Arc::new(Field::new("item", entries.data_type().clone(), false));
        let offsets = OffsetBuffer::<i64>::from_lengths(rows().map(|(indices, _)| indices.len()));
        let lists = LargeListArray::try_new(item, offsets, Arc::new(entries), None);
        let lists: ArrayRef = Arc::new(lists.map_err(|error| malformed_error(error.to_string()))?);
        Self::from_columns(std::iter::once(("x".to_string(), lists)), x.len() / row_len, y, Some(shape))
    }

    /// Returns a table of feature columns with `n` rows, and of the target columns of `y`. The
    /// column of sparse rows has the given shape.
    fn from_columns(
        features: impl Iterator<Item = (String, ArrayRef)>,
        n: usize,
        y: &[f64],
        shape: Option<SparseShape>,
    ) -> Result<Self> {
        if !y.len().is_multiple_of(n) {
            return Err(length_error(format!("{} targets for {n} rows", y.len())));
        }
        let t = y.len() / n;
        let target_name = |k: usize| if t == 1 { TARGET_COLUMN.to_string() } else { format!("{TARGET_COLUMN}{k}") };
        let columns = features.chain((0..t).map(|k| (target_name(k), column_array(y, k, t))));
        let batch = RecordBatch::try_from_iter(columns).map_err(|error| malformed_error(error.to_string()))?;
        Self::with_sparse_shape(vec![batch], shape)
    }
}

fn column_array<T: Float>(rows: &[T], j: usize, d: usize) -> ArrayRef {
    let values = rows.iter().skip(j).step_by(d).map(|value| value.to_f64());
    match T::ELEMENT {
        // `values` are f64 numbers that were converted from f32, so the conversion back is exact
        Element::F32 => Arc::new(Float32Array::from_iter_values(values.map(|value| value as f32))),
        _ => Arc::new(Float64Array::from_iter_values(values)),
    }
}

fn length_error(text: String) -> Error {
    let expected = "n rows of d features each, and no targets or a multiple of n".to_string();
    Error::Syntax { what: "arrays", text, expected }
}

fn malformed_error(detail: String) -> Error {
    Error::malformed(Path::new(TABLE_IN_MEMORY), TABLE, detail)
}

impl TableFile for BatchTable {
    fn metadata(&self) -> FileMetadata<'_> {
        let row_count = self.batch_starts[self.batches.len()];
        FileMetadata {
            format: RECORD_BATCHES,
            schema: &self.layout.schema,
            row_count,
            file_bytes: self.memory_bytes,
            bytes_scanned: 0,
        }
    }

    fn is_all_missing(&self, column: usize) -> bool {
        let is_null =
            |root| self.batches.iter().all(|batch| batch.column(root).logical_null_count() == batch.num_rows());
        self.layout.scalar_root(column).is_some_and(is_null)
    }

    /// Bytes of the converted columns. Columns of plain numbers are not converted; all other
    /// columns are converted batch by batch.
    fn cursor_bytes(&self, columns: &[usize]) -> usize {
        let roots = self.layout.roots(columns);
        let converted_bytes = |batch: &RecordBatch| {
            let columns = roots.iter().map(|root| batch.column(*root));
            let converted = columns.filter(|column| element_type(column.data_type()).is_none());
            converted.map(|column| column.get_array_memory_size()).sum::<usize>()
        };
        self.batches.iter().map(converted_bytes).max().unwrap_or(0)
    }

    fn open(&self, columns: &[usize], rows: Range<u64>, _: &Arc<AtomicU64>) -> Result<BoxedCursor<'_>> {
        Ok(Box::new(BatchCursor {
            table: self,
            chunk: LoadedColumns::new(&self.layout, columns),
            remaining_rows: rows,
        }))
    }
}

struct BatchCursor<'a> {
    table: &'a BatchTable,
    chunk: LoadedColumns,
    remaining_rows: Range<u64>,
}

impl FileCursor for BatchCursor<'_> {
    fn advance(&mut self) -> Result<usize> {
        if self.remaining_rows.is_empty() {
            return Ok(0);
        }
        let (table, first) = (self.table, self.remaining_rows.start);
        let batch_index = table.batch_starts.partition_point(|start| *start <= first) - 1;
        let rows =
            (self.remaining_rows.end.min(table.batch_starts[batch_index + 1]) - first).min(BATCH_CHUNK_ROWS) as usize;
        let batch = table.batches[batch_index].slice((first - table.batch_starts[batch_index]) as usize, rows);
        let batch = batch.project(&self.chunk.roots).map_err(|error| malformed_error(error.to_string()))?;
        self.chunk.load_batch(&table.layout, &batch, first, Path::new(TABLE_IN_MEMORY), TABLE)?;
        self.remaining_rows.start += rows as u64;
        Ok(rows)
    }

    fn view(&self, index: usize) -> Result<ColumnView<'_>> {
        let unsupported = || malformed_error(format!("requested column {index} has an unsupported type"));
        self.chunk.view(index).ok_or_else(unsupported)
    }
}
