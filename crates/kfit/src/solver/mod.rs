//! Solvers: the methods that learn functions of the features.
//!
//! A solver sees rows as features `phi` (and targets `y`), in as many passes as it likes, and leaves t linear functions of
//! the features: wᵀphi(x) + c. What they mean is its [`crate::Task`]: values, scores of classes, coordinates, or nearness to
//! centres. Saving, predicting and evaluating know nothing else of it. One that needs no features may combine kernel functions
//! of landmarks, or of all rows, instead ([`crate::request::RowAccess`]).
//! To add a solver: one file here with its `FAMILY`, one line in [`registry()`].

mod centred;
mod class_weight;
mod family;
mod features;
mod fisher;
mod found;
mod gradients;
mod held_out;
mod isomap;
pub mod kdr;
mod kmeans;
pub mod kpca;
mod kpca_l1;
mod laplacian;
mod lle;
mod lloyd;
mod logistic;
mod mds;
mod mean;
mod mvu;
mod newton;
mod online;
pub mod outer_products;
pub mod parameter;
mod perceptron;
mod pls;
mod ranking;
pub mod ridge;
mod spca;
mod spectral;
pub mod svm;
mod target;
pub mod views;

pub use class_weight::ClassWeight;
pub use family::{AnySolver, Solver, SolverFacts, SolverFamily};
use family::{heed, refuse};
pub use features::MapFeatures;
pub use found::explained;
pub use found::{Figure, Found, Projection, Solved};
pub use held_out::AT_EACH;
pub use parameter::{Options, Parameter, Penalty, Settings, Value};

use crate::{Error, Result};
use kstore::named::Registry;

static SOLVERS: Registry<SolverFamily> = Registry::new(&[
    ridge::FAMILY,
    kpca::FAMILY,
    kpca_l1::FAMILY,
    fisher::FAMILY,
    logistic::FAMILY,
    svm::SVM,
    svm::SVR,
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

/// Every solver: those of this crate, then those that were registered.
pub fn registry() -> Vec<&'static SolverFamily> {
    SOLVERS.all()
}

/// The solver of a name; `None` where there is none.
pub fn by_name(name: &str) -> Option<&'static SolverFamily> {
    SOLVERS.by_name(name)
}

/// The solver of a name.
///
/// # Errors
/// [`Error::Option`] for a name that no solver has.
pub fn named(name: &str) -> Result<&'static SolverFamily> {
    let known = || registry().iter().map(|family| family.name).collect::<Vec<_>>().join(", ");
    by_name(name).ok_or_else(|| Error::option("solver", name, format!("give one of {}", known())))
}

/// Makes a solver of another crate known by its name, in this process and from now on: jobs, model files, and the options and
/// help of a command that is built with it.
///
/// # Errors
/// [`kstore::Error::Register`] for a name that is taken or is no word.
pub fn register(family: &'static SolverFamily) -> Result<()> {
    Ok(SOLVERS.register(family)?)
}

/// The parameters of all solvers; one that several solvers read comes several times.
pub fn parameters() -> impl Iterator<Item = &'static Parameter> {
    registry().into_iter().flat_map(|family| family.parameters)
}
