//! The selected rows of a table, and how they are read.

use crate::encoding::{FeatureWriter, TimeReader};
use crate::missing::Missing;
use crate::select::{Role, SelectedTable};
use crate::source::BoxedCursor;
use crate::sparse::{MAX_F32_COLUMNS, SparseShape};
use crate::text_limit::TextLimit;
use crate::view::Element;
use crate::{Error, Float, Result, Scaler, convert::FeatureScaling, row_digests, rows::Label, table::TablePart};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{ops::Range, sync::Arc};

/// Settings for reading rows. By default, values stay unchanged, and each cursor assigns codes to
/// labels in the order of their first appearance.
#[derive(Clone, Debug, Default)]
pub struct ReadSettings {
    /// Centre and scale of the features.
    pub scaler: Option<Arc<Scaler>>,
    /// Dictionary of the class column.
    pub class_labels: Option<Arc<Vec<Label>>>,
    /// Dictionary of the group column.
    pub group_labels: Option<Arc<Vec<Label>>>,
    /// Divisor of the row weights; `None` for 1.
    pub weight_unit: Option<f64>,
    /// Limits on the texts of kept columns.
    pub text_limit: TextLimit,
}

/// The selected rows of a table.
///
/// A tile holds exactly as many selected rows as the buffer has room for, whatever the batches, row
/// groups and files. There are two exceptions. The last tile of a segment may have fewer rows. A
/// tile also ends before a row whose kept texts would increase its texts to more than
/// [`crate::TILE_TEXT_BYTES`] bytes; if a single row exceeds this limit, it is a tile of its own.
#[derive(Debug)]
pub struct TableRows<T> {
    pub(crate) selected: SelectedTable,
    pub(crate) columns: Vec<usize>,
    pub(crate) digest_keys: Vec<u64>,
    pub(crate) scaling: FeatureScaling,
    pub(crate) feature_writer: Option<FeatureWriter<T>>,
    /// Whether features can be read from a file directly into a tile. This requires that features
    /// are not scaled, and that all rows of the file are selected.
    pub(crate) can_read_directly: bool,
    /// For each file, the ranges of rows that may pass the filter, according to the statistics of
    /// the file. Empty without a filter.
    pub(crate) candidate_ranges: Vec<Vec<Range<u64>>>,
    pub(crate) settings: ReadSettings,
    /// Number of rows without a target that cursors have skipped so far.
    pub(crate) rows_without_target: AtomicU64,
}

impl<T: Float> TableRows<T> {
    pub(crate) fn new(selected: SelectedTable, settings: ReadSettings) -> Result<Self> {
        if let Some(request) = selected.pending_request() {
            let first_unknown = request.roles.iter().position(|role| *role != Role::Number).unwrap_or(0);
            return Err(Error::UnknownCategories { column: selected.column_name(first_unknown) });
        }
        let d = selected.shape().input_count;
        if let Some(scaler) =
            settings.scaler.as_ref().filter(|s| [&s.centre, &s.scale, &s.mean].iter().any(|v| v.len() != d))
        {
            let text = format!("of {} features", scaler.input_count());
            return Err(Error::Syntax { what: "scaler", text, expected: format!("the table has {d} features") });
        }
        let is_too_wide = |shape: &SparseShape| T::ELEMENT == Element::F32 && shape.column_count > MAX_F32_COLUMNS;
        let sparse_shape = selected.sparse_features().map(|(_, shape)| shape);
        if let Some(shape) = sparse_shape.filter(is_too_wide) {
            let expected = format!(
                "f32 can number at most {MAX_F32_COLUMNS} columns, and these are {}; use `precision` f64",
                shape.column_count
            );
            return Err(selected.table.wrong_type_error(selected.features[0], &expected));
        }
        let scaling = FeatureScaling::new(d, settings.scaler.as_deref());
        let allow_missing = selected.missing == Missing::Indicator;
        let feature_writer =
            selected.lookups().map(|lookups| FeatureWriter::new(Arc::clone(lookups), &scaling, allow_missing));
        let can_read_directly = selected.table.digests.is_none()
            && scaling.is_identity()
            && selected.selects_all_rows()
            && selected.keep.is_empty()
            && feature_writer.is_none();
        let files = selected.table.parts().iter().map(|part| &part.file);
        let filter = selected.filter.as_ref();
        let candidate_ranges =
            filter.map(|(column, condition)| files.map(|file| file.candidate_rows(*column, condition)).collect());
        let candidate_ranges = candidate_ranges.unwrap_or_default();
        let columns = selected.decoded_columns();
        let digest_keys = selected.names(&columns).iter().map(|name| row_digests::column_key(name)).collect();
        Ok(Self {
            columns,
            digest_keys,
            selected,
            scaling,
            feature_writer,
            can_read_directly,
            candidate_ranges,
            settings,
            rows_without_target: AtomicU64::new(0),
        })
    }

    /// Returns the number of rows without a target that all passes so far have skipped.
    pub fn rows_without_target(&self) -> u64 {
        self.rows_without_target.load(Ordering::Relaxed)
    }

    /// Returns the selection of columns and rows.
    pub fn selected(&self) -> &SelectedTable {
        &self.selected
    }

    pub(crate) fn first_feature(&self, column: usize) -> usize {
        self.selected.lookups().map_or(column, |lookups| lookups.first_features[column])
    }

    pub(crate) fn time_reader(&self, slot: usize) -> Option<&TimeReader> {
        self.selected.lookups().filter(|_| slot < self.selected.features.len())?.time_reader(slot)
    }

    pub(crate) fn column_name(&self, slot: usize) -> String {
        self.selected.table.schema().columns[self.columns[slot]].name.clone()
    }
}

/// The file that a cursor is reading, and the position of its current chunk.
pub(crate) struct OpenFile<'a> {
    pub(crate) cursor: BoxedCursor<'a>,
    pub(crate) part: &'a TablePart,
    /// The row number within the file of the chunk's first row.
    pub(crate) chunk_start: u64,
    pub(crate) chunk_rows: usize,
    /// The row number within the file before which the cursor ends.
    pub(crate) end: u64,
}

impl SelectedTable {
    /// Returns a source of the selected rows.
    ///
    /// # Errors
    /// [`Error::UnknownCategories`] if the values of some category column are not known yet.
    pub fn rows<T: Float>(&self, settings: ReadSettings) -> Result<TableRows<T>> {
        TableRows::new(self.clone(), settings)
    }
}
