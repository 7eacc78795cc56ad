//! `predict`, `evaluate` and `inspect` on a hand-made model, f(x) = 2·k(x, z) + 1.

use faer::Mat;
use kmodel::model::{Basis, BasisTransform};
use ksolve::{Model, ModelMetadata, Task};
use kstore::sink::{self, OutputColumn, OutputKind, OutputValues};
use kstore::{Label, Scaler};
use std::path::Path;
use std::process::Command;

fn card(targets: &[&str], classes: Vec<Label>) -> ModelMetadata {
    ModelMetadata {
        task: if classes.is_empty() { Task::Regression } else { Task::Classification },
        solver: "ridge".to_string(),
        kernel: "gaussian(sigma=1)".to_string(),
        second_view: None,
        leaf_kernel: None,
        members: Vec::new(),
        precision: "f64".to_string(),
        map: "nystrom".to_string(),
        rank: 1,
        lambda: Some(1e-6),
        intercept: ksolve::Intercept::Free,
        encoding: None,
        text_reading: kstore::TextReadOptions::default(),
        features: vec!["a".to_string(), "b".to_string()],
        targets: targets.iter().map(ToString::to_string).collect(),
        classes,
        link: None,
        loss: None,
        one_vs_one: false,
        certificate: None,
        rows: 10,
        online_rows: 0,
        growth: None,
        seed: 0,
        landmarks: Some("uniform".to_string()),
        asinh: false,
        ranges: Vec::new(),
        clusters: Vec::new(),
        cluster_axes: Vec::new(),
        distributions: Vec::new(),
        options: serde_json::json!({"scale": "standard"}),
    }
}

fn save(path: &Path, card: ModelMetadata, weights: &[f64], intercept: &[f64]) {
    let model = Model::<f64> {
        metadata: card,
        basis: Basis::Landmarks { points: vec![0.0, 0.0], row_numbers: vec![0] },
        transform: BasisTransform::default(),
        coefficients: Mat::from_fn(1, weights.len(), |_, j| weights[j]),
        intercept: intercept.to_vec(),
        scaler: Scaler { centre: vec![1.0, 2.0], scale: vec![2.0, 1.0], mean: vec![1.0, 2.0], ..Scaler::default() },
        metric: None,
        quadratic: None,
        components: None,
        leaves: None,
        intervals: None,
    };
    model.save(path).unwrap();
}

/// Writes a table with columns b, a (not in the model's order) and an optional target.
fn write(path: &Path, rows: usize, target: Option<(&str, &dyn Fn(f64) -> f64)>) {
    let b: Vec<f64> = (0..rows).map(|i| 2.0 + (i % 7) as f64 / 7.0).collect();
    let a: Vec<f64> = (0..rows).map(|i| 1.0 + (i % 11) as f64 / 3.0).collect();
    let y: Vec<f64> = a.iter().zip(&b).map(|(a, b)| target.map_or(0.0, |(_, y)| y(f(*a, *b)))).collect();
    let mut columns = vec![OutputColumn::new("b", OutputKind::F64), OutputColumn::new("a", OutputKind::F64)];
    let mut batch = vec![OutputValues::F64(&b), OutputValues::F64(&a)];
    if let Some((name, _)) = target {
        columns.push(OutputColumn::new(name, OutputKind::F64));
        batch.push(OutputValues::F64(&y));
    }
    let mut out = sink::create(path, &columns).unwrap();
    out.write(&batch).unwrap();
    out.finish().unwrap();
}

/// Computes the model's value at (a, b) from the formula.
fn f(a: f64, b: f64) -> f64 {
    let (u, v) = ((a - 1.0) / 2.0, b - 2.0);
    2.0 * (-(u * u + v * v) / 2.0).exp() + 1.0
}

fn kmill(folder: &Path, line: &str) -> (i32, serde_json::Value, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_kmill")).current_dir(folder).args(line.split_whitespace()).output().unwrap();
    let json = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code().unwrap(), json, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_regression_predicts_by_name_and_scores_itself_as_perfect() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    save(&at.join("m"), card(&["y"], Vec::new()), &[2.0], &[1.0]);
    // more rows than a segment, so that several lanes have to keep the order
    write(&at.join("t.parquet"), 70_000, Some(("y", &|value| value)));
    let (code, report, stderr) = kmill(at, "evaluate m t.parquet --json --threads 2");
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(report["rows"], 70_000);
    assert!(report["mse"].as_f64().unwrap() < 1e-28 && report["r2"].as_f64().unwrap() > 0.999_999, "{report}");

    // no target column is needed to predict
    write(&at.join("new.parquet"), 70_000, None);
    for out in ["one.npy --threads 1", "two.npy --threads 2", "three.npy --memory 64MiB"] {
        assert_eq!(kmill(at, &format!("predict m new.parquet --quiet -o {out}")).0, 0);
    }
    let read = |name: &str| std::fs::read(at.join(name)).unwrap();
    assert!(read("one.npy") == read("two.npy") && read("one.npy") == read("three.npy"));
    let values = read("one.npy");
    let value = |row: usize| f64::from_le_bytes(values[128 + 8 * row..136 + 8 * row].try_into().unwrap());
    for row in [0, 1, 12, 65_535, 65_536, 69_999] {
        let expected = f(1.0 + (row % 11) as f64 / 3.0, 2.0 + (row % 7) as f64 / 7.0);
        assert!((value(row) - expected).abs() < 1e-14, "row {row}: {} for {expected}", value(row));
    }
}

#[test]
fn classes_come_back_as_they_were_and_unknown_ones_are_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // the score is f − 2: positive (class 7) near the landmark
    save(&at.join("m"), card(&["y"], vec![Label::Int(3), Label::Int(7)]), &[2.0], &[-1.0]);
    write(&at.join("t.parquet"), 1000, Some(("y", &|value| if value > 2.0 { 7.0 } else { 3.0 })));
    let (code, report, stderr) = kmill(at, "evaluate m t.parquet --json");
    assert_eq!(code, 0, "{stderr}");
    assert_eq!((&report["accuracy"], &report["auc"]), (&1.0.into(), &1.0.into()), "{report}");
    assert_eq!(report["classes"], serde_json::json!([3, 7]));
    let counts = &report["confusion"];
    assert_eq!(counts[0][0].as_u64().unwrap() + counts[1][1].as_u64().unwrap(), 1000);

    assert_eq!(kmill(at, "predict m t.parquet -o p.parquet").0, 0);
    let (_, columns, _) = kmill(at, "inspect p.parquet --json");
    assert_eq!(
        (&columns["columns"][0]["name"], &columns["columns"][0]["type"]),
        (&"prediction".into(), &"int64".into())
    );
    assert_eq!((&columns["columns"][0]["min"], &columns["columns"][0]["max"]), (&3.0.into(), &7.0.into()));

    write(&at.join("other.parquet"), 100, Some(("y", &|_| 5.0)));
    let (_, report, _) = kmill(at, "evaluate m other.parquet --json");
    assert_eq!((&report["accuracy"], &report["unknown"]), (&0.0.into(), &100.into()));
    // half of the rows have a class of the model, and their predictions are right
    write(&at.join("half.parquet"), 1000, Some(("y", &|value| if value > 2.0 { 7.0 } else { 5.0 })));
    let (_, report, _) = kmill(at, "evaluate m half.parquet --json");
    let unknown = report["unknown"].as_f64().unwrap();
    assert!(unknown > 0.0 && report["balanced_accuracy"] == 1.0, "{report}");
    assert!((report["error"].as_f64().unwrap() - unknown / 1000.0).abs() < 1e-12, "{report}");
    let command =
        Command::new(env!("CARGO_BIN_EXE_kmill")).current_dir(at).args(["evaluate", "m", "half.parquet"]).output();
    let text = String::from_utf8_lossy(&command.unwrap().stdout).into_owned();
    let counted = format!(
        "{unknown} of the rows have a class that the model does not know; error rate, accuracy, precision and f1 count"
    );
    assert!(text.contains(&counted), "{text}");
}

#[test]
fn a_table_without_the_models_columns_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    save(&at.join("m"), card(&["target"], Vec::new()), &[2.0], &[1.0]);
    write(&at.join("t.parquet"), 10, Some(("y", &|value| value)));
    let (code, _, stderr) = kmill(at, "evaluate m t.parquet");
    assert!(code == 1 && stderr.contains("\"target\""), "{stderr}");
    assert_eq!(kmill(at, "evaluate m t.parquet --target y").0, 0);
    let (code, _, stderr) = kmill(at, "predict t.parquet t.parquet -o p.npy");
    assert!(code == 1 && stderr.contains("not a kmill model"), "{stderr}");
    let (code, _, stderr) = kmill(at, "predict m nothing.parquet -o p.npy");
    assert!(code == 1 && stderr.contains("no such file"), "{stderr}");
    let (code, _, stderr) = kmill(at, "predict m t.parquet --memory 1MiB -o p.npy");
    assert!(code == 1 && stderr.contains("--memory"), "{stderr}");
    assert!(!at.join("p.npy").exists());
}

#[test]
fn a_model_is_inspected() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    save(&at.join("m.safetensors"), card(&["y"], Vec::new()), &[2.0], &[1.0]);
    let (code, report, _) = kmill(at, "inspect m.safetensors --json");
    assert_eq!((code, &report["rank"], &report["kernel"]), (0, &1.into(), &"gaussian(sigma=1)".into()));
    assert_eq!(report["features"], serde_json::json!(["a", "b"]));
}
