//! How much memory a Parquet column needs while it is decoded.
//!
//! Nothing but the page headers tells how large pages are: a writer may make them as long as the column's chunk or a
//! hundred times shorter, and a page of few bytes may stand for many. So they are walked, which reads some hundred bytes
//! for each page. Where that fails the whole chunk, stored and decompressed, is a bound.

use super::page_header::{PageHeader, headers};
use crate::source::positioned::Positioned;
use parquet::basic::{Compression, Encoding, Type};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

/// Bytes of a value of a fixed width; `None` for texts, whose length is not known.
fn width(column: &ColumnChunkMetaData) -> Option<usize> {
    match column.column_type() {
        Type::BOOLEAN => Some(1),
        Type::INT32 | Type::FLOAT => Some(4),
        Type::INT64 | Type::DOUBLE => Some(8),
        Type::INT96 => Some(12),
        Type::FIXED_LEN_BYTE_ARRAY => usize::try_from(column.column_descr().type_length()).ok(),
        Type::BYTE_ARRAY => None,
    }
}

/// Bytes of the state that unpacks a column's pages: zstd's context (`ZSTD_estimateDCtxSize` of 1.5.7: 95,992), the
/// window and tables of deflate. With hundreds of columns, all open at the same time, it is the largest part.
fn unpacker(codec: Compression) -> usize {
    match codec {
        Compression::ZSTD(_) => 96 << 10,
        Compression::GZIP(_) => 48 << 10,
        _ => 0,
    }
}

/// Memory that the decoder of a column holds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Footprint {
    /// Bytes whatever the rows of a batch: a page and the dictionary, both as stored and as decompressed.
    pub(super) fixed: usize,
    /// Most bytes of pages for each row of a batch. Of texts a batch holds the pages that they lie in, of numbers a copy
    /// that is counted by whoever sets the rows: 0.
    pub(super) per_row: usize,
}

/// Bytes of a view of a text.
const VIEW: usize = 16;

/// Chunks up to this many bytes are not walked: they may as well be one page.
const SMALL: usize = 64 << 10;

/// Memory that the decoder of column `leaf` holds in any of these row groups.
pub(super) fn footprint(file: &Positioned, groups: &[RowGroupMetaData], leaf: usize) -> Footprint {
    let Some(first) = groups.first() else { return Footprint::default() };
    let state = unpacker(first.column(leaf).compression());
    let held = match width(first.column(leaf)) {
        // row groups of a file come from one writer, which cuts pages alike
        Some(width) => {
            let largest = groups.iter().max_by_key(|group| group.column(leaf).uncompressed_size());
            let fixed = largest.map_or(0, |group| numbers(file, group.column(leaf), width));
            Footprint { fixed, per_row: 0 }
        }
        None => {
            let groups = groups.iter().map(|group| texts(file, group.column(leaf), size(group.num_rows())));
            groups.fold(Footprint::default(), |most, group| Footprint {
                fixed: most.fixed.max(group.fixed),
                per_row: most.per_row.max(group.per_row),
            })
        }
    };
    Footprint { fixed: held.fixed.saturating_add(state), ..held }
}

fn size(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

/// The bound that needs no page header: the chunk as it is stored and decompressed.
fn chunk(column: &ColumnChunkMetaData) -> usize {
    size(column.compressed_size()).saturating_add(size(column.uncompressed_size()))
}

fn numbers(file: &Positioned, column: &ColumnChunkMetaData, width: usize) -> usize {
    let Some(pages) = headers(file, column) else { return chunk(column) };
    let dictionary = pages.iter().filter(|page| page.dictionary).map(|page| page.size).max().unwrap_or(0);
    let longest = pages.iter().filter(|page| !page.dictionary).map(|page| page.values).max().unwrap_or(0);
    // a value takes its width plus at most a byte of level
    let pages = longest.saturating_mul(width + 1).saturating_add(dictionary).saturating_mul(2);
    pages.min(chunk(column))
}

/// Texts are views of the pages and dictionaries they lie in, which a batch holds as long as it lives: those between its
/// first and its last row, one more at each end, and the one that is being decompressed.
fn texts(file: &Positioned, column: &ColumnChunkMetaData, rows: usize) -> Footprint {
    let all = size(column.uncompressed_size());
    let prefixed = column.encodings().any(|encoding| encoding == Encoding::DELTA_BYTE_ARRAY);
    let whole = PageHeader { dictionary: false, values: rows, size: all, prefixed };
    let pages = if all <= SMALL { None } else { headers(file, column) };
    let pages = pages.unwrap_or_else(|| vec![whole]);
    let most = |dictionary: bool| {
        pages.iter().filter(|page| page.dictionary == dictionary).map(|page| page.size).max().unwrap_or(0)
    };
    // the dictionary of a row group of few rows comes again with the next
    let dictionary = most(true) / rows.max(1);
    let per_row = pages.iter().filter(|page| !page.dictionary).map(PageHeader::bytes_per_row).max().unwrap_or(0);
    let fixed = 4 * most(false).saturating_add(most(true));
    Footprint { fixed, per_row: per_row.saturating_add(dictionary).saturating_add(VIEW) }
}

impl PageHeader {
    /// Bytes of a page for each of its rows, rounded up. A value that is stored as what differs from the one before it
    /// may be as long as the page, and so may each of those behind it.
    fn bytes_per_row(&self) -> usize {
        if self.prefixed { self.size } else { self.size.div_ceil(self.values.max(1)) }
    }
}
