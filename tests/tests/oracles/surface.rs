//! The rank x lambda x fold surface from one pass compared with dense refits of every cell.

use kfit::request::{Resources, TrainOptions};
use kfit::solver::ridge::Ridge;
use kmill_tests::points::Lcg;
use kmill_tests::{dense, kernels, table};
use kmodel::Folds;
use ksolve::Task;
use ksolve::job::{NoStageObserver, Scaling};
use ksolve::train::{TrainedModel, train};
use ksolve::{FoldSpec, Intercept};
use kstore::Workers;
use std::path::Path;

fn smooth(n: usize) -> (Vec<Vec<f64>>, Vec<f64>) {
    let mut random = Lcg(5);
    let x = random.normals(n, 3);
    let y = x.iter().map(|r| 40.0 + (1.5 * r[0]).sin() * 2.0 + r[1] * r[2] + 0.1 * random.normal()).collect();
    (x, y)
}

fn rough(n: usize) -> (Vec<Vec<f64>>, Vec<f64>) {
    let mut random = Lcg(6);
    let x: Vec<Vec<f64>> = random.normals(n, 2).into_iter().map(|r| vec![r[0] * 30.0 + 500.0, r[1] * 0.01]).collect();
    let y = x.iter().map(|r| ((r[0] - 500.0) / 30.0).abs() - 100.0 * r[1] + 0.3 * random.normal()).collect();
    (x, y)
}

fn options(kernel: &str, intercept: Intercept, folds: &str) -> (TrainOptions, Ridge) {
    let options = TrainOptions {
        scaling: Scaling::Standard,
        candidates: Some(10_000),
        rank: 40,
        ranks: vec![10, 25, 40],
        folds: FoldSpec::parse(folds).unwrap(),
        seed: 3,
        ..table::exact(Task::Regression, kernel, 40)
    };
    (options, Ridge { lambdas: vec![1e-8, 1e-5, 1e-2], intercept, ..Ridge::default() })
}

/// Options for the largest rank at one lambda, without folds.
fn one_cell((options, ridge): &(TrainOptions, Ridge)) -> (TrainOptions, Ridge) {
    let options = TrainOptions { ranks: vec![40], folds: FoldSpec::None, ..options.clone() };
    (options, Ridge { lambdas: vec![1e-5], ..ridge.clone() })
}

fn fit(path: &Path, (options, ridge): &(TrainOptions, Ridge), threads: usize) -> (TrainedModel<f64>, u64) {
    let selected = table::select(path, Task::Regression);
    let workers = Workers::new(threads);
    let resources = Resources {
        memory: 1 << 30,
        workers: &workers,
        stage_observer: &NoStageObserver,
        journal: None,
        scratch: None,
    };
    let trained = train::<f64>(&selected, options, ridge, &resources).unwrap();
    (trained, selected.table().bytes_read())
}

/// Computes the features of the rows, columns of L⁻¹ k_S(x), from the formulas.
fn features(x: &[Vec<f64>], landmarks: &[Vec<f64>], kernel: &str) -> Vec<Vec<f64>> {
    let k = kernels::kernel(kernel);
    let m = landmarks.len();
    let mut l = vec![vec![0.0f64; m]; m];
    for i in 0..m {
        for j in 0..=i {
            let s = k(&landmarks[i], &landmarks[j]) - (0..j).map(|c| l[i][c] * l[j][c]).sum::<f64>();
            l[i][j] = if i == j { s.sqrt() } else { s / l[j][j] };
        }
    }
    x.iter()
        .map(|x| {
            let mut phi: Vec<f64> = Vec::with_capacity(m);
            for j in 0..m {
                let s = k(x, &landmarks[j]) - (0..j).map(|c| l[j][c] * phi[c]).sum::<f64>();
                phi.push(s / l[j][j]);
            }
            phi
        })
        .collect()
}

/// Computes the held-out squared error of one cell, refitted without the fold.
fn refit(phi: &[Vec<f64>], y: &[f64], out: &[bool], rank: usize, lambda: f64, intercept: Intercept) -> f64 {
    let train: Vec<usize> = (0..y.len()).filter(|i| !out[*i]).collect();
    let n = train.len() as f64;
    let free = intercept == Intercept::Free;
    let mean = |f: &dyn Fn(usize) -> f64| if free { train.iter().map(|i| f(*i)).sum::<f64>() / n } else { 0.0 };
    let row = |i: usize| -> Vec<f64> {
        let mut row = phi[i][..rank].to_vec();
        if intercept == Intercept::Penalised {
            row.push(1.0);
        }
        row
    };
    let p = row(0).len();
    let mu: Vec<f64> = (0..p).map(|j| mean(&|i| row(i)[j])).collect();
    let centre = mean(&|i| y[i]);
    let mut a = vec![vec![0.0; p]; p];
    let mut b = vec![0.0; p];
    for i in &train {
        let row: Vec<f64> = row(*i).iter().zip(&mu).map(|(v, m)| v - m).collect();
        for j in 0..p {
            b[j] += row[j] * (y[*i] - centre);
            for k in 0..p {
                a[j][k] += row[j] * row[k];
            }
        }
    }
    (0..p).for_each(|j| a[j][j] += lambda * n);
    let w = dense::solve(&a, &b);
    (0..y.len())
        .filter(|i| out[*i])
        .map(|i| {
            let f: f64 = centre + row(i).iter().zip(&mu).zip(&w).map(|((v, m), w)| (v - m) * w).sum::<f64>();
            (y[i] - f).powi(2)
        })
        .sum()
}

fn check(name: &str, (x, y): (Vec<Vec<f64>>, Vec<f64>), kernel: &str, intercept: Intercept, folds: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("{name}.parquet"));
    table::write(&path, &x, &y);
    let options = options(kernel, intercept, folds);
    // a fit of the largest rank alone gives all landmarks; they do not depend on the surface
    let basis = fit(&path, &one_cell(&options), 1).0.model.basis;
    let (trained, _) = fit(&path, &options, 2);
    assert_eq!(trained.report.passes, 3, "statistics, candidates, and one pass for the whole surface");

    let scaled: Vec<Vec<f64>> = x
        .iter()
        .map(|row| {
            (0..row.len()).map(|j| (row[j] - trained.model.scaler.centre[j]) / trained.model.scaler.scale[j]).collect()
        })
        .collect();
    let points: Vec<Vec<f64>> = basis.landmarks().unwrap().0.chunks(x[0].len()).map(<[f64]>::to_vec).collect();
    let phi = features(&scaled, &points, kernel);
    let cut = Folds::new(&options.0.folds, options.0.seed, 0..y.len() as u64, &[]).unwrap();
    let fold: Vec<usize> = (0..y.len()).map(|i| cut.fold_of(i as u64, 0).unwrap()).collect();
    for cell in &trained.report.surface {
        let sum: f64 = (0..cut.count())
            .map(|f| {
                let out: Vec<bool> = fold.iter().map(|g| *g == f).collect();
                refit(&phi, &y, &out, cell.rank, cell.lambda, intercept)
            })
            .sum();
        let expected = sum / y.len() as f64;
        let got = cell.cv_mse.unwrap();
        let relative = (got / expected - 1.0).abs();
        assert!(relative < 1e-6, "{name} rank {} lambda {:e}: {got} against {expected}", cell.rank, cell.lambda);
    }
}

#[test]
fn surface_equals_refitting_each_cell() {
    check("smooth", smooth(700), "gaussian(sigma=1.5)", Intercept::Free, "5");
    check("rough", rough(600), "matern(nu=1.5, sigma=2)", Intercept::Free, "blocks:4");
    check("smooth", smooth(500), "laplacian(sigma=3)", Intercept::Penalised, "3");
    check("rough", rough(500), "exponential(sigma=2)", Intercept::None, "5");
}

#[test]
fn more_cells_read_no_more_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("smooth.parquet");
    let (x, y) = smooth(2_000);
    table::write(&path, &x, &y);
    let many = options("gaussian(sigma=1.5)", Intercept::Free, "5");
    let single = one_cell(&many);
    let ((a, read_many), (b, read_single)) = (fit(&path, &many, 1), fit(&path, &single, 1));
    assert_eq!((a.report.passes, read_many), (b.report.passes, read_single));
    assert_eq!(a.report.surface.len(), 9);
}
