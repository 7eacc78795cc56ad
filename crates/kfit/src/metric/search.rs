//! The search for a metric, in rounds.

use super::round::{Round, Rows, root, spread};
use super::{likelihood, plan::LAMBDAS};
use crate::{Error, Result, prepare::landmarks, request::MetricForm};
use faer::Mat;
use kapprox::{Kernel, Real, landmark::RowSample, metric::Metric};
use kstore::pass::Observer;
use std::sync::Arc;

const ROUNDS: usize = 6;

/// Number of rounds without a smaller error after which a form is abandoned.
const PATIENCE: usize = 2;

/// Factors of the kernel's length scales that are tried without a metric.
const FACTORS: [f64; 4] = [0.25, 0.5, 1.0, 2.0];

/// Number of rows for the median distance in each round; 45,000 pairs determine it within 2 %.
const MEDIAN_ROWS: usize = 300;

/// Maximum number of steps by a factor of two away from the median, if a kernel has several length
/// scales.
const STEPS: usize = 7;

/// From its second round on, a form is abandoned if its error exceeds another form's error in the
/// same round by this factor.
const HOPELESS: f64 = 1.25;

/// Factors that are tried after the metric is found.
const LAST_FACTORS: [f64; 2] = [0.5, 2.0];

pub use kmodel::model::RoundReport;

/// The length scales of the kernel: the median distance on the sample times a factor, or fixed
/// numbers.
pub(super) struct Lengths<'a, T> {
    kernel: Kernel,
    drawn: &'a RowSample<T>,
    seed: u64,
    /// A separate factor for each length scale.
    each: Vec<f64>,
}

impl<'a, T: Real> Lengths<'a, T> {
    pub(super) fn new(kernel: &Kernel, drawn: &'a RowSample<T>, seed: u64) -> Result<Self> {
        let kernel = kernel.with_free_lengths()?;
        Ok(Self { each: vec![1.0; kernel.autos()], kernel, drawn, seed })
    }

    fn are_free(&self) -> bool {
        !self.each.is_empty()
    }

    fn kernel(&self, metric: Option<&Metric>, factor: f64) -> Result<Kernel> {
        if !self.are_free() {
            return Ok(self.kernel.clone());
        }
        let RowSample { rows, x, d, weights } = self.drawn;
        let count = rows.len().min(MEDIAN_ROWS);
        let weights = weights.iter().take(count).copied().collect();
        let few = RowSample { rows: rows[..count].to_vec(), x: x[..count * d].to_vec(), d: *d, weights };
        let few = metric.map_or_else(|| few.clone(), |metric| behind(&few, metric));
        let factors = self.each.iter().map(|each| each * factor).collect();
        Ok(landmarks::settle_lengths(&self.kernel, &few, self.seed, &[factors])?.swap_remove(0))
    }
}

#[doc(hidden)]
pub fn behind<T: Real>(sample: &RowSample<T>, metric: &Metric) -> RowSample<T> {
    let mut x = vec![T::default(); sample.len() * metric.outputs()];
    metric.apply(&sample.x, &mut x);
    RowSample { rows: sample.rows.clone(), x, d: metric.outputs(), weights: sample.weights.clone() }
}

/// The best round so far, with its form and length scale factor.
pub(super) struct Best<T> {
    pub(super) round: Round<T>,
    pub(super) form: Option<MetricForm>,
    factor: f64,
}

pub(super) struct Search<'a, T: Real> {
    /// Mean variance of a target, the reference for errors.
    variance: f64,
    lengths: Lengths<'a, T>,
    rounds: Vec<RoundReport>,
    best: Option<Best<T>>,
    /// Index of the last round's lambda.
    near: usize,
    enough: &'a dyn Fn(usize) -> bool,
    over: bool,
}

impl<'a, T: Real> Search<'a, T> {
    pub(super) fn new(variance: f64, lengths: Lengths<'a, T>, enough: &'a dyn Fn(usize) -> bool) -> Result<Self> {
        let (rounds, near) = (Vec::new(), LAMBDAS.len() / 2);
        let search = Self { variance, lengths, rounds, best: None, near, enough, over: false };
        search.check()?;
        Ok(search)
    }

    pub(super) fn found(self) -> (Option<Best<T>>, Vec<RoundReport>) {
        (self.best, self.rounds)
    }

    fn fit(
        &mut self,
        rows: &Rows<'_, T>,
        (form, number): (Option<MetricForm>, usize),
        metric: Option<Arc<Metric>>,
        factor: f64,
    ) -> Result<Round<T>> {
        let kernel = self.lengths.kernel(metric.as_deref(), factor)?;
        self.fit_kernel(rows, (form, number), metric, &kernel)
    }

    /// Fits a kernel whose length scales are numbers.
    pub(super) fn fit_kernel(
        &mut self,
        rows: &Rows<'_, T>,
        (form, number): (Option<MetricForm>, usize),
        metric: Option<Arc<Metric>>,
        kernel: &Kernel,
    ) -> Result<Round<T>> {
        let round = rows.fit(metric, kernel, self.near)?;
        self.near = round.lambda;
        self.rounds.push(RoundReport {
            form: form.map_or("none".to_string(), |form| form.to_string()),
            round: number,
            kernel: round.kernel.to_string(),
            rows: rows.n,
            rank: round.scored.0,
            lambda: round.scored.1,
            cv_mse: round.error,
            cv_r2: (self.variance > 0.0).then(|| 1.0 - round.error / self.variance),
        });
        // called once for each number of rounds, so that an answer that depends only on the number
        // is reproducible
        self.over = self.over || (self.enough)(self.rounds.len());
        Ok(round)
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn keep(&mut self, round: Round<T>, form: Option<MetricForm>, factor: f64) {
        if self.best.as_ref().is_none_or(|best| round.error < best.round.error) {
            self.best = Some(Best { round, form, factor });
        }
    }

    fn check(&self) -> Result<()> {
        let kernel = self.lengths.kernel(None, 1.0)?;
        match kernel.build()?.typed::<f64>().differentiable() {
            true => Ok(()),
            false => {
                let why = format!(
                    "the kernel {kernel} has no gradient, which learning a metric needs; use gaussian, exponential or matern"
                );
                Err(Error::option("metric", "", why))
            }
        }
    }

    /// Fits without a metric at several length scales.
    pub(super) fn start(&mut self, rows: &Rows<'_, T>) -> Result<()> {
        self.scale(rows, None, None)?;
        let several = if self.lengths.each.len() > 1 { self.lengths.each.len() } else { 0 };
        for place in (0..several).chain(0..several) {
            if !self.walk(rows, place, 0.5)? {
                self.walk(rows, place, 2.0)?;
            }
        }
        Ok(())
    }

    /// Multiplies one of several length scales by a step as long as the error falls; returns true
    /// if it fell.
    fn walk(&mut self, rows: &Rows<'_, T>, place: usize, step: f64) -> Result<bool> {
        for steps in 0..STEPS {
            let Some(best) = self.best.as_ref().filter(|_| !self.over) else { return Ok(steps > 0) };
            let (before, factor) = (best.round.error, best.factor);
            self.lengths.each[place] *= step;
            let round = self.fit(rows, (None, 0), None, factor)?;
            let better = round.error < before;
            self.keep(round, None, factor);
            if !better {
                self.lengths.each[place] /= step;
                return Ok(steps > 0);
            }
        }
        Ok(true)
    }

    pub(super) fn explained(&self) -> f64 {
        let error = self.best.as_ref().map_or(f64::INFINITY, |best| best.round.error);
        if self.variance > 0.0 { 1.0 - error / self.variance } else { 1.0 }
    }

    /// Learns a factor for each input by maximum marginal likelihood, and fits with this metric.
    pub(super) fn lengths(&mut self, rows: &Rows<'_, T>, observer: &dyn Observer) -> Result<()> {
        let drawn = self.lengths.drawn;
        let (n, t) = (drawn.len().min(likelihood::ROWS), rows.targets.count());
        let x = Mat::from_fn(n, drawn.d, |i, j| drawn.x[i * drawn.d + j].to_f64());
        let targets = rows.values_of(&drawn.rows[..n])?;
        let y = Mat::from_fn(n, t, |i, j| targets[i * t + j]);
        let kernel = self.lengths.kernel(None, 1.0)?.build()?;
        let (stages, workers) = (&likelihood::STAGES, rows.resources.workers);
        let found = likelihood::learn(x.as_ref(), y.as_ref(), &kernel, (stages, observer), workers)?;
        let metric = Arc::new(Metric::diagonal(found)?);
        self.scale(rows, Some(MetricForm::Diagonal), Some(metric))
    }

    /// Fits with a metric, at several length scales if these are free.
    fn scale(&mut self, rows: &Rows<'_, T>, form: Option<MetricForm>, metric: Option<Arc<Metric>>) -> Result<()> {
        for factor in if self.lengths.are_free() { &FACTORS[..] } else { &[1.0] } {
            let round = self.fit(rows, (form, 0), metric.clone(), *factor)?;
            self.keep(round, form, *factor);
            if self.over {
                break;
            }
        }
        Ok(())
    }

    /// Returns the length scale factor of the best round, and the outer products of its gradients.
    pub(super) fn products(&self, rows: &Rows<'_, T>) -> Result<(f64, Mat<f64>)> {
        let best = self.best.as_ref().ok_or(Error::NoCell { precision: T::NAME })?;
        Ok((best.factor, rows.products(&best.round)?))
    }

    /// Runs the rounds of a form, from the outer products of the fit without a metric.
    pub(super) fn descend(
        &mut self,
        rows: &Rows<'_, T>,
        form: MetricForm,
        factor: f64,
        products: &Mat<f64>,
    ) -> Result<()> {
        let (mut products, mut least, mut idle) = (products.clone(), f64::INFINITY, 0);
        for number in 1..=ROUNDS {
            if self.over {
                break;
            }
            let Some(metric) = root(&products, form)? else { return Ok(()) };
            let round = self.fit(rows, (Some(form), number), Some(Arc::new(metric)), factor)?;
            idle = if round.error < least { 0 } else { idle + 1 };
            least = least.min(round.error);
            let last = idle >= PATIENCE || number == ROUNDS || self.over || self.is_hopeless(form, number, round.error);
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

    fn is_hopeless(&self, form: MetricForm, number: usize, error: f64) -> bool {
        let mut others = self.rounds.iter().filter(|other| other.round == number && other.form != form.to_string());
        number > 1 && others.any(|other| error > HOPELESS * other.cv_mse)
    }

    /// Tries other length scales for the best metric as long as they reduce the error.
    pub(super) fn stretch(&mut self, rows: &Rows<'_, T>) -> Result<()> {
        if !self.lengths.are_free() {
            return Ok(());
        }
        for step in LAST_FACTORS {
            while let Some(Best { round, form: Some(form), factor }) = self.best.as_ref().filter(|_| !self.over) {
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

    /// Returns the standard deviations over folds of the inputs' contributions in the best round;
    /// `None` without a metric.
    pub(super) fn spread(&self, rows: &Rows<'_, T>) -> Result<Option<Vec<f64>>> {
        let best = self.best.as_ref().filter(|best| best.form.is_some());
        best.map_or(Ok(None), |best| spread(rows, &best.round))
    }

    /// Fits on all rows with the best metric, then with the metric from its gradients. Returns the
    /// passes over the table.
    pub(super) fn finish(&mut self, rows: &Rows<'_, T>) -> Result<u64> {
        // errors on the sample and on all rows are not comparable
        let Some(Best { round, form: Some(form), factor }) = self.best.take_if(|best| best.form.is_some()) else {
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
