//! Kept columns of a prediction file, read separately from the features, tile by tile.
//!
//! The scores of a segment wait in memory until the segments before it are written. Kept texts have
//! no maximum length, so they must not wait too: a separate cursor reads the kept columns when the
//! scores are written.

use crate::{Error, Result};
use kstore::{KeptColumn, Reading, RowBuf, RowCursor, RowSource, Selected, TableRows, TextLimit};

pub(crate) const TILE: usize = 1024;

pub(crate) struct Carried<'a> {
    source: &'a TableRows<f64>,
    cursor: Box<dyn RowCursor<f64> + Send + 'a>,
    buf: RowBuf<f64>,
    /// Number of rows of the tile already consumed or skipped.
    place: usize,
    columns: Vec<KeptColumn>,
}

pub(crate) fn source(kept: &Selected, texts: TextLimit) -> Result<TableRows<f64>> {
    Ok(kept.rows::<f64>(Reading { texts, ..Reading::default() })?)
}

impl<'a> Carried<'a> {
    pub(crate) fn new(source: &'a TableRows<f64>) -> Result<Self> {
        let cursor = source.open(source.range())?;
        Ok(Self { source, cursor, buf: RowBuf::new(TILE), place: 0, columns: Vec::new() })
    }

    /// Reads the kept columns of the first of these rows, up to one tile, and returns their number
    /// and the columns. Row numbers must ascend from call to call.
    pub(crate) fn next(&mut self, rows: &[u64]) -> Result<(usize, &[KeptColumn])> {
        self.columns.iter_mut().for_each(KeptColumn::clear);
        let mut found = 0;
        while found == 0 {
            if self.place == self.buf.rows.len() {
                self.place = 0;
                if !self.cursor.next(&mut self.buf)? {
                    return Err(self.gone(rows));
                }
                if self.columns.is_empty() {
                    self.columns = self.buf.kept.iter().map(|column| KeptColumn::new(column.kind())).collect();
                }
            }
            found = self.take(rows);
            if self.buf.rows.get(self.place).is_some_and(|have| rows.get(found).is_some_and(|want| want < have)) {
                return Err(self.gone(rows));
            }
        }
        Ok((found, &self.columns))
    }

    /// Appends the leading rows of `rows` that come next in the tile, and returns their number.
    fn take(&mut self, rows: &[u64]) -> usize {
        let mut found = 0;
        while let (Some(have), Some(want)) = (self.buf.rows.get(self.place), rows.get(found)) {
            if have < want {
                // a row that was dropped for a missing feature
                self.place += 1;
                continue;
            }
            let pairs = self.buf.rows[self.place..].iter().zip(&rows[found..]);
            let run = pairs.take_while(|(have, want)| have == want).count();
            if run == 0 {
                break;
            }
            let range = self.place..self.place + run;
            self.columns.iter_mut().zip(&self.buf.kept).for_each(|(to, from)| to.append(from, range.clone()));
            (self.place, found) = (self.place + run, found + run);
        }
        found
    }

    #[cold]
    fn gone(&self, rows: &[u64]) -> Error {
        let table = self.source.selected().table();
        let located = rows.first().and_then(|row| table.locate(*row));
        let (path, row) = located.map_or_else(Default::default, |(path, row)| (path.to_path_buf(), row));
        kstore::Error::Changed { path, change: format!("row {row} (counted from 0) no longer exists") }.into()
    }
}
