//! Missing, NaN and infinite values.

use crate::{Error, Result};

/// Words that mean a missing value in columns that are not text, in addition to the empty text.
pub(crate) const MISSING_WORDS: [&str; 14] =
    ["NA", "N/A", "null", "NULL", "None", "na", "n/a", "#N/A", "#NA", "<NA>", "?", "-", ".", "--"];

/// Returns whether a text means a missing value in a column of times.
pub(crate) fn is_missing_word(text: &str) -> bool {
    text.is_empty() || MISSING_WORDS.contains(&text) || matches!(text, "NaT" | "NaN" | "nan")
}

/// How rows with a missing, NaN or infinite value are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", rename_all = "lowercase")]
pub enum Missing {
    /// The setting of the model's fit if a model reads the rows; otherwise [`Missing::Error`].
    #[default]
    #[serde(rename = "error")]
    Fitted,
    /// Stop with [`Error::BadValue`].
    Error,
    /// Skip the row.
    Drop,
    /// Keep the row with NaN as the value. A caller that writes an empty result for a row with NaN
    /// needs this treatment.
    Keep,
    /// Replace the value by the mean of the feature. In a target, class, group or category column,
    /// a missing value is an error.
    Mean,
    /// Replace a missing number by its mean, and set an additional indicator feature of the column
    /// to 1. For a missing category, only set the indicator. If a column had no missing values in
    /// the fit, it has no indicator: a missing number is then replaced by the mean, and a missing
    /// category is treated as an unknown category.
    Indicator,
}

impl Missing {
    /// The treatments that users can choose, in the order of messages.
    #[doc(hidden)]
    pub const ALL: [Self; 4] = [Self::Error, Self::Drop, Self::Mean, Self::Indicator];

    /// Returns the name: `error`, `drop`, `mean` or `indicator`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fitted | Self::Error => "error",
            Self::Drop | Self::Keep => "drop",
            Self::Mean => "mean",
            Self::Indicator => "indicator",
        }
    }

    /// Returns the treatment with this name.
    #[doc(hidden)]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|missing| missing.name() == name)
    }

    /// Returns whether a missing number is replaced by the mean of its column.
    pub(crate) fn fills_with_mean(self) -> bool {
        matches!(self, Self::Mean | Self::Indicator)
    }
}

/// How rows with a missing target (number or class) are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MissingTarget {
    /// Skip the row.
    Drop,
    /// Stop with [`Error::BadValue`].
    Error,
}

impl std::str::FromStr for MissingTarget {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let expected = || "choose drop or error".to_string();
        let syntax_error = |_| Error::Syntax { what: "`missing_target`", text: text.to_string(), expected: expected() };
        serde_json::from_value(text.into()).map_err(syntax_error)
    }
}

impl TryFrom<String> for Missing {
    type Error = Error;
    fn try_from(name: String) -> Result<Self> {
        let expected = || Self::ALL.map(Self::name).join(", ");
        Self::from_name(&name).ok_or_else(|| Error::Syntax { what: "`missing`", text: name, expected: expected() })
    }
}
