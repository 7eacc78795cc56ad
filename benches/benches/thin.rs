//! Products of many features with a few columns, compared with faer's general product. Throughput
//! in flops, 2bpc, on one thread.
//!
//! `cargo bench -p kmill-benches -- thin`
#![allow(missing_docs, reason = "a bench")]

use criterion::{BenchmarkId, Criterion, Throughput};
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use kapprox::thin;
use kstore::key::{Purpose, Stream};
use std::time::Duration;

/// Rows and features of a strip, with the shape that the solvers use.
const ROWS: usize = 512;
const FEATURES: usize = 1000;

fn numbers(count: usize, round: u64) -> Vec<f32> {
    let keys = Stream::new(0, Purpose::Data, round);
    (0..count).map(|i| keys.uniform(i as u64) as f32 - 0.5).collect()
}

fn products(c: &mut Criterion, columns: usize) {
    let (x, w, right) = (numbers(ROWS * FEATURES, 0), numbers(FEATURES * columns, 1), numbers(ROWS * columns, 2));
    let (mut out, mut product, mut sums) =
        (vec![0.0; ROWS * columns], vec![0.0; FEATURES * columns], vec![0.0; FEATURES * columns]);
    let mut group = c.benchmark_group("thin");
    group.sample_size(20).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    group.throughput(Throughput::Elements((2 * ROWS * FEATURES * columns) as u64));
    let id = |what: &str| BenchmarkId::new(what, columns);
    group.bench_function(id("times"), |b| b.iter(|| thin::multiply(&x, &w, FEATURES, &mut out)));
    let phi = MatRef::from_row_major_slice(&x, ROWS, FEATURES);
    let weights = MatRef::from_row_major_slice(&w, FEATURES, columns);
    group.bench_function(id("times, faer"), |b| {
        b.iter(|| {
            let to = MatMut::from_row_major_slice_mut(&mut out, ROWS, columns);
            matmul(to, Accum::Replace, phi, weights, 1.0, Par::Seq);
        });
    });
    group.bench_function(id("transposed"), |b| {
        b.iter(|| thin::add_transposed_product(&x, FEATURES, 0, &right, &mut sums));
    });
    let rights = MatRef::from_row_major_slice(&right, ROWS, columns);
    group.bench_function(id("transposed, faer"), |b| {
        b.iter(|| {
            let to = MatMut::from_row_major_slice_mut(&mut product, FEATURES, columns);
            matmul(to, Accum::Replace, phi.transpose(), rights, 1.0, Par::Seq);
        });
    });
    group.finish();
}

pub(crate) fn thin_products(c: &mut Criterion) {
    [1, 2, 10, 19, 40].into_iter().for_each(|columns| products(c, columns));
}
