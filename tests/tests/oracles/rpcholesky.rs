//! Randomly pivoted Cholesky compared with its distribution and with independently measured errors.

use kapprox::landmark::{LandmarkRule, RpCholesky, Uniform};
use kmill_tests::dense::pivoted_cholesky;
use kmill_tests::fit::{WHOLE, certify, select};
use kmill_tests::points::{Lcg, robspiral, smile};
use kmill_tests::source::Points;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}

/// Reference values were measured with the authors' program; median over seeds.
#[test]
fn errors_on_smile_and_robspiral_are_the_published_ones() {
    let n = 10_000;
    let spiral = Points::<f64>::new(&robspiral(n));
    let faces: Vec<_> = (0..20).map(|s| Points::<f64>::new(&smile(n, &mut Lcg(s)))).collect();
    let table: [(&str, usize, f64, f64, f64); 4] = [
        ("rp", 20, 0.260, 0.0821, 0.15),
        ("rp", 50, 2.4e-3, 0.0645, 0.30),
        ("rp", 100, 1.1e-7, 0.0494, 1.0),
        ("uniform", 100, 1.2e-2, 0.0775, 0.15),
    ];
    for (scheme, k, on_smile, on_spiral, margin) in table {
        let scheme: &dyn LandmarkRule<f64> = if scheme == "rp" { &RpCholesky } else { &Uniform };
        let run = |points: &Points<f64>, spec: &str, seed: u64| {
            certify(points, select(points, scheme, spec, k, seed, WHOLE), spec).0.trace_error
        };
        let face = median((0..20).map(|s| run(&faces[s as usize], "gaussian(sigma=2)", s)).collect());
        let spiral = median((0..20).map(|s| run(&spiral, "gaussian(sigma=1000)", s)).collect());
        eprintln!("k = {k}: smile {face:.3e} (expected {on_smile:.3e}), robspiral {spiral:.4} (expected {on_spiral})");
        assert!(face <= on_smile * (1.0 + margin) && face >= on_smile / (1.0 + margin), "smile k={k}: {face:e}");
        assert!((spiral / on_spiral - 1.0).abs() < 0.15, "robspiral k={k}: {spiral}");
    }
}

#[test]
fn landmarks_do_not_depend_on_tiles_segments_lanes_or_threads() {
    let points = Points::<f32>::new(&smile(3_000, &mut Lcg(1)));
    let spec = "gaussian(sigma=2)";
    let one = select(&points, &RpCholesky, spec, 60, 5, (4096, 1 << 20, 1));
    for cut in [(1024, 1024, 1), (1024, 1024, 3), (256, 700, 2), (97, 1000, 1)] {
        let other = select(&points, &RpCholesky, spec, 60, 5, cut);
        assert_eq!(one.row_numbers, other.row_numbers, "{cut:?}");
    }
    let uniform = select(&points, &Uniform, spec, 60, 5, (4096, 1 << 20, 1));
    assert_eq!(uniform.row_numbers, select(&points, &Uniform, spec, 60, 5, (97, 1000, 3)).row_numbers);
    assert_ne!(uniform.row_numbers, one.row_numbers);
}

#[test]
fn a_smaller_uniform_selection_is_the_beginning_of_a_larger_one() {
    let points = Points::<f64>::new(&smile(2_000, &mut Lcg(1)));
    let large = select(&points, &Uniform, "linear()", 50, 5, WHOLE);
    let small = select(&points, &Uniform, "linear()", 20, 5, WHOLE);
    assert_eq!(large.row_numbers[..20], small.row_numbers);
}

#[test]
fn duplicates_and_exhausted_rows_end_the_selection() {
    let mut rows = Lcg(3).normals(8, 2);
    for i in 0..92 {
        rows.push(rows[i % 8].clone());
    }
    let points = Points::<f32>::new(&rows);
    let set = select(&points, &RpCholesky, "gaussian(sigma=1)", 50, 0, WHOLE);
    assert_eq!(set.len(), 8);
    let same = Points::<f32>::new(&vec![vec![1.0, 2.0]; 40]);
    assert_eq!(select(&same, &RpCholesky, "gaussian(sigma=1)", 10, 0, WHOLE).len(), 1);
    // a linear kernel on two features has rank 2
    assert_eq!(select(&points, &RpCholesky, "linear()", 10, 0, WHOLE).len(), 2);
    let exact = pivoted_cholesky(100, |i, j| rows[i].iter().zip(&rows[j]).map(|(a, b)| a * b).sum(), 1e-12);
    assert_eq!(exact.pivots.len(), 2);
}

#[test]
fn the_choice_ends_where_residuals_are_rounding() {
    let rows = Lcg(9).normals(3_000, 2);
    let (narrow, wide) = (Points::<f32>::new(&rows), Points::<f64>::new(&rows));
    let spec = "gaussian(sigma=1)";
    let found = select(&narrow, &RpCholesky, spec, 400, 0, WHOLE);
    let most = select(&wide, &RpCholesky, spec, 400, 0, WHOLE);
    // f64 allows more landmarks; in f32 further passes would only sample rounding errors
    assert!(found.len() > 50 && found.len() < most.len(), "{} and {} landmarks", found.len(), most.len());
    assert!(found.passes <= 12, "{} passes", found.passes);
    let certificate = certify(&narrow, found, spec).0;
    assert!(certificate.trace_error <= certificate.floor, "{certificate:?}");
}
