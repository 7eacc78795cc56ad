//! The columns that set clusters apart, and the columns that separate them best in a picture.

use crate::model::DistinctiveColumn;
use kstore::SelectedTable;

/// Maximum number of columns of a profile.
const MAX_COLUMNS: usize = 5;

/// Minimum difference, in standard deviations, of a column of a profile: a small effect by Cohen,
/// "Statistical power analysis for the behavioral sciences", 1988.
const MIN_DIFFERENCE: f64 = 0.2;

/// Minimum fraction of the rows of a cluster that have a level of its profile: lifts of rare levels
/// are large by chance.
const MIN_LEVEL_FRACTION: f64 = 0.1;

/// The features of the rows.
pub(super) struct Columns {
    pub(super) names: Vec<String>,
    /// Number of the table column of each feature.
    pub(super) groups: Vec<usize>,
    /// True for the level of a category and for an indicator of missing values.
    pub(super) is_binary: Vec<bool>,
}

/// Returns the number of the table column of each feature.
pub(super) fn column_groups(selected: &SelectedTable, d: usize) -> Vec<usize> {
    match selected.encoding() {
        None => (0..d).collect(),
        Some(encoding) => {
            let columns = encoding.columns().iter().enumerate();
            columns.flat_map(|(index, column)| std::iter::repeat_n(index, column.feature_count())).collect()
        }
    }
}

/// Returns the columns of a cluster whose means differ most from the means of all rows, one feature
/// for each column of the table. `shifts` are the differences of the means.
pub(super) fn distinctive_columns(
    shifts: &[f64],
    columns: &Columns,
    means: &[f64],
    deviations: &[f64],
) -> Vec<DistinctiveColumn> {
    let describe = |j: usize| {
        let (mean, mean_of_all) = (means[j] + shifts[j], means[j]);
        let lift = (columns.is_binary[j] && mean_of_all > 0.0).then(|| mean / mean_of_all);
        let difference = shifts[j] / deviations[j];
        DistinctiveColumn { column: columns.names[j].clone(), mean, mean_of_all, difference, lift }
    };
    let mut best: Vec<((usize, bool), DistinctiveColumn)> = Vec::new();
    for j in (0..shifts.len()).filter(|j| deviations[*j] > 0.0) {
        let candidate = describe(j);
        if candidate.lift.is_some() && candidate.mean < MIN_LEVEL_FRACTION {
            continue;
        }
        let key = |column: &DistinctiveColumn| (column.lift.unwrap_or(0.0), column.difference.abs());
        // an indicator of missing values does not compete with the numbers of its column
        let group = (columns.groups[j], columns.is_binary[j]);
        match best.last_mut().filter(|(other, _)| *other == group) {
            None => best.push((group, candidate)),
            Some((_, other)) if key(&candidate) > key(other) => *other = candidate,
            Some(_) => {}
        }
    }
    let mut best: Vec<DistinctiveColumn> = best.into_iter().map(|(_, column)| column).collect();
    best.retain(|column| column.difference.abs() >= MIN_DIFFERENCE);
    best.sort_by(|a, b| b.difference.abs().total_cmp(&a.difference.abs()));
    best.truncate(MAX_COLUMNS);
    best
}

/// Returns the features of up to two axes. Each candidate has the means of the clusters in standard
/// deviations within clusters; `fractions` are the fractions of the rows.
pub(super) fn separating_axes(candidates: &[(usize, Vec<f64>)], fractions: &[f64]) -> Vec<usize> {
    let k = fractions.len();
    let pairs: Vec<(usize, usize)> = (0..k).flat_map(|a| (a + 1..k).map(move |b| (a, b))).collect();
    let (mut overlaps, mut axes) = (vec![1.0; pairs.len()], Vec::new());
    while axes.len() < 2 {
        let overlap_with = |means: &[f64]| -> Vec<f64> {
            let coefficient =
                |((a, b), overlap): (&(usize, usize), &f64)| overlap * (-(means[*a] - means[*b]).powi(2) / 8.0).exp();
            pairs.iter().zip(&overlaps).map(coefficient).collect()
        };
        let total = |overlaps: &[f64]| -> f64 {
            pairs.iter().zip(overlaps).map(|((a, b), overlap)| fractions[*a] * fractions[*b] * overlap).sum()
        };
        let unused = candidates.iter().filter(|(j, _)| !axes.contains(j));
        let best = unused
            .map(|(j, means)| (*j, overlap_with(means)))
            .reduce(|best, other| if total(&other.1) < total(&best.1) { other } else { best });
        let Some((axis, reduced)) = best else { break };
        axes.push(axis);
        overlaps = reduced;
    }
    axes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_axis_separates_what_the_first_does_not() {
        // column 0 separates cluster 0 from the others, as its copy 1 does; column 2 separates 1
        // from 2
        let candidates = [(0, vec![9.0, 0.0, 0.0]), (1, vec![9.1, 0.0, 0.0]), (2, vec![0.0, 3.0, -3.0])];
        assert_eq!(separating_axes(&candidates, &[0.6, 0.2, 0.2]), [1, 2]);
        assert_eq!(separating_axes(&candidates[..1], &[0.4, 0.3, 0.3]), [0]);
        assert_eq!(separating_axes(&[], &[1.0]), Vec::<usize>::new());
    }

    #[test]
    fn a_category_shows_its_level_of_largest_lift() {
        let columns = Columns {
            names: ["a", "kind = x", "kind = y", "kind = z", "b"].map(String::from).to_vec(),
            groups: vec![0, 1, 1, 1, 2],
            is_binary: vec![false, true, true, true, false],
        };
        let (means, deviations) = ([10.0, 0.5, 0.2, 0.01, 3.0], [2.0, 0.5, 0.4, 0.1, 1.0]);
        // level z has the largest lift, but only 5 % of the rows; b differs too little
        let found = distinctive_columns(&[-3.0, 0.2, 0.2, 0.04, 0.1], &columns, &means, &deviations);
        let names: Vec<(&str, f64)> = found.iter().map(|column| (&*column.column, column.difference)).collect();
        assert_eq!(names, [("a", -1.5), ("kind = y", 0.5)]);
        assert_eq!((found[0].mean, found[0].lift, found[1].lift), (7.0, None, Some(2.0)));
    }
}
