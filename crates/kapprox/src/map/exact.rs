//! `exact`: no map. The kernel itself, for solvers that need no features.

use super::nystrom;
use super::registry::{Build, Family};

/// The family of maps `exact`.
pub(super) const FAMILY: Family = Family {
    name: "exact",
    about: "no approximation: ridge on the kernel of all rows; `rank` is that of its preconditioner",
    parameters: &[],
    build: Build::exact(),
    nested: false,
    passes: 0,
    // the preconditioner is a Nyström map
    shape: nystrom::FAMILY.shape,
};
