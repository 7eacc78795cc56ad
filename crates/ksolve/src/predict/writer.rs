//! Predictions of a model for a table, into a file, in the order of its rows.

use super::carried::{self, Carried};
use super::{Extras, NOISE, Predictor, Scores, deviation};
use crate::job::Run;
use crate::{Classes, Error, Link, Result, Task};
use kstore::budget::Term;
use kstore::sink::{self, Output, OutputColumn, OutputKind, Sink};
use kstore::{KeptValues, Label, RowSource, Selected, Strings, TILE_TEXT, TextLimit};
use std::ops::Range;
use std::path::Path;

/// The kind of predictions that are made of the scores of a model.
#[derive(Clone, Debug)]
enum Decision {
    /// Numbers, one for each target.
    Numbers,
    /// Numbers and their standard deviations, by the variance of the noise of each target.
    Deviations(Vec<f64>),
    /// Coordinates along the components.
    Components {
        /// Number of components.
        count: usize,
        /// True where the squared distance of the row from the span of the components is written too.
        novelty: bool,
        /// Names of the features whose pre-images are written too; empty without pre-images.
        preimages: Vec<String>,
    },
    /// The group of a row, which is the position of its largest score, among so many groups.
    Clusters(usize),
    /// The score, negative for novel rows. Where the score is a threshold less a squared distance, this is the
    /// threshold, and the distance is written too.
    Novelty(Option<f64>),
    /// The label of the largest score, and the probabilities of all labels where there is a link.
    Labels(Classes, Option<Link>),
}

/// A file of predictions being written; dropped before [`PredictionWriter::finish`], it leaves nothing.
struct PredictionWriter {
    sink: Box<dyn Sink>,
    decision: Decision,
    kind: OutputKind,
    t: usize,
    /// Number of columns of predictions, without the columns that are carried along.
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
    fn create(path: &Path, kept: &[OutputColumn], targets: &[String], decision: Decision) -> Result<Self> {
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
            return Err(Error::option("keep", &twice.name, format!("{why}; leave the column out or rename it")));
        }
        let columns = predictions.len();
        Ok(Self { sink: sink::create(path, &[kept, &predictions].concat())?, decision, kind, t, columns })
    }

    /// Appends the predictions of a segment, beside the columns that are carried along.
    ///
    /// # Errors
    /// Errors of the file system, and of reading what is carried along.
    fn write(&mut self, scores: &Scores, carried: Option<&mut Carried<'_>>) -> Result<()> {
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

    /// Bytes held while rows are written: the values that wait in the file writer, and the predictions by columns.
    fn footprint(&self) -> usize {
        let longest = match &self.decision {
            Decision::Labels(classes, _) => classes.labels().iter().map(|label| label.to_string().len()).max(),
            _ => None,
        };
        self.sink.footprint() + carried::TILE * (self.columns * size_of::<f64>() + 4 * longest.unwrap_or(0))
    }

    /// The columns of predictions, made from the scores of some rows.
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
                    // a new observation has the variance of the noise in addition
                    for more in [NOISE, 0.0] {
                        let variances = &scores.quadratic[rows.clone()];
                        let of = |noise: &f64| variances.iter().map(|v| deviation(*noise, v + more)).collect();
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

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// Errors of the file system.
    fn finish(self) -> Result<()> {
        Ok(self.sink.finish()?)
    }
}

/// The columns of probabilities, one for each of k classes.
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

/// The column type that holds all labels without changing them.
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

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Predicted {
    /// Number of rows.
    pub rows: u64,
    /// Number of rows whose pre-image did not settle.
    pub unsettled: u64,
}

impl Predictor {
    /// Writes the predictions of the selected rows to a file, in their order: `prediction`, or `prediction_<target>` for several
    /// targets, labels as they were in the fit, beside the columns that `kept` selects from the same rows. The extension of
    /// `path` is the format.
    ///
    /// # Errors
    /// Extras that the model does not hold; those of [`Predictor::scores`]; a path that cannot be written. Then nothing is
    /// written.
    pub fn write(
        &self,
        selected: &Selected,
        kept: Option<&Selected>,
        extras: Extras,
        path: &Path,
        run: &Run<'_>,
    ) -> Result<Predicted> {
        self.check(extras)?;
        let columns = kept.map_or(Vec::new(), Selected::kept_columns);
        let mut out = PredictionWriter::create(path, &columns, &self.card().targets, self.decision(extras))?;
        let held = held(&out, kept)?;
        let texts = TextLimit::new(run.bytes(), self.spare(selected, extras, held.clone(), run)?, carried::COPIES);
        let source = kept.map(|kept| carried::source(kept, texts)).transpose()?;
        let mut carried = source.as_ref().map(Carried::new).transpose()?;
        let mut unsettled = 0;
        let rows = self.scores(selected, extras, held, run, |scores| {
            unsettled += scores.unsettled;
            out.write(scores, carried.as_mut())
        })?;
        out.finish()?;
        Ok(Predicted { rows, unsettled })
    }

    /// The columns that are made of the scores.
    fn decision(&self, extras: Extras) -> Decision {
        let (card, outputs) = (self.card(), self.outputs());
        match (card.task, self.classes()) {
            (_, Some(classes)) => Decision::Labels(classes.clone(), card.link.clone().filter(|_| extras.probabilities)),
            (Task::Components, None) => Decision::Components {
                count: outputs,
                novelty: extras.novelty,
                preimages: if extras.preimages { card.features.clone() } else { Vec::new() },
            },
            (Task::Clusters, None) => Decision::Clusters(outputs),
            (Task::Novelty, None) => Decision::Novelty(self.quadratic().map(|_| self.intercept()[0])),
            (Task::Regression | Task::Classification, None) => match self.quadratic().filter(|_| extras.std) {
                Some(variance) => Decision::Deviations(variance.units.clone()),
                None => Decision::Numbers,
            },
        }
    }
}

/// The terms of the plan beside the lanes: the file being written, and the columns that are carried along.
fn held(out: &PredictionWriter, kept: Option<&Selected>) -> Result<Vec<Term>> {
    let mut held = vec![Term::new("row group being written", out.footprint(), "keep fewer columns with `keep`")];
    if let Some(kept) = kept {
        let source = carried::source(kept, TextLimit::default())?;
        let texts = if kept.keeps_text() { carried::COPIES * TILE_TEXT } else { 0 };
        // the rows of a tile that are written once more
        let bytes = RowSource::<f64>::footprint(&source).at(2 * carried::TILE) + texts;
        held.push(Term::new("columns that are carried along", bytes, "keep fewer columns with `keep`"));
    }
    Ok(held)
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
