//! Machines with one thread, no home, no temporary folder, no `/proc`, or limited memory.

use std::path::Path;
use std::process::{Command, Output};

const FIT: &str = "fit ridge rows.parquet --target y --rank 60 --lambda 1e-6 -o model.safetensors --json -q";

/// Returns a folder with a table, the report of a fit on this machine, and its model.
fn usual() -> (tempfile::TempDir, serde_json::Value, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let mut kmill = Command::new(env!("CARGO_BIN_EXE_kmill"));
    done(kmill.current_dir(&folder).args("generate friedman1 --rows 3000 -o rows.parquet -q".split(' ')));
    let mut kmill = Command::new(env!("CARGO_BIN_EXE_kmill"));
    let output = done(kmill.current_dir(&folder).args(FIT.split(' ')));
    let model = std::fs::read(folder.path().join("model.safetensors")).unwrap();
    (folder, serde_json::from_slice(&output.stdout).unwrap(), model)
}

fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Runs `line` after `mounts` in its own mount namespace, or prints a note and returns `None`.
fn mounted(folder: &Path, mounts: &str, line: &str) -> Option<serde_json::Value> {
    let alone = |script: &str, words: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args(["-rm", "sh", "-e", "-c", script, env!("CARGO_BIN_EXE_kmill")]).args(words.split_whitespace());
        unshare.current_dir(folder).output()
    };
    if !alone(&format!("{mounts}\n"), "").is_ok_and(|output| output.status.success()) {
        crate::run::skip("this machine does not let a test mount");
        return None;
    }
    let output = alone(&format!("{mounts}\nexec \"$0\" \"$@\""), line).unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn one_thread_and_no_environment_are_enough() {
    let (folder, _, model) = usual();
    let mut kmill = Command::new(env!("CARGO_BIN_EXE_kmill"));
    // neither a writable home nor a temporary folder
    kmill.env_clear().env("HOME", "/dev/null").env("TMPDIR", folder.path().join("gone"));
    done(kmill.current_dir(&folder).args(FIT.split(' ')).args(["--threads", "1"]));
    assert!(model == std::fs::read(folder.path().join("model.safetensors")).unwrap(), "another model");
}

#[test]
fn a_machine_that_hides_proc_makes_the_same_model() {
    let (folder, report, model) = usual();
    let Some(hidden) = mounted(folder.path(), "mount -t tmpfs none /proc", FIT) else { return };
    assert!(model == std::fs::read(folder.path().join("model.safetensors")).unwrap(), "another model");
    assert_eq!(hidden["certificate"], report["certificate"]);
    let line = "plan ridge rows.parquet --target y --rank 60 --json -q";
    let plan = mounted(folder.path(), "mount -t tmpfs none /proc", line).unwrap();
    assert_eq!(plan["memory_budget_bytes"], 2u64 << 30, "what is taken where nothing is told");
}

#[test]
fn half_of_what_a_container_may_use_is_the_budget() {
    let (folder, ..) = usual();
    let line = "plan ridge rows.parquet --target y --rank 60 --json -q";
    // cgroup version 2 and version 1
    for (group, file) in [("0::/job", "job/memory.max"), ("4:memory:/job", "memory/job/memory.limit_in_bytes")] {
        let mounts = format!(
            "mount -t tmpfs none /sys/fs/cgroup
             mkdir -p $(dirname /sys/fs/cgroup/{file})
             echo {} >/sys/fs/cgroup/{file}
             echo {group} >/sys/fs/cgroup/own
             mount --bind /sys/fs/cgroup/own /proc/$$/cgroup",
            600 << 20
        );
        let Some(plan) = mounted(folder.path(), &mounts, line) else { return };
        assert_eq!(plan["memory_budget_bytes"], 300 << 20, "{group}");
    }
}
