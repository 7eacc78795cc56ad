//! The forecast of the cost of a run: memory by [`super::plan`], and passes, bytes read and time from a second of
//! calibration on the machine and the rows at hand.
//!
//! Per row and with m landmarks, a pass of products costs
//!
//! | part | flops | grows with |
//! |---|---|---|
//! | kernel block and its profile, certificate | 2md + O(m) | m |
//! | triangular solve | m² | m² |
//! | Gram matrix | m² | m² |
//!
//! and beside the rows there are m³ for the landmarks' factor, m³/3 and a product for every fold and lambda. Each part is
//! timed at no more than 1,000 landmarks with the code that the run will use, and scaled up by its power.
//!
//! Where a run could be solved in another way, the forecast has the time of the other way too. It does not choose: the method
//! decides about bits, and a noisy second must not.

use super::options::{Resources, Task, TrainOptions};
use super::plan::Cut;
use super::rates::Rates;
use super::stage::{Seconds, Stage, View, Work, fit};
use super::{prepare, run};
use crate::Result;
use crate::solver::Solver;
use kapprox::Real;
use kapprox::landmark::Effort;
use kapprox::map::MapSpec;
use kstore::checkpoint::Journal;
use kstore::{Plan, Selected};
use std::time::Duration;

/// Passes over its rows that randomly pivoted Cholesky takes, and what they add up to in landmarks m and in m²: measured
/// 7 to 9 rounds with rejections on kin40k and beijing-pm25 at ranks 300 and 1,000.
const ROUNDS: (u64, f64, f64) = (8, 4.4, 3.2);

/// Flops per second and thread that any machine reaches, to tell a run of seconds from one of minutes without timing.
const MODEST: f64 = 20e9;

/// Expected seconds of work from which on a run is worth a second of calibration before it.
const CALIBRATED_FROM: Duration = Duration::from_secs(10);

/// A stage of a run.
#[derive(Clone, Debug)]
pub struct Step {
    /// The memory that is resident in the stage.
    pub plan: Plan,
    /// Number of passes over the table.
    pub passes: u64,
    /// Bytes read from storage; `None` where the rows were not timed.
    pub bytes_read: Option<u64>,
    /// Time in seconds; `None` where it was not estimated.
    pub seconds: Option<f64>,
}

/// The forecast of a run: its stages with their memory, passes and times.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// Stored rows of the selection: an upper bound on the rows.
    pub rows: u64,
    /// How passes are cut into tiles, segments and lanes.
    pub cut: Cut,
    /// The stages, in their order.
    pub steps: Vec<Step>,
    /// Number of threads that it was made for.
    pub threads: usize,
    /// The other method of solution with its time, where there is one.
    pub other: Option<Alternative>,
}

/// Another way to the same solution.
#[derive(Clone, Debug)]
pub struct Alternative {
    /// The value of the parameter `method`.
    pub method: &'static str,
    /// Time of that method, in seconds.
    pub seconds: f64,
}

impl Forecast {
    /// Bytes of the stage that needs most.
    pub fn bytes(&self) -> usize {
        self.steps.iter().map(|step| step.plan.bytes()).max().unwrap_or(0)
    }

    /// True where every stage fits the budget.
    pub fn fits(&self) -> bool {
        self.steps.iter().all(|step| step.plan.bytes() <= step.plan.budget)
    }

    /// Number of passes over the table.
    pub fn passes(&self) -> u64 {
        self.steps.iter().map(|step| step.passes).sum()
    }

    /// Bytes read by all passes.
    pub fn bytes_read(&self) -> Option<u64> {
        self.steps.iter().map(|step| step.bytes_read).sum()
    }

    /// Seconds of all stages.
    pub fn seconds(&self) -> Option<f64> {
        self.steps.iter().map(|step| step.seconds).sum()
    }
}

/// The forecast of a run: its plan, and times where the run is likely to take longer than `worth`, which a second of
/// calibration then pays for. [`Duration::ZERO`] always calibrates.
///
/// Reads the labels, where there are some, and some rows for the calibration, about a second's worth; writes nothing.
///
/// # Errors
/// Errors of reading the first rows: missing files, bad values.
pub fn forecast<T: Real>(
    selected: &Selected,
    options: &TrainOptions,
    solver: &dyn Solver<T>,
    resources: &Resources<'_>,
    worth: Duration,
) -> Result<Forecast> {
    let options = run::own_folds(options, solver);
    let known = prepare::known(selected, &options, resources)?;
    let work = Work::new::<T>(selected, &options, resources, known, solver)?;
    of(selected, solver, solver.view(&work)?, &work, worth)
}

/// Tells the observer of a run the forecast of it, where the observer wants that and the run fits the budget.
pub(super) fn announce<T: Real>(
    selected: &Selected,
    solver: &dyn Solver<T>,
    view: View,
    work: &Work<'_>,
) -> Result<()> {
    let Resources { stages, journal, .. } = *work.resources;
    // how long the part of one process takes says little, and the rows may be elsewhere
    if !stages.wants_plan() || journal.is_some_and(Journal::is_shared) {
        return Ok(());
    }
    let forecast = of(selected, solver, view, work, CALIBRATED_FROM)?;
    // one that does not fit is refused in a moment, with what to change
    if forecast.fits() {
        stages.planned(&forecast);
    }
    Ok(())
}

fn of<T: Real>(
    selected: &Selected,
    solver: &dyn Solver<T>,
    view: View,
    work: &Work<'_>,
    worth: Duration,
) -> Result<Forecast> {
    let (options, resources) = (&work.options, work.resources);
    let (cut, stages) = run::all_stages(solver, view, work)?;
    let (rows, threads) = (work.shape.n, resources.workers.threads());
    let timed = stages.iter().all(|stage| stage.seconds.is_some());
    let long = timed && solver.costs(work).flops() / (MODEST * threads as f64) >= worth.as_secs_f64();
    // what does not fit is not tried either
    let rates = if long && fit(&stages) { Rates::measure::<T>(selected, options, cut, resources)? } else { None };
    let seconds = |stage: &Stage| Some((stage.seconds.as_ref()?)(rates.as_ref()?));
    let other = match solver.other(view, work).filter(|_| rates.is_some()) {
        None => None,
        Some((method, other)) => {
            let stages = other.stages(other.view(work)?, work)?.1;
            let all = stages.iter().map(seconds).sum::<Option<f64>>().filter(|_| fit(&stages));
            all.map(|seconds| Alternative { method, seconds })
        }
    };
    let bytes = |passes: u64| rates.as_ref().map(|rates| (passes as f64 * rows as f64 * rates.bytes) as u64);
    let step = |stage: Stage| {
        let seconds = seconds(&stage);
        Step { passes: stage.passes, bytes_read: bytes(stage.passes), seconds, plan: stage.plan }
    };
    Ok(Forecast { rows, cut, steps: stages.into_iter().map(step).collect(), threads, other })
}

/// Sizes that decide the cost of a run on features.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    pub(crate) rows: f64,
    d: usize,
    pub(crate) m: usize,
    /// Rows of the candidates in memory; `None` where every round is a pass.
    candidates: Option<f64>,
    /// True for a pass that draws a sample.
    samples: bool,
    /// Number of passes of the landmark scheme, and the sums over them of the landmarks and of their squares.
    rounds: (u64, f64, f64),
    /// Number of passes of the map.
    making: u64,
    /// Number of systems that are solved: one for every fold and lambda, and the last.
    systems: f64,
    /// Number of columns of scores of a further pass; 0 without one.
    scored: f64,
    /// Number of passes of the solver before the one over the features, and after it.
    own: [u64; 2],
    /// Number of views, each with landmarks and a map of its own.
    views: u64,
    threads: usize,
    /// True where the calibration tells the time: of ridge regression on the default map.
    timed: bool,
}

impl Costs {
    /// The cost up to the solver's first pass, without times.
    pub(crate) fn new(work: &Work<'_>) -> Self {
        let (options, rows) = (&work.options, work.shape.n);
        let scheme = options.landmarks.scheme().filter(|_| !options.map.is_without_rows());
        Self {
            rows: rows as f64,
            d: work.shape.d,
            m: options.rank.min(usize::try_from(rows).unwrap_or(usize::MAX)).max(1),
            candidates: options.candidates.map(|n| n.min(rows as usize) as f64),
            samples: (options.candidates.is_some() && scheme.is_some()) || options.kernel.needs_median(),
            // schemes that do more than to draw cost what the usual one costs
            rounds: match scheme.map(|scheme| scheme.effort) {
                None => (0, 0.0, 0.0),
                Some(Effort::Draw) => (1, 0.0, 0.0),
                Some(Effort::Distances | Effort::Factor) => ROUNDS,
            },
            making: options.map.passes() + u64::from(options.tolerance.is_some()),
            systems: 1.0,
            scored: 0.0,
            own: [0, 0],
            views: 1 + u64::from(options.with.is_some()),
            threads: work.shape.threads,
            timed: false,
        }
    }

    /// The cost with a surface of so many lambdas, and times.
    pub(crate) fn of_surface(self, work: &Work<'_>, lambdas: usize) -> Self {
        let options = &work.options;
        let folds = work.shape.folds;
        let crossed = folds > 1 && options.task == Task::Classification;
        Self {
            systems: if folds > 1 { (folds * lambdas) as f64 } else { 0.0 } + 1.0,
            scored: if crossed { (options.ranks.len() * work.shape.t) as f64 } else { 0.0 },
            timed: options.map == MapSpec::default(),
            ..self
        }
    }

    /// The cost with passes of the solver's own: `before` the one over the features, and `after` it.
    pub(crate) fn with_passes(self, before: u64, after: u64) -> Self {
        Self { own: [before, after], ..self }
    }

    /// Number of flops of the run, roughly, from the table above.
    fn flops(&self) -> f64 {
        let (m, chosen) = (self.m as f64, self.candidates.unwrap_or(self.rows));
        let (_, linear, square) = self.rounds;
        let per_row = |linear: f64, square: f64| 2.0 * linear * m * self.d as f64 + square * m * m;
        self.rows * per_row(1.0, 2.0) + chosen * per_row(linear, square) + self.systems * m.powi(3) / 3.0
    }

    /// A stage with a time, where times are known.
    pub(crate) fn stage(self, plan: Plan, passes: u64, seconds: impl Fn(&Rates) -> f64 + 'static) -> Stage {
        Stage { plan, passes, seconds: self.timed.then(|| Box::new(seconds) as Seconds) }
    }

    /// The stage of the statistics.
    pub(crate) fn scan(self, plan: Plan) -> Stage {
        self.stage(plan, 1, move |rates| self.rows * rates.scan)
    }

    /// The stage that chooses landmarks.
    pub(crate) fn choose(self, plan: Plan, cut: Cut) -> Stage {
        let (rounds, linear, square) = self.rounds;
        let [passes, _] = self.of_map();
        self.stage(plan, passes, move |rates| {
            let scale = self.scale(rates);
            let round = |share: f64| share * (linear * scale * rates.linear + square * scale * scale * rates.solve);
            let choose = match self.candidates {
                Some(rows) => rows * round(1.0),
                None => rounds as f64 * self.pass(rates, round(1.0 / rounds.max(1) as f64), cut.scan_lanes),
            };
            f64::from(u8::from(self.samples)) * self.rows * rates.scan + choose
        })
    }

    /// The stages of a run on features, from their plans: statistics, landmarks, map, features, solve.
    pub(crate) fn on_features(self, plans: Vec<Plan>, cut: Cut) -> Vec<Stage> {
        let scoring = u64::from(self.scored > 0.0);
        let stage = |(number, plan)| match number {
            0 => self.scan(plan),
            1 => self.choose(plan, cut),
            2 => self.stage(plan, self.views * self.making, move |rates| self.scale(rates).powi(3) * rates.factor),
            3 => self.stage(plan, 1 + self.own[0], move |rates| {
                let scale = self.scale(rates);
                self.pass(rates, self.features(rates) + scale * scale * rates.gram, cut.gram_lanes)
            }),
            _ => self.stage(plan, scoring + self.own[1], move |rates| {
                let heads = self.scored * 4.0 * self.m as f64 / (rates.m * rates.m) as f64 * rates.gram;
                let score =
                    if scoring == 0 { 0.0 } else { self.pass(rates, self.features(rates) + heads, cut.gram_lanes) };
                self.systems * self.scale(rates).powi(3) * rates.system + score
            }),
        };
        plans.into_iter().enumerate().map(stage).collect()
    }

    /// Passes that choose the landmarks, and those that make the map of them.
    pub(crate) fn of_map(&self) -> [u64; 2] {
        let rounds = if self.candidates.is_none() { self.rounds.0 } else { 0 };
        [self.views * (u64::from(self.samples) + rounds), self.making]
    }

    /// Landmarks for one of those that were timed.
    pub(crate) fn scale(&self, rates: &Rates) -> f64 {
        self.m as f64 / rates.m as f64
    }

    /// Seconds for the features of a row.
    fn features(&self, rates: &Rates) -> f64 {
        let scale = self.scale(rates);
        scale * rates.linear + scale * scale * rates.solve
    }

    /// Seconds of a pass with so much work for a row: decoding runs beside the products, the slower of the two decides, and both
    /// share the threads.
    fn pass(&self, rates: &Rates, work: f64, lanes: usize) -> f64 {
        let decode = self.rows * rates.decode;
        (decode / lanes as f64).max(decode / self.threads as f64 + self.rows * rates.selected * work)
    }
}
