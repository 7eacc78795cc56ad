//! The command as a user calls it.

use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Exit code, JSON of stdout (null if it is none), stderr.
pub(crate) fn kmill(folder: &Path, line: &str) -> (i32, serde_json::Value, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_kmill")).current_dir(folder).args(line.split_whitespace()).output().unwrap();
    let json = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code().unwrap(), json, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The JSON of a run that must succeed.
pub(crate) fn ok(folder: &Path, line: &str) -> serde_json::Value {
    let (code, json, stderr) = kmill(folder, line);
    assert_eq!(code, 0, "{line}: {stderr}");
    json
}

/// True where a folder holds a file whose name `is` the right one.
pub(crate) fn holds(folder: &Path, is: impl Fn(&str) -> bool) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| is(&name.to_string_lossy()))
}

/// Reports that the test ends early on this machine. The line goes past the capture of the test runner; `scripts/test` counts it.
pub(crate) fn skip(why: &str) {
    let current = std::thread::current();
    let _ = writeln!(std::io::stderr(), "skipped: {}: {why}", current.name().unwrap_or("a test"));
}
