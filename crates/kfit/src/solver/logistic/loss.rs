//! The mean loss of all rows over stored features: the logistic loss of classes, or half the
//! deviance of numbers. The value and the gradient together take one pass. Each product with the
//! Hessian takes one more pass.

use super::response::RowLoss;
use crate::features::{RowValues, StoredFeatures, Sums, Tile};
use crate::linalg::strips::{BufferPool, for_each_strip};
use crate::solver::hessian_blocks::{self, SampledBlock};
use crate::solver::newton::{Dimensions, Evaluation, Objective};
use crate::{FoldGram, Intercept, Result, row_weights::RowWeights};
use kapprox::Real;
use kstore::key::{Purpose, Stream};
use kstore::{Workers, pass::Observer};
use std::collections::BTreeSet;

/// Number of rows whose scores one thread computes at a time.
const STRIP_ROWS: usize = 256;

/// Estimated numbers of operations that take as long as the link of a score (exponentials and a
/// logarithm), and as the product of a score with the curvature. They decide how many threads share
/// a tile.
const LINK_OPERATIONS: usize = 300;
const CURVATURE_OPERATIONS: usize = 20;

/// The weighted mean loss of the rows, without the penalty term, by passes over the features.
pub(super) struct Loss<'a, 'k, T: Real> {
    pub(super) features: &'a StoredFeatures<'k, T>,
    pub(super) rows: Rows<'a>,
    /// Sum of the weights of the training rows.
    pub(super) total_weight: f64,
    pub(super) observer: &'a dyn Observer,
    /// Number of scores of a row.
    pub(super) k: usize,
    pub(super) intercept: Intercept,
    last_point: LastPoint<T>,
    pub(super) passes: u64,
    /// Cost of one preconditioner for each class, in passes; `None` if all classes share one.
    pub(super) block_passes: Option<usize>,
}

/// The last evaluated point.
struct LastPoint<T> {
    /// W and the intercepts, separately.
    coefficients: (Vec<T>, Vec<f64>),
    /// Link values at this point, n x k row-major; empty if they are not needed.
    probabilities: Vec<T>,
    /// True for rows whose link values are computed; false for the rows of other processes.
    is_computed: Vec<bool>,
}

/// The losses of rows, and their weights.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) loss: RowLoss<'a>,
    pub(super) row_weights: &'a RowWeights,
    /// Folds of all rows, and the held-out fold, whose rows have weight 0.
    pub(super) held_out_fold: Option<(&'a [u16], u16)>,
}

impl Rows<'_> {
    fn is_held_out(&self, i: usize) -> bool {
        self.held_out_fold.is_some_and(|(folds, fold)| folds[i] == fold)
    }

    pub(super) fn weight(&self, i: usize) -> f64 {
        match self.loss {
            _ if self.is_held_out(i) => 0.0,
            RowLoss::Classes { codes, class_weights } => class_weights[codes[i] as usize] * self.row_weights.get(i),
            RowLoss::Deviance { .. } => self.row_weights.get(i),
        }
    }
}

impl<'a, 'k, T: Real> Loss<'a, 'k, T> {
    pub(super) fn new(
        features: &'a StoredFeatures<'k, T>,
        rows: Rows<'a>,
        k: usize,
        intercept: Intercept,
        observer: &'a dyn Observer,
    ) -> Self {
        let total_weight =
            rows.row_weights.weight_sum((0..features.n).filter(|i| !rows.is_held_out(*i))).max(f64::MIN_POSITIVE);
        let (probabilities, is_computed) = (vec![T::ZERO; features.n * k], vec![false; features.n]);
        let last_point = LastPoint { coefficients: (Vec::new(), Vec::new()), probabilities, is_computed };
        let block_passes = hessian_blocks::passes(features.n, features.p, k, size_of::<T>());
        Self { features, rows, total_weight, observer, k, intercept, last_point, passes: 0, block_passes }
    }

    /// Drops the stored probabilities, for a loss whose Hessian is not needed.
    pub(super) fn without_probabilities(mut self) -> Self {
        self.last_point.probabilities = Vec::new();
        self
    }

    /// Converts W, without the intercepts, to the type of the features.
    fn narrow_weights(&self, w: &[f64]) -> Vec<T> {
        w[..self.features.p * self.k].iter().map(|value| T::from_f64(*value)).collect()
    }
}

impl<T: Real> Objective<T> for Loss<'_, '_, T> {
    fn dimensions(&self) -> Dimensions<'_> {
        Dimensions { p: self.features.p, k: self.k, intercept: self.intercept, workers: self.features.workers() }
    }

    fn passes_mut(&mut self) -> &mut u64 {
        &mut self.passes
    }

    /// Computes loss, gradient and probabilities at `w` ((p + 1) x k row-major): one pass.
    fn evaluate(&mut self, w: &[f64]) -> Result<Evaluation> {
        let (n, p, k) = (self.total_weight, self.features.p, self.k);
        self.last_point.coefficients = (self.narrow_weights(w), w[p * k..].to_vec());
        let LastPoint { coefficients, probabilities: stored_probabilities, is_computed } = &mut self.last_point;
        let (features, rows, (weights, intercept)) = (self.features, self.rows, &*coefficients);
        is_computed.fill(false);
        let workers = features.workers();
        let (mut tile_buffer, mut scores, mut residuals) = (Vec::new(), Vec::new(), Vec::new());
        let init = || (Sums::new(2 * k + 1), Sums::new(p * k));
        let name = "loss and gradient";
        let (Sums(sums), Sums(mut gradient)) =
            features.reduce(name, self.observer, &init, |(sums, gradient), tile| {
                let b = tile.row_count();
                scores.resize(b * k, T::ZERO);
                residuals.resize(b * k, T::ZERO);
                is_computed[tile.first_row..tile.first_row + b].fill(true);
                let probabilities = match stored_probabilities.is_empty() {
                    true => {
                        tile_buffer.resize(b * k, T::ZERO);
                        &mut tile_buffer[..]
                    }
                    false => &mut stored_probabilities[tile.first_row * k..(tile.first_row + b) * k],
                };
                // sums of a strip: k derivatives, k second derivatives, and the loss, all weighted
                let mut strip_sums = vec![0.0; b.div_ceil(STRIP_ROWS) * (2 * k + 1)];
                let strips = scores.chunks_mut(STRIP_ROWS * k).zip(residuals.chunks_mut(STRIP_ROWS * k));
                let strips = strips.zip(probabilities.chunks_mut(STRIP_ROWS * k)).zip(strip_sums.chunks_mut(2 * k + 1));
                let strips = strips.enumerate().collect();
                let tile_workers = workers.for_operations(b * k * (2 * p + LINK_OPERATIONS));
                tile_workers.for_each(strips, |(strip, (((scores, residuals), probabilities), partial))| {
                    tile.multiply_rows(strip * STRIP_ROWS, weights, scores);
                    let (mut f, mut derivatives) = (vec![0.0; k], vec![0.0; k]);
                    for i in 0..scores.len() / k {
                        let position = tile.first_row + strip * STRIP_ROWS + i;
                        let weight = rows.weight(position);
                        let class_range = i * k..(i + 1) * k;
                        f.iter_mut()
                            .zip(&scores[class_range.clone()])
                            .zip(intercept)
                            .for_each(|((f, s), c)| *f = s.to_f64() + c);
                        let row = &mut residuals[class_range.clone()];
                        partial[2 * k] += weight * rows.loss.link(position, &mut f, &mut derivatives);
                        for (j, (link_value, derivative)) in f.iter().zip(&derivatives).enumerate() {
                            partial[j] += weight * derivative;
                            partial[k + j] += weight * rows.loss.curvature(*link_value);
                            row[j] = T::from_f64(weight * derivative);
                            probabilities[i * k + j] = T::from_f64(*link_value);
                        }
                    }
                });
                let sums_by_strip = strip_sums.chunks(2 * k + 1);
                sums_by_strip.for_each(|part| sums.0.iter_mut().zip(part).for_each(|(sum, part)| *sum += part));
                tile.add_transposed_product(&residuals, &mut gradient.0, workers);
                Ok(())
            })?;
        self.passes += 1;
        match self.intercept {
            Intercept::None => gradient.resize((p + 1) * k, 0.0),
            Intercept::Free | Intercept::Penalised => gradient.extend_from_slice(&sums[..k]),
        }
        gradient.iter_mut().for_each(|g| *g /= n);
        let curvatures = sums[k..2 * k].iter().map(|sum| sum / n).collect();
        Ok(Evaluation { loss: sums[2 * k] / n, gradient, curvatures })
    }

    /// Multiplies `v` by the Hessian of the loss at the last point. `v` and the product are (p + 1)
    /// x k, row-major. If a row has weight a, probabilities q_j, and the scores u_j under `v`, it
    /// contributes a q_j (u_j − Σ_l q_l u_l) φ to column j. Makes one pass.
    fn hessian_product(&mut self, v: &[f64]) -> Result<Vec<f64>> {
        let (n, p, k) = (self.total_weight, self.features.p, self.k);
        let (weights, intercept) = (self.narrow_weights(v), v[p * k..].to_vec());
        let (features, rows, observer) = (self.features, self.rows, self.observer);
        // the scores of several classes share a sum; a deviance has one score
        let shares_mean = matches!(rows.loss, RowLoss::Classes { .. });
        let (last_point, workers) = (&mut self.last_point, features.workers());
        let mut scores = Vec::new();
        let init = || (Sums::new(k), Sums::new(p * k));
        let name = "product with the Hessian";
        let (Sums(sums), Sums(mut product)) = features.reduce(name, observer, &init, |(sums, product), tile| {
            let b = tile.row_count();
            scores.resize(b * k, T::ZERO);
            let probabilities = last_point.tile_probabilities(tile, rows, workers);
            let mut strip_sums = vec![0.0; b.div_ceil(STRIP_ROWS) * k];
            let strips = scores.chunks_mut(STRIP_ROWS * k).zip(probabilities.chunks(STRIP_ROWS * k));
            let strips = strips.zip(strip_sums.chunks_mut(k)).enumerate().collect();
            let tile_workers = workers.for_operations(b * k * (2 * p + CURVATURE_OPERATIONS));
            tile_workers.for_each(strips, |(strip, ((scores, probabilities), partial))| {
                tile.multiply_rows(strip * STRIP_ROWS, &weights, scores);
                for i in 0..scores.len() / k {
                    let weight = rows.weight(tile.first_row + strip * STRIP_ROWS + i);
                    let (row_scores, row_probabilities) =
                        (&mut scores[i * k..(i + 1) * k], &probabilities[i * k..(i + 1) * k]);
                    let probability_and_score =
                        |j: usize, row: &[T]| (row_probabilities[j].to_f64(), row[j].to_f64() + intercept[j]);
                    // with two classes and one column, the other class has score 0
                    let mean: f64 = (0..k).map(|j| probability_and_score(j, row_scores)).map(|(p, u)| p * u).sum();
                    let mean = if shares_mean { mean } else { 0.0 };
                    for j in 0..k {
                        let (probability, u) = probability_and_score(j, row_scores);
                        let z = weight * probability * (u - mean);
                        partial[j] += z;
                        row_scores[j] = T::from_f64(z);
                    }
                }
            });
            let sums_by_strip = strip_sums.chunks(k);
            sums_by_strip.for_each(|part| sums.0.iter_mut().zip(part).for_each(|(sum, part)| *sum += part));
            tile.add_transposed_product(&scores, &mut product.0, workers);
            Ok(())
        })?;
        self.passes += 1;
        match self.intercept {
            Intercept::None => product.resize((p + 1) * k, 0.0),
            Intercept::Free | Intercept::Penalised => product.extend_from_slice(&sums),
        }
        product.iter_mut().for_each(|value| *value /= n);
        Ok(product)
    }

    fn block_passes(&self) -> Option<usize> {
        self.block_passes
    }

    fn hessian_blocks(&mut self, point: &Evaluation, step: usize) -> Result<Option<(Vec<FoldGram>, f64)>> {
        Ok(Some((self.sampled_blocks(point, step)?, 1.0 / self.total_weight)))
    }
}

impl<T: Real> LastPoint<T> {
    /// Returns the probabilities of the rows of a tile. If another process evaluated these rows,
    /// computes the probabilities.
    fn tile_probabilities(&mut self, tile: &Tile<'_, T>, rows: Rows<'_>, workers: &Workers) -> &[T] {
        let (b, first, (weights, intercept)) = (tile.row_count(), tile.first_row, &self.coefficients);
        let k = intercept.len();
        let tile_probabilities = &mut self.probabilities[first * k..(first + b) * k];
        if !self.is_computed[first] {
            self.is_computed[first..first + b].fill(true);
            tile.multiply(weights, tile_probabilities, workers);
            for_each_strip(workers, tile_probabilities, STRIP_ROWS * k, |strip, strip_rows| {
                let (mut f, mut derivatives) = (vec![0.0; k], vec![0.0; k]);
                for (i, row) in strip_rows.chunks_exact_mut(k).enumerate() {
                    f.iter_mut().zip(&*row).zip(intercept).for_each(|((f, s), c)| *f = s.to_f64() + c);
                    rows.loss.link(first + strip * STRIP_ROWS + i, &mut f, &mut derivatives);
                    row.iter_mut().zip(&f).for_each(|(to, probability)| *to = T::from_f64(*probability));
                }
            });
        }
        tile_probabilities
    }
}

impl<T: Real> Loss<'_, '_, T> {
    /// Computes the blocks at the last point as weighted moments of sampled rows: two passes.
    fn sampled_blocks(&mut self, point: &Evaluation, step: usize) -> Result<Vec<FoldGram>> {
        let (n, p, k) = (self.total_weight, self.features.p, self.k);
        let stream = |j: usize| Stream::new(self.features.seed(), Purpose::Sketch, (step * k + j) as u64);
        let rate =
            |j: usize| hessian_blocks::ROWS_PER_FEATURE * p as f64 / (n * point.curvatures[j]).max(f64::MIN_POSITIVE);
        let draws: Vec<(Stream, f64)> = (0..k).map(|j| (stream(j), rate(j))).collect();
        let samples = self.sample_rows(&draws)?;
        let mut class_blocks: Vec<SampledBlock<T>> = (0..k).map(|_| SampledBlock::new(p)).collect();
        let position_set: BTreeSet<usize> = samples.iter().flatten().map(|(row, _)| *row).collect();
        let drawn_positions: Vec<usize> = position_set.into_iter().collect();
        let (panels, sequential, workers) = (BufferPool::default(), Workers::sequential(), self.features.workers());
        let mut remaining_draws: Vec<&[(usize, f64)]> = samples.iter().map(Vec::as_slice).collect();
        self.features.visit_selected(&drawn_positions, self.observer, |tile: &Tile<'_, T>| {
            let tile_positions = &drawn_positions[tile.first_row..tile.first_row + tile.row_count()];
            workers.for_each(class_blocks.iter_mut().zip(&mut remaining_draws).collect(), |(block, block_draws)| {
                for (i, row) in tile_positions.iter().enumerate() {
                    if let Some(((_, weight), rest)) =
                        block_draws.split_first().filter(|((position, _), _)| position == row)
                    {
                        block.push(tile.row(i), *weight, &panels, &sequential);
                        *block_draws = rest;
                    }
                }
            });
            Ok(())
        })?;
        workers.for_each(class_blocks.iter_mut().collect(), |block| block.flush(p, &panels, &sequential));
        self.passes += 2;
        Ok(class_blocks.into_iter().map(|block| block.moments).collect())
    }

    /// Samples rows for the block of every class. In `draws`, each class has a rate: the expected
    /// number of rows per unit of a p(1 − p), where a is the weight of a row and p its probability
    /// of the class. Returns the positions of the rows, ascending, and their weights in the block.
    fn sample_rows(&mut self, draws: &[(Stream, f64)]) -> Result<Vec<Vec<(usize, f64)>>> {
        let (features, rows, observer, k) = (self.features, self.rows, self.observer, self.k);
        let (last_point, workers) = (&mut self.last_point, features.workers());
        // three numbers for each drawn row: class, position and weight
        let RowValues(drawn_values) =
            features.reduce("drawn rows", observer, &RowValues::<f64>::default, |draw_values, tile| {
                let probabilities = last_point.tile_probabilities(tile, rows, workers);
                for i in 0..tile.row_count() {
                    let (position, weight) = (tile.first_row + i, rows.weight(tile.first_row + i));
                    for (j, (stream, rate)) in draws.iter().enumerate() {
                        let row_curvature = weight * rows.loss.curvature(probabilities[i * k + j].to_f64());
                        let draw_probability = (rate * row_curvature).min(1.0);
                        if draw_probability > 0.0 && stream.uniform(position as u64) < draw_probability {
                            draw_values.0.extend([j as f64, position as f64, row_curvature / draw_probability]);
                        }
                    }
                }
                Ok(())
            })?;
        let mut samples = vec![Vec::new(); k];
        for draw in drawn_values.chunks_exact(3) {
            samples[draw[0] as usize].push((draw[1] as usize, draw[2]));
        }
        Ok(samples)
    }
}
