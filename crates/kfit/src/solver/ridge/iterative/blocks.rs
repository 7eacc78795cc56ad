//! The kernel matrix between the rows of a table and landmarks, one block of rows at a time.
//!
//! Blocks of the first rows stay in memory as far as they fit, the next ones in the scratch folder;
//! every visit recomputes the others. All are bitwise reproducible and come in row order.

use crate::linalg::kernel_rows::{KernelBlock, kernel_rows};
use crate::{Error, Result, Targets, solver::heed};
use faer::{Mat, MatRef};
use kapprox::{KernelFunction, Real};
use kstore::pass::Observer;
use kstore::scratch::{Cache, CacheWriter, Scratch};
use kstore::{Pass, RowBlock, RowSource, TableShape};

/// Minimum number of rows in memory that one call of a row function receives. With a few hundred
/// rows the function would spend most of its time on loading its own data into the cache.
pub(crate) const TOGETHER: usize = 1 << 13;

/// Number of tiles that are read ahead from scratch; small, because kernel rows are long.
pub(crate) const READ_AHEAD: usize = 1;

/// Numbers of rows whose blocks may be stored.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room<'a> {
    pub(crate) memory: usize,
    /// The scratch folder, and the number of rows after those in memory that it may store.
    pub(crate) scratch: Option<(&'a Scratch, u64)>,
}

/// The kernel matrix between the rows of a table and landmarks, in blocks.
pub(crate) struct Blocks<'a, T: Real> {
    pub(crate) source: &'a dyn RowSource<T>,
    pub(crate) targets: &'a Targets,
    pub(crate) kernel: &'a dyn KernelFunction<T>,
    /// Landmarks, m x d row-major.
    pub(crate) z: MatRef<'a, T>,
    /// The pass over the rows, with one lane so that blocks come in row order.
    pub(crate) pass: Pass<'a>,
    room: Room<'a>,
    kept: Vec<Block<T>>,
    stored: Option<Cache<T>>,
    /// Number of blocks of the table, `None` before the first pass.
    count: Option<usize>,
    written: usize,
}

struct Block<T> {
    rows: Vec<u64>,
    k: Vec<T>,
    y: Mat<f64>,
}

/// A function that receives every block of the kernel matrix (b x m) and its targets (b x t).
type Work<'w, T> = &'w mut (dyn FnMut(KernelBlock<'_, T>, MatRef<'_, f64>) + Send);

/// A function that receives some rows of the kernel matrix: their row numbers, and m values each.
type RowWork<'w, T> = &'w mut (dyn FnMut(&[u64], &[&[T]]) + Send);

impl<'a, T: Real> Blocks<'a, T> {
    pub(crate) fn new(
        source: &'a dyn RowSource<T>,
        targets: &'a Targets,
        kernel: &'a dyn KernelFunction<T>,
        z: MatRef<'a, T>,
        pass: Pass<'a>,
        room: Room<'a>,
    ) -> Self {
        Self { source, targets, kernel, z, pass, room, kept: Vec::new(), stored: None, count: None, written: 0 }
    }

    /// Returns the bytes of a row in memory, for t targets.
    pub(crate) fn row_bytes(m: usize, t: usize) -> usize {
        m * size_of::<T>() + 8 * t + 8
    }

    pub(crate) fn landmarks(&self) -> usize {
        self.z.nrows()
    }

    /// Returns the numbers of rows whose blocks are in memory, and in scratch.
    pub(crate) fn kept_rows(&self) -> (usize, usize) {
        (self.kept.iter().map(|block| block.rows.len()).sum(), self.stored.as_ref().map_or(0, |s| s.len() as usize))
    }

    /// Calls a function with every block, in row order, and returns the number of passes over the
    /// table. The first visit stores the blocks that fit.
    ///
    /// # Errors
    /// The rows or the scratch folder cannot be read or written; [`kstore::Error::Interrupted`].
    pub(crate) fn visit(&mut self, observer: &dyn Observer, work: Work<'_, T>) -> Result<u64> {
        let (blocks, m) = (&*self, self.landmarks());
        for block in &blocks.kept {
            heed(observer)?;
            work(KernelBlock { k: &block.k, m }, block.y.as_ref());
        }
        let pass = blocks.pass(observer);
        if let Some(cache) = &blocks.stored {
            Pass { prefetch: READ_AHEAD, ..pass }.visit(cache, |rows| {
                work(KernelBlock { k: rows.x, m }, targets_of(blocks.targets, rows)?.as_ref());
                Ok::<(), Error>(())
            })?;
        }
        let skipped = blocks.kept.len() + blocks.written;
        if blocks.count == Some(skipped) {
            return Ok(0);
        }
        let (mut memory, mut writer) = match blocks.count {
            Some(_) => (0, None),
            None => (blocks.room.memory, blocks.writer()?),
        };
        let mut scratch = writer.as_ref().map_or(0, CacheWriter::left);
        let (mut kept, mut at, mut written, mut buffer) = (Vec::new(), 0, 0, Vec::new());
        pass.visit(blocks.source, |rows| {
            at += 1;
            if at <= skipped {
                return Ok::<(), Error>(());
            }
            let (b, y) = (rows.len(), targets_of(blocks.targets, rows)?);
            if memory >= b {
                // fresh zero pages, so that the threads that write the values first touch them
                let mut k = vec![T::ZERO; b * m];
                blocks.values(rows, &mut k);
                work(KernelBlock { k: &k, m }, y.as_ref());
                memory -= b;
                kept.push(Block { rows: rows.rows.to_vec(), k, y });
                return Ok(());
            }
            blocks.compute(rows, &mut buffer);
            work(KernelBlock { k: &buffer, m }, y.as_ref());
            // the first block that does not fit closes a tier, so that the next tier continues with
            // the rows after it
            memory = 0;
            match writer.as_mut().filter(|_| scratch >= b as u64) {
                Some(writer) => {
                    writer.push(&RowBlock { x: &buffer, d: m, ..*rows })?;
                    (scratch, written) = (scratch - b as u64, written + 1);
                }
                None => scratch = 0,
            }
            Ok(())
        })?;
        if self.count.is_none() {
            self.stored = writer.filter(|_| written > 0).map(CacheWriter::finish).transpose()?;
            (self.kept, self.written, self.count) = (kept, written, Some(at));
        }
        Ok(1)
    }

    fn writer(&self) -> Result<Option<CacheWriter<T>>> {
        let Some((scratch, rows)) = self.room.scratch.filter(|(_, rows)| *rows > 0) else { return Ok(None) };
        let shape = TableShape { features: self.landmarks(), ..self.source.shape() };
        Ok(Some(scratch.cache_up_to(shape, self.source.range(), rows)?))
    }

    /// Calls a function with the selected rows, in row order. Blocks in memory provide their rows;
    /// one pass computes the others.
    pub(crate) fn visit_some(
        &self,
        observer: &dyn Observer,
        takes: impl Fn(u64) -> bool + Sync,
        work: RowWork<'_, T>,
    ) -> Result<u64> {
        let m = self.landmarks();
        let (mut numbers, mut taken) = (Vec::new(), Vec::new());
        for (i, block) in self.kept.iter().enumerate() {
            heed(observer)?;
            for (row, k) in block.rows.iter().zip(block.k.chunks_exact(m)).filter(|(row, _)| takes(**row)) {
                numbers.push(*row);
                taken.push(k);
            }
            if taken.len() >= TOGETHER || i + 1 == self.kept.len() {
                work(&numbers, &taken);
                numbers.clear();
                taken.clear();
            }
        }
        if self.count == Some(self.kept.len()) {
            return Ok(0);
        }
        let (mut at, mut x, mut buffer) = (0, Vec::new(), Vec::new());
        self.pass(observer).visit(self.source, |rows| {
            at += 1;
            if at > self.kept.len() {
                let taken = || rows.rows.iter().enumerate().filter(|(_, row)| takes(**row));
                let numbers: Vec<u64> = taken().map(|(_, row)| *row).collect();
                x.clear();
                taken().for_each(|(i, _)| x.extend_from_slice(&rows.x[i * rows.d..][..rows.d]));
                self.compute(&RowBlock { x: &x, rows: &numbers, ..*rows }, &mut buffer);
                work(&numbers, &buffer.chunks_exact(m).collect::<Vec<_>>());
            }
            Ok::<(), Error>(())
        })?;
        Ok(1)
    }

    fn pass<'p>(&'p self, observer: &'p dyn Observer) -> Pass<'p> {
        Pass { observer, lanes: 1, journal: None, ..self.pass }
    }

    /// Writes the kernel values between rows and landmarks to `k`, b x m.
    fn compute(&self, rows: &RowBlock<'_, T>, k: &mut Vec<T>) {
        let count = rows.rows.len() * self.landmarks();
        // growth by doubling would take twice the memory that the plan counts for the tile
        k.clear();
        k.reserve_exact(count);
        k.resize(count, T::ZERO);
        self.values(rows, k);
    }

    fn values(&self, rows: &RowBlock<'_, T>, k: &mut [T]) {
        let x = MatRef::from_row_major_slice(rows.x, rows.rows.len(), rows.d);
        kernel_rows(self.kernel, x, self.z, k, self.pass.workers);
    }
}

pub(crate) fn targets_of<T: Real>(targets: &Targets, rows: &RowBlock<'_, T>) -> Result<Mat<f64>> {
    let mut y = Mat::zeros(rows.len(), targets.count());
    for j in 0..targets.count() {
        for i in 0..rows.len() {
            y[(i, j)] = targets.value(rows, i, j)?;
        }
    }
    Ok(y)
}
