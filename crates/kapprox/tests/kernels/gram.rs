//! Rows of Gram matrices, compared with the definition.

use faer::{Mat, MatRef};
use kapprox::{Real, gram};
use kpass::key::{Purpose, Stream};

/// Adds ΦᵀΦ to a matrix of −1, in strips of `height` rows.
fn gram<T: Real>(phi: MatRef<'_, T>, height: usize) -> Mat<f64> {
    let p = phi.ncols();
    let (mut g, mut buffers) = (Mat::from_fn(p, p, |_, _| -1.0), gram::GramBuffers::default());
    for first in (0..p).step_by(height) {
        let strip = g.as_mut().subrows_mut(first, height.min(p - first));
        gram::add_rows(phi, first, strip, &mut buffers);
    }
    g
}

#[test]
fn rows_of_a_gram_matrix_are_sums_of_products() {
    for (n, p) in [(0, 3), (1, 1), (2, 60), (513, 7), (1030, 49), (600, 500)] {
        let keys = Stream::new(9, Purpose::Data, 0);
        let phi = Mat::from_fn(n, p, |i, j| keys.uniform((i * p + j) as u64) - 0.3);
        let (narrow, definition) = (Mat::from_fn(n, p, |i, j| phi[(i, j)] as f32), phi.transpose() * &phi);
        let (single, double) =
            (gram(narrow.as_ref(), gram::strip_height(p)), gram(phi.as_ref(), gram::strip_height(p)));
        for j in 0..p {
            assert!((0..j).all(|i| single[(i, j)] == -1.0 && double[(i, j)] == -1.0), "above the diagonal: {n}, {p}");
            for i in j..p {
                let (exact, size) = (definition[(i, j)] - 1.0, n as f64 * 0.25 + 1.0);
                let (single, double) = ((single[(i, j)] - exact) / size, (double[(i, j)] - exact) / size);
                assert!(single.abs() < 1e-6 && double.abs() < 1e-14, "{n} x {p}, ({i}, {j}): {single:e}, {double:e}");
            }
        }
    }
}

#[test]
fn entries_of_a_gram_matrix_have_the_same_bits_in_every_strip_and_layout() {
    let keys = Stream::new(9, Purpose::Data, 1);
    let phi = Mat::from_fn(700, 150, |i, j| keys.uniform((i * 150 + j) as u64) as f32 - 0.3);
    let whole = gram(phi.as_ref(), 150);
    for height in [1, 20, 48, 100] {
        assert!(gram(phi.as_ref(), height) == whole, "strips of {height}");
    }
    let by_rows = phi.transpose().to_owned();
    assert!(gram(by_rows.transpose(), 48) == whole, "rows one after the other");
    let backwards = Mat::from_fn(700, 150, |i, j| phi[(699 - i, j)]);
    assert!(gram(backwards.as_ref().reverse_rows(), 48) == whole, "neither rows nor columns are contiguous");
}
