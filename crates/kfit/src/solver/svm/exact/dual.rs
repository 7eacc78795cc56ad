//! The dual of an SVM, solved in rounds, and the certificate of a point.
//!
//! A round minimises over a subset of the multipliers: all of them if the whole kernel matrix is
//! stored, else those of the working set: the rows that violate the optimality conditions most,
//! half of which stay for the next round. Then f = Kβ is updated at all rows. After every round the
//! primal and dual objectives are computed:
//!
//! ```text
//! P = ½βᵀf + Σ loss(f_i + b) + s b,     D = −½βᵀf − Σ h(β_i),     b minimises P
//! ```
//!
//! An SVM is solved when (P − D)/max(|P|, |D|) is small enough. Then f is recomputed with kernel
//! values in f64, and the rounds continue if the gap is now larger: so the reported gap is that of
//! the returned SVM, without rounding errors of kernel values.
//!
//! *Cost per round*: the steps of `smo.rs`, 2·q·n flops for f, and kernel values of rows that are
//! not in memory.
//!
//! References: Joachims, "Making large-scale SVM learning practical", in *Advances in Kernel
//! Methods*, MIT Press 1999 (working sets); Wen, Shi, Li, He, Chen, "ThunderSVM: a fast SVM library
//! on GPUs and CPUs", JMLR 19, 2018 (large working sets, half of which stays).

use super::super::lagrangian::Terms;
use super::super::loss::Row;
use super::super::space::relative_gap;
use super::gram::{Gram, KernelPoints, RowCache, WORKING};
use super::smo::{Local, add};
use crate::Intercept;
use crate::linalg::strips::{Pool, for_each_strip};
use faer::{MatMut, MatRef};
use kapprox::Real;
use kstore::Workers;

/// Fraction of the violation at which a round ends.
const LEFT: f64 = 0.2;

/// Maximum number of steps per round and row in it.
const STEPS: usize = 64;

/// Rows of f that a thread updates at a time.
const STRIP: usize = 4096;

/// Rows and points whose kernel values in f64 are computed together.
const BLOCK: usize = 256;

/// Maximum number of times that f is recomputed in f64.
const PROOFS: usize = 6;

/// Evaluations of P in the search for b, which narrow the bracket by a factor of a billion.
const SEARCH: usize = 44;

#[derive(Clone, Debug, Default)]
pub(super) struct SolvedMachine {
    pub(super) beta: Vec<f64>,
    /// Weights of the columns, for a linear SVM on sparse rows.
    pub(super) weights: Vec<f64>,
    pub(super) b: f64,
    pub(super) primal: f64,
    pub(super) dual: f64,
    /// Relative gap before every round, and at the end.
    pub(super) gaps: Vec<f64>,
    pub(super) rounds: usize,
}

/// Multipliers of an SVM, and the values f = Kβ.
pub(super) struct Dual {
    pub(super) rows: Vec<Row>,
    pub(super) terms: Terms,
    pub(super) beta: Vec<f64>,
    pub(super) f: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Certificate {
    pub(super) b: f64,
    pub(super) primal: f64,
    pub(super) dual: f64,
    /// Least slope of rising and highest slope of falling.
    least: f64,
    highest: f64,
}

impl Certificate {
    pub(super) fn gap(&self) -> f64 {
        relative_gap(self.primal, self.dual)
    }
}

impl Dual {
    pub(super) fn new(rows: Vec<Row>, terms: Terms) -> Self {
        let n = rows.len();
        Self { rows, terms, beta: vec![0.0; n], f: vec![0.0; n] }
    }

    /// Assigns the first rows multipliers that sum to the terms' s, and computes f from them.
    pub(super) fn fill(&mut self, exactly: KernelPoints<'_, f64>, workers: &Workers, stop: &(dyn Fn() -> bool + Sync)) {
        let mut left = self.terms.total;
        for (beta, row) in self.beta.iter_mut().zip(&self.rows) {
            *beta = row.c.min(left);
            left -= *beta;
        }
        self.prove(exactly, workers, stop);
    }

    /// Continues with other costs; the current multipliers must be feasible for them.
    pub(super) fn again(&mut self, rows: Vec<Row>, terms: Terms) {
        (self.rows, self.terms) = (rows, terms);
    }

    /// Makes at most this many rounds until the gap is small enough, or `stop` returns true. Kernel
    /// points in f64 verify the gap.
    pub(super) fn solve<T: Real>(
        &mut self,
        gram: &mut Gram<'_, T>,
        exactly: Option<KernelPoints<'_, f64>>,
        most: usize,
        workers: &Workers,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> SolvedMachine {
        let (mut gaps, mut rounds, mut working, mut proofs) = (Vec::new(), 0, Vec::new(), 0);
        let mut at = self.certificate();
        loop {
            let before = rounds;
            while at.gap() > self.terms.gap && rounds < most && !stop() {
                gaps.push(at.gap());
                let violation = self.violation(&at);
                if violation <= 0.0 || violation.is_nan() {
                    break;
                }
                let moved = self.round(gram, &mut working, &at, LEFT * violation, workers, stop);
                rounds += 1;
                at = self.certificate();
                if moved == 0 {
                    // only rounding is left
                    break;
                }
            }
            let Some(exactly) = exactly.filter(|_| proofs == 0 || (rounds > before && proofs < PROOFS)) else { break };
            self.prove(exactly, workers, stop);
            proofs += 1;
            at = self.certificate();
            if at.gap() <= self.terms.gap || stop() {
                break;
            }
        }
        gaps.push(at.gap());
        let b = if self.terms.intercept == Intercept::Penalised { self.beta.iter().sum() } else { at.b };
        SolvedMachine {
            beta: self.beta.clone(),
            weights: Vec::new(),
            b,
            primal: at.primal,
            dual: at.dual,
            gaps,
            rounds,
        }
    }

    fn balanced(&self) -> bool {
        self.terms.intercept == Intercept::Free
    }

    fn violation(&self, at: &Certificate) -> f64 {
        if self.balanced() { at.highest - at.least } else { at.highest.max(-at.least) }
    }

    fn slopes(&self, i: usize) -> (f64, f64) {
        let piece = self.terms.loss.piece(self.beta[i], self.rows[i]);
        (self.f[i] + piece.rise, self.f[i] + piece.fall)
    }

    /// Computes P, D, the intercept, and the extreme slopes.
    pub(super) fn certificate(&self) -> Certificate {
        let (mut least, mut highest, mut square, mut conjugate) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0.0);
        for (i, row) in self.rows.iter().enumerate() {
            let (rise, fall) = self.slopes(i);
            (least, highest) = (least.min(rise), highest.max(fall));
            square += self.beta[i] * self.f[i];
            conjugate += self.terms.loss.conjugate(self.beta[i], *row);
        }
        let loss = |b: f64| {
            let values = self.rows.iter().zip(&self.f).map(|(row, f)| self.terms.loss.value(f + b, *row));
            values.sum::<f64>() + self.terms.total * b
        };
        let b = match self.balanced() {
            // at the optimum every intercept between the two has the same P: takes the middle, as
            // LIBSVM does
            true if least.is_finite() && highest.is_finite() && highest <= least => -0.5 * (least + highest),
            // P decreases below this interval and increases above it
            true if least.is_finite() && highest.is_finite() => minimum(-highest, -least, &loss),
            true => -if least.is_finite() { least } else { highest.max(f64::MIN) },
            false => 0.0,
        };
        let primal = 0.5 * square + loss(b);
        Certificate { b, primal, dual: -0.5 * square - conjugate, least, highest }
    }

    /// Minimises over some of the multipliers, up to a violation of `tolerance`; returns the number
    /// of steps.
    fn round<T: Real>(
        &mut self,
        gram: &mut Gram<'_, T>,
        working: &mut Vec<usize>,
        at: &Certificate,
        tolerance: f64,
        workers: &Workers,
        stop: &dyn Fn() -> bool,
    ) -> usize {
        let (loss, balanced) = (self.terms.loss, self.balanced());
        match gram {
            Gram::Whole(k) => {
                let (rows, beta, f) = (&self.rows[..], &mut self.beta[..], &mut self.f[..]);
                let most = STEPS * rows.len();
                Local { k, rows, loss, balanced, beta, f }.solve(tolerance, most, stop)
            }
            Gram::Some(cache) => {
                self.choose(working, at);
                self.part(cache, working, tolerance, workers, stop)
            }
        }
    }

    fn part<T: Real>(
        &mut self,
        cache: &mut RowCache<'_, T>,
        working: &[usize],
        tolerance: f64,
        workers: &Workers,
        stop: &dyn Fn() -> bool,
    ) -> usize {
        if !cache.bring(working, workers, stop) {
            return 0;
        }
        let k = cache.among(working, workers);
        let of = |all: &[f64]| working.iter().map(|i| all[*i]).collect::<Vec<f64>>();
        let rows: Vec<Row> = working.iter().map(|i| self.rows[*i]).collect();
        let (mut beta, mut f) = (of(&self.beta), of(&self.f));
        let (loss, balanced) = (self.terms.loss, self.balanced());
        let local = Local { k: &k, rows: &rows, loss, balanced, beta: &mut beta, f: &mut f };
        let steps = local.solve(tolerance, STEPS * working.len(), stop);
        let moved = working.iter().zip(&beta).map(|(i, beta)| (*i, beta - self.beta[*i]));
        let moved: Vec<(usize, f64)> = moved.filter(|(_, by)| *by != 0.0).collect();
        for_each_strip(workers, &mut self.f, STRIP, |strip, f| {
            for (row, by) in &moved {
                add(f, &cache.row(*row)[strip * STRIP..], *by);
            }
        });
        working.iter().zip(beta).for_each(|(i, beta)| self.beta[*i] = beta);
        steps
    }

    /// Chooses the rows of the next round, new rows first: those with the least slopes of rising
    /// and the highest slopes of falling, then the newer half of the previous rows.
    fn choose(&self, working: &mut Vec<usize>, at: &Certificate) {
        let stay = working.len().min(WORKING / 2);
        let mut taken = vec![false; self.rows.len()];
        working[..stay].iter().for_each(|i| taken[*i] = true);
        let (low, high) = if self.balanced() { (at.highest, at.least) } else { (0.0, 0.0) };
        let (mut rising, mut falling) = (Vec::new(), Vec::new());
        for i in (0..self.rows.len()).filter(|i| !taken[*i]) {
            let (rise, fall) = self.slopes(i);
            if rise < low {
                rising.push((rise, i));
            }
            if fall > high {
                falling.push((-fall, i));
            }
        }
        let most = WORKING - stay;
        let mut chosen = Vec::with_capacity(WORKING);
        let (rising, falling) = (first(rising, most), first(falling, most));
        for place in 0..most {
            for i in [rising.get(place), falling.get(place)].into_iter().flatten() {
                if chosen.len() < most && !taken[*i] {
                    taken[*i] = true;
                    chosen.push(*i);
                }
            }
        }
        let room = WORKING - chosen.len();
        chosen.extend(working.iter().take(stay.min(room)).copied());
        // if few rows enter, more of the previous rows stay
        let room = WORKING - chosen.len();
        chosen.extend(working.iter().skip(stay).filter(|i| !taken[**i]).take(room).copied());
        *working = chosen;
    }

    /// Recomputes f with kernel values in f64; if `stop` returns true, it ends early and f is
    /// invalid.
    fn prove(
        &mut self,
        KernelPoints { kernel, x, shift }: KernelPoints<'_, f64>,
        workers: &Workers,
        stop: &(dyn Fn() -> bool + Sync),
    ) {
        let (d, support): (usize, Vec<usize>) =
            (x.ncols(), (0..self.beta.len()).filter(|i| self.beta[*i] != 0.0).collect());
        let z: Vec<f64> = support.iter().flat_map(|i| x.row(*i).iter().copied()).collect();
        let beta: Vec<f64> = support.iter().map(|i| self.beta[*i]).collect();
        let (z, buffers) = (MatRef::from_row_major_slice(&z, support.len(), d), Pool::<Vec<f64>>::default());
        let constant = shift * beta.iter().sum::<f64>();
        for_each_strip(workers, &mut self.f, BLOCK, |strip, f| {
            let (b, x) = (f.len(), x.subrows(strip * BLOCK, f.len()));
            f.fill(constant);
            if stop() {
                return;
            }
            buffers.with(
                || vec![0.0; BLOCK * BLOCK],
                |values| {
                    for (block, beta) in beta.chunks(BLOCK).enumerate() {
                        let (values, z) = (&mut values[..b * beta.len()], z.subrows(block * BLOCK, beta.len()));
                        kernel.block(x, z, MatMut::from_column_major_slice_mut(values, b, beta.len()));
                        values.chunks_exact(b).zip(beta).for_each(|(column, beta)| add(f, column, *beta));
                    }
                },
            );
        });
    }
}

/// Returns the places of the `count` smallest numbers, in ascending order, ties by place.
fn first(mut all: Vec<(f64, usize)>, count: usize) -> Vec<usize> {
    let order = |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    if all.len() > count && count > 0 {
        all.select_nth_unstable_by(count - 1, order);
        all.truncate(count);
    }
    all.sort_unstable_by(order);
    all.into_iter().map(|(_, i)| i).collect()
}

/// Returns the minimum of a convex function between two points, by golden-section search.
fn minimum(mut low: f64, mut high: f64, of: &dyn Fn(f64) -> f64) -> f64 {
    let golden = 0.5 * (5f64.sqrt() - 1.0);
    let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_left, mut at_right) = (of(left), of(right));
    for _ in 0..SEARCH {
        if at_left <= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - golden * (high - low);
            at_left = of(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + golden * (high - low);
            at_right = of(right);
        }
    }
    if at_left <= at_right { left } else { right }
}

#[cfg(test)]
mod tests;
