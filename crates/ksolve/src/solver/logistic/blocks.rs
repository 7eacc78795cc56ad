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
use crate::features::{StoredFeatures, Tile, Values};
use crate::solver::newton::Point;
use crate::{FoldGram, Result, gram, strips::Pool};
use faer::MatRef;
use kapprox::Real;
use kstore::Workers;
use kstore::key::{Purpose, Stream};
use kstore::pass::Observer;
use std::collections::BTreeSet;

/// Rows drawn for every feature, for each class. A whole block from m rows a feature has condition numbers about
/// ((1 + √(1/m))/(1 − √(1/m)))²: 9.
const ROWS: f64 = 4.0;

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

struct Block<T> {
    moments: FoldGram,
    /// Rows √(weight) φ that wait for their products.
    bin: Vec<T>,
}

impl<T: Real> Block<T> {
    fn push(&mut self, phi: &[T], weight: f64, panels: &Pool<Vec<T>>, workers: &Workers) {
        let root = T::from_f64(weight.sqrt());
        self.bin.extend(phi.iter().map(|value| *value * root));
        self.moments.s.iter_mut().zip(phi).for_each(|(s, value)| *s += weight * value.to_f64());
        self.moments.weight += weight;
        if self.bin.len() == BIN * phi.len() {
            self.flush(phi.len(), panels, workers);
        }
    }

    fn flush(&mut self, p: usize, panels: &Pool<Vec<T>>, workers: &Workers) {
        let rows = self.bin.len() / p;
        if rows > 0 {
            let phi = MatRef::from_row_major_slice(&self.bin, rows, p);
            gram::add_gram(&mut self.moments.g, phi, panels, workers);
            self.bin.clear();
        }
    }
}

/// Rows to draw on average where the weights of all rows sum to `total`, divided by that sum.
pub(in crate::solver) fn rate(p: usize, total: f64) -> f64 {
    ROWS * p as f64 / total.max(f64::MIN_POSITIVE)
}

/// Weighted second moments of the rows of each list: their positions, which ascend, and what each weighs. One pass over these rows.
pub(in crate::solver) fn moments_of<T: Real>(
    kept: &StoredFeatures<'_, T>,
    drawn: &[Vec<(usize, f64)>],
    observer: &dyn Observer,
) -> Result<Vec<FoldGram>> {
    let p = kept.p;
    let block = || Block { moments: FoldGram::new(p, 0), bin: Vec::with_capacity(BIN * p) };
    let mut blocks: Vec<Block<T>> = drawn.iter().map(|_| block()).collect();
    let rows: BTreeSet<usize> = drawn.iter().flatten().map(|(row, _)| *row).collect();
    let rows: Vec<usize> = rows.into_iter().collect();
    let (panels, sequential, workers) = (Pool::default(), Workers::sequential(), kept.workers());
    let mut waiting: Vec<&[(usize, f64)]> = drawn.iter().map(Vec::as_slice).collect();
    kept.pick(&rows, observer, |tile: &Tile<'_, T>| {
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
    Ok(blocks.into_iter().map(|block| block.moments).collect())
}

impl<T: Real> Loss<'_, '_, T> {
    /// Computes the blocks at the last point, as weighted moments of drawn rows: two passes.
    pub(super) fn drawn(&mut self, point: &Point, round: usize) -> Result<Vec<FoldGram>> {
        let drawn = self.draw(point, round)?;
        self.passes += 2;
        moments_of(self.kept, &drawn, self.observer)
    }

    /// Draws rows for the block of every class: their positions, which ascend, and what each weighs.
    fn draw(&mut self, point: &Point, round: usize) -> Result<Vec<Vec<(usize, f64)>>> {
        let (kept, labels, observer, k) = (self.kept, self.labels, self.observer, self.k);
        let stream = |j: usize| Stream::new(kept.seed(), Purpose::Sketch, (round * k + j) as u64);
        let draws = |j: usize| (stream(j), rate(kept.p, self.n * point.curvatures[j]));
        let draws: Vec<(Stream, f64)> = (0..k).map(draws).collect();
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
