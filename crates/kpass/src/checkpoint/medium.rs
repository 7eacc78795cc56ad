//! The storage that the processes of a run share.

use crate::atomic::{WRITE_BUFFER_BYTES, is_temporary, temporary_builder};
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
    fn location(&self) -> PathBuf;
    /// Stores a text under a name that is free; returns false if the name is taken. If several
    /// processes do so at the same time, exactly one of them gets true.
    fn create(&self, name: &str, text: &[u8]) -> Result<bool>;
    /// Stores a text under a name, and replaces an existing item.
    fn replace(&self, name: &str, text: &[u8]) -> Result<()>;
    /// Returns the text under a name; `None` if the name is free.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>>;
    /// Returns true if a name is taken.
    fn contains(&self, name: &str) -> Result<bool>;
    /// Removes the item with this name, if there is one.
    fn remove(&self, name: &str) -> Result<()>;
    /// Returns the names of all items.
    fn names(&self) -> Result<Vec<String>>;
    /// Stores a file under a name, and replaces an existing item. `write` is called with the file
    /// and writes its bytes.
    fn put(&self, name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> Result<()>;
    /// Returns the file under a name; `None` if the name is free.
    fn get(&self, name: &str) -> Result<Option<MediumFile>>;
}

/// A file of a [`Medium`], readable on this machine.
#[derive(Debug)]
pub enum MediumFile {
    /// The file itself.
    InPlace(PathBuf),
    /// A copy, which is removed when the value is dropped.
    Copy(TempPath),
}

impl MediumFile {
    /// Writes a copy of a file's bytes to the folder for temporary files.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let io_error = |error| Error::io("write", std::env::temp_dir())(error);
        let mut file = NamedTempFile::new().map_err(io_error)?;
        file.write_all(bytes).map_err(io_error)?;
        Ok(Self::Copy(file.into_temp_path()))
    }

    /// Returns the path at which the file can be read.
    pub fn path(&self) -> &Path {
        match self {
            Self::InPlace(path) => path,
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
    fn item_path(&self, name: &str) -> Result<PathBuf> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
        if name.is_empty() || matches!(name, "." | "..") || !name.bytes().all(is_allowed) {
            let displayed_name = crate::display::truncate(name);
            let why = format!(
                "the item name \"{}\" is not valid: expected letters, digits, - and .",
                crate::display::escape_line(&displayed_name)
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
    fn existing_file(&self, name: &str) -> Result<Option<PathBuf>> {
        let path = self.item_path(name)?;
        match Error::none_if_absent(std::fs::symlink_metadata(&path), "read", &path)? {
            None => Ok(None),
            Some(metadata) if metadata.is_file() => Ok(Some(path)),
            Some(_) => {
                let why = format!("{name} is a link, a folder or a device instead of a regular file; remove it");
                Err(Error::Engine { folder: self.location(), why })
            }
        }
    }

    /// Creates a temporary file with the text in the folder, under a unique name.
    fn create_temporary(&self, text: &[u8]) -> Result<NamedTempFile> {
        let io_error = |error| Error::io("write", &self.0)(error);
        let mut file = temporary_builder().tempfile_in(&self.0).map_err(io_error)?;
        file.write_all(text).map_err(io_error)?;
        Ok(file)
    }
}

impl Medium for Folder {
    fn location(&self) -> PathBuf {
        self.0.clone()
    }

    fn create(&self, name: &str, text: &[u8]) -> Result<bool> {
        // most names are taken, and a lookup costs less than creating a file
        if self.contains(name)? {
            return Ok(false);
        }
        let path = self.item_path(name)?;
        match self.create_temporary(text)?.persist_noclobber(&path) {
            Ok(_) => Ok(true),
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(Error::io("write", path)(error.error)),
        }
    }

    fn replace(&self, name: &str, text: &[u8]) -> Result<()> {
        let path = self.existing_file(name)?.map_or_else(|| self.item_path(name), Ok)?;
        let file = self.create_temporary(text)?;
        file.persist(&path).map(drop).map_err(|error| Error::io("write", path)(error.error))
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let Some(path) = self.existing_file(name)? else { return Ok(None) };
        Error::none_if_absent(std::fs::read(&path), "read", &path)
    }

    fn contains(&self, name: &str) -> Result<bool> {
        Ok(self.existing_file(name)?.is_some())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let Some(path) = self.existing_file(name)? else { return Ok(()) };
        Error::none_if_absent(std::fs::remove_file(&path), "remove", &path).map(drop)
    }

    fn names(&self) -> Result<Vec<String>> {
        let io_error = |error| Error::io("read", &self.0)(error);
        let entries = std::fs::read_dir(&self.0).map_err(io_error)?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        let names: Vec<String> = names.collect::<io::Result<_>>().map_err(io_error)?;
        Ok(names.into_iter().filter(|name| !is_temporary(name)).collect())
    }

    /// Does not flush to the disk: after a power failure a digest shows that a file is damaged, and
    /// its states are computed again.
    fn put(&self, name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        let path = self.existing_file(name)?.map_or_else(|| self.item_path(name), Ok)?;
        let mut out = BufWriter::with_capacity(WRITE_BUFFER_BYTES, self.create_temporary(&[])?);
        let file = write(&mut out).and_then(|()| out.into_inner().map_err(io::IntoInnerError::into_error));
        let persist_result = file.and_then(|file| file.persist(&path).map_err(|error| error.error));
        persist_result.map(drop).map_err(Error::io("write", path))
    }

    fn get(&self, name: &str) -> Result<Option<MediumFile>> {
        Ok(self.existing_file(name)?.map(MediumFile::InPlace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_paths_are_rejected() {
        let outer = tempfile::tempdir().unwrap();
        let outside = outer.path().join("outside");
        std::fs::write(&outside, "mine").unwrap();
        let folder = Folder::open(outer.path().join("states")).unwrap();
        for name in ["", ".", "..", "../outside", outside.to_str().unwrap(), "a/b", "a\\b", "a b", "a\n", "é", "a\0"] {
            let results = [
                folder.create(name, b"x").map(drop),
                folder.replace(name, b"x"),
                folder.read(name).map(drop),
                folder.contains(name).map(drop),
                folder.remove(name),
                folder.put(name, &mut |_| Ok(())),
                folder.get(name).map(drop),
            ];
            for result in results {
                let text = result.unwrap_err().to_string();
                assert!(text.contains("is not valid: expected letters, digits, - and ."), "{text}");
            }
        }
        assert!(folder.names().unwrap().is_empty() && std::fs::read(&outside).unwrap() == b"mine");
    }
}
