//! The whole choice: kernels, metrics, solvers and penalties on a sample, then the fit of the winner on all rows.

use crate::error::raised;
use crate::job::{Job, learned, opened};
use crate::model::Model;
use crate::run::described;
use crate::table::Table;
use crate::watch::{Progress, watched};
use kapprox::{Real, Spec};
use ksolve::Error;
use ksolve::job::{ElementType, Fit, Fitted, Run};
use ksolve::request::{LandmarkSource, MetricForm, MetricSource, Scaling, Stages};
use ksolve::tune::{
    Choice, Chosen, MOST_LEARNED, Memory, Pace, Part, Score, SearchListener, SearchWork, Select, TuneOptions,
};
use kstore::Selected;
use pyo3::prelude::*;
use serde::Deserialize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How a choice is made; the job says among which rows, and what is given.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    /// A solver, or `any`.
    solver: String,
    /// Seconds.
    time: Option<f64>,
    work: Option<String>,
    kernels: Option<Vec<String>>,
    factors: Option<String>,
    score: String,
    select: Option<String>,
    sample: usize,
    /// True where other scalings may be tried.
    scalings: bool,
}

/// A listener that tells the progress, hears of Ctrl-C and keeps the time.
struct Watch<'a> {
    progress: &'a Progress,
    pace: &'a Pace,
    warnings: Mutex<Vec<String>>,
}

impl SearchListener for Watch<'_> {
    fn next(&self, what: &str) -> ksolve::Result<()> {
        match self.progress.stage(what, None).stop() {
            true => Err(kstore::Error::Interrupted.into()),
            false => Ok(()),
        }
    }

    fn is_late(&self, part: Part, next: Duration) -> bool {
        self.pace.is_over(part, next)
    }

    fn warn(&self, text: &str) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_string());
    }
}

/// Chooses a model for a table and fits it; returns it with the report of the fit and of the choice as JSON.
#[pyfunction]
#[pyo3(signature = (job, search, table, landmarks=None, show=None))]
pub(crate) fn tune(
    py: Python<'_>,
    job: &str,
    search: &str,
    table: &Table,
    landmarks: Option<&Table>,
    show: Option<Py<PyAny>>,
) -> PyResult<(Model, String)> {
    let (job, search): (Job, Search) = (Job::told(job)?, described(search)?);
    let selection = job.fit.selection(job.fit.selected_rows()).map_err(raised)?;
    let scratch = job.run.scratch()?;
    let run = job.run.run(scratch.as_ref())?;
    let (fitted, chosen, warnings) = watched(py, show, |progress| {
        let run = progress.of(&run);
        let selected = run.coded(&table.0.select(&selection)?)?;
        let notes = progress.warnings();
        let pace = Pace::new(search.time.filter(|time| time.is_finite() && *time > 0.0).map(Duration::from_secs_f64));
        let watch = Watch { progress, pace: &pace, warnings: Mutex::new(Vec::new()) };
        let base = match search.learns(&job) && selected.shape().features <= MOST_LEARNED {
            true => job.fit.clone().metric(MetricSource::Learned(MetricForm::Best)),
            false => job.fit.clone(),
        };
        let base = opened(base, &selected, landmarks)?;
        let free = !job.has.1 && landmarks.is_none();
        let (fitted, chosen) = match base.element_type() {
            ElementType::F32 => search.fit::<f32>(base, free, &selected, &run, &watch),
            ElementType::F64 => search.fit::<f64>(base, free, &selected, &run, &watch),
        }?;
        Ok(((fitted, notes), chosen, watch.warnings.into_inner().unwrap_or_else(PoisonError::into_inner)))
    })?;
    let test = chosen.test.as_ref().map(|test| serde_json::json!({"apart": test.apart, "seconds": test.seconds}));
    let choice = serde_json::json!({
        "solver": chosen.fit.family().name,
        "kernels": chosen.tuned.rungs,
        "solvers": chosen.contenders,
        "metric": chosen.metric.is_some().then_some(&chosen.form),
        "scale": chosen.tuned.scaling.to_string(),
        "folds": chosen.tuned.folds.to_string(),
        "alike": chosen.tuned.alike,
        "at_random": chosen.at_random,
        "elsewhere": chosen.elsewhere,
        "select": chosen.select,
        "rarer": chosen.rarer,
        "test": test,
        "work": chosen.work.to_string(),
        "history": chosen.history,
        "warnings": warnings,
    });
    learned(fitted, table, &run, job.run.threads(), Some(choice))
}

impl Search {
    /// True where the metric of every kernel is learned: whenever errors are compared, unless it was said otherwise.
    fn learns(&self, job: &Job) -> bool {
        !job.has.0 && self.score != "alignment" && self.factors.is_none()
    }

    fn options(&self, base: &Fit, score: Score, learns: bool, selected: &Selected) -> ksolve::Result<TuneOptions> {
        let kernels = match &self.kernels {
            Some(named) => Some(named.iter().map(|text| Spec::parse(text)).collect::<Result<Vec<_>, _>>()?),
            None => (!learns).then(|| vec![base.kernel_spec().clone()]),
        };
        let mut options = TuneOptions::new(base, score, kernels.as_deref(), self.sample, selected)?;
        if let Some(factors) = &self.factors {
            options.factors = ksolve::lists::factors(factors)?;
        }
        options.select = self.select.as_deref().map(str::parse::<Select>).transpose()?;
        Ok(options)
    }

    /// Makes the choice and the fit. `free` says that no landmarks were named.
    fn fit<T: Real>(
        &self,
        base: Fit,
        free: bool,
        selected: &Selected,
        run: &Run<'_>,
        watch: &Watch<'_>,
    ) -> ksolve::Result<(Fitted, Chosen)> {
        let learns = matches!(base.metric_source(), MetricSource::Learned(_));
        // behind a metric few directions matter: schemes that look for what is left of the kernel search long for it
        let base = match learns && free && !base.map_spec().is_without_rows() {
            true => base.landmarks(LandmarkSource::Scheme("uniform".to_string())),
            false => base,
        };
        let score = self.score.parse::<Score>()?;
        let options = self.options(&base, score, learns, selected)?;
        let scalings: &[Scaling] =
            if self.scalings && learns && score == Score::Cv { &[Scaling::Asinh, Scaling::Quantile] } else { &[] };
        let work = self.work.as_deref().map(str::parse::<SearchWork>).transpose();
        let work = work.map_err(|why| Error::option("work", self.work.as_deref().unwrap_or_default(), why))?;
        let (solver, base) = (self.solver.as_str(), &base);
        let exact = self.time.is_some() && free;
        let written = |chosen: &Chosen| {
            let metric = chosen.metric.clone().map_or(MetricSource::None, MetricSource::of);
            let fit = chosen.fit.clone().scaling(chosen.tuned.scaling).metric(metric);
            let reach = watch.pace.reach(&fit, chosen, selected, run)?;
            Ok(reach.map_or(fit.clone(), |reach| reach.of(fit)))
        };
        let (listener, written) = (watch, &written);
        let choice =
            Choice { solver, base, options: &options, scalings, selected, work, exact, run, listener, written };
        let chosen = choice.make::<T>(&mut Memory::open(None)?)?;
        Ok((chosen.fit.run(selected, run)?, chosen))
    }
}
