//! A fit, as the Python side describes it.

use crate::error::{raised, stored};
use crate::medium::engine;
use crate::model::Model;
use crate::page::Contents;
use crate::table::Table;
use crate::watch::watched;
use kapprox::metric::Metric;
use ksolve::AnyModel;
use ksolve::job::{Candidates, Fit, Fitted, Run};
use ksolve::metric::MetricSource;
use ksolve::solver::Options;
use ksolve::train::LandmarkSource;
use kstore::scratch::Scratch;
use kstore::{Categories, Missing, Selected, Selection};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The description of a fit; texts are those of the command, and what is left out has the command's default.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Job {
    solver: String,
    #[serde(default)]
    options: Options,
    kernel: Option<String>,
    scale: Option<String>,
    map: Option<String>,
    pub(crate) landmarks: Option<String>,
    /// A number of rows, or `all`.
    candidates: Option<String>,
    rank: Option<usize>,
    seed: Option<u64>,
    precision: Option<String>,
    pub(crate) metric: Option<MetricText>,
    #[serde(default)]
    pub(crate) rows: RowsText,
    #[serde(default)]
    pub(crate) run: RunText,
}

/// Where a metric comes from.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum MetricText {
    /// `none`, `learn`, `diagonal`, `full`, `low-rank(5)`, or the path of a model.
    Name(String),
    /// A factor for each feature.
    Diagonal(Vec<f64>),
    /// The rows of a matrix.
    Matrix(Vec<Vec<f64>>),
}

/// The rows and columns that take part.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RowsText {
    features: Vec<String>,
    targets: Vec<String>,
    keep: Vec<String>,
    /// `A..B`.
    rows: Option<String>,
    /// A condition on a column.
    r#where: Option<String>,
    /// `error`, `drop`, `mean` or `indicator`; of a model, without it, as it was fitted.
    missing: Option<String>,
    /// Names or patterns of columns that are categories, or `all` or `none` alone; without it columns of text with few values.
    categories: Vec<String>,
    /// Features for a column of text with many values.
    hash: Option<u32>,
}

impl RowsText {
    /// The selection of the command.
    pub(crate) fn selection(&self) -> PyResult<Selection> {
        let missing = match self.missing.as_deref() {
            None => Missing::Fitted,
            Some(name) => Missing::named(name).ok_or_else(|| {
                PyValueError::new_err(format!("`missing` {name:?}: expected error, drop, mean or indicator"))
            })?,
        };
        let categories = match self.categories.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => Categories::default(),
            ["all"] => Categories::All,
            ["none"] => Categories::None,
            _ => Categories::Named(self.categories.clone()),
        };
        Ok(Selection {
            features: self.features.clone(),
            targets: self.targets.clone(),
            keep: self.keep.clone(),
            rows: self.rows.as_deref().map(kstore::condition::parse_rows).transpose().map_err(stored)?,
            filter: self.r#where.as_deref().map(kstore::condition::Condition::parse).transpose().map_err(stored)?,
            missing,
            categories,
            hash: self.hash,
            ..Selection::default()
        })
    }
}

impl RowsText {
    /// The fit with notes of the rows in its model file, as the command writes them: the same fit is the same file.
    fn noted(&self, fit: Fit) -> PyResult<Fit> {
        let selection = self.selection()?;
        let rows = match selection.rows {
            None => "0..".to_string(),
            Some(rows) if rows.end == u64::MAX => format!("{}..", rows.start),
            Some(rows) => format!("{}..{}", rows.start, rows.end),
        };
        let condition = selection.filter.map(|condition| condition.to_string());
        let missing = self.missing.as_deref().unwrap_or("error");
        Ok(fit.note("missing", missing.into()).note("rows", rows.into()).note("where", condition.into()))
    }
}

/// What a job may use.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RunText {
    /// Bytes, as a number or as text such as `2GiB`.
    memory: Option<String>,
    threads: Option<usize>,
    scratch: Option<PathBuf>,
}

impl RunText {
    /// The scratch folder, where one was named; it may use what the disk has.
    pub(crate) fn scratch(&self) -> PyResult<Option<Scratch>> {
        self.scratch.as_deref().map(|folder| Scratch::open(folder, u64::MAX)).transpose().map_err(stored)
    }

    /// Number of threads: those that were asked for, or one for each core.
    pub(crate) fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
    }

    /// The resources.
    pub(crate) fn run<'a>(&self, scratch: Option<&'a Scratch>) -> PyResult<Run<'a>> {
        let memory = self.memory.as_deref().map(kstore::budget::parse_bytes).transpose().map_err(stored)?;
        let run = Run::new();
        let run = memory.map_or(run.clone(), |memory| run.memory(memory));
        let run = match self.threads {
            Some(0) => return Err(PyValueError::new_err("`threads` 0: expected a whole number of at least 1")),
            Some(threads) => run.threads(threads),
            None => run,
        };
        Ok(scratch.into_iter().fold(run, Run::scratch))
    }
}

/// A value of a text in the language of the command.
fn parsed<V: std::str::FromStr>(text: Option<&str>) -> PyResult<Option<V>>
where
    ksolve::Error: From<V::Err>,
{
    text.map(str::parse).transpose().map_err(|error: V::Err| raised(error.into()))
}

impl Job {
    /// The fit, but for landmarks and a metric that need the selected rows.
    pub(crate) fn fit(&self) -> PyResult<Fit> {
        let fit = Fit::solver(&self.solver).map_err(raised)?.options(self.options.clone());
        let fit = self.rows.noted(fit)?;
        let fit = parsed(self.kernel.as_deref())?.into_iter().fold(fit, Fit::kernel);
        let fit = parsed(self.scale.as_deref())?.into_iter().fold(fit, Fit::scaling);
        let fit = parsed(self.map.as_deref())?.into_iter().fold(fit, Fit::map);
        let fit = parsed(self.precision.as_deref())?.into_iter().fold(fit, Fit::precision);
        let fit = self.rank.into_iter().fold(fit, Fit::rank);
        let fit = self.seed.into_iter().fold(fit, Fit::seed);
        let fit = self.landmarks.iter().cloned().map(LandmarkSource::Scheme).fold(fit, Fit::landmarks);
        Ok(match self.candidates.as_deref() {
            None => fit,
            Some("all") => fit.candidates(Candidates::All),
            Some(text) => match text.parse() {
                Ok(rows) if rows > 0 => fit.candidates(Candidates::Rows(rows)),
                _ => {
                    return Err(PyValueError::new_err(format!(
                        "`candidates` {text}: expected a number of rows, or all"
                    )));
                }
            },
        })
    }

    /// The fit with landmarks that were given as rows.
    pub(crate) fn landmarks(&self, fit: Fit, selected: &Selected, given: Option<&Table>) -> ksolve::Result<Fit> {
        let Some(table) = given else { return Ok(fit) };
        let columns = Selection { features: selected.feature_names(), ..Selection::default() };
        Ok(fit.landmarks(LandmarkSource::Rows(Box::new(table.0.select(&columns)?))))
    }

    /// The metric for these rows.
    pub(crate) fn metric(&self, selected: &Selected) -> ksolve::Result<MetricSource> {
        let known = |metric: kapprox::Result<Metric>| Ok(MetricSource::of(Arc::new(metric?)));
        match &self.metric {
            None => Ok(MetricSource::None),
            Some(MetricText::Name(name)) if name == "none" => Ok(MetricSource::None),
            Some(MetricText::Diagonal(factors)) => known(Metric::diagonal(factors.clone())),
            Some(MetricText::Matrix(rows)) => known(Metric::matrix(&rows.concat(), rows.len())),
            Some(MetricText::Name(name)) if Path::new(name).is_file() => {
                MetricSource::of_model(&AnyModel::load(Path::new(name))?, &selected.feature_names())
            }
            Some(MetricText::Name(name)) => Ok(MetricSource::Learned(name.parse()?)),
        }
    }
}

/// JSON from the Python side.
pub(crate) fn described<V: for<'de> Deserialize<'de>>(text: &str) -> PyResult<V> {
    serde_json::from_str(text).map_err(|error| {
        PyValueError::new_err(format!("the description of the job is not understood: {}", kstore::shown::json(&error)))
    })
}

/// Fits a model on a table; returns it with the report as JSON.
///
/// `landmarks` is a table of landmark rows, in the place of a scheme; `show` is called with the progress; processes that share the
/// passes meet in `states`, and are waited for with so many seconds of patience.
#[pyfunction]
#[pyo3(signature = (job, table, landmarks=None, show=None, states=None, patience=90.0))]
pub(crate) fn fit(
    py: Python<'_>,
    job: &str,
    table: &Table,
    landmarks: Option<&Table>,
    show: Option<Py<PyAny>>,
    states: Option<&Bound<'_, PyAny>>,
    patience: f64,
) -> PyResult<(Model, String)> {
    let job: Job = described(job)?;
    let fit = job.fit()?;
    let selection = fit.selection(job.rows.selection()?).map_err(raised)?;
    let scratch = job.run.scratch()?;
    let run = job.run.run(scratch.as_ref())?;
    let engine = states.map(|states| engine(states, patience)).transpose()?;
    let run = engine.iter().fold(run, |run, engine| run.engine(engine));
    let fitted = watched(py, show, |progress| {
        let selected = run.coded(&table.0.select(&selection)?)?;
        let fit = job.landmarks(fit.clone(), &selected, landmarks)?.metric(job.metric(&selected)?);
        fit.run(&selected, &progress.of(&run))
    })?
    .map_err(raised)?;
    learned(fitted, table, &run, job.run.threads(), None)
}

/// The model of a fit, and its report with that of a choice as JSON.
pub(crate) fn learned(
    fitted: Fitted,
    table: &Table,
    run: &Run<'_>,
    threads: usize,
    choice: Option<serde_json::Value>,
) -> PyResult<(Model, String)> {
    let report = &fitted.report;
    let page = Contents::of_fit(report, table.0.bytes_read(), run.bytes(), threads);
    let text = serde_json::json!({
        "report": report,
        "seconds": report.seconds,
        "warnings": report.warnings,
        "certificates": report.certificates,
        "page": page.text()?,
        "choice": choice,
    });
    Ok((Model::new(fitted.model).map_err(raised)?, text.to_string()))
}
