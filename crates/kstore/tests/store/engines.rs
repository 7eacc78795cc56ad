//! Several processes that share the passes of a run: the same bits as one, and what happens when one of them goes.

use crate::make::*;
use kstore::checkpoint::{Cut, Journal, Manifest};
use kstore::pass::{Engine, Observer, SharedEngine};
use kstore::{Error, Pass, RowSource, Statistics, StatisticsFold, TableRows};
use std::collections::BTreeMap;
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

/// A job that tells itself from another by one option.
fn job(lambda: &str) -> Manifest {
    let options = BTreeMap::from([("lambda".to_string(), lambda.to_string())]);
    Manifest { version: "1".to_string(), instruction_set: "any".to_string(), options, files: Vec::new() }
}

fn engine(folder: &Path) -> SharedEngine {
    SharedEngine::folder(folder).unwrap().patience(Duration::from_millis(1500))
}

/// A pass through an engine, by so many lanes: the bits it finds, which all rows of the table gave.
fn pass(engine: &SharedEngine, name: &str, segment: u64, lanes: usize, rows: &TableRows<f64>) -> Vec<u64> {
    let (journal, observer) = (Journal::through(engine), Rows::default());
    let pass = Pass { lanes, journal: Some(&journal), observer: &observer, ..Pass::new(16, segment, sequential()) };
    let (state, report) = pass.resume(name, rows, &StatisticsFold::new(rows.shape())).unwrap();
    assert_eq!((report.rows, observer.0.into_inner()), (state.rows, state.rows));
    bits(&state)
}

/// What one process finds that shares nothing.
fn alone(segment: u64, rows: &TableRows<f64>) -> Vec<u64> {
    bits(&Pass::new(16, segment, sequential()).fold(rows, &StatisticsFold::new(rows.shape())).unwrap().0)
}

fn files(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn processes_find_the_bits_of_one() {
    let data = folder();
    let rows = usual_rows(&split(data.path(), 900, &[200, 613], 100));
    // lots are segments, and, of two rows, some segments and whole stretches
    for (segment, workers) in [(100, 2), (100, 4), (40, 3), (7, 2), (2, 1), (1, 3), (1000, 3)] {
        let shared = folder();
        let path = shared.path().join("states");
        let process = |worker: usize| {
            let engine = engine(&path);
            engine.join(&job("1")).unwrap();
            let found = ["first", "second"].map(|name| pass(&engine, name, segment, 1 + worker, &rows));
            engine.leave(true);
            found
        };
        let found: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..workers).map(|worker| scope.spawn(move || process(worker))).collect();
            running.into_iter().map(|process| process.join().unwrap()).collect()
        });
        let one = alone(segment, &rows);
        for process in found {
            assert_eq!(process, [one.clone(), one.clone()], "{segment} rows a segment, {workers} processes");
        }
        assert!(files(&path).is_empty(), "the last process leaves the folder empty: {:?}", files(&path));
    }
}

#[test]
fn a_process_begins_with_the_lots_that_it_folded_before() {
    let data = folder();
    let cut = Cut { tile: 16, segment: 100, start: 0, end: 900 };
    let [one, two] = [(); 2].map(|()| engine(data.path()));
    [&one, &two].iter().for_each(|engine| engine.join(&job("1")).unwrap());
    let begin = |name: &str| {
        let (key, _) = one.begin(name, cut).unwrap();
        assert_eq!(two.begin(name, cut).unwrap().0, key);
        key
    };
    let claim = |engine: &SharedEngine, key: &_| engine.claim(key, &Rows::default()).unwrap().map(|lot| lot.start);
    let key = begin("first");
    assert_eq!([0, 1, 2].map(|_| claim(&one, &key)), [0, 1, 2].map(Some));
    assert_eq!(std::iter::from_fn(|| claim(&two, &key)).collect::<Vec<_>>(), [3, 4, 5, 6, 7, 8]);
    assert_eq!(claim(&one, &key), None);
    let key = begin("second");
    assert_eq!(claim(&two, &key), Some(3));
    assert_eq!(claim(&one, &key), Some(0));
    // those that the other does not come to are folded too, in the end
    assert_eq!(std::iter::from_fn(|| claim(&two, &key)).collect::<Vec<_>>(), [4, 5, 6, 7, 8, 1, 2]);
    assert_eq!(claim(&one, &key), None);
}

#[test]
fn the_work_of_a_process_that_has_gone_is_done_again() {
    let data = folder();
    let rows = usual_rows(&split(data.path(), 900, &[], 100));
    let one = alone(100, &rows);
    let cut = Cut { tile: 16, segment: 100, start: 0, end: 900 };
    // how it went: it failed and said so; it was killed, and its sign is not renewed; its sign has gone too
    for how in ["failed", "killed", "removed"] {
        let path = data.path().join(how);
        let other = engine(&path);
        other.join(&job("1")).unwrap();
        let (key, _) = other.begin("sums", cut).unwrap();
        assert_eq!([0, 1].map(|_| other.claim(&key, &Rows::default()).unwrap()), [Some(0..1), Some(1..2)]);
        let sign = path.join(files(&path).into_iter().find(|name| name.ends_with(".alive")).unwrap());
        let last = std::fs::read(&sign).unwrap();
        other.leave(false);
        match how {
            "killed" => std::fs::write(&sign, last).unwrap(),
            "removed" => std::fs::remove_file(&sign).unwrap(),
            _ => {}
        }
        let one_more = engine(&path);
        one_more.join(&job("1")).unwrap();
        assert_eq!(pass(&one_more, "sums", 100, 2, &rows), one, "{how}");
        // nothing of the pass is left but its total, which a process that comes late takes
        let of_pass = |name: &String| name.starts_with("000001");
        assert_eq!(files(&path).into_iter().filter(of_pass).collect::<Vec<_>>(), ["000001.total"], "{how}");
        let late = engine(&path);
        late.join(&job("1")).unwrap();
        let (key, _) = late.begin("sums", cut).unwrap();
        assert_eq!(late.claim(&key, &Rows::default()).unwrap(), None);
    }
}

#[test]
fn a_run_that_was_broken_off_goes_on() {
    let data = folder();
    let rows = usual_rows(&split(data.path(), 900, &[], 100));
    let path = data.path().join("states");
    let first = engine(&path);
    first.join(&job("1")).unwrap();
    let found = pass(&first, "first", 100, 1, &rows);
    first.leave(false);
    drop(first);
    assert!(files(&path).contains(&"000001.total".to_string()), "{:?}", files(&path));
    let again = engine(&path);
    again.join(&job("1")).unwrap();
    assert_eq!([pass(&again, "first", 100, 2, &rows), pass(&again, "second", 100, 2, &rows)], [found.clone(), found]);
    again.leave(true);
    assert!(files(&path).is_empty());
}

#[test]
fn another_job_and_another_pass_are_refused_and_named() {
    let data = folder();
    let rows = usual_rows(&split(data.path(), 900, &[], 100));
    let path = data.path().join("states");
    let first = engine(&path);
    first.join(&job("1")).unwrap();
    pass(&first, "first", 100, 1, &rows);
    let other = engine(&path);
    let text = other.join(&job("2")).unwrap_err().to_string();
    assert!(text.contains("another job: lambda was 1, now it is 2"), "{text}");
    other.join(&job("1")).unwrap();
    let journal = Journal::through(&other);
    let pass = Pass { journal: Some(&journal), ..Pass::new(16, 100, sequential()) };
    let text = pass.resume("means", &rows, &StatisticsFold::new(rows.shape())).unwrap_err().to_string();
    assert!(text.contains("of the pass \"first\" where \"means\" is wanted"), "{text}");
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
    let other = engine(data.path());
    other.join(&job("1")).unwrap();
    let (key, _) = other.begin("sums", Cut { tile: 16, segment: 100, start: 0, end: 900 }).unwrap();
    other.claim(&key, &Rows::default()).unwrap();
    let engine = engine(data.path());
    engine.join(&job("1")).unwrap();
    let journal = Journal::through(&engine);
    let pass = Pass { journal: Some(&journal), observer: &Stop, ..Pass::new(16, 100, sequential()) };
    let outcome = pass.resume("sums", &rows, &StatisticsFold::new(rows.shape()));
    assert!(matches!(outcome, Err(Error::Interrupted)));
}
