//! Files that a fit reads in addition to the table: landmarks and a metric.

use super::{Fit, sparse_rows};
use crate::model::MAX_HEADER_BYTES;
use crate::request::{LandmarkSource, MetricSource};
use crate::{AnyModel, Result};
use kstore::{Categories, SelectedTable, Selection, Table, TextOptions, encoding::TimeFeatures};
use std::{fs::File, io::Read, path::Path};

/// Returns true if the file starts like a safetensors file: with 8 bytes that are a plausible
/// length of a header, and then an opening brace. A table starts with text or magic bytes. If these
/// bytes are read as a length, the length is too large, because its upper four bytes are not 0.
pub fn is_model_file(path: &Path) -> bool {
    let mut start = [0; 9];
    let is_read = kstore::source::regular_metadata(path).is_ok()
        && File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok();
    let [length @ .., brace] = start;
    is_read && brace == b'{' && u64::from_le_bytes(length) <= MAX_HEADER_BYTES
}

impl Fit {
    /// Returns the files of landmarks and metric that are not open yet.
    #[doc(hidden)]
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let landmarks = match &self.landmarks {
            Some(LandmarkSource::File(path)) => Some(path.as_path()),
            _ => None,
        };
        let metric = match &self.metric {
            MetricSource::File(path) => Some(path.as_path()),
            _ => None,
        };
        landmarks.into_iter().chain(metric)
    }

    /// Returns the fit with the files of landmarks and metric open. They must have the input
    /// columns. `text_options` are the options for text files.
    ///
    /// # Errors
    /// Files that cannot be read, or that have other columns.
    #[doc(hidden)]
    pub fn with_open_files(mut self, selected: &SelectedTable, text_options: &TextOptions) -> Result<Self> {
        self.landmarks = self.landmarks.map(|landmarks| landmarks.open(selected, text_options)).transpose()?;
        let MetricSource::File(path) = &self.metric else { return Ok(self) };
        if selected.sparse_shape().is_some() {
            return Err(sparse_rows::metric_error(&path.display()));
        }
        let features = selected.feature_names();
        let metric = if is_model_file(path) {
            MetricSource::from_model(&AnyModel::load(path)?, &features)?
        } else {
            // the table of a metric has one number for every input, including the inputs of
            // categories
            let columns =
                Selection { features, categories: Categories::None, times: TimeFeatures::None, ..Selection::default() };
            MetricSource::from_table(&Table::open_with(&[path], text_options)?.select(&columns)?)?
        };
        Ok(self.metric(metric))
    }
}
