//! Kernel models: files, predictions and scores, and the sums over rows from which models are
//! computed.
//!
//! A [`Model`] contains the coefficients of kernel functions and everything else that defines its
//! predictions; it is stored in one file. A [`predict::Predictor`] applies a model to slices and
//! tables, [`score`] compares predictions with true values, and a [`run::Run`] contains the
//! resources of a job. The solvers, which fit models, are in the crate `kfit`. Programs use both
//! crates through `ksolve`.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

#[doc(hidden)]
pub mod alignment;
pub mod bins;
pub mod certificate;
#[doc(hidden)]
pub mod deviance;
mod error;
pub mod feature_reduction;
pub mod folds;
pub mod gram;
pub mod grids;
#[doc(hidden)]
pub mod growth;
#[doc(hidden)]
pub mod intervals;
#[doc(hidden)]
pub mod likelihood;
#[doc(hidden)]
pub mod linalg;
pub mod model;
pub mod moments;
#[doc(hidden)]
pub mod neighbours;
pub mod onnx;
#[doc(hidden)]
pub mod platt;
pub mod predict;
pub mod preimage;
pub mod quadratic;
mod rank_sketch;
#[doc(hidden)]
pub mod ranking_pairs;
#[doc(hidden)]
pub mod recursive_least_squares;
mod regression_loss;
#[doc(hidden)]
pub mod row_weights;
pub mod run;
pub mod score;
#[doc(hidden)]
pub mod stacked_maps;
pub mod task;

pub use bins::Targets;
pub use certificate::{Certificate, CertificateState};
pub use deviance::Deviance;
pub use error::{Error, Result};
pub use feature_reduction::{BinReduction, FeatureReduction};
pub use folds::{FoldRule, FoldSpec, Folds};
pub use gram::{FoldGram, GramScratch, GramState};
pub use model::{AnyModel, Intercept, LinearHead, Model, ModelMetadata, PredictScratch};
pub use moments::{MomentBinReduction, MomentReduction, MomentScratch, MomentState};
pub use preimage::PreImages;
pub use quadratic::Quadratic;
pub use regression_loss::RegressionLoss;
pub use task::{Classes, Link, Task};
