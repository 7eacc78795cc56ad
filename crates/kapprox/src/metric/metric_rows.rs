//! The rows of a source, seen through a metric.

use super::Metric;
use crate::Real;
use kpass::{Footprint, Result, RowBuf, RowCursor, RowSource, TableShape};
use std::{ops::Range, sync::Arc};

/// The rows of a source with their inputs multiplied by a metric, or unchanged if there is no
/// metric.
#[doc(hidden)]
#[derive(Debug)]
pub struct MetricRows<S> {
    source: S,
    metric: Option<Arc<Metric>>,
}

impl<S> MetricRows<S> {
    /// Returns the rows of `source` in the metric, which must have as many inputs as the
    /// source.
    pub fn new(source: S, metric: Option<Arc<Metric>>) -> Self {
        Self { source, metric }
    }

    /// Returns the rows before the metric.
    pub fn source(&self) -> &S {
        &self.source
    }
}

impl<T: Real, S: RowSource<T>> RowSource<T> for MetricRows<S> {
    fn shape(&self) -> TableShape {
        let shape = self.source.shape();
        TableShape {
            input_count: self.metric.as_ref().map_or(shape.input_count, |metric| metric.output_count()),
            ..shape
        }
    }

    fn range(&self) -> Range<u64> {
        self.source.range()
    }

    fn open(&self, segment: Range<u64>) -> Result<Box<dyn RowCursor<T> + Send + '_>> {
        let inner_cursor = self.source.open(segment)?;
        Ok(match &self.metric {
            None => inner_cursor,
            Some(metric) => Box::new(MetricCursor { inner_cursor, metric, inner_buf: RowBuf::default() }),
        })
    }

    /// Returns the footprint of the source, plus a tile of rows before the metric is applied.
    fn footprint(&self) -> Footprint {
        let Footprint { fixed, per_row } = self.source.footprint();
        let inner_row_bytes = self.metric.is_some().then(|| RowBuf::<T>::bytes_per_row(&self.source.shape()));
        Footprint { fixed, per_row: per_row + inner_row_bytes.unwrap_or(0) }
    }

    fn metadata_bytes(&self) -> usize {
        self.source.metadata_bytes()
    }

    fn bytes_read(&self) -> u64 {
        self.source.bytes_read()
    }
}

struct MetricCursor<'a, T> {
    inner_cursor: Box<dyn RowCursor<T> + Send + 'a>,
    metric: &'a Metric,
    inner_buf: RowBuf<T>,
}

impl<T: Real> RowCursor<T> for MetricCursor<'_, T> {
    fn next(&mut self, buf: &mut RowBuf<T>) -> Result<bool> {
        self.inner_buf.capacity = buf.capacity;
        let has_more = self.inner_cursor.next(&mut self.inner_buf)?;
        // everything except the inputs is passed on unchanged
        std::mem::swap(buf, &mut self.inner_buf);
        std::mem::swap(&mut buf.x, &mut self.inner_buf.x);
        buf.x.resize(buf.row_numbers.len() * self.metric.output_count(), T::default());
        self.metric.apply(&self.inner_buf.x, &mut buf.x);
        Ok(has_more)
    }
}
