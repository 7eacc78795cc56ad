//! The result of a training run.

use crate::metric::RoundReport;
use crate::model::{Basis, Form, SecondView};
use crate::quadratic::Quadratic;
use crate::solver::Figure;
use crate::solver::ridge::surface::Surface;
use crate::{Certificate, Classes, Head, Link, Task};
use faer::{Mat, MatRef};
use kapprox::Real;
use kapprox::kernel::Spec;
use kapprox::metric::Metric;
use kstore::Scaler;
use std::sync::Arc;

/// The method by which a system was solved.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Solved {
    /// Name of the method: `direct` or `pcg`.
    pub name: &'static str,
    /// Why this method was taken, and with what settings; a sentence for the report.
    pub why: String,
}

/// The result of training: functions, coefficients and scores.
#[derive(Debug)]
pub struct Trained<T: Real> {
    /// Number of rows learned from.
    pub rows: u64,
    /// How features are scaled.
    pub scaler: Arc<Scaler>,
    /// The metric before the kernel.
    pub metric: Option<Arc<Metric>>,
    /// The share of each feature in what a projection was found by: then the metric is the model, and its basis the features behind it.
    pub importance: Option<Vec<f64>>,
    /// The root mean square of the slope of the functions along each feature, where it was asked for.
    pub slopes: Option<Vec<f64>>,
    /// The rounds in which the metric was learned.
    pub learned: Vec<RoundReport>,
    /// The deviation of each feature's share in the metric over folds; `None` where none was learned.
    pub spread: Option<Vec<f64>>,
    /// The classes; `None` for regression.
    pub classes: Option<Classes>,
    /// The kernel of the features that were learned from, every parameter a number.
    pub kernel: Spec,
    /// The second of two views.
    pub with: Option<SecondView>,
    /// The basis functions of the model.
    pub basis: Basis<T>,
    /// What is made of them before coefficients multiply it.
    pub form: Form,
    /// Coefficients of the basis functions, m x t, in f64: f(x) = basis(x)·coefficients + intercept.
    pub coefficients: Mat<f64>,
    /// True where predictions need the basis in f64 though the rows are f32: see [`kapprox::Nystrom::needs_wide`].
    pub wide: bool,
    /// The constant of each target.
    pub intercept: Vec<f64>,
    /// What the functions mean, where that is not the task of the fit.
    pub task: Option<Task>,
    /// How scores become probabilities; `None` where they do not.
    pub link: Option<Link>,
    /// True where the scores are those of pairs of classes.
    pub pairs: bool,
    /// The chosen rank.
    pub rank: usize,
    /// The chosen lambda; `None` for solvers without.
    pub lambda: Option<f64>,
    /// The certificate at the chosen rank; `None` for maps that are no projection.
    pub certificate: Option<Certificate>,
    /// The ranks of the surface, each with its certificate.
    pub certificates: Vec<(usize, Certificate)>,
    /// Cross-validated errors, for ridge regression.
    pub surface: Surface,
    /// The method by which the system was solved, and why; `None` where it was solved from a Gram matrix.
    pub method: Option<Solved>,
    /// Numbers that the solver reports about its result, such as eigenvalues.
    pub figures: Vec<Figure>,
    /// Mean squared error of every training row by the fit to all others at the same penalty, over all targets; where it was
    /// asked for.
    pub left_out: Option<f64>,
    /// Variances, or distances from the components; where they were asked for.
    pub quadratic: Option<Quadratic>,
    /// Coordinates beside the predictions: coefficients of the basis functions, and constants.
    pub components: Option<Head>,
    /// Training mean squared error and r2 over all targets, for ridge regression; r2 is `None` where the targets are constant.
    pub train: Option<(f64, Option<f64>)>,
    /// Number of features of the map, which is its largest rank.
    pub largest_rank: usize,
    /// Number of landmarks of the map, and of the rows they were chosen among; `None` for a map without.
    pub landmarks: Option<(usize, u64)>,
    /// Number of passes over the table.
    pub passes: u64,
    /// Bytes of memory that were planned: those of the stage that needs most.
    pub planned_bytes: usize,
}

/// Mean squared error over targets, and the share of their variance that is explained, from sums over the targets.
pub(crate) fn explained(mse: f64, variance: f64, targets: usize) -> (f64, Option<f64>) {
    (mse / targets.max(1) as f64, (variance > 0.0).then(|| 1.0 - mse / variance))
}

/// True where Σ_i a_i k(z_i, x) needs kernel values in f64: in `T` their rounding errors, independent and of ε/2 relative to a kernel of
/// about its diagonal, would add up to more than this share of a size that counts, for each target: the root mean squared error of a fit,
/// so that its error is that of its predictions to a millionth, or the deviation of the target.
///
/// The bound is ε/2·‖a‖ with kernel values at most 1; kernels of another size have coefficients of another.
const ROUNDING: f64 = 1e-3;

pub(crate) fn needs_wide_for<T: Real>(a: MatRef<'_, f64>, sizes: &[f64]) -> bool {
    let rounding = |j: usize| <T as kstore::Real>::EPSILON / 2.0 * a.col(j).norm_l2();
    size_of::<T>() < size_of::<f64>() && sizes.iter().enumerate().any(|(j, size)| rounding(j) > ROUNDING * size)
}
