//! Invalid options, questionable but valid options, and output on stdout.

use super::make::*;

#[test]
fn options_that_cannot_be() {
    let folder = folder();
    let at = folder.path();
    for (options, code, part) in [
        ("--lambda -1", 1, "must be positive and finite"),
        ("--lambda nan", 1, "must be positive and finite"),
        ("--lambda inf", 1, "must be positive and finite"),
        ("--lambda small", 2, "--lambda"),
        ("--rank 0", 2, "at least 1"),
        ("--kernel gausian(sigma=1)", 2, "did you mean 'gaussian'?"),
        ("--kernel gaussian(sgma=1)", 2, "did you mean 'sigma'?"),
        ("--kernel gaussian(sigma=0)", 2, "sigma must be > 0"),
        ("--kernel polynomial(degree=99)", 2, "degree must be"),
        ("--threads 0", 2, "at least 1"),
        ("--threads 100000", 2, "at most 1024"),
        ("--memory 1B", 1, "raise --memory to"),
        ("--memory lots", 2, "512MiB"),
        ("--rows 9..5", 2, "the range is empty"),
        ("--rows -5..9", 2, "not a row number"),
        ("--folds 0", 2, "--folds"),
        ("--folds 301", 1, "301 folds exceed the 300 rows"),
        ("--folds blocks:301", 1, "301 folds exceed the 300 rows"),
        ("--tolerance 0", 2, "between 0 and 1"),
        ("--tolerance nan", 2, "between 0 and 1"),
        ("--landmarks greed", 2, "greed"),
    ] {
        fails(at, &fit("t.parquet", options), code, part);
    }
    let folds = run(at, &fit("t.parquet", "--memory 16MiB --lambda 1e-6")).stderr;
    assert!(!folds.contains("fold"), "{folds}");
}

#[test]
fn what_is_only_strange_is_a_warning() {
    let folder = folder();
    let at = folder.path();
    for (data, options, part) in [
        ("t.parquet", "--rank 5000", "rank reduced from 5000 to"),
        ("x_constant.parquet", "", "feature x1 is constant"),
        ("y_constant.parquet", "", "target y is constant"),
        ("same.parquet", "", "rank reduced from 20 to 1"),
        ("zero.parquet", "", "rank reduced from 20 to 1"),
        ("t.parquet", "--tolerance 1e-30", "the tolerance was not reached"),
        ("large.parquet", "", ""),
        ("t.parquet", "--rank 1 --features x0", ""),
        ("t.parquet", "--threads 64 --memory 99TiB", ""),
        ("nan.parquet", "--missing drop", ""),
        ("nan.parquet", "--missing mean", ""),
        ("ü.parquet", "--target цель", ""),
        ("labels.parquet", "--features x* --target y,id", ""),
        ("labels.parquet", "--features x* --folds column:text", ""),
        ("labels.parquet", "--features x* --target text --task classification", ""),
        ("labels.parquet", "--features x* --target bool --task classification", ""),
    ] {
        let (warnings, report) = warns(at, &fit(data, options));
        assert!(warnings.contains(part), "{data} {options}: {warnings}");
        if part.is_empty() {
            assert!(!warnings.contains("is constant"), "{data} {options}: {warnings}");
        }
        assert!(report["rank"].as_u64().unwrap() >= 1);
        std::fs::remove_file(at.join("model")).unwrap();
    }
    let (_, report) = warns(at, &fit("y_constant.parquet", ""));
    assert!(report["train"]["r2"].is_null());
    let (_, scores) = warns(at, "evaluate model y_constant.parquet");
    assert!(scores["r2"].is_null(), "{scores}");
}

#[test]
fn json_is_alone_on_stdout_and_has_the_contracts_fields() {
    let folder = folder();
    let at = folder.path();
    let has = |report: &serde_json::Value, keys: &[&str]| {
        assert!(keys.iter().all(|key| report.get(key).is_some()), "{report}");
    };
    let (_, report) = warns(at, &fit("t.parquet", "--ranks 10,20"));
    has(&report, &["solver", "rows", "features", "targets", "map", "kernel", "rank", "lambda", "certificate"]);
    has(&report, &["surface", "train", "seconds", "passes", "bytes_read", "peak_rss_bytes", "memory_budget_bytes"]);
    has(&report["certificate"], &["trace_error", "overshoot", "floor"]);
    has(&report["surface"][0], &["rank", "lambda", "cv_mse"]);
    let (_, report) = warns(at, "evaluate model t.parquet");
    has(&report, &["rows", "mse", "rmse", "mae", "r2", "relative_error"]);
    let plan = run(at, "plan ridge t.parquet --target y --memory 1B --json");
    let report: serde_json::Value = serde_json::from_str(&plan.stdout).unwrap();
    assert!(plan.code == 1 && report["fits"] == false && plan.stderr.contains("raise --memory"), "{}", plan.stderr);
    has(&report, &["planned_bytes", "memory_budget_bytes", "stages"]);
    let (_, report) = warns(at, "inspect t.parquet");
    has(&report, &["format", "files", "rows", "columns"]);
    let (_, report) = warns(at, "inspect model");
    has(&report, &["kernel", "rank", "lambda", "features", "targets"]);
    let options = "--features x* --target bool --task classification";
    let (_, report) = warns(at, &fit("labels.parquet", options));
    assert_eq!(report["classes"], serde_json::json!([false, true]));
    has(&report["surface"][0], &["cv_mse"]);
    let (_, report) = warns(at, "evaluate model labels.parquet");
    has(&report, &["rows", "accuracy", "error", "confusion", "auc"]);
    for line in ["inspect no", "plan ridge no.parquet --target y", "evaluate model no", "predict model no -o p.npy"] {
        fails(at, &format!("{line} --json"), 1, "no such file");
    }
}
