//! Writes Arrow IPC files.

use super::arrow::{BatchSink, BatchWriter};
use super::{OutputColumn, OutputKind, Sink};
use crate::Result;
use crate::arrow::array::RecordBatch;
use crate::arrow::compute::concat_batches;
use crate::arrow::datatypes::Schema;
use crate::arrow::error::ArrowError;
use crate::arrow::ipc::MetadataVersion;
use crate::arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use crate::atomic::AtomicFile;
use std::path::Path;
use std::sync::Arc;

/// Bytes of a record batch: enough that the metadata of the batch are negligible, and few enough
/// for the memory of any reader.
const IPC_BATCH_BYTES: usize = 8 << 20;
/// Bytes of a column in addition to its values: its arrays in the gathered rows and in the batch,
/// its name, and its position in the encoded form. Measured on 600 rows of 5,001 columns: the peak
/// memory of a conversion exceeds the values by 1.5 KiB per column.
const IPC_COLUMN_BYTES: usize = 4 << 10;
/// Maximum number of rows of a record batch, as in other writers.
const IPC_BATCH_ROWS: usize = 65_536;
/// Rows after which the writer checks the size of the batch.
const IPC_SLICE_ROWS: usize = 4096;
/// Every buffer starts at a multiple of this number of bytes, so that vector instructions can use a
/// mapped file in place.
const ALIGNMENT: usize = 64;

/// Writes an uncompressed file, because such a file can be read from any row and used in place.
struct IpcWriter {
    writer: FileWriter<AtomicFile>,
    /// Rows that do not fill a batch yet.
    buffered_batches: Vec<RecordBatch>,
    buffered_row_count: usize,
    buffered_bytes: usize,
    /// Number of rows that fill [`IPC_BATCH_BYTES`], provided that no text is long.
    max_rows: usize,
}

pub(crate) fn create(path: &Path, columns: &[OutputColumn]) -> Result<Box<dyn Sink>> {
    let row_bytes: usize = columns.iter().map(|column| value_bytes(column.kind)).sum();
    let max_rows = (IPC_BATCH_BYTES / row_bytes.max(1)).clamp(1, IPC_BATCH_ROWS);
    let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5);
    let open_writer = |file, schema: &Arc<Schema>| {
        let writer = FileWriter::try_new_with_options(file, schema, options?)?;
        Ok(IpcWriter { writer, buffered_batches: Vec::new(), buffered_row_count: 0, buffered_bytes: 0, max_rows })
    };
    // three copies: the gathered rows, the batch built from them, and its encoded form
    BatchSink::create(
        path,
        columns,
        columns,
        3 * IPC_BATCH_BYTES.max(row_bytes) + columns.len() * IPC_COLUMN_BYTES,
        open_writer,
    )
}

impl IpcWriter {
    fn flush(&mut self) -> Result<(), ArrowError> {
        let batches = std::mem::take(&mut self.buffered_batches);
        (self.buffered_row_count, self.buffered_bytes) = (0, 0);
        let Some(first) = batches.first() else { return Ok(()) };
        self.writer.write(&concat_batches(first.schema_ref(), &batches)?)
    }
}

impl BatchWriter for IpcWriter {
    type Error = ArrowError;

    fn next_slice_rows(&self) -> usize {
        (self.max_rows - self.buffered_row_count.min(self.max_rows - 1)).min(IPC_SLICE_ROWS)
    }

    fn write_batch(&mut self, batch: RecordBatch) -> Result<(), ArrowError> {
        self.buffered_bytes += batch.get_array_memory_size();
        self.buffered_row_count += batch.num_rows();
        self.buffered_batches.push(batch);
        if self.buffered_row_count >= self.max_rows || self.buffered_bytes >= IPC_BATCH_BYTES {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn into_file(mut self) -> Result<AtomicFile, ArrowError> {
        self.flush()?;
        self.writer.into_inner()
    }
}

/// Returns the bytes of a value. For texts and sparse rows it is an estimate, which only determines
/// the number of rows of a batch.
fn value_bytes(kind: OutputKind) -> usize {
    if kind.is_variable_size() { 16 } else { kind.bytes_per_value() }
}
