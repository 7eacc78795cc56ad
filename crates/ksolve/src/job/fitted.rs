//! Runs a job and returns its result: a model and the report of its fit.

use super::{
    ElementType, Fit, Run,
    fit::ParsedOptions,
    sparse_rows,
    warnings::{improvement_warnings, random_folds_warning, reason_for_folds},
};
use crate::combination_report::Combination;
use crate::fit_report::{FitReport, TrainScores, convention_of};
use crate::metric::combination::{self, combine};
use crate::model::match_precision;
use crate::predict::Predictor;
use crate::request::{Forecast, Resources, Stage, TrainOptions};
use crate::solver::parameter::{FOLDS, INTERVAL};
use crate::train::{self, TrainedModel};
use crate::{AnyModel, Error, Model, Result, Task, solver::Solver};
use kapprox::{Kernel, Real};
use kstore::{Missing, SelectedTable, Selection, Table, checkpoint::Journal};
use std::path::Path;

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
    /// Writes the model. The file appears whole or not at all; see [`AnyModel::save`].
    ///
    /// # Errors
    /// Numbers that are not finite, and errors of the file system.
    pub fn save(&self, path: &Path) -> Result<()> {
        self.model.save(path)
    }
}

fn kernels_on_rows(kernels: &[Kernel], selected: &SelectedTable) -> Result<Vec<Kernel>> {
    kernels.iter().map(|kernel| sparse_rows::kernel_for(kernel, selected)).collect()
}

impl Fit {
    /// Learns the weights of a sum of kernels from the target, as input for [`Fit::kernel`]; see
    /// [`crate::metric::combination`].
    ///
    /// # Errors
    /// Options that contradict each other; errors of [`combine`].
    pub fn learn_combination(
        &self,
        kernels: &[Kernel],
        selected: &SelectedTable,
        run: &Run<'_>,
    ) -> Result<Combination> {
        let selected = &run.resolve_categories(selected)?;
        let (train_options, kernels) = (self.train_options(selected)?, kernels_on_rows(kernels, selected)?);
        match self.precision {
            ElementType::F32 => combine::<f32>(selected, &train_options, &kernels, &run.resources()),
            ElementType::F64 => combine::<f64>(selected, &train_options, &kernels, &run.resources()),
        }
    }

    /// Returns the plan of the run: the passes and the memory of each stage. To make the plan, this
    /// function reads the labels, which gives the number of classes, and the first rows, which
    /// gives the bytes that a pass reads per row.
    ///
    /// # Errors
    /// Options that contradict each other; errors of reading these rows. A plan that exceeds the
    /// memory budget is not an error here.
    pub fn plan(&self, selected: &SelectedTable, run: &Run<'_>) -> Result<Forecast> {
        if !self.members.is_empty() {
            return self.plan_members(selected, run);
        }
        let (selected, resources) = (&run.resolve_categories(selected)?, &run.resources());
        let (train_options, solver) = (self.train_options(selected)?, &*self.parsed_options()?.solver);
        match self.precision {
            ElementType::F32 => train::forecast::<f32>(selected, &train_options, solver, resources),
            ElementType::F64 => train::forecast::<f64>(selected, &train_options, solver, resources),
        }
    }

    /// Returns the plan of a mean of fits: the stages of every member, each with the models of the
    /// earlier members in memory.
    fn plan_members(&self, selected: &SelectedTable, run: &Run<'_>) -> Result<Forecast> {
        let (mut forecast, mut stages) = (self.clone().with_members(Vec::new()).plan(selected, run)?, Vec::new());
        let (rows, d) = (forecast.stored_rows as usize, selected.shape().input_count);
        let model_bytes = rows.saturating_mul(8 * (d + selected.target_names().len().max(1) + 1));
        for (k, kernel) in std::iter::once(&self.kernel).chain(&self.members).enumerate() {
            let member = self.clone().with_members(Vec::new()).kernel(kernel.clone());
            let remedy = "use fewer `members`";
            stages.extend(member.plan(selected, run)?.stages.into_iter().map(|stage| Stage {
                plan: stage.plan.term("models of earlier members", k.saturating_mul(model_bytes), remedy),
                ..stage
            }));
        }
        forecast.stages = stages;
        Ok(forecast)
    }

    /// Returns the plan of a run that first learns the weights of a sum of kernels. The plan has
    /// the stages of learning the weights and the stages of the fit.
    ///
    /// # Errors
    /// The errors of [`Fit::plan`] and of learning the weights.
    #[doc(hidden)]
    pub fn plan_combination(&self, kernels: &[Kernel], selected: &SelectedTable, run: &Run<'_>) -> Result<Forecast> {
        let selected = &run.resolve_categories(selected)?;
        let (train_options, resources) = (self.train_options(selected)?, run.resources());
        let resolved_kernels = kernels_on_rows(kernels, selected)?;
        let mut stages = match self.precision {
            ElementType::F32 => combination::forecast::<f32>(selected, &train_options, &resolved_kernels, &resources)?,
            ElementType::F64 => combination::forecast::<f64>(selected, &train_options, &resolved_kernels, &resources)?,
        };
        // the memory plan of a sum does not depend on its weights
        let kernel_sum = kernels.iter().cloned().reduce(std::ops::Add::add);
        let fit = match kernel_sum {
            Some(sum) => self.clone().kernel(sum),
            None => self.clone(),
        };
        let forecast = fit.plan(selected, run)?;
        stages.extend(forecast.stages);
        Ok(Forecast { stages, ..forecast })
    }

    /// Learns from the selected rows; returns the model and its report.
    ///
    /// # Errors
    /// Options that contradict each other; before the first pass, a plan that exceeds the memory
    /// budget. An invalid row (the error names its position); errors of the solver.
    /// [`Error::is_interrupted`] identifies a run that was stopped.
    pub fn run(&self, selected: &SelectedTable, run: &Run<'_>) -> Result<Fitted> {
        self.run_with_save(selected, run, &|_| Ok(()))
    }

    /// Learns like [`Fit::run`], and writes the model to `path` before removing the run's
    /// checkpoint.
    ///
    /// # Errors
    /// The errors of [`Fit::run`] and of the file system.
    pub fn run_and_save(&self, selected: &SelectedTable, run: &Run<'_>, path: &Path) -> Result<Fitted> {
        self.run_with_save(selected, run, &|fitted| {
            let _stage = run.stage_observer().start_stage("write model", None);
            fitted.save(path)
        })
    }

    fn run_with_save(
        &self,
        selected: &SelectedTable,
        run: &Run<'_>,
        save: &dyn Fn(&Fitted) -> Result<()>,
    ) -> Result<Fitted> {
        let selected = &run.resolve_categories(selected)?;
        let train_options = self.train_options(selected)?;
        match self.precision {
            ElementType::F32 => run_fit::<f32>(self, AnyModel::F32, selected, &train_options, run, save),
            ElementType::F64 => run_fit::<f64>(self, AnyModel::F64, selected, &train_options, run, save),
        }
    }

    /// Learns from all rows of a table; every numeric or text column except the targets is an
    /// input.
    ///
    /// # Errors
    /// Missing columns, and the errors of [`Fit::run`].
    pub fn fit_table(&self, table: &Table, targets: &[&str], run: &Run<'_>) -> Result<Fitted> {
        let targets = targets.iter().map(ToString::to_string).collect();
        self.run(&table.select(&self.complete_selection(Selection { targets, ..Selection::default() })?)?, run)
    }
}

/// Trains, with a journal if the run has a checkpoint. `wrap` makes an [`AnyModel`] of the trained
/// model. Calls `save` with the result, and then removes the checkpoint.
pub(super) fn run_fit<T: Real>(
    fit: &Fit,
    wrap: fn(Model<T>) -> AnyModel,
    selected: &SelectedTable,
    train_options: &TrainOptions,
    run: &Run<'_>,
    save: &dyn Fn(&Fitted) -> Result<()>,
) -> Result<Fitted> {
    let stage_recorder = run.stage_recorder();
    let journal = super::checkpoint::open_journal(run, fit, selected, train_options)?;
    let resources = Resources { stage_observer: &stage_recorder, journal: journal.as_ref(), ..run.resources() };
    let trained = match fit.member_kernels() {
        [] => train_model::<T>(fit, wrap, selected, train_options, (&resources, run)),
        _ => train_members::<T>(fit, wrap, selected, train_options, (&resources, run)),
    };
    // an interrupted step may return an invalid result or a numerical error
    let trained = resources.workers.check().map_err(Error::from).and(trained);
    let fitted = trained.and_then(|mut fitted| {
        save(&fitted)?;
        (fitted.report.seconds, fitted.report.warnings) = (stage_recorder.seconds(), stage_recorder.warnings());
        Ok(fitted)
    });
    let is_final = !fitted.as_ref().err().and_then(Error::as_store_error).is_some_and(kstore::Error::is_transient);
    run.engine.iter().for_each(|engine| engine.leave(is_final));
    match (&journal, fitted) {
        (Some(journal), Err(error)) => Err(match &run.checkpoint {
            Some(checkpoint) => checkpoint.interruption_error(journal, error),
            None => error,
        }),
        (_, fitted) => {
            journal.into_iter().for_each(Journal::finish);
            fitted
        }
    }
}

/// Fits all members of a mean one after the other, and returns their mean.
///
/// A stopped run begins again, because the journal holds the passes of a single fit.
fn train_members<T: Real>(
    fit: &Fit,
    wrap: fn(Model<T>) -> AnyModel,
    selected: &SelectedTable,
    train_options: &TrainOptions,
    (resources, run): (&Resources<'_>, &Run<'_>),
) -> Result<Fitted> {
    let reject = |why: &str| Err(Error::option("members", fit.member_kernels().len() + 1, why));
    if fit.parsed_options()?.settings.levels(&INTERVAL).is_some() {
        return reject("a mean of fits has no intervals; leave out `interval`, or choose a single fit");
    }
    if !fit.requested_map().is_exact_kernel() || train_options.task != Task::Regression {
        return reject("a mean of fits is for regression with the exact kernel; set `map` exact");
    }
    let kernels = std::iter::once(train_options.kernel.clone()).chain(kernels_on_rows(fit.member_kernels(), selected)?);
    let (mut models, mut reports, mut stored_bytes) = (Vec::new(), Vec::new(), 0);
    for kernel in kernels {
        let train_options = TrainOptions { kernel, ..train_options.clone() };
        let memory = resources.memory.saturating_sub(stored_bytes);
        let resources = &Resources { journal: None, memory, ..*resources };
        let fitted = train_model::<T>(fit, wrap, selected, &train_options, (resources, run))
            .map_err(|error| error.with_reserved(stored_bytes))?;
        stored_bytes += match_precision!(AnyModel: &fitted.model, model => model.bytes());
        models.push(fitted.model);
        reports.push(FitReport { planned_bytes: fitted.report.planned_bytes + stored_bytes, ..fitted.report });
    }
    let train = train_scores_of_mean(&models, &reports);
    let mut reports = reports.into_iter();
    let (model, Some(mut report)) = (AnyModel::mean_of(models)?, reports.next()) else {
        return reject("expected at least one kernel");
    };
    for member in reports {
        report.members.push(member.kernel);
        report.passes += member.passes;
        report.planned_bytes = report.planned_bytes.max(member.planned_bytes);
    }
    (report.train, report.figures) = (train, Vec::new());
    Ok(Fitted { model, report })
}

/// Returns the scores of the mean of exact fits on the training rows; `None` if rows have weights.
///
/// The dual coefficients α of a fit solve (K + nλI)α = y − c, so its residuals are nλα.
fn train_scores_of_mean(models: &[AnyModel], reports: &[FitReport]) -> Option<TrainScores> {
    let residuals = models.iter().zip(reports).map(|(model, report)| {
        let coefficients = match_precision!(AnyModel: model, model => &model.coefficients);
        let is_exact = coefficients.nrows() as u64 == report.rows && report.weight.is_none();
        Some(faer::Scale(report.lambda.filter(|_| is_exact)? * report.rows as f64) * coefficients)
    });
    let residuals = residuals.collect::<Option<Vec<_>>>()?;
    let (first, count) = (residuals.first()?.squared_norm_l2(), residuals.len() as f64);
    let sum = residuals.into_iter().reduce(|sum, residuals| sum + residuals)?;
    let ratio = sum.squared_norm_l2() / (count * count * first);
    let TrainScores { mse, r2, .. } = reports.first()?.train.as_ref().filter(|_| ratio.is_finite())?;
    let (mse, r2) = (mse * ratio, r2.map(|r2| 1.0 - (1.0 - r2) * ratio));
    Some(TrainScores { mse, rmse: mse.max(0.0).sqrt(), r2, loo_mse: None })
}

fn train_model<T: Real>(
    fit: &Fit,
    wrap: fn(Model<T>) -> AnyModel,
    selected: &SelectedTable,
    train_options: &TrainOptions,
    (resources, run): (&Resources<'_>, &Run<'_>),
) -> Result<Fitted> {
    let ParsedOptions { settings, solver, .. } = fit.parsed_options()?;
    let solver: &dyn Solver<T> = T::pick(&**solver);
    let levels = settings.levels(&INTERVAL);
    if run.engine.is_some() && levels.is_some() {
        let why = "several processes cannot share the pass over the held-out rows; fit in one process, or leave it out";
        return Err(Error::option(INTERVAL.name, "", why));
    }
    let trained = train::train(selected, train_options, solver, resources).map_err(|error| match error {
        Error::TooFewRows { rows } => Error::TooFewRowsFor { what: fit.solver_family.name, needed: 2, rows },
        other => other,
    })?;
    let TrainedModel { mut model, mut report, needs_f64, training_folds, selected } = trained;
    let selected = &selected;

    (report.solver, report.lambda_convention) = (fit.solver_family.name, convention_of(fit.solver_family.name));
    let selection = fit.requested_selection();
    report.reason_for_folds = reason_for_folds(&report, &selection);
    let folds_warning = random_folds_warning(&report, &selection, fit.has_option(FOLDS.name));
    improvement_warnings(&report).into_iter().chain(folds_warning).for_each(|text| resources.stage_observer.warn(text));
    (model.metadata.solver, model.metadata.intercept) = (fit.solver_family.name.to_string(), settings.intercept());
    model.metadata.options = fit.canonical_options(train_options)?;
    if model.metadata.options["missing"].is_null() && selected.missing().name() != Missing::Error.name() {
        model.metadata.options["missing"] = selected.missing().name().into();
    }
    let model = if needs_f64 { AnyModel::F64(model.into_f64()) } else { wrap(model) };
    let model = match training_folds.zip(levels) {
        Some((training_folds, levels)) => {
            let _stage = resources.stage_observer.start_stage("held-out scores", None);
            report.passes += 1;
            Predictor::new(model)?.into_model_with_intervals(selected, &training_folds, levels, run)?
        }
        None => model,
    };
    Ok(Fitted { model, report })
}
