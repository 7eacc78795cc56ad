//! A round: kernel ridge regression after a metric, its held-out error, the gradients of its
//! function, the next metric, and the variation of the metric over folds.

use super::plan::{self, LAMBDAS};
use crate::features::GRAM;
use crate::prepare::landmarks::{Mapped, Mapping};
use crate::request::{MetricForm, PassShape, Resources, TrainOptions};
use crate::solver::normal_equations::system::System;
use crate::solver::outer_products::OuterProducts;
use crate::{Error, Folds, GramState, Intercept, Result, RidgeFold, Surface, Targets};
use faer::Mat;
use kapprox::decompose::{product, symmetric_eigen};
use kapprox::map::Expansion;
use kapprox::metric::{Metric, MetricRows};
use kapprox::{Kernel, Real};
use kstore::pass::Observer;
use kstore::{Coded, MemoryRows, Pass, Reading, RowBlock, RowSource};
use std::collections::HashMap;
use std::sync::Arc;

/// Number of rows from which a single fold suffices to compare lambdas.
const FOLD_ROWS: u64 = 400;

#[doc(hidden)]
#[derive(Debug)]
pub struct Rows<'a, T: Real> {
    /// The scaled rows, before the metric.
    pub source: &'a dyn RowSource<T>,
    pub n: u64,
    pub reading: &'a Reading,
    pub targets: &'a Targets,
    pub folds: &'a Folds,
    pub options: &'a TrainOptions,
    pub cut: PassShape,
    pub resources: &'a Resources<'a>,
}

pub(super) struct Round<T> {
    /// The metric of the fit; `None` for the unchanged inputs.
    pub(super) metric: Option<Arc<Metric>>,
    /// The kernel of the fit, with every parameter resolved to a number.
    pub(super) kernel: Kernel,
    /// Index of the fit's lambda in the grid.
    pub(super) lambda: usize,
    /// Mean squared error on held-out rows, by which rounds are compared.
    pub(super) error: f64,
    /// The rank and lambda of `error`.
    pub(super) scored: (usize, f64),
    /// The function, in the span of the landmarks' kernel sections.
    expansion: Expansion<T>,
    pub(super) passes: u64,
}

impl<T: Real> Rows<'_, T> {
    fn through(&self, metric: Option<&Arc<Metric>>) -> MetricRows<&dyn RowSource<T>> {
        MetricRows::new(self.source, metric.cloned())
    }

    /// Returns the targets of these rows, t for each, in the order of `row_numbers`.
    pub(super) fn values_of(&self, wanted: &[u64]) -> Result<Vec<f64>> {
        let t = self.targets.count();
        let place: HashMap<u64, usize> = wanted.iter().enumerate().map(|(place, row)| (*row, place)).collect();
        let mut values = vec![0.0; wanted.len() * t];
        let observer = self.resources.stages.stage("targets", None);
        let pass = Pass { journal: None, ..self.cut.pass(1, self.resources, &*observer) };
        pass.visit(self.source, |block| {
            for (i, row) in block.rows.iter().enumerate() {
                let Some(place) = place.get(row) else { continue };
                for (j, value) in values[place * t..(place + 1) * t].iter_mut().enumerate() {
                    *value = self.targets.value(block, i, j)?;
                }
            }
            Ok::<(), Error>(())
        })?;
        Ok(values)
    }

    /// Calls `visit` with the block, the position in it, and the fold of each row.
    pub(super) fn each_fold(&self, mut see: impl FnMut(&RowBlock<'_, T>, usize, usize) + Send) -> Result<()> {
        let observer = self.resources.stages.stage("rows of a fold", None);
        let pass = Pass { journal: None, ..self.cut.pass(1, self.resources, &*observer) };
        pass.visit(self.source, |block| {
            for (i, row) in block.rows.iter().enumerate() {
                let code = block.groups.as_ref().map_or(Coded::UNKNOWN, |groups| groups.codes[i]);
                see(block, i, self.folds.fold_of(*row, code)?);
            }
            Ok::<(), Error>(())
        })?;
        Ok(())
    }

    /// Returns a map for the kernel, the moments of its features, and the observer of the pass.
    pub fn moments(
        &self,
        metric: Option<&Arc<Metric>>,
        kernel: &Kernel,
    ) -> Result<(Mapped<T>, GramState, Box<dyn Observer + '_>)> {
        let options = TrainOptions { kernel: kernel.clone(), ..self.options.clone() };
        let source = self.through(metric);
        let Self { n, reading, cut, resources, .. } = *self;
        let mapped = Mapping { source: &source, n, reading, options: &options, cut, resources }.map()?;
        let observer = self.resources.stages.stage(GRAM, Some(self.n));
        // no certificate and no class decisions, which would add to the cost of every round
        let fold = RidgeFold::new(&*mapped.map, self.folds, self.targets).with_bin(self.cut.tile).without_certificate();
        let pass = self.cut.pass(self.cut.gram_lanes, self.resources, &*observer);
        let gram = pass.resume(GRAM, &source, &fold)?.0.gram;
        Ok((mapped, gram, observer))
    }

    /// Returns the smallest generalised cross-validation error over the lambdas, without a metric;
    /// `None` if no lambda has one.
    pub(super) fn gcv(&self, kernel: &Kernel) -> Result<Option<f64>> {
        let (_, gram, observer) = self.moments(None, kernel)?;
        let ridge = plan::ridge(gram.features(), &LAMBDAS, self.targets.centre());
        let surface = Surface::compute(&gram, &ridge, self.resources.workers, &*observer)?;
        Ok(surface.cells.iter().filter_map(|cell| cell.gcv).min_by(f64::total_cmp))
    }

    /// Fits at the best lambda; the search starts at index `near_lambda`.
    pub(super) fn fit(&self, metric: Option<Arc<Metric>>, kernel: &Kernel, near: usize) -> Result<Round<T>> {
        let (mapped, gram, observer) = self.moments(metric.as_ref(), kernel)?;
        let workers = self.resources.workers;
        let (lambda, error) = self.lambda(&gram, near, &*observer)?;
        let (scored, error) = self.score(&gram, (LAMBDAS[lambda], error), &*observer)?;
        drop(observer);
        let (rank, ridge) = (gram.features(), plan::ridge(gram.features(), &[], self.targets.centre()));
        let weights = crate::fit(&gram, rank, LAMBDAS[lambda], &ridge, workers)?.head.weights;
        let expansion = mapped.map.expand(weights.as_ref(), workers);
        let passes = mapped.passes + 1;
        Ok(Round { metric, kernel: mapped.kernel, lambda, error, scored, expansion, passes })
    }

    /// Returns the rank and lambda at which a round is compared, and the error there: those of the
    /// fit, unless the model has a lower rank. The features are nested, so the leading features
    /// form the model of lower rank.
    fn score(
        &self,
        gram: &GramState,
        (lambda, error): (f64, f64),
        observer: &dyn Observer,
    ) -> Result<((usize, f64), f64)> {
        let asked = self.options.ranks.iter().fold(self.options.rank, |rank, scored| rank.min(*scored));
        if asked >= gram.features() {
            return Ok(((asked, lambda), error));
        }
        let best = self.least(gram, asked, observer)?;
        Ok(best.map_or(((asked, lambda), f64::INFINITY), |(lambda, error)| ((asked, lambda), error)))
    }

    /// Returns the lambda with the smallest held-out error at a rank, and the error; `None` if no
    /// lambda has one.
    fn least(&self, gram: &GramState, rank: usize, observer: &dyn Observer) -> Result<Option<(f64, f64)>> {
        let (workers, ridge) = (self.resources.workers, plan::ridge(rank, &LAMBDAS, self.targets.centre()));
        let mut system = System::new(gram.features(), &self.targets.centre(), Intercept::default());
        let surface = Surface::by_folds(gram, &ridge, &mut system, 0..gram.folds().len(), workers, observer)?;
        Ok(surface.best().and_then(|cell| Some((cell.lambda, cell.cv_mse?))))
    }

    /// Returns the smallest held-out error over the lambdas; infinity if no lambda has one.
    pub(super) fn error(&self, metric: Option<&Arc<Metric>>, kernel: &Kernel) -> Result<f64> {
        let (_, gram, observer) = self.moments(metric, kernel)?;
        Ok(self.least(&gram, gram.features(), &*observer)?.map_or(f64::INFINITY, |(_, error)| error))
    }

    /// Returns the index of the best lambda and its held-out error. The search descends from
    /// `near_lambda`, because a round resembles the previous one, and uses only the largest fold if
    /// that fold has many rows. Among equal errors it prefers the larger lambda.
    fn lambda(&self, gram: &GramState, near: usize, observer: &dyn Observer) -> Result<(usize, f64)> {
        let workers = self.resources.workers;
        let mut system = System::new(gram.features(), &self.targets.centre(), Intercept::default());
        let scored = (0..gram.folds().len()).filter(|fold| gram.held_out().scores(*fold));
        let largest = scored.max_by_key(|fold| gram.folds()[*fold].rows).unwrap_or(0);
        let folds = match gram.folds()[largest].rows < FOLD_ROWS {
            true => 0..gram.folds().len(),
            false => largest..largest + 1,
        };
        let (mut errors, mut best) = ([None; LAMBDAS.len()], near);
        loop {
            let around = best.saturating_sub(1)..LAMBDAS.len().min(best + 2);
            let new: Vec<usize> = around.clone().filter(|place| errors[*place].is_none()).collect();
            let lambdas: Vec<f64> = new.iter().map(|place| LAMBDAS[*place]).collect();
            let ridge = plan::ridge(gram.features(), &lambdas, self.targets.centre());
            let surface = Surface::by_folds(gram, &ridge, &mut system, folds.clone(), workers, observer)?;
            for (place, cell) in new.iter().zip(&surface.cells) {
                let error = if folds.len() > 1 { cell.cv_mse } else { cell.fold_mse.get(largest).copied().flatten() };
                errors[*place] = Some(error.unwrap_or(f64::INFINITY));
            }
            let error = |place: &usize| errors[*place].unwrap_or(f64::INFINITY);
            let next = around.rev().min_by(|a, b| error(a).total_cmp(&error(b))).unwrap_or(best);
            if next == best {
                break;
            }
            best = next;
        }
        // a system that is definite without one fold may be indefinite without another
        let all = 0..gram.folds().len();
        for (place, lambda) in LAMBDAS.iter().enumerate().skip(best) {
            let error = match errors[place].filter(|_| folds == all) {
                Some(error) => Some(error),
                None => {
                    let ridge = plan::ridge(gram.features(), &[*lambda], self.targets.centre());
                    Surface::by_folds(gram, &ridge, &mut system, all.clone(), workers, observer)?.cells[0].cv_mse
                }
            };
            if let Some(error) = error.filter(|error| error.is_finite()) {
                return Ok((place, error));
            }
        }
        Err(Error::NoCell { precision: T::NAME })
    }

    /// Returns the average M of the outer products of the gradients of a round's function, with
    /// respect to the rows before its metric; d x d.
    pub(super) fn products(&self, round: &Round<T>) -> Result<Mat<f64>> {
        let Expansion::Landmarks { landmarks, coefficients, .. } = &round.expansion else {
            return Err(Error::option("metric", "", "it can be learned only with a map on landmarks, such as nystrom"));
        };
        let source = self.through(round.metric.as_ref());
        let observer = self.resources.over("gradients", source.range());
        let wide: Vec<f64> = landmarks.points.iter().map(|value| value.to_f64()).collect();
        let fold = OuterProducts::new(round.kernel.build()?.typed::<f64>(), &wide, coefficients.as_ref());
        let fold = fold.among(self.n, self.options.seed);
        let pass = self.cut.pass(self.cut.gram_lanes, self.resources, &*observer);
        let products = pass.resume("gradients", &source, &fold)?.0;
        drop(observer);
        let m = products.sums() * faer::Scale(1.0 / products.weight);
        Ok(match &round.metric {
            None => m,
            Some(metric) => pulled_back(&m, metric),
        })
    }
}

/// Computes Aᵀ M A: the outer products of gradients by x from those by A x.
fn pulled_back(m: &Mat<f64>, metric: &Metric) -> Mat<f64> {
    let (numbers, d, r) = (metric.numbers(), metric.inputs(), metric.outputs());
    if metric.is_diagonal() {
        return Mat::from_fn(d, d, |i, j| numbers[i] * m[(i, j)] * numbers[j]);
    }
    let a = Mat::from_fn(r, d, |k, j| numbers[k * d + j]);
    let ma = product(m.as_ref(), a.as_ref());
    product(a.transpose(), ma.as_ref())
}

/// Returns the metric of a form with AᵀA = M scaled to trace d; `None` if M is 0.
pub(super) fn root(m: &Mat<f64>, form: MetricForm) -> Result<Option<Metric>> {
    let d = m.nrows();
    let trace: f64 = (0..d).map(|j| m[(j, j)].max(0.0)).sum();
    if !(trace > 0.0 && trace.is_finite()) {
        return Ok(None);
    }
    let unit = d as f64 / trace;
    if form == MetricForm::Diagonal {
        return Ok(Some(Metric::diagonal((0..d).map(|j| (m[(j, j)].max(0.0) * unit).sqrt()).collect())?));
    }
    let scaled = Mat::from_fn(d, d, |i, j| m[(i, j)] * unit);
    let (values, vectors) = symmetric_eigen(scaled.as_ref())?;
    let roots: Vec<f64> = values.iter().map(|value| value.max(0.0).sqrt()).collect();
    Ok(Some(match form {
        MetricForm::LowRank(r) => {
            // the eigenvalues are ascending
            let leading: Vec<usize> = (d - r.min(d)..d).rev().collect();
            let kept: f64 = leading.iter().map(|k| values[*k].max(0.0)).sum();
            let unit = (d as f64 / kept).sqrt();
            let rows: Vec<f64> =
                leading.iter().flat_map(|k| (0..d).map(|j| unit * roots[*k] * vectors[(j, *k)])).collect();
            Metric::matrix(&rows, leading.len())?
        }
        _ => {
            let half = Mat::from_fn(d, d, |i, k| vectors[(i, k)] * roots[k]);
            let a = product(half.as_ref(), vectors.transpose());
            let rows: Vec<f64> =
                (0..d).flat_map(|i| (0..d).map(|j| (a[(i, j)] + a[(j, i)]) / 2.0).collect::<Vec<_>>()).collect();
            Metric::matrix(&rows, d)?
        }
    }))
}

/// Computes the standard deviation over folds of each input's fraction of tr M, where M averages
/// the gradients of the function of `round` over the rows of one fold. `None` if fewer than two
/// folds have rows, or if a fold's gradients are 0.
///
/// *Cost*: one gradient per row. *Bytes*: a copy of the rows of a fold.
pub(super) fn spread<T: Real>(rows: &Rows<'_, T>, round: &Round<T>) -> Result<Option<Vec<f64>>> {
    let mut shares: Vec<Vec<f64>> = Vec::new();
    for fold in 0..rows.folds.count() {
        let part = of_fold(rows, fold)?;
        if part.is_empty() {
            continue;
        }
        let products = Rows { source: &part, n: part.len() as u64, ..*rows }.products(round)?;
        let trace: f64 = (0..products.nrows()).map(|j| products[(j, j)]).sum();
        if !(trace.is_finite() && trace > 0.0) {
            return Ok(None);
        }
        shares.push((0..products.nrows()).map(|j| products[(j, j)] / trace).collect());
    }
    Ok(deviations(&shares))
}

/// Returns the rows of a fold, with their weights.
fn of_fold<T: Real>(rows: &Rows<'_, T>, fold: usize) -> Result<MemoryRows<T>> {
    let shape = rows.source.shape();
    let (mut x, mut weights) = (Vec::new(), Vec::new());
    rows.each_fold(|block, i, of| {
        if of == fold {
            x.extend_from_slice(&block.x[i * shape.features..(i + 1) * shape.features]);
            weights.push(block.weight(i).unwrap_or(1.0));
        }
    })?;
    Ok(MemoryRows::new(x, shape.features)?.with_weights(Some(weights))?)
}

/// Returns the sample standard deviation of each column; `None` for fewer than two rows.
fn deviations(rows: &[Vec<f64>]) -> Option<Vec<f64>> {
    let n = rows.len() as f64;
    let deviation = |j: usize| {
        let mean = rows.iter().map(|row| row[j]).sum::<f64>() / n;
        (rows.iter().map(|row| (row[j] - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt()
    };
    (rows.len() > 1).then(|| (0..rows[0].len()).map(deviation).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_those_of_a_sample() {
        assert_eq!(deviations(&[vec![1.0]]), None);
        assert_eq!(deviations(&[vec![1.0, 5.0], vec![3.0, 5.0]]), Some(vec![2f64.sqrt(), 0.0]));
    }
}
