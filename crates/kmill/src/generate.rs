//! `kmill generate`: a table of any size, in the memory of one batch.

use crate::args::GenerateArgs;
use crate::generators::{self, Generator, Recipe, Target};
use crate::progress::{Progress, Voice};
use crate::table::count;
use crate::writer::{self, TableWriter};
use crate::{Error, Result, interrupt, output};
use ksolve::job::ElementType;
use kstore::Real;
use kstore::pass::Observer;
use kstore::sink::{Output, OutputColumn, OutputKind};
use std::path::{Path, PathBuf};

/// The types of features that can be written: f32 and f64.
pub trait Element: Real {
    /// The type of a column of such values.
    const KIND: OutputKind;
    /// The values of a column, in the form that writers take.
    fn output(values: &[Self]) -> Output<'_>;
}

impl Element for f32 {
    const KIND: OutputKind = OutputKind::F32;
    fn output(values: &[Self]) -> Output<'_> {
        Output::F32(values)
    }
}

impl Element for f64 {
    const KIND: OutputKind = OutputKind::F64;
    fn output(values: &[Self]) -> Output<'_> {
        Output::F64(values)
    }
}

/// Writes a generated table with features of type `T`, and returns the paths of its files.
///
/// # Errors
/// Errors of the file system, and an interruption; then nothing is written.
pub fn write<T: Element>(
    generator: &Generator,
    recipe: &Recipe,
    path: &Path,
    progress: &Progress,
) -> Result<Vec<PathBuf>> {
    let d = recipe.features;
    let features: Vec<_> = (0..d).map(|column| OutputColumn::new(format!("x{column}"), T::KIND)).collect();
    let classes = generator.target == Target::Class;
    let target = OutputColumn::new("y", if classes { OutputKind::I64 } else { OutputKind::F64 });
    let mut out = TableWriter::create(path, &features, &[target])?;
    let stage = progress.stage("generate", Some(recipe.rows));
    let batch = writer::batch_rows(d);
    let (mut x, mut y, mut labels, mut columns) = (Vec::new(), Vec::new(), Vec::new(), vec![Vec::new(); d]);
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
        let features: Vec<_> = columns.iter().map(|column| T::output(column)).collect();
        labels.clear();
        labels.extend(y.iter().filter(|_| classes).map(|label| *label as i64));
        out.write(&features, &[if classes { Output::I64(&labels) } else { Output::F64(&y) }])?;
        stage.advance(rows as u64);
    }
    interrupt::check()?;
    let files = out.finish()?;
    stage.finish();
    Ok(files)
}

/// Runs `kmill generate` and prints its report.
pub(crate) fn main(args: &GenerateArgs) -> Result<()> {
    let unknown = || Error::option("NAME", &args.name, "there is no such generator", "see kmill generate --help");
    let generator = generators::find(&args.name).ok_or_else(unknown)?;
    let recipe = Recipe::new(generator, args.rows, args.seed, args.features, args.noise)?;
    output::check(&args.output)?;
    let progress = Progress::new(Voice::new(args.quiet, args.verbose));
    let files = match args.precision {
        ElementType::F32 => write::<f32>(generator, &recipe, &args.output, &progress)?,
        ElementType::F64 => write::<f64>(generator, &recipe, &args.output, &progress)?,
    };
    progress.note(&format!("{} rows of {} in {}", count(recipe.rows), generator.name, writer::named(&files)));
    Ok(())
}
