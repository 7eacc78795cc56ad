//! `kmill curve`: measures error against rank, and the costs, of landmark schemes and maps.
//!
//! ```text
//! args ─▶ Request ─▶ Setting (ksolve) ─▶ runs ─▶ cells, saved ─▶ CurveReport ─▶ terminal, JSON
//!                                                                     └─▶ HTML, SVG, PNG, tables
//! ```

mod cells_file;
mod report;
mod request;

pub(crate) use request::CurveArgs;

use crate::output::{self, FileKind, Outputs};
use crate::{
    Error, Result, allocator, args::RunSettings, args::run::resume_mode, interrupt, pipeline::FirstStages,
    progress::Progress,
};
use cells_file::CellsFile;
use kapprox::Real;
use kfit::request::Resources;
use kreport::curve::{COLUMNS, CurveReport, StagePlan};
use ksolve::{curve::Setting, job::ElementType};
use kstore::checkpoint::Journal;
use kstore::pass::{Engine, SharedEngine};
use request::Request;
use std::path::Path;

/// Measures every method and writes the outputs. If the run fails, the file of finished cells
/// remains next to the first output. Processes that share the passes must have the same runs left.
pub(crate) fn run(args: &CurveArgs, run: &RunSettings) -> Result<CurveReport> {
    let kinds = [FileKind::Page, FileKind::Picture, FileKind::Json, FileKind::Table];
    let remedy = format!("choose a name that ends with {}", request::output_extensions());
    let outputs = Outputs::new(&args.output, &kinds, "its extension is not that of a report", &remedy)?;
    if let Some(cells_path) = outputs.paths().next().map(CellsFile::path)
        && outputs.paths().any(|path| output::is_same_file(path, &cells_path))
    {
        let why = "finished cells are stored in this file, which is removed at the end";
        return Err(Error::option("-o", cells_path.display(), why, "choose another name"));
    }
    if let Some(size) = args.size {
        CurveReport::check_picture_size(size)?;
        if !outputs.files.iter().any(|(_, kind)| *kind == FileKind::Picture) {
            let (why, remedy) = ("it is the size of a picture", "omit it, or name a picture: -o curve.svg");
            return Err(Error::option("--size", format!("{}x{}", size.0, size.1), why, remedy));
        }
    }
    if args.resume && args.output.is_empty() {
        let remedy = "repeat the -o of the interrupted curve";
        return Err(Error::option("--resume", "", "finished cells are stored next to an output", remedy));
    }
    let request = Request::new(args, run)?;
    allocator::keep_freed_memory(run.memory);
    output::protect_inputs(outputs.files.iter().map(|(path, _)| path), output::table_files(request.train.table()))?;
    match args.precision {
        ElementType::F32 => open_and_run::<f32>(&request, args, run, &outputs),
        ElementType::F64 => open_and_run::<f64>(&request, args, run, &outputs),
    }
}

fn open_and_run<T: Real>(
    request: &Request,
    args: &CurveArgs,
    run: &RunSettings,
    outputs: &Outputs,
) -> Result<CurveReport> {
    let first_output = outputs.paths().next();
    let cells =
        CellsFile::open(first_output, request.manifest.clone(), resume_mode(args.resume, args.fresh), &run.progress)?;
    let engine = args.engine.open()?;
    if let Some(engine) = &engine {
        engine.join(&request.shared_manifest(&remaining_runs(request, &cells)))?;
    }
    let report = run_and_write::<T>(request, run, outputs, cells, engine.as_ref());
    let is_final = !report.as_ref().err().and_then(Error::as_store_error).is_some_and(kstore::Error::is_transient);
    engine.iter().for_each(|engine| engine.leave(is_final));
    report
}

/// Executes the runs whose cells are missing, and writes the outputs. If `engine` is present, other
/// processes share the passes.
fn run_and_write<T: Real>(
    request: &Request,
    run: &RunSettings,
    outputs: &Outputs,
    mut cells: CellsFile,
    engine: Option<&SharedEngine>,
) -> Result<CurveReport> {
    let journal = engine.map(|engine| Journal::with_engine(engine));
    let (first_stages, job) = (FirstStages::new(&run.progress), run.job_run());
    let resources = Resources { stage_observer: &first_stages, journal: journal.as_ref(), ..job.resources() };
    let setting = Setting::<T>::open(&request.train, request.test.as_ref(), &request.options, &resources)?;
    first_stages.end();
    run_remaining(&setting, request, &mut cells, &run.progress)
        .map_err(|error| cells.explain_error(error, &run.progress))?;
    let plan = largest_plan(&setting, request)?;
    let report = report::report(request, run, &setting, plan, cells.cells());
    outputs.files.iter().try_for_each(|(path, kind)| write(&report, path, *kind, request.picture_size))?;
    cells.remove(&run.progress);
    Ok(report)
}

fn write(report: &CurveReport, path: &Path, kind: FileKind, size: Option<(f64, f64)>) -> Result<()> {
    match kind {
        FileKind::Page => Ok(report.page().write(path)?),
        FileKind::Picture => Ok(report.write_picture(path, size)?),
        FileKind::Json => output::json_file(path, report),
        FileKind::Table | FileKind::Model => Ok(output::write_table(path, &COLUMNS, &report.rows)?),
    }
}

fn remaining_runs(request: &Request, cells: &CellsFile) -> Vec<ksolve::curve::CurveRun> {
    request.options.runs().into_iter().filter(|run| !cells.has_all_cells(run)).collect()
}

fn run_remaining<T: Real>(
    setting: &Setting<'_, T>,
    request: &Request,
    cells: &mut CellsFile,
    progress: &Progress,
) -> Result<()> {
    let (run_count, remaining) = (request.options.runs().len(), remaining_runs(request, cells));
    let run_counter = progress.begin_runs("curve", run_count as u64, (run_count - remaining.len()) as u64);
    for run in &remaining {
        interrupt::fail_if_requested()?;
        run_counter.begin(&run.to_string());
        let start_time = std::time::Instant::now();
        cells.append(setting.run(run)?)?;
        run_counter.end(&run.to_string(), start_time.elapsed());
    }
    run_counter.finish();
    Ok(())
}

/// Returns the stages of the method that needs most memory at the largest rank.
fn largest_plan<T: Real>(setting: &Setting<'_, T>, request: &Request) -> Result<Vec<StagePlan>> {
    let max_rank = request.options.ranks.last().copied().unwrap_or(1);
    let mut largest_stages = Vec::new();
    for method in &request.options.methods {
        let (_, plans) = setting.plan(method, max_rank)?;
        let stages: Vec<StagePlan> = plans.into_iter().map(|plan| StagePlan::new(method, plan)).collect();
        if StagePlan::max_bytes(&stages) > StagePlan::max_bytes(&largest_stages) {
            largest_stages = stages;
        }
    }
    Ok(largest_stages)
}
