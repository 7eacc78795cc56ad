//! The two passes over the features that a step of the solver is made of, for several machines at once.

use super::lagrangian::{Problem, Rows};
use crate::Result;
use crate::solver::kept::Kept;
use crate::strips::Pool;
use kapprox::Real;
use kstore::Workers;
use kstore::pass::Observer;

/// Computes Σ β⁺φ, Σ slope φ and the free rows of every problem: one pass.
pub(super) fn gather<T: Real, R: Rows + Send>(
    kept: &Kept<'_, T>,
    open: &mut [&mut Problem<T, R>],
    panels: &Pool<Vec<T>>,
    observer: &dyn Observer,
) -> Result<()> {
    let (p, count, workers) = (kept.p, open.len(), kept.workers());
    open.iter_mut().for_each(|problem| problem.newton.clear());
    let mut sums = vec![0.0; p * 2 * count];
    let (mut columns, mut right) = (Vec::new(), Vec::new());
    // with several problems a thread takes one, with one all threads share its products: the bits are the same
    let (outer, sequential) = (workers, Workers::sequential());
    let inner = if count >= workers.threads() { &sequential } else { workers };
    kept.visit(observer, |tile| {
        let b = tile.rows();
        columns.resize(2 * b * count, T::ZERO);
        right.resize(2 * b * count, T::ZERO);
        let parts: Vec<_> = open.iter_mut().zip(columns.chunks_exact_mut(2 * b)).collect();
        match count >= workers.threads() {
            true => outer.each(parts, |(problem, column)| problem.take(tile, column, panels, inner)),
            false => parts.into_iter().for_each(|(problem, column)| problem.take(tile, column, panels, inner)),
        }
        for (a, column) in columns.chunks_exact(2 * b).enumerate() {
            for (i, pair) in column.chunks_exact(2).enumerate() {
                right[(i * count + a) * 2..][..2].copy_from_slice(pair);
            }
        }
        tile.add_transposed(&right, &mut sums, workers);
        Ok(())
    })?;
    for (a, problem) in open.iter_mut().enumerate() {
        for i in 0..p {
            (problem.sums[0][i], problem.sums[1][i]) = (sums[(i * count + a) * 2], sums[(i * count + a) * 2 + 1]);
        }
    }
    Ok(())
}

/// Computes Φd of every problem: one pass.
pub(super) fn values<T: Real, R: Rows + Send>(
    kept: &Kept<'_, T>,
    open: &mut [&mut Problem<T, R>],
    observer: &dyn Observer,
) -> Result<()> {
    let (p, count, workers) = (kept.p, open.len(), kept.workers());
    let mut weights = vec![T::ZERO; p * count];
    for (a, problem) in open.iter().enumerate() {
        problem.direction.0.iter().enumerate().for_each(|(i, d)| weights[i * count + a] = T::from_f64(*d));
    }
    let mut out = Vec::new();
    kept.visit(observer, |tile| {
        let b = tile.rows();
        out.resize(b * count, T::ZERO);
        tile.times(&weights, &mut out, workers);
        for (a, problem) in open.iter_mut().enumerate() {
            let q = &mut problem.q[tile.first..tile.first + b];
            q.iter_mut().zip(out.iter().skip(a).step_by(count)).for_each(|(q, value)| *q = *value);
        }
        Ok(())
    })
}
