//! Learning on feature blocks: ridge regression and its rank x lambda x fold surface, scores, and the model file.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

pub mod bins;
pub mod certificate;
mod cholesky;
pub mod curve;
mod dots;
mod error;
mod feature_fold;
pub mod features;
pub mod folds;
pub mod gram;
pub mod job;
pub mod lists;
pub mod metric;
pub mod model;
mod moments;
mod neighbours;
pub mod onnx;
mod platt;
pub mod predict;
pub mod preimage;
mod prepare;
pub mod quadratic;
pub mod request;
mod row_weights;
pub mod score;
pub mod solver;
mod stacked;
pub mod statistic;
mod strips;
pub mod task;
pub mod train;
pub mod tune;

pub use bins::{BIN, Targets};
pub use certificate::{Certificate, CertificateState};
pub use error::{Error, Result};
pub use feature_fold::{FeatureFold, Take};
pub use folds::{FoldSpec, Folds};
pub use gram::{FoldGram, GramScratch, GramState};
pub use model::{AnyModel, Card, Head, Intercept, Model, PredictScratch};
pub use moments::{MomentScratch, Moments, RidgeFold, RidgeState};
pub use preimage::PreImages;
pub use quadratic::Quadratic;
pub use solver::ridge::mistakes::{CvErrorFold, CvErrorScratch, CvErrorState, Mistakes};
pub use solver::ridge::surface::{Cell, FoldCoefficients, Surface};
pub use solver::ridge::{RidgeFit, RidgeOptions, fit};
pub use task::{Classes, Link, Task};
