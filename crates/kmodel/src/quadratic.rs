//! Quadratic functions of a model's basis: predictive variances, and distances from a subspace.
//!
//! Let b(x) be the m basis functions and φ(x) = b(x)F the r features; F (m x r) are their
//! coefficients. A quadratic function has the form
//!
//! ```text
//! g(x) = ‖b(x)V + s‖² + c + ρ max(0, k(x, x) − ‖b(x)F‖² − τ)
//! ```
//!
//! V is m x q, s has length q, and c, ρ and τ are numbers. The last term exists only for
//! projections (maps on landmarks). It measures the residual of the map: the squared norm of the
//! part of k(x, ·) outside the span of the landmarks, minus an allowance τ. If F has no columns,
//! all of k(x, x) is residual; if the map is not a projection, ‖φ(x)‖² then replaces k(x, x).
//!
//! *Cost*: 2m(q + r) flops per row. *Bytes*: [`Quadratic::bytes`].

use crate::linalg::dot_products;
use faer::{Accum, Mat, MatMut, MatRef, Par, linalg::matmul::matmul};
use kapprox::{FeatureMap, Real, map::Expansion};
use kstore::Workers;

/// Number of rows computed together. It is constant, because the order of the sums in a matrix
/// product depends on the shape of the product.
pub(crate) const STRIP_ROWS: usize = 256;

/// Number of basis functions whose values are converted to f64 at once: a panel of [`STRIP_ROWS`]
/// rows takes 256 KiB.
const PANEL_FUNCTIONS: usize = 128;

/// A quadratic function of a model's basis.
///
/// A solver returns it as a function of the features, without F. [`Quadratic::expand`] converts it
/// to a function of the basis.
#[derive(Clone, Debug, PartialEq)]
pub struct Quadratic {
    /// Factor V, m x q.
    pub factor: Mat<f64>,
    /// Shift s, length q.
    pub shift: Vec<f64>,
    /// Coefficients F of the features, m x r; `None` if the map is not a projection of the kernel.
    pub feature_coefficients: Option<Mat<f64>>,
    /// Constant c.
    pub constant: f64,
    /// Positive factor ρ of the last term.
    pub residual_factor: f64,
    /// Allowance τ of the last term; for variances the mean residual over the rows of the fit,
    /// which the noise estimate already contains.
    pub residual_allowance: f64,
    /// Factor of the function for each output of the model; for variances, the noise variance σ² of
    /// the target.
    pub output_scales: Vec<f64>,
    /// Degrees of freedom of the σ² estimate, for weighted fits and online learning; `None` if they
    /// follow from the number of rows.
    pub degrees_of_freedom: Option<f64>,
}

impl Quadratic {
    /// Returns the squared distance of k(x, ·) from the affine space through `mean` that the
    /// orthonormal `directions` span. It is the squared distance of φ(x) from this space, plus the
    /// squared distance of k(x, ·) from φ(x).
    pub fn distance_from_span(directions: MatRef<'_, f64>, mean: &[f64]) -> Self {
        let p = mean.len();
        let mut factor = Mat::<f64>::identity(p, p);
        matmul(factor.as_mut(), Accum::Add, directions, directions.transpose(), -1.0, Par::Seq);
        let shift = (0..p).map(|j| -(0..p).map(|i| mean[i] * factor[(i, j)]).sum::<f64>()).collect();
        Self {
            factor,
            shift,
            constant: 0.0,
            residual_factor: 1.0,
            residual_allowance: 0.0,
            output_scales: vec![1.0],
            degrees_of_freedom: None,
            feature_coefficients: None,
        }
    }

    /// Returns the function k(x, x) + c on r features.
    pub fn kernel_diagonal(r: usize, constant: f64) -> Self {
        let (factor, feature_coefficients) = (Mat::zeros(r, 0), Some(Mat::zeros(r, 0)));
        Self {
            factor,
            shift: Vec::new(),
            feature_coefficients,
            constant,
            residual_factor: 1.0,
            residual_allowance: 0.0,
            output_scales: vec![1.0],
            degrees_of_freedom: None,
        }
    }

    /// Converts a function of the features of `map` to a function of the basis used for
    /// predictions; `is_projection` is true if the map is a projection.
    pub fn expand<T: Real>(self, map: &dyn FeatureMap<T>, is_projection: bool, workers: &Workers) -> Self {
        let coefficients_of = |weights: MatRef<'_, f64>| match map.expand(weights, workers) {
            Expansion::Landmarks { dual_coefficients: coefficients, .. }
            | Expansion::Features { weights: coefficients } => coefficients,
        };
        let r = self.factor.nrows();
        if self.feature_coefficients.is_some() {
            let m = coefficients_of(Mat::zeros(r, 1).as_ref()).nrows();
            return Self { factor: Mat::zeros(m, 0), feature_coefficients: Some(Mat::zeros(m, 0)), ..self };
        }
        let features = is_projection.then(|| coefficients_of(Mat::identity(r, r).as_ref()));
        Self { factor: coefficients_of(self.factor.as_ref()), feature_coefficients: features, ..self }
    }

    /// Returns the bytes for m basis functions and rank r.
    pub fn bytes(m: usize, r: usize) -> usize {
        8 * (m * (2 * r + 1) + r + 1)
    }

    /// Returns the bytes during [`Quadratic::expand`] for m basis functions and rank r.
    pub fn expansion_bytes(m: usize, r: usize) -> usize {
        Self::bytes(m, r) + 8 * (r + 1) * (2 * r + 1)
    }

    pub(crate) fn bytes_in_memory(&self) -> usize {
        let column_count = self.factor.ncols() + self.feature_coefficients.as_ref().map_or(0, Mat::ncols);
        8 * (self.factor.nrows() * (column_count + 1) + self.shift.len() + 1)
    }

    pub(crate) fn scratch_bytes(&self, threads: usize) -> usize {
        let output_count = self.factor.ncols().max(self.feature_coefficients.as_ref().map_or(0, Mat::ncols));
        threads.max(1) * STRIP_ROWS * 8 * (PANEL_FUNCTIONS + output_count)
    }

    /// Computes `out[i]` = g(x_i) from the basis values `b` (at most [`STRIP_ROWS`] rows x m,
    /// column-major) and `diag`, the values k(x_i, x_i), or ‖φ(x_i)‖² for a map that is not a
    /// projection.
    pub(crate) fn evaluate<T: Real>(
        &self,
        b: MatRef<'_, T>,
        diag: &[f64],
        scratch: &mut QuadraticScratch,
        out: &mut [f64],
    ) {
        scratch.compute_outputs(b, self.factor.as_ref());
        out.fill(self.constant);
        scratch.add_squared_outputs(&self.shift, out);
        let Some(features) = &self.feature_coefficients else { return };
        scratch.compute_outputs(b, features.as_ref());
        let mut projected_norms = vec![0.0; out.len()];
        scratch.add_squared_outputs(&vec![0.0; features.ncols()], &mut projected_norms);
        for ((out, diag), projected_norm) in out.iter_mut().zip(diag).zip(&projected_norms) {
            // rounding can make the projection longer than the projected function
            *out += (diag - projected_norm - self.residual_allowance).max(0.0) * self.residual_factor;
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct QuadraticScratch {
    padded_panel: Vec<f64>,
    outputs: Vec<f64>,
}

impl QuadraticScratch {
    /// Computes `outputs` (`STRIP_ROWS` x q) = b·v, where b is padded with zero rows.
    fn compute_outputs<T: Real>(&mut self, b: MatRef<'_, T>, v: MatRef<'_, f64>) {
        let (row_count, m, q) = (b.nrows(), v.nrows(), v.ncols());
        self.outputs.clear();
        self.outputs.resize(STRIP_ROWS * q, 0.0);
        if q == 0 {
            return;
        }
        self.padded_panel.resize(STRIP_ROWS * PANEL_FUNCTIONS, 0.0);
        let mut panel = vec![0.0; row_count * PANEL_FUNCTIONS];
        for first_function in (0..m).step_by(PANEL_FUNCTIONS) {
            let panel_columns = PANEL_FUNCTIONS.min(m - first_function);
            dot_products::copy_as_f64(
                b.subcols(first_function, panel_columns),
                &mut panel[..row_count * panel_columns],
            );
            self.padded_panel.fill(0.0);
            for (to, from) in self.padded_panel.chunks_exact_mut(STRIP_ROWS).zip(panel.chunks_exact(row_count)) {
                to[..row_count].copy_from_slice(from);
            }
            let left = MatRef::from_column_major_slice(
                &self.padded_panel[..STRIP_ROWS * panel_columns],
                STRIP_ROWS,
                panel_columns,
            );
            let out = MatMut::from_column_major_slice_mut(&mut self.outputs, STRIP_ROWS, q);
            matmul(out, Accum::Add, left, v.subrows(first_function, panel_columns), 1.0, Par::Seq);
        }
    }

    /// Adds Σ_j (outputs_ij + shift_j)² to `out[i]`.
    fn add_squared_outputs(&self, shift: &[f64], out: &mut [f64]) {
        for (column, shift) in self.outputs.chunks_exact(STRIP_ROWS).zip(shift) {
            out.iter_mut().zip(column).for_each(|(out, v)| *out += (v + shift) * (v + shift));
        }
    }
}
