//! Findings about the columns of a sample.

use super::association::{complete_pairs, correlation, determined_fraction};
use super::giveaway::giveaways;
use super::identifier::{Identifier, IdentifierProbe};
use super::row_order::{is_series, row_order};
use super::sample::{ColumnSample, TableSample};
use crate::machine::quote_for_shell;
use crate::table::{Align, AlignedTable, join_with_commas, percent};
use std::collections::{HashMap, HashSet};

/// Minimum number of values of a column for most findings: with fewer, all values may differ, or
/// agree with another column, by chance.
pub(super) const MIN_VALUES: usize = 50;
/// Minimum fraction of missing values that is reported.
const MIN_MISSING: f64 = 0.01;
/// Minimum correlation, in absolute value, of two columns that say the same.
const MIN_DUPLICATE_CORRELATION: f64 = 0.9999;
/// Maximum number of values of a target that is counted as classes.
pub(super) const MAX_CLASSES: usize = 20;
/// A class is rare if it has a smaller fraction of the rows than this number over the number of
/// classes.
const RARE_CLASS: f64 = 0.2;
/// Minimum kurtosis (the fourth moment in units of the squared variance; 3 for a normal
/// distribution) of a column with long tails.
const MIN_KURTOSIS: f64 = 30.0;
/// Maximum number of columns that are compared with each other.
const MAX_COMPARED_COLUMNS: usize = 300;
/// Maximum number of names that a finding lists.
const MAX_LISTED_NAMES: usize = 6;

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the labels explain the topics")]
pub enum Topic {
    Classes,
    GivesTargetAway,
    Identifier,
    Constant,
    Duplicate,
    Missing,
    Order,
    Groups,
    LongTails,
}

impl Topic {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Classes => "classes",
            Self::GivesTargetAway => "gives target away",
            Self::Identifier => "identifier",
            Self::Constant => "constant",
            Self::Duplicate => "duplicate",
            Self::Missing => "missing values",
            Self::Order => "order of rows",
            Self::Groups => "groups of rows",
            Self::LongTails => "long tails",
        }
    }
}

/// Label of the option that excludes the columns of all findings.
pub(super) const ALL_EXCLUSIONS: &str = "all exclusions";

/// One finding about some columns.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Finding {
    /// What the finding is about.
    pub topic: Topic,
    /// Columns.
    pub columns: Vec<String>,
    /// What was found, as text.
    pub finding: String,
    /// Options of a fit that deal with it; empty if nothing must be done.
    pub options: String,
    /// Columns that these options exclude from the features.
    #[serde(skip)]
    pub excluded: Vec<String>,
}

impl Finding {
    pub(super) fn new(topic: Topic, columns: &[&str], finding: String, options: String) -> Self {
        Self { topic, columns: to_strings(columns), finding, options, excluded: Vec::new() }
    }

    /// Returns a finding whose options exclude columns from the features; without such columns it
    /// has no options.
    pub(super) fn excluding(topic: Topic, columns: &[&str], finding: String, excluded: &[&str]) -> Self {
        let options = if excluded.is_empty() { String::new() } else { feature_option(excluded) };
        Self { excluded: to_strings(excluded), ..Self::new(topic, columns, finding, options) }
    }

    /// Returns the columns that the options of findings exclude from the features.
    fn excluded_columns(findings: &[Self]) -> Vec<&str> {
        let mut seen = HashSet::new();
        let names = findings.iter().flat_map(|finding| &finding.excluded).map(String::as_str);
        names.filter(|name| seen.insert(*name)).collect()
    }

    /// Returns the value of `features` that excludes all columns which the findings propose to
    /// exclude, such as `*,!id,!version`; `None` if there are none.
    pub fn proposed_features(findings: &[Self]) -> Option<String> {
        let excluded = Self::excluded_columns(findings);
        (!excluded.is_empty()).then(|| feature_expression(&excluded))
    }

    /// Returns the option that excludes all of these columns; `None` unless at least two findings
    /// propose columns, because the option of a single finding excludes all.
    pub(super) fn combined_exclusions(findings: &[Self]) -> Option<String> {
        let proposals = findings.iter().filter(|finding| !finding.excluded.is_empty()).count();
        (proposals > 1).then(|| feature_option(&Self::excluded_columns(findings)))
    }

    /// Returns the findings as a table. The options have their own lines, because neither a finding
    /// nor options may be cut.
    pub fn table(findings: &[Self]) -> AlignedTable {
        let option_heading = "and the option of a fit that deals with it";
        let mut table = AlignedTable::new([("what stands out", Align::Left), (option_heading, Align::Left)]);
        for finding in findings {
            table.push_row([finding.topic.label(), &finding.finding]);
            if !finding.options.is_empty() {
                table.push_row(["", &finding.options]);
            }
        }
        if let Some(option) = Self::combined_exclusions(findings) {
            table.push_row([ALL_EXCLUSIONS, &option]);
        }
        table
    }
}

/// Returns what stands out in a sample. `target` is the name of the column to be predicted, if
/// known.
pub fn findings(sample: &TableSample, target: Option<&str>) -> Vec<Finding> {
    let target = target.and_then(|name| sample.columns.iter().find(|column| column.name == name));
    let features: Vec<&ColumnSample> =
        sample.columns.iter().filter(|column| target.is_none_or(|target| target.name != column.name)).collect();
    let identifiers: Vec<(&ColumnSample, Identifier)> =
        features.iter().filter_map(|column| Some((*column, identifier(column, sample)?))).collect();
    let is_identifier = |column: &&&ColumnSample| identifiers.iter().any(|(other, _)| other.name == column.name);
    let others: Vec<&ColumnSample> = features.iter().filter(|column| !is_identifier(column)).copied().collect();
    let mut found = Vec::new();
    found.extend(target.and_then(classes));
    if let Some(target) = target {
        found.extend(giveaways(&others, target));
    }
    found.extend(identifiers.iter().map(|(ColumnSample { name, .. }, identifier)| {
        let excluding = |what| Finding::excluding(Topic::Identifier, &[name], format!("{name}: {what}"), &[name]);
        match identifier {
            Identifier::Folds => {
                let (what, options) = (format!("{name}: looks like fold numbers"), format!("--folds column:{name}"));
                Finding::new(Topic::Identifier, &[name], what, options)
            }
            Identifier::RowCounter => excluding("counts the rows"),
            Identifier::Key(_) => excluding("nearly every row has its own value"),
        }
    }));
    found.extend(constants(&others));
    found.extend(duplicates(&others));
    found.extend(missing_values(&features, sample.is_complete()));
    found.extend(row_order(&others, target, sample));
    found.extend(long_tails(&others));
    found
}

/// Returns the value of `features` that selects all columns except some.
fn feature_expression(excluded: &[&str]) -> String {
    format!("*,!{}", excluded.join(",!"))
}

fn feature_option(excluded: &[&str]) -> String {
    format!("--features {}", quote_for_shell(&feature_expression(excluded)))
}

fn to_strings(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn names(columns: &[&str]) -> String {
    let ellipsis = if columns.len() > MAX_LISTED_NAMES { ", …" } else { "" };
    format!("{}{ellipsis}", join_with_commas(&columns[..columns.len().min(MAX_LISTED_NAMES)]))
}

impl ColumnSample {
    pub(super) fn present(&self) -> impl Iterator<Item = f64> + '_ {
        self.values.iter().copied().filter(|value| value.is_finite())
    }

    pub(super) fn present_count(&self) -> usize {
        self.present().count()
    }

    pub(super) fn is_text(&self) -> bool {
        !self.texts.is_empty()
    }

    pub(super) fn distinct_count(&self) -> usize {
        self.present().map(f64::to_bits).collect::<HashSet<_>>().len()
    }

    /// Number of rows of each value.
    pub(super) fn counts(&self) -> HashMap<u64, usize> {
        let mut counts = HashMap::new();
        self.present().for_each(|value| *counts.entry(value.to_bits()).or_insert(0) += 1);
        counts
    }

    /// Returns a value as text.
    pub(super) fn show(&self, value: f64) -> String {
        self.texts.get(value as usize).filter(|_| self.is_text()).cloned().unwrap_or_else(|| value.to_string())
    }
}

/// Returns what a column of texts or integers is that identifies the rows.
pub(super) fn identifier(column: &ColumnSample, sample: &TableSample) -> Option<Identifier> {
    let mut probe = IdentifierProbe::new(column.is_text(), column.values.len());
    sample.row_numbers.iter().zip(&column.values).for_each(|(row, value)| probe.add(*row, *value));
    // the days of a series may all differ too, but they order the rows
    probe.identifier(&column.name).filter(|_| column.is_discrete && !is_series(column))
}

fn classes(target: &ColumnSample) -> Option<Finding> {
    let mut counts: Vec<(f64, usize)> =
        target.counts().into_iter().map(|(bits, n)| (f64::from_bits(bits), n)).collect();
    let row_count = target.present_count();
    if !target.is_discrete || counts.len() < 2 || counts.len() > MAX_CLASSES.min(row_count / 2) {
        return None;
    }
    counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.total_cmp(&b.0)));
    let share = |n: usize| percent(n as f64 / row_count as f64);
    let listed: Vec<String> = counts
        .iter()
        .take(MAX_LISTED_NAMES)
        .map(|(value, n)| format!("{} {}", target.show(*value), share(*n)))
        .collect();
    let ellipsis = if counts.len() > MAX_LISTED_NAMES { ", …" } else { "" };
    let is_rare = counts.last().is_some_and(|(_, n)| (*n * counts.len()) as f64 <= RARE_CLASS * row_count as f64);
    let options = match (is_rare, counts.len()) {
        (false, _) => "",
        (true, 2) => "tune any --measure auc; predict --top or --threshold",
        // the area under the ROC curve is defined for two classes
        (true, _) => "tune any --measure log-loss",
    };
    let what = format!("{}: {} values, {}{ellipsis}", target.name, counts.len(), join_with_commas(listed));
    Some(Finding::new(Topic::Classes, &[&target.name], what, options.to_string()))
}

fn constants(columns: &[&ColumnSample]) -> Option<Finding> {
    let constant_value = |column: &ColumnSample| {
        let first = column.present().next()?;
        (column.present_count() >= MIN_VALUES && column.present().all(|value| value == first)).then_some(first)
    };
    let affected: Vec<(&ColumnSample, f64)> =
        columns.iter().copied().filter_map(|column| Some((column, constant_value(column)?))).collect();
    let with_value = |(column, value): &(&ColumnSample, f64)| {
        let gaps = if column.present_count() < column.values.len() { " or missing" } else { "" };
        format!("{} ({}{gaps})", column.name, column.show(*value))
    };
    let listed: Vec<String> = affected.iter().map(with_value).collect();
    let is_complete = |column: &ColumnSample| column.present_count() == column.values.len();
    // whether a value is missing may say something
    let excluded: Vec<&str> =
        affected.iter().filter(|(column, _)| is_complete(column)).map(|(column, _)| &*column.name).collect();
    let affected: Vec<&str> = affected.iter().map(|(column, _)| &*column.name).collect();
    let listed = names(&listed.iter().map(String::as_str).collect::<Vec<_>>());
    // a fit gives a constant column no weight, so a long list need not be typed
    let excluded: &[&str] = if affected.len() > MAX_LISTED_NAMES { &[] } else { &excluded };
    (!affected.is_empty()).then(|| Finding::excluding(Topic::Constant, &affected, listed, excluded))
}

fn duplicates(columns: &[&ColumnSample]) -> Vec<Finding> {
    let compared = &columns[..columns.len().min(MAX_COMPARED_COLUMNS)];
    let mut repeated: HashSet<&str> = HashSet::new();
    let mut found = Vec::new();
    for (i, a) in compared.iter().enumerate() {
        for b in &compared[i + 1..] {
            if a.is_text() != b.is_text() || repeated.contains(&*b.name) {
                continue;
            }
            let pairs = complete_pairs(a, b);
            if pairs.len() < MIN_VALUES || 2 * pairs.len() < a.present_count().max(b.present_count()) {
                continue;
            }
            let what = if a.is_text() {
                let reversed: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
                let is_determined = |pairs: &[(f64, f64)]| determined_fraction(pairs, true).is_some_and(|f| f >= 1.0);
                let is_same = a.distinct_count() > 1 && is_determined(&pairs) && is_determined(&reversed);
                is_same.then(|| format!("{} and {}: each value of one goes with one of the other", a.name, b.name))
            } else {
                let r = correlation(&pairs);
                (r.abs() >= MIN_DUPLICATE_CORRELATION).then(|| format!("{} and {}: correlation {r:.4}", a.name, b.name))
            };
            if let Some(what) = what {
                repeated.insert(&b.name);
                found.push(Finding::excluding(Topic::Duplicate, &[&a.name, &b.name], what, &[&b.name]));
            }
        }
    }
    found
}

fn missing_values(columns: &[&ColumnSample], is_complete: bool) -> Option<Finding> {
    let fraction = |column: &ColumnSample| {
        column.values.iter().filter(|value| value.is_nan()).count() as f64 / column.values.len().max(1) as f64
    };
    let affected: Vec<&ColumnSample> =
        columns.iter().filter(|column| fraction(column) >= MIN_MISSING).copied().collect();
    let first = affected.first()?;
    let mask = |column: &ColumnSample| column.values.iter().map(|value| value.is_nan()).collect::<Vec<bool>>();
    let together = affected.len() > 1 && affected.iter().all(|column| mask(column) == mask(first));
    let about = if is_complete { "" } else { "about " };
    let shares: Vec<String> =
        affected.iter().map(|column| format!("{} {about}{}", column.name, percent(fraction(column)))).collect();
    let listed = names(&shares.iter().map(String::as_str).collect::<Vec<_>>());
    let together = if together { ", in the same rows" } else { "" };
    let names: Vec<&str> = affected.iter().map(|column| &*column.name).collect();
    Some(Finding::new(Topic::Missing, &names, format!("{listed}{together}"), "--missing indicator".to_string()))
}

fn long_tails(columns: &[&ColumnSample]) -> Option<Finding> {
    let kurtosis = |column: &ColumnSample| {
        let values: Vec<f64> = column.present().collect();
        let n = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / n;
        let moment = |power: i32| values.iter().map(|v| (v - mean).powi(power)).sum::<f64>() / n;
        let variance = moment(2);
        if variance > 0.0 { moment(4) / (variance * variance) } else { 0.0 }
    };
    let affected: Vec<&str> = columns
        .iter()
        .filter(|column| !column.is_text() && column.distinct_count() > MAX_CLASSES)
        .filter(|column| kurtosis(column) >= MIN_KURTOSIS)
        .map(|column| &*column.name)
        .collect();
    (!affected.is_empty()).then(|| {
        Finding::new(Topic::LongTails, &affected, names(&affected), "--scale asinh or --scale quantile".to_string())
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::inspect) fn column(name: &str, value: impl Fn(usize) -> f64) -> ColumnSample {
        let values: Vec<f64> = (0..400).map(value).collect();
        let is_discrete = values.iter().all(|value| value.is_nan() || value.fract() == 0.0);
        ColumnSample { name: name.to_string(), values, is_discrete, ..ColumnSample::default() }
    }

    pub(in crate::inspect) fn sample(columns: impl IntoIterator<Item = ColumnSample>) -> TableSample {
        TableSample { columns: columns.into_iter().collect(), row_numbers: (0..400).collect(), stored_rows: 400 }
    }

    pub(in crate::inspect) fn noise(i: usize) -> f64 {
        ((i * 7919 + 13) as f64).sin() * 43758.5453 % 1.0
    }

    fn topics(columns: impl IntoIterator<Item = ColumnSample>, target: Option<&str>) -> Vec<(Topic, Vec<String>)> {
        findings(&sample(columns), target).into_iter().map(|finding| (finding.topic, finding.columns)).collect()
    }

    #[test]
    fn ordinary_columns_are_not_mentioned() {
        let columns = [
            column("a", noise),
            column("b", |i| noise(3 * i)),
            column("count", |i| (10.0 * noise(i + 9)).floor()),
            column("y", |i| noise(i) + noise(i + 77)),
        ];
        assert_eq!(topics(columns.clone(), None), []);
        assert_eq!(topics(columns, Some("y")), []);
    }

    #[test]
    fn each_finding_names_its_columns() {
        let wage = |i: usize| 2.0 + noise(i);
        let cases: [(Topic, ColumnSample); 8] = [
            (Topic::GivesTargetAway, column("logwage", |i| wage(i).ln())),
            (Topic::Identifier, column("id", |i| (i * 7919 % 100_003) as f64)),
            (Topic::Constant, column("version", |_| 3.0)),
            (Topic::Duplicate, column("b2", |i| 5.0 - 2.0 * noise(3 * i))),
            (Topic::Missing, column("gaps", |i| if i % 9 == 0 { f64::NAN } else { noise(i + 5) })),
            (Topic::Order, column("year", |i| (1990 + i / 20) as f64)),
            (Topic::Groups, column("subject", |i| (i / 20 * 7 % 20) as f64)),
            (Topic::LongTails, column("income", |i| noise(i + 3).abs().powi(40) * 1e6 + noise(i))),
        ];
        for (topic, case) in cases {
            let name = case.name.clone();
            let found = topics([column("b", |i| noise(3 * i)), case, column("wage", wage)], Some("wage"));
            assert_eq!(found.len(), 1, "{name}: {found:?}");
            assert_eq!(found[0].0, topic, "{name}");
            assert!(found[0].1.contains(&name), "{name}: {found:?}");
        }
    }

    #[test]
    fn a_column_of_one_value_and_gaps_is_constant_and_stays() {
        let gaps = column("version", |i| if i % 9 == 0 { f64::NAN } else { 3.0 });
        let whole = sample([column("b", noise), gaps]);
        let found = findings(&whole, None);
        let [constant, missing] = &found[..] else { panic!("{found:?}") };
        assert_eq!((constant.topic, &*constant.finding), (Topic::Constant, "version (3 or missing)"));
        assert!(constant.options.is_empty() && missing.finding == "version 11.2 %", "{missing:?}");
        let found = findings(&TableSample { stored_rows: 5000, ..whole }, None);
        assert_eq!(found[1].finding, "version about 11.2 %");
    }

    #[test]
    fn classes_are_counted_and_rare_ones_have_an_option() {
        let found = |share: usize| {
            let target = column("spam", move |i| f64::from(i % share == 0));
            findings(&sample([column("b", |i| noise(3 * i)), target]), Some("spam"))
        };
        let balanced = &found(3)[0];
        assert_eq!(
            (balanced.topic, &*balanced.finding, &*balanced.options),
            (Topic::Classes, "spam: 2 values, 0 66.5 %, 1 33.5 %", "")
        );
        let rare = &found(20)[0];
        assert_eq!(
            (&*rare.finding, &*rare.options),
            ("spam: 2 values, 0 95.00 %, 1 5.00 %", "tune any --measure auc; predict --top or --threshold")
        );
        let three = column("status", |i| f64::from(i % 20 == 0) + f64::from(i % 40 == 0));
        let found = findings(&sample([column("b", |i| noise(3 * i)), three]), Some("status"));
        assert_eq!(found[0].options, "tune any --measure log-loss");
    }

    #[test]
    fn all_exclusions_together_are_one_option() {
        let wage = |i: usize| 2.0 + noise(i);
        let columns = [
            column("b", |i| noise(3 * i)),
            column("it's id", |i| (i * 7919 % 100_003) as f64),
            column("version", |_| 3.0),
            column("b2", |i| 5.0 - 2.0 * noise(3 * i)),
            column("subject", |i| (i / 20 * 7 % 20) as f64),
            column("logwage", |i| wage(i).ln()),
            column("fold", |i| (i * 7 % 5) as f64),
            column("wage", wage),
        ];
        let found = findings(&sample(columns), Some("wage"));
        assert_eq!(Finding::proposed_features(&found).unwrap(), "*,!logwage,!it's id,!version,!b2");
        let last = r"  all exclusions     --features '*,!logwage,!it'\''s id,!version,!b2'";
        assert_eq!(Finding::table(&found).to_string().lines().last(), Some(last));
        // a single finding has the option already
        let found = findings(&sample([column("version", |_| 3.0), column("b", noise)]), None);
        assert_eq!(Finding::proposed_features(&found).unwrap(), "*,!version");
        assert!(!Finding::table(&found).to_string().contains(ALL_EXCLUSIONS));
        assert_eq!(Finding::proposed_features(&[]), None);
    }

    #[test]
    fn findings_are_not_cut() {
        let what = "w".repeat(300);
        let options = format!("--test groups:20%:{}", "o".repeat(90));
        let text = Finding::table(&[Finding::new(Topic::Groups, &["g"], what.clone(), options.clone())]).to_string();
        assert!(text.contains(&format!("groups of rows   {what}\n")), "{text}");
        assert!(text.contains(&format!("\n{:19}{options}\n", "")), "{text}");
    }
}
