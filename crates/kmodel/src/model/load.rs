//! Reading a model file; see [`super::file`] for its content.

use super::file::FORMAT_VERSION;
use super::{AnyModel, Basis, Card, Form, Leaves, Model};
use crate::{Error, Head, Quadratic, Result, Task};
use faer::Mat;
use kapprox::{Kernel, Real, metric::Metric};
use kstore::Scaler;
use kstore::checkpoint::{KEY, Number};
use kstore::encoding::Encoding;
use kstore::sparse::{SparseRows, SparseShape};
use safetensors::{Dtype, tensor::Metadata};
use serde_json::Value;
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::{fs::File, path::Path, sync::Arc};

/// Largest header size in bytes. A file with a larger one is rejected, as by safetensors itself.
pub const MOST_HEADER_BYTES: u64 = 100_000_000;

impl AnyModel {
    /// Reads a model of either precision.
    ///
    /// # Errors
    /// [`Error::UnknownKernel`], [`Error::NotSafetensors`], [`Error::Foreign`],
    /// [`Error::NewerFormat`], [`Error::Truncated`], [`Error::Damaged`],
    /// [`kstore::Error::NotFound`] and [`kstore::Error::Io`].
    pub fn load(path: &Path) -> Result<Self> {
        let length = kstore::source::regular(path)?.len();
        let file = File::open(path).map_err(kstore::Error::io("read", path))?;
        Self::read(Reader::new(path, file, length)?)
    }

    /// Reads a model from the bytes of its file.
    ///
    /// # Errors
    /// The errors of [`AnyModel::load`], except for errors about the path.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (path, length) = (Path::new("the model in memory"), bytes.len() as u64);
        Self::read(Reader::new(path, Cursor::new(bytes), length)?)
    }

    fn read<R: Read + Seek>(mut reader: Reader<'_, R>) -> Result<Self> {
        let card = reader.card()?;
        if let Err(kapprox::Error::UnknownKernel { name, .. }) = Kernel::parse(&card.kernel) {
            return Err(Error::UnknownKernel { path: reader.path.into(), kernel: name });
        }
        match card.precision.as_str() {
            "f32" => reader.model(card).map(Self::F32),
            "f64" => reader.model(card).map(Self::F64),
            other => Err(reader.damaged(format!("unknown precision {other:?}"))),
        }
    }
}

/// The part of the metadata that decides whether this version can read the rest.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Version {
    format_version: Value,
    needs_kmill: Value,
}

struct Reader<'a, R> {
    path: &'a Path,
    input: BufReader<R>,
    header: Metadata,
    /// Byte offset of the tensor data.
    data: u64,
}

/// Reads the header and returns it with the offset of the tensor data. The size of the header is
/// checked against the length of the file before the header is allocated.
fn header(path: &Path, input: &mut impl Read, length: u64) -> Result<(Metadata, u64)> {
    let foreign = || Error::NotSafetensors { path: path.into() };
    let truncated = |expected| Error::Truncated { path: path.into(), expected, got: length };
    let io = || kstore::Error::io("read", path);
    if length < 8 {
        return Err(foreign());
    }
    let mut size = [0; 8];
    input.read_exact(&mut size).map_err(io())?;
    let size = u64::from_le_bytes(size);
    if size > MOST_HEADER_BYTES {
        return Err(foreign());
    }
    if size + 8 > length {
        let mut rest = Vec::new();
        input.read_to_end(&mut rest).map_err(io())?;
        // a truncated header starts with a brace; any other file is not safetensors
        let cut = rest.first() == Some(&b'{');
        return Err(if cut { truncated(size + 8) } else { foreign() });
    }
    let mut json = vec![0; size as usize];
    input.read_exact(&mut json).map_err(io())?;
    let header: Metadata = serde_json::from_slice(&json).map_err(|_| foreign())?;
    let expected = 8 + size + header.data_len() as u64;
    if length < expected {
        return Err(truncated(expected));
    }
    if length > expected {
        let detail = format!("it has {} extra bytes at its end", length - expected);
        return Err(Error::Damaged { path: path.into(), detail });
    }
    Ok((header, 8 + size))
}

impl<'a, R: Read + Seek> Reader<'a, R> {
    fn new(path: &'a Path, input: R, length: u64) -> Result<Self> {
        let mut input = BufReader::new(input);
        let (header, data) = header(path, &mut input, length)?;
        Ok(Self { path, input, header, data })
    }

    fn damaged(&self, detail: impl Into<String>) -> Error {
        Error::Damaged { path: self.path.into(), detail: detail.into() }
    }

    /// Reads the metadata. The version is checked first, because a newer format may differ in the
    /// other fields.
    fn card(&self) -> Result<Card> {
        let foreign = || Error::Foreign { path: self.path.into() };
        let text = self.header.metadata().as_ref().and_then(|map| map.get(KEY)).ok_or_else(foreign)?;
        // a header may have a million names, so only the fields of `Version` are parsed
        let version: Version =
            serde_json::from_str(text).map_err(|_| self.damaged("its kmill entry is not valid JSON"))?;
        let found = version.format_version.as_u64().ok_or_else(|| self.damaged("its format_version is missing"))?;
        if found > FORMAT_VERSION {
            let needs = version.needs_kmill.as_str().unwrap_or("a newer version").to_string();
            return Err(Error::NewerFormat { path: self.path.into(), found, known: FORMAT_VERSION, needs });
        }
        serde_json::from_str(text).map_err(|_| self.damaged("its kmill entry has a missing or invalid field"))
    }

    /// Returns the metadata with the factors of its encoding, which are in a tensor. Earlier
    /// versions stored them in the metadata.
    fn with_factors(&mut self, card: Card) -> Result<Card> {
        let Some(encoding) = card.encoding.as_ref().filter(|_| self.has("encoding.factors")) else { return Ok(card) };
        let factors = self.numbers("encoding.factors", &[encoding.missing_factors()])?;
        let encoding = Some(Arc::new(Encoding::clone(encoding).with_factors(factors)));
        Ok(Card { encoding, ..card })
    }

    fn model<T: Real>(&mut self, card: Card) -> Result<Model<T>> {
        let card = self.with_factors(card)?;
        let [m, t] = self.shape("coefficients")[..] else {
            return Err(self.damaged("tensor coefficients is missing or not a matrix"));
        };
        self.check_card(&card, m, t)?;
        let d = card.features.len();
        let metric = self.metric(d)?;
        let (form, points) = self.form(m)?;
        let features = metric.as_ref().map_or(d, |metric| metric.outputs());
        Ok(Model {
            basis: self.basis(m, (points, features), card.sparse())?,
            form,
            coefficients: self.matrix("coefficients", m, t)?,
            intercept: self.numbers("intercept", &[t])?,
            scaler: Scaler {
                centre: self.numbers("scaler.centre", &[d])?,
                scale: self.numbers("scaler.scale", &[d])?,
                mean: self.numbers("scaler.mean", &[d])?,
                asinh: card.asinh,
                knots: self.knots(d)?,
            },
            metric,
            quadratic: self.quadratic(m, t)?,
            components: self.components(m)?,
            leaves: self.leaves(m, features, t)?,
            card,
        })
    }

    fn knots(&mut self, d: usize) -> Result<Vec<f64>> {
        if !self.has("scaler.knots") {
            return Ok(Vec::new());
        }
        let knots = self.numbers("scaler.knots", &[Scaler::knots_of(d)])?;
        match knots.chunks(Scaler::knots_of(1)).all(<[f64]>::is_sorted) {
            true => Ok(knots),
            false => Err(self.damaged("the quantiles of a feature are not in ascending order")),
        }
    }

    fn basis<T: Real>(
        &mut self,
        m: usize,
        (points, features): (usize, usize),
        sparse: Option<SparseShape>,
    ) -> Result<Basis<T>> {
        if self.has("probe") {
            return Ok(Basis::Features { probe: self.numbers("probe", &[m])? });
        }
        let rows = self.counts("landmark_rows", points)?;
        if let Some(shape) = sparse {
            return Ok(Basis::Landmarks { points: self.sparse_points(points, shape)?, rows });
        }
        Ok(Basis::Landmarks { points: self.numbers("landmarks", &[points, features])?, rows })
    }

    /// Reads sparse points in the layout of blocks.
    fn sparse_points<T: Real>(&mut self, count: usize, shape: SparseShape) -> Result<Vec<T>> {
        let [starts, indices, values] = ["landmarks.indptr", "landmarks.indices", "landmarks.values"];
        let entries = self.shape(values).iter().product();
        let (starts, indices) = (self.sizes(starts, count + 1)?, self.sizes(indices, entries)?);
        let values: Vec<f64> = self.numbers::<T>(values, &[entries])?.into_iter().map(kstore::Real::to_f64).collect();
        let wrong = || self.damaged("the entries of its sparse landmarks are not a valid CSR matrix");
        let ends = (starts.first(), starts.last()) == (Some(&0), Some(&entries));
        let sound = |row: &[usize]| {
            row[0] <= row[1] && row[1] <= entries && {
                let places = &indices[row[0]..row[1]];
                places.windows(2).all(|pair| pair[0] < pair[1]) && places.last().is_none_or(|last| *last < shape.width)
            }
        };
        if !ends || !starts.windows(2).all(sound) {
            return Err(wrong());
        }
        // `width` fits into 32 bits
        let places: Vec<u32> = indices.iter().map(|place| *place as u32).collect();
        let rows = SparseRows { starts: &starts, places: &places, values: &values };
        let mut points = vec![T::default(); count * shape.numbers()];
        let fits = points.chunks_exact_mut(shape.numbers()).enumerate().all(|(i, point)| rows.pack(i, point));
        if fits { Ok(points) } else { Err(wrong()) }
    }

    /// Returns the form of the functions, and the number of points of a basis of landmarks.
    fn form(&mut self, m: usize) -> Result<(Form, usize)> {
        if self.has("degree.coefficients") {
            let coefficients = self.numbers("degree.coefficients", &[m])?;
            let floor = self.numbers("degree.floor", &[1])?[0];
            let wrong = || self.damaged(format!("its smallest degree is {floor}; expected a positive number"));
            return if floor > 0.0 { Ok((Form::OverDegree { coefficients, floor }, m)) } else { Err(wrong()) };
        }
        if !self.has("neighbours") {
            return Ok((Form::Plain, m));
        }
        let neighbours = self.sizes("neighbours", 1)?[0];
        let points = if self.has("paths") { self.shape("paths").last().copied().unwrap_or_default() } else { m };
        if !(1..=points).contains(&neighbours) {
            return Err(self.damaged(format!("it has {points} nodes but uses {neighbours} neighbours")));
        }
        if !self.has("paths") {
            return Ok((Form::Weights { neighbours }, m));
        }
        Ok((Form::Paths { neighbours, lengths: self.matrix("paths", m, points)? }, points))
    }

    fn metric(&mut self, d: usize) -> Result<Option<Arc<Metric>>> {
        if !self.has("metric") {
            return Ok(None);
        }
        let metric = match self.shape("metric")[..] {
            [r, _] if r > 0 => Metric::matrix(&self.numbers("metric", &[r, d])?, r),
            _ => Metric::diagonal(self.numbers("metric", &[d])?),
        };
        metric.map(|metric| Some(Arc::new(metric))).map_err(|error| self.damaged(error.to_string()))
    }

    fn components(&mut self, m: usize) -> Result<Option<Head>> {
        let [coefficients, intercept] = ["components.coefficients", "components.intercept"];
        let q = self.shape(intercept).iter().product();
        if !self.has(coefficients) && !self.has(intercept) || q == 0 {
            return Ok(None);
        }
        let weights = self.matrix(coefficients, m, q)?;
        Ok(Some(Head { weights, intercept: self.numbers(intercept, &[q])? }))
    }

    fn leaves<T: Real>(&mut self, m: usize, d: usize, t: usize) -> Result<Option<Leaves<T>>> {
        if !self.has("leaves.counts") {
            return Ok(None);
        }
        let nodes = self.shape("leaves.widths").iter().product::<usize>();
        let counts = self.sizes("leaves.counts", nodes + 1)?;
        let rows = counts.iter().fold(0usize, |sum, count| sum.saturating_add(*count));
        let (weights, intercept) =
            (self.matrix("leaves.splits", m, nodes)?, self.numbers("leaves.constants", &[nodes])?);
        let widths = self.numbers("leaves.widths", &[nodes])?;
        if !(nodes + 1).is_power_of_two() {
            return Err(self.damaged(format!("a tree of {nodes} nodes is not complete")));
        }
        let points = self.numbers("leaves.points", &[rows, d])?;
        let coefficients = self.matrix("leaves.coefficients", rows, t)?;
        Ok(Some(Leaves { splits: Head { weights, intercept }, widths, counts, points, coefficients }))
    }

    fn quadratic(&mut self, m: usize, t: usize) -> Result<Option<Quadratic>> {
        let names = ["shift", "factor", "features", "units", "scalars"].map(|name| format!("quadratic.{name}"));
        if names.iter().all(|name| !self.has(name)) {
            return Ok(None);
        }
        let [shift, factor, features, units, scalars] = &names;
        let q = self.shape(shift).iter().product();
        let t = if self.shape(units) == [1] { 1 } else { t };
        let count = self.shape(scalars).first().copied().unwrap_or(0).clamp(2, 4);
        let numbers = self.numbers(scalars, &[count])?;
        let number = |i: usize| numbers.get(i).copied().unwrap_or(0.0);
        let (residual, constant, freedom, typical) = (number(0), number(1), number(2), number(3));
        if residual <= 0.0 || typical < 0.0 {
            return Err(self.damaged(format!("its residual has the factor {residual} and the allowance {typical}; expected a positive factor and an allowance of 0 or more")));
        }
        let freedom = Some(freedom).filter(|freedom| *freedom > 0.0);
        let r = self.shape(features).last().copied().unwrap_or_default();
        let features = if self.has(features) { Some(self.matrix(features, m, r)?) } else { None };
        let (shift, factor) = (self.numbers(shift, &[q])?, self.matrix(factor, m, q)?);
        let units = self.numbers(units, &[t])?;
        Ok(Some(Quadratic { factor, shift, features, constant, residual, typical, units, freedom }))
    }

    fn has(&self, name: &str) -> bool {
        self.header.info(name).is_some()
    }

    /// Returns the shape of a tensor as the header states it, unchecked; empty if the tensor is
    /// missing.
    fn shape(&self, name: &str) -> Vec<usize> {
        self.header.info(name).map_or(Vec::new(), |info| info.shape.clone())
    }

    fn numbers<V: kstore::Real>(&mut self, name: &str, shape: &[usize]) -> Result<Vec<V>> {
        self.find(name, V::DTYPE, shape)?;
        self.reals(name, shape.iter().product())
    }

    fn counts(&mut self, name: &str, count: usize) -> Result<Vec<u64>> {
        self.find(name, Dtype::U64, &[count])?;
        self.values(count)
    }

    fn sizes(&mut self, name: &str, count: usize) -> Result<Vec<usize>> {
        let size = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        Ok(self.counts(name, count)?.into_iter().map(size).collect())
    }

    fn matrix(&mut self, name: &str, rows: usize, columns: usize) -> Result<Mat<f64>> {
        self.find(name, Dtype::F64, &[rows, columns])?;
        let mut matrix = Mat::zeros(rows, columns);
        for i in 0..rows {
            let row: Vec<f64> = self.reals(name, columns)?;
            matrix.row_mut(i).iter_mut().zip(row).for_each(|(to, from)| *to = from);
        }
        Ok(matrix)
    }

    /// Seeks to the data of a tensor after a check of its type and shape.
    fn find(&mut self, name: &str, dtype: Dtype, shape: &[usize]) -> Result<()> {
        let info = self.header.info(name).ok_or_else(|| self.damaged(format!("tensor {name} is missing")))?;
        if info.dtype == dtype && info.shape == shape {
            let place = SeekFrom::Start(self.data + info.data_offsets.0 as u64);
            self.input.seek(place).map_err(kstore::Error::io("read", self.path))?;
            return Ok(());
        }
        let told = |dtype: Dtype, shape: &[usize]| {
            let sides: Vec<String> = shape.iter().map(ToString::to_string).collect();
            format!("{dtype} of {}", if sides.is_empty() { "one number".to_string() } else { sides.join(" x ") })
        };
        let (got, wanted) = (told(info.dtype, &info.shape), told(dtype, shape));
        Err(self.damaged(format!("tensor {name} is {got}, but the rest of the file requires {wanted}")))
    }

    fn check_card(&self, card: &Card, m: usize, t: usize) -> Result<()> {
        let outputs = match (card.task, card.classes.len()) {
            (Task::Regression, _) => card.targets.len(),
            (Task::Classification, 2) => 1,
            (Task::Classification, k) if card.pairs => k * (k - 1) / 2,
            (Task::Classification, k) => k,
            (Task::Components | Task::Clusters, _) => t,
            (Task::Ranking | Task::Novelty, _) => 1,
        };
        if outputs != t {
            return Err(self.damaged(format!("it has {t} outputs, but its targets or classes require {outputs}")));
        }
        if let Some(encoding) = &card.encoding {
            if let Some(fault) = encoding.fault() {
                return Err(self.damaged(fault));
            }
            if encoding.names() != card.features {
                return Err(self.damaged("its columns do not match its features"));
            }
        }
        let sound = |range: &[f64; 2]| range[0] <= range[1] && range.iter().all(|end| end.is_finite());
        if !card.ranges.is_empty() && (card.ranges.len() != card.features.len() || !card.ranges.iter().all(sound)) {
            return Err(self.damaged("the ranges of its features are invalid"));
        }
        let all = self.has("probe");
        if let Some(with) = card.with.as_ref().filter(|with| all || with.functions > m) {
            return Err(self.damaged(format!("it has {m} basis functions, but its second view has {}", with.functions)));
        }
        if card.rank > m || (all && card.rank < m) {
            return Err(self.damaged(format!("it has {m} basis functions, but its rank is {}", card.rank)));
        }
        Ok(())
    }

    /// Reads the next numbers of a tensor, which must be finite.
    fn reals<V: kstore::Real>(&mut self, name: &str, count: usize) -> Result<Vec<V>> {
        let values: Vec<V> = self.values(count)?;
        match values.iter().position(|v| !v.is_finite()) {
            Some(at) => Err(self.damaged(format!(
                "tensor {name} has the value {} at position {at}; expected finite numbers",
                values[at]
            ))),
            None => Ok(values),
        }
    }

    fn values<N: Number>(&mut self, count: usize) -> Result<Vec<N>> {
        let mut values = vec![N::zeroed(); count];
        self.input.read_exact(bytemuck::cast_slice_mut(&mut values)).map_err(kstore::Error::io("read", self.path))?;
        Ok(values)
    }
}
