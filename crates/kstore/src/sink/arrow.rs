//! Written columns as Arrow arrays, for the formats that store them.

use super::{Output, OutputColumn, OutputKind};
use arrow::array::{ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use std::sync::Arc;

/// The columns, none of which has missing values.
pub(super) fn schema(columns: &[OutputColumn]) -> Arc<Schema> {
    let fields = columns.iter().map(|column| Field::new(&column.name, data_type(column.kind), false));
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
    match column {
        Output::F32(v) => Arc::new(Float32Array::from(v[start..end].to_vec())),
        Output::F64(v) => Arc::new(Float64Array::from(v[start..end].to_vec())),
        Output::I64(v) => Arc::new(Int64Array::from(v[start..end].to_vec())),
        Output::Bool(v) => Arc::new(BooleanArray::from(v[start..end].to_vec())),
        Output::Text(v) => Arc::new(StringArray::from_iter_values(&v[start..end])),
    }
}
