//! Rows of numbers in memory, given as slices, as a table.

use super::{Element, FileCursor, Strided, TARGET, TableFile, Values, View};
use crate::schema::{Column, Kind, Schema};
use crate::{Error, Real, Result};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Rows of a chunk: a few hundred kilobytes of most tables.
const CHUNK: u64 = 8192;

/// Features `x0`, `x1`, … row after row, and targets: `y`, or `y0`, `y1`, … where there are several.
#[derive(Debug)]
pub(crate) struct ArrayTable {
    schema: Schema,
    element: Element,
    d: usize,
    t: usize,
    rows: u64,
    x: Vec<u8>,
    y: Vec<u8>,
}

impl ArrayTable {
    /// Copies `x` (n x d, row-major) and `y` (n x t, row-major; may be empty).
    pub(crate) fn new<T: Real>(x: &[T], d: usize, y: &[f64]) -> Result<Self> {
        let shape = |text: String| {
            let expected = "n rows of d features, and n targets, a multiple of n, or none".to_string();
            Error::Syntax { what: "arrays", text, expected }
        };
        if d == 0 || x.is_empty() || !x.len().is_multiple_of(d) {
            return Err(shape(format!("{} values are no whole rows of {d} features", x.len())));
        }
        let n = x.len() / d;
        if !y.len().is_multiple_of(n) {
            return Err(shape(format!("{} targets for {n} rows", y.len())));
        }
        let t = y.len() / n;
        let float = |name: String, bits: u8| Column { name, kind: Kind::Float { bits } };
        let features = (0..d).map(|j| float(format!("x{j}"), 8 * size_of::<T>() as u8));
        let target = |j: usize| if t == 1 { TARGET.to_string() } else { format!("{TARGET}{j}") };
        let targets = (0..t).map(|j| float(target(j), 64));
        Ok(Self {
            schema: Schema { columns: features.chain(targets).collect(), ..Schema::default() },
            element: T::ELEMENT,
            d,
            t,
            rows: n as u64,
            x: T::bytes(x).to_vec(),
            y: <f64 as Real>::bytes(y).to_vec(),
        })
    }
}

impl TableFile for ArrayTable {
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
        (self.x.len() + self.y.len()) as u64
    }

    /// No bytes: the rows belong to the caller.
    fn footprint(&self, _: &[usize]) -> usize {
        0
    }

    fn open<'a>(&'a self, columns: &[usize], rows: Range<u64>, _: &Arc<AtomicU64>) -> Result<Box<dyn FileCursor + 'a>> {
        Ok(Box::new(ArrayCursor { table: self, columns: columns.to_vec(), left: rows, first: 0 }))
    }
}

struct ArrayCursor<'a> {
    table: &'a ArrayTable,
    columns: Vec<usize>,
    left: Range<u64>,
    /// First row of the chunk that was read last.
    first: usize,
}

impl ArrayCursor<'_> {
    /// Moves past the next rows, at most `most`, and returns their number.
    fn pass(&mut self, most: u64) -> usize {
        let rows = (self.left.end - self.left.start).min(most);
        self.first = self.left.start as usize;
        self.left.start += rows;
        rows as usize
    }
}

impl FileCursor for ArrayCursor<'_> {
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
        x[..rows * stride].copy_from_slice(&table.x[self.first * stride..][..rows * stride]);
        Ok(Some(rows))
    }

    fn view(&self, index: usize) -> Result<View<'_>> {
        let (table, column) = (self.table, self.columns[index]);
        let (bytes, element, place, width) = match column.checked_sub(table.d) {
            None => (&table.x, table.element, column, table.d),
            Some(target) => (&table.y, Element::F64, target, table.t),
        };
        let (size, stride) = (element.size(), width * element.size());
        let strided = Strided { bytes: &bytes[self.first * stride..], element, offset: place * size, stride };
        Ok(View { values: Values::Strided(strided), nulls: None })
    }
}
