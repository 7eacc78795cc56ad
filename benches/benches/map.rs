//! The Nyström map on a tile, and a whole training run from a Parquet file.
//!
//! `cargo bench -p kmill-benches -- map`

use criterion::{BenchmarkId, Criterion, Throughput};
use faer::{Mat, MatRef};
use kapprox::Kernel;
use kapprox::{FeatureMap, LandmarkSet, NystromMap, Real};
use kfit::request::{Resources, TrainOptions};
use kfit::solver::ridge::Ridge;
use ksolve::Task;
use ksolve::job::{LandmarkSource, NoStageObserver};
use ksolve::train::train;
use kstore::key::{Purpose, Stream};
use kstore::sink::{self, OutputColumn, OutputKind, OutputValues};
use kstore::{Selection, Table, Workers};
use std::time::Duration;

const ROWS: usize = 2048;

fn points<T: Real>(n: usize, d: usize, stream: u64) -> Vec<T> {
    let keys = Stream::new(0, Purpose::Data, stream);
    (0..n * d).map(|i| T::from_f64(3.4 * keys.uniform(i as u64) - 1.7)).collect()
}

/// Maps a tile of rows to features: kernel block and triangular solve, in useful flops 2nmd + nm².
fn map<T: Real>(c: &mut Criterion, m: usize, d: usize, threads: usize) {
    let kernel = Kernel::parse("gaussian(sigma=5)").unwrap().build().unwrap();
    let rows = (0..m as u64).collect();
    let landmarks = LandmarkSet { points: points::<T>(m, d, 1), row_numbers: rows, d, passes: 0, evaluations: 0 };
    let map = NystromMap::new(&kernel, landmarks, &Workers::sequential()).unwrap();
    let (x, workers) = (points::<T>(ROWS, d, 2), Workers::new(threads));
    let x = MatRef::from_row_major_slice(&x, ROWS, d);
    let mut phi = Mat::<T>::zeros(ROWS, map.rank());
    let mut group = c.benchmark_group("map");
    group.sample_size(10).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(4));
    group.throughput(Throughput::Elements((ROWS * m * (2 * d + m)) as u64));
    let id = BenchmarkId::new(format!("{} d={d} threads={threads}", T::NAME), m);
    group.bench_function(id, |b| b.iter(|| map.apply(x, phi.as_mut(), &workers)));
    group.finish();
}

pub(crate) fn maps(c: &mut Criterion) {
    for threads in [1, 2] {
        map::<f32>(c, 2000, 29, threads);
        map::<f32>(c, 2000, 90, threads);
        map::<f64>(c, 2000, 29, threads);
    }
}

/// Measures a run from a Parquet file: statistics, candidates, landmarks, Gram matrix and solve.
pub(crate) fn run(c: &mut Criterion) {
    let (n, d) = (65_536, 16);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    let columns: Vec<OutputColumn> = (0..=d)
        .map(|j| OutputColumn::new(if j == d { "y".to_string() } else { format!("x{j}") }, OutputKind::F32))
        .collect();
    let values: Vec<Vec<f32>> = (0..=d).map(|j| points::<f32>(n, 1, j as u64)).collect();
    let mut sink = sink::create(&path, &columns).unwrap();
    sink.write(&values.iter().map(|v| OutputValues::F32(v)).collect::<Vec<_>>()).unwrap();
    sink.finish().unwrap();

    let table = Table::open(&[&path]).unwrap();
    let selected = table.select(&Selection { targets: vec!["y".to_string()], ..Selection::default() }).unwrap();
    let workers = Workers::new(2);
    let resources = Resources {
        memory: 4 << 30,
        workers: &workers,
        stage_observer: &NoStageObserver,
        journal: None,
        scratch: None,
    };
    let mut group = c.benchmark_group("run");
    group.sample_size(10).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(10));
    group.throughput(Throughput::Elements(n as u64));
    for (landmarks, rank) in [("uniform", 100), ("uniform", 500), ("rpcholesky", 500)] {
        let options = TrainOptions {
            landmarks: LandmarkSource::Scheme(landmarks.to_string()),
            candidates: Some(50_000),
            ..TrainOptions::new(Task::Regression, Kernel::parse("gaussian(sigma=4)").unwrap(), rank)
        };
        group.bench_function(BenchmarkId::new(landmarks, rank), |b| {
            b.iter(|| train::<f32>(&selected, &options, &Ridge::default(), &resources).unwrap());
        });
    }
    group.finish();
}
