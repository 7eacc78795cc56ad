//! Kernels restricted to columns, through fit, predict, evaluate and inspect.

use kstore::sink::{self, OutputColumn, OutputKind, OutputValues};
use std::path::Path;
use std::process::{Command, Output as Ran};

const CITIES: [f64; 3] = [3.0, -2.0, 7.0];

/// Writes a city, three numbers, a noise column and y of city and numbers, in the given order.
fn write(path: &Path, rows: usize, order: &[&str]) {
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut columns: [Vec<f64>; 6] = Default::default();
    for _ in 0..rows {
        let (city, x0, x1, x2, noise) =
            ((3.0 * uniform()).floor(), uniform(), uniform(), uniform(), 1e3 * (uniform() - 0.5));
        let y = CITIES[city as usize] + (6.0 * x0).sin() * (city + 1.0) + x1 * x2;
        for (column, value) in columns.iter_mut().zip([10.0 * city, x0, x1, x2, noise, y]) {
            column.push(value);
        }
    }
    let names = ["city", "x0", "x1", "x2", "noise", "y"];
    let column = |name: &&str| &columns[names.iter().position(|known| known == name).unwrap()];
    let schema: Vec<_> = order.iter().map(|name| OutputColumn::new(*name, OutputKind::F64)).collect();
    let mut out = sink::create(path, &schema).unwrap();
    out.write(&order.iter().map(|name| OutputValues::F64(column(name))).collect::<Vec<_>>()).unwrap();
    out.finish().unwrap();
}

fn kmill(folder: &Path, args: &[&str]) -> Ran {
    Command::new(env!("CARGO_BIN_EXE_kmill")).current_dir(folder).args(args).output().unwrap()
}

fn json(output: &Ran) -> serde_json::Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn fit(folder: &Path, kernel: &str, model: &str) -> Ran {
    let line = ["fit", "ridge", "train.parquet", "--target", "y", "--rank", "300", "--lambda", "1e-7"];
    kmill(folder, &[&line[..], &["-o", model, "--json", "--quiet", "--kernel", kernel]].concat())
}

#[test]
fn a_model_finds_its_columns_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write(&at.join("train.parquet"), 3000, &["city", "x0", "x1", "x2", "noise", "y"]);
    // the same rows, the columns in another order
    write(&at.join("turned.parquet"), 3000, &["y", "noise", "x2", "x0", "city", "x1"]);

    let report = json(&fit(at, "gaussian(sigma=median, on=x0..x2) * delta(on=city)", "m.safetensors"));
    let kernel = report["kernel"].as_str().unwrap().to_string();
    // three columns of variance 1, not five: about √(2·3)
    assert!(kernel.starts_with("gaussian(sigma=2.3") && kernel.ends_with(", on=x0..x2)*delta(on=city)"), "{kernel}");
    assert_eq!(report["features"], 5);
    let shown = json(&kmill(at, &["inspect", "m.safetensors", "--json"]));
    assert!(shown.to_string().contains("on=x0..x2"), "{shown}");

    let mse = |table: &str, model: &str| {
        json(&kmill(at, &["evaluate", model, table, "--json", "--quiet"]))["mse"].as_f64().unwrap()
    };
    let restricted = mse("train.parquet", "m.safetensors");
    assert!(restricted < 1e-3, "{restricted}");
    assert_eq!(mse("turned.parquet", "m.safetensors"), restricted);
    // cities carry no information about each other: one kernel for all columns is worse
    json(&fit(at, "gaussian(sigma=median)", "all.safetensors"));
    let whole = mse("train.parquet", "all.safetensors");
    assert!(whole > 3.0 * restricted, "{whole} and {restricted}");

    for table in ["train", "turned"] {
        let (input, output) = (format!("{table}.parquet"), format!("{table}.npy"));
        let run = kmill(at, &["predict", "m.safetensors", &input, "-o", &output, "--quiet"]);
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    }
    let read = |name: &str| std::fs::read(at.join(name)).unwrap();
    assert!(read("train.npy") == read("turned.npy"));
}

#[test]
fn columns_that_are_not_there_stop_a_fit_before_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write(&at.join("train.parquet"), 100, &["city", "x0", "x1", "x2", "noise", "y"]);
    for (kernel, part) in [
        (
            "delta(on=citty)",
            "the kernel delta is restricted to \"citty\", but the data has no such input column; did you mean \"city\"?",
        ),
        ("linear(on=z*)", "it has city, x0, x1, x2, noise"),
        // the target is not a feature
        ("linear(on=y)", "restricted to \"y\""),
        ("linear(on=x2..x0)", "write x0..x2"),
        ("gaussian(sigma=[1, 2], on=x0..x2)", "uses 3 inputs, but the list has 2 numbers"),
    ] {
        for verb in ["fit", "plan"] {
            let mut args = vec![verb, "ridge", "train.parquet", "--target", "y", "--kernel", kernel];
            args.extend(["-o", "m.safetensors"].iter().filter(|_| verb == "fit"));
            // the length of a list is checked when rows are read
            if verb == "plan" && kernel.contains('[') {
                continue;
            }
            let run = kmill(at, &args);
            let text = String::from_utf8_lossy(&run.stderr).into_owned();
            assert!(run.status.code() == Some(1) && text.contains(part), "{verb} {kernel}: {text}");
        }
    }
    assert_eq!(std::fs::read_dir(at).unwrap().count(), 1);
}
