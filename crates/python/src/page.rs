//! Pages and pictures for notebooks, the same as the command writes.

use crate::error::to_py_err;
use kreport::fit::{FitReport, ResourceReport, TestSetReport, Verbosity};
use kreport::page::{Page, Section, fact_list};
use kreport::plot::Plot;
use kreport::table::{format_count, number};
use ksolve::{ModelMetadata, job, job::Run};
use pyo3::{exceptions::PyValueError, prelude::*};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A page without its style and script, which are the same for all pages.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PageContents {
    title: String,
    subtitle: String,
    #[serde(default)]
    warnings: Vec<String>,
    sections: Vec<(String, String)>,
    /// Rules of style in addition to the rules of all pages.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    style: String,
}

impl From<Page> for PageContents {
    fn from(page: Page) -> Self {
        let sections = page.sections.into_iter().map(|section| (section.title, section.body)).collect();
        Self { title: page.title, subtitle: page.subtitle, warnings: page.warnings, sections, style: page.style }
    }
}

impl PageContents {
    /// Returns the page of a fit that was run in this process.
    pub(crate) fn of_fit(
        report: &job::FitReport,
        test_set: Option<TestSetReport>,
        bytes_read: u64,
        memory: usize,
        threads: usize,
    ) -> Self {
        let resources = ResourceReport {
            seconds: report.seconds.clone(),
            bytes_read,
            peak_rss_bytes: kstore::budget::peak_rss(),
            memory_budget_bytes: memory,
            warnings: report.warnings.clone(),
        };
        let report = FitReport::new(report.clone(), resources, threads);
        FitReport { verbosity: Verbosity::Quiet, test_set, ..report }.page().into()
    }

    /// Returns the page of a loaded model: its metadata.
    pub(crate) fn of_metadata(metadata: &ModelMetadata) -> Self {
        let mut entries = vec![("kernel", metadata.kernel.to_string()), ("rank", format_count(metadata.rank as u64))];
        entries.extend(metadata.lambda.map(|lambda| ("lambda", number(lambda, 3))));
        if let Some(certificate) = &metadata.certificate {
            entries.push(("relative trace error", number(certificate.trace_error, 3)));
        }
        entries.extend((!metadata.targets.is_empty()).then(|| ("target", metadata.targets.join(", "))));
        let subtitle = format!("{} features", format_count(metadata.dense_feature_count() as u64));
        Self {
            title: format!("{} model", metadata.solver),
            subtitle,
            warnings: Vec::new(),
            sections: vec![("Model".to_string(), fact_list(entries))],
            style: String::new(),
        }
    }

    /// Returns the contents as JSON.
    pub(crate) fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(self).map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// Draws the picture of `kmill plot` of a model and the rows of files.
#[pyfunction]
#[pyo3(signature = (model, data, output, *, axes=None, component=None, colour=None))]
pub(crate) fn plot(
    py: Python<'_>,
    model: PathBuf,
    data: Vec<PathBuf>,
    output: PathBuf,
    axes: Option<(String, String)>,
    component: Option<usize>,
    colour: Option<String>,
) -> PyResult<()> {
    let (x, y) = axes.unzip();
    let plot = Plot { model, data, x, y, component, colour, ..Plot::default() };
    py.detach(|| plot.write(&output, &Run::new())).map(drop).map_err(to_py_err)
}

/// Returns the complete page of contents given as JSON.
#[pyfunction]
pub(crate) fn page(contents: &str) -> PyResult<String> {
    let PageContents { title, subtitle, warnings, sections, style } = crate::run::parse_json(contents)?;
    let sections = sections.into_iter().map(|(title, body)| Section { title, body, ..Section::default() }).collect();
    Ok(Page { title, subtitle, warnings, sections, style, ..Page::default() }.to_string())
}
