//! Rows of a source in f64, so that kernel values can be more accurate than in the precision of the
//! rows.

use kapprox::Real;
use kstore::{Footprint, Result, RowBuf, RowCursor, RowSource, TableShape};
use std::ops::Range;

#[derive(Debug)]
pub(crate) struct F64Rows<'a, T: Real>(pub(crate) &'a dyn RowSource<T>);

impl<T: Real> RowSource<f64> for F64Rows<'_, T> {
    fn shape(&self) -> TableShape {
        self.0.shape()
    }

    fn range(&self) -> Range<u64> {
        self.0.range()
    }

    fn open(&self, segment: Range<u64>) -> Result<Box<dyn RowCursor<f64> + Send + '_>> {
        Ok(Box::new(F64Cursor { inner: self.0.open(segment)?, narrow: RowBuf::default() }))
    }

    fn footprint(&self) -> Footprint {
        let Footprint { fixed, per_row } = self.0.footprint();
        Footprint { fixed, per_row: per_row + RowBuf::<T>::bytes_per_row(&self.shape()) }
    }

    fn metadata_bytes(&self) -> usize {
        self.0.metadata_bytes()
    }

    fn bytes_read(&self) -> u64 {
        self.0.bytes_read()
    }
}

struct F64Cursor<'a, T> {
    inner: Box<dyn RowCursor<T> + Send + 'a>,
    narrow: RowBuf<T>,
}

impl<T: Real> RowCursor<f64> for F64Cursor<'_, T> {
    fn next(&mut self, buf: &mut RowBuf<f64>) -> Result<bool> {
        let Self { inner, narrow } = self;
        narrow.capacity = buf.capacity;
        let more = inner.next(narrow)?;
        // all fields but x are passed on unchanged
        std::mem::swap(&mut buf.rows, &mut narrow.rows);
        std::mem::swap(&mut buf.y, &mut narrow.y);
        std::mem::swap(&mut buf.weight, &mut narrow.weight);
        std::mem::swap(&mut buf.classes, &mut narrow.classes);
        std::mem::swap(&mut buf.groups, &mut narrow.groups);
        std::mem::swap(&mut buf.class_labels, &mut narrow.class_labels);
        std::mem::swap(&mut buf.group_labels, &mut narrow.group_labels);
        std::mem::swap(&mut buf.kept_columns, &mut narrow.kept_columns);
        buf.x.clear();
        buf.x.extend(narrow.x.iter().map(|value| kstore::Float::to_f64(*value)));
        Ok(more)
    }
}
