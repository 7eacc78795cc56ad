//! Kernel machines on tables larger than memory: fits, certificates (exact errors of the kernel
//! approximation), reports, model files and predictions.
//!
//! [`estimator`] has the solvers as types, for rows in memory and for tables:
//!
//! ```
//! use ksolve::{Kernel, Ridge};
//! // one column; or [[f64; D]], a faer matrix, a table
//! let x: Vec<f64> = (0..2000).map(|i| f64::from(i) / 100.0).collect();
//! let y: Vec<f64> = x.iter().map(|x| x.sin()).collect();
//! let model = Ridge::new().kernel(Kernel::gaussian(0.5)).rank(100).fit(&x, &y)?;
//! assert!((model.predict(&[2.0])?[0] - 2f64.sin()).abs() < 1e-3);
//! # Ok::<(), ksolve::Error>(())
//! ```
//!
//! A [`Fit`] describes any fit and a [`Run`] its resources; the command and Python use both. A
//! [`Predictor`] applies a model, and [`Tune`] searches for a model. [`curve`] measures errors
//! against rank, [`statistic`] tests hypotheses, and [`shards`] processes the parts of a table on
//! several machines.
//!
//! This crate builds on four crates. `kfit` has the solvers, for programs that add a solver.
//! `kmodel` has the models, for programs that only predict. `kapprox` has kernels and feature maps,
//! `kstore` tables.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod combination_report;
pub mod coordinates;
pub mod curve;
pub mod estimator;
mod fit_report;
pub mod job;
#[doc(hidden)]
pub mod metric;
pub mod shards;
pub mod statistic;
#[doc(hidden)]
pub mod train;
pub mod tune;

pub use estimator::{Fisher, KernelKMeans, KernelPca, Logistic, OneClassSvm, Ridge, Svm, Svr};
pub use job::{Fit, Fitted, Run};
pub use kapprox::Kernel;
pub use kfit::SurfaceCell;
#[doc(hidden)]
pub use kmodel::growth;
pub use kmodel::{
    AnyModel, Certificate, Classes, Error, FoldSpec, Intercept, Link, Model, ModelMetadata, Result, Task, predict,
};
pub use predict::Predictor;
pub use tune::Tune;

use kfit::{RidgeGrid, Surface, features, fit, prepare, request, solver};
use kmodel::{
    Folds, GramScratch, GramState, LinearHead, MomentReduction, Targets, alignment, bins, folds, gram, grids, linalg,
    model, ranking_pairs, stacked_maps, task,
};
