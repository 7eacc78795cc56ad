//! Checkpoints: the states of a run's passes on disk, so that a stopped run continues with the same
//! bits.
//!
//! A run is a fixed sequence of passes with pure computation between them. A [`Journal`] is a
//! folder with a manifest, which identifies the run, and one safetensors file for each pass that
//! was worth saving. Such a file contains the merged state of the pass's first segments (fixed
//! ranges of rows, see [`pass`](crate::pass)). The file names begin with a digest of the run's
//! manifest: a run writes and removes only files with such names, and rejects a folder that
//! contains other files. A resumed run recomputes everything that is not in a file. It skips the
//! rows of a complete pass, continues an incomplete pass at the segment where the pass stopped, and
//! starts a pass without a file at the first segment. States are merged in segment order either
//! way, so the result has the same bits as without a stop, whatever the threads and the memory of
//! the two runs.
//!
//! ```text
//! model.safetensors.checkpoint/
//!     MARK.json               program, instruction set, options; length, time, digest of each file
//!     MARK-0001.safetensors   pass 1, complete
//!     MARK-0003.safetensors   pass 3, the first 40 segments
//! ```
//!
//! A save is due after [`SAVE_INTERVAL`], or later if saves would otherwise take more than a
//! twentieth of the time. A state is written directly from its arrays to a temporary file, which is
//! then renamed. It is read back into the arrays that [`crate::Reduction::init`] made. Neither
//! writing nor reading needs memory for a second copy of the state.

mod engine;
mod entry;
mod file;
mod manifest;
mod medium;
mod persist;
mod states;
mod steps;

pub use crate::real::Number;
pub use engine::{
    Engine, LotRows, NoObserver, Node, NodeOutcome, Observer, PartialRows, PassKey, ReductionMode, RowsKey,
};
pub(crate) use entry::Entry;
pub use file::{Arrays, Cut, METADATA_KEY, StoredArrays, safetensors_header};
pub use manifest::Manifest;
pub use medium::{Folder, Medium, MediumFile};
pub use persist::{Merge, Persist};
pub(crate) use states::put_state;
pub use states::{StateFile, StateKey, StateWriter};
pub use steps::Steps;

use crate::atomic::is_temporary;
use crate::digest::Digest;
use crate::{AtomicFile, Error, Result, display};
use entry::{restore, verify};
use file::EntryHeader;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

/// Version of the layout of manifest and entries.
pub const FORMAT_VERSION: u64 = 2;

/// Default time between two saves of a pass. A crash may cost the work of this time.
pub const SAVE_INTERVAL: Duration = Duration::from_secs(30);

/// When a pass or a run ends, the state is saved if otherwise at least 1\/`MIN_LOSS_DIVISOR` of the
/// time between saves would be lost. With the default of 30 s between saves, this is a second of
/// work.
const MIN_LOSS_DIVISOR: u32 = 30;

/// A save is due only if the unsaved work took at least this many times as long as a save.
const SAVE_COST_FACTOR: u32 = 20;

/// Assumed speed of the first save, in bytes per second: a modest disk, including the flush.
const DEFAULT_BYTES_PER_SECOND: f64 = 350e6;

/// Seconds that a save of any size takes: two flushes.
const FLUSH_SECONDS: f64 = 0.02;

/// Ending of the name of the manifest file.
const MANIFEST_SUFFIX: &str = ".json";

/// How a run uses an existing checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResumeMode {
    /// Continues from a checkpoint of the same run, and replaces a checkpoint of another run.
    #[default]
    IfSame,
    /// Continues, and rejects the checkpoint of another run.
    Required,
    /// Starts afresh, and replaces the checkpoint.
    Never,
}

/// A receiver of the messages of a journal.
pub trait Listener: Sync {
    /// Receives a message about an expected event.
    fn note(&self, text: String);
    /// Receives a warning about a failure, after which the run continues.
    fn warn(&self, text: String);
}

struct NoListener;

impl Listener for NoListener {
    fn note(&self, _: String) {}
    fn warn(&self, _: String) {}
}

/// The content of the manifest file: the manifest and the version of the layout.
#[derive(Serialize, Deserialize)]
struct ManifestFile {
    format: u64,
    #[serde(flatten)]
    manifest: Manifest,
}

/// The checkpoint of a run.
///
/// Nothing is on disk before the first save, so short runs create no files.
pub struct Journal<'a> {
    folder: PathBuf,
    manifest_json: String,
    run_digest: String,
    save_interval: Duration,
    listener: &'a dyn Listener,
    /// Engine, if several processes share the passes; nothing is then saved on disk.
    engine: Option<&'a dyn Engine>,
    /// True if entries of an earlier run may be used.
    reuses_entries: bool,
    cleanup_once: Once,
    next_pass_number: AtomicU64,
    has_saved: AtomicBool,
    /// Bytes per second of the last save.
    bytes_per_second: Mutex<f64>,
}

impl std::fmt::Debug for Journal<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal")
            .field("folder", &self.folder)
            .field("every", &self.save_interval)
            .finish_non_exhaustive()
    }
}

impl<'a> Journal<'a> {
    /// Opens the journal of the run that `manifest` describes, in `folder`. The journal saves about
    /// once per `save_interval`.
    ///
    /// Entries that `resume_mode` does not use are removed when the first pass begins. Nothing is
    /// written yet.
    ///
    /// # Errors
    /// [`Error::OtherCheckpoint`] if [`ResumeMode::Required`] finds the entries of another run;
    /// [`Error::NotACheckpoint`] for a folder that contains other files; [`Error::Io`].
    pub fn open(
        folder: impl Into<PathBuf>,
        manifest: &Manifest,
        save_interval: Duration,
        resume_mode: ResumeMode,
        listener: &'a dyn Listener,
    ) -> Result<Self> {
        let folder = folder.into();
        let manifest_json =
            manifest_json(manifest).map_err(|detail| Error::Damaged { path: folder.clone(), detail })?;
        let (run_digest, files) = (run_digest(manifest), checkpoint_files(&folder)?);
        let is_same = match resume_mode {
            ResumeMode::Never => Ok(false),
            _ if !files.is_empty() => is_same_run(&folder, &run_digest, &files, manifest, listener),
            ResumeMode::Required => {
                listener.note(format!("the checkpoint {} does not exist: starting over", folder.display()));
                Ok(false)
            }
            ResumeMode::IfSame => Ok(false),
        };
        let reuses_entries = match is_same {
            Err(Error::OtherCheckpoint { difference, .. }) if resume_mode == ResumeMode::IfSame => {
                listener.note(format!("{} is the checkpoint of another run: {difference}", folder.display()));
                false
            }
            is_same => is_same?,
        };
        if reuses_entries && resume_mode == ResumeMode::IfSame {
            let folder = folder.display();
            listener.note(format!("the same run was stopped before: continuing from {folder} (`fresh` starts over)"));
        }
        Ok(Self {
            run_digest,
            manifest_json,
            save_interval,
            reuses_entries,
            has_saved: AtomicBool::new(reuses_entries),
            ..Self::with_defaults(folder, listener, None)
        })
    }

    /// Returns a journal whose passes use an engine: this process and others share the rows.
    /// Nothing is saved for a later run.
    pub fn with_engine(engine: &'a dyn Engine) -> Self {
        Self::with_defaults(PathBuf::new(), &NoListener, Some(engine))
    }

    fn with_defaults(folder: PathBuf, listener: &'a dyn Listener, engine: Option<&'a dyn Engine>) -> Self {
        Self {
            folder,
            manifest_json: String::new(),
            run_digest: String::new(),
            save_interval: SAVE_INTERVAL,
            listener,
            engine,
            reuses_entries: false,
            cleanup_once: Once::new(),
            next_pass_number: AtomicU64::new(1),
            has_saved: AtomicBool::new(false),
            bytes_per_second: Mutex::new(DEFAULT_BYTES_PER_SECOND),
        }
    }

    /// Returns true if passes use an engine.
    pub fn is_shared(&self) -> bool {
        self.engine.is_some()
    }

    /// Returns the engine that shares the passes; `None` if the journal saves to disk.
    pub fn engine(&self) -> Option<&'a dyn Engine> {
        self.engine
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns true if a later run can continue from the checkpoint: this run or an earlier one has
    /// saved a state.
    pub fn has_saved_state(&self) -> bool {
        self.has_saved.load(Ordering::Relaxed)
    }

    /// Removes the checkpoint after the run has completed.
    pub fn finish(self) {
        if self.has_saved_state()
            && let Err(error) = remove_checkpoint(&self.folder)
        {
            self.listener.warn(format!(
                "the checkpoint {} of the completed run was not removed: {error}",
                self.folder.display()
            ));
        }
    }

    /// Begins the next pass: returns its entry, and the state saved in it, if any. `init` returns
    /// the initial state, into which the saved state is loaded. At the first call, removes the
    /// files of earlier runs that are not used. `unit` is the noun of the counts in messages.
    pub(crate) fn next_entry_and_state<S: Persist>(
        &self,
        pass: &str,
        cut: Cut,
        unit: &str,
        init: impl FnOnce() -> S,
    ) -> (Entry<'_>, Option<S>) {
        let (mut entry, is_saved) = self.next_entry(pass, cut);
        let mut state = None;
        if is_saved {
            let mut restored_state = init();
            match restore(&entry.path, &mut entry.header, &mut restored_state) {
                Ok(()) => {
                    self.report_restored(&entry.header, unit);
                    state = Some(restored_state);
                }
                Err(error) => {
                    self.listener.warn(format!("{error}; the pass \"{}\" is repeated", entry.header.pass));
                }
            }
        }
        (entry, state)
    }

    /// Returns true if an earlier run has saved an entry of the next pass that is not damaged.
    fn has_saved_entry(&self, pass: &str, cut: Cut) -> bool {
        let path = self.entry_path(self.next_pass_number.load(Ordering::Relaxed));
        self.reuses_entries && path.exists() && verify(&path, &self.new_header(pass, cut)).is_ok()
    }

    fn entry_path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{}-{number:04}.safetensors", self.run_digest))
    }

    fn new_header(&self, pass: &str, cut: Cut) -> EntryHeader {
        EntryHeader {
            run: self.run_digest.clone(),
            pass: pass.to_string(),
            cut,
            merged_segments: 0,
            row_count: 0,
            is_complete: false,
        }
    }

    /// Begins the next pass: returns its entry, and whether an earlier run has saved it. At the
    /// first call, removes the files of earlier runs that are not used.
    fn next_entry(&self, pass: &str, cut: Cut) -> (Entry<'_>, bool) {
        self.cleanup_once.call_once(|| self.remove_old_files());
        let number = self.next_pass_number.fetch_add(1, Ordering::Relaxed);
        let path = self.entry_path(number);
        let is_saved = self.reuses_entries && path.exists();
        (
            Entry {
                journal: self,
                path,
                header: self.new_header(pass, cut),
                unsaved_since: Instant::now(),
                has_unsaved_work: false,
            },
            is_saved,
        )
    }

    fn report_restored(&self, header: &EntryHeader, unit: &str) {
        let completeness = if header.is_complete { "complete" } else { "incomplete" };
        self.listener
            .note(format!("{}: {} {unit} are in the checkpoint, {completeness}", header.pass, header.row_count));
    }

    /// Removes the files of earlier runs: all of them or, if the run continues, only temporary
    /// files.
    fn remove_old_files(&self) {
        let removal_result = if self.reuses_entries {
            remove_temporary_files(&self.folder)
        } else {
            if self.folder.exists() {
                self.listener.note(format!("the checkpoint {} of an earlier run is replaced", self.folder.display()));
            }
            remove_checkpoint(&self.folder)
        };
        if let Err(error) = removal_result {
            self.listener.warn(error.to_string());
        }
    }

    fn save_cost(&self, bytes: usize) -> Duration {
        let speed = *self.bytes_per_second.lock().unwrap_or_else(PoisonError::into_inner);
        Duration::from_secs_f64(FLUSH_SECONDS + bytes as f64 / speed)
    }

    fn write_entry(&self, path: &Path, header: &EntryHeader, arrays: &mut Arrays<'_>) -> Result<()> {
        let start = Instant::now();
        if !self.has_saved.load(Ordering::Relaxed) {
            std::fs::create_dir_all(&self.folder).map_err(Error::io("create", &self.folder))?;
            let mut out =
                AtomicFile::create_checkpoint(&self.folder.join(format!("{}{MANIFEST_SUFFIX}", self.run_digest)))?;
            out.write_all(self.manifest_json.as_bytes()).map_err(Error::io("write", &self.folder))?;
            out.commit()?;
        }
        file::write(path, header, arrays)?;
        self.has_saved.store(true, Ordering::Relaxed);
        let seconds = (start.elapsed().as_secs_f64() - FLUSH_SECONDS).max(1e-3);
        // below a megabyte the speed is not meaningful
        if arrays.bytes() > 1 << 20 {
            *self.bytes_per_second.lock().unwrap_or_else(PoisonError::into_inner) = arrays.bytes() as f64 / seconds;
        }
        Ok(())
    }
}

/// Returns a digest of the manifest without file names, because files may be renamed before the run
/// continues.
fn run_digest(manifest: &Manifest) -> String {
    let mut manifest_without_paths = manifest.clone();
    manifest_without_paths.files.iter_mut().for_each(|file| file.path = PathBuf::new());
    Digest::hex_of(manifest_json(&manifest_without_paths).unwrap_or_default().as_bytes())
}

/// Returns the manifest as JSON with sorted keys.
fn manifest_json(manifest: &Manifest) -> Result<String, String> {
    let json_value = serde_json::to_value(ManifestFile { format: FORMAT_VERSION, manifest: manifest.clone() });
    // the value is sorted, because serde_json sorts maps unless a crate of the dependency tree
    // enables another order: equal runs write equal manifests
    json_value.and_then(|value| serde_json::to_string_pretty(&value)).map_err(|error| error.to_string())
}

/// Returns true if the checkpoint in `folder` belongs to this run, false if it has no readable
/// manifest.
fn is_same_run(
    folder: &Path,
    run_digest: &str,
    files: &[PathBuf],
    manifest: &Manifest,
    listener: &dyn Listener,
) -> Result<bool> {
    let other_run_error = |difference: String| Err(Error::OtherCheckpoint { path: folder.to_path_buf(), difference });
    let own_manifest = folder.join(format!("{run_digest}{MANIFEST_SUFFIX}"));
    let Some(path) =
        files.iter().find(|path| **path == own_manifest).or_else(|| files.iter().find(|path| is_manifest(path)))
    else {
        listener.warn(format!("the checkpoint {} has no manifest; starting over", folder.display()));
        return Ok(false);
    };
    let start_over = |detail: String| {
        let error = Error::Damaged { path: path.clone(), detail };
        listener.warn(format!("{error}; starting over"));
        Ok(false)
    };
    let text = std::fs::read(path).map_err(Error::io("read", path))?;
    let value: serde_json::Value = match serde_json::from_slice(&text) {
        Ok(value) => value,
        Err(error) => return start_over(display::json_error(&error).to_string()),
    };
    match value["format"].as_u64() {
        Some(FORMAT_VERSION) => {}
        Some(format) => {
            return other_run_error(format!(
                "it has checkpoint format {format}, but this version writes {FORMAT_VERSION}"
            ));
        }
        None => return start_over("its format version is missing".to_string()),
    }
    match serde_json::from_value::<ManifestFile>(value) {
        Ok(file) => manifest.difference(&file.manifest).map_or(Ok(true), other_run_error),
        Err(error) => start_over(display::json_error(&error).to_string()),
    }
}

/// Returns the files of a checkpoint; none if the folder does not exist.
fn checkpoint_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in Error::none_if_absent(std::fs::read_dir(folder), "read", folder)?.into_iter().flatten() {
        let entry = entry.map_err(Error::io("read", folder))?;
        // a symbolic link is never part of a checkpoint
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if !is_file || !is_checkpoint_file(&entry.file_name().to_string_lossy()) {
            return Err(Error::NotACheckpoint { path: folder.to_path_buf(), found: entry.path() });
        }
        files.push(entry.path());
    }
    Ok(files)
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

/// Returns true for names of checkpoint files, which begin with a digest, and of temporary files.
fn is_checkpoint_file(name: &str) -> bool {
    let is_entry_suffix = |suffix: &str| {
        let digits = suffix.strip_prefix('-').and_then(|end| end.strip_suffix(".safetensors"));
        digits.is_some_and(|number| number.len() >= 4 && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    is_temporary(name) || Digest::strip_digest(name).is_some_and(|end| end == MANIFEST_SUFFIX || is_entry_suffix(end))
}

/// Removes the half-written files of a killed run.
fn remove_temporary_files(folder: &Path) -> Result<()> {
    let is_temporary_path =
        |path: &&PathBuf| path.file_name().is_some_and(|name| is_temporary(&name.to_string_lossy()));
    checkpoint_files(folder)?.iter().filter(is_temporary_path).try_for_each(|path| remove_file(path))
}

/// Removes a checkpoint, the manifest first: a run never uses files without a manifest.
fn remove_checkpoint(folder: &Path) -> Result<()> {
    let (manifests, entries): (Vec<_>, Vec<_>) =
        checkpoint_files(folder)?.into_iter().partition(|path| is_manifest(path));
    manifests.iter().chain(&entries).try_for_each(|path| remove_file(path))?;
    Error::none_if_absent(std::fs::remove_dir(folder), "remove", folder).map(drop)
}

fn remove_file(path: &Path) -> Result<()> {
    std::fs::remove_file(path).map_err(Error::io("remove", path))
}
