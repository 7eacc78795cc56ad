//! Converts Arrow columns to supported types, and reads them as typed values.

use super::data_type::element_type;
use super::{ColumnView, Values};
use crate::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, Float64Array, PrimitiveArray, StringViewArray, downcast_primitive_array,
};
use crate::arrow::compute::{TakeOptions, take};
use crate::arrow::datatypes::{self as types, DataType, DecimalType};
use crate::arrow::error::ArrowError;
use std::sync::Arc;

/// Converts an array to a type that [`array_view`] supports. An array that cannot be converted, or
/// need not be, stays unchanged.
pub(super) fn to_viewable(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(match array.data_type() {
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            // a key beyond the dictionary returns an error instead of a panic
            let bounds_checked = TakeOptions { check_bounds: true };
            // dictionary texts are not copied: each row is a view of a dictionary text
            take(to_viewable(dictionary.values())?.as_ref(), dictionary.keys(), Some(bounds_checked))?
        }
        DataType::Null => Arc::new(StringViewArray::new_null(array.len())),
        DataType::Utf8 => Arc::new(StringViewArray::from(array.as_string::<i32>())),
        DataType::LargeUtf8 => Arc::new(StringViewArray::from(array.as_string::<i64>())),
        DataType::Binary => Arc::new(BinaryViewArray::from(array.as_binary::<i32>())),
        DataType::LargeBinary => Arc::new(BinaryViewArray::from(array.as_binary::<i64>())),
        DataType::FixedSizeBinary(_) => Arc::new(array.as_fixed_size_binary().iter().collect::<BinaryViewArray>()),
        DataType::Decimal32(_, scale) => decimals_to_f64(array.as_primitive::<types::Decimal32Type>(), *scale),
        DataType::Decimal64(_, scale) => decimals_to_f64(array.as_primitive::<types::Decimal64Type>(), *scale),
        DataType::Decimal128(_, scale) => decimals_to_f64(array.as_primitive::<types::Decimal128Type>(), *scale),
        DataType::Decimal256(_, scale) => decimals_to_f64(array.as_primitive::<types::Decimal256Type>(), *scale),
        _ => Arc::clone(array),
    })
}

fn decimals_to_f64<D: DecimalType<Native: ToString>>(array: &PrimitiveArray<D>, scale: i8) -> ArrayRef {
    let values = array.values().iter().map(|unscaled| decimal_to_f64(&unscaled.to_string(), scale)).collect();
    Arc::new(Float64Array::new(values, array.nulls().cloned()))
}

/// Returns the float64 nearest to `unscaled / 10^scale`.
///
/// Integers up to 2^53 and powers of ten up to 10^22 are exact floats, and their quotient is
/// correctly rounded (Clinger, "How to read floating point numbers accurately", PLDI 1990). All
/// other numbers are parsed by the standard library, which rounds as exactly but is slower.
fn decimal_to_f64(unscaled: &str, scale: i8) -> f64 {
    const MAX_EXACT_INTEGER: i64 = 1 << 53;
    match (unscaled.parse::<i64>(), scale) {
        (Ok(integer), 0..=22) if integer.abs() <= MAX_EXACT_INTEGER => integer as f64 / 10f64.powi(scale.into()),
        _ => format!("{unscaled}e{}", -i32::from(scale)).parse().unwrap_or(f64::NAN),
    }
}

/// Returns an Arrow column as typed values; `None` for an unsupported type.
pub(super) fn array_view(array: &dyn Array) -> Option<ColumnView<'_>> {
    let values = match array.data_type() {
        DataType::Boolean => Values::Bool(array.as_boolean()),
        DataType::Utf8View => Values::Text(array.as_string_view()),
        DataType::BinaryView => Values::Binary(array.as_binary_view()),
        other => {
            let element = element_type(other)?;
            let bytes = downcast_primitive_array!(array => array.values().inner().as_slice(), _ => return None);
            Values::from_bytes(bytes, element)
        }
    };
    Some(ColumnView { values, nulls: array.nulls().filter(|nulls| nulls.null_count() > 0) })
}

/// Returns the items of all lists of a column, and the offsets of the lists: of the first item of
/// each row, then of the end of the last row. Returns `None` if the column holds no lists.
pub(super) fn list_items(array: &dyn Array) -> Option<(&dyn Array, Vec<usize>)> {
    let to_usize = |offsets: &[i32]| offsets.iter().map(|offset| *offset as usize).collect();
    Some(match array.data_type() {
        DataType::List(_) => (array.as_list::<i32>().values(), to_usize(array.as_list::<i32>().value_offsets())),
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            (list.values(), list.value_offsets().iter().map(|offset| *offset as usize).collect())
        }
        DataType::Map(..) => (array.as_map().entries(), to_usize(array.as_map().value_offsets())),
        DataType::FixedSizeList(_, size) => {
            (array.as_fixed_size_list().values(), (0..=array.len()).map(|row| row * *size as usize).collect())
        }
        _ => return None,
    })
}
