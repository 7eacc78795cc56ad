//! Merging and removing statistics.

use super::extent::{Extent, Place, StatisticsCard, is_of_rows, listed};
use crate::{Error, Result};
use kstore::checkpoint::{RowsKey, StateFile, StateKey, StateWriter};
use kstore::pass::Node;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The contents of a file of merged statistics.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Merged {
    /// Number of states.
    pub states: usize,
    /// Number of rows, both folded into states and stored for later folding.
    pub rows: u64,
    /// Number of rows that are stored unchanged and folded only by
    /// [`PreparedJob::solve`](super::PreparedJob::solve).
    pub begun: u64,
    /// Index of the stored row after the last one.
    pub next: u64,
    /// Stored rows that are missing.
    pub missing: Vec<Range<u64>>,
}

/// Rows of a file, and their location.
struct Part {
    rows: Range<u64>,
    file: usize,
    place: Place,
}

/// Merges statistics of one job, in any order, and writes them to `path`. The stored rows `without`
/// are removed; the result is the same as if they had never been added.
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
/// Statistics of another job; rows that are in two files; a state that includes both removed and
/// other rows.
pub fn merge(files: &[PathBuf], without: &[Range<u64>], path: &Path) -> Result<Merged> {
    let mut files = files.iter().map(|path| Ok(StateFile::open(path)?)).collect::<Result<Vec<StateFile>>>()?;
    let Some(first) = files.first() else {
        return Err(Error::option("statistics", "", "no files to merge; name at least one file of statistics"));
    };
    let mut card = StatisticsCard::of(first)?;
    for file in &files[1..] {
        let StatisticsCard { job_mark, edges, .. } = StatisticsCard::of(file)?;
        if job_mark != card.job_mark {
            let why = format!(
                "it does not have statistics of the same job as {}; merge statistics of one job",
                first.path().display()
            );
            return Err(Error::Statistics { path: file.path().to_path_buf(), why });
        }
        add(&mut card.edges, edges);
    }
    let parts = parts(&files, &card.extent)?;
    let takes_away = |part: &Part| is_taken_away(&part.rows, without, files[part.file].path());
    let away = parts.iter().map(takes_away).collect::<Result<Vec<bool>>>()?;
    let mut out = StateWriter::create(path)?;
    for (part, away) in parts.into_iter().zip(away) {
        put(&mut out, &mut files[part.file], part.place, away)?;
    }
    for file in &mut files {
        copy_columns(&mut out, file, without)?;
    }
    out.finish(serde_json::to_value(&card).map_err(|error| super::unreadable(path, &error))?)?;
    let merged = StateFile::open(path)?;
    let begun = merged.rows().iter().map(|key| key.rows).sum();
    Ok(Merged {
        states: merged.states().iter().filter(|state| is_of_rows(state)).count(),
        rows: rows(&merged),
        begun,
        next: card.extent.end(&merged),
        missing: card.extent.holes(&merged),
    })
}

pub(super) fn rows(file: &StateFile) -> u64 {
    let folded = file.states().iter().filter(|state| is_of_rows(state)).map(|state| state.node.rows);
    folded.chain(file.rows().iter().map(|key| key.rows)).sum()
}

/// Adds digests of parts of pieces: the digest of rows is the sum of their digests.
fn add(edges: &mut Vec<(u64, u64)>, more: Vec<(u64, u64)>) {
    for (piece, sum) in more {
        match edges.iter_mut().find(|(there, _)| *there == piece) {
            Some((_, there)) => *there = there.wrapping_add(sum),
            None => edges.push((piece, sum)),
        }
    }
}

/// Returns the rows of all files, in order, each once.
fn parts(files: &[StateFile], extent: &Extent) -> Result<Vec<Part>> {
    let of = |(i, file): (usize, &StateFile)| {
        let parts = extent.covered(file).into_iter();
        parts.map(move |(rows, place)| Part { rows, file: i, place }).collect::<Vec<_>>()
    };
    let mut parts: Vec<Part> = files.iter().enumerate().flat_map(of).collect();
    parts.sort_by_key(|part| part.rows.start);
    if let Some(pair) = parts.windows(2).find(|pair| pair[0].rows.end > pair[1].rows.start) {
        let both = pair[1].rows.start..pair[0].rows.end.min(pair[1].rows.end);
        let (rows, other) = (listed(&[both]), files[pair[0].file].path().display());
        let why = format!("rows {rows} are also in {other}; merge each row once");
        return Err(Error::Statistics { path: files[pair[1].file].path().to_path_buf(), why });
    }
    Ok(parts)
}

/// Copies a state or rows of a file, or marks them as removed.
fn put(out: &mut StateWriter, file: &mut StateFile, place: Place, away: bool) -> Result<()> {
    match place {
        Place::State(place) if !away => out.copy(file, place)?,
        Place::State(place) => {
            let StateKey { pass, node } = file.states()[place].clone();
            out.push(StateKey { pass, node: Node { rows: 0, ..node } }, None)?;
        }
        Place::Rows(place) => {
            let key = file.rows()[place].clone();
            let bytes = if away { Vec::new() } else { file.load_rows(place)? };
            out.push_rows(if away { RowsKey { rows: 0, ..key } } else { key }, &bytes)?;
        }
    }
    Ok(())
}

/// Copies the column statistics except for ranges that are removed completely: minima and maxima of
/// a part of the rows are unknown.
fn copy_columns(out: &mut StateWriter, file: &mut StateFile, without: &[Range<u64>]) -> Result<()> {
    for place in 0..file.states().len() {
        let state = &file.states()[place];
        let rows = &state.node.segments;
        let away = without.iter().any(|away| away.start <= rows.start && rows.end <= away.end);
        if !is_of_rows(state) && !away {
            out.copy(file, place)?;
        }
    }
    Ok(())
}

/// Returns true if all of these rows are removed.
fn is_taken_away(rows: &Range<u64>, without: &[Range<u64>], path: &Path) -> Result<bool> {
    let touched = |away: &&Range<u64>| away.start < rows.end && rows.start < away.end;
    let Some(away) = without.iter().find(touched) else { return Ok(false) };
    if away.start <= rows.start && rows.end <= away.end {
        return Ok(true);
    }
    let (rows, away) = (listed(std::slice::from_ref(rows)), listed(std::slice::from_ref(away)));
    let why = format!(
        "rows {rows} are one state, and removing {away} would split it; recompute the statistics of the remaining rows of {rows}, and merge those"
    );
    Err(Error::Statistics { path: path.to_path_buf(), why })
}
