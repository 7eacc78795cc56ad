//! One pass for all that needs the features of every row: their errors, and the Gram matrix that is learned from. And one for the error of
//! several linear functions of the features on test rows.

use crate::{
    Error, GramScratch, GramState, Head, Result, bins::Targets, linalg::dots::widen, linalg::strips::for_each_strip,
};
use faer::{Accum, Mat, MatRef, Par, linalg::matmul::matmul};
use kapprox::quality::{ColumnFold, ColumnScratch, ColumnSums};
use kapprox::{FeatureMap, Real};
use kstore::{Coded, Fold, RowBlock, Workers};
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

pub(super) struct MeasuredSums {
    pub(super) columns: ColumnSums,
    pub(super) gram: Option<GramState>,
    /// Seconds that the forming of features took, in all processes together.
    pub(super) forming: f64,
}

kstore::summed!(MeasuredSums { part "columns": columns, some "gram": gram, one "forming": forming });

pub(super) struct Scratch<T> {
    phi: Mat<T>,
    columns: ColumnScratch,
    gram: GramScratch<T>,
    /// The targets of a tile, b x t, column-major.
    y: Vec<f64>,
}

impl<T: Real> Fold<T> for Measuring<'_, T> {
    type State = MeasuredSums;
    type Scratch = Scratch<T>;
    type Error = Error;

    fn init(&self) -> MeasuredSums {
        let p = self.map.dims().1;
        let gram = self.targets.map(|targets| GramState::new(p, targets.count(), 1));
        MeasuredSums { columns: self.columns.begin(), gram, forming: 0.0 }
    }

    fn scratch(&self) -> Scratch<T> {
        let phi = Mat::zeros(self.tile, self.map.dims().1);
        Scratch { phi, columns: self.columns.buffers(), gram: GramScratch::default(), y: Vec::new() }
    }

    fn step(
        &self,
        state: &mut MeasuredSums,
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

/// Rows scored at once by one thread: 256 x 2,000 features in f64 are 4 MB.
const STRIP: usize = 256;

/// The fold that scores the heads. A row costs its features and 2·rank·t flops for each head; a lane holds a tile of
/// features, and a strip of them in f64 for each thread.
pub(super) struct TestErrors<'a, T: Real> {
    pub(super) map: &'a dyn FeatureMap<T>,
    /// The linear functions, each of some leading features.
    pub(super) heads: &'a [Head],
    pub(super) targets: &'a Targets,
    pub(super) tile: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct TestSums {
    rows: u64,
    /// For each head the sum of squared errors over rows and targets, or the number of wrong classes.
    losses: Vec<f64>,
}

impl TestSums {
    /// The mean error of each head over rows, and over targets of a regression; `None` without rows.
    pub(super) fn means(&self, targets: &Targets) -> Option<Vec<f64>> {
        let each = match targets {
            Targets::Numeric { centre } => centre.len() as f64,
            Targets::Classes(_) => 1.0,
        };
        (self.rows > 0).then(|| self.losses.iter().map(|loss| loss / (self.rows as f64 * each)).collect())
    }
}

kstore::summed!(TestSums { one "rows": rows, fill "losses": losses });

impl<T: Real> Fold<T> for TestErrors<'_, T> {
    type State = TestSums;
    type Scratch = Mat<T>;
    type Error = Error;

    fn init(&self) -> TestSums {
        TestSums { rows: 0, losses: vec![0.0; self.heads.len()] }
    }

    fn scratch(&self) -> Mat<T> {
        Mat::zeros(self.tile, self.map.dims().1)
    }

    fn step(&self, state: &mut TestSums, phi: &mut Mat<T>, block: &RowBlock<'_, T>, workers: &Workers) -> Result<()> {
        let (b, heads) = (block.len(), self.heads.len());
        let mut phi = phi.as_mut().subrows_mut(0, b);
        self.map.apply(MatRef::from_row_major_slice(block.x, b, block.d), phi.as_mut(), workers);
        let phi = phi.as_ref();
        let mut losses = vec![0.0; b.div_ceil(STRIP) * heads];
        for_each_strip(workers, &mut losses, heads.max(1), |strip, losses| {
            let rows = strip * STRIP..((strip + 1) * STRIP).min(b);
            self.score(phi, block, rows, losses);
        });
        // strips in their order: threads never change a sum
        for (i, loss) in losses.iter().enumerate() {
            state.losses[i % heads] += loss;
        }
        state.rows += b as u64;
        Ok(())
    }
}

impl<T: Real> TestErrors<'_, T> {
    /// Adds the errors of some rows of a block to `losses`, one number per head.
    fn score(&self, phi: MatRef<'_, T>, block: &RowBlock<'_, T>, rows: std::ops::Range<usize>, losses: &mut [f64]) {
        let (count, p) = (rows.len(), phi.ncols());
        let mut wide = vec![0.0; count * p];
        widen(phi.subrows(rows.start, count), &mut wide);
        let phi = MatRef::from_column_major_slice(&wide, count, p);
        for (head, loss) in self.heads.iter().zip(losses) {
            let mut scores = Mat::from_fn(count, head.intercept.len(), |_, j| head.intercept[j]);
            let leading = phi.subcols(0, head.weights.nrows());
            matmul(scores.as_mut(), Accum::Add, leading, head.weights.as_ref(), 1.0, Par::Seq);
            *loss = (0..count).map(|i| self.loss(scores.row(i).iter().copied(), block, rows.start + i)).sum();
        }
    }

    fn loss(&self, scores: impl Iterator<Item = f64>, block: &RowBlock<'_, T>, row: usize) -> f64 {
        match self.targets {
            Targets::Numeric { .. } => {
                let y = &block.y[row * block.t..(row + 1) * block.t];
                scores.zip(y).map(|(score, y)| (y - score).powi(2)).sum()
            }
            // a label that the training rows do not have is never predicted rightly
            Targets::Classes(classes) => {
                let code = block.classes.as_ref().map_or(Coded::UNKNOWN, |coded| coded.codes[row]);
                let is_wrong = code == Coded::UNKNOWN || classes.decide(scores) != code as usize;
                f64::from(u8::from(is_wrong))
            }
        }
    }
}
