//! `kmill predict`: a model's predictions for a table, in the order of its rows.

use crate::args::PredictArgs;
use crate::args::run::Run;
use crate::carried::{self, Carried};
use crate::predictor::{Predictor, Scores, Truth};
use crate::table::count;
use crate::{Error, Result, output, passes, predictor, writer};
use ksolve::{AnyModel, Classes, Link, Model, Task};
use kstore::budget::Term;
use kstore::sink::{self, Output, OutputColumn, OutputKind, Sink};
use kstore::{KeptValues, Label, RowSource, Selected, Strings, TILE_TEXT, TextLimit};
use std::ops::Range;
use std::path::Path;

/// What scores become.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Numbers, one for each target.
    Numbers,
    /// Numbers and their standard deviations, by the variance of the noise of each target.
    Deviations(Vec<f64>),
    /// Coordinates.
    Components {
        /// How many.
        count: usize,
        /// The distance of the row from what they span comes too.
        novelty: bool,
        /// Names of the features whose pre-images come too; none without.
        preimages: Vec<String>,
    },
    /// The position of the largest score.
    Clusters(usize),
    /// The score itself, negative for novel rows; and the squared distance that it falls with, where the score is this threshold
    /// less that.
    Novelty(Option<f64>),
    /// The label of the largest score, and the probabilities of all where there is a link.
    Labels(Classes, Option<Link>),
}

/// A file of predictions being written; dropped before [`PredictionWriter::finish`], it leaves nothing.
pub struct PredictionWriter {
    sink: Box<dyn Sink>,
    decision: Decision,
    kind: OutputKind,
    t: usize,
    /// Number of columns that are not carried along.
    columns: usize,
}

impl std::fmt::Debug for PredictionWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PredictionWriter").field("decision", &self.decision).finish_non_exhaustive()
    }
}

impl PredictionWriter {
    /// Starts a file with the kept columns and then `prediction`, or `prediction_<target>` for several targets;
    /// `targets` are their names. Labels keep their type: integers, truth values or text.
    ///
    /// # Errors
    /// A path that cannot be written, an extension that is not known, text in `.npy`, a kept column that is called as
    /// the predictions are.
    pub fn create(path: &Path, kept: &[OutputColumn], targets: &[String], decision: Decision) -> Result<Self> {
        let kind = match &decision {
            Decision::Numbers | Decision::Deviations(_) | Decision::Components { .. } | Decision::Novelty(_) => {
                OutputKind::F64
            }
            Decision::Clusters(_) => OutputKind::I64,
            Decision::Labels(classes, _) => label_kind(classes.labels()),
        };
        let mut predictions: Vec<OutputColumn> = match (&decision, targets) {
            (Decision::Components { count, .. }, _) => {
                (0..*count).map(|j| OutputColumn::new(format!("component_{j}"), kind)).collect()
            }
            (Decision::Novelty(_), _) => vec![OutputColumn::new("score", kind)],
            (Decision::Clusters(_), _) | (_, [_]) => vec![OutputColumn::new("prediction", kind)],
            (_, several) => several.iter().map(|name| OutputColumn::new(format!("prediction_{name}"), kind)).collect(),
        };
        let t = match &decision {
            Decision::Clusters(k) => *k,
            Decision::Labels(classes, _) => classes.targets(),
            _ => predictions.len(),
        };
        if let Decision::Components { novelty, preimages, .. } = &decision {
            predictions.extend(novelty.then(|| OutputColumn::new("novelty", kind)));
            predictions.extend(preimages.iter().map(|name| OutputColumn::new(format!("preimage_{name}"), kind)));
        }
        if let Decision::Novelty(Some(_)) = &decision {
            predictions.push(OutputColumn::new("squared_distance", kind));
        }
        if let Decision::Deviations(_) = &decision {
            let of = |name: &str| match targets {
                [_] => vec![OutputColumn::new(name, kind)],
                several => several.iter().map(|target| OutputColumn::new(format!("{name}_{target}"), kind)).collect(),
            };
            predictions.extend(["std", "std_mean"].iter().flat_map(|name| of(name)));
        }
        if let Decision::Labels(classes, Some(_)) = &decision {
            let column = |label: &Label| OutputColumn::new(format!("probability_{label}"), OutputKind::F64);
            predictions.extend(classes.labels().iter().map(column));
        }
        if let Some(twice) = kept.iter().find(|column| predictions.iter().any(|p| p.name == column.name)) {
            let why = "the predictions are called so";
            return Err(Error::option("--keep", &twice.name, why, "leave the column out or rename it"));
        }
        let columns = predictions.len();
        Ok(Self { sink: sink::create(path, &[kept, &predictions].concat())?, decision, kind, t, columns })
    }

    /// Appends the predictions of a segment, beside the columns that are carried along.
    ///
    /// # Errors
    /// Those of the file system, and of reading what is carried along.
    pub(crate) fn write(&mut self, scores: &Scores, carried: Option<&mut Carried<'_>>) -> Result<()> {
        let (mut carried, mut done) = (carried, 0);
        while done < scores.rows.len() {
            let (rows, kept) = match &mut carried {
                Some(carried) => carried.next(&scores.rows[done..])?,
                None => (carried::TILE.min(scores.rows.len() - done), &[][..]),
            };
            let predictions = self.predictions(scores, done..done + rows);
            let kept = kept.iter().map(Output::Kept);
            let batch: Vec<Output<'_>> = kept.chain(predictions.iter().map(KeptValues::as_output)).collect();
            self.sink.write(&batch)?;
            done += rows;
        }
        Ok(())
    }

    /// Bytes held while rows are written: what waits in the sink, and predictions by columns.
    pub(crate) fn footprint(&self) -> usize {
        let longest = match &self.decision {
            Decision::Labels(classes, _) => classes.labels().iter().map(|label| label.to_string().len()).max(),
            _ => None,
        };
        self.sink.footprint() + carried::TILE * (self.columns * size_of::<f64>() + 4 * longest.unwrap_or(0))
    }

    /// The columns that the scores of some rows become.
    fn predictions(&self, scores: &Scores, rows: Range<usize>) -> Vec<KeptValues> {
        let t = self.t;
        let wide = &scores.scores[rows.start * t..rows.end * t];
        match &self.decision {
            Decision::Clusters(_) => {
                let rows = wide.chunks_exact(t);
                vec![KeptValues::I64(rows.map(|row| largest(row) as i64).collect())]
            }
            Decision::Numbers | Decision::Deviations(_) | Decision::Components { .. } | Decision::Novelty(_) => {
                let column = |j: usize| wide.iter().skip(j).step_by(t).copied().collect();
                let mut columns: Vec<KeptValues> = (0..t).map(|j| KeptValues::F64(column(j))).collect();
                if let Decision::Components { novelty, preimages, .. } = &self.decision {
                    let d = preimages.len();
                    let preimage = |c: usize| {
                        let values = scores.preimages[rows.start * d..rows.end * d].iter();
                        values.skip(c).step_by(d).copied().collect()
                    };
                    columns.extend(novelty.then(|| KeptValues::F64(scores.quadratic[rows.clone()].to_vec())));
                    columns.extend((0..d).map(|c| KeptValues::F64(preimage(c))));
                }
                if let Decision::Novelty(Some(threshold)) = self.decision {
                    // rounding may have a row nearer than the mean itself
                    let distance = |score: &f64| (threshold - score).max(0.0);
                    columns.push(KeptValues::F64(wide.iter().map(distance).collect()));
                }
                if let Decision::Deviations(noise) = &self.decision {
                    // that of an observation has the noise once more
                    for more in [1.0, 0.0] {
                        let variances = &scores.quadratic[rows.clone()];
                        let of = |noise: &f64| variances.iter().map(|v| (noise * (v + more)).sqrt()).collect();
                        columns.extend(noise.iter().map(|noise| KeptValues::F64(of(noise))));
                    }
                }
                columns
            }
            Decision::Labels(classes, link) => {
                let rows = || wide.chunks_exact(t);
                let decided = rows().map(|row| &classes.labels()[classes.decide(row.iter().copied())]);
                let mut columns = vec![labels(self.kind, decided)];
                if let Some(link) = link {
                    columns.extend(probabilities(link, rows(), classes.labels().len()));
                }
                columns
            }
        }
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn finish(self) -> Result<()> {
        Ok(self.sink.finish()?)
    }
}

/// A column for each of k classes.
fn probabilities<'a>(link: &Link, rows: impl Iterator<Item = &'a [f64]>, k: usize) -> Vec<KeptValues> {
    let (mut columns, mut row) = (vec![Vec::new(); k], Vec::new());
    for scores in rows {
        link.probabilities(scores, &mut row);
        columns.iter_mut().zip(&row).for_each(|(column, probability)| column.push(*probability));
    }
    columns.into_iter().map(KeptValues::F64).collect()
}

/// The position of the largest score; of equal ones the first.
fn largest(scores: &[f64]) -> usize {
    (0..scores.len()).fold(0, |best, j| if scores[j] > scores[best] { j } else { best })
}

/// The column type that holds all labels as they were.
fn label_kind(labels: &[Label]) -> OutputKind {
    match labels {
        labels if labels.iter().all(|label| matches!(label, Label::Int(_))) => OutputKind::I64,
        labels if labels.iter().all(|label| matches!(label, Label::Bool(_))) => OutputKind::Bool,
        _ => OutputKind::Text,
    }
}

fn labels<'a>(kind: OutputKind, labels: impl Iterator<Item = &'a Label>) -> KeptValues {
    match kind {
        OutputKind::I64 => {
            KeptValues::I64(labels.map(|l| if let Label::Int(value) = l { *value } else { 0 }).collect())
        }
        OutputKind::Bool => KeptValues::Bool(labels.map(|l| *l == Label::Bool(true)).collect()),
        _ => {
            let mut texts = Strings::default();
            labels.for_each(|label| texts.push(label.to_string().as_bytes()));
            KeptValues::Text(texts)
        }
    }
}

/// Writes the predictions of a model and gives the number of rows.
///
/// # Errors
/// Files that cannot be read or do not fit the model; then nothing is written.
pub fn run(args: &PredictArgs, run: &Run) -> Result<u64> {
    output::check(&args.output)?;
    match predictor::load(&args.model, run)? {
        AnyModel::F32(model) => write(model, args, run),
        AnyModel::F64(model) => write(model, args, run),
    }
}

fn write<T: kapprox::Real>(model: Model<T>, args: &PredictArgs, run: &Run) -> Result<u64> {
    let selected = predictor::select(&model.card, &args.data, &Truth::Absent)?;
    let kept = predictor::kept(&selected, &args.data, &args.keep)?;
    output::spare(&args.output, selected.table(), Some(&args.model))?;
    let outputs = model.dims().2;
    if args.probabilities && model.card.link.is_none() {
        let why = format!("the scores of {} are no probabilities", model.card.solver);
        return Err(Error::option(
            "--probabilities",
            "",
            why,
            "leave it out, or fit logistic, or svm with --probabilities",
        ));
    }
    let asked = [
        ("--std", args.std, "ridge with --std", Task::Regression),
        ("--novelty", args.novelty, "kpca with --novelty", Task::Components),
        ("--preimage", args.preimage, "kpca with --novelty", Task::Components),
    ];
    for (option, _, needed, task) in asked.into_iter().filter(|(_, given, ..)| *given) {
        if model.quadratic.is_none() || model.card.task != task {
            let remedy = format!("fit {needed}, or leave it out");
            return Err(Error::option(option, "", "the model does not hold what that needs", remedy));
        }
    }
    let noise = model.quadratic.as_ref().filter(|_| args.std).map(|variance| variance.units.clone());
    let decision = match (model.card.task, predictor::classes(&model.card)?) {
        (_, Some(classes)) => {
            Decision::Labels(classes, if args.probabilities { model.card.link.clone() } else { None })
        }
        (Task::Components, None) => Decision::Components {
            count: outputs,
            novelty: args.novelty,
            preimages: if args.preimage { model.card.features.clone() } else { Vec::new() },
        },
        (Task::Clusters, None) => Decision::Clusters(outputs),
        (Task::Novelty, None) => Decision::Novelty(model.quadratic.as_ref().map(|_| model.intercept[0])),
        (Task::Regression | Task::Classification, None) => noise.map_or(Decision::Numbers, Decision::Deviations),
    };
    let mut out = PredictionWriter::create(&args.output, &kept.kept_columns(), &model.card.targets, decision)?;
    let mut predictor = Predictor::new(model, selected)?;
    if args.std || args.novelty {
        predictor.compute_quadratic()?;
    }
    if args.preimage {
        predictor.find_preimages()?;
    }
    let lanes = predictor.lanes(run, held(&out, &kept)?)?;
    let carried_source = carried::source(&kept, TextLimit::new(run.memory, lanes.spare, carried::COPIES))?;
    let mut carried = if args.keep.is_empty() { None } else { Some(Carried::new(&carried_source)?) };
    let mut unsettled = 0;
    let rows = predictor.run(run, lanes.count, |scores| {
        unsettled += scores.unsettled;
        out.write(scores, carried.as_mut())
    })?;
    if unsettled > 0 {
        run.progress.warn(format!("the pre-images of {} of {} rows did not settle", count(unsettled), count(rows)));
    }
    out.finish()?;
    Ok(rows)
}

/// What is held beside the lanes: what is written, and the columns that are carried along.
fn held(out: &PredictionWriter, kept: &Selected) -> Result<Vec<Term>> {
    let mut held = vec![passes::term("row group being written", out.footprint(), "keep fewer columns with --keep")];
    if !kept.kept_columns().is_empty() {
        let source = carried::source(kept, TextLimit::default())?;
        let texts = if kept.keeps_text() { carried::COPIES * TILE_TEXT } else { 0 };
        // the rows of a tile that are written once more
        let bytes = RowSource::<f64>::footprint(&source).at(2 * carried::TILE) + texts;
        held.push(passes::term("columns that are carried along", bytes, "keep fewer columns with --keep"));
    }
    Ok(held)
}

/// `kmill predict`.
pub(crate) fn main(args: &PredictArgs) -> Result<()> {
    let context = args.run.resolve();
    let rows = run(args, &context)?;
    if context.json {
        return output::json(&writer::Written { rows, files: std::slice::from_ref(&args.output) });
    }
    context.progress.note(&format!("{} predictions in {}", count(rows), args.output.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(decision: Decision, targets: &[&str], scores: Vec<f64>) -> (Vec<(String, String)>, u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.parquet");
        let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
        let mut out = PredictionWriter::create(&path, &[], &targets, decision).unwrap();
        let rows = (0..scores.len() as u64 / out.t as u64).collect();
        out.write(&Scores { scores, rows, ..Scores::default() }, None).unwrap();
        out.finish().unwrap();
        let table = kstore::Table::open(&[path]).unwrap();
        let columns = table.schema().columns.iter().map(|c| (c.name.clone(), c.kind.to_string()));
        (columns.collect(), table.stored_rows())
    }

    fn columns(named: &[(&str, &str)]) -> Vec<(String, String)> {
        named.iter().map(|(name, kind)| (name.to_string(), kind.to_string())).collect()
    }

    #[test]
    fn one_target_is_a_column_called_prediction() {
        let got = written(Decision::Numbers, &["y"], vec![1.0, 2.0, 3.0]);
        assert_eq!(got, (columns(&[("prediction", "float64")]), 3));
    }

    #[test]
    fn several_targets_are_named() {
        let got = written(Decision::Numbers, &["a", "b"], vec![1.0, 2.0, 3.0, 4.0]);
        assert_eq!(got, (columns(&[("prediction_a", "float64"), ("prediction_b", "float64")]), 2));
    }

    #[test]
    fn labels_keep_their_type() {
        for (labels, kind) in [
            (vec![Label::Int(3), Label::Int(9)], "int64"),
            (vec![Label::Bool(false), Label::Bool(true)], "bool"),
            (vec![Label::Text("a".into()), Label::Text("b".into())], "text"),
        ] {
            let decision = Decision::Labels(Classes::new(labels).unwrap(), None);
            assert_eq!(written(decision, &["y"], vec![-1.0, 0.5]), (columns(&[("prediction", kind)]), 2));
        }
    }
}
