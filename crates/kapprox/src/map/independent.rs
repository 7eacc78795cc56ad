//! The landmarks that are independent in f64, and the factor of their kernel matrix.

use super::factor::{Factor, MOST_AMPLIFIED, PIVOT_FLOOR, amplification, factor};
use crate::{Error, Real, Result, kernel::AnyKernel, rows::LandmarkSet};
use faer::{Mat, MatRef};
use kpass::Workers;
use std::sync::Arc;

/// Thresholds of the residual, as fractions of k(z, z), that reorder landmarks if their original
/// order is not sound.
///
/// The landmarks whose residual under the earlier ones exceeds the first fraction come first, in
/// their original order; then the landmarks that exceed the second, and so on to [`PIVOT_FLOOR`].
/// This is pivoting with a threshold of 1/100: coefficients stay small because no landmark is much
/// larger than the ones before it, and the order is kept as far as possible. Levels of 1/1,000
/// amplify ten times as much, and levels of 1/10,000 a hundred times.
const LEVELS: [f64; 5] = [1e-2, 1e-4, 1e-6, 1e-8, 1e-10];

/// Landmarks and L, with `L Lᵀ` their kernel matrix.
pub(super) struct Independent<T> {
    pub(super) landmarks: LandmarkSet<T>,
    /// L, r x r.
    pub(super) lower: Mat<f64>,
    pub(super) amplified: Vec<f64>,
}

impl<T: Real> Independent<T> {
    /// Returns the independent landmarks, in their order if no feature then exceeds
    /// [`MOST_AMPLIFIED`], and otherwise by [`LEVELS`].
    ///
    /// Cost m²d + 2m³/3 flops in their order, otherwise m²d + m²r for each level.
    pub(super) fn of(kernel: &Arc<dyn AnyKernel>, landmarks: LandmarkSet<T>, workers: &Workers) -> Result<Self> {
        let given = Self::in_order(kernel, &landmarks, workers)?;
        if given.sound(MOST_AMPLIFIED) == given.amplified.len() {
            return Ok(given);
        }
        drop(given);
        Self::by_levels(kernel, landmarks, MOST_AMPLIFIED, workers)
    }

    /// Orders the landmarks by [`LEVELS`] and cuts them off at the first whose feature amplifies
    /// rounding by more than `most`.
    pub(super) fn by_levels(
        kernel: &Arc<dyn AnyKernel>,
        mut landmarks: LandmarkSet<T>,
        most: f64,
        workers: &Workers,
    ) -> Result<Self> {
        for share in LEVELS {
            let mut order = factor(kernel_matrix(kernel, &landmarks)?, share, workers)?.kept;
            let ahead: Vec<bool> = (0..landmarks.len()).map(|i| order.binary_search(&i).is_ok()).collect();
            order.extend((0..landmarks.len()).filter(|i| !ahead[*i]));
            landmarks = landmarks.keep(&order);
        }
        Ok(Self::in_order(kernel, &landmarks, workers)?.leading(most))
    }

    fn in_order(kernel: &Arc<dyn AnyKernel>, landmarks: &LandmarkSet<T>, workers: &Workers) -> Result<Self> {
        let Factor { lower, kept } = factor(kernel_matrix(kernel, landmarks)?, PIVOT_FLOOR, workers)?;
        let amplified = amplification(lower.as_ref(), workers)?;
        Ok(Self { landmarks: landmarks.keep(&kept), lower, amplified })
    }

    /// Returns the number of leading features that amplify rounding by at most `most`.
    fn sound(&self, most: f64) -> usize {
        self.amplified.iter().take_while(|amplified| **amplified <= most).count()
    }

    fn leading(mut self, most: f64) -> Self {
        let r = self.sound(most);
        if r < self.amplified.len() {
            self.landmarks = self.landmarks.keep(&(0..r).collect::<Vec<_>>());
            self.lower = self.lower.submatrix(0, 0, r, r).to_owned();
            self.amplified.truncate(r);
        }
        self
    }
}

pub(crate) fn widened<T: Real>(numbers: &[T]) -> Vec<f64> {
    numbers.iter().map(|value| value.to_f64()).collect()
}

/// Computes K_SS in f64, full.
pub(crate) fn kernel_matrix<T: Real>(kernel: &Arc<dyn AnyKernel>, landmarks: &LandmarkSet<T>) -> Result<Mat<f64>> {
    let m = landmarks.len();
    let wide = widened(&landmarks.points);
    let z = MatRef::from_row_major_slice(&wide, m, landmarks.d);
    let mut k = Mat::<f64>::zeros(m, m);
    kernel.typed::<f64>().block(z, z, k.as_mut());
    if (0..m).all(|j| (j..m).all(|i| k[(i, j)].is_finite())) {
        return Ok(k);
    }
    Err(Error::NotFinite {
        what: format!("the kernel {} between two landmarks", kernel.typed::<f64>().spec()),
        remedy: "scale the features or lower the kernel's degree or gamma".to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{defined_gaussian, pointwise};

    /// Returns 200 points of the interval [0, 1], not sorted.
    fn line(kernel: Arc<dyn AnyKernel>) -> (Arc<dyn AnyKernel>, LandmarkSet<f64>) {
        let points = (0..200).map(|i| (f64::from(i) * 0.754_877_666).fract()).collect();
        let set = LandmarkSet { points, rows: (0..200).collect(), d: 1, passes: 0, evaluations: 0 };
        (kernel, set)
    }

    #[test]
    fn sound_landmarks_keep_their_order() {
        let (kernel, set) = line(pointwise("laplacian".to_string(), |x, z| (-(x[0] - z[0]).abs()).exp()));
        let found = Independent::of(&kernel, set.clone(), &Workers::sequential()).unwrap();
        assert_eq!(found.landmarks, set);
    }

    #[test]
    fn landmarks_that_hide_each_other_come_by_levels() {
        let (kernel, set) = line(defined_gaussian(0.3));
        let given = Independent::in_order(&kernel, &set, &Workers::sequential()).unwrap();
        assert!(given.sound(MOST_AMPLIFIED) < given.landmarks.len(), "{:?}", given.amplified);
        let found = Independent::of(&kernel, set.clone(), &Workers::sequential()).unwrap();
        assert!(found.amplified.iter().all(|amplified| *amplified <= MOST_AMPLIFIED));
        // the pivots decrease by levels, and the landmarks of a level keep their order
        let first = (0..found.landmarks.len()).take_while(|j| found.lower[(*j, *j)].powi(2) > LEVELS[0]).count();
        assert!(first > 2 && found.landmarks.rows[..first].is_sorted(), "{:?}", found.landmarks.rows);
        assert!(!found.landmarks.rows.is_sorted());
        let k = kernel_matrix(&kernel, &found.landmarks).unwrap();
        assert!((&found.lower * found.lower.transpose() - k).norm_max() < 1e-14);
        // and they span every point up to rounding
        assert!(
            found.landmarks.len() > given.sound(MOST_AMPLIFIED),
            "{} {}",
            found.landmarks.len(),
            given.sound(MOST_AMPLIFIED)
        );
    }

    #[test]
    fn what_is_not_sound_is_cut_off() {
        let (kernel, set) = line(defined_gaussian(0.3));
        let given = Independent::in_order(&kernel, &set, &Workers::sequential()).unwrap();
        let (sound, lower) = (given.sound(MOST_AMPLIFIED), given.lower.clone());
        let cut = given.leading(MOST_AMPLIFIED);
        assert_eq!((cut.landmarks.len(), cut.lower.nrows(), cut.amplified.len()), (sound, sound, sound));
        assert_eq!(cut.lower, lower.submatrix(0, 0, sound, sound).to_owned());
    }
}
