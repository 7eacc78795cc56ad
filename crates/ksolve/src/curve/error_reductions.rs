//! Two passes. The measuring pass computes the features of every row, their approximation errors
//! and the Gram matrix for training. The test pass scores several linear heads on test rows.

use crate::{
    Error, GramScratch, GramState, LinearHead, Result, bins::Targets, linalg::dot_products::copy_as_f64,
    linalg::strips::for_each_strip,
};
use faer::{Accum, Mat, MatRef, Par, linalg::matmul::matmul};
use kapprox::quality::{ColumnReduction, ColumnScratch, ColumnSums};
use kapprox::{FeatureMap, Real};
use kstore::{LabelCodes, Reduction, RowBlock, Workers};
use std::time::Instant;

/// The measuring pass. *Cost per row*, for p features and c sampled columns of the kernel matrix:
/// the features, c kernel evaluations, 2cp flops for the errors, and p² flops for the Gram matrix.
/// Each worker lane stores a tile of features, once in `T` and once in f64.
pub(super) struct MeasuringReduction<'a, T: Real> {
    pub(super) map: &'a dyn FeatureMap<T>,
    pub(super) column_reduction: &'a ColumnReduction<'a, T>,
    /// Targets to learn; `None` if nothing is learned.
    pub(super) targets: Option<&'a Targets>,
    pub(super) tile_rows: usize,
}

pub(super) struct MeasuredSums {
    pub(super) column_sums: ColumnSums,
    pub(super) gram: Option<GramState>,
    /// Time to compute the features, in seconds, over all processes.
    pub(super) feature_seconds: f64,
}

kstore::summed!(MeasuredSums { part "columns": column_sums, some "gram": gram, one "forming": feature_seconds });

pub(super) struct Scratch<T> {
    phi: Mat<T>,
    column_scratch: ColumnScratch,
    gram_scratch: GramScratch<T>,
    /// Targets of a tile, b x t, column-major.
    y: Vec<f64>,
}

impl<T: Real> Reduction<T> for MeasuringReduction<'_, T> {
    type State = MeasuredSums;
    type Scratch = Scratch<T>;
    type Error = Error;

    fn init(&self) -> MeasuredSums {
        let p = self.map.dims().1;
        let gram = self.targets.map(|targets| GramState::new(p, targets.count(), 1));
        MeasuredSums { column_sums: self.column_reduction.new_sums(), gram, feature_seconds: 0.0 }
    }

    fn scratch(&self) -> Scratch<T> {
        let phi = Mat::zeros(self.tile_rows, self.map.dims().1);
        Scratch {
            phi,
            column_scratch: self.column_reduction.new_scratch(),
            gram_scratch: GramScratch::default(),
            y: Vec::new(),
        }
    }

    fn step(
        &self,
        sums: &mut MeasuredSums,
        scratch: &mut Scratch<T>,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<()> {
        let (b, start) = (block.len(), Instant::now());
        let Scratch { phi, column_scratch, gram_scratch, y } = scratch;
        let mut phi = phi.as_mut().subrows_mut(0, b);
        self.map.apply(MatRef::from_row_major_slice(block.x, b, block.d), phi.as_mut(), workers);
        sums.feature_seconds += start.elapsed().as_secs_f64();
        let phi = phi.as_ref();
        self.column_reduction.add_block(&mut sums.column_sums, column_scratch, block, phi, workers)?;
        let (Some(gram_state), Some(targets)) = (&mut sums.gram, self.targets) else { return Ok(()) };
        y.clear();
        for j in 0..targets.count() {
            for i in 0..b {
                y.push(targets.value(block, i, j)?);
            }
        }
        gram_state.update(0, phi, MatRef::from_column_major_slice(y, b, targets.count()), gram_scratch, workers)
    }
}

/// Number of rows that one thread scores at once: 256 x 2,000 features in f64 take 4 MB.
const SCORE_STRIP_ROWS: usize = 256;

/// The test pass, which scores linear heads (weights on the leading features). *Cost per row*: the
/// features, and 2·rank·t flops per head for t targets. Each worker lane stores a tile of features,
/// and each thread a strip of the tile in f64.
pub(super) struct TestErrorReduction<'a, T: Real> {
    pub(super) map: &'a dyn FeatureMap<T>,
    /// Linear heads, each on some leading features.
    pub(super) heads: &'a [LinearHead],
    pub(super) targets: &'a Targets,
    pub(super) tile_rows: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct TestSums {
    row_count: u64,
    /// Per head, the sum of squared errors over rows and targets, or the number of misclassified
    /// rows.
    loss_sums: Vec<f64>,
}

impl TestSums {
    /// Returns the mean error of each head over the rows, and over the targets of a regression;
    /// `None` without rows.
    pub(super) fn means(&self, targets: &Targets) -> Option<Vec<f64>> {
        let losses_per_row = match targets {
            Targets::Numeric { centre } => centre.len() as f64,
            Targets::Classes(_) => 1.0,
        };
        (self.row_count > 0)
            .then(|| self.loss_sums.iter().map(|loss| loss / (self.row_count as f64 * losses_per_row)).collect())
    }
}

kstore::summed!(TestSums { one "rows": row_count, fill "losses": loss_sums });

impl<T: Real> Reduction<T> for TestErrorReduction<'_, T> {
    type State = TestSums;
    type Scratch = Mat<T>;
    type Error = Error;

    fn init(&self) -> TestSums {
        TestSums { row_count: 0, loss_sums: vec![0.0; self.heads.len()] }
    }

    fn scratch(&self) -> Mat<T> {
        Mat::zeros(self.tile_rows, self.map.dims().1)
    }

    fn step(&self, state: &mut TestSums, phi: &mut Mat<T>, block: &RowBlock<'_, T>, workers: &Workers) -> Result<()> {
        let (b, head_count) = (block.len(), self.heads.len());
        let mut phi = phi.as_mut().subrows_mut(0, b);
        self.map.apply(MatRef::from_row_major_slice(block.x, b, block.d), phi.as_mut(), workers);
        let phi = phi.as_ref();
        let mut losses = vec![0.0; b.div_ceil(SCORE_STRIP_ROWS) * head_count];
        for_each_strip(workers, &mut losses, head_count.max(1), |strip, losses| {
            let row_range = strip * SCORE_STRIP_ROWS..((strip + 1) * SCORE_STRIP_ROWS).min(b);
            self.compute_losses(phi, block, row_range, losses);
        });
        // strips are added in order, so the number of threads never changes a sum
        for (i, loss) in losses.iter().enumerate() {
            state.loss_sums[i % head_count] += loss;
        }
        state.row_count += b as u64;
        Ok(())
    }
}

impl<T: Real> TestErrorReduction<'_, T> {
    /// Adds the errors of some rows of a block to `losses`, one number per head.
    fn compute_losses(
        &self,
        phi: MatRef<'_, T>,
        block: &RowBlock<'_, T>,
        row_range: std::ops::Range<usize>,
        losses: &mut [f64],
    ) {
        let (row_count, p) = (row_range.len(), phi.ncols());
        let mut phi_f64 = vec![0.0; row_count * p];
        copy_as_f64(phi.subrows(row_range.start, row_count), &mut phi_f64);
        let phi = MatRef::from_column_major_slice(&phi_f64, row_count, p);
        for (head, loss) in self.heads.iter().zip(losses) {
            let mut scores = Mat::from_fn(row_count, head.intercept.len(), |_, j| head.intercept[j]);
            let leading_features = phi.subcols(0, head.weights.nrows());
            matmul(scores.as_mut(), Accum::Add, leading_features, head.weights.as_ref(), 1.0, Par::Seq);
            *loss = (0..row_count).map(|i| self.loss(scores.row(i).iter().copied(), block, row_range.start + i)).sum();
        }
    }

    fn loss(&self, scores: impl Iterator<Item = f64>, block: &RowBlock<'_, T>, row: usize) -> f64 {
        match self.targets {
            Targets::Numeric { .. } => {
                let y = &block.y[row * block.t..(row + 1) * block.t];
                scores.zip(y).map(|(score, y)| (y - score).powi(2)).sum()
            }
            // if no training row has the label of a row, the row counts as misclassified
            Targets::Classes(classes) => {
                let code = block.classes.as_ref().map_or(LabelCodes::UNKNOWN, |coded| coded.codes[row]);
                let is_wrong = code == LabelCodes::UNKNOWN || classes.decide(scores) != code as usize;
                f64::from(u8::from(is_wrong))
            }
        }
    }
}
