//! Values of a chunk appended to a column that is carried along.

use crate::KeptColumn;
use crate::source::view::{Positions, Values, View};
use crate::sparse::ENTRY;
use crate::text_limit::text_bytes;
use kpass::KeptValues;

/// Appends `count` rows of a view. For an integer that the column cannot hold, returns its row
/// in the chunk and the value as text.
pub(crate) fn load(
    column: &mut KeptColumn,
    view: &View<'_>,
    at: Positions<'_>,
    count: usize,
) -> Result<(), (usize, String)> {
    let before = column.len();
    let (values, valid) = column.parts_mut();
    let rows = (0..count).map(|i| at.get(i));
    match values {
        KeptValues::F64(values) => {
            values.resize(before + count, f64::NAN);
            view.load(at, &mut values[before..]);
        }
        KeptValues::F32(values) => {
            let mut wide = vec![f64::NAN; count];
            view.load(at, &mut wide);
            values.extend(wide.iter().map(|value| *value as f32));
        }
        KeptValues::I64(values) => integers(values, view, rows.clone(), "int64")?,
        KeptValues::U64(values) => integers(values, view, rows.clone(), "uint64")?,
        KeptValues::Bool(values) => {
            values.extend(rows.clone().map(|row| !view.is_null(row) && view.integer(row).is_some_and(|v| v != 0)));
        }
        KeptValues::Text(values) | KeptValues::Binary(values) => {
            values.reserve(rows.clone().map(|row| text_bytes(view, row)).sum());
            let bytes = |row| view.bytes(row).filter(|_| !view.is_null(row)).unwrap_or_default();
            rows.clone().for_each(|row| values.push(bytes(row)));
        }
        KeptValues::Sparse(values) => {
            values.reserve(rows.clone().map(|row| text_bytes(view, row) / ENTRY).sum());
            if let Values::Sparse(chunk) = &view.values {
                values.extend(chunk, rows.clone());
            }
        }
    }
    if valid.is_some() || rows.clone().any(|row| view.is_null(row)) {
        let valid = valid.get_or_insert_with(|| vec![true; before]);
        valid.extend(rows.map(|row| !view.is_null(row)));
    }
    Ok(())
}

/// Appends the integers of some rows of a view, 0 for a missing one.
fn integers<V: TryFrom<i128>>(
    values: &mut Vec<V>,
    view: &View<'_>,
    rows: impl Iterator<Item = usize>,
    kind: &str,
) -> Result<(), (usize, String)> {
    for row in rows {
        let whole = if view.is_null(row) { 0 } else { view.integer(row).unwrap_or(0) };
        values.push(V::try_from(whole).map_err(|_| (row, format!("{whole}, which {kind} cannot hold")))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OutputKind;
    use crate::arrow::array::{Array, StringViewArray};
    use crate::schema::Kind;
    use crate::sink::kept_as;

    #[test]
    fn missing_values_are_known_whatever_the_order_of_the_parts() {
        let part = |texts: Vec<Option<&str>>| {
            let (array, mut column) = (StringViewArray::from_iter(texts), KeptColumn::new(OutputKind::Text));
            let view = View { values: Values::Text(&array), nulls: array.nulls() };
            load(&mut column, &view, Positions::From(0), array.len()).unwrap();
            column
        };
        let (whole, holed) = (part(vec![Some("a"), Some("b")]), part(vec![None, Some("c")]));
        let mut joined = whole.clone();
        joined.append(&holed, 0..2);
        joined.append(&whole, 0..2);
        assert_eq!((joined.len(), joined.valid()), (6, Some(&[true, true, false, true, true, true][..])));
        joined.clear();
        joined.append(&holed, 1..1);
        joined.append(&whole, 0..2);
        assert_eq!(joined, whole);
        assert!(whole.valid().is_none() && holed.is_null(0) && !holed.is_null(1));
    }

    #[test]
    fn an_integer_beyond_int64_keeps_its_digits() {
        let mut column = KeptColumn::new(kept_as(&Kind::Int { bits: 64, signed: false }));
        let view = View { values: Values::of(&[7, u64::MAX]), nulls: None };
        load(&mut column, &view, Positions::From(0), 2).unwrap();
        assert_eq!(*column.values(), KeptValues::U64(vec![7, u64::MAX]));
        let error = load(&mut KeptColumn::new(OutputKind::I64), &view, Positions::From(0), 2).unwrap_err();
        assert_eq!(error, (1, "18446744073709551615, which int64 cannot hold".to_string()));
        let error = column.cast(OutputKind::F64).unwrap_err();
        assert_eq!(error, (1, "18446744073709551615, which float64 may have to round".to_string()));
    }
}
