//! Columns that are copied to the output unchanged, such as an ID next to a prediction.

use crate::Strings;
use crate::sparse::{SparseColumn, SparseShape};
use std::ops::Range;

/// The type of the values of a written column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the types")]
pub enum OutputKind {
    F32,
    F64,
    I64,
    U64,
    Bool,
    Text,
    Binary,
    Sparse(SparseShape),
}

impl OutputKind {
    /// Returns true for values of variable size: text, bytes and sparse rows.
    #[doc(hidden)]
    pub fn is_variable_size(self) -> bool {
        matches!(self, Self::Text | Self::Binary | Self::Sparse(_))
    }

    /// Returns the bytes of a value, without the content of text, bytes and sparse rows.
    #[doc(hidden)]
    pub fn bytes_per_value(self) -> usize {
        match self {
            Self::Bool => 1,
            Self::F32 => 4,
            Self::F64 | Self::I64 | Self::U64 | Self::Text | Self::Binary | Self::Sparse(_) => 8,
        }
    }
}

impl std::fmt::Display for OutputKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::I64 => "int64",
            Self::U64 => "uint64",
            Self::Bool => "bool",
            Self::Text => "text",
            Self::Binary => "binary",
            Self::Sparse(_) => "sparse rows",
        })
    }
}

/// Values of a kept column. If the value of a row is missing, the stored value is arbitrary.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are the types")]
pub enum KeptValues {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I64(Vec<i64>),
    U64(Vec<u64>),
    Bool(Vec<bool>),
    Text(Strings),
    Binary(Strings),
    Sparse(SparseColumn),
}

impl KeptValues {
    /// Returns the values in the form that a sink writes.
    pub fn as_output(&self) -> OutputValues<'_> {
        match self {
            Self::F32(v) => OutputValues::F32(v),
            Self::F64(v) => OutputValues::F64(v),
            Self::I64(v) => OutputValues::I64(v),
            Self::U64(v) => OutputValues::U64(v),
            Self::Bool(v) => OutputValues::Bool(v),
            Self::Text(v) => OutputValues::Text(v),
            Self::Binary(v) => OutputValues::Binary(v),
            Self::Sparse(v) => OutputValues::Sparse(v),
        }
    }

    /// Returns the value of a row as an integer; `None` unless the column holds integers or
    /// booleans.
    #[inline]
    pub fn integer(&self, row: usize) -> Option<i128> {
        match self {
            Self::I64(v) => Some(v[row].into()),
            Self::U64(v) => Some(v[row].into()),
            Self::Bool(v) => Some(v[row].into()),
            Self::F32(_) | Self::F64(_) | Self::Text(_) | Self::Binary(_) | Self::Sparse(_) => None,
        }
    }

    /// Returns the value of a row; `None` unless the column holds numbers or booleans.
    #[inline]
    pub fn number(&self, row: usize) -> Option<f64> {
        match self {
            Self::F32(v) => Some(v[row].into()),
            Self::F64(v) => Some(v[row]),
            _ => self.integer(row).map(|integer| integer as f64),
        }
    }
}

/// A column that is copied to the output, for some rows. Values may be missing.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptColumn {
    values: KeptValues,
    /// For each row, true if it has a value; `None` if all rows have one.
    validity: Option<Vec<bool>>,
}

impl KeptColumn {
    /// Returns an empty column for values of this kind.
    pub fn new(kind: OutputKind) -> Self {
        let values = match kind {
            OutputKind::F32 => KeptValues::F32(Vec::new()),
            OutputKind::F64 => KeptValues::F64(Vec::new()),
            OutputKind::I64 => KeptValues::I64(Vec::new()),
            OutputKind::U64 => KeptValues::U64(Vec::new()),
            OutputKind::Bool => KeptValues::Bool(Vec::new()),
            OutputKind::Text => KeptValues::Text(Strings::default()),
            OutputKind::Binary => KeptValues::Binary(Strings::default()),
            OutputKind::Sparse(shape) => KeptValues::Sparse(SparseColumn::new(shape)),
        };
        Self { values, validity: None }
    }

    /// Returns a column of these values. A value is missing if its entry in `validity` is false.
    pub fn with_validity(values: KeptValues, validity: Vec<bool>) -> Self {
        Self { values, validity: validity.contains(&false).then_some(validity) }
    }

    /// Returns a column of numbers that may be missing.
    pub fn from_options(values: &[Option<f64>]) -> Self {
        let validity = values.iter().any(Option::is_none).then(|| values.iter().map(Option::is_some).collect());
        Self { values: KeptValues::F64(values.iter().map(|value| value.unwrap_or_default()).collect()), validity }
    }

    /// Returns the values; missing values are arbitrary.
    pub fn values(&self) -> &KeptValues {
        &self.values
    }

    /// Returns the values and their validity flags (see [`Self::validity`]), for a reader to append
    /// to.
    pub fn parts_mut(&mut self) -> (&mut KeptValues, &mut Option<Vec<bool>>) {
        (&mut self.values, &mut self.validity)
    }

    /// Returns, for each row, true if it has a value; `None` if all rows have one.
    pub fn validity(&self) -> Option<&[bool]> {
        self.validity.as_deref()
    }

    /// Returns true for a row without a value.
    pub fn is_null(&self, row: usize) -> bool {
        self.validity.as_ref().is_some_and(|valid| !valid[row])
    }

    /// Returns the first row from row `start` on whose value is missing, NaN or infinite, as a
    /// distance from `start`.
    pub fn first_invalid(&self, start: usize) -> Option<usize> {
        let is_finite = |row: usize| match &self.values {
            KeptValues::Sparse(values) => values.rows().largest_magnitude(row).is_finite(),
            values => values.number(row).is_none_or(f64::is_finite),
        };
        let first_non_finite = (start..self.len()).position(|row| !is_finite(row));
        let first_null = self.validity.as_ref().and_then(|valid| valid[start..].iter().position(|valid| !valid));
        first_non_finite.into_iter().chain(first_null).min()
    }

    /// Returns the type of the values.
    pub fn kind(&self) -> OutputKind {
        self.values.as_output().kind()
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.values.as_output().len()
    }

    /// Returns whether the column is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all rows and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.validity = None;
        match &mut self.values {
            KeptValues::F32(v) => v.clear(),
            KeptValues::F64(v) => v.clear(),
            KeptValues::I64(v) => v.clear(),
            KeptValues::U64(v) => v.clear(),
            KeptValues::Bool(v) => v.clear(),
            KeptValues::Text(v) | KeptValues::Binary(v) => v.clear(),
            KeptValues::Sparse(v) => v.clear(),
        }
    }

    /// Appends some rows of a column of the same kind.
    ///
    /// # Panics
    /// If the kinds differ.
    pub fn append(&mut self, later: &Self, rows: Range<usize>) {
        let old_len = self.len();
        match (&mut self.values, &later.values) {
            (KeptValues::F32(v), KeptValues::F32(later)) => v.extend(&later[rows.clone()]),
            (KeptValues::F64(v), KeptValues::F64(later)) => v.extend(&later[rows.clone()]),
            (KeptValues::I64(v), KeptValues::I64(later)) => v.extend(&later[rows.clone()]),
            (KeptValues::U64(v), KeptValues::U64(later)) => v.extend(&later[rows.clone()]),
            (KeptValues::Bool(v), KeptValues::Bool(later)) => v.extend(&later[rows.clone()]),
            (KeptValues::Text(v), KeptValues::Text(later)) | (KeptValues::Binary(v), KeptValues::Binary(later)) => {
                v.extend_from(later, rows.clone());
            }
            (KeptValues::Sparse(v), KeptValues::Sparse(later)) => v.extend(&later.rows(), rows.clone()),
            (mine, _) => panic!("a column of {:?} cannot continue as {:?}", mine.as_output().kind(), later.kind()),
        }
        let later_validity =
            later.validity.as_ref().map(|valid| &valid[rows.clone()]).filter(|valid| valid.contains(&false));
        if self.validity.is_some() || later_validity.is_some() {
            let validity = self.validity.get_or_insert_with(|| vec![true; old_len]);
            match later_validity {
                Some(later) => validity.extend(later),
                None => validity.resize(old_len + rows.len(), true),
            }
        }
    }

    /// Returns a copy of the column with another type. Fractions are rounded; integers and booleans
    /// must be exact.
    ///
    /// # Errors
    /// The first row whose value the type cannot represent, and the value.
    pub fn cast(&self, kind: OutputKind) -> Result<Self, (usize, String)> {
        let mut converted = Self { validity: self.validity.clone(), ..Self::new(kind) };
        for row in 0..self.len() {
            let at_row = |value: String| (row, value);
            let integer = self.values.integer(row);
            match (&mut converted.values, &self.values, self.values.number(row)) {
                (KeptValues::F32(to), _, Some(number)) => to.push(match integer {
                    Some(integer) => exact_integer(integer, 24, "float32").map_err(at_row)? as f32,
                    None => round_to_f32(number).map_err(at_row)?,
                }),
                (KeptValues::F64(to), _, Some(number)) => to.push(match integer {
                    Some(integer) => exact_integer(integer, 53, "float64").map_err(at_row)? as f64,
                    None => number,
                }),
                (KeptValues::I64(to), KeptValues::I64(_) | KeptValues::Bool(_), _) => {
                    to.extend(integer.map(|value| value as i64));
                }
                (KeptValues::Bool(to), KeptValues::Bool(from), _) => to.push(from[row]),
                (KeptValues::Text(to), KeptValues::Text(from), _)
                | (KeptValues::Binary(to), KeptValues::Binary(from), _) => to.push(from.bytes(row)),
                (_, from, _) => {
                    return Err(at_row(format!("{}, not {kind}", from.as_output().kind())));
                }
            }
        }
        Ok(converted)
    }
}

/// Rounds a number to float32.
///
/// # Errors
/// If the number is finite but too large for float32.
fn round_to_f32(value: f64) -> Result<f32, String> {
    let rounded = value as f32;
    if rounded.is_finite() || !value.is_finite() {
        Ok(rounded)
    } else {
        Err(format!("{value:e}, too large for float32"))
    }
}

/// Returns the integer if floats with this many binary digits represent it, and all integers of
/// smaller magnitude, exactly.
fn exact_integer(value: i128, mantissa_bits: u32, type_name: &str) -> Result<i128, String> {
    if value.unsigned_abs() <= 1 << mantissa_bits {
        Ok(value)
    } else {
        Err(format!("{value}, outside the range of integers that {type_name} represents exactly"))
    }
}

/// Values of a column in a batch.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names are the types")]
pub enum OutputValues<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    I64(&'a [i64]),
    U64(&'a [u64]),
    Bool(&'a [bool]),
    Text(&'a Strings),
    Binary(&'a Strings),
    Sparse(&'a SparseColumn),
    /// Values that may be missing.
    Kept(&'a KeptColumn),
}

impl OutputValues<'_> {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(v) => v.len(),
            Self::F64(v) => v.len(),
            Self::I64(v) => v.len(),
            Self::U64(v) => v.len(),
            Self::Bool(v) => v.len(),
            Self::Text(v) | Self::Binary(v) => v.len(),
            Self::Sparse(v) => v.len(),
            Self::Kept(column) => column.len(),
        }
    }

    /// Returns whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the type of the values.
    pub fn kind(&self) -> OutputKind {
        match self {
            Self::F32(_) => OutputKind::F32,
            Self::F64(_) => OutputKind::F64,
            Self::I64(_) => OutputKind::I64,
            Self::U64(_) => OutputKind::U64,
            Self::Bool(_) => OutputKind::Bool,
            Self::Text(_) => OutputKind::Text,
            Self::Binary(_) => OutputKind::Binary,
            Self::Sparse(v) => OutputKind::Sparse(v.shape()),
            Self::Kept(column) => column.kind(),
        }
    }
}
