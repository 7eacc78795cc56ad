//! What writes a table.

use super::column::OutputColumn;
use crate::Result;
use crate::kept_column::Output;
use std::path::Path;

/// A table being written. It takes its place on the disk at [`Sink::finish`]; dropped before, it leaves nothing.
pub trait Sink: Send {
    /// Appends rows: one [`Output`] per column, in the order of the columns, all of the same length.
    fn write(&mut self, batch: &[Output<'_>]) -> Result<()>;
    /// Writes what is left to the disk and leaves [`Sink::finish`] only the renaming: before any of several files that
    /// belong together takes its place, each is known to fit. Nothing can be appended after it.
    fn settle(&mut self) -> Result<()>;
    /// Writes what is left and puts the file in its place.
    fn finish(self: Box<Self>) -> Result<()>;
    /// Bytes held between batches.
    fn footprint(&self) -> usize;
}

/// Starts a file with these columns.
pub type Create = fn(&Path, &[OutputColumn]) -> Result<Box<dyn Sink>>;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) holds: fn(&OutputColumn) -> bool,
    pub(crate) create: Create,
}
