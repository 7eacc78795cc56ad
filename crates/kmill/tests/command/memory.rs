//! P1 (bounded memory): peak resident memory stays below the plan for any number of rows.

use std::path::Path;
use std::process::Command;

fn kmill(folder: &Path, line: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_kmill")).args(line).current_dir(folder).output().expect("kmill starts")
}

fn generate(folder: &Path, rows: &str) -> String {
    let name = format!("rows{rows}.parquet");
    let done = kmill(folder, &["generate", "friedman1", "--rows", rows, "-o", &name, "-q"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    name
}

/// Returns peak, plan and budget of a fit, in bytes.
fn fit(folder: &Path, data: &str, options: &[&str]) -> (u64, u64, u64) {
    let mut line = vec!["fit", "ridge", data, "--target", "y", "-q", "--json", "-o", "m.safetensors"];
    line.extend(options);
    let done = kmill(folder, &line);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let json: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let bytes = |key: &str| json[key].as_u64().unwrap_or_else(|| panic!("{key}: {json}"));
    (bytes("peak_rss_bytes"), bytes("planned_bytes"), bytes("memory_budget_bytes"))
}

const MIB: u64 = 1 << 20;

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "the operating system tells no peak of memory")]
fn a_hundred_times_the_rows_need_no_more_memory() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--rank", "60", "--memory", "96MiB", "--threads", "2"];
    let (few, ..) = fit(folder.path(), &generate(folder.path(), "10000"), &options);
    let (many, planned, budget) = fit(folder.path(), &generate(folder.path(), "1000000"), &options);
    eprintln!("peak {} MiB at 10,000 rows, {} MiB at 1,000,000, planned {}", few / MIB, many / MIB, planned / MIB);
    // 10,000 rows are one segment, below the default candidates; a million would be 44 MB
    assert!(many < few + 16 * MIB, "{few} bytes at 10,000 rows, {many} at 1,000,000");
    assert!(many <= planned && planned <= budget, "peak {many}, planned {planned}, budget {budget}");
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "the operating system tells no peak of memory")]
fn the_plan_holds_for_large_and_small_states() {
    let folder = tempfile::tempdir().unwrap();
    let data = generate(folder.path(), "40000");
    for options in [
        &["--rank", "20"][..],
        &["--rank", "600", "--lambda", "1e-6", "--landmarks", "uniform"],
        &["--ranks", "100,500", "--folds", "4"],
        &["--rank", "200", "--precision", "f64", "--candidates", "all"],
        &["--rank", "300", "--kernel", "gaussian(sigma=30)", "--lambda", "1e-6"],
    ] {
        let (peak, planned, _) = fit(folder.path(), &data, options);
        eprintln!("{options:?}: peak {} of {} MiB planned", peak / MIB, planned / MIB);
        assert!(peak <= planned, "{options:?}: peak {peak}, planned {planned}");
        // the planned memory is enough for the fit
        let exactly = format!("{planned}B");
        let again = fit(folder.path(), &data, &[options, &["--memory", &exactly]].concat());
        assert!(again.0 <= planned, "{options:?} under its own plan: {again:?}");
    }
}

#[test]
fn what_cannot_fit_is_refused_before_any_pass() {
    let folder = tempfile::tempdir().unwrap();
    let data = generate(folder.path(), "10000");
    let line = ["fit", "ridge", &data, "--target", "y", "--rank", "2000", "--memory", "16MiB", "-o", "m.safetensors"];
    let refused = kmill(folder.path(), &line);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("--rank") && text.contains("--memory") && text.contains("16.0 MiB"), "{text}");
    assert!(!text.contains("scaling statistics"), "a pass ran first: {text}");
    assert!(!folder.path().join("m.safetensors").exists());
}

/// Returns the page faults of a run of all its threads.
#[cfg(target_os = "linux")]
fn page_faults(folder: &Path, line: &str) -> u64 {
    let mut kmill = Command::new(env!("CARGO_BIN_EXE_kmill"));
    kmill.args(line.split_whitespace()).current_dir(folder).stdout(std::process::Stdio::null());
    let mut child = kmill.spawn().expect("kmill starts");
    let faults = loop {
        let stat =
            std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("an unreaped process has a file");
        // the fields after the name of the program: state, nine others, and the faults
        let (_, fields) = stat.rsplit_once(") ").expect("a name in parentheses");
        let fields: Vec<&str> = fields.split(' ').collect();
        // only when the process has ended are the faults of all threads counted
        if fields[0] == "Z" {
            break fields[7].parse().expect("a number");
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    assert!(child.wait().expect("kmill ends").success(), "{line}");
    faults
}

/// A buffer that is allocated for each tile or step is mapped anew by the system each time, which
/// then took three times as long as the arithmetic of a logistic fit.
#[test]
#[cfg(target_os = "linux")]
fn solvers_allocate_their_large_buffers_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert!(kmill(folder, &["generate", "moons", "--rows", "20000", "-o", "moons.parquet", "-q"]).status.success());
    for solver in [
        "logistic --target y --lambda 1e-6..1e-4",
        "svm --target y --lambda 1e-6..1e-4",
        "svr --target y --C 0.1,1",
        "ranking --target y --lambda 1e-6..1e-4",
        "kpca-l1 --features x* --components 2",
    ] {
        let (name, options) = solver.split_once(' ').unwrap();
        let line = format!("fit {name} moons.parquet {options} --rank 60 --kernel gaussian(sigma=0.4) -o m -q");
        let faults = page_faults(folder, &line);
        eprintln!("{faults} page faults: {solver}");
        // the program itself has 4,000 and the features of 20,000 rows have 1,200 pages
        assert!(faults <= 20_000, "{faults} page faults: {line}");
    }
}
