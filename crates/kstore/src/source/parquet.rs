//! Apache Parquet, through the Arrow project's reader.
//!
//! The footer is parsed once; a cursor then reads only the row groups that overlap its rows and, inside them, only the
//! pages of its columns. The Arrow schema that some writers embed is ignored: dictionaries, views and large strings
//! then arrive as what Parquet stores, plain numbers and plain text.

use super::guard::guarded;
use super::positioned::Positioned;
use super::{FileCursor, TableFile, Values, View};
use crate::schema::{Column, Kind, Schema};
use crate::{Error, Result};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes as types;
use arrow::datatypes::DataType;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
    RowSelector,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader, Length};
use std::collections::HashMap;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

/// Most rows decoded at once: long enough to amortise the per-batch work of the decoder, short enough that a batch of
/// 32 columns stays in the second-level cache.
const BATCH_ROWS: usize = 4096;
/// Most bytes decoded at once, which makes batches of wide tables shorter.
const BATCH_BYTES: usize = 4 << 20;
/// Page headers are about 30 to 100 bytes, so this reads one at once and little of the page behind it.
const HEADER_BYTES: usize = 256;

impl Length for Positioned {
    fn len(&self) -> u64 {
        self.length()
    }
}

impl ChunkReader for Positioned {
    type T = BufReader<From>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::with_capacity(HEADER_BYTES, From { file: self.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // a damaged length must not become an allocation
        if start.checked_add(length as u64).is_none_or(|end| end > self.length()) {
            return Err(ParquetError::EOF(format!(
                "expected {length} bytes at {start}, the file ends at {}",
                self.length()
            )));
        }
        let mut buffer = vec![0; length];
        let got = self.read_at(&mut buffer, start)?;
        if got < length {
            return Err(ParquetError::EOF(format!("expected {length} bytes at {start}, found {got}")));
        }
        Ok(buffer.into())
    }
}

/// The rest of a file.
#[derive(Debug)]
pub struct From {
    file: Positioned,
    at: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read_at(buffer, self.at)?;
        self.at += got as u64;
        Ok(got)
    }
}

/// An open Parquet file.
#[derive(Debug)]
pub struct ParquetFile {
    path: PathBuf,
    file: Positioned,
    metadata: ArrowReaderMetadata,
    schema: Schema,
    rows: u64,
    /// Decoder footprints that were asked for, by leaf column.
    footprints: Mutex<HashMap<usize, usize>>,
}

impl ParquetFile {
    /// Opens a file and reads its footer.
    pub fn open(path: &Path) -> Result<Self> {
        let file = Positioned::open(path).map_err(Error::io("read", path))?;
        check_ends(path, &file)?;
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = guarded(|| ArrowReaderMetadata::load(&file, options)).map_err(|panic| damaged(path, &panic))?;
        let metadata = metadata.map_err(|error| malformed(path, error))?;
        let mut rows = 0u64;
        for group in metadata.metadata().row_groups() {
            let more = u64::try_from(group.num_rows()).ok().and_then(|more| rows.checked_add(more));
            rows = more.ok_or_else(|| damaged(path, "a row group with an impossible number of rows"))?;
        }
        let columns = metadata.schema().fields().iter();
        let columns = columns.map(|field| Column { name: field.name().clone(), kind: kind(field.data_type()) });
        let schema = Schema { columns: columns.collect() };
        Ok(Self { path: path.to_path_buf(), schema, file, metadata, rows, footprints: Mutex::default() })
    }

    /// Columns as the projection wants them: places of the leaves below the top-level columns.
    fn mask(&self, columns: &[usize]) -> ProjectionMask {
        ProjectionMask::roots(self.metadata.parquet_schema(), columns.iter().copied())
    }

    /// Bytes the decoder of a leaf column holds in the row group where its chunk is largest. Row groups of a file come
    /// from one writer, which cuts pages alike.
    fn leaf_footprint(&self, leaf: usize) -> usize {
        let mut known = self.footprints.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(leaf).or_insert_with(|| {
            let groups = self.metadata.metadata().row_groups().iter();
            let largest = groups.max_by_key(|group| group.column(leaf).uncompressed_size());
            let walk = |group| guarded(|| super::pages::footprint(&self.file, group, leaf));
            // damage is told when the rows are read
            largest.map_or(0, |group| walk(group).unwrap_or(0))
        })
    }
}

/// Tells a file that was never Parquet from one that was cut off, before the decoder says "corrupt footer" to both.
fn check_ends(path: &Path, file: &Positioned) -> Result<()> {
    const MAGIC: &[u8; 4] = b"PAR1";
    let (mut start, mut end) = ([0; 4], [0; 4]);
    file.read_at(&mut start, 0).map_err(Error::io("read", path))?;
    file.read_at(&mut end, file.length().saturating_sub(4)).map_err(Error::io("read", path))?;
    match (&start == MAGIC, &end == MAGIC) {
        // encrypted files start and end differently; the decoder tells them
        (_, true) => Ok(()),
        (true, false) => Err(damaged(path, "it is truncated: its footer is missing; copy or write it again")),
        (false, false) if &start == b"PARE" => Ok(()),
        (false, false) => Err(damaged(path, "it is no Parquet file: it does not start with PAR1")),
    }
}

impl TableFile for ParquetFile {
    fn format(&self) -> &'static str {
        "Parquet"
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn bytes(&self) -> u64 {
        self.file.length()
    }

    /// The decoder holds, for each column, a page, the dictionary, and the batch (with its successor while one is
    /// replaced by the next); all columns are open at the same time.
    fn footprint(&self, columns: &[usize]) -> usize {
        let mask = self.mask(columns);
        let leaves = 0..self.metadata.parquet_schema().num_columns();
        let pages = leaves.filter(|leaf| mask.leaf_included(*leaf)).map(|leaf| self.leaf_footprint(leaf));
        let batch = batch_rows(columns.len()) * columns.len() * 8;
        pages.fold(2 * batch, usize::saturating_add)
    }

    fn open<'a>(
        &'a self,
        columns: &[usize],
        rows: Range<u64>,
        read: &Arc<AtomicU64>,
    ) -> Result<Box<dyn FileCursor + 'a>> {
        let (groups, selection) = overlap(self.metadata.metadata().row_groups(), &rows);
        let file = self.file.counting(read);
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_batch_size(batch_rows(columns.len()))
            .with_row_groups(groups)
            .with_row_selection(selection)
            .with_projection(self.mask(columns));
        let reader = guarded(|| builder.build()).map_err(|panic| damaged(&self.path, &panic))?;
        let reader = reader.map_err(|error| malformed(&self.path, error))?;
        let mut sorted = columns.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        // the reader gives columns in the order of the file
        let places = columns.iter().map(|column| sorted.partition_point(|c| c < column)).collect();
        Ok(Box::new(ParquetCursor { path: &self.path, reader, places, left: rows.end - rows.start, batch: None }))
    }
}

fn batch_rows(columns: usize) -> usize {
    (BATCH_BYTES / (8 * columns.max(1))).clamp(64, BATCH_ROWS)
}

/// The row groups that overlap `rows`, and which of their rows are meant.
fn overlap(groups: &[RowGroupMetaData], rows: &Range<u64>) -> (Vec<usize>, RowSelection) {
    let (mut chosen, mut start, mut first) = (Vec::new(), 0, 0);
    for (index, group) in groups.iter().enumerate() {
        let end = start + group.num_rows() as u64;
        if start < rows.end && end > rows.start {
            if chosen.is_empty() {
                first = start;
            }
            chosen.push(index);
        }
        start = end;
    }
    let skip = rows.start.saturating_sub(first) as usize;
    let take = (rows.end - rows.start) as usize;
    (chosen, vec![RowSelector::skip(skip), RowSelector::select(take)].into())
}

struct ParquetCursor<'a> {
    path: &'a Path,
    reader: ParquetRecordBatchReader,
    places: Vec<usize>,
    /// Rows still to come.
    left: u64,
    batch: Option<RecordBatch>,
}

impl FileCursor for ParquetCursor<'_> {
    fn advance(&mut self) -> Result<usize> {
        self.batch = None;
        let batch = guarded(|| self.reader.next()).map_err(|panic| damaged(self.path, &panic))?;
        let Some(batch) = batch else {
            if self.left > 0 {
                return Err(damaged(self.path, &format!("{} rows fewer than its footer promises", self.left)));
            }
            return Ok(0);
        };
        let batch = batch.map_err(|error| damaged(self.path, &error.to_string()))?;
        let rows = batch.num_rows();
        self.left = self
            .left
            .checked_sub(rows as u64)
            .ok_or_else(|| damaged(self.path, "more rows than its footer promises"))?;
        self.batch = Some(batch);
        Ok(rows)
    }

    fn view(&self, index: usize) -> Result<View<'_>> {
        let array = self.batch.as_ref().and_then(|batch| batch.columns().get(self.places[index]));
        let Some(array) = array else { return Err(damaged(self.path, "a column is missing")) };
        view(array).ok_or_else(|| damaged(self.path, &format!("a column of type {}", array.data_type())))
    }
}

/// The kind of an Arrow column.
fn kind(data_type: &DataType) -> Kind {
    let int = |bits, signed| Kind::Int { bits, signed };
    match data_type {
        DataType::Float16 => Kind::Float { bits: 16 },
        DataType::Float32 => Kind::Float { bits: 32 },
        DataType::Float64 => Kind::Float { bits: 64 },
        DataType::Int8 => int(8, true),
        DataType::Int16 => int(16, true),
        DataType::Int32 => int(32, true),
        DataType::Int64 => int(64, true),
        DataType::UInt8 => int(8, false),
        DataType::UInt16 => int(16, false),
        DataType::UInt32 => int(32, false),
        DataType::UInt64 => int(64, false),
        DataType::Boolean => Kind::Bool,
        DataType::Utf8 | DataType::LargeUtf8 => Kind::Text,
        other => Kind::Other(other.to_string()),
    }
}

/// An Arrow column as typed values; `None` for a kind that is not read.
pub(super) fn view(array: &dyn Array) -> Option<View<'_>> {
    let values = match array.data_type() {
        DataType::Float16 => Values::F16(array.as_primitive()),
        DataType::Float32 => Values::F32(array.as_primitive::<types::Float32Type>().values()),
        DataType::Float64 => Values::F64(array.as_primitive::<types::Float64Type>().values()),
        DataType::Int8 => Values::I8(array.as_primitive::<types::Int8Type>().values()),
        DataType::Int16 => Values::I16(array.as_primitive::<types::Int16Type>().values()),
        DataType::Int32 => Values::I32(array.as_primitive::<types::Int32Type>().values()),
        DataType::Int64 => Values::I64(array.as_primitive::<types::Int64Type>().values()),
        DataType::UInt8 => Values::U8(array.as_primitive::<types::UInt8Type>().values()),
        DataType::UInt16 => Values::U16(array.as_primitive::<types::UInt16Type>().values()),
        DataType::UInt32 => Values::U32(array.as_primitive::<types::UInt32Type>().values()),
        DataType::UInt64 => Values::U64(array.as_primitive::<types::UInt64Type>().values()),
        DataType::Boolean => Values::Bool(array.as_boolean()),
        DataType::Utf8 => Values::Text(array.as_string()),
        DataType::LargeUtf8 => Values::LargeText(array.as_string()),
        _ => return None,
    };
    Some(View { values, nulls: array.nulls().filter(|nulls| nulls.null_count() > 0) })
}

fn damaged(path: &Path, detail: &str) -> Error {
    Error::Malformed { path: path.to_path_buf(), format: "Parquet", detail: detail.to_string() }
}

/// Tells the operating system's errors from damage.
fn malformed(path: &Path, error: ParquetError) -> Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => Error::io("read", path)(*source),
            Err(source) => damaged(path, &source.to_string()),
        },
        ParquetError::General(detail) | ParquetError::EOF(detail) => damaged(path, &detail),
        other => damaged(path, &other.to_string()),
    }
}
