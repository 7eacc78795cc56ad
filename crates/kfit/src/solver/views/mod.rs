//! Two views: two sets of columns of the same rows, each with a kernel and landmarks of its own.
//! The solvers of this module find pairs of directions, one in each view, that vary together.
//!
//! Let φ̃_i be the p centred features of row i in the first view, and ψ̃_i its r centred features
//! in the second view. One pass gives C_xx = (1/n) Σ_i φ̃_iφ̃_iᵀ, C_yy = (1/n) Σ_i ψ̃_iψ̃_iᵀ and
//! C_xy = (1/n) Σ_i φ̃_iψ̃_iᵀ for every fold. `cca` and `covariance` compute pairs of directions
//! (a_j, b_j) from these matrices. A row has the coordinates a_jᵀφ̃ in the first view and b_jᵀψ̃ in
//! the second; the model predicts both. Signs: the largest entry of each a_j is positive.
//!
//! *Passes*: one. *Flops*: the flops of the maps, n(p + r)² for the moments, and about 20p³ for
//! each lambda and fold. *Bytes*: the moments of each fold, (p + r)² numbers, and about 8p² for
//! each thread.

mod cca;
mod covariance;

pub(super) use cca::FAMILY as CCA;
pub(super) use covariance::FAMILY as COVARIANCE;

use super::parameter::{COMPONENTS, SECOND_VIEW};
use super::{NamedValues, Settings, Solution, centred_moments::CentredMoments, reject_if};
use crate::linalg::eigen::sign_of_largest;
use crate::request::{FitRequest, MetricSource, ProblemSize};
use crate::{Error, FoldGram, GramState, Result, features::FitData};
use faer::{Mat, MatRef};
use kapprox::{Real, decompose::product};
use kstore::MemoryPlan;
use std::borrow::Cow;

/// Threshold for rounding errors, in units of the relative error of the moments. A variance or a
/// singular value below the threshold counts as 0. The value is chosen, as in the other solvers of
/// components.
const ROUNDING_UNITS: f64 = 64.0;

fn require_second_view(settings: &Settings) -> Result<()> {
    let why = "it names the columns of the second view: with 'y*'";
    settings.columns(&SECOND_VIEW).map(|_| ()).ok_or_else(|| Error::missing(SECOND_VIEW.name, settings.solver, why))
}

fn check(request: &FitRequest<'_>) -> Result<()> {
    let (map, metric) = (&request.options.map, &request.options.metric);
    let why = "each view needs landmarks; use a map with landmarks, such as nystrom";
    reject_if(map.is_data_independent(), "map", map, why)?;
    let why = "each view has its own kernel, and no metric; leave it out";
    reject_if(*metric != MetricSource::None, "metric", metric, why)
}

/// Adds to a plan the matrices of the two views, if `threads` threads compute pairs at the same
/// time.
fn plan(plan: MemoryPlan, size: &ProblemSize, threads: usize) -> MemoryPlan {
    // number of features of one view, about half of all features
    let p = size.map.p.div_ceil(2);
    plan.term("moments of the views", 2 * 8 * 2 * size.map.p * size.map.p, "lower `rank`")
        .term("singular vectors", 8 * 10 * p * p * threads, "lower `rank`")
        .term("directions", 8 * 8 * size.map.landmark_count.unwrap_or(p) * p.min(100), "lower `components`")
}

/// Moments of some rows: the covariance matrices of the two views, centred by the means of these
/// rows.
#[derive(Debug)]
struct ViewMoments {
    row_count: u64,
    /// C_xx, p x p.
    xx: Mat<f64>,
    /// C_yy, r x r.
    yy: Mat<f64>,
    /// C_xy, p x r.
    xy: Mat<f64>,
    /// Means of the p features of the first view, then of the r features of the second view.
    mean: Vec<f64>,
}

impl ViewMoments {
    /// Computes the centred moments of some rows. The second view is the last
    /// `second_feature_count` features.
    fn from_moments(moments: Cow<'_, FoldGram>, second_feature_count: usize) -> Result<Self> {
        let row_count = moments.row_count;
        let centred_moments = CentredMoments::from_moments(moments)?;
        let (g, n) = (centred_moments.g(), centred_moments.row_count);
        let p = centred_moments.feature_mean.len() - second_feature_count;
        let covariance_block = |start: (usize, usize), size: (usize, usize)| {
            Mat::from_fn(size.0, size.1, |i, j| g[(start.0 + i, start.1 + j)] / n)
        };
        let (xx, yy) =
            (covariance_block((0, 0), (p, p)), covariance_block((p, p), (second_feature_count, second_feature_count)));
        Ok(Self {
            row_count,
            xx,
            yy,
            xy: covariance_block((0, p), (p, second_feature_count)),
            mean: centred_moments.feature_mean,
        })
    }

    /// Returns false if the variance of a view is only rounding, compared with the squared mean of
    /// its features.
    fn views_vary(&self, epsilon: f64) -> bool {
        let (first_mean, second_mean) = self.mean.split_at(self.xx.nrows());
        let squared_norm = |mean: &[f64]| mean.iter().map(|mean| mean * mean).sum::<f64>();
        let varies = |c: &Mat<f64>, mean: &[f64]| trace(c) > ROUNDING_UNITS * epsilon * squared_norm(mean);
        varies(&self.xx, first_mean) && varies(&self.yy, second_mean)
    }

    /// Computes the correlation of each pair of directions on these rows. It is 0 if the rows do
    /// not vary along one of the directions.
    fn correlations(&self, pairs: &DirectionPairs, epsilon: f64) -> Vec<f64> {
        let (x, y) = (product(self.xx.as_ref(), pairs.x.as_ref()), product(self.yy.as_ref(), pairs.y.as_ref()));
        let xy_y = product(self.xy.as_ref(), pairs.y.as_ref());
        let inner_product = |a: &Mat<f64>, b: &Mat<f64>, j: usize| {
            a.col(j).iter().zip(b.col(j).iter()).map(|(a, b)| a * b).sum::<f64>()
        };
        let threshold =
            |c: &Mat<f64>, a: &Mat<f64>, j: usize| ROUNDING_UNITS * epsilon * trace(c) * inner_product(a, a, j);
        let correlation = |j: usize| {
            let (x_variance, y_variance) = (inner_product(&pairs.x, &x, j), inner_product(&pairs.y, &y, j));
            let varies = x_variance > threshold(&self.xx, &pairs.x, j) && y_variance > threshold(&self.yy, &pairs.y, j);
            if varies { inner_product(&pairs.x, &xy_y, j) / (x_variance * y_variance).sqrt() } else { 0.0 }
        };
        (0..pairs.values.len()).map(correlation).collect()
    }
}

fn trace(matrix: &Mat<f64>) -> f64 {
    (0..matrix.nrows()).map(|j| matrix[(j, j)]).sum()
}

#[derive(Debug)]
struct DirectionPairs {
    /// a_1, …, a_q, p x q.
    x: Mat<f64>,
    /// b_1, …, b_q, r x q.
    y: Mat<f64>,
    /// Correlation or covariance of each pair, descending.
    values: Vec<f64>,
}

impl DirectionPairs {
    /// Returns the pairs with signs that make the largest entry of each a_j positive.
    fn with_signs(x: MatRef<'_, f64>, y: MatRef<'_, f64>, values: Vec<f64>) -> Self {
        let signs: Vec<f64> = (0..values.len()).map(|j| sign_of_largest(x, j)).collect();
        let multiply_signs = |m: MatRef<'_, f64>| Mat::from_fn(m.nrows(), signs.len(), |i, j| signs[j] * m[(i, j)]);
        Self { x: multiply_signs(x), y: multiply_signs(y), values }
    }
}

fn reject_missing_pairs(
    moments: &ViewMoments,
    pairs: &DirectionPairs,
    epsilon: f64,
    requested_count: usize,
) -> Result<()> {
    let why = "no directions of the two views covary; check their columns and kernels";
    reject_if(pairs.values.is_empty() || !moments.views_vary(epsilon), COMPONENTS.name, requested_count, why)
}

/// For every fold of at least two rows, calls `visitor` with the moments of the rows outside the
/// fold, and the moments of the rows in the fold. Does nothing without folds.
fn for_each_fold(
    gram: &GramState,
    second_feature_count: usize,
    mut visitor: impl FnMut(&ViewMoments, &ViewMoments) -> Result<()>,
) -> Result<()> {
    let folds = gram.folds();
    if folds.len() < 2 {
        return Ok(());
    }
    for (held_out_fold, fold) in folds.iter().enumerate().filter(|(_, fold)| fold.row_count > 1) {
        visitor(
            &ViewMoments::from_moments(gram.training_moments(Some(held_out_fold)), second_feature_count)?,
            &ViewMoments::from_moments(Cow::Borrowed(fold), second_feature_count)?,
        )?;
    }
    Ok(())
}

/// Returns the coordinates of both views as linear functions of all p + r features. Warns if there
/// are fewer pairs than requested.
fn solution<T: Real>(
    data: &FitData<'_, T>,
    moments: &ViewMoments,
    pairs: &DirectionPairs,
    requested_count: usize,
    figures: Vec<NamedValues>,
) -> Solution<T> {
    let (p, q) = (pairs.x.nrows(), pairs.values.len());
    data.warn_of_fewer_components(requested_count, q, "the views have no further directions that covary");
    let weights = Mat::from_fn(p + pairs.y.nrows(), 2 * q, |i, j| match (i < p, j < q) {
        (true, true) => pairs.x[(i, j)],
        (false, false) => pairs.y[(i - p, j - q)],
        _ => 0.0,
    });
    let score_sum = |j: usize| weights.col(j).iter().zip(&moments.mean).map(|(w, mean)| w * mean).sum::<f64>();
    let intercept = (0..2 * q).map(|j| -score_sum(j)).collect();
    Solution { weights, intercept, figures, passes: 1, ..Solution::default() }
}
