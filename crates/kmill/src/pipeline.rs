//! From the options of a fit to the library's training run, and from what it found to the model file and the report.

use crate::args::learn::{Precision, Select};
use crate::args::parse::{Candidates, Landmarks};
use crate::args::run::{DiskArgs, Run, ScratchArgs};
use crate::fit::FitOptions;
use crate::plan::PlanReport;
use crate::progress::Progress;
use crate::report::{Certificate, FitReport, LAMBDA, LandmarkReport, Train};
use crate::solver::Learner;
use crate::surface::Cell;
use crate::{Error, Result, checkpoint, convert, output};
use kapprox::Real;
use kapprox::map::MapSpec;
use ksolve::solver::Precision as Precise;
use ksolve::train::{self, Choice, LandmarkSource, Resources, Stages, SystemOptions, TrainOptions, Trained};
use ksolve::{Card, FoldSpec, Model, Task};
use kstore::pass::Observer;
use kstore::{Selected, Selection, Table, Workers};
use std::path::Path;
use std::time::Duration;

/// A fit that takes this long is worth the second of calibration that tells how long.
const CALIBRATED_FROM: Duration = Duration::from_secs(10);

impl Stages for Progress {
    fn stage<'a>(&'a self, name: &str, rows: Option<u64>) -> Box<dyn Observer + 'a> {
        self.watch(name, rows)
    }
    fn warn(&self, text: String) {
        Self::warn(self, text);
    }
}

/// Fits a model and writes it to `path`.
///
/// # Errors
/// Whatever stops the fit; then nothing is written.
pub fn fit(options: &FitOptions, run: &Run, path: &Path, args: &DiskArgs) -> Result<FitReport> {
    match options.precision {
        Precision::F32 => fit_in::<f32>(options, run, path, args),
        Precision::F64 => fit_in::<f64>(options, run, path, args),
    }
}

/// What a fit would do and hold in each of its stages.
///
/// # Errors
/// Files and columns that are not there, bad values among the rows that are tried.
pub fn plan(options: &FitOptions, run: &Run, scratch: &ScratchArgs) -> Result<PlanReport> {
    let selected = select(options, &run.progress)?;
    let training = training(options, &selected)?;
    let (scratch, workers) = (scratch.open()?, Workers::new(run.threads));
    let resources = run.resources(&workers, scratch.as_ref());
    match options.precision {
        Precision::F32 => forecast::<f32>(&options.learner, &selected, &training, &resources, Duration::ZERO),
        Precision::F64 => forecast::<f64>(&options.learner, &selected, &training, &resources, Duration::ZERO),
    }
}

/// The plan of a run whose time is estimated if it is likely to take longer than `worth`.
fn forecast<T: Precise>(
    learner: &Learner,
    selected: &Selected,
    training: &TrainOptions,
    resources: &Resources<'_>,
    worth: Duration,
) -> Result<PlanReport> {
    let forecast = match learner.solver::<T>() {
        None => train::forecast::<T>(selected, training, resources, worth)?,
        Some(solver) => train::forecast_solve::<T>(selected, training, &*solver, resources)?,
    };
    Ok(PlanReport { forecast, budget: resources.memory, threads: resources.workers.threads() })
}

fn fit_in<T: Precise>(options: &FitOptions, run: &Run, path: &Path, args: &DiskArgs) -> Result<FitReport> {
    let selected = select(options, &run.progress)?;
    output::spare(path, selected.table(), None)?;
    let training = training(options, &selected)?;
    let workers = Workers::new(run.threads);
    let journal = checkpoint::open(options, &selected, training.landmarks.table(), path, args, &run.progress)?;
    let scratch = args.scratch.open()?;
    let resources = Resources { journal: Some(&journal), ..run.resources(&workers, scratch.as_ref()) };
    if !run.progress.is_quiet() {
        let plan = forecast::<T>(&options.learner, &selected, &training, &resources, CALIBRATED_FROM)?;
        // one that does not fit is refused in a moment, with what to change
        if plan.forecast.fits() {
            run.progress.note(&plan.to_string());
        }
    }
    let trained = match options.learner.solver::<T>() {
        None => train::train::<T>(&selected, &training, &resources),
        Some(solver) => train::solve::<T>(&selected, &training, &*solver, &resources),
    };
    let trained = trained.map_err(|error| match error {
        ksolve::Error::TooFewRows { rows } => {
            ksolve::Error::TooFewFor { what: options.learner.name(), needed: 2, rows }
        }
        other => other,
    });
    let trained = trained.map_err(Error::from);
    let written = trained.and_then(|trained| write(options, run, &selected, trained, path));
    let trained = written.map_err(|error| checkpoint::kept(&journal, error, &run.progress))?;
    journal.finish();
    Ok(report(options, run, &selected, &trained, path))
}

/// Writes the model of a training run, which is given back.
fn write<T: Real>(
    options: &FitOptions,
    run: &Run,
    selected: &Selected,
    mut trained: Trained<T>,
    path: &Path,
) -> Result<Trained<T>> {
    let stage = run.progress.stage("write model", None);
    let quadratic = trained.quadratic.take();
    let model = Model { quadratic, ..model(options, selected, &trained) };
    if trained.wide {
        model.widen().save(path)?;
    } else {
        model.save(path)?;
    }
    stage.finish();
    Ok(trained)
}

/// The rows and columns of the fit.
pub(crate) fn select(options: &FitOptions, progress: &Progress) -> Result<Selected> {
    let (table, targets) = convert::open(&options.paths, &options.text, &options.target)?;
    let classes = options.learner.task() == Task::Classification;
    if classes && targets.len() > 1 {
        let why = "a classification has one column of labels";
        return Err(Error::option("--target", targets.join(","), why, "name one"));
    }
    let group = match &options.folds {
        FoldSpec::Column(name) => Some(name.clone()),
        _ => None,
    };
    let selected = table.select(&Selection {
        features: options.features.clone(),
        targets,
        class_target: classes,
        weight: options.weights.clone(),
        group: group.clone(),
        rows: Some(options.rows.clone()),
        filter: options.condition.clone(),
        missing: options.missing.into(),
        ..Selection::default()
    })?;
    tell_left_out(options, &table, &selected, group.as_deref(), progress);
    Ok(selected)
}

/// Columns that choose rows are no features unless named: that should not surprise anybody.
fn tell_left_out(options: &FitOptions, table: &Table, selected: &Selected, group: Option<&str>, progress: &Progress) {
    if !options.features.is_empty() {
        return;
    }
    let features = selected.feature_names();
    let condition = options.condition.as_ref().map(|condition| condition.column.as_str());
    for name in [condition, group].into_iter().flatten() {
        let known = table.schema().columns.iter().any(|column| column.name == name);
        let target = selected.target_names().iter().any(|target| target == name) || selected.class_name() == Some(name);
        if known && !target && !features.iter().any(|feature| feature == name) {
            progress
                .note(&format!("note: column {name} chooses rows and is no feature (--features names it to use it)"));
        }
    }
}

/// The columns of the features in a table of landmarks.
fn landmark_rows(options: &FitOptions, path: &Path, selected: &Selected) -> Result<Selected> {
    let (table, _) = convert::open(&[path.to_path_buf()], &options.text, &[])?;
    Ok(table.select(&Selection { features: selected.feature_names(), ..Selection::default() })?)
}

/// The same options in the words of the library.
pub(crate) fn training(options: &FitOptions, selected: &Selected) -> Result<TrainOptions> {
    Ok(TrainOptions {
        task: options.learner.task(),
        scaling: options.scale.into(),
        kernel: options.kernel.resolve_columns(&selected.feature_names())?,
        map: options.map.clone(),
        landmarks: match &options.landmarks {
            Landmarks::Scheme(name) => LandmarkSource::Scheme(name.clone()),
            Landmarks::File(path) => LandmarkSource::Rows(Box::new(landmark_rows(options, path, selected)?)),
        },
        candidates: match options.candidates {
            Candidates::All => None,
            Candidates::Rows(n) => Some(usize::try_from(n).unwrap_or(usize::MAX)),
        },
        rank: options.rank,
        tolerance: options.tolerance,
        ranks: options.ranks.clone(),
        lambdas: options.lambdas.clone(),
        folds: options.folds.clone(),
        intercept: options.intercept.into(),
        choice: match options.select {
            Select::Mse => Choice::Mse,
            Select::Error => Choice::Error,
        },
        system: SystemOptions {
            method: options.method.into(),
            preconditioner: options.preconditioner.map(Into::into).unwrap_or_default(),
            residual: options.residual,
            leave_one_out: options.loo,
            variance: options.std,
        },
        seed: options.seed,
    })
}

/// Names of the targets, or of the class column.
pub(crate) fn target_names(selected: &Selected) -> Vec<String> {
    match selected.class_name() {
        Some(name) => vec![name.to_string()],
        None => selected.target_names(),
    }
}

fn model<T: Real>(options: &FitOptions, selected: &Selected, trained: &Trained<T>) -> Model<T> {
    Model {
        card: Card {
            task: options.learner.task(),
            solver: options.learner.name().to_string(),
            kernel: trained.kernel.to_string(),
            map: options.map.to_string(),
            precision: <T as kstore::Real>::NAME.to_string(),
            rank: trained.rank,
            lambda: trained.lambda,
            intercept: options.intercept.into(),
            features: selected.feature_names(),
            targets: target_names(selected),
            classes: trained.classes.as_ref().map_or(Vec::new(), |classes| classes.labels().to_vec()),
            link: trained.link.clone(),
            pairs: trained.pairs,
            certificate: trained.certificate,
            rows: trained.rows,
            seed: options.seed,
            landmarks: trained.landmarks.map(|_| options.landmarks.to_string()),
            options: options.canonical(),
        },
        basis: trained.basis.clone(),
        coefficients: trained.coefficients.clone(),
        intercept: trained.intercept.clone(),
        centre: trained.scaler.centre.clone(),
        scale: trained.scaler.scale.clone(),
        mean: trained.scaler.mean.clone(),
        quadratic: None,
    }
}

fn report<T: Real>(
    options: &FitOptions,
    run: &Run,
    selected: &Selected,
    trained: &Trained<T>,
    output: &Path,
) -> FitReport {
    let names = target_names(selected);
    let cell = |cell: &ksolve::Cell| Cell {
        rank: cell.rank,
        lambda: cell.lambda,
        cv_mse: cell.cv_mse,
        gcv: cell.gcv,
        cv_error: cell.cv_error,
        fold_mse: cell.fold_mse.clone(),
    };
    FitReport {
        solver: options.learner.name(),
        rows: trained.rows,
        features: selected.shape().features,
        targets: names.len(),
        target_names: names,
        classes: trained.classes.as_ref().map(|classes| classes.labels().to_vec()),
        map: options.map.to_string(),
        landmarks: trained.landmarks.map(|(count, candidates)| LandmarkReport {
            scheme: options.landmarks.to_string(),
            // those that depend on others were left out
            count: count.min(if options.map == MapSpec::default() { trained.largest_rank } else { count }),
            candidates,
        }),
        kernel: trained.kernel.to_string(),
        rank: trained.rank,
        lambda: trained.lambda,
        lambda_convention: LAMBDA,
        folds: options.folds.to_string(),
        certificate: trained.certificate.map(Certificate::from),
        surface: trained.surface.cells.iter().map(cell).collect(),
        train: trained.train.map(|(mse, r2)| Train { mse, rmse: mse.max(0.0).sqrt(), r2, loo_mse: trained.left_out }),
        method: trained.method.clone(),
        figures: trained.figures.clone(),
        seconds: run.progress.seconds(),
        passes: trained.passes,
        bytes_read: selected.table().bytes_read(),
        peak_rss_bytes: kstore::budget::peak_rss(),
        memory_budget_bytes: run.memory,
        planned_bytes: trained.planned_bytes,
        threads: run.threads,
        instruction_set: instruction_set(),
        precision: <T as kstore::Real>::NAME,
        scaling: scaling(selected, trained),
        certificates: trained.certificates.iter().map(|(rank, c)| (*rank, c.trace_error)).collect(),
        warnings: run.progress.warnings(),
        model: output.to_path_buf(),
        model_bytes: std::fs::metadata(output).map_or(0, |metadata| metadata.len()),
    }
}

/// Name, shift and divisor of each feature.
fn scaling<T: Real>(selected: &Selected, trained: &Trained<T>) -> Vec<(String, f64, f64)> {
    let numbers = trained.scaler.centre.iter().zip(&trained.scaler.scale);
    selected.feature_names().into_iter().zip(numbers).map(|(name, (centre, scale))| (name, *centre, *scale)).collect()
}

/// What the kernels and products dispatch to on this machine: the same bits are promised within one.
pub(crate) fn instruction_set() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        let level = if std::arch::is_x86_feature_detected!("avx512f") {
            "AVX-512"
        } else if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            "AVX2"
        } else {
            "SSE2"
        };
        format!("x86-64 {level}")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        std::env::consts::ARCH.to_string()
    }
}
