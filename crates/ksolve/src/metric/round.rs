//! A round: a fit of kernel ridge regression through a metric, its held-out error, and the gradients of its function.

use super::gradient::{OuterProducts, Products};
use super::plan;
use crate::train::plan::{Cut, GRAM};
use crate::train::{Resources, TrainOptions, landmarks};
use crate::{Error, Folds, Result, RidgeFold, Surface, Targets};
use faer::Mat;
use kapprox::map::Expansion;
use kapprox::metric::{Metric, MetricRows};
use kapprox::{Real, Spec};
use kstore::{Pass, Reading, RowSource};
use std::collections::HashMap;
use std::sync::Arc;

/// The rows that rounds learn from, and how.
pub(super) struct Rows<'a, T: Real> {
    /// The rows, scaled, before the metric.
    pub(super) source: &'a dyn RowSource<T>,
    /// Number of rows.
    pub(super) n: u64,
    pub(super) reading: &'a Reading,
    pub(super) targets: &'a Targets,
    pub(super) folds: &'a Folds,
    pub(super) options: &'a TrainOptions,
    pub(super) cut: Cut,
    pub(super) resources: &'a Resources<'a>,
}

/// A fit through a metric.
pub(super) struct Round<T> {
    /// The metric of the fit; `None` for the features as they are.
    pub(super) metric: Option<Arc<Metric>>,
    /// The kernel of the fit, every parameter a number.
    pub(super) kernel: Spec,
    /// Squared error of the rows that were held out, the least over lambdas.
    pub(super) error: f64,
    /// The function, in the span of landmarks.
    expansion: Expansion<T>,
    /// Passes over the rows.
    pub(super) passes: u64,
}

impl<T: Real> Rows<'_, T> {
    fn through(&self, metric: Option<&Arc<Metric>>) -> MetricRows<&dyn RowSource<T>> {
        MetricRows::new(self.source, metric.cloned())
    }

    /// The targets of some of the rows, t for each, in the order of `wanted`.
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

    /// Fits with a kernel through a metric.
    pub(super) fn fit(&self, metric: Option<Arc<Metric>>, kernel: &Spec) -> Result<Round<T>> {
        let options = TrainOptions { kernel: kernel.clone(), ..self.options.clone() };
        let (source, workers) = (self.through(metric.as_ref()), self.resources.workers);
        let mapped = landmarks::map(&source, self.n, self.reading, &options, self.cut, self.resources)?;
        let observer = self.resources.stages.stage(GRAM, Some(self.n));
        // neither the certificate nor the decisions for classes: each would cost a part of every round
        let fold = RidgeFold::new(&*mapped.map, self.folds, self.targets).with_bin(self.cut.tile).without_certificate();
        let pass = self.cut.pass(self.cut.gram_lanes, self.resources, &*observer);
        let gram = pass.resume(GRAM, &source, &fold)?.0.gram;
        let ridge = plan::ridge(mapped.map.dims().1, self.targets.centre());
        let surface = Surface::compute(&gram, &ridge, workers, &*observer)?;
        drop(observer);
        let none = || Error::NoCell { precision: <T as kstore::Real>::NAME };
        let best = surface.best().ok_or_else(none)?;
        let error = best.cv_mse.filter(|error| error.is_finite()).ok_or_else(none)?;
        let weights = crate::fit(&gram, best.rank, best.lambda, &ridge, workers)?.head.weights;
        let expansion = mapped.map.expand(weights.as_ref(), workers);
        Ok(Round { metric, kernel: mapped.kernel, error, expansion, passes: mapped.passes + 1 })
    }

    /// The average M of the outer products of the gradients of a round's function, with respect to the rows before its metric; d x d.
    pub(super) fn products(&self, round: &Round<T>) -> Result<Mat<f64>> {
        let Expansion::Landmarks { landmarks, coefficients, .. } = &round.expansion else {
            return Err(Error::option("metric", "", "it is learned through landmarks"));
        };
        let source = self.through(round.metric.as_ref());
        let range = source.range();
        let observer = self.resources.stages.stage("gradients", Some(range.end - range.start));
        let wide: Vec<f64> = landmarks.points.iter().map(|value| value.to_f64()).collect();
        let fold = OuterProducts::new(round.kernel.build()?.typed::<f64>(), &wide, coefficients.as_ref());
        let fold = fold.among(self.n, self.options.seed);
        let pass = self.cut.pass(self.cut.gram_lanes, self.resources, &*observer);
        let Products { sums, weight } = pass.resume("gradients", &source, &fold)?.0;
        drop(observer);
        let m = sums * faer::Scale(1.0 / weight);
        Ok(match &round.metric {
            None => m,
            Some(metric) => pulled_back(&m, metric),
        })
    }
}

/// Aᵀ M A: the outer products with respect to x, from those with respect to A x.
fn pulled_back(m: &Mat<f64>, metric: &Metric) -> Mat<f64> {
    let (numbers, d, r) = (metric.numbers(), metric.inputs(), metric.outputs());
    if metric.is_diagonal() {
        return Mat::from_fn(d, d, |i, j| numbers[i] * m[(i, j)] * numbers[j]);
    }
    let a = Mat::from_fn(r, d, |k, j| numbers[k * d + j]);
    let ma = kapprox::decompose::product(m.as_ref(), a.as_ref());
    kapprox::decompose::product(a.transpose(), ma.as_ref())
}
