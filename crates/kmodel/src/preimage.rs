//! Pre-images: the row whose kernel function is nearest to a row's projection on the components.
//!
//! Kernel PCA projects k(x, ·) on the affine span of the components. The projection is a sum over
//! the m landmarks z_l, P = Σ_l γ_l k(z_l, ·). In general no row z has k(z, ·) = P; the pre-image
//! is a minimum over z of
//!
//! ```text
//! ‖k(z, ·) − P‖² = k(z, z) − 2 Σ_l γ_l k(z_l, z) + ‖P‖²
//! ```
//!
//! L-BFGS finds the minimum; it starts from the row x. The pre-image of a noisy row has less noise.
//! Every kernel with a gradient has pre-images; for `linear()` they are the reconstructions of
//! ordinary PCA. *Cost* per row, for r components and d features: 4mr flops for γ, then m kernel
//! values and 5md flops per step.
//!
//! References: Mika, Schölkopf, Smola, Müller, Scholz, Rätsch, "Kernel PCA and de-noising in
//! feature spaces", NIPS 1998; Bakır, Weston, Schölkopf, "Learning to find pre-images", NIPS 2003,
//! for the gradient descent methods.

use crate::linalg::lbfgs::{LbfgsLimits, minimise};
use crate::{Error, Model, Quadratic, Result};
use faer::prelude::ReborrowMut;
use faer::{Mat, MatMut, MatRef};
use kapprox::{FeatureMap, KernelFunction, Real};
use kstore::Workers;
use std::{convert::Infallible, sync::Arc};

/// At most 500 steps. The first trial of a step changes no scaled feature by more than 1. A
/// decrease of the squared distance, or a largest component of its gradient, of at most 1e-13 ends
/// the descent.
const LIMITS: LbfgsLimits = LbfgsLimits { max_steps: 500, max_change: 1.0, tolerance: 1e-13 };

/// Smallest ratio of Σ_l γ_l k(z_l, z) to Σ_l |γ_l k(z_l, z)|. A smaller ratio means that the terms
/// cancel: for a kernel that decays, z is then no nearer to P than a point far from all landmarks,
/// and the descent has failed.
const MIN_BALANCE: f64 = 1e-9;

/// The kernel and landmarks from which the pre-images of a model are computed.
#[derive(Debug)]
pub struct PreImages {
    kernel: Arc<dyn KernelFunction<f64>>,
    /// Landmarks in f64, m x d row-major.
    landmarks: Vec<f64>,
}

impl PreImages {
    /// Prepares the pre-images of a components model.
    ///
    /// # Errors
    /// [`Error::NoPreImages`] if the model has no landmarks, has a kernel without a gradient, reads
    /// sparse rows, has a metric, or lacks the distances from its components.
    pub fn new<T: Real>(model: &Model<T>) -> Result<Self> {
        let unsupported = |why: &'static str| Err(Error::NoPreImages { why });
        let kernel = model.any_kernel()?.typed::<f64>();
        if !kernel.is_differentiable() {
            return unsupported(
                "the kernel has no gradient; fit with a differentiable kernel, such as `kernel` gaussian",
            );
        }
        if model.metadata.sparse_shape().is_some() {
            return unsupported("they are dense, and the model takes sparse rows; fit numeric columns");
        }
        if model.metric.is_some() {
            return unsupported("the landmarks of this model are transformed by a metric; fit without a metric");
        }
        let Some((landmarks, _)) = model.basis.landmarks() else {
            return unsupported("random features have no landmarks; fit with `map` nystrom");
        };
        if distance_and_feature_coefficients(model).is_none() {
            return unsupported("the model does not store the distances from its components; fit kpca with `novelty`");
        }
        Ok(Self { kernel, landmarks: landmarks.iter().map(|v| v.to_f64()).collect() })
    }

    /// Returns the bytes for m landmarks with d features.
    pub fn bytes(m: usize, d: usize) -> usize {
        8 * m * d
    }

    /// Writes the pre-images of the rows of `x` to `out`.
    ///
    /// `x` is b x d row-major, scaled; `out` is b x d row-major, in the units of the file; `basis`
    /// is the result of [`Model::functions`]. Rows are distributed over the workers one by one.
    /// Returns the number of rows that did not converge: the step limit was reached, or the descent
    /// ended far from P or at a value that is not finite.
    ///
    /// # Errors
    /// [`Error::Shape`]; [`Error::NoQuadratic`] if `model` is not the model given to
    /// [`PreImages::new`].
    pub fn apply<T: Real>(
        &self,
        model: &Model<T>,
        basis: &dyn FeatureMap<T>,
        x: MatRef<'_, T>,
        out: &mut [f64],
        workers: &Workers,
    ) -> Result<usize> {
        let (b, d) = (x.nrows(), model.scaler.input_count());
        if x.ncols() != d || out.len() != b * d {
            return Err(Error::Shape { what: "numbers of the pre-images", expected: b * d, got: out.len() });
        }
        let Some((quadratic, feature_coefficients)) = distance_and_feature_coefficients(model) else {
            return Err(Error::NoQuadratic);
        };
        let (mut converged, scaler) = (vec![true; b], &model.scaler);
        let rows: Vec<(usize, (&mut [f64], &mut bool))> =
            out.chunks_mut(d).zip(converged.iter_mut()).enumerate().collect();
        workers.for_each(rows, |(i, (out, converged))| {
            let x = x.subrows(i, 1);
            out.iter_mut().zip(x.row(0).iter()).for_each(|(z, v)| *z = v.to_f64());
            *converged = self.descend(&projection_weights(quadratic, feature_coefficients, basis, x), out);
            out.iter_mut().enumerate().for_each(|(j, z)| *z = scaler.invert(j, *z));
        });
        Ok(converged.iter().filter(|has_converged| !**has_converged).count())
    }

    /// Descends from `z` to a minimum for the weights γ; returns false if it did not converge.
    fn descend(&self, weights: &[f64], z: &mut [f64]) -> bool {
        let (m, d) = (weights.len(), z.len());
        let landmarks = MatRef::from_row_major_slice(&self.landmarks, m, d);
        // factors of the kernel's gradients in the first argument: −2γ_l for −2 Σ_l γ_l k(z_l, z),
        // and 2 for k(z, z), which depends on z by both arguments
        let (landmark_factors, diagonal_factor) = (Mat::from_fn(1, m, |_, l| -2.0 * weights[l]), Mat::full(1, 1, 2.0));
        let mut k = Mat::<f64>::zeros(1, m);
        let mut signed_and_absolute_sums = |z: &[f64]| {
            self.kernel.block(MatRef::from_row_major_slice(z, 1, d), landmarks, k.as_mut());
            let terms = weights.iter().zip(k.row(0).iter()).map(|(weight, k)| weight * k);
            terms.fold((0.0, 0.0), |(sum, absolute_sum), term: f64| (sum + term, absolute_sum + term.abs()))
        };
        let mut squared_distance = |z_values: &[f64], gradient: &mut [f64]| {
            let (z, mut diagonal) = (MatRef::from_row_major_slice(z_values, 1, d), [0.0]);
            self.kernel.diag(z, &mut diagonal);
            let mut gradient = MatMut::from_row_major_slice_mut(gradient, 1, d);
            self.kernel.gradient(z, landmarks, landmark_factors.as_ref(), gradient.rb_mut());
            self.kernel.gradient(z, z, diagonal_factor.as_ref(), gradient);
            Ok::<_, Infallible>(diagonal[0] - 2.0 * signed_and_absolute_sums(z_values).0)
        };
        let Ok(minimum) = minimise(z, &vec![(f64::NEG_INFINITY, f64::INFINITY); d], LIMITS, &mut squared_distance);
        z.copy_from_slice(&minimum.x);
        let (sum, absolute_sum) = signed_and_absolute_sums(z);
        minimum.value.is_finite() && minimum.step_count < LIMITS.max_steps && sum > MIN_BALANCE * absolute_sum
    }
}

/// Returns the quadratic function that measures distances from the components, and the coefficients
/// F of the features; `None` if the model does not store them.
fn distance_and_feature_coefficients<T>(model: &Model<T>) -> Option<(&Quadratic, &Mat<f64>)> {
    let quadratic = model.quadratic.as_ref()?;
    Some((quadratic, quadratic.feature_coefficients.as_ref().filter(|features| features.ncols() > 0)?))
}

/// Returns the weights γ of the projection P = Σ_l γ_l k(z_l, ·). Let b be the basis values of the
/// row, bF its features, and bV + s the part of the features off the components (see
/// [`Quadratic`]). Then p = bF − (bV + s) are the features of the projection, and γ = F pᵀ.
fn projection_weights<T: Real>(
    quadratic: &Quadratic,
    feature_coefficients: &Mat<f64>,
    basis: &dyn FeatureMap<T>,
    x: MatRef<'_, T>,
) -> Vec<f64> {
    let m = feature_coefficients.nrows();
    let mut k = Mat::<T>::zeros(1, m);
    basis.apply(x, k.as_mut(), &Workers::sequential());
    let k: Vec<f64> = (0..m).map(|l| k[(0, l)].to_f64()).collect();
    let multiply_column = |matrix: &Mat<f64>, j: usize| matrix.col(j).iter().zip(&k).map(|(v, k)| v * k).sum::<f64>();
    let mut weights = vec![0.0; m];
    for (j, column) in feature_coefficients.col_iter().enumerate() {
        let p = multiply_column(feature_coefficients, j) - multiply_column(&quadratic.factor, j) - quadratic.shift[j];
        weights.iter_mut().zip(column.iter()).for_each(|(weight, f)| *weight += f * p);
    }
    weights
}
