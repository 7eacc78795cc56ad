//! The result of a solver: functions of the features, and the numbers for the report.

use crate::model::{Basis, BasisTransform, Leaves};
use crate::request::ProblemSize;
use crate::{CertificateState, LinearHead, Link, RegressionLoss, Surface, Task, quadratic::Quadratic};
use faer::Mat;
use kapprox::{Kernel, metric::Metric};
use kmodel::predict::Predictor;
use std::sync::Arc;

/// The functions that a solver learned, with its report.
#[derive(Debug)]
pub struct Solution<T> {
    /// Weights w of the leading r features, r x t. If `basis` is present, the coefficients of its
    /// functions instead.
    pub weights: Mat<f64>,
    /// Intercepts c, t numbers.
    pub intercept: Vec<f64>,
    /// Kernel functions that the coefficients multiply, for a solver that does not use the features
    /// of the map.
    pub basis: Option<Basis<T>>,
    /// Transformation of the features or kernel functions before the coefficients multiply them.
    pub basis_transform: BasisTransform,
    /// True if predictions must evaluate the kernel functions in f64 although the rows are f32.
    pub needs_f64: bool,
    /// Task of the model if it differs from the task of the fit: for example, components that were
    /// learned from a target. `None` if it is the same.
    pub task: Option<Task>,
    /// Directions in the space of the scaled rows. If present, the model projects rows onto these
    /// directions instead of using functions of the features.
    pub projection: Option<Projection>,
    /// Root mean square slope of the functions along each input, d numbers; `None` if not
    /// requested.
    pub slopes: Option<Vec<f64>>,
    /// Function that maps scores to probabilities, if the solver has one.
    pub link: Option<Link>,
    /// Loss of quantiles, expectiles or robust means; with several levels, each target has an
    /// output per level.
    pub loss: Option<RegressionLoss>,
    /// True if the scores belong to pairs of classes (one-vs-one).
    pub is_one_vs_one: bool,
    /// A quadratic function of the features that the model stores in addition to the linear
    /// functions.
    pub quadratic: Option<Quadratic>,
    /// Functions of the features that give coordinates of the rows, which the model stores in
    /// addition to the predictive functions.
    pub components: Option<LinearHead>,
    /// Functions that were fitted without each fold, for prediction intervals. A solution with
    /// these functions has no `components`.
    pub fold_functions: Option<FoldFunctions>,
    /// Local models in cells of the input space; the splits are functions of the features.
    pub leaves: Option<Leaves<T>>,
    /// Kernel of the leaves, if it is not the kernel of the features.
    pub leaf_kernel: Option<Kernel>,
    /// Residuals of the map at every rank; `None` if no pass of the solver computed them.
    pub certificate: Option<CertificateState>,
    /// Ranks to certify; empty for the rank of the weights alone.
    pub certified_ranks: Vec<usize>,
    /// Regularisation parameter; `None` for solvers without a regularisation parameter.
    pub lambda: Option<f64>,
    /// Cross-validated errors of every rank and regularisation parameter that were compared.
    pub surface: Surface,
    /// How the system was solved, and why; `None` if there is only one way.
    pub method: Option<SolveMethod>,
    /// Leave-one-out mean squared error.
    pub loo_mse: Option<f64>,
    /// Mean squared error of the training rows, and the fraction of variance explained.
    pub train_score: Option<(f64, Option<f64>)>,
    /// Further numbers for the report, such as eigenvalues, gradient norm or duality gap.
    pub figures: Vec<NamedValues>,
    /// The numbers of clusters that were compared; `None` for a single number.
    pub cluster_counts: Option<ClusterCounts>,
    /// Directions A, p x q, if rows are clustered by the directions Aᵀφ/‖Aᵀφ‖; `None` if they are
    /// clustered by their features φ.
    pub cluster_projection: Option<Mat<f64>>,
    /// Number of passes over the rows.
    pub passes: u64,
}

/// The numbers of clusters that a fit compared on a sample of the rows.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct ClusterCounts {
    /// Numbers of clusters, ascending.
    pub clusters: Vec<usize>,
    /// Mean squared distance of the sampled rows from their centroids, for each number.
    pub mean_squared_distance: Vec<f64>,
    /// Mean silhouette, for each number.
    pub silhouette: Vec<f64>,
    /// Mean adjusted Rand index of the clusterings of two halves of the sample, for each number;
    /// `None` if a half has too few distinct rows.
    pub stability: Vec<Option<f64>>,
    /// The number with the largest silhouette.
    pub chosen: usize,
    /// Number of rows of the sample.
    pub sampled_rows: usize,
    /// Number of rows of the sample whose silhouettes are computed.
    pub silhouette_rows: usize,
}

impl<T> Default for Solution<T> {
    fn default() -> Self {
        Self {
            weights: Mat::new(),
            intercept: Vec::new(),
            basis: None,
            basis_transform: BasisTransform::default(),
            needs_f64: false,
            task: None,
            projection: None,
            slopes: None,
            link: None,
            loss: None,
            is_one_vs_one: false,
            quadratic: None,
            components: None,
            fold_functions: None,
            leaves: None,
            leaf_kernel: None,
            certificate: None,
            certified_ranks: Vec::new(),
            lambda: None,
            surface: Surface::default(),
            method: None,
            loo_mse: None,
            train_score: None,
            figures: Vec::new(),
            cluster_counts: None,
            cluster_projection: None,
            passes: 0,
        }
    }
}

/// Functions of the features that were fitted without the rows of a fold.
#[derive(Clone, Debug, Default)]
pub struct FoldFunctions {
    /// The functions of each fold, in the order of the model's functions, by fold.
    pub heads: Vec<LinearHead>,
    /// The number of each fold.
    pub folds: Vec<usize>,
}

impl FoldFunctions {
    /// Returns all functions as one linear head, by fold.
    pub fn joined(&self) -> LinearHead {
        let columns: Vec<_> = self.heads.iter().flat_map(|head| head.weights.col_iter()).collect();
        let weights =
            Mat::from_fn(columns.first().map_or(0, |column| column.nrows()), columns.len(), |i, j| columns[j][i]);
        LinearHead { weights, intercept: self.heads.iter().flat_map(|head| head.intercept.iter().copied()).collect() }
    }

    /// Returns the bytes of the functions, of `copies` further sets of them, and of the scores of
    /// the held-out rows.
    pub(crate) fn bytes(size: &ProblemSize, output_count: usize, copies: usize) -> usize {
        let rows = usize::try_from(size.n).unwrap_or(usize::MAX);
        let function_bytes = size_of::<f64>() * (size.map.p + 1) * output_count * size.fold_count;
        let score_bytes = Predictor::held_out_score_bytes(rows, size.fold_count, size.t);
        (3 + copies) * function_bytes + score_bytes
    }
}

/// Directions in the space of the scaled rows that a solver found. They become the metric of the
/// model, whose outputs are the projections of rows onto them.
#[derive(Debug)]
pub struct Projection {
    /// Name of the solver.
    pub solver: &'static str,
    /// The directions, as the rows of a metric.
    pub metric: Arc<Metric>,
    /// Importance of each input for the directions, d numbers that sum to 1.
    pub importance: Vec<f64>,
}

/// Name of the figure with the effective dimension of ridge regression.
pub const EFFECTIVE_DIMENSION: &str = "effective dimension";

/// Named numbers of a solver's report.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct NamedValues {
    /// Name of the numbers in the report.
    pub name: &'static str,
    /// The numbers: a single number, or one number for each component.
    pub values: Vec<f64>,
}

impl NamedValues {
    pub(crate) fn single(name: &'static str, value: f64) -> Self {
        Self { name, values: vec![value] }
    }
}

/// The method by which a system was solved.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SolveMethod {
    /// Name of the method, such as `direct` or `pcg`.
    pub name: &'static str,
    /// Why this method was chosen, and with what settings; a sentence for the report.
    pub why: String,
}

/// Returns the mean squared error, averaged over targets, and R², the fraction of explained
/// variance; R² is `None` if the targets are constant. `mse` and `variance` are sums over the
/// targets.
pub fn mse_and_r2(mse: f64, variance: f64, target_count: usize) -> (f64, Option<f64>) {
    (mse / target_count.max(1) as f64, (variance > 0.0).then(|| 1.0 - mse / variance))
}
