//! Everything that can go wrong, made to go wrong: one sentence, the exit code of the contract, and no file left.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use kstore::sink::{self, Output, OutputColumn};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// What a run left: exit code, stdout, stderr.
struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

fn command(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kmill"));
    // words are split at blanks; ~ stands for a blank inside one
    let words = line.split_whitespace().map(|word| word.replace('~', " "));
    command.current_dir(folder).args(words).stdin(Stdio::null());
    command
}

fn run(folder: &Path, line: &str) -> Ran {
    let output = command(folder, line).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ran = Ran { code: output.status.code().unwrap(), stdout: text(&output.stdout), stderr: text(&output.stderr) };
    assert!(!ran.stderr.contains("panicked") && !ran.stderr.contains("RUST_BACKTRACE"), "{line}: {}", ran.stderr);
    ran
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Runs a line that must fail with `code`, say `part` in its only error, print nothing, and leave the folder as it is.
fn fails(folder: &Path, line: &str, code: i32, part: &str) {
    let before = files(folder);
    let ran = run(folder, line);
    assert_eq!(ran.code, code, "{line}: {}", ran.stderr);
    assert_eq!(ran.stdout, "", "{line}");
    let errors: Vec<_> = ran.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{line}: {}", ran.stderr);
    assert!(errors[0].contains(part), "{line}: {} (expected: {part})", errors[0]);
    assert_eq!(files(folder), before, "{line} left files or removed some");
}

/// Runs a line that must succeed; gives its warnings and its JSON, which must be one line.
fn warns(folder: &Path, line: &str) -> (String, serde_json::Value) {
    let ran = run(folder, &format!("{line} --json"));
    assert_eq!(ran.code, 0, "{line}: {}", ran.stderr);
    assert_eq!(ran.stdout.lines().count(), 1, "{line}: {}", ran.stdout);
    let warnings: Vec<_> = ran.stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    (warnings.join("\n"), serde_json::from_str(&ran.stdout).unwrap())
}

const N: usize = 300;

/// Pseudo-random numbers in [-1, 1), the same in every run.
fn noise(seed: u64) -> Vec<f64> {
    let stream = kstore::key::Stream::new(seed, kstore::key::Purpose::Data, 0);
    (0..N as u64).map(|row| 2.0 * stream.uniform(row) - 1.0).collect()
}

fn write(path: &Path, columns: &[(&str, Output<'_>)]) {
    let heads: Vec<_> = columns.iter().map(|(name, values)| OutputColumn::new(*name, values.kind())).collect();
    let mut out = sink::create(path, &heads).unwrap();
    out.write(&columns.iter().map(|(_, values)| *values).collect::<Vec<_>>()).unwrap();
    out.finish().unwrap();
}

/// `t.parquet` with x0, x1, y, and variants of it, each wrong in one way.
fn tables(at: &Path) {
    let (x0, x1) = (noise(0), noise(1));
    let y: Vec<f64> = x0.iter().zip(&x1).map(|(a, b)| (3.0 * a).sin() + b).collect();
    let table = |name: &str, x0: &[f64], x1: &[f64], y: &[f64]| {
        write(&at.join(name), &[("x0", Output::F64(x0)), ("x1", Output::F64(x1)), ("y", Output::F64(y))]);
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
    let text: Vec<Arc<str>> =
        (0..N).map(|i| ["ä ß", "日本", "c"][usize::from(x0[i] > 0.3) + usize::from(x0[i] > -0.3)].into()).collect();
    let bools: Vec<bool> = y.iter().map(|y| *y > 0.0).collect();
    write(
        &at.join("labels.parquet"),
        &[
            ("x0", Output::F64(&x0)),
            ("x1", Output::F64(&x1)),
            ("text", Output::Text(&text)),
            ("bool", Output::Bool(&bools)),
            ("one", Output::I64(&[1; N])),
            ("fold", Output::I64(&numbers(&|i| i as i64 % 4))),
            ("id", Output::I64(&numbers(&|i| i as i64))),
            ("y", Output::F64(&y)),
        ],
    );
    let twice = [("a", Output::F64(&x0)), ("a", Output::F64(&x1)), ("y", Output::F64(&y))];
    write(&at.join("twice.parquet"), &twice);
    write(&at.join("ü.parquet"), &[("größe", Output::F64(&x0)), ("цель", Output::F64(&y))]);
    write(&at.join("order.parquet"), &[("y", Output::F64(&y)), ("x1", Output::F64(&x1)), ("x0", Output::F64(&x0))]);
    write(&at.join("untold.parquet"), &[("x1", Output::F64(&x1)), ("x0", Output::F64(&x0))]);
    write(&at.join("narrow.parquet"), &[("x0", Output::F64(&x0)), ("y", Output::F64(&y))]);
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    tables(folder.path());
    folder
}

/// `fit` with a rank that suits 300 rows.
fn fit(data: &str, options: &str) -> String {
    let target = if options.contains("--target") { "" } else { "--target y" };
    let rank = if options.contains("--rank") { "" } else { "--rank 20" };
    format!("fit ridge {data} {target} {rank} -o model {options}")
}

#[test]
fn files_that_are_no_tables() {
    let folder = folder();
    let at = folder.path();
    let whole = std::fs::read(at.join("t.parquet")).unwrap();
    std::fs::write(at.join("cut.parquet"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(at.join("tiny.parquet"), &whole[..3]).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 8..whole.len() / 2].fill(0xff);
    std::fs::write(at.join("damaged.parquet"), damaged).unwrap();
    std::fs::write(at.join("words.parquet"), "x,y\n1,2\n".repeat(100)).unwrap();
    std::fs::create_dir(at.join("nothing")).unwrap();
    std::fs::create_dir(at.join("mixed")).unwrap();
    std::fs::copy(at.join("t.parquet"), at.join("mixed/a.parquet")).unwrap();
    std::fs::copy(at.join("narrow.parquet"), at.join("mixed/b.parquet")).unwrap();
    std::fs::write(at.join("mixed/notes.txt"), "hello").unwrap();
    for (data, part) in [
        ("ordre.parquet", "no such file: ordre.parquet; did you mean order.parquet?"),
        ("nowhere/t.parquet", "there is no folder nowhere"),
        ("no*.parquet", "the pattern matches no file"),
        ("cut.parquet", "cut.parquet cannot be read as Parquet: it is truncated"),
        ("tiny.parquet", "tiny.parquet cannot be read as Parquet"),
        ("damaged.parquet", "damaged.parquet"),
        ("words.parquet", "it is no Parquet file"),
        ("empty.parquet", "it has no rows"),
        ("nothing", "the folder holds no"),
        ("mixed", "b.parquet does not continue"),
        ("twice.parquet", "called \"a\""),
        ("/dev/null", "no regular file"),
    ] {
        fails(at, &fit(data, ""), 1, part);
    }
}

#[test]
fn npy_files_that_are_no_tables() {
    let folder = folder();
    let at = folder.path();
    assert_eq!(run(at, "convert t.parquet --target y -o t.npy -q").code, 0);
    assert_eq!(run(at, "convert t.parquet --rows ..9 --features y -o short.npy -q").code, 0);
    let whole = std::fs::read(at.join("t.npy")).unwrap();
    let header = |change: &dyn Fn(String) -> String| {
        let text = change(String::from_utf8(whole[10..128].to_vec()).unwrap());
        [&whole[..10], &text.as_bytes()[..118], &whole[128..]].concat()
    };
    std::fs::write(at.join("cut.npy"), &whole[..1000]).unwrap();
    std::fs::write(at.join("tiny.npy"), &whole[..20]).unwrap();
    std::fs::write(at.join("words.npy"), "hello".repeat(99)).unwrap();
    std::fs::write(at.join("complex.npy"), header(&|text| text.replace("<f8", "<c8"))).unwrap();
    std::fs::write(at.join("fortran.npy"), header(&|text| text.replace("False", "True "))).unwrap();
    std::fs::write(at.join("big.npy"), header(&|text| text.replace("<f8", ">f8"))).unwrap();
    let mut long = whole[..8].to_vec();
    long[6] = 2;
    long.extend(u32::MAX.to_le_bytes());
    std::fs::write(at.join("header.npy"), long).unwrap();
    for (data, part) in [
        ("cut.npy", "needs 4928 bytes, the file has 1000"),
        ("tiny.npy", "it ends inside its header"),
        ("words.npy", "it does not start with"),
        ("complex.npy", "values of type \"<c8\" are not read"),
        ("fortran.npy", "it is stored column by column"),
        ("big.npy", "big-endian"),
        ("header.npy", "its header claims"),
    ] {
        fails(at, &fit(data, "--target t.y.npy"), 1, part);
    }
    fails(at, &fit("t.npy", "--target short.npy"), 1, "short.npy has 9 rows, t.npy has 300");
    fails(at, &fit("t.npy", "--target t.npy"), 1, "a target file has one column");
    fails(at, &fit("t.npy", "--target no.npy"), 1, "no such file: no.npy");
    fails(at, &fit("t.npy", ""), 1, "has no column \"y\"");
}

#[test]
fn columns_and_values_that_cannot_be() {
    let folder = folder();
    let at = folder.path();
    for (data, options, part) in [
        ("t.parquet", "--target Y", "did you mean \"y\"?"),
        ("t.parquet", "--features x0,x2", "has no column \"x2\"; did you mean"),
        ("t.parquet", "--features q*", "has no column \"q*\""),
        ("t.parquet", "--features y", "it is the target"),
        ("t.parquet", "--target y,y", "y is named twice"),
        ("ü.parquet", "--target целъ", "did you mean \"цель\"?"),
        ("labels.parquet", "--features x0,text", "column \"text\" of labels.parquet holds text"),
        ("labels.parquet", "--target text", "for labels choose --task classification"),
        ("labels.parquet", "--target bool,one --task classification", "one column of labels"),
        ("labels.parquet", "--target one --task classification", "the target has 1 class;"),
        ("labels.parquet", "--target y --task classification", "for a quantity choose --task regression"),
        ("labels.parquet", "--folds column:nix", "has no column \"nix\""),
        ("labels.parquet", "--folds column:one", "the column has 1 value"),
        ("labels.parquet", "--where nix==1", "has no column \"nix\""),
        ("labels.parquet", "--where fold==many", "compare it with a number"),
        ("labels.parquet", "--where fold>7", "no row is left"),
        ("labels.parquet", "--rows 1000..", "--rows 1000.. selects none of its 300 rows"),
        (
            "nan.parquet",
            "",
            "nan.parquet: row 17 (counted from 0), column \"x1\" is NaN; clean the data or choose --missing drop or",
        ),
        ("infinite.parquet", "", "infinite.parquet: row 17 (counted from 0), column \"x1\" is infinite"),
        ("y_nan.parquet", "", "row 5 (counted from 0), column \"y\" is NaN; clean the data or choose --missing drop"),
        ("y_nan.parquet", "--missing mean", "row 5 (counted from 0), column \"y\" is NaN"),
        ("one.parquet", "", "1 training row is left"),
        ("t.parquet", "--rows 299..", "1 training row is left"),
        ("huge.parquet", "", "column \"x0\" reaches"),
        ("large.parquet", "--scale none --kernel linear()", "is not finite; scale the features"),
        ("large.parquet", "--scale none --kernel polynomial(degree=3)", "is not finite"),
        ("zero.parquet", "--kernel linear()", "is zero on every row"),
    ] {
        fails(at, &fit(data, options), 1, part);
    }
    fails(at, "convert nan.parquet -o a.npy --missing mean", 1, "a conversion learns no means");
    fails(at, "convert labels.parquet --target text -o a.npy", 1, "holds text");
    fails(at, "convert empty.parquet -o a.npy", 1, "it has no rows");
}

#[test]
fn options_that_cannot_be() {
    let folder = folder();
    let at = folder.path();
    for (options, code, part) in [
        ("--lambda 0", 1, "lambda must be positive"),
        ("--lambda -1", 1, "lambda must be positive"),
        ("--lambda nan", 1, "lambda must be positive"),
        ("--lambda inf", 1, "lambda must be positive"),
        ("--lambda small", 2, "--lambda"),
        ("--rank 0", 2, "at least 1"),
        ("--kernel gausian(sigma=1)", 2, "did you mean 'gaussian'?"),
        ("--kernel gaussian(sgma=1)", 2, "did you mean 'sigma'?"),
        ("--kernel gaussian(sigma=0)", 2, "sigma must be > 0"),
        ("--kernel polynomial(degree=99)", 2, "degree must be"),
        ("--threads 0", 2, "at least 1"),
        ("--threads 100000", 2, "at most 1024"),
        ("--memory 1B", 1, "raise --memory to"),
        ("--memory lots", 2, "512MiB"),
        ("--rows 9..5", 2, "the range holds no row"),
        ("--rows -5..9", 2, "not a row number"),
        ("--folds 0", 2, "--folds"),
        ("--folds 301", 1, "there are 300"),
        ("--folds blocks:301", 1, "there are 300"),
        ("--tolerance 0", 1, "between 0 and 1"),
        ("--tolerance nan", 1, "between 0 and 1"),
        ("--landmarks greed", 2, "greed"),
    ] {
        fails(at, &fit("t.parquet", options), code, part);
    }
    let folds = run(at, &fit("t.parquet", "--memory 16MiB --lambda 1e-6")).stderr;
    assert!(!folds.contains("fold"), "{folds}");
}

#[test]
fn what_is_only_strange_is_a_warning() {
    let folder = folder();
    let at = folder.path();
    for (data, options, part) in [
        ("t.parquet", "--rank 5000", "rank reduced from 5000 to"),
        ("x_constant.parquet", "", "feature x1 is constant"),
        ("y_constant.parquet", "", "target y is constant"),
        ("same.parquet", "", "rank reduced from 20 to 1"),
        ("zero.parquet", "", "rank reduced from 20 to 1"),
        ("t.parquet", "--tolerance 1e-30", "the tolerance was not reached"),
        ("large.parquet", "", ""),
        ("t.parquet", "--rank 1 --features x0", ""),
        ("t.parquet", "--threads 64 --memory 99TiB", ""),
        ("nan.parquet", "--missing drop", ""),
        ("nan.parquet", "--missing mean", ""),
        ("ü.parquet", "--target цель", ""),
        ("labels.parquet", "--features x* --target y,id", ""),
        ("labels.parquet", "--features x* --folds column:text", ""),
        ("labels.parquet", "--features x* --target text --task classification", ""),
        ("labels.parquet", "--features x* --target bool --task classification", ""),
    ] {
        let (warnings, report) = warns(at, &fit(data, options));
        assert!(warnings.contains(part), "{data} {options}: {warnings}");
        if part.is_empty() {
            assert!(!warnings.contains("constant"), "{data} {options}: {warnings}");
        }
        assert!(report["rank"].as_u64().unwrap() >= 1);
        std::fs::remove_file(at.join("model")).unwrap();
    }
    let (_, report) = warns(at, &fit("y_constant.parquet", ""));
    assert!(report["train"]["r2"].is_null());
    let (_, scores) = warns(at, "evaluate model y_constant.parquet");
    assert!(scores["r2"].is_null(), "{scores}");
}

#[test]
fn models_that_do_not_fit_and_files_that_are_no_models() {
    let folder = folder();
    let at = folder.path();
    for scale in ["standard", "minmax", "none"] {
        assert_eq!(run(at, &fit("t.parquet", &format!("--lambda 1e-6 --scale {scale} -q"))).code, 0);
        // the model holds the training means whatever the scaling
        let (_, scores) = warns(at, "evaluate model nan.parquet --missing mean");
        assert!(scores["rows"] == 300 && scores["mse"].as_f64().unwrap() < 0.1, "{scale}: {scores}");
    }
    let model = std::fs::read(at.join("model")).unwrap();
    std::fs::write(at.join("cut"), &model[..model.len() - 9]).unwrap();
    std::fs::write(at.join("short"), &model[..100]).unwrap();
    std::fs::write(at.join("tiny"), &model[..4]).unwrap();
    let header = br#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let foreign = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 4]].concat();
    std::fs::write(at.join("foreign.bin"), foreign).unwrap();
    for (model, part) in [
        ("cut", "is truncated"),
        ("short", "is truncated"),
        ("tiny", "not a safetensors file"),
        ("foreign.bin", "not one that kmill wrote"),
        ("t.parquet", "not a safetensors file"),
        ("no", "no such file: no"),
        (".", "no regular file"),
    ] {
        fails(at, &format!("evaluate {model} t.parquet --json"), 1, part);
        fails(at, &format!("predict {model} t.parquet -o out.parquet --json"), 1, part);
    }
    fails(at, "inspect foreign.bin", 1, "not one that kmill wrote");
    fails(at, "inspect cut", 1, "is truncated");
    for (data, part) in [
        ("narrow.parquet", "has no column \"x1\""),
        ("nan.parquet", "row 17 (counted from 0), column \"x1\" is NaN"),
        ("empty.parquet", "it has no rows"),
        ("t.parquet --where y>9", "no row is left"),
    ] {
        fails(at, &format!("predict model {data} -o out.parquet"), 1, part);
        fails(at, &format!("evaluate model {data}"), 1, part);
    }
    fails(at, "evaluate model untold.parquet", 1, "has no column \"y\"");
    fails(at, "evaluate model labels.parquet --target text", 1, "holds text");
    // other order, and no target: both predict the same
    for data in ["t", "order", "untold"] {
        assert_eq!(run(at, &format!("predict model {data}.parquet -o {data}.npy -q")).code, 0);
    }
    let read = |name: &str| std::fs::read(at.join(name)).unwrap();
    assert!(read("t.npy") == read("order.npy") && read("t.npy") == read("untold.npy"));
}

#[test]
fn outputs_that_cannot_be_written() {
    let folder = folder();
    let at = folder.path();
    assert_eq!(run(at, &fit("t.parquet", "--lambda 1e-6 -q")).code, 0);
    assert_eq!(run(at, "convert t.parquet --target y -o t.npy -q").code, 0);
    std::fs::create_dir(at.join("sub")).unwrap();
    let saved = std::fs::read(at.join("t.parquet")).unwrap();
    for (line, part) in [
        ("predict model t.parquet -o no/a.parquet", "there is no folder no"),
        ("predict model t.parquet -o sub", "this is a folder"),
        ("predict model t.parquet -o a.doc", "unknown kind of file"),
        ("predict model t.parquet -o t.parquet", "this is also an input"),
        ("predict model t.parquet -o ./sub/../t.parquet", "this is also an input"),
        ("convert t.parquet -o t.parquet", "this is also an input"),
        ("convert t.npy --target t.y.npy -o t.npy", "this is also an input"),
        ("convert t.npy --target t.y.npy -o t.y.npy", "this is also an input"),
        ("fit ridge t.parquet --target y -o t.parquet", "this is also an input"),
        ("fit ridge t.parquet --target y -o no/model", "there is no folder no"),
        ("generate moons --rows 100 -o no/a.parquet", "there is no folder no"),
        ("generate moons --rows 100 -o a", "unknown kind of file"),
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
        eprintln!("skipped: mounting a small file system is not allowed here");
        return;
    }
    let result = std::panic::catch_unwind(|| {
        assert_eq!(run(at, "generate friedman1 --rows 5000 -o large.parquet -q").code, 0);
        for line in [
            "generate friedman1 --rows 20000 -o disk/a.parquet",
            "generate friedman1 --rows 20000 -o disk/a.npy",
            "convert large.parquet --target y -o disk/a.npy",
            "convert large.parquet --target y -o disk/a.parquet",
            "fit ridge large.parquet --target y --rank 1000 --lambda 1e-6 --precision f64 -o disk/model",
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
    // nobody listens on stderr: the work is done all the same, and a failure is still told by the exit code
    let code = |line: &str| command(at, line).stderr(full()).output().unwrap().status.code();
    assert_eq!(code("predict model t.parquet -o p.npy"), Some(0));
    assert_eq!(code("predict model no.parquet -o q.npy"), Some(1));
    assert!(Command::new("mkfifo").arg(at.join("pipe.parquet")).status().unwrap().success());
    fails(at, "inspect pipe.parquet", 1, "no regular file");
    fails(at, "evaluate pipe.parquet t.parquet", 1, "no regular file");
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // no candidates limit and many ranks: each of these runs for minutes
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
        "fit ridge t.parquet --target y --rank 1500 -o m",
        "predict model t.parquet -o p.parquet",
        "convert t.parquet t.parquet -o c.npy --precision f64",
        "generate friedman1 --rows 1e10 -o g.npy",
    ] {
        for signal in ["INT", "TERM"] {
            let mut child = command(at, line).stderr(Stdio::piped()).spawn().unwrap();
            // the first line of progress shows that the handler is in place
            let mut reader = std::io::BufReader::new(child.stderr.take().unwrap());
            let mut text = String::new();
            std::io::BufRead::read_line(&mut reader, &mut text).unwrap();
            assert!(Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap().success());
            std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
            let code = child.wait().unwrap().code();
            assert_eq!(code, Some(1), "{line} {signal}: {text}");
            assert!(text.ends_with("error: interrupted: nothing was written\n"), "{line} {signal}: {text}");
            assert_eq!(files(at), before, "{line} {signal}");
        }
    }
}

#[test]
fn json_is_alone_on_stdout_and_has_the_contracts_fields() {
    let folder = folder();
    let at = folder.path();
    let has = |report: &serde_json::Value, keys: &[&str]| {
        assert!(keys.iter().all(|key| report.get(key).is_some()), "{report}");
    };
    let (_, report) = warns(at, &fit("t.parquet", "--ranks 10,20"));
    has(&report, &["solver", "rows", "features", "targets", "map", "kernel", "rank", "lambda", "certificate"]);
    has(&report, &["surface", "train", "seconds", "passes", "bytes_read", "peak_rss_bytes", "memory_budget_bytes"]);
    has(&report["certificate"], &["trace_error", "overshoot", "floor"]);
    has(&report["surface"][0], &["rank", "lambda", "cv_mse"]);
    let (_, report) = warns(at, "evaluate model t.parquet");
    has(&report, &["rows", "mse", "rmse", "mae", "r2", "relative_error"]);
    let (_, report) = warns(at, "plan ridge t.parquet --target y --memory 1B");
    assert_eq!(report["fits"], false);
    has(&report, &["planned_bytes", "memory_budget_bytes", "stages"]);
    let (_, report) = warns(at, "inspect t.parquet");
    has(&report, &["format", "files", "rows", "columns"]);
    let (_, report) = warns(at, "inspect model");
    has(&report, &["kernel", "rank", "lambda", "features", "targets"]);
    let options = "--features x* --target bool --task classification";
    let (_, report) = warns(at, &fit("labels.parquet", options));
    assert_eq!(report["classes"], serde_json::json!([false, true]));
    has(&report["surface"][0], &["cv_mse"]);
    let (_, report) = warns(at, "evaluate model labels.parquet");
    has(&report, &["rows", "accuracy", "error", "confusion", "auc"]);
    for line in ["inspect no", "plan ridge no.parquet --target y", "evaluate model no", "predict model no -o p.npy"] {
        fails(at, &format!("{line} --json"), 1, "no such file");
    }
}
