//! Rows waiting for their fold: a block of features then holds rows of one fold only.
//!
//! Rows wait as points, not as features: d numbers each instead of p.

use crate::folds::Folds;
use crate::{Classes, Result};
use faer::{Mat, MatMut, MatRef};
use kapprox::{FeatureMap, Real};
use kstore::{RowBlock, Workers};

/// Where a row's targets come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Targets<'a> {
    /// Numeric columns, each less its centre.
    Numbers(&'a [f64]),
    /// ±1 codes of the class column.
    Codes(&'a Classes),
}

impl Targets<'_> {
    /// Number of targets.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Numbers(centre) => centre.len(),
            Self::Codes(classes) => classes.targets(),
        }
    }

    /// Target j of row i of a block.
    fn value<T>(&self, block: &RowBlock<'_, T>, i: usize, j: usize) -> f64 {
        match self {
            Self::Numbers(centre) => block.y[i * block.t + j] - centre[j],
            // labels were discovered on these very rows, so each has a code
            Self::Codes(classes) => classes.code(class_of(block, i), j).unwrap_or(0.0),
        }
    }
}

/// Code of the class of row i.
pub(super) fn class_of<T>(block: &RowBlock<'_, T>, i: usize) -> u32 {
    block.classes.map_or(kstore::Coded::UNKNOWN, |classes| classes.codes[i])
}

/// Rows of one fold.
#[derive(Debug, Default)]
struct Bin<T> {
    x: Vec<T>,
    /// Target-major: `y[j]` holds target j.
    y: Vec<Vec<f64>>,
    classes: Vec<u32>,
}

/// One bin per fold, and the features of whichever is emptied.
#[derive(Debug)]
pub(super) struct Bins<T: Real> {
    bins: Vec<Bin<T>>,
    capacity: usize,
    d: usize,
    phi: Mat<T>,
    targets: Vec<f64>,
}

/// The rows of a bin, mapped.
pub(super) struct Mapped<'a, T: Real> {
    pub(super) fold: usize,
    /// b x d.
    pub(super) x: MatRef<'a, T>,
    /// b x p, column-major.
    pub(super) phi: MatRef<'a, T>,
    /// b x t.
    pub(super) y: MatRef<'a, f64>,
    /// Class codes, where there are classes.
    pub(super) classes: &'a [u32],
}

impl<T: Real> Bins<T> {
    pub(super) fn new(folds: usize, capacity: usize, map: &dyn FeatureMap<T>, t: usize) -> Self {
        let (d, p) = map.dims();
        let bin = || Bin { x: Vec::new(), y: vec![Vec::new(); t], classes: Vec::new() };
        let bins = (0..folds).map(|_| bin()).collect();
        Self { bins, capacity, d, phi: Mat::zeros(capacity, p), targets: Vec::new() }
    }

    /// Sorts the rows of a block into their bins; a bin that is full goes to `each`, mapped.
    pub(super) fn push(
        &mut self,
        block: &RowBlock<'_, T>,
        folds: &Folds,
        targets: Targets<'_>,
        map: &dyn FeatureMap<T>,
        workers: &Workers,
        each: &mut dyn FnMut(Mapped<'_, T>) -> Result<()>,
    ) -> Result<()> {
        for i in 0..block.len() {
            let group = block.groups.map_or(0, |groups| groups.codes[i]);
            let fold = folds.fold_of(block.rows[i], group)?;
            let bin = &mut self.bins[fold];
            bin.x.extend_from_slice(&block.x[i * self.d..(i + 1) * self.d]);
            for (j, y) in bin.y.iter_mut().enumerate() {
                y.push(targets.value(block, i, j));
            }
            bin.classes.push(class_of(block, i));
            if bin.classes.len() == self.capacity {
                self.empty(fold, map, workers, each)?;
            }
        }
        Ok(())
    }

    /// Maps what is left in every bin: the end of a segment.
    pub(super) fn flush(
        &mut self,
        map: &dyn FeatureMap<T>,
        workers: &Workers,
        each: &mut dyn FnMut(Mapped<'_, T>) -> Result<()>,
    ) -> Result<()> {
        (0..self.bins.len()).try_for_each(|fold| self.empty(fold, map, workers, each))
    }

    fn empty(
        &mut self,
        fold: usize,
        map: &dyn FeatureMap<T>,
        workers: &Workers,
        each: &mut dyn FnMut(Mapped<'_, T>) -> Result<()>,
    ) -> Result<()> {
        let bin = &mut self.bins[fold];
        let b = bin.classes.len();
        if b == 0 {
            return Ok(());
        }
        let x = MatRef::from_row_major_slice(&bin.x, b, self.d);
        let phi: MatMut<'_, T> = self.phi.as_mut().subrows_mut(0, b);
        map.apply(x, phi, workers);
        self.targets.clear();
        bin.y.iter().for_each(|y| self.targets.extend_from_slice(y));
        each(Mapped {
            fold,
            x,
            phi: self.phi.as_ref().subrows(0, b),
            y: MatRef::from_column_major_slice(&self.targets, b, bin.y.len()),
            classes: &bin.classes,
        })?;
        bin.x.clear();
        bin.y.iter_mut().for_each(Vec::clear);
        bin.classes.clear();
        Ok(())
    }
}
