//! Names of the types that cannot be read, as a person would call them.

use crate::arrow::datatypes::DataType;

/// `list of binary`, where Arrow's own name would be a page of fields.
pub(super) fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "nothing but nulls".to_string(),
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
        | DataType::FixedSizeList(item, _) => format!("lists of {}", type_name(item.data_type())),
        DataType::Dictionary(_, value) => format!("a dictionary of {}", type_name(value)),
        DataType::RunEndEncoded(_, value) => format!("runs of {}", type_name(value.data_type())),
        other => match super::column::kind(other) {
            crate::schema::Kind::Other(_) => "a type that is not known".to_string(),
            known => known.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrow::datatypes::{Field, Fields};
    use std::sync::Arc;

    #[test]
    fn names_are_words() {
        let field = |kind: DataType| Arc::new(Field::new("item", kind, true));
        let record = DataType::Struct(Fields::from(vec![field(DataType::Int8), field(DataType::Utf8)]));
        for (kind, name) in [
            (DataType::FixedSizeBinary(16), "binary"),
            (record.clone(), "records of 2 fields"),
            (DataType::List(field(record)), "lists of records of 2 fields"),
            (DataType::List(field(DataType::Utf8)), "lists of text"),
            (DataType::RunEndEncoded(field(DataType::Int32), field(DataType::Float64)), "runs of float64"),
            (DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Binary)), "a dictionary of binary"),
        ] {
            assert_eq!(type_name(&kind), name);
        }
    }
}
