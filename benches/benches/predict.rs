//! Predictions of a model in memory by the number of rows: f32, Gaussian, 1,000 landmarks, 10
//! features, one output. They are compared with a plain loop and with the kernel block of a single
//! row, which is the cost of predicting one row as a small batch.
//!
//! `cargo bench -p kmill-benches -- predict`

use criterion::{BenchmarkId, Criterion, Throughput};
use faer::{Mat, MatRef};
use kapprox::landmark::NO_ROW;
use kmodel::PredictScratch;
use kmodel::model::{Basis, BasisTransform};
use ksolve::{Intercept, Model, ModelMetadata, Task};
use kstore::key::{Purpose, Stream};
use kstore::{Scaler, Workers};
use std::hint::black_box;
use std::time::Duration;

const LANDMARKS: usize = 1000;
const FEATURES: usize = 10;

fn model() -> Model<f32> {
    let random = Stream::new(0, Purpose::Data, 0);
    let value = |i: usize| random.uniform(i as u64) * 2.0 - 1.0;
    Model {
        metadata: ModelMetadata {
            task: Task::Regression,
            solver: "ridge".into(),
            kernel: "gaussian(sigma=3)".into(),
            second_view: None,
            members: vec![],
            precision: "f32".into(),
            leaf_kernel: None,
            distributions: Vec::new(),
            map: "nystrom".into(),
            rank: LANDMARKS,
            lambda: None,
            intercept: Intercept::Free,
            encoding: None,
            text_reading: kstore::TextReadOptions::default(),
            features: (0..FEATURES).map(|j| format!("x{j}")).collect(),
            targets: vec!["y".into()],
            classes: vec![],
            link: None,
            loss: None,
            one_vs_one: false,
            certificate: None,
            rows: 0,
            online_rows: 0,
            growth: None,
            seed: 0,
            landmarks: None,
            asinh: false,
            ranges: Vec::new(),
            clusters: Vec::new(),
            cluster_axes: Vec::new(),
            options: serde_json::Value::Null,
        },
        basis: Basis::Landmarks {
            points: (0..LANDMARKS * FEATURES).map(|i| value(i) as f32).collect(),
            row_numbers: vec![NO_ROW; LANDMARKS],
        },
        transform: BasisTransform::default(),
        coefficients: Mat::from_fn(LANDMARKS, 1, |i, _| value(1_000_000 + i)),
        intercept: vec![0.5],
        intervals: None,
        scaler: Scaler {
            centre: vec![0.0; FEATURES],
            scale: vec![1.0; FEATURES],
            mean: vec![0.0; FEATURES],
            ..Scaler::default()
        },
        metric: None,
        quadratic: None,
        components: None,
        leaves: None,
    }
}

/// Predicts one row by a straightforward loop.
fn plain_loop(x: &[f32], z: &[f32], alpha: &[f64]) -> f64 {
    let kernel = |z: &[f32]| {
        let squared: f32 = x.iter().zip(z).map(|(x, z)| (x - z) * (x - z)).sum();
        (-squared / 18.0).exp()
    };
    z.chunks_exact(FEATURES).zip(alpha).map(|(z, alpha)| f64::from(kernel(z)) * alpha).sum()
}

pub(crate) fn predictions(criterion: &mut Criterion) {
    let model = model();
    let (basis, kernel) = (model.functions().expect("a kernel that exists"), model.kernel().expect("the same"));
    let random = Stream::new(1, Purpose::Data, 0);
    let x: Vec<f32> = (0..4096 * FEATURES).map(|i| random.uniform(i as u64) as f32 * 2.0 - 1.0).collect();
    let z = model.basis.landmarks().expect("a basis of landmarks").0;
    let mut group = criterion.benchmark_group("predict");
    group.sample_size(30).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    group.bench_function("plain loop/1", |bench| {
        bench.iter(|| plain_loop(black_box(&x[..FEATURES]), z, model.coefficients.col_as_slice(0)));
    });
    let mut values = Mat::<f32>::zeros(1, LANDMARKS);
    let points = MatRef::from_row_major_slice(z, LANDMARKS, FEATURES);
    group.bench_function("block/1", |bench| {
        bench.iter(|| kernel.block(MatRef::from_row_major_slice(&x[..FEATURES], 1, FEATURES), points, values.as_mut()));
    });
    let mut scratch = PredictScratch::new(&basis);
    let workers = Workers::sequential();
    for rows in [1, 8, 32, 64, 256, 4096] {
        let x = MatRef::from_row_major_slice(&x[..rows * FEATURES], rows, FEATURES);
        let mut out = Mat::zeros(rows, 1);
        group.throughput(Throughput::Elements(rows as u64));
        group.bench_function(BenchmarkId::new("scratch", rows), |bench| {
            bench.iter(|| model.predict_with_scratch(&basis, black_box(x), out.as_mut(), &mut scratch));
        });
        group.bench_function(BenchmarkId::new("batch", rows), |bench| {
            bench.iter(|| model.predict(&basis, black_box(x), out.as_mut(), &workers));
        });
    }
    group.finish();
}
