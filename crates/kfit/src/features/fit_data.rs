//! A solver's view of the rows of a table.

use super::tier::FeatureTier;
use crate::moments::{MomentReduction, MomentState};
use crate::request::{PassShape, ProblemSize, Resources, TrainOptions};
use crate::{Classes, FoldSpec, Folds, Result, Targets};
use kapprox::landmark::LandmarkSet;
use kapprox::{FeatureMap, Kernel, Real};
use kstore::checkpoint::Persist;
use kstore::{MemoryRows, Merge, Pass, ReadSettings, Reduction, RowSource};
use std::fmt::Debug;

/// Reason for the warning that a fit found fewer components than requested, if the features vary in
/// too few directions.
pub(crate) const FEWER_DIRECTIONS: &str =
    "the features have no further directions of variation; use more rows or raise `rank`";

/// Name of the pass that sums second moments, and of its stage.
pub const GRAM_PASS: &str = "Gram matrix";

/// The points z whose kernel sections k(·, z) a solver combines. The solver's
/// [`crate::request::RowAccess`] determines them.
#[derive(Clone, Debug)]
pub enum SectionPoints<'a, T: Real> {
    /// No points, because the solver combines the features of the map.
    NoPoints,
    /// The landmarks, for [`crate::request::RowAccess::Landmarks`], and the problem size.
    Landmarks(&'a LandmarkSet<T>, &'a ProblemSize),
    /// All rows with their targets, for [`crate::request::RowAccess::Rows`], the problem size, and
    /// how the rows were read.
    Rows(&'a MemoryRows<T>, &'a ProblemSize, ReadSettings),
}

/// A solver's view of the rows of a table: the input of its fit.
#[derive(Debug)]
pub struct FitData<'a, T: Real> {
    /// The source of the rows.
    pub source: &'a dyn RowSource<T>,
    /// The scaled rows before the metric. Without a metric this is `source`.
    pub scaled_source: &'a dyn RowSource<T>,
    /// The kernel, with every parameter resolved to a number.
    pub kernel: &'a Kernel,
    /// The feature map. If the solver combines kernel sections itself, the map has no features.
    pub map: &'a dyn FeatureMap<T>,
    /// Number of features of the second view, which follow the features of the first view; 0 if
    /// there is only one view.
    pub second_feature_count: usize,
    /// The targets of the rows; empty for solvers without targets.
    pub targets: &'a Targets,
    /// Number of selected rows, n.
    pub n: u64,
    /// The number by which the source divided the row weights. The parameter C of a solver refers
    /// to the weights before this division.
    pub weight_unit: f64,
    /// Rows per tile, stored rows per segment, and numbers of lanes (parallel workers) of the
    /// passes.
    pub pass_shape: PassShape,
    /// Options of the fit, except the solver's own settings.
    pub options: &'a TrainOptions,
    /// Memory, threads, progress, checkpoints.
    pub resources: &'a Resources<'a>,
    /// Where features that are read many times are stored.
    pub tier: FeatureTier,
    /// Bytes that the memory plan leaves unused; a solver may use them for copies that only save
    /// time.
    pub spare_bytes: usize,
    /// The folds, for solvers that cross-validate.
    pub folds: &'a Folds,
    /// The points whose kernel sections the solver combines.
    pub points: SectionPoints<'a, T>,
}

impl<T: Real> FitData<'_, T> {
    /// Returns the classes of a classification; `None` for numeric targets.
    pub(crate) fn classes(&self) -> Option<&Classes> {
        match self.targets {
            Targets::Classes(classes) => Some(classes),
            Targets::Numeric { .. } => None,
        }
    }

    /// Runs `reduction` over all rows in one pass and returns its state. The name identifies the
    /// pass in progress reports and checkpoints, and must be unique in a fit.
    ///
    /// # Errors
    /// Errors of reading the rows and of the reduction.
    pub(crate) fn reduce<F>(&self, name: &str, reduction: &F) -> Result<F::State>
    where
        F: Reduction<T, Error = crate::Error>,
        F::State: Merge + Persist,
    {
        let observer = self.resources.start_stage_over(name, self.source.range());
        Ok(self.pass(&*observer).resume(name, self.source, reduction)?.0)
    }

    fn pass<'o>(&'o self, observer: &'o dyn kstore::pass::Observer) -> Pass<'o> {
        self.pass_shape.pass(self.pass_shape.gram_lanes, self.resources, observer)
    }

    /// Returns folds with all rows in one fold.
    pub(crate) fn single_fold(&self) -> Result<Folds> {
        Folds::new(&FoldSpec::None, self.options.seed, self.source.range(), &[])
    }

    pub(crate) fn warn_of_fewer_components(&self, requested_count: usize, available_count: usize, why: &str) {
        if available_count < requested_count {
            self.resources
                .stage_observer
                .warn(format!("components reduced from {requested_count} to {available_count}: {why}"));
        }
    }

    /// Computes in one pass the second moments of features and targets, and for every rank the
    /// certificate, the relative trace error of the map.
    ///
    /// # Errors
    /// Errors of reading the rows.
    pub fn moments(&self) -> Result<MomentState> {
        self.moments_with_targets(None)
    }

    /// Computes [`FitData::moments`]. If `target_features` is provided, the features of the target
    /// replace the targets.
    pub(crate) fn moments_with_targets(&self, target_features: Option<&dyn FeatureMap<f64>>) -> Result<MomentState> {
        let folds = self.single_fold()?;
        let reduction = MomentReduction::new(self.map, &folds, self.targets).with_target_features(target_features);
        self.reduce(GRAM_PASS, &reduction.with_bin_rows(self.pass_shape.tile_rows))
    }

    pub(crate) fn moments_by_fold(&self) -> Result<MomentState> {
        self.moments_by_class(1)
    }

    /// Computes [`FitData::moments`] separately for each class in each fold.
    pub(crate) fn moments_by_class(&self, class_count: usize) -> Result<MomentState> {
        let reduction = MomentReduction::new(self.map, self.folds, self.targets).with_class_bins(class_count);
        self.reduce(GRAM_PASS, &reduction.with_bin_rows(self.pass_shape.tile_rows))
    }
}
