//! Landmarks whose kernel sections are linearly independent in f64 arithmetic, and the Cholesky
//! factor of their kernel matrix.

use super::factor::{Factor, MAX_AMPLIFICATION, PIVOT_FLOOR, amplification, factor, factor_in_place};
use crate::{Error, Real, Result, kernel::AnyKernel, landmark_set::LandmarkSet};
use faer::{Mat, MatMut, MatRef};
use kpass::Workers;
use std::sync::Arc;

/// Thresholds of the residual of a landmark z, as fractions of k(z, z). They define a new order of
/// the landmarks if a feature exceeds [`MAX_AMPLIFICATION`] in the original order.
///
/// The landmarks whose residual under the landmarks before them exceeds the first fraction come
/// first, in their original order. The landmarks whose residual exceeds the second fraction follow,
/// and so on down to [`PIVOT_FLOOR`]. This is pivoting with a threshold of 1/100. Coefficients stay
/// small because no landmark has a residual that is much larger than the residuals of the landmarks
/// before it, and the original order is kept as far as possible. If successive thresholds had the
/// ratio 1/1,000, the amplification would be ten times as large; with 1/10,000, a hundred times.
const PIVOT_LEVELS: [f64; 5] = [1e-2, 1e-4, 1e-6, 1e-8, 1e-10];

/// Number of leading thresholds that make features accurate in f32: later thresholds reorder only
/// landmarks whose features f32 cannot represent anyway. (Measured on 2,000 uniform rows of `dsa`
/// and `kin40k`: two thresholds give the same drift as all five.)
const NARROW_LEVELS: usize = 2;

/// Landmarks, and the lower triangular L for which `L Lᵀ` is their kernel matrix.
pub(super) struct IndependentLandmarks<T> {
    pub(super) landmarks: LandmarkSet<T>,
    /// L, r x r.
    pub(super) lower: Mat<f64>,
    pub(super) amplifications: Vec<f64>,
}

impl<T: Real> IndependentLandmarks<T> {
    /// Returns the independent landmarks. If no feature exceeds [`MAX_AMPLIFICATION`] in the
    /// original order, the landmarks keep this order; otherwise they are ordered by
    /// [`PIVOT_LEVELS`].
    ///
    /// Costs m²d + 2m³/3 flops for m landmarks if they keep their order; otherwise m²d + m²r flops
    /// for each level, where r is the number of independent landmarks.
    pub(super) fn new(kernel: &Arc<dyn AnyKernel>, landmarks: LandmarkSet<T>, workers: &Workers) -> Result<Self> {
        let independent = Self::factor_in_order(kernel_matrix(kernel, &landmarks)?, &landmarks, workers)?;
        if independent.accurate_feature_count(MAX_AMPLIFICATION) == independent.amplifications.len() {
            return Ok(independent);
        }
        drop(independent);
        Self::order_by_levels(kernel, landmarks, MAX_AMPLIFICATION, workers)
    }

    /// Orders the landmarks by the leading [`NARROW_LEVELS`] of [`PIVOT_LEVELS`], so that their
    /// features are accurate in f32. Costs m²d + m²r flops for each of these levels and the factor.
    pub(super) fn order_for_f32(self, kernel: &Arc<dyn AnyKernel>, workers: &Workers) -> Result<Self> {
        let Self { landmarks, lower, .. } = self;
        drop(lower);
        Self::order_by_thresholds(kernel, landmarks, &PIVOT_LEVELS[..NARROW_LEVELS], MAX_AMPLIFICATION, workers)
    }

    /// Orders the landmarks by [`PIVOT_LEVELS`]. Drops the first landmark whose feature amplifies
    /// rounding by more than `max_amplification`, and all later landmarks.
    pub(super) fn order_by_levels(
        kernel: &Arc<dyn AnyKernel>,
        landmarks: LandmarkSet<T>,
        max_amplification: f64,
        workers: &Workers,
    ) -> Result<Self> {
        Self::order_by_thresholds(kernel, landmarks, &PIVOT_LEVELS, max_amplification, workers)
    }

    fn order_by_thresholds(
        kernel: &Arc<dyn AnyKernel>,
        mut landmarks: LandmarkSet<T>,
        thresholds: &[f64],
        max_amplification: f64,
        workers: &Workers,
    ) -> Result<Self> {
        let mut k = Mat::zeros(landmarks.len(), landmarks.len());
        for threshold in thresholds {
            fill_kernel_matrix(kernel, &landmarks, k.as_mut())?;
            let mut order = factor_in_place(&mut k, *threshold, workers)?;
            let is_kept: Vec<bool> = (0..landmarks.len()).map(|i| order.binary_search(&i).is_ok()).collect();
            order.extend((0..landmarks.len()).filter(|i| !is_kept[*i]));
            landmarks = landmarks.subset(&order);
        }
        fill_kernel_matrix(kernel, &landmarks, k.as_mut())?;
        Ok(Self::factor_in_order(k, &landmarks, workers)?.truncate_inaccurate(max_amplification))
    }

    /// Factors the kernel matrix of the landmarks in their order.
    fn factor_in_order(kernel_matrix: Mat<f64>, landmarks: &LandmarkSet<T>, workers: &Workers) -> Result<Self> {
        let Factor { lower, kept_rows } = factor(kernel_matrix, PIVOT_FLOOR, workers)?;
        let amplifications = amplification(lower.as_ref(), workers)?;
        Ok(Self { landmarks: landmarks.subset(&kept_rows), lower, amplifications })
    }

    /// Returns the number of leading features that amplify rounding by at most `max_amplification`.
    fn accurate_feature_count(&self, max_amplification: f64) -> usize {
        self.amplifications.iter().take_while(|amplification| **amplification <= max_amplification).count()
    }

    fn truncate_inaccurate(mut self, max_amplification: f64) -> Self {
        let r = self.accurate_feature_count(max_amplification);
        if r < self.amplifications.len() {
            self.landmarks = self.landmarks.subset(&(0..r).collect::<Vec<_>>());
            self.lower = self.lower.submatrix(0, 0, r, r).to_owned();
            self.amplifications.truncate(r);
        }
        self
    }
}

pub(crate) fn to_f64_vec<T: Real>(values: &[T]) -> Vec<f64> {
    values.iter().map(|value| value.to_f64()).collect()
}

/// Computes the kernel matrix K_SS of the landmarks in f64, with both triangles.
pub(crate) fn kernel_matrix<T: Real>(kernel: &Arc<dyn AnyKernel>, landmarks: &LandmarkSet<T>) -> Result<Mat<f64>> {
    let mut k = Mat::zeros(landmarks.len(), landmarks.len());
    fill_kernel_matrix(kernel, landmarks, k.as_mut())?;
    Ok(k)
}

fn fill_kernel_matrix<T: Real>(
    kernel: &Arc<dyn AnyKernel>,
    landmarks: &LandmarkSet<T>,
    mut k: MatMut<'_, f64>,
) -> Result<()> {
    let m = landmarks.len();
    let points = to_f64_vec(&landmarks.points);
    let z = MatRef::from_row_major_slice(&points, m, landmarks.d);
    kernel.typed::<f64>().block(z, z, k.as_mut());
    if (0..m).all(|j| (j..m).all(|i| k[(i, j)].is_finite())) {
        return Ok(());
    }
    Err(Error::NotFinite {
        what: format!("the kernel {} between two landmarks", kernel.typed::<f64>().spec()),
        remedy: "scale the features or lower the kernel's degree or gamma".to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FeatureMap;
    use crate::kernel::{defined_gaussian, pointwise};
    use crate::map::NystromMap;

    /// Returns 200 points of the interval [0, 1], not sorted.
    fn points_on_line(kernel: Arc<dyn AnyKernel>) -> (Arc<dyn AnyKernel>, LandmarkSet<f64>) {
        let points = (0..200).map(|i| (f64::from(i) * 0.754_877_666).fract()).collect();
        let set = LandmarkSet { points, row_numbers: (0..200).collect(), d: 1, passes: 0, evaluations: 0 };
        (kernel, set)
    }

    #[test]
    fn sound_landmarks_keep_their_order() {
        let (kernel, set) = points_on_line(pointwise("laplacian".to_string(), |x, z| (-(x[0] - z[0]).abs()).exp()));
        let independent = IndependentLandmarks::new(&kernel, set.clone(), &Workers::sequential()).unwrap();
        assert_eq!(independent.landmarks, set);
    }

    #[test]
    fn dependent_landmarks_are_ordered_by_levels() {
        let (kernel, set) = points_on_line(defined_gaussian(0.3));
        let ordered =
            IndependentLandmarks::factor_in_order(kernel_matrix(&kernel, &set).unwrap(), &set, &Workers::sequential())
                .unwrap();
        assert!(
            ordered.accurate_feature_count(MAX_AMPLIFICATION) < ordered.landmarks.len(),
            "{:?}",
            ordered.amplifications
        );
        let independent = IndependentLandmarks::new(&kernel, set.clone(), &Workers::sequential()).unwrap();
        assert!(independent.amplifications.iter().all(|amplified| *amplified <= MAX_AMPLIFICATION));
        // the pivots decrease by levels, and the landmarks of a level keep their order
        let first = (0..independent.landmarks.len())
            .take_while(|j| independent.lower[(*j, *j)].powi(2) > PIVOT_LEVELS[0])
            .count();
        assert!(
            first > 2 && independent.landmarks.row_numbers[..first].is_sorted(),
            "{:?}",
            independent.landmarks.row_numbers
        );
        assert!(!independent.landmarks.row_numbers.is_sorted());
        let k = kernel_matrix(&kernel, &independent.landmarks).unwrap();
        assert!((&independent.lower * independent.lower.transpose() - k).norm_max() < 1e-14);
        // the landmarks span every point up to rounding
        assert!(
            independent.landmarks.len() > ordered.accurate_feature_count(MAX_AMPLIFICATION),
            "{} {}",
            independent.landmarks.len(),
            ordered.accurate_feature_count(MAX_AMPLIFICATION)
        );
    }

    /// Points of the unit square, each followed by a close neighbour: the feature of the neighbour
    /// is nearly a derivative, which amplifies rounding and is large at all other points.
    #[test]
    fn close_neighbours_come_last_if_the_order_is_free() {
        let fraction = |i: usize, step: f64| (i as f64 * step).fract();
        let points: Vec<f32> = (0..80)
            .map(|i| (i / 2, if i % 2 == 1 { 3e-3 } else { 0.0 }))
            .flat_map(|(i, shift)| [fraction(i, 0.754_877_666) + shift, fraction(i, 0.569_840_29)])
            .map(|coordinate| coordinate as f32)
            .collect();
        let set = LandmarkSet { points, row_numbers: (0..80).collect(), d: 2, passes: 0, evaluations: 0 };
        let (kernel, workers) = (defined_gaussian(0.12), Workers::sequential());
        let map = |keeps_order| NystromMap::with_order(keeps_order, &kernel, set.clone(), &workers).unwrap();
        let (in_order, reordered) = (map(true), map(false));
        assert!(in_order.is_in_f64() && in_order.landmarks() == &set);
        assert!(!reordered.is_in_f64());
        let mut rows = reordered.landmarks().row_numbers.clone();
        assert!(!rows.is_sorted());
        rows.sort_unstable();
        assert_eq!(rows, set.row_numbers);
        // both maps have the same inner products
        let products = |map: &NystromMap<f32>| {
            let x = MatRef::from_row_major_slice(&set.points, 80, 2);
            let mut phi = Mat::zeros(80, 80);
            map.apply(x, phi.as_mut(), &workers);
            &phi * phi.transpose()
        };
        assert!((products(&in_order) - products(&reordered)).norm_max() < 1e-5);
    }

    #[test]
    fn unsound_landmarks_are_dropped() {
        let (kernel, set) = points_on_line(defined_gaussian(0.3));
        let ordered =
            IndependentLandmarks::factor_in_order(kernel_matrix(&kernel, &set).unwrap(), &set, &Workers::sequential())
                .unwrap();
        let (sound, lower) = (ordered.accurate_feature_count(MAX_AMPLIFICATION), ordered.lower.clone());
        let truncated = ordered.truncate_inaccurate(MAX_AMPLIFICATION);
        assert_eq!(
            (truncated.landmarks.len(), truncated.lower.nrows(), truncated.amplifications.len()),
            (sound, sound, sound)
        );
        assert_eq!(truncated.lower, lower.submatrix(0, 0, sound, sound).to_owned());
    }
}
