//! Sharded fits: the rows of a table are processed in shards (parts of the rows), on several
//! machines or at several times.
//!
//! Shards are supported for solvers that make a single pass over the features: ridge regression by
//! its Gram matrix, kernel PCA and Fisher's discriminants. [`PreparedJob::prepare`] executes, on
//! all rows, all passes that precede the pass over the features, and writes their results to a
//! file, the **job**. [`PreparedJob::statistics`] runs on the machine of each shard and writes the
//! **statistics** of the shard. The statistics consist of states and of rows. A state is a sum over
//! complete segments (a segment is a fixed number of consecutive rows). Rows are stored for the
//! segments that the shard covers only partly. [`merge()`] merges such files, in any order, and
//! [`PreparedJob::solve`] computes the model, bit-identical to a fit on all rows.
//!
//! States are added along a fixed tree and never subtracted: if a shard is removed, the sums are
//! computed again without it. Rows may be appended after a job was prepared; scaling, landmarks and
//! folds then stay the same. The ranges of the features, to which predictions clip new rows, cover
//! all rows, because each file of statistics has the ranges of its rows.

mod extent;
mod growth;
mod merge;
mod metadata;
mod replay;

#[doc(hidden)]
pub use growth::growth;
pub use merge::{MergeSummary, merge};

use crate::job::{Fit, Fitted, Run};
use crate::prepare::survey::{STATISTICS_PASS, total_weight_of};
use crate::request::{MetricSource, TrainOptions};
use crate::solver::{self, Solver};
use crate::train::UNBOUNDED;
use crate::{AnyModel, Error, Result, model::match_precision};
use extent::{Extent, StatisticsMetadata, column_key, format_ranges};
use growth::{LandmarkObserver, ShardGrowth, split_residuals};
use kmodel::growth::{Growth, ResidualSums, moved_ranges};
use kstore::checkpoint::{Cut, StateFile, StateKey, StateWriter};
use kstore::pass::{Node, PassKey, STRETCH_SEGMENTS};
use kstore::statistics::ColumnMoments;
use kstore::{Merge, RowDigests, SelectedTable, Selection, Statistics, Table};
use metadata::JobMetadata;
use replay::{Replay, Role};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::{ops::Range, sync::Arc};

/// The metadata of a job file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct JobHeader {
    job: JobMetadata,
    extent: Extent,
    /// Sum of the leave-one-out residuals of the landmarks; `None` if the map is not a projection.
    landmark_residuals: Option<f64>,
}

const DIGEST_PASS_NAME: &str = "digests of the rows";

/// A job file written by [`PreparedJob::prepare`]; any machine can process shards of the job.
#[derive(Debug)]
#[non_exhaustive]
pub struct PreparedJob {
    path: PathBuf,
    header: JobHeader,
    job_mark: String,
}

/// Returns the name of the pass that is split into shards. Rejects fits that make a second pass
/// over the features, or another pass whose result cannot be read from a file instead.
fn shared_pass_name(fit: &Fit, train_options: &TrainOptions) -> Result<&'static str> {
    let single_pass =
        |fit: &Fit| Ok::<_, Error>(Solver::<f64>::single_pass_name(&*fit.parsed_options()?.solver, train_options));
    let pass_name = single_pass(fit)?.map_err(|why| {
        let is_supported = |name: &&str| matches!(fit.for_solver(name).and_then(|fit| single_pass(&fit)), Ok(Ok(_)));
        let solver_names: Vec<&str> =
            solver::registry().into_iter().map(|family| family.name).filter(is_supported).collect();
        unsupported_error(fit, &format!("{why} ({} need only one)", solver_names.join(", ")))
    })?;
    if train_options.metric != MetricSource::None {
        let why = "a prepared job does not support it, because its shards use the scaled features; leave it out";
        return Err(Error::option("metric", &train_options.metric, why));
    }
    if train_options.map.build_passes() > 0 {
        return Err(unsupported_error(fit, "building this `map` takes another pass; choose another map"));
    }
    match train_options.landmarks.scheme() {
        None => Err(unsupported_error(fit, "a prepared job cannot store a table of landmarks; name a landmark scheme")),
        Some(scheme) if scheme.needs_targets => {
            Err(unsupported_error(fit, "these `landmarks` read the targets in another pass; choose another scheme"))
        }
        Some(_) => Ok(pass_name),
    }
}

fn unsupported_error(fit: &Fit, why: &str) -> Error {
    Error::option("solver", fit.solver_family.name, format!("shards are folded in one pass over features: {why}"))
}

/// Returns the column statistics of all rows.
fn column_statistics(states: &mut StateFile, selected: &SelectedTable) -> Result<Statistics> {
    let mut total = Statistics::new(&selected.shape());
    for index in 0..states.state_keys().len() {
        if !extent::is_row_state(&states.state_keys()[index]) {
            let mut statistics = Statistics::new(&selected.shape());
            states.load(index, &mut statistics)?;
            total.merge(&statistics);
        }
    }
    selected.mark_integers(&mut total);
    Ok(total)
}

fn not_a_job_error(path: &Path, error: &serde_json::Error) -> Error {
    Error::Statistics {
        path: path.to_path_buf(),
        why: format!("it is not a prepared job: {}", kstore::display::json_error(error)),
    }
}

impl PreparedJob {
    /// Executes all passes except the last one over the rows of `table`. Writes their results
    /// (scaling, landmark candidates, labels), the fit, its columns and the number of rows to
    /// `path`.
    ///
    /// # Errors
    /// A solver or options that need more than one pass over the features; the errors of
    /// [`Fit::run`].
    pub fn prepare(fit: &Fit, table: &Table, selection: &Selection, run: &Run<'_>, path: &Path) -> Result<Self> {
        let selected = run.resolve_categories(&table.select(selection)?)?;
        if let Some(column) = selected.effect_columns().first() {
            let why = format!(
                "a shard does not read the targets of other shards, by which column {column} is encoded; use `hash` 256, or leave the column out"
            );
            return Err(unsupported_error(fit, &why));
        }
        let train_options = fit.train_options(&selected)?;
        let pass_name = shared_pass_name(fit, &train_options)?;
        let digests = Arc::new(RowDigests::new(table.stored_rows()));
        let replay = Replay::for_preparation(pass_name, StateWriter::create(path)?, &digests);
        let observer = LandmarkObserver::new(run.stage_observer());
        let outcome = fit.run(&selected.with_digests(&digests), &run.clone().observer(&observer).engine(&replay));
        let Some(pass) = replay.shared_pass() else {
            outcome?;
            return Err(unsupported_error(
                fit,
                "this fit has no Gram matrix; set `method` to direct, or allow more `memory`",
            ));
        };
        let job = JobMetadata::new(fit, selection, &selected, &train_options.folds);
        let node = Node { segments: pass.cut.segments(), row_count: table.stored_rows() };
        let key = StateKey { pass: PassKey { number: 0, name: DIGEST_PASS_NAME.to_string(), cut: pass.cut }, node };
        let extent = Extent { pass, grows: job.closed.is_none() };
        let header = JobHeader { extent, job, landmark_residuals: observer.landmark_residuals() };
        let json = serde_json::to_value(&header).map_err(|error| not_a_job_error(path, &error))?;
        if let Some(mut out) = replay.into_writer() {
            out.push(key, Some(&*digests))?;
            out.finish(json)?;
        }
        Self::open(path)
    }

    /// Opens a file written by [`PreparedJob::prepare`].
    ///
    /// # Errors
    /// A file that is not a job; a job of another version or instruction set, whose results would
    /// not be bit-identical.
    pub fn open(path: &Path) -> Result<Self> {
        let file = StateFile::open(path)?;
        let header: JobHeader =
            JobHeader::deserialize(file.metadata()).map_err(|error| not_a_job_error(path, &error))?;
        let (version, set) = (env!("CARGO_PKG_VERSION"), kapprox::instruction_set());
        if (header.job.version.as_str(), &header.job.instruction_set) != (version, &set) {
            let (prepared_version, prepared_set) = (&header.job.version, &header.job.instruction_set);
            let why = format!(
                "it was prepared by version {prepared_version} on {prepared_set}, but this is version {version} on {set}, and the results would not be bit-identical; prepare it again"
            );
            return Err(Error::Statistics { path: path.to_path_buf(), why });
        }
        Ok(Self { path: path.to_path_buf(), header, job_mark: file.digest() })
    }

    /// Returns the number of stored rows of the table that the job was prepared on.
    pub fn stored_rows(&self) -> u64 {
        self.header.job.stored
    }

    /// Returns the options that read text files in the same way as the prepared rows.
    pub fn text_options(&self, options: kstore::TextOptions) -> kstore::TextOptions {
        self.header.job.text_options(options)
    }

    /// Returns the number of rows of a segment. The statistics of this many stored rows, from a
    /// multiple of this number on, are one state of the reduction tree.
    pub fn segment_rows(&self) -> u64 {
        self.header.extent.pass.cut.segment_rows
    }

    /// Returns the stored rows of part `part` of `parts`, counted from 1, of a table with `stored`
    /// rows. Parts have about the same number of segments. If there are enough reduction blocks
    /// (fixed numbers of segments), a part consists of whole blocks, because the statistics of
    /// whole blocks are smallest. If there are more parts than segments, some parts are empty.
    ///
    /// # Errors
    /// A part outside of 1 to `parts`.
    pub fn part(&self, part: u64, parts: u64, stored: u64) -> Result<Range<u64>> {
        let cut = self.header.extent.pass.cut;
        let cut = if self.header.extent.grows { Cut { end_row: stored.max(cut.end_row), ..cut } } else { cut };
        let segments = cut.segments();
        let segment_count = segments.end - segments.start;
        if part == 0 || part > parts {
            return Err(Error::option("part", format!("{part}/{parts}"), "expected a part from 1/K to K/K"));
        }
        // with at least eight blocks per part, the largest part exceeds the smallest by an eighth
        // at most
        let unit_segments = if segment_count >= 8 * parts * STRETCH_SEGMENTS { STRETCH_SEGMENTS } else { 1 };
        let unit_count = (segment_count / unit_segments) as u128;
        let boundary = |part: u64| match part == parts {
            true => segments.end,
            // the product is less than the number of segments
            false => {
                segments.start
                    + u64::try_from(u128::from(part) * unit_count / u128::from(parts)).unwrap_or(0) * unit_segments
            }
        };
        // blocks are counted from row 0
        let align = |segment: u64| {
            if segment == segments.end {
                segment
            } else {
                (segment / unit_segments * unit_segments).max(segments.start)
            }
        };
        Ok(cut.rows(&(align(boundary(part - 1))..align(boundary(part)))))
    }

    /// Returns the index of the row after the last row of a file of statistics: the first row of
    /// the next shard.
    ///
    /// # Errors
    /// Statistics of another job.
    pub fn next_row(&self, statistics: &Path) -> Result<u64> {
        let file = StateFile::open(statistics)?;
        self.read_metadata(&file)?;
        Ok(self.header.extent.end_row(&file))
    }

    /// Computes the statistics of the stored rows `rows` (an empty range is allowed), and writes
    /// them to `path`. The table has at least the stored rows of the prepared table; see
    /// [`Table::part_of`] for a shard in a file of its own. Rows of segments that the shard covers
    /// only partly are stored unchanged.
    ///
    /// # Errors
    /// Rows that differ from the prepared rows; rows after the prepared rows if no rows can be
    /// appended; errors of reading the rows.
    pub fn statistics(&self, table: &Table, rows: Range<u64>, run: &Run<'_>, path: &Path) -> Result<()> {
        let stored = table.stored_rows();
        if stored < self.stored_rows() {
            let expected = self.stored_rows();
            let why = format!(
                "the job was prepared on {expected} stored rows; give the first row of the shard, `first_row`, or the statistics of the rows before it, `after`"
            );
            return Err(Error::option("rows", format!("of a table of {stored}"), why));
        }
        if let Some(why) = self.header.job.closed.as_ref().filter(|_| rows.end > self.stored_rows()) {
            let why = format!("the job has no rows after {}, because {why}", self.header.extent.pass.cut.end_row);
            return Err(Error::option("rows", format!("{}..{}", rows.start, rows.end), why));
        }
        let out = StateWriter::create(path)?;
        let extent = &self.header.extent;
        let digests = Arc::new(RowDigests::new(self.stored_rows()));
        let metadata_json = |edges, growth| {
            let metadata = StatisticsMetadata {
                job_mark: self.job_mark.clone(),
                extent: extent.clone(),
                edges,
                landmark_residuals: self.header.landmark_residuals,
                growth,
            };
            serde_json::to_value(&metadata).map_err(|error| not_a_job_error(path, &error))
        };
        let (complete_segments, partial_rows) = extent.split(&rows);
        if complete_segments.is_empty() && partial_rows.is_empty() {
            return Ok(out.finish(metadata_json(Vec::new(), Vec::new())?)?);
        }
        let role = Role::reduce(complete_segments, partial_rows, extent.pass.cut.segment_rows, Some(out));
        let replay = Replay::open(&self.path, extent.pass.clone(), role)?;
        self.reduce(&self.header.job.select(table)?.with_digests(&digests), &replay, run)?;
        let partial_piece_digests = self.check_digests(&digests, &rows)?;
        let selected = self.header.job.select(table)?.restrict_to(&rows);
        let prepared = self.prepared_statistics(&selected)?;
        // a column without values in the prepared rows has no range
        let range_of = |column: &ColumnMoments| if column.count == 0 { UNBOUNDED } else { [column.min, column.max] };
        let ranges: Vec<[f64; 2]> = prepared.inputs.iter().map(range_of).collect();
        let ranges = if selected.sparse_shape().is_some() { &[][..] } else { &ranges };
        let (column_statistics, outside) = run.statistics_beside_ranges(&selected, ranges, self.stored_rows())?;
        let [fit_residuals, new_residuals] = self.residuals_of_parts(table, &rows, replay.residuals(), run)?;
        let new_rows = Growth {
            rows: outside.rows,
            fit_rows: prepared.rows,
            residuals: new_residuals,
            columns: ranges.len(),
            ranges: moved_ranges(&selected.feature_names(), ranges, &column_statistics.inputs, &outside),
            unseen: selected.unseen_value_counts(),
            ..Growth::default()
        };
        let mut shard = ShardGrowth { rows: rows.clone(), fit_residuals, new_rows };
        shard.limit_columns();
        if let Some(mut out) = replay.into_writer() {
            out.push(column_key(&rows, column_statistics.rows), Some(&column_statistics))?;
            out.finish(metadata_json(partial_piece_digests, vec![shard])?)?;
        }
        Ok(())
    }

    /// Runs the fit until `replay` has reduced its rows.
    fn reduce(&self, selected: &SelectedTable, replay: &Replay, run: &Run<'_>) -> Result<()> {
        match self.run(selected, &run.clone().engine(replay)) {
            Err(_) if replay.is_done() => Ok(()),
            Err(error) => Err(error),
            Ok(_) => unreachable!("the replay engine ends the fit before its head is solved for"),
        }
    }

    /// Returns the residuals of the prepared rows and of the new rows of a shard. If a segment has
    /// rows of both, reduces its two parts again, one by one.
    fn residuals_of_parts(
        &self,
        table: &Table,
        rows: &Range<u64>,
        mut residuals: Vec<growth::RowResiduals>,
        run: &Run<'_>,
    ) -> Result<[Option<ResidualSums>; 2]> {
        let (boundary, pass) = (self.stored_rows(), &self.header.extent.pass);
        if residuals.iter().any(|(part, _)| part.start < boundary && boundary < part.end) && boundary < rows.end {
            let segment_rows = pass.cut.segment_rows.max(1);
            let first = boundary / segment_rows * segment_rows;
            let parts = [first.max(rows.start)..boundary, boundary..(first + segment_rows).min(rows.end)];
            residuals.retain(|(part, _)| part.end <= boundary || boundary <= part.start);
            for part in parts.into_iter().filter(|part| !part.is_empty()) {
                let role = Role::reduce(0..0, vec![part], segment_rows, None);
                let replay = Replay::open(&self.path, pass.clone(), role)?;
                self.reduce(&self.header.job.select(table)?, &replay, run)?;
                residuals.extend(replay.residuals());
            }
        } else if boundary >= rows.end {
            // the last segment of the prepared rows may end after them
            residuals.iter_mut().for_each(|(part, _)| part.end = part.end.min(boundary));
        }
        Ok(split_residuals(&residuals, boundary))
    }

    /// Returns the statistics of the columns of the prepared rows.
    fn prepared_statistics(&self, selected: &SelectedTable) -> Result<Statistics> {
        let (mut file, mut statistics) = (StateFile::open(&self.path)?, Statistics::new(&selected.shape()));
        let index = file.state_keys().iter().position(|state| state.pass.name == STATISTICS_PASS);
        file.load(index.unwrap_or(usize::MAX), &mut statistics)?;
        Ok(statistics)
    }

    /// Computes the model of all rows from their statistics.
    ///
    /// # Errors
    /// Statistics of another job; missing rows; the errors of the solver.
    pub fn solve(&self, statistics: &Path, run: &Run<'_>) -> Result<Fitted> {
        let mut states = StateFile::open(statistics)?;
        let reject = |why: String| Err(Error::Statistics { path: statistics.to_path_buf(), why });
        let (statistics_metadata, extent) = (self.read_metadata(&states)?, &self.header.extent);
        let missing_rows = extent.missing_rows(&states);
        if !missing_rows.is_empty() {
            return reject(format!(
                "rows {} are missing; compute and merge their statistics",
                format_ranges(&missing_rows)
            ));
        }
        let prepared = self.digests()?;
        if let Some((piece, _)) =
            statistics_metadata.edges.iter().find(|(piece, sum)| prepared.piece_digest(*piece) != *sum)
        {
            return reject(self.changed_rows_message(prepared.piece_rows(*piece)));
        }
        let (row_count, end_row) = (merge::row_count(&states), extent.end_row(&states));
        let table = Table::absent(self.header.job.schema(), end_row.max(self.stored_rows()));
        let selected = self.header.job.select(&table)?;
        let column_statistics = column_statistics(&mut states, &selected)?;
        let growth = statistics_metadata.total_growth(&[]);
        let replay = Replay::open(&self.path, extent.pass.clone(), Role::solve(states, extent.pass.cut.segment_rows))?;
        let mut fitted = self.run(&selected, &run.clone().engine(&replay))?;
        // shards may have been removed or appended since the job was prepared
        let (metadata, scaler) =
            match_precision!(AnyModel: &mut fitted.model, model => (&mut model.metadata, &model.scaler));
        (metadata.rows, fitted.report.rows) = (row_count, row_count);
        metadata.text_reading.clone_from(&self.header.job.reading);
        metadata.growth = growth.map(Growth::rounded);
        fitted.report.weight = total_weight_of(&column_statistics);
        let bounded_ranges =
            metadata.ranges.iter_mut().zip(&column_statistics.inputs).filter(|(range, _)| **range != UNBOUNDED);
        bounded_ranges
            .filter(|(_, column)| column.count > 0)
            .for_each(|(range, column)| *range = [column.min, column.max]);
        let named_inputs = metadata.features.iter().zip(&scaler.scale).zip(&column_statistics.inputs);
        let newly_varying = named_inputs.filter(|((_, scale), column)| **scale == 0.0 && !column.is_constant());
        let newly_varying: Vec<&str> = newly_varying.map(|((name, _), _)| name.as_str()).take(8).collect();
        if !newly_varying.is_empty() {
            let names = newly_varying.join(", ");
            run.stage_observer().warn(format!("{names} did not vary in the rows that the job was prepared on, so these columns have no effect; prepare the job again with rows in which they vary"));
        }
        Ok(fitted)
    }

    fn run(&self, selected: &SelectedTable, run: &Run<'_>) -> Result<Fitted> {
        // absent rows cannot be cached, and present rows are read only once
        let mut run = run.clone();
        run.scratch = None;
        self.header.job.fit.run(selected, &run)
    }

    fn read_metadata(&self, file: &StateFile) -> Result<StatisticsMetadata> {
        let metadata = StatisticsMetadata::from_file(file)?;
        if metadata.job_mark == self.job_mark {
            return Ok(metadata);
        }
        let why = format!("it has statistics of another job than {}; use statistics of this job", self.path.display());
        Err(Error::Statistics { path: file.path().to_path_buf(), why })
    }

    fn digests(&self) -> Result<RowDigests> {
        let mut file = StateFile::open(&self.path)?;
        let mut digests = RowDigests::new(self.stored_rows());
        let index = file.state_keys().iter().position(|state| state.pass.name == DIGEST_PASS_NAME);
        file.load(index.unwrap_or(usize::MAX), &mut digests)?;
        Ok(digests)
    }

    /// Compares the digests of the rows that were read with the digests of the prepared rows, piece
    /// by piece. Returns the digests of pieces that the rows cover only partly.
    fn check_digests(&self, read_digests: &RowDigests, rows: &Range<u64>) -> Result<Vec<(u64, u64)>> {
        let prepared = self.digests()?;
        let mut partial_piece_digests = Vec::new();
        for (piece, sum) in read_digests.piece_digests_in(rows) {
            let piece_rows = prepared.piece_rows(piece);
            if piece_rows.start < rows.start || rows.end < piece_rows.end {
                partial_piece_digests.push((piece, sum));
            } else if prepared.piece_digest(piece) != sum {
                let why = self.changed_rows_message(piece_rows);
                return Err(Error::option("rows", format!("{}..{}", rows.start, rows.end), why));
            }
        }
        Ok(partial_piece_digests)
    }

    /// Returns the message for rows whose values differ from the prepared rows.
    fn changed_rows_message(&self, rows: Range<u64>) -> String {
        let (rows, job) = (format_ranges(&[rows]), self.path.display());
        format!(
            "the values of rows {rows} differ from those that {job} was prepared on; use the same table, or give the first row of a shard in another table, with `first_row` or `after`"
        )
    }
}
