//! The columns of a chunk as a table's rows need them.

use crate::schema::Kind;
use crate::source::{FileCursor, Strided, Values, View};
use crate::table_rows::{Open, TableRows};
use crate::{Real, Result};
use std::ops::Range;

impl<T: Real> TableRows<T> {
    /// The first of these rows of a file that may fulfil the condition, and those behind it; an empty range at the end
    /// of the rows where there is none.
    pub(crate) fn may_fulfil(&self, part: usize, rows: Range<u64>) -> Range<u64> {
        let Some(candidates) = self.candidates.get(part) else { return rows };
        match candidates.get(candidates.partition_point(|candidate| candidate.end <= rows.start)) {
            Some(next) if next.start < rows.end => next.start.max(rows.start)..next.end.min(rows.end),
            _ => rows.end..rows.end,
        }
    }

    /// Features, targets, class and group of a chunk; kept columns and the filter's are not among them.
    pub(crate) fn views<'o>(&self, open: &'o Open<'_>) -> Result<Vec<View<'o>>> {
        (0..self.first_kept()).map(|slot| open.cursor.view(slot)).collect()
    }

    /// The columns of [`views`](Self::views), and the kept columns whose numbers must be there.
    pub(crate) fn views_needed<'o>(&self, open: &'o Open<'_>) -> Result<Vec<View<'o>>> {
        let complete = self.selected.complete.iter().enumerate().filter(|(_, complete)| **complete);
        let kept = complete.map(|(i, _)| open.cursor.view(self.first_kept() + i));
        (0..self.first_kept()).map(|slot| open.cursor.view(slot)).chain(kept).collect()
    }

    /// Places of the kept columns that hold text or bytes.
    pub(crate) fn kept_texts(&self) -> impl Iterator<Item = usize> {
        let schema = self.selected.table.schema();
        let keep = self.selected.keep.iter().enumerate();
        let texts = keep.filter(|(_, column)| matches!(schema.columns[**column].kind, Kind::Text | Kind::Binary));
        texts.map(|(i, _)| self.first_kept() + i)
    }

    /// Place of the first kept column among those that are decoded.
    pub(crate) fn first_kept(&self) -> usize {
        self.columns.len() - usize::from(self.selected.filter.is_some()) - self.selected.keep.len()
    }

    /// The columns of [`views`](Self::views), where the features are row-major in `bytes`.
    pub(crate) fn views_of_rows<'o>(&self, bytes: &'o [u8], cursor: &'o dyn FileCursor) -> Result<Vec<View<'o>>> {
        let (d, size) = (self.selected.features.len(), size_of::<T>());
        let feature = |slot: usize| Strided { bytes, element: T::ELEMENT, offset: slot * size, stride: d * size };
        let features = (0..d).map(|slot| Ok(View { values: Values::Strided(feature(slot)), nulls: None }));
        features.chain((d..self.first_kept()).map(|slot| cursor.view(slot))).collect()
    }
}
