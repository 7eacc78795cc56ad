//! The file of finished cells next to the output, from which an interrupted curve resumes.

use crate::{Error, Result, progress::Progress};
use ksolve::curve::{CurveCell, CurveRun};
use kstore::AtomicFile;
use kstore::checkpoint::{Manifest, Resume};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};

const FORMAT: u64 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    format: u64,
    manifest: Manifest,
    cells: Vec<CurveCell>,
}

#[derive(Debug)]
pub(super) struct CellsFile {
    place: Option<(PathBuf, Manifest)>,
    cells: Vec<CurveCell>,
    saved: bool,
}

impl CellsFile {
    pub(super) fn path(output: &Path) -> PathBuf {
        output.with_added_extension("cells.json")
    }

    /// Opens the file next to an output, with its cells if the curve is resumed; without an output,
    /// no file is used.
    pub(super) fn open(output: Option<&Path>, manifest: Manifest, resume: Resume, progress: &Progress) -> Result<Self> {
        let Some(path) = output.map(Self::path) else {
            return Ok(Self { place: None, cells: Vec::new(), saved: false });
        };
        let cells = Self::held(&path, &manifest, resume, progress)?;
        let saved = !cells.is_empty();
        Ok(Self { place: Some((path, manifest)), cells, saved })
    }

    /// Returns the stored cells if the curve resumes from them; otherwise none.
    fn held(path: &Path, manifest: &Manifest, resume: Resume, progress: &Progress) -> Result<Vec<CurveCell>> {
        let refuse = |why: &str, remedy: &str| Err(Error::option("--resume", path.display(), why, remedy));
        let another = "move it, or choose another name for -o";
        if path.is_symlink() {
            return refuse("finished cells are stored in this file, but it is a link", another);
        }
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if resume == Resume::Required {
                    progress.note(&format!("note: {} does not exist: starting from the beginning", path.display()));
                }
                return Ok(Vec::new());
            }
            Err(error) => return Err(kstore::Error::io("read", path)(error).into()),
        };
        let Ok(kept) = serde_json::from_slice::<Kept>(&bytes) else {
            return refuse("this is not a file of cells that kmill wrote", another);
        };
        let other = match (kept.format, manifest.difference(&kept.manifest)) {
            (FORMAT, difference) => difference,
            (format, _) => Some(format!("it has format {format}, this version reads {FORMAT}")),
        };
        match (other, resume) {
            (Some(difference), Resume::Required) => {
                return refuse(&difference, "use the command of that curve, or start from the beginning with --fresh");
            }
            (None, Resume::IfSame | Resume::Required) => {}
            (other, _) => {
                let why = other.map_or(String::new(), |difference| format!(": {difference}"));
                progress.note(&format!("note: {} of an earlier curve is replaced{why}", path.display()));
                return Ok(Vec::new());
            }
        }
        progress.note(&format!("note: {} cells are in {}", kept.cells.len(), path.display()));
        Ok(kept.cells)
    }

    pub(super) fn cells(&self) -> &[CurveCell] {
        &self.cells
    }

    pub(super) fn hold(&self, run: &CurveRun) -> bool {
        let method = run.method.to_string();
        let here = |rank: &usize| {
            self.cells.iter().any(|cell| cell.method == method && cell.repeat == run.repeat && cell.rank == *rank)
        };
        run.ranks.iter().all(here)
    }

    /// Adds cells and writes the file immediately.
    pub(super) fn add(&mut self, cells: Vec<CurveCell>) -> Result<()> {
        self.cells.extend(cells);
        let Some((path, manifest)) = &self.place else { return Ok(()) };
        let kept = Kept { format: FORMAT, manifest: manifest.clone(), cells: self.cells.clone() };
        let mut file = AtomicFile::of_checkpoint(path)?;
        file.write_all(&serde_json::to_vec(&kept)?).map_err(kstore::Error::io("write", path))?;
        file.commit()?;
        self.saved = true;
        Ok(())
    }

    /// Returns the error to report for a failed curve: an interruption with saved cells becomes
    /// [`Error::Stopped`].
    pub(super) fn kept(&self, error: Error, progress: &Progress) -> Error {
        let Some((path, _)) = self.place.as_ref().filter(|_| self.saved) else { return error };
        if error.is_interruption() {
            return Error::Stopped { checkpoint: path.clone() };
        }
        progress.note(&format!(
            "note: the completed work is saved in {}; run the same command again to continue",
            path.display()
        ));
        error
    }

    pub(super) fn finish(self, progress: &Progress) {
        if let Some((path, _)) = self.place
            && self.saved
            && let Err(error) = std::fs::remove_file(&path)
        {
            progress.warn(format!("{} is no longer needed, but cannot be removed: {error}", path.display()));
        }
    }
}
