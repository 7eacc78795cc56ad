//! The first hour of a new user: words that people type, and messages of runs and about columns.

use super::run::{kmill, ok};
use kstore::arrow::array::{ArrayRef, Float64Array, Int32Array, RecordBatch, TimestampSecondArray};
use kstore::arrow::ipc::writer::FileWriter;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Returns the standard output of a run that must succeed.
pub(crate) fn text(folder: &Path, line: &str) -> String {
    let words = line.split_whitespace();
    let output = Command::new(env!("CARGO_BIN_EXE_kmill")).current_dir(folder).args(words).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Writes cities with an ID, a fold, two measurements, a target, an outlier label and a class.
fn cities(folder: &Path) {
    let row = |i: u64| {
        let (a, b) = ((i * 37 % 101) as f64 / 101.0, (i * 53 % 97) as f64 / 97.0);
        let strange = i % 40 == 7;
        let away = if strange { 9.0 + i as f64 } else { 0.0 };
        let city = ["Rome", "Oslo", "Lima"][(i % 3) as usize];
        let (id, fold, y) = (i * 7919 % 100_003, i % 5, a + b * b + away / 3.0);
        format!("{id},{fold},{city},{},{},{y},{},{}\n", a + away, b - away, u8::from(strange), u8::from(a > 0.5))
    };
    let rows: String = (0..400).map(row).collect();
    std::fs::write(folder.join("t.csv"), format!("id,fold,city,a,b,y,strange,high\n{rows}")).unwrap();
}

#[test]
fn statistics_stand_beside_their_own_column() {
    let folder = tempfile::tempdir().unwrap();
    let columns: [(&str, ArrayRef); 3] = [
        ("time", Arc::new(TimestampSecondArray::from(vec![100, 200, 300]))),
        ("a", Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0]))),
        ("n", Arc::new(Int32Array::from(vec![-5, 0, 5]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = std::fs::File::create(folder.path().join("t.arrow")).unwrap();
    let mut writer = FileWriter::try_new(file, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let report = ok(folder.path(), "inspect t.arrow --stats --json");
    assert_eq!(report["columns"][0]["range"], serde_json::json!(["1970-01-01T00:01:40", "1970-01-01T00:05:00"]));
    for (column, (name, mean)) in report["columns"].as_array().unwrap()[1..].iter().zip([("a", 2.0), ("n", 0.0)]) {
        assert_eq!((&column["name"], &column["mean"]), (&name.into(), &mean.into()), "{report}");
    }
}

#[test]
fn words_of_other_programs_are_answered_with_ours() {
    let folder = tempfile::tempdir().unwrap();
    for (typed, answer) in [
        ("fit ridge t.csv --target y -o m --gamma 1", "--kernel 'gaussian(sigma=2)'"),
        ("evaluate m t.csv --reprot page.html", "error: kmill evaluate has no option --reprot; did you mean --report?"),
        (
            "predict m t.csv -o p.csv --report page.html",
            "kmill predict has no option --report (an option of fit, evaluate, inspect, tune, test); see kmill predict \
             --help\n",
        ),
        ("fit ridge t.csv --target y -o m --alpha 1", "alpha is lambda * n"),
        ("fit ridge t.csv --target y -o m --cv=5", "--folds 5"),
        ("fit kpca t.csv -o m --n_components 5", "--components 10"),
        ("fit ridge t.csv --target y -o m --kernel rbf", "rbf is gaussian here"),
        ("fit SVC t.csv --target y -o m", "it is called svm here"),
        ("train svm t.csv --target y -o m --tol 1", "--gap 1e-4"),
        ("fit oneclass t.csv -o m --contamination 0.1", "--nu 0.01"),
    ] {
        let (code, _, said) = kmill(folder.path(), typed);
        assert!(code == 2 && said.starts_with("error: ") && said.contains(answer), "{typed}: {said}");
        assert!(!said.contains("tip:"), "{typed}: {said}");
    }
}

#[test]
fn verbs_and_options_are_understood_by_their_other_names() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 500 -o t.parquet -q");
    let fitted = ok(at, "train ridge t.parquet --targets y --rank 20 --lambdas 1e-6 -o m --json -q");
    let same = ok(at, "fit ridge t.parquet --target y --ranks 20 --lambda 1e-6 -o n --json -q");
    assert_eq!(fitted["train"], same["train"]);
    assert_eq!(ok(at, "score m t.parquet --json -q"), ok(at, "evaluate n t.parquet --json -q"));
    assert_eq!(ok(at, "show m --json")["solver"], "ridge");
    let compared = ok(at, "compare t.parquet --features x* --method uniform --rank 10 --repeat 1 --json -q");
    assert_eq!(compared["methods"], serde_json::json!(["uniform"]));
    assert!(text(at, "help train ridge").contains("--preconditioner"), "the help of a solver");
}

#[test]
fn errors_say_what_can_be_done() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    cities(at);
    ok(at, "fit ridge t.csv --target y --features a --rank 10 --lambda 1e-6 -o one -q --json");
    for (line, parts) in [
        ("fit ridge t.csv --target y --rank 10 -o m.pkl", ["a model is a safetensors file", "or has no extension"]),
        (
            "fit ridge t.csv --target y --categories none --kernel delta(on=city) --rank 10 -o m",
            ["column city is text and not a feature", "--categories"],
        ),
        ("fit kmeans t.csv --clusters 2 --folds 5 -o m", ["--folds 5: kmeans does not read it", "leave it out"]),
        ("plot one t.csv --x b -o p.png", ["--x b: the model has one feature, a", "omit this option"]),
        ("plot one t.csv --y a -o p.png", ["--y a: the model has one feature, a", "omit this option"]),
        (
            "evaluate one t.csv --threshold 0.5",
            ["--threshold 0.5: it applies to models of two classes only", "omit it"],
        ),
        ("predict one t.csv --top 5 -o p.csv", ["--top 5: only models of oneclass and mean", "omit the option"]),
    ] {
        let (code, _, said) = kmill(at, line);
        assert!(code == 1 && parts.iter().all(|part| said.contains(part)), "{line}: {said}");
    }
}

#[test]
fn a_fit_says_little_unless_asked() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 2000 -o t.parquet -q");
    let fit = "fit ridge t.parquet --target y --rank 50 --candidates 500 -o m";
    let brief = text(at, fit);
    assert!(brief.lines().count() <= 20, "{} lines: {brief}", brief.lines().count());
    assert!(brief.contains("* chosen; -v shows all 13 rows") && brief.contains("model: m ("), "{brief}");
    let (_, _, said) = kmill(at, fit);
    assert_eq!(said, "features: x0 … x9 (10); left out: y (target)\n");
    let (_, _, said) = kmill(at, &format!("{fit} -v"));
    assert!(said.contains("plan for 2,000 rows") && said.contains("Gram matrix: 2,000 rows in"), "{said}");
    let whole = text(at, &format!("{fit} -v"));
    assert!(whole.contains("scaling statistics") && whole.contains("lambda is per row"), "{whole}");
    assert!(
        brief
            .lines()
            .filter(|line| line.contains("  cv rmse"))
            .eq(whole.lines().filter(|line| line.contains("  cv rmse")))
    );
    let (code, _, said) = kmill(at, &format!("{fit} -v -q"));
    assert!(code == 2 && said.contains("cannot be used with"), "{said}");
}

#[test]
fn features_are_named_and_strange_ones_are_pointed_at() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    cities(at);
    let (_, report, said) = kmill(at, "fit ridge t.csv --target y --rank 10 --lambda 1e-6 -o m --json");
    assert!(said.contains("features: id, fold, city (3 values), a, b, strange, … (9); left out: y (target)"), "{said}");
    let warned = |column: &str| said.lines().find(|line| line.starts_with(&format!("warning: column {column} ")));
    assert!(
        warned("id").is_some_and(|line| line.contains("identifier") && line.contains("--features '*,!id'")),
        "{said}"
    );
    assert!(warned("fold").is_some_and(|line| line.contains("fold numbers")), "{said}");
    assert!(warned("a").is_none() && warned("high").is_none(), "{said}");
    assert!(report["warnings"].to_string().contains("column id looks like an identifier"), "{report}");
    // following the advice of the warning removes it
    let (_, report, said) =
        kmill(at, "fit ridge t.csv --target y --features *,!id,!fold,!strange --rank 10 --lambda 1e-6 -o m --json");
    assert!(said.contains("features: city (3 values), a, b, high (6)") && !said.contains("warning: column"), "{said}");
    assert!(said.contains("id, fold, strange (excluded by --features)"), "{said}");
    assert_eq!(report["features"], 6);
    // a column that is named explicitly gives no warning
    let (_, _, said) = kmill(at, "fit ridge t.csv --target y --features id,a --rank 10 --lambda 1e-6 -o m");
    assert!(!said.contains("warning: column"), "{said}");
    ok(at, "predict m t.csv --keep i*,c* -o p.csv -q --json");
    let head = std::fs::read_to_string(at.join("p.csv")).unwrap();
    assert!(head.starts_with("id,city,prediction\n"), "{head}");
}

#[test]
fn a_threshold_moves_rows_to_the_second_class() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    cities(at);
    ok(at, "fit logistic t.csv --target high --features b --rank 20 -o m -q --json");
    ok(at, "predict m t.csv --probabilities --threshold 0.3 -o p.csv -q --json");
    let predicted = std::fs::read_to_string(at.join("p.csv")).unwrap();
    let mut second = 0;
    for row in predicted.lines().skip(1) {
        let cells: Vec<f64> = row.split(',').map(|cell| cell.parse().unwrap()).collect();
        assert_eq!(cells[0], f64::from(u8::from(cells[2] > 0.3)), "{row}");
        second += cells[0] as u64;
    }
    let scores = ok(at, "evaluate m t.csv --threshold 0.3 --json -q");
    let counts: Vec<u64> = (0..2).map(|truth| scores["confusion"][truth][1].as_u64().unwrap()).collect();
    assert_eq!(counts.iter().sum::<u64>(), second);
    let usual = ok(at, "evaluate m t.csv --json -q");
    assert_eq!((&usual["brier"], &usual["auc"]), (&scores["brier"], &scores["auc"]), "they have no threshold");
    assert_ne!(usual["confusion"], scores["confusion"]);
    // by definition, from the written probabilities
    let truth: Vec<f64> = std::fs::read_to_string(at.join("t.csv"))
        .unwrap()
        .lines()
        .skip(1)
        .map(|row| row.rsplit(',').next().unwrap().parse().unwrap())
        .collect();
    let away = predicted
        .lines()
        .skip(1)
        .zip(&truth)
        .map(|(row, truth)| (row.rsplit(',').next().unwrap().parse::<f64>().unwrap() - truth).powi(2));
    let brier = away.sum::<f64>() / truth.len() as f64;
    assert!((usual["brier"].as_f64().unwrap() - brier).abs() < 1e-9, "{usual} {brier}");
    let (code, _, said) = kmill(at, "evaluate m t.csv --threshold 1.5");
    assert!(code == 1 && said.contains("between 0 and 1"), "{said}");
}

#[test]
fn the_strangest_rows_come_first_and_labels_score_them() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    cities(at);
    ok(at, "fit oneclass t.csv --features a,b --kernel gaussian(sigma=1) --nu 0.05 --rank 50 -o m -q --json");
    ok(at, "predict m t.csv -o all.csv -q --json");
    ok(at, "predict m t.csv --top 10 --keep id,strange -o top.csv -q --json");
    let read = |name: &str| std::fs::read_to_string(at.join(name)).unwrap();
    let scores: Vec<f64> = read("all.csv").lines().skip(1).map(|row| row.parse().unwrap()).collect();
    let ids: Vec<String> =
        read("t.csv").lines().skip(1).map(|row| row.split(',').next().unwrap().to_string()).collect();
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]).then(a.cmp(b)));
    let top = read("top.csv");
    let rows: Vec<Vec<&str>> = top.lines().map(|row| row.split(',').collect()).collect();
    assert_eq!(rows[0], ["id", "strange", "row", "score", "reasons"]);
    assert_eq!(rows.len(), 11);
    for (row, expected) in rows[1..].iter().zip(&order) {
        assert_eq!((row[0], row[1], row[2].parse().unwrap()), (ids[*expected].as_str(), "1", *expected));
        assert_eq!(row[3].parse::<f64>().unwrap(), scores[*expected]);
    }
    let report = ok(at, "evaluate m t.csv --target strange --top 10 --json -q");
    assert_eq!((&report["unusual"], &report["top"], &report["precision_at"]), (&10.into(), &10.into(), &1.0.into()));
    assert_eq!(report["negative"], scores.iter().filter(|score| **score < 0.0).count());
    assert_eq!((&report["auc"], &report["average_precision"]), (&1.0.into(), &1.0.into()), "{report}");
    let (code, _, said) = kmill(at, "evaluate m t.csv");
    assert!(code == 2 && said.contains("--target"), "{said}");
}

#[test]
fn a_regression_has_its_median_error_and_its_coverage() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 3000 -o t.parquet -q");
    ok(at, "fit ridge t.parquet --target y --rank 100 --lambda 1e-4 --kernel gaussian(sigma=3) --std -o m -q --json");
    ok(at, "predict m t.parquet --std --keep y -o p.csv -q --json");
    let report = ok(at, "evaluate m t.parquet --json -q");
    let rows: Vec<Vec<f64>> = std::fs::read_to_string(at.join("p.csv"))
        .unwrap()
        .lines()
        .skip(1)
        .map(|row| row.split(',').map(|cell| cell.parse().unwrap()).collect())
        .collect();
    let mut errors: Vec<f64> = rows.iter().map(|row| (row[0] - row[1]).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let middle = (errors[1499] + errors[1500]) / 2.0;
    assert!((report["median_error"].as_f64().unwrap() - middle).abs() < 1e-4, "{report} {middle}");
    let within = rows.iter().filter(|row| (row[0] - row[1]).abs() <= 1.959_964 * row[2]).count();
    assert_eq!(report["coverage"].as_f64().unwrap(), within as f64 / 3000.0);
    assert!((0.9..0.99).contains(&report["coverage"].as_f64().unwrap()), "{report}");
}

#[test]
fn help_is_there_for_solvers_shells_and_readers_of_manuals() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let which = text(at, "help which");
    assert!(which.contains("Is there a column to be predicted?") && which.contains("oneclass"), "{which}");
    let ridge = text(at, "help fit ridge");
    assert!(ridge.contains("--preconditioner") && !ridge.contains("--epsilon"), "{ridge}");
    // options are listed under their headings
    let all = text(at, "fit --help");
    let places = ["\nTable:", "--target", "--features", "--rows", "\nText files:", "--delimiter", "\nLearning:"]
        .map(|part| all.find(part).unwrap_or_else(|| panic!("{part}: {all}")));
    assert!(places.is_sorted(), "{places:?} {all}");
    for (shell, part) in [("bash", "_kmill()"), ("zsh", "#compdef kmill"), ("fish", "complete -c kmill")] {
        let script = text(at, &format!("completions {shell}"));
        assert!(script.contains(part) && script.contains("class-weight"), "{shell}");
    }
    text(at, "man .");
    let page = std::fs::read_to_string(at.join("kmill-fit.1")).unwrap();
    assert!(page.contains("\\-\\-kernel") && at.join("kmill.1").exists() && at.join("kmill-predict.1").exists());
}

#[test]
fn what_a_column_counts_is_told_of_the_whole_column() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    cities(at);
    let line = "fit ridge t.csv --target y --features city,a,b --rank 30 --lambda 1e-6 --importance -o m";
    let json = ok(at, &format!("{line} --json -q"));
    let slopes = json["importance"].as_array().unwrap();
    let of = |start: &str| {
        let own = slopes.iter().filter(|slope| slope[0].as_str().unwrap().starts_with(start));
        own.map(|slope| slope[1].as_f64().unwrap().powi(2)).sum::<f64>().sqrt()
    };
    let said = text(at, line);
    let told = |name: &str| {
        let line = said
            .lines()
            .find(|line| line.trim_start().starts_with(&format!("{name} ")))
            .unwrap_or_else(|| panic!("{said}"));
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap()
    };
    for (name, all) in [("city", "city="), ("a", "a"), ("b", "b")] {
        assert!((told(name) / of(all) - 1.0).abs() < 1e-3, "{name}: {said}");
    }
    assert!(!said.contains("city="), "{said}");
}

#[test]
fn a_strange_row_has_its_reasons() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // flow follows load; one row has the flow of another load, one is far away in two columns
    let (mut text, n) = ("id,load,flow,temp\n".to_string(), 400);
    for i in 0..n {
        let place = |step: usize| ((i * step) % 401) as f64 / 200.5 - 1.0;
        let load = 60.0 + 10.0 * place(83);
        let (flow, temp) = match i {
            120 => (load + 25.0, 20.0),
            300 => (1e5, -1e5),
            _ => (0.5 * load + place(197), 20.0 + place(311)),
        };
        text += &format!("{i},{load},{flow},{temp}\n");
    }
    std::fs::write(at.join("t.csv"), text).unwrap();
    let features = "--features load,flow,temp --rank 60";
    let where_usual = "--rows ..120";
    for fit in [
        "oneclass",
        "mean",
        "mean --kernel laplacian() --map fourier",
        "kpca --novelty --components 3 --kernel matern()",
    ] {
        ok(
            at,
            &format!(
                "fit {} t.csv {features} {where_usual} {} -o m -q --json",
                fit.split(' ').next().unwrap(),
                fit.split_once(' ').map_or("", |(_, rest)| rest)
            ),
        );
        let report = ok(at, "predict m t.csv --top 2 --keep id -o top.csv -q --json");
        let strange = report["strange"].as_array().unwrap();
        let rows: Vec<u64> = strange.iter().map(|row| row["row"].as_u64().unwrap()).collect();
        assert!(rows == [300, 120] || rows == [120, 300], "{fit}: {report}");
        let reasons =
            |row: u64| strange.iter().find(|s| s["row"] == row).unwrap()["reasons"].as_array().unwrap().clone();
        let first = &reasons(120)[0];
        assert_eq!(first["feature"], "flow", "{fit}: {first}");
        let (value, expected) = (first["value"].as_f64().unwrap(), first["expected"].as_f64().unwrap());
        assert!(((value - 25.0) / 2.0 - expected).abs() < 4.0, "{fit}: {first}");
        let mut far: Vec<String> = reasons(300).iter().map(|r| r["feature"].as_str().unwrap().to_string()).collect();
        far.sort();
        assert_eq!(far[..2], ["flow", "temp"], "{fit}: {report}");
        let written = std::fs::read_to_string(at.join("top.csv")).unwrap();
        assert!(
            written.starts_with("id,row,") && written.contains(",reasons\n") && written.contains("flow"),
            "{written}"
        );
    }
    // no change of one column to a value of the table gives a higher score than the explanation
    ok(at, &format!("fit oneclass t.csv {features} {where_usual} -o m -q --json"));
    let report = ok(at, "predict m t.csv --rows 100..140 --top 1 -o top.parquet -q --json");
    let first = &report["strange"][0]["reasons"][0];
    let rows: Vec<Vec<f64>> = std::fs::read_to_string(at.join("t.csv"))
        .unwrap()
        .lines()
        .skip(1)
        .map(|row| row.split(',').map(|v| v.parse().unwrap()).collect())
        .collect();
    let mut changed = "load,flow,temp\n".to_string();
    let mut line = |row: &[f64]| changed += &format!("{},{},{}\n", row[0], row[1], row[2]);
    let mut own = rows[120][1..].to_vec();
    own[1] = first["expected"].as_f64().unwrap();
    line(&own);
    for other in rows.iter().take(100) {
        for j in 0..3 {
            let mut row = rows[120][1..].to_vec();
            row[j] = other[1 + j];
            line(&row);
        }
    }
    std::fs::write(at.join("c.csv"), changed).unwrap();
    ok(at, "predict m c.csv -o c.out.csv -q --json");
    let scores: Vec<f64> =
        std::fs::read_to_string(at.join("c.out.csv")).unwrap().lines().skip(1).map(|v| v.parse().unwrap()).collect();
    let best = scores[1..].iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
    // 32 values per column are tried, from 60 landmarks
    assert!(scores[0] > best - 0.02 * (best - report["strange"][0]["score"].as_f64().unwrap()), "{} {best}", scores[0]);
    ok(at, "predict m t.csv --top 3 -o top.npy -q --json");
    let (code, _, said) = kmill(at, "predict m t.csv --keep id,load --top 0 -o no.csv");
    assert!(code != 0 && said.contains("--top"), "{said}");
}

/// Random features have no landmarks: predicted rows replace them.
#[test]
fn contributions_without_landmarks_are_relative_to_predicted_rows() {
    let folder = tempfile::tempdir().unwrap();
    cities(folder.path());
    let fit = "fit ridge t.csv --target y --features a,b --map fourier --rank 50 --lambda 1e-4 -o m.safetensors -q";
    text(folder.path(), fit);
    let written = text(folder.path(), "predict m.safetensors t.csv --contributions -o - -q");
    let mut lines = written.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let position = |name: &str| names.iter().position(|other| *other == name).unwrap();
    let parts = ["background", "contribution_a", "contribution_b"].map(position);
    let prediction = names.iter().position(|name| name.starts_with("prediction")).unwrap();
    for line in lines {
        let values: Vec<f64> = line.split(',').map(|value| value.parse().unwrap_or(f64::NAN)).collect();
        let sum: f64 = parts.iter().map(|part| values[*part]).sum();
        assert!((sum - values[prediction]).abs() < 1e-3 * values[prediction].abs().max(1.0), "{line}");
    }
    let (_, _, few) = kmill(folder.path(), "predict m.safetensors t.csv --rows ..3 --reasons 1 -o p.csv");
    assert!(few.contains("3 predicted rows are too few") && few.contains("--background"), "{few}");
}

#[test]
fn contributions_name_their_unit_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    cities(at);
    for (fit, unit) in [
        ("ridge t.csv --target y", "contributions are in the unit of the target y"),
        ("logistic t.csv --target city", "contributions are log-odds of the predicted class of each row\n"),
        (
            "svm t.csv --target high",
            "contributions are parts of the svm score (--scores) of the class 1, also in rows predicted otherwise: a positive \
             contribution speaks for 1\n",
        ),
        (
            "logistic t.csv --target high",
            "contributions are log-odds of the class 1, also in rows predicted otherwise: a positive contribution speaks for 1\n",
        ),
    ] {
        text(at, &format!("fit {fit} --features a,b --rank 20 --lambda 1e-4 -o m -q"));
        let (code, _, told) = kmill(at, "predict m t.csv --rows ..20 --contributions -o p.csv");
        assert!(code == 0 && told.matches(unit).count() == 1, "{fit}: {told}");
    }
    // of two classes: the sum is the log-odds of class 1 also in rows whose prediction is 0
    text(at, "predict m t.csv --rows ..20 --contributions --probabilities -o p.csv -q");
    let written = std::fs::read_to_string(at.join("p.csv")).unwrap();
    let mut lines = written.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let mut predicted = [0, 0];
    for cells in lines {
        let value = |name: &str| cells[names.iter().position(|other| *other == name).unwrap()].parse::<f64>().unwrap();
        let sum = value("background") + value("contribution_a") + value("contribution_b");
        let log_odds = (value("probability_1") / value("probability_0")).ln();
        assert!((sum - log_odds).abs() < 1e-4 * log_odds.abs().max(1.0), "{sum} {log_odds}: {cells:?}");
        predicted[value("prediction") as usize] += 1;
    }
    assert!(predicted[0] > 2 && predicted[1] > 2, "{predicted:?}");
}

#[test]
fn the_demo_ends_without_a_warning_and_finds_what_the_noise_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let (code, report, said) = kmill(folder.path(), "demo --json");
    assert!(code == 0 && !said.contains("warning"), "{said}");
    let mse = report["evaluate"]["mse"].as_f64().unwrap();
    assert!((0.95..1.05).contains(&mse), "the noise has variance 1: {mse}");
}
