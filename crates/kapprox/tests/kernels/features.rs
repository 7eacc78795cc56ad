//! Features of the Nyström map, compared with forward substitution row by row.

use crate::inputs::{block, points, view, wide};
use faer::Mat;
use kapprox::{FeatureMap, Kernel, LandmarkSet, NystromMap, Real};
use kpass::Workers;

const D: usize = 3;

fn map<T: Real>(m: usize) -> NystromMap<T> {
    let kernel = "laplacian(sigma=2)".parse::<Kernel>().unwrap().build().unwrap();
    let landmarks = LandmarkSet {
        points: points(m, D, 1, 0.0),
        row_numbers: (0..m as u64).collect(),
        d: D,
        passes: 0,
        evaluations: 0,
    };
    NystromMap::new(&kernel, landmarks, &Workers::sequential()).unwrap()
}

fn features<T: Real>(map: &NystromMap<T>, rows: &[T]) -> Mat<T> {
    let mut phi = Mat::zeros(rows.len() / D, map.rank());
    map.apply(view(rows, D), phi.as_mut(), &Workers::sequential());
    phi
}

/// Returns the largest difference from the definition in f64: L Lᵀ = K_SS and L phi = k_S(x).
fn distance<T: Real>(m: usize, b: usize) -> f64 {
    let (map, rows) = (map::<T>(m), points::<T>(b, D, 2, 0.0));
    assert!(map.rank() == m && !map.is_in_f64(), "rank {} of {m}", map.rank());
    let kernel = "laplacian(sigma=2)".parse::<Kernel>().unwrap().build().unwrap();
    let (z, x) = (wide(&map.landmarks().points), wide(&rows));
    let (k, kx) = (block::<f64>(&kernel, view(&z, D), view(&z, D)), block::<f64>(&kernel, view(&x, D), view(&z, D)));
    let phi = features(&map, &rows);
    let mut l = Mat::<f64>::zeros(m, m);
    let mut worst: f64 = 0.0;
    for j in 0..m {
        for i in j..m {
            let known: f64 = (0..j).map(|e| l[(i, e)] * l[(j, e)]).sum();
            l[(i, j)] = if i == j { (k[(j, j)] - known).sqrt() } else { (k[(i, j)] - known) / l[(j, j)] };
        }
    }
    for i in 0..b {
        let mut y = vec![0.0; m];
        for j in 0..m {
            let known: f64 = (0..j).map(|e| l[(j, e)] * y[e]).sum();
            y[j] = (kx[(i, j)] - known) / l[(j, j)];
            worst = worst.max((y[j] - phi[(i, j)].to_f64()).abs());
        }
    }
    worst
}

#[test]
fn features_solve_the_triangular_system() {
    for (m, b) in [(1, 1), (7, 3), (8, 50), (9, 47), (200, 100), (600, 9)] {
        let (single, double) = (distance::<f32>(m, b), distance::<f64>(m, b));
        assert!(single < 1e-5 && double < 1e-13, "{m} landmarks, {b} rows: {single:e}, {double:e}");
    }
}

#[test]
fn features_of_a_row_have_the_bits_that_it_has_alone_and_by_rows() {
    let (map, rows) = (map::<f32>(530), points::<f32>(300, D, 2, 0.0));
    let together = features(&map, &rows);
    for i in [0, 1, 47, 48, 287, 288, 299] {
        let alone = features(&map, &rows[i * D..(i + 1) * D]);
        assert!((0..530).all(|j| alone[(0, j)].to_bits() == together[(i, j)].to_bits()), "row {i}");
    }
    let mut by_rows = Mat::<f32>::zeros(530, 300);
    map.apply(view(&rows, D), by_rows.as_mut().transpose_mut(), &Workers::sequential());
    assert!(by_rows.transpose() == together.as_ref());
}
