//! Metric learning: on a sample, then on all rows.

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
use kapprox::{Kernel, Real};
use kstore::key::Purpose;
use kstore::pass::Observer;
use kstore::{MemoryRows, RowSource};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

/// Explained fraction of the variance below which the gradients are too uninformative to start
/// from.
const LITTLE: f64 = 0.2;

/// Minimum number of rows per input for which `learn` also tries a full metric; with fewer rows, a
/// full metric overfits. On fashion-mnist, 5,102 rows x 784, it reduced the cross-validation error
/// by a quarter and raised the error on other rows.
const ROWS_EACH: usize = 8;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct Learned {
    /// The metric; `None` if the unchanged inputs were best.
    #[serde(with = "stored")]
    pub metric: Option<Arc<Metric>>,
    /// The kernel of the best round, with every parameter resolved to a number.
    #[serde(serialize_with = "as_text", deserialize_with = "of_text")]
    pub kernel: Kernel,
    /// The form of the metric: none, given, full, diagonal, low-rank(5).
    pub form: String,
    /// The rounds, in their order.
    pub rounds: Vec<RoundReport>,
    /// The standard deviation, over folds of the sample, of each input's contribution; `None`
    /// without a metric.
    pub spread: Option<Vec<f64>>,
    /// Evaluation on rows that were not used to learn the metric; `None` if there are none.
    pub judged: Option<Judgement>,
    /// Passes over the table.
    pub passes: u64,
}

pub use kmodel::model::Judgement;

#[doc(hidden)]
pub fn as_text<V: Display, S: Serializer>(value: &V, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn of_text<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Kernel, D::Error> {
    Kernel::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// A metric as its numbers with its number of rows, 0 for a diagonal.
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

#[doc(hidden)]
#[expect(missing_debug_implementations, reason = "a function is not debug")]
pub struct MetricRequest<'a, T: Real> {
    /// The scaled rows.
    pub source: &'a dyn RowSource<T>,
    pub survey: &'a Survey,
    pub targets: &'a Targets,
    pub options: &'a TrainOptions,
    pub resources: &'a Resources<'a>,
    /// Returns true if this number of rounds is enough; the best round then wins. Called once after
    /// each round on a sample.
    pub enough: &'a dyn Fn(usize) -> bool,
}

/// How the rounds are fitted and compared.
#[derive(Clone, Copy, Debug)]
pub struct RoundRequest<'a> {
    #[doc(hidden)]
    pub form: MetricForm,
    /// Number of landmarks of the fits.
    pub rank: usize,
    /// The rank of the model. If it is lower than `rank`, errors are compared at this rank.
    pub scored: usize,
    /// The result of rounds at another rank. It is refitted first, and remains the result if no
    /// round is better.
    pub incumbent: Option<&'a Learned>,
    /// True if a round on all rows follows the rounds on the sample.
    pub all_rows: bool,
}

/// Returns the options with the metric resolved (a provided metric is converted to the fit's
/// scaling), and what was learned, if anything.
pub fn settle<T: Real>(request: &MetricRequest<'_, T>) -> Result<(TrainOptions, Option<Learned>)> {
    let options = request.options;
    let of = |metric: Option<Arc<Metric>>| metric.map_or(MetricSource::None, MetricSource::of);
    Ok(match &options.metric {
        MetricSource::Learned(form) => {
            let learned = request.learn(*form)?;
            if learned.metric.is_none() {
                let why = "no metric had a smaller held-out error than the unchanged features: the model has no metric";
                request.resources.stages.warn(why.to_string());
            }
            if let Some(judged) =
                learned.judged.as_ref().filter(|judged| learned.metric.is_some() && !judged.is_better())
            {
                let Judgement { rows, with, without, .. } = judged;
                request.resources.stages.warn(format!(
                    "on {rows} rows that did not train it, the metric has error {with:.4e}, and the unchanged features have {without:.4e}; \
                     use `metric` none or learn"
                ));
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
    /// Learns a metric of this form on a sample in memory and, if the table has more rows, on all
    /// rows.
    fn learn(&self, form: MetricForm) -> Result<Learned> {
        let cut = plan::cut_of::<T>(self.source.shape().features);
        let (n, stage) = (self.survey.rows(), "sampling rows for the metric");
        let rows = (n, plan::sampled(n, self.source.shape().features));
        let (held, drawn) = draw(self.source, rows, self.options.seed, stage, cut, self.resources)?;
        let warning = series::warning(self.source, self.targets, &self.options.folds)?;
        warning.into_iter().for_each(|text| self.resources.stages.warn(text));
        let folds = &plan::options(self.options, plan::RANK).folds;
        let folds = Folds::new(folds, self.options.seed, self.source.range(), &self.survey.groups)?;
        let all_rows = n > held.len() as u64;
        let rounds = RoundRequest { form, rank: plan::RANK, scored: plan::RANK, incumbent: None, all_rows };
        let learned = self.judged((&held, drawn), &folds, rounds)?;
        Ok(Learned { passes: learned.passes + 2, ..learned })
    }

    /// Learns a metric without the rows of one fold, and evaluates it on these rows; the form
    /// `learn` rejects a metric that is not better there. With two folds there is no evaluation,
    /// because the one remaining fold could not compare rounds.
    fn judged(
        &self,
        (held, drawn): (&MemoryRows<T>, RowSample<T>),
        folds: &Folds,
        rounds: RoundRequest<'_>,
    ) -> Result<Learned> {
        let inner = plan::options(self.options, rounds.rank);
        let reading = self.survey.reading();
        let stage = self.resources.stages.stage("evaluating the metric", None);
        let silent = Silent(&*stage);
        let resources = &Resources { journal: None, scratch: None, stages: &silent, ..*self.resources };
        let rows = Rows {
            source: held,
            n: held.len() as u64,
            reading: &reading,
            targets: self.targets,
            folds,
            options: &inner,
            cut: plan::cut_of::<T>(held.shape().features),
            resources,
        };
        let (mut of_rows, mut sizes) = (HashMap::new(), vec![0; folds.count()]);
        rows.each_fold(|block, i, fold| {
            of_rows.insert(block.rows[i], fold);
            sizes[fold] += 1;
        })?;
        let Some(fold) = folds.apart(&sizes) else { return self.learn_on((held, &drawn), folds, rounds) };
        let taught = picked(&drawn, (0..drawn.len()).filter(|i| of_rows.get(&drawn.rows[*i]) != Some(&fold)));
        let learned = self.learn_on((held, &taught), &folds.without(fold), rounds)?;
        let plain = learned.rounds.iter().filter(|round| round.form == "none");
        let plain = plain.min_by(|a, b| a.cv_mse.total_cmp(&b.cv_mse)).map(|round| Kernel::parse(&round.kernel));
        let (Some(plain), Some(metric)) = (plain.transpose()?, &learned.metric) else { return Ok(learned) };
        let rows = Rows { folds: &folds.only(fold), ..rows };
        let (with, without) = (rows.error(Some(metric), &learned.kernel)?, rows.error(None, &plain)?);
        let judged = Judgement { fold, rows: sizes[fold] as u64, with, without };
        Ok(match rounds.form == MetricForm::Best && !judged.is_better() {
            true => Learned { metric: None, kernel: plain, form: "none".to_string(), spread: None, ..learned },
            false => Learned { judged: Some(judged), ..learned },
        })
    }

    /// Learns a metric on a sample, provided twice: `sample_rows` in row order, `sample` in key
    /// order.
    pub fn learn_on(
        &self,
        (held, drawn): (&MemoryRows<T>, &RowSample<T>),
        folds: &Folds,
        rounds: RoundRequest<'_>,
    ) -> Result<Learned> {
        let Self { source, survey, options, resources, .. } = *self;
        let d = source.shape().features;
        let cut = plan::cut_of::<T>(d);
        let RoundRequest { form, rank, scored, incumbent, all_rows } = rounds;
        let inner = TrainOptions { ranks: vec![scored.min(rank)], ..plan::options(options, rank) };
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
            let before = incumbent.map(|found| {
                let form = found.form.parse::<MetricForm>().ok();
                let round = search.fit_kernel(&rows, (form, 0), found.metric.clone(), &found.kernel)?;
                Ok::<_, Error>((round, form))
            });
            let before = before.transpose()?;
            if !search.is_over() {
                search.start(&rows)?;
            }
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
            // the incumbent is compared last, because rounds that start from it find nothing new
            before.into_iter().for_each(|(round, form)| search.keep(round, form, 1.0));
            search.spread(&rows)?
        };
        let passes = if all_rows { search.finish(&all)? } else { 0 };
        let (best, rounds) = search.found();
        let best = best.ok_or(Error::NoCell { precision: T::NAME })?;
        let form = best.form.map_or("none".to_string(), |form| form.to_string());
        let (metric, kernel) = (best.round.metric, best.round.kernel);
        Ok(Learned { metric, kernel, form, rounds, spread, judged: None, passes })
    }
}

/// Draws a uniform sample of `count` of the n rows: the rows in row order with their targets, and
/// the sample in key order. Two passes.
pub fn draw<T: Real>(
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

/// Returns the forms to try. For a kernel on named columns, `learn` tries only the diagonal form.
fn forms(form: MetricForm, (rows, d): (usize, usize), options: &TrainOptions) -> Vec<MetricForm> {
    match form {
        MetricForm::Best if options.kernel.looks_at_columns() || rows < ROWS_EACH * d => vec![MetricForm::Diagonal],
        MetricForm::Best => vec![MetricForm::Full, MetricForm::Diagonal],
        form => vec![form],
    }
}

/// Returns the rows of a sample at these positions.
pub fn picked<T: Real>(sample: &RowSample<T>, places: impl Iterator<Item = usize> + Clone) -> RowSample<T> {
    let d = sample.d;
    let weights = places.clone().filter_map(|i| sample.weights.get(i)).copied().collect();
    let (rows, x): (Vec<u64>, Vec<&[T]>) = places.map(|i| (sample.rows[i], &sample.x[i * d..(i + 1) * d])).unzip();
    RowSample { rows, x: x.concat(), d, weights }
}

/// Stages of the fits on the sample that are not shown, but forward the stop signal.
pub(super) struct Silent<'a>(pub(super) &'a dyn Observer);

impl Stages for Silent<'_> {
    fn stage<'a>(&'a self, _: &str, _: Option<u64>) -> Box<dyn Observer + 'a> {
        Box::new(Quiet(self.0))
    }
    fn warn(&self, _: String) {}
}
