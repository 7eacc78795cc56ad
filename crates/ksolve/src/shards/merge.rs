//! Merging and removing statistics.

use super::extent::{Extent, RowLocation, StatisticsMetadata, format_ranges, is_row_state};
use crate::{Error, Result};
use kstore::checkpoint::{RowsKey, StateFile, StateKey, StateWriter};
use kstore::pass::Node;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The contents of a file of merged statistics.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct MergeSummary {
    /// Number of states.
    pub states: usize,
    /// Number of rows: rows that are summed into states, and rows that are stored for later.
    pub rows: u64,
    /// Number of rows that are stored unchanged; [`PreparedJob::solve`](super::PreparedJob::solve)
    /// adds them to the sums.
    #[serde(rename = "begun")]
    pub deferred_rows: u64,
    /// Index of the row after the last row.
    #[serde(rename = "next")]
    pub next_row: u64,
    /// Stored rows that are missing.
    pub missing: Vec<Range<u64>>,
}

/// Rows of a file, and their location.
struct RowPart {
    rows: Range<u64>,
    file_index: usize,
    location: RowLocation,
}

/// Merges statistics of one job, in any order, and writes them to `path`. Removes the stored rows
/// `removed`: the result is the same as if they had never been added.
///
/// States stay separate until [`PreparedJob::solve`](super::PreparedJob::solve) combines them.
/// Merged rows can therefore be removed again, unless a state spans their boundary.
///
/// ```no_run
/// let parts = ["a.stats".into(), "b.stats".into()];
/// let merged = ksolve::shards::merge(&parts, &[], "ab.stats".as_ref())?;
/// assert!(merged.missing.is_empty());
/// # Ok::<(), ksolve::Error>(())
/// ```
///
/// # Errors
/// Statistics of another job; rows that are in two files; a state that includes both removed rows
/// and rows that stay.
pub fn merge(files: &[PathBuf], removed: &[Range<u64>], path: &Path) -> Result<MergeSummary> {
    let mut files = files.iter().map(|path| Ok(StateFile::open(path)?)).collect::<Result<Vec<StateFile>>>()?;
    let Some(first_file) = files.first() else {
        return Err(Error::option("statistics", "", "no files to merge; name at least one file of statistics"));
    };
    let mut metadata = StatisticsMetadata::from_file(first_file)?;
    for file in &files[1..] {
        let StatisticsMetadata { job_mark, edges, growth, .. } = StatisticsMetadata::from_file(file)?;
        if job_mark != metadata.job_mark {
            let why = format!(
                "it does not have statistics of the same job as {}; merge statistics of one job",
                first_file.path().display()
            );
            return Err(Error::Statistics { path: file.path().to_path_buf(), why });
        }
        add_digests(&mut metadata.edges, edges);
        metadata.growth.extend(growth);
    }
    // like ranges, the residuals of a part of a shard are unknown
    metadata.growth.retain(|shard| !is_removed(&shard.rows, removed));
    let parts = row_parts(&files, &metadata.extent)?;
    let is_part_removed = |part: &RowPart| are_removed(&part.rows, removed, files[part.file_index].path());
    let removed_parts = parts.iter().map(is_part_removed).collect::<Result<Vec<bool>>>()?;
    let mut out = StateWriter::create(path)?;
    for (part, is_removed) in parts.into_iter().zip(removed_parts) {
        copy_part(&mut out, &mut files[part.file_index], part.location, is_removed)?;
    }
    for file in &mut files {
        copy_columns(&mut out, file, removed)?;
    }
    out.finish(serde_json::to_value(&metadata).map_err(|error| super::not_a_job_error(path, &error))?)?;
    let merged = StateFile::open(path)?;
    let deferred_rows = merged.row_keys().iter().map(|key| key.row_count).sum();
    Ok(MergeSummary {
        states: merged.state_keys().iter().filter(|state| is_row_state(state)).count(),
        rows: row_count(&merged),
        deferred_rows,
        next_row: metadata.extent.end_row(&merged),
        missing: metadata.extent.missing_rows(&merged),
    })
}

pub(super) fn row_count(file: &StateFile) -> u64 {
    let state_rows = file.state_keys().iter().filter(|state| is_row_state(state)).map(|state| state.node.row_count);
    state_rows.chain(file.row_keys().iter().map(|key| key.row_count)).sum()
}

/// Adds the digests `new_edges` of parts of pieces to `edges`: the digest of several rows is the
/// sum of the digests of these rows.
fn add_digests(edges: &mut Vec<(u64, u64)>, new_edges: Vec<(u64, u64)>) {
    for (piece, sum) in new_edges {
        match edges.iter_mut().find(|(key, _)| *key == piece) {
            Some((_, digest)) => *digest = digest.wrapping_add(sum),
            None => edges.push((piece, sum)),
        }
    }
}

/// Returns the rows of all files, in order; an error if two files have the same row.
fn row_parts(files: &[StateFile], extent: &Extent) -> Result<Vec<RowPart>> {
    let parts_of = |(i, file): (usize, &StateFile)| {
        let parts = extent.locate_rows(file).into_iter();
        parts.map(move |(rows, location)| RowPart { rows, file_index: i, location }).collect::<Vec<_>>()
    };
    let mut parts: Vec<RowPart> = files.iter().enumerate().flat_map(parts_of).collect();
    parts.sort_by_key(|part| part.rows.start);
    if let Some(pair) = parts.windows(2).find(|pair| pair[0].rows.end > pair[1].rows.start) {
        let shared_rows = pair[1].rows.start..pair[0].rows.end.min(pair[1].rows.end);
        let (rows, other_path) = (format_ranges(&[shared_rows]), files[pair[0].file_index].path().display());
        let why = format!("rows {rows} are also in {other_path}; merge each row once");
        return Err(Error::Statistics { path: files[pair[1].file_index].path().to_path_buf(), why });
    }
    Ok(parts)
}

/// Copies a state or rows of a file, or marks them as removed.
fn copy_part(out: &mut StateWriter, file: &mut StateFile, location: RowLocation, is_removed: bool) -> Result<()> {
    match location {
        RowLocation::State(index) if !is_removed => out.copy_state(file, index)?,
        RowLocation::State(index) => {
            let StateKey { pass, node } = file.state_keys()[index].clone();
            out.push(StateKey { pass, node: Node { row_count: 0, ..node } }, None)?;
        }
        RowLocation::Rows(index) => {
            let key = file.row_keys()[index].clone();
            let bytes = if is_removed { Vec::new() } else { file.load_rows(index)? };
            out.push_rows(if is_removed { RowsKey { row_count: 0, ..key } } else { key }, &bytes)?;
        }
    }
    Ok(())
}

/// Copies the column statistics except for ranges that are removed completely: minima and maxima of
/// a part of the rows are unknown.
fn copy_columns(out: &mut StateWriter, file: &mut StateFile, removed: &[Range<u64>]) -> Result<()> {
    for index in 0..file.state_keys().len() {
        let state = &file.state_keys()[index];
        if !is_row_state(state) && !is_removed(&state.node.segments, removed) {
            out.copy_state(file, index)?;
        }
    }
    Ok(())
}

/// Returns true if a range of `removed` contains all of `rows`.
fn is_removed(rows: &Range<u64>, removed: &[Range<u64>]) -> bool {
    removed.iter().any(|range| range.start <= rows.start && rows.end <= range.end)
}

/// Returns true if a range of `removed` contains all of `rows`, and false if no range contains any
/// of them. A range that contains only a part of `rows` is an error.
fn are_removed(rows: &Range<u64>, removed: &[Range<u64>], path: &Path) -> Result<bool> {
    let overlaps = |range: &&Range<u64>| range.start < rows.end && rows.start < range.end;
    let Some(removed_rows) = removed.iter().find(overlaps) else { return Ok(false) };
    if removed_rows.start <= rows.start && rows.end <= removed_rows.end {
        return Ok(true);
    }
    let (rows, removed_text) =
        (format_ranges(std::slice::from_ref(rows)), format_ranges(std::slice::from_ref(removed_rows)));
    let why = format!(
        "rows {rows} are one state, and removing {removed_text} would split it; recompute the statistics of the remaining rows of {rows}, and merge those"
    );
    Err(Error::Statistics { path: path.to_path_buf(), why })
}
