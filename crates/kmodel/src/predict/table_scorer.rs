//! Predictions of a model for the rows of a table, segment by segment (ranges of consecutive rows),
//! in row order.

use super::Extras;
use super::prepared_model::{InputBuffers, PreparedModel, is_far_outside};
use super::shapley::{ExplanationTarget, ShapleyExplainer};
use crate::row_weights::{self, RowWeights};
use crate::{
    Error, PreImages, Result,
    model::{BasisTransform, MatrixKind, Outputs},
    run::{Run, StageObserver},
};
use faer::{MatMut, MatRef};
use kapprox::{KernelFunction, Real};
use kstore::budget::MemoryTerm;
use kstore::encoding::ColumnEncoding;
use kstore::pass::lanes::{self, FittingLanes, LaneMemory};
use kstore::{
    Label, LabelCodes, Missing, Pass, ReadSettings, Reduction, RowBlock, RowSource, SelectedTable, TableRows, Workers,
    display,
};
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Scores of the rows of a segment, with their true values and row numbers in the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// Scores, row-major, t per row.
    pub scores: Vec<f64>,
    /// Components in addition to predictions, row-major, q per row; empty unless requested. For
    /// prediction intervals, the outputs of the functions of each fold, by fold.
    pub components: Vec<f64>,
    /// Values of the model's quadratic function, one per row; empty unless requested.
    pub quadratic: Vec<f64>,
    /// √(k(x, x) − ‖φ(x)‖²), one per row: the norm of the residual outside the span of the
    /// features. With [`Extras::squares`], k(x, x) instead. Empty unless requested.
    pub residual: Vec<f64>,
    /// Pre-images, row-major, d per row; empty unless requested.
    pub preimages: Vec<f64>,
    /// Number of pre-images that did not converge.
    pub unconverged_count: u64,
    /// Numeric targets of the table, row-major; empty without targets.
    pub y: Vec<f64>,
    /// Row weights, if the selection has a weight column.
    pub weights: RowWeights,
    /// Codes of the class column in the model's classes; empty without a class column.
    pub classes: Vec<u32>,
    /// Labels of the group column; empty without a group column.
    pub groups: Vec<Label>,
    /// Stored row numbers.
    pub row_numbers: Vec<u64>,
    /// Contributions of the columns to the explained output, then the mean prediction of the
    /// background, for each row; empty unless requested.
    #[doc(hidden)]
    pub contributions: Vec<f64>,
    /// Explanations of the anomalies or of the predictions, as text; empty unless requested.
    pub explanations: Vec<String>,
    /// True for rows with missing values, whose other numbers are meaningless; empty unless such
    /// rows are kept.
    pub is_incomplete: Vec<bool>,
}

/// Maximum bytes of the outputs of a segment. If rows have many outputs, a segment has fewer rows.
/// The outputs of a row do not depend on its segment.
const MAX_SEGMENT_BYTES: usize = 64 << 20;

/// The outputs of a segment take at most the memory budget divided by this number.
const SEGMENT_MEMORY_DIVISOR: usize = 8;

pub(super) struct TableScorer<'a, T: Real> {
    prepared: &'a PreparedModel<T>,
    /// The selected rows; they keep the base of a model of changes.
    selected: Cow<'a, SelectedTable>,
    extras: Extras,
    /// Number of components to compute.
    component_count: usize,
    /// The kernel, if k(x, x) is needed.
    kernel: Option<Arc<dyn KernelFunction<T>>>,
    preimages: Option<PreImages>,
    explainer: Option<ShapleyExplainer<'a, T>>,
    /// Number of rows with a value far outside the ranges of the model.
    outside_row_count: AtomicU64,
    /// Number of values of each feature far outside its range.
    outside_value_counts: Vec<AtomicU64>,
    /// Number of kept rows that have a missing value.
    incomplete_row_count: AtomicU64,
}

/// Minimum fraction of rows far outside the range of a date for a warning about the date. Of the
/// last 15 % of the rows of a period, 43 % are as far outside.
const MIN_OUTSIDE_TIMES: f64 = 1.0 / 3.0;

impl<'a, T: Real> TableScorer<'a, T> {
    pub(super) fn new(
        prepared: &'a PreparedModel<T>,
        selected: &'a SelectedTable,
        extras: Extras,
        explained: ExplanationTarget<'_>,
    ) -> Result<Self> {
        let model = &prepared.model;
        // intervals are scaled by standard deviations
        let extras = Extras { std: extras.std || extras.intervals && model.quadratic.is_some(), ..extras };
        let needs_kernel = extras.has_quadratic() || extras.needs_diagonal() || model.quadratic_in_scores().is_some();
        let kernel = if needs_kernel { Some(model.kernel()?) } else { None };
        let preimages = if extras.preimages { Some(PreImages::new(model)?) } else { None };
        let explainer = if extras.needs_explainer() { Some(ShapleyExplainer::new(prepared, explained)?) } else { None };
        let component_count = if extras.components || extras.intervals { model.component_count() } else { 0 };
        let selected = match &prepared.base_column {
            Some(base_column) => Cow::Owned(selected.with_kept_columns(std::iter::once(base_column))?),
            None => Cow::Borrowed(selected),
        };
        let range_count = prepared.ranges.as_ref().map_or(0, Vec::len);
        Ok(Self {
            prepared,
            selected,
            extras,
            component_count,
            kernel,
            preimages,
            explainer,
            outside_row_count: AtomicU64::new(0),
            outside_value_counts: (0..range_count).map(|_| AtomicU64::new(0)).collect(),
            incomplete_row_count: AtomicU64::new(0),
        })
    }

    /// Returns the lanes that fit in memory next to `other_terms`, the plan terms of the caller,
    /// and the number of rows of a segment.
    ///
    /// The segment is halved until a lane fits, so that an error names the smallest sufficient
    /// memory.
    pub(super) fn plan_lanes(
        &self,
        memory: usize,
        threads: usize,
        other_terms: &[MemoryTerm],
    ) -> Result<(FittingLanes, u64)> {
        let model = &self.prepared.model;
        let source = self.source()?;
        let (shape, (m, d, _)) = (source.shape(), model.dims());
        let target_value_count = shape.target_count + usize::from(shape.has_weights);
        let preimage_bytes = if self.preimages.is_some() { PreImages::bytes(m, d) } else { 0 };
        let rounded_bytes =
            if model.rounds_to_f32() || self.keeps_incomplete() { shape.input_count * size_of::<T>() } else { 0 };
        let metric_bytes = if model.metric.is_some() { d * size_of::<T>() } else { 0 };
        let range_bytes = self.outside_value_counts.len() * size_of::<T>();
        let tile_rows = self.tile_rows(threads);
        let explainer_bytes = self.explainer.as_ref().map_or(0, |explainer| explainer.tile_bytes(tile_rows, threads));
        let tile_bytes = tile_rows * (rounded_bytes + metric_bytes + range_bytes) + explainer_bytes;
        let range = self.selected.range();
        let mut segment_rows = self.segment_rows(target_value_count, memory);
        loop {
            let row_count = segment_rows.min(range.end - range.start) as usize;
            let lane_memory = LaneMemory {
                tile_rows,
                name: "kernel values and scores",
                bytes: model.scratch_bytes(1) + tile_bytes + row_count * self.row_bytes(target_value_count),
                shared_terms: [other_terms, &[self.prepared.plan_term(preimage_bytes)]].concat(),
            };
            match lanes::fitting_lanes("prediction", &source, &lane_memory, memory, threads) {
                Err(_) if segment_rows > lanes::TILE_ROWS as u64 => {
                    segment_rows = (segment_rows / 2).max(lanes::TILE_ROWS as u64)
                }
                lanes => return Ok((lanes?, segment_rows)),
            }
        }
    }

    fn tile_rows(&self, threads: usize) -> usize {
        self.explainer.as_ref().map_or(lanes::TILE_ROWS, |explainer| explainer.tile_rows(threads))
    }

    /// Returns the bytes per row of a segment: scores, components, quadratic function and residual,
    /// pre-image, targets, class code, group label, and row number.
    fn row_bytes(&self, target_values: usize) -> usize {
        let (_, d, t) = self.prepared.model.dims();
        let preimage_len = if self.preimages.is_some() { d } else { 0 };
        let extra_count = usize::from(self.extras.has_quadratic()) + usize::from(self.extras.needs_diagonal());
        let f64_count =
            t + self.component_count + extra_count + target_values + preimage_len + self.interval_value_count();
        let group_bytes = self.selected.group_column().map_or(0, |_| size_of::<Label>());
        f64_count * size_of::<f64>()
            + size_of::<u32>()
            + size_of::<u64>()
            + group_bytes
            + self.explainer.as_ref().map_or(0, |explainer| explainer.row_bytes(self.extras))
            + usize::from(self.keeps_incomplete() || self.prepared.base_column.is_some())
    }

    /// Returns an upper bound on the number of interval ends, or of classes in sets, of a row.
    fn interval_value_count(&self) -> usize {
        let model = &self.prepared.model;
        let intervals = model.intervals.as_ref().filter(|_| self.extras.intervals);
        intervals.map_or(0, |intervals| intervals.levels.len() * (2 * model.dims().2).max(model.metadata.classes.len()))
    }

    fn keeps_incomplete(&self) -> bool {
        self.selected.missing() == Missing::Keep
    }

    fn segment_rows(&self, target_values: usize, memory: usize) -> u64 {
        let bytes = MAX_SEGMENT_BYTES.min(memory / SEGMENT_MEMORY_DIVISOR);
        let tile_count = bytes / self.row_bytes(target_values) / lanes::TILE_ROWS;
        ((tile_count.max(1) * lanes::TILE_ROWS) as u64).min(lanes::SEGMENT_ROWS)
    }

    /// Returns the source of the scaled rows. The metric is not applied here, because the rows must
    /// be rounded first.
    fn source(&self) -> Result<TableRows<T>> {
        let labels = &self.prepared.model.metadata.classes;
        let classes = (!labels.is_empty()).then(|| Arc::new(labels.clone()));
        let scaler = Some(Arc::new(self.prepared.model.scaler.clone()));
        Ok(self.selected.rows::<T>(ReadSettings { scaler, class_labels: classes, ..ReadSettings::default() })?)
    }

    /// Scores every selected row, hands the segments to `visitor` in row order, and returns the
    /// number of rows.
    pub(super) fn score_segments(
        &self,
        run: &Run<'_>,
        lanes: FittingLanes,
        segment_rows: u64,
        mut visitor: impl FnMut(&Scores) -> Result<()> + Send,
    ) -> Result<u64> {
        let source = self.source()?;
        let recorder = run.stage_recorder();
        let stage_name = if self.explainer.is_some() { "predict and explain" } else { "predict" };
        let observer = recorder.start_stage(stage_name, self.selected.row_count_if_known());
        let tile_rows = self.tile_rows(run.workers().threads());
        let pass = Pass { tile_rows, segment_rows, ..lanes::default_pass(lanes.count, run.workers(), &*observer) };
        let report = pass.for_each_segment(&source, self, |scores: Scores| visitor(&scores))?;
        if report.rows == 0 {
            let what = self.selected.table().files().next().map(|file| file.display().to_string()).unwrap_or_default();
            let why = "no rows remain after `rows`, `where`, `missing` and weights of 0; select more rows".to_string();
            return Err(kstore::Error::Empty { what, why }.into());
        }
        self.warn_about_rows(report.rows, source.rows_without_target(), &recorder);
        Ok(report.rows)
    }

    /// If the row has values far outside the ranges of the model, counts the row and these values.
    fn count_outside(&self, row: &[T], ranges: &[[T; 2]]) {
        let is_far_value = |(value, range): (&T, &[T; 2])| is_far_outside(*value, *range);
        if row.iter().zip(ranges).any(is_far_value) {
            self.outside_row_count.fetch_add(1, Ordering::Relaxed);
            for (value, count) in row.iter().zip(ranges).zip(&self.outside_value_counts) {
                count.fetch_add(u64::from(is_far_value(value)), Ordering::Relaxed);
            }
        }
    }

    /// Warns about rows outside the training ranges, and names the feature that is outside most
    /// often.
    fn warn_outside(&self, rows: u64, stage_observer: &dyn StageObserver) {
        let counts = self.outside_value_counts.iter().map(|count| count.load(Ordering::Relaxed));
        let names = self.prepared.model.metadata.features.iter();
        // of equal counts, the first feature: `max_by_key` returns the last maximum, here of the
        // reversed order
        let most_frequent = counts.zip(names).rev().max_by_key(|(count, _)| *count).filter(|(count, _)| *count > 0);
        let Some((max_count, name)) = most_frequent else { return };
        let outside_row_text = display::format_count(self.outside_row_count.load(Ordering::Relaxed));
        let are_many = MIN_OUTSIDE_TIMES * rows as f64 <= max_count as f64;
        let (max_count_text, rows) = (display::format_count(max_count), display::format_count(rows));
        let why = match are_many && self.is_time(name) {
            true => format!(
                "{name} is a date, and its trend ends with the training rows: fit without it (`features` '*,!{name}'), or with columns \
                 of its season instead, such as the month"
            ),
            false => "they are clipped to the range (`no_clip` of the fit predicts them unclipped)".to_string(),
        };
        stage_observer.warn(format!(
            "{outside_row_text} of {rows} rows have values outside the training range, {max_count_text} of them in {name}; {why}"
        ));
    }

    /// Returns whether a feature is the position of a column of dates or times.
    fn is_time(&self, feature: &str) -> bool {
        let mut columns = self.prepared.model.metadata.encoding.iter().flat_map(|encoding| encoding.columns());
        columns.any(|column| column.name == feature && matches!(column.encoding, ColumnEncoding::Time(_)))
    }

    fn warn_about_rows(&self, rows: u64, rows_without_target: u64, stage_observer: &dyn StageObserver) {
        if rows_without_target > 0 {
            let count = display::format_count(rows_without_target);
            stage_observer
                .warn(format!("{count} rows without a target are skipped (`missing_target` error rejects them)"));
        }
        self.warn_outside(rows, stage_observer);
        self.selected.table().note().into_iter().for_each(|note| stage_observer.warn(note));
        describe_unseen_values(self.selected.unseen_value_counts(), rows)
            .into_iter()
            .for_each(|text| stage_observer.warn(text));
        let range = self.selected.range();
        let total_rows = range.end - range.start - rows_without_target;
        if self.selected.missing() == Missing::Drop && !self.selected.is_filtered() && rows < total_rows {
            stage_observer.warn(format!(
                "{} of {total_rows} rows have a missing value and are skipped (`missing` drop)",
                total_rows - rows
            ));
        }
        let incomplete = self.incomplete_row_count.load(Ordering::Relaxed);
        if incomplete > 0 {
            stage_observer.warn(format!(
                "{incomplete} of {rows} rows have a missing value and no prediction, because the fit skipped such rows"
            ));
        }
    }

    /// Adds the earlier values of a model of changes to the predicted and the true changes of the
    /// last rows of `state`, which are the rows of a block. Rows without an earlier value are
    /// incomplete.
    fn add_bases(&self, state: &mut Scores, block: &RowBlock<'_, T>, first_row: usize) {
        let row_count = block.len();
        state.is_incomplete.resize(first_row + row_count, false);
        let bases: Vec<f64> = (0..row_count)
            .map(|i| {
                let column = block.kept_columns.first().filter(|column| !column.is_null(i));
                column.and_then(|column| column.values().number(i)).unwrap_or(f64::NAN)
            })
            .collect();
        let is_missing = |i: usize| !bases[i].is_finite();
        for i in (0..row_count).filter(|i| is_missing(*i)) {
            let is_new = !std::mem::replace(&mut state.is_incomplete[first_row + i], true);
            self.incomplete_row_count.fetch_add(u64::from(is_new), Ordering::Relaxed);
        }
        let fold_outputs = if self.extras.intervals { &mut state.components[..] } else { &mut [] };
        for values in [&mut state.scores[..], &mut state.y[..], fold_outputs] {
            let width = values.len() / state.is_incomplete.len().max(1);
            let rows = values.chunks_exact_mut(width.max(1)).skip(if width > 0 { first_row } else { usize::MAX });
            for (row, base) in rows.zip(&bases).filter(|(_, base)| base.is_finite()) {
                row.iter_mut().for_each(|value| *value += base);
            }
        }
    }

    /// Rejects a value that is not finite. `values` are row-major, with the same number of values
    /// for each of `row_numbers`.
    fn check_finite(&self, what: &'static str, values: &[f64], row_numbers: &[u64]) -> Result<()> {
        let Some(index) = values.iter().position(|value| !value.is_finite()) else { return Ok(()) };
        let (row, value) = (row_numbers[index * row_numbers.len() / values.len()], values[index]);
        let (path, row) = self.selected.table().locate(row).unwrap_or((Path::new("the table"), row));
        let path = path.to_path_buf();
        Err(match self.prepared.model.transform {
            BasisTransform::MatrixColumns(kind) if kind != MatrixKind::Kernel => Error::InvalidDistance { path, row },
            _ => Error::NotFinitePrediction { path, row, what, value },
        })
    }
}

/// Maximum number of columns with unseen values that a warning names.
const NAMED_COLUMNS: usize = 3;

/// Returns a warning about the columns that have values which did not occur in the fit, with the
/// number of such rows; `None` without such columns.
fn describe_unseen_values(mut columns: Vec<(String, u64)>, rows: u64) -> Option<String> {
    let encoded = "encoded as \"other\", different from all known values";
    // a stable sort: of equal counts, the first column
    columns.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let named: Vec<String> = columns.iter().take(NAMED_COLUMNS).map(|(name, n)| format!("{n} in {name}")).collect();
    match &columns[..] {
        [] => None,
        [(column, count)] => Some(format!(
            "column {column}: {count} of {rows} rows have a value that did not occur in the fit; it is {encoded}"
        )),
        _ => {
            let others = match columns.len() - named.len() {
                0 => String::new(),
                count => format!(", and at most as many in {count} more"),
            };
            let (count, named) = (columns.len(), named.join(", "));
            Some(format!(
                "{count} columns have values that did not occur in the fit (of {rows} rows: {named}{others}); they are {encoded}"
            ))
        }
    }
}

impl<T: Real> PreparedModel<T> {
    pub(super) fn score_table(
        &self,
        selected: &SelectedTable,
        extras: Extras,
        explained: ExplanationTarget<'_>,
        max_lane_count: usize,
        other_terms: Vec<MemoryTerm>,
        run: &Run<'_>,
        visitor: impl FnMut(&Scores) -> Result<()> + Send,
    ) -> Result<u64> {
        let scorer = TableScorer::new(self, selected, extras, explained)?;
        let (lanes, segment_rows) = scorer.plan_lanes(run.memory_budget(), run.workers().threads(), &other_terms)?;
        let lanes = FittingLanes { count: lanes.count.min(max_lane_count), ..lanes };
        scorer.score_segments(run, lanes, segment_rows, visitor)
    }
}

impl<T: Real> Reduction<T> for TableScorer<'_, T> {
    type State = Scores;
    type Scratch = InputBuffers<T>;
    type Error = Error;

    fn init(&self) -> Scores {
        Scores::default()
    }

    fn scratch(&self) -> InputBuffers<T> {
        InputBuffers::default()
    }

    fn step(
        &self,
        state: &mut Scores,
        InputBuffers { scaled_rows: scaled, after_metric }: &mut InputBuffers<T>,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<()> {
        let PreparedModel { model, basis_functions: functions, ranges, .. } = self.prepared;
        let (b, d, (_, _, t)) = (block.len(), model.row_length(), model.dims());
        let mut x = block.x;
        let old_len = state.is_incomplete.len();
        if self.keeps_incomplete() {
            let is_incomplete = |row: &[T]| row.iter().any(|value| !value.is_finite());
            state.is_incomplete.extend(x.chunks_exact(block.d).map(is_incomplete));
        }
        let incomplete = &state.is_incomplete[old_len..];
        if ranges.is_some() || model.rounds_to_f32() || incomplete.contains(&true) {
            scaled.clear();
            scaled.extend_from_slice(x);
            // rows with missing values become the mean, which every kernel accepts; their outputs
            // are not read
            let mean = |j: usize| T::from_f64(model.scaler.apply(j, model.scaler.mean[j]));
            let rows = scaled.chunks_exact_mut(block.d).zip(incomplete).filter(|(_, is_missing)| **is_missing);
            rows.for_each(|(row, _)| row.iter_mut().enumerate().for_each(|(j, value)| *value = mean(j)));
            let incomplete_count = incomplete.iter().filter(|is_missing| **is_missing).count();
            self.incomplete_row_count.fetch_add(incomplete_count as u64, Ordering::Relaxed);
            self.prepared.round_and_clip(scaled, |row, ranges| self.count_outside(row, ranges));
            x = scaled;
        }
        let scaled_rows = x;
        let x = MatRef::from_row_major_slice(self.prepared.basis_rows(x, after_metric), b, d);
        let scores = append_zeros(&mut state.scores, b * t);
        let components = append_zeros(&mut state.components, b * self.component_count);
        let quadratic = append_zeros(&mut state.quadratic, if self.extras.has_quadratic() { b } else { 0 });
        let outputs = Outputs {
            scores: MatMut::from_row_major_slice_mut(scores, b, t),
            components: MatMut::from_row_major_slice_mut(components, b, self.component_count),
            quadratic: MatMut::from_row_major_slice_mut(quadratic, b, quadratic.len() / b.max(1)),
        };
        model.predict_outputs(functions, self.kernel.as_deref(), x, outputs, workers);
        self.check_finite("the prediction", scores, block.row_numbers)?;
        self.check_finite("the component", components, block.row_numbers)?;
        self.check_finite("the variance or distance", quadratic, block.row_numbers)?;
        if let Some(explainer) = &self.explainer {
            explainer.append(
                scaled_rows,
                scores,
                self.extras,
                &mut state.contributions,
                &mut state.explanations,
                workers,
            )?;
        }
        if let Some(kernel) = self.kernel.as_ref().filter(|_| self.extras.needs_diagonal()) {
            let out = append_zeros(&mut state.residual, b);
            kernel.diag(x, out);
            for (out, phi) in out.iter_mut().zip(scores.chunks_exact(t.max(1))).filter(|_| self.extras.residual) {
                // rounding can make the projection longer than the projected function
                *out = (*out - phi.iter().map(|v| v * v).sum::<f64>()).max(0.0).sqrt();
            }
            self.check_finite("the residual", out, block.row_numbers)?;
        }
        if let Some(preimages) = &self.preimages {
            let out = append_zeros(&mut state.preimages, b * block.d);
            state.unconverged_count += preimages.apply(model, &**functions, x, out, workers)? as u64;
            self.check_finite("the pre-image", out, block.row_numbers)?;
        }
        state.y.extend(block.y);
        if self.prepared.base_column.is_some() {
            self.add_bases(state, block, old_len);
        }
        state.weights.0.extend(row_weights::block_weights(block)?.into_iter().flatten());
        state.classes.extend(block.classes.iter().flat_map(|LabelCodes { codes, .. }| *codes));
        let groups = block
            .groups
            .iter()
            .flat_map(|LabelCodes { codes, labels }| codes.iter().map(|code| &labels[*code as usize]));
        state.groups.extend(groups.cloned());
        state.row_numbers.extend(block.row_numbers);
        Ok(())
    }
}

fn append_zeros(values: &mut Vec<f64>, count: usize) -> &mut [f64] {
    let old_len = values.len();
    values.resize(old_len + count, 0.0);
    &mut values[old_len..]
}
