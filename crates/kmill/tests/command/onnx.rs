//! Models as ONNX files. The tests of the Python package compare their results with a runtime.

use std::path::Path;
use std::process::Command;

fn kmill(at: &Path, line: &str) -> (bool, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_kmill")).current_dir(at).args(line.split_whitespace()).output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn models_on_landmarks_are_written_and_others_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    assert!(kmill(at, "generate moons --rows 300 -o t.csv -q").0);
    let fit = |line: &str| assert!(kmill(at, &format!("fit {line} -o m -q")).0, "{line}");
    fit("svm t.csv --target y --rank 30 --lambda 1e-4");
    let (done, said) = kmill(at, "export m -o m.onnx");
    assert!(done && said.contains("m as ONNX in m.onnx"), "{said}");
    let bytes = std::fs::read(at.join("m.onnx")).unwrap();
    // the version of the format, then the name of the writer
    assert!(bytes.starts_with(b"\x08\x08\x12\x05kmill"), "{:?}", &bytes[..20]);
    let refused = |part: &str| {
        let (done, said) = kmill(at, "export m -o n.onnx");
        assert!(!done && said.contains(part) && !at.join("n.onnx").exists(), "{said}");
    };
    fit("ridge t.csv --target y --rank 30 --kernel periodic(period=3) --lambda 1e-4");
    refused("the kernel periodic has no ONNX operations; use predict, or fit with another kernel");
    fit("ridge t.csv --target y --rank 30 --map fourier --lambda 1e-4");
    refused("--map nystrom");
    fit("isomap t.csv --nodes 100 --neighbours 60");
    refused("a model of isomap is not a sum of kernel functions");
    let (done, said) = kmill(at, "export m -o m.pkl");
    assert!(!done && said.contains("choose a name that ends with .onnx"), "{said}");
}
