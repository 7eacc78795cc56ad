//! `kmill export`: writes a model in a format of other programs.

use crate::{Error, Result, output, terminal};
use clap::Args;
use ksolve::AnyModel;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill export model.safetensors -o model.onnx\n  \
    python -c \"import onnxruntime as o; s = o.InferenceSession('model.onnx'); print(s.run(None, {'X': rows}))\"\n\n\
    The input X has the features in the order of `kmill inspect MODEL`, in the units of the table, as float64.")]
pub(crate) struct ExportArgs {
    /// Model file written by `kmill fit`
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Output file: .onnx
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Print no progress and no warnings to stderr
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

pub(crate) fn main(args: &ExportArgs) -> Result<()> {
    let path = &args.output;
    if path.extension().is_none_or(|extension| !extension.eq_ignore_ascii_case("onnx")) {
        return Err(Error::option(
            "-o",
            path.display(),
            "models are exported as ONNX",
            "choose a name that ends with .onnx",
        ));
    }
    output::check_writable(path)?;
    output::protect_inputs([path], [args.model.as_path()])?;
    let bytes = AnyModel::load(&args.model)?.to_onnx()?;
    output::write_file(path, &bytes)?;
    if !args.quiet {
        terminal::print_line(&format!("{} as ONNX in {}", args.model.display(), path.display()));
    }
    Ok(())
}
