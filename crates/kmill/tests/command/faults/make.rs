//! Tables with one fault each, and helpers that run the command on them.

use kstore::sink::{self, OutputColumn, OutputValues};
use std::path::Path;
use std::process::{Command, Stdio};

/// Exit code, stdout and stderr of a run.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn command(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kmill"));
    // words are separated by spaces; ~ is a space within a word
    let words = line.split_whitespace().map(|word| word.replace('~', " "));
    command.current_dir(folder).args(words).stdin(Stdio::null());
    command
}

pub(crate) fn run(folder: &Path, line: &str) -> Ran {
    let output = command(folder, line).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ran = Ran { code: output.status.code().unwrap(), stdout: text(&output.stdout), stderr: text(&output.stderr) };
    assert!(!ran.stderr.contains("panicked") && !ran.stderr.contains("RUST_BACKTRACE"), "{line}: {}", ran.stderr);
    ran
}

pub(crate) fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Checks that a line fails with `code`, has `part` in its only error, and changes no file.
pub(crate) fn fails(folder: &Path, line: &str, code: i32, part: &str) {
    let before = files(folder);
    let ran = run(folder, line);
    assert_eq!(ran.code, code, "{line}: {}", ran.stderr);
    assert_eq!(ran.stdout, "", "{line}");
    let errors: Vec<_> = ran.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{line}: {}", ran.stderr);
    assert!(errors[0].contains(part), "{line}: {} (expected: {part})", errors[0]);
    assert_eq!(files(folder), before, "{line} left files or removed some");
}

/// Runs a line that must succeed; returns its warnings and its one-line JSON.
pub(crate) fn warns(folder: &Path, line: &str) -> (String, serde_json::Value) {
    let ran = run(folder, &format!("{line} --json"));
    assert_eq!(ran.code, 0, "{line}: {}", ran.stderr);
    assert_eq!(ran.stdout.lines().count(), 1, "{line}: {}", ran.stdout);
    let warnings: Vec<_> = ran.stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    (warnings.join("\n"), serde_json::from_str(&ran.stdout).unwrap())
}

pub(crate) const N: usize = 300;

/// Returns reproducible pseudo-random numbers in [-1, 1).
pub(crate) fn noise(seed: u64) -> Vec<f64> {
    let stream = kstore::key::Stream::new(seed, kstore::key::Purpose::Data, 0);
    (0..N as u64).map(|row| 2.0 * stream.uniform(row) - 1.0).collect()
}

pub(crate) fn write(path: &Path, columns: &[(&str, OutputValues<'_>)]) {
    let heads: Vec<_> = columns.iter().map(|(name, values)| OutputColumn::new(*name, values.kind())).collect();
    let mut out = sink::create(path, &heads).unwrap();
    out.write(&columns.iter().map(|(_, values)| *values).collect::<Vec<_>>()).unwrap();
    out.finish().unwrap();
}

/// Writes `t.parquet` with x0, x1, y, and variants with one fault each.
pub(crate) fn tables(at: &Path) {
    let (x0, x1) = (noise(0), noise(1));
    let y: Vec<f64> = x0.iter().zip(&x1).map(|(a, b)| (3.0 * a).sin() + b).collect();
    let table = |name: &str, x0: &[f64], x1: &[f64], y: &[f64]| {
        write(
            &at.join(name),
            &[("x0", OutputValues::F64(x0)), ("x1", OutputValues::F64(x1)), ("y", OutputValues::F64(y))],
        );
    };
    let with = |values: &[f64], row: usize, value: f64| {
        let mut values = values.to_vec();
        values[row] = value;
        values
    };
    let times = |values: &[f64], factor: f64| values.iter().map(|value| value * factor).collect::<Vec<_>>();
    table("t.parquet", &x0, &x1, &y);
    table("nan.parquet", &x0, &with(&x1, 17, f64::NAN), &y);
    table("infinite.parquet", &x0, &with(&x1, 17, f64::INFINITY), &y);
    table("y_nan.parquet", &x0, &x1, &with(&y, 5, f64::NAN));
    table("empty.parquet", &[], &[], &[]);
    table("one.parquet", &x0[..1], &x1[..1], &y[..1]);
    table("y_constant.parquet", &x0, &x1, &[3.0; N]);
    table("x_constant.parquet", &x0, &[3.0; N], &y);
    table("same.parquet", &[1.0; N], &[2.0; N], &y);
    table("zero.parquet", &[0.0; N], &[0.0; N], &y);
    table("large.parquet", &times(&x0, 1e30), &x1, &times(&y, 1e30));
    table("huge.parquet", &times(&x0, 1e300), &x1, &y);
    let numbers = |f: &dyn Fn(usize) -> i64| (0..N).map(f).collect::<Vec<_>>();
    let text: kstore::Strings =
        (0..N).map(|i| ["ä ß", "日本", "c"][usize::from(x0[i] > 0.3) + usize::from(x0[i] > -0.3)]).collect();
    let bools: Vec<bool> = y.iter().map(|y| *y > 0.0).collect();
    write(
        &at.join("labels.parquet"),
        &[
            ("x0", OutputValues::F64(&x0)),
            ("x1", OutputValues::F64(&x1)),
            ("text", OutputValues::Text(&text)),
            ("bool", OutputValues::Bool(&bools)),
            ("one", OutputValues::I64(&[1; N])),
            ("fold", OutputValues::I64(&numbers(&|i| i as i64 % 4))),
            ("id", OutputValues::I64(&numbers(&|i| i as i64))),
            ("y", OutputValues::F64(&y)),
        ],
    );
    let twice = [("a", OutputValues::F64(&x0)), ("a", OutputValues::F64(&x1)), ("y", OutputValues::F64(&y))];
    write(&at.join("twice.parquet"), &twice);
    write(&at.join("ü.parquet"), &[("größe", OutputValues::F64(&x0)), ("цель", OutputValues::F64(&y))]);
    write(
        &at.join("order.parquet"),
        &[("y", OutputValues::F64(&y)), ("x1", OutputValues::F64(&x1)), ("x0", OutputValues::F64(&x0))],
    );
    write(&at.join("untold.parquet"), &[("x1", OutputValues::F64(&x1)), ("x0", OutputValues::F64(&x0))]);
    write(&at.join("narrow.parquet"), &[("x0", OutputValues::F64(&x0)), ("y", OutputValues::F64(&y))]);
}

pub(crate) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    tables(folder.path());
    folder
}

/// Returns a `fit` line with a rank that suits 300 rows.
pub(crate) fn fit(data: &str, options: &str) -> String {
    let target = if options.contains("--target") { "" } else { "--target y" };
    let rank = if options.contains("--rank") { "" } else { "--rank 20" };
    format!("fit ridge {data} {target} {rank} -o model {options}")
}
