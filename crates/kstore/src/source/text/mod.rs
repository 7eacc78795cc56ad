//! Tables written as text: the parts that CSV, svmlight and JSON lines share.
//!
//! A text does not say how many rows it has or where they lie, so opening one reads it once and remembers the place of every few thousandth row. From
//! then on cursors start anywhere, several at once, as in any other format.

#[cfg(any(feature = "csv", feature = "jsonl"))]
mod builder;
#[cfg(any(feature = "svmlight", feature = "jsonl"))]
mod lines;
mod reading;
mod records;
mod row_starts;
mod table;
mod written;

#[cfg(any(feature = "csv", feature = "jsonl"))]
pub(crate) use builder::{Builder, Builders, Guess};
#[cfg(any(feature = "svmlight", feature = "jsonl"))]
pub(crate) use lines::LineScanner;
pub(crate) use reading::Marks;
pub use reading::{ColumnType, NumberForm, TextReading};
pub(crate) use records::{Record, Records, RowStart, Scanner};
pub(crate) use row_starts::RowStarts;
#[cfg(feature = "svmlight")]
pub(crate) use table::CHUNK_BYTES;
pub(crate) use table::{CHUNK_ROWS, Refused, TextChunk, TextFormat, TextTable, Wrong};

pub(crate) use written::is_marked_number;
#[cfg(feature = "csv")]
pub(crate) use written::written;

use crate::sparse::SparseShape;
use std::collections::BTreeMap;

/// A number as Rust's standard library reads it: fractions are rounded to the nearest float, whole numbers that do not
/// fit are none.
pub(crate) fn number<N: std::str::FromStr>(text: &[u8]) -> Option<N> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

pub(crate) const NOT_UTF8: &str = "convert the file to UTF-8: iconv -f CP1252 -t UTF-8 FILE > NEW";

const SHOWN_BYTES: usize = 40;

pub(crate) fn shown(word: &[u8]) -> String {
    let text = String::from_utf8_lossy(&word[..word.len().min(SHOWN_BYTES)]);
    if word.len() > SHOWN_BYTES { format!("{text:?} …") } else { format!("{text:?}") }
}

/// For each column of a file, its place among those that are wanted.
pub(crate) fn slots(columns: usize, wanted: &[usize]) -> Vec<Option<usize>> {
    let mut slots = vec![None; columns];
    wanted.iter().enumerate().for_each(|(slot, column)| slots[*column] = Some(slot));
    slots
}

/// How text files are read. Formats that describe themselves ignore it.
///
/// ```
/// use kstore::{Table, TextOptions};
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("rows.csv");
/// std::fs::write(&path, "1,5;2\n2,5;3\n").unwrap();
/// let table = Table::open_with(&[path], &TextOptions::default().delimiter(b';').without_header())?;
/// assert_eq!((table.stored_rows(), table.schema().columns[1].name.as_str()), (2, "x1"));
/// # Ok::<(), kstore::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextOptions {
    pub(crate) delimiter: Option<u8>,
    pub(crate) decimal: Option<u8>,
    pub(crate) without_header: bool,
    pub(crate) without_quotes: bool,
    pub(crate) pad_rows: bool,
    pub(crate) skip_lines: u64,
    /// Where it is not [`TextOptions::INFER_ROWS`].
    pub(crate) infer_rows: Option<u64>,
    pub(crate) zero_based: bool,
    pub(crate) width: Option<usize>,
    pub(crate) sparse: Sparse,
    pub(crate) types: BTreeMap<String, ColumnType>,
    pub(crate) missing_words: Vec<String>,
    /// How the rows that these belong to were read.
    pub(crate) like: TextReading,
}

/// Which rows of svmlight files stay sparse, beside those with more columns than dense rows may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sparse {
    #[default]
    None,
    Thin,
    All,
}

/// How text files are read, in words: what is not the default is said.
impl std::fmt::Display for TextOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = [
            self.delimiter.map(|byte| format!("delimiter '{}'", byte.escape_ascii())),
            self.decimal.map(|byte| format!("decimal '{}'", byte.escape_ascii())),
            self.without_header.then(|| "no header".to_string()),
            self.without_quotes.then(|| "no quotes".to_string()),
            self.pad_rows.then(|| "padded rows".to_string()),
            (self.skip_lines > 0).then(|| format!("{} lines skipped", self.skip_lines)),
            self.infer_rows.map(|rows| format!("types from {rows} rows")),
            self.zero_based.then(|| "indices from 0".to_string()),
            self.width.map(|width| format!("width {width}")),
            (self.sparse == Sparse::All).then(|| "sparse rows".to_string()),
            (!self.types.is_empty()).then(|| format!("types {:?}", self.types)),
            (!self.missing_words.is_empty()).then(|| format!("missing words {:?}", self.missing_words)),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        f.write_str(&if words.is_empty() { "by default".to_string() } else { words.join(", ") })
    }
}

impl TextOptions {
    /// Rows of a CSV file that decide what its columns hold, unless [`TextOptions::infer_rows`] says otherwise.
    pub const INFER_ROWS: u64 = 10_000;

    /// CSV: sets the byte between fields. By default the one of `,` `;` tab `|` that cuts the first lines alike; in
    /// `.tsv` files a tab.
    pub fn delimiter(self, delimiter: u8) -> Self {
        Self { delimiter: Some(delimiter), ..self }
    }

    /// CSV: sets the mark before decimals, `.` or `,`. By default a comma where fields are cut by `;` and numbers have it.
    pub fn decimal(self, decimal: u8) -> Self {
        Self { decimal: Some(decimal), ..self }
    }

    /// CSV: takes the first line as a row too; columns are called `x0`, `x1`, ….
    pub fn without_header(self) -> Self {
        Self { without_header: true, ..self }
    }

    /// CSV: takes quotation marks for letters. By default a field may begin and end with `"`.
    pub fn without_quotes(self) -> Self {
        Self { without_quotes: true, ..self }
    }

    /// CSV: takes rows with fewer fields than names, whose last values are missing. By default they
    /// are errors.
    pub fn pad_rows(self) -> Self {
        Self { pad_rows: true, ..self }
    }

    /// CSV: passes over the first lines of the file, which come before the names.
    pub fn skip_lines(self, lines: u64) -> Self {
        Self { skip_lines: lines, ..self }
    }

    /// CSV: sets the number of rows that decide what the columns hold; [`u64::MAX`] for all.
    pub fn infer_rows(self, rows: u64) -> Self {
        Self { infer_rows: Some(rows).filter(|rows| *rows != Self::INFER_ROWS), ..self }
    }

    /// CSV: sets the types of some columns, by their names. By default those that the first rows show; whole numbers that begin with zeros
    /// are text.
    pub fn types(self, types: BTreeMap<String, ColumnType>) -> Self {
        Self { types, ..self }
    }

    /// CSV and JSON lines: sets words that stand for missing values, in columns of text too.
    pub fn missing_words(self, missing_words: Vec<String>) -> Self {
        Self { missing_words, ..self }
    }

    /// Reads what these options leave open as other rows were read. Columns that a file does not have are ignored.
    #[must_use]
    pub fn like(mut self, mut reading: TextReading) -> Self {
        reading.extend(&self.like);
        self.missing_words.extend(std::mem::take(&mut reading.missing_words));
        Self { like: reading, ..self }
    }

    /// True if other rows say how these are read.
    pub fn is_alike(&self) -> bool {
        !self.like.is_default()
    }

    /// The type of a column, if it is known. A decimal mark that the caller names counts more than that of other rows.
    pub(crate) fn type_of(&self, name: &str) -> Option<ColumnType> {
        match (self.types.get(name).or(self.like.types.get(name)).cloned(), self.decimal) {
            (Some(ColumnType::Number(form)), Some(_)) => Some(ColumnType::Number(NumberForm { marks: None, ..form })),
            (known, _) => known,
        }
    }

    /// svmlight: gives the first feature the index 0 and not 1.
    pub fn zero_based(self) -> Self {
        Self { zero_based: true, ..self }
    }

    /// svmlight: sets the number of features. By default the largest index in the file.
    pub fn width(self, features: usize) -> Self {
        Self { width: Some(features), ..self }
    }

    /// svmlight: keeps the rows as they are, [sparse](crate::sparse), in one column `x`. By default those of more than 100,000 features
    /// alone.
    pub fn sparse(self) -> Self {
        Self { sparse: Sparse::All, ..self }
    }

    /// True where rows of this shape stay sparse.
    pub fn keeps(&self, shape: SparseShape) -> bool {
        shape.must_stay() || self.sparse == Sparse::All || self.sparse == Sparse::Thin && shape.is_thin()
    }

    /// svmlight: keeps the rows as they are where that takes less room and time: at least a thousand
    /// columns, and no row with entries in more than an eighth of them. Of several files all do where one does.
    #[must_use]
    pub fn sparse_where_thin(self) -> Self {
        Self { sparse: self.sparse.max(Sparse::Thin), ..self }
    }
}
