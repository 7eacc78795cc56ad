//! Files that change while they are read cause an error that names them.

use crate::make::*;
use kstore::{Error, Merge, Pass, ReadSettings, Reduction, RowBlock, Table, Workers};
use std::sync::Mutex;
use std::time::Duration;

/// A fold that runs a function on a file when it reaches the given row.
struct Vandal<F>(u64, Mutex<Option<F>>);
struct Nothing;
impl Merge for Nothing {
    fn merge(&mut self, _: &Self) {}
}
impl<F: FnOnce() + Send> Reduction<f64> for Vandal<F> {
    type State = Nothing;
    type Scratch = ();
    type Error = Error;
    fn init(&self) -> Nothing {
        Nothing
    }
    fn scratch(&self) {}
    fn step(&self, _: &mut Nothing, (): &mut (), block: &RowBlock<'_, f64>, _: &Workers) -> kstore::Result<()> {
        if block.row_numbers.contains(&self.0)
            && let Some(act) = self.1.lock().unwrap().take()
        {
            act();
        }
        Ok(())
    }
}

#[test]
fn an_array_that_shrinks_under_the_reader_is_named() {
    let folder = folder();
    let path = folder.path().join("x.npy");
    let heads = ["a", "b"].map(|name| kstore::OutputColumn::new(name, kstore::OutputKind::F64));
    let mut out = kstore::sink::create(&path, &heads).unwrap();
    let values: Vec<f64> = (0..50_000).map(f64::from).collect();
    out.write(&[kstore::OutputValues::F64(&values), kstore::OutputValues::F64(&values)]).unwrap();
    out.finish().unwrap();
    let selected = Table::open(&[&path]).unwrap().select(&kstore::Selection::default()).unwrap();
    let rows = selected.rows::<f64>(ReadSettings::default()).unwrap();
    let shrink = {
        let path = path.clone();
        move || std::fs::File::options().write(true).open(path).unwrap().set_len(200_000).unwrap()
    };
    let error = Pass::new(16, 5000, sequential()).reduce(&rows, &Vandal(9500, Mutex::new(Some(shrink)))).map(|_| ());
    let error = error.unwrap_err();
    assert!(matches!(&error, Error::FileChanged { path: named, .. } if *named == path), "{error}");
}

#[test]
fn a_file_that_changes_under_the_reader_is_named() {
    for lanes in [1, 3] {
        for (act, change) in [
            ("truncate", "bytes and has"),
            ("append", "bytes and has"),
            ("rewrite", "it was written to"),
            ("replace", ""),
            ("remove", "it was removed"),
        ] {
            let folder = folder();
            let paths = split(folder.path(), 20_000, &[9000], 500);
            let rows = usual_rows(&paths);
            let path = paths.last().unwrap().clone();
            let spare = folder.path().join("spare");
            std::fs::copy(&path, &spare).unwrap();
            let bytes = std::fs::read(&path).unwrap();
            let vandal = {
                let path = path.clone();
                Vandal(
                    9500,
                    Mutex::new(Some(move || match act {
                        "truncate" => std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap(),
                        "append" => std::fs::write(&path, [&bytes[..], b"more"].concat()).unwrap(),
                        "rewrite" => {
                            std::thread::sleep(Duration::from_millis(20));
                            std::fs::write(&path, &bytes).unwrap();
                        }
                        "replace" => std::fs::rename(&spare, &path).unwrap(),
                        _ => std::fs::remove_file(&path).unwrap(),
                    })),
                )
            };
            let pass = Pass { lane_count: lanes, ..Pass::new(16, 1000, sequential()) };
            let error = pass.reduce(&rows, &vandal).map(|_| ()).unwrap_err();
            let named = matches!(&error, Error::FileChanged { path: named, .. } if *named == path);
            assert!(named && error.to_string().contains(change), "{lanes} lanes, {act}: {error}");
        }
    }
}
