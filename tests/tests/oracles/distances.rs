//! Coordinates from distances that are not Euclidean, and from distances to landmarks, compared
//! with closed forms and a decomposition by Jacobi rotations.

use faer::{Mat, MatRef};
use kapprox::matrix::SpectrumSummary;
use ksolve::AnyModel;
use ksolve::coordinates::{CoordinateModel, CoordinateOptions, MatrixKind, coordinates, landmark_coordinates};
use ksolve::job::Run;
use kstore::{SelectedTable, Selection, Table, Workers};

/// Returns eigenvalues and eigenvectors of a symmetric matrix by cyclic Jacobi rotations.
fn jacobi(matrix: &Mat<f64>) -> (Vec<f64>, Mat<f64>) {
    let n = matrix.nrows();
    let (mut a, mut v) = (matrix.clone(), Mat::<f64>::identity(n, n));
    for _ in 0..60 {
        for p in 0..n {
            for q in p + 1..n {
                if a[(p, q)] == 0.0 {
                    continue;
                }
                let theta = (a[(q, q)] - a[(p, p)]) / (2.0 * a[(p, q)]);
                let t = theta.signum() / (theta.abs() + theta.hypot(1.0));
                let (c, s) = (1.0 / t.hypot(1.0), t / t.hypot(1.0));
                for k in 0..n {
                    let (x, y) = (a[(k, p)], a[(k, q)]);
                    (a[(k, p)], a[(k, q)]) = (c * x - s * y, s * x + c * y);
                }
                for k in 0..n {
                    let (x, y) = (a[(p, k)], a[(q, k)]);
                    (a[(p, k)], a[(q, k)]) = (c * x - s * y, s * x + c * y);
                    let (x, y) = (v[(k, p)], v[(k, q)]);
                    (v[(k, p)], v[(k, q)]) = (c * x - s * y, s * x + c * y);
                }
            }
        }
    }
    ((0..n).map(|i| a[(i, i)]).collect(), v)
}

/// Returns −½HD²H for distances D.
fn centred(d: &Mat<f64>) -> Mat<f64> {
    let n = d.nrows();
    let centring = Mat::from_fn(n, n, |i, j| f64::from(u8::from(i == j)) - 1.0 / n as f64);
    let squares = Mat::from_fn(n, n, |i, j| d[(i, j)] * d[(i, j)]);
    let product = &centring * &squares * &centring;
    Mat::from_fn(n, n, |i, j| -0.25 * (product[(i, j)] + product[(j, i)]))
}

/// Returns the sum of λ v vᵀ over the `count` largest positive eigenvalues, and all eigenvalues in
/// descending order.
fn positive_part(matrix: &Mat<f64>, count: usize) -> (Mat<f64>, Vec<f64>) {
    let (values, vectors) = jacobi(matrix);
    let n = values.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    let leading: Vec<usize> = order.iter().copied().take(count).filter(|k| values[*k] > 0.0).collect();
    let part =
        Mat::from_fn(n, n, |i, j| leading.iter().map(|k| values[*k] * vectors[(i, *k)] * vectors[(j, *k)]).sum());
    (part, order.into_iter().map(|k| values[k]).collect())
}

/// Number of insertions, deletions and substitutions that turn one word into the other.
fn edit_distance(a: &[u8], b: &[u8]) -> f64 {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()] as f64
}

/// Distances of words of three to eight letters of a small alphabet.
fn words(n: usize) -> Mat<f64> {
    let letter = |i: usize, k: usize| b"abcde"[(i * i * 7 + k * k * 3 + i * k + i / 3 + 2 * k) % 5];
    let words: Vec<Vec<u8>> = (0..n).map(|i| (0..3 + (i * 5 + i / 7) % 6).map(|k| letter(i, k)).collect()).collect();
    Mat::from_fn(n, n, |i, j| edit_distance(&words[i], &words[j]))
}

fn selected(entries: &Mat<f64>) -> SelectedTable {
    let (n, m) = entries.shape();
    let rows: Vec<f64> = (0..n * m).map(|i| entries[(i / m, i % m)]).collect();
    let table = Table::from_rows(&rows, m, &vec![0.0; n]).unwrap();
    table.select(&Selection { features: vec!["x*".into()], ..Selection::default() }).unwrap()
}

fn options(rank: usize) -> CoordinateOptions {
    CoordinateOptions { kind: MatrixKind::Distances, rank, tolerance: 1e-6, seed: 0 }
}

/// Computes the coordinates of rows with the model, after a round trip through bytes.
fn apply(fitted: &CoordinateModel, rows: &Mat<f64>) -> Mat<f64> {
    let AnyModel::F64(model) = AnyModel::from_bytes(&fitted.model.to_bytes().unwrap()).unwrap() else { panic!("f32") };
    assert!(model == fitted.model, "the file has another model");
    let (n, m) = rows.shape();
    let flat: Vec<f64> = (0..n * m).map(|i| rows[(i / m, i % m)]).collect();
    let mut out = Mat::zeros(n, model.intercept.len());
    let x = MatRef::from_row_major_slice(&flat, n, m);
    model.predict(&model.functions().unwrap(), x, out.as_mut(), &Workers::sequential()).unwrap();
    out
}

fn spectrum(fitted: &CoordinateModel) -> SpectrumSummary {
    fitted.spectrum.expect("the eigenvalues of a matrix that is not positive semi-definite")
}

#[test]
fn edit_distances_have_the_coordinates_of_their_positive_part() {
    let d = words(60);
    for rank in [60, 3] {
        let (expected, values) = positive_part(&centred(&d), rank);
        let sequential = coordinates(&selected(&d), &options(rank), &Run::new().threads(1)).unwrap();
        let threaded = coordinates(&selected(&d), &options(rank), &Run::new().threads(3)).unwrap();
        assert!(sequential.model.to_bytes().unwrap() == threaded.model.to_bytes().unwrap(), "other bits");
        let f = apply(&sequential, &d);
        assert!((&f * f.transpose() - &expected).norm_max() < 1e-9 * values[0], "rank {rank}");
        let (positive, negative): (Vec<f64>, Vec<f64>) =
            values.iter().filter(|value| value.abs() > 1e-9).partition(|value| **value > 0.0);
        let summary = spectrum(&sequential);
        assert_eq!((summary.positive_count, summary.negative_count), (positive.len(), negative.len()));
        assert!(positive.len() > 20 && negative.len() > 20, "{values:?}");
        assert!(!sequential.is_euclidean(1e-6) && sequential.pivots.is_empty());
        let (positive_sum, negative_sum) = (positive.iter().sum::<f64>(), -negative.iter().sum::<f64>());
        let fraction = positive_sum / (positive_sum + negative_sum);
        assert!((summary.positive_fraction() - fraction).abs() < 1e-10, "{summary:?}");
        assert!((summary.smallest - values[59]).abs() < 1e-9 && (summary.largest - values[0]).abs() < 1e-9);
        let rest = positive.iter().skip(rank).sum::<f64>() / positive_sum;
        assert!((sequential.trace_error - rest).abs() < 1e-6, "{} against {rest}", sequential.trace_error);
        assert_eq!(f.ncols(), if rank == 3 { 3 } else { sequential.model.metadata.rank });
    }
}

/// The path lengths in a cycle of n points have a circulant matrix, whose eigenvalues are a
/// discrete Fourier transform.
#[test]
fn distances_along_a_cycle_have_the_eigenvalues_of_a_circulant_matrix() {
    let n = 12usize;
    let along = |i: usize| i.min(n - i) as f64;
    let d = Mat::from_fn(n, n, |i, j| along(i.abs_diff(j)));
    let frequency = |k: usize, i: usize| (2.0 * std::f64::consts::PI * (k * i) as f64 / n as f64).cos();
    let values: Vec<f64> = (1..n).map(|k| (0..n).map(|i| -0.5 * along(i) * along(i) * frequency(k, i)).sum()).collect();
    let fitted = coordinates(&selected(&d), &options(n), &Run::new()).unwrap();
    let summary = spectrum(&fitted);
    let sum = |sign: f64| values.iter().map(|value| (sign * value).max(0.0)).sum::<f64>();
    assert!((summary.positive_sum - sum(1.0)).abs() < 1e-10, "{summary:?} of {values:?}");
    assert!((summary.negative_sum - sum(-1.0)).abs() < 1e-10 && sum(-1.0) > 1.0, "{summary:?} of {values:?}");
    // square roots of path lengths are Euclidean
    let squares = CoordinateOptions { kind: MatrixKind::SquaredDistances, ..options(n) };
    let fitted = coordinates(&selected(&d), &squares, &Run::new()).unwrap();
    assert!(fitted.is_euclidean(1e-6) && fitted.spectrum.is_none() && fitted.trace_error < 1e-6);
}

#[test]
fn distances_to_landmarks_give_the_coordinates_of_all_objects() {
    // points of three dimensions: their distances to 20 landmarks determine all distances
    let point = |i: usize| [0.37, 0.71, 0.13].map(|step| ((i as f64 * step).fract() - 0.5) * 4.0);
    let apart = |i: usize, j: usize| {
        let (a, b) = (point(i), point(j));
        (0..3).map(|c| (a[c] - b[c]).powi(2)).sum::<f64>().sqrt()
    };
    let (n, m) = (150, 20);
    let landmarks = Mat::from_fn(m, m, |i, j| apart(i * 7, j * 7));
    let rows = Mat::from_fn(n, m, |i, j| apart(i, j * 7));
    let fitted = landmark_coordinates(&selected(&landmarks), &options(m), &Run::new()).unwrap();
    assert!(fitted.is_euclidean(1e-6) && fitted.model.metadata.rank == 3, "{:?}", fitted.spectrum);
    let z = apply(&fitted, &rows);
    for i in 0..n {
        for j in 0..i {
            let got = (z.row(i) - z.row(j)).norm_l2();
            assert!((got - apart(i, j)).abs() < 1e-10, "{i}, {j}: {got} against {}", apart(i, j));
        }
    }
    // words: −½ λ^(−½) vᵀ(δ − δ̄) by the dense formula, up to signs
    let d = words(90);
    let (among, to) = (d.submatrix(0, 0, 30, 30).to_owned(), d.subcols(0, 30).to_owned());
    let fitted = landmark_coordinates(&selected(&among), &options(4), &Run::new()).unwrap();
    let (values, vectors) = jacobi(&centred(&among));
    let mut order: Vec<usize> = (0..30).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    let z = apply(&fitted, &to);
    for (k, source) in order[..4].iter().enumerate() {
        let mean = |l: usize| (0..30).map(|i| among[(i, l)].powi(2)).sum::<f64>() / 30.0;
        let of_row = |i: usize| {
            let terms = (0..30).map(|l| vectors[(l, *source)] * (to[(i, l)].powi(2) - mean(l)));
            -0.5 * terms.sum::<f64>() / values[*source].sqrt()
        };
        let sign = (of_row(0) * z[(0, k)]).signum();
        (0..90).for_each(|i| assert!((z[(i, k)] - sign * of_row(i)).abs() < 1e-9, "{i}, {k}"));
    }
}

/// Similarities that are not the values of a kernel: the inner products of the coordinates are
/// K_nm K₊⁺ K_mn, where K₊⁺ is the pseudoinverse of the positive part.
#[test]
fn indefinite_similarities_have_the_coordinates_of_their_positive_part() {
    let similarity = |i: usize, j: usize| {
        let t = (i as f64 - j as f64) * 0.3;
        (1.0 - t * t).tanh() + if i == j { 0.2 } else { 0.0 }
    };
    let (n, m) = (40, 15);
    let (k_mm, k_nm) =
        (Mat::from_fn(m, m, |i, j| similarity(2 * i, 2 * j)), Mat::from_fn(n, m, |i, j| similarity(i, 2 * j)));
    let (values, vectors) = jacobi(&k_mm);
    let leading: Vec<usize> = (0..m).filter(|k| values[*k] > 0.0).collect();
    assert!(leading.len() < m && leading.len() > 3, "{values:?}");
    let inverse = Mat::from_fn(m, m, |i, j| {
        leading.iter().map(|k| vectors[(i, *k)] * vectors[(j, *k)] / values[*k]).sum::<f64>()
    });
    let expected = &k_nm * inverse * k_nm.transpose();
    let options = CoordinateOptions { kind: MatrixKind::Kernel, tolerance: 0.0, ..options(m) };
    let fitted = landmark_coordinates(&selected(&k_mm), &options, &Run::new()).unwrap();
    assert!(!fitted.is_euclidean(1e-6));
    let z = apply(&fitted, &k_nm);
    assert!((&z * z.transpose() - &expected).norm_max() < 1e-9 * expected.norm_max());
    // after the pivot 0, every 2 x 2 block of the residual is positive semi-definite, but the
    // residual has the eigenvalue -0.8
    let blocks = [[100.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.9, -0.9], [0.0, 0.9, 1.0, 0.9], [0.0, -0.9, 0.9, 1.0]];
    let k = Mat::from_fn(4, 4, |i, j| blocks[i][j]);
    let fitted = coordinates(&selected(&k), &CoordinateOptions { rank: 1, ..options }, &Run::new()).unwrap();
    assert!(!fitted.is_euclidean(1e-6) && (spectrum(&fitted).smallest + 0.8).abs() < 1e-12);
    assert!((fitted.trace_error - 3.8 / 103.8).abs() < 1e-12, "{}", fitted.trace_error);
    // the complete factorisation finds the same matrix indefinite
    let fitted = coordinates(&selected(&k), &CoordinateOptions { rank: 4, ..options }, &Run::new()).unwrap();
    assert!(!fitted.is_euclidean(1e-6) && fitted.model.metadata.rank == 3);
}
