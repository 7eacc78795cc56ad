//! Converts typed columns to row-major blocks of the working precision.

use crate::view::{ColumnView, Element, RowIndices, StridedColumn, Values};
use crate::{Float, Scaler};
use kpass::scaler::inverse_scale;

/// Number of rows that are transposed at once. With 32 columns of f32 a block of these rows takes
/// 16 KiB, and stays in the L1 cache while its columns are written one after the other. With
/// several hundred columns it stays in the L2 cache.
pub(crate) const CONVERT_TILE_ROWS: usize = 128;

/// Number of columns whose values are written together. This many f32 values fill a vector register
/// of 128 bits, which every x86-64 processor has.
const GROUP_COLUMNS: usize = 4;

/// The scaling of features: (value − centre) · factor, followed by the scaler's nonlinear function,
/// if it has one.
#[derive(Debug)]
pub(crate) struct FeatureScaling {
    scaler: Scaler,
    /// Reciprocal of the scale, for each feature; 0 for a scale of 0.
    pub(crate) factors: Vec<f64>,
    /// Scaled replacement of a missing value, for each feature.
    pub(crate) fill_values: Vec<f64>,
}

impl FeatureScaling {
    pub(crate) fn apply(&self, i: usize, value: f64) -> f64 {
        self.scaler.apply_nonlinear(i, (value - self.scaler.centre[i]) * self.factors[i])
    }

    /// Returns whether all values stay bit-identical. Subtracting 0 and multiplying by 1 are exact.
    pub(crate) fn is_identity(&self) -> bool {
        !self.scaler.is_nonlinear()
            && self.scaler.centre.iter().all(|centre| *centre == 0.0)
            && self.factors.iter().all(|factor| *factor == 1.0)
    }

    /// Returns the transform of a scaler. Without a scaler, values stay unchanged, and a missing
    /// value is replaced by NaN.
    pub(crate) fn new(feature_count: usize, scaler: Option<&Scaler>) -> Self {
        let scaler = scaler.cloned().unwrap_or_else(|| Scaler {
            centre: vec![0.0; feature_count],
            scale: vec![1.0; feature_count],
            mean: vec![f64::NAN; feature_count],
            ..Scaler::default()
        });
        let factors = scaler.scale.iter().map(|scale| inverse_scale(*scale)).collect();
        let fill_values = (0..feature_count).map(|i| scaler.apply(i, scaler.mean[i])).collect();
        Self { scaler, factors, fill_values }
    }

    /// Returns feature `i` of some rows, shifted and scaled. If scaling changes nothing, the result
    /// is a slice of the stored values; otherwise the values are computed into `out`.
    pub(crate) fn scaled_column<'a, T: Float>(
        &self,
        view: &ColumnView<'a>,
        i: usize,
        row_indices: RowIndices<'_>,
        out: &'a mut [T],
    ) -> &'a [T] {
        let (centre, factor) = (self.scaler.centre[i], self.factors[i]);
        if let (RowIndices::StartingAt(start), Some(values), 0.0, 1.0) =
            (row_indices, contiguous_slice(view).filter(|_| !self.scaler.is_nonlinear()), centre, factor)
        {
            // the conversion to f64 and back would be exact: bit-identical
            return &values[start..start + out.len()];
        }
        let mut values = [0.0; CONVERT_TILE_ROWS];
        let values = &mut values[..out.len()];
        view.load(row_indices, values);
        let scaled_values = out.iter_mut().zip(values).map(|(out, value)| (out, (*value - centre) * factor));
        match self.scaler.is_nonlinear() {
            false => scaled_values.for_each(|(out, value)| *out = T::from_f64(value)),
            true => scaled_values.for_each(|(out, value)| *out = T::from_f64(self.scaler.apply_nonlinear(i, value))),
        }
        out
    }
}

/// Fills `out` with at most one tile of rows; returns false if any value is not finite.
pub(crate) fn write_features<T: Float>(
    views: &[ColumnView<'_>],
    scaling: &FeatureScaling,
    row_indices: RowIndices<'_>,
    out: &mut [T],
) -> bool {
    if let (RowIndices::StartingAt(start), Some(block)) =
        (row_indices, row_major_block(views).filter(|_| !scaling.scaler.is_nonlinear()))
    {
        return copy_row_major(block, scaling, start, out);
    }
    let d = views.len();
    let row_count = out.len().checked_div(d).unwrap_or(0);
    let mut column_buffers = [[T::default(); CONVERT_TILE_ROWS]; GROUP_COLUMNS];
    for (group, first) in views.chunks(GROUP_COLUMNS).zip((0..d).step_by(GROUP_COLUMNS)) {
        let mut columns = [&[][..]; GROUP_COLUMNS];
        for (k, ((view, column), column_buffer)) in group.iter().zip(&mut columns).zip(&mut column_buffers).enumerate()
        {
            *column = scaling.scaled_column(view, first + k, row_indices, &mut column_buffer[..row_count]);
        }
        write_columns(&columns, group.len(), d, first, out);
    }
    // also false if a value overflowed in the conversion to `T`; all rows are checked at once while
    // they are in the cache
    T::all_finite(out)
}

fn contiguous_slice<'a, T: Float>(view: &ColumnView<'a>) -> Option<&'a [T]> {
    match view.values {
        Values::Strided(values) if view.nulls.is_none() => values.contiguous(T::ELEMENT),
        _ => None,
    }
}

/// Writes the first `count` columns, which have equal length, into rows of `d` values, from
/// column `first_column` of each row on.
fn write_columns<T: Float>(
    columns: &[&[T]; GROUP_COLUMNS],
    count: usize,
    d: usize,
    first_column: usize,
    out: &mut [T],
) {
    if count == GROUP_COLUMNS {
        return T::interleave_columns(*columns, d, &mut out[first_column..]);
    }
    for (row, out) in out.chunks_exact_mut(d).enumerate().take(columns[0].len()) {
        for (out, column) in out[first_column..].iter_mut().zip(&columns[..count]) {
            *out = column[row];
        }
    }
}

/// Returns the first column if all columns lie next to each other in row-major bytes of f32 or f64.
fn row_major_block<'a>(views: &[ColumnView<'a>]) -> Option<StridedColumn<'a>> {
    let strided_column = |view: &ColumnView<'a>| match view.values {
        Values::Strided(values) if view.nulls.is_none() => Some(values),
        _ => None,
    };
    let first = strided_column(views.first()?)?;
    let element_bytes = first.element.bytes_per_value();
    let is_adjacent = |(i, view): (usize, &ColumnView<'a>)| {
        let is_same_block = |v: &StridedColumn<'_>| std::ptr::eq(v.bytes, first.bytes) && v.stride == first.stride;
        strided_column(view)
            .filter(is_same_block)
            .is_some_and(|v| v.offset == first.offset + i * element_bytes && v.element == first.element)
    };
    let is_float = matches!(first.element, Element::F32 | Element::F64);
    (is_float && views.iter().enumerate().all(is_adjacent)).then_some(first)
}

fn copy_row_major<T: Float>(block: StridedColumn<'_>, scaling: &FeatureScaling, start: usize, out: &mut [T]) -> bool {
    match block.element {
        Element::F32 => copy_rows::<T, 4>(block, scaling, start, out, |raw| f32::from_le_bytes(raw).into()),
        _ => copy_rows::<T, 8>(block, scaling, start, out, f64::from_le_bytes),
    }
}

/// Copies rows of floats of N bytes, shifted and scaled; returns false if a value is not finite.
#[inline(always)]
fn copy_rows<T: Float, const N: usize>(
    block: StridedColumn<'_>,
    scaling: &FeatureScaling,
    start: usize,
    out: &mut [T],
    decode: impl Fn([u8; N]) -> f64,
) -> bool {
    let d = scaling.factors.len();
    let mut all_finite = true;
    for (i, out) in out.chunks_exact_mut(d).enumerate() {
        let row_start = block.offset + (start + i) * block.stride;
        let (values, _) = block.bytes[row_start..row_start + d * N].as_chunks::<N>();
        let centres_and_factors = scaling.scaler.centre.iter().zip(&scaling.factors);
        for ((out, raw), (centre, factor)) in out.iter_mut().zip(values).zip(centres_and_factors) {
            let value = T::from_f64((decode(*raw) - centre) * factor);
            all_finite &= value.is_finite();
            *out = value;
        }
    }
    all_finite
}

/// Writes targets of `row_count` rows, at most one tile, to `out`; returns false if any is not
/// finite.
pub(crate) fn write_targets(
    views: &[ColumnView<'_>],
    row_indices: RowIndices<'_>,
    row_count: usize,
    out: &mut [f64],
) -> bool {
    let t = views.len();
    let mut values = [0.0; CONVERT_TILE_ROWS];
    let mut all_finite = true;
    for (k, view) in views.iter().enumerate() {
        view.load(row_indices, &mut values[..row_count]);
        for (value, row) in values[..row_count].iter().zip(out.chunks_exact_mut(t)) {
            all_finite &= value.is_finite();
            row[k] = *value;
        }
    }
    all_finite
}
