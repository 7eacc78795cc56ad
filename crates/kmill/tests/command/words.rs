//! Words from file to model and back: one model for every format and budget, and linear SVMs.

use crate::run::{kmill, ok};
use std::fmt::Write;
use std::path::Path;

/// Returns texts of artificial words; class a prefers the first words, class b the last.
fn texts(rows: usize, seed: u64, longest: u64) -> Vec<(String, char)> {
    let mut state = seed;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let word = |i: u64| {
        format!("{}{}o", ['b', 'd', 'k', 'm', 'r'][(i % 5) as usize], ['a', 'e', 'i', 'u'][(i / 5 % 4) as usize])
    };
    let text = |row: usize| {
        let class = next(2);
        let count = if row == 7 { longest } else { 2 + next(7) };
        let words: Vec<String> =
            (0..count).map(|_| word(if next(4) > 0 { 10 * class + next(10) } else { next(20) })).collect();
        (words.join(" "), if class == 0 { 'a' } else { 'b' })
    };
    (0..rows).map(text).collect()
}

fn tables(at: &Path) {
    for (name, rows) in [("a", texts(300, 1, 5)), ("b", texts(120, 2, 90))] {
        let (mut csv, mut json) = ("y,n,comment\n".to_string(), String::new());
        for (i, (text, class)) in rows.iter().enumerate() {
            writeln!(csv, "{class},{i},{text}").unwrap();
            writeln!(json, "{{\"y\": \"{class}\", \"n\": {i}, \"comment\": \"{text}\"}}").unwrap();
        }
        std::fs::write(at.join(format!("{name}.csv")), csv).unwrap();
        std::fs::write(at.join(format!("{name}.jsonl")), json).unwrap();
    }
    ok(at, "convert a.csv -o a.parquet -q");
}

/// Returns the predictions of a model for `a.svm`.
fn predictions(at: &Path, model: &str) -> Vec<f64> {
    ok(at, &format!("predict {model} a.svm -o p.csv -q"));
    let text = std::fs::read_to_string(at.join("p.csv")).unwrap();
    let numbers = |line: &str| line.split(',').map(|value| value.parse().unwrap()).collect::<Vec<f64>>();
    text.lines().skip(1).flat_map(numbers).collect()
}

#[test]
fn words_make_one_model_whatever_the_format_and_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tables(at);
    for fit in ["--kernel gaussian(sigma=1) --rank 40 --C 10", "--kernel linear --map exact --C 1"] {
        let fit = |data: &str, more: &str| {
            ok(at, &format!("fit svm {data} --target y --features comment --text comment:word(1,2) {fit} -q {more}"));
        };
        fit("a.csv", "-o m.safetensors --memory 2GiB --threads 2");
        let bytes = std::fs::read(at.join("m.safetensors")).unwrap();
        for (data, run) in [("a.parquet", "--memory 160MiB --threads 1"), ("a.jsonl", "--memory 300MiB --threads 3")] {
            fit(data, &format!("-o n.safetensors {run}"));
            assert_eq!(bytes, std::fs::read(at.join("n.safetensors")).unwrap(), "{data}");
        }
        // the text column is read again, also rows longer than any training row
        let scores = ok(at, "evaluate m.safetensors b.csv --json");
        assert!(scores["error"].as_f64().unwrap() < 0.2, "{scores}");
        ok(at, "predict m.safetensors b.jsonl -o p.csv -q");
        ok(at, "predict m.safetensors b.csv -o q.csv -q");
        assert_eq!(std::fs::read(at.join("p.csv")).unwrap(), std::fs::read(at.join("q.csv")).unwrap());
    }
    ok(at, "plan svm a.csv --target y --features comment --text comment --rank 40 --json");
    let card = ok(at, "inspect m.safetensors --json").to_string();
    assert!(card.contains("word(1,2)") && card.contains("tf-idf"), "{card}");
}

/// Writes rows whose target is twice a number plus 3 per word of the first class, at most 5 words.
fn priced(at: &Path) {
    for (name, rows) in [("p", texts(400, 3, 5)), ("q", texts(150, 4, 60))] {
        let (mut csv, mut json) = ("price,size,city,comment\n".to_string(), String::new());
        for (i, (text, _)) in rows.iter().enumerate() {
            let first = text.split(' ').filter(|word| word.contains('a') || word.contains('e')).count().min(5) as f64;
            let size = (i * 37 % 101) as f64 / 50.0;
            let comment = if i == 11 { "" } else { text };
            let (price, city) = (2.0 * size + 3.0 * first, ["Ulm", "Bonn"][i % 2]);
            writeln!(csv, "{price},{size},{city},{comment}").unwrap();
            let comment = if i == 11 { "null".to_string() } else { format!("\"{comment}\"") };
            writeln!(json, "{{\"price\": {price}, \"size\": {size}, \"city\": \"{city}\", \"comment\": {comment}}}")
                .unwrap();
        }
        std::fs::write(at.join(format!("{name}.jsonl")), json).unwrap();
        std::fs::write(at.join(format!("{name}.csv")), csv).unwrap();
    }
}

#[test]
fn words_are_features_beside_numbers_and_categories() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    priced(at);
    ok(at, "convert p.csv -o p.parquet -q");
    let fit = |data: &str, more: &str| {
        let line = "--target price --text comment --missing indicator --rank 100 -q --json";
        ok(at, &format!("fit ridge {data} {line} {more}"))
    };
    let report = fit("p.csv", "-o m.safetensors --memory 2GiB --threads 2");
    // size, two cities, and twenty words
    assert_eq!(report["features"], 23, "{report}");
    let bytes = std::fs::read(at.join("m.safetensors")).unwrap();
    for (data, run) in [("p.parquet", "--memory 160MiB --threads 1"), ("p.jsonl", "--memory 300MiB --threads 3")] {
        fit(data, &format!("-o n.safetensors {run}"));
        assert_eq!(bytes, std::fs::read(at.join("n.safetensors")).unwrap(), "{data}");
    }
    let r2 = |model: &str| ok(at, &format!("evaluate {model} q.csv --json"))["r2"].as_f64().unwrap();
    let with_words = r2("m.safetensors");
    ok(at, "fit ridge p.csv --target price --features size,city --rank 100 -o s.safetensors -q");
    assert!(with_words > 0.8 && r2("s.safetensors") < 0.3, "{with_words}");
    // words of a single row are not features
    let text = std::fs::read_to_string(at.join("p.csv")).unwrap();
    let alone: String = text.lines().enumerate().map(|(i, line)| format!("{line} unique{i}\n")).collect();
    std::fs::write(at.join("u.csv"), alone.replacen("comment unique0", "comment", 1)).unwrap();
    let unique = ok(at, "fit ridge u.csv --target price --text comment --rank 50 -o u.safetensors --json -q");
    assert_eq!(unique["features"], 23, "{unique}");
    // the number of words can be limited; every verb accepts words, also as the only features
    let few = ok(
        at,
        "fit ridge p.csv --target price --text comment:word(1,features=5) --missing indicator --rank 50 -o f.safetensors --json -q",
    );
    assert_eq!(few["features"], 8, "{few}");
    ok(at, "tune ridge p.csv --target price --text comment --missing indicator --time 2s -o t.safetensors -q");
    assert!(r2("t.safetensors") > 0.8);
    ok(
        at,
        "tune svr p.csv --target price --features comment --text comment --missing indicator --work 1,1 -o t.safetensors -q",
    );
    ok(at, "curve p.csv --target price --text comment --missing indicator --ranks 10,20 -o c.csv -q");
    // a missing text has no words, or is an error with its position
    let (code, _, stderr) = kmill(at, "fit ridge p.csv --target price --text comment --rank 20 -o e.safetensors -q");
    assert!(code == 1 && stderr.contains("line 13") && stderr.contains("comment"), "{stderr}");
    ok(at, "predict m.safetensors q.csv -o q1.csv -q");
    let card = ok(at, "inspect m.safetensors --json").to_string();
    assert!(card.contains("word(1,1,features=1000)"), "{card}");
}

#[test]
fn what_words_do_not_go_with_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tables(at);
    for (line, part) in [
        (
            "fit svm a.csv --target y --features comment --text comment --scale standard",
            "--scale standard: it would fill the zeros",
        ),
        ("fit svm a.csv --target y --features n --scale tf-idf", "--scale tf-idf: it applies only to sparse rows"),
        ("fit kdr a.csv --target n --features comment --text comment", "does not support sparse rows"),
        ("fit svm a.csv --target y --text comment --scale tf-idf", "--scale tf-idf: it applies only to sparse rows"),
    ] {
        let more = if line.starts_with("fit") { "-o m.safetensors -q" } else { "" };
        let (code, _, stderr) = kmill(at, &format!("{line} {more}"));
        assert!(code > 0 && stderr.contains(part), "{line}: {code} {stderr}");
    }
}

/// Linear SVMs on sparse rows agree in objectives and scores with SVMs on dense rows.
#[test]
fn linear_machines_on_sparse_rows_are_those_of_dense_ones() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let line = |(text, class): &(String, char)| {
        let mut counts = std::collections::BTreeMap::new();
        text.split(' ')
            .for_each(|word| *counts.entry(1 + word.bytes().map(u64::from).sum::<u64>() % 30).or_insert(0) += 1);
        let entries: String =
            counts.iter().map(|(place, count)| format!(" {place}:{}", f64::from(*count) / 2.0)).collect();
        let first = text.as_bytes()[0] < b'k';
        format!("{}{entries}\n", if *class == 'a' { 1 } else { 2 + i32::from(first) })
    };
    std::fs::write(at.join("a.svm"), texts(240, 3, 5).iter().map(line).collect::<String>()).unwrap();
    for fit in [
        "svm --C 2 --class-weight balanced",
        "svm --C 2 --intercept penalised --loss squared-hinge",
        "svm --C 0.5 --intercept none --multiclass one-vs-one",
        "svm --C 0.1,1 --folds 3",
        "svr --C 2 --epsilon 0.2",
        "oneclass --nu 0.2",
    ] {
        let target = if fit.starts_with("oneclass") { "--features x*" } else { "--target y" };
        let base = format!(
            "fit {fit} a.svm {target} --kernel linear --map exact --scale none --no-clip --precision f64 --gap 1e-9 --steps 100000 -q"
        );
        let dense = ok(at, &format!("{base} -o dense.safetensors --json"));
        let sparse = ok(at, &format!("{base} --sparse -o sparse.safetensors --json"));
        let of = |model: &str| -> Vec<f64> {
            ok(
                at,
                &format!(
                    "predict {model} a.svm --width 30 -o p.csv -q {}",
                    if fit.starts_with("svm") { "--scores" } else { "" }
                ),
            );
            let text = std::fs::read_to_string(at.join("p.csv")).unwrap();
            text.lines()
                .skip(1)
                .flat_map(|line| line.split(',').map(|value| value.parse().unwrap()).collect::<Vec<f64>>())
                .collect()
        };
        let furthest = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        let (a, b) = (of("dense.safetensors"), of("sparse.safetensors"));
        assert!(a.len() == b.len() && furthest(&a, &b) < 1e-3, "{fit}: {:e}", furthest(&a, &b));
        let objective = |report: &serde_json::Value| -> Vec<f64> {
            let figures = report["figures"].as_array().unwrap();
            let values = figures.iter().find(|figure| figure["name"] == "objective").map(|figure| &figure["values"]);
            values.unwrap().as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
        };
        let (a, b) = (objective(&dense), objective(&sparse));
        assert!(furthest(&a, &b) < 1e-8, "{fit}: {a:?} {b:?}");
    }
    let ridge = |more: &str| {
        let base = "fit ridge a.svm --target y --kernel linear --map exact --scale none --no-clip --precision f64";
        ok(at, &format!("{base} --lambda 1e-3 -o r.safetensors -q {more}"));
        predictions(at, "r.safetensors")
    };
    for intercept in ["free", "penalised", "none"] {
        let (a, b) = (ridge(&format!("--intercept {intercept}")), ridge(&format!("--intercept {intercept} --sparse")));
        let furthest = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(furthest < 1e-7, "{intercept}: {furthest:e}");
    }
}
