//! A fit by several processes, and a fit in shards: the bytes of a fit by one process on all rows.

use crate::run::{holds, kmill, ok};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Three segments of 16 tiles of 2,304 rows; the last has 272 rows.
const ROWS: u64 = 74_000;
const SEGMENT: u64 = 36_864;

fn bytes(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap()
}

/// Runs two processes that share the passes of a run and write `of0` and `of1` plus `extension`.
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
        // 84.7 MiB of features do not fit into 130 MiB with everything else
        let places = ["--memory 1GiB", "--memory 130MiB --scratch scratch", "--memory 130MiB"];
        let processes = [0, 1, 2].map(|i| {
            let line = format!("{line} --states states --threads 1 {} -o of{i}", places[i]);
            let mut command = Command::new(env!("CARGO_BIN_EXE_kmill"));
            command.current_dir(at).args(line.split_whitespace()).stdout(Stdio::piped()).spawn().unwrap()
        });
        let reports = processes.map(|process| String::from_utf8(process.wait_with_output().unwrap().stdout).unwrap());
        let anew = reports.each_ref().map(|report| report.contains("recomputed in every pass"));
        assert_eq!(anew, [false, false, true], "{reports:?}");
        assert!((0..3).all(|i| bytes(at, "one") == bytes(at, &format!("of{i}"))), "{line}");
    }
}

/// Returns the columns of a table of cells that do not depend on machine and process.
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

/// Starts a process.
fn start(at: &Path, line: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kmill"));
    command.current_dir(at).args(line.split_whitespace()).stderr(Stdio::piped()).stdout(Stdio::null());
    command.spawn().unwrap()
}

/// Waits until the folder of states has a file whose name satisfies `is`.
fn wait_for(states: &Path, process: &mut Child, is: impl Fn(&str) -> bool) {
    while !holds(states, &is) {
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
        // other cells remain: the processes would do different runs
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
    // killed when a work unit and a state of it exist
    wait_for(&at.join("s"), &mut killed, |name| name.contains("-000002-"));
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

/// Returns the model from statistics of shards cut at `cuts`, merged out of order.
fn in_pieces(at: &Path, cuts: &[u64]) -> Vec<u8> {
    let mut files = Vec::new();
    for (i, rows) in cuts.windows(2).enumerate() {
        let file = format!("piece{i}");
        ok(at, &format!("convert rows.parquet --rows {}..{} -o piece.parquet -q", rows[0], rows[1]));
        ok(at, &format!("stats job piece.parquet --first-row {} -q -o {file}", rows[0]));
        files.insert(i / 2, file);
    }
    let (first, last) = files.split_at(files.len() / 2);
    ok(at, &format!("merge {} -o last", last.join(" ")));
    ok(at, &format!("merge last {} -o pieces", first.join(" ")));
    ok(at, "solve job pieces -q -o model");
    bytes(at, "model")
}

#[test]
fn shards_begin_and_end_at_any_row() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // of one row, at and next to segment boundaries, inside a tile, several within a segment
    let cuts = [0, 1, 1000, 2304, 9000, SEGMENT - 1, SEGMENT, SEGMENT + 1, 50_001, 73_999, ROWS];
    ok(at, &format!("generate friedman1 --rows {ROWS} -o rows.parquet -q"));
    for (fit, rows) in [
        ("ridge rows.parquet --target y --ranks 10,25 --folds 3 --candidates 2000", ROWS),
        ("ridge rows.parquet --target y --rank 10 --folds blocks:3 --candidates 2000 --precision f64", ROWS),
        // boundaries count stored rows, also if conditions or row ranges exclude some
        ("kpca rows.parquet --features x* --rank 10 --candidates 2000 --where x0>0.9 --rows 500..", ROWS - 500),
    ] {
        ok(at, &format!("fit {fit} -q -o whole"));
        ok(at, &format!("prepare {fit} -q -o job"));
        assert!(in_pieces(at, &cuts) == bytes(at, "whole"), "{fit} of {rows} rows");
        ok(at, "stats job rows.parquet -q -o all");
        ok(at, "solve job all -q -o model");
        assert!(bytes(at, "model") == bytes(at, "whole"), "{fit} of {rows} rows");
    }
}

#[test]
fn shards_of_classes_and_labelled_folds_begin_and_end_at_any_row() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut text = "x,c,w,site,y\n".to_string();
    for i in 0..50_000u32 {
        let (x, c) = (f64::from(i * 7 % 1001) / 500.0, ["red", "green", "blue"][(i % 3) as usize]);
        text += &format!("{x},{c},{},s{},{}\n", 1 + i % 4, i % 5, (f64::from(i) * 0.01).sin() + x);
    }
    std::fs::write(at.join("rows.csv"), text).unwrap();
    ok(at, "convert rows.csv -o rows.parquet -q");
    for fit in [
        "ridge rows.parquet --target y --rank 20 --lambda 1e-4,1e-3 --folds column:site --weights w --candidates 1000",
        "fisher rows.parquet --target c --features x,y --rank 20 --candidates 1000",
        "fisher rows.parquet --target c --features x,y --rank 20 --within equal --components 1 --candidates 1000",
    ] {
        ok(at, &format!("fit {fit} -q -o whole"));
        ok(at, &format!("prepare {fit} -q -o job"));
        assert!(in_pieces(at, &[0, 17, 30_000, 36_865, 50_000]) == bytes(at, "whole"), "{fit}");
    }
}

#[test]
fn rows_that_come_later_are_appended() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 120000 -o rows.parquet -q");
    let days = [0, 40_000, 40_001, 75_000, 120_000];
    for (day, rows) in days.windows(2).enumerate() {
        ok(at, &format!("convert rows.parquet --rows {}..{} -o day{day}.parquet -q", rows[0], rows[1]));
    }
    ok(at, "prepare ridge day0.parquet --target y --ranks 10,25 --folds 3 --candidates 2000 -q -o job");
    ok(at, "stats job day0.parquet -q -o all0");
    for day in 1..4 {
        let before = day - 1;
        ok(at, &format!("stats job day{day}.parquet --after all{before} -q -o new{day}"));
        let merged = ok(at, &format!("merge new{day} all{before} --json -o all{day}"));
        assert_eq!(merged["next"].as_u64(), Some(days[day + 1]));
        let solved = ok(at, &format!("solve job all{day} -q --json -o model{day}"));
        assert_eq!(solved["rows"].as_u64(), Some(days[day + 1]));
        // the rows so far at once, as one table
        ok(at, &format!("convert rows.parquet --rows ..{} -o sofar.parquet -q", days[day + 1]));
        ok(at, "stats job sofar.parquet -q -o once");
        ok(at, "solve job once -q -o model");
        assert!(bytes(at, "model") == bytes(at, &format!("model{day}")), "day {day}");
    }
    // in any order, and with a day removed again
    let place = |day: usize| format!("--first-row {}", days[day]);
    ok(at, &format!("stats job day3.parquet {} -q -o later", place(3)));
    ok(at, "merge later all2 -o all");
    ok(at, "solve job all -q -o model");
    assert!(bytes(at, "model") == bytes(at, "model3"));
    ok(at, "merge all3 --without 40000..40001 -o less");
    let fitted = ok(at, "solve job less -q --json -o less.safetensors");
    assert_eq!(fitted["rows"].as_u64(), Some(119_999));
    // rows that are already there, that are missing, or whose position is unknown
    let twice = refused(at, "merge all1 new1 -o twice");
    assert!(twice.contains("rows 40000..40001 are also in") && twice.contains("once"), "{twice}");
    ok(at, "merge all0 later -o gap");
    let gap = refused(at, "solve job gap -o model");
    assert!(gap.contains("rows 40000..75000 are missing"), "{gap}");
    let lost = refused(at, "stats job day1.parquet -o lost");
    assert!(lost.contains("40000 stored rows") && lost.contains("--first-row") && lost.contains("--after"), "{lost}");
    let lost = refused(at, "stats job day3.parquet -o lost");
    assert!(lost.contains("the values of rows 0..1024") && lost.contains("--after"), "{lost}");
    let over = refused(at, "stats job day1.parquet --after all0 -o all0");
    assert!(over.contains("also an input"), "{over}");
}

/// Writes rows with normal x and z, where x is shifted.
fn normal_rows(at: &Path, name: &str, rows: usize, shift: f64, seed: u64) {
    let mut state = seed;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    let mut text = "x,z,y\n".to_string();
    for _ in 0..rows {
        let (radius, angle) = ((-2.0 * uniform().ln()).sqrt(), std::f64::consts::TAU * uniform());
        let (x, z) = (shift + radius * angle.cos(), radius * angle.sin());
        text += &format!("{x},{z},{}\n", x.sin() + z);
    }
    std::fs::write(at.join(name), text).unwrap();
}

#[test]
fn shards_say_whether_new_rows_outgrow_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    normal_rows(at, "old.csv", 3000, 0.0, 1);
    normal_rows(at, "same.csv", 2000, 0.0, 2);
    normal_rows(at, "shifted.csv", 2000, 3.0, 3);
    let fit = "old.csv --rank 30 --kernel gaussian(sigma=0.5) -q";
    ok(at, &format!("prepare ridge {fit} --target y --lambda 1e-4 -o job"));
    let old = ok(at, "stats job old.csv --json -q -o old");
    assert!(old["growth"].is_null(), "{old}");
    // the residual of each row by the features of the same landmarks
    ok(at, &format!("fit features {fit} --features x,z -o features"));
    for (name, verdict) in [("same", "fits"), ("shifted", "outgrown")] {
        let stats = ok(at, &format!("stats job {name}.csv --after old --json -q -o {name}"));
        let growth = &stats["growth"];
        assert_eq!((&growth["verdict"], growth["rows"].as_u64()), (&verdict.into(), Some(2000)), "{growth}");
        ok(at, &format!("predict features {name}.csv --residual -q -o phi.csv"));
        let text = std::fs::read_to_string(at.join("phi.csv")).unwrap();
        let squares = text.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().parse::<f64>().unwrap().powi(2));
        let (expected, missed) = (squares.sum::<f64>() / 2000.0, growth["missed"]["new_rows"].as_f64().unwrap());
        assert!((missed - expected).abs() < 1e-5 * expected, "{missed} {expected}");
        ok(at, &format!("merge old {name} -o all"));
        let merged = ok(at, &format!("merge old {name} --json -o all"));
        assert_eq!(&merged["growth"], growth);
        let solved = ok(at, "solve job all --json -q -o model");
        assert_eq!(solved["growth"]["verdict"], verdict);
        let shown = ok(at, "inspect model --json");
        assert_eq!(shown["new_rows"], solved["growth"]);
        let ranges = growth["ranges"].as_array().unwrap();
        let moved: Vec<&str> = ranges
            .iter()
            .filter(|range| range["moved"] == true)
            .map(|range| range["column"].as_str().unwrap())
            .collect();
        assert_eq!(moved, if verdict == "fits" { vec![] } else { vec!["x"] }, "{ranges:?}");
        // one shard of all rows: the segment of old and new rows is divided
        let text =
            ["old.csv".to_string(), format!("{name}.csv")].map(|file| std::fs::read_to_string(at.join(file)).unwrap());
        let later = text[1].split_once('\n').unwrap().1;
        std::fs::write(at.join("both.csv"), format!("{}{later}", text[0])).unwrap();
        let both = ok(at, "stats job both.csv --json -q -o both");
        let missed = |part: &str| [&both, &stats].map(|report| report["growth"]["missed"][part].as_f64().unwrap());
        for part in ["new_rows", "fit_rows", "standard_error"] {
            let [both, apart] = missed(part);
            assert!((both - apart).abs() < 1e-9 * apart, "{part}: {both} {apart}");
        }
        ok(at, "solve job both -q -o model2");
        assert!(bytes(at, "model") == bytes(at, "model2"));
    }
    // without the statistics of the prepared rows there is nothing to compare with
    let alone = ok(at, "stats job shifted.csv --first-row 3000 --json -q -o alone");
    assert_eq!(
        (&alone["growth"]["verdict"], &alone["growth"]["missed"]["fit_rows"]),
        (&"unknown".into(), &serde_json::Value::Null)
    );
    // removed rows do not count
    let without = ok(at, "merge old shifted --without 3000..5000 --json -o less");
    assert!(without["growth"].is_null(), "{without}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kmill"));
    let output = command.current_dir(at).args(["merge", "old", "shifted", "-o", "all"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("outgrown its landmarks") && text.contains("kmill prepare"), "{text}");
    assert!(text.contains("range moved") && text.contains("missed trace"), "{text}");
}

#[test]
fn a_table_that_cannot_grow_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 3000 -o rows.parquet -q");
    for (option, why) in [
        ("--folds blocks:3", "blocks of the prepared rows"),
        ("--folds 3 --rows 0..2000", "selects rows 0..2000 of its table"),
    ] {
        ok(at, &format!("prepare ridge rows.parquet --target y --rank 10 {option} -q -o job"));
        ok(at, "stats job rows.parquet -q -o all");
        let stderr = refused(at, "stats job rows.parquet --first-row 3000 -o more");
        assert!(stderr.contains(why) && stderr.contains("prepare it with"), "{stderr}");
    }
}

#[test]
fn shards_of_another_table_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, &format!("generate friedman1 --rows {ROWS} -o rows.parquet -q"));
    ok(at, &format!("generate friedman1 --rows {ROWS} --seed 5 -o other.parquet -q"));
    ok(at, "prepare ridge rows.parquet --target y --rank 10 --lambda 1e-6 --candidates 2000 -q -o job");
    ok(at, "stats job rows.parquet --part 1/2 -q -o a");
    let other = refused(at, "stats job other.parquet --part 2/2 -o b");
    assert!(other.contains("the values of rows 36864..37888") && other.contains("job"), "{other}");
    assert!(!at.join("b").exists());
    // too few rows to be checked alone: checked when the others are there
    ok(at, &format!("stats job other.parquet --rows {SEGMENT}..{} -q -o one", SEGMENT + 1));
    ok(at, &format!("stats job rows.parquet --rows {}.. -q -o rest", SEGMENT + 1));
    ok(at, "merge rest one a -o all");
    let other = refused(at, "solve job all -o model");
    assert!(other.contains("the values of rows 36864..37888"), "{other}");
    // the same rows in another order, and other columns
    ok(at, &format!("convert rows.parquet --rows {SEGMENT}.. -o late.parquet -q"));
    let moved = refused(at, "stats job late.parquet --first-row 36000 -o moved");
    assert!(moved.contains("the values of rows 36864..37888"), "{moved}");
    ok(at, "convert rows.parquet --features x0,x1 --target y -o narrow.parquet -q");
    let narrow = refused(at, "stats job narrow.parquet -o narrow");
    assert!(narrow.contains("x2"), "{narrow}");
}

/// Writes the model `whole`, its job, and statistics of the first and last of three segments.
fn sharded(at: &Path, fit: &str) {
    ok(at, &format!("generate friedman1 --rows {ROWS} -o rows.parquet -q"));
    ok(at, &format!("convert rows.parquet --target y --rows {}.. -o last.parquet -q", 2 * SEGMENT));
    ok(at, &format!("convert rows.parquet --target y --rows {SEGMENT}..{} -o middle.npy -q", 2 * SEGMENT));
    ok(at, &format!("fit {fit} -q -o whole"));
    ok(at, &format!("prepare {fit} -q -o job"));
    ok(at, &format!("stats job rows.parquet --rows ..{SEGMENT} -q -o a"));
    ok(at, &format!("stats job last.parquet --first-row {} -q --threads 1 -o c", 2 * SEGMENT));
}

/// Returns the message of a line that must fail.
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
    // rows removed by --without
    ok(at, "merge all --without 36864..73728 -o without");
    let fitted = ok(at, "solve job without -q --json -o less");
    assert_eq!(fitted["rows"].as_u64(), Some(ROWS - SEGMENT));
    assert!(bytes(at, "less") != bytes(at, "whole"));
    let overlap = refused(at, "merge a b all -o twice");
    assert!(overlap.contains("rows 0..36864 are also in") && overlap.contains("once"), "{overlap}");
    let cut = refused(at, "merge all --without 36864..50000 -o cut");
    assert!(cut.contains("rows 36864..73728 are one state"), "{cut}");
    let elsewhere = refused(at, "stats job last.parquet --rows 0..36864 --first-row 73728 -o part");
    assert!(elsewhere.contains("DATA contains rows 73728..74000"), "{elsewhere}");
    ok(at, "prepare ridge rows.parquet --target y --rank 25 --lambda 1e-6 --candidates 2000 -q -o other");
    ok(at, &format!("stats other rows.parquet --rows ..{SEGMENT} -q -o foreign"));
    let foreign = refused(at, "merge foreign b c -o all");
    assert!(foreign.contains("does not have statistics of the same job"), "{foreign}");
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
    // numbered parts of three segments: two of five parts have no rows
    for parts in [2, 3, 5] {
        for part in 1..=parts {
            ok(at, &format!("stats job rows.parquet --part {part}/{parts} -q -o p{part}"));
        }
        // with five parts, the first has no rows
        let files: Vec<String> = (1..=parts).map(|part| format!("p{part}")).collect();
        ok(at, &format!("merge {} -o all", files.join(" ")));
        ok(at, "solve job all -q -o model");
        assert!(bytes(at, "model") == bytes(at, "whole"), "{parts} parts");
    }
    // all whole segments together are one state: no part of it can be removed
    ok(at, "stats job rows.parquet -q -o once");
    ok(at, "solve job once -q -o model");
    assert!(bytes(at, "model") == bytes(at, "whole"));
    let cut = refused(at, "merge once --without 0..36864 -o less");
    assert!(cut.contains("rows 0..73728 are one state"), "{cut}");
}
