//! The header of a `.npy` file: a Python dictionary literal with type, order and shape.

use crate::view::Element;
use crate::writer::npy::{MAGIC, TYPES};

/// Maximum length of a header. The headers that NumPy writes for arrays of numbers have 128 bytes.
/// Headers of structured types can be longer, but structured types are not supported.
pub(crate) const MAX_NPY_HEADER_BYTES: usize = 64 << 10;

/// Maximum number of columns. The limit is needed because a header with 0 rows may claim any width,
/// for which a schema would be built.
const MAX_NPY_COLUMNS: usize = 1 << 20;

/// The content of the header of a `.npy` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Type of the values.
    pub element: Element,
    /// Number of rows.
    pub row_count: u64,
    /// Number of columns; 1 for a one-dimensional array.
    pub column_count: usize,
    /// Offset of the values in bytes.
    pub data_offset: usize,
    /// Whether the array is stored column by column ("Fortran order").
    pub is_column_major: bool,
}

impl Header {
    /// Returns the bytes of a row.
    pub fn stride(&self) -> usize {
        self.column_count * self.element.bytes_per_value()
    }
}

/// Reads the header at the start of a `.npy` file of version 1 to 3.
///
/// # Errors
/// A sentence about the file, if the header is damaged, or if the array is not supported.
pub fn parse_header(bytes: &[u8]) -> Result<Header, String> {
    if !bytes.starts_with(MAGIC) {
        return Err("it does not start with \\x93NUMPY".to_string());
    }
    let (text, data_offset) = split_header(bytes)?;
    let (element, is_big_endian) = parse_element(dictionary_value(text, "descr")?)?;
    if is_big_endian {
        return Err("its values are big-endian; save them little-endian, with array.astype('<f4')".to_string());
    }
    let is_column_major = match dictionary_value(text, "fortran_order")? {
        "False" => false,
        "True" => true,
        other => return Err(format!("fortran_order is {other:?}, not True or False")),
    };
    let (row_count, column_count) = parse_shape(dictionary_value(text, "shape")?)?;
    let header = Header { element, row_count, column_count, data_offset, is_column_major };
    let data_bytes = (column_count as u64)
        .checked_mul(element.bytes_per_value() as u64)
        .and_then(|stride| stride.checked_mul(row_count));
    if data_bytes.and_then(|size| size.checked_add(data_offset as u64)).is_none_or(|end| end > i64::MAX as u64) {
        return Err(format!("a shape of {row_count} x {column_count} is larger than any file"));
    }
    if column_count == 0 || column_count > MAX_NPY_COLUMNS {
        return Err(format!("it has {column_count} columns; a table has from 1 to {MAX_NPY_COLUMNS}"));
    }
    Ok(header)
}

/// Returns the dictionary text, and the offset of the values in bytes.
pub(crate) fn split_header(bytes: &[u8]) -> Result<(&str, usize), String> {
    let truncated = || "it ends inside its header".to_string();
    let version = *bytes.get(6).ok_or_else(truncated)?;
    let (start, length) = match version {
        1 => {
            let raw = bytes.get(8..10).and_then(|raw| raw.try_into().ok()).ok_or_else(truncated)?;
            (10, usize::from(u16::from_le_bytes(raw)))
        }
        2 | 3 => {
            let raw = bytes.get(8..12).and_then(|raw| raw.try_into().ok()).ok_or_else(truncated)?;
            (12, u32::from_le_bytes(raw) as usize)
        }
        other => return Err(format!("version {other} of the format is unknown; 1, 2 and 3 are supported")),
    };
    let end = start + length;
    if length > MAX_NPY_HEADER_BYTES {
        return Err(format!("its header claims {length} bytes, more than {MAX_NPY_HEADER_BYTES}"));
    }
    let text = std::str::from_utf8(bytes.get(start..end).ok_or_else(truncated)?);
    Ok((text.map_err(|_| "its header is not text".to_string())?, end))
}

/// Returns the value of `'key': value` in a Python dictionary literal, without quotes.
fn dictionary_value<'a>(text: &'a str, key: &str) -> Result<&'a str, String> {
    let missing_error = || format!("its header has no {key:?}");
    let quoted_keys = [format!("'{key}'"), format!("\"{key}\"")];
    let value_start = quoted_keys
        .iter()
        .find_map(|key| text.find(key.as_str()).map(|at| at + key.len()))
        .ok_or_else(missing_error)?;
    let value = text[value_start..].trim_start().strip_prefix(':').ok_or_else(missing_error)?.trim_start();
    let end = match value.chars().next() {
        Some('(') => value.find(')').map(|end| end + 1),
        Some('[') => return Err("it holds records with named fields; only plain arrays are supported".to_string()),
        _ => value.find([',', '}']),
    };
    let value = &value[..end.ok_or_else(missing_error)?];
    Ok(value.trim().trim_matches(['\'', '"']))
}

/// Returns the type and whether it is big-endian.
fn parse_element(descr: &str) -> Result<(Element, bool), String> {
    let (order, name) = descr.split_at_checked(1).unwrap_or((descr, ""));
    let Some((_, element)) = TYPES.iter().copied().find(|(type_name, _)| *type_name == name) else {
        if matches!(name, "O" | "one") {
            return Err("its values are Python objects; save numbers, with array.astype('<f4')".to_string());
        }
        return Err(format!(
            "values of type {descr:?} are not supported; use f2, f4, f8, i1 to i8, u1 to u8 or b1 (array.astype('<f4'))"
        ));
    };
    match order {
        "<" | "|" | "=" => Ok((element, false)),
        ">" => Ok((element, element.bytes_per_value() > 1)),
        _ => Err(format!("its type {descr:?} is invalid, expected one such as '<f4'")),
    }
}

/// Returns the rows and columns of `(3, 2)` or `(3,)`.
fn parse_shape(text: &str) -> Result<(u64, usize), String> {
    let shape_error = || format!("its shape {text:?} is invalid, expected one such as (1000, 8)");
    let sizes_text = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).ok_or_else(shape_error)?;
    let parts = sizes_text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let sizes: Vec<u64> = parts.map(|part| part.parse().map_err(|_| shape_error())).collect::<Result<_, _>>()?;
    match sizes[..] {
        [rows] => Ok((rows, 1)),
        [rows, columns] => Ok((rows, u32::try_from(columns).map_err(|_| shape_error())? as usize)),
        _ => {
            Err(format!("it has {} dimensions; a table has two, rows and columns (array.reshape(n, -1))", sizes.len()))
        }
    }
}
