//! One pass for all that needs the features of every row: their errors, and the Gram matrix that is learned from.

use crate::bins::Targets;
use crate::{Error, GramScratch, GramState, Result};
use faer::{Mat, MatRef};
use kapprox::quality::{ColumnFold, ColumnScratch, ColumnSums};
use kapprox::{FeatureMap, Real};
use kstore::{Fold, RowBlock, Workers};
use std::time::Instant;

/// The fold that measures. A row costs its features, c kernel evaluations and 2cp flops for c columns, and p² for the
/// Gram matrix; a lane holds a tile of features, once in `T` and once in f64.
pub(super) struct Measuring<'a, T: Real> {
    pub(super) map: &'a dyn FeatureMap<T>,
    pub(super) columns: &'a ColumnFold<'a, T>,
    /// The targets to learn; `None` where nothing is learned.
    pub(super) targets: Option<&'a Targets>,
    pub(super) tile: usize,
}

pub(super) struct Measured {
    pub(super) columns: ColumnSums,
    pub(super) gram: Option<GramState>,
    /// Seconds that the forming of features took, in all processes together.
    pub(super) forming: f64,
}

kstore::summed!(Measured { part "columns": columns, some "gram": gram, one "forming": forming });

pub(super) struct Scratch<T> {
    phi: Mat<T>,
    columns: ColumnScratch,
    gram: GramScratch<T>,
    /// The targets of a tile, b x t, column-major.
    y: Vec<f64>,
}

impl<T: Real> Fold<T> for Measuring<'_, T> {
    type State = Measured;
    type Scratch = Scratch<T>;
    type Error = Error;

    fn init(&self) -> Measured {
        let p = self.map.dims().1;
        let gram = self.targets.map(|targets| GramState::new(p, targets.count(), 1));
        Measured { columns: self.columns.begin(), gram, forming: 0.0 }
    }

    fn scratch(&self) -> Scratch<T> {
        let phi = Mat::zeros(self.tile, self.map.dims().1);
        Scratch { phi, columns: self.columns.buffers(), gram: GramScratch::default(), y: Vec::new() }
    }

    fn step(
        &self,
        state: &mut Measured,
        scratch: &mut Scratch<T>,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<()> {
        let (b, started) = (block.len(), Instant::now());
        let Scratch { phi, columns, gram, y } = scratch;
        let mut phi = phi.as_mut().subrows_mut(0, b);
        self.map.apply(MatRef::from_row_major_slice(block.x, b, block.d), phi.as_mut(), workers);
        state.forming += started.elapsed().as_secs_f64();
        let phi = phi.as_ref();
        self.columns.take(&mut state.columns, columns, block, phi, workers)?;
        let (Some(state), Some(targets)) = (&mut state.gram, self.targets) else { return Ok(()) };
        y.clear();
        for j in 0..targets.count() {
            for i in 0..b {
                y.push(targets.value(block, i, j)?);
            }
        }
        state.update(0, phi, MatRef::from_column_major_slice(y, b, targets.count()), gram, workers)
    }
}
