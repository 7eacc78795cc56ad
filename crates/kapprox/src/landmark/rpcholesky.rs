//! Randomly pivoted Cholesky: landmarks drawn in proportion to what the earlier ones leave of them.
//!
//! Plain form: pivot s with probability r_s / Σr, where r_i = k(x_i,x_i) − ‖L⁻¹k_S(x_i)‖². The accelerated form proposes
//! a block of rows at once, independently, in proportion to the residuals r at the start of the round, and then accepts
//! proposal s with probability (its residual now)/(its residual at the start of the round): rejection sampling, which
//! gives the law of the plain form exactly.
//!
//! A round is one pass over the rows and keeps nothing per row: the residuals are computed anew from L.
//!
//! References: Chen, Epperly, Tropp, Webber, "Randomly pivoted Cholesky", arXiv 2207.06503; Epperly, Tropp, Webber,
//! "Embrace rejection: kernel matrix approximation by accelerated randomly pivoted Cholesky", arXiv 2410.03969.

use super::sample::BestRows;
use super::{LandmarkSet, Landmarks, Rows};
use crate::kernel::{AnyKernel, Kernel};
use crate::map::factor::PIVOT_FLOOR;
use crate::map::nystrom::{Nystrom, STRIP};
use crate::map::residual::subtract_columns;
use crate::map::{FeatureMap, par};
use crate::{Error, Real, Result};
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Accum, Mat, MatRef, Par};
use kstore::key::{Purpose, Stream};
use kstore::{Fold, Merge, RowBlock, Workers};
use std::sync::Arc;

/// Accelerated randomly pivoted Cholesky in blocks.
///
/// About `m / block` rounds, more where many proposals are rejected. A round with s landmarks costs n(s² + 2sd) flops.
#[derive(Clone, Copy, Debug, Default)]
pub struct RpCholesky;

/// Smallest block. Below it a pass costs more than the proposals save.
const MIN_BLOCK: usize = 40;

/// The number of rounds in which every proposal may be rejected before the rows count as exhausted. A proposal whose
/// residual is genuine is accepted with probability near 1, so one such round is already strange.
const EMPTY_ROUNDS: usize = 3;

/// Proposals per round: a fifth of the landmarks. With residuals computed anew the rounds cost Σ (t·m/5)² ≈ 1.2 m² per
/// row, a third of what tenths cost, and the share of rejections grows only slowly.
fn block_size(m: usize) -> usize {
    (m / 5).max(MIN_BLOCK)
}

impl<T: Real> Landmarks<T> for RpCholesky {
    fn select(&self, data: &Rows<'_, T>, kernel: &Arc<dyn AnyKernel>, m: usize, seed: u64) -> Result<LandmarkSet<T>> {
        crate::kernel::require_positive_definite(&*T::kernel(kernel.clone()), "randomly pivoted Cholesky")?;
        let mut growth = Growth::new(kernel, data, m);
        let mut empty = 0;
        for round in 0.. {
            let residuals = growth.residuals(data, seed, round)?;
            let Some(proposals) = residuals.propose(block_size(m), seed, round) else { break };
            let before = growth.chosen.len();
            let genuine = growth.accept(&proposals, m, seed, round);
            empty = if growth.chosen.len() == before { empty + 1 } else { 0 };
            if growth.chosen.len() == m || empty > EMPTY_ROUNDS || (empty > 0 && !genuine) {
                break;
            }
        }
        Ok(growth.chosen)
    }
}

/// The landmarks chosen so far and their factor.
struct Growth<'a, T: Real> {
    any: &'a Arc<dyn AnyKernel>,
    kernel: Arc<dyn Kernel<T>>,
    exact: Arc<dyn Kernel<f64>>,
    chosen: LandmarkSet<T>,
    /// The same points in f64.
    wide: Vec<f64>,
    /// m x m, the leading part is L.
    lower: Mat<f64>,
}

/// A row proposed as a landmark.
struct Proposals {
    /// With repetitions.
    rows: Vec<u64>,
    /// Residuals they were proposed by.
    weights: Vec<f64>,
    /// Features in f64, row-major.
    x: Vec<f64>,
}

impl<'a, T: Real> Growth<'a, T> {
    fn new(any: &'a Arc<dyn AnyKernel>, data: &Rows<'_, T>, m: usize) -> Self {
        let (kernel, exact) = (T::kernel(any.clone()), <f64 as Real>::kernel(any.clone()));
        let d = data.source.shape().features;
        let chosen = LandmarkSet { points: Vec::new(), rows: Vec::new(), d, passes: 0, evaluations: 0 };
        Self { any, kernel, exact, chosen, wide: Vec::new(), lower: Mat::zeros(m, m) }
    }

    /// One pass: the sum of the residuals, and the rows with the best keys.
    fn residuals(&mut self, data: &Rows<'_, T>, seed: u64, round: u64) -> Result<Residuals<T>> {
        let s = self.chosen.len();
        let map = (s > 0).then(|| {
            let lower = self.lower.submatrix(0, 0, s, s).to_owned();
            let workers = data.pass.workers;
            workers.install(|| Nystrom::from_factor(self.any, self.chosen.clone(), lower, par(workers)))
        });
        let fold = RoundFold {
            kernel: &*self.kernel,
            map,
            stream: Stream::new(seed, Purpose::Proposals, round),
            block: block_size(self.lower.nrows()),
            d: self.chosen.d,
            tile: data.pass.tile,
        };
        let (state, report) = data.pass.fold(data.source, &fold)?;
        self.chosen.passes += 1;
        self.chosen.evaluations += report.rows * (s as u64 + 1);
        Ok(state)
    }

    /// Rejection: walks through the proposals and keeps each with probability (residual now)/(residual proposed by).
    /// Residuals of proposals are computed in f64. Returns whether any proposal had a residual above the floor.
    fn accept(&mut self, proposals: &Proposals, m: usize, seed: u64, round: u64) -> bool {
        let b = proposals.rows.len();
        let s = self.chosen.len();
        let x = MatRef::from_row_major_slice(&proposals.x, b, self.chosen.d);
        let phi = self.project(x);
        let mut schur = Mat::<f64>::zeros(b, b);
        self.exact.block(x, x, schur.as_mut());
        self.chosen.evaluations += (b * (b + s)) as u64;
        let floors: Vec<f64> = (0..b).map(|i| PIVOT_FLOOR * schur[(i, i)]).collect();
        matmul(schur.as_mut(), Accum::Add, phi.as_ref(), phi.transpose(), -1.0, Par::Seq);
        let genuine = (0..b).any(|i| schur[(i, i)] > floors[i]);

        let coins = Stream::new(seed, Purpose::Acceptance, round);
        let mut accepted: Vec<usize> = Vec::new();
        for i in 0..b {
            if self.chosen.len() == m {
                break;
            }
            let now = schur[(i, i)];
            // the coins after 2b belong to the proposals
            if now <= floors[i] || coins.uniform((2 * b + i) as u64) * proposals.weights[i] >= now {
                continue;
            }
            self.extend(proposals, i, &phi, &schur, &accepted);
            accepted.push(i);
            eliminate(&mut schur, i);
        }
        genuine
    }

    /// Features of the proposals under the landmarks so far, in f64: b x s.
    fn project(&mut self, x: MatRef<'_, f64>) -> Mat<f64> {
        let s = self.chosen.len();
        let mut phi = Mat::zeros(x.nrows(), s);
        if s > 0 {
            let z = MatRef::from_row_major_slice(&self.wide, s, self.chosen.d);
            self.exact.block(x, z, phi.as_mut());
            let lower = self.lower.submatrix(0, 0, s, s);
            solve_lower_triangular_in_place(lower, phi.as_mut().transpose_mut(), Par::Seq);
        }
        phi
    }

    /// Adds proposal i: its row of L is (phi_i, its eliminated columns, root of its residual).
    fn extend(&mut self, proposals: &Proposals, i: usize, phi: &Mat<f64>, schur: &Mat<f64>, accepted: &[usize]) {
        let (s, d) = (self.chosen.len(), self.chosen.d);
        for j in 0..phi.ncols() {
            self.lower[(s, j)] = phi[(i, j)];
        }
        for (c, &earlier) in accepted.iter().enumerate() {
            // `eliminate` leaves the column of the factor below the pivot
            self.lower[(s, phi.ncols() + c)] = schur[(i, earlier)];
        }
        self.lower[(s, s)] = schur[(i, i)].sqrt();
        let x = &proposals.x[i * d..(i + 1) * d];
        self.wide.extend_from_slice(x);
        self.chosen.points.extend(x.iter().map(|v| <T as kstore::Real>::from_f64(*v)));
        self.chosen.rows.push(proposals.rows[i]);
    }
}

/// One step of Cholesky in place: column i below the diagonal becomes the factor's, the rest its Schur complement.
fn eliminate(schur: &mut Mat<f64>, i: usize) {
    let b = schur.nrows();
    let root = schur[(i, i)].sqrt();
    for r in i + 1..b {
        schur[(r, i)] /= root;
    }
    for c in i + 1..b {
        let weight = schur[(c, i)];
        for r in c..b {
            schur[(r, c)] -= weight * schur[(r, i)];
        }
    }
}

/// One round's pass.
struct RoundFold<'a, T: Real> {
    kernel: &'a dyn Kernel<T>,
    map: Option<Nystrom<T>>,
    stream: Stream,
    block: usize,
    d: usize,
    tile: usize,
}

/// The sum of the residuals and the rows with the largest keys ln(u)/r.
struct Residuals<T> {
    sum: f64,
    best: BestRows<T>,
}

impl<T: Real> Merge for Residuals<T> {
    fn merge(&mut self, later: &Self) {
        self.sum += later.sum;
        self.best.append(&later.best);
    }
}

/// Buffers of one lane.
struct RoundScratch<T: Real> {
    phi: Mat<T>,
    residual: Vec<f64>,
}

impl<T: Real> Fold<T> for RoundFold<'_, T> {
    type State = Residuals<T>;
    type Scratch = RoundScratch<T>;
    type Error = Error;

    fn init(&self) -> Self::State {
        Residuals { sum: 0.0, best: BestRows::new(self.block, self.d) }
    }

    fn scratch(&self) -> Self::Scratch {
        let p = self.map.as_ref().map_or(0, Nystrom::rank);
        RoundScratch { phi: Mat::zeros(self.tile, p), residual: Vec::new() }
    }

    fn step(
        &self,
        state: &mut Self::State,
        scratch: &mut Self::Scratch,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<()> {
        let b = block.len();
        let x = MatRef::from_row_major_slice(block.x, b, self.d);
        scratch.residual.resize(b, 0.0);
        self.kernel.diag(x, &mut scratch.residual);
        if self.map.is_none() {
            crate::kernel::check_finite::<T>(&self.kernel.spec(), &scratch.residual)?;
        }
        if let Some(map) = &self.map {
            map.apply(x, scratch.phi.as_mut().subrows_mut(0, b), workers);
            let parts = scratch.residual.chunks_mut(STRIP).enumerate().collect();
            let phi = scratch.phi.as_ref();
            workers.each(parts, |(strip, residual): (usize, &mut [f64])| {
                subtract_columns(phi.subrows(strip * STRIP, residual.len()), residual);
            });
        }
        for (i, residual) in scratch.residual.iter().enumerate() {
            // rounding can leave a residual below zero: such a row is not proposed
            if *residual > 0.0 {
                let row = block.rows[i];
                state.sum += residual;
                let key = self.stream.uniform(row).ln() / residual;
                state.best.push(key, row, *residual, &block.x[i * self.d..(i + 1) * self.d]);
            }
        }
        Ok(())
    }
}

impl<T: Real> Residuals<T> {
    /// `b` independent proposals with probability r_i/Σr, repetitions included. `None` where all residuals are zero.
    ///
    /// The best keys are a sample *without* replacement in order of drawing. Each independent draw falls among the rows
    /// seen so far with probability (their residuals)/Σr, in proportion to them, and else is the next new row.
    fn propose(mut self, b: usize, seed: u64, round: u64) -> Option<Proposals> {
        let entries = self.best.sorted();
        if entries.is_empty() || self.sum.is_nan() || self.sum <= 0.0 {
            return None;
        }
        let coins = Stream::new(seed, Purpose::Acceptance, round);
        let mut proposals = Proposals { rows: Vec::new(), weights: Vec::new(), x: Vec::new() };
        let mut seen: Vec<f64> = Vec::new(); // running sums of the weights of the rows seen
        for draw in 0..b {
            let known = seen.last().copied().unwrap_or(0.0);
            let target = coins.uniform(draw as u64) * self.sum;
            let pick = if target < known || seen.len() == entries.len() {
                let target = coins.uniform((b + draw) as u64) * known;
                seen.partition_point(|sum| *sum <= target).min(seen.len() - 1)
            } else {
                seen.push(known + entries[seen.len()].weight);
                seen.len() - 1
            };
            let entry = &entries[pick];
            proposals.rows.push(entry.row);
            proposals.weights.push(entry.weight);
            proposals.x.extend(self.best.features(entry).iter().map(|v| kstore::Real::to_f64(*v)));
        }
        Some(proposals)
    }
}
