//! The Nyström map in Cholesky coordinates: `phi(x) = L⁻¹ k_S(x)`, where k_S(x) are the kernel
//! values of x with the landmarks S, and `L Lᵀ = K_SS` is the kernel matrix of the landmarks.
//!
//! `phi(x)·phi(z) = k_S(x)ᵀ K_SS⁻¹ k_S(z)` is the orthogonal projection of the kernel onto the span
//! of the landmarks, so K̂ ≼ K. The certificate sums `k(x,x) − ‖phi(x)‖²` over all rows x: it is
//! the squared distance, in feature space, of x from this span.
//!
//! The coordinates are **nested**: feature j depends on the first j landmarks only, so the leading
//! r features are the features of the rank-r map. (The symmetric form `K_SS^(-1/2) k_S(x)` is not
//! nested and costs twice as much.)
//!
//! References: Williams, Seeger 2000; the Cholesky form is the incomplete Cholesky factorisation of
//! Fine, Scheinberg, JMLR 2, 2001.

use super::factor::{MAX_AMPLIFICATION, amplification};
use super::family::{LandmarkMapArgs, MapConstructorPair, MapFamily, MapResult, MapShape};
use super::independent::{IndependentLandmarks, to_f64_vec};
use super::{Expansion, FeatureMap};
use crate::kernel::{AnyKernel, FixedKernel, PreparedPoints};
use crate::landmark_set::LandmarkSet;
use crate::substitution::LowerFactor;
use crate::{Error, Real, Result};
use faer::linalg::triangular_solve::solve_upper_triangular_in_place;
use faer::prelude::{Reborrow, ReborrowMut};
use faer::{Mat, MatMut, MatRef, Par, unzip, zip};
use kpass::{BufferPool, Footprint, Workers};
use std::sync::Arc;

pub(super) const FAMILY: MapFamily = MapFamily {
    name: "nystrom",
    summary: "projection onto the kernel sections of the landmarks, in Cholesky coordinates; nested \
        in the rank",
    parameters: &[],
    is_nested: true,
    supports_sparse: true,
    build_passes: 0,
    shape: |_, request| {
        let footprint = Footprint { fixed: map_bytes(request.rank, request.d, request.element_bytes), per_row: 0 };
        // the kernel matrix, a copy of the landmarks, and the landmarks in f64
        let build_bytes = request.rank * (8 * request.rank + request.d * (2 * request.element_bytes + 8));
        MapShape { p: request.rank, landmark_count: Some(request.rank), footprint, build_bytes }
    },
    constructor: MapConstructorPair::from_landmarks(build, build),
};

pub(super) fn build<T: Real>(args: LandmarkMapArgs<'_, T>) -> MapResult<T> {
    let LandmarkMapArgs { kernel, landmarks, workers, keeps_order, .. } = args;
    Ok(Box::new(NystromMap::with_order(keeps_order, kernel, landmarks, workers)?))
}

fn map_bytes(m: usize, d: usize, element_bytes: usize) -> usize {
    m * d * (element_bytes + size_of::<f64>()) + m * m * size_of::<f64>() + LowerFactor::<f64>::bytes(m)
}

/// Number of rows that one thread maps at a time. A strip of 288 rows with 2,000 features in f32 is
/// about the size of a second-level cache. 288 is a multiple of all panel heights (48 and 24 rows
/// with AVX-512, 16 and 8 with AVX2).
pub const STRIP_ROWS: usize = 288;

/// Largest noise of a map whose features are computed in `T`: the change of the residuals of all
/// rows that rounding causes, as a fraction of the trace.
///
/// If a map is computed in f32 and in f64, the two trace errors differ by 6 to 10 times its noise
/// (measured on `tests/certificate.rs` at noises from 5e-8 to 3e-4). At this limit they differ by
/// 3e-6. Above it, the features are computed in f64, and the results are rounded to `T`.
const MAX_NOISE: f64 = 3e-7;

/// Largest relative first-order change of the features by rounding in `T`. It is half of the
/// relative amount by which ‖phi(x)‖² may exceed k(x, x).
///
/// If the landmarks are in pivot order, the change is 1e-7 to 5e-7 at every rank, because large
/// coefficients belong to small features. In other orders, and with smooth kernels, it is up to
/// 1e-5 (measured on normal rows in 1 to 5 dimensions, at a noise just below [`MAX_NOISE`]).
const MAX_DRIFT: f64 = 5e-7;

/// If a map has at most this many features, the change by rounding is bounded for every possible
/// row. If the bound exceeds [`MAX_DRIFT`], the features are computed in f64, which costs little
/// for few features.
///
/// Suppose that two landmarks have nearly the same direction in feature space. The second feature
/// is then small at both landmarks and amplifies rounding, but it is large at rows in other
/// directions of the plane that the landmarks span. The change at the landmarks does not reveal
/// this. If there are many landmarks, some lie in these other directions, and the change at the
/// landmarks reveals the amplification.
const FEW_FEATURES: usize = 32;

/// Largest amplification of the features that are kept if ‖phi(x)‖² exceeds k(x, x) although the
/// features are computed in f64. With this limit, kernel values with errors of a hundred machine
/// epsilons change features by 1e-8.
const REDUCED_AMPLIFICATION: f64 = 1e-4 * MAX_AMPLIFICATION;

/// The Nyström map of a kernel and m landmarks.
///
/// Stores the landmarks (m·d numbers), the m x m factor in f64, and the triangle of the factor once
/// more in the type in which the features are computed. Mapping n rows costs 2nmd flops for the
/// kernel blocks and nm² flops for the triangular solve. If nearly dependent landmarks amplify the
/// rounding of `T` too much, kernel blocks and solve are computed in f64, and a whole fit takes
/// about 1.5 times as long. A fit of a single rank first tries an order of the landmarks in which
/// `T` suffices.
#[derive(Debug)]
pub struct NystromMap<T: Real> {
    kernel: Arc<dyn AnyKernel>,
    landmarks: LandmarkSet<T>,
    /// L in f64, r x r.
    lower: Mat<f64>,
    arithmetic: Arithmetic<T, LowerFactor<T>, LowerFactor<f64>>,
}

/// The number type in which kernel blocks and features are computed, and, in this type, the matrix
/// that turns kernel values into features: an `N` in `T`, or a `W` in f64.
#[derive(Debug)]
pub(super) enum Arithmetic<T: Real, N, W> {
    /// In `T`.
    Native(N, FixedKernel<T>),
    /// In f64, with the landmarks converted to f64.
    F64(Vec<f64>, W, FixedKernel<f64>),
}

impl<T: Real, N, W> Arithmetic<T, N, W> {
    pub(super) fn new_native(kernel: &Arc<dyn AnyKernel>, landmarks: &LandmarkSet<T>, matrix: N) -> Self {
        Self::Native(matrix, FixedKernel::for_blocks(kernel.typed::<T>(), landmarks.as_mat()))
    }

    pub(super) fn new_f64(kernel: &Arc<dyn AnyKernel>, landmarks: &LandmarkSet<T>, matrix: W) -> Self {
        let points = to_f64_vec(&landmarks.points);
        let z = MatRef::from_row_major_slice(&points, landmarks.len(), landmarks.d);
        let fixed_kernel = FixedKernel::for_blocks(kernel.typed::<f64>(), z);
        Self::F64(points, matrix, fixed_kernel)
    }

    /// Returns true if features are computed in `T` and `T` is narrower than f64.
    pub(super) fn is_narrow(&self) -> bool {
        size_of::<T>() < size_of::<f64>() && !self.is_in_f64()
    }

    pub(super) fn is_in_f64(&self) -> bool {
        matches!(self, Self::F64(..))
    }

    /// Returns the bytes of the points prepared for blocks.
    pub(super) fn prepared_bytes(&self) -> usize {
        match self {
            Self::Native(_, fixed_kernel) => fixed_kernel.bytes(),
            Self::F64(_, _, fixed_kernel) => fixed_kernel.bytes(),
        }
    }
}

impl<T: Real> NystromMap<T> {
    /// Factors the landmarks' kernel matrix in f64 and drops dependent landmarks.
    ///
    /// The landmarks keep their order if no feature amplifies rounding too much. Otherwise there
    /// are more landmarks than f64 can distinguish, and the landmarks with the largest residuals
    /// come first, so that the leading r features are the map of r good landmarks.
    ///
    /// Costs m²d + 2m³/3 flops for m landmarks. If their order changes, it costs 5m²(d + r) flops
    /// in addition, for a map of rank r.
    ///
    /// # Errors
    /// [`Error::NoLandmarks`] if no landmark is left, [`Error::NotFinite`] if the kernel overflows.
    pub fn new(kernel: &Arc<dyn AnyKernel>, landmarks: LandmarkSet<T>, workers: &Workers) -> Result<Self> {
        Self::with_order(true, kernel, landmarks, workers)
    }

    /// Does the work of [`NystromMap::new`]. If `keeps_order` is false and the original order of
    /// the landmarks needs f64, tries another order, in which `T` may suffice.
    pub(super) fn with_order(
        keeps_order: bool,
        kernel: &Arc<dyn AnyKernel>,
        landmarks: LandmarkSet<T>,
        workers: &Workers,
    ) -> Result<Self> {
        let kernel_f64 = kernel.typed::<f64>();
        crate::kernel::require_positive_definite(&*kernel_f64, "the Nyström map")?;
        let mut independent = IndependentLandmarks::new(kernel, landmarks, workers)?;
        if independent.landmarks.is_empty() {
            return Err(Error::NoLandmarks {
                why: "the kernel is zero at every landmark; choose another kernel or other landmarks".to_string(),
            });
        }
        let suffices = |independent: &IndependentLandmarks<T>| {
            precision_suffices::<T>(independent.lower.as_ref(), &independent.amplifications)
        };
        let mut is_native = suffices(&independent);
        if !is_native && !keeps_order && order_may_suffice::<T>(&independent.amplifications) {
            independent = independent.order_for_f32(kernel, workers)?;
            is_native = suffices(&independent);
        }
        let IndependentLandmarks { landmarks, lower, .. } = independent;
        Ok(Self::in_arithmetic(is_native, kernel, landmarks, lower))
    }

    pub(crate) fn from_factor(
        kernel: &Arc<dyn AnyKernel>,
        landmarks: LandmarkSet<T>,
        lower: Mat<f64>,
        workers: &Workers,
    ) -> Result<Self> {
        let is_native = size_of::<T>() == size_of::<f64>()
            || precision_suffices::<T>(lower.as_ref(), &amplification(lower.as_ref(), workers)?);
        Ok(Self::in_arithmetic(is_native, kernel, landmarks, lower))
    }

    fn in_arithmetic(is_native: bool, kernel: &Arc<dyn AnyKernel>, landmarks: LandmarkSet<T>, lower: Mat<f64>) -> Self {
        let arithmetic = match is_native {
            true => Arithmetic::new_native(kernel, &landmarks, LowerFactor::new(lower.as_ref())),
            false => Arithmetic::new_f64(kernel, &landmarks, LowerFactor::new(lower.as_ref())),
        };
        Self { kernel: kernel.clone(), landmarks, lower, arithmetic }
    }

    /// Drops the landmarks whose features are mostly rounding; returns false if there are none.
    ///
    /// Even in f64, kernel values have errors of many machine epsilons if the terms of a distance
    /// cancel, for example if points are many length scales away from the origin.
    fn drop_noisy_landmarks(&mut self) -> bool {
        let independent = IndependentLandmarks::order_by_levels(
            &self.kernel,
            self.landmarks.clone(),
            REDUCED_AMPLIFICATION,
            &Workers::sequential(),
        );
        let Ok(IndependentLandmarks { landmarks, lower, .. }) = independent else { return false };
        let has_dropped = !landmarks.is_empty() && landmarks.len() < self.landmarks.len();
        if has_dropped {
            *self = Self::in_arithmetic(size_of::<T>() == size_of::<f64>(), &self.kernel.clone(), landmarks, lower);
        }
        has_dropped
    }

    /// Returns whether blocks and solve are computed in f64 because `T` is not accurate enough for
    /// these landmarks.
    pub fn is_in_f64(&self) -> bool {
        self.arithmetic.is_in_f64()
    }

    /// Returns whether kernel values in `T` are too coarse for predictions at rank `rank`.
    pub fn needs_f64(&self, rank: usize, workers: &Workers) -> bool {
        let lower = self.lower.submatrix(0, 0, rank, rank);
        // a cancelled run does not use the answer
        self.is_in_f64()
            && !amplification(lower, workers)
                .is_ok_and(|amplifications| precision_suffices::<T>(lower, &amplifications))
    }

    /// Returns the kept landmarks, in their order.
    pub fn landmarks(&self) -> &LandmarkSet<T> {
        &self.landmarks
    }

    /// Returns the rank r, the number of kept landmarks.
    pub fn rank(&self) -> usize {
        self.lower.nrows()
    }

    /// Returns in f64 the dual coefficients `L⁻ᵀ w`, where w are `weights` on the leading
    /// `weights.nrows()` coordinates.
    ///
    /// The dual coefficients define the same function, because wᵀ`phi(x)` = (`L⁻ᵀ w`)ᵀ `k_S(x)`.
    /// Prediction therefore needs the kernel block but no triangular solve.
    pub fn dual_coefficients(&self, weights: MatRef<'_, f64>) -> Mat<f64> {
        let r = weights.nrows();
        let mut dual_coefficients = weights.to_owned();
        // sequential, because for a single right-hand side the bits of faer's parallel solve depend
        // on the number of threads
        solve_upper_triangular_in_place(
            self.lower.submatrix(0, 0, r, r).transpose(),
            dual_coefficients.as_mut(),
            Par::Seq,
        );
        dual_coefficients
    }

    /// Returns the bytes of a map of `m` landmarks with `d` inputs.
    pub fn bytes(m: usize, d: usize) -> usize {
        map_bytes(m, d, size_of::<T>())
    }
}

/// Returns whether `T` is accurate enough for landmarks with the factor L.
fn precision_suffices<T: Real>(lower: MatRef<'_, f64>, amplifications: &[f64]) -> bool {
    let squared_feature_sum = |j: usize| lower.col(j).subrows(j, lower.nrows() - j).squared_norm_l2();
    let squared_feature_sums: Vec<f64> = (0..lower.nrows()).map(squared_feature_sum).collect();
    sums_allow_precision::<T>(&squared_feature_sums, amplifications)
}

/// Returns whether kernel values and features can be computed in `T`. `squared_feature_sums` are
/// the squares of each feature, summed over some rows, and `amplifications` are the amplifications
/// of the features.
///
/// Let ε be the relative error of kernel values and a_j the amplification of feature j. The errors
/// change feature j of row i by ε √(a_j k_ii). The residuals of all rows therefore change by the
/// fraction ε² Σ_j a_j of the trace, which must be at most [`MAX_NOISE`]. To first order, they also
/// change by 2ε √ā, where ā is the mean of the a_j weighted with `squared_feature_sums`; this
/// change must be at most twice [`MAX_DRIFT`].
pub(super) fn sums_allow_precision<T: Real>(squared_feature_sums: &[f64], amplifications: &[f64]) -> bool {
    let epsilon = T::EPSILON / 2.0;
    let weighted_sum: f64 =
        squared_feature_sums.iter().zip(amplifications).map(|(squared_sum, a)| squared_sum * a).sum();
    let drift = epsilon * (weighted_sum / squared_feature_sums.iter().sum::<f64>()).sqrt();
    let max_amplification = amplifications.iter().copied().fold(0.0, f64::max);
    let holds_for_any_row = amplifications.len() > FEW_FEATURES || epsilon * max_amplification.sqrt() <= MAX_DRIFT;
    noise::<T>(amplifications) <= MAX_NOISE && drift <= MAX_DRIFT && holds_for_any_row
}

/// Returns the fraction of the trace by which the rounding of `T` changes the residuals.
fn noise<T: Real>(amplifications: &[f64]) -> f64 {
    let epsilon = T::EPSILON / 2.0;
    epsilon * epsilon * amplifications.iter().sum::<f64>()
}

/// Returns whether another order of the landmarks may make `T` accurate enough. The order changes
/// the drift but not the noise: if all k(z, z) are 1, Σ_j a_j is the trace of K_SS⁻¹.
fn order_may_suffice<T: Real>(amplifications: &[f64]) -> bool {
    amplifications.len() > FEW_FEATURES && noise::<T>(amplifications) <= MAX_NOISE
}

impl<T: Real> FeatureMap<T> for NystromMap<T> {
    fn dims(&self) -> (usize, usize) {
        (self.landmarks.d, self.rank())
    }

    fn apply(&self, x: MatRef<'_, T>, out: MatMut<'_, T>, workers: &Workers) {
        let (z, pool) = (self.landmarks.as_mat(), BufferPool::default());
        workers.for_each(strips(x, out), |(x, mut out)| match &self.arithmetic {
            // a cancelled pass discards the features
            _ if workers.is_cancelled() => (),
            Arithmetic::Native(lower, kernel) => {
                kernel.fill_block(x, z, out.rb_mut());
                lower.solve(out);
            }
            Arithmetic::F64(z, lower, kernel) => compute_in_f64(x, out, &pool, |x, mut phi| {
                kernel.fill_block(x, MatRef::from_row_major_slice(z, self.rank(), x.ncols()), phi.rb_mut());
                lower.solve(phi);
            }),
        });
    }

    fn kernel_diag(&self, x: MatRef<'_, T>, out: &mut [f64]) -> Option<()> {
        self.kernel.typed::<T>().diag(x, out);
        Some(())
    }

    fn expand(&self, weights: MatRef<'_, f64>, workers: &Workers) -> Expansion<T> {
        let r = weights.nrows();
        let needs_f64 = self.needs_f64(r, workers);
        let leading_positions: Vec<usize> = (0..r).collect();
        Expansion::Landmarks {
            landmarks: self.landmarks.subset(&leading_positions),
            dual_coefficients: self.dual_coefficients(weights),
            needs_f64,
        }
    }

    fn raise_precision(&mut self) -> bool {
        if !self.arithmetic.is_narrow() {
            return self.drop_noisy_landmarks();
        }
        self.arithmetic = Arithmetic::new_f64(&self.kernel, &self.landmarks, LowerFactor::new(self.lower.as_ref()));
        true
    }

    fn truncate(&mut self, r: usize) -> bool {
        let r = r.min(self.rank());
        let leading_positions: Vec<usize> = (0..r).collect();
        let (landmarks, lower) =
            (self.landmarks.subset(&leading_positions), self.lower.submatrix(0, 0, r, r).to_owned());
        *self = Self::in_arithmetic(!self.is_in_f64(), &self.kernel.clone(), landmarks, lower);
        true
    }

    fn footprint(&self) -> Footprint {
        Footprint { fixed: Self::bytes(self.rank(), self.landmarks.d) + self.arithmetic.prepared_bytes(), per_row: 0 }
    }
}

/// Calls `use_matrix` with a matrix of this shape from the `pool`; the contents of the matrix are
/// unspecified. Matrices are reused, so that the operating system does not clear new pages for
/// every strip.
pub(super) fn with_matrix<E: Real>(
    pool: &BufferPool<Mat<E>>,
    (rows, columns): (usize, usize),
    use_matrix: impl FnOnce(MatMut<'_, E>),
) {
    pool.with_buffer(Mat::new, |matrix| {
        if matrix.nrows() < rows || matrix.ncols() < columns {
            *matrix = Mat::zeros(rows, columns);
        }
        use_matrix(matrix.as_mut().submatrix_mut(0, 0, rows, columns));
    });
}

/// Computes the features of a strip in f64, and rounds the results to `T`. `compute_features(x,
/// phi)` writes the features of rows in f64.
pub(super) fn compute_in_f64<T: Real>(
    x: MatRef<'_, T>,
    out: MatMut<'_, T>,
    pool: &BufferPool<Mat<f64>>,
    compute_features: impl Fn(MatRef<'_, f64>, MatMut<'_, f64>),
) {
    let (b, d) = (x.nrows(), x.ncols());
    let x: Vec<f64> = (0..b).flat_map(|i| x.row(i).iter().map(|v| v.to_f64())).collect();
    with_matrix(pool, (b, out.ncols()), |mut phi| {
        compute_features(MatRef::from_row_major_slice(&x, b, d), phi.rb_mut());
        zip!(out, phi.rb()).for_each(|unzip!(to, from)| *to = T::from_f64(*from));
    });
}

/// Splits rows and their features into strips of [`STRIP_ROWS`] rows.
pub(crate) fn strips<'a, T, U>(x: MatRef<'a, T>, out: MatMut<'a, U>) -> Vec<(MatRef<'a, T>, MatMut<'a, U>)> {
    let mut row_strips = Vec::with_capacity(x.nrows().div_ceil(STRIP_ROWS));
    let (mut x, mut out) = (x, out);
    while x.nrows() > STRIP_ROWS {
        let (x_head, x_tail) = x.split_at_row(STRIP_ROWS);
        let (out_head, out_tail) = out.split_at_row_mut(STRIP_ROWS);
        row_strips.push((x_head, out_head));
        (x, out) = (x_tail, out_tail);
    }
    row_strips.push((x, out));
    row_strips
}
