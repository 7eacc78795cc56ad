//! `exact`: no map. The kernel itself, for solvers that need no features.

use super::family::MapFamily;
use super::nystrom;

/// The family of maps `exact`.
pub(super) const FAMILY: MapFamily = MapFamily {
    name: "exact",
    about: "no approximation: ridge, svm, svr and oneclass on the kernel of all rows; `rank` is that of the preconditioner of ridge",
    parameters: &[],
    nested: false,
    passes: 0,
    // the preconditioner is a Nyström map
    shape: nystrom::FAMILY.shape,
};
