//! A run changes only the names that it created: everything else in a folder is there after it.

use crate::run::{kmill, ok};
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Files of a user, some with names that a run might use, one of them in a folder.
const FILES: [&str; 9] = [
    "thesis.tex",
    "job",
    "000001.total",
    "000001-000000000.0",
    "x.alive",
    "manifest.json",
    "0001.safetensors",
    ".kmill-notes.tmp",
    "photographs/summer.jpg",
];

fn put(folder: &Path) {
    std::fs::create_dir_all(folder.join("photographs")).unwrap();
    FILES.iter().for_each(|name| std::fs::write(folder.join(name), name.repeat(100)).unwrap());
    for (name, target) in [("link", "thesis.tex"), ("album", "photographs"), ("lost", "nowhere")] {
        symlink(target, folder.join(name)).unwrap();
    }
}

/// Returns every path below a folder with its content: bytes, link target, or nothing for a folder.
fn there(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let content = match (kind.is_symlink(), kind.is_dir()) {
            (true, _) => std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
            (_, true) => {
                found.extend(there(&path));
                Vec::new()
            }
            _ => std::fs::read(&path).unwrap(),
        };
        found.insert(path, content);
    }
    found
}

/// Lines of every verb that reads or writes in a folder, and the files that each creates there.
pub(crate) const LINES: [(&str, &[&str]); 22] = [
    ("generate friedman1 --rows 300 -o t.parquet", &["t.parquet"]),
    ("convert ../t.parquet --target y -o t.npy", &["t.npy", "t.y.npy"]),
    ("fit ridge ../t.parquet --target y --rank 9 --lambda 1e-3 --states . --scratch . -o m", &["m"]),
    (
        "fit ridge ../t.parquet --target y --rank 9 --lambda 1e-3 --checkpoint-every 0s -o m --report r.html",
        &["m", "r.html"],
    ),
    ("fit svr ../t.parquet --target y --rank 9 --C 1 --memory 80MiB --scratch . -o m", &["m"]),
    ("features ../t.parquet --rank 5 --states . --scratch . --model m -o f.csv", &["m", "f.csv"]),
    (
        "tune ridge ../t.parquet --target y --factors 1 --rank 9 --states . --checkpoint-every 0s -o m -o s.csv",
        &["m", "s.csv"],
    ),
    ("curve ../t.parquet --methods uniform --ranks 5 --repeats 1 --states . -o c.html", &["c.html"]),
    ("herd ../t.parquet --count 5 --rank 9 --scratch . -o h.csv", &["h.csv"]),
    ("update ../std ../t.parquet -o n", &["n"]),
    ("coordinates ../d.csv -o c.csv --model n", &["c.csv", "n"]),
    ("test mmd ../t.parquet --by x0>0.5 --permutations 9 --scratch .", &[]),
    ("plan ridge ../t.parquet --target y --scratch .", &[]),
    ("predict ../m ../t.parquet -o p.csv", &["p.csv"]),
    ("evaluate ../m ../t.parquet --target y --report e.html", &["e.html"]),
    ("inspect ../m", &[]),
    ("plot ../m ../t.parquet --x x0 --y x1 -o p.svg", &["p.svg"]),
    ("export ../m -o m.onnx", &["m.onnx"]),
    ("prepare ridge ../t.parquet --target y --rank 9 --lambda 1e-3 -o j", &["j"]),
    ("stats ../j ../t.parquet -o s", &["s"]),
    ("merge ../s -o all", &["all"]),
    ("solve ../j ../s -o m", &["m"]),
];

/// Writes a table, models, a distance matrix, a job and its statistics.
pub(crate) fn inputs(at: &Path) {
    ok(at, "generate friedman1 --rows 300 -o t.parquet -q");
    ok(at, "fit ridge t.parquet --target y --rank 9 --lambda 1e-3 -q -o m");
    ok(at, "fit ridge t.parquet --target y --rank 9 --lambda 1e-3 --std -q -o std");
    std::fs::write(at.join("d.csv"), "a,b\n0,1\n1,0\n").unwrap();
    ok(at, "prepare ridge t.parquet --target y --rank 9 --lambda 1e-3 -q -o j");
    ok(at, "stats j t.parquet -q -o s");
}

#[test]
fn every_verb_leaves_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    inputs(at);
    let mut verbs: Vec<&str> = LINES.iter().filter_map(|(line, _)| line.split(' ').next()).collect();
    // these create no files, or only in a folder of their own, which is tested below
    verbs.extend(["demo", "completions", "man", "help"]);
    for verb in <kmill::Cli as clap::CommandFactory>::command().get_subcommands() {
        assert!(verbs.contains(&verb.get_name()), "{} needs a line here", verb.get_name());
    }
    for (i, (line, made)) in LINES.iter().enumerate() {
        let place = at.join(format!("place{i}"));
        put(&place);
        let before = there(&place);
        ok(&place, line);
        let mut after = there(&place);
        for name in *made {
            assert!(after.remove(&place.join(name)).is_some(), "{line}: {name} is missing");
        }
        assert!(after == before, "{line}: {:?} became {:?}", before.keys(), after.keys());
    }
}

#[test]
fn folders_that_a_run_would_empty_are_refused_where_they_hold_anything_else() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    inputs(at);
    let tune = "tune ridge t.parquet --target y --factors 1 --rank 9 --checkpoint-every 0s -q -o n";
    for (line, kept) in [
        ("fit ridge t.parquet --target y --rank 9 --lambda 1e-3 --checkpoint-every 0s -q -o n", "n.checkpoint"),
        ("features t.parquet --rank 5 --checkpoint-every 0s -q -o n.csv", "n.csv.checkpoint"),
        (tune, "n.checkpoint"),
        (tune, "n.search"),
    ] {
        let place = at.join(kept);
        // an earlier line may have left its own folder
        let _ = std::fs::remove_dir_all(&place);
        put(&place);
        for path in there(&place).into_keys() {
            if path.parent() != Some(&place) {
                continue;
            }
            // each name by itself
            let other = at.join("beside");
            std::fs::create_dir(&other).unwrap();
            std::fs::rename(&path, other.join(path.file_name().unwrap())).unwrap();
            std::fs::rename(&place, at.join("rest")).unwrap();
            std::fs::rename(&other, &place).unwrap();
            let before = there(&place);
            for resume in ["", "--resume"] {
                let (code, _, stderr) = kmill(at, &format!("{line} {resume}"));
                assert!(code == 1 && stderr.contains("is not part of a checkpoint; move it away"), "{line}: {stderr}");
                assert!(there(&place) == before && !at.join("n").exists(), "{line}: {:?}", before.keys());
            }
            std::fs::remove_dir_all(&place).unwrap();
            std::fs::rename(at.join("rest"), &place).unwrap();
        }
        std::fs::remove_dir_all(&place).unwrap();
    }
    // the cells of a curve, and the files of the demo
    let curve = "curve t.parquet --methods uniform --ranks 5 --repeats 1 -q";
    std::fs::write(at.join("c.html.cells.json"), "years of work").unwrap();
    symlink("t.parquet", at.join("d.html.cells.json")).unwrap();
    symlink("nowhere", at.join("e.html.cells.json")).unwrap();
    std::fs::create_dir(at.join("demo")).unwrap();
    symlink("nowhere", at.join("demo/train.parquet")).unwrap();
    let before = there(at);
    for (line, part) in [
        (format!("{curve} -o c.html"), "not a file of cells that kmill wrote"),
        (format!("{curve} -o d.html"), "it is a link"),
        (format!("{curve} -o e.html"), "it is a link"),
        (format!("{curve} -o f.html -o ./f.html.cells.json"), "which is removed at the end"),
        ("demo --rows 100 --keep demo -q".to_string(), "it contains train.parquet, which would be overwritten"),
    ] {
        let (code, _, stderr) = kmill(at, &line);
        assert!(code == 1 && stderr.contains(part), "{line}: {stderr}");
        assert!(there(at) == before, "{line}");
    }
}

#[test]
fn an_output_that_is_an_input_is_refused_under_every_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    inputs(at);
    ok(at, "herd t.parquet --features x* --count 9 --rank 9 -q -o l.parquet");
    ok(at, "fit ridge t.parquet --target y --rank 9 --lambda 1e-3 --metric diagonal -q -o k.safetensors");
    std::fs::create_dir(at.join("sub")).unwrap();
    for name in ["s", "j", "k.safetensors", "l.parquet"] {
        symlink(Path::new("..").join(name), at.join("sub").join(name)).unwrap();
    }
    let before = there(at);
    let ridge = "ridge t.parquet --target y --rank 9 --lambda 1e-3";
    let absolute = at.join("s").display().to_string();
    for line in [
        "merge s -o s".to_string(),
        "merge s -o ./s".to_string(),
        "merge s -o sub/../s".to_string(),
        "merge s -o sub/s".to_string(),
        "merge sub/s -o s".to_string(),
        format!("merge s -o {absolute}"),
        "solve j s -o s".to_string(),
        "solve j s -o sub/j".to_string(),
        "stats j t.parquet -o j".to_string(),
        "features t.parquet --features x* --landmarks l.parquet -o sub/l.parquet".to_string(),
        format!("fit {ridge} --metric k.safetensors -o sub/k.safetensors"),
        format!("prepare {ridge} --metric k.safetensors -o k.safetensors"),
        "tune ridge t.parquet --target y --factors 1 --rank 9 --metric k.safetensors -o k.safetensors".to_string(),
    ] {
        let (code, _, stderr) = kmill(at, &line);
        assert!(code == 1 && stderr.contains("it is also an input, which would be overwritten"), "{line}: {stderr}");
        assert!(there(at) == before, "{line}");
    }
}

#[test]
fn a_run_that_failed_leaves_the_folder_of_states_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("one.csv"), format!("x,z,c\n{}", "1,0,a\n2,0,a\n3,1,a\n".repeat(9))).unwrap();
    std::fs::write(at.join("two.csv"), format!("x,z,c\n{}", "1,0,a\n2,0,b\n3,1,a\n".repeat(9))).unwrap();
    put(&at.join("s"));
    let before = there(&at.join("s"));
    for line in ["fit ridge", "curve --methods uniform --ranks 2 --repeats 1 --test-where z>0"] {
        let (verb, more) = line.split_once(' ').unwrap();
        let more = if verb == "fit" { "ridge FILE --rank 3 -o m" } else { &format!("FILE {more} -o c.csv") };
        let line = format!("{verb} {more} --target c --task classification --lambda 1e-3 --states s -q");
        let (code, _, stderr) = kmill(at, &line.replace("FILE", "one.csv"));
        assert!(code == 1 && stderr.contains("class"), "{stderr}");
        assert!(there(&at.join("s")) == before, "{line}: {:?}", there(&at.join("s")).keys());
        ok(at, &line.replace("FILE", "two.csv"));
        assert!(there(&at.join("s")) == before, "{line}");
    }
}
