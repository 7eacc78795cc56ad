//! Prediction intervals and sets: CV+ computed from dense fits without each fold, and their
//! coverage on generated tables.

use kmill_tests::dense::{kernel_matrix, solve};
use kmill_tests::kernels;
use ksolve::job::{Candidates, ElementType, Fit, LandmarkSource, Run, Scaling};
use ksolve::predict::{Evaluation, Extras, Predictor};
use kstore::key::{Purpose, Stream};
use kstore::{Selection, Table};
use std::fmt::Write;

const KERNEL: &str = "gaussian(sigma=1)";

/// Rows with inputs a and b, a number y, a class k and a group g.
struct Rows {
    x: Vec<[f64; 2]>,
    y: Vec<f64>,
    text: String,
}

/// Returns rows of groups of equal size. The noise of y grows with a; `group_effect` is the
/// standard deviation of a number that the rows of a group share.
fn rows(n: usize, seed: u64, groups: usize, group_effect: f64) -> Rows {
    let stream = Stream::new(seed, Purpose::Data, 0);
    let uniform = |i: usize, j: u64| stream.uniform(16 * i as u64 + j);
    // the sum of twelve uniform numbers is nearly normal
    let normal = |i: usize| (0..12).map(|j| uniform(i, j)).sum::<f64>() - 6.0;
    let (mut x, mut y, mut text) = (Vec::new(), Vec::new(), "a,b,y,k,g\n".to_string());
    for i in 0..n {
        let (a, b, group) = (4.0 * uniform(i, 12) - 2.0, 4.0 * uniform(i, 13) - 2.0, i % groups);
        let value = (2.0 * a).sin() + 0.5 * b + (0.2 + 0.2 * (a + 2.0)) * normal(i) + group_effect * normal(n + group);
        let class = ["low", "middle", "high"][((value + 1.5) as usize).min(2)];
        writeln!(text, "{a},{b},{value},{class},{group}").unwrap();
        x.push([a, b]);
        y.push(value);
    }
    Rows { x, y, text }
}

fn table(rows: &Rows, folder: &std::path::Path, name: &str) -> Table {
    let path = folder.join(name);
    std::fs::write(&path, &rows.text).unwrap();
    Table::open(&[path]).unwrap()
}

fn selection(target: &str) -> Selection {
    Selection { features: vec!["a".into(), "b".into()], targets: vec![target.to_string()], ..Selection::default() }
}

fn fitted(fit: &Fit, table: &Table, target: &str, run: &Run<'_>) -> Predictor {
    let selected = table.select(&fit.complete_selection(selection(target)).unwrap()).unwrap();
    Predictor::new(fit.run(&selected, run).unwrap().model).unwrap()
}

/// Returns the intervals of all rows, and the predictions.
fn intervals(predictor: &Predictor, table: &Table, run: &Run<'_>) -> Vec<f64> {
    let selected = predictor.select(table, Selection::default()).unwrap();
    let (extras, mut values) = (Extras { intervals: true, ..Extras::default() }, Vec::new());
    let visitor = |scores: &ksolve::predict::Scores| {
        values.extend(predictor.intervals(scores));
        Ok(())
    };
    predictor.score_table(&selected, extras, Vec::new(), run, visitor).unwrap();
    values
}

/// A ridge fit without intercept whose landmarks are all n rows: its functions are those of kernel
/// ridge regression.
fn exact_ridge(n: usize) -> Fit {
    let fit = Fit::ridge().rank(n).kernel(KERNEL.parse().unwrap()).scaling(Scaling::None).precision(ElementType::F64);
    let fit = fit.landmarks(LandmarkSource::Scheme("uniform".to_string())).candidates(Candidates::Rows(n as u64));
    fit.set("lambda", 1e-2).set("intercept", "none")
}

/// The ends are order statistics of all n numbers f₋ₖ(x) ± E_i, with f₋ₖ fitted to the rows outside
/// fold k by a dense solve.
#[test]
fn intervals_equal_those_of_dense_fits_without_each_fold() {
    let (n, folder) = (60, tempfile::tempdir().unwrap());
    let (train, new) = (rows(n, 1, 4, 0.0), rows(25, 2, 4, 0.0));
    let fit = exact_ridge(n).set("folds", "column:g").set("interval", "0.6,0.9");
    let predictor = fitted(&fit, &table(&train, folder.path(), "train.csv"), "y", &Run::new());
    let got = intervals(&predictor, &table(&new, folder.path(), "new.csv"), &Run::new());
    let (k, kernel_rows) = (kernels::kernel(KERNEL), |rows: &[usize]| -> Vec<Vec<f64>> {
        rows.iter().map(|i| train.x[*i].to_vec()).collect()
    });
    let fold_fits: Vec<(Vec<Vec<f64>>, Vec<f64>)> = (0..4)
        .map(|fold| {
            let outside: Vec<usize> = (0..n).filter(|i| i % 4 != fold).collect();
            let points = kernel_rows(&outside);
            let mut matrix = kernel_matrix(&points, &k);
            matrix.iter_mut().enumerate().for_each(|(i, row)| row[i] += 1e-2 * outside.len() as f64);
            let y: Vec<f64> = outside.iter().map(|i| train.y[*i]).collect();
            (points, solve(&matrix, &y))
        })
        .collect();
    let predict = |fold: usize, x: &[f64]| -> f64 {
        let (points, alpha) = &fold_fits[fold];
        points.iter().zip(alpha).map(|(z, alpha)| alpha * k(x, z)).sum()
    };
    let residual = |i: usize| (train.y[i] - predict(i % 4, &train.x[i])).abs();
    for (row, x) in new.x.iter().enumerate() {
        for (level_index, level) in [0.6, 0.9].into_iter().enumerate() {
            let mut ends: Vec<[f64; 2]> =
                (0..n).map(|i| (predict(i % 4, x), residual(i))).map(|(f, e)| [e - f, f + e]).collect();
            let position = (level * (n as f64 + 1.0) - 1e-9).ceil() as usize - 1;
            for end in 0..2 {
                ends.sort_by(|a, b| a[end].total_cmp(&b[end]));
                let expected = if end == 0 { -ends[position][0] } else { ends[position][1] };
                let value = got[(row * 2 + level_index) * 2 + end];
                assert!((value - expected).abs() < 1e-8, "row {row}, level {level}: {value} {expected}");
            }
        }
    }
}

/// Fits, and evaluates on new rows.
fn evaluated(fit: &Fit, target: &str, train: &Rows, new: &Rows) -> Evaluation {
    let folder = tempfile::tempdir().unwrap();
    let predictor = fitted(fit, &table(train, folder.path(), "train.csv"), target, &Run::new());
    let new_table = table(new, folder.path(), "new.csv");
    let selected = predictor.select(&new_table, selection(target)).unwrap();
    predictor.evaluate(&selected, &Run::new()).unwrap().0
}

fn coverage(evaluation: &Evaluation) -> f64 {
    match evaluation {
        Evaluation::Regression(scores) => scores.intervals[0].scores.coverage,
        Evaluation::Classification(scores) => scores.sets[0].coverage,
    }
}

const TRAIN_ROWS: usize = 400;
const NEW_ROWS: usize = 1500;
const TABLES: u64 = 20;

/// Given the training rows, the coverage on new rows varies around 0.9 with about the standard
/// deviation √(0.09/n) of a fraction of n training rows, and its estimate with that of a fraction
/// of the new rows. The mean over twenty tables must not be below 0.9 by more than two of its
/// standard errors, nor far above, and each table is within four standard deviations.
fn check_coverage(solver: &str, target: &str, options: &[(&str, &str)]) {
    let fit = Fit::solver(solver).unwrap().rank(60).set("interval", 0.9);
    let fit = options.iter().fold(fit, |fit, (name, value)| fit.set(name, value));
    let deviation = (0.09f64 / TRAIN_ROWS as f64 + 0.09 / NEW_ROWS as f64).sqrt();
    let coverages: Vec<f64> = (0..TABLES)
        .map(|seed| {
            let (train, new) = (rows(TRAIN_ROWS, 10 + seed, 5, 0.0), rows(NEW_ROWS, 1000 + seed, 5, 0.0));
            coverage(&evaluated(&fit, target, &train, &new))
        })
        .collect();
    let mean = coverages.iter().sum::<f64>() / TABLES as f64;
    println!("{solver} {options:?}: mean {mean:.4}, {coverages:.3?}");
    let error = deviation / (TABLES as f64).sqrt();
    assert!(mean > 0.9 - 2.0 * error && mean < 0.92 + 2.0 * error, "{solver} {options:?}: mean coverage {mean}");
    for coverage in coverages {
        assert!((coverage - 0.9).abs() < 4.0 * deviation + 0.01, "{solver} {options:?}: coverage {coverage}");
    }
}

#[test]
fn intervals_of_ridge_cover_new_rows() {
    check_coverage("ridge", "y", &[("lambda", "1e-3")]);
    check_coverage("ridge", "y", &[("lambda", "1e-3"), ("std", "true")]);
}

#[test]
fn intervals_of_support_vectors_and_quantiles_cover_new_rows() {
    check_coverage("svr", "y", &[("lambda", "1e-3")]);
    check_coverage("quantile", "y", &[("lambda", "1e-3"), ("quantiles", "0.05,0.95")]);
}

#[test]
fn sets_cover_the_classes_of_new_rows() {
    check_coverage("logistic", "k", &[("lambda", "1e-3")]);
    check_coverage("svm", "k", &[("lambda", "1e-3"), ("probabilities", "true")]);
}

/// Rows of a group share an effect. The held-out rows of random folds have seen the effect of their
/// group in other rows, so intervals are too narrow for new groups; folds of whole groups cover.
#[test]
fn folds_of_whole_groups_cover_new_groups() {
    let fit = |folds: &str| {
        // the group is an input, which the kernel compares exactly
        let kernel = "gaussian(sigma=1, on=[a, b]) + delta(on=g)".parse().unwrap();
        let fit = Fit::ridge().rank(150).kernel(kernel).scaling(Scaling::None);
        fit.set("lambda", 1e-3).set("interval", 0.9).set("folds", folds)
    };
    let coverages = ["5", "groups:5:g"].map(|folds| {
        let coverages = (0..8).map(|seed| {
            let train = rows(TRAIN_ROWS, 10 + seed, 40, 1.5);
            let mut new = rows(NEW_ROWS, 2000 + seed, 150, 1.5);
            // groups that the fit has not seen
            new.text = new.text.lines().map(|line| shifted_group(line) + "\n").collect();
            let folder = tempfile::tempdir().unwrap();
            let all = |target: &str| Selection {
                features: vec!["a".into(), "b".into(), "g".into()],
                targets: vec![target.to_string()],
                ..Selection::default()
            };
            let fit = fit(folds);
            let table_of_train = table(&train, folder.path(), "train.csv");
            let selected = table_of_train.select(&fit.complete_selection(all("y")).unwrap()).unwrap();
            let predictor = Predictor::new(fit.run(&selected, &Run::new()).unwrap().model).unwrap();
            let new_table = table(&new, folder.path(), "new.csv");
            let selected = predictor.select(&new_table, all("y")).unwrap();
            coverage(&predictor.evaluate(&selected, &Run::new()).unwrap().0)
        });
        let coverages: Vec<f64> = coverages.collect();
        println!("{folds}: {coverages:.3?}");
        coverages.iter().sum::<f64>() / 8.0
    });
    assert!(coverages[0] < 0.8, "random folds cover new groups: {}", coverages[0]);
    // 40 groups estimate the effect's spread less precisely than 400 rows
    assert!(coverages[1] > 0.86, "folds of groups do not cover new groups: {}", coverages[1]);
}

fn shifted_group(line: &str) -> String {
    match line.rsplit_once(',') {
        Some((start, group)) if group != "g" => format!("{start},{}", group.parse::<u32>().unwrap() + 1000),
        _ => line.to_string(),
    }
}

/// The file stores everything, and neither threads nor memory change a bit.
#[test]
fn intervals_are_saved_and_bitwise_reproducible() {
    let (folder, train) = (tempfile::tempdir().unwrap(), rows(TRAIN_ROWS, 3, 4, 0.0));
    let table = table(&train, folder.path(), "train.csv");
    for (solver, target, options) in [
        ("ridge", "y", vec![("std", "true")]),
        ("quantile", "y", vec![("quantiles", "0.1,0.9"), ("folds", "blocks:4")]),
        ("svr", "y", vec![("C", "1,10")]),
        ("logistic", "k", vec![("lambda", "1e-4,1e-2")]),
        ("svm", "k", vec![("probabilities", "true")]),
    ] {
        let fit = Fit::solver(solver).unwrap().rank(40).set("interval", "0.9,0.5");
        let fit = options.iter().fold(fit, |fit, (name, value)| fit.set(name, value));
        let narrow = Run::new().threads(1).memory(300 << 20);
        let predictor = fitted(&fit, &table, target, &narrow);
        let again = fitted(&fit, &table, target, &Run::new().threads(3));
        let file = predictor.to_bytes().unwrap();
        assert!(file == again.to_bytes().unwrap(), "{solver}: other bits on three threads");
        let read = Predictor::from_bytes(&file).unwrap();
        assert_eq!((read.interval_levels(), read.component_count()), (&[0.5, 0.9][..], 0));
        let values = intervals(&read, &table, &Run::new().threads(3));
        assert!(values == intervals(&predictor, &table, &narrow), "{solver}: the file has other intervals");
        let width = values.len() / TRAIN_ROWS;
        assert!(values.iter().all(|value| value.is_finite()) && width == if target == "y" { 4 } else { 6 }, "{solver}");
        for row in values.chunks(width).filter(|_| target == "y") {
            assert!(row[0] <= row[1] && row[2] < row[0] && row[1] < row[3], "{solver}: {row:?} are not nested");
        }
    }
}

#[test]
fn unsuitable_options_are_rejected_with_a_remedy() {
    let (folder, train) = (tempfile::tempdir().unwrap(), rows(60, 3, 4, 0.0));
    let table = table(&train, folder.path(), "train.csv");
    let message = |fit: &Fit, target: &str| {
        let run = || {
            let selected = table.select(&fit.complete_selection(selection(target))?)?;
            fit.run(&selected, &Run::new())
        };
        run().unwrap_err().to_string()
    };
    let ridge = Fit::ridge().rank(20).set("interval", 0.9);
    let exact = Fit::ridge().map("exact".parse().unwrap()).set("lambda", 1e-3).set("interval", 0.9);
    let exact_svm = Fit::solver("svm").unwrap().map("exact".parse().unwrap()).set("interval", 0.9);
    let svm = Fit::solver("svm").unwrap().rank(20).set("interval", 0.9);
    let cases = [
        (ridge.clone().set("folds", "none").set("lambda", 1e-3), "y", "need held-out rows"),
        (ridge.clone().set("task", "classification"), "k", "fit logistic"),
        (ridge.clone().set("interval", "0.999"), "y", "needs 999"),
        (ridge.set("interval", "1.5"), "y", "between 0 and 1"),
        (exact, "y", "use landmarks"),
        (svm, "k", "add `probabilities`"),
        (exact_svm.set("probabilities", true), "k", "leave `map` out"),
    ];
    for (fit, target, expected) in cases {
        let message = message(&fit, target);
        assert!(message.contains("`interval`") && message.contains(expected), "{message}");
    }
    let without = fitted(&Fit::ridge().rank(20), &table, "y", &Run::new());
    let selected = without.select(&table, Selection::default()).unwrap();
    let extras = Extras { intervals: true, ..Extras::default() };
    let error = without.score_table(&selected, extras, Vec::new(), &Run::new(), |_| Ok(())).unwrap_err().to_string();
    assert!(error.contains("fitted without it") && without.interval_levels().is_empty(), "{error}");
    let with = fitted(&Fit::ridge().rank(20).set("std", true).set("interval", 0.9), &table, "y", &Run::new());
    let selected = with.select(&table, selection("y")).unwrap();
    assert!(with.learn(&selected, 1.0, &Run::new()).unwrap_err().to_string().contains("fit without `interval`"));
}
