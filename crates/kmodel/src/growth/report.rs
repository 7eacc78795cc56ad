//! The comparison of new rows with the rows of a fit, and the verdict.

use super::{Growth, MovedRange};
use serde::{Deserialize, Serialize};

/// Ratio of odds from which a fit is outgrown.
const OUTGROWN_ODDS_RATIO: f64 = 2.0;
/// Missed fraction below which a fit is not outgrown, whatever the ratio.
const MIN_MISSED: f64 = 0.01;
/// Number of standard errors by which the missed fraction of the new rows is lowered.
const STANDARD_ERRORS: f64 = 3.0;
/// Smallest number of new rows that is judged. The distribution of a mean of fewer rows may differ
/// too much from a normal distribution.
const MIN_ROWS: u64 = 30;
/// Largest probability of the values outside a range that has not moved.
const CHANCE: f64 = 1e-3;
/// Fraction of rows with an unseen value from which a fit is outgrown.
const MAX_UNSEEN: f64 = 0.01;

/// Whether the landmarks of a fit represent new rows as well as the rows of the fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Verdict {
    /// The new rows need other landmarks or another encoding: prepare the fit anew.
    Outgrown,
    /// The new rows are represented about as well as the rows of the fit.
    Fits,
    /// There are too few new rows to decide.
    TooFewRows,
    /// The missed part is not known: the map is not a projection, or the rows of the fit are
    /// missing.
    Unknown,
}

/// The part of the trace of new rows that the landmarks miss, compared with the rows of the fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MissedTrace {
    /// Missed fraction of the new rows: the mean of k(x, x) − ‖φ(x)‖² over the mean of k(x, x).
    pub new_rows: f64,
    /// Standard error of the difference between the two fractions, if the rows have the same
    /// distribution; `None` for fewer than two rows.
    pub standard_error: Option<f64>,
    /// Missed fraction of the rows of the fit, by leave-one-out for the landmarks; `None` if it is
    /// not known.
    pub fit_rows: Option<f64>,
    /// Odds of the missed fraction of the new rows over the odds of the rows of the fit; `None` if
    /// it is not finite.
    pub odds_ratio: Option<f64>,
}

/// The new range of a column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RangeReport {
    /// The column and its ranges.
    #[serde(flatten)]
    pub range: MovedRange,
    /// Number of new rows outside the range of the fit.
    pub rows: u64,
    /// Fraction of the new rows outside the range of the fit.
    pub fraction: f64,
    /// True if this many rows are outside not by chance.
    pub moved: bool,
}

/// A column with values that did not occur in the fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UnseenReport {
    /// Name of the column.
    pub column: String,
    /// Number of new rows with an unseen value.
    pub rows: u64,
    /// Fraction of the new rows with an unseen value.
    pub fraction: f64,
}

/// New rows compared with the rows of the fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GrowthReport {
    /// Number of new rows.
    pub rows: u64,
    /// The missed part; `None` if the map is not a projection.
    pub missed: Option<MissedTrace>,
    /// Columns with new rows outside the range of the fit, the most rows first.
    pub ranges: Vec<RangeReport>,
    /// Columns with unseen values.
    pub unseen: Vec<UnseenReport>,
    /// The verdict.
    pub verdict: Verdict,
    /// The verdict in a sentence.
    pub sentence: String,
}

impl GrowthReport {
    /// Returns true if the fit should be prepared anew.
    pub fn is_outgrown(&self) -> bool {
        self.verdict == Verdict::Outgrown
    }
}

fn odds(fraction: f64) -> f64 {
    fraction / (1.0 - fraction).max(f64::EPSILON)
}

/// Returns an upper bound on the probability that `count` or more of `new` rows lie on one side
/// outside the range of `fit` rows, if all rows are exchangeable.
fn outside_probability(count: u64, new: u64, fit: u64) -> f64 {
    let (mut probability, mut i) = (1.0, 0);
    while i < count && probability > f64::MIN_POSITIVE {
        probability *= new.saturating_sub(i) as f64 / (new + fit - i) as f64;
        i += 1;
    }
    probability
}

impl Growth {
    /// Compares the new rows with the rows of the fit. `remedy` is a command or an action that
    /// prepares the fit anew, for the sentence.
    pub fn report(&self, remedy: &str) -> GrowthReport {
        let fraction = |rows: u64| rows as f64 / self.rows.max(1) as f64;
        let side_count = (2 * self.columns).max(1) as f64;
        let is_moved = |moved: &MovedRange| {
            let probability = |count| outside_probability(count, self.rows, self.fit_rows);
            side_count * probability(moved.below).min(probability(moved.above)) < CHANCE
        };
        let mut ranges: Vec<RangeReport> = self
            .ranges
            .iter()
            .map(|range| {
                let rows = range.below + range.above;
                RangeReport { range: range.clone(), rows, fraction: fraction(rows), moved: is_moved(range) }
            })
            .collect();
        ranges.sort_by(|a, b| b.rows.cmp(&a.rows).then_with(|| a.range.column.cmp(&b.range.column)));
        let unseen: Vec<UnseenReport> = self
            .unseen
            .iter()
            .map(|(column, rows)| UnseenReport { column: column.clone(), rows: *rows, fraction: fraction(*rows) })
            .collect();
        let missed = self.missed_trace();
        let (verdict, sentence) = self.judge(missed.as_ref(), &ranges, &unseen, remedy);
        GrowthReport { rows: self.rows, missed, ranges, unseen, verdict, sentence }
    }

    fn missed_trace(&self) -> Option<MissedTrace> {
        let residuals = self.residuals.filter(|residuals| residuals.rows > 0)?;
        let new_rows = residuals.missed_fraction().clamp(0.0, 1.0);
        let rows_inverse = 1.0 / residuals.rows as f64 + 1.0 / self.fit_rows.max(1) as f64;
        let standard_error = Some(residuals.row_deviation() * rows_inverse.sqrt()).filter(|error| error.is_finite());
        let odds_ratio = self.fit_missed.map(|fit| odds(new_rows) / odds(fit)).filter(|ratio| ratio.is_finite());
        Some(MissedTrace { new_rows, standard_error, fit_rows: self.fit_missed, odds_ratio })
    }

    fn judge(
        &self,
        missed: Option<&MissedTrace>,
        ranges: &[RangeReport],
        unseen: &[UnseenReport],
        remedy: &str,
    ) -> (Verdict, String) {
        let percent = |fraction: f64| format!("{:.2}", 100.0 * fraction);
        if self.rows < MIN_ROWS {
            let why = format!("Fewer than {MIN_ROWS} new rows: too few to decide whether the fit represents them.");
            return (Verdict::TooFewRows, why);
        }
        let n = self.rows as f64;
        let lowered_unseen = |column: &&UnseenReport| {
            column.fraction - STANDARD_ERRORS * (column.fraction * (1.0 - column.fraction) / n).sqrt() > MAX_UNSEEN
        };
        if let Some(column) = unseen.iter().find(lowered_unseen) {
            let (name, rows) = (&column.column, percent(column.fraction));
            let why = format!(
                "The model has outgrown its fit: {rows} % of the new rows have a value of {name} that did not occur in the fit; {remedy}."
            );
            return (Verdict::Outgrown, why);
        }
        let Some((missed, fit)) = missed.and_then(|missed| Some((missed, missed.fit_rows?))) else {
            let why = match missed {
                Some(_) => "The statistics of the rows of the fit are missing, so there is no comparison: merge them.",
                None => "The features do not depend on rows, so no landmarks can become outdated.",
            };
            return (Verdict::Unknown, why.to_string());
        };
        let lowered = missed.new_rows - STANDARD_ERRORS * missed.standard_error.unwrap_or(f64::INFINITY);
        if lowered >= MIN_MISSED && odds(lowered) >= OUTGROWN_ODDS_RATIO * odds(fit) {
            let (new, fit) = (percent(missed.new_rows), percent(fit));
            let why = format!(
                "The model has outgrown its landmarks: they miss {new} % of the trace of the new rows, and {fit} % for the rows of the fit; {remedy}."
            );
            return (Verdict::Outgrown, why);
        }
        let moved_count = ranges.iter().filter(|range| range.moved).count();
        let why = match moved_count {
            0 => "The landmarks represent the new rows about as well as the rows of the fit.".to_string(),
            _ => format!(
                "The landmarks represent the new rows about as well as the rows of the fit, although {} moved.",
                if moved_count == 1 { "a range has".to_string() } else { format!("{moved_count} ranges have") }
            ),
        };
        (Verdict::Fits, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::growth::ResidualSums;

    fn growth(missed: &dyn Fn(usize) -> f64, rows: usize) -> Growth {
        let mut residuals = ResidualSums::default();
        (0..rows).for_each(|i| residuals.add_row(2.0, 2.0 * missed(i)));
        let rows = rows as u64;
        Growth { rows, fit_rows: 1000, fit_missed: Some(0.1), residuals: Some(residuals), ..Growth::default() }
    }

    #[test]
    fn the_standard_error_is_the_deviation_of_the_mean() {
        let growth = growth(&|i| 0.1 + 0.01 * (i % 7) as f64, 700);
        let missed = growth.report("").missed.unwrap();
        assert!((missed.new_rows - 0.13).abs() < 1e-12);
        // variance of 0, …, 6 in hundredths: 4, with the factor n/(n − 1)
        let expected = (4e-4_f64 * 700.0 / 699.0 * (1.0 / 700.0 + 1.0 / 1000.0)).sqrt();
        assert!((missed.standard_error.unwrap() - expected).abs() < 1e-9, "{missed:?} {expected}");
        assert!((missed.odds_ratio.unwrap() - 0.13 / 0.87 * 9.0).abs() < 1e-12);
    }

    /// The odds of the rows of the fit are 1/9, twice as much is a missed fraction of 2/11.
    #[test]
    fn a_fit_is_outgrown_at_twice_the_odds_beyond_three_standard_errors() {
        let verdict = |growth: Growth| growth.report("fit anew").verdict;
        assert_eq!(verdict(growth(&|_| 0.182, 100)), Verdict::Outgrown);
        assert_eq!(verdict(growth(&|_| 0.181, 100)), Verdict::Fits);
        // deviation 0.1: three standard errors of 10,000 rows are about 0.01, of 100 rows 0.03
        let noisy = |i: usize| if i.is_multiple_of(2) { 0.1 } else { 0.3 };
        assert_eq!(verdict(growth(&noisy, 10_000)), Verdict::Outgrown);
        assert_eq!(verdict(growth(&noisy, 100)), Verdict::Fits);
        assert_eq!(verdict(growth(&|_| 0.5, 29)), Verdict::TooFewRows);
        let precise = Growth { fit_missed: Some(1e-6), ..growth(&|_| 0.009, 1000) };
        assert_eq!(verdict(precise), Verdict::Fits, "less than a hundredth");
        let sentence = growth(&|_| 0.5, 100).report("fit anew").sentence;
        assert!(sentence.contains("50.00 %") && sentence.ends_with("fit anew."), "{sentence}");
    }

    #[test]
    fn ranges_move_if_more_rows_are_outside_than_by_chance() {
        // 1 of 2 exchangeable rows is the larger one; both of 2 new rows exceed 1 row once in 3
        // times
        assert!((outside_probability(1, 1, 1) - 0.5).abs() < 1e-15);
        assert!((outside_probability(2, 2, 1) - 1.0 / 3.0).abs() < 1e-15);
        let range = |below, above| MovedRange {
            column: "x".to_string(),
            fit_range: [0.0, 1.0],
            range: [0.0, 2.0],
            below,
            above,
        };
        let moved = |below, above| {
            let growth = Growth { columns: 10, ranges: vec![range(below, above)], ..growth(&|_| 0.1, 1000) };
            growth.report("").ranges[0].moved
        };
        // with as many new rows as rows of the fit, each further row has the probability 1/2: for
        // 20 sides 2^-14.3 is the limit
        assert!(!moved(0, 14) && moved(0, 15) && moved(15, 0));
    }

    #[test]
    fn unseen_values_outgrow_a_fit() {
        let with_unseen = |rows| Growth { unseen: vec![("city".to_string(), rows)], ..growth(&|_| 0.1, 1000) };
        assert_eq!(with_unseen(30).report("").verdict, Verdict::Outgrown);
        assert_eq!(with_unseen(15).report("").verdict, Verdict::Fits, "within three standard errors of 0.01");
    }

    #[test]
    fn growths_merge() {
        let mut merged = growth(&|_| 0.1, 40);
        merged.unseen = vec![("a".to_string(), 1)];
        let mut later = growth(&|_| 0.4, 80);
        later.unseen = vec![("a".to_string(), 2), ("b".to_string(), 3)];
        merged.merge(&later);
        assert_eq!((merged.rows, &merged.unseen), (120, &vec![("a".to_string(), 3), ("b".to_string(), 3)]));
        assert!((merged.residuals.unwrap().missed_fraction() - 0.3).abs() < 1e-12);
    }

    use kstore::Merge;
}
