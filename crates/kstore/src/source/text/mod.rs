//! Tables in text files: the parts that CSV, svmlight and JSON lines share.
//!
//! A text file does not state the number or the positions of its rows. Opening a text file
//! therefore reads it once, and stores the position of one row in every few thousand. Afterwards a
//! cursor can start anywhere, and several cursors can read at the same time, as in any other
//! format.

#[cfg(any(feature = "csv", feature = "jsonl"))]
mod builder;
#[cfg(any(feature = "svmlight", feature = "jsonl"))]
mod lines;
mod number_notation;
mod reading;
mod records;
mod row_starts;
mod table;

#[cfg(any(feature = "csv", feature = "jsonl"))]
pub(crate) use builder::{ColumnBuilder, ColumnBuilders, InferredType};
#[cfg(any(feature = "svmlight", feature = "jsonl"))]
pub(crate) use lines::LineScanner;
pub(crate) use reading::NumberSeparators;
pub use reading::{ColumnType, NumberFormat, TextReadOptions};
pub(crate) use records::{Record, Records, RowStart, Scanner};
pub(crate) use row_starts::RowStarts;
#[cfg(feature = "svmlight")]
pub(crate) use table::TEXT_CHUNK_BYTES;
pub(crate) use table::{IndexError, RowError, TEXT_CHUNK_ROWS, TextChunk, TextFormat, TextTable};

pub(crate) use number_notation::is_marked_number;
#[cfg(feature = "csv")]
pub(crate) use number_notation::split_affix;

use crate::sparse::SparseShape;
use std::collections::BTreeMap;

/// Parses a number like Rust's standard library. A fraction is rounded to the nearest float, and an
/// integer that is out of range gives `None`.
pub(crate) fn parse_number<N: std::str::FromStr>(text: &[u8]) -> Option<N> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

pub(crate) const CONVERT_TO_UTF8: &str = "convert the file to UTF-8: iconv -f CP1252 -t UTF-8 FILE > NEW";

const MAX_SHOWN_BYTES: usize = 40;

pub(crate) fn quote_field(word: &[u8]) -> String {
    let text = String::from_utf8_lossy(&word[..word.len().min(MAX_SHOWN_BYTES)]);
    if word.len() > MAX_SHOWN_BYTES { format!("{text:?} …") } else { format!("{text:?}") }
}

/// Returns, for each column of a file, its index among the requested columns; `None` if it is not
/// requested.
pub(crate) fn requested_slots(column_count: usize, requested: &[usize]) -> Vec<Option<usize>> {
    let mut slots = vec![None; column_count];
    requested.iter().enumerate().for_each(|(slot, column)| slots[*column] = Some(slot));
    slots
}

/// How text files are read. Formats that describe themselves ignore these options.
///
/// ```
/// use kstore::{Table, TextOptions};
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("rows.csv");
/// std::fs::write(&path, "1,5;2\n2,5;3\n").unwrap();
/// let table =
///     Table::open_with(&[path], &TextOptions::default().delimiter(b';').without_header())?;
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
    /// `None` for the default, [`TextOptions::INFER_ROWS`].
    pub(crate) infer_rows: Option<u64>,
    pub(crate) zero_based: bool,
    pub(crate) width: Option<usize>,
    pub(crate) sparse_rule: SparseRule,
    pub(crate) types: BTreeMap<String, ColumnType>,
    pub(crate) missing_words: Vec<String>,
    /// How earlier rows of the same table were read, for example in the fit.
    pub(crate) reading: TextReadOptions,
}

/// Which rows of svmlight files stay sparse. In addition, rows stay sparse if they have more
/// columns than the maximum for dense rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SparseRule {
    #[default]
    None,
    /// Rows that take less memory and time if they stay sparse, see [`TextOptions::prefer_sparse`].
    IfSmaller,
    /// All rows.
    All,
}

/// Describes how text files are read. Only the settings that differ from the default are listed.
impl std::fmt::Display for TextOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let settings = [
            self.delimiter.map(|byte| format!("delimiter '{}'", byte.escape_ascii())),
            self.decimal.map(|byte| format!("decimal '{}'", byte.escape_ascii())),
            self.without_header.then(|| "no header".to_string()),
            self.without_quotes.then(|| "no quotes".to_string()),
            self.pad_rows.then(|| "padded rows".to_string()),
            (self.skip_lines > 0).then(|| format!("{} lines skipped", self.skip_lines)),
            self.infer_rows.map(|rows| format!("types from {rows} rows")),
            self.zero_based.then(|| "indices from 0".to_string()),
            self.width.map(|width| format!("width {width}")),
            (self.sparse_rule == SparseRule::All).then(|| "sparse rows".to_string()),
            (!self.types.is_empty()).then(|| format!("types {:?}", self.types)),
            (!self.missing_words.is_empty()).then(|| format!("missing words {:?}", self.missing_words)),
        ];
        let settings: Vec<String> = settings.into_iter().flatten().collect();
        f.write_str(&if settings.is_empty() { "by default".to_string() } else { settings.join(", ") })
    }
}

impl TextOptions {
    /// Default number of rows of a CSV file that determine the types of its columns, see
    /// [`TextOptions::infer_rows`].
    pub const INFER_ROWS: u64 = 10_000;

    /// CSV: sets the byte between fields. The default for `.tsv` files is a tab. For other files it
    /// is the character among `,` `;` tab `|` that splits the first rows most consistently.
    pub fn delimiter(self, delimiter: u8) -> Self {
        Self { delimiter: Some(delimiter), ..self }
    }

    /// CSV: sets the decimal mark, `.` or `,`. The default is a comma if the delimiter is `;` and
    /// numbers have commas.
    pub fn decimal(self, decimal: u8) -> Self {
        Self { decimal: Some(decimal), ..self }
    }

    /// CSV: reads the first line as a row; columns are called `x0`, `x1`, ….
    pub fn without_header(self) -> Self {
        Self { without_header: true, ..self }
    }

    /// CSV: reads quotation marks as ordinary characters. By default a field may be enclosed in
    /// `"`.
    pub fn without_quotes(self) -> Self {
        Self { without_quotes: true, ..self }
    }

    /// CSV: accepts rows with fewer fields than names; the values of the last columns are then
    /// missing. By default such rows are errors.
    pub fn pad_rows(self) -> Self {
        Self { pad_rows: true, ..self }
    }

    /// CSV: skips this many lines at the beginning of the file, before the names.
    pub fn skip_lines(self, lines: u64) -> Self {
        Self { skip_lines: lines, ..self }
    }

    /// CSV: sets the number of rows that determine the types of the columns; [`u64::MAX`] means all
    /// rows.
    pub fn infer_rows(self, rows: u64) -> Self {
        Self { infer_rows: Some(rows).filter(|rows| *rows != Self::INFER_ROWS), ..self }
    }

    /// CSV: sets the types of some columns by name. The types of all other columns are determined
    /// from the first rows. Without a type that is set here, integers that begin with zeros are
    /// text.
    pub fn types(self, types: BTreeMap<String, ColumnType>) -> Self {
        Self { types, ..self }
    }

    /// CSV and JSON lines: sets words that mean a missing value, also in text columns.
    pub fn missing_words(self, missing_words: Vec<String>) -> Self {
        Self { missing_words, ..self }
    }

    /// Sets how earlier rows were read, for example in the fit. A setting of these options takes
    /// precedence over the reading of earlier rows. Columns that a file does not have are ignored.
    #[doc(hidden)]
    #[must_use]
    pub fn with_reading(mut self, mut reading: TextReadOptions) -> Self {
        reading.fill_from(&self.reading);
        self.missing_words.extend(std::mem::take(&mut reading.missing_words));
        Self { reading, ..self }
    }

    /// Returns whether the reading of earlier rows is set.
    #[doc(hidden)]
    pub fn has_reading(&self) -> bool {
        !self.reading.is_default()
    }

    /// Returns the type of a column, if it is set in these options or in the reading of earlier
    /// rows. If a decimal mark is set in these options, it replaces the decimal mark of earlier
    /// rows.
    pub(crate) fn type_of(&self, name: &str) -> Option<ColumnType> {
        match (self.types.get(name).or(self.reading.types.get(name)).cloned(), self.decimal) {
            (Some(ColumnType::Number(form)), Some(_)) => {
                Some(ColumnType::Number(NumberFormat { separators: None, ..form }))
            }
            (column_type, _) => column_type,
        }
    }

    /// svmlight: sets the index of the first feature to 0 instead of 1.
    pub fn zero_based(self) -> Self {
        Self { zero_based: true, ..self }
    }

    /// svmlight: sets the number of features. The default is the largest index in the file.
    pub fn width(self, feature_count: usize) -> Self {
        Self { width: Some(feature_count), ..self }
    }

    /// svmlight: keeps the rows [sparse](crate::sparse), in one column `x`. By default only rows
    /// with more than 100,000 features stay sparse.
    pub fn sparse(self) -> Self {
        Self { sparse_rule: SparseRule::All, ..self }
    }

    /// Returns whether rows of this shape stay sparse.
    #[doc(hidden)]
    pub fn keeps_sparse(&self, shape: SparseShape) -> bool {
        shape.must_be_sparse()
            || self.sparse_rule == SparseRule::All
            || self.sparse_rule == SparseRule::IfSmaller && shape.prefers_sparse()
    }

    /// svmlight: keeps the rows sparse if this takes less memory and time. This is the case if
    /// there are at least a thousand columns, and no row has entries in more than an eighth of
    /// them. If one of several files stays sparse, all of them do.
    #[doc(hidden)]
    #[must_use]
    pub fn prefer_sparse(self) -> Self {
        Self { sparse_rule: self.sparse_rule.max(SparseRule::IfSmaller), ..self }
    }
}
