//! The pass that learns the effects of values on the target, from sums of the target for each value
//! and fold.

use super::{ColumnNote, DistinctCount, Search};
use crate::KeptValues;
use crate::encoding::effects::{Effects, FOLD_COUNT, fold_of_row};
use crate::encoding::{ColumnEncoding, EncodedColumn, Encoding};
use crate::select::SelectedTable;
use crate::{
    Digest, Error, Label, Merge, Missing, ReadSettings, Reduction, Result, RowBlock, TableRows, TextLimit, Workers,
};
use std::{collections::HashMap, sync::Arc};

/// Maximum number of distinct values of a column that becomes effects. Chosen: for one output, the
/// sums of a column then take at most 9 MiB, 144 bytes for each value.
const MAX_EFFECT_VALUES: usize = 1 << 16;

/// Maximum number of outputs whose effects become features: targets, or classes except the most
/// frequent class. Chosen: each output is one more feature of every column with effects.
const MAX_OUTPUTS: usize = 15;

/// Digest that stands for a missing text.
const MISSING_DIGEST: u64 = u64::MAX;

/// The F statistic must exceed 1 by at least this many of its standard deviations. The standard
/// deviation is computed for a column without any effect. Chosen: a larger number would omit more
/// columns with a small effect, a smaller number would keep more columns without an effect.
const CHANCE_DEVIATIONS: f64 = 4.0;

/// For each fold, the sum of the weights and, for each output, the sum of the weighted targets of
/// some rows: `[weight, target, …]`, concatenated.
type FoldSums = Box<[f64]>;

/// The state of an [`EffectSearch`]: sums of weights and targets.
#[derive(Clone, Debug)]
pub struct EffectSums {
    /// For each column, the sums of each value; `None` if there are too many values.
    value_sums: Vec<Option<HashMap<u64, FoldSums>>>,
    total_sums: FoldSums,
    squared_target_sums: Vec<f64>,
    row_count: u64,
    /// Whether any weight is not an integer. In this case a sum of weights is not a number of rows.
    has_fractional_weights: bool,
}

fn add_to(sums: &mut [f64], addends: &[f64]) {
    sums.iter_mut().zip(addends).for_each(|(sum, addend)| *sum += addend);
}

impl Merge for EffectSums {
    fn merge(&mut self, later: &Self) {
        add_to(&mut self.total_sums, &later.total_sums);
        add_to(&mut self.squared_target_sums, &later.squared_target_sums);
        self.row_count += later.row_count;
        self.has_fractional_weights |= later.has_fractional_weights;
        for (sums_by_value, later) in self.value_sums.iter_mut().zip(&later.value_sums) {
            *sums_by_value = sums_by_value.take().zip(later.as_ref()).and_then(|(mut merged_sums, later)| {
                later.iter().for_each(|(value, sums)| match merged_sums.get_mut(value) {
                    Some(earlier_sums) => add_to(earlier_sums, sums),
                    None => _ = merged_sums.insert(*value, sums.clone()),
                });
                (merged_sums.len() <= MAX_EFFECT_VALUES).then_some(merged_sums)
            });
        }
    }
}

/// The reduction that learns effects, in a pass over [`EffectSearch::rows`].
#[derive(Clone, Debug)]
pub struct EffectSearch {
    selected: SelectedTable,
    read_selection: SelectedTable,
    column_indices: Vec<usize>,
    classes: Option<Arc<Vec<Label>>>,
    outputs: Vec<String>,
}

impl SelectedTable {
    /// Returns the names of the columns that become effects.
    #[doc(hidden)]
    pub fn effect_columns(&self) -> Vec<String> {
        let columns = self.encoding().into_iter().flat_map(Encoding::columns);
        columns
            .filter(|column| matches!(column.encoding, ColumnEncoding::Effects(_)))
            .map(|column| column.name.clone())
            .collect()
    }

    /// Returns the search for effects on the targets or, for a class, on the frequencies of
    /// `classes` except the first. Only the first `MAX_OUTPUTS` outputs are used. Returns `None` if
    /// no column has effects to learn.
    #[doc(hidden)]
    pub fn effect_search(&self, classes: Option<Arc<Vec<Label>>>) -> Option<EffectSearch> {
        let encoding = self.encoding()?;
        let unlearned = encoding.columns().iter().enumerate().filter(|(_, column)| column.is_unlearned());
        let column_indices: Vec<usize> = unlearned.map(|(index, _)| index).collect();
        if column_indices.is_empty() {
            return None;
        }
        let output_names = match &classes {
            Some(labels) => labels.iter().skip(1).map(|label| format!("={label}")).collect(),
            None => self.target_names().iter().map(|name| format!(".{name}")).collect::<Vec<_>>(),
        };
        let outputs = if output_names.len() == 1 {
            vec![String::new()]
        } else {
            output_names.into_iter().take(MAX_OUTPUTS).collect()
        };
        // a row that is dropped for a missing value in another column must not count here
        let drops_incomplete = self.missing == Missing::Drop;
        let other_indices =
            (0..self.features.len()).filter(|index| drops_incomplete && !column_indices.contains(index));
        let (numeric_indices, other_indices): (Vec<usize>, Vec<usize>) =
            other_indices.partition(|index| encoding.columns()[*index].encoding == ColumnEncoding::Number);
        let keep: Vec<usize> = column_indices.iter().chain(&other_indices).map(|index| self.features[*index]).collect();
        let numeric_columns = numeric_indices.into_iter().map(|index| self.features[index]).collect();
        let Self { targets, weight, class, .. } = self.clone();
        let read_selection =
            Self { targets, weight, class, group: None, ..self.for_search(numeric_columns, keep, Missing::Error) };
        Some(EffectSearch { selected: self.clone(), read_selection, column_indices, classes, outputs })
    }
}

impl Search for EffectSearch {
    fn rows(&self, text_limit: TextLimit) -> Result<TableRows<f64>> {
        self.read_selection.rows::<f64>(ReadSettings {
            text_limit,
            class_labels: self.classes.clone(),
            ..ReadSettings::default()
        })
    }

    fn state_bytes(&self) -> usize {
        self.column_indices.len() * MAX_EFFECT_VALUES * (64 + 8 * self.sums_per_value())
    }

    fn finish(&self, state: &EffectSums) -> Result<(SelectedTable, Vec<ColumnNote>)> {
        let (mut columns, mut features, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        let all_columns = self.selected.encoding().into_iter().flat_map(Encoding::columns).enumerate();
        for ((index, column), feature) in all_columns.zip(&self.selected.features) {
            let encoded_column = match self.column_indices.iter().position(|searched| *searched == index) {
                None => Some(column.clone()),
                Some(search_index) => {
                    let effects = state.value_sums[search_index].as_ref().and_then(|sums| self.estimate(sums, state));
                    effects
                        .map(|effects| EncodedColumn { encoding: ColumnEncoding::Effects(effects), ..column.clone() })
                }
            };
            match encoded_column {
                Some(column) => {
                    columns.push(column);
                    features.push(*feature);
                }
                None => {
                    let has_too_many_values = self
                        .column_indices
                        .iter()
                        .position(|searched| *searched == index)
                        .is_some_and(|search_index| state.value_sums[search_index].is_none());
                    let values = DistinctCount::More { limit: MAX_EFFECT_VALUES, has_repeats: true };
                    let column = column.name.clone();
                    notes.push(match has_too_many_values {
                        true => ColumnNote::TooManyValues { column, values },
                        false => ColumnNote::NoEffect { column },
                    });
                }
            }
        }
        if columns.is_empty() {
            return Err(self.selected.table.empty_error("no column remains as a feature"));
        }
        Ok((self.selected.with_encoding(features, Encoding::new(columns))?, notes))
    }
}

impl EffectSearch {
    /// Returns the number of sums for a value: for each fold, a weight and one sum for each output.
    fn sums_per_value(&self) -> usize {
        FOLD_COUNT * (1 + self.outputs.len())
    }

    /// Estimates the effects of the values from their sums; `None` if chance alone can explain the
    /// differences between values.
    fn estimate(&self, sums: &HashMap<u64, FoldSums>, pass_sums: &EffectSums) -> Option<Effects> {
        let t = self.outputs.len();
        let total = TargetSums::sum_folds(&pass_sums.total_sums, t, None);
        let row_count = if pass_sums.has_fractional_weights { pass_sums.row_count as f64 } else { total.weight };
        let rows_per_weight = row_count / total.weight;
        let mut values: Vec<u64> = sums.keys().copied().collect();
        values.sort_unstable();
        let value_count = values.len() as f64;
        let (mut between_squares, mut within_squares, mut squared_size_sum) = (0.0, 0.0, 0.0);
        let mut deviations = Vec::with_capacity(t);
        for (output, squares) in pass_sums.squared_target_sums.iter().enumerate() {
            let squares_of_mean = total.sums[output] * total.sums[output] / total.weight;
            let explained_squares: f64 =
                values.iter().map(|value| TargetSums::sum_folds(&sums[value], t, None).explained_squares(output)).sum();
            let total_squares = squares - squares_of_mean;
            // a constant target has no variance except rounding errors
            if total_squares.is_nan() || total_squares <= 1e-12 * squares {
                return None;
            }
            between_squares += (explained_squares - squares_of_mean) / total_squares;
            within_squares += (squares - explained_squares).max(0.0) / total_squares;
            deviations.push((total_squares / total.weight).sqrt());
        }
        values.iter().for_each(|value| {
            squared_size_sum += (rows_per_weight * TargetSums::sum_folds(&sums[value], t, None).weight).powi(2)
        });
        let (between_df, within_df) = (t as f64 * (value_count - 1.0), t as f64 * (row_count - value_count));
        if between_df <= 0.0 || within_df <= 0.0 {
            return None;
        }
        let (between_mean_square, within_mean_square) = (between_squares / between_df, within_squares / within_df);
        // without any effect, the F statistic has a mean near 1, and a variance near 2/between_df +
        // 2/within_df
        let threshold = within_mean_square * (1.0 + CHANCE_DEVIATIONS * (2.0 / between_df + 2.0 / within_df).sqrt());
        if threshold.is_nan() || between_mean_square <= threshold {
            return None;
        }
        // (n − Σ_v n_v²/n) / (k − 1) for k values with n_v rows each, n in total
        let mean_rows_per_value = (row_count - squared_size_sum / row_count) / (value_count - 1.0);
        // the weight that the mean of all rows gets in the mean of a value, in units of row weights
        let prior_weight =
            within_mean_square * mean_rows_per_value / (between_mean_square - within_mean_square) / rows_per_weight;
        // a single outlier can make values differ by more than chance, but does not help to predict
        // the rows of other folds
        if self.cross_validated_gain(&values, sums, pass_sums, prior_weight) <= 0.0 {
            return None;
        }
        let effects_without = |excluded_fold: Option<usize>| -> Vec<f64> {
            let total = TargetSums::sum_folds(&pass_sums.total_sums, t, excluded_fold);
            let effects =
                |value: &u64| total.effects(&TargetSums::sum_folds(&sums[value], t, excluded_fold), prior_weight);
            values
                .iter()
                .flat_map(effects)
                .zip(deviations.iter().cycle())
                .map(|(effect, deviation)| effect / deviation)
                .collect()
        };
        let folds = (0..FOLD_COUNT).map(|fold| effects_without(Some(fold))).collect();
        Some(Effects { outputs: self.outputs.clone(), effects: effects_without(None), folds, values })
    }

    /// Returns the cross-validated reduction of the squared error, when the rows of each fold are
    /// predicted by the effects that are estimated from the other folds. The reduction of each
    /// output is divided by the sum of squares of the output; the result is the sum over outputs.
    fn cross_validated_gain(
        &self,
        values: &[u64],
        sums: &HashMap<u64, FoldSums>,
        pass_sums: &EffectSums,
        prior_weight: f64,
    ) -> f64 {
        let t = self.outputs.len();
        let mut gain = 0.0;
        for fold in 0..FOLD_COUNT {
            let total = TargetSums::sum_folds(&pass_sums.total_sums, t, Some(fold));
            for sums in values.iter().map(|value| &sums[value]) {
                let fold_sums = &sums[fold * (1 + t)..(fold + 1) * (1 + t)];
                let effects = total.effects(&TargetSums::sum_folds(sums, t, Some(fold)), prior_weight);
                for ((effect, sum), (mean, squares)) in
                    effects.iter().zip(&fold_sums[1..]).zip(total.sums.iter().zip(&pass_sums.squared_target_sums))
                {
                    // Σ r² − Σ (r − e)² = e (2 Σ r − e w) for the effect e on rows of total weight
                    // w, where r is the target minus its mean, and `residual` is Σ r
                    let residual = sum - fold_sums[0] * mean / total.weight.max(f64::MIN_POSITIVE);
                    gain += effect * (2.0 * residual - effect * fold_sums[0]) / squares;
                }
            }
        }
        gain
    }
}

/// Sums over all folds, or over all folds except one.
struct TargetSums {
    weight: f64,
    sums: Vec<f64>,
}

impl TargetSums {
    fn sum_folds(sums: &[f64], t: usize, excluded_fold: Option<usize>) -> Self {
        let mut total = vec![0.0; 1 + t];
        let folds = sums.chunks_exact(1 + t).enumerate().filter(|(fold, _)| Some(*fold) != excluded_fold);
        folds.for_each(|(_, sums)| add_to(&mut total, sums));
        let sums = total.split_off(1);
        Self { weight: total[0], sums }
    }

    fn explained_squares(&self, output: usize) -> f64 {
        if self.weight > 0.0 { self.sums[output] * self.sums[output] / self.weight } else { 0.0 }
    }

    /// Returns, for each output, the smoothed mean of a value minus the mean of all rows; 0 if the
    /// weights are 0.
    fn effects(&self, value: &Self, prior_weight: f64) -> Vec<f64> {
        let means = self.sums.iter().map(|sum| if self.weight > 0.0 { sum / self.weight } else { 0.0 });
        let weight = value.weight + prior_weight;
        let smoothed_mean =
            |(sum, mean): (&f64, f64)| if weight > 0.0 { (sum - value.weight * mean) / weight } else { 0.0 };
        value.sums.iter().zip(means).map(smoothed_mean).collect()
    }
}

impl Reduction<f64> for EffectSearch {
    type State = EffectSums;
    type Scratch = Vec<f64>;
    type Error = Error;

    fn init(&self) -> EffectSums {
        let total_sums = vec![0.0; self.sums_per_value()].into_boxed_slice();
        let value_sums = vec![Some(HashMap::new()); self.column_indices.len()];
        EffectSums {
            value_sums,
            total_sums,
            squared_target_sums: vec![0.0; self.outputs.len()],
            row_count: 0,
            has_fractional_weights: false,
        }
    }

    fn scratch(&self) -> Vec<f64> {
        vec![0.0; 1 + self.outputs.len()]
    }

    fn step(
        &self,
        state: &mut EffectSums,
        row_sums: &mut Vec<f64>,
        block: &RowBlock<'_, f64>,
        _: &Workers,
    ) -> Result<()> {
        for (i, row) in block.row_numbers.iter().enumerate() {
            row_sums[0] = block.weight(i).unwrap_or(1.0);
            if row_sums[0] <= 0.0 {
                continue;
            }
            let class_code = block.classes.map(|classes| classes.codes[i] as usize);
            for output in 0..self.outputs.len() {
                let target = match class_code {
                    Some(code) => f64::from(u8::from(code == output + 1)),
                    None => block.y[i * block.t + output],
                };
                row_sums[1 + output] = row_sums[0] * target;
                state.squared_target_sums[output] += row_sums[1 + output] * target;
            }
            let offset = fold_of_row(*row) * row_sums.len();
            state.row_count += 1;
            state.has_fractional_weights |= row_sums[0].fract() != 0.0;
            add_to(&mut state.total_sums[offset..], row_sums);
            for (values, column) in state.value_sums.iter_mut().zip(block.kept_columns) {
                let (KeptValues::Text(texts), Some(sums_by_value)) = (column.values(), values.as_mut()) else {
                    continue;
                };
                let value = if column.is_null(i) { MISSING_DIGEST } else { Digest::u64_of(texts.text(i).as_bytes()) };
                let sums_len = state.total_sums.len();
                let sums = sums_by_value.entry(value).or_insert_with(|| vec![0.0; sums_len].into_boxed_slice());
                add_to(&mut sums[offset..], row_sums);
                if sums_by_value.len() > MAX_EFFECT_VALUES {
                    *values = None;
                }
            }
        }
        Ok(())
    }
}
