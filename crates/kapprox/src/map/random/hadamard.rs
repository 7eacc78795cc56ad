//! Structured rotations: products of random signs and Hadamard transforms.
//!
//! A block multiplies d inputs, padded with zeros to n = 2^k, by H D₃ H D₂ H D₁ / n^{3/2}, which is
//! orthogonal and acts on the inputs nearly like a uniformly distributed rotation. Entry j of the
//! result, times the length of a normal vector, is the product of frequency j with the row.
//!
//! Reference: Yu et al., "Orthogonal random features", NIPS 2016, section 5 (there all lengths are
//! √n; drawing them keeps the law of the plain frequencies).

use super::frequencies::draw_length;
use crate::{Real, vectorised};
use faer::{MatMut, MatRef};
use rand::{Rng, RngExt};

/// Largest number of inputs for which a dense rotation matrix is used instead: the transforms
/// cost no less there, and their rows are not uniform.
///
/// Signs give few rotations in few dimensions: at n = 2 and 4 most directions never occur, and the
/// fourth cumulant of a coordinate is off by 0.09 at n = 8, 0.03 at 16 and 0.007 at 32.
pub(super) const MAX_DENSE_FEATURES: usize = 16;

/// Blocks of n frequencies each.
#[derive(Debug)]
pub(super) struct StructuredRotation<T> {
    /// n, a power of two.
    width: usize,
    /// Signs, 3 n per block.
    signs: Vec<T>,
    /// Factor of each frequency, which multiplies its row of the blocks.
    lengths: Vec<T>,
    /// Factor of each input.
    scale: Vec<T>,
}

impl<T: Real> StructuredRotation<T> {
    /// Draws `count` frequencies in turns; `mixture` draws the scale of a radial law, `scale` is
    /// 1/(2π length scale) per input.
    pub(super) fn new(count: usize, scale: &[f64], mixture: &dyn Fn(&mut dyn Rng) -> f64, rng: &mut dyn Rng) -> Self {
        let width = scale.len().next_power_of_two();
        let blocks = count.div_ceil(width);
        let number = T::from_f64;
        let signs = (0..3 * blocks * width).map(|_| if rng.random::<bool>() { T::ONE } else { T::ZERO - T::ONE });
        let signs = signs.collect();
        // each transform of length n multiplies lengths by √n
        let norm = (width as f64).powf(-1.5);
        let lengths = (0..count).map(|_| number(draw_length(width, rng) * mixture(rng) * norm)).collect();
        Self { width, signs, lengths, scale: scale.iter().map(|v| number(*v)).collect() }
    }

    pub(super) fn bytes(&self) -> usize {
        (self.signs.len() + self.lengths.len() + self.scale.len()) * size_of::<T>()
    }

    /// Computes `out[i, j]`, the turns of frequency j at x_i; out is b x count, column-major. The
    /// columns of a strip are transformed together, so that each butterfly is a loop over rows.
    pub(super) fn apply(&self, x: MatRef<'_, T>, mut out: MatMut<'_, T>) {
        let (b, n) = (x.nrows(), self.width);
        let mut columns = vec![T::ZERO; n * b];
        for (block, first) in (0..self.lengths.len()).step_by(n).enumerate() {
            columns.fill(T::ZERO);
            for (c, scale) in self.scale.iter().enumerate() {
                for (i, value) in columns[c * b..(c + 1) * b].iter_mut().enumerate() {
                    *value = x[(i, c)] * *scale;
                }
            }
            for factor in 0..3 {
                let signs = &self.signs[(3 * block + factor) * n..(3 * block + factor + 1) * n];
                columns.chunks_exact_mut(b).zip(signs).for_each(|(column, sign)| multiply(column, *sign));
                walsh_hadamard(&mut columns, b);
            }
            let last = (first + n).min(self.lengths.len());
            for (column, j) in columns.chunks_exact(b).zip(first..last) {
                let length = self.lengths[j];
                out.as_mut().col_mut(j).iter_mut().zip(column).for_each(|(out, value)| *out = *value * length);
            }
        }
    }
}

fn multiply<T: Real>(column: &mut [T], factor: T) {
    vectorised!(column.iter_mut().for_each(|value| *value *= factor));
}

/// Applies the unnormalised Walsh–Hadamard transform to columns of b numbers; their count is a
/// power of two.
fn walsh_hadamard<T: Real>(columns: &mut [T], b: usize) {
    let mut half = b;
    while half < columns.len() {
        for pair in columns.chunks_exact_mut(2 * half) {
            let (left, right) = pair.split_at_mut(half);
            vectorised!({
                for (left, right) in left.iter_mut().zip(right) {
                    (*left, *right) = (*left + *right, *left - *right);
                }
            });
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transform_is_the_product_with_hadamards_matrix() {
        let (n, b) = (16, 3);
        let x: Vec<f64> = (0..n * b).map(|i| (i as f64 * 0.7).sin()).collect();
        let mut y = x.clone();
        walsh_hadamard(&mut y, b);
        for i in 0..b {
            for j in 0..n {
                let sign = |c: usize| if (c & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
                let expected: f64 = (0..n).map(|c| sign(c) * x[c * b + i]).sum();
                assert!((y[j * b + i] - expected).abs() < 1e-13);
            }
        }
    }
}
