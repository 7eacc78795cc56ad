//! Clustering of points that are linear in the features, and the choice of the number of clusters.

mod agreement;
mod count;
mod lloyd;
mod points;
mod starts;

pub(super) use count::choose_count;
pub(super) use lloyd::cluster;
pub(super) use points::PointSpace;

use super::parameter::{CLUSTERS, STARTS, Settings};
use crate::features;
use crate::prepare::stage_plans;
use crate::request::{FitRequest, PassShape, ProblemSize, Stage};
use crate::{Error, Result};
use kstore::MemoryPlan;
use points::{STRIP_POINTS, sample_row_count};

/// Number of candidates that replace centroids without points. If more centroids lose all points in
/// one iteration, the remaining centroids wait for the next iteration.
const MAX_FARTHEST_POINTS: usize = 16;

/// The requested numbers of clusters and of starts.
#[derive(Clone, Debug)]
pub(super) struct ClusteringOptions {
    /// Numbers of clusters to compare, ascending; a single number is not compared.
    counts: Vec<usize>,
    pub(super) start_count: usize,
}

impl ClusteringOptions {
    pub(super) fn new(settings: &Settings) -> Result<Self> {
        let missing_error =
            || Error::missing(CLUSTERS.name, settings.solver, "the number of clusters, such as 8, or a range 2..8");
        let counts = settings.counts(&CLUSTERS).or(settings.count(&CLUSTERS).map(|count| vec![count]));
        let start_count = settings.required(&STARTS, Settings::count);
        Ok(Self { counts: counts.ok_or_else(missing_error)?, start_count })
    }

    pub(super) fn max_count(&self) -> usize {
        self.counts.last().copied().unwrap_or(1)
    }

    /// Adds to the plan the memory of a clustering of p features that are projected to q
    /// coordinates.
    pub(super) fn plan(&self, plan: MemoryPlan, size: &ProblemSize, pass_shape: PassShape, q: usize) -> MemoryPlan {
        // the number of clusters is checked later, when the number of rows is known
        let n = usize::try_from(size.n).unwrap_or(usize::MAX);
        let k = self.max_count();
        let (q, k, sample_rows) = (q.min(n), k.min(n), sample_row_count(k).min(n));
        let (p, element_bytes, tile_rows) = (size.map.p, size.element_bytes, pass_shape.tile_rows);
        let plan = plan
            .term(
                "sums of clusters",
                features::STATES_PER_REDUCTION * 8 * (k + MAX_FARTHEST_POINTS) * q,
                "lower `clusters`",
            )
            .term("centroids", 2 * (8 + element_bytes) * k * q, "lower `clusters`")
            .term("sample of points", sample_rows * element_bytes * (q + p), "lower `rank`")
            .term("points of a tile", tile_rows * (element_bytes * q + 12), "lower `rank`")
            .term("points of a strip", size.threads * STRIP_POINTS * (8 * (q + p) + element_bytes * k), "lower `rank`");
        match self.counts.len() {
            0 | 1 => plan,
            compared => plan.term(
                "silhouettes of the sample",
                count::bytes(sample_rows, q, compared, element_bytes, size.threads),
                "give one number of `clusters`",
            ),
        }
    }
}

/// Returns the stages of a run on features, followed by the pass that describes the clusters by
/// their columns. `add_solver_terms` adds the memory of the solver to the plan of its stage.
pub(super) fn stages(
    options: &ClusteringOptions,
    request: &FitRequest<'_>,
    add_solver_terms: &dyn Fn(MemoryPlan, PassShape) -> MemoryPlan,
) -> (PassShape, Vec<Stage>) {
    let (pass_shape, mut stages) = stage_plans::feature_stages(request, add_solver_terms, [0, 0]);
    stages.push(Stage {
        plan: stage_plans::plan_cluster_profiles(
            &request.size,
            pass_shape,
            options.max_count(),
            request.resources.memory,
        ),
        passes: 1,
    });
    (pass_shape, stages)
}
