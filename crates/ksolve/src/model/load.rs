//! Reading a model file; see [`super::file`] for what is in it.

use super::file::{FORMAT_VERSION, KEY, dtype};
use super::{AnyModel, Basis, Card, Form, Model};
use crate::{Error, Head, Quadratic, Result, Task};
use faer::Mat;
use kapprox::metric::Metric;
use kapprox::{Real, Spec};
use safetensors::Dtype;
use safetensors::tensor::Metadata;
use serde_json::Value;
use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek};
use std::path::Path;
use std::sync::Arc;

/// Most bytes of a header; larger ones count as damage, as in safetensors itself.
const MOST_HEADER_BYTES: u64 = 100_000_000;

/// Elements converted at once.
const CHUNK: usize = 8192;

impl AnyModel {
    /// Reads a model of either precision.
    ///
    /// # Errors
    /// [`Error::UnknownKernel`], [`Error::NotSafetensors`], [`Error::Foreign`], [`Error::NewerFormat`], [`Error::Truncated`],
    /// [`Error::Damaged`], [`kstore::Error::NotFound`] and [`kstore::Error::Io`].
    pub fn load(path: &Path) -> Result<Self> {
        // opening a pipe without a writer would wait for ever
        if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(kstore::Error::NotAFile { path: path.into() }.into());
        }
        let file = File::open(path).map_err(kstore::Error::io("read", path))?;
        let length = file.metadata().map_err(kstore::Error::io("read", path))?.len();
        Self::read(Reader { path, input: BufReader::new(file), length })
    }

    /// Reads a model from the bytes of its file.
    ///
    /// # Errors
    /// The errors of [`AnyModel::load`], but for those of the path.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (path, length) = (Path::new("the model in memory"), bytes.len() as u64);
        Self::read(Reader { path, input: BufReader::new(Cursor::new(bytes)), length })
    }

    fn read<R: Read + Seek>(mut reader: Reader<'_, R>) -> Result<Self> {
        let header = reader.header()?;
        let card = reader.card(&header)?;
        if let Err(kapprox::Error::UnknownKernel { name, .. }) = Spec::parse(&card.kernel) {
            return Err(Error::UnknownKernel { path: reader.path.into(), kernel: name });
        }
        match card.precision.as_str() {
            "f32" => reader.model(&header, card).map(Self::F32),
            "f64" => reader.model(&header, card).map(Self::F64),
            other => Err(reader.damaged(format!("unknown precision {other:?}"))),
        }
    }
}

struct Reader<'a, R> {
    path: &'a Path,
    input: BufReader<R>,
    length: u64,
}

impl<R: Read + Seek> Reader<'_, R> {
    fn damaged(&self, detail: impl Into<String>) -> Error {
        Error::Damaged { path: self.path.into(), detail: detail.into() }
    }

    fn foreign_bytes(&self, detail: impl ToString) -> Error {
        Error::NotSafetensors { path: self.path.into(), detail: detail.to_string() }
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<()> {
        Ok(self.input.read_exact(bytes).map_err(kstore::Error::io("read", self.path))?)
    }

    /// Reads the header, and checks it against the length of the file before anything of its size is allocated.
    fn header(&mut self) -> Result<Metadata> {
        if self.length < 8 {
            return Err(self.foreign_bytes(format!("it has {} bytes", self.length)));
        }
        let mut size = [0; 8];
        self.read(&mut size)?;
        let size = u64::from_le_bytes(size);
        if size > MOST_HEADER_BYTES {
            return Err(self.foreign_bytes("its first bytes are no header length"));
        }
        let truncated = |expected, got| Error::Truncated { path: self.path.into(), expected, got };
        if size + 8 > self.length {
            let mut rest = Vec::new();
            self.input.read_to_end(&mut rest).map_err(kstore::Error::io("read", self.path))?;
            // a header that starts as one was cut off; anything else never was one
            let cut = rest.first() == Some(&b'{');
            return Err(if cut { truncated(size + 8, self.length) } else { self.foreign_bytes("no header") });
        }
        let mut json = vec![0; size as usize];
        self.input.read_exact(&mut json).map_err(kstore::Error::io("read", self.path))?;
        let header: Metadata =
            serde_json::from_slice(&json).map_err(|_| self.foreign_bytes("its header is no list of arrays"))?;
        let expected = 8 + size + header.data_len() as u64;
        match self.length {
            got if got < expected => Err(Error::Truncated { path: self.path.into(), expected, got }),
            got if got > expected => Err(self.damaged(format!("{} bytes too many at its end", got - expected))),
            _ => Ok(header),
        }
    }

    /// Reads the card. The version is checked before anything that a newer format might have changed.
    fn card(&self, header: &Metadata) -> Result<Card> {
        let foreign = || Error::Foreign { path: self.path.into() };
        let text = header.metadata().as_ref().and_then(|map| map.get(KEY)).ok_or_else(foreign)?;
        let value: Value = serde_json::from_str(text).map_err(|_| self.damaged("its kmill entry is no JSON"))?;
        let version = value["format_version"].as_u64().ok_or_else(|| self.damaged("it has no format_version"))?;
        if version > FORMAT_VERSION {
            let needs = value["needs_kmill"].as_str().unwrap_or("a newer version").to_string();
            return Err(Error::NewerFormat { path: self.path.into(), found: version, known: FORMAT_VERSION, needs });
        }
        serde_json::from_value(value).map_err(|_| self.damaged("its kmill entry lacks a part, or has one that is none"))
    }

    fn model<T: Real>(&mut self, header: &Metadata, card: Card) -> Result<Model<T>> {
        let shape = |name: &str| header.info(name).map(|info| info.shape.clone());
        let (m, t) = match shape("coefficients").as_deref() {
            Some([m, t]) => (*m, *t),
            _ => return Err(self.damaged("tensor coefficients is missing or no matrix")),
        };
        let d = card.features.len();
        let mut basis = match header.info("probe") {
            Some(_) => Basis::Features { probe: Vec::new() },
            None => Basis::Landmarks { points: Vec::new(), rows: Vec::new() },
        };
        let (inside, diagonal) = self.metric_shape(header, d)?;
        let (form, points) = self.form(header, m)?;
        let of_basis: &[(&str, Dtype, &[usize])] = match basis {
            Basis::Features { .. } => &[("probe", Dtype::F64, &[m])],
            Basis::Landmarks { .. } => {
                &[("landmark_rows", Dtype::U64, &[points]), ("landmarks", dtype::<T>(), &[points, inside])]
            }
        };
        let others: [(&str, Dtype, &[usize]); 5] = [
            ("coefficients", Dtype::F64, &[m, t]),
            ("intercept", Dtype::F64, &[t]),
            ("scaler.centre", Dtype::F64, &[d]),
            ("scaler.mean", Dtype::F64, &[d]),
            ("scaler.scale", Dtype::F64, &[d]),
        ];
        for &(name, dtype, shape) in others.iter().chain(of_basis) {
            self.check_tensor(header, name, dtype, shape)?;
        }
        self.check_card(&card, &basis, m, t)?;
        let q = self.check_components(header, m)?;
        let has_quadratic = self.check_quadratic(header, m, t)?;
        let (mut shift, mut units, mut scalars) = (Vec::new(), Vec::new(), Vec::new());
        let (mut factor, mut features) = (Mat::new(), None);
        let mut components = Head { weights: Mat::new(), intercept: Vec::new() };
        let mut model = Model {
            card,
            basis: Basis::Features { probe: Vec::new() },
            form,
            coefficients: Mat::new(),
            intercept: Vec::new(),
            centre: Vec::new(),
            scale: Vec::new(),
            mean: Vec::new(),
            metric: None,
            quadratic: None,
            components: None,
        };
        for name in header.offset_keys() {
            let Some(info) = header.info(&name) else { continue };
            let count: usize = info.shape.iter().product();
            match (name.as_str(), &mut basis) {
                ("landmarks", Basis::Landmarks { points, .. }) => *points = self.reals(&name, info.dtype, count)?,
                ("landmark_rows", Basis::Landmarks { rows, .. }) => *rows = self.numbers(count, u64::from_le_bytes)?,
                ("probe", Basis::Features { probe }) => *probe = self.reals(&name, info.dtype, count)?,
                ("coefficients", _) => {
                    model.coefficients = self.matrix(&name, info.dtype, m, t)?;
                }
                ("degree.coefficients", _) => {
                    if let Form::OverDegree { coefficients, .. } = &mut model.form {
                        *coefficients = self.reals(&name, info.dtype, count)?;
                    }
                }
                ("degree.floor", _) => {
                    let floors: Vec<f64> = self.reals(&name, info.dtype, count)?;
                    if let (Form::OverDegree { floor, .. }, [found]) = (&mut model.form, &floors[..]) {
                        *floor = *found;
                    }
                }
                ("neighbours", _) => {
                    let counts = self.numbers(count, u64::from_le_bytes)?;
                    if let (Form::Weights { neighbours } | Form::Paths { neighbours, .. }, [found]) =
                        (&mut model.form, &counts[..])
                    {
                        *neighbours = usize::try_from(*found).unwrap_or(usize::MAX);
                    }
                }
                ("paths", _) => {
                    if let Form::Paths { lengths, .. } = &mut model.form {
                        *lengths = self.matrix(&name, info.dtype, m, points)?;
                    }
                }
                ("intercept", _) => model.intercept = self.reals(&name, info.dtype, count)?,
                ("scaler.centre", _) => model.centre = self.reals(&name, info.dtype, count)?,
                ("quadratic.shift", _) => shift = self.reals(&name, info.dtype, count)?,
                ("quadratic.units", _) => units = self.reals(&name, info.dtype, count)?,
                ("quadratic.scalars", _) => scalars = self.reals(&name, info.dtype, count)?,
                ("quadratic.factor", _) => factor = self.matrix(&name, info.dtype, info.shape[0], info.shape[1])?,
                ("quadratic.features", _) => {
                    features = Some(self.matrix(&name, info.dtype, info.shape[0], info.shape[1])?);
                }
                ("components.coefficients", _) => components.weights = self.matrix(&name, info.dtype, m, q)?,
                ("components.intercept", _) => components.intercept = self.reals(&name, info.dtype, count)?,
                ("metric", _) => {
                    let numbers: Vec<f64> = self.reals(&name, info.dtype, count)?;
                    let metric = if diagonal { Metric::diagonal(numbers) } else { Metric::matrix(&numbers, inside) };
                    model.metric = Some(Arc::new(metric.map_err(|error| self.damaged(error.to_string()))?));
                }
                ("scaler.mean", _) => model.mean = self.reals(&name, info.dtype, count)?,
                ("scaler.scale", _) => model.scale = self.reals(&name, info.dtype, count)?,
                _ => {
                    // a tensor that a later kmill added without changing the meaning of the rest
                    let bytes = (info.data_offsets.1 - info.data_offsets.0) as i64;
                    self.input.seek_relative(bytes).map_err(kstore::Error::io("read", self.path))?;
                }
            }
        }
        match &model.form {
            Form::OverDegree { floor, .. } if *floor <= 0.0 => {
                return Err(self.damaged(format!("its least degree is {floor}")));
            }
            Form::Weights { neighbours } | Form::Paths { neighbours, .. } if !(1..=points).contains(neighbours) => {
                return Err(self.damaged(format!("it has {points} nodes, of which it takes {neighbours}")));
            }
            _ => {}
        }
        let quadratic = match scalars[..] {
            [residual, _] if residual <= 0.0 => {
                return Err(self.damaged(format!("what its map leaves out counts {residual} times")));
            }
            [residual, constant] if has_quadratic => {
                Some(Quadratic { factor, shift, features, constant, residual, units })
            }
            _ => None,
        };
        Ok(Model { basis, quadratic, components: (q > 0).then_some(components), ..model })
    }

    /// The form of the functions, without its numbers, and the number of points of a basis of landmarks.
    fn form(&self, header: &Metadata, m: usize) -> Result<(Form, usize)> {
        if header.info("degree.coefficients").is_some() {
            self.check_tensor(header, "degree.coefficients", Dtype::F64, &[m])?;
            self.check_tensor(header, "degree.floor", Dtype::F64, &[1])?;
            return Ok((Form::OverDegree { coefficients: Vec::new(), floor: 0.0 }, m));
        }
        if header.info("neighbours").is_none() {
            return Ok((Form::Plain, m));
        }
        self.check_tensor(header, "neighbours", Dtype::U64, &[1])?;
        let Some(paths) = header.info("paths") else { return Ok((Form::Weights { neighbours: 0 }, m)) };
        let points = paths.shape.last().copied().unwrap_or_default();
        self.check_tensor(header, "paths", Dtype::F64, &[m, points])?;
        Ok((Form::Paths { neighbours: 0, lengths: Mat::new() }, points))
    }

    /// Number of features behind the metric, and whether it is diagonal; d without one.
    fn metric_shape(&self, header: &Metadata, d: usize) -> Result<(usize, bool)> {
        let Some(info) = header.info("metric") else { return Ok((d, true)) };
        let (r, shape) = match info.shape[..] {
            [r, _] if r > 0 => (r, vec![r, d]),
            _ => (d, vec![d]),
        };
        self.check_tensor(header, "metric", Dtype::F64, &shape)?;
        Ok((r, shape.len() == 1))
    }

    /// Number of coordinates beside the predictions, 0 without. An error where their shapes do not fit the rest of the file.
    fn check_components(&self, header: &Metadata, m: usize) -> Result<usize> {
        let [coefficients, intercept] = ["components.coefficients", "components.intercept"];
        if header.info(coefficients).is_none() && header.info(intercept).is_none() {
            return Ok(0);
        }
        let q = header.info(intercept).map_or(0, |info| info.shape.iter().product());
        self.check_tensor(header, coefficients, Dtype::F64, &[m, q])?;
        self.check_tensor(header, intercept, Dtype::F64, &[q])?;
        Ok(q)
    }

    /// True where the file has a quadratic function. An error where its shapes do not fit the rest of the file.
    fn check_quadratic(&self, header: &Metadata, m: usize, t: usize) -> Result<bool> {
        let names = ["shift", "factor", "features", "units", "scalars"].map(|name| format!("quadratic.{name}"));
        if names.iter().all(|name| header.info(name).is_none()) {
            return Ok(false);
        }
        let [shift, factor, features, units, scalars] = &names;
        let q = header.info(shift).map_or(0, |info| info.shape.iter().product());
        let t = if header.info(units).is_some_and(|info| info.shape == [1]) { 1 } else { t };
        let expected: [(&str, &[usize]); 4] = [(shift, &[q]), (factor, &[m, q]), (units, &[t]), (scalars, &[2])];
        expected.iter().try_for_each(|(name, shape)| self.check_tensor(header, name, Dtype::F64, shape))?;
        if let Some(info) = header.info(features) {
            self.check_tensor(header, features, Dtype::F64, &[m, info.shape.last().copied().unwrap_or_default()])?;
        }
        Ok(true)
    }

    /// Reads a row-major matrix of finite numbers.
    fn matrix(&mut self, name: &str, dtype: Dtype, rows: usize, columns: usize) -> Result<Mat<f64>> {
        let mut matrix = Mat::zeros(rows, columns);
        for i in 0..rows {
            let row: Vec<f64> = self.reals(name, dtype, columns)?;
            matrix.row_mut(i).iter_mut().zip(row).for_each(|(to, from)| *to = from);
        }
        Ok(matrix)
    }

    fn check_tensor(&self, header: &Metadata, name: &str, dtype: Dtype, shape: &[usize]) -> Result<()> {
        let info = header.info(name).ok_or_else(|| self.damaged(format!("tensor {name} is missing")))?;
        if info.dtype == dtype && info.shape == shape {
            return Ok(());
        }
        let told = |dtype: Dtype, shape: &[usize]| {
            let sides: Vec<String> = shape.iter().map(ToString::to_string).collect();
            format!("{dtype} of {}", if sides.is_empty() { "one number".to_string() } else { sides.join(" x ") })
        };
        let (got, wanted) = (told(info.dtype, &info.shape), told(dtype, shape));
        Err(self.damaged(format!("tensor {name} is {got}, the rest of it says {wanted}")))
    }

    fn check_card<T>(&self, card: &Card, basis: &Basis<T>, m: usize, t: usize) -> Result<()> {
        let outputs = match (card.task, card.classes.len()) {
            (Task::Regression, _) => card.targets.len(),
            (Task::Classification, 2) => 1,
            (Task::Classification, k) if card.pairs => k * (k - 1) / 2,
            (Task::Classification, k) => k,
            (Task::Components | Task::Clusters, _) => t,
            (Task::Novelty, _) => 1,
        };
        if outputs != t {
            return Err(self.damaged(format!("it has {t} outputs for {outputs} targets or classes")));
        }
        if let Some(encoding) = &card.encoding {
            if let Some(fault) = encoding.fault() {
                return Err(self.damaged(fault));
            }
            if encoding.names() != card.features {
                return Err(self.damaged("its columns do not make its features"));
            }
        }
        let all = matches!(basis, Basis::Features { .. });
        if let Some(with) = card.with.as_ref().filter(|with| all || with.functions > m) {
            return Err(self.damaged(format!("it has {m} functions, its second view {}", with.functions)));
        }
        if card.rank > m || (all && card.rank < m) {
            return Err(self.damaged(format!("it has {m} functions, its rank is {}", card.rank)));
        }
        Ok(())
    }

    /// Reads so many finite numbers and converts them to `V`.
    fn reals<V: kstore::Real>(&mut self, name: &str, dtype: Dtype, count: usize) -> Result<Vec<V>> {
        let values: Vec<V> = if dtype == Dtype::F32 {
            self.numbers(count, |bytes| V::from_f64(f32::from_le_bytes(bytes).into()))?
        } else {
            self.numbers(count, |bytes| V::from_f64(f64::from_le_bytes(bytes)))?
        };
        match values.iter().position(|v| !v.to_f64().is_finite()) {
            Some(at) => Err(self.damaged(format!("tensor {name} holds {} at {at}", values[at]))),
            None => Ok(values),
        }
    }

    fn numbers<const N: usize, V>(&mut self, count: usize, of: impl Fn([u8; N]) -> V) -> Result<Vec<V>> {
        let mut values = Vec::with_capacity(count);
        let mut bytes = vec![0; N * CHUNK.min(count)];
        while values.len() < count {
            let part = &mut bytes[..N * CHUNK.min(count - values.len())];
            self.input.read_exact(part).map_err(kstore::Error::io("read", self.path))?;
            values.extend(part.as_chunks::<N>().0.iter().map(|chunk| of(*chunk)));
        }
        Ok(values)
    }
}
