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
//! Conjugate gradient computes kernel blocks, adds 4m rows of a sketch to the Gram matrix of its preconditioner, and reads
//! the blocks in every iteration, of which there are as many as halvings of the residual. Where a run could be solved either
//! way, the forecast has the time of the other way too. It does not choose: the method decides about bits, and a noisy second
//! must not.

use super::options::{LandmarkSource, Method, Resources, SystemOptions, Task, TrainOptions};
use super::pcg::{self, Tiers};
use super::plan::{Cut, FACTOR, ITERATION};
use super::prepare::assumed_targets;
use super::rates::Rates;
use crate::iterative::sketch::{self, Preconditioner};
use crate::solver::Solver;
use crate::train::{plan, plan_solve};
use crate::{FoldSpec, Result};
use kapprox::Real;
use kapprox::map::MapSpec;
use kstore::{Plan, Selected};
use std::time::Duration;

/// Passes over its rows that randomly pivoted Cholesky takes, and what they add up to in landmarks m and in m²: measured
/// 7 to 9 rounds with rejections on kin40k and beijing-pm25 at ranks 300 and 1,000.
const ROUNDS: (u64, f64, f64) = (8, 4.4, 3.2);

/// Flops per second and thread that any machine reaches, to tell a run of seconds from one of minutes without timing.
const MODEST: f64 = 20e9;

/// Measured ratios of times: f64 products to f32 products, and adding a row to eight rows of a sketch to a sweep.
/// Below, bytes per second from scratch: between a disk and the system's cache of it.
const DOUBLE: f64 = 2.5;
const SCATTER: f64 = 5.0;
const SCRATCH: f64 = 4e9;

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
/// Reads some rows for the calibration, about a second's worth; writes nothing.
///
/// # Errors
/// Errors of reading the first rows: missing files, bad values.
pub fn forecast<T: Real>(
    selected: &Selected,
    options: &TrainOptions,
    resources: &Resources<'_>,
    worth: Duration,
) -> Result<Forecast> {
    let (cut, plans) = plan::<T>(selected, options, resources)?;
    let range = selected.range();
    let rows = range.end - range.start;
    if plans.iter().any(|plan| plan.what == FACTOR) || options.map.is_exact() {
        return Ok(untimed(rows, cut, plans, resources.workers.threads()));
    }
    let iterates = plans.iter().any(|plan| plan.what == ITERATION);
    let run = Work::new(selected, options, rows);
    let threads = resources.workers.threads();
    // what is timed is the default map
    let timed = options.map == MapSpec::default();
    let long = timed && run.flops() / (MODEST * threads as f64) >= worth.as_secs_f64();
    let fits = |plans: &[Plan]| plans.iter().all(|plan| plan.bytes() <= plan.budget);
    // what does not fit is not tried either
    let rates = if long && fits(&plans) { Rates::measure::<T>(selected, options, cut, resources)? } else { None };
    let stages = |options: &TrainOptions, iterates: bool, cut: Cut| -> Result<Vec<(u64, Option<f64>)>> {
        if !iterates {
            return Ok(run.stages(rates.as_ref(), cut, threads).to_vec());
        }
        let t = assumed_targets(selected, options.task);
        let (_, _, tiers) = pcg::planned::<T>(selected, options, resources, t)?;
        let digits = options.system.residual::<T>().clamp(f64::EPSILON, 0.5);
        Ok(run.iterating::<T>(rates.as_ref(), cut, threads, tiers, -digits.log2()).to_vec())
    };
    let mut other = None;
    if rates.is_some() && !selected.is_weighted() && !options.system.leave_one_out {
        let (name, method) = if iterates { ("direct", Method::Direct) } else { ("pcg", Method::Pcg) };
        let options = TrainOptions { system: SystemOptions { method, ..options.system }, ..options.clone() };
        if options.check().is_ok() {
            let (cut, plans) = plan::<T>(selected, &options, resources)?;
            let seconds = stages(&options, !iterates, cut)?.iter().map(|(_, seconds)| *seconds).sum::<Option<f64>>();
            let seconds = seconds.filter(|_| fits(&plans));
            other = seconds.map(|seconds| Alternative { method: name, seconds });
        }
    }
    let step = |(plan, (passes, seconds)): (Plan, (u64, Option<f64>))| {
        let bytes = |rates: &Rates| (passes as f64 * rows as f64 * rates.bytes) as u64;
        Step { plan, passes, bytes_read: rates.as_ref().map(bytes), seconds }
    };
    let steps = plans.into_iter().zip(stages(options, iterates, cut)?).map(step).collect();
    Ok(Forecast { rows, cut, steps, threads, other })
}

/// The forecast of a run on the exact kernel: without times.
fn untimed(rows: u64, cut: Cut, plans: Vec<Plan>, threads: usize) -> Forecast {
    let step = |plan: Plan| Step {
        passes: u64::from(plan.what != FACTOR && plan.what != ITERATION),
        plan,
        bytes_read: None,
        seconds: None,
    };
    Forecast { rows, cut, steps: plans.into_iter().map(step).collect(), threads, other: None }
}

/// The forecast of a run of another solver: without times, for what is timed is ridge regression, and with the passes up
/// to the solver's first.
///
/// # Errors
/// Errors of opening the rows.
pub fn forecast_solve<T: Real>(
    selected: &Selected,
    options: &TrainOptions,
    solver: &dyn Solver<T>,
    resources: &Resources<'_>,
) -> Result<Forecast> {
    let (cut, plans) = plan_solve(selected, options, solver, resources)?;
    let range = selected.range();
    let rows = range.end - range.start;
    let one_cell = TrainOptions { folds: FoldSpec::None, ..options.clone() };
    let threads = resources.workers.threads();
    let costs = Work::new(selected, &one_cell, rows).stages(None, cut, threads);
    let step = |(plan, (passes, _))| Step { plan, passes, bytes_read: None, seconds: None };
    Ok(Forecast { rows, cut, steps: plans.into_iter().zip(costs).map(step).collect(), threads, other: None })
}

/// Sizes that decide the cost of a run.
struct Work {
    rows: f64,
    d: usize,
    m: usize,
    /// Number of candidate rows in memory; `None` where every round of the scheme is a pass over the table.
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
    /// The preconditioner of conjugate gradient.
    preconditioner: Preconditioner,
}

impl Work {
    fn new(selected: &Selected, options: &TrainOptions, rows: u64) -> Self {
        let folds = match &options.folds {
            FoldSpec::None => 1,
            FoldSpec::Hash(k) | FoldSpec::Blocks(k) => *k,
            // the labels of a column are not known before the first pass
            FoldSpec::Column(_) => 5,
        };
        let scheme = match &options.landmarks {
            LandmarkSource::Scheme(name) if !options.map.is_without_rows() => Some(name.as_str()),
            _ => None,
        };
        let crossed = folds > 1 && options.task == Task::Classification;
        Self {
            rows: rows as f64,
            d: selected.shape().features,
            m: options.rank.min(usize::try_from(rows).unwrap_or(usize::MAX)).max(1),
            candidates: options.candidates.map(|n| n.min(rows as usize) as f64),
            samples: (options.candidates.is_some() && scheme.is_some()) || options.kernel.needs_median(),
            // schemes without a line of their own cost what the default costs
            rounds: match scheme {
                None => (0, 0.0, 0.0),
                Some("uniform") => (1, 0.0, 0.0),
                Some(_) => ROUNDS,
            },
            making: options.map.passes(),
            systems: if folds > 1 { (folds * options.lambdas.len()) as f64 } else { 0.0 } + 1.0,
            scored: if crossed { (options.ranks.len() * super::prepare::CLASSES_ASSUMED) as f64 } else { 0.0 },
            preconditioner: options.system.preconditioner,
        }
    }

    /// Number of flops of the run, roughly, from the table above.
    fn flops(&self) -> f64 {
        let (m, chosen) = (self.m as f64, self.candidates.unwrap_or(self.rows));
        let (_, linear, square) = self.rounds;
        let per_row = |linear: f64, square: f64| 2.0 * linear * m * self.d as f64 + square * m * m;
        self.rows * per_row(1.0, 2.0) + chosen * per_row(linear, square) + self.systems * m.powi(3) / 3.0
    }

    /// Passes and seconds of the stages of conjugate gradient: statistics, landmarks, preconditioner, iteration.
    fn iterating<T: Real>(
        &self,
        rates: Option<&Rates>,
        cut: Cut,
        threads: usize,
        tiers: Tiers,
        iterations: f64,
    ) -> [(u64, Option<f64>); 4] {
        let [scan, choose, ..] = self.stages(rates, cut, threads);
        let share = |rows: usize| rows as f64 / (tiers.memory + tiers.scratch + tiers.computed).max(1) as f64;
        let computed = u64::from(tiers.computed > 0);
        // passes, rows that are added to a sketch, rows whose kernel values are computed again, rows of the Gram matrix
        let (groups, sketched, again, added) =
            match (self.preconditioner, sketch::groups_of(self.rows as usize, self.m)) {
                (Preconditioner::Falkon, _) => (0, 0.0, 0.0, self.m as f64),
                (Preconditioner::Krill, None) => (computed, 0.0, share(tiers.computed), self.rows),
                (Preconditioner::Krill, Some(groups)) => {
                    let elsewhere = 1.0 - share(tiers.memory);
                    (if elsewhere > 0.0 { groups } else { 0 }, 1.0, elsewhere, 4.0 * self.m as f64)
                }
            };
        // a product more where the true residual is taken, and one for the training error
        let visits = iterations.ceil() + 3.0;
        let times = rates.map(|rates| {
            let (m, scale) = (self.m as f64, self.m as f64 / rates.m as f64);
            let (kernel, sweep) = (scale * rates.linear, scale * rates.sweep);
            let rows = self.rows * rates.selected;
            let pass = |work: f64| (self.rows * rates.decode).max(rows * work);
            let gram = added * scale * scale * rates.gram * DOUBLE;
            let made = pass(kernel) + rows * (sketched * SCATTER * sweep + again * kernel) + gram;
            let read = m * size_of::<T>() as f64 / SCRATCH;
            let visit = rows * (sweep + share(tiers.scratch) * read)
                + if tiers.computed > 0 { pass(share(tiers.computed) * kernel) } else { 0.0 };
            // K_mm in f64, half of it
            let penalty = m / 2.0 * kernel * DOUBLE;
            [made + scale.powi(3) * rates.system, visits * (visit + penalty)]
        });
        let passes = computed * visits as u64;
        let [made, solved] = [0, 1].map(|i| times.map(|times| times[i]));
        [scan, choose, (1 + groups, made), (passes, solved)]
    }

    /// Passes and seconds of the stages that [`plan`] lists: statistics, landmarks, factor, Gram matrix, solve.
    fn stages(&self, rates: Option<&Rates>, cut: Cut, threads: usize) -> [(u64, Option<f64>); 5] {
        let (rounds, linear, square) = self.rounds;
        let scoring = u64::from(self.scored > 0.0);
        let choosing = u64::from(self.samples) + if self.candidates.is_none() { rounds } else { 0 };
        let times = rates.map(|rates| {
            let scale = self.m as f64 / rates.m as f64;
            let (scan, products) = (self.rows * rates.scan, scale * rates.linear + scale * scale * rates.solve);
            let gram = scale * scale * rates.gram;
            // decoding runs beside the products: the slower of the two decides, and both share the threads
            let pass = |work: f64, lanes: usize| {
                let decode = self.rows * rates.decode;
                (decode / lanes as f64).max(decode / threads as f64 + self.rows * rates.selected * work)
            };
            let round =
                |share: f64| linear * scale * rates.linear * share + square * scale * scale * rates.solve * share;
            let choose = match self.candidates {
                Some(rows) => rows * round(1.0),
                None => rounds as f64 * pass(round(1.0 / rounds as f64), cut.scan_lanes),
            };
            let heads = self.scored * 4.0 * self.m as f64 / (rates.m * rates.m) as f64 * rates.gram;
            let score = if scoring == 0 { 0.0 } else { pass(products + heads, cut.gram_lanes) };
            let cubed = scale.powi(3);
            [
                scan,
                f64::from(u8::from(self.samples)) * scan + choose,
                cubed * rates.factor,
                pass(products + gram, cut.gram_lanes),
                self.systems * cubed * rates.system + score,
            ]
        });
        let passes = [1, choosing, self.making, 1, scoring];
        std::array::from_fn(|i| (passes[i], times.map(|times| times[i])))
    }
}
