//! Memory-mapped files: the only unsafe code of this crate.
//!
//! Library users map files to use arrays without copying them, and gathers map scratch files.
//! Passes over rows do not map files; [`crate::source::npy`] says why.

#![expect(unsafe_code, reason = "mapping a file has no safe form")]

use crate::{Error, Result};
use kpass::element::Plain;
use memmap2::Mmap;
use std::{fs::File, path::Path};

/// A read-only map of a whole file.
///
/// While the file is mapped, nobody may truncate or change it: reading a page that no longer exists
/// kills the process.
#[derive(Debug)]
pub struct MappedFile {
    map: Mmap,
}

impl MappedFile {
    /// Maps a file.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the file does not exist; [`Error::Io`] if it cannot be opened or
    /// mapped.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("read", path))?;
        // SAFETY: the map is private to this value and only read. The remaining danger, another
        // process that changes or truncates the file, is stated on the type; kmill's own files are
        // replaced by rename, never rewritten.
        let map = unsafe { Mmap::map(&file) }.map_err(Error::io("map", path))?;
        Ok(Self { map })
    }

    /// Returns the bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Returns `count` numbers in the machine's byte order, from byte `offset` on. Returns `None`
    /// if the file is too short, or if the position is not aligned for the type.
    pub fn slice<V: Plain>(&self, offset: usize, count: usize) -> Option<&[V]> {
        let byte_len = count.checked_mul(size_of::<V>())?;
        let bytes = self.map.get(offset..offset.checked_add(byte_len)?)?;
        bytemuck::try_cast_slice(bytes).ok()
    }
}
