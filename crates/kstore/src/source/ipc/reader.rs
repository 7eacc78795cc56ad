//! Reading rows of one column of a record batch.

use super::message::{Batch, Block, Root};
use super::{IpcFile, TEXT_CHUNK, stored::Stored};
use crate::arrow::array::{Array, ArrayData, ArrayRef, ByteView, LargeListArray, StructArray, make_array};
use crate::arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, OffsetBuffer};
use crate::arrow::compute::{TakeOptions, take};
use crate::arrow::datatypes::{DataType, Field};
use crate::source::Element;
use crate::source::column::{self, LoadError, Loaded, list_element};
use crate::source::data_type::element;
use crate::source::entries::{self, ENTRY_BYTES};
use crate::source::plain::plain;
use crate::source::positioned::Positioned;
use crate::sparse::SparseShape;
use std::ops::Range;
use std::sync::Arc;

const VIEW_BYTES: usize = 16;
/// Longest text that stands in the view itself.
const INLINE: u32 = 12;

/// Bytes of an offset into texts, or entries of sparse rows, that lie one after the other.
fn offset_bytes(data_type: &DataType) -> Option<u64> {
    match data_type {
        DataType::Utf8 | DataType::Binary => Some(4),
        DataType::LargeUtf8 | DataType::LargeBinary => Some(8),
        DataType::LargeList(_) => entries::fields(data_type).map(|_| 8),
        other => entries::fields(other).map(|_| 4),
    }
}

/// Bytes of a value that needs no offset; 0 for types that are not read.
pub(super) fn value_bytes(data_type: &DataType) -> usize {
    match data_type {
        DataType::Utf8View | DataType::BinaryView => VIEW_BYTES,
        DataType::FixedSizeBinary(size) => usize::try_from(*size).unwrap_or(0),
        other => other.primitive_width().unwrap_or(0),
    }
}

/// A column of the batch at hand, and the rows of it that were read last.
pub(super) struct ColumnReader<'a> {
    pub(super) root: &'a Root,
    width: Option<usize>,
    entries: Option<SparseShape>,
    pub(super) stored: Vec<Stored>,
    /// Nulls of the column and of what is in its lists.
    pub(super) nulls: Vec<u64>,
    pub(super) loaded: Option<Loaded>,
}

impl<'a> ColumnReader<'a> {
    pub(super) fn new(root: &'a Root, width: Option<usize>) -> Self {
        Self { root, width, entries: None, stored: Vec::new(), nulls: Vec::new(), loaded: None }
    }

    /// A column of sparse rows, where there is a shape of them.
    pub(super) fn with_entries(self, entries: Option<SparseShape>) -> Self {
        Self { entries, ..self }
    }

    pub(super) fn enter(&mut self, file: &Positioned, batch: &Batch) -> Result<(), LoadError> {
        let nodes = self.root.nodes(batch)?;
        if let Some(own) = nodes.first().filter(|own| own.rows != batch.rows) {
            let name = &self.root.name;
            return Err(format!("column {name:?} has {} rows in a batch of {}", own.rows, batch.rows).into());
        }
        self.nulls = nodes.iter().map(|node| node.nulls).collect();
        for span in self.root.spans(batch)? {
            self.stored.push(Stored::prepare(file, *span, batch.codec)?);
        }
        Ok(())
    }

    pub(super) fn load(&mut self, ipc: &IpcFile, file: &Positioned, rows: Range<u64>) -> Result<(), LoadError> {
        // the bytes of the rows before are taken for these: what is allocated anew for each chunk leaves holes behind
        let bytes = self.loaded.take().and_then(Loaded::into_bytes).unwrap_or_default();
        let data_type = &self.root.data_type;
        if let Some(shape) = self.entries {
            self.loaded = Some(Loaded::Sparse(entries::load(&self.entry_lists(file, rows)?, shape)?));
            return Ok(());
        }
        self.loaded = Some(match (list_element(data_type), self.width, element(data_type)) {
            (Some(element), Some(width), _) => self.lists(file, element, width, rows, bytes)?,
            (_, _, Some(element)) => self.numbers(file, element, rows, bytes)?,
            _ => Loaded::Array(self.values(ipc, file, rows)?),
        });
        Ok(())
    }

    /// Reads values that are used as Arrow arrays.
    fn values(&self, ipc: &IpcFile, file: &Positioned, rows: Range<u64>) -> Result<ArrayRef, LoadError> {
        let data_type = &self.root.data_type;
        let DataType::Dictionary(keys, values) = data_type else {
            return Ok(plain(&self.array(file, data_type, rows)?)?);
        };
        let id = self.root.dictionary.ok_or_else(|| "a dictionary without a number".to_string())?;
        let (values, keys) = (ipc.dictionary(id, values)?, self.array(file, keys, rows)?);
        // a key beyond the dictionary is damage, not a panic
        Ok(take(&values, &keys, Some(TakeOptions { check_bounds: true }))?)
    }

    fn numbers(
        &self,
        file: &Positioned,
        element: Element,
        rows: Range<u64>,
        mut bytes: MutableBuffer,
    ) -> Result<Loaded, LoadError> {
        let (size, count) = (element.size() as u64, rows.end - rows.start);
        bytes.resize(usize::try_from(count * size).map_err(|_| "a row too long".to_string())?, 0);
        self.stored[1].copy(file, rows.start * size, &mut bytes)?;
        let nulls = vec![self.validity(file, 0, rows)?];
        Ok(Loaded::Block { element, width: 1, bytes: bytes.into(), nulls })
    }

    /// Reads lists that should all have `width` numbers, row after row; of a missing list the numbers are missing, and are not
    /// read, however many lie there.
    fn lists(
        &self,
        file: &Positioned,
        element: Element,
        width: usize,
        rows: Range<u64>,
        mut bytes: MutableBuffer,
    ) -> Result<Loaded, LoadError> {
        let lists = self.validity(file, 0, rows.clone())?;
        let starts = match &self.root.data_type {
            DataType::FixedSizeList(..) => (rows.start..=rows.end).map(|row| row * width as u64).collect(),
            other => offsets(&self.stored[1], file, matches!(other, DataType::LargeList(_)), rows)?,
        };
        let (rows, first) = (starts.len() - 1, starts[0]);
        let places: Vec<usize> = starts.iter().map(|start| (start - first) as usize).collect();
        column::check_lengths(&places, lists.as_ref(), width)?;
        let nulls = self.validity(file, 1, first..starts[rows])?;
        let valid = |row: usize, item: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(places[row] + item));
        let nulls = column::item_nulls(rows, width, nulls.is_some(), lists.as_ref(), valid);
        let (size, row_bytes) = (element.size() as u64, width * element.size());
        bytes.resize(rows.checked_mul(row_bytes).ok_or_else(|| "a row too long".to_string())?, 0);
        for (run, there) in column::runs(rows, lists.as_ref()) {
            let to = &mut bytes[run.start * row_bytes..run.end * row_bytes];
            match there {
                true => self.stored[self.stored.len() - 1].copy(file, starts[run.start] * size, to)?,
                false => to.fill(0),
            }
        }
        Ok(Loaded::Block { element, width, bytes: bytes.into(), nulls })
    }

    /// Reads sparse rows as lists. Behind the validity of the rows and their offsets lie the validity of the entries, and for index and value
    /// each its validity and its numbers.
    fn entry_lists(&self, file: &Positioned, rows: Range<u64>) -> Result<LargeListArray, LoadError> {
        let data_type = &self.root.data_type;
        let fields = entries::fields(data_type).ok_or_else(|| format!("sparse rows of type {data_type}"))?;
        let starts = offsets(&self.stored[1], file, offset_bytes(data_type) == Some(8), rows.clone())?;
        let items = starts[0]..starts[starts.len() - 1];
        let count = items.end - items.start;
        let column = |(field, node): (&Arc<Field>, usize)| {
            let size = value_bytes(field.data_type()) as u64;
            let bytes = self.stored[2 * node].buffer(file, items.start * size, count * size)?;
            let nulls = self.validity_in(file, node, 2 * node - 1, items.clone())?;
            let data = ArrayData::builder(field.data_type().clone()).len(count as usize).nulls(nulls).add_buffer(bytes);
            Ok(make_array(data.build()?))
        };
        let columns = fields.iter().zip(2..).map(column).collect::<Result<_, LoadError>>()?;
        let nulls = self.validity_in(file, 1, 2, items.clone())?;
        let entries = StructArray::try_new_with_length(fields.clone(), columns, nulls, count as usize)?;
        let item = Arc::new(Field::new("item", entries.data_type().clone(), true));
        // they ascend, and were read from an integer
        let ends = starts.iter().map(|start| (start - items.start) as i64).collect::<Vec<_>>();
        let lists = self.validity(file, 0, rows)?;
        Ok(LargeListArray::try_new(item, OffsetBuffer::new(ends.into()), Arc::new(entries), lists)?)
    }

    /// For each of these rows (`node` 0) or list items (1), true if it has a value; `None` where all have one.
    fn validity(&self, file: &Positioned, node: usize, items: Range<u64>) -> Result<Option<NullBuffer>, LoadError> {
        // that of the items lies before their numbers
        let slot = if node == 0 { 0 } else { self.stored.len() - 2 };
        self.validity_in(file, node, slot, items)
    }

    /// That of the items of a node, which lies in buffer `slot`.
    fn validity_in(
        &self,
        file: &Positioned,
        node: usize,
        slot: usize,
        items: Range<u64>,
    ) -> Result<Option<NullBuffer>, LoadError> {
        if self.nulls.get(node) == Some(&0) {
            return Ok(None);
        }
        let nulls = NullBuffer::new(bits(&self.stored[slot], file, items)?);
        Ok((nulls.null_count() > 0).then_some(nulls))
    }

    /// The views of some rows, and the texts that they are too short for, in one buffer in the order of the rows: the
    /// buffers of the batch may be of any size, and only these rows are at hand.
    fn views(&self, file: &Positioned, rows: Range<u64>) -> Result<(Buffer, Buffer), LoadError> {
        let size = VIEW_BYTES as u64;
        let stored = self.stored[1].buffer(file, rows.start * size, (rows.end - rows.start) * size)?;
        let mut views = stored.typed_data::<u128>().to_vec();
        let mut texts = Vec::new();
        for view in views.iter_mut().filter(|view| **view as u32 > INLINE) {
            let ByteView { length, buffer_index, offset, .. } = ByteView::from(*view);
            let from = self.stored.get(2 + buffer_index as usize);
            let from = from.ok_or_else(|| format!("a text in buffer {buffer_index}, which is not there"))?;
            let place = u32::try_from(texts.len()).map_err(|_| "texts of more than 4 GiB".to_string())?;
            from.append(file, offset.into(), length as usize, &mut texts)?;
            *view = ByteView { length, buffer_index: 0, offset: place, ..ByteView::from(*view) }.into();
        }
        Ok((Buffer::from_vec(views), Buffer::from_vec(texts)))
    }

    /// Rows of the range whose texts have `most` bytes together, one at least.
    pub(super) fn rows_of_text(&self, file: &Positioned, rows: Range<u64>, most: u64) -> Result<u64, LoadError> {
        let mut held = 0u64;
        let mut lengths = self.text_lengths(file, rows.clone())?.into_iter();
        let fits = lengths.position(|length| {
            held = held.saturating_add(length);
            held > most
        });
        Ok(fits.map_or(rows.end - rows.start, |row| (row as u64).max(1)))
    }

    /// Bytes of the texts or entries of some rows; nothing where they are of one length, or lie in a dictionary.
    pub(super) fn text_lengths(&self, file: &Positioned, rows: Range<u64>) -> Result<Vec<u64>, LoadError> {
        match (&self.root.data_type, offset_bytes(&self.root.data_type)) {
            (DataType::Utf8View | DataType::BinaryView, _) => {
                let size = VIEW_BYTES as u64;
                let views = self.stored[1].buffer(file, rows.start * size, (rows.end - rows.start) * size)?;
                Ok(views.typed_data::<u128>().iter().map(|view| u64::from(*view as u32)).collect())
            }
            (_, Some(size)) => {
                let offsets = offsets(&self.stored[1], file, size == 8, rows)?;
                let each = if entries::fields(&self.root.data_type).is_some() { ENTRY_BYTES as u64 } else { 1 };
                Ok(offsets.windows(2).map(|pair| (pair[1] - pair[0]).saturating_mul(each)).collect())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Reads some rows as an Arrow array, checked by the Arrow project's crate.
    fn array(&self, file: &Positioned, data_type: &DataType, rows: Range<u64>) -> Result<ArrayRef, LoadError> {
        let nulls = self.validity(file, 0, rows.clone())?;
        let count = rows.end - rows.start;
        let mut data = ArrayData::builder(data_type.clone()).len(count as usize).nulls(nulls);
        match data_type {
            DataType::Boolean => {
                let bits = bits(&self.stored[1], file, rows)?;
                data = data.add_buffer(bits.sliced());
            }
            DataType::Utf8View | DataType::BinaryView => {
                let (views, texts) = self.views(file, rows)?;
                data = data.add_buffer(views).add_buffer(texts);
            }
            texts => match offset_bytes(texts) {
                Some(size) => {
                    let mut offsets = offsets(&self.stored[1], file, size == 8, rows)?;
                    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
                    let text = self.stored[2].buffer(file, first, last - first)?;
                    offsets.iter_mut().for_each(|offset| *offset -= first);
                    // they are ascending and were read from an integer of this width
                    let offsets = match size {
                        8 => offsets.iter().map(|offset| *offset as i64).collect(),
                        _ => offsets.iter().map(|offset| *offset as i32).collect(),
                    };
                    data = data.add_buffer(offsets).add_buffer(text);
                }
                None if value_bytes(texts) == 0 => return Err(format!("values of {texts} are not read").into()),
                None => {
                    let size = value_bytes(texts) as u64;
                    data = data.add_buffer(self.stored[1].buffer(file, rows.start * size, count * size)?);
                }
            },
        }
        Ok(make_array(data.build()?))
    }
}

/// Some bits of a bitmap as an array of truth values.
fn bits(stored: &Stored, file: &Positioned, items: Range<u64>) -> Result<BooleanBuffer, LoadError> {
    let first = items.start / 8;
    let bytes = stored.buffer(file, first, items.end.div_ceil(8) - first)?;
    Ok(BooleanBuffer::new(bytes, (items.start % 8) as usize, (items.end - items.start) as usize))
}

/// The offsets of some rows and the end of the last, ascending.
fn offsets(stored: &Stored, file: &Positioned, large: bool, rows: Range<u64>) -> Result<Vec<u64>, LoadError> {
    let count = rows.end - rows.start + 1;
    let size = if large { 8 } else { 4 };
    let bytes = stored.buffer(file, rows.start * size, count * size)?;
    let offsets: Vec<i64> = match large {
        true => bytes.typed_data::<i64>().to_vec(),
        false => bytes.typed_data::<i32>().iter().map(|offset| i64::from(*offset)).collect(),
    };
    if offsets[0] < 0 || offsets.windows(2).any(|pair| pair[1] < pair[0]) {
        return Err("the offsets of a column are not ascending".to_string().into());
    }
    Ok(offsets.into_iter().map(|offset| offset as u64).collect())
}

/// All rows of a column that is a batch of its own.
pub(super) fn whole(file: &Positioned, root: &Root, batch: &Batch) -> Result<ArrayRef, LoadError> {
    let mut column = ColumnReader::new(root, None);
    if batch.rows == 0 {
        return Ok(crate::arrow::array::new_empty_array(&root.data_type));
    }
    column.enter(file, batch)?;
    column.array(file, &root.data_type, 0..batch.rows)
}

/// Texts of a batch up to this many bytes are not looked at one by one: they may as well be one.
const SMALL: u64 = 64 << 10;
/// Rows whose offsets are looked at together.
const LOOK_ROWS: u64 = 64 << 10;
/// Most sparse rows that are looked at together.
const ENTRY_ROWS: u64 = 1 << 10;

/// Bytes of the longest text of a column in a batch, or more; 0 for other columns. Offsets tell it, which are a few bytes
/// for each row.
pub(super) fn longest_text(file: &Positioned, root: &Root, batch: &Batch) -> Result<u64, LoadError> {
    if !matches!(root.data_type, DataType::Utf8View | DataType::BinaryView) && offset_bytes(&root.data_type).is_none() {
        return Ok(0);
    }
    let spans = root.spans(batch)?;
    let texts: u64 = spans.iter().skip(2).map(|span| span.length).sum();
    if texts <= SMALL && batch.codec.is_none() {
        return Ok(texts.max(1));
    }
    let mut column = ColumnReader::new(root, None);
    for span in &spans[..2] {
        column.stored.push(Stored::prepare(file, *span, batch.codec)?);
    }
    let (mut longest, mut start) = (1, 0);
    while start < batch.rows {
        let end = batch.rows.min(start + LOOK_ROWS);
        let lengths = column.text_lengths(file, start..end)?;
        longest = lengths.into_iter().fold(longest, u64::max);
        start = end;
    }
    Ok(longest)
}

/// Reads a column of sparse rows once, for the number of its columns and of the entries of its longest row.
pub(super) fn shape(file: &Positioned, root: &Root, blocks: &[Block]) -> Result<SparseShape, LoadError> {
    let mut shape = SparseShape::default();
    for block in blocks {
        let batch = Batch::read(file, block)?;
        let (mut column, mut start) = (ColumnReader::new(root, None), 0);
        if batch.rows > 0 {
            column.enter(file, &batch)?;
        }
        while start < batch.rows {
            let rows = start..batch.rows.min(start + ENTRY_ROWS);
            let end = start + column.rows_of_text(file, rows, TEXT_CHUNK)?;
            entries::measure(&column.entry_lists(file, start..end)?, &mut shape)?;
            start = end;
        }
    }
    Ok(shape)
}

/// Length of the list in the first row of a batch, of a column of lists with offsets; `None` where there is no list or an empty one.
pub(super) fn first_length(file: &Positioned, root: &Root, block: &Block) -> Result<Option<usize>, LoadError> {
    let large = matches!(root.data_type, DataType::LargeList(_));
    let batch = Batch::read(file, block)?;
    let mut column = ColumnReader::new(root, None);
    column.enter(file, &batch)?;
    let missing = column.validity(file, 0, 0..1)?.is_some();
    let offsets = offsets(&column.stored[1], file, large, 0..1)?;
    let length = (offsets[1] - offsets[0]) as usize;
    Ok((length > 0 && !missing).then_some(length))
}
