//! Reading rows of one column of a record batch.

use super::IpcFile;
use super::message::{Batch, Block, Form, Node, Root, Span, Trouble};
use super::stored::{Need, Stored};
use crate::source::aligned::Aligned;
use crate::source::column::{self, OddLength};
use crate::source::positioned::Positioned;
use crate::source::{Element, Strided, Values, View};
use arrow::array::{ArrayData, ArrayRef, make_array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{TakeOptions, take};
use arrow::datatypes::DataType;
use std::ops::Range;

/// Why a chunk of a column could not be read.
pub(super) enum Problem {
    Trouble(Trouble),
    Odd(OddLength),
}

impl<E: Into<Trouble>> From<E> for Problem {
    fn from(error: E) -> Self {
        Self::Trouble(error.into())
    }
}

/// The buffers of a column in a batch, as they follow each other.
pub(super) fn spans(root: &Root, batch: &Batch) -> Result<Vec<Span>, Trouble> {
    let count = match (&root.form, &root.data_type) {
        (Form::Numbers { width: None, .. } | Form::Dictionary { .. }, _) => 2,
        (Form::Numbers { width: Some(_), .. }, _) => 3,
        (Form::Lists { .. }, _) => 4,
        (Form::Values, DataType::Utf8 | DataType::LargeUtf8) => 3,
        (Form::Values, DataType::Utf8View) => 2 + batch.variadic.get(root.variadic).copied().unwrap_or(0),
        _ => 2,
    };
    // the data buffers of the view columns before this one
    let start = root.buffer + batch.variadic.iter().take(root.variadic).sum::<usize>();
    let spans = start.checked_add(count).and_then(|end| batch.buffers.get(start..end));
    Ok(spans.ok_or_else(|| format!("a batch without all buffers of column {:?}", root.name))?.to_vec())
}

/// How much of each of these buffers the rows of a batch need.
fn needs(root: &Root, batch: &Batch, nodes: [Node; 2]) -> Vec<Need> {
    let [own, items] = nodes;
    let rows = batch.rows;
    let bits = |rows: u64| Need::Bytes(rows.div_ceil(8));
    let bytes = |count: u64, size: usize| Need::Bytes(count.saturating_mul(size as u64));
    let validity = if own.nulls > 0 { bits(rows) } else { Need::Bytes(0) };
    let item_validity = if items.nulls > 0 { bits(items.rows) } else { Need::Bytes(0) };
    match (&root.form, &root.data_type) {
        (Form::Numbers { element, width: None }, _) => vec![validity, bytes(rows, element.size())],
        (Form::Numbers { element, width: Some(_) }, _) => {
            vec![validity, item_validity, bytes(items.rows, element.size())]
        }
        (Form::Lists { element, large }, _) => {
            let offsets = bytes(rows.saturating_add(1), if *large { 8 } else { 4 });
            vec![validity, offsets, item_validity, bytes(items.rows, element.size())]
        }
        (Form::Dictionary { keys, .. }, _) => vec![validity, bytes(rows, keys.primitive_width().unwrap_or(4))],
        (_, DataType::Boolean) => vec![validity, bits(rows)],
        (_, DataType::Utf8) => vec![validity, bytes(rows.saturating_add(1), 4), Need::All],
        (_, DataType::LargeUtf8) => vec![validity, bytes(rows.saturating_add(1), 8), Need::All],
        (_, DataType::Utf8View) => vec![validity, bytes(rows, 16)],
        (_, other) => vec![validity, bytes(rows, other.primitive_width().unwrap_or(0))],
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

/// Values of the rows at hand: numbers in reused bytes, or an array.
#[derive(Default)]
struct Chunk {
    bytes: Aligned,
    nulls: Vec<Option<NullBuffer>>,
    array: Option<ArrayRef>,
}

impl<'a> ColumnReader<'a> {
    pub(super) fn new(root: &'a Root, width: Option<usize>) -> Self {
        Self { root, width, stored: Vec::new(), nulls: [0; 2], chunk: Chunk::default() }
    }

    /// Gets the buffers of a batch ready.
    pub(super) fn enter(&mut self, file: &Positioned, batch: &Batch) -> Result<(), Trouble> {
        let root = self.root;
        let missing = || format!("a batch without column {:?}", root.name);
        let own = *batch.nodes.get(root.node).ok_or_else(missing)?;
        if own.rows != batch.rows {
            return Err(format!("column {:?} has {} rows in a batch of {}", root.name, own.rows, batch.rows).into());
        }
        let listed = matches!(root.form, Form::Lists { .. } | Form::Numbers { width: Some(_), .. });
        let items = if listed { *batch.nodes.get(root.node + 1).ok_or_else(missing)? } else { own };
        self.nulls = [own.nulls, items.nulls];
        let needs = needs(root, batch, [own, items]);
        for (i, span) in spans(root, batch)?.into_iter().enumerate() {
            let need = needs.get(i).copied().unwrap_or(Need::All);
            self.stored.push(Stored::prepare(file, span, batch.codec, need)?);
        }
        Ok(())
    }

    /// Reads some rows of the batch.
    pub(super) fn load(&mut self, ipc: &IpcFile, file: &Positioned, rows: Range<u64>) -> Result<(), Problem> {
        match (&self.root.form, self.width) {
            (Form::Numbers { element, width: None }, _) => {
                self.chunk.nulls = vec![self.validity(file, 0, self.nulls[0], rows.clone())?];
                self.numbers(file, 1, *element, rows)?;
            }
            (Form::Numbers { element, width: Some(width) }, _) => {
                self.no_missing_list(file, rows.clone())?;
                let items = rows.start * *width as u64..rows.end * *width as u64;
                let nulls = self.validity(file, 1, self.nulls[1], items.clone())?;
                self.chunk.nulls = column::item_nulls(nulls.as_ref(), *width);
                self.numbers(file, 2, *element, items)?;
            }
            (Form::Lists { element, large }, Some(width)) => {
                self.no_missing_list(file, rows.clone())?;
                let items = self.items(file, *large, width, rows)?;
                let nulls = self.validity(file, 2, self.nulls[1], items.clone())?;
                self.chunk.nulls = column::item_nulls(nulls.as_ref(), width);
                self.numbers(file, 3, *element, items)?;
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
                self.chunk.array = Some(column::plain(&array).map_err(|error| error.to_string())?);
            }
            (Form::Lists { .. } | Form::Unread, _) => {}
        }
        Ok(())
    }

    /// Reads numbers into the reused bytes.
    fn numbers(&mut self, file: &Positioned, slot: usize, element: Element, items: Range<u64>) -> Result<(), Trouble> {
        let size = element.size() as u64;
        let count = usize::try_from((items.end - items.start) * size).map_err(|_| "a row too long".to_string())?;
        self.stored[slot].copy(file, items.start * size, self.chunk.bytes.room(count))
    }

    /// Which of these rows or list items have a value; `None` where all have.
    fn validity(
        &self,
        file: &Positioned,
        slot: usize,
        nulls: u64,
        items: Range<u64>,
    ) -> Result<Option<NullBuffer>, Trouble> {
        if nulls == 0 {
            return Ok(None);
        }
        let nulls = NullBuffer::new(bits(&self.stored[slot], file, items)?);
        Ok((nulls.null_count() > 0).then_some(nulls))
    }

    fn no_missing_list(&self, file: &Positioned, rows: Range<u64>) -> Result<(), Problem> {
        let nulls = self.validity(file, 0, self.nulls[0], rows)?;
        match nulls.and_then(|nulls| (0..nulls.len()).find(|row| nulls.is_null(*row))) {
            Some(row) => Err(Problem::Odd(OddLength { row, got: None })),
            None => Ok(()),
        }
    }

    /// The numbers that the lists of some rows hold, where all have the same length.
    fn items(&self, file: &Positioned, large: bool, width: usize, rows: Range<u64>) -> Result<Range<u64>, Problem> {
        let offsets = offsets(&self.stored[1], file, large, rows)?;
        let lengths = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
        column::check_lengths(lengths, width).map_err(Problem::Odd)?;
        let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return Ok(0..0) };
        Ok(*first..*last)
    }

    /// Some rows as an Arrow array, checked by the Arrow project's crate.
    fn array(&self, file: &Positioned, data_type: &DataType, rows: Range<u64>) -> Result<ArrayRef, Trouble> {
        let nulls = self.validity(file, 0, self.nulls[0], rows.clone())?;
        let count = rows.end - rows.start;
        let mut data = ArrayData::builder(data_type.clone()).len(count as usize).nulls(nulls);
        match data_type {
            DataType::Boolean => {
                let bits = bits(&self.stored[1], file, rows)?;
                data = data.add_buffer(bits.sliced());
            }
            DataType::Utf8 | DataType::LargeUtf8 => {
                let large = *data_type == DataType::LargeUtf8;
                let mut offsets = offsets(&self.stored[1], file, large, rows)?;
                let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
                let text = self.stored[2].buffer(file, first, last - first)?;
                offsets.iter_mut().for_each(|offset| *offset -= first);
                // they are ascending and were read from an integer of this width
                let offsets = match large {
                    true => offsets.iter().map(|offset| *offset as i64).collect(),
                    false => offsets.iter().map(|offset| *offset as i32).collect(),
                };
                data = data.add_buffer(offsets).add_buffer(text);
            }
            other => {
                let size = if *other == DataType::Utf8View { 16 } else { other.primitive_width().unwrap_or(0) } as u64;
                data = data.add_buffer(self.stored[1].buffer(file, rows.start * size, count * size)?);
                for stored in &self.stored[2..] {
                    data = data.add_buffer(stored.whole(file)?);
                }
            }
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
            _ => return column::view(self.chunk.array.as_ref()?),
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

/// Some bits of a bitmap.
fn bits(stored: &Stored, file: &Positioned, items: Range<u64>) -> Result<BooleanBuffer, Trouble> {
    let first = items.start / 8;
    let bytes = stored.buffer(file, first, items.end.div_ceil(8) - first)?;
    Ok(BooleanBuffer::new(bytes, (items.start % 8) as usize, (items.end - items.start) as usize))
}

/// The offsets of some rows and the end of the last, ascending.
fn offsets(stored: &Stored, file: &Positioned, large: bool, rows: Range<u64>) -> Result<Vec<u64>, Trouble> {
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
pub(super) fn whole(file: &Positioned, root: &Root, batch: &Batch) -> Result<ArrayRef, Trouble> {
    let mut column = ColumnReader::new(root, None);
    if root.form == Form::Unread || matches!(root.form, Form::Lists { .. } | Form::Numbers { width: Some(_), .. }) {
        return Err(format!("a dictionary of {} is not read", root.data_type).into());
    }
    if batch.rows == 0 {
        return Ok(arrow::array::new_empty_array(&root.data_type));
    }
    column.enter(file, batch)?;
    column.array(file, &root.data_type, 0..batch.rows)
}

/// Length of the list in the first row of a batch; `None` where there is no list or an empty one.
pub(super) fn first_length(file: &Positioned, root: &Root, block: &Block) -> Result<Option<usize>, Trouble> {
    let Form::Lists { large, .. } = root.form else { return Ok(None) };
    let batch = Batch::read(file, block)?;
    let mut column = ColumnReader::new(root, None);
    column.enter(file, &batch)?;
    let missing = column.validity(file, 0, column.nulls[0], 0..1)?.is_some();
    let offsets = offsets(&column.stored[1], file, large, 0..1)?;
    let length = (offsets[1] - offsets[0]) as usize;
    Ok((length > 0 && !missing).then_some(length))
}
