//! A pass that collects rows in bins of a fixed size, computes the features of each full bin, and
//! passes the bin to a [`BinReduction`].

use crate::bins::{BIN_ROWS, Bins};
use crate::{Error, Folds, Result, Targets};
use kapprox::{FeatureMap, Real};
use kstore::{Merge, Reduction, RowBlock, Workers};

/// What a pass computes from bins of rows and features.
pub trait BinReduction<T: Real>: Sync {
    /// The result of the pass.
    type State: Merge + Send;
    /// Buffers that a worker lane reuses for all its bins.
    type Scratch: Send + Default;
    /// Returns the state before any row.
    fn init(&self) -> Self::State;
    /// Adds a bin to the state. The bin contains rows of one fold and class;
    /// `bins.mapped_bin(bin_index)` returns them with their features. The bin index is fold ·
    /// number of classes + class.
    ///
    /// # Errors
    /// An error for numbers that are not finite.
    fn add_bin(
        &self,
        state: &mut Self::State,
        scratch: &mut Self::Scratch,
        bin_index: usize,
        bins: &mut Bins<T>,
        workers: &Workers,
    ) -> Result<()>;
}

/// A pass that computes features, and passes bins of rows and features to a [`BinReduction`].
#[derive(Debug)]
pub struct FeatureReduction<'a, T, S> {
    map: &'a dyn FeatureMap<T>,
    folds: &'a Folds,
    targets: &'a Targets,
    bin_rows: usize,
    /// Number of classes, if every class of a fold has its own bin; 1 for one bin per fold.
    pub(crate) class_count: usize,
    pub(crate) bin_reduction: S,
}

impl<'a, T: Real, S: BinReduction<T>> FeatureReduction<'a, T, S> {
    /// Returns a pass over the features of `map`, in bins of 2,048 rows, one bin per fold.
    pub fn with_bin_reduction(
        map: &'a dyn FeatureMap<T>,
        folds: &'a Folds,
        targets: &'a Targets,
        bin_reduction: S,
    ) -> Self {
        Self { map, folds, targets, bin_rows: BIN_ROWS, class_count: 1, bin_reduction }
    }

    /// Sets the number of rows of a bin. It determines the order of summation, so it must depend
    /// only on the size of the problem, never on memory or threads.
    #[must_use]
    pub fn with_bin_rows(self, rows: usize) -> Self {
        Self { bin_rows: rows.max(1), ..self }
    }

    fn add_bin(
        &self,
        state: &mut S::State,
        scratch: &mut S::Scratch,
        bin_index: usize,
        bins: &mut Bins<T>,
        workers: &Workers,
    ) -> Result<()> {
        bins.map_bin(bin_index, self.map, workers);
        self.bin_reduction.add_bin(state, scratch, bin_index, bins, workers)
    }
}

impl<T: Real, S: BinReduction<T>> Reduction<T> for FeatureReduction<'_, T, S> {
    type State = S::State;
    type Scratch = (Bins<T>, S::Scratch);
    type Error = Error;

    fn init(&self) -> S::State {
        self.bin_reduction.init()
    }

    fn scratch(&self) -> Self::Scratch {
        let (d, p) = self.map.dims();
        let bins = Bins::new(d, p, self.targets.count(), self.folds.count() * self.class_count, self.bin_rows);
        (bins, S::Scratch::default())
    }

    fn step(
        &self,
        state: &mut S::State,
        (bins, scratch): &mut Self::Scratch,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<()> {
        bins.push(block, self.folds, self.class_count, self.targets, |bins, bin_index| {
            self.add_bin(state, scratch, bin_index, bins, workers)
        })
    }

    fn flush(&self, state: &mut S::State, (bins, scratch): &mut Self::Scratch, workers: &Workers) -> Result<()> {
        bins.flush(|bins, bin_index| self.add_bin(state, scratch, bin_index, bins, workers))
    }
}
