//! Applies a model to the rows of a table and gives their scores in row order.

use crate::args::data::SelectArgs;
use crate::args::run::Run;
use crate::passes::{self, Lane, Lanes};
use crate::{Error, Result, convert};
use faer::MatMut;
use kapprox::{FeatureMap, Kernel, Real};
use ksolve::{AnyModel, Card, Classes, Link, Model, PreImages};
use kstore::budget::Term;
use kstore::{Coded, Fold, Plan, Reading, RowBlock, RowSource, Scaler, Selected, Selection, TableRows, Workers};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A model with the functions of its basis, and the rows it is to be used on.
#[derive(Debug)]
pub struct Predictor<T: Real> {
    model: Model<T>,
    functions: Box<dyn FeatureMap<T>>,
    selected: Selected,
    /// True where rows are rounded to f32 first, as in the fit, though the model predicts in f64: categories that were
    /// equal to those of a landmark in the fit must be equal here too.
    narrow: bool,
    /// The kernel, where the model's quadratic function is computed too.
    quadratic: Option<Arc<dyn Kernel<T>>>,
    preimages: Option<PreImages>,
}

/// The columns of true values that a table must have beside the features.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Truth {
    /// None: the table may lack the target.
    Absent,
    /// The target columns of these names, or in `FILE.npy`; without names those of the fit.
    Columns(Vec<String>),
}

/// Scores of the rows of a segment, with their true values and row numbers from the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// Scores, row-major, t per row.
    pub scores: Vec<f64>,
    /// The model's quadratic function, a number per row; empty where it was not asked for.
    pub quadratic: Vec<f64>,
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
pub struct Scratch<T> {
    scores: Vec<f64>,
    /// Rows rounded to f32.
    x: Vec<T>,
}

/// Loads a model, unless its file alone is larger than the memory budget.
///
/// # Errors
/// [`kstore::Error::OverBudget`], and files that hold no model.
pub fn load(path: &Path, run: &Run) -> Result<AnyModel> {
    let bytes = std::fs::metadata(path).map_or(0, |file| usize::try_from(file.len()).unwrap_or(usize::MAX));
    Plan::process("the model", run.memory, run.threads, 0).term("its file", bytes, SMALLER).check()?;
    Ok(AnyModel::load(path)?)
}

const SMALLER: &str = "fit a model of lower --rank";

/// The term of the plan for a loaded model, whose functions hold the landmarks once more.
pub fn model_term<T: Real>(model: &Model<T>, functions: &dyn FeatureMap<T>, copies: usize) -> Term {
    passes::term("model", model.bytes() + functions.footprint().fixed + copies, SMALLER)
}

/// The classes of a model; `None` for a regression.
///
/// # Errors
/// A file with a single class.
pub fn classes(card: &Card) -> Result<Option<Classes>> {
    let labels = (!card.classes.is_empty()).then(|| Classes::new(card.classes.clone()));
    let classes = labels.transpose()?;
    Ok(if card.pairs { classes.map(Classes::in_pairs) } else { classes })
}

/// The files as one table, with the columns that the model knows by name.
///
/// # Errors
/// Files that cannot be opened, and columns that are not there.
pub fn select(card: &Card, args: &SelectArgs, truth: &Truth) -> Result<Selected> {
    convert::only_convert_keeps(args.missing)?;
    let text = args.text.options();
    let (table, targets) = match truth {
        Truth::Absent => convert::open(&args.paths, &text, &[])?,
        Truth::Columns(names) => convert::open(&args.paths, &text, names)?,
    };
    let class_target = !card.classes.is_empty() && !targets.is_empty();
    let selection = convert::selection(args, &card.features, targets);
    Ok(table.select(&Selection { class_target, ..selection })?)
}

/// The rows of `selected` with the columns `keep`, which are only carried along.
///
/// # Errors
/// Columns that are not there, or hold what cannot be carried.
pub fn kept(selected: &Selected, args: &SelectArgs, keep: &[String]) -> Result<Selected> {
    let all = Selection {
        keep: keep.to_vec(),
        without_features: true,
        missing: kstore::Missing::Mean,
        ..Selection::default()
    };
    Ok(selected.table().select(&Selection { rows: args.rows.clone(), filter: args.condition.clone(), ..all })?)
}

impl<T: Real> Predictor<T> {
    /// Prepares a model for the rows of `selected`.
    ///
    /// # Errors
    /// A kernel or a map that this version does not know.
    pub fn new(model: Model<T>, selected: Selected) -> Result<Self> {
        let functions = model.functions()?;
        let narrow = model.is_narrow();
        Ok(Self { model, functions, selected, narrow, quadratic: None, preimages: None })
    }

    /// From here on the model's quadratic function is computed for every row too.
    ///
    /// # Errors
    /// A kernel that this version does not know.
    pub(crate) fn compute_quadratic(&mut self) -> Result<()> {
        self.quadratic = Some(self.model.kernel()?);
        Ok(())
    }

    /// From here on the pre-image of every row is computed too.
    ///
    /// # Errors
    /// A model without pre-images.
    pub(crate) fn find_preimages(&mut self) -> Result<()> {
        self.preimages = Some(PreImages::new(&self.model)?);
        Ok(())
    }

    /// Number of outputs, t.
    pub fn outputs(&self) -> usize {
        self.model.intercept.len()
    }

    /// Names of the target columns that the table brings.
    pub fn target_names(&self) -> Vec<String> {
        self.selected.target_names()
    }

    /// The number of lanes that fit the memory beside the terms `held` of the caller.
    ///
    /// # Errors
    /// A budget that does not hold one.
    pub fn lanes(&self, run: &Run, held: Vec<Term>) -> Result<Lanes> {
        let source = self.source()?;
        let shape = source.shape();
        let quadratic = usize::from(self.quadratic.is_some());
        // scores and the quadratic function, the targets, the code of the class, the number of the row
        let row = (self.outputs() + quadratic + shape.targets) * size_of::<f64>() + size_of::<u32>() + size_of::<u64>();
        let (m, d, _) = self.model.dims();
        let (copies, preimages) = match self.preimages {
            Some(_) => (PreImages::bytes(m, d), d * size_of::<f64>()),
            None => (0, 0),
        };
        let row = row + preimages;
        let narrowed = if self.narrow { shape.features * size_of::<T>() } else { 0 };
        let tile = passes::TILE * (self.outputs() * size_of::<f64>() + narrowed);
        let lane = Lane {
            tile: passes::TILE,
            name: "kernel values and scores",
            bytes: self.model.scratch_bytes(1) + tile + self.rows_at_once() * row,
            shared: [held, vec![model_term(&self.model, &*self.functions, copies)]].concat(),
        };
        passes::lanes("prediction", &source, &lane, run)
    }

    fn source(&self) -> Result<TableRows<T>> {
        Ok(self.selected.rows::<T>(self.reading())?)
    }

    /// Scores every selected row and hands the segments to `deliver`, in row order. Returns the number of rows.
    ///
    /// # Errors
    /// Errors of the source and of `deliver`, and a table without rows.
    pub fn run(&self, run: &Run, lanes: usize, mut deliver: impl FnMut(&Scores) -> Result<()> + Send) -> Result<u64> {
        let source = self.source()?;
        let workers = Workers::new(if lanes > 1 { 1 } else { run.threads });
        let stage = run.progress.stage("predict", self.selected.known_rows());
        let pass = passes::pass(lanes, &workers, &stage);
        let report = pass.segments(&source, self, |_: Range<u64>, scores: Scores| deliver(&scores))?;
        if report.rows == 0 {
            let what = self.selected.table().files().next().map(|file| file.display().to_string()).unwrap_or_default();
            let why = "no row is left after --rows, --where and --missing; ask for more rows".to_string();
            return Err(kstore::Error::Empty { what, why }.into());
        }
        stage.finish();
        Ok(report.rows)
    }

    /// Refuses a value that is not finite. `values` has the same number of values for each of `rows`.
    fn check(&self, what: &'static str, values: &[f64], rows: &[u64]) -> Result<()> {
        let Some(at) = values.iter().position(|value| !value.is_finite()) else { return Ok(()) };
        let (row, value) = (rows[at * rows.len() / values.len()], values[at]);
        let (path, row) = self.selected.table().locate(row).unwrap_or((Path::new("the table"), row));
        Err(Error::NotFinite { path: path.to_path_buf(), row, what, value })
    }

    /// Most rows of a segment.
    pub fn rows_at_once(&self) -> usize {
        let range = self.selected.range();
        passes::SEGMENT.min(range.end - range.start) as usize
    }

    /// Rows of the table that are scored, where that is known.
    pub fn known_rows(&self) -> Option<u64> {
        self.selected.known_rows()
    }

    /// How scores become probabilities; `None` where they do not.
    pub fn link(&self) -> Option<Link> {
        self.model.card.link.clone()
    }

    /// The model's scaling and classes, for reading the rows.
    fn reading(&self) -> Reading {
        let Model { centre, scale, mean, .. } = &self.model;
        let scaler = Scaler { centre: centre.clone(), scale: scale.clone(), mean: mean.clone() };
        let labels = &self.model.card.classes;
        let classes = (!labels.is_empty()).then(|| Arc::new(labels.clone()));
        Reading { scaler: Some(Arc::new(scaler)), classes, ..Reading::default() }
    }
}

impl<T: Real> Fold<T> for Predictor<T> {
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
        let (b, t) = (block.len(), self.outputs());
        let Scratch { scores, x } = scratch;
        scores.resize(b * t, 0.0);
        if self.narrow {
            x.clear();
            x.extend(
                block.x.iter().map(|value| T::from_f64(f64::from((value.to_f64() as f32).clamp(f32::MIN, f32::MAX)))),
            );
        }
        let x = if self.narrow { &x[..] } else { block.x };
        let x = faer::MatRef::from_row_major_slice(x, b, block.d);
        let out = MatMut::from_column_major_slice_mut(&mut scores[..b * t], b, t);
        self.model.predict(&*self.functions, x, out, workers)?;
        let first = state.scores.len();
        state.scores.extend((0..b).flat_map(|i| (0..t).map(move |j| (i, j))).map(|(i, j)| scores[j * b + i]));
        self.check("the prediction", &state.scores[first..], block.rows)?;
        if let Some(kernel) = &self.quadratic {
            let first = state.quadratic.len();
            state.quadratic.resize(first + b, 0.0);
            let out = &mut state.quadratic[first..];
            self.model.predict_quadratic(&*self.functions, &**kernel, x, out, workers)?;
            self.check("the variance or distance", out, block.rows)?;
        }
        if let Some(preimages) = &self.preimages {
            let first = state.preimages.len();
            state.preimages.resize(first + b * block.d, 0.0);
            let out = &mut state.preimages[first..];
            state.unsettled += preimages.apply(&self.model, &*self.functions, x, out, workers)? as u64;
            self.check("the pre-image", out, block.rows)?;
        }
        state.y.extend(block.y);
        state.classes.extend(block.classes.iter().flat_map(|Coded { codes, .. }| *codes));
        state.rows.extend(block.rows);
        Ok(())
    }
}
