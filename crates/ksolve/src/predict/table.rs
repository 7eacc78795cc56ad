//! Predictions of a model for the rows of a table, segment by segment, in the order of the rows.

use super::Extras;
use super::typed::{Typed, model_term, narrowed};
use crate::train::Stages;
use crate::{Error, PreImages, Result};
use faer::{MatMut, MatRef};
use kapprox::{Kernel, Real};
use kstore::budget::Term;
use kstore::pass::lanes::{self, Lane, Lanes};
use kstore::{Coded, Fold, Missing, Pass, Reading, RowBlock, RowSource, Selected, TableRows, Workers};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Scores of the rows of a segment, with their true values and row numbers from the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// Scores, row-major, t per row.
    pub scores: Vec<f64>,
    /// Components beside the scores, row-major, q per row; empty where they were not asked for.
    pub components: Vec<f64>,
    /// The model's quadratic function, a number per row; empty where it was not asked for.
    pub quadratic: Vec<f64>,
    /// √(k(x, x) − ‖φ(x)‖²), a number per row: the coordinate outside the span of the features; empty where it was not asked for.
    pub residual: Vec<f64>,
    /// Pre-images, row-major, d per row; empty where they were not asked for.
    pub preimages: Vec<f64>,
    /// Number of pre-images whose iteration did not settle.
    pub unsettled: u64,
    /// Numeric targets of the table, row-major; empty where they were not asked for.
    pub y: Vec<f64>,
    /// Codes of the class column in the model's classes; empty where it was not asked for.
    pub classes: Vec<u32>,
    /// Stored row numbers.
    pub rows: Vec<u64>,
}

/// Buffers that a lane reuses from tile to tile.
#[derive(Debug, Default)]
pub(super) struct Scratch<T> {
    scores: Vec<f64>,
    /// Rows rounded to f32.
    x: Vec<T>,
    /// Rows behind the metric.
    behind: Vec<T>,
}

/// Bytes of the numbers of a segment, at most, and as a share of the memory: of rows with many outputs a segment has fewer. A
/// row's numbers do not depend on its segment.
const SEGMENT_BYTES: (usize, usize) = (64 << 20, 8);

/// A model at work on the rows of a table.
pub(super) struct TableScorer<'a, T: Real> {
    typed: &'a Typed<T>,
    selected: &'a Selected,
    /// Number of components that are computed beside the scores.
    components: usize,
    /// The kernel, where the model's quadratic function is computed too.
    quadratic: Option<Arc<dyn Kernel<T>>>,
    /// The kernel, where what the features leave of it is computed too.
    residual: Option<Arc<dyn Kernel<T>>>,
    preimages: Option<PreImages>,
}

impl<'a, T: Real> TableScorer<'a, T> {
    /// # Errors
    /// A model that does not hold what the `extras` need.
    pub(super) fn new(typed: &'a Typed<T>, selected: &'a Selected, extras: Extras) -> Result<Self> {
        let model = &typed.model;
        let quadratic = if extras.std || extras.novelty { Some(model.kernel()?) } else { None };
        let residual = if extras.residual { Some(model.kernel()?) } else { None };
        let preimages = if extras.preimages { Some(PreImages::new(model)?) } else { None };
        let components = if extras.components { model.component_count() } else { 0 };
        Ok(Self { typed, selected, components, quadratic, residual, preimages })
    }

    /// The number of lanes that fit the memory beside the terms `held` of the caller.
    ///
    /// # Errors
    /// A budget that does not hold one.
    pub(super) fn lanes(&self, memory: usize, threads: usize, held: Vec<Term>) -> Result<Lanes> {
        let Typed { model, functions, .. } = self.typed;
        let source = self.source()?;
        let (shape, (m, d, t)) = (source.shape(), model.dims());
        let copies = if self.preimages.is_some() { PreImages::bytes(m, d) } else { 0 };
        let single = if model.is_narrow() { shape.features * size_of::<T>() } else { 0 };
        let behind = if model.metric.is_some() { d * size_of::<T>() } else { 0 };
        let tile = lanes::TILE * (t.max(self.components) * size_of::<f64>() + single + behind);
        let range = self.selected.range();
        let segment = self.segment(shape.targets, memory).min(range.end - range.start) as usize;
        let lane = Lane {
            tile: lanes::TILE,
            name: "kernel values and scores",
            bytes: model.scratch_bytes(1) + tile + segment * self.row_bytes(shape.targets),
            shared: [held, vec![model_term(model, &**functions, copies)]].concat(),
        };
        Ok(lanes::lanes("prediction", &source, &lane, memory, threads)?)
    }

    /// Bytes of the numbers of a row that wait in a segment: scores, components, the quadratic function and the residual, the
    /// pre-image, the targets, the code of the class, the number of the row.
    fn row_bytes(&self, targets: usize) -> usize {
        let (_, d, t) = self.typed.model.dims();
        let preimages = if self.preimages.is_some() { d } else { 0 };
        let extras = usize::from(self.quadratic.is_some()) + usize::from(self.residual.is_some());
        let numbers = t + self.components + extras + targets + preimages;
        numbers * size_of::<f64>() + size_of::<u32>() + size_of::<u64>()
    }

    /// Number of stored rows of a segment.
    fn segment(&self, targets: usize, memory: usize) -> u64 {
        let bytes = SEGMENT_BYTES.0.min(memory / SEGMENT_BYTES.1);
        let tiles = bytes / self.row_bytes(targets) / lanes::TILE;
        ((tiles.max(1) * lanes::TILE) as u64).min(lanes::SEGMENT)
    }

    /// The rows as they are scaled; the metric follows once they are rounded.
    fn source(&self) -> Result<TableRows<T>> {
        let labels = &self.typed.model.card.classes;
        let classes = (!labels.is_empty()).then(|| Arc::new(labels.clone()));
        let scaler = Some(Arc::new(self.typed.scaler.clone()));
        Ok(self.selected.rows::<T>(Reading { scaler, classes, ..Reading::default() })?)
    }

    /// Scores every selected row and hands the segments to `deliver`, in row order. Returns the number of rows.
    ///
    /// # Errors
    /// Errors of the source and of `deliver`, and a table without rows.
    pub(super) fn run(
        &self,
        run: &crate::job::Run<'_>,
        lanes: usize,
        mut deliver: impl FnMut(&Scores) -> Result<()> + Send,
    ) -> Result<u64> {
        let source = self.source()?;
        let watch = run.watched();
        let observer = watch.stage("predict", self.selected.known_rows());
        let segment = self.segment(source.shape().targets, run.bytes());
        let pass = Pass { segment, ..lanes::scan(lanes, run.workers(), &*observer) };
        let report = pass.segments(&source, self, |_: Range<u64>, scores: Scores| deliver(&scores))?;
        if report.rows == 0 {
            let what = self.selected.table().files().next().map(|file| file.display().to_string()).unwrap_or_default();
            let why = "no row is left after `rows`, `where` and `missing`; ask for more rows".to_string();
            return Err(kstore::Error::Empty { what, why }.into());
        }
        self.tell(report.rows, &watch);
        Ok(report.rows)
    }

    /// Tells of values that the fit did not see, and of rows that were left out.
    fn tell(&self, rows: u64, stages: &dyn Stages) {
        for (column, count) in self.selected.unseen() {
            stages.warn(format!(
                "column {column}: {count} of {rows} rows have a value that the fit did not see; such a value is like none of those that it saw"
            ));
        }
        let range = self.selected.range();
        let all = range.end - range.start;
        if self.selected.missing() == Missing::Drop && !self.selected.is_filtered() && rows < all {
            stages.warn(format!("{} of {all} rows have a missing value and are left out (`missing` drop)", all - rows));
        }
    }

    /// Refuses a value that is not finite. `values` has the same number of values for each of `rows`.
    fn check(&self, what: &'static str, values: &[f64], rows: &[u64]) -> Result<()> {
        let Some(at) = values.iter().position(|value| !value.is_finite()) else { return Ok(()) };
        let (row, value) = (rows[at * rows.len() / values.len()], values[at]);
        let (path, row) = self.selected.table().locate(row).unwrap_or((Path::new("the table"), row));
        Err(Error::NotFinitePrediction { path: path.to_path_buf(), row, what, value })
    }
}

impl<T: Real> Fold<T> for TableScorer<'_, T> {
    type State = Scores;
    type Scratch = Scratch<T>;
    type Error = Error;

    fn init(&self) -> Scores {
        Scores::default()
    }

    fn scratch(&self) -> Scratch<T> {
        Scratch::default()
    }

    fn step(
        &self,
        state: &mut Scores,
        scratch: &mut Scratch<T>,
        block: &RowBlock<'_, T>,
        workers: &Workers,
    ) -> Result<()> {
        let Typed { model, functions, .. } = self.typed;
        let (b, t) = (block.len(), model.dims().2);
        let Scratch { scores, x, behind } = scratch;
        scores.resize(b * t, 0.0);
        let narrow = model.is_narrow();
        if narrow {
            x.clear();
            x.extend(block.x.iter().map(|value| T::from_f64(narrowed(value.to_f64()))));
        }
        let x = if narrow { &x[..] } else { block.x };
        let x = match &model.metric {
            None => x,
            Some(metric) => {
                behind.resize(b * metric.outputs(), T::ZERO);
                self.typed.put_behind(metric, x, behind);
                &behind[..]
            }
        };
        let x = MatRef::from_row_major_slice(x, b, model.dims().1);
        let out = MatMut::from_column_major_slice_mut(&mut scores[..b * t], b, t);
        model.predict(&**functions, x, out, workers)?;
        let first = state.scores.len();
        state.scores.extend((0..b).flat_map(|i| (0..t).map(move |j| (i, j))).map(|(i, j)| scores[j * b + i]));
        self.check("the prediction", &state.scores[first..], block.rows)?;
        if self.components > 0 {
            let q = self.components;
            scores.resize(b * q.max(t), 0.0);
            let out = MatMut::from_column_major_slice_mut(&mut scores[..b * q], b, q);
            model.predict_components(&**functions, x, out, workers)?;
            let first = state.components.len();
            state.components.extend((0..b).flat_map(|i| (0..q).map(move |j| (i, j))).map(|(i, j)| scores[j * b + i]));
            self.check("the component", &state.components[first..], block.rows)?;
        }
        if let Some(kernel) = &self.quadratic {
            let first = state.quadratic.len();
            state.quadratic.resize(first + b, 0.0);
            let out = &mut state.quadratic[first..];
            model.predict_quadratic(&**functions, &**kernel, x, out, workers)?;
            self.check("the variance or distance", out, block.rows)?;
        }
        if let Some(kernel) = &self.residual {
            let of_rows = state.scores[first..].chunks_exact(t.max(1));
            let first = state.residual.len();
            state.residual.resize(first + b, 0.0);
            let out = &mut state.residual[first..];
            kernel.diag(x, out);
            for (out, phi) in out.iter_mut().zip(of_rows) {
                // rounding may have the projection longer than what is projected
                *out = (*out - phi.iter().map(|v| v * v).sum::<f64>()).max(0.0).sqrt();
            }
            self.check("the residual", out, block.rows)?;
        }
        if let Some(preimages) = &self.preimages {
            let first = state.preimages.len();
            state.preimages.resize(first + b * block.d, 0.0);
            let out = &mut state.preimages[first..];
            state.unsettled += preimages.apply(model, &**functions, x, out, workers)? as u64;
            self.check("the pre-image", out, block.rows)?;
        }
        state.y.extend(block.y);
        state.classes.extend(block.classes.iter().flat_map(|Coded { codes, .. }| *codes));
        state.rows.extend(block.rows);
        Ok(())
    }
}
