//! The storage that the processes of a run share.

use crate::atomic::{BUFFER_BYTES, builder, is_temporary};
use crate::{Error, Result};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempPath};

/// A storage of named items, each a short text or a file of states.
///
/// A folder that all processes see is a medium; a server or another store of a cluster can be one
/// too. A name consists of ASCII letters, digits, `-` and `.`, and is neither `.` nor `..`. An item
/// appears completely or not at all. Methods return the errors of the storage.
pub trait Medium: Send + Sync {
    /// Returns the location of the storage, for messages.
    fn place(&self) -> PathBuf;
    /// Stores a text under a name that is free; returns false if the name is taken. If several
    /// processes do so at the same time, exactly one of them gets true.
    fn create(&self, name: &str, text: &[u8]) -> Result<bool>;
    /// Stores a text under a name, and replaces an existing item.
    fn replace(&self, name: &str, text: &[u8]) -> Result<()>;
    /// Returns the text under a name; `None` if the name is free.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>>;
    /// Returns true if a name is taken.
    fn has(&self, name: &str) -> Result<bool>;
    /// Removes the item with this name, if there is one.
    fn remove(&self, name: &str) -> Result<()>;
    /// Returns the names of all items.
    fn names(&self) -> Result<Vec<String>>;
    /// Stores a file under a name, and replaces an existing item; `write` writes its bytes.
    fn put(&self, name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> Result<()>;
    /// Returns the file under a name; `None` if the name is free.
    fn get(&self, name: &str) -> Result<Option<Fetched>>;
}

/// A file of a [`Medium`], readable on this machine.
#[derive(Debug)]
pub enum Fetched {
    /// The file itself.
    There(PathBuf),
    /// A copy, which is removed when the value is dropped.
    Copy(TempPath),
}

impl Fetched {
    /// Writes a copy of a file's bytes to the folder for temporary files.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn copy(bytes: &[u8]) -> Result<Self> {
        let failed = |error| Error::io("write", std::env::temp_dir())(error);
        let mut file = NamedTempFile::new().map_err(failed)?;
        file.write_all(bytes).map_err(failed)?;
        Ok(Self::Copy(file.into_temp_path()))
    }

    /// Returns the path at which the file can be read.
    pub fn path(&self) -> &Path {
        match self {
            Self::There(path) => path,
            Self::Copy(path) => path,
        }
    }
}

/// A folder on this machine or on a network file system.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Opens the folder at `path`, and creates it if it does not exist.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        std::fs::create_dir_all(&path).map_err(Error::io("create", &path))?;
        Ok(Self(path))
    }

    /// Returns the path of a name, which is always in this folder.
    fn path(&self, name: &str) -> Result<PathBuf> {
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
        if name.is_empty() || matches!(name, "." | "..") || !name.bytes().all(letter) {
            let got = crate::shown::short(name);
            let why = format!(
                "the item name \"{}\" is not valid: expected letters, digits, - and .",
                crate::shown::line(&got)
            );
            return Err(Error::Engine { folder: self.0.clone(), why });
        }
        Ok(self.0.join(name))
    }

    /// Returns the file under a name; `None` if there is none.
    ///
    /// # Errors
    /// If the name belongs to a link, a folder or a device, which no process of a run creates:
    /// reading it might never end.
    fn file(&self, name: &str) -> Result<Option<PathBuf>> {
        let path = self.path(name)?;
        match Error::unless_absent(std::fs::symlink_metadata(&path), "read", &path)? {
            None => Ok(None),
            Some(there) if there.is_file() => Ok(Some(path)),
            Some(_) => {
                let why = format!("{name} is a link, a folder or a device instead of a regular file; remove it");
                Err(Error::Engine { folder: self.place(), why })
            }
        }
    }

    /// Creates a temporary file with the text in the folder, under a unique name.
    fn temporary(&self, text: &[u8]) -> Result<NamedTempFile> {
        let failed = |error| Error::io("write", &self.0)(error);
        let mut file = builder().tempfile_in(&self.0).map_err(failed)?;
        file.write_all(text).map_err(failed)?;
        Ok(file)
    }
}

impl Medium for Folder {
    fn place(&self) -> PathBuf {
        self.0.clone()
    }

    fn create(&self, name: &str, text: &[u8]) -> Result<bool> {
        // most names are taken, and a lookup costs less than creating a file
        if self.has(name)? {
            return Ok(false);
        }
        let path = self.path(name)?;
        match self.temporary(text)?.persist_noclobber(&path) {
            Ok(_) => Ok(true),
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(Error::io("write", path)(error.error)),
        }
    }

    fn replace(&self, name: &str, text: &[u8]) -> Result<()> {
        let path = self.file(name)?.map_or_else(|| self.path(name), Ok)?;
        let file = self.temporary(text)?;
        file.persist(&path).map(drop).map_err(|error| Error::io("write", path)(error.error))
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let Some(path) = self.file(name)? else { return Ok(None) };
        Error::unless_absent(std::fs::read(&path), "read", &path)
    }

    fn has(&self, name: &str) -> Result<bool> {
        Ok(self.file(name)?.is_some())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let Some(path) = self.file(name)? else { return Ok(()) };
        Error::unless_absent(std::fs::remove_file(&path), "remove", &path).map(drop)
    }

    fn names(&self) -> Result<Vec<String>> {
        let failed = |error| Error::io("read", &self.0)(error);
        let entries = std::fs::read_dir(&self.0).map_err(failed)?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        let names: Vec<String> = names.collect::<io::Result<_>>().map_err(failed)?;
        Ok(names.into_iter().filter(|name| !is_temporary(name)).collect())
    }

    /// Does not flush to the disk: after a power failure a digest shows that a file is damaged, and
    /// its states are computed again.
    fn put(&self, name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        let path = self.file(name)?.map_or_else(|| self.path(name), Ok)?;
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, self.temporary(&[])?);
        let file = write(&mut out).and_then(|()| out.into_inner().map_err(io::IntoInnerError::into_error));
        let placed = file.and_then(|file| file.persist(&path).map_err(|error| error.error));
        placed.map(drop).map_err(Error::io("write", path))
    }

    fn get(&self, name: &str) -> Result<Option<Fetched>> {
        Ok(self.file(name)?.map(Fetched::There))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_path() {
        let outer = tempfile::tempdir().unwrap();
        let outside = outer.path().join("outside");
        std::fs::write(&outside, "mine").unwrap();
        let folder = Folder::open(outer.path().join("states")).unwrap();
        for name in ["", ".", "..", "../outside", outside.to_str().unwrap(), "a/b", "a\\b", "a b", "a\n", "é", "a\0"] {
            let refused = [
                folder.create(name, b"x").map(drop),
                folder.replace(name, b"x"),
                folder.read(name).map(drop),
                folder.has(name).map(drop),
                folder.remove(name),
                folder.put(name, &mut |_| Ok(())),
                folder.get(name).map(drop),
            ];
            for refused in refused {
                let text = refused.unwrap_err().to_string();
                assert!(text.contains("is not valid: expected letters, digits, - and ."), "{text}");
            }
        }
        assert!(folder.names().unwrap().is_empty() && std::fs::read(&outside).unwrap() == b"mine");
    }
}
