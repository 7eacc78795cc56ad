//! What a CSV file does not say about itself, its delimiter and the types of its columns; and its fields as values of
//! those types.

use super::scan::{Dialect, RowScanner, Splitter};
use crate::dates;
use crate::missing::WORDS;
use crate::source::text::{Builder, ColumnType, Guess, Marks, NumberForm, Scanner, number, written};
use std::convert::Infallible;

const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

const JUDGED_ROWS: usize = 100;

/// The delimiter that cuts the largest part of the rows at the start of a file into the same number
/// of fields; of several, that which makes the most fields. A comma where none does. The first rows
/// may be a preamble, and so do not decide alone.
pub(super) fn delimiter(start: &[u8], dialect: Dialect) -> u8 {
    let score = |delimiter: &u8| {
        let counts = counts(start, Dialect { delimiter: *delimiter, ..dialect });
        // another delimiter may make more rows of the same bytes
        let alike = |fields: usize| counts.iter().filter(|count| **count == fields).count() * 1000 / counts.len();
        let scores = counts.iter().filter(|fields| **fields > 1).map(|fields| (alike(*fields), *fields));
        // a mark in some rows of a single column of text is not a delimiter
        scores.filter(|(alike, _)| *alike >= 500).max().unwrap_or((0, 0))
    };
    // the first of equals
    let best = DELIMITERS.iter().rev().max_by_key(|delimiter| score(delimiter));
    best.copied().unwrap_or(b',')
}

/// The number of fields of each of the first rows, whole rows only where there is more than one.
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

/// The narrowest type of a field, which may be a number with these marks.
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

/// True for a code such as `00501`, which as a number would lose its zeros.
pub(super) fn is_code(field: &[u8]) -> bool {
    field.len() > 1 && field[0] == b'0' && field.iter().all(u8::is_ascii_digit)
}

/// The truth value of `true` or `false`, also with a capital or in capitals.
fn truth(field: &[u8]) -> Option<bool> {
    match field {
        b"true" | b"True" | b"TRUE" => Some(true),
        b"false" | b"False" | b"FALSE" => Some(false),
        _ => None,
    }
}

/// Appends a field of a column of this type; returns what was expected if the field is something else.
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
            values.append_option(optional(value(text, of), (text, words), true, "a whole number of 64 bits")?);
        }
        (Builder::Large(values), _) => {
            let expected = "a whole number from 0 to 2^64 - 1";
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

/// The value, or `None` for a field that stands for a missing one; else `expected` as the error.
fn optional<V>(
    value: Option<V>,
    (field, words): (&[u8], &[String]),
    whole: bool,
    expected: &'static str,
) -> Result<Option<V>, &'static str> {
    if value.is_some() || is_missing(field, whole, words) { Ok(value) } else { Err(expected) }
}

/// True for a field that stands for a missing value in a column of numbers, dates or truth values, also for one of these words. `NaN` and
/// `nan` are the number NaN in a column of fractions, and missing in a column of whole numbers, `whole`. In a column of text only an
/// empty field and the words are missing.
pub(super) fn is_missing(field: &[u8], whole: bool, words: &[String]) -> bool {
    field.is_empty()
        || WORDS.iter().any(|word| word.as_bytes() == field)
        || whole && matches!(field, b"NaN" | b"nan")
        || words.iter().any(|word| word.as_bytes() == field)
}
