//! Tables on disk and training runs on them.

use kapprox::Kernel;
use kfit::request::{Resources, TrainOptions};
use ksolve::Model;
use ksolve::Task;
use ksolve::job::{LandmarkSource, NoStageObserver, Scaling};
use ksolve::train::TrainedModel;
use kstore::sink::{self, OutputColumn, OutputKind, OutputValues};
use kstore::{SelectedTable, Selection, Table, Workers};
use std::path::Path;

/// Writes a table with columns x0, … and y in f64.
pub fn write(path: &Path, x: &[Vec<f64>], y: &[f64]) {
    let d = x[0].len();
    let mut columns: Vec<OutputColumn> = (0..d).map(|j| OutputColumn::new(format!("x{j}"), OutputKind::F64)).collect();
    columns.push(OutputColumn::new("y", OutputKind::F64));
    let mut sink = sink::create(path, &columns).unwrap();
    let mut values: Vec<Vec<f64>> = (0..d).map(|j| x.iter().map(|row| row[j]).collect()).collect();
    values.push(y.to_vec());
    let batch: Vec<OutputValues<'_>> = values.iter().map(|column| OutputValues::F64(column)).collect();
    sink.write(&batch).unwrap();
    sink.finish().unwrap();
}

/// Selects all columns x0, … of a table, and y if the task has a target.
pub fn select(path: &Path, task: Task) -> SelectedTable {
    let table = Table::open(&[path]).unwrap();
    let targets = if task.has_target() { vec!["y".to_string()] } else { vec![] };
    let selection = Selection { features: vec!["x*".to_string()], targets, ..Selection::default() };
    table.select(&Selection { class_target: task == Task::Classification, ..selection }).unwrap()
}

/// Returns options for one rank, unscaled features, and every row a landmark.
pub fn exact(task: Task, kernel: &str, n: usize) -> TrainOptions {
    TrainOptions {
        scaling: Scaling::None,
        landmarks: LandmarkSource::Scheme("uniform".to_string()),
        candidates: Some(n),
        ..TrainOptions::new(task, Kernel::parse(kernel).unwrap(), n)
    }
}

/// Trains a registered solver.
pub fn solve<T: kapprox::Real>(
    selected: &SelectedTable,
    options: &TrainOptions,
    name: &str,
    solver: &kfit::solver::Options,
    threads: usize,
) -> TrainedModel<T> {
    try_solve(selected, options, name, solver, threads).unwrap()
}

/// Like [`solve`], but returns the error.
///
/// # Errors
/// Returns the errors of [`ksolve::train::train`].
pub fn try_solve<T: kapprox::Real>(
    selected: &SelectedTable,
    options: &TrainOptions,
    name: &str,
    solver: &kfit::solver::Options,
    threads: usize,
) -> ksolve::Result<TrainedModel<T>> {
    let workers = Workers::new(threads);
    let resources = Resources {
        memory: 1 << 30,
        workers: &workers,
        stage_observer: &NoStageObserver,
        journal: None,
        scratch: None,
    };
    let family = kfit::solver::by_name(name).unwrap();
    let solver = family.build_solver(&family.settings(solver)?)?;
    ksolve::train::train(selected, options, T::pick(&*solver), &resources)
}

/// Computes f(x) = Σ α_j k(x, z_j) + c from the formula, one value per output.
pub fn predict<T: kapprox::Real>(trained: &TrainedModel<T>, kernel: &str, x: &[f64]) -> Vec<f64> {
    combined(trained, kernel, x, &trained.model.coefficients, &trained.model.intercept)
}

/// Computes the components of x like [`predict`] computes the predictions.
pub fn components<T: kapprox::Real>(trained: &TrainedModel<T>, kernel: &str, x: &[f64]) -> Vec<f64> {
    let head = trained.model.components.as_ref().unwrap();
    combined(trained, kernel, x, &head.weights, &head.intercept)
}

fn combined<T: kapprox::Real>(
    trained: &TrainedModel<T>,
    kernel: &str,
    x: &[f64],
    coefficients: &faer::Mat<f64>,
    intercept: &[f64],
) -> Vec<f64> {
    let k = crate::kernels::kernel(kernel);
    let (points, _) = trained.model.basis.landmarks().unwrap();
    let values: Vec<f64> = points
        .chunks(x.len())
        .map(|z| k(x, &z.iter().map(|v| kstore::Float::to_f64(*v)).collect::<Vec<_>>()))
        .collect();
    let output = |j: usize| {
        let sum: f64 = values.iter().enumerate().map(|(i, k)| k * coefficients[(i, j)]).sum();
        sum + intercept[j]
    };
    (0..intercept.len()).map(output).collect()
}

/// Returns a copy of the trained model.
pub fn model(trained: &TrainedModel<f64>) -> Model<f64> {
    trained.model.clone()
}
