//! The report of an evaluation, and its text.

mod curves;
mod effects;
mod intervals;
mod page;

pub(crate) use curves::CURVE_STYLE;
pub(crate) use effects::importance_table;

use crate::table::{Align, AlignedTable, Grid, facts, format_count, format_list, number, optional_number, percent};
use intervals::{decile_table, interval_table, set_table};
use ksolve::job::{Run, StageObserver};
use ksolve::predict::{
    ChartData, ClassificationScores, ClusterReport, ColumnEffects, Evaluation, IntervalScores, LossScores,
    NoveltyScores, OutputLoss, Predictor, RankingScores, RegressionScores, TargetScores, ThresholdScores, TopScores,
};
use ksolve::{ModelMetadata, Task};
use kstore::{SelectedTable, display::escape_line};
use std::fmt;

/// The report of an evaluation.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "a run has one report")]
pub enum EvaluateReport {
    /// Scores of a regression or classification.
    Target(Evaluation),
    /// Scores of an anomaly detector.
    Novelty(NoveltyScores),
    /// Scores of a ranking.
    Ranking(RankingScores),
}

/// Maximum number of classes for which the text shows the confusion matrix; it always shows the
/// scores of each class.
const MAX_TEXT_MATRIX_CLASSES: usize = 10;

/// Describes the number of rows and, if there are standard errors, the numbers after ±.
fn row_fact(rows: f64, has_errors: bool, clusters: Option<&ClusterReport>) -> String {
    let note = match clusters {
        _ if !has_errors => String::new(),
        Some(clusters) => format!(" (± is one standard error over {})", escape_line(&clusters.to_string())),
        None => " (± is one standard error over rows)".to_string(),
    };
    format!("{}{note}", format_list(&[rows]))
}

/// Appends a standard error, if there is one: `1.470 ± 0.021`.
pub(crate) fn with_error(value: String, standard_error: Option<f64>) -> String {
    match standard_error {
        Some(error) => format!("{value} ± {}", number(error, 2)),
        None => value,
    }
}

/// Formats a fraction with its standard error: `3.12 % ± 0.28 %`.
pub(crate) fn percent_with_error(fraction: Option<f64>, standard_error: Option<f64>) -> String {
    match standard_error {
        Some(error) => format!("{} ± {} %", optional_percent(fraction), number(100.0 * error, 2)),
        None => optional_percent(fraction),
    }
}

fn describe_top(top: &TopScores, scores: &ClassificationScores) -> String {
    let rows = format_list(&[top.rows]);
    if top.precision.is_none() {
        return format!("the {rows} rows of --top exceed the rows of the table");
    }
    let class = scores.positive.as_ref().map_or("positive".to_string(), ToString::to_string);
    format!(
        "{} of the {rows} rows with the highest scores are {class}: recall {}, lift {}",
        optional_percent(top.precision),
        optional_percent(top.recall),
        optional_number(top.lift)
    )
}

/// Describes the mean area under the ROC curve of one class against the rest.
fn describe_macro_auc(auc: Option<f64>, scores: &ClassificationScores) -> String {
    let within = scores.by_class.iter().filter_map(|class| class.one_vs_rest?.auc_within).fold(0.0, f64::max);
    let note = if within > 0.0 { format!(", exact within {}", number(within, 2)) } else { String::new() };
    format!("{} (mean over one class against the rest{note})", optional_number(auc))
}

fn optional_percent(value: Option<f64>) -> String {
    percent(value.unwrap_or(f64::NAN))
}

impl fmt::Display for EvaluateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(Evaluation::Regression(scores)) => write_regression(scores, f)?,
            Self::Target(Evaluation::Classification(scores)) => write_classification(scores, f)?,
            Self::Ranking(scores) => write!(f, "{}", facts(ranking_facts(scores)))?,
            Self::Novelty(scores) => write!(f, "{}", facts(novelty_facts(scores)))?,
        }
        self.effects().map_or(Ok(()), |effects| write!(f, "\n{}", importance_table(effects)))
    }
}

impl EvaluateReport {
    /// Scores a model on selected rows with true values: as a ranking if the rows have a group
    /// column or the model ranks, as an anomaly detector, or by its target.
    ///
    /// `top` is the number of rows with the lowest scores (anomalies), or of the first places of
    /// each group (rankings), that are also scored; `None` selects the default. If
    /// `computes_effects` is true, also computes importance and partial dependence of the columns,
    /// if the model has them.
    ///
    /// # Errors
    /// The errors of [`Predictor::evaluate`], [`Predictor::evaluate_novelty`] and
    /// [`Predictor::evaluate_ranking`].
    #[doc(hidden)]
    pub fn compute(
        predictor: &Predictor,
        selected: &SelectedTable,
        top: Option<u64>,
        computes_effects: bool,
        run: &Run<'_>,
    ) -> ksolve::Result<(Self, ChartData)> {
        let task = predictor.metadata().task;
        if task == Task::Ranking || selected.group_column().is_some() {
            let scores = predictor.evaluate_ranking(selected, top, run)?;
            return Ok((Self::Ranking(scores), ChartData::default()));
        }
        if predictor.scores_anomalies() {
            let (scores, chart_data) = predictor.evaluate_novelty(selected, top, run)?;
            return Ok((Self::Novelty(scores), chart_data));
        }
        let (mut scores, chart_data) = predictor.evaluate(selected, run)?;
        if let Evaluation::Regression(scores) = &mut scores {
            scores.naive_forecast = predictor.naive_forecast(selected, run)?;
            naive_forecast_warning(scores, predictor.metadata())
                .into_iter()
                .for_each(|text| run.stage_recorder().warn(text));
        }
        if computes_effects {
            let effects = predictor.column_effects(selected, run)?;
            match &mut scores {
                Evaluation::Regression(scores) => scores.effects = effects,
                Evaluation::Classification(scores) => scores.effects = effects,
            }
        }
        Ok((Self::Target(scores), chart_data))
    }

    /// Returns the scores with their names.
    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Target(Evaluation::Regression(scores)) => regression_facts(scores),
            Self::Target(Evaluation::Classification(scores)) => classification_facts(scores),
            Self::Ranking(scores) => ranking_facts(scores),
            Self::Novelty(scores) => novelty_facts(scores),
        }
    }

    /// Returns the clusters of the standard errors; `None` if rows are treated as independent.
    pub(crate) fn error_clusters(&self) -> Option<&ClusterReport> {
        match self {
            Self::Target(Evaluation::Regression(scores)) => scores.error_clusters.as_ref(),
            Self::Target(Evaluation::Classification(scores)) => scores.error_clusters.as_ref(),
            Self::Ranking(_) | Self::Novelty(_) => None,
        }
    }

    /// Returns importance and partial dependence of the columns, if they were computed.
    #[doc(hidden)]
    pub fn effects(&self) -> Option<&ColumnEffects> {
        match self {
            Self::Target(Evaluation::Regression(scores)) => scores.effects.as_ref(),
            Self::Target(Evaluation::Classification(scores)) => scores.effects.as_ref(),
            Self::Ranking(_) | Self::Novelty(_) => None,
        }
    }

    /// Returns the table of the classes, if there are few.
    pub(crate) fn few_classes_table(&self) -> Option<AlignedTable> {
        match self {
            Self::Target(Evaluation::Classification(scores)) if scores.classes.len() <= MAX_TEXT_MATRIX_CLASSES => {
                Some(class_table(scores))
            }
            _ => None,
        }
    }
}

pub(super) fn ranking_facts(scores: &RankingScores) -> Vec<(&'static str, String)> {
    let errors = &scores.standard_errors;
    let note = errors.kendall.map_or("", |_| " (± is one standard error over groups)");
    vec![
        ("rows", format_count(scores.rows)),
        ("groups", format!("{} with rows of different grades{note}", format_count(scores.groups))),
        ("ndcg", with_error(optional_number(scores.ndcg), errors.ndcg)),
        (
            "first places",
            format!(
                "{} ndcg of the first {}",
                with_error(optional_number(scores.ndcg_at), errors.ndcg_at),
                format_count(scores.top)
            ),
        ),
        ("map", with_error(optional_number(scores.map), errors.map)),
        ("kendall", with_error(optional_number(scores.kendall), errors.kendall)),
        ("wrong pairs", optional_percent(scores.wrong_pairs)),
    ]
}

pub(super) fn regression_facts(scores: &RegressionScores) -> Vec<(&'static str, String)> {
    let mut facts =
        vec![("rows", row_fact(scores.rows, scores.standard_errors.mse.is_some(), scores.error_clusters.as_ref()))];
    facts.extend(scores.scores.named_values().map(|(name, value)| match name {
        "mape" | "rmspe" => (name, optional_percent(value)),
        _ => (name, with_error(optional_number(value), scores.standard_errors.of(name))),
    }));
    let describe_coverage =
        |fraction| format!("{} within 1.96 standard deviations (95 % if calibrated)", percent(fraction));
    facts.extend(scores.coverage.map(|coverage| ("coverage", describe_coverage(coverage))));
    facts.extend(scores.loss.iter().flat_map(loss_facts));
    facts.extend(scores.naive_forecast.iter().map(|naive| {
        let rows = match naive.rows as f64 == scores.rows {
            true => String::new(),
            false => format!(", on the {} rows with this value", format_count(naive.rows)),
        };
        let name = if naive.lag == 1 { "last value" } else { "past value" };
        (name, format!("rmse {} as the forecast (lag {}){rows}", number(naive.rmse, 4), naive.lag))
    }));
    facts
}

/// Warns if the naive forecast is better than the model.
fn naive_forecast_warning(scores: &RegressionScores, metadata: &ModelMetadata) -> Option<String> {
    let (naive, rmse) = (scores.naive_forecast?, scores.scores.rmse?);
    let new_values = "leave out columns whose values are new in these rows, such as dates, or change `lags`";
    let advice = match (metadata.base_column(), &metadata.targets[..]) {
        (None, [target]) => {
            format!("fit the change since this value (`difference` {target}:{}), {new_values}", naive.lag)
        }
        _ => format!("{new_values}; the last value is the best forecast of a random walk, such as a price"),
    };
    (rmse > naive.rmse).then(|| {
        format!(
            "the rmse {} is larger than the rmse {} of the {} value (lag {}) as the forecast; {advice}",
            number(rmse, 4),
            number(naive.rmse, 4),
            if naive.lag == 1 { "last" } else { "past" },
            naive.lag
        )
    })
}

fn loss_facts(loss: &LossScores) -> Vec<(&'static str, String)> {
    let LossScores { name, mean, interval, .. } = loss;
    let describe_interval = |IntervalScores { level, coverage, width }: &IntervalScores| {
        let (covered, requested) = (percent(*coverage), percent(*level));
        format!("{covered} of the true values in it ({requested} if calibrated), mean width {}", number(*width, 4))
    };
    let mut facts = vec![("loss", format!("{} {name}", number(*mean, 6)))];
    facts.extend(interval.iter().map(|interval| ("interval", describe_interval(interval))));
    facts
}

/// Returns a table of the quantiles or expectiles; `None` for a single output.
fn loss_table(loss: &LossScores) -> Option<AlignedTable> {
    if loss.outputs.len() < 2 {
        return None;
    }
    let headings =
        [("target", Align::Left), ("level", Align::Right), ("loss", Align::Right), ("at or below", Align::Right)];
    let mut table = AlignedTable::new(headings);
    for OutputLoss { target, level, mean, below } in &loss.outputs {
        table.push_row([target.clone(), optional_number(*level), number(*mean, 6), percent(*below)]);
    }
    Some(table)
}

pub(super) fn classification_facts(scores: &ClassificationScores) -> Vec<(&'static str, String)> {
    let errors = &scores.standard_errors;
    let of_positive = scores.positive.as_ref().map_or(String::new(), |label| format!(" of {label}"));
    let mut facts = vec![
        ("rows", row_fact(scores.rows, errors.error.is_some(), scores.error_clusters.as_ref())),
        ("error rate", percent_with_error(scores.error, errors.error)),
    ];
    facts.extend(scores.log_loss.map(|loss| ("log-loss", with_error(number(loss, 4), errors.log_loss))));
    facts.extend(scores.auc.map(|auc| ("auc", with_error(optional_number(auc), errors.auc))));
    facts.extend(scores.macro_means.iter().map(|means| ("macro auc", describe_macro_auc(means.auc, scores))));
    facts.extend([
        ("accuracy", optional_percent(scores.accuracy)),
        ("balanced accuracy", optional_percent(scores.balanced_accuracy)),
        ("f1", optional_number(scores.f1) + &of_positive),
        ("matthews", optional_number(scores.matthews)),
    ]);
    let average_precision = scores.average_precision.map(|area| number(area, 4) + &of_positive);
    facts.extend(average_precision.map(|area| ("average precision", area)));
    facts.extend(scores.brier.map(|brier| ("brier", with_error(number(brier, 4), errors.brier))));
    facts.extend(scores.top.iter().map(|top| ("highest scores", describe_top(top, scores))));
    facts.extend(scores.cost.iter().flat_map(|cost| {
        let ThresholdScores { threshold, false_alarms, misses, .. } = cost.best_threshold;
        let best = format!(
            "{}: cost {} per row, {} false positives, {} false negatives; set it with --threshold",
            number(threshold, 4),
            number(cost.minimum, 4),
            format_list(&[false_alarms]),
            format_list(&[misses])
        );
        [("cost", format!("{} per row at the current threshold", number(cost.current, 4))), ("best threshold", best)]
    }));
    if scores.unknown > 0.0 {
        facts.push((
            "unknown",
            format!(
                "{} of the rows have a class that the model does not know; error rate, accuracy, precision and f1 count them as errors, all \
                 other scores leave them out",
                format_list(&[scores.unknown])
            ),
        ));
    }
    facts
}

pub(super) fn novelty_facts(scores: &NoveltyScores) -> Vec<(&'static str, String)> {
    let NoveltyScores { precision, recall, precision_at, auc, auc_standard_error, average_precision, .. } = *scores;
    let mut facts = vec![
        ("rows", row_fact(scores.rows, auc_standard_error.is_some(), None)),
        ("outliers", format!("{} by the target", format_list(&[scores.outliers]))),
    ];
    if let Some(negative_scores) = scores.negative_scores {
        let negative = format_list(&[negative_scores]);
        facts.push(("score below 0", format!("{negative} rows, {} of them outliers", optional_percent(precision))));
        facts.push(("recall", format!("{} of the outliers have a score below 0", optional_percent(recall))));
    }
    let (title, order) = match scores.negative_scores {
        Some(_) => ("lowest scores", "lowest scores"),
        None => ("largest errors", "largest reconstruction errors"),
    };
    let (precision_at, top) = (optional_percent(precision_at), format_list(&[scores.top]));
    facts.push((title, format!("{precision_at} of the {top} rows with the {order} are outliers")));
    facts.push(("auc", with_error(optional_number(auc), auc_standard_error)));
    facts.push(("average precision", optional_number(average_precision)));
    facts
}

fn write_regression(scores: &RegressionScores, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if !scores.by_target.is_empty() {
        let headings = scores.scores.named_values().map(|(name, _)| (name, Align::Right));
        let mut table = AlignedTable::new(std::iter::once(("target", Align::Left)).chain(headings));
        for TargetScores { target, scores, standard_errors } in &scores.by_target {
            let scores =
                scores.named_values().map(|(name, value)| with_error(optional_number(value), standard_errors.of(name)));
            table.push_row(std::iter::once(target.clone()).chain(scores));
        }
        writeln!(f, "{table}")?;
    }
    if let Some(table) = scores.loss.as_ref().and_then(loss_table) {
        writeln!(f, "{table}")?;
    }
    let interval_tables = [interval_table(&scores.intervals), decile_table(&scores.intervals)];
    interval_tables.into_iter().flatten().try_for_each(|table| writeln!(f, "{table}"))?;
    write!(f, "{}", facts(regression_facts(scores)))
}

fn write_classification(scores: &ClassificationScores, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    set_table(&scores.sets).iter().try_for_each(|table| writeln!(f, "{table}"))?;
    writeln!(f, "{}", facts(classification_facts(scores)))?;
    if scores.classes.len() <= MAX_TEXT_MATRIX_CLASSES {
        writeln!(f, "{}", confusion_grid(scores))?;
    }
    write!(f, "{}", class_table(scores))
}

pub(super) fn confusion_grid(scores: &ClassificationScores) -> Grid {
    let rows = scores.classes.iter().zip(&scores.confusion);
    Grid {
        corner: "true \\ predicted".to_string(),
        columns: scores.classes.iter().map(ToString::to_string).collect(),
        rows: rows.map(|(label, row)| (label.to_string(), row.iter().map(|n| format_list(&[*n])).collect())).collect(),
        marked_cell: None,
    }
}

/// Returns a table of the classes. For each class it has the number of rows, precision, recall, F1
/// and, for more than two classes, the areas of its ROC and precision-recall curves against the
/// rest; then the other class with which the model confuses it most often. Means follow.
pub(super) fn class_table(scores: &ClassificationScores) -> AlignedTable {
    let areas = scores.macro_means.iter().flat_map(|_| ["auc", "average precision"]);
    let headings = ["class", "rows", "precision", "recall", "f1"].into_iter().chain(areas);
    let headings = headings.map(|heading| (heading, Align::Right));
    let mut table = AlignedTable::new(headings.chain([("most often confused with", Align::Left)]));
    let classes = scores.classes.iter().zip(&scores.by_class).zip(&scores.confusion);
    let one_decimal = |fraction: Option<f64>| {
        fraction.map_or(optional_percent(None), |fraction| format!("{:.1} %", 100.0 * fraction))
    };
    for (k, ((label, class), row)) in classes.enumerate() {
        let most_confused =
            row.iter().enumerate().filter(|(j, n)| *j != k && **n > 0.0).max_by(|a, b| a.1.total_cmp(b.1));
        let format_class = |(j, n): (usize, &f64)| format!("{} ({})", scores.classes[j], percent(n / class.rows));
        let [precision, recall] = [class.precision, class.recall].map(one_decimal);
        let areas = class.one_vs_rest.iter().flat_map(|areas| [areas.auc, areas.average_precision]);
        let numbers = std::iter::once(class.f1).chain(areas).map(optional_number);
        let confused_with = most_confused.map(format_class).unwrap_or_default();
        let first = [label.to_string(), format_list(&[class.rows]), precision, recall];
        table.push_row(first.into_iter().chain(numbers).chain([confused_with]));
    }
    if let Some(means) = &scores.macro_means {
        let [precision, recall] = [means.precision, means.recall].map(one_decimal);
        let numbers = [means.f1, means.auc, means.average_precision].map(optional_number);
        let first = ["macro mean".to_string(), String::new(), precision, recall];
        table.push_row(first.into_iter().chain(numbers).chain([String::new()]));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use kmodel::score::RegressionMetrics;
    use ksolve::predict::{ClassScores, MacroMeans, OneVsRestScores, RegressionErrors};
    use kstore::Label;

    #[test]
    fn a_regression_has_the_contracts_keys_and_null_for_what_is_not_defined() {
        let (mse, rmse, mae) = (Some(4.0), Some(2.0), Some(1.5));
        let (median_error, mape) = (Some(1.25), Some(0.125));
        let scores = RegressionMetrics { mse, rmse, mae, median_error, mape, r2: None, relative_error: None };
        let by_target = Vec::new();
        let standard_errors = RegressionErrors { mae: Some(0.25), ..RegressionErrors::default() };
        let scores = RegressionScores {
            rows: 10.0,
            scores,
            standard_errors,
            error_clusters: None,
            by_target,
            coverage: None,
            loss: None,
            intervals: Vec::new(),
            naive_forecast: None,
            effects: None,
        };
        let report = EvaluateReport::Target(Evaluation::Regression(scores));
        let expected = r#"{"rows":10,"mse":4.0,"rmse":2.0,"mae":1.5,"median_error":1.25,"mape":0.125,"r2":null,"relative_error":null,"standard_errors":{"mse":null,"rmse":null,"mae":0.25,"r2":null}}"#;
        assert_eq!(serde_json::to_string(&report).unwrap(), expected);
        let text = "  rows          10\n  rmse          2.000\n  mae           1.500 ± 0.25\n  median error  1.250\n  \
            r2            –\n  mape          12.5 %\n  rmspe         –\n  mse           4.000\n";
        assert_eq!(report.to_string(), text);
    }

    fn classification(classes: i64) -> EvaluateReport {
        let row = |k: i64| {
            (0..classes).map(move |j| [0.0, 10.0, 90.0][usize::from(j == (k + 1) % classes) + 2 * usize::from(j == k)])
        };
        EvaluateReport::Target(Evaluation::Classification(ClassificationScores {
            rows: 100.0 * classes as f64,
            accuracy: Some(0.9),
            error: Some(0.1),
            classes: (0..classes).map(Label::Int).collect(),
            confusion: (0..classes).map(|k| row(k).collect()).collect(),
            by_class: vec![
                ClassScores {
                    rows: 100.0,
                    precision: Some(0.9),
                    recall: Some(0.9),
                    ..ClassScores::default()
                };
                classes as usize
            ],
            auc: (classes == 2).then_some(Some(0.975)),
            ..ClassificationScores::default()
        }))
    }

    #[test]
    fn two_classes_show_their_matrix_and_auc() {
        let expected = "  rows               200
  error rate         10.0 %
  auc                0.9750
  accuracy           90.0 %
  balanced accuracy  –
  f1                 –
  matthews           –

  true \\ predicted   0   1
                 0  90  10
                 1  10  90

  class  rows  precision  recall  f1  most often confused with
      0   100     90.0 %  90.0 %   –  1 (10.0 %)
      1   100     90.0 %  90.0 %   –  0 (10.0 %)
";
        assert_eq!(classification(2).to_string(), expected);
        let json = serde_json::to_value(classification(2)).unwrap();
        assert_eq!(json["confusion"], serde_json::json!([[90, 10], [10, 90]]));
        assert_eq!((&json["auc"], &json["classes"]), (&0.975.into(), &serde_json::json!([0, 1])));
    }

    #[test]
    fn three_classes_have_areas_against_the_rest_and_means() {
        let EvaluateReport::Target(Evaluation::Classification(mut scores)) = classification(3) else { panic!() };
        for (class, area) in scores.by_class.iter_mut().zip([0.9, 0.8, 0.7]) {
            let average_precision = Some(area / 2.0);
            class.one_vs_rest = Some(OneVsRestScores { auc: Some(area), auc_within: None, average_precision });
        }
        scores.macro_means = Some(MacroMeans { recall: Some(0.9), auc: Some(0.8), ..MacroMeans::default() });
        let text = EvaluateReport::Target(Evaluation::Classification(scores.clone())).to_string();
        assert!(text.contains("\n  macro auc          0.8000 (mean over one class against the rest)\n"), "{text}");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let table: Vec<String> = text.lines().map(words).skip_while(|line| !line.starts_with("class ")).collect();
        let expected = [
            "class rows precision recall f1 auc average precision most often confused with",
            "0 100 90.0 % 90.0 % – 0.9000 0.4500 1 (10.0 %)",
            "1 100 90.0 % 90.0 % – 0.8000 0.4000 2 (10.0 %)",
            "2 100 90.0 % 90.0 % – 0.7000 0.3500 0 (10.0 %)",
            "macro mean – 90.0 % – 0.8000 –",
        ];
        assert_eq!(table, expected, "{text}");
        scores.by_class[1].one_vs_rest.as_mut().unwrap().auc_within = Some(0.0012);
        assert!(describe_macro_auc(Some(0.8), &scores).ends_with("rest, exact within 0.0012)"));
    }

    #[test]
    fn many_classes_have_a_line_each() {
        let text = classification(12).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[7], "  class  rows  precision  recall  f1  most often confused with");
        assert_eq!(lines[8], "      0   100     90.0 %  90.0 %   –  1 (10.0 %)");
        assert_eq!(lines.len(), 20);
        assert!(serde_json::to_value(classification(12)).unwrap().get("auc").is_none());
    }
}
