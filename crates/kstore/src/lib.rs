//! Tables of rows on disk, read in blocks under a memory budget and written back whole.
//!
//! The crate answers three questions and no others:
//!
//! * **what are the rows?** — [`RowSource`] gives [`RowBlock`]s of numbers for any range of stored rows, whatever the
//!   file format;
//! * **how are they folded?** — [`Pass`] is the one loop over rows of the whole workspace: segments of a fixed size,
//!   folded by lanes in parallel, merged in row order, so that the result has the same bits whatever the threads;
//! * **what does it cost?** — every consumer states its [`Footprint`], and a [`Plan`] adds them up before work starts.
//!
//! It knows no kernel and no solver.

pub mod budget;
mod error;
pub mod key;
pub mod pass;
mod real;
pub mod rows;

pub use budget::{Footprint, Plan};
pub use error::{Error, Result};
pub use pass::{Fold, Merge, Pass, Workers};
pub use real::Real;
pub use rows::{Coded, Label, RowBlock, RowBuf, RowCursor, RowSource, TableShape};
