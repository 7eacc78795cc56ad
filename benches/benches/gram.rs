//! The Gram update of a block of rows. Throughput in useful flops, n·m² for n rows, m features.
//!
//! `cargo bench -p kmill-benches -- gram`
#![allow(missing_docs, clippy::unwrap_used, reason = "a bench")]

use criterion::{BenchmarkId, Criterion, Throughput};
use faer::Mat;
use kapprox::Real;
use kmodel::{GramScratch, GramState};
use kstore::Workers;
use std::time::Duration;

const ROWS: usize = 2048;

fn update<T: Real>(c: &mut Criterion, m: usize, t: usize, threads: usize) {
    let keys = kstore::key::Stream::new(0, kstore::key::Purpose::Data, 0);
    let phi = Mat::from_fn(ROWS, m, |i, j| T::from_f64(keys.uniform((j * ROWS + i) as u64) - 0.5));
    let y = Mat::from_fn(ROWS, t, |i, j| keys.uniform((i * t + j) as u64));
    let (mut state, mut scratch, workers) = (GramState::new(m, t, 1), GramScratch::default(), Workers::new(threads));
    let mut group = c.benchmark_group("gram");
    group.sample_size(10).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(4));
    group.throughput(Throughput::Elements((ROWS * m * m) as u64));
    let id = BenchmarkId::new(format!("{} t={t} threads={threads}", T::NAME), m);
    group.bench_function(id, |b| {
        b.iter(|| state.update(0, phi.as_ref(), y.as_ref(), &mut scratch, &workers).unwrap());
    });
    group.finish();
}

pub(crate) fn gram(c: &mut Criterion) {
    for m in [2048, 4096] {
        for threads in [1, 2] {
            update::<f32>(c, m, 1, threads);
            update::<f64>(c, m, 1, threads);
        }
        update::<f32>(c, m, 19, 1);
    }
}
