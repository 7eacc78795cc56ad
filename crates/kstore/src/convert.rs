//! Converts typed columns to row-major blocks of the working precision.

use crate::source::{Element, Positions, Strided, Values, View};
use crate::{Real, Scaler};
use kpass::scaler::factor;

/// Rows that are transposed at once. With 32 columns of f32 the block is 16 KiB and stays in the L1
/// cache while the columns are written into it one after the other; with several hundred columns it
/// stays in L2.
pub(crate) const TILE: usize = 128;

/// Columns whose values are written together: the number that fills a vector register of 128 bits,
/// which every x86-64 has.
const GROUP: usize = 4;

#[derive(Debug)]
pub(crate) struct Affine {
    scaler: Scaler,
    pub(crate) factor: Vec<f64>,
    /// Scaled replacement of a missing value, for each feature.
    pub(crate) fill: Vec<f64>,
}

impl Affine {
    pub(crate) fn apply(&self, i: usize, value: f64) -> f64 {
        self.scaler.bend(i, (value - self.scaler.centre[i]) * self.factor[i])
    }

    /// Returns whether all values stay bit-identical: shifting by 0 and scaling by 1 are exact.
    pub(crate) fn is_identity(&self) -> bool {
        !self.scaler.bends()
            && self.scaler.centre.iter().all(|centre| *centre == 0.0)
            && self.factor.iter().all(|factor| *factor == 1.0)
    }

    /// Returns the transform of a scaler; without a scaler, values stay unchanged and missing ones
    /// are NaN.
    pub(crate) fn new(features: usize, scaler: Option<&Scaler>) -> Self {
        let scaler = scaler.cloned().unwrap_or_else(|| Scaler {
            centre: vec![0.0; features],
            scale: vec![1.0; features],
            mean: vec![f64::NAN; features],
            ..Scaler::default()
        });
        let factor = scaler.scale.iter().map(|scale| factor(*scale)).collect();
        let fill = (0..features).map(|i| scaler.apply(i, scaler.mean[i])).collect();
        Self { scaler, factor, fill }
    }

    /// Returns feature `i` of some rows, shifted and scaled: a slice of the stored values if
    /// possible, otherwise computed into `out`.
    pub(crate) fn scaled<'a, T: Real>(
        &self,
        view: &View<'a>,
        i: usize,
        at: Positions<'_>,
        out: &'a mut [T],
    ) -> &'a [T] {
        let (centre, factor) = (self.scaler.centre[i], self.factor[i]);
        if let (Positions::From(start), Some(values), 0.0, 1.0) =
            (at, same_type(view).filter(|_| !self.scaler.bends()), centre, factor)
        {
            // the conversion to f64 and back would be exact: bit-identical
            return &values[start..start + out.len()];
        }
        let mut loaded = [0.0; TILE];
        let loaded = &mut loaded[..out.len()];
        view.load(at, loaded);
        let values = out.iter_mut().zip(loaded).map(|(out, value)| (out, (*value - centre) * factor));
        match self.scaler.bends() {
            false => values.for_each(|(out, value)| *out = T::from_f64(value)),
            true => values.for_each(|(out, value)| *out = T::from_f64(self.scaler.bend(i, value))),
        }
        out
    }
}

/// Fills `out` with at most one tile of rows; returns false if any value is not finite.
pub(crate) fn features<T: Real>(views: &[View<'_>], affine: &Affine, at: Positions<'_>, out: &mut [T]) -> bool {
    if let (Positions::From(start), Some(block)) = (at, contiguous(views).filter(|_| !affine.scaler.bends())) {
        return row_major(block, affine, start, out);
    }
    let d = views.len();
    let rows = out.len().checked_div(d).unwrap_or(0);
    let mut computed = [[T::default(); TILE]; GROUP];
    for (group, first) in views.chunks(GROUP).zip((0..d).step_by(GROUP)) {
        let mut columns = [&[][..]; GROUP];
        for (k, ((view, column), computed)) in group.iter().zip(&mut columns).zip(&mut computed).enumerate() {
            *column = affine.scaled(view, first + k, at, &mut computed[..rows]);
        }
        transpose(&columns, group.len(), d, first, out);
    }
    // also false after an overflow in narrowing; checks all rows at once while they are in the
    // cache
    T::all_finite(out)
}

fn same_type<'a, T: Real>(view: &View<'a>) -> Option<&'a [T]> {
    match view.values {
        Values::Strided(values) if view.nulls.is_none() => values.slice(T::ELEMENT),
        _ => None,
    }
}

/// Writes the first `count` columns, of equal length, to positions `first..` of rows of `d` values.
fn transpose<T: Real>(columns: &[&[T]; GROUP], count: usize, d: usize, first: usize, out: &mut [T]) {
    if count == GROUP {
        return T::transpose(*columns, d, &mut out[first..]);
    }
    for (row, out) in out.chunks_exact_mut(d).enumerate().take(columns[0].len()) {
        for (out, column) in out[first..].iter_mut().zip(&columns[..count]) {
            *out = column[row];
        }
    }
}

/// Returns the first column if the columns are adjacent in row-major bytes of f32 or f64.
fn contiguous<'a>(views: &[View<'a>]) -> Option<Strided<'a>> {
    let strided = |view: &View<'a>| match view.values {
        Values::Strided(values) if view.nulls.is_none() => Some(values),
        _ => None,
    };
    let first = strided(views.first()?)?;
    let size = first.element.size();
    let beside = |(i, view): (usize, &View<'a>)| {
        let own = |v: &Strided<'_>| std::ptr::eq(v.bytes, first.bytes) && v.stride == first.stride;
        strided(view).filter(own).is_some_and(|v| v.offset == first.offset + i * size && v.element == first.element)
    };
    let known = matches!(first.element, Element::F32 | Element::F64);
    (known && views.iter().enumerate().all(beside)).then_some(first)
}

fn row_major<T: Real>(block: Strided<'_>, affine: &Affine, start: usize, out: &mut [T]) -> bool {
    match block.element {
        Element::F32 => copy_rows::<T, 4>(block, affine, start, out, |raw| f32::from_le_bytes(raw).into()),
        _ => copy_rows::<T, 8>(block, affine, start, out, f64::from_le_bytes),
    }
}

#[inline(always)]
fn copy_rows<T: Real, const N: usize>(
    block: Strided<'_>,
    affine: &Affine,
    start: usize,
    out: &mut [T],
    number: impl Fn([u8; N]) -> f64,
) -> bool {
    let d = affine.factor.len();
    let mut fine = true;
    for (i, out) in out.chunks_exact_mut(d).enumerate() {
        let from = block.offset + (start + i) * block.stride;
        let (values, _) = block.bytes[from..from + d * N].as_chunks::<N>();
        let affine = affine.scaler.centre.iter().zip(&affine.factor);
        for ((out, raw), (centre, factor)) in out.iter_mut().zip(values).zip(affine) {
            let value = T::from_f64((number(*raw) - centre) * factor);
            fine &= value.is_finite();
            *out = value;
        }
    }
    fine
}

/// Writes targets of `rows` rows, at most one tile, to `out`; returns false if any is not finite.
pub(crate) fn targets(views: &[View<'_>], at: Positions<'_>, rows: usize, out: &mut [f64]) -> bool {
    let t = views.len();
    let mut loaded = [0.0; TILE];
    let mut fine = true;
    for (k, view) in views.iter().enumerate() {
        view.load(at, &mut loaded[..rows]);
        for (value, row) in loaded[..rows].iter().zip(out.chunks_exact_mut(t)) {
            fine &= value.is_finite();
            row[k] = *value;
        }
    }
    fine
}
