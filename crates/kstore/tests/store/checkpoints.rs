//! Passes that stop and continue: the same bits, nothing read twice, no trust in files on disk.

use crate::make::*;
use kstore::checkpoint::{Journal, Listener, Manifest, ResumeMode, StoredArrays};
use kstore::pass::{NoObserver, Observer};
use kstore::source::Identity;
use kstore::{Error, Pass, Reduction, RowBlock, RowSource, Statistics, StatisticsReduction, TableRows, Workers};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A listener that stores its messages.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Heard {
    fn has(&self, part: &str) -> bool {
        self.0.lock().unwrap().iter().any(|text| text.contains(part))
    }
}

impl Listener for Heard {
    fn note(&self, text: String) {
        self.0.lock().unwrap().push(format!("note: {text}"));
    }
    fn warn(&self, text: String) {
        self.0.lock().unwrap().push(format!("warning: {text}"));
    }
}

fn manifest(files: Vec<Identity>) -> Manifest {
    let options = [("rank", "10"), ("seed", "0")].map(|(name, value)| (name.to_string(), value.to_string()));
    Manifest { version: "1".to_string(), instruction_set: "abacus".to_string(), options: options.into(), files }
}

/// Opens a journal that saves after every segment.
fn journal<'a>(folder: &Path, manifest: &Manifest, resume: bool, heard: &'a Heard) -> kstore::Result<Journal<'a>> {
    Journal::open(
        folder.join("checkpoint"),
        manifest,
        Duration::ZERO,
        if resume { ResumeMode::Required } else { ResumeMode::Never },
        heard,
    )
}

/// A reduction to two statistics at once: its states have tuples, labels and moments.
struct Twice(StatisticsReduction);

impl Reduction<f64> for Twice {
    type State = (Statistics, Statistics);
    type Scratch = <StatisticsReduction as Reduction<f64>>::Scratch;
    type Error = Error;
    fn init(&self) -> Self::State {
        let one = || Reduction::<f64>::init(&self.0);
        (one(), one())
    }
    fn scratch(&self) -> Self::Scratch {
        Reduction::<f64>::scratch(&self.0)
    }
    fn step(
        &self,
        state: &mut Self::State,
        scratch: &mut Self::Scratch,
        block: &RowBlock<'_, f64>,
        workers: &Workers,
    ) -> kstore::Result<()> {
        self.0.step(&mut state.0, scratch, block, workers)?;
        self.0.step(&mut state.1, scratch, block, workers)
    }
}

fn bits(statistics: &Statistics) -> Vec<u64> {
    let moments = statistics.inputs.iter().chain(&statistics.targets);
    let numbers = moments.flat_map(|m| [m.count, m.mean.to_bits(), m.m2.to_bits(), m.min.to_bits(), m.max.to_bits()]);
    numbers
        .chain([statistics.rows])
        .chain(statistics.groups.sorted_counts().into_iter().map(|(_, count)| count))
        .collect()
}

fn fold(rows: &TableRows<f64>) -> Twice {
    Twice(StatisticsReduction::new(rows.shape()))
}

/// An observer that stops a pass after the given number of `stop` calls.
struct Asked(AtomicU64, u64);

impl Observer for Asked {
    fn advance(&self, _: u64) {}
    fn should_stop(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) >= self.1
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn stopped_anywhere_the_bits_are_the_same(
        cuts in prop::collection::vec(0u64..900, 0..3),
        segment in 30u64..300,
        patience in 1u64..20,
        lanes in prop::collection::vec(1usize..4, 3),
    ) {
        let folder = folder();
        let rows = usual_rows(&split(folder.path(), 900, &cuts, 100));
        let fold = fold(&rows);
        let pass = Pass { tile_rows: 16, segment_rows: segment, lane_count: 1, prefetch_tiles: 1, workers: sequential(), observer: &NoObserver, journal: None };
        let (whole, report) = pass.reduce(&rows, &fold).unwrap();
        let manifest = manifest(rows.selected().table().identities());
        // the limit grows with every run, so that even the longest segment completes eventually
        for run in 0u64.. {
            let heard = Heard::default();
            let journal = journal(folder.path(), &manifest, run > 0, &heard).unwrap();
            let observer = Asked(AtomicU64::new(0), patience * (run + 1));
            let lanes = lanes[run as usize % 3];
            let pass = Pass { lane_count: lanes, observer: &observer, journal: Some(&journal), ..pass };
            let outcome = pass.resume("first", &rows, &fold).and_then(|first| Ok((first, pass.resume("second", &rows, &fold)?)));
            match outcome {
                Err(error) => prop_assert!(matches!(error, Error::Interrupted), "{}", error),
                Ok((first, second)) => {
                    for ((a, b), other) in [first, second] {
                        prop_assert_eq!(bits(&a), bits(&whole.0));
                        prop_assert_eq!(bits(&b), bits(&whole.1));
                        prop_assert_eq!(a.groups.sorted_counts(), whole.0.groups.sorted_counts());
                        prop_assert_eq!(other.rows, report.rows);
                    }
                    journal.finish();
                    prop_assert!(!folder.path().join("checkpoint").exists());
                    break;
                }
            }
            prop_assert!(!heard.has("warning"), "{:?}", heard.0);
        }
    }
}

/// Returns the endings of the file names of a checkpoint, after the mark of the run.
fn ends(folder: &Path) -> Vec<String> {
    names_in(&folder.join("checkpoint")).iter().map(|name| name[16..].to_string()).collect()
}

/// Returns the file of a checkpoint whose name has this ending.
fn part(folder: &Path, end: &str) -> PathBuf {
    let checkpoint = folder.join("checkpoint");
    let name = names_in(&checkpoint).into_iter().find(|name| name.ends_with(end)).unwrap();
    checkpoint.join(name)
}

/// Runs a complete pass and one that stops after some saved segments; returns rows and manifest.
fn stop_run(folder: &Path) -> (TableRows<f64>, Manifest) {
    let rows = usual_rows(&split(folder, 1000, &[], 100));
    let manifest = manifest(rows.selected().table().identities());
    let heard = Heard::default();
    let journal = journal(folder, &manifest, false, &heard).unwrap();
    // a pass calls `stop` for 63 tiles and 16 segment ends; the second pass stops in segment five
    let observer = Asked(AtomicU64::new(0), 63 + 16 + 22);
    let pass = Pass { observer: &observer, journal: Some(&journal), ..pass() };
    pass.resume("first", &rows, &fold(&rows)).unwrap();
    let error = pass.resume("second", &rows, &fold(&rows)).unwrap_err();
    assert!(matches!(error, Error::Interrupted) && journal.has_saved_state(), "{error}");
    assert_eq!(ends(folder), ["-0001.safetensors", "-0002.safetensors", ".json"]);
    (rows, manifest)
}

fn pass() -> Pass<'static> {
    Pass::new(16, 64, sequential())
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Resumes and checks both passes; returns the messages and the bytes read, in percent of a pass.
fn resumed(folder: &Path, rows: &TableRows<f64>, manifest: &Manifest) -> (Heard, u64) {
    let heard = Heard::default();
    let before = rows.bytes_read();
    let journal = journal(folder, manifest, true, &heard).unwrap();
    let pass = Pass { journal: Some(&journal), ..pass() };
    let (whole, _) = self::pass().reduce(rows, &fold(rows)).unwrap();
    let folding = rows.bytes_read() - before;
    for name in ["first", "second"] {
        let ((found, _), report) = pass.resume(name, rows, &fold(rows)).unwrap();
        assert_eq!((bits(&found), report.rows), (bits(&whole.0), 1000));
    }
    let read = rows.bytes_read() - before - folding;
    drop(journal);
    (heard, read * 100 / folding)
}

#[test]
fn what_is_saved_is_not_read_again() {
    let folder = folder();
    let (rows, manifest) = stop_run(folder.path());
    let (heard, percent) = resumed(folder.path(), &rows, &manifest);
    assert!(heard.has("note: first: 1000 rows are in the checkpoint, complete"), "{:?}", heard.0);
    assert!(heard.has("rows are in the checkpoint, incomplete"), "{:?}", heard.0);
    // four or five of sixteen segments were complete
    assert!((60..=85).contains(&percent), "{percent} % of a pass");
    assert_eq!(resumed(folder.path(), &rows, &manifest).1, 0);
    // the same file under another name
    let mut renamed = manifest.clone();
    renamed.files[0].path = PathBuf::from("elsewhere");
    let (heard, percent) = resumed(folder.path(), &rows, &renamed);
    assert!(percent == 0 && !heard.has("warning"), "{percent} %: {:?}", heard.0);
}

#[test]
fn a_damaged_entry_is_done_again() {
    let folder = folder();
    let (rows, manifest) = stop_run(folder.path());
    let path = part(folder.path(), "-0001.safetensors");
    let good = std::fs::read(&path).unwrap();
    StoredArrays::parse(&good).unwrap().verify().unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        // a flipped bit in the padding or in a header name may be harmless; others are detected
        let outcome = StoredArrays::parse(&bad).and_then(|mut entry| entry.verify());
        let header = 8 + u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
        assert!(outcome.is_err() || at < header, "byte {at}");
    }
    let cut = |length: usize| good[..length].to_vec();
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 0x80;
    for bad in [cut(0), cut(7), cut(20), cut(good.len() - 1), flipped, [&good[..], &[0]].concat(), vec![0xff; 100]] {
        std::fs::write(&path, &bad).unwrap();
        assert!(StoredArrays::parse(&bad).and_then(|mut entry| entry.verify()).is_err());
        let (heard, _) = resumed(folder.path(), &rows, &manifest);
        assert!(
            heard.has("0001.safetensors is damaged") && heard.has("the pass \"first\" is repeated"),
            "{:?}",
            heard.0
        );
    }
    // an entry of another pass
    std::fs::copy(part(folder.path(), "-0002.safetensors"), &path).unwrap();
    let (heard, _) = resumed(folder.path(), &rows, &manifest);
    assert!(heard.has("it belongs to the pass \"second\" of another run"), "{:?}", heard.0);
    // a partial file of a killed run is removed
    std::fs::write(folder.path().join("checkpoint/.kmill-abcdef.tmp"), "half").unwrap();
    resumed(folder.path(), &rows, &manifest);
    assert_eq!(ends(folder.path()), ["-0001.safetensors", "-0002.safetensors", ".json"]);
}

#[test]
fn a_checkpoint_of_another_run_is_refused_with_the_difference() {
    let folder = folder();
    let (rows, manifest) = stop_run(folder.path());
    let refused = |other: &Manifest, part: &str| {
        let heard = Heard::default();
        let error = journal(folder.path(), other, true, &heard).unwrap_err();
        assert!(matches!(error, Error::OtherCheckpoint { .. }), "{error}");
        assert!(error.to_string().contains(part) && error.to_string().contains("`fresh`"), "{error}");
    };
    let with = |change: &dyn Fn(&mut Manifest)| {
        let mut other = manifest.clone();
        change(&mut other);
        other
    };
    refused(&with(&|m| m.version = "2".to_string()), "written by version 1, but this is version 2");
    refused(&with(&|m| m.instruction_set = "fingers".to_string()), "written with abacus instructions");
    refused(&with(&|m| drop(m.options.insert("rank".to_string(), "20".to_string()))), "rank was 10, now it is 20");
    refused(&with(&|m| drop(m.options.remove("seed"))), "seed was 0, now it is not set");
    refused(&with(&|m| m.files.clear()), "its table has 1 files, but this one has 0");
    refused(&with(&|m| m.files[0].length += 1), "bytes and has");
    refused(&with(&|m| m.files[0].modified += 1), "it was written to");
    refused(&with(&|m| m.files[0].digest.push('0')), "its first or last bytes changed");
    let path = manifest.files[0].path.display().to_string();
    refused(&with(&|m| m.files[0].length += 1), &path);
    let page = part(folder.path(), ".json");
    let text = std::fs::read_to_string(&page).unwrap();
    std::fs::write(&page, text.replace("\"format\": 2", "\"format\": 9")).unwrap();
    refused(&manifest, "checkpoint format 9, but this version writes 2");
    // an unreadable manifest does not count as another run: the work restarts
    for damaged in ["", "{}", "{\"format\": 2}", "\u{fffd}"] {
        std::fs::write(&page, damaged).unwrap();
        let heard = Heard::default();
        journal(folder.path(), &manifest, true, &heard).unwrap();
        assert!(heard.has(".json is damaged") && heard.has("starting over"), "{damaged}: {:?}", heard.0);
    }
    // nothing has changed so far; without resume, the first pass replaces the checkpoint
    let heard = Heard::default();
    let journal = journal(folder.path(), &manifest, false, &heard).unwrap();
    assert_eq!(ends(folder.path()).len(), 3);
    Pass { journal: Some(&journal), ..pass() }.resume("first", &rows, &fold(&rows)).unwrap();
    assert!(heard.has("is replaced"), "{:?}", heard.0);
    assert_eq!(ends(folder.path()), ["-0001.safetensors", ".json"]);
}

#[test]
fn the_same_run_continues_by_itself_and_another_one_starts_afresh() {
    let folder = folder();
    let (rows, manifest) = stop_run(folder.path());
    let mut other = manifest.clone();
    other.options.insert("rank".to_string(), "20".to_string());
    for (run, opened, began) in [
        (&manifest, "continuing from", "first: 1000 rows are in the checkpoint, complete"),
        (&other, "another run: rank was 10, now it is 20", "of an earlier run is replaced"),
    ] {
        let heard = Heard::default();
        let path = folder.path().join("checkpoint");
        let journal = Journal::open(path, run, Duration::ZERO, ResumeMode::IfSame, &heard).unwrap();
        assert!(heard.has(opened), "{:?}", heard.0);
        Pass { journal: Some(&journal), ..pass() }.resume("first", &rows, &fold(&rows)).unwrap();
        assert!(heard.has(began), "{:?}", heard.0);
    }
}

#[test]
fn folders_of_others_and_disks_that_refuse() {
    let folder = folder();
    let rows = usual_rows(&split(folder.path(), 500, &[], 100));
    let manifest = manifest(rows.selected().table().identities());
    let heard = Heard::default();
    std::fs::create_dir(folder.path().join("checkpoint")).unwrap();
    std::fs::write(folder.path().join("checkpoint/thesis.tex"), "years of work").unwrap();
    for resume in [false, true] {
        let error = journal(folder.path(), &manifest, resume, &heard).unwrap_err();
        assert!(matches!(&error, Error::NotACheckpoint { found, .. } if found.ends_with("thesis.tex")), "{error}");
    }
    // names that resemble those of a checkpoint, and a link with such a name
    std::fs::remove_file(folder.path().join("checkpoint/thesis.tex")).unwrap();
    #[cfg(unix)]
    for name in ["manifest.json", "0001.safetensors", ".kmill-notes.tmp", "0123456789abcdef-0001.safetensors"] {
        let path = folder.path().join("checkpoint").join(name);
        match name.starts_with("0123") {
            true => std::os::unix::fs::symlink("/dev/null", &path).unwrap(),
            false => std::fs::write(&path, "{\"format\": 2}").unwrap(),
        }
        let error = journal(folder.path(), &manifest, false, &heard).unwrap_err();
        assert!(matches!(&error, Error::NotACheckpoint { found, .. } if *found == path), "{error}");
        std::fs::remove_file(&path).unwrap();
    }
    std::fs::remove_dir_all(folder.path().join("checkpoint")).unwrap();
    // no folder can be created below a file, so the pass continues without a checkpoint
    std::fs::write(folder.path().join("file"), "").unwrap();
    let nowhere = folder.path().join("file/checkpoint");
    let journal = Journal::open(nowhere, &manifest, Duration::ZERO, ResumeMode::Never, &heard);
    // some systems report at once that the path contains a file
    if let Ok(journal) = journal {
        let pass = Pass { journal: Some(&journal), ..pass() };
        assert_eq!(pass.resume("first", &rows, &fold(&rows)).unwrap().1.rows, 500);
        assert!(heard.has("warning: the checkpoint was not saved"), "{:?}", heard.0);
        assert!(!journal.has_saved_state());
    }
}

#[test]
fn short_runs_leave_no_trace() {
    let folder = folder();
    let rows = usual_rows(&split(folder.path(), 500, &[], 100));
    let manifest = manifest(rows.selected().table().identities());
    let heard = Heard::default();
    let path = folder.path().join("checkpoint");
    let journal =
        Journal::open(&path, &manifest, kstore::checkpoint::SAVE_INTERVAL, ResumeMode::Required, &heard).unwrap();
    assert!(heard.has("checkpoint does not exist: starting over"), "{:?}", heard.0);
    let observer = Asked(AtomicU64::new(0), 40);
    let pass = Pass { observer: &observer, journal: Some(&journal), ..pass() };
    pass.resume("first", &rows, &fold(&rows)).unwrap();
    pass.resume("second", &rows, &fold(&rows)).unwrap_err();
    assert!(!journal.has_saved_state() && !path.exists());
}
