//! Fits kernel methods: from the rows of a table to a model, in few passes and within a memory
//! budget.
//!
//! A [`job::Fit`] describes what to learn, and a [`job::Run`] describes the resources. A [`solver`]
//! learns linear functions of features, and [`train`] runs any solver. Programs use this crate
//! through `ksolve`, which adds typed solvers, model search and statistics. The modules that are
//! hidden here are for `ksolve` only.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

#[doc(hidden)]
pub mod features;
pub mod job;
pub mod metric;
#[doc(hidden)]
pub mod prepare;
pub mod request;
pub mod solver;
pub mod train;

pub use solver::cv_error::{CvErrorFold, CvErrorScratch, CvErrorState};
pub use solver::normal_equations::{Cell, FoldCoefficients, RidgeFit, RidgeOptions, Surface, fit};

use kmodel::{
    AnyModel, BinFold, Certificate, CertificateState, Classes, Error, FeatureFold, FoldGram, FoldSpec, Folds,
    GramScratch, GramState, Intercept, LinearHead, Link, Model, ModelMetadata, Result, RidgeFold, RidgeState, Targets,
    Task, alignment, bins, certificate, feature_fold, folds, gram, linalg, lists, model, moments, neighbours, platt,
    quadratic, ranking_pairs, recursive_least_squares, row_weights, stacked_maps, task,
};
