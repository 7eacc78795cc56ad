//! A kernel matrix given by its entries: pivots, factor, certificate, smoothing of a noisy path.
//!
//! `cargo run --release -p kapprox --example dense_matrix`

use faer::linalg::solvers::Solve;
use faer::{Mat, Side};
use kapprox::matrix::{self, FnEntries};
use kpass::Workers;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Covariance of Brownian motion at n times. `MatRef` takes an array, in memory or mapped.
    let n = 20_000;
    let k = FnEntries { n: n as u64, entry: |i: u64, j: u64| (i.min(j) + 1) as f64 / n as f64 };

    let found = matrix::rpcholesky(&k, 500, 0.002, 0, &Workers::new(2))?;
    let r = found.pivots.len();
    println!("{r} pivots leave {:.2e} of the trace, with {} entries", found.trace_error, found.evaluations);

    // Kernel ridge regression, (K + n lambda I) a = y: fitted values F w with
    // (FᵀF + n lambda I) w = Fᵀy
    let truth = |i: usize| (i as f64 / 2000.0).sin();
    let y = Mat::from_fn(n, 1, |i, _| truth(i) + ((i * 7919) % 1000) as f64 / 1000.0 - 0.4995);
    let (f, lambda) = (&found.factor, 1e-6);
    let inner = f.transpose() * f + Mat::<f64>::identity(r, r) * faer::Scale(n as f64 * lambda);
    let fitted = f * inner.llt(Side::Lower)?.solve(f.transpose() * &y);
    let error = (0..n).map(|i| (fitted[(i, 0)] - truth(i)).powi(2)).sum::<f64>() / n as f64;
    println!("mean squared error {error:.1e}, of the noise {:.1e}", 1.0 / 12.0);
    Ok(())
}
