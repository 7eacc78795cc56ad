//! Detects the number formats of the columns of a CSV file from its first rows: for each column the
//! decimal mark and the thousands separator.

use super::fields;
use crate::dates::{self, TimeForm};
use crate::schema::Kind;
use crate::source::text::{ColumnType, InferredType, NumberFormat, NumberSeparators, split_affix};
use std::borrow::Cow;

/// The type of the column's values so far, for each possible number format.
#[derive(Clone, Debug, Default)]
pub(super) struct ColumnSniffer {
    declared_type: Option<ColumnType>,
    inferred_types: [InferredType; 3],
    has_values: bool,
    /// The text around the first number of the column. All its numbers must have the same text
    /// around them.
    affix: Option<String>,
    /// Three examples: the first number with an affix or an unusual sign, the first code (a number
    /// with leading zeros), and the first mark of a missing value.
    first_marked: Option<String>,
    first_code: Option<String>,
    first_missing_mark: Option<String>,
    /// For each form of dates, whether some value of the column does not have this form.
    date_mismatches: [bool; DATE_FORMS.len()],
}

/// Possible forms of dates, in order of preference.
const DATE_FORMS: [TimeForm; 3] = [TimeForm::YearFirst, TimeForm::MonthFirst, TimeForm::DayFirst];

/// Words that mean a missing value in a column of numbers, but may be ordinary values in a text
/// column.
const MISSING_MARKS: [&[u8]; 4] = [b"?", b"-", b".", b"--"];

impl ColumnSniffer {
    pub(super) fn new(declared_type: Option<ColumnType>) -> Self {
        Self { declared_type, ..Self::default() }
    }

    /// Restricts the possible formats of the column by one more field.
    pub(super) fn observe(&mut self, field: &[u8], missing_words: &[String]) {
        let text = field.trim_ascii();
        let to_text = |text: &[u8]| Some(String::from_utf8_lossy(text).into_owned());
        let is_missing = fields::is_missing(text, true, missing_words);
        self.has_values |= !is_missing;
        if let Some(ColumnType::Date(_)) = self.declared_type {
            let matches_form =
                |form| str::from_utf8(text).is_ok_and(|text| dates::parse_timestamp(text, form).is_some());
            let forms = self.date_mismatches.iter_mut().zip(DATE_FORMS).filter(|_| !is_missing);
            forms.for_each(|(is_mismatch, form)| *is_mismatch |= !matches_form(form));
        }
        if self.inferred_types == [InferredType::Text; 3]
            || matches!(self.declared_type, Some(ColumnType::Text | ColumnType::Date(_)))
        {
            return;
        }
        let is_code = fields::has_leading_zero(text)
            && !matches!(&self.declared_type, Some(ColumnType::Number(form)) if form.accepts_leading_zeros);
        if is_code && self.first_code.is_none() {
            self.first_code = to_text(text);
        }
        if is_missing && self.first_missing_mark.is_none() && MISSING_MARKS.contains(&text) {
            self.first_missing_mark = to_text(text);
        }
        let field_types = NumberSeparators::ALL
            .map(|marks| if is_missing { InferredType::Missing } else { fields::infer_type(text, marks) });
        let is_plain = field_types.iter().any(|field_type| *field_type != InferredType::Text);
        let (field_types, affix) = match split_affix(text).filter(|_| !is_plain) {
            Some(number) => {
                self.first_marked = self.first_marked.take().or_else(|| to_text(text));
                let type_with = |marks| {
                    number
                        .normalise(marks)
                        .map_or(InferredType::Text, |plain| fields::infer_type(&plain, NumberSeparators::Point))
                };
                (NumberSeparators::ALL.map(type_with), number.affix)
            }
            None => (field_types, Cow::Borrowed("")),
        };
        let is_number = !matches!(field_types[0], InferredType::Missing | InferredType::Bool);
        let has_other_affix = is_number && self.affix.get_or_insert_with(|| affix.to_string()) != &affix;
        for (inferred, field_type) in
            self.inferred_types.iter_mut().zip(field_types).filter(|(inferred, _)| **inferred != InferredType::Text)
        {
            *inferred = if is_code || has_other_affix {
                InferredType::Text
            } else {
                inferred.common_type(field_type).unwrap_or(InferredType::Text)
            };
        }
    }

    pub(super) fn is_blank(&self) -> bool {
        !self.has_values
    }

    /// Returns whether the column has its type only because none of its rows had a value.
    pub(super) fn has_default_type(&self) -> bool {
        !self.has_values && self.declared_type.is_none()
    }

    pub(super) fn inferred_with(&self, marks: NumberSeparators) -> InferredType {
        self.inferred_types[marks as usize]
    }

    /// Returns whether the numbers can be read with these marks, and cannot be read with a decimal
    /// point alone.
    fn needs_marks(&self, marks: NumberSeparators) -> bool {
        self.inferred_with(NumberSeparators::Point) == InferredType::Text
            && self.inferred_with(marks) != InferredType::Text
    }

    /// Returns the type of the column and the kind of its values, if its numbers have these marks.
    pub(super) fn column_type(&self, marks: NumberSeparators) -> (ColumnType, Kind) {
        let declared_format = match &self.declared_type {
            Some(ColumnType::Text) => return (ColumnType::Text, Kind::Text),
            Some(ColumnType::Date(form)) => {
                let detected = DATE_FORMS
                    .into_iter()
                    .zip(self.date_mismatches)
                    .find(|(_, is_mismatch)| !is_mismatch)
                    .map(|(form, _)| form);
                return (ColumnType::Date(Some(form.or(detected).unwrap_or_default())), dates::timestamp_kind());
            }
            Some(ColumnType::Number(number_format)) => number_format.clone(),
            None => NumberFormat::default(),
        };
        let affix = declared_format.affix.or_else(|| self.affix.clone()).or(Some(String::new()));
        let number_format = NumberFormat { separators: Some(marks), affix, ..declared_format };
        match (self.inferred_with(marks), &self.declared_type) {
            (InferredType::Text, None) => (ColumnType::Text, Kind::Text),
            // a later field that is not a number in this format is an error in its row
            (InferredType::Text, Some(_)) => (ColumnType::Number(number_format), Kind::Float { bits: 64 }),
            (inferred, _) => (ColumnType::Number(number_format), inferred.kind()),
        }
    }

    /// Returns whether the type must be passed on to the other files of a table, because they may
    /// fail to detect it.
    pub(super) fn must_be_shared(&self, column_type: &ColumnType) -> bool {
        !column_type.is_default_number()
            && (*column_type != ColumnType::Text || self.declared_type.is_some() || self.first_code.is_some())
    }

    pub(super) fn notes(&self, name: &str, column_type: &ColumnType) -> Vec<String> {
        let is_number = *column_type != ColumnType::Text;
        let code_note = self.first_code.iter().filter(|_| !is_number && self.declared_type.is_none()).map(|code| {
            format!("column {name} is read as text, because values such as {code} begin with 0; `types` {name}=number reads them as numbers")
        });
        let affix_note = self.first_marked.iter().filter(|_| is_number).map(|number| {
            format!("values such as {number} of column {name} are read as numbers; `types` {name}=text keeps them as they are")
        });
        let missing_note = self
            .first_missing_mark
            .iter()
            .filter(|_| is_number)
            .map(|mark| format!("{mark} in column {name} is read as a missing value"));
        code_note.chain(affix_note).chain(missing_note).collect()
    }
}

/// Returns the separators in the numbers of each column. The error is the index of a column whose
/// separators are ambiguous. If the delimiter is a semicolon, commas are decimal marks, as many
/// spreadsheets write them. If the delimiter is a comma, commas in numbers are thousands
/// separators.
pub(super) fn resolve_marks(
    columns: &[ColumnSniffer],
    delimiter: u8,
    decimal: Option<u8>,
) -> Result<Vec<NumberSeparators>, usize> {
    let any_needs_comma = columns.iter().any(|column| column.needs_marks(NumberSeparators::Comma));
    let marks_of = |(index, column): (usize, &ColumnSniffer)| {
        if let Some(ColumnType::Number(NumberFormat { separators: Some(marks), .. })) = column.declared_type {
            return Ok(marks);
        }
        let (needs_comma, needs_grouped) =
            (column.needs_marks(NumberSeparators::Comma), column.needs_marks(NumberSeparators::PointWithThousands));
        Ok(match (decimal, delimiter) {
            (Some(b','), _) => NumberSeparators::Comma,
            (Some(_), _) => NumberSeparators::Point,
            // also a column of numbers such as 1.234, if another column has numbers such as 1,5
            (None, b';')
                if needs_comma
                    || any_needs_comma && column.inferred_with(NumberSeparators::Comma) != InferredType::Text =>
            {
                NumberSeparators::Comma
            }
            (None, b',') if needs_grouped => NumberSeparators::PointWithThousands,
            (None, _) if needs_comma => return Err(index),
            (None, _) if needs_grouped => NumberSeparators::PointWithThousands,
            (None, _) => NumberSeparators::Point,
        })
    };
    columns.iter().enumerate().map(marks_of).collect()
}
