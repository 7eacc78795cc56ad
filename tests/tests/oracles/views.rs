//! Canonical correlations and maximal covariance checked with their equations in dense matrices.
//! With K̃ and L̃ the centred kernel matrices of the views and z, w the coordinates:
//! ρ z = K̃(K̃ + n lambda I)⁻¹ w and σ z = K̃ w/n, and the same with the views exchanged.

use crate::solvers::{close, golden};
use kmill_tests::table::write;
use kmill_tests::{dense, kernels};
use ksolve::job::{Candidates, ElementType, Fit, Fitted, Run};
use ksolve::job::{LandmarkSource, Scaling};
use ksolve::{AnyModel, Model};
use kstore::{Selection, Table, Workers};

type Rows = Vec<Vec<f64>>;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn times(a: &Rows, x: &[f64]) -> Vec<f64> {
    a.iter().map(|row| dot(row, x)).collect()
}

/// Computes HKH.
fn centred(rows: &Rows, kernel: &str) -> Rows {
    let k = kernels::kernel(kernel);
    let mut m = dense::kernel_matrix(rows, &*k);
    let n = m.len() as f64;
    let means: Vec<f64> = m.iter().map(|row| row.iter().sum::<f64>() / n).collect();
    let all = means.iter().sum::<f64>() / n;
    for (i, row) in m.iter_mut().enumerate() {
        row.iter_mut().enumerate().for_each(|(j, value)| *value += all - means[i] - means[j]);
    }
    m
}

/// Returns rows of six columns and a target y that depends on x1; x4, x5 and y are the second view.
fn rows(n: usize) -> (Rows, Vec<f64>) {
    let golden = golden();
    let wave = |i: usize, j: usize| ((i * (7 * j + 3)) as f64 * 0.37).sin();
    let x: Rows = (0..n)
        .map(|i| {
            let mut row: Vec<f64> = (0..4).map(|j| wave(i, j) + golden.x[i % golden.x.len()][j % 2]).collect();
            row.push(row[0] * row[1] + 0.3 * wave(i, 5));
            row.push(row[2] + 0.5 * wave(i, 6));
            row
        })
        .collect();
    let y = x.iter().enumerate().map(|(i, x)| x[1].sin() + 0.4 * wave(i, 8)).collect();
    (x, y)
}

fn fit(name: &str, kernel: &str, n: usize) -> Fit {
    Fit::solver(name)
        .unwrap()
        .set("with", "x4,x5,y")
        .kernel(kernel.parse().unwrap())
        .scaling(Scaling::None)
        .landmarks(LandmarkSource::Scheme("uniform".to_string()))
        .candidates(Candidates::Rows(n as u64))
        .rank(n)
        .precision(ElementType::F64)
}

/// Fits to a range of rows; one thread and three threads must give the same bits.
fn fitted(fit: &Fit, (x, y): &(Rows, Vec<f64>), some: std::ops::Range<u64>) -> ksolve::Result<Fitted> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write(&path, x, y);
    let table = Table::open(&[path]).unwrap();
    let selection = Selection { rows: Some(some), ..Selection::default() };
    let run = |threads: usize| {
        let selected = table.select(&fit.complete_selection(selection.clone())?)?;
        fit.run(&selected, &Run::new().memory(1 << 30).threads(threads))
    };
    let (one, three) = (run(1)?, run(3)?);
    assert!(bytes(&one.model) == bytes(&three.model), "other bits");
    Ok(one)
}

fn bytes(model: &AnyModel) -> Vec<u8> {
    match model {
        AnyModel::F32(model) => model.to_bytes().unwrap(),
        AnyModel::F64(model) => model.to_bytes().unwrap(),
    }
}

/// Returns the coordinates of both views, 2q per row, after a round trip through bytes.
fn coordinates(fitted: &Fitted, (x, y): &(Rows, Vec<f64>)) -> Rows {
    let AnyModel::F64(model) = AnyModel::from_bytes(&bytes(&fitted.model)).unwrap() else { panic!("not in f64") };
    let model: Model<f64> = model;
    let basis = model.functions().unwrap();
    let t = model.intercept.len();
    let numbers: Vec<f64> =
        x.iter().zip(y).flat_map(|(x, y)| x.iter().chain([y]).copied().collect::<Vec<_>>()).collect();
    let mut out = faer::Mat::zeros(x.len(), t);
    let all = faer::MatRef::from_row_major_slice(&numbers, x.len(), 7);
    model.predict(&basis, all, out.as_mut(), &Workers::sequential()).unwrap();
    (0..x.len()).map(|i| (0..t).map(|j| out[(i, j)]).collect()).collect()
}

fn column(rows: &Rows, j: usize) -> Vec<f64> {
    rows.iter().map(|row| row[j]).collect()
}

fn figure<'a>(fitted: &'a Fitted, name: &str) -> &'a [f64] {
    &fitted.report.figures.iter().find(|figure| figure.name == name).unwrap().values
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len() as f64;
    let (ma, mb) = (a.iter().sum::<f64>() / n, b.iter().sum::<f64>() / n);
    let sum = |f: &dyn Fn(f64, f64) -> f64| a.iter().zip(b).map(|(a, b)| f(a - ma, b - mb)).sum::<f64>();
    sum(&|a, b| a * b) / (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt()
}

/// Computes K(K + n lambda I)⁻¹ x, or K x/n without lambda.
fn shrunk(k: &Rows, lambda: Option<f64>, x: &[f64]) -> Vec<f64> {
    let n = k.len() as f64;
    let Some(lambda) = lambda else { return times(k, x).into_iter().map(|v| v / n).collect() };
    let mut a = k.clone();
    a.iter_mut().enumerate().for_each(|(i, row)| row[i] += n * lambda);
    times(k, &dense::solve(&a, x))
}

#[test]
fn pairs_solve_their_equations() {
    let n = 48;
    let data = rows(n);
    let first: Rows = data.0.iter().map(|x| x[..4].to_vec()).collect();
    let second: Rows = data.0.iter().zip(&data.1).map(|(x, y)| vec![x[4], x[5], *y]).collect();
    let cases: [(&str, &str, &str, Option<f64>, usize); 4] = [
        ("cca", "linear()", "linear()", Some(1e-3), 3),
        ("cca", "gaussian(sigma=2)", "gaussian(sigma=1)", Some(1e-2), 48),
        ("covariance", "linear()", "linear()", None, 3),
        ("covariance", "gaussian(sigma=2)", "laplacian(sigma=2)", None, 48),
    ];
    for (name, kernel, other, lambda, q) in cases {
        let fit = fit(name, kernel, n).set("with_kernel", other).set("components", q);
        let fit = lambda.into_iter().fold(fit, |fit, lambda| fit.set("lambda", lambda));
        let found = fitted(&fit, &data, 0..n as u64).unwrap();
        let (k, l) = (centred(&first, kernel), centred(&second, other));
        let all = coordinates(&found, &data);
        let q = all[0].len() / 2;
        let values = &found.report.figures[0].values;
        assert!(values.windows(2).all(|pair| pair[0] >= pair[1]) && values.len() == q, "{name}: {values:?}");
        for (j, value) in values.iter().enumerate().take(5) {
            let (z, w) = (column(&all, j), column(&all, q + j));
            for (got, expected, view) in [(&z, shrunk(&k, lambda, &w), "first"), (&w, shrunk(&l, lambda, &z), "second")]
            {
                let scale = expected.iter().map(|v| v.abs()).fold(0.0, f64::max);
                for (got, expected) in got.iter().zip(&expected) {
                    assert!((value * got - expected).abs() < 1e-8 * scale, "{name} {kernel} pair {j}, {view} view");
                }
            }
            // aᵀC_xy b is the value itself, in either scaling
            close(dot(&z, &w) / n as f64, *value, 1e-8, &format!("{name} {kernel} value {j}"));
            let got = figure(&found, "correlation")[j];
            close(got, correlation(&z, &w), 1e-8, &format!("{name} {kernel} correlation {j}"));
        }
        // all pairs are found: Σρ² = tr K(K + nλ)⁻¹L(L + nλ)⁻¹, Σσ² = tr K L/n²
        let unit = |i: usize| (0..n).map(|j| f64::from(i == j)).collect::<Vec<_>>();
        let trace: f64 = (0..n).map(|i| shrunk(&k, lambda, &shrunk(&l, lambda, &unit(i)))[i]).sum();
        close(values.iter().map(|v| v * v).sum::<f64>() / trace, 1.0, 1e-8, &format!("{name} {kernel} trace"));
    }
}

#[test]
fn held_out_correlations_are_those_of_fits_to_the_others() {
    let n = 60;
    let data = rows(n);
    for name in ["cca", "covariance"] {
        let fit = fit(name, "linear()", n);
        let fit = if name == "cca" { fit.set("lambda", 1e-2) } else { fit };
        let whole = fitted(&fit.clone().set("folds", "blocks:2"), &data, 0..60).unwrap();
        let held = figure(&whole, "held-out correlation");
        let half = |some: std::ops::Range<u64>, others: std::ops::Range<usize>| {
            let found = fitted(&fit, &data, some).unwrap();
            let all = coordinates(&found, &data)[others].to_vec();
            [0, 1].map(|j| correlation(&column(&all, j), &column(&all, 2 + j)))
        };
        let (a, b) = (half(0..30, 30..60), half(30..60, 0..30));
        for j in 0..2 {
            close(held[j], (a[j] + b[j]) / 2.0, 1e-8, &format!("{name} pair {j}"));
        }
    }
    // of several lambdas, the one with the largest mean correlation is chosen
    let several = fitted(&fit("cca", "gaussian(sigma=2)", n).set("folds", "blocks:3"), &data, 0..60).unwrap();
    let means = figure(&several, "mean held-out correlation at each");
    let best = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let at = means.iter().position(|mean| *mean == best).unwrap();
    assert_eq!(several.report.lambda, Some(figure(&several, "lambdas that were compared")[at]));
}

#[test]
fn what_two_views_cannot_do_is_said() {
    let (mut x, y) = rows(40);
    let refused = |fit: Fit, data: &(Rows, Vec<f64>)| fitted(&fit, data, 0..40).unwrap_err().to_string();
    let data = (x.clone(), y.clone());
    // detected before a table is opened
    let message = Fit::solver("cca").unwrap().complete_selection(Selection::default()).unwrap_err().to_string();
    assert!(message.contains("second view"), "{message}");
    assert!(refused(Fit::solver("cca").unwrap(), &data).contains("second view"));
    assert!(refused(fit("cca", "linear()", 40).set("with", "z"), &data).contains('z'));
    assert!(refused(fit("covariance", "linear()", 40).set("with", "x*,y"), &data).contains("no column is left"));
    assert!(refused(fit("cca", "linear()", 40).set("lambda", 0), &data).contains("positive"));
    assert!(refused(fit("cca", "linear()", 40).map("fourier".parse().unwrap()), &data).contains("landmarks"));
    let none = refused(fit("cca", "linear()", 40).set("folds", "none"), &data);
    assert!(none.contains("they cannot be compared without folds"), "{none}");
    // a view that is a copy of the other has correlation 1, however collinear its columns
    for row in &mut x {
        row[1] = 2.0 * row[0];
        row[4] = row[0];
        row[5] = row[2];
    }
    let y = x.iter().map(|row| row[0] + row[2]).collect::<Vec<_>>();
    let found = fitted(&fit("cca", "linear()", 40).set("lambda", 1e-9), &(x.clone(), y), 0..40).unwrap();
    close(figure(&found, "correlation")[0], 1.0, 1e-6, "a copy");
    // a lambda below the rounding of f32 is rejected instead of giving correlations above 1
    let mut refusals = 0;
    for (row, wave) in x.iter_mut().zip(&data.0) {
        *row = vec![wave[0], 2.0 * wave[0], -wave[0], wave[1], wave[0], 3.0 * wave[0]];
    }
    let collinear = (x.clone(), x.iter().map(|row| row[0]).collect());
    for exponent in 4..15 {
        let narrow = fit("cca", "gaussian(sigma=2)", 40).precision(ElementType::F32);
        match fitted(&narrow.set("lambda", 10f64.powi(-exponent)), &collinear, 0..40) {
            Ok(found) => assert!(found.report.figures[0].values[0] <= 1.0 + 1e-5, "{:?}", found.report.figures),
            Err(error) => {
                refusals += 1;
                assert!(error.to_string().contains("below the rounding error of f32; raise it"), "{error}");
            }
        }
    }
    assert!((1..10).contains(&refusals), "{refusals} of 11");
    // fewer directions than requested components
    let many = fitted(&fit("covariance", "linear()", 40).set("components", 9), &data, 0..40).unwrap();
    assert_eq!(many.report.figures[0].values.len(), 3);
    for row in &mut x {
        row[4..].fill(3.0);
    }
    let constant = (x, vec![1.0; 40]);
    for name in ["cca", "covariance"] {
        let message = refused(fit(name, "gaussian(sigma=1)", 40).set("components", 1), &constant);
        assert!(message.contains("no directions of the two views covary"), "{message}");
    }
}
