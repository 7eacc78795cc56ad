//! A month of use: a table that grows by a file per day, statistics of the new rows alone, a model
//! and predictions every night, killed processes, and a model of an earlier build on the first
//! days. On the last day the model has the bytes of one fit of all rows.

use crate::run::{kmill, ok};
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const DAYS: u64 = 30;

/// Writes a random number of rows, none on every seventh day; values drift from day to day.
fn day(at: &Path, day: u64, state: &mut u64) -> bool {
    let mut next = |below: u64| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    };
    let rows = if day.is_multiple_of(7) { 0 } else { 400 + next(1_200) };
    let mut csv = "x0,x1,x2,x3,y\n".to_string();
    for _ in 0..rows {
        let drift = 0.1 * day as f64;
        let x: Vec<f64> = (0..4).map(|_| next(1000) as f64 / 250.0 - 2.0 + drift).collect();
        let y = x[0].sin() + 0.5 * x[1] * x[2] + 0.1 * x[3];
        writeln!(csv, "{},{},{},{},{y}", x[0], x[1], x[2], x[3]).unwrap();
    }
    if rows > 0 {
        std::fs::write(at.join(format!("table/day-{day:02}.csv")), csv).unwrap();
    }
    rows > 0
}

/// Runs a command that is killed after `after` ms, then again: an output is complete or absent.
fn killed(at: &Path, line: &str, output: &str, after: u64) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kmill"));
    command.current_dir(at).args(line.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(after));
    let _ = process.kill();
    let ended = process.wait().unwrap().success();
    let there = at.join(output);
    assert!(ended || !there.exists() || ok(at, &format!("inspect {output} --json")).is_object(), "{line}");
    ok(at, line);
}

#[test]
fn a_month_of_daily_fits_ends_with_the_bytes_of_one_fit() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::create_dir(at.join("table")).unwrap();
    let mut state = 30;
    day(at, 1, &mut state);
    let fit = "--target y --rank 40 --folds 5 --candidates all --lambda 1e-7,1e-5 -q";
    ok(at, &format!("prepare ridge table/day-01.csv {fit} -o job.safetensors"));
    ok(at, "stats job.safetensors table/day-01.csv -q -o all-01.safetensors");
    // a model of an earlier build is used until there is a model of this table
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/models/ridge.safetensors");
    let (mut model, mut last) = (golden.display().to_string(), 1);
    for today in 2..=DAYS {
        if !day(at, today, &mut state) {
            continue;
        }
        let (all, new) = (format!("all-{last:02}.safetensors"), format!("new-{today:02}.safetensors"));
        let (sum, fitted) = (format!("all-{today:02}.safetensors"), format!("model-{today:02}.safetensors"));
        let stats = format!("stats job.safetensors table/day-{today:02}.csv --after {all} --memory 48MiB -q -o {new}");
        killed(at, &stats, &new, today * 7 % 11);
        ok(at, &format!("merge {all} {new} -q -o {sum}"));
        if today > 3 {
            killed(at, &format!("solve job.safetensors {sum} -q -o {fitted}"), &fitted, today * 5 % 9);
            model = fitted;
        }
        ok(at, &format!("predict {model} table/day-{today:02}.csv --memory 32MiB -q -o night-{today:02}.csv"));
        last = today;
    }
    // adding a day twice is refused, as its rows are already there
    let twice = format!("merge all-{last:02}.safetensors new-{last:02}.safetensors -o twice.safetensors");
    let (code, _, stderr) = kmill(at, &twice);
    assert!(code == 1 && stderr.contains("rows"), "{stderr}");
    ok(at, "stats job.safetensors table -q -o once.safetensors");
    let report = ok(at, "solve job.safetensors once.safetensors -q --json -o once-model.safetensors");
    assert!(report["rows"].as_u64().unwrap() > 15_000, "{report}");
    let read = |name: &str| std::fs::read(at.join(name)).unwrap();
    assert!(read(&model) == read("once-model.safetensors"), "the model of day {last} is not that of all rows");
    // the error on the training rows equals the training error
    let scores = ok(at, &format!("evaluate {model} table --json"));
    let learned = (report["train"]["mse"].as_f64().unwrap(), scores["mse"].as_f64().unwrap());
    assert!((learned.1 / learned.0 - 1.0).abs() < 1e-3, "{learned:?} {scores}");
}
