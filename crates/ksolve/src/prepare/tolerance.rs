//! The rank that a tolerance asks for: the smallest whose features leave at most that share of the trace on all rows.

use crate::Result;
use crate::certificate::Residuals;
use crate::request::{PassShape, Resources, TrainOptions};
use kapprox::{FeatureMap, Real};
use kstore::RowSource;

/// Landmarks are chosen until they leave this share of the tolerance of the candidates' trace: candidates are a sample, and all rows
/// may leave a little more.
pub(crate) const AIM: f64 = 0.9;

/// Cuts the map down to the smallest rank within the tolerance, where there is one, in one pass over all rows; warns where no rank
/// of the map is. Returns the number of passes.
///
/// *Flops*: those of the map. *Bytes*: a tile of features.
pub(crate) fn cut<T: Real>(
    map: &mut Box<dyn FeatureMap<T>>,
    source: &dyn RowSource<T>,
    options: &TrainOptions,
    cut: PassShape,
    resources: &Resources<'_>,
) -> Result<u64> {
    let Some(tolerance) = options.tolerance else { return Ok(0) };
    let name = "rank within the tolerance";
    let observer = resources.over(name, source.range());
    let fold = Residuals { map: &**map, tile: cut.tile };
    let (state, _) = cut.pass(1, resources, &*observer).resume(name, source, &fold)?;
    drop(observer);
    let there = map.dims().1;
    match state.rank_within(tolerance) {
        Some(rank) if rank < there => {
            map.truncate(rank);
        }
        Some(_) => {}
        None => {
            let error = state.certificate(there).trace_error;
            let remedy = match there < options.rank {
                true => "raise `candidates`, or take `precision` f64",
                false => "raise `rank`",
            };
            resources.stages.warn(format!(
                "the tolerance was not reached: the relative trace error at rank {there} is {error:.3e}; {remedy}"
            ));
        }
    }
    Ok(1)
}
