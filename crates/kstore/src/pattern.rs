//! Expands a path, a folder or a pattern to the files that it stands for.
//!
//! In a pattern, `*`, `?` and `[a-z]` match within a name, and `**` matches any number of folders.
//! A name that begins with `.` or `_` only matches a pattern that begins with the same character.
//! Shells have this rule for `.` only.

use crate::names::nearest;
use crate::source::{self, unsupported};
use crate::{Error, Result};
use glob::Pattern;
use std::path::{Component, Path, PathBuf};

fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

enum PatternComponent {
    Literal(PathBuf),
    Wildcard(Pattern),
    AnyFolders,
}

/// Returns the files that match, in no particular order; at least one. A name that is not UTF-8 is
/// matched in its displayed form, so that a table never misses the rows of such a file.
fn matching_files(pattern: &Path) -> Result<Vec<PathBuf>> {
    let components =
        pattern.components().map(|component| parse_component(component, pattern)).collect::<Result<Vec<_>>>()?;
    let mut paths = Vec::new();
    walk(PathBuf::new(), &components, &mut paths)?;
    if paths.is_empty() {
        let hint =
            "; the pattern matches no file: check the pattern and its folder; names that begin with _ or . match \
                    only patterns that begin with one of these characters"
                .to_string();
        return Err(Error::NotFound { path: pattern.to_path_buf(), hint });
    }
    Ok(paths)
}

fn parse_component(component: Component<'_>, pattern: &Path) -> Result<PatternComponent> {
    let name = component.as_os_str().to_string_lossy();
    match component {
        Component::Normal(_) if name == "**" => Ok(PatternComponent::AnyFolders),
        Component::Normal(_) if is_pattern(&name) => Pattern::new(&name).map(PatternComponent::Wildcard).map_err(|_| Error::Syntax {
            what: "pattern",
            text: pattern.display().to_string(),
            expected: "write * for any characters, ? for one character, [0-9] for one of several, ** alone between two slashes \
                       for any folders, and [[] for a bracket"
                .to_string(),
        }),
        _ => Ok(PatternComponent::Literal(component.as_os_str().into())),
    }
}

/// Adds the files that match `components` below `path` to `paths`.
fn walk(path: PathBuf, components: &[PatternComponent], paths: &mut Vec<PathBuf>) -> Result<()> {
    match components {
        [] if path.is_file() => paths.push(path),
        [] => {}
        [PatternComponent::Literal(name), remaining @ ..] => walk(path.join(name), remaining, paths)?,
        [PatternComponent::Wildcard(pattern), remaining @ ..] => {
            for entry in entries(&path)? {
                let matches = |entry: &str| {
                    pattern.matches(entry)
                        && (!unsupported::is_hidden(entry) || unsupported::is_hidden(pattern.as_str()))
                };
                if entry.file_name().is_some_and(|entry| matches(&entry.to_string_lossy())) {
                    walk(entry, remaining, paths)?;
                }
            }
        }
        [PatternComponent::AnyFolders, remaining @ ..] => {
            walk(path.clone(), remaining, paths)?;
            for entry in entries(&path)? {
                // a link to a parent folder would cause an endless loop
                let is_hidden = entry.file_name().is_some_and(|entry| unsupported::is_hidden(&entry.to_string_lossy()));
                if entry.is_dir() && !entry.is_symlink() && !is_hidden {
                    walk(entry, components, paths)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the paths in a folder, prefixed with `folder` as given; an empty list if the folder does
/// not exist.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let directory = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(directory).map_err(Error::io("read", directory))?;
    entries
        .map(|entry| entry.map(|entry| folder.join(entry.file_name())).map_err(Error::io("read", directory)))
        .collect()
}

/// Returns the files that a path, folder or pattern names; at least one.
pub(crate) fn expand_path(path: &Path) -> Result<Vec<PathBuf>> {
    let paths = if path.is_dir() {
        unsupported::reject_lakehouse(path, &[])?;
        files_in_folder(path)?
    } else if is_pattern(&path.to_string_lossy()) && !path.exists() {
        matching_files(path)?
    } else {
        return Ok(vec![require_existing(path)?]);
    };
    unsupported::reject_lakehouse(path, &paths)?;
    Ok(paths)
}

pub(crate) fn require_existing(path: &Path) -> Result<PathBuf> {
    match path.try_exists() {
        Ok(true) => Ok(path.to_path_buf()),
        Ok(false) => Err(not_found_error(path)),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

fn files_in_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let path = entry.map_err(Error::io("read", folder))?.path();
        let is_hidden = path.file_name().is_none_or(|name| unsupported::is_hidden(&name.to_string_lossy()));
        if !is_hidden && path.is_file() && source::format_by_extension(&path).is_some() {
            files.push(path);
        } else if !is_hidden
            && path.is_dir()
            && path.file_name().is_some_and(|name| name.to_string_lossy().contains('='))
        {
            match files_in_folder(&path) {
                Err(Error::Empty { .. }) => {}
                subfolder_files => files.extend(subfolder_files?),
            }
        }
    }
    if files.is_empty() {
        let why = format!(
            "the folder holds no {} file, apart from names that begin with _ or .; name another folder, or files",
            source::list_known_extensions("or")
        );
        return Err(Error::Empty { what: folder.display().to_string(), why });
    }
    Ok(files)
}

/// Returns the error for a missing file, with the most similar name in the same folder.
fn not_found_error(path: &Path) -> Error {
    if let Ok(link_target) = path.read_link() {
        let hint = format!("; the link points to {}, which does not exist: name another file", link_target.display());
        return Error::NotFound { path: path.to_path_buf(), hint };
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let hint = match std::fs::read_dir(folder) {
        Err(_) => format!("; there is no folder {}: check the path", folder.display()),
        Ok(entries) => {
            let names: Vec<_> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            // stems are compared, because names are not similar just because their extensions are
            // equal
            let stem =
                |name: &str| Path::new(name).file_stem().and_then(|stem| stem.to_str()).unwrap_or("").to_string();
            let stems: Vec<String> = names.iter().map(|name| stem(name)).collect();
            // of files with the same stem, the one with the same extension
            let is_other_kind = |name: &String| Path::new(name).extension() != path.extension();
            let nearest_stem = nearest(&stem(name), stems.iter().map(String::as_str));
            let index = nearest_stem.and_then(|near| {
                let same_stem = (0..names.len()).filter(|index| stems[*index] == near);
                same_stem.min_by_key(|index| (is_other_kind(&names[*index]), &names[*index]))
            });
            index.map_or(String::new(), |index| {
                format!("; did you mean {}?", path.with_file_name(&names[index]).display())
            })
        }
    };
    Error::NotFound { path: path.to_path_buf(), hint }
}
