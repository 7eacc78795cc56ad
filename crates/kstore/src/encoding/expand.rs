//! Converts rows of codes to features of a tile, which has the rows that a pass processes at once.

use super::entries::{EntryColumn, EntryColumns, EntryRowBuffer};
use super::{ColumnEncoding, Effects, EncodedColumn, Encoding, TimeEncoding, TimeReader};
use crate::convert::{CONVERT_TILE_ROWS, FeatureScaling};
use crate::schema::Kind;
use crate::view::{ColumnView, RowIndices, Values};
use crate::{Digest, Float, Label, labels};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An encoding, with a lookup table from values to features for each column.
#[derive(Debug)]
pub(crate) struct Lookups {
    pub(crate) encoding: Encoding,
    pub(crate) feature_names: Vec<String>,
    column_lookups: Vec<Lookup>,
    pub(crate) first_features: Vec<usize>,
    /// Set if all columns produce entries of sparse rows.
    entry_columns: Option<EntryColumns>,
}

/// How the values of one column are converted to features.
#[derive(Debug)]
enum Lookup {
    Number,
    Values(Dictionary),
    Buckets(u32),
    Time(TimeReader, TimeEncoding),
    /// Index of each value in the effects, by the digest of its text.
    Effects(HashMap<u64, u32>, Effects),
    DenseEntries(Box<EntryColumn>),
    /// Sparse rows next to features of other columns.
    SparseRows(EntryColumns),
    /// Nothing: all columns produce entries of the same sparse rows (`Lookups::entry_columns`).
    None,
}

/// The codes of values. An integer and its text have the same code, because one file may store the
/// integer 7, and another file the text `7`.
#[derive(Debug, Default)]
struct Dictionary {
    integer_codes: HashMap<i64, u32>,
    text_codes: HashMap<Arc<str>, u32>,
}

impl Dictionary {
    fn new(values: &[Label]) -> Self {
        let mut dictionary = Self::default();
        for (code, value) in (0u32..).zip(values) {
            match value {
                Label::Int(value) => _ = dictionary.integer_codes.insert(*value, code),
                Label::Text(text) => _ = dictionary.text_codes.insert(Arc::clone(text), code),
                Label::Bool(value) => _ = dictionary.text_codes.insert(bool_text(*value).into(), code),
            }
        }
        // also enter each value in its other form, as text or as integer, unless that form has a
        // code
        for (code, value) in (0u32..).zip(values) {
            match value {
                Label::Int(value) => _ = dictionary.text_codes.entry(value.to_string().into()).or_insert(code),
                Label::Text(text) => {
                    // 007 and 7 are different values
                    let integer = text.parse::<i64>().ok().filter(|number| number.to_string() == **text);
                    integer.into_iter().for_each(|number| _ = dictionary.integer_codes.entry(number).or_insert(code));
                }
                Label::Bool(_) => {}
            }
        }
        dictionary
    }

    fn code(&self, view: &ColumnView<'_>, row: usize) -> Option<usize> {
        let code = match category_value(view, row)? {
            CategoryValue::Text(text) => self.text_codes.get(text),
            CategoryValue::Int(integer) => self.integer_codes.get(&integer),
        };
        code.map(|code| *code as usize)
    }
}

impl Lookups {
    pub(crate) fn new<'a>(encoding: Encoding, kinds: impl Iterator<Item = &'a Kind>) -> Self {
        let entry_columns = EntryColumns::new(encoding.columns());
        let column_lookup = |(column, kind): (&EncodedColumn, &Kind)| match &column.encoding {
            ColumnEncoding::Number => Lookup::Number,
            ColumnEncoding::Values(values) => Lookup::Values(Dictionary::new(values)),
            ColumnEncoding::Buckets(buckets) => Lookup::Buckets(*buckets),
            ColumnEncoding::Time(time) => {
                // other kinds were rejected when the columns were resolved
                TimeReader::new(time.form, kind).map_or(Lookup::Number, |reader| Lookup::Time(reader, time.clone()))
            }
            ColumnEncoding::Effects(effects) => {
                Lookup::Effects(effects.values.iter().copied().zip(0..).collect(), effects.clone())
            }
            ColumnEncoding::Entries(entries) if entries.is_dense() => {
                Lookup::DenseEntries(Box::new(EntryColumn::new(column, 0)))
            }
            ColumnEncoding::Sparse(_) | ColumnEncoding::Entries(_) if entry_columns.is_some() => Lookup::None,
            ColumnEncoding::Sparse(_) | ColumnEncoding::Entries(_) => {
                EntryColumns::new(std::slice::from_ref(column)).map_or(Lookup::None, Lookup::SparseRows)
            }
        };
        let column_lookups = encoding.columns().iter().zip(kinds).map(column_lookup).collect();
        let mut first_features = Vec::with_capacity(encoding.columns().len());
        let mut next_feature = 0;
        for column in encoding.columns() {
            first_features.push(next_feature);
            next_feature += column.feature_count();
        }
        Self { feature_names: encoding.feature_names(), column_lookups, first_features, entry_columns, encoding }
    }

    pub(crate) fn has_mean(&self, column: usize) -> bool {
        matches!(self.column_lookups[column], Lookup::Number | Lookup::Time(..))
    }

    pub(crate) fn time_reader(&self, column: usize) -> Option<&TimeReader> {
        match &self.column_lookups[column] {
            Lookup::Time(reader, _) => Some(reader),
            _ => None,
        }
    }
}

/// Writes the scaled features of encoded columns.
#[derive(Debug)]
pub(crate) struct FeatureWriter<T> {
    lookups: Arc<Lookups>,
    /// The scaled values of 0 and of 1, for each feature.
    scaled_zeros: Vec<T>,
    scaled_ones: Vec<T>,
    /// Whether a missing value is treated like an unseen value instead of an error. This only
    /// concerns columns without an indicator feature.
    allow_missing: bool,
}

impl<T: Float> FeatureWriter<T> {
    pub(crate) fn new(lookups: Arc<Lookups>, scaling: &FeatureScaling, allow_missing: bool) -> Self {
        let scaled =
            |value: f64| (0..lookups.feature_names.len()).map(|i| T::from_f64(scaling.apply(i, value))).collect();
        let (scaled_zeros, scaled_ones) = (scaled(0.0), scaled(1.0));
        Self { lookups, scaled_zeros, scaled_ones, allow_missing }
    }

    /// Fills `out` with at most one tile of rows of a chunk; the first row of the chunk is the
    /// stored row `first_row`. Returns false if any value is not finite: a missing value that is an
    /// error sets the first feature of its column to NaN. For each column, counts in
    /// `unseen_counts` the values that have no feature.
    pub(crate) fn write_features(
        &self,
        views: &[ColumnView<'_>],
        scaling: &FeatureScaling,
        row_indices: RowIndices<'_>,
        first_row: u64,
        unseen_counts: &[AtomicU64],
        out: &mut [T],
    ) -> bool {
        let d = self.scaled_zeros.len();
        let row_count = out.len() / d;
        if let Some(columns) = &self.lookups.entry_columns {
            return columns.write_rows(views, row_indices, out, d, self.allow_missing);
        }
        out.chunks_exact_mut(d).for_each(|row| row.copy_from_slice(&self.scaled_zeros));
        let columns =
            self.lookups.encoding.columns().iter().zip(&self.lookups.column_lookups).zip(&self.lookups.first_features);
        for (((column, lookup), first_feature), (view, unseen_counter)) in columns.zip(views.iter().zip(unseen_counts))
        {
            let indicator = column.has_indicator.then_some(first_feature + column.encoding.feature_count());
            let set_to_one = |row: &mut [T], feature: usize| row[feature] = self.scaled_ones[feature];
            let out = out.chunks_exact_mut(d);
            if let Lookup::Number = lookup {
                let mut computed = [T::default(); CONVERT_TILE_ROWS];
                let numbers = scaling.scaled_column(view, *first_feature, row_indices, &mut computed[..row_count]);
                for (row, number) in out.zip(numbers) {
                    row[*first_feature] = *number;
                    indicator.filter(|_| !number.is_finite()).into_iter().for_each(|feature| set_to_one(row, feature));
                }
                continue;
            }
            let (mut unseen_count, mut entries) = (0, EntryRowBuffer::default());
            for (i, row) in out.enumerate() {
                let chunk_row = row_indices.get(i);
                let feature = match lookup {
                    Lookup::Time(reader, time) => {
                        let feature_cells = row[*first_feature..].iter_mut().zip(*first_feature..);
                        let instant = reader.read_instant(view, chunk_row);
                        if let Ok(Some(instant)) = instant {
                            let cells_and_values = feature_cells.zip(time.feature_values(instant));
                            cells_and_values.for_each(|((out, i), value)| *out = T::from_f64(scaling.apply(i, value)));
                            continue;
                        }
                        feature_cells
                            .take(time.feature_count())
                            .for_each(|(out, i)| *out = T::from_f64(scaling.fill_values[i]));
                        // NaN in the first feature of the column: the caller repairs or rejects the
                        // row
                        row[*first_feature] = T::from_f64(f64::NAN);
                        indicator.filter(|_| instant.is_ok()).into_iter().for_each(|feature| set_to_one(row, feature));
                        continue;
                    }
                    Lookup::DenseEntries(entry_column) => {
                        match entry_column.text_entries(view, chunk_row, self.allow_missing, &mut entries) {
                            Some(text_entries) => text_entries.iter().for_each(|(word, value)| {
                                let feature = first_feature + *word as usize;
                                row[feature] = T::from_f64(scaling.apply(feature, *value));
                            }),
                            None => row[*first_feature] = T::from_f64(f64::NAN),
                        }
                        continue;
                    }
                    Lookup::SparseRows(entry_columns) => {
                        let features = *first_feature..first_feature + column.encoding.feature_count();
                        let (views, out) = (std::slice::from_ref(view), &mut row[features]);
                        entry_columns.write_row(views, chunk_row, self.allow_missing, &mut entries, out);
                        continue;
                    }
                    _ if is_missing(view, chunk_row) => {
                        if indicator.is_none() && !self.allow_missing {
                            row[*first_feature] = T::from_f64(f64::NAN);
                            continue;
                        }
                        indicator
                    }
                    Lookup::Values(dictionary) => dictionary.code(view, chunk_row).map(|code| first_feature + code),
                    Lookup::Buckets(buckets) => category_value(view, chunk_row)
                        .map(|value| first_feature + (value.digest() % u64::from(*buckets).max(1)) as usize),
                    Lookup::Effects(value_indices, effects) => {
                        let value_index =
                            category_value(view, chunk_row).and_then(|value| value_indices.get(&value.digest()));
                        let row_effects =
                            value_index.map(|index| effects.for_row(*index as usize, first_row + chunk_row as u64));
                        let row_effects = row_effects.into_iter().flatten().zip(*first_feature..);
                        row_effects.for_each(|(effect, i)| row[i] = T::from_f64(scaling.apply(i, *effect)));
                        unseen_count += u64::from(value_index.is_none());
                        continue;
                    }
                    Lookup::Number | Lookup::None => None,
                };
                match feature {
                    Some(feature) => set_to_one(row, feature),
                    None => unseen_count += 1,
                }
            }
            unseen_counter.fetch_add(unseen_count, Ordering::Relaxed);
        }
        T::all_finite(out)
    }
}

/// Returns whether a row has no value: null, or not finite in a column of floats.
pub(super) fn is_missing(view: &ColumnView<'_>, row: usize) -> bool {
    if view.is_null(row) {
        return true;
    }
    if view.bytes(row).is_some() || view.integer(row).is_some() { false } else { !view.number(row).is_finite() }
}

/// Returns the text of a boolean: the boolean and its text are the same category.
pub(super) fn bool_text(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// The value of a category column in a row.
pub(super) enum CategoryValue<'a> {
    Text(&'a str),
    Int(i64),
}

/// Returns the value in a row; `None` for a fraction, which cannot be a category.
pub(super) fn category_value<'a>(view: &ColumnView<'a>, row: usize) -> Option<CategoryValue<'a>> {
    if let Some(text) = view.text(row) {
        return Some(CategoryValue::Text(text));
    }
    if let Values::Bool(values) = view.values {
        return Some(CategoryValue::Text(bool_text(values.value(row))));
    }
    labels::integer_at(view, row).ok().map(CategoryValue::Int)
}

impl CategoryValue<'_> {
    pub(super) fn digest(&self) -> u64 {
        match self {
            Self::Text(text) => Digest::u64_of(text.as_bytes()),
            Self::Int(integer) => Digest::u64_of(integer.to_string().as_bytes()),
        }
    }
}
