//! Features for another learner: landmarks by randomly pivoted Cholesky, the map they span, and phi of every row.
//!
//! `cargo run --release -p ksolve --example features`

use kapprox::landmark::{Landmarks, RpCholesky, Scan};
use kapprox::{FeatureMap, Nystrom, Spec};
use kstore::{MemoryRows, Pass, Workers};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (n, d, rank) = (5000, 4, 200);
    let x: Vec<f32> = (0..n * d).map(|i| ((i * 7919 % 1000) as f32 / 500.0) - 1.0).collect();
    let kernel = Spec::parse("gaussian(sigma=1.5)")?.build()?;
    let workers = Workers::new(2);

    let rows = MemoryRows::new(x.clone(), d)?;
    let pass = Pass::new(2048, 65_536, &workers);
    let chosen = RpCholesky.select(&Scan { source: &rows, pass, count: n as u64 }, &kernel, rank, 0)?;
    let map = Nystrom::<f32>::new(&kernel, chosen, faer::Par::Seq)?;

    let mut phi = faer::Mat::<f32>::zeros(n, map.rank());
    map.apply(faer::MatRef::from_row_major_slice(&x, n, d), phi.as_mut(), &workers);
    let trace: f64 = phi.as_ref().squared_norm_l2().into();
    println!("{} features; relative trace error {:.2e}", map.rank(), 1.0 - trace / n as f64);
    Ok(())
}
