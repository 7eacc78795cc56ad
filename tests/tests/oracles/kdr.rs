//! Kernel dimension reduction compared with its dense form:
//! M = (1/n) Σ D_iᵀ (K + n lambda I)⁻¹ L (K + n lambda I)⁻¹ D_i.

use crate::solvers::{close, golden};
use kfit::request::TrainOptions;
use kfit::solver::Options;
use kmill_tests::points::Lcg;
use kmill_tests::table::{exact, predict, select, try_solve, write};
use kmill_tests::{dense, kernels};
use ksolve::Task;
use ksolve::job::MetricSource;
use ksolve::train::TrainedModel;

type Rows = Vec<Vec<f64>>;

const SIGMA: f64 = 2.0;
const KERNEL: &str = "gaussian(sigma=2)";

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

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
    try_solve::<f64>(&select(&path, options.task), options, "kdr", given, threads)
}

/// Computes M from the dense form.
fn gradients(x: &Rows, l: &Rows, lambda: f64) -> Rows {
    let (n, d) = (x.len(), x[0].len());
    let k = kernels::kernel(KERNEL);
    let gram = dense::kernel_matrix(x, &*k);
    let mut a = gram.clone();
    a.iter_mut().enumerate().for_each(|(i, row)| row[i] += n as f64 * lambda);
    let columns = |m: &Rows| -> Rows {
        let each = (0..n).map(|j| dense::solve(&a, &m.iter().map(|row| row[j]).collect::<Vec<_>>()));
        each.collect()
    };
    // (K + nλI)⁻¹ L, transposed, and solved once more
    let middle = columns(&columns(l));
    let mut m = vec![vec![0.0; d]; d];
    for i in 0..n {
        // row l: ∂k(x_l, x)/∂x at x_i
        let slopes: Rows =
            (0..n).map(|l| (0..d).map(|j| -(x[i][j] - x[l][j]) / (SIGMA * SIGMA) * gram[i][l]).collect()).collect();
        let around: Rows = middle
            .iter()
            .map(|row| (0..d).map(|j| row.iter().zip(&slopes).map(|(v, s)| v * s[j]).sum()).collect())
            .collect();
        for (slopes, around) in slopes.iter().zip(&around) {
            for (a, row) in m.iter_mut().enumerate() {
                row.iter_mut().enumerate().for_each(|(b, sum)| *sum += slopes[a] * around[b] / n as f64);
            }
        }
    }
    // bitwise symmetric, as the Jacobi rotations need it
    (0..d).map(|i| (0..d).map(|j| m[i.min(j)][i.max(j)]).collect()).collect()
}

#[test]
fn directions_are_those_of_the_dense_form() {
    let golden = golden();
    let x: Rows = golden.x[..60].to_vec();
    let labels = golden.y[..60].to_vec();
    let smooth: Vec<f64> = x.iter().map(|x| (x[0] + 0.5 * x[1]).sin() + 0.2 * x[0] * x[1]).collect();
    let mean = smooth.iter().sum::<f64>() / smooth.len() as f64;
    let gaussian = |a: f64, b: f64| (-(a - b) * (a - b) / (2.0 * 0.4 * 0.4)).exp();
    type OnTarget<'a> = Box<dyn Fn(f64, f64) -> f64 + 'a>;
    let cases: [(Task, &str, &[f64], OnTarget<'_>); 4] = [
        (Task::Regression, "linear()", &smooth, Box::new(|a, b| (a - mean) * (b - mean))),
        (Task::Regression, "gaussian(sigma=0.4)", &smooth, Box::new(gaussian)),
        (Task::Regression, "delta()", &labels, Box::new(|a, b| f64::from(a == b))),
        (Task::Classification, "", &labels, Box::new(|a, b| f64::from(a == b))),
    ];
    for (task, kernel, y, on_target) in cases {
        let name = if task == Task::Classification { "classification" } else { "regression" };
        let given = Options::new().set("task", name).set("components", 2).set("lambda", 1e-3);
        let given = if kernel.is_empty() { given } else { given.set("target_kernel", kernel) };
        let options = exact(task, KERNEL, x.len());
        let trained = fitted(&x, y, &options, &given, 1).unwrap();
        let again = fitted(&x, y, &options, &given, 3).unwrap();
        assert!(
            trained.model.metric == again.model.metric && trained.report.figures == again.report.figures,
            "other bits"
        );
        let l: Rows = y.iter().map(|a| y.iter().map(|b| on_target(*a, *b)).collect()).collect();
        let m = gradients(&x, &l, 1e-3);
        let (d, trace) = (m.len(), (0..m.len()).map(|j| m[j][j]).sum::<f64>());
        for (j, slope) in trained.report.figures[1].values.iter().enumerate() {
            close(slope * slope / trace, m[j][j] / trace, 1e-8, &format!("{name} {kernel}: slope of column {j}"));
        }
        let metric = trained.model.metric.clone().unwrap();
        let expected = dense::eigenvalues(m.clone());
        for (k, u) in metric.to_row_major().chunks(d).enumerate() {
            close(
                trained.report.figures[0].values[k],
                expected[k] / trace,
                1e-8,
                &format!("{name} {kernel}: share {k}"),
            );
            close(dot(u, u), 1.0, 1e-12, "directions have length 1");
            for (j, row) in m.iter().enumerate() {
                assert!((dot(row, u) - expected[k] * u[j]).abs() < 1e-8 * trace, "{name} {kernel}: direction {k}");
            }
            // the model predicts the projection of the row
            let mut behind = vec![0.0; 2];
            metric.apply(&golden.new[0], &mut behind);
            close(predict(&trained, "linear()", &behind)[k], dot(u, &golden.new[0]), 1e-12, "prediction");
        }
    }
}

#[test]
fn a_direction_of_the_rows_is_found() {
    let mut random = Lcg(5);
    let x = random.normals(20_000, 5);
    let y: Vec<f64> = x.iter().map(|x| (x[0] + x[1]).tanh() + 0.1 * random.normal()).collect();
    let given = Options::new().set("components", 1).set("lambda", 1e-5);
    let options =
        TrainOptions { rank: 300, candidates: Some(2000), ..exact(Task::Regression, "gaussian(sigma=3)", 300) };
    let options = TrainOptions { ranks: vec![300], ..options };
    let trained = fitted(&x, &y, &options, &given, 2).unwrap();
    let u = trained.model.metric.unwrap().to_row_major();
    let angle = (1.0 - ((u[0] + u[1]) / 2f64.sqrt()).powi(2)).max(0.0).sqrt();
    assert!(1.0 - (u[0] + u[1]) / 2f64.sqrt() < 1e-3, "{u:?}, an angle of {angle}");
    let importance = trained.report.metric.unwrap().importance;
    let own = importance.iter().filter(|(name, _)| name == "x0" || name == "x1").map(|(_, share)| share);
    assert!(own.sum::<f64>() > 0.9, "{importance:?}");
}

#[test]
fn what_has_no_direction_is_said() {
    let golden = golden();
    let (x, y) = (golden.x[..40].to_vec(), golden.y[..40].to_vec());
    let options = exact(Task::Regression, KERNEL, 40);
    let refused =
        |y: &[f64], options: &TrainOptions, given: &Options| fitted(&x, y, options, given, 1).unwrap_err().to_string();
    for kernel in ["linear()", "gaussian(sigma=1)"] {
        let given = Options::new().set("target_kernel", kernel);
        let message = refused(&[2.0; 40], &options, &given);
        assert!(message.contains("the target does not vary"), "{message}");
    }
    let of = |kernel: &str| exact(Task::Regression, kernel, 40);
    assert!(refused(&y, &of("delta()"), &Options::new()).contains("gradient is not implemented"));
    let fourier = TrainOptions { map: "fourier".parse().unwrap(), ..options.clone() };
    assert!(refused(&y, &fourier, &Options::new()).contains("landmarks"));
    let metric = kapprox::metric::Metric::diagonal(vec![1.0; x[0].len()]).unwrap();
    let given = TrainOptions { metric: MetricSource::from_metric(metric.into()), ..options.clone() };
    assert!(refused(&y, &given, &Options::new()).contains("kdr learns a metric of its own"));
    // there are at most as many directions as columns
    let many = fitted(&x, &y, &options, &Options::new().set("components", 10), 1).unwrap();
    assert_eq!(many.model.intercept.len(), x[0].len());
}
