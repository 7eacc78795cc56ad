//! Some rows of features, and their products.

use crate::strips::for_each_strip;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use kapprox::Real;
use kstore::Workers;

/// Rows of a strip of a product: 256 x 1,000 features in f32 are 1 MB.
const STRIP: usize = 256;

/// Features of a panel of a transposed product.
const PANEL: usize = 128;

/// Some rows of features.
#[derive(Clone, Copy, Debug)]
pub struct Tile<'a, T> {
    /// Position of the first row among all rows of the fit.
    pub first: usize,
    /// Features, b x p row-major.
    pub phi: &'a [T],
    pub(super) p: usize,
}

impl<T: Real> Tile<'_, T> {
    /// Rows b.
    pub fn rows(&self) -> usize {
        self.phi.len() / self.p
    }

    /// The features of row `i` of the tile.
    pub fn row(&self, i: usize) -> &[T] {
        &self.phi[i * self.p..(i + 1) * self.p]
    }

    /// `out` (b x c row-major) = Φ·`weights` (p x c row-major). Strips of rows go to the workers. 2pc flops a row.
    pub fn times(&self, weights: &[T], out: &mut [T], workers: &Workers) {
        let (p, c) = (self.p, weights.len() / self.p);
        let weights = MatRef::from_row_major_slice(weights, p, c);
        for_each_strip(workers, out, STRIP * c, |strip, out| {
            let rows = out.len() / c;
            let phi = MatRef::from_row_major_slice(&self.phi[strip * STRIP * p..][..rows * p], rows, p);
            let out = MatMut::from_row_major_slice_mut(out, rows, c);
            matmul(out, Accum::Replace, phi, weights, T::ONE, Par::Seq);
        });
    }

    /// `sums` (p x c row-major) += Φᵀ·`right` (b x c row-major): the product in the type of the features, the sum in
    /// f64. Panels of features go to the workers. 2pc flops a row.
    pub fn add_transposed(&self, right: &[T], sums: &mut [f64], workers: &Workers) {
        let (b, p) = (self.rows(), self.p);
        let c = right.len() / b.max(1);
        let phi = MatRef::from_row_major_slice(self.phi, b, p);
        let right = MatRef::from_row_major_slice(right, b, c);
        for_each_strip(workers, sums, PANEL * c, |panel, sums| {
            let width = sums.len() / c;
            let mut product = vec![T::ZERO; width * c];
            let out = MatMut::from_row_major_slice_mut(&mut product, width, c);
            let left = phi.subcols(panel * PANEL, width).transpose();
            matmul(out, Accum::Replace, left, right, T::ONE, Par::Seq);
            sums.iter_mut().zip(&product).for_each(|(sum, product)| *sum += product.to_f64());
        });
    }
}
