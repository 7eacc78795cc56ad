//! Predictions for a few rows: bit-identical to a large batch, without allocation.
use crate::allocations;
use crate::model::model;
use faer::{Mat, MatRef};
use kapprox::Real;
use kmodel::PredictScratch;
use kmodel::model::Basis;
use ksolve::job::{Fit, Run};
use ksolve::predict::Predictor;
use ksolve::predict::{Extras, Scores};
use ksolve::{Error, Model};
use kstore::Workers;

const D: usize = 10;

/// Returns a model of a kernel on features x0, x1, … with the first `m` [`rows`] as landmarks.
fn of_kernel<T: Real>(kernel: &str, m: usize, t: usize) -> Model<T> {
    let mut model = model::<T>(m, D, t);
    model.metadata.kernel = kernel.to_string();
    model.basis = Basis::Landmarks { points: rows(m), row_numbers: (0..m as u64).collect() };
    model
}

/// Returns an example of every registered kernel, and kernel expressions.
fn kernels() -> Vec<&'static str> {
    let expressions = [
        "linear(on=[x1, x5]) + 0.5*laplacian(sigma=3)*matern(nu=1.5, sigma=2, on=x2..x9)",
        "exp(0.1*gaussian(sigma=1, on=x0..x6))",
        "power(gaussian(sigma=1) + linear(), degree=2)",
        "normalised(polynomial(degree=2, c0=1, gamma=0.5))",
    ];
    kapprox::kernel::registry().into_iter().map(|family| family.example).chain(expressions).collect()
}

/// Rows in [0, 1], where every kernel is defined.
fn rows<T: Real>(n: usize) -> Vec<T> {
    (0..n * D).map(|i| T::from_f64((i as f64 * 0.37).sin().abs())).collect()
}

fn a_row_alone_is_the_row_in_a_batch<T: Real>() {
    let (m, n) = (157, 1000);
    let x = rows::<T>(n);
    let x = MatRef::from_row_major_slice(&x, n, D);
    for (kernel, t) in kernels().into_iter().flat_map(|kernel| [(kernel, 1), (kernel, 3)]) {
        let model = of_kernel::<T>(kernel, m, t);
        let basis = model.functions().unwrap();
        let mut batch = Mat::zeros(n, t);
        model.predict(&basis, x, batch.as_mut(), &Workers::sequential()).unwrap();
        let mut scratch = PredictScratch::new(&basis);
        for (first, count) in [(0, 1), (517, 1), (999, 1), (3, 2), (250, 9), (400, 33)] {
            let (some, want) = (x.subrows(first, count), batch.subrows(first, count));
            let (mut by_scratch, mut plain) = (Mat::zeros(count, t), Mat::zeros(count, t));
            model.predict_with_scratch(&basis, some, by_scratch.as_mut(), &mut scratch).unwrap();
            model.predict(&basis, some, plain.as_mut(), &Workers::sequential()).unwrap();
            assert!(by_scratch == want && plain == want, "{kernel} {}: {count} rows from {first}", T::NAME);
        }
    }
}

#[test]
fn a_row_has_the_same_bits_alone_and_among_a_thousand() {
    a_row_alone_is_the_row_in_a_batch::<f32>();
    a_row_alone_is_the_row_in_a_batch::<f64>();
}

fn allocations_of<T: Real>(kernel: &str, count: usize, t: usize) -> u64 {
    let model = of_kernel::<T>(kernel, 1000, t);
    let basis = model.functions().unwrap();
    let (x, mut out) = (rows::<T>(count), Mat::zeros(count, t));
    let x = MatRef::from_row_major_slice(&x, count, D);
    let mut scratch = PredictScratch::new(&basis);
    allocations::of(|| model.predict_with_scratch(&basis, x, out.as_mut(), &mut scratch).unwrap())
}

#[test]
fn a_few_rows_are_predicted_without_allocation() {
    assert!(allocations::of(|| drop(vec![0u8; 3])) == 1, "counts nothing");
    for kernel in kernels() {
        for (count, t) in [(1, 1), (1, 10), (8, 1), (20, 3)] {
            let counts = [allocations_of::<f32>(kernel, count, t), allocations_of::<f64>(kernel, count, t)];
            assert_eq!(counts, [0, 0], "{kernel}: {count} rows, {t} outputs");
        }
    }
}

#[test]
fn scratch_of_another_model_is_refused() {
    let (small, large) = (of_kernel::<f32>("gaussian()", 5, 1), of_kernel::<f32>("gaussian(sigma=1)", 50, 1));
    let small = Model { metadata: large.metadata.clone(), ..small };
    let mut scratch = PredictScratch::new(&small.functions().unwrap());
    let (basis, x, mut out) = (large.functions().unwrap(), Mat::<f32>::zeros(1, D), Mat::zeros(1, 1));
    let refused = large.predict_with_scratch(&basis, x.as_ref(), out.as_mut(), &mut scratch);
    assert!(matches!(refused, Err(Error::Shape { expected: 400, got: 40, .. })), "{refused:?}");
}

#[test]
fn deviations_are_the_column_that_is_written() {
    let x: Vec<f64> = (0..400).map(|i| f64::from(i) / 20.0).collect();
    let y: Vec<f64> = x.iter().map(|x| x.sin() + 0.1 * (37.0 * x).cos()).collect();
    let table = kstore::Table::from_rows(&x, 1, &y).unwrap();
    let (fit, run) = (Fit::ridge().set("std", true).rank(30), Run::new());
    let model = Predictor::new(fit.fit_table(&table, &["y"], &run).unwrap().model).unwrap();
    let selected = model.select(&table, kstore::Selection::default()).unwrap();
    let (extras, mut found) = (Extras { std: true, ..Extras::default() }, Vec::new());
    let take = |scores: &Scores| {
        found.extend(model.standard_deviations(scores));
        Ok(())
    };
    model.score_table(&selected, extras, Vec::new(), &run, take).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.npy");
    model.write(&selected, None, extras, &path, &run).unwrap();
    // columns x0, x1, x2: prediction, std, std_mean
    let written = kstore::Table::open(&[path]).unwrap();
    let only = kstore::Selection { features: vec!["x1".to_string()], ..Default::default() };
    let rows = written.select(&only).unwrap().rows::<f64>(kstore::ReadSettings::default()).unwrap();
    let mut buf = kstore::RowBuf::new(400);
    kstore::RowSource::open(&rows, 0..400).unwrap().next(&mut buf).unwrap();
    assert!(found.len() == 400 && found == buf.x, "{:?} {:?}", &found[..3], &buf.x[..3]);
    assert!(found.iter().all(|deviation| (0.05..0.2).contains(deviation)));
}
