//! Columns of a mapped file, which are used in place.

use super::{IpcFile, NAME, message::Batch};
use crate::mmap::MappedFile;
use crate::schema::Kind;
use crate::source::data_type::column_kind;
use crate::{Error, Result};
use kpass::element::Plain;

/// A mapped Arrow IPC file, whose numeric columns are used in place.
///
/// While the file is mapped, no process may truncate or change it, see [`MappedFile`].
#[derive(Debug)]
pub struct MappedIpc<'a> {
    file: &'a IpcFile,
    mapped_file: MappedFile,
}

impl IpcFile {
    /// Maps the file into memory.
    ///
    /// # Errors
    /// The file cannot be opened or mapped.
    pub fn map(&self) -> Result<MappedIpc<'_>> {
        Ok(MappedIpc { file: self, mapped_file: MappedFile::open(self.file.path())? })
    }
}

impl MappedIpc<'_> {
    /// Returns the mapped file.
    pub fn mapped_file(&self) -> &MappedFile {
        &self.mapped_file
    }

    /// Returns the numbers of column `name` in record batch `batch` without copying them. There is
    /// one number for each row or, for a column of lists of a fixed length, one list after the
    /// other.
    ///
    /// # Errors
    /// [`Error::NoSuchColumn`]; [`Error::WrongType`] if the column holds another type than `V`;
    /// [`Error::Malformed`] if the batch is compressed, has nulls in the column, or is not aligned.
    ///
    /// ```
    /// use kstore::arrow::array::{Float32Array, RecordBatch};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("rows.arrow");
    /// # let mut out = kstore::sink::create(
    /// #     &path,
    /// #     &[kstore::OutputColumn::new("a", kstore::OutputKind::F32)],
    /// # )?;
    /// # out.write(&[kstore::OutputValues::F32(&[1.0, 2.5])])?;
    /// # out.finish()?;
    /// let file = kstore::source::ipc::IpcFile::open(&path)?;
    /// assert_eq!(file.map()?.column::<f32>(0, "a")?, [1.0, 2.5]);
    /// # Ok::<(), kstore::Error>(())
    /// ```
    pub fn column<V: Plain>(&self, batch: usize, name: &str) -> Result<&[V]> {
        let file = self.file;
        let (path, shared_file) = (file.file.path(), &file.file);
        let Some(root) = file.roots.iter().find(|root| root.name == name) else {
            let hint = file.layout.schema.hint(name);
            return Err(Error::NoSuchColumn { path: path.to_path_buf(), name: name.to_string(), hint });
        };
        let Some((_, width)) = root.contiguous_numbers().filter(|(element, _)| *element == V::ELEMENT) else {
            let expected = format!("{} was requested", Kind::from(V::ELEMENT));
            return Err(Error::wrong_type(path, name, column_kind(&root.data_type).to_string(), expected));
        };
        let block = file.batches.get(batch);
        let block =
            block.ok_or_else(|| shared_file.malformed_error(format!("it has only {} batches", file.batches.len())))?;
        let batch = Batch::read(shared_file, block).map_err(|error| error.into_error(path, NAME))?;
        if batch.codec.is_some() {
            return Err(
                shared_file.malformed_error("it is compressed and cannot be used in place; write it uncompressed")
            );
        }
        let nodes = root.nodes(&batch).map_err(|detail| shared_file.malformed_error(detail))?;
        if nodes.iter().any(|node| node.null_count > 0) {
            return Err(
                shared_file.malformed_error(format!("column {name:?} has missing values and cannot be used in place"))
            );
        }
        let values = root
            .spans(&batch)
            .map_err(|detail| shared_file.malformed_error(detail))?
            .last()
            .copied()
            .unwrap_or_default();
        let count = usize::try_from(batch.row_count).ok().and_then(|rows| rows.checked_mul(width));
        let count = count.filter(|count| (*count as u64).saturating_mul(size_of::<V>() as u64) <= values.length);
        let range = usize::try_from(values.offset).ok().zip(count);
        let values = range.and_then(|(offset, count)| self.mapped_file.slice(offset, count));
        values.ok_or_else(|| shared_file.malformed_error(format!("column {name:?} is too short or not aligned")))
    }
}
