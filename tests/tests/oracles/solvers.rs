//! Every solver with all rows as landmarks against scikit-learn on the exact kernel (`scripts/golden.py solvers`).

use kmill_tests::table::{exact, predict, select, solve, write};
use ksolve::Task;
use ksolve::solver::{Penalty, SolverOptions};
use ksolve::train::{TrainOptions, Trained};
use serde_json::Value;
use std::path::Path;

pub(crate) struct Golden {
    pub(crate) kernel: String,
    pub(crate) x: Vec<Vec<f64>>,
    pub(crate) y: Vec<f64>,
    pub(crate) new: Vec<Vec<f64>>,
    pub(crate) cases: Value,
}

pub(crate) fn rows(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap().iter().map(numbers).collect()
}

pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

pub(crate) fn golden() -> Golden {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/solvers.json");
    let json: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    Golden {
        kernel: json["kernel"].as_str().unwrap().to_string(),
        x: rows(&json["x"]),
        y: numbers(&json["y"]),
        new: rows(&json["new"]),
        cases: json["cases"].clone(),
    }
}

/// A fit in f64 on the golden rows of which `keep` is true, once with one thread and once with three: the same bits.
fn fit(golden: &Golden, name: &str, task: Task, solver: &SolverOptions, keep: impl Fn(f64) -> bool) -> Trained<f64> {
    let folder = tempfile::tempdir().unwrap();
    let kept: Vec<usize> = (0..golden.y.len()).filter(|i| keep(golden.y[*i])).collect();
    let path = folder.path().join("rows.parquet");
    let x: Vec<Vec<f64>> = kept.iter().map(|i| golden.x[*i].clone()).collect();
    let y: Vec<f64> = kept.iter().map(|i| golden.y[*i]).collect();
    write(&path, &x, &y);
    let selected = select(&path, task);
    let options = TrainOptions { rank: golden.x.len(), ..exact(task, &golden.kernel, golden.x.len()) };
    let trained = solve::<f64>(&selected, &options, name, solver, 1);
    let again = solve::<f64>(&selected, &options, name, solver, 3);
    assert!(trained.coefficients == again.coefficients && trained.intercept == again.intercept, "{name}: other bits");
    trained
}

fn figure<'a>(trained: &'a Trained<f64>, name: &str) -> &'a [f64] {
    &trained.figures.iter().find(|figure| figure.name == name).unwrap().values
}

pub(crate) fn close(got: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((got - expected).abs() <= tolerance * expected.abs().max(1.0), "{what}: {got} against {expected}");
}

#[test]
fn kernel_principal_components() {
    let golden = golden();
    let case = &golden.cases["kpca"];
    let options = SolverOptions { components: Some(6), ..SolverOptions::default() };
    let trained = fit(&golden, "kpca", Task::Components, &options, |_| true);
    let variance = numbers(&case["variance"]);
    for (got, expected) in figure(&trained, "variance").iter().zip(&variance) {
        assert!((got / expected - 1.0).abs() < 1e-8, "{got} against {expected}");
    }
    let scores = rows(&case["scores"]);
    let got: Vec<Vec<f64>> = golden.new.iter().map(|x| predict(&trained, &golden.kernel, x)).collect();
    for j in 0..6 {
        // the sign of a component is ours to choose
        let sign = if got[0][j] * scores[0][j] < 0.0 { -1.0 } else { 1.0 };
        for (got, expected) in got.iter().zip(&scores) {
            close(sign * got[j], expected[j], 1e-6, &format!("component {j}"));
        }
    }
    let whitened = SolverOptions { whiten: true, ..options };
    let whitened = fit(&golden, "kpca", Task::Components, &whitened, |_| true);
    let mean_square = |j: usize| {
        let scores = golden.x.iter().map(|x| predict(&whitened, &golden.kernel, x)[j]);
        scores.map(|score| score * score).sum::<f64>() / golden.x.len() as f64
    };
    (0..6).for_each(|j| close(mean_square(j), 1.0, 1e-6, "whitened"));
}

#[test]
fn uncentred_components_are_those_of_the_kernel_matrix() {
    let golden = golden();
    let options = SolverOptions { components: Some(3), centre: false, ..SolverOptions::default() };
    let trained = fit(&golden, "kpca", Task::Components, &options, |_| true);
    // the first component of K by power iteration
    let k = kmill_tests::kernels::kernel(&golden.kernel);
    let n = golden.x.len();
    let (mut v, mut value) = (vec![1.0; n], 0.0);
    for _ in 0..2000 {
        let w: Vec<f64> = golden.x.iter().map(|x| golden.x.iter().zip(&v).map(|(z, v)| k(x, z) * v).sum()).collect();
        value = w.iter().map(|w| w * w).sum::<f64>().sqrt();
        v = w.iter().map(|w| w / value).collect();
    }
    close(figure(&trained, "variance")[0] * n as f64, value, 1e-9, "the first eigenvalue");
    assert!(trained.intercept.iter().all(|c| *c == 0.0));
}

#[test]
fn fisher_discriminants() {
    let golden = golden();
    for (name, classes) in [("fisher", 3.0), ("fisher_two", 2.0)] {
        let case = &golden.cases[name];
        let penalty = Penalty::Lambda(case["lambda"].as_f64().unwrap());
        let options = SolverOptions { penalty, ..SolverOptions::default() };
        let trained = fit(&golden, "fisher", Task::Classification, &options, |label| label < classes);
        let expected = rows(&case["scores"]);
        for (x, expected) in golden.new.iter().zip(&expected) {
            let got = predict(&trained, &golden.kernel, x);
            // scores of all classes may share a constant; scikit-learn's are compared by their differences
            for j in 0..expected.len() {
                close(got[j] - got[0], expected[j] - expected[0], 1e-6, name);
            }
            if expected.len() == 1 {
                close(got[0], expected[0], 1e-6, name);
            }
        }
        if classes == 3.0 {
            let ratios = figure(&trained, "discriminant ratio");
            let total: f64 = ratios.iter().sum();
            for (ratio, share) in ratios.iter().zip(numbers(&case["share"])) {
                close(ratio / total, share, 1e-6, "share of a discriminant");
            }
        }
    }
}
