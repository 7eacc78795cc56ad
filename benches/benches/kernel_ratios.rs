//! Seconds of a block of every kernel as multiples of the bare matrix product of the same shape, one thread each.
//!
//! Product and kernels take turns within one process, and the least time of each counts: other loads on the machine hit
//! them alike.
//!
//! `cargo bench -p kmill-benches --bench kernel_ratios`

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};
use kapprox::Real;
use kapprox::kernel::{Spec, registry};
use std::time::Instant;

const ROUNDS: usize = 60;

/// Points between 0 and 1 from a multiplicative congruence: no generator is needed to measure speed.
fn points<T: Real>(n: usize, d: usize, seed: u64) -> Vec<T> {
    let mut state = seed;
    (0..n * d)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            T::from_f64((state >> 11) as f64 / (1u64 << 53) as f64)
        })
        .collect()
}

/// The seconds of one call.
fn seconds(call: impl FnOnce()) -> f64 {
    let start = Instant::now();
    call();
    start.elapsed().as_secs_f64()
}

fn table<T: Real>(b: usize, m: usize, d: usize) {
    let (x, z) = (points::<T>(b, d, 1), points::<T>(m, d, 2));
    let (x, z) = (MatRef::from_row_major_slice(&x, b, d), MatRef::from_row_major_slice(&z, m, d));
    let mut block = Mat::<T>::zeros(b, m);
    let kernel = |text| T::kernel(Spec::parse(text).and_then(|spec| spec.build()).expect("examples are right"));
    let kernels: Vec<_> = registry().iter().map(|family| (family.example, kernel(family.example))).collect();
    let (mut product, mut least) = (f64::INFINITY, vec![f64::INFINITY; kernels.len()]);
    for _ in 0..ROUNDS {
        product = product.min(seconds(|| {
            matmul(block.as_mut(), Accum::Replace, x, z.transpose(), T::from_f64(1.0), Par::Seq);
        }));
        for ((_, kernel), least) in kernels.iter().zip(&mut least) {
            *least = least.min(seconds(|| kernel.block(x, z, block.as_mut())));
        }
    }
    println!("\n{} {b} x {m}, d = {d}: the product takes {:.0} us", T::NAME, product * 1e6);
    for ((text, _), least) in kernels.iter().zip(&least) {
        println!("  {text:42} {:7.0} us {:6.2}", least * 1e6, least / product);
    }
}

fn main() {
    for b in [288, 1152] {
        table::<f32>(b, 2048, 32);
    }
    table::<f32>(288, 2048, 90);
    table::<f64>(288, 2048, 32);
}
