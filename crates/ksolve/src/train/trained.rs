//! What a training run leaves.

use crate::model::Basis;
use crate::quadratic::Quadratic;
use crate::solver::Figure;
use crate::solver::ridge::surface::Surface;
use crate::{Certificate, Classes, Link};
use faer::{Mat, MatRef};
use kapprox::Real;
use kapprox::kernel::Spec;
use kstore::Scaler;
use std::sync::Arc;

/// How a system was solved.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Solved {
    /// `direct` or `pcg`.
    pub name: &'static str,
    /// Why, and with what.
    pub why: String,
}

/// What training found.
#[derive(Debug)]
pub struct Trained<T: Real> {
    /// Rows learned from.
    pub rows: u64,
    /// How features are scaled.
    pub scaler: Arc<Scaler>,
    /// The classes; `None` for regression.
    pub classes: Option<Classes>,
    /// The kernel, every parameter a number.
    pub kernel: Spec,
    /// The functions that were learned with.
    pub basis: Basis<T>,
    /// Their coefficients, m x t, in f64: f(x) = basis(x)·coefficients + intercept.
    pub coefficients: Mat<f64>,
    /// True where predictions need the basis in f64 though the rows are f32: see [`kapprox::Nystrom::needs_wide`].
    pub wide: bool,
    /// The constant of each target.
    pub intercept: Vec<f64>,
    /// How scores become probabilities; `None` where they do not.
    pub link: Option<Link>,
    /// Scores are those of pairs of classes.
    pub pairs: bool,
    /// The chosen rank.
    pub rank: usize,
    /// The chosen lambda; `None` for solvers without.
    pub lambda: Option<f64>,
    /// The certificate at the chosen rank; `None` for maps that are no projection.
    pub certificate: Option<Certificate>,
    /// Certificates of the ranks of the surface.
    pub certificates: Vec<(usize, Certificate)>,
    /// Cross-validated errors, for ridge regression.
    pub surface: Surface,
    /// How the system was solved and why so, for ridge regression where it was not the usual way.
    pub method: Option<Solved>,
    /// What the solver says of its result.
    pub figures: Vec<Figure>,
    /// Mean squared error of every training row by the fit to all others at the same penalty, over all targets; where it was
    /// asked for.
    pub left_out: Option<f64>,
    /// Variances, or distances from the components; where they were asked for.
    pub quadratic: Option<Quadratic>,
    /// Training mean squared error and r2 over all targets, for ridge regression; r2 is `None` where the targets are constant.
    pub train: Option<(f64, Option<f64>)>,
    /// Features of the map: its largest rank.
    pub largest_rank: usize,
    /// Landmarks of the map and the rows they were chosen among; `None` for a map without.
    pub landmarks: Option<(usize, u64)>,
    /// Passes over the table.
    pub passes: u64,
    /// Largest sum of the plan.
    pub planned_bytes: usize,
}

/// Mean squared error over targets, and the share of their variance that is explained, from sums over the targets.
pub(crate) fn explained(mse: f64, variance: f64, targets: usize) -> (f64, Option<f64>) {
    (mse / targets.max(1) as f64, (variance > 0.0).then(|| 1.0 - mse / variance))
}

/// True where predictions Σ_i a_i k(z_i, x) need kernel values in f64: in `T` their rounding errors, independent and of ε/2
/// relative to a kernel of about its diagonal, would add up to more than this share of the targets' deviation.
///
/// The bound is ε/2·‖a‖ with kernel values at most 1; kernels of another size have coefficients of another.
const ROUNDING: f64 = 1e-3;

pub(crate) fn needs_wide_for<T: Real>(a: MatRef<'_, f64>, deviations: &[f64]) -> bool {
    let rounding = |j: usize| <T as kstore::Real>::EPSILON / 2.0 * a.col(j).norm_l2();
    size_of::<T>() < size_of::<f64>() && deviations.iter().enumerate().any(|(j, d)| rounding(j) > ROUNDING * d)
}
