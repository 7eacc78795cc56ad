//! `exact`: no map. The kernel itself, for solvers that need no features.

use super::family::MapFamily;
use super::nystrom;

/// The family of maps `exact`.
pub(super) const FAMILY: MapFamily = MapFamily {
    name: "exact",
    about: "no approximation: ridge on the kernel of all rows; `rank` is that of its preconditioner",
    parameters: &[],
    nested: false,
    passes: 0,
    // the preconditioner is a Nyström map
    shape: nystrom::FAMILY.shape,
};
