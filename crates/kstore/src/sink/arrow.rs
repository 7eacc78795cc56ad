//! Written columns as Arrow arrays, for the formats that store them.

use super::{Output, OutputColumn, OutputKind};
use arrow::array::{ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, StringArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, Field, Schema};
use std::sync::Arc;

/// The columns.
pub(super) fn schema(columns: &[OutputColumn]) -> Arc<Schema> {
    let fields = columns.iter().map(|column| Field::new(&column.name, data_type(column.kind), column.nullable));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn data_type(kind: OutputKind) -> DataType {
    match kind {
        OutputKind::F32 => DataType::Float32,
        OutputKind::F64 => DataType::Float64,
        OutputKind::I64 => DataType::Int64,
        OutputKind::Bool => DataType::Boolean,
        OutputKind::Text => DataType::Utf8,
    }
}

/// Rows `start..end` of a column.
pub(super) fn array(column: &Output<'_>, start: usize, end: usize) -> ArrayRef {
    with_nulls(column, start, end, None)
}

fn with_nulls(column: &Output<'_>, start: usize, end: usize, nulls: Option<NullBuffer>) -> ArrayRef {
    match column {
        Output::F32(v) => Arc::new(Float32Array::new(v[start..end].to_vec().into(), nulls)),
        Output::F64(v) => Arc::new(Float64Array::new(v[start..end].to_vec().into(), nulls)),
        Output::I64(v) => Arc::new(Int64Array::new(v[start..end].to_vec().into(), nulls)),
        Output::Bool(v) => Arc::new(BooleanArray::new(BooleanBuffer::from(&v[start..end]), nulls)),
        Output::Text(v) => {
            let valid = |i: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(i));
            let texts = v[start..end].iter().enumerate();
            Arc::new(texts.map(|(i, text)| valid(i).then_some(&**text)).collect::<StringArray>())
        }
        Output::Kept(column) => {
            let nulls = column.valid().map(|valid| NullBuffer::from(&valid[start..end]));
            with_nulls(&column.values().as_output(), start, end, nulls)
        }
    }
}
