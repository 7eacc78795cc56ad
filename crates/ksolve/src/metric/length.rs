//! The length scale of a kernel, found from a target: what `auto` stands for.
//!
//! Multiples of the median distance are compared by generalised cross-validation (gcv) of ridge regression on a few landmarks, on a uniform
//! sample of the rows; classes are learned as their codes. The median is a guess from the features alone, and far too long for a wave.
//! (Golub, Heath, Wahba, "Generalized cross-validation as a method for choosing a good ridge parameter", Technometrics 21, 1979.)
//!
//! *Passes over the table*: two, for the sample and for its targets. *Cost*: one small fit for each multiple, on rows and landmarks whose
//! numbers do not grow with the table.

use super::learn::Silent;
use super::plan;
use super::round::Rows;
use crate::prepare::survey::Survey;
use crate::prepare::{candidates, landmarks};
use crate::request::{MEDIAN_ROWS, PassShape, Resources, TrainOptions};
use crate::{Error, Folds, Result, Targets};
use kapprox::landmark::{RowSample, Scan, uniform_sample};
use kapprox::{Real, Spec};
use kstore::key::Purpose;
use kstore::{Fold, RowBlock, RowSource, Workers};
use std::fmt;

/// Multiples of the median that are tried, with their names; of those that are equally good the first is taken.
const MULTIPLES: [(f64, &str); 6] = [
    (1.0, "the median distance"),
    (0.5, "half the median distance"),
    (2.0, "twice the median distance"),
    (0.25, "a quarter of the median distance"),
    (0.125, "an eighth of the median distance"),
    (0.0625, "a sixteenth of the median distance"),
];

/// How a length scale was found.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct LengthReport {
    /// The length, as a multiple of the median distance.
    pub multiple: f64,
    /// Number of rows that it was found on.
    pub rows: u64,
    /// Every multiple that was tried, with its gcv; `None` where its fit could not be scored.
    pub scores: Vec<(f64, Option<f64>)>,
}

impl fmt::Display for LengthReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = MULTIPLES.iter().find(|(multiple, _)| *multiple == self.multiple).map_or("", |(_, name)| name);
        let rows = kstore::shown::count(self.rows);
        match self.scores.iter().any(|(_, score)| score.is_some()) {
            true => write!(f, "{name}, by gcv on {rows} rows"),
            false => write!(f, "{name}: {rows} rows are too few to tell lengths apart"),
        }
    }
}

/// The options with a number for each length of the kernel that is `auto`, and how these were found; those of a kernel without as they are.
pub(crate) fn settle_length<T: Real>(
    source: &dyn RowSource<T>,
    survey: &Survey,
    targets: &Targets,
    options: &TrainOptions,
    cut: PassShape,
    resources: &Resources<'_>,
) -> Result<(TrainOptions, Option<LengthReport>)> {
    if !options.finds_length() {
        return Ok((options.clone(), None));
    }
    let (sample, values) = drawn(source, survey.rows(), targets, options.seed, cut, resources)?;
    let (d, t, n) = (sample.d, targets.count(), sample.len());
    let first = n.min(MEDIAN_ROWS);
    let few = RowSample { rows: sample.rows[..first].to_vec(), x: sample.x[..first * d].to_vec(), d };
    let multiples = MULTIPLES.map(|(multiple, _)| multiple);
    let mut kernels =
        landmarks::settle_lengths(&options.kernel, &few, options.seed, &multiples.map(|multiple| vec![multiple]))?;
    let width = t + usize::from(source.shape().weighted);
    let held = candidates::in_row_order(sample)?.with_targets(values, width)?.weighted(width > t)?;
    let stage = resources.stages.stage("length scale", None);
    let silent = Silent(&*stage);
    let here = Resources { journal: None, scratch: None, stages: &silent, ..*resources };
    let inner = plan::length_options(options, n);
    let rows = Rows {
        source: &held,
        n: n as u64,
        reading: &survey.reading(),
        targets: &Targets::Numeric { centre: vec![0.0; t] },
        folds: &Folds::None,
        options: &inner,
        cut: PassShape { gram_lanes: 1, ..cut },
        resources: &here,
    };
    let scores = kernels.iter().map(|kernel| score(&rows, kernel)).collect::<Result<Vec<_>>>()?;
    let scored = scores.iter().enumerate().filter_map(|(i, score)| Some((i, (*score)?)));
    let best = scored.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(i, _)| i);
    let report =
        LengthReport { multiple: multiples[best], rows: n as u64, scores: multiples.into_iter().zip(scores).collect() };
    Ok((TrainOptions { kernel: kernels.swap_remove(best), ..options.clone() }, Some(report)))
}

/// A uniform sample, the best keys first, and the targets of its rows in the order of these, each row's with its weight where rows have some.
fn drawn<T: Real>(
    source: &dyn RowSource<T>,
    n: u64,
    targets: &Targets,
    seed: u64,
    cut: PassShape,
    resources: &Resources<'_>,
) -> Result<(RowSample<T>, Vec<f64>)> {
    let range = source.range();
    let observer = resources.stages.stage("sampling rows for the length scale", Some(range.end - range.start));
    let data = Scan { source, pass: cut.pass(cut.scan_lanes, resources, &*observer), count: n };
    let sample = uniform_sample(&data, plan::length_rows(n, source.shape().features), Purpose::Candidates, seed)?;
    let mut rows = sample.rows.clone();
    rows.sort_unstable();
    let found = data.pass.resume("targets of the sample", source, &TargetsOf { rows: &rows, targets })?.0;
    Ok((sample, found.0))
}

/// The gcv of the best penalty, on a sample in memory; `None` where there is none: what is wrong with the rows or the kernel the fit itself
/// finds, and tells better.
fn score<T: Real>(rows: &Rows<'_, T>, kernel: &Spec) -> Result<Option<f64>> {
    match rows.gcv(kernel) {
        Err(error) if error.is_interrupted() => Err(error),
        found => Ok(found.ok().flatten()),
    }
}

/// The targets of some rows, whose numbers ascend.
struct TargetsOf<'a> {
    rows: &'a [u64],
    targets: &'a Targets,
}

#[derive(Default)]
struct Values(Vec<f64>);

kstore::summed!(Values { read "values": 0 });

impl<T: Real> Fold<T> for TargetsOf<'_> {
    type State = Values;
    type Scratch = ();
    type Error = Error;

    fn init(&self) -> Values {
        Values::default()
    }
    fn scratch(&self) {}
    fn step(&self, state: &mut Values, (): &mut (), block: &RowBlock<'_, T>, _: &Workers) -> Result<()> {
        for i in (0..block.len()).filter(|i| self.rows.binary_search(&block.rows[*i]).is_ok()) {
            for j in 0..self.targets.count() {
                state.0.push(self.targets.value(block, i, j)?);
            }
            state.0.extend(block.weight(i));
        }
        Ok(())
    }
}
