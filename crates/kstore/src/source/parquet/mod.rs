//! Apache Parquet, through the Arrow project's reader.
//!
//! The footer is parsed once. A cursor then reads only the row groups that overlap its rows and,
//! within them, only the pages of its columns. Some writers embed the Arrow schema of the table.
//! Only its dates and times are used, because Parquet lacks some of these types. Dictionaries and
//! large strings are read as Parquet stores them. Texts are views of the pages and dictionaries
//! that contain them, so a text that occurs in every row is in memory only once.

mod checked_pages;
mod chunks;
mod pages;
mod pruning;
mod thrift;

use super::column::{self, Layout, LoadedColumns};
use super::sparse_entries::{self, LOADED_ENTRY_BYTES};
use super::{BoxedCursor, ColumnView, FileCursor, FileMetadata, Format, TableFile, data_type};
use super::{load_error::catch_panic, shared_file::SharedFile};
use crate::arrow::datatypes::{DataType, Schema as ArrowSchema, TimeUnit};
use crate::schema::{Kind, SPARSE_KEY};
use crate::{Error, Result, condition::BoundCondition, sparse::SparseShape};
use checked_pages::CheckedRowGroups;
use chunks::{PageSource, RowGroupCache};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, RowGroups, RowSelection, RowSelector,
};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::{Compression, Type as PhysicalType};
use parquet::{errors::ParquetError, file::metadata::RowGroupMetaData};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{collections::HashMap, ops::Range};

pub(super) const FORMAT: Format = Format::new(&["parquet", "pq"], |path, file, _| {
    Ok(Arc::new(ParquetFile::new(SharedFile::local(path, NAME, file).map_err(Error::io("read", path))?)?))
})
.magic(MAGIC)
.remote(|path, object| Ok(Arc::new(ParquetFile::new(SharedFile::remote(path, NAME, object))?)))
.writable(|_| true, crate::writer::parquet::create);

const NAME: &str = "Parquet";

const MAGIC: &[u8] = b"PAR1";

/// Maximum number of rows decoded at once. It is large enough to amortise the decoder's work per
/// batch, and small enough that a batch of 32 columns stays in the L2 cache.
const DECODED_BATCH_ROWS: usize = 4096;
/// Maximum bytes decoded at once, which makes batches of wide tables shorter.
const DECODED_BATCH_BYTES: usize = 4 << 20;
/// Number of rows decoded at once if the length of their lists or texts is unknown.
const SCAN_ROWS: usize = 256;

#[derive(Debug)]
struct ParquetFile {
    file: SharedFile,
    metadata: ArrowReaderMetadata,
    layout: Layout,
    row_count: u64,
    scanned_bytes: u64,
    /// For a remote file, the row groups that cursors hold, and the last row group that was read.
    row_group_cache: Arc<RowGroupCache>,
    decoder_bytes: Mutex<HashMap<usize, pages::DecoderBytes>>,
}

impl ParquetFile {
    fn new(file: SharedFile) -> Result<Self> {
        check_magic_bytes(&file)?;
        thrift::check_depth(&file)?;
        let metadata = file.catch_panic(|| read_metadata(&file))?.map_err(|error| convert_error(&file, error))?;
        let mut row_count = 0u64;
        for group in metadata.metadata().row_groups() {
            let total_rows =
                u64::try_from(group.num_rows()).ok().and_then(|group_rows| row_count.checked_add(group_rows));
            row_count = total_rows.ok_or_else(|| file.malformed_error("a row group with an invalid number of rows"))?;
        }
        let key_value_pairs = || metadata.metadata().file_metadata().key_value_metadata().into_iter().flatten();
        let metadata_value =
            |key: &str| key_value_pairs().filter(|pair| pair.key == key).find_map(|pair| pair.value.as_deref());
        let list_length = |root: usize| first_list_length(&file, &metadata, root);
        let scanned_counter = Arc::default();
        let measure_shape = |root: usize| sparse_shape(&file.with_counter(&scanned_counter), &metadata, root);
        let layout =
            Layout::new(metadata.schema().fields(), list_length)?.with_pandas_index(metadata_value(column::PANDAS_KEY));
        let layout =
            layout.with_sparse_shapes(metadata.schema().fields(), metadata_value(SPARSE_KEY), measure_shape)?;
        let scanned_bytes = scanned_counter.load(Ordering::Relaxed);
        let (row_group_cache, decoder_bytes) = (Arc::default(), Mutex::default());
        Ok(Self { layout, file, metadata, row_count, scanned_bytes, row_group_cache, decoder_bytes })
    }

    /// Returns the projection to these top-level columns, which consists of all leaves below them.
    fn projection(&self, roots: &[usize]) -> ProjectionMask {
        ProjectionMask::roots(self.metadata.parquet_schema(), roots.iter().copied())
    }

    fn leaf_decoder_bytes(&self, leaf: usize) -> pages::DecoderBytes {
        let mut cache = self.decoder_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        *cache.entry(leaf).or_insert_with(|| {
            let groups = self.metadata.metadata().row_groups();
            // damage is reported when the rows are read
            catch_panic(|| pages::decoder_bytes(&self.file, groups, leaf)).unwrap_or_default()
        })
    }

    /// Returns the number of rows of a batch of these columns, and the bytes of their decoders.
    fn batch_rows_and_bytes(&self, columns: &[usize]) -> (usize, usize) {
        let mask = self.projection(&self.layout.roots(columns));
        let chunk_bytes =
            self.file.as_remote().map_or(0, |_| chunks::cached_bytes(self.metadata.metadata().row_groups(), &mask));
        let leaves = 0..self.metadata.parquet_schema().num_columns();
        let leaves = leaves.filter(|leaf| mask.leaf_included(*leaf)).map(|leaf| self.leaf_decoder_bytes(leaf));
        let (fixed_bytes, row_bytes) = leaves.fold((0usize, 0usize), |(fixed, per_row), leaf| {
            (fixed.saturating_add(leaf.fixed_bytes), per_row.saturating_add(leaf.row_bytes))
        });
        let shapes = columns.iter().filter_map(|column| self.layout.schema.sparse_shape(*column));
        let entry_bytes = shapes.fold(0usize, |bytes, shape| {
            bytes.saturating_add(shape.max_row_entries.saturating_mul(LOADED_ENTRY_BYTES))
        });
        let row_bytes = row_bytes.saturating_add(entry_bytes);
        let max_rows = max_batch_rows(columns.len());
        let rows = max_rows.min(DECODED_BATCH_BYTES / row_bytes.max(1)).max(1);
        // two batches of 8-byte values are in memory while one replaces the other
        let decoder_bytes =
            fixed_bytes.saturating_add(rows.saturating_mul(row_bytes)).saturating_add(2 * rows * columns.len() * 8);
        (rows, decoder_bytes.saturating_add(chunk_bytes))
    }
}

/// Reads the footer, and determines the types in which the columns are read.
fn read_metadata(file: &SharedFile) -> Result<ArrowReaderMetadata, ParquetError> {
    let stored_metadata = ArrowReaderMetadata::load(
        &PageSource::single_pages(file),
        ArrowReaderOptions::new().with_skip_arrow_metadata(true),
    )?;
    let footer = || Arc::clone(stored_metadata.metadata());
    // an embedded schema that is damaged, or that differs from the stored types, is ignored
    let embedded_metadata = ArrowReaderMetadata::try_new(footer(), ArrowReaderOptions::new()).ok();
    let key_value_pairs = stored_metadata.metadata().file_metadata().key_value_metadata().into_iter().flatten();
    let has_arrow_schema =
        embedded_metadata.is_some() && key_value_pairs.map(|pair| &pair.key).any(|key| key == ARROW_SCHEMA_META_KEY);
    let leaves = stored_metadata.parquet_schema();
    let is_int96 = |root: usize| {
        let mut leaves_of_root = (0..leaves.num_columns()).filter(|leaf| leaves.get_column_root_idx(*leaf) == root);
        !has_arrow_schema && leaves_of_root.any(|leaf| leaves.column(leaf).physical_type() == PhysicalType::INT96)
    };
    let fields = stored_metadata.schema().fields().iter().enumerate().map(|(i, field)| {
        let embedded_type = embedded_metadata
            .as_ref()
            .and_then(|metadata| metadata.schema().fields().get(i))
            .map(|field| field.data_type());
        let read_as = match (field.data_type(), embedded_type) {
            (DataType::Utf8, _) => DataType::Utf8View,
            (DataType::Binary, _) => DataType::BinaryView,
            (stored, _) if is_int96(i) => int96_type(stored),
            (_, Some(time_type)) if matches!(data_type::column_kind(time_type), Kind::Time(_)) => time_type.clone(),
            (stored, _) => stored.clone(),
        };
        field.as_ref().clone().with_data_type(read_as)
    });
    let schema = Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()));
    ArrowReaderMetadata::try_new(footer(), ArrowReaderOptions::new().with_schema(schema))
}

/// Returns the type in which INT96 is read if the writer states no type: times in microseconds,
/// which hold every date that Spark, Hive and Impala write. In nanoseconds, the decoder's default,
/// dates after 2262 would wrap around.
fn int96_type(stored_type: &DataType) -> DataType {
    match stored_type {
        DataType::Timestamp(TimeUnit::Nanosecond, None) => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::List(item) => {
            let read_as = int96_type(item.data_type());
            DataType::List(Arc::new(item.as_ref().clone().with_data_type(read_as)))
        }
        other => other.clone(),
    }
}

/// Reads a column of a file that is being opened, in batches of `batch_rows` rows.
fn scan_column<R>(
    file: &SharedFile,
    metadata: &ArrowReaderMetadata,
    root: usize,
    batch_rows: usize,
    read_batches: impl FnOnce(ParquetRecordBatchReader) -> Result<R>,
) -> Result<R> {
    let mask = ProjectionMask::roots(metadata.parquet_schema(), [root]);
    check_codecs(file, metadata, &mask)?;
    file.catch_panic(|| {
        let groups = (0..metadata.metadata().num_row_groups()).collect();
        let reader = batch_reader(PageSource::single_pages(file), metadata, groups, mask, batch_rows, None);
        read_batches(reader.map_err(|error| convert_error(file, error))?)
    })?
}

fn batch_reader(
    source: PageSource,
    metadata: &ArrowReaderMetadata,
    groups: Vec<usize>,
    mask: ProjectionMask,
    batch_rows: usize,
    selection: Option<RowSelection>,
) -> Result<ParquetRecordBatchReader, ParquetError> {
    let source = Arc::new(source.with_page_limit(pages::max_page_limit(metadata.metadata().row_groups(), &mask)));
    let levels = parquet_to_arrow_field_levels(metadata.parquet_schema(), mask, Some(metadata.schema().fields()))?;
    let groups = CheckedRowGroups { source, metadata: Arc::clone(metadata.metadata()), row_groups: groups };
    ParquetRecordBatchReader::try_new_with_row_groups(&levels, &groups, batch_rows.min(groups.num_rows()), selection)
}

/// Returns the length of the list in the first row; `None` if this list is missing or empty. A
/// column of lists of numbers becomes this number of columns, because Parquet has no type for lists
/// of a fixed length.
fn first_list_length(file: &SharedFile, metadata: &ArrowReaderMetadata, root: usize) -> Result<Option<usize>> {
    let batch = scan_column(file, metadata, root, 1, |mut reader| {
        reader.next().transpose().map_err(|error| decoder_error(file, &error))
    })?;
    Ok(batch.and_then(|batch| column::list_length(batch.columns().first()?, 0)).filter(|length| *length > 0))
}

fn sparse_shape(file: &SharedFile, metadata: &ArrowReaderMetadata, root: usize) -> Result<SparseShape> {
    scan_column(file, metadata, root, SCAN_ROWS, |reader| {
        let mut shape = SparseShape::default();
        for batch in reader {
            for array in batch.map_err(|error| decoder_error(file, &error))?.columns() {
                sparse_entries::extend_shape(array.as_ref(), &mut shape)
                    .map_err(|error| error.into_error(file.path(), NAME))?;
            }
        }
        Ok(shape)
    })
}

/// Rejects a compression that this build does not include. Otherwise the decoder would report a
/// disabled feature.
fn check_codecs(file: &SharedFile, metadata: &ArrowReaderMetadata, mask: &ProjectionMask) -> Result<()> {
    for group in metadata.metadata().row_groups() {
        for (_, column) in group.columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf)) {
            let codec = match column.compression() {
                Compression::BROTLI(_) => Some("brotli"),
                Compression::LZO => Some("lzo"),
                _ => None,
            };
            if let Some(codec) = codec {
                let name = column.column_path().string();
                let detail = format!(
                    "column {name:?} is compressed with {codec}, which is not built in; write it with zstd, snappy, \
                     lz4, gzip or uncompressed"
                );
                return Err(file.malformed_error(detail));
            }
        }
    }
    Ok(())
}

/// Checks both ends of a file, to distinguish a file that is not Parquet from a truncated file. The
/// decoder would report "corrupt footer" for both.
fn check_magic_bytes(file: &SharedFile) -> Result<()> {
    let (mut start, mut end) = ([0; 4], [0; 4]);
    let result = file.read_at(&mut start, 0).and_then(|_| file.read_at(&mut end, file.length().saturating_sub(4)));
    result.map_err(|error| file.read_error(error))?;
    match (start == MAGIC, end == MAGIC) {
        (_, true) => Ok(()),
        (true, false) => Err(file.malformed_error("it is truncated: its footer is missing; copy or write it again")),
        // encrypted files start and end with other magic bytes, which the decoder recognises
        (false, false) if &start == b"PARE" => Ok(()),
        (false, false) => Err(file.malformed_error("it is not a Parquet file: it does not start with PAR1")),
    }
}

impl TableFile for ParquetFile {
    fn metadata(&self) -> FileMetadata<'_> {
        let (schema, row_count, scanned_bytes) = (&self.layout.schema, self.row_count, self.scanned_bytes);
        FileMetadata { format: NAME, schema, row_count, file_bytes: self.file.length(), bytes_scanned: scanned_bytes }
    }

    /// Returns true if the type or the statistics of a column state that all its values are null.
    fn is_all_missing(&self, column: usize) -> bool {
        let Some(root) = self.layout.scalar_root(column) else { return false };
        if *self.metadata.schema().field(root).data_type() == DataType::Null {
            return true;
        }
        let leaves = self.metadata.parquet_schema();
        let leaf = (0..leaves.num_columns()).find(|leaf| leaves.get_column_root_idx(*leaf) == root);
        let null_count = |group: &RowGroupMetaData| group.column(leaf?).statistics()?.null_count_opt();
        let groups = self.metadata.metadata().row_groups();
        groups.iter().all(|group| null_count(group) == u64::try_from(group.num_rows()).ok())
    }

    fn resident_bytes(&self) -> usize {
        let columns = self.layout.schema.columns.len();
        super::format::OPEN_FILE_BYTES
            + columns * super::format::OPEN_COLUMN_BYTES
            + self.metadata.metadata().memory_size()
    }

    /// Bytes of a page, the dictionary and the batch of each column. All columns are open at the
    /// same time. While a batch is replaced by the next batch, both are in memory, and a batch of
    /// texts includes its pages.
    fn cursor_bytes(&self, columns: &[usize]) -> usize {
        self.batch_rows_and_bytes(columns).1
    }

    fn candidate_rows(&self, column: usize, condition: &BoundCondition) -> Vec<Range<u64>> {
        let may_match = catch_panic(|| pruning::may_match(&self.metadata, self.layout.scalar_root(column), condition));
        let groups = self.metadata.metadata().row_groups();
        // statistics that cannot be read exclude nothing
        let may_match = may_match.ok().flatten().unwrap_or_else(|| vec![true; groups.len()]);
        pruning::kept_ranges(groups, &may_match)
    }

    fn open(&self, columns: &[usize], rows: Range<u64>, bytes_read: &Arc<AtomicU64>) -> Result<BoxedCursor<'_>> {
        let chunk = LoadedColumns::new(&self.layout, columns);
        let mask = self.projection(&chunk.roots);
        check_codecs(&self.file, &self.metadata, &mask)?;
        let (groups, selection) = overlapping_groups(self.metadata.metadata().row_groups(), &rows);
        let file = PageSource::column_chunks(
            self.file.with_counter(bytes_read),
            self.metadata.metadata().row_groups(),
            &mask,
            &self.row_group_cache,
        );
        let batch_rows = self.batch_rows_and_bytes(columns).0;
        let build = || batch_reader(file, &self.metadata, groups, mask, batch_rows, selection);
        let reader = self.file.catch_panic(build)?.map_err(|error| convert_error(&self.file, error))?;
        // the reader returns columns in the order of the file
        Ok(Box::new(ParquetCursor { parquet: self, reader, chunk, remaining_rows: rows }))
    }
}

fn max_batch_rows(columns: usize) -> usize {
    (DECODED_BATCH_BYTES / (8 * columns.max(1))).clamp(64, DECODED_BATCH_ROWS)
}

/// Returns the row groups that overlap `rows`, and the selection of `rows` among their rows. The
/// selection is `None` if all rows are selected, because reading without a selection is faster.
fn overlapping_groups(groups: &[RowGroupMetaData], rows: &Range<u64>) -> (Vec<usize>, Option<RowSelection>) {
    let (mut selected_groups, mut start, mut first_row, mut end_row) = (Vec::new(), 0, 0, 0);
    for (index, group) in groups.iter().enumerate() {
        let end = start + group.num_rows() as u64;
        if start < rows.end && end > rows.start {
            if selected_groups.is_empty() {
                first_row = start;
            }
            selected_groups.push(index);
            end_row = end;
        }
        start = end;
    }
    let skip = rows.start.saturating_sub(first_row) as usize;
    let row_count = (rows.end - rows.start) as usize;
    let selects_all_rows = first_row == rows.start && end_row == rows.end;
    (selected_groups, (!selects_all_rows).then(|| vec![RowSelector::skip(skip), RowSelector::select(row_count)].into()))
}

struct ParquetCursor<'a> {
    parquet: &'a ParquetFile,
    reader: ParquetRecordBatchReader,
    chunk: LoadedColumns,
    remaining_rows: Range<u64>,
}

impl FileCursor for ParquetCursor<'_> {
    fn advance(&mut self) -> Result<usize> {
        let file = &self.parquet.file;
        // the rows of the previous batch are freed first
        self.chunk.columns.fill_with(|| None);
        let Some(batch) = file.catch_panic(|| self.reader.next())? else {
            let missing_rows = self.remaining_rows.end - self.remaining_rows.start;
            if missing_rows > 0 {
                return Err(file.malformed_error(format!("it has {missing_rows} rows fewer than its footer states")));
            }
            return Ok(0);
        };
        let batch = batch.map_err(|error| decoder_error(file, &error))?;
        let end = self.remaining_rows.start + batch.num_rows() as u64;
        if end > self.remaining_rows.end {
            return Err(file.malformed_error("it has more rows than its footer states"));
        }
        let load = || self.chunk.load_batch(&self.parquet.layout, &batch, self.remaining_rows.start, file.path(), NAME);
        file.catch_panic(load)??;
        self.remaining_rows.start = end;
        Ok(batch.num_rows())
    }

    fn view(&self, index: usize) -> Result<ColumnView<'_>> {
        self.chunk.view(index).ok_or_else(|| {
            let field = self.parquet.metadata.schema().field(self.chunk.roots[self.chunk.locations[index].root]);
            self.parquet
                .file
                .malformed_error(format!("a column of {} is not supported", data_type::column_kind(field.data_type())))
        })
    }
}

/// Returns an error with the decoder's message, without the names of its layers.
fn decoder_error(file: &SharedFile, error: &dyn std::fmt::Display) -> Error {
    const LAYERS: [&str; 6] =
        ["Parquet argument error: ", "Parquet error: ", "External: ", "Arrow: ", "EOF: ", "NYI: "];
    let text = error.to_string();
    let mut detail = &text[..];
    while let Some(inner_message) = LAYERS.iter().find_map(|layer| detail.strip_prefix(layer)) {
        detail = inner_message;
    }
    file.malformed_error(without_debug_output(detail))
}

/// Removes the text in brackets if the message contains Rust debug output of the decoder, such as
/// `TimestampType { unit: MILLIS }`.
fn without_debug_output(text: &str) -> String {
    if !text.contains(" { ") && !text.contains("Some(") {
        return text.to_string();
    }
    let mut depth = 0usize;
    let outside_brackets = text.chars().filter(|letter| {
        match letter {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    });
    outside_brackets.collect()
}

/// Converts an error of the decoder to an error of the operating system, or to an error for a
/// damaged file.
fn convert_error(file: &SharedFile, error: ParquetError) -> Error {
    match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(source) => file.read_error(*source),
            Err(source) => decoder_error(file, &source),
        },
        ParquetError::General(detail) | ParquetError::EOF(detail) => decoder_error(file, &detail),
        other => decoder_error(file, &other),
    }
}

#[cfg(test)]
mod tests {
    use super::without_debug_output;

    #[test]
    fn debug_output_is_removed_from_messages() {
        let text = "Logical type Timestamp(TimestampType { is_adjusted_to_u_t_c: true, unit: MILLIS }) is incompatible \
                    with converted type DATE for field 'x'";
        let plain = "Logical type Timestamp is incompatible with converted type DATE for field 'x'";
        assert_eq!(without_debug_output(text), plain);
        let sizes = "Actual decompressed size doesn't match the expected one (5 vs 7)";
        assert_eq!(without_debug_output(sizes), sizes);
    }
}
