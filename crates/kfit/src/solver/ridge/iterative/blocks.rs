//! The kernel matrix (n x m) between the n rows of a table and m landmarks, one block of rows at a
//! time.
//!
//! The first visit computes all blocks. It stores the blocks of the first rows in memory, up to a
//! limit, and the blocks of the next rows in the scratch folder, up to another limit. All other
//! blocks are recomputed at every visit. All blocks are bitwise reproducible, and are visited in
//! row order.

use crate::linalg::kernel_rows::{KernelBlock, compute_kernel_rows};
use crate::{Error, Result, Targets, solver::check_stop};
use faer::{Mat, MatRef};
use kapprox::{KernelFunction, Real};
use kstore::pass::Observer;
use kstore::scratch::{Cache, CacheWriter, ScratchFolder};
use kstore::{Pass, RowBlock, RowSource, TableShape};

/// Minimum number of rows per call of a [`RowFn`], for rows whose blocks are in memory (the last
/// call may have fewer). With a few hundred rows, the function would spend most of its time on
/// loading its own data into the cache.
pub(crate) const MIN_CALL_ROWS: usize = 1 << 13;

/// Number of tiles that are read ahead from the scratch folder. One, because kernel rows are long.
pub(crate) const READ_AHEAD_TILES: usize = 1;

/// Maximum numbers of rows whose blocks are stored.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StorageLimits<'a> {
    pub(crate) memory_rows: usize,
    /// Limit of the scratch folder; `None` stores nothing there.
    pub(crate) scratch: Option<ScratchLimit<'a>>,
}

/// The scratch folder, and the maximum number of rows whose blocks it may store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScratchLimit<'a> {
    pub(crate) folder: &'a ScratchFolder,
    pub(crate) max_rows: u64,
}

/// The kernel matrix between the rows of a table and landmarks, in blocks.
pub(crate) struct KernelBlocks<'a, T: Real> {
    pub(crate) source: &'a dyn RowSource<T>,
    pub(crate) targets: &'a Targets,
    pub(crate) kernel: &'a dyn KernelFunction<T>,
    /// Landmarks, m x d row-major.
    pub(crate) z: MatRef<'a, T>,
    /// The pass over the rows, with one lane so that blocks are visited in row order.
    pub(crate) pass: Pass<'a>,
    limits: StorageLimits<'a>,
    memory_blocks: Vec<CachedBlock<T>>,
    scratch_cache: Option<Cache<T>>,
    /// Number of blocks of the table, `None` before the first pass.
    block_count: Option<usize>,
    scratch_block_count: usize,
}

struct CachedBlock<T> {
    row_numbers: Vec<u64>,
    k: Vec<T>,
    y: Mat<f64>,
}

/// Called once for each block of the kernel matrix (b x m), with the targets of its rows (b x t).
type BlockFn<'w, T> = &'w mut (dyn FnMut(KernelBlock<'_, T>, MatRef<'_, f64>) + Send);

/// Called with some rows of the kernel matrix: their row numbers, and m values for each.
type RowFn<'w, T> = &'w mut (dyn FnMut(&[u64], &[&[T]]) + Send);

impl<'a, T: Real> KernelBlocks<'a, T> {
    pub(crate) fn new(
        source: &'a dyn RowSource<T>,
        targets: &'a Targets,
        kernel: &'a dyn KernelFunction<T>,
        z: MatRef<'a, T>,
        pass: Pass<'a>,
        limits: StorageLimits<'a>,
    ) -> Self {
        Self {
            source,
            targets,
            kernel,
            z,
            pass,
            limits,
            memory_blocks: Vec::new(),
            scratch_cache: None,
            block_count: None,
            scratch_block_count: 0,
        }
    }

    /// Returns the bytes that a stored row takes: m kernel values, t targets and the row number.
    pub(crate) fn row_bytes(m: usize, t: usize) -> usize {
        m * size_of::<T>() + 8 * t + 8
    }

    pub(crate) fn landmark_count(&self) -> usize {
        self.z.nrows()
    }

    /// Returns the number of rows in the blocks in memory, and the number of rows in the blocks in
    /// the scratch folder.
    pub(crate) fn cached_row_counts(&self) -> (usize, usize) {
        (
            self.memory_blocks.iter().map(|block| block.row_numbers.len()).sum(),
            self.scratch_cache.as_ref().map_or(0, |cache| cache.len() as usize),
        )
    }

    /// Calls `visitor` with every block, in row order. The first visit stores blocks up to the
    /// limits. Returns the number of passes over the table: 0 if all blocks are stored, otherwise
    /// 1.
    ///
    /// # Errors
    /// The rows or the scratch folder cannot be read or written; [`kstore::Error::Interrupted`].
    pub(crate) fn visit(&mut self, observer: &dyn Observer, visitor: BlockFn<'_, T>) -> Result<u64> {
        let (this, m) = (&*self, self.landmark_count());
        for block in &this.memory_blocks {
            check_stop(observer)?;
            visitor(KernelBlock { k: &block.k, m }, block.y.as_ref());
        }
        let pass = this.observed_pass(observer);
        if let Some(cache) = &this.scratch_cache {
            Pass { prefetch_tiles: READ_AHEAD_TILES, ..pass }.visit(cache, |row_block| {
                visitor(KernelBlock { k: row_block.x, m }, block_targets(this.targets, row_block)?.as_ref());
                Ok::<(), Error>(())
            })?;
        }
        let cached_block_count = this.memory_blocks.len() + this.scratch_block_count;
        if this.block_count == Some(cached_block_count) {
            return Ok(0);
        }
        let (mut memory_rows_left, mut writer) = match this.block_count {
            Some(_) => (0, None),
            None => (this.limits.memory_rows, this.open_writer()?),
        };
        let mut scratch_rows_left = writer.as_ref().map_or(0, CacheWriter::remaining);
        let (mut new_memory_blocks, mut visited_block_count, mut written_block_count, mut k_buffer) =
            (Vec::new(), 0, 0, Vec::new());
        pass.visit(this.source, |row_block| {
            visited_block_count += 1;
            if visited_block_count <= cached_block_count {
                return Ok::<(), Error>(());
            }
            let (b, y) = (row_block.len(), block_targets(this.targets, row_block)?);
            if memory_rows_left >= b {
                // zeroed memory, because the operating system allocates each of its pages only at
                // the first write, here by the worker that computes the values
                let mut k = vec![T::ZERO; b * m];
                this.compute_values(row_block, &mut k);
                visitor(KernelBlock { k: &k, m }, y.as_ref());
                memory_rows_left -= b;
                new_memory_blocks.push(CachedBlock { row_numbers: row_block.row_numbers.to_vec(), k, y });
                return Ok(());
            }
            this.resize_and_compute(row_block, &mut k_buffer);
            visitor(KernelBlock { k: &k_buffer, m }, y.as_ref());
            // the first block that does not fit into a tier (memory or scratch) closes the tier and
            // goes to the next one, so that each tier holds consecutive rows
            memory_rows_left = 0;
            match writer.as_mut().filter(|_| scratch_rows_left >= b as u64) {
                Some(writer) => {
                    writer.push(&RowBlock { x: &k_buffer, d: m, ..*row_block })?;
                    (scratch_rows_left, written_block_count) = (scratch_rows_left - b as u64, written_block_count + 1);
                }
                None => scratch_rows_left = 0,
            }
            Ok(())
        })?;
        if self.block_count.is_none() {
            self.scratch_cache = writer.filter(|_| written_block_count > 0).map(CacheWriter::finish).transpose()?;
            (self.memory_blocks, self.scratch_block_count, self.block_count) =
                (new_memory_blocks, written_block_count, Some(visited_block_count));
        }
        Ok(1)
    }

    fn open_writer(&self) -> Result<Option<CacheWriter<T>>> {
        let Some(ScratchLimit { folder, max_rows }) = self.limits.scratch.filter(|limit| limit.max_rows > 0) else {
            return Ok(None);
        };
        let shape = TableShape { input_count: self.landmark_count(), ..self.source.shape() };
        Ok(Some(folder.create_cache_up_to(shape, self.source.range(), max_rows)?))
    }

    /// Calls `visitor` with the kernel values of the rows for which `is_selected(row number)` is
    /// true, in row order. Reads the blocks in memory; if there are other rows, one pass computes
    /// their kernel values (it does not read the scratch folder). Returns the number of passes over
    /// the table.
    pub(crate) fn visit_rows(
        &self,
        observer: &dyn Observer,
        is_selected: impl Fn(u64) -> bool + Sync,
        visitor: RowFn<'_, T>,
    ) -> Result<u64> {
        let m = self.landmark_count();
        let (mut row_numbers, mut kernel_rows) = (Vec::new(), Vec::new());
        for (i, block) in self.memory_blocks.iter().enumerate() {
            check_stop(observer)?;
            for (row, k) in block.row_numbers.iter().zip(block.k.chunks_exact(m)).filter(|(row, _)| is_selected(**row))
            {
                row_numbers.push(*row);
                kernel_rows.push(k);
            }
            if kernel_rows.len() >= MIN_CALL_ROWS || i + 1 == self.memory_blocks.len() {
                visitor(&row_numbers, &kernel_rows);
                row_numbers.clear();
                kernel_rows.clear();
            }
        }
        if self.block_count == Some(self.memory_blocks.len()) {
            return Ok(0);
        }
        let (mut visited_block_count, mut x, mut k_buffer) = (0, Vec::new(), Vec::new());
        self.observed_pass(observer).visit(self.source, |row_block| {
            visited_block_count += 1;
            if visited_block_count > self.memory_blocks.len() {
                let selected_rows = || row_block.row_numbers.iter().enumerate().filter(|(_, row)| is_selected(**row));
                let row_numbers: Vec<u64> = selected_rows().map(|(_, row)| *row).collect();
                x.clear();
                selected_rows().for_each(|(i, _)| x.extend_from_slice(&row_block.x[i * row_block.d..][..row_block.d]));
                self.resize_and_compute(&RowBlock { x: &x, row_numbers: &row_numbers, ..*row_block }, &mut k_buffer);
                visitor(&row_numbers, &k_buffer.chunks_exact(m).collect::<Vec<_>>());
            }
            Ok::<(), Error>(())
        })?;
        Ok(1)
    }

    /// Returns the pass with this observer. One lane keeps the blocks in row order, and without a
    /// journal, each process of a run visits all blocks itself.
    fn observed_pass<'p>(&'p self, observer: &'p dyn Observer) -> Pass<'p> {
        Pass { observer, lane_count: 1, journal: None, ..self.pass }
    }

    /// Sets `k` to the kernel values between the b rows and the m landmarks.
    fn resize_and_compute(&self, row_block: &RowBlock<'_, T>, k: &mut Vec<T>) {
        let value_count = row_block.row_numbers.len() * self.landmark_count();
        // exact capacity: growth by doubling could take twice the memory that the plan counts
        k.clear();
        k.reserve_exact(value_count);
        k.resize(value_count, T::ZERO);
        self.compute_values(row_block, k);
    }

    fn compute_values(&self, row_block: &RowBlock<'_, T>, k: &mut [T]) {
        let x = MatRef::from_row_major_slice(row_block.x, row_block.row_numbers.len(), row_block.d);
        compute_kernel_rows(self.kernel, x, self.z, k, self.pass.workers);
    }
}

pub(crate) fn block_targets<T: Real>(targets: &Targets, row_block: &RowBlock<'_, T>) -> Result<Mat<f64>> {
    let mut y = Mat::zeros(row_block.len(), targets.count());
    for j in 0..targets.count() {
        for i in 0..row_block.len() {
            y[(i, j)] = targets.value(row_block, i, j)?;
        }
    }
    Ok(y)
}
