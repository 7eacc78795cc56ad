//! `kmill features`: the features of a map in a file, against the kernel matrix.

use crate::run::{kmill, ok};
use std::path::Path;

/// Column names and rows of numbers of a CSV file.
pub(crate) fn csv(path: &Path) -> (Vec<String>, Vec<Vec<f64>>) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let names = lines.next().unwrap().split(',').map(ToString::to_string).collect();
    let row = |line: &str| line.split(',').map(|cell| cell.parse().unwrap()).collect();
    (names, lines.map(row).collect())
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// exp(−‖x − z‖²/2).
fn gaussian(x: &[f64], z: &[f64]) -> f64 {
    (-x.iter().zip(z).map(|(a, b)| (a - b) * (a - b)).sum::<f64>() / 2.0).exp()
}

const LINE: &str = "features t.csv --features x* --scale none --kernel gaussian(sigma=1) --precision f64";

#[test]
fn inner_products_are_kernel_values_where_all_rows_are_landmarks() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 120 --precision f64 -o t.csv -q");
    let report = ok(at, &format!("{LINE} --rank 120 --landmarks uniform --keep y -o phi.csv --json"));
    assert!(report["rank"] == 120 && report["certificate"]["trace_error"].as_f64().unwrap() < 1e-12, "{report}");
    assert!(report["output"] == "phi.csv" && report.get("model").is_none(), "{report}");
    let ((names, phi), (_, x)) = (csv(&at.join("phi.csv")), csv(&at.join("t.csv")));
    assert_eq!((names[0].as_str(), names[1].as_str(), names.len()), ("y", "phi_0", 121));
    for i in 0..120 {
        assert_eq!(phi[i][0], x[i][10], "columns that are kept");
        for j in 0..=i {
            let (got, expected) = (dot(&phi[i][1..], &phi[j][1..]), gaussian(&x[i][..10], &x[j][..10]));
            assert!((got - expected).abs() < 1e-10, "{i}, {j}: {got} against {expected}");
        }
    }
}

#[test]
fn the_residual_is_what_the_landmarks_leave() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 150 --features 5 --precision f64 -o t.csv -q");
    ok(at, &format!("{LINE} --rank 20 --residual -o phi.csv --model map --json"));
    let ((names, phi), (_, x)) = (csv(&at.join("phi.csv")), csv(&at.join("t.csv")));
    assert_eq!((names[19].as_str(), names[20].as_str(), names.len()), ("phi_19", "residual", 21));
    // rows of residual 0 are the landmarks; taking each out of K leaves the Schur complement
    let landmarks: Vec<usize> = (0..150).filter(|i| phi[*i][20] < 1e-6).collect();
    assert_eq!(landmarks.len(), 20);
    let mut left: Vec<Vec<f64>> = x.iter().map(|a| x.iter().map(|b| gaussian(&a[..5], &b[..5])).collect()).collect();
    for p in landmarks {
        let (pivot, column) = (left[p][p], left[p].clone());
        for (row, factor) in left.iter_mut().zip(&column) {
            row.iter_mut().zip(&column).for_each(|(value, c)| *value -= factor * c / pivot);
        }
    }
    for (i, phi) in phi.iter().enumerate() {
        let (got, expected) = (phi[20].powi(2), left[i][i]);
        assert!((got - expected).abs() < 1e-10, "row {i}: {got} against {expected}");
        assert!((dot(&phi[..20], &phi[..20]) + expected - 1.0).abs() < 1e-10, "row {i}");
    }
    // new rows by the model, and the same rows again: the same bits
    ok(at, "predict map t.csv --residual -o again.csv --json");
    assert!(std::fs::read(at.join("phi.csv")).unwrap() == std::fs::read(at.join("again.csv")).unwrap());
    ok(at, "inspect map --json");
    let (code, _, stderr) = kmill(at, &format!("{LINE} --rank 20 --map fourier --residual -o refused.csv"));
    assert!(code != 0 && stderr.contains("no projection") && !at.join("refused.csv").exists(), "{stderr}");
    ok(at, &format!("{LINE} --rank 20 --map fourier -o random.npy --json"));
    let (code, _, stderr) = kmill(at, &format!("{LINE} --rank 20 --components 3 -o refused.csv"));
    assert!(code != 0 && stderr.contains("--components"), "{stderr}");
    let report = ok(at, &format!("{LINE} --tolerance 0.3 -o few.csv --json"));
    assert!(report["rank"].as_u64().unwrap() < 100 && report["certificate"]["trace_error"].as_f64().unwrap() <= 0.3);
}
