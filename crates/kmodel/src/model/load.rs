//! Reading a model file. See [`super::file`] for its contents.

use super::file::{FORMAT_VERSION, INTERVAL_TENSORS};
use super::{AnyModel, Basis, BasisTransform, Leaves, MatrixKind, Model, ModelMetadata};
use crate::{Error, LinearHead, Quadratic, Result, Task, intervals::Intervals};
use faer::Mat;
use kapprox::{Kernel, Real, metric::Metric};
use kstore::Scaler;
use kstore::checkpoint::{METADATA_KEY, Number};
use kstore::encoding::Encoding;
use kstore::sparse::{SparseRows, SparseShape};
use safetensors::{Dtype, tensor::Metadata};
use serde_json::Value;
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::{fs::File, path::Path, sync::Arc};

/// Maximum header size in bytes. A file with a larger header is rejected, as safetensors itself
/// does.
pub const MAX_HEADER_BYTES: u64 = 100_000_000;

impl AnyModel {
    /// Reads a model in f32 or f64.
    ///
    /// # Errors
    /// [`Error::UnknownKernel`], [`Error::NotSafetensors`], [`Error::NotKmill`],
    /// [`Error::NewerFormat`], [`Error::Truncated`], [`Error::Damaged`],
    /// [`kstore::Error::NotFound`] and [`kstore::Error::Io`].
    pub fn load(path: &Path) -> Result<Self> {
        let length = kstore::source::regular_metadata(path)?.len();
        let file = File::open(path).map_err(kstore::Error::io("read", path))?;
        Self::read(ModelReader::new(path, file, length)?)
    }

    /// Reads a model from the bytes of its file.
    ///
    /// # Errors
    /// The errors of [`AnyModel::load`], except for errors about the path.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (path, length) = (Path::new("the model in memory"), bytes.len() as u64);
        Self::read(ModelReader::new(path, Cursor::new(bytes), length)?)
    }

    fn read<R: Read + Seek>(mut reader: ModelReader<'_, R>) -> Result<Self> {
        let metadata = reader.parse_metadata()?;
        if let Err(kapprox::Error::UnknownKernel { name, .. }) = Kernel::parse(&metadata.kernel) {
            return Err(Error::UnknownKernel { path: reader.path.into(), kernel: name });
        }
        match metadata.precision.as_str() {
            "f32" => reader.read_model(metadata).map(Self::F32),
            "f64" => reader.read_model(metadata).map(Self::F64),
            other => Err(reader.damaged_error(format!("unknown precision {other:?}"))),
        }
    }
}

/// The fields of the metadata that decide whether this version can read the other fields.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct VersionEntry {
    format_version: Value,
    needs_kmill: Value,
}

struct ModelReader<'a, R> {
    path: &'a Path,
    input: BufReader<R>,
    header: Metadata,
    /// Byte offset of the tensor data.
    data_offset: u64,
}

/// Reads the header, and returns it with the byte offset of the tensor data. Checks the size of the
/// header against the length of the file before it allocates memory for the header.
fn read_header(path: &Path, input: &mut impl Read, file_len: u64) -> Result<(Metadata, u64)> {
    let not_safetensors = || Error::NotSafetensors { path: path.into() };
    let truncated = |expected| Error::Truncated { path: path.into(), expected, got: file_len };
    let io_error = || kstore::Error::io("read", path);
    if file_len < 8 {
        return Err(not_safetensors());
    }
    let mut length_prefix = [0; 8];
    input.read_exact(&mut length_prefix).map_err(io_error())?;
    let header_bytes = u64::from_le_bytes(length_prefix);
    if header_bytes > MAX_HEADER_BYTES {
        return Err(not_safetensors());
    }
    if header_bytes + 8 > file_len {
        let mut remaining_bytes = Vec::new();
        input.read_to_end(&mut remaining_bytes).map_err(io_error())?;
        // a truncated safetensors file has a brace here; any other file is not safetensors
        let is_truncated = remaining_bytes.first() == Some(&b'{');
        return Err(if is_truncated { truncated(header_bytes + 8) } else { not_safetensors() });
    }
    let mut json = vec![0; header_bytes as usize];
    input.read_exact(&mut json).map_err(io_error())?;
    let header: Metadata = serde_json::from_slice(&json).map_err(|_| not_safetensors())?;
    let expected_len = 8 + header_bytes + header.data_len() as u64;
    if file_len < expected_len {
        return Err(truncated(expected_len));
    }
    if file_len > expected_len {
        let detail = format!("it has {} extra bytes at its end", file_len - expected_len);
        return Err(Error::Damaged { path: path.into(), detail });
    }
    Ok((header, 8 + header_bytes))
}

impl<'a, R: Read + Seek> ModelReader<'a, R> {
    fn new(path: &'a Path, input: R, length: u64) -> Result<Self> {
        let mut input = BufReader::new(input);
        let (header, data_offset) = read_header(path, &mut input, length)?;
        Ok(Self { path, input, header, data_offset })
    }

    fn damaged_error(&self, detail: impl Into<String>) -> Error {
        Error::Damaged { path: self.path.into(), detail: detail.into() }
    }

    /// Reads the metadata. Checks the version first, because the other fields of a newer format may
    /// differ.
    fn parse_metadata(&self) -> Result<ModelMetadata> {
        let not_kmill = || Error::NotKmill { path: self.path.into() };
        let text = self.header.metadata().as_ref().and_then(|map| map.get(METADATA_KEY)).ok_or_else(not_kmill)?;
        // parse only the fields of `VersionEntry`, because the metadata may contain a million names
        let version: VersionEntry =
            serde_json::from_str(text).map_err(|_| self.damaged_error("its kmill entry is not valid JSON"))?;
        let format_version =
            version.format_version.as_u64().ok_or_else(|| self.damaged_error("its format_version is missing"))?;
        if format_version > FORMAT_VERSION {
            let needs = version.needs_kmill.as_str().unwrap_or("a newer version").to_string();
            return Err(Error::NewerFormat {
                path: self.path.into(),
                found: format_version,
                known: FORMAT_VERSION,
                needs,
            });
        }
        serde_json::from_str(text).map_err(|_| self.damaged_error("its kmill entry has a missing or invalid field"))
    }

    /// Returns the metadata with the factors of its encoding, which are stored in a tensor.
    /// (Earlier versions stored them in the metadata.)
    fn with_factors(&mut self, metadata: ModelMetadata) -> Result<ModelMetadata> {
        let Some(encoding) = metadata.encoding.as_ref().filter(|_| self.has_tensor("encoding.factors")) else {
            return Ok(metadata);
        };
        let factors = self.read_numbers("encoding.factors", &[encoding.missing_factor_count()])?;
        let encoding = Some(Arc::new(Encoding::clone(encoding).with_factors(factors)));
        Ok(ModelMetadata { encoding, ..metadata })
    }

    fn read_model<T: Real>(&mut self, metadata: ModelMetadata) -> Result<Model<T>> {
        let metadata = self.with_factors(metadata)?;
        let [m, t] = self.stored_shape("coefficients")[..] else {
            return Err(self.damaged_error("tensor coefficients is missing or not a matrix"));
        };
        self.check_metadata(&metadata, m, t)?;
        let d = metadata.features.len();
        let metric = self.read_metric(d)?;
        let feature_count = metric.as_ref().map_or(d, |metric| metric.output_count());
        let (transform, point_count) = self.read_transform(m, feature_count)?;
        Ok(Model {
            basis: self.read_basis(m, point_count, feature_count, metadata.sparse_shape())?,
            transform,
            coefficients: self.read_matrix("coefficients", m, t)?,
            intercept: self.read_numbers("intercept", &[t])?,
            scaler: Scaler {
                centre: self.read_numbers("scaler.centre", &[d])?,
                scale: self.read_numbers("scaler.scale", &[d])?,
                mean: self.read_numbers("scaler.mean", &[d])?,
                asinh: metadata.asinh,
                knots: self.read_knots(d)?,
            },
            metric,
            quadratic: self.read_quadratic(m, t)?,
            components: self.read_components(m)?,
            intervals: self.read_intervals(&metadata, t)?,
            leaves: match metadata.leaf_kernel {
                Some(_) => self.read_leaves(d, d, t)?,
                None => self.read_leaves(m, feature_count, t)?,
            },
            metadata,
        })
    }

    fn read_knots(&mut self, d: usize) -> Result<Vec<f64>> {
        if !self.has_tensor("scaler.knots") {
            return Ok(Vec::new());
        }
        let knots = self.read_numbers("scaler.knots", &[Scaler::knot_count(d)])?;
        match knots.chunks(Scaler::knot_count(1)).all(<[f64]>::is_sorted) {
            true => Ok(knots),
            false => Err(self.damaged_error("the quantiles of a feature are not in ascending order")),
        }
    }

    fn read_basis<T: Real>(
        &mut self,
        m: usize,
        point_count: usize,
        feature_count: usize,
        sparse: Option<SparseShape>,
    ) -> Result<Basis<T>> {
        if self.has_tensor("probe") {
            return Ok(Basis::Features { probe: self.read_numbers("probe", &[m])? });
        }
        let row_numbers = self.read_counts("landmark_rows", point_count)?;
        if let Some(shape) = sparse {
            return Ok(Basis::Landmarks { points: self.read_sparse_points(point_count, shape)?, row_numbers });
        }
        Ok(Basis::Landmarks { points: self.read_numbers("landmarks", &[point_count, feature_count])?, row_numbers })
    }

    /// Reads sparse points, and converts them from CSR to the row layout of `shape`.
    fn read_sparse_points<T: Real>(&mut self, count: usize, shape: SparseShape) -> Result<Vec<T>> {
        let [starts, indices, values] = ["landmarks.indptr", "landmarks.indices", "landmarks.values"];
        let entry_count = self.stored_shape(values).iter().product();
        let (starts, indices) = (self.read_sizes(starts, count + 1)?, self.read_sizes(indices, entry_count)?);
        let values: Vec<f64> =
            self.read_numbers::<T>(values, &[entry_count])?.into_iter().map(kstore::Float::to_f64).collect();
        let invalid_error = || self.damaged_error("the entries of its sparse landmarks are not a valid CSR matrix");
        let covers_all = (starts.first(), starts.last()) == (Some(&0), Some(&entry_count));
        let is_valid_row = |row: &[usize]| {
            row[0] <= row[1] && row[1] <= entry_count && {
                let columns = &indices[row[0]..row[1]];
                columns.windows(2).all(|pair| pair[0] < pair[1])
                    && columns.last().is_none_or(|last| *last < shape.column_count)
            }
        };
        if !covers_all || !starts.windows(2).all(is_valid_row) {
            return Err(invalid_error());
        }
        // column indices fit in 32 bits
        let columns: Vec<u32> = indices.iter().map(|index| *index as u32).collect();
        let rows = SparseRows { starts: &starts, indices: &columns, values: &values };
        let mut points = vec![T::default(); count * shape.values_per_row()];
        let all_packed =
            points.chunks_exact_mut(shape.values_per_row()).enumerate().all(|(i, point)| rows.pack(i, point));
        if all_packed { Ok(points) } else { Err(invalid_error()) }
    }

    /// Returns the transformation of the basis functions, and the number of points of a basis of
    /// landmarks.
    fn read_transform(&mut self, m: usize, feature_count: usize) -> Result<(BasisTransform, usize)> {
        if self.has_tensor("degree.coefficients") {
            let coefficients = self.read_numbers("degree.coefficients", &[m])?;
            let floor = self.read_numbers("degree.floor", &[1])?[0];
            let invalid_error =
                || self.damaged_error(format!("its smallest degree is {floor}; expected a positive number"));
            return if floor > 0.0 {
                Ok((BasisTransform::DivideByDegree { coefficients, floor }, m))
            } else {
                Err(invalid_error())
            };
        }
        if self.has_tensor("matrix") {
            let number = self.read_sizes("matrix", 1)?[0];
            let unknown_error = || self.damaged_error(format!("its matrix has the unknown kind {number}"));
            let kind = MatrixKind::BY_NUMBER.get(number).ok_or_else(unknown_error)?;
            if m != feature_count {
                return Err(self.damaged_error(format!("it has {m} functions of {feature_count} matrix columns")));
            }
            return Ok((BasisTransform::MatrixColumns(*kind), 0));
        }
        if !self.has_tensor("neighbours") {
            return Ok((BasisTransform::Identity, m));
        }
        let neighbours = self.read_sizes("neighbours", 1)?[0];
        let point_count =
            if self.has_tensor("paths") { self.stored_shape("paths").last().copied().unwrap_or_default() } else { m };
        if !(1..=point_count).contains(&neighbours) {
            return Err(self.damaged_error(format!("it has {point_count} nodes but uses {neighbours} neighbours")));
        }
        if !self.has_tensor("paths") {
            return Ok((BasisTransform::ReconstructionWeights { neighbours }, m));
        }
        Ok((
            BasisTransform::ShortestPaths { neighbours, path_lengths: self.read_matrix("paths", m, point_count)? },
            point_count,
        ))
    }

    fn read_metric(&mut self, d: usize) -> Result<Option<Arc<Metric>>> {
        if !self.has_tensor("metric") {
            return Ok(None);
        }
        let metric = match self.stored_shape("metric")[..] {
            [r, _] if r > 0 => Metric::matrix(&self.read_numbers("metric", &[r, d])?, r),
            _ => Metric::diagonal(self.read_numbers("metric", &[d])?),
        };
        metric.map(|metric| Some(Arc::new(metric))).map_err(|error| self.damaged_error(error.to_string()))
    }

    fn read_components(&mut self, m: usize) -> Result<Option<LinearHead>> {
        let [coefficients, intercept] = ["components.coefficients", "components.intercept"];
        let q = self.stored_shape(intercept).iter().product();
        if !self.has_tensor(coefficients) && !self.has_tensor(intercept) || q == 0 {
            return Ok(None);
        }
        let weights = self.read_matrix(coefficients, m, q)?;
        Ok(Some(LinearHead { weights, intercept: self.read_numbers(intercept, &[q])? }))
    }

    fn read_intervals(&mut self, metadata: &ModelMetadata, t: usize) -> Result<Option<Arc<Intervals>>> {
        let [levels, counts, scores, weights] = INTERVAL_TENSORS;
        if !self.has_tensor(levels) {
            return Ok(None);
        }
        let lengths = [levels, counts, scores].map(|name| self.stored_shape(name).iter().product::<usize>());
        let levels = self.read_numbers(levels, &lengths[..1])?;
        let counts = self.read_sizes(counts, lengths[1])?;
        let (scores, weights) = (self.read_numbers(scores, &lengths[2..])?, self.read_numbers(weights, &lengths[2..])?);
        let functions_per_score = if metadata.classes.is_empty() { metadata.outputs_per_target() } else { t };
        let function_count = self.stored_shape("components.intercept").iter().product();
        let intervals = Intervals::from_tensors(levels, &counts, &scores, &weights)
            .filter(|intervals| intervals.is_valid(function_count, functions_per_score))
            .filter(|_| metadata.classes.is_empty() || metadata.link.is_some());
        let invalid_error = || self.damaged_error("the held-out scores of its prediction intervals are invalid");
        intervals.map(|intervals| Some(Arc::new(intervals))).ok_or_else(invalid_error)
    }

    fn read_leaves<T: Real>(&mut self, split_inputs: usize, d: usize, t: usize) -> Result<Option<Leaves<T>>> {
        if !self.has_tensor("leaves.counts") {
            return Ok(None);
        }
        let node_count = self.stored_shape("leaves.widths").iter().product::<usize>();
        let row_counts = self.read_sizes("leaves.counts", node_count + 1)?;
        let row_count = row_counts.iter().fold(0usize, |sum, count| sum.saturating_add(*count));
        let (weights, intercept) = (
            self.read_matrix("leaves.splits", split_inputs, node_count)?,
            self.read_numbers("leaves.constants", &[node_count])?,
        );
        let half_widths = self.read_numbers("leaves.widths", &[node_count])?;
        if !(node_count + 1).is_power_of_two() {
            return Err(self.damaged_error(format!("a tree of {node_count} nodes is not complete")));
        }
        let points = self.read_numbers("leaves.points", &[row_count, d])?;
        let coefficients = self.read_matrix("leaves.coefficients", row_count, t)?;
        Ok(Some(Leaves { splits: LinearHead { weights, intercept }, half_widths, row_counts, points, coefficients }))
    }

    fn read_quadratic(&mut self, m: usize, t: usize) -> Result<Option<Quadratic>> {
        let names = ["shift", "factor", "features", "units", "scalars"].map(|name| format!("quadratic.{name}"));
        if names.iter().all(|name| !self.has_tensor(name)) {
            return Ok(None);
        }
        let [shift, factor, features, units, scalars] = &names;
        let q = self.stored_shape(shift).iter().product();
        let t = if self.stored_shape(units) == [1] { 1 } else { t };
        let scalar_count = self.stored_shape(scalars).first().copied().unwrap_or(0).clamp(2, 4);
        let numbers = self.read_numbers(scalars, &[scalar_count])?;
        let scalar_at = |i: usize| numbers.get(i).copied().unwrap_or(0.0);
        let (residual_factor, constant, degrees_of_freedom, residual_allowance) =
            (scalar_at(0), scalar_at(1), scalar_at(2), scalar_at(3));
        if residual_factor <= 0.0 || residual_allowance < 0.0 {
            return Err(self.damaged_error(format!("its residual has the factor {residual_factor} and the allowance {residual_allowance}; expected a positive factor and an allowance of 0 or more")));
        }
        let degrees_of_freedom = Some(degrees_of_freedom).filter(|freedom| *freedom > 0.0);
        let r = self.stored_shape(features).last().copied().unwrap_or_default();
        let feature_coefficients =
            if self.has_tensor(features) { Some(self.read_matrix(features, m, r)?) } else { None };
        let (shift, factor) = (self.read_numbers(shift, &[q])?, self.read_matrix(factor, m, q)?);
        let output_scales = self.read_numbers(units, &[t])?;
        Ok(Some(Quadratic {
            factor,
            shift,
            feature_coefficients,
            constant,
            residual_factor,
            residual_allowance,
            output_scales,
            degrees_of_freedom,
        }))
    }

    fn has_tensor(&self, name: &str) -> bool {
        self.header.info(name).is_some()
    }

    /// Returns the shape of a tensor as the header states it, unchecked. It is empty if the tensor
    /// is missing.
    fn stored_shape(&self, name: &str) -> Vec<usize> {
        self.header.info(name).map_or(Vec::new(), |info| info.shape.clone())
    }

    fn read_numbers<V: kstore::Float>(&mut self, name: &str, shape: &[usize]) -> Result<Vec<V>> {
        self.seek_to_tensor(name, V::DTYPE, shape)?;
        self.read_finite_values(name, shape.iter().product())
    }

    fn read_counts(&mut self, name: &str, count: usize) -> Result<Vec<u64>> {
        self.seek_to_tensor(name, Dtype::U64, &[count])?;
        self.read_values(count)
    }

    fn read_sizes(&mut self, name: &str, count: usize) -> Result<Vec<usize>> {
        let size = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        Ok(self.read_counts(name, count)?.into_iter().map(size).collect())
    }

    fn read_matrix(&mut self, name: &str, row_count: usize, column_count: usize) -> Result<Mat<f64>> {
        self.seek_to_tensor(name, Dtype::F64, &[row_count, column_count])?;
        let mut matrix = Mat::zeros(row_count, column_count);
        for i in 0..row_count {
            let row: Vec<f64> = self.read_finite_values(name, column_count)?;
            matrix.row_mut(i).iter_mut().zip(row).for_each(|(to, from)| *to = from);
        }
        Ok(matrix)
    }

    /// Checks the type and shape of a tensor, and seeks to its data.
    fn seek_to_tensor(&mut self, name: &str, dtype: Dtype, shape: &[usize]) -> Result<()> {
        let info = self.header.info(name).ok_or_else(|| self.damaged_error(format!("tensor {name} is missing")))?;
        if info.dtype == dtype && info.shape == shape {
            let position = SeekFrom::Start(self.data_offset + info.data_offsets.0 as u64);
            self.input.seek(position).map_err(kstore::Error::io("read", self.path))?;
            return Ok(());
        }
        let describe = |dtype: Dtype, shape: &[usize]| {
            let dimensions: Vec<String> = shape.iter().map(ToString::to_string).collect();
            format!(
                "{dtype} of {}",
                if dimensions.is_empty() { "one number".to_string() } else { dimensions.join(" x ") }
            )
        };
        let (got, expected) = (describe(info.dtype, &info.shape), describe(dtype, shape));
        Err(self.damaged_error(format!("tensor {name} is {got}, but the rest of the file requires {expected}")))
    }

    fn check_metadata(&self, metadata: &ModelMetadata, m: usize, t: usize) -> Result<()> {
        let output_count = match (metadata.task, metadata.classes.len()) {
            (Task::Regression, _) => metadata.targets.len() * metadata.outputs_per_target(),
            (Task::Classification, 2) => 1,
            (Task::Classification, k) if metadata.one_vs_one => k * (k - 1) / 2,
            (Task::Classification, k) => k,
            (Task::Components | Task::Clusters, _) => t,
            (Task::Ranking | Task::Novelty, _) => 1,
        };
        if output_count != t {
            return Err(
                self.damaged_error(format!("it has {t} outputs, but its targets or classes require {output_count}"))
            );
        }
        if metadata.loss.as_ref().is_some_and(|loss| !loss.is_valid(metadata.targets.len())) {
            return Err(self.damaged_error("its quantiles or the parameters of its loss are invalid"));
        }
        if let Some(encoding) = &metadata.encoding {
            if let Some(fault) = encoding.fault() {
                return Err(self.damaged_error(fault));
            }
            if encoding.feature_names() != metadata.features {
                return Err(self.damaged_error("its columns do not match its features"));
            }
        }
        let is_valid_range = |range: &[f64; 2]| range[0] <= range[1] && range.iter().all(|end| end.is_finite());
        if !metadata.ranges.is_empty()
            && (metadata.ranges.len() != metadata.features.len() || !metadata.ranges.iter().all(is_valid_range))
        {
            return Err(self.damaged_error("the ranges of its features are invalid"));
        }
        let has_probe = self.has_tensor("probe");
        if let Some(second_view) = metadata.second_view.as_ref().filter(|view| has_probe || view.functions > m) {
            return Err(self.damaged_error(format!(
                "it has {m} basis functions, but its second view has {}",
                second_view.functions
            )));
        }
        let member_functions = metadata.members.iter().map(|member| member.functions);
        let member_functions = member_functions.fold(0usize, |sum, count| sum.saturating_add(count));
        if !metadata.members.is_empty() && (has_probe || metadata.second_view.is_some() || member_functions > m) {
            return Err(self.damaged_error(format!(
                "it has {m} basis functions, but its further members have {member_functions}"
            )));
        }
        if metadata.rank > m || (has_probe && metadata.rank < m) {
            return Err(self.damaged_error(format!("it has {m} basis functions, but its rank is {}", metadata.rank)));
        }
        Ok(())
    }

    /// Reads the next `count` numbers of the tensor `name`, which must be finite.
    fn read_finite_values<V: kstore::Float>(&mut self, name: &str, count: usize) -> Result<Vec<V>> {
        let values: Vec<V> = self.read_values(count)?;
        match values.iter().position(|v| !v.is_finite()) {
            Some(index) => Err(self.damaged_error(format!(
                "tensor {name} has the value {} at position {index}; expected finite numbers",
                values[index]
            ))),
            None => Ok(values),
        }
    }

    fn read_values<N: Number>(&mut self, count: usize) -> Result<Vec<N>> {
        let mut values = vec![N::zeroed(); count];
        self.input.read_exact(bytemuck::cast_slice_mut(&mut values)).map_err(kstore::Error::io("read", self.path))?;
        Ok(values)
    }
}
