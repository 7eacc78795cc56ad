//! A round of a landmark scheme: one pass that computes the residual of every row under a map, and
//! keeps the rows with the best keys.

use super::TableScan;
use super::sample::BestRows;
use crate::kernel::{AnyKernel, KernelFunction};
use crate::map::FeatureMap;
use crate::map::factor::subtract_columns;
use crate::map::nystrom::{NystromMap, STRIP_ROWS};
use crate::{Error, Real, Result};
use faer::{Mat, MatRef};
use kpass::key::Stream;
use kpass::{Reduction, RowBlock, Workers};
use std::sync::Arc;

/// The rule that decides which rows a round keeps.
pub(super) struct RowRule<F> {
    /// Random numbers of the rows, and the fraction of the rows that take part in this round.
    /// Nothing is computed for the other rows.
    pub(super) subsample: Option<(Stream, f64)>,
    /// Lower bound to which smaller residuals are raised, because rounding may underestimate the
    /// residual of an important row. If it is 0, rows in the span of the landmarks are skipped.
    pub(super) residual_floor: f64,
    /// Key of a row with a positive residual; the rows with the largest keys are kept. `None`
    /// rejects the row.
    pub(super) key: F,
}

impl<F: Fn(u64, f64) -> Option<f64> + Sync> RowRule<F> {
    pub(super) fn new(key: F) -> Self {
        Self { subsample: None, residual_floor: 0.0, key }
    }

    fn participates(&self, row: u64) -> bool {
        self.subsample.as_ref().is_none_or(|(keys, fraction)| *fraction >= 1.0 || keys.uniform(row) < *fraction)
    }
}

pub(super) struct ResidualPass<'a, T: Real, F> {
    kernel: Arc<dyn KernelFunction<T>>,
    map: Option<NystromMap<T>>,
    rule: &'a RowRule<F>,
    capacity: usize,
    d: usize,
    tile: usize,
}

impl<'a, T: Real, F: Fn(u64, f64) -> Option<f64> + Sync> ResidualPass<'a, T, F> {
    /// Makes a pass that computes the residuals r_i = k(x_i, x_i) − ‖phi(x_i)‖² of the map, or
    /// k(x_i, x_i) if there is no map. The pass is saved in the journal as `name`. With s landmarks
    /// it costs n(s² + 2sd) flops.
    pub(super) fn run(
        kernel: &Arc<dyn AnyKernel>,
        map: Option<NystromMap<T>>,
        rule: &'a RowRule<F>,
        capacity: usize,
        name: &str,
        data: &TableScan<'_, T>,
    ) -> Result<Residuals<T>> {
        let (kernel, d, tile) = (kernel.typed::<T>(), data.source.shape().inputs, data.pass.tile);
        Ok(data.pass.resume(name, data.source, &Self { kernel, map, rule, capacity, d, tile })?.0)
    }
}

pub(super) struct Residuals<T> {
    /// Number of rows that took part.
    pub(super) rows: u64,
    /// Sum of the residuals of these rows, each raised to at least [`RowRule::residual_floor`].
    pub(super) sum: f64,
    /// Rows with the largest keys; their weights are the residuals.
    pub(super) best: BestRows<T>,
}

kpass::summed!(where [T: Real] Residuals<T> { one "rows": rows, one "sum": sum, part "best": best });

pub(super) struct ResidualScratch<T: Real> {
    phi: Mat<T>,
    residual: Vec<f64>,
    /// Rows of the tile that take part, and their inputs if not all rows do.
    participating: Vec<usize>,
    x: Vec<T>,
}

impl<T: Real, F: Fn(u64, f64) -> Option<f64> + Sync> Reduction<T> for ResidualPass<'_, T, F> {
    type State = Residuals<T>;
    type Scratch = ResidualScratch<T>;
    type Error = Error;

    fn init(&self) -> Self::State {
        Residuals { rows: 0, sum: 0.0, best: BestRows::new(self.capacity, self.d) }
    }

    fn scratch(&self) -> Self::Scratch {
        let p = self.map.as_ref().map_or(0, NystromMap::rank);
        ResidualScratch {
            phi: Mat::zeros(self.tile, p),
            residual: Vec::new(),
            participating: Vec::new(),
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
        let ResidualScratch { phi, residual, participating, x } = scratch;
        participating.clear();
        participating.extend((0..block.len()).filter(|i| self.rule.participates(block.rows[*i])));
        let inputs = |i: usize| &block.x[i * self.d..(i + 1) * self.d];
        let is_whole_tile = participating.len() == block.len();
        if !is_whole_tile {
            x.clear();
            participating.iter().for_each(|i| x.extend_from_slice(inputs(*i)));
        }
        let x = MatRef::from_row_major_slice(if is_whole_tile { block.x } else { x }, participating.len(), self.d);
        self.residuals(x, phi, residual, workers)?;
        state.rows += participating.len() as u64;
        for (&i, &residual) in participating.iter().zip(&*residual) {
            // rounding can make a residual negative
            let residual = residual.max(self.rule.residual_floor);
            if residual > 0.0 {
                state.sum += residual;
                if let Some(key) = (self.rule.key)(block.rows[i], residual) {
                    state.best.push(key, block.rows[i], residual, inputs(i));
                }
            }
        }
        Ok(())
    }
}

impl<T: Real, F> ResidualPass<'_, T, F> {
    fn residuals(&self, x: MatRef<'_, T>, phi: &mut Mat<T>, residual: &mut Vec<f64>, workers: &Workers) -> Result<()> {
        let b = x.nrows();
        residual.resize(b, 0.0);
        self.kernel.diag(x, residual);
        let Some(map) = &self.map else {
            return crate::kernel::check_finite::<T>(&self.kernel.spec(), residual);
        };
        map.apply(x, phi.as_mut().subrows_mut(0, b), workers);
        let parts = residual.chunks_mut(STRIP_ROWS).enumerate().collect();
        let phi = phi.as_ref();
        workers.for_each(parts, |(strip, residual): (usize, &mut [f64])| {
            subtract_columns(phi.subrows(strip * STRIP_ROWS, residual.len()), residual);
        });
        Ok(())
    }
}
