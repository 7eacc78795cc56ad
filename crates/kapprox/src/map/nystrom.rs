//! The Nyström map in Cholesky coordinates: `phi(x) = L⁻¹ k_S(x)`, with `L Lᵀ = K_SS`.
//!
//! `phi(x)·phi(z) = k_S(x)ᵀ K_SS⁻¹ k_S(z)` is the orthogonal projection of the kernel onto the span of the landmarks,
//! so K̂ ≼ K and `k(x,x) − ‖phi(x)‖²` is the squared distance of x from that span: the certificate.
//!
//! The coordinates are **nested**: column j depends on the first j landmarks only, so the leading r columns are the
//! rank-r map. (The symmetric form `K_SS^(-1/2) k_S(x)` is not nested and costs twice as much.)
//!
//! Reference: Williams, Seeger 2000; the Cholesky form is the incomplete Cholesky of Fine, Scheinberg, JMLR 2, 2001.

use super::FeatureMap;
use super::factor::{Factor, factor, pivot_floor};
use crate::kernel::{AnyKernel, Kernel};
use crate::landmark::LandmarkSet;
use crate::{Error, Real, Result};
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::{Mat, MatMut, MatRef, Par};
use kstore::{Footprint, Workers};
use std::sync::Arc;

/// Rows mapped by one thread at a time: a strip of 256 x 2,000 features in f32 is 2 MB, the size of a second-level
/// cache, and the triangular solve runs at 0.86 of the product's rate there (0.79 at 64 rows, measured at m = 2,000).
pub(crate) const STRIP: usize = 256;

/// The Nyström map of a kernel and m landmarks.
///
/// Holds m·d numbers and the m x m factor in `T` and in f64. Mapping n rows costs 2nmd flops for the kernel blocks and
/// nm² for the triangular solve.
#[derive(Debug)]
pub struct Nystrom<T: Real> {
    kernel: Arc<dyn Kernel<T>>,
    landmarks: LandmarkSet<T>,
    /// L in f64, r x r.
    lower: Mat<f64>,
    /// L as the features are computed with it.
    narrow: Mat<T>,
}

impl<T: Real> Nystrom<T> {
    /// Factors the landmarks' kernel matrix in f64, in their order; landmarks that depend on earlier ones, at the
    /// precision of `T`, are left out.
    ///
    /// Cost m²d + m³/3 flops.
    ///
    /// # Errors
    /// [`Error::NoLandmarks`] where none is left, [`Error::NotFinite`] where the kernel overflows.
    pub fn new(kernel: &Arc<dyn AnyKernel>, landmarks: LandmarkSet<T>, par: Par) -> Result<Self> {
        let k_mm = kernel_matrix(kernel, &landmarks)?;
        let Factor { lower, kept } = factor(k_mm, pivot_floor::<T>(), par);
        if kept.is_empty() {
            return Err(Error::NoLandmarks {
                why: "the kernel is zero at every landmark; choose another kernel or other landmarks".to_string(),
            });
        }
        Ok(Self::from_factor(T::kernel(kernel.clone()), landmarks.keep(&kept), lower))
    }

    /// The map of landmarks whose factor is known.
    pub(crate) fn from_factor(kernel: Arc<dyn Kernel<T>>, landmarks: LandmarkSet<T>, lower: Mat<f64>) -> Self {
        let r = lower.nrows();
        let narrow = Mat::from_fn(r, r, |i, j| <T as kstore::Real>::from_f64(lower[(i, j)]));
        Self { kernel, landmarks, lower, narrow }
    }

    /// The landmarks that were kept, in their order.
    pub fn landmarks(&self) -> &LandmarkSet<T> {
        &self.landmarks
    }

    /// The rank r: the number of landmarks that were kept.
    pub fn rank(&self) -> usize {
        self.lower.nrows()
    }

    /// The map of the first `rank` landmarks: the leading columns of this one.
    #[must_use]
    pub fn truncate(self, rank: usize) -> Self {
        let rank = rank.min(self.rank());
        let kept: Vec<usize> = (0..rank).collect();
        let lower = self.lower.submatrix(0, 0, rank, rank).to_owned();
        Self::from_factor(self.kernel, self.landmarks.keep(&kept), lower)
    }

    /// `L⁻ᵀ w` for weights on the leading `w.nrows()` coordinates: the coefficients of the same function on
    /// `k_S(x)`, so that predicting needs the kernel block and no triangular solve. In f64.
    pub fn dual(&self, weights: MatRef<'_, f64>, par: Par) -> Mat<f64> {
        let r = weights.nrows();
        let mut dual = weights.to_owned();
        solve_upper_triangular_in_place(self.lower.submatrix(0, 0, r, r).transpose(), dual.as_mut(), par);
        dual
    }

    /// Bytes of a map of `m` landmarks with `d` features.
    pub fn bytes(m: usize, d: usize) -> usize {
        let t = size_of::<T>();
        m * d * t + m * m * (t + size_of::<f64>())
    }
}

/// K_SS in f64, full.
fn kernel_matrix<T: Real>(kernel: &Arc<dyn AnyKernel>, landmarks: &LandmarkSet<T>) -> Result<Mat<f64>> {
    let m = landmarks.len();
    let wide: Vec<f64> = landmarks.points.iter().map(|v| kstore::Real::to_f64(*v)).collect();
    let z = MatRef::from_row_major_slice(&wide, m, landmarks.d);
    let mut k = Mat::<f64>::zeros(m, m);
    <f64 as Real>::kernel(kernel.clone()).block(z, z, k.as_mut());
    if (0..m).all(|j| (j..m).all(|i| k[(i, j)].is_finite())) {
        return Ok(k);
    }
    Err(Error::NotFinite {
        what: format!("the kernel {} between two landmarks", <f64 as Real>::kernel(kernel.clone()).spec()),
        remedy: "scale the features or lower the kernel's degree or gamma".to_string(),
    })
}

impl<T: Real> FeatureMap<T> for Nystrom<T> {
    fn dims(&self) -> (usize, usize) {
        (self.landmarks.d, self.rank())
    }

    fn apply(&self, x: MatRef<'_, T>, out: MatMut<'_, T>, workers: &Workers) {
        let z = self.landmarks.as_mat();
        workers.each(strips(x, out), |(x, mut out)| {
            self.kernel.block(x, z, out.rb_mut());
            solve_lower_triangular_in_place(self.narrow.as_ref(), out.transpose_mut(), Par::Seq);
        });
    }

    fn kernel_diag(&self, x: MatRef<'_, T>, out: &mut [f64]) -> Option<()> {
        self.kernel.diag(x, out);
        Some(())
    }

    fn footprint(&self) -> Footprint {
        Footprint { fixed: Self::bytes(self.rank(), self.landmarks.d), per_row: 0 }
    }
}

use faer::prelude::ReborrowMut;

/// Cuts rows and their features into strips of [`STRIP`] rows.
pub(crate) fn strips<'a, T>(x: MatRef<'a, T>, out: MatMut<'a, T>) -> Vec<(MatRef<'a, T>, MatMut<'a, T>)> {
    let mut parts = Vec::with_capacity(x.nrows().div_ceil(STRIP));
    let (mut x, mut out) = (x, out);
    while x.nrows() > STRIP {
        let (x_head, x_tail) = x.split_at_row(STRIP);
        let (out_head, out_tail) = out.split_at_row_mut(STRIP);
        parts.push((x_head, out_head));
        (x, out) = (x_tail, out_tail);
    }
    parts.push((x, out));
    parts
}
