//! Kernel machines on tables larger than memory: fits, their certificates and reports, model files and predictions.
//!
//! A [`job::Fit`] says what is learned, a [`job::Run`] what it may take, and a [`predict::Predictor`] is the model that comes of it.
//!
//! ```
//! use ksolve::{job::{Fit, Run}, predict::Predictor};
//! use kstore::Table;
//!
//! let x: Vec<f64> = (0..2000).map(|i| f64::from(i) / 100.0).collect();
//! let y: Vec<f64> = x.iter().map(|x| x.sin()).collect();
//! let table = Table::from_rows(&x, 1, &y)?;                  // or Table::open(&["data/*.parquet"])?
//! let fitted = Fit::ridge().rank(100).on(&table, &["y"], &Run::new())?;
//!
//! let (model, mut out) = (Predictor::new(fitted.model)?, [0.0; 3]);
//! model.predict(&[1.0, 2.0, 3.0], &mut out)?;
//! assert!(out.iter().zip([1.0f64, 2.0, 3.0]).all(|(found, x)| (found - x.sin()).abs() < 1e-3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`solver`] has the solvers and what they read, [`certificate`] how good an approximation is, [`tune`] the choice of all of it, and [`model`]
//! the file.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

pub mod bins;
pub mod certificate;
pub mod coordinates;
pub mod curve;
mod error;
mod feature_fold;
pub mod features;
pub mod folds;
pub mod gram;
pub mod job;
mod linalg;
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
mod ranked;
pub mod request;
mod row_weights;
pub mod score;
pub mod solver;
mod stacked;
pub mod statistic;
pub mod task;
pub mod train;
pub mod tune;

pub use bins::Targets;
pub use certificate::{Certificate, CertificateState};
pub use error::{Error, Result};
pub use feature_fold::{FeatureFold, Take};
pub use folds::{FoldSpec, Folds, HeldOut};
pub use gram::{FoldGram, GramScratch, GramState};
pub use model::{AnyModel, Card, Head, Intercept, Model, PredictScratch};
pub use moments::{MomentScratch, Moments, RidgeFold, RidgeState};
pub use preimage::PreImages;
pub use quadratic::Quadratic;
pub use solver::ridge::mistakes::{CvErrorFold, CvErrorScratch, CvErrorState, Mistakes};
pub use solver::ridge::surface::{Cell, FoldCoefficients, Surface};
pub use solver::ridge::{RidgeFit, RidgeOptions, fit};
pub use task::{Classes, Link, Task};
