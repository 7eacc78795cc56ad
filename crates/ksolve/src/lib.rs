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

pub mod coordinates;
pub mod curve;
pub mod estimator;
pub mod shards;
pub mod statistic;
pub mod tune;

/// A whole job: from rows to a model that predicts.
pub mod job {
    pub use crate::shards;
    pub use kfit::job::*;
}

pub use estimator::{Fisher, KernelKMeans, KernelPca, Logistic, OneClassSvm, Ridge, Svm, Svr};
pub use job::{Fit, Fitted, Run};
pub use kapprox::Kernel;
#[doc(hidden)]
pub use kfit::features;
use kfit::prepare;
pub use kfit::{
    Cell, CvErrorScratch, CvErrorState, FoldCoefficients, Mistakes, RidgeFit, RidgeOptions, Surface, fit, metric,
    request, solver, train,
};
pub use kmodel::{
    AnyModel, Card, Certificate, CertificateState, Classes, Error, FeatureFold, FoldGram, FoldSpec, Folds, GramScratch,
    GramState, Head, HeldOut, Intercept, Link, Model, MomentScratch, Moments, PreImages, PredictScratch, Quadratic,
    Result, RidgeFold, RidgeState, Take, Targets, Task, bins, certificate, feature_fold, folds, gram, lists, model,
    moments, onnx, predict, preimage, quadratic, score, task,
};
use kmodel::{linalg, ranked};
pub use predict::Predictor;
pub use tune::Tune;
