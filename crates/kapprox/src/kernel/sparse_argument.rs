//! Computes the argument of two sparse points: the number to which a profile is applied. It is
//! computed from the features that both points have. If this result would be inaccurate, it is
//! computed from all entries, aligned by feature.

use crate::Real;
use kpass::sparse::entries;

/// The number, computed from two points, to which a profile is applied. Sums over the features that
/// both points have, and the norms of the points, determine it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SparseArgument {
    /// x·z.
    Product,
    /// (‖x − z‖ / length)².
    SquaredDistance { length: f64 },
    /// ‖x − z‖₁ / length.
    Distance { length: f64 },
    /// Σ (x − z)² / (x + z), for non-negative numbers.
    ChiSquare,
    /// Σ min(x, z), for non-negative numbers.
    Minimum,
    /// Σ 2 x z / (x + z), for non-negative numbers.
    HarmonicMean,
}

/// Fraction of the sum of the norms below which a distance is recomputed. A distance at 2^-10 of
/// this sum still has 43 correct bits, and few pairs are below it.
const RECOMPUTE_FRACTION: f64 = 1.0 / 1024.0;

impl SparseArgument {
    /// Returns what a feature that both points have adds to the sum. For a distance, the sum is
    /// subtracted from the norms.
    #[inline(always)]
    pub(super) fn common_term(self, x: f64, z: f64) -> f64 {
        match self {
            Self::Product => x * z,
            Self::SquaredDistance { .. } => 2.0 * x * z,
            Self::Distance { .. } => x.abs() + z.abs() - (x - z).abs(),
            Self::ChiSquare => 4.0 * product_over_sum(x, z),
            Self::Minimum => x.min(z),
            Self::HarmonicMean => 2.0 * product_over_sum(x, z),
        }
    }

    /// Returns the norm of a point. For a distance it is the contribution of the point, ‖x‖² or
    /// ‖x‖₁; for other arguments it is the argument of the point with itself.
    pub(super) fn norm<T: Real>(self, values: &[T]) -> f64 {
        let values = values.iter().map(|value| value.to_f64());
        match self {
            Self::Product | Self::SquaredDistance { .. } => values.map(|value| value * value).sum(),
            _ => values.map(f64::abs).sum(),
        }
    }

    /// Converts the sums of a point with other points to arguments. `norm` is the norm of the
    /// point, `other_norms` are the norms of the other points, and `align(j)` returns the entries
    /// of the point and of point j, aligned by feature.
    pub(super) fn arguments(
        self,
        sums: &mut [f64],
        norm: f64,
        other_norms: &[f64],
        mut align: impl FnMut(usize) -> (Vec<f64>, Vec<f64>),
    ) {
        for (j, (sum, other_norm)) in sums.iter_mut().zip(other_norms).enumerate() {
            let norm_sum = norm + other_norm;
            let distance = norm_sum - *sum;
            let is_far = distance > RECOMPUTE_FRACTION * norm_sum && distance.is_finite();
            *sum = match self {
                Self::Product if sum.is_finite() => *sum,
                Self::Product => scaled_product(align(j)),
                Self::SquaredDistance { length } => {
                    let distance = if is_far { distance } else { sum_over_pairs(align(j), |x, z| (x - z) * (x - z)) };
                    let unit = length.recip();
                    (distance * unit * unit).min(f64::MAX)
                }
                Self::Distance { length } => {
                    let distance = if is_far { distance } else { sum_over_pairs(align(j), |x, z| (x - z).abs()) };
                    (distance * length.recip()).min(f64::MAX)
                }
                Self::ChiSquare if is_far => distance.min(f64::MAX),
                // features that are 0 in both points are not listed
                Self::ChiSquare => sum_over_pairs(align(j), |x, z| (x - z) * ((x - z) / (x + z))).min(f64::MAX),
                Self::Minimum | Self::HarmonicMean => sum.min(f64::MAX),
            };
        }
    }

    /// Returns the argument of a point with itself.
    pub(super) fn self_argument<T: Real>(self, values: &[T]) -> f64 {
        match self {
            Self::Product | Self::Minimum | Self::HarmonicMean => self.norm(values),
            Self::SquaredDistance { .. } | Self::Distance { .. } | Self::ChiSquare => 0.0,
        }
    }
}

/// Returns x z / (x + z). The result is bit-identical if x and z are exchanged, because blocks may
/// exchange them.
#[inline(always)]
fn product_over_sum(x: f64, z: f64) -> f64 {
    x.max(z) * (x.min(z) / (x + z))
}

fn sum_over_pairs((x, z): (Vec<f64>, Vec<f64>), term: impl Fn(f64, f64) -> f64) -> f64 {
    x.iter().zip(&z).map(|(x, z)| term(*x, *z)).sum()
}

/// Returns x·z, computed from points whose values are scaled to at most 1, so that only the last
/// product can overflow.
fn scaled_product((x, z): (Vec<f64>, Vec<f64>)) -> f64 {
    let largest = |v: &[f64]| v.iter().fold(f64::MIN_POSITIVE, |max, value| max.max(value.abs()));
    let (x_largest, z_largest) = (largest(&x), largest(&z));
    let sum: f64 = x.iter().zip(&z).map(|(x, z)| x / x_largest * (z / z_largest)).sum();
    // the order of the products does not change if x and z are exchanged
    (sum * x_largest.max(z_largest) * x_largest.min(z_largest)).clamp(-f64::MAX, f64::MAX)
}

/// Returns the values of two points for each feature that at least one of them has.
pub(super) fn align_entries<T: Real>(x: &[T], z: &[T]) -> (Vec<f64>, Vec<f64>) {
    let ((x_indices, x_values), (z_indices, z_values)) = (entries(x), entries(z));
    let (mut i, mut j) = (0, 0);
    let (mut x_aligned, mut z_aligned) = (Vec::new(), Vec::new());
    while i < x_indices.len() || j < z_indices.len() {
        let (x_index, z_index) = (x_indices.get(i), z_indices.get(j));
        let has_x = x_index.is_some_and(|index| z_index.is_none_or(|other| index <= other));
        let has_z = z_index.is_some_and(|index| x_index.is_none_or(|other| index <= other));
        x_aligned.push(if has_x { x_values[i].to_f64() } else { 0.0 });
        z_aligned.push(if has_z { z_values[j].to_f64() } else { 0.0 });
        (i, j) = (i + usize::from(has_x), j + usize::from(has_z));
    }
    (x_aligned, z_aligned)
}
