//! The two passes over the features in each step of the solver, for several SVMs at once.

use super::lagrangian::{Problem, RowFn};
use crate::Result;
use crate::features::{RowValues, StopOnlyObserver, StoredFeatures, Sums};
use crate::linalg::strips::{BufferPool, for_each_strip};
use kapprox::{Real, gram::Panels};
use kstore::{Workers, pass::Observer};

/// Rows that one thread checks at a time.
const STRIP_ROWS: usize = 4096;

/// Computes Σ β⁺φ, Σ slope φ and the free rows of every problem: one pass.
pub(super) fn gather_sums<T: Real, R: RowFn>(
    features: &StoredFeatures<'_, T>,
    problems: &mut [&mut Problem<T, R>],
    panels: &BufferPool<Panels<T>>,
    observer: &dyn Observer,
) -> Result<()> {
    let (p, count, workers) = (features.p, problems.len(), features.workers());
    problems.iter_mut().for_each(|problem| problem.newton_equations.clear());
    let (mut columns, mut interleaved) = (Vec::new(), Vec::new());
    // if there are many problems, each thread processes one problem; otherwise all threads share
    // the products of each problem; both ways give bit-identical results
    let (group_workers, sequential) = (workers, Workers::sequential());
    let problem_workers = if count >= workers.threads() { &sequential } else { workers };
    // every process needs the free rows of all processes, not only the free rows of its own tiles
    let tile_panels = (!features.is_shared()).then_some(panels);
    let init = || Sums::new(p * 2 * count);
    let Sums(sums) = features.reduce("sums of the SVMs", observer, &init, |sums, tile| {
        let b = tile.row_count();
        columns.resize(2 * b * count, T::ZERO);
        interleaved.resize(2 * b * count, T::ZERO);
        let parts: Vec<_> = problems.iter_mut().zip(columns.chunks_exact_mut(2 * b)).collect();
        match count >= workers.threads() {
            true => group_workers
                .for_each(parts, |(problem, column)| problem.add_tile(tile, column, tile_panels, problem_workers)),
            false => parts
                .into_iter()
                .for_each(|(problem, column)| problem.add_tile(tile, column, tile_panels, problem_workers)),
        }
        for (a, column) in columns.chunks_exact(2 * b).enumerate() {
            for (i, pair) in column.chunks_exact(2).enumerate() {
                interleaved[(i * count + a) * 2..][..2].copy_from_slice(pair);
            }
        }
        tile.add_transposed_product(&interleaved, &mut sums.0, workers);
        Ok(())
    })?;
    if tile_panels.is_none() {
        gather_equations(features, problems, panels, observer)?;
    }
    for (a, problem) in problems.iter_mut().enumerate() {
        for i in 0..p {
            (problem.sums[0][i], problem.sums[1][i]) = (sums[(i * count + a) * 2], sums[(i * count + a) * 2 + 1]);
        }
    }
    Ok(())
}

/// Builds Newton's equations of every problem from the free rows of all processes.
fn gather_equations<T: Real, R: RowFn>(
    features: &StoredFeatures<'_, T>,
    problems: &mut [&mut Problem<T, R>],
    panels: &BufferPool<Panels<T>>,
    observer: &dyn Observer,
) -> Result<()> {
    let workers = features.workers();
    problems.iter_mut().for_each(|problem| problem.newton_equations.clear());
    let mut is_free = vec![false; features.n];
    for_each_strip(workers, &mut is_free, STRIP_ROWS, |strip, free| {
        for (i, free) in free.iter_mut().enumerate() {
            *free = problems.iter().any(|problem| problem.slope(strip * STRIP_ROWS + i) > 0.0);
        }
    });
    let free_positions: Vec<usize> = (0..features.n).filter(|row| is_free[*row]).collect();
    features.visit_selected(&free_positions, &StopOnlyObserver(observer), |tile| {
        let tile_positions = &free_positions[tile.first_row..tile.first_row + tile.row_count()];
        workers.for_each(problems.iter_mut().collect(), |problem| {
            for (i, row) in tile_positions.iter().enumerate() {
                let slope = problem.slope(*row);
                if slope > 0.0 {
                    problem.newton_equations.push(tile.row(i), slope, panels, &Workers::sequential());
                }
            }
        });
        Ok(())
    })
}

/// Computes Φd of every problem: one pass.
pub(super) fn direction_values<T: Real, R: RowFn>(
    features: &StoredFeatures<'_, T>,
    problems: &mut [&mut Problem<T, R>],
    observer: &dyn Observer,
) -> Result<()> {
    let (p, count, workers) = (features.p, problems.len(), features.workers());
    let mut weights = vec![T::ZERO; p * count];
    for (a, problem) in problems.iter().enumerate() {
        problem.direction.w.iter().enumerate().for_each(|(i, d)| weights[i * count + a] = T::from_f64(*d));
    }
    let RowValues(out) = features.reduce("values of the SVMs", observer, &RowValues::<T>::default, |out, tile| {
        let offset = out.0.len();
        out.0.resize(offset + tile.row_count() * count, T::ZERO);
        tile.multiply(&weights, &mut out.0[offset..], workers);
        Ok(())
    })?;
    for (a, problem) in problems.iter_mut().enumerate() {
        problem.direction_values.iter_mut().zip(out.iter().skip(a).step_by(count)).for_each(|(q, value)| *q = *value);
    }
    Ok(())
}
