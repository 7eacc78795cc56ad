//! Kernels so smooth that f32 cannot resolve the landmarks: the library notices, and the result is that of f64.

use kapprox::{MapSpec, Spec};
use kmill_tests::kernels;
use kmill_tests::points::Lcg;
use ksolve::train::{Choice, LandmarkSource, Resources, Scaling, Task, TrainOptions, Trained, Unwatched, train};
use ksolve::{FoldSpec, Intercept};
use kstore::sink::{self, Output, OutputColumn, OutputKind};
use kstore::{Selection, Table, Workers};

fn fit<T: kapprox::Real>(table: &Table, sigma: f64) -> Trained<T> {
    let selected = table.select(&Selection { targets: vec!["y".to_string()], ..Default::default() }).unwrap();
    let options = TrainOptions {
        task: Task::Regression,
        scaling: Scaling::None,
        kernel: Spec::parse(&format!("gaussian(sigma={sigma})")).unwrap(),
        map: MapSpec::default(),
        landmarks: LandmarkSource::default(),
        candidates: Some(10_000),
        rank: 150,
        tolerance: None,
        ranks: vec![150],
        lambdas: vec![1e-9],
        folds: FoldSpec::None,
        intercept: Intercept::Free,
        choice: Choice::Mse,
        seed: 1,
    };
    let resources =
        Resources { memory: 1 << 30, workers: &Workers::new(2), stages: &Unwatched, journal: None, scratch: None };
    train::<T>(&selected, &options, &resources).unwrap()
}

/// Mean squared error of f(x) = Σ α_j k(x, z_j) + c over the training rows, in f64 from the formula.
fn error<T: kapprox::Real>(trained: &Trained<T>, x: &[Vec<f64>], y: &[f64], sigma: f64) -> f64 {
    let k = kernels::kernel(&format!("gaussian(sigma={sigma})"));
    let points: Vec<Vec<f64>> = trained
        .basis
        .landmarks()
        .unwrap()
        .0
        .chunks(x[0].len())
        .map(|z| z.iter().map(|v| kstore::Real::to_f64(*v)).collect())
        .collect();
    let f = |x: &Vec<f64>| {
        let terms = points.iter().enumerate().map(|(j, z)| trained.coefficients[(j, 0)] * k(x, z));
        terms.sum::<f64>() + trained.intercept[0]
    };
    x.iter().zip(y).map(|(x, y)| (f(x) - y).powi(2)).sum::<f64>() / y.len() as f64
}

#[test]
fn smooth_kernels_fit_in_f32_as_in_f64() {
    let mut random = Lcg(8);
    let x: Vec<Vec<f64>> =
        random.normals(1_500, 3).into_iter().map(|r| r.iter().map(|v| f64::from(*v as f32)).collect()).collect();
    let y: Vec<f64> = x.iter().map(|r| (2.0 * r[0]).sin() + r[1] * r[2] + 0.05 * random.normal()).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    let columns: Vec<OutputColumn> =
        ["x0", "x1", "x2", "y"].into_iter().map(|n| OutputColumn::new(n, OutputKind::F64)).collect();
    let mut sink = sink::create(&path, &columns).unwrap();
    let mut values: Vec<Vec<f64>> = (0..3).map(|j| x.iter().map(|r| r[j]).collect()).collect();
    values.push(y.clone());
    sink.write(&values.iter().map(|v| Output::F64(v)).collect::<Vec<_>>()).unwrap();
    sink.finish().unwrap();
    let table = Table::open(&[path]).unwrap();

    for (sigma, wide) in [(1.0, false), (6.0, true)] {
        let (single, double) = (fit::<f32>(&table, sigma), fit::<f64>(&table, sigma));
        assert_eq!(single.wide, wide, "sigma = {sigma}");
        assert!(!double.wide);
        let (a, b) = (error(&single, &x, &y, sigma), error(&double, &x, &y, sigma));
        eprintln!("sigma {sigma}: rank {} mse f32 {a:.6e} (said {:.6e}), f64 {b:.6e}", single.rank, single.train.0);
        assert!((a / single.train.0 - 1.0).abs() < 1e-2, "sigma {sigma}: the fit says {}, it is {a}", single.train.0);
        assert!((a / b - 1.0).abs() < 0.1, "sigma {sigma}: f32 {a}, f64 {b}");
    }
}
