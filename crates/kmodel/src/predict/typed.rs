//! A model of one precision, applied to slices of rows.

use super::{Inner, Predictor};
use crate::model::{Functions, PredictScratch, either};
use crate::{Classes, Error, Model, Result};
use faer::{MatMut, MatRef};
use kapprox::Real;
use kstore::budget::Term;
use kstore::{Encoding, Table, Workers};
use std::sync::Arc;

/// Rows scaled and scored at once.
pub(super) const TILE: usize = 1024;

/// A model with its basis functions.
#[derive(Debug)]
pub(super) struct Typed<T: Real> {
    pub(super) model: Model<T>,
    pub(super) functions: Functions<T>,
    pub(super) classes: Option<Classes>,
    /// Scaled training range of each feature, if rows are clipped to it.
    pub(super) ranges: Option<Vec<[T; 2]>>,
}

/// Rounds a value to f32, as in the fit, although the model predicts in f64: categories that
/// equalled a landmark's category in the fit must do so here too.
fn narrowed(value: f64) -> f64 {
    f64::from((value as f32).clamp(f32::MIN, f32::MAX))
}

/// A warning counts values that are outside their range by more than this fraction of its width:
/// some new rows are always slightly outside.
const FAR: f64 = 0.1;

pub(super) fn is_far<T: Real>(value: T, [least, greatest]: [T; 2]) -> bool {
    let margin = (greatest - least) * T::from_f64(FAR);
    value < least - margin || value > greatest + margin
}

/// Clips a value to a range.
fn between<T: Real>(value: T, [least, greatest]: [T; 2]) -> T {
    if value < least {
        least
    } else if value > greatest {
        greatest
    } else {
        value
    }
}

/// Scaled rows, and the same rows after the metric.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenRows<T> {
    pub(super) scaled: Vec<T>,
    pub(super) behind: Vec<T>,
}

impl<T: Real> Typed<T> {
    pub(super) fn new(model: Model<T>) -> Result<Self> {
        let functions = model.functions()?;
        let (card, scaler) = (&model.card, &model.scaler);
        let classes = (!card.classes.is_empty()).then(|| Classes::new(card.classes.clone())).transpose()?;
        let classes = if card.pairs { classes.map(Classes::in_pairs) } else { classes };
        let narrow = |value| if model.is_narrow() { narrowed(value) } else { value };
        let of = |(j, range): (usize, &[f64; 2])| range.map(|value| T::from_f64(narrow(scaler.apply(j, value))));
        let ranges = (!card.ranges.is_empty()).then(|| card.ranges.iter().enumerate().map(of).collect());
        Ok(Self { functions, classes, ranges, model })
    }

    /// Returns the plan term of the loaded model, whose functions store the landmarks again, plus
    /// `copies` bytes.
    pub(super) fn term(&self, copies: usize) -> Term {
        let held = self.model.bytes() + self.functions.bytes();
        Term::new("model", held + copies, "fit a model of lower `rank`")
    }

    pub(super) fn scratch_bytes(&self) -> usize {
        let metric = self.model.metric.as_ref().map_or(0, |metric| metric.inputs());
        TILE * size_of::<T>() * (self.model.dims().1 + metric) + self.model.scratch_bytes(1)
    }

    pub(super) fn scratch(&self) -> (SeenRows<T>, PredictScratch<T>) {
        let (d, inside) = (self.model.scaler.features(), self.model.dims().1);
        let rows = SeenRows { scaled: Vec::with_capacity(d), behind: vec![T::ZERO; inside] };
        (rows, PredictScratch::new(&self.functions))
    }

    /// Returns the inputs of the basis for scaled rows `x`: transformed by the metric, if any, and
    /// rounded as in the fit.
    pub(super) fn seen<'b>(&self, x: &'b [T], behind: &'b mut Vec<T>) -> &'b [T] {
        let Some(metric) = &self.model.metric else { return x };
        behind.resize(x.len() / metric.inputs() * metric.outputs(), T::ZERO);
        metric.apply(x, behind);
        self.round(behind);
        behind
    }

    /// Rounds scaled rows as in the fit, calls `see` for rows outside the ranges of the model, and
    /// clips them.
    pub(super) fn settle(&self, rows: &mut [T], mut see: impl FnMut(&[T], &[[T; 2]])) {
        self.round(rows);
        let Some(ranges) = &self.ranges else { return };
        let beyond = |row: &[T]| row.iter().zip(ranges).any(|(value, range)| between(*value, *range) != *value);
        for row in rows.chunks_exact_mut(ranges.len()).filter(|row| beyond(row)) {
            see(row, ranges);
            row.iter_mut().zip(ranges).for_each(|(value, range)| *value = between(*value, *range));
        }
    }

    fn round(&self, values: &mut [T]) {
        if self.model.is_narrow() {
            values.iter_mut().for_each(|value| *value = T::from_f64(narrowed(value.to_f64())));
        }
    }

    /// Writes the rows of `x` to `out`, scaled, rounded and clipped; `first` is their offset in
    /// messages.
    fn scale<V: kstore::Real>(&self, x: &[V], first: usize, out: &mut Vec<T>) -> Result<()> {
        out.clear();
        for (row, values) in x.chunks_exact(self.model.scaler.features()).enumerate() {
            for (j, value) in values.iter().enumerate() {
                let value = value.to_f64();
                if !value.is_finite() {
                    return Err(self.bad(first + row, &self.model.card.features[j], value));
                }
                out.push(T::from_f64(self.model.scaler.apply(j, value)));
            }
        }
        self.settle(out, |_, _| {});
        Ok(())
    }

    #[cold]
    fn bad(&self, row: usize, what: &str, value: f64) -> Error {
        Error::Row { row: row as u64, what: what.to_string(), value }
    }

    fn check<V>(&self, x: &[V], out: &[f64]) -> Result<()> {
        let (d, t) = (self.model.scaler.features(), self.model.dims().2);
        let n = x.len() / d.max(1);
        match (n * d == x.len(), n * t == out.len()) {
            (false, _) => Err(Error::Shape { what: "numbers of whole rows", expected: (n + 1) * d, got: x.len() }),
            (_, false) => Err(Error::Shape { what: "numbers of the predictions", expected: n * t, got: out.len() }),
            _ => Ok(()),
        }
    }

    pub(super) fn predict<V: kstore::Real>(&self, x: &[V], out: &mut [f64]) -> Result<()> {
        let score = |x: MatRef<'_, T>, out: MatMut<'_, f64>| {
            self.model.predict(&self.functions, x, out, &Workers::sequential())
        };
        self.each_tile(x, out, TILE, &mut SeenRows::default(), score)
    }

    pub(super) fn predict_row<V: kstore::Real>(
        &self,
        x: &[V],
        out: &mut [f64],
        (rows, scratch): &mut (SeenRows<T>, PredictScratch<T>),
    ) -> Result<()> {
        self.each_tile(x, out, 1, rows, |x, out| self.model.predict_with(&self.functions, x, out, scratch))
    }

    /// Calls `see` with the inputs of the basis for `tile` rows of `x` at a time, and the position
    /// of the first row.
    pub(super) fn each_seen<V: kstore::Real>(
        &self,
        x: &[V],
        tile: usize,
        SeenRows { scaled, behind }: &mut SeenRows<T>,
        mut see: impl FnMut(MatRef<'_, T>, usize) -> Result<()>,
    ) -> Result<()> {
        let (d, inside) = (self.model.scaler.features(), self.model.dims().1);
        for (i, x) in x.chunks(tile * d.max(1)).enumerate() {
            self.scale(x, i * tile, scaled)?;
            see(MatRef::from_row_major_slice(self.seen(scaled, behind), x.len() / d, inside), i * tile)?;
        }
        Ok(())
    }

    fn each_tile<V: kstore::Real>(
        &self,
        x: &[V],
        out: &mut [f64],
        tile: usize,
        rows: &mut SeenRows<T>,
        mut score: impl FnMut(MatRef<'_, T>, MatMut<'_, f64>) -> Result<()>,
    ) -> Result<()> {
        let t = self.model.dims().2;
        self.check(x, out)?;
        self.each_seen(x, tile, rows, |seen, first| {
            let out = &mut out[first * t..(first + seen.nrows()) * t];
            score(seen, MatMut::from_row_major_slice_mut(out, seen.nrows(), t))?;
            match out.iter().position(|value| !value.is_finite()) {
                Some(at) => Err(self.bad(first + at / t, "the prediction", out[at])),
                None => Ok(()),
            }
        })
    }
}

impl Predictor {
    /// Returns a predictor whose sparse row layout has room for every row of a table, even with
    /// more entries than any row of the fit.
    ///
    /// # Errors
    /// The errors of [`Predictor::new`].
    #[doc(hidden)]
    pub fn fitting(self, table: &Table) -> Result<Self> {
        let Some((encoding, own)) = self.card().encoding.as_ref().zip(self.card().sparse()) else { return Ok(self) };
        let rooms = table.rooms(encoding)?;
        let wider = Encoding::clone(encoding).with_rooms(&rooms);
        if wider.sparse().is_none_or(|shape| shape.longest <= own.longest) {
            return Ok(self);
        }
        let inner =
            either!(Inner to Inner: &self.0, typed => Arc::new(Typed::new(typed.model.clone().with_rooms(&rooms))?));
        Ok(Self(inner, self.1))
    }
}
