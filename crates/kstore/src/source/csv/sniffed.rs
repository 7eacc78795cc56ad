//! In which way the columns of a CSV file write their numbers, by its first lines: the mark before decimals, and the one between thousands.

use super::fields;
use crate::source::text::Guess;
use std::borrow::Cow;

/// How the numbers of a column are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Marks {
    /// `1234.5`
    #[default]
    Point,
    /// `1,234.5`
    Grouped,
    /// `1234,5` and `1.234,5`
    Comma,
}

impl Marks {
    pub(super) const ALL: [Self; 3] = [Self::Point, Self::Grouped, Self::Comma];

    /// The field as it would be written with a point and without marks between thousands; `None` for what is not written in this way.
    pub(super) fn plain(self, field: &[u8]) -> Option<Cow<'_, [u8]>> {
        let (between, decimal) = match self {
            Self::Point => return Some(Cow::Borrowed(field)),
            Self::Grouped => (b',', b'.'),
            Self::Comma => (b'.', b','),
        };
        let (whole, rest) = field.split_at(field.iter().position(|byte| *byte == decimal).unwrap_or(field.len()));
        let digits = whole.strip_prefix(b"-").or(whole.strip_prefix(b"+")).unwrap_or(whole);
        let mut groups = digits.split(|byte| *byte == between);
        let first = groups.next().unwrap_or_default();
        let grouped = (1..=3).contains(&first.len()) && first[0] != b'0' && first.iter().all(u8::is_ascii_digit);
        let sound = groups.all(|group| grouped && group.len() == 3 && group.iter().all(u8::is_ascii_digit));
        let rest = rest.strip_prefix(&[decimal]).map_or(Vec::new(), |rest| [b".", rest].concat());
        let once = !rest.iter().skip(1).any(|byte| [b'.', b','].contains(byte));
        (sound && once).then(|| whole.iter().copied().filter(|byte| *byte != between).chain(rest).collect())
    }
}

/// What the values of a column are, for each way of writing numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sniffed([Guess; 3]);

impl Sniffed {
    pub(super) fn see(&mut self, field: &[u8]) {
        for (guess, marks) in self.0.iter_mut().zip(Marks::ALL).filter(|(guess, _)| **guess != Guess::Text) {
            *guess = guess.with(fields::guess(field, marks)).unwrap_or(Guess::Text);
        }
    }

    pub(super) fn by(&self, marks: Marks) -> Guess {
        self.0[marks as usize]
    }

    /// True where numbers have other marks than a point.
    fn only(&self, marks: Marks) -> bool {
        self.by(Marks::Point) == Guess::Text && self.by(marks) != Guess::Text
    }
}

/// How the numbers of each column are written; the place of a column that could be meant in two ways as an error. Commas are decimal marks by
/// themselves where semicolons are between the fields, as spreadsheets of half the world write them, and marks between thousands where commas are.
pub(super) fn found(columns: &[Sniffed], delimiter: u8, decimal: Option<u8>) -> Result<Vec<Marks>, usize> {
    let commas = columns.iter().any(|column| column.only(Marks::Comma));
    let of = |(place, column): (usize, &Sniffed)| {
        let (comma, grouped) = (column.only(Marks::Comma), column.only(Marks::Grouped));
        Ok(match (decimal, delimiter) {
            (Some(b','), _) => Marks::Comma,
            (Some(_), _) => Marks::Point,
            // 1.234 beside columns of 1,5
            (None, b';') if comma || commas && column.by(Marks::Comma) != Guess::Text => Marks::Comma,
            (None, b',') if grouped => Marks::Grouped,
            (None, _) if comma => return Err(place),
            (None, _) if grouped => Marks::Grouped,
            (None, _) => Marks::Point,
        })
    };
    columns.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_by_their_marks_and_others_are_none() {
        let read = |marks: Marks, text: &str| {
            let plain = marks.plain(text.as_bytes())?;
            std::str::from_utf8(&plain).unwrap().parse::<f64>().ok()
        };
        for (text, grouped, comma) in [
            ("1.234,5", None, Some(1234.5)),
            ("1,234.5", Some(1234.5), None),
            ("-12,5", None, Some(-12.5)),
            ("1,234", Some(1234.0), Some(1.234)),
            ("0,123", None, Some(0.123)),
            ("1.234.567", None, Some(1_234_567.0)),
            ("1.5", Some(1.5), None),
            ("12.34,5", None, None),
            ("1,5e3", None, Some(1500.0)),
            ("1,2,3", None, None),
            (",5", None, Some(0.5)),
            ("17", Some(17.0), Some(17.0)),
            ("", None, None),
            (",", None, None),
            ("a,b", None, None),
        ] {
            assert_eq!((read(Marks::Grouped, text), read(Marks::Comma, text)), (grouped, comma), "{text}");
        }
    }
}
