//! The matrix ΦᵀΦ over all rows, summed in f64 over tiles.

use super::{FeatureMap, par};
use crate::{Error, Real, Result};
use faer::{Accum, Mat, MatRef, linalg::matmul::matmul, prelude::*, unzip, zip};
use kpass::checkpoint::{Arrays, Persist, StoredArrays};
use kpass::{Merge, Reduction, RowBlock, Workers};

/// A reduction that sums ΦᵀΦ for p features. Costs 2np² flops for n rows. Each lane stores 2p²
/// numbers (the sum, and the products of one tile), and bp numbers for the features of a tile of b
/// rows.
pub(crate) struct GramReduction<'a, T: Real> {
    pub(crate) map: &'a dyn FeatureMap<T>,
    pub(crate) tile_rows: usize,
}

/// ΦᵀΦ, p x p.
pub(crate) struct FeatureGram(pub(crate) Mat<f64>);

impl Merge for FeatureGram {
    fn merge(&mut self, later: &Self) {
        self.0 += &later.0;
    }
}

impl Persist for FeatureGram {
    fn save<'a>(&'a self, out: &mut Arrays<'a>) {
        for j in 0..self.0.ncols() {
            out.put(&j.to_string(), self.0.col_as_slice(j));
        }
    }

    fn load(&mut self, from: &mut StoredArrays<'_>) -> kpass::Result<()> {
        (0..self.0.ncols()).try_for_each(|j| from.fill(&j.to_string(), self.0.col_as_slice_mut(j)))
    }
}

impl<T: Real> Reduction<T> for GramReduction<'_, T> {
    type State = FeatureGram;
    type Scratch = (Mat<T>, Mat<T>);
    type Error = Error;

    fn init(&self) -> FeatureGram {
        let p = self.map.dims().1;
        FeatureGram(Mat::zeros(p, p))
    }

    fn scratch(&self) -> Self::Scratch {
        let p = self.map.dims().1;
        (Mat::zeros(self.tile_rows, p), Mat::zeros(p, p))
    }

    fn step(
        &self,
        state: &mut FeatureGram,
        (phi, tile_gram): &mut Self::Scratch,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<()> {
        let x = MatRef::from_row_major_slice(block.x, block.len(), block.d);
        let mut phi = phi.as_mut().subrows_mut(0, block.len());
        self.map.apply(x, phi.rb_mut(), workers);
        let phi = phi.as_ref();
        workers.install(|| {
            matmul(tile_gram.as_mut(), Accum::Replace, phi.transpose(), phi, T::ONE, par(workers));
        });
        zip!(&mut state.0, &*tile_gram).for_each(|unzip!(sum, product)| *sum += product.to_f64());
        Ok(())
    }
}
