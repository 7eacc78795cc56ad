//! A round of metric learning: kernel ridge regression after a metric, the held-out error of the
//! fit, the gradients of its function, the next metric, and the variation of the metric between
//! folds.

use super::settings::{self, LAMBDAS};
use crate::features::GRAM_PASS;
use crate::prepare::map_builder::{BuiltMap, MapBuilder};
use crate::request::{MetricForm, PassShape, Resources, TrainOptions};
use crate::solver::gradient_products::OuterProductReduction;
use crate::solver::normal_equations::system::RidgeSystem;
use crate::{Error, Folds, GramState, Intercept, MomentReduction, Result, Surface, Targets};
use faer::Mat;
use kapprox::decompose::{product, symmetric_eigen};
use kapprox::map::Expansion;
use kapprox::metric::{Metric, MetricRows};
use kapprox::{Kernel, Real};
use kstore::pass::Observer;
use kstore::{LabelCodes, MemoryRows, Pass, ReadSettings, RowBlock, RowSource};
use std::collections::HashMap;
use std::sync::Arc;

/// If the largest fold has at least this many rows, its error alone suffices to compare lambdas:
/// the standard error of a mean over 400 rows is a twentieth of the standard deviation.
const MIN_FOLD_ROWS: u64 = 400;

/// The rows, targets, folds and options of the fits of metric learning.
#[doc(hidden)]
#[derive(Debug)]
pub(crate) struct RoundData<'a, T: Real> {
    /// The scaled rows, before the metric.
    pub source: &'a dyn RowSource<T>,
    pub n: u64,
    pub read_settings: &'a ReadSettings,
    pub targets: &'a Targets,
    pub folds: &'a Folds,
    pub options: &'a TrainOptions,
    pub pass_shape: PassShape,
    pub resources: &'a Resources<'a>,
}

/// A fit of metric learning: its metric, its kernel, its held-out error and its function.
pub(super) struct Round<T> {
    /// The metric of the fit; `None` for the unchanged inputs.
    pub(super) metric: Option<Arc<Metric>>,
    /// The kernel of the fit, with every parameter resolved to a number.
    pub(super) kernel: Kernel,
    /// Index of the fit's lambda in the grid.
    pub(super) lambda_index: usize,
    /// Mean squared error on held-out rows, by which rounds are compared.
    pub(super) error: f64,
    /// The rank at which `error` was computed.
    pub(super) scored_rank: usize,
    /// The lambda at which `error` was computed.
    pub(super) scored_lambda: f64,
    /// The function of the fit, as a combination of the landmarks' kernel sections.
    expansion: Expansion<T>,
    pub(super) passes: u64,
}

/// The rank and the lambda at which a round is compared with other rounds, and its error there.
struct RoundScore {
    rank: usize,
    lambda: f64,
    error: f64,
}

impl<T: Real> RoundData<'_, T> {
    fn metric_rows(&self, metric: Option<&Arc<Metric>>) -> MetricRows<&dyn RowSource<T>> {
        MetricRows::new(self.source, metric.cloned())
    }

    /// Returns the targets of these rows, t for each, in the order of `row_numbers`.
    pub(super) fn targets_of(&self, row_numbers: &[u64]) -> Result<Vec<f64>> {
        let t = self.targets.count();
        let index_by_row: HashMap<u64, usize> =
            row_numbers.iter().enumerate().map(|(position, row)| (*row, position)).collect();
        let mut target_values = vec![0.0; row_numbers.len() * t];
        let observer = self.resources.stage_observer.start_stage("targets", None);
        let pass = Pass { journal: None, ..self.pass_shape.pass(1, self.resources, &*observer) };
        pass.visit(self.source, |block| {
            for (i, row) in block.row_numbers.iter().enumerate() {
                let Some(index) = index_by_row.get(row) else { continue };
                for (j, value) in target_values[index * t..(index + 1) * t].iter_mut().enumerate() {
                    *value = self.targets.value(block, i, j)?;
                }
            }
            Ok::<(), Error>(())
        })?;
        Ok(target_values)
    }

    /// Calls `visitor` for each row with its block, its position in the block, and its fold.
    pub(super) fn visit_rows(&self, mut visitor: impl FnMut(&RowBlock<'_, T>, usize, usize) + Send) -> Result<()> {
        let observer = self.resources.stage_observer.start_stage("rows of a fold", None);
        let pass = Pass { journal: None, ..self.pass_shape.pass(1, self.resources, &*observer) };
        pass.visit(self.source, |block| {
            for (i, row) in block.row_numbers.iter().enumerate() {
                let code = block.groups.as_ref().map_or(LabelCodes::UNKNOWN, |groups| groups.codes[i]);
                visitor(block, i, self.folds.fold_of(*row, code)?);
            }
            Ok::<(), Error>(())
        })?;
        Ok(())
    }

    /// Returns a map for the kernel, the moments of its features, and the observer of the pass.
    pub(crate) fn moments(
        &self,
        metric: Option<&Arc<Metric>>,
        kernel: &Kernel,
    ) -> Result<(BuiltMap<T>, GramState, Box<dyn Observer + '_>)> {
        let options = TrainOptions { kernel: kernel.clone(), ..self.options.clone() };
        let source = self.metric_rows(metric);
        let Self { n, read_settings, pass_shape, resources, .. } = *self;
        let built_map =
            MapBuilder { source: &source, n, read_settings, options: &options, pass_shape, resources }.build()?;
        let observer = self.resources.stage_observer.start_stage(GRAM_PASS, Some(self.n));
        // without the certificate and the class decisions, which would add to the cost of every
        // round
        let reduction = MomentReduction::new(&*built_map.map, self.folds, self.targets)
            .with_bin_rows(self.pass_shape.tile_rows)
            .without_certificate();
        let pass = self.pass_shape.pass(self.pass_shape.gram_lanes, self.resources, &*observer);
        let gram = pass.resume(GRAM_PASS, &source, &reduction)?.0.gram;
        Ok((built_map, gram, observer))
    }

    /// Fits without a metric and returns the smallest generalised cross-validation error over the
    /// lambdas; `None` if no lambda has an error.
    pub(super) fn smallest_gcv(&self, kernel: &Kernel) -> Result<Option<f64>> {
        let (_, gram, observer) = self.moments(None, kernel)?;
        let ridge = settings::ridge_grid(gram.feature_count(), &LAMBDAS, self.targets.centre());
        let surface = Surface::compute(&gram, &ridge, self.resources.workers, &*observer)?;
        Ok(surface.cells.iter().filter_map(|cell| cell.gcv).min_by(f64::total_cmp))
    }

    /// Fits at the best lambda. The search for the best lambda starts at index `near_lambda_index`.
    pub(super) fn fit(
        &self,
        metric: Option<Arc<Metric>>,
        kernel: &Kernel,
        near_lambda_index: usize,
    ) -> Result<Round<T>> {
        let (built_map, gram, observer) = self.moments(metric.as_ref(), kernel)?;
        let workers = self.resources.workers;
        let (lambda_index, error) = self.best_lambda_index(&gram, near_lambda_index, &*observer)?;
        let RoundScore { rank: scored_rank, lambda: scored_lambda, error } =
            self.score_at_rank(&gram, LAMBDAS[lambda_index], error, &*observer)?;
        drop(observer);
        let (rank, ridge) =
            (gram.feature_count(), settings::ridge_grid(gram.feature_count(), &[], self.targets.centre()));
        let weights = crate::fit(&gram, rank, LAMBDAS[lambda_index], &ridge, workers)?.head.weights;
        let expansion = built_map.map.expand(weights.as_ref(), workers);
        let passes = built_map.passes + 1;
        Ok(Round {
            metric,
            kernel: built_map.kernel,
            lambda_index,
            error,
            scored_rank,
            scored_lambda,
            expansion,
            passes,
        })
    }

    /// Returns the rank and the lambda at which the round is compared with other rounds, and the
    /// error there. Usually they are the rank, lambda and error of the fit. If the model has a
    /// lower rank than the fit, the round is compared at the rank of the model: the features are
    /// nested, so the leading features of the fit form a model of lower rank.
    fn score_at_rank(&self, gram: &GramState, lambda: f64, error: f64, observer: &dyn Observer) -> Result<RoundScore> {
        let rank = self.options.ranks.iter().fold(self.options.rank, |rank, other| rank.min(*other));
        if rank >= gram.feature_count() {
            return Ok(RoundScore { rank, lambda, error });
        }
        let best = self.best_lambda_at(gram, rank, observer)?;
        let (lambda, error) = best.unwrap_or((lambda, f64::INFINITY));
        Ok(RoundScore { rank, lambda, error })
    }

    /// Returns the lambda with the smallest held-out error at a rank, and the error; `None` if no
    /// lambda has an error.
    fn best_lambda_at(&self, gram: &GramState, rank: usize, observer: &dyn Observer) -> Result<Option<(f64, f64)>> {
        let (workers, ridge) = (self.resources.workers, settings::ridge_grid(rank, &LAMBDAS, self.targets.centre()));
        let mut system = RidgeSystem::new(gram.feature_count(), &self.targets.centre(), Intercept::default());
        let surface = Surface::cross_validate(gram, &ridge, &mut system, 0..gram.folds().len(), workers, observer)?;
        Ok(surface.best().and_then(|cell| Some((cell.lambda, cell.cv_mse?))))
    }

    /// Returns the smallest held-out error over the lambdas; infinity if no lambda has an error.
    pub(super) fn smallest_error(&self, metric: Option<&Arc<Metric>>, kernel: &Kernel) -> Result<f64> {
        let (_, gram, observer) = self.moments(metric, kernel)?;
        Ok(self.best_lambda_at(&gram, gram.feature_count(), &*observer)?.map_or(f64::INFINITY, |(_, error)| error))
    }

    /// Returns the index of the best lambda and its held-out error. The search starts at
    /// `near_lambda_index`, because a round resembles the previous round, and moves to the
    /// neighbouring lambda while the error falls. Of equal errors, the larger lambda wins. If the
    /// largest fold has many rows, the search compares errors on this fold only.
    fn best_lambda_index(
        &self,
        gram: &GramState,
        near_lambda_index: usize,
        observer: &dyn Observer,
    ) -> Result<(usize, f64)> {
        let workers = self.resources.workers;
        let mut system = RidgeSystem::new(gram.feature_count(), &self.targets.centre(), Intercept::default());
        let held_out_folds = (0..gram.folds().len()).filter(|fold| gram.fold_rule().is_held_out(*fold));
        let largest_fold = held_out_folds.max_by_key(|fold| gram.folds()[*fold].row_count).unwrap_or(0);
        let folds = match gram.folds()[largest_fold].row_count < MIN_FOLD_ROWS {
            true => 0..gram.folds().len(),
            false => largest_fold..largest_fold + 1,
        };
        let (mut errors, mut best_index) = ([None; LAMBDAS.len()], near_lambda_index);
        loop {
            let neighbours = best_index.saturating_sub(1)..LAMBDAS.len().min(best_index + 2);
            let unscored_indices: Vec<usize> = neighbours.clone().filter(|index| errors[*index].is_none()).collect();
            let lambdas: Vec<f64> = unscored_indices.iter().map(|index| LAMBDAS[*index]).collect();
            let ridge = settings::ridge_grid(gram.feature_count(), &lambdas, self.targets.centre());
            let surface = Surface::cross_validate(gram, &ridge, &mut system, folds.clone(), workers, observer)?;
            for (index, cell) in unscored_indices.iter().zip(&surface.cells) {
                let error =
                    if folds.len() > 1 { cell.cv_mse } else { cell.fold_mse.get(largest_fold).copied().flatten() };
                errors[*index] = Some(error.unwrap_or(f64::INFINITY));
            }
            let error = |index: &usize| errors[*index].unwrap_or(f64::INFINITY);
            let next_best = neighbours.rev().min_by(|a, b| error(a).total_cmp(&error(b))).unwrap_or(best_index);
            if next_best == best_index {
                break;
            }
            best_index = next_best;
        }
        // the system may be positive definite without one fold, and indefinite without another
        let all_folds = 0..gram.folds().len();
        for (index, lambda) in LAMBDAS.iter().enumerate().skip(best_index) {
            let error = match errors[index].filter(|_| folds == all_folds) {
                Some(error) => Some(error),
                None => {
                    let ridge = settings::ridge_grid(gram.feature_count(), &[*lambda], self.targets.centre());
                    Surface::cross_validate(gram, &ridge, &mut system, all_folds.clone(), workers, observer)?.cells[0]
                        .cv_mse
                }
            };
            if let Some(error) = error.filter(|error| error.is_finite()) {
                return Ok((index, error));
            }
        }
        Err(Error::NoCell { precision: T::NAME })
    }

    /// Returns the average M of the outer products of the gradients of a round's function, d x d.
    /// The gradients are with respect to the rows x before the round's metric.
    pub(super) fn gradient_products(&self, round: &Round<T>) -> Result<Mat<f64>> {
        let Expansion::Landmarks { landmarks, dual_coefficients: coefficients, .. } = &round.expansion else {
            return Err(Error::option("metric", "", "it can be learned only with a map on landmarks, such as nystrom"));
        };
        let source = self.metric_rows(round.metric.as_ref());
        let observer = self.resources.start_stage_over("gradients", source.range());
        let landmarks_f64: Vec<f64> = landmarks.points.iter().map(|value| value.to_f64()).collect();
        let reduction =
            OuterProductReduction::new(round.kernel.build()?.typed::<f64>(), &landmarks_f64, coefficients.as_ref());
        let reduction = reduction.with_row_sample(self.n, self.options.seed);
        let pass = self.pass_shape.pass(self.pass_shape.gram_lanes, self.resources, &*observer);
        let products = pass.resume("gradients", &source, &reduction)?.0;
        drop(observer);
        let m = products.sums() * faer::Scale(1.0 / products.total_weight);
        Ok(match &round.metric {
            None => m,
            Some(metric) => pull_back(&m, metric),
        })
    }
}

/// Computes Aᵀ M A, where A is the metric and M averages outer products of gradients with respect
/// to Ax. The result is the average for gradients with respect to x.
fn pull_back(m: &Mat<f64>, metric: &Metric) -> Mat<f64> {
    let (entries, d, r) = (metric.to_row_major(), metric.input_count(), metric.output_count());
    if metric.is_diagonal() {
        return Mat::from_fn(d, d, |i, j| entries[i] * m[(i, j)] * entries[j]);
    }
    let a = Mat::from_fn(r, d, |k, j| entries[k * d + j]);
    let ma = product(m.as_ref(), a.as_ref());
    product(a.transpose(), ma.as_ref())
}

/// Returns the metric A of the requested form with AᵀA = M, where M is scaled to trace d; `None` if
/// M is 0.
pub(super) fn metric_root(m: &Mat<f64>, form: MetricForm) -> Result<Option<Metric>> {
    let d = m.nrows();
    let trace: f64 = (0..d).map(|j| m[(j, j)].max(0.0)).sum();
    if !(trace > 0.0 && trace.is_finite()) {
        return Ok(None);
    }
    let scale = d as f64 / trace;
    if form == MetricForm::Diagonal {
        return Ok(Some(Metric::diagonal((0..d).map(|j| (m[(j, j)].max(0.0) * scale).sqrt()).collect())?));
    }
    let scaled_products = Mat::from_fn(d, d, |i, j| m[(i, j)] * scale);
    let (eigenvalues, eigenvectors) = symmetric_eigen(scaled_products.as_ref())?;
    let roots: Vec<f64> = eigenvalues.iter().map(|value| value.max(0.0).sqrt()).collect();
    Ok(Some(match form {
        MetricForm::LowRank(r) => {
            // the eigenvalues are ascending
            let leading_indices: Vec<usize> = (d - r.min(d)..d).rev().collect();
            let leading_trace: f64 = leading_indices.iter().map(|k| eigenvalues[*k].max(0.0)).sum();
            let row_scale = (d as f64 / leading_trace).sqrt();
            let rows: Vec<f64> = leading_indices
                .iter()
                .flat_map(|k| (0..d).map(|j| row_scale * roots[*k] * eigenvectors[(j, *k)]))
                .collect();
            Metric::matrix(&rows, leading_indices.len())?
        }
        _ => {
            let scaled_vectors = Mat::from_fn(d, d, |i, k| eigenvectors[(i, k)] * roots[k]);
            let a = product(scaled_vectors.as_ref(), eigenvectors.transpose());
            let rows: Vec<f64> =
                (0..d).flat_map(|i| (0..d).map(|j| (a[(i, j)] + a[(j, i)]) / 2.0).collect::<Vec<_>>()).collect();
            Metric::matrix(&rows, d)?
        }
    }))
}

/// Returns, for each input, the standard deviation of its fraction of tr M between folds. For each
/// fold, M averages the outer products of the gradients of the function of `round` over the rows of
/// this fold. `None` if fewer than two folds have rows, or if all gradients of a fold are 0.
///
/// *Cost*: one gradient per row. *Bytes*: a copy of the rows of a fold.
pub(super) fn importance_spread<T: Real>(data: &RoundData<'_, T>, round: &Round<T>) -> Result<Option<Vec<f64>>> {
    let mut fractions: Vec<Vec<f64>> = Vec::new();
    for fold in 0..data.folds.count() {
        let fold_rows = rows_of_fold(data, fold)?;
        if fold_rows.is_empty() {
            continue;
        }
        let products = RoundData { source: &fold_rows, n: fold_rows.len() as u64, ..*data }.gradient_products(round)?;
        let trace: f64 = (0..products.nrows()).map(|j| products[(j, j)]).sum();
        if !(trace.is_finite() && trace > 0.0) {
            return Ok(None);
        }
        fractions.push((0..products.nrows()).map(|j| products[(j, j)] / trace).collect());
    }
    Ok(sample_deviations(&fractions))
}

/// Returns the rows of a fold, with their weights.
fn rows_of_fold<T: Real>(data: &RoundData<'_, T>, fold: usize) -> Result<MemoryRows<T>> {
    let shape = data.source.shape();
    let (mut x, mut weights) = (Vec::new(), Vec::new());
    data.visit_rows(|block, i, row_fold| {
        if row_fold == fold {
            x.extend_from_slice(&block.x[i * shape.input_count..(i + 1) * shape.input_count]);
            weights.push(block.weight(i).unwrap_or(1.0));
        }
    })?;
    Ok(MemoryRows::new(x, shape.input_count)?.with_weights(Some(weights))?)
}

/// Returns the sample standard deviation of each column of `rows`; `None` for fewer than two rows.
fn sample_deviations(rows: &[Vec<f64>]) -> Option<Vec<f64>> {
    let n = rows.len() as f64;
    let deviation = |j: usize| {
        let mean = rows.iter().map(|row| row[j]).sum::<f64>() / n;
        (rows.iter().map(|row| (row[j] - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt()
    };
    (rows.len() > 1).then(|| (0..rows[0].len()).map(deviation).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_those_of_a_sample() {
        assert_eq!(sample_deviations(&[vec![1.0]]), None);
        assert_eq!(sample_deviations(&[vec![1.0, 5.0], vec![3.0, 5.0]]), Some(vec![2f64.sqrt(), 0.0]));
    }
}
