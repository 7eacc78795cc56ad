//! Several tables read as one table: the rows of each table follow the rows of the previous table.

use crate::{Float, Footprint, Result, RowBuf, RowCursor, RowSource, TableShape};
use std::ops::Range;

/// Several sources of rows with the same features, concatenated to one source.
///
/// Rows are renumbered, so that row numbers are unique: the numbers of each part start after all
/// rows that could be selected from the parts before it. Features, numeric targets and weights are
/// passed on. Labels and kept columns are not.
///
/// ```
/// use kstore::source::ChainedRows;
/// use kstore::{MemoryRows, RowBuf, RowSource};
/// let first = MemoryRows::new(vec![1.0f32, 2.0], 1)?;
/// let second = MemoryRows::new(vec![3.0f32], 1)?;
/// let both = ChainedRows::new(vec![&first, &second])?;
/// let mut buf = RowBuf::new(10);
/// assert!(both.open(both.range())?.next(&mut buf)?);
/// assert_eq!((buf.x, buf.row_numbers), (vec![1.0, 2.0, 3.0], vec![0, 1, 2]));
/// # Ok::<(), kstore::Error>(())
/// ```
#[derive(Debug)]
pub struct ChainedRows<'a, T: Float> {
    parts: Vec<&'a dyn RowSource<T>>,
    /// Number of the first row of every part, then the number of all rows.
    part_starts: Vec<u64>,
}

impl<'a, T: Float> ChainedRows<'a, T> {
    /// Returns a source of the rows of `parts`, in their order.
    ///
    /// # Errors
    /// [`crate::Error::Syntax`] for zero parts, or if parts differ in the number of features or
    /// targets, or if only some of the parts have weights.
    pub fn new(parts: Vec<&'a dyn RowSource<T>>) -> Result<Self> {
        let column_counts =
            |part: &&dyn RowSource<T>| (part.shape().input_count, part.shape().target_count, part.shape().has_weights);
        let first_counts = parts.first().map(column_counts);
        if first_counts.is_none() || parts.iter().any(|part| Some(column_counts(part)) != first_counts) {
            let columns = parts.iter().map(column_counts).map(|(x, y, weighted)| {
                let weights = if weighted { " and weights" } else { "" };
                format!("{x} features and {y} targets{weights}")
            });
            let text = format!("{} tables: {}", parts.len(), columns.collect::<Vec<_>>().join(", "));
            let expected = "tables that are read as one must have the same columns".to_string();
            return Err(crate::Error::Syntax { what: "tables", text, expected });
        }
        let mut part_starts = vec![0];
        for part in &parts {
            let (range, end) = (part.range(), part_starts[part_starts.len() - 1]);
            part_starts.push(end + (range.end - range.start));
        }
        Ok(Self { parts, part_starts })
    }

    fn row_count(&self) -> u64 {
        self.part_starts[self.parts.len()]
    }
}

impl<T: Float> RowSource<T> for ChainedRows<'_, T> {
    fn shape(&self) -> TableShape {
        TableShape { stored_rows: self.row_count(), ..self.parts[0].shape() }
    }

    fn open(&self, segment: Range<u64>) -> Result<Box<dyn RowCursor<T> + Send + '_>> {
        let remaining_rows = segment.start..segment.end.min(self.row_count());
        let part_buffer = RowBuf::default();
        Ok(Box::new(ChainedCursor { source: self, remaining_rows, open_part: None, part_buffer }))
    }

    /// Memory of the largest part. A second buffer is for the tile in which one part ends and the
    /// next part begins.
    fn footprint(&self) -> Footprint {
        let max_over_parts = |measure: &dyn Fn(Footprint) -> usize| {
            self.parts.iter().map(|part| measure(part.footprint())).max().unwrap_or(0)
        };
        let per_row = max_over_parts(&|part| part.per_row) + RowBuf::<T>::bytes_per_row(&self.shape());
        Footprint { fixed: max_over_parts(&|part| part.fixed), per_row }
    }

    fn metadata_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.metadata_bytes()).sum()
    }

    fn bytes_read(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes_read()).sum()
    }
}

/// The part that is being read, with the number of its first row in the chain and in the part.
struct OpenPart<'a, T> {
    cursor: Box<dyn RowCursor<T> + Send + 'a>,
    chain_start: u64,
    part_start: u64,
}

struct ChainedCursor<'a, T: Float> {
    source: &'a ChainedRows<'a, T>,
    remaining_rows: Range<u64>,
    open_part: Option<OpenPart<'a, T>>,
    part_buffer: RowBuf<T>,
}

impl<T: Float> ChainedCursor<'_, T> {
    fn open_next_part(&mut self) -> Result<bool> {
        if self.remaining_rows.is_empty() {
            return Ok(false);
        }
        let starts = &self.source.part_starts;
        // a part without rows has the same start as the part after it
        let part_index = starts.partition_point(|start| *start <= self.remaining_rows.start) - 1;
        let source = self.source.parts[part_index];
        let (chain_start, part_start) = (starts[part_index], source.range().start);
        let end = self.remaining_rows.end.min(starts[part_index + 1]);
        let cursor =
            source.open(self.remaining_rows.start - chain_start + part_start..end - chain_start + part_start)?;
        self.open_part = Some(OpenPart { cursor, chain_start, part_start });
        self.remaining_rows.start = end;
        Ok(true)
    }
}

impl<T: Float> RowCursor<T> for ChainedCursor<'_, T> {
    fn next(&mut self, buf: &mut RowBuf<T>) -> Result<bool> {
        buf.clear();
        while buf.row_numbers.len() < buf.capacity {
            let Some(OpenPart { cursor, chain_start: first, part_start: start }) = &mut self.open_part else {
                if self.open_next_part()? {
                    continue;
                }
                break;
            };
            let (chain_start, part_start) = (*first, *start);
            if buf.row_numbers.is_empty() {
                // the common case: the whole tile comes from one part
                if !cursor.next(buf)? {
                    self.open_part = None;
                }
                buf.row_numbers.iter_mut().for_each(|row| *row = *row - part_start + chain_start);
                continue;
            }
            self.part_buffer.capacity = buf.capacity - buf.row_numbers.len();
            if !cursor.next(&mut self.part_buffer)? {
                self.open_part = None;
                continue;
            }
            buf.row_numbers.extend(self.part_buffer.row_numbers.iter().map(|row| row - part_start + chain_start));
            buf.x.extend_from_slice(&self.part_buffer.x);
            buf.y.extend_from_slice(&self.part_buffer.y);
            buf.weights.extend_from_slice(&self.part_buffer.weights);
        }
        (buf.class_labels, buf.group_labels) = (None, None);
        buf.classes.clear();
        buf.groups.clear();
        buf.kept_columns.clear();
        Ok(!buf.row_numbers.is_empty())
    }
}
