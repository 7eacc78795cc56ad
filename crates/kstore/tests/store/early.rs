//! Every format reports a reader that ends before its promised rows, since the table checks it.

use crate::make::*;
use kstore::schema::{Column, Kind, Schema};
use kstore::source::{ColumnView, Element, FileCursor, FileMetadata, StridedColumn, TableFile, Values};
use kstore::{ReadSettings, Result, RowBuf, RowSource, Table};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const PROMISED: u64 = 11;
const GIVEN: usize = 4;

#[derive(Debug)]
struct EarlyFile {
    schema: Schema,
}

impl TableFile for EarlyFile {
    fn metadata(&self) -> FileMetadata<'_> {
        FileMetadata { format: "early", schema: &self.schema, row_count: PROMISED, file_bytes: 0, bytes_scanned: 0 }
    }

    fn resident_bytes(&self) -> usize {
        0
    }
    fn cursor_bytes(&self, _: &[usize]) -> usize {
        0
    }
    fn open<'a>(&'a self, _: &[usize], _: Range<u64>, _: &Arc<AtomicU64>) -> Result<Box<dyn FileCursor + 'a>> {
        Ok(Box::new(EarlyCursor { left: GIVEN }))
    }
}

struct EarlyCursor {
    left: usize,
}

impl FileCursor for EarlyCursor {
    fn advance(&mut self) -> Result<usize> {
        Ok(std::mem::take(&mut self.left))
    }
    fn view(&self, _: usize) -> Result<ColumnView<'_>> {
        let strided = StridedColumn { bytes: &[0; 8 * GIVEN], element: Element::F64, offset: 0, stride: 8 };
        Ok(ColumnView { values: Values::Strided(strided), nulls: None })
    }
}

#[test]
fn a_reader_that_stops_early_is_an_error() {
    let columns = vec![Column { name: "x".to_string(), kind: Kind::Float { bits: 64 } }];
    let table = Table::from_file("early", Arc::new(EarlyFile { schema: Schema { columns, ..Schema::default() } }));
    let rows = table.select(&only(&["x"])).unwrap().rows::<f64>(ReadSettings::default()).unwrap();
    let (mut cursor, mut buf, mut seen) = (rows.open(0..PROMISED).unwrap(), RowBuf::new(97), 0);
    let told = loop {
        match cursor.next(&mut buf) {
            Ok(true) => seen += buf.row_numbers.len(),
            Ok(false) => panic!("{seen} rows, and no error"),
            Err(error) => break error,
        }
    };
    assert_eq!(told.to_string(), "early is damaged: it ends at row 4 of 11");
}
