//! Rows sorted by cross-validation fold into bins of a fixed size, so that matrix products run on
//! large blocks.

use crate::{Classes, Error, Folds, Result, linalg::strips::for_each_strip, row_weights};
use faer::{MatMut, MatRef};
use kapprox::{FeatureMap, Real};
use kstore::{LabelCodes, RowBlock, Workers};

/// Number of rows of a bin. For each full bin, a Gram update of p features takes 2,048·p² flops in
/// f32, and adds p²/2 numbers to the sums in f64, which costs a few per cent of the time. The
/// number must be constant, because the bins determine the order of summation.
pub(crate) const BIN_ROWS: usize = 2048;

/// The targets to learn: numbers, or codes of classes.
#[derive(Clone, Debug, PartialEq)]
pub enum Targets {
    /// Numeric targets. A centre is subtracted from each, so that sums of squares are accurate; it
    /// changes results by rounding only.
    Numeric {
        /// The number subtracted from each target, length t.
        centre: Vec<f64>,
    },
    /// ±1 codes of classes.
    Classes(Classes),
}

impl Targets {
    /// Returns the number of targets t.
    pub fn count(&self) -> usize {
        match self {
            Self::Numeric { centre } => centre.len(),
            Self::Classes(classes) => classes.target_count(),
        }
    }

    /// Returns the centre of each target, length t, which is 0 for classes.
    pub fn centre(&self) -> Vec<f64> {
        match self {
            Self::Numeric { centre } => centre.clone(),
            Self::Classes(classes) => vec![0.0; classes.target_count()],
        }
    }

    /// Returns target `j` of row `i` of a block: a number minus its centre, or ±1 for classes.
    ///
    /// # Errors
    /// [`Error::UnknownClass`] for a class without a label.
    pub fn value<T>(&self, block: &RowBlock<'_, T>, i: usize, j: usize) -> Result<f64> {
        match self {
            Self::Numeric { centre } => Ok(block.y[i * block.t + j] - centre[j]),
            Self::Classes(classes) => {
                let code = block.classes.map_or(LabelCodes::UNKNOWN, |coded| coded.codes[i]);
                classes.target_value(code, j).ok_or(Error::UnknownClass { row: block.row_numbers[i] })
            }
        }
    }

    /// Appends the t targets of row `i` of a block to `out`.
    ///
    /// # Errors
    /// [`Error::UnknownClass`] for a class without a label.
    pub fn append_to<T>(&self, block: &RowBlock<'_, T>, i: usize, out: &mut Vec<f64>) -> Result<()> {
        (0..self.count()).try_for_each(|j| self.value(block, i, j).map(|value| out.push(value)))
    }
}

/// One bin per fold (and class), and the features of the bin that was mapped last.
///
/// Rows keep their order within a bin, and bins are emptied at the end of a segment of rows. So the
/// contents of a bin depend on the rows and the segment, not on the size of tiles.
#[derive(Debug)]
pub struct Bins<T> {
    bins: Vec<Bin<T>>,
    phi: Vec<T>,
    /// Maximum number of rows of a bin.
    bin_rows: usize,
    d: usize,
    p: usize,
    t: usize,
    has_weights: bool,
}

#[derive(Debug)]
struct Bin<T> {
    row_count: usize,
    x: Vec<T>,
    y: Vec<f64>,
    /// Weights of the rows in the bin; empty if all are 1.
    w: Vec<f64>,
}

/// A bin with its features.
#[derive(Debug)]
pub struct MappedBin<'a, T> {
    /// Rows, b x d row-major.
    pub x: MatRef<'a, T>,
    /// Features, b x p column-major.
    pub phi: MatRef<'a, T>,
    /// Targets, b x t.
    pub y: MatRef<'a, f64>,
    /// Row weights, length b; after [`Bins::apply_weights`] the square roots of the weights. `None`
    /// if all weights are 1.
    pub w: Option<&'a [f64]>,
}

impl<T: Real> Bins<T> {
    pub(crate) fn new(d: usize, p: usize, t: usize, bin_count: usize, bin_rows: usize) -> Self {
        let bin =
            || Bin { row_count: 0, x: vec![T::default(); bin_rows * d], y: vec![0.0; bin_rows * t], w: Vec::new() };
        let bins = (0..bin_count).map(|_| bin()).collect();
        Self { bins, phi: vec![T::default(); bin_rows * p], bin_rows, d, p, t, has_weights: false }
    }

    /// Appends the rows of a block to the bins of their fold and, if `class_count` is more than 1,
    /// their class. Calls `on_full(self, bin index)` for every bin that fills up, and then empties
    /// it.
    pub(crate) fn push(
        &mut self,
        block: &RowBlock<'_, T>,
        folds: &Folds,
        class_count: usize,
        targets: &Targets,
        mut on_full: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<()> {
        check_block(block, self.d, targets)?;
        self.has_weights = block.weights.is_some();
        for i in 0..block.len() {
            let group = block.groups.map_or(LabelCodes::UNKNOWN, |coded| coded.codes[i]);
            let bin_index =
                folds.fold_of(block.row_numbers[i], group)? * class_count + class_of_row(block, i, class_count)?;
            let (d, bin_rows, t) = (self.d, self.bin_rows, self.t);
            let bin = &mut self.bins[bin_index];
            bin.x[bin.row_count * d..(bin.row_count + 1) * d].copy_from_slice(&block.x[i * d..(i + 1) * d]);
            for j in 0..t {
                bin.y[j * bin_rows + bin.row_count] = targets.value(block, i, j)?;
            }
            if let Some(weight) = row_weights::block_weight(block, i)? {
                bin.w.truncate(bin.row_count);
                bin.w.push(weight);
            }
            bin.row_count += 1;
            if bin.row_count == bin_rows {
                on_full(self, bin_index)?;
                self.bins[bin_index].row_count = 0;
            }
        }
        Ok(())
    }

    /// Calls `on_full(self, bin index)` for every bin with rows, in the order of the folds, and
    /// then empties it.
    pub(crate) fn flush(&mut self, mut on_full: impl FnMut(&mut Self, usize) -> Result<()>) -> Result<()> {
        for bin_index in 0..self.bins.len() {
            if self.bins[bin_index].row_count > 0 {
                on_full(self, bin_index)?;
                self.bins[bin_index].row_count = 0;
            }
        }
        Ok(())
    }

    /// Computes the features of a bin, which then is the last mapped bin.
    pub(crate) fn map_bin(&mut self, bin_index: usize, map: &dyn FeatureMap<T>, workers: &Workers) {
        let (bin, p) = (&self.bins[bin_index], self.p);
        let row_count = bin.row_count;
        let x = MatRef::from_row_major_slice(&bin.x[..row_count * self.d], row_count, self.d);
        map.apply(x, MatMut::from_column_major_slice_mut(&mut self.phi[..row_count * p], row_count, p), workers);
    }

    /// Multiplies the features and targets of the last mapped bin, `bin_index`, by the square roots
    /// of the row weights, so that their moments are weighted. Does nothing without weights.
    pub fn apply_weights(&mut self, bin_index: usize, workers: &Workers) {
        let (bin, bin_rows, p) = (&mut self.bins[bin_index], self.bin_rows, self.p);
        let row_count = bin.row_count;
        if self.has_weights {
            bin.w[..row_count].iter_mut().for_each(|w| *w = w.sqrt());
            let sqrt_weights = &bin.w[..row_count];
            for_each_strip(workers, &mut self.phi[..row_count * p], row_count, |_, column| {
                column.iter_mut().zip(sqrt_weights).for_each(|(v, root)| *v = T::from_f64(v.to_f64() * root));
            });
            for j in 0..self.t {
                bin.y[j * bin_rows..][..row_count].iter_mut().zip(sqrt_weights).for_each(|(y, root)| *y *= root);
            }
        }
    }

    /// Returns the rows, features, targets and weights of the last mapped bin, `bin_index`.
    pub fn mapped_bin(&self, bin_index: usize) -> MappedBin<'_, T> {
        let (bin, p) = (&self.bins[bin_index], self.p);
        let row_count = bin.row_count;
        MappedBin {
            x: MatRef::from_row_major_slice(&bin.x[..row_count * self.d], row_count, self.d),
            phi: MatRef::from_column_major_slice(&self.phi[..row_count * p], row_count, p),
            y: MatRef::from_column_major_slice_with_stride(&bin.y, row_count, self.t, self.bin_rows),
            w: self.has_weights.then(|| &bin.w[..row_count]),
        }
    }
}

/// Returns the class of row `i`, or 0 if `class_count` is 1.
fn class_of_row<T>(block: &RowBlock<'_, T>, i: usize, class_count: usize) -> Result<usize> {
    let code = || block.classes.map(|coded| coded.codes[i] as usize).filter(|code| *code < class_count);
    if class_count > 1 { code().ok_or(Error::UnknownClass { row: block.row_numbers[i] }) } else { Ok(0) }
}

fn check_block<T>(block: &RowBlock<'_, T>, d: usize, targets: &Targets) -> Result<()> {
    Error::check_dimension("features of a block", d, block.d)?;
    match targets {
        Targets::Numeric { centre } => Error::check_dimension("targets of a block", centre.len(), block.t),
        Targets::Classes(_) => Ok(()),
    }
}
