//! Arrow IPC files, also called Feather version 2.
//!
//! The footer states the positions of the record batches. A cursor reads the bytes of the requested
//! columns, for the next rows, into its own buffers, which are aligned so that numbers are used in
//! place. Compared with mapping the file, this has three advantages. The memory is a few hundred
//! kilobytes, however long a batch is. No mapped pages count as resident memory. If the file
//! shrinks during reading, the result is an error instead of SIGBUS. Compressed buffers (lz4, zstd)
//! can only be unpacked as a whole. A cursor over a compressed file therefore holds the requested
//! columns of one batch. For the use of a column without copying it, see [`IpcFile::map`].

mod cursor;
mod mapped_file;
mod message;
mod reader;
mod stored_buffer;

pub use mapped_file::MappedIpc;

use self::message::{Batch, Block, RootColumn, read_exact};
use self::{
    cursor::IpcCursor,
    stored_buffer::{MemoryCost, memory_cost},
};
use super::column::{self, Layout, list_element_type};
use super::load_error::{LoadError, catch_panic};
use super::shared_file::{SharedFile, chunk_bytes};
use super::{BoxedCursor, FileMetadata, Format, TableFile, data_type::element_type, unsupported};
use crate::arrow::array::ArrayRef;
use crate::arrow::datatypes::DataType;
use crate::arrow::ipc::convert::try_fb_to_schema;
use crate::arrow::ipc::{Endianness, Footer, root_as_footer};
use crate::schema::SPARSE_KEY;
use crate::{Error, Result};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{collections::HashMap, ops::Range};

const MAGIC: &[u8] = b"ARROW1";

pub(super) const FORMAT: Format =
    Format::new(&["arrow", "ipc", "feather"], |path, file, _| Ok(Arc::new(IpcFile::from_file(path, file)?)))
        .magic(MAGIC)
        .writable(|_| true, crate::writer::ipc::create);

const NAME: &str = "Arrow IPC";

/// Bytes planned for a text value in addition to its text: its view and its offset.
const TEXT_BYTES: usize = 32;
/// Maximum bytes of text that a column may have in a chunk. If a chunk has a single row, its texts
/// may exceed this limit.
const CHUNK_TEXT_BYTES: u64 = 512 << 10;

/// An open Arrow IPC file.
#[derive(Debug)]
pub struct IpcFile {
    file: SharedFile,
    roots: Vec<RootColumn>,
    layout: Layout,
    batches: Vec<Block>,
    batch_starts: Vec<u64>,
    scanned_bytes: u64,
    dictionaries: Vec<Block>,
    cached_dictionaries: Mutex<HashMap<i64, ArrayRef>>,
    /// The memory of each column in addition to its chunk. It is computed when it is first
    /// requested.
    root_costs: Mutex<HashMap<usize, MemoryCost>>,
}

impl IpcFile {
    /// Opens a file, and reads its footer and the lengths of its batches.
    ///
    /// # Errors
    /// The file cannot be opened; the errors of [`IpcFile::from_file`].
    pub fn open(path: &Path) -> Result<Self> {
        Self::from_file(path, std::fs::File::open(path).map_err(Error::io("read", path))?)
    }

    /// Reads the footer of an open file and the lengths of its batches; the path is for messages.
    ///
    /// # Errors
    /// The file cannot be read; the file is damaged or big-endian, or has a column of an unknown
    /// type.
    pub fn from_file(path: &Path, file: std::fs::File) -> Result<Self> {
        let file = SharedFile::local(path, NAME, file).map_err(Error::io("read", path))?;
        let footer = read_footer(&file)?;
        file.catch_panic(|| Self::parse(file.clone(), &footer))?.map_err(|error| error.into_error(path, NAME))
    }

    fn parse(file: SharedFile, footer: &[u8]) -> Result<Self, LoadError> {
        let footer = root_as_footer(footer)
            .map_err(|_| "its footer is damaged, or its columns are nested more than 60 levels deep".to_string())?;
        let schema_table = footer.schema().ok_or_else(|| "its footer names no columns".to_string())?;
        if schema_table.endianness() == Endianness::Big || cfg!(target_endian = "big") {
            return Err("its numbers are big-endian; write it on a little-endian machine".to_string().into());
        }
        let schema = try_fb_to_schema(schema_table).map_err(|_| "a column has an unknown type".to_string())?;
        let dictionary = |index| Some(schema_table.fields()?.get(index).dictionary()?.id());
        let roots = message::root_columns(schema.fields(), footer.version(), dictionary);
        let batches = read_blocks(&footer, false, &file)?;
        let mut batch_starts = vec![0u64];
        for block in &batches {
            let rows = Batch::read(&file, block)?.row_count;
            let end = batch_starts.last().and_then(|start| start.checked_add(rows));
            batch_starts
                .push(end.filter(|end| *end <= i64::MAX as u64).ok_or_else(|| format!("a batch of {rows} rows"))?);
        }
        let first_block =
            batches.iter().zip(batch_starts.windows(2)).find(|(_, rows)| rows[0] < rows[1]).map(|(block, _)| block);
        // if lists have offsets, their type does not state a length; the first row then determines
        // the length
        let list_length =
            |root: usize| first_block.map_or(Ok(None), |block| reader::first_list_length(&file, &roots[root], block));
        let layout = Layout::new(schema.fields(), list_length)?;
        let metadata_value = |key: &str| schema.metadata().get(key).map(String::as_str);
        let scanned_counter = Arc::default();
        let measure_shape =
            |root: usize| reader::sparse_shape(&file.with_counter(&scanned_counter), &roots[root], &batches);
        let layout = layout.with_pandas_index(metadata_value(column::PANDAS_KEY)).with_sparse_shapes(
            schema.fields(),
            metadata_value(SPARSE_KEY),
            measure_shape,
        )?;
        let dictionaries = read_blocks(&footer, true, &file)?;
        Ok(Self {
            file,
            roots,
            layout,
            batches,
            batch_starts,
            scanned_bytes: scanned_counter.load(Ordering::Relaxed),
            dictionaries,
            cached_dictionaries: Mutex::default(),
            root_costs: Mutex::default(),
        })
    }

    /// Returns the number of record batches.
    pub fn batch_count(&self) -> usize {
        self.batches.len()
    }

    /// Returns the values of dictionary `id`, which is read once and kept.
    fn dictionary(&self, id: i64, data_type: &DataType) -> Result<ArrayRef, LoadError> {
        let mut cache = self.cached_dictionaries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(values) = cache.get(&id) {
            return Ok(Arc::clone(values));
        }
        let mut parts: Vec<ArrayRef> = Vec::new();
        for block in &self.dictionaries {
            let (dictionary_id, is_delta, batch) = Batch::read_dictionary(&self.file, block)?;
            if dictionary_id == id {
                if !is_delta {
                    parts.clear();
                }
                parts.push(reader::read_column(&self.file, &RootColumn::standalone("dictionary", data_type), &batch)?);
            }
        }
        let values = match &parts[..] {
            [] => return Err(format!("dictionary {id} is missing").into()),
            [single] => Arc::clone(single),
            parts => {
                let parts: Vec<_> = parts.iter().map(AsRef::as_ref).collect();
                crate::arrow::compute::concat(&parts).map_err(|error| error.to_string())?
            }
        };
        let values = crate::source::arrow_values::to_viewable(&values).map_err(|error| error.to_string())?;
        cache.insert(id, Arc::clone(&values));
        Ok(values)
    }

    fn chunk_rows(&self, roots: &[usize]) -> usize {
        let row_bytes: usize =
            roots.iter().map(|root| row_bytes(&self.roots[*root], self.layout.list_widths[*root])).sum();
        // a multiple of 8 rows, so that every chunk starts at a whole byte of the null bitmap; at
        // least 8 rows, even if a single row is longer than a chunk
        (chunk_bytes(roots.len()) / row_bytes.max(1)).max(1).next_multiple_of(8)
    }

    /// Returns the memory of the columns `roots` in bytes: the dictionaries, the texts and, if
    /// batches are compressed, the unpacked columns of the largest batch. The numbers and views of
    /// a chunk are not included.
    fn column_bytes(&self, roots: &[usize]) -> usize {
        let mut costs = self.root_costs.lock().unwrap_or_else(PoisonError::into_inner);
        let unmeasured: Vec<usize> = roots.iter().copied().filter(|root| !costs.contains_key(root)).collect();
        // errors are ignored here, because reading the rows reports them
        let new_costs = catch_panic(|| self.measure_costs(&unmeasured)).ok().and_then(Result::ok);
        let new_costs = new_costs.unwrap_or_else(|| vec![MemoryCost::default(); unmeasured.len()]);
        costs.extend(unmeasured.into_iter().zip(new_costs));
        let MemoryCost { unpacked_bytes, transient_bytes } =
            roots.iter().fold(MemoryCost::default(), |sum, root| sum.followed_by(costs[root]));
        usize::try_from(unpacked_bytes.saturating_add(transient_bytes)).unwrap_or(usize::MAX)
    }

    fn measure_costs(&self, roots: &[usize]) -> Result<Vec<MemoryCost>, LoadError> {
        let mut costs = vec![(MemoryCost::default(), 0); roots.len()];
        for block in if roots.is_empty() { &[] } else { &self.batches[..] } {
            let batch = Batch::read(&self.file, block)?;
            for (root, (max_cost, longest_text)) in roots.iter().zip(&mut costs) {
                let cost = self.unpacking_cost(&self.roots[*root], &batch)?;
                max_cost.unpacked_bytes = max_cost.unpacked_bytes.max(cost.unpacked_bytes);
                max_cost.transient_bytes = max_cost.transient_bytes.max(cost.transient_bytes);
                *longest_text = reader::longest_text(&self.file, &self.roots[*root], &batch)?.max(*longest_text);
            }
        }
        let total_costs = roots.iter().zip(costs).map(|(root, (max_cost, longest_text))| {
            let dictionary = self.roots[*root].dictionary_id.map_or(Ok(0), |id| self.dictionary_bytes(id))?;
            // two copies: the texts of a chunk as they are read, and their copy while the array is
            // built
            let text_bytes = if longest_text > 0 { 2 * longest_text.saturating_add(CHUNK_TEXT_BYTES) } else { 0 };
            Ok(max_cost
                .followed_by(MemoryCost { unpacked_bytes: dictionary.saturating_add(text_bytes), transient_bytes: 0 }))
        });
        total_costs.collect()
    }

    /// Returns the memory of a column of a batch after it is unpacked, and the additional memory
    /// while it is being unpacked.
    fn unpacking_cost(&self, root: &RootColumn, batch: &Batch) -> Result<MemoryCost, LoadError> {
        let spans = if batch.codec.is_some() { root.spans(batch)? } else { &[] };
        spans.iter().try_fold(MemoryCost::default(), |sum, span| {
            Ok(sum.followed_by(memory_cost(&self.file, *span, batch.codec)?))
        })
    }

    /// Returns the memory in bytes that reading a dictionary needs: for its stored parts, its
    /// unpacked parts, and their concatenation.
    fn dictionary_bytes(&self, id: i64) -> Result<u64, LoadError> {
        let mut bytes = 0u64;
        for block in &self.dictionaries {
            let (dictionary_id, _, batch) = Batch::read_dictionary(&self.file, block)?;
            for span in batch.buffers.iter().filter(|_| dictionary_id == id) {
                let cost = memory_cost(&self.file, *span, batch.codec)?;
                bytes = bytes
                    .saturating_add(cost.unpacked_bytes + cost.transient_bytes)
                    .saturating_add(3 * span.length.max(cost.unpacked_bytes));
            }
        }
        Ok(bytes)
    }
}

fn row_bytes(root: &RootColumn, width: Option<usize>) -> usize {
    match (list_element_type(&root.data_type), width, element_type(&root.data_type)) {
        (Some(element), Some(width), _) => element.bytes_per_value() * width,
        (_, _, Some(element)) => element.bytes_per_value(),
        _ => TEXT_BYTES.max(reader::fixed_value_bytes(&root.data_type)),
    }
}

impl TableFile for IpcFile {
    fn metadata(&self) -> FileMetadata<'_> {
        let row_count = self.batch_starts.last().copied().unwrap_or(0);
        FileMetadata {
            format: NAME,
            schema: &self.layout.schema,
            row_count,
            file_bytes: self.file.length(),
            bytes_scanned: self.scanned_bytes,
        }
    }

    fn is_all_missing(&self, column: usize) -> bool {
        self.layout.scalar_root(column).is_some_and(|root| self.roots[root].data_type == DataType::Null)
    }

    fn resident_bytes(&self) -> usize {
        let batch_bytes = self.batches.len() * (size_of::<Block>() + size_of::<u64>());
        super::format::OPEN_FILE_BYTES
            + self.layout.schema.columns.len() * super::format::OPEN_COLUMN_BYTES
            + batch_bytes
    }

    /// Returns twice the bytes of a chunk, plus the bytes of texts, dictionaries and unpacked
    /// columns. The factor is 2, because a column that cannot be used as it is stored must be
    /// copied.
    fn cursor_bytes(&self, columns: &[usize]) -> usize {
        let roots = self.layout.roots(columns);
        let row_bytes: usize =
            roots.iter().map(|root| row_bytes(&self.roots[*root], self.layout.list_widths[*root])).sum();
        let chunk_bytes = 2 * row_bytes * self.chunk_rows(&roots);
        chunk_bytes.saturating_add(self.column_bytes(&roots))
    }

    fn open(&self, columns: &[usize], rows: Range<u64>, bytes_read: &Arc<AtomicU64>) -> Result<BoxedCursor<'_>> {
        Ok(Box::new(IpcCursor::new(self, columns, rows, bytes_read)))
    }
}

fn read_blocks(footer: &Footer<'_>, reads_dictionaries: bool, file: &SharedFile) -> Result<Vec<Block>, String> {
    let blocks = if reads_dictionaries { footer.dictionaries() } else { footer.recordBatches() };
    blocks.iter().flatten().map(|block| Block::new(block, file)).collect()
}

/// Reads the footer. The error says whether the file has another format or is truncated.
fn read_footer(file: &SharedFile) -> Result<Vec<u8>> {
    // the file ends with the footer, the length of the footer (4 bytes), and `ARROW1` (6 bytes)
    let (mut start, mut end) = ([0; 8], [0; 10]);
    let length = file.length();
    let result = file.read_at(&mut start, 0).and_then(|_| file.read_at(&mut end, length.saturating_sub(10)));
    result.map_err(|error| file.read_error(error))?;
    if !start.starts_with(MAGIC) {
        let description = unsupported::describe_unsupported(file.path(), &start);
        return Err(file.malformed_error(description.unwrap_or_else(|| "it does not start with ARROW1".to_string())));
    }
    if &end[4..] != MAGIC {
        return Err(file.malformed_error("it is truncated: its footer is missing; copy or write it again"));
    }
    let [a, b, c, d, ..] = end;
    let size = i32::from_le_bytes([a, b, c, d]);
    let max_size = length.saturating_sub(10 + start.len() as u64);
    let size = u64::try_from(size).ok().filter(|size| *size <= max_size);
    let Some(size) = size else { return Err(file.malformed_error("its footer has an invalid length")) };
    let mut footer = vec![0; size as usize];
    read_exact(file, &mut footer, length - 10 - size).map_err(|error| error.into_error(file.path(), NAME))?;
    Ok(footer)
}
