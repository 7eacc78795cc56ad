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
//! Distances need not be Euclidean: geodesic, edit and alignment distances are often not. Then K is
//! indefinite, and the coordinates are those of its positive part: √λ_k v_k for the positive
//! eigenvalues λ_k and eigenvectors v_k of K (classical scaling,
//! [`kapprox::matrix::PositivePart`]). The result contains the sums of the positive and negative
//! eigenvalues.
//!
//! If a table has the distances of n objects to m landmarks only, [`landmark_coordinates`] computes
//! the positive part of the m x m matrix of the landmarks, and its model computes the coordinates
//! of all objects (landmark multidimensional scaling).
//!
//! *Passes*: one. *Flops*: nr² for F, and 4n²r to check every entry of FFᵀ and to compute the
//! model; n³/3 more if r coordinates are not enough for the tolerance. 9n³ for the positive part.
//! *Bytes*: 8n² + 24nr; 40n² for the positive part.
//!
//! References: Torgerson, "Multidimensional scaling", Psychometrika 17, 1952; Gower, "Some distance
//! properties of latent root and vector methods", Biometrika 53, 1966; de Silva, Tenenbaum, "Sparse
//! multidimensional scaling using landmark points", Stanford 2004; Platt, "FastMap, MetricMap, and
//! Landmark MDS are all Nyström algorithms", AISTATS 2005; and the references of
//! [`kapprox::matrix`].

mod matrix;
mod pivots;
mod scaling;

pub use crate::model::MatrixKind;

use crate::request::StageObserver;
use crate::{Error, Model, Result, job::Run};
use kapprox::matrix::SpectrumSummary;
use kstore::{MemoryPlan, ReadSettings, RowSource, SelectedTable, Workers};
use matrix::{READ_TILE_ROWS, SquareMatrix, read_matrix};

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
    /// Indices of the pivot objects, in the order of selection; empty if the coordinates are those
    /// of the positive part.
    pub pivots: Vec<u64>,
    /// Trace of the residual K − FFᵀ, relative to the trace of the kernel matrix K; for distances,
    /// an upper bound of this ratio. For the positive part of K, the exact ratio.
    pub trace_error: f64,
    /// Eigenvalues of K, if the coordinates come from its positive part; otherwise `None`.
    #[doc(hidden)]
    pub spectrum: Option<SpectrumSummary>,
}

impl CoordinateModel {
    /// Returns whether points have the distances, or kernel values: whether K has no negative
    /// eigenvalue beyond the relative rounding error `tolerance`.
    #[doc(hidden)]
    pub fn is_euclidean(&self, tolerance: f64) -> bool {
        self.spectrum
            .is_none_or(|spectrum| spectrum.negative_count == 0 || -spectrum.smallest <= tolerance * spectrum.largest)
    }
}

/// The eigenvalues of K, for a report.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct SpectrumReport {
    /// Number of positive eigenvalues.
    pub positive_count: usize,
    /// Number of negative eigenvalues.
    pub negative_count: usize,
    /// Sum of the positive eigenvalues.
    pub positive_sum: f64,
    /// Sum of the absolute values of the negative eigenvalues.
    pub negative_sum: f64,
    /// Sum of the positive eigenvalues, as a fraction of the sum of all absolute eigenvalues.
    pub positive_fraction: f64,
    /// Largest eigenvalue.
    pub largest: f64,
    /// Smallest eigenvalue.
    pub smallest: f64,
}

impl SpectrumReport {
    /// Returns the report of a summary.
    pub fn new(summary: SpectrumSummary) -> Self {
        let SpectrumSummary { positive_count, negative_count, positive_sum, negative_sum, largest, smallest } = summary;
        let positive_fraction = summary.positive_fraction();
        Self { positive_count, negative_count, positive_sum, negative_sum, positive_fraction, largest, smallest }
    }
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
pub fn coordinates(selected: &SelectedTable, options: &CoordinateOptions, run: &Run<'_>) -> Result<CoordinateModel> {
    let n = selected.shape().input_count;
    let max_rank = options.rank.min(n);
    let factor_bytes = 8 * max_rank * (2 * n + max_rank) + 8 * (max_rank + 1) * n;
    let matrix_plan = || plan(selected, run.memory_budget(), run.workers());
    let factor_plan = || Ok::<_, Error>(matrix_plan()?.term("coordinates", factor_bytes, "lower `rank`"));
    factor_plan()?.check()?;
    let stage_recorder = run.stage_recorder();
    let source = selected.rows::<f64>(ReadSettings::default())?;
    let matrix = read_matrix(&source, selected, options.kind, "features", &stage_recorder)?;
    let pivot_stage = stage_recorder.start_stage("pivots", None);
    if let Some(model) = pivots::fit(selected, &matrix, options, factor_plan()?, run.workers())? {
        return Ok(model);
    }
    drop(pivot_stage);
    let _stage = stage_recorder.start_stage("eigenvectors", None);
    scaling::fit(selected, matrix, options, matrix_plan()?, run.workers())
}

/// Computes coordinates from the distances, or kernel values, among m landmarks: the rows of
/// `landmarks`, whose features are the landmarks in the same order.
///
/// The model computes the coordinates of any object from its distances to the landmarks: landmark
/// multidimensional scaling, or for kernel values the Nyström method. Options as for
/// [`coordinates`]; no seed is needed.
///
/// # Errors
/// The errors of [`coordinates`].
#[doc(hidden)]
pub fn landmark_coordinates(
    landmarks: &SelectedTable,
    options: &CoordinateOptions,
    run: &Run<'_>,
) -> Result<CoordinateModel> {
    plan(landmarks, run.memory_budget(), run.workers())?.check()?;
    let stage_recorder = run.stage_recorder();
    let source = landmarks.rows::<f64>(ReadSettings::default())?;
    let matrix = read_matrix(&source, landmarks, options.kind, "landmarks", &stage_recorder)?;
    let _stage = stage_recorder.start_stage("eigenvectors", None);
    scaling::fit(landmarks, matrix, options, plan(landmarks, run.memory_budget(), run.workers())?, run.workers())
}

/// Returns the memory plan of the matrix and of the rows that are read.
fn plan(selected: &SelectedTable, memory_budget: usize, workers: &Workers) -> Result<MemoryPlan> {
    let n = selected.shape().input_count;
    let source = selected.rows::<f64>(ReadSettings::default())?;
    let reading_bytes = RowSource::<f64>::footprint(&source).bytes_for(READ_TILE_ROWS);
    let plan = MemoryPlan::for_process("the coordinates", memory_budget, workers.threads(), 0);
    let remedy = "compute distances to fewer objects, and use them as `landmarks`";
    Ok(plan.term("the matrix", 8 * n * n, remedy).term("rows that are read", reading_bytes, ""))
}

fn no_coordinates_error(matrix: &SquareMatrix) -> Error {
    let why = match matrix.kind {
        MatrixKind::Kernel if matrix.is_zero() => "all kernel values are 0; check the columns of the matrix",
        MatrixKind::Kernel => {
            "the diagonal is 0, but the diagonal of a kernel holds squared norms; use `of` distances if the numbers are distances"
        }
        _ => "all distances are 0, so no coordinates exist; check the columns of the matrix",
    };
    Error::option("features", format!("{} columns", matrix.order), why)
}
