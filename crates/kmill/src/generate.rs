//! `kmill generate`: a table of any size, in the memory of one batch.

use crate::args::GenerateArgs;
use crate::args::learn::Precision;
use crate::generators::{self, Generator, Recipe, Target};
use crate::progress::Progress;
use crate::table::count;
use crate::writer::{self, Element, TableWriter};
use crate::{Error, Result, interrupt, output};
use kstore::pass::Observer;
use std::path::{Path, PathBuf};

/// Writes a generated table in `T` and tells the files.
///
/// # Errors
/// Those of the file system, and an interruption; then nothing is written.
pub fn write<T: Element>(
    generator: &dyn Generator,
    recipe: &Recipe,
    path: &Path,
    progress: &Progress,
) -> Result<Vec<PathBuf>> {
    let d = recipe.features;
    let names: Vec<String> = (0..d).map(|column| format!("x{column}")).collect();
    let target = [("y".to_string(), generator.target() == Target::Class)];
    let mut out = TableWriter::create::<T>(path, &names, &target)?;
    let stage = progress.stage("generate", Some(recipe.rows));
    let batch = writer::batch_rows(d);
    let (mut x, mut y, mut columns) = (Vec::new(), Vec::new(), vec![Vec::new(); d]);
    for first in (0..recipe.rows).step_by(batch) {
        interrupt::check()?;
        let rows = batch.min(usize::try_from(recipe.rows - first).unwrap_or(batch));
        x.resize(rows * d, 0.0);
        y.resize(rows, 0.0);
        generators::fill(generator, recipe, first, &mut x, &mut y);
        for (j, column) in columns.iter_mut().enumerate() {
            column.clear();
            column.extend(x.iter().skip(j).step_by(d).map(|value| T::from_f64(*value)));
        }
        out.write(&columns, &y)?;
        stage.advance(rows as u64);
    }
    interrupt::check()?;
    let files = out.finish()?;
    stage.finish();
    Ok(files)
}

/// `kmill generate`.
pub(crate) fn main(args: &GenerateArgs) -> Result<()> {
    let unknown = || Error::option("NAME", &args.name, "there is no such generator", "see kmill generate --help");
    let generator = generators::find(&args.name).ok_or_else(unknown)?;
    let recipe = Recipe::new(generator, args.rows, args.seed, args.features, args.noise)?;
    output::check(&args.output)?;
    let progress = Progress::new(args.quiet);
    let files = match args.precision {
        Precision::F32 => write::<f32>(generator, &recipe, &args.output, &progress)?,
        Precision::F64 => write::<f64>(generator, &recipe, &args.output, &progress)?,
    };
    progress.note(&format!("{} rows of {} in {}", count(recipe.rows), generator.name(), writer::named(&files)));
    Ok(())
}
