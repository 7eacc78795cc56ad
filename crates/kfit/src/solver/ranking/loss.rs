//! Pairwise losses over stored features. The value and the gradient together take two passes. Each
//! product with the Hessian takes two more passes.

use crate::features::{RowValues, StoredFeatures, Sums};
use crate::linalg::strips::BufferPool;
use crate::ranking_pairs::{Group, Groups};
use crate::solver::hessian_blocks::{self, SampledBlock};
use crate::solver::newton::{Dimensions, Evaluation, Objective};
use crate::{FoldGram, Intercept, Result};
use kapprox::Real;
use kstore::key::{Purpose, Stream};
use kstore::{Workers, pass::Observer};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The loss ℓ(z) of a pair of rows. Its margin z is the score of the row with the higher grade
/// minus the score of the row with the lower grade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PairLoss {
    /// max(0, 1 − z)².
    #[default]
    SquaredHinge,
    /// ln(1 + e^−z).
    Logistic,
}

kmodel::enum_of_words!(PairLoss, "loss", "squared-hinge" => SquaredHinge, "logistic" => Logistic);

/// Number of sampled pairs whose features are in memory at once.
const CHUNK_PAIRS: usize = 512;

/// Returns the bytes of the features of [`CHUNK_PAIRS`] pairs, and of one difference, for p
/// features of `element_bytes` bytes.
pub(super) fn pair_feature_bytes(p: usize, element_bytes: usize) -> usize {
    (2 * CHUNK_PAIRS + 1) * p * element_bytes
}

/// `[loss, slope, curvature]` of a row: its contribution to the total loss of all pairs, and the
/// first and second derivatives of the total loss with respect to its score. Only the sum of the
/// contributions matters: the loss of a pair may be split between its two rows in any way.
type RowTerms = [f64; 3];

/// Buffers for the results of [`Group::sums_within_margin`], shared by all passes of a fit. A
/// buffer has two entries (count, sum) for each row of a group: one over the rows of lower grade,
/// one over the rows of higher grade. Only rows whose pair with this row has a margin below 1
/// count.
type MarginSumBuffers = BufferPool<Vec<[(f64, f64); 2]>>;

impl PairLoss {
    fn add_row_terms(self, group: Group<'_>, scores: &[f64], margin_sums: &MarginSumBuffers, out: &mut [RowTerms]) {
        if self == Self::Logistic {
            return group.for_each_pair(|better, worse| {
                let [loss, slope, curvature] = logistic(scores[better] - scores[worse]);
                out[better] = [out[better][0] + loss, out[better][1] + slope, out[better][2] + curvature];
                out[worse] = [out[worse][0], out[worse][1] - slope, out[worse][2] + curvature];
            });
        }
        // only differences of scores matter, and smaller scores lose fewer digits to rounding
        let mean = scores.iter().sum::<f64>() / scores.len().max(1) as f64;
        let scores: Vec<f64> = scores.iter().map(|score| score - mean).collect();
        margin_sums.with_buffer(Vec::new, |near| {
            near.resize(scores.len(), Default::default());
            group.sums_within_margin(&scores, &scores, 1.0, near);
            for ((row_terms, score), near) in out.iter_mut().zip(&scores).zip(near) {
                let [(lower_count, sum_below), (higher_count, sum_above)] = *near;
                // sums of 1 − z over the pairs in which this row has the higher grade, and over the
                // pairs in which it has the lower grade. For the scores s and s' of the better and
                // the worse row, (1 − z)² = (1 − z)(1 − s) + (1 − z)s'; each row gets its term
                let (sum_as_better, sum_as_worse) =
                    (lower_count * (1.0 - score) + sum_below, higher_count * (1.0 + score) - sum_above);
                let loss = sum_as_better * (1.0 - score) + sum_as_worse * score;
                *row_terms = [loss, 2.0 * (sum_as_worse - sum_as_better), 2.0 * (lower_count + higher_count)];
            }
        });
    }

    /// Adds up the second derivatives of the pairs of `row`, in the order of the rows of the group,
    /// and returns the other row of the pair at which the sum exceeds `threshold`. A uniform
    /// threshold between 0 and the total thus selects a pair with probability proportional to its
    /// second derivative. If rounding keeps the sum below the threshold, returns the last row with
    /// a positive second derivative.
    fn partner(self, group: Group<'_>, scores: &[f64], row: usize, threshold: f64) -> usize {
        let (mut sum, mut partner) = (0.0, row);
        for (other_row, grade) in group.grades.iter().enumerate().filter(|(_, grade)| **grade != group.grades[row]) {
            let score_difference = scores[row] - scores[other_row];
            let margin = if group.grades[row] > *grade { score_difference } else { -score_difference };
            let curvature = match self {
                Self::SquaredHinge if margin < 1.0 => 2.0,
                Self::SquaredHinge => 0.0,
                Self::Logistic => logistic(margin)[2],
            };
            if curvature > 0.0 {
                (sum, partner) = (sum + curvature, other_row);
            }
            if sum > threshold {
                break;
            }
        }
        partner
    }

    /// Computes the product of `direction` with the Hessian of the loss with respect to the scores
    /// of a group. `out` must be 0 on entry.
    fn hessian_products(
        self,
        group: Group<'_>,
        scores: &[f64],
        direction: &[f64],
        margin_sums: &MarginSumBuffers,
        out: &mut [f64],
    ) {
        if self == Self::Logistic {
            return group.for_each_pair(|better, worse| {
                let [_, _, curvature] = logistic(scores[better] - scores[worse]);
                let product = curvature * (direction[better] - direction[worse]);
                out[better] += product;
                out[worse] -= product;
            });
        }
        margin_sums.with_buffer(Vec::new, |near| {
            near.resize(scores.len(), Default::default());
            group.sums_within_margin(scores, direction, 1.0, near);
            for ((product, v), near) in out.iter_mut().zip(direction).zip(near) {
                let [(lower_count, sum_below), (higher_count, sum_above)] = *near;
                *product = 2.0 * ((lower_count + higher_count) * v - sum_below - sum_above);
            }
        });
    }
}

/// Returns ln(1 + e^−z) with its first and second derivative.
fn logistic(z: f64) -> [f64; 3] {
    let exp_minus_abs = (-z.abs()).exp();
    let probability_wrong = if z >= 0.0 { exp_minus_abs / (1.0 + exp_minus_abs) } else { 1.0 / (1.0 + exp_minus_abs) };
    [(-z).max(0.0) + exp_minus_abs.ln_1p(), -probability_wrong, probability_wrong * (1.0 - probability_wrong)]
}

/// The mean loss of the pairs of all groups, without the penalty term, by passes over the features.
pub(super) struct RankingLoss<'a, 'k, T: Real> {
    features: &'a StoredFeatures<'k, T>,
    groups: Cow<'a, Groups>,
    pair_count: f64,
    pair_loss: PairLoss,
    observer: &'a dyn Observer,
    /// Scores at the last point evaluated, in the order of the groups.
    pub(super) scores: Vec<f64>,
    /// Second derivative of the total loss of all pairs with respect to each entry of `scores`.
    curvatures: Vec<f64>,
    margin_sums: MarginSumBuffers,
    passes: u64,
}

impl<'a, 'k, T: Real> RankingLoss<'a, 'k, T> {
    pub(super) fn new(
        features: &'a StoredFeatures<'k, T>,
        groups: Cow<'a, Groups>,
        pair_count: f64,
        pair_loss: PairLoss,
        observer: &'a dyn Observer,
    ) -> Self {
        let (scores, curvatures, margin_sums) = Default::default();
        Self { features, groups, pair_count, pair_loss, observer, scores, curvatures, margin_sums, passes: 0 }
    }

    /// Computes Φw in the order of the groups: one pass.
    fn scores_at(&mut self, w: &[f64]) -> Result<Vec<f64>> {
        let (features, mut out) = (self.features, Vec::new());
        let w: Vec<T> = w[..features.p].iter().map(|value| T::from_f64(*value)).collect();
        let RowValues(scores) =
            features.reduce("scores", self.observer, &RowValues::<T>::default, |scores, tile| {
                out.resize(tile.row_count(), T::ZERO);
                tile.multiply(&w, &mut out, features.workers());
                scores.0.extend_from_slice(&out);
                Ok(())
            })?;
        self.passes += 1;
        Ok(self.groups.gather(|row| scores[row].to_f64()))
    }

    /// Computes Φᵀr divided by the number of pairs, for a vector r with one entry per row. The
    /// result has p + 1 numbers; the last is 0, for the intercept. `row_values` provides r in the
    /// order of the groups. Makes one pass.
    fn transposed_product(&mut self, row_values: impl Iterator<Item = f64>) -> Result<Vec<f64>> {
        let (features, mut row_factors) = (self.features, vec![T::ZERO; self.features.n]);
        self.groups
            .rows()
            .iter()
            .zip(row_values)
            .for_each(|(row, number)| row_factors[*row as usize] = T::from_f64(number));
        let init = || Sums::new(features.p);
        let Sums(mut sums) = features.reduce("product with the features", self.observer, &init, |sums, tile| {
            tile.add_transposed_product(
                &row_factors[tile.first_row..tile.first_row + tile.row_count()],
                &mut sums.0,
                features.workers(),
            );
            Ok(())
        })?;
        self.passes += 1;
        sums.iter_mut().for_each(|sum| *sum /= self.pair_count);
        sums.push(0.0);
        Ok(sums)
    }
}

impl<T: Real> Objective<T> for RankingLoss<'_, '_, T> {
    fn dimensions(&self) -> Dimensions<'_> {
        Dimensions { p: self.features.p, k: 1, intercept: Intercept::None, workers: self.features.workers() }
    }

    fn passes_mut(&mut self) -> &mut u64 {
        &mut self.passes
    }

    fn evaluate(&mut self, w: &[f64]) -> Result<Evaluation> {
        self.scores = self.scores_at(w)?;
        let terms = |group: Group<'_>, scores: &[f64], out: &mut [RowTerms]| {
            self.pair_loss.add_row_terms(group, scores, &self.margin_sums, out);
        };
        let row_terms = self.groups.map_groups(&self.scores, self.features.workers(), terms);
        let sum = |term: usize| row_terms.iter().map(|terms| terms[term]).sum::<f64>() / self.pair_count;
        let (loss, curvatures) = (sum(0), vec![sum(2)]);
        self.curvatures = row_terms.iter().map(|terms| terms[2]).collect();
        Ok(Evaluation { loss, curvatures, gradient: self.transposed_product(row_terms.iter().map(|terms| terms[1]))? })
    }

    fn hessian_product(&mut self, v: &[f64]) -> Result<Vec<f64>> {
        let direction_scores = self.scores_at(v)?;
        let score_pairs: Vec<(f64, f64)> = self.scores.iter().copied().zip(direction_scores).collect();
        let group_products = |group: Group<'_>, score_pairs: &[(f64, f64)], out: &mut [f64]| {
            let (scores, direction): (Vec<f64>, Vec<f64>) = score_pairs.iter().copied().unzip();
            self.pair_loss.hessian_products(group, &scores, &direction, &self.margin_sums, out);
        };
        let row_products = self.groups.map_groups(&score_pairs, self.features.workers(), group_products);
        self.transposed_product(row_products.into_iter())
    }

    fn block_passes(&self) -> Option<usize> {
        hessian_blocks::passes(self.features.n, self.features.p, 1, size_of::<T>())
    }

    /// Returns an unbiased estimate of the Hessian: moments of the feature differences of sampled
    /// pairs. The moments of the features themselves would be a worse preconditioner. They include
    /// all rows, although near the solution few pairs still have a second derivative above 0. They
    /// also include what all rows of a group have in common, which cancels in the differences.
    fn hessian_blocks(&mut self, _: &Evaluation, step: usize) -> Result<Option<(Vec<FoldGram>, f64)>> {
        let (features, p) = (self.features, self.features.p);
        let (pairs, weight) = self.draw_pairs(step);
        if pairs.is_empty() {
            return Ok(None);
        }
        let (mut block, panels, sequential) = (SampledBlock::<T>::new(p), BufferPool::default(), Workers::sequential());
        for pairs in pairs.chunks(CHUNK_PAIRS) {
            let position_set: BTreeSet<usize> = pairs.iter().flatten().copied().collect();
            let pair_positions: Vec<usize> = position_set.into_iter().collect();
            let phi = features.copy_rows(&pair_positions, self.observer)?;
            let phi_of = |row: &usize| {
                pair_positions.binary_search(row).map_or(&[][..], |index| &phi[index * p..(index + 1) * p])
            };
            for [first_row, second_row] in pairs {
                let difference: Vec<T> =
                    phi_of(first_row).iter().zip(phi_of(second_row)).map(|(a, b)| *a - *b).collect();
                block.push(&difference, weight, &panels, &sequential);
            }
        }
        block.flush(p, &panels, &sequential);
        self.passes += 1;
        Ok(Some((vec![block.moments], 1.0 / self.pair_count)))
    }
}

impl<T: Real> RankingLoss<'_, '_, T> {
    /// Draws pairs with probability proportional to their second derivatives. First draws a row,
    /// with probability proportional to the sum of the second derivatives of its pairs; then draws
    /// one of these pairs. Rows are drawn by stratified sampling: draw i of N selects the row at
    /// which the cumulative sum reaches (i + u)/N of the total, with u uniform in [0, 1). N is
    /// [`hessian_blocks::ROWS_PER_FEATURE`] times the number of features. Returns the row positions
    /// of each pair, and the weight of a pair. The weight is the total divided by 2N, because the
    /// total counts every pair twice, once for each of its rows.
    fn draw_pairs(&self, step: usize) -> (Vec<[usize; 2]>, f64) {
        let (draw_count, total_curvature) =
            (hessian_blocks::ROWS_PER_FEATURE * self.features.p as f64, self.curvatures.iter().sum::<f64>());
        let stream = Stream::new(self.features.seed(), Purpose::Sketch, step as u64);
        let (mut pairs, mut group_start, mut cumulative) = (Vec::with_capacity(draw_count as usize), 0, 0.0);
        for (group, scores) in self.groups.zip_groups(&self.scores) {
            for row in 0..scores.len() {
                cumulative += self.curvatures[group_start + row];
                loop {
                    let drawn_count = pairs.len() as u64;
                    if drawn_count as f64 >= draw_count
                        || (drawn_count as f64 + stream.uniform(2 * drawn_count)) / draw_count * total_curvature
                            >= cumulative
                    {
                        break;
                    }
                    let threshold = stream.uniform(2 * drawn_count + 1) * self.curvatures[group_start + row];
                    let partner_row = self.pair_loss.partner(group, scores, row, threshold);
                    pairs.push([row, partner_row].map(|position| self.groups.rows()[group_start + position] as usize));
                }
            }
            group_start += scores.len();
        }
        (pairs, 0.5 * total_curvature / draw_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRADES: [f64; 7] = [0.0, 2.0, 1.0, 1.0, 0.0, 3.0, 2.0];
    const SCORES: [f64; 7] = [0.1, 0.7, 5.2, -0.4, 2.2, 0.9, 0.3];
    const DIRECTION: [f64; 7] = [1.0, -0.5, 0.25, 2.0, 0.0, -1.0, 0.7];

    fn loss_of(pair_loss: PairLoss, scores: &[f64]) -> f64 {
        let pairs = (0..7).flat_map(|a| (0..7).map(move |b| (a, b))).filter(|(a, b)| GRADES[*a] > GRADES[*b]);
        let margins = pairs.map(|(a, b)| scores[a] - scores[b]);
        margins
            .map(|z| match pair_loss {
                PairLoss::SquaredHinge => (1.0 - z).max(0.0).powi(2),
                PairLoss::Logistic => (1.0 + (-z).exp()).ln(),
            })
            .sum()
    }

    #[test]
    fn terms_and_products_are_derivatives_of_the_loss_of_all_pairs() {
        let groups = Groups::new(7, |_| true, |_| 0, |row| GRADES[row]);
        let (group, _) = groups.zip_groups(&SCORES).next().unwrap();
        for pair_loss in [PairLoss::SquaredHinge, PairLoss::Logistic] {
            let terms = |scores: &[f64]| {
                let mut row_terms = vec![RowTerms::default(); 7];
                pair_loss.add_row_terms(group, scores, &BufferPool::default(), &mut row_terms);
                row_terms
            };
            let row_terms = terms(&SCORES);
            let sum: f64 = row_terms.iter().map(|terms| terms[0]).sum();
            assert!((sum - loss_of(pair_loss, &SCORES)).abs() < 1e-12 * sum, "{pair_loss:?}: {sum}");
            let with_step = |i: usize, step: f64| {
                let mut scores = SCORES;
                scores[i] += step;
                scores
            };
            for (i, [_, gradient, second_derivative]) in row_terms.into_iter().enumerate() {
                let slope = (loss_of(pair_loss, &with_step(i, 1e-6)) - loss_of(pair_loss, &with_step(i, -1e-6))) / 2e-6;
                assert!((gradient - slope).abs() < 1e-7, "{pair_loss:?} row {i}: {gradient} {slope}");
                let curvature = (terms(&with_step(i, 1e-6))[i][1] - terms(&with_step(i, -1e-6))[i][1]) / 2e-6;
                assert!(
                    (second_derivative - curvature).abs() < 1e-7,
                    "{pair_loss:?} row {i}: {second_derivative} {curvature}"
                );
            }
            for (i, [_, _, second_derivative]) in terms(&SCORES).into_iter().enumerate() {
                let mut sum = 0.0;
                for other in (0..7).filter(|j| GRADES[*j] != GRADES[i]) {
                    let margin = (SCORES[i] - SCORES[other]) * (GRADES[i] - GRADES[other]).signum();
                    let curvature = match pair_loss {
                        PairLoss::SquaredHinge => 2.0 * f64::from(u8::from(margin < 1.0)),
                        PairLoss::Logistic => margin.exp() / (1.0 + margin.exp()).powi(2),
                    };
                    let partner = pair_loss.partner(group, &SCORES, i, sum + 0.5 * curvature);
                    assert!(curvature == 0.0 || partner == other, "{pair_loss:?} row {i}: {partner} for {other}");
                    sum += curvature;
                }
                assert!((sum - second_derivative).abs() < 1e-12, "{pair_loss:?} row {i}: {sum} {second_derivative}");
            }
            let mut products = vec![0.0; 7];
            pair_loss.hessian_products(group, &SCORES, &DIRECTION, &BufferPool::default(), &mut products);
            let terms_after = |step: f64| terms(&std::array::from_fn::<f64, 7, _>(|i| SCORES[i] + step * DIRECTION[i]));
            for (i, product) in products.iter().enumerate() {
                let difference = (terms_after(1e-6)[i][1] - terms_after(-1e-6)[i][1]) / 2e-6;
                assert!((product - difference).abs() < 1e-7, "{pair_loss:?} row {i}: {product} {difference}");
            }
        }
    }
}
