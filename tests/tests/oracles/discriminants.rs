//! Discriminants checked with their equation, S_B v = ρ (S_W + λI) v with vᵀ(S_W + λI)v = 1.

use crate::solvers::{close, golden};
use kfit::request::TrainOptions;
use kfit::solver::Options;
use kmill_tests::dense::solve as dense_solve;
use kmill_tests::kernels;
use kmill_tests::points::Lcg;
use kmill_tests::table::{components, exact, predict, select, solve, try_solve, write};
use ksolve::train::TrainedModel;
use ksolve::{Classes, FoldSpec, Task};
use kstore::Label;

const LAMBDA: f64 = 1e-3;

type Rows = Vec<Vec<f64>>;

const WITHIN: [&str; 2] = ["pooled", "equal"];

/// Returns 60 golden rows (classes of 50, 3 and 7), their classes, and a fit with discriminants.
fn fitted(kernel: &str, q: usize, within: &str) -> (Rows, Vec<f64>, TrainedModel<f64>) {
    let mut golden = golden();
    let most = |label: f64| [50, 3, 7][label as usize];
    let mut seen = [0; 3];
    let kept: Vec<usize> = (0..golden.y.len())
        .filter(|i| {
            seen[golden.y[*i] as usize] += 1;
            seen[golden.y[*i] as usize] <= most(golden.y[*i])
        })
        .collect();
    golden.x = kept.iter().map(|i| golden.x[*i].clone()).collect();
    golden.y = kept.iter().map(|i| golden.y[*i]).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, &golden.x, &golden.y);
    let options = exact(Task::Classification, kernel, golden.x.len());
    let solver = Options::new().set("lambda", LAMBDA).set("components", q).set("within", within);
    let trained = solve::<f64>(&select(&path, Task::Classification), &options, "fisher", &solver, 1);
    let again = solve::<f64>(&select(&path, Task::Classification), &options, "fisher", &solver, 3);
    assert!(trained.model.components == again.model.components, "other bits on three threads");
    (golden.x, golden.y, trained)
}

/// Returns N and B, n x n: S_W = ΦᵀNΦ and S_B = ΦᵀBΦ. The equal scatter weights a row by the
/// inverse of its class size.
fn scatters(y: &[f64], within: &str) -> (Rows, Rows) {
    let n = y.len();
    let size = |c: f64| y.iter().filter(|label| **label == c).count() as f64;
    let same = |i: usize, j: usize| if y[i] == y[j] { 1.0 / size(y[i]) } else { 0.0 };
    let all = 1.0 / n as f64;
    let k = y.iter().fold(0.0f64, |most, label| most.max(*label)) + 1.0;
    let count = |i: usize| if within == "equal" { 1.0 / (k * size(y[i])) } else { all };
    let within = |i, j| count(i) * (f64::from(i == j) - same(i, j));
    let between = |i, j| all * (same(i, j) - all);
    let matrix = |f: &dyn Fn(usize, usize) -> f64| (0..n).map(|i| (0..n).map(|j| f(i, j)).collect()).collect();
    (matrix(&within), matrix(&between))
}

fn times(a: &Rows, x: &[f64]) -> Vec<f64> {
    a.iter().map(|row| row.iter().zip(x).map(|(a, x)| a * x).sum()).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn discriminants_solve_their_equation() {
    for (kernel, within) in
        ["gaussian(sigma=2)", "linear()"].iter().flat_map(|kernel| WITHIN.map(|within| (*kernel, within)))
    {
        let (x, y, trained) = fitted(kernel, 2, within);
        let head = trained.model.components.as_ref().unwrap();
        assert_eq!(head.intercept.len(), 2, "{kernel}");
        let (n_matrix, b_matrix) = scatters(&y, within);
        let k = kernels::kernel(kernel);
        let gram: Rows = x.iter().map(|a| x.iter().map(|b| k(a, b)).collect()).collect();
        let coordinates: Rows = x.iter().map(|row| components(&trained, kernel, row)).collect();
        let ratios = &trained.report.figures.iter().find(|figure| figure.name == "discriminant ratio").unwrap().values;
        for j in 0..2 {
            let centred: Vec<f64> = coordinates.iter().map(|row| row[j]).collect();
            assert!(centred.iter().sum::<f64>().abs() < 1e-7, "{kernel}: not centred");
            // Φv, uncentred
            let values: Vec<f64> = centred.iter().map(|c| c - head.intercept[j]).collect();
            let left = times(&gram, &times(&b_matrix, &values));
            let right = times(&gram, &times(&n_matrix, &values));
            let scale = left.iter().map(|v| v.abs()).fold(0.0, f64::max);
            for ((left, right), value) in left.iter().zip(&right).zip(&values) {
                let expected = ratios[j] * (right + LAMBDA * value);
                assert!((left - expected).abs() < 1e-8 * scale, "{kernel} {j}: {left} against {expected}");
            }
            // vᵀS_B v = ρ vᵀ(S_W + λI)v = ρ
            close(dot(&values, &times(&b_matrix, &values)), ratios[j], 1e-8, kernel);
            for i in 0..j {
                let other: Vec<f64> = coordinates.iter().map(|row| row[i]).collect();
                assert!(dot(&centred, &times(&b_matrix, &other)).abs() < 1e-8 * ratios[0], "{kernel}: not orthogonal");
            }
        }
    }
    // two directions give the whole trace: Σρ = tr (S_W + λI)⁻¹S_B, with the inputs as features
    WITHIN.iter().for_each(|within| ratios_sum_to_the_trace(within));
}

fn ratios_sum_to_the_trace(within: &str) {
    let (x, y, trained) = fitted("linear()", 2, within);
    let (n_matrix, b_matrix) = scatters(&y, within);
    let d = x[0].len();
    let column = |c: usize| -> Vec<f64> { x.iter().map(|row| row[c]).collect() };
    let inner = |m: &Rows, a: usize, b: usize| dot(&column(a), &times(m, &column(b)));
    let penalised: Rows =
        (0..d).map(|a| (0..d).map(|b| inner(&n_matrix, a, b) + if a == b { LAMBDA } else { 0.0 }).collect()).collect();
    let trace: f64 =
        (0..d).map(|b| dense_solve(&penalised, &(0..d).map(|a| inner(&b_matrix, a, b)).collect::<Vec<_>>())[b]).sum();
    let ratios = &trained.report.figures.iter().find(|figure| figure.name == "discriminant ratio").unwrap().values;
    close(ratios.iter().sum::<f64>(), trace, 1e-9, "sum of the ratios");
}

#[test]
fn there_are_fewer_discriminants_than_classes() {
    let golden = golden();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, &golden.x, &golden.y);
    let options = exact(Task::Classification, "linear()", golden.x.len());
    let refused = |x: &Rows, q: usize| {
        write(&path, x, &golden.y);
        let solver = Options::new().set("components", q);
        try_solve::<f64>(&select(&path, Task::Classification), &options, "fisher", &solver, 1)
    };
    let message = refused(&golden.x, 3).unwrap_err().to_string();
    assert!(message.contains("3 classes have 2 discriminants"), "{message}");
    // means of three classes on a line span one direction
    let line: Rows = golden.x.iter().map(|row| vec![row[0]]).collect();
    let trained = refused(&line, 2).unwrap();
    assert_eq!(trained.model.components.unwrap().intercept.len(), 1);
    // discriminants are optional
    write(&path, &golden.x, &golden.y);
    let plain = solve::<f64>(&select(&path, Task::Classification), &options, "fisher", &Options::new(), 1);
    assert!(plain.model.components.is_none());
}

/// The error that chooses lambda equals the error of fits to tables without the rows of each fold.
#[test]
fn lambdas_are_chosen_by_fits_without_the_rows() {
    let (n, kernel) = (120, "gaussian(sigma=1.5)");
    for (k, within) in [2, 3].iter().flat_map(|k| WITHIN.map(|within| (*k, within))) {
        let mut random = Lcg(31);
        let y: Vec<f64> = (0..n).map(|i| ((i * 7 + i / 5) % k) as f64).collect();
        let x: Rows = y.iter().map(|y| vec![1.3 * y + random.normal(), random.normal() - 0.5 * y * y]).collect();
        let fit = |x: &Rows, y: &[f64], folds: FoldSpec, lambda: &str, threads: usize| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("rows.parquet");
            write(&path, x, y);
            let options = TrainOptions { folds, ..exact(Task::Classification, kernel, x.len()) };
            let solver = Options::new().set("lambda", lambda).set("within", within);
            solve::<f64>(&select(&path, Task::Classification), &options, "fisher", &solver, threads)
        };
        let path = ["10", "0.01", "0.0001"];
        let trained = fit(&x, &y, FoldSpec::Blocks(3), &path.join(","), 2);
        let again = fit(&x, &y, FoldSpec::Blocks(3), &path.join(","), 1);
        assert!(
            trained.model.coefficients == again.model.coefficients && trained.report.figures == again.report.figures
        );
        assert_eq!(trained.report.passes, 1 + fit(&x, &y, FoldSpec::None, "0.01", 1).report.passes);
        let errors =
            &trained.report.figures.iter().find(|figure| figure.name == "held-out error at each").unwrap().values;
        let classes = Classes::new((0..k as i64).map(Label::Int).collect()).unwrap();
        for (lambda, error) in path.iter().zip(errors) {
            let mut wrong = 0;
            for fold in 0..3 {
                let held = |i: &usize| i / 40 == fold;
                let (inside, inside_y): (Vec<_>, Vec<_>) =
                    (0..n).filter(|i| !held(i)).map(|i| (x[i].clone(), y[i])).unzip();
                let part = fit(&inside, &inside_y, FoldSpec::None, lambda, 2);
                let decided = (0..n).filter(held).map(|i| (classes.decide(predict(&part, kernel, &x[i])), y[i]));
                wrong += decided.filter(|(got, y)| *got != *y as usize).count();
            }
            assert!((error * n as f64 - wrong as f64).abs() < 1e-9, "{k} classes, {within}, {lambda}: {error} {wrong}");
        }
        let best = errors.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(errors.iter().any(|error| *error > best), "nothing to choose: {errors:?}");
        let chosen = path[errors.iter().position(|error| *error == best).unwrap()];
        assert_eq!(trained.report.lambda, Some(chosen.parse().unwrap()), "{errors:?}");
        // the model equals a fit with the chosen lambda alone, up to the order of the sums
        let alone = fit(&x, &y, FoldSpec::None, chosen, 2);
        let (got, expected) = (predict(&trained, kernel, &x[7]), predict(&alone, kernel, &x[7]));
        got.iter().zip(&expected).for_each(|(got, expected)| close(*got, *expected, 1e-6, "chosen"));
    }
}

/// With 900 rows of one class and 60 of another, of different covariances, each scatter gives the
/// direction of its own dense formula, and the two directions differ clearly.
#[test]
fn small_classes_count_as_much_as_large_ones_in_the_equal_scatter() {
    let mut random = Lcg(7);
    let y: Vec<f64> = (0..960).map(|i| f64::from(i % 16 == 15)).collect();
    let point = |y: &f64, random: &mut Lcg| match *y {
        0.0 => vec![3.0 * random.normal(), random.normal()],
        _ => vec![2.0 + random.normal(), 1.5 + 3.0 * random.normal()],
    };
    let x: Rows = y.iter().map(|y| point(y, &mut random)).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, &x, &y);
    let mean = |of: &dyn Fn(&[f64]) -> f64, c: f64| {
        let rows = || x.iter().zip(&y).filter(|(_, y)| **y == c);
        rows().map(|(x, _)| of(x)).sum::<f64>() / rows().count() as f64
    };
    let means = [0.0, 1.0].map(|c| [0, 1].map(|j| mean(&|x| x[j], c)));
    let covariance = |c: usize, i: usize, j: usize| mean(&|x| (x[i] - means[c][i]) * (x[j] - means[c][j]), c as f64);
    let mut angles = Vec::new();
    for (within, shares) in WITHIN.iter().zip([[900.0 / 960.0, 60.0 / 960.0], [0.5, 0.5]]) {
        let entry = |i: usize, j: usize| {
            (0..2).map(|c| shares[c] * covariance(c, i, j)).sum::<f64>() + if i == j { LAMBDA } else { 0.0 }
        };
        let scatter: Rows = (0..2).map(|i| (0..2).map(|j| entry(i, j)).collect()).collect();
        let expected = dense_solve(&scatter, &[means[1][0] - means[0][0], means[1][1] - means[0][1]]);
        let options = TrainOptions { rank: 2, ..exact(Task::Classification, "linear()", x.len()) };
        let solver = Options::new().set("lambda", LAMBDA).set("components", 1).set("within", within);
        let trained = solve::<f64>(&select(&path, Task::Classification), &options, "fisher", &solver, 2);
        let score = |x: &[f64]| predict(&trained, "linear()", x)[0];
        // scores are linear: their slopes are the direction, and class frequencies are the priors
        let slopes = [[1.0, 0.0], [0.0, 1.0]].map(|x| score(&x) - score(&[0.0, 0.0]));
        (0..2).for_each(|j| close(slopes[j], expected[j], 1e-8, within));
        let middle = [(means[0][0] + means[1][0]) / 2.0, (means[0][1] + means[1][1]) / 2.0];
        close(score(&middle), (60.0f64 / 900.0).ln(), 1e-8, within);
        angles.push(slopes[1].atan2(slopes[0]).to_degrees());
    }
    assert!((angles[0] - angles[1]).abs() > 20.0, "{angles:?}");
}
