//! Nyström ridge regression on the landmarks' kernel functions, whose Gram matrix is never formed.
//!
//! Minimises (1/n) Σ (y_i − c − f(x_i))² + lambda‖f‖² over f = Σ_j a_j k(z_j, ·). With μ = lambda·n and H of
//! [`super::constant`], the coefficients solve
//!
//! ```text
//! A a = (H K_nm)ᵀ H y,     A = (H K_nm)ᵀ(H K_nm) + μ K_mm
//! ```
//!
//! by conjugate gradient, with the preconditioner of [`super::sketch`]. A is the square of something already, and squaring
//! costs digits; but products with it are summed in f64 while its conditioning is the preconditioner's business, and what is
//! left to rounding, ε‖A‖ beside μ·λ_min(K_mm), moves predictions by little more than its root. K_mm is evaluated in f64:
//! in f32 it could be indefinite.
//!
//! Blocks of K_nm, a tile of rows each, are kept in memory as far as there is room, the first ones first; the others are
//! computed again in every product, and have the same bits.
//!
//! *Cost of an iteration*: 4nm flops a target, m²/2 kernel values in f64, and nm kernel values for the blocks that are not
//! kept with a pass over their rows. The stopping rule is on √(rᵀM⁻¹r), which is the energy norm of the error up to
//! the quality of the preconditioner, and bounds the error of the fitted values.

use super::cg::Positive;
use super::constant::Constant;
use super::packed::{PackedLower, add_transposed_product, product};
use super::tiles::Tiles;
use crate::strips::row_strips;
use crate::{Error, Result, Targets};
use faer::prelude::*;
use faer::{Mat, MatMut, MatRef};
use kapprox::map::nystrom::STRIP;
use kapprox::{Kernel, Real};
use kstore::pass::Observer;
use kstore::{Fold, Merge, Pass, RowBlock, RowSource, Workers};
use std::sync::{Mutex, PoisonError};

/// Rows of a table against landmarks.
pub(crate) struct Blocks<'a, T: Real> {
    pub(crate) source: &'a dyn RowSource<T>,
    pub(crate) targets: &'a Targets,
    pub(crate) kernel: &'a dyn Kernel<T>,
    /// Landmarks, m x d row-major.
    pub(crate) z: MatRef<'a, T>,
    /// How the rows are passed over: one lane, so that blocks come in row order.
    pub(crate) pass: Pass<'a>,
    /// Rows whose blocks may still be kept.
    pub(crate) room: usize,
    kept: Vec<Block<T>>,
    seen: Seen,
}

/// How much of the table the kept blocks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// No pass was made.
    Nothing,
    /// Some rows are not kept.
    Part,
    /// All rows are kept: nothing is read any more.
    All,
}

struct Block<T> {
    k: Mat<T>,
    y: Mat<f64>,
}

/// What is done with a block of the kernel matrix (b x m) and its targets (b x t).
type Work<'w, T> = &'w mut (dyn FnMut(MatRef<'_, T>, MatRef<'_, f64>) + Send);

impl<'a, T: Real> Blocks<'a, T> {
    /// The rows of a table against landmarks; blocks of `room` rows may be kept.
    pub(crate) fn new(
        source: &'a dyn RowSource<T>,
        targets: &'a Targets,
        kernel: &'a dyn Kernel<T>,
        z: MatRef<'a, T>,
        pass: Pass<'a>,
        room: usize,
    ) -> Self {
        Self { source, targets, kernel, z, pass, room, kept: Vec::new(), seen: Seen::Nothing }
    }

    /// Landmarks, m.
    pub(crate) fn landmarks(&self) -> usize {
        self.z.nrows()
    }

    /// Rows whose blocks are kept.
    pub(crate) fn kept_rows(&self) -> usize {
        self.kept.iter().map(|block| block.k.nrows()).sum()
    }

    /// Shows every block to `work`, in row order; gives the passes over the table that it took.
    ///
    /// # Errors
    /// Those of the rows; [`kstore::Error::Interrupted`].
    pub(crate) fn visit(&mut self, observer: &dyn Observer, work: Work<'_, T>) -> Result<u64> {
        if self.seen == Seen::All {
            for block in &self.kept {
                if observer.stop() {
                    return Err(kstore::Error::Interrupted.into());
                }
                work(block.k.as_ref(), block.y.as_ref());
            }
            return Ok(0);
        }
        let (source, pass) = (self.source, Pass { observer, lanes: 1, journal: None, ..self.pass });
        let fill = self.seen == Seen::Nothing;
        let visit = Visit { blocks: self, at: 0, fill, all: true, work };
        let visiting = Visiting(Mutex::new(visit));
        pass.fold(source, &visiting)?;
        let all = visiting.0.into_inner().unwrap_or_else(PoisonError::into_inner).all;
        self.seen = if all { Seen::All } else { Seen::Part };
        Ok(1)
    }
}

/// `k` (b x m) = the kernel between rows and landmarks; strips of rows go to the threads.
pub(crate) fn kernel_block<T: Real>(
    kernel: &dyn Kernel<T>,
    x: MatRef<'_, T>,
    z: MatRef<'_, T>,
    k: MatMut<'_, T>,
    workers: &Workers,
) {
    workers.each(row_strips(k, STRIP), |(row, out)| kernel.block(x.subrows(row, out.nrows()), z, out));
}

/// A pass over the blocks.
struct Visit<'v, 'a, 'w, T: Real> {
    blocks: &'v mut Blocks<'a, T>,
    /// Blocks seen in this pass.
    at: usize,
    /// Blocks are kept while there is room.
    fill: bool,
    /// No block so far is missing from the kept ones.
    all: bool,
    work: Work<'w, T>,
}

struct Visiting<'v, 'a, 'w, T: Real>(Mutex<Visit<'v, 'a, 'w, T>>);

/// The state of a fold whose result is elsewhere.
pub(crate) struct Visited;

impl Merge for Visited {
    fn merge(&mut self, _later: &Self) {}
}

impl<T: Real> Fold<T> for Visiting<'_, '_, '_, T> {
    type State = Visited;
    type Scratch = Mat<T>;
    type Error = Error;

    fn init(&self) -> Visited {
        Visited
    }

    fn scratch(&self) -> Mat<T> {
        Mat::new()
    }

    fn step(&self, _: &mut Visited, buffer: &mut Mat<T>, rows: &RowBlock<'_, T>, workers: &Workers) -> Result<()> {
        let mut visit = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Visit { blocks, at, fill, all, work } = &mut *visit;
        let (b, m) = (rows.len(), blocks.landmarks());
        *at += 1;
        if let Some(block) = blocks.kept.get(*at - 1) {
            work(block.k.as_ref(), block.y.as_ref());
            return Ok(());
        }
        let y = targets_of(blocks.targets, rows)?;
        let x = MatRef::from_row_major_slice(rows.x, b, rows.d);
        // kept blocks are the first ones: after the first that does not fit none is
        if *fill && *all && blocks.room >= b {
            let mut k = Mat::zeros(b, m);
            kernel_block(blocks.kernel, x, blocks.z, k.as_mut(), workers);
            work(k.as_ref(), y.as_ref());
            blocks.room -= b;
            blocks.kept.push(Block { k, y });
            return Ok(());
        }
        *all = false;
        if buffer.nrows() < b {
            *buffer = Mat::zeros(b, m);
        }
        kernel_block(blocks.kernel, x, blocks.z, buffer.as_mut().subrows_mut(0, b), workers);
        work(buffer.as_ref().subrows(0, b), y.as_ref());
        Ok(())
    }
}

/// The targets of a tile, b x t.
pub(crate) fn targets_of<T: Real>(targets: &Targets, rows: &RowBlock<'_, T>) -> Result<Mat<f64>> {
    let mut y = Mat::zeros(rows.len(), targets.count());
    for j in 0..targets.count() {
        for i in 0..rows.len() {
            y[(i, j)] = targets.value(rows, i, j)?;
        }
    }
    Ok(y)
}

/// First moments of the blocks.
#[derive(Clone, Debug)]
pub(crate) struct Sums {
    /// Rows.
    pub(crate) rows: usize,
    /// Means of the columns of K_nm, m.
    pub(crate) means: Vec<f64>,
    /// K_nmᵀ y, m x t.
    pub(crate) products: Mat<f64>,
    /// Means of the targets, t.
    pub(crate) mean_y: Vec<f64>,
    /// Σ y², t.
    pub(crate) squares: Vec<f64>,
}

impl Sums {
    /// One pass.
    pub(crate) fn of<T: Real>(blocks: &mut Blocks<'_, T>, observer: &dyn Observer) -> Result<Self> {
        let (m, t, workers) = (blocks.landmarks(), blocks.targets.count(), blocks.pass.workers);
        let (mut rows, mut sums, mut squares) = (0, Mat::<f64>::zeros(m, t + 1), vec![0.0; t]);
        let mut totals = vec![0.0; t];
        blocks.visit(observer, &mut |k, y| {
            let right = Mat::from_fn(y.nrows(), t + 1, |i, j| if j < t { y[(i, j)] } else { 1.0 });
            add_transposed_product(k, right.as_ref(), sums.as_mut(), workers);
            rows += y.nrows();
            for j in 0..t {
                totals[j] += y.col(j).iter().sum::<f64>();
                squares[j] += y.col(j).iter().map(|y| y * y).sum::<f64>();
            }
        })?;
        let n = (rows as f64).max(1.0);
        Ok(Self {
            rows,
            means: sums.col(t).iter().map(|s| s / n).collect(),
            products: sums.subcols(0, t).to_owned(),
            mean_y: totals.iter().map(|s| s / n).collect(),
            squares,
        })
    }

    /// The sums for targets to each of which a constant is added.
    pub(crate) fn shifted(&mut self, centre: &[f64]) {
        let n = self.rows as f64;
        for (j, c) in centre.iter().enumerate() {
            self.products.col_mut(j).iter_mut().zip(&self.means).for_each(|(p, mean)| *p += c * n * mean);
            self.squares[j] += c * n * (2.0 * self.mean_y[j] + c);
            self.mean_y[j] += c;
        }
    }

    /// (H K_nm)ᵀ H y.
    pub(crate) fn right(&self, constant: Constant) -> Mat<f64> {
        let n = self.rows as f64;
        let shift = |i: usize, j: usize| constant.gamma * n * self.mean_y[j] * self.means[i];
        Mat::from_fn(self.products.nrows(), self.products.ncols(), |i, j| self.products[(i, j)] - shift(i, j))
    }
}

/// A and its preconditioner.
pub(crate) struct Normal<'n, 'a, T: Real> {
    pub(crate) blocks: &'n mut Blocks<'a, T>,
    pub(crate) k_mm: Tiles<'n, f64>,
    /// Means of the columns of K_nm.
    pub(crate) means: &'n [f64],
    pub(crate) constant: Constant,
    pub(crate) mu: f64,
    pub(crate) factor: &'n PackedLower,
    pub(crate) observer: &'n dyn Observer,
    /// Passes over the table.
    pub(crate) passes: u64,
}

impl<T: Real> Positive for Normal<'_, '_, T> {
    fn apply(&mut self, v: MatRef<'_, f64>, mut out: MatMut<'_, f64>) -> Result<()> {
        let workers = self.blocks.pass.workers;
        self.k_mm.apply(v, out.rb_mut());
        out.rb_mut().col_iter_mut().for_each(|column| column.iter_mut().for_each(|v| *v *= self.mu));
        let shares: Vec<f64> = v.col_iter().map(|v| v.iter().zip(self.means).map(|(v, mean)| v * mean).sum()).collect();
        let theta = self.constant.theta;
        let mut totals = vec![0.0; v.ncols()];
        self.passes += self.blocks.visit(self.observer, &mut |k, _| {
            let mut s = Mat::zeros(k.nrows(), v.ncols());
            product(k, v, s.as_mut(), workers);
            for (j, column) in s.col_iter_mut().enumerate() {
                let shift = theta * shares[j];
                for s in column.iter_mut() {
                    *s -= shift;
                    totals[j] += *s;
                }
            }
            add_transposed_product(k, s.as_ref(), out.rb_mut(), workers);
        })?;
        for (j, column) in out.col_iter_mut().enumerate() {
            column.iter_mut().zip(self.means).for_each(|(out, mean)| *out -= theta * mean * totals[j]);
        }
        Ok(())
    }

    fn precondition(&mut self, r: MatRef<'_, f64>, mut z: MatMut<'_, f64>) -> Result<()> {
        let workers = self.blocks.pass.workers;
        z.copy_from(r);
        self.factor.solve_lower(z.rb_mut(), workers);
        self.factor.solve_transposed(z, workers);
        Ok(())
    }
}

/// Σ (y − c − K a)² over the rows, for every target; `shift` is added to the targets. One pass.
pub(crate) fn squared_errors<T: Real>(
    blocks: &mut Blocks<'_, T>,
    a: MatRef<'_, f64>,
    intercept: &[f64],
    shift: &[f64],
    observer: &dyn Observer,
) -> Result<(Vec<f64>, u64)> {
    let workers = blocks.pass.workers;
    let mut sums = vec![0.0; a.ncols()];
    let passes = blocks.visit(observer, &mut |k, y| {
        let mut f = Mat::zeros(k.nrows(), a.ncols());
        product(k, a, f.as_mut(), workers);
        for (j, sum) in sums.iter_mut().enumerate() {
            let pairs = f.col(j).iter().zip(y.col(j).iter());
            *sum += pairs.map(|(f, y)| (y + shift[j] - intercept[j] - f).powi(2)).sum::<f64>();
        }
    })?;
    Ok((sums, passes))
}
