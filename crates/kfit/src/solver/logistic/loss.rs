//! The logistic loss over stored features: its value, its gradient and products with its Hessian,
//! one pass each.

use crate::features::{StoredFeatures, Sums, Tile, Values};
use crate::linalg::strips::{Pool, for_each_strip};
use crate::solver::hessian_blocks::{self, Block};
use crate::solver::newton::{Objective, Point, Shape};
use crate::{FoldGram, Intercept, Result, row_weights::RowWeights};
use kapprox::Real;
use kstore::key::{Purpose, Stream};
use kstore::{Workers, pass::Observer};
use std::collections::BTreeSet;

const STRIP: usize = 256;

/// The weighted mean loss of the rows, without the penalty term, by passes over the features.
pub(super) struct Loss<'a, 'k, T: Real> {
    pub(super) kept: &'a StoredFeatures<'k, T>,
    pub(super) labels: Labels<'a>,
    /// Sum of the weights of the training rows.
    pub(super) n: f64,
    pub(super) observer: &'a dyn Observer,
    pub(super) k: usize,
    pub(super) intercept: Intercept,
    last: Last<T>,
    pub(super) passes: u64,
}

/// The last evaluated point.
struct Last<T> {
    /// W and the intercepts, separately.
    at: (Vec<T>, Vec<f64>),
    /// Probabilities at this point, n x k row-major; empty if they are not needed.
    probabilities: Vec<T>,
    /// True for rows whose probabilities are computed; false for the rows of other processes.
    known: Vec<bool>,
}

#[derive(Clone, Copy)]
pub(super) struct Labels<'a> {
    pub(super) codes: &'a [u32],
    /// Class weights.
    pub(super) weight: &'a [f64],
    pub(super) rows: &'a RowWeights,
    /// Fold of every row, and the held-out fold, whose rows have weight 0.
    pub(super) held: Option<(&'a [u16], u16)>,
}

impl Labels<'_> {
    fn is_held(&self, i: usize) -> bool {
        self.held.is_some_and(|(folds, fold)| folds[i] == fold)
    }

    pub(super) fn row(&self, i: usize) -> (usize, f64) {
        let code = self.codes[i] as usize;
        (code, if self.is_held(i) { 0.0 } else { self.weight[code] * self.rows.of(i) })
    }
}

impl<'a, 'k, T: Real> Loss<'a, 'k, T> {
    pub(super) fn new(
        kept: &'a StoredFeatures<'k, T>,
        labels: Labels<'a>,
        k: usize,
        intercept: Intercept,
        observer: &'a dyn Observer,
    ) -> Self {
        let n = labels.rows.total((0..kept.n).filter(|i| !labels.is_held(*i))).max(f64::MIN_POSITIVE);
        let (probabilities, known) = (vec![T::ZERO; kept.n * k], vec![false; kept.n]);
        let last = Last { at: (Vec::new(), Vec::new()), probabilities, known };
        Self { kept, labels, n, observer, k, intercept, last, passes: 0 }
    }

    /// Drops the stored probabilities, for a loss whose Hessian is not needed.
    pub(super) fn alone(mut self) -> Self {
        self.last.probabilities = Vec::new();
        self
    }

    /// Converts W, without the intercepts, to the type of the features.
    fn narrow(&self, w: &[f64]) -> Vec<T> {
        w[..self.kept.p * self.k].iter().map(|value| T::from_f64(*value)).collect()
    }
}

impl<T: Real> Objective<T> for Loss<'_, '_, T> {
    fn shape(&self) -> Shape<'_> {
        Shape { p: self.kept.p, k: self.k, intercept: self.intercept, workers: self.kept.workers() }
    }

    fn passes(&mut self) -> &mut u64 {
        &mut self.passes
    }

    /// Computes loss, gradient and probabilities at `w` ((p + 1) x k row-major): one pass.
    fn evaluate(&mut self, w: &[f64]) -> Result<Point> {
        let (n, p, k) = (self.n, self.kept.p, self.k);
        self.last.at = (self.narrow(w), w[p * k..].to_vec());
        let Last { at, probabilities: all, known } = &mut self.last;
        let (kept, labels, (weights, constant)) = (self.kept, self.labels, &*at);
        known.fill(false);
        let workers = kept.workers();
        let (mut spare, mut scores, mut residuals) = (Vec::new(), Vec::new(), Vec::new());
        let init = || (Sums::new(2 * k + 1), Sums::new(p * k));
        let name = "loss and gradient";
        let (Sums(sums), Sums(mut gradient)) = kept.fold(name, self.observer, &init, |(sums, gradient), tile| {
            let b = tile.rows();
            scores.resize(b * k, T::ZERO);
            residuals.resize(b * k, T::ZERO);
            tile.times(weights, &mut scores, workers);
            known[tile.first..tile.first + b].fill(true);
            let probabilities = match all.is_empty() {
                true => {
                    spare.resize(b * k, T::ZERO);
                    &mut spare[..]
                }
                false => &mut all[tile.first * k..(tile.first + b) * k],
            };
            let mut partial = vec![0.0; b.div_ceil(STRIP) * (2 * k + 1)];
            let strips = scores.chunks(STRIP * k).zip(residuals.chunks_mut(STRIP * k));
            let strips = strips.zip(probabilities.chunks_mut(STRIP * k)).zip(partial.chunks_mut(2 * k + 1));
            let strips = strips.enumerate().collect();
            workers.each(strips, |(strip, (((scores, residuals), probabilities), partial))| {
                let mut f = vec![0.0; k];
                for i in 0..scores.len() / k {
                    let (code, weight) = labels.row(tile.first + strip * STRIP + i);
                    let at = i * k..(i + 1) * k;
                    f.iter_mut().zip(&scores[at.clone()]).zip(constant).for_each(|((f, s), c)| *f = s.to_f64() + c);
                    let row = &mut residuals[at.clone()];
                    partial[2 * k] += weight * link(&mut f, code);
                    for (j, probability) in f.iter().enumerate() {
                        let is = if k == 1 { code == 1 } else { code == j };
                        let residual = weight * (probability - f64::from(u8::from(is)));
                        partial[j] += residual;
                        partial[k + j] += weight * probability * (1.0 - probability);
                        row[j] = T::from_f64(residual);
                        probabilities[i * k + j] = T::from_f64(*probability);
                    }
                }
            });
            let parts = partial.chunks(2 * k + 1);
            parts.for_each(|part| sums.0.iter_mut().zip(part).for_each(|(sum, part)| *sum += part));
            tile.add_transposed(&residuals, &mut gradient.0, workers);
            Ok(())
        })?;
        self.passes += 1;
        match self.intercept {
            Intercept::None => gradient.resize((p + 1) * k, 0.0),
            Intercept::Free | Intercept::Penalised => gradient.extend_from_slice(&sums[..k]),
        }
        gradient.iter_mut().for_each(|g| *g /= n);
        let curvatures = sums[k..2 * k].iter().map(|sum| sum / n).collect();
        Ok(Point { loss: sums[2 * k] / n, gradient, curvatures })
    }

    /// Multiplies `v` by the Hessian of the loss at the last point, both (p + 1) x k row-major: one
    /// pass.
    fn curve(&mut self, v: &[f64]) -> Result<Vec<f64>> {
        let (n, p, k) = (self.n, self.kept.p, self.k);
        let (weights, constant) = (self.narrow(v), v[p * k..].to_vec());
        let (kept, labels, observer) = (self.kept, self.labels, self.observer);
        let (last, workers) = (&mut self.last, kept.workers());
        let mut scores = Vec::new();
        let init = || (Sums::new(k), Sums::new(p * k));
        let name = "product with the Hessian";
        let (Sums(sums), Sums(mut product)) = kept.fold(name, observer, &init, |(sums, product), tile| {
            let b = tile.rows();
            scores.resize(b * k, T::ZERO);
            tile.times(&weights, &mut scores, workers);
            let probabilities = last.of(tile, labels, workers);
            let mut partial = vec![0.0; b.div_ceil(STRIP) * k];
            let strips = scores.chunks_mut(STRIP * k).zip(probabilities.chunks(STRIP * k));
            let strips = strips.zip(partial.chunks_mut(k)).enumerate().collect();
            workers.each(strips, |(strip, ((scores, probabilities), partial))| {
                for i in 0..scores.len() / k {
                    let (_, weight) = labels.row(tile.first + strip * STRIP + i);
                    let (row, p) = (&mut scores[i * k..(i + 1) * k], &probabilities[i * k..(i + 1) * k]);
                    let of = |j: usize, row: &[T]| (p[j].to_f64(), row[j].to_f64() + constant[j]);
                    // with two classes and one column, the other class has score 0
                    let mean: f64 = (0..k).map(|j| of(j, row)).map(|(p, u)| p * u).sum();
                    for j in 0..k {
                        let (p, u) = of(j, row);
                        let z = weight * p * (u - mean);
                        partial[j] += z;
                        row[j] = T::from_f64(z);
                    }
                }
            });
            let parts = partial.chunks(k);
            parts.for_each(|part| sums.0.iter_mut().zip(part).for_each(|(sum, part)| *sum += part));
            tile.add_transposed(&scores, &mut product.0, workers);
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

    fn blocks(&mut self, point: &Point, step: usize) -> Result<Option<(Vec<FoldGram>, f64)>> {
        match hessian_blocks::bytes(self.kept.n, self.kept.p, self.k, size_of::<T>()) {
            Some(_) => Ok(Some((self.drawn(point, step)?, 1.0 / self.n))),
            None => Ok(None),
        }
    }
}

impl<T: Real> Last<T> {
    /// Returns the probabilities of the rows of a tile; computes them if another process evaluated
    /// these rows.
    fn of(&mut self, tile: &Tile<'_, T>, labels: Labels<'_>, workers: &Workers) -> &[T] {
        let (b, first, (weights, constant)) = (tile.rows(), tile.first, &self.at);
        let k = constant.len();
        let all = &mut self.probabilities[first * k..(first + b) * k];
        if !self.known[first] {
            self.known[first..first + b].fill(true);
            tile.times(weights, all, workers);
            for_each_strip(workers, all, STRIP * k, |strip, all| {
                let mut f = vec![0.0; k];
                for (i, row) in all.chunks_exact_mut(k).enumerate() {
                    f.iter_mut().zip(&*row).zip(constant).for_each(|((f, s), c)| *f = s.to_f64() + c);
                    link(&mut f, labels.row(first + strip * STRIP + i).0);
                    row.iter_mut().zip(&f).for_each(|(to, probability)| *to = T::from_f64(*probability));
                }
            });
        }
        all
    }
}

/// Replaces scores by probabilities, and returns −ln of the true class's probability. A single
/// score belongs to class 1 of two.
pub(super) fn link(scores: &mut [f64], class: usize) -> f64 {
    if let [f] = scores {
        let margin = if class == 1 { *f } else { -*f };
        // ln(1 + e^−m) without overflow, and σ(f) for its derivative without cancellation
        let loss = (-margin).max(0.0) + (-margin.abs()).exp().ln_1p();
        let tail = (-f.abs()).exp() / (1.0 + (-f.abs()).exp());
        *f = if *f >= 0.0 { 1.0 - tail } else { tail };
        return loss;
    }
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let own = scores[class] - largest;
    scores.iter_mut().for_each(|f| *f = (*f - largest).exp());
    let sum: f64 = scores.iter().sum();
    scores.iter_mut().for_each(|f| *f /= sum);
    sum.ln() - own
}

impl<T: Real> Loss<'_, '_, T> {
    /// Computes the blocks at the last point as weighted moments of sampled rows: two passes.
    fn drawn(&mut self, point: &Point, round: usize) -> Result<Vec<FoldGram>> {
        let (n, p, k) = (self.n, self.kept.p, self.k);
        let keys = |j: usize| Stream::new(self.kept.seed(), Purpose::Sketch, (round * k + j) as u64);
        let rate = |j: usize| hessian_blocks::ROWS * p as f64 / (n * point.curvatures[j]).max(f64::MIN_POSITIVE);
        let draws: Vec<(Stream, f64)> = (0..k).map(|j| (keys(j), rate(j))).collect();
        let drawn = self.draw(&draws)?;
        let mut drawing: Vec<Block<T>> = (0..k).map(|_| Block::new(p)).collect();
        let rows: BTreeSet<usize> = drawn.iter().flatten().map(|(row, _)| *row).collect();
        let rows: Vec<usize> = rows.into_iter().collect();
        let (panels, sequential, workers) = (Pool::default(), Workers::sequential(), self.kept.workers());
        let mut waiting: Vec<&[(usize, f64)]> = drawn.iter().map(Vec::as_slice).collect();
        self.kept.pick(&rows, self.observer, |tile: &Tile<'_, T>| {
            let rows = &rows[tile.first..tile.first + tile.rows()];
            workers.each(drawing.iter_mut().zip(&mut waiting).collect(), |(block, waiting)| {
                for (i, row) in rows.iter().enumerate() {
                    if let Some(((_, weight), rest)) = waiting.split_first().filter(|((at, _), _)| at == row) {
                        block.push(tile.row(i), *weight, &panels, &sequential);
                        *waiting = rest;
                    }
                }
            });
            Ok(())
        })?;
        workers.each(drawing.iter_mut().collect(), |block| block.flush(p, &panels, &sequential));
        self.passes += 2;
        Ok(drawing.into_iter().map(|block| block.moments).collect())
    }

    /// Samples rows for the block of every class, at a rate of rows per unit of Σ a p(1 − p).
    /// Returns their ascending positions and their weights.
    fn draw(&mut self, draws: &[(Stream, f64)]) -> Result<Vec<Vec<(usize, f64)>>> {
        let (kept, labels, observer, k) = (self.kept, self.labels, self.observer, self.k);
        let (last, workers) = (&mut self.last, kept.workers());
        // three numbers for each drawn row: class, position and weight
        let Values(numbers) = kept.fold("drawn rows", observer, &Values::<f64>::default, |drawn, tile| {
            let probabilities = last.of(tile, labels, workers);
            for i in 0..tile.rows() {
                let (row, weight) = (tile.first + i, labels.row(tile.first + i).1);
                for (j, (keys, rate)) in draws.iter().enumerate() {
                    let probability = probabilities[i * k + j].to_f64();
                    let heavy = weight * probability * (1.0 - probability);
                    let rate = (rate * heavy).min(1.0);
                    if rate > 0.0 && keys.uniform(row as u64) < rate {
                        drawn.0.extend([j as f64, row as f64, heavy / rate]);
                    }
                }
            }
            Ok(())
        })?;
        let mut drawn = vec![Vec::new(); k];
        for number in numbers.chunks_exact(3) {
            drawn[number[0] as usize].push((number[1] as usize, number[2]));
        }
        Ok(drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_and_losses_are_right_far_out() {
        let mut one = [0.5];
        assert!((link(&mut one, 1) - (1.0 + (-0.5f64).exp()).ln()).abs() < 1e-15);
        assert!((one[0] - 1.0 / (1.0 + (-0.5f64).exp())).abs() < 1e-15);
        let mut far = [-800.0];
        assert_eq!((link(&mut far, 1), far[0]), (800.0, 0.0));
        // softmax with two columns equals the logistic function with one
        let mut two = [1.25, -0.5];
        assert!((link(&mut two, 0) - (1.0 + (-1.75f64).exp()).ln()).abs() < 1e-15);
        assert!((two[0] + two[1] - 1.0).abs() < 1e-15);
        let mut wide = [1000.0, -1000.0, 0.0];
        assert_eq!((link(&mut wide, 1), wide), (2000.0, [1.0, 0.0, 0.0]));
    }
}
