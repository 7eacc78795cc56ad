//! An entry of a checkpoint: one safetensors file with the arrays of a state.
//!
//! The file has one metadata key, `kmill`, with JSON: the pass, its progress, and a digest of every
//! array. Arrays are little-endian, as the format requires: kmill supports no other machines.

use crate::digest::Digest;
use crate::real::Number;
use crate::{AtomicFile, Error, Result, display};
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The only metadata key of the safetensors files that kmill writes: several keys would be written
/// in random order.
pub const METADATA_KEY: &str = "kmill";

/// Maximum size of a header. States have tens of arrays, each with some hundred bytes in the
/// header.
const MAX_HEADER_BYTES: u64 = 16 << 20;

/// The cut of the rows of a pass into tiles and segments. Another cut changes the order of sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Number of rows per tile.
    #[serde(rename = "tile")]
    pub tile_rows: usize,
    /// Number of stored rows per segment.
    #[serde(rename = "segment")]
    pub segment_rows: u64,
    /// First stored row of the pass.
    #[serde(rename = "start")]
    pub start_row: u64,
    /// Stored row after the last row of the pass.
    #[serde(rename = "end")]
    pub end_row: u64,
}

impl Cut {
    /// Returns the numbers of the segments among all stored rows.
    pub fn segments(&self) -> std::ops::Range<u64> {
        let segment_rows = self.segment_rows.max(1);
        let first_segment = self.start_row / segment_rows;
        first_segment..if self.start_row < self.end_row { self.end_row.div_ceil(segment_rows) } else { first_segment }
    }

    /// Returns the stored rows of some segments.
    pub fn rows(&self, segments: &std::ops::Range<u64>) -> std::ops::Range<u64> {
        let first_row_of =
            |segment: u64| segment.saturating_mul(self.segment_rows.max(1)).clamp(self.start_row, self.end_row);
        first_row_of(segments.start)..first_row_of(segments.end)
    }
}

/// The pass that an entry belongs to, and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EntryHeader {
    /// Digest of the manifest of the run that wrote the entry.
    pub(super) run: String,
    pub(super) pass: String,
    pub(super) cut: Cut,
    #[serde(rename = "done")]
    pub(super) merged_segments: u64,
    #[serde(rename = "rows")]
    pub(super) row_count: u64,
    #[serde(rename = "complete")]
    pub(super) is_complete: bool,
}

/// An array to write, in the byte order of the machine.
#[derive(Debug)]
pub(super) struct Array<'a> {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) element_count: usize,
    pub(super) bytes: Cow<'a, [u8]>,
}

/// The arrays of a state, for writing.
#[derive(Debug, Default)]
pub struct Arrays<'a> {
    pub(super) list: Vec<Array<'a>>,
    prefix: String,
}

impl<'a> Arrays<'a> {
    /// Adds a borrowed array of the state.
    pub fn put<N: Number>(&mut self, name: &str, values: &'a [N]) {
        self.push::<N>(name, values.len(), Cow::Borrowed(bytemuck::cast_slice(values)));
    }

    /// Adds a short array that exists only for saving.
    pub fn put_owned<N: Number>(&mut self, name: &str, values: Vec<N>) {
        self.push::<N>(name, values.len(), Cow::Owned(bytemuck::cast_slice(&values).to_vec()));
    }

    /// Adds a single number.
    pub fn put_number<N: Number>(&mut self, name: &str, value: N) {
        self.put_owned(name, vec![value]);
    }

    /// Adds the arrays of a part of the state, which `save` puts, under names that begin with
    /// `part.`.
    pub fn put_part(&mut self, part: &str, save: impl FnOnce(&mut Self)) {
        let length = self.prefix.len();
        self.prefix.push_str(part);
        self.prefix.push('.');
        save(self);
        self.prefix.truncate(length);
    }

    /// Returns the numbers of the first array whose name ends with `suffix`, in any part of the
    /// state; `None` without such an array of this type.
    pub fn find<N: Number>(&self, suffix: &str) -> Option<Vec<N>> {
        let array = self.list.iter().find(|array| array.name.ends_with(suffix) && array.dtype == N::DTYPE)?;
        Some(array.bytes.chunks_exact(size_of::<N>()).map(bytemuck::pod_read_unaligned).collect())
    }

    pub(super) fn bytes(&self) -> usize {
        self.list.iter().map(|array| array.bytes.len()).sum()
    }

    fn push<N: Number>(&mut self, name: &str, length: usize, bytes: Cow<'a, [u8]>) {
        self.list.push(Array { name: format!("{}{name}", self.prefix), dtype: N::DTYPE, element_count: length, bytes });
    }
}

/// The JSON in the metadata of a file: the writer's description, and the digests of the arrays.
#[derive(Serialize, Deserialize)]
struct FileMetadata<H> {
    #[serde(flatten)]
    description: H,
    digests: BTreeMap<String, String>,
}

/// Writes an entry, completely or not at all.
pub(super) fn write<H: Serialize>(path: &Path, description: &H, arrays: &mut Arrays<'_>) -> Result<()> {
    let header = sorted_header(description, arrays).map_err(|detail| damaged_error(path, detail))?;
    let mut out = AtomicFile::create_checkpoint(path)?;
    write_to(&mut out, &header, arrays).map_err(Error::io("write", path))?;
    out.commit()
}

/// Sorts the arrays into the order of the file, and returns the header.
pub(super) fn sorted_header<H: Serialize>(description: &H, arrays: &mut Arrays<'_>) -> Result<Vec<u8>, String> {
    // descending size of the types keeps every array aligned for programs that map the file
    arrays.list.sort_by(|a, b| b.dtype.cmp(&a.dtype).then_with(|| a.name.cmp(&b.name)));
    let mut layout = FileLayout::default();
    arrays.list.iter().for_each(|array| layout.add(array));
    layout.into_header(description)
}

pub(super) fn write_to(out: &mut (impl Write + ?Sized), header: &[u8], arrays: &Arrays<'_>) -> std::io::Result<()> {
    out.write_all(header)?;
    arrays.list.iter().try_for_each(|array| out.write_all(&array.bytes))
}

/// The layout of a file to be written: its arrays in the order of their bytes.
#[derive(Debug, Default)]
pub(super) struct FileLayout {
    arrays: Vec<(String, Dtype, Vec<usize>)>,
    digests: BTreeMap<String, String>,
}

impl FileLayout {
    /// Appends `array` to the layout.
    pub(super) fn add(&mut self, array: &Array<'_>) {
        self.digests.insert(array.name.clone(), Digest::hex_of(&array.bytes));
        self.arrays.push((array.name.clone(), array.dtype, vec![array.element_count]));
    }

    /// Returns the header: everything before the bytes of the arrays.
    pub(super) fn into_header<H: Serialize>(self, description: &H) -> Result<Vec<u8>, String> {
        let metadata_json = serde_json::to_string(&FileMetadata { description, digests: self.digests })
            .map_err(|error| error.to_string())?;
        safetensors_header(self.arrays, metadata_json)
    }
}

/// Returns the header of a safetensors file of arrays with these names, types and shapes, and with
/// the given JSON under the metadata key [`METADATA_KEY`].
///
/// # Errors
/// The errors of safetensors, as text.
pub fn safetensors_header(
    arrays: impl IntoIterator<Item = (String, Dtype, Vec<usize>)>,
    metadata_json: String,
) -> Result<Vec<u8>, String> {
    let mut end = 0;
    let infos = arrays.into_iter().map(|(name, dtype, shape)| {
        let start = end;
        end += shape.iter().product::<usize>() * dtype.bitsize() / 8;
        (name, TensorInfo { dtype, shape, data_offsets: (start, end) })
    });
    let metadata = Metadata::new(Some(HashMap::from([(METADATA_KEY.to_string(), metadata_json)])), infos.collect());
    let metadata = metadata.map_err(|error| error.to_string())?;
    let mut json = serde_json::to_vec(&metadata).map_err(|error| error.to_string())?;
    json.resize(json.len().next_multiple_of(8), b' ');
    Ok([&(json.len() as u64).to_le_bytes()[..], &json].concat())
}

pub(super) fn damaged_error(path: &Path, detail: impl Into<String>) -> Error {
    Error::Damaged { path: path.to_path_buf(), detail: detail.into() }
}

/// A reader with random access.
trait ReadSeek: Read + Seek + Send {}
impl<I: Read + Seek + Send> ReadSeek for I {}

/// The arrays of a saved state, for reading.
pub struct StoredArrays<'a> {
    pub(super) path: PathBuf,
    reader: Box<dyn ReadSeek + 'a>,
    /// Offset of the arrays in the file, in bytes.
    data_offset: u64,
    metadata: Metadata,
    file_metadata: FileMetadata<serde_json::Value>,
    prefix: String,
}

impl Debug for StoredArrays<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredArrays")
            .field("path", &self.path)
            .field("head", &self.file_metadata.description)
            .finish_non_exhaustive()
    }
}

impl<'a> StoredArrays<'a> {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let length = crate::identity::regular_metadata(path)?.len();
        let file = File::open(path).map_err(Error::io("read", path))?;
        Self::new(path, Box::new(file), length)
    }

    /// Opens an entry in memory and reads its header.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the bytes are not an entry.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        Self::new(Path::new("the entry"), Box::new(std::io::Cursor::new(bytes)), bytes.len() as u64)
    }

    /// Reads the header. Compares its sizes with the length of the file before it allocates memory.
    fn new(path: &Path, mut reader: Box<dyn ReadSeek + 'a>, file_bytes: u64) -> Result<Self> {
        let io_error = |error| Error::io("read", path)(error);
        let mut length_prefix = [0; 8];
        if file_bytes < 8 {
            return Err(damaged_error(path, format!("it has only {file_bytes} bytes")));
        }
        reader.read_exact(&mut length_prefix).map_err(io_error)?;
        let header_bytes = u64::from_le_bytes(length_prefix);
        if header_bytes > MAX_HEADER_BYTES || header_bytes + 8 > file_bytes {
            return Err(damaged_error(
                path,
                format!("its header would have {header_bytes} bytes, but the file has {file_bytes}"),
            ));
        }
        let mut json = vec![0; header_bytes as usize];
        reader.read_exact(&mut json).map_err(io_error)?;
        let metadata: Metadata =
            serde_json::from_slice(&json).map_err(|error| damaged_error(path, display::json_error(&error)))?;
        let data_offset = header_bytes + 8;
        if data_offset.checked_add(metadata.data_len() as u64) != Some(file_bytes) {
            let expected = metadata.data_len();
            return Err(damaged_error(
                path,
                format!(
                    "its header announces {expected} bytes of arrays, but the file has {}",
                    file_bytes - data_offset
                ),
            ));
        }
        let metadata_json = metadata.metadata().as_ref().and_then(|keys| keys.get(METADATA_KEY));
        let metadata_json =
            metadata_json.ok_or_else(|| damaged_error(path, "its metadata has no entry named kmill"))?;
        let file_metadata =
            serde_json::from_str(metadata_json).map_err(|error| damaged_error(path, display::json_error(&error)))?;
        Ok(Self { path: path.to_path_buf(), reader, data_offset, metadata, file_metadata, prefix: String::new() })
    }

    /// Returns the writer's description from the metadata of the file.
    pub(super) fn description<H: serde::de::DeserializeOwned>(&self) -> Result<H> {
        H::deserialize(&self.file_metadata.description).map_err(|error| self.damaged_error(display::json_error(&error)))
    }

    /// Returns a digest of the description and of the arrays.
    pub(super) fn digest(&self) -> String {
        Digest::hex_of(serde_json::to_string(&self.file_metadata).unwrap_or_default().as_bytes())
    }

    /// Returns the names of the arrays, in the order of their offsets. Empty arrays at the same
    /// offset are sorted by name.
    pub(super) fn array_names(&self) -> Vec<String> {
        let mut names = self.metadata.offset_keys();
        names.sort_by_cached_key(|name| (self.metadata.info(name).map(|info| info.data_offsets), name.clone()));
        names
    }

    pub(super) fn read_array(&mut self, name: &str) -> Result<Array<'static>> {
        let (name, info) = self.find_array(name)?;
        let mut bytes = vec![0; info.data_offsets.1 - info.data_offsets.0];
        self.read_bytes(&name, &info, &mut bytes)?;
        Ok(Array { name, dtype: info.dtype, element_count: info.shape.iter().product(), bytes: bytes.into() })
    }

    /// Reads an array of known length.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the array is missing, has another type or length, or was changed.
    pub fn fill<N: Number>(&mut self, name: &str, out: &mut [N]) -> Result<()> {
        let (name, info) = self.find_array(name)?;
        let (dtype, expected) = (N::DTYPE, out.len());
        if info.dtype != dtype || info.shape != [expected] {
            let (got, shape) = (info.dtype, &info.shape);
            return Err(
                self.damaged_error(format!("array {name} is {got:?} {shape:?} instead of {dtype:?} [{expected}]"))
            );
        }
        self.read_bytes(&name, &info, bytemuck::cast_slice_mut(out))
    }

    /// Reads the bytes of an array into `bytes`, which must have its length, and checks their
    /// digest.
    fn read_bytes(&mut self, name: &str, info: &TensorInfo, bytes: &mut [u8]) -> Result<()> {
        let position = SeekFrom::Start(self.data_offset + info.data_offsets.0 as u64);
        let read_result = self.reader.seek(position).and_then(|_| self.reader.read_exact(bytes));
        read_result.map_err(Error::io("read", &self.path))?;
        self.check_digest(name, Digest::hex_of(bytes))
    }

    fn check_digest(&self, name: &str, digest: String) -> Result<()> {
        match self.file_metadata.digests.get(name) == Some(&digest) {
            true => Ok(()),
            false => Err(self.damaged_error(format!("the digest of array {name} does not match"))),
        }
    }

    /// Reads an array of any length.
    ///
    /// # Errors
    /// The errors of [`StoredArrays::fill`].
    pub fn read<N: Number>(&mut self, name: &str) -> Result<Vec<N>> {
        // not longer than the file, because the header was checked against its length
        let length = self.find_array(name)?.1.shape.iter().product();
        let mut values = vec![N::zeroed(); length];
        self.fill(name, &mut values)?;
        Ok(values)
    }

    /// Reads a single number.
    ///
    /// # Errors
    /// The errors of [`StoredArrays::fill`].
    pub fn read_number<N: Number>(&mut self, name: &str) -> Result<N> {
        let mut value = [N::zeroed()];
        self.fill(name, &mut value)?;
        Ok(value[0])
    }

    /// Reads the arrays of a part of the state, as [`Arrays::put_part`] wrote them.
    ///
    /// # Errors
    /// The errors of `load`.
    pub fn read_part(&mut self, part: &str, load: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let length = self.prefix.len();
        self.prefix.push_str(part);
        self.prefix.push('.');
        let result = load(self);
        self.prefix.truncate(length);
        result
    }

    /// Returns an error about this entry, for arrays whose values contradict each other.
    pub fn damaged_error(&self, detail: impl Into<String>) -> Error {
        damaged_error(&self.path, detail)
    }

    /// Reads every array and checks its digest.
    ///
    /// # Errors
    /// The errors of [`StoredArrays::fill`].
    pub fn verify(&mut self) -> Result<()> {
        self.prefix.clear();
        // reads in pieces, because arrays may be as long as the table; the length of a piece is a
        // multiple of 8 bytes, as the digest requires
        let mut buffer = vec![0u8; 1 << 20];
        for name in self.metadata.offset_keys() {
            let (name, info) = self.find_array(&name)?;
            let (start, end) = info.data_offsets;
            let (mut digest, mut remaining_bytes) = (Digest::default(), end - start);
            let mut read_result = self.reader.seek(SeekFrom::Start(self.data_offset + start as u64)).map(drop);
            while read_result.is_ok() && remaining_bytes > 0 {
                let bytes = &mut buffer[..remaining_bytes.min(1 << 20)];
                read_result = self.reader.read_exact(bytes);
                digest.update(bytes);
                remaining_bytes -= bytes.len();
            }
            read_result.map_err(Error::io("read", &self.path))?;
            self.check_digest(&name, digest.finish_hex())?;
        }
        Ok(())
    }

    /// Returns the full name of an array of the current part, and its type, shape and position.
    fn find_array(&self, name: &str) -> Result<(String, TensorInfo)> {
        let name = format!("{}{name}", self.prefix);
        match self.metadata.info(&name) {
            Some(info) => Ok((name, info.clone())),
            None => Err(self.damaged_error(format!("array {name} is missing"))),
        }
    }
}
