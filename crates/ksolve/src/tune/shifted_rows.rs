//! Errors on new rows that are unlike the training rows: rows with other values of a column, later
//! rows, and rows without a near-copy.
//!
//! Random folds hold out rows while similar rows remain in training. If a column names groups of
//! rows, such as persons, or if rows have a date, the error on new persons or later days differs
//! from the error on random rows. If rows are in tight clusters, they have near-copies in every
//! fold. Therefore the chosen model is refitted without some groups, without the last rows, or
//! without whole clusters, and tested on the rows that were left out.
//!
//! *Cost*: one trial fit for each kind of rows. To find clusters, the distances of a few hundred
//! rows to all rows of the sample.

use super::{HeldOutScore, trial::Trials};
use crate::Result;
use crate::job::{Fit, Run};
use kapprox::Real;
use kstore::encoding::{ColumnEncoding, EncodedColumn, Encoding};
use kstore::key::{Purpose, Stream};
use kstore::{RowSource, SelectedTable, schema::Kind};
use std::collections::BTreeMap;
use std::ops::Range;

/// Minimum number of distinct values of a group column, and minimum average number of rows per
/// value. Chosen: few groups say little about new groups, and small groups little about their mean.
const MIN_GROUPS: usize = 5;

/// The targets of a group count as similar if more than this fraction of the target's variance lies
/// between groups (adjusted for chance). Chosen: with a smaller fraction, one more fit is spent on
/// columns that hardly matter.
const MIN_BETWEEN_FRACTION: f64 = 0.3;

/// Fraction of the rows that is held out.
const HELD_OUT_FRACTION: f64 = 0.2;

/// Limits of the search for near-copies: the maximum number of rows whose neighbours are examined,
/// the number of neighbours of each row, and the maximum number of values that are compared.
const MAX_EXAMINED_ROWS: usize = 500;
const NEIGHBOURS: usize = 30;
const MAX_COMPARED_VALUES: usize = 2_000_000_000;

/// Minimum ratio of the distance of the next neighbour to the distances of near-copies. A table has
/// near-copies if more than half of the examined rows have near-copies.
const MIN_GAP_RATIO: f64 = 5.0;

/// If the error without near-copies divided by the error on random rows exceeds this ratio, the
/// user is warned that the error estimate is too optimistic. Chosen.
const MAX_NEAR_COPY_ERROR_RATIO: f64 = 1.5;

/// The error of the chosen model on new rows of one kind.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct ShiftScore {
    /// Kind of rows: `other values of subject`, `later rows by date`, `rows without a near-copy`.
    pub rows: String,
    /// Folds that hold out rows of this kind in a new search; `None` for near-copies, because no
    /// column identifies them.
    pub folds: Option<String>,
    /// Error on these rows.
    #[serde(rename = "apart")]
    pub score: HeldOutScore,
}

impl ShiftScore {
    /// Returns a warning if near-copies exist and the error on rows without near-copies exceeds
    /// [`MAX_NEAR_COPY_ERROR_RATIO`] times the error of random folds, `random_fold_error`.
    pub(super) fn warning(&self, random_fold_error: f64) -> Option<String> {
        let error = self.score.error;
        (self.folds.is_none() && error > MAX_NEAR_COPY_ERROR_RATIO * random_fold_error).then(|| {
            format!(
                "most rows have near-copies, and random folds leave copies of validation rows among the training rows: on rows \
                 without a copy the error is {error:.4e}, not {random_fold_error:.4e}; if new rows have no copies, name a column that \
                 identifies the copies: `folds` groups:5:COLUMN"
            )
        })
    }
}

impl<T: Real> Trials<T> {
    /// Tests the fit on each kind of rows that the table has.
    pub(super) fn shift_scores(
        &self,
        fit: &Fit,
        selected: &SelectedTable,
        seed: u64,
        run: &Run<'_>,
    ) -> Result<Vec<ShiftScore>> {
        if selected.sparse_shape().is_some() {
            return Ok(Vec::new());
        }
        let (columns, mut held_out_sets) = (feature_columns(selected), Vec::new());
        let groupings = columns.iter().filter(|column| column.is_discrete);
        let groupings = groupings.filter_map(|column| Some((self.between_fraction(column)?, column)));
        if let Some((_, column)) =
            groupings.filter(|(fraction, _)| *fraction > MIN_BETWEEN_FRACTION).max_by(|a, b| a.0.total_cmp(&b.0))
        {
            let folds = Some(format!("groups:5:{}", column.name));
            let stream = Stream::new(seed, Purpose::Folds, 0);
            let is_held_out = self.select_last(|i| (stream.word(self.value_key(i, column)), self.value_key(i, column)));
            held_out_sets.push((format!("other values of {}", column.name), folds, is_held_out));
        }
        if let Some(column) = columns.iter().find(|column| column.is_date) {
            let folds = Some(format!("forward:5:{}", column.name));
            held_out_sets.push((
                format!("later rows by {}", column.name),
                folds,
                self.select_last(|i| self.ordered_bits(i, column)),
            ));
        }
        held_out_sets
            .extend(self.near_copies().map(|is_held_out| ("rows without a near-copy".to_string(), None, is_held_out)));
        let mut scores = Vec::new();
        for (rows, folds, is_held_out) in held_out_sets {
            match self.fit_and_score(fit, &|i| !is_held_out[i], &[&|i| is_held_out[i]], run) {
                Ok(mut held_out) => scores.extend(held_out.pop().map(|score| ShiftScore { rows, folds, score })),
                Err(error) if error.is_interrupted() => return Err(error),
                // for example, rows of a single class; this kind is not reported
                Err(_) => {}
            }
        }
        Ok(scores)
    }

    fn row(&self, i: usize) -> &[T] {
        let d = self.rows().shape().input_count;
        &self.rows().x()[i * d..(i + 1) * d]
    }

    /// Returns the first feature of a column in a row, as an integer with the same order.
    fn ordered_bits(&self, i: usize, column: &FeatureColumn) -> u64 {
        let bits = self.row(i)[column.features.start].to_f64().to_bits();
        if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
    }

    /// Returns a number that identifies the value of a column in a row; for numeric columns it
    /// preserves the order.
    fn value_key(&self, i: usize, column: &FeatureColumn) -> u64 {
        if column.is_number {
            return self.ordered_bits(i, column);
        }
        let bits = self.row(i)[column.features.clone()].iter().map(|value| value.to_f64().to_bits());
        // multiplicative hash; the factor is 2^64 divided by the golden ratio
        bits.fold(0, |value: u64, bits| (value.rotate_left(5) ^ bits).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// Returns the fraction of the first target's variance that lies between the k values of a
    /// column, adjusted for chance: 1 − (1 − B/S)(n − 1)/(n − k), where B is the sum of squares
    /// between the values, and S the total sum of squares. Returns `None` if the values are too few
    /// or too many to be groups, or if the target follows the order of the values, as if the values
    /// were a quantity.
    fn between_fraction(&self, column: &FeatureColumn) -> Option<f64> {
        let (mut sums_by_value, n) = (BTreeMap::<u64, (f64, f64)>::new(), self.len());
        let (mut sum, mut square_sum) = (0.0, 0.0);
        for i in 0..n {
            let (y, value_sums) = (self.target(i), sums_by_value.entry(self.value_key(i, column)).or_default());
            (sum, square_sum) = (sum + y, square_sum + y * y);
            *value_sums = (value_sums.0 + 1.0, value_sums.1 + y);
        }
        let total_squares = square_sum - sum * sum / n as f64;
        if sums_by_value.len() < MIN_GROUPS
            || sums_by_value.len() > n / MIN_GROUPS
            || total_squares <= 1e-12 * square_sum
        {
            return None;
        }
        let deviations: Vec<f64> =
            sums_by_value.values().map(|(rows, value_sum)| value_sum / rows - sum / n as f64).collect();
        let squared_steps: f64 = deviations.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
        // in random order, the squared steps sum to twice the squared deviations
        if squared_steps < deviations.iter().map(|deviation| deviation * deviation).sum() {
            return None;
        }
        let between_squares: f64 =
            sums_by_value.values().map(|(n, sum)| sum * sum / n).sum::<f64>() - sum * sum / n as f64;
        Some(1.0 - (1.0 - between_squares / total_squares) * (n - 1) as f64 / (n - sums_by_value.len()) as f64)
    }

    /// Marks the rows with the largest keys, about a fifth of all rows. Rows with the same key stay
    /// together.
    fn select_last<K: Ord + Copy>(&self, key: impl Fn(usize) -> K) -> Vec<bool> {
        let keys: Vec<K> = (0..self.len()).map(key).collect();
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        let bound_key = sorted[((1.0 - HELD_OUT_FRACTION) * keys.len() as f64) as usize];
        // rows with the boundary key are held out too, unless too few remain for training
        let includes_bound = 2 * sorted.partition_point(|key| *key < bound_key) >= keys.len();
        keys.into_iter().map(|key| key > bound_key || includes_bound && key == bound_key).collect()
    }

    /// Marks examined rows together with their near-copies, up to about a fifth of all rows. A row
    /// has near-copies if the sorted distances of its [`NEIGHBOURS`] nearest rows rise by more than
    /// the factor [`MIN_GAP_RATIO`] at one place: the rows before this gap are the copies. Returns
    /// `None` if at most half of the examined rows have near-copies.
    fn near_copies(&self) -> Option<Vec<bool>> {
        let (n, d) = (self.len(), self.rows().shape().input_count);
        let examined_count = MAX_EXAMINED_ROWS.min(n / 2).min(MAX_COMPARED_VALUES / (n * d).max(1));
        if examined_count < MAX_EXAMINED_ROWS / 10 || n <= 2 * NEIGHBOURS {
            return None;
        }
        let (mut is_held_out, mut held_out_count, mut copied_count) = (vec![false; n], 0, 0);
        for examined in (0..examined_count).map(|k| k * n / examined_count) {
            let distance_to = |i: usize| {
                let pairs = self.row(examined).iter().zip(self.row(i));
                (pairs.map(|(a, b)| (a.to_f64() - b.to_f64()).powi(2)).sum::<f64>().sqrt(), i)
            };
            let mut neighbours: Vec<(f64, usize)> = (0..n).filter(|i| *i != examined).map(distance_to).collect();
            neighbours.select_nth_unstable_by(NEIGHBOURS, |a, b| a.0.total_cmp(&b.0));
            neighbours.truncate(NEIGHBOURS + 1);
            neighbours.sort_by(|a, b| a.0.total_cmp(&b.0));
            // distance k divided by distance k − 1; the lower bounds replace the distance 0 of
            // exact copies
            let gap = |k: usize| {
                neighbours[k].0 / neighbours[k - 1].0.max(1e-9 * neighbours[NEIGHBOURS].0).max(f64::MIN_POSITIVE)
            };
            let gap_index = (1..=NEIGHBOURS).max_by(|a, b| gap(*a).total_cmp(&gap(*b))).unwrap_or(1);
            if gap(gap_index) > MIN_GAP_RATIO {
                copied_count += 1;
                let has_capacity = (held_out_count as f64) < HELD_OUT_FRACTION * n as f64;
                for (_, i) in neighbours.iter().take(gap_index).chain([&(0.0, examined)]).filter(|_| has_capacity) {
                    held_out_count += usize::from(!std::mem::replace(&mut is_held_out[*i], true));
                }
            }
        }
        (2 * copied_count > examined_count).then_some(is_held_out)
    }
}

/// A column of the table and its range of features.
struct FeatureColumn {
    name: String,
    features: Range<usize>,
    is_date: bool,
    /// True if its values may identify groups.
    is_discrete: bool,
    is_number: bool,
}

fn feature_columns(selected: &SelectedTable) -> Vec<FeatureColumn> {
    let schema = selected.table().schema();
    let is_integer =
        |name: &str| schema.columns.iter().any(|column| column.name == name && matches!(column.kind, Kind::Int { .. }));
    let encoding = selected.encoding().cloned().unwrap_or_else(|| Encoding::numeric(&selected.feature_names()));
    let mut first_feature = 0;
    let feature_column = |encoded: &EncodedColumn| {
        let features = first_feature..first_feature + encoded.feature_count();
        first_feature = features.end;
        let is_number = matches!(encoded.encoding, ColumnEncoding::Number);
        let is_discrete = match &encoded.encoding {
            ColumnEncoding::Number => is_integer(&encoded.name),
            code => matches!(code, ColumnEncoding::Values(_) | ColumnEncoding::Effects(_)),
        };
        FeatureColumn { name: encoded.name.clone(), features, is_date: encoded.is_date(), is_discrete, is_number }
    };
    encoding.columns().iter().map(feature_column).collect()
}
