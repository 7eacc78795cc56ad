//! How the decoder reads the bytes of a Parquet file.
//!
//! In a local file, each page is read when it is needed. For a remote object, a request costs more
//! than reading a page. A cursor therefore requests all column chunks that it needs from a row
//! group at once, and keeps them until it reaches the next row group. The last row group stays in
//! memory for the next cursor, which often begins where the previous cursor ended. *Bytes*: twice
//! the stored chunks of a row group, for each cursor.

use super::thrift::uncompressed_page_size;
use crate::source::shared_file::SharedFile;
use bytes::Bytes;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::{arrow::ProjectionMask, errors::ParquetError};
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Bytes that are read at once for a page header. A header has about 30 to 100 bytes, so one read
/// gets the header and little of the page after it.
const PAGE_HEADER_BYTES: usize = 256;

type ChunkBytes = Vec<(u64, Bytes)>;

/// The row groups of a remote object that cursors hold, identified by the ranges of their chunks,
/// and the last row group that was read.
#[derive(Debug, Default)]
pub(super) struct RowGroupCache {
    groups: Mutex<CachedRowGroups>,
}

#[derive(Debug, Default)]
struct CachedRowGroups {
    entries: Vec<(Vec<Range<u64>>, Weak<ChunkBytes>)>,
    last_group: Option<Arc<ChunkBytes>>,
}

impl RowGroupCache {
    fn get_or_read(&self, file: &SharedFile, requested: &[Range<u64>]) -> io::Result<Arc<ChunkBytes>> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.entries.retain(|(_, group)| group.strong_count() > 0);
        let cached_group =
            groups.entries.iter().find(|(ranges, _)| ranges == requested).and_then(|(_, group)| group.upgrade());
        let group = match (cached_group, file.as_remote()) {
            (Some(group), _) => group,
            (None, None) => Arc::default(),
            (None, Some(object)) => {
                // the previous row group is freed first
                groups.last_group = None;
                let bytes = object.read_ranges(requested)?;
                file.count_bytes(bytes.iter().map(Vec::len).sum());
                let starts = requested.iter().map(|range| range.start);
                let group = Arc::new(starts.zip(bytes.into_iter().map(Bytes::from)).collect());
                groups.entries.push((requested.to_vec(), Arc::downgrade(&group)));
                group
            }
        };
        groups.last_group = Some(Arc::clone(&group));
        Ok(group)
    }
}

fn chunk_ranges(group: &RowGroupMetaData, mask: &ProjectionMask) -> Vec<Range<u64>> {
    let columns = group.columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf));
    let range = |(start, length): (u64, u64)| start..start.saturating_add(length);
    columns.map(|(_, column)| range(column.byte_range())).collect()
}

/// Returns the bytes of a remote object that a cursor holds in memory.
pub(super) fn cached_bytes(groups: &[RowGroupMetaData], mask: &ProjectionMask) -> usize {
    let group_bytes = |group| chunk_ranges(group, mask).iter().map(|range| range.end - range.start).sum::<u64>();
    let max_group_bytes = groups.iter().map(group_bytes).max().unwrap_or(0);
    2 * usize::try_from(max_group_bytes).unwrap_or(usize::MAX / 2)
}

/// The bytes of a file, from which the decoder reads pages.
#[derive(Clone, Debug)]
pub(super) struct PageSource {
    file: SharedFile,
    chunks: Option<Arc<CursorChunks>>,
    /// Maximum bytes of an unpacked page.
    max_page_bytes: Option<usize>,
}

/// The row groups of a cursor, and the chunks of the current group.
#[derive(Debug)]
struct CursorChunks {
    requested_ranges: Vec<Vec<Range<u64>>>,
    cache: Arc<RowGroupCache>,
    current_group: Mutex<Option<(usize, Arc<ChunkBytes>)>>,
}

impl PageSource {
    /// Returns a source for reading single pages of a file.
    pub(super) fn single_pages(file: &SharedFile) -> Self {
        Self { file: file.clone(), chunks: None, max_page_bytes: None }
    }

    /// Returns a source for reading columns of a file. If the file is remote, whole chunks are
    /// read.
    pub(super) fn column_chunks(
        file: SharedFile,
        groups: &[RowGroupMetaData],
        mask: &ProjectionMask,
        cache: &Arc<RowGroupCache>,
    ) -> Self {
        let chunks = file.as_remote().map(|_| {
            let requested_ranges = groups.iter().map(|group| chunk_ranges(group, mask)).collect();
            Arc::new(CursorChunks { requested_ranges, cache: Arc::clone(cache), current_group: Mutex::default() })
        });
        Self { chunks, file, max_page_bytes: None }
    }

    /// Limits the size of unpacked pages: a larger page is an error before the decoder allocates
    /// memory for it.
    pub(super) fn with_page_limit(self, limit: usize) -> Self {
        Self { max_page_bytes: Some(limit), ..self }
    }

    /// Returns the bytes of the requested chunk that contains the byte at `offset`, from this byte
    /// on; `None` if no requested chunk contains this byte.
    fn rest_of_chunk(&self, offset: u64) -> io::Result<Option<Bytes>> {
        let Some(chunks) = &self.chunks else { return Ok(None) };
        let chunk_with_offset = |group: &Vec<Range<u64>>| group.iter().position(|range| range.contains(&offset));
        let group_and_column = chunks
            .requested_ranges
            .iter()
            .enumerate()
            .find_map(|(index, group)| Some((index, chunk_with_offset(group)?)));
        let Some((index, column)) = group_and_column else { return Ok(None) };
        let mut current = chunks.current_group.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_none_or(|(current_index, _)| *current_index != index) {
            *current = None;
            *current = Some((index, chunks.cache.get_or_read(&self.file, &chunks.requested_ranges[index])?));
        }
        let chunk = current.as_ref().and_then(|(_, group)| group.get(column));
        Ok(chunk.map(|(start, bytes)| {
            bytes.slice(usize::try_from(offset - start).unwrap_or(usize::MAX).min(bytes.len())..)
        }))
    }
}

impl Length for PageSource {
    fn len(&self) -> u64 {
        self.file.length()
    }
}

impl ChunkReader for PageSource {
    type T = BufferedReader;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::with_capacity(
            PAGE_HEADER_BYTES,
            OffsetReader { source: self.clone(), offset: start, max_page_bytes: self.max_page_bytes },
        ))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let file_length = self.file.length();
        // a damaged length must not allocate memory
        if start.checked_add(length as u64).is_none_or(|end| end > file_length) {
            return Err(ParquetError::EOF(format!(
                "expected {length} bytes at {start}, the file ends at {file_length}"
            )));
        }
        if let Some(chunk) = self.rest_of_chunk(start)?.filter(|chunk| chunk.len() >= length) {
            return Ok(chunk.slice(..length));
        }
        let bytes = self.file.read_vec(length, start)?;
        if bytes.len() < length {
            return Err(ParquetError::EOF(format!("expected {length} bytes at {start}, found {}", bytes.len())));
        }
        Ok(bytes.into())
    }
}

/// A reader of the bytes of a file from a given position, with a buffer for a page header.
pub(super) type BufferedReader = BufReader<OffsetReader>;

/// Reads a file from an offset on.
#[derive(Debug)]
pub(super) struct OffsetReader {
    source: PageSource,
    offset: u64,
    /// The limit on the page size, until the first read, which reads a page header and checks its
    /// size against the limit. Afterwards `None`.
    max_page_bytes: Option<usize>,
}

impl Read for OffsetReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read_len = match self.source.rest_of_chunk(self.offset)? {
            Some(chunk) => {
                let count = chunk.len().min(buffer.len());
                buffer[..count].copy_from_slice(&chunk[..count]);
                count
            }
            None => self.source.file.read_at(buffer, self.offset)?,
        };
        self.offset += read_len as u64;
        let fault = self.max_page_bytes.take().and_then(|limit| match uncompressed_page_size(&buffer[..read_len]) {
            Some(size) => {
                (size > limit).then(|| format!("a page claims {size} bytes and its column has at most {limit}"))
            }
            None => Some("a page has an invalid header".to_string()),
        });
        if let Some(fault) = fault {
            return Err(io::Error::new(io::ErrorKind::InvalidData, fault));
        }
        Ok(read_len)
    }
}
