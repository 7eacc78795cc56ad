//! Checks the counts that pages state, before the decoder allocates memory for as many values.
//!
//! Texts that are delta-encoded (DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY) begin with packed
//! lengths. The header of these lengths states the number of lengths, so a page of a few bytes can
//! claim any number (<https://parquet.apache.org/docs/file-format/data-pages/encodings/>).

use super::chunks::PageSource;
use super::pages;
use super::thrift::read_varint;
use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use std::sync::Arc;

/// Some row groups of a file.
pub(super) struct CheckedRowGroups {
    pub(super) source: Arc<PageSource>,
    pub(super) metadata: Arc<ParquetMetaData>,
    pub(super) row_groups: Vec<usize>,
}

impl RowGroups for CheckedRowGroups {
    fn num_rows(&self) -> usize {
        self.row_groups().map(|group| usize::try_from(group.num_rows()).unwrap_or(0)).sum()
    }

    fn column_chunks(&self, leaf: usize) -> Result<Box<dyn PageIterator>> {
        let (source, metadata) = (Arc::clone(&self.source), Arc::clone(&self.metadata));
        let column = self.metadata.file_metadata().schema_descr().column(leaf);
        let level_array_count = usize::from(column.max_rep_level() > 0) + usize::from(column.max_def_level() > 0);
        let pages = self.row_groups.clone().into_iter().map(move |group| {
            let group = metadata.row_group(group);
            let rows = usize::try_from(group.num_rows()).unwrap_or(0);
            let (column, source) = (group.column(leaf), Arc::clone(&source));
            let (pages, width) = (SerializedPageReader::new(source, column, rows, None)?, pages::value_width(column));
            // each text is preceded by its length, which takes 4 bytes
            Ok(Box::new(CheckedPages { pages, level_array_count, min_value_bytes: width.unwrap_or(4).max(1) })
                as Box<dyn PageReader>)
        });
        Ok(Box::new(ColumnChunks(pages)))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.row_groups.iter().map(|group| self.metadata.row_group(*group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

struct ColumnChunks<I>(I);

impl<I: Iterator> Iterator for ColumnChunks<I> {
    type Item = I::Item;
    fn next(&mut self) -> Option<I::Item> {
        self.0.next()
    }
}

impl<I: Iterator<Item = Result<Box<dyn PageReader>>> + Send> PageIterator for ColumnChunks<I> {}

/// The pages of a column chunk.
struct CheckedPages {
    pages: SerializedPageReader<PageSource>,
    /// Number of level arrays (repetition levels, definition levels) before the values of a version
    /// 1 page. Each array is preceded by its length.
    level_array_count: usize,
    /// Minimum bytes of a value in a dictionary.
    min_value_bytes: usize,
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;
    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        let fault = match &page {
            Some(Page::DictionaryPage { buf, num_values, .. }) => {
                let max_values = buf.len() / self.min_value_bytes;
                (*num_values as usize > max_values)
                    .then(|| format!("a dictionary claims {num_values} values and has at most {max_values}"))
            }
            Some(page) => match check_packed_lengths(page, self.level_array_count) {
                Some(()) => None,
                None => Some("the lengths in a page of texts do not match its values".to_string()),
            },
            None => None,
        };
        fault.map_or(Ok(page), |fault| Err(ParquetError::General(fault)))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

/// Checks the packed lengths in a page of texts. Returns `None` if the page states more lengths
/// than it has values.
fn check_packed_lengths(page: &Page, level_array_count: usize) -> Option<()> {
    let length_list_count = match page.encoding() {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
        Encoding::DELTA_BYTE_ARRAY => 2,
        _ => return Some(()),
    };
    let mut input: &[u8] = page.buffer();
    match page {
        Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
            input.split_off(..(*def_levels_byte_len + *rep_levels_byte_len) as usize)?;
        }
        _ => (0..level_array_count).try_for_each(|_| {
            let length = u32::from_le_bytes(*input.split_off(..4)?.first_chunk()?);
            input.split_off(..length as usize).map(drop)
        })?,
    }
    // a page that has only missing values may be empty
    let length_list_count = if input.is_empty() { 0 } else { length_list_count };
    (0..length_list_count).try_for_each(|_| skip_delta_encoded(&mut input, u64::from(page.num_values())))
}

/// Skips delta-encoded numbers. Returns `None` if the page states more than `max_count` numbers.
fn skip_delta_encoded(input: &mut &[u8], max_count: u64) -> Option<()> {
    let [block_values, miniblock_count, count, _first] =
        [read_varint(input)?, read_varint(input)?, read_varint(input)?, read_varint(input)?];
    let values_per_miniblock =
        block_values.checked_div(miniblock_count).filter(|each| *each > 0 && count <= max_count)?;
    let mut remaining = count.saturating_sub(1);
    while remaining > 0 {
        let _least = read_varint(input)?;
        for width in input.split_off(..usize::try_from(miniblock_count).ok()?)? {
            let bytes =
                if remaining > 0 { usize::try_from(values_per_miniblock * u64::from(*width) / 8).ok()? } else { 0 };
            input.split_off(..bytes)?;
            remaining = remaining.saturating_sub(values_per_miniblock);
        }
    }
    Some(())
}
