//! The rows of the sample, and the importance of a column on them.

use super::{EXCHANGES, FeatureRange, Outcome};
use crate::model::match_precision;
use crate::predict::explanation::unscale;
use crate::predict::{AnyPreparedModel, Predictor};
use crate::run::{Run, StageObserver};
use crate::{Error, Result};
use kstore::key::{Purpose, Stream};
use kstore::pass::lanes::{self, LaneMemory};
use kstore::{LabelCodes, ReadSettings, RowBlock, SelectedTable, Workers};
use std::sync::Arc;

/// A row of the sample while the table is read.
struct SampledRow {
    key: u64,
    x: Vec<f64>,
    truth: f64,
    weight: f64,
}

/// A uniform sample of rows in random order, in the units of the table.
pub(super) struct EffectSample {
    /// Inputs, n x d, row-major.
    pub(super) x: Vec<f64>,
    /// True values of the first target, or codes of classes.
    pub(super) truths: Vec<f64>,
    weights: Vec<f64>,
}

impl EffectSample {
    pub(super) fn rows(&self) -> usize {
        self.truths.len()
    }

    /// Reads the rows with the smallest random keys. Rows of unknown classes are left out.
    pub(super) fn read(
        predictor: &Predictor,
        selected: &SelectedTable,
        max_rows: usize,
        run: &Run<'_>,
    ) -> Result<Self> {
        // the scaler imputes missing values
        let scaler = match_precision!(AnyPreparedModel: &predictor.model, prepared => prepared.model.scaler.clone());
        let labels = &predictor.metadata().classes;
        let class_labels = (!labels.is_empty()).then(|| Arc::new(labels.clone()));
        let settings = ReadSettings { scaler: Some(Arc::new(scaler.clone())), class_labels, ..ReadSettings::default() };
        let source = selected.rows::<f64>(settings)?;
        let (d, threads) = (predictor.feature_count().max(1), run.workers().threads());
        let lane_memory = LaneMemory {
            tile_rows: lanes::TILE_ROWS,
            name: "sample of rows",
            bytes: 8 * (d + 8) * (max_rows * (2 + 2 * threads) + lanes::TILE_ROWS),
            shared_terms: vec![predictor.plan_term(threads * predictor.scratch_bytes())],
        };
        // called only to check the memory budget
        lanes::fitting_lanes("the effects of columns", &source, &lane_memory, run.memory_budget(), 1)?;
        let (stream, workers, recorder) =
            (Stream::new(0, Purpose::Background, 1), Workers::sequential(), run.stage_recorder());
        let stage = recorder.start_stage("sample of rows", selected.row_count_if_known());
        let mut rows: Vec<SampledRow> = Vec::new();
        lanes::default_pass(1, &workers, &*stage).visit(&source, |block: &RowBlock<'_, f64>| {
            for (i, row) in block.row_numbers.iter().enumerate() {
                let truth = match &block.classes {
                    Some(classes) if classes.codes[i] == LabelCodes::UNKNOWN => continue,
                    Some(classes) => f64::from(classes.codes[i]),
                    None => block.y[i * block.t],
                };
                let x = block.x[i * block.d..(i + 1) * block.d].to_vec();
                rows.push(SampledRow { key: stream.word(*row), x, truth, weight: block.weight(i).unwrap_or(1.0) });
            }
            rows.sort_unstable_by_key(|row| row.key);
            rows.truncate(max_rows);
            Ok::<_, Error>(())
        })?;
        drop(stage);
        let scaled = rows.iter().flat_map(|row| row.x.iter().enumerate());
        let x = scaled.map(|(j, value)| unscale(&scaler, j, *value, f64::EPSILON)).collect();
        // a model with exposures predicts rates: counts per unit of exposure
        let exposure_power = predictor.exposure_power(selected);
        let truth = |row: &SampledRow| exposure_power.map_or(row.truth, |_| row.truth / row.weight);
        let weight = |row: &SampledRow| exposure_power.map_or(row.weight, |power| row.weight.powf(power));
        Ok(Self { x, truths: rows.iter().map(truth).collect(), weights: rows.iter().map(weight).collect() })
    }

    /// Returns the loss of each row.
    pub(super) fn losses(&self, outcome: &Outcome<'_>, scores: &[f64]) -> Vec<f64> {
        let t = outcome.predictor.output_count();
        scores.chunks_exact(t).zip(&self.truths).map(|(scores, truth)| outcome.loss(scores, *truth)).collect()
    }

    /// Returns the weighted mean of numbers of the rows.
    pub(super) fn mean(&self, values: &[f64]) -> f64 {
        let total: f64 = self.weights.iter().sum();
        values.iter().zip(&self.weights).map(|(value, weight)| weight * value).sum::<f64>() / total
    }

    /// Returns the increase of the loss if the features of one column come from other rows, with
    /// its standard error over rows.
    ///
    /// The rows are in random order, so the row at a fixed distance is a random other row.
    pub(super) fn importance(
        &self,
        predictor: &Predictor,
        outcome: &Outcome<'_>,
        features: FeatureRange,
        losses: &[f64],
    ) -> Result<(f64, f64)> {
        let (n, d) = (self.rows(), predictor.feature_count());
        let (mut x, mut scores) = (self.x.clone(), vec![0.0; n * predictor.output_count()]);
        let mut increases = vec![0.0; n];
        for exchange in 1..=EXCHANGES {
            let distance = exchange * n / (EXCHANGES + 1);
            for i in 0..n {
                let other = (i + distance) % n;
                x[i * d..][features.clone()].copy_from_slice(&self.x[other * d..][features.clone()]);
            }
            predictor.predict_changes(&x, &mut scores)?;
            let exchanged = self.losses(outcome, &scores);
            for ((increase, exchanged), loss) in increases.iter_mut().zip(exchanged).zip(losses) {
                *increase += (exchanged - loss) / EXCHANGES as f64;
            }
        }
        let (loss, increase) = (self.mean(losses), self.mean(&increases));
        let squares: Vec<f64> = increases.iter().map(|value| (value - increase).powi(2)).collect();
        let standard_error = (self.mean(&squares) / (n - 1) as f64).sqrt();
        let (before, _) = outcome.in_units(loss, 0.0);
        let (after, standard_error) = outcome.in_units((loss + increase).max(0.0), standard_error);
        Ok((after - before, standard_error))
    }
}
