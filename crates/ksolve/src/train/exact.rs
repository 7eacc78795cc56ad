//! The run of exact kernel ridge regression: `--map exact`.
//!
//! The rows are read into memory once and stay there: they are the model. See [`crate::iterative::exact`] for the problem and
//! both ways to solve it. A run that is resumed makes its preconditioner anew, and goes on behind its last iteration.

use super::landmarks;
use super::options::{DIRECT_ROWS, LandmarkSource, Method, Resources, TrainOptions, refuse_weights};
use super::pcg;
use super::plan::{self, Cut, Shape};
use super::prepare::{self, check};
use super::survey::survey;
use super::trained::{Solved, Trained, explained, needs_wide_for};
use crate::iterative::constant::Constant;
use crate::iterative::exact::{self, Dual};
use crate::iterative::low_rank::LowRank;
use crate::model::Basis;
use crate::solver::Figure;
use crate::{Certificate, Error, Intercept, Result, Surface, Targets};
use faer::{Mat, MatRef};
use kapprox::Real;
use kapprox::landmark;
use kstore::{Fold, MemoryRows, Merge, Pass, Plan, RowBlock, RowSource, Selected, Workers};
use std::sync::{Mutex, PoisonError};

const ROWS: &str = "learn from fewer rows (--rows), or approximate the kernel (--map nystrom)";

/// What the run would hold; see [`super::plan`].
pub(super) fn plan<T: Real>(
    selected: &Selected,
    options: &TrainOptions,
    resources: &Resources<'_>,
    t: usize,
) -> Result<(Cut, Vec<Plan>)> {
    let shape = shape::<T>(selected, options, resources, t)?;
    let cut = cut(&shape);
    let mut plans = vec![plan::scan(&shape, cut, resources.memory)];
    match method(&shape, options, resources) {
        Method::Direct => plans.push(direct_plan(&shape, resources.memory)),
        _ => plans.extend(iterative_plans::<T>(&shape, cut, options, resources.memory)),
    }
    Ok((cut, plans))
}

fn shape<T: Real>(selected: &Selected, options: &TrainOptions, resources: &Resources<'_>, t: usize) -> Result<Shape> {
    // candidates would be copies of rows that are in memory anyway
    let options = TrainOptions { candidates: None, ..options.clone() };
    prepare::shape::<T>(selected, &options, resources, t, 1)
}

/// Lanes where states are small, one otherwise: the rows are loaded in their order.
fn cut(shape: &Shape) -> Cut {
    let tile = plan::tile_rows(shape.d, shape.map.p, shape.element);
    Cut { tile, segment: 16 * tile as u64, scan_lanes: shape.threads, gram_lanes: 1, prefetch: 2 }
}

/// What `auto` comes to.
fn method(shape: &Shape, options: &TrainOptions, resources: &Resources<'_>) -> Method {
    let fits = || direct_plan(shape, resources.memory).bytes() <= resources.memory;
    match options.system.method {
        // only a factor gives leave-one-out
        Method::Auto if options.system.leave_one_out => Method::Direct,
        Method::Auto if shape.n <= DIRECT_ROWS as u64 && fits() => Method::Direct,
        Method::Auto => Method::Pcg,
        given => given,
    }
}

/// Rows, targets and row numbers; the rows once more where the model is made.
fn base(what: &str, shape: &Shape, budget: usize) -> Plan {
    let row = shape.d * shape.element + 8 * (shape.t + 1);
    plan::base(what, shape, budget).term("rows, which are the model", 2 * shape.n as usize * row, ROWS)
}

fn direct_plan(shape: &Shape, budget: usize) -> Plan {
    let bytes = exact::direct_bytes(shape.n as usize, shape.d, shape.t, shape.threads);
    base(plan::FACTOR, shape, budget).term("kernel matrix and its factor", bytes, "take --method pcg")
}

fn iterative_plans<T: Real>(shape: &Shape, cut: Cut, options: &TrainOptions, budget: usize) -> [Plan; 3] {
    let (n, k) = (shape.n as usize, shape.map.p);
    let rank = "lower --rank";
    let mut choose = plan::landmarks(shape, cut, budget);
    if matches!(options.landmarks, LandmarkSource::Scheme(_)) {
        let row = shape.d * shape.element + 8 * (shape.t + 1);
        choose = choose.term("rows, which are the model", n * row, ROWS);
    }
    let made = base("preconditioner", shape, budget)
        .term("feature map", shape.map.footprint.fixed, rank)
        .term("matrices it is made of", shape.map.making, rank)
        .term("features and their factors", LowRank::<T>::bytes(n, k), rank)
        .term("features in f64", LowRank::<T>::making_bytes(k, shape.threads), rank);
    let solve = base(plan::ITERATION, shape, budget)
        .term("features and their factors", LowRank::<T>::bytes(n, k), rank)
        .term("vectors", exact::iterative_bytes(n, shape.d, shape.t, shape.threads), ROWS);
    [choose, made, solve]
}

/// Learns exact kernel ridge regression.
///
/// *Passes*: statistics, and one that loads the rows.
///
/// # Errors
/// Those of [`super::train`].
pub(super) fn train<T: Real>(
    selected: &Selected,
    options: &TrainOptions,
    resources: &Resources<'_>,
) -> Result<Trained<T>> {
    options.check()?;
    refuse_weights(selected, "--map exact", "take landmarks")?;
    check_landmarks(options)?;
    check_leave_one_out(options)?;
    let (t, _) = prepare::assumed(selected, options);
    let (cut, plans) = plan::<T>(selected, options, resources, t)?;
    check(plans)?;
    let survey = survey(selected, options, cut, resources)?;
    let targets = survey.targets_of_regression();
    let (_, plans) = plan::<T>(selected, options, resources, targets.count())?;
    let planned_bytes = check(plans)?;
    let source = selected.rows::<T>(survey.reading())?;
    let loaded = load(&source, &targets, survey.rows(), cut, resources)?;
    let (n, y) = (loaded.rows.len(), loaded.targets(&targets, options.intercept));
    let lambda = options.lambdas.first().copied().ok_or(Error::NoCell { precision: <T as kstore::Real>::NAME })?;
    let mu = lambda * n as f64;
    let d = RowSource::<T>::shape(&source).features;
    let memory = MemoryRows::new(loaded.x, d)?.numbered(loaded.rows)?;
    let run = Run { memory: &memory, y: y.as_ref(), mu, options, survey_reading: &survey.reading(), cut, resources };
    let shape = shape::<T>(selected, options, resources, targets.count())?;
    let Solution { dual, kernel, method } = match method(&shape, options, resources) {
        Method::Direct => run.direct()?,
        _ => run.iterative()?,
    };
    if let Some(found) = &dual.found {
        found.check("raise --lambda, raise --rank, which makes the preconditioner better, or take --method direct")?;
        pcg::warn_of_residual(
            found,
            options.system.residual::<T>(),
            "raise --rank, which makes the preconditioner better, or --lambda",
            resources,
        );
    }
    let centre = targets.centre();
    let free = options.intercept == Intercept::Free;
    let intercept = dual.intercept.iter().zip(&centre).map(|(c, centre)| if free { c + centre } else { *c }).collect();
    let wide = needs_wide_for::<T>(dual.coefficients.as_ref(), &deviations(y.as_ref()));
    let figures = dual.found.as_ref().map_or(Vec::new(), figures);
    Ok(Trained {
        link: None,
        pairs: false,
        rows: n as u64,
        scaler: survey.scaler.clone(),
        classes: survey.classes.clone(),
        kernel,
        basis: Basis::Landmarks { points: memory.x().to_vec(), rows: (0..n).map(|i| memory.row(i)).collect() },
        wide,
        intercept,
        rank: n,
        lambda: Some(lambda),
        // nothing is approximated
        certificate: Some(Certificate { trace_error: 0.0, overshoot: 0.0, floor: 0.0 }),
        certificates: Vec::new(),
        surface: Surface::default(),
        method: Some(method),
        figures,
        left_out: dual.left_out,
        quadratic: None,
        train: Some(score(dual.errors.as_ref(), y.as_ref())),
        coefficients: dual.coefficients,
        largest_rank: n,
        landmarks: None,
        passes: 2,
        planned_bytes,
    })
}

/// Schemes that look at targets have none to look at: the preconditioner is of the kernel alone.
fn check_landmarks(options: &TrainOptions) -> Result<()> {
    let LandmarkSource::Scheme(name) = &options.landmarks else { return Ok(()) };
    match landmark::by_name(name).is_some_and(|scheme| scheme.needs_targets) {
        true => {
            let remedy = "the preconditioner of the exact kernel knows no target; choose another scheme";
            Err(Error::option("--landmarks", name, remedy))
        }
        false => Ok(()),
    }
}

/// Leave-one-out needs the diagonal of an inverse, which an iteration does not have.
pub(super) fn check_leave_one_out(options: &TrainOptions) -> Result<()> {
    match options.system.leave_one_out && options.system.method == Method::Pcg {
        true => Err(Error::option("--loo", "with --method pcg", "it needs a factor; take --method direct")),
        false => Ok(()),
    }
}

/// Iterations and residual of every target.
pub(super) fn figures(found: &crate::iterative::cg::Found) -> Vec<Figure> {
    vec![
        Figure { name: "iterations", values: found.iterations.iter().map(|i| *i as f64).collect() },
        Figure { name: "residual", values: found.residuals.clone() },
    ]
}

/// Population deviation of every target.
fn deviations(y: MatRef<'_, f64>) -> Vec<f64> {
    let n = y.nrows().max(1) as f64;
    let of = |y: faer::ColRef<'_, f64>| {
        let mean = y.iter().sum::<f64>() / n;
        (y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / n).sqrt()
    };
    y.col_iter().map(of).collect()
}

/// Mean squared error over targets, and the share of their variance that is explained.
fn score(errors: MatRef<'_, f64>, y: MatRef<'_, f64>) -> (f64, Option<f64>) {
    let variance = deviations(y).iter().map(|d| d * d).sum();
    explained(errors.squared_norm_l2() / y.nrows() as f64, variance, y.ncols())
}

struct Solution {
    dual: Dual,
    kernel: kapprox::Spec,
    method: Solved,
}

/// What both ways to solve share.
struct Run<'a, T> {
    memory: &'a MemoryRows<T>,
    y: MatRef<'a, f64>,
    mu: f64,
    options: &'a TrainOptions,
    survey_reading: &'a kstore::Reading,
    cut: Cut,
    resources: &'a Resources<'a>,
}

impl<T: Real> Run<'_, T> {
    fn x(&self) -> MatRef<'_, T> {
        let d = self.memory.x().len() / self.memory.len().max(1);
        MatRef::from_row_major_slice(self.memory.x(), self.memory.len(), d)
    }

    fn constant(&self) -> Constant {
        Constant::new(self.options.intercept, self.memory.len(), self.mu)
    }

    /// Rows in memory are no pass over the table: nothing of them is kept in the journal.
    fn resources(&self) -> Resources<'_> {
        Resources { journal: None, ..*self.resources }
    }

    fn direct(&self) -> Result<Solution> {
        let (n, workers) = (self.memory.len(), self.resources.workers);
        let options = TrainOptions { candidates: None, ..self.options.clone() };
        let resources = self.resources();
        let (kernel, _) =
            landmarks::kernel(self.memory, n as u64, self.survey_reading, &options, self.cut, &resources)?;
        let _stage = self.resources.stages.stage(plan::FACTOR, None);
        let exact = kernel.build()?.typed::<f64>();
        kapprox::kernel::require_positive_definite(&*exact, "exact kernel ridge regression")?;
        let wide: Vec<f64> = self.memory.x().iter().map(|v| v.to_f64()).collect();
        let x = MatRef::from_row_major_slice(&wide, n, self.x().ncols());
        let dual =
            exact::direct(&*exact, x, self.y, self.mu, self.constant(), self.options.system.leave_one_out, workers)?;
        let why = match self.options.system.method {
            Method::Auto => {
                format!("a Cholesky factor of all {n} rows: it fits the plan, and --method pcg forces the other")
            }
            _ => format!("a Cholesky factor of all {n} rows, as asked for"),
        };
        Ok(Solution { dual, kernel, method: Solved { name: "direct", why } })
    }

    fn iterative(&self) -> Result<Solution> {
        let (n, workers) = (self.memory.len(), self.resources.workers);
        let map = kapprox::MapSpec::default();
        let options = TrainOptions { map, candidates: None, ..self.options.clone() };
        let resources = self.resources();
        let mapped = landmarks::map(self.memory, n as u64, self.survey_reading, &options, self.cut, &resources)?;
        let k = mapped.map.dims().1;
        let preconditioner = {
            let _stage = self.resources.stages.stage("preconditioner", None);
            let mut phi = Mat::<T>::zeros(n, k);
            mapped.map.apply(self.x(), phi.as_mut(), workers);
            LowRank::new(phi, self.mu, self.constant(), workers)?
        };
        drop(mapped.map);
        let observer = self.resources.stages.stage(plan::ITERATION, None);
        let any = mapped.kernel.build()?;
        let (kernel, exact) = (any.typed::<T>(), any.typed::<f64>());
        let until = pcg::until::<T>(self.options, self.resources, &*observer);
        let (x, constant) = (self.x(), self.constant());
        let kernels = (&*kernel, &*exact);
        let dual = exact::iterative(kernels, x, self.y, self.mu, constant, &preconditioner, until, workers)?;
        let scheme = match &self.options.landmarks {
            LandmarkSource::Scheme(name) => name.clone(),
            LandmarkSource::Rows(_) => "a table".to_string(),
        };
        let why = match self.options.system.method {
            Method::Auto if n > DIRECT_ROWS => format!("more than {DIRECT_ROWS} rows"),
            Method::Auto => "the Cholesky factor does not fit --memory".to_string(),
            _ => "as asked for".to_string(),
        };
        let why = format!("conjugate gradient, preconditioned by {k} landmarks ({scheme}): {why}");
        Ok(Solution { dual, kernel: mapped.kernel, method: Solved { name: "pcg", why } })
    }
}

/// All rows.
struct Loaded<T> {
    x: Vec<T>,
    /// Row-major.
    y: Vec<f64>,
    rows: Vec<u64>,
}

impl<T> Loaded<T> {
    /// Targets, n x t: less their centre where the intercept is free, as they were otherwise, for then the penalty (or the
    /// absence) of the constant is that of the original problem.
    fn targets(&self, targets: &Targets, intercept: Intercept) -> Mat<f64> {
        let (n, t, centre) = (self.rows.len(), targets.count(), targets.centre());
        let shift = |j: usize| if intercept == Intercept::Free { 0.0 } else { centre[j] };
        Mat::from_fn(n, t, |i, j| self.y[i * t + j] + shift(j))
    }
}

/// Reads all rows: one lane, so that they come in their order, into buffers of the right size.
fn load<T: Real>(
    source: &dyn RowSource<T>,
    targets: &Targets,
    n: u64,
    cut: Cut,
    resources: &Resources<'_>,
) -> Result<Loaded<T>> {
    let (n, shape, range) = (n as usize, source.shape(), source.range());
    let observer = resources.stages.stage("rows", Some(range.end - range.start));
    let loaded = Loaded {
        x: Vec::with_capacity(n * shape.features),
        y: Vec::with_capacity(n * targets.count()),
        rows: Vec::with_capacity(n),
    };
    let loading = Loading { targets, loaded: Mutex::new(loaded) };
    let pass = Pass { journal: None, ..cut.pass(1, resources, &*observer) };
    pass.fold(source, &loading)?;
    Ok(loading.loaded.into_inner().unwrap_or_else(PoisonError::into_inner))
}

struct Loading<'a, T> {
    targets: &'a Targets,
    loaded: Mutex<Loaded<T>>,
}

/// The state of a fold whose result is in memory.
struct Read;

impl Merge for Read {
    fn merge(&mut self, _later: &Self) {}
}

impl<T: Real> Fold<T> for Loading<'_, T> {
    type State = Read;
    type Scratch = ();
    type Error = Error;

    fn init(&self) -> Read {
        Read
    }
    fn scratch(&self) {}
    fn step(&self, _: &mut Read, (): &mut (), block: &RowBlock<'_, T>, _: &Workers) -> Result<()> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.rows.extend_from_slice(block.rows);
        loaded.x.extend_from_slice(block.x);
        for i in 0..block.len() {
            for j in 0..self.targets.count() {
                loaded.y.push(self.targets.value(block, i, j)?);
            }
        }
        Ok(())
    }
}
