//! Several processes that share the passes of a run: the same bits as one, and what happens when one of them goes.

use crate::make::*;
use kstore::checkpoint::Journal;
use kstore::pass::{Engine, FolderEngine, Observer};
use kstore::{Error, Pass, RowSource, Statistics, StatisticsFold, TableRows};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Every number of a state.
fn bits(statistics: &Statistics) -> Vec<u64> {
    let moments = statistics.features.iter().chain(&statistics.targets);
    let numbers = moments.flat_map(|m| [m.count, m.mean.to_bits(), m.m2.to_bits(), m.min.to_bits(), m.max.to_bits()]);
    numbers.chain([statistics.rows]).chain(statistics.groups.sorted().into_iter().map(|(_, count)| count)).collect()
}

/// Counts the rows it hears of.
#[derive(Default)]
struct Rows(AtomicU64);

impl Observer for Rows {
    fn advance(&self, rows: u64) {
        self.0.fetch_add(rows, Ordering::Relaxed);
    }
}

/// A process that makes two passes.
fn process(folder: &Path, worker: u64, workers: u64, segment: u64, rows: &TableRows<f64>) -> Vec<Vec<u64>> {
    let engine = FolderEngine::new(folder, worker, workers).unwrap();
    engine.join("job").unwrap();
    let journal = Journal::through(&engine);
    let found = ["first", "second"].map(|name| {
        let observer = Rows::default();
        let pass = Pass {
            lanes: 1 + worker as usize,
            journal: Some(&journal),
            observer: &observer,
            ..Pass::new(16, segment, sequential())
        };
        let (state, report) = pass.resume(name, rows, &StatisticsFold::new(rows.shape())).unwrap();
        assert_eq!((report.rows, observer.0.into_inner()), (state.rows, state.rows));
        bits(&state)
    });
    engine.leave(true);
    found.to_vec()
}

#[test]
fn processes_find_the_bits_of_one() {
    let data = folder();
    let rows = usual_rows(&split(data.path(), 900, &[200, 613], 100));
    // segments are divided, and, of two rows, whole stretches
    for (segment, workers) in [(100, 2), (100, 4), (40, 3), (2, 1), (1, 3), (1000, 3)] {
        let one = Pass::new(16, segment, sequential()).fold(&rows, &StatisticsFold::new(rows.shape())).unwrap().0;
        let shared = folder();
        let path = shared.path().join("engine");
        let found: Vec<_> = std::thread::scope(|scope| {
            let start = |worker| {
                scope.spawn({
                    let (path, rows) = (&path, &rows);
                    move || process(path, worker, workers, segment, rows)
                })
            };
            let running: Vec<_> = (0..workers).map(start).collect();
            running.into_iter().map(|process| process.join().unwrap()).collect()
        });
        for process in found {
            assert_eq!(process, [bits(&one), bits(&one)], "{segment} rows a segment, {workers} processes");
        }
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0, "the last process leaves the folder empty");
    }
}

#[test]
fn a_process_that_has_gone_is_named() {
    let data = folder();
    let rows = usual_rows(&split(data.path(), 900, &[], 100));
    let alone = |path: &Path, mark: &str, before: &dyn Fn(&FolderEngine)| {
        let other = FolderEngine::new(path, 1, 2).unwrap();
        other.join("job").unwrap();
        before(&other);
        let engine = FolderEngine::new(path, 0, 2).unwrap().patience(Duration::from_millis(1500));
        engine.join(mark).unwrap();
        let journal = Journal::through(&engine);
        let pass = Pass { journal: Some(&journal), ..Pass::new(16, 100, sequential()) };
        pass.resume("sums", &rows, &StatisticsFold::new(rows.shape())).unwrap_err().to_string()
    };
    let text = alone(&data.path().join("failed"), "job", &|other| other.leave(false));
    assert!(text.contains("process 1 of 2 has failed"), "{text}");
    let text = alone(&data.path().join("other"), "another job", &|_| ());
    assert!(text.contains("process 1 runs another job"), "{text}");
    let text = alone(&data.path().join("ended"), "job", &|other| other.leave(true));
    assert!(text.contains("has ended without \"sums\""), "{text}");
    // a sign that is never renewed: what a killed process leaves
    let killed = data.path().join("killed");
    let text = alone(&killed, "job", &|other| {
        let sign = killed.join("1.alive");
        let last = std::fs::read(&sign).unwrap();
        other.leave(true);
        std::fs::write(&sign, last).unwrap();
    });
    assert!(text.contains("no sign of life"), "{text}");
    let again = FolderEngine::new(&killed, 1, 2).unwrap();
    assert!(again.join("job").unwrap_err().to_string().contains("there already"));
    assert!(FolderEngine::new(&killed, 2, 2).unwrap_err().to_string().contains("0/2"));
}

#[test]
fn a_stop_is_heard_while_waiting() {
    struct Stop;
    impl Observer for Stop {
        fn advance(&self, _: u64) {}
        fn stop(&self) -> bool {
            // not before this process has folded its own
            std::thread::current().name().is_some_and(|name| name.contains("a_stop_is_heard"))
        }
    }
    let data = folder();
    let rows = usual_rows(&split(data.path(), 900, &[], 100));
    let engine = FolderEngine::new(data.path().join("engine"), 0, 2).unwrap();
    engine.join("job").unwrap();
    let journal = Journal::through(&engine);
    let pass = Pass { journal: Some(&journal), observer: &Stop, ..Pass::new(16, 100, sequential()) };
    let outcome = pass.resume("sums", &rows, &StatisticsFold::new(rows.shape()));
    assert!(matches!(outcome, Err(Error::Interrupted)));
}
