//! The `auto` length scale of a kernel, determined from a target.
//!
//! A uniform sample of the rows is fitted by ridge regression with few landmarks, for several
//! multiples of the median distance as the length scale. The multiples are compared by generalised
//! cross-validation (gcv). If the target is a class, its codes are the targets of the regression.
//! The target matters, because the median distance depends on the inputs only, and is far too long
//! for periodic targets. (Golub, Heath, Wahba, "Generalized cross-validation as a method for
//! choosing a good ridge parameter", Technometrics 21, 1979.)
//!
//! *Passes over the table*: one. *Cost*: one small fit for each multiple; the numbers of rows and
//! landmarks of these fits do not grow with the table.

use super::learn::SilentStages;
use super::round::RoundData;
use super::settings;
use crate::prepare::{candidates, map_builder, reduction_fn::ReductionFn, survey::Survey};
use crate::request::{PassShape, Resources, TrainOptions};
use crate::{Folds, Result, Targets};
use kapprox::landmark::RowSample;
use kapprox::{Kernel, Real};
use kstore::key::{Purpose, Stream};
use kstore::{RowBlock, RowSource};
use std::fmt;

/// The multiples of the median distance that are tried, with their names. Larger multiples are
/// excluded: a sample of a thousand rows prefers them (on bike, elevators and friedman1), but in
/// fits of all rows they did not reduce the error. They increased it for solvers that use one
/// regularisation parameter for all length scales.
const MULTIPLES: [(f64, &str); 5] = [
    (1.0, "the median distance"),
    (0.5, "half the median distance"),
    (0.25, "a quarter of the median distance"),
    (0.125, "an eighth of the median distance"),
    (0.0625, "a sixteenth of the median distance"),
];

/// Another multiple replaces the median distance only if its gcv is below this fraction of the gcv
/// at the median distance. On a thousand rows, a smaller improvement may be chance.
const MAX_GCV_RATIO: f64 = 0.99;

/// How a length scale was determined.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct LengthScaleReport {
    /// The length scale, as a multiple of the median distance.
    pub multiple: f64,
    /// Number of rows of the sample.
    pub rows: u64,
    /// Each multiple with its gcv; `None` if its fit has no gcv.
    pub scores: Vec<(f64, Option<f64>)>,
}

impl fmt::Display for LengthScaleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = MULTIPLES.iter().find(|(multiple, _)| *multiple == self.multiple).map_or("", |(_, name)| name);
        let rows = kstore::display::format_count(self.rows);
        match self.scores.iter().any(|(_, score)| score.is_some()) {
            true => write!(f, "{name}, by gcv on {rows} rows"),
            false => write!(f, "{name}: {rows} rows are too few to compare length scales"),
        }
    }
}

/// Resolves each `auto` length scale of the kernel to a number, and returns the options and a
/// report. If the kernel has no `auto` length scale, returns unchanged options and no report.
pub(crate) fn resolve_length_scale<T: Real>(
    source: &dyn RowSource<T>,
    survey: &Survey,
    targets: &Targets,
    options: &TrainOptions,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> Result<(TrainOptions, Option<LengthScaleReport>)> {
    if !options.searches_length_scale() {
        return Ok((options.clone(), None));
    }
    let (sample, target_values) = draw_rows(source, survey.row_count(), targets, options.seed, pass_shape, resources)?;
    let (t, n) = (targets.count(), sample.len());
    let weight = source.shape().has_weights.then(|| sample.weights.clone());
    let multiples = MULTIPLES.map(|(multiple, _)| multiple);
    let factors = multiples.map(|multiple| vec![multiple]);
    let mut kernels = map_builder::resolve_length_scales(&options.kernel, &sample, options.seed, &factors)?;
    let sample_rows = candidates::sort_by_row_number(sample)?.with_targets(target_values, t)?.with_weights(weight)?;
    let stage = resources.stage_observer.start_stage("length scale", None);
    let silent = SilentStages(&*stage);
    let silent_resources = Resources { journal: None, scratch: None, stage_observer: &silent, ..*resources };
    let fit_options = settings::length_scale_options(options, n);
    let round_data = RoundData {
        source: &sample_rows,
        n: n as u64,
        read_settings: &survey.read_settings(),
        targets: &Targets::Numeric { centre: vec![0.0; t] },
        folds: &Folds::None,
        options: &fit_options,
        pass_shape: PassShape { gram_lanes: 1, ..pass_shape },
        resources: &silent_resources,
    };
    let scores = kernels.iter().map(|kernel| gcv_score(&round_data, kernel)).collect::<Result<Vec<_>>>()?;
    let scores: Vec<_> = multiples.into_iter().zip(scores).collect();
    let best_index = best_multiple(&scores);
    let report = LengthScaleReport { multiple: multiples[best_index], rows: n as u64, scores };
    Ok((TrainOptions { kernel: kernels.swap_remove(best_index), ..options.clone() }, Some(report)))
}

/// Returns the index of the multiple with the smallest gcv. If the improvement over the median
/// distance is too small, returns the index of the median distance.
fn best_multiple(scores: &[(f64, Option<f64>)]) -> usize {
    let scored = scores.iter().enumerate().filter_map(|(i, (_, score))| Some((i, (*score)?)));
    let smallest = scored.min_by(|a, b| a.1.total_cmp(&b.1));
    smallest.filter(|(_, gcv)| scores[0].1.is_none_or(|median| *gcv < MAX_GCV_RATIO * median)).map_or(0, |(i, _)| i)
}

/// Draws a uniform sample of about [`settings::length_scale_rows`] rows, with their targets.
fn draw_rows<T: Real>(
    source: &dyn RowSource<T>,
    n: u64,
    targets: &Targets,
    seed: u64,
    pass_shape: PassShape,
    resources: &Resources<'_>,
) -> Result<(RowSample<T>, Vec<f64>)> {
    let d = source.shape().input_count;
    let observer = resources.start_stage_over("sampling rows for the length scale", source.range());
    let probability = settings::length_scale_rows(n, d) as f64 / n.max(1) as f64;
    let stream = Stream::new(seed, Purpose::Candidates, 0);
    // each row is selected with this probability
    let reduction = ReductionFn::new(|sample: &mut SampledRows<T>, block: &RowBlock<'_, T>| {
        for i in (0..block.len()).filter(|i| stream.uniform(block.row_numbers[*i]) >= 1.0 - probability) {
            sample.row_numbers.push(block.row_numbers[i]);
            sample.x.extend_from_slice(&block.x[i * d..(i + 1) * d]);
            targets.append_to(block, i, &mut sample.y)?;
            sample.weights.extend(block.weight(i));
        }
        Ok(())
    });
    let pass = pass_shape.pass(pass_shape.scan_lanes, resources, &*observer);
    let SampledRows { row_numbers, x, y, weights } = pass.resume("rows for the length scale", source, &reduction)?.0;
    Ok((RowSample { row_numbers, x, d, weights }, y))
}

/// Returns the gcv of the best regularisation parameter on the sample. An error gives `None`: if
/// rows or kernel are invalid, the fit that follows reports it with more context.
fn gcv_score<T: Real>(data: &RoundData<'_, T>, kernel: &Kernel) -> Result<Option<f64>> {
    match data.smallest_gcv(kernel) {
        Err(error) if error.is_interrupted() => Err(error),
        result => Ok(result.ok().flatten()),
    }
}

#[derive(Default)]
struct SampledRows<T> {
    row_numbers: Vec<u64>,
    x: Vec<T>,
    y: Vec<f64>,
    weights: Vec<f64>,
}

kstore::summed!(where [T: Real] SampledRows<T> { read "rows": row_numbers, read "x": x, read "y": y, read "weights": weights });

#[cfg(test)]
mod tests {
    use super::best_multiple;

    #[test]
    fn the_median_stays_where_another_length_is_hardly_better() {
        assert_eq!(best_multiple(&[(1.0, Some(0.28)), (0.5, Some(0.25)), (0.25, Some(0.3)), (0.125, None)]), 1);
        assert_eq!(best_multiple(&[(1.0, Some(0.28)), (0.5, Some(0.279))]), 0);
        assert_eq!(
            (best_multiple(&[(1.0, None), (0.5, Some(0.3))]), best_multiple(&[(1.0, None), (0.5, None)])),
            (1, 0)
        );
    }
}
