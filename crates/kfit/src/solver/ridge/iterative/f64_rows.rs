//! Converts the rows of a source to f64, so that kernel values are more accurate than in the
//! precision of the source.

use kapprox::Real;
use kstore::{Footprint, Result, RowBuf, RowCursor, RowSource, TableShape};
use std::ops::Range;

#[derive(Debug)]
pub(crate) struct F64Rows<'a, T: Real> {
    pub(crate) source: &'a dyn RowSource<T>,
}

impl<T: Real> RowSource<f64> for F64Rows<'_, T> {
    fn shape(&self) -> TableShape {
        self.source.shape()
    }

    fn range(&self) -> Range<u64> {
        self.source.range()
    }

    fn open(&self, segment: Range<u64>) -> Result<Box<dyn RowCursor<f64> + Send + '_>> {
        Ok(Box::new(F64Cursor { inner: self.source.open(segment)?, source_buffer: RowBuf::default() }))
    }

    fn footprint(&self) -> Footprint {
        let Footprint { fixed, per_row } = self.source.footprint();
        Footprint { fixed, per_row: per_row + RowBuf::<T>::bytes_per_row(&self.shape()) }
    }

    fn metadata_bytes(&self) -> usize {
        self.source.metadata_bytes()
    }

    fn bytes_read(&self) -> u64 {
        self.source.bytes_read()
    }
}

struct F64Cursor<'a, T> {
    inner: Box<dyn RowCursor<T> + Send + 'a>,
    source_buffer: RowBuf<T>,
}

impl<T: Real> RowCursor<f64> for F64Cursor<'_, T> {
    fn next(&mut self, buf: &mut RowBuf<f64>) -> Result<bool> {
        let Self { inner, source_buffer } = self;
        source_buffer.capacity = buf.capacity;
        let has_rows = inner.next(source_buffer)?;
        // pass on all fields but x unchanged
        std::mem::swap(&mut buf.row_numbers, &mut source_buffer.row_numbers);
        std::mem::swap(&mut buf.y, &mut source_buffer.y);
        std::mem::swap(&mut buf.weights, &mut source_buffer.weights);
        std::mem::swap(&mut buf.classes, &mut source_buffer.classes);
        std::mem::swap(&mut buf.groups, &mut source_buffer.groups);
        std::mem::swap(&mut buf.class_labels, &mut source_buffer.class_labels);
        std::mem::swap(&mut buf.group_labels, &mut source_buffer.group_labels);
        std::mem::swap(&mut buf.kept_columns, &mut source_buffer.kept_columns);
        buf.x.clear();
        buf.x.extend(source_buffer.x.iter().map(|value| kstore::Float::to_f64(*value)));
        Ok(has_rows)
    }
}
