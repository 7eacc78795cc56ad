//! `kmill tune`: the search, its table, its model, and refusals.

use crate::run::{holds, kmill, ok};
use std::path::Path;

fn refused(folder: &Path, line: &str, code: i32, message: &str) {
    let (got, _, stderr) = kmill(folder, line);
    assert!(got == code && stderr.contains(message), "{line}: exit {got}, {stderr}");
    assert!(!folder.join("refused").exists(), "{line} left a model");
}

const SEARCH: &str =
    "tune ridge t.parquet --target y --ranks 50,100 --lambda 1e-8..1e-4 --sample 2000 --factors 0.25..4";

/// Returns the lambdas that m.safetensors was chosen from.
fn lambdas(at: &Path) -> String {
    let card = ok(at, "inspect m.safetensors --json");
    let lambdas = card["options"]["solver_options"]["lambda"].as_array().unwrap();
    lambdas.iter().map(|lambda| lambda.as_f64().unwrap().to_string()).collect::<Vec<_>>().join(",")
}

#[test]
fn the_best_kernel_is_fitted_and_every_cell_is_in_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 6000 -o t.parquet -q");
    let report = ok(at, &format!("{SEARCH} --kernels gaussian(),laplacian() -o m -o s.csv -o s.json --json"));
    // ten kernels on 500 rows, five on 1,000, three on 2,000
    let rows = report["rows"].as_array().unwrap();
    let on = |rung: u64| rows.iter().filter(|row| row["rung"].as_u64() == Some(rung)).count();
    assert_eq!([0, 1, 2, 3].map(on), [10 * 18, 5 * 18, 3 * 18, 0], "{report}");
    let fit = &report["fit"];
    assert_eq!((&fit["kernel"], &fit["rows"]), (&report["kernel"], &6000.into()));
    assert!(fit["surface"].as_array().unwrap().len() == 18 && fit["train"]["r2"].as_f64().unwrap() > 0.85, "{fit}");
    let winner = rows.iter().rfind(|row| row["best"] == true && row["kept"] == true).unwrap();
    assert_eq!(winner["kernel"], report["kernel"]);
    // the CSV and JSON tables are the same
    let table = ok(at, "inspect s.csv --json");
    assert_eq!(table["rows"].as_u64().unwrap() as usize, rows.len());
    let stored: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(at.join("s.json")).unwrap()).unwrap();
    assert_eq!(stored["rows"], report["rows"]);
    // a fit with the chosen options gives the same model
    let kernel = report["kernel"].as_str().unwrap().replace(' ', "");
    let line = format!(
        "fit ridge t.parquet --target y --missing indicator --ranks 50,100 --lambda 1e-8..1e-4 --kernel {kernel} -o f \
             --json"
    );
    ok(at, &line);
    assert!(std::fs::read(at.join("m")).unwrap() == std::fs::read(at.join("f")).unwrap(), "another model");
    // threads change nothing
    let one = ok(at, &format!("{SEARCH} --kernels gaussian(),laplacian() -o one.csv --threads 1 --json"));
    assert_eq!((&one["rows"], one["fit"].is_null()), (&report["rows"], true));
    assert!(std::fs::read(at.join("s.csv")).unwrap() == std::fs::read(at.join("one.csv")).unwrap());
}

#[test]
fn a_search_learns_what_matters() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate hidden --rows 6000 --features 12 -o t.parquet -q");
    let line = "tune ridge t.parquet --target y --rows ..5000 --kernels gaussian() --rank 300";
    let report = ok(at, &format!("{line} -o m.safetensors -o s.csv --json"));
    let importance = report["fit"]["metric"]["importance"].as_array().unwrap();
    let mut leading: Vec<&str> = importance[..4].iter().map(|pair| pair[0].as_str().unwrap()).collect();
    leading.sort_unstable();
    assert_eq!(leading, ["x0", "x1", "x2", "x3"], "{importance:?}");
    assert!(importance[4][1].as_f64().unwrap() < 0.01, "{importance:?}");
    let score = ok(at, "evaluate m.safetensors t.parquet --rows 5000.. --json");
    assert!(score["r2"].as_f64().unwrap() > 0.9, "{score}");
    // the importance of the four leading features varies little between folds
    let spread = report["fit"]["metric"]["spread"].as_array().unwrap();
    assert_eq!((spread.len(), importance.len()), (12, 12));
    assert!(spread[..4].iter().all(|s| (1e-6..0.1).contains(&s.as_f64().unwrap())), "{spread:?}");
    // without a metric the fit is poor
    let plain = ok(at, "fit ridge t.parquet --target y --rows ..5000 --rank 300 -o p.safetensors --json");
    assert!(plain["train"]["r2"].as_f64().unwrap() < 0.8, "{plain}");
    let shown = ok(at, "inspect m.safetensors --json");
    assert_eq!(shown["metric"]["importance"], report["fit"]["metric"]["importance"]);
    // a fit with the metric of the model gives that model
    let kernel = report["kernel"].as_str().unwrap();
    let fit = format!(
        "fit ridge t.parquet --target y --missing indicator --rows ..5000 --rank 300 --kernel {kernel} --landmarks uniform --metric m.safetensors"
    );
    ok(at, &format!("{fit} --lambda {} -o f.safetensors --json", lambdas(at)));
    assert!(std::fs::read(at.join("m.safetensors")).unwrap() == std::fs::read(at.join("f.safetensors")).unwrap());
    refused(
        at,
        &format!("{line} --factors 0.5,1 --metric learn -o refused"),
        1,
        "the metric determines the length scales",
    );
    refused(at, "tune ridge t.parquet --target y --metric none --time 1s --rank 20 -o refused", 2, "--rank");
}

#[test]
fn the_work_of_a_search_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    disc(&at.join("t.csv"), 1000);
    let line = "tune any t.csv --target y --features x* --sample 600 --json -o";
    // the time ends after the first round, before a metric can compete: the smallest rank is taken
    let hurried = ok(at, &format!("{line} m.safetensors --time 0.001s"));
    assert_eq!(hurried["repeat"], "--work 1,0 --ranks 500", "{hurried}");
    let bytes = |name: &str| std::fs::read(at.join(name)).unwrap();
    let repeated = |report: &serde_json::Value, work: &str| {
        let again = ok(at, &format!("{line} a.safetensors --work {work} --ranks 500 --threads 1"));
        assert_eq!((&again["work"], &again["rows"]), (&report["work"], &report["rows"]));
        assert!(bytes("m.safetensors") == bytes("a.safetensors"), "{work}");
    };
    repeated(&hurried, "1,0");
    // a search that ends while it learns the first metric, and during the trials
    let cut = ok(at, &format!("{line} m.safetensors --work 7,1 --ranks 500"));
    assert_eq!((&cut["work"]["kernels"], &cut["work"]["solvers"]), (&7.into(), &1.into()), "{cut}");
    assert_eq!((cut["learned"].as_array().unwrap().len(), cut["contenders"].as_array().unwrap().len() > 1), (7, true));
    repeated(&cut, "7,1");
    let whole = ok(at, &format!("{line} w.safetensors --work 500,100 --ranks 500"));
    assert!(whole["history"].as_array().unwrap().len() > 8 && whole["work"]["machines"].is_null(), "{whole}");
    // with enough work the two best kernels learn their metrics again, unless the rank is low
    let refined = |report: &serde_json::Value| {
        report["learned"].as_array().unwrap().iter().filter(|round| round["rank"] == 2000).count()
    };
    assert!(refined(&whole) > 4 && refined(&cut) == 0, "{whole}");
    assert_eq!(refined(&ok(at, "tune ridge t.csv --target y --features x* --rank 300 -o low.safetensors --json")), 0);
    // the work that was done gives the same model
    let made = format!("{},{}", whole["work"]["kernels"], whole["work"]["solvers"]);
    ok(at, &format!("{line} a.safetensors --work {made} --ranks 500"));
    assert!(bytes("w.safetensors") == bytes("a.safetensors"), "{made}");
    refused(at, "tune any t.csv --target y --work 3 -o refused", 2, "such as 4,12");
    refused(at, "tune any t.csv --target y --work 3,1 --time 1s -o refused", 2, "--time");
}

#[test]
fn the_kernel_itself_is_tried_where_there_is_time() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // a step function, which few landmarks smooth out
    let place = |i: usize, step: usize| ((i * step) % 1009) as f64 / 504.5 - 1.0;
    let row = |i: usize| (place(i, 389), place(i, 661));
    let line = |i: usize| {
        let (a, b) = row(i);
        format!("{a},{b},{}\n", ((4.0 * a).floor() + (3.0 * b).floor()) * 0.5 + a)
    };
    let write = |name: &str, rows: std::ops::Range<usize>| {
        std::fs::write(at.join(name), format!("x0,x1,y\n{}", rows.map(line).collect::<String>())).unwrap();
    };
    write("t.csv", 0..300);
    write("new.csv", 300..800);
    let tune = "tune any t.csv --target y --kernels gaussian(),laplacian() --json -o";
    let found = ok(at, &format!("{tune} m.safetensors --time 10min"));
    let repeat = found["repeat"].as_str().unwrap();
    assert!(repeat.starts_with("--work ") && repeat.ends_with(" --map exact"), "{found}");
    assert_eq!((&found["fit"]["map"], &found["fit"]["rank"]), (&"exact".into(), &300.into()));
    let contenders = found["contenders"].as_array().unwrap();
    let chosen: Vec<_> = contenders.iter().filter(|contender| contender["chosen"] == true).collect();
    assert!(chosen.len() == 1 && chosen[0]["solver"].as_str().unwrap().contains("on the exact kernel"), "{found}");
    // the lambda of the trials is rescaled in the fit: lambda n is constant
    let typed = chosen[0]["solver"].as_str().unwrap().rsplit(' ').next().unwrap().parse::<f64>().unwrap();
    let lambda = found["fit"]["lambda"].as_f64().unwrap();
    assert!(lambda < typed && lambda > 0.5 * typed, "{lambda} {typed}");
    let bytes = |name: &str| std::fs::read(at.join(name)).unwrap();
    ok(at, &format!("{tune} again.safetensors --threads 1 {repeat}"));
    assert!(bytes("m.safetensors") == bytes("again.safetensors"), "{repeat}");
    // the model equals the fit that the report describes
    let kernel = found["kernel"].as_str().unwrap().replace(' ', "");
    let metric = if found["metric"] == "none" { "none" } else { "m.safetensors" };
    let scale = found["scale"].as_str().unwrap();
    let fit = format!(
        "fit ridge t.csv --target y --missing indicator --map exact --kernel {kernel} --metric {metric} --scale {scale} --lambda {lambda:e} -o f.safetensors --json"
    );
    ok(at, &fit);
    let error = |model: &str| ok(at, &format!("evaluate {model} new.csv --json"))["mse"].as_f64().unwrap();
    let (tuned, fitted) = (error("m.safetensors"), error("f.safetensors"));
    assert!((tuned / fitted - 1.0).abs() < 1e-3, "{tuned} {fitted}");
    ok(at, &format!("{tune} map.safetensors --rank 300"));
    assert!(tuned < 1.02 * error("map.safetensors"), "{tuned}");
    // a requested landmark scheme is kept
    let named = ok(at, &format!("{tune} l.safetensors --time 10min --landmarks uniform"));
    assert_eq!(named["fit"]["map"], "nystrom", "{named}");
}

#[test]
fn long_tails_are_drawn_in() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let (mut text, mut state) = ("x0,x1,y\n".to_string(), 1u64);
    let mut number = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f64 / (1u64 << 23) as f64 - 1.0
    };
    for _ in 0..1500 {
        // half of the values are within sinh(4) = 27 of 0; the function is smooth in asinh(x / 27)
        let (a, b) = ((8.0 * number()).sinh(), (8.0 * number()).sinh());
        text += &format!("{a},{b},{}\n", (a / 27.0).asinh().sin() + (b / 27.0).asinh().cos());
    }
    std::fs::write(at.join("t.csv"), text).unwrap();
    let line = "tune ridge t.csv --target y --kernels gaussian() --rank 200 --rows ..1000 --json -o";
    let report = ok(at, &format!("{line} m.safetensors"));
    assert_eq!(report["scale"], "asinh", "{report}");
    let kept =
        |scale: &str| report["rows"].as_array().unwrap().iter().any(|r| r["scale"] == scale && r["kept"] == true);
    assert!(kept("asinh") && !kept("standard"));
    let error = |model: &str| ok(at, &format!("evaluate {model} t.csv --rows 1000.. --json"))["mse"].as_f64().unwrap();
    // a requested scaling is the only one tried
    let standard = ok(at, &format!("{line} s.safetensors --scale standard"));
    assert_eq!(standard["scale"], "standard");
    let (bent, straight) = (error("m.safetensors"), error("s.safetensors"));
    assert!(bent < 0.5 * straight, "{bent} and {straight}");
    // a fit with these options gives that model
    let kernel = report["kernel"].as_str().unwrap();
    let fit = format!(
        "fit ridge t.csv --target y --missing indicator --rank 200 --rows ..1000 --kernel {kernel} --landmarks uniform"
    );
    let metric = if report["metric"] == "none" { "none" } else { "m.safetensors" };
    ok(at, &format!("{fit} --scale asinh --metric {metric} --lambda {} -o f.safetensors --json", lambdas(at)));
    let bytes = |name: &str| std::fs::read(at.join(name)).unwrap();
    assert!(bytes("m.safetensors") == bytes("f.safetensors"));
}

#[test]
fn scores_that_need_no_folds() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate blobs --rows 3000 -o t.parquet -q");
    let classes = format!("{SEARCH} --task classification");
    let gcv = ok(at, &format!("{classes} --score gcv -o t.arrow --json"));
    let cells = gcv["rows"].as_array().unwrap();
    assert!(cells.iter().all(|row| row["cv_mse"].is_null()) && cells.iter().any(|row| row["gcv"].is_f64()), "{gcv}");
    let line = "tune svm t.parquet --target y --score alignment --rank 50 --sample 1000 -o m.safetensors --json";
    let svm = ok(at, line);
    assert!(svm["fit"]["solver"] == "svm" && svm["rows"][0]["alignment"].is_f64(), "{svm}");
    assert!(ok(at, "evaluate m.safetensors t.parquet --json")["accuracy"].as_f64().unwrap() > 0.85);
    // folds of a column apply to the sample too
    ok(at, "tune ridge t.parquet --target x0 --features x1 --folds column:y --rank 20 --sample 1000 -o c.csv --json");
}

/// Writes two features, a fold, a class that is a disc, and a number whose sign is the class.
fn disc(path: &Path, rows: usize) {
    let mut text = "x0,x1,f,c,y\n".to_string();
    for i in 0..rows {
        let place = |step: usize| ((i * step) % 1009) as f64 / 504.5 - 1.0;
        let (a, b) = (place(389), place(661));
        let y = 0.5 - a * a - b * b;
        let class = if y > 0.0 { "in" } else { "out" };
        text += &format!("{a},{b},{},{class},{y}\n", (i * 7) % 5);
    }
    std::fs::write(path, text).unwrap();
}

#[test]
fn the_error_of_rows_kept_apart_is_that_of_a_fit_without_them() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    disc(&at.join("t.csv"), 300);
    // every row is a landmark, so that the selection does not matter
    let fit =
        "ridge t.csv --target y --features x* --scale none --metric none --rank 300 --lambda 1e-5,1e-4 --precision f64";
    let line = format!(
        "tune {fit} --kernels gaussian(sigma=0.7),gaussian(sigma=0.5) --factors 1 --folds column:f -o s.json --json"
    );
    let report = ok(at, &line);
    let test = &report["test"];
    assert_eq!((&test["rows"], &test["learned_from"]), (&60.into(), &240.into()), "{test}");
    let kernel = report["kernel"].as_str().unwrap();
    let mut errors = Vec::new();
    for fold in 0..5 {
        let apart = format!("fit {fit} --kernel {kernel} -o m --folds 5 --where");
        let (code, _, stderr) = kmill_where(at, &apart, &format!("f != {fold}"));
        assert_eq!(code, 0, "{stderr}");
        let (_, score, _) = kmill_where(at, "evaluate m t.csv --target y --json --where", &format!("f == {fold}"));
        errors.push(score["mse"].as_f64().unwrap());
    }
    let error = test["error"].as_f64().unwrap();
    assert!(errors.iter().any(|other| (error / other - 1.0).abs() < 1e-6), "{error} is none of {errors:?}");
    assert!(test["r2"].as_f64().unwrap() > 0.99, "{test}");
}

/// Runs a line with a condition, which contains spaces.
fn kmill_where(folder: &Path, line: &str, condition: &str) -> (i32, serde_json::Value, String) {
    let words = line.split_whitespace().chain([condition]);
    let output =
        std::process::Command::new(env!("CARGO_BIN_EXE_kmill")).current_dir(folder).args(words).output().unwrap();
    let json = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code().unwrap(), json, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn any_solver_is_tried_and_the_best_is_fitted() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    disc(&at.join("t.csv"), 360);
    let line = "tune any t.csv --target c --features x* --kernels gaussian() --rank 50 -o m.safetensors --json";
    let report = ok(at, line);
    let contenders = report["contenders"].as_array().unwrap();
    let metrics = if report["learned"].as_array().unwrap().iter().any(|round| round["form"] != "none") { 2 } else { 1 };
    assert!(contenders.len() == 9 || contenders.len() == 9 * metrics, "{contenders:?}");
    let folds = |contender: &serde_json::Value| contender["errors"].as_array().unwrap().len();
    let finalists = contenders.iter().filter(|contender| folds(contender) == 3);
    let least = finalists.min_by(|a, b| a["mean"].as_f64().unwrap().total_cmp(&b["mean"].as_f64().unwrap())).unwrap();
    assert!(least["chosen"] == true && contenders.iter().all(|contender| folds(contender) > 0), "{contenders:?}");
    let solver = report["solver"].as_str().unwrap();
    assert!(least["solver"].as_str().unwrap().starts_with(solver), "{least}");
    assert_eq!(ok(at, "inspect m.safetensors --json")["solver"], report["solver"]);
    assert!(report["test"]["error"].as_f64().unwrap() < 0.1, "{}", report["test"]);
    assert!(ok(at, "evaluate m.safetensors t.csv --target c --json")["error"].as_f64().unwrap() < 0.08);
    // a chosen solver competes with itself, at several regularisation parameters or the given one
    let svm = ok(at, "tune svm t.csv --target c --features x* --kernels gaussian() --rank 50 -o s.json --json");
    assert_eq!((svm["contenders"].as_array().unwrap().len(), &svm["solver"]), (4, &"svm".into()));
    let one =
        "tune svm t.csv --target c --features x* --kernels gaussian() --rank 50 --C 10 -o s.json --json --threads 1";
    assert_eq!(ok(at, one)["contenders"].as_array().unwrap().len(), 1);
    // a numeric target that looks like classes gives a warning
    let (_, _, stderr) =
        kmill(at, "tune ridge t.csv --target f --features x* --kernels gaussian() --rank 20 -o f.json");
    assert!(
        stderr.contains("target f has integer values from 0 to 4") && stderr.contains("--task classification"),
        "{stderr}"
    );
    // threads do not change the model
    ok(at, &line.replace("-o m.", "--threads 1 -o one."));
    assert!(std::fs::read(at.join("m.safetensors")).unwrap() == std::fs::read(at.join("one.safetensors")).unwrap());
}

#[test]
fn a_series_is_cut_into_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let rows: String = (0..1200).map(|i| format!("{},{}\n", (i * 389) % 1009, (i as f64 / 40.0).sin())).collect();
    std::fs::write(at.join("t.csv"), format!("x,y\n{rows}")).unwrap();
    let line = "tune ridge t.csv --target y --metric none --kernels gaussian() --factors 1,2 --rank 20 -o m.safetensors --json";
    let (_, report, stderr) = kmill(at, line);
    assert_eq!((&report["folds"], &report["fit"]["folds"]), (&"blocks:6".into(), &"blocks:6".into()), "{stderr}");
    assert!(stderr.contains("folds are 6 contiguous blocks of rows; use --folds 5 for random folds"), "{stderr}");
    assert!(!stderr.contains("integer values"), "{stderr}");
    let random = ok(at, &format!("{line} --folds 5"));
    assert_eq!((&random["folds"], &random["fit"]["folds"]), (&"5".into(), &"5".into()));
    // a trend may also be the order of the table, so folds stay random, with a warning
    let rows: String =
        (0..1200).map(|i| format!("{},{}\n", (i * 389) % 1009, (i as f64 / 40.0).sin() + i as f64 / 100.0)).collect();
    std::fs::write(at.join("t.csv"), format!("x,y\n{rows}")).unwrap();
    let (_, trend, stderr) = kmill(at, line);
    assert!(trend["folds"] == "5" && stderr.contains("random folds underestimate the error on new rows"), "{stderr}");
}

#[test]
fn half_of_a_metric_is_tried_in_a_series() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // y = sin 4a + a slow random walk, whose level the time t tells only within a block
    let (mut text, mut walk, mut state) = ("t,a,b,y\n".to_string(), 0.0, 11u64);
    let mut uniform = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f64 / (1u64 << 24) as f64
    };
    for i in 0..600 {
        walk = 0.99 * walk + 0.4 * uniform() - 0.2;
        let (a, b) = (uniform(), uniform());
        text += &format!("{},{a},{b},{}\n", f64::from(i).sqrt(), 0.3 * (4.0 * a).sin() + walk);
    }
    std::fs::write(at.join("t.csv"), text).unwrap();
    let line = "tune ridge t.csv --target y --kernels gaussian(),laplacian() --work 12,4 --rank 60";
    let report = ok(at, &format!("{line} -o m.safetensors --json"));
    assert_eq!(report["folds"], "blocks:6", "{report}");
    let contenders = report["contenders"].as_array().unwrap();
    let halves: Vec<_> = contenders.iter().filter(|contender| contender["metric"] == "half diagonal").collect();
    assert_eq!((halves.len(), contenders.len()), (2, 3), "{contenders:?}");
    // the metric is learned without the fold: the metric of all folds has the error 0.254 there
    let learned = contenders.iter().find(|contender| contender["metric"] == "diagonal").unwrap();
    assert!(learned["errors"][0].as_f64().unwrap() < 0.22, "{learned}");
    let chosen = halves.iter().find(|contender| contender["chosen"] == true).unwrap();
    let kernel = ok(at, "inspect m.safetensors --json")["kernel"].as_str().unwrap().to_string();
    assert!(kernel.starts_with("0.5*") && kernel.ends_with(chosen["kernel"].as_str().unwrap()), "{kernel} {chosen}");
    // a metric of a named form is not replaced
    let named = ok(at, &format!("{} --metric diagonal -o d.safetensors --json", line.replace("12,4", "3,2")));
    assert!(named["contenders"].as_array().unwrap().iter().all(|c| c["metric"] != "half diagonal"), "{named}");
}

#[test]
fn what_a_search_cannot_follow_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 300 -o t.parquet -q");
    let tune = "tune ridge t.parquet --target y -o refused";
    refused(at, &format!("{tune} --factors 0,1"), 2, "positive");
    refused(at, &format!("{tune} --kernels gaussian(),gausian()"), 2, "did you mean");
    refused(at, &format!("{tune} --kernels gaussian(),gaussian()"), 2, "named twice");
    refused(at, &format!("{tune} --kernels laplacian() --kernel linear()"), 1, "omit --kernel");
    refused(at, &format!("{tune} --map exact --std"), 1, "the exact kernel computes no features");
    refused(at, &format!("{tune} --tolerance 1e-2"), 1, "leave it out");
    refused(at, &format!("{tune} --lambda 1e-6 --rank 10"), 1, "it needs folds");
    refused(at, "tune kpca t.parquet -o refused", 2, "kpca");
    refused(at, "tune ridge t.parquet --target y", 2, "--output");
    refused(at, &format!("{tune} -o other"), 1, "a model is already named");
    refused(at, "tune ridge t.parquet --target y -o a.csv --resume", 1, "only the fit keeps a checkpoint");
    refused(at, &format!("{tune} --memory 33MiB"), 1, "raise --memory");
}

#[test]
fn a_search_that_is_killed_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    disc(&at.join("t.csv"), 1000);
    let line = "tune any t.csv --target c --features x* --rank 100 --checkpoint-every 0s --json --quiet -o";
    let (code, mut whole, stderr) = kmill(at, &format!("{line} whole.safetensors"));
    assert_eq!(code, 0, "{stderr}");
    let words = format!("{line} m.safetensors");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_kmill"));
    let child = child.current_dir(at).args(words.split_whitespace()).stdout(std::process::Stdio::null());
    let mut child = child.stderr(std::process::Stdio::null()).spawn().unwrap();
    let saved = at.join("m.safetensors.search");
    while child.try_wait().unwrap().is_none() && !holds(&saved, |name| name.ends_with("-0001.safetensors")) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(running && saved.exists(), "the search ended before it could be killed");
    refused(at, &format!("{line} m.safetensors --resume --sample 500"), 1, "search was");
    let (code, mut resumed, stderr) = kmill(at, &format!("{line} m.safetensors --threads 1"));
    assert_eq!(code, 0, "{stderr}");
    let model = |name: &str| std::fs::read(at.join(name)).unwrap();
    assert!(model("m.safetensors") == model("whole.safetensors"), "another model");
    assert!(!saved.exists() && !at.join("m.safetensors.checkpoint").exists());
    for report in [&mut whole, &mut resumed] {
        let report = report.as_object_mut().unwrap();
        report.retain(|name, _| ["kernel", "learned", "rows", "contenders", "test", "solver"].contains(&name.as_str()));
        assert_eq!(report.len(), 6);
    }
    assert_eq!(whole, resumed);
}

/// Writes a table whose class `yes` is a rare, curved region with a ragged boundary.
fn rare(path: &Path, rows: usize) {
    let mut text = "x0,x1,c\n".to_string();
    for i in 0..rows {
        let place = |step: usize| ((i * step) % 1009) as f64 / 504.5 - 1.0;
        let (a, b, noise) = (place(389), place(661), place(827));
        let class = if (3.0 * a).sin() * b + 0.1 * noise > 0.7 { "yes" } else { "no" };
        text += &format!("{a},{b},{class}\n");
    }
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_rare_class_is_compared_by_its_probabilities() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    rare(&at.join("t.csv"), 1500);
    let line = "tune any t.csv --target c --kernels gaussian() --rank 60 --rows ..1000 --json -o";
    let report = ok(at, &format!("{line} m.safetensors --report page.html"));
    let contenders = report["contenders"].as_array().unwrap();
    let first = &contenders[0];
    assert_eq!((&report["select"], &first["metric"]), (&"log-loss".into(), &"none".into()), "{report}");
    assert!(first["solver"].as_str().unwrap().starts_with("logistic"), "{first}");
    assert!(contenders.iter().all(|contender| !contender["solver"].as_str().unwrap().starts_with("ridge")));
    let share = report["rarer"].as_f64().unwrap();
    assert!((0.03..0.1).contains(&share), "{share}");
    // the test rows are scored by log-loss too, and the model has probabilities
    let test = &report["test"];
    assert!(test["log_loss"].as_f64().unwrap() < 0.2 && test["auc"].as_f64().unwrap() > 0.95, "{test}");
    let score = ok(at, "evaluate m.safetensors t.csv --rows 1000.. --json");
    assert!(score["auc"].as_f64().unwrap() > 0.95 && score["log_loss"].as_f64().unwrap() < 0.2, "{score}");
    let page = std::fs::read_to_string(at.join("page.html")).unwrap();
    assert!(
        [">Solvers</h2>", "never predicting the rarer class", ">Result</h2>"].iter().all(|part| page.contains(part)),
        "{page}"
    );
    let by_auc = ok(at, &format!("{line} a.json --measure auc"));
    assert!(
        by_auc["rarer"].is_null() && by_auc["contenders"].as_array().unwrap().iter().any(|c| c["solver"] == "ridge")
    );
    let named = ok(at, &format!("{} l.json --measure log-loss", line.replace("any", "logistic")));
    assert_eq!((&named["select"], &named["rarer"]), (&"log-loss".into(), &serde_json::Value::Null), "{named}");
    refused(
        at,
        &line.replace("any", "svm").replace("--json -o", "--measure brier -o refused"),
        1,
        "are not probabilities",
    );
    refused(at, "tune ridge t.csv --target x0 --measure auc -o refused", 1, "the target is numeric");
    refused(at, &format!("{line} refused --report refused.json"), 1, "--report");
    // contenders that were not run have no line
    let short = format!("{} w.json --work 1,2", line.replace(" --json", ""));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kmill"));
    let ran = command.current_dir(at).args(short.split_whitespace()).output().unwrap();
    let told = String::from_utf8(ran.stdout).unwrap();
    let kept: serde_json::Value = serde_json::from_slice(&std::fs::read(at.join("w.json")).unwrap()).unwrap();
    let tried = |all: &[serde_json::Value]| all.iter().filter(|one| one["errors"] != serde_json::json!([])).count();
    let all = kept["contenders"].as_array().unwrap();
    let lines = told.lines().filter(|line| line.starts_with("  logistic") || line.starts_with("  svm"));
    assert!(lines.count() == tried(all) && tried(all) < all.len(), "{told}");
}

/// Writes rows in 400 squares with gaps between them, each square with its own class; `swapped` of
/// a thousand rows have the other class.
fn cells(path: &Path, rows: usize, swapped: usize) {
    let mut text = "x0,x1,c\n".to_string();
    for i in 0..rows {
        let place = |step: usize| 0.25 + 0.5 * ((i * step) % 100_003) as f64 / 100_003.0;
        let (column, row) = (i % 20, i / 20 % 20);
        let (a, b) = ((column as f64 + place(38_917)) / 20.0, (row as f64 + place(66_131)) / 20.0);
        let is_odd = (17 * column + 31 * row + 7 * column * row) % 5 < 2;
        let class = if is_odd != (i * 331 % 1000 < swapped) { "odd" } else { "even" };
        text += &format!("{a},{b},{class}\n");
    }
    std::fs::write(path, text).unwrap();
}

#[test]
fn classes_that_hardly_overlap_are_separated_by_an_exact_svm_of_all_rows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    cells(&at.join("t.csv"), 9000, 0);
    let line = "tune any t.csv --target c --sample 7000 --missing error --rank 100 --json";
    let found = ok(at, &format!("{line} --rows ..8000 -o m.safetensors --work 1,2,16 --map exact"));
    let contenders = found["contenders"].as_array().unwrap();
    let chosen: Vec<_> = contenders.iter().filter(|contender| contender["chosen"] == true).collect();
    let solver = chosen[0]["solver"].as_str().unwrap();
    let c = solver.strip_prefix("svm on the exact kernel, C ").expect(solver);
    assert!(chosen.len() == 1 && chosen[0]["why"].as_str().unwrap().contains("learned from the same"), "{found}");
    assert_eq!((&found["fit"]["solver"], &found["fit"]["map"]), (&"svm".into(), &"exact".into()), "{found}");
    // the tests have four fifths of all 8,000 rows, not of the sample
    let test = &found["test"];
    let rows = |name: &str| test[name].as_u64().unwrap();
    assert!(rows("rows") + rows("learned_from") == 8000 && rows("learned_from") > 6000, "{test}");
    assert!(test["error"].as_f64().unwrap() < 0.03, "{test}");
    // the model is the fit that the report describes
    let kernel = found["kernel"].as_str().unwrap().replace(' ', "");
    assert!(kernel.starts_with("laplacian") || kernel.starts_with("exponential"), "{kernel}");
    let scale = found["scale"].as_str().unwrap();
    let fit = format!("fit svm t.csv --target c --rows ..8000 --map exact --kernel {kernel} --scale {scale} --C {c}");
    ok(at, &format!("{fit} -o f.safetensors --json"));
    let error =
        |model: &str| ok(at, &format!("evaluate {model} t.csv --rows 8000.. --json"))["error"].as_f64().unwrap();
    assert_eq!(error("m.safetensors"), error("f.safetensors"));
    assert!(error("m.safetensors") < 0.03, "{}", error("m.safetensors"));
    // a search that ends earlier has fewer trials, and the same model on one thread
    let svm_trials = |report: &serde_json::Value| {
        let steps = report["history"].as_array().unwrap().iter();
        steps.filter(|step| step["what"].as_str().unwrap().starts_with("svm on the exact kernel, C ")).count()
    };
    assert!(svm_trials(&found) >= 12, "{found}");
    let cut = format!("{line} --rows ..8000 --work 1,2,4 --map exact");
    let [first, again] = ["a", "b --threads 1"].map(|model| {
        let (name, threads) = model.split_once(' ').unwrap_or((model, ""));
        ok(at, &format!("{cut} -o {name}.safetensors {threads}"))
    });
    let bytes = |name: &str| std::fs::read(at.join(name)).unwrap();
    assert!(bytes("a.safetensors") == bytes("b.safetensors") && again["work"] == first["work"], "{again}");
    assert!(svm_trials(&first) == 5 && first["work"]["machines"] == 4, "{first}");
    // classes that overlap get one trial
    cells(&at.join("t.csv"), 8000, 150);
    let mixed = ok(at, &format!("{line} -o x.safetensors --work 1,2,3 --map exact"));
    assert_eq!(svm_trials(&mixed), 1, "{mixed}");
}

#[test]
fn the_report_says_which_folds_decided_and_what_others_say() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // a row is predicted by its neighbours, but not by much earlier rows
    let (mut text, mut y, mut state) = ("t,y\n".to_string(), 0.0, 7u64);
    for i in 0..1200 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        y = 0.98 * y + (state >> 40) as f64 / (1u64 << 23) as f64 - 1.0;
        text += &format!("{i},{y}\n");
    }
    std::fs::write(at.join("t.csv"), text).unwrap();
    let line = "tune ridge t.csv --target y --metric none --factors 0.01,0.1 --rank 100 -o s.json";
    let report = ok(at, &format!("{line} --json"));
    assert_eq!(report["folds"], "blocks:6", "{report}");
    assert!(report["alike"].as_f64().unwrap() > 0.9, "{report}");
    let (apart, random) = (&report["test"]["error"], &report["at_random"]["error"]);
    assert!(random.as_f64().unwrap() < 0.3 * apart.as_f64().unwrap(), "{apart} {random}");
    let output =
        std::process::Command::new(env!("CARGO_BIN_EXE_kmill")).current_dir(at).args(line.split_whitespace()).output();
    let told = String::from_utf8(output.unwrap().stdout).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].contains("blocks:6") && lines[0].contains("(correlation 0.9"), "{told}");
    assert!(lines[1].contains("r2 ") && lines[1].contains("--folds 5"), "{told}");
    let forced = ok(at, &format!("{line} --folds 5 --json"));
    assert!(forced["folds"] == "5" && forced["at_random"].is_null() && forced["alike"].is_null(), "{forced}");
}

/// Library and command share one search policy: the same work chooses the same model.
#[test]
fn the_library_chooses_what_the_command_chooses() {
    use ksolve::AnyModel;
    use ksolve::tune::Tune;
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 900 -o t.parquet -q");
    ok(at, "tune any t.parquet --target y --work 2,2 --rank 60 --sample 600 -o m.safetensors -q");
    let table = kstore::Table::open(&[at.join("t.parquet")]).unwrap();
    let tune = Tune::any().work("2,2".parse().unwrap()).rank(60).sample(600);
    let fitted = tune.fit(&table, "y").unwrap();
    let (AnyModel::F32(own), AnyModel::F32(others)) =
        (fitted.model, AnyModel::load(&at.join("m.safetensors")).unwrap())
    else {
        panic!("f32 is the default")
    };
    assert_eq!((own.coefficients, own.intercept), (others.coefficients, others.intercept));
}
