//! The rows of a table as a solver sees them.

use super::tier::FeatureTier;
use crate::moments::{RidgeFold, RidgeState};
use crate::request::{PassShape, ProblemSize, Resources, TrainOptions};
use crate::{Classes, FoldSpec, Folds, Result, Targets};
use kapprox::landmark::LandmarkSet;
use kapprox::{FeatureMap, Kernel, Real};
use kstore::checkpoint::Persist;
use kstore::{Fold, MemoryRows, Merge, Pass, Reading, RowSource};
use std::fmt::Debug;

/// Why `FitData::warn_of_fewer` found fewer components, if the directions of the features are exhausted.
pub const FEWER_DIRECTIONS: &str =
    "the features vary in no more directions; more rows, or a higher `rank`, may have some";

/// The name of the pass that sums second moments, and of its stage.
pub const GRAM: &str = "Gram matrix";

/// The points whose kernel functions a solver combines: see [`crate::request::RowAccess`].
#[derive(Clone, Debug)]
pub enum Points<'a, T: Real> {
    /// Those of the map: the solver combines its features.
    Map,
    /// The landmarks, in [`crate::request::RowAccess::Landmarks`], and the shape of the work.
    Landmarks(&'a LandmarkSet<T>, &'a ProblemSize),
    /// All rows with their targets, in [`crate::request::RowAccess::Rows`], the shape of the work, and how the rows were read.
    Rows(&'a MemoryRows<T>, &'a ProblemSize, Reading),
}

/// The rows of a table as a solver sees them: what it folds over.
#[derive(Debug)]
pub struct FitData<'a, T: Real> {
    /// The source of the rows.
    pub source: &'a dyn RowSource<T>,
    /// The kernel, every parameter a number.
    pub kernel: &'a Kernel,
    /// The map; it has no features for a solver that combines kernel functions itself.
    pub map: &'a dyn FeatureMap<T>,
    /// Number of features of the second view, which are the last ones; 0 for one view.
    pub second: usize,
    /// The targets of the rows; empty for solvers without.
    pub targets: &'a Targets,
    /// Number of selected rows, n.
    pub rows: u64,
    /// What the weights of the rows were divided by, as the source gives them: a cost C counts by the weights of the table.
    pub weight_unit: f64,
    /// How passes are cut into tiles, segments and lanes.
    pub cut: PassShape,
    /// What defines the result beside the solver's own settings.
    pub options: &'a TrainOptions,
    /// Memory, threads, progress, checkpoints.
    pub resources: &'a Resources<'a>,
    /// Where features that are read many times are kept.
    pub keep: FeatureTier,
    /// Bytes that the plan leaves, for copies that only save time.
    pub spare: usize,
    /// Which rows are held out together, for solvers that choose by it.
    pub folds: &'a Folds,
    /// The points whose kernel functions the solver combines.
    pub points: Points<'a, T>,
}

impl<T: Real> FitData<'_, T> {
    /// The classes of a classification.
    pub fn classes(&self) -> Option<&Classes> {
        match self.targets {
            Targets::Classes(classes) => Some(classes),
            Targets::Numeric { .. } => None,
        }
    }

    /// Runs a fold over all rows in one pass and returns its state. The name must be unique among the passes of a fit:
    /// progress shows it, and a resumed fit finds its state by it.
    ///
    /// # Errors
    /// Errors of reading the rows and of the fold.
    pub fn fold<F>(&self, name: &str, fold: &F) -> Result<F::State>
    where
        F: Fold<T, Error = crate::Error>,
        F::State: Merge + Persist,
    {
        let observer = self.resources.over(name, self.source.range());
        Ok(self.pass(&*observer).resume(name, self.source, fold)?.0)
    }

    fn pass<'o>(&'o self, observer: &'o dyn kstore::pass::Observer) -> Pass<'o> {
        self.cut.pass(self.cut.gram_lanes, self.resources, observer)
    }

    /// The rule that puts all rows in one fold.
    pub fn whole(&self) -> Result<Folds> {
        Folds::new(&FoldSpec::None, self.options.seed, self.source.range(), &[])
    }

    pub(crate) fn warn_of_fewer(&self, asked: usize, there: usize, why: &str) {
        if there < asked {
            self.resources.stages.warn(format!("components reduced from {asked} to {there}: {why}"));
        }
    }

    /// Computes the second moments of features and targets, and the certificate of every rank: one pass.
    ///
    /// # Errors
    /// Errors of reading the rows.
    pub fn moments(&self) -> Result<RidgeState> {
        self.moments_with(None)
    }

    /// The moments of [`FitData::moments`] with features of the targets, where there are some, in the place of the targets.
    pub(crate) fn moments_with(&self, target_features: Option<&dyn FeatureMap<f64>>) -> Result<RidgeState> {
        let folds = self.whole()?;
        let fold = RidgeFold::new(self.map, &folds, self.targets).with_target_features(target_features);
        self.fold(GRAM, &fold.with_bin(self.cut.tile))
    }

    pub(crate) fn moments_of_folds(&self) -> Result<RidgeState> {
        self.moments_of_classes(1)
    }

    /// The moments of [`FitData::moments`], fold by fold and in each class by class.
    pub(crate) fn moments_of_classes(&self, classes: usize) -> Result<RidgeState> {
        let fold = RidgeFold::new(self.map, self.folds, self.targets).by_class(classes);
        self.fold(GRAM, &fold.with_bin(self.cut.tile))
    }
}
