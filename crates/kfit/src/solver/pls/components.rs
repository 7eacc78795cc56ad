//! The components of partial least squares, computed from the centred moments G = Σ φ̃φ̃ᵀ and B = Σ
//! φ̃ỹᵀ by the recursion in [`super`]. A tilde marks features φ and targets y from which their
//! means are subtracted. Subtracting a component from B is called deflation; B below is the
//! deflated matrix.

use crate::linalg::eigen::sign_of_largest;
use crate::solver::centred_moments::CentredMoments;
use crate::{LinearHead, Result};
use faer::{Accum, Col, ColRef, Mat, MatRef, Par, linalg::matmul::matmul};
use kapprox::decompose::symmetric_eigen;

/// Threshold u for rounding errors, in units of the relative error ε of the moments. The iteration
/// ends if ‖B‖ ≤ u ε max(initial ‖B‖, √(tr G · Σ ỹ²)), or if the new direction r has rᵀGr ≤ u ε tr
/// G ‖r‖². 64 is chosen: smaller values take rounding for components, larger ones end early.
const ROUNDING_UNITS: f64 = 64.0;

/// The components: column j of each matrix belongs to component j.
#[derive(Debug)]
pub(super) struct Components {
    /// R, r x q: the scores are φ̃ᵀR.
    pub(super) rotations: Mat<f64>,
    /// C, t x q: regression coefficients of the targets on the scores.
    y_loadings: Mat<f64>,
    /// τ_j, the sums of squares of the scores.
    squared_score_norms: Vec<f64>,
}

impl Components {
    /// Computes at most `q` components of the leading `rank` features. Stops earlier if the
    /// deflated B, or the sum of squares rᵀGr of the new scores, is only rounding (see
    /// [`ROUNDING_UNITS`]). `epsilon` is the relative error of the moments.
    pub(super) fn new(moments: &CentredMoments, rank: usize, q: usize, epsilon: f64) -> Result<Self> {
        let g = moments.g().submatrix(0, 0, rank, rank);
        let mut b = moments.b.subrows(0, rank).to_owned();
        let (q, t) = (q.min(rank), b.ncols());
        let trace: f64 = (0..rank).map(|j| g[(j, j)]).sum();
        let initial_norm = b.norm_l2();
        // if features and targets are uncorrelated, B contains only rounding errors of about
        // `epsilon` times √(tr G · Σ ỹ²)
        let total: f64 = moments.squared_target_sums.iter().sum();
        let threshold = ROUNDING_UNITS * epsilon * initial_norm.max((trace * total).max(0.0).sqrt());
        let (mut rotations, mut loadings) = (Mat::<f64>::zeros(rank, q), Mat::<f64>::zeros(rank, q));
        let (mut y_loadings, mut squared_score_norms) = (Mat::<f64>::zeros(t, q), Vec::new());
        while squared_score_norms.len() < q {
            let a = squared_score_norms.len();
            let Some(w) = leading_direction(b.as_ref(), threshold)? else { break };
            let mut r = w.clone();
            for j in 0..a {
                let projection = dot(loadings.col(j), w.as_ref());
                r -= projection * rotations.col(j);
            }
            let mut g_r = Col::<f64>::zeros(rank);
            matmul(g_r.as_mat_mut(), Accum::Replace, g, r.as_mat(), 1.0, Par::Seq);
            let tau = dot(r.as_ref(), g_r.as_ref());
            if tau.is_nan() || tau <= ROUNDING_UNITS * epsilon * trace * dot(r.as_ref(), r.as_ref()) {
                break;
            }
            let sign = sign_of_largest(r.as_mat(), 0);
            for i in 0..rank {
                rotations[(i, a)] = sign * r[i];
                loadings[(i, a)] = sign * g_r[i] / tau;
            }
            for k in 0..t {
                y_loadings[(k, a)] = sign * dot(b.col(k), r.as_ref()) / tau;
                for i in 0..rank {
                    b[(i, k)] -= tau * loadings[(i, a)] * y_loadings[(k, a)];
                }
            }
            squared_score_norms.push(tau);
        }
        let component_count = squared_score_norms.len();
        let (rotations, y_loadings) =
            (rotations.subcols(0, component_count).to_owned(), y_loadings.subcols(0, component_count).to_owned());
        Ok(Self { rotations, y_loadings, squared_score_norms })
    }

    pub(super) fn component_count(&self) -> usize {
        self.squared_score_norms.len()
    }

    /// Returns −μᵀR, the offsets that centre the scores.
    pub(super) fn offsets(&self, moments: &CentredMoments) -> Vec<f64> {
        let dot_with_mean =
            |column: ColRef<'_, f64>| column.iter().zip(&moments.feature_mean).map(|(r, mean)| r * mean).sum::<f64>();
        self.rotations.col_iter().map(|column| -dot_with_mean(column)).collect()
    }

    /// Returns the regression on all components: the weights RCᵀ and the intercepts. The caller
    /// subtracted `target_centre` from the targets before the fit, so the intercepts add it back.
    pub(super) fn regression(&self, moments: &CentredMoments, target_centre: &[f64]) -> LinearHead {
        let mut weights = Mat::zeros(self.rotations.nrows(), self.y_loadings.nrows());
        matmul(weights.as_mut(), Accum::Replace, self.rotations.as_ref(), self.y_loadings.transpose(), 1.0, Par::Seq);
        let dot_with_mean =
            |j: usize| weights.col(j).iter().zip(&moments.feature_mean).map(|(w, mean)| w * mean).sum::<f64>();
        let target_means = moments.target_mean.iter().zip(target_centre).enumerate();
        let intercept = target_means.map(|(j, (mean, centre))| mean + centre - dot_with_mean(j)).collect();
        LinearHead { weights, intercept }
    }

    /// Returns the fraction of the targets' sum of squares that each component explains.
    pub(super) fn explained_fractions(&self, moments: &CentredMoments) -> Vec<f64> {
        let total = moments.squared_target_sums.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        self.gains().map(|gain| gain / total).collect()
    }

    /// Returns the mean squared error on the training rows, and the variance of the targets, each
    /// summed over the targets.
    pub(super) fn train_mse_and_variance(&self, moments: &CentredMoments) -> (f64, f64) {
        let total: f64 = moments.squared_target_sums.iter().sum();
        ((total - self.gains().sum::<f64>()).max(0.0) / moments.row_count, total / moments.row_count)
    }

    /// Returns τ_j‖c_j‖² for each component. Because the scores are orthogonal, this is the amount
    /// by which the component reduces the squared error.
    fn gains(&self) -> impl Iterator<Item = f64> + '_ {
        self.squared_score_norms.iter().zip(self.y_loadings.col_iter()).map(|(square, c)| square * dot(c, c))
    }

    /// Returns the sum of squared errors on the validation rows for the first 1, 2, … components.
    /// `validation` holds the moments of these rows, centred by the means of the fit.
    pub(super) fn squared_errors(&self, validation: &CentredMoments) -> Vec<f64> {
        let (rank, q, t) = (self.rotations.nrows(), self.component_count(), self.y_loadings.nrows());
        let mut g_rotations = Mat::<f64>::zeros(rank, q);
        let g = validation.g().submatrix(0, 0, rank, rank);
        matmul(g_rotations.as_mut(), Accum::Replace, g, self.rotations.as_ref(), 1.0, Par::Seq);
        // the a-th component changes the error by 2 Σ_{j<a} (c_aᵀc_j)(r_jᵀG r_a) + ‖c_a‖² r_aᵀG r_a
        // − 2 c_aᵀBᵀr_a, with G and B of the validation rows, whose scores are not orthogonal
        let mut error: f64 = validation.squared_target_sums.iter().sum();
        let mut errors = Vec::with_capacity(q);
        for a in 0..q {
            let r = self.rotations.col(a);
            let c = |k: usize, j: usize| self.y_loadings[(k, j)];
            let linear: f64 = (0..t).map(|k| c(k, a) * dot(validation.b.subrows(0, rank).col(k), r)).sum();
            let mixed = |j: usize| dot(g_rotations.col(j), r) * (0..t).map(|k| c(k, a) * c(k, j)).sum::<f64>();
            error += mixed(a) + 2.0 * (0..a).map(mixed).sum::<f64>() - 2.0 * linear;
            errors.push(error);
        }
        errors
    }
}

/// Returns the first left singular vector of B, of norm 1; `None` if ‖B‖ ≤ `threshold`.
fn leading_direction(b: MatRef<'_, f64>, threshold: f64) -> Result<Option<Col<f64>>> {
    let norm = b.norm_l2();
    if norm.is_nan() || norm <= threshold {
        return Ok(None);
    }
    let t = b.ncols();
    // BᵀB / ‖B‖²; without the division, squares could overflow or underflow. Its leading
    // eigenvector v gives the singular vector w = Bv / ‖Bv‖
    let inner_products = Mat::from_fn(t, t, |i, j| dot(b.col(i), b.col(j)) / norm / norm);
    let (_, vectors) = symmetric_eigen(inner_products.as_ref())?;
    let mut w = Col::<f64>::zeros(b.nrows());
    for k in 0..t {
        w += vectors[(k, t - 1)] * b.col(k);
    }
    let w_norm = w.norm_l2();
    Ok((w_norm > 0.0).then(|| (1.0 / w_norm) * w))
}

fn dot(a: ColRef<'_, f64>, b: ColRef<'_, f64>) -> f64 {
    a.iter().zip(b.iter()).map(|(a, b)| a * b).sum()
}
