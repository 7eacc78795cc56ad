//! The length scale of a kernel, found from a target: what `auto` stands for.
//!
//! Multiples of the median distance are compared by generalised cross-validation (gcv) of ridge regression on a few landmarks, on a uniform
//! sample of the rows; classes are learned as their codes. The median is a guess from the features alone, and far too long for a wave.
//! (Golub, Heath, Wahba, "Generalized cross-validation as a method for choosing a good ridge parameter", Technometrics 21, 1979.)
//!
//! *Passes over the table*: one. *Cost*: one small fit for each multiple, on rows and landmarks whose
//! numbers do not grow with the table.

use super::learn::Silent;
use super::plan;
use super::round::Rows;
use crate::prepare::survey::Survey;
use crate::prepare::{candidates, landmarks};
use crate::request::{PassShape, Resources, TrainOptions};
use crate::{Error, Folds, Result, Targets};
use kapprox::landmark::RowSample;
use kapprox::{Real, Spec};
use kstore::key::{Purpose, Stream};
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

/// The share of its gcv by which another length must be better than the median: less is chance, on a thousand rows.
const BETTER: f64 = 0.99;

/// On bike and elevators half the length that a sample of a thousand preferred was better on 15,000 rows, and had 5 and 10 % more gcv on the
/// sample; on kin40k and pol it was worse, and had 73 and 185 % more.
const LITTLE_MORE: f64 = 1.15;

/// The share of the variance that gcv is below where more rows resolve shorter lengths: noise they do not.
const LITTLE_NOISE: f64 = 0.3;

/// How many times as many rows as the sample a table has that resolves shorter lengths.
const MUCH_LARGER: u64 = 4;

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
    let (t, n) = (targets.count(), sample.len());
    let multiples = MULTIPLES.map(|(multiple, _)| multiple);
    let factors = multiples.map(|multiple| vec![multiple]);
    let mut kernels = landmarks::settle_lengths(&options.kernel, &sample, options.seed, &factors)?;
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
    let variance = scores.iter().flatten().map(|(_, mean)| *mean).next().unwrap_or(0.0);
    let scores: Vec<_> = multiples.into_iter().zip(scores.into_iter().map(|score| Some(score?.0))).collect();
    let best = best(&scores, variance, survey.rows() / n.max(1) as u64);
    let report = LengthReport { multiple: multiples[best], rows: n as u64, scores };
    Ok((TrainOptions { kernel: kernels.swap_remove(best), ..options.clone() }, Some(report)))
}

/// The place of the multiple to take, for targets of this variance and a table of `times` as many rows as the sample.
///
/// It has the least gcv, and the median stays where that is hardly less. Half of it is taken where it has not much more, the rows tell most of the
/// targets, and the table is much larger than the sample: more rows resolve shorter lengths.
fn best(scores: &[(f64, Option<f64>)], variance: f64, times: u64) -> usize {
    let scored = scores.iter().enumerate().filter_map(|(i, (_, score))| Some((i, (*score)?)));
    let Some((best, least)) = scored.clone().min_by(|a, b| a.1.total_cmp(&b.1)) else { return 0 };
    let median = scores[0].1.filter(|median| least > BETTER * median);
    let (best, least) = median.map_or((best, least), |median| (0, median));
    let half = scored.clone().find(|(i, score)| scores[*i].0 == scores[best].0 / 2.0 && *score < LITTLE_MORE * least);
    let resolves = times >= MUCH_LARGER && least < LITTLE_NOISE * variance;
    half.filter(|_| resolves).map_or(best, |(i, _)| i)
}

/// A uniform sample of about `plan::length_rows` rows, and the targets of its rows, each row's with its weight where rows have some.
fn drawn<T: Real>(
    source: &dyn RowSource<T>,
    n: u64,
    targets: &Targets,
    seed: u64,
    cut: PassShape,
    resources: &Resources<'_>,
) -> Result<(RowSample<T>, Vec<f64>)> {
    let (range, d) = (source.range(), source.shape().features);
    let observer = resources.stages.stage("sampling rows for the length scale", Some(range.end - range.start));
    let share = plan::length_rows(n, d) as f64 / n.max(1) as f64;
    let fold = Draw { keys: Stream::new(seed, Purpose::Candidates, 0), share, targets };
    let pass = cut.pass(cut.scan_lanes, resources, &*observer);
    let Drawn { rows, x, y } = pass.resume("rows for the length scale", source, &fold)?.0;
    Ok((RowSample { rows, x, d }, y))
}

/// The gcv of the best penalty and that of the mean, on a sample in memory; `None` where there is none: what is wrong with the rows or the kernel the fit itself
/// finds, and tells better.
fn score<T: Real>(rows: &Rows<'_, T>, kernel: &Spec) -> Result<Option<(f64, f64)>> {
    match rows.gcv(kernel) {
        Err(error) if error.is_interrupted() => Err(error),
        found => Ok(found.ok().flatten()),
    }
}

/// Takes the rows whose uniform numbers are the largest share.
struct Draw<'a> {
    keys: Stream,
    share: f64,
    targets: &'a Targets,
}

struct Drawn<T> {
    rows: Vec<u64>,
    x: Vec<T>,
    y: Vec<f64>,
}

kstore::summed!(where [T: Real] Drawn<T> { read "rows": rows, read "x": x, read "y": y });

impl<T: Real> Fold<T> for Draw<'_> {
    type State = Drawn<T>;
    type Scratch = ();
    type Error = Error;

    fn init(&self) -> Drawn<T> {
        Drawn { rows: Vec::new(), x: Vec::new(), y: Vec::new() }
    }
    fn scratch(&self) {}
    fn step(&self, state: &mut Drawn<T>, (): &mut (), block: &RowBlock<'_, T>, _: &Workers) -> Result<()> {
        let drawn = |i: &usize| self.keys.uniform(block.rows[*i]) >= 1.0 - self.share;
        for i in (0..block.len()).filter(drawn) {
            state.rows.push(block.rows[i]);
            state.x.extend_from_slice(&block.x[i * block.d..(i + 1) * block.d]);
            for j in 0..self.targets.count() {
                state.y.push(self.targets.value(block, i, j)?);
            }
            state.y.extend(block.weight(i));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::best;

    #[test]
    fn half_the_length_is_taken_where_it_costs_little_and_rows_tell_more() {
        let scores = [(1.0, Some(0.28)), (2.0, Some(0.25))];
        assert_eq!(best(&scores, 1.0, 4), 0);
        // a small table, noise, and a half that costs much
        assert_eq!((best(&scores, 1.0, 3), best(&scores, 0.5, 4)), (1, 1));
        assert_eq!(best(&[(1.0, Some(0.4)), (2.0, Some(0.25))], 1.0, 4), 1);
        // hardly better than the median
        assert_eq!(best(&[(1.0, Some(0.28)), (2.0, Some(0.279))], 0.5, 4), 0);
        assert_eq!(best(&[(1.0, None), (2.0, None)], 1.0, 4), 0);
    }
}
