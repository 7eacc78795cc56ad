//! Columns that give the target away: computed from it, or measured after it.

use super::association::{auc, best_f1, class_rates, complete_pairs, determined_fraction, gamma, rank_correlation};
use super::findings::{Finding, MAX_CLASSES, MIN_VALUES, Topic};
use super::sample::ColumnSample;
use crate::table::percent;

/// Minimum rank correlation with the target, in absolute value, of a column that gives it away;
/// minimum AUC for a class; minimum fraction of its variance, or of its rows, that the values of a
/// column determine.
const MIN_LEAK: f64 = 0.99;
/// Minimum AUC of a measurement for one of several classes. One species may have the longest feet,
/// and their length is still a fair feature.
const MIN_CLASS_LEAK: f64 = 0.999;
/// Minimum F1 score of a class of more than two: a column that ranks a rare class first, but among
/// many other rows, is an ordinary predictor.
const MIN_F1: f64 = 0.95;
/// Minimum number of rows of a class, and of other rows, if there are more than two classes.
const MIN_CLASS_ROWS: usize = 20;
/// Minimum fraction of a column that gives the target away by which another column is a function of
/// it.
const MIN_FUNCTION: f64 = 0.999;
/// Minimum association of such a function with the target: the fraction of the variance that it
/// determines, or twice the AUC of a class minus 1.
const MIN_FUNCTION_ASSOCIATION: f64 = 0.6;

/// Returns the columns that give the target away, in their order, and then coarser versions of
/// these columns.
pub(super) fn giveaways(columns: &[&ColumnSample], target: &ColumnSample) -> Vec<Finding> {
    let (mut sources, mut others, mut found) = (Vec::new(), Vec::new(), Vec::new());
    let finding = |name: &str, what: String| Finding::excluding(Topic::GivesTargetAway, &[name], what, &[name]);
    for column in columns {
        match describe(column, target) {
            Some(what) => {
                sources.push(*column);
                found.push(finding(&column.name, what));
            }
            None => others.push(*column),
        }
    }
    for column in others {
        if let Some(source) = sources.iter().find(|source| is_coarser(column, source))
            && association(column, target) >= MIN_FUNCTION_ASSOCIATION
        {
            let what = format!("{}: a function of {}, which gives {} away", column.name, source.name, target.name);
            found.push(finding(&column.name, what));
        }
    }
    found
}

fn is_class(target: &ColumnSample) -> bool {
    target.is_text() || target.is_discrete && target.distinct_count() <= MAX_CLASSES
}

/// Returns the distinct values of a target of classes; empty for other targets.
fn classes_of(target: &ColumnSample) -> Vec<f64> {
    let mut classes: Vec<f64> = target.counts().into_keys().map(f64::from_bits).collect();
    classes.sort_by(f64::total_cmp);
    if is_class(target) && classes.len() <= MAX_CLASSES { classes } else { Vec::new() }
}

/// Returns how a column gives the target away; `None` for other columns.
fn describe(column: &ColumnSample, target: &ColumnSample) -> Option<String> {
    let (pairs, name) = (complete_pairs(column, target), &column.name);
    if target.distinct_count() < 2 {
        return None;
    }
    if let Some(text) = describe_missing(column, target) {
        return Some(text);
    }
    if pairs.len() < MIN_VALUES {
        return None;
    }
    if !column.is_text() && !is_class(target) {
        let r = rank_correlation(&pairs);
        if r.abs() >= MIN_LEAK {
            return Some(format!("{name}: rank correlation {r:.4} with {}", target.name));
        }
    }
    let min_area = if column.is_text() || target.distinct_count() == 2 { MIN_LEAK } else { MIN_CLASS_LEAK };
    if let Some((class, area)) = best_class(column, &pairs, target).filter(|(_, area)| *area >= min_area) {
        return Some(format!("{name}: auc {area:.4} for {}", describe_class(class, target)));
    }
    let most_frequent = target.counts().into_values().max().unwrap_or(0) as f64 / pairs.len() as f64;
    let fraction = determined_fraction(&pairs, is_class(target)).filter(|fraction| *fraction >= MIN_LEAK)?;
    if is_class(target) && most_frequent >= MIN_LEAK - 0.05 {
        return None;
    }
    let of_what = if is_class(target) { "of the rows" } else { "of the variance" };
    Some(format!("{name}: its values tell {} for {} {of_what}", target.name, percent(fraction)))
}

/// Returns the text of a class: the target, or its value against the rest.
fn describe_class(class: f64, target: &ColumnSample) -> String {
    match target.distinct_count() {
        2 => target.name.clone(),
        _ => format!("{} = {} against the rest", target.name, target.show(class)),
    }
}

/// Returns how the missing values of a column give the target away, such as a date of death.
fn describe_missing(column: &ColumnSample, target: &ColumnSample) -> Option<String> {
    let pairs = column.values.iter().zip(&target.values).filter(|(_, target)| target.is_finite());
    let pairs: Vec<(f64, f64)> = pairs.map(|(value, target)| (f64::from(value.is_finite()), *target)).collect();
    let has_enough = |class: f64| {
        let rows = pairs.iter().filter(|(_, other)| *other == class).count();
        rows >= MIN_CLASS_ROWS && pairs.len() - rows >= MIN_CLASS_ROWS
    };
    let is_told =
        |class: &f64| has_enough(*class) && fold(auc(&pairs, *class)) >= MIN_LEAK && best_f1(&pairs, *class) >= MIN_F1;
    let class = classes_of(target).into_iter().find(is_told)?;
    let area = fold(auc(&pairs, class));
    Some(format!("{}: whether it is missing has auc {area:.4} for {}", column.name, describe_class(class, target)))
}

/// Returns the AUC of a score, or of its opposite, whichever is larger.
fn fold(area: f64) -> f64 {
    area.max(1.0 - area)
}

/// Returns the class that the values of a column separate from the other classes, with the AUC;
/// `None` if they separate no class.
fn best_class(column: &ColumnSample, pairs: &[(f64, f64)], target: &ColumnSample) -> Option<(f64, f64)> {
    let classes = classes_of(target);
    // values that repeat are levels, whose order may mean nothing
    let has_levels = 5 * column.distinct_count() <= pairs.len();
    let told = |class: f64| {
        let rows = pairs.iter().filter(|(_, other)| *other == class).count();
        let is_binary = classes.len() == 2;
        if !is_binary && rows.min(pairs.len() - rows) < MIN_CLASS_ROWS {
            return None;
        }
        let is_told =
            |area: f64, scores: &[(f64, f64)]| area >= MIN_LEAK && (is_binary || best_f1(scores, class) >= MIN_F1);
        if !column.is_text() {
            let area = fold(auc(pairs, class));
            if is_told(area, pairs) {
                return Some((class, area));
            }
        }
        // not folded: a row that does not count itself lowers its own score
        let rates = if has_levels { class_rates(pairs, class) } else { Vec::new() };
        let area = auc(&rates, class);
        is_told(area, &rates).then_some((class, area))
    };
    // of two classes, one against the rest is the other
    let count = if classes.len() == 2 { 1 } else { classes.len() };
    classes.iter().take(count).filter_map(|class| told(*class)).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Returns whether a column is a function of another one, such as the grade of a subgrade.
fn is_coarser(column: &ColumnSample, source: &ColumnSample) -> bool {
    let pairs = complete_pairs(source, column);
    if pairs.len() < MIN_VALUES || column.distinct_count() < 2 {
        return false;
    }
    let is_monotone = || !column.is_text() && !source.is_text() && gamma(&pairs).abs() >= MIN_FUNCTION;
    let fraction = determined_fraction(&pairs, column.is_text() || column.is_discrete);
    fraction.is_some_and(|fraction| fraction >= MIN_FUNCTION) || is_monotone()
}

/// Returns how much a column says about the target, between 0 and 1.
fn association(column: &ColumnSample, target: &ColumnSample) -> f64 {
    let pairs = complete_pairs(column, target);
    let of_class = |class: &f64| {
        let value_area = if column.is_text() { 0.5 } else { fold(auc(&pairs, *class)) };
        2.0 * value_area.max(auc(&class_rates(&pairs, *class), *class)) - 1.0
    };
    if is_class(target) {
        return classes_of(target).iter().map(of_class).fold(0.0, f64::max);
    }
    let determined = determined_fraction(&pairs, false).unwrap_or(0.0);
    if column.is_text() { determined } else { determined.max(rank_correlation(&pairs).powi(2)) }
}

#[cfg(test)]
mod tests {
    use super::super::findings::tests::{column, noise};
    use super::*;

    fn texts(name: &str, texts: &[&str], value: impl Fn(usize) -> usize) -> ColumnSample {
        let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
        ColumnSample { texts, is_discrete: true, ..column(name, |i| value(i) as f64) }
    }

    fn found(columns: &[&ColumnSample], target: &ColumnSample) -> Vec<String> {
        giveaways(columns, target).into_iter().map(|finding| finding.finding).collect()
    }

    /// 340 rows of class 1, 40 of class 2 and 20 of class 0.
    fn class(i: usize) -> usize {
        match i % 20 {
            0 => 0,
            1 | 2 => 2,
            _ => 1,
        }
    }

    #[test]
    fn a_column_tells_one_class_of_three_from_the_rest() {
        let target = texts("result", &["invalid", "negative", "positive"], class);
        // one other row looks positive
        let is_low = |i: usize| class(i) == 2 || i == 3;
        let cycles = column("ct", |i| if is_low(i) { 20.0 + 10.0 * noise(i) } else { 45.0 });
        let age = column("age", |i| 40.0 + 30.0 * noise(i + 7));
        let found = found(&[&age, &cycles], &target);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("ct: auc 0.99"), "{found:?}");
        assert!(found[0].ends_with(" for result = positive against the rest"), "{found:?}");
    }

    #[test]
    fn a_rare_class_at_the_end_of_a_measurement_is_no_giveaway() {
        let target = texts("cover", &["aspen", "spruce", "willow"], |i| if i % 20 == 0 { 2 } else { i % 2 });
        // 20 of the lowest 23 rows are willows: auc above .99, precision .87
        let height = column("height", |i| match i {
            _ if i % 20 == 0 => 100.0 + 10.0 * noise(i),
            5 | 105 | 205 => 80.0,
            _ => 500.0 + 200.0 * noise(i),
        });
        assert!(auc(&complete_pairs(&height, &target), 2.0) < 0.01);
        assert_eq!(found(&[&height], &target), Vec::<String>::new());
    }

    #[test]
    fn levels_tell_a_rare_class_and_chance_does_not() {
        let target = texts("fraud", &["no", "yes"], |i| usize::from(i % 40 == 0));
        let state = texts("state", &["a", "b", "c", "closed"], |i| if i % 40 == 0 { 3 } else { i % 3 });
        let found_levels = found(&[&state], &target);
        assert_eq!(found_levels, ["state: auc 1.0000 for fraud"]);
        // 80 levels of 5 rows in another order: within the rows themselves the fractions of the
        // class would have an auc of .98
        let shop = texts("shop", &["x"; 80], |i| i * 7919 % 401 % 80);
        let (constant, kind) = (column("version", |_| 3.0), texts("kind", &["a", "b"], |i| i % 2));
        assert_eq!(found(&[&shop, &constant, &kind], &target), Vec::<String>::new());
    }

    #[test]
    fn a_coarser_version_of_a_giveaway_is_one_too() {
        let rank = |i: usize| i * 7919 % 401 % 35;
        let rate = column("rate", |i| 5.0 + 0.5 * rank(i) as f64 + noise(i) / 99.0);
        let (subgrade, grade) = (column("subgrade", |i| rank(i) as f64), column("grade", |i| (rank(i) / 5) as f64));
        let parity = column("parity", |i| (rank(i) % 2) as f64);
        let found = found(&[&grade, &subgrade, &parity], &rate);
        assert!(found[0].starts_with("subgrade: rank correlation"), "{found:?}");
        assert_eq!(found[1..], ["grade: a function of subgrade, which gives rate away"]);
    }

    #[test]
    fn missing_values_tell_a_class() {
        let target = column("died", |i| f64::from(i % 7 == 0));
        let day = column("day_of_death", |i| if i % 7 == 0 { (i * 31 % 365) as f64 } else { f64::NAN });
        let gaps = column("gaps", |i| if i % 5 == 0 { noise(i) } else { f64::NAN });
        let found = found(&[&day, &gaps], &target);
        assert_eq!(found, ["day_of_death: whether it is missing has auc 1.0000 for died"]);
    }
}
