//! A whole job: from rows to a model that predicts.
//!
//! [`Fit`] describes what to learn, with the defaults of the command line, and [`Run`] describes
//! the resources. [`Fit::run`] returns a [`Fitted`]: the model, and the report of its fit.
//!
//! ```
//! use ksolve::job::{Fit, Run};
//! let x: Vec<f64> = (0..400).map(|i| f64::from(i) / 40.0).collect();
//! let y: Vec<f64> = x.iter().map(|x| x.sin()).collect();
//! let table = kstore::Table::from_rows(&x, 1, &y)?;
//! let fitted = Fit::ridge().rank(50).fit_table(&table, &["y"], &Run::new())?;
//! assert!(fitted.report.train.unwrap().mse < 1e-3);
//! # Ok::<(), ksolve::Error>(())
//! ```

mod candidates;
mod checkpoint;
mod default_folds;
mod files;
mod fit;
mod fitted;
mod serde_text;
mod sparse_rows;
mod train_options;
mod warnings;

pub use crate::combination_report::Combination;
pub use crate::fit_report::{FitReport, LAMBDA_CONVENTION, LandmarkReport, TrainScores, convention_of};
pub use candidates::Candidates;
pub use files::is_model_file;
pub use fit::{ElementType, Fit};
pub use fitted::Fitted;
pub use kfit::request::{
    Forecast, LandmarkSource, MetricForm, MetricSource, NoStageObserver, ProvidedMetric, Scaling, Stage, StageObserver,
};
#[doc(hidden)]
pub use kmodel::model::ClusterProfile;
pub use kmodel::model::MetricReport;
pub use kmodel::run::{Checkpoint, Run, TEXT_COPIES};
#[doc(hidden)]
pub use kmodel::run::{RowShift, TestSplit};
pub use kstore::CancelToken;
#[doc(hidden)]
pub use sparse_rows::{kernel_for, scaling_for, text_options_for};
