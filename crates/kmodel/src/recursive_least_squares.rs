//! Recursive least squares: a linear function of features that learns row by row.
//!
//! φ_j is the feature vector of row j (p features), followed by a 1 for the intercept, and y_j is
//! its target. After i rows the weights w minimise
//!
//! ```text
//! Σ_j f^(i−j) (y_j − wᵀφ_j)² + f^i (w − w₀)ᵀP₀⁻¹(w − w₀)
//! ```
//!
//! where w₀ and P₀ are the initial values of w and P, and f is the forgetting factor. P is the
//! inverse of half the Hessian of this sum:
//!
//! ```text
//! P⁻¹ = Σ_j f^(i−j) φ_jφ_jᵀ + f^i P₀⁻¹
//! ```
//!
//! Rows are learned in blocks. Up to rounding, w and the prediction errors are the same as if the
//! rows were learned one by one. Let a block have b rows X and targets y, where row i of both is
//! divided by f^(i/2), and let S = I + XPXᵀ = LLᵀ (Cholesky). The prediction errors of the rows are
//! the entries of L⁻¹(y − Xw) times the diagonal of L, and
//!
//! ```text
//! V = L⁻¹XP,   w += VᵀL⁻¹(y − Xw),   P = (P − VᵀV) / f^b
//! ```
//!
//! The block adds ‖L⁻¹(y − Xw)‖² to the minimum of the sum of squares, from which the noise
//! variance of the target is estimated. φᵀPφ is the variance of the prediction wᵀφ in units of the
//! noise variance. A model of ridge regression with `std` stores P, so it can continue learning:
//! [`Predictor::learn`](crate::predict::Predictor::learn).
//!
//! *Flops* per row: 3p². *Bytes*: 24p².
//!
//! References: Plackett, "Some theorems in least squares", Biometrika 37, 1950; Haykin, Adaptive
//! Filter Theory, chapter 10.

use crate::gram::{GramScratch, add_gram};
use crate::linalg::cholesky::{self, TriangularSystem};
use crate::linalg::strips::BufferPool;
use crate::quadratic::Quadratic;
use faer::linalg::matmul::{matmul, triangular};
use faer::{Accum, Mat, MatMut, MatRef, Par};
use kapprox::{Real, gram::GramBuffers};
use kstore::Workers;
use triangular::BlockStructure::{Rectangular, StrictTriangularUpper, TriangularLower};

/// Rows per block. A block reads P from memory once per product with P, so larger blocks read it
/// less often.
pub const BLOCK_ROWS: usize = 64;

/// Returns the weights, p x t, and the intercepts of t functions. `w` contains the functions in
/// sequence, each as p weights and an intercept.
pub fn split_weights(w: &[f64], (p, t): (usize, usize)) -> (Mat<f64>, Vec<f64>) {
    (Mat::from_fn(p, t, |i, j| w[j * (p + 1) + i]), w.chunks_exact(p + 1).map(|w| w[p]).collect())
}

/// State of recursive least squares.
#[derive(Clone, Debug)]
pub struct RecursiveLeastSquares {
    p: usize,
    /// Feature of the intercept: 1, or 0 for a fit without intercept.
    constant_feature: f64,
    /// The t functions in sequence, each as p weights and an intercept.
    pub w: Vec<f64>,
    /// −P, (p + 1) x (p + 1) column-major; only the lower triangle is used.
    minus_p: Vec<f64>,
    /// Minimum of the weighted sum of squares, per target.
    squared_error_sums: Vec<f64>,
    /// Sum of the row weights in these sums of squares, minus 1 for the intercept.
    degrees_of_freedom: f64,
}

kstore::persist!(RecursiveLeastSquares { fill "w": w, fill "minus P": minus_p, fill "sums": squared_error_sums, one "rows": degrees_of_freedom });

impl RecursiveLeastSquares {
    /// Returns the state before any row, for t targets: P is diagonal, with these values for the
    /// features and the intercept.
    pub fn new((p, t): (usize, usize), constant_feature: f64, feature_variance: f64, intercept_variance: f64) -> Self {
        let q = p + 1;
        let mut minus_p = vec![0.0; q * q];
        let diagonal = minus_p.iter_mut().step_by(q + 1).enumerate();
        diagonal.for_each(|(j, entry)| *entry = if j < p { -feature_variance } else { -intercept_variance });
        Self {
            p,
            constant_feature,
            w: vec![0.0; q * t],
            minus_p,
            squared_error_sums: vec![0.0; t],
            degrees_of_freedom: -constant_feature,
        }
    }

    /// Returns the state that continues a fit: w is (p + 1) x t, P = RRᵀ with `roots` R of k
    /// columns, and `noise_variances` has the noise variance of each target, estimated from
    /// `degrees_of_freedom` degrees of freedom.
    pub fn from_roots(
        w: MatRef<'_, f64>,
        constant_feature: f64,
        roots: MatRef<'_, f64>,
        noise_variances: &[f64],
        degrees_of_freedom: f64,
    ) -> Self {
        let q = w.nrows();
        let mut minus_p = vec![0.0; q * q];
        let (lower, roots_transposed) = (MatMut::from_column_major_slice_mut(&mut minus_p, q, q), roots.transpose());
        let (accum, structure) = (Accum::Replace, Rectangular);
        triangular::matmul(
            lower,
            TriangularLower,
            accum,
            roots,
            structure,
            roots_transposed,
            structure,
            -1.0,
            Par::Seq,
        );
        if constant_feature == 0.0 {
            // without an intercept, the last diagonal entry of P has no effect; 1 keeps P positive
            // definite
            minus_p[q * q - 1] = -1.0;
        }
        let w = w.col_iter().flat_map(|column| column.iter().copied()).collect();
        Self {
            p: q - 1,
            constant_feature,
            w,
            minus_p,
            squared_error_sums: noise_variances.iter().map(|noise| noise * degrees_of_freedom).collect(),
            degrees_of_freedom,
        }
    }

    /// Returns the number of targets t.
    pub fn target_count(&self) -> usize {
        self.squared_error_sums.len()
    }

    /// Returns the bytes of the state, of its successor in a pass, and of the buffers of a block.
    pub fn bytes(p: usize, t: usize, threads: usize) -> usize {
        let q = p + 1;
        3 * 8 * q * q + 8 * BLOCK_ROWS * (3 * q + BLOCK_ROWS) + GramScratch::<f64>::bytes(q, t, BLOCK_ROWS, threads)
    }

    /// Learns a block of b rows, φ (b x p) and y (b x t) row-major. Returns the sum of the squared
    /// prediction errors, as if the rows were learned one by one; `None` if P overflows f64.
    pub fn learn<T: Real>(
        &mut self,
        phi: &[T],
        y: &[f64],
        forgetting: f64,
        panels: &BufferPool<GramBuffers<f64>>,
        workers: &Workers,
    ) -> Option<f64> {
        let (p, t) = (self.p, self.target_count());
        let (b, q) = (phi.len() / p, p + 1);
        let row_scale = |i: usize| forgetting.powf(-0.5 * (i + 1) as f64);
        let feature = |i: usize, j: usize| {
            phi[i * p..(i + 1) * p].get(j).map_or(self.constant_feature, |v| kstore::Float::to_f64(*v))
        };
        let x = Mat::from_fn(b, q, |i, j| row_scale(i) * feature(i, j));
        let mut v = self.times_p(x.as_ref());
        let mut factor = Mat::<f64>::identity(b, b);
        matmul(factor.as_mut(), Accum::Add, v.as_ref(), x.transpose(), 1.0, Par::Seq);
        cholesky::factor_sequential(factor.as_mut())?;
        let mut w = MatMut::from_column_major_slice_mut(&mut self.w, q, t);
        let mut errors = Mat::from_fn(b, t, |i, j| row_scale(i) * y[i * t + j]);
        matmul(errors.as_mut(), Accum::Add, x.as_ref(), w.as_ref(), -1.0, Par::Seq);
        cholesky::solve_triangular(factor.as_ref(), TriangularSystem::Factor, errors.as_mut(), workers);
        cholesky::solve_triangular(factor.as_ref(), TriangularSystem::Factor, v.as_mut(), workers);
        matmul(w.as_mut(), Accum::Add, v.transpose(), errors.as_ref(), 1.0, Par::Seq);
        add_gram(&mut self.minus_p, v.as_ref(), panels, workers);
        let decay = forgetting.powi(b as i32);
        // row i of the block, counted from 0, has the weight f^(b−i−1)
        self.degrees_of_freedom = decay * (self.degrees_of_freedom + (0..b).map(|i| row_scale(i).powi(2)).sum::<f64>());
        let block_squared_errors = errors.col_iter().map(|errors| errors.squared_norm_l2());
        self.squared_error_sums
            .iter_mut()
            .zip(block_squared_errors)
            .for_each(|(sum, added)| *sum = decay * (*sum + added));
        if forgetting < 1.0 {
            self.minus_p.iter_mut().for_each(|entry| *entry /= decay);
        }
        // the prediction error of row i is L_ii (L⁻¹(y − Xw))_i, divided by the scale of the row
        let squared_error =
            |i: usize| (0..t).map(|j| (factor[(i, i)] * errors[(i, j)] / row_scale(i)).powi(2)).sum::<f64>();
        Some((0..b).map(squared_error).sum())
    }

    /// Returns the weights of the features, p x t, and the intercepts.
    pub fn weights_and_intercepts(&self) -> (Mat<f64>, Vec<f64>) {
        split_weights(&self.w, (self.p, self.target_count()))
    }

    /// Returns the variance of wᵀφ as a function of the features, in units of the noise variance,
    /// with ρ = `residual_factor` and τ = `residual_allowance` for the residual of the map; `None`
    /// if P has no Cholesky factor in f64.
    pub fn variance(&self, residual_factor: f64, residual_allowance: f64) -> Option<Quadratic> {
        let (p, q) = (self.p, self.p + 1);
        let mut root = Mat::from_fn(q, q, |i, j| -self.minus_p[j * q + i]);
        cholesky::factor_sequential(root.as_mut())?;
        let output_scales = self.squared_error_sums.iter().map(|sum| sum / self.degrees_of_freedom.max(1.0)).collect();
        let degrees_of_freedom = Some(self.degrees_of_freedom);
        let (factor, shift) =
            (root.subrows(0, p).to_owned(), root.row(p).iter().map(|v| self.constant_feature * v).collect());
        Some(Quadratic {
            factor,
            shift,
            constant: 0.0,
            residual_factor,
            residual_allowance,
            output_scales,
            degrees_of_freedom,
            feature_coefficients: None,
        })
    }

    /// Returns XP for rows X, b x (p + 1).
    fn times_p(&self, x: MatRef<'_, f64>) -> Mat<f64> {
        let q = self.p + 1;
        let (minus_p, mut out) = (MatRef::from_column_major_slice(&self.minus_p, q, q), Mat::zeros(x.nrows(), q));
        let mut add_product = |accum, triangle, structure| {
            let out = out.as_mut();
            triangular::matmul(out, Rectangular, accum, x, Rectangular, triangle, structure, -1.0, Par::Seq);
        };
        add_product(Accum::Replace, minus_p, TriangularLower);
        add_product(Accum::Add, minus_p.transpose(), StrictTriangularUpper);
        out
    }
}
