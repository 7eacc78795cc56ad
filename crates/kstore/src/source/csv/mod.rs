//! Comma-separated values (RFC 4180) and their relatives: any delimiter, quoted fields with line ends in them, `\n`,
//! `\r\n` or `\r`, a byte order mark.
//!
//! The first row names the columns, unless [`TextOptions::without_header`] says otherwise. The first 10,000 rows
//! ([`TextOptions::infer_rows`]) say what a column holds: truth values (`true`, `false`), whole numbers of 64 bits,
//! float64, else text. A later value that does not fit is an error. Missing are an empty field and, in columns that
//! hold no text, `NA`, `N/A`, `null`, `NULL` and `None`; also `NaN` and `nan` in columns of whole numbers and truth
//! values. Spaces around numbers are ignored. Fractions are rounded correctly. Decimal commas and marks between thousands: see `sniffed`.
//!
//! Opening reads the file once to find its rows.

mod fields;
mod scan;
mod sniffed;

use super::text::{self, Builders, Guess, Refused, TextChunk, TextFormat, TextOptions, TextTable, Wrong};
use super::{Format, TableFile, View, positioned::BLOCK_BYTES};
use crate::schema::{Column, Kind};
use crate::sink::OutputKind;
use crate::sparse::COLUMN_LIMIT;
use crate::{Error, Result};
use scan::{QUOTE, RowScanner, Splitter};
use sniffed::{Marks, Sniffed};
use std::{collections::HashSet, convert::Infallible, path::Path, sync::Arc};

pub(super) const FORMAT: Format = Format::new(&["csv", "tsv"], open)
    .text()
    .written(|column| !matches!(column.kind, OutputKind::Binary | OutputKind::Sparse(_)), crate::sink::csv::create);

/// Reads an open file once, to find its rows and what its columns hold; the path is for messages.
fn open(path: &Path, file: std::fs::File, options: &TextOptions) -> Result<Arc<dyn TableFile>> {
    let (header, infer_rows) = (!options.without_header, options.infer_rows.unwrap_or(TextOptions::INFER_ROWS));
    let mut table = TextTable::new(path, file, Csv { delimiter: b',', infer_rows, marks: Vec::new() })?;
    let length = usize::try_from(table.file.length()).unwrap_or(usize::MAX);
    let start = table.file.read_new(BLOCK_BYTES.min(length), 0).map_err(|error| table.file.unread(error))?;
    let skip = text_start(&start).map_err(|detail| table.file.malformed(detail))?;
    table.format.delimiter = options.delimiter.unwrap_or_else(|| match path.extension() {
        Some(tsv) if tsv.eq_ignore_ascii_case("tsv") => b'\t',
        _ => fields::delimiter(&start[skip..]),
    });
    let delimiter = table.format.delimiter;
    if matches!(delimiter, QUOTE | b'\n' | b'\r') {
        let expected = "a character between fields, such as ; or tab".to_string();
        let text = char::from(delimiter).escape_default().to_string();
        return Err(Error::Syntax { what: "`delimiter`", text, expected });
    }
    drop(start);
    let mut splitter = Splitter::new(delimiter);
    let mut names = None;
    let mut guesses = Vec::new();
    table.index(skip as u64, |row, text| {
        if names.is_none() {
            let first = first_row(&mut splitter, text, header).map_err(Refused::File)?;
            guesses = vec![Sniffed::default(); first.len()];
            names = Some(first);
            if header {
                return Ok(false);
            }
        }
        if row < infer_rows {
            let width = guesses.len();
            let Ok(found) = splitter.split(text, |i, field| {
                guesses.get_mut(i).into_iter().for_each(|guess| guess.see(field));
                Ok::<(), Infallible>(())
            });
            check_width(delimiter, width, found)?;
        }
        Ok(true)
    })?;
    let names: Vec<String> = names.ok_or_else(|| table.file.malformed("it is empty"))?;
    table.format.marks = sniffed::found(&guesses, delimiter, options.decimal).map_err(|place| {
        let remedy = "give `decimal` , for numbers such as 1,5, or `decimal` . where they are no numbers";
        table.file.malformed(format!("the numbers of its column {:?} have commas; {remedy}", names[place]))
    })?;
    let kinds = guesses.iter().zip(&table.format.marks).map(|(guess, marks)| guess.by(*marks).kind());
    let kinds: Vec<Kind> = kinds.collect();
    Ok(Arc::new(table.with_columns(names.into_iter().zip(kinds))))
}

/// The names in the first row, or `x0`, `x1`, … for as many fields as it has; what is wrong with the file otherwise.
fn first_row(splitter: &mut Splitter, first: &[u8], header: bool) -> Result<Vec<String>, String> {
    let (mut names, mut data) = (Vec::new(), Guess::default());
    splitter.split(first, |i, field| {
        if i == COLUMN_LIMIT {
            return Err(format!("it has more than {COLUMN_LIMIT} columns"));
        }
        let name = match (header, std::str::from_utf8(field)) {
            (false, _) => format!("x{i}"),
            (true, Ok("")) => format!("column{i}"),
            (true, Ok(name)) => name.to_string(),
            (true, Err(_)) => return Err("its first line is not UTF-8; convert it with iconv".to_string()),
        };
        names.push(name);
        data = data.with(fields::guess(field, Marks::Point)).unwrap_or(Guess::Text);
        Ok(())
    })?;
    // different whole numbers may be names, such as years
    let different = names.iter().collect::<HashSet<_>>().len() == names.len();
    let numbers = matches!(data, Guess::Int | Guess::Signed | Guess::Large) && !different;
    if header && (numbers || data == Guess::Float) {
        let detail = "its first line holds numbers instead of column names; add `no_header`, or a line of names";
        return Err(detail.to_string());
    }
    Ok(names)
}

fn check_width(delimiter: u8, expected: usize, found: usize) -> Result<(), Wrong> {
    if expected == found {
        return Ok(());
    }
    let delimiter = char::from(delimiter).escape_default();
    let fields = |n: usize| if n == 1 { "1 field".to_string() } else { format!("{n} fields") };
    let remedy = format!("correct the line, put quotes around fields with a '{delimiter}', or set `delimiter`");
    Err(Wrong::new(fields(expected), fields(found), remedy))
}

#[derive(Debug)]
struct Csv {
    delimiter: u8,
    infer_rows: u64,
    /// How the numbers of each column are written.
    marks: Vec<Marks>,
}

impl Csv {
    #[cold]
    fn misfit(&self, column: &Column, row: u64, expected: &str, field: &[u8]) -> Wrong {
        let infer = self.infer_rows;
        let found = text::shown(field);
        let wrong = match column.kind {
            Kind::Text => Wrong::new(expected, found, "convert the file to UTF-8 with iconv"),
            _ => Wrong::new(
                format!("{expected} as in the first {infer} rows"),
                found,
                format!("correct it, or set `infer_rows` above {row} so that the column's type allows for it"),
            ),
        };
        wrong.of_column(&column.name)
    }
}

impl TextFormat for Csv {
    const NAME: &'static str = "CSV";
    const UNENDED: &'static str = "look there for a quote that is not closed";
    type Scanner = RowScanner;
    type Chunk<'a> = CsvChunk<'a>;

    fn note(&self, columns: &[Column]) -> Option<String> {
        let named = |marks| {
            let written = columns.iter().zip(&self.marks).filter(|(_, of)| **of == marks).map(|(column, _)| column);
            // whole numbers may have no mark at all
            written.min_by_key(|column| !matches!(column.kind, Kind::Float { .. })).map(|column| &column.name)
        };
        match (named(Marks::Comma), named(Marks::Grouped)) {
            (Some(name), _) => Some(format!("numbers such as those of column {name} are read with decimal commas")),
            (None, Some(name)) => {
                Some(format!("commas in the numbers of column {name} are read as marks between thousands"))
            }
            (None, None) => None,
        }
    }

    fn scanner(&self) -> RowScanner {
        RowScanner::new(self.delimiter)
    }

    fn chunk<'a>(&'a self, columns: &'a [Column], wanted: &[usize]) -> CsvChunk<'a> {
        let (splitter, builders) = (Splitter::new(self.delimiter), Builders::new(columns, wanted));
        CsvChunk { csv: self, splitter, columns, builders }
    }

    /// Bytes of a row without its quotes, and of the columns.
    fn chunk_bytes(&self, columns: &[&Column], longest: usize) -> usize {
        longest + Builders::bytes(columns, longest)
    }
}

struct CsvChunk<'a> {
    csv: &'a Csv,
    splitter: Splitter,
    columns: &'a [Column],
    builders: Builders,
}

impl TextChunk for CsvChunk<'_> {
    fn begin(&mut self, rows: usize) -> usize {
        self.builders.clear();
        rows
    }

    fn push(&mut self, row: u64, text: &[u8]) -> Result<(), Wrong> {
        let Self { csv, columns, builders: Builders { columns: builders, slots, .. }, .. } = self;
        let mut misfit = None;
        let Ok(found) = self.splitter.split(text, |i, field| {
            if let Some(Some(slot)) = slots.get(i)
                && let Err(expected) = fields::push(&mut builders[*slot], field, csv.marks[i])
            {
                misfit.get_or_insert_with(|| csv.misfit(&columns[i], row, expected, field));
            }
            Ok::<(), Infallible>(())
        });
        // a field too many shifts the others: that is the error to tell
        check_width(csv.delimiter, slots.len(), found)?;
        misfit.map_or(Ok(()), Err)
    }

    fn end(&mut self) {
        self.builders.finish();
    }

    fn view(&self, column: usize) -> Option<View<'_>> {
        self.builders.view(column)
    }
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
