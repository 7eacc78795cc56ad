//! Converts a chunk of a file into a part of a tile: numbers, labels, and errors in them.

use crate::convert::{self, TILE};
use crate::encoding::{Coding, TimeReader};
use crate::labels::{Coder, Fault};
use crate::sink::kept_as;
use crate::source::{FileCursor, Positions, Strided, Values, View};
use crate::table_rows::{OpenFile, TableRows};
use crate::{Error, KeptColumn, Real, Result, kept_column, missing::Missing, rows::grow};
use std::{ops::Range, path::Path, sync::atomic::Ordering};

/// Reads numbers unchanged, and text as 1, or NaN if it is missing.
fn load_or_one(view: &View<'_>, at: Positions<'_>, out: &mut [f64]) {
    if !matches!(view.values, Values::Text(_) | Values::Binary(_)) {
        return view.load(at, out);
    }
    for (i, out) in out.iter_mut().enumerate() {
        *out = if view.is_null(at.get(i)) { f64::NAN } else { 1.0 };
    }
}

impl<T: Real> TableRows<T> {
    /// Slots of the targets, or of the class if there is one, among the columns, without the
    /// weights.
    fn target_slots(&self) -> Range<usize> {
        let targets = self.selected.features.len()..self.selected.weight_slot();
        let class = self.selected.class_slot();
        if self.selected.class.is_some() { class..class + 1 } else { targets }
    }

    /// Returns the rows that have a target, out of `among` or of the first `rows` rows of the
    /// chunk. Returns `None` if all of them have one, or if rows without a target are kept.
    pub(crate) fn with_target(
        &self,
        open: &OpenFile<'_>,
        among: Option<&[u32]>,
        rows: usize,
    ) -> Result<Option<Vec<u32>>> {
        if !self.selected.drops_targets() {
            return Ok(None);
        }
        let (at, rows) = among.map_or((Positions::From(0), rows), |list| (Positions::At(list), list.len()));
        let (mut lacking, mut loaded) = (Vec::new(), [0.0; TILE]);
        for slot in self.target_slots() {
            let view = open.cursor.view(slot)?;
            for start in (0..rows).step_by(TILE) {
                let loaded = &mut loaded[..TILE.min(rows - start)];
                load_or_one(&view, at.skip(start), loaded);
                if loaded.iter().any(|value| value.is_nan()) {
                    lacking.resize(rows, false);
                    lacking[start..].iter_mut().zip(&*loaded).for_each(|(lacks, value)| *lacks |= value.is_nan());
                }
            }
        }
        let count = lacking.iter().filter(|lacks| **lacks).count();
        self.without_target.fetch_add(count as u64, Ordering::Relaxed);
        let with_target = || (0..rows).filter(|i| !lacking[*i]).map(|i| at.get(i) as u32).collect();
        Ok((count > 0).then(with_target))
    }

    /// Removes rows with a value that is not finite, or without a label. `views` are the views of
    /// the required columns.
    pub(crate) fn drop_missing(&self, views: &[View<'_>], picked: &mut Vec<u32>) {
        let mut loaded = [0.0; TILE];
        let mut bad = vec![false; picked.len()];
        // a missing target that is required is an error when it is read
        let needed = if self.selected.drops_targets() { 0..0 } else { self.target_slots() };
        for (slot, view) in views.iter().enumerate().filter(|(slot, _)| !needed.contains(slot)) {
            for (rows, bad) in picked.chunks(TILE).zip(bad.chunks_mut(TILE)) {
                let loaded = &mut loaded[..rows.len()];
                match self.time(slot) {
                    None => load_or_one(view, Positions::At(rows), loaded),
                    // an invalid time is an error when it is read
                    Some(_) => loaded.iter_mut().zip(rows).for_each(|(out, row)| {
                        *out = if TimeReader::is_missing(view, *row as usize) { f64::NAN } else { 1.0 };
                    }),
                }
                bad.iter_mut().zip(loaded).for_each(|(bad, value)| *bad |= !value.is_finite());
            }
        }
        let mut bad = bad.iter();
        picked.retain(|_| bad.next() == Some(&false));
    }

    /// Returns the first range within `rows` of a file that may satisfy the condition; an empty
    /// range at the end of `rows` if there is none.
    pub(crate) fn may_fulfil(&self, part: usize, rows: Range<u64>) -> Range<u64> {
        let Some(candidates) = self.candidates.get(part) else { return rows };
        match candidates.get(candidates.partition_point(|candidate| candidate.end <= rows.start)) {
            Some(next) if next.start < rows.end => next.start.max(rows.start)..next.end.min(rows.end),
            _ => rows.end..rows.end,
        }
    }

    /// Returns views of the features, targets, weights, class and group of a chunk, without the
    /// kept columns and the filter's column.
    pub(crate) fn views<'o>(&self, open: &'o OpenFile<'_>) -> Result<Vec<View<'o>>> {
        (0..self.first_kept()).map(|slot| open.cursor.view(slot)).collect()
    }

    /// Returns the [`views`](Self::views), then the views of the kept columns that must have a
    /// value in every row.
    pub(crate) fn views_needed<'o>(&self, open: &'o OpenFile<'_>) -> Result<Vec<View<'o>>> {
        let complete = self.selected.complete.iter().enumerate().filter(|(_, complete)| **complete);
        let kept = complete.map(|(i, _)| open.cursor.view(self.first_kept() + i));
        (0..self.first_kept()).map(|slot| open.cursor.view(slot)).chain(kept).collect()
    }

    pub(crate) fn kept_texts(&self) -> impl Iterator<Item = usize> {
        let schema = self.selected.table.schema();
        let keep = self.selected.keep.iter().enumerate();
        let texts = keep.filter(|(_, column)| kept_as(&schema.columns[**column].kind).is_long());
        texts.map(|(i, _)| self.first_kept() + i)
    }

    pub(crate) fn first_kept(&self) -> usize {
        self.columns.len() - usize::from(self.selected.filter.is_some()) - self.selected.keep.len()
    }

    /// Returns the [`views`](Self::views), with the features read from row-major `bytes`.
    pub(crate) fn views_of_rows<'o>(&self, bytes: &'o [u8], cursor: &'o dyn FileCursor) -> Result<Vec<View<'o>>> {
        let (d, size) = (self.selected.features.len(), size_of::<T>());
        let feature = |slot: usize| Strided { bytes, element: T::ELEMENT, offset: slot * size, stride: d * size };
        let features = (0..d).map(|slot| Ok(View { values: Values::Strided(feature(slot)), nulls: None }));
        features.chain((d..self.first_kept()).map(|slot| cursor.view(slot))).collect()
    }
}

/// Buffers to which the targets and the weights are appended.
pub(crate) type OtherNumbers<'b> = (&'b mut Vec<f64>, &'b mut Vec<f64>);

pub(crate) struct Chunk<'o, 'a, T> {
    pub(crate) source: &'o TableRows<T>,
    pub(crate) open: &'o OpenFile<'a>,
    /// Features, targets, weights, class and group, in this order.
    pub(crate) views: Vec<View<'o>>,
}

impl<T: Real> Chunk<'_, '_, T> {
    /// Writes the features of `rows` rows to `x`, and appends their targets and weights.
    pub(crate) fn numbers(&self, at: Positions<'_>, rows: usize, x: &mut [T], more: OtherNumbers<'_>) -> Result<()> {
        let columns = &self.views[..self.source.selected.features.len()];
        let fine = match (&self.source.expansion, &self.source.selected.coding) {
            (Some(expansion), Coding::Known(_, unseen)) => {
                let first = self.open.part.start + self.open.first;
                expansion.features(columns, &self.source.affine, (at, first), unseen, x)
            }
            _ => convert::features(columns, &self.source.affine, at, x),
        };
        self.others(fine, at, rows, x, more)
    }

    /// Appends the targets and weights of rows whose features are already in `x`; `features_finite`
    /// states that these features are all finite.
    pub(crate) fn others(
        &self,
        fine: bool,
        at: Positions<'_>,
        rows: usize,
        x: &mut [T],
        (y, weight): OtherNumbers<'_>,
    ) -> Result<()> {
        let selected = &self.source.selected;
        let (targets, more) = self.views[selected.features.len()..].split_at(selected.targets.len());
        let (weights, labels) = more.split_at(usize::from(selected.weight.is_some()));
        let mut fine = fine;
        fine &= convert::targets(targets, at, rows, grow(y, rows * targets.len()));
        fine &= convert::targets(weights, at, rows, grow(weight, rows * weights.len()));
        fine &= labels.iter().all(|view| (0..rows).all(|i| !view.is_null(at.get(i))));
        if fine { Ok(()) } else { self.repair(at, rows, x) }
    }

    /// Replaces missing features if the selection fills them; the first bad value in row order is
    /// an error.
    #[cold]
    fn repair(&self, at: Positions<'_>, rows: usize, x: &mut [T]) -> Result<()> {
        let (columns, d) = (self.source.selected.features.len(), self.source.selected.shape().features);
        for i in 0..rows {
            let row = at.get(i);
            for (slot, view) in self.views.iter().enumerate() {
                let feature = (slot < columns).then(|| self.source.feature(slot));
                // a finite feature is not read again: a feature that was decoded directly into `x`
                // may have no view
                if feature.is_some_and(|feature| x[i * d + feature].is_finite()) {
                    continue;
                }
                let value = match self.source.time(slot).map(|time| (time.instant(view, row), time.remedy())) {
                    None => single(view, row),
                    Some((Ok(found), _)) => found.map_or(f64::NAN, |instant| instant.days()),
                    Some((Err(text), remedy)) => return Err(self.bad(slot, row, text, remedy)),
                };
                match feature {
                    Some(feature) if self.fills(slot) && !value.is_finite() => {
                        x[i * d + feature] = T::from_f64(self.source.affine.fill[feature]);
                    }
                    Some(_) if self.source.selected.missing == Missing::Keep && !value.is_finite() => {}
                    None if value.is_finite() => {}
                    _ => return Err(self.bad_value(slot, view, row, value)),
                }
            }
        }
        Ok(())
    }

    fn fills(&self, slot: usize) -> bool {
        self.source.selected.missing.fills() && self.has_mean(slot)
    }

    fn has_mean(&self, slot: usize) -> bool {
        self.source.selected.coded().is_none_or(|coded| coded.has_mean(slot))
    }

    /// Appends the codes of the label columns, whose views begin at `slot`.
    pub(crate) fn labels(
        &self,
        slot: usize,
        coders: [(&mut Option<Coder>, &mut Vec<u32>); 2],
        at: Positions<'_>,
        rows: usize,
    ) -> Result<()> {
        let coders = coders.into_iter().filter_map(|(coder, codes)| Some((coder.as_mut()?, codes)));
        for (slot, (coder, codes)) in (slot..).zip(coders) {
            coder.code(&self.views[slot], at, rows, codes).map_err(|(row, fault)| match fault {
                Fault::Fraction(value) if !value.is_finite() => self.bad_value(slot, &self.views[slot], row, value),
                Fault::Fraction(value) => {
                    let got = format!("{value} in row {}", self.open.first + row as u64);
                    let expected = "classes and folds must be integers, booleans or text; for a numeric target choose \
                                    `task` regression";
                    Error::wrong_type(self.path(), &self.source.name(slot), got, expected)
                }
                Fault::TooMany(limit) => Error::TooManyLabels { column: self.source.name(slot), limit },
            })?;
        }
        Ok(())
    }

    /// Appends the kept columns of some rows; a missing number in a column that must be complete is
    /// an error.
    pub(crate) fn keep(&self, at: Positions<'_>, rows: usize, kept: &mut Vec<KeptColumn>) -> Result<()> {
        let first = self.source.first_kept();
        let columns = &self.source.selected.keep;
        if kept.len() != columns.len() {
            let kinds = columns.iter().map(|column| &self.source.selected.table.schema().columns[*column].kind);
            *kept = kinds.map(|kind| KeptColumn::new(kept_as(kind))).collect();
        }
        let mut missing = None;
        for (i, kept) in kept.iter_mut().enumerate() {
            let (slot, before) = (first + i, kept.len());
            let loaded = kept_column::load(kept, &self.open.cursor.view(slot)?, at, rows);
            loaded.map_err(|(row, value)| {
                self.bad(slot, row, value, "exclude the column, or store it with one type in all files")
            })?;
            if self.source.selected.complete[i] {
                let here = kept.first_missing(before).map(|place| (at.get(place), slot));
                missing = missing.into_iter().chain(here).min();
            }
        }
        let Some((row, slot)) = missing else { return Ok(()) };
        let view = self.open.cursor.view(slot)?;
        Err(self.bad_value(slot, &view, row, single(&view, row)))
    }

    fn path(&self) -> &Path {
        &self.open.part.path
    }

    #[cold]
    fn bad_value(&self, slot: usize, view: &View<'_>, row: usize, value: f64) -> Error {
        let feature = slot < self.source.selected.features.len();
        let category = feature && !self.has_mean(slot);
        let too_large = value.is_finite() && !category;
        let remedy = match (too_large, feature) {
            (true, _) => "scale the column down or use `precision` f64",
            (false, _) if category && self.source.selected.missing == Missing::Mean => {
                "only numbers have a mean: choose `missing` indicator or `missing` drop"
            }
            (false, _) if category => "clean the data or choose `missing` indicator or `missing` drop",
            (false, true) => "clean the data or choose `missing` drop or `missing` mean",
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
        self.bad(slot, row, value, remedy)
    }

    fn bad(&self, slot: usize, row: usize, value: String, remedy: &'static str) -> Error {
        let (row, column) = (self.open.first + row as u64, self.source.name(slot));
        let line = self.open.part.file.line(row);
        Error::BadValue { path: self.path().to_path_buf(), row, line, column, value, remedy }
    }
}

/// Returns the value of one row; for a text column 1, or NaN if it is missing.
fn single(view: &View<'_>, row: usize) -> f64 {
    let mut value = [0.0];
    load_or_one(view, Positions::From(row), &mut value);
    value[0]
}
