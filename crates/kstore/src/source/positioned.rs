//! A file, here or at a distance, read at given places by several cursors at once, which counts what it reads.

use super::remote::Distant;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs::File, io};

/// Where the bytes are.
#[derive(Clone, Debug)]
enum Location {
    Here(Arc<File>),
    #[cfg_attr(not(feature = "parquet"), allow(dead_code, reason = "only Parquet is read from a distance"))]
    There(Arc<Distant>),
}

/// A shared file handle without a place of its own, and the counter its reads add to.
#[derive(Clone, Debug)]
pub(crate) struct Positioned {
    place: Location,
    length: u64,
    read: Arc<AtomicU64>,
}

impl Positioned {
    pub(crate) fn of(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self { place: Location::Here(Arc::new(file)), length, read: Arc::default() })
    }

    /// An object at a distance.
    #[cfg(feature = "parquet")]
    pub(crate) fn distant(object: Arc<Distant>) -> Self {
        Self { length: object.length(), place: Location::There(object), read: Arc::default() }
    }

    /// The object at a distance, where it is one.
    #[cfg(feature = "parquet")]
    pub(crate) fn object(&self) -> Option<&Arc<Distant>> {
        match &self.place {
            Location::Here(_) => None,
            Location::There(object) => Some(object),
        }
    }

    /// Counts bytes that were read elsewhere for this file.
    #[cfg(feature = "parquet")]
    pub(crate) fn count(&self, bytes: usize) {
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A handle of this file that adds the bytes it reads to another counter.
    pub(crate) fn counting(&self, read: &Arc<AtomicU64>) -> Self {
        Self { read: Arc::clone(read), ..self.clone() }
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Reads from `at` until `buffer` is full or the file ends; returns the number of bytes.
    pub(crate) fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_once(&mut buffer[filled..], at + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.read.fetch_add(filled as u64, Ordering::Relaxed);
        Ok(filled)
    }

    /// Fills `buffer` from `at` on.
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        if self.read_at(buffer, at)? == buffer.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn read_once(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        match &self.place {
            Location::Here(file) => read_once(file, buffer, at),
            Location::There(object) => {
                let bytes = object.read(at, buffer.len())?;
                buffer[..bytes.len()].copy_from_slice(&bytes);
                Ok(bytes.len())
            }
        }
    }

    /// Reads `length` bytes from `at` on, or fewer where the file ends, into memory that is not zeroed first.
    pub(crate) fn read_new(&self, length: usize, at: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(length);
        let file = match &self.place {
            Location::Here(file) => file,
            Location::There(object) => {
                let bytes = object.read(at, length)?;
                self.read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                return Ok(bytes);
            }
        };
        while bytes.len() < length {
            let next = at + bytes.len() as u64;
            match append_once(file, &mut bytes, next) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // a vector may have room for more than it was asked for
        bytes.truncate(length);
        self.read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

/// Reads into the spare capacity behind the bytes of a vector.
#[cfg(unix)]
fn append_once(file: &File, bytes: &mut Vec<u8>, at: u64) -> io::Result<usize> {
    Ok(rustix::io::pread(file, rustix::buffer::spare_capacity(bytes), at)?)
}

#[cfg(windows)]
fn append_once(file: &File, bytes: &mut Vec<u8>, at: u64) -> io::Result<usize> {
    let filled = bytes.len();
    bytes.resize(bytes.capacity(), 0);
    let outcome = read_once(file, &mut bytes[filled..], at);
    bytes.truncate(filled + outcome.as_ref().map_or(0, |more| *more));
    outcome
}

#[cfg(unix)]
fn read_once(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, at)
}

#[cfg(windows)]
fn read_once(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, at)
}
