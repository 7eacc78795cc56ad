//! The model file: safetensors with one metadata entry, `kmill`.
//!
//! | tensor | type | shape |
//! |---|---|---|
//! | `landmarks` | F32 or F64 | m x d, for a basis of landmarks; N x d for N nodes of a graph |
//! | `landmark_rows` | U64 | m, for a basis of landmarks; N for nodes |
//! | `probe` | F64 | m, for a basis of features |
//! | `coefficients` | F64 | m x t |
//! | `intercept` | F64 | t |
//! | `scaler.centre`, `scaler.scale`, `scaler.mean` | F64 | d |
//! | `scaler.knots` | F64 | 65 d, with scaling by quantiles |
//! | `metric` | F64 | d for a diagonal, else r x d; where the model has one. Landmarks have r features then |
//! | `degree.coefficients`, `degree.floor` | F64 | m and 1, where functions are over a degree ([`Form`]) |
//! | `neighbours` | U64 | 1, for functions of nearest nodes |
//! | `paths` | F64 | m x N, for functions of paths |
//! | `leaves.splits` | F64 | m x (L − 1), of a model with machines in L leaves ([`Leaves`]) |
//! | `leaves.constants`, `leaves.widths` | F64 | L − 1 each |
//! | `leaves.counts` | U64 | L |
//! | `leaves.points` | as the landmarks | the sum of the counts x d |
//! | `leaves.coefficients` | F64 | the sum of the counts x t |
//! | `quadratic.factor` | F64 | m x q, where the model has variances or distances ([`Quadratic`]) |
//! | `quadratic.shift` | F64 | q |
//! | `quadratic.features` | F64 | m x r, for projections |
//! | `quadratic.units` | F64 | t, or 1 for components |
//! | `quadratic.scalars` | F64 | 2: residual and constant; 3 of a model that learned on line: the degrees of freedom |
//! | `components.coefficients`, `components.intercept` | F64 | m x q and q, where the model has coordinates beside its predictions |
//!
//! The entry holds the [`Card`] and `format_version` as JSON with sorted keys. One entry, because safetensors writes
//! several in random order; with that, the same model is the same bytes.

use super::{Basis, Card, Form, Leaves, Model};
use crate::{Error, Head, Quadratic, Result};
use faer::{Mat, MatRef};
use kapprox::Real;
use kstore::sparse::{SparseShape, entries};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::Value;
use std::io::{Result as Written, Write};
use std::{borrow::Cow, collections::HashMap, path::Path};

pub(super) const FORMAT_VERSION: u64 = 1;

/// First kmill that reads [`FORMAT_VERSION`]; stands in the file, so that an older kmill can name it.
const NEEDS_KMILL: &str = "0.1.0";

pub(super) const KEY: &str = "kmill";

pub(super) enum Tensor<'a, T: Real> {
    /// Points, row-major, or values of entries of sparse ones, and their shape.
    Points(Cow<'a, [T]>, Vec<usize>),
    Numbers(Cow<'a, [f64]>),
    /// Written row by row.
    Matrix(Cow<'a, Mat<f64>>),
    Counts(Cow<'a, [u64]>),
}

impl<'a, T: Real> Tensor<'a, T> {
    fn numbers(numbers: &'a [f64]) -> Self {
        Self::Numbers(numbers.into())
    }

    fn points(points: &'a [T], d: usize) -> Self {
        Self::Points(points.into(), vec![points.len() / d.max(1), d])
    }

    fn matrix(matrix: &'a Mat<f64>) -> Self {
        Self::Matrix(Cow::Borrowed(matrix))
    }

    fn dtype(&self) -> Dtype {
        match self {
            Self::Points(..) => dtype::<T>(),
            Self::Numbers(_) | Self::Matrix(_) => Dtype::F64,
            Self::Counts(_) => Dtype::U64,
        }
    }

    fn shape(&self) -> Vec<usize> {
        match self {
            Self::Points(_, shape) => shape.clone(),
            Self::Numbers(values) => vec![values.len()],
            Self::Matrix(matrix) => vec![matrix.nrows(), matrix.ncols()],
            Self::Counts(values) => vec![values.len()],
        }
    }

    fn is_finite(&self) -> bool {
        match self {
            Self::Points(values, _) => values.iter().all(|v| v.to_f64().is_finite()),
            Self::Numbers(values) => values.iter().all(|v| v.is_finite()),
            Self::Matrix(matrix) => matrix.is_all_finite(),
            Self::Counts(_) => true,
        }
    }

    fn write(&self, out: &mut impl Write) -> Written<()> {
        match self {
            Self::Points(values, _) => write_reals(values, out),
            Self::Numbers(values) => write_reals(values, out),
            Self::Matrix(matrix) => {
                matrix.row_iter().try_for_each(|row| row.iter().try_for_each(|v| out.write_all(&v.to_le_bytes())))
            }
            Self::Counts(values) => values.iter().try_for_each(|v| out.write_all(&v.to_le_bytes())),
        }
    }
}

/// Writes numbers in their own type.
fn write_reals<V: kstore::Real>(values: &[V], out: &mut impl Write) -> Written<()> {
    match V::NAME {
        "f32" => values.iter().try_for_each(|v| out.write_all(&(v.to_f64() as f32).to_le_bytes())),
        _ => values.iter().try_for_each(|v| out.write_all(&v.to_f64().to_le_bytes())),
    }
}

/// The entries of sparse points, as a compressed sparse row matrix has them.
fn entries_of<'a, T: Real>(points: &[T], shape: SparseShape) -> [(&'static str, Tensor<'a, T>); 3] {
    let (mut starts, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for point in points.chunks_exact(shape.numbers()) {
        let (places, of_places) = entries(point);
        indices.extend(places.iter().map(|place| place.to_f64() as u64));
        values.extend_from_slice(of_places);
        starts.push(indices.len() as u64);
    }
    let count = indices.len();
    [
        ("landmarks.indices", Tensor::Counts(indices.into())),
        ("landmarks.indptr", Tensor::Counts(starts.into())),
        ("landmarks.values", Tensor::Points(values.into(), vec![count])),
    ]
}

/// A number of a tensor in messages.
fn told(tensor: &str) -> &'static str {
    match tensor.split('.').next() {
        Some("landmarks" | "probe") => "a function of the basis",
        Some("coefficients") => "a coefficient of the model",
        Some("degree" | "paths") => "a degree or path of the model",
        Some("intercept") => "the intercept of the model",
        Some("scaler") => "the scaler of the model",
        Some("quadratic") => "a variance or distance of the model",
        Some("components") => "a component of the model",
        _ => "the metric of the model",
    }
}

pub(super) fn dtype<T: Real>() -> Dtype {
    if T::NAME == "f32" { Dtype::F32 } else { Dtype::F64 }
}

impl<T: Real> Model<T> {
    /// Writes the model, whole or not at all: into a sibling file that takes the name once it is safe on disk.
    ///
    /// Numbers are converted piece by piece, so memory does not double.
    ///
    /// # Errors
    /// [`Error::NotFinite`] before anything is written; [`kstore::Error::Io`].
    pub fn save(&self, path: &Path) -> Result<()> {
        let tensors = self.sound_tensors()?;
        let header = self.header(&tensors)?;
        let mut out = kstore::AtomicFile::create(path)?;
        write_all(&mut out, &header, &tensors).map_err(kstore::Error::io("write", path))?;
        Ok(out.commit()?)
    }

    /// The bytes of the model's file.
    ///
    /// # Errors
    /// [`Error::NotFinite`].
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let tensors = self.sound_tensors()?;
        let mut bytes = Vec::new();
        let header = self.header(&tensors)?;
        write_all(&mut bytes, &header, &tensors).map_err(kstore::Error::io("write", "the model in memory"))?;
        Ok(bytes)
    }

    /// The tensors, all of whose numbers are finite, in the order of the file: widest type first, as safetensors wants, then by name.
    fn sound_tensors(&self) -> Result<Vec<(&'static str, Tensor<'_, T>)>> {
        let mut tensors = self.tensors();
        let finite = |values: &[f64]| values.iter().all(|v| v.is_finite());
        let mut wrong = tensors.iter().find(|(_, tensor)| !tensor.is_finite()).map(|(name, _)| told(name));
        if !self.card.lambda.is_none_or(f64::is_finite) {
            wrong = wrong.or(Some("lambda"));
        }
        if !self.card.certificate.is_none_or(|c| finite(&[c.trace_error, c.overshoot, c.floor])) {
            wrong = wrong.or(Some("the certificate"));
        }
        if let Some(what) = wrong {
            return Err(Error::NotFinite { what, remedy: "raise `lambda` or use `precision` f64" });
        }
        tensors.sort_by(|a, b| b.1.dtype().cmp(&a.1.dtype()).then(a.0.cmp(b.0)));
        Ok(tensors)
    }

    /// What [`super::load`] reads.
    fn tensors(&self) -> Vec<(&'static str, Tensor<'_, T>)> {
        let mut tensors = vec![
            ("coefficients", Tensor::matrix(&self.coefficients)),
            ("intercept", Tensor::numbers(&self.intercept)),
            ("scaler.centre", Tensor::numbers(&self.scaler.centre)),
            ("scaler.mean", Tensor::numbers(&self.scaler.mean)),
            ("scaler.scale", Tensor::numbers(&self.scaler.scale)),
        ];
        if !self.scaler.knots.is_empty() {
            tensors.push(("scaler.knots", Tensor::numbers(&self.scaler.knots)));
        }
        match &self.basis {
            Basis::Landmarks { points, rows } => {
                tensors.push(("landmark_rows", Tensor::Counts(rows.into())));
                match self.card.sparse() {
                    Some(shape) => tensors.extend(entries_of(points, shape)),
                    None => tensors.push(("landmarks", Tensor::points(points, self.dims().1))),
                }
            }
            Basis::Features { probe } => tensors.push(("probe", Tensor::numbers(probe))),
        }
        tensors.extend(self.metric.as_ref().map(|metric| {
            let (numbers, r, d) = (metric.numbers(), metric.outputs(), metric.inputs());
            let matrix = || MatRef::from_row_major_slice(&numbers, r, d).to_owned();
            (
                "metric",
                match metric.is_diagonal() {
                    false => Tensor::Matrix(Cow::Owned(matrix())),
                    true => Tensor::Numbers(numbers.into()),
                },
            )
        }));
        let count = |k: &usize| ("neighbours", Tensor::Counts(vec![*k as u64].into()));
        match &self.form {
            Form::Plain => {}
            Form::OverDegree { coefficients, floor } => tensors.extend([
                ("degree.coefficients", Tensor::numbers(coefficients)),
                ("degree.floor", Tensor::numbers(std::slice::from_ref(floor))),
            ]),
            Form::Weights { neighbours } => tensors.push(count(neighbours)),
            Form::Paths { neighbours, lengths } => {
                tensors.extend([count(neighbours), ("paths", Tensor::matrix(lengths))]);
            }
        }
        if let Some(Quadratic { factor, shift, features, constant, residual, units, freedom }) = &self.quadratic {
            tensors.extend([
                ("quadratic.factor", Tensor::matrix(factor)),
                ("quadratic.shift", Tensor::numbers(shift)),
                ("quadratic.units", Tensor::numbers(units)),
                ("quadratic.scalars", Tensor::Numbers([*residual, *constant].into_iter().chain(*freedom).collect())),
            ]);
            tensors.extend(features.as_ref().map(|features| ("quadratic.features", Tensor::matrix(features))));
        }
        if let Some(Head { weights, intercept }) = &self.components {
            tensors.extend([
                ("components.coefficients", Tensor::matrix(weights)),
                ("components.intercept", Tensor::numbers(intercept)),
            ]);
        }
        if let Some(Leaves { splits, widths, counts, points, coefficients }) = &self.leaves {
            let counts = counts.iter().map(|count| *count as u64).collect();
            tensors.extend([
                ("leaves.splits", Tensor::matrix(&splits.weights)),
                ("leaves.constants", Tensor::numbers(&splits.intercept)),
                ("leaves.widths", Tensor::numbers(widths)),
                ("leaves.counts", Tensor::Counts(Cow::Owned(counts))),
                ("leaves.points", Tensor::points(points, self.dims().1)),
                ("leaves.coefficients", Tensor::matrix(coefficients)),
            ]);
        }
        tensors
    }

    fn header(&self, tensors: &[(&'static str, Tensor<'_, T>)]) -> Result<Vec<u8>> {
        let mut offset = 0;
        let infos = tensors.iter().map(|(name, tensor)| {
            let (dtype, shape) = (tensor.dtype(), tensor.shape());
            let bytes = shape.iter().product::<usize>() * dtype.bitsize() / 8;
            let data_offsets = (offset, offset + bytes);
            offset += bytes;
            (name.to_string(), TensorInfo { dtype, shape, data_offsets })
        });
        let infos = infos.collect();
        let damaged = |detail: String| Error::Damaged { path: "the model to write".into(), detail };
        let card = card_json(&self.card).map_err(|e| damaged(e.to_string()))?;
        let metadata = Metadata::new(Some(HashMap::from([(KEY.to_string(), card)])), infos);
        let metadata = metadata.map_err(|e| damaged(e.to_string()))?;
        let mut json = serde_json::to_vec(&metadata).map_err(|e| damaged(e.to_string()))?;
        json.resize(json.len().next_multiple_of(8), b' ');
        Ok([&(json.len() as u64).to_le_bytes()[..], &json].concat())
    }
}

/// The card as JSON with sorted keys, `format_version` and the kmill it needs among them.
fn card_json(card: &Card) -> serde_json::Result<String> {
    let mut value = serde_json::to_value(card)?;
    if let Value::Object(map) = &mut value {
        map.insert("format_version".to_string(), FORMAT_VERSION.into());
        map.insert("needs_kmill".to_string(), NEEDS_KMILL.into());
    }
    serde_json::to_string(&sorted(value))
}

/// The JSON value with the keys of every object sorted, whatever map type serde_json was built with.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(String, Value)> = map.into_iter().collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().map(|(key, value)| (key, sorted(value))).collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(sorted).collect()),
        other => other,
    }
}

fn write_all<T: Real>(out: &mut impl Write, header: &[u8], tensors: &[(&'static str, Tensor<'_, T>)]) -> Written<()> {
    out.write_all(header)?;
    tensors.iter().try_for_each(|(_, tensor)| tensor.write(out))
}
