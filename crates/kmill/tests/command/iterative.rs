//! Ridge regression otherwise than from its Gram matrix: `--map exact`, `--method`, `--loo`.

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
    // a landmark map of all the span there is comes to the same
    let all = "--kernel gaussian(sigma=4) --lambda 1e-5 --rank 1500 --precision f64 --loo";
    let landmarks = ok(at, &format!("fit ridge t.parquet --target y {all} -o all --json"));
    let exact = ok(at, &format!("fit ridge t.parquet --target y --map exact {all} -o exact --json"));
    let (a, b) = (number(&landmarks["train"]["loo_mse"]), number(&exact["train"]["loo_mse"]));
    assert!((a / b - 1.0).abs() < 1e-6 && a > 1.0, "{a} {b}");
    ok(at, &format!("{learn} --method pcg --rank 100 -o again --threads 1 --memory 200MiB"));
    assert!(std::fs::read(at.join("pcg")).unwrap() == std::fs::read(at.join("again")).unwrap());
    let plan = ok(at, "plan ridge t.parquet --target y --map exact --lambda 1e-5 --method pcg --json");
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
    assert!(forced["method"]["why"].as_str().unwrap().contains("all rows kept"), "{forced}");
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
fn every_cell_has_a_generalised_cross_validation() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 3000 -o t.parquet -q");
    let fit = ok(at, "fit ridge t.parquet --target y --ranks 50..200 --lambda 1e-8..1e-4 --loo -o m --json");
    for cell in fit["surface"].as_array().unwrap() {
        // held-out folds leave fewer rows to learn from: a little worse
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
    refused(at, &format!("{fit} --method pcg --lambda 1e-6 --folds 3"), "has no folds");
    refused(at, &format!("{fit} --method pcg --lambda 1e-6 --tolerance 1e-2"), "has no trace error");
    refused(at, &format!("{fit} --method pcg --lambda 1e-6 --map fourier"), "kernel functions of landmarks");
    refused(at, &format!("{fit} --method pcg --lambda 1e-6 --loo"), "take --method direct");
    refused(at, &format!("{fit} --method direct --residual 1e-3"), "does not iterate");
    refused(at, &format!("{fit} --map exact --lambda 1e-6 --preconditioner falkon"), "landmarks of --landmarks");
    refused(at, &format!("{fit} --map exact --lambda 1e-6 --landmarks predictive"), "knows no target");
    refused(at, &format!("{fit} --residual 2"), "between 0 and 1");
    refused(at, "fit kpca t.parquet --features x* --map exact -o refused", "only ridge");
    refused(at, "fit kpca t.parquet --features x* --method pcg -o refused", "does not read it");
}
