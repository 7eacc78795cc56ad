//! Low-rank approximations of matrices given by their entries, compared with dense decompositions.

use faer::{Mat, MatRef, Side};
use kapprox::Error;
use kapprox::matrix::{self, FnEntries, PartialCholesky, PsdMatrix, SquaredDistances};
use kpass::Workers;

/// Kernel matrix of three clouds of points, one far smaller. Only the matrix is approximated.
fn clouds(n: usize) -> Mat<f64> {
    let mut state = 5u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut coordinate = |i: usize| {
        let (shift, scale) = [(0.0, 2.0), (6.0, 3.0), (-9.0, 0.6)][if i.is_multiple_of(50) { 2 } else { i % 2 }];
        // the sum of three uniform numbers is nearly normal
        shift + scale * (uniform() + uniform() + uniform() - 1.5)
    };
    let x: Vec<[f64; 3]> = (0..n).map(|i| [coordinate(i), coordinate(i), coordinate(i)]).collect();
    let squares = |i: usize, j: usize| x[i].iter().zip(&x[j]).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    Mat::from_fn(n, n, |i, j| (-squares(i, j) / 4.5).exp())
}

fn approximate(k: &dyn PsdMatrix, rank: usize, tolerance: f64, seed: Option<u64>) -> PartialCholesky {
    let workers = Workers::sequential();
    match seed {
        Some(seed) => matrix::rpcholesky(k, rank, tolerance, seed, &workers).expect("pivots"),
        None => matrix::greedy(k, rank, tolerance, &workers).expect("pivots"),
    }
}

fn eigenvalues(k: MatRef<'_, f64>) -> Vec<f64> {
    k.self_adjoint_eigenvalues(Side::Lower).expect("eigenvalues")
}

/// F Fᵀ is K_nS K_SS⁻¹ K_Sn; the residual is positive semi-definite, its trace the certificate.
#[test]
fn it_is_the_projection_on_the_columns_of_the_pivots() {
    let k = clouds(400);
    for (seed, rank) in [(Some(3), 1), (Some(4), 70), (None, 70)] {
        let found = approximate(&k.as_ref(), rank, 0.0, seed);
        assert_eq!((found.pivots.len(), found.factor.shape()), (rank, (400, rank)));
        let at: Vec<usize> = found.pivots.iter().map(|row| *row as usize).collect();
        let columns = Mat::from_fn(400, rank, |i, j| k[(i, at[j])]);
        let inner = Mat::from_fn(rank, rank, |i, j| k[(at[i], at[j])]);
        let lower = found.lower();
        assert!((&lower * lower.transpose() - &inner).norm_max() < 1e-12);
        let product = &found.factor * found.factor.transpose();
        let exact = &columns * inner.self_adjoint_eigen(Side::Lower).unwrap().pseudoinverse() * columns.transpose();
        assert!((&product - &exact).norm_max() < 1e-8, "{seed:?}: {:e}", (&product - &exact).norm_max());
        let left = &k - &product;
        assert!(at.iter().all(|j| left.col(*j).norm_max() < 1e-12), "columns of pivots are exact");
        assert!(eigenvalues(left.as_ref())[0] > -1e-12);
        let trace: f64 = (0..400).map(|i| left[(i, i)]).sum();
        assert!((found.trace_error - trace / 400.0).abs() < 1e-13 && (found.trace - 400.0).abs() < 1e-10);
        // n (r + 1) entries, a few between candidates, and eight columns for checks
        let most = 400 * (rank as u64 + 1) * 3 / 2 + 400 * 8;
        assert!(found.evaluations < most, "{} for rank {rank}", found.evaluations);
    }
}

/// Chen, Epperly, Tropp, Webber, theorem 3.1 with ε = 1: from r = k + k log(1/η) on, the mean error
/// is at most twice that of the best rank-k approximation, which leaves the fraction η of the
/// trace.
#[test]
fn the_mean_error_of_random_pivots_is_within_its_law() {
    let k = clouds(300);
    let values = eigenvalues(k.as_ref());
    let tail = |rank: usize| values[..300 - rank].iter().map(|value| value.max(0.0)).sum::<f64>() / 300.0;
    for best in [3, 6, 10] {
        let eta = tail(best);
        let rank = best + (best as f64 * (1.0 / eta).ln()).ceil() as usize;
        let errors: Vec<f64> =
            (0..60).map(|seed| approximate(&k.as_ref(), rank, 0.0, Some(seed)).trace_error).collect();
        let mean = errors.iter().sum::<f64>() / 60.0;
        eprintln!("rank {rank}: mean {mean:.3e}, law {:.3e}, best {:.3e}", 2.0 * eta, tail(rank));
        assert!(mean <= 2.0 * eta && errors.iter().all(|error| *error >= tail(rank)), "{mean} at rank {rank}");
    }
}

/// The greedy pivots are the rows with the largest residuals, found by a search over all rows.
#[test]
fn greedy_pivots_are_the_largest_residuals() {
    let k = clouds(350);
    let found = approximate(&k.as_ref(), 40, 0.0, None);
    let mut left = k;
    for pivot in found.pivots {
        let largest = (0..350).map(|i| left[(i, i)]).fold(0.0, f64::max);
        let pivot = pivot as usize;
        assert!(left[(pivot, pivot)] > largest - 1e-10, "{} of {largest}", left[(pivot, pivot)]);
        let column = Mat::from_fn(350, 1, |i, _| left[(i, pivot)] / left[(pivot, pivot)].sqrt());
        left -= &column * column.transpose();
    }
}

/// A tolerance stops at the smallest number of pivots that reaches it; the pivots do not change.
#[test]
fn a_tolerance_stops() {
    let k = clouds(400);
    for seed in [Some(1), None] {
        let all = approximate(&k.as_ref(), 100, 0.0, seed);
        let found = approximate(&k.as_ref(), 100, 0.05, seed);
        let r = found.pivots.len();
        assert!(found.trace_error <= 0.05 && r < 100 && found.factor.ncols() == r);
        assert_eq!(found.pivots, all.pivots[..r]);
        assert!((&found.factor - all.factor.subcols(0, r)).norm_max() < 1e-12);
        let fewer = approximate(&k.as_ref(), r - 1, 0.0, seed);
        assert!(seed.is_some() || fewer.trace_error > 0.05, "one pivot less is not enough");
        let left: f64 = (0..400).map(|i| k[(i, i)] - found.factor.row(i).squared_norm_l2()).sum();
        assert!((found.trace_error - left / 400.0).abs() < 1e-13);
    }
}

/// A function, row-major and column-major arrays and a mapped file give equal results on any
/// threads.
#[test]
fn it_does_not_depend_on_where_the_entries_are_nor_on_threads() {
    let k = clouds(700);
    let rows: Vec<f64> = (0..700 * 700).map(|i| k[(i / 700, i % 700)]).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k.f64");
    std::fs::write(&path, rows.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    let mapped = kstore::mmap::MappedFile::open(&path).unwrap();
    let mapped: &[f64] = mapped.slice(0, 700 * 700).unwrap();
    let function = FnEntries { n: 700, entry: |i: u64, j: u64| k[(i as usize, j as usize)] };
    let (rows, mapped) =
        (MatRef::from_row_major_slice(&rows, 700, 700), MatRef::from_row_major_slice(mapped, 700, 700));
    let entries: [&dyn PsdMatrix; 4] = [&function, &k.as_ref(), &rows, &mapped];
    let one = matrix::rpcholesky(&function, 90, 0.0, 7, &Workers::sequential()).unwrap();
    for entries in entries {
        for threads in [2, 3] {
            let other = matrix::rpcholesky(entries, 90, 0.0, 7, &Workers::new(threads)).unwrap();
            assert_eq!((&one.pivots, one.evaluations), (&other.pivots, other.evaluations));
            assert!(one.factor == other.factor && one.residuals == other.residuals);
        }
    }
}

/// A matrix of low rank gives fewer pivots, also when its entries are rounded to f32.
#[test]
fn rounding_is_no_pivot() {
    let x = Mat::from_fn(250, 4, |i, j| ((i * 37 + j * 101) % 89) as f64 - 44.0);
    let k = &x * x.transpose();
    let narrow: Mat<f32> = Mat::from_fn(250, 250, |i, j| k[(i, j)] as f32 * 1.1);
    for seed in [Some(0), Some(1), None] {
        let found = approximate(&k.as_ref(), 30, 0.0, seed);
        assert!(found.pivots.len() == 4 && found.trace_error < 1e-13, "{} pivots", found.pivots.len());
        let found = approximate(&narrow.as_ref(), 30, 0.0, seed);
        assert!(found.pivots.len() == 4 && found.trace_error < 1e-5, "{} pivots", found.pivots.len());
    }
    let nothing = FnEntries { n: 9, entry: |_, _| 0.0 };
    assert!(approximate(&nothing, 5, 0.0, Some(0)).pivots.is_empty());
    assert!(approximate(&FnEntries { n: 0, entry: |_, _| 1.0 }, 5, 0.0, Some(0)).pivots.is_empty());
    assert!(approximate(&nothing, 0, 0.0, None).trace_error == 0.0);
}

/// The error names the row for every kind of fault.
#[test]
fn a_matrix_that_is_not_positive_semi_definite_is_refused() {
    let workers = Workers::new(2);
    let both = |k: &dyn PsdMatrix| {
        [matrix::rpcholesky(k, 20, 0.0, 1, &workers), matrix::greedy(k, 20, 0.0, &workers)].map(Result::unwrap_err)
    };
    let negative = FnEntries {
        n: 50,
        entry: |i: u64, j: u64| {
            if i != j {
                0.0
            } else if i == 31 {
                -0.5
            } else {
                1.0
            }
        },
    };
    let beyond = FnEntries {
        n: 50,
        entry: |i: u64, j: u64| {
            if i == j {
                1.0
            } else if i + j == 61 {
                1.5
            } else {
                0.0
            }
        },
    };
    let missing =
        FnEntries { n: 50, entry: |i: u64, j: u64| if i == 7 || j == 7 { f64::NAN } else { (i.min(j) + 1) as f64 } };
    for error in both(&negative) {
        assert!(matches!(error, Error::Indefinite { row: 31, .. }), "{error}");
    }
    for error in both(&beyond) {
        assert!(matches!(error, Error::Indefinite { row: 12..50, .. }), "{error}");
    }
    for error in both(&missing) {
        assert!(matches!(error, Error::NotFinite { .. }) && error.to_string().contains("row 7"), "{error}");
    }
    let wide = Mat::<f64>::zeros(3, 4);
    assert!(both(&wide.as_ref()).iter().all(|error| error.to_string().contains("shape (3, 4)")));
}

/// The factor reproduces the squared distances of coinciding and distinct points. Its centred form
/// approximates −½HDH of classical scaling.
#[test]
fn squared_distances_are_those_of_the_coordinates() {
    let k = clouds(120);
    // feature-space distances; some points occur twice, and rows 0 to 2 are the same point
    let at = |i: usize| if i < 3 { 7 } else { i % 100 };
    let d = Mat::from_fn(120, 120, |i, j| (k[(at(i), at(i))] + k[(at(j), at(j))] - 2.0 * k[(at(i), at(j))]).max(0.0));
    let given = SquaredDistances::new(d.as_ref()).unwrap();
    let found = approximate(&given, 120, 0.0, Some(1));
    let f = &found.factor;
    for i in 0..120 {
        for j in 0..120 {
            let squared: f64 = (f.row(i) - f.row(j)).squared_norm_l2();
            assert!((squared - d[(i, j)]).abs() < 1e-9, "{i} {j}: {squared} {}", d[(i, j)]);
        }
    }
    let centring = Mat::from_fn(120, 120, |i, j| f64::from(u8::from(i == j)) - 1.0 / 120.0);
    let classical = -0.5 * &centring * &d * &centring;
    for rank in [5, 30] {
        let (some, means) = approximate(&given, rank, 0.0, Some(2)).centred();
        let left = &classical - &some.factor * some.factor.transpose();
        assert!(eigenvalues(left.as_ref())[0] > -1e-10);
        let trace = |matrix: &Mat<f64>| (0..120).map(|i| matrix[(i, i)]).sum::<f64>();
        let error = trace(&left) / trace(&classical);
        assert!(
            error <= some.trace_error + 1e-12 && some.trace_error < 4.0 * error + 1e-9,
            "{error} {}",
            some.trace_error
        );
        assert!(some.factor.col_iter().all(|column| column.iter().sum::<f64>().abs() < 1e-10) && means.len() == rank);
    }
    // a triangle that violates the triangle inequality
    let wrong = FnEntries {
        n: 3,
        entry: |i: u64, j: u64| [[0.0, 1.0, 9.0], [1.0, 0.0, 1.0], [9.0, 1.0, 0.0]][i as usize][j as usize],
    };
    let refused = matrix::rpcholesky(&SquaredDistances::new(wrong).unwrap(), 3, 0.0, 0, &Workers::sequential());
    assert!(matches!(refused, Err(Error::Indefinite { .. })), "{refused:?}");
    // shortest-path distances of rings and of a star: the pivots leave a zero diagonal but nonzero
    // off-diagonal entries
    for n in [4, 6, 10] {
        let ring = FnEntries { n, entry: |i: u64, j: u64| (i.abs_diff(j).min(n - i.abs_diff(j)) as f64).powi(2) };
        let refused =
            matrix::rpcholesky(&SquaredDistances::new(ring).unwrap(), n as usize, 0.0, 0, &Workers::sequential());
        assert!(matches!(refused, Err(Error::Indefinite { .. })), "{n}: {refused:?}");
    }
    let star = |i: u64, j: u64| {
        if i == j {
            0.0
        } else if i == 0 || j == 0 {
            1.0
        } else {
            4.0
        }
    };
    let refused = matrix::greedy(
        &SquaredDistances::new(FnEntries { n: 5, entry: star }).unwrap(),
        5,
        0.0,
        &Workers::sequential(),
    );
    assert!(matches!(refused, Err(Error::Indefinite { .. })), "{refused:?}");
    let own = FnEntries { n: 2, entry: |_: u64, _: u64| 1.0 };
    assert!(
        SquaredDistances::new(own).is_err_and(|error| error.to_string().contains("distance of the point from itself"))
    );
}
