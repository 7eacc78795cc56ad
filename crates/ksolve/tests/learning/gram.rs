//! The Gram state compared with its definition, for any partition and any number of threads.
use crate::allocations;
use faer::Mat;
use kmodel::{GramScratch, GramState};
use kstore::{Merge, Workers};

fn data(n: usize, p: usize, t: usize) -> (Mat<f64>, Mat<f64>) {
    let keys = kstore::key::Stream::new(7, kstore::key::Purpose::Data, 0);
    let phi = Mat::from_fn(n, p, |i, j| keys.uniform((i * p + j) as u64) - 0.3);
    let y = Mat::from_fn(n, t, |i, j| keys.uniform((1 << 40) + (i * t + j) as u64) * 4.0 - 1.0);
    (phi, y)
}

fn narrow(phi: &Mat<f64>) -> Mat<f32> {
    Mat::from_fn(phi.nrows(), phi.ncols(), |i, j| phi[(i, j)] as f32)
}

fn state_of<T: kapprox::Real>(phi: &Mat<T>, y: &Mat<f64>, cuts: &[usize], threads: usize) -> GramState {
    let (n, p, t) = (phi.nrows(), phi.ncols(), y.ncols());
    let workers = Workers::new(threads);
    let mut total = GramState::new(p, t, 2);
    let mut scratch = GramScratch::default();
    for (part, window) in [&[0], cuts, &[n]].concat().windows(2).enumerate() {
        let (first, rows) = (window[0], window[1] - window[0]);
        let mut state = GramState::new(p, t, 2);
        let (phi, y) = (phi.as_ref().subrows(first, rows), y.as_ref().subrows(first, rows));
        state.update(part % 2, phi, y, &mut scratch, &workers).unwrap();
        total.merge(&state);
    }
    total
}

/// Returns the largest difference from the definition, relative to the largest entry.
fn distance(state: &GramState, phi: &Mat<f64>, y: &Mat<f64>) -> f64 {
    let (p, t) = (phi.ncols(), y.ncols());
    let (g, b) = (phi.transpose() * phi, phi.transpose() * y);
    let (g_scale, b_scale) = (g.norm_max(), b.norm_max());
    let sum = |part: &dyn Fn(&kmodel::FoldGram) -> f64| state.folds().iter().map(part).sum::<f64>();
    let mut worst: f64 = 0.0;
    for j in 0..p {
        for i in j..p {
            worst = worst.max((sum(&|fold| fold.g[j * p + i]) - g[(i, j)]).abs() / g_scale);
        }
        let s: f64 = (0..phi.nrows()).map(|i| phi[(i, j)]).sum();
        worst = worst.max((sum(&|fold| fold.s[j]) - s).abs() / s.abs());
    }
    for j in 0..t {
        for i in 0..p {
            worst = worst.max((sum(&|fold| fold.b[j * p + i]) - b[(i, j)]).abs() / b_scale);
        }
        let sy: f64 = (0..phi.nrows()).map(|i| y[(i, j)]).sum();
        let yy: f64 = (0..phi.nrows()).map(|i| y[(i, j)].powi(2)).sum();
        worst = worst.max((sum(&|fold| fold.sy[j]) - sy).abs() / sy.abs());
        worst = worst.max((sum(&|fold| fold.yy[j]) - yy).abs() / yy);
    }
    worst
}

#[test]
fn any_partition_merges_to_the_definition() {
    for (p, t) in [(1, 1), (33, 19), (256, 2), (257, 1), (600, 3)] {
        let (phi, y) = data(403, p, t);
        for cuts in [&[][..], &[1], &[200], &[100, 101, 307], &[0, 403]] {
            let state = state_of(&phi, &y, cuts, 1);
            assert_eq!(state.row_count(), 403);
            let distance = distance(&state, &phi, &y);
            assert!(distance < 1e-13, "p = {p}, t = {t}, cuts {cuts:?}: {distance:e}");
        }
    }
}

#[test]
fn f32_is_close_to_f64() {
    let (phi, y) = data(1000, 300, 2);
    let state = state_of(&narrow(&phi), &y, &[400], 1);
    let distance = distance(&state, &phi, &y);
    assert!(distance > 1e-10 && distance < 2e-6, "{distance:e}");
    assert_eq!(state.precision(), "f32");
}

#[test]
fn threads_do_not_change_a_bit() {
    let (phi, y) = data(700, 1111, 5);
    let narrow = narrow(&phi);
    let (one, one_f32) = (state_of(&phi, &y, &[300], 1), state_of(&narrow, &y, &[300], 1));
    for threads in [2, 3, 8] {
        assert!(state_of(&phi, &y, &[300], threads) == one, "{threads} threads");
        assert!(state_of(&narrow, &y, &[300], threads) == one_f32, "{threads} threads, f32");
    }
}

#[test]
fn shapes_that_do_not_fit_are_errors() {
    let (phi, y) = data(10, 4, 1);
    let mut scratch = GramScratch::default();
    let workers = Workers::sequential();
    let mut update = |p, t, fold, rows| {
        GramState::new(p, t, 2).update(fold, phi.as_ref(), y.as_ref().subrows(0, rows), &mut scratch, &workers)
    };
    assert!(update(4, 1, 1, 10).is_ok());
    for (p, t, fold, rows) in [(5, 1, 0, 10), (4, 2, 0, 10), (4, 1, 2, 10), (4, 1, 0, 9)] {
        assert!(matches!(update(p, t, fold, rows), Err(ksolve::Error::Shape { .. })));
    }
}

/// Solvers call this product for each tile of each pass. A buffer that grows with the rows would be
/// mapped and unmapped by the system at every call.
#[test]
fn products_with_a_few_columns_allocate_only_their_packed_columns() {
    let b = 512;
    for (p, c) in [(3, 1), (60, 1), (60, 2), (130, 4), (500, 19)] {
        let (x, right, mut sums) = (vec![1.0f32; b * p], vec![1.0; b * c], vec![0.0; p * c]);
        let count = allocations::of(|| kapprox::thin::add_transposed_product(&x, p, 0, &right, &mut sums));
        assert_eq!(count, 1, "{p} features, {c} columns");
        assert_eq!(sums, vec![b as f64; p * c]);
    }
}
