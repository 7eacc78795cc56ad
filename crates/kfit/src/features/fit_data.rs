//! A solver's view of the rows of a table.

use super::tier::FeatureTier;
use crate::moments::{RidgeFold, RidgeState};
use crate::request::{PassShape, ProblemSize, Resources, TrainOptions};
use crate::{Classes, FoldSpec, Folds, Result, Targets};
use kapprox::landmark::LandmarkSet;
use kapprox::{FeatureMap, Kernel, Real};
use kstore::checkpoint::Persist;
use kstore::{Fold, MemoryRows, Merge, Pass, Reading, RowSource};
use std::fmt::Debug;

/// Reason for a warning about fewer components: the features have too few directions of variation.
pub const FEWER_DIRECTIONS: &str =
    "the features have no further directions of variation; use more rows or raise `rank`";

/// Name of the pass that sums second moments, and of its stage.
pub const GRAM_PASS: &str = "Gram matrix";

/// The points whose kernel sections a solver combines, by [`crate::request::RowAccess`].
#[derive(Clone, Debug)]
pub enum SectionPoints<'a, T: Real> {
    /// No points, because the solver combines the features of the map.
    Map,
    /// The landmarks, for [`crate::request::RowAccess::Landmarks`], and the problem size.
    Landmarks(&'a LandmarkSet<T>, &'a ProblemSize),
    /// All rows with their targets, for [`crate::request::RowAccess::Rows`], the problem size, and
    /// how the rows were read.
    Rows(&'a MemoryRows<T>, &'a ProblemSize, Reading),
}

/// A solver's view of the rows of a table: the input of its fit.
#[derive(Debug)]
pub struct FitData<'a, T: Real> {
    /// The source of the rows.
    pub source: &'a dyn RowSource<T>,
    /// The kernel, with every parameter resolved to a number.
    pub kernel: &'a Kernel,
    /// The feature map; it has no features if the solver combines kernel sections itself.
    pub map: &'a dyn FeatureMap<T>,
    /// Number of features of the second view; they follow the features of the first view. 0 for one
    /// view.
    pub second_features: usize,
    /// The targets of the rows; empty for solvers without targets.
    pub targets: &'a Targets,
    /// Number of selected rows, n.
    pub rows: u64,
    /// Divisor that scaled the row weights of the source; C refers to the original weights.
    pub weight_unit: f64,
    /// Tiles (blocks of rows), segments (fixed numbers of tiles) and lanes (parallel workers) of
    /// the passes.
    pub pass_shape: PassShape,
    /// Options of the fit, except the solver's own settings.
    pub options: &'a TrainOptions,
    /// Memory, threads, progress, checkpoints.
    pub resources: &'a Resources<'a>,
    /// Storage of features that are read many times.
    pub tier: FeatureTier,
    /// Bytes that the plan leaves unused, for copies that only save time.
    pub spare_bytes: usize,
    /// The folds, for solvers that cross-validate.
    pub folds: &'a Folds,
    /// The points whose kernel sections the solver combines.
    pub points: SectionPoints<'a, T>,
}

impl<T: Real> FitData<'_, T> {
    /// The classes of a classification.
    pub fn classes(&self) -> Option<&Classes> {
        match self.targets {
            Targets::Classes(classes) => Some(classes),
            Targets::Numeric { .. } => None,
        }
    }

    /// Runs a fold (an accumulation over rows, not a fold of cross-validation) over all rows in one
    /// pass, and returns its state. The name identifies the pass in progress reports and
    /// checkpoints, and must be unique in a fit.
    ///
    /// # Errors
    /// Errors of reading the rows and of the fold.
    pub fn fold<F>(&self, name: &str, fold: &F) -> Result<F::State>
    where
        F: Fold<T, Error = crate::Error>,
        F::State: Merge + Persist,
    {
        let observer = self.resources.stage_over(name, self.source.range());
        Ok(self.pass(&*observer).resume(name, self.source, fold)?.0)
    }

    fn pass<'o>(&'o self, observer: &'o dyn kstore::pass::Observer) -> Pass<'o> {
        self.pass_shape.pass(self.pass_shape.gram_lanes, self.resources, observer)
    }

    /// Returns folds with all rows in one fold.
    pub fn single_fold(&self) -> Result<Folds> {
        Folds::new(&FoldSpec::None, self.options.seed, self.source.range(), &[])
    }

    pub(crate) fn warn_of_fewer_components(&self, requested: usize, available: usize, why: &str) {
        if available < requested {
            self.resources.stage_observer.warn(format!("components reduced from {requested} to {available}: {why}"));
        }
    }

    /// Computes the second moments of features and targets, and the certificate (the relative trace
    /// error of the map) at every rank, in one pass.
    ///
    /// # Errors
    /// Errors of reading the rows.
    pub fn moments(&self) -> Result<RidgeState> {
        self.moments_with_targets(None)
    }

    /// Computes [`FitData::moments`]. If `target_features` is given, they replace the targets.
    pub(crate) fn moments_with_targets(&self, target_features: Option<&dyn FeatureMap<f64>>) -> Result<RidgeState> {
        let folds = self.single_fold()?;
        let fold = RidgeFold::new(self.map, &folds, self.targets).with_target_features(target_features);
        self.fold(GRAM_PASS, &fold.with_bin_rows(self.pass_shape.tile))
    }

    pub(crate) fn moments_by_fold(&self) -> Result<RidgeState> {
        self.moments_by_class(1)
    }

    /// Computes [`FitData::moments`] for each fold and, within it, for each class.
    pub(crate) fn moments_by_class(&self, classes: usize) -> Result<RidgeState> {
        let fold = RidgeFold::new(self.map, self.folds, self.targets).by_class(classes);
        self.fold(GRAM_PASS, &fold.with_bin_rows(self.pass_shape.tile))
    }
}
