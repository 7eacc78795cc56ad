//! Threads, memory budget, file format, number of files and row groups never change a model's bits.

use std::path::Path;
use std::process::Command;

/// More than two segments of 16 tiles of 2,048 rows.
const ROWS: usize = 70_000;

fn kmill(folder: &Path, line: &str) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_kmill")).current_dir(folder).args(line.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Writes the same rows as one Parquet file, three Parquet files in a folder, `.npy` and `.csv`.
fn tables(at: &Path, generator: &str) {
    kmill(at, &format!("generate {generator} --rows {ROWS} -o one.parquet -q"));
    std::fs::create_dir(at.join("parts")).unwrap();
    // odd boundaries: neither tiles nor segments nor batches of the decoder end there
    for (i, rows) in ["..20001", "20001..33333", "33333.."].into_iter().enumerate() {
        kmill(at, &format!("convert one.parquet --target y --rows {rows} -o parts/{i}.parquet -q"));
    }
    kmill(at, "convert one.parquet --target y -o rows.npy -q");
    kmill(at, "convert one.parquet -o rows.csv -q");
    let table = kstore::Table::open(&[at.join("parts")]).unwrap();
    assert_eq!((table.stored_rows(), table.files().len()), (ROWS as u64, 3));
}

/// Fits every variant and compares the models. If `lanes`, smaller budgets must take lanes away.
fn same(at: &Path, learn: &str, lanes: bool) {
    let fit = |data: &str, options: &str| {
        kmill(at, &format!("fit ridge {data} {learn} {options} -q -o model"));
        std::fs::read(at.join("model")).unwrap()
    };
    let plan = |budget: u64| {
        let line = format!("plan ridge one.parquet --target y {learn} --threads 8 --memory {budget} --json");
        // a plan that does not fit is printed too
        let (_, plan, _) = crate::run::kmill(at, &line);
        (plan["planned_bytes"].as_u64().unwrap(), plan["fits"] == true)
    };
    let first = fit("one.parquet --target y", "--threads 1");
    for threads in [2, 8] {
        assert!(first == fit("one.parquet --target y", &format!("--threads {threads}")), "{learn}: {threads} threads");
    }
    // the full budget, one byte less than all lanes need, and the minimum
    let (all, _) = plan(8 << 30);
    let (fewer, fits) = plan(all - 1);
    assert_eq!(lanes, fits && fewer < all, "{learn}: {fewer} of {all}");
    for budget in [8 << 30, if lanes { all - 1 } else { all }, if lanes { fewer } else { all + (16 << 20) }] {
        let options = format!("--threads 8 --memory {budget}");
        assert!(first == fit("one.parquet --target y", &options), "{learn}: {budget} bytes");
    }
    assert!(first == fit("parts --target y", "--threads 2"), "{learn}: three files");
    assert!(first == fit("rows.npy --target rows.y.npy", "--threads 2"), "{learn}: .npy");
    assert!(first == fit("rows.csv --target y", "--threads 2"), "{learn}: .csv");
    std::fs::create_dir_all(at.join("scratch")).unwrap();
    assert!(first == fit("rows.csv --target y", "--threads 2 --scratch scratch"), "{learn}: by way of scratch");
    assert_eq!(std::fs::read_dir(at.join("scratch")).unwrap().count(), 0);
}

#[test]
fn a_regression_with_folds_in_lanes_and_in_one_lane() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tables(at, "friedman1");
    // with at most 256 features every thread has a lane, with more there is one lane
    let learn = "--candidates 4000 --kernel gaussian(sigma=3)";
    same(at, &format!("{learn} --ranks 30,60"), true);
    same(at, &format!("{learn} --rank 60 --precision f64"), true);
    same(at, &format!("{learn} --rank 300 --lambda 1e-8..1e-6"), true);
}

#[test]
fn a_classification() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    tables(at, "blobs");
    same(at, "--task classification --candidates 4000 --rank 40", true);
    same(at, "--task classification --candidates all --rank 20 --precision f64 --lambda 1e-6", true);
}
