//! Comma-separated values (RFC 4180) and variants: any delimiter, any line end (`\n`, `\r\n` or
//! `\r`), quoted fields that contain line ends, and a byte order mark.
//!
//! The first row names the columns, unless [`TextOptions::without_header`] is set. The first 10,000
//! rows ([`TextOptions::infer_rows`]) determine the type of each column: booleans (`true`,
//! `false`), 64-bit integers, float64, or text if none of these fits. If a later value has another
//! type, it is an error.
//!
//! An empty field is missing. In columns other than text, words such as `NA`, `null`, `?` and `-`
//! are missing too; in columns of integers and booleans, `NaN` and `nan` are also missing. Spaces
//! around numbers are ignored. Integers that begin with 0 are codes, which are text. A decimal
//! number becomes the nearest float64.
//!
//! Options permit a preamble ([`TextOptions::skip_lines`]), files without quotes
//! ([`TextOptions::without_quotes`]) and rows with fewer fields than names
//! ([`TextOptions::pad_rows`]). The module `column_sniffer` describes decimal commas and thousands
//! separators, and `number_notation` describes numbers with a unit, a currency or `%`.
//!
//! Opening reads the file once to find its rows.

mod column_sniffer;
mod fields;
mod scan;

use super::text::{
    self, CONVERT_TO_UTF8, ColumnBuilders, ColumnType, IndexError, InferredType, NumberSeparators, RowError, RowStart,
    TextChunk, TextFormat, TextOptions, TextReadOptions, TextTable,
};
use super::{ColumnView, Format, TableFile};
use crate::OutputKind;
use crate::schema::{Column, Kind};
use crate::sparse::MAX_DENSE_COLUMNS;
use crate::{Error, Result};
use column_sniffer::ColumnSniffer;
use scan::{Dialect, FieldSplitter, QUOTE, RowScanner};
use std::{collections::HashSet, convert::Infallible, fs::File, path::Path, sync::Arc};

/// Maximum number of notes that are shown; further notes are counted.
const MAX_NOTES: usize = 4;

pub(super) const FORMAT: Format = Format::new(&["csv", "tsv"], open)
    .text()
    .writable(|column| !matches!(column.kind, OutputKind::Binary | OutputKind::Sparse(_)), crate::writer::csv::create);

/// Reads an open file once, to find its rows and the types of its columns. The path is for
/// messages.
///
/// In a tab-separated file that does not quote fields, a quotation mark is an ordinary character.
/// If it were treated as a quote, the lines up to the next quotation mark would become one field.
/// The file is therefore read a second time without quotes, if with quotes a field contains a line
/// end or a row is malformed, such as a row with the wrong number of fields. The second result is
/// used if every line has as many fields as there are names, there are at least two columns, and no
/// name contains a quotation mark.
fn open(path: &Path, file: File, options: &TextOptions) -> Result<Arc<dyn TableFile>> {
    let second_handle = file.try_clone().map_err(Error::io("read", path))?;
    let (mut is_tab_separated, mut has_multiline_fields) = (false, false);
    let quoted_table =
        read_table(path, file, options, !options.without_quotes, &mut is_tab_separated, &mut has_multiline_fields);
    if !options.without_quotes
        && is_tab_separated
        && (has_multiline_fields || matches!(quoted_table, Err(Error::BadLine(_))))
        && let Ok(mut unquoted_table) =
            read_table(path, second_handle, options, false, &mut is_tab_separated, &mut has_multiline_fields)
        && unquoted_table.metadata().schema.columns.len() > 1
        && !unquoted_table.metadata().schema.columns.iter().any(|column| column.name.as_bytes().contains(&QUOTE))
    {
        let note = "quotation marks are read as ordinary characters: quoted fields would span several lines";
        unquoted_table.format.notes.insert(0, note.to_string());
        return Ok(Arc::new(unquoted_table));
    }
    Ok(Arc::new(quoted_table?))
}

/// Reads a file, and reports whether tabs separate its fields, and whether a quoted field contains
/// a line end. Without `has_quotes`, every row must have as many fields as there are names.
fn read_table(
    path: &Path,
    file: File,
    options: &TextOptions,
    interprets_quotes: bool,
    is_tab_separated: &mut bool,
    has_multiline_fields: &mut bool,
) -> Result<TextTable<Csv>> {
    let (has_header, infer_rows) = (!options.without_header, options.infer_rows.unwrap_or(TextOptions::INFER_ROWS));
    let dialect = Dialect { delimiter: b',', has_quotes: interprets_quotes };
    let csv = Csv { dialect, infer_rows, pad_rows: options.pad_rows, ..Csv::default() };
    let mut table = TextTable::new(path, file, csv)?;
    let (first_bytes, mut start) = table.first_block()?;
    if options.skip_lines > 0 {
        let mut lines = memchr::memchr_iter(b'\n', &first_bytes[start.offset as usize..]);
        let end = usize::try_from(options.skip_lines - 1).ok().and_then(|line| lines.nth(line));
        let Some(end) = end else {
            let detail = format!("it has no line after `skip_lines` {}; give a smaller number", options.skip_lines);
            return Err(table.file.malformed_error(detail));
        };
        start = RowStart { offset: start.offset + end as u64 + 1, line: options.skip_lines + 1 };
    }
    table.format.dialect.delimiter = options.delimiter.unwrap_or_else(|| match path.extension() {
        Some(tsv) if tsv.eq_ignore_ascii_case("tsv") => b'\t',
        _ => fields::detect_delimiter(&first_bytes[start.offset as usize..], dialect),
    });
    let dialect = table.format.dialect;
    let delimiter = dialect.delimiter;
    if matches!(delimiter, QUOTE | b'\n' | b'\r') {
        let expected = "a character between fields, such as ; or tab".to_string();
        let text = char::from(delimiter).escape_default().to_string();
        return Err(Error::Syntax { what: "`delimiter`", text, expected });
    }
    drop(first_bytes);
    *is_tab_separated = delimiter == b'\t';
    let mut splitter = FieldSplitter::new(dialect);
    let mut names: Option<Vec<String>> = None;
    let mut sniffers = Vec::new();
    let missing_words = options.missing_words.as_slice();
    table.index_rows(start, |row, text| {
        if interprets_quotes && memchr::memchr2(b'\n', b'\r', text).is_some() {
            *has_multiline_fields = true;
            if scan::is_misquoted(text, delimiter) {
                let expected = "a delimiter or the end of the row after a closing quote";
                let remedy = "close the quoted field on its line, write \"\" for a quote inside it, or set `no_quotes`";
                return Err(RowError::new(expected, "text after a field that spans several lines", remedy).into());
            }
        }
        if names.is_none() {
            let first_names = column_names(&mut splitter, text, has_header).map_err(IndexError::File)?;
            sniffers = first_names.iter().map(|name| ColumnSniffer::new(options.type_of(name))).collect::<Vec<_>>();
            names = Some(first_names);
            if has_header {
                return Ok(false);
            }
        }
        if row < infer_rows || !interprets_quotes {
            let width = sniffers.len();
            let Ok(field_count) = splitter.split(text, |i, field| {
                sniffers
                    .get_mut(i)
                    .filter(|_| row < infer_rows)
                    .into_iter()
                    .for_each(|sniffer| sniffer.observe(field, missing_words));
                Ok::<(), Infallible>(())
            });
            check_field_count(delimiter, width, field_count, options.pad_rows)?;
        }
        Ok(true)
    })?;
    let names: Vec<String> = names.ok_or_else(|| table.file.malformed_error("it is empty"))?;
    let marks = column_sniffer::resolve_marks(&sniffers, delimiter, options.decimal).map_err(|index| {
        let remedy = "give `decimal` , for numbers such as 1,5, or `decimal` . if they are not numbers";
        table.file.malformed_error(format!("the numbers of its column {:?} contain commas; {remedy}", names[index]))
    })?;
    let columns: Vec<_> = sniffers.iter().zip(marks).map(|(sniffer, marks)| sniffer.column_type(marks)).collect();
    check_delimiter(delimiter, options, &names).map_err(|detail| table.file.malformed_error(detail))?;
    let mut reading = TextReadOptions {
        missing_words: missing_words.to_vec(),
        delimiter: Some(char::from(delimiter)),
        ..TextReadOptions::default()
    };
    for ((name, sniffer), (column_type, _)) in names.iter().zip(&sniffers).zip(&columns) {
        table.format.notes.extend(sniffer.notes(name, column_type));
        if sniffer.must_be_shared(column_type) {
            reading.types.insert(name.clone(), column_type.clone());
        }
    }
    table.format.reading = reading;
    let (types, kinds): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    table.format.types = types;
    table.format.has_default_type = sniffers.iter().map(ColumnSniffer::has_default_type).collect();
    let all_missing = sniffers.iter().map(ColumnSniffer::is_blank).collect();
    Ok(table.with_columns(names.into_iter().zip(kinds)).with_all_missing(all_missing))
}

/// Returns the names in the first row or, without a header, `x0`, `x1`, … for its fields. The error
/// is a phrase about the file, such as `it has more than …`; the caller adds the path.
fn column_names(splitter: &mut FieldSplitter, first_row: &[u8], has_header: bool) -> Result<Vec<String>, String> {
    let (mut names, mut inferred) = (Vec::new(), InferredType::default());
    splitter.split(first_row, |i, field| {
        if i == MAX_DENSE_COLUMNS {
            return Err(format!("it has more than {MAX_DENSE_COLUMNS} columns"));
        }
        let name = match (has_header, std::str::from_utf8(field)) {
            (false, _) => format!("x{i}"),
            (true, Ok("")) => format!("column{i}"),
            (true, Ok(name)) => name.to_string(),
            (true, Err(_)) => return Err(format!("its first line is not UTF-8; {CONVERT_TO_UTF8}")),
        };
        names.push(name);
        inferred =
            inferred.common_type(fields::infer_type(field, NumberSeparators::Point)).unwrap_or(InferredType::Text);
        Ok(())
    })?;
    // integers may be names, such as years, if they are distinct
    let are_distinct = names.iter().collect::<HashSet<_>>().len() == names.len();
    let are_repeated_integers =
        matches!(inferred, InferredType::NonNegativeInt | InferredType::SignedInt | InferredType::UInt64)
            && !are_distinct;
    if has_header && (are_repeated_integers || inferred == InferredType::Float) {
        let detail = "its first line holds numbers instead of column names; add `no_header`, or a line of names";
        return Err(detail.to_string());
    }
    Ok(names)
}

/// If numbers have commas, rejects a delimiter that differs from the delimiter of the fit, because
/// a comma may have another meaning in this file.
fn check_delimiter(delimiter: u8, options: &TextOptions, names: &[String]) -> Result<(), String> {
    let file_delimiter = char::from(delimiter);
    let Some(fitted_delimiter) = options.reading.delimiter.filter(|fitted| *fitted != file_delimiter) else {
        return Ok(());
    };
    let has_commas = |name: &&String| options.type_of(name).is_some_and(|column_type| column_type.has_commas());
    let is_explicit = options.delimiter.is_some() || options.decimal.is_some();
    let Some(name) = names.iter().find(has_commas).filter(|_| !is_explicit) else { return Ok(()) };
    let (own_escaped, fitted_escaped) = (file_delimiter.escape_default(), fitted_delimiter.escape_default());
    Err(format!(
        "its delimiter is '{own_escaped}', but '{fitted_escaped}' in the table of the fit, and the numbers of column {name:?} have commas; \
         give `decimal` to state its decimal mark"
    ))
}

fn check_field_count(delimiter: u8, expected_count: usize, field_count: usize, pad_rows: bool) -> Result<(), RowError> {
    if expected_count == field_count || pad_rows && field_count < expected_count {
        return Ok(());
    }
    let delimiter = char::from(delimiter).escape_default();
    let format_fields = |n: usize| if n == 1 { "1 field".to_string() } else { format!("{n} fields") };
    let remedy = match field_count < expected_count {
        true => "set `pad_rows` to treat the fields at its end as missing, or set `delimiter`".to_string(),
        false => format!(
            "put quotes around fields with a '{delimiter}', set `delimiter`, skip lines before the names with `skip_lines`, \
             or remove comment lines with grep -v '^#' FILE | kmill … -"
        ),
    };
    let remedy = format!("correct the line, {remedy}");
    Err(RowError::new(format_fields(expected_count), format_fields(field_count), remedy))
}

#[derive(Debug, Default)]
struct Csv {
    dialect: Dialect,
    infer_rows: u64,
    /// Whether rows may have fewer fields than names.
    pad_rows: bool,
    types: Vec<ColumnType>,
    /// For each column, whether all rows that determine its type miss its value.
    has_default_type: Vec<bool>,
    reading: TextReadOptions,
    notes: Vec<String>,
}

impl Csv {
    #[cold]
    fn value_error(&self, (index, column): (usize, &Column), row: u64, expected: &str, field: &[u8]) -> RowError {
        let infer_rows = self.infer_rows;
        let expected = match &self.types[index] {
            ColumnType::Number(form) => format!("{expected}{form}"),
            _ => expected.to_string(),
        };
        let found = text::quote_field(field);
        let error = match column.kind {
            Kind::Text => RowError::new(expected, found, CONVERT_TO_UTF8),
            _ if row < infer_rows => {
                RowError::new(expected, found, "write it like the other rows, or give `decimal` or `types`")
            }
            _ if self.has_default_type[index] => RowError::new(
                format!("{expected}, because the column was missing in the first {infer_rows} rows"),
                found,
                format!("give `types` {}=text, or set `infer_rows` above {row}", column.name),
            ),
            _ => RowError::new(
                format!("{expected} as in the first {infer_rows} rows"),
                found,
                format!("correct it, or set `infer_rows` above {row} so that it determines the type of the column"),
            ),
        };
        error.in_column(&column.name)
    }
}

impl TextFormat for Csv {
    const NAME: &'static str = "CSV";
    const ROW_REMEDY: &'static str = "check the row for an unclosed quote";
    type Scanner = RowScanner;
    type Chunk<'a> = CsvChunk<'a>;

    fn note(&self, columns: &[Column]) -> Option<String> {
        let column_with = |marks| {
            let has_marks = |column_type: &ColumnType| matches!(column_type, ColumnType::Number(form) if form.separators == Some(marks));
            let marked_columns = columns
                .iter()
                .zip(&self.types)
                .filter(|(_, column_type)| has_marks(column_type))
                .map(|(column, _)| column);
            // a column of floats is preferred, because integers may have no marks at all
            marked_columns.min_by_key(|column| !matches!(column.kind, Kind::Float { .. })).map(|column| &column.name)
        };
        let comma_note = match (column_with(NumberSeparators::Comma), column_with(NumberSeparators::PointWithThousands))
        {
            (Some(name), _) => Some(format!("numbers such as those of column {name} are read with decimal commas")),
            (None, Some(name)) => {
                Some(format!("commas in the numbers of column {name} are read as thousands separators"))
            }
            (None, None) => None,
        };
        let omitted_count = self.notes.len().saturating_sub(MAX_NOTES);
        let omitted_note = (omitted_count > 0).then(|| format!("{omitted_count} more notes of this kind"));
        let notes: Vec<String> =
            comma_note.into_iter().chain(self.notes.iter().take(MAX_NOTES).cloned()).chain(omitted_note).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    fn reading(&self) -> TextReadOptions {
        self.reading.clone()
    }

    fn scanner(&self) -> RowScanner {
        RowScanner::new(self.dialect)
    }

    fn chunk<'a>(&'a self, columns: &'a [Column], requested: &[usize]) -> CsvChunk<'a> {
        let (splitter, builders) = (FieldSplitter::new(self.dialect), ColumnBuilders::new(columns, requested));
        CsvChunk { csv: self, splitter, columns, builders }
    }

    /// Returns the bytes of a row without its quotes, and of the columns of a chunk.
    fn chunk_bytes(&self, columns: &[&Column], longest_row: usize) -> usize {
        longest_row + ColumnBuilders::max_chunk_bytes(columns, longest_row)
    }
}

struct CsvChunk<'a> {
    csv: &'a Csv,
    splitter: FieldSplitter,
    columns: &'a [Column],
    builders: ColumnBuilders,
}

impl TextChunk for CsvChunk<'_> {
    fn begin_chunk(&mut self, rows: usize) -> usize {
        self.builders.clear();
        rows
    }

    fn push_row(&mut self, row: u64, text: &[u8]) -> Result<(), RowError> {
        let Self { csv, columns, builders: ColumnBuilders { columns: builders, builder_indices: slots, .. }, .. } =
            self;
        let mut first_error = None;
        let Ok(field_count) = self.splitter.split(text, |i, field| {
            if let Some(Some(slot)) = slots.get(i)
                && let Err(expected) =
                    fields::append_field(&mut builders[*slot], field, &csv.types[i], &csv.reading.missing_words)
            {
                first_error.get_or_insert_with(|| csv.value_error((i, &columns[i]), row, expected, field));
            }
            Ok::<(), Infallible>(())
        });
        // this error is reported first, because an additional field shifts all fields after it
        check_field_count(csv.dialect.delimiter, slots.len(), field_count, csv.pad_rows)?;
        for (i, slot) in slots.iter().enumerate().skip(field_count) {
            let builder = slot.map(|slot| &mut builders[slot]);
            // an empty field is missing in every column
            builder.into_iter().for_each(|builder| _ = fields::append_field(builder, b"", &csv.types[i], &[]));
        }
        first_error.map_or(Ok(()), Err)
    }

    fn end_chunk(&mut self) {
        self.builders.finish();
    }

    fn view(&self, column: usize) -> Option<ColumnView<'_>> {
        self.builders.view(column)
    }
}
