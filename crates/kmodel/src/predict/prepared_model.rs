//! A model of one precision, applied to slices of rows.

use super::{AnyPreparedModel, Predictor};
use crate::model::{BasisFunctions, PredictScratch, clip_rows, match_precision, round_to_f32};
use crate::{Classes, Error, Model, Result};
use faer::{MatMut, MatRef};
use kapprox::Real;
use kstore::budget::MemoryTerm;
use kstore::{Encoding, Table, Workers};
use std::sync::Arc;

/// Number of rows that are scaled and scored together.
pub(super) const PREDICT_TILE_ROWS: usize = 1024;

/// A model with its basis functions.
#[derive(Debug)]
pub(super) struct PreparedModel<T: Real> {
    pub(super) model: Model<T>,
    pub(super) basis_functions: BasisFunctions<T>,
    pub(super) classes: Option<Classes>,
    /// Scaled training range of each feature, if rows are clipped to it.
    pub(super) ranges: Option<Vec<[T; 2]>>,
    /// Column that is added to predicted changes.
    pub(super) base_column: Option<String>,
}

/// A warning counts only values that are outside their range by more than this fraction of its
/// width, because some new rows are always slightly outside.
const FAR_OUTSIDE_FRACTION: f64 = 0.1;

pub(super) fn is_far_outside<T: Real>(value: T, [min, max]: [T; 2]) -> bool {
    let margin = (max - min) * T::from_f64(FAR_OUTSIDE_FRACTION);
    value < min - margin || value > max + margin
}

/// Scaled rows, and the same rows after the metric.
#[derive(Clone, Debug, Default)]
pub(super) struct InputBuffers<T> {
    pub(super) scaled_rows: Vec<T>,
    pub(super) after_metric: Vec<T>,
}

/// Buffers for the prediction of one row.
#[derive(Clone, Debug)]
pub(super) struct RowBuffers<T> {
    inputs: InputBuffers<T>,
    predict_scratch: PredictScratch<T>,
}

impl<T: Real> PreparedModel<T> {
    pub(super) fn new(model: Model<T>) -> Result<Self> {
        let functions = model.functions()?;
        let metadata = &model.metadata;
        let classes = (!metadata.classes.is_empty()).then(|| Classes::new(metadata.classes.clone())).transpose()?;
        let classes = if metadata.one_vs_one { classes.map(Classes::one_vs_one) } else { classes };
        let base_column = metadata.base_column();
        Ok(Self { basis_functions: functions, classes, ranges: model.scaled_ranges(), base_column, model })
    }

    /// Returns the plan term of the loaded model plus `extra_bytes` bytes. The basis functions
    /// store a second copy of the landmarks.
    pub(super) fn plan_term(&self, extra_bytes: usize) -> MemoryTerm {
        let bytes = self.model.bytes() + self.basis_functions.bytes();
        MemoryTerm::new("model", bytes + extra_bytes, "fit a model of lower `rank`")
    }

    pub(super) fn scratch_bytes(&self) -> usize {
        let metric_inputs = self.model.metric.as_ref().map_or(0, |metric| metric.input_count());
        PREDICT_TILE_ROWS * size_of::<T>() * (self.model.dims().1 + 2 * metric_inputs) + self.model.scratch_bytes(1)
    }

    pub(super) fn scratch(&self) -> RowBuffers<T> {
        let (d, basis_inputs) = (self.model.scaler.input_count(), self.model.row_length());
        let inputs = InputBuffers { scaled_rows: Vec::with_capacity(d), after_metric: vec![T::ZERO; basis_inputs] };
        RowBuffers { inputs, predict_scratch: PredictScratch::new(&self.basis_functions) }
    }

    /// Returns the inputs of the basis for scaled rows `x`: transformed by the metric, if any, and
    /// rounded as in the fit; or the rows themselves, if the basis applies the metric.
    pub(super) fn basis_rows<'b>(&self, x: &'b [T], after_metric: &'b mut Vec<T>) -> &'b [T] {
        let Some(metric) = self.model.metric.as_ref().filter(|_| !self.basis_clips()) else { return x };
        after_metric.resize(x.len() / metric.input_count() * metric.output_count(), T::ZERO);
        metric.apply(x, after_metric);
        self.round_as_in_fit(after_metric);
        after_metric
    }

    /// Returns true if the basis clips the rows and applies the metric, because leaves with their
    /// own kernel see the rows before both.
    fn basis_clips(&self) -> bool {
        self.model.metadata.leaf_kernel.is_some()
    }

    /// Rounds scaled rows as in the fit, and clips them to the ranges of the model, unless the
    /// basis does. Before a row is clipped, calls `on_outside` with the row and the ranges.
    pub(super) fn round_and_clip(&self, rows: &mut [T], on_outside: impl FnMut(&[T], &[[T; 2]])) {
        self.round_as_in_fit(rows);
        if self.basis_clips() {
            clip_rows(&mut rows.to_vec(), self.ranges.as_deref(), on_outside);
        } else {
            clip_rows(rows, self.ranges.as_deref(), on_outside);
        }
    }

    fn round_as_in_fit(&self, values: &mut [T]) {
        if self.model.rounds_to_f32() {
            values.iter_mut().for_each(|value| *value = T::from_f64(round_to_f32(value.to_f64())));
        }
    }

    /// Writes the rows of `x` to `out`, scaled, rounded and clipped. `first_row` is the number of
    /// the first of these rows in error messages.
    pub(super) fn scale_rows<V: kstore::Float>(&self, x: &[V], first_row: usize, out: &mut Vec<T>) -> Result<()> {
        out.clear();
        for (row, values) in x.chunks_exact(self.model.scaler.input_count()).enumerate() {
            for (j, value) in values.iter().enumerate() {
                let value = value.to_f64();
                if !value.is_finite() {
                    return Err(self.not_finite_error(first_row + row, &self.model.metadata.features[j], value));
                }
                out.push(T::from_f64(self.model.scaler.apply(j, value)));
            }
        }
        self.round_and_clip(out, |_, _| {});
        Ok(())
    }

    #[cold]
    fn not_finite_error(&self, row: usize, what: &str, value: f64) -> Error {
        Error::NotFiniteRow { row: row as u64, what: what.to_string(), value }
    }

    fn check_lengths<V>(&self, x: &[V], out: &[f64]) -> Result<()> {
        let (d, t) = (self.model.scaler.input_count(), self.model.dims().2);
        let n = x.len() / d.max(1);
        match (n * d == x.len(), n * t == out.len()) {
            (false, _) => Err(Error::Shape { what: "numbers of whole rows", expected: (n + 1) * d, got: x.len() }),
            (_, false) => Err(Error::Shape { what: "numbers of the predictions", expected: n * t, got: out.len() }),
            _ => Ok(()),
        }
    }

    pub(super) fn predict<V: kstore::Float>(&self, x: &[V], out: &mut [f64]) -> Result<()> {
        let score = |x: MatRef<'_, T>, out: MatMut<'_, f64>| {
            self.model.predict(&self.basis_functions, x, out, &Workers::sequential())
        };
        self.predict_tiles(x, out, PREDICT_TILE_ROWS, &mut InputBuffers::default(), score)
    }

    /// Writes the scores of rows that are already scaled, rounded and clipped.
    pub(super) fn score_scaled_rows(&self, x: &[T], out: &mut [f64]) -> Result<()> {
        let (d, t) = (self.model.scaler.input_count().max(1), self.model.dims().2.max(1));
        let mut after_metric = Vec::new();
        for (x, out) in x.chunks(PREDICT_TILE_ROWS * d).zip(out.chunks_mut(PREDICT_TILE_ROWS * t)) {
            let inputs = MatRef::from_row_major_slice(
                self.basis_rows(x, &mut after_metric),
                x.len() / d,
                self.model.row_length(),
            );
            let scores = MatMut::from_row_major_slice_mut(out, x.len() / d, t);
            self.model.predict(&self.basis_functions, inputs, scores, &Workers::sequential())?;
            if let Some(index) = out.iter().position(|value| !value.is_finite()) {
                return Err(self.not_finite_error(index / t, "the prediction", out[index]));
            }
        }
        Ok(())
    }

    pub(super) fn predict_row<V: kstore::Float>(
        &self,
        x: &[V],
        out: &mut [f64],
        buffers: &mut RowBuffers<T>,
    ) -> Result<()> {
        let RowBuffers { inputs, predict_scratch: predict } = buffers;
        self.predict_tiles(x, out, 1, inputs, |x, out| {
            self.model.predict_with_scratch(&self.basis_functions, x, out, predict)
        })
    }

    /// Calls `visitor(inputs, first_row)` for `tile_rows` rows of `x` at a time: `inputs` are the
    /// inputs of the basis for these rows, and `first_row` is the position of the first of them in
    /// `x`.
    pub(super) fn for_each_tile<V: kstore::Float>(
        &self,
        x: &[V],
        tile_rows: usize,
        InputBuffers { scaled_rows: scaled, after_metric }: &mut InputBuffers<T>,
        mut visitor: impl FnMut(MatRef<'_, T>, usize) -> Result<()>,
    ) -> Result<()> {
        let (d, basis_inputs) = (self.model.scaler.input_count(), self.model.row_length());
        for (i, x) in x.chunks(tile_rows * d.max(1)).enumerate() {
            self.scale_rows(x, i * tile_rows, scaled)?;
            visitor(
                MatRef::from_row_major_slice(self.basis_rows(scaled, after_metric), x.len() / d, basis_inputs),
                i * tile_rows,
            )?;
        }
        Ok(())
    }

    /// Predicts the rows of `x` tile by tile. `score` is called with the inputs of the basis for a
    /// tile, and writes the scores of these rows.
    fn predict_tiles<V: kstore::Float>(
        &self,
        x: &[V],
        out: &mut [f64],
        tile_rows: usize,
        buffers: &mut InputBuffers<T>,
        mut score: impl FnMut(MatRef<'_, T>, MatMut<'_, f64>) -> Result<()>,
    ) -> Result<()> {
        let t = self.model.dims().2;
        self.check_lengths(x, out)?;
        self.for_each_tile(x, tile_rows, buffers, |tile_inputs, first_row| {
            let out = &mut out[first_row * t..(first_row + tile_inputs.nrows()) * t];
            score(tile_inputs, MatMut::from_row_major_slice_mut(out, tile_inputs.nrows(), t))?;
            match out.iter().position(|value| !value.is_finite()) {
                Some(index) => Err(self.not_finite_error(first_row + index / t, "the prediction", out[index])),
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
    pub fn with_capacity_for(self, table: &Table) -> Result<Self> {
        let Some((encoding, fitted_shape)) = self.metadata().encoding.as_ref().zip(self.metadata().sparse_shape())
        else {
            return Ok(self);
        };
        let shapes = table.entry_shapes(encoding)?;
        let enlarged_encoding = Encoding::clone(encoding).with_capacity_for(&shapes);
        if enlarged_encoding.sparse_shape().is_none_or(|shape| shape.max_row_entries <= fitted_shape.max_row_entries) {
            return Ok(self);
        }
        let prepared_model = match_precision!(AnyPreparedModel to AnyPreparedModel: &self.model, prepared => Arc::new(PreparedModel::new(prepared.model.clone().with_sparse_shapes(&shapes))?));
        Ok(Self { model: prepared_model, ..self })
    }
}
