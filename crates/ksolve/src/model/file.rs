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
//! | `metric` | F64 | d for a diagonal, else r x d; where the model has one. Landmarks have r features then |
//! | `degree.coefficients`, `degree.floor` | F64 | m and 1, where functions are over a degree ([`Form`]) |
//! | `neighbours` | U64 | 1, for functions of nearest nodes |
//! | `paths` | F64 | m x N, for functions of paths |
//! | `quadratic.factor` | F64 | m x q, where the model has variances or distances ([`Quadratic`]) |
//! | `quadratic.shift` | F64 | q |
//! | `quadratic.features` | F64 | m x r, for projections |
//! | `quadratic.units` | F64 | t, or 1 for components |
//! | `quadratic.scalars` | F64 | 2: residual and constant |
//! | `components.coefficients`, `components.intercept` | F64 | m x q and q, where the model has coordinates beside its predictions |
//!
//! The entry holds the [`Card`] and `format_version` as JSON with sorted keys. One entry, because safetensors writes
//! several in random order; with that, the same model is the same bytes.

use super::{Basis, Card, Form, Model};
use crate::{Error, Head, Quadratic, Result};
use faer::Mat;
use kapprox::Real;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::Value;
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

/// Format written by this version.
pub const FORMAT_VERSION: u64 = 1;

/// First kmill that reads [`FORMAT_VERSION`]; stands in the file, so that an older kmill can name it.
pub const NEEDS_KMILL: &str = "0.1.0";

/// Name of the metadata entry.
pub(super) const KEY: &str = "kmill";

/// The numbers of a tensor to be written.
enum Data<'a, T> {
    Real(&'a [T]),
    Wide(Vec<f64>),
    /// Written row by row.
    Matrix(&'a Mat<f64>),
    Rows(&'a [u64]),
    Counts(Vec<u64>),
}

impl<T: Real> Model<T> {
    /// Writes the model, whole or not at all: into a sibling file that takes the name once it is safe on disk.
    ///
    /// Numbers are converted piece by piece, so memory does not double.
    ///
    /// # Errors
    /// [`Error::NotFinite`] before anything is written; [`kstore::Error::Io`].
    pub fn save(&self, path: &Path) -> Result<()> {
        self.check_finite()?;
        let tensors = self.tensors();
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
        self.check_finite()?;
        let tensors = self.tensors();
        let mut bytes = Vec::new();
        let header = self.header(&tensors)?;
        write_all(&mut bytes, &header, &tensors).map_err(kstore::Error::io("write", "the model in memory"))?;
        Ok(bytes)
    }

    fn check_finite(&self) -> Result<()> {
        let remedy = "raise `lambda` or use `precision` f64";
        let finite = |values: &[f64]| values.iter().all(|v| v.is_finite());
        let (_, _, t) = self.dims();
        let coefficients = (0..t).all(|j| finite(self.coefficients.col_as_slice(j)));
        let parts = [
            (
                "a function of the basis",
                match &self.basis {
                    Basis::Landmarks { points, .. } => points.iter().all(|v| v.to_f64().is_finite()),
                    Basis::Features { probe } => finite(probe),
                },
            ),
            ("a coefficient of the model", coefficients),
            ("a degree or path of the model", self.form.is_finite()),
            ("the intercept of the model", finite(&self.intercept)),
            ("the scaler of the model", finite(&self.centre) && finite(&self.scale) && finite(&self.mean)),
            ("a variance or distance of the model", self.quadratic.as_ref().is_none_or(Quadratic::is_finite)),
            ("a component of the model", self.components.as_ref().is_none_or(|head| head.is_finite())),
            ("lambda", self.card.lambda.is_none_or(f64::is_finite)),
            ("the certificate", self.card.certificate.is_none_or(|c| finite(&[c.trace_error, c.overshoot, c.floor]))),
        ];
        match parts.into_iter().find(|(_, finite)| !finite) {
            Some((what, _)) => Err(Error::NotFinite { what, remedy }),
            None => Ok(()),
        }
    }

    /// The tensors in the order of the file: widest type first, as safetensors wants, then by name.
    fn tensors(&self) -> Vec<(&'static str, Dtype, Vec<usize>, Data<'_, T>)> {
        let (m, features, t) = self.dims();
        let d = self.centre.len();
        let mut tensors = vec![
            ("coefficients", Dtype::F64, vec![m, t], Data::Matrix(&self.coefficients)),
            ("intercept", Dtype::F64, vec![t], Data::Wide(self.intercept.clone())),
            ("scaler.centre", Dtype::F64, vec![d], Data::Wide(self.centre.clone())),
            ("scaler.mean", Dtype::F64, vec![d], Data::Wide(self.mean.clone())),
            ("scaler.scale", Dtype::F64, vec![d], Data::Wide(self.scale.clone())),
        ];
        match &self.basis {
            Basis::Landmarks { points, rows } => tensors.extend([
                ("landmark_rows", Dtype::U64, vec![rows.len()], Data::Rows(rows)),
                ("landmarks", dtype::<T>(), vec![rows.len(), features], Data::Real(points)),
            ]),
            Basis::Features { probe } => tensors.push(("probe", Dtype::F64, vec![m], Data::Wide(probe.clone()))),
        }
        tensors.extend(self.metric.as_ref().map(|metric| {
            let shape = if metric.is_diagonal() { vec![d] } else { vec![metric.outputs(), d] };
            ("metric", Dtype::F64, shape, Data::Wide(metric.numbers()))
        }));
        let count = |k: &usize| ("neighbours", Dtype::U64, vec![1], Data::Counts(vec![*k as u64]));
        match &self.form {
            Form::Plain => {}
            Form::OverDegree { coefficients, floor } => tensors.extend([
                ("degree.coefficients", Dtype::F64, vec![m], Data::Wide(coefficients.clone())),
                ("degree.floor", Dtype::F64, vec![1], Data::Wide(vec![*floor])),
            ]),
            Form::Weights { neighbours } => tensors.push(count(neighbours)),
            Form::Paths { neighbours, lengths } => tensors.extend([
                count(neighbours),
                ("paths", Dtype::F64, vec![lengths.nrows(), lengths.ncols()], Data::Matrix(lengths)),
            ]),
        }
        if let Some(quadratic) = &self.quadratic {
            let Quadratic { factor, shift, features, constant, residual, units } = quadratic;
            tensors.extend([
                ("quadratic.factor", Dtype::F64, vec![m, shift.len()], Data::Matrix(factor)),
                ("quadratic.shift", Dtype::F64, vec![shift.len()], Data::Wide(shift.clone())),
                ("quadratic.units", Dtype::F64, vec![units.len()], Data::Wide(units.clone())),
                ("quadratic.scalars", Dtype::F64, vec![2], Data::Wide(vec![*residual, *constant])),
            ]);
            let features = features.as_ref();
            tensors.extend(features.map(|f| ("quadratic.features", Dtype::F64, vec![m, f.ncols()], Data::Matrix(f))));
        }
        if let Some(Head { weights, intercept }) = &self.components {
            let q = intercept.len();
            tensors.extend([
                ("components.coefficients", Dtype::F64, vec![m, q], Data::Matrix(weights)),
                ("components.intercept", Dtype::F64, vec![q], Data::Wide(intercept.clone())),
            ]);
        }
        tensors.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        tensors
    }

    fn header(&self, tensors: &[(&'static str, Dtype, Vec<usize>, Data<'_, T>)]) -> Result<Vec<u8>> {
        let mut offset = 0;
        let infos = tensors.iter().map(|(name, dtype, shape, _)| {
            let bytes = shape.iter().product::<usize>() * dtype.bitsize() / 8;
            let data_offsets = (offset, offset + bytes);
            offset += bytes;
            (name.to_string(), TensorInfo { dtype: *dtype, shape: shape.clone(), data_offsets })
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

pub(super) fn dtype<T: Real>() -> Dtype {
    if <T as kstore::Real>::NAME == "f32" { Dtype::F32 } else { Dtype::F64 }
}

fn write_all<T: Real>(
    out: &mut impl Write,
    header: &[u8],
    tensors: &[(&'static str, Dtype, Vec<usize>, Data<'_, T>)],
) -> std::io::Result<()> {
    out.write_all(header)?;
    for (_, dtype, _, data) in tensors {
        match data {
            Data::Real(values) if *dtype == Dtype::F32 => {
                values.iter().try_for_each(|v| out.write_all(&(v.to_f64() as f32).to_le_bytes()))?;
            }
            Data::Real(values) => values.iter().try_for_each(|v| out.write_all(&v.to_f64().to_le_bytes()))?,
            Data::Matrix(matrix) => {
                for i in 0..matrix.nrows() {
                    matrix.row(i).iter().try_for_each(|v| out.write_all(&v.to_le_bytes()))?;
                }
            }
            Data::Wide(values) => values.iter().try_for_each(|v| out.write_all(&v.to_le_bytes()))?,
            Data::Counts(values) => values.iter().try_for_each(|v| out.write_all(&v.to_le_bytes()))?,
            Data::Rows(values) => values.iter().try_for_each(|v| out.write_all(&v.to_le_bytes()))?,
        }
    }
    Ok(())
}
