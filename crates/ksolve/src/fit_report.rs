//! The report of a training run.

use crate::metric::{LengthScaleReport, LikelihoodReport};
use crate::solver::parameter::{C, EXPOSURE};
use crate::solver::{ClusterCounts, LAMBDA_OF_EACH_LEVEL, NamedValues, SolveMethod, by_name};
use crate::{Certificate, SurfaceCell};
use kmodel::model::{ClusterProfile, MetricReport};
use kstore::Label;
use kstore::display::{format_count, format_number};
use std::fmt;

/// What lambda means for solvers without the regularisation parameter C.
#[doc(hidden)]
pub const LAMBDA_CONVENTION: &str =
    "lambda is per row: (1/n) sum loss + lambda |w|^2 (scikit-learn's alpha = lambda n)";

/// What lambda means for solvers with the regularisation parameter C.
const LAMBDA_C_CONVENTION: &str =
    "lambda is per row: (1/n) sum loss + lambda |w|^2 (scikit-learn's C = 1/(2 n lambda))";

/// What lambda means for generalised linear models.
const LAMBDA_GLM_CONVENTION: &str =
    "lambda is per row: (1/n) sum deviance / 2 + lambda |w|^2 (scikit-learn's alpha = 2 lambda)";

/// Returns what a solver's lambda means, and the corresponding parameter of scikit-learn.
#[doc(hidden)]
pub fn convention_of(solver: &str) -> &'static str {
    match by_name(solver) {
        Some(family) if family.reads(&C) => LAMBDA_C_CONVENTION,
        Some(family) if family.reads(&EXPOSURE) => LAMBDA_GLM_CONVENTION,
        _ => LAMBDA_CONVENTION,
    }
}

/// The report of a fit: the data, the chosen parameters, the errors and the cost.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct FitReport {
    /// Name of the solver.
    pub solver: &'static str,
    /// Number of training rows.
    pub rows: u64,
    /// Sum of the row weights; `None` if rows have no weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Number of inputs, d.
    pub features: usize,
    /// The categorical columns, and the numeric columns that have a missing-value indicator, each
    /// with its encoding, such as `12 values`. Empty if every input is a numeric column.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<(String, String)>,
    /// Number of target columns; 1 for classes.
    pub targets: usize,
    /// Names of the target columns, or of the class column.
    pub target_names: Vec<String>,
    /// Labels of a classification, in code order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes: Option<Vec<Label>>,
    /// The feature map, such as `nystrom`.
    pub map: String,
    /// Landmark scheme and number of candidates.
    pub landmarks: Option<LandmarkReport>,
    /// The kernel, with every parameter resolved to a number.
    pub kernel: String,
    /// How an `auto` length scale was determined.
    #[serde(rename = "length", skip_serializing_if = "Option::is_none")]
    pub length_scale: Option<LengthScaleReport>,
    /// The marginal likelihood of the kernel, if the fit maximised it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub likelihood: Option<LikelihoodReport>,
    /// For solvers on a neighbour graph, the number of nearest nodes to which each node and each
    /// new row is connected; otherwise `None`. The distances to these nodes do not depend on the
    /// kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<usize>,
    /// The kernel of the second view.
    #[serde(rename = "with_kernel", skip_serializing_if = "Option::is_none")]
    pub second_view_kernel: Option<String>,
    /// The kernels of the further members, if the model is the mean of several fits.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// Rank of the chosen cell.
    pub rank: usize,
    /// Lambda of the chosen cell; `None` for solvers without lambda, and for quantiles with
    /// different lambdas, which are in `figures`.
    pub lambda: Option<f64>,
    /// What the solver's lambda means.
    pub lambda_convention: &'static str,
    /// The folds of cross-validation, such as `5` or `blocks:6`; `none` without cross-validation.
    pub folds: String,
    /// Why the folds are not random, if they hold out rows like the test rows.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason_for_folds: Option<String>,
    /// The relative trace error over all rows; `None` for maps that are not projections onto a
    /// subspace, such as random Fourier features.
    pub certificate: Option<Certificate>,
    /// The cells of the cross-validation surface, ordered by rank, and within a rank by lambda.
    pub surface: Vec<SurfaceCell>,
    /// Scores of ridge regression on the training rows.
    pub train: Option<TrainScores>,
    /// The method of ridge regression; `None` if it solved from a Gram matrix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<SolveMethod>,
    /// Further results of the solver, such as eigenvalues.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<NamedValues>,
    /// The numbers of clusters that were compared; `None` for a single number.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_counts: Option<ClusterCounts>,
    /// Descriptions of the clusters by their columns; empty for other tasks.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterProfile>,
    /// Column whose values name the typical rows of the clusters; `None` for row numbers.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row_name_column: Option<String>,
    /// Number of passes over the rows.
    pub passes: u64,
    /// Planned bytes of memory.
    pub planned_bytes: usize,
    /// The instruction set of the processor; results are bit-identical on processors with the same
    /// instruction set.
    pub instruction_set: String,
    /// The type of rows and features: `f32` or `f64`.
    pub precision: &'static str,
    /// Seconds of each stage, in order of completion.
    #[serde(skip)]
    pub seconds: Vec<(String, f64)>,
    /// The warnings of the run, one sentence each: rank reduced, constant input, tolerance not
    /// reached, …
    #[serde(skip)]
    pub warnings: Vec<String>,
    /// Name, shift and divisor of each input.
    #[serde(skip)]
    pub scaling: Vec<(String, f64, f64)>,
    /// The metric before the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<MetricReport>,
    /// The inputs by importance, the largest first; empty if not requested. The importance of an
    /// input is the root mean square of the function's slope along the scaled input, in units of
    /// the targets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub importance: Vec<(String, f64)>,
    /// Relative trace error at each rank of the surface.
    #[serde(skip)]
    pub certificates: Vec<(usize, f64)>,
}

impl FitReport {
    /// Returns the chosen lambda, or the lambda of each level if they differ; empty for solvers
    /// without lambda.
    #[doc(hidden)]
    pub fn lambdas(&self) -> &[f64] {
        let of_levels = self.figures.iter().find(|figure| figure.name == LAMBDA_OF_EACH_LEVEL);
        match (&self.lambda, of_levels) {
            (None, Some(figure)) => &figure.values,
            (lambda, _) => lambda.as_slice(),
        }
    }
}

impl fmt::Display for FitReport {
    /// Writes one line with the solver, sizes and error, and one line per warning.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, features) = (format_count(self.rows), format_count(self.features as u64));
        write!(f, "{} on {rows} rows, {features} features, {}", self.solver, self.kernel)?;
        self.length_scale.iter().try_for_each(|length| write!(f, " ({length})"))?;
        write!(f, ", rank {}", format_count(self.rank as u64))?;
        let lambdas: Vec<String> = self.lambdas().iter().map(|lambda| format_number(*lambda)).collect();
        if !lambdas.is_empty() {
            write!(f, ", lambda {}", lambdas.join("/"))?;
        }
        self.train.iter().try_for_each(|train| write!(f, ", train mse {:.3e}", train.mse))?;
        self.warnings.iter().try_for_each(|warning| write!(f, "\nwarning: {warning}"))
    }
}

/// Landmark scheme, number of landmarks and number of candidates.
#[derive(Clone, Debug, serde::Serialize)]
pub struct LandmarkReport {
    /// Name of the scheme.
    pub scheme: String,
    /// Number of linearly independent landmarks, which is the largest rank of the surface.
    pub count: usize,
    /// Number of candidate rows.
    pub candidates: u64,
}

/// Scores on the training rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct TrainScores {
    /// Mean squared error (±1 codes for classes).
    pub mse: f64,
    /// Square root of the mean squared error.
    pub rmse: f64,
    /// Fraction of variance explained; `None` for a constant target.
    pub r2: Option<f64>,
    /// Leave-one-out mean squared error; `None` if not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loo_mse: Option<f64>,
}
