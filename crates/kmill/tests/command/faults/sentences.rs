//! Runs many bad command lines: every error is one plain sentence with a next step.

use super::make::*;
use std::path::Path;

/// Phrases that introduce a next step.
const STEPS: &[&str] = &[
    "expected",
    "must be",
    "give ",
    "choose",
    "name ",
    "leave ",
    "raise ",
    "lower ",
    "add ",
    "use ",
    "check",
    "write ",
    "copy ",
    "fit the model",
    "omit ",
    "did you mean",
    "such as",
    "similar",
    "tip:",
    "possible values",
    "end it",
    "end with",
    "ask for",
    "create it",
    "run again",
    "take ",
    "free some",
    "put the",
    "make ",
    "compare it",
    "narrow",
    "save it",
    "see kmill",
    "start",
    "not provided",
    "kmill inspect",
    "turn ",
    "clean",
];

/// Internal terms that no message may contain.
const INTERNALS: &[&str] = &[
    "os error",
    "panicked",
    "invalid digit",
    "invalid float",
    "usize",
    "u64",
    "i64",
    "u32",
    "PathBuf",
    "OsString",
    "Vec<",
    "Option<",
    "Some(",
    "Err(",
    "::",
    "Utf8Error",
    "ParseIntError",
    "Parquet argument error",
    "unwrap",
    "at line 1 column",
    ".tmp",
];

/// Checks the complete error output of a bad line.
fn check(what: &str, code: i32, stderr: &str) {
    let errors: Vec<_> = stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(code == 1 || code == 2, "{what}: exit code {code}: {stderr}");
    assert_eq!(errors.len(), 1, "{what}: {stderr}");
    let said: String =
        stderr.lines().filter(|line| !line.starts_with("For more information")).collect::<Vec<_>>().join("\n");
    for internal in INTERNALS {
        assert!(!said.contains(internal), "{what}: {internal:?} in {said}");
    }
    assert!(STEPS.iter().any(|step| said.contains(step)), "{what}: no next step in {said}");
    assert!(said.chars().all(|letter| letter == '\n' || !letter.is_control()), "{what}: {said:?}");
    let longest = said.split(|letter: char| !letter.is_ascii_digit()).map(str::len).max().unwrap_or(0);
    assert!(longest <= 70, "{what}: {longest} digits in {said}");
}

fn bad(at: &Path, line: &str) {
    let before = files(at);
    let ran = run(at, line);
    check(line, ran.code, &ran.stderr);
    assert_eq!(ran.stdout, "", "{line}");
    assert_eq!(files(at), before, "{line} left files or removed some");
}

/// Returns a safetensors file with this header.
fn header(json: &str) -> Vec<u8> {
    [&(json.len() as u64).to_le_bytes()[..], json.as_bytes()].concat()
}

/// Writes files with unusual faults.
fn oddities(at: &Path) {
    let write = |name: &str, bytes: &[u8]| std::fs::write(at.join(name), bytes).unwrap();
    write("shape.safetensors", &header(r#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#));
    write("card.safetensors", &header(r#"{"__metadata__":{"kmill":"{\"format_version\":1,\"kernel\":3}"}}"#));
    write("entry.safetensors", &header(r#"{"__metadata__":{"kmill":"no JSON"}}"#));
    write("notes.txt", b"hello");
    write("broken.parquet", b"PAR1hellohellohelloPAR1");
    write("broken.arrow", b"ARROW1\0\0hellohelloARROW1");
    write("broken.npy", b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f4'}");
    write("words.csv", b"a,y\n1,2\n3,four\n5,6\n");
    write("\x1b[31mred.csv", b"a,y\n1,2\n3,\n");
    write("long.csv", format!("a,y\n1,2\n{},3\n", "9".repeat(400)).as_bytes());
    write("evil.csv", b"\"\x1b[2J\nerror: no\",y\n1,2\n1,3\n");
    std::fs::create_dir(at.join("empty")).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("loop.parquet", at.join("loop.parquet")).unwrap();
        std::os::unix::fs::symlink("nowhere.parquet", at.join("dangling.parquet")).unwrap();
    }
}

#[test]
fn bad_lines_are_answered_in_one_sentence_with_a_next_step() {
    let folder = folder();
    let at = folder.path();
    oddities(at);
    assert_eq!(run(at, &fit("t.parquet", "--lambda 1e-6 -q")).code, 0);
    let (long, digits) = ("n".repeat(300), "9".repeat(300));
    let lines = [
        // file names
        "inspect no.parquet".to_string(),
        "inspect nowhere/t.parquet".to_string(),
        "inspect t.parquet/x".to_string(),
        "inspect loop.parquet".to_string(),
        "inspect dangling.parquet".to_string(),
        format!("inspect {long}.parquet"),
        "inspect [".to_string(),
        "inspect a**b.parquet".to_string(),
        "inspect no*.parquet".to_string(),
        "inspect empty".to_string(),
        "inspect notes.txt".to_string(),
        "inspect broken.parquet".to_string(),
        "inspect broken.arrow".to_string(),
        "inspect broken.npy".to_string(),
        "inspect shape.safetensors".to_string(),
        "inspect card.safetensors".to_string(),
        "inspect entry.safetensors".to_string(),
        "evaluate notes.txt t.parquet".to_string(),
        "evaluate t.parquet t.parquet".to_string(),
        "evaluate loop.parquet t.parquet".to_string(),
        "evaluate t.parquet/model t.parquet".to_string(),
        // file contents
        "fit ridge words.csv --target y --infer-rows 1 -o m".to_string(),
        "fit ridge words.csv --target y -o m".to_string(),
        "fit ridge long.csv --target y --features a -o m".to_string(),
        "fit ridge empty.parquet --target y -o m".to_string(),
        "fit ridge nan.parquet --target y -o m".to_string(),
        "fit ridge t.parquet --target y --rows 300.. -o m".to_string(),
        "fit ridge t.parquet --target y --where x0>9 -o m".to_string(),
        "fit ridge t.parquet --target z -o m".to_string(),
        "fit ridge t.parquet --target y --features x9 -o m".to_string(),
        "fit ridge t.parquet --target y --features [ -o m".to_string(),
        "fit ridge twice.parquet --target y -o m".to_string(),
        "fit ridge labels.parquet --target text -o m".to_string(),
        "fit ridge labels.parquet --target y --where text==1 --features bool -o m --rows 0..1".to_string(),
        "fit ridge t.parquet --target y --landmarks no.parquet -o m".to_string(),
        "fit ridge t.parquet --target y --landmarks empty.parquet -o m".to_string(),
        "fit ridge \u{1b}[31mred.csv --target y -o m".to_string(),
        "fit ridge evil.csv --target z -o m".to_string(),
        // outputs
        "fit ridge t.parquet --target y -o model.pkl".to_string(),
        "fit ridge t.parquet --target y -o nowhere/m".to_string(),
        "fit ridge t.parquet --target y -o t.parquet/m".to_string(),
        "fit ridge t.parquet --target y -o new/".to_string(),
        "fit ridge t.parquet --target y -o empty".to_string(),
        format!("fit ridge t.parquet --target y -o {long}"),
        "fit ridge t.parquet --target y -o m --report page.pdf".to_string(),
        "predict model t.parquet -o p".to_string(),
        "predict model t.parquet -o loop.parquet".to_string(),
        "convert t.parquet -o /dev/null".to_string(),
        "tune ridge t.parquet --target y -o search.doc".to_string(),
        "curve t.parquet -o curve.gif".to_string(),
        "plot model t.parquet -o p.gif".to_string(),
        "fit ridge t.parquet --target y -o m --scratch nowhere".to_string(),
        "fit ridge t.parquet --target y -o m --scratch t.parquet".to_string(),
        "demo --rows 100 --keep t.parquet".to_string(),
        "demo --rows 100 --keep t.parquet/demo".to_string(),
        // numbers and words
        "generate moons --rows ten -o a.npy".to_string(),
        "generate moons --rows 10 --seed x -o a.npy".to_string(),
        "generate moons --rows 10 --noise much -o a.npy".to_string(),
        "generate moons --rows 10 --noise -1e300 -o a.npy".to_string(),
        "generate friedman1 --rows 10 --features five -o a.npy".to_string(),
        "generate friedman1 --rows 10 --features 1e9 -o a.npy".to_string(),
        "fit kmeans t.parquet --clusters 2 --starts 1e9 -o m".to_string(),
        "curve t.parquet --repeats 1e9 -o c.csv".to_string(),
        "test mmd t.parquet t.parquet --permutations 1e15".to_string(),
        "fit ridge t.parquet --target y --tolerance tight -o m".to_string(),
        "fit ridge t.parquet --target y --tolerance 1e300 -o m".to_string(),
        "fit ridge t.parquet --target y --seed -o m".to_string(),
        "fit ridge t.parquet --target y --seed x -o m".to_string(),
        "fit ridge t.parquet --target y --memory 1e400GiB -o m".to_string(),
        "fit ridge t.parquet --target y --checkpoint-every soon -o m".to_string(),
        "fit ridge t.parquet --target y --threads many -o m".to_string(),
        "fit ridge t.parquet --target y --lambda -1e300 -o m".to_string(),
        "fit ridge t.parquet --target y --lambda 1e999 -o m".to_string(),
        format!("fit ridge t.parquet --target y --lambda {digits}{digits} -o m"),
        format!("fit ridge t.parquet --target y --lambda -{digits} -o m"),
        format!("fit ridge t.parquet --target y --rank {digits} -o m"),
        format!("fit ridge t.parquet --target y --ranks {digits} -o m"),
        format!("fit ridge t.parquet --target y --kernel gaussian(sigma=-{digits}) -o m"),
        format!("fit ridge t.parquet --target y --kernel -{digits}*linear() -o m"),
        format!("fit ridge t.parquet --target y --map additive(steps={digits}) -o m"),
        format!("fit ridge t.parquet --target y --rows {digits}.. -o m"),
        format!("fit ridge t.parquet --target y --folds {digits} -o m"),
        format!("fit ridge t.parquet --target y --where x0=={digits}0 -o m"),
        format!("fit ridge t.parquet --target y --noise {digits} -o m"),
        "fit ridge t.parquet --target y --kernel gausian() -o m".to_string(),
        "fit ridge t.parquet --target y --kernel gaussian(\u{1b}) -o m".to_string(),
        "fit ridge t.parquet --target y --map fuorier -o m".to_string(),
        "fit ridge t.parquet --target y --landmarks gredy -o m".to_string(),
        "fit ridge t.parquet --target y --scale \u{1b}[2J -o m".to_string(),
        "fit ridge t.parquet --target y --residual 2 -o m".to_string(),
        "fit ridge t.parquet --target y --multiclass one-vs-one -o m".to_string(),
        "fit ridge t.parquet -o m".to_string(),
        "fit magic t.parquet --target y -o m".to_string(),
        "curve t.parquet --methods uniform,magic -o c.csv".to_string(),
        "tune ridge t.parquet --target y --factors 0 -o m".to_string(),
        "plot model t.parquet --x z --y x0 -o p.svg".to_string(),
        "plot model t.parquet --component 1e9 -o p.svg".to_string(),
        "predict model t.parquet --std -o p.csv".to_string(),
        "predict model t.parquet --keep z -o p.csv".to_string(),
        "inspect t.csv --delimiter ;;".to_string(),
    ];
    for line in &lines {
        bad(at, line);
    }
}

/// Returns all options that take a value, with their verbs.
fn options_with_values(at: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for verb in [
        "fit", "plan", "predict", "evaluate", "inspect", "plot", "generate", "convert", "curve", "tune", "herd",
        "export", "test", "prepare", "stats", "merge", "solve", "demo",
    ] {
        let help = run(at, &format!("{verb} --help")).stdout;
        for line in help.lines().map(str::trim_start) {
            let Some(start) = line.find("--").filter(|start| *start == 0 || line.starts_with('-')) else { continue };
            let mut words = line[start..].split_whitespace();
            let (name, value) = (words.next().unwrap(), words.next().unwrap_or_default());
            if value.starts_with('<') {
                found.push((verb.to_string(), name.to_string()));
            }
        }
    }
    found
}

#[test]
fn an_option_without_its_value_says_what_it_takes() {
    let folder = folder();
    let at = folder.path();
    let options = options_with_values(at);
    assert!(options.len() > 100, "{options:?}");
    for (verb, option) in &options {
        for value in [vec![""], vec![]] {
            let ran = command(at, &format!("{verb} {option}")).args(&value).output().unwrap();
            let stderr = String::from_utf8_lossy(&ran.stderr).into_owned();
            check(&format!("{verb} {option} {value:?}"), ran.status.code().unwrap(), &stderr);
            assert!(stderr.contains("expected") && stderr.contains(option.as_str()), "{verb} {option}: {stderr}");
        }
        // any name is a valid folder name: demo gets another reason to fail
        let wrong = if verb == "demo" && option == "--keep" { "--rows few " } else { "" };
        let ran = command(at, &format!("{verb} {wrong}{option}=x\u{1b}\u{7}y")).output().unwrap();
        check(&format!("{verb} {option}"), ran.status.code().unwrap(), &String::from_utf8_lossy(&ran.stderr));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_read_only_is_told_before_the_work() {
    use std::process::Command;
    let folder = folder();
    let at = folder.path();
    let disk = at.join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = |args: &[&str]| Command::new("mount").args(args).arg(&disk).output().is_ok_and(|o| o.status.success());
    if !mount(&["-t", "tmpfs", "-o", "ro,size=64k", "tmpfs"]) {
        crate::run::skip("mounting a file system is not allowed here");
        return;
    }
    let ran = std::panic::catch_unwind(|| {
        for line in ["fit ridge t.parquet --target y -o disk/m", "convert t.parquet -o disk/t.npy"] {
            bad(at, line);
            fails(at, line, 1, "the disk is read-only");
        }
    });
    assert!(Command::new("umount").arg(&disk).status().unwrap().success());
    ran.unwrap();
}
