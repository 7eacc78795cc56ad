//! Supervised principal components: directions of the features that depend most on a target.
//!
//! Let φ̃_i be the centred features of row i, and ψ̃_i the centred features of its targets y_i. The
//! inner product of the target features is a kernel l(y, y') on the targets. The components are the
//! leading left singular vectors u_1, …, u_q of
//!
//! ```text
//! B = Σ_i φ̃_iψ̃_iᵀ,      max tr Uᵀ B Bᵀ U with UᵀU = I,      score_j(x) = u_jᵀ(φ(x) − μ)
//! ```
//!
//! where U = (u_1, …, u_q), and μ is the mean of the features. tr UᵀBBᵀU is n² times the
//! Hilbert-Schmidt independence criterion between the projected rows and the targets. The kernel on
//! the targets determines which dependence is measured: `linear()` measures the covariance with the
//! target, `delta()` the differences between classes, and a Gaussian kernel dependence of any kind.
//! In the dual, with the kernel matrices K of the rows and L of the targets and H = I − 11ᵀ/n, the
//! components solve K H L H K a = σ² K a. Signs: the largest entry of each direction is positive.
//!
//! The target features are a Nyström map on at most 200 targets of a sample, chosen by greedy
//! pivoted Cholesky. `linear()` and, for classes, `delta()` need no map: the features are the
//! targets themselves, or their ±1 codes.
//!
//! *Passes*: one, and one more for the sample of the targets. *Flops*: the flops of the map, and
//! np² + 2npt for t target features. *Bytes*: p² + pt numbers.
//!
//! Reference: Barshan, Ghodsi, Azimifar, Jahromi, "Supervised principal component analysis:
//! visualization, classification and regression on subspaces and submanifolds", Pattern Recognition
//! 44, 2011.

use super::parameter::{COMPONENTS, Settings, TASK, TOLERANCE};
use super::target_features::{self, TARGET_KERNEL};
use super::{NamedValues, Solution, Solver, SolverFamily, reject_if};
use crate::features::{FitData, GRAM_PASS};
use crate::linalg::eigen::sign_of_largest;
use crate::request::{FitRequest, PassShape, ProblemSize, TrainOptions};
use crate::{FoldGram, Result, Task};
use faer::{Mat, MatRef};
use kapprox::{FeatureMap, Kernel, Real, decompose::symmetric_eigen};
use kstore::MemoryPlan;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "spca",
    "supervised principal components: the directions with the strongest dependence on a target",
    Task::Regression,
    &[TASK, COMPONENTS, TARGET_KERNEL, TOLERANCE],
    |settings| {
        Ok(Box::new(SupervisedPca {
            component_count: settings.required(&COMPONENTS, Settings::count),
            target_kernel: settings.kernel(&TARGET_KERNEL),
        }))
    },
);

/// Threshold for rounding errors, in units of the relative error `epsilon` of the moments. Chosen,
/// as in partial least squares.
const ROUNDING_UNITS: f64 = 64.0;

#[derive(Clone, Debug)]
struct SupervisedPca {
    /// Requested number of components q. Fewer result if fewer directions depend on the target.
    component_count: usize,
    /// Kernel on the targets; `None` for `linear()`, or `delta()` for classes.
    target_kernel: Option<Kernel>,
}

impl<T: Real> Solver<T> for SupervisedPca {
    fn check(&self, request: &FitRequest<'_>) -> Result<()> {
        target_features::check(self.target_kernel.as_ref(), request.options.task)
    }

    fn single_pass_name(&self, options: &TrainOptions) -> Result<&'static str, &'static str> {
        match target_features::mapped_kernel(self.target_kernel.as_ref(), options.task) {
            Some(_) => Err("`target_kernel` needs a second pass, over a sample of the targets; omit it"),
            None => Ok(GRAM_PASS),
        }
    }

    fn moment_columns(&self, options: &TrainOptions, t: usize) -> usize {
        target_features::moment_columns(self.target_kernel.as_ref(), options.task, t)
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, _: PassShape) -> MemoryPlan {
        let (p, t) = (size.map.p, size.moment_columns.max(1));
        let plan = plan.term("covariances with the target", 8 * t * (4 * p + 6 * t), "lower `rank`");
        target_features::plan(plan, size)
    }

    fn further_passes(&self, request: &FitRequest<'_>) -> [u64; 2] {
        [target_features::sample_passes(self.target_kernel.as_ref(), request.options.task), 0]
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let kernel = target_features::mapped_kernel(self.target_kernel.as_ref(), data.options.task);
        let target_map = kernel.map(|kernel| target_features::fit_map(kernel, data)).transpose()?;
        let state = data.moments_with_targets(target_map.as_ref().map(|target| target as _))?;
        let _stage = data.resources.stage_observer.start_stage("singular vectors", None);
        let moments = &state.gram.folds()[0];
        target_features::reject_constant_targets(moments, self.component_count)?;
        let n = moments.row_count as f64;
        let covariance = cross_covariance(moments);
        let (singular_values, directions) =
            leading_directions(covariance.as_ref(), self.component_count, noise_level(moments, state.gram.epsilon()))?;
        let why = "no direction of the features depends on the target; check the target and the kernels";
        reject_if(singular_values.is_empty(), COMPONENTS.name, self.component_count, why)?;
        data.warn_of_fewer_components(
            self.component_count,
            singular_values.len(),
            "no more directions depend on the target",
        );
        let score_sum = |j: usize| (0..directions.nrows()).map(|i| directions[(i, j)] * moments.s[i]).sum::<f64>();
        let intercept = (0..singular_values.len()).map(|j| -score_sum(j) / n).collect();
        let squared_norm = covariance.squared_norm_l2();
        let mut figures = vec![
            NamedValues {
                name: "covariance with the target",
                values: singular_values.iter().map(|value| value / n).collect(),
            },
            NamedValues {
                name: "share of the dependence",
                values: singular_values.iter().map(|v| v * v / squared_norm).collect(),
            },
        ];
        figures.extend(target_map.map(|target| NamedValues::single("features of the target", target.dims().1 as f64)));
        Ok(Solution {
            weights: directions,
            intercept,
            task: Some(Task::Components),
            certificate: state.certificate,
            figures,
            passes: 1 + target_features::sample_passes(self.target_kernel.as_ref(), data.options.task),
            ..Solution::default()
        })
    }
}

/// Computes B = Σ φ̃ψ̃ᵀ, p x t, for t target features.
fn cross_covariance(moments: &FoldGram) -> Mat<f64> {
    let (p, t, n) = (moments.s.len(), moments.sy.len(), moments.row_count as f64);
    Mat::from_fn(p, t, |i, j| moments.b[j * p + i] - moments.s[i] * moments.sy[j] / n)
}

/// Returns a bound on the rounding errors of B for uncorrelated features and targets: a multiple of
/// `epsilon` times √(Σ‖φ̃‖² Σ‖ψ̃‖²).
fn noise_level(moments: &FoldGram, epsilon: f64) -> f64 {
    let (p, n) = (moments.s.len(), moments.row_count as f64);
    let trace: f64 = (0..p).map(|i| moments.g[i * p + i] - moments.s[i] * moments.s[i] / n).sum();
    let uncentred_trace: f64 = (0..p).map(|i| moments.g[i * p + i]).sum();
    if trace <= ROUNDING_UNITS * epsilon * uncentred_trace {
        // the features are constant, so B contains only rounding errors
        return f64::INFINITY;
    }
    let target_trace: f64 = moments.yy.iter().zip(&moments.sy).map(|(yy, sy)| yy - sy * sy / n).sum();
    ROUNDING_UNITS * epsilon * (trace.max(0.0) * target_trace.max(0.0)).sqrt()
}

/// Returns the `q` largest singular values of B with their left singular vectors. Omits singular
/// values that are rounding errors.
fn leading_directions(b: MatRef<'_, f64>, q: usize, noise_level: f64) -> Result<(Vec<f64>, Mat<f64>)> {
    let (p, t) = (b.nrows(), b.ncols());
    let norm = b.norm_l2();
    if norm.is_nan() || norm <= noise_level {
        return Ok((Vec::new(), Mat::new()));
    }
    // divided by ‖B‖, so that squares do not overflow or underflow
    let scaled_b = Mat::from_fn(p, t, |i, j| b[(i, j)] / norm);
    let gram = scaled_b.transpose() * &scaled_b;
    let (squared_singular_values, vectors) = symmetric_eigen(gram.as_ref())?;
    let unscaled_directions = &scaled_b * &vectors;
    // the squared singular values have errors of ε times the largest, so singular values below √ε
    // times the largest are only rounding
    let min_singular_value = (noise_level / norm).max(f64::EPSILON.sqrt());
    let singular_value = |j: usize| squared_singular_values[j].max(0.0).sqrt();
    let leading_indices: Vec<usize> =
        (0..t).rev().take(q.min(p)).take_while(|j| singular_value(*j) > min_singular_value).collect();
    let column_norms: Vec<f64> = leading_indices.iter().map(|j| unscaled_directions.col(*j).norm_l2()).collect();
    let signs: Vec<f64> = leading_indices.iter().map(|j| sign_of_largest(unscaled_directions.as_ref(), *j)).collect();
    let directions = Mat::from_fn(p, leading_indices.len(), |i, k| {
        signs[k] * unscaled_directions[(i, leading_indices[k])] / column_norms[k]
    });
    Ok((column_norms.iter().map(|length| length * norm).collect(), directions))
}
