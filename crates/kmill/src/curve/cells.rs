//! The file of finished cells beside the output, with which a stopped curve can go on.

use crate::progress::Progress;
use crate::{Error, Result, pipeline};
use ksolve::curve::{CurveCell, CurveRun};
use kstore::AtomicFile;
use kstore::checkpoint::Manifest;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Version of the format of the file.
const FORMAT: u64 = 1;

/// The content of the file: its version, the options it belongs to, and the cells.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    format: u64,
    manifest: Manifest,
    cells: Vec<CurveCell>,
}

/// The cells so far, and the file they are kept in.
#[derive(Debug)]
pub(super) struct CellsFile {
    place: Option<(PathBuf, Manifest)>,
    cells: Vec<CurveCell>,
    saved: bool,
}

impl CellsFile {
    /// An empty list of cells that is kept in no file.
    pub(super) fn nowhere() -> Self {
        Self { place: None, cells: Vec::new(), saved: false }
    }

    /// The file `OUT.cells.json` beside the output OUT.
    pub(super) fn path(output: &Path) -> PathBuf {
        pipeline::beside(output, ".cells.json")
    }

    /// The file `OUT.cells.json` for the output OUT, with the cells that it holds where the curve is resumed.
    ///
    /// # Errors
    /// A file of another curve under `--resume`, and a file that is none of kmill's.
    pub(super) fn open(output: &Path, manifest: Manifest, resume: bool, progress: &Progress) -> Result<Self> {
        let path = Self::path(output);
        let new = |cells: Vec<CurveCell>, manifest| {
            let saved = !cells.is_empty();
            Self { place: Some((path.clone(), manifest)), cells, saved }
        };
        let refuse = |why: String, remedy: &str| Err(Error::option("--resume", path.display(), why, remedy));
        if path.is_symlink() {
            let why = "finished cells are kept here, and this is a link".to_string();
            return refuse(why, "move it, or give -o another name");
        }
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if resume {
                    progress.note(&format!("note: there is no {}: starting afresh", path.display()));
                }
                return Ok(new(Vec::new(), manifest));
            }
            Err(error) => return Err(kstore::Error::io("read", &path)(error).into()),
        };
        let kept: Kept = match serde_json::from_slice(&bytes) {
            Ok(kept) => kept,
            Err(_) => {
                let why = "this is not a file of cells that kmill wrote".to_string();
                return refuse(why, "move it, or give -o another name");
            }
        };
        if !resume {
            progress.note(&format!("note: {} of an earlier curve is replaced (--resume would use it)", path.display()));
            return Ok(new(Vec::new(), manifest));
        }
        if kept.format != FORMAT {
            let why = format!("it has format {}, this kmill reads {FORMAT}", kept.format);
            return refuse(why, "start afresh without --resume");
        }
        if let Some(difference) = manifest.difference(&kept.manifest) {
            return refuse(difference, "resume with the same command, or start afresh without --resume");
        }
        progress.note(&format!("note: {} cells are in {}", kept.cells.len(), path.display()));
        Ok(new(kept.cells, manifest))
    }

    /// The finished cells, in the order of their runs.
    pub(super) fn cells(&self) -> &[CurveCell] {
        &self.cells
    }

    /// True where every cell of a run is there.
    pub(super) fn hold(&self, run: &CurveRun) -> bool {
        let method = run.method.to_string();
        let here = |rank: &usize| {
            self.cells.iter().any(|cell| cell.method == method && cell.repeat == run.repeat && cell.rank == *rank)
        };
        run.ranks.iter().all(here)
    }

    /// Adds cells, and writes the file at once.
    pub(super) fn add(&mut self, cells: Vec<CurveCell>) -> Result<()> {
        self.cells.extend(cells);
        let Some((path, manifest)) = &self.place else { return Ok(()) };
        let kept = Kept { format: FORMAT, manifest: manifest.clone(), cells: self.cells.clone() };
        let text = serde_json::to_vec(&kept).map_err(|error| kstore::Error::io("write", path)(error.into()))?;
        let mut file = AtomicFile::create(path)?;
        file.write_all(&text).map_err(kstore::Error::io("write", path))?;
        file.commit()?;
        self.saved = true;
        Ok(())
    }

    /// The error to report for a curve that failed: an interruption with saved cells becomes [`Error::Stopped`].
    pub(super) fn kept(&self, error: Error, progress: &Progress) -> Error {
        let Some((path, _)) = self.place.as_ref().filter(|_| self.saved) else { return error };
        if error.is_interruption() {
            return Error::Stopped { checkpoint: path.clone() };
        }
        progress.note(&format!("note: what was done is kept in {}; --resume goes on from there", path.display()));
        error
    }

    /// Removes the file at the end of the curve.
    pub(super) fn finish(self, progress: &Progress) {
        if let Some((path, _)) = self.place
            && self.saved
            && let Err(error) = std::fs::remove_file(&path)
        {
            progress.warn(format!("{} is not needed any more, but: {error}", path.display()));
        }
    }
}
