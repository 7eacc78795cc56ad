//! The regularised normal equations of a training set, assembled once and factored for every lambda.

use crate::ridge::Intercept;
use crate::strips::{for_each_strip, par};
use crate::{Error, FoldGram, GramState, Result};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor as llt;
use faer::linalg::triangular_solve as triangular;
use faer::prelude::ReborrowMut;
use faer::{Mat, MatMut, MatRef, Spec};
use kstore::Workers;

/// Columns assembled by one thread at a time.
const COLUMNS: usize = 16;

/// Order below which a triangle is transposed entry by entry: two 64 x 64 blocks of f64 fit in L1 and L2.
const LEAF: usize = 64;

/// A·w = r with A = ΦᵀΦ (centred where the intercept is free), of order q = p, or p + 1 with a penalised intercept.
///
/// One q x q matrix holds everything: A without its diagonal in the strict upper triangle, where no factorisation
/// reaches it, and the Cholesky factor of A + lambda·n·I in the lower triangle. A new lambda starts by copying the
/// upper triangle down: 8·q² bytes of traffic against q³/3 flops.
pub(crate) struct System {
    p: usize,
    t: usize,
    intercept: Intercept,
    centre: Vec<f64>,
    rows: f64,
    matrix: Mat<f64>,
    diagonal: Vec<f64>,
    right: Mat<f64>,
    mean_phi: Vec<f64>,
    mean_y: Vec<f64>,
}

/// Coefficients for several ranks at one lambda.
pub(crate) struct Solution {
    /// p x (ranks·t), rank after rank; rows beyond the rank are zero.
    pub(crate) weights: Mat<f64>,
    /// Intercept on the shifted targets, ranks·t.
    pub(crate) shift: Vec<f64>,
    /// The leading so many ranks could be solved.
    pub(crate) solved: usize,
    /// (largest / smallest pivot)² of the factor: a lower bound on the condition number.
    pub(crate) condition: f64,
}

impl System {
    /// Storage for p features and t targets that were shifted by `centre`.
    pub(crate) fn new(p: usize, centre: &[f64], intercept: Intercept) -> Self {
        let (t, q) = (centre.len(), p + intercept.lead());
        Self {
            p,
            t,
            intercept,
            centre: centre.to_vec(),
            rows: 0.0,
            matrix: Mat::zeros(q, q),
            diagonal: vec![0.0; q],
            right: Mat::zeros(q, t),
            mean_phi: vec![0.0; p],
            mean_y: vec![0.0; t],
        }
    }

    /// Bytes of the storage, and of a factorisation and one solution with so many ranks.
    pub(crate) fn bytes(p: usize, t: usize, ranks: usize, intercept: Intercept) -> usize {
        let q = p + intercept.lead();
        8 * (q * q + 2 * q * t + 3 * q + p + 2 * p * ranks * t)
    }

    /// Takes in the training set of all folds but `left_out`: the sum of the other folds, never a difference.
    ///
    /// # Errors
    /// [`Error::TooFewRows`] for fewer than two rows.
    pub(crate) fn assemble(&mut self, state: &GramState, left_out: Option<usize>, workers: &Workers) -> Result<()> {
        let folds: Vec<&FoldGram> =
            state.folds().iter().enumerate().filter(|(g, _)| Some(*g) != left_out).map(|(_, fold)| fold).collect();
        let rows = folds.iter().map(|fold| fold.rows).sum();
        if rows < 2 {
            return Err(Error::TooFewRows { rows });
        }
        self.rows = rows as f64;
        let sums = total(&folds, self.p, |fold| &fold.s);
        let targets = total(&folds, self.t, |fold| &fold.sy);
        let products = total(&folds, self.p * self.t, |fold| &fold.b);
        self.mean_phi = sums.iter().map(|s| s / self.rows).collect();
        self.mean_y = targets.iter().map(|sy| sy / self.rows).collect();
        self.assemble_matrix(&folds, &sums, workers);
        self.assemble_right(&sums, &targets, &products);
        Ok(())
    }

    fn assemble_matrix(&mut self, folds: &[&FoldGram], sums: &[f64], workers: &Workers) {
        let (p, lead, rows) = (self.p, self.intercept.lead(), self.rows);
        let q = p + lead;
        let free = self.intercept == Intercept::Free;
        let mut matrix = std::mem::replace(&mut self.matrix, Mat::new());
        let mut columns = ColumnMajor::of(&mut matrix);
        for_each_strip(workers, &mut columns.0, COLUMNS, |strip, columns| {
            for (c, column) in columns.iter_mut().enumerate() {
                let c = strip * COLUMNS + c;
                if c < lead {
                    column[0] = rows;
                    column[1..].copy_from_slice(sums);
                    continue;
                }
                let j = c - lead;
                let column = &mut column[c..];
                column.fill(0.0);
                for fold in folds {
                    column.iter_mut().zip(&fold.g[j * p + j..(j + 1) * p]).for_each(|(a, g)| *a += g);
                }
                if free {
                    let mean = sums[j] / rows;
                    column.iter_mut().zip(&sums[j..]).for_each(|(a, s)| *a -= s * mean);
                }
            }
        });
        drop(columns);
        self.diagonal = (0..q).map(|i| matrix[(i, i)]).collect();
        workers.install(|| transpose_triangle(matrix.as_mut(), Triangle::Upper, workers.threads() > 1));
        self.matrix = matrix;
    }

    /// Φᵀy of the problem that is solved. Free: centred. Otherwise of the targets as they were, before their shift,
    /// because the penalty is on the intercept (or its absence) of the original problem.
    fn assemble_right(&mut self, sums: &[f64], targets: &[f64], products: &[f64]) {
        let lead = self.intercept.lead();
        for j in 0..self.t {
            if lead == 1 {
                self.right[(0, j)] = targets[j] + self.rows * self.centre[j];
            }
            let shift = if self.intercept == Intercept::Free { -self.mean_y[j] } else { self.centre[j] };
            for i in 0..self.p {
                self.right[(lead + i, j)] = products[j * self.p + i] + sums[i] * shift;
            }
        }
    }

    /// Coefficients at `lambda` for `ranks` (ascending, at most p).
    ///
    /// One factorisation serves all ranks: with nested features the factor of a leading block is the leading block of
    /// the factor, so the forward substitution is shared too. Where the matrix is not positive definite to working
    /// precision the largest rank is given up and the next one tried. *Cost*: q³/3 + Σ r²·t flops.
    pub(crate) fn solve(&mut self, lambda: f64, ranks: &[usize], workers: &Workers) -> Solution {
        let mut solved = ranks.len();
        while solved > 0 && !self.factor(lambda, ranks[solved - 1], workers) {
            solved -= 1;
        }
        let mut solution = Solution {
            weights: Mat::zeros(self.p, ranks.len() * self.t),
            shift: vec![0.0; ranks.len() * self.t],
            solved,
            condition: f64::INFINITY,
        };
        if solved > 0 {
            self.substitute(&ranks[..solved], &mut solution, workers);
        }
        solution
    }

    /// Factors the leading `rank` features' block of A + lambda·n·I; false where it is not positive definite.
    fn factor(&mut self, lambda: f64, rank: usize, workers: &Workers) -> bool {
        let order = rank + self.intercept.lead();
        let mut block = self.matrix.as_mut().submatrix_mut(0, 0, order, order);
        workers.install(|| {
            transpose_triangle(block.rb_mut(), Triangle::Lower, workers.threads() > 1);
            for (i, d) in self.diagonal[..order].iter().enumerate() {
                block[(i, i)] = d + lambda * self.rows;
            }
            let params = Spec::default();
            let mut memory = MemBuffer::new(llt::cholesky_in_place_scratch::<f64>(order, par(workers), params));
            let stack = MemStack::new(&mut memory);
            let done = llt::cholesky_in_place(block.rb_mut(), Default::default(), par(workers), stack, params).is_ok();
            // overflow passes for a positive pivot
            done && (0..order).all(|i| block[(i, i)].is_finite())
        })
    }

    fn substitute(&self, ranks: &[usize], solution: &mut Solution, workers: &Workers) {
        let lead = self.intercept.lead();
        let order = lead + ranks[ranks.len() - 1];
        let factor = self.matrix.as_ref().submatrix(0, 0, order, order);
        let mut forward = self.right.subrows(0, order).to_owned();
        workers.install(|| {
            triangular::solve_lower_triangular_in_place(factor, forward.as_mut(), par(workers));
            for (k, rank) in ranks.iter().enumerate() {
                let order = lead + rank;
                let mut w = forward.subrows(0, order).to_owned();
                let leading = factor.submatrix(0, 0, order, order);
                triangular::solve_upper_triangular_in_place(leading.transpose(), w.as_mut(), par(workers));
                self.store(w.as_ref(), k * self.t, solution);
            }
        });
        let pivots = || (0..order).map(|i| factor[(i, i)]);
        let ratio = pivots().fold(0.0, f64::max) / pivots().fold(f64::INFINITY, f64::min);
        solution.condition = ratio * ratio;
    }

    /// Splits q coefficients into p weights and the intercept on the shifted targets.
    fn store(&self, w: MatRef<'_, f64>, first: usize, solution: &mut Solution) {
        let lead = self.intercept.lead();
        let rank = w.nrows() - lead;
        for j in 0..self.t {
            let mut dot = 0.0;
            for i in 0..rank {
                solution.weights[(i, first + j)] = w[(lead + i, j)];
                dot += self.mean_phi[i] * w[(lead + i, j)];
            }
            solution.shift[first + j] = match self.intercept {
                Intercept::Free => self.mean_y[j] - dot,
                Intercept::Penalised => w[(0, j)] - self.centre[j],
                Intercept::None => -self.centre[j],
            };
        }
    }
}

/// Sum over folds in their order.
fn total<'a>(folds: &[&'a FoldGram], length: usize, part: impl Fn(&'a FoldGram) -> &'a [f64]) -> Vec<f64> {
    let mut sum = vec![0.0; length];
    for fold in folds {
        sum.iter_mut().zip(part(fold)).for_each(|(sum, part)| *sum += part);
    }
    sum
}

/// The columns of a matrix as slices, to be handed to threads.
struct ColumnMajor<'a>(Vec<&'a mut [f64]>);

impl<'a> ColumnMajor<'a> {
    fn of(matrix: &'a mut Mat<f64>) -> Self {
        let columns = matrix.as_mut().col_iter_mut();
        Self(columns.filter_map(|column| column.try_as_col_major_mut()).map(|column| column.as_slice_mut()).collect())
    }
}

/// The triangle that is written, with the transpose of the other one.
#[derive(Clone, Copy, PartialEq)]
enum Triangle {
    Lower,
    Upper,
}

fn transpose_triangle(mut a: MatMut<'_, f64>, write: Triangle, threads: bool) {
    let n = a.nrows();
    if n <= LEAF {
        for j in 0..n {
            for i in j + 1..n {
                match write {
                    Triangle::Lower => a[(i, j)] = a[(j, i)],
                    Triangle::Upper => a[(j, i)] = a[(i, j)],
                }
            }
        }
        return;
    }
    let (first, upper, lower, last) = a.split_at_mut(n / 2, n / 2);
    match write {
        Triangle::Lower => transpose_block(upper.as_ref(), lower, threads),
        Triangle::Upper => transpose_block(lower.as_ref(), upper, threads),
    }
    let recurse = |part| transpose_triangle(part, write, threads);
    both(threads, || recurse(first), || recurse(last));
}

fn transpose_block(from: MatRef<'_, f64>, mut to: MatMut<'_, f64>, threads: bool) {
    let (m, n) = (to.nrows(), to.ncols());
    if m.max(n) <= LEAF {
        for j in 0..n {
            for i in 0..m {
                to[(i, j)] = from[(j, i)];
            }
        }
    } else if m > n {
        let (top, bottom) = to.split_at_row_mut(m / 2);
        let (left, right) = from.split_at_col(m / 2);
        both(threads, || transpose_block(left, top, threads), || transpose_block(right, bottom, threads));
    } else {
        let (left, right) = to.split_at_col_mut(n / 2);
        let (top, bottom) = from.split_at_row(n / 2);
        both(threads, || transpose_block(top, left, threads), || transpose_block(bottom, right, threads));
    }
}

/// Two independent pieces of work, on the current pool where there is one.
fn both(threads: bool, a: impl FnOnce() + Send, b: impl FnOnce() + Send) {
    if threads {
        rayon::join(a, b);
    } else {
        a();
        b();
    }
}
