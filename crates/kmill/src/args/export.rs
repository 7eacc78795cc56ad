//! The options of `kmill export`.

use clap::Args;
use std::path::PathBuf;

/// Options of `kmill export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    kmill export model.safetensors -o model.onnx\n  \
    python -c \"import onnxruntime as o; s = o.InferenceSession('model.onnx'); print(s.run(None, {'X': rows}))\"\n\n\
    The input X has the features in the order of `kmill inspect MODEL`, in the units of the table, as float64.")]
pub struct ExportArgs {
    /// A model written by `kmill fit`
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Where the file goes: .onnx
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Neither progress nor warnings on stderr
    #[arg(short, long)]
    pub quiet: bool,
}
