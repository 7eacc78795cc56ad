//! Tables of an object store: same rows and models as local files, few requests, and errors.

#![allow(clippy::unwrap_used, reason = "tests")]

mod server;

use ksolve::job::{Fit, Run};
use kstore::arrow::array::{ArrayRef, Float64Array, RecordBatch};
use kstore::{Selection, Table};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use server::Server;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Returns the one server of all tests, since its address is an option of the process.
fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let server = Server::start();
        let options = [
            ("aws_endpoint", server.address.as_str()),
            ("aws_region", "here"),
            ("aws_skip_signature", "true"),
            ("allow_http", "true"),
        ];
        kcloud::register_with_options(options.map(|(name, value)| (name.to_string(), value.to_string())).to_vec())
            .unwrap();
        server
    })
}

/// Writes two tables of 6,000 rows, as Parquet in row groups of 2,500 rows and as CSV.
fn rows(folder: &str) -> String {
    let at = server().folder.path().join("bucket").join(folder);
    std::fs::create_dir_all(&at).unwrap();
    for part in 0..2 {
        let x = |j: usize| (0..6000).map(move |i| (0.7 * (3 * i + j + 18_000 * part) as f64).sin());
        let y = x(0).zip(x(1)).zip(x(2)).map(|((a, b), c)| a + b * c);
        let columns: Vec<Vec<f64>> = vec![x(0).collect(), x(1).collect(), x(2).collect(), y.collect()];
        let named = ["x0", "x1", "x2", "y"].into_iter().zip(&columns);
        let named = named.map(|(name, values)| (name, Arc::new(Float64Array::from(values.clone())) as ArrayRef));
        let batch = RecordBatch::try_from_iter(named).unwrap();
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(2500)).build();
        let file = std::fs::File::create(at.join(format!("{part}.parquet"))).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let line = |i: usize| columns.iter().map(|column| column[i].to_string()).collect::<Vec<_>>().join(",");
        let text = "x0,x1,x2,y\n".to_string() + &(0..6000).map(|i| line(i) + "\n").collect::<String>();
        std::fs::write(at.join(format!("{part}.csv")), text).unwrap();
    }
    at.to_string_lossy().into_owned()
}

/// Fits a model on some files; returns the model and the number of passes.
fn fitted(paths: &[String]) -> (Vec<u8>, u64) {
    let table = Table::open(paths).unwrap();
    let selection = Selection { targets: vec!["y".to_string()], ..Selection::default() };
    let kernel = "gaussian(sigma=median)".parse().unwrap();
    let fit = Fit::ridge().kernel(kernel).rank(40).set("lambda", "1e-6,1e-3").set("folds", "3");
    let fitted = fit.run(&table.select(&selection).unwrap(), &Run::new().threads(2)).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    fitted.model.save(file.path()).unwrap();
    (std::fs::read(file.path()).unwrap(), fitted.report.passes)
}

fn model(paths: &[String]) -> Vec<u8> {
    fitted(paths).0
}

#[test]
fn a_store_gives_the_model_of_local_files() {
    let folder = rows("models");
    let local = model(&[format!("{folder}/0.parquet"), format!("{folder}/1.parquet")]);
    let before = server().requests("models");
    let (distant, passes) = fitted(&["s3://bucket/models/*.parquet".to_string()]);
    assert!(distant == local);
    let asked = server().requests("models") - before;
    // 59 requests if no two lanes request a row group at the same time; opening a table reads the
    // first page of every column chunk; in each pass a second lane may request the three row groups
    // again
    assert!(asked as u64 <= 59 + 3 * passes, "{asked} requests in {passes} passes");
    let each = [0, 1].map(|part| format!("s3://bucket/models/{part}.parquet"));
    assert!(model(&each) == local);
    let web = [0, 1].map(|part| format!("{}/bucket/models/{part}.csv", server().address));
    assert!(model(&web) == model(&[format!("{folder}/0.csv"), format!("{folder}/1.csv")]));
}

#[test]
fn folders_and_patterns_are_listed() {
    rows("lists/year=2025");
    let names = |address: &str| -> Vec<String> {
        let table = Table::open(&[address]).unwrap();
        table.files().map(|path| path.to_string_lossy().into_owned()).collect()
    };
    let base = "s3://bucket/lists/year=2025";
    let all: Vec<String> = ["0.csv", "0.parquet", "1.csv", "1.parquet"].map(|name| format!("{base}/{name}")).to_vec();
    assert_eq!(names("s3://bucket/lists/"), all);
    assert_eq!(names("s3://bucket/lists/*/?.csv"), [all[0].clone(), all[2].clone()]);
    // partition folders become columns, as on disk
    let table = Table::open(&["s3://bucket/lists/*/*.parquet"]).unwrap();
    assert!(table.schema().columns.iter().any(|column| column.name == "year"));
}

#[test]
fn an_answer_that_fails_once_is_asked_for_again() {
    let folder = rows("again");
    server().fail_once();
    let table = Table::open(&["s3://bucket/again/0.parquet"]).unwrap();
    assert_eq!(table.stored_rows(), Table::open(&[format!("{folder}/0.parquet")]).unwrap().stored_rows());
}

#[test]
fn what_goes_wrong_is_said_with_the_address() {
    let folder = rows("faults");
    let error = |address: &str| Table::open(&[address]).unwrap_err().to_string();
    let missing = error("s3://bucket/faults/2.parquet");
    assert!(missing.contains("no such file: s3://bucket/faults/2.parquet"), "{missing}");
    let none = error("s3://bucket/faults/*.npy");
    assert!(none.contains("no object has this address"), "{none}");
    // an object that is replaced while the table is open
    let table = Table::open(&["s3://bucket/faults/0.parquet"]).unwrap();
    let selected = table.select(&Selection { targets: vec!["y".to_string()], ..Selection::default() }).unwrap();
    std::fs::copy(format!("{folder}/1.parquet"), format!("{folder}/0.parquet")).unwrap();
    server().touch(Path::new(&folder).join("0.parquet").as_path());
    let changed = Fit::ridge().rank(10).run(&selected, &Run::new()).unwrap_err().to_string();
    assert!(changed.contains("replaced while it was read"), "{changed}");
}

#[test]
fn passwords_and_signatures_are_shown_nowhere() {
    rows("secret");
    let host = server().address.strip_prefix("http://").unwrap();
    let address = |name: &str| format!("http://me:hushhush@{host}/bucket/secret/{name}?sig=a1b2c3d4e5&v=3");
    let table = Table::open(&[address("0.parquet")]).unwrap();
    let shown = format!("http://***@{host}/bucket/secret/0.parquet?sig=***&v=***");
    assert_eq!(table.files().map(|path| path.to_string_lossy().into_owned()).collect::<Vec<_>>(), [shown]);
    let broken = server().folder.path().join("bucket/secret/2.parquet");
    std::fs::write(broken, "PAR1 and no more").unwrap();
    for name in ["2.parquet", "3.parquet", "4.csv", "%zz", "a.parquet#x", "\u{1}"] {
        let error = format!("{:?} {}", Table::open(&[address(name)]).err(), Table::open(&[address(name)]).unwrap_err());
        assert!(!error.contains("hushhush") && !error.contains("a1b2c3d4e5"), "{error}");
    }
    // two addresses that differ only in the values of their queries are two objects
    let both = [address("0.parquet"), address("0.parquet").replace("v=3", "v=4")];
    assert_eq!(Table::open(&both).unwrap().stored_rows(), 12_000);
}

#[test]
fn an_object_without_versions_is_the_same_for_all_passes() {
    let folder = rows("untagged");
    let file = |part: usize| format!("{folder}/{part}.parquet");
    let local = model(&[file(0)]);
    let table = Table::open(&[format!("{}/bucket/untagged/0.parquet", server().address)]).unwrap();
    std::fs::copy(file(1), file(0)).unwrap();
    let selected = table.select(&Selection { targets: vec!["y".to_string()], ..Selection::default() }).unwrap();
    let kernel = "gaussian(sigma=median)".parse().unwrap();
    let fit = Fit::ridge().kernel(kernel).rank(40).set("lambda", "1e-6,1e-3").set("folds", "3");
    let fitted = fit.run(&selected, &Run::new().threads(2)).unwrap();
    let saved = tempfile::NamedTempFile::new().unwrap();
    fitted.model.save(saved.path()).unwrap();
    assert!(std::fs::read(saved.path()).unwrap() == local);
}

#[test]
fn a_wish_to_stop_ends_the_wait_for_a_stalled_server() {
    thread_local! {
        static STOP: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }
    rows("stalled");
    kstore::source::remote::stop_when(|| STOP.get());
    STOP.set(true);
    let begun = std::time::Instant::now();
    let error = Table::open(&["s3://bucket/stalled/0.parquet"]).unwrap_err();
    STOP.set(false);
    assert!(matches!(error, kstore::Error::Interrupted), "{error}");
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
}

#[test]
fn an_address_without_end_is_refused_in_a_line() {
    server();
    for address in ["s3://bucket/", "http://host/"] {
        let error = Table::open(&[format!("{address}{}", "a/".repeat(50_000))]).unwrap_err().to_string();
        assert!(error.contains("bytes; expected at most 8192") && error.len() < 300, "{error}");
    }
}
