//! Rows in groups with grades, and the pairs of rows that a ranking must order.
//!
//! A pair is two rows of one group with different grades. Sums over all pairs of a group of m rows
//! take m ln m steps: a loop visits the rows in the order of their scores, and a tree stores the
//! sums of the visited rows by grade.
//!
//! Reference: Lee, Lin, "Large-scale linear RankSVM", Neural Computation 26, 2014.

use crate::Error;
use kstore::Workers;

/// Rows sorted by group.
#[derive(Clone, Debug, PartialEq)]
pub struct Groups {
    /// Row positions, group by group, in ascending order within a group.
    rows: Vec<u32>,
    /// Start of each group in `rows`, followed by the number of rows.
    starts: Vec<usize>,
    /// Grade of each row of `rows`: its rank among the distinct grades of its group.
    grades: Vec<u32>,
}

/// The grades of the rows of one group.
#[derive(Clone, Copy, Debug)]
pub struct Group<'g> {
    pub grades: &'g [u32],
}

/// Counts of the pairs of a group by the order of their scores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PairCounts {
    /// Pairs of rows with different grades.
    pub pairs: f64,
    /// Pairs whose better row has the lower score.
    pub discordant: f64,
    /// Pairs with equal scores.
    pub tied: f64,
}

impl PairCounts {
    /// Returns the fraction of pairs in the wrong order, where pairs with equal scores count half;
    /// `None` without pairs.
    pub fn error_rate(&self) -> Option<f64> {
        (self.pairs > 0.0).then(|| (self.discordant + 0.5 * self.tied) / self.pairs)
    }
}

/// Returns the error for rows without any pair.
pub fn no_pairs_error() -> Error {
    let why = "no group has rows with different grades, so no pair can be ranked; check the target and `group`";
    Error::option("target", "", why)
}

impl Groups {
    /// Returns the groups of the rows below `n` for which `is_included` is true. `group` returns
    /// the group of a row, and `grade` its grade.
    pub fn new(
        n: usize,
        is_included: impl Fn(usize) -> bool,
        group: impl Fn(usize) -> u32,
        grade: impl Fn(usize) -> f64,
    ) -> Self {
        let mut rows: Vec<u32> = (0..n).filter(|row| is_included(*row)).map(|row| row as u32).collect();
        rows.sort_by_key(|row| group(*row as usize));
        let (mut starts, mut grades) = (vec![0], vec![0; rows.len()]);
        for i in 1..=rows.len() {
            if i == rows.len() || group(rows[i] as usize) != group(rows[i - 1] as usize) {
                starts.push(i);
            }
        }
        for bounds in starts.windows(2) {
            let group_rows = &rows[bounds[0]..bounds[1]];
            let mut distinct_grades: Vec<f64> = group_rows.iter().map(|row| grade(*row as usize)).collect();
            distinct_grades.sort_by(f64::total_cmp);
            distinct_grades.dedup();
            for (to, row) in grades[bounds[0]..bounds[1]].iter_mut().zip(group_rows) {
                *to = distinct_grades.partition_point(|other| *other < grade(*row as usize)) as u32;
            }
        }
        Self { rows, starts, grades }
    }

    /// Returns the bytes of the groups of n rows and of a score (f64) for each row.
    pub fn bytes(n: usize) -> usize {
        n.saturating_mul(2 * size_of::<u32>() + size_of::<usize>() + size_of::<f64>())
    }

    /// Returns the row positions, group by group.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Returns `value_of_row` of every row, in the order of the groups.
    pub fn gather<V: Copy>(&self, value_of_row: impl Fn(usize) -> V) -> Vec<V> {
        self.rows.iter().map(|row| value_of_row(*row as usize)).collect()
    }

    /// Returns every group with its part of `values`, which are in the order of the groups.
    pub fn zip_groups<'g, V>(&'g self, values: &'g [V]) -> impl Iterator<Item = (Group<'g>, &'g [V])> {
        let group_at = |bounds: &'g [usize]| {
            let range = bounds[0]..bounds[1];
            (Group { grades: &self.grades[range.clone()] }, &values[range])
        };
        self.starts.windows(2).map(group_at)
    }

    /// Calls `map_group` for every group, with the group's part of `values` and of the results. The
    /// groups are distributed over the workers. Returns the results, one per row in the order of
    /// the groups.
    pub fn map_groups<V: Sync, R: Send + Default + Clone>(
        &self,
        values: &[V],
        workers: &Workers,
        map_group: impl Fn(Group<'_>, &[V], &mut [R]) + Sync,
    ) -> Vec<R> {
        let mut results = vec![R::default(); values.len()];
        let (mut remaining_results, mut group_tasks) = (&mut results[..], Vec::with_capacity(self.starts.len()));
        for (group, values) in self.zip_groups(values) {
            let (part, remaining) = remaining_results.split_at_mut(values.len());
            group_tasks.push((group, values, part));
            remaining_results = remaining;
        }
        workers.for_each(group_tasks, |(group, values, part)| map_group(group, values, part));
        results
    }

    /// Returns the number of pairs in all groups.
    pub fn count_pairs(&self) -> f64 {
        self.zip_groups(&self.rows).map(|(group, _)| group.count_pairs()).sum()
    }

    /// Returns the number of rows of the largest group.
    pub fn max_group_rows(&self) -> usize {
        self.starts.windows(2).map(|bounds| bounds[1] - bounds[0]).max().unwrap_or(0)
    }

    /// Returns the pair counts of every group; `scores` are in the order of the groups.
    pub fn pair_counts_by_group(&self, scores: &[f64], workers: &Workers) -> Vec<PairCounts> {
        let mut counts = vec![PairCounts::default(); self.starts.len() - 1];
        let group_tasks = counts.iter_mut().zip(self.zip_groups(scores)).collect();
        workers.for_each(group_tasks, |(group_counts, (group, scores)): (&mut PairCounts, (Group<'_>, &[f64]))| {
            *group_counts = group.pair_counts(scores)
        });
        counts
    }

    /// Returns the pair counts of all groups together; `scores` are in the order of the groups.
    pub fn pair_counts(&self, scores: &[f64], workers: &Workers) -> PairCounts {
        self.pair_counts_by_group(scores, workers).into_iter().fold(PairCounts::default(), |sum, group_counts| {
            PairCounts {
                pairs: sum.pairs + group_counts.pairs,
                discordant: sum.discordant + group_counts.discordant,
                tied: sum.tied + group_counts.tied,
            }
        })
    }
}

/// Returns the positions of the scores in ascending order; equal scores keep their order.
pub fn argsort(scores: &[f64]) -> Vec<u32> {
    let mut positions: Vec<u32> = (0..scores.len() as u32).collect();
    positions.sort_by(|a, b| scores[*a as usize].total_cmp(&scores[*b as usize]));
    positions
}

impl Group<'_> {
    fn grade(&self, i: u32) -> usize {
        self.grades[i as usize] as usize
    }

    fn empty_grade_sums(&self) -> GradeSums {
        let max_grade = self.grades.iter().max().map_or(0, |grade| *grade as usize);
        // node 0 is unused, and grade g is stored from node g + 1 upwards
        GradeSums { nodes: vec![(0.0, 0.0); max_grade + 2] }
    }

    /// Calls `visitor` with the better and the worse row of every pair: m² steps.
    pub fn for_each_pair(&self, mut visitor: impl FnMut(usize, usize)) {
        for (better, grade) in self.grades.iter().enumerate() {
            let worse = self.grades.iter().enumerate().filter(|(_, other)| *other < grade);
            worse.for_each(|(worse, _)| visitor(better, worse));
        }
    }

    /// For every row, of score s, computes (count, sum of `values`) over two sets of rows: first
    /// the rows with lower grades and scores above s − `margin`, then the rows with higher grades
    /// and scores below s + `margin`.
    pub fn sums_within_margin(&self, scores: &[f64], values: &[f64], margin: f64, sums: &mut [[(f64, f64); 2]]) {
        let order = argsort(scores);
        let is_within = |better: u32, worse: u32| scores[better as usize] - scores[worse as usize] < margin;
        let (mut visited_sums, mut next) = (self.empty_grade_sums(), order.len());
        for i in order.iter().rev() {
            while next > 0 && is_within(*i, order[next - 1]) {
                next -= 1;
                visited_sums.add(self.grade(order[next]), values[order[next] as usize]);
            }
            sums[*i as usize][0] = visited_sums.sum_below(self.grade(*i));
        }
        let (mut visited_sums, mut next, mut total) = (self.empty_grade_sums(), 0, (0.0, 0.0));
        for i in &order {
            while next < order.len() && is_within(order[next], *i) {
                let value = values[order[next] as usize];
                visited_sums.add(self.grade(order[next]), value);
                total = (total.0 + 1.0, total.1 + value);
                next += 1;
            }
            let (count, sum) = visited_sums.sum_below(self.grade(*i) + 1);
            sums[*i as usize][1] = (total.0 - count, total.1 - sum);
        }
    }

    /// Returns the pair counts of the group, in m ln m steps for m rows.
    pub fn pair_counts(&self, scores: &[f64]) -> PairCounts {
        let (order, mut visited_sums, mut counts) = (argsort(scores), self.empty_grade_sums(), PairCounts::default());
        // visits the rows from the highest score down, rows with equal scores together
        for tied_positions in order.chunk_by(|a, b| scores[*a as usize] == scores[*b as usize]).rev() {
            let count_below = |visited_sums: &GradeSums| {
                tied_positions.iter().map(|position| visited_sums.sum_below(self.grade(*position)).0).sum::<f64>()
            };
            let discordant = count_below(&visited_sums);
            tied_positions.iter().for_each(|position| visited_sums.add(self.grade(*position), 0.0));
            counts.discordant += discordant;
            counts.tied += count_below(&visited_sums) - discordant;
        }
        counts.pairs = self.count_pairs();
        counts
    }

    fn count_pairs(&self) -> f64 {
        let mut visited_sums = self.empty_grade_sums();
        self.grades.iter().for_each(|grade| visited_sums.add(*grade as usize, 0.0));
        self.grades.iter().map(|grade| visited_sums.sum_below(*grade as usize).0).sum()
    }
}

/// Counts and sums by grade, in a tree that sums over all lower grades in logarithmic time
/// (Fenwick, "A new data structure for cumulative frequency tables", Software: Practice and
/// Experience 24, 1994).
struct GradeSums {
    nodes: Vec<(f64, f64)>,
}

impl GradeSums {
    fn add(&mut self, grade: usize, value: f64) {
        let mut node = grade + 1;
        while let Some((count, sum)) = self.nodes.get_mut(node) {
            (*count, *sum) = (*count + 1.0, *sum + value);
            // adding the lowest set bit leads to the next node whose range contains this grade
            node += node & node.wrapping_neg();
        }
    }

    /// Returns the count and the sum of the values added with lower grades.
    fn sum_below(&self, grade: usize) -> (f64, f64) {
        let (mut node, mut total) = (grade, (0.0, 0.0));
        while node > 0 {
            total = (total.0 + self.nodes[node].0, total.1 + self.nodes[node].1);
            node -= node & node.wrapping_neg();
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRADES: [f64; 9] = [2.0, 0.0, 1.0, 2.0, 0.5, 0.0, 7.0, 1.0, 1.0];
    /// The scores of rows 3 and 5 differ by exactly 1.
    const SCORES: [f64; 9] = [0.3, 0.3, -1.0, 2.0, 0.9, 1.0, 0.3, -0.2, 2.5];

    fn two_groups() -> Groups {
        Groups::new(9, |row| row != 4, |row| u32::from(row % 2 == 0), |row| GRADES[row])
    }

    #[test]
    fn sums_over_pairs_equal_the_exhaustive_sums() {
        let groups = two_groups();
        assert_eq!(groups.rows(), [1, 3, 5, 7, 0, 2, 6, 8]);
        let (scores, values) = (groups.gather(|row| SCORES[row]), groups.gather(|row| 1.0 + row as f64));
        let both: Vec<(f64, f64)> = scores.iter().copied().zip(values).collect();
        let pair_sums = groups.map_groups(&both, &Workers::sequential(), |group, both, out: &mut [[(f64, f64); 2]]| {
            let (scores, values): (Vec<f64>, Vec<f64>) = both.iter().copied().unzip();
            group.sums_within_margin(&scores, &values, 1.0, out);
        });
        for (position, row) in groups.rows().iter().map(|row| *row as usize).enumerate() {
            let same = |other: &usize| *other != 4 && other % 2 == row % 2;
            let sums = |takes: &dyn Fn(usize) -> bool| {
                let taken = (0..9).filter(|other| same(other) && takes(*other));
                taken.fold((0.0, 0.0), |(count, sum), other| (count + 1.0, sum + 1.0 + other as f64))
            };
            let below = sums(&|other| GRADES[other] < GRADES[row] && SCORES[row] - SCORES[other] < 1.0);
            let above = sums(&|other| GRADES[other] > GRADES[row] && SCORES[other] - SCORES[row] < 1.0);
            assert_eq!(pair_sums[position], [below, above], "row {row}");
        }
    }

    #[test]
    fn pairs_are_counted_by_the_order_of_their_scores() {
        let groups = two_groups();
        let counts = groups.pair_counts(&groups.gather(|row| SCORES[row]), &Workers::sequential());
        let mut expected = PairCounts::default();
        for (a, b) in (0..9).flat_map(|a| (0..9).map(move |b| (a, b))) {
            if a != 4 && b != 4 && a % 2 == b % 2 && GRADES[a] > GRADES[b] {
                expected.pairs += 1.0;
                expected.discordant += f64::from(u8::from(SCORES[a] < SCORES[b]));
                expected.tied += f64::from(u8::from(SCORES[a] == SCORES[b]));
            }
        }
        assert_eq!(counts, expected);
        assert!(expected.discordant > 0.0 && expected.tied > 0.0, "{expected:?}");
        assert_eq!(
            Groups::new(0, |_| true, |_| 0, |_| 0.0).pair_counts(&[], &Workers::sequential()).error_rate(),
            None
        );
    }
}
