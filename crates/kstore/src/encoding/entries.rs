//! Entries of sparse rows: as a file stores them, weighted, or counted from texts.

use super::expand::{CategoryValue, category_value};
use super::grams::{NGrams, TextUnits};
use super::{ColumnEncoding, EncodedColumn, Encoding, MAX_CATEGORIES};
use crate::Float;
use crate::sparse::{MAX_COLUMNS, SparseRows, SparseShape};
use crate::view::{ColumnView, RowIndices, Values};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::Range;

/// Weighting of the entries of sparse rows. Zeros stay zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weighting {
    /// No weighting.
    #[default]
    None,
    /// Each row is divided by its norm, √Σ v².
    Unit,
    /// Each column is divided by its largest absolute value.
    Maxabs,
    /// Each value of a column is multiplied by 1 + ln ((1 + n) / (1 + df)), where n is the number
    /// of rows, and df is the number of rows that have an entry in the column. Then each row is
    /// divided by its norm.
    ///
    /// (Term frequency by inverse document frequency: Manning, Raghavan, Schütze, "Introduction to
    /// Information Retrieval", Cambridge 2008, section 6.2; smoothed like scikit-learn's
    /// `TfidfVectorizer`.)
    TfIdf,
}

/// Sparse rows that are counted from a text column, or whose entries are weighted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entries {
    pub(crate) shape: SparseShape,
    /// What is counted in a text; absent for sparse rows.
    #[serde(rename = "text", default, skip_serializing_if = "Option::is_none")]
    pub(crate) grams: Option<NGrams>,
    /// The word of each column, in ascending order; empty if words are hashed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) words: Vec<String>,
    #[serde(rename = "weighing")]
    pub(crate) weighting: Weighting,
    /// Whether each word is a feature of a dense row. A dense row may have other features too.
    #[serde(rename = "dense", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_dense: bool,
    /// Whether each column has a factor in addition to the factor of the weighting.
    #[serde(rename = "metric", default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_metric: bool,
    /// Factor of each column, if the weighting has factors or `has_metric` is true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) factors: Vec<f64>,
    /// Factor of a column beyond `factors`. Such a column had no entry in any row of the fit.
    #[serde(rename = "unseen", default = "unit_factor")]
    pub(crate) unseen_factor: f64,
}

fn unit_factor() -> f64 {
    1.0
}

impl Entries {
    pub(crate) fn unlearned(shape: SparseShape, grams: Option<NGrams>, weighting: Weighting) -> Self {
        let (words, factors) = Default::default();
        Self { shape, grams, words, weighting, is_dense: false, has_metric: false, factors, unseen_factor: 1.0 }
    }

    /// Returns these entries with each word as a feature of a dense row. If no number of words was
    /// set, the limit is the number of categories that a column may have.
    pub(crate) fn into_dense(mut self) -> Self {
        self.is_dense = true;
        self.grams = self.grams.map(|grams| grams.limit_to(MAX_CATEGORIES));
        self
    }

    pub(crate) fn feature_names<'a>(&'a self, column: &'a str) -> Box<dyn Iterator<Item = String> + 'a> {
        match self.grams.as_ref().and_then(NGrams::bucket_count) {
            Some(buckets) => {
                Box::new((0..buckets.min(self.shape.column_count)).map(move |bucket| format!("{column}:#{bucket}")))
            }
            None => Box::new(self.words.iter().map(move |word| format!("{column}:{word}"))),
        }
    }

    pub(crate) fn feature_count(&self) -> usize {
        if self.is_dense { self.shape.column_count } else { self.shape.values_per_row() }
    }

    /// Returns what is counted in a text; `None` for sparse rows.
    pub fn grams(&self) -> Option<&NGrams> {
        self.grams.as_ref()
    }

    pub(crate) fn is_dense(&self) -> bool {
        self.is_dense
    }

    /// Returns the weighting.
    pub fn weighting(&self) -> Weighting {
        self.weighting
    }

    pub(crate) fn is_learned(&self) -> bool {
        (self.grams.is_none() || self.shape.column_count > 0) && (!self.has_factors() || !self.factors.is_empty())
    }

    pub(crate) fn has_factors(&self) -> bool {
        self.has_metric || matches!(self.weighting, Weighting::Maxabs | Weighting::TfIdf)
    }

    /// Returns these entries with the factor of each column multiplied by a factor of a metric.
    fn with_metric(self, metric_factors: &[f64], unseen_factor: f64) -> Self {
        let own_factors = self.factors.iter().copied().chain(std::iter::repeat(1.0));
        let factors = own_factors.zip(metric_factors).map(|(own, factor)| own * factor).collect();
        Self { has_metric: true, factors, unseen_factor: self.unseen_factor * unseen_factor, ..self }
    }

    pub(crate) fn without_factors(&self) -> Self {
        Self { factors: Vec::new(), ..self.clone() }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.words.iter().map(|word| 2 * word.len() + 96).sum::<usize>() + 8 * self.factors.len()
    }

    pub(crate) fn is_valid(&self) -> bool {
        let Self { shape, grams, words, factors, .. } = self;
        let covers_width = |count: usize| count == shape.column_count;
        let is_hashed = grams.as_ref().is_some_and(|grams| grams.bucket_count().is_some_and(covers_width));
        words.windows(2).all(|pair| pair[0] < pair[1])
            && (grams.is_none() || covers_width(words.len()) || is_hashed || !self.is_learned())
            && (factors.is_empty() || covers_width(factors.len()) && factors.iter().all(|factor| factor.is_finite()))
            && self.unseen_factor.is_finite()
    }

    fn apply_weighting(&self, entries: &mut [(u32, f64)]) {
        let factor = |index: u32| self.factors.get(index as usize).copied().unwrap_or(self.unseen_factor);
        if self.has_factors() {
            entries.iter_mut().for_each(|(index, value)| *value *= factor(*index));
        }
        if matches!(self.weighting, Weighting::TfIdf | Weighting::Unit) {
            // the norm of values divided by the largest one, so that squares do not overflow
            let max_abs = entries.iter().fold(0.0f64, |max, (_, value)| max.max(value.abs()));
            let norm = max_abs * entries.iter().map(|(_, value)| (value / max_abs).powi(2)).sum::<f64>().sqrt();
            entries.iter_mut().filter(|_| norm > 0.0).for_each(|(_, value)| *value /= norm);
        }
    }
}

/// Columns whose entries together form a sparse row.
#[derive(Debug)]
pub(crate) struct EntryColumns {
    columns: Vec<EntryColumn>,
}

/// A column that produces entries of a sparse row.
#[derive(Debug)]
pub(crate) struct EntryColumn {
    /// Number that is added to the index of each entry: the number of sparse columns of all earlier
    /// columns.
    first_column: u32,
    /// Weighting of entries and counting of texts; `None` for sparse rows without weighting.
    entries: Option<Entries>,
    index_by_word: HashMap<String, u32>,
}

impl EntryColumns {
    /// If all columns produce entries, returns the columns.
    pub(crate) fn new(columns: &[EncodedColumn]) -> Option<Self> {
        let mut next_column = 0;
        let entry_column = |column: &EncodedColumn| {
            let shape = sparse_shape_of(column)?;
            let new_column = EntryColumn::new(column, next_column);
            next_column = u32::try_from(shape.column_count).ok().and_then(|width| next_column.checked_add(width))?;
            Some(new_column)
        };
        let columns: Vec<EntryColumn> = columns.iter().map(entry_column).collect::<Option<_>>()?;
        (!columns.is_empty()).then_some(Self { columns })
    }

    /// Writes rows of a chunk. Returns false if a value is missing or not finite, or if a row has
    /// more entries than fit; in both cases the first number of the row is NaN. With
    /// `allow_missing`, a missing text counts as a text without words.
    pub(crate) fn write_rows<T: Float>(
        &self,
        views: &[ColumnView<'_>],
        row_indices: RowIndices<'_>,
        out: &mut [T],
        d: usize,
        allow_missing: bool,
    ) -> bool {
        let (mut row, mut all_finite) = (EntryRowBuffer::default(), true);
        for (i, out) in out.chunks_exact_mut(d).enumerate() {
            all_finite &= self.write_row(views, row_indices.get(i), allow_missing, &mut row, out);
        }
        all_finite
    }

    /// Writes one row of a chunk, as [`EntryColumns::write_rows`] does.
    pub(crate) fn write_row<T: Float>(
        &self,
        views: &[ColumnView<'_>],
        chunk_row: usize,
        allow_missing: bool,
        row: &mut EntryRowBuffer,
        out: &mut [T],
    ) -> bool {
        let is_finite = self.collect_row(views, chunk_row, allow_missing, row) && row.rows().pack(0, out);
        if !is_finite {
            out[0] = T::from_f64(f64::NAN);
        }
        is_finite
    }

    /// Collects the entries of a row. Returns false if a value is missing. With `allow_missing`, a
    /// missing text is permitted.
    fn collect_row(
        &self,
        views: &[ColumnView<'_>],
        chunk_row: usize,
        allow_missing: bool,
        row: &mut EntryRowBuffer,
    ) -> bool {
        row.indices.clear();
        row.values.clear();
        for (column, view) in self.columns.iter().zip(views) {
            row.column_entries.clear();
            match (&view.values, &column.entries) {
                (Values::Sparse(rows), entries) => {
                    let (indices, values) = rows.row(chunk_row);
                    row.column_entries.extend(indices.iter().copied().zip(values.iter().copied()));
                    entries.iter().for_each(|entries| entries.apply_weighting(&mut row.column_entries));
                }
                _ => {
                    if column.text_entries(view, chunk_row, allow_missing, row).is_none() {
                        return false;
                    }
                }
            }
            row.indices.extend(row.column_entries.iter().map(|(index, _)| column.first_column + index));
            row.values.extend(row.column_entries.iter().map(|(_, value)| *value));
        }
        row.row_bounds = [0, row.indices.len()];
        true
    }

    /// Returns the number of entries of `text` in a text column.
    pub(crate) fn count_entries(&self, column: usize, text: &str, row: &mut EntryRowBuffer) -> usize {
        row.column_entries.clear();
        if let Some(EntryColumn { entries: Some(Entries { grams: Some(grams), .. }), .. }) = self.columns.get(column) {
            self.columns[column].append_counts(grams, text, row);
        }
        row.column_entries.len()
    }
}

impl EntryColumn {
    pub(crate) fn new(column: &EncodedColumn, first_column: u32) -> Self {
        let entries = match &column.encoding {
            ColumnEncoding::Entries(entries) => Some(entries.clone()),
            _ => None,
        };
        let words = entries.iter().flat_map(|entries| entries.words.iter().cloned());
        Self { first_column, index_by_word: words.zip(0..).collect(), entries }
    }

    /// Returns the entries of the text in a row. If the text is missing, the result is empty with
    /// `allow_missing`, and otherwise `None`.
    pub(crate) fn text_entries<'r>(
        &self,
        view: &ColumnView<'_>,
        chunk_row: usize,
        allow_missing: bool,
        row: &'r mut EntryRowBuffer,
    ) -> Option<&'r [(u32, f64)]> {
        row.column_entries.clear();
        let grams = self.entries.as_ref()?.grams.as_ref()?;
        match category_value(view, chunk_row).filter(|_| !view.is_null(chunk_row)) {
            Some(CategoryValue::Text(text)) => self.append_counts(grams, text, row),
            Some(CategoryValue::Int(integer)) => self.append_counts(grams, &integer.to_string(), row),
            None if allow_missing => {}
            None => return None,
        }
        Some(&row.column_entries)
    }

    fn append_counts(&self, grams: &NGrams, text: &str, row: &mut EntryRowBuffer) {
        let EntryRowBuffer { column_entries, text_units, .. } = row;
        let index_of = |word: &str| grams.bucket_of(word).or_else(|| self.index_by_word.get(word).copied());
        grams.for_each_ngram(text, text_units, |word| column_entries.extend(index_of(word).map(|index| (index, 1.0))));
        column_entries.sort_unstable_by_key(|(index, _)| *index);
        column_entries.dedup_by(|later, first| {
            let is_same_index = later.0 == first.0;
            first.1 += if is_same_index { later.1 } else { 0.0 };
            is_same_index
        });
        self.entries.iter().for_each(|entries| entries.apply_weighting(column_entries));
    }
}

/// Buffers for the entries of one row; reused for all rows.
#[derive(Debug, Default)]
pub(crate) struct EntryRowBuffer {
    column_entries: Vec<(u32, f64)>,
    indices: Vec<u32>,
    values: Vec<f64>,
    row_bounds: [usize; 2],
    text_units: TextUnits,
}

impl EntryRowBuffer {
    fn rows(&self) -> SparseRows<'_> {
        SparseRows { starts: &self.row_bounds, indices: &self.indices, values: &self.values }
    }
}

/// Returns the shape of the sparse rows of a column; `None` for other columns.
fn sparse_shape_of(column: &EncodedColumn) -> Option<SparseShape> {
    match &column.encoding {
        ColumnEncoding::Sparse(shape) => Some(*shape),
        ColumnEncoding::Entries(entries) => Some(entries.shape).filter(|_| !entries.is_dense),
        _ => None,
    }
}

impl Encoding {
    /// Returns the encoding with each entry of sparse rows multiplied by the factor of its column,
    /// before a row is divided by its norm. There is one factor for each column of the rows;
    /// `unseen_factor` is the factor of columns that the rows of the fit do not have.
    #[must_use]
    pub fn with_entry_factors(mut self, mut factors: &[f64], unseen_factor: f64) -> Self {
        for column in &mut self.columns {
            let entries = match &column.encoding {
                ColumnEncoding::Sparse(shape) => Entries::unlearned(*shape, None, Weighting::None),
                ColumnEncoding::Entries(entries) => entries.clone(),
                _ => continue,
            };
            let (column_factors, later_factors) = factors.split_at(entries.shape.column_count.min(factors.len()));
            factors = later_factors;
            column.encoding = ColumnEncoding::Entries(entries.with_metric(column_factors, unseen_factor));
        }
        self
    }

    /// Returns the names of the columns of sparse rows: a counted word as `comment:word`, or the
    /// name of the column of the table and a number from 0, such as `x17`.
    pub fn entry_names(&self) -> impl Iterator<Item = String> + '_ {
        self.columns.iter().flat_map(|column| -> Box<dyn Iterator<Item = String> + '_> {
            match &column.encoding {
                ColumnEncoding::Entries(entries) if entries.grams.is_some() => entries.feature_names(&column.name),
                _ => {
                    let column_count = sparse_shape_of(column).map_or(0, |shape| shape.column_count);
                    Box::new((0..column_count).map(|index| format!("{}{index}", column.name)))
                }
            }
        })
    }

    /// Returns the features that hold sparse rows, and the shape of these rows: all features, or
    /// the features of one column next to features of other columns.
    pub fn sparse_features(&self) -> Option<(Range<usize>, SparseShape)> {
        if let Some(shape) = self.sparse_shape() {
            return Some((0..self.feature_count(), shape));
        }
        let mut first_feature = 0;
        self.columns().iter().find_map(|column| {
            let features = first_feature..first_feature + column.feature_count();
            first_feature = features.end;
            Some((features, sparse_shape_of(column)?))
        })
    }
}

/// If all columns produce entries, returns the shape of the rows that combine the entries of these
/// columns.
pub(crate) fn combined_shape(columns: &[EncodedColumn]) -> Option<SparseShape> {
    let shapes: Vec<SparseShape> = columns.iter().map(sparse_shape_of).collect::<Option<_>>()?;
    // a column without entries still has room for one entry
    let add_shape = |sum: SparseShape, shape: &SparseShape| SparseShape {
        column_count: sum.column_count.saturating_add(shape.column_count),
        max_row_entries: sum.max_row_entries + shape.values_per_row() / 2,
    };
    let sum_shapes = |shapes: &[SparseShape]| shapes.iter().fold(SparseShape::default(), add_shape);
    match &shapes[..] {
        [] => None,
        [shape] => Some(*shape),
        shapes => Some(sum_shapes(shapes)).filter(|shape| shape.column_count <= MAX_COLUMNS),
    }
}
