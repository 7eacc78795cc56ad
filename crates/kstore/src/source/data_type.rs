//! Conversion of Arrow types to kinds of columns, element types and names.

use super::Element;
use crate::{arrow::datatypes::DataType, schema::Kind};

pub(super) fn element_type(data_type: &DataType) -> Option<Element> {
    Some(match data_type {
        DataType::Float16 => Element::F16,
        DataType::Float32 => Element::F32,
        DataType::Float64 => Element::F64,
        DataType::Int8 => Element::I8,
        DataType::Int16 => Element::I16,
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => Element::I32,
        DataType::Int64 | DataType::Date64 | DataType::Time64(_) | DataType::Timestamp(..) | DataType::Duration(_) => {
            Element::I64
        }
        DataType::UInt8 => Element::U8,
        DataType::UInt16 => Element::U16,
        DataType::UInt32 => Element::U32,
        DataType::UInt64 => Element::U64,
        _ => return None,
    })
}

pub(super) fn column_kind(data_type: &DataType) -> Kind {
    match data_type {
        decimal if decimal.is_decimal() => Kind::Float { bits: 64 },
        DataType::Boolean => Kind::Bool,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::Text,
        // only nulls, which fit any type
        DataType::Null => Kind::Text,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => Kind::Binary,
        time_type if time_type.is_temporal() && element_type(time_type).is_some() => Kind::Time(time_type.clone()),
        DataType::Dictionary(_, value) if !matches!(**value, DataType::Dictionary(..)) => column_kind(value),
        other => element_type(other).map_or_else(|| Kind::Other(type_name(other)), Kind::from),
    }
}

/// Returns a short name, such as `lists of binary`, for types whose Arrow name would list all
/// fields.
fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            "binary".to_string()
        }
        DataType::Struct(fields) => format!("records of {} fields", fields.len()),
        DataType::Map(..) => "maps".to_string(),
        DataType::Union(..) => "unions of several types".to_string(),
        DataType::Interval(_) => "calendar intervals".to_string(),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => match type_name(item.data_type()) {
            // one name for lists of any depth
            nested if nested.starts_with("lists of") => "lists of lists".to_string(),
            item => format!("lists of {item}"),
        },
        DataType::Dictionary(_, value) => format!("a dictionary of {}", type_name(value)),
        DataType::RunEndEncoded(_, value) => format!("runs of {}", type_name(value.data_type())),
        other => match column_kind(other) {
            Kind::Sparse(_) | Kind::Other(_) => "an unknown type".to_string(),
            kind => kind.to_string(),
        },
    }
}
