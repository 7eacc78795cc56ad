//! What a choice tells: its parts, its steps as they go on, and its result.

use super::{Apart, ContenderReport, Elsewhere, Select, Tuned};
use crate::Result;
use crate::job::Fit;
use kapprox::metric::Metric;
use std::sync::Arc;
use std::time::Duration;

/// A part of a choice. Its name is what the progress shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Kernels are compared.
    Search,
    /// Solvers are tried, and the winner tested on rows that no choice saw.
    Solvers,
    /// Machines on the kernel itself are tried.
    Machines,
    /// The fit of all rows, which follows.
    Fit,
}

kmodel::enum_of_words!(Part, "part", "search" => Search, "solvers" => Solvers, "machines" => Machines, "fit" => Fit);

/// A moment of the choice: what was done, and the least held-out error of a kernel so far.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Moment {
    /// Seconds since the start.
    pub seconds: f64,
    /// What was done: the kernel, or the solver that was tried.
    pub what: String,
    /// Least score of a kernel so far; `None` before the first.
    pub best: Option<f64>,
}

/// The work of the parts of a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct SearchWork {
    /// Rounds that learned metrics, and kernels that were measured.
    pub kernels: usize,
    /// Trials of solvers.
    pub solvers: usize,
    /// Trials of machines on the kernel itself; `None` where there were none, or for as many as it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machines: Option<usize>,
}

impl std::fmt::Display for SearchWork {
    /// Writes the steps as they are typed: `4,12`, or `4,12,9` with machines.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{},{}", self.kernels, self.solvers)?;
        self.machines.map_or(Ok(()), |machines| write!(f, ",{machines}"))
    }
}

impl std::str::FromStr for SearchWork {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let counts: std::result::Result<Vec<usize>, _> = text.split(',').map(|count| count.trim().parse()).collect();
        match counts.as_deref() {
            Ok(&[kernels, solvers]) => Ok(Self { kernels, solvers, machines: None }),
            Ok(&[kernels, solvers, machines]) => Ok(Self { kernels, solvers, machines: Some(machines) }),
            _ => {
                Err("expected steps of the search and trials of solvers, such as 4,12, and of machines, such as 4,12,9"
                    .to_string())
            }
        }
    }
}

/// Hears of the steps of a choice, and may end it early or stop it.
pub trait SearchListener: Sync {
    /// Steps of a part begin; so many are likely.
    fn begin(&self, _part: Part, _steps: u64) {}
    /// The step that is done next.
    fn next(&self, _what: &str) -> Result<()> {
        Ok(())
    }
    /// A step has ended.
    fn done(&self, _what: &str, _took: Duration) {}
    /// The steps of the part have ended.
    fn end(&self) {}
    /// True once this part of the choice is to end with the best so far, as what comes next takes so long; asked after every round of a
    /// metric, kernel and trial, and for [`Part::Fit`] by machines. Whoever answers by the clock gives up the same bits on every machine;
    /// [`Chosen::work`] in [`super::Choice::work`] gives them again.
    fn is_late(&self, _part: Part, _next: Duration) -> bool {
        false
    }
    /// Takes a warning for the user.
    fn warn(&self, _text: &str) {}
}

/// Hears nothing.
impl SearchListener for () {}

/// The winner, fitted to the rows that choices saw, on those that none saw.
#[derive(Clone, Debug)]
pub struct Test {
    /// Its error.
    pub apart: Apart,
    /// The seconds of the fit.
    pub seconds: f64,
    /// The seconds that it takes at half the rank; `None` for ridge regression, and where the listener has time for any fit.
    pub at_half: Option<f64>,
    /// The number of penalties that it compared, of ridge regression.
    pub lambdas: usize,
}

/// What was chosen.
#[derive(Debug)]
pub struct Chosen {
    /// The comparison of the kernels.
    pub tuned: Tuned,
    /// The fit for the whole table.
    pub fit: Fit,
    /// The rank of the trials.
    pub rank: usize,
    /// The metric of the fit; `None` where it has none.
    pub metric: Option<Arc<Metric>>,
    /// The form of that metric: none, given, full, diagonal, low-rank(5).
    pub form: String,
    /// What solvers and penalties were compared by.
    pub select: Select,
    /// The share of the rarer of two classes, where it is so small that this was chosen for it.
    pub rarer: Option<f64>,
    /// The solvers and penalties that were tried; one alone was not tried.
    pub contenders: Vec<ContenderReport>,
    /// The test of the winner; `None` where no rows were kept apart.
    pub test: Option<Test>,
    /// Where blocks took the place of random folds: the error of the winner, fitted anew, on rows at random.
    pub at_random: Option<Apart>,
    /// The errors of the winner, fitted anew, on new rows that are not like those of the table; none where folds were named.
    pub elsewhere: Vec<Elsewhere>,
    /// The steps that were made: in [`super::Choice::work`] they give this choice again.
    pub work: SearchWork,
    /// What was done when.
    pub history: Vec<Moment>,
}
