//! Names, labels and values of any characters in every report; messages without Rust types.

use std::path::Path;
use std::process::{Command, Output};

use crate::run::holds;

fn kmill(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kmill")).current_dir(folder).args(words).output().unwrap()
}

/// Characters of width one, two and zero, characters that move the cursor, and HTML markup.
fn hostile() -> [String; 5] {
    [
        "x".repeat(70_000),
        "漢".repeat(30_000),
        "e\u{301}\u{200d}".repeat(12_000),
        "\u{1b}[31m\r\n\t\u{202e}\u{7f}".to_string(),
        "</script><b>&\"'`{}<".to_string(),
    ]
}

/// Writes a table with hostile names, categories and labels; a name ends with its column's letter.
fn table(at: &Path, letters: &str, name: &str) {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut text = ["a", "b", "c", "y", "k"].map(|column| quoted(&format!("{letters}{column}"))).join(",") + "\n";
    for row in 0..60_u32 {
        let (a, b) = (f64::from(row * 7 % 60) / 60.0, f64::from(row * 11 % 60) / 60.0);
        // two categories of a feature, and three labels
        let category = quoted(&format!("{letters}{}", row % 2));
        let label = quoted(&format!("{letters}{}", if a > 0.6 { 2 } else { row % 2 }));
        text += &format!("{a},{b},{category},{},{label}\n", a + b * b);
    }
    std::fs::write(at.join(name), text).unwrap();
}

/// Checks a report for any characters in the table.
fn sound(at: &Path, words: &[&str], letters: &str) {
    let output = kmill(at, words);
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let line = words.iter().map(|word| word.chars().take(20).collect::<String>()).collect::<Vec<_>>().join(" ");
    let beginning = |text: &str| text.chars().take(400).collect::<String>();
    assert_eq!(output.status.code(), Some(0), "{line}: {}", beginning(&err));
    assert!(!err.contains("panicked"), "{line}: {}", beginning(&err));
    if words.contains(&"--json") {
        let json: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert!(json.is_object(), "{line}");
        return;
    }
    for text in out.lines().chain(err.lines()) {
        assert!(!text.chars().any(|letter| letter.is_control() || letter == '\u{202e}'), "{line}: {}", beginning(text));
    }
    // rows of a table on a terminal are limited; sentences of a report may name columns too
    for text in out.lines().filter(|text| text.starts_with("  ")) {
        assert!(text.chars().count() < 8_000, "{line}: {} letters, {}", text.chars().count(), beginning(text));
    }
    for word in words.iter().filter(|word| word.ends_with(".html") || word.ends_with(".svg")) {
        let page = std::fs::read_to_string(at.join(word)).unwrap();
        assert!(!letters.contains("<b>") || !page.contains("</script><b>"), "{line}: {word} takes a name for markup");
        assert!(!page.contains('\u{1b}'), "{line}: {word} has a control character");
    }
}

#[test]
fn letters_of_a_table_go_through_every_report() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for letters in hostile() {
        table(at, &letters, "t.csv");
        let (y, k) = (format!("{letters}y"), format!("{letters}k"));
        let (x, z) = (format!("{letters}a"), format!("{letters}b"));
        let walk: &[&[&str]] = &[
            &["inspect", "t.csv"],
            &["inspect", "t.csv", "--stats"],
            &["inspect", "t.csv", "--stats", "--json"],
            &["convert", "t.csv", "-o", "t.parquet"],
            &["plan", "ridge", "t.csv", "--target", &y, "--rank", "10"],
            &[
                "fit",
                "ridge",
                "t.csv",
                "--target",
                &y,
                "--rank",
                "10",
                "--importance",
                "--report",
                "f.html",
                "-o",
                "m",
                "-v",
            ],
            &[
                "fit", "ridge", "t.csv", "--target", &y, "--rank", "10", "--metric", "diagonal", "--report", "f.html",
                "-o", "d",
            ],
            &["fit", "ridge", "t.csv", "--target", &y, "--rank", "10", "--importance", "-o", "m", "--json"],
            &[
                "fit",
                "svm",
                "t.csv",
                "--target",
                &k,
                "--features",
                "*a,*b",
                "--rank",
                "10",
                "--report",
                "c.html",
                "-o",
                "c",
            ],
            &["fit", "kpca", "t.csv", "--features", "*a,*b", "--rank", "10", "--components", "2", "-o", "p"],
            &["inspect", "m"],
            &["inspect", "c"],
            &["inspect", "c", "--json"],
            &["evaluate", "m", "t.csv", "--report", "e.html"],
            &["evaluate", "c", "t.csv", "--report", "e.html"],
            &["evaluate", "c", "t.csv", "--json"],
            &["predict", "c", "t.csv", "--scores", "--keep", "*", "-o", "p.csv"],
            &["predict", "c", "t.csv", "--scores", "-o", "p.parquet", "--json"],
            &["inspect", "p.csv"],
            &["plot", "c", "t.csv", "--x", &x, "--y", &z, "-o", "p.svg"],
            &["plot", "c", "t.csv", "--x", &x, "--y", &z, "-o", "p.png"],
            &["plot", "c", "t.csv", "-o", "p.html"],
            &[
                "curve",
                "t.csv",
                "--target",
                &y,
                "--ranks",
                "5,10",
                "--methods",
                "uniform",
                "-o",
                "v.html",
                "-o",
                "v.csv",
            ],
            &["tune", "ridge", "t.csv", "--target", &y, "--work", "2,2", "--rank", "10", "-o", "u", "-o", "u.csv"],
            &["herd", "t.csv", "--features", "*a,*b", "--count", "3", "--rank", "10", "-o", "h.csv"],
            &["features", "t.csv", "--features", "*a,*b", "--rank", "5", "-o", "g.csv"],
            &["prepare", "ridge", "t.csv", "--target", &y, "--rank", "10", "-o", "j.safetensors"],
            &["stats", "j.safetensors", "t.csv", "-o", "s.safetensors"],
            &["merge", "s.safetensors", "-q", "-o", "all.safetensors"],
            &["solve", "j.safetensors", "all.safetensors", "-o", "w"],
        ];
        walk.iter().for_each(|words| sound(at, words, &letters));
    }
}

/// Runs a line on wrong input: it exits normally, and its message is free of internal terms.
fn told(at: &Path, line: &str, input: &str) -> String {
    let output = kmill(at, &line.split_whitespace().collect::<Vec<_>>());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0..=2)), "{line}, {input}: {text}");
    for foreign in [
        "{ ",
        "Some(",
        "None",
        "Ok(",
        "Err(",
        " line 1 ",
        "column 1",
        "usize",
        "u64",
        "f64,",
        "panicked",
        "TextOptions",
        "verifying",
        "offset at",
    ] {
        assert!(!text.contains(foreign), "{line}, {input}: {foreign} in {text}");
    }
    text
}

/// Returns damaged versions of a model file, each with a description.
fn damaged(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<(String, Vec<u8>)> = Vec::new();
    for length in [0, 7, 8, 30, bytes.len() / 2, bytes.len() - 1] {
        found.push((format!("the first {length} bytes"), bytes[..length].to_vec()));
    }
    let size = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let (header, arrays) = bytes[8..].split_at(size);
    let whole = |header: &str| [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), arrays].concat();
    for header in
        ["", "{", "[]", "{}", "5", "\"a\"", "{\"a\":5}", "{\"__metadata__\":5}", "{\"__metadata__\":{\"kmill\":\"{\"}}"]
    {
        found.push((format!("header {header}"), whole(header)));
    }
    let header: serde_json::Value = serde_json::from_slice(header).unwrap();
    let mut change = |what: String, value: Option<serde_json::Value>, pointer: &[&str], inner: Option<&str>| {
        let mut header = header.clone();
        let (last, path) = pointer.split_last().unwrap();
        let parent = path.iter().fold(&mut header, |value, name| &mut value[*name]);
        let parent = parent.as_object_mut().unwrap();
        match inner {
            // an object stored as text
            Some(name) => {
                let mut object: serde_json::Value = serde_json::from_str(parent[*last].as_str().unwrap()).unwrap();
                put(object.as_object_mut().unwrap(), name, value);
                parent.insert(last.to_string(), object.to_string().into());
            }
            None => put(parent, last, value),
        }
        found.push((what, whole(&header.to_string())));
    };
    let values = [
        None,
        Some("a".into()),
        Some((-1).into()),
        Some(serde_json::json!([[1]])),
        Some(serde_json::json!({ "a": null })),
    ];
    for (name, entry) in header.as_object().unwrap().iter().take(4) {
        for value in &values {
            change(format!("{name} {value:?}"), value.clone(), &[name], None);
        }
        if name != "__metadata__" {
            continue;
        }
        for (key, text) in entry.as_object().unwrap() {
            let Ok(serde_json::Value::Object(card)) = serde_json::from_str(text.as_str().unwrap()) else { continue };
            for (i, inner) in card.keys().enumerate() {
                change(format!("{inner} removed"), None, &[name, key], Some(inner));
                change(format!("{inner} changed"), values[1 + i % 4].clone(), &[name, key], Some(inner));
            }
        }
    }
    found
}

fn put(object: &mut serde_json::Map<String, serde_json::Value>, name: &str, value: Option<serde_json::Value>) {
    match value {
        Some(value) => drop(object.insert(name.to_string(), value)),
        None => drop(object.remove(name)),
    }
}

#[test]
fn messages_on_damaged_files_hold_no_text_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for line in [
        "generate friedman1 --rows 300 -q -o t.csv",
        "convert t.csv -q -o t.arrow",
        "fit ridge t.csv --target y --rank 10 -q -o m.safetensors",
        "prepare ridge t.csv --target y --rank 10 -q -o j.safetensors",
        "stats j.safetensors t.csv -q -o s.safetensors",
    ] {
        assert_eq!(kmill(at, &line.split_whitespace().collect::<Vec<_>>()).status.code(), Some(0), "{line}");
    }
    for (file, lines) in [
        ("m.safetensors", &["inspect bad.safetensors", "predict bad.safetensors t.csv -q -o p.csv"][..]),
        ("j.safetensors", &["stats bad.safetensors t.csv -q -o q.safetensors"]),
        ("s.safetensors", &["merge bad.safetensors -o q.safetensors", "solve j.safetensors bad.safetensors -q -o w"]),
    ] {
        for (what, bytes) in damaged(&std::fs::read(at.join(file)).unwrap()) {
            std::fs::write(at.join("bad.safetensors"), bytes).unwrap();
            lines.iter().for_each(|line| drop(told(at, line, &format!("{file}: {what}"))));
        }
    }
    let arrow = std::fs::read(at.join("t.arrow")).unwrap();
    for at_byte in (0..60).map(|i| if i % 2 == 0 { 8 + 7 * i } else { arrow.len() - 8 - 9 * i }) {
        let mut bytes = arrow.clone();
        bytes[at_byte] ^= 0x5a;
        std::fs::write(at.join("bad.arrow"), bytes).unwrap();
        told(at, "inspect bad.arrow", &format!("byte {at_byte}"));
    }
    let manifest = |options: &str| format!(r#"{{"version":"1","instruction_set":"a","options":{options},"files":[]}}"#);
    let kept = |manifest: &str| format!(r#"{{"format":1,"manifest":{manifest},"cells":[]}}"#);
    let texts = ["", "{", "[]", "{}", "5", "{\"format\":\"a\"}", "{\"format\":1,\"manifest\":5}", "\u{feff}\u{0}"]
        .map(String::from);
    let texts = [&texts[..], &[manifest("5"), manifest("{}"), kept(&manifest("5")), kept(&manifest("{}"))]].concat();
    for text in &texts {
        std::fs::write(at.join("v.csv.cells.json"), text).unwrap();
        told(at, "curve t.csv --target y --ranks 5 --methods uniform --resume -q -o v.csv", text);
        std::fs::create_dir_all(at.join("r.safetensors.checkpoint")).unwrap();
        std::fs::write(at.join("r.safetensors.checkpoint/manifest.json"), text).unwrap();
        told(at, "fit ridge t.csv --target y --rank 10 --resume -o r.safetensors", text);
        std::fs::create_dir_all(at.join("states")).unwrap();
        std::fs::write(at.join("states/job"), text).unwrap();
        told(at, "fit ridge t.csv --target y --rank 10 --states states -o r.safetensors", text);
        let _ = std::fs::remove_dir_all(at.join("states"));
        std::fs::write(at.join("bad.jsonl"), text).unwrap();
        told(at, "inspect bad.jsonl", text);
    }
    for line in [
        "inspect t.csv --delimiter ab",
        "inspect t.csv --infer-rows -1",
        "inspect t.csv --width x",
        "fit ridge t.csv --target y --rows x -o m",
    ] {
        told(at, line, "");
    }
}

#[test]
fn a_checkpoint_tells_in_words_how_text_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let words = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
    let run = |line: &str| Command::new(env!("CARGO_BIN_EXE_kmill")).current_dir(at).args(words(line)).spawn().unwrap();
    assert!(run("generate friedman1 --rows 150000 -q -o t.csv").wait().unwrap().success());
    let line = "fit ridge t.csv --target y --rank 300 --threads 1 --checkpoint-every 0s -q -o m";
    let mut fit = run(line);
    let checkpoint = at.join("m.checkpoint");
    while !holds(&checkpoint, |name| name.ends_with(".json")) && fit.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    fit.kill().unwrap();
    fit.wait().unwrap();
    let text = told(at, &format!("{line} --resume --delimiter ,"), "another delimiter");
    assert!(text.contains("reading of text files was by default, now it is delimiter ','"), "{text}");
}

/// Standard output has either JSON or a table.
#[test]
fn json_and_a_table_do_not_share_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let generated = kmill(at, &["generate", "friedman1", "--rows", "100", "-q", "-o", "t.parquet"]);
    assert!(generated.status.success());
    for line in [
        "convert t.parquet -o - --json",
        "features t.parquet --features x* --rank 5 -o - --json",
        "herd t.parquet --count 2 -o - --json",
    ] {
        let output = kmill(at, &line.split_whitespace().collect::<Vec<_>>());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{line}: {text}");
        assert!(text.contains("name a file with -o, or omit one of them"), "{line}: {text}");
    }
}

/// Every verb that prints has `-q`.
#[test]
fn every_verb_that_prints_can_be_quiet() {
    use clap::CommandFactory;
    // printing is the purpose of these
    for verb in
        kmill::Cli::command().get_subcommands().filter(|verb| !["completions", "man"].contains(&verb.get_name()))
    {
        assert!(verb.get_arguments().any(|known| known.get_short() == Some('q')), "{} has no -q", verb.get_name());
    }
}
