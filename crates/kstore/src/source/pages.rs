//! How much memory a Parquet column needs while it is decoded.

use super::positioned::Positioned;
use parquet::basic::{Compression, Type};
use parquet::column::page::PageReader;
use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use std::sync::Arc;

/// Bytes of a value of a fixed width; `None` for texts, whose length is anyone's guess.
fn width(physical: Type) -> Option<usize> {
    match physical {
        Type::BOOLEAN => Some(1),
        Type::INT32 | Type::FLOAT => Some(4),
        Type::INT64 | Type::DOUBLE => Some(8),
        Type::INT96 => Some(12),
        Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY => None,
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

/// Bytes the decoder of column `leaf` holds while it reads this row group: one page as stored and decompressed, and the
/// dictionary likewise.
///
/// A writer may make pages as long as the column's chunk or a hundred times shorter, and only the page headers tell;
/// so they are walked, which reads some hundred bytes per page. Where that fails the whole chunk, stored and
/// decompressed, is a bound.
pub(super) fn footprint(file: &Positioned, group: &RowGroupMetaData, leaf: usize) -> usize {
    let column = group.column(leaf);
    let size = |bytes: i64| usize::try_from(bytes).unwrap_or(0);
    let chunk = size(column.compressed_size()).saturating_add(size(column.uncompressed_size()));
    unpacker(column.compression())
        + match width(column.column_type()) {
            Some(width) => walk(file, column, size(group.num_rows()), width).map_or(chunk, |pages| pages.min(chunk)),
            None => chunk,
        }
}

fn walk(file: &Positioned, column: &ColumnChunkMetaData, rows: usize, width: usize) -> Result<usize> {
    let mut pages = SerializedPageReader::new(Arc::new(file.clone()), column, rows, None)?;
    let (mut dictionary, mut longest) = (0, 0);
    while let Some(page) = pages.peek_next_page()? {
        if page.is_dict {
            dictionary = pages.get_next_page()?.map_or(0, |page| page.buffer().len());
        } else {
            longest = longest.max(page.num_levels.or(page.num_rows).unwrap_or(rows));
            pages.skip_next_page()?;
        }
    }
    // a value takes its width plus at most a byte of level
    Ok(2 * (dictionary + longest * (width + 1)))
}
