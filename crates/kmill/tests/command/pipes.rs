//! Standard input and output instead of files.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn kmill(at: &Path, line: &str, input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kmill"));
    command.current_dir(at).args(line.split_whitespace());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // a run that fails stops reading
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    })
}

fn ok(at: &Path, line: &str, input: &[u8]) -> Vec<u8> {
    let output = kmill(at, line, input);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn tables_come_from_standard_input_and_predictions_go_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let csv = ok(at, "generate moons --rows 3000 -o - -q", b"");
    ok(at, "generate moons --rows 3000 -o t.parquet -q", b"");
    ok(at, "generate moons --rows 3000 -o t.csv -q", b"");
    assert!(csv == std::fs::read(at.join("t.csv")).unwrap());
    let read = |name: &str| std::fs::read(at.join(name)).unwrap();
    let fit = "--target y --rank 50 --lambda 1e-4 -q -o";
    ok(at, &format!("fit svm t.csv {fit} a"), b"");
    ok(at, &format!("fit svm - {fit} b"), &csv);
    ok(at, &format!("fit svm - {fit} c"), &read("t.parquet"));
    assert!(read("a") == read("b") && read("a") == read("c"), "other models from standard input");
    ok(at, "predict a t.csv --keep y --scores -o p.csv", b"");
    let predicted = ok(at, "predict a - --keep y --scores -o -", &csv);
    assert!(predicted == read("p.csv"));
    let scores = |input: &str, bytes: &[u8]| ok(at, &format!("evaluate a {input} --json"), bytes);
    let (file, pipe) = (scores("t.csv", b""), scores("-", &csv));
    let accuracy = |json: &[u8]| serde_json::from_slice::<serde_json::Value>(json).unwrap()["accuracy"].clone();
    assert_eq!(accuracy(&file), accuracy(&pipe));
    assert!(String::from_utf8(ok(at, "inspect -", &csv)).unwrap().contains("3,000 rows"));
    // a checkpoint identifies the piped input
    ok(at, &format!("fit svm - --checkpoint-every 1h {fit} d"), &csv);
    assert!(read("a") == read("d"));
    let json = b"{\"x0\": 0.5, \"x1\": 1}\n{\"x0\": -1.5, \"x1\": 0.25}\n";
    assert_eq!(String::from_utf8(ok(at, "predict a - -o -", json)).unwrap().lines().count(), 3);
}

#[test]
fn a_pipe_is_known_by_its_first_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let csv = b"x0,y\n1,2\n3,4\n";
    let json = "{\"x0\": 1, \"y\": 2}\n{\"x0\": 3, \"y\": 4}\n";
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(csv).unwrap();
    for (name, bytes) in [("gzip", gzip.finish().unwrap()), ("BOM", format!("\u{feff}{json}").into_bytes())] {
        assert_eq!(ok(at, "convert - -o - -q", &bytes), csv, "{name}");
    }
    for (bytes, remedy) in [
        (&b"BZh91AY&SY\x01"[..], "bzip2 -dc FILE | kmill"),
        (b"\xff\xff\xff\xff\x10\0\0\0", "pyarrow.ipc.new_file"),
        (b"\xff\xfex\0", "iconv -f UTF-16"),
        (b"[{\"x0\": 1}]", "jq -c '.[]'"),
    ] {
        let output = kmill(at, "inspect -", bytes);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(remedy), "{said}");
    }
}

/// Endless input would fill the disk of the temporary file.
#[cfg(target_os = "linux")]
#[test]
fn what_has_no_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for input in ["/dev/zero", "/proc/version"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kmill"));
        command.current_dir(folder.path()).args(["inspect", "-"]).stdin(std::fs::File::open(input).unwrap());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains("may have no end"), "{input}: {said}");
    }
    for line in ["inspect /proc/kmsg", "predict /proc/kmsg /proc/kmsg -o p.csv", "stats /proc/kmsg /proc/kmsg -o s"] {
        let output = kmill(folder.path(), line, b"");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains("is not a regular file"), "{line}: {said}");
    }
}

#[test]
fn what_a_pipe_cannot_do_is_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let csv = ok(at, "generate moons --rows 300 -o - -q", b"");
    let fails = |line: &str, input: &[u8], part: &str| {
        let output = kmill(at, line, input);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(part), "{line}: {said}");
    };
    fails("fit svm - --target y -o m", b"", "it is empty");
    fails("fit svm - t.csv --target y -o m", &csv, "-");
}

#[test]
fn a_reader_that_stops_early_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kmill"));
    command.current_dir(folder.path()).args(["generate", "moons", "--rows", "300000", "-o", "-", "-q"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
