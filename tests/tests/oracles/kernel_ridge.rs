//! Ridge regression by conjugate gradient, and on the exact kernel, compared with dense systems and
//! scikit-learn's `KernelRidge` (`scripts/golden.py ridge`).

use faer::linalg::solvers::Solve;
use faer::{Mat, Side};
use kfit::request::{Resources, TrainOptions};
use kfit::solver::ridge::{Preconditioner, Ridge, RidgeMethod};
use kmill_tests::dense::{eigenvalues, kernel_matrix, solve};
use kmill_tests::kernels::kernel;
use kmill_tests::points::Lcg;
use kmill_tests::table::{exact, predict, select, write};
use ksolve::Intercept;
use ksolve::Task;
use ksolve::job::{LandmarkSource, NoStageObserver};
use ksolve::train::{TrainedModel, forecast, train};
use kstore::{SelectedTable, Workers};
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

/// Writes a table to disk; the folder lives as long as the returned guard.
fn table(x: &[Vec<f64>], y: &[f64], task: Task) -> (TempDir, SelectedTable) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, x, y);
    let selected = select(&path, task);
    (folder, selected)
}

type Job = (TrainOptions, Ridge);

fn fit<T: kapprox::Real>(
    selected: &SelectedTable,
    (options, ridge): &Job,
    threads: usize,
    memory: usize,
) -> TrainedModel<T> {
    let workers = Workers::new(threads);
    let resources =
        Resources { memory, workers: &workers, stage_observer: &NoStageObserver, journal: None, scratch: None };
    train::<T>(selected, options, ridge, &resources).unwrap()
}

fn figure<'a, T: kapprox::Real>(trained: &'a TrainedModel<T>, name: &str) -> &'a [f64] {
    &trained.report.figures.iter().find(|figure| figure.name == name).unwrap().values
}

fn largest(v: &[f64]) -> f64 {
    v.iter().fold(0.0, |most, v| most.max(v.abs()))
}

/// Options for the exact kernel at one lambda.
fn on_all_rows(task: Task, spec: &str, n: usize, lambda: f64, method: RidgeMethod, intercept: Intercept) -> Job {
    let residual = (method == RidgeMethod::Pcg).then_some(1e-12);
    let options = TrainOptions {
        map: "exact".parse().unwrap(),
        landmarks: LandmarkSource::default(),
        rank: 40,
        ranks: vec![40],
        ..exact(task, spec, n)
    };
    (options, Ridge { lambdas: vec![lambda], intercept, method, residual, ..Ridge::default() })
}

/// tr G(G + lambda·n·I)⁻¹ has the eigenvalues of the kernel matrix if all rows are landmarks.
#[test]
fn the_effective_dimension_is_a_sum_over_eigenvalues() {
    let (n, lambda, spec) = (40, 1e-3, "gaussian(sigma=0.8)");
    let mut random = Lcg(11);
    let x = random.normals(n, 2);
    let y: Vec<f64> = x.iter().map(|x| x[0].sin() + 0.1 * random.normal()).collect();
    let (_folder, selected) = table(&x, &y, Task::Regression);
    let k = kernel_matrix(&x, &*kernel(spec));
    let row_mean = |i: usize| k[i].iter().sum::<f64>() / n as f64;
    let mean = (0..n).map(row_mean).sum::<f64>() / n as f64;
    for intercept in INTERCEPTS {
        let entry = |i: usize, j: usize| match intercept {
            Intercept::Free => k[i][j] - row_mean(i) - row_mean(j) + mean,
            Intercept::Penalised => k[i][j] + 1.0,
            Intercept::None => k[i][j],
        };
        let gram = (0..n).map(|i| (0..n).map(|j| entry(i, j)).collect()).collect();
        let ridge_term = lambda * n as f64;
        let expected: f64 = eigenvalues(gram).iter().map(|value| value / (value + ridge_term)).sum();
        let options = TrainOptions { ranks: vec![n], ..exact(Task::Regression, spec, n) };
        let job = (options, Ridge { lambdas: vec![lambda], intercept, ..Ridge::default() });
        let trained = fit::<f64>(&selected, &job, 1, 1 << 30);
        let found = figure(&trained, "effective dimension");
        assert!((found[0] / expected - 1.0).abs() < 1e-6, "{intercept:?}: {found:?} {expected}");
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
    let left_out = numbers(&golden["left_out"]);
    let loo = left_out.iter().zip(&y).map(|(f, y)| (y - f).powi(2)).sum::<f64>() / y.len() as f64;
    for method in [RidgeMethod::Direct, RidgeMethod::Pcg] {
        let mut options = on_all_rows(Task::Regression, spec, x.len(), lambda, method, Intercept::None);
        options.1.computes_loo = method == RidgeMethod::Direct;
        let trained = fit::<f64>(&selected, &options, 2, 1 << 30);
        assert_eq!((trained.report.rank, trained.model.intercept[0]), (200, 0.0));
        assert_eq!(trained.report.train.and_then(|train| train.loo_mse).is_some(), method == RidgeMethod::Direct);
        trained
            .report
            .train
            .and_then(|train| train.loo_mse)
            .inspect(|found| assert!((found / loo - 1.0).abs() < 1e-8, "{found} {loo}"));
        for (x, expected) in new.iter().zip(&expected) {
            let got = predict(&trained, spec, x)[0];
            assert!((got - expected).abs() < 1e-8 * expected.abs().max(1.0), "{method:?}: {got} {expected}");
        }
    }
}

/// Returns dual coefficients and intercept: a bordered system if it is free, k + 1 if penalised.
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

/// The reported residual bounds the error of the fitted values relative to the centred target. This
/// holds in f32 too, since the residual uses the kernel in f64.
#[test]
fn the_residual_bounds_the_error_of_fitted_values_in_both_precisions() {
    fn check<T: kapprox::Real>(x: &[Vec<f64>], y: &[f64]) {
        let (n, spec) = (x.len(), "gaussian(sigma=1.5)");
        let (_folder, selected) = table(x, y, Task::Regression);
        let mean = y.iter().sum::<f64>() / n as f64;
        let length = y.iter().map(|y| (y - mean).powi(2)).sum::<f64>().sqrt();
        let matrix = kernel_matrix(x, &*kernel(spec));
        for (lambda, asked) in [(1e-6, None), (1e-8, None), (1e-8, Some(1e-3)), (1e-9, None)] {
            let (alpha, c) = dense(x, y, spec, lambda, Intercept::Free);
            let mut options = on_all_rows(Task::Regression, spec, n, lambda, RidgeMethod::Pcg, Intercept::Free);
            options.1.residual = asked;
            let trained = fit::<T>(&selected, &options, 2, 1 << 30);
            let fitted = |a: &dyn Fn(usize) -> f64, i: usize| (0..n).map(|j| matrix[i][j] * a(j)).sum::<f64>();
            let off = |i: usize| {
                let found = fitted(&|j| trained.model.coefficients[(j, 0)], i) + trained.model.intercept[0];
                found - fitted(&|j| alpha[j], i) - c
            };
            let error = (0..n).map(|i| off(i).powi(2)).sum::<f64>().sqrt() / length;
            let residual = figure(&trained, "residual")[0];
            eprintln!(
                "{} lambda {lambda:e}, asked {asked:?}: residual {residual:.1e}, fitted off by {error:.1e}",
                T::NAME
            );
            assert!(error <= 1.01 * residual + 1e-12, "{} {lambda:e}: {error:e} {residual:e}", T::NAME);
            // A product with the matrix in f64 has this rounding error, and so has a residual
            // computed from it: a smaller residual cannot be reached.
            let frobenius = matrix.iter().flatten().map(|k| k * k).sum::<f64>().sqrt();
            let a = alpha.iter().map(|a| a * a).sum::<f64>().sqrt();
            let rounding = 2.0 * f64::EPSILON * frobenius * a / length;
            eprintln!("  rounding of a product {rounding:.1e}");
            // nor can it if rounding in `T` moves the matrix by ten λn: refinement does not
            // contract
            let moved = T::EPSILON / 2.0 * frobenius / (10.0 * lambda * n as f64);
            let asked = options.1.residual_tolerance::<T>();
            let reached = if rounding <= asked && moved <= 1.0 { asked } else { 1e-3 };
            assert!(residual <= reached, "{} {lambda:e}: {residual:e}", T::NAME);
        }
    }
    let (x, y) = problem(330);
    // rounded to f32, so that both precisions have the same rows
    let x: Vec<Vec<f64>> = x.iter().map(|row| row.iter().map(|v| f64::from(*v as f32)).collect()).collect();
    check::<f64>(&x, &y);
    check::<f32>(&x, &y);
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
            for method in [RidgeMethod::Direct, RidgeMethod::Pcg] {
                let options = on_all_rows(Task::Regression, spec, n, lambda, method, intercept);
                let trained = fit::<f64>(&selected, &options, 2, 1 << 30);
                for z in &new {
                    let (got, expected) = (predict(&trained, spec, z)[0], at(z));
                    assert!((got - expected).abs() < 1e-7 * (1.0 + expected.abs()), "{method:?}: {got} {expected}");
                }
                let found = trained.report.train.unwrap().mse;
                assert!((found / mse - 1.0).abs() < 1e-6, "{method:?}, {intercept}: {found} {mse}");
                if method == RidgeMethod::Pcg && intercept == Intercept::None {
                    let a = trained.model.coefficients.col_as_slice(0);
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

/// Computes the leave-one-out error by dense fits at the same lambda·n.
fn left_out(x: &[Vec<f64>], y: &[f64], spec: &str, lambda: f64, intercept: Intercept) -> f64 {
    let (n, k) = (x.len(), kernel(spec));
    let squared = |i: usize| {
        let others = |j: &usize| *j != i;
        let rows: Vec<Vec<f64>> = (0..n).filter(others).map(|j| x[j].clone()).collect();
        let targets: Vec<f64> = (0..n).filter(others).map(|j| y[j]).collect();
        let (alpha, c) = dense(&rows, &targets, spec, lambda * n as f64 / (n - 1) as f64, intercept);
        (y[i] - c - rows.iter().zip(&alpha).map(|(z, a)| a * k(&x[i], z)).sum::<f64>()).powi(2)
    };
    (0..n).map(squared).sum::<f64>() / n as f64
}

#[test]
fn leave_one_out_is_that_of_refits_on_the_exact_kernel_and_on_landmarks() {
    let (x, y) = problem(110);
    let (_folder, selected) = table(&x, &y, Task::Regression);
    let spec = "gaussian(sigma=1.5)";
    for intercept in INTERCEPTS {
        let lambda = 1e-4;
        let expected = left_out(&x, &y, spec, lambda, intercept);
        let mut dual = on_all_rows(Task::Regression, spec, 110, lambda, RidgeMethod::Direct, intercept);
        let mut primal = on_landmarks(110, 110, lambda, Ridge::default(), intercept);
        for job in [&mut dual, &mut primal] {
            job.1.computes_loo = true;
            let found = fit::<f64>(&selected, job, 2, 1 << 30).report.train.and_then(|train| train.loo_mse).unwrap();
            assert!((found / expected - 1.0).abs() < 1e-8, "{intercept}, {}: {found} {expected}", job.0.map);
        }
        let again = fit::<f64>(&selected, &primal, 1, 1 << 30).report.train.and_then(|train| train.loo_mse);
        assert_eq!(again, fit::<f64>(&selected, &primal, 3, 1 << 30).report.train.and_then(|train| train.loo_mse));
    }
}

#[test]
fn classes_are_solved_together_and_threads_and_memory_change_no_bit() {
    let (x, values) = problem(900);
    let label = |y: f64| if y < 2.5 { 0.0 } else { f64::from(u8::from(y > 3.5)) + 1.0 };
    let labels: Vec<f64> = values.iter().map(|y| label(*y)).collect();
    let (_folder, selected) = table(&x, &labels, Task::Classification);
    let (spec, lambda) = ("gaussian(sigma=1.5)", 1e-6);
    let options = on_all_rows(Task::Classification, spec, 900, lambda, RidgeMethod::Pcg, Intercept::Free);
    let trained = fit::<f64>(&selected, &options, 1, 1 << 30);
    let again = fit::<f64>(&selected, &options, 3, 100 << 20);
    assert!(trained.model.coefficients == again.model.coefficients && trained.model.intercept == again.model.intercept);
    assert_eq!((trained.model.coefficients.ncols(), figure(&trained, "iterations").len()), (3, 3));
    for class in 0..3 {
        let codes: Vec<f64> = labels.iter().map(|l| if *l == class as f64 { 1.0 } else { -1.0 }).collect();
        let (alpha, c) = dense(&x[..], &codes, spec, lambda, Intercept::Free);
        assert!((trained.model.intercept[class] - c).abs() < 1e-6, "{class}");
        let difference: Vec<f64> =
            alpha.iter().zip(trained.model.coefficients.col_as_slice(class)).map(|(a, b)| a - b).collect();
        assert!(largest(&difference) < 1e-6 * largest(&alpha), "{class}: {:e}", largest(&difference));
    }
}

/// Options for landmarks, for either method.
fn on_landmarks(n: usize, m: usize, lambda: f64, ridge: Ridge, intercept: Intercept) -> Job {
    let options = TrainOptions { rank: m, ranks: vec![m], ..exact(Task::Regression, "gaussian(sigma=1.5)", n) };
    (options, Ridge { lambdas: vec![lambda], intercept, ..ridge })
}

#[test]
fn conjugate_gradient_on_landmarks_is_the_direct_solution() {
    let (x, y) = problem(1500);
    let (_folder, selected) = table(&x, &y, Task::Regression);
    let spec = "gaussian(sigma=1.5)";
    // 8 x 60 rows of sketch. The two differ if landmarks are numerically dependent: the iteration
    // is in coefficients of kernel sections, whose Gram matrix squares the condition number.
    for (m, lambda) in [(60, 1e-7), (60, 1e-4)] {
        for intercept in INTERCEPTS {
            let direct = Ridge { method: RidgeMethod::Direct, ..Ridge::default() };
            let direct = on_landmarks(1500, m, lambda, direct, intercept);
            let direct = fit::<f64>(&selected, &direct, 2, 1 << 30);
            assert!(direct.report.method.is_none());
            for preconditioner in [Preconditioner::Krill, Preconditioner::Falkon] {
                let residual = Some(1e-10);
                let preconditioned = Some(preconditioner);
                let pcg =
                    Ridge { method: RidgeMethod::Pcg, preconditioner: preconditioned, residual, ..Ridge::default() };
                let pcg = fit::<f64>(&selected, &on_landmarks(1500, m, lambda, pcg, intercept), 2, 1 << 30);
                let (mut worst, mut scale) = (0.0f64, 0.0f64);
                for z in x.iter().take(200) {
                    let (a, b) = (predict(&direct, spec, z)[0], predict(&pcg, spec, z)[0]);
                    (worst, scale) = (worst.max((a - b).abs()), scale.max(a.abs()));
                }
                let (iterations, error) = (figure(&pcg, "iterations")[0], worst / scale);
                let case = format!("m {m}, {lambda:e}, {intercept}, {preconditioner:?}");
                eprintln!("{case}: {iterations} iterations, {error:.1e}");
                assert!(error < 1e-7, "{case}: {error:e}");
                let (a, b) = (direct.report.train.unwrap().mse, pcg.report.train.unwrap().mse);
                assert!((a / b - 1.0).abs() < 1e-6, "{case}: {a} {b}");
                // each iteration multiplies the error by .35, and 1e-10 takes 22
                assert!(preconditioner == Preconditioner::Falkon || iterations <= 22.0, "{case}: {iterations}");
            }
        }
    }
}

/// Computes (1/n) Σ (y − f(x))² + lambda‖f‖² of a model, and its minimum over the landmarks' span,
/// in f64 from the kernel's formula and along eigenvectors of the landmarks' matrix.
fn objectives<T: kapprox::Real>(
    found: &TrainedModel<T>,
    spec: &str,
    x: &[Vec<f64>],
    y: &[f64],
    lambda: f64,
) -> [f64; 2] {
    let (n, k, (points, _)) = (y.len(), kernel(spec), found.model.basis.landmarks().unwrap());
    let wide = |z: &[T]| z.iter().map(|v| kstore::Float::to_f64(*v)).collect::<Vec<_>>();
    let z: Vec<Vec<f64>> = points.chunks(x[0].len()).map(wide).collect();
    let square = Mat::from_fn(z.len(), z.len(), |i, j| k(&z[i], &z[j]));
    let errors = x.iter().zip(y).map(|(x, y)| (predict(found, spec, x)[0] - y).powi(2)).sum::<f64>();
    let a = &found.model.coefficients;
    let of_model = errors / n as f64 + lambda * (a.transpose() * &square * a)[(0, 0)];

    let eigen = square.self_adjoint_eigen(Side::Lower).unwrap();
    let (u, s): (_, Vec<f64>) = (eigen.U(), eigen.S().column_vector().iter().copied().collect());
    let first = s.iter().position(|v| *v > 1e-14 * s[s.len() - 1]).unwrap();
    let basis = Mat::from_fn(z.len(), z.len() - first, |i, j| u[(i, first + j)] / s[first + j].sqrt());
    let mut phi = Mat::from_fn(n, z.len(), |i, j| k(&x[i], &z[j])) * basis;
    let centre = |v: &mut [f64]| {
        let mean = v.iter().sum::<f64>() / v.len() as f64;
        v.iter_mut().for_each(|v| *v -= mean);
    };
    (0..phi.ncols()).for_each(|j| centre(phi.col_as_slice_mut(j)));
    let mut y = Mat::from_fn(n, 1, |i, _| y[i]);
    centre(y.col_as_slice_mut(0));
    let mut system = phi.transpose() * &phi;
    (0..phi.ncols()).for_each(|j| system[(j, j)] += lambda * n as f64);
    let w = system.llt(Side::Lower).unwrap().solve(phi.transpose() * &y);
    [of_model, (&y - &phi * &w).squared_norm_l2() / n as f64 + lambda * w.squared_norm_l2()]
}

/// Errors of f32 kernel values act as features, almost unpenalised if landmarks are nearly
/// dependent: the iteration must not solve the problem with them, whatever its residual.
#[test]
fn conjugate_gradient_in_f32_comes_to_the_optimum() {
    let (x, y) = problem(1000);
    // rounded to f32
    let x: Vec<Vec<f64>> = x.iter().map(|row| row.iter().map(|v| f64::from(*v as f32)).collect()).collect();
    let (_folder, selected) = table(&x, &y, Task::Regression);
    for (spec, m, lambda, wide) in [
        ("gaussian(sigma=3)", 120, 1e-7, true),
        ("gaussian(sigma=3)", 120, 1e-9, true),
        ("gaussian(sigma=10)", 50, 1e-10, true),
        ("gaussian(sigma=1.5)", 100, 1e-4, false),
    ] {
        for preconditioner in [Preconditioner::Krill, Preconditioner::Falkon] {
            let ridge = Ridge { method: RidgeMethod::Pcg, preconditioner: Some(preconditioner), ..Ridge::default() };
            let (options, ridge) = on_landmarks(1000, m, lambda, ridge, Intercept::Free);
            let (landmarks, kernel) = (LandmarkSource::default(), kapprox::Kernel::parse(spec).unwrap());
            let found = fit::<f32>(&selected, &(TrainOptions { landmarks, kernel, ..options }, ridge), 2, 1 << 30);
            let [objective, best] = objectives(&found, spec, &x, &y, lambda);
            let (why, residual) = (&found.report.method.as_ref().unwrap().why, figure(&found, "residual")[0]);
            let case = format!("{spec}, m {m}, lambda {lambda:e}, {preconditioner:?}");
            let excess = objective / best - 1.0;
            eprintln!("{case}: {excess:.1e} above the optimum, residual {residual:.1e}, {why}");
            assert!(excess.abs() < 1e-6, "{case}: {excess:e}");
            assert_eq!(why.contains("in f64"), wide, "{case}: {why}");
        }
    }
}

#[test]
fn blocks_in_memory_in_scratch_and_computed_again_are_the_same() {
    let (x, y) = problem(60_000);
    let (_folder, selected) = table(&x, &y, Task::Regression);
    let ridge = Ridge { method: RidgeMethod::Pcg, ..Ridge::default() };
    let (options, ridge) = on_landmarks(60_000, 200, 1e-4, ridge, Intercept::Free);
    let options = TrainOptions { candidates: Some(500), ..options };
    let job = (options.clone(), ridge.clone());
    let budget = 1 << 30;
    let workers = Workers::new(2);
    let resources =
        Resources { memory: budget, workers: &workers, stage_observer: &NoStageObserver, journal: None, scratch: None };
    let found = forecast::<f32>(&selected, &options, &ridge, &resources).unwrap();
    let plans: Vec<kstore::MemoryPlan> = found.stages.into_iter().map(|stage| stage.plan).collect();
    let last = plans.last().unwrap();
    let kept = last.terms.last().unwrap();
    assert!(kept.name.contains("kernel blocks of all rows"), "{}", kept.name);
    let trained = fit::<f32>(&selected, &job, 1, budget);
    assert!(trained.report.method.as_ref().unwrap().why.contains("all rows"), "{:?}", trained.report.method);
    // the preceding stage stores the blocks too
    let memory = plans.iter().map(kstore::MemoryPlan::bytes).max().unwrap() - kept.bytes / 2;
    // blocks recomputed each time, stored in scratch, and partly both
    let folder = tempfile::tempdir().unwrap();
    for (bytes, in_scratch, computed) in [(0, false, true), (1 << 30, true, false), (30 << 20, true, true)] {
        let scratch = kstore::scratch::ScratchFolder::open(folder.path(), bytes).unwrap();
        let (workers, scratch) = (Workers::new(3), (bytes > 0).then_some(&scratch));
        let resources =
            Resources { memory, workers: &workers, stage_observer: &NoStageObserver, journal: None, scratch };
        let again = train::<f32>(&selected, &options, &ridge, &resources).unwrap();
        let why = &again.report.method.as_ref().unwrap().why;
        assert_eq!(
            (why.contains("in scratch"), why.contains("recomputed in every iteration")),
            (in_scratch, computed),
            "{why}"
        );
        assert!(!why.contains("all rows"), "{why}");
        assert!(
            trained.model.coefficients == again.model.coefficients && trained.model.intercept == again.model.intercept,
            "other bits: {why}"
        );
        assert!(again.report.passes > trained.report.passes, "{} {}", again.report.passes, trained.report.passes);
        assert_eq!(scratch.map_or(bytes, kstore::scratch::ScratchFolder::remaining), bytes, "scratch is given back");
    }
}
