//! Supervised principal components checked with K H L H K a = σ² K a, and scores z = K a.

use crate::solvers::{close, golden};
use kfit::solver::Options;
use kmill_tests::kernels;
use kmill_tests::table::{exact, predict, select, solve, try_solve, write};
use ksolve::Task;
use ksolve::train::TrainedModel;

type Rows = Vec<Vec<f64>>;

const KERNEL: &str = "gaussian(sigma=2)";

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn times(a: &Rows, x: &[f64]) -> Vec<f64> {
    a.iter().map(|row| dot(row, x)).collect()
}

/// Computes HLH.
fn centred(mut l: Rows) -> Rows {
    let n = l.len() as f64;
    let rows: Vec<f64> = l.iter().map(|row| row.iter().sum::<f64>() / n).collect();
    let all = rows.iter().sum::<f64>() / n;
    for (i, row) in l.iter_mut().enumerate() {
        row.iter_mut().enumerate().for_each(|(j, value)| *value += all - rows[i] - rows[j]);
    }
    l
}

fn fitted(x: &Rows, y: &[f64], task: Task, given: &Options, threads: usize) -> ksolve::Result<TrainedModel<f64>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, x, y);
    try_solve::<f64>(&select(&path, task), &exact(task, KERNEL, x.len()), "spca", given, threads)
}

#[test]
fn components_solve_their_equation() {
    let golden = golden();
    let (x, n) = (golden.x, golden.y.len());
    let smooth: Vec<f64> = x.iter().map(|x| (x[0] + 0.5 * x[1]).sin() + 0.2 * x[0] * x[1]).collect();
    let gaussian = |a: f64, b: f64| (-(a - b) * (a - b) / (2.0 * 0.3 * 0.3)).exp();
    type OnTarget = Box<dyn Fn(f64, f64) -> f64>;
    let cases: [(Task, &str, &[f64], OnTarget, usize); 4] = [
        (Task::Regression, "", &smooth, Box::new(|a, b| a * b), 1),
        (Task::Classification, "", &golden.y, Box::new(|a, b| f64::from(a == b)), 2),
        (Task::Regression, "delta()", &golden.y, Box::new(|a, b| f64::from(a == b)), 2),
        (Task::Regression, "gaussian(sigma=0.3)", &smooth, Box::new(gaussian), 4),
    ];
    let k = kernels::kernel(KERNEL);
    let gram: Rows = x.iter().map(|a| x.iter().map(|b| k(a, b)).collect()).collect();
    for (task, kernel, y, on_target, q) in cases {
        let name = if task == Task::Classification { "classification" } else { "regression" };
        let given = Options::new().set("task", name).set("components", q);
        let given = if kernel.is_empty() { given } else { given.set("target_kernel", kernel) };
        let trained = fitted(&x, y, task, &given, 1).unwrap();
        let again = fitted(&x, y, task, &given, 3).unwrap();
        assert!(
            trained.model.coefficients == again.model.coefficients && trained.model.metadata.task == Task::Components,
            "other bits"
        );
        let l = centred(y.iter().map(|a| y.iter().map(|b| on_target(*a, *b)).collect()).collect());
        let scores: Rows = x.iter().map(|row| predict(&trained, KERNEL, row)).collect();
        let covariance = &trained.report.figures[0].values;
        // ±1 codes are twice the class indicators
        let codes = if task == Task::Classification { 2.0 } else { 1.0 };
        let mut dependence = 0.0;
        for j in 0..q {
            // the intercept makes the scores centred; H would centre them anyway
            let z: Vec<f64> = scores.iter().map(|row| row[j] - trained.model.intercept[j]).collect();
            let mean = scores.iter().map(|row| row[j]).sum::<f64>() / n as f64;
            assert!(mean.abs() < 1e-9, "{kernel} component {j} is not centred: {mean}");
            let square = (covariance[j] * n as f64 / codes).powi(2);
            let around = times(&l, &z);
            close(dot(&z, &around), square, 1e-8, &format!("{kernel} σ² of component {j}"));
            let image = times(&gram, &around);
            let scale = image.iter().map(|v| v.abs()).fold(0.0, f64::max);
            for (got, z) in image.iter().zip(&z) {
                assert!(
                    (got - square * z).abs() < 1e-7 * scale,
                    "{kernel} component {j}: {got} against {}",
                    square * z
                );
            }
            dependence += square;
        }
        // the sum of all σ² is tr K HLH
        let trace: f64 = (0..n).map(|i| dot(&gram[i], &l[i])).sum();
        let share: f64 = trained.report.figures[1].values.iter().sum();
        close(dependence, share * trace, 1e-8, &format!("{kernel} share of the dependence"));
        if kernel != "gaussian(sigma=0.3)" {
            close(share, 1.0, 1e-8, "linear targets and classes have no more directions");
        }
    }
}

#[test]
fn what_has_no_direction_is_said() {
    let golden = golden();
    let refused = |y: &[f64], task, given: &Options| fitted(&golden.x, y, task, given, 1).unwrap_err().to_string();
    let constant = vec![2.0; golden.y.len()];
    for kernel in ["linear()", "gaussian(sigma=1)"] {
        let message = refused(&constant, Task::Regression, &Options::new().set("target_kernel", kernel));
        assert!(message.contains("the target does not vary"), "{message}");
    }
    // constant columns have no direction, whatever the target
    let same = vec![vec![1.0; 3]; golden.y.len()];
    let message = fitted(&same, &golden.y, Task::Regression, &Options::new(), 1).unwrap_err().to_string();
    assert!(message.contains("no direction of the features depends on the target"), "{message}");
    let given = Options::new().set("task", "classification").set("target_kernel", "gaussian(sigma=1)");
    let message = refused(&golden.y, Task::Classification, &given);
    assert!(message.contains("labels are equal or not"), "{message}");
    let given = Options::new().set("target_kernel", "sigmoid()");
    assert!(refused(&golden.y, Task::Regression, &given).contains("positive definite"));
    // two classes have one direction, whatever the requested number
    let given = Options::new().set("task", "classification").set("components", 5);
    let two: Vec<f64> = golden.y.iter().map(|y| f64::from(*y > 0.0)).collect();
    assert_eq!(fitted(&golden.x, &two, Task::Classification, &given, 1).unwrap().model.intercept.len(), 1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, &golden.x, &golden.y);
    let options = exact(Task::Regression, KERNEL, golden.x.len());
    let median = Options::new().set("target_kernel", "gaussian()").set("components", 2);
    assert_eq!(solve::<f64>(&select(&path, Task::Regression), &options, "spca", &median, 2).model.intercept.len(), 2);
}
