//! Comma-separated values (RFC 4180) and their relatives: any delimiter, quoted fields with line ends in them, `\n`,
//! `\r\n` or `\r`, a byte order mark.
//!
//! The first row names the columns, unless [`TextOptions::without_header`] says otherwise. The first 10,000 rows
//! ([`TextOptions::infer_rows`]) say what a column holds: truth values (`true`, `false`), whole numbers of 64 bits,
//! float64, else text. A later value that does not fit is an error. Missing are an empty field and, in columns that
//! hold no text, `NA`, `N/A`, `null`, `NULL` and `None`; also `NaN` and `nan` in columns of whole numbers and truth
//! values. Spaces around numbers are ignored. Fractions are rounded correctly.
//!
//! Opening reads the file once ([`TableFile::scanned`]) to find its rows.

mod columns;
mod infer;
mod scan;

use super::positioned::Positioned;
use super::text::{BLOCK_BYTES, COLUMN_LIMIT, Place, Places, Records, TextOptions};
use super::{FileCursor, TableFile, View};
use crate::arrow::array::ArrayRef;
use crate::schema::{Column, Kind, Schema};
use crate::{BadLine, Error, Result};
use columns::Builder;
use infer::Guess;
use scan::{QUOTE, RowScanner, Splitter};
use std::collections::HashSet;
use std::convert::Infallible;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Most rows decoded at once.
const BATCH_ROWS: usize = 4096;
/// Bytes of text after which a chunk ends, so that long rows make short chunks.
const BATCH_BYTES: usize = 1 << 20;
/// Bytes shown of a field that does not fit.
const SHOWN_BYTES: usize = 40;
const FORMAT: &str = "CSV";

/// An open CSV file.
#[derive(Debug)]
pub struct CsvFile {
    path: PathBuf,
    file: Positioned,
    delimiter: u8,
    infer_rows: u64,
    schema: Schema,
    places: Places,
}

impl CsvFile {
    /// Reads an open file once, to find its rows and what its columns hold; the path is for messages.
    pub fn of(path: &Path, file: std::fs::File, options: &TextOptions) -> Result<Self> {
        let file = Positioned::of(file).map_err(Error::io("read", path))?;
        let mut start = vec![0; BLOCK_BYTES.min(usize::try_from(file.length()).unwrap_or(BLOCK_BYTES))];
        let got = file.read_at(&mut start, 0).map_err(Error::io("read", path))?;
        start.truncate(got);
        let skip = text_start(&start).map_err(|detail| malformed(path, detail))?;
        let delimiter = options.delimiter.unwrap_or_else(|| match path.extension() {
            Some(tsv) if tsv.eq_ignore_ascii_case("tsv") => b'\t',
            _ => infer::delimiter(&start[skip..]),
        });
        if matches!(delimiter, QUOTE | b'\n' | b'\r') {
            let expected = "a character between fields, such as ; or tab".to_string();
            let text = char::from(delimiter).escape_default().to_string();
            return Err(Error::Syntax { what: "`delimiter`", text, expected });
        }
        let (infer_rows, path) = (options.infer_rows, path.to_path_buf());
        let mut csv = Self { path, file, delimiter, infer_rows, schema: Schema::default(), places: Places::new() };
        csv.index(Place { offset: skip as u64, line: 1 }, options.header)?;
        Ok(csv)
    }

    /// The one pass that finds names, rows and kinds.
    fn index(&mut self, start: Place, header: bool) -> Result<()> {
        let mut records = Records::new(self.file.clone(), RowScanner::new(self.delimiter), start);
        let mut splitter = Splitter::new(self.delimiter);
        let mut names: Option<Vec<String>> = None;
        let mut guesses = Vec::new();
        loop {
            let row = self.places.rows();
            let Some(record) = records.next().map_err(|fault| fault.error(&self.path, FORMAT, row))? else { break };
            if names.is_none() {
                let first = self.names(&mut splitter, record.bytes, header)?;
                guesses = vec![Guess::default(); first.len()];
                names = Some(first);
                if header {
                    continue;
                }
            }
            self.places.add(&record);
            if row < self.infer_rows {
                let width = guesses.len();
                let Ok(found) = splitter.split(record.bytes, |i, field| {
                    if let Some(guess) = guesses.get_mut(i) {
                        guess.observe(field);
                    }
                    Ok::<(), Infallible>(())
                });
                self.check_width(width, found, row, record.place.line)?;
            }
        }
        let Some(names) = names else { return Err(malformed(&self.path, "it is empty")) };
        let columns = names.into_iter().zip(guesses).map(|(name, guess)| Column { name, kind: guess.kind() });
        self.schema = Schema { columns: columns.collect(), ..Schema::default() };
        Ok(())
    }

    /// The names in the first row, or `x0`, `x1`, … for as many fields as it has.
    fn names(&self, splitter: &mut Splitter, first: &[u8], header: bool) -> Result<Vec<String>> {
        let (mut names, mut data) = (Vec::new(), Guess::default());
        splitter.split(first, |i, field| {
            if i == COLUMN_LIMIT {
                return Err(malformed(&self.path, format!("it has more than {COLUMN_LIMIT} columns")));
            }
            let name = match (header, std::str::from_utf8(field)) {
                (false, _) => format!("x{i}"),
                (true, Ok("")) => format!("column{i}"),
                (true, Ok(name)) => name.to_string(),
                (true, Err(_)) => {
                    return Err(malformed(&self.path, "its first line is not UTF-8; convert it with iconv"));
                }
            };
            names.push(name);
            data.observe(field);
            Ok(())
        })?;
        // different whole numbers may be names, such as years
        let numbers = matches!(data, Guess::Int | Guess::Signed | Guess::Large) && !all_different(&names);
        if header && (numbers || data == Guess::Float) {
            let detail = "its first line holds numbers instead of column names; add `no_header`, or a line of names";
            return Err(malformed(&self.path, detail));
        }
        Ok(names)
    }

    fn check_width(&self, expected: usize, found: usize, row: u64, line: u64) -> Result<()> {
        if expected == found {
            return Ok(());
        }
        let delimiter = char::from(self.delimiter).escape_default();
        let fields = |n: usize| if n == 1 { "1 field".to_string() } else { format!("{n} fields") };
        Err(Error::from(BadLine {
            path: self.path.clone(),
            row,
            line,
            column: None,
            expected: fields(expected),
            found: fields(found),
            remedy: format!("correct the line, put quotes around fields with a '{delimiter}', or set `delimiter`"),
        }))
    }

    #[cold]
    fn misfit(&self, column: usize, row: u64, line: u64, expected: &str, field: &[u8]) -> Error {
        let infer = self.infer_rows;
        let shown = String::from_utf8_lossy(&field[..field.len().min(SHOWN_BYTES)]).into_owned();
        let found = if field.len() > SHOWN_BYTES { format!("{shown:?} …") } else { format!("{shown:?}") };
        let (expected, remedy) = match self.schema.columns[column].kind {
            Kind::Text => (expected.to_string(), "convert the file to UTF-8 with iconv".to_string()),
            _ => (
                format!("{expected} as in the first {infer} rows"),
                format!("correct it, or set `infer_rows` above {row} so that the column's type allows for it"),
            ),
        };
        let column = Some(self.schema.columns[column].name.clone());
        BadLine { path: self.path.clone(), row, line, column, expected, found, remedy }.into()
    }

    fn scanner(&self) -> RowScanner {
        RowScanner::new(self.delimiter)
    }
}

impl TableFile for CsvFile {
    fn format(&self) -> &'static str {
        FORMAT
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn rows(&self) -> u64 {
        self.places.rows()
    }

    fn bytes(&self) -> u64 {
        self.file.length()
    }

    fn scanned(&self) -> u64 {
        self.file.length()
    }

    fn line(&self, row: u64) -> Option<u64> {
        self.places.line(&self.file, self.scanner(), row)
    }

    /// Bytes of a block of text, a row without its quotes, and two chunks of columns: columns of numbers have as many
    /// values as rows, and texts are as long as the chunk.
    fn footprint(&self, columns: &[usize]) -> usize {
        let text = columns.iter().filter(|column| self.schema.columns[**column].kind == Kind::Text).count();
        let chunk = BATCH_ROWS * columns.len() * 8 + if text > 0 { BATCH_BYTES + self.places.longest() } else { 0 };
        self.places.footprint() + self.places.longest() + self.schema.columns.len() * 24 + 2 * chunk
    }

    fn open<'a>(
        &'a self,
        columns: &[usize],
        rows: Range<u64>,
        read: &Arc<AtomicU64>,
    ) -> Result<Box<dyn FileCursor + 'a>> {
        let records = self.places.records(self.file.counting(read), self.scanner(), rows.start);
        let mut wanted = vec![None; self.schema.columns.len()];
        let mut builders = Vec::new();
        let slot = |column: &usize| {
            *wanted[*column].get_or_insert_with(|| {
                builders.push(Builder::new(&self.schema.columns[*column].kind));
                builders.len() - 1
            })
        };
        let slots = columns.iter().map(slot).collect();
        Ok(Box::new(CsvCursor {
            records: records.map_err(|fault| fault.error(&self.path, FORMAT, rows.start))?,
            csv: self,
            splitter: Splitter::new(self.delimiter),
            wanted,
            slots,
            builders,
            arrays: Vec::new(),
            left: rows,
        }))
    }
}

struct CsvCursor<'a> {
    csv: &'a CsvFile,
    records: Records<RowScanner>,
    splitter: Splitter,
    /// For each column of the file, its place among the builders.
    wanted: Vec<Option<usize>>,
    /// For each column asked for, its place among the builders.
    slots: Vec<usize>,
    builders: Vec<Builder>,
    arrays: Vec<ArrayRef>,
    left: Range<u64>,
}

impl FileCursor for CsvCursor<'_> {
    fn advance(&mut self) -> Result<usize> {
        let (csv, first) = (self.csv, self.left.start);
        let (mut rows, mut bytes) = (0, 0);
        self.arrays.clear();
        while rows < BATCH_ROWS && bytes < BATCH_BYTES && !self.left.is_empty() {
            let row = self.left.start;
            let record = self.records.next().map_err(|fault| fault.error(&csv.path, FORMAT, row))?;
            let Some(record) = record else {
                let detail = format!("it changed while being read: it had {} rows, now {row}", csv.rows());
                return Err(malformed(&csv.path, detail));
            };
            let (wanted, builders, mut misfit) = (&self.wanted, &mut self.builders, None);
            let Ok(found) = self.splitter.split(record.bytes, |i, field| {
                if let Some(Some(slot)) = wanted.get(i)
                    && let Err(expected) = builders[*slot].push(field)
                {
                    misfit.get_or_insert_with(|| csv.misfit(i, row, record.place.line, expected, field));
                }
                Ok::<(), Infallible>(())
            });
            // a field too many shifts the others: that is the error to tell
            csv.check_width(wanted.len(), found, row, record.place.line)?;
            if let Some(misfit) = misfit {
                return Err(misfit);
            }
            (rows, bytes) = (rows + 1, bytes + record.bytes.len());
            self.left.start += 1;
        }
        self.arrays.extend(self.builders.iter_mut().map(Builder::finish));
        debug_assert_eq!(first + rows as u64, self.left.start);
        Ok(rows)
    }

    fn view(&self, index: usize) -> Result<View<'_>> {
        let array = self.arrays.get(self.slots[index]);
        let view = array.and_then(|array| super::plain::view(&**array));
        view.ok_or_else(|| malformed(&self.csv.path, "a column is missing"))
    }
}

fn all_different(names: &[String]) -> bool {
    let mut seen = HashSet::new();
    names.iter().all(|name| seen.insert(name))
}

/// The byte at which the text starts, behind a byte order mark.
fn text_start(start: &[u8]) -> Result<usize, &'static str> {
    if start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff") {
        return Err("it is UTF-16; save it as UTF-8, or convert it with iconv -f UTF-16 -t UTF-8");
    }
    if memchr::memchr(0, start).is_some() {
        return Err("it holds zero bytes, so it is no text");
    }
    Ok(if start.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 })
}

fn malformed(path: &Path, detail: impl Into<String>) -> Error {
    Error::Malformed { path: path.to_path_buf(), format: FORMAT, detail: detail.into() }
}
