//! Kernel principal components: directions of largest variance in feature space.
//!
//! Let φ_i be the features of row i, Φ (n x p) the matrix with the rows φ_iᵀ, and μ the mean of the
//! features. The components are the leading eigenvectors v_1, …, v_q of
//!
//! ```text
//! C = (1/n) Σ_i (φ_i − μ)(φ_i − μ)ᵀ = ΦᵀΦ/n − μμᵀ,     score_j(x) = v_jᵀ(φ(x) − μ)
//! ```
//!
//! If rows have weights, the sums are weighted, and n is the sum of the weights. The eigenvalues of
//! C, times n, are the eigenvalues of the centred kernel matrix HKH with H = I − 11ᵀ/n. If the
//! features are not centred, C = ΦᵀΦ/n and μ = 0. Signs: the largest entry of each direction is
//! positive. Whitened scores are divided by the square root of the eigenvalue, so that their mean
//! square over the rows is 1.
//!
//! The squared distance of a row from the span of the components is the sum of k(x, x) − ‖φ‖² and
//! ‖φ − μ − Σ_j v_j v_jᵀ(φ − μ)‖². This reconstruction error can serve as an anomaly score
//! (Hoffmann, "Kernel PCA for novelty detection", Pattern Recognition 40, 2007).
//!
//! With folds, the components of the other folds are applied to the rows of each fold. The report
//! then contains, for each component, the fraction of the variance that it explains on the held-out
//! rows. A component overfits if this fraction is below the fraction on the training rows. So the
//! comparison shows how many components to keep.
//!
//! *Passes*: one. *Flops*: the flops of the map, np² for the moments, and for the eigenvectors 9p³,
//! or about 2p² for each dimension of a Krylov space if few components of many features are
//! requested. Each fold takes the eigenvectors' flops again. *Bytes*: about 6p² numbers in f64, and
//! p² for each fold.
//!
//! Reference: Schölkopf, Smola, Müller, "Nonlinear component analysis as a kernel eigenvalue
//! problem", Neural Computation 10, 1998.

use super::parameter::{COMPONENTS, FOLDS, NOVELTY, Parameter, Settings, TOLERANCE, UNCENTRED, WEIGHTS};
use super::{NamedValues, Solution, Solver, SolverFamily, SolverProperties};
use crate::features::{FEWER_DIRECTIONS, FitData, GRAM_PASS};
use crate::gram::covariance;
use crate::linalg::eigen::{leading_eigen, sign_of_largest};
use crate::quadratic::Quadratic;
use crate::request::{PassShape, ProblemSize, TrainOptions};
use crate::{Error, FoldGram, GramState, Result, Task};
use faer::{Mat, MatRef};
use kapprox::Real;
use kstore::{MemoryPlan, Workers};

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "kpca",
    "kernel principal components: the directions of largest variance",
    Task::Components,
    &[COMPONENTS, UNCENTRED, WHITEN, NOVELTY, FOLDS, TOLERANCE, WEIGHTS],
    |settings| {
        Ok(Box::new(KernelPca {
            component_count: settings.required(&COMPONENTS, Settings::count),
            is_centred: !settings.flag(&UNCENTRED),
            is_whitened: settings.flag(&WHITEN),
            needs_novelty: settings.flag(&NOVELTY),
        }))
    },
);

/// With whitening, the model contains no component whose variance is below this multiple of ε times
/// the largest variance.
///
/// The moments have a relative error of about ε of the feature type. So the direction of a
/// component with a smaller variance is random.
const VARIANCE_TOLERANCE: f64 = 16.0;

const WHITEN: Parameter = Parameter::flag("whiten", "Scale the coordinates to variance 1");

#[derive(Clone, Copy, Debug)]
struct KernelPca {
    component_count: usize,
    is_centred: bool,
    is_whitened: bool,
    needs_novelty: bool,
}

impl KernelPca {
    fn mean(&self, moments: &FoldGram) -> Vec<f64> {
        let n = moments.weight_sum.max(f64::MIN_POSITIVE);
        moments.s.iter().map(|s| if self.is_centred { s / n } else { 0.0 }).collect()
    }

    /// Returns the fraction of the held-out variance that each component explains, or `None` if
    /// there are no folds. The rows of each fold are projected on the components of the other
    /// folds, and centred by the mean of the other folds.
    fn held_out_variance(&self, gram: &GramState, workers: &Workers) -> Result<Option<NamedValues>> {
        let (p, folds) = (gram.feature_count(), gram.folds());
        let (mut explained_variances, mut total_variance) = (vec![0.0; self.component_count.min(p)], 0.0);
        if folds.len() < 2 {
            return Ok(None);
        }
        for (fold, held_out_moments) in folds.iter().enumerate().filter(|(_, moments)| moments.row_count > 0) {
            let training_moments = gram.training_moments(Some(fold));
            if training_moments.row_count < 2 {
                return Err(Error::TooFewRows { rows: training_moments.row_count });
            }
            let mean = self.mean(&training_moments);
            let covariance = covariance(&training_moments, &mean);
            let (_, leading) = leading_eigen(covariance, explained_variances.len(), workers)?;
            let scatter = scatter_about(held_out_moments, &mean);
            total_variance += (0..p).map(|j| scatter[(j, j)]).sum::<f64>();
            let scatter_products = &scatter * &leading;
            for (j, sum) in explained_variances.iter_mut().enumerate() {
                *sum += (0..p).map(|i| leading[(i, j)] * scatter_products[(i, j)]).sum::<f64>();
            }
        }
        let fractions =
            explained_variances.iter().map(|variance| variance / total_variance.max(f64::MIN_POSITIVE)).collect();
        Ok(Some(NamedValues { name: "held-out share of variance", values: fractions }))
    }
}

/// Computes Σ (φ − μ)(φ − μ)ᵀ over the rows of these moments, where μ is `mean` and need not be the
/// mean of these rows.
fn scatter_about(moments: &FoldGram, mean: &[f64]) -> Mat<f64> {
    let (p, n, s) = (mean.len(), moments.weight_sum, &moments.s);
    let g = MatRef::from_column_major_slice(&moments.g, p, p);
    Mat::from_fn(p, p, |i, j| g[(i.max(j), i.min(j))] - s[i] * mean[j] - mean[i] * s[j] + n * mean[i] * mean[j])
}

impl<T: Real> Solver<T> for KernelPca {
    fn properties(&self) -> SolverProperties {
        SolverProperties { uses_validation_rows: true, accepts_row_weights: true, ..SolverProperties::default() }
    }

    fn single_pass_name(&self, _: &TrainOptions) -> Result<&'static str, &'static str> {
        Ok(GRAM_PASS)
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, _: PassShape) -> MemoryPlan {
        let (p, held_out_matrices) = (size.map.p, if size.fold_count > 1 { 3 } else { 0 });
        plan.term("covariance and its eigenvectors", (5 + held_out_matrices) * 8 * p * p, "lower `rank`").term_if(
            self.needs_novelty,
            "distances",
            Quadratic::expansion_bytes(p, p),
            "omit `novelty`",
        )
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let state = data.moments_by_fold()?;
        let _stage = data.resources.stage_observer.start_stage("eigenvectors", None);
        let held_out_figure = self.held_out_variance(&state.gram, data.resources.workers)?;
        let moments = &*state.gram.training_moments(None);
        let (p, mean) = (moments.s.len(), self.mean(moments));
        let covariance = covariance(moments, &mean);
        let total_variance: f64 = (0..p).map(|j| covariance[(j, j)]).sum();
        let (mut variances, vectors) = leading_eigen(covariance, self.component_count, data.resources.workers)?;
        let min_variance = VARIANCE_TOLERANCE * state.gram.epsilon() * variances[0].max(0.0);
        let significant_count =
            variances.iter().take_while(|variance| **variance > min_variance && **variance > 0.0).count();
        if significant_count == 0 {
            return Err(Error::NoVariance);
        }
        data.warn_of_fewer_components(self.component_count, significant_count, FEWER_DIRECTIONS);
        variances.truncate(significant_count);
        let directions = vectors.subcols(0, significant_count);
        let scale = |q: usize| {
            sign_of_largest(directions, q) * if self.is_whitened { variances[q].sqrt().recip() } else { 1.0 }
        };
        let scales: Vec<f64> = (0..significant_count).map(scale).collect();
        let weights = Mat::from_fn(p, significant_count, |i, q| scales[q] * directions[(i, q)]);
        let intercept =
            (0..significant_count).map(|q| -(0..p).map(|i| mean[i] * weights[(i, q)]).sum::<f64>()).collect();
        let fractions = variances.iter().map(|v| v / total_variance.max(f64::MIN_POSITIVE)).collect();
        let mut figures = vec![
            NamedValues { name: "variance", values: variances },
            NamedValues { name: "share of variance", values: fractions },
        ];
        figures.extend(held_out_figure);
        let quadratic = self.needs_novelty.then(|| Quadratic::distance_from_span(directions, &mean));
        Ok(Solution {
            weights,
            intercept,
            quadratic,
            certificate: state.certificate,
            figures,
            passes: 1,
            ..Solution::default()
        })
    }
}
