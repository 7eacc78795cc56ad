//! Writing Arrow IPC files.

use super::{Output, OutputColumn, OutputKind, Sink, arrow};
use crate::arrow::array::RecordBatch;
use crate::arrow::datatypes::Schema;
use crate::arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use crate::atomic::AtomicFile;
use crate::{Error, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a record batch: enough that its metadata is nothing beside it, little enough for any reader to hold.
const BATCH_BYTES: usize = 8 << 20;
/// Bytes a column takes beside its values: its arrays in the gathered rows and in the batch, its name, its place in the
/// encoded form. Measured on 600 rows of 5,001 columns: a conversion peaks 1.5 KiB a column above its values.
const COLUMN_BYTES: usize = 4 << 10;
/// Rows of a record batch, as other writers choose them.
const BATCH_ROWS: usize = 65_536;
/// Rows after which the writer looks at the size of the batch.
const SLICE_ROWS: usize = 4096;
/// Buffers start at multiples of it, so that vector instructions can use a mapped file in place.
const ALIGNMENT: usize = 64;

/// An Arrow IPC file being written, uncompressed so that it can be read from any row and used in place.
pub(crate) struct IpcSink {
    /// The writer, until the file is settled.
    writer: Option<FileWriter<AtomicFile>>,
    /// The file, once it is settled.
    file: Option<AtomicFile>,
    path: PathBuf,
    schema: Arc<Schema>,
    columns: Vec<OutputColumn>,
    gathered: Gathered,
}

/// Rows that do not make a batch yet.
struct Gathered {
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl IpcSink {
    pub(crate) fn create(path: &Path, columns: &[OutputColumn]) -> Result<Self> {
        let schema = arrow::schema(columns);
        let file = AtomicFile::create(path)?;
        let options = IpcWriteOptions::try_new(ALIGNMENT, false, crate::arrow::ipc::MetadataVersion::V5);
        let writer = options.and_then(|options| FileWriter::try_new_with_options(file, &schema, options));
        let writer = writer.map_err(|error| super::written::failed(path, error))?;
        let gathered = Gathered { batches: Vec::new(), rows: 0, bytes: 0 };
        let (path, columns) = (path.to_path_buf(), columns.to_vec());
        Ok(Self { writer: Some(writer), file: None, path, schema, columns, gathered })
    }

    /// Number of rows that take [`BATCH_BYTES`] where no text is long.
    fn batch_rows(&self) -> usize {
        let row: usize = self.columns.iter().map(|column| width(column.kind)).sum();
        (BATCH_BYTES / row.max(1)).clamp(1, BATCH_ROWS)
    }

    fn flush(&mut self) -> Result<()> {
        let gathered = std::mem::replace(&mut self.gathered, Gathered { batches: Vec::new(), rows: 0, bytes: 0 });
        if gathered.batches.is_empty() {
            return Ok(());
        }
        let Some(writer) = &mut self.writer else {
            return Err(Error::io("write", &self.path)(io::Error::other("the file is closed")));
        };
        let batch = crate::arrow::compute::concat_batches(&self.schema, &gathered.batches);
        batch.and_then(|batch| writer.write(&batch)).map_err(|error| super::written::failed(&self.path, error))
    }
}

impl Sink for IpcSink {
    fn write(&mut self, batch: &[Output<'_>]) -> Result<()> {
        let rows = super::written::batch_rows(&self.columns, batch);
        let most = self.batch_rows();
        let mut start = 0;
        while start < rows {
            let room = most - self.gathered.rows.min(most - 1);
            let end = rows.min(start + room.min(SLICE_ROWS));
            let part = arrow::batch(&self.schema, batch, start, end);
            let part = part.map_err(|error| super::written::failed(&self.path, error))?;
            self.gathered.bytes += part.get_array_memory_size();
            self.gathered.rows += end - start;
            self.gathered.batches.push(part);
            if self.gathered.rows >= most || self.gathered.bytes >= BATCH_BYTES {
                self.flush()?;
            }
            start = end;
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        self.flush()?;
        if let Some(mut writer) = self.writer.take() {
            writer.finish().map_err(|error| super::written::failed(&self.path, error))?;
            let mut file = writer.into_inner().map_err(|error| super::written::failed(&self.path, error))?;
            file.settle()?;
            self.file = Some(file);
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.settle()?;
        self.file.map_or(Ok(()), AtomicFile::commit)
    }

    /// Bytes of the gathered rows, the batch made of them, and its encoded form.
    fn footprint(&self) -> usize {
        let row: usize = self.columns.iter().map(|column| width(column.kind)).sum();
        3 * BATCH_BYTES.max(row) + self.columns.len() * COLUMN_BYTES
    }
}

/// Bytes of a value; of text and sparse rows, a guess that only sets the number of rows.
fn width(kind: OutputKind) -> usize {
    match kind {
        OutputKind::Bool => 1,
        OutputKind::F32 => 4,
        OutputKind::F64 | OutputKind::I64 => 8,
        OutputKind::Text | OutputKind::Binary | OutputKind::Sparse(_) => 16,
    }
}
