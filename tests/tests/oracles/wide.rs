//! Kernels so smooth that f32 cannot resolve the landmarks: the fit must still agree with f64.

use kfit::request::{Resources, TrainOptions};
use kfit::solver::ridge::Ridge;
use kmill_tests::points::Lcg;
use kmill_tests::table;
use ksolve::Task;
use ksolve::job::{LandmarkSource, NoStageObserver};
use ksolve::train::{TrainedModel, train};
use kstore::Workers;
use std::path::Path;

/// Above the rounding of products in f32, 6e-8: at 1e-9 it is a matter of chance whether the system
/// of a smooth kernel is definite (9 of 20 such tables were rejected).
const LAMBDA: f64 = 1e-7;

fn fit<T: kapprox::Real>(path: &Path, sigma: f64) -> TrainedModel<T> {
    let options = TrainOptions {
        landmarks: LandmarkSource::default(),
        candidates: Some(10_000),
        seed: 1,
        ..table::exact(Task::Regression, &format!("gaussian(sigma={sigma})"), 150)
    };
    let ridge = Ridge { lambdas: vec![LAMBDA], ..Ridge::default() };
    let resources = Resources {
        memory: 1 << 30,
        workers: &Workers::new(2),
        stage_observer: &NoStageObserver,
        journal: None,
        scratch: None,
    };
    train::<T>(&table::select(path, Task::Regression), &options, &ridge, &resources).unwrap()
}

/// Mean squared error over the training rows, in f64 from the formula.
fn error<T: kapprox::Real>(trained: &TrainedModel<T>, x: &[Vec<f64>], y: &[f64], sigma: f64) -> f64 {
    let kernel = format!("gaussian(sigma={sigma})");
    x.iter().zip(y).map(|(x, y)| (table::predict(trained, &kernel, x)[0] - y).powi(2)).sum::<f64>() / y.len() as f64
}

#[test]
fn smooth_kernels_fit_in_f32_as_in_f64() {
    let mut random = Lcg(8);
    let x: Vec<Vec<f64>> =
        random.normals(1_500, 3).into_iter().map(|r| r.iter().map(|v| f64::from(*v as f32)).collect()).collect();
    let y: Vec<f64> = x.iter().map(|r| (2.0 * r[0]).sin() + r[1] * r[2] + 0.05 * random.normal()).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    table::write(&path, &x, &y);

    for (sigma, wide) in [(1.0, false), (6.0, true)] {
        let (single, double) = (fit::<f32>(&path, sigma), fit::<f64>(&path, sigma));
        assert_eq!(single.needs_f64, wide, "sigma = {sigma}");
        assert!(!double.needs_f64);
        let (a, b) = (error(&single, &x, &y, sigma), error(&double, &x, &y, sigma));
        let said = single.report.train.unwrap().mse;
        eprintln!("sigma {sigma}: rank {} mse f32 {a:.6e} (said {:.6e}), f64 {b:.6e}", single.report.rank, said);
        assert!((a / said - 1.0).abs() < 1e-2, "sigma {sigma}: the fit says {}, it is {a}", said);
        assert!((a / b - 1.0).abs() < 0.1, "sigma {sigma}: f32 {a}, f64 {b}");
    }
}
