//! The Hessian's blocks on the diagonal, one for each class, from a sample of the rows.
//!
//! Near the solution most rows have p(1 − p) ≈ 0: the few between two classes make the Hessian, other ones for every class.
//! A row is drawn with a probability π in proportion to its a p(1 − p), and weighs a p(1 − p)/π: the blocks are right on
//! average, and a few rows for each feature are enough for a preconditioner.
//!
//! Reference: Roosta-Khorasani, Mahoney, "Sub-sampled Newton methods", Mathematical Programming 174, 2019; non-uniform
//! sampling after Xu, Yang, Roosta-Khorasani, Ré, Mahoney, "Sub-sampled Newton methods with non-uniform sampling",
//! NIPS 2016.

use super::loss::Loss;
use crate::features::{Tile, Values};
use crate::solver::newton::Point;
use crate::{FoldGram, Result, gram, strips::Pool};
use faer::MatRef;
use kapprox::Real;
use kstore::Workers;
use kstore::key::{Purpose, Stream};
use std::collections::BTreeSet;

/// Rows drawn for every feature, for each class. A whole block from m rows a feature has condition numbers about
/// ((1 + √(1/m))/(1 − √(1/m)))²: 9.
pub(in crate::solver) const ROWS: f64 = 4.0;

const BIN: usize = 512;

/// Bytes of the blocks of all classes at most: beyond, all share one.
const MOST: usize = 256 << 20;

/// Bytes of the blocks of k columns where they are used: p features of n rows. The shape alone decides.
///
/// Drawn blocks cost about p²/n passes; they save some twenty a step.
pub(in crate::solver) fn bytes(n: usize, p: usize, k: usize, element: usize) -> Option<usize> {
    let bytes = k.saturating_mul(8 * p * p + BIN * p * element);
    (bytes <= MOST && p.saturating_mul(p) <= n.saturating_mul(16)).then_some(bytes)
}

/// Weighted second moments of some rows, added up.
pub(in crate::solver) struct Block<T> {
    pub(in crate::solver) moments: FoldGram,
    /// Rows √(weight) φ that wait for their products.
    bin: Vec<T>,
}

impl<T: Real> Block<T> {
    pub(in crate::solver) fn new(p: usize) -> Self {
        Self { moments: FoldGram::new(p, 0), bin: Vec::with_capacity(BIN * p) }
    }

    pub(in crate::solver) fn push(&mut self, phi: &[T], weight: f64, panels: &Pool<Vec<T>>, workers: &Workers) {
        let root = T::from_f64(weight.sqrt());
        self.bin.extend(phi.iter().map(|value| *value * root));
        self.moments.s.iter_mut().zip(phi).for_each(|(s, value)| *s += weight * value.to_f64());
        self.moments.weight += weight;
        if self.bin.len() == BIN * phi.len() {
            self.flush(phi.len(), panels, workers);
        }
    }

    pub(in crate::solver) fn flush(&mut self, p: usize, panels: &Pool<Vec<T>>, workers: &Workers) {
        let rows = self.bin.len() / p;
        if rows > 0 {
            let phi = MatRef::from_row_major_slice(&self.bin, rows, p);
            gram::add_gram(&mut self.moments.g, phi, panels, workers);
            self.bin.clear();
        }
    }
}

impl<T: Real> Loss<'_, '_, T> {
    /// Computes the blocks at the last point, as weighted moments of drawn rows: two passes.
    pub(super) fn drawn(&mut self, point: &Point, round: usize) -> Result<Vec<FoldGram>> {
        let (n, p, k) = (self.n, self.kept.p, self.k);
        let keys = |j: usize| Stream::new(self.kept.seed(), Purpose::Sketch, (round * k + j) as u64);
        let rate = |j: usize| ROWS * p as f64 / (n * point.curvatures[j]).max(f64::MIN_POSITIVE);
        let draws: Vec<(Stream, f64)> = (0..k).map(|j| (keys(j), rate(j))).collect();
        let drawn = self.draw(&draws)?;
        let mut blocks: Vec<Block<T>> = (0..k).map(|_| Block::new(p)).collect();
        let rows: BTreeSet<usize> = drawn.iter().flatten().map(|(row, _)| *row).collect();
        let rows: Vec<usize> = rows.into_iter().collect();
        let (panels, sequential, workers) = (Pool::default(), Workers::sequential(), self.kept.workers());
        let mut waiting: Vec<&[(usize, f64)]> = drawn.iter().map(Vec::as_slice).collect();
        self.kept.pick(&rows, self.observer, |tile: &Tile<'_, T>| {
            let rows = &rows[tile.first..tile.first + tile.rows()];
            workers.each(blocks.iter_mut().zip(&mut waiting).collect(), |(block, waiting)| {
                for (i, row) in rows.iter().enumerate() {
                    if let Some(((_, weight), rest)) = waiting.split_first().filter(|((at, _), _)| at == row) {
                        block.push(tile.row(i), *weight, &panels, &sequential);
                        *waiting = rest;
                    }
                }
            });
            Ok(())
        })?;
        workers.each(blocks.iter_mut().collect(), |block| block.flush(p, &panels, &sequential));
        self.passes += 2;
        Ok(blocks.into_iter().map(|block| block.moments).collect())
    }

    /// Draws rows for the block of every class by its keys, at a rate of rows for each unit of Σ a p(1 − p): their positions, which ascend, and what
    /// each weighs.
    fn draw(&mut self, draws: &[(Stream, f64)]) -> Result<Vec<Vec<(usize, f64)>>> {
        let (kept, labels, observer, k) = (self.kept, self.labels, self.observer, self.k);
        let mut probabilities = self.at_last();
        let workers = kept.workers();
        // three numbers for each: class, position and weight
        let Values(numbers) = kept.fold("drawn rows", observer, &Values::<f64>::default, |drawn, tile| {
            let probabilities = probabilities.of(tile, workers);
            for i in 0..tile.rows() {
                let (row, weight) = (tile.first + i, labels.row(tile.first + i).1);
                for (j, (keys, rate)) in draws.iter().enumerate() {
                    let probability = probabilities[i * k + j].to_f64();
                    let heavy = weight * probability * (1.0 - probability);
                    let rate = (rate * heavy).min(1.0);
                    if rate > 0.0 && keys.uniform(row as u64) < rate {
                        drawn.0.extend([j as f64, row as f64, heavy / rate]);
                    }
                }
            }
            Ok(())
        })?;
        let mut drawn = vec![Vec::new(); k];
        for number in numbers.chunks_exact(3) {
            drawn[number[0] as usize].push((number[1] as usize, number[2]));
        }
        Ok(drawn)
    }
}
