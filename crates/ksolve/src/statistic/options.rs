//! The options of a statistic.

use crate::Task;
use crate::request::{LandmarkSource, Scaling, TrainOptions};
use kapprox::{Spec, map::MapSpec};

/// The options of a statistic, which define the result for given rows.
#[derive(Clone, Debug)]
pub struct StatisticOptions {
    /// Scaling of the features, over all rows of the test.
    pub scaling: Scaling,
    /// The kernel of two samples, or of the first columns; a median still to be taken is taken on a sample of all rows.
    pub kernel: Spec,
    /// The kernel of the second columns; not read for two samples.
    pub other: Spec,
    /// The map from rows to features.
    pub map: MapSpec,
    /// The landmark scheme, or the table with the landmarks, for maps that have some.
    pub landmarks: LandmarkSource,
    /// Number of rows that landmarks are chosen among; `None` for all.
    pub candidates: Option<usize>,
    /// Number of features of each map.
    pub rank: usize,
    /// Number of random labellings.
    pub permutations: usize,
    /// Seed of every random choice.
    pub seed: u64,
}

impl StatisticOptions {
    /// The default options with a kernel: standard scaling, 300 landmarks by randomly pivoted Cholesky among 50,000
    /// rows, 1,000 permutations, seed 0.
    pub fn new(kernel: Spec) -> Self {
        Self {
            scaling: Scaling::default(),
            other: kernel.clone(),
            kernel,
            map: MapSpec::default(),
            landmarks: LandmarkSource::default(),
            candidates: Some(50_000),
            rank: 300,
            permutations: 1000,
            seed: 0,
        }
    }

    pub(super) fn training(&self, kernel: &Spec) -> TrainOptions {
        TrainOptions {
            scaling: self.scaling,
            map: self.map.clone(),
            landmarks: self.landmarks.clone(),
            candidates: self.candidates,
            seed: self.seed,
            ..TrainOptions::new(Task::Components, kernel.clone(), self.rank)
        }
    }
}
