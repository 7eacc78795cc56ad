//! The memory that decoding a Parquet column needs.
//!
//! Only the page headers state the sizes of pages. A page may be as long as the column chunk or a
//! hundred times shorter, and a page of few bytes may represent many values. The headers are
//! therefore read; this reads 256 bytes of the file for most pages. If they cannot be read, the
//! size of the whole chunk, stored and decompressed, is an upper bound.

use super::chunks::{BufferedReader, PageSource};
use super::thrift::uncompressed_page_size;
use crate::source::shared_file::SharedFile;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::basic::{Compression, Encoding, Type};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::{column::page::PageReader, errors::ParquetError};
use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the bytes of a value of a fixed width; `None` for texts, whose length varies.
pub(super) fn value_width(column: &ColumnChunkMetaData) -> Option<usize> {
    match column.column_type() {
        Type::BOOLEAN => Some(1),
        Type::INT32 | Type::FLOAT => Some(4),
        Type::INT64 | Type::DOUBLE => Some(8),
        Type::INT96 => Some(12),
        Type::FIXED_LEN_BYTE_ARRAY => usize::try_from(column.column_descr().type_length()).ok(),
        Type::BYTE_ARRAY => None,
    }
}

/// Returns the bytes of the decompressor of a column: zstd's context (95,992 by
/// `ZSTD_estimateDCtxSize` of 1.5.7), the window and tables of deflate, or the tables of snappy,
/// which include the tables of its encoder. Thousands of columns may be open at the same time, and
/// then the decompressors are the largest part of the memory.
fn decompressor_bytes(codec: Compression) -> usize {
    match codec {
        Compression::ZSTD(_) => 96 << 10,
        Compression::GZIP(_) => 48 << 10,
        Compression::SNAPPY => 2 << 10,
        _ => 0,
    }
}

/// Bytes of the readers of a column: of its pages, levels and values. Measured: 1.3 KiB.
const READER_BYTES: usize = 1536;

/// Bytes of the buffer of dictionary indices that the decoder allocates for each column: 1024
/// indices of 4 bytes.
const INDEX_BUFFER_BYTES: usize = 4 << 10;

/// Returns the memory of a column's decoder that does not depend on its values.
fn reader_bytes(column: &ColumnChunkMetaData) -> usize {
    let has_dictionary =
        column.encodings().any(|encoding| matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY));
    let index_bytes = if has_dictionary { INDEX_BUFFER_BYTES } else { 0 };
    READER_BYTES + index_bytes + decompressor_bytes(column.compression())
}

/// Memory of the decoder of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DecoderBytes {
    /// Bytes that do not depend on the number of rows of a batch: a page and the dictionary, both
    /// as stored and as decompressed.
    pub(super) fixed_bytes: usize,
    /// Maximum bytes of pages for each row of a batch. A batch of texts holds the pages that
    /// contain the texts. A batch of numbers holds no pages, so this number is 0; the caller counts
    /// the numbers themselves.
    pub(super) row_bytes: usize,
}

const VIEW_BYTES: usize = 16;

/// If a chunk has at most this many bytes, its page headers are not read, and the chunk counts as
/// one page.
const SMALL_CHUNK_BYTES: usize = 64 << 10;

pub(super) fn decoder_bytes(file: &SharedFile, groups: &[RowGroupMetaData], leaf: usize) -> DecoderBytes {
    let Some(first) = groups.first() else { return DecoderBytes::default() };
    let reader_bytes = groups.iter().map(|group| reader_bytes(group.column(leaf))).max().unwrap_or(0);
    let decoder = match value_width(first.column(leaf)) {
        // one writer wrote all row groups of the file, and splits all of them into pages in the
        // same way
        Some(width) => {
            let largest_group = groups.iter().max_by_key(|group| group.column(leaf).uncompressed_size());
            let fixed = largest_group.map_or(0, |group| fixed_width_bytes(file, group.column(leaf), width));
            DecoderBytes { fixed_bytes: fixed, row_bytes: 0 }
        }
        None => {
            let groups =
                groups.iter().map(|group| text_decoder_bytes(file, group.column(leaf), to_usize(group.num_rows())));
            groups.fold(DecoderBytes::default(), |largest, group| DecoderBytes {
                fixed_bytes: largest.fixed_bytes.max(group.fixed_bytes),
                row_bytes: largest.row_bytes.max(group.row_bytes),
            })
        }
    };
    DecoderBytes { fixed_bytes: decoder.fixed_bytes.saturating_add(reader_bytes), ..decoder }
}

fn to_usize(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// Returns the bound that needs no page headers: the stored bytes plus the decompressed bytes of
/// the chunk.
fn chunk_bytes(column: &ColumnChunkMetaData) -> usize {
    to_usize(column.compressed_size()).saturating_add(to_usize(column.uncompressed_size()))
}

/// Minimum of the limit on unpacked pages. It applies even if the footer states a smaller chunk,
/// because some writers state a wrong size.
const MIN_PAGE_LIMIT: usize = 1 << 20;

fn page_limit(column: &ColumnChunkMetaData) -> usize {
    to_usize(column.uncompressed_size()).max(MIN_PAGE_LIMIT)
}

/// Returns the largest limit on unpacked pages among some columns.
pub(super) fn max_page_limit(groups: &[RowGroupMetaData], mask: &ProjectionMask) -> usize {
    let chunks = groups.iter().flat_map(|group| group.columns().iter().enumerate());
    chunks
        .filter(|(leaf, _)| mask.leaf_included(*leaf))
        .map(|(_, column)| page_limit(column))
        .max()
        .unwrap_or(MIN_PAGE_LIMIT)
}

fn fixed_width_bytes(file: &SharedFile, column: &ColumnChunkMetaData, width: usize) -> usize {
    let Some(pages) = read_page_headers(file, column) else { return chunk_bytes(column) };
    let dictionary_bytes =
        pages.iter().filter(|page| page.is_dictionary).map(|page| page.unpacked_bytes).max().unwrap_or(0);
    // a value takes its width, plus at most one byte for its levels
    let decoded_bytes = |page: &Page| page.value_count.saturating_mul(width + 1).max(page.unpacked_bytes);
    let max_page_bytes = pages.iter().filter(|page| !page.is_dictionary).map(decoded_bytes).max().unwrap_or(0);
    let open_page_bytes = max_page_bytes.saturating_add(dictionary_bytes).saturating_mul(2);
    open_page_bytes.min(chunk_bytes(column))
}

/// Returns the memory for decoding texts. Texts are views of the pages and dictionaries that
/// contain them, so a batch holds these pages as long as it lives. The result counts the pages
/// between the first and the last row of a batch, one more page at each end, and the page that is
/// being decompressed.
fn text_decoder_bytes(file: &SharedFile, column: &ColumnChunkMetaData, rows: usize) -> DecoderBytes {
    let unpacked_bytes = to_usize(column.uncompressed_size());
    let is_prefix_encoded = column.encodings().any(|encoding| encoding == Encoding::DELTA_BYTE_ARRAY);
    let single_page = Page { is_dictionary: false, value_count: rows, unpacked_bytes };
    let pages = if unpacked_bytes <= SMALL_CHUNK_BYTES { None } else { read_page_headers(file, column) };
    let pages = pages.unwrap_or_else(|| vec![single_page]);
    let max_page_bytes = |is_dictionary: bool| {
        pages
            .iter()
            .filter(|page| page.is_dictionary == is_dictionary)
            .map(|page| page.unpacked_bytes)
            .max()
            .unwrap_or(0)
    };
    // if row groups have few rows, a batch extends over several of them and holds the dictionary of
    // each
    let dictionary_row_bytes = max_page_bytes(true) / rows.max(1);
    // a value that is stored as its difference from the previous value may be as long as the page,
    // and so may every value after it
    let bytes_per_row = |page: &Page| {
        if is_prefix_encoded { page.unpacked_bytes } else { page.unpacked_bytes.div_ceil(page.value_count.max(1)) }
    };
    let row_bytes = pages.iter().filter(|page| !page.is_dictionary).map(bytes_per_row).max().unwrap_or(0);
    // for delta-encoded texts, the decoder unpacks the lengths of a whole page at once
    let is_delta_encoded =
        is_prefix_encoded || column.encodings().any(|encoding| encoding == Encoding::DELTA_LENGTH_BYTE_ARRAY);
    let max_page_values = pages.iter().filter(|_| is_delta_encoded).map(|page| page.value_count).max().unwrap_or(0);
    let fixed_bytes =
        4 * max_page_bytes(false).saturating_add(max_page_bytes(true)).saturating_add(2 * max_page_values);
    DecoderBytes { fixed_bytes, row_bytes: row_bytes.saturating_add(dictionary_row_bytes).saturating_add(VIEW_BYTES) }
}

/// The sizes of a page, from its header.
struct Page {
    is_dictionary: bool,
    /// Number of values, including missing values; 0 for a dictionary.
    value_count: usize,
    unpacked_bytes: usize,
}

/// Returns the pages of a column chunk. Returns `None` if their headers cannot be read, or if the
/// file is remote, where one request per header would take longer than reading the pages.
fn read_page_headers(file: &SharedFile, column: &ColumnChunkMetaData) -> Option<Vec<Page>> {
    if file.as_remote().is_some() {
        return None;
    }
    let headers =
        Arc::new(HeaderSource { source: PageSource::single_pages(file), unpacked_page_bytes: AtomicUsize::new(0) });
    let mut reader = SerializedPageReader::new(Arc::clone(&headers), column, 0, None).ok()?;
    let mut pages = Vec::new();
    while let Some(page) = reader.peek_next_page().ok()? {
        // a page that exceeds the limit is an error when it is read
        let size = headers.unpacked_page_bytes.load(Ordering::Relaxed).min(page_limit(column));
        pages.push(Page {
            is_dictionary: page.is_dict,
            value_count: page.num_levels.unwrap_or(0),
            unpacked_bytes: size,
        });
        reader.skip_next_page().ok()?;
    }
    Some(pages)
}

/// A file whose page headers are read, and nothing else. The Parquet crate does not report the
/// unpacked size of a page without decompressing it, but the size is at the beginning of the
/// header.
struct HeaderSource {
    source: PageSource,
    unpacked_page_bytes: AtomicUsize,
}

impl Length for HeaderSource {
    fn len(&self) -> u64 {
        self.source.len()
    }
}

impl ChunkReader for HeaderSource {
    type T = BufferedReader;

    fn get_read(&self, start: u64) -> Result<BufferedReader, ParquetError> {
        let mut header = self.source.get_read(start)?;
        let size = uncompressed_page_size(header.fill_buf()?);
        let size = size.ok_or_else(|| ParquetError::General("a page has an invalid header".to_string()))?;
        self.unpacked_page_bytes.store(size, Ordering::Relaxed);
        Ok(header)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        self.source.get_bytes(start, length)
    }
}
