//! What a fit is asked to do: its options, its sizes, its stages, and what it may use.
//!
//! It stands below the solvers, which read it: [`TrainOptions`] define the result, [`Resources`] change no bit of it, [`ProblemSize`] and
//! [`PassShape`] say what is held and how passes are cut, and [`FitRequest`] is all of these together.

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
