//! What a solver is asked to do, and the run of it as a list of stages: what each holds, and how often it passes over the table.

use crate::request::{ProblemSize, Resources, TrainOptions};
use crate::{Error, Result};
use std::borrow::Cow;

/// How a solver sees the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowAccess {
    /// As features of a map.
    Features,
    /// As kernel values with landmarks: the solver combines the landmarks' kernel functions itself.
    Landmarks,
    /// As they are, all of them in memory: the solver combines the kernel functions of all rows.
    Rows,
}

/// What a solver is asked to do, as far as it is known.
#[derive(Debug)]
pub struct FitRequest<'a> {
    /// What defines the result.
    pub options: Cow<'a, TrainOptions>,
    /// What may be used.
    pub resources: &'a Resources<'a>,
    /// Rows, features, targets, folds and map.
    pub shape: ProblemSize,
}

impl FitRequest<'_> {
    /// Refuses rows with weights where all count alike: `what` takes none, and the `remedy` says what does.
    pub(crate) fn refuse_weights(&self, what: &str, remedy: &str) -> Result<()> {
        match self.shape.weighted {
            true => Err(Error::option("weights", "", format!("{what} takes no weights; {remedy}"))),
            false => Ok(()),
        }
    }
}
