//! Coordinates of objects that are described only by their pairwise kernel values or distances.
//!
//! Row i of the table holds the kernel values, or distances, of object i to all objects. Randomly
//! pivoted Cholesky ([`kapprox::matrix`]) selects r columns (the pivots), from which it computes
//! coordinates F (n x r) with FFᵀ close to the n x n kernel matrix K. If the table holds distances,
//! K = −½HD²H, where D² are the squared distances and H = I − 11ᵀ/n. Any solver with a linear
//! kernel can then learn from the columns of F. It learns with the kernel matrix FFᵀ, which differs
//! from K by the trace error.
//!
//! The coordinates are a function of the row: F_i = L⁻¹k, where k are the r kernel values of object
//! i with the pivots and L (r x r) is the Cholesky factor of the kernel matrix of the pivots. A
//! model therefore computes the coordinates of a new object from its kernel values or distances to
//! the same objects.
//!
//! *Passes*: one. *Flops*: nr² for F, and 4n²r to check every entry of FFᵀ and to compute the
//! model. *Bytes*: 8n² + 24nr.
//!
//! References: Torgerson, "Multidimensional scaling", Psychometrika 17, 1952; Gower, "Some distance
//! properties of latent root and vector methods", Biometrika 53, 1966; and the references of
//! [`kapprox::matrix`].

use crate::model::{Basis, BasisTransform, FEATURES_SOLVER};
use crate::request::StageObserver;
use crate::{Certificate, Error, Intercept, Model, ModelMetadata, Result, Task, job::Run};
use faer::{Mat, linalg::triangular_solve::solve_lower_triangular_in_place};
use kapprox::matrix::{FnEntries, PartialCholesky, PsdMatrix, SquaredDistances, rpcholesky};
use kstore::{MemoryPlan, ReadSettings, RowBuf, RowSource, Scaler, SelectedTable, TableRows};

/// The meaning of the matrix entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatrixKind {
    /// Kernel values.
    Kernel,
    /// Distances.
    #[default]
    Distances,
    /// Squared distances.
    SquaredDistances,
}

kmodel::enum_of_words!(MatrixKind, "of", "kernel" => Kernel, "distances" => Distances, "squared-distances" => SquaredDistances);

/// Options of [`coordinates`].
#[derive(Clone, Copy, Debug)]
pub struct CoordinateOptions {
    /// Meaning of the matrix entries.
    pub kind: MatrixKind,
    /// Maximum number of coordinates, r.
    pub rank: usize,
    /// Relative trace error at which the factorisation stops before `rank`.
    pub tolerance: f64,
    /// Seed of the random pivots.
    pub seed: u64,
}

/// A model that computes coordinates, and its trace error.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CoordinateModel {
    /// Model whose outputs are the coordinates of a row.
    pub model: Model<f64>,
    /// Indices of the pivot objects, in the order of selection.
    pub pivots: Vec<u64>,
    /// Trace of the residual K − FFᵀ, relative to the trace of the kernel matrix K; for distances,
    /// an upper bound of this ratio.
    pub trace_error: f64,
}

/// Computes coordinates of the rows of a square matrix, whose columns are the features of
/// `selected` in the order of its rows.
///
/// ```
/// use ksolve::coordinates::{CoordinateOptions, MatrixKind, coordinates};
/// // four points on a line, by their distances
/// let xs = [0.0, 1.0, 3.0, 7.0f64];
/// let d: Vec<f64> = xs.iter().flat_map(|a| xs.iter().map(move |b| (a - b).abs())).collect();
/// let table = kstore::Table::from_rows(&d, 4, &[0.0; 4])?;
/// let selection = kstore::Selection { features: vec!["x*".into()], ..Default::default() };
/// let selected = table.select(&selection)?;
/// let kind = MatrixKind::Distances;
/// let options = CoordinateOptions { kind, rank: 3, tolerance: 1e-9, seed: 0 };
/// let fitted = coordinates(&selected, &options, &ksolve::job::Run::new())?;
/// assert!(fitted.pivots.len() == 1 && fitted.trace_error < 1e-9);
/// # Ok::<(), ksolve::Error>(())
/// ```
///
/// # Errors
/// A matrix that is not square or not symmetric; a plan that exceeds the memory; invalid rows.
/// [`kapprox::Error::Indefinite`] if no vectors have these kernel values or distances.
pub fn coordinates(selected: &SelectedTable, options: &CoordinateOptions, run: &Run<'_>) -> Result<CoordinateModel> {
    let CoordinateOptions { kind, rank, tolerance, seed } = *options;
    let n = selected.shape().input_count;
    let workers = run.workers();
    let max_rank = rank.min(n);
    let matrix_bytes = 8 * n * n;
    let coordinate_bytes = 8 * max_rank * (2 * n + max_rank) + 8 * (max_rank + 1) * n;
    let plan = MemoryPlan::for_process("the coordinates", run.memory_budget(), workers.threads(), 0);
    let source = selected.rows::<f64>(ReadSettings::default())?;
    let reading_bytes = RowSource::<f64>::footprint(&source).bytes_for(READ_TILE_ROWS);
    let plan = plan.term("the matrix", matrix_bytes, "use fewer objects").term("rows that are read", reading_bytes, "");
    plan.term("coordinates", coordinate_bytes, "lower `rank`").check()?;
    let stage_recorder = run.stage_recorder();
    let matrix = load_matrix(&source, selected, kind, &stage_recorder)?;
    let entry = |i: u64, j: u64| {
        let value = matrix[i as usize * n + j as usize];
        if kind == MatrixKind::Distances { value * value } else { value }
    };
    let entries = FnEntries { n: n as u64, entry };
    let _stage = stage_recorder.start_stage("pivots", None);
    // the matrix is in memory, so every entry is checked
    let factor_and_check = |entries: &dyn PsdMatrix| {
        let cholesky = rpcholesky(entries, rank, tolerance, seed, workers)?;
        cholesky.check(entries, tolerance, workers).map(|()| cholesky)
    };
    let (cholesky, means, first_distances) = match kind {
        MatrixKind::Kernel => {
            (factor_and_check(&entries).map_err(|error| indefinite_error(error, kind))?, None, Vec::new())
        }
        _ => {
            let distances = SquaredDistances::new(entries)?;
            let (cholesky, means) =
                factor_and_check(&distances).map_err(|error| indefinite_error(error, kind))?.centred();
            (cholesky, Some(means), distances.origin_distances().to_vec())
        }
    };
    if cholesky.pivots.is_empty() {
        let why = match kind {
            MatrixKind::Kernel => {
                "the diagonal is 0, but the diagonal of a kernel holds squared norms; use `of` distances if the numbers are distances"
            }
            _ => "all distances are 0, so no coordinates exist; check the columns of the matrix",
        };
        return Err(Error::option("features", format!("{n} columns"), why));
    }
    Ok(CoordinateModel {
        model: build_model(selected, options, &cholesky, means.as_deref(), &first_distances),
        pivots: cholesky.pivots,
        trace_error: cholesky.trace_error,
    })
}

fn indefinite_error(error: kapprox::Error, kind: MatrixKind) -> Error {
    let kapprox::Error::Indefinite { row, .. } = error else { return error.into() };
    let problem = match kind {
        MatrixKind::Kernel => "no points have these kernel values",
        MatrixKind::Distances => {
            "no points have these distances; path lengths in a graph are often squared distances (squared-distances)"
        }
        MatrixKind::SquaredDistances => "no points have these squared distances",
    };
    let why = format!(
        "{problem}: check object {row}, counted from 0; if the numbers are rounded, raise `tolerance`, to 0.001 for three digits"
    );
    Error::option("of", kind, why)
}

/// Reads the matrix, row-major, and checks that it is square, complete and symmetric, and that
/// distances are at least 0.
fn load_matrix(
    source: &TableRows<f64>,
    selected: &SelectedTable,
    kind: MatrixKind,
    stage_observer: &dyn StageObserver,
) -> Result<Vec<f64>> {
    let n = selected.shape().input_count;
    let mut values = Vec::with_capacity(n * n);
    let observer = stage_observer.start_stage("the matrix", selected.row_count_if_known());
    let (mut cursor, mut tile) = (source.open(source.range())?, RowBuf::new(READ_TILE_ROWS));
    while values.len() <= n * n && cursor.next(&mut tile)? {
        values.extend_from_slice(&tile.x);
        observer.advance(tile.row_numbers.len() as u64);
        if observer.should_stop() {
            return Err(kstore::Error::Interrupted.into());
        }
    }
    if values.len() != n * n {
        let row_count_text =
            if values.len() > n * n { format!("more than {n}") } else { (values.len() / n.max(1)).to_string() };
        let why = format!(
            "the matrix has {n} columns and {row_count_text} rows, but must be square; select its columns, in the order of the rows"
        );
        return Err(Error::option("features", format!("{n} columns"), why));
    }
    let max_abs_entry = values.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
    let is_invalid =
        |value: &f64| !value.is_finite() || kind != MatrixKind::Kernel && *value < -SYMMETRY_TOLERANCE * max_abs_entry;
    if let Some(index) = values.iter().position(is_invalid) {
        let (i, j, value) = (index / n, index % n, values[index]);
        let why = match value.is_finite() {
            true => format!(
                "row {i} has {value} for object {j}, but distances are at least 0; correct it, or use `of` kernel if the numbers are kernel values"
            ),
            false => format!(
                "row {i} has no value for object {j}, and a mean cannot replace it; complete the matrix, or leave the object out"
            ),
        };
        return Err(Error::option("features", &selected.feature_names()[j], why));
    }
    let is_asymmetric =
        |(i, j): &(usize, usize)| (values[i * n + j] - values[j * n + i]).abs() > SYMMETRY_TOLERANCE * max_abs_entry;
    if let Some((i, j)) = (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).find(is_asymmetric) {
        let (entry_ij, entry_ji) = (values[i * n + j], values[j * n + i]);
        let why = format!(
            "row {i} has {entry_ij} for object {j}, but row {j} has {entry_ji} for object {i}; expected a symmetric matrix"
        );
        return Err(Error::option("features", &selected.feature_names()[j], why));
    }
    Ok(values)
}

/// Number of rows that are read at once.
const READ_TILE_ROWS: usize = 256;

/// Largest accepted difference of the entries (i, j) and (j, i), relative to the largest entry. It
/// allows for the rounding of numbers that were written in f32.
const SYMMETRY_TOLERANCE: f64 = 1e-6;

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
