//! Converts a chunk of a file into a part of a tile: into numbers, labels and errors. A chunk has
//! the rows that a reader decodes at once, and a tile the rows that a pass processes at once.

use crate::convert::{self, CONVERT_TILE_ROWS};
use crate::encoding::TimeReader;
use crate::labels::{LabelEncoder, LabelFault};
use crate::lags::Lags;
use crate::select::EncodingState;
use crate::source::FileCursor;
use crate::table_rows::{OpenFile, TableRows};
use crate::view::{ColumnView, RowIndices, StridedColumn, Values};
use crate::writer::kept_kind;
use crate::{Error, Float, KeptColumn, Result, kept_column, missing::Missing, rows::grow};
use std::{ops::Range, path::Path, sync::atomic::Ordering};

/// Reads the values of a numeric column unchanged. In a text column, reads a text as 1 and a
/// missing text as NaN.
fn load_or_one(view: &ColumnView<'_>, row_indices: RowIndices<'_>, out: &mut [f64]) {
    if !matches!(view.values, Values::Text(_) | Values::Binary(_)) {
        return view.load(row_indices, out);
    }
    for (i, out) in out.iter_mut().enumerate() {
        *out = if view.is_null(row_indices.get(i)) { f64::NAN } else { 1.0 };
    }
}

impl<T: Float> TableRows<T> {
    /// Returns the slots of the targets (without the weights), or the slot of the class for a class
    /// target. A slot is the position of a column among the columns that are read.
    fn target_slots(&self) -> Range<usize> {
        let targets = self.selected.features.len()..self.selected.weight_slot();
        let class = self.selected.class_slot();
        if self.selected.class.is_some() { class..class + 1 } else { targets }
    }

    /// Returns the rows of the chunk that have a target. The candidates are `selected_rows` or, if
    /// this is `None`, the first `row_count` rows of the chunk. Returns `None` if every row has a
    /// target, or if rows without a target are kept.
    pub(crate) fn rows_with_target(
        &self,
        open_file: &OpenFile<'_>,
        selected_rows: Option<&[u32]>,
        row_count: usize,
    ) -> Result<Option<Vec<u32>>> {
        if !self.selected.drops_missing_targets() {
            return Ok(None);
        }
        let (row_indices, rows) =
            selected_rows.map_or((RowIndices::StartingAt(0), row_count), |list| (RowIndices::List(list), list.len()));
        let (mut lacks_target, mut values) = (Vec::new(), [0.0; CONVERT_TILE_ROWS]);
        for slot in self.target_slots() {
            let view = open_file.cursor.view(slot)?;
            for start in (0..rows).step_by(CONVERT_TILE_ROWS) {
                let values = &mut values[..CONVERT_TILE_ROWS.min(rows - start)];
                load_or_one(&view, row_indices.skip(start), values);
                if values.iter().any(|value| value.is_nan()) {
                    lacks_target.resize(rows, false);
                    lacks_target[start..].iter_mut().zip(&*values).for_each(|(lacks, value)| *lacks |= value.is_nan());
                }
            }
        }
        let lacking_count = lacks_target.iter().filter(|lacks| **lacks).count();
        self.rows_without_target.fetch_add(lacking_count as u64, Ordering::Relaxed);
        let target_rows = || (0..rows).filter(|i| !lacks_target[*i]).map(|i| row_indices.get(i) as u32).collect();
        Ok((lacking_count > 0).then(target_rows))
    }

    /// Removes, from the rows `selected_rows`, the rows with a value that is not finite, and the
    /// rows without a label. `views` are the views of the required columns.
    pub(crate) fn drop_missing(&self, views: &[ColumnView<'_>], selected_rows: &mut Vec<u32>) {
        let mut values = [0.0; CONVERT_TILE_ROWS];
        let mut incomplete = vec![false; selected_rows.len()];
        // a missing target that is required is an error when it is read
        let required_slots = if self.selected.drops_missing_targets() { 0..0 } else { self.target_slots() };
        for (slot, view) in views.iter().enumerate().filter(|(slot, _)| !required_slots.contains(slot)) {
            for (tile_rows, tile_incomplete) in
                selected_rows.chunks(CONVERT_TILE_ROWS).zip(incomplete.chunks_mut(CONVERT_TILE_ROWS))
            {
                let values = &mut values[..tile_rows.len()];
                match self.time_reader(slot) {
                    None => load_or_one(view, RowIndices::List(tile_rows), values),
                    // an invalid time is an error when it is read
                    Some(_) => values.iter_mut().zip(tile_rows).for_each(|(out, row)| {
                        *out = if TimeReader::is_missing(view, *row as usize) { f64::NAN } else { 1.0 };
                    }),
                }
                tile_incomplete
                    .iter_mut()
                    .zip(values)
                    .for_each(|(is_incomplete, value)| *is_incomplete |= !value.is_finite());
            }
        }
        let mut incomplete = incomplete.iter();
        selected_rows.retain(|_| incomplete.next() == Some(&false));
    }

    /// Returns the first range within the rows `rows` of a file whose rows may pass the filter. If
    /// no such range exists, returns an empty range at the end of `rows`.
    pub(crate) fn next_candidate_range(&self, part_index: usize, rows: Range<u64>) -> Range<u64> {
        let Some(candidates) = self.candidate_ranges.get(part_index) else { return rows };
        match candidates.get(candidates.partition_point(|candidate| candidate.end <= rows.start)) {
            Some(next) if next.start < rows.end => next.start.max(rows.start)..next.end.min(rows.end),
            _ => rows.end..rows.end,
        }
    }

    /// Returns views of the features, targets, weights, class and group of a chunk, without the
    /// kept columns and the columns that select rows.
    pub(crate) fn views<'o>(&self, open_file: &'o OpenFile<'_>) -> Result<Vec<ColumnView<'o>>> {
        (0..self.first_kept_slot()).map(|slot| open_file.cursor.view(slot)).collect()
    }

    /// Returns the [`views`](Self::views), then the views of the kept columns that must have a
    /// value in every row.
    pub(crate) fn required_views<'o>(&self, open_file: &'o OpenFile<'_>) -> Result<Vec<ColumnView<'o>>> {
        let required = self.selected.kept_required.iter().enumerate().filter(|(_, complete)| **complete);
        let kept_views = required.map(|(i, _)| open_file.cursor.view(self.first_kept_slot() + i));
        (0..self.first_kept_slot()).map(|slot| open_file.cursor.view(slot)).chain(kept_views).collect()
    }

    /// Returns the slots of the kept columns whose values have no fixed size.
    pub(crate) fn kept_text_slots(&self) -> impl Iterator<Item = usize> {
        let schema = self.selected.table.schema();
        let keep = self.selected.keep.iter().enumerate();
        let texts = keep.filter(|(_, column)| kept_kind(&schema.columns[**column].kind).is_variable_size());
        texts.map(|(i, _)| self.first_kept_slot() + i)
    }

    pub(crate) fn first_kept_slot(&self) -> usize {
        let row_columns =
            usize::from(self.selected.filter.is_some()) + usize::from(self.selected.part_column().is_some());
        self.columns.len() - row_columns - self.selected.keep.len()
    }

    /// Returns the [`views`](Self::views), with the features read from row-major `bytes`.
    pub(crate) fn views_of_row_major<'o>(
        &self,
        bytes: &'o [u8],
        cursor: &'o dyn FileCursor,
    ) -> Result<Vec<ColumnView<'o>>> {
        let (d, element_bytes) = (self.selected.features.len(), size_of::<T>());
        let strided_column = |slot: usize| StridedColumn {
            bytes,
            element: T::ELEMENT,
            offset: slot * element_bytes,
            stride: d * element_bytes,
        };
        let features = (0..d).map(|slot| Ok(ColumnView { values: Values::Strided(strided_column(slot)), nulls: None }));
        features.chain((d..self.first_kept_slot()).map(|slot| cursor.view(slot))).collect()
    }
}

/// The chunk of a file that was decoded last, with views of its columns.
pub(crate) struct Chunk<'o, 'a, T> {
    pub(crate) source: &'o TableRows<T>,
    pub(crate) open_file: &'o OpenFile<'a>,
    /// Features, targets, weights, class and group, in this order.
    pub(crate) views: Vec<ColumnView<'o>>,
}

impl<T: Float> Chunk<'_, '_, T> {
    /// Writes the features of `row_count` rows to `x`, and appends their targets and weights.
    pub(crate) fn append_numbers(
        &self,
        row_indices: RowIndices<'_>,
        row_count: usize,
        x: &mut [T],
        y: &mut Vec<f64>,
        weight: &mut Vec<f64>,
    ) -> Result<()> {
        let columns = &self.views[..self.source.selected.features.len()];
        let all_finite = match (&self.source.feature_writer, &self.source.selected.encoding_state) {
            (Some(feature_writer), EncodingState::Encoded(_, unseen_counts)) => {
                let first_stored_row = self.open_file.part.first_row + self.open_file.chunk_start;
                feature_writer.write_features(
                    columns,
                    &self.source.scaling,
                    row_indices,
                    first_stored_row,
                    unseen_counts,
                    x,
                )
            }
            _ => convert::write_features(columns, &self.source.scaling, row_indices, x),
        };
        self.append_targets_and_weights(all_finite, row_indices, row_count, x, y, weight)
    }

    /// Appends the targets and weights of rows whose features are already in `x`. `features_finite`
    /// is true if all these features are finite.
    pub(crate) fn append_targets_and_weights(
        &self,
        features_finite: bool,
        row_indices: RowIndices<'_>,
        row_count: usize,
        x: &mut [T],
        y: &mut Vec<f64>,
        weight: &mut Vec<f64>,
    ) -> Result<()> {
        let selected = &self.source.selected;
        let (targets, weights_and_labels) = self.views[selected.features.len()..].split_at(selected.targets.len());
        let (weights, labels) = weights_and_labels.split_at(usize::from(selected.weight.is_some()));
        let mut all_finite = features_finite;
        all_finite &= convert::write_targets(targets, row_indices, row_count, grow(y, row_count * targets.len()));
        all_finite &= convert::write_targets(weights, row_indices, row_count, grow(weight, row_count * weights.len()));
        all_finite &= labels.iter().all(|view| (0..row_count).all(|i| !view.is_null(row_indices.get(i))));
        if all_finite { Ok(()) } else { self.fill_missing(row_indices, row_count, x) }
    }

    /// Replaces missing features if the selection replaces them. Otherwise returns an error for the
    /// first bad value in row order.
    #[cold]
    fn fill_missing(&self, row_indices: RowIndices<'_>, row_count: usize, x: &mut [T]) -> Result<()> {
        let (column_count, d) = (self.source.selected.features.len(), self.source.selected.shape().input_count);
        for i in 0..row_count {
            let row = row_indices.get(i);
            for (slot, view) in self.views.iter().enumerate() {
                let feature = (slot < column_count).then(|| self.source.first_feature(slot));
                // a finite feature is not read again: if it was decoded directly into `x`, it may
                // have no view
                if feature.is_some_and(|feature| x[i * d + feature].is_finite()) {
                    continue;
                }
                let value =
                    match self.source.time_reader(slot).map(|time| (time.read_instant(view, row), time.remedy())) {
                        None => single_value(view, row),
                        Some((Ok(instant), _)) => instant.map_or(f64::NAN, |instant| instant.days()),
                        Some((Err(text), remedy)) => return Err(self.value_error_at(slot, row, text, remedy)),
                    };
                match feature {
                    Some(feature) if self.is_filled_with_mean(slot) && !value.is_finite() => {
                        x[i * d + feature] = T::from_f64(self.source.scaling.fill_values[feature]);
                    }
                    Some(_) if self.source.selected.missing == Missing::Keep && !value.is_finite() => {}
                    None if value.is_finite() => {}
                    _ => return Err(self.bad_value_error(slot, view, row, value)),
                }
            }
        }
        Ok(())
    }

    fn is_filled_with_mean(&self, slot: usize) -> bool {
        self.source.selected.missing.fills_with_mean() && self.has_mean(slot)
    }

    fn has_mean(&self, slot: usize) -> bool {
        self.source.selected.lookups().is_none_or(|lookups| lookups.has_mean(slot))
    }

    /// Appends the codes of the label columns, whose views begin at `slot`.
    pub(crate) fn append_labels(
        &self,
        slot: usize,
        encoders: [(&mut Option<LabelEncoder>, &mut Vec<u32>); 2],
        row_indices: RowIndices<'_>,
        row_count: usize,
    ) -> Result<()> {
        let encoders = encoders.into_iter().filter_map(|(encoder, codes)| Some((encoder.as_mut()?, codes)));
        for (slot, (encoder, codes)) in (slot..).zip(encoders) {
            encoder.encode(&self.views[slot], row_indices, row_count, codes).map_err(|(row, fault)| match fault {
                LabelFault::NotAnInteger(value) if !value.is_finite() => {
                    self.bad_value_error(slot, &self.views[slot], row, value)
                }
                LabelFault::NotAnInteger(value) => {
                    let got = format!("{value} in row {}", self.open_file.chunk_start + row as u64);
                    let expected = "classes and folds must be integers, booleans or text; for a numeric target choose \
                                    `task` regression";
                    Error::wrong_type(self.path(), &self.source.column_name(slot), got, expected)
                }
                LabelFault::TooMany(limit) => Error::TooManyLabels { column: self.source.column_name(slot), limit },
            })?;
        }
        Ok(())
    }

    /// Appends the kept columns of some rows. If a column must have a number in every row, a
    /// missing number is an error.
    pub(crate) fn append_kept(
        &self,
        row_indices: RowIndices<'_>,
        row_count: usize,
        kept_columns: &mut Vec<KeptColumn>,
    ) -> Result<()> {
        let first_slot = self.source.first_kept_slot();
        let columns = &self.source.selected.keep;
        if kept_columns.len() != columns.len() {
            let kinds = columns.iter().map(|column| &self.source.selected.table.schema().columns[*column].kind);
            *kept_columns = kinds.map(|kind| KeptColumn::new(kept_kind(kind))).collect();
        }
        let mut first_missing_value = None;
        for (i, column) in kept_columns.iter_mut().enumerate() {
            let (slot, len_before) = (first_slot + i, column.len());
            let append_result =
                kept_column::append_rows(column, &self.open_file.cursor.view(slot)?, row_indices, row_count);
            append_result.map_err(|(row, value)| {
                self.value_error_at(slot, row, value, "exclude the column, or store it with one type in all files")
            })?;
            if self.source.selected.kept_required[i] {
                let first_invalid = column.first_invalid(len_before).map(|index| (row_indices.get(index), slot));
                first_missing_value = first_missing_value.into_iter().chain(first_invalid).min();
            }
        }
        let Some((row, slot)) = first_missing_value else { return Ok(()) };
        let view = self.open_file.cursor.view(slot)?;
        Err(self.bad_value_error(slot, &view, row, single_value(&view, row)))
    }

    fn path(&self) -> &Path {
        &self.open_file.part.path
    }

    #[cold]
    fn bad_value_error(&self, slot: usize, view: &ColumnView<'_>, row: usize, value: f64) -> Error {
        let is_feature = slot < self.source.selected.features.len();
        let is_category = is_feature && !self.has_mean(slot);
        let is_too_large = value.is_finite() && !is_category;
        let is_lag = |lags: &Lags| lags.names().contains(&self.source.column_name(slot));
        let remedy = match (is_too_large, is_feature) {
            (false, _) if self.source.selected.table.lags().is_some_and(is_lag) => {
                "an earlier row of its series is missing or has no value; choose `missing` drop or `missing` indicator, or add the earlier rows"
            }
            (true, _) => "scale the column down or use `precision` f64",
            (false, true) if matches!(view.values, Values::Sparse(_)) => {
                "clean the data or choose `missing` drop, the only choice for sparse rows"
            }
            (false, _) if is_category && self.source.selected.missing == Missing::Mean => {
                "only numbers have a mean: choose `missing` indicator or `missing` drop"
            }
            (false, _) if is_category => "clean the data or choose `missing` indicator or `missing` drop",
            (false, true) => "clean the data or choose `missing` indicator, `missing` mean or `missing` drop",
            (false, false) if self.source.target_slots().contains(&slot) => {
                "clean the data or choose `missing_target` drop"
            }
            (false, false) => "clean the data or choose `missing` drop",
        };
        let value = if view.is_null(row) {
            "missing".to_string()
        } else if value.is_nan() {
            "NaN".to_string()
        } else if value.is_infinite() {
            "infinite".to_string()
        } else {
            format!("{value:e}, too large for {}", T::NAME)
        };
        self.value_error_at(slot, row, value, remedy)
    }

    fn value_error_at(&self, slot: usize, row: usize, value: String, remedy: &'static str) -> Error {
        let (row, column) = (self.open_file.chunk_start + row as u64, self.source.column_name(slot));
        let line = self.open_file.part.file.line_of_row(row);
        Error::BadValue { path: self.path().to_path_buf(), row, line, column, value, remedy }
    }
}

/// Returns the value of one row. In a text column, returns 1, or NaN if the text is missing.
fn single_value(view: &ColumnView<'_>, row: usize) -> f64 {
    let mut value = [0.0];
    load_or_one(view, RowIndices::StartingAt(row), &mut value);
    value[0]
}
