//! The columns of new rows whose means differ from the means of the training rows of a model.

use super::column_tests::{ColumnDifference, holm};
use super::null_distribution::{ChiSquaredSum, MIN_PROBABILITY};
use crate::ModelMetadata;
use kstore::statistics::ColumnMoments;

/// Returns the columns whose means differ most from the means of the training rows, by the normal
/// approximation: (mean − old mean)² / (s² (1/n + 1/m)) has one degree of freedom.
pub(super) fn moved_columns(
    metadata: &ModelMetadata,
    old_means: &[f64],
    inputs: &[ColumnMoments],
) -> Vec<ColumnDifference> {
    let is_binary = metadata.encoding.as_ref().map_or(Vec::new(), |encoding| encoding.binary_mask());
    let mut columns: Vec<ColumnDifference> = Vec::new();
    for (j, ((name, old_mean), new)) in metadata.features.iter().zip(old_means).zip(inputs).enumerate() {
        if new.count < 2 {
            continue;
        }
        let (change, is_level) = (new.mean - old_mean, is_binary.get(j) == Some(&true));
        let variance = new.deviation().powi(2) * (1.0 / metadata.rows.max(1) as f64 + 1.0 / new.count as f64);
        // a mean of equal values differs from them by rounding
        let is_equal = change.abs() <= 1e-9 * (new.mean.abs() + old_mean.abs());
        let p_value = match () {
            () if is_equal => 1.0,
            () if variance > 0.0 => ChiSquaredSum::gamma(1.0, 2.0).survival(change * change / variance).unwrap_or(1.0),
            () => MIN_PROBABILITY,
        };
        let difference = (new.deviation() > 0.0 && !is_level).then(|| change / new.deviation());
        columns.push(ColumnDifference {
            column: name.clone(),
            test: "z",
            distance: if is_level { change.abs() } else { difference.map_or(0.0, f64::abs) },
            p_value,
            corrected_p_value: p_value,
            level: is_level.then(|| name.clone()),
            means: [*old_mean, new.mean],
            difference,
            missing: None,
            histogram: None,
        });
    }
    columns.sort_by(|a, b| a.p_value.total_cmp(&b.p_value).then(b.distance.total_cmp(&a.distance)));
    let corrected = holm(&columns.iter().map(|column| column.p_value).collect::<Vec<_>>());
    columns.iter_mut().zip(corrected).for_each(|(column, corrected)| column.corrected_p_value = corrected);
    columns
}
