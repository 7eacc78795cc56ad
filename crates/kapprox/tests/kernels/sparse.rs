//! Kernels of sparse points, compared with their formulas on the same points with explicit zeros.

use crate::formulas::cases;
use crate::inputs::{block, points, suited, view};
use faer::{Mat, MatRef};
use kapprox::FeatureMap;
use kapprox::Real;
use kapprox::kernel::{AnyKernel, Domain, Kernel};
use kapprox::landmark::LandmarkSet;
use kapprox::map::KernelSections;
use kpass::sparse::NO_INDEX;
use std::sync::Arc;

const WIDTH: usize = 90;
const ROOM: usize = 24;

/// Mostly zero rows of `WIDTH` numbers: row 0 is zero, row 1 has one entry, rows 2 and 3 are equal.
fn dense<T: Real>(n: usize, seed: u64) -> Vec<T> {
    let (values, chances) = (points::<T>(n, WIDTH, seed, 0.0), points::<f64>(n, WIDTH, seed + 1, 0.0));
    let mut rows: Vec<T> =
        values.iter().zip(chances).map(|(value, chance)| if chance > 0.7 { *value } else { T::ZERO }).collect();
    rows[..2 * WIDTH].fill(T::ZERO);
    rows[WIDTH + 5] = T::from_f64(0.5);
    let third = rows[2 * WIDTH..3 * WIDTH].to_vec();
    rows[3 * WIDTH..4 * WIDTH].copy_from_slice(&third);
    rows
}

/// Converts the rows to the sparse block layout, independently of the library.
fn sparse<T: Real>(rows: &[T]) -> Vec<T> {
    let mut out = Vec::new();
    for row in rows.chunks(WIDTH) {
        let entries: Vec<_> = row.iter().enumerate().filter(|(_, value)| value.to_f64() != 0.0).collect();
        assert!(entries.len() <= ROOM);
        let rest = ROOM - entries.len();
        out.extend(entries.iter().map(|(place, _)| T::from_f64(*place as f64)));
        out.extend(std::iter::repeat_n(T::from_f64(NO_INDEX), rest));
        out.extend(entries.iter().map(|(_, value)| **value));
        out.extend(std::iter::repeat_n(T::ZERO, rest));
    }
    out
}

fn on_sparse(text: &str) -> Option<Arc<dyn AnyKernel>> {
    let spec = Kernel::parse(text).unwrap();
    spec.resolve_for_rows::<&str>(&[], Some(WIDTH)).ok().map(|spec| spec.build().unwrap())
}

const KNOWN: &[&str] = &[
    "gaussian(sigma=1.5)",
    "laplacian(sigma=4)",
    "chi_squared(sigma=2)",
    "additive_chi_squared()",
    "intersection()",
    "subset()",
    "delta()",
    "matern(nu=0.5, sigma=3)",
    "matern(nu=1.5, sigma=2)",
    "exponential(sigma=3)",
    "cauchy(sigma=2)",
    "polynomial(degree=3, gamma=0.5, c0=1)",
    "linear()",
    "constant(value=0.5)",
    "rational_quadratic(alpha=0.75, sigma=2)",
    "cosine()",
    "sigmoid(gamma=0.5, c0=-0.25)",
];

#[test]
fn values_are_those_of_the_formulas() {
    let mut seen = Vec::new();
    for (text, formula) in cases() {
        let Some(kernel) = on_sparse(text) else { continue };
        let (x, z) = (suited(text, &dense::<f64>(60, 1)), suited(text, &dense::<f64>(25, 7)));
        let (rows, columns) = (sparse(&x), sparse(&z));
        seen.push(text);
        let got = block(&kernel, view(&rows, 2 * ROOM), view(&columns, 2 * ROOM));
        for (i, x) in x.chunks(WIDTH).enumerate() {
            for (j, z) in z.chunks(WIDTH).enumerate() {
                let want = Some(formula(x, z)).filter(|want| !want.is_nan()).unwrap_or(0.0);
                assert!((got[(i, j)] - want).abs() <= 1e-13 * want.abs().max(1.0), "{text}: {} {want}", got[(i, j)]);
            }
        }
    }
    KNOWN.iter().for_each(|text| assert!(seen.contains(text), "{text} takes no sparse points"));
}

/// A value depends on its pair alone, not on the shorter side, the number of rows or the code path.
#[test]
fn bits_do_not_depend_on_the_rest_of_a_block() {
    for text in KNOWN {
        let rows = sparse(&suited(text, &dense::<f32>(60, 1)));
        let columns = sparse(&suited(text, &dense::<f32>(25, 7)));
        let (x, z) = (view(&rows, 2 * ROOM), view(&columns, 2 * ROOM));
        let kernel = on_sparse(text).unwrap();
        let whole = block(&kernel, x, z);
        // the cosine divides by one norm after the other, so a swap of the sides changes the
        // rounding
        if *text != "cosine()" {
            assert_eq!(block(&kernel, z, x), whole.transpose().to_owned(), "{text}");
        }
        // the shorter side is indexed: 8 rows are shorter than 25 columns, 60 are not; f64 shows
        // all bits
        let wide = [&rows, &columns].map(|rows| rows.iter().map(|v| f64::from(*v)).collect::<Vec<f64>>());
        let [few, many] = [(&wide[0][..16 * ROOM]), &wide[0]]
            .map(|rows| block(&kernel, view(rows, 2 * ROOM), view(&wide[1], 2 * ROOM)));
        assert_eq!(few.as_ref(), many.subrows(0, 8), "{text}");
        let landmarks = LandmarkSet {
            points: columns.clone(),
            row_numbers: (0..25).collect(),
            d: 2 * ROOM,
            passes: 0,
            evaluations: 0,
        };
        let functions = KernelSections::new(&kernel, landmarks);
        let few = FeatureMap::<f32>::landmark_sections(&functions).unwrap();
        for (from, count) in [(0, 1), (3, 8), (57, 3)] {
            let part = block(&kernel, x.subrows(from, count), z);
            assert_eq!(part.as_ref(), whole.subrows(from, count), "{text}");
            let (mut values, mut scratch) = (vec![0.0f32; count * 25], vec![0.0f32; few.scratch_len()]);
            few.fill(x.subrows(from, count), &mut values, &mut scratch);
            assert_eq!(MatRef::from_row_major_slice(&values, count, 25), whole.subrows(from, count), "{text}");
        }
        let mut own = vec![0.0; 60];
        kernel.typed::<f32>().diag(x, &mut own);
        let square = block(&kernel, x, x);
        (0..60).for_each(|i| assert!((f64::from(square[(i, i)]) - own[i]).abs() <= 1e-6 * own[i].abs(), "{text}"));
    }
}

/// For close and large points norms cancel: the distance is summed by entries; equal points have 0.
#[test]
fn distances_of_close_points_are_exact_and_sums_that_overflow_saturate() {
    let rows = [4.0, 9.0, 1e8, 3.0, 4.0, 9.0, 1e8, 3.0 + 1e-6];
    for text in ["exponential(sigma=1)", "laplacian(sigma=1)"] {
        let k: Mat<f64> = block(&on_sparse(text).unwrap(), view(&rows, 4), view(&rows, 4));
        let distance = (3.0f64 + 1e-6) - 3.0;
        assert_eq!((k[(0, 0)], k[(1, 1)]), (1.0, 1.0));
        assert!((k[(0, 1)] - (-distance).exp()).abs() < 1e-15, "{text}: {}", k[(0, 1)]);
    }
    let rows = [0.0, 1.0, 1e200, 1e200, 0.0, 1.0, 1e200, -1e200];
    for text in KNOWN.iter().filter(|text| Kernel::parse(text).unwrap().domain() == Domain::Any) {
        let k: Mat<f64> = block(&on_sparse(text).unwrap(), view(&rows, 4), view(&rows, 4));
        assert!(k.is_all_finite(), "{text}");
    }
    let k: Mat<f64> = block(&on_sparse("linear()").unwrap(), view(&rows, 4), view(&rows, 4));
    assert_eq!((k[(0, 0)], k[(0, 1)]), (f64::MAX, 0.0));
}

#[test]
fn kernels_that_take_no_sparse_rows_say_so_and_which_do() {
    for text in ["distance()", "gaussian(sigma=[1, 2])", "gaussian(sigma=1, on=x0)", "linear() + jaccard()"] {
        let error = Kernel::parse(text).unwrap().resolve_for_rows(&["x0"], Some(2)).unwrap_err().to_string();
        assert!(error.contains("does not support sparse rows") && error.contains("gaussian, "), "{error}");
    }
    let counts = Kernel::parse("chi_squared(sigma=1)").unwrap().resolve_for_rows::<&str>(&[], Some(9)).unwrap();
    assert!(counts.check_values(view(&[3.0, -1.0, 0.5, 0.0], 4), 0).is_ok());
    assert!(counts.check_values(view(&[3.0, -1.0, -0.5, 0.0], 4), 0).is_err());
    // `1/d` counts all columns, zeros included
    let spec = Kernel::parse("polynomial(gamma=1/d)").unwrap().resolve_for_rows::<&str>(&[], Some(50)).unwrap();
    assert!(spec.to_string().contains("gamma=0.02"), "{spec}");
}
