//! Weighted rows compared with dense weighted kernel ridge regression and with repeated rows.

use crate::solver_laws;
use kfit::request::{Resources, TrainOptions};
use kfit::solver::ridge::Ridge;
use kfit::solver::{Options, SolverFamily, registry};
use kmill_tests::dense::{kernel_matrix, solve};
use kmill_tests::points::Lcg;
use kmill_tests::{kernels, table};
use ksolve::Task;
use ksolve::job::{ElementType, Fitted};
use ksolve::job::{NoStageObserver, Scaling};
use ksolve::predict::Predictor;
use ksolve::train::{TrainedModel, train};
use ksolve::{AnyModel, FoldSpec, Intercept};
use kstore::sink::{self, OutputColumn, OutputKind, OutputValues};
use kstore::{SelectedTable, Selection, Table, Workers};
use std::path::Path;

const KERNEL: &str = "gaussian(sigma=1.5)";

/// Columns x0, x1, y, w, g.
type Rows = Vec<[f64; 5]>;

fn problem(n: usize) -> Rows {
    let mut random = Lcg(41);
    let row = |i: usize| {
        let (a, b, noise) = (random.normal(), random.normal(), random.normal());
        // every sixth row has weight 0
        [a, b, 2.0 + (1.5 * a).sin() + b + 0.2 * noise, (i * 5 % 6) as f64, (i % 3) as f64]
    };
    (0..n).map(row).collect()
}

/// Writes the rows and selects x0 and x1, the target and, if `weights`, the weights.
fn select(path: &Path, rows: &Rows, selection: Selection, weights: bool) -> SelectedTable {
    let columns = ["x0", "x1", "y", "w", "g"]
        .map(|name| OutputColumn::new(name, if name == "g" { OutputKind::I64 } else { OutputKind::F64 }));
    let mut out = sink::create(path, &columns).unwrap();
    let values: Vec<Vec<f64>> = (0..4).map(|c| rows.iter().map(|row| row[c]).collect()).collect();
    let groups: Vec<i64> = rows.iter().map(|row| row[4] as i64).collect();
    let mut batch: Vec<OutputValues<'_>> = values.iter().map(|column| OutputValues::F64(column)).collect();
    batch.push(OutputValues::I64(&groups));
    out.write(&batch).unwrap();
    out.finish().unwrap();
    let weight = weights.then(|| "w".to_string());
    Table::open(&[path]).unwrap().select(&Selection { features: vec!["x*".to_string()], weight, ..selection }).unwrap()
}

fn fit(
    rows: &Rows,
    weights: bool,
    landmarks: usize,
    folds: FoldSpec,
    intercept: Intercept,
) -> ksolve::Result<TrainedModel<f64>> {
    let folder = tempfile::tempdir().unwrap();
    let group = matches!(folds, FoldSpec::Column(_)).then(|| "g".to_string());
    let selection = Selection { targets: vec!["y".to_string()], group, ..Selection::default() };
    let selected = select(&folder.path().join("rows.parquet"), rows, selection, weights);
    let options = TrainOptions { folds, ..table::exact(Task::Regression, KERNEL, landmarks) };
    let lambdas = vec![1e-4, 1e-2];
    let ridge = Ridge { lambdas, intercept, computes_loo: true, stores_variance: true, ..Ridge::default() };
    let workers = Workers::new(2);
    let resources = Resources {
        memory: 1 << 30,
        workers: &workers,
        stage_observer: &NoStageObserver,
        journal: None,
        scratch: None,
    };
    train::<f64>(&selected, &options, &ridge, &resources)
}

/// f(x) = Σ_i α_i k(x, x_i) minimises Σ w (y − f)² + μ‖f‖²: (W K + μI) α = W y, symmetric in √w α.
fn dense(rows: &Rows, mu: f64, at: &[f64]) -> f64 {
    let k = kernels::kernel(KERNEL);
    let used: Vec<&[f64; 5]> = rows.iter().filter(|row| row[3] > 0.0).collect();
    let points: Vec<Vec<f64>> = used.iter().map(|row| row[..2].to_vec()).collect();
    let roots: Vec<f64> = used.iter().map(|row| row[3].sqrt()).collect();
    let mut a = kernel_matrix(&points, &*k);
    for i in 0..used.len() {
        (0..used.len()).for_each(|j| a[i][j] *= roots[i] * roots[j]);
        a[i][i] += mu;
    }
    let right: Vec<f64> = used.iter().zip(&roots).map(|(row, root)| root * row[2]).collect();
    let scaled = solve(&a, &right);
    (0..used.len()).map(|i| roots[i] * scaled[i] * k(at, &points[i])).sum()
}

#[test]
fn weighted_ridge_regression_is_the_dense_one() {
    let rows = problem(100);
    let weight: f64 = rows.iter().map(|row| row[3]).sum();
    let trained = fit(&rows, true, 100, FoldSpec::Blocks(4), Intercept::None).unwrap();
    let lambda = trained.report.lambda.unwrap();
    for row in rows.iter().step_by(7) {
        let expected = dense(&rows, lambda * weight, &row[..2]);
        let found = table::predict(&trained, KERNEL, &row[..2])[0];
        assert!((found / expected - 1.0).abs() < 1e-8, "{found} {expected}");
    }
}

/// A row of weight 3 equals three rows in every sum: errors, folds, noise, degrees of freedom. (Not
/// in leave-one-out, which omits one of the three.) A row of weight 0 has no effect.
#[test]
fn weights_are_repetitions() {
    let rows = problem(90);
    let repeated: Rows = rows.iter().flat_map(|row| std::iter::repeat_n(*row, row[3] as usize)).collect();
    for intercept in [Intercept::Free, Intercept::Penalised, Intercept::None] {
        let folds = || FoldSpec::Column("g".to_string());
        let weighted = fit(&rows, true, 90, folds(), intercept).unwrap();
        let plain = fit(&repeated, false, repeated.len(), folds(), intercept).unwrap();
        assert_eq!((weighted.report.rows, plain.report.rows), (75, repeated.len() as u64));
        for (a, b) in weighted.report.surface.iter().zip(&plain.report.surface) {
            for (a, b) in [(a.cv_mse.unwrap(), b.cv_mse.unwrap()), (a.gcv.unwrap(), b.gcv.unwrap())] {
                assert!((a / b - 1.0).abs() < 1e-7, "{intercept}: {a} {b}");
            }
        }
        let (a, b) = (weighted.report.train.unwrap(), plain.report.train.unwrap());
        assert!(
            (a.mse / b.mse - 1.0).abs() < 1e-7 && (a.r2.unwrap() / b.r2.unwrap() - 1.0).abs() < 1e-7,
            "{a:?} {b:?}"
        );
        for row in rows.iter().step_by(11) {
            let [a, b] = [&weighted, &plain].map(|trained| table::predict(trained, KERNEL, &row[..2])[0]);
            assert!((a / b - 1.0).abs() < 1e-7, "{intercept}: {a} {b}");
        }
        let [a, b] = [&weighted, &plain].map(|trained| trained.model.quadratic.as_ref().unwrap());
        assert!(
            (a.output_scales[0] / b.output_scales[0] - 1.0).abs() < 1e-6,
            "{:?} {:?}",
            a.output_scales,
            b.output_scales
        );
        assert!((a.residual_factor / b.residual_factor - 1.0).abs() < 1e-12);
    }
}

/// SVMs, probabilities, clusters and components of weighted rows equal fits to repeated rows.
#[test]
fn weights_are_repetitions_for_every_solver_that_takes_them() {
    let rows = problem(90);
    let repeated: Rows = rows.iter().flat_map(|row| std::iter::repeat_n(*row, row[3] as usize)).collect();
    let folder = tempfile::tempdir().unwrap();
    let run = |(name, map, set): (&str, &str, &[(&str, &str)]), rows: &Rows, weights: bool| {
        let task = kfit::solver::by_name(name).unwrap().task;
        let target = match task {
            Task::Classification => vec!["g".to_string()],
            Task::Regression => vec!["y".to_string()],
            _ => Vec::new(),
        };
        let class_target = task == Task::Classification;
        let selection = Selection { targets: target, class_target, ..Selection::default() };
        let selected = select(&folder.path().join("rows.parquet"), rows, selection, weights);
        let map = map.parse().unwrap();
        let options = TrainOptions { folds: FoldSpec::None, map, ..table::exact(task, KERNEL, rows.len()) };
        let given = set.iter().fold(Options::new(), |options, (name, value)| options.set(name, *value));
        table::solve::<f64>(&selected, &options, name, &given, 2)
    };
    let machine: &[(&str, &str)] = &[("C", "0.7"), ("gap", "1e-12"), ("steps", "2000")];
    let quantiles: &[(&str, &str)] =
        &[("quantiles", "0.2,0.7"), ("lambda", "1e-3"), ("gap", "1e-12"), ("steps", "2000")];
    let balanced = [machine, &[("class_weight", "balanced")]].concat();
    for case in [
        ("svm", "nystrom", machine),
        ("svm", "exact", machine),
        ("svm", "exact", &[machine, &[("multiclass", "one-vs-one")]].concat()),
        ("svm", "nystrom", &[machine, &[("loss", "squared-hinge")]].concat()),
        ("svm", "nystrom", &[&balanced[1..], &[("lambda", "1e-3")]].concat()),
        ("svr", "nystrom", machine),
        ("svr", "exact", machine),
        ("quantile", "nystrom", quantiles),
        ("quantile", "exact", quantiles),
        ("quantile", "nystrom", &[quantiles, &[("loss", "expectile")]].concat()),
        ("quantile", "nystrom", &[&quantiles[1..], &[("loss", "huber")]].concat()),
        ("oneclass", "nystrom", &machine[1..]),
        ("oneclass", "exact", &machine[1..]),
        ("logistic", "nystrom", &[("lambda", "1e-3")]),
        ("logistic", "nystrom", &[("C", "2"), ("class_weight", "balanced")]),
        ("kmeans", "nystrom", &[("clusters", "4")]),
        ("kpca", "nystrom", &[("components", "3")]),
        ("kpca", "nystrom", &[("components", "2"), ("uncentred", "true"), ("whiten", "true")]),
    ] {
        let (weighted, plain, ignored) = (run(case, &rows, true), run(case, &repeated, false), run(case, &rows, false));
        let (mut near, mut far) = (0.0f64, 0.0f64);
        for row in rows.iter().step_by(7) {
            // the largest coefficient sets the sign, and repeated rows have other features
            let size = |score: f64| if case.0 == "kpca" { score.abs() } else { score };
            let at =
                |trained| -> Vec<f64> { table::predict(trained, KERNEL, &row[..2]).into_iter().map(size).collect() };
            let (a, b, c) = (at(&weighted), at(&plain), at(&ignored));
            near = a.iter().zip(&b).fold(near, |near, (a, b)| near.max((a - b).abs()));
            far = b.iter().zip(&c).fold(far, |far, (b, c)| far.max((b - c).abs()));
        }
        assert!(near < 1e-6 && far > 1e-3, "{case:?}: {near:e} from repeated rows, {far:e} from rows without weights");
    }
}

/// Appends the weight of each row as the last column.
fn with_weights(rows: &Rows, scale: f64) -> Vec<Vec<f64>> {
    rows.iter().map(|row| vec![row[0], row[1], row[3] * scale]).collect()
}

/// Fits a solver to the rows, with or without weights, with every row as a landmark.
fn learned(family: &SolverFamily, rows: &Rows, weights: Option<f64>, scaling: Scaling, kernel: &str) -> Fitted {
    let x: Vec<Vec<f64>> = match weights {
        Some(scale) => with_weights(rows, scale),
        None => rows.iter().map(|row| row[..2].to_vec()).collect(),
    };
    let target = |row: &[f64; 5]| match family.task {
        Task::Classification => row[4],
        // counts are not negative
        _ if family.name == "glm" => row[2].abs(),
        _ => row[2],
    };
    let y: Vec<f64> = rows.iter().map(target).collect();
    let reads = |name: &str| family.parameters.iter().any(|parameter| parameter.name == name);
    let mut fit =
        solver_laws::fit(family, rows.len(), ElementType::F64).scaling(scaling).kernel(kernel.parse().unwrap());
    for (name, value) in [("gap", "1e-12"), ("steps", "2000"), ("std", "true")] {
        let asked = reads(name) && !(name == "std" && family.task == Task::Classification);
        fit = if asked { fit.set(name, value) } else { fit };
    }
    let fit = if weights.is_some() { fit.set("weights", "x2") } else { fit };
    solver_laws::run(&fit, &solver_laws::table(&x, &y), 2).unwrap()
}

/// Returns scores of some points (components up to sign) and parameters of the deviations.
fn told(fitted: &Fitted) -> (Vec<f64>, Vec<f64>) {
    let predictor = Predictor::new(fitted.model.clone()).unwrap();
    let points: Vec<Vec<f64>> = problem(40).iter().map(|row| row[..2].to_vec()).collect();
    let components = predictor.metadata().task == Task::Components;
    let scores = solver_laws::predicted(&predictor, &points).concat();
    let AnyModel::F64(model) = &fitted.model else { panic!("a model of f64") };
    let deviations =
        model.quadratic.as_ref().map_or(Vec::new(), |q| vec![q.output_scales[0], q.constant, q.residual_factor]);
    (scores.into_iter().map(|score| if components { score.abs() } else { score }).collect(), deviations)
}

fn near(what: &str, (a, b): (&[f64], &[f64]), within: f64) {
    assert_eq!(a.len(), b.len(), "{what}");
    let size = b.iter().fold(1e-300f64, |size, b| size.max(b.abs()));
    let apart = a.iter().zip(b).fold(0.0f64, |most, (a, b)| most.max((a - b).abs()));
    assert!(apart <= within * size, "{what}: {apart:e} of {size:e}");
}

/// For all solvers with weights, all scalings and a length scale from the rows: a row of weight 2
/// counts twice, and a row of weight 0 has no effect.
#[test]
fn weights_are_repetitions_in_all_that_is_learned_of_the_rows() {
    // rows of weight 0 are far away and have a class of their own
    let mut rows = problem(60);
    rows.iter_mut().filter(|row| row[3] == 0.0).for_each(|row| *row = [50.0, -70.0, 1e3, 0.0, 9.0]);
    let repeated: Rows = rows.iter().flat_map(|row| std::iter::repeat_n(*row, row[3] as usize)).collect();
    let scalings =
        [Scaling::Standard, Scaling::Minmax, Scaling::Robust, Scaling::Asinh, Scaling::Quantile, Scaling::None];
    for family in registry().into_iter().filter(|family| family.parameters.iter().any(|p| p.name == "weights")) {
        for scaling in scalings {
            let kernel = "gaussian(sigma=median)";
            let what = format!("{} with {scaling} scaling", family.name);
            let weighted = learned(family, &rows, Some(1.0), scaling, kernel);
            let plain = learned(family, &repeated, None, scaling, kernel);
            let [AnyModel::F64(a), AnyModel::F64(b)] = [&weighted.model, &plain.model] else { panic!("f64") };
            near(&what, (&a.scaler.centre, &b.scaler.centre), 1e-12);
            near(&what, (&a.scaler.scale, &b.scaler.scale), 1e-12);
            near(&what, (&a.scaler.knots, &b.scaler.knots), 1e-12);
            assert_eq!((&a.metadata.ranges, &a.metadata.classes), (&b.metadata.ranges, &b.metadata.classes), "{what}");
            let length = |kernel: &str| -> f64 { kernel.split(['=', ')']).nth(1).unwrap().parse().unwrap() };
            near(&what, (&[length(&a.metadata.kernel)], &[length(&b.metadata.kernel)]), 1e-9);
            let ((a, c), (b, d)) = (told(&weighted), told(&plain));
            near(&what, (&a, &b), 1e-5);
            near(&what, (&c, &d), 1e-6);
        }
    }
}

/// The unit of the weights does not change the results; equal weights act like no weights.
#[test]
fn the_unit_of_weights_does_not_matter() {
    let rows = problem(60);
    let alike: Rows = rows.iter().map(|row| [row[0], row[1], row[2], 1.0, row[4]]).collect();
    for family in registry().into_iter().filter(|family| family.parameters.iter().any(|p| p.name == "weights")) {
        for (rows, equal) in [(&rows, false), (&alike, true)] {
            let of = |weights| told(&learned(family, rows, weights, Scaling::Standard, "gaussian(sigma=median)"));
            let (a, c) = of(if equal { None } else { Some(0.01) });
            for unit in [1e38, 1e-46, 0.3] {
                let ((b, d), what) = (of(Some(unit)), format!("{} with weights times {unit:e}", family.name));
                near(&what, (&b, &a), 1e-5);
                near(&what, (&d, &c), 1e-6);
            }
        }
    }
}

/// Leaving a row out equals a fit with weight 0 for this row.
#[test]
fn left_out_errors_are_those_of_fits_without_the_row() {
    let rows = problem(40);
    let trained = fit(&rows, true, 40, FoldSpec::Blocks(2), Intercept::None).unwrap();
    let (lambda, weight) = (trained.report.lambda.unwrap(), rows.iter().map(|row| row[3]).sum::<f64>());
    let mut sum = 0.0;
    for i in (0..40).filter(|i| rows[*i][3] > 0.0) {
        let mut without = rows.clone();
        without[i][3] = 0.0;
        // lambda times the total weight is unchanged
        sum += rows[i][3] * (rows[i][2] - dense(&without, lambda * weight, &rows[i][..2])).powi(2);
    }
    let found = trained.report.train.and_then(|train| train.loo_mse).unwrap();
    assert!((found / (sum / weight) - 1.0).abs() < 1e-7, "{found} {}", sum / weight);
}

#[test]
fn weights_below_zero_and_all_zero_are_refused() {
    let mut rows = problem(30);
    rows[17][3] = -0.5;
    let error = fit(&rows, true, 30, FoldSpec::Blocks(2), Intercept::Free).unwrap_err().to_string();
    assert!(error.contains("row 17") && error.contains("-0.5"), "{error}");
    rows.iter_mut().for_each(|row| row[3] = 0.0);
    let error = fit(&rows, true, 30, FoldSpec::Blocks(2), Intercept::Free).unwrap_err().to_string();
    assert!(error.contains("`weights`"), "{error}");
}
