//! A file format: the magic bytes RAWTABLE, the number of columns, and the values of the rows, 8
//! bytes each, little-endian. The last column is y.

use kstore::schema::{Column, Kind, Schema};
use kstore::source::{ColumnView, Element, FileCursor, FileMetadata, Format, StridedColumn, TableFile, Values};
use kstore::{Error, Result};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: &[u8] = b"RAWTABLE";

pub(crate) static FORMAT: Format = Format::new(&["raw"], |path, _, _| Ok(Arc::new(open(path)?))).magic(MAGIC);

#[derive(Debug)]
struct RawFile {
    schema: Schema,
    bytes: Vec<u8>,
}

fn open(path: &Path) -> Result<RawFile> {
    let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
    let columns = bytes.get(8..16).filter(|_| bytes.starts_with(MAGIC)).map(|word| word[0] as usize);
    let Some(columns) = columns.filter(|columns| *columns > 0 && (bytes.len() - 16) % (8 * columns) == 0) else {
        let detail = "no whole rows behind its head".to_string();
        return Err(Error::Damaged { path: path.to_path_buf(), detail });
    };
    let name = |j: usize| if j + 1 == columns { "y".to_string() } else { format!("x{j}") };
    let columns = (0..columns).map(|j| Column { name: name(j), kind: Kind::Float { bits: 64 } }).collect();
    Ok(RawFile { schema: Schema { columns, ..Schema::default() }, bytes: bytes[16..].to_vec() })
}

impl RawFile {
    fn stride(&self) -> usize {
        8 * self.schema.columns.len()
    }
}

impl TableFile for RawFile {
    fn metadata(&self) -> FileMetadata<'_> {
        let rows = (self.bytes.len() / self.stride()) as u64;
        FileMetadata {
            format: "raw",
            schema: &self.schema,
            row_count: rows,
            file_bytes: 16 + self.bytes.len() as u64,
            bytes_scanned: 0,
        }
    }

    fn resident_bytes(&self) -> usize {
        self.bytes.len()
    }
    fn cursor_bytes(&self, _: &[usize]) -> usize {
        0
    }
    fn open<'a>(
        &'a self,
        columns: &[usize],
        rows: Range<u64>,
        bytes_read: &Arc<AtomicU64>,
    ) -> Result<Box<dyn FileCursor + 'a>> {
        bytes_read.fetch_add((rows.end - rows.start) * self.stride() as u64, Ordering::Relaxed);
        Ok(Box::new(RawCursor {
            file: self,
            columns: columns.to_vec(),
            pending_rows: Some(rows.clone()),
            first_row: rows.start as usize,
        }))
    }
}

/// Cursor that returns all requested rows as one chunk.
struct RawCursor<'a> {
    file: &'a RawFile,
    columns: Vec<usize>,
    pending_rows: Option<Range<u64>>,
    first_row: usize,
}

impl FileCursor for RawCursor<'_> {
    fn advance(&mut self) -> Result<usize> {
        Ok(self.pending_rows.take().map_or(0, |rows| (rows.end - rows.start) as usize))
    }
    fn view(&self, index: usize) -> Result<ColumnView<'_>> {
        let stride = self.file.stride();
        let bytes = &self.file.bytes[self.first_row * stride..];
        let strided = StridedColumn { bytes, element: Element::F64, offset: 8 * self.columns[index], stride };
        Ok(ColumnView { values: Values::Strided(strided), nulls: None })
    }
}
