//! Converts columns of categories, text and times to features.
//!
//! A **column** belongs to a file; a **feature** is a number that a kernel receives. A column of
//! numbers becomes one feature. A column of categories becomes one feature for each of its values,
//! which is 1 if the row has the value and 0 otherwise (one-hot coding). A text column with many
//! values becomes the effects of its values on the target (target encoding). If `hash` is set, such
//! a column instead becomes one feature for each bucket of a hash of the text (Weinberger,
//! Dasgupta, Langford, Smola, Attenberg, "Feature hashing for large scale multitask learning", ICML
//! 2009, here without signs). A column of dates or times becomes its position in time, and pairs of
//! features for the hour, the weekday and the day of the year. Each column may also have an
//! indicator feature, which is 1 if the value is missing.
//!
//! One pass over the rows of a fit finds the values ([`crate::search`]) and sorts them. The same
//! rows therefore give the same [`Encoding`], independent of threads, file format and the order of
//! chunks. Rows are read as codes, and become features one tile at a time: a table of features is
//! never stored.

mod categories;
pub(crate) mod effects;
pub(crate) mod entries;
mod expand;
pub(crate) mod grams;
pub(crate) mod time;

pub use categories::Categories;
#[doc(hidden)]
pub use effects::Effects;
#[doc(hidden)]
pub use entries::Entries;
pub use entries::Weighting;
pub(crate) use expand::{FeatureWriter, Lookups};
pub use grams::NGrams;
pub use time::TimeFeatures;
pub(crate) use time::TimeReader;
#[doc(hidden)]
pub use time::{Cycle, TimeEncoding};

#[doc(hidden)]
pub use crate::dates::TimeForm;

use crate::source::{ColumnType, NumberFormat, TextReadOptions};
use crate::sparse::SparseShape;
use crate::{Label, display};
use serde::{Deserialize, Serialize};

/// Maximum number of values of a text column that becomes categories without being named. Each
/// value is a feature, and adds to the cost of a kernel.
pub(crate) const MAX_CATEGORIES: usize = 1000;

/// Maximum number of hash buckets. Chosen so that a plan may still have room for this many
/// features.
pub(crate) const MAX_BUCKETS: u32 = 1 << 16;

/// How the values of a column become features.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnEncoding {
    /// The number itself, one feature.
    Number,
    /// One feature for each of these values, in ascending order.
    Values(Vec<Label>),
    /// One feature for each of this many buckets: the hash of a text selects its bucket.
    Buckets(u32),
    /// A date or time: its position, and a pair of features for each cycle.
    Time(TimeEncoding),
    /// Effects of many values on the target: one feature for each output.
    Effects(Effects),
    /// Sparse rows: room for the column numbers and values of the longest row.
    Sparse(SparseShape),
    /// Sparse rows that are weighted, or counted from text.
    Entries(Entries),
}

impl ColumnEncoding {
    /// Returns the number of features, without the indicator of missing values.
    pub fn feature_count(&self) -> usize {
        match self {
            Self::Number => 1,
            Self::Values(values) => values.len(),
            Self::Buckets(buckets) => *buckets as usize,
            Self::Time(time) => time.feature_count(),
            Self::Effects(effects) => effects.outputs.len(),
            Self::Sparse(shape) => shape.values_per_row(),
            Self::Entries(entries) => entries.feature_count(),
        }
    }
}

impl std::fmt::Display for ColumnEncoding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number => f.write_str("number"),
            Self::Values(values) => write!(f, "{} value{}", values.len(), if values.len() == 1 { "" } else { "s" }),
            Self::Buckets(buckets) => write!(f, "{buckets} buckets"),
            Self::Time(time) => time.fmt(f),
            Self::Effects(effects) => {
                write!(f, "target encoding of {} values", display::format_count(effects.values.len() as u64))
            }
            Self::Entries(Entries { shape, grams: Some(grams), .. }) => {
                write!(f, "{} of {grams}", display::format_count(shape.column_count as u64))
            }
            Self::Entries(Entries { shape, has_metric: true, .. }) => {
                write!(f, "{} columns, sparse, with factors", display::format_count(shape.column_count as u64))
            }
            Self::Sparse(shape) | Self::Entries(Entries { shape, .. }) => {
                write!(f, "{} columns, sparse", display::format_count(shape.column_count as u64))
            }
        }
    }
}

/// A column, and how it becomes features.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EncodedColumn {
    /// Name of the column.
    pub name: String,
    /// How its values become features.
    #[serde(rename = "code")]
    pub encoding: ColumnEncoding,
    /// Whether an indicator feature, after the other features, is 1 for a row without a value.
    #[serde(rename = "missing", default, skip_serializing_if = "std::ops::Not::not")]
    pub has_indicator: bool,
}

impl EncodedColumn {
    /// Returns the number of features.
    pub fn feature_count(&self) -> usize {
        self.encoding.feature_count() + usize::from(self.has_indicator)
    }

    pub(crate) fn is_unlearned(&self) -> bool {
        matches!(&self.encoding, ColumnEncoding::Effects(effects) if effects.outputs.is_empty())
    }

    /// Returns whether the column holds dates, with or without a time of day.
    pub fn is_date(&self) -> bool {
        use crate::dates::TimeForm::{DayFirst, MonthFirst, YearFirst, YearMonthDay};
        matches!(&self.encoding, ColumnEncoding::Time(time) if matches!(time.form, YearFirst | MonthFirst | DayFirst | YearMonthDay))
    }

    /// Returns the names of the features: `price`, `city=Paris`, `comment=#17`, `date.hour.sin`,
    /// `user.effect`, `city=(missing)`.
    fn feature_names(&self) -> impl Iterator<Item = String> + '_ {
        let name = &self.name;
        let names: Box<dyn Iterator<Item = String> + '_> = match &self.encoding {
            ColumnEncoding::Number => Box::new(std::iter::once(name.clone())),
            ColumnEncoding::Values(values) => Box::new(values.iter().map(move |value| format!("{name}={value}"))),
            ColumnEncoding::Buckets(buckets) => Box::new((0..*buckets).map(move |bucket| format!("{name}=#{bucket}"))),
            ColumnEncoding::Time(time) => Box::new(time.feature_names(name)),
            ColumnEncoding::Effects(effects) => {
                Box::new(effects.outputs.iter().map(move |output| format!("{name}.effect{output}")))
            }
            ColumnEncoding::Entries(entries) if entries.is_dense() => entries.feature_names(name),
            ColumnEncoding::Sparse(shape) | ColumnEncoding::Entries(Entries { shape, .. }) => {
                let entry_names = move |what: &'static str| {
                    (0..shape.values_per_row() / 2).map(move |entry| format!("{name}.{what}{entry}"))
                };
                Box::new(entry_names("place").chain(entry_names("value")))
            }
        };
        names.chain(self.has_indicator.then(|| format!("{name}=(missing)")))
    }
}

impl std::fmt::Display for EncodedColumn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.encoding, if self.has_indicator { " and missing" } else { "" })
    }
}

/// How the columns of a table become features: the columns in order, each with adjacent features.
///
/// ```
/// use kstore::encoding::{ColumnEncoding, EncodedColumn, Encoding};
/// let column = |name: &str, encoding| EncodedColumn {
///     name: name.to_string(),
///     encoding,
///     has_indicator: false,
/// };
/// let labels = ["Bonn", "Ulm"].map(|city| kstore::Label::Text(city.into()));
/// let cities = ColumnEncoding::Values(labels.to_vec());
/// let encoding =
///     Encoding::new(vec![column("price", ColumnEncoding::Number), column("city", cities)]);
/// assert_eq!(encoding.feature_names(), ["price", "city=Bonn", "city=Ulm"]);
/// ```
#[doc(hidden)]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Encoding {
    columns: Vec<EncodedColumn>,
}

impl Encoding {
    /// Returns the encoding of these columns.
    pub fn new(columns: Vec<EncodedColumn>) -> Self {
        Self { columns }
    }

    /// Returns the encoding of numeric columns.
    pub fn numeric(names: &[String]) -> Self {
        let column = |name: &String| EncodedColumn {
            name: name.clone(),
            encoding: ColumnEncoding::Number,
            has_indicator: false,
        };
        Self::new(names.iter().map(column).collect())
    }

    /// Returns the columns, in the order of their features.
    pub fn columns(&self) -> &[EncodedColumn] {
        &self.columns
    }

    /// Returns the number of features, d.
    pub fn feature_count(&self) -> usize {
        self.columns.iter().map(EncodedColumn::feature_count).sum()
    }

    /// Returns the names of the features, in their order.
    pub fn feature_names(&self) -> Vec<String> {
        self.columns.iter().flat_map(EncodedColumn::feature_names).collect()
    }

    pub(crate) fn column_of_feature(&self) -> Vec<usize> {
        let columns = self.columns.iter().enumerate();
        columns.flat_map(|(index, column)| std::iter::repeat_n(index, column.feature_count())).collect()
    }

    /// Returns, for each feature, whether it is always 0 or 1: a value, a bucket, or an indicator
    /// of missing values.
    pub fn binary_mask(&self) -> Vec<bool> {
        self.mask_without(|encoding| !matches!(encoding, ColumnEncoding::Values(_) | ColumnEncoding::Buckets(_)))
    }

    /// Returns, for each feature, whether scaling leaves it unchanged. This holds for a 0/1
    /// feature, an effect, and a part of a sparse row.
    pub(crate) fn unscaled_mask(&self) -> Vec<bool> {
        self.mask_without(|encoding| matches!(encoding, ColumnEncoding::Number | ColumnEncoding::Time(_)))
    }

    /// Returns, for each feature, whether `excluded` is false for the encoding of its column. For
    /// an indicator of missing values, the result is always true.
    fn mask_without(&self, excluded: impl Fn(&ColumnEncoding) -> bool) -> Vec<bool> {
        let column_mask = |column: &EncodedColumn| {
            let (encoded_features, is_excluded) = (column.encoding.feature_count(), excluded(&column.encoding));
            (0..column.feature_count()).map(move |i| i >= encoded_features || !is_excluded)
        };
        self.columns.iter().flat_map(column_mask).collect()
    }

    /// Returns the encoding for rows outside the fit, whose effects are estimated from all rows of
    /// the fit.
    #[must_use]
    pub fn for_new_rows(mut self) -> Self {
        for column in &mut self.columns {
            if let ColumnEncoding::Effects(effects) = &mut column.encoding {
                effects.folds = Vec::new();
            }
        }
        self
    }

    /// Returns the encoding without the factors of weighted entries, and these factors in the order
    /// of the columns. Returns `None` if the encoding has no factors. The factors are stored
    /// separately, because there may be millions of them, too many for the header of a file.
    pub fn without_factors(&self) -> Option<(Self, Vec<f64>)> {
        let factors: Vec<f64> = self
            .columns
            .iter()
            .filter_map(entries_with_factors)
            .flat_map(|entries| &entries.factors)
            .copied()
            .collect();
        let strip_factors = |column: &EncodedColumn| match entries_with_factors(column) {
            Some(entries) => EncodedColumn {
                encoding: ColumnEncoding::Entries(entries.without_factors()),
                name: column.name.clone(),
                ..*column
            },
            None => column.clone(),
        };
        (!factors.is_empty()).then(|| (Self::new(self.columns.iter().map(strip_factors).collect()), factors))
    }

    /// Returns the number of factors that [`Encoding::without_factors`] removed.
    pub fn missing_factor_count(&self) -> usize {
        let stripped_entries =
            self.columns.iter().filter_map(entries_with_factors).filter(|entries| entries.factors.is_empty());
        stripped_entries.fold(0, |sum, entries| sum.saturating_add(entries.shape.column_count))
    }

    /// Returns the encoding with these factors. Their number must be the number of missing factors.
    #[must_use]
    pub fn with_factors(mut self, mut factors: Vec<f64>) -> Self {
        for column in &mut self.columns {
            if let ColumnEncoding::Entries(entries) = &mut column.encoding
                && entries.has_factors()
                && entries.factors.is_empty()
            {
                let later_factors = factors.split_off(entries.shape.column_count.min(factors.len()));
                entries.factors = std::mem::replace(&mut factors, later_factors);
            }
        }
        self
    }

    /// Returns the shape of the rows if they are sparse.
    pub fn sparse_shape(&self) -> Option<SparseShape> {
        entries::combined_shape(&self.columns)
    }

    /// Enlarges the encoding of sparse rows so that it can also hold rows of these shapes. There is
    /// one shape for each column.
    #[must_use]
    pub fn with_capacity_for(mut self, shapes: &[SparseShape]) -> Self {
        for (column, needed_shape) in self.columns.iter_mut().zip(shapes) {
            if let ColumnEncoding::Sparse(shape) | ColumnEncoding::Entries(Entries { shape, .. }) = &mut column.encoding
            {
                *shape = shape.union(*needed_shape);
            }
        }
        self
    }

    /// Returns the types that the columns of the encoding have in text files. A column whose type
    /// is not known is omitted.
    fn text_types(&self) -> impl Iterator<Item = (String, ColumnType)> {
        let number =
            || Some(ColumnType::Number(NumberFormat { accepts_leading_zeros: true, ..NumberFormat::default() }));
        let column_type = move |encoding: &ColumnEncoding| match encoding {
            ColumnEncoding::Number
            | ColumnEncoding::Time(TimeEncoding { form: TimeForm::HourMinute | TimeForm::YearMonthDay, .. }) => {
                number()
            }
            ColumnEncoding::Values(values) => {
                values.iter().any(|value| matches!(value, Label::Text(_))).then_some(ColumnType::Text)
            }
            ColumnEncoding::Time(_)
            | ColumnEncoding::Buckets(_)
            | ColumnEncoding::Effects(_)
            | ColumnEncoding::Entries(Entries { grams: Some(_), .. }) => Some(ColumnType::Text),
            ColumnEncoding::Sparse(_) | ColumnEncoding::Entries(_) => None,
        };
        self.columns.iter().filter_map(move |column| Some((column.name.clone(), column_type(&column.encoding)?)))
    }

    pub(crate) fn is_numeric(&self) -> bool {
        self.columns.iter().all(|column| column.encoding == ColumnEncoding::Number && !column.has_indicator)
    }

    /// Returns the bytes of the values, including the lookup tables.
    pub fn bytes(&self) -> usize {
        let label_bytes = |label: &Label| match label {
            Label::Text(text) => 2 * text.len() + LOOKUP_ENTRY_BYTES,
            Label::Bool(_) | Label::Int(_) => 2 * LOOKUP_ENTRY_BYTES,
        };
        let column_bytes = |column: &EncodedColumn| match &column.encoding {
            ColumnEncoding::Values(values) => values.iter().map(label_bytes).sum(),
            ColumnEncoding::Number
            | ColumnEncoding::Buckets(_)
            | ColumnEncoding::Time(_)
            | ColumnEncoding::Sparse(_) => 0,
            ColumnEncoding::Effects(effects) => effects.bytes(),
            ColumnEncoding::Entries(entries) => entries.bytes(),
        };
        self.columns.iter().map(column_bytes).sum::<usize>() + self.feature_count() * LOOKUP_ENTRY_BYTES
    }

    /// Returns a description of the first fault, or `None` if the encoding is valid. In a valid
    /// encoding, values ascend, numbers of buckets are within their limits, and feature names are
    /// unique.
    pub fn fault(&self) -> Option<String> {
        let has_several_columns = self.columns.len() > 1;
        let allows_sparse = !has_several_columns || self.sparse_shape().is_some();
        let is_valid_shape = |shape: SparseShape| shape.is_valid() && allows_sparse;
        for column in &self.columns {
            let is_valid = match &column.encoding {
                ColumnEncoding::Number | ColumnEncoding::Time(_) => true,
                ColumnEncoding::Values(values) => values.windows(2).all(|pair| pair[0] < pair[1]),
                ColumnEncoding::Buckets(buckets) => (1..=MAX_BUCKETS).contains(buckets),
                ColumnEncoding::Effects(effects) => effects.is_valid(),
                ColumnEncoding::Sparse(shape) => is_valid_shape(*shape),
                ColumnEncoding::Entries(entries) => {
                    (entries.is_dense() || is_valid_shape(entries.shape)) && entries.is_valid()
                }
            };
            if !is_valid {
                return Some(format!("the encoding of column {:?} is invalid", column.name));
            }
        }
        let mut names = self.feature_names();
        names.sort_unstable();
        let duplicate = names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone());
        duplicate.map(|name| format!("two features are called {name:?}; rename a column"))
    }
}

/// Bytes of a value in a lookup table, or of a feature's name; in both cases without the bytes of
/// the text.
const LOOKUP_ENTRY_BYTES: usize = 64;

/// Returns the entries of a column whose weighting has a factor for each column of the sparse rows.
fn entries_with_factors(column: &EncodedColumn) -> Option<&Entries> {
    match &column.encoding {
        ColumnEncoding::Entries(entries) if entries.has_factors() => Some(entries),
        _ => None,
    }
}

impl TextReadOptions {
    /// Adds the types of the columns of an encoding.
    #[must_use]
    pub fn with_encoding(mut self, encoding: Option<&Encoding>) -> Self {
        let types = encoding.into_iter().flat_map(Encoding::text_types).collect();
        self.fill_from(&Self { types, ..Self::default() });
        self
    }
}
