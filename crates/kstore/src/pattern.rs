//! Files by a pattern: `*`, `?` and `[a-z]` within a name, `**` for any folders between. As in a
//! shell, names that begin with `.`, and here with `_` too, match only a pattern that begins so.

use crate::{Error, Result, source::foreign::is_hidden};
use glob::Pattern;
use std::path::{Component, Path, PathBuf};

pub(crate) fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

enum Step {
    Fixed(PathBuf),
    Name(Pattern),
    Folders,
}

/// The files that match, in no order; at least one. Names that are no UTF-8 match as they are shown, so that no row of a table is left
/// out for the name of its file.
pub(crate) fn files(pattern: &Path) -> Result<Vec<PathBuf>> {
    let steps = pattern.components().map(|component| step(component, pattern)).collect::<Result<Vec<_>>>()?;
    let mut found = Vec::new();
    walk(PathBuf::new(), &steps, &mut found)?;
    if found.is_empty() {
        let hint =
            "; the pattern matches no file: check it, and the folder it begins in; names that begin with _ or . match \
                    only a pattern that begins so"
                .to_string();
        return Err(Error::NotFound { path: pattern.to_path_buf(), hint });
    }
    Ok(found)
}

fn step(component: Component<'_>, pattern: &Path) -> Result<Step> {
    let name = component.as_os_str().to_string_lossy();
    match component {
        Component::Normal(_) if name == "**" => Ok(Step::Folders),
        Component::Normal(_) if is_pattern(&name) => Pattern::new(&name).map(Step::Name).map_err(|_| Error::Syntax {
            what: "pattern",
            text: pattern.display().to_string(),
            expected: "write * for any letters, ? for one and [0-9] for one of several, ** alone between two slashes, \
                       and [[] for a bracket"
                .to_string(),
        }),
        _ => Ok(Step::Fixed(component.as_os_str().into())),
    }
}

fn walk(at: PathBuf, steps: &[Step], found: &mut Vec<PathBuf>) -> Result<()> {
    match steps {
        [] if at.is_file() => found.push(at),
        [] => {}
        [Step::Fixed(name), rest @ ..] => walk(at.join(name), rest, found)?,
        [Step::Name(name), rest @ ..] => {
            for entry in entries(&at)? {
                let matches = |entry: &str| name.matches(entry) && (!is_hidden(entry) || is_hidden(name.as_str()));
                if entry.file_name().is_some_and(|entry| matches(&entry.to_string_lossy())) {
                    walk(entry, rest, found)?;
                }
            }
        }
        [Step::Folders, rest @ ..] => {
            walk(at.clone(), rest, found)?;
            for entry in entries(&at)? {
                // a link to a folder above would lead round for ever
                let hidden = entry.file_name().is_some_and(|entry| is_hidden(&entry.to_string_lossy()));
                if entry.is_dir() && !entry.is_symlink() && !hidden {
                    walk(entry, steps, found)?;
                }
            }
        }
    }
    Ok(())
}

/// The paths in a folder, under the name that led there; none where there is no such folder.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    if !here.is_dir() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(here).map_err(Error::io("read", here))?;
    entries.map(|entry| entry.map(|entry| folder.join(entry.file_name())).map_err(Error::io("read", here))).collect()
}
