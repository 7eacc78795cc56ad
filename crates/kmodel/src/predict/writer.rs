//! Writes predictions of a model for a table to a file, in row order.

use super::kept_columns::{self, KeptColumnReader};
use super::{Extras, Predictor, Scores, decision::ColumnGroup};
use crate::run::{Run, TEXT_COPIES};
use crate::{Error, Result};
use kstore::sink::{self, OutputColumn, OutputValues, Sink};
use kstore::{KeptColumn, Missing, RowSource, SelectedTable, TILE_TEXT_BYTES, TextLimit, budget::MemoryTerm};
use std::{ops::Range, path::Path};

/// Approximate bytes of a row group of a wide table, and of the metadata of one column in a row
/// group, measured with 1,000 columns.
const ROW_GROUP_BYTES: usize = 64 << 20;
const COLUMN_METADATA_BYTES: usize = 2 << 10;

/// A prediction file being written; dropping it before [`PredictionWriter::finish`] leaves no file.
pub(super) struct PredictionWriter {
    pub(super) sink: Box<dyn Sink>,
    pub(super) column_groups: Vec<ColumnGroup>,
    /// Number of prediction columns, without the kept columns.
    column_count: usize,
}

impl PredictionWriter {
    /// Creates a file with the kept columns followed by the prediction columns, which are nullable
    /// if `is_nullable`.
    pub(super) fn create(
        path: &Path,
        kept_outputs: &[OutputColumn],
        column_groups: Vec<ColumnGroup>,
        is_nullable: bool,
    ) -> Result<Self> {
        let new_columns = column_groups.iter().flat_map(ColumnGroup::columns);
        let predictions: Vec<OutputColumn> =
            new_columns.map(|column| if is_nullable { column.nullable() } else { column }).collect();
        if let Some(duplicate) = kept_outputs.iter().find(|column| predictions.iter().any(|p| p.name == column.name)) {
            let why = "a prediction column has this name";
            return Err(Error::option("keep", &duplicate.name, format!("{why}; rename the column, or do not keep it")));
        }
        let column_count = predictions.len();
        Ok(Self { sink: sink::create(path, &[kept_outputs, &predictions].concat())?, column_groups, column_count })
    }

    /// Appends the predictions of a segment, with the kept columns.
    fn write(&mut self, scores: &Scores, kept_reader: Option<&mut KeptColumnReader<'_>>) -> Result<()> {
        let (mut kept_reader, mut written_rows) = (kept_reader, 0);
        while written_rows < scores.row_numbers.len() {
            let (row_count, kept_values) = match &mut kept_reader {
                Some(reader) => reader.read_next(&scores.row_numbers[written_rows..])?,
                None => (kept_columns::KEPT_TILE_ROWS.min(scores.row_numbers.len() - written_rows), &[][..]),
            };
            self.write_rows(scores, written_rows..written_rows + row_count, kept_values)?;
            written_rows += row_count;
        }
        Ok(())
    }

    pub(super) fn write_rows(&mut self, scores: &Scores, rows: Range<usize>, kept_values: &[KeptColumn]) -> Result<()> {
        let validity: Vec<bool> =
            scores.is_incomplete.get(rows.clone()).unwrap_or_default().iter().map(|row| !row).collect();
        let predictions = self.column_groups.iter().flat_map(|group| group.column_values(scores, rows.clone()));
        let predictions: Vec<KeptColumn> =
            predictions.map(|values| KeptColumn::with_validity(values, validity.clone())).collect();
        let batch: Vec<OutputValues<'_>> = kept_values.iter().chain(&predictions).map(OutputValues::Kept).collect();
        Ok(self.sink.write(&batch)?)
    }

    /// Returns the bytes in use during writing: values buffered in the file writer, and the
    /// predictions by column.
    fn buffer_bytes(&self) -> usize {
        let max_text_bytes: usize = self.column_groups.iter().map(ColumnGroup::max_text_bytes).sum();
        self.sink.memory_bytes()
            + kept_columns::KEPT_TILE_ROWS * (self.column_count * size_of::<f64>() + 4 * max_text_bytes)
    }

    /// Returns the bytes of the column metadata at the end of a file with this many rows: an entry
    /// per column and row group. Wide rows have many row groups.
    fn column_metadata_bytes(&self, rows: u64) -> usize {
        let value_count = usize::try_from(rows).unwrap_or(usize::MAX).saturating_mul(self.column_count);
        let row_groups = value_count.saturating_mul(size_of::<f64>()) / ROW_GROUP_BYTES;
        row_groups.saturating_mul(self.column_count).saturating_mul(COLUMN_METADATA_BYTES)
    }

    /// Completes the file and renames it to its final name.
    pub(super) fn finish(self) -> Result<()> {
        Ok(self.sink.finish()?)
    }
}

/// The result of writing predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PredictionSummary {
    /// Number of rows.
    pub rows: u64,
    /// Number of rows whose pre-image did not converge.
    #[serde(rename = "unsettled")]
    pub unconverged: u64,
}

impl Predictor {
    /// Writes the predictions of the selected rows to a file, in their order.
    ///
    /// The file has the columns that `kept_table` selects from the same rows, then `prediction`, or
    /// `prediction_<target>` for several targets. Labels are written as in the fit. The extension
    /// of `path` selects the format. Rows with missing values that [`Missing::Keep`] keeps have
    /// null predictions.
    ///
    /// # Errors
    /// Extras that the model does not have; the errors of [`Predictor::score_table`]; a path that
    /// cannot be written. No file is written then.
    pub fn write(
        &self,
        selected: &SelectedTable,
        kept_table: Option<&SelectedTable>,
        extras: Extras,
        path: &Path,
        run: &Run<'_>,
    ) -> Result<PredictionSummary> {
        self.check_extras(extras)?;
        let range = selected.range();
        let metadata_term = |out: &PredictionWriter| {
            let remedy = "write .npy or .arrow, or fewer rows at a time";
            MemoryTerm::new("column metadata of the file", out.column_metadata_bytes(range.end - range.start), remedy)
        };
        let column_groups = self.column_groups(extras);
        let WriterSetup { writer: mut out, plan_terms: terms, text_limit } =
            self.create_writer(selected, kept_table, column_groups, extras, path, run, metadata_term)?;
        let source = kept_table.map(|kept| kept_columns::kept_table_rows(kept, text_limit)).transpose()?;
        let mut kept_reader = source.as_ref().map(KeptColumnReader::new).transpose()?;
        let mut unconverged = 0;
        let rows = self.score_table(selected, extras, terms, run, |scores| {
            unconverged += scores.unconverged_count;
            out.write(scores, kept_reader.as_mut())
        })?;
        out.finish()?;
        Ok(PredictionSummary { rows, unconverged })
    }

    /// Creates the file and plans the memory of writing. `extra_term` is called with the new writer
    /// and returns the plan term of further memory.
    pub(super) fn create_writer(
        &self,
        selected: &SelectedTable,
        kept_table: Option<&SelectedTable>,
        column_groups: Vec<ColumnGroup>,
        extras: Extras,
        path: &Path,
        run: &Run<'_>,
        extra_term: impl FnOnce(&PredictionWriter) -> MemoryTerm,
    ) -> Result<WriterSetup> {
        let kept_outputs = kept_table.map_or(Vec::new(), SelectedTable::kept_columns);
        let out = PredictionWriter::create(path, &kept_outputs, column_groups, selected.missing() == Missing::Keep)?;
        let mut terms =
            vec![MemoryTerm::new("row group being written", out.buffer_bytes(), "keep fewer columns with `keep`")];
        if let Some(kept_table) = kept_table {
            let source = kept_columns::kept_table_rows(kept_table, TextLimit::default())?;
            let text_bytes = if kept_table.keeps_variable_size_columns() { TEXT_COPIES * TILE_TEXT_BYTES } else { 0 };
            // memory of the rows of a tile, and of their copy for writing
            let bytes = RowSource::<f64>::footprint(&source).bytes_for(2 * kept_columns::KEPT_TILE_ROWS) + text_bytes;
            terms.push(MemoryTerm::new("kept columns", bytes, "keep fewer columns with `keep`"));
        }
        terms.push(extra_term(&out));
        let text_limit =
            TextLimit::new(run.memory_budget(), self.spare_bytes(selected, extras, &terms, run)?, TEXT_COPIES);
        Ok(WriterSetup { writer: out, plan_terms: terms, text_limit })
    }
}

pub(super) struct WriterSetup {
    pub(super) writer: PredictionWriter,
    /// Plan terms of writing, in addition to the memory of the lanes.
    pub(super) plan_terms: Vec<MemoryTerm>,
    /// Limit on the length of the kept texts.
    pub(super) text_limit: TextLimit,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Classes;
    use kstore::Label;

    fn written_columns(part: ColumnGroup, rows: u64, scores: Vec<f64>) -> (Vec<(String, String)>, u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.parquet");
        let mut out = PredictionWriter::create(&path, &[], vec![part], false).unwrap();
        out.write(&Scores { scores, row_numbers: (0..rows).collect(), ..Scores::default() }, None).unwrap();
        out.finish().unwrap();
        let table = kstore::Table::open(&[path]).unwrap();
        let columns = table.schema().columns.iter().map(|c| (c.name.clone(), c.kind.to_string()));
        (columns.collect(), table.stored_rows())
    }

    fn column_types(named: &[(&str, &str)]) -> Vec<(String, String)> {
        named.iter().map(|(name, kind)| (name.to_string(), kind.to_string())).collect()
    }

    #[test]
    fn scores_are_named() {
        let names = |names: &[&str]| ColumnGroup::Scores(names.iter().map(ToString::to_string).collect());
        let got = written_columns(names(&["prediction"]), 3, vec![1.0, 2.0, 3.0]);
        assert_eq!(got, (column_types(&[("prediction", "float64")]), 3));
        let got = written_columns(names(&["prediction_a", "prediction_b"]), 2, vec![1.0, 2.0, 3.0, 4.0]);
        assert_eq!(got, (column_types(&[("prediction_a", "float64"), ("prediction_b", "float64")]), 2));
    }

    #[test]
    fn labels_keep_their_type() {
        for (labels, kind) in [
            (vec![Label::Int(3), Label::Int(9)], "int64"),
            (vec![Label::Bool(false), Label::Bool(true)], "bool"),
            (vec![Label::Text("a".into()), Label::Text("b".into())], "text"),
        ] {
            let part = ColumnGroup::Label(Classes::new(labels).unwrap());
            assert_eq!(written_columns(part, 2, vec![-1.0, 0.5]), (column_types(&[("prediction", kind)]), 2));
        }
    }
}
