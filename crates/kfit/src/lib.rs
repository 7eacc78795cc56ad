//! Solvers of kernel methods: from features of rows to linear functions of these features, in few
//! passes and within a memory budget.
//!
//! A [`solver`] declares its parameters, its passes and its memory in a family. A [`request`]
//! describes what to learn. Programs use this crate through `ksolve`, which runs any solver and
//! adds typed solvers, model search and statistics. The modules that are hidden here are for
//! `ksolve` only.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

#[doc(hidden)]
pub mod features;
#[doc(hidden)]
pub mod prepare;
pub mod request;
pub mod solver;
mod surface_cell;

pub use solver::cv_error::{CvErrorReduction, CvErrorScratch, CvErrorState};
#[doc(hidden)]
pub use solver::normal_equations::fit_with_dimension;
pub use solver::normal_equations::{FoldCoefficients, RidgeFit, RidgeGrid, Surface, fit};
pub use surface_cell::{SurfaceCell, standard_error_over_folds};

use kmodel::{
    AnyModel, BinReduction, CertificateState, Classes, Deviance, Error, FeatureReduction, FoldGram, FoldSpec, Folds,
    GramScratch, GramState, Intercept, LinearHead, Link, MomentState, RegressionLoss, Result, Targets, Task, bins,
    certificate, feature_reduction, folds, gram, grids, linalg, model, moments, neighbours, platt, quadratic,
    ranking_pairs, recursive_least_squares, row_weights, stacked_maps, task,
};
