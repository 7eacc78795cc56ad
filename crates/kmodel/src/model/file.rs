//! The model file: safetensors with one metadata entry, `kmill`.
//!
//! | tensor | type | shape |
//! |---|---|---|
//! | `landmarks` | F32 or F64 | m x d, for landmarks; N x d for N graph nodes |
//! | `landmarks.values` | F32 or F64 | sparse landmarks in CSR format, instead of `landmarks` |
//! | `landmarks.indices`, `landmarks.indptr` | U64 | columns and row starts of these entries |
//! | `landmark_rows` | U64 | m, for landmarks; N for nodes |
//! | `probe` | F64 | m, for a basis of features |
//! | `coefficients` | F64 | m x t |
//! | `intercept` | F64 | t |
//! | `scaler.centre`, `scaler.scale`, `scaler.mean` | F64 | d |
//! | `scaler.knots` | F64 | 65 d, for quantile scaling |
//! | `metric` | F64 | d if diagonal, else r x d; landmarks then have r features |
//! | `encoding.factors` | F64 | factors of weighted sparse columns and words, by column |
//! | `degree.coefficients`, `degree.floor` | F64 | m and 1, for [`BasisTransform`] |
//! | `neighbours` | U64 | 1, for functions of nearest nodes |
//! | `paths` | F64 | m x N, for functions of paths |
//! | `matrix` | U64 | 1, for matrix columns: kernel values (0), distances (1), their squares (2) |
//! | `leaves.splits` | F64 | m (own kernel: d) x (L − 1), for L leaves ([`Leaves`]) |
//! | `leaves.constants`, `leaves.widths` | F64 | L − 1 each |
//! | `leaves.counts` | U64 | L |
//! | `leaves.points` | like `landmarks` | sum of the counts x d |
//! | `leaves.coefficients` | F64 | sum of the counts x t |
//! | `quadratic.factor` | F64 | m x q, for variances or distances ([`Quadratic`]) |
//! | `quadratic.shift` | F64 | q |
//! | `quadratic.features` | F64 | m x r, for projections |
//! | `quadratic.units` | F64 | t, or 1 for components |
//! | `quadratic.scalars` | F64 | 2 to 4: ρ, c, degrees of freedom (0 if absent), τ |
//! | `components.coefficients` | F64 | m x q, for components in addition to predictions |
//! | `components.intercept` | F64 | q |
//! | `intervals.levels` | F64 | levels of prediction intervals; components belong to folds |
//! | `intervals.counts` | U64 | number of scores of each fold and target |
//! | `intervals.scores`, `intervals.weights` | F64 | held-out scores, and cumulative weights |
//!
//! In the table, m is the number of basis functions, d of columns and t of functions. The metadata
//! entry contains the [`ModelMetadata`] and `format_version` as JSON with sorted keys. It is a
//! single entry, because safetensors writes several entries in random order, and equal models must
//! have identical bytes.

use super::{Basis, BasisTransform, Leaves, MatrixKind, Model, ModelMetadata};
use crate::{Error, LinearHead, Quadratic, Result};
use faer::Mat;
use kapprox::Real;
use kstore::checkpoint::{Number, safetensors_header};
use kstore::sparse::{SparseShape, entries};
use safetensors::Dtype;
use serde_json::Value;
use std::io::{Result as Written, Write};
use std::{borrow::Cow, path::Path};

/// Newest format that this version reads: models whose leaves have their own kernel. Format 2 has
/// models with several members; all other models are written in format 1, which older versions
/// read.
pub(super) const FORMAT_VERSION: u64 = 3;
const MEMBERS_VERSION: u64 = 2;
const SINGLE_FIT_VERSION: u64 = 1;

/// Tensors of the held-out scores of prediction intervals.
pub(super) const INTERVAL_TENSORS: [&str; 4] =
    ["intervals.levels", "intervals.counts", "intervals.scores", "intervals.weights"];

/// First kmill version that reads formats 1 and 2. It is stored in the file, so that an older
/// version can name it in its error message.
const MIN_KMILL_VERSION: &str = "0.1.0";

/// A row-major array of numbers, to be written.
struct Tensor<'a> {
    dtype: Dtype,
    shape: Vec<usize>,
    /// True if all numbers are finite.
    is_finite: bool,
    data: TensorData<'a>,
}

enum TensorData<'a> {
    Bytes(Cow<'a, [u8]>),
    /// A matrix that is written row by row.
    Matrix(&'a Mat<f64>),
}

impl<'a> Tensor<'a> {
    fn array<N: Number>(shape: Vec<usize>, is_finite: bool, values: impl Into<Cow<'a, [N]>>) -> Self {
        let bytes = match values.into() {
            Cow::Borrowed(values) => Cow::Borrowed(bytemuck::cast_slice(values)),
            Cow::Owned(values) => Cow::Owned(bytemuck::cast_slice(&values).to_vec()),
        };
        Self { dtype: N::DTYPE, shape, is_finite, data: TensorData::Bytes(bytes) }
    }

    fn reals<V: kstore::Float>(values: impl Into<Cow<'a, [V]>>, shape: Vec<usize>) -> Self {
        let values = values.into();
        Self::array(shape, V::all_finite(&values), values)
    }

    fn numbers(numbers: impl Into<Cow<'a, [f64]>>) -> Self {
        let numbers = numbers.into();
        let shape = vec![numbers.len()];
        Self::reals(numbers, shape)
    }

    fn counts(counts: impl Into<Cow<'a, [u64]>>) -> Self {
        let counts = counts.into();
        Self::array(vec![counts.len()], true, counts)
    }

    fn points<T: Real>(points: &'a [T], d: usize) -> Self {
        Self::reals(points, vec![points.len() / d.max(1), d])
    }

    fn matrix(matrix: &'a Mat<f64>) -> Self {
        let (shape, is_finite) = (vec![matrix.nrows(), matrix.ncols()], matrix.is_all_finite());
        Self { dtype: Dtype::F64, shape, is_finite, data: TensorData::Matrix(matrix) }
    }

    fn write(&self, out: &mut impl Write) -> Written<()> {
        match &self.data {
            TensorData::Bytes(bytes) => out.write_all(bytes),
            TensorData::Matrix(matrix) => {
                matrix.row_iter().try_for_each(|row| row.iter().try_for_each(|v| out.write_all(&v.to_le_bytes())))
            }
        }
    }
}

/// Returns the entries of sparse points as the three tensors of a CSR matrix.
fn sparse_tensors<'a, T: Real>(points: &[T], shape: SparseShape) -> [(&'static str, Tensor<'a>); 3] {
    let (mut starts, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for point in points.chunks_exact(shape.values_per_row()) {
        let (columns, column_values) = entries(point);
        indices.extend(columns.iter().map(|column| column.to_f64() as u64));
        values.extend_from_slice(column_values);
        starts.push(indices.len() as u64);
    }
    let entry_count = indices.len();
    [
        ("landmarks.indices", Tensor::counts(indices)),
        ("landmarks.indptr", Tensor::counts(starts)),
        ("landmarks.values", Tensor::reals(values, vec![entry_count])),
    ]
}

/// Returns what error messages call a number of a tensor.
fn tensor_description(tensor: &str) -> &'static str {
    match tensor.split('.').next() {
        Some("landmarks" | "probe") => "a basis function of the model",
        Some("coefficients") => "a coefficient of the model",
        Some("degree" | "paths") => "a degree or path of the model",
        Some("intercept") => "the intercept of the model",
        Some("scaler") => "the scaler of the model",
        Some("quadratic") => "a variance or distance of the model",
        Some("components") => "a component of the model",
        Some("intervals") => "a held-out score of the model",
        _ => "the metric of the model",
    }
}

impl<T: Real> Model<T> {
    /// Writes the model atomically: to a temporary file in the same folder, which is renamed after
    /// it is synchronised to disk.
    ///
    /// Matrices are written row by row, so memory does not double.
    ///
    /// # Errors
    /// [`Error::NotFinite`] before anything is written; [`kstore::Error::Io`].
    pub fn save(&self, path: &Path) -> Result<()> {
        let tensors = self.checked_tensors()?;
        let header = self.header(&tensors)?;
        let mut out = kstore::AtomicFile::create(path)?;
        write_tensors(&mut out, &header, &tensors).map_err(kstore::Error::io("write", path))?;
        Ok(out.commit()?)
    }

    /// Returns the bytes of the model's file.
    ///
    /// # Errors
    /// [`Error::NotFinite`].
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let tensors = self.checked_tensors()?;
        let mut bytes = Vec::new();
        let header = self.header(&tensors)?;
        write_tensors(&mut bytes, &header, &tensors).map_err(kstore::Error::io("write", "the model in memory"))?;
        Ok(bytes)
    }

    /// Checks that all numbers of the model are finite. Returns the tensors in file order: widest
    /// type first, as safetensors requires, then by name.
    fn checked_tensors(&self) -> Result<Vec<(&'static str, Tensor<'_>)>> {
        let mut tensors = self.tensors();
        let all_finite = |values: &[f64]| values.iter().all(|v| v.is_finite());
        let mut non_finite_part =
            tensors.iter().find(|(_, tensor)| !tensor.is_finite).map(|(name, _)| tensor_description(name));
        if !self.metadata.lambda.is_none_or(f64::is_finite) {
            non_finite_part = non_finite_part.or(Some("lambda"));
        }
        if !self.metadata.certificate.is_none_or(|c| all_finite(&[c.trace_error, c.overshoot, c.floor])) {
            non_finite_part = non_finite_part.or(Some("the certificate"));
        }
        if let Some(what) = non_finite_part {
            return Err(Error::NotFinite { what, remedy: "raise `lambda` or use `precision` f64" });
        }
        tensors.sort_by(|a, b| b.1.dtype.cmp(&a.1.dtype).then(a.0.cmp(b.0)));
        Ok(tensors)
    }

    /// Returns all tensors of the model, as [`super::load`] reads them.
    fn tensors(&self) -> Vec<(&'static str, Tensor<'_>)> {
        let mut tensors = vec![
            ("coefficients", Tensor::matrix(&self.coefficients)),
            ("intercept", Tensor::numbers(&self.intercept)),
            ("scaler.centre", Tensor::numbers(&self.scaler.centre)),
            ("scaler.mean", Tensor::numbers(&self.scaler.mean)),
            ("scaler.scale", Tensor::numbers(&self.scaler.scale)),
        ];
        let encoding = self.metadata.encoding.as_ref().and_then(|encoding| encoding.without_factors());
        tensors.extend(encoding.map(|(_, factors)| ("encoding.factors", Tensor::numbers(factors))));
        if !self.scaler.knots.is_empty() {
            tensors.push(("scaler.knots", Tensor::numbers(&self.scaler.knots)));
        }
        match &self.basis {
            Basis::Landmarks { points, row_numbers: rows } => {
                tensors.push(("landmark_rows", Tensor::counts(rows)));
                match self.metadata.sparse_shape() {
                    Some(shape) => tensors.extend(sparse_tensors(points, shape)),
                    None => tensors.push(("landmarks", Tensor::points(points, self.dims().1))),
                }
            }
            Basis::Features { probe } => tensors.push(("probe", Tensor::numbers(probe))),
        }
        tensors.extend(self.metric.as_ref().map(|metric| {
            let rows = (!metric.is_diagonal()).then(|| metric.output_count());
            ("metric", Tensor::reals(metric.to_row_major(), rows.into_iter().chain([metric.input_count()]).collect()))
        }));
        let neighbours_tensor = |k: &usize| ("neighbours", Tensor::counts(vec![*k as u64]));
        match &self.transform {
            BasisTransform::Identity => {}
            BasisTransform::DivideByDegree { coefficients, floor } => tensors.extend([
                ("degree.coefficients", Tensor::numbers(coefficients)),
                ("degree.floor", Tensor::numbers(std::slice::from_ref(floor))),
            ]),
            BasisTransform::ReconstructionWeights { neighbours } => tensors.push(neighbours_tensor(neighbours)),
            BasisTransform::ShortestPaths { neighbours, path_lengths: lengths } => {
                tensors.extend([neighbours_tensor(neighbours), ("paths", Tensor::matrix(lengths))]);
            }
            BasisTransform::MatrixColumns(kind) => {
                let number = MatrixKind::BY_NUMBER.iter().position(|other| other == kind).unwrap_or_default();
                tensors.push(("matrix", Tensor::counts(vec![number as u64])));
            }
        }
        if let Some(Quadratic {
            factor,
            shift,
            feature_coefficients,
            constant,
            residual_factor,
            residual_allowance,
            output_scales,
            degrees_of_freedom,
        }) = &self.quadratic
        {
            let mut scalars: Vec<f64> = [*residual_factor, *constant].into_iter().chain(*degrees_of_freedom).collect();
            if *residual_allowance != 0.0 {
                scalars.resize(3, 0.0);
                scalars.push(*residual_allowance);
            }
            tensors.extend([
                ("quadratic.factor", Tensor::matrix(factor)),
                ("quadratic.shift", Tensor::numbers(shift)),
                ("quadratic.units", Tensor::numbers(output_scales)),
                ("quadratic.scalars", Tensor::numbers(scalars)),
            ]);
            tensors
                .extend(feature_coefficients.as_ref().map(|features| ("quadratic.features", Tensor::matrix(features))));
        }
        if let Some(LinearHead { weights, intercept }) = &self.components {
            tensors.extend([
                ("components.coefficients", Tensor::matrix(weights)),
                ("components.intercept", Tensor::numbers(intercept)),
            ]);
        }
        if let Some(intervals) = &self.intervals {
            let [levels, counts, scores, weights] = INTERVAL_TENSORS;
            let (score_counts, all_scores, all_weights) = intervals.to_tensors();
            tensors.extend([
                (levels, Tensor::numbers(&intervals.levels)),
                (counts, Tensor::counts(score_counts)),
                (scores, Tensor::numbers(all_scores)),
                (weights, Tensor::numbers(all_weights)),
            ]);
        }
        if let Some(Leaves { splits, half_widths: widths, row_counts: counts, points, coefficients }) = &self.leaves {
            let counts: Vec<u64> = counts.iter().map(|count| *count as u64).collect();
            tensors.extend([
                ("leaves.splits", Tensor::matrix(&splits.weights)),
                ("leaves.constants", Tensor::numbers(&splits.intercept)),
                ("leaves.widths", Tensor::numbers(widths)),
                ("leaves.counts", Tensor::counts(counts)),
                ("leaves.points", Tensor::points(points, self.dims().1)),
                ("leaves.coefficients", Tensor::matrix(coefficients)),
            ]);
        }
        tensors
    }

    fn header(&self, tensors: &[(&'static str, Tensor<'_>)]) -> Result<Vec<u8>> {
        let arrays = tensors.iter().map(|(name, tensor)| (name.to_string(), tensor.dtype, tensor.shape.clone()));
        let encoding_parts = self.metadata.encoding.as_ref().and_then(|encoding| encoding.without_factors());
        let stripped_metadata = encoding_parts
            .map(|(encoding, _)| ModelMetadata { encoding: Some(encoding.into()), ..self.metadata.clone() });
        let metadata =
            metadata_json(stripped_metadata.as_ref().unwrap_or(&self.metadata)).map_err(|error| error.to_string());
        let header = metadata.and_then(|json| safetensors_header(arrays, json));
        header.map_err(|detail| Error::Damaged { path: "the model to write".into(), detail })
    }
}

/// Returns the metadata as JSON with sorted keys, including `format_version` and the required kmill
/// version.
fn metadata_json(metadata: &ModelMetadata) -> serde_json::Result<String> {
    let mut value = serde_json::to_value(metadata)?;
    if let Value::Object(map) = &mut value {
        let version = match (&metadata.leaf_kernel, metadata.members.is_empty()) {
            (Some(_), _) => FORMAT_VERSION,
            (None, false) => MEMBERS_VERSION,
            (None, true) => SINGLE_FIT_VERSION,
        };
        map.insert("format_version".to_string(), version.into());
        map.insert("needs_kmill".to_string(), MIN_KMILL_VERSION.into());
    }
    serde_json::to_string(&with_sorted_keys(value))
}

/// Sorts the keys of every object of a JSON value. (Whether serde_json itself sorts them depends on
/// its build features.)
fn with_sorted_keys(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(String, Value)> = map.into_iter().collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().map(|(key, value)| (key, with_sorted_keys(value))).collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(with_sorted_keys).collect()),
        other => other,
    }
}

fn write_tensors(out: &mut impl Write, header: &[u8], tensors: &[(&'static str, Tensor<'_>)]) -> Written<()> {
    out.write_all(header)?;
    tensors.iter().try_for_each(|(_, tensor)| tensor.write(out))
}
