//! What a CSV file does not say about itself, its delimiter and the types of its columns; and its fields as values of
//! those types.

use super::scan::{Dialect, RowScanner, Splitter};
use super::sniffed::Marks;
use crate::missing::WORDS;
use crate::source::text::{Builder, Guess, Scanner, number};
use std::convert::Infallible;

/// Delimiters that are recognised, the likelier first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Rows by which a delimiter is judged.
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

pub(super) fn guess(field: &[u8], marks: Marks) -> Guess {
    let field = field.trim_ascii();
    if is_missing(field, true) {
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

/// The truth value of `true` or `false`, also with a capital or in capitals.
fn truth(field: &[u8]) -> Option<bool> {
    match field {
        b"true" | b"True" | b"TRUE" => Some(true),
        b"false" | b"False" | b"FALSE" => Some(false),
        _ => None,
    }
}

/// Appends a field, a number with these marks; returns what was expected where the field is something else.
pub(super) fn push(column: &mut Builder, field: &[u8], marks: Marks) -> Result<(), &'static str> {
    let text = field.trim_ascii();
    let plain = if let Builder::Text(_) = column { None } else { marks.plain(text) };
    // a word for a missing value has no marks
    let text = plain.as_deref().unwrap_or(text);
    match column {
        Builder::Float(values) => values.append_option(optional(number(text), text, false, "a number")?),
        Builder::Int(values) => {
            values.append_option(optional(number(text), text, true, "a whole number of 64 bits")?);
        }
        Builder::Large(values) => {
            values.append_option(optional(number(text), text, true, "a whole number from 0 to 2^64 - 1")?);
        }
        Builder::Bool(values) => values.append_option(optional(truth(text), text, true, "true or false")?),
        Builder::Text(values) => match std::str::from_utf8(field) {
            Ok("") => values.append_null(),
            Ok(text) => values.append_value(text),
            Err(_) => return Err("text in UTF-8"),
        },
    }
    Ok(())
}

/// The value, or `None` for a field that stands for a missing one; else `expected` as the error.
fn optional<V>(value: Option<V>, field: &[u8], whole: bool, expected: &'static str) -> Result<Option<V>, &'static str> {
    if value.is_some() || is_missing(field, whole) { Ok(value) } else { Err(expected) }
}

/// True for a field that stands for a missing value in a column of numbers or truth values. `NaN` and `nan` are the number NaN in a
/// column of fractions, and missing in a column of whole numbers, `whole`. In a column of text only an empty field is missing.
fn is_missing(field: &[u8], whole: bool) -> bool {
    field.is_empty() || WORDS.iter().any(|word| word.as_bytes() == field) || whole && matches!(field, b"NaN" | b"nan")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters_are_found() {
        for (text, expected) in [
            ("a,b\n1,2\n", b','),
            ("a;b\n1,5;2,5\n1,5;3\n", b';'),
            ("a\tb c\n1\t2\n", b'\t'),
            ("a|b|c\n\"x,y\"|1|2\n", b'|'),
            ("a\n1\n", b','),
            ("", b','),
            ("only;one", b';'),
            ("a,b,c\n1,\"x;\ny\",2\n", b','),
            ("sales, all\nof May\na;b;c\n1;2;3\n", b';'),
            ("review\na|b\nc\nd\n", b','),
            ("a,b\n1,\"x\n\ty\n\tz\"\n2,\"x\n\ty\n\tz\"\n", b','),
        ] {
            let dialect = Dialect { delimiter: b',', quotes: true };
            assert_eq!(delimiter(text.as_bytes(), dialect), expected, "{text:?}");
        }
    }

    #[test]
    fn kinds_follow_the_values() {
        for (values, expected) in [
            (&["1", "-2", ""][..], "int64"),
            (&["1", "NA", "nan"], "int64"),
            (&["1", " 2.5 "], "float64"),
            (&["1e3", "inf"], "float64"),
            (&["18446744073709551615", "1"], "uint64"),
            (&["18446744073709551615", "-1"], "float64"),
            (&["99999999999999999999"], "float64"),
            (&["true", "False", ""], "bool"),
            (&["true", "1"], "text"),
            (&["1", "x"], "text"),
            (&["", "NA"], "float64"),
            (&["1,5"], "text"),
        ] {
            let found = values.iter().map(|value| guess(value.as_bytes(), Marks::Point));
            let found = found.fold(Guess::Missing, |found, guess| found.with(guess).unwrap_or(Guess::Text));
            assert_eq!(found.kind().to_string(), expected, "{values:?}");
        }
    }
}
