//! Solvers other than ridge on the command line: from fit to predict and evaluate, and refusals.

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
    // centred over the training rows
    assert!(columns[1]["mean"].as_f64().unwrap().abs() < 1e-4, "{report}");
    let whitened = ok(at, "fit kpca t.parquet --features x* --whiten --rank 100 -o w --json");
    assert_eq!(whitened["figures"][0]["values"].as_array().unwrap().len(), 10);
    refused(at, "evaluate m t.parquet", "no target to compare with");
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

/// Rows from standard input give the file's model, and the running MSE is near ridge's error.
#[test]
fn values_are_learned_in_the_order_of_the_rows_from_standard_input_too() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 4000 -o t.csv -q");
    let fit = "--target y --rank 100 --lambda 1e-5";
    let online = ok(at, &format!("fit online t.csv {fit} -o m --json"));
    let (figure, passes) = (&online["figures"][0], &online["passes"]);
    assert!(figure["name"] == "running mse of each pass" && online["solver"] == "online", "{online}");
    ok(at, &format!("fit ridge t.csv {fit} -o r --json"));
    let [ours, ridge] =
        ["m", "r"].map(|model| ok(at, &format!("evaluate {model} t.csv --json"))["mse"].as_f64().unwrap());
    assert!((ours / ridge - 1.0).abs() < 1e-3, "{ours} and {ridge}");
    assert!(figure["values"][0].as_f64().unwrap() > ridge, "{figure}: learned before it was predicted");
    let more = ok(at, &format!("fit online t.csv {fit} --rule lms --passes 3 -o l --json"));
    let running = more["figures"][0]["values"].as_array().unwrap().clone();
    assert!(running.len() == 3 && running[2].as_f64() < running[0].as_f64(), "{running:?}");
    assert_eq!(more["passes"].as_u64(), passes.as_u64().map(|passes| passes + 2));
    let mut words = vec!["fit", "online", "-", "--target", "y", "--rank", "100", "--lambda", "1e-5", "-o", "s", "-q"];
    words.extend(["--threads", "1"]);
    let stdin = std::fs::File::open(at.join("t.csv")).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kmill"));
    assert!(command.current_dir(at).args(words).stdin(stdin).status().unwrap().success());
    assert!(std::fs::read(at.join("m")).unwrap() == std::fs::read(at.join("s")).unwrap(), "another model");
    refused(at, "fit online t.csv --target y --folds 3 -o refused", "does not read it");
    refused(at, "fit online t.csv --target y --weights x0 -o refused", "does not read it");
    refused(at, "fit online t.csv --target y --rule lms --forgetting 0.9 -o refused", "--rule");
    refused(at, "prepare online t.csv --target y -o refused", "more than once");
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
    refused(at, "fit svr t.parquet --target y --importance -o refused", "add --test 25%");
    refused(at, "fit kpca t.parquet --lambda 1e-3 -o refused", "does not read it");
    refused(at, "fit fisher t.parquet --target y --intercept none -o refused", "does not read it");
    refused(at, "fit fisher t.parquet --target y --ranks 10,20 -o refused", "does not read it");
    refused(
        at,
        "fit kdr t.parquet --target y --lambda 1e-9..1e-3 -o refused",
        "this solver does not compare regularisation parameters; give one number",
    );
    refused(at, "fit fisher t.parquet --target y --within each -o refused", "expected pooled or equal");
    refused(at, "fit ridge t.parquet --target y --within equal -o refused", "does not read it");
    refused(at, "fit fishr t.parquet --target y -o refused", "fisher");
    let plan = ok(at, "plan kpca t.parquet --rank 50 --json");
    assert!(plan["fits"] == true && plan["passes"] == 3, "{plan}");
}

/// Classes are counted before planning: the plan is the run's, and small for few classes.
#[test]
fn plans_are_for_as_many_classes_and_folds_as_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 4000 -o two.parquet -q");
    ok(at, "generate blobs --rows 4000 -o three.parquet -q");
    let solvers = [
        "ridge --task classification --lambda 1e-4",
        "svm --C 1",
        "svm --C 1 --multiclass one-vs-one",
        "logistic --C 1",
        "fisher --lambda 1e-4",
        "fisher --lambda 1e-4 --within equal",
        "perceptron",
    ];
    for solver in solvers {
        let (name, options) = solver.split_once(' ').unwrap_or((solver, ""));
        let planned = |table: &str| {
            let rest = format!(
                "{name} {table}.parquet --features x* --target y {options} --rank 60 --threads 2 --memory 1GiB"
            );
            let plan = ok(at, &format!("plan {rest} --json"))["planned_bytes"].as_u64().unwrap();
            let fit = ok(at, &format!("fit {rest} -o m --json"))["planned_bytes"].as_u64().unwrap();
            assert_eq!(plan, fit, "{solver} on {table}");
            plan
        };
        assert!(planned("two") <= planned("three"), "{solver}");
    }
    // a plan for ten classes needed 77 MiB
    ok(at, "generate moons --rows 100000 -o many.parquet -q");
    let fit = "many.parquet --target y --C 1 --rank 50 --threads 2 --memory 56MiB";
    assert!(ok(at, &format!("plan svm {fit} --json"))["fits"] == true);
    ok(at, &format!("fit svm {fit} -o m --json"));
}

#[test]
fn probabilities_and_the_log_loss_of_logistic_regression() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (generator, classes) in [("moons", 2), ("blobs", 3)] {
        ok(at, &format!("generate {generator} --rows 3000 -o t.parquet -q"));
        let fit = ok(at, "fit logistic t.parquet --target y --rank 100 --lambda 1e-4 -o m --json");
        let figure = |name: &str| {
            let figures = fit["figures"].as_array().unwrap();
            figures.iter().find(|figure| figure["name"] == name).unwrap()["values"][0].as_f64().unwrap()
        };
        assert!(figure("relative gradient norm") <= 1e-4 && !fit["warnings"].to_string().contains("--steps"), "{fit}");
        // fit and evaluate report the same loss on the same rows
        let loss = ok(at, "evaluate m t.parquet --json")["log_loss"].as_f64().unwrap();
        assert!((loss / figure("train log-loss") - 1.0).abs() < 1e-3, "{loss}, {fit}");
        ok(at, "predict m t.parquet --probabilities -o p.parquet --json");
        let report = ok(at, "inspect p.parquet --stats --json");
        let columns = report["columns"].as_array().unwrap();
        assert!(columns.len() > classes && columns[1]["name"] == "probability_0", "{report}");
        let means: f64 = columns[1..].iter().map(|column| column["mean"].as_f64().unwrap()).sum();
        assert!((means - 1.0).abs() < 1e-9, "{report}");
    }
    ok(at, "fit fisher t.parquet --target y --rank 50 -o f --json");
    refused(at, "predict f t.parquet --probabilities -o refused", "are not probabilities");
    // the chosen lambda and the compared lambdas have different names, and many classes a hint
    let line = "fit logistic t.parquet --target y --rank 5 --lambda 0.01,1e-3 --folds 2 -o l";
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kmill"));
    let few = command.current_dir(at).args(line.split_whitespace()).output().unwrap();
    let few = String::from_utf8(few.stdout).unwrap();
    assert!(few.contains("  lambdas compared") && few.contains(" 0.01, 1e-3\n"), "{few}");
    assert_eq!(few.lines().filter(|line| line.split_whitespace().next() == Some("lambda")).count(), 1, "{few}");
    let row = |i: usize| format!("{},{},c{}\n", i % 5, i % 21 / 5, i % 21);
    std::fs::write(at.join("many.csv"), format!("a,b,y\n{}", (0..84).map(row).collect::<String>())).unwrap();
    let options = "--target y --rank 5 --folds 2 -q --json -o l";
    let warnings = |more: &str| ok(at, &format!("fit logistic many.csv {options} {more}"))["warnings"].to_string();
    assert!(warnings("--lambda 0.01,1e-3").contains("fits 21 classes for 2 regularisation parameters"));
    assert!(!warnings("--lambda 0.01").contains("21 classes"));
}

#[test]
fn a_default_rank_without_an_error_is_no_news() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let row = |i: usize| format!("{},{}\n", i % 5, i % 7);
    std::fs::write(at.join("t.csv"), format!("a,b\n{}", (0..300).map(row).collect::<String>())).unwrap();
    let warnings = |options: &str| {
        let fit = ok(at, &format!("fit kmeans t.csv --clusters 2 {options} -o m -q --json"));
        (fit["rank"].as_u64().unwrap(), fit["warnings"].to_string())
    };
    let ((default_rank, silent), (rank, warned)) = (warnings(""), warnings("--rank 100"));
    assert!(default_rank <= 35 && rank <= 35, "{default_rank} {rank}");
    assert!(!silent.contains("rank reduced") && warned.contains("rank reduced from 100"), "{silent} {warned}");
}

#[test]
fn support_vector_machines_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate blobs --rows 4000 -o t.parquet -q");
    let fit = ok(at, "fit svm t.parquet --target y --rank 100 --C 1 --class-weight balanced -o m --json");
    let lambda = fit["lambda"].as_f64().unwrap();
    assert!((lambda - 1.0 / 8000.0).abs() < 1e-15, "{lambda}");
    let gaps = &fit["figures"].as_array().unwrap().iter().find(|f| f["name"] == "duality gap").unwrap()["values"];
    assert!(gaps.as_array().unwrap().iter().all(|gap| gap.as_f64().unwrap() <= 1e-3), "{fit}");
    let svm = ok(at, "evaluate m t.parquet --json")["accuracy"].as_f64().unwrap();
    ok(at, "fit fisher t.parquet --target y --rank 100 --lambda 1e-4 -o f --json");
    let fisher = ok(at, "evaluate f t.parquet --json")["accuracy"].as_f64().unwrap();
    assert!(svm > fisher - 0.01, "{svm} and {fisher}");
    // C and lambda are the same regularisation
    ok(at, &format!("fit svm t.parquet --target y --rank 100 --lambda {lambda:e} --class-weight balanced -o l --json"));
    ok(at, "predict m t.parquet -o m.npy --json");
    ok(at, "predict l t.parquet -o l.npy --json");
    assert!(std::fs::read(at.join("m.npy")).unwrap() == std::fs::read(at.join("l.npy")).unwrap());
    ok(at, "fit svm t.parquet --target y --rank 50 --loss squared-hinge --lambda 1e-4 -o s --json");
    let plan = ok(at, "plan svm t.parquet --target y --rank 50 --json");
    let terms = plan["stages"][5]["terms"].as_array().unwrap();
    assert!(plan["fits"] == true && terms.iter().any(|term| term["name"] == "features of all rows"), "{plan}");
    refused(
        at,
        "fit svm t.parquet --target y --C 1 --lambda 1e-4 -o refused",
        "it is the regularisation parameter --lambda 1e-4 in another unit",
    );
    refused(at, "fit svm t.parquet --target y --C 0 -o refused", "must be positive and finite");
    refused(at, "fit svm t.parquet --target y --nu 0.1 -o refused", "does not read it");
    refused(at, "fit ridge t.parquet --target y --C 1 -o refused", "does not read it");
    refused(at, "fit oneclass t.parquet --nu 1.5 -o refused", "at most 1");

    ok(at, "generate friedman1 --rows 3000 -o r.parquet -q");
    ok(at, "fit svr r.parquet --target y --rank 200 --C 100 --epsilon 0.5 -o v --json");
    let r2 = ok(at, "evaluate v r.parquet --json")["r2"].as_f64().unwrap();
    assert!(r2 > 0.9, "{r2}");

    ok(at, "fit oneclass t.parquet --features x* --rank 100 --nu 0.1 -o o --json");
    ok(at, "predict o t.parquet -o scores.csv --json");
    let scores = std::fs::read_to_string(at.join("scores.csv")).unwrap();
    let mut lines = scores.lines();
    assert_eq!(lines.next(), Some("score"));
    let novel = lines.filter(|line| line.parse::<f64>().unwrap() < 0.0).count();
    assert!((250..=450).contains(&novel), "{novel} of 4000 rows");
}

#[test]
fn quantiles_are_columns_with_their_levels() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 2000 -o r.csv -q");
    let fit = "fit quantile r.csv --target y --rank 200 --json";
    let report = ok(at, &format!("{fit} --quantiles 0.9,0.1,0.5 --lambda 1e-4,1e-6 --folds 3 -o q"));
    let names: Vec<&str> = report["figures"].as_array().unwrap().iter().filter_map(|f| f["name"].as_str()).collect();
    assert!(names.contains(&"held-out pinball loss at each") && names.contains(&"duality gap"), "{report}");
    let figure = |name: &str| report["figures"].as_array().unwrap().iter().find(|f| f["name"] == name).unwrap().clone();
    let count = |name: &str| figure(name)["values"].as_array().unwrap().len();
    // an error for each level and lambda, and a lambda for each level
    assert_eq!((count("held-out pinball loss at each"), count("lambda of each level")), (6, 3), "{report}");
    ok(at, "predict q r.csv -o p.csv --json");
    let text = std::fs::read_to_string(at.join("p.csv")).unwrap();
    assert_eq!(text.lines().next(), Some("prediction_0.1,prediction_0.5,prediction_0.9"));
    let scores = ok(at, "evaluate q r.csv --json");
    let interval = &scores["loss"]["interval"];
    assert!((interval["coverage"].as_f64().unwrap() - 0.8).abs() < 0.05 && scores["r2"].as_f64().unwrap() > 0.9);
    assert_eq!(scores["loss"]["outputs"].as_array().unwrap().len(), 3);
    ok(at, &format!("{fit} --loss huber --lambda 1e-5 -o h"));
    ok(at, "predict h r.csv -o p.csv --json");
    assert!(std::fs::read_to_string(at.join("p.csv")).unwrap().starts_with("prediction\n"));
    refused(at, "fit quantile r.csv --target y --quantiles 1.5 -o refused", "between 0 and 1");
    refused(
        at,
        "fit quantile r.csv --target y --loss huber --map exact -o refused",
        "only --loss pinball is supported",
    );
}

#[test]
fn intervals_and_sets_are_columns_and_scores() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 3000 -o r.csv -q");
    ok(at, "fit ridge r.csv --target y --rank 200 --rows ..2000 --interval 0.9,0.5 -o i --json");
    ok(at, "predict i r.csv --rows 2000.. --interval -o p.csv --json");
    let text = std::fs::read_to_string(at.join("p.csv")).unwrap();
    assert_eq!(text.lines().next(), Some("prediction,lower_0.5,upper_0.5,lower_0.9,upper_0.9"));
    assert_eq!(text.lines().count(), 1001);
    let scores = ok(at, "evaluate i r.csv --rows 2000.. --json");
    let wide = &scores["intervals"][1];
    assert_eq!((&wide["target"], &wide["level"]), (&"y".into(), &0.9.into()));
    assert!((wide["coverage"].as_f64().unwrap() - 0.9).abs() < 0.04, "{wide}");
    assert_eq!(wide["deciles"].as_array().unwrap().len(), 10);
    assert_eq!(wide["deciles"][0]["rows"], 100);
    refused(at, "predict i r.csv --components -o p.csv", "component");
    ok(at, "generate blobs --rows 600 -o b.csv -q");
    ok(at, "fit logistic b.csv --target y --rank 50 --C 1 --interval 0.9 -o c --json");
    ok(at, "predict c b.csv --interval -o p.csv --json");
    let text = std::fs::read_to_string(at.join("p.csv")).unwrap();
    assert_eq!(text.lines().next(), Some("prediction,in_set_0,in_set_1,in_set_2"));
    let set = &ok(at, "evaluate c b.csv --json")["sets"][0];
    assert!(set["coverage"].as_f64().unwrap() > 0.85 && set["size"].as_f64().unwrap() <= 3.0, "{set}");
    ok(at, "fit ridge r.csv --target y --rank 50 -o plain --json");
    refused(at, "predict plain r.csv --interval -o p.csv", "fitted without it");
    refused(at, "fit ridge r.csv --target y --folds none --lambda 1e-3 --interval 0.9 -o refused", "held-out rows");
}

#[test]
fn scratch_and_memory_give_the_same_model_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate blobs --rows 60000 -o t.parquet -q");
    let fit = "fit svm t.parquet --target y --rank 200 --candidates 2000 --C 1 --json";
    let within = ok(at, &format!("{fit} -o a --memory 2GiB"));
    let scratch = ok(at, &format!("{fit} -o b --memory 90MiB --scratch ."));
    assert!(within["seconds"].get("features to memory").is_some(), "{within}");
    assert!(scratch["seconds"].get("features to scratch").is_some(), "{scratch}");
    let peak = scratch["peak_rss_bytes"].as_u64().unwrap_or(0);
    assert!(peak <= 90 << 20, "{peak}");
    assert!(std::fs::read(at.join("a")).unwrap() == std::fs::read(at.join("b")).unwrap(), "other bits");
}

#[test]
fn svms_choose_their_penalty_predict_probabilities_and_separate_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate blobs --rows 3000 -o t.parquet -q");
    ok(at, "convert t.parquet --rows 2000.. -o test.parquet -q");
    let fit = "fit svm t.parquet --target y --rows ..2000 --rank 100";
    let chosen = ok(at, &format!("{fit} --C 0.01..10 --folds 3 --probabilities -o m --json"));
    let figure = |name: &str| {
        let figures = chosen["figures"].as_array().unwrap();
        figures.iter().find(|figure| figure["name"] == name).unwrap()["values"].as_array().unwrap().len()
    };
    assert_eq!((figure("C"), figure("held-out error at each")), (7, 7), "{chosen}");
    let score = ok(at, "evaluate m test.parquet --json");
    let logistic = ok(at, "fit logistic t.parquet --target y --rows ..2000 --rank 100 --lambda 1e-4 -o l --json");
    assert!(logistic["lambda"].as_f64().is_some());
    let reference = ok(at, "evaluate l test.parquet --json");
    let number = |report: &serde_json::Value, name: &str| report[name].as_f64().unwrap_or(f64::NAN);
    assert!(number(&score, "log_loss") < 1.15 * number(&reference, "log_loss"), "{score} {reference}");
    ok(at, "predict m test.parquet --probabilities -o p.parquet");
    ok(at, &format!("{fit} --C 1 --multiclass one-vs-one -o pairs --json"));
    // the former name of the option
    ok(at, &format!("{fit} --C 1 --pairs -o former --json"));
    assert!(std::fs::read(at.join("pairs")).unwrap() == std::fs::read(at.join("former")).unwrap());
    let pairs = ok(at, "evaluate pairs test.parquet --json");
    assert!((number(&pairs, "accuracy") - number(&score, "accuracy")).abs() < 0.02, "{pairs} {score}");
    ok(at, "predict pairs test.parquet -o labels.parquet");
    ok(at, &format!("{fit} --C 0.01..10 --folds 3 --probabilities -o again --json --threads 1 --memory 200MiB"));
    assert!(std::fs::read(at.join("m")).unwrap() == std::fs::read(at.join("again")).unwrap());
    refused(
        at,
        &format!("{fit} --multiclass one-vs-one --probabilities -o refused"),
        "--probabilities with --multiclass one-vs-one: one-vs-one classifiers have no probabilities",
    );
    refused(
        at,
        &format!("{fit} --C 1,10 --folds none -o refused"),
        "validation rows choose the regularisation parameter and calibrate probabilities",
    );
    refused(at, &format!("{fit} --C 0,1 -o refused"), "must be positive and finite");
    refused(at, "predict pairs test.parquet --probabilities -o refused", "svm with --probabilities");
    refused(
        at,
        "fit fisher t.parquet --target y --lambda 1e-6,1e-5 --folds none -o refused",
        "without folds no rows are held out to compare regularisation parameters; give folds, or one value",
    );
    refused(at, "fit ridge t.parquet --target y --multiclass one-vs-one -o refused", "ridge does not read it");
}

#[test]
fn two_views_and_directions_of_the_columns() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 3000 -o t.parquet -q");
    let views = "--features x0,x1,x2 --with x3,y --rank 40 --folds 3";
    let report = ok(at, &format!("fit cca t.parquet {views} -o m --json"));
    assert!(report["kernel"].as_str().unwrap().contains("on=[x0, x1, x2]"), "{report}");
    assert!(report["with_kernel"].as_str().unwrap().contains("on=[x3, y]"), "{report}");
    assert_eq!((&report["features"], &report["warnings"]), (&5.into(), &serde_json::json!([])));
    let figure = |name: &str| {
        let figures = report["figures"].as_array().unwrap();
        figures.iter().find(|figure| figure["name"] == name).unwrap()["values"].as_array().unwrap().clone()
    };
    let (own, held) = (figure("correlation")[0].as_f64().unwrap(), figure("held-out correlation")[0].as_f64().unwrap());
    assert!(own > 0.5 && held > 0.5 && held < own + 0.05, "{own} {held}");
    ok(at, &format!("fit cca t.parquet {views} -o same --threads 1 --json"));
    assert!(std::fs::read(at.join("m")).unwrap() == std::fs::read(at.join("same")).unwrap(), "other bits");
    let card = ok(at, "inspect m --json");
    assert_eq!(card["with"]["functions"], 40);
    ok(at, "predict m t.parquet -o p.csv -q --json");
    let header = std::fs::read_to_string(at.join("p.csv")).unwrap().lines().next().unwrap().to_string();
    assert_eq!(header, "component_0,component_1,with_component_0,with_component_1");
    ok(
        at,
        "fit covariance t.parquet --features x* --with y --with-kernel linear() --components 1 --rank 60 -o c --json",
    );
    refused(
        at,
        "fit cca t.parquet --features x* --with y --landmarks t.parquet -o refused",
        "each view has its own landmarks",
    );
    refused(at, "fit cca t.parquet --features x* --with y --metric low-rank(2) -o refused", "this solver has none");
    // the target of friedman1 depends on x0 to x4, the others are noise
    let report = ok(at, "fit kdr t.parquet --target y --components 3 --rank 100 -o k.safetensors --json");
    let shares = report["metric"]["importance"].as_array().unwrap();
    let first: Vec<&str> = shares[..5].iter().map(|share| share[0].as_str().unwrap()).collect();
    assert!(["x0", "x1", "x2", "x3", "x4"].iter().all(|name| first.contains(name)), "{shares:?}");
    let fit = ok(at, "fit ridge t.parquet --target y --metric k.safetensors --lambda 1e-5 --rank 100 -o r --json");
    assert_eq!(fit["metric"]["features"], 3);
    ok(at, "predict k.safetensors t.parquet -o q.csv -q --json");
    refused(at, "fit kdr t.parquet --target y --metric k.safetensors -o refused", "omit --metric");
    refused(at, "fit kdr t.parquet --target y --kernel delta() -o refused", "gradient");
}

/// The exact kernel gives the SVMs of all rows as landmarks, and accepts no landmark options.
#[test]
fn machines_learn_with_the_kernel_itself() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate blobs --rows 5000 -o t.parquet -q");
    ok(at, "generate friedman1 --rows 5000 -o v.parquet -q");
    let figure = |fit: &serde_json::Value, name: &str| -> Vec<f64> {
        let figures = fit["figures"].as_array().unwrap();
        let values = figures.iter().find(|figure| figure["name"] == name).unwrap()["values"].as_array().unwrap();
        values.iter().map(|value| value.as_f64().unwrap()).collect()
    };
    let kernel = "--kernel gaussian(sigma=3) --scale none";
    for line in [
        format!("fit svm t.parquet --target y --rows ..800 {kernel} --C 2"),
        format!(
            "fit svm t.parquet --target y --rows ..800 {kernel} --C 2 --multiclass one-vs-one --class-weight balanced"
        ),
        format!("fit svm t.parquet --target y --rows ..800 {kernel} --C 0.1,2 --probabilities --folds 3"),
        format!("fit svr v.parquet --target y --rows ..800 {kernel} --C 0.1,5 --folds 3 --epsilon 0.2"),
        format!("fit oneclass t.parquet --features x* --rows ..800 {kernel} --nu 0.2"),
    ] {
        let exact = ok(at, &format!("{line} --map exact --gap 1e-6 --precision f64 -o e --json"));
        let all = ok(at, &format!("{line} --rank 800 --landmarks uniform --gap 1e-6 --precision f64 -o a --json"));
        let (one, other) = (figure(&exact, "objective"), figure(&all, "objective"));
        assert_eq!(one.len(), other.len(), "{line}");
        for (one, other) in one.iter().zip(&other) {
            assert!((one - other).abs() <= 1e-4 * other.abs(), "{line}: {one} {other}");
        }
        assert_eq!(exact["lambda"], all["lambda"], "{line}");
        assert_eq!(exact["certificate"]["trace_error"].as_f64(), Some(0.0));
        let table = if line.contains(" v.parquet") { "v" } else { "t" };
        ok(at, &format!("predict e {table}.parquet --rows 800..900 -o p.parquet --json"));
    }
    // more rows than a full matrix is used for: the same bytes for any budget and number of threads
    let line = format!("fit svr v.parquet --target y {kernel} --C 5 --map exact --json -o");
    ok(at, &format!("{line} wide --memory 2GiB --threads 2"));
    ok(at, &format!("{line} narrow --memory 120MiB --threads 1"));
    let bytes = |name: &str| std::fs::read(at.join(name)).unwrap();
    assert!(bytes("wide") == bytes("narrow"));
    let fit = "fit svm t.parquet --target y --map exact -o refused";
    refused(at, &format!("{fit} --rank 50"), "uses the exact kernel, which has no rank");
    refused(at, &format!("{fit} --landmarks uniform"), "svm has no landmarks with --map exact");
    refused(at, &format!("{fit} --precision f64 --memory 46MiB"), "kernel values between its rows");
    let few = "fit svm t.parquet --target y --rank 10 -o refused";
    refused(at, &format!("{few} --kernel sigmoid(gamma=1,c0=1)"), "positive definite");
    // a fit on landmarks mentions the exact kernel
    let (_, _, stderr) = kmill(at, &format!("fit svm t.parquet --target y --rank 10 {kernel} -o few"));
    assert!(stderr.contains("--map exact"), "{stderr}");
}
