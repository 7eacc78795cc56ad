//! Solvers: methods that learn linear functions of the features.
//!
//! A solver reads rows as features φ(x) (and targets y), in as many passes as it needs. It returns
//! t linear functions of the features, wᵀφ(x) + c. Its [`crate::Task`] defines the meaning of these
//! functions: regression values, class scores, coordinates, or similarities to centres. Saving,
//! predicting and evaluating depend only on the functions and the task. If a solver needs no
//! features, it may return combinations of kernel functions of landmarks or of all rows instead
//! ([`crate::request::RowAccess`]).
//!
//! To add a solver, write one file here with its `FAMILY`, and add one line to `SOLVERS`.

mod centred_moments;
mod class_weight;
mod clustering;
mod cross_validation;
pub(crate) mod cv_error;
mod embedding;
mod family;
mod features;
mod fisher;
#[doc(hidden)]
pub mod gradient_products;
mod gradients;
mod hessian_blocks;
mod isomap;
mod kdr;
mod kmeans;
mod kpca;
mod kpca_l1;
mod laplacian;
mod lle;
mod logistic;
mod mds;
mod mean;
mod mvu;
mod neighbour_graph;
mod newton;
#[doc(hidden)]
pub mod normal_equations;
mod normalised_moments;
mod online;
pub mod parameter;
mod perceptron;
mod pls;
mod ranking;
pub mod ridge;
mod solution;
mod spca;
mod spectral;
pub mod svm;
mod sweeps;
mod target_features;
mod views;

pub use class_weight::ClassWeight;
#[doc(hidden)]
pub use cross_validation::{CV_ERROR, CV_ERROR_OF_FOLDS};
pub use cross_validation::{EACH_PENALTY_SUFFIX, LAMBDA_OF_EACH_LEVEL};
pub use family::{AnySolver, Solver, SolverFamily, SolverProperties};
use family::{check_stop, reject_if};
pub use parameter::{Options, Parameter, ParameterValue, Regularisation, Settings};
#[doc(hidden)]
pub use solution::ClusterCounts;
#[doc(hidden)]
pub use solution::EFFECTIVE_DIMENSION;
pub use solution::mse_and_r2;
pub use solution::{FoldFunctions, NamedValues, Projection, Solution, SolveMethod};

use crate::{Error, Result};
use kstore::registry::Registry;

static SOLVERS: Registry<SolverFamily> = Registry::new(&[
    ridge::FAMILY,
    kpca::FAMILY,
    kpca_l1::FAMILY,
    fisher::FAMILY,
    logistic::FAMILY,
    logistic::GLM,
    svm::SVM,
    svm::SVR,
    svm::QUANTILE,
    svm::ONE_CLASS,
    mean::FAMILY,
    kmeans::FAMILY,
    spectral::FAMILY,
    laplacian::FAMILY,
    mds::FAMILY,
    isomap::FAMILY,
    lle::FAMILY,
    mvu::FAMILY,
    perceptron::FAMILY,
    online::FAMILY,
    ranking::FAMILY,
    pls::FAMILY,
    spca::FAMILY,
    kdr::FAMILY,
    views::CCA,
    views::COVARIANCE,
    features::FAMILY,
]);

/// Returns the default solver, ridge regression.
impl Default for &SolverFamily {
    fn default() -> Self {
        &ridge::FAMILY
    }
}

/// Returns every solver: the solvers of this crate, then the registered solvers.
pub fn registry() -> Vec<&'static SolverFamily> {
    SOLVERS.entries()
}

/// Returns the solver with this name, or `None` if the name is unknown.
pub fn by_name(name: &str) -> Option<&'static SolverFamily> {
    SOLVERS.by_name(name)
}

/// Returns the solver with this name.
///
/// # Errors
/// [`Error::Option`] if no solver has this name.
pub fn solver_named(name: &str) -> Result<&'static SolverFamily> {
    let names = || registry().iter().map(|family| family.name).collect::<Vec<_>>().join(", ");
    by_name(name).ok_or_else(|| Error::option("solver", name, format!("give one of {}", names())))
}

/// Registers a solver of another crate in this process. Jobs, model files, and the options and help
/// of a command built with it then find the solver by its name.
///
/// # Errors
/// [`kstore::Error::Register`] if the name is taken, or is not made of lower-case letters, digits
/// and `_`.
pub fn register(family: &'static SolverFamily) -> Result<()> {
    Ok(SOLVERS.register(family)?)
}

/// Returns the parameters of all solvers; a parameter that several solvers read appears repeatedly.
pub fn parameters() -> impl Iterator<Item = &'static Parameter> {
    registry().into_iter().flat_map(|family| family.parameters)
}
