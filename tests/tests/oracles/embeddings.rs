//! Landmark embeddings compared with dense forms and scikit-learn (`scripts/golden.py embeddings`).

use crate::solvers::{close, golden, rows};
use faer::{Mat, MatRef};
use kapprox::decompose::symmetric_eigen;
use kfit::request::TrainOptions;
use kfit::solver::Options;
use kmill_tests::kernels;
use kmill_tests::table::{exact, model, predict, select, solve, try_solve, write};
use ksolve::train::TrainedModel;
use ksolve::{AnyModel, Task};
use kstore::Workers;
use serde_json::Value;
use std::path::Path;

type Rows = Vec<Vec<f64>>;

const KERNEL: &str = "gaussian(sigma=2)";

/// Fits in f64; one thread and three threads must give the same model.
fn fitted(x: &Rows, options: &TrainOptions, name: &str, given: &Options) -> TrainedModel<f64> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, x, &vec![0.0; x.len()]);
    let selected = select(&path, Task::Components);
    let trained = solve::<f64>(&selected, options, name, given, 1);
    let again = solve::<f64>(&selected, options, name, given, 3);
    let bits = |trained: &TrainedModel<f64>| model(trained).to_bytes().unwrap();
    assert!(bits(&trained) == bits(&again), "{name}: other bits on three threads");
    trained
}

fn refused(x: &Rows, options: &TrainOptions, name: &str, given: &Options) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, x, &vec![0.0; x.len()]);
    try_solve::<f64>(&select(&path, Task::Components), options, name, given, 1).unwrap_err().to_string()
}

/// Computes the coordinates of rows with the model, after a round trip through bytes.
fn coordinates(trained: &TrainedModel<f64>, x: &Rows) -> Rows {
    let saved = model(trained);
    let AnyModel::F64(read) = AnyModel::from_bytes(&saved.to_bytes().unwrap()).unwrap() else { panic!("f32") };
    assert!(read == saved, "the file has another model");
    let flat: Vec<f64> = x.concat();
    let basis = read.functions().unwrap();
    let mut out = Mat::zeros(x.len(), trained.model.intercept.len());
    let rows = MatRef::from_row_major_slice(&flat, x.len(), x[0].len());
    read.predict(&basis, rows, out.as_mut(), &Workers::sequential()).unwrap();
    (0..x.len()).map(|i| out.row(i).iter().copied().collect()).collect()
}

/// Asserts that columns are equal up to sign, within `tolerance` times the largest entry.
pub(crate) fn same_up_to_signs(got: &Rows, expected: &Rows, tolerance: f64, what: &str) {
    for j in 0..expected[0].len() {
        let scale = expected.iter().map(|row| row[j].abs()).fold(0.0, f64::max);
        let sign: f64 = got.iter().zip(expected).map(|(a, b)| a[j] * b[j]).sum::<f64>().signum();
        let apart = got.iter().zip(expected).map(|(a, b)| (a[j] - sign * b[j]).abs()).fold(0.0, f64::max);
        eprintln!("{what}, coordinate {j}: {:.1e}", apart / scale);
        assert!(apart <= tolerance * scale, "{what}, coordinate {j}: {apart:e} of {scale}");
    }
}

fn symmetric(n: usize, entry: impl Fn(usize, usize) -> f64) -> (Vec<f64>, Mat<f64>) {
    symmetric_eigen(Mat::from_fn(n, n, entry).as_ref()).unwrap()
}

#[test]
fn eigenmaps_are_those_of_the_dense_matrix() {
    let golden = golden();
    let (x, q) = (golden.x, 3);
    let n = x.len();
    let k = kernels::kernel(KERNEL);
    let options = exact(Task::Components, KERNEL, n);
    let trained = fitted(&x, &options, "laplacian", &Options::new().set("components", q));
    let degrees: Vec<f64> = x.iter().map(|a| x.iter().map(|b| k(a, b)).sum()).collect();
    let (values, vectors) = symmetric(n, |i, j| k(&x[i], &x[j]) / (degrees[i] * degrees[j]).sqrt());
    let expected: Rows =
        (0..n).map(|i| (0..q).map(|j| vectors[(i, n - 2 - j)] / degrees[i].sqrt()).collect()).collect();
    same_up_to_signs(&coordinates(&trained, &x), &expected, 1e-8, "eigenmaps");
    for (j, value) in trained.report.figures[0].values.iter().enumerate() {
        close(*value, values[n - 1 - j], 1e-10, "eigenvalue");
    }
    // a new row: kernel-weighted mean of the rows' coordinates, divided by the eigenvalue
    let new: Rows = golden.new;
    let extended = |z: &Vec<f64>| {
        let near: Vec<f64> = x.iter().map(|b| k(z, b)).collect();
        let degree: f64 = near.iter().sum();
        let mean = |j: usize| near.iter().zip(&expected).map(|(k, row)| k * row[j]).sum::<f64>();
        (0..q).map(|j| mean(j) / (degree * values[n - 2 - j])).collect()
    };
    same_up_to_signs(&coordinates(&trained, &new), &new.iter().map(extended).collect(), 1e-8, "eigenmaps of new rows");
    // rows far from all others have degree 0; a lower bound on the degree keeps them finite
    let far = coordinates(&trained, &vec![vec![1e3; x[0].len()]]);
    assert!(far[0].iter().all(|v| v.is_finite()));
}

#[test]
fn scaling_is_the_classical_one_and_with_a_linear_kernel_principal_components() {
    let golden = golden();
    let (x, n, q) = (&golden.x, golden.x.len(), 3);
    for kernel in [KERNEL, "linear()"] {
        let k = kernels::kernel(kernel);
        let distance = |a: &[f64], b: &[f64]| k(a, a) - 2.0 * k(a, b) + k(b, b);
        // with n landmarks the uniform scheme selects all rows, with 40 a part of them
        for m in [n, 40] {
            let options = TrainOptions { rank: m, ranks: vec![m], ..exact(Task::Components, kernel, n) };
            let trained = fitted(x, &options, "mds", &Options::new().set("components", q));
            let (points, _) = trained.model.basis.landmarks().unwrap();
            let z: Rows = points.chunks(x[0].len()).map(<[f64]>::to_vec).collect();
            let means: Vec<f64> = z.iter().map(|a| z.iter().map(|b| distance(a, b)).sum::<f64>() / m as f64).collect();
            let mean = means.iter().sum::<f64>() / m as f64;
            let (values, v) = symmetric(m, |i, j| -0.5 * (distance(&z[i], &z[j]) - means[i] - means[j] + mean));
            let of = |x: &Vec<f64>| -> Vec<f64> {
                let off: Vec<f64> = z.iter().zip(&means).map(|(z, mean)| distance(x, z) - mean).collect();
                let along = |j: usize| off.iter().enumerate().map(|(l, off)| off * v[(l, j)]).sum::<f64>();
                (1..=q).map(|j| -0.5 * along(m - j) / values[m - j].sqrt()).collect()
            };
            let what = format!("scaling on {m} landmarks, {kernel}");
            same_up_to_signs(&coordinates(&trained, x), &x.iter().map(of).collect(), 1e-8, &what);
            same_up_to_signs(&coordinates(&trained, &golden.new), &golden.new.iter().map(of).collect(), 1e-8, &what);
            // the model's prediction agrees with the plain sum
            close(predict(&trained, kernel, &x[0])[0], coordinates(&trained, x)[0][0], 1e-10, &what);
            if kernel == "linear()" {
                // all d coordinates preserve every distance
                let (a, b) = (coordinates(&trained, &vec![x[0].clone()]), coordinates(&trained, &vec![x[9].clone()]));
                let apart: f64 = a[0].iter().zip(&b[0]).map(|(a, b)| (a - b) * (a - b)).sum();
                close(apart, distance(&x[0], &x[9]), 1e-9, "squared distance");
            }
        }
    }
    let options = exact(Task::Components, KERNEL, n);
    let given = Options::new().set("components", n);
    assert!(refused(x, &options, "mds", &given).contains("landmarks have at most 149 coordinates"));
    let fourier = TrainOptions { map: "fourier".parse().unwrap(), ..options };
    assert!(refused(x, &fourier, "mds", &Options::new()).contains("instead of a feature map"));
}

pub(crate) fn sheet() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/embeddings.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn embeddings_by_neighbours_are_those_of_scikit_learn() {
    let golden = sheet();
    let (x, new) = (rows(&golden["x"]), rows(&golden["new"]));
    let given = Options::new().set("neighbours", &golden["neighbours"]);
    let options = exact(Task::Components, "linear()", x.len());
    for name in ["isomap", "lle"] {
        let trained = fitted(&x, &options, name, &given);
        let case = &golden["cases"][name];
        same_up_to_signs(&coordinates(&trained, &new), &rows(&case["new"]), 1e-8, &format!("{name} of new rows"));
        let of_rows = match name {
            "isomap" => coordinates(&trained, &x),
            // the coefficients are the coordinates of the nodes
            _ => {
                let (_, order) = trained.model.basis.landmarks().unwrap();
                let place = |row: usize| order.iter().position(|at| *at == row as u64).unwrap();
                let of = |i: usize| trained.model.coefficients.row(place(i)).iter().copied().collect();
                (0..x.len()).map(of).collect()
            }
        };
        same_up_to_signs(&of_rows, &rows(&case["rows"]), 1e-8, name);
    }
}

fn apart(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

/// Returns the k nearest points, without the one at index `but`.
fn nearest(z: &[f64], points: &Rows, k: usize, but: Option<usize>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).filter(|i| Some(*i) != but).collect();
    order.sort_by(|a, b| apart(z, &points[*a]).total_cmp(&apart(z, &points[*b])));
    order.truncate(k);
    order
}

#[test]
fn paths_from_fewer_landmarks_are_those_of_the_formula() {
    let golden = sheet();
    let (x, new, m, k) = (rows(&golden["x"]), rows(&golden["new"]), 60, 8);
    let options = TrainOptions { ranks: vec![m], ..exact(Task::Components, "linear()", x.len()) };
    let trained = fitted(&x, &options, "isomap", &Options::new().set("neighbours", k));
    let (points, order) = trained.model.basis.landmarks().unwrap();
    assert_eq!((trained.report.rank, order.len()), (m, x.len()));
    let nodes: Rows = points.chunks(3).map(<[f64]>::to_vec).collect();
    let n = nodes.len();
    // all shortest paths by Floyd and Warshall
    let mut g = vec![vec![f64::INFINITY; n]; n];
    for i in 0..n {
        g[i][i] = 0.0;
        for j in nearest(&nodes[i], &nodes, k, Some(i)) {
            g[i][j] = apart(&nodes[i], &nodes[j]);
            g[j][i] = g[i][j];
        }
    }
    for through in 0..n {
        let way = g[through].clone();
        for row in &mut g {
            let first = row[through];
            row.iter_mut().zip(&way).for_each(|(length, rest)| *length = length.min(first + rest));
        }
    }
    let means: Vec<f64> = (0..m).map(|i| (0..m).map(|l| g[i][l] * g[i][l]).sum::<f64>() / m as f64).collect();
    let mean = means.iter().sum::<f64>() / m as f64;
    let (values, v) = symmetric(m, |i, l| -0.5 * (g[i][l] * g[i][l] - means[i] - means[l] + mean));
    let of = |z: &Vec<f64>| -> Vec<f64> {
        let near = nearest(z, &nodes, k, None);
        let length = |l: usize| near.iter().map(|j| apart(z, &nodes[*j]) + g[*j][l]).fold(f64::INFINITY, f64::min);
        let along = |j: usize| (0..m).map(|l| (length(l).powi(2) - means[l]) * v[(l, m - j)]).sum::<f64>();
        (1..=2).map(|j| -0.5 * along(j) / values[m - j].sqrt()).collect()
    };
    for rows in [&x, &new] {
        same_up_to_signs(
            &coordinates(&trained, rows),
            &rows.iter().map(of).collect(),
            1e-8,
            "60 landmarks of 250 nodes",
        );
    }
}

/// Returns the nodes and their coordinates, for a model with one coefficient per node.
fn placed(trained: &TrainedModel<f64>) -> (Rows, Rows) {
    let (points, order) = trained.model.basis.landmarks().unwrap();
    let nodes: Rows = points.chunks(points.len() / order.len()).map(<[f64]>::to_vec).collect();
    (nodes, (0..order.len()).map(|i| trained.model.coefficients.row(i).iter().copied().collect()).collect())
}

#[test]
fn a_chain_unfolds_to_a_line() {
    // every link is longer than the one before, so that the nearest neighbour is the predecessor
    let n = 40;
    let mut angle: f64 = 0.0;
    let x: Rows = (0..n)
        .map(|i| {
            angle += (0.5 + 0.05 * f64::from(i)) / 30.0;
            vec![30.0 * angle.cos(), 30.0 * angle.sin()]
        })
        .collect();
    let options = exact(Task::Components, "linear()", x.len());
    let trained = fitted(&x, &options, "mvu", &Options::new().set("neighbours", 1));
    let mut place = vec![0.0; x.len()];
    (1..x.len()).for_each(|i| place[i] = place[i - 1] + apart(&x[i], &x[i - 1]));
    let mean = place.iter().sum::<f64>() / x.len() as f64;
    let squares: f64 = place.iter().map(|s| (s - mean) * (s - mean)).sum();
    let figure = |name: &str| trained.report.figures.iter().find(|figure| figure.name == name).unwrap().values.clone();
    eprintln!("sum of squares {:e}", figure("sum of squares")[0] / squares - 1.0);
    close(figure("sum of squares")[0] / squares, 1.0, 1e-8, "sum of squares");
    close(figure("share of variance")[0], 1.0, 1e-8, "all on a line");
    let line: Rows = place.iter().map(|s| vec![s - mean]).collect();
    let (nodes, found) = placed(&trained);
    let ordered: Rows = x.iter().map(|x| vec![found[nodes.iter().position(|node| node == x).unwrap()][0]]).collect();
    same_up_to_signs(&ordered, &line, 1e-8, "a chain");
}

/// A kite with the sides 1, 1, 1.5, 1.5 and a chord of length 0.6 between the ends of the first two
/// sides. Its variance is largest if the chord has the length 0, but the chord is an edge.
#[test]
fn edges_of_a_kite_are_bounded_or_equal() {
    let (a, b, half): (f64, f64, f64) = (1.0, 1.5, 0.3);
    let (left, right) = ((a * a - half * half).sqrt(), (b * b - half * half).sqrt());
    let x: Rows = vec![vec![0.0, half], vec![-left, 0.0], vec![0.0, -half], vec![right, 0.0]];
    let sums = |edges: &str| {
        let options = TrainOptions { ranks: vec![4], ..exact(Task::Components, "linear()", 4) };
        let given = Options::new().set("neighbours", 2).set("components", 3).set("edges", edges);
        let trained = fitted(&x, &options, "mvu", &given);
        let figure = |name: &str| trained.report.figures.iter().find(|figure| figure.name == name).unwrap().values[0];
        let (nodes, all) = placed(&trained);
        let place = |row: usize| &all[nodes.iter().position(|node| *node == x[row]).unwrap()];
        let longest_change = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]
            .into_iter()
            .map(|(i, j)| (apart(place(i), place(j)) / apart(&x[i], &x[j]) - 1.0).abs());
        (figure("sum of squares"), longest_change.fold(0.0, f64::max))
    };
    // the sum of squares about the mean: the squared distances of all pairs over the number of rows
    let folded = (2.0 * a * a + 2.0 * b * b + (a + b).powi(2)) / 4.0;
    let flat = (2.0 * a * a + 2.0 * b * b + (2.0 * half).powi(2) + (left + right).powi(2)) / 4.0;
    let (bounded, equal) = (sums("bounded"), sums("equal"));
    eprintln!("{bounded:?} {folded}, {equal:?} {flat}");
    close(bounded.0, folded, 1e-6, "bounded edges");
    assert!(bounded.1 > 0.99, "the chord vanishes: {bounded:?}");
    close(equal.0, flat, 1e-6, "equal edges");
    assert!(equal.1 < 1e-4, "{equal:?}");
}

#[test]
fn every_edge_of_a_rolled_sheet_keeps_its_length() {
    let keys = kstore::key::Stream::new(7, kstore::key::Purpose::Data, 0);
    let x: Rows = (0..30)
        .map(|i| {
            let (t, z) = (1.5 * std::f64::consts::PI * (1.0 + i as f64 / 30.0), 3.0 * keys.uniform(i));
            vec![t * t.cos(), z, t * t.sin()]
        })
        .collect();
    let options = TrainOptions { ranks: vec![30], ..exact(Task::Components, "linear()", x.len()) };
    let given = Options::new().set("neighbours", 4).set("components", 29);
    let equal = fitted(&x, &options, "mvu", &given.clone().set("edges", "equal"));
    let (nodes, all) = placed(&equal);
    for i in 0..nodes.len() {
        for j in nearest(&nodes[i], &nodes, 4, Some(i)) {
            let (was, now) = (apart(&nodes[i], &nodes[j]), apart(&all[i], &all[j]));
            assert!((now / was - 1.0).abs() < 2e-4, "nodes {i} and {j}: {now} after {was}");
        }
    }
    // fewer constraints have a larger maximum, and the rows themselves satisfy all constraints
    let sum = |trained: &TrainedModel<f64>| {
        trained.report.figures.iter().find(|figure| figure.name == "sum of squares").unwrap().values[0]
    };
    let bounded = fitted(&x, &options, "mvu", &given);
    let mean = |c: usize| x.iter().map(|x| x[c]).sum::<f64>() / 30.0;
    let of_rows: f64 = (0..3).map(|c| x.iter().map(|x| (x[c] - mean(c)).powi(2)).sum::<f64>()).sum();
    eprintln!("rows {of_rows}, equal {}, bounded {}", sum(&equal), sum(&bounded));
    assert!(sum(&equal) > of_rows && sum(&bounded) > sum(&equal) * (1.0 - 1e-6));
}

/// Returns the fraction of the ten nearest neighbours that are neighbours in the sheet too.
fn kept_near(places: &Rows, sheet: &Rows) -> f64 {
    let shared = |i: usize| {
        let near = nearest(&sheet[i], sheet, 10, Some(i));
        nearest(&places[i], places, 10, Some(i)).iter().filter(|j| near.contains(j)).count()
    };
    (0..sheet.len()).map(shared).sum::<usize>() as f64 / (10.0 * sheet.len() as f64)
}

#[test]
fn a_rolled_sheet_unrolls_and_no_neighbour_goes_away() {
    let keys = kstore::key::Stream::new(5, kstore::key::Purpose::Data, 0);
    let flat: Rows = (0..400)
        .map(|i| vec![1.5 * std::f64::consts::PI * (1.0 + 2.0 * keys.uniform(2 * i)), 21.0 * keys.uniform(2 * i + 1)])
        .collect();
    let roll = |p: &Vec<f64>| vec![p[0] * p[0].cos(), p[1], p[0] * p[0].sin()];
    let x: Rows = flat.iter().map(roll).collect();
    // arc length along the roll, the curve (t cos t, t sin t)
    let along = |t: f64| 0.5 * (t * t.hypot(1.0) + t.asinh());
    let sheet: Rows = flat.iter().map(|p| vec![along(p[0]), p[1]]).collect();
    let options = TrainOptions { ranks: vec![40], ..exact(Task::Components, "linear()", x.len()) };
    let k = 6;
    let trained = fitted(&x, &options, "mvu", &Options::new().set("neighbours", k).set("components", 39));
    let (nodes, all) = placed(&trained);
    for i in 0..nodes.len() {
        for j in nearest(&nodes[i], &nodes, k, Some(i)) {
            let (was, now) = (apart(&nodes[i], &nodes[j]), apart(&all[i], &all[j]));
            assert!(now <= was * (1.0 + 1e-7), "nodes {i} and {j}: {now} after {was}");
        }
    }
    // a training row has its fitted coordinates, and a row next to it nearly the same
    let beside: Rows = nodes.iter().map(|node| vec![node[0] + 1e-7, node[1], node[2]]).collect();
    for (places, close) in [(coordinates(&trained, &nodes), 1e-6), (coordinates(&trained, &beside), 1e-4)] {
        for (place, fitted) in places.iter().zip(&all) {
            assert!(apart(place, fitted) < close, "{place:?} {fitted:?}");
        }
    }
    let plain = fitted(&x, &exact(Task::Components, "linear()", x.len()), "mds", &Options::new());
    let two = |rows: Rows| -> Rows { rows.into_iter().map(|row| row[..2].to_vec()).collect() };
    let kept = |trained: &TrainedModel<f64>| kept_near(&two(coordinates(trained, &x)), &sheet);
    let (unfolded, projected) = (kept(&trained), kept(&plain));
    eprintln!("neighbours kept: {unfolded:.3} unfolded, {projected:.3} projected");
    assert!(unfolded > projected + 0.1, "{unfolded} against {projected}");
    let options = TrainOptions { ranks: vec![101], ..options };
    assert!(refused(&x, &options, "mvu", &Options::new()).contains("beyond 100 landmarks"));
}

#[test]
fn graphs_that_cannot_be_are_refused_in_a_sentence() {
    let apart: Rows =
        (0..40).map(|i| vec![f64::from(i % 20) + 1e3 * f64::from(i / 20), f64::from(i * 7 % 5)]).collect();
    let options = exact(Task::Components, "linear()", apart.len());
    for name in ["isomap", "lle", "mvu"] {
        let given = Options::new().set("neighbours", 5);
        let message = refused(&apart, &options, name, &given);
        assert!(
            message.contains("the graph of 40 nodes has 2 connected components, the largest with 20 nodes"),
            "{message}"
        );
        assert!(message.contains("raise `neighbours` or `nodes`"), "{message}");
        let message = refused(&apart, &options, name, &given.clone().set("neighbours", 40));
        assert!(message.contains("each node has 39 others"), "{message}");
        let message = refused(&apart, &options, name, &given.set("components", 40));
        assert!(message.contains("have at most 39 coordinates"), "{message}");
    }
    // identical rows have neighbours but no distances
    let same: Rows = vec![vec![1.0, 2.0]; 30];
    let options = exact(Task::Components, "linear()", 30);
    for name in ["mds", "isomap", "lle", "mvu"] {
        let message = refused(&same, &options, name, &Options::new());
        assert!(message.contains("do not vary"), "{name}: {message}");
    }
}
