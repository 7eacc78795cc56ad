//! Detects the number format of the columns of a CSV file from its first rows: the decimal mark and
//! the thousands separator.

use super::fields;
use crate::dates::{self, TimeForm};
use crate::schema::Kind;
use crate::source::text::{ColumnType, Guess, Marks, NumberForm, written};
use std::borrow::Cow;

/// The types of the values of a column, for each number format.
#[derive(Clone, Debug, Default)]
pub(super) struct Sniffed {
    known: Option<ColumnType>,
    by: [Guess; 3],
    some: bool,
    /// Text around the first number, which must be around all numbers.
    affix: Option<String>,
    /// The first number with an affix or an unusual sign, the first code, and the first mark of a
    /// missing value.
    marked: Option<String>,
    code: Option<String>,
    mark: Option<String>,
    /// For each form of dates, whether some value does not have this form.
    undated: [bool; DATES.len()],
}

/// Possible forms of dates, in order of preference.
const DATES: [TimeForm; 3] = [TimeForm::YearFirst, TimeForm::MonthFirst, TimeForm::DayFirst];

/// Words that mean a missing value in a column of numbers, but may be ordinary values in a text
/// column.
const MARKS: [&[u8]; 4] = [b"?", b"-", b".", b"--"];

impl Sniffed {
    pub(super) fn new(known: Option<ColumnType>) -> Self {
        Self { known, ..Self::default() }
    }

    pub(super) fn see(&mut self, field: &[u8], words: &[String]) {
        let text = field.trim_ascii();
        let shown = |text: &[u8]| Some(String::from_utf8_lossy(text).into_owned());
        let missing = fields::is_missing(text, true, words);
        self.some |= !missing;
        if let Some(ColumnType::Date(_)) = self.known {
            let read = |form| str::from_utf8(text).is_ok_and(|text| dates::stamp(text, form).is_some());
            let forms = self.undated.iter_mut().zip(DATES).filter(|_| !missing);
            forms.for_each(|(undated, form)| *undated |= !read(form));
        }
        if self.by == [Guess::Text; 3] || matches!(self.known, Some(ColumnType::Text | ColumnType::Date(_))) {
            return;
        }
        let is_code = fields::is_code(text) && !matches!(&self.known, Some(ColumnType::Number(form)) if form.codes);
        if is_code && self.code.is_none() {
            self.code = shown(text);
        }
        if missing && self.mark.is_none() && MARKS.contains(&text) {
            self.mark = shown(text);
        }
        let new = Marks::ALL.map(|marks| if missing { Guess::Missing } else { fields::guess(text, marks) });
        let is_plain = new.iter().any(|guess| *guess != Guess::Text);
        let (new, affix) = match written(text).filter(|_| !is_plain) {
            Some(number) => {
                self.marked = self.marked.take().or_else(|| shown(text));
                let guess =
                    |marks| number.plain(marks).map_or(Guess::Text, |plain| fields::guess(&plain, Marks::Point));
                (Marks::ALL.map(guess), number.affix)
            }
            None => (new, Cow::Borrowed("")),
        };
        let is_number = !matches!(new[0], Guess::Missing | Guess::Bool);
        let mixed = is_number && self.affix.get_or_insert_with(|| affix.to_string()) != &affix;
        for (guess, new) in self.by.iter_mut().zip(new).filter(|(guess, _)| **guess != Guess::Text) {
            *guess = if is_code || mixed { Guess::Text } else { guess.with(new).unwrap_or(Guess::Text) };
        }
    }

    pub(super) fn is_blank(&self) -> bool {
        !self.some
    }

    pub(super) fn by(&self, marks: Marks) -> Guess {
        self.by[marks as usize]
    }

    /// Returns whether the numbers can only be read with these marks, not with a plain point.
    fn only(&self, marks: Marks) -> bool {
        self.by(Marks::Point) == Guess::Text && self.by(marks) != Guess::Text
    }

    /// Returns the type of the column if its numbers have these marks, and the kind of its values.
    pub(super) fn resolved(&self, marks: Marks) -> (ColumnType, Kind) {
        let form = match &self.known {
            Some(ColumnType::Text) => return (ColumnType::Text, Kind::Text),
            Some(ColumnType::Date(form)) => {
                let found = DATES.into_iter().zip(self.undated).find(|(_, undated)| !undated).map(|(form, _)| form);
                return (ColumnType::Date(Some(form.or(found).unwrap_or_default())), dates::stamp_kind());
            }
            Some(ColumnType::Number(form)) => form.clone(),
            None => NumberForm::default(),
        };
        let affix = form.affix.or_else(|| self.affix.clone()).or(Some(String::new()));
        let form = NumberForm { marks: Some(marks), affix, ..form };
        match (self.by(marks), &self.known) {
            (Guess::Text, None) => (ColumnType::Text, Kind::Text),
            // a field that is not such a number is an error of its row
            (Guess::Text, Some(_)) => (ColumnType::Number(form), Kind::Float { bits: 64 }),
            (guess, _) => (ColumnType::Number(form), guess.kind()),
        }
    }

    /// Returns whether other files of the same table may fail to detect this type of the column.
    pub(super) fn is_resolved(&self, of: &ColumnType) -> bool {
        !of.is_plain() && (*of != ColumnType::Text || self.known.is_some() || self.code.is_some())
    }

    pub(super) fn notes(&self, name: &str, of: &ColumnType) -> Vec<String> {
        let number = *of != ColumnType::Text;
        let code = self.code.iter().filter(|_| !number && self.known.is_none()).map(|code| {
            format!("column {name} is read as text, because values such as {code} begin with 0; `types` {name}=number reads them as numbers")
        });
        let marked = self.marked.iter().filter(|_| number).map(|number| {
            format!("values such as {number} of column {name} are read as numbers; `types` {name}=text keeps them as they are")
        });
        let mark = self
            .mark
            .iter()
            .filter(|_| number)
            .map(|mark| format!("{mark} in column {name} is read as a missing value"));
        code.chain(marked).chain(mark).collect()
    }
}

/// Returns the number format of each column; the error is the index of an ambiguous column. Commas
/// are decimal marks if the delimiter is a semicolon, as many spreadsheets write them, and
/// thousands separators if the delimiter is a comma.
pub(super) fn found(columns: &[Sniffed], delimiter: u8, decimal: Option<u8>) -> Result<Vec<Marks>, usize> {
    let commas = columns.iter().any(|column| column.only(Marks::Comma));
    let of = |(place, column): (usize, &Sniffed)| {
        if let Some(ColumnType::Number(NumberForm { marks: Some(marks), .. })) = column.known {
            return Ok(marks);
        }
        let (comma, grouped) = (column.only(Marks::Comma), column.only(Marks::Grouped));
        Ok(match (decimal, delimiter) {
            (Some(b','), _) => Marks::Comma,
            (Some(_), _) => Marks::Point,
            // 1.234 next to columns of numbers such as 1,5
            (None, b';') if comma || commas && column.by(Marks::Comma) != Guess::Text => Marks::Comma,
            (None, b',') if grouped => Marks::Grouped,
            (None, _) if comma => return Err(place),
            (None, _) if grouped => Marks::Grouped,
            (None, _) => Marks::Point,
        })
    };
    columns.iter().enumerate().map(of).collect()
}
