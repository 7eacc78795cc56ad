//! Writes predictions of a model for a table to a file, in row order.

use super::carried::{self, Carried};
use super::{Extras, Predictor, Scores, decision::ColumnGroup};
use crate::run::{COPIES, Run};
use crate::{Error, Result};
use kstore::sink::{self, Output, OutputColumn, Sink};
use kstore::{KeptColumn, Missing, RowSource, Selected, TILE_TEXT, TextLimit, budget::Term};
use std::{ops::Range, path::Path};

/// Approximate bytes of a row group of a wide table, and of the metadata of one column in a row
/// group, measured with 1,000 columns.
const GROUP_BYTES: usize = 64 << 20;
const NOTE_BYTES: usize = 2 << 10;

/// A prediction file being written; dropping it before [`PredictionWriter::finish`] leaves no file.
pub(super) struct PredictionWriter {
    pub(super) sink: Box<dyn Sink>,
    pub(super) parts: Vec<ColumnGroup>,
    /// Number of prediction columns, without the kept columns.
    columns: usize,
}

impl PredictionWriter {
    /// Creates a file with the kept columns followed by the prediction columns, which are nullable
    /// if `optional`.
    pub(super) fn create(path: &Path, kept: &[OutputColumn], parts: Vec<ColumnGroup>, optional: bool) -> Result<Self> {
        let own = parts.iter().flat_map(ColumnGroup::columns);
        let predictions: Vec<OutputColumn> =
            own.map(|column| if optional { column.nullable() } else { column }).collect();
        if let Some(twice) = kept.iter().find(|column| predictions.iter().any(|p| p.name == column.name)) {
            let why = "a prediction column has this name";
            return Err(Error::option("keep", &twice.name, format!("{why}; rename the column, or do not keep it")));
        }
        let columns = predictions.len();
        Ok(Self { sink: sink::create(path, &[kept, &predictions].concat())?, parts, columns })
    }

    /// Appends the predictions of a segment, with the kept columns.
    fn write(&mut self, scores: &Scores, carried: Option<&mut Carried<'_>>) -> Result<()> {
        let (mut carried, mut done) = (carried, 0);
        while done < scores.rows.len() {
            let (rows, kept) = match &mut carried {
                Some(carried) => carried.next(&scores.rows[done..])?,
                None => (carried::TILE.min(scores.rows.len() - done), &[][..]),
            };
            self.put(scores, done..done + rows, kept)?;
            done += rows;
        }
        Ok(())
    }

    pub(super) fn put(&mut self, scores: &Scores, rows: Range<usize>, kept: &[KeptColumn]) -> Result<()> {
        let valid: Vec<bool> = scores.incomplete.get(rows.clone()).unwrap_or_default().iter().map(|row| !row).collect();
        let predictions = self.parts.iter().flat_map(|part| part.values(scores, rows.clone()));
        let predictions: Vec<KeptColumn> =
            predictions.map(|values| KeptColumn::new_valid(values, valid.clone())).collect();
        let batch: Vec<Output<'_>> = kept.iter().chain(&predictions).map(Output::Kept).collect();
        Ok(self.sink.write(&batch)?)
    }

    /// Returns the bytes in use during writing: values buffered in the file writer, and the
    /// predictions by column.
    fn footprint(&self) -> usize {
        let longest: usize = self.parts.iter().map(ColumnGroup::longest).sum();
        self.sink.footprint() + carried::TILE * (self.columns * size_of::<f64>() + 4 * longest)
    }

    /// Returns the bytes of the column metadata at the end of a file with this many rows: an entry
    /// per column and row group. Wide rows have many row groups.
    fn index_bytes(&self, rows: u64) -> usize {
        let numbers = usize::try_from(rows).unwrap_or(usize::MAX).saturating_mul(self.columns);
        let groups = numbers.saturating_mul(size_of::<f64>()) / GROUP_BYTES;
        groups.saturating_mul(self.columns).saturating_mul(NOTE_BYTES)
    }

    /// Completes the file and renames it to its final name.
    pub(super) fn finish(self) -> Result<()> {
        Ok(self.sink.finish()?)
    }
}

/// The result of writing predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Predicted {
    /// Number of rows.
    pub rows: u64,
    /// Number of rows whose pre-image did not converge.
    pub unsettled: u64,
}

impl Predictor {
    /// Writes the predictions of the selected rows to a file, in their order.
    ///
    /// The columns are those that `kept` selects from the same rows, then `prediction`, or
    /// `prediction_<target>` for several targets; labels are written as in the fit. The extension
    /// of `path` selects the format. Rows with missing values that [`Missing::Keep`] keeps have
    /// null predictions.
    ///
    /// # Errors
    /// Extras that the model does not have; the errors of [`Predictor::scores`]; a path that cannot
    /// be written. No file is written then.
    pub fn write(
        &self,
        selected: &Selected,
        kept: Option<&Selected>,
        extras: Extras,
        path: &Path,
        run: &Run<'_>,
    ) -> Result<Predicted> {
        self.check(extras)?;
        let range = selected.range();
        let index = |out: &PredictionWriter| {
            let remedy = "write .npy or .arrow, or fewer rows at a time";
            Term::new("column metadata of the file", out.index_bytes(range.end - range.start), remedy)
        };
        let parts = (self.parts(extras), extras);
        let Begun { mut out, terms, texts } = self.begin((selected, kept), parts, path, run, index)?;
        let source = kept.map(|kept| carried::source(kept, texts)).transpose()?;
        let mut carried = source.as_ref().map(Carried::new).transpose()?;
        let mut unsettled = 0;
        let rows = self.scores(selected, extras, terms, run, |scores| {
            unsettled += scores.unsettled;
            out.write(scores, carried.as_mut())
        })?;
        out.finish()?;
        Ok(Predicted { rows, unsettled })
    }

    /// Creates a file; `more` is the plan term of further memory.
    pub(super) fn begin(
        &self,
        (selected, kept): (&Selected, Option<&Selected>),
        (parts, extras): (Vec<ColumnGroup>, Extras),
        path: &Path,
        run: &Run<'_>,
        more: impl FnOnce(&PredictionWriter) -> Term,
    ) -> Result<Begun> {
        let columns = kept.map_or(Vec::new(), Selected::kept_columns);
        let out = PredictionWriter::create(path, &columns, parts, selected.missing() == Missing::Keep)?;
        let mut terms = vec![Term::new("row group being written", out.footprint(), "keep fewer columns with `keep`")];
        if let Some(kept) = kept {
            let source = carried::source(kept, TextLimit::default())?;
            let texts = if kept.keeps_text() { COPIES * TILE_TEXT } else { 0 };
            // the rows of a tile, and their copy for writing
            let bytes = RowSource::<f64>::footprint(&source).at(2 * carried::TILE) + texts;
            terms.push(Term::new("kept columns", bytes, "keep fewer columns with `keep`"));
        }
        terms.push(more(&out));
        let texts = TextLimit::new(run.bytes(), self.spare(selected, extras, &terms, run)?, COPIES);
        Ok(Begun { out, terms, texts })
    }
}

pub(super) struct Begun {
    pub(super) out: PredictionWriter,
    /// Plan terms in addition to the lanes.
    pub(super) terms: Vec<Term>,
    /// Limit on the length of the kept texts.
    pub(super) texts: TextLimit,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Classes;
    use kstore::Label;

    fn written(part: ColumnGroup, rows: u64, scores: Vec<f64>) -> (Vec<(String, String)>, u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.parquet");
        let mut out = PredictionWriter::create(&path, &[], vec![part], false).unwrap();
        out.write(&Scores { scores, rows: (0..rows).collect(), ..Scores::default() }, None).unwrap();
        out.finish().unwrap();
        let table = kstore::Table::open(&[path]).unwrap();
        let columns = table.schema().columns.iter().map(|c| (c.name.clone(), c.kind.to_string()));
        (columns.collect(), table.stored_rows())
    }

    fn columns(named: &[(&str, &str)]) -> Vec<(String, String)> {
        named.iter().map(|(name, kind)| (name.to_string(), kind.to_string())).collect()
    }

    #[test]
    fn scores_are_named() {
        let names = |names: &[&str]| ColumnGroup::Scores(names.iter().map(ToString::to_string).collect());
        let got = written(names(&["prediction"]), 3, vec![1.0, 2.0, 3.0]);
        assert_eq!(got, (columns(&[("prediction", "float64")]), 3));
        let got = written(names(&["prediction_a", "prediction_b"]), 2, vec![1.0, 2.0, 3.0, 4.0]);
        assert_eq!(got, (columns(&[("prediction_a", "float64"), ("prediction_b", "float64")]), 2));
    }

    #[test]
    fn labels_keep_their_type() {
        for (labels, kind) in [
            (vec![Label::Int(3), Label::Int(9)], "int64"),
            (vec![Label::Bool(false), Label::Bool(true)], "bool"),
            (vec![Label::Text("a".into()), Label::Text("b".into())], "text"),
        ] {
            let part = ColumnGroup::Label(Classes::new(labels).unwrap());
            assert_eq!(written(part, 2, vec![-1.0, 0.5]), (columns(&[("prediction", kind)]), 2));
        }
    }
}
