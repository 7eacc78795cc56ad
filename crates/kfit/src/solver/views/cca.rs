//! Canonical correlation analysis: the pairs of directions in two views with the largest
//! correlation.
//!
//! ```text
//! max aᵀ C_xy b     with  aᵀ(C_xx + lambda I)a = bᵀ(C_yy + lambda I)b = 1
//! ```
//!
//! C_xx, C_xy and C_yy are the covariance matrices of the features of the two views x and y, as the
//! parent module defines. Let L_x L_xᵀ = C_xx + lambda I and L_y L_yᵀ = C_yy + lambda I be Cholesky
//! factorisations, and let L_x⁻¹ C_xy L_y⁻ᵀ = U diag(ρ) Vᵀ be a singular value decomposition. Then
//! the pairs are a_j = L_x⁻ᵀu_j and b_j = L_y⁻ᵀv_j. With as many features as rows and lambda 0,
//! every correlation would be 1, so regularisation is needed. Cross-validation chooses the lambda
//! with the largest mean held-out correlation of the pairs. The report contains the held-out
//! correlations.
//!
//! References: Hotelling, "Relations between two sets of variates", Biometrika 28, 1936; Bach,
//! Jordan, "Kernel independent component analysis", JMLR 3, 2002; Hardoon, Szedmak, Shawe-Taylor,
//! "Canonical correlation analysis", Neural Computation 16, 2004.

use super::{DirectionPairs, ViewMoments};
use crate::request::{FitRequest, PassShape, ProblemSize};
use crate::solver::parameter::{
    COMPONENTS, EMBEDDING_COMPONENTS, FOLDS, LAMBDA_GRID, Parameter, SECOND_KERNEL, SECOND_VIEW, TOLERANCE,
};
use crate::solver::{
    NamedValues, Regularisation, Settings, Solution, Solver, SolverFamily, SolverProperties, reject_if,
};
use crate::{Error, FoldSpec, GramState, Result, Task, features::FitData};
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::{Mat, MatRef, Par, Side};
use kapprox::{Real, decompose::thin_svd};
use kstore::{MemoryPlan, Workers};

pub(in crate::solver) const FAMILY: SolverFamily = SolverFamily::new(
    "cca",
    "canonical correlation analysis: the most correlated directions of two sets of columns",
    Task::Components,
    &[SECOND_VIEW, SECOND_KERNEL, EMBEDDING_COMPONENTS, CCA_LAMBDAS, FOLDS, TOLERANCE],
    |settings| Ok(Box::new(CanonicalCorrelations::new(settings)?)),
);

const CCA_LAMBDAS: Parameter = Parameter { default: Some("1e-5,1e-4,1e-3,1e-2,1e-1"), ..LAMBDA_GRID };

#[derive(Clone, Debug)]
struct CanonicalCorrelations {
    component_count: usize,
    penalties: Vec<Regularisation>,
}

impl CanonicalCorrelations {
    fn new(settings: &Settings) -> Result<Self> {
        super::require_second_view(settings)?;
        Ok(Self {
            component_count: settings.required(&COMPONENTS, Settings::count),
            penalties: settings.regularisations(),
        })
    }

    /// Returns, for each lambda, the correlations of the pairs on held-out rows, averaged over the
    /// folds. Returns nothing without folds.
    fn held_out_correlations(
        &self,
        gram: &GramState,
        second_feature_count: usize,
        lambdas: &[f64],
        workers: &Workers,
    ) -> Result<Vec<Vec<f64>>> {
        let mut sums = vec![vec![0.0; self.component_count]; lambdas.len()];
        let mut row_count = 0.0;
        super::for_each_fold(gram, second_feature_count, |train, validation| {
            let mut results: Vec<Option<Result<Vec<f64>>>> = lambdas.iter().map(|_| None).collect();
            workers.for_each(results.iter_mut().zip(lambdas).collect(), |(result, lambda)| {
                let pairs = canonical_pairs(train, self.component_count, *lambda, gram);
                *result = Some(pairs.map(|pairs| validation.correlations(&pairs, gram.epsilon())));
            });
            for (sum, result) in sums.iter_mut().zip(results.into_iter().flatten()) {
                sum.iter_mut()
                    .zip(result?)
                    .for_each(|(sum, correlation)| *sum += correlation * validation.row_count as f64);
            }
            row_count += validation.row_count as f64;
            Ok(())
        })?;
        if row_count == 0.0 {
            return Ok(Vec::new());
        }
        sums.iter_mut().flatten().for_each(|sum| *sum /= row_count);
        Ok(sums)
    }
}

/// Returns the error for a view with linearly dependent columns and a lambda below the rounding
/// error. The callers notice this when a correlation exceeds 1 or the Cholesky factorisation fails.
fn small_lambda_error(lambda: f64, gram: &GramState) -> Error {
    let why = format!(
        "columns of a view are linearly dependent, and lambda is below the rounding error of {}; raise it, leave columns out, or use \
         `precision` f64",
        gram.precision()
    );
    Error::option("lambda", lambda, why)
}

/// Returns the `q` leading pairs of directions at this lambda, or fewer if a view has fewer
/// dimensions.
fn canonical_pairs(moments: &ViewMoments, q: usize, lambda: f64, gram: &GramState) -> Result<DirectionPairs> {
    let factor = |c: &Mat<f64>| -> Result<Mat<f64>> {
        let m = Mat::from_fn(c.nrows(), c.ncols(), |i, j| c[(i, j)] + if i == j { lambda } else { 0.0 });
        Ok(m.llt(Side::Lower).map_err(|_| small_lambda_error(lambda, gram))?.L().to_owned())
    };
    let (lx, ly) = (factor(&moments.xx)?, factor(&moments.yy)?);
    let mut whitened_covariance = moments.xy.clone();
    solve_lower_triangular_in_place(lx.as_ref(), whitened_covariance.as_mut(), Par::Seq);
    solve_lower_triangular_in_place(ly.as_ref(), whitened_covariance.as_mut().transpose_mut(), Par::Seq);
    let (mut u, singular_values, mut v) = thin_svd(whitened_covariance.as_ref())?;
    let min_singular_value = super::ROUNDING_UNITS * gram.epsilon();
    // n centred rows span at most n − 1 dimensions
    let max_pairs = q.min(usize::try_from(moments.row_count.saturating_sub(1)).unwrap_or(usize::MAX));
    let pair_count = singular_values.iter().take(max_pairs).take_while(|value| **value > min_singular_value).count();
    let leading_directions = |singular_vectors: &mut Mat<f64>, l: MatRef<'_, f64>| {
        let mut directions = singular_vectors.subcols(0, pair_count).to_owned();
        solve_upper_triangular_in_place(l.transpose(), directions.as_mut(), Par::Seq);
        directions
    };
    let (a, b) = (leading_directions(&mut u, lx.as_ref()), leading_directions(&mut v, ly.as_ref()));
    Ok(DirectionPairs::with_signs(a.as_ref(), b.as_ref(), singular_values[..pair_count].to_vec()))
}

impl<T: Real> Solver<T> for CanonicalCorrelations {
    fn properties(&self) -> SolverProperties {
        SolverProperties { uses_validation_rows: true, dense_only: true, ..SolverProperties::default() }
    }

    fn check(&self, request: &FitRequest<'_>) -> Result<()> {
        let lambda_count = self.penalties.len();
        let why = "they cannot be compared without folds; add `folds` 5, or give one `lambda`";
        let lacks_folds = lambda_count > 1 && request.options.folds == FoldSpec::None;
        reject_if(lacks_folds, "lambda", format!("{lambda_count} values"), why)?;
        super::check(request)
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, _: PassShape) -> MemoryPlan {
        super::plan(plan, size, size.threads.min(self.penalties.len()).max(1))
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let gram = data.moments_by_fold()?.gram;
        let stage = data.resources.stage_observer.start_stage("singular vectors", None);
        let lambdas: Vec<f64> = self.penalties.iter().map(|penalty| penalty.lambda(data.n as f64)).collect();
        let held_out_correlations =
            self.held_out_correlations(&gram, data.second_feature_count, &lambdas, data.resources.workers)?;
        let mean = |correlations: &Vec<f64>| correlations.iter().sum::<f64>() / correlations.len().max(1) as f64;
        let best_index = (0..held_out_correlations.len())
            .max_by(|a, b| mean(&held_out_correlations[*a]).total_cmp(&mean(&held_out_correlations[*b])))
            .unwrap_or_default();
        let lambda = lambdas[best_index];
        let moments = ViewMoments::from_moments(gram.training_moments(None), data.second_feature_count)?;
        let pairs = canonical_pairs(&moments, self.component_count, lambda, &gram)?;
        super::reject_missing_pairs(&moments, &pairs, gram.epsilon(), self.component_count)?;
        if pairs.values[0] > 1.0 + super::ROUNDING_UNITS * gram.epsilon() {
            return Err(small_lambda_error(lambda, &gram));
        }
        drop(stage);
        let mut figures = vec![
            NamedValues { name: "regularised correlation", values: pairs.values.clone() },
            NamedValues { name: "correlation", values: moments.correlations(&pairs, gram.epsilon()) },
        ];
        if let Some(best_correlations) = held_out_correlations.get(best_index) {
            figures.push(NamedValues { name: "held-out correlation", values: best_correlations.clone() });
        }
        if held_out_correlations.len() > 1 {
            figures.push(NamedValues { name: "lambdas that were compared", values: lambdas });
            figures.push(NamedValues {
                name: "mean held-out correlation at each",
                values: held_out_correlations.iter().map(mean).collect(),
            });
        }
        Ok(Solution { lambda: Some(lambda), ..super::solution(data, &moments, &pairs, self.component_count, figures) })
    }
}
