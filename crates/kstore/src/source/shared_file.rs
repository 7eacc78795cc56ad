//! A local or remote file that several cursors read at the same time, each at its own positions,
//! with a counter of the bytes that were read.
//!
//! Compressed text cannot be read from the middle, and standard input can be read only once. The
//! content of both is therefore written once into an unnamed file in the folder for temporary files
//! (`TMPDIR`), and is then read like any other file. The operating system removes the unnamed file
//! when the table is dropped or the process ends. *Bytes on disk*: the decompressed size.

use super::load_error::catch_panic;
use super::remote::RemoteFile;
use crate::{Error, Result};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes per read. With this many bytes the cost of the system call is negligible, and they still
/// fit in the L2 cache.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;

/// Returns the bytes of a chunk of columns that are stored separately. If there are many columns,
/// the chunk is larger: each column gets enough bytes that the cost of the system calls is
/// negligible.
#[cfg(any(feature = "npy", feature = "ipc"))]
pub(super) fn chunk_bytes(columns: usize) -> usize {
    (columns * (16 << 10)).clamp(BLOCK_BYTES, 4 << 20)
}

#[derive(Clone, Debug)]
enum FileLocation {
    Local(Arc<File>),
    #[cfg_attr(not(feature = "parquet"), allow(dead_code, reason = "only Parquet is read from a distance"))]
    Remote(Arc<RemoteFile>),
}

/// A handle of a file that has no position of its own and can therefore be shared, the file's name
/// in messages, and the counter of the bytes read.
#[derive(Clone, Debug)]
pub(crate) struct SharedFile {
    location: FileLocation,
    path: Arc<Path>,
    format: &'static str,
    length: u64,
    bytes_read: Arc<AtomicU64>,
}

impl SharedFile {
    pub(crate) fn local(path: &Path, format: &'static str, file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self::new(FileLocation::Local(Arc::new(file)), path, format, length))
    }

    #[cfg(feature = "parquet")]
    pub(crate) fn remote(path: &Path, format: &'static str, object: Arc<RemoteFile>) -> Self {
        let length = object.length();
        Self::new(FileLocation::Remote(object), path, format, length)
    }

    fn new(location: FileLocation, path: &Path, format: &'static str, length: u64) -> Self {
        Self { location, path: path.into(), format, length, bytes_read: Arc::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn malformed_error(&self, detail: impl Into<String>) -> Error {
        Error::malformed(&self.path, self.format, detail)
    }

    /// Returns the error for a file that has become shorter since it was opened.
    pub(crate) fn truncated_error(&self, expected: u64, found: u64) -> Error {
        self.malformed_error(format!("it was cut short while being read: expected {expected} bytes, found {found}"))
    }

    pub(crate) fn read_error(&self, error: io::Error) -> Error {
        Error::io("read", &*self.path)(error)
    }

    /// Runs a decoder of this file; a panic becomes an error.
    pub(crate) fn catch_panic<R>(&self, decode: impl FnOnce() -> R) -> Result<R> {
        catch_panic(decode).map_err(|panic| self.malformed_error(panic))
    }

    #[cfg(feature = "parquet")]
    pub(crate) fn as_remote(&self) -> Option<&Arc<RemoteFile>> {
        match &self.location {
            FileLocation::Local(_) => None,
            FileLocation::Remote(object) => Some(object),
        }
    }

    #[cfg(feature = "parquet")]
    pub(crate) fn count_bytes(&self, bytes: usize) {
        self.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns a handle of the same file that adds the bytes it reads to another counter.
    pub(crate) fn with_counter(&self, bytes_read: &Arc<AtomicU64>) -> Self {
        Self { bytes_read: Arc::clone(bytes_read), ..self.clone() }
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Reads from `offset` until `buffer` is full or the file ends; returns the number of bytes.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut bytes_filled = 0;
        while bytes_filled < buffer.len() {
            match self.read_once(&mut buffer[bytes_filled..], offset + bytes_filled as u64) {
                Ok(0) => break,
                Ok(n) => bytes_filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.bytes_read.fetch_add(bytes_filled as u64, Ordering::Relaxed);
        Ok(bytes_filled)
    }

    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if self.read_at(buffer, offset)? == buffer.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn read_once(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.location {
            FileLocation::Local(file) => read_once(file, buffer, offset),
            FileLocation::Remote(object) => {
                let bytes = object.read(offset, buffer.len())?;
                buffer[..bytes.len()].copy_from_slice(&bytes);
                Ok(bytes.len())
            }
        }
    }

    /// Reads `length` bytes from `offset` on, or fewer at the end of the file, without zeroing the
    /// memory first.
    pub(crate) fn read_vec(&self, length: usize, offset: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(length);
        let file = match &self.location {
            FileLocation::Local(file) => file,
            FileLocation::Remote(object) => {
                let bytes = object.read(offset, length)?;
                self.bytes_read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                return Ok(bytes);
            }
        };
        while bytes.len() < length {
            let next_offset = offset + bytes.len() as u64;
            match append_once(file, &mut bytes, next_offset) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // a vector may have more capacity than requested
        bytes.truncate(length);
        self.bytes_read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

/// Reads into the spare capacity of a vector.
#[cfg(unix)]
fn append_once(file: &File, bytes: &mut Vec<u8>, offset: u64) -> io::Result<usize> {
    Ok(rustix::io::pread(file, rustix::buffer::spare_capacity(bytes), offset)?)
}

#[cfg(windows)]
fn append_once(file: &File, bytes: &mut Vec<u8>, offset: u64) -> io::Result<usize> {
    let old_len = bytes.len();
    bytes.resize(bytes.capacity(), 0);
    let outcome = read_once(file, &mut bytes[old_len..], offset);
    bytes.truncate(old_len + outcome.as_ref().map_or(0, |read_len| *read_len));
    outcome
}

#[cfg(unix)]
fn read_once(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_once(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

/// Copies the output of a reader to an unnamed file; the path is for messages. If the input is
/// compressed and a read error does not come from the operating system, the input is damaged.
pub(super) fn copy_to_temporary(path: &Path, compression: Option<&'static str>, mut reader: impl Read) -> Result<File> {
    let folder = std::env::temp_dir();
    let write_error = |error| Error::io("write", folder.join("a temporary file"))(error);
    let mut out = tempfile::tempfile_in(&folder).map_err(Error::io("write", &folder))?;
    let mut buffer = vec![0; BLOCK_BYTES];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => out.write_all(&buffer[..count]).map_err(write_error)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => match compression.filter(|_| error.raw_os_error().is_none()) {
                None => return Err(Error::io("read", path)(error)),
                Some(format) => return Err(Error::malformed(path, format, error.to_string())),
            },
        }
    }
    out.rewind().map_err(write_error)?;
    Ok(out)
}
