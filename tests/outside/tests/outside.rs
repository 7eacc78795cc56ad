//! An external crate adds a kernel, a scheme, a map, a solver with its own option, a statistic, a
//! format and a generator; the command's help, plans, fits, model files, predictions and messages
//! include them.

use std::path::Path;
use std::process::{Command, Output};

fn kmill(folder: &Path, line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kmill-outside"))
        .args(line.split_whitespace())
        .current_dir(folder)
        .output()
        .unwrap()
}

/// Runs a command line that must succeed and returns its standard output.
fn done(folder: &Path, line: &str) -> String {
    let output = kmill(folder, line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Reads the rows of a CSV file, without its header.
fn numbers(path: &Path) -> Vec<Vec<f64>> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().skip(1).map(|line| line.split(',').map(|v| v.parse().unwrap()).collect()).collect()
}

#[test]
fn pieces_of_another_crate_are_pieces_of_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    done(here, "generate ramp --rows 400 -o ramp.csv");
    let rows = numbers(&here.join("ramp.csv"));
    assert!(rows.iter().all(|row| (row[1] - 10.0 - 2.0 * row[0]).abs() < 1e-5));
    let mut raw = [b"RAWTABLE".as_slice(), &2u64.to_le_bytes()].concat();
    raw.extend(rows.iter().flatten().flat_map(|v| v.to_le_bytes()));
    std::fs::write(here.join("ramp.raw"), raw).unwrap();

    let fit =
        "fit step ramp.raw --target y --scale none --kernel triangle() --landmarks half --rank 200 --precision f64";
    let mut found = Vec::new();
    for rate in ["0.5", "1"] {
        let report = done(here, &format!("{fit} --rate {rate} -o {rate}.safetensors --json"));
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!((&report["solver"], &report["kernel"]), (&"step".into(), &"triangle()".into()));
        done(here, &format!("predict {rate}.safetensors ramp.raw -o {rate}.csv"));
        found.push(numbers(&here.join(format!("{rate}.csv"))));
    }
    // one step on the exact kernel moves a prediction by the mean of (y - mean) k(x, x_i)
    let (n, mean) = (rows.len() as f64, rows.iter().map(|row| row[1]).sum::<f64>() / rows.len() as f64);
    let pull = |x: f64| rows.iter().map(|row| (row[1] - mean) * (1.0 - (x - row[0]).abs()).max(0.0)).sum::<f64>() / n;
    let centre = rows.iter().map(|row| pull(row[0])).sum::<f64>() / n;
    for ((half, whole), row) in found[0].iter().zip(&found[1]).zip(&rows) {
        assert!((2.0 * (half[0] - mean) - (whole[0] - mean)).abs() < 1e-9);
        assert!(
            (whole[0] - mean - (pull(row[0]) - centre)).abs() < 1e-3,
            "{} {}",
            whole[0] - mean,
            pull(row[0]) - centre
        );
    }
    let model = done(here, "inspect 1.safetensors --json");
    assert!(model.contains("\"rate\":1.0") && model.contains("triangle()") && model.contains("half"), "{model}");
    assert!(done(here, "plan step ramp.raw --target y --rank 40 -v").contains("gradient"));
    // `online` also has an option of this name: each solver describes its own
    let help: Vec<String> = done(here, "fit --help").split_whitespace().map(String::from).collect();
    assert!(help.join(" ").contains("Length of the step (step) [default: 1]"), "{}", help.join(" "));
    // kernels, schemes and maps are listed like solvers
    for own in ["triangle", "half", "columns"] {
        assert!(help.iter().any(|word| word.trim_matches(|c: char| !c.is_alphanumeric()) == own), "{own}: {help:?}");
    }
    // on the column itself ridge regression is least squares: y = 10 + 2 x
    done(
        here,
        "fit ridge ramp.raw --target y --map columns --rank 1 --lambda 1e-12 --precision f64 -o line.safetensors",
    );
    done(here, "predict line.safetensors ramp.raw -o line.csv");
    for (predicted, row) in numbers(&here.join("line.csv")).iter().zip(&rows) {
        assert!((predicted[0] - row[1]).abs() < 1e-4, "{predicted:?} {row:?}");
    }
    let unknown = String::from_utf8(kmill(here, "fit ridge ramp.raw --target y --map rows -o m").stderr).unwrap();
    assert!(unknown.contains("columns"), "{unknown}");
    assert!(done(here, "test --help").contains("the distance between two means"));
    // the map of one column, scaled to deviation 1 over all rows
    let (low, high): (Vec<f64>, Vec<f64>) = rows.iter().map(|row| row[0]).partition(|x| *x < 0.25);
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    let all = [low.clone(), high.clone()].concat();
    let variance = mean(&all.iter().map(|x| (x - mean(&all)).powi(2)).collect::<Vec<_>>());
    let expected = (mean(&low) - mean(&high)).powi(2) / variance;
    let test = "test shift ramp.raw --by x0<0.25 --features x0 --map columns --rank 1 --precision f64 --json";
    let report: serde_json::Value = serde_json::from_str(&done(here, test)).unwrap();
    let biased = report["biased"].as_f64().unwrap();
    assert!((biased / expected - 1.0).abs() < 1e-6, "{biased} {expected}");
    let wrong = String::from_utf8(kmill(here, "fit ridge ramp.raw --target y --rate 2 -o m").stderr).unwrap();
    assert!(wrong.starts_with("error: --rate 2: ridge does not read it"), "{wrong}");
    std::fs::write(here.join("bad.raw"), b"RAWTABLE12345678123").unwrap();
    let damaged = String::from_utf8(kmill(here, "inspect bad.raw").stderr).unwrap();
    assert!(damaged.contains("bad.raw") && damaged.contains("no whole rows"), "{damaged}");
}
