//! The request for the columns that are categories.

/// Columns that are categories. As text, this is a list of names and patterns, or one of the words
/// `all` and `none`.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub enum Categories {
    /// Text columns with up to 1,000 values. Columns with more values become effects on the target.
    #[default]
    Few,
    /// All columns of text, with up to [`MAX_CLASS_LABELS`](crate::statistics::MAX_CLASS_LABELS)
    /// values each.
    All,
    /// No categories. Features are numbers and times. Text columns are not read, not even to find
    /// out whether they hold times.
    None,
    /// Columns with these names and patterns, including integers and booleans, with up to
    /// [`MAX_CLASS_LABELS`](crate::statistics::MAX_CLASS_LABELS) values each; no other text column.
    Named(Vec<String>),
}

impl From<Vec<String>> for Categories {
    fn from(names: Vec<String>) -> Self {
        match names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => Self::default(),
            ["all"] => Self::All,
            ["none"] => Self::None,
            _ => Self::Named(names),
        }
    }
}

impl From<Categories> for Vec<String> {
    fn from(categories: Categories) -> Self {
        match categories {
            Categories::Few => Self::new(),
            Categories::All => vec!["all".to_string()],
            Categories::None => vec!["none".to_string()],
            Categories::Named(names) => names,
        }
    }
}
