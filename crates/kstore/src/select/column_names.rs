//! Resolves names and patterns to columns. A name or pattern after a leading `!` excludes columns.

use super::{ColumnRequest, Selection};
use crate::schema::{Kind, Schema};
use crate::{Error, Result, table::Table};
use std::collections::{HashMap, HashSet};

/// The pattern of all columns that are features by default.
const DEFAULT_FEATURES: &str = "*";

type IndexByName<'s> = HashMap<&'s str, usize>;

impl Table {
    /// Returns the column names of a comma-separated list. `pieces` are the parts between
    /// commas; if several pieces together are the name of a column that contains commas, they are
    /// joined.
    ///
    /// ```
    /// let folder = tempfile::tempdir().unwrap();
    /// let path = folder.path().join("rows.csv");
    /// std::fs::write(&path, "\"lat, lon\",y\n1,2\n").unwrap();
    /// let table = kstore::Table::open(&[path])?;
    /// assert_eq!(table.join_names(&["lat", " lon", "y"].map(String::from)), ["lat, lon", "y"]);
    /// # Ok::<(), kstore::Error>(())
    /// ```
    #[doc(hidden)]
    pub fn join_names(&self, pieces: &[String]) -> Vec<String> {
        // chosen: column names with more commas are unlikely, and each piece costs a lookup
        const MAX_PIECES: usize = 8;
        let (index_by_name, mut remaining, mut names) = (self.schema().index_by_name(), pieces, Vec::new());
        while !remaining.is_empty() {
            let mut piece_counts = 1..=remaining.len().min(MAX_PIECES);
            let piece_count =
                piece_counts.find(|count| index_by_name.contains_key(&*remaining[..*count].join(","))).unwrap_or(1);
            names.push(remaining[..piece_count].join(","));
            remaining = &remaining[piece_count..];
        }
        names
    }

    /// Returns the names of the columns that match names and patterns, each once, without the
    /// columns that a `!` excludes. Unlike features, the columns may have any type. If there are
    /// only exclusions, returns all other columns.
    ///
    /// # Errors
    /// A name or pattern that matches no column.
    #[doc(hidden)]
    pub fn matching_columns(&self, patterns: &[String]) -> Result<Vec<String>> {
        let (columns, index_by_name) = (&self.schema().columns, self.schema().index_by_name());
        let patterns = &self.join_names(patterns);
        let (included, mut excluded_or_seen) = self.split_exclusions(patterns, &index_by_name)?;
        let matching = match included[..] {
            [] if !patterns.is_empty() => (0..columns.len()).collect(),
            _ => included
                .into_iter()
                .map(|text| self.resolve_pattern(text, &index_by_name))
                .collect::<Result<Vec<_>>>()?
                .concat(),
        };
        Ok(matching
            .into_iter()
            .filter(|index| excluded_or_seen.insert(*index))
            .map(|at| columns[at].name.clone())
            .collect())
    }

    /// Rejects lags of a selection whose features include sparse rows, before lags are computed.
    ///
    /// # Errors
    /// [`Error::WrongType`] for the column of sparse rows; a pattern that matches no column.
    #[doc(hidden)]
    pub fn check_lagged_features(&self, selection: &Selection) -> Result<()> {
        if selection.lags.is_none() || !self.schema().has_sparse() {
            return Ok(());
        }
        // names of lags match no column yet
        let exists = |text: &&String| self.matching_columns(std::slice::from_ref(*text)).is_ok();
        let existing: Vec<String> = selection.features.iter().filter(exists).cloned().collect();
        let names = match existing.is_empty() && selection.features.is_empty() {
            true => self.schema().columns.iter().map(|column| column.name.clone()).collect(),
            false if existing.is_empty() => Vec::new(),
            false => self.matching_columns(&existing)?,
        };
        let is_feature = |column: &usize| {
            let name = &self.schema().columns[*column].name;
            self.schema().sparse_shape(*column).is_some() && names.contains(name) && !selection.keep.contains(name)
        };
        match (0..self.schema().columns.len()).find(is_feature) {
            Some(column) => {
                let name = &self.schema().columns[column].name;
                let expected = format!(
                    "sparse rows cannot be combined with past values; leave out `lags` and `rolling`, exclude {name:?} \
                     (`features`), or read an svmlight file without `sparse`"
                );
                Err(self.wrong_type_error(column, &expected))
            }
            None => Ok(()),
        }
    }

    /// Returns the columns of a name, of a list column, or of a pattern.
    fn resolve_pattern(&self, text: &str, index_by_name: &IndexByName<'_>) -> Result<Vec<usize>> {
        let schema = self.schema();
        if let Some(column) = index_by_name.get(text) {
            return Ok(vec![*column]);
        }
        let list_columns = schema.list_columns(text);
        if !list_columns.is_empty() {
            return Ok(list_columns);
        }
        let pattern = glob::Pattern::new(text).map_err(|_| self.no_such_column_error(text))?;
        let indexed_columns = schema.columns.iter().enumerate();
        let matching: Vec<usize> =
            indexed_columns.filter(|(_, column)| pattern.matches(&column.name)).map(|(index, _)| index).collect();
        if matching.is_empty() { Err(self.no_such_column_error(text)) } else { Ok(matching) }
    }

    /// Splits names into the included names and patterns, and the excluded columns. If a column's
    /// own name begins with `!`, that name includes the column.
    fn split_exclusions<'n>(
        &self,
        names: &'n [String],
        index_by_name: &IndexByName<'_>,
    ) -> Result<(Vec<&'n str>, HashSet<usize>)> {
        let (mut included, mut excluded) = (Vec::new(), HashSet::new());
        for name in names {
            match name.strip_prefix('!').filter(|_| !index_by_name.contains_key(name.as_str())) {
                Some(exclusion) => excluded.extend(self.resolve_pattern(exclusion, index_by_name)?),
                None => included.push(name.as_str()),
            }
        }
        Ok((included, excluded))
    }

    /// Returns the columns to copy to the output. A column that no output format can hold is an
    /// error if it is named, and is skipped if a pattern matches it. A pattern also skips sparse
    /// columns.
    pub(crate) fn resolve_kept_columns(&self, names: &[String]) -> Result<Vec<usize>> {
        let columns = &self.schema().columns;
        let is_storable = |index: usize| !matches!(columns[index].kind, Kind::Other(_));
        let (index_by_name, names) = (self.schema().index_by_name(), self.join_names(names));
        let (included, mut excluded_or_seen) = self.split_exclusions(&names, &index_by_name)?;
        let mut kept_columns = Vec::new();
        for text in included {
            let matching = match index_by_name.get(text) {
                Some(index) if is_storable(*index) => vec![*index],
                Some(index) => {
                    let expected = "only numbers, booleans, times, text, bytes and sparse rows can be kept; remove the column from `keep`";
                    return Err(self.wrong_type_error(*index, expected));
                }
                None => {
                    let kept_by_pattern =
                        |index: &usize| is_storable(*index) && self.schema().sparse_shape(*index).is_none();
                    self.resolve_pattern(text, &index_by_name)?.into_iter().filter(kept_by_pattern).collect()
                }
            };
            kept_columns.extend(matching.into_iter().filter(|index| excluded_or_seen.insert(*index)));
        }
        Ok(kept_columns)
    }

    /// Returns the feature columns that names and patterns select. A named column is a feature even
    /// if it has another role, such as group or filter. A named column of `never_features`
    /// (targets, the class, the weight) is an error.
    pub(crate) fn resolve_features(
        &self,
        role_columns: &[usize],
        never_features: &[usize],
        request: &ColumnRequest<'_>,
    ) -> Result<Vec<usize>> {
        let (names, index_by_name) = (self.join_names(&request.selection.features), self.schema().index_by_name());
        let (included, mut excluded_or_seen) = self.split_exclusions(&names, &index_by_name)?;
        let included = if included.is_empty() { vec![DEFAULT_FEATURES] } else { included };
        let mut features = Vec::new();
        for name in included {
            let columns = match index_by_name.get(name).copied() {
                Some(column) if never_features.contains(&column) => {
                    let is_weight = request.selection.weight.as_ref().is_some_and(|weight| weight == name);
                    let role = if is_weight { "the column of weights" } else { "the target" };
                    let expected = format!("it is {role}, which cannot be a feature too; remove it from `features`");
                    return Err(Error::Syntax { what: "`features`", text: name.to_string(), expected });
                }
                Some(column) => {
                    if !request.encodes(self, column) {
                        self.expect_feature(column)?;
                    }
                    vec![column]
                }
                None if name == DEFAULT_FEATURES => self.default_features(role_columns, request)?,
                None => match self.schema().list_columns(name) {
                    list_columns if list_columns.is_empty() => {
                        self.matching_features(name, role_columns, &index_by_name, request)?
                    }
                    list_columns => list_columns.into_iter().filter(|column| !role_columns.contains(column)).collect(),
                },
            };
            features.extend(columns.into_iter().filter(|column| excluded_or_seen.insert(*column)));
        }
        if features.is_empty() {
            let why = format!("`features` {} selects no column; name at least one feature", names.join(","));
            return Err(self.empty_error(why));
        }
        Ok(features)
    }

    /// Returns the columns that match a pattern, have no other role, and are numeric or requested
    /// categories.
    fn matching_features(
        &self,
        pattern: &str,
        role_columns: &[usize],
        index_by_name: &IndexByName<'_>,
        request: &ColumnRequest<'_>,
    ) -> Result<Vec<usize>> {
        let Schema { columns, label_column, .. } = self.schema();
        let is_possible_feature = |index: &usize| {
            *label_column != Some(*index) && (columns[*index].kind.is_numeric() || request.encodes(self, *index))
        };
        let matching = self
            .resolve_pattern(pattern, index_by_name)?
            .into_iter()
            .filter(|index| is_possible_feature(index) && !role_columns.contains(index));
        let matching: Vec<usize> = matching.collect();
        if matching.is_empty() { Err(self.no_such_column_error(pattern)) } else { Ok(matching) }
    }
}
