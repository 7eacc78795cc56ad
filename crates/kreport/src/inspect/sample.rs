//! A sample of the rows of a table: blocks of consecutive rows.

use kstore::schema::{Column, Kind};
use kstore::{Digest, KeptColumn, KeptValues, Label, ReadSettings, Result, RowBuf, RowSource, Selection, Table};
use std::collections::BTreeMap;

/// Maximum number of values of the sample; they take 16 MB.
const MAX_VALUES: u64 = 2_000_000;
/// Maximum number of rows of the sample: with more rows, the findings change little.
const MAX_ROWS: u64 = 20_000;
/// Bytes of a distinct text: its beginning, its digest, and a node of the tree of texts.
const TEXT_BYTES: u64 = 160;
/// Maximum number of bytes of a text that are kept as they are.
const MAX_KEPT_BYTES: usize = 64;
/// Number of consecutive rows of a block: enough to see what neighbouring rows share.
const BLOCK_ROWS: u64 = 256;

/// Some rows of a table, by columns.
#[derive(Clone, Debug, Default)]
pub struct TableSample {
    /// Columns of numbers, booleans and texts, in the order of the table.
    pub columns: Vec<ColumnSample>,
    /// Stored row numbers, ascending.
    pub row_numbers: Vec<u64>,
    /// Number of rows of the table.
    pub stored_rows: u64,
}

/// The values of one column in the sample.
#[derive(Clone, Debug, Default)]
pub struct ColumnSample {
    /// Name of the column.
    pub name: String,
    /// Values; NaN if missing. The value of a text is its position among the distinct texts of the
    /// sample in alphabetical order, so texts of dates such as 2024-07-31 have the order of time.
    pub values: Vec<f64>,
    /// The distinct texts of a column of texts, in alphabetical order; otherwise empty.
    pub texts: Vec<String>,
    /// True if the values are dates or timestamps, stored as such or as texts with the year first.
    pub is_time: bool,
    /// True if all values are integers, booleans or texts.
    pub is_discrete: bool,
}

impl TableSample {
    /// Returns whether the sample has all rows of the table.
    pub fn is_complete(&self) -> bool {
        self.row_numbers.len() as u64 == self.stored_rows
    }

    /// Returns the pairs of consecutive rows of the table that are both in the sample, as positions
    /// in the sample.
    pub fn neighbours(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let pairs = self.row_numbers.windows(2).enumerate();
        pairs.filter(|(_, pair)| pair[1] == pair[0] + 1).map(|(i, _)| (i, i + 1))
    }
}

/// Reads a sample of the rows: all rows of a small table, otherwise blocks of consecutive rows that
/// are spread evenly over the table. Columns of bytes and of sparse rows are left out. The sample
/// takes at most `max_bytes`; if not even a block of rows fits, it is empty.
///
/// # Errors
/// Errors of reading the table.
pub fn draw_sample(table: &Table, max_bytes: usize) -> Result<TableSample> {
    let is_readable = |kind: &Kind| !matches!(kind, Kind::Binary | Kind::Sparse(_) | Kind::Other(_));
    let columns: Vec<_> = table.schema().columns.iter().filter(|column| is_readable(&column.kind)).collect();
    let value_bytes = |kind: &Kind| if *kind == Kind::Text { 8 + TEXT_BYTES } else { 8 };
    let row_bytes = columns.iter().map(|column| value_bytes(&column.kind)).sum::<u64>().max(1);
    let (stored_rows, column_count) = (table.stored_rows(), columns.len().max(1) as u64);
    let max_rows = MAX_ROWS.min(MAX_VALUES / column_count).min(max_bytes as u64 / row_bytes);
    let mut sample = TableSample { stored_rows, ..TableSample::default() };
    if stored_rows == 0 || columns.is_empty() || max_rows < BLOCK_ROWS.min(stored_rows) {
        return Ok(sample);
    }
    let keep: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    // an inspection is not part of the passes of a fit
    let selection = Selection { keep, without_features: true, ..Selection::default() };
    let selected = table.select(&selection)?.with_new_byte_counter();
    let source = selected.rows::<f64>(ReadSettings::default())?;
    let mut gathered: Vec<GatheredColumn> = columns.iter().map(|_| GatheredColumn::default()).collect();
    let block_count = max_rows / BLOCK_ROWS;
    let blocks: Vec<_> = if stored_rows <= max_rows {
        vec![source.range()]
    } else {
        let first_row = |block: u64| block * (stored_rows - BLOCK_ROWS) / (block_count - 1).max(1);
        (0..block_count).map(|block| first_row(block)..first_row(block) + BLOCK_ROWS).collect()
    };
    for block in blocks {
        let (mut cursor, mut buffer) = (source.open(block)?, RowBuf::new(1024));
        while cursor.next(&mut buffer)? {
            sample.row_numbers.extend_from_slice(&buffer.row_numbers);
            gathered.iter_mut().zip(&buffer.kept_columns).for_each(|(column, kept)| column.extend(kept));
        }
    }
    let finish = |(column, gathered): (&&Column, GatheredColumn)| {
        let is_time = gathered.is_time(|label| table.day_of(&column.name, label).is_some());
        ColumnSample { is_time, ..gathered.finish(column.name.clone()) }
    };
    sample.columns = columns.iter().zip(gathered).map(finish).collect();
    Ok(sample)
}

/// Values of a column while its texts are not yet in alphabetical order.
#[derive(Default)]
struct GatheredColumn {
    values: Vec<f64>,
    /// Each text, with its number in the order of appearance.
    text_numbers: BTreeMap<String, usize>,
    has_reals: bool,
}

impl GatheredColumn {
    fn extend(&mut self, kept: &KeptColumn) {
        let values = kept.values();
        for row in 0..kept.len() {
            let value = if kept.is_null(row) {
                f64::NAN
            } else if let KeptValues::Text(texts) = values {
                let next = self.text_numbers.len();
                *self.text_numbers.entry(shorten(texts.text(row))).or_insert(next) as f64
            } else {
                self.has_reals |= values.integer(row).is_none();
                values.number(row).unwrap_or(f64::NAN)
            };
            self.values.push(value);
        }
    }

    /// Returns whether all texts, or the stored numbers, are dates by this function.
    fn is_time(&self, is_date: impl Fn(&Label) -> bool) -> bool {
        match self.text_numbers.is_empty() {
            true => is_date(&Label::Int(0)),
            false => self.text_numbers.keys().all(|text| is_date(&Label::Text(text.as_str().into()))),
        }
    }

    fn finish(self, name: String) -> ColumnSample {
        let mut position_of_number = vec![0.0; self.text_numbers.len()];
        self.text_numbers
            .values()
            .enumerate()
            .for_each(|(position, number)| position_of_number[*number] = position as f64);
        let mut values = self.values;
        if !position_of_number.is_empty() {
            values.iter_mut().filter(|v| !v.is_nan()).for_each(|v| *v = position_of_number[*v as usize]);
        }
        let texts = self.text_numbers.into_keys().collect();
        ColumnSample { name, values, texts, is_discrete: !self.has_reals, ..ColumnSample::default() }
    }
}

/// Returns a text, or the beginning of a long text with the digest of the whole.
fn shorten(text: &str) -> String {
    if text.len() <= MAX_KEPT_BYTES {
        return text.to_string();
    }
    format!("{}… {:016x}", &text[..text.floor_char_boundary(MAX_KEPT_BYTES)], Digest::u64_of(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_and_stay_distinct() {
        let (a, b) = ("ä".repeat(5000) + "a", "ä".repeat(5000) + "b");
        assert!(shorten(&a).len() < 100 && shorten(&a) != shorten(&b));
        assert_eq!(shorten("Ulm"), "Ulm");
    }
}
