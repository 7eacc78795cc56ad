//! Outputs that are not regular files, names that are not text, and names with escape sequences.

use super::make::*;
#[cfg(unix)]
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Command, Output};

/// A line for every verb that writes, to `OUT` plus this extension.
const WRITERS: &[(&str, &str)] = &[
    ("fit ridge t.parquet --target y --rank 20 --lambda 1e-6 -o OUT", ".safetensors"),
    ("tune ridge t.parquet --target y --rank 20 --lambda 1e-6 --folds 3 --factors 1 -o OUT", ".safetensors"),
    ("tune ridge t.parquet --target y --rank 20 --lambda 1e-6 --folds 3 --factors 1 -o OUT", ".csv"),
    ("predict model t.parquet -o OUT", ".parquet"),
    ("predict model t.parquet -o OUT", ".npy"),
    ("evaluate model t.parquet --report OUT", ".html"),
    ("plot model t.parquet -o OUT", ".svg"),
    ("generate moons --rows 20 -o OUT", ".arrow"),
    ("convert t.parquet -o OUT", ".csv"),
    ("curve t.parquet --methods uniform --ranks 5 --repeats 1 -o OUT", ".json"),
    ("curve t.parquet --methods uniform --ranks 5 --repeats 1 -o OUT", ".html"),
    ("herd t.parquet --count 5 --rank 20 -o OUT", ".parquet"),
];

fn with_model() -> tempfile::TempDir {
    let folder = folder();
    assert_eq!(run(folder.path(), &fit("t.parquet", "--lambda 1e-6 -q")).code, 0);
    folder
}

#[cfg(unix)]
#[test]
fn special_files_are_refused_and_links_are_followed() {
    use std::os::unix::fs::FileTypeExt;
    let folder = with_model();
    let at = folder.path();
    // root could replace /dev/null, so root gets a device node in the folder
    let own = Command::new("mknod").arg(at.join("device")).args(["c", "1", "3"]).output();
    let own = own.is_ok_and(|output| output.status.success());
    let device = if own { at.join("device") } else { "/dev/null".into() };
    for (line, extension) in WRITERS {
        let name = |stem: &str| format!("{stem}{extension}");
        let path = |stem: &str| at.join(name(stem));
        assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
        std::os::unix::fs::symlink(&device, path("null")).unwrap();
        std::os::unix::fs::symlink(name("loop"), path("loop")).unwrap();
        for (stem, part) in [("pipe", "this is a pipe"), ("null", "this is a device"), ("loop", "back to itself")] {
            fails(at, &line.replace("OUT", &name(stem)), 1, part);
        }
        assert!(std::fs::symlink_metadata(path("pipe")).unwrap().file_type().is_fifo(), "{line}");
        // dangling first, then live
        std::os::unix::fs::symlink(name("behind"), path("link")).unwrap();
        for state in ["dangling", "live"] {
            let ran = run(at, &line.replace("OUT", &name("link")));
            assert_eq!(ran.code, 0, "{line}: {state}: {}", ran.stderr);
            assert!(path("link").is_symlink() && path("behind").is_file() && !path("behind").is_symlink(), "{line}");
        }
        for stem in ["pipe", "null", "loop", "link", "behind"] {
            std::fs::remove_file(path(stem)).unwrap();
        }
    }
    assert!(std::fs::symlink_metadata(&device).unwrap().file_type().is_char_device(), "it must stay a device");
}

#[test]
fn a_model_is_named_as_one() {
    let folder = folder();
    let at = folder.path();
    for name in ["model.pkl", "model.parquet", "t.parquet", "model.onnx"] {
        fails(at, &format!("fit ridge t.parquet --target y -o {name}"), 1, "choose a name that ends with .safetensors");
        if name != "t.parquet" && name != "model.parquet" {
            fails(at, &format!("tune ridge t.parquet --target y -o {name}"), 1, ".safetensors");
        }
    }
    for name in ["model", "m.safetensors", "m.SAFETENSORS"] {
        assert_eq!(run(at, &format!("fit ridge t.parquet --target y --rank 5 --lambda 1e-6 -o {name} -q")).code, 0);
    }
    // a file without an extension may be the data
    std::fs::copy(at.join("t.parquet"), at.join("plain")).unwrap();
    fails(at, "fit ridge plain --target y -o plain", 1, "it is also an input");
}

/// Runs `line` with OUT, t.parquet and model replaced by the given names.
#[cfg(target_os = "linux")]
fn answer(at: &Path, line: &str, out: &std::ffi::OsStr, data: &std::ffi::OsStr, model: &std::ffi::OsStr) -> Output {
    let words = line.split_whitespace().map(|word| match word {
        "OUT" => out.to_owned(),
        "t.parquet" => data.to_owned(),
        "model" => model.to_owned(),
        word => word.into(),
    });
    Command::new(env!("CARGO_BIN_EXE_kmill")).current_dir(at).args(words).output().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_no_utf8_serve_as_any_other() {
    let folder = with_model();
    let at = folder.path();
    let name = |stem: &str| std::ffi::OsString::from_vec([stem.as_bytes(), b"\xff\xfe.parquet"].concat());
    let (data, model) = (name("data"), std::ffi::OsString::from_vec(b"model\xff".to_vec()));
    std::fs::copy(at.join("t.parquet"), at.join(&data)).unwrap();
    std::fs::copy(at.join("model"), at.join(&model)).unwrap();
    for (line, extension) in WRITERS {
        let out = std::ffi::OsString::from_vec([&b"out\xff"[..], extension.as_bytes()].concat());
        let json = if line.starts_with("generate") { "" } else { " --json" };
        let output = answer(at, &format!("{line}{json}"), &out, &data, &model);
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{line}: {stderr}");
        assert!(at.join(&out).is_file() && !stderr.contains("damaged"), "{line}: {stderr}");
        if !json.is_empty() {
            serde_json::from_str::<serde_json::Value>(&stdout).unwrap();
        }
        std::fs::remove_file(at.join(&out)).unwrap();
    }
    let file = name("landmarks");
    std::fs::copy(at.join("t.parquet"), at.join(&file)).unwrap();
    let line = "fit ridge t.parquet --target y --rank 20 --lambda 1e-6 -o OUT --landmarks model --json";
    let out = std::ffi::OsString::from("landmarks");
    assert_eq!(answer(at, line, &out, &data, &file).status.code(), Some(0));
    for line in ["inspect t.parquet --json", "inspect model --json", "evaluate model t.parquet --json"] {
        assert_eq!(answer(at, line, &data, &data, &model).status.code(), Some(0), "{line}");
    }
    // a pattern also matches names that are not UTF-8
    let output = answer(at, "inspect dat*.parquet --json", &data, &data, &model);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["rows"], N);
}

#[cfg(target_os = "linux")]
#[test]
fn a_checkpoint_may_be_called_anything() {
    let folder = folder();
    let at = folder.path();
    let model = std::ffi::OsString::from_vec(b"m\xff".to_vec());
    let line = "fit ridge t.parquet --target y --rank 20 --lambda 1e-6 --checkpoint-every 0s -o OUT";
    let data = std::ffi::OsString::from("t.parquet");
    for resume in ["", " --resume"] {
        let output = answer(at, &format!("{line}{resume}"), &model, &data, &model);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        assert!(!stderr.contains("warning"), "{stderr}");
    }
}

#[test]
fn names_of_columns_do_not_reach_the_terminal_raw() {
    let folder = folder();
    let at = folder.path();
    let name = "\u{1b}[31mred\u{7}\nerror: forged";
    let (x, y) = (noise(0), noise(1));
    write(
        &at.join("evil.parquet"),
        &[
            (name, kstore::OutputValues::F64(&[3.0; N])),
            ("x", kstore::OutputValues::F64(&x)),
            ("y", kstore::OutputValues::F64(&y)),
        ],
    );
    for line in [
        "inspect evil.parquet",
        "inspect evil.parquet --stats",
        "fit ridge evil.parquet --target y --rank 5 --lambda 1e-6 -o evil",
        "inspect evil",
        "fit ridge evil.parquet --target z -o m",
        "predict evil t.parquet -o p.csv",
        "evaluate evil evil.parquet",
        "plan ridge evil.parquet --target y",
        "curve evil.parquet --methods uniform --ranks 5 --repeats 1",
        "plot evil evil.parquet -o p.svg --x x --y no",
    ] {
        let ran = run(at, line);
        for text in [&ran.stdout, &ran.stderr] {
            assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{line}: {text:?}");
            assert!(!text.lines().any(|line| line.starts_with("error: forged")), "{line}: {text:?}");
        }
    }
    // files keep the name unescaped
    assert_eq!(run(at, "convert evil.parquet -o evil.csv -q").code, 0);
    assert!(std::fs::read_to_string(at.join("evil.csv")).unwrap().contains(name));
    assert_eq!(warns(at, "inspect evil.parquet").1["columns"][0]["name"], name);
}

#[cfg(target_os = "linux")]
#[test]
fn a_limit_of_the_file_size_leaves_nothing() {
    let folder = folder();
    let at = folder.path();
    let program = env!("CARGO_BIN_EXE_kmill");
    for name in ["a.npy", "a.parquet", "a.csv", "a.arrow"] {
        let script = format!("ulimit -f 64; exec '{program}' generate friedman1 --rows 20000 -o {name}");
        let before = files(at);
        let output = Command::new("sh").current_dir(at).args(["-c", &script]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {stderr}");
        assert!(stderr.contains("the file would exceed the size limit; raise the limit"), "{stderr}");
        assert_eq!(files(at), before, "{name}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn help_that_nobody_gets_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    for line in ["--help", "--version", "fit --help", "help"] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command(folder.path(), line).stdout(full).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {stderr}");
        assert!(stderr.starts_with("error: cannot write to standard output: the disk is full"), "{line}: {stderr}");
    }
}
