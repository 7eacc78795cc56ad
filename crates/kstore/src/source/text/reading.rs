//! How the columns of text files are read: as the caller says, as the first rows show, or as the rows of a fit were.

use crate::dates::TimeForm;
use crate::encoding::Encoding;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::str::FromStr;

/// The type that a column of a text file is read as: `text`, `number` or `date`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnType {
    /// Text, letter by letter as in the file.
    Text,
    /// Numbers, also if they begin with zeros.
    Number(NumberForm),
    /// Dates with or without a time of day, in the form that the first rows show if it is `None`; whole numbers count the seconds,
    /// milliseconds, microseconds or nanoseconds since 1970.
    Date(Option<TimeForm>),
}

impl FromStr for ColumnType {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        match name {
            "text" => Ok(Self::Text),
            "number" => Ok(Self::Number(NumberForm { codes: true, ..NumberForm::default() })),
            "date" => Ok(Self::Date(None)),
            _ => {
                let expected = "a column is text, number or date, such as zip=text".to_string();
                Err(Error::Syntax { what: "`types`", text: name.to_string(), expected })
            }
        }
    }
}

/// How the numbers of a column are written; `None` for what the first rows show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) marks: Option<Marks>,
    /// The symbol of a currency, the unit, `%` or `0x` at every number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) affix: Option<String>,
    /// Codes such as `00501` are numbers too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) codes: bool,
}

impl std::fmt::Display for NumberForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let affix = self.affix.iter().filter(|affix| !affix.is_empty());
        f.write_str(if self.marks == Some(Marks::Comma) { " with a decimal comma" } else { "" })?;
        affix.into_iter().try_for_each(|affix| write!(f, " with {affix:?}"))
    }
}

/// The marks before decimals and between thousands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Marks {
    /// `1234.5`
    #[default]
    Point,
    /// `1,234.5`
    Grouped,
    /// `1234,5` and `1.234,5`
    Comma,
}

/// How text files were read, as far as it differs from the default: other files are read alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextReading {
    /// The types of columns, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub types: BTreeMap<String, ColumnType>,
    /// Words that stand for missing values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_words: Vec<String>,
    /// The character between fields, if the numbers of some column have commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<char>,
}

impl TextReading {
    /// True if nothing differs from the default.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what another says and this does not.
    pub fn extend(&mut self, other: &Self) {
        other.types.iter().for_each(|(name, of)| _ = self.types.entry(name.clone()).or_insert_with(|| of.clone()));
        let new = other.missing_words.iter().filter(|word| !self.missing_words.contains(word));
        self.missing_words.extend(new.cloned().collect::<Vec<_>>());
        self.delimiter = self.delimiter.or(other.delimiter);
    }

    /// Adds the types of the columns of an encoding.
    #[must_use]
    pub fn knowing(mut self, encoding: Option<&Encoding>) -> Self {
        let types = encoding.into_iter().flat_map(Encoding::text_types).collect();
        self.extend(&Self { types, ..Self::default() });
        self
    }

    /// What it says of the way in which the numbers and dates of some columns are written. Text is text in every file.
    #[must_use]
    pub fn of_columns(mut self, names: &[String]) -> Self {
        self.types.retain(|name, of| names.contains(name) && *of != ColumnType::Text && !of.is_plain());
        Self { delimiter: self.delimiter.filter(|_| self.types.values().any(ColumnType::has_commas)), ..self }
    }
}

impl ColumnType {
    /// True for numbers that are written as in every other format.
    pub(crate) fn is_plain(&self) -> bool {
        let plain = |form: &NumberForm| form.marks.unwrap_or_default() == Marks::Point;
        matches!(self, Self::Number(form) if plain(form) && !form.codes && form.affix.as_ref().is_none_or(String::is_empty))
    }

    pub(crate) fn has_commas(&self) -> bool {
        matches!(self, Self::Number(form) if form.marks.is_some_and(|marks| marks != Marks::Point))
    }
}
