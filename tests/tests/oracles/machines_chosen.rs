//! One-vs-one SVMs, regularisation parameters chosen by cross-validation, and probabilities,
//! compared with LIBSVM and with fits without the held-out rows.

use crate::solvers::{close, golden, numbers, rows};
use kfit::request::TrainOptions;
use kfit::solver::Options;
use kmill_tests::points::Lcg;
use kmill_tests::table::{exact, predict, select, solve, write};
use ksolve::train::TrainedModel;
use ksolve::{Classes, FoldSpec, Link, Task};
use kstore::Label;

const KERNEL: &str = "gaussian(sigma=1.5)";

/// All rows as landmarks, and the exact kernel: two ways to compute the same SVM.
const MAPS: [&str; 2] = ["nystrom", "exact"];

fn fit(
    map: &str,
    x: &[Vec<f64>],
    y: &[f64],
    kernel: &str,
    folds: FoldSpec,
    solver: &Options,
    threads: usize,
) -> TrainedModel<f64> {
    fit_by((map, "svm"), Task::Classification, x, y, kernel, folds, solver, threads)
}

fn fit_by(
    (map, name): (&str, &str),
    task: Task,
    x: &[Vec<f64>],
    y: &[f64],
    kernel: &str,
    folds: FoldSpec,
    solver: &Options,
    threads: usize,
) -> TrainedModel<f64> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, x, y);
    let map = map.parse().unwrap();
    let options = TrainOptions { folds, map, ..exact(task, kernel, x.len()) };
    solve::<f64>(&select(&path, task), &options, name, solver, threads)
}

fn figure<'a>(trained: &'a TrainedModel<f64>, name: &str) -> &'a [f64] {
    &trained.report.figures.iter().find(|figure| figure.name == name).unwrap().values
}

fn classes(k: i64) -> Classes {
    Classes::new((0..k).map(Label::Int).collect()).unwrap()
}

#[test]
fn pairs_are_those_of_libsvm() {
    let golden = golden();
    let case = &golden.cases["pairs"];
    let solver = Options::new().set("C", case["c"].as_f64().unwrap()).set("multiclass", "one-vs-one").set("gap", 1e-8);
    for map in MAPS {
        let trained = fit(map, &golden.x, &golden.y, &golden.kernel, FoldSpec::None, &solver, 2);
        assert!(trained.model.metadata.one_vs_one && trained.model.intercept.len() == 3);
        for (x, expected) in golden.new.iter().zip(rows(&case["scores"])) {
            let got = predict(&trained, &golden.kernel, x);
            got.iter().zip(&expected).for_each(|(got, expected)| close(*got, *expected, 2e-3, "pairs"));
        }
        let (test, labels) = (rows(&golden.cases["test"]), numbers(&case["labels"]));
        let classes = classes(3).one_vs_one();
        let decided = test.iter().map(|x| classes.decide(predict(&trained, &golden.kernel, x)));
        let same = decided.zip(&labels).filter(|(got, label)| *got == **label as usize).count();
        assert!(same as f64 >= 0.998 * labels.len() as f64, "{map}: {same} of {}", labels.len());
    }
}

/// Rows of `k` overlapping classes, not sorted by class.
fn problem(n: usize, k: usize) -> (Vec<Vec<f64>>, Vec<f64>) {
    let mut random = Lcg(31);
    let y: Vec<f64> = (0..n).map(|i| ((i * 7 + i / 5) % k) as f64).collect();
    let x = y.iter().map(|y| vec![1.3 * y + random.normal(), random.normal() - 0.5 * y * y]).collect();
    (x, y)
}

/// A fold's SVMs equal a fit without its rows; warm starts and shared passes change nothing.
#[test]
fn errors_of_rows_held_out_are_those_of_fits_without_them() {
    let n = 120;
    let cases = [(2, false), (3, false), (3, true)];
    for (map, (k, pairs)) in MAPS.into_iter().flat_map(|map| cases.map(|case| (map, case))) {
        let (x, y) = problem(n, k);
        let path = [0.1, 1.0, 30.0];
        let base = Options::new().set("multiclass", if pairs { "one-vs-one" } else { "one-vs-rest" }).set("gap", 1e-7);
        let solver = base.clone().set("C", "0.1,1,30");
        let trained = fit(map, &x, &y, KERNEL, FoldSpec::Blocks(3), &solver, 2);
        let again = fit(map, &x, &y, KERNEL, FoldSpec::Blocks(3), &solver, 1);
        assert!(
            trained.model.coefficients == again.model.coefficients && trained.report.figures == again.report.figures
        );
        assert_eq!(figure(&trained, "C"), [0.1, 1.0, 30.0]);
        let errors = figure(&trained, "held-out error at each");
        let classes = if pairs { classes(k as i64).one_vs_one() } else { classes(k as i64) };
        for (penalty, error) in path.into_iter().zip(errors) {
            let mut wrong = 0;
            for fold in 0..3 {
                let held = |i: &usize| i / 40 == fold;
                let (inside, inside_y): (Vec<_>, Vec<_>) =
                    (0..n).filter(|i| !held(i)).map(|i| (x[i].clone(), y[i])).unzip();
                let solver = base.clone().set("C", penalty);
                let part = fit(map, &inside, &inside_y, KERNEL, FoldSpec::None, &solver, 2);
                let decided = (0..n).filter(held).map(|i| (classes.decide(predict(&part, KERNEL, &x[i])), y[i]));
                wrong += decided.filter(|(got, y)| *got != *y as usize).count();
            }
            assert!(
                (error * n as f64 - wrong as f64).abs() < 1e-9,
                "{map}, {k} classes, pairs {pairs}, {penalty}: {error} {wrong}"
            );
        }
        let best = errors.iter().copied().fold(f64::INFINITY, f64::min);
        let chosen = errors.iter().position(|error| *error == best).unwrap();
        assert_eq!(trained.report.lambda, Some(0.5 / (path[chosen] * n as f64)));
        // the chosen C gives the model of a fit with this C alone
        let alone = base.set("C", path[chosen]);
        let alone = fit(map, &x, &y, KERNEL, FoldSpec::None, &alone, 2);
        assert!(
            alone.model.coefficients == trained.model.coefficients && alone.model.intercept == trained.model.intercept
        );
        assert!(alone.model.metadata.link.is_none() && trained.model.metadata.link.is_none());
    }
}

/// The held-out error that chooses lambda equals the error of fits without the rows of each fold:
/// log-loss of logistic regression, squared error of support vector regression.
#[test]
fn penalties_of_other_solvers_are_chosen_by_fits_without_the_rows() {
    let n = 120;
    for (map, name, task, k) in [
        ("nystrom", "logistic", Task::Classification, 2),
        ("nystrom", "logistic", Task::Classification, 3),
        ("nystrom", "svr", Task::Regression, 3),
        ("exact", "svr", Task::Regression, 3),
    ] {
        let (x, mut y) = problem(n, k);
        let base = match name {
            "svr" => Options::new().set("gap", 1e-12).set("epsilon", 0.05),
            _ => Options::new(),
        };
        if name == "svr" {
            x.iter().zip(&mut y).for_each(|(x, y)| *y = 3.0 + x[0].sin() + 0.3 * x[1] + 0.2 * *y);
        }
        let path = [0.05, 1.0, 50.0];
        let by = |x: &[Vec<f64>], y: &[f64], folds, solver: &Options, threads| {
            fit_by((map, name), task, x, y, KERNEL, folds, solver, threads)
        };
        let solver = base.clone().set("C", "0.05,1,50");
        let trained = by(&x, &y, FoldSpec::Blocks(3), &solver, 2);
        let again = by(&x, &y, FoldSpec::Blocks(3), &solver, 1);
        assert!(
            trained.model.coefficients == again.model.coefficients && trained.report.figures == again.report.figures
        );
        let what = if name == "svr" { "held-out mse at each" } else { "held-out log-loss at each" };
        let errors = figure(&trained, what);
        for (penalty, error) in path.into_iter().zip(errors) {
            let mut sum = 0.0;
            for fold in 0..3 {
                let held = |i: &usize| i / 40 == fold;
                let (inside, inside_y): (Vec<_>, Vec<_>) =
                    (0..n).filter(|i| !held(i)).map(|i| (x[i].clone(), y[i])).unzip();
                let part = by(&inside, &inside_y, FoldSpec::None, &base.clone().set("C", penalty), 2);
                sum += (0..n).filter(held).map(|i| loss(k, name, predict(&part, KERNEL, &x[i]), y[i])).sum::<f64>();
            }
            let expected = sum / n as f64;
            assert!((error / expected - 1.0).abs() < 1e-5, "{map}, {name}, {k} classes, {penalty}: {error} {expected}");
        }
        let best = errors.iter().copied().fold(f64::INFINITY, f64::min);
        let chosen = errors.iter().position(|error| *error == best).unwrap();
        assert_eq!(trained.report.lambda, Some(0.5 / (path[chosen] * n as f64)), "{name}: {errors:?}");
        // the chosen C gives the model of a fit with this C alone
        let alone = by(&x, &y, FoldSpec::None, &base.set("C", path[chosen]), 2);
        assert!(
            alone.model.coefficients == trained.model.coefficients && alone.model.intercept == trained.model.intercept
        );
    }
}

/// Returns the squared error of a prediction, or −ln of the probability of class y.
fn loss(k: usize, name: &str, scores: Vec<f64>, y: f64) -> f64 {
    match (name, scores.len()) {
        ("svr", _) => (scores[0] - y).powi(2),
        (_, 1) => (1.0 + (scores[0] * (1.0 - 2.0 * y)).exp()).ln(),
        _ => {
            assert_eq!(scores.len(), k);
            scores.iter().map(|score| score.exp()).sum::<f64>().ln() - scores[y as usize]
        }
    }
}

/// Rows with known class probabilities: probabilities learned on held-out scores come near them;
/// probabilities learned on training scores would not.
#[test]
fn probabilities_are_calibrated() {
    let mut random = Lcg(33);
    let law = |x: &[f64]| 1.0 / (1.0 + (-(2.0 * x[0] + x[1])).exp());
    let mut sample = |n: usize| -> (Vec<Vec<f64>>, Vec<f64>) {
        let x = random.normals(n, 2);
        let y = x.iter().map(|x| f64::from(u8::from(random.uniform() < law(x)))).collect();
        (x, y)
    };
    let ((x, y), (test, _)) = (sample(600), sample(400));
    let solver = Options::new().set("C", 1.0).set("probabilities", true);
    for map in MAPS {
        let trained = fit(map, &x, &y, "gaussian(sigma=3)", FoldSpec::Random(5), &solver, 2);
        let Some(Link::Platt { a, b }) = &trained.model.metadata.link else {
            panic!("{map}: {:?}", trained.model.metadata.link)
        };
        assert!(a[0] < 0.0 && b[0].is_finite(), "{a:?} {b:?}");
        let link = trained.model.metadata.link.as_ref().unwrap();
        let off = |x: &Vec<f64>| {
            let mut out = Vec::new();
            link.probabilities(&predict(&trained, "gaussian(sigma=3)", x), &mut out);
            assert!((out[0] + out[1] - 1.0).abs() < 1e-12);
            (out[1] - law(x)).abs()
        };
        let mean = test.iter().map(off).sum::<f64>() / 400.0;
        assert!(mean < 0.06, "{map}: {mean}");
    }
}

/// Kernel, intercept, loss and class weights of SVMs whose leave-one-out errors are bounded.
fn bounded_cases() -> [(&'static str, &'static str, &'static str, [f64; 2]); 7] {
    let gaussian = "gaussian(sigma=12)";
    [
        ("linear()", "free", "hinge", [1.0, 1.0]),
        ("linear()", "free", "squared-hinge", [1.0, 1.0]),
        (gaussian, "free", "hinge", [1.0, 1.0]),
        (gaussian, "penalised", "hinge", [1.0, 1.0]),
        (gaussian, "penalised", "squared-hinge", [1.0, 1.0]),
        (gaussian, "none", "hinge", [1.0, 1.0]),
        // the bound divides by the smallest cost
        (gaussian, "free", "hinge", [2.0, 1.0]),
    ]
}

/// Margin, radius and bound are the dense formulas; the leave-one-out errors are below the bound.
#[test]
fn margins_and_radii_bound_the_leave_one_out_errors() {
    let n = 40;
    let mut random = Lcg(61);
    let y: Vec<f64> = (0..n).map(|i| (i % 2) as f64).collect();
    let x: Vec<Vec<f64>> = y.iter().map(|y| vec![7.0 + 12.0 * y + random.normal(), random.normal()]).collect();
    for (kernel, intercept, loss, weights) in bounded_cases() {
        let c = 0.7;
        let class_weight = format!("0={},1={}", weights[0], weights[1]);
        let solver = Options::new().set("C", c).set("gap", 1e-9).set("intercept", intercept).set("loss", loss);
        let solver = solver.set("class_weight", class_weight.as_str());
        let fit_rows = |x: &[Vec<f64>], y: &[f64]| fit("nystrom", x, y, kernel, FoldSpec::None, &solver, 1);
        let trained = fit_rows(&x, &y);
        let k = kmill_tests::kernels::kernel(kernel);
        let b = trained.model.intercept[0];
        let f: Vec<f64> = x.iter().map(|x| predict(&trained, kernel, x)[0]).collect();
        let (points, _) = trained.model.basis.landmarks().unwrap();
        let value_at = |z: &[f64]| predict(&trained, kernel, z)[0] - b;
        let squared_norm: f64 =
            points.chunks(2).enumerate().map(|(j, z)| trained.model.coefficients[(j, 0)] * value_at(z)).sum();
        close(figure(&trained, "margin")[0], squared_norm.sqrt().recip(), 1e-6, "margin");
        let grand_mean = x.iter().flat_map(|a| x.iter().map(|b| k(a, b))).sum::<f64>() / (n * n) as f64;
        let around_mean = |a: &Vec<f64>| k(a, a) + grand_mean - 2.0 * x.iter().map(|b| k(a, b)).sum::<f64>() / n as f64;
        let largest = |distance: &dyn Fn(&Vec<f64>) -> f64| x.iter().map(distance).fold(0.0, f64::max);
        let (from_mean, from_origin) = (largest(&around_mean), largest(&|a| k(a, a)));
        let is_free = intercept == "free";
        let squared_radius = if is_free { from_mean.min(from_origin) } else { from_origin };
        close(figure(&trained, "radius")[0], squared_radius.sqrt(), 1e-6, "radius");
        let slack = |i: usize| (1.0 - (2.0 * y[i] - 1.0) * f[i]).max(0.0);
        // the smallest weight is 1
        let weighted = |power: i32| (0..n).map(|i| weights[i % 2] * slack(i).powi(power)).sum::<f64>();
        let (slacks, squared_slacks) = (weighted(1), weighted(2));
        let kappa = if intercept == "penalised" { 1.0 } else { 0.0 };
        let reach = if is_free { 4.0 * squared_radius } else { squared_radius + kappa };
        let squared_norm = squared_norm + kappa * b * b;
        let bound = match loss {
            "hinge" => reach * (squared_norm + c * slacks) + slacks,
            _ => (reach + 1.0 / c) * (squared_norm + 2.0 * c * squared_slacks),
        };
        let reported = figure(&trained, "leave-one-out bound")[0];
        let case = format!("{kernel} {intercept} {loss} {weights:?}");
        close(reported, (bound / n as f64).min(1.0), 1e-6, &case);
        assert!(reported < 1.0, "{case}: a bound of 1 says nothing: {bound}");
        let is_error = |i: usize| {
            let others = |rows: &mut dyn Iterator<Item = usize>| rows.filter(|j| *j != i).collect::<Vec<_>>();
            let kept = others(&mut (0..n));
            let (x_kept, y_kept): (Vec<_>, Vec<_>) = kept.iter().map(|j| (x[*j].clone(), y[*j])).unzip();
            let score = predict(&fit_rows(&x_kept, &y_kept), kernel, &x[i])[0];
            (score > 0.0) != (y[i] > 0.5)
        };
        let errors = (0..n).filter(|i| is_error(*i)).count() as f64;
        assert!(errors / n as f64 <= reported, "{errors} errors of {n} rows, bound {reported}");
    }
}
