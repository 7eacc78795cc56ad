//! `kmill test` and `fit mean`.

use crate::run::{kmill, ok};
use std::path::Path;

fn refused(folder: &Path, line: &str, code: i32, message: &str) {
    let (got, _, stderr) = kmill(folder, line);
    assert!(got == code && stderr.contains(message), "{line}: exit {got}, {stderr}");
}

fn p(report: &serde_json::Value, name: &str) -> f64 {
    report["p_values"][name].as_f64().unwrap_or_else(|| panic!("no p-value {name}: {report}"))
}

#[test]
fn two_samples_from_two_tables_or_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 3000 -o a.parquet -q");
    ok(at, "generate friedman1 --rows 2000 --seed 1 -o b.parquet -q");
    let same = ok(at, "test mmd a.parquet b.parquet --rank 100 --permutations 200 --json");
    assert_eq!((&same["rows"][0], &same["rows"][1], &same["ranks"][0]), (&3000.into(), &2000.into(), &100.into()));
    assert!(["permutation", "spectrum", "gamma"].iter().all(|name| p(&same, name) > 0.01), "{same}");
    assert!(same["biased"].as_f64().unwrap() > same["unbiased"].as_f64().unwrap(), "{same}");
    // y, one of the columns, depends on x0
    let apart = ok(at, "test mmd a.parquet --by x0>=0.5 --features y --rank 100 --permutations 200 --json");
    assert!(p(&apart, "permutation") < 0.01 && p(&apart, "spectrum") < 1e-6, "{apart}");
    assert_eq!(apart["rows"][0].as_u64().unwrap() + apart["rows"][1].as_u64().unwrap(), 3000);
    // file formats and threads change nothing
    ok(at, "convert a.parquet -o a.csv -q");
    let again = ok(at, "test mmd a.csv b.parquet --rank 100 --permutations 200 --threads 1 --json");
    assert_eq!((&same["biased"], &same["p_values"]), (&again["biased"], &again["p_values"]));
    let exact =
        ok(at, "test mmd a.parquet b.parquet --rows ..500 --map exact --permutations 50 --precision f64 --json");
    assert!(exact["p_values"]["spectrum"].is_null() && p(&exact, "permutation") > 0.01, "{exact}");
    refused(at, "test mmd a.parquet", 1, "two tables");
    refused(at, "test mmd a.parquet b.parquet --with y", 1, "omit it, or use hsic");
    refused(at, "test mmd a.parquet --by x0>0.5 --where x1>0.5", 2, "cannot be used with");
    refused(at, "test mdm a.parquet b.parquet", 2, "mmd");
    refused(at, "test mmd a.parquet --by x0>7", 1, "at least 2 rows");
    refused(at, "test mmd a.parquet b.parquet --memory 30MiB", 1, "memory");
}

#[test]
fn dependence_of_columns() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 2000 -o t.parquet -q");
    let found = ok(at, "test hsic t.parquet --features x0,x1 --with y --rank 60 --permutations 100 --json");
    assert!(p(&found, "permutation") < 0.01 && p(&found, "gamma") < 1e-6, "{found}");
    assert!(found["alignment"].as_f64().unwrap() > 0.01 && found["certificate"].is_null(), "{found}");
    assert_eq!(found["columns"], serde_json::json!([["x0", "x1"], ["y"]]));
    let kernels = found["kernels"].as_array().unwrap();
    assert!(kernels[0].as_str().unwrap().contains("on=[x0, x1]"), "{found}");
    // y is independent of the last five features
    let none = ok(at, "test hsic t.parquet --features x5,x6,x7,x8,x9 --with y --rank 60 --permutations 100 --json");
    assert!(["permutation", "spectrum", "gamma"].iter().all(|name| p(&none, name) > 0.01), "{none}");
    let limits = ok(at, "test hsic t.parquet --with y --with-kernel linear() --permutations 0 --rank 60 --json");
    assert!(limits["p_values"]["permutation"].is_null() && p(&limits, "spectrum") < 1e-6, "{limits}");
    assert_eq!(limits["columns"][0].as_array().unwrap().len(), 10);
    refused(at, "test hsic t.parquet", 2, "--with y");
    refused(at, "test hsic t.parquet --with y --by x0>0.5", 1, "one sample");
    refused(at, "test hsic t.parquet --with y --map exact", 1, "needs a feature map");
    refused(at, "test hsic t.parquet --with z", 1, "\"z\"");
    refused(at, "test hsic t.parquet --with-kernel linear()", 2, "--with");
}

#[test]
fn herded_rows_stand_for_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate blobs --rows 3000 -o t.parquet -q");
    let herd = ok(at, "herd t.parquet --features x* --where y!=2 --count 40 --rank 100 -o few.parquet --json");
    let rows: Vec<u64> = herd["rows"].as_array().unwrap().iter().map(|row| row.as_u64().unwrap()).collect();
    let distances = herd["squared_distances"].as_array().unwrap();
    let random = herd["variance"].as_f64().unwrap() / 40.0;
    assert!(distances[39].as_f64().unwrap() < random / 5.0, "{herd}");
    // the herded rows are the rows with these indices, and can be landmarks
    ok(at, "convert few.parquet -o few.csv -q");
    ok(at, "convert t.parquet -o t.csv -q");
    let lines = |name: &str| -> Vec<Vec<String>> {
        let text = std::fs::read_to_string(at.join(name)).unwrap();
        text.lines().skip(1).map(|line| line.split(',').map(str::to_string).collect()).collect()
    };
    let (few, all) = (lines("few.csv"), lines("t.csv"));
    assert_eq!(few.len(), 40);
    for (line, row) in few.iter().zip(&rows) {
        assert_eq!(line[0], row.to_string());
        let value = |text: &String| text.parse::<f32>().unwrap();
        assert_eq!(value(&line[1]), value(&all[*row as usize][0]), "row {row}");
    }
    let same = ok(at, "herd t.csv --features x* --where y!=2 --count 40 --rank 100 --threads 1 -o few.npy --json");
    assert_eq!(same["rows"], herd["rows"]);
    ok(at, "fit kpca t.parquet --features x* --landmarks few.parquet -o m --json");
    refused(at, "herd few.parquet --count 3 -o other.csv", 1, "exclude the column");
    refused(at, "herd t.parquet --count 4000 -o other.csv", 1, "at least 4000 rows");
    refused(at, "herd t.parquet -o other.csv", 2, "--count");
}

#[test]
fn the_mean_embedding_scores_novelty() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate blobs --rows 4000 -o t.parquet -q");
    let fit = ok(at, "fit mean t.parquet --features x* --rank 100 --nu 0.1 --precision f64 -o m --json");
    let figure = |name: &str| {
        let figures = fit["figures"].as_array().unwrap();
        figures.iter().find(|figure| figure["name"] == name).unwrap()["values"][0].as_f64().unwrap()
    };
    // the kernel has k(x, x) = 1
    let unit = figure("squared norm of the mean") + figure("variance");
    assert!((unit - 1.0).abs() < 1e-6, "{fit}");
    ok(at, "predict m t.parquet -o scores.csv --json");
    let text = std::fs::read_to_string(at.join("scores.csv")).unwrap();
    assert!(text.starts_with("score,squared_distance\n"), "{text:.80}");
    let rows: Vec<Vec<f64>> =
        text.lines().skip(1).map(|line| line.split(',').map(|v| v.parse().unwrap()).collect()).collect();
    let threshold = figure("threshold of the squared distance");
    assert!(rows.iter().all(|row| (row[0] + row[1] - threshold).abs() < 1e-12), "score and distance add up");
    let novel = rows.iter().filter(|row| row[0] < 0.0).count();
    // the row at the threshold may fall on either side due to rounding
    assert!((399..=401).contains(&novel), "{novel} of 4000 rows");
    refused(at, "fit mean t.parquet --C 1 -o refused", 1, "does not read it");
}

/// k(x, x) − 2 mean_i k(x, x_i) + mean K for varying k(x, x), with and without a projection.
#[test]
fn the_distance_to_the_mean_is_that_of_the_formula() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let train: Vec<[f64; 2]> = (0..60).map(|i| [20.0 + f64::from(i * 7 % 11), 15.0 + f64::from(i * 5 % 13)]).collect();
    let new = [[100.0, 100.0], [0.0, 0.0], [25.0, 21.0]];
    let csv = |rows: &[[f64; 2]]| rows.iter().fold("a,b\n".to_string(), |text, [a, b]| format!("{text}{a},{b}\n"));
    std::fs::write(at.join("t.csv"), csv(&train)).unwrap();
    std::fs::write(at.join("new.csv"), csv(&new)).unwrap();
    let k = |x: &[f64; 2], z: &[f64; 2]| (0.01 * (x[0] * z[0] + x[1] * z[1])).powi(2);
    let mean = |x: &[f64; 2]| train.iter().map(|z| k(x, z)).sum::<f64>() / 60.0;
    let all = train.iter().map(mean).sum::<f64>() / 60.0;
    for (map, loose) in [("nystrom", 1e-7), ("sketch", 0.2)] {
        let kernel = "polynomial(gamma=0.01,degree=2,c0=0)";
        let options = format!("--kernel {kernel} --map {map} --scale none --rank 60 --nu 0.1 --precision f64");
        ok(at, &format!("fit mean t.csv {options} -o m --json"));
        ok(at, "predict m new.csv -o scores.csv --json");
        let text = std::fs::read_to_string(at.join("scores.csv")).unwrap();
        for (line, x) in text.lines().skip(1).zip(&new) {
            let values: Vec<f64> = line.split(',').map(|value| value.parse().unwrap()).collect();
            let expected = k(x, x) - 2.0 * mean(x) + all;
            assert!((values[1] - expected).abs() <= loose * expected.max(1.0), "{map} {x:?}: {values:?}, {expected}");
        }
        let signs: Vec<bool> = text.lines().skip(1).map(|line| line.starts_with('-')).collect();
        assert_eq!(signs, [true, true, false], "{map}: {text}");
    }
}
