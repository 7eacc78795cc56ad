//! The model file: safetensors with one metadata entry, `kmill`.
//!
//! | tensor | type | shape |
//! |---|---|---|
//! | `landmarks` | F32 or F64 | m x d, for a basis of landmarks |
//! | `landmark_rows` | U64 | m, for a basis of landmarks |
//! | `probe` | F64 | m, for a basis of features |
//! | `coefficients` | F64 | m x t |
//! | `intercept` | F64 | t |
//! | `scaler.centre`, `scaler.scale`, `scaler.mean` | F64 | d |
//!
//! The entry holds the [`Card`] and `format_version` as JSON with sorted keys. One entry, because safetensors writes
//! several in random order; with that, the same model is the same bytes.

use super::{AnyModel, Basis, Card, Model};
use crate::{Error, Result, Task};
use faer::Mat;
use kapprox::Real;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

/// Format written by this version.
pub const FORMAT_VERSION: u64 = 1;

/// First kmill that reads [`FORMAT_VERSION`]; stands in the file, so that an older kmill can name it.
pub const NEEDS_KMILL: &str = "0.1.0";

/// Name of the metadata entry.
const KEY: &str = "kmill";

/// Largest header that is believed; safetensors' own limit.
const MOST_HEADER_BYTES: u64 = 100_000_000;

/// Elements converted at once when reading and writing.
const CHUNK: usize = 8192;

/// A tensor to be written.
enum Data<'a, T> {
    Real(&'a [T]),
    Wide(Vec<f64>),
    Rows(&'a [u64]),
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

    fn check_finite(&self) -> Result<()> {
        let remedy = "raise --lambda or use --precision f64";
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
            ("the intercept of the model", finite(&self.intercept)),
            ("the scaler of the model", finite(&self.centre) && finite(&self.scale) && finite(&self.mean)),
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
        let (m, d, t) = self.dims();
        let rows = (0..m).flat_map(|i| (0..t).map(move |j| (i, j)));
        let coefficients = rows.map(|at| self.coefficients[at]).collect();
        let mut tensors = vec![
            ("coefficients", Dtype::F64, vec![m, t], Data::Wide(coefficients)),
            ("intercept", Dtype::F64, vec![t], Data::Wide(self.intercept.clone())),
            ("scaler.centre", Dtype::F64, vec![d], Data::Wide(self.centre.clone())),
            ("scaler.mean", Dtype::F64, vec![d], Data::Wide(self.mean.clone())),
            ("scaler.scale", Dtype::F64, vec![d], Data::Wide(self.scale.clone())),
        ];
        match &self.basis {
            Basis::Landmarks { points, rows } => tensors.extend([
                ("landmark_rows", Dtype::U64, vec![m], Data::Rows(rows)),
                ("landmarks", dtype::<T>(), vec![m, d], Data::Real(points)),
            ]),
            Basis::Features { probe } => tensors.push(("probe", Dtype::F64, vec![m], Data::Wide(probe.clone()))),
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

/// The same value with the keys of every object in order, whatever map serde_json was built with.
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

fn dtype<T: Real>() -> Dtype {
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
            Data::Wide(values) => values.iter().try_for_each(|v| out.write_all(&v.to_le_bytes()))?,
            Data::Rows(values) => values.iter().try_for_each(|v| out.write_all(&v.to_le_bytes()))?,
        }
    }
    Ok(())
}

impl AnyModel {
    /// Reads a model of either precision.
    ///
    /// # Errors
    /// [`Error::NotSafetensors`], [`Error::Foreign`], [`Error::NewerFormat`], [`Error::Truncated`],
    /// [`Error::Damaged`], [`kstore::Error::NotFound`] and [`kstore::Error::Io`].
    pub fn load(path: &Path) -> Result<Self> {
        // opening a pipe without a writer would wait for ever
        if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(kstore::Error::NotAFile { path: path.into() }.into());
        }
        let file = File::open(path).map_err(kstore::Error::io("read", path))?;
        let length = file.metadata().map_err(kstore::Error::io("read", path))?.len();
        let mut reader = Reader { path, input: BufReader::new(file), length };
        let header = reader.header()?;
        let card = reader.card(&header)?;
        match card.precision.as_str() {
            "f32" => reader.model(&header, card).map(Self::F32),
            "f64" => reader.model(&header, card).map(Self::F64),
            other => Err(reader.damaged(format!("unknown precision {other:?}"))),
        }
    }
}

struct Reader<'a> {
    path: &'a Path,
    input: BufReader<File>,
    length: u64,
}

impl Reader<'_> {
    fn damaged(&self, detail: impl Into<String>) -> Error {
        Error::Damaged { path: self.path.into(), detail: detail.into() }
    }

    fn foreign_bytes(&self, detail: impl ToString) -> Error {
        Error::NotSafetensors { path: self.path.into(), detail: detail.to_string() }
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<()> {
        Ok(self.input.read_exact(bytes).map_err(kstore::Error::io("read", self.path))?)
    }

    /// The header, checked against the length of the file before anything of its size is allocated.
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
        let header: Metadata = serde_json::from_slice(&json).map_err(|e| self.foreign_bytes(e))?;
        let expected = 8 + size + header.data_len() as u64;
        match self.length {
            got if got < expected => Err(Error::Truncated { path: self.path.into(), expected, got }),
            got if got > expected => Err(self.damaged(format!("{} bytes too many at its end", got - expected))),
            _ => Ok(header),
        }
    }

    /// The card; the version is looked at before anything a newer format might have changed.
    fn card(&self, header: &Metadata) -> Result<Card> {
        let foreign = || Error::Foreign { path: self.path.into() };
        let text = header.metadata().as_ref().and_then(|map| map.get(KEY)).ok_or_else(foreign)?;
        let value: Value = serde_json::from_str(text).map_err(|e| self.damaged(e.to_string()))?;
        let version = value["format_version"].as_u64().ok_or_else(|| self.damaged("it has no format_version"))?;
        if version > FORMAT_VERSION {
            let needs = value["needs_kmill"].as_str().unwrap_or("a newer version").to_string();
            return Err(Error::NewerFormat { path: self.path.into(), found: version, known: FORMAT_VERSION, needs });
        }
        serde_json::from_value(value).map_err(|e| self.damaged(e.to_string()))
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
        let of_basis: &[(&str, Dtype, &[usize])] = match basis {
            Basis::Features { .. } => &[("probe", Dtype::F64, &[m])],
            Basis::Landmarks { .. } => &[("landmark_rows", Dtype::U64, &[m]), ("landmarks", dtype::<T>(), &[m, d])],
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
        let mut model = Model {
            card,
            basis: Basis::Features { probe: Vec::new() },
            coefficients: Mat::new(),
            intercept: Vec::new(),
            centre: Vec::new(),
            scale: Vec::new(),
            mean: Vec::new(),
        };
        for name in header.offset_keys() {
            let Some(info) = header.info(&name) else { continue };
            let count: usize = info.shape.iter().product();
            match (name.as_str(), &mut basis) {
                ("landmarks", Basis::Landmarks { points, .. }) => *points = self.reals(&name, info.dtype, count)?,
                ("landmark_rows", Basis::Landmarks { rows, .. }) => *rows = self.numbers(count, u64::from_le_bytes)?,
                ("probe", Basis::Features { probe }) => *probe = self.reals(&name, info.dtype, count)?,
                ("coefficients", _) => {
                    let values: Vec<f64> = self.reals(&name, info.dtype, count)?;
                    model.coefficients = Mat::from_fn(m, t, |i, j| values[i * t + j]);
                }
                ("intercept", _) => model.intercept = self.reals(&name, info.dtype, count)?,
                ("scaler.centre", _) => model.centre = self.reals(&name, info.dtype, count)?,
                ("scaler.mean", _) => model.mean = self.reals(&name, info.dtype, count)?,
                ("scaler.scale", _) => model.scale = self.reals(&name, info.dtype, count)?,
                _ => {
                    // what a later kmill added without changing the meaning of the rest
                    let bytes = (info.data_offsets.1 - info.data_offsets.0) as i64;
                    self.input.seek_relative(bytes).map_err(kstore::Error::io("read", self.path))?;
                }
            }
        }
        Ok(Model { basis, ..model })
    }

    fn check_tensor(&self, header: &Metadata, name: &str, dtype: Dtype, shape: &[usize]) -> Result<()> {
        let info = header.info(name).ok_or_else(|| self.damaged(format!("tensor {name} is missing")))?;
        if info.dtype == dtype && info.shape == shape {
            return Ok(());
        }
        let (got, got_shape) = (info.dtype, &info.shape);
        Err(self.damaged(format!("tensor {name} is {got:?} {got_shape:?}, the rest of it says {dtype:?} {shape:?}")))
    }

    fn check_card<T>(&self, card: &Card, basis: &Basis<T>, m: usize, t: usize) -> Result<()> {
        let outputs = match (card.task, card.classes.len()) {
            (Task::Regression, _) => card.targets.len(),
            (Task::Classification, 2) => 1,
            (Task::Classification, k) => k,
            (Task::Components | Task::Clusters, _) => t,
            (Task::Novelty, _) => 1,
        };
        if outputs != t {
            return Err(self.damaged(format!("it has {t} outputs for {outputs} targets or classes")));
        }
        let all = matches!(basis, Basis::Features { .. });
        if card.rank > m || (all && card.rank < m) {
            return Err(self.damaged(format!("it has {m} functions, its rank is {}", card.rank)));
        }
        Ok(())
    }

    /// Finite numbers in `R`.
    fn reals<R: kstore::Real>(&mut self, name: &str, dtype: Dtype, count: usize) -> Result<Vec<R>> {
        let values: Vec<R> = if dtype == Dtype::F32 {
            self.numbers(count, |bytes| R::from_f64(f32::from_le_bytes(bytes).into()))?
        } else {
            self.numbers(count, |bytes| R::from_f64(f64::from_le_bytes(bytes)))?
        };
        match values.iter().position(|v| !v.to_f64().is_finite()) {
            Some(at) => Err(self.damaged(format!("tensor {name} holds {} at {at}", values[at]))),
            None => Ok(values),
        }
    }

    fn numbers<const N: usize, R>(&mut self, count: usize, of: impl Fn([u8; N]) -> R) -> Result<Vec<R>> {
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
