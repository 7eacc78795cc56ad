//! Geometry in feature space: Gram–Schmidt coefficients, distances, variance along a direction.
//!
//! Features of the Nyström map are Gram–Schmidt coefficients on the landmarks' kernel sections:
//! φ_j(x) = ⟨q_j, k(x, ·)⟩ with q_1, q_2, … orthonormal and q_j in the span of the first j
//! landmarks. So φ_j(z_i) = 0 for j > i, and features give lengths, angles and variances in that
//! span.
//!
//! `cargo run --release -p kapprox --example geometry`

use faer::{Mat, MatRef};
use kapprox::landmark::{LandmarkSet, NO_ROW};
use kapprox::{FeatureMap, Kernel, NystromMap};
use kpass::Workers;

fn main() -> kapprox::Result<()> {
    let (n, d, m) = (500, 2, 20);
    let wave = |i: usize, j: usize| ((i * (3 * j + 2)) as f64 * 0.61).sin();
    let x: Vec<f64> = (0..n).flat_map(|i| [wave(i, 0), wave(i, 1)]).collect();
    let rows = MatRef::from_row_major_slice(&x, n, d);

    // the first rows are the landmarks
    let points = x[..m * d].to_vec();
    let landmarks = LandmarkSet { points, row_numbers: vec![NO_ROW; m], d, passes: 0, evaluations: 0 };
    let kernel = Kernel::parse("gaussian(sigma=1)")?.build()?;
    let map = NystromMap::<f64>::new(&kernel, landmarks, &Workers::sequential())?;
    let p = map.dims().1;
    let mut phi = Mat::zeros(n, p);
    map.apply(rows, phi.as_mut(), &Workers::sequential());

    println!("Gram-Schmidt coefficients of the first three rows on themselves:");
    (0..3).for_each(|i| println!("  {:.4} {:.4} {:.4}", phi[(i, 0)], phi[(i, 1)], phi[(i, 2)]));

    // ‖k(x, ·) − k(z, ·)‖² = k(x, x) − 2 k(x, z) + k(z, z), for two landmarks
    let squared: f64 = (0..p).map(|j| (phi[(0, j)] - phi[(1, j)]).powi(2)).sum();
    let between: f64 = (0..d).map(|j| (rows[(0, j)] - rows[(1, j)]).powi(2)).sum();
    println!("squared distance {squared:.6}, by the kernel {:.6}", 2.0 - 2.0 * (-between / 2.0).exp());

    // Distance of k(x, ·) from the span of the landmarks, √(k(x, x) − ‖φ(x)‖²)
    let outside = |i: usize| (1.0 - (0..p).map(|j| phi[(i, j)].powi(2)).sum::<f64>()).max(0.0).sqrt();
    let farthest = (0..n).map(outside).fold(0.0, f64::max);
    println!("distance of the farthest row from the span of {p} landmarks {farthest:.4}");

    // Variance of the rows along the unit vector v from the second landmark to the first: vᵀ C v
    let along: Vec<f64> = (0..n)
        .map(|i| (0..p).map(|j| phi[(i, j)] * (phi[(0, j)] - phi[(1, j)])).sum::<f64>() / squared.sqrt())
        .collect();
    let mean = along.iter().sum::<f64>() / n as f64;
    let variance = along.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
    let total: f64 = (0..p)
        .map(|j| {
            let mean = (0..n).map(|i| phi[(i, j)]).sum::<f64>() / n as f64;
            (0..n).map(|i| (phi[(i, j)] - mean).powi(2)).sum::<f64>() / n as f64
        })
        .sum();
    println!("variance along the direction {variance:.4}, of {total:.4} in all");
    Ok(())
}
