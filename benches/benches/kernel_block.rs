//! A block of each kernel, compared with the bare matrix product of the same shape in the same run;
//! only the ratios matter.
//!
//! `cargo bench -p kmill-benches -- kernel_block`

use criterion::{BenchmarkId, Criterion, Throughput};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};
use kapprox::Real;
use kapprox::kernel::{Kernel, registry};
use std::time::Duration;

/// Rows of a strip, landmarks, and rows of the block that contains the strip.
const SHAPE: (usize, usize, usize) = (256, 2048, 4096);

/// Returns points between −1 and 1 from a linear congruential generator.
fn points<T: Real>(n: usize, d: usize, seed: u64) -> Vec<T> {
    let mut state = seed;
    (0..n * d)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            T::from_f64((state >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
        })
        .collect()
}

fn blocks<T: Real>(criterion: &mut Criterion, d: usize) {
    let (b, m, tall) = SHAPE;
    let (x, z) = (points::<T>(b, d, 1), points::<T>(m, d, 2));
    let (x, z) = (MatRef::from_row_major_slice(&x, b, d), MatRef::from_row_major_slice(&z, m, d));
    let mut block = Mat::<T>::zeros(tall, m);
    let mut group = criterion.benchmark_group(format!("block/{}/d={d}", T::NAME));
    group.throughput(Throughput::Elements((b * m) as u64));
    group.sample_size(20).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(600));
    group.bench_function("product", |bench| {
        bench.iter(|| {
            let out = block.as_mut().subrows_mut(0, b);
            matmul(out, Accum::Replace, x, z.transpose(), T::from_f64(1.0), Par::Seq);
        });
    });
    for family in registry() {
        let variants = if family.name.starts_with("matern") { &[0.5, 1.5, 2.5][..] } else { &[0.0][..] };
        for nu in variants {
            let text = family.example.replace("nu=1.5", &format!("nu={nu}"));
            let kernel = Kernel::parse(&text).and_then(|spec| spec.build()).expect("examples are right").typed::<T>();
            group.bench_function(BenchmarkId::from_parameter(&text), |bench| {
                bench.iter(|| kernel.block(x, z, block.as_mut().subrows_mut(0, b)));
            });
        }
    }
    group.finish();
}

pub(crate) fn kernel_blocks(criterion: &mut Criterion) {
    for d in [8, 32, 90, 784] {
        blocks::<f32>(criterion, d);
    }
    blocks::<f64>(criterion, 32);
}
