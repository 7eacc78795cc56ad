//! The command as users see it: exit codes, one-sentence errors, complete files or none.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn kmill<S: AsRef<OsStr>>(folder: &Path, args: &[S]) -> Output {
    command(folder, args).output().unwrap()
}

fn command<S: AsRef<OsStr>>(folder: &Path, args: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kmill"));
    command.current_dir(folder).args(args).stdin(Stdio::null());
    command
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a line that must succeed.
fn ok(folder: &Path, line: &str) -> Output {
    let output = kmill(folder, &words(line));
    assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
    output
}

/// A missing target or parameter is a usage error that names the option, before any other error.
#[test]
fn what_a_solver_needs_and_was_not_given_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 200 -o t.parquet -q");
    for family in kfit::solver::registry() {
        let (name, settings) = (family.name, family.settings(&kfit::solver::Options::new()).unwrap());
        let target = family.task.has_target();
        let lacks = family.build_solver(&settings).err();
        for verb in ["fit", "plan", "prepare"] {
            let output = if verb == "plan" { "" } else { "-o m" };
            if target {
                let said = fails(at, &format!("{verb} {name} no.parquet {output}"), 2);
                assert!(said.contains(&format!("{name} needs --target: ")), "{said}");
            }
            let Some(ksolve::Error::MissingOption { option, .. }) = &lacks else {
                assert!(lacks.is_none(), "{name} is refused for what nobody gave: {lacks:?}");
                continue;
            };
            let said = fails(at, &format!("{verb} {name} no.parquet {output}"), 2);
            assert!(said.contains(&format!("{name} needs --{option}: ")), "{said}");
        }
        if lacks.is_none() {
            let (target, features) = if target { ("--target y", "") } else { ("", "--features x*") };
            // for solvers with nodes, the rank is the number of landmarks among the nodes
            let nodes = if family.parameters.iter().any(|known| known.name == "nodes") { "--nodes 200" } else { "" };
            ok(at, &format!("fit {name} t.parquet {target} {features} {nodes} --rank 10 -q -o m"));
        }
    }
    assert!(fails(at, "fit kmeans t.parquet -o m", 2).contains("kmeans needs --clusters"));
    assert!(fails(at, "fit spectral t.parquet -o m", 2).contains("spectral needs --clusters"));
}

/// Runs a line that must fail with `code` and returns the first error line of stderr.
fn fails(folder: &Path, line: &str, code: i32) -> String {
    let output = kmill(folder, &words(line));
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{line}: {text}");
    assert!(output.stdout.is_empty(), "{line}: stdout must stay empty, has {}", stdout(&output));
    assert!(!text.contains("panicked") && !text.contains("RUST_BACKTRACE"), "{line}: {text}");
    text.lines().find(|line| line.starts_with("error: ")).unwrap_or_else(|| panic!("{line}: {text}")).to_string()
}

/// Returns the sorted names of the files in a folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn json(output: &Output) -> serde_json::Value {
    let text = stdout(output);
    assert_eq!(text.lines().count(), 1, "one object on one line: {text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn help_lists_every_verb_and_exits_0() {
    let folder = tempfile::tempdir().unwrap();
    let help = stdout(&ok(folder.path(), "--help"));
    for verb in [
        "fit", "predict", "evaluate", "inspect", "plan", "plot", "generate", "convert", "curve", "tune", "test",
        "herd", "export", "prepare", "stats", "merge", "solve", "demo",
    ] {
        assert!(help.contains(verb), "{verb} is missing in {help}");
        assert!(stdout(&ok(folder.path(), &format!("{verb} --help"))).contains("Usage: kmill"));
    }
}

#[test]
fn topics_have_a_text_and_misspelt_ones_a_suggestion() {
    let folder = tempfile::tempdir().unwrap();
    let help = stdout(&ok(folder.path(), "help"));
    for topic in [
        "memory",
        "kernels",
        "missing",
        "classes",
        "folds",
        "test-rows",
        "formats",
        "scaling",
        "reproducibility",
        "errors",
    ] {
        let text = stdout(&ok(folder.path(), &format!("help {topic}")));
        assert!(text.starts_with(topic) && text.contains("More in the guide: docs/"), "{text}");
        assert!(help.contains(topic), "{topic} is missing in {help}");
    }
    for (line, near) in [("help memmory", "kmill help memory"), ("help evalute", "kmill help evaluate")] {
        fails(folder.path(), line, 2);
        assert!(stderr(&kmill(folder.path(), &words(line))).contains(near), "{line}");
    }
}

#[test]
fn typos_are_answered_with_the_nearest_and_exit_2() {
    let folder = tempfile::tempdir().unwrap();
    for (line, near) in [
        ("genrate smile --rows 10 -o a.npy", "'generate'"),
        ("generate smil --rows 10 -o a.npy", "'smile'"),
        ("generate smile --row 10 -o a.npy", "did you mean --rows?"),
        ("fit ridge a.parquet --target y --kernal linear() -o m", "did you mean --kernel?"),
    ] {
        fails(folder.path(), line, 2);
        assert!(stderr(&kmill(folder.path(), &words(line))).contains(near), "{line}");
    }
}

#[test]
fn wrong_usage_exits_2() {
    let folder = tempfile::tempdir().unwrap();
    for line in [
        "fit ridge a.parquet -o m",
        "fit ridge a.parquet --target y",
        "fit ridge a.parquet --target y -o m --lambda small",
        "fit ridge a.parquet --target y -o m --ranks 0",
        "fit ridge a.parquet --target y -o m --folds 1",
        "fit ridge a.parquet --target y -o m --rows 5..5",
        "fit ridge a.parquet --target y -o m --where fold=3",
        "fit ridge a.parquet --target y -o m --memory lots",
        "fit ridge a.parquet --target y -o m --kernel gausian(sigma=1)",
        "generate smile --rows many -o a.npy",
        "inspect",
    ] {
        fails(folder.path(), line, 2);
    }
}

#[test]
fn a_missing_file_is_one_sentence_and_exit_1() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "generate moons --rows 10 -o table.parquet --quiet");
    let text = fails(folder.path(), "inspect tabel.parquet", 1);
    assert!(text.contains("no such file") && text.contains("did you mean") && text.contains("table.parquet"), "{text}");
    let text = fails(folder.path(), "convert table.parquet --target yy -o a.npy", 1);
    assert!(text.contains("\"yy\""), "{text}");
    std::fs::write(folder.path().join("notes.txt"), "hello").unwrap();
    assert!(fails(folder.path(), "inspect notes.txt", 1).contains("unknown file format"));
    std::fs::write(folder.path().join("broken.parquet"), "hello").unwrap();
    assert!(fails(folder.path(), "inspect broken.parquet", 1).contains("broken.parquet"));
}

#[test]
fn options_that_contradict_each_other_exit_1() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "generate friedman1 --rows 50 -o t.parquet --quiet");
    for (options, part) in
        [("--lambda -1", "positive"), ("--ranks 10,20 --rank 15", "raise it to 20"), ("--folds none", "cells")]
    {
        let text = fails(folder.path(), &format!("fit ridge t.parquet --target y -o m {options}"), 1);
        assert!(text.contains(part), "{options}: {text}");
    }
    assert!(fails(folder.path(), "fit ridge t.parquet --target y -o m --tolerance 2", 2).contains("between 0 and 1"));
    for line in [
        "generate smile --rows 100 --noise 1 -o a.npy",
        "generate friedman1 --rows 100 --features 3 -o a.npy",
        "generate smile --rows 3 -o a.npy",
        "generate smile --rows 100 -o nowhere/a.npy",
        "generate smile --rows 100 -o a.doc",
    ] {
        fails(folder.path(), line, 1);
    }
    assert_eq!(files(folder.path()), ["t.parquet"]);
}

#[test]
fn generate_inspect_and_convert_keep_the_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate friedman1 --rows 20000 --seed 7 -o a.parquet");
    let report = json(&ok(at, "inspect a.parquet --stats --json"));
    assert_eq!((&report["rows"], report["columns"].as_array().unwrap().len()), (&20_000.into(), 11));
    assert_eq!(report["columns"][0]["type"], "float32");
    let mean = report["columns"][0]["mean"].as_f64().unwrap();
    assert!((mean - 0.5).abs() < 5.0 * (1.0f64 / 12.0 / 20_000.0).sqrt(), "{mean}");

    ok(at, "convert a.parquet --target y -o b.npy --quiet");
    ok(at, "convert b.npy --target b.y.npy -o c.parquet --quiet");
    let again = json(&ok(at, "inspect c.parquet --stats --json"));
    assert_eq!(report["columns"], again["columns"]);
    ok(at, "generate friedman1 --rows 20000 --seed 7 -o d.npy --quiet");
    let read = |name: &str| std::fs::read(at.join(name)).unwrap();
    assert!(read("b.npy") == read("d.npy") && read("b.y.npy") == read("d.y.npy"));
    // the same seed gives the same bytes
    ok(at, "generate friedman1 --rows 20000 --seed 7 -o e.parquet --quiet --precision f32");
    assert!(read("a.parquet") == read("e.parquet"));
}

#[test]
fn convert_honours_rows_columns_and_condition() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    ok(at, "generate moons --rows 3000 -o a.parquet --quiet");
    let whole = json(&ok(at, "convert a.parquet -o b.parquet --rows 1000..1500 --features x1 --json --quiet"));
    assert_eq!(whole["rows"], 500);
    let report = json(&ok(at, "inspect b.parquet --json"));
    let names: Vec<_> = report["columns"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["x1"]);
    let parts = ["y==0", "y==1"].map(|condition| {
        let out = kmill(at, &["convert", "a.parquet", "--target", "y", "-o", "c.npy", "--json", "--where", condition]);
        json(&out)["rows"].as_u64().unwrap()
    });
    assert_eq!(parts.iter().sum::<u64>(), 3000);
    fails(at, "convert a.parquet --where y==7 -o d.npy", 1);
    assert!(!at.join("d.npy").exists());
}

#[test]
fn quiet_is_silent_and_json_is_alone_on_stdout() {
    let folder = tempfile::tempdir().unwrap();
    let output = ok(folder.path(), "generate blobs --rows 100 -o a.parquet --quiet");
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{}{}", stdout(&output), stderr(&output));
    let output = ok(folder.path(), "inspect a.parquet --json --quiet");
    assert_eq!(json(&output)["columns"][2]["type"], "int64");
    assert!(output.stderr.is_empty());
    // without --quiet, a plain line reports the result if stderr is not a terminal
    let output = ok(folder.path(), "generate blobs --rows 100 -o a.parquet");
    assert_eq!(stderr(&output), "100 rows of blobs in a.parquet\n");
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), "generate friedman1 --features 3000 --rows 64 -o wide.parquet --quiet");
    let args = words("inspect wide.parquet --stats --quiet");
    let mut child = command(folder.path(), &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!((child.wait().unwrap().code(), text.as_str()), (Some(0), ""));
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    // far more rows than can be written before the signal arrives
    let args = words("generate friedman1 --rows 1e10 -o a.parquet");
    let mut child = command(folder.path(), &args).stderr(Stdio::piped()).spawn().unwrap();
    // a file being written shows that the signal handler is installed
    while files(folder.path()).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it ended early");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(!folder.path().join("a.parquet").exists(), "a file appears only when it is whole");
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{text}");
    assert!(text.ends_with("error: interrupted: nothing was written\n"), "{text}");
    assert_eq!(files(folder.path()), Vec::<String>::new());
}
