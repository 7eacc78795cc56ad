//! The request to a solver (options, resources and sizes), and how the solver accesses the rows.

use crate::request::{ProblemSize, Resources, TrainOptions};
use crate::{Error, Result};
use std::borrow::Cow;

/// How a solver accesses the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowAccess {
    /// As features of a map.
    Features,
    /// As kernel values with the landmarks z; the solver combines the kernel sections k(·, z)
    /// itself.
    Landmarks,
    /// Directly, all rows in memory; the solver combines the kernel sections of all rows.
    Rows,
}

/// The request to a solver. Until the rows are counted, its sizes are upper bounds.
#[derive(Debug)]
pub struct FitRequest<'a> {
    /// Options, which define the result.
    pub options: Cow<'a, TrainOptions>,
    /// Resources, which do not change the result.
    pub resources: &'a Resources<'a>,
    /// Sizes: rows, features, targets, folds and map.
    pub size: ProblemSize,
}

impl FitRequest<'_> {
    /// Rejects weighted rows if `what` does not support weights; `remedy` names an alternative.
    ///
    /// # Errors
    /// [`Error::Option`] if the rows have weights.
    #[doc(hidden)]
    pub fn reject_weights(&self, what: &str, remedy: &str) -> Result<()> {
        match self.size.has_weights {
            true => Err(Error::option("weights", "", format!("{what} does not support weights; {remedy}"))),
            false => Ok(()),
        }
    }
}
