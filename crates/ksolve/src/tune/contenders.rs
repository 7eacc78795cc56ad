//! The contenders of a search: solvers, each with kernels, metrics and regularisation parameters.

use super::contest::{Contender, ContenderReport, format_lambda};
use super::{Kernel, KernelSearchResult, SolverMeasure, series_kernel};
use crate::job::Fit;
use crate::request::{MetricForm, MetricSource};
use crate::solver::{Solver, parameter, svm};
use crate::{Result, folds::FoldSpec};
use std::ops::RangeInclusive;

/// The solver name that selects all solvers of the target's task.
pub const ANY_SOLVER: &str = "any";

/// Regularisation parameters that are compared for solvers that take a single parameter; the
/// default is first.
const CONTEST_LAMBDAS: [f64; 4] = [1e-6, 1e-5, 1e-7, 1e-4];

/// Numbers k of classes for which one-vs-one classifiers are tried. Below 3 there is a single pair;
/// the upper end bounds the number k(k − 1)/2 of classifiers.
const ONE_VS_ONE_CLASSES: RangeInclusive<usize> = 3..=10;

/// Returns the contenders after a search: `solver`, or for [`ANY_SOLVER`] every solver of the task.
/// If the fit does not set the regularisation parameter, each solver competes with several
/// parameters. Each contender uses the learned metric; for [`ANY_SOLVER`], a copy of each contender
/// competes without the metric. If there are `series_kernels`, each of them competes too. Then, and
/// for few rows with classes, the trials learn the metric again without their fold: a metric that
/// was learned on all folds tells too small errors on other blocks of a series, and on few rows.
pub(super) fn contenders(
    solver: &str,
    base: &Fit,
    search_result: &KernelSearchResult,
    series_kernels: Vec<Kernel>,
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
    let kernels: Vec<_> = plain_candidate.into_iter().chain(series_candidates).chain([best_candidate]).collect();
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
            contenders("ridge", &Fit::ridge(), &search_result, series_kernels, SolverMeasure::Error).unwrap()
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
}
