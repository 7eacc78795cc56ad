//! Passes over blocks of rows that are defined by a single function and need no scratch buffers.

use crate::{Error, Result};
use kapprox::Real;
use kstore::{Reduction, RowBlock, Workers};
use std::marker::PhantomData;

/// A pass defined by a function that adds a block to a state, starting from the default state.
#[expect(missing_debug_implementations, reason = "a function is not debug")]
pub struct ReductionFn<S, F> {
    add_block: F,
    state: PhantomData<fn() -> S>,
}

impl<S, F> ReductionFn<S, F> {
    /// Returns a reduction that calls `add_block` for each block.
    pub fn new<T>(add_block: F) -> Self
    where
        F: Fn(&mut S, &RowBlock<'_, T>) -> Result<()>,
    {
        Self { add_block, state: PhantomData }
    }
}

impl<T: Real, S: Default + Send, F: Fn(&mut S, &RowBlock<'_, T>) -> Result<()> + Sync> Reduction<T>
    for ReductionFn<S, F>
{
    type State = S;
    type Scratch = ();
    type Error = Error;

    fn init(&self) -> S {
        S::default()
    }
    fn scratch(&self) {}
    fn step(&self, state: &mut S, (): &mut (), block: &RowBlock<'_, T>, _: &Workers) -> Result<()> {
        (self.add_block)(state, block)
    }
}
