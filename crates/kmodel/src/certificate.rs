//! The certificate: the exact relative trace-norm error of the approximation of the kernel matrix K
//! by K̂ = ΦΦᵀ, measured on all rows. φ(x_i) are the features of row i.

use crate::growth::ResidualSums;
use crate::linalg::strips::for_each_strip;
use crate::{Error, Result, row_weights};
use faer::prelude::*;
use faer::{Mat, MatRef};
use kapprox::map::column_slice;
use kapprox::{FeatureMap, Real};
use kstore::checkpoint::{Arrays, Persist, StoredArrays};
use kstore::{Merge, Reduction, RowBlock, Workers};

/// Number of rows whose residuals are updated together. Their 2 KiB stay in the L1 cache while the
/// columns of `phi` are read.
const RESIDUAL_STRIP_ROWS: usize = 288;

/// Number of independent partial sums of a column, so that its additions vectorise: the f64 numbers
/// of an AVX-512 register.
const RESIDUAL_PARTIAL_SUMS: usize = 8;

/// Name of the residual sums among the arrays of a state.
const RESIDUAL_SUMS: &str = "residuals";

/// Returns the number of sums of a strip: positive and negative residuals at p ranks, the largest
/// residual, and the [`ResidualSums`].
fn sums_per_strip(p: usize) -> usize {
    2 * p + 1 + ResidualSums::SUM_COUNT
}

/// Largest [overshoot](Certificate::overshoot) that is always accepted as rounding. Chosen: a
/// smaller number would reject more features because of harmless rounding.
const ACCEPTED_OVERSHOOT: f64 = 1e-6;

/// Relative error of the approximation in trace norm, measured on all rows of the pass.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Certificate {
    /// Σ max(r_i, 0) / tr K with r_i = k(x_i, x_i) − ‖φ(x_i)‖²: the error of the approximation.
    pub trace_error: f64,
    /// Σ max(−r_i, 0) / tr K. For a projection it is zero in exact arithmetic, so it measures
    /// rounding.
    pub overshoot: f64,
    /// Rounding level of `trace_error`: ε_T·√(r + 1) + `overshoot` at rank r. A smaller
    /// `trace_error` is rounding.
    ///
    /// A residual is k(x, x) minus r squares. Each square has a relative rounding error of about
    /// ε_T, the machine epsilon of the features; independent errors sum to about ε_T·√r·k(x, x).
    /// The condition number of the kernel matrix of the landmarks can amplify the errors. Errors of
    /// both signs are equally frequent, and the overshoot measures the negative errors.
    pub floor: f64,
}

/// Sums of the positive and of the negative residuals r_i at every rank, over the rows so far.
///
/// If the features are nested, the residual of row i at rank j is k(x_i, x_i) − φ_i1² − … − φ_ij²,
/// where φ_ij is entry (i, j) of `phi`. So one sweep over the p columns of `phi` gives the
/// certificate of every rank. *Cost*: 5 flops per entry of phi. *Bytes*: 16·p.
#[derive(Clone, Debug, PartialEq)]
pub struct CertificateState {
    /// Number of rows so far, or the sum of their weights.
    pub weight_sum: f64,
    /// Trace of the kernel matrix, tr K = Σ k(x_i, x_i). All sums are weighted by the row weights.
    pub trace: f64,
    /// Sums of positive residuals Σ max(r_i, 0) at ranks 1, …, p.
    pub positive_sums: Vec<f64>,
    /// Sums of negative residuals Σ max(−r_i, 0) at ranks 1, …, p.
    pub negative_sums: Vec<f64>,
    /// Largest residual of a row at rank p, which is a lower bound on the spectral norm of K − K̂.
    /// It is 0 before the first row.
    pub max_residual: f64,
    /// Sums of the residuals at rank p and of their squares.
    #[doc(hidden)]
    pub residual_sums: ResidualSums,
    /// Machine epsilon of the features.
    epsilon: f64,
}

impl CertificateState {
    /// Returns the state before any row, for p features.
    pub fn new(p: usize) -> Self {
        Self {
            weight_sum: 0.0,
            trace: 0.0,
            positive_sums: vec![0.0; p],
            negative_sums: vec![0.0; p],
            max_residual: 0.0,
            residual_sums: ResidualSums::default(),
            epsilon: f64::EPSILON,
        }
    }

    /// Returns the bytes of a state with p features.
    pub fn bytes(p: usize) -> usize {
        16 * p
    }

    /// Returns the bytes of the partial sums of an update with b rows.
    pub fn scratch_bytes(p: usize, b: usize) -> usize {
        8 * b.div_ceil(RESIDUAL_STRIP_ROWS) * sums_per_strip(p)
    }

    /// Adds b rows: `phi` (b x p, with contiguous columns) contains their features, `diag[i]` is
    /// k(x_i, x_i), and `weights` are their weights, 1 if `None`. `partial_sums` is a buffer.
    ///
    /// Strips of a fixed number of rows are distributed over the workers, and their sums are added
    /// in order, so the result does not depend on the number of threads. A NaN residual makes the
    /// sums NaN, so it is never hidden.
    pub fn update<T: Real>(
        &mut self,
        phi: MatRef<'_, T>,
        diag: &[f64],
        weights: Option<&[f64]>,
        partial_sums: &mut Vec<f64>,
        workers: &Workers,
    ) {
        let p = self.positive_sums.len();
        debug_assert_eq!((phi.nrows(), phi.ncols()), (diag.len(), p));
        let sums_per_strip = sums_per_strip(p);
        partial_sums.resize(diag.len().div_ceil(RESIDUAL_STRIP_ROWS) * sums_per_strip, 0.0);
        for_each_strip(workers, partial_sums, sums_per_strip, |strip, out| {
            let first_row = strip * RESIDUAL_STRIP_ROWS;
            let row_count = RESIDUAL_STRIP_ROWS.min(diag.len() - first_row);
            let (mut residual, mut strip_weights) = ([0.0; RESIDUAL_STRIP_ROWS], [1.0; RESIDUAL_STRIP_ROWS]);
            if let Some(weights) = weights {
                strip_weights[..row_count].copy_from_slice(&weights[first_row..first_row + row_count]);
            }
            (0..row_count).for_each(|i| residual[i] = strip_weights[i] * diag[first_row + i]);
            strip_sums(phi.subrows(first_row, row_count), &mut residual[..row_count], &strip_weights[..row_count], out);
        });
        for strip in partial_sums.chunks_exact(sums_per_strip) {
            let (positive, negative_and_max) = strip.split_at(p);
            self.positive_sums.iter_mut().zip(positive).for_each(|(sum, part)| *sum += part);
            self.negative_sums.iter_mut().zip(negative_and_max).for_each(|(sum, part)| *sum += part);
            self.max_residual = self.max_residual.max(negative_and_max[p]);
            self.residual_sums.add_sums(&negative_and_max[p + 1..]);
        }
        self.residual_sums.rows += diag.len() as u64;
        let weight = |i: usize| weights.map_or(1.0, |weights| weights[i]);
        self.trace += (0..diag.len()).map(|i| weight(i) * diag[i]).sum::<f64>();
        self.weight_sum += (0..diag.len()).map(weight).sum::<f64>();
        self.epsilon = self.epsilon.max(T::EPSILON);
    }

    /// Returns the certificate of the leading `rank` features (at most p).
    pub fn certificate(&self, rank: usize) -> Certificate {
        let fraction = |sum: f64| if self.trace > 0.0 { sum / self.trace } else { 0.0 };
        let rank = rank.min(self.positive_sums.len());
        let (trace_error, overshoot) = match rank {
            0 => (fraction(self.trace), 0.0),
            _ => (fraction(self.positive_sums[rank - 1]), fraction(self.negative_sums[rank - 1])),
        };
        Certificate { trace_error, overshoot, floor: self.epsilon * (rank as f64 + 1.0).sqrt() + overshoot }
    }

    /// Returns the mean of max(r_i, 0) over the rows at `rank`. At rank 0 it is the mean of k(x,
    /// x).
    pub fn mean_residual(&self, rank: usize) -> f64 {
        let sum = rank.checked_sub(1).and_then(|last| self.positive_sums.get(last)).unwrap_or(&self.trace);
        if self.weight_sum > 0.0 { sum / self.weight_sum } else { 0.0 }
    }

    /// Returns the [`certificate`](Self::certificate) of the leading `rank` features if it can be
    /// trusted.
    ///
    /// # Errors
    /// [`Error::Overshoot`] if the overshoot exceeds both the trace error and the expected
    /// rounding. The features are then not a projection, and the true error of the approximation is
    /// larger than the trace error.
    pub fn checked_certificate(&self, rank: usize) -> Result<Certificate> {
        let certificate = self.certificate(rank);
        let Certificate { trace_error, overshoot, floor } = certificate;
        match overshoot > trace_error.max(ACCEPTED_OVERSHOOT).max(floor - overshoot) {
            true => Err(Error::Overshoot { rank, overshoot, trace_error }),
            false => Ok(certificate),
        }
    }

    /// Returns the smallest rank whose trace error is at most `tolerance`; `None` if no rank
    /// satisfies this.
    pub fn rank_within(&self, tolerance: f64) -> Option<usize> {
        (1..=self.positive_sums.len()).find(|rank| self.certificate(*rank).trace_error <= tolerance)
    }
}

impl Merge for CertificateState {
    fn merge(&mut self, later: &Self) {
        self.weight_sum += later.weight_sum;
        self.trace += later.trace;
        self.positive_sums.iter_mut().zip(&later.positive_sums).for_each(|(sum, part)| *sum += part);
        self.negative_sums.iter_mut().zip(&later.negative_sums).for_each(|(sum, part)| *sum += part);
        self.max_residual = self.max_residual.max(later.max_residual);
        self.residual_sums.merge(&later.residual_sums);
        self.epsilon = self.epsilon.max(later.epsilon);
    }
}

impl Persist for CertificateState {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        out.put_owned("scalars", vec![self.weight_sum, self.trace, self.max_residual, self.epsilon]);
        out.put("positive", &self.positive_sums);
        out.put("negative", &self.negative_sums);
        out.put_part(RESIDUAL_SUMS, |out| self.residual_sums.save(out));
    }

    fn load(&mut self, from: &mut StoredArrays<'_>) -> kstore::Result<()> {
        let mut scalars = [0.0; 4];
        from.fill("scalars", &mut scalars)?;
        [self.weight_sum, self.trace, self.max_residual, self.epsilon] = scalars;
        from.fill("positive", &mut self.positive_sums)?;
        from.fill("negative", &mut self.negative_sums)?;
        from.read_part(RESIDUAL_SUMS, |from| self.residual_sums.load(from))
    }
}

/// Writes to `out` the p positive sums, the p negative sums, the largest residual at rank p and the
/// sums of the residuals of one strip. On entry, `residual` must contain k(x, x) times the weight
/// of each row.
fn strip_sums<T: Real>(phi: MatRef<'_, T>, residual: &mut [f64], weights: &[f64], out: &mut [f64]) {
    let p = phi.ncols();
    let mut weighted_diag = [0.0; RESIDUAL_STRIP_ROWS];
    weighted_diag[..residual.len()].copy_from_slice(residual);
    kapprox::vectorised!({
        let (positive, negative_and_max) = out.split_at_mut(p);
        for j in 0..p {
            (positive[j], negative_and_max[j]) = subtract_column(residual, weights, column_slice(phi.col(j)));
        }
        negative_and_max[p] = residual
            .iter()
            .zip(weights)
            .map(|(weighted_residual, weight)| weighted_residual / weight)
            .fold(0.0, f64::max);
    });
    out[2 * p + 1..].copy_from_slice(&ResidualSums::of_rows(&weighted_diag, residual).to_sums());
}

/// Subtracts φ_ij² times the weight from every residual, for one column j, and returns the sums of
/// the positive and of the negative residuals.
#[inline(always)]
fn subtract_column<T: Real>(residual: &mut [f64], weights: &[f64], column: &[T]) -> (f64, f64) {
    let (mut positive, mut negative) = ([0.0; RESIDUAL_PARTIAL_SUMS], [0.0; RESIDUAL_PARTIAL_SUMS]);
    let (whole, tail) = residual.as_chunks_mut::<RESIDUAL_PARTIAL_SUMS>();
    let (whole_phi, tail_phi) = column.as_chunks::<RESIDUAL_PARTIAL_SUMS>();
    let (whole_weights, tail_weights) = weights.as_chunks::<RESIDUAL_PARTIAL_SUMS>();
    for ((r, phi), weight) in whole.iter_mut().zip(whole_phi).zip(whole_weights) {
        for i in 0..RESIDUAL_PARTIAL_SUMS {
            let square = phi[i].to_f64() * phi[i].to_f64();
            let updated = r[i] - weight[i] * square;
            r[i] = updated;
            // the comparison is false for NaN, so a NaN is added to the positive sum
            positive[i] += if updated < 0.0 { 0.0 } else { updated };
            negative[i] += if updated < 0.0 { -updated } else { 0.0 };
        }
    }
    for (i, ((r, phi), weight)) in tail.iter_mut().zip(tail_phi).zip(tail_weights).enumerate() {
        *r -= weight * (phi.to_f64() * phi.to_f64());
        positive[i] += if *r < 0.0 { 0.0 } else { *r };
        negative[i] += if *r < 0.0 { -*r } else { 0.0 };
    }
    (positive.iter().sum(), negative.iter().sum())
}

/// A pass that computes the certificate of every rank.
#[derive(Debug)]
pub struct CertificateReduction<'a, T: Real> {
    /// Feature map.
    pub map: &'a dyn FeatureMap<T>,
    /// Number of rows per tile.
    pub tile_rows: usize,
}

impl<T: Real> CertificateReduction<'_, T> {
    /// Returns true if the map has a certificate. Only projections onto the span of landmarks have
    /// one.
    pub fn has_certificate(&self) -> bool {
        self.map.is_projection()
    }
}

/// Buffers of [`CertificateReduction`], one for each worker lane.
#[derive(Debug)]
pub struct CertificateScratch<T: Real> {
    phi: Mat<T>,
    diag: Vec<f64>,
    partial_sums: Vec<f64>,
}

impl<T: Real> Reduction<T> for CertificateReduction<'_, T> {
    type State = CertificateState;
    type Scratch = CertificateScratch<T>;
    type Error = Error;

    fn init(&self) -> CertificateState {
        CertificateState::new(self.map.dims().1)
    }

    fn scratch(&self) -> CertificateScratch<T> {
        CertificateScratch {
            phi: Mat::zeros(self.tile_rows, self.map.dims().1),
            diag: Vec::new(),
            partial_sums: Vec::new(),
        }
    }

    fn step(
        &self,
        state: &mut CertificateState,
        CertificateScratch { phi, diag, partial_sums }: &mut CertificateScratch<T>,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<()> {
        let b = block.len();
        let x = MatRef::from_row_major_slice(block.x, b, block.d);
        let mut phi = phi.as_mut().subrows_mut(0, b);
        self.map.apply(x, phi.rb_mut(), workers);
        diag.resize(b, 0.0);
        if self.map.kernel_diag(x, diag).is_some() {
            let weights = row_weights::block_weights(block)?;
            state.update(phi.as_ref(), diag, weights.as_deref(), partial_sums, workers);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faer::Mat;

    fn features(n: usize, p: usize) -> (Mat<f64>, Vec<f64>) {
        let phi = Mat::from_fn(n, p, |i, j| ((i * 31 + j * 17) as f64).sin() / (j + 1) as f64);
        // a little more than ‖φ‖² for two rows of three, less for the third
        let norm = |i: usize| (0..p).map(|j| phi[(i, j)].powi(2)).sum::<f64>();
        let diag = (0..n).map(|i| norm(i) + if i % 3 == 0 { -1e-3 } else { 0.1 }).collect();
        (phi, diag)
    }

    #[test]
    fn every_rank_equals_its_definition() {
        let (n, p) = (701, 13);
        let (phi, diag) = features(n, p);
        let mut state = CertificateState::new(p);
        state.update(phi.as_ref(), &diag, None, &mut Vec::new(), &Workers::sequential());
        let trace: f64 = diag.iter().sum();
        for rank in 0..=p {
            let residuals: Vec<f64> =
                (0..n).map(|i| diag[i] - (0..rank).map(|j| phi[(i, j)].powi(2)).sum::<f64>()).collect();
            let positive = residuals.iter().map(|r| r.max(0.0)).sum::<f64>() / trace;
            let negative = residuals.iter().map(|r| (-r).max(0.0)).sum::<f64>() / trace;
            let got = state.certificate(rank);
            assert!((got.trace_error - positive).abs() < 1e-13, "rank {rank}: {got:?} against {positive}");
            assert!((got.overshoot - negative).abs() < 1e-13, "rank {rank}: {got:?} against {negative}");
        }
        assert!(state.certificate(p).overshoot > 1e-4, "the test has rows that overshoot");
        assert!((state.max_residual - 0.1).abs() < 1e-12);
    }

    #[test]
    fn threads_give_the_same_bits_and_parts_the_same_sums() {
        let (phi, diag) = features(1000, 29);
        let state_of_rows = |first_row: usize, row_count: usize, threads: usize| {
            let mut state = CertificateState::new(29);
            let phi = phi.as_ref().subrows(first_row, row_count);
            state.update(phi, &diag[first_row..first_row + row_count], None, &mut Vec::new(), &Workers::new(threads));
            state
        };
        assert_eq!(state_of_rows(0, 1000, 1), state_of_rows(0, 1000, 2));
        assert_eq!(state_of_rows(0, 1000, 1), state_of_rows(0, 1000, 8));
        let mut merged = state_of_rows(0, 333, 1);
        merged.merge(&state_of_rows(333, 667, 1));
        let (expected, merged) = (state_of_rows(0, 1000, 1).certificate(20), merged.certificate(20));
        assert!((expected.trace_error - merged.trace_error).abs() < 1e-14);
    }

    #[test]
    fn features_that_exceed_the_kernel_are_rejected() {
        let certificate_of = |excess: f64, missing: f64| {
            let mut state = CertificateState::new(1);
            let phi = Mat::from_fn(2, 1, |_, _| 1.0f64);
            state.update(phi.as_ref(), &[1.0 - excess, 1.0 + missing], None, &mut Vec::new(), &Workers::sequential());
            state.checked_certificate(1)
        };
        assert!(certificate_of(1e-7, 0.0).is_ok(), "rounding");
        assert!(certificate_of(1e-3, 0.1).is_ok(), "less than is missing anyway");
        let refused = certificate_of(1e-3, 1e-4).unwrap_err().to_string();
        assert!(refused.contains("exceed the kernel by 5.0e-4") && refused.contains("`landmarks`"), "{refused}");
    }

    #[test]
    fn nan_is_not_hidden() {
        let mut state = CertificateState::new(1);
        let phi = Mat::from_fn(3, 1, |i, _| if i == 1 { f64::NAN } else { 0.5 });
        state.update(phi.as_ref(), &[1.0; 3], None, &mut Vec::new(), &Workers::sequential());
        assert!(state.certificate(1).trace_error.is_nan());
    }

    #[test]
    fn the_floor_covers_the_rounding_of_f32_features() {
        // rows of an orthogonal transform: ‖φ‖² = k(x, x) = 1 exactly; residuals are rounding
        let (n, p) = (512, 64);
        let phi = Mat::from_fn(n, p, |i, j| {
            let (i, j) = ((i % p) as f64, j as f64);
            let scale = if j == 0.0 { (1.0 / p as f64).sqrt() } else { (2.0 / p as f64).sqrt() };
            (scale * (std::f64::consts::PI * (i + 0.5) * j / p as f64).cos()) as f32
        });
        let mut state = CertificateState::new(p);
        state.update(phi.as_ref(), &vec![1.0; n], None, &mut Vec::new(), &Workers::sequential());
        let got = state.certificate(p);
        assert!(got.trace_error > 0.0 && got.trace_error <= got.floor, "{got:?}");
        assert!(got.floor < 1e-5, "{got:?}");
        assert_eq!(state.rank_within(0.26), Some((1..=p).find(|r| state.certificate(*r).trace_error <= 0.26).unwrap()));
    }
}
