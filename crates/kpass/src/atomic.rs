//! Atomic files: they appear completely or not at all.
//!
//! A file is written next to its destination under a temporary name, flushed to the disk and
//! renamed. If writing stops before that, no file remains: dropping the file removes it, and
//! [`remove_temporaries`] removes all files that are being written when a signal ends the process.
//! After [`stop_outputs`] no output is renamed to its destination, because results computed after a
//! stop request may be incomplete.

use crate::{Error, Result};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tempfile::NamedTempFile;

static TRACKED_FILES: Mutex<TrackedFiles> = Mutex::new(TrackedFiles {
    temporary_paths: BTreeSet::new(),
    committed_outputs: None,
    outputs_stopped: false,
    is_ending: false,
});

struct TrackedFiles {
    temporary_paths: BTreeSet<PathBuf>,
    /// Outputs committed since [`watch_outputs`].
    committed_outputs: Option<Vec<PathBuf>>,
    /// True after [`stop_outputs`].
    outputs_stopped: bool,
    /// True after [`remove_temporaries`]: no further file is created, because nothing would remove
    /// it.
    is_ending: bool,
}

fn with_tracked_files<R>(change: impl FnOnce(&mut TrackedFiles) -> R) -> R {
    change(&mut TRACKED_FILES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Removes every temporary file that is being written. The thread that ends the process after a
/// signal calls this function; writers that continue afterwards fail when they commit, and no
/// further file is created.
pub fn remove_temporaries() {
    // tries for about a second instead of blocking, because the interrupted thread may hold the
    // lock
    let files_guard = (0..100).find_map(|_| {
        TRACKED_FILES.try_lock().ok().or_else(|| {
            std::thread::sleep(Duration::from_millis(10));
            None
        })
    });
    let take_paths = |mut files: MutexGuard<'_, TrackedFiles>| {
        files.is_ending = true;
        std::mem::take(&mut files.temporary_paths)
    };
    for path in files_guard.map(take_paths).unwrap_or_default() {
        // ignored: the file may just have been renamed or removed
        let _ = std::fs::remove_file(path);
    }
}

/// Starts to record committed outputs, for [`committed_outputs`].
pub fn watch_outputs() {
    with_tracked_files(|files| files.committed_outputs = Some(Vec::new()));
}

/// Returns the outputs committed since [`watch_outputs`], in the order of their commits; checkpoint
/// files are not outputs.
pub fn committed_outputs() -> Vec<PathBuf> {
    with_tracked_files(|files| files.committed_outputs.clone().unwrap_or_default())
}

/// Makes every [`AtomicFile::commit`] of an output fail with [`Error::Interrupted`] from now on;
/// checkpoint files are still written.
pub fn stop_outputs() {
    with_tracked_files(|files| files.outputs_stopped = true);
}

const TEMPORARY_PREFIX: &str = ".kmill-";
const TEMPORARY_SUFFIX: &str = ".tmp";

/// Number of random letters and digits between prefix and suffix.
const RANDOM_CHARS: usize = 6;

/// Returns true for the name of a temporary file, which a killed process may leave.
pub(crate) fn is_temporary(name: &str) -> bool {
    let random_part = name.strip_prefix(TEMPORARY_PREFIX).and_then(|name| name.strip_suffix(TEMPORARY_SUFFIX));
    random_part
        .is_some_and(|random| random.len() == RANDOM_CHARS && random.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// Size of the write buffer, in bytes.
pub const WRITE_BUFFER_BYTES: usize = 256 << 10;

/// A file being written that appears at its destination on [`AtomicFile::commit`].
#[derive(Debug)]
pub struct AtomicFile {
    // an `Option`, so that `commit` can move it out although the type implements `Drop`
    writer: Option<BufWriter<NamedTempFile>>,
    temporary_path: PathBuf,
    destination: PathBuf,
    /// False for a checkpoint file.
    is_output: bool,
}

impl AtomicFile {
    /// Returns the path at which a file named `path` will appear. Symbolic links are followed, even
    /// to a file that does not exist yet.
    ///
    /// # Errors
    /// [`Error::Output`] if the path is a folder, a device, a pipe or a socket, which a file must
    /// not replace, or if its folder does not exist; [`Error::Io`] if the folder is not writable.
    pub fn destination(path: &Path) -> Result<PathBuf> {
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if is_absent(&error) => return new_destination(path),
            Err(error) => return Err(Error::io("write", path)(error)),
        };
        if !metadata.is_file() {
            return Err(output_error(path, format!("this is {}", file_kind(&metadata)), "name a regular file"));
        }
        let file = std::fs::canonicalize(path).map_err(Error::io("write", path))?;
        check_writable(parent_folder(&file), path)?;
        Ok(file)
    }

    /// Starts a file that will appear at `path`, or at the target of a symbolic link. An existing
    /// file stays until [`AtomicFile::commit`]; the new file inherits its mode, owner and group.
    ///
    /// # Errors
    /// The errors of [`AtomicFile::destination`].
    pub fn create(path: &Path) -> Result<Self> {
        let destination = Self::destination(path)?;
        let folder = parent_folder(&destination);
        // the file is created and registered under one lock, so that `remove_temporaries` misses no
        // file
        let file = with_tracked_files(|files| {
            if files.is_ending {
                return Err(Error::Interrupted);
            }
            let file = temporary_builder().tempfile_in(folder).map_err(Error::io("create", path))?;
            files.temporary_paths.insert(file.path().to_path_buf());
            Ok(file)
        })?;
        let temporary_path = file.path().to_path_buf();
        inherit_ownership(&destination, file.as_file()).map_err(Error::io("create", path))?;
        let writer = Some(BufWriter::with_capacity(WRITE_BUFFER_BYTES, file));
        Ok(Self { writer, temporary_path, destination, is_output: true })
    }

    /// Starts a checkpoint file: like [`AtomicFile::create`], but it is also written after
    /// [`stop_outputs`].
    ///
    /// # Errors
    /// The errors of [`AtomicFile::destination`].
    pub fn create_checkpoint(path: &Path) -> Result<Self> {
        let mut file = Self::create(path)?;
        file.is_output = false;
        Ok(file)
    }

    /// Returns the path at which the file appears after [`AtomicFile::commit`].
    pub fn path(&self) -> &Path {
        &self.destination
    }

    /// Flushes everything to the disk and renames the file to its destination.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Interrupted`] after [`stop_outputs`].
    pub fn commit(mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let io_error = |source: io::Error| Error::io("write", &self.destination)(source);
        let file = writer.into_inner().map_err(|error| io_error(error.into_error()))?;
        file.as_file().sync_all().map_err(io_error)?;
        // under the lock, so that renaming and recording are one step for `stop_outputs` and
        // `committed_outputs`
        with_tracked_files(|files| {
            if files.outputs_stopped && self.is_output {
                return Err(Error::Interrupted);
            }
            file.persist(&self.destination).map_err(|error| io_error(error.error))?;
            let recorded_outputs = files.committed_outputs.as_mut().filter(|_| self.is_output);
            recorded_outputs.into_iter().for_each(|written| written.push(self.destination.clone()));
            Ok(())
        })?;
        sync_folder(&self.destination);
        Ok(())
    }

    /// Flushes everything written so far to the disk, so that [`AtomicFile::commit`] only has to
    /// rename the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn sync(&mut self) -> Result<()> {
        let path = self.destination.clone();
        let sync_result = self.flush().and_then(|()| self.writer()?.get_ref().as_file().sync_all());
        sync_result.map_err(Error::io("write", path))
    }

    fn writer(&mut self) -> io::Result<&mut BufWriter<NamedTempFile>> {
        self.writer.as_mut().ok_or_else(|| io::Error::other("the file is closed"))
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        // closes and removes the temporary file, unless it was renamed
        drop(self.writer.take().map(BufWriter::into_parts));
        with_tracked_files(|files| files.temporary_paths.remove(&self.temporary_path));
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
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.writer()?.seek(position)
    }
}

/// Gives a new file the owner, the group and the mode of the file that it replaces. If the group
/// cannot be set, the new file's group gets no permissions.
fn inherit_ownership(old_path: &Path, file: &File) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
        let Ok(old_metadata) = std::fs::metadata(old_path) else { return Ok(()) };
        let chown_result = fchown(file, Some(old_metadata.uid()), Some(old_metadata.gid()))
            .or_else(|_| fchown(file, None, Some(old_metadata.gid())));
        let mode_mask = if chown_result.is_ok() { 0o777 } else { 0o707 };
        let mode = old_metadata.mode() & mode_mask;
        // sets the mode only if it differs, because file systems without modes reject the call
        if file.metadata()?.mode() & 0o777 != mode {
            file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        }
    }
    Ok(())
}

fn parent_folder(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn output_error(path: &Path, why: String, remedy: &'static str) -> Error {
    Error::Output { path: path.to_path_buf(), why, remedy }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the path of a file that does not exist yet. Follows symbolic links.
fn new_destination(path: &Path) -> Result<PathBuf> {
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") || path.file_name().is_none() {
        return Err(output_error(path, "this is a folder".to_string(), "name a file in it"));
    }
    let mut file = path.to_path_buf();
    // terminates: the operating system has already followed the links to a missing name
    while let Ok(target) = std::fs::read_link(&file) {
        file = parent_folder(&file).join(target);
    }
    if !parent_folder(&file).is_dir() {
        let why = format!("the folder {} does not exist", parent_folder(&file).display());
        return Err(output_error(path, why, "create it first"));
    }
    check_writable(parent_folder(&file), path)?;
    // `a` and `./a` become the same path
    let canonical_folder = std::fs::canonicalize(parent_folder(&file)).map_err(Error::io("write", path))?;
    Ok(file.file_name().map_or(file.clone(), |name| canonical_folder.join(name)))
}

/// Returns the kind of file for messages, such as "a device".
fn file_kind(metadata: &std::fs::Metadata) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = metadata.file_type();
        if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
        if kind.is_fifo() {
            return "a pipe";
        }
        if kind.is_socket() {
            return "a socket";
        }
    }
    if metadata.is_dir() { "a folder" } else { "not a regular file" }
}

/// Checks that new files can be created in the folder; replacing a file needs this permission too.
fn check_writable(folder: &Path, path: &Path) -> Result<()> {
    #[cfg(unix)]
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
        .map_err(|error| Error::io("write", path)(error.into()))?;
    Ok(())
}

/// Returns a builder of temporary files whose names [`is_temporary`] recognises.
pub(crate) fn temporary_builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY_PREFIX).rand_bytes(RANDOM_CHARS).suffix(TEMPORARY_SUFFIX);
    // temporary files are private by default; this one becomes an ordinary file with the mode that
    // the umask gives
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

/// Makes the new name survive a power failure, if the file system can synchronise folders.
fn sync_folder(file: &Path) {
    // ignored: the content of the file is on the disk even if this fails
    let _ = File::open(parent_folder(file)).and_then(|folder| folder.sync_all());
}
