//! Weights of a sum of kernels, checked by the gradient of their problem in dense matrices HKH.

use crate::solvers::{close, golden};
use kfit::request::Resources;
use kmill_tests::kernels;
use kmill_tests::table::{exact, select, write};
use ksolve::Task;
use ksolve::job::Combination;
use ksolve::job::NoStageObserver;
use ksolve::metric::combination::combine;
use kstore::Workers;

type Rows = Vec<Vec<f64>>;

fn centred(x: &Rows, kernel: &str) -> Rows {
    let k = kernels::kernel(kernel);
    let mut m: Rows = x.iter().map(|a| x.iter().map(|b| k(a, b)).collect()).collect();
    let n = x.len() as f64;
    let rows: Vec<f64> = m.iter().map(|row| row.iter().sum::<f64>() / n).collect();
    let all = rows.iter().sum::<f64>() / n;
    for (i, row) in m.iter_mut().enumerate() {
        row.iter_mut().enumerate().for_each(|(j, value)| *value += all - rows[i] - rows[j]);
    }
    m
}

fn inner(a: &Rows, b: &Rows) -> f64 {
    a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| a * b).sum()
}

fn combined(x: &Rows, y: &[f64], task: Task, kernels: &[&str], threads: usize) -> ksolve::Result<Combination> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, x, y);
    let workers = Workers::new(threads);
    let resources = Resources {
        memory: 1 << 30,
        workers: &workers,
        stage_observer: &NoStageObserver,
        journal: None,
        scratch: None,
    };
    let specs: Vec<_> = kernels.iter().map(|kernel| kernel.parse().unwrap()).collect();
    combine::<f64>(&select(&path, task), &exact(task, "linear()", x.len()), &specs, &resources)
}

#[test]
fn no_other_weights_are_better() {
    let golden = golden();
    let x = golden.x;
    let smooth: Vec<f64> = x.iter().map(|x| (x[0] + 0.5 * x[1]).sin() + 0.2 * x[0] * x[1]).collect();
    let names = ["gaussian(sigma=0.7)", "gaussian(sigma=2)", "gaussian(sigma=6)", "linear()", "laplacian(sigma=3)"];
    for (task, y) in [(Task::Regression, &smooth), (Task::Classification, &golden.y)] {
        let found = combined(&x, y, task, &names, 1).unwrap();
        let again = combined(&x, y, task, &names, 3).unwrap();
        assert!(found.weights == again.weights && found.kernel == again.kernel, "other bits on three threads");
        let matrices: Vec<Rows> = names.iter().map(|name| centred(&x, name)).collect();
        let product = |a: f64, b: f64| match task {
            Task::Classification => {
                [0.0, 1.0, 2.0].iter().map(|class| if (a == *class) == (b == *class) { 1.0 } else { -1.0 }).sum::<f64>()
            }
            _ => a * b,
        };
        let ideal: Rows = y.iter().map(|a| y.iter().map(|b| product(*a, *b)).collect()).collect();
        // ⟨HKH, L⟩ = ⟨HKH, HLH⟩
        let a: Vec<f64> = matrices.iter().map(|k| inner(k, &ideal)).collect();
        let m: Rows = matrices.iter().map(|k| matrices.iter().map(|l| inner(k, l)).collect()).collect();
        // the weights are determined up to a factor: the best multiple has cμᵀMμ = μᵀa
        let quadratic: f64 =
            (0..5).map(|k| (0..5).map(|l| found.weights[k] * found.weights[l] * m[k][l]).sum::<f64>()).sum();
        let linear: f64 = found.weights.iter().zip(&a).map(|(weight, a)| weight * a).sum();
        let scale = linear / quadratic;
        let mut used = 0;
        for k in 0..5 {
            let gradient = (0..5).map(|l| m[k][l] * scale * found.weights[l]).sum::<f64>() - a[k];
            match found.weights[k] > 0.0 {
                true => assert!(gradient.abs() < 1e-8 * a[k], "{task:?} {}: {gradient} of {}", names[k], a[k]),
                false => assert!(gradient > -1e-8 * a[k], "{task:?} {}: {gradient}", names[k]),
            }
            used += usize::from(found.weights[k] > 0.0);
        }
        assert!((1..5).contains(&used), "a case with weights of 0 and others: {:?}", found.weights);
        close(found.weights.iter().sum::<f64>(), 1.0, 1e-14, "sum of the weights");
        assert_eq!(found.kernel.to_string().matches('*').count(), used.max(2) * usize::from(used > 1));
        if task == Task::Regression {
            let mean = y.iter().sum::<f64>() / y.len() as f64;
            let square: f64 = y.iter().map(|y| (y - mean).powi(2)).sum();
            close(found.alignment, linear / quadratic.sqrt() / square, 1e-9, "alignment of the sum");
            assert!(found.alignments.iter().all(|alone| *alone <= found.alignment + 1e-12));
        }
    }
}

#[test]
fn what_cannot_be_combined_is_said() {
    let golden = golden();
    let refused = |y: &[f64], task, kernels: &[&str]| combined(&golden.x, y, task, kernels, 1).unwrap_err().to_string();
    assert!(refused(&golden.y, Task::Regression, &["linear()"]).contains("expected at least two kernels"));
    assert!(refused(&golden.y, Task::Components, &["linear()", "gaussian(sigma=1)"]).contains("this solver has none"));
    let constant = vec![1.0; golden.y.len()];
    let message = refused(&constant, Task::Regression, &["linear()", "gaussian(sigma=1)"]);
    assert!(message.contains("none of them is correlated with the target"), "{message}");
    // of two equal kernels, one suffices
    let twice = combined(&golden.x, &golden.y, Task::Regression, &["linear()", "linear()"], 1).unwrap();
    assert!(twice.weights.contains(&1.0) && twice.kernel.to_string() == "linear()", "{twice:?}");
}
