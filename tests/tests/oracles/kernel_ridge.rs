//! Ridge regression by conjugate gradient, and on the exact kernel, against dense systems and scikit-learn's `KernelRidge`
//! (`scripts/golden.py ridge`).

use kmill_tests::dense::{kernel_matrix, solve};
use kmill_tests::kernels::kernel;
use kmill_tests::points::Lcg;
use kmill_tests::table::{exact, predict, select, write};
use ksolve::Intercept;
use ksolve::solver::Precision;
use ksolve::train::{Method, Resources, SystemOptions, Task, TrainOptions, Trained, Unwatched, train};
use kstore::{Selected, Workers};
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

const INTERCEPTS: [Intercept; 3] = [Intercept::Free, Intercept::Penalised, Intercept::None];

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

fn rows(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap().iter().map(numbers).collect()
}

/// A table on disk; dropped with its folder.
fn table(x: &[Vec<f64>], y: &[f64], task: Task) -> (TempDir, Selected) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, x, y);
    let selected = select(&path, task);
    (folder, selected)
}

fn fit<T: Precision>(selected: &Selected, options: &TrainOptions, threads: usize, memory: usize) -> Trained<T> {
    let workers = Workers::new(threads);
    let resources = Resources { memory, workers: &workers, stages: &Unwatched, journal: None, scratch: None };
    train::<T>(selected, options, &resources).unwrap()
}

fn figure<'a, T: kapprox::Real>(trained: &'a Trained<T>, name: &str) -> &'a [f64] {
    &trained.figures.iter().find(|figure| figure.name == name).unwrap().values
}

fn largest(v: &[f64]) -> f64 {
    v.iter().fold(0.0, |most, v| most.max(v.abs()))
}

/// The exact kernel at one lambda.
fn on_all_rows(task: Task, spec: &str, n: usize, lambda: f64, method: Method, intercept: Intercept) -> TrainOptions {
    let system =
        SystemOptions { method, residual: (method == Method::Pcg).then_some(1e-12), ..SystemOptions::default() };
    TrainOptions {
        map: "exact".parse().unwrap(),
        landmarks: ksolve::train::LandmarkSource::default(),
        lambdas: vec![lambda],
        rank: 40,
        ranks: vec![40],
        intercept,
        system,
        ..exact(task, spec, n)
    }
}

#[test]
fn the_exact_kernel_is_scikit_learns_kernel_ridge() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/ridge.json");
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let (x, y, new) = (rows(&golden["x"]), numbers(&golden["y"]), rows(&golden["new"]));
    let (spec, lambda) = (golden["kernel"].as_str().unwrap(), golden["lambda"].as_f64().unwrap());
    let expected = numbers(&golden["predictions"]);
    let (_folder, selected) = table(&x, &y, Task::Regression);
    for method in [Method::Direct, Method::Pcg] {
        let options = on_all_rows(Task::Regression, spec, x.len(), lambda, method, Intercept::None);
        let trained = fit::<f64>(&selected, &options, 2, 1 << 30);
        assert_eq!((trained.rank, trained.intercept[0]), (200, 0.0));
        for (x, expected) in new.iter().zip(&expected) {
            let got = predict(&trained, spec, x)[0];
            assert!((got - expected).abs() < 1e-8 * largest(&expected_scale(expected)), "{method:?}: {got} {expected}");
        }
    }
}

fn expected_scale(expected: &f64) -> [f64; 2] {
    [*expected, 1.0]
}

/// y − f with f of the dense solution: a bordered system for a free constant, k + 1 for a penalised one.
fn dense(x: &[Vec<f64>], y: &[f64], spec: &str, lambda: f64, intercept: Intercept) -> (Vec<f64>, f64) {
    let (n, k) = (x.len(), kernel(spec));
    let mut a = kernel_matrix(x, &*k);
    (0..n).for_each(|i| a[i][i] += lambda * n as f64);
    match intercept {
        Intercept::None => (solve(&a, y), 0.0),
        Intercept::Penalised => {
            a.iter_mut().flatten().for_each(|v| *v += 1.0);
            let alpha = solve(&a, y);
            let c = alpha.iter().sum();
            (alpha, c)
        }
        Intercept::Free => {
            // c = 1ᵀA⁻¹y / 1ᵀA⁻¹1, a = A⁻¹(y − c)
            let (of_y, of_one) = (solve(&a, y), solve(&a, &vec![1.0; n]));
            let c = of_y.iter().sum::<f64>() / of_one.iter().sum::<f64>();
            (of_y.iter().zip(&of_one).map(|(y, one)| y - c * one).collect(), c)
        }
    }
}

fn problem(n: usize) -> (Vec<Vec<f64>>, Vec<f64>) {
    let mut random = Lcg(31);
    let rows = random.normals(n, 3);
    let y = rows.iter().map(|x| 3.0 + (1.5 * x[0]).sin() + x[1] * x[2] + 0.1 * random.normal()).collect();
    (rows, y)
}

#[test]
fn the_dual_is_that_of_dense_systems_for_every_intercept_and_its_residual_is_true() {
    let (x, y) = problem(330);
    let (n, lambda) = (x.len(), 1e-6);
    let (_folder, selected) = table(&x, &y, Task::Regression);
    let new = Lcg(5).normals(20, 3);
    for spec in ["gaussian(sigma=1.5)", "matern(nu=1.5, sigma=2)"] {
        let (k, matrix) = (kernel(spec), kernel_matrix(&x, &*kernel(spec)));
        for intercept in INTERCEPTS {
            let (alpha, c) = dense(&x, &y, spec, lambda, intercept);
            let at = |z: &[f64]| x.iter().zip(&alpha).map(|(x, a)| a * k(x, z)).sum::<f64>() + c;
            let mse = x.iter().zip(&y).map(|(x, y)| (y - at(x)).powi(2)).sum::<f64>() / n as f64;
            for method in [Method::Direct, Method::Pcg] {
                let options = on_all_rows(Task::Regression, spec, n, lambda, method, intercept);
                let trained = fit::<f64>(&selected, &options, 2, 1 << 30);
                for z in &new {
                    let (got, expected) = (predict(&trained, spec, z)[0], at(z));
                    assert!((got - expected).abs() < 1e-7 * (1.0 + expected.abs()), "{method:?}: {got} {expected}");
                }
                let found = trained.train.unwrap().0;
                assert!((found / mse - 1.0).abs() < 1e-6, "{method:?}, {intercept}: {found} {mse}");
                if method == Method::Pcg && intercept == Intercept::None {
                    let a = trained.coefficients.col_as_slice(0);
                    let row = |i: usize| matrix[i].iter().zip(a).map(|(k, a)| k * a).sum::<f64>();
                    let r = (0..n).map(|i| (y[i] - row(i) - lambda * n as f64 * a[i]).powi(2)).sum::<f64>();
                    let outside = (r / y.iter().map(|y| y * y).sum::<f64>()).sqrt();
                    let said = figure(&trained, "residual")[0];
                    assert!(said <= 1e-12 && (outside - said).abs() < 2e-13, "{outside:e} {said:e}");
                }
            }
        }
    }
}

#[test]
fn classes_are_solved_together_and_threads_and_memory_change_no_bit() {
    let (x, values) = problem(900);
    let label = |y: f64| if y < 2.5 { 0.0 } else { f64::from(u8::from(y > 3.5)) + 1.0 };
    let labels: Vec<f64> = values.iter().map(|y| label(*y)).collect();
    let (_folder, selected) = table(&x, &labels, Task::Classification);
    let (spec, lambda) = ("gaussian(sigma=1.5)", 1e-6);
    let options = on_all_rows(Task::Classification, spec, 900, lambda, Method::Pcg, Intercept::Free);
    let trained = fit::<f64>(&selected, &options, 1, 1 << 30);
    let again = fit::<f64>(&selected, &options, 3, 100 << 20);
    assert!(trained.coefficients == again.coefficients && trained.intercept == again.intercept);
    assert_eq!((trained.coefficients.ncols(), figure(&trained, "iterations").len()), (3, 3));
    for class in 0..3 {
        let codes: Vec<f64> = labels.iter().map(|l| if *l == class as f64 { 1.0 } else { -1.0 }).collect();
        let (alpha, c) = dense(&x[..], &codes, spec, lambda, Intercept::Free);
        assert!((trained.intercept[class] - c).abs() < 1e-6, "{class}");
        let difference: Vec<f64> =
            alpha.iter().zip(trained.coefficients.col_as_slice(class)).map(|(a, b)| a - b).collect();
        assert!(largest(&difference) < 1e-6 * largest(&alpha), "{class}: {:e}", largest(&difference));
    }
}
