//! Support vector machines for pairs of classes, penalties chosen by rows held out, and probabilities: against LIBSVM and against fits
//! without the rows.

use crate::solvers::{close, golden, numbers, rows};
use kmill_tests::points::Lcg;
use kmill_tests::table::{exact, predict, select, solve, write};
use ksolve::solver::Options;
use ksolve::train::{TrainOptions, Trained};
use ksolve::{Classes, FoldSpec, Link, Task};
use kstore::Label;

const KERNEL: &str = "gaussian(sigma=1.5)";

fn fit(x: &[Vec<f64>], y: &[f64], kernel: &str, folds: FoldSpec, solver: &Options, threads: usize) -> Trained<f64> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, x, y);
    let options = TrainOptions { folds, ..exact(Task::Classification, kernel, x.len()) };
    solve::<f64>(&select(&path, Task::Classification), &options, "svm", solver, threads)
}

fn figure<'a>(trained: &'a Trained<f64>, name: &str) -> &'a [f64] {
    &trained.figures.iter().find(|figure| figure.name == name).unwrap().values
}

fn classes(k: i64) -> Classes {
    Classes::new((0..k).map(Label::Int).collect()).unwrap()
}

#[test]
fn pairs_are_those_of_libsvm() {
    let golden = golden();
    let case = &golden.cases["pairs"];
    let solver = Options::new().set("C", case["c"].as_f64().unwrap()).set("pairs", true).set("gap", 1e-8);
    let trained = fit(&golden.x, &golden.y, &golden.kernel, FoldSpec::None, &solver, 2);
    assert!(trained.pairs && trained.intercept.len() == 3);
    for (x, expected) in golden.new.iter().zip(rows(&case["scores"])) {
        let got = predict(&trained, &golden.kernel, x);
        got.iter().zip(&expected).for_each(|(got, expected)| close(*got, *expected, 2e-3, "pairs"));
    }
    let (test, labels) = (rows(&golden.cases["test"]), numbers(&case["labels"]));
    let classes = classes(3).in_pairs();
    let decided = test.iter().map(|x| classes.decide(predict(&trained, &golden.kernel, x)));
    let same = decided.zip(&labels).filter(|(got, label)| *got == **label as usize).count();
    assert!(same as f64 >= 0.998 * labels.len() as f64, "{same} of {}", labels.len());
}

/// Rows in three groups that overlap; not sorted by class.
fn problem(n: usize, k: usize) -> (Vec<Vec<f64>>, Vec<f64>) {
    let mut random = Lcg(31);
    let y: Vec<f64> = (0..n).map(|i| ((i * 7 + i / 5) % k) as f64).collect();
    let x = y.iter().map(|y| vec![1.3 * y + random.normal(), random.normal() - 0.5 * y * y]).collect();
    (x, y)
}

/// The machines of a fold are those of a table without its rows; warm starts and shared passes change nothing.
#[test]
fn errors_of_rows_held_out_are_those_of_fits_without_them() {
    let n = 120;
    for (k, pairs) in [(2, false), (3, false), (3, true)] {
        let (x, y) = problem(n, k);
        let path = [0.1, 1.0, 30.0];
        let base = Options::new().set("pairs", pairs).set("gap", 1e-7);
        let solver = base.clone().set("C", "0.1,1,30");
        let trained = fit(&x, &y, KERNEL, FoldSpec::Blocks(3), &solver, 2);
        let again = fit(&x, &y, KERNEL, FoldSpec::Blocks(3), &solver, 1);
        assert!(trained.coefficients == again.coefficients && trained.figures == again.figures);
        assert_eq!(figure(&trained, "C"), [0.1, 1.0, 30.0]);
        let errors = figure(&trained, "held-out error at each C");
        let classes = if pairs { classes(k as i64).in_pairs() } else { classes(k as i64) };
        for (penalty, error) in path.into_iter().zip(errors) {
            let mut wrong = 0;
            for fold in 0..3 {
                let held = |i: &usize| i / 40 == fold;
                let (inside, inside_y): (Vec<_>, Vec<_>) =
                    (0..n).filter(|i| !held(i)).map(|i| (x[i].clone(), y[i])).unzip();
                let solver = base.clone().set("C", penalty);
                let part = fit(&inside, &inside_y, KERNEL, FoldSpec::None, &solver, 2);
                let decided = (0..n).filter(held).map(|i| (classes.decide(predict(&part, KERNEL, &x[i])), y[i]));
                wrong += decided.filter(|(got, y)| *got != *y as usize).count();
            }
            assert!(
                (error * n as f64 - wrong as f64).abs() < 1e-9,
                "{k} classes, pairs {pairs}, {penalty}: {error} {wrong}"
            );
        }
        let best = errors.iter().copied().fold(f64::INFINITY, f64::min);
        let chosen = errors.iter().position(|error| *error == best).unwrap();
        assert_eq!(trained.lambda, Some(0.5 / (path[chosen] * n as f64)));
        // what is chosen is learned as if there had been no choice
        let alone = base.set("C", path[chosen]);
        let alone = fit(&x, &y, KERNEL, FoldSpec::None, &alone, 2);
        assert!(alone.coefficients == trained.coefficients && alone.intercept == trained.intercept);
        assert!(alone.link.is_none() && trained.link.is_none());
    }
}

/// Rows of a known law: probabilities learned on rows held out come near it; those of the training rows' own scores would not.
#[test]
fn probabilities_are_calibrated() {
    let mut random = Lcg(33);
    let law = |x: &[f64]| 1.0 / (1.0 + (-(2.0 * x[0] + x[1])).exp());
    let mut sample = |n: usize| -> (Vec<Vec<f64>>, Vec<f64>) {
        let x = random.normals(n, 2);
        let y = x.iter().map(|x| f64::from(u8::from(random.uniform() < law(x)))).collect();
        (x, y)
    };
    let ((x, y), (test, _)) = (sample(600), sample(400));
    let solver = Options::new().set("C", 1.0).set("probabilities", true);
    let trained = fit(&x, &y, "gaussian(sigma=3)", FoldSpec::Hash(5), &solver, 2);
    let Some(Link::Platt { a, b }) = &trained.link else { panic!("{:?}", trained.link) };
    assert!(a[0] < 0.0 && b[0].is_finite(), "{a:?} {b:?}");
    let link = trained.link.as_ref().unwrap();
    let off = |x: &Vec<f64>| {
        let mut out = Vec::new();
        link.probabilities(&predict(&trained, "gaussian(sigma=3)", x), &mut out);
        assert!((out[0] + out[1] - 1.0).abs() < 1e-12);
        (out[1] - law(x)).abs()
    };
    let mean = test.iter().map(off).sum::<f64>() / 400.0;
    assert!(mean < 0.06, "{mean}");
}
