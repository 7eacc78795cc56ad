//! `kmill curve`: error against rank for landmark schemes and maps, with their costs.
//!
//! ```text
//! args ─▶ Request ─▶ Setting (ksolve) ─▶ runs ─▶ cells, saved ─▶ CurveReport ─▶ terminal, JSON
//!                                                                     └─▶ HTML, SVG, PNG, tables
//! ```

mod cells;
mod report;
mod request;

pub(crate) use request::CurveArgs;

use crate::output::{self, Kind, Outputs};
use crate::{
    Error, Result, args::Run, args::run::resume, interrupt, pipeline, pipeline::FirstStages, progress::Progress,
};
use cells::CellsFile;
use kapprox::Real;
use kfit::request::Resources;
use kreport::curve::{COLUMNS, CurveReport, Planned};
use ksolve::{curve::Setting, job::ElementType};
use kstore::checkpoint::Journal;
use kstore::pass::{Engine, SharedEngine};
use request::Request;
use std::path::Path;

/// Measures every method and writes the outputs. If the run fails, the finished cells remain next
/// to the first output. Processes that share the passes must have the same remaining cells.
pub(crate) fn run(args: &CurveArgs, run: &Run) -> Result<CurveReport> {
    let kinds = [Kind::Page, Kind::Picture, Kind::Json, Kind::Table];
    let remedy = format!("choose a name that ends with {}", request::outputs());
    let outputs = Outputs::new(&args.output, &kinds, "its extension is not that of a report", &remedy)?;
    if let Some(cells) = outputs.paths().next().map(CellsFile::path)
        && outputs.paths().any(|path| output::is_same(path, &cells))
    {
        let why = "finished cells are stored in this file, which is removed at the end";
        return Err(Error::option("-o", cells.display(), why, "choose another name"));
    }
    if args.resume && args.output.is_empty() {
        let remedy = "repeat the -o of the interrupted curve";
        return Err(Error::option("--resume", "", "finished cells are stored next to an output", remedy));
    }
    let request = Request::new(args, run)?;
    output::protect_inputs(outputs.0.iter().map(|(path, _)| path), output::inputs(request.train.table()))?;
    match args.precision {
        ElementType::F32 => measure::<f32>(&request, args, run, &outputs),
        ElementType::F64 => measure::<f64>(&request, args, run, &outputs),
    }
}

fn measure<T: Real>(request: &Request, args: &CurveArgs, run: &Run, outputs: &Outputs) -> Result<CurveReport> {
    let first = outputs.paths().next();
    let cells = CellsFile::open(first, request.manifest.clone(), resume(args.resume, args.fresh), &run.progress)?;
    let engine = args.engine.open()?;
    if let Some(engine) = &engine {
        engine.join(&request.shared(&left(request, &cells)))?;
    }
    let report = measured::<T>(request, run, outputs, cells, engine.as_ref());
    let over = !report.as_ref().err().and_then(Error::stored).is_some_and(kstore::Error::may_pass);
    engine.iter().for_each(|engine| engine.leave(over));
    report
}

/// Executes the runs without cells, together with other processes if there is an engine, and writes
/// the outputs.
fn measured<T: Real>(
    request: &Request,
    run: &Run,
    outputs: &Outputs,
    mut cells: CellsFile,
    engine: Option<&SharedEngine>,
) -> Result<CurveReport> {
    let journal = engine.map(|engine| Journal::through(engine));
    let (first, job) = (FirstStages::new(&run.progress), pipeline::job(run));
    let resources = Resources { stages: &first, journal: journal.as_ref(), ..job.resources() };
    let setting = Setting::<T>::open(&request.train, request.test.as_ref(), &request.options, &resources)?;
    first.end();
    all_runs(&setting, request, &mut cells, &run.progress).map_err(|error| cells.kept(error, &run.progress))?;
    let plan = plan(&setting, request)?;
    let report = report::report(request, run, &setting, plan, cells.cells());
    outputs.0.iter().try_for_each(|(path, kind)| write(&report, path, *kind))?;
    cells.finish(&run.progress);
    Ok(report)
}

fn write(report: &CurveReport, path: &Path, kind: Kind) -> Result<()> {
    match kind {
        Kind::Page => Ok(report.page().write(path)?),
        Kind::Picture => Ok(report.write_picture(path)?),
        Kind::Json => output::json_file(path, report),
        Kind::Table | Kind::Model => Ok(output::table(path, &COLUMNS, &report.rows)?),
    }
}

fn left(request: &Request, cells: &CellsFile) -> Vec<ksolve::curve::CurveRun> {
    request.options.runs().into_iter().filter(|run| !cells.hold(run)).collect()
}

fn all_runs<T: Real>(
    setting: &Setting<'_, T>,
    request: &Request,
    cells: &mut CellsFile,
    progress: &Progress,
) -> Result<()> {
    let (all, left) = (request.options.runs().len(), left(request, cells));
    let work = progress.work("curve", all as u64, (all - left.len()) as u64);
    for run in &left {
        interrupt::check()?;
        work.begin(&run.to_string());
        let started = std::time::Instant::now();
        cells.add(setting.run(run)?)?;
        work.end(&run.to_string(), started.elapsed());
    }
    work.finish();
    Ok(())
}

/// Returns the stages of the run that needs most memory.
fn plan<T: Real>(setting: &Setting<'_, T>, request: &Request) -> Result<Vec<Planned>> {
    let largest = request.options.ranks.last().copied().unwrap_or(1);
    let mut most = Vec::new();
    for method in &request.options.methods {
        let (_, plans) = setting.plan(method, largest)?;
        let stages: Vec<Planned> = plans.into_iter().map(|plan| Planned::new(method, plan)).collect();
        if Planned::largest(&stages) > Planned::largest(&most) {
            most = stages;
        }
    }
    Ok(most)
}
