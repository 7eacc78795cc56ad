//! Runs the command as a user calls it.

use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Returns the exit code, the JSON of stdout (null if it is not JSON), and stderr.
pub(crate) fn kmill(folder: &Path, line: &str) -> (i32, serde_json::Value, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_kmill")).current_dir(folder).args(line.split_whitespace()).output().unwrap();
    let json = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code().unwrap(), json, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Returns the JSON of a run that must succeed.
pub(crate) fn ok(folder: &Path, line: &str) -> serde_json::Value {
    let (code, json, stderr) = kmill(folder, line);
    assert_eq!(code, 0, "{line}: {stderr}");
    json
}

/// Returns true if a folder has a file whose name satisfies `is`.
pub(crate) fn holds(folder: &Path, is: impl Fn(&str) -> bool) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| is(&name.to_string_lossy()))
}

/// Reports that the test ends early, bypassing the runner's capture; `scripts/test` counts these.
pub(crate) fn skip(why: &str) {
    let current = std::thread::current();
    let _ = writeln!(std::io::stderr(), "skipped: {}: {why}", current.name().unwrap_or("a test"));
}
