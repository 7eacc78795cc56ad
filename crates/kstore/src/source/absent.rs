//! Rows that are somewhere else: the rest of a table of which a shard is here.

use super::{FileCursor, TableFile};
use crate::{Error, Result, schema::Schema};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A stand-in that knows its columns and how many rows it would have.
#[derive(Debug)]
pub(crate) struct Absent {
    schema: Schema,
    /// Their numbers in the whole table.
    rows: Range<u64>,
}

impl Absent {
    pub(crate) fn new(schema: Schema, rows: Range<u64>) -> Self {
        Self { schema, rows }
    }
}

impl TableFile for Absent {
    fn format(&self) -> &'static str {
        "absent"
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn rows(&self) -> u64 {
        self.rows.end - self.rows.start
    }

    fn bytes(&self) -> u64 {
        0
    }

    fn footprint(&self, _: &[usize]) -> usize {
        0
    }

    fn open<'a>(&'a self, _: &[usize], rows: Range<u64>, _: &Arc<AtomicU64>) -> Result<Box<dyn FileCursor + 'a>> {
        let number = |row: u64| self.rows.start + row;
        Err(Error::Elsewhere { rows: number(rows.start)..number(rows.end) })
    }
}
