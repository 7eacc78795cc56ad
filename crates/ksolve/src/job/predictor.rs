//! Predictions of a model for rows in memory, in the units of its training table.

use crate::model::PredictScratch;
use crate::{AnyModel, Card, Classes, Error, Model, Result};
use faer::{MatMut, MatRef};
use kapprox::{FeatureMap, Real};
use kstore::{Label, Scaler, Workers};
use std::path::Path;
use std::sync::Arc;

/// Rows that are scaled and scored at once.
const TILE: usize = 1024;

/// A model that predicts, whatever its precision; clones share it, and threads may use it at the same time.
///
/// Rows are given as they stand in a table, unscaled, in the order of [`Card::features`]. A row's prediction has the same bits
/// alone, in a batch, and in a table that the command predicts.
///
/// ```
/// use ksolve::job::{Fit, Predictor, Run};
/// # let x: Vec<f64> = (0..200).map(|i| f64::from(i) / 20.0).collect();
/// # let y: Vec<f64> = x.iter().map(|x| x.sin()).collect();
/// let table = kstore::Table::from_rows(&x, 1, &y)?;
/// let fitted = Fit::ridge().rank(50).on(&table, &["y"], &Run::new())?;
/// let predictor = Predictor::new(fitted.model)?;
/// let mut out = [0.0];
/// predictor.predict(&[1.5], &mut out)?;
/// assert!((out[0] - 1.5f64.sin()).abs() < 0.01);
/// # Ok::<(), ksolve::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Predictor(Inner);

#[derive(Clone, Debug)]
enum Inner {
    F32(Arc<Typed<f32>>),
    F64(Arc<Typed<f64>>),
}

#[derive(Debug)]
struct Typed<T: Real> {
    model: Model<T>,
    functions: Box<dyn FeatureMap<T>>,
    scaler: Scaler,
    classes: Option<Classes>,
}

/// Buffers for [`Predictor::predict_with`], made once for a predictor and used for many rows.
#[derive(Clone, Debug)]
pub struct RowScratch(Buffers);

#[derive(Clone, Debug)]
enum Buffers {
    F32(Vec<f32>, PredictScratch<f32>),
    F64(Vec<f64>, PredictScratch<f64>),
}

impl Predictor {
    /// Makes a predictor of a model.
    ///
    /// # Errors
    /// A kernel or a map that this version does not know.
    pub fn new(model: AnyModel) -> Result<Self> {
        Ok(Self(match model {
            AnyModel::F32(model) => Inner::F32(Arc::new(Typed::new(model)?)),
            AnyModel::F64(model) => Inner::F64(Arc::new(Typed::new(model)?)),
        }))
    }

    /// Reads a model from a file.
    ///
    /// # Errors
    /// The errors of [`AnyModel::load`] and [`Predictor::new`].
    pub fn load(path: &Path) -> Result<Self> {
        Self::new(AnyModel::load(path)?)
    }

    /// Reads a model from the bytes of its file.
    ///
    /// # Errors
    /// The errors of [`AnyModel::from_bytes`] and [`Predictor::new`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::new(AnyModel::from_bytes(bytes)?)
    }

    /// The bytes of the model's file.
    ///
    /// # Errors
    /// The errors of [`Model::to_bytes`].
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        match &self.0 {
            Inner::F32(typed) => typed.model.to_bytes(),
            Inner::F64(typed) => typed.model.to_bytes(),
        }
    }

    /// The card of the model: its options, names and classes.
    pub fn card(&self) -> &Card {
        match &self.0 {
            Inner::F32(typed) => &typed.model.card,
            Inner::F64(typed) => &typed.model.card,
        }
    }

    /// Number of features of a row, d.
    pub fn features(&self) -> usize {
        self.card().features.len()
    }

    /// Number of outputs of a row, t: targets, scores of classes or pairs, components, groups.
    pub fn outputs(&self) -> usize {
        match &self.0 {
            Inner::F32(typed) => typed.model.dims().2,
            Inner::F64(typed) => typed.model.dims().2,
        }
    }

    /// Makes buffers for [`Predictor::predict_with`].
    pub fn scratch(&self) -> RowScratch {
        let d = self.features();
        RowScratch(match &self.0 {
            Inner::F32(typed) => Buffers::F32(vec![0.0; d], PredictScratch::new(&*typed.functions)),
            Inner::F64(typed) => Buffers::F64(vec![0.0; d], PredictScratch::new(&*typed.functions)),
        })
    }

    /// Writes the scores of the rows of `x` (n x d, row-major) to `out` (n x t, row-major).
    ///
    /// # Errors
    /// [`Error::Shape`] for slices of other lengths; [`Error::Row`] for a value that is not finite, and for a prediction that is
    /// not.
    pub fn predict<V: kstore::Real>(&self, x: &[V], out: &mut [f64]) -> Result<()> {
        match &self.0 {
            Inner::F32(typed) => typed.predict(x, out),
            Inner::F64(typed) => typed.predict(x, out),
        }
    }

    /// Writes the scores of one row `x` (d numbers) to `out` (t numbers), without allocation where the model has
    /// landmarks: 3 to 5 µs at 1,000 landmarks of 10 features.
    ///
    /// # Errors
    /// The errors of [`Predictor::predict`], and [`Error::Shape`] for the scratch of another predictor.
    pub fn predict_with<V: kstore::Real>(&self, x: &[V], out: &mut [f64], scratch: &mut RowScratch) -> Result<()> {
        match (&self.0, &mut scratch.0) {
            (Inner::F32(typed), Buffers::F32(row, scratch)) => typed.predict_row(x, out, row, scratch),
            (Inner::F64(typed), Buffers::F64(row, scratch)) => typed.predict_row(x, out, row, scratch),
            _ => Err(Error::Shape { what: "bytes of an element of the scratch", expected: 4, got: 8 }),
        }
    }

    /// The predicted label of a row with these scores; `None` for models without classes.
    pub fn label(&self, scores: &[f64]) -> Option<&Label> {
        let classes = match &self.0 {
            Inner::F32(typed) => typed.classes.as_ref(),
            Inner::F64(typed) => typed.classes.as_ref(),
        };
        classes.and_then(|classes| classes.labels().get(classes.decide(scores.iter().copied())))
    }

    /// Writes the probabilities of the classes of a row with these scores to `out`, in the order of [`Card::classes`];
    /// nothing for models without probabilities.
    pub fn probabilities(&self, scores: &[f64], out: &mut Vec<f64>) {
        out.clear();
        if let Some(link) = &self.card().link {
            link.probabilities(scores, out);
        }
    }
}

impl<T: Real> Typed<T> {
    fn new(model: Model<T>) -> Result<Self> {
        let functions = model.functions()?;
        let Model { centre, scale, mean, card, .. } = &model;
        let scaler = Scaler { centre: centre.clone(), scale: scale.clone(), mean: mean.clone() };
        let classes = (!card.classes.is_empty()).then(|| Classes::new(card.classes.clone())).transpose()?;
        let classes = if card.pairs { classes.map(Classes::in_pairs) } else { classes };
        Ok(Self { functions, scaler, classes, model })
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
                *to = T::from_f64(if narrow { f64::from((scaled as f32).clamp(f32::MIN, f32::MAX)) } else { scaled });
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
        let (_, d, t) = self.model.dims();
        let n = x.len() / d.max(1);
        match (n * d == x.len(), n * t == out.len()) {
            (false, _) => Err(Error::Shape { what: "numbers of whole rows", expected: (n + 1) * d, got: x.len() }),
            (_, false) => Err(Error::Shape { what: "numbers of the predictions", expected: n * t, got: out.len() }),
            _ => Ok(n),
        }
    }

    fn predict<V: kstore::Real>(&self, x: &[V], out: &mut [f64]) -> Result<()> {
        let (_, d, t) = self.model.dims();
        let n = self.rows(x, out)?;
        let mut tile = vec![T::ZERO; TILE.min(n) * d];
        for first in (0..n).step_by(TILE) {
            let rows = TILE.min(n - first);
            let (tile, out) = (&mut tile[..rows * d], &mut out[first * t..(first + rows) * t]);
            self.scaled(&x[first * d..(first + rows) * d], first, tile)?;
            let view = MatMut::from_row_major_slice_mut(out, rows, t);
            let tile = MatRef::from_row_major_slice(tile, rows, d);
            self.model.predict(&*self.functions, tile, view, &Workers::sequential())?;
            self.check(first, out)?;
        }
        Ok(())
    }

    fn predict_row<V: kstore::Real>(
        &self,
        x: &[V],
        out: &mut [f64],
        row: &mut [T],
        scratch: &mut PredictScratch<T>,
    ) -> Result<()> {
        let (_, d, t) = self.model.dims();
        let n = self.rows(x, out)?;
        if row.len() != d {
            return Err(Error::Shape { what: "features of the scratch", expected: d, got: row.len() });
        }
        for i in 0..n {
            self.scaled(&x[i * d..(i + 1) * d], i, row)?;
            let view = MatMut::from_row_major_slice_mut(&mut out[i * t..(i + 1) * t], 1, t);
            self.model.predict_with(&*self.functions, MatRef::from_row_major_slice(row, 1, d), view, scratch)?;
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
