//! The learning of a metric: on a sample, and then on all rows.

use super::round::Rows;
use super::search::{Lengths, RoundReport, Search};
use super::{plan, series};
use crate::features::Quiet;
use crate::prepare::candidates;
use crate::prepare::survey::Survey;
use crate::request::{MetricForm, MetricSource, PassShape, Resources, Stages, TrainOptions};
use crate::{Error, Folds, Result, Targets};
use kapprox::landmark::{RowSample, Scan, uniform_sample};
use kapprox::metric::Metric;
use kapprox::{Real, Spec};
use kstore::key::Purpose;
use kstore::pass::Observer;
use kstore::{MemoryRows, RowSource};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::Display;
use std::sync::Arc;

/// Share of the variance below which rounds have too little to begin from.
const LITTLE: f64 = 0.2;

/// Rows for each feature from which on `learn` tries a full metric too: of fewer it learns what the targets of these very rows are. On fashion-mnist,
/// 5,102 rows x 784, the error by folds was a quarter less with one, and that of other rows more.
const ROWS_EACH: usize = 8;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Learned {
    /// The metric; `None` where none was better than the features as they are.
    #[serde(with = "stored")]
    pub metric: Option<Arc<Metric>>,
    /// The kernel of the best round, every parameter a number.
    #[serde(serialize_with = "as_text", deserialize_with = "of_text")]
    pub kernel: Spec,
    /// The form of the metric: none, given, full, diagonal, low-rank(5).
    pub form: String,
    /// The rounds, in their order.
    pub rounds: Vec<RoundReport>,
    /// The deviation of each feature's share over folds of the sample; `None` without a metric.
    pub spread: Option<Vec<f64>>,
    /// Passes over the table.
    pub passes: u64,
}

pub(crate) fn as_text<V: Display, S: Serializer>(value: &V, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn of_text<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Spec, D::Error> {
    Spec::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// A metric as its numbers with the number of its rows, 0 for a diagonal.
mod stored {
    use super::{Arc, Metric};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(metric: &Option<Arc<Metric>>, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = |metric: &Metric| if metric.is_diagonal() { 0 } else { metric.outputs() };
        metric.as_ref().map(|metric| (rows(metric), metric.numbers())).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, S: Deserializer<'de>>(from: S) -> Result<Option<Arc<Metric>>, S::Error> {
        let metric = Option::<(usize, Vec<f64>)>::deserialize(from)?.map(|(rows, numbers)| match rows {
            0 => Metric::diagonal(numbers),
            r => Metric::matrix(&numbers, r),
        });
        Ok(metric.transpose().map_err(S::Error::custom)?.map(Arc::new))
    }
}

pub(crate) struct MetricRequest<'a, T: Real> {
    /// The rows, scaled.
    pub(crate) source: &'a dyn RowSource<T>,
    pub(crate) survey: &'a Survey,
    pub(crate) targets: &'a Targets,
    pub(crate) options: &'a TrainOptions,
    pub(crate) resources: &'a Resources<'a>,
    /// True where so many rounds are enough: the best of them wins. Asked once after each round on a sample.
    pub(crate) enough: &'a dyn Fn(usize) -> bool,
}

/// The options with the metric known: given for the divisors of the fit, or learned from its rows; and how it was learned.
pub(crate) fn settle<T: Real>(request: &MetricRequest<'_, T>) -> Result<(TrainOptions, Option<Learned>)> {
    let options = request.options;
    let of = |metric: Option<Arc<Metric>>| metric.map_or(MetricSource::None, MetricSource::of);
    Ok(match &options.metric {
        MetricSource::Learned(form) => {
            let learned = request.learn(*form)?;
            if learned.metric.is_none() {
                let why = "no metric was better on held-out rows than the features as they are: the model has none";
                request.resources.stages.warn(why.to_string());
            }
            let (metric, kernel) = (of(learned.metric.clone()), learned.kernel.clone());
            (TrainOptions { metric, kernel, ..options.clone() }, Some(learned))
        }
        known => {
            let metric = of(known.known_for(&request.survey.scaler)?);
            (TrainOptions { metric, ..options.clone() }, None)
        }
    })
}

impl<T: Real> MetricRequest<'_, T> {
    /// Learns a metric of the form on a sample that is in memory, where the table has more rows on all of them too.
    fn learn(&self, form: MetricForm) -> Result<Learned> {
        let cut = plan::cut_of::<T>(self.source.shape().features);
        let (n, stage) = (self.survey.rows(), "sampling rows for the metric");
        let rows = (n, plan::sampled(n, self.source.shape().features));
        let (held, drawn) = draw(self.source, rows, self.options.seed, stage, cut, self.resources)?;
        let warning = series::warning(self.source, self.targets, &self.options.folds)?;
        warning.into_iter().for_each(|text| self.resources.stages.warn(text));
        let folds = &plan::options(self.options, plan::RANK).folds;
        let folds = Folds::new(folds, self.options.seed, self.source.range(), &self.survey.groups)?;
        let learned = self.learn_on((&held, &drawn), &folds, (form, plan::RANK), n > held.len() as u64)?;
        Ok(Learned { passes: learned.passes + 2, ..learned })
    }

    /// Learns a metric of the form on a sample, the rows in their order and the best keys first; by fits of a rank; and with `all_rows`
    /// on these too.
    pub(crate) fn learn_on(
        &self,
        (held, drawn): (&MemoryRows<T>, &RowSample<T>),
        folds: &Folds,
        (form, rank): (MetricForm, usize),
        all_rows: bool,
    ) -> Result<Learned> {
        let Self { source, survey, options, resources, .. } = *self;
        let d = source.shape().features;
        let cut = plan::cut_of::<T>(d);
        let inner = plan::options(options, rank);
        let reading = survey.reading();
        let all = Rows {
            source,
            n: survey.rows(),
            reading: &reading,
            targets: self.targets,
            folds,
            options: &inner,
            cut,
            resources,
        };
        let lengths = Lengths::new(&options.kernel, drawn, options.seed)?;
        let mut search = Search::new(survey.variance(), lengths, self.enough)?;
        let spread = {
            let stage = resources.stages.stage("learning the metric", None);
            let silent = Silent(&*stage);
            let here = Resources { journal: None, scratch: None, stages: &silent, ..*resources };
            let rows = Rows { source: held, n: held.len() as u64, resources: &here, ..all };
            search.start(&rows)?;
            if search.explained() < LITTLE && !search.is_over() {
                search.lengths(&rows, &*stage)?;
            }
            if !search.is_over() {
                let (factor, products) = search.products(&rows)?;
                forms(form, (held.len(), d), options)
                    .into_iter()
                    .try_for_each(|form| search.descend(&rows, form, factor, &products))?;
                search.stretch(&rows)?;
            }
            search.spread(&rows)?
        };
        let passes = if all_rows { search.finish(&all)? } else { 0 };
        let (best, rounds) = search.found();
        let best = best.ok_or(Error::NoCell { precision: T::NAME })?;
        let form = best.form.map_or("none".to_string(), |form| form.to_string());
        Ok(Learned { metric: best.round.metric, kernel: best.round.kernel, form, rounds, spread, passes })
    }
}

/// A uniform sample of `count` of the n rows: the rows in their order, with their targets, and the best keys first. Two passes.
pub(crate) fn draw<T: Real>(
    source: &dyn RowSource<T>,
    (n, count): (u64, usize),
    seed: u64,
    stage: &str,
    cut: PassShape,
    resources: &Resources<'_>,
) -> Result<(MemoryRows<T>, RowSample<T>)> {
    let observer = resources.over(stage, source.range());
    let data = Scan { source, pass: cut.pass(cut.scan_lanes, resources, &*observer), count: n };
    let sample = uniform_sample(&data, count, Purpose::Candidates, seed)?;
    let rows = candidates::in_row_order(sample.clone())?;
    Ok((candidates::with_targets(rows, source, data.pass)?, sample))
}

/// The forms that are tried. A kernel that looks at some columns by their names needs features that stay what they are.
fn forms(form: MetricForm, (rows, d): (usize, usize), options: &TrainOptions) -> Vec<MetricForm> {
    match form {
        MetricForm::Best if options.kernel.looks_at_columns() || rows < ROWS_EACH * d => vec![MetricForm::Diagonal],
        MetricForm::Best => vec![MetricForm::Full, MetricForm::Diagonal],
        form => vec![form],
    }
}

/// An observer of the fits on the sample, which shows none of them and hears the wish for a stop.
pub(super) struct Silent<'a>(pub(super) &'a dyn Observer);

impl Stages for Silent<'_> {
    fn stage<'a>(&'a self, _: &str, _: Option<u64>) -> Box<dyn Observer + 'a> {
        Box::new(Quiet(self.0))
    }
    fn warn(&self, _: String) {}
}
