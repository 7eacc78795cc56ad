//! Passes over rows. All crates of the workspace read their rows in the one loop of this crate,
//! which keeps within a memory budget and is bitwise reproducible on any number of threads.
//!
//! The crate answers four questions and no others:
//!
//! * **what are the rows?** A [`RowSource`] returns [`RowBlock`]s of numbers for any range of
//!   stored rows;
//! * **how are they reduced?** A [`Pass`] computes a partial result for each segment (a fixed range
//!   of rows) on parallel lanes (worker threads), and merges these results in row order. The result
//!   therefore has the same bits on any number of threads;
//! * **what does it cost?** Every consumer states its [`Footprint`], and a [`MemoryPlan`] adds them
//!   up before work starts;
//! * **what remains of a stopped run?** A [`checkpoint`] holds the states of its passes, and the
//!   next run continues with the same bits.
//!
//! It contains no file format, no kernel and no solver. The crate `kstore` reads tables as sources
//! of rows.
//!
//! # Example
//!
//! The sum of a column of any source:
//!
//! ```
//! use kpass::{Error, MemoryRows, Merge, Pass, Reduction, RowBlock, Workers};
//!
//! struct Sum;
//! #[derive(Default)]
//! struct Total(f64);
//! impl Merge for Total {
//!     fn merge(&mut self, later: &Self) {
//!         self.0 += later.0;
//!     }
//! }
//! impl Reduction<f64> for Sum {
//!     type State = Total;
//!     type Scratch = ();
//!     type Error = Error;
//!     fn init(&self) -> Total {
//!         Total::default()
//!     }
//!     fn scratch(&self) {}
//!     fn step(
//!         &self,
//!         sum: &mut Total,
//!         _: &mut (),
//!         block: &RowBlock<'_, f64>,
//!         _: &Workers,
//!     ) -> Result<(), Error> {
//!         sum.0 += block.x.iter().sum::<f64>();
//!         Ok(())
//!     }
//! }
//! let rows = MemoryRows::new(vec![1.0, 2.0, 6.0], 1)?;
//! let workers = Workers::sequential();
//! let (sum, report) = Pass::new(1024, 65_536, &workers).reduce(&rows, &Sum)?;
//! assert_eq!((sum.0, report.rows), (9.0, 3));
//! # Ok::<(), Error>(())
//! ```

pub mod atomic;
pub mod budget;
pub mod checkpoint;
pub mod digest;
pub mod display;
pub mod element;
mod error;
pub mod identity;
mod kept_column;
pub mod key;
mod memory_rows;
pub mod names;
pub mod pass;
pub mod quantiles;
mod real;
pub mod registry;
pub mod rows;
pub mod scaler;
pub mod sparse;
pub mod statistics;
mod strings;
mod system_error;

pub use atomic::{AtomicFile, committed_outputs, remove_temporaries, stop_outputs, watch_outputs};
pub use budget::{Footprint, MemoryPlan};
pub use digest::Digest;
pub use error::{BadLine, Error, Result};
pub use kept_column::{KeptColumn, KeptValues, OutputKind, OutputValues};
pub use memory_rows::MemoryRows;
pub use pass::{BufferPool, CancelToken, Merge, Pass, Reduction, Workers};
pub use rayon;
pub use real::{Float, vectorised};
pub use rows::{Label, LabelCodes, RowBlock, RowBuf, RowCursor, RowSource, TableShape};
pub use scaler::Scaler;
pub use statistics::{Statistics, StatisticsReduction};
pub use strings::Strings;
