//! Reads some rows of one column of a record batch.

use super::IpcFile;
use super::message::{Batch, Block, ByteSpan, LayoutCounts, RootColumn};
use super::stored_buffer::{StoredBuffer, open_stream};
use crate::arrow::array::{Array, ArrayData, ArrayRef, ByteView, make_array, new_null_array};
use crate::arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer};
use crate::arrow::compute::{TakeOptions, concat, take};
use crate::arrow::datatypes::DataType;
use crate::source::column::{self, LoadedColumn};
use crate::source::data_type::{column_kind, element_type};
use crate::source::load_error::LoadError;
use crate::source::shared_file::SharedFile;
use crate::source::sparse_entries::{self, LOADED_ENTRY_BYTES};
use crate::source::{ColumnView, Values};
use crate::sparse::SparseShape;
use std::io::Read;
use std::ops::Range;

const VIEW_BYTES: usize = 16;
/// Maximum length of a text that is stored in the view itself.
const MAX_INLINE_BYTES: u32 = 12;

/// Returns whether the type has offsets into contiguous items. Texts do, and so do the entries of
/// sparse rows.
fn has_offsets(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::Binary | DataType::LargeUtf8 | DataType::LargeBinary)
        || sparse_entries::entry_fields(data_type).is_some()
}

fn is_view(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8View | DataType::BinaryView)
}

/// Returns the bytes of a value, if the type has no offsets; 0 for unsupported types.
pub(super) fn fixed_value_bytes(data_type: &DataType) -> usize {
    match data_type {
        DataType::Utf8View | DataType::BinaryView => VIEW_BYTES,
        DataType::FixedSizeBinary(size) => usize::try_from(*size).unwrap_or(0),
        other => other.primitive_width().unwrap_or(0),
    }
}

/// Reads one column of the current batch.
pub(super) struct ColumnReader<'a> {
    pub(super) root: &'a RootColumn,
    list_length: Option<usize>,
    pub(super) buffers: Vec<StoredBuffer>,
    /// Null counts: of the column, and of the items in its lists.
    pub(super) null_counts: Vec<u64>,
    /// The memory of the previous chunk, which is reused. If every chunk were allocated anew, the
    /// memory would become fragmented.
    reused_buffer: MutableBuffer,
}

impl<'a> ColumnReader<'a> {
    pub(super) fn new(root: &'a RootColumn, list_length: Option<usize>) -> Self {
        Self { root, list_length, buffers: Vec::new(), null_counts: Vec::new(), reused_buffer: MutableBuffer::new(0) }
    }

    pub(super) fn enter_batch(&mut self, file: &SharedFile, batch: &Batch) -> Result<(), LoadError> {
        let nodes = self.root.nodes(batch)?;
        if let Some(node) = nodes.first().filter(|node| node.row_count != batch.row_count) {
            let name = &self.root.name;
            return Err(format!("column {name:?} has {} rows in a batch of {}", node.row_count, batch.row_count).into());
        }
        self.null_counts = nodes.iter().map(|node| node.null_count).collect();
        for span in self.root.spans(batch)? {
            self.buffers.push(StoredBuffer::prepare(file, *span, batch.codec)?);
        }
        Ok(())
    }

    /// Reads rows of the column with the index `root` in the file. Reuses the memory of
    /// `previous`, the previous chunk.
    pub(super) fn load_rows(
        &mut self,
        ipc: &IpcFile,
        root: usize,
        rows: Range<u64>,
        previous: Option<LoadedColumn>,
    ) -> Result<LoadedColumn, LoadError> {
        self.reused_buffer = previous.and_then(LoadedColumn::into_buffer).unwrap_or_default();
        let column = self.root;
        let array = match &column.data_type {
            DataType::Dictionary(keys, values) => {
                let id = column.dictionary_id.ok_or_else(|| "a dictionary without an ID".to_string())?;
                let (values, keys) = (ipc.dictionary(id, values)?, self.read_array(keys, rows)?);
                // a key beyond the dictionary returns an error instead of a panic
                take(&values, &keys, Some(TakeOptions { check_bounds: true }))?
            }
            DataType::Null => new_null_array(&DataType::Null, (rows.end - rows.start) as usize),
            data_type => self.read_array(data_type, rows)?,
        };
        LoadedColumn::new(&array, &ipc.layout, root)
    }

    fn read_array(&mut self, data_type: &DataType, rows: Range<u64>) -> Result<ArrayRef, LoadError> {
        Ok(make_array(self.read_part(LayoutCounts::default(), data_type, rows)?.0))
    }

    /// Reads some items of a part of the column. The node and the buffers of the part are at
    /// `position`. Returns the position of the next part.
    fn read_part(
        &mut self,
        position: LayoutCounts,
        data_type: &DataType,
        items: Range<u64>,
    ) -> Result<(ArrayData, LayoutCounts), LoadError> {
        let (data_buffer, item_count) = (position.buffers + 1, items.end - items.start);
        let validity = self.read_validity(position, items.clone())?;
        let data = ArrayData::builder(data_type.clone()).len(item_count as usize).nulls(validity.clone());
        let mut next = position;
        next.add_node(data_type);
        let data = match data_type {
            DataType::Boolean => data.add_buffer(read_bits(&self.buffers[data_buffer], items)?.sliced()),
            view if is_view(view) => {
                let (views, texts) = self.read_views(items)?;
                data.add_buffer(views).add_buffer(texts)
            }
            DataType::Utf8 | DataType::Binary | DataType::LargeUtf8 | DataType::LargeBinary => {
                let starts = read_offsets(&self.buffers[data_buffer], data_type, items)?;
                let (first, last) = (starts[0], starts[starts.len() - 1]);
                let text = self.buffers[data_buffer + 1].read(first, last - first)?;
                data.add_buffer(rebase_offsets(&starts, data_type)).add_buffer(text)
            }
            DataType::FixedSizeList(item, size) => {
                let size = u64::try_from(*size).map_err(|_| format!("lists of the invalid length {size}"))?;
                let item = self.read_part(next, item.data_type(), items.start * size..items.end * size)?.0;
                data.add_child_data(item)
            }
            DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _) => {
                let starts = read_offsets(&self.buffers[data_buffer], data_type, items)?;
                let (starts, item_ranges) = self.offsets_and_item_ranges(&starts, validity.as_ref())?;
                let part = |run| Ok(make_array(self.read_part(next, item.data_type(), run)?.0));
                let parts = item_ranges.into_iter().map(part).collect::<Result<Vec<_>, LoadError>>()?;
                let item = match &parts[..] {
                    [single] => single.to_data(),
                    parts => concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>())?.to_data(),
                };
                // no part follows a list, so `next` need not skip the items of the list
                data.add_buffer(rebase_offsets(&starts, data_type)).add_child_data(item)
            }
            DataType::Struct(fields) => {
                let mut data = data;
                for field in fields {
                    let (part, next_part) = self.read_part(next, field.data_type(), items.clone())?;
                    (data, next) = (data.add_child_data(part), next_part);
                }
                data
            }
            other => match fixed_value_bytes(other) as u64 {
                0 => return Err(format!("a column of {}, which is not supported", column_kind(other)).into()),
                size => {
                    let buffer = std::mem::take(&mut self.reused_buffer);
                    data.add_buffer(self.buffers[data_buffer].read_into(
                        items.start * size,
                        item_count * size,
                        buffer,
                    )?)
                }
            },
        };
        Ok((data.build()?, next))
    }

    /// Returns the offsets of the lists of some rows, relative to the items that are read, and the
    /// ranges of these items. The items of a missing list are not read.
    fn offsets_and_item_ranges(
        &self,
        starts: &[u64],
        list_validity: Option<&NullBuffer>,
    ) -> Result<(Vec<u64>, Vec<Range<u64>>), LoadError> {
        if let Some(width) = self.list_length {
            column::check_list_lengths(
                starts.windows(2).map(|pair| (pair[1] - pair[0]) as usize),
                list_validity,
                width,
            )?;
        }
        let (mut offsets, mut item_ranges) = (vec![0], Vec::<Range<u64>>::new());
        for (row, bounds) in starts.windows(2).enumerate() {
            let is_present = list_validity.is_none_or(|lists| lists.is_valid(row));
            let item_range = bounds[0]..if is_present { bounds[1] } else { bounds[0] };
            offsets.push(offsets[row] + (item_range.end - item_range.start));
            match item_ranges.last_mut().filter(|run| run.end == item_range.start) {
                Some(run) => run.end = item_range.end,
                None => item_ranges.push(item_range),
            }
        }
        Ok((offsets, item_ranges))
    }

    /// Returns the validity of some items of a part; `None` if all of them have a value.
    fn read_validity(&self, position: LayoutCounts, items: Range<u64>) -> Result<Option<NullBuffer>, LoadError> {
        if self.null_counts.get(position.nodes) == Some(&0) {
            return Ok(None);
        }
        let nulls = NullBuffer::new(read_bits(&self.buffers[position.buffers], items)?);
        Ok((nulls.null_count() > 0).then_some(nulls))
    }

    /// Returns the views of some rows, and a buffer with their texts in row order. The buffer has
    /// the texts that do not fit into a view. Only the texts of these rows are read, because the
    /// buffers of the batch may be large.
    fn read_views(&self, rows: Range<u64>) -> Result<(Buffer, Buffer), LoadError> {
        let size = VIEW_BYTES as u64;
        let stored = self.buffers[1].read(rows.start * size, (rows.end - rows.start) * size)?;
        let mut views = stored.typed_data::<u128>().to_vec();
        let mut texts = Vec::new();
        for view in views.iter_mut().filter(|view| **view as u32 > MAX_INLINE_BYTES) {
            let ByteView { length, buffer_index, offset, .. } = ByteView::from(*view);
            let text_buffer = self.buffers.get(2 + buffer_index as usize);
            let text_buffer =
                text_buffer.ok_or_else(|| format!("a text in buffer {buffer_index}, which does not exist"))?;
            let new_offset = u32::try_from(texts.len()).map_err(|_| "texts of more than 4 GiB".to_string())?;
            text_buffer.append_to(offset.into(), length as usize, &mut texts)?;
            *view = ByteView { length, buffer_index: 0, offset: new_offset, ..ByteView::from(*view) }.into();
        }
        Ok((Buffer::from_vec(views), Buffer::from_vec(texts)))
    }

    /// Returns how many rows of the range have together at most `max_bytes` of text; at least 1.
    pub(super) fn rows_that_fit(&self, rows: Range<u64>, max_bytes: u64) -> Result<u64, LoadError> {
        let mut total_bytes = 0u64;
        let mut lengths = self.text_lengths(rows.clone())?.into_iter();
        let exceeding_row = lengths.position(|length| {
            total_bytes = total_bytes.saturating_add(length);
            total_bytes > max_bytes
        });
        Ok(exceeding_row.map_or(rows.end - rows.start, |row| (row as u64).max(1)))
    }

    /// Returns the bytes of the text or of the entries in each of some rows. The list is empty for
    /// types of fixed length and for dictionaries.
    pub(super) fn text_lengths(&self, rows: Range<u64>) -> Result<Vec<u64>, LoadError> {
        let data_type = &self.root.data_type;
        if is_view(data_type) {
            let size = VIEW_BYTES as u64;
            let views = self.buffers[1].read(rows.start * size, (rows.end - rows.start) * size)?;
            return Ok(views.typed_data::<u128>().iter().map(|view| u64::from(*view as u32)).collect());
        }
        if !has_offsets(data_type) {
            return Ok(Vec::new());
        }
        let offsets = read_offsets(&self.buffers[1], data_type, rows)?;
        let entry_bytes = if sparse_entries::entry_fields(data_type).is_some() { LOADED_ENTRY_BYTES as u64 } else { 1 };
        Ok(offsets.windows(2).map(|pair| (pair[1] - pair[0]).saturating_mul(entry_bytes)).collect())
    }
}

fn read_bits(stored: &StoredBuffer, items: Range<u64>) -> Result<BooleanBuffer, LoadError> {
    let first = items.start / 8;
    let bytes = stored.read(first, items.end.div_ceil(8) - first)?;
    Ok(BooleanBuffer::new(bytes, (items.start % 8) as usize, (items.end - items.start) as usize))
}

/// Returns whether offsets have 8 bytes.
fn has_large_offsets(data_type: &DataType) -> bool {
    matches!(data_type, DataType::LargeUtf8 | DataType::LargeBinary | DataType::LargeList(_))
}

fn read_offsets(stored: &StoredBuffer, data_type: &DataType, rows: Range<u64>) -> Result<Vec<u64>, LoadError> {
    let count = rows.end - rows.start + 1;
    let size = if has_large_offsets(data_type) { 8 } else { 4 };
    let bytes = stored.read(rows.start * size, count * size)?;
    let offsets: Vec<i64> = match size {
        8 => bytes.typed_data::<i64>().to_vec(),
        _ => bytes.typed_data::<i32>().iter().map(|offset| i64::from(*offset)).collect(),
    };
    if offsets[0] < 0 || offsets.windows(2).any(|pair| pair[1] < pair[0]) {
        return Err("the offsets of a column are not ascending".to_string().into());
    }
    Ok(offsets.into_iter().map(|offset| offset as u64).collect())
}

/// Returns the offsets relative to the first of them, in the width in which they are stored.
fn rebase_offsets(offsets: &[u64], data_type: &DataType) -> Buffer {
    let first = offsets[0];
    match has_large_offsets(data_type) {
        true => offsets.iter().map(|offset| (offset - first) as i64).collect(),
        false => offsets.iter().map(|offset| (offset - first) as i32).collect(),
    }
}

pub(super) fn read_column(file: &SharedFile, root: &RootColumn, batch: &Batch) -> Result<ArrayRef, LoadError> {
    let mut column = ColumnReader::new(root, None);
    if batch.row_count == 0 {
        return Ok(crate::arrow::array::new_empty_array(&root.data_type));
    }
    column.enter_batch(file, batch)?;
    column.read_array(&root.data_type, 0..batch.row_count)
}

/// If the texts of a batch have at most this many bytes in total, they are not measured one by one.
/// Instead they count as a single text.
const SMALL_TEXT_BYTES: u64 = 64 << 10;
/// Number of values that are read at once. It is small, so that no buffer is in memory as a whole.
const VALUES_PER_READ: u64 = 8 << 10;

/// Calls `visitor` with the first `value_count` values of a buffer in order; each has `value_bytes`
/// bytes. A compressed buffer is unpacked as a stream, because no memory is planned for it yet, and
/// a batch of equal rows may unpack to a thousand times its size in the file.
fn for_each_value(
    file: &SharedFile,
    batch: &Batch,
    span: ByteSpan,
    value_count: u64,
    value_bytes: usize,
    mut visitor: impl FnMut(&[u8]),
) -> Result<(), LoadError> {
    let mut bytes = open_stream(file, span, batch.codec)?;
    let mut part = vec![0; value_count.min(VALUES_PER_READ) as usize * value_bytes];
    for start in (0..value_count).step_by(VALUES_PER_READ as usize) {
        let part = &mut part[..(value_count - start).min(VALUES_PER_READ) as usize * value_bytes];
        bytes.read_exact(part).map_err(|_| "a buffer is shorter than its rows need, or damaged".to_string())?;
        part.chunks_exact(value_bytes).for_each(&mut visitor);
    }
    Ok(())
}

/// Returns the length of the longest list (in items) or text (in bytes) of a batch.
fn longest_item(file: &SharedFile, batch: &Batch, root: &RootColumn, row_count: u64) -> Result<u64, LoadError> {
    let size = if has_large_offsets(&root.data_type) { 8 } else { 4 };
    let span = root.spans(batch)?[1];
    let (mut previous_offset, mut longest) = (None, 0i64);
    for_each_value(file, batch, span, row_count + 1, size, |bytes| {
        // an i64 if there are 8 bytes, otherwise an i32
        let offset = bytes.first_chunk().map_or_else(
            || bytes.first_chunk().map_or(0, |bytes| i32::from_le_bytes(*bytes).into()),
            |bytes| i64::from_le_bytes(*bytes),
        );
        longest = longest.max(previous_offset.map_or(0, |before| offset.saturating_sub(before)));
        previous_offset = Some(offset);
    })?;
    Ok(u64::try_from(longest).unwrap_or(0))
}

/// Returns an upper bound of the longest text of a column in a batch, in bytes; 0 if the column
/// holds no texts. The bound is computed from the offsets or views, which take a few bytes for each
/// row.
pub(super) fn longest_text(file: &SharedFile, root: &RootColumn, batch: &Batch) -> Result<u64, LoadError> {
    let is_view = is_view(&root.data_type);
    if !is_view && !has_offsets(&root.data_type) {
        return Ok(0);
    }
    let spans = root.spans(batch)?;
    let text_bytes: u64 = spans.iter().skip(2).map(|span| span.length).sum();
    if text_bytes <= SMALL_TEXT_BYTES && batch.codec.is_none() {
        return Ok(text_bytes.max(1));
    }
    if !is_view {
        let entry_bytes =
            if sparse_entries::entry_fields(&root.data_type).is_some() { LOADED_ENTRY_BYTES as u64 } else { 1 };
        return Ok(longest_item(file, batch, root, batch.row_count)?.saturating_mul(entry_bytes).max(1));
    }
    let mut longest = 1;
    for_each_value(file, batch, spans[1], batch.row_count, VIEW_BYTES, |view| {
        longest = longest.max(view.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)));
    })?;
    Ok(longest.into())
}

/// Returns the shape of the sparse rows of a column over all batches. Errors in the rows are not
/// reported here, but when the rows are read.
pub(super) fn sparse_shape(file: &SharedFile, root: &RootColumn, blocks: &[Block]) -> Result<SparseShape, LoadError> {
    let Some(element) =
        sparse_entries::entry_fields(&root.data_type).and_then(|fields| element_type(fields[0].data_type()))
    else {
        return Ok(SparseShape::default());
    };
    let mut shape = SparseShape::default();
    for block in blocks {
        let batch = Batch::read(file, block)?;
        let (spans, nodes) = (root.spans(&batch)?, root.nodes(&batch)?);
        if batch.row_count == 0 {
            continue;
        }
        // the offsets are followed by the validity of the entries, the validity of the indices, and
        // the indices
        let (span, mut max_index) = (spans[4], -1);
        for_each_value(file, &batch, span, nodes[2].row_count, element.bytes_per_value(), |bytes| {
            let index = ColumnView { values: Values::from_bytes(bytes, element), nulls: None }.integer(0);
            max_index = max_index.max(index.unwrap_or(-1));
        })?;
        let longest = longest_item(file, &batch, root, batch.row_count)?;
        let [width, longest] = [max_index + 1, longest.into()].map(|size| usize::try_from(size).unwrap_or(0));
        shape = shape.union(SparseShape { column_count: width, max_row_entries: longest });
    }
    // a row with more entries than columns has duplicates, which are an error when the row is read
    shape.max_row_entries = shape.max_row_entries.min(shape.column_count);
    Ok(shape)
}

/// Returns the length of the list in the first row of a batch, for a column of lists with offsets.
/// Returns `None` if this list is missing or empty.
pub(super) fn first_list_length(
    file: &SharedFile,
    root: &RootColumn,
    block: &Block,
) -> Result<Option<usize>, LoadError> {
    let batch = Batch::read(file, block)?;
    let (spans, nodes) = (root.spans(&batch)?, root.nodes(&batch)?);
    let mut is_present = true;
    if nodes[0].null_count > 0 {
        for_each_value(file, &batch, spans[0], 1, 1, |bits| is_present = bits[0] & 1 == 1)?;
    }
    let length = usize::try_from(longest_item(file, &batch, root, 1)?).unwrap_or(0);
    Ok((length > 0 && is_present).then_some(length))
}
