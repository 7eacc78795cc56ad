//! Formats of the columns of text files. The caller sets a format, the first rows suggest it, or a
//! model stores the format of its training file.

use crate::dates::TimeForm;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::str::FromStr;

/// The type in which a column of a text file is read: `text`, `number` or `date`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnType {
    /// Text, unchanged from the file.
    Text,
    /// Numbers in the given format.
    Number(NumberFormat),
    /// Dates with or without a time of day, in the given form; if it is `None`, the first rows
    /// determine the form. An integer in such a column counts the seconds, milliseconds,
    /// microseconds or nanoseconds since 1970.
    Date(Option<TimeForm>),
}

impl FromStr for ColumnType {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        match name {
            "text" => Ok(Self::Text),
            "number" => Ok(Self::Number(NumberFormat { accepts_leading_zeros: true, ..NumberFormat::default() })),
            "date" => Ok(Self::Date(None)),
            _ => {
                let expected = "a column is text, number or date, such as zip=text".to_string();
                Err(Error::Syntax { what: "`types`", text: name.to_string(), expected })
            }
        }
    }
}

/// Format of the numbers of a column. If a field of this struct is `None`, the first rows determine
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberFormat {
    #[serde(rename = "marks", default, skip_serializing_if = "Option::is_none")]
    pub(crate) separators: Option<NumberSeparators>,
    /// The currency symbol, unit, `%` or `0x` that every number of the column has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) affix: Option<String>,
    /// Whether codes such as `00501` are numbers.
    #[serde(rename = "codes", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) accepts_leading_zeros: bool,
}

impl std::fmt::Display for NumberFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let affix = self.affix.iter().filter(|affix| !affix.is_empty());
        f.write_str(if self.separators == Some(NumberSeparators::Comma) { " with a decimal comma" } else { "" })?;
        affix.into_iter().try_for_each(|affix| write!(f, " with {affix:?}"))
    }
}

/// Decimal mark and thousands separator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NumberSeparators {
    /// `1234.5`
    #[default]
    Point,
    /// `1,234.5`
    #[serde(rename = "grouped")]
    PointWithThousands,
    /// `1234,5` and `1.234,5`
    Comma,
}

/// The read options of text files that differ from the defaults. A model stores them, so that new
/// files are read like the training file.
#[doc(hidden)]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextReadOptions {
    /// Types of columns, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub types: BTreeMap<String, ColumnType>,
    /// Words for missing values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_words: Vec<String>,
    /// The delimiter. It is only stored if the numbers of some column have commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<char>,
}

impl TextReadOptions {
    /// Returns whether all options have their defaults.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the options of `other` that are not set here.
    pub fn fill_from(&mut self, other: &Self) {
        other
            .types
            .iter()
            .for_each(|(name, column_type)| _ = self.types.entry(name.clone()).or_insert_with(|| column_type.clone()));
        let new_words = other.missing_words.iter().filter(|word| !self.missing_words.contains(word));
        self.missing_words.extend(new_words.cloned().collect::<Vec<_>>());
        self.delimiter = self.delimiter.or(other.delimiter);
    }

    /// Keeps only the formats of the columns in `names`, and of these only dates and numbers in a
    /// non-default format. Text and plain numbers need no stored format.
    #[must_use]
    pub fn restrict_to(mut self, names: &[String]) -> Self {
        self.types.retain(|name, column_type| {
            names.contains(name) && *column_type != ColumnType::Text && !column_type.is_default_number()
        });
        Self { delimiter: self.delimiter.filter(|_| self.types.values().any(ColumnType::has_commas)), ..self }
    }
}

impl ColumnType {
    /// Returns whether the column has numbers in the default format.
    pub(crate) fn is_default_number(&self) -> bool {
        let has_default_marks = |form: &NumberFormat| form.separators.unwrap_or_default() == NumberSeparators::Point;
        matches!(self, Self::Number(form) if has_default_marks(form) && !form.accepts_leading_zeros && form.affix.as_ref().is_none_or(String::is_empty))
    }

    pub(crate) fn has_commas(&self) -> bool {
        matches!(self, Self::Number(form) if form.separators.is_some_and(|marks| marks != NumberSeparators::Point))
    }
}
