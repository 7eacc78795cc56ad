//! `features` and `coordinates`, compared with kernel matrices and distances; and `update`.

use crate::run::{kmill, ok};
use std::path::Path;

/// Reads column names and rows of numbers from a CSV file.
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
    // rows of residual 0 are the landmarks; eliminating each from K leaves the Schur complement
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
    // predicting the same rows with the model gives the same bits
    ok(at, "predict map t.csv --residual -o again.csv --json");
    assert!(std::fs::read(at.join("phi.csv")).unwrap() == std::fs::read(at.join("again.csv")).unwrap());
    ok(at, "inspect map --json");
    let (code, _, stderr) = kmill(at, &format!("{LINE} --rank 20 --map fourier --residual -o refused.csv"));
    assert!(code != 0 && stderr.contains("not a projection") && !at.join("refused.csv").exists(), "{stderr}");
    ok(at, &format!("{LINE} --rank 20 --map fourier -o random.npy --json"));
    let (code, _, stderr) = kmill(at, &format!("{LINE} --rank 20 --components 3 -o refused.csv"));
    assert!(code != 0 && stderr.contains("--components"), "{stderr}");
    let report = ok(at, &format!("{LINE} --tolerance 0.3 -o few.csv --json"));
    assert!(report["rank"].as_u64().unwrap() < 100 && report["certificate"]["trace_error"].as_f64().unwrap() <= 0.3);
}

/// Writes the distances between points in the plane, and a target y that is linear in the plane.
fn distances(at: &Path, n: usize) -> Vec<[f64; 2]> {
    let points: Vec<[f64; 2]> = (0..n).map(|i| [(i as f64 * 0.7).sin() * 3.0, (i * i % 17) as f64 / 4.0]).collect();
    let apart = |a: &[f64; 2], b: &[f64; 2]| (a[0] - b[0]).hypot(a[1] - b[1]);
    let names: String = (0..n).map(|j| format!("d{j},")).collect();
    let mut text = format!("{names}y\n");
    for a in &points {
        points.iter().for_each(|b| text += &format!("{},", apart(a, b)));
        text += &format!("{}\n", 2.0 * a[0] - a[1] + 5.0);
    }
    std::fs::write(at.join("d.csv"), text).unwrap();
    points
}

#[test]
fn coordinates_have_the_distances_of_the_objects() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let points = distances(at, 60);
    let report = ok(at, "coordinates d.csv --features d* --keep y -o places.csv --model map --json");
    assert!(report["coordinates"] == 2 && report["objects"] == 60, "{report}");
    assert!(report["trace_error"].as_f64().unwrap() < 1e-6, "{report}");
    let (names, places) = csv(&at.join("places.csv"));
    assert_eq!(names, ["y", "phi_0", "phi_1"]);
    for i in 0..60 {
        for j in 0..i {
            let got = (places[i][1] - places[j][1]).hypot(places[i][2] - places[j][2]);
            let expected = (points[i][0] - points[j][0]).hypot(points[i][1] - points[j][1]);
            assert!((got - expected).abs() < 1e-7, "{i}, {j}: {got} against {expected}");
        }
    }
    assert!(places.iter().map(|row| row[1]).sum::<f64>().abs() < 1e-7, "about their centre");
    // a linear fit on the coordinates recovers the target
    ok(at, "fit ridge places.csv --target y --kernel linear --scale none --lambda 1e-9 -o m.safetensors --json");
    let scores = ok(at, "evaluate m.safetensors places.csv --json");
    assert!(scores["r2"].as_f64().unwrap() > 0.999_999, "{scores}");
    // the model computes the coordinates of a row from its distances
    ok(at, "predict map d.csv --rows 50.. -o again.csv -q");
    let again = csv(&at.join("again.csv")).1;
    for (again, place) in again.iter().zip(&places[50..]) {
        again.iter().zip(&place[1..]).for_each(|(a, b)| assert!((a - b).abs() < 1e-9));
    }
    for (line, told) in [
        ("coordinates d.csv -o p.csv", "61 columns and 60 rows"),
        ("coordinates d.csv --features d* --rows ..30 -o p.csv", "60 columns and 30 rows"),
        ("coordinates d.csv --features d* --of kernel -o p.csv", "the diagonal is 0"),
        ("coordinates d.csv --features d* --tolerance 2 -o p.csv", "--tolerance"),
        ("coordinates d.csv --features d* --memory 1MiB -o p.csv", "memory"),
    ] {
        let (code, _, stderr) = kmill(at, line);
        assert!(code == 1 && stderr.contains(told), "{line}: {stderr}");
    }
}

#[test]
fn a_model_goes_on_learning() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 3000 --features 5 -o t.parquet -q");
    let fit = "fit ridge t.parquet --target y --rank 60 --precision f64 --landmarks uniform";
    ok(at, &format!("{fit} --rows ..1500 --std --lambda 1e-5 --folds none -o first --json"));
    let report = ok(at, "update first t.parquet --rows 1500.. -o next --json");
    assert!(report["rows"] == 1500 && report["rows_of_model"] == 3000, "{report}");
    let mse = |model: &str, rows: &str| {
        ok(at, &format!("evaluate {model} t.parquet --rows {rows} --json"))["mse"].as_f64().unwrap()
    };
    assert!(mse("next", "1500..") < mse("first", "1500.."));
    assert!((report["running_mse"].as_f64().unwrap() / mse("first", "1500..") - 1.0).abs() < 0.2, "{report}");
    // updated in place, in two parts: the same functions
    ok(at, "update first t.parquet --rows 1500..2000 -o part --json");
    ok(at, "update part t.parquet --rows 2000.. -o part --json");
    assert!((mse("part", "..") / mse("next", "..") - 1.0).abs() < 1e-6);
    let told = ok(at, "inspect part --json");
    assert_eq!(told["learned"], 1500, "{told}");
    ok(at, &format!("{fit} --rows ..1500 --lambda 1e-5 --folds none -o plain --json"));
    for (line, told) in [
        ("update plain t.parquet -o p", "--std"),
        ("update first t.parquet --forgetting 0 -o p", "forgetting"),
        ("update first t.parquet --target x0,x1 -o p", "target"),
        ("update first t.parquet -o t.parquet", "t.parquet"),
    ] {
        let (code, _, stderr) = kmill(at, line);
        assert!(code == 1 && stderr.contains(told), "{line}: {stderr}");
    }
}
