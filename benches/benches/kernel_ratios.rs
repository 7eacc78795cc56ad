//! Time of a block of every kernel, as a multiple of the bare matrix product of the same shape, on
//! one thread.
//!
//! Every kernel alternates with the product within one process, so that other load on the machine
//! affects both alike. The first figure is the minimum time of the kernel divided by the minimum of
//! the product, the second the median ratio of the rounds. The product is faer's and writes the
//! same block; the headline shows its rate.
//!
//! `cargo bench -p kmill-benches -- kernel_ratios [NAME...]` measures only kernels whose example
//! contains a name.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};
use kapprox::Real;
use kapprox::kernel::{Kernel, registry};
use std::time::Instant;

const ROUNDS: usize = 60;

/// Returns points between 0 and 1 from a linear congruential generator.
fn points<T: Real>(n: usize, d: usize, seed: u64) -> Vec<T> {
    let mut state = seed;
    (0..n * d)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            T::from_f64((state >> 11) as f64 / (1u64 << 53) as f64)
        })
        .collect()
}

/// Measures the seconds of one call.
fn seconds(call: impl FnOnce()) -> f64 {
    let start = Instant::now();
    call();
    start.elapsed().as_secs_f64()
}

/// Seconds of a kernel and of the product, one of each per round.
struct Rounds {
    text: &'static str,
    kernel: Vec<f64>,
    product: Vec<f64>,
}

fn least(seconds: &[f64]) -> f64 {
    seconds.iter().copied().fold(f64::INFINITY, f64::min)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn table<T: Real>(b: usize, m: usize, d: usize, names: &[String]) {
    let (x, z) = (points::<T>(b, d, 1), points::<T>(m, d, 2));
    let (x, z) = (MatRef::from_row_major_slice(&x, b, d), MatRef::from_row_major_slice(&z, m, d));
    let mut block = Mat::<T>::zeros(b, m);
    let build = |text| Kernel::parse(text).and_then(|spec| spec.build()).expect("examples are right").typed::<T>();
    let wanted = |text: &str| names.is_empty() || names.iter().any(|name| text.contains(name.as_str()));
    let mut rounds: Vec<_> = registry()
        .iter()
        .filter(|family| wanted(family.example))
        .map(|family| Rounds { text: family.example, kernel: vec![], product: vec![] })
        .collect();
    for _ in 0..if kmill_benches::measuring() { ROUNDS } else { 1 } {
        for Rounds { text, kernel, product } in &mut rounds {
            let values = build(text);
            product.push(seconds(|| {
                matmul(block.as_mut(), Accum::Replace, x, z.transpose(), T::from_f64(1.0), Par::Seq);
            }));
            kernel.push(seconds(|| values.block(x, z, block.as_mut())));
        }
    }
    let product = rounds.iter().map(|r| least(&r.product)).fold(f64::INFINITY, f64::min);
    let rate = 2e-9 * (b * m * d) as f64 / product;
    println!("\n{} {b} x {m}, d = {d}: the product takes {:.0} us, {rate:.0} GFLOP/s", T::NAME, product * 1e6);
    for r in &rounds {
        let seconds = least(&r.kernel);
        let beside = median(r.kernel.iter().zip(&r.product).map(|(kernel, product)| kernel / product).collect());
        println!("  {:42} {:7.0} us {:6.2} {beside:6.2}", r.text, seconds * 1e6, seconds / product);
    }
}

pub(crate) fn main(names: &[String]) {
    for b in [288, 1152] {
        table::<f32>(b, 2048, 32, names);
    }
    table::<f32>(288, 2048, 90, names);
    table::<f64>(288, 2048, 32, names);
}
