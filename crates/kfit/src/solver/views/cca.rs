//! Canonical correlation analysis: the directions of two views that correlate most.
//!
//! ```text
//! max aᵀ C_xy b     with  aᵀ(C_xx + lambda I)a = bᵀ(C_yy + lambda I)b = 1
//! ```
//!
//! The pairs come from the singular vectors of L_x⁻¹ C_xy L_y⁻ᵀ = U ρ Vᵀ with L_x L_xᵀ = C_xx +
//! lambda I and L_y L_yᵀ = C_yy + lambda I: a_j = L_x⁻ᵀu_j, b_j = L_y⁻ᵀv_j. With as many features
//! as rows and lambda 0 every correlation is 1, so regularisation is needed. Cross-validation
//! chooses the lambda with the largest mean held-out correlation of the pairs, and the report
//! contains the held-out correlations.
//!
//! References: Hotelling, "Relations between two sets of variates", Biometrika 28, 1936; Bach,
//! Jordan, "Kernel independent component analysis", JMLR 3, 2002; Hardoon, Szedmak, Shawe-Taylor,
//! "Canonical correlation analysis", Neural Computation 16, 2004.

use super::{Moments, Pairs};
use crate::request::{FitRequest, PassShape, ProblemSize};
use crate::solver::parameter::{COMPONENTS, EMBEDDED, FOLDS, LAMBDAS, Parameter, TOLERANCE, WITH, WITH_KERNEL};
use crate::solver::{Figure, Found, Penalty, Settings, Solver, SolverFacts, SolverFamily, refuse};
use crate::{Error, FoldSpec, GramState, Result, Task, features::FitData};
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::{Mat, MatRef, Par, Side};
use kapprox::{Real, decompose::singular};
use kstore::{Plan, Workers};

pub(in crate::solver) const FAMILY: SolverFamily = SolverFamily::new(
    "cca",
    "canonical correlation analysis: the most correlated directions of two sets of columns",
    Task::Components,
    &[WITH, WITH_KERNEL, EMBEDDED, PENALTIES, FOLDS, TOLERANCE],
    |settings| Ok(Box::new(CanonicalCorrelations::new(settings)?)),
);

const PENALTIES: Parameter = Parameter { default: Some("1e-5,1e-4,1e-3,1e-2,1e-1"), ..LAMBDAS };

#[derive(Clone, Debug)]
struct CanonicalCorrelations {
    components: usize,
    penalties: Vec<Penalty>,
}

impl CanonicalCorrelations {
    fn new(settings: &Settings) -> Result<Self> {
        super::require_two(settings)?;
        Ok(Self { components: settings.required(&COMPONENTS, Settings::count), penalties: settings.penalties() })
    }

    fn held_out(&self, gram: &GramState, second: usize, lambdas: &[f64], workers: &Workers) -> Result<Vec<Vec<f64>>> {
        let mut sums = vec![vec![0.0; self.components]; lambdas.len()];
        let mut rows = 0.0;
        super::held_out(gram, second, |own, new| {
            let mut found: Vec<Option<Result<Vec<f64>>>> = lambdas.iter().map(|_| None).collect();
            workers.each(found.iter_mut().zip(lambdas).collect(), |(found, lambda)| {
                let pairs = pairs(own, self.components, *lambda, gram);
                *found = Some(pairs.map(|pairs| new.correlations(&pairs, gram.epsilon())));
            });
            for (sum, found) in sums.iter_mut().zip(found.into_iter().flatten()) {
                sum.iter_mut().zip(found?).for_each(|(sum, correlation)| *sum += correlation * new.rows as f64);
            }
            rows += new.rows as f64;
            Ok(())
        })?;
        if rows == 0.0 {
            return Ok(Vec::new());
        }
        sums.iter_mut().flatten().for_each(|sum| *sum /= rows);
        Ok(sums)
    }
}

/// Returns the error for a lambda that is too small for a rank-deficient view: because of rounding,
/// correlations exceed 1 or the factorisation fails.
fn rounding(lambda: f64, gram: &GramState) -> Error {
    let why = format!(
        "columns of a view are linearly dependent, and lambda is below the rounding error of {}; raise it, leave columns out, or use \
         `precision` f64",
        gram.precision()
    );
    Error::option("lambda", lambda, why)
}

/// Returns the `q` leading pairs at this lambda, fewer if a view has fewer directions.
fn pairs(moments: &Moments, q: usize, lambda: f64, gram: &GramState) -> Result<Pairs> {
    let factor = |c: &Mat<f64>| -> Result<Mat<f64>> {
        let m = Mat::from_fn(c.nrows(), c.ncols(), |i, j| c[(i, j)] + if i == j { lambda } else { 0.0 });
        Ok(m.llt(Side::Lower).map_err(|_| rounding(lambda, gram))?.L().to_owned())
    };
    let (lx, ly) = (factor(&moments.xx)?, factor(&moments.yy)?);
    let mut m = moments.xy.clone();
    solve_lower_triangular_in_place(lx.as_ref(), m.as_mut(), Par::Seq);
    solve_lower_triangular_in_place(ly.as_ref(), m.as_mut().transpose_mut(), Par::Seq);
    let (mut u, values, mut v) = singular(m.as_ref())?;
    let floor = super::NOISE * gram.epsilon();
    // the centred rows span one dimension less than their number
    let most = q.min(usize::try_from(moments.rows.saturating_sub(1)).unwrap_or(usize::MAX));
    let kept = values.iter().take(most).take_while(|value| **value > floor).count();
    let leading = |m: &mut Mat<f64>, l: MatRef<'_, f64>| {
        let mut found = m.subcols(0, kept).to_owned();
        solve_upper_triangular_in_place(l.transpose(), found.as_mut(), Par::Seq);
        found
    };
    let (a, b) = (leading(&mut u, lx.as_ref()), leading(&mut v, ly.as_ref()));
    Ok(Pairs::signed(a.as_ref(), b.as_ref(), values[..kept].to_vec()))
}

impl<T: Real> Solver<T> for CanonicalCorrelations {
    fn facts(&self) -> SolverFacts {
        SolverFacts { holds_out: true, dense: true, ..SolverFacts::default() }
    }

    fn check(&self, work: &FitRequest<'_>) -> Result<()> {
        let several = self.penalties.len();
        let why = "they cannot be compared without folds; add `folds` 5, or give one `lambda`";
        let unchosen = several > 1 && work.options.folds == FoldSpec::None;
        refuse(unchosen, "lambda", format!("{several} values"), why)?;
        super::check(work)
    }

    fn plan(&self, plan: Plan, shape: &ProblemSize, _: PassShape) -> Plan {
        super::plan(plan, shape, shape.threads.min(self.penalties.len()).max(1))
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Found<T>> {
        let gram = data.moments_of_folds()?.gram;
        let stage = data.resources.stages.stage("singular vectors", None);
        let lambdas: Vec<f64> = self.penalties.iter().map(|penalty| penalty.lambda(data.rows as f64)).collect();
        let held = self.held_out(&gram, data.second, &lambdas, data.resources.workers)?;
        let mean = |of: &Vec<f64>| of.iter().sum::<f64>() / of.len().max(1) as f64;
        let best = (0..held.len()).max_by(|a, b| mean(&held[*a]).total_cmp(&mean(&held[*b]))).unwrap_or_default();
        let lambda = lambdas[best];
        let moments = Moments::of(gram.sum(None), data.second)?;
        let pairs = pairs(&moments, self.components, lambda, &gram)?;
        super::require_pairs(&moments, &pairs, gram.epsilon(), self.components)?;
        if pairs.values[0] > 1.0 + super::NOISE * gram.epsilon() {
            return Err(rounding(lambda, &gram));
        }
        drop(stage);
        let mut figures = vec![
            Figure { name: "regularised correlation", values: pairs.values.clone() },
            Figure { name: "correlation", values: moments.correlations(&pairs, gram.epsilon()) },
        ];
        if let Some(chosen) = held.get(best) {
            figures.push(Figure { name: "held-out correlation", values: chosen.clone() });
        }
        if held.len() > 1 {
            figures.push(Figure { name: "lambdas that were compared", values: lambdas });
            figures.push(Figure { name: "mean held-out correlation at each", values: held.iter().map(mean).collect() });
        }
        Ok(Found { lambda: Some(lambda), ..super::fitted(data, &moments, &pairs, self.components, figures) })
    }
}
