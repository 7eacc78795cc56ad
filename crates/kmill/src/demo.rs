//! `kmill demo`: generates a table, fits, evaluates, predicts, and shows the equivalent commands.

use crate::args::{RunArgs, RunSettings, parse};
use crate::generators::{FRIEDMAN1, TableSpec};
use crate::{Error, Result, evaluate, fit, generate, inspect, output, predict, usage};
use clap::Args;
use kreport::evaluate::EvaluateReport;
use kreport::fit::FitReport;
use kreport::table::format_count;
use ksolve::job::ElementType;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Number of training rows to generate; the test table has a fifth of it
    #[arg(long, value_name = "N", value_parser = parse::parse_integer, default_value = "100000")]
    pub(crate) rows: u64,
    /// Keep the tables, the model and the predictions in this folder [default: a temporary folder,
    /// removed at the end]
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// The fit of the demo: it learns a diagonal metric, then cross-validates four ranks and thirteen
/// regularisation parameters in one pass. It uses f64, because in f32 the rounding errors of some
/// machines might exclude the smallest lambdas.
const FIT_COMMAND: &str =
    "kmill fit ridge train.parquet --target y --metric diagonal --ranks 25..200 --precision f64 -o model.safetensors";
const EVALUATE_COMMAND: &str = "kmill evaluate model.safetensors test.parquet";
const PREDICT_COMMAND: &str = "kmill predict model.safetensors test.parquet -o predictions.parquet";

const FILE_NAMES: [&str; 4] = ["train.parquet", "test.parquet", "model.safetensors", "predictions.parquet"];

#[derive(Debug, serde::Serialize)]
struct DemoReport {
    fit: FitReport,
    evaluate: EvaluateReport,
}

pub(crate) fn main(args: &DemoArgs) -> Result<()> {
    let run = args.run.resolve();
    let Some(folder) = &args.keep else {
        let temporary = tempfile::tempdir().map_err(kstore::Error::io("create", std::env::temp_dir()))?;
        return run_demo(args, temporary.path(), &run);
    };
    if let Some(name) = FILE_NAMES.iter().find(|name| folder.join(name).symlink_metadata().is_ok()) {
        let why = format!("it contains {name}, which would be overwritten");
        return Err(Error::option("--keep", folder.display(), why, "choose another folder"));
    }
    std::fs::create_dir_all(folder).map_err(kstore::Error::io("create", folder))?;
    run_demo(args, folder, &run)
}

fn run_demo(args: &DemoArgs, folder: &Path, run: &RunSettings) -> Result<()> {
    let print_text = |text: String| if run.json { Ok(()) } else { output::print_text(text) };
    let (rows, test_rows) = (args.rows, (args.rows / 5).max(1));
    print_text(format!(
        "1. Data: Friedman's function of five features, five irrelevant features, and noise of variance 1.\n\n  \
         $ kmill generate friedman1 --rows {rows} -o train.parquet\n  \
         $ kmill generate friedman1 --rows {test_rows} --seed 1 -o test.parquet\n\n"
    ))?;
    let train = generate_table(folder, FILE_NAMES[0], rows, 0, run)?;
    generate_table(folder, FILE_NAMES[1], test_rows, 1, run)?;
    print_text(format!("{}\n", describe_table(&train, run)?))?;
    print_text(format!(
        "2. Fit: importance of each column, landmarks, and one pass for all ranks, lambdas and folds.\n\n  $ {FIT_COMMAND}\n\n"
    ))?;
    // use separate run settings, so that the report has the times of the fit alone
    let mut fitted = fit::run(&parse_command(FIT_COMMAND, folder)?, &args.run.resolve())?;
    fitted.model.iter_mut().for_each(|model| model.path = "model.safetensors".into());
    print_text(format!("{fitted}\n"))?;

    print_text(format!(
        "3. Test: {} test rows. The noise alone has mse 1.\n\n  $ {EVALUATE_COMMAND}\n\n",
        format_count(test_rows)
    ))?;
    let evaluated = evaluate::run(&parse_command(EVALUATE_COMMAND, folder)?, run)?;
    print_text(format!("{evaluated}\n"))?;

    print_text(format!("4. Predict.\n\n  $ {PREDICT_COMMAND}\n\n"))?;
    predict::run(&parse_command(PREDICT_COMMAND, folder)?, run)?;
    print_text(format!("{}\n", describe_table(&folder.join(FILE_NAMES[3]), run)?))?;
    match &args.keep {
        Some(folder) => print_text(format!("The files are in {}.\n", folder.display()))?,
        None => print_text("The files were temporary; kmill demo --keep DIR keeps them.\n".to_string())?,
    }
    if run.json { output::print_json(&DemoReport { fit: fitted, evaluate: evaluated }) } else { Ok(()) }
}

/// Reports the columns and rows of a file, without the folder in its path, as in the printed
/// commands.
fn describe_table(path: &Path, run: &RunSettings) -> Result<inspect::TableReport> {
    let (mut report, _) = inspect::inspect_table(&[path], &kstore::TextOptions::default(), true, None, run)?;
    report.files = path.file_name().into_iter().map(PathBuf::from).collect();
    Ok(report)
}

fn generate_table(folder: &Path, name: &str, rows: u64, seed: u64, run: &RunSettings) -> Result<PathBuf> {
    let path = folder.join(name);
    let spec = TableSpec::new(&FRIEDMAN1, rows, seed, None, None)?;
    generate::write(&FRIEDMAN1, &spec, &path, ElementType::F32, &run.progress)?;
    Ok(path)
}

/// Parses a command of the demo, with its files in `folder`. A parse error would be a bug in the
/// constants above; a test parses them all.
fn parse_command<A: Args>(line: &str, folder: &Path) -> Result<A> {
    let argument =
        |word: &str| if FILE_NAMES.contains(&word) { folder.join(word).into_os_string() } else { word.into() };
    let as_bug = |_| Error::option("demo", line, "it cannot be parsed", "this is a bug, please report it");
    usage::parse_args(line.split(' ').skip(1).map(argument)).map_err(as_bug)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_demo_are_understood() {
        let folder = Path::new("a b");
        let fit: fit::FitArgs = parse_command(FIT_COMMAND, folder).unwrap();
        assert_eq!(fit.job.data.select.paths, [folder.join("train.parquet")]);
        let options = crate::pipeline::FitOptions::new(&fit.job).unwrap();
        assert_eq!(options.fit.settings().unwrap().to_json()["ranks"], serde_json::json!([25, 50, 100, 200]));
        parse_command::<evaluate::EvaluateArgs>(EVALUATE_COMMAND, folder).unwrap();
        parse_command::<predict::PredictArgs>(PREDICT_COMMAND, folder).unwrap();
    }
}
