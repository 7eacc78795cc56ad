//! The most anomalous rows of a table, in descending order.

use super::explanation::{self, FeatureContribution};
use super::kept_columns::{self, KeptColumnReader};
use super::writer::{PredictionWriter, WriterSetup};
use super::{AnyPreparedModel, Extras, Predictor, Scores, decision::ColumnGroup, prepared_model::PreparedModel};
use crate::{Error, Result, linalg::strips::lock, model::match_precision, run::Run, score::orient_score};
use kapprox::Real;
use kstore::sink::{self, OutputColumn, OutputKind};
use kstore::{KeptColumn, ReadSettings, SelectedTable, Workers, budget::MemoryTerm};
use std::sync::{Arc, Mutex, PoisonError};
use std::{collections::BinaryHeap, path::Path};

/// Collects the `capacity` smallest values of a stream.
#[derive(Debug)]
pub(super) struct Smallest<V> {
    capacity: usize,
    heap: BinaryHeap<V>,
}

impl<V: Ord> Smallest<V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, heap: BinaryHeap::new() }
    }

    pub(super) fn push(&mut self, value: V) {
        if self.heap.len() < self.capacity {
            self.heap.push(value);
        } else if let Some(mut largest) = self.heap.peek_mut().filter(|largest| value < **largest) {
            *largest = value;
        }
    }

    pub(super) fn into_sorted_vec(self) -> Vec<V> {
        self.heap.into_sorted_vec()
    }
}

/// Maps a score to an integer, so that the integers have the order of [`f64::total_cmp`].
/// [`score_of_bits`] is the inverse.
fn order_bits(score: f64) -> u64 {
    let bits = score.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn score_of_bits(ordered: u64) -> f64 {
    f64::from_bits(if ordered >> 63 == 1 { ordered ^ 1 << 63 } else { !ordered })
}

/// Maximum number of rows with explanations.
const MAX_EXPLAINED_ROWS: usize = 1000;

/// Bytes of the numbers and fixed words in the text of a reason.
const REASON_TEXT_BYTES: usize = 40;

/// An anomalous row.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct AnomalousRow {
    /// Row number in the table.
    pub row: u64,
    /// Score, lower for more anomalous rows; for components the squared distance from their span,
    /// larger for more anomalous rows; for two classes the score of the positive class.
    pub score: f64,
    /// Explanation, the strongest reason first; only for the first 1,000 rows, and not for classes.
    pub reasons: Vec<FeatureContribution>,
}

impl Predictor {
    /// Writes the `top` most anomalous rows to a file, the most anomalous first, and returns them;
    /// all rows if the table has fewer. For a model of two classes, these are the rows with the
    /// highest scores of the positive class.
    ///
    /// The columns are the columns that `kept_table` selects, then `row`, the row number in the
    /// table, then `score` or `novelty`. Formats with text also get `reasons`. For a model of two
    /// classes, the prediction, the score and the probabilities follow `row`.
    ///
    /// *Cost*: one pass, the kept columns of the written rows, and their reasons
    /// ([`FeatureContribution`]). *Bytes*: as [`Predictor::score_table`], and the rows to write.
    ///
    /// # Errors
    /// A model that does not score anomalies; the errors of [`Predictor::write`].
    pub fn write_top(
        &self,
        selected: &SelectedTable,
        kept_table: Option<&SelectedTable>,
        top: usize,
        path: &Path,
        run: &Run<'_>,
    ) -> Result<Vec<AnomalousRow>> {
        let is_component_model = self.has_reconstruction_errors();
        let is_classifier = self.classes().is_some_and(|classes| classes.labels().len() == 2);
        if !self.scores_anomalies() && !is_classifier {
            let why = "only models of oneclass and mean, of two classes, and of kpca with `novelty` order rows by a score; omit the option";
            return Err(Error::option("top", top, why));
        }
        if self.metadata().sparse_shape().is_some() && !is_classifier {
            return Err(Error::option("top", top, "anomalies in sparse rows are not explained; omit the option"));
        }
        let max_reason_bytes =
            self.metadata().features.iter().map(|name| name.len() + REASON_TEXT_BYTES).max().unwrap_or(0);
        let reasons = ColumnGroup::Explanation(explanation::MAX_REASONS * max_reason_bytes);
        let has_text = sink::supports(path, &OutputColumn::new("reasons", OutputKind::Text)).unwrap_or(false);
        let score_columns = match is_component_model {
            true => vec![ColumnGroup::Novelty],
            // for a model without classes, the extras have no columns
            false => self.column_groups(Extras { scores: true, probabilities: true, ..Extras::default() }),
        };
        let column_groups = std::iter::once(ColumnGroup::Row)
            .chain(score_columns)
            .chain((has_text && !is_classifier).then_some(reasons))
            .collect();
        let extras = Extras { novelty: is_component_model, ..Extras::default() };
        let max_row_count = top.min(selected.row_count_if_known().map_or(usize::MAX, |rows| rows as usize));
        let bytes_per_row = 5 * size_of::<(u64, u64)>() + kept_table.map_or(0, SelectedTable::kept_bytes_per_row);
        // the reasons, as values and as text
        let bytes_per_row = bytes_per_row + explanation::MAX_REASONS * 2 * max_reason_bytes + 8 * self.feature_count();
        let row_term = |_: &PredictionWriter| {
            MemoryTerm::new("rows with the lowest scores", max_row_count.saturating_mul(bytes_per_row), "lower `top`")
        };
        let WriterSetup { writer: mut out, plan_terms: terms, text_limit } =
            self.create_writer(selected, kept_table, column_groups, extras, path, run, row_term)?;
        // the first rows have the lowest products of sign and score
        let sign = match is_classifier {
            true => orient_score(-1.0, self.rule.positive_class),
            false if is_component_model => -1.0,
            false => 1.0,
        };
        let mut lowest_scores = Smallest::new(top);
        self.score_table(selected, extras, terms, run, |scores| {
            let row_values = if is_component_model { &scores.quadratic } else { &scores.scores };
            row_values
                .iter()
                .zip(&scores.row_numbers)
                .for_each(|(score, row)| lowest_scores.push((order_bits(sign * score), *row)));
            Ok(())
        })?;
        let ranked_rows = lowest_scores.into_sorted_vec();
        let mut row_numbers: Vec<u64> = ranked_rows.iter().map(|(_, row)| *row).collect();
        row_numbers.sort_unstable();
        let source = kept_table.map(|kept| kept_columns::kept_table_rows(kept, text_limit)).transpose()?;
        let kept_columns = source
            .map_or(Ok(Vec::new()), |source| read_kept_columns(&mut KeptColumnReader::new(&source)?, &row_numbers))?;
        let max_explained_rows = if is_classifier { 0 } else { MAX_EXPLAINED_ROWS };
        let explained_rows: Vec<u64> = ranked_rows.iter().take(max_explained_rows).map(|(_, row)| *row).collect();
        let mut reasons = match explained_rows.is_empty() {
            true => Vec::new(),
            false => {
                match_precision!(AnyPreparedModel: &self.model, prepared => explain_rows(prepared, selected, &explained_rows, run.workers()))?
            }
        };
        reasons.resize(ranked_rows.len(), Vec::new());
        let ranked_reasons = ranked_rows.iter().zip(reasons);
        let anomalies = ranked_reasons.map(|((score, row), reasons)| AnomalousRow {
            row: *row,
            score: sign * score_of_bits(*score),
            reasons,
        });
        let mut anomalies: Vec<AnomalousRow> = anomalies.collect();
        for chunk in anomalies.chunks(kept_columns::KEPT_TILE_ROWS) {
            let positions: Vec<usize> =
                chunk.iter().map(|row| row_numbers.partition_point(|other| *other < row.row)).collect();
            let (values, row_numbers): (Vec<f64>, _) = chunk.iter().map(|row| (row.score, row.row)).unzip();
            let reasons = chunk.iter().map(|row| explanation::explanation_text(&row.reasons)).collect();
            let scores = match is_component_model {
                true => Scores { quadratic: values, row_numbers, explanations: reasons, ..Scores::default() },
                false => Scores { scores: values, row_numbers, explanations: reasons, ..Scores::default() },
            };
            out.write_rows(&scores, 0..chunk.len(), &permute_rows(&kept_columns, &positions))?;
        }
        out.finish()?;
        if is_classifier {
            anomalies.iter_mut().for_each(|row| row.score = orient_score(row.score, self.rule.positive_class));
        }
        Ok(anomalies)
    }
}

fn explain_rows<T: Real>(
    prepared: &PreparedModel<T>,
    selected: &SelectedTable,
    row_numbers: &[u64],
    workers: &Workers,
) -> Result<Vec<Vec<FeatureContribution>>> {
    let (search, d) = (explanation::ExplanationSearch::new(prepared)?, prepared.model.scaler.input_count());
    // the scaler imputes missing values; `unscale` below then returns to the units of the table
    let scaler = Some(Arc::new(prepared.model.scaler.clone()));
    let scaled_rows = selected.rows::<f64>(ReadSettings { scaler, ..ReadSettings::default() })?.gather(row_numbers)?;
    let results: Mutex<Result<Vec<Vec<FeatureContribution>>>> = Mutex::new(Ok(vec![Vec::new(); row_numbers.len()]));
    workers.for_each(scaled_rows.x().chunks_exact(d.max(1)).enumerate().collect(), |(i, x)| {
        let scaler = &prepared.model.scaler;
        let x: Vec<f64> =
            x.iter().enumerate().map(|(j, v)| explanation::unscale(scaler, j, *v, f64::EPSILON)).collect();
        let reasons = search.explain(&x);
        let mut results = lock(&results);
        match (&mut *results, reasons) {
            (Ok(all_reasons), Ok(reasons)) => all_reasons[i] = reasons,
            (Ok(_), Err(error)) => *results = Err(error),
            (Err(_), _) => {}
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the kept columns of these rows. The row numbers must be ascending.
fn read_kept_columns(reader: &mut KeptColumnReader<'_>, row_numbers: &[u64]) -> Result<Vec<KeptColumn>> {
    let (mut columns, mut rows_read) = (Vec::<KeptColumn>::new(), 0);
    while rows_read < row_numbers.len() {
        let (count, tile_columns) = reader.read_next(&row_numbers[rows_read..])?;
        if columns.is_empty() {
            columns = tile_columns.iter().map(|column| KeptColumn::new(column.kind())).collect();
        }
        columns.iter_mut().zip(tile_columns).for_each(|(to, from)| to.append(from, 0..count));
        rows_read += count;
    }
    Ok(columns)
}

/// Returns the columns with their rows in the order of `positions`.
fn permute_rows(columns: &[KeptColumn], positions: &[usize]) -> Vec<KeptColumn> {
    let permute = |from: &KeptColumn| {
        let mut to = KeptColumn::new(from.kind());
        positions.iter().for_each(|position| to.append(from, *position..position + 1));
        to
    };
    columns.iter().map(permute).collect()
}
