//! The result of a job: a model, and the report of its fit.

use super::verdict::verdict;
use super::{Fit, Run, checkpoint};
use crate::metric::RoundReport;
use crate::solver::{Figure, Solver};
use crate::train::{self, Resources, Solved, TrainOptions, Trained};
use crate::{AnyModel, Card, Cell, Certificate, Error, Model, Result};
use kapprox::Real;
use kapprox::map::MapSpec;
use kstore::checkpoint::Journal;
use kstore::encoding::Code;
use kstore::{Label, Missing, Selected};
use std::sync::Arc;

/// The convention of every output that names a lambda.
pub const LAMBDA: &str = "lambda is per row: (1/n) sum loss + lambda |w|^2 (scikit-learn's alpha = lambda n)";

/// A trained model and its report.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fitted {
    /// The model.
    pub model: AnyModel,
    /// The report of the fit.
    pub report: FitReport,
}

impl Fitted {
    /// Writes the model, whole or not at all; see [`AnyModel::save`].
    ///
    /// # Errors
    /// Numbers that are not finite, and errors of the file system.
    pub fn save(&self, path: &std::path::Path) -> Result<()> {
        self.model.save(path)
    }
}

/// The report of a fit: what was learned, from what, and at what cost.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct FitReport {
    /// Name of the solver.
    pub solver: &'static str,
    /// Number of rows learned from.
    pub rows: u64,
    /// Number of features, d.
    pub features: usize,
    /// The columns of categories, and of numbers with a feature for missing values, each with how it becomes features, such as `12 values`; empty
    /// where every feature is a column of numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<(String, String)>,
    /// Number of target columns; for classes 1.
    pub targets: usize,
    /// Names of the target columns, or of the class column.
    pub target_names: Vec<String>,
    /// Labels of a classification, in code order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes: Option<Vec<Label>>,
    /// The feature map, such as `nystrom`.
    pub map: String,
    /// How landmarks were chosen, and among how many rows.
    pub landmarks: Option<LandmarkReport>,
    /// The kernel with every parameter a number.
    pub kernel: String,
    /// Number of nearest nodes that each node of a graph, and a new row, is joined to; the kernel then has no part in distances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<usize>,
    /// The kernel of the second of two views.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_kernel: Option<String>,
    /// Rank of the chosen cell.
    pub rank: usize,
    /// Lambda of the chosen cell; `None` for solvers without.
    pub lambda: Option<f64>,
    /// [`LAMBDA`].
    pub lambda_convention: &'static str,
    /// The folds of cross-validation, such as `5` or `blocks:6`; `none` without cross-validation.
    pub folds: String,
    /// The relative trace error over all rows; `None` for maps that are no projection.
    pub certificate: Option<Certificate>,
    /// The cells, by rank, then lambda.
    pub surface: Vec<Cell>,
    /// Scores of ridge regression on the training rows.
    pub train: Option<Train>,
    /// The method by which ridge regression was solved, where not from a Gram matrix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<Solved>,
    /// Numbers that the solver reports about its result, such as eigenvalues.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figure>,
    /// Number of passes over the rows.
    pub passes: u64,
    /// Bytes of memory that were planned before the work started.
    pub planned_bytes: usize,
    /// The instruction set of the processor that was used; results have the same bits on processors with the same one.
    pub instruction_set: String,
    /// The type of rows and features: `f32` or `f64`.
    pub precision: &'static str,
    /// Seconds of each stage, in the order in which they ended.
    #[serde(skip)]
    pub seconds: Vec<(String, f64)>,
    /// The warnings of the run, one sentence each: rank reduced, constant feature, tolerance not reached, …
    #[serde(skip)]
    pub warnings: Vec<String>,
    /// Name, shift and divisor of each feature.
    #[serde(skip)]
    pub scaling: Vec<(String, f64, f64)>,
    /// The metric before the kernel, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<MetricReport>,
    /// Each feature with the root mean square of the slope along it, the largest first, where that was asked for: in units of the targets for
    /// one of the scaled feature.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub importance: Vec<(String, f64)>,
    /// Relative trace error at each rank of the surface.
    #[serde(skip)]
    pub certificates: Vec<(usize, f64)>,
}

/// The metric of a fit.
#[derive(Clone, Debug, serde::Serialize)]
pub struct MetricReport {
    /// How it was come to: `given`, `learn`, `full`, `diagonal`, `low-rank(5)`.
    pub source: String,
    /// Number of features that the kernel sees.
    pub features: usize,
    /// Each feature with its share in the metric, the largest first; the shares sum to 1.
    pub importance: Vec<(String, f64)>,
    /// In the same order, the standard deviation of the share over folds of the sample: of the averages of the gradients of one function
    /// over the rows of each fold. Empty where the metric was not learned here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spread: Vec<f64>,
    /// The rounds in which it was learned.
    pub rounds: Vec<RoundReport>,
}

impl MetricReport {
    /// The report of a metric of so many outputs, from the shares of the features in any order, and the deviations of these where they are
    /// known.
    pub fn new(
        source: String,
        features: usize,
        shares: Vec<(String, f64)>,
        deviations: &[f64],
        rounds: Vec<RoundReport>,
    ) -> Self {
        let mut order: Vec<usize> = (0..shares.len()).collect();
        order.sort_by(|a, b| shares[*b].1.total_cmp(&shares[*a].1));
        let importance = order.iter().map(|j| shares[*j].clone()).collect();
        let spread = order.iter().filter_map(|j| deviations.get(*j)).copied().collect();
        Self { source, features, importance, spread, rounds }
    }

    /// Each feature with its share and the deviation of that, where it is known.
    pub fn shares(&self) -> impl Iterator<Item = (&str, f64, Option<f64>)> {
        let spread = self.spread.iter().copied().map(Some).chain(std::iter::repeat(None));
        self.importance.iter().zip(spread).map(|((name, share), spread)| (name.as_str(), *share, spread))
    }
}

/// How landmarks were chosen.
#[derive(Clone, Debug, serde::Serialize)]
pub struct LandmarkReport {
    /// Name of the scheme.
    pub scheme: String,
    /// Number of landmarks kept, which is the largest rank of the surface.
    pub count: usize,
    /// Number of rows they were chosen among.
    pub candidates: u64,
}

/// Scores on the training rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Train {
    /// Mean squared error (±1 codes for classes).
    pub mse: f64,
    /// Square root of the mean squared error.
    pub rmse: f64,
    /// Share of variance explained; `None` for a constant target.
    pub r2: Option<f64>,
    /// Mean squared error of every row by the fit to all others, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loo_mse: Option<f64>,
}

/// Names of the targets, or of the class column.
pub(super) fn target_names(selected: &Selected) -> Vec<String> {
    match selected.class_name() {
        Some(name) => vec![name.to_string()],
        None => selected.target_names(),
    }
}

/// Trains, with a journal where the run has a checkpoint, and hands what was found to `keep` before the checkpoint goes.
pub(super) fn fit<T: Real>(
    fit: &Fit,
    solver: &dyn Solver<T>,
    any: fn(Model<T>) -> AnyModel,
    selected: &Selected,
    training: &TrainOptions,
    run: &Run<'_>,
    keep: &dyn Fn(&Fitted) -> Result<()>,
) -> Result<Fitted> {
    let watch = run.watched();
    let journal = checkpoint::journal(run, fit, selected, training)?;
    let resources = Resources { stages: &watch, journal: journal.as_ref(), ..run.resources() };
    let found = train_model::<T>(fit, solver, any, selected, training, &resources);
    // steps that were ended early leave what looks like a result, or an error of the numbers
    let found = resources.workers.check().map_err(Error::from).and(found);
    let fitted = found.and_then(|mut fitted| {
        keep(&fitted)?;
        (fitted.report.seconds, fitted.report.warnings) = (watch.seconds(), watch.warnings());
        Ok(fitted)
    });
    let over = !fitted.as_ref().err().and_then(Error::stored).is_some_and(kstore::Error::may_pass);
    run.engine.iter().for_each(|engine| engine.leave(over));
    match (&journal, fitted) {
        (Some(journal), Err(error)) => Err(match &run.checkpoint {
            Some(checkpoint) => checkpoint.kept(journal, error),
            None => error,
        }),
        (_, fitted) => {
            journal.into_iter().for_each(Journal::finish);
            fitted
        }
    }
}

fn train_model<T: Real>(
    fit: &Fit,
    solver: &dyn Solver<T>,
    any: fn(Model<T>) -> AnyModel,
    selected: &Selected,
    training: &TrainOptions,
    resources: &Resources<'_>,
) -> Result<Fitted> {
    let trained = train::train(selected, training, solver, resources).map_err(|error| match error {
        Error::TooFewRows { rows } => Error::TooFewFor { what: fit.family.name, needed: 2, rows },
        other => other,
    })?;
    let report = report(fit, selected, training, &trained);
    verdict(&report).into_iter().for_each(|text| resources.stages.warn(text));
    let model = Model {
        card: card(fit, selected, training, &trained)?,
        basis: trained.basis,
        form: trained.form,
        coefficients: trained.coefficients,
        intercept: trained.intercept,
        centre: trained.scaler.centre.clone(),
        scale: trained.scaler.scale.clone(),
        mean: trained.scaler.mean.clone(),
        metric: trained.metric,
        quadratic: trained.quadratic,
        components: trained.components,
    };
    let model = if trained.wide { AnyModel::F64(model.widen()) } else { any(model) };
    Ok(Fitted { model, report })
}

fn card<T: Real>(fit: &Fit, selected: &Selected, training: &TrainOptions, trained: &Trained<T>) -> Result<Card> {
    let mut options = fit.canonical(&fit.settings()?, training);
    if options["missing"].is_null() && selected.missing().name() != Missing::Error.name() {
        options["missing"] = selected.missing().name().into();
    }
    Ok(Card {
        task: trained.task.unwrap_or(training.task),
        solver: fit.family.name.to_string(),
        kernel: if trained.importance.is_some() { "linear()".to_string() } else { trained.kernel.to_string() },
        with: trained.with.clone(),
        map: fit.map.to_string(),
        precision: <T as kstore::Real>::NAME.to_string(),
        rank: trained.rank.min(trained.coefficients.nrows()),
        lambda: trained.lambda,
        intercept: fit.settings()?.intercept(),
        features: selected.feature_names(),
        encoding: selected.encoding().cloned().map(Arc::new),
        targets: target_names(selected),
        classes: trained.classes.as_ref().map_or(Vec::new(), |classes| classes.labels().to_vec()),
        link: trained.link.clone(),
        pairs: trained.pairs,
        certificate: trained.certificate,
        rows: trained.rows,
        seed: fit.seed,
        landmarks: trained.landmarks.map(|_| training.landmarks.to_string()),
        asinh: trained.scaler.asinh,
        options,
    })
}

/// The features with these numbers, the largest first.
fn by_size(selected: &Selected, numbers: &[f64]) -> Vec<(String, f64)> {
    let mut named: Vec<(String, f64)> = selected.feature_names().into_iter().zip(numbers.iter().copied()).collect();
    named.sort_by(|a, b| b.1.total_cmp(&a.1));
    named
}

fn report<T: Real>(fit: &Fit, selected: &Selected, training: &TrainOptions, trained: &Trained<T>) -> FitReport {
    let names = target_names(selected);
    let scales = trained.scaler.centre.iter().zip(&trained.scaler.scale);
    let scaling = selected.feature_names().into_iter().zip(scales);
    FitReport {
        solver: fit.family.name,
        rows: trained.rows,
        features: selected.shape().features,
        columns: selected.encoding().map_or(Vec::new(), |encoding| {
            let told = encoding.columns().iter().filter(|column| column.missing || column.code != Code::Number);
            told.map(|column| (column.name.clone(), column.to_string())).collect()
        }),
        targets: names.len(),
        target_names: names,
        classes: trained.classes.as_ref().map(|classes| classes.labels().to_vec()),
        map: fit.map.to_string(),
        landmarks: trained.landmarks.map(|(count, candidates)| LandmarkReport {
            scheme: training.landmarks.to_string(),
            // those that depend on others were left out
            count: count.min(if fit.map == MapSpec::default() { trained.largest_rank } else { count }),
            candidates,
        }),
        kernel: trained.kernel.to_string(),
        neighbours: trained.form.neighbours(),
        with_kernel: trained.with.as_ref().map(|with| with.kernel.clone()),
        rank: trained.rank,
        lambda: trained.lambda,
        lambda_convention: LAMBDA,
        folds: training.folds.to_string(),
        certificate: trained.certificate,
        surface: trained.surface.cells.clone(),
        train: trained.train.map(|(mse, r2)| Train { mse, rmse: mse.max(0.0).sqrt(), r2, loo_mse: trained.left_out }),
        method: trained.method.clone(),
        figures: trained.figures.clone(),
        passes: trained.passes,
        planned_bytes: trained.planned_bytes,
        instruction_set: kapprox::instruction_set(),
        precision: <T as kstore::Real>::NAME,
        seconds: Vec::new(),
        warnings: Vec::new(),
        scaling: scaling.map(|(name, (centre, scale))| (name, *centre, *scale)).collect(),
        metric: trained.metric.as_ref().map(|metric| {
            let names = selected.feature_names();
            let (source, shares) = match &trained.importance {
                Some(shares) => (fit.family.name.to_string(), shares.clone()),
                None => (training.metric.to_string(), metric.importance()),
            };
            MetricReport::new(
                source,
                metric.outputs(),
                names.into_iter().zip(shares).collect(),
                trained.spread.as_deref().unwrap_or(&[]),
                trained.learned.clone(),
            )
        }),
        importance: by_size(selected, trained.slopes.as_deref().unwrap_or(&[])),
        certificates: trained.certificates.iter().map(|(rank, c)| (*rank, c.trace_error)).collect(),
    }
}
