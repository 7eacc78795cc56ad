//! The files beside the table that a fit reads: landmarks, and a metric.

use super::Fit;
use crate::model::MOST_HEADER_BYTES;
use crate::request::{LandmarkSource, MetricSource};
use crate::{AnyModel, Result};
use kstore::{Categories, Selected, Selection, Table, TextOptions, encoding::Times};
use std::{fs::File, io::Read, path::Path};

/// True for a file that starts as safetensors does: a length that a header may have, and the
/// opening brace of the header. A table has a larger number there: in text and behind the magic
/// bytes of a format, the upper four bytes of eight are not 0.
pub fn is_model(path: &Path) -> bool {
    let mut start = [0; 9];
    let read = kstore::source::regular(path).is_ok()
        && File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok();
    let [length @ .., brace] = start;
    read && brace == b'{' && u64::from_le_bytes(length) <= MOST_HEADER_BYTES
}

fn open(path: &Path, columns: &Selection, text: &TextOptions) -> Result<Selected> {
    Ok(Table::open_with(&[path], text)?.select(columns)?)
}

impl LandmarkSource {
    /// The landmarks with their file open, which has the columns of the features; `text` says how text is read.
    ///
    /// # Errors
    /// A file that cannot be read, or that holds other columns.
    #[doc(hidden)]
    pub fn opened(self, selected: &Selected, text: &TextOptions) -> Result<Self> {
        match self {
            Self::File(path) => {
                let text = text.clone().like(selected.reading().knowing(selected.encoding()));
                Ok(Self::Rows(Box::new(open(&path, &selected.same_features(), &text)?)))
            }
            open => Ok(open),
        }
    }
}

impl Fit {
    /// The files that landmarks and a metric are still to be read from.
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

    /// The fit with these files open, which have the columns of the features; `text` says how text is read.
    ///
    /// # Errors
    /// Files that cannot be read, or that hold other columns.
    #[doc(hidden)]
    pub fn opened(mut self, selected: &Selected, text: &TextOptions) -> Result<Self> {
        self.landmarks = self.landmarks.map(|landmarks| landmarks.opened(selected, text)).transpose()?;
        let MetricSource::File(path) = &self.metric else { return Ok(self) };
        let features = selected.feature_names();
        let metric = if is_model(path) {
            MetricSource::of_model(&AnyModel::load(path)?, &features)?
        } else {
            // a number for every feature, those of categories too
            let columns =
                Selection { features, categories: Categories::None, times: Times::None, ..Selection::default() };
            MetricSource::of_table(&open(path, &columns, text)?)?
        };
        Ok(self.metric(metric))
    }
}
