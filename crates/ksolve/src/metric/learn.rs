//! Metric learning: first on a sample of the rows, then on all rows.

use super::LikelihoodReport;
use super::round::RoundData;
use super::round_search::{LengthScales, MetricSearch, RoundReport};
use super::{series, settings};
use crate::features::StopOnlyObserver;
use crate::prepare::survey::Survey;
use crate::prepare::{candidates, map_builder};
use crate::request::{MetricForm, MetricSource, NoStageObserver, PassShape, Resources, StageObserver, TrainOptions};
use crate::{Error, Folds, Result, Targets};
use faer::Mat;
use kapprox::landmark::{RowSample, TableScan, uniform_sample};
use kapprox::metric::Metric;
use kapprox::{Kernel, Real};
use kmodel::likelihood;
use kstore::key::Purpose;
use kstore::pass::Observer;
use kstore::{MemoryRows, RowSource};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

/// If the best fit without a metric explains a smaller fraction of the variance than this, its
/// gradients are not informative enough to start from.
const MIN_EXPLAINED_FOR_GRADIENTS: f64 = 0.2;

/// Minimum number of rows per input for which the form `learn` also tries a full metric. With fewer
/// rows a full metric overfits: on fashion-mnist (5,102 rows x 784) it reduced the cross-validation
/// error by a quarter and raised the error on other rows.
const MIN_ROWS_PER_INPUT: usize = 8;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
#[non_exhaustive]
pub struct LearnedMetric {
    /// The metric; `None` if the unchanged inputs were best.
    #[serde(with = "row_major")]
    pub metric: Option<Arc<Metric>>,
    /// The kernel of the best round, with every parameter resolved to a number.
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub kernel: Kernel,
    /// The form of the metric: none, given, full, diagonal, or low-rank(r) with the number r.
    pub form: String,
    /// The rounds, in their order.
    pub rounds: Vec<RoundReport>,
    /// For each input, the standard deviation of its contribution (its fraction of tr M) between
    /// the folds of the sample; `None` without a metric.
    pub spread: Option<Vec<f64>>,
    /// Evaluation on rows that were not used to learn the metric; `None` if all rows were used.
    #[serde(rename = "judged")]
    pub test_errors: Option<MetricTestErrors>,
    /// The marginal likelihood of the kernel; `None` if the kernel was not learned by likelihood.
    pub likelihood: Option<LikelihoodReport>,
    /// Passes over the table.
    pub passes: u64,
}

pub use kmodel::model::MetricTestErrors;

#[doc(hidden)]
pub(crate) fn as_text<V: Display, S: Serializer>(value: &V, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn from_text<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Kernel, D::Error> {
    Kernel::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Stores a metric as its numbers and its number of matrix rows. For a diagonal metric the number
/// of matrix rows is stored as 0.
mod row_major {
    use super::{Arc, Metric};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(metric: &Option<Arc<Metric>>, serializer: S) -> Result<S::Ok, S::Error> {
        let matrix_rows = |metric: &Metric| if metric.is_diagonal() { 0 } else { metric.output_count() };
        metric.as_ref().map(|metric| (matrix_rows(metric), metric.to_row_major())).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, S: Deserializer<'de>>(from: S) -> Result<Option<Arc<Metric>>, S::Error> {
        let metric = Option::<(usize, Vec<f64>)>::deserialize(from)?.map(|(rows, numbers)| match rows {
            0 => Metric::diagonal(numbers),
            r => Metric::matrix(&numbers, r),
        });
        Ok(metric.transpose().map_err(S::Error::custom)?.map(Arc::new))
    }
}

/// The rows, targets and options from which a metric is learned.
pub(crate) struct MetricRequest<'a, T: Real> {
    /// The scaled rows.
    pub source: &'a dyn RowSource<T>,
    pub survey: &'a Survey,
    pub targets: &'a Targets,
    pub options: &'a TrainOptions,
    pub resources: &'a Resources<'a>,
    /// Returns true if this number of rounds is enough. The search then stops, and its best round
    /// wins. This function is called exactly once after each round on a sample.
    pub is_enough: &'a dyn Fn(usize) -> bool,
}

/// How the rounds are fitted and compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundRequest<'a> {
    pub form: MetricForm,
    /// Number of landmarks of the fits.
    pub rank: usize,
    /// The rank of the model. If it is lower than `rank`, the rounds are compared by their errors
    /// at the rank of the model.
    pub scored_rank: usize,
    /// The result of earlier rounds at another rank. It is refitted at `rank`, and remains the
    /// result if no new round is better.
    pub incumbent: Option<&'a LearnedMetric>,
    /// True if a round on all rows follows the rounds on the sample.
    pub refits_on_all_rows: bool,
}

/// Returns the options with the metric resolved: a provided metric is converted to the scaling of
/// this fit. Also returns the learned metric, or `None` if no metric was learned.
pub(crate) fn resolve_metric<T: Real>(request: &MetricRequest<'_, T>) -> Result<(TrainOptions, Option<LearnedMetric>)> {
    let options = request.options;
    let to_source = |metric: Option<Arc<Metric>>| metric.map_or(MetricSource::None, MetricSource::from_metric);
    Ok(match &options.metric {
        MetricSource::Learned(MetricForm::Likelihood) => {
            let learned = request.learn_kernel_sum()?;
            let (kernel, noise) =
                (learned.kernel.clone(), learned.likelihood.as_ref().map(|found| found.regularisation));
            (
                TrainOptions { metric: MetricSource::None, kernel, relative_noise: noise, ..options.clone() },
                Some(learned),
            )
        }
        MetricSource::Learned(form) => {
            let learned = request.learn(*form)?;
            if learned.metric.is_none() {
                let why = "no metric had a smaller held-out error than the unchanged features: the model has no metric";
                request.resources.stage_observer.warn(why.to_string());
            }
            let test_errors = learned.test_errors.as_ref().filter(|_| learned.metric.is_some());
            if let Some(test_errors) = test_errors.filter(|errors| !errors.is_better()) {
                let MetricTestErrors {
                    rows, error_with_metric: metric_error, error_without_metric: plain_error, ..
                } = test_errors;
                request.resources.stage_observer.warn(format!(
                    "on {rows} rows that did not train it, the metric has error {metric_error:.4e}, and the unchanged features have {plain_error:.4e}; \
                     use `metric` none or learn"
                ));
            }
            let (metric, kernel) = (to_source(learned.metric.clone()), learned.kernel.clone());
            (TrainOptions { metric, kernel, ..options.clone() }, Some(learned))
        }
        resolved => {
            let metric = to_source(resolved.provided_for(&request.survey.scaler)?);
            (TrainOptions { metric, ..options.clone() }, None)
        }
    })
}

impl<T: Real> MetricRequest<'_, T> {
    /// Learns a metric of this form on a sample in memory and, if the table has more rows, on all
    /// rows.
    fn learn(&self, form: MetricForm) -> Result<LearnedMetric> {
        let pass_shape = settings::pass_shape_of::<T>(self.source.shape().input_count);
        let (n, stage_name) = (self.survey.row_count(), "sampling rows for the metric");
        let sample_size = settings::sample_size(n, self.source.shape().input_count);
        let (sample_rows, sample) =
            draw_sample(self.source, n, sample_size, self.options.seed, stage_name, pass_shape, self.resources)?;
        let warning = series::series_warning(self.source, self.targets, &self.options.folds)?;
        warning.into_iter().for_each(|text| self.resources.stage_observer.warn(text));
        let folds = &settings::round_options(self.options, settings::ROUND_RANK).folds;
        let folds = Folds::new(folds, self.options.seed, self.source.range(), &self.survey.group_labels)?;
        let has_more_rows = n > sample_rows.len() as u64;
        let round_request = RoundRequest {
            form,
            rank: settings::ROUND_RANK,
            scored_rank: settings::ROUND_RANK,
            incumbent: None,
            refits_on_all_rows: has_more_rows,
        };
        let learned = self.learn_and_test(&sample_rows, &sample, &folds, round_request)?;
        Ok(LearnedMetric { passes: learned.passes + 2, ..learned })
    }

    /// Learns the weights and the length scales of the kernel by marginal likelihood, on a sample.
    fn learn_kernel_sum(&self) -> Result<LearnedMetric> {
        let Self { source, survey, targets, options, resources, .. } = *self;
        let pass_shape = settings::pass_shape_of::<T>(source.shape().input_count);
        let n = survey.row_count();
        let sample_size = settings::sample_size(n, source.shape().input_count);
        let stage_name = "sampling rows for the likelihood";
        let (sample_rows, sample) =
            draw_sample(source, n, sample_size, options.seed, stage_name, pass_shape, resources)?;
        let stage = resources.stage_observer.start_stage("length scales by likelihood", None);
        let silent = SilentStages(&*stage);
        let resources = &Resources { journal: None, scratch: None, stage_observer: &silent, ..*resources };
        let values = RoundData {
            source: &sample_rows,
            n: sample_rows.len() as u64,
            read_settings: &survey.read_settings(),
            targets,
            folds: &Folds::None,
            options,
            pass_shape,
            resources,
        }
        .targets_of(&sample.row_numbers)?;
        let (n, t) = (sample.len(), targets.count());
        let x = Mat::from_fn(n, sample.d, |i, j| sample.x[i * sample.d + j].to_f64());
        let centre = |j: usize| match targets {
            Targets::Numeric { centre } if options.has_log_link => centre[j],
            _ => 0.0,
        };
        let y = Mat::from_fn(n, t, |i, j| values[i * t + j] + centre(j));
        let kernel = map_builder::resolve_length_scales(&options.kernel, &sample, options.seed, &[vec![1.0]])?;
        let learn = if options.has_log_link { likelihood::learn_with_log_link } else { likelihood::learn };
        let (kernel, likelihood) =
            learn(&kernel[0], x.as_ref(), y.as_ref(), &sample.weights, &*stage, resources.workers)?;
        let form = MetricForm::Likelihood.to_string();
        Ok(LearnedMetric { kernel, form, likelihood, passes: 2, ..LearnedMetric::default() })
    }

    /// Learns a metric without the rows of one fold, and evaluates it on the rows of this fold. If
    /// the form is `learn`, a metric that does not reduce the error on these rows is rejected. If
    /// there are only two folds, the metric is not evaluated, because rounds cannot be compared
    /// within the one remaining fold.
    fn learn_and_test(
        &self,
        sample_rows: &MemoryRows<T>,
        sample: &RowSample<T>,
        folds: &Folds,
        round_request: RoundRequest<'_>,
    ) -> Result<LearnedMetric> {
        let round_options = settings::round_options(self.options, round_request.rank);
        let read_settings = self.survey.read_settings();
        // learning has a stage of its own, and the folds of the sample are counted in no time
        let resources =
            &Resources { journal: None, scratch: None, stage_observer: &NoStageObserver, ..*self.resources };
        let data = RoundData {
            source: sample_rows,
            n: sample_rows.len() as u64,
            read_settings: &read_settings,
            targets: self.targets,
            folds,
            options: &round_options,
            pass_shape: settings::pass_shape_of::<T>(sample_rows.shape().input_count),
            resources,
        };
        let (mut fold_of_row, mut fold_sizes) = (HashMap::new(), vec![0; folds.count()]);
        data.visit_rows(|block, i, fold| {
            fold_of_row.insert(block.row_numbers[i], fold);
            fold_sizes[fold] += 1;
        })?;
        let Some(test_fold) = folds.test_fold(&fold_sizes) else {
            return self.learn_on_sample(sample_rows, sample, folds, round_request);
        };
        let train_sample = select_rows(
            sample,
            (0..sample.len()).filter(|i| fold_of_row.get(&sample.row_numbers[*i]) != Some(&test_fold)),
        );
        let learned =
            self.learn_on_sample(sample_rows, &train_sample, &folds.without_fold(test_fold), round_request)?;
        let plain_rounds = learned.rounds.iter().filter(|round| round.form == "none");
        let plain_kernel =
            plain_rounds.min_by(|a, b| a.cv_mse.total_cmp(&b.cv_mse)).map(|round| Kernel::parse(&round.kernel));
        let (Some(plain_kernel), Some(metric)) = (plain_kernel.transpose()?, &learned.metric) else {
            return Ok(learned);
        };
        let stage = self.resources.stage_observer.start_stage("evaluating the metric", None);
        let silent = SilentStages(&*stage);
        let resources = &Resources { stage_observer: &silent, ..*data.resources };
        let test_data = RoundData { folds: &folds.holding_out(test_fold), resources, ..data };
        let (metric_error, plain_error) =
            (test_data.smallest_error(Some(metric), &learned.kernel)?, test_data.smallest_error(None, &plain_kernel)?);
        let test_errors = MetricTestErrors {
            fold: test_fold,
            rows: fold_sizes[test_fold] as u64,
            error_with_metric: metric_error,
            error_without_metric: plain_error,
        };
        Ok(match round_request.form == MetricForm::DiagonalOrFull && !test_errors.is_better() {
            true => {
                LearnedMetric { metric: None, kernel: plain_kernel, form: "none".to_string(), spread: None, ..learned }
            }
            false => LearnedMetric { test_errors: Some(test_errors), ..learned },
        })
    }

    /// Learns a metric on a sample. The sample is provided in two orders: `sample_rows` in row
    /// order, and `sample` in key order, that is, in the random order of the draw.
    pub(crate) fn learn_on_sample(
        &self,
        sample_rows: &MemoryRows<T>,
        sample: &RowSample<T>,
        folds: &Folds,
        round_request: RoundRequest<'_>,
    ) -> Result<LearnedMetric> {
        let Self { source, survey, options, resources, .. } = *self;
        let d = source.shape().input_count;
        let pass_shape = settings::pass_shape_of::<T>(d);
        let RoundRequest { form, rank, scored_rank, incumbent, refits_on_all_rows } = round_request;
        let round_options =
            TrainOptions { ranks: vec![scored_rank.min(rank)], ..settings::round_options(options, rank) };
        let read_settings = survey.read_settings();
        let full_data = RoundData {
            source,
            n: survey.row_count(),
            read_settings: &read_settings,
            targets: self.targets,
            folds,
            options: &round_options,
            pass_shape,
            resources,
        };
        let length_scales = LengthScales::new(&options.kernel, sample, options.seed)?;
        let mut search = MetricSearch::new(survey.target_variance(), length_scales, self.is_enough)?;
        let spread = {
            let stage = resources.stage_observer.start_stage("learning the metric", None);
            let silent = SilentStages(&*stage);
            let sample_resources = Resources { journal: None, scratch: None, stage_observer: &silent, ..*resources };
            let data = RoundData {
                source: sample_rows,
                n: sample_rows.len() as u64,
                resources: &sample_resources,
                ..full_data
            };
            let incumbent_round = incumbent.map(|previous| {
                let form = previous.form.parse::<MetricForm>().ok();
                let round = search.fit_kernel(&data, form, 0, previous.metric.clone(), &previous.kernel)?;
                Ok::<_, Error>((round, form))
            });
            let incumbent_round = incumbent_round.transpose()?;
            if !search.is_stopped() {
                search.fit_without_metric(&data)?;
            }
            if search.explained_fraction() < MIN_EXPLAINED_FOR_GRADIENTS && !search.is_stopped() {
                search.fit_likelihood_factors(&data, &*stage)?;
            }
            if !search.is_stopped() {
                let (factor, products) = search.best_products(&data)?;
                forms_to_try(form, sample_rows.len(), d, options)
                    .into_iter()
                    .try_for_each(|form| search.run_rounds(&data, form, factor, &products))?;
                search.refine_length_scales(&data)?;
            }
            // the incumbent is compared last, because rounds that started from the incumbent would
            // find nothing new
            incumbent_round.into_iter().for_each(|(round, form)| search.keep_if_better(round, form, 1.0));
            search.importance_spread(&data)?
        };
        let passes = if refits_on_all_rows { search.refit_on_all_rows(&full_data)? } else { 0 };
        let (best, rounds) = search.into_results();
        let best = best.ok_or(Error::NoCell { precision: T::NAME })?;
        let form = best.form.map_or("none".to_string(), |form| form.to_string());
        let (metric, kernel) = (best.round.metric, best.round.kernel);
        Ok(LearnedMetric { metric, kernel, form, rounds, spread, test_errors: None, likelihood: None, passes })
    }
}

/// Draws a uniform sample of `sample_size` of `row_count` rows in two passes. Returns it twice: the
/// rows in row order with their targets, and the sample in key order, that is, in the random order
/// of the draw.
pub(crate) fn draw_sample<T: Real>(
    source: &dyn RowSource<T>,
    row_count: u64,
    sample_size: usize,
    seed: u64,
    stage_name: &str,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> Result<(MemoryRows<T>, RowSample<T>)> {
    let observer = resources.start_stage_over(stage_name, source.range());
    let scan = TableScan { source, pass: pass_shape.pass(pass_shape.scan_lanes, resources, &*observer), row_count };
    let sample = uniform_sample(&scan, sample_size, Purpose::Candidates, seed)?;
    let memory_rows = candidates::sort_by_row_number(sample.clone())?;
    Ok((candidates::with_targets(memory_rows, source, scan.pass)?, sample))
}

/// Returns the forms to try. If the kernel uses named columns, the form `learn` tries only a
/// diagonal metric.
fn forms_to_try(form: MetricForm, rows: usize, d: usize, options: &TrainOptions) -> Vec<MetricForm> {
    match form {
        MetricForm::DiagonalOrFull if options.kernel.restricts_columns() || rows < MIN_ROWS_PER_INPUT * d => {
            vec![MetricForm::Diagonal]
        }
        MetricForm::DiagonalOrFull => vec![MetricForm::Full, MetricForm::Diagonal],
        form => vec![form],
    }
}

/// Returns the rows of a sample at these positions.
pub(crate) fn select_rows<T: Real>(
    sample: &RowSample<T>,
    positions: impl Iterator<Item = usize> + Clone,
) -> RowSample<T> {
    let d = sample.d;
    let weights = positions.clone().filter_map(|i| sample.weights.get(i)).copied().collect();
    let (row_numbers, x): (Vec<u64>, Vec<&[T]>) =
        positions.map(|i| (sample.row_numbers[i], &sample.x[i * d..(i + 1) * d])).unzip();
    RowSample { row_numbers, x: x.concat(), d, weights }
}

/// An observer for the stages of the fits on the sample: it shows nothing, and forwards the stop
/// signal.
pub(super) struct SilentStages<'a>(pub(super) &'a dyn Observer);

impl StageObserver for SilentStages<'_> {
    fn start_stage<'a>(&'a self, _: &str, _: Option<u64>) -> Box<dyn Observer + 'a> {
        Box::new(StopOnlyObserver(self.0))
    }
    fn warn(&self, _: String) {}
}
