//! What a CSV file does not say about itself, its delimiter and the types of its columns; and its fields as values of
//! those types.

use super::scan::{RowScanner, Splitter};
use crate::schema::Kind;
use crate::source::text::{Builder, Scanner};
use std::convert::Infallible;

/// Delimiters that are recognised, the likelier first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Rows by which a delimiter is judged.
const JUDGED_ROWS: usize = 100;

/// Fields that stand for a missing value in columns of numbers and truth values, beside the empty field. `NaN` and
/// `nan` are the number NaN in a column of fractions, and missing in a column of whole numbers. In a column of text
/// only an empty field is missing.
const MISSING: [&[u8]; 5] = [b"NA", b"N/A", b"null", b"NULL", b"None"];

/// The delimiter that cuts the rows at the start of a file into the same number of fields; of several, that which makes
/// the most fields. A comma where none does.
pub(super) fn delimiter(start: &[u8]) -> u8 {
    let score = |delimiter: &u8| {
        let counts = counts(start, *delimiter);
        let first = counts.first().copied().unwrap_or(0);
        let alike = counts.iter().filter(|count| **count == first).count();
        if first > 1 { (alike, first) } else { (0, 0) }
    };
    // the first of equals
    let best = DELIMITERS.iter().rev().max_by_key(|delimiter| score(delimiter));
    best.copied().unwrap_or(b',')
}

/// The number of fields of each of the first rows, whole rows only where there is more than one.
fn counts(start: &[u8], delimiter: u8) -> Vec<usize> {
    let (mut scanner, mut splitter, mut line) = (RowScanner::new(delimiter), Splitter::new(delimiter), 1);
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

/// The narrowest type that all values of a column so far have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Guess {
    /// Nothing but missing values.
    #[default]
    Missing,
    Bool,
    /// Whole numbers of int64, none negative.
    Int,
    /// Whole numbers of int64, some negative.
    Signed,
    /// Whole numbers, none negative and some beyond int64.
    Large,
    Float,
    Text,
}

impl Guess {
    /// Takes the next value of the column into account.
    pub(super) fn observe(&mut self, field: &[u8]) {
        if *self == Self::Text {
            return;
        }
        let value = Self::of(field);
        *self = match (*self, value) {
            (known, Self::Missing) => known,
            (Self::Missing, value) => value,
            (known, value) if known == value => known,
            (Self::Text | Self::Bool, _) | (_, Self::Text | Self::Bool) => Self::Text,
            (Self::Int, Self::Signed) | (Self::Signed, Self::Int) => Self::Signed,
            (Self::Int, Self::Large) | (Self::Large, Self::Int) => Self::Large,
            _ => Self::Float,
        };
    }

    fn of(field: &[u8]) -> Self {
        let field = field.trim_ascii();
        if field.is_empty() || MISSING.contains(&field) || field == b"NaN" || field == b"nan" {
            Self::Missing
        } else if truth(field).is_some() {
            Self::Bool
        } else if let Some(value) = number::<i64>(field) {
            if value < 0 { Self::Signed } else { Self::Int }
        } else if number::<u64>(field).is_some() {
            Self::Large
        } else if number::<f64>(field).is_some() {
            Self::Float
        } else {
            Self::Text
        }
    }

    /// The kind that a column of such values is read as.
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Bool => Kind::Bool,
            Self::Int | Self::Signed => Kind::Int { bits: 64, signed: true },
            Self::Large => Kind::Int { bits: 64, signed: false },
            Self::Missing | Self::Float => Kind::Float { bits: 64 },
            Self::Text => Kind::Text,
        }
    }
}

/// A number as Rust's standard library reads it: fractions are rounded to the nearest float, whole numbers that do not
/// fit are none.
fn number<N: std::str::FromStr>(field: &[u8]) -> Option<N> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// The truth value of `true` or `false`, also with a capital or in capitals.
fn truth(field: &[u8]) -> Option<bool> {
    match field {
        b"true" | b"True" | b"TRUE" => Some(true),
        b"false" | b"False" | b"FALSE" => Some(false),
        _ => None,
    }
}

/// Appends a field; returns what was expected where the field is something else.
pub(super) fn push(column: &mut Builder, field: &[u8]) -> Result<(), &'static str> {
    match column {
        Builder::Float(values) => match number(field.trim_ascii()) {
            Some(value) => values.append_value(value),
            None => values.append_option(missing(field, "a number")?),
        },
        Builder::Int(values) => match number(field.trim_ascii()) {
            Some(value) => values.append_value(value),
            None => values.append_option(missing_whole(field, "a whole number of 64 bits")?),
        },
        Builder::Large(values) => match number(field.trim_ascii()) {
            Some(value) => values.append_value(value),
            None => values.append_option(missing_whole(field, "a whole number from 0 to 2^64 - 1")?),
        },
        Builder::Bool(values) => match truth(field.trim_ascii()) {
            Some(value) => values.append_value(value),
            None => values.append_option(missing_whole(field, "true or false")?),
        },
        Builder::Text(values) => match std::str::from_utf8(field) {
            Ok("") => values.append_null(),
            Ok(text) => values.append_value(text),
            Err(_) => return Err("text in UTF-8"),
        },
    }
    Ok(())
}

/// `None` for a field that stands for a missing value; else `expected` as the error.
fn missing<V>(field: &[u8], expected: &'static str) -> Result<Option<V>, &'static str> {
    let field = field.trim_ascii();
    if field.is_empty() || MISSING.contains(&field) { Ok(None) } else { Err(expected) }
}

/// [`missing`] for columns without fractions, where `NaN` stands for a missing value too.
fn missing_whole<V>(field: &[u8], expected: &'static str) -> Result<Option<V>, &'static str> {
    if matches!(field.trim_ascii(), b"NaN" | b"nan") { Ok(None) } else { missing(field, expected) }
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
        ] {
            assert_eq!(delimiter(text.as_bytes()), expected, "{text:?}");
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
            let mut guess = Guess::default();
            values.iter().for_each(|value| guess.observe(value.as_bytes()));
            assert_eq!(guess.kind().to_string(), expected, "{values:?}");
        }
    }
}
