//! A fit in parts: the rows of a table in shards, on several machines or at several times.
//!
//! For solvers whose fit makes one pass over the features of the rows: ridge regression by its Gram matrix, kernel PCA
//! and Fisher's discriminants. [`Fit::prepare`] makes the passes before that one, over all rows, and writes what they
//! found as a **job**. Wherever a shard lies, [`PreparedJob::statistics`] folds its rows into a file of **statistics**:
//! the states of the reduction tree's nodes. [`merge`] puts such files together, in any order, and
//! [`PreparedJob::solve`] makes the model, with the bits of a fit on all rows.
//!
//! No two states are ever added but along the tree, and none is ever subtracted: a shard that is taken away is left
//! out of the sums.

mod card;
mod merge;
mod replay;

pub use merge::{Merged, merge};

use super::{Fit, Fitted, Run};
use crate::metric::MetricSource;
use crate::solver::{self, AnySolver, Options, Settings, Solver, SolverFamily};
use crate::train::{LandmarkSource, TrainOptions};
use crate::{AnyModel, Error, Result};
use card::JobCard;
use kapprox::landmark;
use kstore::checkpoint::{StateFile, StateWriter};
use kstore::pass::{PassKey, STRETCH};
use kstore::{Selected, Selection, Table};
use replay::{Replay, Role};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What a job file says.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct About {
    job: JobCard,
    /// The pass that its shards are folded in.
    pass: PassKey,
}

/// A job whose shards can be folded anywhere: a file that [`Fit::prepare`] wrote.
#[derive(Debug)]
pub struct PreparedJob {
    path: PathBuf,
    about: About,
    mark: String,
}

impl Fit {
    /// Makes every pass but the last, over all rows of `table`, and writes what they found to `path`: scaling,
    /// candidates for landmarks, labels, and with them the fit, its columns and the number of rows.
    ///
    /// # Errors
    /// A solver or options that make more than one pass over features; those of [`Fit::run`].
    pub fn prepare(&self, table: &Table, selection: &Selection, run: &Run<'_>, path: &Path) -> Result<PreparedJob> {
        let selected = run.coded(&table.select(selection)?)?;
        let only = self.only_pass(&self.training(&selected)?)?;
        let replay = Replay::preparing(only, StateWriter::create(path)?);
        let outcome = self.run(&selected, &run.clone().engine(&replay));
        let Some(pass) = replay.found() else {
            outcome?;
            return Err(self.passes("this fit has no Gram matrix; set `method` to direct, or allow more `memory`"));
        };
        let about = About { job: JobCard::new(self, selection, &selected), pass };
        let json = serde_json::to_value(&about).map_err(|error| unreadable(path, &error))?;
        replay.written().map(|out| out.finish(json)).transpose()?;
        PreparedJob::open(path)
    }

    /// The pass that shards are folded in. Refuses what makes another pass over features, or one that is not found in a
    /// file.
    fn only_pass(&self, training: &TrainOptions) -> Result<&'static str> {
        let pass = |family: &SolverFamily, settings: Settings| {
            let solver = family.solver(&settings)?;
            Ok::<_, Error>(<dyn AnySolver as Solver<f64>>::only_pass(&*solver, training))
        };
        let only = pass(self.family, self.settings()?)?.map_err(|why| {
            let can = |family: &&SolverFamily| {
                let pass = family.settings(&Options::new()).and_then(|settings| pass(family, settings));
                matches!(pass, Ok(Ok(_)))
            };
            let able: Vec<&str> = solver::registry().into_iter().filter(can).map(|family| family.name).collect();
            self.passes(&format!("{why} ({} can do with one)", able.join(", ")))
        })?;
        if training.metric != MetricSource::None {
            let why = "it is no part of a job, whose shards see the scaled features; leave it out";
            return Err(Error::option("metric", &training.metric, why));
        }
        if training.map.passes() > 0 {
            return Err(self.passes("making this `map` takes another; choose another map"));
        }
        match &training.landmarks {
            LandmarkSource::Rows(_) => Err(self.passes("a table of landmarks is no part of a job; name a scheme")),
            LandmarkSource::Scheme(name) => match landmark::by_name(name) {
                Some(scheme) if scheme.needs_targets => {
                    Err(self.passes("these `landmarks` look at targets in another; choose another scheme"))
                }
                _ => Ok(only),
            },
        }
    }

    fn passes(&self, why: &str) -> Error {
        Error::option("solver", self.family.name, format!("shards are folded in one pass over features: {why}"))
    }
}

fn unreadable(path: &Path, error: &serde_json::Error) -> Error {
    Error::Statistics { path: path.to_path_buf(), why: format!("it is no prepared job: {error}") }
}

impl PreparedJob {
    /// Opens a file that [`Fit::prepare`] wrote.
    ///
    /// # Errors
    /// Another file; a job of another version or for another instruction set, whose bits would differ.
    pub fn open(path: &Path) -> Result<Self> {
        let file = StateFile::open(path)?;
        let about: About = About::deserialize(file.about()).map_err(|error| unreadable(path, &error))?;
        let (version, set) = (env!("CARGO_PKG_VERSION"), kapprox::instruction_set());
        if (about.job.version.as_str(), &about.job.instruction_set) != (version, &set) {
            let (there, on) = (&about.job.version, &about.job.instruction_set);
            let why = format!(
                "it was prepared by version {there} on {on}, this is {version} on {set}: the bits would differ"
            );
            return Err(Error::Statistics { path: path.to_path_buf(), why });
        }
        Ok(Self { path: path.to_path_buf(), about, mark: file.mark() })
    }

    /// Stored rows of the whole table.
    pub fn stored_rows(&self) -> u64 {
        self.about.job.stored
    }

    /// Shards begin and end at multiples of so many stored rows, or where the table does.
    pub fn segment_rows(&self) -> u64 {
        self.about.pass.cut.segment
    }

    /// The stored rows of part `part` of `parts`, counted from 1: segments of about equal number, whole stretches where there are
    /// enough, whose statistics take the least room. Where there are more parts than segments some have no rows.
    ///
    /// # Errors
    /// A part that is not among them.
    pub fn part(&self, part: u64, parts: u64) -> Result<Range<u64>> {
        let cut = self.about.pass.cut;
        let all = cut.segments();
        let count = all.end - all.start;
        if part == 0 || part > parts {
            return Err(Error::option("part", format!("{part}/{parts}"), "ask for parts 1/K to K/K"));
        }
        // of eight stretches a part the largest has an eighth more than the others, at most
        let unit = if count >= 8 * parts * STRETCH { STRETCH } else { 1 };
        let units = (count / unit) as u128;
        let at = |part: u64| match part == parts {
            true => all.end,
            // below the number of segments
            false => all.start + u64::try_from(u128::from(part) * units / u128::from(parts)).unwrap_or(0) * unit,
        };
        // stretches are counted from row 0
        let aligned = |segment: u64| if segment == all.end { segment } else { (segment / unit * unit).max(all.start) };
        Ok(cut.rows(&(aligned(at(part - 1))..aligned(at(part)))))
    }

    /// Folds the stored rows `rows` of the whole, or none, and writes their statistics to `path`. The table has the stored rows of the
    /// whole: see [`Table::part_of`] for a shard that lies alone.
    ///
    /// # Errors
    /// Rows that are no whole segments, with the nearest that are; a table of another length; those of the rows.
    pub fn statistics(&self, table: &Table, rows: Range<u64>, run: &Run<'_>, path: &Path) -> Result<()> {
        if table.stored_rows() != self.stored_rows() {
            let (got, expected) = (table.stored_rows(), self.stored_rows());
            let why =
                format!("the job is for {expected} stored rows; say which row the shard begins with, `first_row`");
            return Err(Error::option("rows", format!("of a table of {got}"), why));
        }
        let about = serde_json::json!({ "job_mark": self.mark });
        if rows.is_empty() {
            return Ok(StateWriter::create(path)?.finish(about)?);
        }
        let own = self.segments(rows)?;
        let role = Role::Fold { own: Mutex::new(Some(own)), out: Mutex::new(Some(StateWriter::create(path)?)) };
        let replay = Replay::of(&self.path, self.about.pass.clone(), role)?;
        match self.run(&self.about.job.select(table)?, &run.clone().engine(&replay)) {
            Err(_) if replay.is_done() => {}
            Err(error) => return Err(error),
            Ok(_) => return Err(Error::Store(kstore::Error::Worker)),
        }
        replay.written().map(|out| out.finish(about)).transpose()?;
        Ok(())
    }

    /// The model of all rows, from their statistics.
    ///
    /// # Errors
    /// Statistics of another job; rows that are missing; those of the solver.
    pub fn solve(&self, statistics: &Path, run: &Run<'_>) -> Result<Fitted> {
        let states = StateFile::open(statistics)?;
        let refused = |why: String| Err(Error::Statistics { path: statistics.to_path_buf(), why });
        if merge::job_of(&states) != Some(&self.mark) {
            return refused(format!("it holds statistics of another job than {}", self.path.display()));
        }
        let holes = merge::holes(&states, &self.about.pass.cut);
        if !holes.is_empty() {
            return refused(format!("rows {} are missing; compute and merge their statistics", merge::listed(&holes)));
        }
        let rows: u64 = states.states().iter().map(|state| state.node.rows).sum();
        let places = states.states().iter().enumerate().map(|(i, state)| (state.node.segments.start, i)).collect();
        let role = Role::Solve { states: Mutex::new(states), places };
        let replay = Replay::of(&self.path, self.about.pass.clone(), role)?;
        let table = Table::absent(self.about.job.schema(), self.stored_rows());
        let mut fitted = self.run(&self.about.job.select(&table)?, &run.clone().engine(&replay))?;
        // where shards were taken away, the job was prepared on more
        let card = match &mut fitted.model {
            AnyModel::F32(model) => &mut model.card,
            AnyModel::F64(model) => &mut model.card,
        };
        (card.rows, fitted.report.rows) = (rows, rows);
        Ok(fitted)
    }

    fn run(&self, selected: &Selected, run: &Run<'_>) -> Result<Fitted> {
        self.about.job.fit()?.run(selected, run)
    }

    /// The segments of some rows.
    fn segments(&self, rows: Range<u64>) -> Result<Range<u64>> {
        let cut = self.about.pass.cut;
        let all = cut.segments();
        let size = cut.segment.max(1);
        let inner = rows.start.clamp(cut.start, cut.end)..rows.end.clamp(cut.start, cut.end);
        let (first, end) = (inner.start / size, inner.end.div_ceil(size));
        let fits = |row: u64| row == cut.start || row == cut.end || row.is_multiple_of(size);
        if fits(inner.start) && fits(inner.end) && !inner.is_empty() {
            return Ok(first.max(all.start)..end.min(all.end));
        }
        let near = cut.rows(&(first..end.max(first + 1)));
        let why = format!(
            "shards of this job begin and end at multiples of {size} rows: {}..{} would do",
            near.start, near.end
        );
        Err(Error::option("rows", format!("{}..{}", rows.start, rows.end), why))
    }
}
