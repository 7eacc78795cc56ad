//! Finds the delimiter of a CSV file and the types of its columns, and converts fields to values of
//! those types.

use super::scan::{Dialect, RowScanner, Splitter};
use crate::dates;
use crate::missing::WORDS;
use crate::source::text::{Builder, ColumnType, Guess, Marks, NumberForm, Scanner, number, written};
use std::convert::Infallible;

const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

const JUDGED_ROWS: usize = 100;

/// Returns the delimiter that splits the largest fraction of the first rows into the same number of
/// fields; of equal fractions, the one with the most fields; a comma if no delimiter splits rows.
/// Several rows are compared, because the first ones may be a preamble.
pub(super) fn delimiter(start: &[u8], dialect: Dialect) -> u8 {
    let score = |delimiter: &u8| {
        let counts = counts(start, Dialect { delimiter: *delimiter, ..dialect });
        // a fraction, because the delimiter determines the number of rows
        let alike = |fields: usize| counts.iter().filter(|count| **count == fields).count() * 1000 / counts.len();
        let scores = counts.iter().filter(|fields| **fields > 1).map(|fields| (alike(*fields), *fields));
        // a character in some rows of a single text column is not a delimiter
        scores.filter(|(alike, _)| *alike >= 500).max().unwrap_or((0, 0))
    };
    // `rev` prefers the first of equal delimiters
    let best = DELIMITERS.iter().rev().max_by_key(|delimiter| score(delimiter));
    best.copied().unwrap_or(b',')
}

/// Returns the number of fields of each of the first rows, without an incomplete last row unless it
/// is the only one.
fn counts(start: &[u8], dialect: Dialect) -> Vec<usize> {
    let (mut scanner, mut splitter, mut line) = (RowScanner::new(dialect), Splitter::new(dialect), 1);
    let (mut rest, mut counts) = (start, Vec::new());
    while counts.len() < JUDGED_ROWS {
        let Some(begin) = scanner.begin(rest, &mut line) else { break };
        rest = &rest[begin..];
        let end = match scanner.end(rest, &mut line) {
            Some(end) => end,
            None if counts.is_empty() => rest.len(),
            None => break,
        };
        let Ok(count) = splitter.split(&rest[..end], |_, _| Ok::<(), Infallible>(()));
        counts.push(count);
        rest = &rest[end..];
    }
    counts
}

/// Returns the narrowest type of a field, which may be a number with these marks.
pub(super) fn guess(field: &[u8], marks: Marks) -> Guess {
    let field = field.trim_ascii();
    if is_missing(field, true, &[]) {
        return Guess::Missing;
    }
    if truth(field).is_some() {
        return Guess::Bool;
    }
    let Some(field) = marks.plain(field) else { return Guess::Text };
    let field = &*field;
    if let Some(value) = number::<i64>(field) {
        if value < 0 { Guess::Signed } else { Guess::Int }
    } else if number::<u64>(field).is_some() {
        Guess::Large
    } else if number::<f64>(field).is_some() {
        Guess::Float
    } else {
        Guess::Text
    }
}

/// Returns whether a field is a code such as `00501`, which would lose its zeros as a number.
pub(super) fn is_code(field: &[u8]) -> bool {
    field.len() > 1 && field[0] == b'0' && field.iter().all(u8::is_ascii_digit)
}

/// Parses `true` or `false`, also capitalised or in capitals.
fn truth(field: &[u8]) -> Option<bool> {
    match field {
        b"true" | b"True" | b"TRUE" => Some(true),
        b"false" | b"False" | b"FALSE" => Some(false),
        _ => None,
    }
}

/// Appends a field to a column of this type; the error is the expected content.
pub(super) fn push(
    column: &mut Builder,
    field: &[u8],
    (of, words): (&ColumnType, &[String]),
) -> Result<(), &'static str> {
    let text = field.trim_ascii();
    match (column, of) {
        (Builder::Text(values), _) => match std::str::from_utf8(field) {
            Ok(text) if text.is_empty() || words.iter().any(|word| word == text) => values.append_null(),
            Ok(text) => values.append_value(text),
            Err(_) => return Err("text in UTF-8"),
        },
        (Builder::Bool(values), _) => {
            values.append_option(optional(truth(text), (text, words), true, "true or false")?);
        }
        (Builder::Int(values), ColumnType::Date(form)) => {
            let moment = std::str::from_utf8(text).ok().and_then(|text| dates::stamp(text, form.unwrap_or_default()));
            values.append_option(optional(moment, (text, words), true, "a date or time")?);
        }
        (Builder::Float(values), _) => {
            values.append_option(optional(value(text, of), (text, words), false, "a number")?);
        }
        (Builder::Int(values), _) => {
            values.append_option(optional(value(text, of), (text, words), true, "an integer of 64 bits")?);
        }
        (Builder::Large(values), _) => {
            let expected = "an integer from 0 to 2^64 - 1";
            values.append_option(optional(value(text, of), (text, words), true, expected)?);
        }
    }
    Ok(())
}

fn value<N: std::str::FromStr>(field: &[u8], of: &ColumnType) -> Option<N> {
    let ColumnType::Number(NumberForm { marks, affix, codes }) = of else { return number(field) };
    let marks = marks.unwrap_or_default();
    if affix.as_ref().is_none_or(String::is_empty)
        && let Some(plain) = marks.plain(field)
        && let Some(value) = number(&plain)
    {
        return Some(value).filter(|_| *codes || !is_code(field));
    }
    let written = written(field).filter(|written| written.affix == affix.as_deref().unwrap_or_default())?;
    number(&written.plain(marks)?)
}

/// Returns the value, or `None` for a missing value; otherwise `expected` as the error.
fn optional<V>(
    value: Option<V>,
    (field, words): (&[u8], &[String]),
    whole: bool,
    expected: &'static str,
) -> Result<Option<V>, &'static str> {
    if value.is_some() || is_missing(field, whole, words) { Ok(value) } else { Err(expected) }
}

/// Returns whether a field is missing in a column of numbers, dates or booleans: empty, a standard
/// word, or one of `words`. `NaN` and `nan` are the number NaN in a column of floats, but missing
/// if `nan_is_missing`, as in a column of integers. In a text column only an empty field and
/// `words` are missing.
pub(super) fn is_missing(field: &[u8], whole: bool, words: &[String]) -> bool {
    field.is_empty()
        || WORDS.iter().any(|word| word.as_bytes() == field)
        || whole && matches!(field, b"NaN" | b"nan")
        || words.iter().any(|word| word.as_bytes() == field)
}
