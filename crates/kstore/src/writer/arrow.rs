//! Converts written columns to Arrow arrays, for the file formats that store Arrow arrays.

use super::interface::write_error;
use super::{OutputColumn, OutputKind, OutputValues, Sink};
use crate::Error;
use crate::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Float32Array, Float64Array, Int64Array, ListArray,
    RecordBatch, StringArray, StructArray, UInt32Array, UInt64Array, make_array,
};
use crate::arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use crate::arrow::datatypes::{DataType, Field, Fields, Int32Type, Int64Type, Schema, TimeUnit};
use crate::arrow::error::ArrowError;
use crate::atomic::AtomicFile;
use crate::schema::SPARSE_KEY;
use crate::sparse::{SparseColumn, SparseRows, SparseShape};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes record batches to a file.
pub(super) trait BatchWriter: Send {
    type Error: std::error::Error + From<ArrowError> + Send + Sync + 'static;
    /// Returns the maximum number of rows of the next batch.
    fn next_slice_rows(&self) -> usize;
    fn write_batch(&mut self, batch: RecordBatch) -> Result<(), Self::Error>;
    /// Writes the remaining rows and the footer, and returns the file.
    fn into_file(self) -> Result<AtomicFile, Self::Error>;
}

/// A sink that converts rows to record batches.
pub(super) struct BatchSink<W> {
    /// The writer, until the file is complete.
    writer: Option<W>,
    /// The file, once it is complete.
    file: Option<AtomicFile>,
    path: PathBuf,
    schema: Arc<Schema>,
    columns: Vec<OutputColumn>,
    memory_bytes: usize,
}

impl<W: BatchWriter + 'static> BatchSink<W> {
    /// Starts a file of columns, which the format may store in another time unit. The writer of the
    /// format needs `memory_bytes` bytes of memory.
    pub(super) fn create(
        path: &Path,
        columns: &[OutputColumn],
        stored_columns: &[OutputColumn],
        memory_bytes: usize,
        open_writer: impl FnOnce(AtomicFile, &Arc<Schema>) -> Result<W, W::Error>,
    ) -> Result<Box<dyn Sink>, Error> {
        let (schema, file) = (arrow_schema(stored_columns), AtomicFile::create(path)?);
        let writer = Some(open_writer(file, &schema).map_err(|error| write_error(path, error))?);
        let (path, columns) = (path.to_path_buf(), columns.to_vec());
        Ok(Box::new(Self { writer, file: None, path, schema, columns, memory_bytes }))
    }
}

impl<W: BatchWriter> Sink for BatchSink<W> {
    fn write(&mut self, columns: &[OutputValues<'_>]) -> Result<(), Error> {
        let (rows, mut start) = (super::interface::batch_row_count(&self.columns, columns), 0);
        let Some(writer) = &mut self.writer else {
            return Err(Error::io("write", &self.path)(io::Error::other("the file is closed")));
        };
        while start < rows {
            let end = rows.min(start + writer.next_slice_rows());
            let batch = record_batch(&self.schema, &self.columns, columns, start..end).map_err(W::Error::from);
            batch.and_then(|part| writer.write_batch(part)).map_err(|error| write_error(&self.path, error))?;
            start = end;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        if let Some(writer) = self.writer.take() {
            let mut file = writer.into_file().map_err(|error| write_error(&self.path, error))?;
            file.sync()?;
            self.file = Some(file);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), Error> {
        self.sync()?;
        self.file.map_or(Ok(()), AtomicFile::commit)
    }

    fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
}

fn arrow_schema(columns: &[OutputColumn]) -> Arc<Schema> {
    let fields = columns.iter().map(|column| Field::new(&column.name, data_type(column), column.nullable));
    let shapes = sparse_shapes_json(columns).map(|shapes| (SPARSE_KEY.to_string(), shapes));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()).with_metadata(shapes.into_iter().collect::<HashMap<_, _>>()))
}

/// Returns the shapes of the columns of sparse rows as JSON for the metadata of a file; `None` if
/// the table has no sparse rows.
pub(super) fn sparse_shapes_json(columns: &[OutputColumn]) -> Option<String> {
    let named_shape = |column: &OutputColumn| match column.kind {
        OutputKind::Sparse(shape) => Some((column.name.clone(), shape)),
        _ => None,
    };
    let shapes: BTreeMap<String, SparseShape> = columns.iter().filter_map(named_shape).collect();
    serde_json::to_string(&shapes).ok().filter(|_| !shapes.is_empty())
}

fn entry_fields() -> Fields {
    [Field::new("index", DataType::UInt32, false), Field::new("value", DataType::Float64, false)].into_iter().collect()
}

fn entry_list() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Struct(entry_fields()), false))
}

fn data_type(column: &OutputColumn) -> DataType {
    match (&column.time_type, column.kind) {
        (Some(time), _) => time.clone(),
        (None, OutputKind::F32) => DataType::Float32,
        (None, OutputKind::F64) => DataType::Float64,
        (None, OutputKind::I64) => DataType::Int64,
        (None, OutputKind::U64) => DataType::UInt64,
        (None, OutputKind::Bool) => DataType::Boolean,
        (None, OutputKind::Text) => DataType::Utf8,
        (None, OutputKind::Binary) => DataType::Binary,
        (None, OutputKind::Sparse(_)) => DataType::List(entry_list()),
    }
}

fn record_batch(
    schema: &Arc<Schema>,
    columns: &[OutputColumn],
    batch: &[OutputValues<'_>],
    rows: Range<usize>,
) -> Result<RecordBatch, ArrowError> {
    let arrays = batch.iter().zip(columns).zip(schema.fields()).map(|((values, column), field)| {
        let array = array_with_nulls(values, rows.clone(), None)?;
        let has_stored_type = array.data_type() == field.data_type();
        if has_stored_type { Ok(array) } else { convert_time(&array, column.time_type.as_ref(), field.data_type()) }
    });
    RecordBatch::try_new(Arc::clone(schema), arrays.collect::<Result<_, _>>()?)
}

/// Returns whether the type is a timestamp or time of day in seconds, which Parquet does not have.
pub(super) fn is_in_seconds(time: &DataType) -> bool {
    matches!(time, DataType::Timestamp(TimeUnit::Second, _) | DataType::Time32(TimeUnit::Second))
}

/// Converts integers that represent the type `time_type` to dates or times of the type
/// `stored_type`.
fn convert_time(
    array: &ArrayRef,
    time_type: Option<&DataType>,
    stored_type: &DataType,
) -> Result<ArrayRef, ArrowError> {
    let mut numbers = array.as_primitive::<Int64Type>().clone();
    if time_type.is_some_and(is_in_seconds) && !is_in_seconds(stored_type) {
        let range_error =
            |seconds| format!("{seconds} seconds exceed the range of milliseconds, in which Parquet stores times");
        let fits_stored_type = |ms: &i64| matches!(stored_type, DataType::Timestamp(..)) || i32::try_from(*ms).is_ok();
        numbers = numbers.try_unary(|seconds| {
            let ms = seconds.checked_mul(1000).filter(fits_stored_type);
            ms.ok_or_else(|| ArrowError::ArithmeticOverflow(range_error(seconds)))
        })?;
    }
    let numbers: ArrayRef = match stored_type {
        // values read from 32 bits fit into 32 bits
        DataType::Date32 | DataType::Time32(_) => {
            Arc::new(numbers.unary_opt::<_, Int32Type>(|value| i32::try_from(value).ok()))
        }
        _ => Arc::new(numbers),
    };
    Ok(make_array(numbers.to_data().into_builder().data_type(stored_type.clone()).build()?))
}

/// Returns rows of a column as an Arrow array. A kept column has its own nulls, which replace
/// `nulls`.
fn array_with_nulls(
    column: &OutputValues<'_>,
    rows: Range<usize>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let start = rows.start;
    let is_valid = |i: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(i - start));
    Ok(match column {
        OutputValues::F32(v) => Arc::new(Float32Array::new(v[rows].to_vec().into(), nulls)),
        OutputValues::F64(v) => Arc::new(Float64Array::new(v[rows].to_vec().into(), nulls)),
        OutputValues::I64(v) => Arc::new(Int64Array::new(v[rows].to_vec().into(), nulls)),
        OutputValues::U64(v) => Arc::new(UInt64Array::new(v[rows].to_vec().into(), nulls)),
        OutputValues::Bool(v) => Arc::new(BooleanArray::new(BooleanBuffer::from(&v[rows]), nulls)),
        OutputValues::Text(v) => Arc::new(rows.map(|i| is_valid(i).then(|| v.text(i))).collect::<StringArray>()),
        OutputValues::Binary(v) => Arc::new(rows.map(|i| is_valid(i).then(|| v.bytes(i))).collect::<BinaryArray>()),
        OutputValues::Kept(column) => {
            let nulls = column.validity().map(|validity| NullBuffer::from(&validity[rows.clone()]));
            array_with_nulls(&column.values().as_output(), rows, nulls)?
        }
        OutputValues::Sparse(v) => Arc::new(entry_lists(v, rows)?),
    })
}

fn entry_lists(column: &SparseColumn, rows: Range<usize>) -> Result<ListArray, ArrowError> {
    let SparseRows { starts, indices, values } = column.rows();
    let (first_entry, entry_end) = (starts[rows.start], starts[rows.end]);
    let list_offset = |start: &usize| {
        i32::try_from(start - first_entry).map_err(|_| ArrowError::OffsetOverflowError(start - first_entry))
    };
    let offsets: Vec<i32> = starts[rows.start..=rows.end].iter().map(list_offset).collect::<Result<_, _>>()?;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from(indices[first_entry..entry_end].to_vec())),
        Arc::new(Float64Array::from(values[first_entry..entry_end].to_vec())),
    ];
    let entries = StructArray::try_new(entry_fields(), columns, None)?;
    ListArray::try_new(entry_list(), OffsetBuffer::new(offsets.into()), Arc::new(entries), None)
}
