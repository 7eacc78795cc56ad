//! Ridge regression with `--map exact`, `--method`, `--loo`, `--std` and `--weights`.

use crate::run::{kmill, ok};
use std::path::Path;

fn refused(folder: &Path, line: &str, message: &str) {
    let (code, _, stderr) = kmill(folder, line);
    assert!(code != 0 && stderr.contains(message), "{line}: exit {code}, {stderr}");
    assert!(!folder.join("refused").exists(), "{line} left a model");
}

fn number(json: &serde_json::Value) -> f64 {
    json.as_f64().unwrap_or(f64::NAN)
}

#[test]
fn the_exact_kernel_learns_by_both_methods_and_says_which() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 1500 -o t.parquet -q");
    ok(at, "generate friedman1 --rows 500 --seed 1 -o test.parquet -q");
    let learn = "fit ridge t.parquet --target y --map exact --kernel gaussian(sigma=4) --lambda 1e-5 --json";
    let direct = ok(at, &format!("{learn} -o direct"));
    let pcg = ok(at, &format!("{learn} --method pcg --rank 100 -o pcg"));
    assert_eq!((&direct["method"]["name"], &pcg["method"]["name"]), (&"direct".into(), &"pcg".into()));
    assert_eq!((&direct["rank"], &direct["certificate"]["trace_error"]), (&1500.into(), &0.0.into()));
    assert!(number(&pcg["figures"][1]["values"][0]) <= 1e-6 && pcg["figures"][0]["name"] == "iterations", "{pcg}");
    let score = |model: &str| number(&ok(at, &format!("evaluate {model} test.parquet --json"))["mse"]);
    let (a, b) = (score("direct"), score("pcg"));
    assert!((a / b - 1.0).abs() < 1e-4 && a < 4.0, "{a} {b}");
    // a landmark map of the whole span gives the same
    let all = "--kernel gaussian(sigma=4) --lambda 1e-5 --rank 1500 --precision f64 --loo";
    let landmarks = ok(at, &format!("fit ridge t.parquet --target y {all} -o all --json"));
    let exact = ok(at, &format!("fit ridge t.parquet --target y --map exact {all} -o exact --json"));
    let (a, b) = (number(&landmarks["train"]["loo_mse"]), number(&exact["train"]["loo_mse"]));
    assert!((a / b - 1.0).abs() < 1e-6 && a > 1.0, "{a} {b}");
    ok(at, &format!("{learn} --method pcg --rank 100 -o again --threads 1 --memory 200MiB"));
    assert!(std::fs::read(at.join("pcg")).unwrap() == std::fs::read(at.join("again")).unwrap());
    let plan = ok(
        at,
        "plan ridge t.parquet --target y --map exact --kernel gaussian(sigma=4) --lambda 1e-5 --method pcg --json",
    );
    assert!(plan["fits"] == true && plan["stages"].as_array().unwrap().len() == 4, "{plan}");
}

#[test]
fn what_the_gram_matrix_does_not_fit_is_solved_by_iteration() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 4000 -o t.parquet -q");
    let learn = "fit ridge t.parquet --target y --kernel gaussian(sigma=4) --lambda 1e-5 --rank 2000 \
                 --landmarks uniform --json";
    let auto = ok(at, &format!("{learn} --memory 160MiB -o auto"));
    assert_eq!(auto["method"]["name"], "pcg", "{auto}");
    assert!(auto["method"]["why"].as_str().unwrap().contains("does not fit"), "{auto}");
    let forced = ok(at, &format!("{learn} --method pcg --memory 2GiB --threads 1 -o forced"));
    assert!(forced["method"]["why"].as_str().unwrap().contains("of all rows in memory"), "{forced}");
    let model = |name: &str| ok(at, &format!("evaluate {name} t.parquet --json"))["mse"].clone();
    assert_eq!(model("auto"), model("forced"));
    let direct = ok(at, &format!("{learn} --memory 2GiB -o direct"));
    assert!(direct["method"].is_null(), "{direct}");
    let (a, b) = (number(&direct["train"]["mse"]), number(&auto["train"]["mse"]));
    assert!((a / b - 1.0).abs() < 1e-3, "{a} {b}");
    let (code, _, stderr) = kmill(at, &format!("{learn} --method direct --memory 160MiB -o refused"));
    assert!(code == 1 && stderr.contains("--memory"), "{stderr}");
}

#[test]
fn kernel_blocks_that_do_not_fit_are_in_scratch_and_the_plan_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 60000 -o t.parquet -q");
    let learn = "ridge t.parquet --target y --kernel gaussian(sigma=4) --lambda 1e-5 --rank 300 --landmarks uniform \
                 --candidates 1000 --method pcg --json";
    let memory = ok(at, &format!("fit {learn} --memory 2GiB -o memory"));
    let budget = memory["planned_bytes"].as_u64().unwrap() - (40 << 20);
    let scratch = ok(at, &format!("fit {learn} --memory {budget} --scratch . -o scratch"));
    assert!(scratch["method"]["why"].as_str().unwrap().contains("in scratch"), "{scratch}");
    let read = |name: &str| std::fs::read(at.join(name)).unwrap();
    assert!(read("scratch") == read("memory"), "other bits");
    let plan = ok(at, &format!("plan {learn} --memory {budget} --scratch ."));
    assert!(plan["stages"].to_string().contains("in scratch"), "{plan}");
    // the smallest budget that fits without scratch also fits with it
    let least = (30..200)
        .map(|mebibytes| mebibytes << 20)
        .find(|memory| kmill(at, &format!("plan {learn} --memory {memory}")).0 == 0);
    let tight = format!("fit {learn} --memory {} --scratch . -o tight", least.unwrap());
    assert!(ok(at, &tight)["method"]["why"].as_str().unwrap().contains("recomputed in every iteration"));
    assert!(read("tight") == read("memory"), "other bits");
}

#[test]
fn every_cell_has_a_generalised_cross_validation() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 3000 -o t.parquet -q");
    let fit = ok(
        at,
        "fit ridge t.parquet --target y --kernel gaussian(sigma=median) --ranks 50..200 --lambda 1e-8..1e-4 --loo -o m --json",
    );
    for cell in fit["surface"].as_array().unwrap() {
        // held-out folds leave fewer training rows: the error is a little larger
        let (cv, gcv) = (number(&cell["cv_mse"]), number(&cell["gcv"]));
        assert!((cv / gcv - 1.0).abs() < 0.1, "{cell}");
    }
    let (loo, chosen) = (number(&fit["train"]["loo_mse"]), number(&fit["train"]["mse"]));
    assert!(loo > chosen && loo < 1.2 * chosen, "{fit}");
}

#[test]
fn what_an_iteration_cannot_do_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 300 -o t.parquet -q");
    let fit = "fit ridge t.parquet --target y -o refused";
    refused(at, &format!("{fit} --map exact"), "solves for one lambda");
    refused(at, &format!("{fit} --method pcg --lambda 1e-6 --folds 3"), "does not cross-validate; leave --folds out");
    refused(at, &format!("{fit} --method pcg --lambda 1e-6 --tolerance 1e-2"), "has no trace error");
    refused(at, &format!("{fit} --method pcg --lambda 1e-6 --map fourier"), "kernel functions of landmarks");
    refused(at, &format!("{fit} --method pcg --lambda 1e-6 --loo"), "use --method direct");
    refused(at, &format!("{fit} --method direct --residual 1e-3"), "does not iterate");
    refused(at, &format!("{fit} --map exact --lambda 1e-6 --preconditioner falkon"), "landmarks of --landmarks");
    refused(at, &format!("{fit} --map exact --lambda 1e-6 --landmarks predictive"), "does not read the target");
    refused(at, &format!("{fit} --residual 2"), "between 0 and 1");
    refused(at, "fit kpca t.parquet --features x* --map exact -o refused", "only ridge, svm");
    refused(at, "fit kpca t.parquet --features x* --method pcg -o refused", "does not read it");
}

/// Reads column `name` of a CSV file.
fn column(text: &str, name: &str) -> Vec<f64> {
    let mut lines = text.lines();
    let place = lines.next().unwrap().split(',').position(|field| field == name).unwrap();
    lines.map(|line| line.split(',').nth(place).unwrap().parse().unwrap()).collect()
}

#[test]
fn standard_deviations_cover_what_they_should_and_have_the_same_bits_under_any_budget() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 4000 -o t.parquet -q");
    ok(at, "generate friedman1 --rows 2000 --seed 1 -o test.parquet -q");
    // the lambda that cross-validation chooses; near it the standard deviations are calibrated
    ok(at, "fit ridge t.parquet --target y --rank 800 --lambda 3.162e-6 --std -o m --json");
    ok(at, "predict m test.parquet --std --keep y -o p.csv --json");
    let text = std::fs::read_to_string(at.join("p.csv")).unwrap();
    assert_eq!(text.lines().next(), Some("y,prediction,std,std_mean"));
    let [y, mean, std, of_mean] = ["y", "prediction", "std", "std_mean"].map(|name| column(&text, name));
    // The noise has variance 1. 95 % of the observations lie within 1.96 standard deviations; five
    // standard errors of this proportion are 0.024.
    let within = (0..2000).filter(|i| (y[*i] - mean[*i]).abs() < 1.96 * std[*i]).count() as f64 / 2000.0;
    assert!((within - 0.95).abs() < 0.025, "{within}");
    let noise: Vec<f64> = (0..2000).map(|i| std[i].powi(2) - of_mean[i].powi(2)).collect();
    assert!(noise.iter().all(|v| (v / noise[0] - 1.0).abs() < 1e-9 && *v > 0.9 && *v < 1.3), "{:?}", &noise[..3]);
    assert!(of_mean.iter().all(|s| *s > 0.0));
    ok(at, "predict m test.parquet --std --keep y -o again.csv --threads 1 --memory 150MiB --json");
    assert!(std::fs::read(at.join("p.csv")).unwrap() == std::fs::read(at.join("again.csv")).unwrap());
    // a fit without --std predicts the same
    ok(at, "fit ridge t.parquet --target y --rank 800 --lambda 3.162e-6 -o plain --json");
    ok(at, "predict plain test.parquet -o plain.csv --json");
    assert_eq!(column(&std::fs::read_to_string(at.join("plain.csv")).unwrap(), "prediction"), mean);
    refused(at, "predict plain test.parquet --std -o refused", "fit ridge with --std");
    refused(at, "fit kpca t.parquet --std -o refused", "kpca does not read it");
    refused(at, "fit ridge t.parquet --target y --method pcg --lambda 1e-6 --std -o refused", "--method direct");
    ok(at, "generate moons --rows 500 -o moons.parquet -q");
    refused(at, "fit ridge moons.parquet --target y --task classification --std -o refused", "leave it out");
}

#[test]
fn components_tell_how_far_a_row_is_from_what_they_span() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 1000 -o moons.parquet -q");
    ok(
        at,
        "fit kpca moons.parquet --features x* --components 6 --rank 200 --kernel gaussian(sigma=0.5) --novelty -o m",
    );
    let novelty = |table: &str| {
        ok(at, &format!("predict m {table} --novelty --preimage -o p.csv"));
        let text = std::fs::read_to_string(at.join("p.csv")).unwrap();
        assert!(text.starts_with("component_0,") && text.lines().next().unwrap().ends_with("preimage_x0,preimage_x1"));
        column(&text, "novelty")
    };
    let own = novelty("moons.parquet");
    let mean = own.iter().sum::<f64>() / 1000.0;
    // points far from all rows
    std::fs::write(at.join("points.csv"), "x0,x1\n30,30\n-20,4\n").unwrap();
    let far = novelty("points.csv");
    assert!(own.iter().all(|v| *v > 0.0) && far.iter().all(|v| *v > 2.0 * mean), "{mean} {far:?}");
    // with labels, the reconstruction errors are scored like the scores of a novelty detector
    std::fs::write(at.join("labels.csv"), "x0,x1,odd\n30,30,1\n0,1,0\n-20,4,1\n0.9,0.2,1\n2,-0.4,0\n-1,0.2,0\n")
        .unwrap();
    let errors = novelty("labels.csv");
    let (odd, normal) = ([0, 2, 3].map(|i| errors[i]), [1, 4, 5].map(|i| errors[i]));
    let wins = odd.iter().flat_map(|a| normal.iter().map(move |b| f64::from(a > b))).sum::<f64>();
    let scores = ok(at, "evaluate m labels.csv --target odd --top 2 --report e.html --json");
    assert!((scores["auc"].as_f64().unwrap() - wins / 9.0).abs() < 1e-12 && wins < 9.0, "{scores} {errors:?}");
    assert_eq!((&scores["precision_at"], &scores["top"], &scores["unusual"]), (&1.0.into(), &2.into(), &3.into()));
    assert!(scores["negative"].is_null() && scores["recall"].is_null(), "{scores}");
    assert!(std::fs::read_to_string(at.join("e.html")).unwrap().contains("reconstruction errors"));
    refused(at, "evaluate m labels.csv", "0 for normal rows and 1 for outliers");
    ok(at, "fit kpca moons.parquet --features x* --components 6 --rank 200 -o plain");
    refused(at, "evaluate plain labels.csv --target odd", "fit kpca with --novelty to score outliers");
    refused(at, "predict plain points.csv --novelty -o refused", "fit kpca with --novelty");
    refused(at, "predict m points.csv --std -o refused", "fit ridge with --std");
    refused(at, "fit ridge moons.parquet --target y --novelty -o refused", "ridge does not read it");
}

#[test]
fn weights_count_and_are_no_feature() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut text = String::from("x,y,w\n");
    for i in 0..400 {
        let x = f64::from(i) / 100.0;
        // every second row has another target and a small weight
        let (y, w) = if i % 2 == 0 { (x.sin(), 1.0) } else { (x.sin() + 1.0, 1e-6) };
        text.push_str(&format!("{x},{y},{w}\n"));
    }
    std::fs::write(at.join("t.csv"), text).unwrap();
    let fit = "fit ridge t.csv --target y --rank 15 --kernel gaussian(sigma=0.5) --lambda 1e-7 --precision f64";
    let weighted = ok(at, &format!("{fit} --weights w -o m --json"));
    assert_eq!(
        (&weighted["features"], weighted["target_names"].as_array().unwrap().len()),
        (&1.into(), 1),
        "{weighted}"
    );
    assert!(number(&weighted["train"]["mse"]) < 1e-4, "{weighted}");
    let plain = ok(at, &format!("{fit} --features x -o plain --json"));
    assert!(number(&plain["train"]["mse"]) > 0.2, "{plain}");
    ok(at, "predict m t.csv -o p.csv");
    let found = column(&std::fs::read_to_string(at.join("p.csv")).unwrap(), "prediction");
    assert!((found[200] - 2.0f64.sin()).abs() < 1e-2, "{}", found[200]);
    ok(at, &format!("{fit} --weights w -o again --threads 1 --memory 120MiB --json"));
    assert!(std::fs::read(at.join("m")).unwrap() == std::fs::read(at.join("again")).unwrap());
    refused(at, &format!("{fit} --weights y -o refused"), "it is the target");
    refused(at, &format!("{fit} --weights w --features x,w -o refused"), "it is the column of weights");
    refused(at, &format!("{fit} --weights nowhere -o refused"), "nowhere");
    refused(at, &format!("{fit} --weights w --map exact -o refused"), "does not support weights");
    refused(at, &format!("{fit} --weights w --method pcg -o refused"), "does not support weights");
    refused(at, "fit fisher t.csv --weights w -o refused", "fisher does not read it");
}

/// Conjugate gradient on a problem that is hopeless due to rounding: the iterate is never worse
/// than zero, and a useless solution is refused.
#[test]
fn an_iteration_without_a_useful_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 600 -o t.parquet -q");
    let features = "--target y --features x0,x1,x2,x3,x4 --lambda 1e-10 --map exact --method pcg --rank 20 --kernel gaussian(sigma=median)";
    for precision in ["f64", "f32"] {
        let line = format!("fit ridge t.parquet {features} --precision {precision} -o refused --json");
        let (code, json, stderr) = kmill(at, &line);
        let said = stderr.contains("conjugate gradient did not converge") && stderr.contains("--lambda");
        assert!(code == 1 && said && !stderr.contains("use --precision f64"), "{precision}: {json} {stderr}");
        assert!(!at.join("refused").exists());
    }
}
