//! Training: from selected rows to a model, in few passes and within a memory budget.
//!
//! | pass | result |
//! |---|---|
//! | 1 | scaling statistics, labels, number of rows |
//! | 2 | a uniform sample of candidate rows, or one pass per round for schemes on all rows |
//! | 3 and later | the result of the [solver](crate::solver) |
//!
//! If there are labels, one more pass counts them before pass 1, for the plan.
//!
//! [`train`] runs any solver, and [`forecast()`] predicts the memory and the reads of the run. Both
//! follow the solver's list of stages.
//!
//! With a scratch folder, one more pass after pass 1 writes the decoded and scaled rows to the
//! folder, and all later passes read them there.

mod cluster_columns;
mod cluster_profile;
pub(crate) mod column_sample;
mod forecast;
pub mod prepared;
mod trained;
mod training;

pub use forecast::forecast;
pub(crate) use trained::UNBOUNDED;
pub use trained::{TrainedModel, target_names};
pub use training::train;
