//! The two passes over the features in each step of the solver, for several SVMs at once.

use super::lagrangian::{Problem, RowFn};
use crate::Result;
use crate::features::{RowValues, SparseColumn, StopOnlyObserver, StoredFeatures, Sums, panel_columns};
use crate::linalg::strips::{BufferPool, for_each_strip};
use kapprox::{Real, gram::GramBuffers};
use kstore::{Workers, pass::Observer};

/// Number of rows that one thread checks at a time.
const STRIP_ROWS: usize = 4096;

/// Computes Σ β⁺φ of every problem: one pass. If a second visit to the free rows would be
/// expensive, the pass also adds them to Newton's equations.
pub(super) fn gather_sums<T: Real, R: RowFn>(
    features: &StoredFeatures<'_, T>,
    problems: &mut [&mut Problem<T, R>],
    panels: &BufferPool<GramBuffers<T>>,
    observer: &dyn Observer,
) -> Result<()> {
    let (p, count, workers) = (features.p, problems.len(), features.workers());
    let gathers_equations = !features.is_second_visit_cheap();
    workers.for_each(problems.iter_mut().collect(), |problem| problem.start_equations());
    let mut columns: Vec<SparseColumn<T>> = vec![Vec::new(); count];
    let init = || Sums::new(p * count);
    let Sums(sums) = features.reduce("sums of the SVMs", observer, &init, |sums, tile| {
        workers.for_each(problems.iter().zip(&mut columns).collect(), |(problem, column)| {
            problem.add_multipliers(tile, column);
        });
        tile.add_sparse(&columns, &mut sums.0, workers);
        if gathers_equations {
            for_each_problem(problems, workers, |problem, workers| {
                let rows = (0..tile.row_count()).map(|i| (tile.first_row + i, tile.row(i)));
                problem.add_free_rows(rows, problem.draws(features.seed()), panels, workers);
            });
        }
        Ok(())
    })?;
    panel_columns(&sums, p, problems.iter_mut().map(|problem| &mut problem.beta_sum[..]));
    Ok(())
}

/// Calls `add` for every problem. If there are many problems, each thread processes one problem;
/// otherwise all threads share the products of each problem. Both ways give bit-identical results.
fn for_each_problem<T: Real, R: RowFn>(
    problems: &mut [&mut Problem<T, R>],
    workers: &Workers,
    add: impl Fn(&mut Problem<T, R>, &Workers) + Sync,
) {
    match problems.len() >= workers.threads() {
        true => workers.for_each(problems.iter_mut().collect(), |problem| add(problem, &Workers::sequential())),
        false => problems.iter_mut().for_each(|problem| add(problem, workers)),
    }
}

/// Adds the free rows of all processes to Newton's equations of every problem, unless
/// [`gather_sums`] added them.
pub(super) fn gather_equations<T: Real, R: RowFn>(
    features: &StoredFeatures<'_, T>,
    problems: &mut [&mut Problem<T, R>],
    panels: &BufferPool<GramBuffers<T>>,
    observer: &dyn Observer,
) -> Result<()> {
    let workers = features.workers();
    if !features.is_second_visit_cheap() {
        return Ok(());
    }
    if features.is_in_memory() {
        for_each_problem(problems, workers, |problem, workers| {
            let rows = (0..features.n).filter_map(|i| Some((i, features.row(i)?)));
            problem.add_free_rows(rows, problem.draws(features.seed()), panels, workers);
        });
        return Ok(());
    }
    let mut is_drawn = vec![false; features.n];
    for_each_strip(workers, &mut is_drawn, STRIP_ROWS, |strip, drawn| {
        for (i, drawn) in drawn.iter_mut().enumerate() {
            let row = strip * STRIP_ROWS + i;
            *drawn = problems.iter().any(|problem| problem.drawn_slope(row, problem.draws(features.seed())) > 0.0);
        }
    });
    let drawn_positions: Vec<usize> = (0..features.n).filter(|row| is_drawn[*row]).collect();
    features.visit_selected(&drawn_positions, &StopOnlyObserver(observer), |tile| {
        let tile_positions = &drawn_positions[tile.first_row..tile.first_row + tile.row_count()];
        for_each_problem(problems, workers, |problem, workers| {
            let rows = tile_positions.iter().enumerate().map(|(i, row)| (*row, tile.row(i)));
            problem.add_free_rows(rows, problem.draws(features.seed()), panels, workers);
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
    let (is_shared, mut values) = (features.shares_passes(), Vec::new());
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
