//! A fit by several processes at a time, and a fit in shards: the bytes of a fit by one process on all rows.

use crate::run::{kmill, ok};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Three segments of 16 tiles of 2,304 rows; the last has 272.
const ROWS: u64 = 74_000;
const SEGMENT: u64 = 36_864;

fn bytes(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap()
}

/// Two processes that share the passes of a run; each writes `of0` or `of1`, and the extension behind it.
fn two(folder: &Path, line: &str, extension: &str) {
    let start = |worker: usize| {
        let run = format!("--states states --threads {} -q", worker + 1);
        let line = format!("{line} {run} -o of{worker}{extension}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_kmill"));
        command.current_dir(folder).args(line.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    for process in [start(0), start(1)] {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn two_processes_find_the_model_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, &format!("generate friedman1 --rows {ROWS} -o numbers.parquet -q"));
    ok(at, &format!("generate moons --rows {ROWS} -o classes.parquet -q"));
    let few = "--candidates 2000 --rank 25";
    for fit in [
        "ridge numbers.parquet --target y --ranks 10,25 --folds 3",
        "ridge classes.parquet --target y --task classification --folds 3 --loo",
        "ridge numbers.parquet --target y --candidates all --lambda 1e-6",
        "ridge numbers.parquet --target y --candidates all --lambda 1e-6 --landmarks kmeans",
        "kpca numbers.parquet --features x* --components 3",
        "svm classes.parquet --target y --C 1",
        "logistic classes.parquet --target y --lambda 1e-4",
        "svm classes.parquet --target y --C 0.1,1 --folds 3",
        "svr numbers.parquet --target y --C 1",
        "oneclass numbers.parquet --features x* --nu 0.1",
        "logistic classes.parquet --target y --lambda 1e-5,1e-4 --folds 2 --rank 100",
        "mean numbers.parquet --features x*",
        "kmeans numbers.parquet --features x* --clusters 3",
        "spectral classes.parquet --features x* --clusters 2",
        "kpca-l1 numbers.parquet --features x* --components 2",
    ] {
        let all = if fit.contains("all") { "--rank 12" } else { few };
        let all = if fit.contains("--rank") { "--candidates 2000" } else { all };
        let line = format!("fit {fit} {all}");
        ok(at, &format!("{line} -q -o one"));
        two(at, &line, "");
        assert!(bytes(at, "one") == bytes(at, "of0") && bytes(at, "one") == bytes(at, "of1"), "{line}");
        assert_eq!(std::fs::read_dir(at.join("states")).unwrap().count(), 0, "{line}");
    }
}

#[test]
fn processes_keep_features_where_each_has_room() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::create_dir_all(at.join("scratch")).unwrap();
    ok(at, &format!("generate friedman1 --rows {ROWS} -o numbers.parquet -q"));
    for fit in ["svr numbers.parquet --target y --C 1", "kmeans numbers.parquet --features x* --clusters 3"] {
        let line = format!("fit {fit} --rank 300 --candidates 2000 -q");
        ok(at, &format!("{line} -o one"));
        // 84.7 MiB of features do not fit 130 MiB beside the rest
        let places = ["--memory 1GiB", "--memory 130MiB --scratch scratch", "--memory 130MiB"];
        let processes = [0, 1, 2].map(|i| {
            let line = format!("{line} --states states --threads 1 {} -o of{i}", places[i]);
            let mut command = Command::new(env!("CARGO_BIN_EXE_kmill"));
            command.current_dir(at).args(line.split_whitespace()).stdout(Stdio::piped()).spawn().unwrap()
        });
        let reports = processes.map(|process| String::from_utf8(process.wait_with_output().unwrap().stdout).unwrap());
        let anew = reports.each_ref().map(|report| report.contains("computed anew in every pass"));
        assert_eq!(anew, [false, false, true], "{reports:?}");
        assert!((0..3).all(|i| bytes(at, "one") == bytes(at, &format!("of{i}"))), "{line}");
    }
}

/// The columns of a table of cells, less those that tell of the machine and of the process.
fn found(folder: &Path, name: &str) -> Vec<String> {
    let text = String::from_utf8(bytes(folder, name)).unwrap();
    let head: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    let kept = |column: usize| !["seconds", "bytes_read", "planned_bytes"].contains(&head[column]);
    let line = |line: &str| {
        let values = line.split(',').enumerate().filter(|(column, _)| kept(*column));
        values.map(|(_, value)| value).collect::<Vec<_>>().join(",")
    };
    text.lines().map(line).collect()
}

#[test]
fn two_processes_find_the_cells_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, &format!("generate friedman1 --rows {ROWS} -o rows.parquet -q"));
    let tested = "--target y --test-where x0>0.95";
    for curve in [
        format!("{tested} --methods uniform,kmeans,fourier --ranks 5,10 --repeats 1"),
        format!("{tested} --sample 2000 --methods rpcholesky --ranks 5,10 --repeats 2"),
        "--features x* --methods rpcholesky,truncated --ranks 10 --repeats 1".to_string(),
    ] {
        let line = format!("curve rows.parquet {curve}");
        ok(at, &format!("{line} -q -o one.csv"));
        two(at, &line, ".csv");
        let one = found(at, "one.csv");
        assert!(one.len() > 1 && one[0].contains("frobenius_error") && one[0].contains("test_error"), "{one:?}");
        assert_eq!((&one, &one), (&found(at, "of0.csv"), &found(at, "of1.csv")), "{line}");
        assert_eq!(std::fs::read_dir(at.join("states")).unwrap().count(), 0, "{line}");
    }
}

/// Starts a process of its own.
fn start(at: &Path, line: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kmill"));
    command.current_dir(at).args(line.split_whitespace()).stderr(Stdio::piped()).stdout(Stdio::null());
    command.spawn().unwrap()
}

/// Waits until the folder of states holds a file whose name `is` the right one.
fn wait_for(states: &Path, process: &mut Child, is: impl Fn(&str) -> bool) {
    let there = || {
        let entries = std::fs::read_dir(states).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name()).any(|name| is(&name.to_string_lossy()))
    };
    while !there() {
        assert!(process.try_wait().unwrap().is_none(), "the process has ended");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_process_with_another_job_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, &format!("generate friedman1 --rows {} -o rows.parquet -q", 4 * ROWS));
    let fit = "fit ridge rows.parquet --target y --rank 100 --candidates 1000 --lambda 1e-6 --states s -q";
    let tune = "tune ridge rows.parquet --target y --factors 1 --sample 500 --rank 100 --states s -q";
    let curve = "curve rows.parquet --features x* --methods uniform --ranks 50 --states s -q";
    for (line, here, there, option) in [
        (fit, "-o a --seed 0", "-o b --seed 1", "seed was 0, now it is 1"),
        (tune, "-o a --seed 0", "-o b --seed 1", "kernel was gaussian("),
        // other cells are left: processes would do other runs
        (curve, "-o a.csv --repeats 2", "-o b.csv --repeats 1", "runs that are left was"),
    ] {
        let mut first = start(at, &format!("{line} {here}"));
        wait_for(&at.join("s"), &mut first, |name| name.ends_with(".alive"));
        let (code, _, stderr) = kmill(at, &format!("{line} {there}"));
        assert!(code == 1 && stderr.contains("another job") && stderr.contains(option), "{stderr}");
        assert!(first.wait().unwrap().success(), "{line}");
    }
}

#[test]
fn a_process_that_is_killed_costs_the_others_time_only() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, &format!("generate friedman1 --rows {} -o rows.parquet -q", 4 * ROWS));
    let line = "fit ridge rows.parquet --target y --ranks 50,100 --folds 3 --candidates 1000 -q --threads 1";
    ok(at, &format!("{line} -o one"));
    let line = format!("{line} --states s --patience 2s");
    let mut killed = start(at, &format!("{line} -o of0"));
    // it is killed while a lot of it, and a state of it, are there
    wait_for(&at.join("s"), &mut killed, |name| name.starts_with("000002-"));
    let other = start(at, &format!("{line} -o of1"));
    killed.kill().unwrap();
    killed.wait().unwrap();
    let output = other.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(bytes(at, "one") == bytes(at, "of1") && !at.join("of0").exists());
}

#[test]
fn two_processes_find_the_kernel_and_the_model_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, &format!("generate friedman1 --rows {ROWS} -o rows.parquet -q"));
    let line = "tune ridge rows.parquet --target y --factors 0.5,1 --sample 1000 --rank 20 --candidates 2000";
    ok(at, &format!("{line} -q -o one"));
    two(at, line, "");
    assert!(bytes(at, "one") == bytes(at, "of0") && bytes(at, "one") == bytes(at, "of1"));
    let (code, _, stderr) = kmill(at, &format!("{line} --states e -o search.csv"));
    assert!(code == 1 && stderr.contains("--states: processes share the passes of the fit"), "{stderr}");
    let (code, _, stderr) = kmill(at, &format!("{line} --states e --resume -o m"));
    assert!(code == 2 && stderr.contains("--resume"), "{stderr}");
}

/// The job of a fit, the model of which is `whole`, and statistics of its three segments: of the whole table, and of shards.
fn sharded(at: &Path, fit: &str) {
    ok(at, &format!("generate friedman1 --rows {ROWS} -o rows.parquet -q"));
    ok(at, &format!("convert rows.parquet --target y --rows {}.. -o last.parquet -q", 2 * SEGMENT));
    ok(at, &format!("convert rows.parquet --target y --rows {SEGMENT}..{} -o middle.npy -q", 2 * SEGMENT));
    ok(at, &format!("fit {fit} -q -o whole"));
    ok(at, &format!("prepare {fit} -q -o job"));
    ok(at, &format!("stats job rows.parquet --rows ..{SEGMENT} -q -o a"));
    ok(at, &format!("stats job last.parquet --first-row {} -q --threads 1 -o c", 2 * SEGMENT));
}

/// What a line that must fail says.
fn refused(at: &Path, line: &str) -> String {
    let (code, _, stderr) = kmill(at, line);
    assert_eq!(code, 1, "{line}: {stderr}");
    stderr
}

#[test]
fn shards_of_ridge_make_the_model_of_all_rows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    sharded(at, "ridge rows.parquet --target y --ranks 10,25 --folds 3 --candidates 2000");
    ok(at, &format!("stats job middle.npy --target middle.y.npy --first-row {SEGMENT} -q -o b"));
    for files in ["a b c", "c a b"] {
        let merged = ok(at, &format!("merge {files} --json -o all"));
        assert_eq!((merged["rows"].as_u64(), merged["missing"].as_array().map(Vec::len)), (Some(ROWS), Some(0)));
        ok(at, "solve job all -q -o model");
        assert!(bytes(at, "model") == bytes(at, "whole"), "{files}");
    }
    // one after the other
    ok(at, "merge c a -o ca");
    let hole = refused(at, "solve job ca -o model");
    assert!(hole.contains("rows 36864..73728 are missing"), "{hole}");
    ok(at, "merge ca b -o appended");
    ok(at, "solve job appended -q -o model");
    assert!(bytes(at, "model") == bytes(at, "whole"));
    // taken away, whether it was there or not
    ok(at, "merge all --without 36864..73728 -o without");
    let fitted = ok(at, "solve job without -q --json -o less");
    assert_eq!(fitted["rows"].as_u64(), Some(ROWS - SEGMENT));
    assert!(bytes(at, "less") != bytes(at, "whole"));
    let overlap = refused(at, "merge a b all -o twice");
    assert!(overlap.contains("rows 0..36864 are in") && overlap.contains("once"), "{overlap}");
    let cut = refused(at, "merge all --without 36864..50000 -o cut");
    assert!(cut.contains("rows 36864..73728 are one state"), "{cut}");
    let part = refused(at, "stats job rows.parquet --rows 100..50000 -o part");
    assert!(part.contains("multiples of 36864 rows: 0..73728 would do"), "{part}");
    let elsewhere = refused(at, "stats job last.parquet --rows 0..36864 --first-row 73728 -o part");
    assert!(elsewhere.contains("the shard holds rows 73728..74000"), "{elsewhere}");
    ok(at, "prepare ridge rows.parquet --target y --rank 25 --lambda 1e-6 --candidates 2000 -q -o other");
    ok(at, &format!("stats other rows.parquet --rows ..{SEGMENT} -q -o foreign"));
    let foreign = refused(at, "merge foreign b c -o all");
    assert!(foreign.contains("does not hold statistics of the job"), "{foreign}");
    let foreign = refused(at, "solve other all -o model");
    assert!(foreign.contains("another job"), "{foreign}");
    let more = refused(at, "prepare svr rows.parquet --target y -o svr");
    assert!(more.contains("ridge, kpca, fisher"), "{more}");
}

#[test]
fn shards_of_kpca_make_the_model_of_all_rows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    sharded(at, "kpca rows.parquet --features x* --components 3 --rank 25 --candidates 2000");
    ok(at, &format!("stats job rows.parquet --rows {SEGMENT}..{} -q -o b", 2 * SEGMENT));
    ok(at, "merge b c a -o all");
    ok(at, "solve job all -q -o model");
    assert!(bytes(at, "model") == bytes(at, "whole"));
    // parts by number, of three segments: two of five parts have no rows
    for parts in [2, 3, 5] {
        for part in 1..=parts {
            ok(at, &format!("stats job rows.parquet --part {part}/{parts} -q -o p{part}"));
        }
        // the first is one without rows, where there are five
        let files: Vec<String> = (1..=parts).map(|part| format!("p{part}")).collect();
        ok(at, &format!("merge {} -o all", files.join(" ")));
        ok(at, "solve job all -q -o model");
        assert!(bytes(at, "model") == bytes(at, "whole"), "{parts} parts");
    }
    // all rows at once are one state: nothing of it can be taken away
    ok(at, "stats job rows.parquet -q -o once");
    ok(at, "solve job once -q -o model");
    assert!(bytes(at, "model") == bytes(at, "whole"));
    let cut = refused(at, "merge once --without 0..36864 -o less");
    assert!(cut.contains("rows 0..74000 are one state"), "{cut}");
}
