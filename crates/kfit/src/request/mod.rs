//! The request for a fit: options, sizes, stages and resources.
//!
//! Solvers depend on this module. [`TrainOptions`] define the result and [`Resources`] do not
//! affect it; [`ProblemSize`] and [`PassShape`] determine memory and passes; [`FitRequest`]
//! combines them.

mod fit_request;
mod metric;
mod options;
mod size;

pub use fit_request::{FitRequest, RowAccess};
pub use kmodel::run::{Forecast, PassShape, Resources, Stage, Stages, Unwatched};
pub use kmodel::run::{fit, plans};
pub use metric::{KnownMetric, MetricForm, MetricSource};
pub use options::NO_EXACT;
pub use options::{LandmarkSource, Scaling, TrainOptions};
pub use size::{MEDIAN_ROWS, MEDIANS, map_shape};
pub use size::{ProblemSize, tile_rows};
