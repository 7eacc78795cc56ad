//! Randomly pivoted Cholesky against its law and against independently measured errors.

use kapprox::landmark::{Landmarks, RpCholesky, Uniform};
use kmill_tests::dense::pivoted_cholesky;
use kmill_tests::fit::{WHOLE, certify, select};
use kmill_tests::points::{Lcg, robspiral, smile};
use kmill_tests::source::Points;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0
}

/// Values measured with the authors' program; median over seeds.
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
        let scheme: &dyn Landmarks<f64> = if scheme == "rp" { &RpCholesky } else { &Uniform };
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
        assert_eq!(one.rows, other.rows, "{cut:?}");
    }
    let uniform = select(&points, &Uniform, spec, 60, 5, (4096, 1 << 20, 1));
    assert_eq!(uniform.rows, select(&points, &Uniform, spec, 60, 5, (97, 1000, 3)).rows);
    assert_ne!(uniform.rows, one.rows);
}

#[test]
fn a_smaller_uniform_selection_is_the_beginning_of_a_larger_one() {
    let points = Points::<f64>::new(&smile(2_000, &mut Lcg(1)));
    let large = select(&points, &Uniform, "linear()", 50, 5, WHOLE);
    let small = select(&points, &Uniform, "linear()", 20, 5, WHOLE);
    assert_eq!(large.rows[..20], small.rows);
}

/// Distribution of the pivot at position `at` under the plain law, by enumeration of the first pivots' probabilities.
fn plain_frequencies(rows: &[Vec<f64>], k: &dyn Fn(&[f64], &[f64]) -> f64, at: usize) -> Vec<f64> {
    fn walk(
        rows: &[Vec<f64>],
        k: &dyn Fn(&[f64], &[f64]) -> f64,
        chosen: &mut Vec<Vec<f64>>,
        residual: &[f64],
        weight: f64,
        left: usize,
        out: &mut [f64],
    ) {
        let total: f64 = residual.iter().sum();
        for (i, r) in residual.iter().enumerate() {
            let p = weight * r / total;
            if left == 0 {
                out[i] += p;
                continue;
            }
            if p < 1e-9 {
                continue;
            }
            let column: Vec<f64> = (0..rows.len())
                .map(|j| (k(&rows[j], &rows[i]) - chosen.iter().map(|c| c[i] * c[j]).sum::<f64>()) / r.sqrt())
                .collect();
            let next: Vec<f64> = residual.iter().zip(&column).map(|(r, c)| (r - c * c).max(0.0)).collect();
            chosen.push(column);
            walk(rows, k, chosen, &next, p, left - 1, out);
            chosen.pop();
        }
    }
    let diag: Vec<f64> = rows.iter().map(|x| k(x, x)).collect();
    let mut out = vec![0.0; rows.len()];
    walk(rows, k, &mut Vec::new(), &diag, 1.0, at, &mut out);
    out
}

fn chi_squared(spec: &str, rows: &[Vec<f64>], at: usize, seeds: u64) -> (f64, usize) {
    let expected = plain_frequencies(rows, &kmill_tests::kernels::kernel(spec), at);
    let points = Points::<f64>::new(rows);
    let mut counts = vec![0.0; rows.len()];
    for seed in 0..seeds {
        let set = select(&points, &RpCholesky, spec, 5, seed, (7, 11, 1));
        counts[set.rows[at] as usize] += 1.0;
    }
    // pool cells that expect fewer than five
    let (mut chi2, mut cells, mut rest) = (0.0, 0, (0.0, 0.0));
    for (count, p) in counts.iter().zip(&expected) {
        let e = p * seeds as f64;
        if e < 5.0 {
            rest = (rest.0 + count, rest.1 + e);
        } else {
            chi2 += (count - e) * (count - e) / e;
            cells += 1;
        }
    }
    if rest.1 >= 5.0 {
        chi2 += (rest.0 - rest.1) * (rest.0 - rest.1) / rest.1;
        cells += 1;
    }
    (chi2, cells - 1)
}

/// Block proposals must be independent: with distinct proposals the first statistic is 183.
#[test]
fn the_third_pivot_has_the_law_of_the_plain_algorithm() {
    let mut random = Lcg(11);
    let mut rows = random.normals(30, 2);
    for (i, row) in rows.iter_mut().enumerate() {
        // diagonals over two decades
        let scale = 10f64.powf(i as f64 / 29.0 * 0.4) * 0.7;
        row.iter_mut().for_each(|v| *v *= scale);
    }
    for spec in ["polynomial(gamma=1, c0=1, degree=3)", "gaussian(sigma=1)"] {
        let (chi2, freedom) = chi_squared(spec, &rows, 2, 10_000);
        // mean + 3.7 deviations of chi-squared: p about 1e-3
        let bound = freedom as f64 + 3.7 * (2.0 * freedom as f64).sqrt();
        eprintln!("{spec}: chi-squared {chi2:.1} with {freedom} degrees of freedom, bound {bound:.1}");
        assert!(chi2 < bound, "{spec}: {chi2}");
    }
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
