//! `kmill features`: the features of a map, for every row of a table, in a file.

use crate::args::run::Run;
use crate::args::{DataArgs, FeaturesArgs};
use crate::fit::FitOptions;
use crate::report::FitReport;
use crate::table::count;
use crate::{Error, Result, output, pipeline, predictor};
use ksolve::predict::{Extras, Predictor};
use ksolve::solver::{FEATURES, Options};
use std::fmt;
use std::path::PathBuf;

/// What a fit leaves behind is counted in steps of so many bytes: it differs a little from run to run, and a budget that a
/// refusal names has room for it the next time.
const LEFT: usize = 4 << 20;

/// The report of `kmill features`: that of the map, and what was written.
#[derive(Clone, Debug, serde::Serialize)]
pub struct FeaturesReport {
    /// The report of the map: kernel, landmarks, certificate, costs.
    #[serde(flatten)]
    pub map: FitReport,
    /// True where the coordinate outside the span was written too.
    pub residual: bool,
    /// The file that the features were written to.
    #[serde(serialize_with = "kstore::lossy::path")]
    pub output: PathBuf,
}

/// Makes the map, writes the features of all rows, and the map where that is asked for.
///
/// # Errors
/// All errors of a fit and of a prediction; nothing is written where the map cannot be made.
pub fn run(args: &FeaturesArgs, run: &Run) -> Result<FeaturesReport> {
    let data = DataArgs {
        select: args.data.clone(),
        target: Vec::new(),
        features: args.features.clone(),
        category: args.category.clone(),
    };
    let given = args.tolerance.iter().fold(Options::new(), |given, text| given.set("tolerance", text));
    let options = FitOptions::with(FEATURES, &data, &args.learn, given)?;
    output::check(&args.output)?;
    if let Some(model) = &args.model {
        output::check_model(model)?;
        if output::is_same(model, &args.output) {
            return Err(Error::option("--model", model.display(), "the features go there", "give it another name"));
        }
    }
    if args.residual && options.fit.map_spec().is_without_rows() {
        let why = "the map is no projection, and leaves nothing that is known";
        return Err(Error::option("--residual", "", why, "leave it out, or take a map on landmarks, such as nystrom"));
    }
    let selected = pipeline::select(&options, run)?;
    for path in args.model.iter().chain([&args.output]) {
        output::spare(path, output::inputs(selected.table()).chain(options.fit.files()))?;
    }
    let kept = match args.keep.is_empty() {
        true => None,
        false => Some(predictor::kept(&selected, &args.data, &args.keep)?),
    };
    let start = kstore::budget::rss().unwrap_or(0);
    let beside = args.model.as_ref().unwrap_or(&args.output);
    let fitted = pipeline::fitted(&options, &selected, run, beside, &args.disk, &args.engine)?;
    if let Some(model) = &args.model {
        fitted.save(model)?;
    }
    let (report, predictor) = (fitted.report, Predictor::new(fitted.model)?);
    // what the fit has left behind, the model among it, the prediction cannot have
    let left = kstore::budget::rss().unwrap_or(0).saturating_sub(start).next_multiple_of(LEFT);
    let job = pipeline::job(run).memory(run.memory.saturating_sub(left));
    let extras = Extras { residual: args.residual, ..Extras::default() };
    let written = predictor.write(&selected, kept.as_ref(), extras, &args.output, &job);
    written.map_err(|error| error.beside(left))?;
    let map = FitReport::new(report, run, selected.table(), args.model.as_deref());
    Ok(FeaturesReport { map, residual: args.residual, output: args.output.clone() })
}

/// Runs `kmill features` and prints its report.
pub(crate) fn main(args: &FeaturesArgs) -> Result<()> {
    let context = args.run.resolve();
    let report = run(args, &context)?;
    output::report(&report, context.json)
}

impl fmt::Display for FeaturesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, rank) = (count(self.map.fit.rows), count(self.map.fit.rank as u64));
        let more = if self.residual { " and the residual" } else { "" };
        write!(f, "{}", self.map)?;
        writeln!(f, "{rank} features{more} of {rows} rows: {}", kstore::shown::path(&self.output))
    }
}
