//! The Nyström map in Cholesky coordinates: `phi(x) = L⁻¹ k_S(x)`, with `L Lᵀ = K_SS`.
//!
//! `phi(x)·phi(z) = k_S(x)ᵀ K_SS⁻¹ k_S(z)` is the orthogonal projection of the kernel onto the span of the landmarks,
//! so K̂ ≼ K and `k(x,x) − ‖phi(x)‖²` is the squared distance of x from that span: the certificate.
//!
//! The coordinates are **nested**: column j depends on the first j landmarks only, so the leading r columns are the
//! rank-r map. (The symmetric form `K_SS^(-1/2) k_S(x)` is not nested and costs twice as much.)
//!
//! Reference: Williams, Seeger 2000; the Cholesky form is the incomplete Cholesky of Fine, Scheinberg, JMLR 2, 2001.

use super::factor::{Factor, PIVOT_FLOOR, factor};
use super::registry::{Build, Built, Family, OnLandmarks, Shape};
use super::{Expansion, FeatureMap};
use crate::kernel::{AnyKernel, Kernel};
use crate::landmark::LandmarkSet;
use crate::{Error, Real, Result};
use faer::linalg::triangular_inverse::invert_lower_triangular;
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::prelude::ReborrowMut;
use faer::{Mat, MatMut, MatRef, Par};
use kstore::{Footprint, Workers};
use std::sync::Arc;

/// `nystrom`.
pub(super) const FAMILY: Family = Family {
    name: "nystrom",
    about: "projection on the kernel functions of landmarks, in Cholesky coordinates; nested in the rank",
    parameters: &[],
    build: Build::on_landmarks(build, build),
    nested: true,
    passes: 0,
    shape: |_, ask| {
        let footprint = Footprint { fixed: bytes(ask.rank, ask.d, ask.element), per_row: 0 };
        // the kernel matrix, and the landmarks copied and in f64
        let making = ask.rank * (8 * ask.rank + ask.d * (2 * ask.element + 8));
        Shape { p: ask.rank, landmarks: Some(ask.rank), footprint, making }
    },
};

fn build<T: Real>(given: OnLandmarks<'_, T>) -> Built<T> {
    let OnLandmarks { kernel, landmarks, workers, .. } = given;
    Ok(Box::new(workers.install(|| Nystrom::new(kernel, landmarks, super::par(workers)))?))
}

/// Bytes of a map of `m` landmarks with `d` features.
fn bytes(m: usize, d: usize, element: usize) -> usize {
    (m * d + m * m) * (element + size_of::<f64>())
}

/// Rows mapped by one thread at a time: a strip of 288 x 2,000 features in f32 is about the size of a second-level cache.
/// 288 is a multiple of the heights of the product's register tiles (96 and 48 rows with AVX-512, 24 and 12 with AVX2);
/// strips of 128 rows are a third slower.
pub const STRIP: usize = 288;

/// Largest [`noise`] of a map that is computed in `T`, as a share of the trace.
///
/// The trace errors of one map in f32 and f64 differ by 6 to 10 times its noise (measured on `tests/certificate.rs` at
/// noises from 5e-8 to 3e-4), so by 3e-6 at this limit. Beyond it the map is computed in f64 and narrowed at the end.
pub(super) const NOISE: f64 = 3e-7;

/// The Nyström map of a kernel and m landmarks.
///
/// Holds m·d numbers and the m x m factor in f64, and once more in `T` where that is accurate enough. Mapping n rows
/// costs 2nmd flops for the kernel blocks and nm² for the triangular solve. Landmarks that nearly depend on each other
/// amplify the rounding of `T`; then blocks and solve run in f64, which takes about 1.5 times as long in a whole fit.
#[derive(Debug)]
pub struct Nystrom<T: Real> {
    kernel: Arc<dyn Kernel<T>>,
    exact: Arc<dyn Kernel<f64>>,
    landmarks: LandmarkSet<T>,
    /// L in f64, r x r.
    lower: Mat<f64>,
    arithmetic: Arithmetic<T>,
}

/// What blocks and features are computed in.
#[derive(Debug)]
pub(super) enum Arithmetic<T> {
    /// In `T`, with L (or W) narrowed to it.
    Own(Mat<T>),
    /// In f64, with the landmarks widened to it.
    Wide(Vec<f64>),
}

impl<T: Real> Nystrom<T> {
    /// Factors the landmarks' kernel matrix in f64, in their order; landmarks that depend on earlier ones are left out.
    ///
    /// Cost m²d + 2m³/3 flops.
    ///
    /// # Errors
    /// [`Error::NoLandmarks`] where none is left, [`Error::NotFinite`] where the kernel overflows.
    pub fn new(kernel: &Arc<dyn AnyKernel>, landmarks: LandmarkSet<T>, par: Par) -> Result<Self> {
        let exact = <f64 as Real>::kernel(kernel.clone());
        crate::kernel::require_positive_definite(&*exact, "the Nyström map")?;
        let k_mm = kernel_matrix(kernel, &landmarks)?;
        let Factor { lower, kept } = factor(k_mm, PIVOT_FLOOR, par);
        if kept.is_empty() {
            return Err(Error::NoLandmarks {
                why: "the kernel is zero at every landmark; choose another kernel or other landmarks".to_string(),
            });
        }
        Ok(Self::from_factor(kernel, landmarks.keep(&kept), lower, par))
    }

    /// The map of landmarks whose factor is known.
    pub(crate) fn from_factor(
        kernel: &Arc<dyn AnyKernel>,
        landmarks: LandmarkSet<T>,
        lower: Mat<f64>,
        par: Par,
    ) -> Self {
        let r = lower.nrows();
        let own = size_of::<T>() == size_of::<f64>() || noise::<T>(lower.as_ref(), par) <= NOISE;
        let arithmetic = if own {
            Arithmetic::Own(Mat::from_fn(r, r, |i, j| <T as kstore::Real>::from_f64(lower[(i, j)])))
        } else {
            Arithmetic::Wide(widened(&landmarks))
        };
        let (exact, kernel) = (<f64 as Real>::kernel(kernel.clone()), T::kernel(kernel.clone()));
        Self { kernel, exact, landmarks, lower, arithmetic }
    }

    /// True where blocks and solve are computed in f64 because `T` is not accurate enough for these landmarks.
    pub fn is_wide(&self) -> bool {
        matches!(self.arithmetic, Arithmetic::Wide(_))
    }

    /// True where predictions from kernel values in `T` would carry more than [`NOISE`] at rank `rank`.
    pub fn needs_wide(&self, rank: usize, par: Par) -> bool {
        self.is_wide() && noise::<T>(self.lower.submatrix(0, 0, rank, rank), par) > NOISE
    }

    /// The landmarks that were kept, in their order.
    pub fn landmarks(&self) -> &LandmarkSet<T> {
        &self.landmarks
    }

    /// The rank r: the number of landmarks that were kept.
    pub fn rank(&self) -> usize {
        self.lower.nrows()
    }

    /// `L⁻ᵀ w` for weights on the leading `w.nrows()` coordinates: the coefficients of the same function on
    /// `k_S(x)`, so that predicting needs the kernel block and no triangular solve. In f64.
    pub fn dual(&self, weights: MatRef<'_, f64>) -> Mat<f64> {
        let r = weights.nrows();
        let mut dual = weights.to_owned();
        // sequential: with a single right side faer's parallel solve has other bits for other numbers of threads
        solve_upper_triangular_in_place(self.lower.submatrix(0, 0, r, r).transpose(), dual.as_mut(), Par::Seq);
        dual
    }

    /// Bytes of a map of `m` landmarks with `d` features.
    pub fn bytes(m: usize, d: usize) -> usize {
        bytes(m, d, size_of::<T>())
    }
}

/// The landmarks in f64.
pub(super) fn widened<T: Real>(landmarks: &LandmarkSet<T>) -> Vec<f64> {
    landmarks.points.iter().map(|v| kstore::Real::to_f64(*v)).collect()
}

/// Expected share of the trace that rounding in `T` takes off or adds to the residuals: ε² Σ_j k_jj (K_SS⁻¹)_jj.
///
/// A kernel value with relative error ε moves the features by L⁻¹ of it; summed over independent errors of size
/// ε·√(k_ii k_jj) that is ε² k_ii Σ_j k_jj ‖L⁻¹e_j‖². Cost m³/3 flops, m² numbers.
fn noise<T: Real>(lower: MatRef<'_, f64>, par: Par) -> f64 {
    let r = lower.nrows();
    let mut inverse = Mat::<f64>::zeros(r, r);
    invert_lower_triangular(inverse.as_mut(), lower, par);
    let sum: f64 = (0..r)
        .map(|j| {
            let diagonal: f64 = (0..=j).map(|c| lower[(j, c)] * lower[(j, c)]).sum();
            diagonal * inverse.col(j).subrows(j, r - j).squared_norm_l2()
        })
        .sum();
    (<T as kstore::Real>::EPSILON / 2.0).powi(2) * sum
}

/// K_SS in f64, full.
pub(super) fn kernel_matrix<T: Real>(kernel: &Arc<dyn AnyKernel>, landmarks: &LandmarkSet<T>) -> Result<Mat<f64>> {
    let m = landmarks.len();
    let wide = widened(landmarks);
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
        workers.each(strips(x, out), |(x, mut out)| match &self.arithmetic {
            Arithmetic::Own(lower) => {
                self.kernel.block(x, z, out.rb_mut());
                solve_lower_triangular_in_place(lower.as_ref(), out.transpose_mut(), Par::Seq);
            }
            Arithmetic::Wide(z) => narrowed(x, out, |x, mut phi| {
                self.exact.block(x, MatRef::from_row_major_slice(z, self.rank(), x.ncols()), phi.rb_mut());
                solve_lower_triangular_in_place(self.lower.as_ref(), phi.transpose_mut(), Par::Seq);
            }),
        });
    }

    fn kernel_diag(&self, x: MatRef<'_, T>, out: &mut [f64]) -> Option<()> {
        self.kernel.diag(x, out);
        Some(())
    }

    fn expand(&self, weights: MatRef<'_, f64>, workers: &Workers) -> Expansion<T> {
        let r = weights.nrows();
        let wide = workers.install(|| self.needs_wide(r, super::par(workers)));
        let leading: Vec<usize> = (0..r).collect();
        Expansion::Landmarks { landmarks: self.landmarks.keep(&leading), coefficients: self.dual(weights), wide }
    }

    fn footprint(&self) -> Footprint {
        Footprint { fixed: Self::bytes(self.rank(), self.landmarks.d), per_row: 0 }
    }
}

/// The features of a strip computed in f64 and narrowed at the end.
pub(super) fn narrowed<T: Real>(
    x: MatRef<'_, T>,
    mut out: MatMut<'_, T>,
    features: impl Fn(MatRef<'_, f64>, MatMut<'_, f64>),
) {
    let (b, d) = (x.nrows(), x.ncols());
    let x: Vec<f64> = (0..b).flat_map(|i| x.row(i).iter().map(|v| kstore::Real::to_f64(*v))).collect();
    let mut phi = Mat::<f64>::zeros(b, out.ncols());
    features(MatRef::from_row_major_slice(&x, b, d), phi.as_mut());
    for j in 0..out.ncols() {
        for (to, from) in out.rb_mut().col_mut(j).iter_mut().zip(phi.col(j).iter()) {
            *to = <T as kstore::Real>::from_f64(*from);
        }
    }
}

/// Cuts rows and their features into strips of [`STRIP`] rows.
pub(crate) fn strips<'a, T, U>(x: MatRef<'a, T>, out: MatMut<'a, U>) -> Vec<(MatRef<'a, T>, MatMut<'a, U>)> {
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
