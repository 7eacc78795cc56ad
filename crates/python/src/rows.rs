//! An array of numpy with further columns, as a table: nothing of the array is copied.

use crate::foreign::ArrayBytes;
use arrow::array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, StringViewArray};
use kstore::schema::{Column, Kind, Schema};
use kstore::source::{Element, FileCursor, Strided, TableFile, Values, View};
use kstore::{Error, Result};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Rows of a chunk: a few hundred kilobytes of most tables.
const CHUNK: u64 = 8192;

/// Features from an array, n x d in C order, and further columns: targets, labels, weights.
#[derive(Debug)]
pub(crate) struct ArrayRows {
    schema: Schema,
    x: ArrayBytes,
    element: Element,
    d: usize,
    rows: u64,
    more: Vec<ArrayRef>,
}

impl ArrayRows {
    /// A table with a column for each name; the further columns have n rows each.
    pub(crate) fn new(
        x: ArrayBytes,
        element: Element,
        names: Vec<String>,
        rows: u64,
        more: Vec<(String, ArrayRef)>,
    ) -> Self {
        let d = names.len();
        let bits = 8 * element.size() as u8;
        let features = names.into_iter().map(|name| Column { name, kind: Kind::Float { bits } });
        let kind = |array: &ArrayRef| match array.data_type() {
            arrow::datatypes::DataType::Boolean => Kind::Bool,
            arrow::datatypes::DataType::Int64 => Kind::Int { bits: 64, signed: true },
            arrow::datatypes::DataType::Utf8View => Kind::Text,
            _ => Kind::Float { bits: 64 },
        };
        let others = more.iter().map(|(name, array)| Column { name: name.clone(), kind: kind(array) });
        let schema = Schema { columns: features.chain(others).collect(), ..Schema::default() };
        Self { schema, x, element, d, rows, more: more.into_iter().map(|(_, array)| array).collect() }
    }
}

impl TableFile for ArrayRows {
    fn format(&self) -> &'static str {
        "memory"
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn bytes(&self) -> u64 {
        self.x.bytes().len() as u64 + self.more.iter().map(|array| array.get_array_memory_size() as u64).sum::<u64>()
    }

    /// No bytes: the rows belong to the caller.
    fn footprint(&self, _: &[usize]) -> usize {
        0
    }

    fn open<'a>(&'a self, columns: &[usize], rows: Range<u64>, _: &Arc<AtomicU64>) -> Result<Box<dyn FileCursor + 'a>> {
        Ok(Box::new(Cursor { table: self, columns: columns.to_vec(), left: rows, first: 0, chunk: Vec::new() }))
    }
}

struct Cursor<'a> {
    table: &'a ArrayRows,
    columns: Vec<usize>,
    left: Range<u64>,
    /// First row of the chunk that was read last.
    first: usize,
    /// The further columns of that chunk; slices, without a copy.
    chunk: Vec<ArrayRef>,
}

impl Cursor<'_> {
    /// Moves past the next rows, at most `most`, and returns their number.
    fn pass(&mut self, most: u64) -> usize {
        let rows = (self.left.end - self.left.start).min(most) as usize;
        self.first = self.left.start as usize;
        self.left.start += rows as u64;
        self.chunk = self.table.more.iter().map(|array| array.slice(self.first, rows)).collect();
        rows
    }
}

impl FileCursor for Cursor<'_> {
    fn advance(&mut self) -> Result<usize> {
        Ok(self.pass(CHUNK))
    }

    fn advance_into(&mut self, element: Element, columns: usize, x: &mut [u8]) -> Result<Option<usize>> {
        let (table, stride) = (self.table, self.table.d * element.size());
        let ordered = self.columns.iter().take(columns).enumerate().all(|(i, column)| i == *column);
        if element != table.element || columns != table.d || !ordered {
            return Ok(None);
        }
        let rows = self.pass((x.len() / stride) as u64);
        x[..rows * stride].copy_from_slice(&table.x.bytes()[self.first * stride..][..rows * stride]);
        Ok(Some(rows))
    }

    fn view(&self, index: usize) -> Result<View<'_>> {
        let (table, column) = (self.table, self.columns[index]);
        let values = match column.checked_sub(table.d) {
            None => {
                let (size, stride) = (table.element.size(), table.d * table.element.size());
                let bytes = &table.x.bytes()[self.first * stride..];
                Some(Values::Strided(Strided { bytes, element: table.element, offset: column * size, stride }))
            }
            Some(place) => values(self.chunk[place].as_ref()),
        };
        let values = values.ok_or_else(|| Error::Malformed {
            path: "memory".into(),
            format: "arrays",
            detail: format!("column {column} is of a type that is not read"),
        })?;
        Ok(View { values, nulls: None })
    }
}

/// The values of a further column.
fn values(array: &dyn Array) -> Option<Values<'_>> {
    let any = array.as_any();
    let numbers = any.downcast_ref::<Float64Array>().map(|array| Values::F64(array.values()));
    let whole = || any.downcast_ref::<Int64Array>().map(|array| Values::I64(array.values()));
    let truths = || any.downcast_ref::<BooleanArray>().map(Values::Bool);
    let texts = || any.downcast_ref::<StringViewArray>().map(Values::Text);
    numbers.or_else(whole).or_else(truths).or_else(texts)
}
