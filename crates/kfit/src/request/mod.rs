//! The request for a fit: options, sizes, stages and resources.
//!
//! Solvers depend on this module. [`TrainOptions`] define the result. [`Resources`] (memory,
//! threads, scratch) do not affect the result. [`ProblemSize`] and [`PassShape`] determine memory
//! and passes. [`FitRequest`] combines options, resources and sizes.

mod fit_request;
mod metric;
mod options;
mod size;

pub use fit_request::{FitRequest, RowAccess};
pub use kmodel::run::{Forecast, NoStageObserver, PassShape, Resources, Stage, StageObserver};
pub use kmodel::run::{all_fit, memory_plans};
pub use metric::{MetricForm, MetricSource, ProvidedMetric};
pub(crate) use options::EXACT_UNSUPPORTED;
pub use options::{LandmarkSource, Scaling, TrainOptions};
pub(crate) use size::SCALING_MEDIAN_ROWS;
pub use size::{MEDIAN_ROWS, map_shape};
pub use size::{ProblemSize, tile_rows};
