//! Written columns as Arrow arrays, for the formats that store them.

use super::{Output, OutputColumn, OutputKind};
use crate::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Float32Array, Float64Array, Int64Array, RecordBatch,
    StringArray, make_array,
};
use crate::arrow::buffer::{BooleanBuffer, NullBuffer};
use crate::arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema};
use crate::arrow::error::ArrowError;
use std::sync::Arc;

pub(super) fn schema(columns: &[OutputColumn]) -> Arc<Schema> {
    let fields = columns.iter().map(|column| Field::new(&column.name, data_type(column), column.nullable));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn data_type(column: &OutputColumn) -> DataType {
    match (&column.time, column.kind) {
        (Some(time), _) => time.clone(),
        (None, OutputKind::F32) => DataType::Float32,
        (None, OutputKind::F64) => DataType::Float64,
        (None, OutputKind::I64) => DataType::Int64,
        (None, OutputKind::Bool) => DataType::Boolean,
        (None, OutputKind::Text) => DataType::Utf8,
        (None, OutputKind::Binary) => DataType::Binary,
    }
}

/// Rows `start..end` of some columns as a record batch.
pub(super) fn batch(
    schema: &Arc<Schema>,
    columns: &[Output<'_>],
    start: usize,
    end: usize,
) -> Result<RecordBatch, ArrowError> {
    let arrays = columns.iter().zip(schema.fields()).map(|(column, field)| {
        let array = with_nulls(column, start, end, None);
        if array.data_type() == field.data_type() { Ok(array) } else { time(&array, field.data_type()) }
    });
    RecordBatch::try_new(Arc::clone(schema), arrays.collect::<Result<_, _>>()?)
}

/// Whole numbers as the dates or times that they stand for.
fn time(array: &ArrayRef, time: &DataType) -> Result<ArrayRef, ArrowError> {
    let numbers = match time {
        // values that were read from 32 bits fit into as many
        DataType::Date32 | DataType::Time32(_) => {
            let narrow = array.as_primitive::<Int64Type>().unary_opt::<_, Int32Type>(|value| i32::try_from(value).ok());
            Arc::new(narrow)
        }
        _ => Arc::clone(array),
    };
    Ok(make_array(numbers.to_data().into_builder().data_type(time.clone()).build()?))
}

fn with_nulls(column: &Output<'_>, start: usize, end: usize, nulls: Option<NullBuffer>) -> ArrayRef {
    let valid = |i: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(i - start));
    match column {
        Output::F32(v) => Arc::new(Float32Array::new(v[start..end].to_vec().into(), nulls)),
        Output::F64(v) => Arc::new(Float64Array::new(v[start..end].to_vec().into(), nulls)),
        Output::I64(v) => Arc::new(Int64Array::new(v[start..end].to_vec().into(), nulls)),
        Output::Bool(v) => Arc::new(BooleanArray::new(BooleanBuffer::from(&v[start..end]), nulls)),
        Output::Text(v) => Arc::new((start..end).map(|i| valid(i).then(|| v.text(i))).collect::<StringArray>()),
        Output::Binary(v) => Arc::new((start..end).map(|i| valid(i).then(|| v.bytes(i))).collect::<BinaryArray>()),
        Output::Kept(column) => {
            let nulls = column.valid().map(|valid| NullBuffer::from(&valid[start..end]));
            with_nulls(&column.values().as_output(), start, end, nulls)
        }
    }
}
