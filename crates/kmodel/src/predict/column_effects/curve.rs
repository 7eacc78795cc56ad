//! The partial dependence of a column.

use super::sample::EffectSample;
use super::{FeatureRange, MAX_DEPENDENCE_ROWS, Outcome};
use crate::Result;
use crate::predict::Predictor;
use crate::score::{DependencePoint, PredictionSpread};
use kstore::encoding::{ColumnEncoding, EncodedColumn};

/// Maximum number of values of a numeric column, and of levels of a category.
const MAX_VALUES: usize = 20;
const MAX_LEVELS: usize = 12;

/// Fractions of the rows below the first value and above the last one.
const TAIL: f64 = 0.02;

/// Fractions of the rows below and above the band.
const DECILE: f64 = 0.1;

/// A value of a column: its features, and how it is shown.
struct ColumnValue {
    features: Vec<f64>,
    value: f64,
    level: Option<String>,
}

/// Returns the partial dependence of a column; empty for a column without single values.
pub(super) fn dependence(
    predictor: &Predictor,
    outcome: &Outcome<'_>,
    sample: &EffectSample,
    features: FeatureRange,
) -> Result<Vec<DependencePoint>> {
    let (d, t) = (predictor.feature_count(), predictor.output_count());
    let rows = sample.rows().min(MAX_DEPENDENCE_ROWS);
    let mut x = sample.x[..rows * d].to_vec();
    let (mut scores, mut probabilities) = (vec![0.0; rows * t], Vec::new());
    let mut points = Vec::new();
    for ColumnValue { features: value_features, value, level } in column_values(predictor, sample, features.clone()) {
        x.chunks_exact_mut(d).for_each(|row| row[features.clone()].copy_from_slice(&value_features));
        predictor.predict_changes(&x, &mut scores)?;
        let mut shown = vec![Vec::with_capacity(rows); outcome.shown_classes.len().max(1)];
        let mut rows_of_scores = scores.chunks_exact(t);
        if !rows_of_scores.all(|scores| outcome.push_shown(scores, &mut probabilities, &mut shown).is_some()) {
            return Ok(Vec::new());
        }
        points.push(DependencePoint { value, level, predictions: shown.into_iter().map(spread).collect() });
    }
    Ok(points)
}

/// Returns the mean and the deciles of predictions.
fn spread(mut predictions: Vec<f64>) -> PredictionSpread {
    let mean = predictions.iter().sum::<f64>() / predictions.len() as f64;
    predictions.sort_by(f64::total_cmp);
    PredictionSpread { mean, deciles: (quantile(&predictions, DECILE), quantile(&predictions, 1.0 - DECILE)) }
}

/// Returns the values of a column for which predictions are made: quantiles of a number, or the
/// most frequent levels of a category.
fn column_values(predictor: &Predictor, sample: &EffectSample, features: FeatureRange) -> Vec<ColumnValue> {
    let d = predictor.feature_count();
    let column = predictor.metadata().encoding.as_ref().and_then(|encoding| {
        let mut first = 0;
        encoding.columns().iter().find(|column| {
            first += column.feature_count();
            first == features.end
        })
    });
    let feature_values = |j: usize| sample.x.iter().skip(j).step_by(d).copied();
    match column.map(|column: &EncodedColumn| (&column.encoding, column.feature_count())) {
        Some((ColumnEncoding::Values(levels), width)) => {
            let count = |level: usize| feature_values(features.start + level).filter(|value| *value > 0.5).count();
            let mut frequent: Vec<usize> = (0..levels.len()).collect();
            frequent.sort_by_key(|level| std::cmp::Reverse(count(*level)));
            frequent.truncate(MAX_LEVELS);
            frequent.sort_unstable();
            let column_value = |(i, level): (usize, usize)| {
                let mut value_features = vec![0.0; width];
                value_features[level] = 1.0;
                ColumnValue { features: value_features, value: i as f64, level: Some(levels[level].to_string()) }
            };
            frequent.into_iter().enumerate().map(column_value).collect()
        }
        Some((ColumnEncoding::Number | ColumnEncoding::Effects(_), width)) if width <= 2 => {
            // the indicator of a missing value, if there is one, is 0
            number_values(feature_values(features.start), width)
        }
        None => number_values(feature_values(features.start), features.len()),
        _ => Vec::new(),
    }
}

fn number_values(values: impl Iterator<Item = f64>, width: usize) -> Vec<ColumnValue> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let mut distinct = sorted.clone();
    distinct.dedup();
    if distinct.len() > MAX_VALUES {
        let position = |i: usize| TAIL + (1.0 - 2.0 * TAIL) * i as f64 / (MAX_VALUES - 1) as f64;
        distinct = (0..MAX_VALUES).map(|i| quantile(&sorted, position(i))).collect();
        distinct.dedup();
    }
    let column_value = |value: f64| {
        let mut features = vec![0.0; width];
        features[0] = value;
        ColumnValue { features, value, level: None }
    };
    // a constant column has no dependence
    if distinct.len() < 2 { Vec::new() } else { distinct.into_iter().map(column_value).collect() }
}

/// Returns the value at a fraction of sorted values.
fn quantile(sorted: &[f64], fraction: f64) -> f64 {
    sorted[((fraction * (sorted.len() - 1) as f64).round() as usize).min(sorted.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_quantiles_and_few_values_themselves() {
        let of = |values: Vec<f64>| number_values(values.into_iter(), 2).iter().map(|v| v.value).collect::<Vec<_>>();
        assert_eq!(of(vec![3.0, 1.0, 2.0, 1.0]), [1.0, 2.0, 3.0]);
        assert!(of(vec![5.0; 40]).is_empty());
        let many = of((0..=1000).map(|i| f64::from(i).powi(2)).collect());
        assert_eq!((many.len(), many[0], many[19]), (20, 400.0, 960_400.0));
        assert_eq!(number_values([1.0, 2.0].into_iter(), 2)[1].features, [2.0, 0.0]);
    }
}
