//! The file of finished cells, next to the output of a curve. An interrupted curve resumes from it.
//! A cell contains the measurements of one method, rank and repeat.

use crate::{Error, Result, progress::Progress};
use ksolve::curve::{CurveCell, CurveRun};
use kstore::AtomicFile;
use kstore::checkpoint::{Manifest, ResumeMode};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};

const FORMAT_VERSION: u64 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct StoredCells {
    format: u64,
    manifest: Manifest,
    cells: Vec<CurveCell>,
}

/// The path of a file of cells, and the manifest: the options and files that identify the curve.
#[derive(Debug)]
struct Location {
    path: PathBuf,
    manifest: Manifest,
}

#[derive(Debug)]
pub(super) struct CellsFile {
    /// `None` if the run has no output and does not store the cells.
    location: Option<Location>,
    cells: Vec<CurveCell>,
    is_saved: bool,
}

impl CellsFile {
    pub(super) fn path(output: &Path) -> PathBuf {
        output.with_added_extension("cells.json")
    }

    /// Opens the file of cells of an output, and loads its cells if the curve is resumed. Without
    /// an output, the cells are not stored.
    pub(super) fn open(
        output: Option<&Path>,
        manifest: Manifest,
        resume_mode: ResumeMode,
        progress: &Progress,
    ) -> Result<Self> {
        let Some(path) = output.map(Self::path) else {
            return Ok(Self { location: None, cells: Vec::new(), is_saved: false });
        };
        let cells = Self::load_cells(&path, &manifest, resume_mode, progress)?;
        let is_saved = !cells.is_empty();
        Ok(Self { location: Some(Location { path, manifest }), cells, is_saved })
    }

    /// Returns the stored cells if the curve can resume from them, otherwise no cells.
    fn load_cells(
        path: &Path,
        manifest: &Manifest,
        resume_mode: ResumeMode,
        progress: &Progress,
    ) -> Result<Vec<CurveCell>> {
        let reject = |why: &str, remedy: &str| Err(Error::option("--resume", path.display(), why, remedy));
        let move_remedy = "move it, or choose another name for -o";
        if path.is_symlink() {
            return reject("finished cells are stored in this file, but it is a link", move_remedy);
        }
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if resume_mode == ResumeMode::Required {
                    progress.note(&format!("note: {} does not exist: starting from the beginning", path.display()));
                }
                return Ok(Vec::new());
            }
            Err(error) => return Err(kstore::Error::io("read", path)(error).into()),
        };
        let Ok(stored) = serde_json::from_slice::<StoredCells>(&bytes) else {
            return reject("this is not a file of cells that kmill wrote", move_remedy);
        };
        let difference = match (stored.format, manifest.difference(&stored.manifest)) {
            (FORMAT_VERSION, difference) => difference,
            (format, _) => Some(format!("it has format {format}, this version reads {FORMAT_VERSION}")),
        };
        match (difference, resume_mode) {
            (Some(difference), ResumeMode::Required) => {
                return reject(&difference, "use the command of that curve, or start from the beginning with --fresh");
            }
            (None, ResumeMode::IfSame | ResumeMode::Required) => {}
            (other, _) => {
                let why = other.map_or(String::new(), |difference| format!(": {difference}"));
                progress.note(&format!("note: {} of an earlier curve is replaced{why}", path.display()));
                return Ok(Vec::new());
            }
        }
        progress.note(&format!("note: {} cells are in {}", stored.cells.len(), path.display()));
        Ok(stored.cells)
    }

    pub(super) fn cells(&self) -> &[CurveCell] {
        &self.cells
    }

    pub(super) fn has_all_cells(&self, run: &CurveRun) -> bool {
        let method = run.method.to_string();
        let has_rank = |rank: &usize| {
            self.cells.iter().any(|cell| cell.method == method && cell.repeat == run.repeat && cell.rank == *rank)
        };
        run.ranks.iter().all(has_rank)
    }

    /// Adds cells and writes the file immediately.
    pub(super) fn append(&mut self, cells: Vec<CurveCell>) -> Result<()> {
        self.cells.extend(cells);
        let Some(Location { path, manifest }) = &self.location else { return Ok(()) };
        let stored = StoredCells { format: FORMAT_VERSION, manifest: manifest.clone(), cells: self.cells.clone() };
        let mut file = AtomicFile::create_checkpoint(path)?;
        file.write_all(&serde_json::to_vec(&stored)?).map_err(kstore::Error::io("write", path))?;
        file.commit()?;
        self.is_saved = true;
        Ok(())
    }

    /// Returns the error to report for a failed curve. If cells are saved, an interruption becomes
    /// [`Error::Stopped`], and for other errors a note says how to continue.
    pub(super) fn explain_error(&self, error: Error, progress: &Progress) -> Error {
        let Some(Location { path, .. }) = self.location.as_ref().filter(|_| self.is_saved) else { return error };
        if error.is_interruption() {
            return Error::Stopped { checkpoint: path.clone() };
        }
        progress.note(&format!(
            "note: the completed work is saved in {}; run the same command again to continue",
            path.display()
        ));
        error
    }

    pub(super) fn remove(self, progress: &Progress) {
        if let Some(Location { path, .. }) = self.location
            && self.is_saved
            && let Err(error) = std::fs::remove_file(&path)
        {
            progress.warn(format!("{} is no longer needed, but cannot be removed: {error}", path.display()));
        }
    }
}
