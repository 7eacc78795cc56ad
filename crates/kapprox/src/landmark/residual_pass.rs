//! A round of a landmark scheme: one pass that computes the residual of every row under a map, and
//! keeps the rows with the best keys.

use super::TableScan;
use super::sample::BestRows;
use crate::kernel::{AnyKernel, KernelFunction};
use crate::map::FeatureMap;
use crate::map::factor::subtract_squared_columns;
use crate::map::nystrom::{NystromMap, STRIP_ROWS};
use crate::{Error, Real, Result};
use faer::{Mat, MatRef};
use kpass::key::Stream;
use kpass::{Reduction, RowBlock, Workers};
use std::sync::Arc;

/// The rule that decides which rows a round keeps.
pub(super) struct RowRule<F> {
    /// A stream of random numbers and a fraction: the rows whose number is below the fraction take
    /// part in this round, and nothing is computed for the other rows. `None` if all rows take
    /// part.
    pub(super) subsample: Option<(Stream, f64)>,
    /// Lower bound to which smaller residuals are raised, because rounding may underestimate the
    /// residual of an important row. If it is 0, rows in the span of the landmarks are skipped.
    pub(super) residual_floor: f64,
    /// `key(row_number, residual)` returns the key of a row with a positive residual, or `None` to
    /// reject the row. The rows with the largest keys are kept.
    pub(super) key: F,
}

impl<F: Fn(u64, f64) -> Option<f64> + Sync> RowRule<F> {
    pub(super) fn new(key: F) -> Self {
        Self { subsample: None, residual_floor: 0.0, key }
    }

    fn participates(&self, row: u64) -> bool {
        self.subsample.as_ref().is_none_or(|(stream, fraction)| *fraction >= 1.0 || stream.uniform(row) < *fraction)
    }
}

pub(super) struct ResidualPass<'a, T: Real, F> {
    kernel: Arc<dyn KernelFunction<T>>,
    map: Option<NystromMap<T>>,
    rule: &'a RowRule<F>,
    capacity: usize,
    d: usize,
    tile_rows: usize,
}

impl<'a, T: Real, F: Fn(u64, f64) -> Option<f64> + Sync> ResidualPass<'a, T, F> {
    /// Makes a pass that computes the residuals r_i = k(x_i, x_i) − ‖phi(x_i)‖² of the map, or
    /// k(x_i, x_i) without a map, and keeps the `capacity` rows with the largest keys. The
    /// pass is saved in the journal as `name`. With s landmarks it costs n(s² + 2sd) flops.
    pub(super) fn run(
        kernel: &Arc<dyn AnyKernel>,
        map: Option<NystromMap<T>>,
        rule: &'a RowRule<F>,
        capacity: usize,
        name: &str,
        scan: &TableScan<'_, T>,
    ) -> Result<Residuals<T>> {
        let (kernel, d, tile_rows) = (kernel.typed::<T>(), scan.source.shape().input_count, scan.pass.tile_rows);
        Ok(scan.pass.resume(name, scan.source, &Self { kernel, map, rule, capacity, d, tile_rows })?.0)
    }
}

pub(super) struct Residuals<T> {
    /// Number of rows that took part.
    pub(super) row_count: u64,
    /// Sum of the residuals of these rows, each raised to at least [`RowRule::residual_floor`].
    pub(super) residual_sum: f64,
    /// Rows with the largest keys; their weights are the residuals.
    pub(super) best_rows: BestRows<T>,
}

kpass::summed!(where [T: Real] Residuals<T> { one "rows": row_count, one "sum": residual_sum, part "best": best_rows });

pub(super) struct ResidualScratch<T: Real> {
    phi: Mat<T>,
    residuals: Vec<f64>,
    /// Rows of the tile that take part.
    participants: Vec<usize>,
    /// Inputs of these rows, unless all rows of the tile take part.
    x: Vec<T>,
}

impl<T: Real, F: Fn(u64, f64) -> Option<f64> + Sync> Reduction<T> for ResidualPass<'_, T, F> {
    type State = Residuals<T>;
    type Scratch = ResidualScratch<T>;
    type Error = Error;

    fn init(&self) -> Self::State {
        Residuals { row_count: 0, residual_sum: 0.0, best_rows: BestRows::new(self.capacity, self.d) }
    }

    fn scratch(&self) -> Self::Scratch {
        let p = self.map.as_ref().map_or(0, NystromMap::rank);
        ResidualScratch {
            phi: Mat::zeros(self.tile_rows, p),
            residuals: Vec::new(),
            participants: Vec::new(),
            x: Vec::new(),
        }
    }

    fn step(
        &self,
        state: &mut Self::State,
        scratch: &mut Self::Scratch,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<()> {
        let ResidualScratch { phi, residuals, participants, x } = scratch;
        participants.clear();
        participants.extend((0..block.len()).filter(|i| self.rule.participates(block.row_numbers[*i])));
        let inputs = |i: usize| &block.x[i * self.d..(i + 1) * self.d];
        let is_whole_tile = participants.len() == block.len();
        if !is_whole_tile {
            x.clear();
            participants.iter().for_each(|i| x.extend_from_slice(inputs(*i)));
        }
        let x = MatRef::from_row_major_slice(if is_whole_tile { block.x } else { x }, participants.len(), self.d);
        self.compute_residuals(x, phi, residuals, workers)?;
        state.row_count += participants.len() as u64;
        for (&i, &residual) in participants.iter().zip(&*residuals) {
            // rounding can make a residual negative
            let residual = residual.max(self.rule.residual_floor);
            if residual > 0.0 {
                state.residual_sum += residual;
                if let Some(key) = (self.rule.key)(block.row_numbers[i], residual) {
                    state.best_rows.push(key, block.row_numbers[i], residual, inputs(i));
                }
            }
        }
        Ok(())
    }
}

impl<T: Real, F> ResidualPass<'_, T, F> {
    fn compute_residuals(
        &self,
        x: MatRef<'_, T>,
        phi: &mut Mat<T>,
        residuals: &mut Vec<f64>,
        workers: &Workers,
    ) -> Result<()> {
        let b = x.nrows();
        residuals.resize(b, 0.0);
        self.kernel.diag(x, residuals);
        let Some(map) = &self.map else {
            return crate::kernel::check_finite::<T>(&self.kernel.spec(), residuals);
        };
        map.apply(x, phi.as_mut().subrows_mut(0, b), workers);
        let residual_strips = residuals.chunks_mut(STRIP_ROWS).enumerate().collect();
        let phi = phi.as_ref();
        workers.for_each(residual_strips, |(strip_index, residuals): (usize, &mut [f64])| {
            subtract_squared_columns(phi.subrows(strip_index * STRIP_ROWS, residuals.len()), residuals);
        });
        Ok(())
    }
}
