//! All rows as landmarks: features reproduce K, and ridge on them is kernel ridge regression.

use faer::{Mat, MatRef};
use kapprox::landmark::LandmarkSet;
use kapprox::map::Projected;
use kapprox::{FeatureMap, NystromMap};
use kfit::RidgeGrid;
use kfit::request::{Resources, TrainOptions};
use kfit::solver::ridge::Ridge;
use kmill_tests::dense::{kernel_matrix, solve};
use kmill_tests::fit::kernel;
use kmill_tests::points::{Lcg, flat};
use kmill_tests::{kernels, table};
use kmodel::{Folds, MomentReduction, Targets};
use ksolve::Task;
use ksolve::job::NoStageObserver;
use ksolve::train::{TrainedModel, train};
use ksolve::{FoldSpec, Intercept};
use kstore::{MemoryRows, Pass, Workers};

const KERNELS: [&str; 4] =
    ["gaussian(sigma=1.5)", "laplacian(sigma=2)", "matern(nu=1.5, sigma=2)", "polynomial(gamma=0.5, c0=1, degree=2)"];

/// Returns the Cholesky and the eigen map with all rows as landmarks.
fn maps(rows: &[Vec<f64>], spec: &str) -> [(&'static str, Box<dyn FeatureMap<f64>>); 2] {
    let n = rows.len();
    let numbers = (0..n as u64).collect();
    let all = LandmarkSet { points: flat(rows), row_numbers: numbers, d: rows[0].len(), passes: 0, evaluations: 0 };
    let any = kernel(spec);
    let cholesky = NystromMap::new(&any, all.clone(), &Workers::sequential()).unwrap();
    [("cholesky", Box::new(cholesky)), ("eigen", Box::new(Projected::eigen(&any, all, n).unwrap()))]
}

fn features(map: &dyn FeatureMap<f64>, rows: &[Vec<f64>]) -> Mat<f64> {
    let (n, d) = (rows.len(), rows[0].len());
    let mut phi = Mat::zeros(n, map.dims().1);
    map.apply(MatRef::from_row_major_slice(&flat(rows), n, d), phi.as_mut(), &Workers::new(2));
    phi
}

fn problem(n: usize) -> (Vec<Vec<f64>>, Vec<f64>) {
    let mut random = Lcg(16);
    let rows = random.normals(n, 3);
    let y = rows.iter().map(|x| (1.5 * x[0]).sin() + x[1] * x[2] + 0.1 * random.normal()).collect();
    (rows, y)
}

/// Computes f(x) = Σ_i α_i k(x, x_i) with α = (K + λnI)⁻¹ y.
fn dual(rows: &[Vec<f64>], y: &[f64], spec: &str, lambda: f64, at: &[Vec<f64>]) -> Vec<f64> {
    let k = kernels::kernel(spec);
    let mut a = kernel_matrix(rows, &*k);
    (0..rows.len()).for_each(|i| a[i][i] += lambda * rows.len() as f64);
    let alpha = solve(&a, y);
    at.iter().map(|x| rows.iter().zip(&alpha).map(|(z, alpha)| alpha * k(x, z)).sum()).collect()
}

#[test]
fn features_reproduce_the_kernel_matrix() {
    let rows = problem(150).0;
    for spec in KERNELS {
        let k = kernel_matrix(&rows, &*kernels::kernel(spec));
        for (name, map) in maps(&rows, spec) {
            let phi = features(&*map, &rows);
            let error = (&phi * phi.transpose() - Mat::from_fn(150, 150, |i, j| k[i][j])).norm_max();
            eprintln!("{spec}, {name}: rank {}, largest entry of K − ΦΦᵀ {error:.1e}", phi.ncols());
            assert!(error < 1e-10, "{spec}, {name}: {error:e}");
        }
    }
}

/// With the library's pass and solver, at training rows and at new rows.
#[test]
fn ridge_on_exact_features_is_dual_kernel_ridge() {
    let (rows, y) = problem(120);
    let new = Lcg(17).normals(40, 3);
    let workers = Workers::new(2);
    let source = MemoryRows::new(flat(&rows), 3).unwrap().with_targets(y.clone(), 1).unwrap();
    let folds = Folds::new(&FoldSpec::None, 0, 0..120, &[]).unwrap();
    let targets = Targets::Numeric { centre: vec![0.0] };
    for spec in KERNELS {
        for (name, map) in maps(&rows, spec) {
            let pass = Pass::new(32, 64, &workers);
            let state = pass.reduce(&source, &MomentReduction::<f64>::new(&*map, &folds, &targets)).unwrap().0;
            let p = map.dims().1;
            for lambda in [1e-6, 1e-3, 1.0] {
                let options = RidgeGrid {
                    ranks: vec![p],
                    lambdas: vec![lambda],
                    intercept: Intercept::None,
                    target_centre: vec![0.0],
                };
                let head = kfit::fit(&state.gram, p, lambda, &options, &workers).unwrap().head;
                assert_eq!(head.intercept, [0.0]);
                for at in [&rows, &new] {
                    let (phi, expected) = (features(&*map, at), dual(&rows, &y, spec, lambda, at));
                    let scale = expected.iter().fold(0.0f64, |most, v| most.max(v.abs()));
                    let found = &phi * &head.weights;
                    let worst = (0..at.len()).map(|i| (found[(i, 0)] - expected[i]).abs()).fold(0.0, f64::max);
                    eprintln!("{spec}, {name}, lambda {lambda:e}: {:.1e}", worst / scale);
                    assert!(worst <= 1e-8 * scale, "{spec}, {name}, lambda {lambda:e}: {worst:e} of {scale}");
                }
            }
        }
    }
}

fn fit(map: &str, rows: &[Vec<f64>], y: &[f64], spec: &str, lambdas: &[f64], folds: FoldSpec) -> TrainedModel<f64> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    table::write(&path, rows, y);
    let options = TrainOptions { map: map.parse().unwrap(), folds, ..table::exact(Task::Regression, spec, rows.len()) };
    let ridge = Ridge { lambdas: lambdas.to_vec(), intercept: Intercept::None, ..Ridge::default() };
    let workers = Workers::new(2);
    let resources = Resources {
        memory: 1 << 30,
        workers: &workers,
        stage_observer: &NoStageObserver,
        journal: None,
        scratch: None,
    };
    train::<f64>(&table::select(&path, Task::Regression), &options, &ridge, &resources).unwrap()
}

/// The training and held-out errors of a fit equal the errors of dense kernel ridge regression.
#[test]
fn training_at_full_rank_is_dual_kernel_ridge() {
    let (rows, y) = problem(120);
    let mse =
        |found: &[f64], y: &[f64]| found.iter().zip(y).map(|(f, y)| (f - y).powi(2)).sum::<f64>() / y.len() as f64;
    for (map, spec) in ["nystrom", "eigen"].iter().flat_map(|map| KERNELS[..3].iter().map(move |spec| (map, spec))) {
        for lambda in [1e-5, 1e-2] {
            let trained = fit(map, &rows, &y, spec, &[lambda], FoldSpec::None);
            assert_eq!(trained.report.rank, 120);
            let certificate = trained.report.certificate.unwrap();
            assert!(certificate.trace_error < 1e-12, "{certificate:?}");
            let expected = mse(&dual(&rows, &y, spec, lambda, &rows), &y);
            assert!(
                (trained.report.train.unwrap().mse / expected - 1.0).abs() < 1e-8,
                "{map}, {spec}, {lambda:e}: {} {expected}",
                trained.report.train.unwrap().mse
            );
        }
        // features depend on held-out rows, coefficients do not: (K + λn'I)⁻¹y of the n' others
        let trained = fit(map, &rows, &y, spec, &[1e-5, 1e-2], FoldSpec::Blocks(3));
        for cell in &trained.report.surface {
            let mut sum = 0.0;
            for fold in 0..3 {
                let out = |i: usize| i / 40 == fold;
                let pick = |held: bool| (0..120).filter(move |i| out(*i) == held).collect::<Vec<_>>();
                let of = |at: &[usize]| at.iter().map(|i| (rows[*i].clone(), y[*i])).unzip::<_, _, Vec<_>, Vec<_>>();
                let ((inside, y_inside), (outside, y_outside)) = (of(&pick(false)), of(&pick(true)));
                sum += mse(&dual(&inside, &y_inside, spec, cell.lambda, &outside), &y_outside) / 3.0;
            }
            let found = cell.cv_mse.unwrap();
            assert!((found / sum - 1.0).abs() < 1e-8, "{map}, {spec}, {:e}: {found} {sum}", cell.lambda);
        }
    }
}
