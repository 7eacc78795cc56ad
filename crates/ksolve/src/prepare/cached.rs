//! Rows decoded and scaled once, for all passes after the first.

use crate::Result;
use crate::request::{PassShape, Resources};
use kapprox::Real;
use kstore::scratch::Cache;
use kstore::{Pass, RowSource};

/// Writes the decoded and scaled rows to the scratch folder; `None` without one.
///
/// One pass, one lane, so that rows arrive in their order. What is folded from the cache has the bits of what is folded
/// from the rows. Not journaled: a run that is resumed writes its cache again.
///
/// # Errors
/// Errors of the source; [`kstore::Error::OverScratch`] and [`kstore::Error::ScratchFull`] where the rows do not fit.
pub(crate) fn rows<T: Real>(
    source: &dyn RowSource<T>,
    cut: PassShape,
    resources: &Resources<'_>,
) -> Result<Option<Cache<T>>> {
    let Some(scratch) = resources.scratch else { return Ok(None) };
    let range = source.range();
    let observer = resources.stages.stage("rows to scratch", Some(range.end - range.start));
    let mut writer = scratch.cache::<T>(source.shape(), range)?;
    let pass = Pass { journal: None, ..cut.pass(1, resources, &*observer) };
    pass.visit(source, |block| writer.push(block))?;
    Ok(Some(writer.finish()?))
}
