//! Training: from selected rows to a model, in few passes and a stated amount of memory.
//!
//! | pass | what it finds |
//! |---|---|
//! | 1 | scaling statistics, labels, the number of rows; where there are labels, a pass over them alone comes before, for the plan |
//! | 2 | a uniform sample of candidate rows (each round of a scheme that selects among all rows is one pass more) |
//! | 3 and more | what the [solver](crate::solver) looks for |
//!
//! There is one run for all solvers: [`train`] makes it, [`forecast()`] says what it would hold and read. Both
//! walk the list of stages that the solver gives.
//!
//! With a scratch folder one more pass, after the first, writes the rows there, decoded and scaled, for all that follow.

mod forecast;
pub mod prepared;
mod report;
mod run;
mod trained;

pub use forecast::forecast;
pub use report::{FitReport, LAMBDA, LandmarkReport, Train, convention};
pub use run::train;
pub use trained::ENDLESS;
pub use trained::{Trained, target_names};
