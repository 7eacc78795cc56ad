//! Files that appear whole or not at all.
//!
//! A file is written beside its destination under a temporary name, flushed to the disk and renamed. Whatever ends the
//! writing before that leaves nothing behind: dropping the file removes it, and [`remove_temporaries`] removes all
//! that are being written when a signal ends the process.

use crate::{Error, Result};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::NamedTempFile;

/// Paths of all temporary files that are being written.
static LIVE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn live<R>(change: impl FnOnce(&mut BTreeSet<PathBuf>) -> R) -> R {
    change(&mut LIVE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Removes every temporary file that is being written. For the thread that ends the process after a signal; writers
/// that go on afterwards fail when they finish.
pub fn remove_temporaries() {
    live(|paths| {
        for path in std::mem::take(paths) {
            // it may have been renamed or removed this moment
            let _ = std::fs::remove_file(path);
        }
    });
}

/// How the names of temporary files begin and end.
const PREFIX: &str = ".kmill-";
const SUFFIX: &str = ".tmp";

/// True for the name of a temporary file, such as a killed process leaves.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 256 << 10;

/// A file being written that takes its place at [`AtomicFile::commit`].
#[derive(Debug)]
pub struct AtomicFile {
    // an Option only so that commit can take it out of a value that has a destructor
    writer: Option<BufWriter<NamedTempFile>>,
    temporary: PathBuf,
    destination: PathBuf,
}

impl AtomicFile {
    /// Starts a file that will be `path`. What is there now stays until [`AtomicFile::commit`].
    pub fn create(path: &Path) -> Result<Self> {
        let refuse = |kind, text: String| Error::io("write", path)(io::Error::new(kind, text));
        if path.is_dir() {
            return Err(refuse(io::ErrorKind::IsADirectory, "it is a folder; give a file name".to_string()));
        }
        // the file behind a symbolic link is replaced, not the link
        let destination = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let folder = destination.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            let text = format!("there is no folder {}; create it first", folder.display());
            return Err(refuse(io::ErrorKind::NotFound, text));
        }
        // registered under the same lock, so that remove_temporaries misses none
        let file = live(|paths| {
            let file = builder().tempfile_in(folder)?;
            paths.insert(file.path().to_path_buf());
            Ok(file)
        });
        let file = file.map_err(Error::io("create", path))?;
        let temporary = file.path().to_path_buf();
        Ok(Self { writer: Some(BufWriter::with_capacity(BUFFER_BYTES, file)), temporary, destination })
    }

    /// Where the file will be.
    pub fn path(&self) -> &Path {
        &self.destination
    }

    /// Where the file is while it is being written, for writers that want a path.
    pub fn temporary_path(&self) -> &Path {
        &self.temporary
    }

    /// Flushes everything to the disk and renames the file to its place.
    pub fn commit(mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let failed = |source: io::Error| Error::io("write", &self.destination)(source);
        let file = writer.into_inner().map_err(|error| failed(error.into_error()))?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&self.destination).map_err(|error| failed(error.error))?;
        sync_folder(&self.destination);
        Ok(())
    }

    /// Brings everything written so far to the disk, so that only the renaming is left to [`AtomicFile::commit`].
    pub fn settle(&mut self) -> Result<()> {
        let path = self.destination.clone();
        let settled = self.flush().and_then(|()| self.writer()?.get_ref().as_file().sync_all());
        settled.map_err(Error::io("write", path))
    }

    fn writer(&mut self) -> io::Result<&mut BufWriter<NamedTempFile>> {
        self.writer.as_mut().ok_or_else(|| io::Error::other("the file is closed"))
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        // closes and removes the temporary file, unless it was renamed
        self.writer = self.writer.take().and_then(|writer| {
            let (file, _unwritten) = writer.into_parts();
            drop(file);
            None
        });
        live(|paths| paths.remove(&self.temporary));
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer()?.write(bytes)
    }
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer()?.write_all(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.writer()?.flush()
    }
}

impl Seek for AtomicFile {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        self.writer()?.seek(place)
    }
}

fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX);
    // temporary files are private by default; this one becomes an ordinary file, as the umask has it
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

/// Makes the new name survive a power cut, where folders can be synchronised.
fn sync_folder(file: &Path) {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // not every file system can; the file itself is safe either way
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_committed_file_replaces_the_old_one_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        file.flush().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()).len(), 2);
        file.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn a_dropped_file_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = AtomicFile::create(&folder.path().join("a")).unwrap();
        file.write_all(&vec![7; 1 << 20]).unwrap();
        let temporary = file.temporary_path().to_path_buf();
        assert!(live(|paths| paths.contains(&temporary)));
        drop(file);
        assert!(names(folder.path()).is_empty());
        assert!(!live(|paths| paths.contains(&temporary)));
    }

    #[test]
    fn folders_and_missing_parents_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let error = AtomicFile::create(folder.path()).unwrap_err().to_string();
        assert!(error.contains("it is a folder"), "{error}");
        let error = AtomicFile::create(&folder.path().join("no/where")).unwrap_err().to_string();
        assert!(error.contains("create it first"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn files_are_as_readable_as_any_other() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (ours, plain) = (folder.path().join("ours"), folder.path().join("plain"));
        AtomicFile::create(&ours).unwrap().commit().unwrap();
        std::fs::write(&plain, "").unwrap();
        let mode = |path| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(ours), mode(plain));
    }
}
