//! Pre-images: the row whose kernel function is nearest to a row's projection on the components.
//!
//! Kernel principal components put a row's function φ(x) onto their affine span, P = φ − (what they cannot reconstruct), and
//! P = Σ_l γ_l k(z_l, ·) over the landmarks. A row z with k(z, ·) = P does not exist in general; the nearest one for the Gaussian
//! kernel maximises Σ_l γ_l k(z_l, z), where its gradient vanishes:
//!
//! ```text
//! z = Σ_l γ_l k(z_l, z) z_l / Σ_l γ_l k(z_l, z)
//! ```
//!
//! That is iterated from the row itself. On rows with noise it is a denoiser. Lengths of each feature's own cancel, so they may
//! differ. *Cost*: 4mr flops a row for γ, m kernel values and 2md flops for an iteration.
//!
//! Reference: Mika, Schölkopf, Smola, Müller, Scholz, Rätsch, "Kernel PCA and de-noising in feature spaces", NIPS 1998.

use crate::{Error, Model, Quadratic, Result};
use faer::{Mat, MatRef};
use kapprox::{FeatureMap, Kernel, Real, Spec};
use kstore::Workers;
use std::sync::Arc;

/// Length of a step, in the scaled units of the features, at which the iteration ends.
const STEP: f64 = 1e-7;

const STEPS: usize = 500;

/// Least sum of the weights, as a share of the sum of their sizes: below it the quotient is rounding.
const BALANCE: f64 = 1e-9;

/// The kernel and the landmarks, from which pre-images of a model are computed.
#[derive(Debug)]
pub struct PreImages {
    kernel: Arc<dyn Kernel<f64>>,
    /// Landmarks in f64, m x d row-major.
    landmarks: Vec<f64>,
}

impl PreImages {
    /// Prepares the pre-images of a model of components.
    ///
    /// # Errors
    /// [`Error::PreImages`] for a model without landmarks, of another kernel than a Gaussian of all features, or that does not hold
    /// the distances from its components.
    pub fn new<T: Real>(model: &Model<T>) -> Result<Self> {
        let refuse = |why: &'static str| Err(Error::PreImages { why });
        if Spec::parse(&model.card.kernel)?.name() != Some("gaussian") {
            return refuse(
                "only a Gaussian kernel of all features has them by fixed point; fit with `kernel` gaussian",
            );
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
        Ok(Self { kernel: model.kernel_in_f64()?, landmarks: landmarks.iter().map(|v| v.to_f64()).collect() })
    }

    /// Bytes for m landmarks with d features.
    pub fn bytes(m: usize, d: usize) -> usize {
        8 * m * d
    }

    /// `out` (b x d row-major) = the pre-images of the rows of `x` (b x d row-major, scaled), in the units of the file. Gives how
    /// many of them did not settle. `basis` is that of [`Model::functions`]. Rows go to the workers one by one.
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
        let (b, d) = (x.nrows(), model.centre.len());
        if x.ncols() != d || out.len() != b * d {
            return Err(Error::Shape { what: "numbers of the pre-images", expected: b * d, got: out.len() });
        }
        let Some((quadratic, features)) = projection(model) else { return Err(Error::NoQuadratic) };
        let (mut settled, scaler) = (vec![true; b], model.scaler());
        let rows: Vec<(usize, (&mut [f64], &mut bool))> =
            out.chunks_mut(d).zip(settled.iter_mut()).enumerate().collect();
        workers.each(rows, |(i, (out, settled))| {
            let x = x.subrows(i, 1);
            out.iter_mut().zip(x.row(0).iter()).for_each(|(z, v)| *z = v.to_f64());
            *settled = self.iterate(&weights(quadratic, features, basis, x), out);
            out.iter_mut().enumerate().for_each(|(j, z)| *z = scaler.invert(j, *z));
        });
        Ok(settled.iter().filter(|settled| !**settled).count())
    }

    /// Iterates from `z` to the fixed point for the weights γ; false where that did not settle.
    fn iterate(&self, weights: &[f64], z: &mut [f64]) -> bool {
        let (m, d) = (weights.len(), z.len());
        let landmarks = MatRef::from_row_major_slice(&self.landmarks, m, d);
        let mut k = Mat::<f64>::zeros(1, m);
        for _ in 0..STEPS {
            self.kernel.block(MatRef::from_row_major_slice(z, 1, d), landmarks, k.as_mut());
            let (mut sum, mut size, mut next) = (0.0, 0.0, vec![0.0; d]);
            for (l, landmark) in self.landmarks.chunks_exact(d).enumerate() {
                let weight = weights[l] * k[(0, l)];
                sum += weight;
                size += weight.abs();
                next.iter_mut().zip(landmark).for_each(|(next, z)| *next += weight * z);
            }
            // a maximum has a positive sum; elsewhere the quotient points nowhere
            if sum <= BALANCE * size {
                return false;
            }
            let step = next.iter().zip(&*z).map(|(next, z)| (next / sum - z).powi(2)).sum::<f64>().sqrt();
            z.iter_mut().zip(&next).for_each(|(z, next)| *z = next / sum);
            if step <= STEP {
                return true;
            }
        }
        false
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
