//! Files that are damaged, unreadable, misnamed, or fail while they are read.

use super::make::*;
use kstore::{Missing, ReadSettings, RowBuf, RowSource, Selection, Table};
use std::path::Path;
use std::process::Command;

/// Writes `t` in every output format, and in svmlight.
fn formats(at: &Path) -> Vec<&'static str> {
    tables(at);
    for line in ["convert t.parquet -o t.csv -q", "convert t.parquet -o t.tsv -q", "convert t.parquet -o t.npy -q"] {
        assert_eq!(run(at, line).code, 0, "{line}");
    }
    let text = std::fs::read_to_string(at.join("t.csv")).unwrap();
    let svm = text.lines().skip(1).map(|line| {
        let fields: Vec<_> = line.split(',').collect();
        format!("{} 1:{} 2:{}\n", fields[2], fields[0], fields[1])
    });
    std::fs::write(at.join("t.svm"), svm.collect::<String>()).unwrap();
    vec!["parquet", "csv", "tsv", "npy", "svm"]
}

/// A damaged file gives other values, or an error of one sentence that names it and no output.
fn survives(at: &Path, name: &str, what: &str) {
    let ran = run(at, &format!("convert {name} -o out.csv --missing keep"));
    match ran.code {
        0 => std::fs::remove_file(at.join("out.csv")).unwrap(),
        1 => {
            let errors: Vec<_> = ran.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
            assert!(errors.len() == 1 && errors[0].contains(name), "{what}: {}", ran.stderr);
            assert!(!at.join("out.csv").exists(), "{what}");
        }
        code => panic!("{what}: {code} {}", ran.stderr),
    }
    assert!(files(at).iter().all(|name| !name.starts_with(".kmill-")), "{what}: {:?}", files(at));
}

#[test]
fn truncated_files_and_flipped_bytes_of_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for format in formats(at) {
        let whole = std::fs::read(at.join(format!("t.{format}"))).unwrap();
        let name = format!("damaged.{format}");
        for part in 0..12 {
            let cut = whole.len() * part / 12;
            std::fs::write(at.join(&name), &whole[..cut]).unwrap();
            survives(at, &name, &format!("{name} cut at {cut}"));
        }
        // headers and footers are short and matter most
        let places = (0..whole.len()).step_by(whole.len() / 20).chain(0..12).chain(whole.len() - 12..whole.len());
        for (i, place) in places.enumerate() {
            let mut damaged = whole.clone();
            damaged[place] ^= [0xff, 0x01, 0x80, 0x20][i % 4];
            std::fs::write(at.join(&name), damaged).unwrap();
            survives(at, &name, &format!("{name} flipped at {place}"));
        }
        std::fs::remove_file(at.join(&name)).unwrap();
    }
}

#[test]
fn text_that_is_damaged_is_told_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    formats(at);
    let text = std::fs::read_to_string(at.join("t.csv")).unwrap();
    let with = |name: &str, line: usize, replaced: &str| {
        let lines: Vec<_> = text.lines().enumerate().map(|(i, l)| if i + 1 == line { replaced } else { l }).collect();
        std::fs::write(at.join(name), lines.join("\n")).unwrap();
    };
    with("short.csv", 12, "0.5,0.5");
    with("quote.csv", 12, "0.5,\"0.5,1");
    with("names.csv", 1, "0.5,0.25,1");
    std::fs::write(at.join("utf16.csv"), [&b"\xff\xfe"[..], &[b'a', 0, b'\n', 0]].concat()).unwrap();
    std::fs::write(at.join("empty.csv"), "").unwrap();
    std::fs::write(at.join("head.csv"), "x0,y\n").unwrap();
    std::fs::write(at.join("zero.svm"), "1 0:5\n").unwrap();
    std::fs::write(at.join("order.svm"), "1 1:5\n\n1 2:5 2:6\n").unwrap();
    std::fs::write(at.join("wide.svm"), "1 5000000000:5\n").unwrap();
    for (data, part) in [
        ("short.csv", "short.csv: row 10 (counted from 0), line 12: expected 3 fields, found 2 fields"),
        ("quote.csv", "line 12: expected a closing quote, found the end of the file"),
        ("names.csv", "add --no-header"),
        ("utf16.csv", "it is UTF-16"),
        ("empty.csv", "it is empty"),
        ("head.csv", "it has no rows"),
        ("zero.svm", "set --zero-based"),
        ("order.svm", "order.svm: row 1 (counted from 0), line 3: expected ascending indices, found 2 after 2"),
        ("wide.svm", "expected at most 4294967295 features"),
    ] {
        fails(at, &fit(data, ""), 1, part);
    }
    with("late.csv", 12, "0.5,half,1");
    let line = fit("late.csv", "--infer-rows 5");
    fails(
        at,
        &line,
        1,
        "late.csv: row 10 (counted from 0), line 12, column \"x1\": expected a number as in the first 5 rows, found \"half\"",
    );
    // with more rows inspected, the column is text and not a feature
    fails(at, &fit("late.csv", "--features x1"), 1, "holds text");
}

#[test]
fn names_that_promise_another_format_and_files_that_disagree() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    formats(at);
    for (from, to) in
        [("t.parquet", "p.csv"), ("t.npy", "n.csv"), ("t.csv", "c.parquet"), ("t.csv", "c.npy"), ("t.csv", "c.svm")]
    {
        std::fs::copy(at.join(from), at.join(to)).unwrap();
    }
    std::fs::create_dir(at.join("parts")).unwrap();
    std::fs::write(at.join("parts/1.csv"), "x0,y\n1,2\n3,4\n").unwrap();
    std::fs::write(at.join("parts/2.csv"), "x0,y\n1,2\n3,many\n").unwrap();
    for (data, part) in [
        ("p.csv", "it starts like a .parquet file"),
        ("n.csv", "it starts like a .npy file"),
        ("c.parquet", "it is not a Parquet file"),
        ("c.npy", "it does not start with"),
        ("c.svm", "c.svm: row 0 (counted from 0), line 1: expected a number, found \"x0,x1,y\""),
        ("parts", "column \"y\" of parts/1.csv holds text, but a target of regression must be numeric"),
    ] {
        fails(at, &fit(data, ""), 1, part);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn reads_that_fail() {
    // a file that looks regular, but every read of it fails
    let failing = Path::new("/sys/class/net/lo/speed");
    if !failing.exists() || std::fs::read(failing).is_ok() {
        crate::run::skip(&format!("there is no {} that cannot be read", failing.display()));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for format in ["parquet", "csv", "npy", "svm"] {
        std::os::unix::fs::symlink(failing, at.join(format!("t.{format}"))).unwrap();
        fails(at, &fit(&format!("t.{format}"), ""), 1, &format!("cannot read t.{format}: invalid argument"));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn files_and_folders_without_permission() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mode = |name: &str, mode: u32| {
        std::fs::set_permissions(at.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    formats(at);
    // root may read everything, so the command runs as nobody, who cannot enter root's folders
    let root =
        std::fs::read(at.join("t.csv")).is_ok() && Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let binary = at.join("kmill");
    std::fs::copy(env!("CARGO_BIN_EXE_kmill"), &binary).unwrap();
    mode("", 0o755);
    let line = |words: &str| {
        let mut command = if root { Command::new("setpriv") } else { Command::new(&binary) };
        if root {
            command.args(["--reuid", "65534", "--clear-groups"]).arg(&binary);
        }
        let output = command.current_dir(at).args(words.split_whitespace()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    if root && line("--version").0 != Some(0) {
        crate::run::skip("running as another user is not allowed here");
        return;
    }
    std::fs::create_dir(at.join("closed")).unwrap();
    for format in ["parquet", "csv", "npy", "svm"] {
        let name = format!("t.{format}");
        mode(&name, 0o000);
        let (code, text) = line(&format!("inspect {name}"));
        let expected = format!(
            "error: cannot read {name}: permission denied; check the permissions of the file and of its folder\n"
        );
        assert_eq!((code, text), (Some(1), expected));
        mode(&name, 0o644);
    }
    mode("closed", 0o555);
    for out in ["closed/out.csv", "closed/out.parquet", "closed/out.npy"] {
        let (code, text) = line(&format!("convert t.parquet -o {out}"));
        assert!(code == Some(1) && text.contains(&format!("cannot write {out}: permission denied")), "{text}");
    }
    mode("closed", 0o755);
    assert_eq!(files(&at.join("closed")), Vec::<String>::new());
}

#[cfg(unix)]
#[test]
fn pipes_and_empty_folders() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::create_dir(at.join("empty")).unwrap();
    fails(at, &fit("empty", ""), 1, "the folder holds no .parquet");
    for name in ["pipe.csv", "pipe.svm", "pipe.npy"] {
        assert!(Command::new("mkfifo").arg(at.join(name)).status().unwrap().success());
        fails(at, &format!("convert {name} -o out.csv"), 1, "is not a regular file");
    }
}

/// Reads every number of a table.
fn numbers(path: &Path) -> kstore::Result<()> {
    let table = Table::open(&[path])?;
    let numeric = table.schema().columns.iter().filter(|column| column.kind.is_numeric());
    let features = numeric.map(|column| column.name.clone()).collect();
    let selection = Selection { features, missing: Missing::Mean, ..Selection::default() };
    let source = table.select(&selection)?.rows::<f64>(ReadSettings::default())?;
    let (mut cursor, mut buffer) = (source.open(source.range())?, RowBuf::new(1024));
    while cursor.next(&mut buffer)? {}
    Ok(())
}

/// Some decoders panic on a damaged page; users must see the one-sentence error only.
#[test]
fn a_decoder_that_panics_is_not_heard() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tables(at);
    assert_eq!(run(at, "convert labels.parquet --rows ..40 -o small.parquet -q").code, 0);
    let whole = std::fs::read(at.join("small.parquet")).unwrap();
    let path = at.join("damaged.parquet");
    let mut panics = 0;
    // every byte of the pages and of the footer, until enough panics are found
    for place in 4..whole.len() - 8 {
        let mut damaged = whole.clone();
        damaged[place] ^= 0xff;
        std::fs::write(&path, damaged).unwrap();
        if panics < 5 && numbers(&path).is_err_and(|error| error.to_string().contains("the file is damaged;")) {
            panics += 1;
            fails(at, "inspect damaged.parquet --stats", 1, "cannot be read as Parquet: the file is damaged; copy it");
        }
    }
    assert!(panics > 0, "no byte of {} makes the decoder panic: take another file", whole.len());
}
