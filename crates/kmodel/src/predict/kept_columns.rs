//! Kept columns of a prediction file, read separately from the features, tile by tile.
//!
//! The scores of a segment wait in memory until the segments before it are written. Texts of kept
//! columns have no maximum length, so they must not wait in memory as well. A separate cursor reads
//! the kept columns when the scores are written.

use crate::{Error, Result};
use kstore::{KeptColumn, ReadSettings, RowBuf, RowCursor, RowSource, SelectedTable, TableRows, TextLimit};

/// Number of rows whose kept columns are read and written together.
pub(crate) const KEPT_TILE_ROWS: usize = 1024;

pub(crate) struct KeptColumnReader<'a> {
    source: &'a TableRows<f64>,
    cursor: Box<dyn RowCursor<f64> + Send + 'a>,
    buf: RowBuf<f64>,
    /// Number of rows of the tile already consumed or skipped.
    consumed: usize,
    columns: Vec<KeptColumn>,
}

pub(crate) fn kept_table_rows(kept_table: &SelectedTable, text_limit: TextLimit) -> Result<TableRows<f64>> {
    Ok(kept_table.rows::<f64>(ReadSettings { text_limit, ..ReadSettings::default() })?)
}

impl<'a> KeptColumnReader<'a> {
    pub(crate) fn new(source: &'a TableRows<f64>) -> Result<Self> {
        let cursor = source.open(source.range())?;
        Ok(Self { source, cursor, buf: RowBuf::new(KEPT_TILE_ROWS), consumed: 0, columns: Vec::new() })
    }

    /// Reads the kept columns of the leading rows of `row_numbers`: at least one row, at most one
    /// tile. Returns the number of rows and their kept columns. Row numbers must ascend within a
    /// call and from call to call.
    pub(crate) fn read_next(&mut self, row_numbers: &[u64]) -> Result<(usize, &[KeptColumn])> {
        self.columns.iter_mut().for_each(KeptColumn::clear);
        let mut row_count = 0;
        while row_count == 0 {
            if self.consumed == self.buf.row_numbers.len() {
                self.consumed = 0;
                if !self.cursor.next(&mut self.buf)? {
                    return Err(self.missing_row_error(row_numbers));
                }
                if self.columns.is_empty() {
                    self.columns = self.buf.kept_columns.iter().map(|column| KeptColumn::new(column.kind())).collect();
                }
            }
            row_count = self.append_matching(row_numbers);
            if self
                .buf
                .row_numbers
                .get(self.consumed)
                .is_some_and(|available| row_numbers.get(row_count).is_some_and(|requested| requested < available))
            {
                return Err(self.missing_row_error(row_numbers));
            }
        }
        Ok((row_count, &self.columns))
    }

    /// Appends the kept columns of the leading rows of `row_numbers` that come next in the tile,
    /// and returns the number of these rows.
    fn append_matching(&mut self, row_numbers: &[u64]) -> usize {
        let mut row_count = 0;
        while let (Some(available), Some(requested)) =
            (self.buf.row_numbers.get(self.consumed), row_numbers.get(row_count))
        {
            if available < requested {
                // a row without scores: it was dropped, because a feature is missing
                self.consumed += 1;
                continue;
            }
            let pairs = self.buf.row_numbers[self.consumed..].iter().zip(&row_numbers[row_count..]);
            let match_count = pairs.take_while(|(available, requested)| available == requested).count();
            if match_count == 0 {
                break;
            }
            let range = self.consumed..self.consumed + match_count;
            self.columns.iter_mut().zip(&self.buf.kept_columns).for_each(|(to, from)| to.append(from, range.clone()));
            (self.consumed, row_count) = (self.consumed + match_count, row_count + match_count);
        }
        row_count
    }

    #[cold]
    fn missing_row_error(&self, row_numbers: &[u64]) -> Error {
        let table = self.source.selected().table();
        let location = row_numbers.first().and_then(|row| table.locate(*row));
        let (path, row) = location.map_or_else(Default::default, |(path, row)| (path.to_path_buf(), row));
        kstore::Error::FileChanged { path, change: format!("row {row} (counted from 0) no longer exists") }.into()
    }
}
