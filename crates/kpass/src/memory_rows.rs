//! Rows in memory: candidates for landmarks, and data of library users.

use crate::rows::{LabelCodes, RowBlock};
use crate::{Error, Float, Footprint, Label, Result, RowBuf, RowCursor, RowSource, TableShape};
use std::{ops::Range, sync::Arc};

/// A source of rows in memory.
///
/// Segments are ranges of *positions*, which count the rows from 0. Blocks contain the row
/// *numbers* of [`MemoryRows::with_row_numbers`], such as the numbers of the stored rows from which
/// the rows were copied.
///
/// ```
/// use kpass::{MemoryRows, RowBuf, RowSource};
/// let rows = MemoryRows::new(vec![1.0, 2.0, 3.0, 4.0f32], 2)?
///     .with_targets(vec![5.0, 6.0], 1)?
///     .with_row_numbers(vec![7, 9])?;
/// let mut buf = RowBuf::new(10);
/// assert!(rows.open(0..2)?.next(&mut buf)?);
/// assert_eq!((buf.row_numbers, buf.y), (vec![7, 9], vec![5.0, 6.0]));
/// # Ok::<(), kpass::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryRows<T> {
    x: Vec<T>,
    d: usize,
    n: usize,
    y: Vec<f64>,
    t: usize,
    weights: Option<Vec<f64>>,
    row_numbers: Option<Vec<u64>>,
    classes: Option<(Vec<u32>, Arc<Vec<Label>>)>,
    groups: Option<(Vec<u32>, Arc<Vec<Label>>)>,
}

impl<T: Float> MemoryRows<T> {
    /// Returns a source of the rows in `x`, row-major, with `d` inputs each.
    ///
    /// # Errors
    /// [`Error::Syntax`] if `d` is 0, or if the number of values is not a multiple of `d`.
    pub fn new(x: Vec<T>, d: usize) -> Result<Self> {
        if d == 0 || !x.len().is_multiple_of(d) {
            return Err(shape_error(format!("{} values are not a multiple of {d} columns", x.len())));
        }
        Ok(Self { n: x.len() / d, x, d, ..Self::default() })
    }

    /// Returns a source without rows, with `d` inputs and `t` targets; [`MemoryRows::push`] adds
    /// rows.
    pub fn empty(d: usize, t: usize) -> Self {
        Self { d, t, row_numbers: Some(Vec::new()), ..Self::default() }
    }

    /// Adds targets, `t` per row.
    ///
    /// # Errors
    /// [`Error::Syntax`] if there are not `t` targets for every row.
    pub fn with_targets(mut self, y: Vec<f64>, t: usize) -> Result<Self> {
        if y.len() != self.n * t {
            return Err(shape_error(format!("{} targets for {} rows with {t} targets each", y.len(), self.n)));
        }
        (self.y, self.t) = (y, t);
        Ok(self)
    }

    /// Sets the weights of the rows; `None` if all weigh 1.
    ///
    /// # Errors
    /// [`Error::Syntax`] if there is not one weight for every row.
    pub fn with_weights(self, weights: Option<Vec<f64>>) -> Result<Self> {
        match weights.as_ref().filter(|weight| weight.len() != self.n) {
            Some(weight) => Err(shape_error(format!("{} weights for {} rows", weight.len(), self.n))),
            None => Ok(Self { weights, ..self }),
        }
    }

    /// Adds a class column.
    ///
    /// # Errors
    /// [`Error::Syntax`] if there is not one code for every row, or if a code has no label.
    pub fn with_classes(mut self, codes: Vec<u32>, labels: Arc<Vec<Label>>) -> Result<Self> {
        self.classes = Some((self.check_codes(codes, &labels)?, labels));
        Ok(self)
    }

    /// Adds a group column, which defines folds or ranking groups.
    ///
    /// # Errors
    /// [`Error::Syntax`] if there is not one code for every row, or if a code has no label.
    pub fn with_groups(mut self, codes: Vec<u32>, labels: Arc<Vec<Label>>) -> Result<Self> {
        self.groups = Some((self.check_codes(codes, &labels)?, labels));
        Ok(self)
    }

    /// Sets the stored row numbers; by default the rows are numbered by position.
    ///
    /// # Errors
    /// [`Error::Syntax`] if there is not one number for every row.
    pub fn with_row_numbers(mut self, row_numbers: Vec<u64>) -> Result<Self> {
        if row_numbers.len() != self.n {
            return Err(shape_error(format!("{} row numbers for {} rows", row_numbers.len(), self.n)));
        }
        self.row_numbers = Some(row_numbers);
        Ok(self)
    }

    /// Appends row `i` of a block, with its targets, weight and row number, but without labels.
    pub fn push(&mut self, block: &RowBlock<'_, T>, i: usize) {
        debug_assert_eq!((block.d, block.t), (self.d, self.t));
        let position = self.n as u64;
        self.x.extend_from_slice(&block.x[i * self.d..][..self.d]);
        self.y.extend_from_slice(&block.y[i * self.t..][..self.t]);
        if let Some(weight) = block.weight(i) {
            self.weights.get_or_insert_default().push(weight);
        }
        self.row_numbers.get_or_insert_with(|| (0..position).collect()).push(block.row_numbers[i]);
        self.n += 1;
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Returns whether the source is empty.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Returns the inputs, row-major.
    pub fn x(&self) -> &[T] {
        &self.x
    }

    /// Returns the targets, row-major.
    pub fn y(&self) -> &[f64] {
        &self.y
    }

    /// Returns the weights of the rows; `None` if all weigh 1.
    pub fn weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }

    /// Returns the stored row number of the row at `position`.
    pub fn row_number(&self, position: usize) -> u64 {
        self.row_numbers.as_ref().map_or(position as u64, |rows| rows[position])
    }

    /// Returns the class codes of the rows, if there is a class column.
    pub fn class_codes(&self) -> Option<&[u32]> {
        self.classes.as_ref().map(|(codes, _)| &codes[..])
    }

    /// Returns the group codes of the rows, if there is a group column.
    pub fn group_codes(&self) -> Option<&[u32]> {
        self.groups.as_ref().map(|(codes, _)| &codes[..])
    }

    /// Returns the allocated bytes.
    pub fn bytes(&self) -> usize {
        let code_bytes = |column: &Option<(Vec<u32>, _)>| column.as_ref().map_or(0, |(codes, _)| codes.capacity() * 4);
        self.x.capacity() * size_of::<T>()
            + self.y.capacity() * 8
            + self.weights.as_ref().map_or(0, |weight| weight.capacity() * 8)
            + self.row_numbers.as_ref().map_or(0, |rows| rows.capacity() * 8)
            + code_bytes(&self.classes)
            + code_bytes(&self.groups)
    }

    fn check_codes(&self, codes: Vec<u32>, labels: &[Label]) -> Result<Vec<u32>> {
        if codes.len() != self.n {
            return Err(shape_error(format!("{} codes for {} rows", codes.len(), self.n)));
        }
        let is_valid = |code: &u32| (*code as usize) < labels.len() || *code == LabelCodes::UNKNOWN;
        match codes.iter().find(|code| !is_valid(code)) {
            Some(code) => Err(shape_error(format!("code {code} with {} labels", labels.len()))),
            None => Ok(codes),
        }
    }
}

fn shape_error(text: String) -> Error {
    Error::Syntax { what: "arrays", text, expected: "every array needs one entry per row".to_string() }
}

impl<T: Float> RowSource<T> for MemoryRows<T> {
    fn shape(&self) -> TableShape {
        TableShape {
            stored_rows: self.n as u64,
            input_count: self.d,
            target_count: self.t,
            has_weights: self.weights.is_some(),
        }
    }

    fn open(&self, segment: Range<u64>) -> Result<Box<dyn RowCursor<T> + Send + '_>> {
        let end = segment.end.min(self.n as u64) as usize;
        Ok(Box::new(MemoryCursor { source: self, remaining_rows: (segment.start as usize).min(end)..end }))
    }

    fn footprint(&self) -> Footprint {
        Footprint { fixed: 0, per_row: RowBuf::<T>::bytes_per_row(&RowSource::<T>::shape(self)) }
    }
}

struct MemoryCursor<'a, T> {
    source: &'a MemoryRows<T>,
    remaining_rows: Range<usize>,
}

impl<T: Float> RowCursor<T> for MemoryCursor<'_, T> {
    fn next(&mut self, buf: &mut RowBuf<T>) -> Result<bool> {
        let positions =
            self.remaining_rows.start..self.remaining_rows.end.min(self.remaining_rows.start + buf.capacity);
        self.remaining_rows.start = positions.end;
        buf.clear();
        let source = self.source;
        match &source.row_numbers {
            Some(row_numbers) => buf.row_numbers.extend_from_slice(&row_numbers[positions.clone()]),
            None => buf.row_numbers.extend(positions.clone().map(|row| row as u64)),
        }
        buf.x.extend_from_slice(&source.x[positions.start * source.d..positions.end * source.d]);
        buf.y.extend_from_slice(&source.y[positions.start * source.t..positions.end * source.t]);
        buf.weights.extend(source.weights.iter().flat_map(|weight| &weight[positions.clone()]));
        let copy_codes = |column: &Option<(Vec<u32>, Arc<Vec<Label>>)>, codes: &mut Vec<u32>| {
            let (all_codes, labels) = column.as_ref()?;
            codes.extend_from_slice(&all_codes[positions.clone()]);
            Some(Arc::clone(labels))
        };
        buf.class_labels = copy_codes(&source.classes, &mut buf.classes);
        buf.group_labels = copy_codes(&source.groups, &mut buf.groups);
        Ok(!positions.is_empty())
    }
}
