//! The two passes over the features in each step of the solver, for several SVMs at once.

use super::lagrangian::{Problem, RowFn};
use crate::Result;
use crate::features::{RowValues, SparseColumn, StopOnlyObserver, StoredFeatures, Sums, panel_columns};
use crate::linalg::strips::{BufferPool, for_each_strip};
use kapprox::{Real, gram::GramBuffers};
use kstore::{Workers, pass::Observer};

/// Number of rows that one thread checks at a time.
const STRIP_ROWS: usize = 4096;

/// Computes Σ β⁺φ, Σ slope φ and Newton's equations of every problem. Makes one pass, and reads the
/// free rows again if several processes share the features.
pub(super) fn gather_sums<T: Real, R: RowFn>(
    features: &StoredFeatures<'_, T>,
    problems: &mut [&mut Problem<T, R>],
    panels: &BufferPool<GramBuffers<T>>,
    observer: &dyn Observer,
) -> Result<()> {
    let (p, count, workers) = (features.p, problems.len(), features.workers());
    problems.iter_mut().for_each(|problem| problem.newton_equations.clear());
    let mut columns: Vec<SparseColumn<T>> = vec![Vec::new(); 2 * count];
    // if there are many problems, each thread processes one problem at a time; otherwise all
    // threads share the products of each problem. Both ways give bit-identical results
    let (group_workers, sequential) = (workers, Workers::sequential());
    let problem_workers = if count >= workers.threads() { &sequential } else { workers };
    // if several processes share the features, each needs the free rows of all of them, not only
    // those of its own tiles
    let tile_panels = (!features.is_shared()).then_some(panels);
    let init = || Sums::new(p * 2 * count);
    let Sums(sums) = features.reduce("sums of the SVMs", observer, &init, |sums, tile| {
        let problems_with_columns: Vec<_> = problems.iter_mut().zip(columns.as_chunks_mut().0).collect();
        match count >= workers.threads() {
            true => group_workers.for_each(problems_with_columns, |(problem, pair)| {
                problem.add_tile(tile, pair, tile_panels, problem_workers)
            }),
            false => problems_with_columns
                .into_iter()
                .for_each(|(problem, pair)| problem.add_tile(tile, pair, tile_panels, problem_workers)),
        }
        tile.add_sparse(&columns, &mut sums.0, workers);
        Ok(())
    })?;
    if tile_panels.is_none() {
        gather_equations(features, problems, panels, observer)?;
    }
    panel_columns(&sums, p, problems.iter_mut().flat_map(|problem| &mut problem.sums).map(Vec::as_mut_slice));
    Ok(())
}

/// Builds Newton's equations of every problem from the free rows of all processes.
fn gather_equations<T: Real, R: RowFn>(
    features: &StoredFeatures<'_, T>,
    problems: &mut [&mut Problem<T, R>],
    panels: &BufferPool<GramBuffers<T>>,
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

/// Computes Φd for every problem, where d is its direction: one pass.
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
    // if several processes share the features, the values of other processes arrive with the state
    // of the pass
    let (is_shared, mut values) = (features.is_shared(), Vec::new());
    let RowValues(all_values) =
        features.reduce("values of the SVMs", observer, &RowValues::<T>::default, |all, tile| {
            values.resize(tile.row_count() * count, T::ZERO);
            tile.multiply(&weights, &mut values, workers);
            match is_shared {
                true => all.0.extend_from_slice(&values),
                false => set_values(problems, tile.first_row, &values),
            }
            Ok(())
        })?;
    if is_shared {
        set_values(problems, 0, &all_values);
    }
    Ok(())
}

/// Sets the direction values of consecutive rows, from row `first_row` on. `values` contains one
/// number per problem for each row.
fn set_values<T: Real, R>(problems: &mut [&mut Problem<T, R>], first_row: usize, values: &[T]) {
    let count = problems.len();
    for (a, problem) in problems.iter_mut().enumerate() {
        let row_values = values.iter().skip(a).step_by(count);
        problem.direction_values[first_row..].iter_mut().zip(row_values).for_each(|(q, value)| *q = *value);
    }
}
