//! Blocks of rows, and sources that provide them: the interface between storage and learning.

use crate::{Float, Footprint, KeptColumn, Result};
use std::{fmt::Debug, ops::Range, sync::Arc};

/// A class label or a group name, as in the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum Label {
    /// A boolean column.
    Bool(bool),
    /// An integer column, or a float column that holds whole numbers.
    Int(i64),
    /// A text column.
    Text(Arc<str>),
}

impl Label {
    /// Returns a digest that distinguishes the labels of a column.
    #[doc(hidden)]
    pub fn digest(&self) -> u64 {
        match self {
            Self::Bool(truth) => u64::from(*truth),
            Self::Int(integer) => crate::Digest::u64_of(&integer.to_le_bytes()),
            Self::Text(text) => crate::Digest::u64_of(text.as_bytes()),
        }
    }

    /// Returns the bytes of its text; 0 for a number.
    #[doc(hidden)]
    pub fn text_bytes(&self) -> usize {
        if let Self::Text(text) = self { text.len() } else { 0 }
    }
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bool(v) => write!(f, "{v}"),
            Self::Int(v) => write!(f, "{v}"),
            Self::Text(v) => f.write_str(v),
        }
    }
}

/// A label column of a block: `labels[codes[i]]` is the label of row i.
///
/// While labels are being discovered, the cursor has its own dictionary, which grows. Once the
/// source has a dictionary, the codes refer to it, and [`LabelCodes::UNKNOWN`] marks labels that it
/// does not contain.
#[derive(Clone, Copy, Debug)]
pub struct LabelCodes<'a> {
    /// Codes, one per row of the block.
    pub codes: &'a [u32],
    /// Dictionary.
    pub labels: &'a [Label],
}

impl LabelCodes<'_> {
    /// The code of a label that is not in the dictionary.
    pub const UNKNOWN: u32 = u32::MAX;
}

/// Some rows of a table, in stored order.
#[derive(Clone, Copy, Debug)]
pub struct RowBlock<'a, T> {
    /// Stored row number of each row: its position over the sorted files, before any selection.
    pub row_numbers: &'a [u64],
    /// Inputs, `row_numbers.len()` x `d`, row-major, scaled if the source has a scaler.
    pub x: &'a [T],
    /// Number of inputs.
    pub d: usize,
    /// Numeric targets, `row_numbers.len()` x `t`, row-major; empty if there are none.
    pub y: &'a [f64],
    /// Number of numeric targets.
    pub t: usize,
    /// Weights of the rows; `None` if all weigh 1.
    pub weights: Option<&'a [f64]>,
    /// Class column, if the target is a label.
    pub classes: Option<LabelCodes<'a>>,
    /// Group column, which defines folds or ranking groups.
    pub groups: Option<LabelCodes<'a>>,
    /// Columns that are copied to the output.
    pub kept_columns: &'a [KeptColumn],
}

impl<T> RowBlock<'_, T> {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.row_numbers.len()
    }
    /// Returns true for a block without rows.
    pub fn is_empty(&self) -> bool {
        self.row_numbers.is_empty()
    }
    /// Returns the weight of row `i`; `None` if all rows weigh 1.
    pub fn weight(&self, i: usize) -> Option<f64> {
        self.weights.map(|weights| weights[i])
    }
}

/// Reusable storage of a [`RowBlock`], which a cursor fills with up to `capacity` rows.
#[derive(Clone, Debug, Default)]
pub struct RowBuf<T> {
    /// Maximum number of rows: the size of a tile, which a pass processes at once.
    pub capacity: usize,
    /// Stored row numbers.
    pub row_numbers: Vec<u64>,
    /// Inputs, row-major.
    pub x: Vec<T>,
    /// Numeric targets, row-major.
    pub y: Vec<f64>,
    /// Weights of the rows; empty if all weigh 1.
    pub weights: Vec<f64>,
    /// Codes of the class column.
    pub classes: Vec<u32>,
    /// Codes of the group column.
    pub groups: Vec<u32>,
    /// Dictionary of the class column; grows while labels are being discovered.
    pub class_labels: Option<Arc<Vec<Label>>>,
    /// Dictionary of the group column; grows while labels are being discovered.
    pub group_labels: Option<Arc<Vec<Label>>>,
    /// Columns that are copied to the output.
    pub kept_columns: Vec<KeptColumn>,
}

impl<T: Float> RowBuf<T> {
    /// Returns an empty buffer for tiles of `capacity` rows.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, ..Self::default() }
    }
    /// Returns the bytes of a row in a buffer, including labels but not kept columns.
    pub fn bytes_per_row(shape: &TableShape) -> usize {
        let f64_count = shape.target_count + usize::from(shape.has_weights);
        size_of::<u64>() + shape.input_count * size_of::<T>() + f64_count * size_of::<f64>() + 2 * size_of::<u32>()
    }
    /// Removes all rows and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.x.clear();
        self.clear_except_x();
    }
    /// Removes all rows but leaves the old values in `x`, for a cursor that overwrites all of them
    /// anyway.
    pub fn clear_except_x(&mut self) {
        self.row_numbers.clear();
        self.y.clear();
        self.weights.clear();
        self.classes.clear();
        self.groups.clear();
        self.kept_columns.iter_mut().for_each(KeptColumn::clear);
    }
    /// Returns the rows as a block.
    pub fn block(&self, shape: &TableShape) -> RowBlock<'_, T> {
        RowBlock {
            row_numbers: &self.row_numbers,
            x: &self.x,
            d: shape.input_count,
            y: &self.y,
            t: shape.target_count,
            weights: shape.has_weights.then_some(&self.weights[..]),
            classes: self.class_labels.as_ref().map(|l| LabelCodes { codes: &self.classes, labels: l }),
            groups: self.group_labels.as_ref().map(|l| LabelCodes { codes: &self.groups, labels: l }),
            kept_columns: &self.kept_columns,
        }
    }
}

/// Returns the `count` values from position `start` on, with arbitrary content. Enlarges the vector
/// if necessary.
pub fn resized_slice<V: Copy + Default>(values: &mut Vec<V>, start: usize, count: usize) -> &mut [V] {
    if values.len() < start + count {
        values.resize(start + count, V::default());
    }
    &mut values[start..start + count]
}

/// Appends `additional` values and returns them.
pub fn grow<V: Copy + Default>(values: &mut Vec<V>, additional: usize) -> &mut [V] {
    let old_len = values.len();
    values.resize(old_len + additional, V::default());
    &mut values[old_len..]
}

/// The size of the table that a source provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableShape {
    /// Number of stored rows, which are numbered from 0. Selected rows may be fewer.
    pub stored_rows: u64,
    /// Number of inputs per row, d.
    pub input_count: usize,
    /// Number of numeric targets per row, t.
    pub target_count: usize,
    /// True if rows have weights.
    pub has_weights: bool,
}

/// A table that several cursors can read at once, each starting at any stored row.
pub trait RowSource<T: Float>: Debug + Send + Sync {
    /// Returns the numbers of stored rows, inputs and targets.
    fn shape(&self) -> TableShape;
    /// Returns the stored rows that can be selected: a part of `0..shape().stored_rows`. Segments
    /// outside are never opened.
    fn range(&self) -> Range<u64> {
        0..self.shape().stored_rows
    }
    /// Opens a cursor over the selected rows among the stored rows `segment`.
    fn open(&self, segment: Range<u64>) -> Result<Box<dyn RowCursor<T> + Send + '_>>;
    /// Returns the bytes that an open cursor needs; `per_row` counts for each row of a tile.
    fn footprint(&self) -> Footprint;
    /// Returns the bytes of the metadata of the files, which all cursors share.
    fn metadata_bytes(&self) -> usize {
        0
    }
    /// Returns the bytes read from storage so far, over all cursors.
    fn bytes_read(&self) -> u64 {
        0
    }
}

impl<T: Float, S: RowSource<T> + ?Sized> RowSource<T> for &S {
    fn shape(&self) -> TableShape {
        (**self).shape()
    }
    fn range(&self) -> Range<u64> {
        (**self).range()
    }
    fn open(&self, segment: Range<u64>) -> Result<Box<dyn RowCursor<T> + Send + '_>> {
        (**self).open(segment)
    }
    fn footprint(&self) -> Footprint {
        (**self).footprint()
    }
    fn metadata_bytes(&self) -> usize {
        (**self).metadata_bytes()
    }
    fn bytes_read(&self) -> u64 {
        (**self).bytes_read()
    }
}

/// A reader of the rows of one segment of a table.
pub trait RowCursor<T: Float> {
    /// Empties `buf` and fills it with the next rows: exactly `buf.capacity` of them, or fewer at
    /// the end of the segment. Returns false if no row was left.
    fn next(&mut self, buf: &mut RowBuf<T>) -> Result<bool>;
}
