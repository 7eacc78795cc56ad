//! Factors of the columns of sparse rows (`--metric linear`): the factors against a dense ridge
//! regression, and the models against models of rows that are multiplied by the factors.

use crate::run::{kmill, ok};
use crate::sparse::{ROWS, WIDTH, tables, text};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

const D: usize = WIDTH as usize;

/// Labels and dense rows of a file of sparse rows.
fn dense_rows(at: &Path, name: &str) -> (Vec<f64>, Vec<[f64; D]>) {
    let text = std::fs::read_to_string(at.join(name)).unwrap();
    let row = |line: &str| {
        let (label, entries) = line.split_once(' ').unwrap_or((line, ""));
        let mut row = [0.0; D];
        for (index, value) in entries.split_whitespace().map(|entry| entry.split_once(':').unwrap()) {
            row[index.parse::<usize>().unwrap() - 1] = value.parse().unwrap();
        }
        (label.parse::<f64>().unwrap(), row)
    };
    text.lines().map(row).unzip()
}

/// Writes rows as a file of sparse rows.
fn write_rows(at: &Path, name: &str, labels: &[f64], rows: &[[f64; D]]) {
    let mut text = String::new();
    for (label, row) in labels.iter().zip(rows) {
        write!(text, "{label}").unwrap();
        for (index, value) in row.iter().enumerate().filter(|(_, value)| **value != 0.0) {
            write!(text, " {}:{value:e}", index + 1).unwrap();
        }
        text.push('\n');
    }
    std::fs::write(at.join(name), text).unwrap();
}

/// Returns the factors that a model file stores.
fn factors(at: &Path, model: &str) -> Vec<f64> {
    let bytes = std::fs::read(at.join(model)).unwrap();
    let header_len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + header_len]).unwrap();
    let offset = |end: usize| header["encoding.factors"]["data_offsets"][end].as_u64().unwrap() as usize;
    let data = &bytes[8 + header_len + offset(0)..8 + header_len + offset(1)];
    data.chunks_exact(8).map(|number| f64::from_le_bytes(number.try_into().unwrap())).collect()
}

/// Solves a system with a positive definite matrix by Gaussian elimination.
fn solve(mut matrix: Vec<[f64; D]>, mut right: [f64; D]) -> [f64; D] {
    for k in 0..D {
        for i in k + 1..D {
            let ratio = matrix[i][k] / matrix[k][k];
            let pivot_row = matrix[k];
            matrix[i].iter_mut().zip(pivot_row).for_each(|(entry, pivot)| *entry -= ratio * pivot);
            right[i] -= ratio * right[k];
        }
    }
    for k in (0..D).rev() {
        let sum: f64 = (k + 1..D).map(|j| matrix[k][j] * right[j]).sum();
        right[k] = (right[k] - sum) / matrix[k][k];
    }
    right
}

/// Returns the factors by their definition, from dense matrices.
fn dense_factors(rows: &[[f64; D]], targets: &[Vec<f64>]) -> Vec<f64> {
    let n = rows.len() as f64;
    let mean = |column: &dyn Fn(usize) -> f64| (0..rows.len()).map(column).sum::<f64>() / n;
    let means: Vec<f64> = (0..D).map(|j| mean(&|i| rows[i][j])).collect();
    let squares: Vec<f64> = (0..D).map(|j| mean(&|i| rows[i][j].powi(2))).collect();
    let lambda = 1e-3 * squares.iter().sum::<f64>();
    let mut matrix = vec![[0.0; D]; D];
    for (j, matrix_row) in matrix.iter_mut().enumerate() {
        for (k, entry) in matrix_row.iter_mut().enumerate() {
            *entry = mean(&|i| (rows[i][j] - means[j]) * (rows[i][k] - means[k])) + if j == k { lambda } else { 0.0 };
        }
    }
    let mut norms = [0.0; D];
    for target in targets {
        let target_mean = mean(&|i| target[i]);
        let mut right = [0.0; D];
        for (j, right) in right.iter_mut().enumerate() {
            *right = mean(&|i| (rows[i][j] - means[j]) * (target[i] - target_mean));
        }
        norms.iter_mut().zip(solve(matrix.clone(), right)).for_each(|(norm, weight)| *norm += weight * weight);
    }
    let norms: Vec<f64> = norms.iter().map(|norm: &f64| norm.sqrt()).collect();
    let mean_norm = norms.iter().sum::<f64>() / D as f64;
    let factors: Vec<f64> = norms.iter().map(|norm| (norm / mean_norm).sqrt() + 0.3).collect();
    let scaled: f64 = factors.iter().zip(&squares).map(|(factor, square)| factor * factor * square).sum();
    factors.iter().map(|factor| factor * (squares.iter().sum::<f64>() / scaled).sqrt()).collect()
}

fn assert_near(ours: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(ours.len(), expected.len(), "{what}");
    for (j, (ours, expected)) in ours.iter().zip(expected).enumerate() {
        assert!((ours - expected).abs() <= tolerance * expected.abs().max(1e-3), "{what} {j}: {ours} and {expected}");
    }
}

fn predictions(at: &Path, model: &str, rows: &str) -> Vec<f64> {
    ok(at, &format!("predict {model} {rows} --width {WIDTH} -o p.csv -q"));
    let text = std::fs::read_to_string(at.join("p.csv")).unwrap();
    text.lines().skip(1).flat_map(|line| line.split(',').map(|value| value.parse::<f64>().unwrap())).collect()
}

fn times(rows: &[[f64; D]], factors: &[f64]) -> Vec<[f64; D]> {
    rows.iter().map(|row| std::array::from_fn(|j| row[j] * factors[j])).collect()
}

#[test]
fn factors_are_the_weights_of_a_dense_ridge_regression() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tables(at);
    let (labels, rows) = dense_rows(at, "a.svm");
    let code = |class: f64| labels.iter().map(|label| if *label == class { 1.0 } else { -1.0 }).collect::<Vec<f64>>();
    let base = format!("--width {WIDTH} --precision f64 --metric linear --kernel gaussian(sigma=2) --rank 60 -q");
    let blocks = "--ranks 30,60 --lambda 1e-4 --folds blocks:5 --json";
    ok(at, &format!("fit ridge a.svm --target y {base} --lambda 1e-6 -o number.safetensors"));
    ok(at, &format!("fit logistic a.svm --target y {base} --lambda 1e-4 -o classes.safetensors"));
    let report = ok(at, &format!("fit ridge a.svm --target y {base} {blocks} -o blocks.safetensors"));

    let from_classes = dense_factors(&rows, &[code(1.0), code(2.0), code(3.0)]);
    assert_near(
        &factors(at, "number.safetensors"),
        &dense_factors(&rows, std::slice::from_ref(&labels)),
        1e-5,
        "ridge",
    );
    assert_near(&factors(at, "classes.safetensors"), &from_classes, 1e-5, "logistic");
    // the last fold is held out from the factors, and is the only fold of the errors
    let trained = ROWS * 4 / 5;
    let without_fold = dense_factors(&rows[..trained], &[labels[..trained].to_vec()]);
    assert_near(&factors(at, "blocks.safetensors"), &without_fold, 1e-5, "without the last fold");
    let errors = report["warnings"].to_string();
    assert!(!errors.contains("the metric was learned from the rows of all folds"), "{errors}");
    let heaviest = report["metric"]["importance"][0][1].as_f64().unwrap();
    let squares: Vec<f64> = without_fold.iter().map(|factor| factor * factor).collect();
    let largest = squares.iter().fold(0.0, |largest: f64, square| largest.max(*square));
    assert!((heaviest - largest / squares.iter().sum::<f64>()).abs() < 1e-6, "{report}");
    assert_eq!(report["metric"]["source"], "linear");

    // the rows multiplied by the factors give the same model
    for (model, fit) in [("number", "ridge --lambda 1e-6"), ("classes", "logistic --lambda 1e-4")] {
        let factors = factors(at, &format!("{model}.safetensors"));
        write_rows(at, "scaled.svm", &labels, &times(&rows, &factors));
        let (new_labels, new_rows) = dense_rows(at, "b.svm");
        write_rows(at, "new.svm", &new_labels, &times(&new_rows, &factors));
        let options = base.replace("--metric linear", "--scale none --no-clip");
        ok(at, &format!("fit {fit} scaled.svm --target y {options} -o scaled.safetensors"));
        let own = predictions(at, &format!("{model}.safetensors"), "b.svm");
        assert_near(&own, &predictions(at, "scaled.safetensors", "new.svm"), 1e-6, model);
    }
}

#[test]
fn factors_multiply_the_factors_of_the_scaling_before_rows_are_normalised() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tables(at);
    let (labels, rows) = dense_rows(at, "a.svm");
    let unit = |rows: &[[f64; D]]| -> Vec<[f64; D]> {
        let norm = |row: &[f64; D]| row.iter().map(|value| value * value).sum::<f64>().sqrt();
        rows.iter().map(|row| row.map(|value| value / norm(row))).collect()
    };
    let idf: Vec<f64> = (0..D)
        .map(|j| 1.0 + ((1.0 + ROWS as f64) / (1.0 + rows.iter().filter(|row| row[j] != 0.0).count() as f64)).ln())
        .collect();
    let base = format!("--width {WIDTH} --precision f64 --kernel gaussian(sigma=0.7) --rank 60 --lambda 1e-6 -q");
    for (scale, scaled_rows, own_factors) in
        [("unit", unit(&rows), vec![1.0; D]), ("tf-idf", unit(&times(&rows, &idf)), idf.clone())]
    {
        ok(at, &format!("fit ridge a.svm --target y --scale {scale} --metric linear {base} -o m.safetensors"));
        let stored = factors(at, "m.safetensors");
        let learned: Vec<f64> = stored.iter().zip(&own_factors).map(|(stored, own)| stored / own).collect();
        assert_near(&learned, &dense_factors(&scaled_rows, std::slice::from_ref(&labels)), 1e-5, scale);
        write_rows(at, "scaled.svm", &labels, &times(&rows, &stored));
        let (new_labels, new_rows) = dense_rows(at, "b.svm");
        write_rows(at, "new.svm", &new_labels, &times(&new_rows, &stored));
        ok(at, &format!("fit ridge scaled.svm --target y --sparse --scale unit {base} -o scaled.safetensors"));
        let own = predictions(at, "m.safetensors", "b.svm");
        assert_near(&own, &predictions(at, "scaled.safetensors", "new.svm"), 1e-6, scale);
    }
}

#[test]
fn factors_do_not_depend_on_threads_memory_and_the_number_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // enough rows for several segments
    let rows = text(70_000, 3, 12);
    std::fs::write(at.join("all.svm"), &rows).unwrap();
    let lines: Vec<&str> = rows.lines().collect();
    std::fs::write(at.join("part1.svm"), lines[..30_001].join("\n") + "\n").unwrap();
    std::fs::write(at.join("part2.svm"), lines[30_001..].join("\n") + "\n").unwrap();
    let fit = "--target y --metric linear --kernel gaussian(sigma=2) --rank 10 --lambda 1e-4 --landmarks uniform -q";
    for (data, options, name) in [
        ("all.svm", "--threads 1", "one"),
        ("all.svm", "--threads 2 --memory 72MiB", "two"),
        ("part1.svm part2.svm", "--threads 2", "files"),
    ] {
        ok(at, &format!("fit ridge {data} {fit} {options} -o {name}.safetensors"));
    }
    let bytes = |name: &str| std::fs::read(at.join(format!("{name}.safetensors"))).unwrap();
    assert!(bytes("one") == bytes("two") && factors(at, "one.safetensors") == factors(at, "files.safetensors"));
    let (code, _, stderr) = kmill(at, &format!("fit ridge all.svm {fit} --memory 1MiB -o small.safetensors"));
    assert!(code == 1 && stderr.contains("--memory"), "{stderr}");
}

#[test]
fn a_metric_of_sparse_rows_warns_and_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tables(at);
    let fit = "--target y --metric linear --rank 30 --lambda 1e-4,1e-3";
    let report = ok(at, &format!("fit logistic a.svm {fit} -q --json -o m.safetensors"));
    assert!(report["warnings"].to_string().contains("the metric was learned from the rows of all folds"), "{report}");
    // entries of columns that the fit has not seen
    std::fs::write(at.join("wide.svm"), "1 1:1 60:1 90:2\n2 90:1\n").unwrap();
    ok(at, "evaluate m.safetensors wide.svm --json");
    let plan = ok(at, &format!("plan logistic a.svm {fit} --json"));
    assert!(plan.to_string().contains("linear metric"), "{plan}");
    let constant: String = text(ROWS, 1, 12)
        .lines()
        .map(|line| format!("5 {}\n", line.split_once(' ').map_or("", |(_, entries)| entries)))
        .collect();
    std::fs::write(at.join("constant.svm"), constant).unwrap();
    let fit_constant = "fit ridge constant.svm --target y --metric linear --rank 5 --lambda 1e-3 --json -q";
    let report = ok(at, &format!("{fit_constant} -o constant.safetensors"));
    assert!(report["warnings"].to_string().contains("explains nothing of the target"), "{report}");
    assert_eq!(factors(at, "constant.safetensors"), vec![1.0; D]);

    std::fs::write(at.join("dense.csv"), "a,b,y\n1,2,3\n2,1,4\n3,3,1\n4,1,0\n").unwrap();
    for (line, part) in [
        ("fit ridge dense.csv --target y --metric linear -o d.safetensors", "these rows are dense; use diagonal"),
        ("fit ridge a.svm --sparse --target y --metric linaer -o d.safetensors", "likelihood, linear, or a file"),
        ("fit ridge a.svm --target y --metric linear --scale standard -o d.safetensors", "fill the zeros"),
        ("fit ridge a.svm --target z --metric linear -o d.safetensors", "z"),
        ("fit kpca a.svm --features x --sparse --metric linear -o d.safetensors", "this solver has none"),
        ("tune ridge a.svm --target y --sparse --metric linear -o d.safetensors", "learns no metric of this form"),
        ("prepare ridge a.svm --target y --sparse --metric linear -o job", "a prepared job does not support it"),
        ("fit ridge a.svm --target y --sparse --metric m.safetensors -o d.safetensors", "use linear"),
    ] {
        let (code, _, stderr) = kmill(at, line);
        assert!(code > 0 && stderr.contains(part), "{line}: {code} {stderr}");
    }
}

#[test]
fn words_of_a_text_have_factors() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut csv = "comment,y\n".to_string();
    for row in 0..300 {
        let (word, other) = (["good", "bad"][row % 2], ["red", "blue", "green"][row % 3]);
        writeln!(csv, "it is {word} and {other} number{},{}", row % 7, row % 2).unwrap();
    }
    std::fs::write(at.join("texts.csv"), csv).unwrap();
    let report = ok(
        at,
        "fit logistic texts.csv --target y --text comment --metric linear --rank 20 --lambda 1e-4 -q --json -o t.safetensors",
    );
    let names: Vec<&str> = report["metric"]["importance"]
        .as_array()
        .unwrap()
        .iter()
        .take(2)
        .map(|pair| pair[0].as_str().unwrap())
        .collect();
    assert!(names.contains(&"comment:good") && names.contains(&"comment:bad"), "{names:?}");
    assert_eq!(ok(at, "evaluate t.safetensors texts.csv --json")["error"], 0.0);
}
