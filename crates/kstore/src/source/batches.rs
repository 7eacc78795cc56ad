//! Arrow record batches that are in memory, as a table.

use super::column::{self, Layout, ListPlace, Loaded};
use super::{FileCursor, TableFile, View};
use crate::arrow::array::RecordBatch;
use crate::schema::Schema;
use crate::{Error, Result};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const FORMAT: &str = "record batches";

/// Record batches of one schema, one after the other, as a table.
#[derive(Debug)]
pub(crate) struct BatchTable {
    layout: Layout,
    batches: Vec<RecordBatch>,
    /// First row of each batch, and behind them the number of rows.
    starts: Vec<u64>,
}

impl BatchTable {
    /// A table of the rows of `batches`; nothing is copied.
    pub(crate) fn new(batches: Vec<RecordBatch>) -> Result<Self> {
        let batches: Vec<RecordBatch> = batches.into_iter().filter(|batch| batch.num_rows() > 0).collect();
        let Some(first) = batches.first() else {
            return Err(Error::Empty { what: FORMAT.to_string(), why: "there is no row".to_string() });
        };
        if let Some(other) = batches.iter().find(|batch| batch.schema().fields() != first.schema().fields()) {
            let detail = format!("their columns differ: {} and {}", first.schema(), other.schema());
            return Err(malformed(detail));
        }
        let width = |root: usize| Ok::<_, Error>(column::length(first.column(root).as_ref(), 0));
        let layout = Layout::new(first.schema().fields(), width)?;
        let mut starts = vec![0];
        for batch in &batches {
            starts.push(starts[starts.len() - 1] + batch.num_rows() as u64);
        }
        Ok(Self { layout, batches, starts })
    }
}

fn malformed(detail: String) -> Error {
    Error::Malformed { path: FORMAT.into(), format: FORMAT, detail }
}

impl TableFile for BatchTable {
    fn format(&self) -> &'static str {
        FORMAT
    }

    fn schema(&self) -> &Schema {
        &self.layout.schema
    }

    fn rows(&self) -> u64 {
        self.starts[self.batches.len()]
    }

    fn bytes(&self) -> u64 {
        self.batches.iter().map(|batch| batch.get_array_memory_size() as u64).sum()
    }

    /// Bytes of the converted columns: those that are no plain numbers are converted batch by batch.
    fn footprint(&self, columns: &[usize]) -> usize {
        let roots = self.layout.roots(columns);
        let bytes =
            |batch: &RecordBatch| roots.iter().map(|root| batch.column(*root).get_array_memory_size()).sum::<usize>();
        self.batches.iter().map(bytes).max().unwrap_or(0)
    }

    fn open<'a>(&'a self, columns: &[usize], rows: Range<u64>, _: &Arc<AtomicU64>) -> Result<Box<dyn FileCursor + 'a>> {
        let roots = self.layout.roots(columns);
        let places = self.layout.places(columns, &roots);
        Ok(Box::new(BatchCursor { table: self, roots, places, left: rows, chunk: Vec::new() }))
    }
}

struct BatchCursor<'a> {
    table: &'a BatchTable,
    roots: Vec<usize>,
    places: Vec<ListPlace>,
    left: Range<u64>,
    chunk: Vec<Loaded>,
}

impl FileCursor for BatchCursor<'_> {
    fn advance(&mut self) -> Result<usize> {
        if self.left.is_empty() {
            return Ok(0);
        }
        let (table, first) = (self.table, self.left.start);
        let index = table.starts.partition_point(|start| *start <= first) - 1;
        let rows = (self.left.end.min(table.starts[index + 1]) - first) as usize;
        let batch = table.batches[index].slice((first - table.starts[index]) as usize, rows);
        let load = |root: &usize| {
            let loaded = Loaded::new(batch.column(*root), table.layout.widths[*root]);
            loaded.map_err(|error| {
                error.of_column(Path::new(FORMAT), FORMAT, first, batch.schema_ref().field(*root).name())
            })
        };
        self.chunk = self.roots.iter().map(load).collect::<Result<_>>()?;
        self.left.start += rows as u64;
        Ok(rows)
    }

    fn view(&self, index: usize) -> Result<View<'_>> {
        let ListPlace { root, item } = self.places[index];
        let column = self.chunk.get(root).and_then(|column| column.view(item));
        column.ok_or_else(|| malformed(format!("column {} is of a type that is not read", self.roots[root])))
    }
}
