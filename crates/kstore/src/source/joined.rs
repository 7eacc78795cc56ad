//! A file with one more column, which lies in a file of its own.

use super::{Element, FileCursor, Positions, TableFile, Values, View};
use crate::condition::Bound;
use crate::schema::{Column, Kind, Schema};
use crate::{Error, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Name of the column that a target file brings.
pub const TARGET: &str = "y";

/// A file whose last column, [`TARGET`], comes from rows `start..` of a second file.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) left: Arc<dyn TableFile>,
    pub(crate) right: Arc<dyn TableFile>,
    pub(crate) right_path: PathBuf,
    pub(crate) start: u64,
    pub(crate) schema: Schema,
}

impl Joined {
    /// `left`'s columns and the target. Whatever the type in the file, targets are handed out as f64.
    pub(crate) fn schema(left: &Schema) -> Schema {
        let mut schema = left.clone();
        schema.columns.push(Column { name: TARGET.to_string(), kind: Kind::Float { bits: 64 } });
        schema
    }
}

impl TableFile for Joined {
    fn format(&self) -> &'static str {
        self.left.format()
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn rows(&self) -> u64 {
        self.left.rows()
    }

    fn bytes(&self) -> u64 {
        self.left.bytes()
    }

    fn line(&self, row: u64) -> Option<u64> {
        self.left.line(row)
    }

    fn held(&self) -> usize {
        self.left.held()
    }

    fn footprint(&self, columns: &[usize]) -> usize {
        self.left.footprint(columns) + self.right.footprint(&[0])
    }

    fn candidates(&self, column: usize, condition: &Bound) -> Vec<Range<u64>> {
        match column < self.left.schema().columns.len() {
            true => self.left.candidates(column, condition),
            false => std::iter::once(0..self.rows()).collect(),
        }
    }

    fn open<'a>(
        &'a self,
        columns: &[usize],
        rows: Range<u64>,
        read: &Arc<AtomicU64>,
    ) -> Result<Box<dyn FileCursor + 'a>> {
        let target = self.left.schema().columns.len();
        let mut own = Vec::new();
        let places = columns.iter().map(|column| {
            (*column != target).then(|| {
                own.push(*column);
                own.len() - 1
            })
        });
        let places = places.collect();
        let right = self.right.open(&[0], rows.start + self.start..rows.end + self.start, read)?;
        let left = self.left.open(&own, rows, read)?;
        Ok(Box::new(JoinedCursor { left, right, path: &self.right_path, places, y: Vec::new(), place: 0, rows: 0 }))
    }
}

struct JoinedCursor<'a> {
    left: Box<dyn FileCursor + 'a>,
    right: Box<dyn FileCursor + 'a>,
    path: &'a Path,
    /// For each column asked for, its place on the left; `None` for the target.
    places: Vec<Option<usize>>,
    y: Vec<f64>,
    /// Rows of the right chunk used up, and its rows.
    place: usize,
    rows: usize,
}

impl JoinedCursor<'_> {
    /// Reads the target of the rows that were read on the left.
    fn join(&mut self, rows: usize) -> Result<usize> {
        self.y.clear();
        while self.y.len() < rows {
            if self.place == self.rows {
                (self.place, self.rows) = (0, self.right.advance()?);
                if self.rows == 0 {
                    let detail = "it ended before the table it belongs to".to_string();
                    return Err(Error::Malformed { path: self.path.to_path_buf(), format: "target file", detail });
                }
            }
            let (have, take) = (self.y.len(), (rows - self.y.len()).min(self.rows - self.place));
            self.y.resize(have + take, 0.0);
            self.right.view(0)?.load(Positions::From(self.place), &mut self.y[have..]);
            self.place += take;
        }
        Ok(rows)
    }
}

impl FileCursor for JoinedCursor<'_> {
    fn advance(&mut self) -> Result<usize> {
        let rows = self.left.advance()?;
        self.join(rows)
    }

    fn advance_into(&mut self, element: Element, columns: usize, x: &mut [u8]) -> Result<Option<usize>> {
        let own = self.places.iter().take(columns).all(Option::is_some);
        match if own { self.left.advance_into(element, columns, x)? } else { None } {
            Some(rows) => self.join(rows).map(Some),
            None => Ok(None),
        }
    }

    fn view(&self, index: usize) -> Result<View<'_>> {
        match self.places[index] {
            Some(place) => self.left.view(place),
            None => Ok(View { values: Values::F64(&self.y), nulls: None }),
        }
    }
}
