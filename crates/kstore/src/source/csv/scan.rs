//! Finds the boundaries of CSV rows and of their fields.

use crate::source::text::Scanner;
use crate::sparse::MAX_DENSE_COLUMNS;
use csv_core::ReadRecordResult;
use memchr::{memchr, memchr_iter, memchr2, memchr3};

/// The quote around a field. Inside a quoted field, two quotes stand for one.
pub(super) const QUOTE: u8 = b'"';

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dialect {
    pub(super) delimiter: u8,
    /// Whether a quotation mark is a quote instead of an ordinary character.
    pub(super) has_quotes: bool,
}

/// Finds the boundaries of rows by the rules of the `csv` crate. A quote counts only at the start
/// of a field. A row ends with `\n`, `\r` or both. An empty line is not a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowScanner {
    dialect: Dialect,
    state: ScanState,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ScanState {
    FieldStart,
    /// In a field without quotes, or after the closing quote of a field.
    Unquoted,
    Quoted,
    /// After a quote in a quoted field: either it ends the field, or it is the first of two quotes.
    AfterQuote,
}

impl RowScanner {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, state: ScanState::FieldStart }
    }
}

impl Scanner for RowScanner {
    fn find_start(&mut self, bytes: &[u8], line: &mut u64) -> Option<usize> {
        self.state = ScanState::FieldStart;
        let skip = bytes.iter().position(|byte| !matches!(byte, b'\n' | b'\r'));
        let skipped = &bytes[..skip.unwrap_or(bytes.len())];
        *line += skipped.iter().filter(|byte| **byte == b'\n').count() as u64;
        skip
    }

    fn find_end(&mut self, bytes: &[u8], line: &mut u64) -> Option<usize> {
        let mut position = 0;
        while let Some(byte) = bytes.get(position) {
            match self.state {
                ScanState::FieldStart if *byte == QUOTE && self.dialect.has_quotes => {
                    (self.state, position) = (ScanState::Quoted, position + 1)
                }
                ScanState::FieldStart => self.state = ScanState::Unquoted,
                ScanState::Unquoted => match self.scan_unquoted(bytes, position) {
                    Boundary::Field(next) => position = next,
                    Boundary::Row(end) => return Some(end),
                },
                ScanState::Quoted => {
                    let distance = memchr2(QUOTE, b'\n', &bytes[position..])?;
                    match bytes[position + distance] {
                        QUOTE => self.state = ScanState::AfterQuote,
                        _ => *line += 1,
                    }
                    position += distance + 1;
                }
                ScanState::AfterQuote if *byte == QUOTE => (self.state, position) = (ScanState::Quoted, position + 1),
                ScanState::AfterQuote => self.state = ScanState::Unquoted,
            }
        }
        None
    }

    fn may_end_with_file(&self) -> bool {
        self.state != ScanState::Quoted
    }
}

/// The place at which scanning an unquoted field stopped.
enum Boundary {
    /// In a field: the position in the bytes at which scanning continues, in the same row.
    Field(usize),
    /// At the end of the row: the position after its last byte.
    Row(usize),
}

impl RowScanner {
    fn scan_unquoted(&mut self, bytes: &[u8], position: usize) -> Boundary {
        if !self.dialect.has_quotes {
            return memchr2(b'\n', b'\r', &bytes[position..])
                .map_or(Boundary::Field(bytes.len()), |distance| Boundary::Row(position + distance));
        }
        match memchr3(b'\n', b'\r', QUOTE, &bytes[position..]) {
            None => {
                // if the last byte is a delimiter, a quote at the start of the next piece opens a
                // field
                if bytes.last() == Some(&self.dialect.delimiter) {
                    self.state = ScanState::FieldStart;
                }
                Boundary::Field(bytes.len())
            }
            Some(distance) if bytes[position + distance] == QUOTE => {
                let opens_quote = distance > 0 && bytes[position + distance - 1] == self.dialect.delimiter;
                self.state = if opens_quote { ScanState::Quoted } else { ScanState::Unquoted };
                Boundary::Field(position + distance + 1)
            }
            Some(distance) => Boundary::Row(position + distance),
        }
    }
}

/// Returns whether a quoted field contains a line end and has text after its closing quote. In this
/// case, the two quotation marks are ordinary characters in different lines.
pub(super) fn is_misquoted(row: &[u8], delimiter: u8) -> bool {
    let (mut state, mut is_multiline) = (ScanState::FieldStart, false);
    for byte in row {
        state = match (state, *byte) {
            (ScanState::FieldStart, QUOTE) | (ScanState::AfterQuote, QUOTE) => ScanState::Quoted,
            (ScanState::Quoted, QUOTE) => ScanState::AfterQuote,
            (ScanState::Quoted, byte) => {
                is_multiline |= matches!(byte, b'\n' | b'\r');
                ScanState::Quoted
            }
            (_, byte) if byte == delimiter => {
                is_multiline = false;
                ScanState::FieldStart
            }
            (ScanState::AfterQuote, _) if is_multiline => return true,
            _ => ScanState::Unquoted,
        };
    }
    false
}

/// Splits rows into fields, and removes quotes.
pub(super) struct FieldSplitter {
    dialect: Dialect,
    reader: csv_core::Reader,
    field_bytes: Vec<u8>,
    field_ends: Vec<usize>,
}

impl FieldSplitter {
    pub(super) fn new(dialect: Dialect) -> Self {
        let reader = csv_core::ReaderBuilder::new().delimiter(dialect.delimiter).quote(QUOTE).build();
        Self { dialect, reader, field_bytes: Vec::new(), field_ends: Vec::new() }
    }

    /// Calls `visitor` with each field of a row, without quotes, and returns the number of fields.
    /// If there are more than [`MAX_DENSE_COLUMNS`] fields, may return any number above this
    /// maximum.
    pub(super) fn split<E>(
        &mut self,
        row: &[u8],
        mut visitor: impl FnMut(usize, &[u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        if self.dialect.has_quotes && memchr(QUOTE, row).is_some() {
            return self.split_quoted(row, visitor);
        }
        let (mut start, mut count) = (0, 0);
        for end in memchr_iter(self.dialect.delimiter, row).chain([row.len()]) {
            visitor(count, &row[start..end])?;
            (start, count) = (end + 1, count + 1);
        }
        Ok(count)
    }

    fn split_quoted<E>(
        &mut self,
        row: &[u8],
        mut visitor: impl FnMut(usize, &[u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        // the buffers have room for one more field and byte than possible, so that a full buffer
        // never means that the row is complete
        let max_fields = (memchr_iter(self.dialect.delimiter, row).count() + 2).min(MAX_DENSE_COLUMNS + 2);
        self.field_ends.resize(self.field_ends.len().max(max_fields), 0);
        self.field_bytes.resize(self.field_bytes.len().max(row.len() + 1), 0);
        self.reader.reset();
        // an empty line comes first: the reader removes a byte order mark at the start of its
        // input, but inside the file the same bytes are text
        let (mut written_bytes, mut field_count, mut remaining) = (0, 0, row);
        self.reader.read_record(b"\n", &mut [], &mut []);
        loop {
            let (result, consumed, new_bytes, new_fields) = self.reader.read_record(
                remaining,
                &mut self.field_bytes[written_bytes..],
                &mut self.field_ends[field_count..],
            );
            (remaining, written_bytes, field_count) =
                (&remaining[consumed..], written_bytes + new_bytes, field_count + new_fields);
            match result {
                // the call with the empty rest tells the reader that the row ends
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::Record | ReadRecordResult::End => break,
                // more fields than the limit
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => return Ok(MAX_DENSE_COLUMNS + 1),
            }
        }
        let mut start = 0;
        for (i, end) in self.field_ends[..field_count].iter().enumerate() {
            visitor(i, &self.field_bytes[start..*end])?;
            start = *end;
        }
        Ok(field_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    /// Splits text into rows by our scanner, fed in pieces, and into fields by our splitter.
    fn split_by_scanner(text: &[u8], delimiter: u8, piece_len: usize) -> Vec<Vec<Vec<u8>>> {
        let dialect = Dialect { delimiter, has_quotes: true };
        let (mut scanner, mut splitter, mut line) = (RowScanner::new(dialect), FieldSplitter::new(dialect), 1);
        let (mut rows, mut row, mut is_in_row) = (Vec::new(), Vec::new(), false);
        for mut bytes in text.chunks(piece_len) {
            while !bytes.is_empty() {
                let edge =
                    if is_in_row { scanner.find_end(bytes, &mut line) } else { scanner.find_start(bytes, &mut line) };
                let (before, after) = bytes.split_at(edge.unwrap_or(bytes.len()));
                if is_in_row {
                    row.extend(before);
                }
                if edge.is_some() {
                    if is_in_row {
                        rows.push(std::mem::take(&mut row));
                    }
                    is_in_row = !is_in_row;
                }
                bytes = after;
            }
        }
        rows.extend(is_in_row.then_some(row));
        let fields = |row: &Vec<u8>| {
            let mut fields = Vec::new();
            let Ok(count) = splitter.split(row, |_, field| {
                fields.push(field.to_vec());
                Ok::<(), Infallible>(())
            });
            assert_eq!(count, fields.len());
            fields
        };
        rows.iter().map(fields).collect()
    }

    /// Splits text into rows and fields by the `csv` crate.
    fn split_by_csv_crate(text: &[u8], delimiter: u8) -> Vec<Vec<Vec<u8>>> {
        let mut reader =
            csv::ReaderBuilder::new().has_headers(false).flexible(true).delimiter(delimiter).from_reader(text);
        reader.byte_records().map(|row| row.unwrap().iter().map(<[u8]>::to_vec).collect()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

        #[test]
        fn rows_and_fields_are_those_of_the_csv_crate(
            letters in prop::collection::vec(prop::sample::select(b"aB1,,;\"\"\"\n\n\r\xc3".to_vec()), 0..60),
            piece in 1usize..20,
        ) {
            for delimiter in [b',', b';'] {
                prop_assert_eq!(split_by_scanner(&letters, delimiter, piece), split_by_csv_crate(&letters, delimiter));
            }
        }
    }

    #[test]
    fn lines_are_counted_inside_quotes_too() {
        let text = b"\n\na,\"b\nc\"\r\n\r\nd,e\n";
        let dialect = Dialect { delimiter: b',', has_quotes: true };
        let (mut scanner, mut line) = (RowScanner::new(dialect), 1);
        let start = scanner.find_start(text, &mut line).unwrap();
        assert_eq!((start, line), (2, 3));
        let end = start + scanner.find_end(&text[start..], &mut line).unwrap();
        assert_eq!(&text[start..end], b"a,\"b\nc\"");
        let next = end + scanner.find_start(&text[end..], &mut line).unwrap();
        assert_eq!((text[next], line), (b'd', 6));
    }

    #[test]
    fn a_byte_order_mark_inside_the_file_is_text() {
        let row = "\u{feff}a,\"b\"".as_bytes();
        assert_eq!(split_by_scanner(row, b',', 100), [["\u{feff}a".as_bytes().to_vec(), b"b".to_vec()]]);
    }
}
