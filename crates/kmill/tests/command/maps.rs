//! `--map` and `--landmarks`: every map from fit to evaluate, landmarks from a table, refusals.

use crate::run::{kmill, ok};
use std::path::Path;

fn refused(folder: &Path, line: &str, message: &str) {
    let (code, _, stderr) = kmill(folder, line);
    assert!(code != 0 && stderr.contains(message), "{line}: exit {code}, {stderr}");
    assert!(!folder.join("refused").exists(), "{line} left a model");
}

/// Returns a kernel for this map and a lambda for f32: 120 features of rank 66 are dependent.
fn kernel(map: &str) -> (&'static str, &'static str) {
    match map {
        "sketch" => ("polynomial(degree=2)", "1e-3"),
        "additive" => ("additive_chi_squared()", "1e-7"),
        _ => ("gaussian(sigma=4)", "1e-6"),
    }
}

#[test]
fn every_map_learns_and_its_model_predicts_what_the_fit_saw() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 3000 -o train.parquet -q");
    for family in kapprox::map::registry() {
        let (map, (kernel, lambda)) = (family.name, kernel(family.name));
        let fit = ok(
            at,
            &format!(
                "fit ridge train.parquet --target y --scale minmax --map {map} --kernel {kernel} --rank 120 \
                 --lambda {lambda} -o {map} --json"
            ),
        );
        // the variance of the target is about 25, the variance of the noise 1
        let train = fit["train"]["mse"].as_f64().unwrap();
        assert!(train < 8.0, "{map}: {train}");
        assert_eq!(
            fit["certificate"].is_null(),
            map.parse::<kapprox::MapSpec>().unwrap().is_data_independent(),
            "{map}"
        );
        // the Gram matrix and the model file agree: basis, coefficients, scaler, probe
        let scores = ok(at, &format!("evaluate {map} train.parquet --json"));
        let again = scores["mse"].as_f64().unwrap();
        assert!((again - train).abs() < 1e-3 * train, "{map}: {again} and {train}");
        let model = std::fs::read(at.join(map)).unwrap();
        ok(
            at,
            &format!(
                "fit ridge train.parquet --target y --scale minmax --map {map} --kernel {kernel} --rank 120 \
                 --lambda {lambda} -o again --threads 1 --memory 300MiB --json"
            ),
        );
        assert!(model == std::fs::read(at.join("again")).unwrap(), "{map}: other bits with other threads and memory");
    }
}

#[test]
fn what_a_map_cannot_do_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 500 -o t.parquet -q");
    let fit = "fit ridge t.parquet --target y -o refused";
    refused(at, &format!("{fit} --map fourier --tolerance 1e-2"), "has no trace error");
    refused(at, &format!("{fit} --map ensemble --ranks 50..200"), "not nested; give one --rank");
    refused(at, &format!("{fit} --map fourier --kernel linear()"), "is not a shift-invariant kernel");
    refused(at, &format!("{fit} --map sketch"), "is not a polynomial kernel");
    refused(at, &format!("{fit} --map orthogonal --kernel laplacian(sigma=2)"), "cannot be rotated");
    refused(at, &format!("{fit} --map furier"), "unknown map");
    refused(at, &format!("{fit} --map ensemble(parts=0)"), "a whole number from 1");
    refused(at, &format!("{fit} --map ensemble(party=2)"), "it takes parts");
    refused(at, &format!("{fit} --landmarks unifrom"), "give one of rpcholesky");
    refused(at, &format!("{fit} --landmarks none.parquet"), "none.parquet");
    // standard scaling gives values below 0, for which the kernel is not defined
    refused(at, &format!("{fit} --map additive --kernel intersection()"), ">= 0");
}

#[test]
fn landmarks_that_nothing_reads_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 500 -o t.parquet -q");
    ok(at, "convert t.parquet --rows ..40 -o few.parquet -q");
    let fit = "fit ridge t.parquet --target y --lambda 1e-6 --rank 20 -q -o refused";
    for family in kapprox::map::registry() {
        if !family.name.parse::<kapprox::MapSpec>().unwrap().is_data_independent() {
            continue;
        }
        let why = format!("--map {} has no landmarks; leave it out", family.name);
        for given in ["--landmarks uniform", "--landmarks rpcholesky", "--landmarks few.parquet", "--candidates all"] {
            refused(at, &format!("{fit} --map {} {given}", family.name), &why);
        }
    }
    refused(at, &format!("{fit} --map fourier --candidates 200"), "--candidates 200: --map fourier has no landmarks");
    refused(at, "plan ridge t.parquet --target y --map fourier --landmarks uniform", "--landmarks uniform: --map");
    refused(at, "test mmd t.parquet --by x0>0.5 --map fourier --landmarks uniform", "--map fourier has no landmarks");
    refused(at, "test mmd t.parquet --by x0>0.5 --map exact --candidates 50", "--map exact has no landmarks");
    refused(at, &format!("{fit} --landmarks few.parquet --candidates 50"), "landmarks from a table are not chosen");
    // the exact kernel uses landmarks only to iterate, chosen among the rows in memory
    for given in ["--method direct --landmarks uniform", "--method direct --candidates all", "--loo --landmarks greedy"]
    {
        refused(
            at,
            &format!("{fit} --map exact {given}"),
            "only with --method pcg, for its preconditioner; leave it out",
        );
    }
    refused(at, &format!("{fit} --map exact --method pcg --candidates 50"), "stores all rows");
    let fit = "fit ridge t.parquet --target y --lambda 1e-3 --rank 20 -q";
    ok(at, &format!("{fit} --map exact --method pcg --landmarks uniform --candidates all -o m"));
    ok(at, &format!("{fit} --map fourier -o m"));
    // a sharded job has no landmark settings if its fit has none
    ok(at, &format!("{} --map fourier -o job", fit.replacen("fit", "prepare", 1)));
    ok(at, "stats job t.parquet -q -o all");
    ok(at, "solve job all -q -o of_shards");
    assert!(std::fs::read(at.join("of_shards")).unwrap() == std::fs::read(at.join("m")).unwrap());
}

#[test]
fn landmarks_of_a_table_are_those_of_the_map() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 2000 -o t.parquet -q");
    // the first rows as landmarks, as a table
    ok(at, "convert t.parquet --rows ..80 -o landmarks.parquet -q");
    let learn = "fit ridge t.parquet --target y --kernel gaussian(sigma=3) --lambda 1e-6 --json";
    let given = ok(at, &format!("{learn} --landmarks landmarks.parquet -o given"));
    assert_eq!((&given["rank"], &given["landmarks"]["scheme"]), (&80.into(), &"a table".into()));
    let fewer = ok(at, &format!("{learn} --landmarks landmarks.parquet --rank 30 -o fewer"));
    assert_eq!(fewer["rank"], 30);
    let error = |fit: &serde_json::Value| fit["certificate"]["trace_error"].as_f64().unwrap();
    assert!(error(&fewer) > error(&given) && error(&given) > 0.0);
    // a table with another column order and format
    ok(at, "convert landmarks.parquet --target y -o landmarks.npy -q");
    ok(at, &format!("{learn} --landmarks landmarks.npy -o npy"));
    assert!(std::fs::read(at.join("npy")).unwrap() == std::fs::read(at.join("given")).unwrap());
    ok(at, "generate smile --rows 50 -o other.parquet -q");
    refused(at, &format!("{learn} --landmarks other.parquet -o refused"), "x2");
}

#[test]
fn predictive_landmarks_look_at_the_target() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 3000 --features 10 -o t.parquet -q");
    ok(at, "generate blobs --rows 3000 -o b.parquet -q");
    let fit = |landmarks: &str, more: &str| {
        let line = "fit ridge t.parquet --target y --kernel gaussian(sigma=3) --lambda 1e-6 --rank 25";
        let fit = ok(at, &format!("{line} --landmarks {landmarks} {more} -o m --json"));
        (fit["train"]["mse"].as_f64().unwrap(), fit["certificate"]["trace_error"].as_f64().unwrap())
    };
    let (predictive, greedy) = (fit("predictive", ""), fit("greedy", ""));
    assert!(predictive.0 < greedy.0, "{predictive:?} {greedy:?}");
    // all rows instead of a sample of at least as many: the same landmarks
    assert_eq!(fit("predictive", "--candidates all"), predictive);
    ok(at, "fit ridge b.parquet --target y --task classification --landmarks predictive --rank 20 -o c --json");
}

/// With as many landmarks as rows, f32 features would exceed the kernel and are computed in f64.
/// The largest number allowed as a rank is reduced.
#[test]
fn features_that_f32_cannot_bear_are_computed_in_f64() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 2000 -o t.parquet -q");
    for rank in ["2000", "18446744073709551615"] {
        let fit = ok(at, &format!("fit ridge t.parquet --target y --lambda 1e-6 --rank {rank} -o m --json"));
        let share = |name: &str| fit["certificate"][name].as_f64().unwrap();
        assert!(share("overshoot") <= share("trace_error").max(1e-6), "{}", fit["certificate"]);
    }
}

/// A fit reports its model's error, also in f32 if large coefficients magnify rounding errors.
#[test]
fn the_error_that_ridge_reports_is_that_of_its_model() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 1000 --features 5 -o t.parquet -q");
    for (way, most) in [
        ("gaussian(sigma=median) --rank 500 --method pcg", 1e-5),
        ("gaussian(sigma=median) --rank 500 --method direct", 1e-4),
        ("gaussian(sigma=4) --landmarks uniform --rank 100 --method direct", 1e-4),
        ("gaussian(sigma=median) --map exact --method pcg --rank 100", 1e-5),
        ("gaussian(sigma=median) --map exact --method direct", 1e-5),
    ] {
        for lambda in ["1e-4", "1e-6", "1e-8"] {
            let line = format!("fit ridge t.parquet --target y --lambda {lambda} --kernel {way} -o m --json");
            let told = ok(at, &line)["train"]["mse"].as_f64().unwrap();
            let found = ok(at, "evaluate m t.parquet --json")["mse"].as_f64().unwrap();
            eprintln!("{way} {lambda}: {:.1e}", told / found - 1.0);
            assert!((told / found - 1.0).abs() < most, "{way} {lambda}: {told} is told, {found} is true");
        }
    }
}
