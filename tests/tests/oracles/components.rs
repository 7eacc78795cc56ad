//! Kernel principal components, distances and pre-images, from the eigenvectors of the centred
//! kernel matrix; L1-norm components, from kernel values alone.

use faer::{Mat, MatRef};
use kfit::request::TrainOptions;
use kfit::solver::Options;
use kmill_tests::dense::kernel_matrix;
use kmill_tests::points::{Lcg, flat};
use kmill_tests::{kernels, table};
use kmodel::PreImages;
use ksolve::FoldSpec;
use ksolve::Task;
use ksolve::train::TrainedModel;
use kstore::Workers;

const N: usize = 90;

fn rows() -> Vec<Vec<f64>> {
    Lcg(21).normals(N, 2)
}

fn fit(rows: &[Vec<f64>], spec: &str, name: &str, solver: &Options) -> TrainedModel<f64> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    table::write(&path, rows, &vec![0.0; rows.len()]);
    let options = table::exact(Task::Components, spec, rows.len());
    table::solve::<f64>(&table::select(&path, Task::Components), &options, name, solver, 2)
}

/// Centres the kernel matrix by rows and columns.
fn centred(k: &[Vec<f64>]) -> Mat<f64> {
    let n = k.len();
    let means: Vec<f64> = k.iter().map(|row| row.iter().sum::<f64>() / n as f64).collect();
    let grand = means.iter().sum::<f64>() / n as f64;
    Mat::from_fn(n, n, |i, j| k[i][j] - means[i] - means[j] + grand)
}

/// k(x, x) − 2 mean_i k(x, x_i) + mean_ij k(x_i, x_j) − Σ_q score_q², from the eigenvectors of HKH.
fn distance_from_components(k: &[Vec<f64>], at: &[f64], own: f64, q: usize) -> f64 {
    let n = k.len();
    let mean = |row: &[f64]| row.iter().sum::<f64>() / n as f64;
    let means: Vec<f64> = k.iter().map(|row| mean(row)).collect();
    let grand = mean(&means);
    let eigen = centred(k).self_adjoint_eigen(faer::Side::Lower).unwrap();
    let column: Vec<f64> = (0..n).map(|i| at[i] - means[i] - mean(at) + grand).collect();
    let scores = (n - q..n).map(|j| {
        let dot: f64 = (0..n).map(|i| eigen.U()[(i, j)] * column[i]).sum();
        dot * dot / eigen.S()[j]
    });
    own - 2.0 * mean(at) + grand - scores.sum::<f64>()
}

/// Fraction of a fold's variance that the other folds' components explain, from kernel matrices.
#[test]
fn the_held_out_share_of_variance_is_that_of_components_without_the_rows() {
    let (rows, spec, q) = (rows(), "matern(nu=1.5, sigma=2)", 6);
    let k = kernels::kernel(spec);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    table::write(&path, &rows, &vec![0.0; N]);
    let options = TrainOptions { folds: FoldSpec::Blocks(3), ..table::exact(Task::Components, spec, N) };
    let fitted = |threads| {
        let solver = Options::new().set("components", q);
        table::solve::<f64>(&table::select(&path, Task::Components), &options, "kpca", &solver, threads)
    };
    let (trained, again) = (fitted(2), fitted(1));
    assert!(trained.report.figures == again.report.figures && trained.model.coefficients == again.model.coefficients);
    let shares =
        &trained.report.figures.iter().find(|figure| figure.name == "held-out share of variance").unwrap().values;
    let mut left = vec![0.0; q + 1];
    for fold in 0..3 {
        let (held, inside): (Vec<usize>, Vec<usize>) = (0..N).partition(|i| i / 30 == fold);
        let inside: Vec<Vec<f64>> = inside.iter().map(|i| rows[*i].clone()).collect();
        let matrix = kernel_matrix(&inside, &*k);
        for i in held {
            let at: Vec<f64> = inside.iter().map(|row| k(row, &rows[i])).collect();
            for (q, left) in left.iter_mut().enumerate() {
                *left += distance_from_components(&matrix, &at, k(&rows[i], &rows[i]), q);
            }
        }
    }
    for (j, share) in shares.iter().enumerate() {
        let expected = (left[j] - left[j + 1]) / left[0];
        assert!((share - expected).abs() < 1e-7, "component {j}: {share} and {expected}");
    }
    let train = &trained.report.figures.iter().find(|figure| figure.name == "share of variance").unwrap().values;
    assert!(shares.iter().sum::<f64>() < train.iter().sum::<f64>(), "{shares:?} {train:?}");
}

#[test]
fn the_distance_from_components_is_what_they_cannot_reconstruct() {
    let rows = rows();
    let spec = "matern(nu=1.5, sigma=2)";
    let k = kernels::kernel(spec);
    let matrix = kernel_matrix(&rows, &*k);
    for (whiten, components) in [(false, 5), (true, 3)] {
        let solver = Options::new().set("components", components).set("whiten", whiten).set("novelty", true);
        let model = table::model(&fit(&rows, spec, "kpca", &solver));
        let (functions, kernel) = (model.functions().unwrap(), model.kernel().unwrap());
        let at: Vec<Vec<f64>> =
            rows[..3].iter().cloned().chain(Lcg(23).normals(10, 2)).chain([vec![6.0, 6.0]]).collect();
        let (x, mut found) = (flat(&at), vec![0.0; at.len()]);
        let x = MatRef::from_row_major_slice(&x, at.len(), 2);
        model.predict_quadratic(&functions, &*kernel, x, &mut found, &Workers::new(2)).unwrap();
        for (found, at) in found.iter().zip(&at) {
            let column: Vec<f64> = rows.iter().map(|z| k(at, z)).collect();
            let expected = distance_from_components(&matrix, &column, k(at, at), components);
            assert!((found - expected).abs() < 1e-9, "{components} at {at:?}: {found} {expected}");
        }
        assert!(found[found.len() - 1] > 5.0 * found[0], "what is far away is novel: {found:?}");
    }
}

/// Computes the weights of all rows in the projection of a row on the components.
fn projection(rows: &[Vec<f64>], k: &dyn Fn(&[f64], &[f64]) -> f64, at: &[f64], q: usize) -> Vec<f64> {
    let n = rows.len();
    let matrix = kernel_matrix(rows, k);
    let eigen = centred(&matrix).self_adjoint_eigen(faer::Side::Lower).unwrap();
    let column: Vec<f64> = rows.iter().map(|z| k(at, z)).collect();
    let means: Vec<f64> = matrix.iter().map(|row| row.iter().sum::<f64>() / n as f64).collect();
    let (grand, own) = (means.iter().sum::<f64>() / n as f64, column.iter().sum::<f64>() / n as f64);
    // P = mean + Σ_q score_q v_q with v_q = Σ_i a_i (φ_i − mean), a = eigenvector/√eigenvalue
    let mut gamma = vec![1.0 / n as f64; n];
    for j in n - q..n {
        let a: Vec<f64> = (0..n).map(|i| eigen.U()[(i, j)] / eigen.S()[j].sqrt()).collect();
        let score: f64 = (0..n).map(|i| a[i] * (column[i] - means[i] - own + grand)).sum();
        let total: f64 = a.iter().sum();
        (0..n).for_each(|i| gamma[i] += score * (a[i] - total / n as f64));
    }
    gamma
}

/// Computes the fixed point of Mika et al. from these weights.
fn pre_image(rows: &[Vec<f64>], sigma: f64, at: &[f64], q: usize) -> Vec<f64> {
    let k = |x: &[f64], z: &[f64]| {
        let squared: f64 = x.iter().zip(z).map(|(x, z)| (x - z) * (x - z)).sum();
        (-squared / (2.0 * sigma * sigma)).exp()
    };
    let gamma = projection(rows, &k, at, q);
    let mut z = at.to_vec();
    for _ in 0..100_000 {
        let weights: Vec<f64> = rows.iter().zip(&gamma).map(|(row, gamma)| gamma * k(&z, row)).collect();
        let sum: f64 = weights.iter().sum();
        z = (0..z.len()).map(|c| rows.iter().zip(&weights).map(|(row, w)| w * row[c]).sum::<f64>() / sum).collect();
    }
    z
}

#[test]
fn pre_images_are_the_fixed_point() {
    // a noisy circle
    let mut random = Lcg(24);
    let rows: Vec<Vec<f64>> = (0..60)
        .map(|i| {
            let angle = i as f64 / 60.0 * std::f64::consts::TAU;
            vec![3.0 * angle.cos() + 0.2 * random.normal(), 3.0 * angle.sin() + 0.2 * random.normal()]
        })
        .collect();
    let solver = Options::new().set("components", 4).set("novelty", true);
    let model = table::model(&fit(&rows, "gaussian(sigma=1.5)", "kpca", &solver));
    let at = [vec![3.4, 0.3], vec![-2.0, 1.8], vec![0.2, -2.5]];
    let (x, mut found) = (flat(&at), vec![0.0; 6]);
    let (x, basis) = (MatRef::from_row_major_slice(&x, 3, 2), model.functions().unwrap());
    let unsettled = PreImages::new(&model).unwrap().apply(&model, &*basis, x, &mut found, &Workers::new(2)).unwrap();
    assert_eq!(unsettled, 0);
    for (found, at) in found.chunks(2).zip(&at) {
        let expected = pre_image(&rows, 1.5, at, 4);
        let error = (found[0] - expected[0]).hypot(found[1] - expected[1]);
        assert!(error < 1e-5, "{at:?}: {found:?} {expected:?}");
        let off = |z: &[f64]| (z[0].hypot(z[1]) - 3.0).abs();
        assert!(off(found) < 0.8 * off(at), "{at:?} is pulled to the circle: {found:?}");
    }
    // without a kernel gradient or `novelty`, an error says so
    let other = table::model(&fit(&rows, "delta()", "kpca", &solver));
    assert!(PreImages::new(&other).unwrap_err().to_string().contains("no gradient"));
    let plain = Options::new().set("components", 4);
    let without = table::model(&fit(&rows, "gaussian(sigma=1.5)", "kpca", &plain));
    assert!(PreImages::new(&without).unwrap_err().to_string().contains("`novelty`"));
}

/// Projects a row on the two leading principal axes, from the eigenvectors of the covariance.
fn reconstructed(rows: &[Vec<f64>], at: &[f64]) -> Vec<f64> {
    let (n, d) = (rows.len() as f64, at.len());
    let mean: Vec<f64> = (0..d).map(|j| rows.iter().map(|row| row[j]).sum::<f64>() / n).collect();
    let of = |i: usize, j: usize| rows.iter().map(|row| (row[i] - mean[i]) * (row[j] - mean[j])).sum::<f64>() / n;
    let eigen = Mat::from_fn(d, d, of).self_adjoint_eigen(faer::Side::Lower).unwrap();
    let mut z = mean.clone();
    for q in d - 2..d {
        let score: f64 = (0..d).map(|j| eigen.U()[(j, q)] * (at[j] - mean[j])).sum();
        (0..d).for_each(|j| z[j] += score * eigen.U()[(j, q)]);
    }
    z
}

#[test]
fn pre_images_of_any_kernel_with_a_gradient_are_minima() {
    let mut random = Lcg(31);
    let rows: Vec<Vec<f64>> = (0..50)
        .map(|_| {
            let (a, b) = (random.normal(), random.normal());
            vec![2.0 * a, a + b, b - a + 0.1 * random.normal()]
        })
        .collect();
    let solver = Options::new().set("components", 2).set("novelty", true);
    let at = [vec![1.0, 0.4, -0.7], vec![-2.0, 0.3, 1.5]];
    for kernel in ["linear()", "polynomial(degree=2)", "matern(nu=2.5, sigma=3)", "cauchy(sigma=3)"] {
        let model = table::model(&fit(&rows, kernel, "kpca", &solver));
        let (x, mut found) = (flat(&at), vec![0.0; 6]);
        let (x, basis) = (MatRef::from_row_major_slice(&x, 2, 3), model.functions().unwrap());
        let unsettled =
            PreImages::new(&model).unwrap().apply(&model, &*basis, x, &mut found, &Workers::new(2)).unwrap();
        assert_eq!(unsettled, 0, "{kernel}");
        if kernel == "linear()" {
            // here the projection is a row itself: the reconstruction from principal components
            for (found, at) in found.chunks(3).zip(&at) {
                let off = found.iter().zip(reconstructed(&rows, at)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(off < 1e-6, "{found:?}");
            }
        }
        let k = kernels::kernel(kernel);
        for (found, at) in found.chunks(3).zip(&at) {
            let gamma = projection(&rows, &*k, at, 2);
            let distance =
                |z: &[f64]| k(z, z) - 2.0 * rows.iter().zip(&gamma).map(|(row, g)| g * k(row, z)).sum::<f64>();
            let least = distance(found);
            assert!(least <= distance(at), "{kernel}");
            for step in [-1e-3, 1e-3] {
                for j in 0..3 {
                    let mut beside = found.to_vec();
                    beside[j] += step;
                    assert!(least < distance(&beside), "{kernel}, {found:?}: {least} {}", distance(&beside));
                }
            }
        }
    }
}

/// Computes training scores and mean |score| of each component from the centred kernel matrix:
/// v = Σ s_i φ_i/‖·‖ with signs s; a component deflates the matrix by its scores' outer product.
fn l1_components(mut k: Mat<f64>, q: usize) -> Vec<(Vec<f64>, f64)> {
    let n = k.nrows();
    let mut found = Vec::new();
    for _ in 0..q {
        let start = (0..n).fold(0, |best, i| if k[(i, i)] > k[(best, best)] { i } else { best });
        let mut scores: Vec<f64> = (0..n).map(|i| k[(i, start)] / k[(start, start)].sqrt()).collect();
        let mut sides: Vec<f64> = Vec::new();
        loop {
            let next: Vec<f64> = scores.iter().map(|s| if *s < 0.0 { -1.0 } else { 1.0 }).collect();
            if next == sides {
                break;
            }
            sides = next;
            let product: Vec<f64> = (0..n).map(|i| (0..n).map(|j| k[(i, j)] * sides[j]).sum()).collect();
            let length = sides.iter().zip(&product).map(|(s, p)| s * p).sum::<f64>().sqrt();
            scores = product.iter().map(|p| p / length).collect();
        }
        k = Mat::from_fn(n, n, |i, j| k[(i, j)] - scores[i] * scores[j]);
        let mean = scores.iter().map(|s| s.abs()).sum::<f64>() / n as f64;
        found.push((scores, mean));
    }
    found
}

#[test]
fn components_of_the_l1_norm_are_those_of_kernel_values_alone() {
    let rows = rows();
    for spec in ["matern(nu=1.5, sigma=2)", "gaussian(sigma=1)"] {
        let solver = Options::new().set("components", 4).set("novelty", true).set("starts", 1);
        let trained = fit(&rows, spec, "kpca-l1", &solver);
        let expected = l1_components(centred(&kernel_matrix(&rows, &*kernels::kernel(spec))), 4);
        let scores: Vec<Vec<f64>> = rows.iter().map(|row| table::predict(&trained, spec, row)).collect();
        for (j, (expected, mean)) in expected.iter().enumerate() {
            assert!(
                (trained.report.figures[0].values[j] / mean - 1.0).abs() < 1e-9,
                "{spec}, {j}: {:?} {mean}",
                trained.report.figures
            );
            let sign = if scores[0][j] * expected[0] < 0.0 { -1.0 } else { 1.0 };
            for (i, expected) in expected.iter().enumerate() {
                assert!(
                    (sign * scores[i][j] - expected).abs() < 1e-7,
                    "{spec}, {j}, row {i}: {} {expected}",
                    scores[i][j]
                );
            }
        }
    }
}

/// Rows on two axes: started at the longest row, no sign changes, but the rows of the other axis
/// lie on the separating plane and the sum is not a maximum.
#[test]
fn components_of_the_l1_norm_leave_a_plane_with_rows_on_it() {
    let rows: Vec<Vec<f64>> = [[3.0, 0.0], [-3.0, 0.0], [0.0, 2.0], [0.0, -2.0]].map(|x| x.to_vec()).to_vec();
    let solver = Options::new().set("components", 2).set("uncentred", true);
    let trained = fit(&rows, "linear()", "kpca-l1", &solver);
    // direction (3, 2)/√13: (2·9 + 2·4)/(4√13); the axis has only 1.5
    let means = &trained.report.figures[0].values;
    assert!((means[0] - 13f64.sqrt() / 2.0).abs() < 1e-12, "{means:?}");
    // the second component is orthogonal: every row has |score| 6/√13
    assert!((means[1] - 6.0 / 13f64.sqrt()).abs() < 1e-12, "{means:?}");
    let again = fit(&rows, "linear()", "kpca-l1", &solver);
    assert_eq!(again.report.figures, trained.report.figures);
}

/// In two dimensions every direction can be tried: one start ends far below the best, many near it.
#[test]
fn several_starts_find_the_best_direction_of_the_l1_norm() {
    let best_of = |rows: &[Vec<f64>]| {
        let mean_score = |angle: f64| {
            let (sin, cos) = angle.sin_cos();
            rows.iter().map(|x| (cos * x[0] + sin * x[1]).abs()).sum::<f64>() / rows.len() as f64
        };
        (0..20_000).map(|k| mean_score(f64::from(k) * std::f64::consts::PI / 20_000.0)).fold(0.0, f64::max)
    };
    let reached = |starts: usize| -> f64 {
        let of_table = |seed: u64| {
            let rows = Lcg(seed).normals(40, 2);
            let solver = Options::new().set("components", 1).set("uncentred", true).set("starts", starts);
            let trained = fit(&rows, "linear()", "kpca-l1", &solver);
            trained.report.figures[0].values[0] / best_of(&rows)
        };
        (0..20).map(of_table).fold(f64::INFINITY, f64::min)
    };
    let (one, four, many) = (reached(1), reached(4), reached(40));
    assert!(one < 0.8 && four > 0.98 && (0.9999..1.0001).contains(&many), "{one} {four} {many}");
}

/// One distant row turns the first principal component, but hardly the first L1-norm component.
#[test]
fn an_outlier_moves_the_components_of_the_l1_norm_less() {
    let mut rows: Vec<Vec<f64>> = Lcg(25).normals(80, 2).iter().map(|x| vec![4.0 * x[0], 0.5 * x[1]]).collect();
    rows.push(vec![0.0, 40.0]);
    let solver = Options::new().set("components", 1);
    let slope = |name: &str| {
        let trained = fit(&rows, "linear()", name, &solver);
        let [origin, right, up] =
            [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]].map(|x| table::predict(&trained, "linear()", &x)[0]);
        ((up - origin) / (right - origin)).abs()
    };
    let (l1, l2) = (slope("kpca-l1"), slope("kpca"));
    assert!(l2 > 1.0 && l1 < 0.5 * l2, "{l1} {l2}");
}
