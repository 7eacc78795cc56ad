//! Processes that share the passes of a run: the bits of a single one, also if one of them ends.

use crate::make::*;
use kstore::checkpoint::{Cut, Journal, Manifest};
use kstore::pass::{Engine, Folder, Medium, MediumFile, Node, NodeOutcome, Observer, SharedEngine};
use kstore::{Error, Pass, Reduction, RowSource, Statistics, StatisticsReduction, TableRows};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Returns every number of a state.
fn bits(statistics: &Statistics) -> Vec<u64> {
    let moments = statistics.inputs.iter().chain(&statistics.targets);
    let numbers = moments.flat_map(|m| [m.count, m.mean.to_bits(), m.m2.to_bits(), m.min.to_bits(), m.max.to_bits()]);
    numbers
        .chain([statistics.rows])
        .chain(statistics.groups.sorted_counts().into_iter().map(|(_, count)| count))
        .collect()
}

/// Counts the rows reported to it.
#[derive(Default)]
struct Rows(AtomicU64);

impl Observer for Rows {
    fn advance(&self, rows: u64) {
        self.0.fetch_add(rows, Ordering::Relaxed);
    }
}

/// Returns a job that differs from others in one option.
fn job(lambda: &str) -> Manifest {
    let options = BTreeMap::from([("lambda".to_string(), lambda.to_string())]);
    Manifest { version: "1".to_string(), instruction_set: "any".to_string(), options, files: Vec::new() }
}

fn engine(folder: &Path) -> SharedEngine {
    SharedEngine::in_folder(folder).unwrap().with_heartbeat_timeout(Duration::from_millis(1500))
}

/// Runs a pass through an engine; checks that all rows are folded, and returns the bits.
fn pass(engine: &SharedEngine, name: &str, segment: u64, lanes: usize, rows: &TableRows<f64>) -> Vec<u64> {
    let (journal, observer) = (Journal::with_engine(engine), Rows::default());
    let pass = Pass {
        lane_count: lanes,
        journal: Some(&journal),
        observer: &observer,
        ..Pass::new(16, segment, sequential())
    };
    let (state, report) = pass.resume(name, rows, &StatisticsReduction::new(rows.shape())).unwrap();
    assert_eq!((report.rows, observer.0.into_inner()), (state.rows, state.rows));
    bits(&state)
}

/// Returns the bits of a single process that shares nothing.
fn reduce_alone(segment: u64, rows: &TableRows<f64>) -> Vec<u64> {
    bits(&Pass::new(16, segment, sequential()).reduce(rows, &StatisticsReduction::new(rows.shape())).unwrap().0)
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
    // a lot (work unit) is one segment of 40 or more rows, or several shorter segments
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
        let one = reduce_alone(segment, &rows);
        for process in found {
            assert_eq!(process, [one.clone(), one.clone()], "{segment} rows a segment, {workers} processes");
        }
        assert!(files(&path).is_empty(), "the last process leaves the folder empty: {:?}", files(&path));
    }
}

#[test]
fn a_process_begins_with_the_lots_that_it_folded_before() {
    let data = folder();
    let cut = Cut { tile_rows: 16, segment_rows: 100, start_row: 0, end_row: 900 };
    let [one, two] = [(); 2].map(|()| engine(data.path()));
    [&one, &two].iter().for_each(|engine| engine.join(&job("1")).unwrap());
    let begin = |name: &str| {
        let (key, _) = one.begin_pass(name, cut).unwrap();
        assert_eq!(two.begin_pass(name, cut).unwrap().0, key);
        key
    };
    let claim = |engine: &SharedEngine, key: &_| engine.claim_lot(key, &Rows::default()).unwrap().map(|lot| lot.start);
    let key = begin("first");
    assert_eq!([0, 1, 2].map(|_| claim(&one, &key)), [0, 1, 2].map(Some));
    assert_eq!(std::iter::from_fn(|| claim(&two, &key)).collect::<Vec<_>>(), [3, 4, 5, 6, 7, 8]);
    assert_eq!(claim(&one, &key), None);
    let key = begin("second");
    assert_eq!(claim(&two, &key), Some(3));
    assert_eq!(claim(&one, &key), Some(0));
    // segments that the other process does not reach are folded too, at the end
    assert_eq!(std::iter::from_fn(|| claim(&two, &key)).collect::<Vec<_>>(), [4, 5, 6, 7, 8, 1, 2]);
    assert_eq!(claim(&one, &key), None);
}

#[test]
fn the_work_of_a_process_that_has_gone_is_done_again() {
    let data = folder();
    let rows = usual_rows(&split(data.path(), 900, &[], 100));
    let one = reduce_alone(100, &rows);
    let cut = Cut { tile_rows: 16, segment_rows: 100, start_row: 0, end_row: 900 };
    // it failed and reported it; it was killed and its .alive file is stale; or that file is gone
    for how in ["failed", "killed", "removed"] {
        let path = data.path().join(how);
        let other = engine(&path);
        other.join(&job("1")).unwrap();
        let (key, _) = other.begin_pass("sums", cut).unwrap();
        assert_eq!([0, 1].map(|_| other.claim_lot(&key, &Rows::default()).unwrap()), [Some(0..1), Some(1..2)]);
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
        // only the total of the pass remains, and a late process takes it
        let of_pass = |name: &String| name.contains("-000001");
        let total = format!("{}-000001.total", job("1").job_digest());
        assert_eq!(files(&path).into_iter().filter(of_pass).collect::<Vec<_>>(), [total], "{how}");
        let late = engine(&path);
        late.join(&job("1")).unwrap();
        let (key, _) = late.begin_pass("sums", cut).unwrap();
        assert_eq!(late.claim_lot(&key, &Rows::default()).unwrap(), None);
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
    assert!(files(&path).contains(&format!("{}-000001.total", job("1").job_digest())), "{:?}", files(&path));
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
    assert!(text.contains("another job is running here: lambda was 1, now it is 2"), "{text}");
    other.join(&job("1")).unwrap();
    let journal = Journal::with_engine(&other);
    let pass = Pass { journal: Some(&journal), ..Pass::new(16, 100, sequential()) };
    let text = pass.resume("means", &rows, &StatisticsReduction::new(rows.shape())).unwrap_err().to_string();
    assert!(text.contains("belongs to the pass \"first\" instead of the pass \"means\""), "{text}");
}

#[test]
fn a_stop_is_heard_while_waiting() {
    struct Stop;
    impl Observer for Stop {
        fn advance(&self, _: u64) {}
        fn should_stop(&self) -> bool {
            // only after this process has folded its own segments
            std::thread::current().name().is_some_and(|name| name.contains("a_stop_is_heard"))
        }
    }
    let data = folder();
    let rows = usual_rows(&split(data.path(), 900, &[], 100));
    let other = engine(data.path());
    other.join(&job("1")).unwrap();
    let (key, _) =
        other.begin_pass("sums", Cut { tile_rows: 16, segment_rows: 100, start_row: 0, end_row: 900 }).unwrap();
    other.claim_lot(&key, &Rows::default()).unwrap();
    let engine = engine(data.path());
    engine.join(&job("1")).unwrap();
    let journal = Journal::with_engine(&engine);
    let pass = Pass { journal: Some(&journal), observer: &Stop, ..Pass::new(16, 100, sequential()) };
    let outcome = pass.resume("sums", &rows, &StatisticsReduction::new(rows.shape()));
    assert!(matches!(outcome, Err(Error::Interrupted)));
}

/// Adds entries that do not belong to the run: files with names like states, a folder, links.
#[cfg(unix)]
fn files_of_others(path: &Path) -> Vec<String> {
    let names = ["thesis.tex", "job", "000001.total", "000001-000000000.0", "x.alive", ".kmill-notes.tmp"];
    std::fs::create_dir_all(path.join("photographs")).unwrap();
    names.iter().for_each(|name| std::fs::write(path.join(name), "years of work").unwrap());
    std::fs::write(path.join("photographs/000001.total"), "summer").unwrap();
    std::os::unix::fs::symlink("thesis.tex", path.join("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", path.join("000002.total")).unwrap();
    files(path)
}

#[cfg(unix)]
#[test]
fn what_others_keep_in_the_folder_stays() {
    let data = folder();
    let rows = usual_rows(&split(data.path(), 900, &[], 100));
    let path = data.path().join("states");
    let before = files_of_others(&path);
    for over in [true, false] {
        let engine = engine(&path);
        engine.join(&job("1")).unwrap();
        let found = ["first", "second"].map(|name| pass(&engine, name, 100, 2, &rows));
        assert_eq!(found[0], reduce_alone(100, &rows));
        // the run is complete, or it is interrupted and another process completes it
        engine.leave(over);
        if !over {
            let again = self::engine(&path);
            again.join(&job("1")).unwrap();
            again.leave(true);
        }
        assert_eq!(files(&path), before);
    }
    assert_eq!(std::fs::read_to_string(path.join("thesis.tex")).unwrap(), "years of work");
    assert_eq!(std::fs::read_to_string(path.join("photographs/000001.total")).unwrap(), "summer");
}

#[test]
fn states_of_another_job_never_mix() {
    let (data, other) = (folder(), folder());
    let rows = usual_rows(&split(data.path(), 900, &[], 100));
    let others = usual_rows(&split(other.path(), 700, &[], 100));
    let path = data.path().join("states");
    let start = |lambda: &str| {
        let engine = engine(&path);
        engine.join(&job(lambda)).unwrap();
        engine
    };
    let first = start("1");
    let found = pass(&first, "sums", 100, 1, &rows);
    first.leave(false);
    // the totals are present, but the file that names their job is not
    files(&path)
        .iter()
        .filter(|name| name.ends_with("job"))
        .for_each(|name| std::fs::remove_file(path.join(name)).unwrap());
    let second = start("2");
    assert_eq!(pass(&second, "sums", 100, 1, &others), reduce_alone(100, &others));
    second.leave(true);
    let again = start("1");
    assert_eq!(pass(&again, "sums", 100, 1, &rows), found);
    again.leave(false);
    // a total under the name of another job
    let [one, two] = ["1", "2"].map(|lambda| job(lambda).job_digest());
    std::fs::rename(path.join(format!("{one}-000001.total")), path.join(format!("{two}-000001.total"))).unwrap();
    let second = start("2");
    let journal = Journal::with_engine(&second);
    let pass = Pass { journal: Some(&journal), ..Pass::new(16, 100, sequential()) };
    let text = pass.resume("sums", &others, &StatisticsReduction::new(others.shape())).unwrap_err().to_string();
    assert!(text.contains(&format!("belongs to the job {one} instead of the job {two}")), "{text}");
}

/// A folder that removes files slowly, like a network file system.
struct Slow(Folder);

impl Medium for Slow {
    fn location(&self) -> PathBuf {
        self.0.location()
    }
    fn create(&self, name: &str, text: &[u8]) -> kstore::Result<bool> {
        self.0.create(name, text)
    }
    fn replace(&self, name: &str, text: &[u8]) -> kstore::Result<()> {
        self.0.replace(name, text)
    }
    fn read(&self, name: &str) -> kstore::Result<Option<Vec<u8>>> {
        self.0.read(name)
    }
    fn contains(&self, name: &str) -> kstore::Result<bool> {
        self.0.contains(name)
    }
    fn remove(&self, name: &str) -> kstore::Result<()> {
        std::thread::sleep(Duration::from_millis(30));
        self.0.remove(name)
    }
    fn names(&self) -> kstore::Result<Vec<String>> {
        self.0.names()
    }
    fn put(&self, name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> kstore::Result<()> {
        self.0.put(name, write)
    }
    fn get(&self, name: &str) -> kstore::Result<Option<MediumFile>> {
        self.0.get(name)
    }
}

#[test]
fn a_slow_end_of_one_job_and_the_start_of_another_overlap() {
    let (data, other) = (folder(), folder());
    let rows = usual_rows(&split(data.path(), 900, &[], 100));
    let others = usual_rows(&split(other.path(), 700, &[], 100));
    let path = data.path().join("states");
    let names = ["a", "b", "c", "d", "e", "f"];
    for lambdas in [["1", "2"], ["1", "1"]] {
        let first = SharedEngine::new(Arc::new(Slow(Folder::open(&path).unwrap())));
        first.join(&job(lambdas[0])).unwrap();
        names.iter().for_each(|name| drop(pass(&first, name, 100, 1, &rows)));
        let table = if lambdas[0] == lambdas[1] { &rows } else { &others };
        let expected = reduce_alone(100, table);
        std::thread::scope(|scope| {
            let ending = scope.spawn(|| first.leave(true));
            std::thread::sleep(Duration::from_millis(40));
            let second = [(); 2].map(|()| {
                scope.spawn(|| {
                    let engine = engine(&path);
                    engine.join(&job(lambdas[1])).unwrap();
                    let found = names.map(|name| pass(&engine, name, 100, 1, table));
                    engine.leave(true);
                    found
                })
            });
            for process in second {
                assert!(process.join().unwrap().iter().all(|found| *found == expected), "{lambdas:?}");
            }
            ending.join().unwrap();
        });
        assert!(files(&path).is_empty(), "{:?}", files(&path));
    }
}

#[cfg(unix)]
#[test]
fn a_state_that_is_removed_is_given_again() {
    let data = folder();
    let (cut, name) = (Cut { tile_rows: 16, segment_rows: 100, start_row: 0, end_row: 900 }, |end: &str| {
        format!("{}-{end}", job("1").job_digest())
    });
    // with the default patience neither process counts as gone on a busy machine
    let [one, two] = [(); 2].map(|()| SharedEngine::in_folder(data.path()).unwrap());
    [&one, &two].iter().for_each(|engine| engine.join(&job("1")).unwrap());
    let (key, _) = one.begin_pass("sums", cut).unwrap();
    two.begin_pass("sums", cut).unwrap();
    let give = |lot: std::ops::Range<u64>| one.store_node(&key, &Node { segments: lot, row_count: 0 }, None).unwrap();
    while let Some(lot) = one.claim_lot(&key, &Rows::default()).unwrap() {
        give(lot);
    }
    // computed once: two threads that write the row files would read each other's partial files
    let shape = usual_rows(&split(data.path(), 9, &[], 9)).shape();
    let take = |engine: &SharedEngine, segment: u64| {
        let mut state = Reduction::<f64>::init(&StatisticsReduction::new(shape));
        engine.wait_for_node(&key, segment, &mut state, &Rows::default())
    };
    // the second process merges, and waits for the states of the first
    assert!(matches!(take(&two, 0).unwrap(), NodeOutcome::Received(_)));
    std::fs::remove_file(data.path().join(name("000001-000000003"))).unwrap();
    std::thread::scope(|scope| {
        let merging = scope.spawn(|| take(&two, 3));
        let lost = take(&one, 3).unwrap();
        give(3..4);
        assert!(matches!(merging.join().unwrap().unwrap(), NodeOutcome::Received(_)));
        assert_eq!(lost, NodeOutcome::Lost(3..4));
    });
    // a claim that is a symbolic link belongs to no process and is never released
    for end in ["000001-000000005", "000001-000000005.0"] {
        std::fs::remove_file(data.path().join(name(end))).unwrap();
    }
    std::os::unix::fs::symlink("nowhere", data.path().join(name("000001-000000005.0"))).unwrap();
    let text = take(&two, 5).unwrap_err().to_string();
    assert!(text.contains("000001-000000005.0 is a link, a folder or a device"), "{text}");
}

#[test]
fn a_run_ends_whatever_is_removed_under_it() {
    let data = folder();
    let rows = usual_rows(&split(data.path(), 900, &[], 100));
    let path = data.path().join("states");
    // the folder must exist before it is listed, and on a busy machine a thread may start late
    std::fs::create_dir(&path).unwrap();
    let one = reduce_alone(10, &rows);
    let begun = std::time::Instant::now();
    std::thread::scope(|scope| {
        let running = [0, 1, 2].map(|worker| {
            let (path, rows) = (&path, &rows);
            scope.spawn(move || {
                let engine = engine(path);
                engine.join(&job("1")).unwrap();
                let journal = Journal::with_engine(&engine);
                let pass = Pass { lane_count: 1 + worker, journal: Some(&journal), ..Pass::new(16, 10, sequential()) };
                let fold = StatisticsReduction::new(rows.shape());
                // rows may be folded, and therefore reported, twice
                let found = ["a", "b", "c", "d"].map(|name| bits(&pass.resume(name, rows, &fold).unwrap().0));
                engine.leave(true);
                found
            })
        });
        while begun.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(Duration::from_millis(7));
            // a file may be removed by the run in the meantime
            files(&path)
                .iter()
                .filter(|name| !name.starts_with('.'))
                .for_each(|name| drop(std::fs::remove_file(path.join(name))));
        }
        for process in running {
            assert!(process.join().unwrap().iter().all(|found| *found == one));
        }
    });
}
