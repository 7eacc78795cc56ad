//! Landmark multidimensional scaling: coordinates whose distances are those between rows, in feature space for a kernel.
//!
//! On m landmarks with squared distances Δ and H = I − 11ᵀ/m, −½HΔH = VΛVᵀ, and the coordinates of a row at squared distances δ(x)
//! from the landmarks are
//!
//! ```text
//! z_j(x) = −½ λ_j^(−½) v_jᵀ(δ(x) − δ̄),     δ_l(x) = k(x, x) − 2k(x, x_l) + k(x_l, x_l),     δ̄ = Δ1/m
//! ```
//!
//! The v_j sum to 0, so that k(x, x) has no part in it: the coordinates are linear in the kernel functions of the landmarks. With a linear
//! kernel they are the principal components of the landmarks. The rows beside the landmarks are not looked at: kernel principal
//! components (`kpca`) fit all rows, this fits the distances among landmarks exactly and takes a pass less.
//!
//! *Passes*: those that choose the landmarks. *Flops*: 9m³ for the eigenvectors. *Bytes*: about 5m² numbers in f64.
//!
//! Reference: de Silva, Tenenbaum, "Sparse multidimensional scaling using landmark points", Stanford 2004.

use super::parameter::{COMPONENTS, EMBEDDED, Settings};
use super::{Figure, Found, Solver, SolverFacts, SolverFamily, refuse};
use crate::features::{FitData, Points};
use crate::linalg::{eigen::sign, kernel_matrix::kernel_matrix};
use crate::model::{Basis, needs_wide_for};
use crate::request::{PassShape, ProblemSize};
use crate::{Error, Result, Task};
use faer::{Mat, MatRef};
use kapprox::{Real, decompose::symmetric_eigen, landmark::LandmarkSet};
use kstore::Plan;

pub(super) const FAMILY: SolverFamily = SolverFamily {
    name: "mds",
    about: "landmark multidimensional scaling: coordinates whose distances are those of the kernel's feature space",
    task: Task::Components,
    parameters: &[EMBEDDED],
    make: |settings| Ok(Box::new(LandmarkMds { components: settings.required(&EMBEDDED, Settings::count) })),
};

/// Eigenvalues below this share of the largest, for each landmark, are rounding.
const NOISE: f64 = 16.0 * f64::EPSILON;

#[derive(Clone, Copy, Debug)]
struct LandmarkMds {
    /// Number of coordinates q, at most m.
    components: usize,
}

/// The facts of an embedding. Its landmarks are uniform: those of other schemes would have to be independent as functions, which those of
/// kernels of few directions are not.
pub(super) fn facts(solver: &'static str) -> SolverFacts {
    SolverFacts { by_distances: Some(solver), usual_landmarks: Some("uniform"), ..SolverFacts::default() }
}

pub(super) fn landmarks<'a, T: Real>(data: &FitData<'a, T>) -> Result<&'a LandmarkSet<T>> {
    match data.points {
        Points::Landmarks(set, _) => Ok(set),
        _ => Err(Error::option("map", &data.options.map, "the solver looks at landmarks; leave it out")),
    }
}

/// Refuses more coordinates than so many points can have.
pub(super) fn check_components(components: usize, points: usize, what: &str) -> Result<()> {
    let why = format!("{points} {what} have at most {} coordinates; lower it", points.saturating_sub(1));
    refuse(components >= points, COMPONENTS.name, components, why)
}

/// Coordinates from scalar products about a mean: what classical scaling makes of them.
pub(super) struct Scaled {
    /// λ_j^(−½) v_j, m x q, each column of sum 0.
    pub(super) weights: Mat<f64>,
    /// λ_1, …, λ_q.
    pub(super) eigenvalues: Vec<f64>,
    /// Each eigenvalue as a share of the sum of all positive ones.
    pub(super) shares: Vec<f64>,
}

impl Scaled {
    pub(super) fn bytes(m: usize) -> usize {
        m.saturating_mul(m).saturating_mul(5 * 8)
    }

    /// Takes row and column means off a symmetric matrix and decomposes it. Fewer than q coordinates where the matrix has
    /// no more positive eigenvalues, with a warning.
    pub(super) fn new<T: Real>(mut products: Mat<f64>, q: usize, data: &FitData<'_, T>) -> Result<Self> {
        let m = products.nrows();
        let means: Vec<f64> = products.col_iter().map(|column| column.iter().sum::<f64>() / m as f64).collect();
        let mean = means.iter().sum::<f64>() / m as f64;
        for j in 0..m {
            (0..m).for_each(|i| products[(i, j)] += mean - means[i] - means[j]);
        }
        let (values, vectors) = symmetric_eigen(products.as_ref())?;
        let floor = NOISE * m as f64 * values[m - 1].max(0.0);
        let kept: Vec<usize> =
            (0..m).rev().take(q).take_while(|j| values[*j] > floor && values[*j] >= f64::MIN_POSITIVE).collect();
        if kept.is_empty() {
            return Err(Error::NoVariance);
        }
        data.warn_of_fewer(q, kept.len(), "the distances of the landmarks span no more");
        let scales: Vec<f64> = kept.iter().map(|j| sign(vectors.as_ref(), *j) / values[*j].sqrt()).collect();
        let offs: Vec<f64> = kept.iter().map(|j| vectors.col(*j).iter().sum::<f64>() / m as f64).collect();
        let weights = Mat::from_fn(m, kept.len(), |i, q| scales[q] * (vectors[(i, kept[q])] - offs[q]));
        let positive: f64 = values.iter().filter(|value| **value > 0.0).sum();
        let eigenvalues: Vec<f64> = kept.iter().map(|j| values[*j]).collect();
        let shares = eigenvalues.iter().map(|value| value / positive).collect();
        Ok(Self { weights, eigenvalues, shares })
    }

    pub(super) fn figures(&self) -> Vec<Figure> {
        vec![
            Figure { name: "eigenvalue", values: self.eigenvalues.clone() },
            Figure { name: "share of squared distances", values: self.shares.clone() },
        ]
    }
}

impl<T: Real> Solver<T> for LandmarkMds {
    fn facts(&self) -> SolverFacts {
        facts(FAMILY.name)
    }

    fn plan(&self, plan: Plan, shape: &ProblemSize, _: PassShape) -> Plan {
        let m = shape.map.landmarks.unwrap_or_default();
        plan.term("distances and their eigenvectors", Scaled::bytes(m), "lower `rank`")
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Found<T>> {
        let set = landmarks(data)?;
        let (m, d) = (set.len(), set.d);
        if m == 1 && data.rows > 1 {
            // a scheme that looks at the kernel takes no row twice
            return Err(Error::NoVariance);
        }
        check_components(self.components, m, "landmarks")?;
        let _stage = data.resources.stages.stage("eigenvectors", None);
        let kernel = data.kernel.build()?.typed::<f64>();
        let wide: Vec<f64> = set.points.iter().map(|v| v.to_f64()).collect();
        let x = MatRef::from_row_major_slice(&wide, m, d);
        let k = kernel_matrix(&*kernel, x, x, data.resources.workers);
        if !k.col_iter().all(|column| column.iter().all(|v| v.is_finite())) {
            let remedy = "scale the features or choose another kernel";
            return Err(Error::NotFinite { what: "a kernel value of two landmarks", remedy });
        }
        let diag: Vec<f64> = (0..m).map(|l| k[(l, l)]).collect();
        let mean = diag.iter().sum::<f64>() / m as f64;
        // δ̄_l = mean k(x, x) − 2 mean_i k(x_i, x_l) + k(x_l, x_l), and the constant is ½ Σ_l w_l (δ̄_l − k(x_l, x_l))
        let shift: Vec<f64> = k.col_iter().map(|column| 0.5 * mean - column.iter().sum::<f64>() / m as f64).collect();
        let scaled = Scaled::new(k, self.components, data)?;
        let weights = &scaled.weights;
        let constant = |j: usize| shift.iter().enumerate().map(|(l, shift)| shift * weights[(l, j)]).sum::<f64>();
        let deviations: Vec<f64> = scaled.eigenvalues.iter().map(|value| (value / m as f64).sqrt()).collect();
        Ok(Found {
            wide: needs_wide_for::<T>(weights.as_ref(), &deviations),
            basis: Some(Basis::Landmarks { points: set.points.clone(), rows: set.rows.clone() }),
            intercept: (0..weights.ncols()).map(constant).collect(),
            figures: scaled.figures(),
            weights: scaled.weights,
            ..Found::default()
        })
    }
}
