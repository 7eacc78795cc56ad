//! Generators of tables. Each row is a pure function of seed and row number. So a table of any size
//! can be written batch by batch, and does not depend on the batch size.
//!
//! To add a generator: write a static [`Generator`], and add a line to `GENERATORS`.

mod classes;
mod nonuniform;
mod numeric;

use crate::{Error, Result};
use kstore::display::format_number;
use kstore::key::{Purpose, Stream};
use kstore::registry::{Registry, RegistryEntry};

pub(crate) use numeric::FRIEDMAN1;

static GENERATORS: Registry<&Generator> = Registry::new(&[
    &FRIEDMAN1,
    &numeric::HIDDEN,
    &classes::MOONS,
    &classes::BLOBS,
    &nonuniform::SMILE,
    &nonuniform::ROBSPIRAL,
    &classes::PARABOLAS,
    &classes::CIRCLE,
    &numeric::SWISSROLL,
    &numeric::SCURVE,
]);

impl RegistryEntry for &'static Generator {
    const KIND: &'static str = "generator";
    fn name(&self) -> &'static str {
        self.name
    }
}

/// Returns all generators: the built-in generators, then the registered generators.
pub(crate) fn all() -> Vec<&'static Generator> {
    GENERATORS.entries().into_iter().copied().collect()
}

/// Returns the generator with this name; `None` if the name is unknown.
pub(crate) fn by_name(name: &str) -> Option<&'static Generator> {
    GENERATORS.by_name(name).copied()
}

/// Registers a generator of another crate for this process.
///
/// # Errors
/// [`kstore::Error::Register`] for a name that is already registered or is not a word.
pub fn register(generator: &'static &'static Generator) -> Result<()> {
    Ok(GENERATORS.register(generator)?)
}

/// The kind of values in the target column of a generated table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A number.
    Number,
    /// A class index from 0.
    Class,
}

/// The size, seed and noise of a generated table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableSpec {
    /// Number of rows of the table.
    pub rows: u64,
    /// Number of features per row.
    pub features: usize,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Standard deviation of the noise, in the units of the values that it is added to.
    pub noise: f64,
}

/// A named function that generates the rows of a table, with its properties.
#[derive(Debug)]
pub struct Generator {
    /// Name on the command line.
    pub name: &'static str,
    /// One sentence for the help text.
    pub about: &'static str,
    /// Default number of features.
    pub features: usize,
    /// Minimum number of features; `None` if the number of features is fixed.
    pub min_features: Option<usize>,
    /// Default noise; `None` if noise is not supported.
    pub noise: Option<f64>,
    /// Minimum number of rows with which the shape is complete.
    pub min_rows: u64,
    /// Kind of the target column.
    pub target: Target,
    /// Called as `fill_row(spec, row number, features)`: must write the features of the row, and
    /// returns its target.
    pub fill_row: fn(&TableSpec, u64, &mut [f64]) -> f64,
}

impl Generator {
    /// Returns a generator with a fixed number of features, without noise, for any number of rows.
    pub const fn new(
        name: &'static str,
        about: &'static str,
        features: usize,
        target: Target,
        fill_row: fn(&TableSpec, u64, &mut [f64]) -> f64,
    ) -> Self {
        Self { name, about, features, min_features: None, noise: None, min_rows: 1, target, fill_row }
    }

    /// Like [`Generator::new`], but with an empty description, which `about` sets.
    const fn undescribed(
        name: &'static str,
        features: usize,
        target: Target,
        fill_row: fn(&TableSpec, u64, &mut [f64]) -> f64,
    ) -> Self {
        Self::new(name, "", features, target, fill_row)
    }

    const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// Sets the default standard deviation of the noise.
    const fn noise(self, noise: f64) -> Self {
        Self { noise: Some(noise), ..self }
    }

    const fn with_min_features(self, features: usize) -> Self {
        Self { min_features: Some(features), ..self }
    }
}

impl TableSpec {
    /// Returns the table specification for `generator`. If `features` or `noise` is `None`, it is
    /// the default of the generator. Rejects too few rows or features, and options that the
    /// generator does not support.
    pub(crate) fn new(
        generator: &Generator,
        rows: u64,
        seed: u64,
        features: Option<usize>,
        noise: Option<f64>,
    ) -> Result<Self> {
        let name = generator.name;
        if rows < generator.min_rows {
            let why = format!("{name} needs at least {} rows", generator.min_rows);
            return Err(Error::option("--rows", rows, why, "raise --rows"));
        }
        let features = match (features, generator.min_features) {
            (None, _) => generator.features,
            (Some(d), Some(minimum)) if d >= minimum => d,
            (Some(d), Some(min_features)) => {
                let why = format!("{name} has at least {min_features} features");
                return Err(Error::option("--features", d, why, format!("choose {min_features} or more")));
            }
            (Some(d), None) if d == generator.features => d,
            (Some(d), None) => {
                let why = format!("{name} always has {} features", generator.features);
                return Err(Error::option("--features", d, why, "omit this option"));
            }
        };
        let noise = match (noise, generator.noise) {
            (None, default) => default.unwrap_or(0.0),
            (Some(noise), Some(_)) if noise >= 0.0 && noise.is_finite() => noise,
            (Some(noise), Some(_)) => {
                let why = "noise is a standard deviation";
                return Err(Error::option(
                    "--noise",
                    format_number(noise),
                    why,
                    "choose a number that is zero or positive",
                ));
            }
            (Some(noise), None) => {
                let why = format!("{name} does not support noise");
                return Err(Error::option("--noise", format_number(noise), why, "omit this option"));
            }
        };
        Ok(Self { rows, features, seed, noise })
    }

    /// Writes the coordinates of `point` to `x`, each with noise.
    fn add_noise(&self, point: &[f64], row: u64, x: &mut [f64]) {
        for ((axis, x), coordinate) in (0..).zip(x).zip(point) {
            *x = coordinate + self.noise * self.normal(axis, row);
        }
    }

    /// Returns a uniform number in (0, 1) for draw `draw` of row `row`.
    fn uniform(&self, draw: u64, row: u64) -> f64 {
        Stream::new(self.seed, Purpose::Data, draw).uniform(row)
    }

    /// Returns a standard normal number for draw `draw` of row `row`, by the method of Box and
    /// Muller.
    ///
    /// The normal number is computed from two uniform numbers. Their draw indices are far above the
    /// indices that callers pass to [`TableSpec::uniform`].
    fn normal(&self, draw: u64, row: u64) -> f64 {
        const FIRST_NORMAL_DRAW: u64 = 1 << 32;
        let radius = (-2.0 * self.uniform(FIRST_NORMAL_DRAW + 2 * draw, row).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform(FIRST_NORMAL_DRAW + 2 * draw + 1, row)).cos()
    }
}

/// Returns point `i` of `point_count` evenly spaced points from `start` to `end`, both included.
fn evenly_spaced(i: u64, point_count: u64, start: f64, end: f64) -> f64 {
    if point_count < 2 { start } else { start + (end - start) * (i as f64 / (point_count - 1) as f64) }
}

/// Fills `x` (row-major) and `y` with rows `first_row..first_row + y.len()`.
pub(crate) fn fill_rows(generator: &Generator, spec: &TableSpec, first_row: u64, x: &mut [f64], y: &mut [f64]) {
    for ((row, x), y) in (first_row..).zip(x.chunks_exact_mut(spec.features)).zip(y) {
        *y = (generator.fill_row)(spec, row, x);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn table(generator: &Generator, rows: u64, noise: Option<f64>) -> (Vec<f64>, Vec<f64>) {
        let spec = TableSpec::new(generator, rows, 3, None, noise).unwrap();
        let (mut x, mut y) = (vec![0.0; rows as usize * spec.features], vec![0.0; rows as usize]);
        fill_rows(generator, &spec, 0, &mut x, &mut y);
        (x, y)
    }

    #[test]
    fn every_chunking_gives_the_same_rows() {
        for generator in all() {
            let (whole_x, whole_y) = table(generator, 1000, None);
            let spec = TableSpec::new(generator, 1000, 3, None, None).unwrap();
            for chunk_rows in [1usize, 7, 333] {
                let (mut x, mut y) = (vec![0.0; whole_x.len()], vec![0.0; 1000]);
                let parts = x.chunks_mut(chunk_rows * spec.features).zip(y.chunks_mut(chunk_rows)).enumerate();
                // in reverse order, because a row must not depend on previous rows
                for (i, (x, y)) in parts.collect::<Vec<_>>().into_iter().rev() {
                    fill_rows(generator, &spec, (i * chunk_rows) as u64, x, y);
                }
                assert_eq!((&x, &y), (&whole_x, &whole_y), "{} in chunks of {chunk_rows}", generator.name);
            }
        }
    }

    #[test]
    fn seeds_matter_only_where_there_is_chance() {
        for generator in all() {
            let mut row = [vec![0.0; generator.features], vec![0.0; generator.features]];
            for (seed, x) in row.iter_mut().enumerate() {
                let spec = TableSpec::new(generator, 1000, seed as u64, None, None).unwrap();
                (generator.fill_row)(&spec, 0, x);
            }
            assert_eq!(row[0] == row[1], generator.name == "robspiral", "{}", generator.name);
        }
    }

    #[test]
    fn names_are_unique_and_found() {
        for generator in all() {
            assert_eq!(by_name(generator.name).unwrap().about, generator.about);
        }
        assert!(by_name("spiral").is_none());
    }

    #[test]
    fn normal_draws_have_mean_zero_and_variance_one() {
        let spec = TableSpec { rows: 0, features: 1, seed: 1, noise: 1.0 };
        let n = 100_000u64;
        let draws: Vec<f64> = (0..n).map(|row| spec.normal(0, row)).collect();
        let mean = draws.iter().sum::<f64>() / n as f64;
        let variance = draws.iter().map(|v| v * v).sum::<f64>() / n as f64;
        // five standard errors: 1/√n of the mean, √(2/n) of the variance
        assert!(mean.abs() < 5.0 / (n as f64).sqrt(), "{mean}");
        assert!((variance - 1.0).abs() < 5.0 * (2.0 / n as f64).sqrt(), "{variance}");
    }
}
