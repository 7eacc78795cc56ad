//! Pre-images: the row whose kernel function is nearest to a row's projection on the components.
//!
//! Kernel principal components put a row's function φ(x) onto their affine span, P = φ − (what they cannot reconstruct), and
//! P = Σ_l γ_l k(z_l, ·) over the landmarks. A row z with k(z, ·) = P does not exist in general; the pre-image is a minimum of
//!
//! ```text
//! ‖k(z, ·) − P‖² = k(z, z) − 2 Σ_l γ_l k(z_l, z) + ‖P‖²
//! ```
//!
//! to which L-BFGS descends from the row itself. On rows with noise it is a denoiser. Every kernel with a gradient has them: for `linear()`
//! they are what principal components reconstruct. *Cost*: 4mr flops a row for γ, m kernel values and 5md flops for a step.
//!
//! References: Mika, Schölkopf, Smola, Müller, Scholz, Rätsch, "Kernel PCA and de-noising in feature spaces", NIPS 1998; Bakır, Weston, Schölkopf,
//! "Learning to find pre-images", NIPS 2003, of the methods that descend along a gradient.

use crate::linalg::lbfgs::{Limits, minimise};
use crate::{Error, Model, Quadratic, Result};
use faer::prelude::ReborrowMut;
use faer::{Mat, MatMut, MatRef};
use kapprox::{FeatureMap, KernelFunction, Real};
use kstore::Workers;
use std::{convert::Infallible, sync::Arc};

/// Most steps, the longest first change of a scaled feature, and the decrease that is rounding.
const LIMITS: Limits = Limits { steps: 500, reach: 1.0, flat: 1e-13 };

/// Least sum of the terms γ_l k(z_l, z), as a share of the sum of their sizes: below it z is as far from P as any point.
const BALANCE: f64 = 1e-9;

/// The kernel and the landmarks, from which pre-images of a model are computed.
#[derive(Debug)]
pub struct PreImages {
    kernel: Arc<dyn KernelFunction<f64>>,
    /// Landmarks in f64, m x d row-major.
    landmarks: Vec<f64>,
}

impl PreImages {
    /// Prepares the pre-images of a model of components.
    ///
    /// # Errors
    /// [`Error::PreImages`] for a model without landmarks, of a kernel without a gradient, of sparse rows, or that does not hold the
    /// distances from its components.
    pub fn new<T: Real>(model: &Model<T>) -> Result<Self> {
        let refuse = |why: &'static str| Err(Error::PreImages { why });
        let kernel = model.any_kernel()?.typed::<f64>();
        if !kernel.differentiable() {
            return refuse("the kernel has no gradient; fit with one that has, such as `kernel` gaussian");
        }
        if model.card.sparse().is_some() {
            return refuse("they have a number in every column of sparse rows; fit columns of numbers");
        }
        if model.metric.is_some() {
            return refuse("the landmarks of this model lie behind a metric; fit without one");
        }
        let Some((landmarks, _)) = model.basis.landmarks() else {
            return refuse("random features have no landmarks; fit with `map` nystrom");
        };
        if projection(model).is_none() {
            return refuse("the model does not hold the distances from its components; fit kpca with `novelty`");
        }
        Ok(Self { kernel, landmarks: landmarks.iter().map(|v| v.to_f64()).collect() })
    }

    /// Bytes for m landmarks with d features.
    pub fn bytes(m: usize, d: usize) -> usize {
        8 * m * d
    }

    /// `out` (b x d row-major) = the pre-images of the rows of `x` (b x d row-major, scaled), in the units of the file. Gives how
    /// many of them did not settle, as the descent ended before its limit nowhere or far from P. `basis` is that of [`Model::functions`]. Rows go to the workers one by one.
    ///
    /// # Errors
    /// [`Error::Shape`]; [`Error::NoQuadratic`] for another model than that of [`PreImages::new`].
    pub fn apply<T: Real>(
        &self,
        model: &Model<T>,
        basis: &dyn FeatureMap<T>,
        x: MatRef<'_, T>,
        out: &mut [f64],
        workers: &Workers,
    ) -> Result<usize> {
        let (b, d) = (x.nrows(), model.scaler.features());
        if x.ncols() != d || out.len() != b * d {
            return Err(Error::Shape { what: "numbers of the pre-images", expected: b * d, got: out.len() });
        }
        let Some((quadratic, features)) = projection(model) else { return Err(Error::NoQuadratic) };
        let (mut settled, scaler) = (vec![true; b], &model.scaler);
        let rows: Vec<(usize, (&mut [f64], &mut bool))> =
            out.chunks_mut(d).zip(settled.iter_mut()).enumerate().collect();
        workers.each(rows, |(i, (out, settled))| {
            let x = x.subrows(i, 1);
            out.iter_mut().zip(x.row(0).iter()).for_each(|(z, v)| *z = v.to_f64());
            *settled = self.descend(&weights(quadratic, features, basis, x), out);
            out.iter_mut().enumerate().for_each(|(j, z)| *z = scaler.invert(j, *z));
        });
        Ok(settled.iter().filter(|settled| !**settled).count())
    }

    /// Descends from `z` to a minimum for the weights γ; false where that did not settle.
    fn descend(&self, weights: &[f64], z: &mut [f64]) -> bool {
        let (m, d) = (weights.len(), z.len());
        let landmarks = MatRef::from_row_major_slice(&self.landmarks, m, d);
        let (twice, own) = (Mat::from_fn(1, m, |_, l| -2.0 * weights[l]), Mat::full(1, 1, 2.0));
        let mut k = Mat::<f64>::zeros(1, m);
        let mut values = |z: &[f64]| {
            self.kernel.block(MatRef::from_row_major_slice(z, 1, d), landmarks, k.as_mut());
            let terms = weights.iter().zip(k.row(0).iter()).map(|(weight, k)| weight * k);
            terms.fold((0.0, 0.0), |(sum, size), term: f64| (sum + term, size + term.abs()))
        };
        let mut distance = |at: &[f64], gradient: &mut [f64]| {
            let (z, mut diagonal) = (MatRef::from_row_major_slice(at, 1, d), [0.0]);
            self.kernel.diag(z, &mut diagonal);
            let mut gradient = MatMut::from_row_major_slice_mut(gradient, 1, d);
            self.kernel.gradient(z, landmarks, twice.as_ref(), gradient.rb_mut());
            self.kernel.gradient(z, z, own.as_ref(), gradient);
            Ok::<_, Infallible>(diagonal[0] - 2.0 * values(at).0)
        };
        let Ok(found) = minimise(z, &vec![(f64::NEG_INFINITY, f64::INFINITY); d], LIMITS, &mut distance);
        z.copy_from_slice(&found.at);
        let (sum, size) = values(z);
        found.value.is_finite() && found.steps < LIMITS.steps && sum > BALANCE * size
    }
}

/// The distances from the components and F, where a model has them.
fn projection<T>(model: &Model<T>) -> Option<(&Quadratic, &Mat<f64>)> {
    let quadratic = model.quadratic.as_ref()?;
    Some((quadratic, quadratic.features.as_ref().filter(|features| features.ncols() > 0)?))
}

/// γ: P(x) = Σ_l γ_l k(z_l, ·) = F P with P = bF − (bV + s).
fn weights<T: Real>(
    quadratic: &Quadratic,
    features: &Mat<f64>,
    basis: &dyn FeatureMap<T>,
    x: MatRef<'_, T>,
) -> Vec<f64> {
    let m = features.nrows();
    let mut k = Mat::<T>::zeros(1, m);
    basis.apply(x, k.as_mut(), &Workers::sequential());
    let k: Vec<f64> = (0..m).map(|l| k[(0, l)].to_f64()).collect();
    let times = |matrix: &Mat<f64>, j: usize| matrix.col(j).iter().zip(&k).map(|(v, k)| v * k).sum::<f64>();
    let mut weights = vec![0.0; m];
    for (j, column) in features.col_iter().enumerate() {
        let p = times(features, j) - times(&quadratic.factor, j) - quadratic.shift[j];
        weights.iter_mut().zip(column.iter()).for_each(|(weight, f)| *weight += f * p);
    }
    weights
}
