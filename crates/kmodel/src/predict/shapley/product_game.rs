//! Exact Shapley values of models that are linear in products of kernels of single columns.
//!
//! One term of the model is α Π_g k_g(x_g, z_g), the product over the columns g for a landmark z.
//! With a_g = k_g(x_g, z_g) and c_g = k_g(b_g, z_g) for a background row b, the value of a subset S
//! is v(S) = Π_{g ∈ S} a_g Π_{g ∉ S} c_g. The weights of the subsets are integrals of powers
//! (Owen, "Multilinear extensions of games", 1972), so that
//!
//! ```text
//! φ_g = (a_g − c_g) ∫_0^1 Π_{h ≠ g} (c_h + t (a_h − c_h)) dt
//! ```
//!
//! The integrand is a polynomial of degree G − 1 for G columns, so Gauss–Legendre quadrature with
//! ⌈G/2⌉ nodes is exact. No subset is enumerated.
//!
//! *Cost* per row: about 8 m B G ⌈G/2⌉ flops for m landmarks and B background rows.

use super::STRIP_ROWS;
use crate::Model;
use crate::model::{Basis, BasisTransform};
use crate::regression_loss::RegressionLoss;
use faer::{Mat, MatRef};
use kapprox::{KernelFunction, Real, vectorised};
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of quadrature nodes. They are exact for 64 columns. For more columns the measured
/// error is 1e-14 for typical factors, and 5e-5 if all of 784 factors change from 0 to 1.
const MAX_NODES: usize = 32;

/// Maximum number of landmarks whose factors are computed together.
const CHUNK_LANDMARKS: usize = 64;
/// Minimum number of landmarks of a chunk: two registers of eight numbers.
const MIN_CHUNK_LANDMARKS: usize = 16;
/// Bytes of the factors of the background rows above which a chunk has fewer landmarks.
const MAX_FACTOR_BYTES: usize = 4 << 20;

/// A model as a sum of products of kernels of single columns.
pub(super) struct ProductGame<T: Real> {
    terms: Vec<Term<T>>,
    /// Landmarks, m x d row-major.
    landmarks: Vec<T>,
    /// Coefficients α, m x t.
    coefficients: Mat<f64>,
    feature_count: usize,
    column_count: usize,
}

/// Σ_i α_i weight Π_g k_g(x_g, z_ig), over the landmarks z_i of `functions`.
struct Term<T: Real> {
    weight: f64,
    functions: Range<usize>,
    factors: Vec<ColumnFactor<T>>,
    /// Quadrature nodes on [0, 1], with their weights.
    nodes: Vec<[f64; 2]>,
}

/// The kernels of one column's features, whose product is the factor of the column.
struct ColumnFactor<T: Real> {
    column: usize,
    kernels: Vec<(usize, Arc<dyn KernelFunction<T>>)>,
}

/// Buffers of one thread.
#[derive(Default)]
pub(super) struct GameBuffers {
    /// Factors a of the rows: columns x rows x landmarks.
    row_factors: Vec<f64>,
    /// Factors c of the background: columns x background rows x landmarks.
    background_factors: Vec<f64>,
    /// Products of the factors of all following columns: columns x landmarks.
    suffix_products: Vec<f64>,
    /// Products of the factors of all preceding columns, for each landmark.
    prefix_products: Vec<f64>,
    /// Shapley values of the games of each landmark, summed over the background: columns x
    /// landmarks.
    game_values: Vec<f64>,
}

impl<T: Real> ProductGame<T> {
    /// Returns the game of a model, or `None` if the model is not linear in products over columns.
    /// `features` are the features of each column.
    pub(super) fn new(model: &Model<T>, features: &[Range<usize>]) -> Option<Self> {
        let Basis::Landmarks { points, row_numbers } = &model.basis else { return None };
        // the prediction of counts is an exponential, and quantiles are sorted
        let is_linear = !matches!(model.metadata.loss, Some(RegressionLoss::Deviance(_)))
            && model.metadata.outputs_per_target() == 1
            && model.quadratic_in_scores().is_none();
        let has_kernel_basis =
            model.transform == BasisTransform::Identity && model.metric.is_none() && model.leaves.is_none();
        if !is_linear || !has_kernel_basis || model.metadata.second_view.is_some() {
            return None;
        }
        let (d, mut first, mut terms) = (model.scaler.input_count(), 0, Vec::new());
        for (kernel, count) in model.metadata.kernels_of_functions(row_numbers.len()) {
            let functions = first..first + count;
            first = functions.end;
            for product in model.metadata.parse_kernel(kernel).ok()?.column_products(d)? {
                let factor = |(column, range): (usize, &Range<usize>)| {
                    let kernels = product.factors.iter().filter(|(feature, _)| range.contains(feature));
                    let kernels: Vec<_> = kernels.map(|(feature, kernel)| (*feature, kernel.typed())).collect();
                    (!kernels.is_empty()).then_some(ColumnFactor { column, kernels })
                };
                let factors: Vec<_> = features.iter().enumerate().filter_map(factor).collect();
                let nodes = gauss_legendre(factors.len().div_ceil(2).min(MAX_NODES));
                terms.push(Term { weight: product.weight, functions: functions.clone(), factors, nodes });
            }
        }
        Some(Self {
            terms,
            landmarks: points.clone(),
            coefficients: model.coefficients.clone(),
            feature_count: d,
            column_count: features.len(),
        })
    }

    fn chunk_landmarks(factor_count: usize, background_rows: usize) -> usize {
        let landmark_bytes = (factor_count * background_rows * size_of::<f64>()).max(1);
        (MAX_FACTOR_BYTES / landmark_bytes).clamp(MIN_CHUNK_LANDMARKS, CHUNK_LANDMARKS)
    }

    /// Returns the bytes of the buffers of one thread.
    pub(super) fn scratch_bytes(&self, background_rows: usize) -> usize {
        let factor_count = self.terms.iter().map(|term| term.factors.len()).max().unwrap_or(0);
        let chunk = Self::chunk_landmarks(factor_count, background_rows);
        size_of::<f64>() * chunk * (factor_count * (STRIP_ROWS + background_rows + 2) + 1 + background_rows)
    }

    /// Adds the contributions of the columns for the rows of `x` to `values` (rows x columns x t).
    pub(super) fn add_values(&self, x: &[T], background: &[T], values: &mut [f64], buffers: &mut GameBuffers) {
        for term in self.terms.iter().filter(|term| !term.factors.is_empty()) {
            let chunk = Self::chunk_landmarks(term.factors.len(), background.len() / self.feature_count.max(1));
            for first in term.functions.clone().step_by(chunk) {
                let landmarks = first..(first + chunk).min(term.functions.end);
                self.add_chunk(term, landmarks, x, background, values, buffers);
            }
        }
    }

    fn add_chunk(
        &self,
        term: &Term<T>,
        landmarks: Range<usize>,
        x: &[T],
        background: &[T],
        values: &mut [f64],
        buffers: &mut GameBuffers,
    ) {
        let (d, l, t) = (self.feature_count, landmarks.len(), self.coefficients.ncols());
        let (row_count, background_count) = (x.len() / d, background.len() / d);
        let GameBuffers { row_factors, background_factors, suffix_products, prefix_products, game_values } = buffers;
        let points = &self.landmarks[landmarks.start * d..landmarks.end * d];
        fill_factors(&term.factors, points, x, d, row_factors);
        fill_factors(&term.factors, points, background, d, background_factors);
        suffix_products.resize(term.factors.len() * l, 1.0);
        prefix_products.resize(l, 1.0);
        for row in 0..row_count {
            game_values.clear();
            game_values.resize(term.factors.len() * l, 0.0);
            for background_row in 0..background_count {
                let a = Factors { values: row_factors, row: row * l, stride: row_count * l, len: l };
                let c = Factors {
                    values: background_factors,
                    row: background_row * l,
                    stride: background_count * l,
                    len: l,
                };
                vectorised!(add_game(a, c, &term.nodes, suffix_products, prefix_products, game_values));
            }
            let scale = term.weight / background_count as f64;
            for (factor, game_values) in term.factors.iter().zip(game_values.chunks_exact(l)) {
                let out = &mut values[(row * self.column_count + factor.column) * t..][..t];
                for (j, out) in out.iter_mut().enumerate() {
                    let alpha = &self.coefficients.col_as_slice(j)[landmarks.clone()];
                    *out += scale * game_values.iter().zip(alpha).map(|(value, alpha)| value * alpha).sum::<f64>();
                }
            }
        }
    }
}

/// Writes k_g(x_g, z_g) for every column g, row x and landmark z: columns x rows x landmarks.
fn fill_factors<T: Real>(factors: &[ColumnFactor<T>], landmarks: &[T], rows: &[T], d: usize, out: &mut Vec<f64>) {
    let (l, row_count) = (landmarks.len() / d, rows.len() / d);
    out.clear();
    out.resize(factors.len() * row_count * l, 1.0);
    let mut block = Mat::<T>::zeros(row_count, l);
    for (factor, out) in factors.iter().zip(out.chunks_exact_mut(row_count * l)) {
        for (feature, kernel) in &factor.kernels {
            let column = |points: &[T]| points.iter().skip(*feature).step_by(d).copied().collect::<Vec<T>>();
            let (x, z) = (column(rows), column(landmarks));
            // a kernel subtracts the mean of its second argument, which must not depend on the rows
            kernel.block(
                MatRef::from_row_major_slice(&x, row_count, 1),
                MatRef::from_row_major_slice(&z, l, 1),
                block.as_mut(),
            );
            for (i, column) in block.col_iter().enumerate() {
                column.iter().enumerate().for_each(|(row, value)| out[row * l + i] *= value.to_f64());
            }
        }
    }
}

/// The factors of one row, for every column and landmark.
#[derive(Clone, Copy)]
struct Factors<'a> {
    values: &'a [f64],
    /// Position of the row's factors among the factors of a column.
    row: usize,
    /// Number of factors of a column.
    stride: usize,
    /// Number of landmarks.
    len: usize,
}

impl<'a> Factors<'a> {
    #[inline(always)]
    fn of_column(self, g: usize) -> &'a [f64] {
        &self.values[g * self.stride + self.row..][..self.len]
    }
}

/// Adds the Shapley values of the game with factors `a` and `c`, for each column and landmark.
#[inline(always)]
fn add_game(
    a: Factors<'_>,
    c: Factors<'_>,
    nodes: &[[f64; 2]],
    suffix_products: &mut [f64],
    prefix_products: &mut [f64],
    game_values: &mut [f64],
) {
    let (l, column_count) = (a.len, game_values.len() / a.len);
    for [t, weight] in nodes {
        suffix_products[(column_count - 1) * l..].fill(1.0);
        for g in (1..column_count).rev() {
            let (before, after) = suffix_products.split_at_mut(g * l);
            let (product, next_product) = (&mut before[(g - 1) * l..], &after[..l]);
            let factors = a.of_column(g).iter().zip(c.of_column(g));
            for ((product, next_product), (a, c)) in product.iter_mut().zip(next_product).zip(factors) {
                *product = next_product * (c + t * (a - c));
            }
        }
        prefix_products.fill(*weight);
        for (g, game_values) in game_values.chunks_exact_mut(l).enumerate() {
            let (suffixes, factors) = (&suffix_products[g * l..][..l], a.of_column(g).iter().zip(c.of_column(g)));
            let products = game_values.iter_mut().zip(&mut *prefix_products).zip(suffixes);
            for (((value, prefix), suffix), (a, c)) in products.zip(factors) {
                *value += *prefix * suffix * (a - c);
                *prefix *= c + t * (a - c);
            }
        }
    }
}

/// Returns the nodes and weights of Gauss–Legendre quadrature on [0, 1], exact for polynomials of
/// degree 2n − 1.
///
/// The nodes are roots of the Legendre polynomial P_n, found by Newton's method from
/// cos(π (i + 3/4) / (n + 1/2)) (Press and others, *Numerical Recipes*, 2007, section 4.6.1).
fn gauss_legendre(n: usize) -> Vec<[f64; 2]> {
    let polynomial_and_derivative = |x: f64| {
        let (mut previous, mut value) = (0.0, 1.0);
        for k in 1..=n {
            let k = k as f64;
            (previous, value) = (value, ((2.0 * k - 1.0) * x * value - (k - 1.0) * previous) / k);
        }
        (value, n as f64 * (x * value - previous) / (x * x - 1.0))
    };
    let node = |i: usize| {
        let mut x = (std::f64::consts::PI * (i as f64 + 0.75) / (n as f64 + 0.5)).cos();
        // three steps reach the rounding error; more change nothing
        for _ in 0..6 {
            let (value, derivative) = polynomial_and_derivative(x);
            x -= value / derivative;
        }
        let derivative = polynomial_and_derivative(x).1;
        [0.5 * (1.0 - x), 1.0 / ((1.0 - x * x) * derivative * derivative)]
    };
    (0..n).map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quadrature_is_exact_up_to_its_degree() {
        for n in [1, 2, 3, 5, 16, 32] {
            let nodes = gauss_legendre(n);
            for degree in [0, 1, n, 2 * n - 1] {
                let integral: f64 = nodes.iter().map(|[t, weight]| weight * t.powi(degree as i32)).sum();
                assert!(
                    (integral * (degree as f64 + 1.0) - 1.0).abs() < 1e-13,
                    "{n} nodes, degree {degree}: {integral}"
                );
            }
        }
    }
}
