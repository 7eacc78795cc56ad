//! Rows decoded and scaled once, for all passes after the first.

use super::options::Resources;
use super::plan::Cut;
use crate::Result;
use kapprox::Real;
use kstore::scratch::{Cache, CacheWriter};
use kstore::{Error, Fold, Merge, Pass, RowBlock, RowSource, Workers};
use std::sync::{Mutex, PoisonError};

/// Writes the decoded and scaled rows to the scratch folder; `None` without one.
///
/// One pass, one lane, so that rows arrive in their order. What is folded from the cache has the bits of what is folded
/// from the rows. Not journaled: a run that is resumed writes its cache again.
///
/// # Errors
/// Errors of the source; [`Error::OverScratch`] and [`Error::ScratchFull`] where the rows do not fit.
pub(super) fn rows<T: Real>(
    source: &dyn RowSource<T>,
    cut: Cut,
    resources: &Resources<'_>,
) -> Result<Option<Cache<T>>> {
    let Some(scratch) = resources.scratch else { return Ok(None) };
    let range = source.range();
    let observer = resources.stages.stage("rows to scratch", Some(range.end - range.start));
    let writer = Mutex::new(scratch.cache::<T>(source.shape(), range)?);
    let pass = Pass { journal: None, ..cut.pass(1, resources, &*observer) };
    pass.fold(source, &Write { writer: &writer })?;
    Ok(Some(writer.into_inner().unwrap_or_else(PoisonError::into_inner).finish()?))
}

/// A fold that appends every tile to the cache.
struct Write<'a, T> {
    writer: &'a Mutex<CacheWriter<T>>,
}

/// The empty state of [`Write`], whose result is the cache.
struct Written;

impl Merge for Written {
    fn merge(&mut self, _later: &Self) {}
}

impl<T: Real> Fold<T> for Write<'_, T> {
    type State = Written;
    type Scratch = ();
    type Error = Error;

    fn init(&self) -> Written {
        Written
    }
    fn scratch(&self) {}
    fn step(&self, _: &mut Written, (): &mut (), block: &RowBlock<'_, T>, _: &Workers) -> kstore::Result<()> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).push(block)
    }
}
