//! Test rows: `--test` of `fit`, `tune` and `evaluate`, and `convert --split`.

use super::run::{kmill, ok};
use std::collections::BTreeSet;
use std::path::Path;

const ROWS: u64 = 600;

/// The columns of a row: an ID, a group, a date with ties, two inputs, a class and a target.
fn row(i: u64) -> [String; 7] {
    let (a, b) = ((i * 37 % 601) as f64 / 601.0, (i * 53 % 599) as f64 / 599.0);
    let class = ["no", "no", "no", "yes", "rare"][if i % 50 == 3 { 4 } else { (i * 7 % 4) as usize }];
    let day = format!("2024-{:02}-{:02}", 1 + i / 120, 1 + i % 120 / 5);
    [
        i.to_string(),
        format!("s{}", i * 11 % 23),
        day,
        a.to_string(),
        b.to_string(),
        class.to_string(),
        (a + b * b + a * b).to_string(),
    ]
}

/// Writes the table, with the rows changed by `edit`.
pub(crate) fn write_table(path: &Path, edit: impl Fn(&mut [String; 7])) {
    let line = |i: u64| {
        let mut cells = row(i);
        edit(&mut cells);
        cells.join(",") + "\n"
    };
    let rows: String = (0..ROWS).map(line).collect();
    std::fs::write(path, format!("id,subject,day,a,b,label,y\n{rows}")).unwrap();
}

/// Returns a column of a CSV file.
pub(crate) fn column(folder: &Path, file: &str, index: usize) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    text.lines().skip(1).map(|line| line.split(',').nth(index).unwrap().to_string()).collect()
}

fn ids(folder: &Path, file: &str) -> BTreeSet<u64> {
    column(folder, file, 0).iter().map(|id| id.parse().unwrap()).collect()
}

/// Splits a table and returns the IDs of the test rows, which the two files must have exactly once.
fn split(folder: &Path, line: &str) -> BTreeSet<u64> {
    ok(folder, &format!("convert {line} --split train.csv,test.csv --json"));
    let (training, test) = (ids(folder, "train.csv"), ids(folder, "test.csv"));
    assert!(training.is_disjoint(&test) && !training.is_empty() && !test.is_empty(), "{line}");
    assert_eq!(training.len() + test.len(), ROWS as usize, "{line}");
    test
}

const SPECS: [&str; 6] = ["20%", "20%:label", "last:15%", "last:15%:day", "groups:20%:subject", "id>=500"];

#[test]
fn the_parts_are_complements_for_every_format_thread_count_and_budget() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_table(&at.join("t.csv"), |_| ());
    ok(at, "convert t.csv -o t.parquet --json");
    ok(at, "convert t.csv -o t.arrow --json");
    std::fs::create_dir(at.join("parts")).unwrap();
    ok(at, "convert t.csv --rows ..250 -o parts/1.parquet --json");
    ok(at, "convert t.csv --rows 250.. -o parts/2.parquet --json");
    for spec in SPECS {
        let expected = split(at, &format!("t.csv --test {spec}"));
        for table in ["t.parquet --threads 1", "t.arrow --threads 3 --memory 64MiB", "parts"] {
            assert_eq!(split(at, &format!("{table} --test {spec}")), expected, "{table} {spec}");
        }
    }
    let [one, other] = ["0", "1"].map(|seed| split(at, &format!("t.csv --test 20% --seed {seed}")));
    assert_eq!((one.len(), other.len()), (120, 120));
    assert_ne!(one, other);
}

#[test]
fn every_kind_of_test_rows_is_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_table(&at.join("t.csv"), |_| ());
    split(at, "t.csv --test 20%:label");
    for class in ["no", "yes", "rare"] {
        let count = |file| column(at, file, 5).iter().filter(|label| *label == class).count();
        let (training, test) = (count("train.csv"), count("test.csv"));
        assert_eq!(test, (0.2 * (training + test) as f64).round() as usize, "{class}");
    }
    split(at, "t.csv --test groups:20%:subject");
    let groups = |file| column(at, file, 1).into_iter().collect::<BTreeSet<_>>();
    assert!(groups("train.csv").is_disjoint(&groups("test.csv")));
    assert_eq!((groups("train.csv").len(), groups("test.csv").len()), (18, 5));
    assert_eq!(split(at, "t.csv --test last:15%"), (510..600).collect());
    let test = split(at, "t.csv --test last:14%:day");
    let days = |file| column(at, file, 2).into_iter().collect::<BTreeSet<_>>();
    assert!(days("train.csv").last() < days("test.csv").first(), "rows of one day are in one part");
    assert_eq!(test, (515..600).collect(), "the number of rows nearest to 84");
    assert_eq!(split(at, "t.csv --test id>=500"), (500..600).collect());
}

#[test]
fn a_fit_does_not_read_its_test_rows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_table(&at.join("t.csv"), |_| ());
    let model = |table: &str, spec: &str| {
        // without metadata: the text of the options is the same, too
        let line = format!("{table} --features a,b --target y --rank 40 --test {spec} -o m.safetensors --json");
        let report = ok(at, &format!("fit ridge {line}"));
        (std::fs::read(at.join("m.safetensors")).unwrap(), report)
    };
    for spec in SPECS {
        let test = split(at, &format!("t.csv --target y --test {spec}"));
        // other numbers in the test rows: a scaling, a landmark or a fold that sees them changes
        write_table(&at.join("changed.csv"), |cells| {
            if test.contains(&cells[0].parse().unwrap()) {
                (cells[3], cells[6]) = ("1e6".to_string(), "-3e7".to_string());
            }
        });
        let ((expected, report), (changed, changed_report)) = (model("t.csv", spec), model("changed.csv", spec));
        assert!(expected == changed, "{spec}");
        assert_eq!(report["test_set"]["rows"], test.len(), "{spec}");
        assert_eq!(report["rows"], 600 - test.len(), "{spec}");
        let mse = |report: &serde_json::Value| report["test_set"]["scores"]["mse"].as_f64().unwrap();
        assert!(mse(&report) < 0.1 && mse(&changed_report) > 1e12, "{spec}");
    }
    // the first rows of a table have the same numbers as in a table of their own
    split(at, "t.csv --test last:15%");
    let (kept, _) = model("t.csv", "last:15%");
    ok(at, "fit ridge train.csv --features a,b --target y --rank 40 --folds blocks:5 -o alone.safetensors --json");
    let alone = std::fs::read(at.join("alone.safetensors")).unwrap();
    let numbers = |file: &[u8]| file[8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize..].to_vec();
    assert_eq!(numbers(&kept), numbers(&alone));
}

/// Without a task, a target of integers is a number: `--split` names the specification of the test
/// rows of a fit to classes, which chooses them within each class.
#[test]
fn a_split_by_integer_classes_names_the_rows_of_the_fit() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_table(&at.join("t.csv"), |cells| cells[5] = (cells[0].parse::<u64>().unwrap() % 7 / 6).to_string());
    let line = |target: &str, spec: &str| {
        let (code, _, stderr) =
            kmill(at, &format!("convert t.csv --target {target} --split a.csv,b.csv --test {spec}"));
        assert_eq!(code, 0, "{stderr}");
        (ids(at, "b.csv"), stderr)
    };
    let (plain, note) = line("label", "20%");
    let advice = "the target has 2 distinct integer values; a fit to classes with --test 20% chooses its test rows within each class: \
                  --test 20%:label writes the same rows";
    assert!(note.contains(advice), "{note}");
    let (within_classes, silent) = line("label", "20%:label");
    assert!(!silent.contains("distinct integer") && plain != within_classes, "{silent}");
    let fit = "fit logistic t.csv --target label --features a,b --rank 20 --lambda 1e-3 --test 20% -o m --json";
    let in_fit = ok(at, fit)["test_set"]["scores"]["log_loss"].as_f64().unwrap();
    let in_file = ok(at, "evaluate m b.csv --json")["log_loss"].as_f64().unwrap();
    assert!((in_fit - in_file).abs() < 1e-12, "{in_fit} {in_file}");
    let (_, number) = line("y", "20%");
    assert!(!number.contains("distinct integer"), "{number}");
}

/// Rows without a target are in neither part, as in a fit.
#[test]
fn rows_without_a_target_are_in_neither_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let lacks_target = |id: u64| id % 10 == 3;
    write_table(&at.join("t.csv"), |cells| {
        if lacks_target(cells[0].parse().unwrap()) {
            (cells[5], cells[6]) = (String::new(), String::new());
        }
    });
    for target in ["label", "y"] {
        let line = format!("convert t.csv --target {target} --split train.csv,test.csv --test 20%");
        let (code, _, stderr) = kmill(at, &line);
        assert!(code == 0 && stderr.contains("without a target are in neither part: 60"), "{target}: {stderr}");
        let (training, test) = (ids(at, "train.csv"), ids(at, "test.csv"));
        assert_eq!((training.len() + test.len(), training.intersection(&test).count()), (540, 0), "{target}");
        assert!(training.iter().chain(&test).all(|id| !lacks_target(*id)), "{target}");
        let task = if target == "label" { "--task classification" } else { "" };
        let fit = format!("fit ridge t.csv --target {target} {task} --features a,b --rank 20 --test 20% -o m --json");
        assert_eq!(ok(at, &fit)["test_set"]["rows"], test.len(), "{target}");
    }
    let (code, _, stderr) = kmill(at, "convert t.csv --target y --split a.csv,b.csv --test 20% --missing error");
    assert!(code == 1 && stderr.contains("column \"y\""), "{stderr}");
}

#[test]
fn evaluate_finds_the_test_rows_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_table(&at.join("t.csv"), |_| ());
    ok(at, "convert t.csv -o t.parquet --json");
    let test = split(at, "t.csv --target label --test 20%");
    for fit in ["logistic t.csv --target label", "ridge t.csv --target label --task classification"] {
        let report = ok(at, &format!("fit {fit} --features a,b --rank 40 --test 20% -o m --json"));
        let scores = &report["test_set"]["scores"];
        assert_eq!(scores["rows"], test.len());
        assert_eq!(report["test_set"]["selects"], "20 % of each value of label, at random");
        for line in ["m t.csv --test same", "m t.parquet --test same --threads 1", "m test.csv"] {
            assert_eq!(&ok(at, &format!("evaluate {line} --json")), scores, "{fit}: {line}");
        }
        assert_eq!(ok(at, "evaluate m t.csv --json")["rows"], 600);
        assert_eq!(ok(at, "evaluate m t.csv --where id>=300 --test same --json")["rows"], {
            test.iter().filter(|id| **id >= 300).count()
        });
    }
}

#[test]
fn tune_tests_its_choice() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_table(&at.join("t.csv"), |_| ());
    let line = "--features a,b --target y --kernels gaussian(),laplacian() --metric none --factors 1,2 --ranks 20,40";
    let report = ok(at, &format!("tune ridge t.csv {line} --test 25% -o m --json"));
    assert_eq!((&report["fit"]["rows"], &report["fit"]["test_set"]["rows"]), (&450.into(), &150.into()));
    assert!(report["fit"]["test_set"]["scores"]["standard_errors"]["rmse"].as_f64().unwrap() > 0.0);
    assert!(report["default_test"]["error"].as_f64().unwrap() > 0.0, "{report}");
    let (code, _, message) = kmill(at, &format!("tune ridge t.csv {line} --test 25% -o search.csv"));
    assert_eq!(code, 1);
    assert!(message.contains("--test 25%") && message.contains("-o"), "{message}");
}

#[test]
fn what_cannot_be_split_is_rejected_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_table(&at.join("t.csv"), |_| ());
    let fit = |spec: &str| format!("fit ridge t.csv --features a,b --target y --rank 20 -o m --test {spec}");
    for (line, code, parts) in [
        (fit("20"), 2, ["write 20%", "--test"]),
        (fit("0%"), 2, ["above 0 and below 100", "--test"]),
        (fit("100%"), 2, ["above 0 and below 100", "--test"]),
        (fit("id>900"), 1, ["none of the 600 rows", "change the condition"]),
        (fit("id>=0"), 1, ["all 600 rows", "change the condition"]),
        (fit("id=9"), 2, ["==", "--test"]),
        (fit("last:15%:dya"), 1, ["no column \"dya\"", "day"]),
        (fit("last:15%:label"), 1, ["not a date like 2024-01-31", "last:15%"]),
        (fit("groups:20%"), 2, ["groups:20%:subject", "--test"]),
        (fit("20%:nosuch"), 1, ["no column \"nosuch\"", "label"]),
        ("fit kpca t.csv --features a,b --test 20% -o m".to_string(), 1, ["without a target", "convert --split"]),
        ("convert t.csv --test 20% -o o.csv".to_string(), 1, ["--split", "-o"]),
        ("convert t.csv --split a.csv --test 20%".to_string(), 2, ["train.parquet,test.parquet", "--split"]),
        ("convert t.csv --split a.csv,b.csv".to_string(), 2, ["--test", "--split"]),
        ("convert t.csv --split a.csv,a.csv --test 20%".to_string(), 1, ["same path", "another name"]),
        ("convert t.csv --split t.csv,b.csv --test 20%".to_string(), 1, ["overwritten", "another name"]),
    ] {
        let (got, _, message) = kmill(at, &line);
        assert_eq!(got, code, "{line}: {message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{line}: {message}");
    }
    ok(at, "fit ridge t.csv --features a,b --target y --rank 20 -o m --json");
    let (code, _, message) = kmill(at, "evaluate m t.csv --test same");
    assert!(code == 1 && message.contains("fitted without --test"), "{message}");
}

#[test]
fn the_rows_with_the_highest_scores() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_table(&at.join("t.csv"), |cells| {
        if cells[5] == "rare" {
            cells[5] = "yes".to_string();
        }
    });
    ok(at, "fit logistic t.csv --features a,b --target label --rank 40 -o m --json");
    ok(at, "predict m t.csv --keep label --scores -o all.csv --json");
    for positive in ["yes", "no"] {
        let sign = if positive == "yes" { -1.0 } else { 1.0 };
        let scores = column(at, "all.csv", 2).into_iter().map(|score| sign * score.parse::<f64>().unwrap());
        let mut order: Vec<(f64, usize)> = scores.zip(0..).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let report = ok(at, &format!("predict m t.csv --top 50 --positive {positive} --keep label -o top.csv --json"));
        let rows: Vec<usize> = column(at, "top.csv", 1).iter().map(|row| row.parse().unwrap()).collect();
        assert_eq!(rows, order[..50].iter().map(|row| row.1).collect::<Vec<_>>(), "{positive}");
        assert_eq!(report["strange"].as_array().map(Vec::len), Some(50));
        let labels = column(at, "t.csv", 5);
        let hits = rows.iter().filter(|row| labels[**row] == positive).count() as f64;
        let all = labels.iter().filter(|label| *label == positive).count() as f64;
        let top = &ok(at, &format!("evaluate m t.csv --top 50 --positive {positive} --json"))["top"];
        let number = |key: &str| top[key].as_f64().unwrap();
        assert_eq!((number("rows"), number("precision")), (50.0, hits / 50.0), "{positive}");
        assert!((number("recall") - hits / all).abs() < 1e-12, "{positive}");
        assert!((number("lift") - hits / 50.0 / (all / 600.0)).abs() < 1e-12, "{positive}");
    }
    ok(at, "fit ridge t.csv --features a,b --target y --rank 20 -o r --json");
    let (code, _, message) = kmill(at, "evaluate r t.csv --top 5");
    assert!(code == 1 && message.contains("two classes"), "{message}");
}

/// A panel of persons, whose visits are neighbours and whose targets have a common part.
#[test]
fn a_column_of_groups_is_no_feature_if_named_and_is_named_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let rows: String = (0..600)
        .map(|i| {
            let (person, visit) = (100 + 3 * (i / 6), i % 6);
            let y = (f64::from(person) * 2.1).sin() + (f64::from(i) * 1.3).sin();
            format!("{person},{visit},{},{y}\n", (f64::from(i) * 1.3).sin())
        })
        .collect();
    std::fs::write(at.join("t.csv"), format!("person,visit,x,y\n{rows}")).unwrap();
    let search = "--kernels gaussian() --metric none --factors 1";
    let runs = [("fit", "20%"), ("fit", "last:20%"), ("fit", "last:20%:visit"), ("tune", "20%"), ("tune", "last:20%")];
    for (verb, test) in runs {
        let search = if verb == "tune" { search } else { "" };
        let line = format!("{verb} ridge t.csv --target y --rank 20 {search} --test {test} -o m --json");
        let (report, named) = (ok(at, &line), ok(at, &format!("{line} --folds groups:5:person")));
        let [features, named_features] = [&report, &named].map(|report| {
            let fit = if verb == "tune" { &report["fit"] } else { report };
            fit["features"].as_u64().unwrap()
        });
        assert_eq!((features, named_features), (3, 2), "{line}");
        assert_eq!(ok(at, "evaluate m t.csv --test same --json")["rows"], test_row_count(&named), "{line}");
        let count = |report: &serde_json::Value| report.to_string().matches("column person: ").count();
        let (warned, silent) = (count(&report), count(&named));
        // the report of tune has the warnings of its fit, too
        assert!(warned >= 1 && silent == 0, "{line}: {report}");
        assert!(report.to_string().contains("--test groups:20%:person"), "{line}: {report}");
        let (_, _, stderr) = kmill(at, &line);
        assert_eq!(stderr.matches("column person: ").count(), 1, "{line}: {stderr}");
    }
    let line = "fit ridge t.csv --target y --rank 20 -o m --json";
    for quiet in ["--test groups:20%:person", "--test 20% --features person,visit,x", "--test 20%:person", ""] {
        let report = ok(at, &format!("{line} {quiet}"));
        assert!(!report["warnings"].to_string().contains("column person: "), "{quiet}: {report}");
    }
}

/// Returns the number of test rows of a fit or of a search.
fn test_row_count(report: &serde_json::Value) -> u64 {
    let fit = if report["fit"].is_object() { &report["fit"] } else { report };
    fit["test_set"]["rows"].as_u64().unwrap()
}
