//! Fits of kernel machines: from rows to a model, in few passes and a stated amount of memory.
//!
//! A [`job::Fit`] describes what to learn and a [`job::Run`] the resources. A [`solver`] learns
//! linear functions of features, and [`train`] runs any solver. Programs use this crate through
//! `ksolve`, which adds typed solvers, model search and statistics. The modules hidden here are for
//! `ksolve` only.

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

pub use solver::mistakes::{CvErrorScratch, CvErrorState, Mistakes};
pub use solver::normal_equations::{Cell, FoldCoefficients, RidgeFit, RidgeOptions, Surface, fit};

use kmodel::{
    AnyModel, Card, Certificate, CertificateState, Classes, Error, FeatureFold, FoldGram, FoldSpec, Folds, GramScratch,
    GramState, Head, Intercept, Link, Model, Result, RidgeFold, RidgeState, Take, Targets, Task, alignment, bins,
    certificate, feature_fold, folds, gram, linalg, lists, model, moments, neighbours, platt, quadratic, ranked,
    row_weights, stacked, task,
};
