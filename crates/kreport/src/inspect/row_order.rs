//! The order of the rows: a time that rises over the table, neighbouring rows that are alike, and
//! groups of consecutive rows.

use super::association::{auc, correlation, gamma};
use super::findings::{Finding, MIN_VALUES, Topic};
use super::sample::{ColumnSample, TableSample};
use crate::machine::quote_for_shell;
use crate::table::{format_count, join_with_commas, percent};

/// Minimum fraction of the consecutive rows with different values that agree with the direction of
/// a sorted column.
const MIN_AGREEING: f64 = 0.99;
/// Minimum gamma of value and row number of a column that rises, or falls, over the whole table.
/// Gamma is the fraction of concordant pairs among the pairs with different values, minus the
/// fraction of discordant pairs (Goodman and Kruskal, "Measures of association for cross
/// classifications", J. Amer. Statist. Assoc. 49, 1954). Unlike other rank correlations, it is 1
/// for a sorted column with many ties.
const MIN_GAMMA: f64 = 0.95;
/// Minimum gamma of a column of times whose consecutive rows do not agree, such as the times at
/// which parallel processes log.
const MIN_TIME_GAMMA: f64 = 0.99;
/// Minimum number of distinct values of a sorted column, and of a column of groups.
const MIN_DISTINCT: usize = 5;
/// Minimum fraction of neighbouring rows with the same value, for rows that come in groups.
const MIN_SHARED: f64 = 0.6;
/// Maximum number of runs of consecutive rows of the same group, averaged over the groups. A storm
/// has few runs; a day of the month, or the year of birth of a person, has hundreds.
const MAX_RUNS: f64 = 5.0;
/// Maximum number of runs of a group that consists of smaller groups.
const MAX_OUTER_RUNS: f64 = 1.5;
/// Minimum AUC, and minimum number of its standard deviations above one half, with which a column
/// must differ more between groups than within them.
const MIN_CONTRAST: f64 = 0.6;
const MIN_CONTRAST_DEVIATIONS: f64 = 5.0;
/// Minimum correlation of the values of neighbouring rows that is reported.
const MIN_NEIGHBOUR_CORRELATION: f64 = 0.5;
/// Maximum number of columns of groups that are reported.
const MAX_GROUP_COLUMNS: usize = 3;

/// Words in the names of columns of times.
const TIME_WORDS: [&str; 18] = [
    "year",
    "yr",
    "date",
    "datetime",
    "time",
    "timestamp",
    "epoch",
    "day",
    "days",
    "week",
    "month",
    "quarter",
    "hour",
    "minute",
    "second",
    "seconds",
    "period",
    "t",
];
/// Beginnings of such words, as in `yearacc` or `date2`.
const TIME_PREFIXES: [&str; 3] = ["year", "date", "timestamp"];
/// Words in the names of columns whose numbers are not years.
const KEY_WORDS: [&str; 5] = ["id", "code", "number", "no", "key"];
/// Range of integers that are years.
const YEARS: std::ops::RangeInclusive<f64> = 1900.0..=2100.0;

/// Returns the findings about the order of the rows: at most one about a time, then one about the
/// target, then groups.
pub(super) fn row_order(
    columns: &[&ColumnSample],
    target: Option<&ColumnSample>,
    sample: &TableSample,
) -> Vec<Finding> {
    let sorted: Vec<(&ColumnSample, f64)> =
        columns.iter().filter_map(|column| Some((*column, direction(column)?))).collect();
    let groups = group_columns(columns, &sorted, sample);
    let mut found: Vec<Finding> =
        target.and_then(|target| similar_neighbours(target, &groups, sample)).into_iter().collect();
    found.extend(time(columns, &sorted, sample).or_else(|| sorted_by(&sorted, &groups)));
    found.extend(groups.iter().map(|group| group.finding()));
    found
}

/// Returns whether the texts of a column are the days of a series, which identify its rows but also
/// order them.
pub(super) fn is_series(column: &ColumnSample) -> bool {
    column.is_time && direction(column).is_some()
}

/// Returns 1 if the values rise over the table, −1 if they fall, and `None` if they do neither.
fn direction(column: &ColumnSample) -> Option<f64> {
    let values: Vec<f64> = column.present().collect();
    if values.len() < MIN_VALUES || column.distinct_count() < MIN_DISTINCT {
        return None;
    }
    let changes: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).filter(|change| *change != 0.0).collect();
    let rising = changes.iter().filter(|change| **change > 0.0).count() as f64 / changes.len().max(1) as f64;
    let is_agreeing = rising.max(1.0 - rising) >= MIN_AGREEING;
    if !is_agreeing && !is_time_like(column) {
        return None;
    }
    let pairs: Vec<(f64, f64)> = values.iter().enumerate().map(|(i, value)| (i as f64, *value)).collect();
    let gamma = gamma(&pairs);
    let needed = if is_agreeing { MIN_GAMMA } else { MIN_TIME_GAMMA };
    (gamma.abs() >= needed).then(|| gamma.signum())
}

/// Returns whether a column holds times, by its type or texts, its name, or numbers of years.
fn is_time_like(column: &ColumnSample) -> bool {
    if column.is_time || column.is_text() {
        return column.is_time;
    }
    let words: Vec<String> =
        column.name.split(|letter: char| !letter.is_alphanumeric()).map(str::to_lowercase).collect();
    let is_word =
        |word: &String| TIME_WORDS.contains(&&**word) || TIME_PREFIXES.iter().any(|prefix| word.starts_with(prefix));
    let are_years = || {
        column.is_discrete
            && column.present().all(|value| YEARS.contains(&value))
            && !words.iter().any(|word| KEY_WORDS.contains(&&**word))
    };
    words.iter().any(is_word) || are_years()
}

/// Returns the finding about the column of times that orders the rows best: a sorted column with as
/// many values as possible. Without a sorted one, a column of dates in which neighbouring rows are
/// near, such as the times of several stations, one after another.
fn time(columns: &[&ColumnSample], sorted: &[(&ColumnSample, f64)], sample: &TableSample) -> Option<Finding> {
    let mut times: Vec<(&ColumnSample, f64)> =
        sorted.iter().filter(|(column, _)| is_time_like(column)).copied().collect();
    // stable: the first of two equal columns
    times.sort_by_key(|(column, _)| std::cmp::Reverse((column.is_time, column.distinct_count())));
    let options = |name: &str| {
        let [test, folds] = ["last:20%", "forward:5"].map(|rows| quote_for_shell(&format!("{rows}:{name}")));
        format!("--test {test}; --folds {folds}")
    };
    if let Some(((best, direction), others)) = times.split_first() {
        let verb = if *direction > 0.0 { "ascends" } else { "descends" };
        let also = match others {
            [] => String::new(),
            others => format!(" (also {})", join_with_commas(others.iter().map(|(column, _)| &column.name))),
        };
        let what = format!("{}: {verb} over the whole table{also}", best.name);
        return Some(Finding::new(Topic::Order, &[&best.name], what, options(&best.name)));
    }
    let is_near = |column: &&&ColumnSample| {
        column.is_time && column.distinct_count() >= MIN_DISTINCT && {
            let pairs = neighbour_pairs(column, sample);
            pairs.len() >= MIN_VALUES && correlation(&pairs) >= MIN_NEIGHBOUR_CORRELATION
        }
    };
    let near = columns.iter().filter(is_near).max_by_key(|column| column.distinct_count())?;
    let what = format!("{}: neighbouring rows are near in time", near.name);
    Some(Finding::new(Topic::Order, &[&near.name], what, options(&near.name)))
}

/// Returns the finding about a column that sorts the rows but is neither a time nor a group.
fn sorted_by(sorted: &[(&ColumnSample, f64)], groups: &[GroupColumn<'_>]) -> Option<Finding> {
    if !groups.is_empty() {
        return None;
    }
    let (column, _) = sorted.iter().filter(|(column, _)| !column.is_text()).max_by_key(|(c, _)| c.distinct_count())?;
    let name = &column.name;
    let test = quote_for_shell(&format!("last:20%:{name}"));
    let what = format!("{name}: the rows are sorted by it; if it is a time, use --test {test}");
    Some(Finding::new(Topic::Order, &[name], what, String::new()))
}

/// Returns the values of neighbouring rows that both have one.
fn neighbour_pairs(column: &ColumnSample, sample: &TableSample) -> Vec<(f64, f64)> {
    let pairs = sample.neighbours().map(|(i, j)| (column.values[i], column.values[j]));
    pairs.filter(|(a, b)| a.is_finite() && b.is_finite()).collect()
}

/// Returns the finding about neighbouring rows with similar targets. If the rows come in groups,
/// only neighbouring rows of different groups count.
fn similar_neighbours(target: &ColumnSample, groups: &[GroupColumn<'_>], sample: &TableSample) -> Option<Finding> {
    if target.is_text() {
        return None;
    }
    if direction(target).is_some() {
        // the last rows have the largest targets, so they do not test predictions for the others
        let what = format!("{}: the rows are sorted by the target", target.name);
        return Some(Finding::new(Topic::Order, &[&target.name], what, String::new()));
    }
    let share_group = |i: usize, j: usize| groups.iter().any(|group| group.column.values[i] == group.column.values[j]);
    let pairs: Vec<(f64, f64)> = sample
        .neighbours()
        .filter(|(i, j)| !share_group(*i, *j))
        .map(|(i, j)| (target.values[i], target.values[j]))
        .filter(|(a, b)| a.is_finite() && b.is_finite())
        .collect();
    let r = correlation(&pairs);
    (pairs.len() >= MIN_VALUES && r >= MIN_NEIGHBOUR_CORRELATION).then(|| {
        let what = format!("{}: correlation {r:.2} of neighbouring rows", target.name);
        Finding::new(Topic::Order, &[&target.name], what, "--folds blocks:5; --test last:20%".to_string())
    })
}

/// A column whose values are groups of consecutive rows.
struct GroupColumn<'a> {
    column: &'a ColumnSample,
    distinct_count: usize,
    /// Fraction of neighbouring rows with the same value.
    shared_fraction: f64,
    /// Runs of consecutive rows of a value, averaged over the values.
    runs: f64,
}

impl<'a> GroupColumn<'a> {
    /// Returns the groups of a column with many values, which most neighbouring rows share, each in
    /// few runs of rows; `None` for other columns.
    fn new(column: &'a ColumnSample, sample: &TableSample) -> Option<Self> {
        let (counts, row_count) = (column.counts(), column.present_count());
        if !column.is_discrete || counts.len() < MIN_DISTINCT || row_count < MIN_VALUES || is_time_like(column) {
            return None;
        }
        let pairs = neighbour_pairs(column, sample);
        let shared_fraction = pairs.iter().filter(|(a, b)| a == b).count() as f64 / pairs.len().max(1) as f64;
        let by_chance: f64 = counts.values().map(|n| (*n as f64 / row_count as f64).powi(2)).sum();
        // a run may continue beyond the end of a block of the sample
        let values: Vec<f64> = column.present().collect();
        let changes = values.windows(2).filter(|pair| pair[0] != pair[1]).count();
        let runs = (changes + 1) as f64 / counts.len() as f64;
        let is_group = shared_fraction >= MIN_SHARED && by_chance < MIN_SHARED / 2.0 && runs <= MAX_RUNS;
        is_group.then_some(Self { column, distinct_count: counts.len(), shared_fraction, runs })
    }

    fn finding(&self) -> Finding {
        let (name, values) = (&self.column.name, format_count(self.distinct_count as u64));
        let what =
            format!("{name}: {} of neighbouring rows share one of {values} values", percent(self.shared_fraction));
        Finding::new(Topic::Groups, &[name], what, format!("--test groups:20%:{name}; --folds groups:5:{name}"))
    }

    /// Returns whether the column has the same groups as another one, or only a property of them,
    /// rather than groups of these groups.
    fn repeats(&self, other: &Self, sample: &TableSample) -> bool {
        let values = |i: usize| (other.column.values[i], self.column.values[i]);
        let (mut inside, mut equal) = (0u64, 0u64);
        for ((other_i, own_i), (other_j, own_j)) in sample.neighbours().map(|(i, j)| (values(i), values(j))) {
            inside += u64::from(other_i == other_j);
            equal += u64::from(other_i == other_j && own_i == own_j);
        }
        let is_determined = equal as f64 >= 0.999 * inside as f64;
        let is_outer = 2 * self.distinct_count <= other.distinct_count && self.runs <= MAX_OUTER_RUNS;
        is_determined && !is_outer
    }
}

/// Returns the columns of groups, the one with the most groups first.
fn group_columns<'a>(
    columns: &[&'a ColumnSample],
    sorted: &[(&ColumnSample, f64)],
    sample: &TableSample,
) -> Vec<GroupColumn<'a>> {
    let is_sorted = |column: &ColumnSample| sorted.iter().any(|(other, _)| other.name == column.name);
    let mut candidates: Vec<GroupColumn<'_>> = columns
        .iter()
        .filter_map(|column| GroupColumn::new(column, sample))
        // the numbers of persons may ascend, but so does a measurement by which a table is sorted
        .filter(|group| {
            let is_measurement = !group.column.is_text() && is_sorted(group.column);
            !is_measurement || has_contrast(group.column, &is_sorted, sample)
        })
        .collect();
    candidates.sort_by_key(|group| std::cmp::Reverse(group.distinct_count));
    let mut kept: Vec<GroupColumn<'_>> = Vec::new();
    for candidate in candidates {
        if kept.len() < MAX_GROUP_COLUMNS && !kept.iter().any(|group| candidate.repeats(group, sample)) {
            kept.push(candidate);
        }
    }
    kept
}

/// Returns whether another column differs more between neighbouring rows of different groups than
/// between neighbouring rows of the same group.
fn has_contrast(group: &ColumnSample, is_sorted: &dyn Fn(&ColumnSample) -> bool, sample: &TableSample) -> bool {
    let contrast = |other: &&ColumnSample| {
        let distance = |i: usize, j: usize| match other.is_text() {
            true => f64::from(other.values[i] != other.values[j]),
            false => (other.values[i] - other.values[j]).abs(),
        };
        let pairs: Vec<(f64, f64)> = sample
            .neighbours()
            .map(|(i, j)| (distance(i, j), f64::from(group.values[i] != group.values[j])))
            .filter(|(distance, _)| distance.is_finite())
            .collect();
        let across = pairs.iter().filter(|(_, is_across)| *is_across > 0.0).count() as f64;
        let within = pairs.len() as f64 - across;
        // standard deviation of the AUC of equal distributions
        let deviation = ((across + within + 1.0) / (12.0 * across * within).max(1.0)).sqrt();
        let auc = auc(&pairs, 1.0);
        auc >= MIN_CONTRAST && auc - 0.5 >= MIN_CONTRAST_DEVIATIONS * deviation
    };
    sample.columns.iter().filter(|other| other.name != group.name && !is_sorted(other)).any(|other| contrast(&other))
}

#[cfg(test)]
mod tests {
    use super::super::findings::tests::{column, noise, sample};
    use super::*;

    /// Returns the topics, columns and options of the findings about the order of columns.
    fn found(columns: impl IntoIterator<Item = ColumnSample>) -> Vec<(Topic, String, String)> {
        let sample = sample(columns);
        let columns: Vec<&ColumnSample> = sample.columns.iter().collect();
        let findings = row_order(&columns, None, &sample);
        findings.into_iter().map(|found| (found.topic, found.columns.join(","), found.options)).collect()
    }

    fn order(name: &str) -> (Topic, String, String) {
        (Topic::Order, name.to_string(), format!("--test last:20%:{name}; --folds forward:5:{name}"))
    }

    fn groups(name: &str) -> (Topic, String, String) {
        (Topic::Groups, name.to_string(), format!("--test groups:20%:{name}; --folds groups:5:{name}"))
    }

    #[test]
    fn one_time_orders_the_rows_and_parts_of_it_do_not() {
        let date = ColumnSample { is_time: true, ..column("listed", |i| i as f64) };
        let year = column("year", |i| (1990 + i / 50) as f64);
        // ascends between 99.2 % of the neighbouring rows, but not over the table
        let day = column("day_of_year", |i| (i % 133) as f64);
        let births = column("births", |i| noise(i).abs() * 1e4);
        assert_eq!(found([year.clone(), day.clone(), date, births.clone()]), [order("listed")]);
        assert_eq!(found([day.clone(), year, births.clone()]), [order("year")]);
        assert_eq!(found([day, births]), []);
        let newest_first = column("time", |i| (4000 - 10 * i) as f64);
        let descending = row_order(&[&newest_first], None, &sample([newest_first.clone()]));
        assert_eq!(descending[0].finding, "time: descends over the whole table");
        // most rows have the last value
        assert_eq!(found([column("yr", |i| (i.min(45) / 9) as f64)]), [order("yr")]);
    }

    #[test]
    fn times_need_not_ascend_in_every_row_and_other_columns_must() {
        let jitter = |name| column(name, |i| i as f64 + 2.0 * noise(i));
        assert_eq!(found([jitter("timestamp")]), [order("timestamp")]);
        assert_eq!(found([jitter("trend")]), []);
    }

    #[test]
    fn a_column_of_mostly_equal_values_has_no_order() {
        // two of 399 neighbours descend
        let waiting = column("days_in_waiting_list", |i| if i % 200 < 12 { (i % 200 + i / 200) as f64 } else { 0.0 });
        assert_eq!(found([waiting]), []);
    }

    #[test]
    fn persons_are_groups_although_their_numbers_ascend() {
        let person = column("person", |i| (100 + i / 4 * 7) as f64);
        let born = column("born", |i| (40.0 + 20.0 * noise(i / 4)).floor());
        let visit = column("visit", |i| (i % 4) as f64);
        assert_eq!(found([person.clone(), born, visit.clone()]), [groups("person")]);
        // a series of each person is enough
        assert_eq!(found([person, visit]), [groups("person")]);
    }

    #[test]
    fn groups_of_groups_are_named_and_their_properties_are_not() {
        let (school, child) = (column("school", |i| (i / 40) as f64), column("child", |i| (i * 7 / 28) as f64));
        let size = column("size", |i| (300 + i / 40 * 77 % 100) as f64);
        let score = column("score", |i| noise(i / 4) + noise(i) / 9.0);
        assert_eq!(found([school, child, size, score]), [groups("child"), groups("school")]);
    }

    #[test]
    fn a_sorted_measurement_is_neither_time_nor_group() {
        let price = column("price", |i| (300 + i / 3) as f64);
        let carat = column("carat", |i| i as f64 / 3.0 + 40.0 * noise(i));
        assert_eq!(found([price, carat]), [(Topic::Order, "price".to_string(), String::new())]);
    }

    #[test]
    fn groups_have_few_runs_of_rows() {
        let storm = column("storm", |i| (i / 8 * 7 % 20) as f64);
        let sector = column("sector", |i| (i / 3 % 7) as f64);
        assert_eq!(found([sector.clone(), storm]), [groups("storm")]);
        assert_eq!(found([sector]), []);
    }

    #[test]
    fn rows_of_one_group_are_no_series() {
        let person = column("person", |i| (100 + i / 4 * 7) as f64);
        let visit = column("visit", |i| (i % 4) as f64);
        let wage = column("wage", |i| noise(i / 4) + noise(i) / 9.0);
        let sample = sample([person, visit, wage]);
        let columns: Vec<&ColumnSample> = sample.columns[..2].iter().collect();
        let topics = |columns: &[&ColumnSample]| -> Vec<Topic> {
            row_order(columns, Some(&sample.columns[2]), &sample).iter().map(|finding| finding.topic).collect()
        };
        assert_eq!(topics(&columns), [Topic::Groups]);
        assert_eq!(topics(&columns[1..]), [Topic::Order], "without the groups, the rows look like a series");
    }

    #[test]
    fn a_table_sorted_by_the_target_is_no_series() {
        let sample = sample([column("wage", |i| i as f64 + noise(i) / 9.0), column("b", noise)]);
        let target = &sample.columns[0];
        let found = row_order(&[&sample.columns[1]], Some(target), &sample);
        assert_eq!((&*found[0].finding, &*found[0].options), ("wage: the rows are sorted by the target", ""));
    }
}
