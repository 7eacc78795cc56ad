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
    // ten kernels in one test
    let line = "test mmd a.parquet --by x0>=0.5 --features y --aggregate --rank 20 --permutations 99 --json";
    let together = ok(at, line);
    let of = |name: &str| together[name].as_array().unwrap().len();
    assert_eq!((of("kernels"), of("kernel_p_values"), of("ranks")), (10, 10, 10));
    assert!(p(&together, "permutation") == 0.01 && together["p_values"]["spectrum"].is_null(), "{together}");
    let again = ok(at, &line.replace("a.parquet", "a.csv --threads 1"));
    assert_eq!(
        (&together["biased"], &together["kernel_p_values"], &together["p_values"]),
        (&again["biased"], &again["kernel_p_values"], &again["p_values"])
    );
    refused(at, "test mmd a.parquet b.parquet --aggregate --permutations 0", 1, "compared by permutations");
    refused(at, "test mmd a.parquet b.parquet --aggregate --map exact", 1, "need feature maps");
    refused(at, "test mmd a.parquet b.parquet --aggregate --kernel laplacian()", 2, "cannot be used with");
    refused(at, "test hsic a.parquet --features x0 --with y --aggregate", 1, "sets of columns");
    refused(at, "test mmd a.parquet", 1, "two tables");
    refused(at, "test mmd a.parquet b.parquet --with y", 1, "omit it, or use hsic");
    // --where selects the rows of both samples
    let part = ok(at, "test mmd a.parquet --by x0>0.5 --where x1>0.5 --rank 20 --permutations 9 --json");
    let part_rows = part["rows"][0].as_u64().unwrap() + part["rows"][1].as_u64().unwrap();
    assert!((1300..1700).contains(&part_rows), "{part}");
    refused(at, "test mmd a.parquet --by x0", 1, "a model is compared by groups of a column");
    refused(at, "test mmd a.parquet b.parquet -o w.csv", 1, "name a model of fit mean first");
    refused(at, "test mdm a.parquet b.parquet", 2, "mmd");
    refused(at, "test mmd a.parquet --by x0>7", 1, "at least 2 rows");
    refused(at, "test mmd a.parquet b.parquet --memory 30MiB", 1, "memory");
}

/// Writes rows of two numbers, a kind and a day; on the last of four days the first number is 2
/// more.
fn days(at: &Path, name: &str, first: usize, count: usize, last_shift: f64) {
    let row = |i: usize| {
        let (day, wave) = ((i - first) * 4 / count, |factor: f64| (i as f64 * factor).sin());
        let a = wave(1.3) + if day == 3 { last_shift } else { 0.0 };
        format!("{a},{},{},d{day}\n", wave(2.7), ["x", "y", "z"][i * 7 % 13 % 3])
    };
    let rows: String = (first..first + count).map(row).collect();
    std::fs::write(at.join(name), format!("a,b,kind,day\n{rows}")).unwrap();
}

#[test]
fn drift_names_the_columns_and_the_days_that_moved() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    days(at, "old.csv", 0, 600, 0.0);
    days(at, "new.csv", 5000, 400, 2.0);
    let two = ok(at, "test mmd old.csv new.csv --features a,b,kind --rank 60 --permutations 99 --report p.html --json");
    let columns = two["column_tests"].as_array().unwrap();
    assert_eq!((columns.len(), &columns[0]["column"]), (3, &"a".into()), "{two}");
    assert!(columns[0]["corrected_p_value"].as_f64().unwrap() < 1e-6, "{two}");
    assert!(columns[1..].iter().all(|column| column["corrected_p_value"].as_f64().unwrap() > 0.05), "{two}");
    assert!((0.55..0.8).contains(&two["auc"].as_f64().unwrap()), "{two}");
    let page = std::fs::read_to_string(at.join("p.html")).unwrap();
    assert!(page.contains("id=\"column-0\"") && page.contains("<h2>Columns</h2>"), "{page}");
    // rows with a missing value are counted
    std::fs::write(at.join("gaps.csv"), "a,b,kind,day\n0.5,,x,d0\n1,0.2,y,d0\n0.1,0.3,z,d1\n").unwrap();
    let gaps = ok(at, "test mmd old.csv gaps.csv --features a,b --missing drop --rank 20 --permutations 9 --json");
    assert_eq!((&gaps["dropped"], &gaps["rows"][1]), (&1.into(), &2.into()), "{gaps}");
    // a model of the old rows suffices
    ok(at, "fit mean old.csv --features a,b,kind --rank 60 -o m -q --json");
    let same = ok(at, "test mmd m old.csv --json");
    assert!(same["biased"].as_f64().unwrap() < 1e-7 && same["column_tests"][0]["p_value"] == 1.0, "{same}");
    assert!(same["column_tests"].as_array().unwrap().iter().all(|column| column["distance"] == 0.0), "{same}");
    let drift = ok(at, "test mmd m new.csv --by day -o w.csv --report d.html --json");
    assert!(p(&drift, "spectrum") < 1e-6 && drift["column_tests"][0]["column"] == "a", "{drift}");
    // the columns are tested like the columns of two tables
    for column in columns {
        let name = &column["column"];
        let found = drift["column_tests"].as_array().unwrap().iter().find(|other| other["column"] == *name).unwrap();
        let difference = |key: &str| column[key].as_f64().unwrap() - found[key].as_f64().unwrap();
        assert!((-1e-9..1.0 / 64.0).contains(&difference("distance")) && found["test"] == column["test"], "{found}");
        assert!(difference("p_value") < 1e-9 && found["level"] == column["level"], "{found} {column}");
        for side in 0..2 {
            let [a, b] = [column, found].map(|column| column["means"][side].as_f64().unwrap());
            assert!((a - b).abs() < 1e-9, "{found} {column}");
        }
        let [a, b] = [column, found].map(|column| column["difference"].as_f64().unwrap_or(0.0));
        assert!((a - b).abs() < 1e-9, "{found} {column}");
    }
    assert_eq!(drift["column_test_rows"], serde_json::json!([600, 400]));
    let fitted = ok(at, "inspect m --json");
    assert_eq!(drift["fit_certificate"]["trace_error"], fitted["certificate"]["trace_error"], "{drift}");
    let page = std::fs::read_to_string(at.join("d.html")).unwrap();
    assert!(page.contains("600 and 400 rows, 3 columns (5 features)"), "{page}");
    assert!(page.contains(" on the new rows, ") && page.contains(" on the training rows"), "{page}");
    assert_eq!(drift["warnings"], serde_json::json!([]), "{drift}");
    // rows far from all landmarks
    days(at, "far.csv", 5000, 400, 0.0);
    let far = std::fs::read_to_string(at.join("far.csv")).unwrap();
    let shifted =
        far.lines().enumerate().map(|(i, line)| if i > 0 { format!("9{line}\n") } else { format!("{line}\n") });
    std::fs::write(at.join("far.csv"), shifted.collect::<String>().replace("9-", "-9")).unwrap();
    let (code, _, notes) = kmill(at, "test mmd m far.csv");
    assert!(code == 0 && notes.contains("the landmarks miss"), "{notes}");
    assert!((0.2..0.5).contains(&drift["witness_difference"].as_f64().unwrap()), "{drift}");
    let groups = drift["groups"].as_array().unwrap();
    let p_values: Vec<f64> = groups.iter().map(|day| day["corrected_p_value"].as_f64().unwrap()).collect();
    assert!(p_values.len() == 4 && p_values[3] < 1e-6 && p_values[..3].iter().all(|p| *p > 0.05), "{drift}");
    let written = std::fs::read_to_string(at.join("w.csv")).unwrap();
    let scores: Vec<(&str, f64)> = written
        .lines()
        .skip(1)
        .map(|line| line.split_once(',').map(|(day, score)| (day, score.parse().unwrap())).unwrap())
        .collect();
    for (group, day) in groups.iter().zip(["d0", "d1", "d2", "d3"]) {
        let values: Vec<f64> = scores.iter().filter(|(label, _)| *label == day).map(|(_, score)| *score).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        assert!((mean - group["witness"].as_f64().unwrap()).abs() < 1e-6, "{day}: {mean} {group}");
    }
    assert!(std::fs::read_to_string(at.join("d.html")).unwrap().contains("id=\"witness\""));
    // times are grouped by day, as texts and as a column of times
    let new = std::fs::read_to_string(at.join("new.csv")).unwrap();
    let hour = |(i, line): (usize, &str)| match line.rsplit_once(",d").filter(|_| i > 0) {
        Some((values, day)) => {
            format!("{values},2024-01-0{}T{:02}:30:00\n", 1 + day.parse::<usize>().unwrap(), i % 24)
        }
        None => format!("{line}\n"),
    };
    std::fs::write(at.join("times.csv"), new.lines().enumerate().map(hour).collect::<String>()).unwrap();
    for types in ["", " --types day=date"] {
        let times = ok(at, &format!("test mmd m times.csv --by day{types} --json"));
        let names: Vec<&str> =
            times["groups"].as_array().unwrap().iter().map(|day| day["group"].as_str().unwrap()).collect();
        assert_eq!(names, ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"], "{types}");
        assert_eq!(times["groups"][3]["biased"], drift["groups"][3]["biased"]);
    }
    refused(at, "test mmd m new.csv --rank 20", 1, "the model determines");
    refused(at, "test mmd m new.csv --by day==d3", 1, "names the column of the groups");
    refused(at, "test mmd m", 1, "name a table after the model");
    ok(at, "fit kpca old.csv --features a,b --rank 20 -o k -q --json");
    refused(at, "test mmd k new.csv", 1, "fit mean on the old rows");
}

#[test]
fn a_model_sees_that_a_column_spreads_and_that_a_level_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let write = |name: &str, scale: f64, kinds: [&str; 3]| {
        let row = |i: usize| {
            let wave = |factor: f64| (i as f64 * factor).sin();
            format!("{},{},{}\n", scale * wave(1.3), wave(2.7), kinds[i % 3])
        };
        std::fs::write(at.join(name), format!("a,b,kind\n{}", (0..500).map(row).collect::<String>())).unwrap();
    };
    write("old.csv", 1.0, ["x", "y", "y"]);
    write("new.csv", 3.0, ["x", "y", "z"]);
    ok(at, "fit mean old.csv --rank 60 -o m -q --json");
    let test = ok(at, "test mmd m new.csv --json");
    let column = |name: &str| {
        let columns = test["column_tests"].as_array().unwrap();
        columns.iter().find(|column| column["column"] == name).unwrap().clone()
    };
    let number = |name: &str, key: &str| column(name)[key].as_f64().unwrap();
    assert!(number("a", "p_value") < 1e-6 && number("a", "difference").abs() < 0.02, "{test}");
    assert!(number("kind", "p_value") < 1e-6 && number("b", "p_value") > 0.99, "{test}");
    // a model of an earlier version
    let bytes = std::fs::read(at.join("m")).unwrap();
    let name = b"distributions";
    let start = bytes.windows(name.len()).position(|window| window == name).unwrap();
    let mut old = bytes;
    old[start..start + name.len()].copy_from_slice(b"distributionz");
    std::fs::write(at.join("o"), old).unwrap();
    let (code, test, told) = kmill(at, "test mmd o new.csv --json");
    assert!(
        code == 0 && told.contains("fit it again on the old rows") && test["column_tests"].is_null(),
        "{told} {test}"
    );
}

#[test]
fn the_distance_from_a_model_is_that_of_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    days(at, "old.csv", 0, 80, 0.0);
    ok(
        at,
        "fit mean old.csv --features a,b --scale none --kernel gaussian(sigma=0.7) --rank 80 --precision f64 -o m -q --json",
    );
    // the rows of the test are landmarks, so that the map is exact on them
    let part = ok(at, "test mmd m old.csv --rows ..25 --json");
    let text = std::fs::read_to_string(at.join("old.csv")).unwrap();
    let x: Vec<Vec<f64>> =
        text.lines().skip(1).map(|line| line.split(',').take(2).map(|v| v.parse().unwrap()).collect()).collect();
    let mean = |a: &[Vec<f64>], b: &[Vec<f64>]| {
        let k = |a: &[f64], b: &[f64]| (-((a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2)) / (2.0 * 0.49)).exp();
        let sum: f64 = a.iter().map(|a| b.iter().map(|b| k(a, b)).sum::<f64>()).sum();
        sum / (a.len() * b.len()) as f64
    };
    let expected = mean(&x, &x) + mean(&x[..25], &x[..25]) - 2.0 * mean(&x, &x[..25]);
    let found = part["biased"].as_f64().unwrap();
    assert!((found - expected).abs() < 1e-9, "{found} against {expected}");
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
fn dependence_of_columns_given_others() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // a and b have the common cause c; d follows a; kind is a function of c
    let wave = |i: usize, factor: f64| ((i as f64 * factor).sin() * 43_758.545).fract();
    let row = |i: usize| {
        let c = 2.0 * wave(i, 12.9898) + wave(i, 3.1);
        let (a, b) = (c + 0.7 * wave(i, 78.233), c * c + 0.7 * wave(i, 39.346));
        let d = a - c + 0.3 * wave(i, 11.135) + 0.5 * c;
        format!("{a},{b},{c},{d},{},1\n", if c > 0.0 { "up" } else { "down" })
    };
    std::fs::write(at.join("t.csv"), format!("a,b,c,d,kind,one\n{}", (0..1500).map(row).collect::<String>())).unwrap();
    let options = "--rank 60 --json";
    let marginal = ok(at, &format!("test hsic t.csv --features a --with b --permutations 0 {options}"));
    assert!(p(&marginal, "spectrum") < 1e-6 && marginal.get("correlation").is_none(), "{marginal}");
    let none = ok(at, &format!("test hsic t.csv --features a --with b --given c --where c<9 {options}"));
    assert!(["spectrum", "gamma"].iter().all(|name| p(&none, name) > 0.01), "{none}");
    assert!(none["p_values"]["permutation"].is_null() && none["permutations"] == 0, "{none}");
    assert_eq!(none["columns"], serde_json::json!([["a"], ["b"], ["c"]]));
    assert!(none["correlation"].as_f64().unwrap().abs() < 0.1, "{none}");
    let kernels = none["kernels"].as_array().unwrap();
    assert!(kernels.len() == 3 && kernels[0].as_str().unwrap().matches("gaussian").count() == 2, "{none}");
    assert!(kernels[2].as_str().unwrap().starts_with("matern(nu=1.5"), "{none}");
    // the condition may be a category
    let linked = ok(at, &format!("test hsic t.csv --features a --with d --given c,kind --report p.html {options}"));
    assert!(p(&linked, "spectrum") < 1e-6 && linked["correlation"].as_f64().unwrap() > 0.3, "{linked}");
    assert_eq!(linked["columns"][2], serde_json::json!(["c", "kind=down", "kind=up"]));
    let page = std::fs::read_to_string(at.join("p.html")).unwrap();
    assert!(page.contains("given 3") && page.contains("residuals") && page.contains("correlation"), "{page}");
    // formats, threads and memory change nothing
    ok(at, "convert t.csv -o t.parquet -q");
    let again = ok(
        at,
        &format!("test hsic t.parquet --features a --with d --given c,kind --threads 1 --memory 100MiB {options}"),
    );
    assert_eq!((&again["biased"], &again["p_values"]), (&linked["biased"], &linked["p_values"]));
    let few = ok(
        at,
        "test hsic t.csv --features a --with d --given c --given-rank 20 --given-lambda 0.01 --components 3 --rank 40 --json",
    );
    assert_eq!((&few["ranks"][0], &few["ranks"][2]), (&40.into(), &20.into()), "{few}");
    assert_eq!((&few["components"][0], &few["lambdas"][0]), (&3.into(), &0.01.into()), "{few}");
    // a category of --with is not a column of --features
    let category = ok(at, &format!("test hsic t.csv --features a --with kind --categories kind {options}"));
    assert_eq!(category["columns"], serde_json::json!([["a"], ["kind=down", "kind=up"]]));
    // by default the first columns are all others
    let rest = ok(at, &format!("test hsic t.csv --with d --given c {options}"));
    assert_eq!(rest["columns"][0].as_array().unwrap().len(), 5, "{rest}");
    refused(at, "test hsic t.csv --features a,c --with b --given c", 1, "the column is also in --features");
    refused(at, "test hsic t.csv --features a --with b,c --given c", 1, "the column is also in --with");
    refused(at, "test hsic t.csv --features a --with b --given z", 1, "\"z\"");
    refused(at, "test hsic t.csv --features a --with b --given one", 1, "constant in feature space");
    refused(at, "test hsic t.csv --features a --with one --given c", 1, "constant in feature space");
    refused(at, "test hsic t.csv --features a --with b --given c --permutations 9", 1, "omit it");
    refused(at, "test hsic t.csv --features a --with b --given c --given-lambda 0", 2, "positive");
    refused(at, "test hsic t.csv --features a --with b --components 3", 2, "--given");
    refused(at, "test mmd t.csv --by c>0 --given c", 1, "or use hsic");
    refused(at, "test mmd t.csv t.csv --given c", 1, "or use hsic");
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

/// Returns the largest difference of the distribution functions of two samples, by its definition.
fn kolmogorov_distance(first: &[f64], second: &[f64]) -> f64 {
    let below = |values: &[f64], at: f64| values.iter().filter(|v| **v <= at).count() as f64 / values.len() as f64;
    first.iter().chain(second).map(|at| (below(first, *at) - below(second, *at)).abs()).fold(0.0, f64::max)
}

/// The rows on which a column is tested do not depend on the width of the other columns, and all
/// rows of a small table are tested.
#[test]
fn a_column_is_tested_alike_whatever_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let shifted = |i: usize| (i as f64 * 1.3).sin() + if i.is_multiple_of(2) { 0.05 } else { 0.0 };
    let rows: String = (0..6000)
        .map(|i| {
            let kind = if i % 2 == 0 && i % 60 == 0 { "b" } else { ["a", "b"][i * 7919 % 401 % 2] };
            format!("{},{kind},{},s{},t{},u{},v{}\n", shifted(i), i % 2, i % 97, i % 89, i % 83, i % 79)
        })
        .collect();
    std::fs::write(at.join("t.csv"), format!("x,kind,side,s,t,u,v\n{rows}")).unwrap();
    let test = |features: &str| {
        ok(at, &format!("test mmd t.csv --by side==0 --features {features} --rank 10 --permutations 9 --json"))
    };
    let (narrow, wide) = (test("x,kind"), test("x,kind,s,t,u,v"));
    assert_eq!(wide["columns"][0].as_array().unwrap().len(), 2 + 97 + 89 + 83 + 79 + 1, "{}", wide["columns"]);
    for report in [&narrow, &wide] {
        assert_eq!(report["column_test_rows"], serde_json::json!([3000, 3000]));
        assert_eq!(report["samples"], serde_json::json!(["side == 0", "side != 0"]));
    }
    let column = |report: &serde_json::Value, name: &str| {
        let tests = report["column_tests"].as_array().unwrap();
        let mut test = tests.iter().find(|test| test["column"] == name).unwrap().clone();
        test["corrected_p_value"].take();
        test
    };
    for name in ["x", "kind"] {
        assert_eq!(column(&narrow, name), column(&wide, name));
    }
    let side = |side: usize| (0..6000).filter(|i| i % 2 == side).map(shifted).collect::<Vec<f64>>();
    let (first, second) = (side(0), side(1));
    let x = column(&wide, "x");
    assert!((x["distance"].as_f64().unwrap() - kolmogorov_distance(&first, &second)).abs() < 1e-12, "{x}");
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    assert!((x["means"][0].as_f64().unwrap() - mean(&first)).abs() < 1e-12, "{x}");
    // of larger tables the rows are sampled, and the means are of all rows
    let rows: String = (0..30_000).map(|i| format!("{},{}\n", shifted(i), i % 2)).collect();
    std::fs::write(at.join("long.csv"), format!("x,side\n{rows}")).unwrap();
    let long = ok(at, "test mmd long.csv --by side==0 --rank 10 --permutations 9 --json");
    assert_eq!(long["column_test_rows"], serde_json::json!([10_000, 10_000]));
    let all: Vec<f64> = (0..30_000).filter(|i| i % 2 == 0).map(shifted).collect();
    let x = column(&long, "x");
    assert!((x["means"][0].as_f64().unwrap() - mean(&all)).abs() < 1e-12, "{x}");
}

/// A copy of the column of `--by` separates the samples: the report warns of it and shows its means
/// with different digits.
#[test]
fn a_copy_of_the_dividing_column_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let rows: String = (0..400)
        .map(|i| {
            let (day, wave) = (i / 4 + 1, (i as f64 * 1.3).sin());
            format!("2016-{:02}-{:02},{},{wave}\n", 1 + day / 28, 1 + day % 28, 2016.0 + f64::from(day) / 366.0)
        })
        .collect();
    std::fs::write(at.join("t.csv"), format!("date,date_num,x\n{rows}")).unwrap();
    let line = "test mmd t.csv --by date<2016-03-01 --rank 10 --permutations 9";
    let (code, _, told) = kmill(at, line);
    assert!(code == 0 && told.contains("column date_num separates the samples"), "{told}");
    assert!(told.contains("--features '*,!date_num'"), "{told}");
    let output =
        std::process::Command::new(env!("CARGO_BIN_EXE_kmill")).current_dir(at).args(line.split(' ')).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("first        date < 2016-03-01 (220 rows)"), "{text}");
    assert!(text.contains("second       date >= 2016-03-01 (180 rows)"), "{text}");
    let words: Vec<&str> =
        text.lines().find(|line| line.trim_start().starts_with("date_num")).unwrap().split_whitespace().collect();
    let means = &words[words.len() - 4..words.len() - 2];
    assert!(means[0] != means[1] && means[0].starts_with("2016."), "{text}");
    let (code, _, told) = kmill(at, &format!("{line} --features *,!date_num"));
    assert!(code == 0 && !told.contains("separates"), "{told}");
}
