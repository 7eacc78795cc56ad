//! Input formats of sparse rows, and output by `convert`: the same model, byte for byte.

use crate::run::{kmill, ok};
use crate::sparse::tables;
use std::io::Write;
use std::path::Path;
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

fn array(descr: &str, length: usize, bytes: Vec<u8>) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({length},), }}\n");
    [&b"\x93NUMPY\x01\x00"[..], &(text.len() as u16).to_le_bytes(), text.as_bytes(), &bytes].concat()
}

/// Writes the rows of `a.svm` as SciPy and NumPy write them: a matrix, and labels.
fn npz(at: &Path, width: u64) {
    let text = std::fs::read_to_string(at.join("a.svm")).unwrap();
    let (mut labels, mut indptr, mut indices, mut data) =
        (Vec::<f64>::new(), vec![0i64], Vec::new(), Vec::<f64>::new());
    for line in text.lines() {
        let (label, entries) = line.split_once(' ').unwrap_or((line, ""));
        labels.push(label.parse().unwrap());
        for (index, value) in entries.split_whitespace().map(|entry| entry.split_once(':').unwrap()) {
            indices.push(index.parse::<i32>().unwrap() - 1);
            data.push(value.parse().unwrap());
        }
        indptr.push(data.len() as i64);
    }
    let floats = |values: &[f64]| array("<f8", values.len(), values.iter().flat_map(|v| v.to_le_bytes()).collect());
    let whole = |values: &[i64]| array("<i8", values.len(), values.iter().flat_map(|v| v.to_le_bytes()).collect());
    let members = [
        ("indices", array("<i4", indices.len(), indices.iter().flat_map(|index| index.to_le_bytes()).collect())),
        ("indptr", whole(&indptr)),
        ("format", array("|S3", 1, b"csr".to_vec())),
        ("shape", whole(&[labels.len() as i64, width as i64])),
        ("data", floats(&data)),
    ];
    for (name, method) in [("stored.npz", CompressionMethod::Stored), ("deflated.npz", CompressionMethod::Deflated)] {
        let mut zip = ZipWriter::new(std::fs::File::create(at.join(name)).unwrap());
        for (name, bytes) in &members {
            zip.start_file(format!("{name}.npy"), SimpleFileOptions::default().compression_method(method)).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap();
    }
    std::fs::write(at.join("y.npy"), floats(&labels)).unwrap();
}

#[test]
fn sparse_rows_of_every_format_give_the_same_model() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tables(at);
    npz(at, 60);
    for line in [
        "convert a.svm --sparse --width 60 -o a.parquet",
        "convert a.parquet -o a.arrow",
        "convert a.arrow -o again.svm",
        "convert again.svm --sparse --width 60 -o again.parquet",
        "convert deflated.npz --target y.npy -o from.libsvm",
        "convert stored.npz --target y.npy -o from.parquet",
        "convert a.svm --width 60 -o dense.parquet",
        "convert dense.parquet -o dense.svm",
        "convert dense.parquet --features x* --target y -o named.svm",
    ] {
        ok(at, &format!("{line} -q"));
    }
    let text = |name: &str| std::fs::read_to_string(at.join(name)).unwrap();
    for name in ["again.svm", "from.libsvm", "dense.svm", "named.svm"] {
        assert_eq!(text(name), text("a.svm"), "{name}");
    }
    let fit = |data: &str, run: &str| {
        let fit = "--target y --kernel gaussian(sigma=2) --rank 60 --lambda 1e-5";
        let fit = if data.ends_with("npz") { fit.replace(" y ", " y.npy ") } else { fit.to_string() };
        ok(at, &format!("fit ridge {data} {fit} {run} -o m.safetensors -q"));
        std::fs::read(at.join("m.safetensors")).unwrap()
    };
    let model = fit("a.svm --sparse --width 60", "--memory 2GiB --threads 3");
    let runs = ["--memory 64MiB --threads 1", "--memory 2GiB --threads 2"];
    for data in ["a.parquet", "a.arrow", "again.parquet", "from.parquet", "stored.npz", "deflated.npz"] {
        for run in runs {
            assert!(fit(data, run) == model, "{data} {run}");
        }
    }
    ok(at, "predict m.safetensors a.parquet --keep y -o p.csv -q");
    ok(at, "predict m.safetensors a.arrow --keep x -o p.parquet -q");
    ok(at, "evaluate m.safetensors stored.npz --target y.npy --json");
    ok(at, "inspect a.parquet --stats --json");
}

#[test]
fn convert_says_what_a_label_and_a_format_cannot_hold() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tables(at);
    std::fs::write(at.join("t.csv"), "a,b,city,price,sold\n1,0,Ulm,2.5,true\n0,-0.5,Bonn,,false\n").unwrap();
    for (line, part) in [
        ("convert t.csv -o t.svm", "\"city\" (text)"),
        ("convert t.csv --target city -o t.svm", "and this column is text"),
        ("convert t.csv --drop city --target price,sold -o t.svm", "an svmlight row has one label"),
        ("convert t.csv --drop city --target price --missing error -o t.svm", "row 1 (counted from 0)"),
        ("convert a.svm --sparse -o a.csv", "which support sparse rows"),
        ("convert a.svm --sparse -o a.npy", "\"x\" (sparse rows)"),
    ] {
        let (code, _, stderr) = kmill(at, line);
        assert!(code > 0 && stderr.contains(part), "{line}: {code} {stderr}");
    }
    for (options, text) in [
        ("--drop city --target price", "2.5 1:1 3:1\nNaN 2:-0.5\n"),
        ("--drop city --target sold", "1 1:1 3:2.5\n0 2:-0.5 3:NaN\n"),
        ("--drop city,price", "0 1:1 3:1\n0 2:-0.5\n"),
    ] {
        ok(at, &format!("convert t.csv {options} -o t.svm -q"));
        assert_eq!(std::fs::read_to_string(at.join("t.svm")).unwrap(), text, "{options}");
    }
}
