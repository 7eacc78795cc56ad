//! Related verbs accept the same options or refuse them with a reason; rows with missing values.

use crate::features::csv;
use crate::run::{kmill, ok};
use std::fmt::Write;
use std::path::Path;

/// Writes 300 rows of two numbers and their product's sign as label, as svmlight and as CSV.
fn labelled(at: &Path) {
    let (mut svm, mut table) = (String::new(), String::from("x0,x1,y\n"));
    for i in 0..300 {
        let (a, b) = ((f64::from(i) * 0.7).sin(), (f64::from(i) * 1.3).cos());
        let y = if a * b > 0.0 { 1 } else { -1 };
        writeln!(svm, "{y} 1:{a} 2:{b}").unwrap();
        writeln!(table, "{a},{b},{y}").unwrap();
    }
    std::fs::write(at.join("t.svm"), svm).unwrap();
    std::fs::write(at.join("t.csv"), table).unwrap();
}

#[test]
fn the_label_of_svmlight_is_no_feature_of_any_verb() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    labelled(at);
    // if the label is not named, the table without it gives the same result
    for (verb, extension) in [
        ("features DATA --rank 20 --kernel gaussian(sigma=1) -o OUT", ".csv"),
        ("fit kpca DATA --components 2 --rank 20 -o OUT", ""),
        ("fit kmeans DATA --clusters 3 --rank 20 -o OUT", ""),
        ("herd DATA --count 20 --rank 20 -o OUT", ".csv"),
    ] {
        let run = |data: &str, out: &str| {
            let out = format!("{out}{extension}");
            ok(at, &format!("{} -q", verb.replace("DATA", data).replace("OUT", &out)));
            std::fs::read(at.join(out)).unwrap()
        };
        assert!(run("t.svm", "label") == run("t.csv --features x0,x1", "named"), "{verb}");
    }
    let test =
        |data: &str| ok(at, &format!("test mmd {data} --by x0>0 --rank 20 --permutations 20 --json"))["biased"].clone();
    assert_eq!(test("t.svm"), test("t.csv --features x1"));
    // a feature list that names the label selects it, a pattern does not
    let features =
        |options: &str| ok(at, &format!("fit kpca t.svm {options} --rank 20 -o m --json"))["features"].clone();
    assert_eq!((features("--features ?*"), features("--features x0,y")), (2.into(), 2.into()));
}

/// Writes 200 rows of an ID, two numbers, the first with gaps, a class and the numbers' sum.
fn holed(at: &Path) {
    let mut text = String::from("id,a,b,c,y\n");
    for i in 0..200 {
        let (a, b) = ((f64::from(i) * 0.7).sin(), (f64::from(i) * 1.3).cos());
        let a_or_none = if i % 17 == 3 { String::new() } else { a.to_string() };
        writeln!(text, "{},{a_or_none},{b},{},{}", i + 1000, if b > 0.0 { "up" } else { "down" }, a + b).unwrap();
    }
    std::fs::write(at.join("t.csv"), text).unwrap();
}

#[test]
fn a_row_that_the_fit_would_have_dropped_has_an_empty_prediction() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    holed(at);
    let lacks = |i: usize| i % 17 == 3;
    for (solver, target, more) in [
        ("ridge", "y", ""),
        ("svm", "c", ""),
        ("logistic", "c", "--probabilities"),
        ("kmeans", "", "--clusters 3"),
        ("kpca", "", ""),
        ("oneclass", "", ""),
    ] {
        let target = if target.is_empty() { String::new() } else { format!("--target {target}") };
        let (of_fit, more) = if solver == "kmeans" { (more, "") } else { ("", more) };
        ok(at, &format!("fit {solver} t.csv {target} {of_fit} --features a,b --missing drop --rank 30 -o m -q"));
        let (_, _, stderr) = kmill(at, &format!("predict m t.csv --keep id {more} -o p.csv"));
        assert!(stderr.contains("12 of 200 rows have a missing value and no prediction"), "{solver}: {stderr}");
        ok(at, &format!("predict m t.csv --keep id --missing drop {more} -o few.csv -q"));
        let lines = |name: &str| -> Vec<String> {
            std::fs::read_to_string(at.join(name)).unwrap().lines().map(ToString::to_string).collect()
        };
        let (all, few) = (lines("p.csv"), lines("few.csv"));
        assert_eq!((all.len(), few.len()), (201, 189), "{solver}");
        for (i, line) in all[1..].iter().enumerate() {
            let (id, predicted) = line.split_once(',').unwrap();
            assert_eq!(id, (i + 1000).to_string());
            assert_eq!(predicted.trim_matches(',').is_empty(), lacks(i), "{solver}: {line}");
        }
        // the other rows are those kept by --missing drop
        let whole: Vec<&String> =
            all.iter().enumerate().filter(|(i, _)| *i == 0 || !lacks(i - 1)).map(|(_, l)| l).collect();
        assert!(whole == few.iter().collect::<Vec<_>>(), "{solver}");
    }
    // a condition, and a format with null values
    ok(at, "fit ridge t.csv --target y --features a,b --missing drop --rank 30 -o m -q");
    ok(at, "predict m t.csv --where id>=1100 -o p.parquet -q");
    ok(at, "convert p.parquet -o p.csv -q");
    let text = std::fs::read_to_string(at.join("p.csv")).unwrap();
    // an empty line would not be a row
    let empty: Vec<bool> = text.lines().skip(1).map(|line| line == "\"\"").collect();
    assert!(empty == (100..200).map(lacks).collect::<Vec<_>>(), "{text}");
    // evaluate scores the rows that have a prediction
    assert_eq!(ok(at, "evaluate m t.csv --json")["rows"], 188);
}

#[test]
fn matrices_that_are_none_are_refused_and_herded_rows_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("d.csv"), "a,b,c\n0,-1,2\n-1,0,1\n2,1,0\n").unwrap();
    std::fs::write(at.join("n.csv"), "a,b,c\n0,1,2\n1,0,\n2,,0\n").unwrap();
    for (line, why) in [
        ("coordinates d.csv -o p.csv", "row 0 has -1 for object 1, but distances are at least 0"),
        ("coordinates d.csv --of squared-distances -o p.csv", "distances are at least 0"),
        ("coordinates n.csv --missing mean -o p.csv", "row 1 has no value for object 2"),
    ] {
        let (code, _, stderr) = kmill(at, line);
        assert!(code == 1 && stderr.contains(why), "{line}: {code}, {stderr}");
    }
    holed(at);
    for missing in ["mean", "indicator"] {
        ok(at, &format!("herd t.csv --features a,b --missing {missing} --count 200 --rank 30 -o h.csv -q"));
        let (names, rows) = csv(&at.join("h.csv"));
        assert!(names[..2] == ["row", "a"] && rows.len() == 200 && rows.iter().flatten().all(|v| v.is_finite()));
        let known: Vec<f64> = (0..200).filter(|i| i % 17 != 3).map(|i| (f64::from(i) * 0.7).sin()).collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        let filled: Vec<f64> = rows.iter().filter(|row| row[0] as u64 % 17 == 3).map(|row| row[1]).collect();
        assert!(filled.len() == 12 && filled.iter().all(|value| (value - mean).abs() < 1e-12), "{filled:?}, {mean}");
    }
}

#[test]
fn relatives_take_what_their_relatives_take_or_say_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 600 -o t.parquet -q");
    // a plan that does not fit is printed completely and fails
    let (code, plan, stderr) = kmill(at, "plan ridge t.parquet --target y --rank 100 --memory 1MiB --json");
    assert!(code == 1 && plan["fits"] == false && stderr.contains("raise --memory"), "{code}: {plan}, {stderr}");
    // a plan reports if it cannot count all passes
    ok(at, "generate moons --rows 20000 -o long.parquet -q");
    let line = "logistic long.parquet --target y --rank 100 --lambda 1e-4 --threads 1";
    let plan = ok(at, &format!("plan {line} --json"));
    assert!(plan["passes_are_a_minimum"] == false, "{plan}");
    let least = (36..80).map(|mebibytes| kmill(at, &format!("plan {line} --memory {mebibytes}MiB --json")).1);
    let least = least.into_iter().find(|plan| plan["fits"] == true).unwrap();
    assert_eq!(least["passes_are_a_minimum"], true, "{least}");
    // the JSON report contains the kernels of a sum
    let combine = "fit ridge t.parquet --target y --rank 50 --combine gaussian(sigma=1),linear() -o m --json";
    let report = ok(at, combine);
    let weights = report["combination"]["weights"].as_array().unwrap();
    assert!((weights.iter().map(|w| w.as_f64().unwrap()).sum::<f64>() - 1.0).abs() < 1e-9, "{report}");
    assert_eq!(report["combination"]["kernels"].as_array().unwrap().len(), 2);
    // weights are accepted, or refused with the options that accept them
    for options in ["--map exact", "--method pcg"] {
        let line = format!("fit ridge t.parquet --target y --features x0 --weights x1 --lambda 1e-3 {options} -o m");
        let (code, _, stderr) = kmill(at, &line);
        assert!(code == 0 || stderr.contains("use "), "{line}: {stderr}");
    }
    for (line, why) in [
        ("coordinates t.parquet --kernel linear -o p.csv", "the matrix contains the distances"),
        ("features t.parquet --weights x0 -o p.csv", "it uses no target"),
        ("plan ridge t.parquet --target y --report p.html", "it runs nothing"),
    ] {
        let (code, _, stderr) = kmill(at, line);
        assert!(code == 2 && stderr.contains(why), "{line}: {stderr}");
    }
    // a feature map can use words too
    let notes = (0..60).map(|i| format!("{}\n", ["red fish", "blue fish", "old dog"][i % 3]));
    std::fs::write(at.join("n.csv"), format!("note\n{}", notes.collect::<String>())).unwrap();
    ok(at, "features n.csv --text note --rank 3 --kernel linear -o phi.csv --model map -q");
    ok(at, "fit features n.csv --text note --rank 3 --kernel linear -o own -q");
    assert!(std::fs::read(at.join("map")).unwrap() == std::fs::read(at.join("own")).unwrap());
    ok(at, "herd n.csv --text note --count 3 --rank 3 --kernel linear -o h.csv -q");
    assert!(csv(&at.join("h.csv")).0.contains(&"note:fish".to_string()));
    ok(at, "test mmd n.csv n.csv --text note --rank 3 --kernel linear --permutations 20 --json");
    ok(at, "predict map n.csv -o again.csv -q");
    assert!(std::fs::read(at.join("phi.csv")).unwrap() == std::fs::read(at.join("again.csv")).unwrap());
}

#[test]
fn dates_are_axes_of_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let rows = (0..200).map(|i| {
        let city = ["Bonn", "Ulm"][i % 2];
        format!("2024-{:02}-{:02},{city},{},{}\n", 1 + i % 12, 1 + i % 28, (i as f64 * 0.7).sin(), i % 12)
    });
    std::fs::write(at.join("t.csv"), format!("day,city,x,y\n{}", rows.collect::<String>())).unwrap();
    ok(at, "fit ridge t.csv --target y --rank 40 -o m -q");
    for axes in ["--x day --y x", "--x x --y day"] {
        ok(at, &format!("plot m t.csv {axes} -o p.svg -q"));
        let svg = std::fs::read_to_string(at.join("p.svg")).unwrap();
        assert!(svg.matches("<circle").count() >= 150, "{axes}");
    }
}
