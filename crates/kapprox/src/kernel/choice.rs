//! Kernels on some of the columns: `gaussian(sigma=1, on=x0..x9) * delta(on=city)`.
//!
//! An expression names its columns, which are looked up once among the features of the rows
//! ([`Kernel::resolve_columns`](super::Kernel::resolve_columns)). The names stay in the expression:
//! a model file stores them next to the names of its features, which are the same on every table
//! that the model is used on.
//!
//! A kernel of some coordinates is the kernel of points after a linear map, and is positive
//! definite if the kernel is.

use super::{Spectrum, embedded::Embedding};
use crate::{Error, Real, Result};
use kpass::names;
use std::{collections::HashSet, fmt, sync::Arc};

/// Names of columns as written, and the positions where they were found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ColumnChoice {
    parts: Vec<Part>,
    places: Option<Places>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Part {
    /// A column; if no feature has this name, the items of a list column, the values of a column of
    /// categories, or a pattern. With a leading `!` it excludes its columns from the others, or
    /// from all columns if no other column exists.
    Like(String),
    /// The first and the last column and all columns between, in the order of the features.
    Range(String, String),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Places {
    /// Number of features of a point.
    of: usize,
    at: Arc<[usize]>,
}

impl ColumnChoice {
    pub(super) fn new(parts: Vec<Part>) -> Self {
        Self { parts, places: None }
    }

    /// Returns the positions of the columns; `None` before they are resolved.
    pub(super) fn places(&self) -> Option<&Places> {
        self.places.as_ref()
    }

    /// Returns the resolved columns by the feature names of in-memory rows: `x0`, `x1`, ….
    pub(super) fn by_place(&self) -> Self {
        let found = self.places().into_iter().flat_map(Places::iter);
        Self::new(found.map(|place| Part::Like(format!("x{place}"))).collect())
    }

    /// Finds the columns among `features`, in the order in which they are written, each once.
    /// `kernel` is the name of the kernel, for messages.
    pub(super) fn resolve(&self, features: &[&str], kernel: &'static str) -> Result<Self> {
        let (mut at, mut taken, mut wanted) = (Vec::new(), HashSet::new(), Vec::new());
        for part in &self.parts {
            match part.unwanted(features) {
                Some(unwanted) => taken.extend(unwanted.find(features, kernel)?),
                None => wanted.push(part.find(features, kernel)?),
            }
        }
        if wanted.is_empty() {
            wanted.push((0..features.len()).collect());
        }
        at.extend(wanted.into_iter().flatten().filter(|place| taken.insert(*place)));
        if at.is_empty() {
            let (name, hint) = (self.to_string(), "; the exclusions leave no column".to_string());
            return Err(Error::NoSuchFeature { kernel, name, hint });
        }
        let places = Places { of: features.len(), at: at.into() };
        Ok(Self { parts: self.parts.clone(), places: Some(places) })
    }
}

impl Part {
    /// Returns the columns that follow `!`; `None` if a feature has the whole name, `!` included.
    fn unwanted(&self, features: &[&str]) -> Option<Self> {
        match self {
            Self::Like(name) if names::position(features, name).is_none() => {
                name.strip_prefix('!').map(|name| Self::Like(name.to_string()))
            }
            _ => None,
        }
    }

    fn find(&self, features: &[&str], kernel: &'static str) -> Result<Vec<usize>> {
        let missing =
            |name: &str| Error::NoSuchFeature { kernel, name: name.to_string(), hint: names::hint(features, name) };
        let place = |name: &str| names::position(features, name).ok_or_else(|| missing(name));
        match self {
            Self::Like(name) => {
                match (names::position(features, name), names::items(features, name), names::values(features, name)) {
                    (Some(place), ..) => Ok(vec![place]),
                    (None, items, _) if !items.is_empty() => Ok(items),
                    (None, _, values) if !values.is_empty() => Ok(values),
                    _ => {
                        let pattern = glob::Pattern::new(name).map_err(|_| missing(name))?;
                        let columns = features.iter().enumerate();
                        let found: Vec<_> = columns.filter(|(_, name)| pattern.matches(name)).map(|(i, _)| i).collect();
                        if found.is_empty() { Err(missing(name)) } else { Ok(found) }
                    }
                }
            }
            Self::Range(first, last) => {
                let (from, to) = (place(first)?, place(last)?);
                if from > to {
                    return Err(Error::Backwards { kernel, first: first.clone(), last: last.clone() });
                }
                Ok((from..=to).collect())
            }
        }
    }
}

impl Places {
    pub(super) fn len(&self) -> usize {
        self.at.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.at.iter().copied()
    }
}

impl Embedding for Places {
    fn features(&self, d: usize) -> usize {
        assert_eq!(d, self.of, "the columns were looked up among other features");
        self.at.len()
    }

    fn apply<T: Real>(&self, x: &[T], image: &mut [T]) {
        for (image, &place) in image.iter_mut().zip(&*self.at) {
            *image = x[place];
        }
    }

    fn pull_back<T: Real>(&self, _: &[T], _: &[T], by_image: &[T], gradient: &mut [T]) {
        gradient.fill(T::ZERO);
        for (&by_image, &place) in by_image.iter().zip(&*self.at) {
            gradient[place] = by_image;
        }
    }

    /// Returns the frequencies of the columns, and 0 for other columns: their length scale is
    /// infinite.
    fn spectrum(&self, spectrum: Option<Spectrum>) -> Option<Spectrum> {
        let spectrum = spectrum?;
        let mut lengths = vec![f64::INFINITY; self.of];
        for (i, &place) in self.at.iter().enumerate() {
            lengths[place] = spectrum.length(i);
        }
        Some(Spectrum { lengths, ..spectrum })
    }
}

/// Returns whether a character needs no quotes in a name.
pub(super) fn is_bare(c: char) -> bool {
    !c.is_whitespace() && !",()[]\"".contains(c)
}

impl fmt::Display for ColumnChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.parts.iter().map(Part::to_string).collect::<Vec<_>>()[..] {
            [part] => f.write_str(part),
            parts => write!(f, "[{}]", parts.join(", ")),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Like(name) => quoted(name).fmt(f),
            Self::Range(first, last) => write!(f, "{}..{}", quoted(first), quoted(last)),
        }
    }
}

/// Returns a name that parses back: quoted if it contains special characters, with quotes doubled.
fn quoted(name: &str) -> String {
    let dots = name.contains("..") || name.starts_with('.') || name.ends_with('.');
    if !name.is_empty() && !dots && name.chars().all(is_bare) {
        return name.to_string();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}
