//! Folds and standard errors that follow the test rows: blocks for later rows, groups for groups.

use super::run::{kmill, ok};
use super::test_rows::{column, write_table};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

fn warnings(report: &Value) -> String {
    report["warnings"].to_string()
}

#[test]
fn folds_follow_the_test_rows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_table(&at.join("t.csv"), |_| ());
    let line = "t.csv --features a,b --target y --rank 10 -o m --json";
    for (spec, folds, reason) in [
        ("last:15%:day", "blocks:5:day", Some("the test rows are later rows")),
        ("last:15%", "blocks:5", Some("the test rows are later rows")),
        ("groups:20%:subject", "groups:5:subject", Some("the test rows are whole groups")),
        // four days remain
        ("last:97%:day", "blocks:4:day", Some("the test rows are later rows")),
        ("20%", "5", None),
        ("id>=500", "5", None),
    ] {
        let report = ok(at, &format!("fit ridge {line} --test {spec}"));
        assert_eq!((report["folds"].as_str(), report["reason_for_folds"].as_str()), (Some(folds), reason), "{spec}");
        assert!(!warnings(&report).contains("folds are random"), "{spec}: {report}");
        let requested = ok(at, &format!("fit ridge {line} --test {spec} --folds {folds}"));
        assert_eq!(requested["surface"], report["surface"], "{spec}");
        // random folds only if requested, with a warning
        let random = ok(at, &format!("fit ridge {line} --test {spec} --folds 5"));
        assert_eq!(random["folds"], "5");
        assert_eq!(warnings(&random).contains("the folds are random"), reason.is_some(), "{spec}: {random}");
        // nothing is compared
        let single = ok(at, &format!("fit ridge {line} --test {spec} --lambda 1e-4"));
        assert_eq!((&single["folds"], &single["reason_for_folds"]), (&"none".into(), &Value::Null), "{spec}");
    }
    let svm = ok(at, "fit svm t.csv --features a,b --target label --rank 20 --C 1,10 --test last:15%:day -o m --json");
    assert_eq!(svm["folds"], "blocks:5:day");
    // a column of fractions defines no folds, and the table is not in its order
    let fractions = ok(at, &format!("fit ridge {line} --test last:15%:a"));
    assert_eq!(fractions["folds"], "5");
    assert!(warnings(&fractions).contains("sort the table by it"), "{fractions}");
    // the column that orders the rows stays a feature
    let features = |test: &str| {
        let line = "t.csv --times position --categories none --target y --rank 20 -o m --json";
        ok(at, &format!("fit ridge {line} --test {test}"))["features"].clone()
    };
    assert_eq!(features("last:15%:day"), features("20%"));
}

#[test]
fn the_folds_of_a_search_follow_the_test_rows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_table(&at.join("t.csv"), |_| ());
    let line =
        "t.csv --features a,b --target y --kernels gaussian(),laplacian() --metric none --factors 1,2 --ranks 20";
    let search = |options: &str| ok(at, &format!("tune ridge {line} {options} -o m --json"));
    let groups = search("--test groups:20%:subject");
    assert_eq!((&groups["folds"], &groups["fit"]["folds"]), (&"groups:5:subject".into(), &"groups:5:subject".into()));
    assert_eq!(groups["reason_for_folds"], "the test rows are whole groups");
    let later = search("--test last:15%:day");
    assert_eq!((&later["folds"], &later["fit"]["folds"]), (&"blocks:5:day".into(), &"blocks:5:day".into()));
    let (code, _, text) = kmill(at, &format!("tune ridge {line} --test last:15%:day --folds 5 -o m"));
    assert!(code == 0 && text.contains("the folds are random, but the test rows are later rows"), "{text}");
}

#[test]
fn past_values_have_folds_of_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let rows: String = (0..300).map(|i| format!("{i},{}\n", f64::from(i % 12) + f64::from(i % 5) / 7.0)).collect();
    std::fs::write(at.join("s.csv"), format!("hour,y\n{rows}")).unwrap();
    for (options, folds) in [("--order hour", "blocks:5:hour"), ("", "blocks:5")] {
        let line = format!("s.csv --target y --features hour --lags y:1,12 --missing drop --rank 30 {options} -o m");
        let report = ok(at, &format!("fit ridge {line} --json"));
        let reason = report["reason_for_folds"].as_str();
        assert_eq!((report["folds"].as_str(), reason), (Some(folds), Some("features are past values")), "{options}");
    }
}

/// Returns √(G/(G−1) Σ Ψ²) of the sums Ψ of the influences of the rows over the values of a key.
fn clustered<K: Ord>(keys: &[K], influences: &[f64]) -> f64 {
    let mut sums = BTreeMap::<&K, f64>::new();
    keys.iter().zip(influences).for_each(|(key, influence)| *sums.entry(key).or_default() += influence);
    let count = sums.len() as f64;
    (count / (count - 1.0) * sums.values().map(|sum| sum * sum).sum::<f64>()).sqrt()
}

fn numbers(folder: &Path, file: &str, index: usize) -> Vec<f64> {
    column(folder, file, index).iter().map(|cell| cell.parse().unwrap()).collect()
}

fn assert_near(report: &Value, name: &str, expected: f64) {
    let got = report["standard_errors"][name].as_f64().unwrap();
    assert!((got / expected - 1.0).abs() < 1e-6, "{name}: {got} {expected}");
}

/// Splits the table, predicts the test rows, and returns the scores of the fit on them.
fn tested(at: &Path, fit: &str, spec: &str) -> Value {
    ok(at, &format!("convert t.csv --test {spec} --split train.csv,test.csv --json"));
    let report = ok(at, &format!("fit {fit} --test {spec} -o m --json"));
    let probabilities = if fit.starts_with("logistic") { "--probabilities" } else { "" };
    ok(at, &format!("predict m test.csv {probabilities} -o p.csv --json"));
    let scores = report["test_set"]["scores"].clone();
    assert_eq!(ok(at, "evaluate m t.csv --test same --json"), scores, "{spec}");
    scores
}

#[test]
fn the_standard_errors_of_a_regression_are_over_clusters() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_table(&at.join("t.csv"), |_| ());
    let line = "ridge t.csv --features a,b --target y --rank 3 --lambda 1e-3";
    for (spec, clusters, count) in [
        ("groups:20%:subject", "groups of subject", 5),
        ("last:15%:day", "blocks of consecutive day", 18),
        ("last:15%", "blocks of consecutive rows", 30),
    ] {
        let scores = tested(at, line, spec);
        assert_eq!(scores["error_clusters"], serde_json::json!({"clusters": clusters, "count": count}), "{spec}");
        let (truth, prediction) = (numbers(at, "test.csv", 6), numbers(at, "p.csv", 0));
        let n = truth.len() as f64;
        // 90 rows in 30 blocks; 18 days are fewer than 30 blocks
        let keys: Vec<String> = match spec {
            "last:15%" => (0..truth.len()).map(|i| (i / 3).to_string()).collect(),
            _ => column(at, "test.csv", if spec.starts_with("groups") { 1 } else { 2 }),
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / n;
        let clustered_mean = |values: &[f64]| {
            let influences: Vec<f64> = values.iter().map(|value| (value - mean(values)) / n).collect();
            clustered(&keys, &influences)
        };
        let errors: Vec<f64> = truth.iter().zip(&prediction).map(|(y, p)| y - p).collect();
        let squares: Vec<f64> = errors.iter().map(|error| error * error).collect();
        let absolute: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        assert_near(&scores, "mse", clustered_mean(&squares));
        assert_near(&scores, "rmse", clustered_mean(&squares) / 2.0 / mean(&squares).sqrt());
        assert_near(&scores, "mae", clustered_mean(&absolute));
        let variance = truth.iter().map(|y| (y - mean(&truth)).powi(2)).sum::<f64>() / n;
        let ratio = mean(&squares) / variance;
        let influence = |(y, square): (&f64, &f64)| (ratio * (y - mean(&truth)).powi(2) - square) / variance / n;
        let influences: Vec<f64> = truth.iter().zip(&squares).map(influence).collect();
        assert_near(&scores, "r2", clustered(&keys, &influences));
    }
    assert_eq!(tested(at, line, "20%")["error_clusters"], Value::Null);
    let (_, _, text) = kmill(at, &format!("fit {line} --test last:15%:a -o m"));
    assert!(!text.contains("error:"), "a column of fractions has no blocks: {text}");
}

#[test]
fn the_standard_errors_of_a_classification_are_over_clusters() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_table(&at.join("t.csv"), |cells| {
        if cells[5] == "rare" {
            cells[5] = "yes".to_string();
        }
    });
    let scores =
        tested(at, "logistic t.csv --features a,b --target label --rank 5 --lambda 1e-2", "groups:20%:subject");
    let keys = column(at, "test.csv", 1);
    let is_positive: Vec<bool> = column(at, "test.csv", 5).iter().map(|label| label == "yes").collect();
    let (predicted, probability) = (column(at, "p.csv", 0), numbers(at, "p.csv", 2));
    let n = keys.len() as f64;
    let clustered_mean = |values: Vec<f64>| {
        let mean = values.iter().sum::<f64>() / n;
        clustered(&keys, &values.iter().map(|value| (value - mean) / n).collect::<Vec<_>>())
    };
    let truths = || is_positive.iter().zip(&probability);
    let wrong =
        column(at, "test.csv", 5).into_iter().zip(predicted).map(|(truth, label)| f64::from(u8::from(truth != label)));
    assert_near(&scores, "error", clustered_mean(wrong.collect()));
    assert_near(
        &scores,
        "log_loss",
        clustered_mean(truths().map(|(y, p)| -(if *y { *p } else { 1.0 - p }).ln()).collect()),
    );
    assert_near(
        &scores,
        "brier",
        clustered_mean(truths().map(|(y, p)| (p - f64::from(u8::from(*y))).powi(2)).collect()),
    );
    // by all pairs of a positive and a negative row
    let wins = |a: f64, b: f64| {
        if a > b {
            1.0
        } else if a == b {
            0.5
        } else {
            0.0
        }
    };
    let of = |class: bool| truths().filter(move |(y, _)| **y == class).map(|(_, p)| *p).collect::<Vec<f64>>();
    let (positive, negative) = (of(true), of(false));
    let (p, q) = (positive.len() as f64, negative.len() as f64);
    let fraction = |(is_positive, score): (&bool, &f64)| match is_positive {
        true => negative.iter().map(|other| wins(*score, *other)).sum::<f64>() / q,
        false => positive.iter().map(|other| wins(*other, *score)).sum::<f64>() / p,
    };
    let area = positive.iter().map(|score| fraction((&true, score))).sum::<f64>() / p;
    let influence = |row: (&bool, &f64)| (fraction(row) - area) / if *row.0 { p } else { q };
    assert_near(&scores, "auc", clustered(&keys, &truths().map(influence).collect::<Vec<_>>()));
}
