//! Runs a job and returns its result: a model and the report of its fit.

use super::{ElementType, Fit, Run, fit::Checked, verdict::verdict};
use crate::metric::combination::{self, Combination, combine};
use crate::request::{Forecast, Resources, TrainOptions};
use crate::train::{self, FitReport, Trained, convention};
use crate::{AnyModel, Error, Model, Result, solver::Solver};
use kapprox::{Kernel, Real};
use kstore::{Missing, Selected, Selection, Table, checkpoint::Journal};
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
    /// Writes the model, whole or not at all; see [`AnyModel::save`].
    ///
    /// # Errors
    /// Numbers that are not finite, and errors of the file system.
    pub fn save(&self, path: &Path) -> Result<()> {
        self.model.save(path)
    }
}

fn on_rows(kernels: &[Kernel], selected: &Selected) -> Result<Vec<Kernel>> {
    let (names, sparse) = (selected.feature_names(), selected.sparse().map(|shape| shape.width));
    kernels.iter().map(|kernel| Ok(kernel.on_rows(&names, sparse)?)).collect()
}

impl Fit {
    /// Learns the weights of a sum of kernels from the target, as input for [`Fit::kernel`]; see
    /// [`crate::metric::combination`].
    ///
    /// # Errors
    /// Options that contradict each other; errors of [`combine`].
    pub fn combined(&self, kernels: &[Kernel], selected: &Selected, run: &Run<'_>) -> Result<Combination> {
        let selected = &run.coded(selected)?;
        let (training, kernels) = (self.training(selected)?, on_rows(kernels, selected)?);
        match self.precision {
            ElementType::F32 => combine::<f32>(selected, &training, &kernels, &run.resources()),
            ElementType::F64 => combine::<f64>(selected, &training, &kernels, &run.resources()),
        }
    }

    /// Returns the plan of the run: passes and memory of each stage. Reads the labels to count the
    /// classes, and the first rows to measure the bytes of a pass.
    ///
    /// # Errors
    /// Options that contradict each other; errors of reading these rows. A plan that exceeds the
    /// memory budget is not an error here.
    pub fn plan(&self, selected: &Selected, run: &Run<'_>) -> Result<Forecast> {
        let (selected, resources) = (&run.coded(selected)?, &run.resources());
        let (training, solver) = (self.training(selected)?, &*self.checked()?.solver);
        match self.precision {
            ElementType::F32 => train::forecast::<f32>(selected, &training, solver, resources),
            ElementType::F64 => train::forecast::<f64>(selected, &training, solver, resources),
        }
    }

    /// Returns the plan of a run that first learns the weights of a sum of kernels: the stages of
    /// both parts.
    ///
    /// # Errors The errors of [`Fit::plan`] and of learning the weights.
    #[doc(hidden)]
    pub fn plan_combined(&self, kernels: &[Kernel], selected: &Selected, run: &Run<'_>) -> Result<Forecast> {
        let selected = &run.coded(selected)?;
        let (training, resources) = (self.training(selected)?, run.resources());
        let found = on_rows(kernels, selected)?;
        let mut stages = match self.precision {
            ElementType::F32 => combination::forecast::<f32>(selected, &training, &found, &resources)?,
            ElementType::F64 => combination::forecast::<f64>(selected, &training, &found, &resources)?,
        };
        // the memory plan of a sum does not depend on its weights
        let sum = kernels.iter().cloned().reduce(std::ops::Add::add);
        let fit = sum.into_iter().fold(self.clone(), Self::kernel).plan(selected, run)?;
        stages.extend(fit.stages);
        Ok(Forecast { stages, ..fit })
    }

    /// Learns from the selected rows; returns the model and its report.
    ///
    /// # Errors
    /// Options that contradict each other; a plan that exceeds the memory budget, before the first
    /// pass; invalid rows with their position; errors of the solver. [`Error::is_interrupted`]
    /// identifies a run that was stopped.
    pub fn run(&self, selected: &Selected, run: &Run<'_>) -> Result<Fitted> {
        self.run_and(selected, run, &|_| Ok(()))
    }

    /// Learns like [`Fit::run`], and writes the model to `path` before removing the run's
    /// checkpoint.
    ///
    /// # Errors
    /// The errors of [`Fit::run`] and of the file system.
    pub fn run_and_save(&self, selected: &Selected, run: &Run<'_>, path: &Path) -> Result<Fitted> {
        self.run_and(selected, run, &|fitted| {
            let _stage = run.stages().stage("write model", None);
            fitted.save(path)
        })
    }

    fn run_and(&self, selected: &Selected, run: &Run<'_>, keep: &dyn Fn(&Fitted) -> Result<()>) -> Result<Fitted> {
        let selected = &run.coded(selected)?;
        let training = self.training(selected)?;
        match self.precision {
            ElementType::F32 => fit::<f32>(self, AnyModel::F32, selected, &training, run, keep),
            ElementType::F64 => fit::<f64>(self, AnyModel::F64, selected, &training, run, keep),
        }
    }

    /// Learns from all rows of a table; every numeric or text column except the targets is an
    /// input.
    ///
    /// # Errors
    /// Missing columns, and the errors of [`Fit::run`].
    pub fn on(&self, table: &Table, targets: &[&str], run: &Run<'_>) -> Result<Fitted> {
        let targets = targets.iter().map(ToString::to_string).collect();
        self.run(&table.select(&self.selection(Selection { targets, ..Selection::default() })?)?, run)
    }
}

/// Trains, with a journal if the run has a checkpoint; calls `save` with the result before removing
/// the checkpoint.
pub(super) fn fit<T: Real>(
    fit: &Fit,
    any: fn(Model<T>) -> AnyModel,
    selected: &Selected,
    training: &TrainOptions,
    run: &Run<'_>,
    keep: &dyn Fn(&Fitted) -> Result<()>,
) -> Result<Fitted> {
    let watch = run.watched();
    let journal = super::checkpoint::journal(run, fit, selected, training)?;
    let resources = Resources { stages: &watch, journal: journal.as_ref(), ..run.resources() };
    let found = train_model::<T>(fit, any, selected, training, &resources);
    // an interrupted step may return an invalid result or a numerical error
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
    any: fn(Model<T>) -> AnyModel,
    selected: &Selected,
    training: &TrainOptions,
    resources: &Resources<'_>,
) -> Result<Fitted> {
    let Checked { settings, solver, .. } = fit.checked()?;
    let solver: &dyn Solver<T> = T::pick(&**solver);
    let trained = train::train(selected, training, solver, resources).map_err(|error| match error {
        Error::TooFewRows { rows } => Error::TooFewFor { what: fit.family.name, needed: 2, rows },
        other => other,
    })?;
    let Trained { mut model, mut report, wide } = trained;
    (report.solver, report.lambda_convention) = (fit.family.name, convention(fit.family.name));
    verdict(&report).into_iter().for_each(|text| resources.stages.warn(text));
    (model.card.solver, model.card.intercept) = (fit.family.name.to_string(), settings.intercept());
    model.card.options = fit.canonical(training)?;
    if model.card.options["missing"].is_null() && selected.missing().name() != Missing::Error.name() {
        model.card.options["missing"] = selected.missing().name().into();
    }
    let model = if wide { AnyModel::F64(model.widen()) } else { any(model) };
    Ok(Fitted { model, report })
}
