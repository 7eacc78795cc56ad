//! Columns that are no features after all, and why.

use super::Distinct;

/// A column of text with more values than are taken as categories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Name of the column.
    pub column: String,
    /// What was found of its values.
    pub values: Distinct,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { column, values } = self;
        let like = match values {
            Distinct::More { repeat: false, .. } => ", and no two rows share one, as in an identifier or a comment",
            _ => "",
        };
        write!(
            f,
            "column {column} is left out: it has {values} values{like}; give `hash` 256 for features of its text, or \
             `categories` {column} for a feature of each value"
        )
    }
}
