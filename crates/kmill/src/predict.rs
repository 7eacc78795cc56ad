//! `kmill predict`: a model's predictions for a table, in the order of its rows.

use crate::args::PredictArgs;
use crate::args::run::Run;
use crate::predictor::{Predictor, Scores, Truth};
use crate::table::count;
use crate::{Result, output, predictor};
use ksolve::{AnyModel, Classes, Model};
use kstore::Label;
use kstore::sink::{self, Output, OutputColumn, OutputKind, Sink};
use std::path::Path;
use std::sync::Arc;

/// What scores become.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Numbers, one for each target.
    Numbers,
    /// The label of the largest score.
    Labels(Classes),
}

/// A file of predictions being written; dropped before [`PredictionWriter::finish`], it leaves nothing.
pub struct PredictionWriter {
    sink: Box<dyn Sink>,
    decision: Decision,
    kind: OutputKind,
    t: usize,
}

impl std::fmt::Debug for PredictionWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PredictionWriter").field("decision", &self.decision).finish_non_exhaustive()
    }
}

impl PredictionWriter {
    /// Starts a file with the column `prediction`, or `prediction_<target>` for several targets; `targets` are their
    /// names. Labels keep their type: integers, truth values or text.
    ///
    /// # Errors
    /// A path that cannot be written, an extension that is not known, text labels in `.npy`.
    pub fn create(path: &Path, targets: &[String], decision: Decision) -> Result<Self> {
        let kind = match &decision {
            Decision::Numbers => OutputKind::F64,
            Decision::Labels(classes) => label_kind(classes.labels()),
        };
        let columns: Vec<OutputColumn> = match targets {
            [_] => vec![OutputColumn::new("prediction", kind)],
            several => several.iter().map(|name| OutputColumn::new(format!("prediction_{name}"), kind)).collect(),
        };
        let t = match &decision {
            Decision::Numbers => columns.len(),
            Decision::Labels(classes) => classes.targets(),
        };
        Ok(Self { sink: sink::create(path, &columns)?, decision, kind, t })
    }

    /// Appends the predictions of a segment.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&mut self, scores: &Scores) -> Result<()> {
        let t = self.t;
        match &self.decision {
            Decision::Numbers => {
                let column = |j: usize| scores.scores.iter().skip(j).step_by(t).copied().collect();
                let columns: Vec<Vec<f64>> = (0..t).map(column).collect();
                let batch: Vec<Output<'_>> = columns.iter().map(|column| Output::F64(column)).collect();
                Ok(self.sink.write(&batch)?)
            }
            Decision::Labels(classes) => {
                let rows = scores.scores.chunks_exact(t);
                let labels = rows.map(|row| &classes.labels()[classes.decide(row.iter().copied())]);
                Ok(write_labels(&mut *self.sink, self.kind, labels)?)
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

/// The column type that holds all labels as they were.
fn label_kind(labels: &[Label]) -> OutputKind {
    match labels {
        labels if labels.iter().all(|label| matches!(label, Label::Int(_))) => OutputKind::I64,
        labels if labels.iter().all(|label| matches!(label, Label::Bool(_))) => OutputKind::Bool,
        _ => OutputKind::Text,
    }
}

fn write_labels<'a>(
    sink: &mut dyn Sink,
    kind: OutputKind,
    labels: impl Iterator<Item = &'a Label>,
) -> kstore::Result<()> {
    match kind {
        OutputKind::I64 => {
            let values: Vec<i64> = labels.map(|l| if let Label::Int(value) = l { *value } else { 0 }).collect();
            sink.write(&[Output::I64(&values)])
        }
        OutputKind::Bool => {
            let values: Vec<bool> = labels.map(|l| *l == Label::Bool(true)).collect();
            sink.write(&[Output::Bool(&values)])
        }
        _ => {
            let text = |label: &Label| match label {
                Label::Text(text) => Arc::clone(text),
                other => other.to_string().into(),
            };
            sink.write(&[Output::Text(&labels.map(text).collect::<Vec<_>>())])
        }
    }
}

/// Writes the predictions of a model and gives the number of rows.
///
/// # Errors
/// Files that cannot be read or do not fit the model; then nothing is written.
pub fn run(args: &PredictArgs, run: &Run) -> Result<u64> {
    output::check(&args.output)?;
    match AnyModel::load(&args.model)? {
        AnyModel::F32(model) => write(model, args, run),
        AnyModel::F64(model) => write(model, args, run),
    }
}

fn write<T: kapprox::Real>(model: Model<T>, args: &PredictArgs, run: &Run) -> Result<u64> {
    let selected = predictor::select(&model.card, &args.data, &Truth::Absent)?;
    output::spare(&args.output, selected.table(), Some(&args.model))?;
    let decision = predictor::classes(&model.card)?.map_or(Decision::Numbers, Decision::Labels);
    let mut out = PredictionWriter::create(&args.output, &model.card.targets, decision)?;
    let rows = Predictor::new(model, selected)?.run(run, |scores| out.write(scores))?;
    out.finish()?;
    Ok(rows)
}

/// `kmill predict`.
pub(crate) fn main(args: &PredictArgs) -> Result<()> {
    let context = args.run.resolve();
    let rows = run(args, &context)?;
    if context.json {
        return output::json(&serde_json::json!({"rows": rows, "files": [&args.output]}));
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
        let mut out = PredictionWriter::create(&path, &targets, decision).unwrap();
        out.write(&Scores { scores, ..Scores::default() }).unwrap();
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
            let decision = Decision::Labels(Classes::new(labels).unwrap());
            assert_eq!(written(decision, &["y"], vec![-1.0, 0.5]), (columns(&[("prediction", kind)]), 2));
        }
    }
}
