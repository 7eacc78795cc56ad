//! Logistic regression and SVMs with many more rows than features start on a sample of the rows and
//! sample their Hessians: whatever the path, the solution is stationary by the formula.
//!
//! With f = Σ_l α_l k(z_l, ·) + c and the losses' derivatives r_i, the gradient of
//! (1/n) Σ ℓ_i + lambda ‖w‖² in the coordinates of the landmarks is
//! (1/n) Σ_i r_i k(z_j, x_i) + 2 lambda Σ_l k(z_j, z_l) α_l.

use kfit::request::TrainOptions;
use kfit::solver::Options;
use kmill_tests::kernels::kernel;
use kmill_tests::points::Lcg;
use kmill_tests::table::{exact, predict, select, solve, write};
use ksolve::Task;
use ksolve::train::TrainedModel;

const KERNEL: &str = "gaussian(sigma=1.5)";
const LAMBDA: f64 = 1e-4;

/// Overlapping classes, sorted: a sample of the first rows would contain only one class.
fn problem(k: usize) -> (Vec<Vec<f64>>, Vec<f64>) {
    let (n, mut random) = (1_500, Lcg(41));
    let y: Vec<f64> = (0..n).map(|i| (i * k / n) as f64).collect();
    let x = y.iter().map(|y| vec![0.9 * y + random.normal(), random.normal() - 0.4 * y * y]).collect();
    (x, y)
}

fn fit(x: &[Vec<f64>], y: &[f64], name: &str, solver: &Options) -> TrainedModel<f64> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, x, y);
    let options = TrainOptions { rank: 40, ranks: vec![40], ..exact(Task::Classification, KERNEL, x.len()) };
    let selected = select(&path, Task::Classification);
    let solver = solver.clone().set("lambda", LAMBDA);
    let trained = solve::<f64>(&selected, &options, name, &solver, 1);
    let again = solve::<f64>(&selected, &options, name, &solver, 3);
    assert!(
        trained.model.coefficients == again.model.coefficients && trained.model.intercept == again.model.intercept,
        "{name}: other bits"
    );
    trained
}

/// Returns the largest gradient entry relative to f = 0, given the derivatives of a row's losses.
fn gradient(trained: &TrainedModel<f64>, x: &[Vec<f64>], derivatives: impl Fn(usize, &[f64]) -> Vec<f64>) -> f64 {
    let (k, t, n) = (kernel(KERNEL), trained.model.intercept.len(), x.len() as f64);
    let (points, _) = trained.model.basis.landmarks().unwrap();
    let landmarks: Vec<&[f64]> = points.chunks(x[0].len()).collect();
    let at = |f: &dyn Fn(usize) -> Vec<f64>, scale: f64| -> Vec<f64> {
        let r: Vec<Vec<f64>> = (0..x.len()).map(|i| derivatives(i, &f(i))).collect();
        let constants = (0..t).map(|j| r.iter().map(|r| r[j]).sum::<f64>() / n);
        let entries = landmarks.iter().flat_map(|z| {
            let (r, k, landmarks) = (&r, &k, &landmarks);
            (0..t).map(move |j| {
                let rows: f64 = x.iter().zip(r).map(|(x, r)| r[j] * k(z, x)).sum::<f64>() / n;
                let own: f64 =
                    landmarks.iter().enumerate().map(|(l, y)| k(z, y) * trained.model.coefficients[(l, j)]).sum();
                rows + scale * 2.0 * LAMBDA * own
            })
        });
        entries.chain(constants).collect()
    };
    let largest = |values: Vec<f64>| values.into_iter().map(f64::abs).fold(0.0, f64::max);
    let here = largest(at(&|i| predict(trained, KERNEL, &x[i]), 1.0));
    here / largest(at(&|_| vec![0.0; t], 0.0))
}

#[test]
fn logistic_regression_is_stationary() {
    for k in [2, 4] {
        let (x, y) = problem(k);
        let trained = fit(&x, &y, "logistic", &Options::new());
        let share = gradient(&trained, &x, |i, f| {
            let f = if f.len() == 1 { vec![0.0, f[0]] } else { f.to_vec() };
            let sum: f64 = f.iter().map(|f| f.exp()).sum();
            let r = f.iter().enumerate().map(|(j, f)| f.exp() / sum - f64::from(y[i] as usize == j));
            if k == 2 { r.skip(1).collect() } else { r.collect() }
        });
        assert!(share < 1e-8, "{k} classes: {share:e}");
    }
}

/// 27 passes pay for the blocks of the Hessian at 200 features: no step computes them at once, but
/// a small lambda needs many iterations with one preconditioner for all classes.
#[test]
fn blocks_of_few_rows_replace_iterations() {
    let (x, y) = problem(4);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, &x, &y);
    let kernel = "laplacian(sigma=0.5)";
    let options = TrainOptions { rank: 200, ranks: vec![200], ..exact(Task::Classification, kernel, x.len()) };
    let solver = Options::new().set("lambda", 1e-7);
    let trained = solve::<f64>(&select(&path, Task::Classification), &options, "logistic", &solver, 2);
    let passes = trained.report.passes;
    assert!(passes < 600, "{passes} passes");
}

#[test]
fn the_squared_hinge_is_stationary() {
    for k in [2, 4] {
        let (x, y) = problem(k);
        let options = Options::new().set("loss", "squared-hinge").set("gap", 1e-13);
        let trained = fit(&x, &y, "svm", &options);
        let share = gradient(&trained, &x, |i, f| {
            let side = |j: usize| if y[i] as usize == if k == 2 { 1 } else { j } { 1.0 } else { -1.0 };
            f.iter().enumerate().map(|(j, f)| -2.0 * side(j) * (1.0 - side(j) * f).max(0.0)).collect()
        });
        assert!(share < 1e-6, "{k} classes: {share:e}");
    }
}

#[test]
fn the_hinge_keeps_its_certificate() {
    for k in [2, 4] {
        let (x, y) = problem(k);
        let trained = fit(&x, &y, "svm", &Options::new().set("gap", 1e-6));
        let figure = |name: &str| &trained.report.figures.iter().find(|figure| figure.name == name).unwrap().values;
        let scores: Vec<Vec<f64>> = x.iter().map(|x| predict(&trained, KERNEL, x)).collect();
        let (points, _) = trained.model.basis.landmarks().unwrap();
        let landmarks: Vec<&[f64]> = points.chunks(2).collect();
        let kernel = kernel(KERNEL);
        for j in 0..trained.model.intercept.len() {
            let class = if k == 2 { 1 } else { j };
            let side = |y: &f64| if *y as usize == class { 1.0 } else { -1.0 };
            let loss: f64 = scores.iter().zip(&y).map(|(f, y)| (1.0 - side(y) * f[j]).max(0.0)).sum();
            let a = |l: usize| trained.model.coefficients[(l, j)];
            let products = landmarks
                .iter()
                .enumerate()
                .map(|(l, z)| a(l) * landmarks.iter().enumerate().map(|(m, y)| a(m) * kernel(z, y)).sum::<f64>());
            let objective = loss / x.len() as f64 + LAMBDA * products.sum::<f64>();
            let reported = figure("objective")[j];
            assert!((objective - reported).abs() < 1e-8 * reported, "{objective} {reported}");
            assert!(figure("duality gap")[j] <= 1e-6, "{:?}", figure("duality gap"));
        }
    }
}
