//! Coordinates from a few columns of a positive semi-definite matrix: pivoted Cholesky.

use super::matrix::SquareMatrix;
use super::{CoordinateModel, CoordinateOptions, MatrixKind};
use crate::linalg::cholesky::factor_parallel;
use crate::model::{Basis, BasisTransform, FEATURES_SOLVER};
use crate::{Certificate, Intercept, Model, ModelMetadata, Result, Task};
use faer::{Mat, linalg::triangular_solve::solve_lower_triangular_in_place};
use kapprox::matrix::{FnEntries, PartialCholesky, PsdMatrix, SquaredDistances, rpcholesky};
use kstore::{MemoryPlan, Scaler, SelectedTable, Workers};

/// Returns coordinates from the columns of random pivots, or `None` if the matrix of inner products
/// is not positive semi-definite. `plan` is the memory plan of the matrix and the factor.
pub(super) fn fit(
    selected: &SelectedTable,
    matrix: &SquareMatrix,
    options: &CoordinateOptions,
    plan: MemoryPlan,
    workers: &Workers,
) -> Result<Option<CoordinateModel>> {
    let entries = FnEntries { n: matrix.order as u64, entry: |i: u64, j: u64| matrix.value(i as usize, j as usize) };
    let factor = |entries: &dyn PsdMatrix| factor_and_check(entries, options, plan, workers);
    let (cholesky, means, first_distances) = match matrix.kind {
        MatrixKind::Kernel => match factor(&entries)? {
            Some(cholesky) => (cholesky, None, Vec::new()),
            None => return Ok(None),
        },
        _ => {
            let distances = SquaredDistances::new(entries)?;
            let Some(cholesky) = factor(&distances)? else { return Ok(None) };
            let (cholesky, means) = cholesky.centred();
            (cholesky, Some(means), distances.origin_distances().to_vec())
        }
    };
    if cholesky.pivots.is_empty() {
        return Err(super::no_coordinates_error(matrix));
    }
    Ok(Some(CoordinateModel {
        model: build_model(selected, options, &cholesky, means.as_deref(), &first_distances),
        trace_error: cholesky.trace_error,
        pivots: cholesky.pivots,
        spectrum: None,
    }))
}

/// Returns the factor of a matrix after a check of all its entries, or `None` if the matrix is not
/// positive semi-definite.
fn factor_and_check(
    entries: &dyn PsdMatrix,
    &CoordinateOptions { rank, tolerance, seed, .. }: &CoordinateOptions,
    plan: MemoryPlan,
    workers: &Workers,
) -> Result<Option<PartialCholesky>> {
    let checked = rpcholesky(entries, rank, tolerance, seed, workers)
        .and_then(|cholesky| cholesky.check(entries, tolerance, workers).map(|()| cholesky));
    let cholesky = match checked {
        Err(kapprox::Error::Indefinite { .. }) => return Ok(None),
        other => other?,
    };
    // the residuals of a complete factorisation are rounding errors, so their check is conclusive
    if cholesky.trace_error <= tolerance || cholesky.pivots.len() < rank {
        return Ok(Some(cholesky));
    }
    let n = cholesky.residuals.len();
    plan.term("check of all inner products", 8 * n * n, "use fewer objects").check()?;
    let mut diagonal = vec![0.0; n];
    entries.diagonal(&mut diagonal)?;
    let mut shifted = Mat::zeros(n, n);
    let columns: Vec<u64> = (0..n as u64).collect();
    entries.block(0..n as u64, &columns, shifted.as_mut())?;
    let slack = tolerance.max(entries.rounding() * n as f64) * diagonal.iter().copied().fold(0.0, f64::max);
    (0..n).for_each(|i| shifted[(i, i)] += slack);
    let is_positive = factor_parallel(shifted.as_mut(), workers);
    workers.check()?;
    Ok(is_positive.then_some(cholesky))
}

/// Returns a model that computes the coordinates of an object from its row of the matrix. Its
/// kernel sections are at unit vectors: they select the columns of the pivots and, for distances,
/// also the column of the first object.
fn build_model(
    selected: &SelectedTable,
    &CoordinateOptions { kind, tolerance, seed, .. }: &CoordinateOptions,
    cholesky: &PartialCholesky,
    means: Option<&[f64]>,
    squared_origin_distances: &[f64],
) -> Model<f64> {
    let (n, r) = (selected.shape().input_count, cholesky.pivots.len());
    let mut inverse_factor = Mat::<f64>::identity(r, r);
    // if the coordinates are centred, the rows of L are the coordinates of the pivots plus the
    // means
    let lower = match means {
        Some(means) => Mat::from_fn(r, r, |i, j| cholesky.factor[(cholesky.pivots[i] as usize, j)] + means[j]),
        None => cholesky.lower(),
    };
    solve_lower_triangular_in_place(lower.as_ref(), inverse_factor.as_mut(), faer::Par::Seq);
    let row_sums: Vec<f64> = (0..r).map(|k| inverse_factor.row(k).iter().sum()).collect();
    let (m, coefficients, intercept) = match means {
        None => (r, inverse_factor.transpose().to_owned(), vec![0.0; r]),
        Some(means) => {
            // for pivots p_l, the first object o and W = L⁻¹, coordinate k of object x is ½ Σ_l
            // W_kl (d²(x, o) + d²(o, p_l) − d²(x, p_l)) − mean_k
            let coefficients =
                Mat::from_fn(r + 1, r, |l, k| 0.5 * if l < r { -inverse_factor[(k, l)] } else { row_sums[k] });
            let pivot_sum = |k: usize| {
                (0..r)
                    .map(|l| inverse_factor[(k, l)] * squared_origin_distances[cholesky.pivots[l] as usize])
                    .sum::<f64>()
            };
            (r + 1, coefficients, (0..r).map(|k| 0.5 * pivot_sum(k) - means[k]).collect())
        }
    };
    let mut points = vec![0.0; m * n];
    let section_columns = cholesky.pivots.iter().map(|pivot| *pivot as usize).chain(means.is_some().then_some(0));
    section_columns.enumerate().for_each(|(l, column)| points[l * n + column] = 1.0);
    let row_numbers = cholesky.pivots.iter().copied().chain(means.is_some().then_some(0)).collect();
    let needs_squaring = kind == MatrixKind::Distances;
    let certificate = Certificate {
        trace_error: cholesky.trace_error,
        overshoot: 0.0,
        floor: f64::EPSILON * ((r + 1) as f64).sqrt(),
    };
    let metadata = ModelMetadata {
        task: Task::Components,
        solver: FEATURES_SOLVER.to_string(),
        kernel: if needs_squaring { "polynomial(degree=2, gamma=1, c0=0)" } else { "linear()" }.to_string(),
        precision: "f64".to_string(),
        map: "nystrom".to_string(),
        rank: r,
        intercept: Intercept::None,
        features: selected.feature_names(),
        certificate: Some(certificate),
        rows: n as u64,
        seed,
        landmarks: Some("rpcholesky".to_string()),
        options: serde_json::json!({ "matrix": kind.to_string(), "tolerance": tolerance }),
        ..ModelMetadata::default()
    };
    Model {
        metadata,
        basis: Basis::Landmarks { points, row_numbers },
        transform: BasisTransform::default(),
        coefficients,
        intercept,
        scaler: Scaler { centre: vec![0.0; n], scale: vec![1.0; n], mean: vec![0.0; n], ..Scaler::default() },
        metric: None,
        quadratic: None,
        components: None,
        leaves: None,
        intervals: None,
    }
}
