//! Feature maps, which compute features from rows.

#[doc(hidden)]
pub mod additive;
#[doc(hidden)]
pub mod ensemble;
#[doc(hidden)]
pub mod factor;
mod family;
pub(crate) mod feature_gram;
pub(crate) mod independent;
mod kernel_sections;
#[doc(hidden)]
pub mod nystrom;
#[doc(hidden)]
pub mod projected;
pub mod random;
mod registry;
#[doc(hidden)]
pub mod tensor_sketch;

#[doc(hidden)]
pub use additive::Additive;
#[doc(hidden)]
pub use ensemble::Ensemble;
pub use family::MapSpec;
#[doc(hidden)]
pub use family::{
    DataIndependentMapArgs, LandmarkMapArgs, MAX_FEATURES, MapConstructor, MapConstructorPair, MapFamily, MapRequest,
    MapResult, MapShape,
};
#[doc(hidden)]
pub use kernel_sections::KernelSections;
pub use nystrom::NystromMap;
#[doc(hidden)]
pub use projected::Projected;
pub use random::FourierMap;
pub use registry::{by_name, register, registry};
#[doc(hidden)]
pub use tensor_sketch::TensorSketch;

use crate::{Real, kernel::LandmarkSections, landmark_set::LandmarkSet};
use faer::{ColMut, ColRef, Mat, MatMut, MatRef, Par};
use kpass::{Footprint, Workers};
use std::fmt::Debug;

/// Returns the value of faer's parallelism parameter for calls inside [`Workers::install`].
#[doc(hidden)]
pub fn par(workers: &Workers) -> Par {
    match workers.threads() {
        0 | 1 => Par::Seq,
        threads => Par::rayon(threads),
    }
}

/// Returns a column of a column-major block as a slice.
///
/// # Panics
/// If the column is not contiguous: such a column has no slice.
#[doc(hidden)]
#[inline(always)]
pub fn column_slice<T>(column: ColRef<'_, T>) -> &[T] {
    column.try_as_col_major().expect("blocks are column-major").as_slice()
}

/// Returns a column of a column-major block as a mutable slice.
///
/// # Panics
/// If the column is not contiguous.
#[doc(hidden)]
#[inline(always)]
pub fn column_slice_mut<T>(column: ColMut<'_, T>) -> &mut [T] {
    column.try_as_col_major_mut().expect("blocks are column-major").as_slice_mut()
}

/// A feature map phi with `phi(x)·phi(x') ≈ k(x, x')`. Row i of the output depends only on row i of
/// the input.
pub trait FeatureMap<T: Real>: Debug + Send + Sync {
    /// Returns the number of inputs d and of features p.
    fn dims(&self) -> (usize, usize);
    /// For a map of sparse rows (layout: [`kpass::sparse`]), returns the number of columns of the
    /// table; the rows may have any maximum number of entries. Returns `None` for a map of dense
    /// rows.
    fn sparse_column_count(&self) -> Option<usize> {
        None
    }
    /// Computes the features `out` (b x p, column-major) of `x` (b x d, row-major). Distributes
    /// strips of rows to the workers.
    fn apply(&self, x: MatRef<'_, T>, out: MatMut<'_, T>, workers: &Workers);
    /// Computes `out[i] = k(x_i, x_i)`, with the kernel that the map approximates, for the
    /// certificate. Returns `None` if the map is not a projection (random features), because the
    /// trace error has no meaning for it.
    fn kernel_diag(&self, _x: MatRef<'_, T>, _out: &mut [f64]) -> Option<()> {
        None
    }
    /// Returns whether the map is an orthogonal projection onto the span of landmarks. Only
    /// projections have a certificate.
    fn is_projection(&self) -> bool {
        self.kernel_diag(MatRef::from_row_major_slice(&[], 0, self.dims().0), &mut []).is_some()
    }
    /// If the features are the kernel values k(x, z_j), returns an evaluator that computes them for
    /// a few rows at a time; otherwise returns `None`.
    fn landmark_sections(&self) -> Option<LandmarkSections<'_, T>> {
        None
    }
    /// Returns the t functions x ↦ w_jᵀphi(x) in the form that is cheapest to evaluate, where w_j
    /// is column j of `weights` (r x t), and only the leading r features are used.
    fn expand(&self, weights: MatRef<'_, f64>, _workers: &Workers) -> Expansion<T> {
        Expansion::Features { weights: weights.to_owned() }
    }
    /// Makes the features more accurate. Call it if ‖phi(x)‖² exceeds k(x, x).
    ///
    /// From now on, the map computes the features in f64 and rounds the results to `T`. If it
    /// computes them in f64 already, it drops the features that are mostly rounding errors. Returns
    /// false if nothing changes.
    fn raise_precision(&mut self) -> bool {
        false
    }
    /// Keeps the leading r features and drops all other features. If the map cannot drop features,
    /// it does not change, and the function returns false.
    fn truncate(&mut self, _r: usize) -> bool {
        false
    }
    /// Returns the bytes of the map, and the scratch bytes for each row of a tile in addition to
    /// the output.
    fn footprint(&self) -> Footprint;
}

/// t functions wᵀphi(x), in the form that is cheapest to evaluate.
#[derive(Clone, Debug, PartialEq)]
pub enum Expansion<T> {
    /// f(x) = Σ_j α_j k(x, z_j), for features in the span of landmarks. This form needs only kernel
    /// values and no triangular solve.
    Landmarks {
        /// Landmarks z, m x d.
        landmarks: LandmarkSet<T>,
        /// α, m x t.
        dual_coefficients: Mat<f64>,
        /// True if kernel values in `T` are not accurate enough, because the terms of the sum
        /// cancel.
        needs_f64: bool,
    },
    /// f(x) = wᵀphi(x), for a map built without rows, which can be rebuilt from its options.
    Features {
        /// w, r x t.
        weights: Mat<f64>,
    },
}

impl<T> Expansion<T> {
    /// Returns whether predictions need kernel values in f64.
    pub fn needs_f64(&self) -> bool {
        matches!(self, Self::Landmarks { needs_f64: true, .. })
    }
}
