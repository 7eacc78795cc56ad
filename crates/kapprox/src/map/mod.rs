//! Feature maps: rows in, features out.

#[doc(hidden)]
pub mod additive;
#[doc(hidden)]
pub mod ensemble;
#[doc(hidden)]
pub mod factor;
mod family;
pub(crate) mod independent;
pub(crate) mod inner;
mod kernel_functions;
#[doc(hidden)]
pub mod nystrom;
#[doc(hidden)]
pub mod projected;
pub mod random;
mod registry;
#[doc(hidden)]
pub mod sketch;

#[doc(hidden)]
pub use additive::Additive;
#[doc(hidden)]
pub use ensemble::Ensemble;
pub use family::MapSpec;
#[doc(hidden)]
pub use family::{Built, MOST_FEATURES, Making, MapFamily, MapRequest, MapShape, OnLandmarks, WithoutRows};
#[doc(hidden)]
pub use kernel_functions::KernelFunctions;
pub use nystrom::NystromMap;
#[doc(hidden)]
pub use projected::Projected;
pub use random::FourierMap;
pub use registry::by_name;
#[doc(hidden)]
pub use registry::{families, registry};
#[doc(hidden)]
pub use sketch::TensorSketch;

use crate::{Real, kernel::FewRows, rows::LandmarkSet};
use faer::{ColMut, ColRef, Mat, MatMut, MatRef, Par};
use kpass::{Footprint, Workers};
use std::fmt::Debug;

/// The parallelism faer may use inside [`Workers::install`].
pub fn par(workers: &Workers) -> Par {
    match workers.threads() {
        0 | 1 => Par::Seq,
        threads => Par::rayon(threads),
    }
}

/// A column of a column-major block as a slice.
///
/// # Panics
/// If the block has another layout: sums over its columns would be wrong or missing.
#[inline(always)]
pub fn contiguous<T>(column: ColRef<'_, T>) -> &[T] {
    column.try_as_col_major().expect("blocks are column-major").as_slice()
}

/// A column of a column-major block as a slice to write to.
///
/// # Panics
/// As [`contiguous`].
#[inline(always)]
pub fn contiguous_mut<T>(column: ColMut<'_, T>) -> &mut [T] {
    column.try_as_col_major_mut().expect("blocks are column-major").as_slice_mut()
}

/// `phi(x)·phi(x') ≈ k(x, x')`; row i of the output depends on row i of the input only.
pub trait FeatureMap<T: Real>: Debug + Send + Sync {
    /// Number of input features d and of outputs p.
    fn dims(&self) -> (usize, usize);
    /// Number of columns, for a map of sparse rows in the layout of [`kpass::sparse`]; these may have room for any number of entries.
    fn sparse(&self) -> Option<usize> {
        None
    }
    /// `out` (b x p, column-major) = the features of `x` (b x d, row-major). Strips of rows go to the workers.
    fn apply(&self, x: MatRef<'_, T>, out: MatMut<'_, T>, workers: &Workers);
    /// `out[i] = k(x_i, x_i)` of the kernel that is approximated, for the certificate; `None` where the map is no
    /// projection (random features), so that a trace error would say nothing.
    fn kernel_diag(&self, _x: MatRef<'_, T>, _out: &mut [f64]) -> Option<()> {
        None
    }
    /// Whether the map is a projection, which has a certificate.
    fn is_projection(&self) -> bool {
        self.kernel_diag(MatRef::from_row_major_slice(&[], 0, self.dims().0), &mut []).is_some()
    }
    /// The features of a few rows at a time, for maps whose features are kernel values.
    fn few_rows(&self) -> Option<FewRows<'_, T>> {
        None
    }
    /// The functions wᵀphi(x) in the form that is evaluated with the fewest operations; `weights` (r x t) are those of the
    /// leading r features.
    fn expand(&self, weights: MatRef<'_, f64>, _workers: &Workers) -> Expansion<T> {
        Expansion::Features { coefficients: weights.to_owned() }
    }
    /// Makes the features more accurate after they were found to exceed the kernel: computes them in f64 from here on, and narrows
    /// them at the end; where that is done already, leaves out those that are mostly rounding. False where there is nothing to do.
    fn widen(&mut self) -> bool {
        false
    }
    /// Keeps the leading r features and forgets the others; false for a map that cannot, and then nothing changes.
    fn truncate(&mut self, _r: usize) -> bool {
        false
    }
    /// Bytes the map holds, and scratch per row of a tile beside its output.
    fn footprint(&self) -> Footprint;
}

/// t functions wᵀphi(x), in the form that costs least to evaluate.
#[derive(Clone, Debug, PartialEq)]
pub enum Expansion<T> {
    /// f(x) = Σ_j α_j k(x, z_j): features in the span of landmarks need the kernel values, and no factor.
    Landmarks {
        /// The landmarks z, m x d.
        landmarks: LandmarkSet<T>,
        /// α, m x t.
        coefficients: Mat<f64>,
        /// True where kernel values in `T` are too coarse for coefficients that cancel.
        wide: bool,
    },
    /// f(x) = wᵀphi(x): features that look at no rows and can be made again from the map's options.
    Features {
        /// w, r x t.
        coefficients: Mat<f64>,
    },
}

impl<T> Expansion<T> {
    /// True where predictions need kernel values in f64.
    pub fn is_wide(&self) -> bool {
        matches!(self, Self::Landmarks { wide: true, .. })
    }
}
