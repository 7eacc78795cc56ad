//! Geometry from kernel values, compared with the explicit features of a finite-dimensional kernel.

use faer::{Mat, MatRef};
use kapprox::kernel::feature_space::*;

/// Returns the features of (x·z + 1)² in two dimensions.
fn features(x: &[f64]) -> [f64; 6] {
    let root = 2f64.sqrt();
    [1.0, root * x[0], root * x[1], x[0] * x[0], root * x[0] * x[1], x[1] * x[1]]
}

fn points(n: usize, seed: f64) -> Vec<[f64; 6]> {
    (0..n).map(|i| features(&[(i as f64 * 1.3 + seed).sin(), (i as f64 * 0.7 - seed).cos() + 0.5])).collect()
}

fn gram(x: &[[f64; 6]], z: &[[f64; 6]]) -> Mat<f64> {
    Mat::from_fn(x.len(), z.len(), |i, j| x[i].iter().zip(&z[j]).map(|(a, b)| a * b).sum())
}

fn diagonal(x: &[[f64; 6]]) -> Vec<f64> {
    x.iter().map(|x| x.iter().map(|v| v * v).sum()).collect()
}

fn mean(x: &[[f64; 6]]) -> [f64; 6] {
    std::array::from_fn(|k| x.iter().map(|x| x[k]).sum::<f64>() / x.len() as f64)
}

fn minus(x: &[[f64; 6]], shift: [f64; 6]) -> Vec<[f64; 6]> {
    x.iter().map(|x| std::array::from_fn(|k| x[k] - shift[k])).collect()
}

fn assert_near(a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    assert!((a - b).norm_max() < 1e-12, "{a:?} {b:?}");
}

#[test]
fn centring_is_that_of_the_features() {
    let (z, x) = (points(9, 0.3), points(4, 2.0));
    let centre = Centre::new(gram(&z, &z).as_ref());
    let shift = mean(&z);
    for points in [&z, &x] {
        let mut k = gram(points, &z);
        centre.apply(k.as_mut());
        assert_near(k.as_ref(), gram(&minus(points, shift), &minus(&z, shift)).as_ref());
        let got = centre.squared_distances(&diagonal(points), gram(points, &z).as_ref());
        let want = diagonal(&minus(points, shift));
        assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-12), "{got:?} {want:?}");
    }
    let want = diagonal(&minus(&z, shift)).iter().sum::<f64>() / 9.0;
    assert!((variance(gram(&z, &z).as_ref()) - want).abs() < 1e-12);
}

#[test]
fn distances_lead_back_to_the_centred_kernel() {
    let z = points(9, 0.3);
    let d = squared_distances(gram(&z, &z).as_ref(), &diagonal(&z), &diagonal(&z));
    let distance = |i: usize, j: usize| (0..6).map(|k| (z[i][k] - z[j][k]).powi(2)).sum::<f64>();
    assert_near(d.as_ref(), Mat::from_fn(9, 9, distance).as_ref());
    let centred = minus(&z, mean(&z));
    assert_near(centred_kernel_from_squared_distances(d.as_ref()).as_ref(), gram(&centred, &centred).as_ref());
}

#[test]
fn projections_are_those_of_the_features() {
    let (z, x) = (points(9, 0.3), points(4, 2.0));
    let alpha: Vec<f64> = (0..9).map(|i| f64::from(i) - 3.5).collect();
    let direction: [f64; 6] = std::array::from_fn(|k| z.iter().zip(&alpha).map(|(z, alpha)| z[k] * alpha).sum());
    let norm = direction.iter().map(|v| v * v).sum::<f64>().sqrt();
    let got = coordinates_along(gram(&x, &z).as_ref(), gram(&z, &z).as_ref(), &alpha);
    for (x, got) in x.iter().zip(got) {
        let want = x.iter().zip(&direction).map(|(a, b)| a * b).sum::<f64>() / norm;
        assert!((got - want).abs() < 1e-12);
    }
    assert_eq!(coordinates_along(gram(&x, &z).as_ref(), gram(&z, &z).as_ref(), &[0.0; 9]), [0.0; 4]);
}

#[test]
fn alignments() {
    let ideal = ideal_kernel(&["a", "a", "b", "b"]);
    assert_near(ideal.as_ref(), Mat::from_fn(4, 4, |i, j| f64::from(u8::from(i / 2 == j / 2))).as_ref());
    assert!((alignment(ideal.as_ref(), (&ideal * faer::Scale(7.0)).as_ref()) - 1.0).abs() < 1e-15);
    // 8 of 16 ones: 8 / (√8 · 4)
    let ones = Mat::from_fn(4, 4, |_, _| 1.0);
    assert!((alignment(ideal.as_ref(), ones.as_ref()) - 0.5f64.sqrt()).abs() < 1e-15);
    // centring maps a constant kernel to 0, and adding a constant changes nothing
    assert_eq!(centred_alignment(ideal.as_ref(), ones.as_ref()), 0.0);
    assert!((centred_alignment(ideal.as_ref(), (&ideal + &ones * faer::Scale(9.0)).as_ref()) - 1.0).abs() < 1e-12);
    assert_eq!(alignment(ideal.as_ref(), Mat::zeros(4, 4).as_ref()), 0.0);
}
