//! Ranking scores: how well the scores of a model order the rows of each group by grade.

use super::standard_error::RowMean;
use crate::ranking_pairs::{Group, Groups};
use kstore::Workers;

/// Largest grade for which the gain 2^grade − 1 is computed.
const MAX_GRADE: f64 = 30.0;

/// Scores of a ranking. Rows with equal scores count as the mean over all their orders.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct RankingScores {
    /// Number of rows scored.
    pub rows: u64,
    /// Number of groups with rows of different grades; means are over these groups. If there is no
    /// group column, all rows are one group.
    pub groups: u64,
    /// Mean over the groups of the normalised discounted cumulative gain: the sum of (2^grade −
    /// 1)/log₂(1 + place), divided by its value for the best order. Null if a grade is below 0 or
    /// above 30.
    pub ndcg: Option<f64>,
    /// The normalised discounted cumulative gain of the first `top` places only.
    pub ndcg_at: Option<f64>,
    /// Number of places in `ndcg_at`.
    pub top: u64,
    /// Mean over the groups of the average precision, with grades above 0 as relevant; rows with
    /// equal scores share one threshold.
    pub map: Option<f64>,
    /// Mean over the groups of Kendall's tau-b between scores and grades; 0 for groups with equal
    /// scores.
    pub kendall: Option<f64>,
    /// Number of pairs of rows in one group with different grades.
    pub pairs: u64,
    /// Fraction of the pairs that are in the wrong order; pairs with equal scores count half.
    pub wrong_pairs: Option<f64>,
    /// Standard errors of the means over groups.
    #[doc(hidden)]
    pub standard_errors: RankingErrors,
}

/// Standard errors of means over groups; `None` for fewer than two groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct RankingErrors {
    /// Standard error of `ndcg`.
    pub ndcg: Option<f64>,
    /// Standard error of `ndcg_at`.
    pub ndcg_at: Option<f64>,
    /// Standard error of `map`.
    pub map: Option<f64>,
    /// Standard error of `kendall`.
    pub kendall: Option<f64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct RankingRows {
    group_codes: Vec<u32>,
    graded_rows: Vec<GradedRow>,
}

#[derive(Clone, Copy, Debug, Default)]
struct GradedRow {
    score: f64,
    grade: f64,
}

impl RankingRows {
    /// Returns the bytes of n rows and their groups.
    pub(crate) fn bytes(n: usize) -> usize {
        n.saturating_mul(2 * (size_of::<u32>() + 2 * size_of::<f64>())).saturating_add(Groups::bytes(n))
    }

    pub(crate) fn push(&mut self, group: u32, score: f64, grade: f64) {
        self.group_codes.push(group);
        self.graded_rows.push(GradedRow { score, grade });
    }

    pub(crate) fn scores(&self, top: u64, workers: &Workers) -> RankingScores {
        let groups = Groups::new(
            self.graded_rows.len(),
            |_| true,
            |row| self.group_codes[row],
            |row| self.graded_rows[row].grade,
        );
        let rows_by_group = groups.gather(|row| self.graded_rows[row]);
        let scores: Vec<f64> = rows_by_group.iter().map(|row| row.score).collect();
        let grades_have_gain = self.graded_rows.iter().all(|row| (0.0..=MAX_GRADE).contains(&row.grade));
        let (mut ndcg, mut ndcg_at, mut average_precision, mut kendall) =
            <(RowMean, RowMean, RowMean, RowMean)>::default();
        let (mut group_count, mut pair_count, mut wrong_pairs) = (0, 0.0, 0.0);
        for ((group, rows), pair_counts) in
            groups.zip_groups(&rows_by_group).zip(groups.pair_counts_by_group(&scores, workers))
        {
            if pair_counts.pairs == 0.0 {
                continue;
            }
            group_count += 1;
            pair_count += pair_counts.pairs;
            wrong_pairs += pair_counts.discordant + 0.5 * pair_counts.tied;
            let rows_by_score = RowsByScore::new(rows);
            let gain = |top| rows_by_score.normalised_gain(top).filter(|_| grades_have_gain);
            let values = [gain(u64::MAX), gain(top), rows_by_score.average_precision()];
            let means = [&mut ndcg, &mut ndcg_at, &mut average_precision].into_iter().zip(values);
            means.for_each(|(mean, value)| value.into_iter().for_each(|value| mean.push(value, 1.0)));
            let untied_pairs = count_row_pairs(group) - rows_by_score.tied_pairs();
            // tau-b = (concordant − discordant pairs) / √(pairs of different grades · pairs of
            // different scores)
            let tau = (pair_counts.pairs - pair_counts.tied - 2.0 * pair_counts.discordant)
                / (pair_counts.pairs * untied_pairs).sqrt();
            kendall.push(if untied_pairs > 0.0 { tau } else { 0.0 }, 1.0);
        }
        RankingScores {
            rows: self.graded_rows.len() as u64,
            groups: group_count,
            ndcg: ndcg.mean(),
            ndcg_at: ndcg_at.mean(),
            top,
            map: average_precision.mean(),
            kendall: kendall.mean(),
            pairs: pair_count as u64,
            wrong_pairs: (pair_count > 0.0).then(|| wrong_pairs / pair_count),
            standard_errors: RankingErrors {
                ndcg: ndcg.standard_error(),
                ndcg_at: ndcg_at.standard_error(),
                map: average_precision.standard_error(),
                kendall: kendall.standard_error(),
            },
        }
    }
}

fn count_row_pairs(group: Group<'_>) -> f64 {
    let m = group.grades.len() as f64;
    0.5 * m * (m - 1.0)
}

/// The rows of a group, by descending scores.
struct RowsByScore(Vec<GradedRow>);

impl RowsByScore {
    fn new(rows: &[GradedRow]) -> Self {
        let mut rows = rows.to_vec();
        rows.sort_by(|a, b| b.score.total_cmp(&a.score));
        Self(rows)
    }

    /// Returns the runs of rows with equal scores, the highest score first.
    fn tied_runs(&self) -> impl Iterator<Item = &[GradedRow]> {
        self.0.chunk_by(|a, b| a.score == b.score)
    }

    fn tied_pairs(&self) -> f64 {
        self.tied_runs().map(|tied_run| 0.5 * tied_run.len() as f64 * (tied_run.len() as f64 - 1.0)).sum()
    }

    /// Returns the discounted gain of the first `top` places divided by the best possible; `None`
    /// if no row has a gain.
    fn normalised_gain(&self, top: u64) -> Option<f64> {
        let top = usize::try_from(top).unwrap_or(usize::MAX).min(self.0.len());
        let gain = |grade: f64| grade.exp2() - 1.0;
        let discount = |position: usize| 1.0 / (position as f64 + 2.0).log2();
        let (mut first_place, mut gain_sum) = (0, 0.0);
        for run in self.tied_runs() {
            let mean_gain = run.iter().map(|row| gain(row.grade)).sum::<f64>() / run.len() as f64;
            gain_sum += mean_gain * (first_place..(first_place + run.len()).min(top)).map(discount).sum::<f64>();
            first_place += run.len();
        }
        let mut grades: Vec<f64> = self.0.iter().map(|row| row.grade).collect();
        grades.sort_by(|a, b| b.total_cmp(a));
        let best_gain: f64 =
            grades[..top].iter().enumerate().map(|(position, grade)| gain(*grade) * discount(position)).sum();
        (best_gain > 0.0).then(|| gain_sum / best_gain)
    }

    /// Returns the mean precision at the rows with a grade above 0; `None` without such
    /// rows.
    fn average_precision(&self) -> Option<f64> {
        let (mut visited_row_count, mut relevant_hits, mut precision_sum) = (0.0, 0.0, 0.0);
        for run in self.tied_runs() {
            let relevant_count = run.iter().filter(|row| row.grade > 0.0).count() as f64;
            (visited_row_count, relevant_hits) = (visited_row_count + run.len() as f64, relevant_hits + relevant_count);
            precision_sum += relevant_count * relevant_hits / visited_row_count;
        }
        (relevant_hits > 0.0).then(|| precision_sum / relevant_hits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden values of scikit-learn 1.9 (`ndcg_score` of 2^grade − 1, `average_precision_score`)
    /// and SciPy 1.17 (`kendalltau`).
    #[test]
    fn scores_equal_scikit_learn_and_scipy() {
        let first = [(0.1, 3.0), (0.9, 2.0), (0.4, 0.0), (0.4, 1.0), (-0.5, 0.0), (0.4, 2.0)];
        let second = [(2.0, 1.0), (1.0, 0.0), (3.0, 0.0), (2.5, 4.0)];
        let even = [(0.3, 1.0), (0.7, 1.0)];
        let mut rows = RankingRows::default();
        for (group, members) in [(7, &first[..]), (2, &second[..]), (4, &even[..])] {
            members.iter().for_each(|(score, grade)| rows.push(group, *score, *grade));
        }
        let got = rows.scores(3, &Workers::sequential());
        assert_eq!((got.rows, got.groups, got.top), (12, 2, 3));
        let near =
            |got: Option<f64>, expected: f64| assert!((got.unwrap() - expected).abs() < 1e-12, "{got:?} {expected}");
        near(got.ndcg, 0.6785967151155354);
        near(got.ndcg_at, 0.5356019596756512);
        near(got.map, 0.7041666666666666);
        near(got.kendall, 0.17135116982007126);
        // 7 of the 18 pairs are wrong, one is tied
        assert_eq!(got.pairs, 18);
        near(got.wrong_pairs, 7.5 / 18.0);
    }

    #[test]
    fn undefined_scores_are_null() {
        let mut rows = RankingRows::default();
        assert_eq!(rows.scores(10, &Workers::sequential()).wrong_pairs, None);
        rows.push(0, 1.0, -1.0);
        rows.push(0, 1.0, -2.0);
        let got = rows.scores(10, &Workers::sequential());
        let expected = RankingScores {
            rows: 2,
            groups: 1,
            top: 10,
            kendall: Some(0.0),
            pairs: 1,
            wrong_pairs: Some(0.5),
            ..RankingScores::default()
        };
        assert_eq!(got, expected);
    }
}
