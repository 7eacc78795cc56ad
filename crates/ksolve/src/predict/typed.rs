//! A model of one precision at work on slices of rows.

use super::table::TableScorer;
use super::{Extras, Scores};
use crate::job::Run;
use crate::model::PredictScratch;
use crate::{Classes, Error, Model, Result};
use faer::{MatMut, MatRef};
use kapprox::metric::Metric;
use kapprox::{FeatureMap, Real};
use kstore::budget::Term;
use kstore::{Scaler, Selected, Workers};

/// Rows that are scaled and scored at once.
pub(super) const TILE: usize = 1024;

/// A model with the functions of its basis, made once.
#[derive(Debug)]
pub(super) struct Typed<T: Real> {
    pub(super) model: Model<T>,
    pub(super) functions: Box<dyn FeatureMap<T>>,
    pub(super) scaler: Scaler,
    pub(super) classes: Option<Classes>,
}

/// A value as the fit in f32 saw it, though the model predicts in f64: categories that were equal to those of a landmark in the
/// fit must be equal here too.
pub(super) fn narrowed(value: f64) -> f64 {
    f64::from((value as f32).clamp(f32::MIN, f32::MAX))
}

/// The term of the plan for a loaded model, whose functions hold the landmarks once more, and further copies.
pub(super) fn model_term<T: Real>(model: &Model<T>, functions: &dyn FeatureMap<T>, copies: usize) -> Term {
    Term::new("model", model.bytes() + functions.footprint().fixed + copies, "fit a model of lower `rank`")
}

impl<T: Real> Typed<T> {
    pub(super) fn scores(
        &self,
        selected: &Selected,
        extras: Extras,
        held: Vec<Term>,
        run: &Run<'_>,
        deliver: impl FnMut(&Scores) -> Result<()> + Send,
    ) -> Result<u64> {
        let scorer = TableScorer::new(self, selected, extras)?;
        let lanes = scorer.lanes(run.bytes(), run.workers().threads(), held)?;
        scorer.run(run, lanes.count, deliver)
    }

    pub(super) fn new(model: Model<T>) -> Result<Self> {
        let functions = model.functions()?;
        let (card, scaler) = (&model.card, model.scaler());
        let classes = (!card.classes.is_empty()).then(|| Classes::new(card.classes.clone())).transpose()?;
        let classes = if card.pairs { classes.map(Classes::in_pairs) } else { classes };
        Ok(Self { functions, scaler, classes, model })
    }

    /// Numbers of a buffer for so many rows: behind the metric, and before it.
    pub(super) fn buffer(&self, rows: usize) -> usize {
        let metric = self.model.metric.as_ref();
        rows * (self.model.dims().1 + metric.map_or(0, |metric| metric.inputs()))
    }

    /// The rows of `x`, scaled and rounded as those of the fit were, behind the metric, in `buffer`. The first of them has the number
    /// `first`.
    fn seen<'b, V: kstore::Real>(&self, x: &[V], first: usize, buffer: &'b mut [T]) -> Result<&'b [T]> {
        let Some(metric) = &self.model.metric else {
            self.scaled(x, first, buffer)?;
            return Ok(buffer);
        };
        let (scaled, behind) = buffer.split_at_mut(x.len());
        self.scaled(x, first, scaled)?;
        self.put_behind(metric, scaled, behind);
        Ok(behind)
    }

    /// `out` = the scaled rows `x` behind the metric, rounded as those of the fit were.
    pub(super) fn put_behind(&self, metric: &Metric, x: &[T], out: &mut [T]) {
        metric.apply(x, out);
        if self.model.is_narrow() {
            out.iter_mut().for_each(|value| *value = T::from_f64(narrowed(value.to_f64())));
        }
    }

    /// Writes rows of `x` from `first` on to `out`, scaled and rounded as those of the fit were.
    fn scaled<V: kstore::Real>(&self, x: &[V], first: usize, out: &mut [T]) -> Result<()> {
        let d = self.scaler.features();
        let narrow = self.model.is_narrow();
        for (row, (from, to)) in x.chunks_exact(d).zip(out.chunks_exact_mut(d)).enumerate() {
            for (j, (from, to)) in from.iter().zip(to).enumerate() {
                let value = from.to_f64();
                if !value.is_finite() {
                    return Err(self.bad(first + row, &self.model.card.features[j], value));
                }
                let scaled = self.scaler.apply(j, value);
                *to = T::from_f64(if narrow { narrowed(scaled) } else { scaled });
            }
        }
        Ok(())
    }

    #[cold]
    fn bad(&self, row: usize, what: &str, value: f64) -> Error {
        Error::Row { row: row as u64, what: what.to_string(), value }
    }

    /// The number of rows of `x`; an error where `x` or `out` has a wrong length.
    fn rows<V>(&self, x: &[V], out: &[f64]) -> Result<usize> {
        let (d, t) = (self.scaler.features(), self.model.dims().2);
        let n = x.len() / d.max(1);
        match (n * d == x.len(), n * t == out.len()) {
            (false, _) => Err(Error::Shape { what: "numbers of whole rows", expected: (n + 1) * d, got: x.len() }),
            (_, false) => Err(Error::Shape { what: "numbers of the predictions", expected: n * t, got: out.len() }),
            _ => Ok(n),
        }
    }

    pub(super) fn predict<V: kstore::Real>(&self, x: &[V], out: &mut [f64]) -> Result<()> {
        let (d, (_, inside, t)) = (self.scaler.features(), self.model.dims());
        let n = self.rows(x, out)?;
        let mut buffer = vec![T::ZERO; self.buffer(TILE.min(n))];
        for first in (0..n).step_by(TILE) {
            let rows = TILE.min(n - first);
            let (buffer, out) = (&mut buffer[..self.buffer(rows)], &mut out[first * t..(first + rows) * t]);
            let tile = self.seen(&x[first * d..(first + rows) * d], first, buffer)?;
            let view = MatMut::from_row_major_slice_mut(out, rows, t);
            let tile = MatRef::from_row_major_slice(tile, rows, inside);
            self.model.predict(&*self.functions, tile, view, &Workers::sequential())?;
            self.check(first, out)?;
        }
        Ok(())
    }

    pub(super) fn predict_row<V: kstore::Real>(
        &self,
        x: &[V],
        out: &mut [f64],
        buffer: &mut [T],
        scratch: &mut PredictScratch<T>,
    ) -> Result<()> {
        let (d, (_, inside, t)) = (self.scaler.features(), self.model.dims());
        let n = self.rows(x, out)?;
        if buffer.len() != self.buffer(1) {
            return Err(Error::Shape { what: "numbers of the scratch", expected: self.buffer(1), got: buffer.len() });
        }
        for i in 0..n {
            let row = self.seen(&x[i * d..(i + 1) * d], i, buffer)?;
            let view = MatMut::from_row_major_slice_mut(&mut out[i * t..(i + 1) * t], 1, t);
            self.model.predict_with(&*self.functions, MatRef::from_row_major_slice(row, 1, inside), view, scratch)?;
        }
        self.check(0, out)
    }

    fn check(&self, first: usize, out: &[f64]) -> Result<()> {
        let t = self.model.dims().2;
        match out.iter().position(|value| !value.is_finite()) {
            Some(at) => Err(self.bad(first + at / t, "the prediction", out[at])),
            None => Ok(()),
        }
    }
}
