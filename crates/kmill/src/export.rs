//! `kmill export`: a model in a format of other programs.

use crate::args::ExportArgs;
use crate::{Error, Result, output, progress};
use ksolve::AnyModel;
use kstore::AtomicFile;
use std::io::Write;

/// Writes the model.
///
/// # Errors
/// A model that has no such form; errors of the file system.
pub(crate) fn main(args: &ExportArgs) -> Result<()> {
    let path = &args.output;
    if path.extension().is_none_or(|extension| !extension.eq_ignore_ascii_case("onnx")) {
        return Err(Error::option("-o", path.display(), "models are exported as ONNX", "name the file .onnx"));
    }
    output::check(path)?;
    output::spare(path, [args.model.as_path()])?;
    let bytes = AnyModel::load(&args.model)?.to_onnx()?;
    let mut file = AtomicFile::create(path)?;
    file.write_all(&bytes).map_err(kstore::Error::io("write", path))?;
    file.commit()?;
    if !args.quiet {
        progress::say(&format!("{} as ONNX in {}", args.model.display(), path.display()));
    }
    Ok(())
}
