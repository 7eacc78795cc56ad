//! Training: from selected rows to a model, in few passes and a stated amount of memory.
//!
//! | pass | what it finds |
//! |---|---|
//! | 1 | scaling statistics, labels, the number of rows |
//! | 2 | a uniform sample of candidate rows (each round of a scheme that selects among all rows is one pass more) |
//! | 3 | Gram matrix of every fold and the certificate of every rank: the whole rank x lambda x fold surface |
//! | 4 | classification with folds only: the error of the held-out rows for the best cell of each rank |
//!
//! Ridge regression by conjugate gradient has runs of its own: on the kernel of all rows (`exact`), and on landmarks without
//! a Gram matrix (`pcg`).
//!
//! With a scratch folder one more pass, after the first, writes the rows there, decoded and scaled, for all that follow.

mod cached;
pub(crate) mod candidates;
mod exact;
mod forecast;
pub(crate) mod landmarks;
mod options;
mod pcg;
pub(crate) mod plan;
pub(crate) mod prepare;
mod rates;
mod run;
mod solve;
pub(crate) mod survey;
mod trained;

pub use forecast::{Forecast, Step, forecast, forecast_solve};
pub use options::{
    Choice, DIRECT_ROWS, LandmarkSource, Method, Preconditioner, Resources, Scaling, Stages, SystemOptions, Task,
    TrainOptions, Unwatched,
};
pub use plan::{Cut, Shape, tile_rows};
pub use run::{plan, train};
pub use solve::{plan_solve, solve};
pub use trained::{Solved, Trained};
