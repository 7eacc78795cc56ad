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

mod cached;
pub(crate) mod candidates;
mod forecast;
pub(crate) mod landmarks;
mod options;
pub(crate) mod plan;
pub(crate) mod prepare;
mod report;
mod run;
mod stage;
pub(crate) mod survey;
mod tolerance;
mod trained;
pub(crate) mod whole;

pub use forecast::{Forecast, forecast};
pub use options::{LandmarkSource, Resources, Scaling, Stages, Task, TrainOptions, Unwatched};
pub use plan::{PassShape, ProblemSize, tile_rows};
pub(crate) use plan::{RANK, landmark_stages, on_features};
pub use report::{FitReport, LAMBDA, LandmarkReport, MetricReport, Solved, Train};
pub use run::train;
pub(crate) use stage::fit;
pub use stage::{FitRequest, RowAccess, Stage};
pub(crate) use tolerance::Residuals;
pub use trained::Trained;
pub(crate) use trained::{explained, needs_wide_for, target_names};
