//! Finds the delimiter of a CSV file and the types of its columns, and converts each field to a
//! value of its column's type.

use super::scan::{Dialect, FieldSplitter, RowScanner};
use crate::dates;
use crate::missing::MISSING_WORDS;
use crate::source::text::{
    ColumnBuilder, ColumnType, InferredType, NumberFormat, NumberSeparators, Scanner, parse_number, split_affix,
};
use std::convert::Infallible;

const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Number of first rows in which fields are counted.
const DETECTION_ROWS: usize = 100;

/// Returns the delimiter that splits the largest fraction of the first rows into the same number of
/// fields. Of delimiters with equal fractions, returns the one that gives the most fields. If no
/// delimiter splits rows, returns a comma. Several rows are compared, because the first rows may be
/// a preamble.
pub(super) fn detect_delimiter(prefix: &[u8], dialect: Dialect) -> u8 {
    let score = |delimiter: &u8| {
        let field_counts = field_counts(prefix, Dialect { delimiter: *delimiter, ..dialect });
        // compare fractions: quoted fields, and so the number of rows, differ between delimiters
        let rows_per_mille = |field_count: usize| {
            field_counts.iter().filter(|count| **count == field_count).count() * 1000 / field_counts.len()
        };
        let scores = field_counts.iter().filter(|fields| **fields > 1).map(|fields| (rows_per_mille(*fields), *fields));
        // a delimiter splits at least half of the rows; a character that occurs in fewer rows is
        // part of a text
        scores.filter(|(fraction, _)| *fraction >= 500).max().unwrap_or((0, 0))
    };
    // because of `rev`, the first of equally good delimiters wins
    let best_delimiter = DELIMITERS.iter().rev().max_by_key(|delimiter| score(delimiter));
    best_delimiter.copied().unwrap_or(b',')
}

/// Returns the number of fields of each of the first rows. An incomplete last row is omitted,
/// unless it is the only row.
fn field_counts(prefix: &[u8], dialect: Dialect) -> Vec<usize> {
    let (mut scanner, mut splitter, mut line) = (RowScanner::new(dialect), FieldSplitter::new(dialect), 1);
    let (mut remaining, mut counts) = (prefix, Vec::new());
    while counts.len() < DETECTION_ROWS {
        let Some(row_start) = scanner.find_start(remaining, &mut line) else { break };
        remaining = &remaining[row_start..];
        let end = match scanner.find_end(remaining, &mut line) {
            Some(end) => end,
            None if counts.is_empty() => remaining.len(),
            None => break,
        };
        let Ok(count) = splitter.split(&remaining[..end], |_, _| Ok::<(), Infallible>(()));
        counts.push(count);
        remaining = &remaining[end..];
    }
    counts
}

/// Returns the narrowest type that holds the field. `marks` are the decimal and thousands
/// separators of a number.
pub(super) fn infer_type(field: &[u8], marks: NumberSeparators) -> InferredType {
    let field = field.trim_ascii();
    if is_missing(field, true, &[]) {
        return InferredType::Missing;
    }
    if parse_bool(field).is_some() {
        return InferredType::Bool;
    }
    let Some(field) = marks.normalise(field) else { return InferredType::Text };
    let field = &*field;
    if let Some(value) = parse_number::<i64>(field) {
        if value < 0 { InferredType::SignedInt } else { InferredType::NonNegativeInt }
    } else if parse_number::<u64>(field).is_some() {
        InferredType::UInt64
    } else if parse_number::<f64>(field).is_some() {
        InferredType::Float
    } else {
        InferredType::Text
    }
}

/// Returns whether a field is a code such as `00501`, whose leading zeros a number would lose.
pub(super) fn has_leading_zero(field: &[u8]) -> bool {
    field.len() > 1 && field[0] == b'0' && field.iter().all(u8::is_ascii_digit)
}

/// Parses `true` or `false`, also capitalised or in capitals.
fn parse_bool(field: &[u8]) -> Option<bool> {
    match field {
        b"true" | b"True" | b"TRUE" => Some(true),
        b"false" | b"False" | b"FALSE" => Some(false),
        _ => None,
    }
}

/// Appends a field to a column of this type. The error describes the expected content.
pub(super) fn append_field(
    column: &mut ColumnBuilder,
    field: &[u8],
    column_type: &ColumnType,
    missing_words: &[String],
) -> Result<(), &'static str> {
    let text = field.trim_ascii();
    match (column, column_type) {
        (ColumnBuilder::Text(values), _) => match std::str::from_utf8(field) {
            Ok(text) if text.is_empty() || missing_words.iter().any(|word| word == text) => values.append_null(),
            Ok(text) => values.append_value(text),
            Err(_) => return Err("text in UTF-8"),
        },
        (ColumnBuilder::Bool(values), _) => {
            values.append_option(value_or_missing(parse_bool(text), text, missing_words, true, "true or false")?);
        }
        (ColumnBuilder::Int(values), ColumnType::Date(date_format)) => {
            let timestamp = std::str::from_utf8(text)
                .ok()
                .and_then(|text| dates::parse_timestamp(text, date_format.unwrap_or_default()));
            values.append_option(value_or_missing(timestamp, text, missing_words, true, "a date or time")?);
        }
        (ColumnBuilder::Float(values), _) => {
            values.append_option(value_or_missing(
                parse_formatted(text, column_type),
                text,
                missing_words,
                false,
                "a number",
            )?);
        }
        (ColumnBuilder::Int(values), _) => {
            values.append_option(value_or_missing(
                parse_formatted(text, column_type),
                text,
                missing_words,
                true,
                "an integer of 64 bits",
            )?);
        }
        (ColumnBuilder::Unsigned(values), _) => {
            let expected = "an integer from 0 to 2^64 - 1";
            values.append_option(value_or_missing(
                parse_formatted(text, column_type),
                text,
                missing_words,
                true,
                expected,
            )?);
        }
    }
    Ok(())
}

fn parse_formatted<N: std::str::FromStr>(field: &[u8], column_type: &ColumnType) -> Option<N> {
    let ColumnType::Number(NumberFormat { separators: marks, affix, accepts_leading_zeros: reads_codes }) = column_type
    else {
        return parse_number(field);
    };
    let marks = marks.unwrap_or_default();
    if affix.as_ref().is_none_or(String::is_empty)
        && let Some(plain) = marks.normalise(field)
        && let Some(value) = parse_number(&plain)
    {
        return Some(value).filter(|_| *reads_codes || !has_leading_zero(field));
    }
    let number_with_affix = split_affix(field).filter(|parsed| parsed.affix == affix.as_deref().unwrap_or_default())?;
    parse_number(&number_with_affix.normalise(marks)?)
}

/// Returns the parsed value, or `None` if the field is missing. A field that was not parsed and is
/// not missing is an error, with the text `expected`.
fn value_or_missing<V>(
    value: Option<V>,
    field: &[u8],
    missing_words: &[String],
    nan_is_missing: bool,
    expected: &'static str,
) -> Result<Option<V>, &'static str> {
    if value.is_some() || is_missing(field, nan_is_missing, missing_words) { Ok(value) } else { Err(expected) }
}

/// Returns whether a field is missing in a column of numbers, dates or Booleans: it is empty, a
/// standard word for a missing value, or one of `missing_words`. `NaN` and `nan` are missing only
/// if `nan_is_missing`; callers set it for every type but floats, which store NaN. In a text column
/// only an empty field and `missing_words` are missing: see [`append_field`].
pub(super) fn is_missing(field: &[u8], nan_is_missing: bool, missing_words: &[String]) -> bool {
    field.is_empty()
        || MISSING_WORDS.iter().any(|word| word.as_bytes() == field)
        || nan_is_missing && matches!(field, b"NaN" | b"nan")
        || missing_words.iter().any(|word| word.as_bytes() == field)
}
