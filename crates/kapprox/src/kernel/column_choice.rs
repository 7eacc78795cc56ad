//! Kernels on some of the columns: `gaussian(sigma=1, on=x0..x9) * delta(on=city)`.
//!
//! An expression names its columns, which are looked up once among the features of the rows
//! ([`Kernel::resolve_columns`](super::Kernel::resolve_columns)). The names stay in the expression.
//! A model file stores the expression and the names of the model's features. Every table on which
//! the model is used has features with these names, so the expression selects the same columns
//! there.
//!
//! Selecting columns is a linear map of the points. A kernel of mapped points is positive definite
//! if the kernel itself is.

use super::{Kernel, Spectrum, embedded::Embedding, node::BaseKernel};
use crate::{Error, Real, Result};
use kpass::names;
use std::{collections::HashSet, fmt, ops::Range, sync::Arc};

/// Columns as an expression writes them and, once they are resolved, their positions.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ColumnSelection {
    selectors: Vec<ColumnSelector>,
    indices: Option<ColumnIndices>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ColumnSelector {
    /// The name of a column. If no feature has this name, it is the name of a list column (all its
    /// items), the name of a categorical column (all its values), or a pattern. If it has a leading
    /// `!`, its columns are excluded from the other columns of the selection, or from all columns
    /// if the selection has no other columns.
    NameOrPattern(String),
    /// The first and the last column and all columns between, in the order of the features.
    Range(String, String),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ColumnIndices {
    /// Number of features of a point.
    input_count: usize,
    indices: Arc<[usize]>,
}

impl ColumnSelection {
    pub(super) fn new(selectors: Vec<ColumnSelector>) -> Self {
        Self { selectors, indices: None }
    }

    /// Returns the selection of adjacent features, which `name` names, among `feature_count`
    /// features.
    pub(super) fn of_range(name: &str, features: Range<usize>, feature_count: usize) -> Self {
        let indices = Some(ColumnIndices { input_count: feature_count, indices: features.collect() });
        Self { selectors: vec![ColumnSelector::NameOrPattern(name.to_string())], indices }
    }

    /// Returns the positions of the columns, or `None` before they are resolved.
    pub(super) fn indices(&self) -> Option<&ColumnIndices> {
        self.indices.as_ref()
    }

    /// Returns the resolved columns with the feature names of in-memory rows, `x0`, `x1`, …,
    /// instead of their own names.
    pub(super) fn with_positional_names(&self) -> Self {
        let positions = self.indices().into_iter().flat_map(ColumnIndices::iter);
        Self::new(positions.map(|position| ColumnSelector::NameOrPattern(format!("x{position}"))).collect())
    }

    /// Finds the columns among the names `features`, each once, in the order in which the
    /// expression writes them. `kernel` is the name of the kernel, for messages.
    pub(super) fn resolve(&self, features: &[&str], kernel: &'static str) -> Result<Self> {
        let (mut indices, mut used_indices, mut included_columns) = (Vec::new(), HashSet::new(), Vec::new());
        for selector in &self.selectors {
            match selector.excluded_selector(features) {
                Some(excluded) => used_indices.extend(excluded.find_columns(features, kernel)?),
                None => included_columns.push(selector.find_columns(features, kernel)?),
            }
        }
        if included_columns.is_empty() {
            included_columns.push((0..features.len()).collect());
        }
        indices.extend(included_columns.into_iter().flatten().filter(|index| used_indices.insert(*index)));
        if indices.is_empty() {
            let (name, hint) = (self.to_string(), "; the exclusions leave no column".to_string());
            return Err(Error::NoSuchFeature { kernel, name, hint });
        }
        let columns = ColumnIndices { input_count: features.len(), indices: indices.into() };
        Ok(Self { selectors: self.selectors.clone(), indices: Some(columns) })
    }
}

impl ColumnSelector {
    /// Returns the columns to exclude, whose name follows `!`. Returns `None` if a feature has the
    /// whole name, including the `!`.
    fn excluded_selector(&self, features: &[&str]) -> Option<Self> {
        match self {
            Self::NameOrPattern(name) if names::position(features, name).is_none() => {
                name.strip_prefix('!').map(|name| Self::NameOrPattern(name.to_string()))
            }
            _ => None,
        }
    }

    fn find_columns(&self, features: &[&str], kernel: &'static str) -> Result<Vec<usize>> {
        let missing_error =
            |name: &str| Error::NoSuchFeature { kernel, name: name.to_string(), hint: names::hint(features, name) };
        let position = |name: &str| names::position(features, name).ok_or_else(|| missing_error(name));
        match self {
            Self::NameOrPattern(name) => {
                match (
                    names::position(features, name),
                    names::list_columns(features, name),
                    names::category_columns(features, name),
                ) {
                    (Some(index), ..) => Ok(vec![index]),
                    (None, items, _) if !items.is_empty() => Ok(items),
                    (None, _, values) if !values.is_empty() => Ok(values),
                    _ => {
                        let pattern = glob::Pattern::new(name).map_err(|_| missing_error(name))?;
                        let columns = features.iter().enumerate();
                        let matches: Vec<_> =
                            columns.filter(|(_, name)| pattern.matches(name)).map(|(i, _)| i).collect();
                        if matches.is_empty() { Err(missing_error(name)) } else { Ok(matches) }
                    }
                }
            }
            Self::Range(first, last) => {
                let (first_index, last_index) = (position(first)?, position(last)?);
                if first_index > last_index {
                    return Err(Error::ReversedRange { kernel, first: first.clone(), last: last.clone() });
                }
                Ok((first_index..=last_index).collect())
            }
        }
    }
}

impl ColumnIndices {
    pub(super) fn len(&self) -> usize {
        self.indices.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.indices.iter().copied()
    }
}

impl Embedding for ColumnIndices {
    fn image_len(&self, d: usize) -> usize {
        assert_eq!(d, self.input_count, "the columns were looked up among other features");
        self.indices.len()
    }

    fn apply<T: Real>(&self, x: &[T], image: &mut [T]) {
        for (image, &column) in image.iter_mut().zip(&*self.indices) {
            *image = x[column];
        }
    }

    fn pull_back<T: Real>(&self, _: &[T], _: &[T], image_gradient: &[T], gradient: &mut [T]) {
        gradient.fill(T::ZERO);
        for (&derivative, &column) in image_gradient.iter().zip(&*self.indices) {
            gradient[column] = derivative;
        }
    }

    /// Returns the frequencies of the chosen columns. Other columns have frequency 0, because their
    /// length scale is infinite.
    fn spectrum(&self, spectrum: Option<Spectrum>) -> Option<Spectrum> {
        let spectrum = spectrum?;
        let mut lengths = vec![f64::INFINITY; self.input_count];
        for (i, &column) in self.indices.iter().enumerate() {
            lengths[column] = spectrum.length_scale(i);
        }
        Some(Spectrum { length_scales: lengths, ..spectrum })
    }
}

impl Kernel {
    /// Returns the expression on sparse rows that are some of the features of each row: `features`
    /// of all `feature_count`, in the layout of [`kpass::sparse`]. The text of the expression shows
    /// `name`, the column of the sparse rows.
    ///
    /// # Errors
    /// [`Error::SparseUnsupported`], as for [`resolve_for_rows`](Self::resolve_for_rows).
    #[doc(hidden)]
    pub fn on_sparse_rows(
        &self,
        name: &str,
        features: Range<usize>,
        feature_count: usize,
        column_count: usize,
    ) -> Result<Self> {
        let columns = ColumnSelection::of_range(name, features, feature_count);
        let mut restrict =
            |base_kernel: &BaseKernel| Ok(BaseKernel { columns: Some(columns.clone()), ..base_kernel.clone() });
        let no_names: [&str; 0] = [];
        self.resolve_for_rows(&no_names, Some(column_count))?.0.map_base_kernels(&mut restrict).map(Self)
    }
}

/// Returns whether a character needs no quotes in a name.
pub(super) fn is_bare_name_char(c: char) -> bool {
    !c.is_whitespace() && !",()[]\"".contains(c)
}

impl fmt::Display for ColumnSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.selectors.iter().map(ColumnSelector::to_string).collect::<Vec<_>>()[..] {
            [part] => f.write_str(part),
            parts => write!(f, "[{}]", parts.join(", ")),
        }
    }
}

impl fmt::Display for ColumnSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameOrPattern(name) => quote_name(name).fmt(f),
            Self::Range(first, last) => write!(f, "{}..{}", quote_name(first), quote_name(last)),
        }
    }
}

/// Returns a name that parses back: quoted if it contains special characters, with quotes doubled.
fn quote_name(name: &str) -> String {
    let has_dots = name.contains("..") || name.starts_with('.') || name.ends_with('.');
    if !name.is_empty() && !has_dots && name.chars().all(is_bare_name_char) {
        return name.to_string();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}
