//! Arrays of numpy and scipy with further columns, as a table: of a dense array nothing is copied.

use crate::foreign::ArrayBytes;
use kstore::arrow::array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, StringViewArray};
use kstore::schema::{Column, Kind, Schema};
use kstore::source::{Element, FileCursor, Strided, TableFile, Values, View};
use kstore::{Error, Result};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Rows of a chunk: a few hundred kilobytes of most tables.
const CHUNK: u64 = 8192;

/// Numbers of a chunk of sparse rows, once they are dense: 4 MiB.
const DENSE: usize = 1 << 19;

/// The features of all rows.
#[derive(Debug)]
pub(crate) enum Features {
    /// An array n x d in C order.
    Dense(ArrayBytes, Element),
    /// Rows that tell their values that are not zero.
    Sparse(SparseRows),
}

/// Compressed sparse rows, as scipy has them: row i has the entries `starts[i]..starts[i + 1]`, and several of one place add up.
#[derive(Debug)]
pub(crate) struct SparseRows {
    starts: Vec<usize>,
    places: Vec<u32>,
    values: Vec<f64>,
}

impl SparseRows {
    /// The rows; `None` for places outside `d` columns, or rows that do not follow each other.
    pub(crate) fn new(starts: &[i64], places: &[i64], values: &[f64], d: usize) -> Option<Self> {
        let starts: Vec<usize> = starts.iter().map(|start| usize::try_from(*start).ok()).collect::<Option<_>>()?;
        let inside = |place: &i64| u32::try_from(*place).ok().filter(|place| (*place as usize) < d);
        let places: Vec<u32> = places.iter().map(inside).collect::<Option<_>>()?;
        let ordered = starts.first() == Some(&0) && starts.is_sorted() && starts.last() == Some(&values.len());
        (ordered && places.len() == values.len()).then(|| Self { starts, places, values: values.to_vec() })
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Rows of a chunk of `d` columns.
    fn chunk(d: usize) -> u64 {
        ((DENSE / d.max(1)) as u64).clamp(1, CHUNK)
    }

    /// Writes rows into `dense`, column by column.
    fn fill(&self, rows: Range<usize>, d: usize, dense: &mut Vec<f64>) {
        dense.clear();
        dense.resize(rows.len() * d, 0.0);
        for (i, row) in rows.clone().enumerate() {
            for entry in self.starts[row]..self.starts[row + 1] {
                dense[self.places[entry] as usize * rows.len() + i] += self.values[entry];
            }
        }
    }
}

/// Features, and further columns: targets, labels, weights.
#[derive(Debug)]
pub(crate) struct ArrayRows {
    schema: Schema,
    x: Features,
    d: usize,
    rows: u64,
    more: Vec<ArrayRef>,
}

impl ArrayRows {
    /// A table with a column for each name; the further columns have n rows each.
    pub(crate) fn new(x: Features, names: Vec<String>, rows: u64, more: Vec<(String, ArrayRef)>) -> Self {
        let d = names.len();
        let bits = if let Features::Dense(_, element) = &x { 8 * element.size() as u8 } else { 64 };
        let features = names.into_iter().map(|name| Column { name, kind: Kind::Float { bits } });
        let kind = |array: &ArrayRef| match array.data_type() {
            kstore::arrow::datatypes::DataType::Boolean => Kind::Bool,
            kstore::arrow::datatypes::DataType::Int64 => Kind::Int { bits: 64, signed: true },
            kstore::arrow::datatypes::DataType::Utf8View => Kind::Text,
            _ => Kind::Float { bits: 64 },
        };
        let others = more.iter().map(|(name, array)| Column { name: name.clone(), kind: kind(array) });
        let schema = Schema { columns: features.chain(others).collect(), ..Schema::default() };
        Self { schema, x, d, rows, more: more.into_iter().map(|(_, array)| array).collect() }
    }
}

impl TableFile for ArrayRows {
    fn format(&self) -> &'static str {
        "memory"
    }

    fn is_named(&self) -> bool {
        false
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn bytes(&self) -> u64 {
        let x = match &self.x {
            Features::Dense(x, _) => x.bytes().len(),
            Features::Sparse(x) => 12 * x.values.len() + 8 * x.starts.len(),
        };
        x as u64 + self.more.iter().map(|array| array.get_array_memory_size() as u64).sum::<u64>()
    }

    /// No bytes of a dense array, which belongs to the caller; of sparse rows those of a chunk.
    fn footprint(&self, _: &[usize]) -> usize {
        match &self.x {
            Features::Dense(..) => 0,
            Features::Sparse(_) => SparseRows::chunk(self.d) as usize * self.d * 8,
        }
    }

    fn open<'a>(&'a self, columns: &[usize], rows: Range<u64>, _: &Arc<AtomicU64>) -> Result<Box<dyn FileCursor + 'a>> {
        Ok(Box::new(Cursor {
            table: self,
            columns: columns.to_vec(),
            left: rows,
            first: 0,
            dense: Vec::new(),
            chunk: Vec::new(),
        }))
    }
}

struct Cursor<'a> {
    table: &'a ArrayRows,
    columns: Vec<usize>,
    left: Range<u64>,
    /// First row of the chunk that was read last.
    first: usize,
    /// The features of that chunk, column by column, where rows are sparse.
    dense: Vec<f64>,
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
        let Features::Sparse(x) = &self.table.x else { return Ok(self.pass(CHUNK)) };
        let rows = self.pass(SparseRows::chunk(self.table.d));
        x.fill(self.first..self.first + rows, self.table.d, &mut self.dense);
        Ok(rows)
    }

    fn advance_into(&mut self, element: Element, columns: usize, x: &mut [u8]) -> Result<Option<usize>> {
        let (table, stride) = (self.table, self.table.d * element.size());
        let Features::Dense(bytes, own) = &table.x else { return Ok(None) };
        let ordered = self.columns.iter().take(columns).enumerate().all(|(i, column)| i == *column);
        if element != *own || columns != table.d || !ordered {
            return Ok(None);
        }
        let rows = self.pass((x.len() / stride) as u64);
        x[..rows * stride].copy_from_slice(&bytes.bytes()[self.first * stride..][..rows * stride]);
        Ok(Some(rows))
    }

    fn view(&self, index: usize) -> Result<View<'_>> {
        let (table, column) = (self.table, self.columns[index]);
        let values = match column.checked_sub(table.d) {
            None => Some(match &table.x {
                Features::Dense(x, element) => {
                    let (size, stride) = (element.size(), table.d * element.size());
                    let bytes = &x.bytes()[self.first * stride..];
                    Values::Strided(Strided { bytes, element: *element, offset: column * size, stride })
                }
                Features::Sparse(_) => {
                    let rows = self.dense.len() / table.d;
                    Values::F64(&self.dense[column * rows..][..rows])
                }
            }),
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
