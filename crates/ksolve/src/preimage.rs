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

use crate::{Error, Model, Result};
use faer::{Mat, MatRef};
use kapprox::{FeatureMap, Kernel, Real};
use kstore::Workers;

/// A step below this, in the scaled units of the features, is the last.
const STEP: f64 = 1e-7;

/// Most steps.
const STEPS: usize = 500;

/// Where the weights' sum is below this share of the sum of their sizes, the quotient is rounding.
const BALANCE: f64 = 1e-9;

/// What pre-images are made of.
#[derive(Debug)]
pub struct PreImages<T: Real> {
    functions: Box<dyn FeatureMap<T>>,
    kernel: std::sync::Arc<dyn Kernel<f64>>,
    /// Landmarks in f64, m x d row-major.
    landmarks: Vec<f64>,
    /// F (m x r), V (m x q = r) and s of the model's quadratic function.
    features: Mat<f64>,
    factor: Mat<f64>,
    shift: Vec<f64>,
    centre: Vec<f64>,
    scale: Vec<f64>,
}

impl<T: Real> PreImages<T> {
    /// Of the components of a model.
    ///
    /// # Errors
    /// [`Error::PreImages`] for a model without landmarks, of another kernel than a Gaussian of all features, or that does not hold
    /// the distances from its components.
    pub fn new(model: &Model<T>) -> Result<Self> {
        let refuse = |why: &'static str| Error::PreImages { why };
        let gaussian = model.card.kernel.starts_with("gaussian(") && !model.card.kernel.contains([' ', '*']);
        let restricted = model.card.kernel.contains("on=");
        if !gaussian || restricted {
            return Err(refuse(
                "only a Gaussian kernel of all features has them by fixed point; fit with --kernel gaussian",
            ));
        }
        let (landmarks, _) = model
            .basis
            .landmarks()
            .ok_or_else(|| refuse("random features have no landmarks; fit with --map nystrom"))?;
        let quadratic = model.quadratic.as_ref();
        let (Some(quadratic), Some(features)) = (quadratic, quadratic.and_then(|q| q.features.as_ref())) else {
            return Err(refuse("the model does not hold the distances from its components; fit kpca with --novelty"));
        };
        Ok(Self {
            functions: model.functions()?,
            kernel: model.kernel_in_f64()?,
            landmarks: landmarks.iter().map(|v| v.to_f64()).collect(),
            features: features.clone(),
            factor: quadratic.factor.clone(),
            shift: quadratic.shift.clone(),
            centre: model.centre.clone(),
            scale: model.scale.clone(),
        })
    }

    /// Bytes for m landmarks with d features and rank r.
    pub fn bytes(m: usize, d: usize, r: usize) -> usize {
        8 * m * (d + 2 * r)
    }

    /// `out` (b x d row-major) = the pre-images of the rows of `x` (b x d row-major, scaled), in the units of the file. Gives how
    /// many of them did not settle. Rows go to the workers one by one.
    ///
    /// # Errors
    /// [`Error::Shape`].
    pub fn apply(&self, x: MatRef<'_, T>, out: &mut [f64], workers: &Workers) -> Result<usize> {
        let (b, d) = (x.nrows(), self.centre.len());
        if x.ncols() != d || out.len() != b * d {
            return Err(Error::Shape { what: "numbers of the pre-images", expected: b * d, got: out.len() });
        }
        let mut settled = vec![true; b];
        let rows: Vec<(usize, (&mut [f64], &mut bool))> =
            out.chunks_mut(d).zip(settled.iter_mut()).enumerate().collect();
        workers.each(rows, |(i, (out, settled))| *settled = self.row(x.subrows(i, 1), out));
        Ok(settled.iter().filter(|settled| !**settled).count())
    }

    /// The pre-image of one row; false where the iteration did not settle.
    fn row(&self, x: MatRef<'_, T>, out: &mut [f64]) -> bool {
        let (m, d) = (self.features.nrows(), self.centre.len());
        let weights = self.weights(x);
        let mut z: Vec<f64> = x.row(0).iter().map(|v| v.to_f64()).collect();
        let landmarks = MatRef::from_row_major_slice(&self.landmarks, m, d);
        let (mut k, mut settled) = (Mat::<f64>::zeros(1, m), false);
        for _ in 0..STEPS {
            self.kernel.block(MatRef::from_row_major_slice(&z, 1, d), landmarks, k.as_mut());
            let (mut sum, mut size, mut next) = (0.0, 0.0, vec![0.0; d]);
            for (l, landmark) in self.landmarks.chunks_exact(d).enumerate() {
                let weight = weights[l] * k[(0, l)];
                sum += weight;
                size += weight.abs();
                next.iter_mut().zip(landmark).for_each(|(next, z)| *next += weight * z);
            }
            // a maximum has a positive sum; elsewhere the quotient points nowhere
            if sum <= BALANCE * size {
                break;
            }
            let step = next.iter().zip(&z).map(|(next, z)| (next / sum - z).powi(2)).sum::<f64>().sqrt();
            z.iter_mut().zip(&next).for_each(|(z, next)| *z = next / sum);
            if step <= STEP {
                settled = true;
                break;
            }
        }
        for (((out, z), scale), centre) in out.iter_mut().zip(&z).zip(&self.scale).zip(&self.centre) {
            *out = z * scale + centre;
        }
        settled
    }

    /// γ: P(x) = Σ_l γ_l k(z_l, ·).
    fn weights(&self, x: MatRef<'_, T>) -> Vec<f64> {
        let m = self.features.nrows();
        let mut k = Mat::<T>::zeros(1, m);
        self.functions.apply(x, k.as_mut(), &Workers::sequential());
        let k: Vec<f64> = (0..m).map(|l| k[(0, l)].to_f64()).collect();
        let times = |matrix: &Mat<f64>, j: usize| matrix.col(j).iter().zip(&k).map(|(v, k)| v * k).sum::<f64>();
        let projected: Vec<f64> = (0..self.features.ncols())
            .map(|j| times(&self.features, j) - times(&self.factor, j) - self.shift[j])
            .collect();
        let mut weights = vec![0.0; m];
        for (column, p) in self.features.col_iter().zip(&projected) {
            weights.iter_mut().zip(column.iter()).for_each(|(weight, f)| *weight += f * p);
        }
        weights
    }
}
