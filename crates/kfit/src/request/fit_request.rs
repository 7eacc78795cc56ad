//! What a solver is asked to do, and the run of it as a list of stages: what each holds, and how often it passes over the table.

use crate::request::{ProblemSize, Resources, TrainOptions};
use crate::{Error, Result};
use kapprox::landmark::Effort;
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

/// Passes over its rows that randomly pivoted Cholesky takes: measured 7 to 9 rounds with rejections on kin40k and beijing-pm25 at ranks
/// 300 and 1,000. Schemes that do more than to draw take about as many.
const ROUNDS: u64 = 8;

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
    /// Passes that choose the landmarks, and those that make the map of them.
    pub(crate) fn passes_of_map(&self) -> [u64; 2] {
        let options = &self.options;
        let scheme = options.landmarks.scheme().filter(|_| !options.map.is_without_rows());
        let (chooses, views) = (scheme.is_some(), 1 + u64::from(options.with.is_some()));
        let median = options.kernel.needs_median() && !options.finds_length();
        let samples = options.candidates.is_some() && chooses || median;
        let rounds = match scheme.filter(|_| options.candidates.is_none()).map(|scheme| scheme.effort) {
            None => 0,
            Some(Effort::Draw) => 1,
            Some(Effort::Distances | Effort::Factor) => ROUNDS,
        };
        let making = options.map.passes() + u64::from(options.tolerance.is_some());
        [views * (u64::from(samples) + rounds), views * making]
    }

    /// Refuses rows with weights where all count alike: `what` takes none, and the `remedy` says what does.
    pub(crate) fn refuse_weights(&self, what: &str, remedy: &str) -> Result<()> {
        match self.shape.weighted {
            true => Err(Error::option("weights", "", format!("{what} takes no weights; {remedy}"))),
            false => Ok(()),
        }
    }
}
