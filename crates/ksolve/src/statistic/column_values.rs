//! The columns of a table of features: a number for each numeric feature, and the position of the
//! level for a category.

use kstore::{Footprint, Result, RowBuf, RowCursor, RowSource, SelectedTable, TableRows, TableShape};
use std::ops::Range;

/// A column of the table, as features.
#[derive(Debug)]
pub(super) enum TableColumn {
    /// A number: its name and the position of the feature.
    Number(String, usize),
    /// A category or an indicator of missing values: its name, and the positions of its features
    /// with their names.
    Category(String, Vec<(usize, String)>),
}

impl TableColumn {
    /// Returns the value of the column in a row of features: a number, or the position of the level
    /// of a category. A row without a level has the number of levels.
    fn value(&self, features: &[f64]) -> f64 {
        match self {
            Self::Number(_, j) => features[*j],
            Self::Category(_, levels) => {
                levels.iter().position(|(j, _)| features[*j] > 0.5).unwrap_or(levels.len()) as f64
            }
        }
    }
}

/// Returns the columns of a table of dense rows.
pub(super) fn table_columns(selected: &SelectedTable) -> Vec<TableColumn> {
    let names = selected.feature_names();
    let Some(encoding) = selected.encoding() else {
        return names.into_iter().enumerate().map(|(j, name)| TableColumn::Number(name, j)).collect();
    };
    let (is_binary, mut columns, mut next) = (encoding.binary_mask(), Vec::new(), 0);
    for column in encoding.columns() {
        let features = next..next + column.feature_count();
        next = features.end;
        let (levels, numbers): (Vec<usize>, Vec<usize>) = features.partition(|j| is_binary[*j]);
        columns.extend(numbers.into_iter().map(|j| TableColumn::Number(names[j].clone(), j)));
        if !levels.is_empty() {
            let levels = levels.into_iter().map(|j| (j, names[j].clone())).collect();
            columns.push(TableColumn::Category(column.name.clone(), levels));
        }
    }
    columns
}

/// Rows with one value of each of some columns, instead of the features.
#[derive(Debug)]
pub(super) struct ColumnRows<'a> {
    source: TableRows<f64>,
    columns: &'a [TableColumn],
}

impl<'a> ColumnRows<'a> {
    /// Returns the values of these columns of the rows of a table.
    pub(super) fn new(source: TableRows<f64>, columns: &'a [TableColumn]) -> Self {
        Self { source, columns }
    }
}

impl RowSource<f64> for ColumnRows<'_> {
    fn shape(&self) -> TableShape {
        TableShape { input_count: self.columns.len(), ..RowSource::shape(&self.source) }
    }

    fn range(&self) -> Range<u64> {
        self.source.range()
    }

    fn open(&self, segment: Range<u64>) -> Result<Box<dyn RowCursor<f64> + Send + '_>> {
        let feature_count = RowSource::shape(&self.source).input_count;
        let inner = self.source.open(segment)?;
        Ok(Box::new(ColumnCursor { inner, columns: self.columns, feature_count, features: RowBuf::default() }))
    }

    /// Returns the footprint of the source, plus a tile of features.
    fn footprint(&self) -> Footprint {
        let Footprint { fixed, per_row } = self.source.footprint();
        Footprint { fixed, per_row: per_row + RowBuf::<f64>::bytes_per_row(&RowSource::shape(&self.source)) }
    }

    fn metadata_bytes(&self) -> usize {
        self.source.metadata_bytes()
    }

    fn bytes_read(&self) -> u64 {
        self.source.bytes_read()
    }
}

struct ColumnCursor<'a> {
    inner: Box<dyn RowCursor<f64> + Send + 'a>,
    columns: &'a [TableColumn],
    feature_count: usize,
    features: RowBuf<f64>,
}

impl RowCursor<f64> for ColumnCursor<'_> {
    fn next(&mut self, buf: &mut RowBuf<f64>) -> Result<bool> {
        self.features.capacity = buf.capacity;
        let has_rows = self.inner.next(&mut self.features)?;
        // everything except the inputs is passed on unchanged
        std::mem::swap(buf, &mut self.features);
        std::mem::swap(&mut buf.x, &mut self.features.x);
        buf.x.clear();
        for features in self.features.x.chunks_exact(self.feature_count.max(1)) {
            buf.x.extend(self.columns.iter().map(|column| column.value(features)));
        }
        Ok(has_rows)
    }
}
