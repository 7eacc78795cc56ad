//! The certificate compared with the dense matrix, for every registered kernel.

use kapprox::kernel::{Domain, registry};
use kapprox::landmark::{LandmarkRule, LandmarkSet, RpCholesky, Uniform};
use kmill_tests::fit::{WHOLE, certify, select};
use kmill_tests::points::{Lcg, real};
use kmill_tests::source::Points;
use kmill_tests::{dense, kernels};

fn clusters(n: usize, d: usize, seed: u64) -> Vec<Vec<f64>> {
    let mut random = Lcg(seed);
    let centres = random.normals(5, d);
    (0..n).map(|i| centres[i % 5].iter().map(|c| c + 0.7 * random.normal()).collect()).collect()
}

fn rows_of(rows: &[Vec<f64>], set: &[u64]) -> Vec<Vec<f64>> {
    set.iter().map(|row| rows[*row as usize].clone()).collect()
}

fn narrow(set: &LandmarkSet<f64>) -> LandmarkSet<f32> {
    LandmarkSet {
        points: set.points.iter().map(|v| *v as f32).collect(),
        row_numbers: set.row_numbers.clone(),
        d: set.d,
        passes: 0,
        evaluations: 0,
    }
}

/// Compares both precisions with the oracle, on the same landmarks and on points exact in f32.
fn check(rows: &[Vec<f64>], spec: &str, m: usize, scheme: &dyn LandmarkRule<f64>) {
    let rows: Vec<Vec<f64>> = rows.iter().map(|r| r.iter().map(|v| f64::from(*v as f32)).collect()).collect();
    let points = Points::<f64>::new(&rows);
    let set = select(&points, scheme, spec, m, 0, WHOLE);
    let chosen = rows_of(&rows, &set.row_numbers);
    let exact = dense::trace_error(&rows, &chosen, &*kernels::kernel(spec), 1e-15);
    // f64, also in the oracle, is only as accurate as the rounding of kernel values times K_SS⁻¹.
    // On protein with 500 uniform landmarks, the errors against 80-bit arithmetic are 1.4e-11
    // (oracle), 1.3e-11 (library), 3.0e-11 (NumPy); the bound is 6e-11. On well-conditioned
    // landmarks it is below 1e-14.
    let amplified = f64::EPSILON / 2.0 * dense::amplification(&chosen, &*kernels::kernel(spec), 1e-13);
    let (double, rank) = certify(&points, set.clone(), spec);
    let (single, rank32) = certify(&Points::<f32>::new(&rows), narrow(&set), spec);
    eprintln!(
        "{spec:40} m {m:4} rank {rank:4} oracle {exact:.6e} f64 {:.6e} ({:.0e}, f64 limit {amplified:.0e}) | f32 rank {rank32:4} {:.6e} over {:.1e} floor {:.1e}",
        double.trace_error,
        (double.trace_error - exact).abs(),
        single.trace_error,
        single.overshoot,
        single.floor
    );
    assert!(
        (double.trace_error - exact).abs() <= 1e-12 + 1e-9 * exact + amplified,
        "{spec}: {double:?}, dense {exact:e}"
    );
    assert!(single.overshoot <= 1e-5, "{spec}: {single:?}");
    let difference = (single.trace_error - double.trace_error).abs();
    assert!(difference <= 1e-5 + 1e-3 * double.trace_error, "{spec}: f32 {single:?}, f64 {double:?}");
}

#[test]
fn certificate_is_the_dense_trace_error_for_every_kernel() {
    let rows = clusters(2_000, 9, 1);
    // kernels of histograms and sets are not defined on these rows
    for family in registry().into_iter().filter(|f| f.is_positive_definite && f.domain == Domain::Any) {
        for m in [40, 200] {
            check(&rows, family.example, m, &Uniform);
            check(&rows, family.example, m, &RpCholesky);
        }
    }
}

#[test]
fn certificate_holds_where_the_error_is_near_zero() {
    let rows = clusters(2_000, 9, 2);
    for scheme in [&Uniform as &dyn LandmarkRule<f64>, &RpCholesky] {
        check(&rows, "gaussian(sigma=5)", 500, scheme);
        check(&rows, "gaussian(sigma=20)", 300, scheme);
        // cubic polynomials of 9 variables: the kernel has rank 220
        check(&rows, "polynomial(gamma=1, c0=1, degree=3)", 220, scheme);
        check(&rows, "polynomial(gamma=0.1, c0=1, degree=3)", 300, scheme);
        check(&rows, "linear()", 50, scheme);
    }
}

/// Features of outliers are extrapolated from nearly dependent uniform landmarks: dropping such
/// landmarks would increase the error at the outliers.
#[test]
fn certificate_holds_on_protein() {
    let Some(rows) = real("protein", 2_000) else { return };
    for scheme in [&Uniform as &dyn LandmarkRule<f64>, &RpCholesky] {
        check(&rows, "gaussian(sigma=5)", 500, scheme);
        check(&rows, "polynomial(gamma=1, c0=1, degree=3)", 220, scheme);
        check(&rows, "matern(nu=2.5, sigma=20)", 500, scheme);
    }
}
