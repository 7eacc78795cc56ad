//! The options of a search and its memory plan.

use crate::job::{self, Fit};
use crate::prepare::stage_plans::{REMEDY_LOWER_RANK, plan_solve, select_pass_shape};
use crate::request::{MetricForm, MetricSource, PassShape, ProblemSize, Resources, TrainOptions};
use crate::solver::{parameter, ridge};
use crate::{Error, FoldSpec, Intercept, Result, RidgeGrid, Task, metric, prepare::target_counts};
use kapprox::{Real, kernel::Kernel};
use kstore::{MemoryPlan, SelectedTable};
use std::cmp::Ordering;

/// The score that kernels are compared by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Score {
    /// Cross-validated squared error.
    #[default]
    Cv,
    /// Generalised cross-validation.
    Gcv,
    /// Centred kernel-target alignment.
    Alignment,
}

impl Score {
    /// Orders two scores, the better one first.
    pub(super) fn order(self, a: f64, b: f64) -> Ordering {
        if self == Self::Alignment { b.total_cmp(&a) } else { a.total_cmp(&b) }
    }
}

kmodel::enum_of_words!(Score, "score", "cv" => Cv, "gcv" => Gcv, "alignment" => Alignment);

/// The measure by which solvers are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SolverMeasure {
    /// Error rate, squared error, or fraction of discordant pairs.
    #[default]
    Error,
    /// Loss by which the model was fitted: the loss of quantiles, expectiles or Huber regression,
    /// or the deviance.
    #[doc(hidden)]
    Loss,
    /// 1 − area under the ROC curve of two classes.
    Auc,
    /// Mean of −ln of the probability of the true class.
    LogLoss,
    /// Mean squared error of the probabilities.
    Brier,
}

impl SolverMeasure {
    /// Returns true if the measure requires solvers with probabilities.
    pub(super) fn needs_probabilities(self) -> bool {
        matches!(self, Self::LogLoss | Self::Brier)
    }

    /// Describes an error of this measure in the units of the reports, such as `rmse 72.52` for a
    /// squared error.
    pub(super) fn describe(self, task: Task, error: f64) -> String {
        let percent = 100.0 * error;
        match (self, task) {
            (Self::Error, Task::Regression) => format!("rmse {}", four_digits(error.max(0.0).sqrt())),
            (Self::Error, Task::Ranking) => format!("wrong pairs {} %", four_digits(percent)),
            (Self::Error, _) => format!("error rate {} %", four_digits(percent)),
            (Self::Auc, _) => format!("auc {}", four_digits(1.0 - error)),
            (Self::Loss | Self::LogLoss | Self::Brier, _) => format!("{self} {}", four_digits(error)),
        }
    }
}

kmodel::enum_of_words!(SolverMeasure, "measure", "error" => Error, "loss" => Loss, "auc" => Auc, "log-loss" => LogLoss, "brier" => Brier);

/// Formats a positive number with four significant digits.
fn four_digits(value: f64) -> String {
    if (1e-3..1e6).contains(&value) {
        let decimals = (3 - value.log10().floor() as i32).max(0) as usize;
        return format!("{value:.decimals$}");
    }
    if value == 0.0 { "0".to_string() } else { format!("{value:.3e}") }
}

/// The options of a search, which define the result for given rows.
#[derive(Clone, Debug)]
pub struct TuneOptions {
    /// Ranks, folds, map and landmarks; its kernel is ignored.
    pub train_options: TrainOptions,
    /// True to replace random folds by contiguous ones if consecutive rows have correlated targets.
    pub may_use_blocks: bool,
    /// True to sample whole groups (the groups of the folds), because a ranking compares the rows
    /// of a group.
    pub samples_whole_groups: bool,
    /// Lambdas, ascending.
    pub lambdas: Vec<f64>,
    /// Treatment of the intercept.
    pub intercept: Intercept,
    /// Kernels to compare. Length scales that are not numbers are computed from the sample.
    pub kernels: Vec<Kernel>,
    /// Sums of kernels that are tried in addition if a regression uses the exact kernel. The
    /// weights and the length scales of their terms maximise the marginal likelihood.
    pub kernel_sums: Vec<Kernel>,
    /// Kernels, without a metric, of the exact SVMs that are tried in addition if two classes
    /// hardly overlap; empty if the caller names the kernels or the metric.
    pub rough_kernels: Vec<Kernel>,
    /// Number of fits whose mean is tried; their kernels are the sums with the best likelihood.
    pub member_count: usize,
    /// Factors that the length scales of each kernel are multiplied by.
    pub factors: Vec<f64>,
    /// Score by which kernels are compared.
    pub score: Score,
    /// Measure by which solvers are compared. `None` selects the loss of the models if they have
    /// one. If one of two classes is rare, `None` selects the log loss, or the AUC if the solver is
    /// named, because that solver may have no probabilities. Otherwise it selects the error.
    pub measure: Option<SolverMeasure>,
    /// Fold of the test rows, for a search of an outer fold; `None` for the default test fold.
    pub test_fold: Option<usize>,
    /// Maximum number of rows of the sample. Every comparison of the successive halving (a rung)
    /// takes its rows from this sample.
    pub max_sample_rows: usize,
}

impl TuneOptions {
    /// Returns the options of a search for what `fit` leaves open: its kernel and parameters.
    /// `selected` is the selection of `fit` in its open files. Ranks, folds, lambdas and landmarks
    /// are those of the [`ridge_surrogate`] of `fit`. The kernels are `requested_kernels`; without
    /// requested kernels, they are the default kernels for these rows. Factors and measure have
    /// their defaults.
    ///
    /// # Errors
    /// Solver parameters that do not parse, and kernels on columns that do not exist.
    pub fn new(
        fit: &Fit,
        score: Score,
        requested_kernels: Option<&[Kernel]>,
        max_sample_rows: usize,
        selected: &SelectedTable,
    ) -> Result<Self> {
        let surrogate = ridge_surrogate(fit, score)?;
        let ridge = ridge::Ridge::new(surrogate.settings()?);
        let kernels = match requested_kernels {
            Some(named) => named.iter().map(|kernel| job::kernel_for(kernel, selected)).collect::<Result<_>>()?,
            None => default_kernels(selected)?,
        };
        let learns_default_metric = surrogate.metric_source() == &MetricSource::Learned(MetricForm::DiagonalOrFull);
        let chooses_kernels = requested_kernels.is_none() && learns_default_metric;
        let parse_default = |texts: &[&str]| {
            let texts = texts.iter().filter(|_| chooses_kernels);
            texts.map(|text| Kernel::parse(text)).collect::<kapprox::Result<Vec<Kernel>>>()
        };
        Ok(Self {
            train_options: surrogate.train_options(selected)?,
            may_use_blocks: !surrogate.has_option("folds"),
            samples_whole_groups: fit.task()? == Task::Ranking,
            lambdas: ridge.lambdas,
            intercept: ridge.intercept,
            kernels,
            kernel_sums: parse_default(&KERNEL_SUMS)?,
            rough_kernels: parse_default(&ROUGH_KERNELS)?,
            member_count: DEFAULT_MEMBERS,
            factors: crate::grids::parse_factors(DEFAULT_FACTORS)?,
            score,
            measure: None,
            test_fold: None,
            max_sample_rows,
        })
    }
}

/// Default kernels: a smooth kernel, two rough kernels, and the Laplacian kernel, a product over
/// the features, for targets with steps along single features.
const DEFAULT_KERNELS: [&str; 4] = ["gaussian()", "exponential()", "matern(nu=1.5)", "laplacian()"];

/// Kernels and sums with smooth and rough parts, on the scaled features and on their quantile
/// scores.
const KERNEL_SUMS: [&str; 8] = [
    "gaussian()",
    "matern(nu=1.5)",
    "gaussian() + matern(nu=1.5)",
    "matern(nu=1.5) + laplacian()",
    "laplacian() + laplacian(scale=quantile)",
    "gaussian() + laplacian(scale=quantile)",
    "matern(nu=1.5) + laplacian() + laplacian(scale=quantile)",
    "matern(nu=1.5) + matern(nu=1.5, scale=quantile) + laplacian()",
];

/// Kernels that represent small details of the boundary between classes.
const ROUGH_KERNELS: [&str; 2] = ["laplacian()", "exponential()"];

/// Default number of fits whose mean is tried.
pub(super) const DEFAULT_MEMBERS: usize = 3;

/// Returns the default kernels. If the rows have a date, the relation of the other features to the
/// target may change within days, so the second kernel gives the date a length scale of its own.
fn default_kernels(selected: &SelectedTable) -> Result<Vec<Kernel>> {
    let names = selected.feature_names();
    let date_columns =
        selected.encoding().into_iter().flat_map(|encoding| encoding.columns()).filter(|column| column.is_date());
    let date_kernels = date_columns.take(1).filter(|_| names.len() > 1).map(|date| {
        let name = date.name.replace('"', "\"\"");
        format!("(exponential(on=\"{name}\")+gaussian(on=\"{name}\"))*gaussian(on=\"!{name}\")")
    });
    let mut texts: Vec<String> = DEFAULT_KERNELS.map(String::from).to_vec();
    date_kernels.for_each(|text| texts.insert(1, text));
    texts.iter().map(|text| Ok(Kernel::parse(text)?.resolve_columns(&names)?)).collect()
}

/// Default factors of the length scales, used if no metric is learned.
const DEFAULT_FACTORS: &str = "0.25..4";

/// Returns a fit with a feature map, by which kernels are compared. If `fit` is a ridge regression,
/// or if the score is the alignment, which needs no solver, returns `fit` with the default map
/// instead of the exact kernel. For any other solver, returns a ridge regression with the folds of
/// `fit`.
///
/// # Errors
/// Solver parameters that do not parse.
pub fn ridge_surrogate(fit: &Fit, score: Score) -> Result<Fit> {
    if fit.family().name == ridge::FAMILY.name || score == Score::Alignment {
        return Ok(fit.clone().with_approximate_map());
    }
    // rows of a group are held out together
    let settings = fit.settings()?;
    let default_folds = settings.column(&parameter::GROUP).map(|_| FoldSpec::DEFAULT);
    let folds = settings
        .folds(&parameter::FOLDS)
        .or(default_folds)
        .map(|folds| settings.folds_of_whole_groups(folds))
        .transpose()?;
    let task = if fit.task()? == Task::Classification { "classification" } else { "regression" };
    let ridge = fit.for_solver(ridge::FAMILY.name)?.with_approximate_map().set("task", task);
    Ok(match folds {
        Some(folds) => ridge.set("folds", folds),
        None => ridge,
    })
}

pub(super) fn check(options: &TuneOptions, input_count: usize) -> Result<()> {
    let train_options = &options.train_options;
    train_options.check()?;
    if train_options.tolerance.is_some() {
        return Err(Error::option("tolerance", "a tolerance", "the search compares `ranks` instead; leave it out"));
    }
    if let Some(factor) = options.factors.iter().find(|factor| !(factor.is_finite() && **factor > 0.0)) {
        return Err(Error::option(
            "factors",
            kstore::display::format_number(*factor),
            "expected a positive factor of the length scale",
        ));
    }
    if options.kernels.is_empty() || options.factors.is_empty() {
        return Err(Error::option("kernels", "", "name a kernel to try, and a factor of its length scale"));
    }
    for kernel in &options.kernels {
        kernel.check_input_count(options.train_options.metric.output_count(input_count))?;
    }
    if options.score == Score::Cv && matches!(train_options.folds, crate::FoldSpec::None) {
        return Err(Error::option("score", "cv", "it needs folds; use `folds` 5, or `score` gcv"));
    }
    if let Some(measure) =
        options.measure.filter(|measure| *measure != SolverMeasure::Error && train_options.task == Task::Regression)
    {
        let why = "it compares classifiers, but the target is numeric (regression); leave it out, or set `task` classification";
        return Err(Error::option("measure", measure, why));
    }
    Ok(())
}

/// Returns the pass shape for the largest sample, the bytes of the largest stage, and whether the
/// plan leaves memory to refine the best kernels. Returns an error if the search exceeds the
/// memory.
pub(super) fn plan<T: Real>(
    selected: &SelectedTable,
    options: &TuneOptions,
    resources: &Resources<'_>,
) -> Result<(PassShape, usize, bool)> {
    let (t, fold_count) = target_counts::count_targets_and_folds(selected, &options.train_options, resources)?;
    let fold_count = if options.may_use_blocks { fold_count.max(metric::BLOCK_COUNT) } else { fold_count };
    let fold_count = if options.score == Score::Cv { fold_count } else { 1 };
    let train_options = TrainOptions { candidates: Some(options.max_sample_rows), ..options.train_options.clone() };
    let mut size =
        ProblemSize::from_selected::<T>(selected, &train_options, resources.workers.threads(), t, fold_count)?;
    // every row of the sample is a candidate, and already in memory
    size.candidate_count = None;
    let row_count = usize::try_from(size.n).unwrap_or(usize::MAX).min(options.max_sample_rows);
    let grid = RidgeGrid {
        ranks: train_options.ranks.clone(),
        lambdas: options.lambdas.clone(),
        intercept: options.intercept,
        target_centre: vec![0.0; t],
    };
    size.n = row_count as u64;
    let plan_solver = |pass_shape: PassShape| {
        plan_solve(&size, pass_shape, resources.memory).term(
            "system and its factor",
            grid.solve_bytes(size.map.p),
            REMEDY_LOWER_RANK,
        )
    };
    let (pass_shape, plans) = select_pass_shape(&size, &plan_solver, resources.memory);
    // eight copies: at most two searches, with different scalings, are in memory. Each of them
    // stores the sample three times (`trials`, `sample` and `sample_rows` of `KernelSearch`), and
    // the rows of a rung or a trial
    let sample_bytes = row_count.saturating_mul(8 * (size.d * size.element_bytes + 40) + 80 * (t + 1));
    let add_sample_term = |plan: MemoryPlan| plan.term("sampled rows", sample_bytes, "lower `sample`");
    let mut plans: Vec<MemoryPlan> = plans.into_iter().map(add_sample_term).collect();
    let mut refines = false;
    if let MetricSource::Learned(_) = train_options.metric {
        let plan_metric = |rank: usize| {
            metric::learning_plan::<T>(&train_options, rank, &size, resources.memory).map(add_sample_term)
        };
        plans.push(plan_metric(metric::ROUND_RANK)?);
        let refined_plan = plan_metric(metric::REFINED_RANK)?;
        // refine only with at most twice as many landmarks as the model has: length scales that are
        // learned with more landmarks are too small for the model
        refines = 2 * train_options.rank >= metric::REFINED_RANK
            && row_count > metric::ROUND_RANK
            && refined_plan.bytes() <= resources.memory;
        plans.extend(refines.then_some(refined_plan));
    }
    Ok((pass_shape, target_counts::check_plans(plans)?, refines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_units_of_the_reports() {
        let describe = SolverMeasure::describe;
        assert_eq!(describe(SolverMeasure::Error, Task::Regression, 5258.5), "rmse 72.52");
        assert_eq!(describe(SolverMeasure::Error, Task::Regression, 0.0), "rmse 0");
        assert_eq!(describe(SolverMeasure::Error, Task::Classification, 0.03125), "error rate 3.125 %");
        assert_eq!(describe(SolverMeasure::Auc, Task::Classification, 0.25), "auc 0.7500");
        assert_eq!(describe(SolverMeasure::LogLoss, Task::Classification, 1e-7), "log-loss 1.000e-7");
    }
}
