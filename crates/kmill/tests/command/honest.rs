//! Reported errors match errors on new rows, and more work never chooses a worse model.

use crate::run::{kmill, ok};
use serde_json::Value;
use std::path::Path;

/// Returns a generator of reproducible numbers from -1 to 1.
fn numbers(mut state: u64) -> impl FnMut() -> f64 {
    move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f64 / (1u64 << 23) as f64 - 1.0
    }
}

fn write(path: &Path, head: &str, rows: impl Iterator<Item = Vec<f64>>) {
    let line = |row: Vec<f64>| row.iter().map(f64::to_string).collect::<Vec<_>>().join(",") + "\n";
    std::fs::write(path, format!("{head}\n{}", rows.map(line).collect::<String>())).unwrap();
}

/// Returns the error of the starred kernel, and the errors of all lines with its scaling.
fn stars(report: &Value) -> (f64, Vec<f64>) {
    let rows: Vec<&Value> = report["rows"].as_array().unwrap().iter().filter(|row| row["best"] == true).collect();
    let star = rows.iter().rfind(|row| row["kept"] == true).unwrap();
    let like = rows.iter().filter(|row| row["scale"] == star["scale"]);
    (star["cv_mse"].as_f64().unwrap(), like.map(|row| row["cv_mse"].as_f64().unwrap()).collect())
}

#[test]
fn more_work_never_chooses_a_worse_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate hidden --rows 560 --features 6 -o t.parquet -q");
    let line = "tune any t.parquet --target y --kernels gaussian(),laplacian() --scale standard -o s.json --json";
    let mut last = f64::INFINITY;
    // ends before the first kernel, after the second, and while its metric is relearned
    for work in [1, 37, 64] {
        let report = ok(at, &format!("{line} --work {work},0"));
        let (star, lines) = stars(&report);
        assert!(lines.iter().all(|line| star <= *line), "{work}: {star} of {lines:?}");
        assert!(star <= last, "{work}: {star} after {last}");
        last = star;
        for contender in report["contenders"].as_array().unwrap() {
            let least =
                |other: &Value| other["mean"].as_f64().is_none_or(|mean| contender["mean"].as_f64() <= Some(mean));
            let is_least = report["contenders"].as_array().unwrap().iter().all(least);
            assert!(contender["chosen"] == false || is_least || contender["why"].is_string(), "{report}");
        }
    }
    assert!(last < 0.1, "{last}");
}

#[test]
fn the_error_told_is_that_of_the_rank_that_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 3000 -o t.parquet -q");
    for rank in [15, 60] {
        let line =
            format!("tune any t.parquet --target y --rows ..1200 --kernels gaussian() --work 4,2 --ranks {rank}");
        let report = ok(at, &format!("{line} -o m.safetensors --json"));
        let (told, at_rank) = (report["test"]["error"].as_f64().unwrap(), report["test"]["rank"].as_u64().unwrap());
        let fresh = ok(at, "evaluate m.safetensors t.parquet --rows 1200.. --json")["mse"].as_f64().unwrap();
        assert!(at_rank == rank && (0.6..1.4).contains(&(told / fresh)), "rank {rank}: {told} told, {fresh} fresh");
    }
}

#[test]
fn a_metric_is_judged_by_rows_that_it_has_not_seen() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let (mut number, d) = (numbers(1), 10);
    let noise = |number: &mut dyn FnMut() -> f64| (0..4).map(|_| number()).sum::<f64>() * 0.85;
    let mut row = |signal: f64| {
        let x: Vec<f64> = (0..d).map(|_| 1.7 * number()).collect();
        let y = signal * (2.0 * x[0]).tanh() + noise(&mut number);
        x.into_iter().chain([y]).collect::<Vec<f64>>()
    };
    let head = (0..d).map(|j| format!("x{j}")).collect::<Vec<_>>().join(",") + ",y";
    write(&at.join("noise.csv"), &head, (0..1400).map(|_| row(0.0)));
    write(&at.join("signal.csv"), &head, (0..1400).map(|_| row(3.0)));
    let cv = |fit: &Value| {
        let cells = fit["surface"].as_array().unwrap();
        cells.iter().find(|cell| cell["lambda"] == fit["lambda"]).unwrap()["cv_mse"].as_f64().unwrap()
    };
    for table in ["noise", "signal"] {
        let fit =
            format!("fit ridge {table}.csv --target y --rows ..400 --rank 100 --metric full -o m.safetensors --json");
        let (code, report, stderr) = kmill(at, &fit);
        assert_eq!(code, 0, "{stderr}");
        let fresh = ok(at, &format!("evaluate m.safetensors {table}.csv --rows 400.. --json"))["mse"].as_f64().unwrap();
        let (told, judged) = (cv(&report), &report["metric"]["judged"]);
        assert!((0.8..1.25).contains(&(told / fresh)), "{table}: {told} told, {fresh} fresh");
        let (with, without) = (judged["with"].as_f64().unwrap(), judged["without"].as_f64().unwrap());
        assert_eq!(stderr.contains("rows that did not train it"), with >= without, "{stderr}");
        assert_eq!(table == "signal", with < 0.9 * without, "{judged}");
    }
    // `learn` keeps no metric if none is better
    let learn = |table: &str| {
        kmill(
            at,
            &format!("fit ridge {table}.csv --target y --rows ..400 --rank 100 --metric learn -o l.safetensors --json"),
        )
    };
    let ((_, none, told), (_, some, _)) = (learn("noise"), learn("signal"));
    assert!(none["metric"].is_null() && told.contains("no metric had a smaller held-out error"), "{none} {told}");
    assert!(some["metric"]["judged"]["rows"].as_u64().is_some_and(|rows| (60..110).contains(&rows)), "{some}");
    // a solver that cannot hold out that fold alone reports what its errors are
    let (_, _, stderr) =
        kmill(at, "fit svr signal.csv --target y --rows ..300 --rank 50 --C 0.1,1 --metric full -o s.safetensors");
    assert!(stderr.contains("the metric was learned from the rows of all folds"), "{stderr}");
}

#[test]
fn of_very_many_columns_no_metric_is_learned() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut number = numbers(9);
    let row = |i: usize| format!("{} 1:{} {}:1 12000:{}\n", i % 2, i % 2, 100 + i, number());
    std::fs::write(at.join("t.svm"), (0..200).map(row).collect::<String>()).unwrap();
    let (code, report, told) = kmill(at, "tune any t.svm --target y --work 2,2 --rank 20 -o s.json --json");
    assert!(code == 0 && report["metric"] == "none", "{told}");
    assert!(told.contains("the rows are sparse, so no metric is learned"), "{told}");
}

#[test]
fn few_whole_numbers_are_classes_or_are_asked_about() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut number = numbers(3);
    let rows = (0..400).map(|i| {
        let (a, b) = (number(), number());
        vec![a, b, f64::from(u8::from(a * b > 0.0)), f64::from(2700 + 10 * (i % 90)), f64::from(i % 7 / 6 * (i % 11))]
    });
    write(&at.join("t.csv"), "a,b,sick,mass,few", rows);
    let tune = "tune any t.csv --features a,b --kernels gaussian() --work 1,2 --rank 40 -o s.json --json --target";
    let (_, classes, told) = kmill(at, &format!("{tune} sick"));
    assert!(
        told.contains("2 distinct integer values, each in many rows") && told.contains("--task regression"),
        "{told}"
    );
    assert!(
        classes["contenders"].as_array().unwrap().iter().any(|one| one["solver"] == "logistic, lambda 1e-6"),
        "{classes}"
    );
    // values with few rows, and many values, are quantities; so are classes with --task regression
    for (target, more) in [("few", ""), ("mass", ""), ("sick", " --task regression")] {
        let (_, report, told) = kmill(at, &format!("{tune} {target}{more}"));
        assert!(report["solver"] == "ridge" && !told.contains("treated as categorical"), "{target}: {told} {report}");
    }
    let (_, _, told) = kmill(at, "fit ridge t.csv --features a,b --target sick --rank 20 -o r.safetensors");
    assert!(told.contains("integer values from 0 to 1") && told.contains("--task classification"), "{told}");
    let (_, _, told) =
        kmill(at, "fit logistic t.csv --features a,b --target mass --rank 5 --lambda 1e-3 -o l.safetensors");
    assert!(told.contains("90 distinct integer values"), "{told}");
    let (_, _, told) =
        kmill(at, "fit logistic t.csv --features a,b --target sick --rank 5 --lambda 1e-3 -o l.safetensors");
    assert!(!told.contains("integer values"), "{told}");
}

#[test]
fn forward_folds_test_later_rows_by_earlier_ones() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut number = numbers(5);
    let rows: Vec<Vec<f64>> = (0..100)
        .map(|i| {
            let (x, day) = (number(), f64::from(i / 5));
            vec![x, number(), (3.0 * x).sin() + 0.05 * day + 0.1 * number(), day]
        })
        .collect();
    write(&at.join("t.csv"), "x0,x1,y,day", rows.iter().cloned());
    // every row is a landmark, so that the selection does not matter
    let fit = "fit ridge t.csv --target y --features x* --scale none --kernel gaussian(sigma=0.7) --rank 100 --lambda 1e-3 --precision f64 --no-clip";
    let cv = |folds: &str, table: &str| {
        let fit = fit.replace("t.csv", table);
        ok(at, &format!("{fit} --folds {folds} -o m.safetensors --json"))["surface"][0]["cv_mse"].as_f64().unwrap()
    };
    for (folds, blocks, gap) in [("forward:3", 4, 0), ("forward:3+1", 5, 1)] {
        let (size, mut errors) = (100 / blocks, Vec::new());
        for test in gap + 1..blocks {
            ok(at, &format!("{fit} --rows ..{} -o p.safetensors --json", (test - gap) * size));
            let rows = format!("{}..{}", test * size, (test + 1) * size);
            let score = ok(at, &format!("evaluate p.safetensors t.csv --target y --rows {rows} --json"));
            errors.push(score["mse"].as_f64().unwrap());
        }
        let (told, mean) = (cv(folds, "t.csv"), errors.iter().sum::<f64>() / errors.len() as f64);
        assert!((told / mean - 1.0).abs() < 1e-6, "{folds}: {told} told, {mean} by fits of the rows before");
    }
    // in the order of a column, whatever the order of the rows
    let shuffled = (0..100).map(|i| rows[(i * 37) % 100].clone());
    write(&at.join("s.csv"), "x0,x1,y,day", shuffled);
    let (in_order, by_day) = (cv("forward:3:day", "t.csv"), cv("forward:3:day", "s.csv"));
    assert!((in_order / by_day - 1.0).abs() < 1e-6 && (in_order / cv("forward:3", "t.csv") - 1.0).abs() < 1e-6);
    let (code, _, told) =
        kmill(at, "fit svr t.csv --target y --features x* --folds forward:3 --C 1,2 -o v.safetensors");
    assert!(code == 1 && told.contains("--folds forward:3") && told.contains("blocks:6"), "{told}");
    let tuned = ok(
        at,
        "tune any t.csv --target y --features x* --folds forward:3 --work 2,2 --kernels gaussian() -o m.safetensors --json",
    );
    assert_eq!((&tuned["folds"], &tuned["test"]["rows"]), (&"forward:3".into(), &25.into()), "{tuned}");
}

#[test]
fn the_report_says_for_which_rows_its_error_holds() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let (mut number, level) = (numbers(11), |person: usize| ((person * 7919) % 101) as f64 / 10.0);
    let rows = (0..600).map(|i| {
        let (person, x) = ((i * 131) % 30, number());
        vec![person as f64, x, level(person) + x + 0.1 * number()]
    });
    write(&at.join("people.csv"), "person,x,y", rows);
    let tune = "--target y --kernels gaussian() --work 6,2 --rank 100 -o s.json --json";
    let found = ok(at, &format!("tune any people.csv {tune}"));
    let kind = &found["elsewhere"][0];
    assert_eq!(
        (&kind["rows"], &kind["folds"]),
        (&"other values of person".into(), &"groups:5:person".into()),
        "{found}"
    );
    let (told, others) = (found["test"]["error"].as_f64().unwrap(), kind["apart"]["error"].as_f64().unwrap());
    assert!(others > 3.0 * told, "{told} {others}");
    let named = ok(at, &format!("tune any people.csv {tune} --folds groups:5:person"));
    assert!(named["elsewhere"].is_null() && named["test"]["error"].as_f64().unwrap() > 1.5 * told, "{named}");
    // a level that drifts from day to day, the rows in any order
    let days = (0..600).map(|i| {
        let (day, x) = ((i * 131) % 600, number());
        (format!("2024-{:02}-{:02}", 1 + day / 50, 1 + day % 50 / 2), x, day as f64 / 20.0 + x + 0.1 * number())
    });
    let days: String = days.map(|(day, x, y)| format!("{day},{x},{y}\n")).collect();
    std::fs::write(at.join("days.csv"), format!("day,x,y\n{days}")).unwrap();
    let found = ok(at, &format!("tune any days.csv {tune}"));
    let kind = &found["elsewhere"][0];
    assert_eq!((&kind["rows"], &kind["folds"]), (&"later rows by day".into(), &"forward:5:day".into()), "{found}");
    let (told, later) = (found["test"]["error"].as_f64().unwrap(), kind["apart"]["error"].as_f64().unwrap());
    assert!(later > 3.0 * told, "{told} {later}");
    // ten near-copies of each of 60 points, in any order
    let points: Vec<Vec<f64>> = (0..60).map(|_| (0..5).map(|_| number()).collect()).collect();
    let copies = (0..600).map(|i| {
        let point = &points[(i * 37) % 600 / 10];
        point.iter().enumerate().map(|(j, v)| v + if j < 4 { 1e-3 * number() } else { 0.01 * number() }).collect()
    });
    write(&at.join("copies.csv"), "a,b,c,d,y", copies);
    let (_, found, told) = kmill(at, &format!("tune any copies.csv {tune}"));
    assert!(told.contains("have near-copies") && told.contains("--folds groups:5:COLUMN"), "{told} {found}");
    assert_eq!(found["elsewhere"][0]["rows"], "rows without a near-copy", "{found}");
    // ordinary rows have neither near-copies nor groups
    ok(at, "generate friedman1 --rows 800 -o f.parquet -q");
    let (_, plain, told) = kmill(at, &format!("tune any f.parquet {tune}"));
    assert!(plain["elsewhere"].is_null() && !told.contains("near-copies"), "{told}");
}
