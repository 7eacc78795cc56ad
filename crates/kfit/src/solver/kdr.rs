//! Kernel dimension reduction by gradients: the linear combinations of the columns on which a
//! target depends.
//!
//! Suppose y depends on x only through Uᵀx for a few directions U. Then for any features ψ of the
//! target the function x ↦ E[ψ(y) | x] varies along these directions only. Ridge regression of ψ on
//! the features φ of the rows estimates this function f. The average outer product of the gradients
//! of f gives the directions:
//!
//! ```text
//! W = (ΦᵀΦ + n lambda I)⁻¹ ΦᵀΨ,      f(x) = Wᵀφ(x)
//! M = (1/n) Σ_i J_i J_iᵀ,            J_i = ∂f(x_i)/∂x, d x t
//! U = the leading eigenvectors of M
//! ```
//!
//! Here Φ (n x p) and Ψ (n x t) hold the features of the rows and of the targets. If all rows are
//! landmarks, M = (1/n) Σ_i D_iᵀ (K + n lambda I)⁻¹ L (K + n lambda I)⁻¹ D_i. The n x d matrix D_i
//! holds the gradients of k(x_l, ·) at x_i, and L is the kernel matrix of the targets. The target
//! features are the same as in `spca`: `gaussian()`, the default for regression, captures
//! dependence of any kind. `linear()` captures only how the mean of the target depends on x.
//! Classes use `delta()`.
//!
//! The model stores the projection x ↦ Uᵀx of the scaled rows as its [metric](kapprox::metric), and
//! predicts the coordinates Uᵀx. Any other solver can use the projection as its `metric`. M_jj is
//! the mean square of the slope along column j, and measures the importance of the column. Signs:
//! the largest entry of each direction is positive.
//!
//! *Passes*: two, and one for the sample of the targets. *Flops*: the flops of the map, np² + 2npt
//! for the moments, and 5nmdt for the gradients, with p features, t target features and m
//! landmarks. *Bytes*: about 3p² + 4pt + d² numbers.
//!
//! References: Fukumizu, Leng, "Gradient-based kernel dimension reduction for regression", JASA
//! 109, 2014; Mukherjee, Zhou, "Learning coordinate covariances via gradients", JMLR 7, 2006.

use super::parameter::{COMPONENTS, EMBEDDING_COMPONENTS, LAMBDA, TASK, TOLERANCE};
use super::target_features::{self, TARGET_KERNEL};
use super::{
    NamedValues, Projection, Regularisation, Settings, Solution, Solver, SolverFamily, SolverProperties, gradients,
    reject_if,
};
use crate::features::FitData;
use crate::linalg::eigen::sign_of_largest;
use crate::model::Basis;
use crate::request::{FitRequest, MetricSource, PassShape, ProblemSize, TrainOptions};
use crate::solver::gradient_products::OuterProductSums;
use crate::{Error, FoldGram, Result, Task};
use faer::{Mat, MatRef, Side, prelude::*};
use kapprox::{FeatureMap, Kernel, Real, decompose::symmetric_eigen, landmark::NO_ROW, metric::Metric};
use kstore::MemoryPlan;
use std::sync::Arc;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "kdr",
    "kernel dimension reduction: the directions of the columns on which a target depends, and the \
        importance of each column",
    Task::Regression,
    &[TASK, EMBEDDING_COMPONENTS, TARGET_KERNEL, LAMBDA, TOLERANCE],
    |settings| Ok(Box::new(KernelDimensionReduction::new(settings)?)),
);

/// Eigenvalues below this multiple of ε times the largest eigenvalue count as 0.
const EIGENVALUE_TOLERANCE: f64 = 64.0;

#[derive(Clone, Debug)]
struct KernelDimensionReduction {
    /// Number of directions q, at most the number of columns.
    component_count: usize,
    /// Kernel on the targets. `None` for classes: their ±1 codes are equivalent to `delta()`.
    target_kernel: Option<Kernel>,
    /// Regularisation of the regression.
    penalty: Regularisation,
}

impl KernelDimensionReduction {
    fn new(settings: &Settings) -> Result<Self> {
        let target_kernel = match (settings.kernel(&TARGET_KERNEL), settings.word(&TASK)) {
            (None, word) if word != Some("classification") => Some(Kernel::parse("gaussian()")?),
            (kernel, _) => kernel,
        };
        let component_count = settings.required(&COMPONENTS, Settings::count);
        Ok(Self { component_count, target_kernel, penalty: settings.strongest_regularisation() })
    }
}

impl<T: Real> Solver<T> for KernelDimensionReduction {
    fn properties(&self) -> SolverProperties {
        SolverProperties { dense_only: true, ..SolverProperties::default() }
    }

    fn check(&self, request: &FitRequest<'_>) -> Result<()> {
        let why = "kdr learns a metric of its own; omit `metric`";
        reject_if(request.options.metric != MetricSource::None, "metric", &request.options.metric, why)?;
        gradients::check(request)?;
        target_features::check(self.target_kernel.as_ref(), request.options.task)
    }

    fn moment_columns(&self, options: &TrainOptions, t: usize) -> usize {
        target_features::moment_columns(self.target_kernel.as_ref(), options.task, t)
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, pass_shape: PassShape) -> MemoryPlan {
        // two classes have two indicators but one code
        let (p, t) = (size.map.p, size.moment_columns + 1);
        let plan = plan.term("system of the regression", 8 * (2 * p * p + 2 * p * t), "lower `rank`");
        target_features::plan(gradients::plan(plan, size, pass_shape, t), size)
    }

    fn further_passes(&self, request: &FitRequest<'_>) -> [u64; 2] {
        [target_features::sample_passes(self.target_kernel.as_ref(), request.options.task), 1]
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let kernel = gradients::differentiable_kernel(data)?;
        let map_kernel = target_features::mapped_kernel(self.target_kernel.as_ref(), data.options.task);
        let target_map = map_kernel.map(|kernel| target_features::fit_map(kernel, data)).transpose()?;
        let state = data.moments_with_targets(target_map.as_ref().map(|target| target as _))?;
        let (moments, lambda) = (&state.gram.folds()[0], self.penalty.lambda(data.n as f64));
        target_features::reject_constant_targets(moments, self.component_count)?;
        let stage = data.resources.stage_observer.start_stage("regression", None);
        let weights = solve_regression(moments, data.classes().is_some(), lambda).ok_or(Error::Indefinite {
            rank: moments.s.len(),
            lambda,
            precision: state.gram.precision(),
        })?;
        drop(stage);
        let products = gradients::outer_products(data, kernel, weights.as_ref())?;
        let _stage = data.resources.stage_observer.start_stage("eigenvectors", None);
        let (eigenvalues, vectors) = leading_directions(&products, self.component_count)?;
        let slopes = gradients::rms_slopes(&products);
        let squared_slopes: Vec<f64> = slopes.iter().map(|slope| slope * slope).collect();
        // the sum of the eigenvalues of M, which is positive
        let trace: f64 = squared_slopes.iter().sum();
        let (direction_count, d) = (eigenvalues.len(), slopes.len());
        let why = match self.component_count > d {
            true => format!("the rows have {d} columns"),
            false => "the target depends on no more directions".to_string(),
        };
        data.warn_of_fewer_components(self.component_count, direction_count, &why);
        let mut figures = vec![
            NamedValues { name: "fraction of the slopes", values: eigenvalues.iter().map(|v| v / trace).collect() },
            NamedValues { name: "slope of each column", values: slopes },
        ];
        figures.extend(target_map.map(|target| NamedValues::single("features of the target", target.dims().1 as f64)));
        let metric_rows: Vec<f64> = vectors.col_iter().flat_map(|column| column.iter().copied()).collect();
        let metric = Arc::new(Metric::matrix(&metric_rows, direction_count)?);
        let importance = squared_slopes.iter().map(|square| square / trace).collect();
        let points = (0..direction_count * direction_count)
            .map(|index| if index % (direction_count + 1) == 0 { T::ONE } else { T::ZERO })
            .collect();
        Ok(Solution {
            weights: Mat::identity(direction_count, direction_count),
            intercept: vec![0.0; direction_count],
            basis: Some(Basis::Landmarks { points, row_numbers: vec![NO_ROW; direction_count] }),
            task: Some(Task::Components),
            projection: Some(Projection { solver: FAMILY.name, metric, importance }),
            certificate: state.certificate,
            certified_ranks: vec![moments.s.len()],
            lambda: Some(lambda),
            figures,
            passes: 2 + target_features::sample_passes(self.target_kernel.as_ref(), data.options.task),
            ..Solution::default()
        })
    }
}

/// Computes W = (G + n lambda I)⁻¹ B, p x t, with G = ΦᵀΦ and B = ΦᵀΨ. For classes, Ψ has class
/// indicators instead of ±1 codes. Returns `None` if the matrix has no Cholesky factor.
fn solve_regression(moments: &FoldGram, is_classification: bool, lambda: f64) -> Option<Mat<f64>> {
    let (p, t) = (moments.s.len(), moments.sy.len());
    let b = MatRef::from_column_major_slice(&moments.b, p, t);
    let b = match (is_classification, t) {
        (false, _) => b.to_owned(),
        // one column of codes, +1 for the second class
        (true, 1) => Mat::from_fn(p, 2, |i, k| (moments.s[i] + if k == 0 { -b[(i, 0)] } else { b[(i, 0)] }) / 2.0),
        (true, _) => Mat::from_fn(p, t, |i, k| (moments.s[i] + b[(i, k)]) / 2.0),
    };
    let g = MatRef::from_column_major_slice(&moments.g, p, p);
    let ridge = moments.row_count as f64 * lambda;
    let g = Mat::from_fn(p, p, |i, j| g[(i.max(j), i.min(j))] + if i == j { ridge } else { 0.0 });
    Some(g.llt(Side::Lower).ok()?.solve(&b))
}

/// Returns the `q` leading eigenvalues of M, descending, and their directions, d x q. Omits
/// eigenvalues that are rounding errors.
fn leading_directions(products: &OuterProductSums, q: usize) -> Result<(Vec<f64>, Mat<f64>)> {
    let (sums, d) = (products.sums(), products.sums().nrows());
    let m = Mat::from_fn(d, d, |i, j| sums[(i.max(j), i.min(j))] / products.total_weight);
    let (values, vectors) = symmetric_eigen(m.as_ref())?;
    let min_eigenvalue = EIGENVALUE_TOLERANCE * f64::EPSILON * values[d - 1];
    let leading_indices: Vec<usize> =
        (0..d).rev().take(q).take_while(|j| values[*j] > min_eigenvalue && values[*j] > 0.0).collect();
    let why = "the regression is constant and has no directions; lower `lambda`, or choose another kernel";
    reject_if(leading_indices.is_empty(), COMPONENTS.name, q, why)?;
    let signs: Vec<f64> = leading_indices.iter().map(|j| sign_of_largest(vectors.as_ref(), *j)).collect();
    let vectors = Mat::from_fn(d, leading_indices.len(), |i, k| signs[k] * vectors[(i, leading_indices[k])]);
    Ok((leading_indices.iter().map(|j| values[*j]).collect(), vectors))
}
