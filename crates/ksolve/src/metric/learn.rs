//! The search for a metric: rounds on a sample, then one on all rows.

use super::round::{Round, Rows};
use super::source::{Form, MetricSource};
use super::{likelihood, plan, sample};
use crate::train::plan::Cut;
use crate::train::survey::Survey;
use crate::train::{Resources, Stages, TrainOptions, landmarks};
use crate::{Error, Folds, Result, Targets};
use faer::Mat;
use kapprox::decompose::symmetric_eigen;
use kapprox::landmark::RowSample;
use kapprox::metric::Metric;
use kapprox::{Real, Spec};
use kstore::RowSource;
use kstore::pass::{Observer, Unobserved};
use std::sync::Arc;

/// Most rounds of a form.
const ROUNDS: usize = 6;

/// Rounds without a smaller error after which a form is given up.
const PATIENCE: usize = 2;

/// Factors of the kernel's length scales that are tried on the features as they are.
const FACTORS: [f64; 4] = [0.25, 0.5, 1.0, 2.0];

/// Factors that are tried once the metric is found.
const LAST_FACTORS: [f64; 2] = [0.5, 2.0];

/// Share of the variance below which rounds have too little to begin from.
const LITTLE: f64 = 0.2;

/// Features up to which `learn` tries a full metric too.
const MOST_FULL: usize = 1_000;

/// A round of the search, for the report.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct RoundReport {
    /// What was tried: `none`, `full`, `diagonal`, `low-rank(5)`.
    pub form: String,
    /// Number of the round, from 1; 0 for the features as they are.
    pub round: usize,
    /// The kernel, every parameter a number.
    pub kernel: String,
    /// Number of rows.
    pub rows: u64,
    /// Squared error of rows that were held out.
    pub cv_mse: f64,
    /// Share of the variance that was explained on rows that were held out; `None` where the target does not vary.
    pub cv_r2: Option<f64>,
}

/// A metric that was learned, and how.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// The metric; `None` where none was better than the features as they are.
    pub metric: Option<Arc<Metric>>,
    /// The kernel of the best round, where its length scales were free.
    pub kernel: Option<Spec>,
    /// The rounds, in their order.
    pub rounds: Vec<RoundReport>,
    /// Passes over the table.
    pub passes: u64,
}

/// What the learning of a metric needs of the run.
pub(crate) struct Asked<'a, T: Real> {
    /// The rows, scaled.
    pub(crate) source: &'a dyn RowSource<T>,
    pub(crate) survey: &'a Survey,
    pub(crate) targets: &'a Targets,
    pub(crate) options: &'a TrainOptions,
    pub(crate) cut: Cut,
    pub(crate) resources: &'a Resources<'a>,
}

/// The options with the metric known: given for the divisors of the fit, or learned from its rows.
pub(crate) fn settle<T: Real>(asked: &Asked<'_, T>) -> Result<(TrainOptions, Learned)> {
    let options = asked.options;
    let (metric, learned) = match &options.metric {
        MetricSource::None => return Ok((options.clone(), Learned::default())),
        MetricSource::Given(given) => (Some(given.scaled(&asked.survey.scaler.scale)?), Learned::default()),
        MetricSource::Learned(form) => {
            let learned = learn(asked, *form)?;
            (learned.metric.clone(), learned)
        }
    };
    let metric = metric.map_or(MetricSource::None, MetricSource::of);
    let kernel = learned.kernel.clone().unwrap_or_else(|| options.kernel.clone());
    Ok((TrainOptions { metric, kernel, ..options.clone() }, learned))
}

fn learn<T: Real>(asked: &Asked<'_, T>, form: Form) -> Result<Learned> {
    let Asked { source, survey, options, resources, .. } = *asked;
    let d = source.shape().features;
    let cut = plan::cut_of::<T>(d, asked.cut);
    let (held, drawn) = sample::draw(source, survey.rows(), options.seed, cut, resources)?;
    let stage = resources.stages.stage("learning the metric", None);
    let silent = Silent(&*stage);
    let here = Resources { journal: None, scratch: None, stages: &silent, ..*resources };
    let inner = plan::options(options);
    let folds = Folds::new(&inner.folds, options.seed, source.range(), &survey.groups)?;
    let (reading, ridge) = (survey.reading(), plan::ridge());
    let rows = Rows {
        source: &held,
        n: held.len() as u64,
        reading: &reading,
        targets: asked.targets,
        folds: &folds,
        options: &inner,
        ridge: &ridge,
        cut: plan::in_memory(cut),
        resources: &here,
    };
    let lengths = Lengths { kernel: &options.kernel, drawn: &drawn, seed: options.seed };
    let mut search = Search { variance: survey.variance(), lengths, rounds: Vec::new(), best: None };
    search.check()?;
    search.start(&rows)?;
    if search.explained() < LITTLE {
        search.lengths(&rows, &*stage)?;
    }
    let (factor, products) = search.products(&rows)?;
    for form in forms(form, d, options) {
        search.descend(&rows, form, factor, &products)?;
    }
    search.stretch(&rows)?;
    let mut passes = 2;
    if survey.rows() > held.len() as u64 {
        passes += search.finish(&Rows { source, n: survey.rows(), cut, resources, ..rows })?;
    }
    let Search { rounds, best, .. } = search;
    let best = best.ok_or(Error::NoCell { precision: <T as kstore::Real>::NAME })?;
    let kernel = options.kernel.needs_median().then_some(best.round.kernel);
    Ok(Learned { metric: best.round.metric, kernel, rounds, passes })
}

/// The forms that are tried. A kernel that looks at some columns by their names needs features that stay what they are.
fn forms(form: Form, d: usize, options: &TrainOptions) -> Vec<Form> {
    match form {
        Form::Best if options.kernel.looks_at_columns() || d > MOST_FULL => vec![Form::Diagonal],
        Form::Best => vec![Form::Full, Form::Diagonal],
        form => vec![form],
    }
}

/// The length scales of the kernel: the median of the distances on the sample, times a factor, unless they were given.
struct Lengths<'a, T> {
    kernel: &'a Spec,
    drawn: &'a RowSample<T>,
    seed: u64,
}

impl<T: Real> Lengths<'_, T> {
    fn are_free(&self) -> bool {
        self.kernel.needs_median()
    }

    /// The kernel for rows behind a metric.
    fn kernel(&self, metric: Option<&Metric>, factor: f64) -> Result<Spec> {
        if !self.are_free() {
            return Ok(self.kernel.clone());
        }
        let settled = match metric {
            None => landmarks::settle(self.kernel, self.drawn, self.seed)?,
            Some(metric) => {
                let mut x = vec![T::default(); self.drawn.len() * metric.outputs()];
                metric.apply(&self.drawn.x, &mut x);
                let sample = RowSample { rows: self.drawn.rows.clone(), x, d: metric.outputs() };
                landmarks::settle(self.kernel, &sample, self.seed)?
            }
        };
        Ok(settled.stretched(factor)?)
    }
}

/// The best round so far, and how it was come to.
struct Best<T> {
    round: Round<T>,
    form: Option<Form>,
    factor: f64,
}

struct Search<'a, T: Real> {
    /// Mean variance of a target, to which errors are compared.
    variance: f64,
    lengths: Lengths<'a, T>,
    rounds: Vec<RoundReport>,
    best: Option<Best<T>>,
}

impl<T: Real> Search<'_, T> {
    /// Fits through a metric, and reports the round.
    fn fit(
        &mut self,
        rows: &Rows<'_, T>,
        (form, number): (Option<Form>, usize),
        metric: Option<Arc<Metric>>,
        factor: f64,
    ) -> Result<Round<T>> {
        let kernel = self.lengths.kernel(metric.as_deref(), factor)?;
        let round = rows.fit(metric, &kernel)?;
        self.rounds.push(RoundReport {
            form: form.map_or("none".to_string(), |form| form.to_string()),
            round: number,
            kernel: round.kernel.to_string(),
            rows: rows.n,
            cv_mse: round.error,
            cv_r2: (self.variance > 0.0).then(|| 1.0 - round.error / self.variance),
        });
        Ok(round)
    }

    /// Keeps a round that is better than the best so far.
    fn keep(&mut self, round: Round<T>, form: Option<Form>, factor: f64) {
        if self.best.as_ref().is_none_or(|best| round.error < best.round.error) {
            self.best = Some(Best { round, form, factor });
        }
    }

    /// Refuses a kernel without gradients.
    fn check(&self) -> Result<()> {
        let kernel = self.lengths.kernel(None, 1.0)?;
        match kernel.build()?.typed::<f64>().differentiable() {
            true => Ok(()),
            false => {
                let why =
                    format!("the kernel {kernel} has no gradient to learn it by; take gaussian, exponential or matern");
                Err(Error::option("metric", "", why))
            }
        }
    }

    /// Fits the features as they are, at several length scales.
    fn start(&mut self, rows: &Rows<'_, T>) -> Result<()> {
        let factors = if self.lengths.are_free() { &FACTORS[..] } else { &[1.0] };
        for factor in factors {
            let round = self.fit(rows, (None, 0), None, *factor)?;
            self.keep(round, None, *factor);
        }
        Ok(())
    }

    /// The share of the variance that the best round explains.
    fn explained(&self) -> f64 {
        let error = self.best.as_ref().map_or(f64::INFINITY, |best| best.round.error);
        if self.variance > 0.0 { 1.0 - error / self.variance } else { 1.0 }
    }

    /// Learns a factor for each feature by marginal likelihood, and fits through them.
    fn lengths(&mut self, rows: &Rows<'_, T>, observer: &dyn Observer) -> Result<()> {
        let drawn = self.lengths.drawn;
        let (n, t) = (drawn.len().min(likelihood::ROWS), rows.targets.count());
        let x = Mat::from_fn(n, drawn.d, |i, j| drawn.x[i * drawn.d + j].to_f64());
        let targets = rows.values_of(&drawn.rows[..n])?;
        let y = Mat::from_fn(n, t, |i, j| targets[i * t + j]);
        let kernel = self.lengths.kernel(None, 1.0)?.build()?;
        let options = likelihood::Options { stages: &likelihood::STAGES, observer };
        let found = likelihood::learn(x.as_ref(), y.as_ref(), &kernel, &options, rows.resources.workers)?;
        let metric = Arc::new(Metric::diagonal(found.factors)?);
        let factors = if self.lengths.are_free() { &FACTORS[..] } else { &[1.0] };
        for factor in factors {
            let round = self.fit(rows, (Some(Form::Diagonal), 0), Some(metric.clone()), *factor)?;
            self.keep(round, Some(Form::Diagonal), *factor);
        }
        Ok(())
    }

    /// The factor of the best round, and the products of its gradients.
    fn products(&self, rows: &Rows<'_, T>) -> Result<(f64, Mat<f64>)> {
        let best = self.best.as_ref().ok_or(Error::NoCell { precision: <T as kstore::Real>::NAME })?;
        Ok((best.factor, rows.products(&best.round)?))
    }

    /// Rounds of a form, from the products of the gradients of the features as they are.
    fn descend(&mut self, rows: &Rows<'_, T>, form: Form, factor: f64, products: &Mat<f64>) -> Result<()> {
        let (mut products, mut least, mut idle) = (products.clone(), f64::INFINITY, 0);
        for number in 1..=ROUNDS {
            let Some(metric) = root(&products, form)? else { return Ok(()) };
            let round = self.fit(rows, (Some(form), number), Some(Arc::new(metric)), factor)?;
            idle = if round.error < least { 0 } else { idle + 1 };
            least = least.min(round.error);
            let last = idle >= PATIENCE || number == ROUNDS;
            if !last {
                products = rows.products(&round)?;
            }
            self.keep(round, Some(form), factor);
            if last {
                break;
            }
        }
        Ok(())
    }

    /// Tries other length scales for the best metric, as long as they help.
    fn stretch(&mut self, rows: &Rows<'_, T>) -> Result<()> {
        if !self.lengths.are_free() {
            return Ok(());
        }
        for step in LAST_FACTORS {
            while let Some(Best { round, form: Some(form), factor }) = &self.best {
                let (before, form, factor, metric) = (round.error, *form, factor * step, round.metric.clone());
                let round = self.fit(rows, (Some(form), 0), metric, factor)?;
                let better = round.error < before;
                self.keep(round, Some(form), factor);
                if !better {
                    break;
                }
            }
        }
        Ok(())
    }

    /// One round on all rows: the best metric, and the one that its gradients give. Returns the passes over the table.
    fn finish(&mut self, rows: &Rows<'_, T>) -> Result<u64> {
        // errors on the sample and on all rows do not compare
        let Some(Best { round, form: Some(form), factor }) = self.best.take() else {
            return Ok(0);
        };
        let first = self.fit(rows, (Some(form), ROUNDS + 1), round.metric, factor)?;
        let products = rows.products(&first)?;
        let mut passes = first.passes + 1;
        self.keep(first, Some(form), factor);
        if let Some(metric) = root(&products, form)? {
            let second = self.fit(rows, (Some(form), ROUNDS + 2), Some(Arc::new(metric)), factor)?;
            passes += second.passes;
            self.keep(second, Some(form), factor);
        }
        Ok(passes)
    }
}

/// The metric of a form whose AᵀA is M, with the trace d; `None` where M is 0.
fn root(m: &Mat<f64>, form: Form) -> Result<Option<Metric>> {
    let d = m.nrows();
    let trace: f64 = (0..d).map(|j| m[(j, j)].max(0.0)).sum();
    if !(trace > 0.0 && trace.is_finite()) {
        return Ok(None);
    }
    let unit = d as f64 / trace;
    if form == Form::Diagonal {
        return Ok(Some(Metric::diagonal((0..d).map(|j| (m[(j, j)].max(0.0) * unit).sqrt()).collect())?));
    }
    let scaled = Mat::from_fn(d, d, |i, j| m[(i, j)] * unit);
    let (values, vectors) = symmetric_eigen(scaled.as_ref())?;
    let roots: Vec<f64> = values.iter().map(|value| value.max(0.0).sqrt()).collect();
    Ok(Some(match form {
        Form::LowRank(r) => {
            // the eigenvalues ascend
            let leading: Vec<usize> = (d - r.min(d)..d).rev().collect();
            let kept: f64 = leading.iter().map(|k| values[*k].max(0.0)).sum();
            let unit = (d as f64 / kept).sqrt();
            let rows: Vec<f64> =
                leading.iter().flat_map(|k| (0..d).map(|j| unit * roots[*k] * vectors[(j, *k)])).collect();
            Metric::matrix(&rows, leading.len())?
        }
        _ => {
            let half = Mat::from_fn(d, d, |i, k| vectors[(i, k)] * roots[k]);
            let a = kapprox::decompose::product(half.as_ref(), vectors.transpose());
            let rows: Vec<f64> =
                (0..d).flat_map(|i| (0..d).map(|j| (a[(i, j)] + a[(j, i)]) / 2.0).collect::<Vec<_>>()).collect();
            Metric::matrix(&rows, d)?
        }
    }))
}

/// An observer of the fits on the sample, which shows none of them and hears the wish for a stop.
struct Silent<'a>(&'a dyn Observer);

impl Stages for Silent<'_> {
    fn stage<'a>(&'a self, _: &str, _: Option<u64>) -> Box<dyn Observer + 'a> {
        Box::new(Stop(self.0))
    }
    fn warn(&self, _: String) {}
}

struct Stop<'a>(&'a dyn Observer);

impl Observer for Stop<'_> {
    fn advance(&self, rows: u64) {
        Unobserved.advance(rows);
    }
    fn stop(&self) -> bool {
        self.0.stop()
    }
}
