//! Killed or stopped fits that continue: the same bytes, and a checkpoint that belongs to one run
//! only. `scripts/kill9` tests the same at many more moments.

use crate::run::holds;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn command(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kmill"));
    command.current_dir(folder).args(line.split_whitespace()).stdin(Stdio::null());
    command
}

fn run(folder: &Path, line: &str) -> Output {
    let output = command(folder, line).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!text.contains("panicked") && !text.contains("RUST_BACKTRACE"), "{line}: {text}");
    output
}

fn ok(folder: &Path, line: &str) -> (serde_json::Value, String) {
    let output = run(folder, line);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{line}: {text}");
    (serde_json::from_slice(&output.stdout).unwrap_or_default(), text)
}

fn fails(folder: &Path, line: &str, part: &str) {
    let output = run(folder, line);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains(part), "{line}: {text} (expected: {part})");
}

/// A fit of several seconds with seven passes and 70 saves of its large state.
const LINE: &str = "fit ridge t.parquet --target y --task classification --candidates all --rank 90 --lambda 1e-6,1e-4 \
    --checkpoint-every 0s --json";

fn table(at: &Path) {
    ok(at, "generate blobs --rows 250000 -o t.parquet -q");
}

/// Starts a fit and waits until its checkpoint has this many passes; false if it ended before.
fn started(at: &Path, output: &str, entries: usize) -> (Child, bool) {
    started_with(at, "", output, entries)
}

/// Starts a fit with further options, as [`started`] does.
fn started_with(at: &Path, options: &str, output: &str, entries: usize) -> (Child, bool) {
    let mut child = command(at, &format!("{LINE} {options} -o {output} --threads 2"));
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (checkpoint, last) = (at.join(format!("{output}.checkpoint")), format!("-{entries:04}.safetensors"));
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() && !holds(&checkpoint, |name| name.ends_with(&last)) {
        assert!(begun.elapsed() < Duration::from_secs(120), "no checkpoint after two minutes");
        std::thread::sleep(Duration::from_millis(1));
    }
    let running = child.try_wait().unwrap().is_none();
    (child, running)
}

#[test]
fn killed_fits_go_on_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    table(at);
    let (whole, _) = ok(at, &format!("{LINE} -o whole -q"));
    let model = std::fs::read(at.join("whole")).unwrap();
    let mut resumed = 0;
    // in the first passes, during the landmark rounds, in the Gram matrix
    for (entries, threads, resume) in [(1, 1, "--resume"), (4, 2, ""), (6, 3, "")] {
        let (mut child, running) = started(at, "m", entries);
        child.kill().unwrap();
        child.wait().unwrap();
        if !running {
            continue; // the machine is too fast for this test
        }
        let (report, text) = ok(at, &format!("{LINE} -o m {resume} --threads {threads} --memory 1GiB"));
        assert!(std::fs::read(at.join("m")).unwrap() == model, "killed after {entries} passes");
        assert!(text.contains("rows are in the checkpoint"), "{text}");
        let read = |report: &serde_json::Value| report["bytes_read"].as_f64().unwrap();
        let (share, passes) = (read(&report) / read(&whole), whole["passes"].as_f64().unwrap());
        // the first pass reads the labels alone
        let done = (entries as f64 - 2.0).max(0.0) / passes;
        assert!(share < 1.02 - done, "killed after {entries} passes: read {share} of a run");
        assert!(!at.join("m.checkpoint").exists());
        resumed += 1;
    }
    assert!(resumed > 0, "every fit ended before it could be killed");
}

#[test]
fn a_killed_fit_with_test_rows_has_the_same_bytes_and_scores() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    table(at);
    let (whole, _) = ok(at, &format!("{LINE} --test 20% -o whole -q"));
    let (mut child, running) = started_with(at, "--test 20%", "m", 5);
    child.kill().unwrap();
    child.wait().unwrap();
    let (report, text) = ok(at, &format!("{LINE} --test 20% -o m --threads 3"));
    assert!(!running || text.contains("rows are in the checkpoint"), "{text}");
    assert!(std::fs::read(at.join("m")).unwrap() == std::fs::read(at.join("whole")).unwrap());
    assert_eq!(report["test_set"], whole["test_set"]);
    assert_eq!(report["test_set"]["rows"], 50_000);
}

#[test]
fn stopped_fits_say_how_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    table(at);
    ok(at, &format!("{LINE} -o whole -q"));
    for signal in ["TERM", "INT"] {
        let (child, running) = started(at, "m", 2);
        if !running {
            continue;
        }
        let send =
            || assert!(Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap().success());
        send();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{text}");
        let last = text.lines().last().unwrap_or_default();
        assert!(last.starts_with("error: stopped; the completed work is saved in m.checkpoint;"), "{text}");
        assert!(last.contains("run the same command again to continue") && !at.join("m").exists(), "{text}");
        // other options and other data are refused, and the checkpoint stays
        fails(at, &format!("{LINE} -o m --resume --seed 7"), "seed was 0, now it is 7");
        fails(at, &format!("{LINE} -o m --resume --features x0"), "features was");
        fails(at, &format!("{LINE} -o m --resume --memory 1MiB"), "raise --memory");
        let times = std::fs::File::options().write(true).open(at.join("t.parquet")).unwrap();
        let time = times.metadata().unwrap().modified().unwrap();
        times.set_modified(time + Duration::from_secs(1)).unwrap();
        fails(at, &format!("{LINE} -o m --resume"), "t.parquet has changed: it was written to");
        times.set_modified(time).unwrap();
        let (_, text) = ok(at, &format!("{LINE} -o m"));
        assert!(text.contains("note: the same run was stopped before: continuing from m.checkpoint"), "{text}");
        assert!(std::fs::read(at.join("m")).unwrap() == std::fs::read(at.join("whole")).unwrap(), "{signal}");
        std::fs::remove_file(at.join("m")).unwrap();
    }
}

#[test]
fn a_second_signal_ends_the_run_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    table(at);
    let (child, _) = started(at, "m", 1);
    for _ in 0..2 {
        // the first signal may have ended it already
        let _ = Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).stderr(Stdio::null()).status();
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let hidden = |folder: &Path| {
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with('.')).count()
    };
    assert_eq!(hidden(at), 0);
    if at.join("m.checkpoint").exists() {
        assert_eq!(hidden(&at.join("m.checkpoint")), 0);
    }
}

#[test]
fn without_a_checkpoint_a_resumed_fit_starts_afresh() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 2000 -o t.parquet -q");
    let line = "fit ridge t.parquet --target y --rank 20 --lambda 1e-6";
    ok(at, &format!("{line} -o whole -q"));
    let (_, text) = ok(at, &format!("{line} -o m --resume"));
    assert!(text.contains("note: the checkpoint m.checkpoint does not exist: starting over"), "{text}");
    assert!(std::fs::read(at.join("m")).unwrap() == std::fs::read(at.join("whole")).unwrap());
    // a short fit leaves no checkpoint
    assert!(!at.join("m.checkpoint").exists());
    std::fs::create_dir(at.join("m.checkpoint")).unwrap();
    std::fs::write(at.join("m.checkpoint/thesis.tex"), "years of work").unwrap();
    fails(at, &format!("{line} -o m"), "thesis.tex is not part of a checkpoint");
    let wrong = run(at, &format!("{line} -o m --checkpoint-every 30"));
    assert_eq!(wrong.status.code(), Some(2));
}
