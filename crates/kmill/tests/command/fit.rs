//! `fit` and `plan` on generated tables: the documented JSON, refusals, and identical bytes.

use crate::run::{kmill, ok};

#[test]
fn a_fit_learns_and_reports_what_the_contract_says() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 4000 -o train.parquet -q");
    ok(at, "generate friedman1 --rows 1000 --seed 1 -o test.parquet -q");
    let fit = ok(at, "fit ridge train.parquet --target y --ranks 50..200 --lambda 1e-8..1e-5 -o m --json");
    let keys = [
        "solver",
        "rows",
        "features",
        "targets",
        "map",
        "kernel",
        "rank",
        "lambda",
        "certificate",
        "surface",
        "train",
        "seconds",
        "passes",
        "bytes_read",
        "peak_rss_bytes",
        "memory_budget_bytes",
    ];
    assert!(keys.iter().all(|key| fit.get(key).is_some()), "{fit}");
    let cells = fit["surface"].as_array().unwrap();
    assert_eq!((cells.len(), &fit["rows"], &fit["features"]), (3 * 7, &4000.into(), &10.into()));
    let best = cells.iter().map(|cell| cell["cv_mse"].as_f64().unwrap()).fold(f64::INFINITY, f64::min);
    let chosen = cells.iter().find(|cell| cell["rank"] == fit["rank"] && cell["lambda"] == fit["lambda"]).unwrap();
    assert_eq!(chosen["cv_mse"].as_f64().unwrap(), best);
    // the variance of the target is about 25, the variance of the noise 1
    assert!(best < 4.0, "{best}");
    let scores = ok(at, "evaluate m test.parquet --json");
    assert_eq!(scores["rows"], 1000);
    assert!(scores["mse"].as_f64().unwrap() < 4.0 && scores["r2"].as_f64().unwrap() > 0.8, "{scores}");
}

#[test]
fn threads_memory_and_file_format_do_not_change_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 3000 -o t.parquet -q");
    ok(at, "convert t.parquet --target y -o t.npy -q");
    let learn = "--task classification --rank 40 --lambda 1e-6,1e-4 -q -o";
    ok(at, &format!("fit ridge t.parquet --target y {learn} a --threads 1"));
    ok(at, &format!("fit ridge t.parquet --target y {learn} b --threads 3 --memory 256MiB"));
    ok(at, &format!("fit ridge t.npy --target t.y.npy {learn} c --threads 2"));
    let read = |name: &str| std::fs::read(at.join(name)).unwrap();
    assert!(read("a") == read("b"), "threads and memory");
    assert!(read("a") == read("c"), "file format");
    let scores = ok(at, "evaluate a t.parquet --json");
    assert!(scores["accuracy"].as_f64().unwrap() > 0.98 && scores["auc"].as_f64().unwrap() > 0.99, "{scores}");
}

#[test]
fn a_plan_runs_nothing_and_a_budget_too_small_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 2000 -o t.parquet -q");
    let plan = ok(at, "plan ridge t.parquet --target y --rank 500 --json");
    assert!(plan["planned_bytes"].as_u64().unwrap() > 1 << 20 && plan["fits"] == true, "{plan}");
    assert_eq!((&plan["passes"], plan["stages"].as_array().unwrap().len()), (&4.into(), 6));
    assert!(plan["bytes_read"].as_u64().unwrap() > 0, "{plan}");
    assert!(plan["tile"].as_u64().unwrap() > 0 && plan["lanes"]["scan"].as_u64().unwrap() > 0, "{plan}");
    // a plan writes no file, and accepts few or no matching rows
    let count = || std::fs::read_dir(at).unwrap().count();
    let before = count();
    for options in ["--where y==99", "--rows ..2", "--landmarks uniform --folds blocks:3"] {
        let plan = ok(at, &format!("plan ridge t.parquet --target y {options} --rank 20 --json"));
        assert_eq!(plan["fits"], true, "{options}");
    }
    assert_eq!(count(), before);
    // the plan is printed before the fit, and `bytes_read` excludes the rows read for the plan
    let (_, fit, stderr) = kmill(at, "fit ridge t.parquet --target y --rank 20 --lambda 1e-6 --json -v -o m");
    assert!(stderr.contains("plan for 2,000 rows") && stderr.contains("Gram matrix"), "{stderr}");
    assert!(fit["bytes_read"].as_u64().unwrap() > 0, "{fit}");
    std::fs::remove_file(at.join("m")).unwrap();
    let (code, plan, stderr) = kmill(at, "plan ridge t.parquet --target y --rank 500 --memory 1MiB --json");
    assert!(code == 1 && stderr.contains("raise --memory"), "{code}: {stderr}");
    assert!(plan["bytes_read"].is_null(), "{plan}");
    assert_eq!(plan["fits"], false);
    // plan and fit name the largest stage, and the run fits the budget that they name
    let stages = plan["stages"].as_array().unwrap().iter();
    let largest = stages.max_by_key(|stage| stage["bytes"].as_u64()).unwrap()["what"].as_str().unwrap().to_string();
    let budget = stderr.rsplit("--memory to ").next().unwrap().trim().to_string();
    assert!(stderr.contains(&format!("error: {largest} needs")), "{largest}: {stderr}");
    let line = format!("plan ridge t.parquet --target y --rank 500 --memory {budget} --json");
    assert_eq!(ok(at, &line)["fits"], true, "{budget}");
    let (code, _, stderr) = kmill(at, "fit ridge t.parquet --target y --rank 500 --memory 1MiB -o m");
    assert!(code == 1 && stderr.contains("--memory") && stderr.contains("raise"), "{stderr}");
    assert!(!at.join("m").exists());
}

#[test]
fn a_plan_names_the_kernel_values_that_the_budget_allows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 5000 -o t.parquet -q");
    let stage = |options: &str| {
        let plan =
            ok(at, &format!("plan quantile t.parquet --target y --map exact --quantiles 0.1,0.9 {options} --json"));
        assert_eq!(plan["fits"], true, "{plan}");
        plan["stages"].as_array().unwrap().iter().find(|stage| stage["what"] == "SVMs").unwrap().clone()
    };
    // the kernel matrix in f32 without the rows of the working set, which every fit stores
    let all = stage("--memory 1GiB");
    assert_eq!((&all["optional_bytes"], &all["optional_terms"][0]["bytes"]), (&79_520_000.into(), &79_520_000.into()));
    let some = stage("--memory 100MiB");
    assert_eq!(some["optional_bytes"].as_u64().unwrap() + some["bytes"].as_u64().unwrap(), 100 << 20);
    // the whole kernel matrix of few rows
    assert_eq!(stage("--rows ..4000")["optional_bytes"], 0);
}

#[test]
fn data_that_cannot_be_learned_from_is_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 200 -o t.parquet -q");
    for (options, part) in [
        ("--target z", "\"z\""),
        ("--target y --rows 0..1", "ridge needs at least 2 rows, and 1 is left"),
        ("--target y --task classification --where y==0", "1 class"),
        ("--target y --where y==9", "row"),
        ("--target y --features y", "target"),
    ] {
        let (code, _, stderr) = kmill(at, &format!("fit ridge t.parquet {options} --rank 5 -o m -q"));
        let errors = stderr.lines().filter(|line| line.starts_with("error: ")).count();
        assert!(code == 1 && errors == 1 && stderr.contains(part), "{options}: {code} {stderr}");
        assert!(!at.join("m").exists());
    }
}
