//! Every solver with each value of its parameters, and with weights, metrics, maps, landmarks and
//! categories, predicts finite numbers or returns an explained error. It never panics.

use kfit::solver::parameter::{Parameter, ParameterKind};
use kfit::solver::{SolverFamily, registry};
use ksolve::Task;
use ksolve::job::{ElementType, Fit, Run};
use ksolve::job::{LandmarkSource, Scaling};
use ksolve::job::{MetricForm, MetricSource};
use ksolve::predict::Extras;
use ksolve::predict::Predictor;
use kstore::key::{Purpose, Stream};
use kstore::{Selection, Table};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Settings combined with the parameters of a solver.
const BESIDE: [&str; 9] = [
    "nothing",
    "weights",
    "metric",
    "metric and weights",
    "predictive landmarks",
    "exact map",
    "fourier map",
    "f64 and asinh",
    "categories",
];

/// Writes 80 rows: three numbers, a text, a number, three classes, four groups and a weight.
fn table(folder: &std::path::Path) -> Table {
    let stream = Stream::new(5, Purpose::Data, 0);
    let mut text = "x0,x1,x2,c,y,k,g,w\n".to_string();
    for i in 0..80u64 {
        let x: Vec<f64> = (0..3).map(|j| 2.0 * stream.uniform(4 * i + j) - 1.0).collect();
        let (y, noise) = ((2.0 * x[0]).sin() + x[1] * x[2], stream.uniform(4 * i + 3));
        let class = ["low", "middle", "high"][((y + 1.0 + 0.2 * noise).max(0.0) * 1.2) as usize % 3];
        let c = ["red", "green", "blue"][(3.0 * noise) as usize % 3];
        writeln!(text, "{},{},{},{c},{y},{class},{},{}", x[0], x[1], x[2], i % 4, 0.2 + noise).unwrap();
    }
    let path = folder.join("rows.csv");
    std::fs::write(&path, text).unwrap();
    Table::open(&[path]).unwrap()
}

fn reads(family: &SolverFamily, name: &str) -> bool {
    family.parameters.iter().any(|parameter| parameter.name == name)
}

/// A small fit with the solver's required parameters.
fn fit(family: &SolverFamily) -> Fit {
    let fit = Fit::solver(family.name).unwrap().rank(15);
    let needed = [("clusters", "3"), ("with", "x1"), ("nodes", "40"), ("lambda", "1e-3"), ("C", "1")];
    let mut left: Vec<_> = needed.iter().filter(|(name, _)| reads(family, name)).collect();
    if reads(family, "lambda") {
        left.retain(|(name, _)| *name != "C");
    }
    left.into_iter().fold(fit, |fit, (name, value)| fit.set(name, value))
}

/// Returns test values of a parameter.
fn values(parameter: &Parameter) -> Vec<String> {
    let words: &[&str] = match parameter.kind {
        ParameterKind::Flag => &["true"],
        ParameterKind::Count { .. } => &["2"],
        ParameterKind::Counts { .. } => &["2", "2..4"],
        ParameterKind::Number(_) => &["0.5"],
        ParameterKind::Choice(words) => words,
        ParameterKind::Regularisations { .. } => &["1e-2", "1e-4,1e-2"],
        ParameterKind::Ranks => &["5,15"],
        ParameterKind::Levels => &["0.25", "0.1,0.5,0.9"],
        ParameterKind::Folds => &["3", "blocks:3", "column:g", "forward:3", "none"],
        ParameterKind::Column => &["w"],
        ParameterKind::Columns => &["x1"],
        ParameterKind::Kernel => &["gaussian()"],
        ParameterKind::ClassWeights => &["balanced"],
    };
    words.iter().map(ToString::to_string).collect()
}

fn beside(fit: Fit, what: &str) -> Fit {
    let scheme = |name: &str| LandmarkSource::Scheme(name.to_string());
    let metric = MetricSource::Learned(MetricForm::Diagonal);
    match what {
        "weights" => fit.set("weights", "w"),
        "metric" => fit.metric(metric),
        "metric and weights" => fit.metric(metric).set("weights", "w"),
        "predictive landmarks" => fit.landmarks(scheme("predictive")),
        "exact map" => fit.map("exact".parse().unwrap()),
        "fourier map" => fit.map("fourier".parse().unwrap()),
        "f64 and asinh" => fit.precision(ElementType::F64).scaling(Scaling::Asinh),
        _ => fit,
    }
}

/// Fits and predicts, or returns the error of the fit.
fn tried(fit: &Fit, table: &Table, categories: bool) -> ksolve::Result<()> {
    let targets = match fit.task()? {
        Task::Classification => vec!["k".to_string()],
        Task::Regression => vec!["y".to_string()],
        _ if fit.family().task.has_target() => vec!["y".to_string()],
        _ => Vec::new(),
    };
    let mut features = vec!["x*".to_string()];
    features.extend(categories.then(|| "c".to_string()));
    let run = Run::new().memory(1 << 30).threads(2);
    let selected = table.select(&fit.complete_selection(Selection { targets, features, ..Selection::default() })?)?;
    let fitted = fit.run(&selected, &run)?;
    let predictor = Predictor::new(fitted.model)?;
    let rows = predictor.select(table, Selection::default())?;
    let mut finite = true;
    predictor.score_table(&rows, Extras::default(), Vec::new(), &run, |scores| {
        finite &= scores.scores.iter().all(|score| score.is_finite());
        Ok(())
    })?;
    assert!(finite, "a prediction is not finite");
    Ok(())
}

#[test]
fn each_option_of_each_solver_fits_or_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path());
    let (mut wrong, mut fitted, mut refused) = (Vec::new(), 0, 0);
    for family in registry() {
        let own = family.parameters.iter().flat_map(|p| values(p).into_iter().map(|value| Some((p.name, value))));
        for own in std::iter::once(None).chain(own) {
            for what in BESIDE {
                if what.contains("metric") && !family.task.has_target() {
                    continue;
                }
                let given = own.iter().fold(fit(family), |fit, (name, value)| fit.set(name, value));
                let fit = beside(given, what);
                let outcome = catch_unwind(AssertUnwindSafe(|| tried(&fit, &table, what == "categories")));
                let line = || format!("{} {own:?} beside {what}", family.name);
                match outcome {
                    Ok(Ok(())) => fitted += 1,
                    Ok(Err(ksolve::Error::Store(kstore::Error::WorkerPanicked))) => {
                        wrong.push(format!("{}: a worker", line()))
                    }
                    Ok(Err(error)) if error.to_string().contains('\n') => wrong.push(format!("{}: {error}", line())),
                    Ok(Err(_)) => refused += 1,
                    Err(_) => wrong.push(line()),
                }
            }
        }
    }
    eprintln!("{fitted} fitted, {refused} refused");
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), fitted + refused, wrong.join("\n"));
    assert!(fitted > 400, "{fitted} fitted, {refused} refused");
}
