//! Tests of the columns of new rows against the columns of the training rows, which a model stores.

use super::column_tests::{ColumnDifference, FeatureMoments, correct_p_values, level_difference, number_difference};
use super::column_values::{TableColumn, table_columns};
use crate::ModelMetadata;
use crate::train::column_sample::column_values;
use kapprox::landmark::RowSample;
use kstore::{SelectedTable, Statistics, statistics::ColumnMoments};

/// Tests every column of new rows with the tests for two tables: numbers by their distribution
/// functions on a sample of each side, categories by the numbers of all rows. `old_means` are the
/// means of the features of the training rows; `sample` is a sample of the new rows. The columns
/// that differ most come first.
pub(super) fn stored_column_tests(
    metadata: &ModelMetadata,
    old_means: &[f64],
    selected: &SelectedTable,
    statistics: &Statistics,
    sample: &RowSample<f64>,
) -> Vec<ColumnDifference> {
    let old_inputs = old_moments(metadata, old_means);
    let moments = [
        FeatureMoments { rows: metadata.rows, inputs: &old_inputs },
        FeatureMoments { rows: statistics.rows, inputs: &statistics.inputs },
    ];
    let difference = |column: &TableColumn| match column {
        TableColumn::Number(name, j) => {
            let old = metadata.distributions.iter().find(|old| old.column == *name)?;
            let mut values = column_values(sample, *j);
            values.retain(|value| !value.is_nan());
            values.sort_unstable_by(f64::total_cmp);
            let sizes = [old.sampled, values.len() as u64];
            let sides = moments.map(|moments| (&moments.inputs[*j], moments.rows));
            number_difference(name, sizes, old.distance(&values), sides)
        }
        TableColumn::Category(name, levels) => {
            level_difference(name, levels, moments.map(|moments| moments.level_counts(levels)), moments)
        }
    };
    let mut tests: Vec<ColumnDifference> = table_columns(selected).iter().filter_map(difference).collect();
    tests.sort_by(|a, b| a.p_value.total_cmp(&b.p_value).then(b.distance.total_cmp(&a.distance)));
    correct_p_values(&mut tests);
    tests
}

/// Returns the moments of the features of the training rows. The extremes are of the sample, and
/// features without a stored distribution have no deviation.
fn old_moments(metadata: &ModelMetadata, old_means: &[f64]) -> Vec<ColumnMoments> {
    let moments = |(name, mean): (&String, &f64)| {
        let old = metadata.distributions.iter().find(|old| old.column == *name);
        let count = old.map_or(metadata.rows, |old| old.count);
        let extremes = old.and_then(|old| Some([*old.quantiles.first()?, *old.quantiles.last()?]));
        let [min, max] = extremes.unwrap_or([*mean; 2]);
        ColumnMoments {
            count,
            min,
            max,
            weight_sum: count as f64,
            mean: *mean,
            m2: old.map_or(0.0, |old| old.deviation * old.deviation * old.count as f64),
            ..ColumnMoments::default()
        }
    };
    metadata.features.iter().zip(old_means).map(moments).collect()
}
