//! Statistics put together, and taken away.

use crate::{Error, Result};
use kstore::checkpoint::{Cut, StateFile, StateKey, StateWriter};
use kstore::pass::Node;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What is in a file of merged statistics.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Merged {
    /// States.
    pub states: usize,
    /// Rows that were folded into them.
    pub rows: u64,
    /// Stored rows that are still missing.
    pub missing: Vec<Range<u64>>,
}

/// The mark of the job that statistics are of.
pub(super) fn job_of(file: &StateFile) -> Option<&str> {
    file.about()["job_mark"].as_str()
}

/// Stored rows without a state.
pub(super) fn holes(file: &StateFile, cut: &Cut) -> Vec<Range<u64>> {
    let mut there: Vec<&Range<u64>> = file.states().iter().map(|state| &state.node.segments).collect();
    there.sort_by_key(|segments| segments.start);
    let all = cut.segments();
    let (mut holes, mut at) = (Vec::new(), all.start);
    for segments in there {
        if segments.start > at {
            holes.push(cut.rows(&(at..segments.start)));
        }
        at = at.max(segments.end);
    }
    if at < all.end {
        holes.push(cut.rows(&(at..all.end)));
    }
    holes
}

/// Ranges as text.
pub(super) fn listed(rows: &[Range<u64>]) -> String {
    rows.iter().map(|rows| format!("{}..{}", rows.start, rows.end)).collect::<Vec<_>>().join(", ")
}

/// Puts statistics of one job together, in whatever order, and writes them to `path`; the stored rows `without` are taken
/// away: they count as rows that were never there.
///
/// Nothing is computed: states stay those of their nodes until a model is solved for. So what was merged can be taken
/// away again wherever no state spans its edge.
///
/// ```no_run
/// let merged = ksolve::job::shards::merge(&["a.stats".into(), "b.stats".into()], &[], "ab.stats".as_ref())?;
/// assert!(merged.missing.is_empty());
/// # Ok::<(), ksolve::Error>(())
/// ```
///
/// # Errors
/// Statistics of another job; rows that are in two files; a state with some of the rows that are taken away, and others.
pub fn merge(files: &[PathBuf], without: &[Range<u64>], path: &Path) -> Result<Merged> {
    let mut files = files.iter().map(|path| Ok(StateFile::open(path)?)).collect::<Result<Vec<StateFile>>>()?;
    let Some(first) = files.first() else {
        return Err(Error::option("statistics", "", "there is nothing to merge; name files of statistics"));
    };
    let about = first.about().clone();
    let shared = files.iter().flat_map(StateFile::states).map(|state| state.pass.clone()).next();
    for file in &files {
        if job_of(file).is_none() || file.about() != &about {
            let why = format!("it does not hold statistics of the job that {} is of", first.path().display());
            return Err(Error::Statistics { path: file.path().to_path_buf(), why });
        }
    }
    let Some(pass) = shared else {
        let why = "none of the files holds a state; name those of parts that have rows".to_string();
        return Err(Error::Statistics { path: first.path().to_path_buf(), why });
    };
    let cut = pass.cut;
    let mut places: Vec<(Range<u64>, usize, usize)> = Vec::new();
    for (i, file) in files.iter().enumerate() {
        places.extend(file.states().iter().enumerate().map(|(j, state)| (state.node.segments.clone(), i, j)));
    }
    places.sort_by_key(|(segments, ..)| segments.start);
    if let Some(pair) = places.windows(2).find(|pair| pair[0].0.end > pair[1].0.start) {
        let both = cut.rows(&(pair[1].0.start..pair[0].0.end.min(pair[1].0.end)));
        let (rows, other) = (listed(&[both]), files[pair[0].1].path().display());
        let why = format!("rows {rows} are in {other} too; merge each row once");
        return Err(Error::Statistics { path: files[pair[1].1].path().to_path_buf(), why });
    }
    for (segments, i, _) in &places {
        check_whole(&cut, segments, without, files[*i].path())?;
    }
    let mut out = StateWriter::create(path)?;
    for (segments, i, j) in places {
        match is_within(&cut.rows(&segments), without) {
            false => out.copy(&mut files[i], j)?,
            true => out.push(StateKey { pass: pass.clone(), node: Node { segments, rows: 0 } }, None)?,
        }
    }
    out.finish(about)?;
    let merged = StateFile::open(path)?;
    let rows = merged.states().iter().map(|state| state.node.rows).sum();
    Ok(Merged { states: merged.states().len(), rows, missing: holes(&merged, &cut) })
}

/// True where all of some rows are taken away.
fn is_within(rows: &Range<u64>, without: &[Range<u64>]) -> bool {
    without.iter().any(|away| away.start <= rows.start && rows.end <= away.end)
}

/// Refuses to take a part of a state away.
fn check_whole(cut: &Cut, segments: &Range<u64>, without: &[Range<u64>], path: &Path) -> Result<()> {
    let rows = cut.rows(segments);
    let split = |away: &&Range<u64>| {
        away.start < rows.end && rows.start < away.end && !is_within(&rows, std::slice::from_ref(away))
    };
    match without.iter().find(split) {
        None => Ok(()),
        Some(away) => {
            let (rows, away) = (listed(std::slice::from_ref(&rows)), listed(std::slice::from_ref(away)));
            let why = format!(
                "rows {rows} are one state, and {away} cuts it: compute the statistics of the rows to be kept of {rows} anew, and merge those"
            );
            Err(Error::Statistics { path: path.to_path_buf(), why })
        }
    }
}
