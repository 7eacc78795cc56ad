//! The identity of a file, and checks that it has not changed.

use crate::{Error, Result, digest::Digest};
use serde::{Deserialize, Serialize};
use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Number of bytes digested at the start of a file, which cover any header.
const HEAD_BYTES: u64 = 4 << 10;

/// Number of bytes digested at the end of a file, which usually cover the footer of a Parquet or
/// Arrow file.
const TAIL_BYTES: u64 = 64 << 10;

/// Path that means standard input.
pub const STDIN: &str = "-";

/// Returns the scheme of a URL; `None` for a path.
pub fn url_scheme(path: &Path) -> Option<&str> {
    let (scheme, location) = path.to_str()?.split_once("://")?;
    let is_scheme = scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    (is_scheme && !location.is_empty()).then_some(scheme)
}

/// Properties that distinguish a file from others, and from itself before a change: length, time of
/// the last change, device and inode number, and a digest of its first 4 KiB and last 64 KiB.
///
/// Between two runs, length, time and digest are compared. Within a run, length, time, device and
/// inode number are compared, which costs one system call and reads no data.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Path of the file, as given.
    #[serde(serialize_with = "crate::display::lossy_path")]
    pub path: PathBuf,
    /// Length in bytes.
    pub length: u64,
    /// Time of the last change in nanoseconds after 1970; 0 if the file system does not report it.
    pub modified: u64,
    /// Digest of both ends.
    pub digest: String,
    /// Device and inode number, which change if another file takes the name. A copy or another
    /// mount changes them too, so they are not part of a checkpoint.
    #[serde(skip)]
    file_id: (u64, u64),
}

/// Returns the metadata of a regular file on a disk. Opening a pipe would wait for a writer, and a
/// file that the kernel generates, such as `/proc/kmsg`, may have no end.
///
/// # Errors
/// [`Error::NotFound`], [`Error::NotAFile`] and [`Error::Io`].
pub fn regular_metadata(path: &Path) -> Result<Metadata> {
    let metadata = std::fs::metadata(path).map_err(Error::io("read", path))?;
    /// `PROC_SUPER_MAGIC`, `DEBUGFS_MAGIC` and `TRACEFS_MAGIC` of Linux.
    const PSEUDO_FILE_SYSTEMS: [u64; 3] = [0x9fa0, 0x6462_6720, 0x7472_6163];
    #[cfg(target_os = "linux")]
    let is_pseudo_file =
        rustix::fs::statfs(path).is_ok_and(|system| PSEUDO_FILE_SYSTEMS.contains(&(system.f_type as u64)));
    #[cfg(not(target_os = "linux"))]
    let is_pseudo_file = PSEUDO_FILE_SYSTEMS.is_empty();
    match metadata.is_file() && !is_pseudo_file {
        true => Ok(metadata),
        false => Err(Error::NotAFile { path: path.to_path_buf() }),
    }
}

/// Rejects standard input that may have no end: everything except a regular file, a pipe, a socket
/// or a terminal. On other systems than Linux, nothing is rejected.
///
/// # Errors
/// [`Error::Malformed`] for input that may have no end.
pub fn check_stdin() -> Result<()> {
    #[cfg(target_os = "linux")]
    {
        use std::{io::IsTerminal, os::unix::fs::FileTypeExt};
        let (stdin_path, is_terminal) = (Path::new("/dev/stdin"), std::io::stdin().is_terminal());
        let kind = std::fs::metadata(stdin_path).map(|metadata| metadata.file_type());
        let is_pipe_or_socket = kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket());
        if !is_terminal && !is_pipe_or_socket && matches!(regular_metadata(stdin_path), Err(Error::NotAFile { .. })) {
            let detail = "a device or a file of the kernel may have no end; pipe rows into it, or a file";
            return Err(Error::malformed(Path::new(STDIN), "a table", detail));
        }
    }
    Ok(())
}

impl Identity {
    /// Returns the identity of the file at `path`.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotAFile`] and [`Error::Io`].
    pub fn of_file(path: &Path) -> Result<Self> {
        let io_error = |error| Error::io("read", path)(error);
        regular_metadata(path)?;
        let file = File::open(path).map_err(io_error)?;
        let metadata = file.metadata().map_err(io_error)?;
        Ok(Self {
            modified: modified_nanoseconds(&metadata),
            file_id: file_id(&metadata),
            ..Self::of_content(path, &file)?
        })
    }

    /// Returns the identity of the content of an open file: its length and digest. `path` is not
    /// opened.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of_content(path: &Path, mut file: &File) -> Result<Self> {
        let io_error = |error| Error::io("read", path)(error);
        let length = file.metadata().map_err(io_error)?.len();
        file.rewind().map_err(io_error)?;
        let mut ends = Vec::new();
        file.take(HEAD_BYTES).read_to_end(&mut ends).map_err(io_error)?;
        // a short file is digested once
        let tail_start = length.saturating_sub(TAIL_BYTES).max(ends.len() as u64);
        file.seek(SeekFrom::Start(tail_start)).map_err(io_error)?;
        file.take(TAIL_BYTES).read_to_end(&mut ends).map_err(io_error)?;
        file.rewind().map_err(io_error)?;
        let digest = Digest::hex_of(&ends);
        Ok(Self { path: path.to_path_buf(), length, modified: 0, digest, file_id: (0, 0) })
    }

    /// Returns the identity of a remote object, from its address, its length and the version that
    /// its store reports.
    pub fn of_object(address: &Path, length: u64, version: &str) -> Self {
        let digest = Digest::hex_of(version.as_bytes());
        Self { path: address.to_path_buf(), length, modified: 0, digest, file_id: (0, 0) }
    }

    /// Checks that the path still names the same file, and that the file was not modified.
    ///
    /// # Errors
    /// [`Error::FileChanged`], which describes the change.
    pub fn check_unchanged(&self) -> Result<()> {
        // no other process knows the file that stores standard input, and requests to an object
        // store name the version
        if self.path == Path::new(STDIN) || url_scheme(&self.path).is_some() {
            return Ok(());
        }
        let change_error = |change: String| Err(Error::FileChanged { path: self.path.clone(), change });
        let Some(metadata) = Error::none_if_absent(std::fs::metadata(&self.path), "read", &self.path)? else {
            return change_error("it was removed".to_string());
        };
        let current = Self { length: metadata.len(), modified: modified_nanoseconds(&metadata), ..self.clone() };
        if let Some(change) = self.difference(&current) {
            return change_error(change);
        }
        if self.file_id != file_id(&metadata) { change_error("another file replaced it".to_string()) } else { Ok(()) }
    }

    /// Returns the difference between this identity and the current identity of the file in words;
    /// `None` if they are equal. Device and inode number are not compared.
    pub(crate) fn difference(&self, current: &Self) -> Option<String> {
        if self.length != current.length {
            return Some(format!("it had {} bytes and has {}", self.length, current.length));
        }
        if self.modified != current.modified {
            return Some("it was written to: its modification time changed".to_string());
        }
        (self.digest != current.digest).then(|| "its first or last bytes changed".to_string())
    }
}

fn modified_nanoseconds(metadata: &Metadata) -> u64 {
    let since_epoch = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since_epoch.and_then(|since| u64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}

#[cfg(unix)]
fn file_id(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn file_id(_: &Metadata) -> (u64, u64) {
    (0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn every_change_is_detected_and_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let old = SystemTime::now() - Duration::from_secs(1000);
        let put = |bytes: &[u8], time: SystemTime| {
            std::fs::write(&path, bytes).unwrap();
            File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        };
        let content = vec![7u8; 300_000];
        put(&content, old);
        let identity = Identity::of_file(&path).unwrap();
        identity.check_unchanged().unwrap();
        assert_eq!(identity.difference(&Identity::of_file(&path).unwrap()), None);
        let expect_change = |change: &str| {
            let error = identity.check_unchanged().unwrap_err();
            assert!(matches!(&error, Error::FileChanged { .. }) && error.to_string().contains(change), "{error}");
        };
        put(&content[..299_999], old);
        expect_change("it had 300000 bytes and has 299999");
        put(&content, SystemTime::now());
        expect_change("it was written to");
        // same length and time, other bytes: the digest detects them at both ends of the file only
        for (offset, is_detected) in [(0, true), (4095, true), (150_000, false), (299_999, true)] {
            let mut other = content.clone();
            other[offset] = 8;
            put(&other, old);
            assert_eq!(identity.difference(&Identity::of_file(&path).unwrap()).is_some(), is_detected, "{offset}");
        }
        let other = folder.path().join("b");
        put(&content, old);
        std::fs::rename(&path, &other).unwrap();
        expect_change("it was removed");
        put(&content, old);
        expect_change("another file replaced it");
        std::fs::rename(&other, &path).unwrap();
        identity.check_unchanged().unwrap();
    }

    #[test]
    fn short_files_are_digested_once() {
        let folder = tempfile::tempdir().unwrap();
        for length in [0, 1, 4096, 4097, 65_536, 65_537, 70_000] {
            let path = folder.path().join(length.to_string());
            let bytes: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            std::fs::write(&path, &bytes).unwrap();
            let identity = Identity::of_file(&path).unwrap();
            let ends = if length <= 69_632 { bytes } else { [&bytes[..4096], &bytes[bytes.len() - 65_536..]].concat() };
            assert_eq!((identity.length, identity.digest), (length, Digest::hex_of(&ends)));
        }
    }
}
