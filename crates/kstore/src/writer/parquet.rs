//! Writes Parquet.

use super::arrow::{self, BatchSink, BatchWriter};
use super::{OutputColumn, OutputKind, Sink};
use crate::arrow::array::RecordBatch;
use crate::arrow::datatypes::{DataType, Schema, TimeUnit};
use crate::atomic::AtomicFile;
use crate::{Result, schema::SPARSE_KEY};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use std::path::Path;
use std::sync::Arc;

/// Maximum number of rows per row group, as in comparable published data sets. It is large enough
/// for good compression, and small enough that a reader can start in the middle of a table.
const MAX_ROW_GROUP_ROWS: usize = 65_536;
/// Unpacked bytes per row group. A reader of whole row groups needs this memory.
const MAX_ROW_GROUP_BYTES: usize = 64 << 20;
/// Bytes per row group if the table has a text column. The values of a text column have no fixed
/// size, so this limit, and not a number of rows, bounds the memory.
const MAX_TEXT_ROW_GROUP_BYTES: usize = 16 << 20;
/// Memory of one column's writer, without its buffered values: the compressor's tables, one
/// compressed page and allocation slack. All columns of a row group are open at the same time.
const COLUMN_WRITER_BYTES: usize = 144 << 10;
/// Additional bytes of the writer of a text column: a dictionary of 1 MiB and a table of its
/// values, a page of 1 MiB and its compressed form.
const TEXT_COLUMN_WRITER_BYTES: usize = 4 << 20;
/// Rows after which the writer checks the size of the row group.
const SLICE_ROWS: usize = 1024;

/// Number of rows of a page: the first multiple of `SLICE_ROWS` that reaches the default page limit
/// of the `parquet` crate, 20,000 rows.
const PAGE_ROWS: usize = 20 * SLICE_ROWS;

/// Returns the memory of a row group without text columns: its compressed pages, and one open page
/// per column. The buffer of a page grows by doubling, and stays allocated after the page is
/// compressed. A column that does not hold floats has a dictionary with at most as many values as
/// the row group has rows.
///
/// Measured: the peak memory of a conversion to Parquet minus the peak memory of a conversion to
/// .npy, compared with the planned memory, which is this function plus [`COLUMN_WRITER_BYTES`] for
/// each column. In MiB (planned in parentheses): 108 (142) for 20,000 rows of 200 columns of f64,
/// 135 (142) for 60,000 such rows, and 279 (277) for 40,000 rows of 800 columns of f32.
fn row_group_memory_bytes(columns: &[OutputColumn]) -> usize {
    let row_bytes: usize = columns.iter().map(|column| column.kind.bytes_per_value()).sum();
    let group_rows = (MAX_ROW_GROUP_BYTES / row_bytes.max(1)).min(MAX_ROW_GROUP_ROWS);
    let page_buffer_bytes = |column: &OutputColumn| match column.kind {
        OutputKind::F32 | OutputKind::F64 => {
            (group_rows.min(PAGE_ROWS) * column.kind.bytes_per_value()).next_power_of_two()
        }
        _ => group_rows * 16,
    };
    let compressed_bytes = if group_rows < PAGE_ROWS { 0 } else { group_rows * row_bytes };
    compressed_bytes + columns.iter().map(page_buffer_bytes).sum::<usize>()
}

struct RowGroupWriter {
    writer: ArrowWriter<AtomicFile>,
    /// Bytes of the row group so far, before encoding and compression.
    buffered_bytes: usize,
    max_row_group_bytes: usize,
}

pub(crate) fn create(path: &Path, columns: &[OutputColumn]) -> Result<Box<dyn Sink>> {
    let text_column_count = columns.iter().filter(|column| column.kind.is_variable_size()).count();
    let (max_row_group_bytes, row_group_memory) = match text_column_count {
        0 => (MAX_ROW_GROUP_BYTES, row_group_memory_bytes(columns)),
        _ => (MAX_TEXT_ROW_GROUP_BYTES, MAX_TEXT_ROW_GROUP_BYTES),
    };
    let open_writer = |file, schema: &Arc<Schema>| {
        let writer = ArrowWriter::try_new(file, Arc::clone(schema), Some(writer_properties(columns)))?;
        Ok(RowGroupWriter { writer, buffered_bytes: 0, max_row_group_bytes })
    };
    let stored_columns: Vec<OutputColumn> = columns.iter().map(stored_column).collect();
    BatchSink::create(
        path,
        columns,
        &stored_columns,
        row_group_memory + columns.len() * COLUMN_WRITER_BYTES + text_column_count * TEXT_COLUMN_WRITER_BYTES,
        open_writer,
    )
}

/// Returns the column as Parquet stores it. Seconds become milliseconds, because Parquet has no
/// type for seconds.
fn stored_column(column: &OutputColumn) -> OutputColumn {
    let time_type = column.time_type.as_ref().map(|time_type| match time_type {
        DataType::Timestamp(_, zone) if arrow::is_in_seconds(time_type) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Time32(_) => DataType::Time32(TimeUnit::Millisecond),
        other => other.clone(),
    });
    OutputColumn { time_type, ..column.clone() }
}

impl BatchWriter for RowGroupWriter {
    type Error = ParquetError;

    fn next_slice_rows(&self) -> usize {
        SLICE_ROWS
    }

    fn write_batch(&mut self, batch: RecordBatch) -> Result<(), ParquetError> {
        self.buffered_bytes += batch.get_array_memory_size();
        self.writer.write(&batch)?;
        // `memory_size` counts finished pages by their compressed size, so the unpacked bytes are
        // counted here too
        if self.buffered_bytes.max(self.writer.memory_size()) >= self.max_row_group_bytes {
            self.writer.flush()?;
        }
        if self.writer.in_progress_rows() == 0 {
            self.buffered_bytes = 0;
        }
        Ok(())
    }

    fn into_file(self) -> Result<AtomicFile, ParquetError> {
        self.writer.into_inner()
    }
}

/// Returns the properties of the writer. Floats get no dictionary: if most values are distinct, a
/// dictionary is larger and slower to read than the values. Floats use BYTE_STREAM_SPLIT: byte k of
/// all values is stored together, so that the repeated sign and exponent bytes compress well.
fn writer_properties(columns: &[OutputColumn]) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(MAX_ROW_GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        // Parquet has dates in days only: dates in milliseconds are converted
        .set_coerce_types(columns.iter().any(|column| column.time_type == Some(DataType::Date64)));
    if let Some(shapes) = arrow::sparse_shapes_json(columns) {
        properties = properties.set_key_value_metadata(Some(vec![KeyValue::new(SPARSE_KEY.to_string(), shapes)]));
    }
    for column in columns.iter().filter(|column| matches!(column.kind, OutputKind::F32 | OutputKind::F64)) {
        let path = ColumnPath::from(column.name.as_str());
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::BYTE_STREAM_SPLIT);
    }
    properties.build()
}
