//! The search with means of learned sums of kernels.

use crate::run::{kmill, ok};
use kstore::key::{Purpose, Stream};
use std::path::Path;

/// A smooth function of one column, a step along a column with a long tail, and noise.
fn write_table(at: &Path, name: &str, rows: std::ops::Range<usize>) {
    // uniform on [-1, 1]: rows are independent, so that new rows are like the rows of the fit
    let uniform = |i: usize, k: u64| 2.0 * Stream::new(k, Purpose::Data, 0).uniform(i as u64) - 1.0;
    let line = |i: usize| {
        let (a, b, c) = (uniform(i, 0), (3.0 * uniform(i, 1)).exp(), uniform(i, 2));
        let noise = 0.2 * uniform(i, 3) * uniform(i, 4);
        format!("{a},{b},{c},{}\n", (3.0 * a).sin() + f64::from(u8::from(b > 2.0)) + 0.3 * b.ln() * c + noise)
    };
    let text = format!("x0,x1,x2,y\n{}", rows.map(line).collect::<String>());
    std::fs::write(at.join(name), text).unwrap();
}

/// Persons in the order of the rows, each with a level, a trend of time, and a column that tells
/// the level, as far as `told` says.
fn write_panel(at: &Path, told: f64) {
    let draw = |i: usize, k: u64| 2.0 * Stream::new(k, Purpose::Data, 1).uniform(i as u64) - 1.0;
    let line = |i: usize| {
        let (person, step) = (i / 20, i % 20);
        let (level, slope) = (draw(person, 0), draw(person, 1));
        let column = told * level + (1.0 - told) * draw(person, 2);
        format!(
            "{column},{step},{},{},{}\n",
            draw(i, 3),
            draw(i, 5),
            2.0 * level + 0.1 * slope * step as f64 + 0.02 * draw(i, 4)
        )
    };
    let text = format!("x0,time,x2,part,y\n{}", (0..320).map(line).collect::<String>());
    std::fs::write(at.join("panel.csv"), text).unwrap();
}

#[test]
fn a_series_is_chosen_by_blocks_and_predicts_rows_between_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // if no column tells the level, all fits are about equally bad for new persons; with landmarks,
    // leaves have the part with short length scales
    for (told, has_mean, landmarks) in [(0.0, true, ""), (0.55, false, "--landmarks uniform ")] {
        write_panel(at, told);
        let tune =
            format!("tune ridge panel.csv --target y --features x0,time,x2 --where part<0.6 --json {landmarks}-o");
        let found = ok(at, &format!("{tune} m.safetensors --time 10min"));
        assert_eq!(found["folds"], "blocks:6", "{found}");
        let r2 = ok(at, "evaluate m.safetensors panel.csv --where part>0.6 --json")["r2"].as_f64().unwrap();
        assert!(r2 > 0.8, "{r2}: {found}");
        let contenders = found["contenders"].as_array().unwrap();
        let chosen = contenders.iter().find(|contender| contender["chosen"] == true).unwrap();
        let why = chosen["why"].as_str().unwrap_or_default();
        assert_eq!(why.contains("between the rows of the table"), has_mean, "{found}");
        assert_eq!(chosen["solver"].as_str().unwrap().ends_with("mean of 3 fits"), has_mean, "{found}");
        // the work that was done gives the same model
        let repeat = found["repeat"].as_str().unwrap().replace('\'', "");
        assert_eq!(repeat.contains("--local-kernel exponential()"), !has_mean, "{repeat}");
        ok(at, &format!("{tune} again.safetensors --threads 1 {repeat}"));
        let bytes = |name: &str| std::fs::read(at.join(name)).unwrap();
        assert!(bytes("m.safetensors") == bytes("again.safetensors"), "{repeat}");
    }
}

#[test]
fn a_small_table_gets_the_mean_of_three_sums() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_table(at, "t.csv", 0..200);
    write_table(at, "new.csv", 300..1000);
    let tune = "tune ridge t.csv --target y --json -o";
    let found = ok(at, &format!("{tune} m.safetensors --time 10min"));
    let solver = |report: &serde_json::Value| {
        let contenders = report["contenders"].as_array().unwrap().clone();
        let chosen = contenders.into_iter().find(|contender| contender["chosen"] == true).unwrap();
        chosen["solver"].as_str().unwrap().to_string()
    };
    assert!(solver(&found).ends_with("mean of 3 fits"), "{found}");
    assert_eq!(found["fit"]["members"].as_array().unwrap().len(), 2);
    // each fit learned its kernel from all rows
    assert_eq!(found["fit"]["likelihood"]["rows"], 200);
    // the work that was done gives the same model, on any number of threads
    let repeat = found["repeat"].as_str().unwrap();
    ok(at, &format!("{tune} again.safetensors --threads 1 {repeat}"));
    let bytes = |name: &str| std::fs::read(at.join(name)).unwrap();
    assert!(bytes("m.safetensors") == bytes("again.safetensors"), "{repeat}");
    let error = |model: &str| ok(at, &format!("evaluate {model} new.csv --json"))["mse"].as_f64().unwrap();
    ok(at, &format!("{tune} map.safetensors --rank 200"));
    let (mean, map) = (error("m.safetensors"), error("map.safetensors"));
    assert!(mean < map, "{mean} {map}");
    // the error of all rows, each by a search without them
    let outer = &found["outer_test"];
    assert!(outer["rows"].as_u64() == Some(200) && outer["outer_folds"] == 5, "{found}");
    assert!(outer["standard_error"].as_f64() < found["test"]["standard_error"].as_f64(), "{found}");
    let told = outer["error"].as_f64().unwrap();
    assert!(mean < 2.0 * told && told < 2.0 * mean, "{told} {mean}");
    let single = ok(at, &format!("{tune} s.safetensors --members 1 {repeat}"));
    assert!(!solver(&single).contains("mean of") && single["fit"]["members"].is_null(), "{single}");
    let card = ok(at, "inspect m.safetensors --json");
    assert_eq!(card["members"].as_array().unwrap().len(), 2, "{card}");
}

/// Counts with means between 1 and 400 that depend on steps along x0 and smoothly on x1.
fn write_counts(at: &Path, rows: std::ops::Range<usize>) {
    let uniform = |i: usize, k: u64| Stream::new(k, Purpose::Data, 7).uniform(i as u64);
    let line = |i: usize| {
        let (a, b) = (6.0 * uniform(i, 0), uniform(i, 1));
        let mean = (a.floor() + (6.0 * b).sin()).exp();
        // a count with about this mean and about its variance
        let count = (mean + mean.sqrt() * 3.5 * (uniform(i, 2) - 0.5)).round().max(0.0);
        format!("{a},{b},{},{count},{}\n", uniform(i, 3), (count + 0.5).ln())
    };
    let text = format!("x0,x1,x2,count,log\n{}", rows.map(line).collect::<String>());
    std::fs::write(at.join("counts.csv"), text).unwrap();
}

#[test]
fn length_scales_of_counts_are_learned_from_the_likelier_of_counts_and_logarithms() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_counts(at, 0..300);
    let kernel_of = |solver: &str, target: &str| {
        let fit = format!(
            "fit {solver} counts.csv --target {target} --features x* --metric likelihood --kernel laplacian() \
             --rank 20 --lambda 1e-4 --folds none --json -o m.safetensors"
        );
        let report = ok(at, &fit);
        (report["kernel"].to_string(), report["likelihood"]["log_likelihood"].as_f64().unwrap())
    };
    let [counts, logs] = [kernel_of("ridge", "count"), kernel_of("ridge", "log")];
    let glm = kernel_of("glm", "count");
    assert!(counts.0 != logs.0 && glm.0 == logs.0, "{counts:?} {logs:?} {glm:?}");
    // the report has the likelihood of the counts
    assert!(glm.1 > counts.1 && (glm.1 - logs.1).abs() > 10.0, "{counts:?} {logs:?} {glm:?}");
}

#[test]
fn models_with_a_loss_are_chosen_by_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write_counts(at, 0..400);
    let tune =
        "tune glm counts.csv --target count --features x* --kernels gaussian() --rank 60 --json -o m.safetensors";
    let found = ok(at, tune);
    assert_eq!(found["select"], "loss", "{found}");
    let evaluated = ok(at, "evaluate m.safetensors counts.csv --json");
    let deviance = evaluated["loss"]["mean"].as_f64().unwrap();
    // errors of the contenders are deviances, not squared errors, which are over 100
    let means = found["contenders"].as_array().unwrap().iter().filter_map(|contender| contender["mean"].as_f64());
    let means: Vec<f64> = means.collect();
    assert!(!means.is_empty() && means.iter().all(|mean| (0.3 * deviance..30.0).contains(mean)), "{deviance}: {found}");
    assert!(
        found["test"]["loss"].as_f64().unwrap() < 30.0 && found["test"]["error"].as_f64().unwrap() > 30.0,
        "{found}"
    );
    // without --kernels, a sum that was learned by likelihood competes
    let found = ok(at, &tune.replace("--kernels gaussian() ", "--work 4,9 --sample 400 "));
    let metrics: Vec<_> = found["contenders"].as_array().unwrap().iter().map(|entry| &entry["metric"]).collect();
    assert!(metrics.iter().any(|metric| **metric == "likelihood"), "{found}");
    // ridge regression has no loss of its own
    let (code, _, text) = kmill(at, &tune.replace("tune glm", "tune ridge --measure loss"));
    assert!(code == 1 && text.contains("no loss of their own"), "{code} {text}");
}
