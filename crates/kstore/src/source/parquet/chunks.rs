//! How the decoder reads the bytes of a Parquet file.
//!
//! In a local file, each page is read when it is needed. For a remote object a request costs more
//! than a page: the column chunks that a cursor needs from a row group are requested at once, and
//! kept until the cursor reaches the next group. The last group is kept for the next cursor, which
//! begins where the previous one ended. *Bytes*: the stored chunks of a row group, twice for each
//! cursor.

use super::thrift::page_size;
use crate::source::positioned::Positioned;
use bytes::Bytes;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::{arrow::ProjectionMask, errors::ParquetError};
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Page headers have about 30 to 100 bytes, so one read gets a header and little of the page after
/// it.
const HEADER_BYTES: usize = 256;

type Group = Vec<(u64, Bytes)>;

/// The row groups of a remote object that cursors hold, by the ranges of their chunks, and the last
/// group read.
#[derive(Debug, Default)]
pub(super) struct Groups {
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    known: Vec<(Vec<Range<u64>>, Weak<Group>)>,
    last: Option<Arc<Group>>,
}

impl Groups {
    fn get(&self, file: &Positioned, wanted: &[Range<u64>]) -> io::Result<Arc<Group>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.known.retain(|(_, group)| group.strong_count() > 0);
        let known = held.known.iter().find(|(ranges, _)| ranges == wanted).and_then(|(_, group)| group.upgrade());
        let group = match (known, file.object()) {
            (Some(group), _) => group,
            (None, None) => Arc::default(),
            (None, Some(object)) => {
                // frees the previous group first
                held.last = None;
                let bytes = object.ranges(wanted)?;
                file.count(bytes.iter().map(Vec::len).sum());
                let starts = wanted.iter().map(|range| range.start);
                let group = Arc::new(starts.zip(bytes.into_iter().map(Bytes::from)).collect());
                held.known.push((wanted.to_vec(), Arc::downgrade(&group)));
                group
            }
        };
        held.last = Some(Arc::clone(&group));
        Ok(group)
    }
}

fn ranges(group: &RowGroupMetaData, mask: &ProjectionMask) -> Vec<Range<u64>> {
    let columns = group.columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf));
    let range = |(start, length): (u64, u64)| start..start.saturating_add(length);
    columns.map(|(_, column)| range(column.byte_range())).collect()
}

/// Returns the bytes that a cursor holds of a remote object.
pub(super) fn bytes(groups: &[RowGroupMetaData], mask: &ProjectionMask) -> usize {
    let of = |group| ranges(group, mask).iter().map(|range| range.end - range.start).sum::<u64>();
    let most = groups.iter().map(of).max().unwrap_or(0);
    2 * usize::try_from(most).unwrap_or(usize::MAX / 2)
}

#[derive(Clone, Debug)]
pub(super) struct Source {
    file: Positioned,
    near: Option<Arc<Near>>,
    /// Maximum bytes of an unpacked page.
    limit: Option<usize>,
}

/// The row groups of a cursor, and the chunks of the current one.
#[derive(Debug)]
struct Near {
    wanted: Vec<Vec<Range<u64>>>,
    groups: Arc<Groups>,
    current: Mutex<Option<(usize, Arc<Group>)>>,
}

impl Source {
    /// Returns a source for reading single pages of a file.
    pub(super) fn of(file: &Positioned) -> Self {
        Self { file: file.clone(), near: None, limit: None }
    }

    /// Returns a source for reading columns of a file, as whole chunks if the file is remote.
    pub(super) fn near(
        file: Positioned,
        groups: &[RowGroupMetaData],
        mask: &ProjectionMask,
        held: &Arc<Groups>,
    ) -> Self {
        let near = file.object().map(|_| {
            let wanted = groups.iter().map(|group| ranges(group, mask)).collect();
            Arc::new(Near { wanted, groups: Arc::clone(held), current: Mutex::default() })
        });
        Self { near, file, limit: None }
    }

    /// Limits the size of pages: a larger page is an error before the decoder allocates it.
    pub(super) fn limited(self, limit: usize) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// Returns the rest of the chunk that contains the byte at `at`; `None` if no requested chunk
    /// does.
    fn chunk(&self, at: u64) -> io::Result<Option<Bytes>> {
        let Some(near) = &self.near else { return Ok(None) };
        let holds = |group: &Vec<Range<u64>>| group.iter().position(|range| range.contains(&at));
        let found = near.wanted.iter().enumerate().find_map(|(index, group)| Some((index, holds(group)?)));
        let Some((index, column)) = found else { return Ok(None) };
        let mut current = near.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_none_or(|(there, _)| *there != index) {
            *current = None;
            *current = Some((index, near.groups.get(&self.file, &near.wanted[index])?));
        }
        let chunk = current.as_ref().and_then(|(_, group)| group.get(column));
        Ok(chunk
            .map(|(start, bytes)| bytes.slice(usize::try_from(at - start).unwrap_or(usize::MAX).min(bytes.len())..)))
    }
}

impl Length for Source {
    fn len(&self) -> u64 {
        self.file.length()
    }
}

impl ChunkReader for Source {
    type T = Buffered;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::with_capacity(HEADER_BYTES, FromPlace { source: self.clone(), at: start, limit: self.limit }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let whole = self.file.length();
        // a damaged length must not cause an allocation
        if start.checked_add(length as u64).is_none_or(|end| end > whole) {
            return Err(ParquetError::EOF(format!("expected {length} bytes at {start}, the file ends at {whole}")));
        }
        if let Some(chunk) = self.chunk(start)?.filter(|chunk| chunk.len() >= length) {
            return Ok(chunk.slice(..length));
        }
        let bytes = self.file.read_new(length, start)?;
        if bytes.len() < length {
            return Err(ParquetError::EOF(format!("expected {length} bytes at {start}, found {}", bytes.len())));
        }
        Ok(bytes.into())
    }
}

/// A reader of the bytes of a file from a given position, with a buffer for a page header.
pub(super) type Buffered = BufReader<FromPlace>;

#[derive(Debug)]
pub(super) struct FromPlace {
    source: Source,
    at: u64,
    /// Limit on the page size until the first read, which reads a page header and checks its size;
    /// then `None`.
    limit: Option<usize>,
}

impl Read for FromPlace {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = match self.source.chunk(self.at)? {
            Some(chunk) => {
                let got = chunk.len().min(buffer.len());
                buffer[..got].copy_from_slice(&chunk[..got]);
                got
            }
            None => self.source.file.read_at(buffer, self.at)?,
        };
        self.at += got as u64;
        let fault = self.limit.take().and_then(|limit| match page_size(&buffer[..got]) {
            Some(size) => {
                (size > limit).then(|| format!("a page claims {size} bytes and its column has at most {limit}"))
            }
            None => Some("a page has an invalid header".to_string()),
        });
        if let Some(fault) = fault {
            return Err(io::Error::new(io::ErrorKind::InvalidData, fault));
        }
        Ok(got)
    }
}
