//! A safetensors file with the states of many nodes (see [`Node`]).
//!
//! The metadata of the file lists its states and contains other JSON of the writer. The arrays of
//! the state of pass 2 that begins at segment 64 are named `2.64.…`. States are copied from file to
//! file array by array, so no file is ever in memory as a whole.

use super::file::{self, Array, Arrays, FileLayout, damaged_error};
use super::{Medium, Node, PassKey, RowsKey, StoredArrays, persist::Persist};
use crate::{AtomicFile, Error, Result, real::Number};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Version of the format of files of states.
const STATES_FORMAT: u64 = 1;

/// Identifies a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateKey {
    /// Pass of the state.
    pub pass: PassKey,
    /// Segments of the state.
    pub node: Node,
}

impl StateKey {
    fn array_prefix(&self) -> String {
        format!("{}.{}", self.pass.number, self.node.segments.start)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct StatesHeader {
    states_format: u64,
    #[serde(rename = "about")]
    metadata: Value,
    #[serde(rename = "states")]
    state_keys: Vec<StateKey>,
    #[serde(rename = "rows", default, skip_serializing_if = "Vec::is_empty")]
    row_keys: Vec<RowsKey>,
}

/// A file of states, open for reading.
#[derive(Debug)]
pub struct StateFile {
    stored: StoredArrays<'static>,
    header: StatesHeader,
}

impl StateFile {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the file is not a file of states; errors of the file system.
    pub fn open(path: &Path) -> Result<Self> {
        let stored = StoredArrays::open(path)?;
        let header: StatesHeader = stored.description()?;
        match header.states_format {
            STATES_FORMAT => Ok(Self { stored, header }),
            format => {
                Err(damaged_error(path, format!("it has format {format}, but this version reads {STATES_FORMAT}")))
            }
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.stored.path
    }

    /// Returns the JSON of the writer.
    pub fn metadata(&self) -> &Value {
        &self.header.metadata
    }

    /// Returns a digest of the content, by which other files can refer to this file.
    pub fn digest(&self) -> String {
        self.stored.digest()
    }

    /// Returns the keys of the states, in the order of the file.
    pub fn state_keys(&self) -> &[StateKey] {
        &self.header.state_keys
    }

    /// Returns the keys of the rows that are not in a state, in the order of the file.
    pub fn row_keys(&self) -> &[RowsKey] {
        &self.header.row_keys
    }

    /// Reads the tile of rows at a position in [`StateFile::row_keys`], in the format of
    /// [`StateWriter::push_rows`].
    ///
    /// # Errors
    /// The errors of [`StateFile::load`].
    pub fn load_rows(&mut self, position: usize) -> Result<Vec<u8>> {
        match self.header.row_keys.get(position) {
            None => Err(self.stored.damaged_error("it has fewer tiles of rows than expected")),
            Some(key) if key.row_count == 0 => Ok(Vec::new()),
            Some(key) => self.stored.read(&key.array_name()),
        }
    }

    /// Reads the state at a position in [`StateFile::state_keys`] into an initial state, which
    /// stays unchanged if the node has no rows. Returns the node.
    ///
    /// # Errors
    /// [`Error::Damaged`] if arrays are missing or were changed.
    pub fn load(&mut self, position: usize, state: &mut dyn Persist) -> Result<Node> {
        let Some(key) = self.header.state_keys.get(position) else {
            return Err(self.stored.damaged_error("it has fewer states than expected"));
        };
        let (node, prefix) = (key.node.clone(), key.array_prefix());
        if node.row_count > 0 {
            self.stored.read_part(&prefix, |arrays| state.load(arrays))?;
        }
        Ok(node)
    }
}

/// Stores a single state under a name in the medium, as a file of states whose metadata identifies
/// the job.
pub(crate) fn put_state(
    medium: &dyn Medium,
    name: &str,
    job_digest: &str,
    key: StateKey,
    state: Option<&dyn Persist>,
) -> Result<()> {
    let prefix = key.array_prefix();
    let mut arrays = Arrays::default();
    state.iter().for_each(|state| arrays.put_part(&prefix, |out| state.save(out)));
    let states_header = StatesHeader {
        states_format: STATES_FORMAT,
        metadata: job_digest.into(),
        state_keys: vec![key],
        row_keys: Vec::new(),
    };
    let header_bytes = file::sorted_header(&states_header, &mut arrays)
        .map_err(|detail| damaged_error(&medium.location().join(name), detail))?;
    medium.put(name, &mut |out| file::write_to(out, &header_bytes, &arrays))
}

/// A file of states that is written state by state. It appears at its path at
/// [`StateWriter::finish`].
#[derive(Debug)]
pub struct StateWriter {
    path: PathBuf,
    /// Arrays so far, in an unnamed file.
    array_file: BufWriter<File>,
    layout: FileLayout,
    header: StatesHeader,
}

impl StateWriter {
    /// Begins the file `path`.
    ///
    /// # Errors
    /// The errors of [`AtomicFile::create`].
    pub fn create(path: &Path) -> Result<Self> {
        let destination = AtomicFile::destination(path)?;
        let folder = destination.parent().unwrap_or(Path::new("."));
        let array_file = tempfile::tempfile_in(folder).map_err(Error::io("create", path))?;
        let header = StatesHeader {
            states_format: STATES_FORMAT,
            metadata: Value::Null,
            state_keys: Vec::new(),
            row_keys: Vec::new(),
        };
        Ok(Self {
            path: path.to_path_buf(),
            array_file: BufWriter::new(array_file),
            layout: FileLayout::default(),
            header,
        })
    }

    /// Adds a state; `state` is `None` for a node without rows.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn push(&mut self, key: StateKey, state: Option<&dyn Persist>) -> Result<()> {
        let prefix = key.array_prefix();
        let mut arrays = Arrays::default();
        state.iter().for_each(|state| arrays.put_part(&prefix, |out| state.save(out)));
        self.header.state_keys.push(key);
        arrays.list.sort_by_key(|array| std::cmp::Reverse(array.dtype));
        arrays.list.iter().try_for_each(|array| self.append(array))
    }

    /// Adds the state at a position of another file.
    ///
    /// # Errors
    /// [`Error::Damaged`] if arrays were changed; errors of the file system.
    pub fn copy_state(&mut self, source: &mut StateFile, position: usize) -> Result<()> {
        let Some(key) = source.header.state_keys.get(position).cloned() else {
            return Err(source.stored.damaged_error("it has fewer states than expected"));
        };
        let prefix = format!("{}.", key.array_prefix());
        self.header.state_keys.push(key);
        for name in source.stored.array_names().iter().filter(|name| name.starts_with(&prefix)) {
            let array = source.stored.read_array(name)?;
            self.append(&array)?;
        }
        Ok(())
    }

    /// Adds rows that are not in a state, as bytes in a format that the caller defines.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn push_rows(&mut self, key: RowsKey, bytes: &[u8]) -> Result<()> {
        let array = Array { name: key.array_name(), dtype: u8::DTYPE, element_count: bytes.len(), bytes: bytes.into() };
        let has_rows = key.row_count > 0;
        self.header.row_keys.push(key);
        if has_rows { self.append(&array) } else { Ok(()) }
    }

    fn append(&mut self, array: &Array<'_>) -> Result<()> {
        self.layout.add(array);
        self.array_file.write_all(&array.bytes).map_err(Error::io("write", &self.path))
    }

    /// Completes the file with the writer's JSON, and moves it to its path.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn finish(self, metadata: Value) -> Result<()> {
        let Self { path, array_file: buffered_file, layout, header } = self;
        let header_bytes =
            layout.into_header(&StatesHeader { metadata, ..header }).map_err(|detail| damaged_error(&path, detail))?;
        let mut array_file =
            buffered_file.into_inner().map_err(|error| Error::io("write", &path)(error.into_error()))?;
        let mut out = AtomicFile::create(&path)?;
        let mut write_file = || {
            out.write_all(&header_bytes)?;
            array_file.seek(SeekFrom::Start(0))?;
            std::io::copy(&mut array_file, &mut out).map(drop)
        };
        write_file().map_err(Error::io("write", &path))?;
        out.commit()
    }
}
