//! `kmill demo`: generates a table, fits, evaluates, predicts, and shows the equivalent commands.

use crate::args::{Run, RunArgs, parse};
use crate::generators::{FRIEDMAN1, Recipe};
use crate::{Error, Result, evaluate, fit, generate, inspect, output, predict, usage};
use clap::Args;
use kreport::evaluate::EvaluateReport;
use kreport::fit::FitReport;
use kreport::table::count;
use ksolve::job::ElementType;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Number of training rows to generate; the test table has a fifth of it
    #[arg(long, value_name = "N", value_parser = parse::whole, default_value = "100000")]
    pub(crate) rows: u64,
    /// Keep the tables, the model and the predictions in this folder [default: a temporary folder,
    /// removed at the end]
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// The fit of the demo: it learns a diagonal metric, then cross-validates four ranks and thirteen
/// regularisation parameters in one pass. With f64, no lambda is skipped on any machine for being
/// too small compared with the rounding errors.
const FIT: &str =
    "kmill fit ridge train.parquet --target y --metric diagonal --ranks 25..200 --precision f64 -o model.safetensors";
const EVALUATE: &str = "kmill evaluate model.safetensors test.parquet";
const PREDICT: &str = "kmill predict model.safetensors test.parquet -o predictions.parquet";

const FILES: [&str; 4] = ["train.parquet", "test.parquet", "model.safetensors", "predictions.parquet"];

#[derive(Debug, serde::Serialize)]
struct DemoReport {
    fit: FitReport,
    evaluate: EvaluateReport,
}

pub(crate) fn main(args: &DemoArgs) -> Result<()> {
    let run = args.run.resolve();
    let Some(folder) = &args.keep else {
        let temporary = tempfile::tempdir().map_err(kstore::Error::io("create", std::env::temp_dir()))?;
        return show(args, temporary.path(), &run);
    };
    if let Some(name) = FILES.iter().find(|name| folder.join(name).symlink_metadata().is_ok()) {
        let why = format!("it contains {name}, which would be overwritten");
        return Err(Error::option("--keep", folder.display(), why, "choose another folder"));
    }
    std::fs::create_dir_all(folder).map_err(kstore::Error::io("create", folder))?;
    show(args, folder, &run)
}

fn show(args: &DemoArgs, folder: &Path, run: &Run) -> Result<()> {
    let say = |text: String| if run.json { Ok(()) } else { output::text(text) };
    let (rows, test_rows) = (args.rows, (args.rows / 5).max(1));
    say(format!(
        "1. Data: Friedman's function of five features, five irrelevant features, and noise of variance 1.\n\n  \
         $ kmill generate friedman1 --rows {rows} -o train.parquet\n  \
         $ kmill generate friedman1 --rows {test_rows} --seed 1 -o test.parquet\n\n"
    ))?;
    let train = table(folder, FILES[0], rows, 0, run)?;
    table(folder, FILES[1], test_rows, 1, run)?;
    say(format!("{}\n", contents(&train, run)?))?;
    say(format!(
        "2. Fit: importance of each column, landmarks, and one pass for all ranks, lambdas and folds.\n\n  $ {FIT}\n\n"
    ))?;
    // a separate run, so that the report has the times of the fit alone
    let mut fitted = fit::run(&parsed(FIT, folder)?, &args.run.resolve())?;
    fitted.model.iter_mut().for_each(|model| model.path = "model.safetensors".into());
    say(format!("{fitted}\n"))?;

    say(format!("3. Test: {} test rows. The noise alone has mse 1.\n\n  $ {EVALUATE}\n\n", count(test_rows)))?;
    let evaluated = evaluate::run(&parsed(EVALUATE, folder)?, run)?;
    say(format!("{evaluated}\n"))?;

    say(format!("4. Predict.\n\n  $ {PREDICT}\n\n"))?;
    predict::run(&parsed(PREDICT, folder)?, run)?;
    say(format!("{}\n", contents(&folder.join(FILES[3]), run)?))?;
    match &args.keep {
        Some(folder) => say(format!("The files are in {}.\n", folder.display()))?,
        None => say("The files were temporary; kmill demo --keep DIR keeps them.\n".to_string())?,
    }
    if run.json { output::json(&DemoReport { fit: fitted, evaluate: evaluated }) } else { Ok(()) }
}

/// Reports the columns and rows of a file. The report shows the file name without its folder, as
/// the commands do.
fn contents(path: &Path, run: &Run) -> Result<inspect::TableReport> {
    let mut report = inspect::table(&[path], &kstore::TextOptions::default(), true, run)?;
    report.files = path.file_name().into_iter().map(PathBuf::from).collect();
    Ok(report)
}

fn table(folder: &Path, name: &str, rows: u64, seed: u64, run: &Run) -> Result<PathBuf> {
    let path = folder.join(name);
    let recipe = Recipe::new(&FRIEDMAN1, rows, seed, None, None)?;
    generate::write(&FRIEDMAN1, &recipe, (&path, ElementType::F32), &run.progress)?;
    Ok(path)
}

/// Parses a command of the demo, after putting its files into `folder`. A parse error would be a
/// bug in the constants above; a test parses them all.
fn parsed<A: Args>(line: &str, folder: &Path) -> Result<A> {
    let word = |word: &str| if FILES.contains(&word) { folder.join(word).into_os_string() } else { word.into() };
    let bug = |_| Error::option("demo", line, "it cannot be parsed", "this is a bug, please report it");
    usage::parsed(line.split(' ').skip(1).map(word)).map_err(bug)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_demo_are_understood() {
        let folder = Path::new("a b");
        let fit: fit::FitArgs = parsed(FIT, folder).unwrap();
        assert_eq!(fit.job.data.select.paths, [folder.join("train.parquet")]);
        let options = crate::pipeline::FitOptions::new(&fit.job).unwrap();
        assert_eq!(options.fit.settings().unwrap().to_json()["ranks"], serde_json::json!([25, 50, 100, 200]));
        parsed::<evaluate::EvaluateArgs>(EVALUATE, folder).unwrap();
        parsed::<predict::PredictArgs>(PREDICT, folder).unwrap();
    }
}
