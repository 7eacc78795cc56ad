//! Landmark multidimensional scaling: coordinates whose distances are distances in the kernel's
//! feature space.
//!
//! Let Δ be the m x m matrix of the squared distances between m landmarks x_l, 1 the vector of
//! ones, and H = I − 11ᵀ/m. Classical scaling decomposes −½HΔH = VΛVᵀ with eigenvalues λ_j and
//! eigenvectors v_j. If δ_l(x) is the squared distance of a row x from landmark l, the coordinates
//! of the row are
//!
//! ```text
//! z_j(x) = −½ λ_j^(−½) v_jᵀ(δ(x) − δ̄)
//! δ_l(x) = k(x, x) − 2k(x, x_l) + k(x_l, x_l),     δ̄ = Δ1/m
//! ```
//!
//! The entries of each v_j sum to 0, so k(x, x) cancels and the coordinates are linear in the
//! kernel sections of the landmarks. With a linear kernel they are the principal components of the
//! landmarks. Kernel principal components (`kpca`) fit all rows. This solver fits only the
//! distances among landmarks, and uses no other rows. But it fits these distances exactly, and
//! needs one pass less.
//!
//! *Passes*: only the passes of the landmark scheme. *Flops*: 9m³ for the eigenvectors. *Bytes*:
//! about 5m² numbers in f64.
//!
//! Reference: de Silva, Tenenbaum, "Sparse multidimensional scaling using landmark points",
//! Stanford 2004.

use super::embedding::{ClassicalScaling, check_components, embedding_properties, landmark_set};
use super::parameter::{EMBEDDING_COMPONENTS, Settings};
use super::{Solution, Solver, SolverFamily, SolverProperties};
use crate::linalg::kernel_matrix::kernel_matrix;
use crate::model::{Basis, needs_f64_for};
use crate::request::{PassShape, ProblemSize};
use crate::{Error, Result, Task, features::FitData};
use faer::MatRef;
use kapprox::Real;
use kstore::MemoryPlan;

pub(super) const FAMILY: SolverFamily = SolverFamily::new(
    "mds",
    "landmark multidimensional scaling: coordinates whose distances are those in the kernel's \
        feature space",
    Task::Components,
    &[EMBEDDING_COMPONENTS],
    |settings| Ok(Box::new(LandmarkMds { component_count: settings.required(&EMBEDDING_COMPONENTS, Settings::count) })),
);

#[derive(Clone, Copy, Debug)]
struct LandmarkMds {
    /// Number of coordinates q, less than m.
    component_count: usize,
}

impl<T: Real> Solver<T> for LandmarkMds {
    fn properties(&self) -> SolverProperties {
        embedding_properties(FAMILY.name)
    }

    fn plan(&self, plan: MemoryPlan, size: &ProblemSize, _: PassShape) -> MemoryPlan {
        let m = size.map.landmark_count.unwrap_or_default();
        plan.term("distances and their eigenvectors", ClassicalScaling::bytes(m), "lower `rank`")
    }

    fn fit(&self, data: &FitData<'_, T>) -> Result<Solution<T>> {
        let landmark_set = landmark_set(data)?;
        let (m, d) = (landmark_set.len(), landmark_set.d);
        if m == 1 && data.n > 1 {
            // a scheme that evaluates the kernel chooses no duplicate rows
            return Err(Error::NoVariance);
        }
        check_components(self.component_count, m, "landmarks")?;
        let _stage = data.resources.stage_observer.start_stage("eigenvectors", None);
        let kernel = data.kernel.build()?.typed::<f64>();
        let points: Vec<f64> = landmark_set.points.iter().map(|v| v.to_f64()).collect();
        let x = MatRef::from_row_major_slice(&points, m, d);
        let k = kernel_matrix(&*kernel, x, x, data.resources.workers);
        if !k.col_iter().all(|column| column.iter().all(|v| v.is_finite())) {
            let remedy = "scale the columns, or choose another kernel";
            return Err(Error::NotFinite { what: "a kernel value of two landmarks", remedy });
        }
        let diag: Vec<f64> = (0..m).map(|l| k[(l, l)]).collect();
        let mean_diag = diag.iter().sum::<f64>() / m as f64;
        // the mean of column l of Δ is δ̄_l = mean_i k(x_i, x_i) − 2 mean_i k(x_i, x_l) + k(x_l,
        // x_l); with the weights w of a coordinate its intercept is ½ Σ_l w_l (δ̄_l − k(x_l, x_l))
        let offsets: Vec<f64> =
            k.col_iter().map(|column| 0.5 * mean_diag - column.iter().sum::<f64>() / m as f64).collect();
        let scaling = ClassicalScaling::new(k, self.component_count, data)?;
        let weights = &scaling.weights;
        let intercept = |j: usize| offsets.iter().enumerate().map(|(l, shift)| shift * weights[(l, j)]).sum::<f64>();
        let deviations: Vec<f64> = scaling.eigenvalues.iter().map(|value| (value / m as f64).sqrt()).collect();
        Ok(Solution {
            needs_f64: needs_f64_for::<T>(weights.as_ref(), &deviations),
            basis: Some(Basis::Landmarks {
                points: landmark_set.points.clone(),
                row_numbers: landmark_set.row_numbers.clone(),
            }),
            intercept: (0..weights.ncols()).map(intercept).collect(),
            figures: scaling.figures(),
            weights: scaling.weights,
            ..Solution::default()
        })
    }
}
