//! Partial least squares compared with the textbook: deflated kernel matrices, and deflated rows.

use crate::solvers::{close, golden};
use kfit::request::TrainOptions;
use kfit::solver::Options;
use kmill_tests::dense::solve as dense_solve;
use kmill_tests::kernels;
use kmill_tests::table::{components, exact, predict, select, solve, try_solve, write};
use kmodel::Folds;
use ksolve::train::TrainedModel;
use ksolve::{FoldSpec, Task};

type Rows = Vec<Vec<f64>>;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn column(rows: &Rows, j: usize) -> Vec<f64> {
    rows.iter().map(|row| row[j]).collect()
}

fn means(rows: &Rows) -> Vec<f64> {
    (0..rows[0].len()).map(|j| column(rows, j).iter().sum::<f64>() / rows.len() as f64).collect()
}

fn centred(rows: &Rows, mean: &[f64]) -> Rows {
    rows.iter().map(|row| row.iter().zip(mean).map(|(v, mean)| v - mean).collect()).collect()
}

/// Computes the leading eigenvector of a small positive semi-definite matrix by power iteration.
fn leading(m: &Rows) -> Vec<f64> {
    let mut v: Vec<f64> = (0..m.len()).map(|i| 1.0 + 0.1 * i as f64).collect();
    for _ in 0..20_000 {
        let w: Vec<f64> = m.iter().map(|row| dot(row, &v)).collect();
        let length = dot(&w, &w).sqrt();
        v = w.iter().map(|w| w / length).collect();
    }
    v
}

/// Computes orthonormal scores T and fitted values by Rosipal and Trejo, from a centred matrix.
fn dual(mut k: Rows, y: &Rows, q: usize) -> (Rows, Rows) {
    let (n, t) = (y.len(), y[0].len());
    let (mut left, mut scores, mut fitted) = (y.clone(), Vec::new(), vec![vec![0.0; t]; n]);
    for _ in 0..q {
        let images: Rows = (0..t).map(|j| k.iter().map(|row| dot(row, &column(&left, j))).collect()).collect();
        let inner = (0..t).map(|i| (0..t).map(|j| dot(&column(&left, i), &images[j])).collect()).collect();
        let v = leading(&inner);
        let u: Vec<f64> = left.iter().map(|row| dot(row, &v)).collect();
        let mut score: Vec<f64> = k.iter().map(|row| dot(row, &u)).collect();
        let length = dot(&score, &score).sqrt();
        score.iter_mut().for_each(|s| *s /= length);
        // K ← (I − ttᵀ)K(I − ttᵀ), Y ← (I − ttᵀ)Y
        let along: Vec<f64> = k.iter().map(|row| dot(row, &score)).collect();
        let both = dot(&along, &score);
        for i in 0..n {
            for j in 0..n {
                k[i][j] += both * score[i] * score[j] - score[i] * along[j] - along[i] * score[j];
            }
        }
        for j in 0..t {
            let part = dot(&column(&left, j), &score);
            for i in 0..n {
                left[i][j] -= part * score[i];
                fitted[i][j] += part * score[i];
            }
        }
        scores.push(score);
    }
    (scores, fitted)
}

/// Computes the d x t coefficients of NIPALS with deflated rows: W(PᵀW)⁻¹Cᵀ.
fn primal(x: &Rows, y: &Rows, q: usize) -> Rows {
    let (mut x, mut y, d, t) = (x.clone(), y.clone(), x[0].len(), y[0].len());
    let (mut ws, mut ps, mut cs): (Rows, Rows, Rows) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..q {
        let cross: Rows = (0..d).map(|i| (0..t).map(|j| dot(&column(&x, i), &column(&y, j))).collect()).collect();
        let w = leading(&cross.iter().map(|a| cross.iter().map(|b| dot(a, b)).collect()).collect());
        let score: Vec<f64> = x.iter().map(|row| dot(row, &w)).collect();
        let square = dot(&score, &score);
        let p: Vec<f64> = (0..d).map(|i| dot(&column(&x, i), &score) / square).collect();
        let c: Vec<f64> = (0..t).map(|j| dot(&column(&y, j), &score) / square).collect();
        for (i, s) in score.iter().enumerate() {
            x[i].iter_mut().zip(&p).for_each(|(v, p)| *v -= s * p);
            y[i].iter_mut().zip(&c).for_each(|(v, c)| *v -= s * c);
        }
        ws.push(w);
        ps.push(p);
        cs.push(c);
    }
    // (PᵀW)⁻¹Cᵀ by the normal equations of a small square system
    let a: Rows = ps.iter().map(|p| ws.iter().map(|w| dot(p, w)).collect()).collect();
    let square: Rows = (0..q).map(|i| (0..q).map(|j| (0..q).map(|k| a[k][i] * a[k][j]).sum()).collect()).collect();
    let inner: Rows = (0..t)
        .map(|j| dense_solve(&square, &(0..q).map(|i| (0..q).map(|k| a[k][i] * cs[k][j]).sum()).collect::<Vec<_>>()))
        .collect();
    (0..d).map(|i| (0..t).map(|j| (0..q).map(|k| ws[k][i] * inner[j][k]).sum()).collect()).collect()
}

/// Returns the golden rows with a target: numbers, or codes of three classes.
fn targets(task: Task) -> (Rows, Vec<f64>, Rows) {
    let golden = golden();
    let smooth = |x: &[f64]| (x[0] + 0.5 * x[1]).sin() + 0.2 * x[0] * x[1];
    let y: Vec<f64> = match task {
        Task::Classification => golden.y.clone(),
        _ => golden.x.iter().map(|x| smooth(x)).collect(),
    };
    let codes = |label: f64| [0.0, 1.0, 2.0].iter().map(|class| if *class == label { 1.0 } else { -1.0 }).collect();
    let wide = y.iter().map(|y| if task == Task::Classification { codes(*y) } else { vec![*y] }).collect();
    (golden.x, y, wide)
}

fn fitted(x: &Rows, y: &[f64], options: &TrainOptions, given: &Options, threads: usize) -> TrainedModel<f64> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, x, y);
    let task = if options.task == Task::Classification { "classification" } else { "regression" };
    solve::<f64>(&select(&path, options.task), options, "pls", &given.clone().set("task", task), threads)
}

#[test]
fn kernel_partial_least_squares_is_that_of_the_dual() {
    for task in [Task::Regression, Task::Classification] {
        let kernel = "gaussian(sigma=2)";
        let (x, y, wide) = targets(task);
        let n = x.len();
        let given = Options::new().set("components", 4);
        let options = exact(task, kernel, n);
        let trained = fitted(&x, &y, &options, &given, 1);
        let again = fitted(&x, &y, &options, &given, 3);
        assert!(
            trained.model.coefficients == again.model.coefficients
                && trained.model.components == again.model.components,
            "other bits"
        );
        let k = kernels::kernel(kernel);
        let mut gram: Rows = x.iter().map(|a| x.iter().map(|b| k(a, b)).collect()).collect();
        gram = centred(&gram, &means(&gram));
        let across: Vec<f64> = gram.iter().map(|row| row.iter().sum::<f64>() / n as f64).collect();
        gram.iter_mut().zip(&across).for_each(|(row, mean)| row.iter_mut().for_each(|v| *v -= mean));
        let mean = means(&wide);
        let (scores, expected) = dual(gram, &centred(&wide, &mean), 4);
        for (i, row) in x.iter().enumerate() {
            for (j, got) in predict(&trained, kernel, row).into_iter().enumerate() {
                close(got, expected[i][j] + mean[j], 1e-8, "prediction");
            }
        }
        let coordinates: Rows = x.iter().map(|row| components(&trained, kernel, row)).collect();
        for (j, score) in scores.iter().enumerate() {
            let own = column(&coordinates, j);
            assert!(own.iter().sum::<f64>().abs() < 1e-8 * dot(&own, &own).sqrt(), "component {j} is not centred");
            let cosine = dot(&own, score) / dot(&own, &own).sqrt();
            assert!((cosine.abs() - 1.0).abs() < 1e-8, "{task:?} component {j}: {cosine}");
        }
        // the training error equals the residual of the oracle
        let left = |i: usize, j: usize| wide[i][j] - mean[j] - expected[i][j];
        let residual: f64 = (0..n).map(|i| (0..mean.len()).map(|j| left(i, j).powi(2)).sum::<f64>()).sum();
        close(trained.report.train.unwrap().mse, residual / (n * mean.len()) as f64, 1e-8, "train mse");
    }
}

#[test]
fn the_surface_of_components_is_that_of_refitting_without_each_fold() {
    let (x, y, wide) = targets(Task::Regression);
    let (n, d) = (x.len(), x[0].len());
    let spec = FoldSpec::Blocks(4);
    let options = TrainOptions { folds: spec.clone(), ..exact(Task::Regression, "linear()", n) };
    let trained = fitted(&x, &y, &options, &Options::new().set("components", d), 2);
    let figure =
        |name: &str| &trained.report.figures.iter().find(|figure| figure.name.starts_with(name)).unwrap().values;
    let got = figure("held-out mse");
    let folds = Folds::new(&spec, 0, 0..n as u64, &[]).unwrap();
    let fold = |row: usize| folds.fold_of(row as u64, 0).unwrap();
    let mut best = (0, f64::INFINITY);
    for q in 1..=d {
        let mut error = 0.0;
        for left_out in 0..4 {
            let keep = |own: bool| (0..n).filter(move |i| (fold(*i) == left_out) == own);
            let rows = |of: &Rows| keep(false).map(|i| of[i].clone()).collect::<Rows>();
            let (own, targets) = (rows(&x), rows(&wide));
            let (mean, target_mean) = (means(&own), means(&targets));
            let beta = primal(&centred(&own, &mean), &centred(&targets, &target_mean), q);
            for i in keep(true) {
                let along: f64 = (0..d).map(|c| (x[i][c] - mean[c]) * beta[c][0]).sum();
                error += (wide[i][0] - target_mean[0] - along).powi(2);
            }
        }
        close(got[q - 1], error / n as f64, 1e-8, &format!("held-out mse of {q} components"));
        if error < best.1 {
            best = (q, error);
        }
    }
    assert_eq!(figure("components")[0], best.0 as f64);
    // the model uses all rows and the best number of components
    let (mean, target_mean) = (means(&x), means(&wide));
    let beta = primal(&centred(&x, &mean), &centred(&wide, &target_mean), best.0);
    for row in &x {
        let expected = target_mean[0] + (0..d).map(|c| (row[c] - mean[c]) * beta[c][0]).sum::<f64>();
        close(predict(&trained, "linear()", row)[0], expected, 1e-8, "prediction");
    }
}

#[test]
fn what_cannot_be_learned_is_said() {
    let (x, _, _) = targets(Task::Regression);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, &x, &vec![3.0; x.len()]);
    let options = exact(Task::Regression, "linear()", x.len());
    let given = Options::new().set("components", 2);
    let refused = |options: &TrainOptions| {
        try_solve::<f64>(&select(&path, Task::Regression), options, "pls", &given, 1).unwrap_err().to_string()
    };
    let message = refused(&options);
    assert!(message.contains("no target covaries with the features"), "{message}");
    let message = refused(&TrainOptions { ranks: vec![2, 3], ..options });
    assert!(message.contains("without folds"), "{message}");
    // more components than features are reduced to the number of features
    let (x, y, _) = targets(Task::Regression);
    let trained =
        fitted(&x, &y, &exact(Task::Regression, "linear()", x.len()), &Options::new().set("components", 40), 1);
    assert!(trained.model.components.unwrap().intercept.len() <= x[0].len());
}
