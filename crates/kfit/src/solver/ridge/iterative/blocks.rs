//! The kernel matrix between the rows of a table and landmarks, one block of rows at a time.
//!
//! The blocks of the first rows stay in memory, as many as fit. The blocks of the next rows stay in
//! the scratch folder, as many as fit. All other blocks are recomputed at every visit. All blocks
//! are bitwise reproducible, and are visited in row order.

use crate::linalg::kernel_rows::{KernelBlock, kernel_rows};
use crate::{Error, Result, Targets, solver::check_stop};
use faer::{Mat, MatRef};
use kapprox::{KernelFunction, Real};
use kstore::pass::Observer;
use kstore::scratch::{Cache, CacheWriter, Scratch};
use kstore::{Pass, RowBlock, RowSource, TableShape};

/// A row function receives at least this many rows per call if the blocks of these rows are in
/// memory. With a few hundred rows the function would spend most of its time on loading its own
/// data into the cache.
pub(crate) const MIN_CALL_ROWS: usize = 1 << 13;

/// Number of tiles that are read ahead from scratch; small, because kernel rows are long.
pub(crate) const READ_AHEAD_TILES: usize = 1;

/// Numbers of rows whose blocks may be stored.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StorageLimits<'a> {
    pub(crate) memory: usize,
    /// The scratch folder, and the maximum number of rows whose blocks it may store. These rows
    /// come after the rows whose blocks are in memory.
    pub(crate) scratch: Option<(&'a Scratch, u64)>,
}

/// The kernel matrix between the rows of a table and landmarks, in blocks.
pub(crate) struct Blocks<'a, T: Real> {
    pub(crate) source: &'a dyn RowSource<T>,
    pub(crate) targets: &'a Targets,
    pub(crate) kernel: &'a dyn KernelFunction<T>,
    /// Landmarks, m x d row-major.
    pub(crate) z: MatRef<'a, T>,
    /// The pass over the rows, with one lane so that blocks are visited in row order.
    pub(crate) pass: Pass<'a>,
    limits: StorageLimits<'a>,
    in_memory: Vec<Block<T>>,
    in_scratch: Option<Cache<T>>,
    /// Number of blocks of the table, `None` before the first pass.
    block_count: Option<usize>,
    scratch_blocks: usize,
}

struct Block<T> {
    rows: Vec<u64>,
    k: Vec<T>,
    y: Mat<f64>,
}

/// A function that receives every block of the kernel matrix (b x m) and its targets (b x t).
type BlockFn<'w, T> = &'w mut (dyn FnMut(KernelBlock<'_, T>, MatRef<'_, f64>) + Send);

/// A function that receives some rows of the kernel matrix: their row numbers, and m values each.
type RowFn<'w, T> = &'w mut (dyn FnMut(&[u64], &[&[T]]) + Send);

impl<'a, T: Real> Blocks<'a, T> {
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
            in_memory: Vec::new(),
            in_scratch: None,
            block_count: None,
            scratch_blocks: 0,
        }
    }

    /// Returns the bytes of a row in memory, for t targets.
    pub(crate) fn row_bytes(m: usize, t: usize) -> usize {
        m * size_of::<T>() + 8 * t + 8
    }

    pub(crate) fn landmarks(&self) -> usize {
        self.z.nrows()
    }

    /// Returns the numbers of rows whose blocks are in memory, and in scratch.
    pub(crate) fn stored_rows(&self) -> (usize, usize) {
        (
            self.in_memory.iter().map(|block| block.rows.len()).sum(),
            self.in_scratch.as_ref().map_or(0, |s| s.len() as usize),
        )
    }

    /// Calls a function with every block, in row order, and returns the number of passes over the
    /// table. The first visit stores the blocks that fit.
    ///
    /// # Errors
    /// The rows or the scratch folder cannot be read or written; [`kstore::Error::Interrupted`].
    pub(crate) fn visit(&mut self, observer: &dyn Observer, action: BlockFn<'_, T>) -> Result<u64> {
        let (blocks, m) = (&*self, self.landmarks());
        for block in &blocks.in_memory {
            check_stop(observer)?;
            action(KernelBlock { k: &block.k, m }, block.y.as_ref());
        }
        let pass = blocks.pass(observer);
        if let Some(cache) = &blocks.in_scratch {
            Pass { prefetch: READ_AHEAD_TILES, ..pass }.visit(cache, |rows| {
                action(KernelBlock { k: rows.x, m }, block_targets(blocks.targets, rows)?.as_ref());
                Ok::<(), Error>(())
            })?;
        }
        let skipped = blocks.in_memory.len() + blocks.scratch_blocks;
        if blocks.block_count == Some(skipped) {
            return Ok(0);
        }
        let (mut memory_rows, mut writer) = match blocks.block_count {
            Some(_) => (0, None),
            None => (blocks.limits.memory, blocks.writer()?),
        };
        let mut scratch_rows = writer.as_ref().map_or(0, CacheWriter::remaining);
        let (mut kept_blocks, mut index, mut written, mut buffer) = (Vec::new(), 0, 0, Vec::new());
        pass.visit(blocks.source, |rows| {
            index += 1;
            if index <= skipped {
                return Ok::<(), Error>(());
            }
            let (b, y) = (rows.len(), block_targets(blocks.targets, rows)?);
            if memory_rows >= b {
                // fresh zero pages, so that the threads that write the values first touch them
                let mut k = vec![T::ZERO; b * m];
                blocks.write_values(rows, &mut k);
                action(KernelBlock { k: &k, m }, y.as_ref());
                memory_rows -= b;
                kept_blocks.push(Block { rows: rows.rows.to_vec(), k, y });
                return Ok(());
            }
            blocks.compute_values(rows, &mut buffer);
            action(KernelBlock { k: &buffer, m }, y.as_ref());
            // the first block that does not fit into a tier (memory or scratch) closes this tier,
            // so that the next tier starts with the rows after it
            memory_rows = 0;
            match writer.as_mut().filter(|_| scratch_rows >= b as u64) {
                Some(writer) => {
                    writer.push(&RowBlock { x: &buffer, d: m, ..*rows })?;
                    (scratch_rows, written) = (scratch_rows - b as u64, written + 1);
                }
                None => scratch_rows = 0,
            }
            Ok(())
        })?;
        if self.block_count.is_none() {
            self.in_scratch = writer.filter(|_| written > 0).map(CacheWriter::finish).transpose()?;
            (self.in_memory, self.scratch_blocks, self.block_count) = (kept_blocks, written, Some(index));
        }
        Ok(1)
    }

    fn writer(&self) -> Result<Option<CacheWriter<T>>> {
        let Some((scratch, rows)) = self.limits.scratch.filter(|(_, rows)| *rows > 0) else { return Ok(None) };
        let shape = TableShape { inputs: self.landmarks(), ..self.source.shape() };
        Ok(Some(scratch.cache_up_to(shape, self.source.range(), rows)?))
    }

    /// Calls a function with the blocks of the selected rows, in row order. Reads the stored blocks
    /// from memory. One pass computes the kernel values of all other rows.
    pub(crate) fn visit_rows(
        &self,
        observer: &dyn Observer,
        selects: impl Fn(u64) -> bool + Sync,
        action: RowFn<'_, T>,
    ) -> Result<u64> {
        let m = self.landmarks();
        let (mut numbers, mut values) = (Vec::new(), Vec::new());
        for (i, block) in self.in_memory.iter().enumerate() {
            check_stop(observer)?;
            for (row, k) in block.rows.iter().zip(block.k.chunks_exact(m)).filter(|(row, _)| selects(**row)) {
                numbers.push(*row);
                values.push(k);
            }
            if values.len() >= MIN_CALL_ROWS || i + 1 == self.in_memory.len() {
                action(&numbers, &values);
                numbers.clear();
                values.clear();
            }
        }
        if self.block_count == Some(self.in_memory.len()) {
            return Ok(0);
        }
        let (mut index, mut x, mut buffer) = (0, Vec::new(), Vec::new());
        self.pass(observer).visit(self.source, |rows| {
            index += 1;
            if index > self.in_memory.len() {
                let selected = || rows.rows.iter().enumerate().filter(|(_, row)| selects(**row));
                let numbers: Vec<u64> = selected().map(|(_, row)| *row).collect();
                x.clear();
                selected().for_each(|(i, _)| x.extend_from_slice(&rows.x[i * rows.d..][..rows.d]));
                self.compute_values(&RowBlock { x: &x, rows: &numbers, ..*rows }, &mut buffer);
                action(&numbers, &buffer.chunks_exact(m).collect::<Vec<_>>());
            }
            Ok::<(), Error>(())
        })?;
        Ok(1)
    }

    fn pass<'p>(&'p self, observer: &'p dyn Observer) -> Pass<'p> {
        Pass { observer, lanes: 1, journal: None, ..self.pass }
    }

    /// Writes the kernel values between rows and landmarks to `k`, b x m.
    fn compute_values(&self, rows: &RowBlock<'_, T>, k: &mut Vec<T>) {
        let count = rows.rows.len() * self.landmarks();
        // growth by doubling would take twice the memory that the plan counts for the tile
        k.clear();
        k.reserve_exact(count);
        k.resize(count, T::ZERO);
        self.write_values(rows, k);
    }

    fn write_values(&self, rows: &RowBlock<'_, T>, k: &mut [T]) {
        let x = MatRef::from_row_major_slice(rows.x, rows.rows.len(), rows.d);
        kernel_rows(self.kernel, x, self.z, k, self.pass.workers);
    }
}

pub(crate) fn block_targets<T: Real>(targets: &Targets, rows: &RowBlock<'_, T>) -> Result<Mat<f64>> {
    let mut y = Mat::zeros(rows.len(), targets.count());
    for j in 0..targets.count() {
        for i in 0..rows.len() {
            y[(i, j)] = targets.value(rows, i, j)?;
        }
    }
    Ok(y)
}
