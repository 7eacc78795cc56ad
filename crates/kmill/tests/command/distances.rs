//! `coordinates` of distances that are not Euclidean, and of distances to landmarks.

use crate::features::csv;
use crate::run::{kmill, ok};
use std::path::Path;
use std::process::Command;

/// Writes rows of distances to the first `columns` of `n` places along a cycle, with their indices.
fn write_cycle(path: &Path, rows: std::ops::Range<usize>, columns: usize, n: usize) {
    let names: String = (0..columns).map(|j| format!("d{j},")).collect();
    let along = |i: usize, j: usize| (i * 7 % n).abs_diff(j * 7 % n);
    let line = |i: usize| {
        let cells: String = (0..columns).map(|j| format!("{},", along(i, j).min(n - along(i, j)))).collect();
        format!("{cells}{i}\n")
    };
    std::fs::write(path, format!("{names}id\n{}", rows.map(line).collect::<String>())).unwrap();
}

#[test]
fn the_report_says_that_distances_are_not_euclidean() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_cycle(&at.join("d.csv"), 0..45, 45, 45);
    let report = ok(at, "coordinates d.csv --features d* --rank 4 -o p.csv --model map --keep id --json");
    assert!(report["euclidean"] == false && report["coordinates"] == 4, "{report}");
    let spectrum = &report["spectrum"];
    let number = |name: &str| spectrum[name].as_f64().unwrap();
    let fraction = number("positive_sum") / (number("positive_sum") + number("negative_sum"));
    assert!((number("positive_fraction") - fraction).abs() < 1e-12 && (0.5..0.99).contains(&fraction), "{spectrum}");
    assert_eq!(spectrum["positive_count"].as_u64().unwrap() + spectrum["negative_count"].as_u64().unwrap(), 44);
    let line = "coordinates d.csv --features d* --rank 4 -o p.csv --keep id";
    let output =
        Command::new(env!("CARGO_BIN_EXE_kmill")).current_dir(at).args(line.split_whitespace()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    for part in ["not Euclidean; the coordinates are those of the positive part", "negative part", "smallest -"] {
        assert!(text.contains(part), "{text}");
    }
    // the model computes the same coordinates, to the last bit, and says what it is
    ok(at, "predict map d.csv --rows 10..20 -o again.csv -q");
    let ((_, places), (_, again)) = (csv(&at.join("p.csv")), csv(&at.join("again.csv")));
    assert!(again.iter().zip(&places[10..]).all(|(again, place)| again[..] == place[1..]));
    assert_eq!(ok(at, "inspect map --json")["map"], "classical scaling");
    let (code, _, stderr) = kmill(at, "export map -o m.onnx");
    assert!(code == 1 && stderr.contains("use predict"), "{stderr}");
    let (code, _, stderr) = kmill(at, "predict map d.csv --residual -o r.csv");
    assert!(code == 1 && stderr.contains("only the features of a projection"), "{stderr}");
}

#[test]
fn distances_to_landmarks_are_read_in_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_cycle(&at.join("to.csv"), 0..900, 30, 900);
    write_cycle(&at.join("among.csv"), 0..30, 30, 900);
    ok(at, "convert to.csv -o to.parquet -q");
    let line = "coordinates to.csv --features d* --landmarks among.csv --keep id";
    let report = ok(at, &format!("{line} -o p.csv --model map --json"));
    assert!(report["objects"] == 900 && report["landmarks"] == 30 && report["pivots"] == serde_json::json!([]));
    let expected = std::fs::read(at.join("p.csv")).unwrap();
    for variant in [
        "coordinates to.csv --features d* --landmarks ..30 --keep id --threads 1",
        "coordinates to.csv --features d* --landmarks ./among.csv --keep id --threads 3 --memory 60MiB",
        "coordinates to.parquet --features d* --landmarks among.csv --keep id",
    ] {
        ok(at, &format!("{variant} -o q.csv -q"));
        assert!(expected == std::fs::read(at.join("q.csv")).unwrap(), "{variant}");
    }
    ok(at, "predict map to.parquet --keep id -o again.csv -q");
    assert!(expected == std::fs::read(at.join("again.csv")).unwrap());
}

#[test]
fn invalid_distances_are_rejected_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let write = |name: &str, text: &str| std::fs::write(at.join(name), text).unwrap();
    write("to.csv", "a,b,c\n0,1,2\n1,0,1\n2,1,0\n3,2,1\n4,-3,2\n");
    write("good.csv", "c,a,b,label\n2,0,1,0\n1,1,0,0\n0,2,1,0\n");
    write("asymmetric.csv", "a,b,c\n0,1,2\n1.5,0,1\n2,1,0\n");
    write("negative.csv", "a,b,c\n0,-1,2\n-1,0,1\n2,1,0\n");
    write("diagonal.csv", "a,b,c\n1,0,2\n0,1,1\n2,1,0\n");
    write("short.csv", "a,b,c\n0,1,2\n1,0,1\n");
    write("other.csv", "a,b,z\n0,1,2\n1,0,1\n2,1,0\n");
    write("huge.csv", "a,b,c\n0,1e200,2\n1e200,0,1\n2,1,0\n");
    write("zero.csv", "a,b,c\n0,0,0\n0,0,0\n0,0,0\n");
    // columns are matched by name
    ok(at, "coordinates to.csv --rows ..4 --landmarks good.csv -o p.csv -q");
    let (_, places) = csv(&at.join("p.csv"));
    let apart: Vec<f64> = (0..3).map(|i| (places[i + 1][0] - places[i][0]).abs()).collect();
    assert!(apart.iter().all(|distance| (distance - 1.0).abs() < 1e-12), "{places:?}");
    for (landmarks, why) in [
        ("asymmetric.csv", "row 1 has 1.5 for object 0, but row 0 has 1 for object 1; expected a symmetric matrix"),
        ("negative.csv", "row 0 has -1 for object 1, but distances are at least 0"),
        ("diagonal.csv", "the distance of an object from itself is 0; put the rows in the order of the columns"),
        ("short.csv", "3 columns and 2 rows, but must be square; pass a row of distances"),
        ("..2", "3 columns and 2 rows, but must be square"),
        ("other.csv", "c"),
        ("huge.csv", "too large; divide all numbers by a constant"),
        ("zero.csv", "all distances are 0"),
        ("missing.csv", "missing.csv"),
    ] {
        let (code, _, stderr) = kmill(at, &format!("coordinates to.csv --rows ..4 --landmarks {landmarks} -o q.csv"));
        assert!(code == 1 && stderr.contains(why) && !at.join("q.csv").exists(), "{landmarks}: {stderr}");
    }
    for (line, why) in [
        (
            "coordinates to.csv --landmarks good.csv -o q.csv",
            "row 4 (counted from 0) of to.csv: a distance is negative",
        ),
        ("coordinates to.csv -o q.csv", "for distances to a few objects only, use --landmarks"),
        ("coordinates to.csv --landmarks good.csv -o good.csv", "good.csv"),
        ("coordinates asymmetric.csv -o q.csv", "expected a symmetric matrix"),
        ("coordinates diagonal.csv -o q.csv", "from itself is 0"),
    ] {
        let (code, _, stderr) = kmill(at, line);
        assert!(code != 0 && stderr.contains(why) && !at.join("q.csv").exists(), "{line}: {stderr}");
    }
}
