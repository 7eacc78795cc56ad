//! Coordinates from the eigenvectors of a matrix of inner products, which may be indefinite.

use super::matrix::SquareMatrix;
use super::{CoordinateModel, CoordinateOptions, MatrixKind};
use crate::model::{Basis, BasisTransform, FEATURES_SOLVER};
use crate::{Intercept, Model, ModelMetadata, Result, Task};
use faer::Mat;
use kapprox::matrix::PositivePart;
use kstore::{MemoryPlan, Scaler, SelectedTable, Workers};

/// Returns coordinates from the leading positive eigenvalues.
///
/// With squared distances Δ (m x m), their column means δ̄, and eigenvalues λ_k and eigenvectors
/// v_k of −½HΔH, coordinate k of an object with squared distances δ to the m objects is
/// −½ λ_k^(−½) v_kᵀ(δ − δ̄). With kernel values K and k instead, it is λ_k^(−½) v_kᵀk for the
/// eigenvectors of K. `plan` is the memory plan of the matrix.
pub(super) fn fit(
    selected: &SelectedTable,
    matrix: SquareMatrix,
    options: &CoordinateOptions,
    plan: MemoryPlan,
    workers: &Workers,
) -> Result<CoordinateModel> {
    let CoordinateOptions { kind, rank, tolerance, .. } = *options;
    let m = matrix.order;
    let decomposition_bytes = PositivePart::bytes(m).saturating_sub(8 * m * m);
    let remedy = "compute distances to fewer objects, and use them as `landmarks`";
    plan.term("eigenvectors", decomposition_bytes, remedy).check()?;
    let mean = |value: &dyn Fn(usize) -> f64| (0..m).map(value).sum::<f64>() / m as f64;
    let column_means: Vec<f64> = (0..m).map(|j| mean(&|i| matrix.entry(i, j))).collect();
    let value_means: Vec<f64> = (0..m).map(|j| mean(&|i| matrix.value(i, j))).collect();
    let factor = if kind == MatrixKind::Kernel { 1.0 } else { -0.5 };
    // the mean of both triangles, because the entries may differ by rounding
    let products = Mat::from_fn(m, m, |i, j| 0.5 * factor * (matrix.value(i, j) + matrix.value(j, i)));
    let is_zero = matrix.is_zero();
    let no_coordinates = super::no_coordinates_error(&matrix);
    drop(matrix);
    let part = workers.run_detached(move || match kind {
        MatrixKind::Kernel => PositivePart::new(products, rank, tolerance),
        _ => PositivePart::of_centred(products, rank, tolerance),
    })??;
    if is_zero || part.eigenvalues.is_empty() {
        return Err(no_coordinates);
    }
    let coefficients = Mat::from_fn(m, part.eigenvalues.len(), |l, k| factor * part.weights[(l, k)]);
    let shift = |k: usize| (0..m).map(|l| coefficients[(l, k)] * value_means[l]).sum::<f64>();
    let intercept = match kind {
        MatrixKind::Kernel => vec![0.0; part.eigenvalues.len()],
        _ => (0..part.eigenvalues.len()).map(|k| -shift(k)).collect(),
    };
    Ok(CoordinateModel {
        model: build_model(selected, options, coefficients, intercept, column_means),
        pivots: Vec::new(),
        trace_error: part.trace_error(),
        spectrum: Some(part.spectrum),
    })
}

/// `column_means` are the means of the entries, which replace missing values.
fn build_model(
    selected: &SelectedTable,
    &CoordinateOptions { kind, tolerance, .. }: &CoordinateOptions,
    coefficients: Mat<f64>,
    intercept: Vec<f64>,
    column_means: Vec<f64>,
) -> Model<f64> {
    let (m, rank) = coefficients.shape();
    let metadata = ModelMetadata {
        task: Task::Components,
        solver: FEATURES_SOLVER.to_string(),
        kernel: "linear()".to_string(),
        precision: "f64".to_string(),
        map: "classical scaling".to_string(),
        rank,
        intercept: Intercept::None,
        features: selected.feature_names(),
        rows: m as u64,
        options: serde_json::json!({ "matrix": kind.to_string(), "tolerance": tolerance }),
        ..ModelMetadata::default()
    };
    Model {
        metadata,
        basis: Basis::Landmarks { points: Vec::new(), row_numbers: Vec::new() },
        transform: BasisTransform::MatrixColumns(kind),
        coefficients,
        intercept,
        scaler: Scaler { centre: vec![0.0; m], scale: vec![1.0; m], mean: column_means, ..Scaler::default() },
        metric: None,
        quadratic: None,
        components: None,
        leaves: None,
        intervals: None,
    }
}
