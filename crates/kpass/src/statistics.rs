//! Means, deviations and label counts of a table: a reduction of its rows.
//!
//! Within a tile (the rows that are processed at once), the mean is computed first, and then the
//! sum of squared differences from this mean, in two passes over numbers in cache. The means and
//! sums of two tiles or segments are merged by the pairwise update of Chan, Golub and LeVeque,
//! "Algorithms for computing the sample variance: analysis and recommendations", The American
//! Statistician 37 (1983), 242–247. The terms do not cancel, however far the values are from 0.

use crate::checkpoint::{Arrays, Persist, StoredArrays};
use crate::rows::{Label, LabelCodes, RowBlock};
use crate::{Error, Float, Merge, Reduction, Result, TableShape, Workers};
use std::collections::HashMap;

/// Maximum number of distinct labels of a class column. A column with more labels is most likely a
/// measurement, for which one model per class makes no sense.
pub const MAX_CLASS_LABELS: usize = 10_000;

/// Maximum number of distinct labels of a group column, such as the queries of a search engine.
/// Each reading lane stores all of them.
pub const MAX_GROUP_LABELS: usize = 100_000;

/// Bytes of a label and of its count in a dictionary.
pub const LABEL_BYTES: usize = 128;

/// Maximum number of bytes of the text of a label, averaged over the maximum number of labels.
pub const LABEL_TEXT_BYTES: usize = LABEL_BYTES / 2;

/// Count, mean, spread and extremes of one column; NaN is skipped. Rows count by their weights: a
/// row of weight 2 counts like two equal rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnMoments {
    /// Number of values.
    pub count: u64,
    /// Sum of the weights of the rows that have a value; it is `count` if rows are not weighted.
    pub weight_sum: f64,
    /// Mean of the values; 0 without values.
    pub mean: f64,
    /// Sum of squared differences from the mean.
    pub m2: f64,
    /// Smallest value; infinite without values.
    pub min: f64,
    /// Largest value; minus infinite without values.
    pub max: f64,
    /// True for a column of integers, whose differences are never rounding noise. Set by
    /// `SelectedTable::mark_integers` of the crate `kstore`, which knows the type of the column.
    pub is_integer: bool,
}

impl Default for ColumnMoments {
    fn default() -> Self {
        Self {
            count: 0,
            weight_sum: 0.0,
            mean: 0.0,
            m2: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            is_integer: false,
        }
    }
}

impl ColumnMoments {
    /// Returns the standard deviation of the population.
    pub fn deviation(&self) -> f64 {
        if self.count == 0 { 0.0 } else { (self.m2 / self.weight_sum).sqrt() }
    }

    /// Returns true if the values differ by no more than rounding noise, which integers do not
    /// have.
    pub fn is_constant(&self) -> bool {
        match self.is_integer {
            true => self.min >= self.max,
            false => self.count == 0 || is_rounding_noise(self.deviation(), self.min.abs().max(self.max.abs())),
        }
    }

    fn merge(&mut self, later: &Self) {
        if later.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *later;
            return;
        }
        // for weight sums a and b: mean += delta b/(a + b), m2 += later m2 + delta² ab/(a + b)
        let (a, b) = (self.weight_sum, later.weight_sum);
        let total = (a + b).max(f64::MIN_POSITIVE);
        let delta = later.mean - self.mean;
        self.mean += delta * (b / total);
        self.m2 += later.m2 + delta * delta * (a * b / total);
        self.count += later.count;
        self.weight_sum += later.weight_sum;
        self.min = self.min.min(later.min);
        self.max = self.max.max(later.max);
    }
}

/// Number of rows of each label of a column, and their weight.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelCounts {
    counts: HashMap<Label, (u64, f64)>,
    text_bytes: usize,
}

impl LabelCounts {
    /// Returns the labels in ascending order, with their counts.
    pub fn sorted_counts(&self) -> Vec<(Label, u64)> {
        let mut labels: Vec<_> = self.counts.iter().map(|(label, (count, _))| (label.clone(), *count)).collect();
        labels.sort();
        labels
    }

    /// Returns the weight of the rows of a label.
    pub fn weight(&self, label: &Label) -> f64 {
        self.counts.get(label).map_or(0.0, |(_, weight)| *weight)
    }

    /// Returns the number of distinct labels.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Returns whether no label was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    fn add(&mut self, label: &Label, count: u64, weight: f64) {
        if let Some((row_count, weight_sum)) = self.counts.get_mut(label) {
            (*row_count, *weight_sum) = (*row_count + count, *weight_sum + weight);
        } else if self.is_within(MAX_GROUP_LABELS) {
            // one label above the limit shows that there are too many; further labels are dropped
            self.text_bytes += label.text_bytes();
            self.counts.insert(label.clone(), (count, weight));
        }
    }

    fn add_tile(&mut self, coded: &LabelCodes<'_>, weights: &[f64], scratch: &mut Vec<(u64, f64)>) {
        scratch.clear();
        scratch.resize(coded.labels.len(), (0, 0.0));
        for (code, weight) in coded.codes.iter().zip(weights).filter(|(code, _)| **code != LabelCodes::UNKNOWN) {
            let (count, weight_sum) = &mut scratch[*code as usize];
            (*count, *weight_sum) = (*count + 1, *weight_sum + weight);
        }
        for (label, (count, weight)) in coded.labels.iter().zip(scratch.iter()).filter(|(_, (count, _))| *count > 0) {
            self.add(label, *count, *weight);
        }
    }

    /// Returns true if there are at most `limit` labels, and their texts do not exceed the maximum
    /// size for this many labels.
    fn is_within(&self, limit: usize) -> bool {
        self.len() <= limit && self.text_bytes <= LABEL_TEXT_BYTES * limit
    }

    fn check(&self, column: &str, limit: usize) -> Result<()> {
        if self.is_within(limit) { Ok(()) } else { Err(Error::TooManyLabels { column: column.to_string(), limit }) }
    }
}

/// Counts, moments and labels of the rows of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Number of rows.
    pub rows: u64,
    /// Moments of each input.
    pub inputs: Vec<ColumnMoments>,
    /// Moments of each numeric target.
    pub targets: Vec<ColumnMoments>,
    /// Moments of the weights; empty if all rows weigh 1.
    pub weights: Vec<ColumnMoments>,
    /// Number of rows whose weight is not a whole number.
    pub fractional_weight_count: u64,
    /// Labels of the class column; empty if there is none.
    pub classes: LabelCounts,
    /// Labels of the group column; empty if there is none.
    pub groups: LabelCounts,
}

impl Statistics {
    /// Returns the statistics of an empty table.
    pub fn new(shape: &TableShape) -> Self {
        let empty_moments = ColumnMoments::default();
        let [inputs, targets] = [shape.input_count, shape.target_count].map(|count| vec![empty_moments; count]);
        Self { inputs, targets, weights: vec![empty_moments; usize::from(shape.has_weights)], ..Self::default() }
    }

    /// Checks after the last merge that there are at most [`MAX_CLASS_LABELS`] classes and
    /// [`MAX_GROUP_LABELS`] groups.
    ///
    /// # Errors
    /// [`Error::TooManyLabels`] for the first of the two columns that has more.
    pub fn check_label_counts(&self, class_column: &str, group_column: &str) -> Result<()> {
        self.classes.check(class_column, MAX_CLASS_LABELS)?;
        self.groups.check(group_column, MAX_GROUP_LABELS)
    }
}

impl Merge for Statistics {
    fn merge(&mut self, later: &Self) {
        self.rows += later.rows;
        self.fractional_weight_count += later.fractional_weight_count;
        let columns = self.inputs.iter_mut().chain(&mut self.targets).chain(&mut self.weights);
        let later_columns = later.inputs.iter().chain(&later.targets).chain(&later.weights);
        columns.zip(later_columns).for_each(|(moments, later)| moments.merge(later));
        for (label_counts, later_counts) in [(&mut self.classes, &later.classes), (&mut self.groups, &later.groups)] {
            later_counts.counts.iter().for_each(|(label, (count, weight))| label_counts.add(label, *count, *weight));
        }
    }
}

crate::persist!(Statistics {
    one "rows": rows, one "fractional": fractional_weight_count, part "features": inputs, part "targets": targets, part "weights": weights,
    part "classes": classes, part "groups": groups
});

/// Stores the counts in one array, and weight, mean, m2, min and max of every column in another.
impl Persist for Vec<ColumnMoments> {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        out.put_owned("count", self.iter().map(|m| m.count).collect());
        out.put_owned("moments", self.iter().flat_map(|m| [m.weight_sum, m.mean, m.m2, m.min, m.max]).collect());
    }

    fn load(&mut self, arrays: &mut StoredArrays<'_>) -> Result<()> {
        let (mut counts, mut moments) = (vec![0; self.len()], vec![0.0; 5 * self.len()]);
        arrays.fill("count", &mut counts)?;
        arrays.fill("moments", &mut moments)?;
        let column_moments = moments.as_chunks::<5>().0;
        for ((column, count), &[weight, mean, m2, min, max]) in self.iter_mut().zip(counts).zip(column_moments) {
            *column = ColumnMoments { count, weight_sum: weight, mean, m2, min, max, is_integer: false };
        }
        Ok(())
    }
}

impl Persist for LabelCounts {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        let (labels, counts): (Vec<Label>, Vec<u64>) = self.sorted_counts().into_iter().unzip();
        // labels are booleans, integers and text, which JSON always accepts
        out.put_owned("labels", serde_json::to_vec(&labels).unwrap_or_default());
        out.put_owned("weights", labels.iter().map(|label| self.weight(label)).collect());
        out.put_owned("counts", counts);
    }

    fn load(&mut self, arrays: &mut StoredArrays<'_>) -> Result<()> {
        let labels: Vec<Label> = serde_json::from_slice(&arrays.read::<u8>("labels")?)
            .map_err(|error| arrays.damaged_error(format!("labels: {}", crate::display::json_error(&error))))?;
        let mut counts = vec![0; labels.len()];
        arrays.fill("counts", &mut counts)?;
        let mut weights = vec![0.0; labels.len()];
        arrays.fill("weights", &mut weights)?;
        self.text_bytes = labels.iter().map(Label::text_bytes).sum();
        self.counts = labels.into_iter().zip(counts.into_iter().zip(weights)).collect();
        Ok(())
    }
}

/// A reduction that computes [`Statistics`].
#[derive(Clone, Copy, Debug)]
pub struct StatisticsReduction {
    shape: TableShape,
}

impl StatisticsReduction {
    /// Returns a reduction of rows of this shape.
    pub fn new(shape: TableShape) -> Self {
        Self { shape }
    }

    /// Returns the bytes of a state without labels.
    pub fn state_bytes(&self) -> usize {
        let TableShape { input_count: inputs, target_count: targets, has_weights, .. } = self.shape;
        size_of::<Statistics>() + (inputs + targets + usize::from(has_weights)) * size_of::<ColumnMoments>()
    }
}

/// Buffers of a lane.
#[derive(Debug, Default)]
pub struct StatisticsScratch {
    row_weights: Vec<f64>,
    shifts: Vec<f64>,
    weight_sums: Vec<f64>,
    value_sums: Vec<f64>,
    square_sums: Vec<f64>,
    label_counts: Vec<(u64, f64)>,
}

impl<T: Float> Reduction<T> for StatisticsReduction {
    type State = Statistics;
    type Scratch = StatisticsScratch;
    type Error = Error;

    fn init(&self) -> Statistics {
        Statistics::new(&self.shape)
    }

    fn scratch(&self) -> StatisticsScratch {
        StatisticsScratch::default()
    }

    fn step(
        &self,
        state: &mut Statistics,
        scratch: &mut StatisticsScratch,
        block: &RowBlock<'_, T>,
        _workers: &Workers,
    ) -> Result<()> {
        state.rows += block.len() as u64;
        scratch.row_weights.clear();
        scratch.row_weights.extend((0..block.len()).map(|i| block.weight(i).unwrap_or(1.0).max(0.0)));
        state.fractional_weight_count +=
            scratch.row_weights.iter().filter(|weight| weight.fract() != 0.0).count() as u64;
        scratch.add_tile(block.x, &mut state.inputs);
        scratch.add_tile(block.y, &mut state.targets);
        scratch.add_tile(block.weights.unwrap_or_default(), &mut state.weights);
        if let Some(coded) = &block.classes {
            state.classes.add_tile(coded, &scratch.row_weights, &mut scratch.label_counts);
        }
        if let Some(coded) = &block.groups {
            state.groups.add_tile(coded, &scratch.row_weights, &mut scratch.label_counts);
        }
        Ok(())
    }
}

impl StatisticsScratch {
    /// Computes the moments of a row-major tile, and merges them into `columns`.
    fn add_tile<V: Float>(&mut self, x: &[V], columns: &mut [ColumnMoments]) {
        let d = columns.len();
        if d == 0 || x.is_empty() {
            return;
        }
        // the first value of its column is subtracted from each value: a constant column is then
        // exactly constant, and sums stay small if the mean is large compared with the deviation
        self.shifts.clear();
        self.shifts.extend((0..d).map(|c| first_value(x, d, c)));
        for sums in [&mut self.weight_sums, &mut self.value_sums, &mut self.square_sums] {
            sums.clear();
            sums.resize(d, 0.0);
        }
        for (row, row_weight) in x.chunks_exact(d).zip(&self.row_weights) {
            let sums = self.weight_sums.iter_mut().zip(&mut self.value_sums);
            for ((value, shift), (weight, sum)) in row.iter().zip(&self.shifts).zip(sums) {
                let v = value.to_f64();
                let (value_weight, offset) = if v.is_nan() { (0.0, 0.0) } else { (*row_weight, v - shift) };
                *weight += value_weight;
                *sum += value_weight * offset;
            }
        }
        // from here on `sum` is the mean relative to the shift
        for (sum, weight) in self.value_sums.iter_mut().zip(&self.weight_sums) {
            *sum = if *weight > 0.0 { *sum / weight } else { 0.0 };
        }
        for (row, row_weight) in x.chunks_exact(d).zip(&self.row_weights) {
            let centres = self.shifts.iter().zip(&self.value_sums);
            for ((value, (shift, mean)), square) in row.iter().zip(centres).zip(&mut self.square_sums) {
                let v = value.to_f64();
                let offset = if v.is_nan() { 0.0 } else { (v - shift) - mean };
                *square += row_weight * (offset * offset);
            }
        }
        self.merge_tile(x, columns);
    }

    fn merge_tile<V: Float>(&self, x: &[V], columns: &mut [ColumnMoments]) {
        let d = columns.len();
        let mut tile_moments: Vec<ColumnMoments> = (0..d)
            .map(|c| ColumnMoments {
                weight_sum: self.weight_sums[c],
                mean: self.shifts[c] + self.value_sums[c],
                m2: self.square_sums[c],
                ..ColumnMoments::default()
            })
            .collect();
        for row in x.chunks_exact(d) {
            for (moments, value) in tile_moments.iter_mut().zip(row) {
                // a comparison with NaN is false
                let v = value.to_f64();
                moments.count += u64::from(!v.is_nan());
                moments.min = if v < moments.min { v } else { moments.min };
                moments.max = if v > moments.max { v } else { moments.max };
            }
        }
        for (column, tile) in columns.iter_mut().zip(&tile_moments) {
            column.merge(tile);
        }
    }
}

fn first_value<V: Float>(x: &[V], d: usize, c: usize) -> f64 {
    x[c..].iter().step_by(d).map(|v| v.to_f64()).find(|v| !v.is_nan()).unwrap_or(0.0)
}

/// Largest standard deviation at which the values of a column count as equal, in units in the last
/// place of the largest value. A constant that is computed in slightly different ways varies by a
/// few such units. Dividing by its deviation would scale this rounding noise to the size of a real
/// input.
const CONSTANT_ULPS: f64 = 8.0;

/// Returns true if a deviation is rounding noise compared with values as large as `magnitude`.
pub(crate) fn is_rounding_noise(deviation: f64, magnitude: f64) -> bool {
    deviation <= CONSTANT_ULPS * f64::EPSILON * magnitude
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryRows, Pass, RowSource};

    #[test]
    fn weights_and_targets_have_separate_moments() {
        let rows = MemoryRows::new(vec![1.0, 2.0, 3.0], 1).unwrap().with_targets(vec![4.0, 5.0, 9.0], 1).unwrap();
        assert!(rows.clone().with_weights(Some(vec![1.0])).is_err());
        let statistics = |rows: &MemoryRows<f64>| {
            let reduction = StatisticsReduction::new(rows.shape());
            Pass::new(2, 2, &Workers::sequential()).reduce(rows, &reduction).unwrap().0
        };
        let weighted = statistics(&rows.clone().with_weights(Some(vec![2.0, 1.0, 0.5])).unwrap());
        assert_eq!((weighted.targets.len(), weighted.targets[0].mean), (1, 17.5 / 3.5));
        assert_eq!(
            (weighted.weights[0].weight_sum, weighted.weights[0].min, weighted.fractional_weight_count),
            (3.5, 0.5, 1)
        );
        assert!(statistics(&rows).weights.is_empty());
    }

    /// Segments with few texts each may have too much text together.
    #[test]
    fn the_texts_of_labels_are_bounded_across_segments() {
        let mut counts = LabelCounts::default();
        for letter in ["a", "b", "c"] {
            counts.add(&Label::Text(letter.repeat(LABEL_TEXT_BYTES + 1).into()), 1, 1.0);
        }
        assert!(counts.check("c", 4).is_ok() && counts.check("c", 3).is_err());
    }
}
