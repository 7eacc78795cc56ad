//! The contenders of a search: solvers, each with kernels, metrics and regularisation parameters.

use super::{Kernel, KernelSearchResult, SolverMeasure, series_kernel};
use crate::grids::half_decade;
use crate::job::Fit;
use crate::request::{MetricForm, MetricSource};
use crate::solver::{Solver, SolverProperties, parameter, svm};
use crate::{Result, folds::FoldSpec};
use kapprox::metric::Metric;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The solver name that selects all solvers of the target's task.
pub const ANY_SOLVER: &str = "any";

/// Regularisation parameters that are compared for solvers that take a single parameter; the
/// default is first.
const CONTEST_LAMBDAS: [f64; 4] = [1e-6, 1e-5, 1e-7, 1e-4];

/// Name, in the reports, of the metric of a sum of kernels that was learned by likelihood.
pub(super) const LIKELIHOOD_FORM: &str = "likelihood";

/// Numbers k of classes for which one-vs-one classifiers are tried. Below 3 there is a single pair;
/// the upper end bounds the number k(k − 1)/2 of classifiers.
const ONE_VS_ONE_CLASSES: RangeInclusive<usize> = 3..=10;

/// Numbers of half decades by which the grid of regularisation parameters extends below and above
/// the likely range.
const STEPS_BELOW: i64 = 2;
const STEPS_ABOVE: i64 = 1;

/// Exponent of the smallest regularisation parameter in a grid, in half decades: −18 stands for
/// 1e-9.
const MIN_LAMBDA_STEP: i64 = -18;

/// Exponent of a regularisation parameter for which a Cholesky factor in f32 usually exists, in
/// half decades: −12 stands for 1e-6.
const SAFE_LAMBDA_STEP: i64 = -12;

/// A solver with a regularisation parameter that competes in a contest.
#[derive(Clone)]
pub(super) struct Contender {
    /// Solver without its regularisation parameter: `svm, one-vs-one`.
    pub(super) name: String,
    /// Fit at the requested ranks.
    pub(super) fit: Fit,
    /// Fit that learns the metric for the trials, each from its own training rows; `None` if the
    /// trials use the metric of `fit`.
    pub(super) trial_fit: Option<Fit>,
    /// Regularisation parameter of this contender; `None` for solvers that compare several
    /// themselves.
    pub(super) lambda: Option<f64>,
    pub(super) report: ContenderReport,
}

/// The report of a contender.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct ContenderReport {
    /// Solver with the parameters that were tried: `svm, lambda 1e-5`.
    pub solver: String,
    /// Kernel with numeric parameters.
    pub kernel: String,
    /// Metric: none, given, full, diagonal, low-rank(5); or half diagonal, for a series.
    pub metric: String,
    /// Errors on the folds, in the compared measure; lower is better.
    pub errors: Vec<f64>,
    /// Log-losses on the same folds if the solver has probabilities.
    #[serde(skip)]
    pub(super) log_losses: Vec<f64>,
    /// Mean of the errors; `None` if a fit failed.
    pub mean: Option<f64>,
    /// Standard deviation of the errors over folds; `None` for a single fold.
    pub spread: Option<f64>,
    /// Reason of a failed fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// True for the winner.
    pub chosen: bool,
    /// Reason why the contender won although its mean is not the lowest; `None` otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Contender {
    pub(super) fn metric(&self) -> Option<&Arc<Metric>> {
        self.fit.metric.provided()
    }

    /// Returns the contender with its regularisation parameter converted from trials on
    /// `trial_rows` rows to a fit on `fit_rows` rows.
    ///
    /// With a feature map, lambda is proportional to 1/√n. This is the optimal rate for a function
    /// in the reproducing kernel Hilbert space (Caponnetto, De Vito, "Optimal rates for the
    /// regularized least-squares algorithm", 2007). With the exact kernel, lambda·n stays constant:
    /// it is the noise variance of a Gaussian process.
    ///
    /// If the contender cross-validates its own lambdas, it gets a small grid around
    /// `tested_lambda`, the best lambda of the test fit, instead of the full grid: each lambda
    /// costs a factorisation in every fold. An exact fit without lambda learns it by likelihood.
    pub(super) fn rescale_lambda(self, trial_rows: u64, fit_rows: u64, tested_lambda: Option<f64>) -> Self {
        let row_fraction = (trial_rows.max(1) as f64 / fit_rows.max(1) as f64).min(1.0);
        let factor = if self.fit.requested_map().is_exact_kernel() { row_fraction } else { row_fraction.sqrt() };
        let lambda = self.lambda.map(|lambda| lambda * factor);
        let lambda_grid = tested_lambda
            .filter(|_| !self.fit.sets_regularisation() && !self.fit.requested_map().is_exact_kernel())
            .map(|tested| lambda_grid_around(tested, row_fraction));
        let fit = match lambda.map(format_lambda).or(lambda_grid) {
            Some(lambdas) => self.fit.set(parameter::LAMBDA.name, lambdas),
            None => self.fit,
        };
        Self { fit, lambda, ..self }
    }

    /// Returns the same solver and regularisation parameter with the best kernel without a metric;
    /// `None` if no metric was learned.
    pub(super) fn without_metric(&self, search_result: &KernelSearchResult) -> Result<Option<Self>> {
        let has_metric = self.fit.metric.provided().is_some();
        let Some(kernel) = search_result.best_without_metric().filter(|_| has_metric) else { return Ok(None) };
        let kernel = Kernel::parse(kernel)?;
        let report = ContenderReport::new(self.report.solver.clone(), &kernel, "none");
        let fit = self.fit.clone().kernel(kernel).metric(MetricSource::None);
        Ok(Some(Self { name: self.name.clone(), fit, trial_fit: None, lambda: self.lambda, report }))
    }

    /// Makes this contender the winner instead of `previous_winner`, and records it and `why` in
    /// the reports.
    pub(super) fn replace_winner(
        mut self,
        previous_winner: &Self,
        reports: &mut Vec<ContenderReport>,
        why: Option<String>,
    ) -> Self {
        for report in reports.iter_mut().filter(|report| **report == previous_winner.report) {
            (report.chosen, report.why) = (false, None);
        }
        (self.report.chosen, self.report.why) = (true, why.clone());
        let is_same = |report: &&mut ContenderReport| {
            (&report.solver, &report.kernel, &report.metric)
                == (&self.report.solver, &self.report.kernel, &self.report.metric)
        };
        match reports.iter_mut().find(is_same) {
            Some(report) => {
                (report.chosen, report.why) = (true, why);
                self.report = report.clone();
            }
            None => reports.push(self.report.clone()),
        }
        self
    }
}

impl ContenderReport {
    pub(super) fn new(solver: String, kernel: &Kernel, metric: &str) -> Self {
        Self { solver, kernel: kernel.to_string(), metric: metric.to_string(), ..Self::default() }
    }

    /// Returns false if the search ended before this contender was tried.
    pub fn was_tried(&self) -> bool {
        !self.errors.is_empty() || self.problem.is_some()
    }

    pub(super) fn add_error(&mut self, error: f64, log_loss: Option<f64>) {
        self.errors.push(error);
        self.log_losses.extend(log_loss);
        let n = self.errors.len() as f64;
        let mean = self.errors.iter().sum::<f64>() / n;
        let squared_deviation_sum: f64 = self.errors.iter().map(|error| (error - mean).powi(2)).sum();
        self.mean = Some(mean);
        self.spread = (self.errors.len() > 1).then(|| (squared_deviation_sum / (n - 1.0)).sqrt());
    }
}

/// Returns the contenders after a search: `solver`, or for [`ANY_SOLVER`] every solver of the task.
/// If the fit does not set the regularisation parameter, each solver competes with several
/// parameters. Each contender uses the learned metric; for [`ANY_SOLVER`], a copy of each contender
/// competes without the metric. A `kernel_sum` that was learned by likelihood competes too, and if
/// there are `series_kernels`, each of them. Then, and
/// for few rows with classes, the trials learn the metric again without their fold: a metric that
/// was learned on all folds tells too small errors on other blocks of a series, and on few rows.
pub(super) fn contenders(
    solver: &str,
    base: &Fit,
    search_result: &KernelSearchResult,
    series_kernels: Vec<Kernel>,
    kernel_sum: Option<Kernel>,
    measure: SolverMeasure,
) -> Result<Vec<Contender>> {
    let plain_kernel = search_result
        .best_without_metric()
        .filter(|_| search_result.metric.is_some() && solver == ANY_SOLVER)
        .map(Kernel::parse);
    let plain_candidate = plain_kernel.transpose()?.map(|kernel| (kernel, MetricSource::None, "none"));
    let is_relearned = !series_kernels.is_empty() || search_result.has_optimistic_metrics;
    let relearned_form: Option<MetricForm> = search_result.form.parse().ok().filter(|_| is_relearned);
    let series_candidates = series_kernels.into_iter().map(|kernel| (kernel, MetricSource::None, series_kernel::FORM));
    let best_candidate = (search_result.kernel.clone(), search_result.metric_source(), search_result.form.as_str());
    let sum_candidate = kernel_sum.map(|kernel| (kernel, MetricSource::None, LIKELIHOOD_FORM));
    let kernels: Vec<_> =
        plain_candidate.into_iter().chain(sum_candidate).chain(series_candidates).chain([best_candidate]).collect();
    let mut contenders = Vec::new();
    for (fit, lambda, name) in solver_fits(solver, base, search_result, measure)? {
        // interleaved, so that a search that ends early has tried the solver with all kernels
        for (kernel, metric, form) in &kernels {
            // of the kernel of a series, the report names the half without a metric
            let named_kernel = if *form == series_kernel::FORM { kernel.terms().pop() } else { None };
            let report =
                ContenderReport::new(solver_label(&name, lambda), named_kernel.as_ref().unwrap_or(kernel), form);
            let trial_fit = relearned_form.filter(|_| metric.provided().is_some()).map(|form| {
                fit.clone().kernel(search_result.requested_kernel.clone()).metric(MetricSource::Learned(form))
            });
            let fit = fit.clone().kernel(kernel.clone()).metric(metric.clone());
            contenders.push(Contender { name: name.clone(), fit, trial_fit, lambda, report });
        }
    }
    Ok(contenders)
}

/// Returns fits, each with a solver, a regularisation parameter and a name: first every solver with
/// its first parameter, then every solver with its second parameter, and so on.
fn solver_fits(
    solver: &str,
    base: &Fit,
    search_result: &KernelSearchResult,
    measure: SolverMeasure,
) -> Result<Vec<(Fit, Option<f64>, String)>> {
    let names = match (solver, search_result.classes) {
        (ANY_SOLVER, 0) => vec!["ridge"],
        (ANY_SOLVER, _) if measure.needs_probabilities() => vec!["logistic", "svm"],
        (ANY_SOLVER, _) => vec!["logistic", "ridge", "svm"],
        (name, _) => vec![name],
    };
    let mut fits_by_solver = Vec::new();
    for name in names {
        let fit = if base.family().name == name { base.clone() } else { base.for_solver(name)? };
        // a solver that cross-validates ranks and lambdas uses the folds of the kernel search,
        // which already compared lambdas on them
        let has_surface = fit.family().reads(&parameter::RANKS);
        let fit = if has_surface && search_result.folds != FoldSpec::None {
            fit.set(parameter::FOLDS.name, &search_result.folds)
        } else {
            fit
        };
        let is_lambda_free = fit.family().reads(&parameter::LAMBDA) && !fit.sets_regularisation();
        let lambdas: &[f64] = if is_lambda_free && !has_surface { &CONTEST_LAMBDAS } else { &[] };
        let adds_probabilities =
            solver == ANY_SOLVER && measure.needs_probabilities() && fit.family().reads(&parameter::PROBABILITIES);
        let fit = if adds_probabilities { fit.set(parameter::PROBABILITIES.name, true) } else { fit };
        // one-vs-one classifiers have no probabilities
        let tries_one_vs_one = solver == ANY_SOLVER
            && !adds_probabilities
            && fit.family().reads(&svm::MULTICLASS)
            && ONE_VS_ONE_CLASSES.contains(&search_result.classes);
        for is_one_vs_one in [false, true].into_iter().filter(|pairs| tries_one_vs_one || !pairs) {
            let mut variants = Vec::new();
            let fit = if is_one_vs_one { fit.clone().set(svm::MULTICLASS.name, svm::ONE_VS_ONE) } else { fit.clone() };
            let label = if is_one_vs_one { format!("{name}, one-vs-one") } else { name.to_string() };
            let with_lambda =
                |lambda: &f64| (fit.clone().set(parameter::LAMBDA.name, lambda), Some(*lambda), label.clone());
            variants.extend(lambdas.iter().map(with_lambda));
            variants.extend(lambdas.is_empty().then(|| (fit.clone(), None, label.clone())));
            fits_by_solver.push(variants);
        }
    }
    let max_variants = fits_by_solver.iter().map(Vec::len).max().unwrap_or(0);
    Ok((0..max_variants)
        .flat_map(|i| fits_by_solver.iter().filter_map(move |variants| variants.get(i).cloned()))
        .collect())
}

/// Returns the properties of the solver with its current parameters.
pub(super) fn properties(fit: &Fit) -> Result<SolverProperties> {
    Ok(Solver::<f64>::properties(&*fit.family().build_solver(fit.settings()?)?))
}

/// Returns true if the solver predicts probabilities with its current parameters.
pub(super) fn has_probabilities(fit: &Fit) -> Result<bool> {
    Ok(Solver::<f64>::has_probabilities(&*fit.family().build_solver(fit.settings()?)?))
}

/// Returns the solver with its regularisation parameter: `svm, lambda 1e-5`.
pub(super) fn solver_label(name: &str, lambda: Option<f64>) -> String {
    lambda.map_or(name.to_string(), |lambda| {
        let exact = format_lambda(lambda);
        // three digits for a value such as 1.0000000000000002e-6
        format!("{name}, lambda {}", if exact.len() <= 8 { exact } else { format!("{lambda:.2e}") })
    })
}

/// Returns a grid of likely regularisation parameters for all rows, two per decade, given that
/// `lambda` was best on the fraction `row_fraction` of the rows. The best lambda is proportional to
/// 1/√n or to 1/n, and the grid covers both cases. The grid extends further down than up, because
/// the higher rank of the final fit tends to need a smaller lambda.
fn lambda_grid_around(lambda: f64, row_fraction: f64) -> String {
    let nearest_half_decade = |lambda: f64| (2.0 * lambda.max(f64::MIN_POSITIVE).log10()).round() as i64;
    // below `MIN_LAMBDA_STEP`, the factorisation in f32 fails, and it often fails at
    // `MIN_LAMBDA_STEP` itself
    let min_step = (nearest_half_decade(lambda * row_fraction) - STEPS_BELOW).max(MIN_LAMBDA_STEP);
    let max_step = (nearest_half_decade(lambda * row_fraction.sqrt()) + STEPS_ABOVE).max(SAFE_LAMBDA_STEP);
    format!("{}..{}", format_lambda(half_decade(min_step)), format_lambda(half_decade(max_step)))
}

/// Returns a regularisation parameter in scientific notation: `1e-5`.
pub(super) fn format_lambda(lambda: f64) -> String {
    format!("{lambda:e}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Scaling;
    use kapprox::metric::Metric;
    use std::sync::Arc;

    #[test]
    fn trials_of_few_rows_or_a_series_learn_the_metric_again() {
        let [kernel, half] = ["gaussian(sigma=2)", "0.5*gaussian(sigma=[1, 2]) + 0.5*gaussian(sigma=3)"]
            .map(|text| Kernel::parse(text).unwrap());
        let search_result = KernelSearchResult {
            kernel: kernel.clone(),
            requested_kernel: Kernel::parse("gaussian()").unwrap(),
            scaling: Scaling::Standard,
            metric: Some(Arc::new(Metric::diagonal(vec![2.0, 1.0]).unwrap())),
            form: "diagonal".to_string(),
            spread: None,
            rows: 100,
            folds: FoldSpec::Blocks(6),
            target_correlation: Some(0.9),
            classes: 0,
            has_optimistic_metrics: false,
            learned_rounds: Vec::new(),
            rungs: Vec::new(),
            passes: 3,
            planned_bytes: 0,
        };
        let of = |series_kernels: Vec<Kernel>, has_optimistic_metrics: bool| {
            let search_result = KernelSearchResult { has_optimistic_metrics, ..search_result.clone() };
            contenders("ridge", &Fit::ridge(), &search_result, series_kernels, None, SolverMeasure::Error).unwrap()
        };
        let [series, learned] = &of(vec![half.clone()], false)[..] else { panic!("expected two contenders") };
        assert_eq!((series.fit.requested_kernel(), series.fit.metric_source()), (&half, &MetricSource::None));
        assert_eq!((&series.report.kernel[..], &series.report.metric[..]), ("gaussian(sigma=3)", "half diagonal"));
        assert!(series.trial_fit.is_none());
        // the trials learn the length scale, too; the final fit has the metric of the search
        let trial_fit = learned.trial_fit.as_ref().unwrap();
        assert_eq!(trial_fit.metric_source(), &MetricSource::Learned(MetricForm::Diagonal));
        assert!(trial_fit.requested_kernel().needs_median() && learned.fit.requested_kernel() == &kernel);
        assert_eq!(learned.fit.metric_source(), &search_result.metric_source());
        let [many_rows] = &of(Vec::new(), false)[..] else { panic!("expected one contender") };
        assert!(many_rows.trial_fit.is_none());
        let [few_rows] = &of(Vec::new(), true)[..] else { panic!("expected one contender") };
        let learning_fit = few_rows.trial_fit.as_ref().unwrap();
        assert_eq!(learning_fit.metric_source(), &MetricSource::Learned(MetricForm::Diagonal));
    }

    #[test]
    fn lambda_falls_with_the_root_of_the_row_count() {
        let fit = Fit::solver("svm").unwrap();
        let contender_of = |fit: Fit, lambda| Contender {
            name: String::new(),
            fit,
            trial_fit: None,
            lambda,
            report: ContenderReport::default(),
        };
        let rescaled_regularisation = |fit_rows: u64| {
            contender_of(fit.clone(), Some(1e-4))
                .rescale_lambda(100, fit_rows, None)
                .fit
                .settings()
                .unwrap()
                .strongest_regularisation()
        };
        assert_eq!(rescaled_regularisation(10_000), crate::solver::Regularisation::Lambda(1e-5));
        // it does not rise for fewer rows
        assert_eq!(rescaled_regularisation(25), crate::solver::Regularisation::Lambda(1e-4));
        // with the exact kernel it falls in proportion to the rows
        let exact = contender_of(fit.clone().with_exact_kernel().unwrap(), Some(1e-4)).rescale_lambda(100, 200, None);
        assert_eq!(exact.lambda, Some(5e-5));
        assert_eq!(
            exact.fit.settings().unwrap().strongest_regularisation(),
            crate::solver::Regularisation::Lambda(5e-5)
        );
        // a cross-validated grid covers both rules, plus one decade below and half a decade above
        let ridge = contender_of(Fit::solver("ridge").unwrap(), None).rescale_lambda(100, 10_000, Some(1e-4));
        let lambdas = crate::solver::ridge::Ridge::new(ridge.fit.settings().unwrap()).lambdas;
        assert_eq!((lambdas.len(), lambdas[0], lambdas[5]), (6, 1e-7, 3.1622776601683795e-5));
        let with_c = contender_of(fit.clone().set("C", 3), None);
        assert_eq!(
            with_c.rescale_lambda(100, 10_000, None).fit.settings().unwrap().strongest_regularisation(),
            crate::solver::Regularisation::C(3.0)
        );
    }
}
