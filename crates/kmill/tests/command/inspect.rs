//! What `kmill inspect` recommends: other commands accept it.

use crate::run::{kmill, ok};
use serde_json::Value;
use std::path::Path;

/// Returns the options of the only finding with this topic.
fn options(report: &Value, topic: &str) -> String {
    let findings: Vec<&Value> =
        report["findings"].as_array().unwrap().iter().filter(|finding| finding["topic"] == topic).collect();
    assert_eq!(findings.len(), 1, "{topic}: {report}");
    findings[0]["options"].as_str().unwrap().to_string()
}

/// Runs a fit with each of the options, which are separated by semicolons.
fn accepts(at: &Path, fit: &str, options: &str) {
    for option in options.split("; ") {
        ok(at, &format!("{fit} {option} --rank 10 -o m --json -q"));
    }
}

/// A panel of persons, sorted by person, and within a person by visit.
#[test]
fn a_panel_has_groups_and_no_order() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let rows: String = (0..600)
        .map(|i| {
            let (person, visit) = (i / 6, i % 6);
            let born = 1940 + person * 7919 % 31;
            format!("{},{visit},{born},{}\n", 100 + 3 * person, (person as f64 * 2.1).sin() + (i as f64 * 1.3).sin())
        })
        .collect();
    std::fs::write(at.join("t.csv"), format!("person,visit,born,y\n{rows}")).unwrap();
    let report = ok(at, "inspect t.csv --target y --json");
    let groups = options(&report, "groups");
    assert_eq!(groups, "--test groups:20%:person; --folds groups:5:person");
    assert!(report["findings"].as_array().unwrap().iter().all(|finding| finding["topic"] != "order"), "{report}");
    accepts(at, "fit ridge t.csv --target y", &groups);
}

/// A series with parts of its dates as columns, and a column of mostly zeros.
#[test]
fn a_series_has_one_time() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut rows = String::new();
    for i in 0..900 {
        let (year, day) = (2001 + i / 150, i % 150);
        let waiting = if i % 300 < 12 { i % 300 + i / 300 } else { 0 };
        rows += &format!(
            "{year}-{:02}-{:02},{year},{day},{waiting},{}\n",
            1 + day / 28,
            1 + day % 28,
            (i as f64 * 1.3).sin()
        );
    }
    std::fs::write(at.join("t.csv"), format!("listed,year,day_of_year,waiting,y\n{rows}")).unwrap();
    let report = ok(at, "inspect t.csv --target y --json");
    let order = options(&report, "order");
    assert_eq!(order, "--test last:20%:listed; --folds forward:5:listed");
    let finding = report["findings"].as_array().unwrap().iter().find(|finding| finding["topic"] == "order").unwrap();
    assert_eq!(finding["finding"], "listed: ascends over the whole table (also year)");
    accepts(at, "fit ridge t.csv --target y", &order);
    // the days as a type of the file
    ok(at, "convert t.csv --types listed=date -o t.parquet -q");
    assert_eq!(options(&ok(at, "inspect t.parquet --target y --json"), "order"), order);
}

/// An identifier, a constant, a copy and a column computed from the target.
#[test]
fn all_exclusions_together_are_an_option_of_a_fit() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let rows: String = (0..600)
        .map(|i| {
            let (x, y) = ((i as f64 * 1.3).sin(), (i as f64 * 2.1).cos());
            format!("{},{x},{},3,{},{y}\n", i * 7919 % 100_003, 2.0 - x, y.exp())
        })
        .collect();
    std::fs::write(at.join("t.csv"), format!("id,x,copy,version,leak,y\n{rows}")).unwrap();
    let report = ok(at, "inspect t.csv --target y --json --report page.html");
    assert_eq!(report["features"], "*,!leak,!id,!version,!copy", "{report}");
    let page = std::fs::read_to_string(at.join("page.html")).unwrap();
    assert_eq!(page.matches("all exclusions").count(), 1);
    let fit = "fit ridge t.csv --target y --features *,!leak,!id,!version,!copy --rank 10 -o m --json";
    let fit = ok(at, fit);
    assert_eq!(fit["features"], 1, "{fit}");
}

/// Three classes, one of them rare and told by a column.
#[test]
fn recommendations_for_classes_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let rows: String = (0..600)
        .map(|i| {
            let result = if i % 25 == 0 { "positive" } else { ["negative", "invalid"][usize::from(i % 6 == 1)] };
            let cycles = if i % 25 == 0 { 20.0 + (i as f64).sin() } else { 45.0 };
            format!("{result},{cycles},{}\n", (i as f64 * 1.3).sin())
        })
        .collect();
    std::fs::write(at.join("t.csv"), format!("result,cycles,x\n{rows}")).unwrap();
    let report = ok(at, "inspect t.csv --target result --json");
    assert_eq!(options(&report, "gives-target-away"), "--features '*,!cycles'");
    let classes = options(&report, "classes");
    let tune = classes.strip_prefix("tune any ").unwrap();
    let line =
        format!("tune any t.csv --target result {tune} --kernels gaussian() --work 1,2 --rank 10 -o s.json --json -q");
    ok(at, &line);
    let (code, _, told) = kmill(at, &line.replace("log-loss", "auc"));
    assert!(code == 1 && told.contains("use log-loss or error"), "{told}");
}
