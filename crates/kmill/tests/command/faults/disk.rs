//! Outputs that cannot be written, full disks, closed pipes, signals.

use super::make::*;
use std::process::{Command, Stdio};

#[test]
fn outputs_that_cannot_be_written() {
    let folder = folder();
    let at = folder.path();
    assert_eq!(run(at, &fit("t.parquet", "--lambda 1e-6 -q")).code, 0);
    assert_eq!(run(at, "convert t.parquet --target y -o t.npy -q").code, 0);
    std::fs::create_dir(at.join("sub")).unwrap();
    let saved = std::fs::read(at.join("t.parquet")).unwrap();
    for (line, part) in [
        ("predict model t.parquet -o no/a.parquet", "the folder no does not exist"),
        ("predict model t.parquet -o sub", "this is a folder"),
        ("predict model t.parquet -o a.doc", "unknown file format"),
        ("predict model t.parquet -o t.parquet", "it is also an input"),
        ("predict model t.parquet -o ./sub/../t.parquet", "it is also an input"),
        ("convert t.parquet -o t.parquet", "it is also an input"),
        ("convert t.npy --target t.y.npy -o t.npy", "it is also an input"),
        ("convert t.npy --target t.y.npy -o t.y.npy", "it is also an input"),
        ("fit ridge t.parquet --target y -o t.parquet", "choose a name that ends with .safetensors"),
        ("fit ridge t.parquet --target y -o no/model", "the folder no does not exist"),
        ("generate moons --rows 100 -o no/a.parquet", "the folder no does not exist"),
        ("generate moons --rows 100 -o a", "unknown file format"),
    ] {
        fails(at, line, 1, part);
    }
    assert!(std::fs::read(at.join("t.parquet")).unwrap() == saved);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_nothing() {
    let folder = folder();
    let at = folder.path();
    let disk = at.join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = |args: &[&str]| Command::new("mount").args(args).arg(&disk).output().is_ok_and(|o| o.status.success());
    if !mount(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"]) {
        crate::run::skip("mounting a small file system is not allowed here");
        return;
    }
    let result = std::panic::catch_unwind(|| {
        assert_eq!(run(at, "generate friedman1 --rows 5000 -o large.parquet -q").code, 0);
        for line in [
            "generate friedman1 --rows 20000 -o disk/a.parquet",
            "generate friedman1 --rows 20000 -o disk/a.npy",
            "convert large.parquet --target y -o disk/a.npy",
            "convert large.parquet --target y -o disk/a.parquet",
            "fit ridge large.parquet --target y --rank 1000 --lambda 1e-6 --precision f64 \
             --checkpoint-every 1h -o disk/model",
        ] {
            fails(at, line, 1, "free some space");
            assert_eq!(files(&disk), Vec::<String>::new(), "{line}");
        }
    });
    assert!(Command::new("umount").arg(&disk).status().unwrap().success());
    result.unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn closed_and_full_pipes() {
    let folder = folder();
    let at = folder.path();
    assert_eq!(run(at, &fit("t.parquet", "--lambda 1e-6 -q")).code, 0);
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command(at, "evaluate model t.parquet --json -q").stdout(full()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && text.contains("cannot write to standard output"), "{text}");
    // stderr cannot be written: the work is done, and the exit code still reports a failure
    let code = |line: &str| command(at, line).stderr(full()).output().unwrap().status.code();
    assert_eq!(code("predict model t.parquet -o p.npy"), Some(0));
    assert_eq!(code("predict model no.parquet -o q.npy"), Some(1));
    assert!(Command::new("mkfifo").arg(at.join("pipe.parquet")).status().unwrap().success());
    fails(at, "inspect pipe.parquet", 1, "is not a regular file");
    fails(at, "evaluate pipe.parquet t.parquet", 1, "is not a regular file");
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // no limit on candidates and many ranks: each of these runs for minutes
    assert_eq!(run(at, "generate friedman1 --rows 400000 -o t.parquet -q").code, 0);
    assert_eq!(
        run(
            at,
            "fit ridge t.parquet --rows ..4000 --target y --rank 1500 --landmarks uniform --lambda 1e-6 -o model -q"
        )
        .code,
        0
    );
    let before = files(at);
    for line in [
        "fit ridge t.parquet --target y --rank 1500 -v -o m",
        "predict model t.parquet -v -o p.parquet",
        "convert t.parquet t.parquet -o c.npy --precision f64 -v",
        "generate friedman1 --rows 1e10 -v -o g.npy",
    ] {
        for signal in ["INT", "TERM"] {
            let mut child = command(at, line).stderr(Stdio::piped()).spawn().unwrap();
            // the first line of progress shows that the signal handler is installed
            let mut reader = std::io::BufReader::new(child.stderr.take().unwrap());
            let mut text = String::new();
            std::io::BufRead::read_line(&mut reader, &mut text).unwrap();
            assert!(Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap().success());
            std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
            let code = child.wait().unwrap().code();
            assert_eq!(code, Some(130), "{line} {signal}: {text}");
            assert!(text.ends_with("error: interrupted: nothing was written\n"), "{line} {signal}: {text}");
            assert_eq!(files(at), before, "{line} {signal}");
        }
    }
}
