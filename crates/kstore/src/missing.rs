//! Values that are missing, NaN or infinite.

use crate::{Error, Result};

/// Texts that stand for a missing value beside the empty one, if a column holds no text.
pub(crate) const WORDS: [&str; 14] =
    ["NA", "N/A", "null", "NULL", "None", "na", "n/a", "#N/A", "#NA", "<NA>", "?", "-", ".", "--"];

/// True for a text that stands for a missing value among times.
pub(crate) fn is_word(text: &str) -> bool {
    text.is_empty() || WORDS.contains(&text) || matches!(text, "NaT" | "NaN" | "nan")
}

/// How rows with a missing, NaN or infinite value are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", rename_all = "lowercase")]
pub enum Missing {
    /// As the rows of the model's fit were, where a model reads the rows; else as [`Missing::Error`].
    #[default]
    #[serde(rename = "error")]
    Fitted,
    /// Stop with [`Error::BadValue`].
    Error,
    /// Leave the row out.
    Drop,
    /// Keep the row with NaN in place of the value, for a reader that writes an empty result for the row.
    Keep,
    /// Put the feature's mean in its place; an error in a target, class or fold column, and in one of categories.
    Mean,
    /// Put the mean of a number in its place and 1 in one more feature of the column; for a category, that feature alone. Columns without
    /// a missing value in the rows of the fit have no such feature: there it is the mean, or a category like no other.
    Indicator,
}

impl Missing {
    /// Those that have a name of their own, in the order of their names in messages.
    pub const ALL: [Self; 4] = [Self::Error, Self::Drop, Self::Mean, Self::Indicator];

    /// The name: `error`, `drop`, `mean` or `indicator`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fitted | Self::Error => "error",
            Self::Drop | Self::Keep => "drop",
            Self::Mean => "mean",
            Self::Indicator => "indicator",
        }
    }

    /// The treatment of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|missing| missing.name() == name)
    }

    /// True where a missing number becomes the mean of its column.
    pub(crate) fn fills(self) -> bool {
        matches!(self, Self::Mean | Self::Indicator)
    }
}

/// How rows without a target are treated: without a number, or without a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MissingTarget {
    /// Leave the row out.
    Drop,
    /// Stop with [`Error::BadValue`].
    Error,
}

impl std::str::FromStr for MissingTarget {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let expected = || "drop or error".to_string();
        let wrong = |_| Error::Syntax { what: "`missing_target`", text: text.to_string(), expected: expected() };
        serde_json::from_value(text.into()).map_err(wrong)
    }
}

impl TryFrom<String> for Missing {
    type Error = Error;
    fn try_from(name: String) -> Result<Self> {
        let expected = || Self::ALL.map(Self::name).join(", ");
        Self::named(&name).ok_or_else(|| Error::Syntax { what: "`missing`", text: name, expected: expected() })
    }
}
