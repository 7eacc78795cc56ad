//! Caches on disk: rows that are expensive to compute, written once and then read like any other
//! source.
//!
//! A cache stores blocks of rows as a reduction reads them: features `phi` in place of the inputs
//! x, stored row numbers, targets, and class and group codes. A cache is a [`RowSource`] with the
//! rows and segments of the original source. The cache returns exactly the numbers that were
//! written, so a reduction of the cache is bit-identical to a reduction of the written blocks.
//!
//! The files of a cache have no names. The operating system removes them when the cache is dropped
//! or the process ends, even if it ends by an error, a panic, a signal or `kill -9`. Cleanup is
//! never necessary.
//!
//! *Bytes on disk*: [`Cache::row_bytes`] for each row. *Memory*: during writing, a buffer of 256
//! KiB for each array; during reading, none. *Speed*: the speed of the disk or, if the system has
//! cached the file, of the memory.
//!
//! ```
//! use kstore::scratch::ScratchFolder;
//! use kstore::{MemoryRows, Pass, RowBuf, RowSource, StatisticsReduction, Workers};
//! let rows = MemoryRows::new(vec![1.0f32, 2.0, 3.0, 4.0], 2)?;
//! let folder = tempfile::tempdir().unwrap();
//! let scratch = ScratchFolder::open(folder.path(), 1 << 20)?;
//! // a map that doubles and appends: 2 features become 3
//! let shape = kstore::TableShape { input_count: 3, ..RowSource::<f32>::shape(&rows) };
//! let mut writer = scratch.create_cache::<f32>(shape, RowSource::<f32>::range(&rows))?;
//! let mut buf = RowBuf::new(1024);
//! let mut cursor = rows.open(0..2)?;
//! while cursor.next(&mut buf)? {
//!     let phi: Vec<f32> = buf.x.chunks(2).flat_map(|x| [2.0 * x[0], 2.0 * x[1], 1.0]).collect();
//!     let block = buf.block(&RowSource::<f32>::shape(&rows));
//!     writer.push(&kstore::RowBlock { x: &phi, d: 3, ..block })?;
//! }
//! let cached = writer.finish()?;
//! let workers = Workers::sequential();
//! let reduction = StatisticsReduction::new(RowSource::<f32>::shape(&cached));
//! let (statistics, _) = Pass::new(1024, 65_536, &workers).reduce(&cached, &reduction)?;
//! assert_eq!((statistics.inputs[0].mean, statistics.inputs[2].mean), (4.0, 1.0));
//! # Ok::<(), kstore::Error>(())
//! ```

use crate::atomic::WRITE_BUFFER_BYTES;
use crate::checkpoint::Number;
use crate::source::shared_file::SharedFile;
use crate::{Error, Float, Footprint, Label, LabelCodes, Result, RowBlock, RowBuf, RowCursor, RowSource, TableShape};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs::File, marker::PhantomData, ops::Range};

/// Indices of the arrays of a cache: features, row numbers, targets, weights, the codes of classes,
/// and the codes of groups.
const FEATURES: usize = 0;
const ROW_NUMBERS: usize = 1;
const TARGETS: usize = 2;
const WEIGHTS: usize = 3;
const LABEL_CODES: usize = 4;
const ARRAY_COUNT: usize = 6;

/// A folder for caches, with a limit on their total size.
#[derive(Clone, Debug)]
pub struct ScratchFolder {
    folder: PathBuf,
    limit_bytes: u64,
    used_bytes: Arc<AtomicU64>,
}

impl ScratchFolder {
    /// Opens the existing folder `folder` for caches of at most `limit_bytes` bytes in total.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the folder does not exist.
    pub fn open(folder: &Path, limit_bytes: u64) -> Result<Self> {
        if !folder.is_dir() {
            return Err(Error::NotFound {
                path: folder.to_path_buf(),
                hint: "; `scratch` needs an existing folder: create it, or name another".to_string(),
            });
        }
        Ok(Self { folder: folder.to_path_buf(), limit_bytes, used_bytes: Arc::default() })
    }

    /// Returns the bytes left for further caches.
    pub fn remaining(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.used_bytes.load(Ordering::Relaxed))
    }

    /// Starts a cache of rows of this shape, for the stored rows `range`.
    ///
    /// # Errors
    /// [`Error::OverScratch`] if the rows of the range would exceed the limit; [`Error::Io`].
    #[doc(hidden)]
    pub fn create_cache<T: Float>(&self, shape: TableShape, range: Range<u64>) -> Result<CacheWriter<T>> {
        let rows = range.end.saturating_sub(range.start);
        self.create_cache_up_to(shape, range, rows)
    }

    /// Starts a cache like [`create_cache`](Self::create_cache), for at most `max_rows` rows of the
    /// range.
    ///
    /// # Errors
    /// [`Error::OverScratch`] if `max_rows` rows would exceed the limit; [`Error::Io`].
    #[doc(hidden)]
    pub fn create_cache_up_to<T: Float>(
        &self,
        shape: TableShape,
        range: Range<u64>,
        max_rows: u64,
    ) -> Result<CacheWriter<T>> {
        let needed_bytes = max_rows.saturating_mul(Cache::<T>::row_bytes(&shape) as u64);
        let reservation = Reservation::new(self, needed_bytes)?;
        let create_file = |_| tempfile::tempfile_in(&self.folder).map_err(Error::io("create a cache in", &self.folder));
        let array = |file: Result<File>| Ok(BufWriter::with_capacity(WRITE_BUFFER_BYTES, file?));
        Ok(CacheWriter {
            arrays: (0..ARRAY_COUNT).map(create_file).map(array).collect::<Result<_>>()?,
            dictionaries: [None, None],
            row_count: 0,
            max_rows,
            last_row: None,
            shape,
            range,
            folder: self.folder.clone(),
            reservation,
            element: PhantomData,
        })
    }
}

/// Bytes of the folder's limit that a cache uses until it is dropped.
#[derive(Debug)]
struct Reservation {
    used_bytes: Arc<AtomicU64>,
    bytes: u64,
}

impl Reservation {
    fn new(scratch: &ScratchFolder, bytes: u64) -> Result<Self> {
        let add_bytes = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= scratch.limit_bytes);
        match scratch.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add_bytes) {
            Ok(_) => Ok(Self { used_bytes: Arc::clone(&scratch.used_bytes), bytes }),
            Err(_) => {
                Err(Error::OverScratch { folder: scratch.folder.clone(), needed: bytes, left: scratch.remaining() })
            }
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

type Dictionaries = [Option<Arc<Vec<Label>>>; 2];

/// A cache that is being written.
#[doc(hidden)]
#[derive(Debug)]
pub struct CacheWriter<T> {
    arrays: Vec<BufWriter<File>>,
    dictionaries: Dictionaries,
    row_count: u64,
    max_rows: u64,
    last_row: Option<u64>,
    shape: TableShape,
    range: Range<u64>,
    folder: PathBuf,
    reservation: Reservation,
    element: PhantomData<T>,
}

impl<T: Float> CacheWriter<T> {
    /// Returns the number of rows that can still be appended.
    pub fn remaining(&self) -> u64 {
        self.max_rows - self.row_count
    }

    /// Appends a block. The row numbers of the blocks must ascend. All blocks must share one label
    /// dictionary, which the source was given before reading.
    ///
    /// # Errors
    /// [`Error::ScratchFull`] for a full disk; [`Error::Io`]; [`Error::Syntax`] for a block of
    /// another shape, for rows out of order, and for more rows than are
    /// [`remaining`](Self::remaining).
    pub fn push(&mut self, block: &RowBlock<'_, T>) -> Result<()> {
        self.check_block(block)?;
        let write_result = self.write_block(block);
        write_result.map_err(|error| self.write_error(error))?;
        self.row_count += block.len() as u64;
        self.last_row = block.row_numbers.last().copied().or(self.last_row);
        Ok(())
    }

    fn write_block(&mut self, block: &RowBlock<'_, T>) -> io::Result<()> {
        append(&mut self.arrays[FEATURES], block.x)?;
        append(&mut self.arrays[ROW_NUMBERS], block.row_numbers)?;
        append(&mut self.arrays[TARGETS], block.y)?;
        append(&mut self.arrays[WEIGHTS], block.weights.unwrap_or_default())?;
        for (i, label_codes) in [&block.classes, &block.groups].into_iter().enumerate() {
            let Some(LabelCodes { codes, labels }) = label_codes else { continue };
            append(&mut self.arrays[LABEL_CODES + i], codes)?;
            if self.dictionaries[i].as_ref().is_none_or(|stored_labels| stored_labels.len() < labels.len()) {
                self.dictionaries[i] = Some(Arc::new(labels.to_vec()));
            }
        }
        Ok(())
    }

    fn check_block(&self, block: &RowBlock<'_, T>) -> Result<()> {
        let (n, shape) = (block.len(), self.shape);
        let has_expected_weights = block.weights.map_or(0, <[f64]>::len) == if shape.has_weights { n } else { 0 };
        let has_expected_shape =
            block.x.len() == n * shape.input_count && block.y.len() == n * shape.target_count && has_expected_weights;
        let is_ordered = block.row_numbers.is_sorted_by(|a, b| a < b)
            && block.row_numbers.first().is_none_or(|first| self.last_row.is_none_or(|last| last < *first))
            && block.row_numbers.iter().all(|row| self.range.contains(row));
        let has_labels = [block.classes.is_some(), block.groups.is_some()];
        let has_same_labels = self.row_count == 0 || has_labels == self.dictionaries.each_ref().map(Option::is_some);
        if has_expected_shape && is_ordered && has_same_labels && n as u64 <= self.remaining() {
            return Ok(());
        }
        let text = format!("{n} rows with {} feature values and {} target values", block.x.len(), block.y.len());
        let remaining_rows = self.remaining();
        let expected = format!(
            "at most {remaining_rows} rows of {shape:?} in ascending order, with the same label columns in all blocks"
        );
        Err(Error::Syntax { what: "block for a cache", text, expected })
    }

    /// Finishes writing and returns the cache as a source.
    ///
    /// # Errors
    /// The errors of [`CacheWriter::push`].
    pub fn finish(mut self) -> Result<Cache<T>> {
        // the buffers are flushed here, while an error can still state how many bytes are needed
        let flush_result = self.arrays.iter_mut().try_for_each(BufWriter::flush);
        flush_result.map_err(|error| self.write_error(error))?;
        let folder = self.folder;
        let bytes_read = Arc::default();
        let file = |array: BufWriter<File>| {
            Ok(SharedFile::local(&folder, "cache", array.into_inner()?)?.with_counter(&bytes_read))
        };
        let arrays = self.arrays.into_iter().map(file).collect::<io::Result<_>>();
        Ok(Cache {
            arrays: arrays.map_err(Error::io("write a cache in", &folder))?,
            dictionaries: self.dictionaries,
            row_count: self.row_count,
            shape: self.shape,
            range: self.range,
            bytes_read,
            _reservation: self.reservation,
            element: PhantomData,
            folder,
        })
    }

    fn write_error(&self, error: io::Error) -> Error {
        if error.kind() != io::ErrorKind::StorageFull {
            return Error::io("write a cache in", &self.folder)(error);
        }
        Error::ScratchFull {
            folder: self.folder.clone(),
            needed: self.reservation.bytes,
            free: free_bytes(&self.folder),
        }
    }
}

fn append<N: Number>(array: &mut BufWriter<File>, values: &[N]) -> io::Result<()> {
    array.write_all(bytemuck::cast_slice(values))
}

/// Returns the free bytes on the disk of a folder; `None` if the operating system does not report
/// them.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        let disk = rustix::fs::statvfs(folder).ok()?;
        disk.f_bavail.checked_mul(disk.f_frsize)
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        None
    }
}

/// Rows on disk in unnamed files, which are removed when this value is dropped.
#[doc(hidden)]
#[derive(Debug)]
pub struct Cache<T> {
    arrays: Vec<SharedFile>,
    dictionaries: Dictionaries,
    row_count: u64,
    shape: TableShape,
    range: Range<u64>,
    folder: PathBuf,
    bytes_read: Arc<AtomicU64>,
    _reservation: Reservation,
    element: PhantomData<fn() -> T>,
}

impl<T: Float> Cache<T> {
    /// Returns the bytes on disk of a row, including labels.
    pub fn row_bytes(shape: &TableShape) -> usize {
        RowBuf::<T>::bytes_per_row(shape)
    }

    /// Returns the number of rows.
    pub fn len(&self) -> u64 {
        self.row_count
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.row_count == 0
    }

    fn read<N: Number>(&self, array_index: usize, first_value: u64, count: usize, out: &mut Vec<N>) -> Result<()> {
        // reserves exactly, because growth by doubling could allocate twice the memory of the plan
        out.clear();
        out.reserve_exact(count);
        out.resize(count, N::zeroed());
        let bytes = bytemuck::cast_slice_mut(out);
        let read_result = self.arrays[array_index].read_exact_at(bytes, first_value * size_of::<N>() as u64);
        read_result.map_err(Error::io("read a cache in", &self.folder))
    }

    /// Returns the position of the first row whose number is at least `row`. The binary search
    /// reads a few bytes of the file in each step.
    fn position(&self, row: u64) -> Result<u64> {
        let (mut low, mut high, mut row_number) = (0, self.row_count, Vec::new());
        while low < high {
            let middle = low + (high - low) / 2;
            self.read::<u64>(ROW_NUMBERS, middle, 1, &mut row_number)?;
            if row_number[0] < row { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }
}

impl<T: Float> RowSource<T> for Cache<T> {
    fn shape(&self) -> TableShape {
        self.shape
    }

    fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    fn open(&self, segment: Range<u64>) -> Result<Box<dyn RowCursor<T> + Send + '_>> {
        let remaining_rows = self.position(segment.start)?..self.position(segment.end)?;
        Ok(Box::new(CacheCursor { cache: self, remaining_rows }))
    }

    fn footprint(&self) -> Footprint {
        Footprint { fixed: 0, per_row: RowBuf::<T>::bytes_per_row(&self.shape) }
    }

    fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }
}

struct CacheCursor<'a, T> {
    cache: &'a Cache<T>,
    remaining_rows: Range<u64>,
}

impl<T: Float> RowCursor<T> for CacheCursor<'_, T> {
    fn next(&mut self, buf: &mut RowBuf<T>) -> Result<bool> {
        let (cache, first_position) = (self.cache, self.remaining_rows.start);
        let row_count = usize::try_from(self.remaining_rows.end.saturating_sub(first_position))
            .unwrap_or(usize::MAX)
            .min(buf.capacity);
        self.remaining_rows.start += row_count as u64;
        let (d, t) = (cache.shape.input_count, cache.shape.target_count);
        cache.read(ROW_NUMBERS, first_position, row_count, &mut buf.row_numbers)?;
        cache.read(FEATURES, first_position * d as u64, row_count * d, &mut buf.x)?;
        cache.read(TARGETS, first_position * t as u64, row_count * t, &mut buf.y)?;
        cache.read(WEIGHTS, first_position, if cache.shape.has_weights { row_count } else { 0 }, &mut buf.weights)?;
        let label_buffers = [(&mut buf.classes, &mut buf.class_labels), (&mut buf.groups, &mut buf.group_labels)];
        for (i, (codes, labels)) in label_buffers.into_iter().enumerate() {
            codes.clear();
            labels.clone_from(&cache.dictionaries[i]);
            if labels.is_some() {
                cache.read(LABEL_CODES + i, first_position, row_count, codes)?;
            }
        }
        Ok(row_count > 0)
    }
}
