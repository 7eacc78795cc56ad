//! The two passes over the features in each step of the solver, for several SVMs at once.

use super::lagrangian::{Problem, Rows};
use crate::Result;
use crate::features::{Quiet, StoredFeatures, Sums, Values};
use crate::linalg::strips::{Pool, for_each_strip};
use kapprox::{Real, gram::Panels};
use kstore::{Workers, pass::Observer};

/// Rows that one thread checks at a time.
const STRIP: usize = 4096;

/// Computes Σ β⁺φ, Σ slope φ and the free rows of every problem: one pass.
pub(super) fn gather<T: Real, R: Rows>(
    kept: &StoredFeatures<'_, T>,
    open: &mut [&mut Problem<T, R>],
    panels: &Pool<Panels<T>>,
    observer: &dyn Observer,
) -> Result<()> {
    let (p, count, workers) = (kept.p, open.len(), kept.workers());
    open.iter_mut().for_each(|problem| problem.newton.clear());
    let (mut columns, mut right) = (Vec::new(), Vec::new());
    // with many problems each thread processes one, else all threads share the products of each
    // problem; the results are bit-identical
    let (outer, sequential) = (workers, Workers::sequential());
    let inner = if count >= workers.threads() { &sequential } else { workers };
    // every process needs the free rows of all processes, not only those of its own tiles
    let own = (!kept.is_shared()).then_some(panels);
    let init = || Sums::new(p * 2 * count);
    let Sums(sums) = kept.fold("sums of the SVMs", observer, &init, |sums, tile| {
        let b = tile.rows();
        columns.resize(2 * b * count, T::ZERO);
        right.resize(2 * b * count, T::ZERO);
        let parts: Vec<_> = open.iter_mut().zip(columns.chunks_exact_mut(2 * b)).collect();
        match count >= workers.threads() {
            true => outer.each(parts, |(problem, column)| problem.take(tile, column, own, inner)),
            false => parts.into_iter().for_each(|(problem, column)| problem.take(tile, column, own, inner)),
        }
        for (a, column) in columns.chunks_exact(2 * b).enumerate() {
            for (i, pair) in column.chunks_exact(2).enumerate() {
                right[(i * count + a) * 2..][..2].copy_from_slice(pair);
            }
        }
        tile.add_transposed(&right, &mut sums.0, workers);
        Ok(())
    })?;
    if own.is_none() {
        equations(kept, open, panels, observer)?;
    }
    for (a, problem) in open.iter_mut().enumerate() {
        for i in 0..p {
            (problem.sums[0][i], problem.sums[1][i]) = (sums[(i * count + a) * 2], sums[(i * count + a) * 2 + 1]);
        }
    }
    Ok(())
}

/// Builds Newton's equations of every problem from the free rows of all processes.
fn equations<T: Real, R: Rows>(
    kept: &StoredFeatures<'_, T>,
    open: &mut [&mut Problem<T, R>],
    panels: &Pool<Panels<T>>,
    observer: &dyn Observer,
) -> Result<()> {
    let workers = kept.workers();
    open.iter_mut().for_each(|problem| problem.newton.clear());
    let mut free = vec![false; kept.n];
    for_each_strip(workers, &mut free, STRIP, |strip, free| {
        for (i, free) in free.iter_mut().enumerate() {
            *free = open.iter().any(|problem| problem.slope(strip * STRIP + i) > 0.0);
        }
    });
    let free: Vec<usize> = (0..kept.n).filter(|row| free[*row]).collect();
    kept.pick(&free, &Quiet(observer), |tile| {
        let rows = &free[tile.first..tile.first + tile.rows()];
        workers.each(open.iter_mut().collect(), |problem| {
            for (i, row) in rows.iter().enumerate() {
                let slope = problem.slope(*row);
                if slope > 0.0 {
                    problem.newton.push(tile.row(i), slope, panels, &Workers::sequential());
                }
            }
        });
        Ok(())
    })
}

/// Computes Φd of every problem: one pass.
pub(super) fn values<T: Real, R: Rows>(
    kept: &StoredFeatures<'_, T>,
    open: &mut [&mut Problem<T, R>],
    observer: &dyn Observer,
) -> Result<()> {
    let (p, count, workers) = (kept.p, open.len(), kept.workers());
    let mut weights = vec![T::ZERO; p * count];
    for (a, problem) in open.iter().enumerate() {
        problem.direction.0.iter().enumerate().for_each(|(i, d)| weights[i * count + a] = T::from_f64(*d));
    }
    let Values(out) = kept.fold("values of the SVMs", observer, &Values::<T>::default, |out, tile| {
        let before = out.0.len();
        out.0.resize(before + tile.rows() * count, T::ZERO);
        tile.times(&weights, &mut out.0[before..], workers);
        Ok(())
    })?;
    for (a, problem) in open.iter_mut().enumerate() {
        problem.q.iter_mut().zip(out.iter().skip(a).step_by(count)).for_each(|(q, value)| *q = *value);
    }
    Ok(())
}
