//! Reading rows of one column of a record batch.

use super::IpcFile;
use super::message::{Batch, Block, Form, IpcError, Root, Span};
use super::stored::Stored;
use crate::arrow::array::{ArrayData, ArrayRef, ByteView, make_array};
use crate::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use crate::arrow::compute::{TakeOptions, take};
use crate::arrow::datatypes::DataType;
use crate::source::column::{self, OddLength};
use crate::source::positioned::{Aligned, Positioned};
use crate::source::{Element, Strided, Values, View};
use std::ops::Range;

/// Why a chunk of a column could not be read.
pub(super) enum Problem {
    IpcError(IpcError),
    Odd(OddLength),
}

impl<E: Into<IpcError>> From<E> for Problem {
    fn from(error: E) -> Self {
        Self::IpcError(error.into())
    }
}

/// The buffers of a column in a batch, as they follow each other.
pub(super) fn spans(root: &Root, batch: &Batch) -> Result<Vec<Span>, IpcError> {
    let count = match (&root.form, &root.data_type) {
        (Form::Numbers { width: None, .. } | Form::Dictionary { .. }, _) => 2,
        (Form::Numbers { width: Some(_), .. }, _) => 3,
        (Form::Lists { .. }, _) => 4,
        (Form::Values, texts) if offset_bytes(texts).is_some() => 3,
        (Form::Values, DataType::Utf8View | DataType::BinaryView) => {
            2 + batch.variadic.get(root.variadic).copied().unwrap_or(0)
        }
        _ => 2,
    };
    // the data buffers of the view columns before this one
    let start = root.buffer + batch.variadic.iter().take(root.variadic).sum::<usize>();
    let spans = start.checked_add(count).and_then(|end| batch.buffers.get(start..end));
    Ok(spans.ok_or_else(|| format!("a batch without all buffers of column {:?}", root.name))?.to_vec())
}

pub(super) const VIEW_BYTES: usize = 16;
/// Longest text that stands in the view itself.
const INLINE: u32 = 12;

/// Bytes of an offset into texts that lie one after the other.
pub(super) fn offset_bytes(data_type: &DataType) -> Option<u64> {
    match data_type {
        DataType::Utf8 | DataType::Binary => Some(4),
        DataType::LargeUtf8 | DataType::LargeBinary => Some(8),
        _ => None,
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

/// A column of the batch at hand, and the chunk of it that was read last.
pub(super) struct ColumnReader<'a> {
    pub(super) root: &'a Root,
    pub(super) width: Option<usize>,
    pub(super) stored: Vec<Stored>,
    /// Nulls of the column and of the numbers in its lists.
    pub(super) nulls: [u64; 2],
    chunk: Chunk,
}

/// Values of the rows that were read last: numbers in reused bytes, or an array.
#[derive(Default)]
struct Chunk {
    bytes: Aligned,
    pub(super) nulls: Vec<Option<NullBuffer>>,
    array: Option<ArrayRef>,
}

impl<'a> ColumnReader<'a> {
    pub(super) fn new(root: &'a Root, width: Option<usize>) -> Self {
        Self { root, width, stored: Vec::new(), nulls: [0; 2], chunk: Chunk::default() }
    }

    /// Gets the buffers of a batch ready.
    pub(super) fn enter(&mut self, file: &Positioned, batch: &Batch) -> Result<(), IpcError> {
        let root = self.root;
        let missing = || format!("a batch without column {:?}", root.name);
        let own = *batch.nodes.get(root.node).ok_or_else(missing)?;
        if own.rows != batch.rows {
            return Err(format!("column {:?} has {} rows in a batch of {}", root.name, own.rows, batch.rows).into());
        }
        let listed = matches!(root.form, Form::Lists { .. } | Form::Numbers { width: Some(_), .. });
        let items = if listed { *batch.nodes.get(root.node + 1).ok_or_else(missing)? } else { own };
        self.nulls = [own.nulls, items.nulls];
        for span in spans(root, batch)? {
            self.stored.push(Stored::prepare(file, span, batch.codec)?);
        }
        Ok(())
    }

    pub(super) fn load(&mut self, ipc: &IpcFile, file: &Positioned, rows: Range<u64>) -> Result<(), Problem> {
        match (&self.root.form, self.width) {
            (Form::Numbers { element, width: None }, _) => {
                self.chunk.nulls = vec![self.validity(file, 0, self.nulls[0], rows.clone())?];
                self.numbers(file, 1, *element, rows)?;
            }
            (Form::Numbers { element, width: Some(width) }, _) => {
                let starts: Vec<u64> = (rows.start..=rows.end).map(|row| row * *width as u64).collect();
                self.lists(file, [1, 2], (*element, *width), rows, &starts)?;
            }
            (Form::Lists { element, large }, Some(width)) => {
                let starts = offsets(&self.stored[1], file, *large, rows.clone())?;
                self.lists(file, [2, 3], (*element, width), rows, &starts)?;
            }
            (Form::Dictionary { id, keys }, _) => {
                let DataType::Dictionary(_, values) = &self.root.data_type else { return Ok(()) };
                let values = ipc.dictionary(*id, values)?;
                let keys = self.array(file, keys, rows)?;
                // a key beyond the dictionary is damage, not a panic
                let checked = TakeOptions { check_bounds: true };
                let array = take(&values, &keys, Some(checked)).map_err(|error| error.to_string())?;
                self.chunk.array = Some(array);
            }
            (Form::Values, _) => {
                let array = self.array(file, &self.root.data_type, rows)?;
                self.chunk.array = Some(crate::source::plain::plain(&array).map_err(|error| error.to_string())?);
            }
            (Form::Lists { .. } | Form::Unread, _) => {}
        }
        Ok(())
    }

    fn numbers(&mut self, file: &Positioned, slot: usize, element: Element, items: Range<u64>) -> Result<(), IpcError> {
        let size = element.size() as u64;
        let count = usize::try_from((items.end - items.start) * size).map_err(|_| "a row too long".to_string())?;
        self.stored[slot].copy(file, items.start * size, self.chunk.bytes.room(count))
    }

    /// Reads lists that begin at `starts`, all of one length, row after row; of a missing list the numbers are missing. The
    /// slots are those of the validity of the numbers, and of the numbers.
    fn lists(
        &mut self,
        file: &Positioned,
        [validity, values]: [usize; 2],
        (element, width): (Element, usize),
        rows: Range<u64>,
        starts: &[u64],
    ) -> Result<(), Problem> {
        let lists = self.validity(file, 0, self.nulls[0], rows)?;
        let (rows, first) = (starts.len() - 1, starts[0]);
        let places: Vec<usize> = starts.iter().map(|start| (start - first) as usize).collect();
        column::check_lengths(&places, lists.as_ref(), width).map_err(Problem::Odd)?;
        let items = first..starts[rows];
        let nulls = self.validity(file, validity, self.nulls[1], items)?;
        let valid = |row: usize, item: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(places[row] + item));
        self.chunk.nulls = column::item_nulls(rows, width, nulls.is_some(), lists.as_ref(), valid);
        let row_bytes = width * element.size();
        let bytes = self.chunk.bytes.room(rows.checked_mul(row_bytes).ok_or_else(|| "a row too long".to_string())?);
        for (run, there) in column::runs(rows, lists.as_ref()) {
            let to = &mut bytes[run.start * row_bytes..run.end * row_bytes];
            match there {
                true => self.stored[values].copy(file, starts[run.start] * element.size() as u64, to)?,
                false => to.fill(0),
            }
        }
        Ok(())
    }

    /// For each of these rows or list items, true if it has a value; `None` where all have one.
    pub(super) fn validity(
        &self,
        file: &Positioned,
        slot: usize,
        nulls: u64,
        items: Range<u64>,
    ) -> Result<Option<NullBuffer>, IpcError> {
        if nulls == 0 {
            return Ok(None);
        }
        let nulls = NullBuffer::new(bits(&self.stored[slot], file, items)?);
        Ok((nulls.null_count() > 0).then_some(nulls))
    }

    /// The views of some rows, and the texts that they are too short for, in one buffer in the order of the rows: the
    /// buffers of the batch may be of any size, and only these rows are at hand.
    fn views(&self, file: &Positioned, rows: Range<u64>) -> Result<(Buffer, Buffer), IpcError> {
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
    pub(super) fn rows_of_text(&self, file: &Positioned, rows: Range<u64>, most: u64) -> Result<u64, IpcError> {
        let mut held = 0u64;
        let mut lengths = self.text_lengths(file, rows.clone())?.into_iter();
        let fits = lengths.position(|length| {
            held = held.saturating_add(length);
            held > most
        });
        Ok(fits.map_or(rows.end - rows.start, |row| (row as u64).max(1)))
    }

    /// Bytes of the texts of some rows; nothing where they are of one length, or lie in a dictionary.
    pub(super) fn text_lengths(&self, file: &Positioned, rows: Range<u64>) -> Result<Vec<u64>, IpcError> {
        match (&self.root.form, &self.root.data_type) {
            (Form::Values, DataType::Utf8View | DataType::BinaryView) => {
                let size = VIEW_BYTES as u64;
                let views = self.stored[1].buffer(file, rows.start * size, (rows.end - rows.start) * size)?;
                Ok(views.typed_data::<u128>().iter().map(|view| u64::from(*view as u32)).collect())
            }
            (Form::Values, texts) => match offset_bytes(texts) {
                Some(size) => {
                    let offsets = offsets(&self.stored[1], file, size == 8, rows)?;
                    Ok(offsets.windows(2).map(|pair| pair[1] - pair[0]).collect())
                }
                None => Ok(Vec::new()),
            },
            _ => Ok(Vec::new()),
        }
    }

    /// Reads some rows as an Arrow array, checked by the Arrow project's crate.
    fn array(&self, file: &Positioned, data_type: &DataType, rows: Range<u64>) -> Result<ArrayRef, IpcError> {
        let nulls = self.validity(file, 0, self.nulls[0], rows.clone())?;
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
                None => {
                    let size = value_bytes(texts) as u64;
                    data = data.add_buffer(self.stored[1].buffer(file, rows.start * size, count * size)?);
                }
            },
        }
        Ok(make_array(data.build().map_err(|error| error.to_string())?))
    }

    pub(super) fn view(&self, item: usize) -> Option<View<'_>> {
        let bytes = self.chunk.bytes.bytes();
        let nulls = self.chunk.nulls.get(item).and_then(Option::as_ref);
        let (element, width) = match (&self.root.form, self.width) {
            (Form::Numbers { element, width: None }, _) => {
                return Some(View { values: numbers(*element, bytes), nulls });
            }
            (Form::Numbers { element, .. } | Form::Lists { element, .. }, Some(width)) => (*element, width),
            _ => return crate::source::plain::view(self.chunk.array.as_ref()?),
        };
        let (offset, stride) = (item * element.size(), width * element.size());
        Some(View { values: Values::Strided(Strided { bytes, element, offset, stride }), nulls })
    }
}

/// Aligned bytes as the numbers they hold.
fn numbers(element: Element, bytes: &[u8]) -> Values<'_> {
    match element {
        Element::F32 => Values::F32(bytemuck::cast_slice(bytes)),
        Element::F64 => Values::F64(bytemuck::cast_slice(bytes)),
        Element::I8 => Values::I8(bytemuck::cast_slice(bytes)),
        Element::I16 => Values::I16(bytemuck::cast_slice(bytes)),
        Element::I32 => Values::I32(bytemuck::cast_slice(bytes)),
        Element::I64 => Values::I64(bytemuck::cast_slice(bytes)),
        Element::U8 => Values::U8(bytes),
        Element::U16 => Values::U16(bytemuck::cast_slice(bytes)),
        Element::U32 => Values::U32(bytemuck::cast_slice(bytes)),
        Element::U64 => Values::U64(bytemuck::cast_slice(bytes)),
        Element::F16 | Element::Bool => Values::Strided(Strided { bytes, element, offset: 0, stride: element.size() }),
    }
}

/// Some bits of a bitmap as an array of truth values.
fn bits(stored: &Stored, file: &Positioned, items: Range<u64>) -> Result<BooleanBuffer, IpcError> {
    let first = items.start / 8;
    let bytes = stored.buffer(file, first, items.end.div_ceil(8) - first)?;
    Ok(BooleanBuffer::new(bytes, (items.start % 8) as usize, (items.end - items.start) as usize))
}

/// The offsets of some rows and the end of the last, ascending.
pub(super) fn offsets(stored: &Stored, file: &Positioned, large: bool, rows: Range<u64>) -> Result<Vec<u64>, IpcError> {
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
pub(super) fn whole(file: &Positioned, root: &Root, batch: &Batch) -> Result<ArrayRef, IpcError> {
    let mut column = ColumnReader::new(root, None);
    if root.form == Form::Unread || matches!(root.form, Form::Lists { .. } | Form::Numbers { width: Some(_), .. }) {
        return Err(format!("a dictionary of {} is not read", root.data_type).into());
    }
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

/// Bytes of the longest text of a column in a batch, or more; 0 for other columns. Offsets tell it, which are a few bytes
/// for each row.
pub(super) fn longest_text(file: &Positioned, root: &Root, batch: &Batch) -> Result<u64, IpcError> {
    if !matches!(root.form, Form::Values)
        || value_bytes(&root.data_type) != VIEW_BYTES && offset_bytes(&root.data_type).is_none()
    {
        return Ok(0);
    }
    let spans = spans(root, batch)?;
    let texts: u64 = spans.iter().skip(2).map(|span| span.length).sum();
    if texts <= SMALL && batch.codec.is_none() {
        return Ok(texts.max(1));
    }
    let mut column = ColumnReader::new(root, None);
    for span in spans.into_iter().take(2) {
        column.stored.push(Stored::prepare(file, span, batch.codec)?);
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

/// Length of the list in the first row of a batch; `None` where there is no list or an empty one.
pub(super) fn first_length(file: &Positioned, root: &Root, block: &Block) -> Result<Option<usize>, IpcError> {
    let Form::Lists { large, .. } = root.form else { return Ok(None) };
    let batch = Batch::read(file, block)?;
    let mut column = ColumnReader::new(root, None);
    column.enter(file, &batch)?;
    let missing = column.validity(file, 0, column.nulls[0], 0..1)?.is_some();
    let offsets = offsets(&column.stored[1], file, large, 0..1)?;
    let length = (offsets[1] - offsets[0]) as usize;
    Ok((length > 0 && !missing).then_some(length))
}
