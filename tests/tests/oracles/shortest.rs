//! Ridge regression with lambda = 0, the minimum-norm solution: f(x) = ȳ + Σ a_i k(x, x_i) with
//! (HKH + 11ᵀ)a = y − ȳ if all rows are landmarks, and the normal equations with few landmarks.

use crate::solvers::{close, golden};
use kfit::request::TrainOptions;
use kfit::solver::Options;
use kmill_tests::table::{exact, predict, select, try_solve, write};
use kmill_tests::{dense, kernels};
use ksolve::Task;
use ksolve::train::TrainedModel;

const KERNEL: &str = "gaussian(sigma=0.7)";

type Rows = Vec<Vec<f64>>;

fn fitted(
    x: &Rows,
    y: &[f64],
    options: &TrainOptions,
    given: &Options,
    threads: usize,
) -> ksolve::Result<TrainedModel<f64>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, x, y);
    try_solve::<f64>(&select(&path, options.task), options, "ridge", given, threads)
}

fn without() -> Options {
    Options::new().set("lambda", 0)
}

#[test]
fn all_rows_are_met_by_the_shortest_function() {
    let golden = golden();
    let (x, n): (Rows, usize) = (golden.x[..30].to_vec(), 30);
    let y: Vec<f64> = x.iter().map(|x| (x[0] + x[1]).sin() + 2.0).collect();
    let options = exact(Task::Regression, KERNEL, n);
    let trained = fitted(&x, &y, &options, &without(), 1).unwrap();
    let again = fitted(&x, &y, &options, &without(), 3).unwrap();
    assert!(trained.model.coefficients == again.model.coefficients && trained.report.lambda == Some(0.0));
    let k = kernels::kernel(KERNEL);
    let gram = dense::kernel_matrix(&x, &*k);
    let (mean_y, nf) = (y.iter().sum::<f64>() / n as f64, n as f64);
    let means: Vec<f64> = gram.iter().map(|row| row.iter().sum::<f64>() / nf).collect();
    let all = means.iter().sum::<f64>() / nf;
    let system: Rows = (0..n).map(|i| (0..n).map(|j| gram[i][j] - means[i] - means[j] + all + 1.0).collect()).collect();
    let a = dense::solve(&system, &y.iter().map(|y| y - mean_y).collect::<Vec<_>>());
    for (x, y) in x.iter().zip(&y) {
        close(predict(&trained, KERNEL, x)[0], *y, 1e-7, "a row of the fit");
    }
    for new in &golden.new {
        let own: f64 = x.iter().zip(&a).map(|(z, a)| a * k(new, z)).sum();
        let centre: f64 = means.iter().zip(&a).map(|(mean, a)| a * mean).sum();
        close(predict(&trained, KERNEL, new)[0], mean_y + own - centre, 1e-7, "a new row");
    }
}

#[test]
fn directions_that_are_rounding_are_left_out() {
    let golden = golden();
    let x: Rows = golden.x[..40].iter().map(|x| vec![x[0], x[1], x[0] + x[1]]).collect();
    let y: Vec<f64> = x.iter().map(|x| 3.0 * x[0] - x[1] + 0.1 * (7.0 * x[0]).sin()).collect();
    let options = TrainOptions { rank: 3, ranks: vec![3], ..exact(Task::Regression, "linear()", 40) };
    let trained = fitted(&x, &y, &options, &without(), 1).unwrap();
    // least squares on the two independent columns, about the means
    let mean = |j: usize| x.iter().map(|x| x[j]).sum::<f64>() / 40.0;
    let (means, mean_y) = ([mean(0), mean(1)], y.iter().sum::<f64>() / 40.0);
    let moment = |a: usize, b: usize| x.iter().map(|x| (x[a] - means[a]) * (x[b] - means[b])).sum::<f64>();
    let right = |a: usize| x.iter().zip(&y).map(|(x, y)| (x[a] - means[a]) * (y - mean_y)).sum::<f64>();
    let w = dense::solve(&[vec![moment(0, 0), moment(0, 1)], vec![moment(1, 0), moment(1, 1)]], &[right(0), right(1)]);
    for row in &x {
        let expected = mean_y + w[0] * (row[0] - means[0]) + w[1] * (row[1] - means[1]);
        close(predict(&trained, "linear()", row)[0], expected, 1e-8, "least squares");
    }
    assert!(trained.report.figures[0].values[0] <= 2.0, "{:?}", trained.report.figures);
}

#[test]
fn what_needs_a_penalty_is_said() {
    let golden = golden();
    let options = exact(Task::Regression, KERNEL, golden.x.len());
    let refused = |given: Options| fitted(&golden.x, &golden.y, &options, &given, 1).unwrap_err().to_string();
    for (name, value) in [("std", "true"), ("loo", "true"), ("method", "pcg")] {
        let message = refused(without().set(name, value));
        assert!(message.contains("smallest norm"), "{name}: {message}");
    }
    assert!(refused(Options::new().set("lambda", "0,1e-3")).contains("positive"));
    let constant: Rows = golden.x.iter().map(|_| vec![1.0, 2.0]).collect();
    let message = fitted(&constant, &golden.y, &exact(Task::Regression, KERNEL, 1), &without(), 1).unwrap_err();
    assert!(message.to_string().contains("vary") || message.to_string().contains("variance"), "{message}");
}
