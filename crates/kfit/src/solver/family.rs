//! What a solver is: the method, and its description by which it is found.

use super::found::Found;
use super::parameter::{self, Options, Parameter, Settings};
use crate::request::{FitRequest, NO_EXACT, PassShape, ProblemSize, Resources, RowAccess, Stage, TrainOptions};
use crate::{Error, Result, Task, features::FitData, prepare::plan};
use kapprox::{MapSpec, PrecisionPair, Real};
use kstore::{Plan, Reading, Selected, named::Named, pass::Observer};
use std::{borrow::Cow, fmt::Debug};

/// Refuses a value of an option where that `is` so, and says what would be right.
pub(super) fn refuse(is: bool, option: &'static str, given: impl ToString, why: impl Into<String>) -> Result<()> {
    if is { Err(Error::option(option, given, why)) } else { Ok(()) }
}

/// Ends the work where the observer asks for that.
pub(super) fn heed(observer: &dyn Observer) -> Result<()> {
    if observer.stop() { Err(kstore::Error::Interrupted.into()) } else { Ok(()) }
}

/// What is known of a solver before it sees a row.
#[derive(Clone, Copy, Debug, Default)]
pub struct SolverFacts {
    /// True for a solver that reads the features in many passes, by [`crate::features::StoredFeatures`]: they are kept where there is room.
    pub keeps: bool,
    /// True for a solver that holds rows out to choose its penalty or to learn probabilities.
    pub holds_out: bool,
    /// True for a solver whose folds may be tests of later rows by earlier ones.
    pub forward: bool,
    /// True for a solver that takes weights of rows.
    pub weights: bool,
    /// True for a solver that combines kernel functions of all rows itself, where the map is exact.
    pub exact: bool,
    /// True for a solver that iterates on the exact kernel with a preconditioner of landmarks.
    pub preconditioned: bool,
    /// Why the exact kernel has no landmarks under these settings of a `preconditioned` solver;
    /// `None` if it has some.
    pub no_landmarks: Option<&'static str>,
    /// True for a solver that computes with the columns of the rows and takes no sparse rows.
    pub dense: bool,
    /// True for a solver that needs validation rows even if there is nothing to choose.
    pub needs_folds: bool,
    /// The name of a solver that looks at distances between landmarks, without a map.
    pub by_distances: Option<&'static str>,
    /// The number of landmarks unless a rank is asked for; `None` for that of [`crate::job`].
    pub usual_rank: Option<usize>,
    /// The scheme that chooses landmarks unless one is named; `None` for that of [`crate::job`].
    pub usual_landmarks: Option<&'static str>,
}

/// A method that learns linear functions of the features.
pub trait Solver<T: Real>: Debug + Send + Sync {
    /// What is known of the solver before it sees a row.
    fn facts(&self) -> SolverFacts {
        SolverFacts::default()
    }
    /// True for a solver whose models give probabilities of classes.
    fn has_probabilities(&self) -> bool {
        false
    }
    /// Number of columns that the second moments of the features are taken with: t targets, or features of them.
    fn moment_columns(&self, _options: &TrainOptions, t: usize) -> usize {
        t
    }
    /// Number of classes whose second moments are kept apart; 1 where those of all rows are summed.
    fn moment_classes(&self, _t: usize) -> usize {
        1
    }
    /// Refuses work that the solver cannot do; rows with weights are refused by its [`facts`](Self::facts).
    ///
    /// # Errors
    /// [`crate::Error::Option`].
    fn check(&self, _work: &FitRequest<'_>) -> Result<()> {
        Ok(())
    }
    /// How the solver sees the rows.
    ///
    /// # Errors
    /// A kernel or a map that the solver cannot use.
    fn view(&self, work: &FitRequest<'_>) -> Result<RowAccess> {
        let (facts, map, exact) = (self.facts(), &work.options.map, work.options.map.is_exact());
        if let Some(solver) = facts.by_distances {
            let why = format!("{solver} looks at distances between rows and has no map; leave it out");
            refuse(*map != MapSpec::default(), "map", map, why)?;
            return Ok(RowAccess::Landmarks);
        }
        refuse(exact && !facts.exact, "map", map, NO_EXACT)?;
        Ok(if exact { RowAccess::Rows } else { RowAccess::Features })
    }
    /// The name of the pass, for a solver whose fit makes a single pass over features under these options: its rows may
    /// be folded in shards (`ksolve::shards`). The reason, for a solver whose fit makes more.
    ///
    /// # Errors
    /// The reason, and what to change.
    fn only_pass(&self, _options: &TrainOptions) -> Result<&'static str, &'static str> {
        Err("it reads the features more than once")
    }
    /// Adds what the solver holds beside rows and map to the plan of its stage.
    fn plan(&self, plan: Plan, shape: &ProblemSize, cut: PassShape) -> Plan;
    /// The solver's own passes over the table before the one over the features, and after it.
    fn own_passes(&self, _work: &FitRequest<'_>) -> [u64; 2] {
        [0, 0]
    }
    /// The stages of a run, and how its passes are cut: what is planned, forecast and done.
    ///
    /// # Errors
    /// Errors of the map.
    fn stages(&self, view: RowAccess, work: &FitRequest<'_>) -> Result<(PassShape, Vec<Stage>)> {
        let add = |plan, cut| self.plan(plan, &work.shape, cut);
        Ok(match view {
            RowAccess::Landmarks => plan::landmark_stages(work, &add),
            RowAccess::Features | RowAccess::Rows => plan::on_features(work, &add, self.own_passes(work)),
        })
    }
    /// Learns.
    ///
    /// # Errors
    /// Errors of reading the rows; options that do not suit them; numbers that cannot be solved for.
    fn fit(&self, data: &FitData<'_, T>) -> Result<Found<T>>;
}

/// A solver for rows of either element type.
pub trait AnySolver: Solver<f32> + Solver<f64> {}

impl<S: Solver<f32> + Solver<f64>> AnySolver for S {}

impl<'a> PrecisionPair for &'a dyn AnySolver {
    type For<T: Real> = &'a dyn Solver<T>;
    fn single(self) -> &'a dyn Solver<f32> {
        self
    }
    fn double(self) -> &'a dyn Solver<f64> {
        self
    }
}

/// The description of a solver: its name, its help, its task and its parameters.
#[derive(Clone, Copy, Debug)]
pub struct SolverFamily {
    /// The name of the solver.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// The task of the solver, such as regression or components.
    pub task: Task,
    /// The parameters that it reads.
    pub parameters: &'static [Parameter],
    /// Makes the solver of its settings.
    pub make: fn(&Settings) -> Result<Box<dyn AnySolver>>,
    /// The parameters that are chosen with the rank, in addition to `ranks`: a fit at another rank
    /// leaves them out.
    pub of_rank: &'static [Parameter],
    /// Changes options of a fit on a map to those of the same fit on the exact kernel. `ranks`,
    /// `tolerance`, `folds` and `of_rank` are already left out.
    pub on_kernel: fn(Options) -> Options,
}

impl SolverFamily {
    /// A family whose optional facts have their defaults: no parameters are chosen with the rank,
    /// and options of a fit on the exact kernel are those of a fit on a map.
    pub const fn new(
        name: &'static str,
        about: &'static str,
        task: Task,
        parameters: &'static [Parameter],
        make: fn(&Settings) -> Result<Box<dyn AnySolver>>,
    ) -> Self {
        Self { name, about, task, parameters, make, of_rank: &[], on_kernel: |given| given }
    }

    /// The solver with these settings, for rows of either element type.
    ///
    /// # Errors
    /// Settings that contradict each other.
    pub fn solver(&self, settings: &Settings) -> Result<Box<dyn AnySolver>> {
        (self.make)(settings)
    }

    /// True where the solver reads this parameter: what is asked about solvers outside their files is asked so, and not by name.
    pub fn reads(&self, parameter: &Parameter) -> bool {
        self.parameters.iter().any(|own| own.name == parameter.name)
    }

    /// True where rows are held out under these settings: to choose a penalty, or to learn probabilities.
    pub(crate) fn compares(&self, settings: &Settings) -> bool {
        self.reads(&parameter::FOLDS) && (settings.penalties().len() > 1 || settings.flag(&parameter::PROBABILITIES))
    }

    /// The task under these settings: ridge regression learns values or classes, as its parameter `task` says.
    pub fn task(&self, settings: &Settings) -> Task {
        match settings.word(&parameter::TASK) {
            Some("classification") => Task::Classification,
            _ => self.task,
        }
    }
}

impl Named for SolverFamily {
    const WHAT: &'static str = "solver";
    fn name(&self) -> &'static str {
        self.name
    }
}

impl<'a> FitRequest<'a> {
    /// The work of a solver on selected rows with `t` targets and so many folds.
    pub(crate) fn new<T: Real>(
        selected: &Selected,
        options: &'a TrainOptions,
        resources: &'a Resources<'a>,
        (t, folds): (usize, usize),
        solver: &dyn Solver<T>,
    ) -> Result<Self> {
        let options = match options.map.is_exact() {
            // candidates would be copies of rows that are in memory anyway
            true => Cow::Owned(TrainOptions { candidates: None, ..options.clone() }),
            false => Cow::Borrowed(options),
        };
        let (moment_columns, classes) = (solver.moment_columns(&options, t), solver.moment_classes(t));
        let source = selected.rows::<T>(Reading::default())?;
        let shape = ProblemSize::of(&source, &options, resources.workers.threads(), t, folds)?;
        let shape = ProblemSize { keeps: solver.facts().keeps, moment_columns, classes, ..shape };
        Ok(Self { options, resources, shape })
    }
}
