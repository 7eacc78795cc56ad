//! Solvers beside ridge regression on the command line: from fit to predict and evaluate, and what they refuse.

use crate::run::{kmill, ok};
use std::path::Path;

fn refused(folder: &Path, line: &str, message: &str) {
    let (code, _, stderr) = kmill(folder, line);
    assert!(code != 0 && stderr.contains(message), "{line}: exit {code}, {stderr}");
    assert!(!folder.join("refused").exists(), "{line} left a model");
}

#[test]
fn components_are_columns_and_need_no_target() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 3000 -o t.parquet -q");
    let fit = ok(at, "fit kpca t.parquet --features x* --components 3 --rank 100 -o m --json");
    let variance = fit["figures"][0]["values"].as_array().unwrap();
    assert_eq!(
        (fit["solver"].as_str().unwrap(), variance.len(), &fit["lambda"]),
        ("kpca", 3, &serde_json::Value::Null)
    );
    assert!(fit["certificate"]["trace_error"].as_f64().unwrap() < 0.1 && fit["train"].is_null());
    ok(at, "predict m t.parquet --keep y -o scores.parquet --json");
    let report = ok(at, "inspect scores.parquet --stats --json");
    let columns = report["columns"].as_array().unwrap();
    let names: Vec<&str> = columns.iter().map(|column| column["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["y", "component_0", "component_1", "component_2"]);
    // centred over the rows of the fit
    assert!(columns[1]["mean"].as_f64().unwrap().abs() < 1e-4, "{report}");
    let whitened = ok(at, "fit kpca t.parquet --features x* --whiten --rank 100 -o w --json");
    assert_eq!(whitened["figures"][0]["values"].as_array().unwrap().len(), 10);
    refused(at, "evaluate m t.parquet", "no truth");
}

#[test]
fn discriminants_classify_as_ridge_does() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (generator, least) in [("moons", 0.97f64), ("blobs", 0.85)] {
        ok(at, &format!("generate {generator} --rows 3000 -o t.parquet -q"));
        ok(at, "fit fisher t.parquet --target y --rank 100 --lambda 1e-4 -o m --json");
        let fisher = ok(at, "evaluate m t.parquet --json")["accuracy"].as_f64().unwrap();
        ok(at, "fit ridge t.parquet --target y --task classification --rank 100 --lambda 1e-5 -o r --json");
        let ridge = ok(at, "evaluate r t.parquet --json")["accuracy"].as_f64().unwrap();
        assert!(fisher > least.min(ridge - 0.01), "{generator}: {fisher} and {ridge}");
    }
}

#[test]
fn options_of_other_solvers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 300 -o t.parquet -q");
    refused(at, "fit kpca t.parquet --target y -o refused", "learns without a target");
    refused(at, "fit fisher t.parquet -o refused", "learns from a target");
    refused(at, "fit ridge t.parquet -o refused", "learns from a target");
    refused(at, "fit ridge t.parquet --target y --components 3 -o refused", "does not read it");
    refused(at, "fit kpca t.parquet --lambda 1e-3 -o refused", "does not read it");
    refused(at, "fit fisher t.parquet --target y --intercept none -o refused", "does not read it");
    refused(at, "fit fisher t.parquet --target y --ranks 10,20 -o refused", "does not read it");
    refused(at, "fit fisher t.parquet --target y --lambda 1e-9..1e-3 -o refused", "only ridge compares several");
    refused(at, "fit fishr t.parquet --target y -o refused", "fisher");
    let plan = ok(at, "plan kpca t.parquet --rank 50 --json");
    assert!(plan["fits"] == true && plan["passes"] == 3, "{plan}");
}
