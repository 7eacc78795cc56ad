//! The selected rows of a table, and how they are read.

use crate::encoding::{Expansion, Role, TimeReader};
use crate::missing::Missing;
use crate::select::Selected;
use crate::source::{BoxedCursor, Element};
use crate::sparse::MOST_SINGLE;
use crate::text_limit::TextLimit;
use crate::{Error, Real, Result, Scaler, convert::Affine, row_digests, rows::Label, table::Part};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{ops::Range, sync::Arc};

/// Settings for reading rows. By default, values stay unchanged and each cursor numbers the labels
/// in the order of their appearance.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Centre and scale of the features.
    pub scaler: Option<Arc<Scaler>>,
    /// Dictionary of the class column.
    pub classes: Option<Arc<Vec<Label>>>,
    /// Dictionary of the fold column.
    pub groups: Option<Arc<Vec<Label>>>,
    /// Divisor of the row weights; `None` for 1.
    pub weight_unit: Option<f64>,
    /// Limits on the texts of kept columns.
    pub texts: TextLimit,
}

/// The selected rows of a table.
///
/// A tile holds exactly as many selected rows as the buffer's capacity, except the last tile of a
/// segment, independent of batches, row groups and files. A tile ends earlier if its kept texts
/// would exceed [`crate::TILE_TEXT_BYTES`] bytes; a single longer row is a tile of its own.
#[derive(Debug)]
pub struct TableRows<T> {
    pub(crate) selected: Selected,
    pub(crate) columns: Vec<usize>,
    pub(crate) keys: Vec<u64>,
    pub(crate) affine: Affine,
    pub(crate) expansion: Option<Expansion<T>>,
    /// Whether features can be read from a file directly into a tile: no scaling, and all rows of
    /// the file selected.
    pub(crate) direct: bool,
    /// For each file, the ranges of rows that a condition does not rule out by statistics; empty
    /// without a condition.
    pub(crate) candidates: Vec<Vec<Range<u64>>>,
    pub(crate) reading: Reading,
    /// Number of rows without a target that cursors have skipped so far.
    pub(crate) without_target: AtomicU64,
}

impl<T: Real> TableRows<T> {
    pub(crate) fn new(selected: Selected, reading: Reading) -> Result<Self> {
        if let Some(asked) = selected.asked() {
            let first = asked.roles.iter().position(|role| *role != Role::Number).unwrap_or(0);
            return Err(Error::Uncoded { column: selected.column_name(first) });
        }
        let d = selected.shape().features;
        if let Some(scaler) =
            reading.scaler.as_ref().filter(|s| [&s.centre, &s.scale, &s.mean].iter().any(|v| v.len() != d))
        {
            let text = format!("of {} features", scaler.features());
            return Err(Error::Syntax { what: "scaler", text, expected: format!("the table has {d} features") });
        }
        let wide = selected.sparse().filter(|shape| T::ELEMENT == Element::F32 && shape.width > MOST_SINGLE);
        if let Some(shape) = wide {
            let expected = format!(
                "f32 can number at most {MOST_SINGLE} columns, and these are {}; use `precision` f64",
                shape.width
            );
            return Err(selected.table.wrong_type(selected.features[0], &expected));
        }
        let affine = Affine::new(d, reading.scaler.as_deref());
        let lenient = selected.missing == Missing::Indicator;
        let expansion = selected.coded().map(|coded| Expansion::new(Arc::clone(coded), &affine, lenient));
        let direct = selected.table.digests.is_none()
            && affine.is_identity()
            && selected.picks_all()
            && selected.keep.is_empty()
            && expansion.is_none();
        let files = selected.table.parts().iter().map(|part| &part.file);
        let filter = selected.filter.as_ref();
        let candidates = filter.map(|(column, bound)| files.map(|file| file.candidates(*column, bound)).collect());
        let candidates = candidates.unwrap_or_default();
        let columns = selected.columns();
        let keys = selected.names(&columns).iter().map(|name| row_digests::key(name)).collect();
        Ok(Self {
            columns,
            keys,
            selected,
            affine,
            expansion,
            direct,
            candidates,
            reading,
            without_target: AtomicU64::new(0),
        })
    }

    /// Returns the number of rows without a target that all passes so far have skipped.
    pub fn without_target(&self) -> u64 {
        self.without_target.load(Ordering::Relaxed)
    }

    /// Returns the selection of columns and rows.
    pub fn selected(&self) -> &Selected {
        &self.selected
    }

    pub(crate) fn feature(&self, column: usize) -> usize {
        self.selected.coded().map_or(column, |coded| coded.starts[column])
    }

    pub(crate) fn time(&self, slot: usize) -> Option<&TimeReader> {
        self.selected.coded().filter(|_| slot < self.selected.features.len())?.time(slot)
    }

    pub(crate) fn name(&self, slot: usize) -> String {
        self.selected.table.schema().columns[self.columns[slot]].name.clone()
    }
}

pub(crate) struct OpenFile<'a> {
    pub(crate) cursor: BoxedCursor<'a>,
    pub(crate) part: &'a Part,
    pub(crate) first: u64,
    pub(crate) rows: usize,
    /// Row number within the file at which the cursor ends (exclusive).
    pub(crate) end: u64,
}

impl Selected {
    /// Returns a source of the selected rows.
    ///
    /// # Errors
    /// [`Error::Uncoded`] for columns of categories whose values are not known yet.
    pub fn rows<T: Real>(&self, reading: Reading) -> Result<TableRows<T>> {
        TableRows::new(self.clone(), reading)
    }
}
